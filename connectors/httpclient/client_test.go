package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

func request(t *testing.T, method, address, body string) Request {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Method: method, URL: u, Header: http.Header{"Idempotency-Key": {"k1"}}, Body: []byte(body), Timeout: 5 * time.Second}
}

func kindOf(err error) connectors.Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// breaking accepts connections and hands each to f, which closes it.
func breaking(t *testing.T, f func(net.Conn)) (address string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			f(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String(), accepted
}

func readRequest(c net.Conn) {
	buf := make([]byte, 4096)
	_, _ = c.Read(buf)
}

func TestAWriteIsSentOnce(t *testing.T) {
	cases := map[string]struct {
		answer string
		kind   connectors.Kind
		status int
	}{
		"cut before the answer (EOF)":            {"", connectors.KindNetwork, 0},
		"cut inside the status line":             {"HTTP/1.1 20", connectors.KindNetwork, 0},
		"cut inside the headers":                 {"HTTP/1.1 200 OK\r\nContent-Le", connectors.KindNetwork, 0},
		"cut inside the body":                    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", connectors.KindNetwork, 200},
		"an answer that is none":                 {"hello\r\n\r\n", connectors.KindNetwork, 0},
		"cut inside a chunk":                     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", connectors.KindNetwork, 200},
		"a 100 only":                             {"HTTP/1.1 100 Continue\r\n\r\n", connectors.KindNetwork, 0},
		"a body longer than we read":             {"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000), connectors.KindMalformed, 200},
		"gzip that is none":                      {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", connectors.KindNetwork, 200},
		"a status with headers beyond any limit": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<17) + "\r\n\r\n", connectors.KindNetwork, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			address, accepted := breaking(t, func(c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, tc.answer)
				_ = c.Close()
			})
			c := New(Config{})
			for _, body := range []string{`{"a":1}`, ""} {
				accepted.Store(0)
				r := request(t, "POST", address, body)
				r.MaxBody = 1000
				_, sent, err := c.Write(context.Background(), r, time.Now().Add(time.Minute))
				var e *Error
				if !errors.As(err, &e) || e.Kind != tc.kind || e.Status != tc.status || !sent.Wrote || sent.Late {
					t.Errorf("body %q: %+v, %v", body, sent, err)
				}
				if n := accepted.Load(); n != 1 {
					t.Errorf("body %q: %d connections, want 1", body, n)
				}
			}
		})
	}
}

func TestAReadIsSentOnceToo(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			// On the connection of the first answer, which is when the
			// transport would try again.
			c, _, _ := http.NewResponseController(w).Hijack()
			_ = c.Close()
		}
	}))
	defer s.Close()
	for _, method := range []string{"GET", "POST"} {
		n.Store(0)
		c := New(Config{})
		if _, err := c.Read(context.Background(), request(t, method, s.URL, "")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(context.Background(), request(t, method, s.URL, "")); kindOf(err) != connectors.KindNetwork {
			t.Errorf("%s: %v", method, err)
		}
		if n.Load() != 2 {
			t.Errorf("%s: %d requests, want 2", method, n.Load())
		}
		c.Close()
	}
}

func TestNothingIsWrittenAfterSendBy(t *testing.T) {
	address, accepted := breaking(t, func(c net.Conn) { _ = c.Close() })
	c := New(Config{})
	for name, at := range map[string]time.Time{
		"zero": {}, "in the past": time.Now().Add(-time.Second), "in the past by the wall clock": time.Now().Add(-time.Second).Round(0),
	} {
		_, sent, err := c.Write(context.Background(), request(t, "POST", address, "x"), at)
		if !sent.Late || sent.Wrote || kindOf(err) != connectors.KindTimeout || accepted.Load() != 0 {
			t.Errorf("%s: %+v, %v, %d connections", name, sent, err, accepted.Load())
		}
	}

	// The process is stopped between the check and the first byte: the clock
	// that runs on has passed send_by when the byte is due.
	got := make(chan int, 1)
	address, _ = breaking(t, func(c net.Conn) {
		n, _ := c.Read(make([]byte, 100))
		got <- n
		_ = c.Close()
	})
	var reads atomic.Int32
	c.now = func() time.Duration {
		if reads.Add(1) == 1 {
			return 0
		}
		return time.Hour
	}
	_, sent, err := c.Write(context.Background(), request(t, "POST", address, "x"), time.Now().Add(time.Minute))
	if !sent.Late || sent.Wrote || kindOf(err) != connectors.KindTimeout {
		t.Errorf("%+v, %v", sent, err)
	}
	if n := <-got; n != 0 {
		t.Errorf("the server read %d bytes", n)
	}
}

func TestAtTheDeadlineTheConnectionIsReset(t *testing.T) {
	ended := make(chan error, 1)
	address, _ := breaking(t, func(c net.Conn) {
		readRequest(c)
		_, err := c.Read(make([]byte, 1))
		ended <- err
		_ = c.Close()
	})
	r := request(t, "POST", address, "x")
	r.Timeout = 50 * time.Millisecond
	_, sent, err := New(Config{}).Write(context.Background(), r, time.Now().Add(time.Minute))
	if !sent.Wrote || kindOf(err) != connectors.KindTimeout {
		t.Errorf("%+v, %v", sent, err)
	}
	if err := <-ended; err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the server saw %v, want a reset", err)
	}
}

func TestNotOneByteHandedOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	_ = l.Close()
	_, sent, err := New(Config{}).Write(context.Background(), request(t, "POST", address, "x"), time.Now().Add(time.Minute))
	if sent.Wrote || kindOf(err) != connectors.KindNetwork {
		t.Errorf("refused: %+v, %v", sent, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, sent, err = New(Config{}).Write(ctx, request(t, "POST", address, "x"), time.Now().Add(time.Minute))
	if sent.Wrote || kindOf(err) != connectors.KindStopping {
		t.Errorf("stopped before: %+v, %v", sent, err)
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s with %v", r.URL, r.Header)
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c := New(Config{})
	defer c.Close()
	resp, _, err := c.Write(context.Background(), request(t, "POST", s.URL, "x"), time.Now().Add(time.Minute))
	if err != nil || resp.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v, %v", resp, err)
	}
	resp, err = c.Read(context.Background(), request(t, "GET", s.URL, ""))
	if err != nil || resp.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestOverTLS(t *testing.T) {
	var proto atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}})
	defer c.Close()
	if c.tls.MinVersion != tls.VersionTLS12 {
		t.Errorf("MinVersion %x", c.tls.MinVersion)
	}
	resp, sent, err := c.Write(context.Background(), request(t, "POST", s.URL, "hello"), time.Now().Add(time.Minute))
	if err != nil || string(resp.Body) != "hello" || !sent.Wrote || proto.Load() != "HTTP/1.1" {
		t.Errorf("%v, %+v, %v, %v", resp, sent, err, proto.Load())
	}
	if _, err := c.Read(context.Background(), request(t, "GET", s.URL, "")); err != nil {
		t.Error(err)
	}
	// An unknown certificate: the handshake is no part of the request.
	_, sent, err = New(Config{}).Write(context.Background(), request(t, "POST", s.URL, "x"), time.Now().Add(time.Minute))
	if sent.Wrote || kindOf(err) != connectors.KindNetwork {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestErrorsAreMasked(t *testing.T) {
	c := New(Config{Mask: func(s string) string { return strings.ReplaceAll(s, "127.0.0.1", "[masked]") }})
	_, err := c.Read(context.Background(), request(t, "GET", "http://127.0.0.1:1/?token=x", ""))
	if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "127.0.0.1") {
			t.Errorf("the chain holds %v", e)
		}
	}
}

func TestTheRunningClockRuns(t *testing.T) {
	a := running()
	b := running()
	if a <= 0 || b < a {
		t.Errorf("%v, then %v", a, b)
	}
}
