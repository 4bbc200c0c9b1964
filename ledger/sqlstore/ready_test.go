package sqlstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestReadySaysWhatIsMissing(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("a ledger that is as it should be: %v", err)
		}
		if s.d == postgres {
			for value, want := range map[string]string{"on": "takes no writes", "off": ""} {
				name := ledgerURL[strings.LastIndexByte(ledgerURL, '/')+1:]
				name, _, _ = strings.Cut(name, "?")
				if _, err := s.w.ExecContext(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+value); err != nil {
					t.Fatal(err)
				}
				again := connected(t, ledgerURL)
				if err := again.Ready(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("read-only %s: %v, want %q", value, err, want)
				}
				if value == "on" {
					// The role must be able to turn it off again.
					if _, err := s.w.ExecContext(t.Context(), "SET default_transaction_read_only = off"); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if _, err := s.w.ExecContext(t.Context(), "INSERT INTO reconcile_schema (version, migrated_at) VALUES (9999, 0)"); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, ledger.ErrNewerSchema) {
			t.Errorf("a newer schema: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); err == nil {
			t.Error("a closed ledger is ready")
		}
	})
}

func TestWaitingReadsNoSettledEntry(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		for _, text := range []string{
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20003)
			INSERT INTO entry (action_key, state, effect, class, outcome, settled_by, settled_at, due_at, flags)
			SELECT 'k' || CAST(i AS text), CASE WHEN i > 20000 THEN 'escalated' ELSE 'settled' END, 'unknown', 'escalated',
			       CASE WHEN i > 20000 THEN '' ELSE 'applied' END, CASE WHEN i > 20000 THEN '' ELSE 'look' END,
			       CASE WHEN i > 20000 THEN 0 ELSE i END,
			       CASE WHEN i <= 20000 THEN 0 WHEN i = 20001 THEN 1 ELSE 4000000000000000 END, CASE WHEN i = 7 THEN 'duplicate' ELSE '' END
			  FROM n`, "ANALYZE",
		} {
			if _, err := s.w.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		escalated, overdue, flagged, err := s.Waiting(t.Context())
		if err != nil || escalated != 3 || overdue != 1 || flagged != 1 {
			t.Errorf("escalated %d, overdue %d, flagged %d, %v", escalated, overdue, flagged, err)
		}
		plan := planOf(t, s, "waiting", args{"now": int64(1)})
		for _, line := range plan {
			if strings.Contains(line, "Seq Scan on entry") || strings.Contains(line, "SCAN e") && !strings.Contains(line, "entry_overdue") && !strings.Contains(line, "entry_flagged") {
				t.Errorf("it reads the whole table:\n%s", strings.Join(plan, "\n"))
			}
		}
	})
}
