// Package pgtest gives tests a real PostgreSQL: a fresh database for each test
// (DB), a private server that can be stopped and killed (Start), and a
// transaction pooler in front of either (Pooler).
//
// The server is the one that TEST_POSTGRES_URL names, or else a private one,
// started once per test binary from the programs found on the machine, as
// another user when the tests run as root. It sorts text by the rules of
// English, as many servers do, and not by bytes: a query that forgot to name
// its collation shows. Nothing remains when the test binary ends, even when it
// is killed (see testproc).
//
// Where there is no PostgreSQL a test is skipped, aloud; with
// RECONCILE_REQUIRE_POSTGRES=1, as in make test and in CI, it fails.
//
// Call these functions outside a synctest bubble.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// The environment that pgtest reads.
const (
	// EnvURL names a server to use instead of a private one: a postgres:// URL
	// of a role that may create databases.
	EnvURL = "TEST_POSTGRES_URL"
	// EnvBin names the folder of the server programs (initdb, postgres), to
	// test with another version than the newest one found.
	EnvBin = "TEST_POSTGRES_BIN"
	// EnvRequire set to 1 makes a test fail that would be skipped because
	// PostgreSQL or PgBouncer is missing.
	EnvRequire = "RECONCILE_REQUIRE_POSTGRES"
)

// startPatience is how long a server may take to answer. Sixty seconds: a start
// takes a fifth of one, recovery after a kill under load a few.
const startPatience = 60 * time.Second

// errNoPrograms means that no PostgreSQL server is installed.
var errNoPrograms = errors.New("no PostgreSQL server programs found: install postgresql-15, or set " + EnvURL + " or " + EnvBin)

// The role that owns test databases, and is no superuser: what the product
// would not be allowed to do elsewhere fails here too.
const role = "reconcile"

// common is the server shared by the tests of this binary.
var common = sync.OnceValues(func() (*Server, error) {
	if u := os.Getenv(EnvURL); u != "" {
		return outside(u)
	}
	return New(nil)
})

// DB returns the URL of a fresh, empty database, dropped when the test ends.
func DB(t testing.TB) string {
	t.Helper()
	s, err := common()
	check(t, err)
	return s.DB(t)
}

// Start starts a private server that the test may stop and kill, with settings
// (as in postgresql.conf) that win over the defaults of New. It ends with the
// test.
func Start(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	s, err := New(settings)
	check(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close PostgreSQL server: %v", err)
		}
	})
	return s
}

// Reused returns the URL of a database that the tests of this binary use one
// after the other, for suites of many small tests: a fresh one costs more than
// most of them. prepare is given a new one once, and clean each that a test gives
// back; where it fails, or the test has failed, the database is not used again.
// All calls of a binary are to use the same two functions. On a server from
// outside each test has a fresh database, as with DB: nothing may stay there.
func Reused(t testing.TB, prepare, clean func(dbURL string) error) string {
	t.Helper()
	s, err := common()
	check(t, err)
	if s.group == nil {
		u := s.DB(t)
		if err := prepare(u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := s.takeFree()
	if u == "" {
		if u, err = s.NewDB(); err == nil {
			err = prepare(u)
		}
		if err != nil {
			t.Fatalf("prepare test database: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if err := clean(u); err != nil {
			t.Errorf("clean test database: %v", err)
			return
		}
		s.mu.Lock()
		s.free = append(s.free, u)
		s.mu.Unlock()
	})
	return u
}

// takeFree takes a database that a test has given back; "" for none.
func (s *Server) takeFree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return ""
	}
	u := s.free[n-1]
	s.free = s.free[:n-1]
	return u
}

func check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoPrograms) {
		testproc.Missing(t, EnvRequire, err.Error())
	}
	if err != nil {
		t.Fatalf("start PostgreSQL server: %v", err)
	}
}

// Server is a PostgreSQL server on 127.0.0.1.
type Server struct {
	admin *url.URL // role that creates databases
	owner *url.URL // role that owns them

	// Of a private server only.
	group *testproc.Group
	bin   string
	args  []string
	port  int

	mu   sync.Mutex
	proc *testproc.Process // nil while stopped
	free []string          // databases given back, see Reused
}

// New starts a private server outside a test, as a benchmark command needs it;
// the caller closes it. Unless settings say otherwise it does not wait for the
// disk (fsync=off), which keeps what was committed when the server is killed,
// and loses it only with the machine.
func New(settings map[string]string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	group, err := testproc.NewGroup("pgtest", true)
	if err != nil {
		return nil, err
	}
	s := &Server{group: group, bin: bin}
	if err := s.create(settings); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return s, nil
}

// outside wraps a server that somebody else runs.
func outside(raw string) (*Server, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New(EnvURL + ": not a postgres:// URL; write postgres://user:password@host:port/database?sslmode=disable")
	}
	return &Server{admin: u, owner: u}, nil
}

// Programs is the folder of the server programs, links followed, for tests that
// run servers of their own: a primary and its standby.
func Programs() (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
	return filepath.Dir(initdb), err
}

// programs finds the folder of the server programs.
func programs() (string, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			return "", fmt.Errorf("%s: %w", EnvBin, err)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb", // Debian
		"/usr/pgsql-*/bin/initdb",          // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin/initdb",
		"/usr/local/opt/postgresql@*/bin/initdb",
		"/usr/local/pgsql/bin/initdb", // built from source
	} {
		m, _ := filepath.Glob(pattern)
		found = append(found, m...)
	}
	if len(found) == 0 {
		return "", errNoPrograms
	}
	// The newest, as the versions at hand all have two digits.
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

func (s *Server) create(settings map[string]string) error {
	password := rand.Text()
	pwfile := filepath.Join(s.group.Dir, "password")
	if err := os.WriteFile(pwfile, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.group.Own(pwfile); err != nil {
		return err
	}
	data := filepath.Join(s.group.Dir, "data")
	initdb := func(locale ...string) error {
		args := []string{"-D", data, "-U", "postgres", "-E", "UTF8", "--no-sync", "-A", "password", "--pwfile", pwfile}
		return s.group.Run(filepath.Join(s.bin, "initdb"), append(args, locale...)...)
	}
	if err := initdb("--locale=C", "--locale-provider=icu", "--icu-locale=en-US"); err != nil {
		// Before version 15, or built without ICU.
		if err := errors.Join(os.RemoveAll(data), initdb("--locale=C")); err != nil {
			return err
		}
	}

	conf := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "300", // tests in parallel, each with a pool or two
		"shared_buffers":          "64MB",
		"fsync":                   "off",
		"full_page_writes":        "off",
	}
	maps.Copy(conf, settings)
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		s.args = append(s.args, "-c", k+"="+conf[k])
	}

	// A free port can be taken by somebody else before the server has it.
	for range 5 {
		port, err := testproc.FreePort()
		if err != nil {
			return err
		}
		s.port = port
		s.admin = s.at(url.UserPassword("postgres", password))
		s.owner = s.at(url.UserPassword(role, password))
		err = s.Restart()
		if err == nil {
			return s.exec(`CREATE ROLE ` + role + ` LOGIN PASSWORD '` + password + `'`)
		}
		if !strings.Contains(err.Error(), "could not bind") && !strings.Contains(err.Error(), "could not create any TCP/IP sockets") {
			return err
		}
	}
	return errors.New("no port that stayed free was found for PostgreSQL")
}

// at is the URL of the database postgres for a user.
func (s *Server) at(user *url.Userinfo) *url.URL {
	return &url.URL{
		Scheme: "postgres", User: user, Path: "/postgres", RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
	}
}

// Admin is the URL of a superuser in the database postgres (of the given role,
// on a server from outside).
func (s *Server) Admin() string { return s.admin.String() }

var databases atomic.Int64

// DB returns the URL of a fresh, empty database of this server, owned by a role
// without further rights and dropped when the test ends.
func (s *Server) DB(t testing.TB) string {
	t.Helper()
	u, name, err := s.newDB()
	if err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() {
		if s.group != nil && !s.running() {
			return // gone with its server
		}
		if err := s.exec(`DROP DATABASE IF EXISTS "` + name + `" WITH (FORCE)`); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return u
}

// NewDB returns the URL of a fresh, empty database, for use outside a test. It
// goes with its server.
func (s *Server) NewDB() (string, error) {
	u, _, err := s.newDB()
	return u, err
}

func (s *Server) newDB() (dbURL, name string, err error) {
	// On a server from outside other binaries make databases too.
	name = fmt.Sprintf("pgtest_%d_%d_%s", os.Getpid(), databases.Add(1), strings.ToLower(rand.Text()[:6]))
	// template0, because nobody can be connected to it, and a copy needs that.
	err = s.exec(`CREATE DATABASE "` + name + `" OWNER "` + s.owner.User.Username() + `" TEMPLATE template0`)
	if err != nil {
		return "", "", err
	}
	u := *s.owner
	u.Path = "/" + name
	return u.String(), name, nil
}

// exec runs one statement as the administrator, on a connection of its own, so
// that no pool outlives a killed server.
func (s *Server) exec(query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	db, err := sql.Open("postgres", s.admin.String())
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, query)
	return errors.Join(err, db.Close())
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil
}

// take hands out the server process and notes that there is none from now on.
func (s *Server) take() *testproc.Process {
	if s.group == nil {
		panic("pgtest: a server given by " + EnvURL + " is not ours to stop")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proc
	s.proc = nil
	return p
}

// Stop ends the server as an administrator would: transactions are cut off,
// what was committed is written out. Its address stays reserved for Restart.
func (s *Server) Stop() error {
	p := s.take()
	if p == nil {
		return nil
	}
	// SIGINT is PostgreSQL's fast shutdown. Source: manual, "Shutting Down the Server".
	return p.Stop(syscall.SIGINT, startPatience)
}

// Kill ends the server and all its sessions at once, as a crash would.
func (s *Server) Kill() {
	if p := s.take(); p != nil {
		p.Kill()
	}
}

// Restart starts the server again, after stopping it where it runs, on the same
// port and with the same data, and returns when it answers.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	args := append([]string{"-D", filepath.Join(s.group.Dir, "data"), "-p", strconv.Itoa(s.port)}, s.args...)
	// SIGQUIT is PostgreSQL's immediate shutdown: it ends its children first.
	p, err := s.group.Start(s.group.Command(filepath.Join(s.bin, "postgres"), args...), "postgres.log", syscall.SIGQUIT)
	if err != nil {
		return err
	}
	err = p.WaitReady(startPatience, func(ctx context.Context) error { return ping(ctx, s.admin.String()) })
	if err != nil {
		return errors.Join(err, p.Stop(syscall.SIGQUIT, startPatience))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc = p
	return nil
}

// Close ends a private server and removes its data. A second Close does nothing.
func (s *Server) Close() error {
	s.take()
	return s.group.Close()
}

func ping(ctx context.Context, dbURL string) error {
	db, err := sql.Open("postgres", dbURL)
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}
