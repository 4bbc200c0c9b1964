package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite" // the driver "sqlite"
	lib "modernc.org/sqlite/lib"
)

var sqliteDialect = &dialect{
	name: "sqlite",
	bind: sqlx.QUESTION,
	fragments: map[string]string{
		// The caller always gives this host's clock: the database has no other.
		"now": `max(CAST(:clock AS bigint), CAST(:seen AS bigint),
			(SELECT CAST(m.value AS bigint) FROM meta AS m WHERE m.name = 'highest_seen'))`,
		"durable":     `, 'synchronous is FULL' AS durable`,
		"lock":        ``,
		"lock e":      ``,
		"skip locked": ``,
		"greatest":    `max`,
		"least":       `min`,
		"any id":      `IN (SELECT j.value FROM json_each(:ids) AS j)`,
		"any key":     `IN (SELECT j.value FROM json_each(:keys) AS j)`,
		"system":      `''`,
		"timeline":    `''`,
		"same server": `1 = 1`,
	},
	rows:   sqliteRows,
	list:   sqliteList,
	bulk:   sqliteBulk,
	insert: sqliteInsert,
	fault:  sqliteFault,
}

// sqliteDSN gives the data source names of the writer and of the readers.
func sqliteDSN(path string) (writer, reader string, err error) {
	if path == "" || strings.Contains(path, ":memory:") {
		return "", "", errors.New("names no file; write sqlite:FILE, as in sqlite:reconcile.db")
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", "", fmt.Errorf("the folder %s does not exist; create it first", dir)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return "", "", fmt.Errorf("%s is a folder; name a file in it", path)
	}
	// A path that begins with a slash must not read as a host.
	base := "file:" + (&url.URL{Path: path}).EscapedPath() + "?"
	if filepath.IsAbs(path) {
		base = "file://" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?"
	}
	common := []string{"busy_timeout(10000)", "foreign_keys(1)", "synchronous(FULL)"}
	dsn := func(pragmas ...string) string {
		return base + url.Values{"_pragma": append(pragmas, common...), "_txlock": {"immediate"}}.Encode()
	}
	return dsn("journal_mode(WAL)"), dsn("query_only(1)"), nil
}

func sqliteRows(l layout) string {
	return "(SELECT " + joined(len(l.columns), func(i int) string {
		return cell(i) + " AS " + l.columns[i].name
	}) + ") AS n"
}

func sqliteList(items any) (any, error) {
	b, err := json.Marshal(items)
	return string(b), err
}

// sqliteBulk prepares once and runs for each row: in the same process and
// transaction that is as good as one statement.
func sqliteBulk(ctx context.Context, tx *txn, query string, l layout, rs rows, scan func(*sqlx.Rows) error) (err error) {
	query, err = positional(sqlx.QUESTION, query, l)
	if err != nil {
		return err
	}
	stmt, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	var row boxes
	for i := range rs.n {
		row = row[:0]
		rs.write(i, &row)
		if scan == nil {
			if _, err := stmt.ExecContext(ctx, row...); err != nil {
				return err
			}
			continue
		}
		found, err := stmt.QueryxContext(ctx, row...)
		if err != nil {
			return err
		}
		if err := each(found, scan); err != nil {
			return err
		}
	}
	return nil
}

func sqliteInsert(ctx context.Context, tx *txn, query string, l layout, rs rows) error {
	return sqliteBulk(ctx, tx, query, l, rs, nil)
}

func sqliteFault(err error) fault {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return faultOther
	}
	switch se.Code() {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return faultUnique
	case lib.SQLITE_INTERRUPT:
		return faultCancelled
	}
	switch se.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return faultLocked
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN:
		return faultReadOnly
	case lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT:
		return faultNoLedger
	}
	return faultOther
}
