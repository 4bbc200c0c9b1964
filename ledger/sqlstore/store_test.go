package sqlstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/ledgertest"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

// suite runs the store suite on ledgers that url makes, one for each test.
func suite(t *testing.T, url func(t *testing.T) string) {
	var mu sync.Mutex
	urls := map[string]string{}
	ledgertest.Run(t, func(t *testing.T, clock func() time.Time) ledger.Store {
		mu.Lock()
		defer mu.Unlock()
		if urls[t.Name()] == "" {
			urls[t.Name()] = url(t)
		}
		s, err := sqlstore.Open(t.Context(), urls[t.Name()], sqlstore.Options{Clock: clock, AutoMigrate: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestSQLite(t *testing.T) {
	suite(t, func(t *testing.T) string { return "sqlite:" + t.TempDir() + "/ledger.db" })
}

func TestPostgres(t *testing.T) {
	suite(t, func(t *testing.T) string { return pgtest.DB(t) })
}
