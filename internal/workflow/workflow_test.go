package workflow_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/workflow"
)

func TestSendReportsWhatTheCallerSaw(t *testing.T) {
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/made":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"id":"inv_7"}`)
		case "/no-id":
			_, _ = io.WriteString(w, `{}`)
		case "/refused":
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"code":"SLOW_DOWN","message":"too many"}`)
		case "/cut":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Le")
				_ = conn.Close()
			}
		case "/late":
			select {
			case <-time.After(5 * time.Second):
			case <-r.Context().Done():
			}
		}
	}))
	defer srv.Close()
	client := &workflow.Client{Timeout: 300 * time.Millisecond, IDPath: "id", Code: func(body []byte) (string, string) {
		var e struct{ Code, Message string }
		_ = json.Unmarshal(body, &e)
		return e.Code, e.Message
	}}
	a := workflow.Action{Key: "run:step", Payload: json.RawMessage(`{"reference":"run:step"}`)}
	for name, c := range map[string]struct {
		path string
		want workflow.Attempt
	}{
		"made: ok with the id":                {"/made", workflow.Attempt{Status: "ok", HTTPStatus: 201, RemoteID: "inv_7"}},
		"made, but no id to prove it: error":  {"/no-id", workflow.Attempt{Status: "error", HTTPStatus: 200, ErrorClass: "network"}},
		"refused: status, code, retry-after":  {"/refused", workflow.Attempt{Status: "error", HTTPStatus: 429, ErrorCode: "SLOW_DOWN", RetryAfter: "3"}},
		"answer cut: network, nothing else":   {"/cut", workflow.Attempt{Status: "error", ErrorClass: "network"}},
		"answer too late: timeout, no status": {"/late", workflow.Attempt{Status: "error", ErrorClass: "timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := calls.Load()
			got := client.Send(context.Background(), srv.URL+c.path, a)
			if n := calls.Load() - before; n != 1 {
				t.Errorf("the action went out %d times, want once", n)
			}
			if got.Status != c.want.Status || got.HTTPStatus != c.want.HTTPStatus || got.ErrorClass != c.want.ErrorClass ||
				got.ErrorCode != c.want.ErrorCode || got.RetryAfter != c.want.RetryAfter || got.RemoteID != c.want.RemoteID {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got.FinishedAt == nil || got.FinishedAt.Before(got.StartedAt) {
				t.Errorf("finished at %v, started at %v", got.FinishedAt, got.StartedAt)
			}
		})
	}
}

func TestWriteFileIsOneObjectALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.jsonl")
	at := workflow.Attempt{AttemptID: "a", StartedAt: time.Now().UTC(), Status: "started"}
	recs := []workflow.Record{
		workflow.RecordOf(workflow.Action{Key: "r1:a", Payload: json.RawMessage(`{"amount":19.90,"note":"<&>"}`)}, at),
		workflow.RecordOf(workflow.Action{Key: "r2:a", Payload: json.RawMessage(`{}`)}, at),
	}
	if err := workflow.WriteFile(file, recs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `"payload":{"amount":19.90,"note":"<&>"}`) {
		t.Errorf("want two lines with the payload's own bytes, got:\n%s", strings.Join(lines, "\n"))
	}
	if strings.Contains(lines[0], "finished_at") {
		t.Errorf("an attempt without result must not claim an end: %s", lines[0])
	}
}
