package httpclient

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/internal/failpoint"
)

// errTooLate is what a write gets for a byte after its send_by.
var errTooLate = errors.New("send_by passed before the first byte: not sent")

// guardedConn is the connection of one write. From arm on it refuses bytes
// after the deadline and counts those handed over; unless released it is reset
// when closed, so that bytes still waiting in the kernel are thrown away
// instead of being sent later.
type guardedConn struct {
	net.Conn

	mu       sync.Mutex
	armed    bool
	now      func() time.Duration
	deadline time.Duration // of now
	written  int64         // since arm
	writing  int           // writes under way: their bytes may be out already
	refused  bool
	keep     bool // closing may end the connection in order
}

// arm starts the guard. What was written before (a TLS handshake) is not part
// of the request.
func (c *guardedConn) arm() {
	c.mu.Lock()
	c.armed = true
	c.mu.Unlock()
}

func (c *guardedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.armed {
		c.mu.Unlock()
		return c.Conn.Write(b)
	}
	if c.now() >= c.deadline {
		c.refused = true
		c.mu.Unlock()
		return 0, errTooLate
	}
	c.writing++
	c.mu.Unlock()
	// A stop right here cannot be closed from this side: see
	// docs/rules.md, section 6, "What cannot be closed".
	failpoint.Hit("at-wire")
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	c.writing--
	c.written += int64(n)
	c.mu.Unlock()
	return n, err
}

// wrote tells whether a byte of the request was handed over, and whether one
// was refused.
func (c *guardedConn) wrote() (any, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written > 0 || c.writing > 0, c.refused
}

// release lets the connection be closed in order: the answer was read.
func (c *guardedConn) release() {
	c.mu.Lock()
	c.keep = true
	c.mu.Unlock()
}

func (c *guardedConn) Close() error {
	c.mu.Lock()
	keep := c.keep
	c.mu.Unlock()
	if !keep {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the close reports what matters
		}
	}
	return c.Conn.Close()
}
