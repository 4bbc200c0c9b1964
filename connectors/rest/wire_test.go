package rest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

const wired = `
rate = { calls = 1000, per = "1s" }
timeout = "400ms"
[[operation]]
name = "a"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "data", match = "ref", id = "id" }
send = { method = "POST", path = "/x", id = "id", headers = { X-Reference = "{key}" } }
`

// rawServer answers each connection with these bytes, drip by drip if told so,
// and closes it.
func rawServer(t *testing.T, out []byte, drip time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64<<10)) // the request: small, in one piece
			if drip == 0 {
				_, _ = c.Write(out)
			}
			for i := 0; drip > 0 && i < len(out); i++ {
				if _, err := c.Write(out[i : i+1]); err != nil {
					break
				}
				time.Sleep(drip)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func zipped(t *testing.T, body io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.Copy(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAnswersAsTheyComeOverTheWire puts bytes on the wire that no HTTP library
// would, and reads them as the answer to a look and to a send.
func TestAnswersAsTheyComeOverTheWire(t *testing.T) {
	const done, notDone, unknown = connectors.EffectDone, connectors.EffectNotDone, connectors.EffectUnknown
	answer := func(head, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	good := `{"data":[],"id":"1"}`
	small := zipped(t, strings.NewReader(good))
	cases := map[string]struct {
		out    string
		drip   time.Duration
		look   connectors.Kind // "": an explicit none
		send   connectors.Kind
		effect connectors.Effect
	}{
		"as it should be":                           {answer("200 OK", good), 0, "", "", done},
		"no reason phrase":                          {answer("200", good), 0, "", "", done},
		"hints before the answer":                   {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer("200 OK", good), 0, "", "", done},
		"a 100 before the answer":                   {"HTTP/1.1 100 Continue\r\n\r\n" + answer("200 OK", good), 0, "", "", done},
		"HTTP/1.0, to the end of the connection":    {"HTTP/1.0 200 OK\r\n\r\n" + good, 0, "", "", done},
		"HTTP/1.0, cut: nothing shows but the JSON": {"HTTP/1.0 200 OK\r\n\r\n" + good[:12], 0, "malformed", "unknown", unknown},
		"closed before an answer":                   {"", 0, "network", "network", unknown},
		"closed within the status line":             {"HTTP/1.1 20", 0, "network", "network", unknown},
		"closed within the headers":                 {"HTTP/1.1 200 OK\r\nContent-Le", 0, "network", "network", unknown},
		"closed within the body":                    {strings.Replace(answer("200 OK", good), "Length: ", "Length: 9", 1), 0, "network", "network", unknown},
		"closed within a chunk":                     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"dat", 0, "network", "network", unknown},
		"closed before the last chunk":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + good + "\r\n", 0, "network", "network", unknown},
		"an error, closed within its body":          {"HTTP/1.1 422 No\r\nContent-Length: 90\r\n\r\n{\"err", 0, "validation", "network", unknown},
		"not HTTP":                                  {"220 mail.example ESMTP\r\n", 0, "network", "network", unknown},
		"HTTP/2 frames":                             {"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", 0, "network", "network", unknown},
		"two lengths":                               {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Length: 21\r\n\r\n" + good, 0, "network", "network", unknown},
		"headers without end":                       {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 0, "network", "network", unknown},
		"another protocol":                          {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", 0, "unknown", "unknown", unknown},
		"a number that is no status":                {answer("999 Denied", "{}"), 0, "server_error", "server_error", unknown},
		"a plain request to a TLS port":             {"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", 0, "validation", "validation", notDone},
		"zipped":                                    {answer("200 OK\r\nContent-Encoding: gzip", small), 0, "", "", done},
		"zipped, and cut":                           {answer("200 OK\r\nContent-Encoding: gzip", small[:len(small)-12]), 0, "network", "network", unknown},
		"said to be zipped":                         {answer("200 OK\r\nContent-Encoding: gzip", good), 0, "network", "network", unknown},
		"packed as nobody asked":                    {answer("200 OK\r\nContent-Encoding: br", "\x0b\x02\x80{}\x03"), 0, "malformed", "unknown", unknown},
		"zipped, and 64 MB":                         {answer("200 OK\r\nContent-Encoding: gzip", zipped(t, io.LimitReader(zeros{}, 64<<20))), 0, "malformed", "unknown", unknown},
		"a byte now and then":                       {answer("200 OK", good), 20 * time.Millisecond, "timeout", "timeout", unknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustOpen(t, rawServer(t, []byte(tc.out), tc.drip), wired)
			a, e := ask(t, c, "a", "k1")
			var kind connectors.Kind
			if e != nil {
				kind = e.Kind
			}
			if kind != tc.look || a.Complete != (tc.look == "") || len(a.Records) != 0 || a.Requests != 1 {
				t.Errorf("look: %+v, %v; want %q", a, e, tc.look)
			}
			s := connectors.Send{Operation: "a", Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{}`), SendBy: time.Now().Add(400 * time.Millisecond)}
			if r := c.Send(t.Context(), s); r.Kind != tc.send || r.Effect != tc.effect || !r.Wrote || r.Rule == "" {
				t.Errorf("send: %+v; want %q, %s", r, tc.send, tc.effect)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
