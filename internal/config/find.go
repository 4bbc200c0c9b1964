package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/recovery-ledger/reconcile/internal/textfile"
)

// fileName is the config's name wherever it is looked for.
const fileName = "reconcile.toml"

// Find says which config to read: the --config flag, else RECONCILE_CONFIG,
// else ./reconcile.toml, else reconcile/reconcile.toml in the user's config
// folder. A file that was named and is not there is an error; with nothing
// named and nothing there, found is false and the defaults hold.
func Find(flag string, env func(string) (string, bool)) (path string, found bool, err error) {
	if flag != "" {
		return named(flag, "--config")
	}
	if p, ok := env("RECONCILE_CONFIG"); ok && p != "" {
		return named(p, "RECONCILE_CONFIG")
	}
	candidates := []string{fileName}
	// Without a home there is no such folder, and that is no mistake.
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "reconcile", fileName))
	}
	for _, p := range candidates {
		switch info, err := os.Stat(p); {
		case err == nil && !info.IsDir():
			return p, true, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", false, fmt.Errorf("%s: cannot be looked for: %w; name the config with --config", p, pathCause(err))
		}
	}
	return "", false, nil
}

func named(path, by string) (string, bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("%s %s: no such file; correct the name, or write one with \"reconcile init\"", by, path)
	case err != nil:
		return "", false, fmt.Errorf("%s %s: cannot be read: %s", by, path, textfile.Trouble(err))
	case info.IsDir():
		return "", false, fmt.Errorf("%s %s: is a folder; name the file in it", by, path)
	}
	return path, true, nil
}

// LedgerURL says which ledger to open: the --ledger flag, else
// RECONCILE_LEDGER, else the config's url. A relative SQLite file is relative
// to the config's folder when the config names it (the default included), and
// to the working folder when flag or environment do. Its credentials join
// those that c.Secrets returns.
func LedgerURL(flag string, env func(string) (string, bool), c *Config) (string, error) {
	if flag != "" {
		c.secrets = append(c.secrets, credentials(flag)...)
		return flag, prefixed("--ledger", checkLedgerURL(flag))
	}
	if u, ok := env("RECONCILE_LEDGER"); ok && u != "" {
		c.secrets = append(c.secrets, credentials(u)...)
		return u, prefixed("RECONCILE_LEDGER", checkLedgerURL(u))
	}
	u := c.Ledger.URL.Reveal()
	file, ok := strings.CutPrefix(u, sqliteScheme)
	if !ok || filepath.IsAbs(file) || strings.HasPrefix(file, ":memory:") {
		return u, nil
	}
	return sqliteScheme + filepath.Join(c.Dir, file), nil
}

func prefixed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

const sqliteScheme = "sqlite:"

// checkLedgerURL never shows the address: it may carry a password.
func checkLedgerURL(s string) error {
	if file, ok := strings.CutPrefix(s, sqliteScheme); ok {
		if strings.TrimSpace(file) == "" {
			return errors.New(`names no file; write "sqlite:reconcile.db"`)
		}
		return nil
	}
	if u, err := url.Parse(s); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		if strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "" {
			return errors.New("names no database; write postgres://user:password@host:5432/database")
		}
		return nil
	}
	return errors.New(`is not the address of a ledger; write "sqlite:FILE" or "postgres://…"`)
}

// secretParam finds credentials among the parameters of an address.
var secretParam = regexp.MustCompile(`(?i)([?&][^=&]*(?:password|passwd|secret|token|key|sig)[^=&]*=)[^&#]*`)

// RedactURL takes the password and whatever looks like a credential out of an
// address, for people. An address that cannot be read is redacted whole.
func RedactURL(s string) string {
	if _, err := url.Parse(s); err != nil {
		return redacted
	}
	scheme, rest, hasHost := strings.Cut(s, "://")
	if hasHost {
		end := len(rest)
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			end = i
		}
		authority, path := rest[:end], rest[end:]
		at := strings.LastIndexByte(authority, '@')
		if at < 0 && strings.Contains(path, "@") {
			return redacted // a password with a slash in it looks like this
		}
		if user, _, has := strings.Cut(authority[:max(at, 0)], ":"); has {
			authority = user + ":" + redacted + authority[at:]
		}
		s = scheme + "://" + authority + path
	}
	return secretParam.ReplaceAllString(s, "${1}"+redacted)
}

// credentials returns the password in an address and what else RedactURL takes
// out of it. Each is given decoded, as it shows up elsewhere.
func credentials(s string) []string {
	u, err := url.Parse(s)
	if err != nil {
		return nil
	}
	var found []string
	if p, ok := u.User.Password(); ok {
		found = append(found, p)
	}
	for name, values := range u.Query() {
		if secretParam.MatchString("?" + name + "=") {
			found = append(found, values...)
		}
	}
	return found
}
