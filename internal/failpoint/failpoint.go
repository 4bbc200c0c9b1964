// Package failpoint is a test device: named points in the send sequence where a
// test makes the process die, stop or wait. It is compiled in always, so that
// what is tested is what is released, and does nothing unless the environment
// variable RECONCILE_FAILPOINTS is set when the process starts:
//
//	RECONCILE_FAILPOINTS="after-started=kill:0.01;at-wire=stop:0.005"
//
// The actions are kill (SIGKILL to itself), stop (SIGSTOP to itself: somebody
// else must send SIGCONT) and sleep:DURATION; each may end in :CHANCE, from 0
// to 1, and without one it happens every time. Before it acts a point writes
// one line to stderr, "failpoint NAME: ACTION", by which a test counts.
package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Env is the environment variable that sets the points.
const Env = "RECONCILE_FAILPOINTS"

// point is what one point does.
type point struct {
	action string // kill, stop or sleep
	wait   time.Duration
	chance float64
}

// points is nil when the device is off.
var points = mustParse(os.Getenv(Env))

func mustParse(s string) map[string]point {
	ps, err := parse(s)
	if err != nil {
		panic(err) // whoever sets it is testing, and must not believe that it works
	}
	return ps
}

func parse(s string) (map[string]point, error) {
	if s == "" {
		return nil, nil
	}
	ps := map[string]point{}
	for item := range strings.SplitSeq(s, ";") {
		name, rest, ok := strings.Cut(item, "=")
		parts := strings.Split(rest, ":")
		p := point{action: parts[0], chance: 1}
		parts = parts[1:]
		var err error
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%s: %q is not NAME=ACTION", Env, item)
		case p.action == "sleep" && len(parts) > 0:
			if p.wait, err = time.ParseDuration(parts[0]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", Env, item, err)
			}
			parts = parts[1:]
		case p.action != "kill" && p.action != "stop":
			return nil, fmt.Errorf("%s: %q: the actions are kill, stop and sleep:DURATION", Env, item)
		}
		if len(parts) == 1 {
			p.chance, err = strconv.ParseFloat(parts[0], 64)
		}
		if err != nil || len(parts) > 1 || !(p.chance >= 0 && p.chance <= 1) {
			return nil, fmt.Errorf("%s: %q: the chance is a number from 0 to 1", Env, item)
		}
		ps[name] = p
	}
	return ps, nil
}

// Hit is a point. Where the device is off it costs a comparison.
func Hit(name string) {
	if points == nil {
		return
	}
	p, ok := points[name]
	if !ok || p.chance < 1 && rand.Float64() >= p.chance {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", name, p.action)
	switch p.action {
	case "sleep":
		time.Sleep(p.wait)
	case "kill":
		kill()
		select {} // nothing behind this point runs
	case "stop":
		stop()
	}
}

func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill() // of ourselves: cannot fail
	}
}
