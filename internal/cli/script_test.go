package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/recovery-ledger/reconcile/connectors/connectortest"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect; review the diff")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"reconcile": func() {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		os.Exit(Main(signals))
	}})
}

// scripts lists every script below testdata/script. A file there that is no
// script fails the test: it would be forgotten.
func scripts(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("testdata/script", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case filepath.Ext(path) != ".txtar":
			return fmt.Errorf("%s is no script; its name must end in .txtar", path)
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	return files
}

// runScripts runs scripts, with more in their environment.
func runScripts(t *testing.T, files []string, more func(*testscript.Env) error) {
	testscript.Run(t, testscript.Params{
		Files:              files,
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "home", ".config"))
			e.Setenv("CRM_TOKEN", connectortest.Token)
			e.Values[systemKey{}] = &started{}
			return more(e)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"system":    system,
			"json":      jsonIs,
			"passes":    passes,
			"settled":   settled,
			"interrupt": interrupt,
		},
	})
}

func TestScripts(t *testing.T) {
	runScripts(t, scripts(t), func(*testscript.Env) error { return nil })
}

// TestScriptsOnPostgres runs scripts that work on the ledger once more, on
// PostgreSQL. What a script does with a ledger of its own (--ledger) stays as
// it is: the script of export moves to another one.
func TestScriptsOnPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	pgtest.DB(t) // skips, aloud, where there is no PostgreSQL
	var files []string
	for _, f := range scripts(t) {
		switch strings.TrimSuffix(filepath.Base(f), ".txtar") {
		case "import", "export", "pass", "interrupt", "lanes", "review": // those that write most
			files = append(files, f)
		}
	}
	runScripts(t, files, func(e *testscript.Env) error {
		url := pgtest.DB(t)
		e.Setenv("RECONCILE_LEDGER", url)
		return sqlstore.Migrate(t.Context(), url, io.Discard)
	})
}

// TestPostgresLedgerHasToBeMigrated: an old schema ends a command and says what
// to run.
func TestPostgresLedgerHasToBeMigrated(t *testing.T) {
	url := pgtest.DB(t)
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	code, stderr := run(t, &out, "entries", "--ledger", url)
	if code != ExitFailed || !strings.Contains(stderr, "reconcile migrate") {
		t.Errorf("entries before migrate: exit %d, %s", code, stderr)
	}
	code, _ = run(t, &out, "doctor", "--ledger", url)
	if n := strings.Count(out.String(), "reconcile migrate"); code != ExitFailed || n != 1 {
		t.Errorf("doctor before migrate: exit %d, %d hints in %s", code, n, out.String())
	}
	if code, stderr = run(t, &out, "migrate", "--ledger", url); code != ExitDone {
		t.Fatalf("migrate: exit %d, %s", code, stderr)
	}
	out.Reset()
	if code, stderr = run(t, &out, "entries", "--ledger", url, "--output", "json"); code != ExitDone || out.String() != "[]\n" {
		t.Errorf("entries after migrate: exit %d, %q, %s", code, out.String(), stderr)
	}
}

// exits CODE COMMAND ARGS… runs a command that must end with this very code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// codeOf runs a command and returns its exit code.
func codeOf(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// passes SECONDS N runs passes until N entries are settled and nothing is left
// to be looked at.
func passes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: passes SECONDS N")
	}
	seconds, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.Now().Add(time.Duration(seconds) * time.Second)
	for {
		exits(ts, false, []string{"0", "reconcile"})
		exits(ts, false, []string{"0", "reconcile", "entries", "--state", "settled", "--output", "json"})
		settled := 0
		for i := 0; ; i++ {
			next := valueAt(ts, ts.ReadFile("stdout"), strconv.Itoa(i)+".next_at")
			if next == "nothing" {
				break
			}
			if next == "null" {
				settled++
			}
		}
		if strconv.Itoa(settled) == args[1] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d entries are settled, want %s", settled, args[1])
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// settled KEY waits until somebody has settled an entry.
func settled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: settled KEY")
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		exits(ts, false, []string{"0", "reconcile", "show", args[0], "--output", "json"})
		if valueAt(ts, ts.ReadFile("stdout"), "state") == "settled" {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is not settled", args[0])
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// interrupt KIND CODE ARGS… runs reconcile, sends SIGINT as soon as the system
// has got a request of this kind, and compares the exit code. stdout and stderr
// are in the files out and err.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt KIND CODE ARGS…")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	s := ts.Value(systemKey{}).(*started).system
	kind := connectortest.Kind(args[0])
	before := s.Requests(kind)

	self, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(self, args[2:]...)
	cmd.Args[0] = "reconcile" // how testscript knows which command to be
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "CRM_TOKEN", "RECONCILE_LEDGER"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); s.Requests(kind) == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			ts.Fatalf("no %s request came\n%s", kind, errs.String())
		}
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		ts.Fatalf("it did not stop")
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), errs.Bytes(), 0o600))
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, out.String(), errs.String())
	}
}

// json FILE PATH VALUE compares one value of a JSON text: counts.sent,
// 0.action_key, or PATH.len for the length of a list.
func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] json FILE PATH VALUE")
	}
	got := valueAt(ts, ts.ReadFile(args[0]), args[1])
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

func valueAt(ts *testscript.TestScript, text, path string) string {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		ts.Fatalf("not JSON: %v\n%s", err, text)
	}
	for _, part := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			member, ok := x[part]
			if !ok {
				ts.Fatalf("%s: there is no %q", path, part)
			}
			v = member
		case []any:
			if part == "len" {
				v = len(x)
				continue
			}
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return "nothing"
			}
			v = x[i]
		default:
			return "nothing"
		}
	}
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	ts.Check(err)
	return string(b)
}

type systemKey struct{}

// system start            starts an outside system, and writes reconcile.toml for it
// system add REF [STATUS] puts a record in
// system fault KIND WHAT… lets requests go wrong: cut, swallow, commit, status=N, times=N, key=TEXT,
//
//	retry-after=N, delay=D
//
// system heal             ends all faults
// system effects REF N    compares how many records there are
func system(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: system start|add|fault|heal|effects …")
	}
	if args[0] == "start" {
		startSystem(ts)
		return
	}
	s, ok := ts.Value(systemKey{}).(*started)
	if !ok || s.system == nil {
		ts.Fatalf("system start comes first")
	}
	switch args[0] {
	case "add":
		r := connectortest.Record{Reference: args[1]}
		if len(args) > 2 {
			r.Status = args[2]
		}
		s.system.Add(r)
	case "fault":
		f := connectortest.Fault{On: connectortest.Kind(args[1])}
		for _, a := range args[2:] {
			name, value, _ := strings.Cut(a, "=")
			n, _ := strconv.Atoi(value)
			switch name {
			case "cut":
				f.Cut = true
			case "swallow":
				f.Swallow = true
			case "commit":
				f.Commit = true
			case "status":
				f.Status = n
			case "times":
				f.Times = n
			case "key":
				f.Key = value
			case "retry-after":
				f.Header = http.Header{"Retry-After": {value}}
			case "delay":
				d, err := time.ParseDuration(value)
				ts.Check(err)
				f.Delay = d
			default:
				ts.Fatalf("unknown fault %q", a)
			}
		}
		s.system.Fault(f)
	case "heal":
		s.system.Heal()
	case "effects":
		want, err := strconv.Atoi(args[2])
		ts.Check(err)
		if got := s.system.Effects(args[1]); got != want {
			ts.Fatalf("%d records with reference %q, want %d", got, args[1], want)
		}
	default:
		ts.Fatalf("unknown: system %s", args[0])
	}
}

// started holds the system of one script; there is a place for it from the
// start, because a script cannot add values.
type started struct{ system *connectortest.System }

const scriptPolicy = `
[ledger]
url = "sqlite:reconcile.db"

[owners.revops]
name = "RevOps"

[[policy]]
match = { connector = "crm" }
retry = { max_attempts = 3, max_age = "72h", backoff = { kind = "fixed", base = "100ms", jitter = 0.0 } }
settle = { for = "72h", every = "200ms", pending_every = "200ms" }
after_max_attempts = { owner = "revops" }

`

func startSystem(ts *testscript.TestScript) {
	s := connectortest.NewSystem()
	ts.Check(s.Start())
	ts.Value(systemKey{}).(*started).system = s
	ts.Defer(func() {
		s.Close()
		for _, v := range s.Violations() {
			ts.Logf("unsafe request: %s", v)
		}
	})
	text := strings.NewReplacer(connectortest.Token, "${CRM_TOKEN}", `absent_spacing = '1s'`, `absent_spacing = '200ms'`,
		`lands_within = '1s'`, `lands_within = '200ms'`).Replace(s.TOML("crm"))
	ts.Check(os.WriteFile(ts.MkAbs("reconcile.toml"), []byte(scriptPolicy+text), 0o600))
	ts.Setenv("CRM_URL", s.URL())
}
