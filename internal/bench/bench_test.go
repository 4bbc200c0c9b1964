package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// The figures of so small a run mean nothing; that there are any means that the
// benchmark still works.
func TestASmallRunPrintsEveryFigure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL and builds the program")
	}
	if _, err := exec.LookPath("initdb"); err != nil && os.Getenv(pgtest.EnvBin) == "" {
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
			testproc.Missing(t, pgtest.EnvRequire, "no PostgreSQL server programs found")
		}
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"-records", "300", "-entries", "300", "-settled", "300", "-rounds", "1"}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"records/s", "µs a record", "MiB", "a whole pass", "the bulk statements", "ratio", "beside       300 settled"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestBadSizesAreRefused(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-rounds", "0"}, &out); err == nil {
		t.Error("-rounds 0 was taken")
	}
}

func TestFigures(t *testing.T) {
	if got := thousands(1234567); got != "1,234,567" {
		t.Errorf("thousands: %s", got)
	}
	if got := thousands(12); got != "12" {
		t.Errorf("thousands: %s", got)
	}
	if got := median([]float64{5, 1, 3}); got != 3 {
		t.Errorf("median of three: %v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of four: %v", got)
	}
}
