// Command chaos is the crash campaign: the real program, over real databases,
// against a provider that lies, while processes are killed and stopped, disks
// fill, and databases restart and fail over. When the storm is over it counts
// at the provider what really happened, prints that, and fails unless the
// promises of docs/reliability.md hold.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	actions  int
	daemons  int
	ledgers  string
	seed     uint64
	every    time.Duration
	atLeast  time.Duration
	failover bool
	fast     bool
	json     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.IntVar(&o.actions, "actions", 12_000, "actions of each campaign, over all kinds of provider; a third of it in those with stops")
	fs.IntVar(&o.daemons, "daemons", 5, "daemons on one ledger")
	fs.StringVar(&o.ledgers, "campaigns", "sqlite,postgres,sqlite-stops,postgres-stops", "which campaigns; -stops stops processes between check and write, too")
	fs.Uint64Var(&o.seed, "seed", 1, "of the provider's faults")
	fs.DurationVar(&o.every, "every", 250*time.Millisecond, "time between two faults, on average")
	fs.DurationVar(&o.atLeast, "at-least", time.Minute, "each storm blows for so long, even when all is settled")
	fs.BoolVar(&o.failover, "failover", true, "PostgreSQL has a standby and fails over to it")
	fs.BoolVar(&o.fast, "fast-clock", true, "on PostgreSQL one daemon runs on a host whose clock is ten minutes fast")
	fs.StringVar(&o.json, "json", "", "write the results to this file, too")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are flags only; see -h", fs.Arg(0))
	}
	say := func(format string, a ...any) {
		fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, a...)...)
	}
	dir, err := os.MkdirTemp("", "chaos-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	say("building the program")
	t, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if o.fast && strings.Contains(o.ledgers, "postgres") {
		say("building it for a host with a fast clock")
		if err := buildFast(ctx, &t, dir); err != nil {
			return err
		}
	}
	var results []*Result
	for name := range strings.SplitSeq(o.ledgers, ",") {
		c := Campaign{Actions: o.actions, Batch: max(60, o.actions/24), Daemons: o.daemons, Every: o.every, AtLeast: o.atLeast,
			AtMost: 3 * time.Minute, Quiet: 10 * time.Minute, Seed: o.seed, Failover: o.failover, Timings: usual}
		if c.Ledger, c.AtWire = strings.CutSuffix(name, "-stops"); c.AtWire {
			c.Actions, c.Batch = o.actions/3, max(60, o.actions/72)
		}
		switch c.Ledger {
		case "sqlite":
			c.Failover = false
		case "postgres":
		default:
			return fmt.Errorf("-campaigns %q: there are sqlite and postgres, each also with -stops behind it", name)
		}
		r, err := c.Run(ctx, t, say)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return report(out, o.json, results)
}

// usual are the timings of a full run. A provider on this machine takes
// milliseconds; the rest is room for the load of a storm.
var usual = Timings{Call: time.Second, Lands: 2 * time.Second, Visible: 1500 * time.Millisecond, Lease: 2 * time.Second, Window: 4 * time.Minute}

// report prints the tables, and says which promise was broken.
func report(out io.Writer, file string, rs []*Result) error {
	if file != "" {
		b, err := json.MarshalIndent(rs, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(b, '\n'), 0o644) //nolint:gosec // a report, for everybody
		}
		if err != nil {
			return err
		}
	}
	if err := print(out, rs); err != nil {
		return err
	}
	var broken []string
	for _, r := range rs {
		for _, p := range r.Problems {
			fmt.Fprintln(os.Stderr, p)
		}
		broken = append(broken, r.Broken()...)
	}
	if len(broken) > 0 {
		return errors.New("broken promises:\n" + strings.Join(broken, "\n"))
	}
	return nil
}

// build builds the program as it is released.
func build(ctx context.Context, dir string) (tool, error) {
	t := tool{bin: filepath.Join(dir, "reconcile")}
	return t, goBuild(ctx, t.bin)
}

func goBuild(ctx context.Context, bin string, flags ...string) error {
	args := append(append([]string{"build", "-buildvcs=false", "-trimpath", "-o", bin}, flags...), "github.com/recovery-ledger/reconcile/cmd/reconcile")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// buildFast builds the program once more, as it would be on a host whose clock
// is ten minutes fast. The first time takes minutes: everything that knows the
// time is compiled anew.
//
// A process cannot be given another wall clock from outside: the kernel has
// none per process, and a Go program does not read it through a library that
// could be replaced. So this is the same source over a standard library whose
// time.Now is ten minutes ahead; the monotonic clock is untouched.
func buildFast(ctx context.Context, t *tool, dir string) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	b, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	const before, after = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "\tsec += 600\n"
	if strings.Count(string(b), before) != 1 {
		return fmt.Errorf("%s: time.Now does not look as it did in Go 1.26; mend buildFast in internal/chaos", src)
	}
	changed, file := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{src: changed}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(changed, []byte(strings.Replace(string(b), before, before+after, 1)), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	t.fast = filepath.Join(dir, "reconcile-fast")
	return goBuild(ctx, t.fast, "-overlay", file)
}
