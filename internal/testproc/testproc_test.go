package testproc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func group(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup("testproc", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func shell(t *testing.T, g *Group, script string) *Process {
	t.Helper()
	p, err := g.Start(g.Command("/bin/sh", "-c", script), "log", syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// printed waits until the process has printed a line.
func printed(t *testing.T, p *Process) string {
	t.Helper()
	err := p.WaitReady(20*time.Second, func(context.Context) error {
		if !strings.Contains(p.LogTail(), "\n") {
			return errors.New("nothing printed yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(p.LogTail())
}

// gone waits until no process has the id, or one that is dead and not reaped.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func TestKillEndsTheChildrenToo(t *testing.T) {
	p := shell(t, group(t), `sleep 600 & echo $!; wait`)
	child, err := strconv.Atoi(printed(t, p))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	gone(t, child)
}

func TestCloseEndsWhatRunsAndRemovesTheFolder(t *testing.T) {
	g := group(t)
	p := shell(t, g, `exec sleep 600`)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, p.Pid)
	if _, err := os.Stat(g.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s after Close: %v", g.Dir, err)
	}
	if _, err := g.Start(g.Command("/bin/sh", "-c", "exit"), "log", syscall.SIGTERM); err == nil {
		t.Error("a closed group started a process")
	}
}

func TestWhatIgnoresItsSignalIsKilledAndReported(t *testing.T) {
	p := shell(t, group(t), `trap '' TERM; echo ready; while :; do sleep 1; done`)
	printed(t, p)
	err := p.Stop(syscall.SIGTERM, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("error %v, want one that says it did not end", err)
	}
	gone(t, p.Pid)
}

func TestAProgramThatEndsTooEarlySaysWhatItPrinted(t *testing.T) {
	p := shell(t, group(t), `echo no such setting; exit 3`)
	err := p.WaitReady(20*time.Second, func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "no such setting") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want status and output", err)
	}
}

func TestAnEndedProcessIsForgottenByTheWatchdog(t *testing.T) {
	g := group(t)
	p := shell(t, g, `exit`)
	<-p.Done()
	if left, _ := filepath.Glob(filepath.Join(g.Dir, "run", "*")); len(left) != 0 {
		t.Errorf("notes left for the watchdog: %v", left)
	}
}

type fakeTest struct{ skipped, failed string }

func (f *fakeTest) Helper()           {}
func (f *fakeTest) Name() string      { return "TestFake" }
func (f *fakeTest) Skip(args ...any)  { f.skipped, _ = args[0].(string); panic(f) }
func (f *fakeTest) Fatal(args ...any) { f.failed, _ = args[0].(string); panic(f) }

func TestAMissingProgramSkipsUnlessTheEnvironmentRequiresIt(t *testing.T) {
	for _, c := range []struct {
		name, env       string
		skipped, failed bool
	}{
		{"nothing set: skips", "", true, false},
		{"set to 0: skips", "0", true, false},
		{"set to 1: fails", "1", false, true},
	} {
		t.Setenv("TESTPROC_REQUIRE", c.env)
		f := &fakeTest{}
		func() {
			defer func() { _ = recover() }()
			Missing(f, "TESTPROC_REQUIRE", "no such program")
		}()
		if (f.skipped != "") != c.skipped || (f.failed != "") != c.failed {
			t.Errorf("%s: skipped %q, failed %q", c.name, f.skipped, f.failed)
		}
	}
}
