package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
)

// logLines is stderr of a daemon that is running.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// wait waits for a line with this message, and returns its members.
func (l *logLines) wait(t *testing.T, message string) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(l.String()) {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) == nil && strings.HasPrefix(m["msg"].(string), message) {
				return m
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line %q in:\n%s", message, l)
		}
	}
}

// startDaemon runs a daemon in a folder of its own with this [daemon] block.
func startDaemon(t *testing.T, block string) (log *logLines, stop func() int) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("reconcile.toml", []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	log = &logLines{}
	ctx, cancel := context.WithCancelCause(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"daemon", "--log-json"}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: log, Now: time.Now,
			Env: func(string) (string, bool) { return "", false }})
	}()
	return log, func() int {
		cancel(ErrInterrupted)
		select {
		case c := <-code:
			return c
		case <-time.After(30 * time.Second):
			t.Fatalf("the daemon did not stop:\n%s", log)
			return 0
		}
	}
}

func TestTheDaemonAnswersHTTP(t *testing.T) {
	log, stop := startDaemon(t, "[daemon]\nlisten = \"127.0.0.1:0\"\n")
	address := log.wait(t, "http")["address"].(string)
	var token bytes.Buffer
	if code, stderr := run(t, &token, "token", "create", "--name", "n8n", "--scope", "ingest"); code != ExitDone {
		t.Fatalf("token create: exit %d, %s", code, stderr)
	}
	post := func() (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/entries",
			strings.NewReader(`{"action_key":"run:a","workflow":"w","connector":"crm","operation":"x","payload":{"card":"4111"},"attempts":[{"status":"unknown"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token.String()))
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if code, body := post(); code != http.StatusOK || !strings.Contains(body, `"recorded":"new"`) {
		t.Errorf("recorded: %d %s", code, body)
	}
	var shown bytes.Buffer
	if code, stderr := run(t, &shown, "show", "run:a", "--output", "json"); code != ExitDone || !strings.Contains(shown.String(), "http:n8n") {
		t.Errorf("show: exit %d, %s %s", code, stderr, shown.String())
	}
	if code, stderr := run(t, io.Discard, "token", "revoke", "n8n"); code != ExitDone {
		t.Errorf("token revoke: exit %d, %s", code, stderr)
	}
	if code, body := post(); code != http.StatusUnauthorized || !strings.Contains(body, "revoked_token") {
		t.Errorf("with a revoked token: %d %s", code, body)
	}
	if code := stop(); code != ExitDone {
		t.Errorf("stopped: exit %d:\n%s", code, log)
	}
	for _, secret := range []string{strings.TrimSpace(token.String()), "4111"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}

func TestWhereTheDaemonCannotListen(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		block, want string
		code        int
	}{
		"an address that was written, and is taken": {"[daemon]\nlisten = \"" + taken.Addr().String() + "\"\n", "the address is taken by another process", ExitFailed},
		"a certificate that is not there":           {"[daemon]\nlisten = \"127.0.0.1:0\"\ntls_cert = \"a.crt\"\ntls_key = \"a.key\"\n", "daemon.tls_cert", ExitFailed},
		"an address for everybody":                  {"[daemon]\nlisten = \"0.0.0.0:0\"\n", "allow_plain = true", ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("reconcile.toml", []byte(c.block), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, stderr := run(t, io.Discard, "daemon"); code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, %s", code, stderr)
			}
		})
	}
	t.Run("the default, and it is taken", func(t *testing.T) {
		// By this test, or by whoever has it already.
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:8321"); err == nil {
			defer l.Close()
		}
		log, stop := startDaemon(t, "")
		log.wait(t, "HTTP is not answered by this daemon")
		log.wait(t, "daemon started")
		if code := stop(); code != ExitDone {
			t.Errorf("stopped: exit %d:\n%s", code, log)
		}
	})
	t.Run("off", func(t *testing.T) {
		log, stop := startDaemon(t, "[daemon]\nlisten = \"off\"\n")
		log.wait(t, "daemon started")
		if code := stop(); code != ExitDone || strings.Contains(log.String(), "http") {
			t.Errorf("stopped: exit %d:\n%s", code, log)
		}
	})
}

// fetch reads a path of a daemon.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestADaemonWaitsForItsDatabase when it starts before it, and goes on when it
// was away for a while.
func TestADaemonWaitsForItsDatabase(t *testing.T) {
	server := pgtest.Start(t, nil)
	url, err := server.NewDB()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	log, stop := startDaemon(t, fmt.Sprintf("[ledger]\nurl = %q\nauto_migrate = true\n[daemon]\nlisten = \"127.0.0.1:0\"\n[schedule]\nsettle = \"1s\"\n", url))
	address := log.wait(t, "http")["address"].(string)
	told := log.wait(t, "the database is away")
	if text := fmt.Sprint(told["err"]); !strings.Contains(text, "the database cannot be reached; check host, port and that the server runs") {
		t.Errorf("why: %s", text)
	}
	// ready waits until /readyz says so.
	ready := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			code, body := fetch(t, address+"/readyz")
			if code == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz: %d %s\n%s", code, body, log)
			}
		}
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/healthz":      {200, "alive"},
		"/readyz":       {503, "waits for it"},
		"/v1/entries":   {503, "waits for it"},
		"/v1/entries/a": {503, "waits for it"},
		"/metrics":      {200, "reconcile_ledger_up 0\n"},
		"/v1/nothing":   {404, "no_such_path"},
	} {
		if code, body := fetch(t, address+path); code != want.code || !strings.Contains(body, want.text) {
			t.Errorf("%s while the database is away: %d %s", path, code, body)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	log.wait(t, "daemon started")
	ready(200)

	passes := func() int { return strings.Count(log.String(), `"msg":"pass"`) }
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		ready(503)
		if code, _ := fetch(t, address+"/healthz"); code != 200 {
			t.Errorf("/healthz: %d", code)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		ready(200)
		before := passes()
		for deadline := time.Now().Add(60 * time.Second); passes() == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no pass after the database came back:\n%s", log)
			}
		}
	}
	if code := stop(); code != ExitDone {
		t.Errorf("stopped: exit %d:\n%s", code, log)
	}
}

// TestWaitingMendsNotEverything: what needs a person ends the daemon at once.
func TestWaitingMendsNotEverything(t *testing.T) {
	url := pgtest.DB(t)
	for name, c := range map[string]struct {
		url, want string
		code      int
	}{
		"a database without a schema":           {url, "run: reconcile migrate", ExitFailed},
		"a database that is not there":          {strings.Replace(url, "?", "_other?", 1), "the database does not exist", ExitFailed},
		"an address that is none":               {"postgres://h:port/d", "is not the address of a ledger", ExitUsage},
		"an address that names no database":     {"postgres://h", "names no database", ExitUsage},
		"a setting that the driver cannot read": {"postgres://127.0.0.1:1/d?connect_timeout=soon", "connect_timeout", ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("reconcile.toml", fmt.Appendf(nil, "[ledger]\nurl = %q\n[daemon]\nlisten = \"off\"\n", c.url), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, stderr := run(t, io.Discard, "daemon"); code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, %s", code, stderr)
			}
		})
	}
}

// TestASignalEndsADaemon that waits, or that is in the middle of a request, with
// exit code 0.
func TestASignalEndsADaemon(t *testing.T) {
	t.Run("while it waits for its database", func(t *testing.T) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		away := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		log, stop := startDaemon(t, "[ledger]\nurl = \"postgres://"+away+"/d\"\n[daemon]\nlisten = \"127.0.0.1:0\"\n")
		log.wait(t, "the database is away")
		if code := stop(); code != ExitDone {
			t.Errorf("exit %d:\n%s", code, log)
		}
		log.wait(t, "daemon stopped")
	})
	t.Run("while it is in the middle of asking for it", func(t *testing.T) {
		// A server that takes connections and says nothing.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		log, stop := startDaemon(t, "[ledger]\nurl = \"postgres://"+l.Addr().String()+"/d?sslmode=disable\"\n[daemon]\nlisten = \"off\"\n")
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if code := stop(); code != ExitDone {
			t.Errorf("exit %d:\n%s", code, log)
		}
	})
	t.Run("while a request does not end", func(t *testing.T) {
		log, stop := startDaemon(t, "[daemon]\nlisten = \"127.0.0.1:0\"\ngrace = \"50ms\"\n")
		address := log.wait(t, "http")["address"].(string)
		var token bytes.Buffer
		if code, stderr := run(t, &token, "token", "create", "--name", "n8n", "--scope", "ingest"); code != ExitDone {
			t.Fatalf("token create: exit %d, %s", code, stderr)
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /v1/entries HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
			strings.TrimSpace(token.String())); err != nil {
			t.Fatal(err)
		}
		fetch(t, address+"/healthz") // by then the other has come too
		if code := stop(); code != ExitDone {
			t.Errorf("exit %d:\n%s", code, log)
		}
	})
}
