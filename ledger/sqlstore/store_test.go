package sqlstore_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/ledgertest"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

// suite runs the store suite on ledgers that newURL names, one for each test.
func suite(t *testing.T, newURL func(t *testing.T) string) {
	var mu sync.Mutex
	urls := map[string]string{}
	ledgertest.Run(t, func(t *testing.T, clock func() time.Time) ledger.Store {
		mu.Lock()
		defer mu.Unlock()
		if urls[t.Name()] == "" {
			urls[t.Name()] = newURL(t)
		}
		return open(t, urls[t.Name()], sqlstore.Options{Clock: clock, AutoMigrate: true})
	})
}

func open(t *testing.T, ledgerURL string, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), ledgerURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func file(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
}

// raw is a connection beside the store.
func raw(t *testing.T, dbURL string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dbURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// with sets a parameter of a URL.
func with(t *testing.T, dbURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// schemas gives ledgers in schemas of their own of one database: a schema is
// made in a tenth of the time a database takes.
func schemas(t *testing.T, dbURL string) func(t *testing.T) string {
	t.Helper()
	db := raw(t, dbURL)
	n := 0
	return func(t *testing.T) string {
		t.Helper()
		n++
		name := fmt.Sprintf("ledger%d", n)
		if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+name); err != nil {
			t.Fatal(err)
		}
		return with(t, dbURL, "search_path", name)
	}
}

func TestSQLite(t *testing.T) { suite(t, file) }

func TestPostgres(t *testing.T) { suite(t, schemas(t, pgtest.DB(t))) }

func FuzzWalk(f *testing.F) {
	f.Add(uint64(7))
	f.Fuzz(func(t *testing.T, seed uint64) {
		ledgerURL := file(t)
		ledgertest.Walk(t, func(t *testing.T, clock func() time.Time) ledger.Store {
			return open(t, ledgerURL, sqlstore.Options{Clock: clock})
		}, seed)
	})
}
