package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
)

// fault is what a driver's error means to the store.
type fault int

const (
	faultOther     fault = iota
	faultUnique          // a unique key is taken
	faultTransient       // serialization failure or deadlock: the same transaction may succeed now
	faultCancelled       // the statement was cancelled
	faultLocked          // another process holds the database
	faultReadOnly        // the file or the server takes no writes
	faultNoLedger        // the file is something else, the database does not exist
	faultLogin           // the server does not let us in
	faultAway            // the server cannot be reached
	faultBusy            // the server is starting, stopping or out of something
)

// dialect is what differs between the databases, beside the migrations.
type dialect struct {
	name      string            // as in "-- name: x (postgres)", and the folder of migrations
	bind      int               // sqlx's kind of placeholder
	fragments map[string]string // see newFragments

	// rows is the source of a bulk statement: a table n of the rows given.
	rows func(l layout) string
	// list is a list of int64 or string as one parameter; see {any id}.
	list func(items any) (any, error)
	// bulk runs a statement on all rows, whose only parameters are those of
	// its rows fragment, and hands each row that it returns to scan.
	bulk func(ctx context.Context, tx *txn, query string, l layout, rs rows, scan func(*sqlx.Rows) error) error
	// insert runs a statement that adds the rows given, which are all new.
	insert func(ctx context.Context, tx *txn, query string, l layout, rs rows) error
	// fault reads a driver's error.
	fault func(err error) fault
}

// cell names the parameter of a column in a rows fragment.
func cell(i int) string { return ":c" + strconv.Itoa(i) }

// positional turns the named parameters of a bulk statement, which stand in
// their order and once each, into the placeholders of the driver.
func positional(bind int, query string, l layout) (string, error) {
	args := make(map[string]any, len(l.columns))
	for i := range l.columns {
		args[cell(i)[1:]] = i
	}
	q, _, err := sqlx.Named(query, args)
	if err != nil {
		return "", err
	}
	return sqlx.Rebind(bind, q), nil
}

func joined(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ", ")
}
