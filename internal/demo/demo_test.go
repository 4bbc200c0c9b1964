package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program builds reconcile and returns a Command that runs it.
func program(t *testing.T) func(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "reconcile")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/reconcile")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return func(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			return exit.ExitCode()
		case err != nil:
			t.Errorf("reconcile %s: %v", strings.Join(args, " "), err)
			return 1
		}
		return 0
	}
}

// The numbers are counted at the billing system, not read from the ledger.
func TestDemoEndsWithOneInvoicePerAction(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the billing system's lag, some fifteen seconds")
	}
	var out bytes.Buffer
	start := time.Now()
	dir := t.TempDir()
	n, err := run(t.Context(), Options{Out: &out, Command: program(t), Dir: filepath.Join(dir, "kept")})
	t.Logf("%s, %+v\n%s", time.Since(start).Round(100*time.Millisecond), n, out.String())
	if err != nil {
		t.Fatal(err)
	}
	want := Numbers{Actions: 200, Failed: 85, Lost: 43, Wanted: 192, Once: 192, Escalated: 7, Passes: n.Passes}
	if n != want {
		t.Errorf("got  %+v\nwant %+v", n, want)
	}
	for _, name := range []string{configName, ledgerName, resultsName} {
		if _, err := os.Stat(filepath.Join(dir, "kept", name)); err != nil {
			t.Errorf("%s was to be kept: %v", name, err)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("colour where none was asked for")
	}
	checkReadme(t, out.String())
	for _, want := range []string{"192 exist once, 0 are missing, 0 exist twice", "confirmed_by_lookup", "VAT_ID_INVALID"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q", want)
		}
	}
}

func TestDemoRefusesAFolderInUse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ledgerName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := run(t.Context(), Options{Out: io.Discard, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "name an empty folder") {
		t.Errorf("got %v", err)
	}
}

func TestDemoFailsWhenAnInvoiceIsThereTwice(t *testing.T) {
	n := Numbers{Wanted: 192, Once: 191, Twice: 1}
	if n.Right() {
		t.Errorf("%+v is not right", n)
	}
}
