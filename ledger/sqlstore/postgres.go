package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

var postgres = &dialect{
	name: "postgres",
	bind: sqlx.DOLLAR,
	fragments: map[string]string{
		// The clock of the server at that very moment, or the one that tests
		// give; never before the highest time seen.
		"now": `GREATEST(CASE WHEN CAST(:clock AS bigint) <> 0 THEN CAST(:clock AS bigint)
			ELSE CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint) END,
			CAST(:seen AS bigint), (SELECT CAST(m.value AS bigint) FROM meta AS m WHERE m.name = 'highest_seen'))`,
		"durable":     `, set_config('synchronous_commit', 'on', true) || set_config('enable_seqscan', 'off', true) AS durable`,
		"lock":        `FOR UPDATE`,
		"lock e":      `FOR UPDATE OF e`,
		"skip locked": `FOR UPDATE SKIP LOCKED`,
		"greatest":    `GREATEST`,
		"least":       `LEAST`,
		"any id":      `= ANY(CAST(:ids AS bigint[]))`,
		"any key":     `= ANY(CAST(:keys AS text[]))`,
		"system":      `(SELECT CAST(c.system_identifier AS text) FROM pg_control_system() AS c)`,
		// Not from pg_control_checkpoint(): after a failover that names the old
		// timeline until the first checkpoint.
		"timeline": `(SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))`,
		"same server": `(SELECT m.value FROM meta AS m WHERE m.name = 'system_identifier') IN ('', {system})
			AND (SELECT m.value FROM meta AS m WHERE m.name = 'timeline') IN ('', {timeline})`,
	},
	rows:   postgresRows,
	list:   postgresList,
	bulk:   postgresBulk,
	insert: postgresCopy,
	fault:  postgresFault,
}

// postgresDSN checks the URL and adds what the store relies on.
func postgresDSN(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("not a URL; write postgres://user:password@host:5432/database (percent-encode special characters in the password)")
	}
	if strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "" {
		return "", errors.New("names no database; write postgres://user:password@host:5432/database")
	}
	q := u.Query()
	// Without it the driver prepares a statement and uses it in the next round
	// trip, which behind a transaction pooler may meet another session, and
	// then returns another client's answer. Source: lib/pq issue 889, 2026-11.
	q.Set("binary_parameters", "yes")
	if q.Get("connect_timeout") == "" {
		q.Set("connect_timeout", "10") // seconds
	}
	if q.Get("application_name") == "" && q.Get("fallback_application_name") == "" {
		q.Set("fallback_application_name", "reconcile")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func postgresType(k kind) string {
	switch k {
	case kindText, kindWords, kindKeys:
		return "text"
	case kindBool:
		return "smallint"
	case kindBytes:
		return "bytea"
	}
	return "bigint"
}

func postgresRows(l layout) string {
	return "unnest(" + joined(len(l.columns), func(i int) string {
		return "CAST(" + cell(i) + " AS " + postgresType(l.columns[i].kind) + "[])"
	}) + ") AS n (" + l.list("") + ")"
}

func postgresList(items any) (any, error) { return pq.Array(items).(driver.Valuer).Value() }

func postgresBulk(ctx context.Context, tx *txn, query string, l layout, rs rows, scan func(*sqlx.Rows) error) error {
	query, err := positional(sqlx.DOLLAR, query, l)
	if err != nil {
		return err
	}
	args := columnArrays(len(l.columns), rs)
	if scan == nil {
		_, err = tx.ExecContext(ctx, query, args...)
		return err
	}
	found, err := tx.QueryxContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return each(found, scan)
}

// postgresCopy runs a COPY: for wide rows it costs the server less than half of
// an INSERT from arrays, and it is sent while the server already works. The
// lines are made here and handed to the driver itself, which halves what a row
// costs us.
func postgresCopy(ctx context.Context, tx *txn, query string, _ layout, rs rows) (err error) {
	raw := tx.conn.Raw(func(dc any) error {
		err = copyRows(ctx, dc.(driver.ConnPrepareContext), query, rs)
		// A bad connection is told to the caller only: Raw would close it, and
		// so wait for the transaction that waits for Raw.
		return nil
	})
	return errors.Join(raw, err)
}

// copyRows runs a COPY on the driver's own connection.
func copyRows(ctx context.Context, conn driver.ConnPrepareContext, query string, rs rows) (err error) {
	// The statement lives within this transaction, hence on one session also
	// behind a pooler.
	stmt, err := conn.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	lines := stmt.(interface {
		CopyData(ctx context.Context, line string) (driver.Result, error)
	})
	var to copyLines
	for i := range rs.n {
		rs.write(i, &to)
		to.end()
		if len(to.buf) < copyChunk && i < rs.n-1 {
			continue
		}
		if _, err := lines.CopyData(ctx, string(to.buf[:len(to.buf)-1])); err != nil { // ends the line
			return err
		}
		to.buf = to.buf[:0]
	}
	_, err = stmt.Exec(nil) //nolint:staticcheck // ends the COPY; the driver has no other way
	return err
}

// copyChunk is how many bytes are handed to the driver at once.
const copyChunk = 32 << 10

// copyLines are cells in COPY's text format, which end each with a tab, and
// the last of a row, by end, with a line feed.
// Source: PostgreSQL 15, documentation of COPY, "Text Format".
type copyLines struct{ buf []byte }

func (c *copyLines) int(n int64)   { c.buf = append(strconv.AppendInt(c.buf, n, 10), '\t') }
func (c *copyLines) text(s string) { c.buf = append(copyText(c.buf, s), '\t') }
func (c *copyLines) bytes(b []byte) {
	c.buf = append(appendHex(append(c.buf, `\\x`...), b), '\t')
}
func (c *copyLines) end() { c.buf[len(c.buf)-1] = '\n' }

func copyText(buf []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		var short byte
		switch s[i] {
		case '\\':
			short = '\\'
		case '\t':
			short = 't'
		case '\n':
			short = 'n'
		case '\r':
			short = 'r'
		default:
			continue
		}
		buf = append(append(buf, s[from:i]...), '\\', short)
		from = i + 1
	}
	return append(buf, s[from:]...)
}

// columnArrays makes an array literal of each of n columns.
func columnArrays(n int, rs rows) []any {
	to := arrays{cols: make([][]byte, n)}
	for i := range rs.n {
		to.next = 0
		rs.write(i, &to)
	}
	out := make([]any, n)
	for i, c := range to.cols {
		out[i] = "{}"
		if len(c) > 0 {
			c[0] = '{'
			out[i] = string(append(c, '}'))
		}
	}
	return out
}

// arrays are cells as the elements of array literals, one for each column.
type arrays struct {
	cols [][]byte
	next int // column
}

// element begins an element of the next column: the first comma becomes the
// opening brace.
func (a *arrays) element() *[]byte {
	c := &a.cols[a.next]
	a.next++
	*c = append(*c, ',')
	return c
}

func (a *arrays) int(n int64) {
	c := a.element()
	*c = strconv.AppendInt(*c, n, 10)
}

func (a *arrays) text(s string) {
	c := a.element()
	*c = quoteElement(*c, s)
}

func (a *arrays) bytes(b []byte) {
	c := a.element()
	*c = append(appendHex(append(*c, `"\\x`...), b), '"')
}

func quoteElement(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' || s[i] == '\\' {
			buf = append(buf, '\\')
		}
		buf = append(buf, s[i])
	}
	return append(buf, '"')
}

func appendHex(buf, b []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range b {
		buf = append(buf, digits[c>>4], digits[c&15])
	}
	return buf
}

func postgresFault(err error) fault {
	var pe *pq.Error
	if !errors.As(err, &pe) {
		var cut *net.OpError
		if errors.As(err, &cut) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) {
			return faultAway
		}
		return faultOther
	}
	switch pe.Code {
	case pqerror.UniqueViolation:
		return faultUnique
	case pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected:
		return faultTransient
	case pqerror.QueryCanceled:
		return faultCancelled
	case pqerror.LockNotAvailable:
		return faultLocked
	case pqerror.ReadOnlySQLTransaction:
		return faultReadOnly
	case pqerror.InvalidCatalogName:
		return faultNoLedger
	case pqerror.InvalidPassword, pqerror.InvalidAuthorizationSpecification:
		return faultLogin
	}
	// Connection, resources, shutting down or starting up.
	// Source: PostgreSQL 15, Appendix A, "PostgreSQL Error Codes".
	for _, class := range []string{"08", "53", "57P0"} {
		if strings.HasPrefix(string(pe.Code), class) {
			return faultBusy
		}
	}
	return faultOther
}
