package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const here, named, home = "reconcile.toml", "elsewhere/named.toml", "home/reconcile/reconcile.toml"
	cases := map[string]struct {
		files     []string
		flag, env string
		want      string // "" where none is found
		wantErr   string
	}{
		"the flag wins over all":              {files: []string{here, named, home}, flag: named, env: here, want: named},
		"then the environment":                {files: []string{here, named, home}, env: named, want: named},
		"then the working folder":             {files: []string{here, home}, want: here},
		"then the user's config folder":       {files: []string{home}, want: home},
		"none: the defaults hold":             {},
		"a flag that names nothing":           {files: []string{here}, flag: "nope.toml", wantErr: "--config nope.toml: no such file"},
		"an environment that names nothing":   {files: []string{here}, env: "nope.toml", wantErr: "RECONCILE_CONFIG nope.toml: no such file"},
		"a flag that names a folder":          {files: []string{named}, flag: "elsewhere", wantErr: "is a folder"},
		"an empty environment variable is no": {files: []string{here}, env: "", want: here},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for _, f := range c.files {
				files[f] = ""
			}
			write(t, files)
			wd, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_CONFIG_HOME", filepath.Join(wd, "home"))
			want := c.want
			if want == home {
				want = filepath.Join(wd, home)
			}
			got, found, err := Find(c.flag, environ("RECONCILE_CONFIG", c.env))
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("got error %v, want %q", err, c.wantErr)
				}
				return
			}
			if err != nil || got != want || found != (want != "") {
				t.Errorf("got %q, %v, %v; want %q", got, found, err, want)
			}
		})
	}
}

// Whether there is a config is not known then: no default may stand in for it.
func TestAConfigFolderThatCannotBeReadIsAMistake(t *testing.T) {
	write(t, map[string]string{"home": "a file"})
	t.Setenv("XDG_CONFIG_HOME", mustAbs(t, "home"))
	_, _, err := Find("", environ())
	if err == nil || !strings.Contains(err.Error(), "cannot be looked for: ") || !strings.HasSuffix(err.Error(), "; name the config with --config") {
		t.Errorf("got %v", err)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func TestLedgerURL(t *testing.T) {
	abs := filepath.Join(string(filepath.Separator)+"var", "lib", "r.db")
	cases := map[string]struct {
		flag, env, config string
		want              string
	}{
		"the flag wins":                        {"sqlite:flag.db", "sqlite:env.db", `url = "sqlite:config.db"`, "sqlite:flag.db"},
		"then the environment":                 {"", "sqlite:env.db", `url = "sqlite:config.db"`, "sqlite:env.db"},
		"the config's file is beside it":       {"", "", `url = "sqlite:config.db"`, "sqlite:conf/config.db"},
		"the default is beside the config":     {"", "", "", "sqlite:conf/reconcile.db"},
		"an absolute file stays":               {"", "", `url = "sqlite:` + abs + `"`, "sqlite:" + abs},
		"parameters stay":                      {"", "", `url = "sqlite:a.db?mode=ro"`, "sqlite:conf/a.db?mode=ro"},
		"a database in memory stays":           {"", "", `url = "sqlite::memory:"`, "sqlite::memory:"},
		"PostgreSQL stays":                     {"", "", `url = "postgres://u@h/db"`, "postgres://u@h/db"},
		"a password may hold what ends a host": {"", "", `url = "postgres://u:${PW}@h/db?sslmode=disable"`, "postgres://u:a%2Fb%23%40c%25@h/db?sslmode=disable"},
		"an encoded password stays":            {"", "", `url = "postgres://u:${ENC}@h/db"`, "postgres://u:a%2Fb@h/db"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			write(t, map[string]string{"conf/reconcile.toml": "[ledger]\n" + c.config})
			env := environ("RECONCILE_LEDGER", c.env, "PW", "a/b#@c%", "ENC", "a%2Fb")
			cfg, err := Load("conf/reconcile.toml", env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := LedgerURL(c.flag, env, cfg)
			if err != nil || got != filepath.ToSlash(c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	if got, err := LedgerURL("", environ(), Defaults()); err != nil || got != "sqlite:reconcile.db" {
		t.Errorf("without config: got %q, %v", got, err)
	}
	for _, bad := range []string{"reconcile.db", "mysql://u:hunter2@h/db", "sqlite:", "postgres//x", "://"} {
		_, err := LedgerURL(bad, environ(), Defaults())
		if err == nil || !strings.Contains(err.Error(), "--ledger: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestRedactURL(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"no credential":           {"sqlite:reconcile.db", "sqlite:reconcile.db"},
		"a password":              {"postgres://ada:s3cret@h:5432/db?sslmode=require", "postgres://ada:[redacted]@h:5432/db?sslmode=require"},
		"a user alone":            {"postgres://ada@h/db", "postgres://ada@h/db"},
		"a password as parameter": {"postgres://h/db?user=ada&password=s3cret&x=1", "postgres://h/db?user=ada&password=[redacted]&x=1"},
		"a token as parameter":    {"https://h/p?access_token=s3cret", "https://h/p?access_token=[redacted]"},
		"an at sign in the user":  {"smtps://a@b:s3cret@h", "smtps://a@b:[redacted]@h"},
		"a password with a slash": {"postgres://ada:12/3@h/db", "[redacted]"},
		"one that does not parse": {"postgres://ada:s3 cret%zz@h/db", "[redacted]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RedactURL(c.in); got != c.want {
				t.Errorf("%q: got %q, want %q", c.in, got, c.want)
			}
		})
	}
}
