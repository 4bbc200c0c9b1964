package cli

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/recovery-ledger/reconcile/ledger"
)

// stateError is an error as a database server tells it.
type stateError string

func (e stateError) Error() string    { return "pq: something" }
func (e stateError) SQLState() string { return string(e) }

func TestWhatADaemonWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":                      {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"a name that is not there yet":        {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, true},
		"the connection breaks":               {io.EOF, true},
		"the connection breaks in an answer":  {io.ErrUnexpectedEOF, true},
		"a connection that broke before":      {driver.ErrBadConn, true},
		"the server is starting":              {stateError("57P03"), true},
		"the server is stopping":              {stateError("57P01"), true},
		"another session of it crashed":       {stateError("57P02"), true},
		"the server has no connection left":   {stateError("53300"), true},
		"a pooler whose server is away":       {stateError("08P01"), true},
		"one host refuses, another is away":   {errors.Join(stateError("57P03"), &net.OpError{Op: "dial", Err: io.EOF}), true},
		"a statement that somebody cancelled": {stateError("57014"), false},
		"a wrong password":                    {stateError("28P01"), false},
		"a database that is not there":        {stateError("3D000"), false},
		"a right that is missing":             {stateError("42501"), false},
		"an older schema":                     {ledger.ErrOldSchema, false},
		"a newer schema":                      {ledger.ErrNewerSchema, false},
		"a URL that cannot be read":           {errors.New("not a URL"), false},
	} {
		if got := unreachable(fmt.Errorf("open ledger: %w", c.err)); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
