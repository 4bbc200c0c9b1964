package sqlstore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

// TestOpenSaysWhatToDo: each error of opening names the ledger and the remedy,
// and no password.
func TestOpenSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(junk, []byte(strings.Repeat("these are notes, and no ledger\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ url, want string }{
		"no scheme":              {"reconcile.db", "write sqlite:FILE or postgres://"},
		"nothing":                {"", "write sqlite:FILE or postgres://"},
		"another database":       {"mysql://h/d", "write sqlite:FILE or postgres://"},
		"no file":                {"sqlite:", "write sqlite:FILE"},
		"in memory":              {"sqlite::memory:", "write sqlite:FILE"},
		"missing folder":         {"sqlite:" + filepath.Join(dir, "none", "x.db"), "does not exist; create it first"},
		"a folder":               {"sqlite:" + dir, "is a folder"},
		"no ledger":              {"sqlite:" + junk, "the file is no SQLite database"},
		"not a URL":              {"postgres://u:s3cret@h:port/d", "percent-encode special characters"},
		"no database":            {"postgres://u:s3cret@127.0.0.1:1", "names no database"},
		"server not there":       {"postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable", "check host, port and that the server runs"},
		"host not there":         {"postgres://u:s3cret@host.invalid/d", "check host, port and that the server runs"},
		"unknown setting of TLS": {"postgres://u:s3cret@127.0.0.1:1/d?sslmode=perhaps", "sslmode"},
	} {
		_, err := sqlstore.Open(t.Context(), c.url, sqlstore.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the password is shown: %v", name, err)
		}
		if !strings.HasPrefix(err.Error(), "open ledger ") {
			t.Errorf("%s: %v names no ledger", name, err)
		}
	}
}

func TestServerThatRefuses(t *testing.T) {
	u, err := url.Parse(pgtest.DB(t))
	if err != nil {
		t.Fatal(err)
	}
	missing, wrong, tls := *u, *u, *u
	tls.RawQuery = "sslmode=require" // the test server has none
	missing.Path = "/nowhere"
	wrong.User = url.UserPassword(u.User.Username(), "s3cret")
	for want, u := range map[string]url.URL{"create it, then run reconcile migrate": missing, "check user and password": wrong, "add ?sslmode=disable": tls} {
		if _, err := sqlstore.Open(t.Context(), u.String(), sqlstore.Options{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	ledgerURL := file(t)
	open(t, ledgerURL, sqlstore.Options{})
	if err := os.Chmod(strings.TrimPrefix(ledgerURL, "sqlite:"), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.Open(t.Context(), ledgerURL, sqlstore.Options{}); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("read-only: %v", err)
	}
}

func TestOddFileNames(t *testing.T) {
	for _, name := range []string{"with blank.db", "a?b#c%41.db", "ä.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, "sqlite:"+path, sqlstore.Options{})
		if err := s.SetMeta(t.Context(), "x", "y"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: the ledger lies elsewhere: %v", name, err)
		}
	}
	t.Chdir(t.TempDir())
	s := open(t, "sqlite:here.db", sqlstore.Options{})
	if err := s.SetMeta(t.Context(), "x", "y"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("here.db"); err != nil {
		t.Error(err)
	}
}

func TestClosedTwice(t *testing.T) {
	s, err := sqlstore.Open(t.Context(), file(t), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Entry(t.Context(), "k"); err == nil || errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a closed store: %v", err)
	}
}
