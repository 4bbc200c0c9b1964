package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
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
