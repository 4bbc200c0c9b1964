package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/recovery-ledger/reconcile/connectors"
)

// system answers requests by "METHOD /path" and keeps what came.
type system struct {
	*httptest.Server
	mu       sync.Mutex
	answers  map[string]func(w http.ResponseWriter, r *http.Request, body string)
	requests []string // "METHOD uri" and, if any, " body"
	headers  []http.Header
}

func newSystem(t *testing.T) *system {
	s := &system{answers: map[string]func(http.ResponseWriter, *http.Request, string){}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		line := r.Method + " " + r.URL.RequestURI()
		if len(b) > 0 {
			line += " " + string(b)
		}
		s.mu.Lock()
		s.requests = append(s.requests, line)
		s.headers = append(s.headers, r.Header.Clone())
		h := s.answers[r.Method+" "+r.URL.Path]
		s.mu.Unlock()
		if h == nil {
			t.Errorf("unexpected request: %s", line)
			http.Error(w, "unexpected", http.StatusTeapot)
			return
		}
		h(w, r, string(b))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *system) on(at string, status int, body string, header ...string) {
	s.do(at, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (s *system) do(at string, h func(w http.ResponseWriter, r *http.Request, body string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[at] = h
}

func (s *system) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

func fromTOML(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := toml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("TOML of the test: %v\n%s", err, text)
	}
	return m
}

func noEnv(string) (string, bool) { return "", false }

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func mustOpen(t *testing.T, base, text string) *Connector {
	t.Helper()
	m := fromTOML(t, text)
	m["base_url"] = base
	c, err := Open(connectors.Config{Name: "sys", Table: m, Env: env("BILLING_TOKEN", "secret-token-value")})
	if err != nil {
		t.Fatalf("open:\n%v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// billing is the example of docs/connectors.md.
const billing = `
type = "rest"
base_url = "https://billing.example/api"
auth = { bearer = "${BILLING_TOKEN}" }
timeout = "20s"
rate = { calls = 10, per = "1s", concurrent = 4 }
lands_within = "60s"
visible_within = "2m"
keeps_key = "24h"
idempotency = { replayed = { header = "Idempotent-Replayed", is = "true" } }
in_flight_for = "15m"
absent_after = 2
absent_spacing = "30s"
probe = { method = "GET", path = "/me" }

[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/invoices", query = { reference = "{key}" }, items = "data", match = "reference", id = "id", status = "status" }
statuses = { paid = "applied", open = "applied", processing = "pending", void = "reversed", failed = "rejected" }
compare = { amount_cents = "amount_cents" }
canary = "known-invoice"
send = { method = "POST", path = "/invoices", headers = { Idempotency-Key = "{idempotency_key}" }, id = "id" }
check = { method = "GET", path = "/customers/{record_id}", consent = "opted_in", owner = "owner.id", lifecycle = "stage", lifecycle_deny = ["churned"] }
errors = [ { status = 422, code = "error.code", is = "DUP_REF", class = "already_exists" } ]
`

func TestBillingExampleOfTheSpec(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL+"/api", billing)

	info := c.Info()
	op, _ := info.Operation("invoice.create")
	want := connectors.Operation{
		Name: "invoice.create", Lookup: connectors.LookupSingle, BatchMax: 1, Timeout: 20 * time.Second, LandsWithin: time.Minute,
		VisibleWithin: 2 * time.Minute, InFlightFor: 15 * time.Minute, AbsentAfter: 2, AbsentSpacing: 30 * time.Second,
		KeepsKey: 24 * time.Hour, KeyScope: "account", CarriesKey: true, ReplaysError: true, HasCompare: true, Canary: "known-invoice",
		CanSend: true, SendNeedsID: true, Checks: []connectors.CheckName{"consent", "owner", "lifecycle"},
	}
	if d := cmp.Diff(want, op); d != "" {
		t.Errorf("Operation (-want +got)\n%s", d)
	}
	if !info.HasProbe || info.HasBatch || info.Lane != "sys" || info.Version == "" {
		t.Errorf("Info = %+v", info)
	}
	if d := cmp.Diff([]connectors.Rate{{Calls: 10, Per: time.Second, Concurrent: 4}}, info.Rates); d != "" {
		t.Errorf("Rates (-want +got)\n%s", d)
	}

	ctx := context.Background()
	sys.on("GET /api/invoices", 200, `{"data":[{"id":"in_1","reference":"run:a/b?c=1","status":"paid","amount_cents":1990.0}]}`)
	got, err := c.Lookup(ctx, connectors.Query{Operation: "invoice.create", Keys: []string{"run:a/b?c=1"}, Payload: []byte(`{"amount_cents":1990}`)})
	if err != nil {
		t.Fatal(err)
	}
	rec := connectors.Record{ID: "in_1", Key: "run:a/b?c=1", Status: "paid", Standing: connectors.StandingApplied,
		Compared: []connectors.Compared{{Path: "amount_cents", Want: "1990", Got: "1990.0", Equal: true}}}
	if d := cmp.Diff([]connectors.Record{rec}, got.Records); d != "" || !got.Complete || got.Form != "single" || got.Requests != 1 || got.AskedAt.IsZero() {
		t.Errorf("Lookup = %+v\n%s", got, d)
	}

	sys.on("POST /api/invoices", 201, `{"id":"in_2"}`)
	res := c.Send(ctx, connectors.Send{Operation: "invoice.create", Key: "k1", IdempotencyKey: "k1",
		Payload: []byte(`{"amount_cents": 19.90,"b":9007199254740993}`), SendBy: time.Now().Add(time.Minute)})
	if res.Effect != connectors.EffectDone || res.Kind != "" || res.RemoteID != "in_2" || !res.Wrote || !res.Answered {
		t.Errorf("Send = %+v", res)
	}

	sys.on("GET /api/customers/c-1", 200, `{"opted_in":true,"owner":{"id":"5502"},"stage":"churned"}`)
	vs := c.Check(ctx, connectors.CheckQuery{Query: connectors.Query{Operation: "invoice.create", RecordID: "c-1"},
		Want: []connectors.CheckName{"consent", "owner", "lifecycle"}})
	wantVerdicts := []connectors.Verdict{
		{Check: "consent", Kind: connectors.VerdictPass, Value: "true"},
		{Check: "owner", Kind: connectors.VerdictPass, Value: "5502"},
		{Check: "lifecycle", Kind: connectors.VerdictRefuse, Value: "churned", Detail: `stage is "churned"`},
	}
	if d := cmp.Diff(wantVerdicts, vs); d != "" {
		t.Errorf("Check (-want +got)\n%s", d)
	}

	sys.on("GET /api/me", 200, `{}`)
	if _, err := c.Probe(ctx); err != nil {
		t.Errorf("Probe: %v", err)
	}

	wantRequests := []string{
		"GET /api/invoices?reference=run%3Aa%2Fb%3Fc%3D1",
		`POST /api/invoices {"amount_cents": 19.90,"b":9007199254740993}`,
		"GET /api/customers/c-1",
		"GET /api/me",
	}
	if d := cmp.Diff(wantRequests, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}
	if h := sys.headers[1]; h.Get("Idempotency-Key") != "k1" || h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer secret-token-value" ||
		!strings.HasPrefix(h.Get("User-Agent"), "reconcile/") {
		t.Errorf("headers of the send: %v", h)
	}

	sys.on("POST /api/invoices", 422, `{"error":{"code":"DUP_REF","message":"taken; token secret-token-value"}}`)
	res = c.Send(ctx, connectors.Send{Operation: "invoice.create", Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)})
	if res.Kind != connectors.KindAlreadyExists || res.Effect != connectors.EffectNotDone || res.Rule != "operation error 1" || res.Code != "DUP_REF" {
		t.Errorf("Send = %+v", res)
	}
	if strings.Contains(res.Message, "secret") {
		t.Errorf("message %q holds the token", res.Message)
	}
}
