package pgtest_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
)

func open(t *testing.T, dbURL string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dbURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec1(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func value[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestEachTestHasAnEmptyDatabaseThatIsDroppedAfterIt(t *testing.T) {
	var first string
	t.Run("uses one", func(t *testing.T) {
		first = pgtest.DB(t)
		second := pgtest.DB(t)
		if first == second {
			t.Fatalf("both calls gave %s", first)
		}
		exec1(t, open(t, first), `CREATE TABLE only_here (id bigint)`)
		tables := `SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'`
		if got := value[int](t, open(t, second), tables); got != 0 {
			t.Errorf("second database has %d tables, want 0", got)
		}
	})
	u, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	left := value[int](t, open(t, pgtest.DB(t)), `SELECT count(*) FROM pg_database WHERE datname = $1`, strings.TrimPrefix(u.Path, "/"))
	if left != 0 {
		t.Errorf("database %s is still there after its test", u.Path)
	}
}

func TestAPrivateServerIsNotOrderedByBytesAndItsOwnerIsNoSuperuser(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Start(t, nil).DB(t))
	if value[int](t, db, `SELECT current_setting('server_version_num')::int`) >= 150000 {
		if !value[bool](t, db, `SELECT 'a' < 'B'`) {
			t.Error("text is ordered by bytes: a query without its own collation would not be noticed")
		}
	}
	if got := value[string](t, db, `SELECT current_setting('is_superuser')`); got != "off" {
		t.Errorf("is_superuser = %s, want off", got)
	}
}

func TestAKilledServerKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, map[string]string{"fsync": "on", "work_mem": "5MB"})
	dbURL := s.DB(t)
	db := open(t, dbURL)
	if got := value[string](t, db, `SHOW fsync`); got != "on" {
		t.Errorf("fsync = %s, want the setting asked for", got)
	}
	exec1(t, db, `CREATE TABLE kept (id bigint)`)
	for name, end := range map[string]func(){
		"killed": s.Kill,
		"stopped": func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		},
	} {
		exec1(t, db, `INSERT INTO kept VALUES (1)`)
		before := value[int](t, db, `SELECT count(*) FROM kept`)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO kept VALUES (2)`); err != nil {
			t.Fatal(err)
		}
		end()
		if err := tx.Commit(); err == nil {
			t.Errorf("%s: commit went through on a server that is gone", name)
		}
		if err := open(t, dbURL).PingContext(t.Context()); err == nil {
			t.Errorf("%s: server still answers", name)
		}
		if err := s.Restart(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := value[int](t, open(t, dbURL), `SELECT count(*) FROM kept`); got != before {
			t.Errorf("%s: %d rows after the restart, want %d", name, got, before)
		}
	}
}

func TestAPoolerChangesSessionsBetweenTransactions(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Pooler(t, pgtest.DB(t))+"&binary_parameters=yes")
	pid := func(tx *sql.Tx) int {
		t.Helper()
		var pid int
		if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	begin := func() *sql.Tx {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	commit := func(tx *sql.Tx) {
		t.Helper()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}

	one, two := begin(), begin()
	first, second := pid(one), pid(two)
	if first == second {
		t.Errorf("two transactions at once share session %d", first)
	}
	if again := pid(one); again != first {
		t.Errorf("session changed within a transaction: %d, then %d", first, again)
	}
	commit(one)
	commit(two)

	db.SetMaxOpenConns(1) // one client from here on
	met := map[int]bool{}
	for range 4 {
		tx := begin()
		met[pid(tx)] = true
		commit(tx)
	}
	if len(met) != 2 || !met[first] || !met[second] {
		t.Errorf("four transactions of one client met the sessions %v, want %d and %d in turn", met, first, second)
	}
}

// A test binary that is killed cannot clean up: this one plays it, below.
func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_PLAY_VICTIM") == "1" {
		s, err := pgtest.New(nil)
		if err != nil {
			os.Stdout.WriteString("error: " + err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(s.Admin() + "\n" + pgtest.Dir(s) + "\n")
		os.Stdout.Close()
		select {}
	}
	os.Exit(m.Run())
}

func TestNothingIsLeftOfAKilledTestBinary(t *testing.T) {
	t.Parallel()
	pgtest.Start(t, nil) // skips where there is no PostgreSQL
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(), "PGTEST_PLAY_VICTIM=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	admin, dir, ok := strings.Cut(strings.TrimSpace(b.String()), "\n")
	if !ok {
		t.Fatalf("victim printed %q", b.String())
	}
	db := open(t, admin)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatalf("server of the victim: %v", err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Stat(dir)
		answers := db.PingContext(ctx) == nil
		if os.IsNotExist(err) && !answers {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("20 s after the kill: server answers: %t, folder %s: %v", answers, dir, err)
		case <-tick.C:
		}
	}
}
