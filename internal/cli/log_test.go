package cli

import (
	"bytes"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
)

// TestWarningsOfTheLedgerAreSeen: a role that may not tell one server from
// another is not a mistake, but somebody has to know.
func TestWarningsOfTheLedgerAreSeen(t *testing.T) {
	server := pgtest.Start(t, nil)
	ledgerURL := server.DB(t)
	admin, err := url.Parse(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(ledgerURL)
	if err != nil {
		t.Fatal(err)
	}
	admin.Path = u.Path
	db, err := sql.Open("postgres", admin.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	if code, stderr := run(t, &out, "migrate", "--ledger", ledgerURL); code != ExitDone {
		t.Fatalf("migrate: exit %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"entries"}, {"daemon", "--explain"}} {
		code, stderr := run(t, &out, append(args, "--ledger", ledgerURL)...)
		if code != ExitDone || !strings.Contains(stderr, "level=WARN") || !strings.Contains(stderr, "system identifier") {
			t.Errorf("%v: exit %d, stderr %q", args, code, stderr)
		}
	}
}

// TestLogOfACommand: its result tells what it did; the log adds warnings only.
func TestLogOfACommand(t *testing.T) {
	var errs bytes.Buffer
	log := (&app{Streams: Streams{Err: &errs}}).warnings()
	log.Info("transition")
	log.Warn("leases not renewed")
	if got := errs.String(); !strings.Contains(got, "leases not renewed") || strings.Contains(got, "transition") {
		t.Errorf("stderr %q", got)
	}
}
