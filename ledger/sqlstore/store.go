// Package sqlstore is the ledger's store, on SQLite (embedded, the default) and
// on PostgreSQL. The statements are in queries/, the schema is in migrations/.
//
// A new query is a new file in queries/, or a new name in one of them (see
// loadQueries). Whatever reads goes through Store.r, and whatever writes through
// Store.write.
package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/recovery-ledger/reconcile/internal/failpoint"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Options are how a store is opened. The zero value is ready to use.
type Options struct {
	// Clock replaces the database's clock, on both databases; for tests.
	Clock func() time.Time
	// AutoMigrate brings an older PostgreSQL schema up to date. A SQLite
	// ledger always is.
	AutoMigrate bool
	Log         *slog.Logger // nil: discard
}

// Store is a ledger.Store on one database.
type Store struct {
	d       *dialect
	w       *sqlx.DB // writes; on SQLite one connection, on PostgreSQL the same pool as r
	r       *sqlx.DB // reads
	queries map[string]string
	clock   func() time.Time // nil: the database's
	log     *slog.Logger

	seen atomic.Int64 // highest ledger time this process has seen, in microseconds
	kept atomic.Int64 // the one it last stored

	// replaced is the generation at which this process found the database to
	// be another one, plus 1; 0: it has not. See Unsettle.
	replaced atomic.Int64

	closing sync.Once
	closed  error
}

var _ ledger.Store = (*Store)(nil)

// How often a transaction is repeated that the database broke off in favour of
// another (SQLSTATE 40001, 40P01), or that met a key written at the same time.
// Six times, the pauses growing from 5 ms to 160 ms: a third of a second in
// all, a hundred times what a bulk transaction takes.
const (
	repeats    = 6
	firstPause = 5 * time.Millisecond

	// lockedRepeats is how often a transaction is repeated that found the SQLite
	// file held by others for the whole busy timeout.
	lockedRepeats = 2
)

// Open opens the ledger at a URL: sqlite:FILE, or postgres://… . A SQLite
// ledger is created and migrated; of a PostgreSQL one with an older schema (or
// none) the answer is ledger.ErrOldSchema, unless o.AutoMigrate. A newer schema
// is ledger.ErrNewerSchema on both.
func Open(ctx context.Context, ledgerURL string, o Options) (*Store, error) {
	s, err := connect(ctx, ledgerURL, o)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", shown(ledgerURL), err), s.Close())
	}
	return s, nil
}

// Migrate brings the schema of a ledger up to date, creating it where there is
// none, and says on progress what it did. Several processes may do it at once.
func Migrate(ctx context.Context, ledgerURL string, progress io.Writer) error {
	s, err := connect(ctx, ledgerURL, Options{})
	if err != nil {
		return err
	}
	err = s.migrate(ctx, progress)
	if err != nil {
		err = fmt.Errorf("migrate ledger %s: %w", shown(ledgerURL), err)
	}
	return errors.Join(err, s.Close())
}

// shown is a ledger's URL without its password.
func shown(ledgerURL string) string {
	u, err := url.Parse(ledgerURL)
	if err != nil || strings.HasPrefix(ledgerURL, "sqlite:") {
		if i := strings.Index(ledgerURL, "://"); i >= 0 {
			return ledgerURL[:i] + "://…"
		}
		return ledgerURL
	}
	u.RawQuery = ""
	return u.Redacted()
}

// connect opens the pools; nothing is read but on SQLite the file.
func connect(ctx context.Context, ledgerURL string, o Options) (*Store, error) {
	s := &Store{clock: o.Clock, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	scheme, rest, _ := strings.Cut(ledgerURL, ":")
	switch scheme {
	case "sqlite":
		s.d = sqliteDialect
		err = s.connectSQLite(ctx, strings.TrimPrefix(rest, "//"))
	case "postgres", "postgresql":
		s.d = postgres
		err = s.connectPostgres(ctx, ledgerURL)
	default:
		err = errors.New("unknown kind of ledger; write sqlite:FILE or postgres://user:password@host:5432/database")
	}
	if err == nil {
		s.queries, err = loadQueries(s.d)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", shown(ledgerURL), err), s.Close())
	}
	return s, nil
}

func (s *Store) connectSQLite(ctx context.Context, path string) error {
	writer, reader, err := sqliteDSN(path)
	if err != nil {
		return err
	}
	if s.clock == nil {
		s.clock = hostClock
	}
	// A new ledger holds personal data: nobody but its user reads it. The files
	// that SQLite lays beside it take its mode.
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		if err := f.Close(); err != nil {
			return err
		}
	}
	if s.w, err = sqlx.Open("sqlite", writer); err != nil {
		return err
	}
	s.w.SetMaxOpenConns(1) // several writers starve one another
	if s.r, err = sqlx.Open("sqlite", reader); err != nil {
		return err
	}
	s.r.SetMaxOpenConns(8)
	// Five processes that switch a new file to WAL at once do not wait for
	// one another as they do later: ask again.
	for try := 0; ; try++ {
		err = s.w.PingContext(ctx)
		if s.d.fault(err) != faultLocked || try == 50 {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if s.d.fault(err) == faultReadOnly {
		return fmt.Errorf("%s or its folder cannot be written; a ledger needs both (beside the file lie %s-wal and -shm): %w", path, path, err)
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("%s cannot be written; a ledger needs that: %w", path, err)
	} else if err := f.Close(); err != nil {
		return err
	}
	return nil
}

func (s *Store) connectPostgres(ctx context.Context, ledgerURL string) error {
	dsn, err := postgresDSN(ledgerURL)
	if err != nil {
		return err
	}
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return fmt.Errorf("%w; write postgres://user:password@host:5432/database", err)
	}
	s.w = sqlx.NewDb(sql.OpenDB(connector), "postgres")
	s.w.SetMaxOpenConns(20)
	s.w.SetMaxIdleConns(10)
	s.w.SetConnMaxIdleTime(5 * time.Minute)
	s.r = s.w
	if err := s.w.PingContext(ctx); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// prepare brings the schema up to date, or refuses, and notes which server
// this is when nobody did yet.
func (s *Store) prepare(ctx context.Context, o Options) error {
	if s.d == sqliteDialect || o.AutoMigrate {
		if err := s.migrate(ctx, io.Discard); err != nil {
			return err
		}
	} else if err := s.checkSchema(ctx); err != nil {
		return err
	}
	return s.knowServer(ctx)
}

// Close closes the store. A second Close does nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		var errs []error
		if s.r != nil && s.r != s.w {
			errs = append(errs, s.r.Close())
		}
		if s.w != nil {
			errs = append(errs, s.w.Close())
		}
		s.closed = errors.Join(errs...)
	})
	return s.closed
}

// q is a statement by name. It is a mistake in the program to ask for one that
// is not in queries/.
func (s *Store) q(name string) string {
	text, ok := s.queries[name]
	if !ok {
		panic("sqlstore: no query is called " + name)
	}
	return text
}

// args are the named parameters of a statement.
type args map[string]any

// bind names a statement and gives it in the driver's own placeholders.
func (s *Store) bind(name string, a args) (string, []any, error) {
	if a == nil {
		a = args{}
	}
	if _, ok := a["clock"]; !ok {
		a["clock"], a["seen"] = s.clockArg(), s.seen.Load()
	}
	query, list, err := sqlx.Named(s.q(name), map[string]any(a))
	if err != nil {
		return "", nil, fmt.Errorf("query %q: %w", name, err)
	}
	return sqlx.Rebind(s.d.bind, query), list, nil
}

func (s *Store) clockArg() int64 {
	if s.clock == nil {
		return 0
	}
	return micros(s.clock())
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// query runs a statement and hands each row to scan.
func (s *Store) query(ctx context.Context, on queryer, name string, a args, scan func(*sqlx.Rows) error) error {
	query, list, err := s.bind(name, a)
	if err != nil {
		return err
	}
	rows, err := on.QueryxContext(ctx, query, list...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// each hands every row to scan and closes the rows.
func each(rows *sqlx.Rows, scan func(*sqlx.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one runs a statement that returns one row at most.
func (s *Store) one(ctx context.Context, on queryer, name string, a args, dest ...any) (found bool, err error) {
	err = s.query(ctx, on, name, a, func(r *sqlx.Rows) error {
		found = true
		return r.Scan(dest...)
	})
	return found, err
}

// exec runs a statement and says how many rows it changed.
func (s *Store) exec(ctx context.Context, on queryer, name string, a args) (int, error) {
	query, list, err := s.bind(name, a)
	if err != nil {
		return 0, err
	}
	res, err := on.ExecContext(ctx, query, list...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// bulk runs a statement whose parameters are all in its rows fragment.
func (s *Store) bulk(ctx context.Context, tx *txn, name string, l layout, rs rows, scan func(*sqlx.Rows) error) error {
	if rs.n == 0 {
		return nil
	}
	return s.d.bulk(ctx, tx, s.q(name), l, rs, scan)
}

// insert adds rows that are all new.
func (s *Store) insert(ctx context.Context, tx *txn, name string, l layout, rs rows) error {
	if rs.n == 0 {
		return nil
	}
	return s.d.insert(ctx, tx, s.q(name), l, rs)
}

// all reads rows of a layout into structs.
func all[T any](ctx context.Context, s *Store, on queryer, name string, l layout, a args) ([]T, error) {
	var out []T
	var row T
	dest := l.dest(&row)
	err := s.query(ctx, on, name, a, func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		out = append(out, row)
		return nil
	})
	return out, err
}

// txn is a transaction, and the connection that it has to itself.
type txn struct {
	*sqlx.Tx
	conn *sqlx.Conn
}

// write runs f in one transaction, again when the database broke it off in
// favour of another one. Nothing in f may reach outside the database.
func (s *Store) write(ctx context.Context, what string, f func(tx *txn) error) error {
	wait := firstPause
	for try := 1; ; try++ {
		err := s.once(ctx, f)
		if err == nil {
			return nil
		}
		switch k := s.d.fault(err); {
		case try <= repeats && (k == faultTransient || k == faultUnique):
		case try <= lockedRepeats && k == faultLocked: // each has waited for the busy timeout already
		default:
			return fmt.Errorf("%s: %w", what, s.explain(ctx, err))
		}
		// The half that is random keeps two from meeting again and again.
		if err := pause(ctx, wait/2+rand.N(wait/2)); err != nil {
			return fmt.Errorf("%s: %w", what, s.explain(ctx, err))
		}
		wait *= 2
	}
}

func (s *Store) once(ctx context.Context, f func(tx *txn) error) (err error) {
	conn, err := s.w.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(conn.Close())) }()

	var warned atomic.Pointer[pq.Error]
	if s.d == postgres {
		err := conn.Raw(func(dc any) error {
			pq.SetNoticeHandler(dc.(driver.Conn), func(n *pq.Error) {
				if n.Severity == pqerror.SeverityWarning {
					warned.Store(n)
				}
			})
			return nil
		})
		if err != nil {
			return err
		}
		defer func() {
			// A connection that broke meanwhile refuses, and is not used again.
			_ = conn.Raw(func(dc any) error {
				pq.SetNoticeHandler(dc.(driver.Conn), nil)
				return nil
			})
		}()
	}
	begun, err := conn.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	tx := &txn{Tx: begun, conn: conn}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	warned.Store(nil)
	failpoint.Hit("before-commit")
	if err := tx.Commit(); err != nil {
		return err
	}
	failpoint.Hit("after-commit")
	// A commit that warns was done here, but the standby did not confirm it.
	// Source: PostgreSQL 15, src/backend/replication/syncrep.c.
	if w := warned.Load(); w != nil {
		return fmt.Errorf("%w: %s", ledger.ErrNotDurable, w.Message)
	}
	return nil
}

// ignoreDone drops the error of ending what has ended already.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// explain turns a driver's error into one that says what happened and, for a
// person, what to do.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		// The drivers answer a cancelled context each in their own words.
		return errors.Join(ledger.ErrInterrupted, context.Cause(ctx))
	}
	switch s.d.fault(err) {
	case faultCancelled:
		return fmt.Errorf("%w: %w", ledger.ErrInterrupted, err)
	case faultUnique, faultTransient:
		return fmt.Errorf("%w: %w", ledger.ErrConcurrently, err)
	case faultLocked:
		return fmt.Errorf("the ledger is locked by another process; try again when it has ended: %w", err)
	case faultReadOnly:
		return fmt.Errorf("the ledger takes no writes; check the rights of the file, or that the server is no standby: %w", err)
	case faultNoLedger:
		if s.d == postgres {
			return fmt.Errorf("the database does not exist; create it, then run reconcile migrate: %w", err)
		}
		return fmt.Errorf("the file is no SQLite database, or is damaged; name another file, or restore it from a backup: %w", err)
	case faultLogin:
		return fmt.Errorf("the server refused the login; check user and password in the URL: %w", err)
	case faultAway:
		return fmt.Errorf("%w; check host, port and that the server runs: %w", ledger.ErrUnreachable, err)
	case faultBusy:
		return fmt.Errorf("%w; the server is starting, stopping or out of something, so try again when it is not: %w", ledger.ErrUnreachable, err)
	}
	if errors.Is(err, pq.ErrSSLNotSupported) {
		return fmt.Errorf("the server offers no TLS; turn it on there, or, on this host or a network that you trust, add ?sslmode=disable to the URL: %w", err)
	}
	return err
}

// readError explains the error of a read.
func (s *Store) readError(ctx context.Context, what string, err error) error {
	if err == nil || errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%s: %w", what, s.explain(ctx, err))
}

// saw notes a time that the database gave, so that no later one is before it.
func (s *Store) saw(us int64) time.Time {
	for {
		old := s.seen.Load()
		if us <= old {
			break
		}
		if s.seen.CompareAndSwap(old, us) {
			break
		}
	}
	return instant(us)
}

// Now is the ledger's time: the server's on PostgreSQL, this host's on SQLite,
// and never before the highest one seen.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.now(ctx, s.r)
	return now, s.readError(ctx, "read the ledger's time", err)
}

func (s *Store) now(ctx context.Context, on queryer) (time.Time, error) {
	var us int64
	if _, err := s.one(ctx, on, "now", nil, &us); err != nil {
		return time.Time{}, err
	}
	return s.saw(us), nil
}

// durableNow is now, in a transaction whose commit waits for the disk and the
// standbys whatever the server's default.
func (s *Store) durableNow(ctx context.Context, tx *txn) (time.Time, error) {
	var us int64
	var setting string
	if _, err := s.one(ctx, tx, "durable_now", nil, &us, &setting); err != nil {
		return time.Time{}, err
	}
	return s.saw(us), s.keepSeen(ctx, tx, us)
}

// keepSeen stores the highest time seen, about once a second: more often would
// make that row the hottest of all.
func (s *Store) keepSeen(ctx context.Context, tx *txn, us int64) error {
	kept := s.kept.Load()
	if us < kept+int64(time.Second/time.Microsecond) || !s.kept.CompareAndSwap(kept, us) {
		return nil
	}
	_, err := s.exec(ctx, tx, "keep_seen", args{"now": us})
	return err
}
