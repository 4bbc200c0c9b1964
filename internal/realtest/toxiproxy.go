package realtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// Toxiproxy is a running Toxiproxy server, which carries any number of proxies.
type Toxiproxy struct {
	api  string // address of its HTTP interface
	next int
}

// StartToxiproxy starts a Toxiproxy of its own for the test.
func StartToxiproxy(t testing.TB) *Toxiproxy {
	t.Helper()
	bin := program(t, "toxiproxy")
	tp, err := startToxiproxy(t, bin)
	if err != nil {
		t.Fatalf("start Toxiproxy: %v", err)
	}
	return tp
}

func startToxiproxy(t testing.TB, bin string) (*Toxiproxy, error) {
	g := group(t, "toxiproxy")
	for range 5 {
		port, err := testproc.FreePort()
		if err != nil {
			return nil, err
		}
		p, err := g.Start(g.Command(bin, "-host", "127.0.0.1", "-port", strconv.Itoa(port)), "toxiproxy.log", syscall.SIGTERM)
		if err != nil {
			return nil, err
		}
		tp := &Toxiproxy{api: "http://127.0.0.1:" + strconv.Itoa(port)}
		err = p.WaitReady(startPatience, func(ctx context.Context) error {
			return call(ctx, http.MethodGet, tp.api+"/version", "", nil, nil)
		})
		if err == nil {
			return tp, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no port stayed free")
}

// Proxy is one TCP proxy in front of an upstream. As it comes it changes
// nothing.
//
// A toxic that is added may cut connections which are already open, and a kept
// connection may still be under a toxic that is gone: send what must meet a
// toxic, and what must not, on connections of their own.
type Proxy struct {
	// Addr is its address, 127.0.0.1:PORT.
	Addr string
	// URL is that address as a base URL, http://127.0.0.1:PORT.
	URL string

	api string // its own address at the HTTP interface
}

// Proxy puts a proxy in front of an upstream, a host:port or an http:// URL.
func (tp *Toxiproxy) Proxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	if u, err := url.Parse(upstream); err == nil && u.Host != "" {
		upstream = u.Host
	}
	tp.next++
	name := "proxy" + strconv.Itoa(tp.next)
	var err error
	for range 5 {
		var port int
		if port, err = testproc.FreePort(); err != nil {
			break
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		err = call(t.Context(), http.MethodPost, tp.api+"/proxies", "", map[string]any{
			"name": name, "listen": addr, "upstream": upstream, "enabled": true,
		}, nil)
		if err == nil {
			return &Proxy{Addr: addr, URL: "http://" + addr, api: tp.api + "/proxies/" + name}
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	t.Fatalf("create proxy: %v", err)
	return nil
}

// Toxic is one fault. The functions below make those that tests need; others
// are made by hand. Source: Toxiproxy 2.5.0, README, "Toxics".
type Toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // upstream: the request; downstream: the answer
	Attributes map[string]int `json:"attributes"`
}

// CutAnswer lets so many bytes of the answer through and then closes the
// connection: the request is carried out, and the client cannot know. With 0 it
// gets nothing, with 40 a piece of the header.
func CutAnswer(bytes int) Toxic {
	return Toxic{Name: "cut_answer", Type: "limit_data", Stream: "downstream", Attributes: map[string]int{"bytes": bytes}}
}

// ResetAnswer resets the connection instead of answering: the request is
// carried out, and the client cannot know.
func ResetAnswer() Toxic {
	return Toxic{Name: "reset_answer", Type: "reset_peer", Stream: "downstream", Attributes: map[string]int{"timeout": 0}}
}

// DelayAnswer holds the answer back: the request is carried out, and a client
// that is less patient cannot know.
func DelayAnswer(d time.Duration) Toxic {
	return Toxic{Name: "delay_answer", Type: "latency", Stream: "downstream", Attributes: map[string]int{"latency": int(d.Milliseconds())}}
}

// SwallowRequest keeps the request from arriving, and closes the connection
// after a time above 0: nothing happens, and to the client it looks like
// CutAnswer(0).
func SwallowRequest(after time.Duration) Toxic {
	return Toxic{Name: "swallow_request", Type: "timeout", Stream: "upstream", Attributes: map[string]int{"timeout": int(after.Milliseconds())}}
}

// ResetRequest resets the connection before the request arrives: nothing
// happens, and to the client it looks like ResetAnswer.
func ResetRequest() Toxic {
	return Toxic{Name: "reset_request", Type: "reset_peer", Stream: "upstream", Attributes: map[string]int{"timeout": 0}}
}

// Add puts a toxic on the proxy.
func (p *Proxy) Add(t testing.TB, toxic Toxic) {
	t.Helper()
	if err := call(t.Context(), http.MethodPost, p.api+"/toxics", "", toxic, nil); err != nil {
		t.Fatalf("add toxic %s: %v", toxic.Name, err)
	}
}

// Remove takes a toxic away.
func (p *Proxy) Remove(t testing.TB, toxic Toxic) {
	t.Helper()
	if err := call(t.Context(), http.MethodDelete, p.api+"/toxics/"+toxic.Name, "", nil, nil); err != nil {
		t.Fatalf("remove toxic %s: %v", toxic.Name, err)
	}
}

// With runs do under a toxic, and takes the toxic away again.
func (p *Proxy) With(t testing.TB, toxic Toxic, do func()) {
	t.Helper()
	p.Add(t, toxic)
	defer p.Remove(t, toxic)
	do()
}

// Down refuses connections, and cuts those that are open, until Up.
func (p *Proxy) Down(t testing.TB) {
	t.Helper()
	p.enable(t, false)
}

// Up ends a Down.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	p.enable(t, true)
}

func (p *Proxy) enable(t testing.TB, on bool) {
	t.Helper()
	if err := call(t.Context(), http.MethodPost, p.api, "", map[string]any{"enabled": on}, nil); err != nil {
		t.Fatalf("enable proxy %t: %v", on, err)
	}
}
