package reconcile_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/rest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// reply is one scripted HTTP answer.
type reply struct {
	status int
	header http.Header
	body   string
	cut    bool // break the connection: in the middle of the body where there is one
	hang   bool // say nothing until the caller gives up
	made   bool // the work is done all the same
}

func says(status int, body string, header ...string) reply {
	r := reply{status: status, body: body, header: http.Header{"Content-Type": {"application/json"}}}
	for i := 0; i < len(header); i += 2 {
		r.header.Set(header[i], header[i+1])
	}
	return r
}

func page(status int, title string) reply {
	return says(status, "<!DOCTYPE html><html><head><title>"+title+"</title></head><body>"+strings.Repeat("<p>please wait</p>", 500)+"</body></html>", "Content-Type", "text/html; charset=UTF-8")
}

func (r reply) butMade() reply {
	r.made = true
	return r
}

// site is one outside system behind the scripted server. It does what an
// ordinary system does, but for what is scripted; it counts effects itself.
type site struct {
	mu      sync.Mutex
	records []siteRecord
	sends   []*http.Request // their bodies are in bodies
	bodies  []string
	asked   int // questions, those for the control included

	onSend func(n int, key string) (reply, bool)            // of the n-th send, from 1
	on     func(r *http.Request, body string) (reply, bool) // of any other request
}

type siteRecord struct {
	id, key, status, amount string
}

func (y *site) make(key string) {
	y.records = append(y.records, siteRecord{id: fmt.Sprintf("id-%d", len(y.records)+1), key: key, status: "open", amount: "10"})
}

func (y *site) effects(key string) (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, r := range y.records {
		if r.key == key {
			n++
		}
	}
	return n
}

func (y *site) answer(r *http.Request, body string) reply {
	y.mu.Lock()
	defer y.mu.Unlock()
	key := r.Header.Get("X-Reference")
	if r.Method != http.MethodGet && key != "" {
		y.sends, y.bodies = append(y.sends, r), append(y.bodies, body)
		if y.onSend != nil {
			if a, ok := y.onSend(len(y.sends), key); ok {
				if a.made {
					y.make(key)
				}
				return a
			}
		}
		y.make(key)
		return says(201, fmt.Sprintf(`{"id":"id-%d"}`, len(y.records)))
	}
	y.asked++
	if y.on != nil {
		if a, ok := y.on(r, body); ok {
			return a
		}
	}
	var data []string
	for _, rec := range y.records {
		if rec.key == r.URL.Query().Get("reference") {
			data = append(data, fmt.Sprintf(`{"id":%q,"reference":%q,"status":%q,"amount":%s}`, rec.id, rec.key, rec.status, rec.amount))
		}
	}
	return says(200, `{"data":[`+strings.Join(data, ",")+`]}`)
}

// wire is a world whose connectors are real ones, each described as a user
// would and talking to a site of its own over HTTP.
type wire struct {
	*world
	sites map[string]*site
}

// lane is the rate and timings of every definition here.
const lane = `
rate = { calls = 100_000, per = "1s", concurrent = 2 }
keeps_key = "24h"
`

// invoices is an ordinary system: a lookup by our key, a send that carries it.
const invoices = `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/invoices", query = { reference = "{key}" }, items = "data", match = "reference", id = "id", status = "status" }
statuses = { open = "applied", processing = "pending", failed = "rejected", void = "reversed" }
compare = { amount = "amount" }
canary = "canary"
send = { method = "POST", path = "/invoices", id = "id", headers = { Idempotency-Key = "{idempotency_key}", X-Reference = "{key}" } }
`

// newWire opens one connector for each definition. Of a definition without an
// operation the operation is that of invoices.
func newWire(t *testing.T, open func(*fakeClock) ledger.Store, defs map[string]string, opts ...option) *wire {
	t.Helper()
	w := &wire{world: &world{t: t, clock: newClock()}, sites: map[string]*site{}}
	w.world.open = func() ledger.Store { return open(w.clock) }
	w.store = w.world.open()
	w.sys = &system{clock: w.clock}
	p := sending()
	for _, o := range opts {
		o(w.sys, &p)
	}
	srv := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(srv.Close)
	conns := map[string]connectors.Connector{}
	for name, def := range defs {
		if !strings.Contains(def, "[[operation]]") {
			def += invoices
		}
		var table map[string]any
		if err := toml.Unmarshal([]byte(strings.ReplaceAll(lane+def, "SITE", srv.URL+"/"+name)), &table); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		table["base_url"] = srv.URL + "/" + name
		c, err := rest.Open(connectors.Config{Name: name, Table: table, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		conns[name] = c
		w.sites[name] = &site{records: []siteRecord{{id: "canary-1", key: "canary", status: "open", amount: "1"}}}
	}
	w.rec = &reconcile.Recorder{Connectors: conns, Policies: reconcile.Policies{List: []reconcile.Policy{p}, Version: "p1"}}
	w.engine = w.newEngine("one", w.store)
	return w
}

func (w *wire) serve(rw http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	r.URL.Path = "/" + path
	a := w.sites[name].answer(r, string(b))
	for k, v := range a.header {
		soon := time.Now().Add(91 * time.Second)
		rw.Header().Set(k, strings.NewReplacer("EPOCH_MS", fmt.Sprint(soon.UnixMilli()), "EPOCH", fmt.Sprint(soon.Unix())).Replace(v[0]))
	}
	switch {
	case a.hang:
		<-r.Context().Done() // the caller resets the connection
		return
	case a.cut && a.body == "":
		hijack(rw)
		return
	case a.cut:
		rw.Header().Set("Content-Length", fmt.Sprint(len(a.body)+10))
	}
	rw.WriteHeader(a.status)
	_, _ = io.WriteString(rw, a.body)
	if a.cut {
		_ = http.NewResponseController(rw).Flush()
		hijack(rw)
	}
}

func hijack(rw http.ResponseWriter) {
	if c, _, err := http.NewResponseController(rw).Hijack(); err == nil {
		_ = c.Close()
	}
}

// at is the record of one action at a connector.
func (w *wire) at(connector, key, attempt string) string {
	return strings.Replace(w.line(key, attempt), `"billing"`, fmt.Sprintf("%q", connector), 1)
}

// last is an entry's last attempt.
func (w *wire) last(key string) ledger.Attempt {
	w.t.Helper()
	s, err := w.store.Entry(context.Background(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Attempts[len(s.Attempts)-1]
}

// hours runs passes over the time given, first close together and then apart.
func (w *wire) hours(d time.Duration) {
	w.t.Helper()
	for step, end := time.Minute, w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.clock.advance(step)
		w.pass()
		if w.clock.Now().After(end.Add(-d + 15*time.Minute)) {
			step = 20 * time.Minute
		}
	}
}

// sendCase is one answer to a send of ours, and what it must come to. The
// attempt before it was a rate limit that the workflow reported.
type sendCase struct {
	def    string // of the connector
	answer reply  // to the first send

	state   ledger.State // right after the answer
	reason  string       // its beginning
	class   ledger.Class
	effect  ledger.Effect
	wait    time.Duration // next at, after the answer; 0: not tested
	paused  time.Duration // of the lane; 0: not paused
	free    bool          // it does not count against max_attempts
	said    string        // part of the attempt's message
	raw     string        // the attempt's Retry-After
	end     ledger.State  // after some hours; "": settled applied
	sends   int           // in all; 0: one more than the first, unless that was done or final
	effects int           // at the system, at the end; -1: none
}

const (
	notDone = ledger.EffectNotDone
	unknown = ledger.EffectUnknown
	done    = ledger.EffectDone
)

// refused is a refusal that a person has to see.
func refused(def string, a reply, class ledger.Class, said string) sendCase {
	return sendCase{def: def, answer: a, state: ledger.StateEscalated, reason: "permanent: " + string(class), class: class, effect: notDone,
		said: said, end: ledger.StateEscalated, sends: 1, effects: -1}
}

// doubted is an answer that says nothing of the effect.
func doubted(def string, a reply, class ledger.Class, said string) sendCase {
	return sendCase{def: def, answer: a, state: ledger.StateAmbiguous, reason: "effect_unknown", class: class, effect: unknown, said: said}
}

// limitedFor is a limit that pauses the lane and is waited for.
func limitedFor(def string, a reply, class ledger.Class, wait time.Duration) sendCase {
	return sendCase{def: def, answer: a, state: ledger.StateRetryable, reason: "backoff: " + string(class), class: class, effect: notDone,
		wait: max(wait, backoff[class == ledger.ClassRateLimit]), paused: max(wait, 5*time.Second), free: class != ledger.ClassRateLimit}
}

// backoff is the policy's wait after an attempt that counts, and after one that
// does not.
var backoff = map[bool]time.Duration{true: time.Minute, false: 30 * time.Second}

func accepted(def string, a reply) sendCase {
	return sendCase{def: def, answer: a.butMade(), state: ledger.StateSettled, reason: "sent", effect: done}
}

func (c sendCase) with(f func(*sendCase)) sendCase {
	f(&c)
	return c
}

// Definitions as users write them; names of systems stand in the cases.
const (
	hook = `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/invoices", query = { reference = "{key}" }, items = "data", match = "reference", id = "id" }
canary = "canary"
send = { method = "POST", path = "/hook", json = { text = "{key}" }, headers = { X-Reference = "{key}" } }
`
	mail = `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/invoices", query = { reference = "{key}" }, items = "data", match = "reference", id = "id" }
canary = "canary"
send = { method = "POST", path = "/mail", id = "header:X-Message-Id", headers = { X-Reference = "{key}" } }
`
	teams = `
errors = [{ status = 200, code = { path = "$", like = "HTTP error (429)" }, is = "429", class = "rate_limit", effect = "not_done" }]
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/invoices", query = { reference = "{key}" }, items = "data", match = "reference", id = "id" }
canary = "canary"
send = { method = "POST", path = "/hook", id = { path = "$", like = "^([0-9]+)$" }, headers = { X-Reference = "{key}" } }
`
	soap = `
errors = [
  { status = 200, code = { path = "$", like = "<Success>(False)" }, is = "False", class = "server_error", effect = "not_done" },
  { status = [200, 500], code = { path = "$", like = "<faultcode>([A-Za-z.]+)" }, is = "Server.Busy", class = "unavailable", effect = "not_done" },
]
` + hook
	stripe = `errors = [
  { code = "error.type", is = "idempotency_error", class = "duplicate_request", effect = "unknown" },
  { code = "error.code", is = "idempotency_key_in_use", class = "lock_conflict", effect = "unknown", wait = "30s" },
  { code = "error.type", is = "card_error", class = "validation", effect = "not_done", spent = true },
]
`
	shopify = `rate_headers = [{ remaining = "extensions.cost.available", refill = "extensions.cost.rate", need = "extensions.cost.requested" }]
errors = [
  { code = "errors.*.extensions.code", is = "THROTTLED", class = "rate_limit", effect = "not_done" },
  { on = "send", code = "data.*.userErrors.*.message", class = "validation", effect = "not_done" },
  { code = "errors.*.message", class = "unknown", effect = "unknown" },
  { status = 422, code = "errors", is = "Too many requests", class = "rate_limit" },
]
`
	slack = `errors = [
  { code = "error", is = "invalid_auth", class = "auth", effect = "not_done" },
  { code = "error", is = "ratelimited", class = "rate_limit", effect = "not_done" },
  { code = "ok", is = "false", class = "validation", effect = "not_done" },
]
`
	salesforce = `errors = [
  { code = "*.errorCode", is = "REQUEST_LIMIT_EXCEEDED", class = "quota", effect = "not_done", wait = "1h" },
  { code = "*.errorCode", is = "UNABLE_TO_LOCK_ROW", class = "lock_conflict", effect = "not_done" },
  { code = "*.errorCode", is = "DUPLICATES_DETECTED", class = "already_exists", effect = "not_done" },
]
`
	hubspot = `errors = [
  { status = 429, code = "policyName", is = "DAILY", class = "quota", wait = "midnight", zone = "Europe/Berlin" },
  { status = 429, code = "policyName", is = "TEN_SECONDLY_ROLLING", class = "rate_limit", wait = "10s" },
]
`
	github     = `errors = [{ status = 403, code = "message", like = "secondary rate limit", class = "rate_limit", wait = "60s" }]` + "\n"
	quickbooks = `errors = [
  { code = "Fault.Error.*.code", is = "6140", class = "already_exists", effect = "not_done" },
  { code = "Fault", class = "server_error", effect = "unknown" },
]
`
	marketo = `errors = [
  { code = "errors.*.code", is = ["601", "602"], class = "auth", effect = "not_done" },
  { code = "errors.*.code", is = "606", class = "rate_limit", effect = "not_done" },
  { code = "errors.*.code", class = "unknown", effect = "unknown" },
]
`
	resets   = `rate_headers = [{ remaining = "header:X-RateLimit-Remaining", reset = "header:X-RateLimit-Reset" }]` + "\n"
	bodyWait = `errors = [{ status = 429, class = "rate_limit", wait = { path = "retry_after", unit = "UNIT" } }]` + "\n"
)

func sendCases() map[string]sendCase {
	tooMany := func(retryAfter string) reply { return says(429, `{}`, "Retry-After", retryAfter) }
	reset := func(v string) reply {
		return says(429, `{}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", v)
	}
	throttled := func(rate int) reply {
		return says(200, fmt.Sprintf(`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requested":92,"available":42,"rate":%d}}}`, rate))
	}
	sent := func(c *sendCase) { c.answer.made, c.sends = true, 1 }
	cases := map[string]sendCase{
		"a 201 with an id": accepted("", says(201, `{"id":"id-2"}`)),

		"A10 a 504 page, and the reply was stored":   doubted("", page(504, "504 Gateway Time-out"), ledger.ClassTimeout, "HTTP 504 page: 504 Gateway Time-out").with(sent),
		"E11 a 520 page of 17 kB":                    doubted("", page(520, "api.example.org | 520: Web server is returning an unknown error"), ledger.ClassServerError, "520"),
		"E12 a 504 page, and nothing was done":       doubted("", page(504, "504 Gateway Time-out"), ledger.ClassTimeout, "504"),
		"E15 a 500 without a body":                   doubted("", says(500, ""), ledger.ClassServerError, "HTTP 500"),
		"E07 a 500 without a body, and it was done":  doubted("", says(500, ""), ledger.ClassServerError, "HTTP 500").with(sent),
		"E15 a 404 without a body":                   refused("", says(404, ""), ledger.ClassNotFound, "HTTP 404"),
		"E14 a 202 without body, the id in a header": accepted(mail, says(202, "", "X-Message-Id", "m-1")),
		"E14 a 200 without body where an id is due":  doubted("", says(200, ""), ledger.ClassUnknown, "").with(sent),
		"a 200 with everything but the id":           doubted("", says(200, `{"ok":true}`), ledger.ClassSilentNoop, ""),
		"E03 plain ok":                               accepted(hook, says(200, "ok", "Content-Type", "text/plain")),
		"E03 success true":                           accepted(hook, says(200, `{"success":true}`)),
		"E03 a 204":                                  accepted(hook, says(204, "")),
		"E04 a number is a success":                  accepted(teams, says(200, "1", "Content-Type", "text/plain")),
		"E04 a sentence in a 200 is a limit":         limitedFor(teams, says(200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429", "Content-Type", "text/plain"), ledger.ClassRateLimit, 0),
		"E04 another sentence in a 200":              doubted(teams, says(200, "Webhook message delivery failed", "Content-Type", "text/plain"), ledger.ClassUnknown, ""),
		"E06 Success False in XML": sendCase{def: soap, answer: says(200, `<r><Message>PS99:Unexpected error.</Message><Success>False</Success></r>`, "Content-Type", "text/xml"),
			state: ledger.StateRetryable, reason: "backoff: server_error", class: ledger.ClassServerError, effect: notDone, wait: time.Minute, said: "PS99:Unexpected error."},
		"E07 a SOAP fault in a 200": sendCase{def: soap, answer: says(200, `<Envelope><Body><Fault><faultcode>Server.Busy</faultcode></Fault></Body></Envelope>`, "Content-Type", "text/xml"),
			state: ledger.StateRetryable, reason: "backoff: unavailable", class: ledger.ClassUnavailable, effect: notDone, wait: time.Minute, said: "Server.Busy"},
		"E13 a challenge in a 403":                       limitedFor("", page(403, "Just a moment..."), ledger.ClassBlockedByEdge, 0).with(func(c *sendCase) { c.said = "Just a moment..." }),
		"E13 a challenge in a 200":                       doubted(hook, page(200, "Just a moment..."), ledger.ClassBlockedByEdge, "Just a moment...").with(func(c *sendCase) { c.paused, c.free = 5*time.Second, true }),
		"a redirect is not followed":                     doubted("", says(307, "", "Location", "https://elsewhere.example/"), ledger.ClassUnknown, "redirects are not followed").with(sent),
		"the answer is cut in its body, and it was done": doubted("", reply{status: 201, body: `{"id":"id-`, cut: true}, ledger.ClassNetwork, "").with(sent),
		"the connection breaks instead of an answer":     doubted("", reply{cut: true}, ledger.ClassNetwork, ""),

		"E01 THROTTLED in a 200":              limitedFor(shopify, throttled(50), ledger.ClassRateLimit, 0),
		"E01 a text that only holds the word": doubted(shopify, says(200, `{"errors":[{"message":"title 'Throttled' is taken"}]}`), ledger.ClassUnknown, "title 'Throttled' is taken"),
		"E01 user errors in a 200":            refused(shopify, says(200, `{"data":{"orderCreate":{"order":null,"userErrors":[{"field":["email"],"message":"is invalid"}]}}}`), ledger.ClassValidation, ""),
		"E02 invalid_auth in a 200":           limitedFor(slack, says(200, `{"ok":false,"error":"invalid_auth"}`), ledger.ClassAuth, 0),
		"E02 ratelimited in a 200":            limitedFor(slack, says(200, `{"ok":false,"error":"ratelimited"}`, "Retry-After", "30"), ledger.ClassRateLimit, 30*time.Second),
		"E02 channel_not_found in a 200":      refused(slack, says(200, `{"ok":false,"error":"channel_not_found"}`), ledger.ClassValidation, "channel_not_found"),
		"E05 a Fault in a 200 that says it is there": doubted(quickbooks, says(200, `{"Fault":{"Error":[{"code":"6140","Message":"Duplicate Document Number Error"}],"type":"ValidationFault"}}`), ledger.ClassAlreadyExists, "").with(func(c *sendCase) {
			sent(c)
			c.reason = "already_exists"
		}),
		"E05 another Fault in a 200":    doubted(quickbooks, says(200, `{"Fault":{"Error":[{"code":"10000"}],"type":"SystemFault"}}`), ledger.ClassServerError, ""),
		"E17 an expired token in a 200": limitedFor(marketo, says(200, `{"success":false,"errors":[{"code":"602","message":"Access token expired"}]}`), ledger.ClassAuth, 0),
		"E17 a limit in a 200":          limitedFor(marketo, says(200, `{"success":false,"errors":[{"code":"606"}]}`), ledger.ClassRateLimit, 0),
		"E17 a code that nobody knows":  doubted(marketo, says(200, `{"success":false,"errors":[{"code":"609"}]}`), ledger.ClassUnknown, ""),
		"E18 a 502 without a rule":      doubted("", says(502, ""), ledger.ClassUnavailable, "HTTP 502"),
		"E18 a 502 with the rule that nothing was done": sendCase{def: `errors = [{ status = 502, class = "unavailable", effect = "not_done" }]`, answer: says(502, ""),
			state: ledger.StateRetryable, reason: "backoff: unavailable", class: ledger.ClassUnavailable, effect: notDone, wait: time.Minute},
		"E19 a row lock": sendCase{def: salesforce, answer: says(400, `[{"errorCode":"UNABLE_TO_LOCK_ROW","message":"unable to obtain exclusive access to this record or 1 records: 001A"}]`),
			state: ledger.StateRetryable, reason: "backoff: lock_conflict", class: ledger.ClassLockConflict, effect: notDone, wait: time.Minute},
		"E19 a duplicate that is ours": doubted(salesforce, says(400, `[{"errorCode":"DUPLICATES_DETECTED"}]`), ledger.ClassAlreadyExists, "").with(func(c *sendCase) {
			sent(c)
			c.reason = "already_exists"
		}),
		"E19 a duplicate that cannot be found": doubted(salesforce, says(400, `[{"errorCode":"DUPLICATES_DETECTED"}]`), ledger.ClassAlreadyExists, "").with(func(c *sendCase) {
			c.reason, c.end, c.sends, c.effects = "already_exists", ledger.StateEscalated, 1, -1
		}),
		"E19 a missing field": refused(salesforce, says(400, `[{"errorCode":"REQUIRED_FIELD_MISSING"}]`), ledger.ClassValidation, ""),

		"C01 the key was used with other content": sendCase{def: stripe, answer: says(400, `{"error":{"type":"idempotency_error","message":"Keys for idempotent requests 'k-778'"}}`),
			state: ledger.StateEscalated, reason: "duplicate_request", class: ledger.ClassDuplicateRequest, effect: unknown, end: ledger.StateEscalated, sends: 1, effects: -1},
		"C03 in progress, and it was done":  doubted(stripe, says(409, `{"error":{"code":"idempotency_key_in_use"}}`), ledger.ClassLockConflict, "").with(sent),
		"C05 the same in German":            doubted(stripe, says(409, `{"error":{"code":"idempotency_key_in_use","message":"Schlüssel wird gerade verwendet"}}`), ledger.ClassLockConflict, ""),
		"C05 the same with another message": doubted(stripe, says(409, `{"error":{"code":"idempotency_key_in_use","message":"There is currently another request in progress"}}`), ledger.ClassLockConflict, ""),
		"a conflict that nothing explains":  doubted("", says(409, `{}`), ledger.ClassConflict, "").with(sent),

		"D01 one second more than a duration holds": limitedFor("", tooMany("9223372037"), ledger.ClassRateLimit, 0).with(func(c *sendCase) {
			c.state, c.reason, c.wait, c.paused = ledger.StateEscalated, "wait_too_long", 0, time.Hour
			c.end, c.sends, c.effects = ledger.StateEscalated, 1, -1
		}),
		"D02 a fraction rounds up":                 limitedFor("", tooMany("61.5"), ledger.ClassRateLimit, 62*time.Second),
		"D03 RFC 850 against its own date":         limitedFor("", says(429, `{}`, "Date", "Tue, 22 Sep 2026 10:00:00 GMT", "Retry-After", "Tuesday, 22-Sep-26 10:02:00 GMT"), ledger.ClassRateLimit, 2*time.Minute),
		"D03 asctime against its own date":         limitedFor("", says(429, `{}`, "Date", "Tue, 22 Sep 2026 10:00:00 GMT", "Retry-After", "Tue Sep 22 10:02:00 2026"), ledger.ClassRateLimit, 2*time.Minute),
		"D03 a date that is past":                  limitedFor("", says(429, `{}`, "Date", "Tue, 22 Sep 2026 10:00:00 GMT", "Retry-After", "Tue, 22 Sep 2026 09:59:00 GMT"), ledger.ClassRateLimit, 0),
		"D04 decimal seconds":                      limitedFor("", tooMany("90.0"), ledger.ClassRateLimit, 90*time.Second),
		"D05 four seconds are not four ms":         limitedFor("", tooMany("4"), ledger.ClassRateLimit, 0),
		"D08 a reset that is past":                 limitedFor(resets, reset("1790071140"), ledger.ClassRateLimit, 0),
		"D09 a reset in epoch seconds":             limitedFor(resets, reset("EPOCH"), ledger.ClassRateLimit, 90*time.Second),
		"D09 a reset in epoch milliseconds":        limitedFor(resets, reset("EPOCH_MS"), ledger.ClassRateLimit, 90*time.Second),
		"D09 a reset as a delta":                   limitedFor(resets, reset("90"), ledger.ClassRateLimit, 90*time.Second),
		"D10 the body in seconds":                  limitedFor(strings.Replace(bodyWait, "UNIT", "s", 1), says(429, `{"retry_after":737.317}`), ledger.ClassRateLimit, 738*time.Second),
		"D10 the body in milliseconds":             limitedFor(strings.Replace(bodyWait, "UNIT", "ms", 1), says(429, `{"retry_after":555}`), ledger.ClassRateLimit, 0),
		"D10 header and body: the later one":       limitedFor(strings.Replace(bodyWait, "UNIT", "s", 1), says(429, `{"retry_after":100}`, "Retry-After", "200"), ledger.ClassRateLimit, 200*time.Second),
		"D11 a 403 that is a limit":                limitedFor(github, says(403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes"}`), ledger.ClassRateLimit, time.Minute),
		"D11 a 403 that is none":                   refused(github, says(403, `{"message":"Resource not accessible by integration"}`), ledger.ClassPermission, "Resource not accessible"),
		"D12 a quota as 403":                       limitedFor(salesforce, says(403, `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"TotalRequests Limit exceeded."}]`), ledger.ClassQuota, time.Hour),
		"D13 a ten-second limit":                   limitedFor(hubspot, says(429, `{"policyName":"TEN_SECONDLY_ROLLING"}`), ledger.ClassRateLimit, 10*time.Second),
		"D14 a wait derived from the cost":         limitedFor(shopify, throttled(50), ledger.ClassRateLimit, time.Second),
		"D14 a rate of zero":                       limitedFor(shopify, throttled(0), ledger.ClassRateLimit, 0),
		"D17 clocks apart: two minutes, not seven": limitedFor("", says(429, `{}`, "Date", "Tue, 22 Sep 2026 10:05:00 GMT", "Retry-After", "Tue, 22 Sep 2026 10:07:00 GMT"), ledger.ClassRateLimit, 2*time.Minute),
		"D17 a reset against their own date":       limitedFor(resets, says(429, `{}`, "Date", "Tue, 22 Sep 2026 10:00:00 GMT", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1790071320"), ledger.ClassRateLimit, 2*time.Minute),
		"D18 a 422 that is a limit":                limitedFor(shopify, says(422, `{"errors":"Too many requests"}`), ledger.ClassRateLimit, 0),
		"D18 a 422 that is none":                   refused(shopify, says(422, `{"errors":{"email":["is invalid"]}}`), ledger.ClassValidation, ""),
	}
	for _, name := range []string{"E01 a text that only holds the word", "E04 another sentence in a 200", "E17 a code that nobody knows", "a 200 with everything but the id"} {
		c := cases[name] // proven absent later, and of no class that waiting helps
		c.end, c.sends, c.effects = ledger.StateEscalated, 1, -1
		cases[name] = c
	}
	for _, v := range []string{"-3", "+3", "1e3", "0x10", "soon", "2,0", "120junk", "120, 120", "²", "１２０"} {
		kind := "D02"
		if len(v) > 4 || v[0] > 127 || v == "2,0" {
			kind = "D04 D06"
		}
		cases[kind+" junk is ignored and kept: "+v] = limitedFor("", tooMany(v), ledger.ClassRateLimit, 0).with(func(c *sendCase) { c.raw = v })
	}
	for status, class := range map[int]ledger.Class{499: ledger.ClassTimeout, 502: ledger.ClassUnavailable, 503: ledger.ClassUnavailable, 521: ledger.ClassServerError,
		522: ledger.ClassServerError, 523: ledger.ClassServerError, 524: ledger.ClassServerError, 408: ledger.ClassTimeout} {
		cases[fmt.Sprintf("E11 a %d page", status)] = doubted("", page(status, fmt.Sprintf("api.example.org | %d", status)), class, fmt.Sprint(status))
	}
	return cases
}

// TestWireSends puts every answer to a send through a whole pass, each at a
// system of its own, and then lets hours pass: whatever was answered, the
// action ends with one effect, or with a person.
func TestWireSends(t *testing.T) {
	t.Parallel()
	cases := sendCases()
	names, defs := make([]string, 0, len(cases)), map[string]string{}
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		defs[fmt.Sprintf("c%03d", i)] = cases[name].def
	}
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		w := newWire(t, open, defs)
		var lines []string
		for i, name := range names {
			key, answer := fmt.Sprintf("c%03d", i), cases[name].answer
			lines = append(lines, w.at(key, key, limited))
			w.sites[key].onSend = func(n int, _ string) (reply, bool) { return answer, n == 1 }
		}
		w.report(lines...)
		w.clock.advance(31 * time.Second)
		w.pass()
		for i, name := range names {
			key, c := fmt.Sprintf("c%03d", i), cases[name]
			t.Run(name, func(t *testing.T) {
				w := w.in(t)
				e, a := w.want(key, c.state, c.reason), w.last(key)
				if a.Class != c.class || a.Effect != c.effect || !a.Ours || a.HTTPStatus != c.answer.status && !c.answer.cut && !c.answer.hang {
					t.Errorf("class %q effect %q status %d, want %q %q %d", a.Class, a.Effect, a.HTTPStatus, c.class, c.effect, c.answer.status)
				}
				if got := e.NextAt.Sub(a.FinishedAt); c.wait > 0 && (got < c.wait || got > c.wait+5*time.Second) {
					t.Errorf("tried again after %s, want %s", got, c.wait)
				}
				l, err := w.store.Lane(context.Background(), key)
				if got := l.PausedUntil.Sub(l.PausedSince); err != nil || got < c.paused || got > c.paused+5*time.Second && c.paused < 24*time.Hour {
					t.Errorf("lane paused for %s, want %s (%v)", got, c.paused, err)
				}
				if a.Counts == c.free {
					t.Errorf("counts against the limit: %v", a.Counts)
				}
				if !strings.Contains(a.Message, c.said) || strings.Contains(a.Message, "<p>") || len(a.Message) > 600 || strings.Contains(a.Message, "invalid character") {
					t.Errorf("message %q, want part %q", a.Message, c.said)
				}
				if a.Class != "" && a.ReasonText == "" {
					t.Error("no reason")
				}
				if c.raw != "" && a.RetryAfter != c.raw {
					t.Errorf("Retry-After %q kept, want %q", a.RetryAfter, c.raw)
				}
				if a.Rule == "" {
					t.Error("no rule is kept")
				}
			})
		}
		w.hours(4 * time.Hour)
		for i, name := range names {
			key, c := fmt.Sprintf("c%03d", i), cases[name]
			t.Run(name+", in the end", func(t *testing.T) {
				w := w.in(t)
				if c.end == "" {
					c.end = ledger.StateSettled
				}
				effects := max(1+min(c.effects, 0), 0)
				if c.sends == 0 {
					c.sends = 2
					if c.answer.made {
						c.sends = 1
					}
				}
				e := w.want(key, c.end, "")
				y := w.sites[key]
				if y.effects(key) != effects || len(y.sends) != c.sends {
					t.Errorf("%d effects and %d sends, want %d and %d; %s %q", y.effects(key), len(y.sends), effects, c.sends, e.State, e.Reason)
				}
				if c.end == ledger.StateSettled && e.Outcome != ledger.OutcomeApplied || len(e.Flags) > 0 {
					t.Errorf("outcome %q, flags %v", e.Outcome, e.Flags)
				}
				for i := range y.sends {
					if y.bodies[i] != y.bodies[0] || y.sends[i].Header.Get("Idempotency-Key") != y.sends[0].Header.Get("Idempotency-Key") {
						t.Errorf("send %d differs: %q under %q", i+1, y.bodies[i], y.sends[i].Header.Get("Idempotency-Key"))
					}
				}
			})
		}
	})
}

// in is the same wire, reporting to a subtest.
func (w *wire) in(t *testing.T) *wire {
	one := *w.world
	one.t = t
	return &wire{world: &one, sites: w.sites}
}
