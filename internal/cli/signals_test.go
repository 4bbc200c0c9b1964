package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const module = "github.com/recovery-ledger/reconcile"

// binary builds the program as it is delivered.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("short: it builds the program")
	}
	path := filepath.Join(t.TempDir(), "reconcile")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, module+"/cmd/reconcile")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// startedBinary is a process of the program that has come as far as taking
// signals: the trace of its package initialisation says so. before are the
// packages that came first; rest reads what else it says on stderr.
func startedBinary(t *testing.T, path string, args ...string) (cmd *exec.Cmd, before []string, rest func() string) {
	t.Helper()
	cmd = exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "GODEBUG=inittrace=1"}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of no effect where it has ended
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "init "), " ")
		switch {
		case err != nil:
			t.Fatalf("it took no signals: %v", err)
		case name == module+"/internal/cli/early":
			return cmd, before, func() string {
				var b bytes.Buffer
				_, _ = io.Copy(&b, lines)
				return b.String()
			}
		}
		before = append(before, name)
	}
}

// TestASignalWhileTheProgramStarts: it ends the program as one that comes later
// does. Before signals are taken, only the Go runtime and what taking them needs
// are initialised.
func TestASignalWhileTheProgramStarts(t *testing.T) {
	path := binary(t)
	t.Run("stops a pass", func(t *testing.T) {
		stopped := 0
		for i := range 25 {
			after := time.Duration(i) * 8 * time.Millisecond
			sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[i%2]
			cmd, before, rest := startedBinary(t, path, "--since", "24h", "--ledger", "sqlite:l.db")
			for _, name := range before {
				// modernc.org is the SQLite driver. Packages without imports may come
				// first, whatever they are.
				if strings.HasPrefix(name, module) || strings.HasPrefix(name, "modernc.org/") || name == "net" {
					t.Fatalf("%s is initialised before signals are taken", name)
				}
			}
			time.Sleep(after) // the moment is what is tested
			_ = cmd.Process.Signal(sig)
			stderr := rest()
			_ = cmd.Wait()
			switch code := cmd.ProcessState.ExitCode(); {
			case code == ExitInterrupted && strings.Contains(stderr, "\nreconcile: interrupted\n"):
				stopped++
			case code == ExitDone: // it was through already
			default:
				t.Errorf("%v, %v after signals are taken: %v\n%s", sig, after, cmd.ProcessState, stderr)
			}
			again := exec.Command(path, "entries", "--ledger", "sqlite:l.db")
			again.Dir = cmd.Dir
			if out, err := again.CombinedOutput(); err != nil {
				t.Errorf("%v after signals are taken: the ledger is left unusable: %v\n%s", after, err, out)
			}
		}
		if stopped == 0 {
			t.Error("no signal came early enough")
		}
	})
	t.Run("stops a daemon with exit code 0, as a later one does", func(t *testing.T) {
		for i := range 5 {
			after := time.Duration(i) * 15 * time.Millisecond
			cmd, _, rest := startedBinary(t, path, "daemon", "--ledger", "sqlite:l.db")
			time.Sleep(after) // the moment is what is tested
			_ = cmd.Process.Signal(syscall.SIGTERM)
			stderr := rest()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v after signals are taken: %v\n%s", after, err, stderr)
			}
		}
	})
}
