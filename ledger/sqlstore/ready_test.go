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
