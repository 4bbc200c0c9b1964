package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// buildDir is where the program under test is built.
var buildDir string

// binary builds it, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "reconcile")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/reconcile")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "reconcile-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program runs the built program in a folder with a config of its own.
type program struct {
	bin string
	dir string
	env []string
}

func newProgram(t *testing.T, config string, env ...string) *program {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{bin: bin, dir: t.TempDir(), env: append(os.Environ(), env...)}
	if err := os.WriteFile(filepath.Join(p.dir, "reconcile.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// exec runs one command and returns its standard output and exit code.
func (p *program) exec(ctx context.Context, args ...string) (out []byte, code int, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err == nil && code != 0 && code != 4 {
		stdout.WriteString(stderr.String())
	}
	return stdout.Bytes(), code, err
}

// run runs one command and returns its standard output. Exit codes other than
// those allowed fail the test.
func (p *program) run(t *testing.T, allowed []int, args ...string) []byte {
	t.Helper()
	out, code, err := p.exec(t.Context(), args...)
	if err == nil && !slices.Contains(allowed, code) {
		err = fmt.Errorf("exit %d\n%s", code, tail(out))
	}
	if err != nil {
		t.Fatalf("reconcile %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func tail(b []byte) string {
	const most = 4000
	if len(b) > most {
		return "…" + string(b[len(b)-most:])
	}
	return string(b)
}

// json runs a command with --output json and reads what it prints into out.
func (p *program) json(t *testing.T, allowed []int, out any, args ...string) {
	t.Helper()
	b := p.run(t, allowed, append(args, "--output", "json")...)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("reconcile %s: %v\n%s", strings.Join(args, " "), err, tail(b))
	}
}

// entry is what the contract says of an entry, as far as the proof reads it.
type entry struct {
	ActionKey    string     `json:"action_key"`
	State        string     `json:"state"`
	Effect       string     `json:"effect"`
	Outcome      string     `json:"outcome"`
	Class        string     `json:"class"`
	Flags        []string   `json:"flags"`
	AttemptCount int        `json:"attempt_count"`
	LastClass    string     `json:"last_class"`
	NextAt       *time.Time `json:"next_at"`
	RemoteID     string     `json:"remote_id"`
	Owner        string     `json:"owner"`
	DueAt        *time.Time `json:"due_at"`
	Allowed      []string   `json:"allowed"`
	Reason       string     `json:"reason"`
}

// moving says whether a pass may still change the entry by itself.
func (e entry) moving() bool {
	switch e.State {
	case "escalated":
		return false
	case "settled":
		return e.NextAt != nil // it was resent and is looked at once more
	}
	return true
}

// tally is the JSON of a pass.
type tally struct {
	RunID  string         `json:"run_id"`
	Counts map[string]int `json:"counts"`
}

// pass runs reconcile --since 24h once. A system that could not be asked is no
// failure here: some faults stay on the wire.
func (p *program) pass(t *testing.T) tally {
	t.Helper()
	var ta tally
	p.json(t, []int{0, 4}, &ta, "--since", "24h")
	return ta
}

// passes runs two of them beside each other, and adds up their counts.
func (p *program) passes(t *testing.T) map[string]int {
	t.Helper()
	var tas [2]tally
	var errs [2]error
	var wg sync.WaitGroup
	for i := range tas {
		wg.Go(func() {
			out, code, err := p.exec(t.Context(), "--since", "24h", "--output", "json")
			switch {
			case err != nil:
			case code != 0 && code != 4:
				err = fmt.Errorf("exit %d\n%s", code, tail(out))
			default:
				err = json.Unmarshal(out, &tas[i])
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("two passes beside each other: %v", err)
	}
	sum := map[string]int{}
	for _, ta := range tas {
		for k, n := range ta.Counts {
			sum[k] += n
		}
	}
	return sum
}

// entries reads the whole ledger.
func (p *program) entries(t *testing.T) map[string]entry {
	t.Helper()
	var es []entry
	p.json(t, []int{0}, &es, "entries")
	m := make(map[string]entry, len(es))
	for _, e := range es {
		m[e.ActionKey] = e
	}
	return m
}

// settle runs passes, two at a time, until nothing moves, and returns their
// counts added up.
func (p *program) settle(t *testing.T, within time.Duration) map[string]int {
	t.Helper()
	sum := map[string]int{}
	for deadline := time.Now().Add(within); ; {
		for k, n := range p.passes(t) {
			sum[k] += n
		}
		left := 0
		var sample entry
		for _, e := range p.entries(t) {
			if e.moving() {
				left, sample = left+1, e
			}
		}
		if left == 0 {
			return sum
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d entries still move after %s, such as %+v", left, within, sample)
		}
		time.Sleep(300 * time.Millisecond) // the wait is the other system's lag, not ours to fake
	}
}
