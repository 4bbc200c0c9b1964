// Package storm makes the weather of a crash campaign: processes that are
// killed, stopped and continued, a PostgreSQL that is restarted and fails over,
// and connections that are cut where it hurts. Everything it does is counted by
// name. It knows nothing of what it does this to.
package storm

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy whose upstream and manners can be changed while
// connections are open.
type Proxy struct {
	// Addr is its address, 127.0.0.1:PORT.
	Addr string

	l    net.Listener
	work sync.WaitGroup
	log  *Log

	mu       sync.Mutex
	upstream string
	held     chan struct{} // closed when bytes may pass; nil: they may
	toxic    float64       // chance that a new connection is poisoned
	slow     time.Duration // longest delay of a poisoned request
	conns    map[*link]struct{}

	commits atomic.Int64 // how many replies to a COMMIT are still to be cut
}

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	poison         string
	cutReply       atomic.Bool // the next bytes from the server are thrown away, and the connection with them
}

// The poisons of a connection to an HTTP provider. Of the first three nobody
// but the provider knows whether the request was carried out.
const (
	poisonCut     = "wire: answer cut"
	poisonReset   = "wire: connection reset instead of an answer"
	poisonTorn    = "wire: answer torn"
	poisonSwallow = "wire: request swallowed"
	poisonSlow    = "wire: request delivered late"
)

var poisons = []string{poisonCut, poisonReset, poisonTorn, poisonSwallow, poisonSlow}

// NewProxy starts a proxy in front of upstream, a host:port.
func NewProxy(upstream string, log *Log) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), l: l, log: log, upstream: upstream, conns: map[*link]struct{}{}}
	p.work.Go(p.accept)
	return p, nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.Hold(false)
	p.Cut()
	p.work.Wait()
}

// Upstream sends new connections elsewhere. Open ones stay where they are.
func (p *Proxy) Upstream(addr string) {
	p.mu.Lock()
	p.upstream = addr
	p.mu.Unlock()
}

// Cut ends every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close(false)
	}
}

// Hold keeps all bytes back, until it is called with false.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.held == nil:
		p.held = make(chan struct{})
	case !on && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

// CutCommits makes the next n commits of a PostgreSQL client go through without
// a reply: the server commits, and the connection is closed instead of saying so.
func (p *Proxy) CutCommits(n int) { p.commits.Store(int64(n)) }

// Poison makes so many of the new connections fail, one way or another; slow is
// the longest that a request is then kept back before it is delivered.
func (p *Proxy) Poison(chance float64, slow time.Duration) {
	p.mu.Lock()
	p.toxic, p.slow = chance, slow
	p.mu.Unlock()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.upstream
		l := &link{client: c}
		if rand.Float64() < p.toxic {
			l.poison = poisons[rand.IntN(len(poisons))]
		}
		p.mu.Unlock()
		p.work.Go(func() { p.serve(l, to) })
	}
}

func (p *Proxy) serve(l *link, to string) {
	var err error
	d := net.Dialer{Timeout: 5 * time.Second}
	if l.server, err = d.DialContext(context.Background(), "tcp", to); err != nil {
		_ = l.client.Close()
		return
	}
	p.mu.Lock()
	p.conns[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, l)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() { p.forth(l) })
	both.Go(func() { p.back(l) })
	both.Wait()
}

func (c *link) close(reset bool) {
	for _, conn := range []net.Conn{c.client, c.server} {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close() // what it was for is over
	}
}

// pass waits while bytes are held back.
func (p *Proxy) pass() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// forth carries what the client says.
func (p *Proxy) forth(l *link) {
	buf := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := l.client.Read(buf)
		if n > 0 {
			p.pass()
			b := buf[:n]
			if first && l.poison == poisonSwallow {
				p.log.Count(l.poison)
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				l.close(false)
				return
			}
			if first && l.poison == poisonSlow {
				p.log.Count(l.poison)
				p.mu.Lock()
				slow := p.slow
				p.mu.Unlock()
				time.Sleep(time.Duration(rand.Float64() * float64(slow)))
			}
			if isCommit(b) && p.commits.Add(-1) >= 0 {
				l.cutReply.Store(true)
			}
			if _, werr := l.server.Write(b); werr != nil {
				l.close(false)
				return
			}
		}
		if err != nil {
			if l.poison == poisonSlow {
				// It was on its way already: the client's going does not call it back.
				if tcp, ok := l.server.(*net.TCPConn); ok {
					_ = tcp.CloseWrite()
				}
				return
			}
			l.close(false)
			return
		}
	}
}

// back carries what the server answers.
func (p *Proxy) back(l *link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			p.pass()
			switch {
			case l.cutReply.Load():
				p.log.Count("database: connection cut after commit")
				l.close(false)
				return
			case l.poison == poisonCut, l.poison == poisonReset:
				p.log.Count(l.poison)
				l.close(l.poison == poisonReset)
				return
			case l.poison == poisonTorn:
				p.log.Count(l.poison)
				_, _ = l.client.Write(buf[:min(n, 40)]) // closed next anyway
				l.close(false)
				return
			}
			if _, werr := l.client.Write(buf[:n]); werr != nil {
				l.close(false)
				return
			}
		}
		if err != nil {
			l.close(false)
			return
		}
	}
}

// isCommit tells whether the bytes of a PostgreSQL client are, or end in, the
// message that commits. Source: PostgreSQL manual, "Message Formats", Query.
func isCommit(b []byte) bool {
	return bytes.HasSuffix(bytes.ToLower(b[max(0, len(b)-12):]), []byte("commit\x00"))
}
