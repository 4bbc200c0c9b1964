// Package httpclient makes HTTP calls for connectors: one call is one request.
// Nothing is sent again, no redirect is followed, time and size are limited,
// and what leaves the package carries no secrets.
package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// DefaultMaxBody is the longest answer that is read: 1 MiB holds hundreds of
// records, and whatever is longer was not asked for by key.
const DefaultMaxBody = 1 << 20

// Connections idle for longer are closed by us. Servers commonly close theirs
// after five seconds; a request on a connection that is just being closed ends
// in an error, and is not sent again.
const idleFor = 2 * time.Second

// Config is what a Client is made with.
type Config struct {
	UserAgent string
	Mask      func(string) string // takes secrets out of error texts; nil: none are known
	TLS       *tls.Config         // nil: the system's roots; at least TLS 1.2 in any case
}

// Client makes HTTP calls. It is safe for concurrent use.
type Client struct {
	agent string
	mask  func(string) string
	tls   *tls.Config
	reads *http.Transport
	now   func() time.Duration // runs on through a stop
}

// New returns a Client.
func New(cfg Config) *Client {
	c := &Client{agent: cfg.UserAgent, mask: cfg.Mask, tls: cfg.TLS, now: running}
	if c.mask == nil {
		c.mask = func(s string) string { return s }
	}
	if c.tls == nil {
		c.tls = &tls.Config{}
	}
	c.tls = c.tls.Clone()
	c.tls.MinVersion = max(c.tls.MinVersion, tls.VersionTLS12)
	// HTTP/1.1 only: with HTTP/2 the transport sends a request again when the
	// server goes away in the right moment.
	c.tls.NextProtos = []string{"http/1.1"}
	c.reads = c.transport()
	c.reads.IdleConnTimeout = idleFor
	c.reads.MaxIdleConnsPerHost = 16 // lanes allow few calls at once; more would be opened anew each time
	return c
}

func (c *Client) transport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // never for loopback
		TLSClientConfig:        c.tls,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.reads.CloseIdleConnections() }

// Request is one request.
type Request struct {
	Method  string
	URL     *url.URL
	Header  http.Header
	Body    []byte        // nil: none
	Timeout time.Duration // of the whole call, the answer's body included
	MaxBody int64         // longest answer; 0 is DefaultMaxBody
}

// Response is an answer read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	At     time.Time // when the answer's head came, on this host's clock
}

// Error is why there is no Response. Status is set when an answer began and
// could not be read.
type Error struct {
	Kind   connectors.Kind // timeout, network, malformed or stopping
	Status int
	Header http.Header
	Err    error // masked
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause, masked.
func (e *Error) Unwrap() error { return e.Err }

// Read makes one call that changes nothing. Connections may be used again. The
// error is an *Error.
func (c *Client) Read(ctx context.Context, r Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return c.do(ctx, c.reads, r)
}

// Sent says what is known of a write apart from its answer.
type Sent struct {
	Wrote bool // at least one byte of the request was handed over
	Late  bool // send_by had passed: a byte was refused
}

// Write makes one call that may change something, on a connection of its own.
// No byte is handed over after sendBy, by a clock that runs on while the
// process is stopped; when time is up, or ctx ends, the connection is reset. A
// zero sendBy sends nothing.
func (c *Client) Write(ctx context.Context, r Request, sendBy time.Time) (*Response, Sent, error) {
	left := r.Timeout
	if sendBy.IsZero() {
		left = 0
	} else {
		// By the monotonic reading where there is one, and by the wall clock,
		// whichever is nearer: the first does not see a suspended machine.
		left = min(left, time.Until(sendBy), sendBy.Round(0).Sub(time.Now().Round(0)))
	}
	if left <= 0 {
		return nil, Sent{Late: true}, &Error{Kind: connectors.KindTimeout, Err: errTooLate}
	}
	deadline := c.now() + left
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()

	var mu sync.Mutex
	var conn *guardedConn
	dial := func(ctx context.Context, network, addr string) (*guardedConn, error) {
		mu.Lock()
		defer mu.Unlock()
		if conn != nil {
			return nil, errors.New("a write has one connection") // the transport wants to send again
		}
		var d net.Dialer
		raw, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = &guardedConn{Conn: raw, now: c.now, deadline: deadline}
		return conn, nil
	}
	t := c.transport()
	t.DisableKeepAlives = true
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		g, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g.arm()
		return g, nil
	}
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		g, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		cfg := c.tls.Clone()
		if cfg.ServerName == "" {
			if host, _, err := net.SplitHostPort(addr); err == nil {
				cfg.ServerName = host
			}
		}
		tc := tls.Client(g, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			_ = g.Close() // the handshake's error says more
			return nil, err
		}
		g.arm()
		return tc, nil
	}
	// The transport closes the connection some time after ctx ends; this
	// resets it at that moment.
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		g := conn
		mu.Unlock()
		if g != nil {
			_ = g.Close()
		}
	})
	defer stop()

	resp, err := c.do(ctx, t, r)
	mu.Lock()
	g := conn
	mu.Unlock()
	var sent Sent
	if g != nil {
		sent.Wrote, sent.Late = g.wrote()
		if err == nil {
			g.release()
		}
	}
	if err != nil && sent.Late {
		err = &Error{Kind: connectors.KindTimeout, Err: errTooLate}
	}
	t.CloseIdleConnections()
	return resp, sent, err
}

func (c *Client) do(ctx context.Context, t http.RoundTripper, r Request) (*Response, error) {
	limit := r.MaxBody
	if limit <= 0 {
		limit = DefaultMaxBody
	}
	req := (&http.Request{
		Method: r.Method, URL: r.URL, Host: r.URL.Host, Header: r.Header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// A body that is there but cannot be had a second time keeps the
		// transport from sending the request again, without body too.
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}).WithContext(ctx)
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if c.agent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.agent)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, c.failure(ctx, err, nil)
	}
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	closeErr := resp.Body.Close()
	if err == nil && int64(len(body)) > limit {
		return nil, &Error{Kind: connectors.KindMalformed, Status: resp.StatusCode, Header: resp.Header,
			Err: fmt.Errorf("answer is longer than %d bytes; raise max_body or ask for less", limit)}
	}
	if err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, c.failure(ctx, fmt.Errorf("answer cut off: %w", err), resp)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, At: at}, nil
}

// failure classifies an error of the transport. The text is masked; the chain
// is not kept, since its members print the whole address.
func (c *Client) failure(ctx context.Context, err error, resp *http.Response) *Error {
	e := &Error{Kind: connectors.KindNetwork}
	if resp != nil {
		e.Status, e.Header = resp.StatusCode, resp.Header
	}
	var netErr net.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Kind, err = connectors.KindTimeout, errors.New("no answer in time")
	case ctx.Err() != nil:
		e.Kind, err = connectors.KindStopping, errors.New("stopped by us")
	case errors.As(err, &netErr) && netErr.Timeout():
		e.Kind = connectors.KindTimeout
	}
	text := strings.TrimPrefix(err.Error(), "http: ")
	if errors.Is(err, io.EOF) && resp == nil {
		text = "connection closed without an answer"
	}
	e.Err = errors.New(c.mask(text))
	return e
}
