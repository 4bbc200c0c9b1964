package reconcile_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// contacts is a CRM whose refusals name the record that is in the way, with a
// direct read.
const contacts = `
visible_within = "60s"
errors = [
  { status = 409, code = "category", is = "CONFLICT", class = "already_exists", effect = "not_done", id = { path = "message", like = "Existing ID: ([0-9]+)" } },
  { status = 404, on = ["lookup", "check"], finding = "none" },
]
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/search", query = { reference = "{key}" }, items = "data", match = "reference", id = "id" }
read = { method = "GET", path = "/contacts/{id}", gone = "deleted" }
compare = { amount = "amount" }
canary = "canary"
send = { method = "POST", path = "/contacts", id = "id", headers = { Idempotency-Key = "{idempotency_key}", X-Reference = "{key}" } }
`

// twins also asks by business identity.
const twins = contacts + `twin = { method = "GET", path = "/by-name", query = { name = "{payload.for}" }, items = "data" }
`

// many is a system that is asked about many keys at once, and answers per key.
const many = `
errors = [
  { code = "category", is = "OBJECT_NOT_FOUND", on = ["lookup"], finding = "none" },
  { code = "category", is = "VALIDATION_ERROR", class = "validation", effect = "not_done" },
]
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/one", query = { reference = "{key}" }, items = "results", match = "reference", id = "id", batch = {
  method = "POST", path = "/batch", json = { inputs = "{each}" }, max = 101, each = "{key}", items = "results", fault = { items = "errors", key = "keys.*" } } }
canary = "canary"
send = { method = "POST", path = "/make", id = "id", headers = { X-Reference = "{key}" } }
`

const conflict6001 = `{"status":"error","category":"CONFLICT","message":"Contact already exists. Existing ID: 6001","correlationId":"0f3c7c1e-1111-4222-8333-444455556666"}`

// readsAs answers the direct read of one id, and the control's.
func readsAs(id, body string) func(*http.Request, string) (reply, bool) {
	return func(r *http.Request, _ string) (reply, bool) {
		switch r.URL.Path {
		case "/contacts/" + id:
			return says(200, body), true
		case "/contacts/canary-1":
			return says(200, `{"id":"canary-1","reference":"canary"}`), true
		}
		return reply{}, false
	}
}

// batchOf is the body of a batch question.
func batchOf(t *testing.T, body string) []string {
	var in struct{ Inputs []string }
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		t.Errorf("batch %q: %v", body, err)
	}
	return in.Inputs
}

// TestWireCases drives the real pass over the real connector for HTTP through
// faults that take several steps. Names are those of the scenarios and cases.
func TestWireCases(t *testing.T) {
	tests := map[string]func(t *testing.T, open func(*fakeClock) ledger.Store){
		"B01 A06 the send is refused as existing, and the record that the error names is equal: applied, and flagged": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": contacts})
			y := w.sites["crm"]
			y.onSend = func(int, string) (reply, bool) { return says(409, conflict6001), true }
			y.on = readsAs("6001", `{"id":"6001","reference":"","amount":10}`)
			w.report(w.at("crm", "k", timeout))
			w.pass() // at once: the search shows nothing yet
			w.want("k", ledger.StateAmbiguous, "too_early")
			w.hours(time.Hour)
			e := w.want("k", ledger.StateSettled, "other_origin")
			if e.Outcome != ledger.OutcomeApplied || e.RemoteID != "6001" || !e.HasFlag(ledger.FlagOtherOrigin) || len(y.sends) != 1 {
				t.Errorf("%s %q %v after %d sends", e.Outcome, e.RemoteID, e.Flags, len(y.sends))
			}
			a := w.last("k")
			if strings.Contains(a.ReasonText, "6001") || strings.Contains(a.ReasonText, "0f3c") || a.RemoteID != "6001" {
				t.Errorf("reason %q, remote id %q", a.ReasonText, a.RemoteID)
			}
		},
		"B01 the workflow was refused as existing: the id in its message is read": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": contacts})
			w.sites["crm"].on = readsAs("6001", `{"id":"6001","reference":"k","amount":10}`)
			w.report(w.at("crm", "k", `"status":"error","http_status":409,"message":`+fmt.Sprintf("%q", "409 - "+conflict6001)))
			w.pass()
			if e := w.want("k", ledger.StateSettled, "found"); e.RemoteID != "6001" || len(e.Flags) > 0 || len(w.sites["crm"].sends) > 0 {
				t.Errorf("remote id %q, flags %v", e.RemoteID, e.Flags)
			}
		},
		"B02 A06 the record that the error names has other content: a person, with both values, and nothing is changed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": contacts})
			y := w.sites["crm"]
			y.onSend = func(int, string) (reply, bool) { return says(409, conflict6001), true }
			y.on = readsAs("6001", `{"id":"6001","amount":"99.50"}`)
			w.report(w.at("crm", "k", limited))
			w.hours(time.Hour)
			e := w.want("k", ledger.StateEscalated, "other_origin: amount differs")
			ev, err := w.store.Evidence(t.Context(), e.ID)
			if err != nil || len(ev) == 0 || !strings.Contains(string(ev[len(ev)-1].Detail), `"want":"10","got":"99.50"`) {
				t.Errorf("evidence %+v, %v", ev, err)
			}
			if !e.HasFlag(ledger.FlagOtherOrigin) || len(y.sends) != 1 {
				t.Errorf("flags %v, %d sends", e.Flags, len(y.sends))
			}
		},
		"B02 at high risk an equal record of another origin goes to a person too": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": contacts}, withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }))
			w.sites["crm"].on = readsAs("6001", `{"id":"6001","amount":10}`)
			w.report(w.at("crm", "k", `"status":"error","http_status":409,"message":`+fmt.Sprintf("%q", conflict6001)))
			w.hours(time.Hour)
			w.want("k", ledger.StateEscalated, "other_origin")
		},
		"the record that the error names is gone by now: absence has to be proven, and then a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": contacts})
			w.sites["crm"].on = func(r *http.Request, _ string) (reply, bool) {
				if strings.HasPrefix(r.URL.Path, "/contacts/6001") {
					return says(404, `{}`), true
				}
				return readsAs("-", "")(r, "")
			}
			w.report(w.at("crm", "k", `"status":"error","http_status":409,"message":`+fmt.Sprintf("%q", conflict6001)))
			w.hours(time.Hour)
			w.want("k", ledger.StateEscalated, "already_exists")
			if n := len(w.sites["crm"].sends); n > 0 {
				t.Errorf("%d sends", n)
			}
		},
		"B03 the CRM made the record itself: found by its name, not by our key, it goes to a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": twins})
			y := w.sites["crm"]
			y.on = func(r *http.Request, _ string) (reply, bool) {
				if r.URL.Path == "/by-name" {
					if r.URL.Query().Get("name") == "k" {
						return says(200, `{"data":[{"id":"90","reference":null,"amount":10}]}`), true
					}
					return says(200, `{"data":[]}`), true
				}
				return readsAs("-", "")(r, "")
			}
			w.report(w.at("crm", "k", limited))
			w.hours(time.Hour)
			e := w.want("k", ledger.StateEscalated, "other_origin")
			if !e.HasFlag(ledger.FlagOtherOrigin) || len(y.sends) > 0 {
				t.Errorf("flags %v, %d sends", e.Flags, len(y.sends))
			}
			ev, err := w.store.Evidence(t.Context(), e.ID)
			if err != nil || len(ev) == 0 || !strings.Contains(string(ev[len(ev)-1].Detail), `"id":"90"`) {
				t.Errorf("evidence %+v, %v", ev, err)
			}
		},
		"B04 B07 an empty search is no verdict: asked again after the quiet period, and found": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": strings.Replace(contacts, "visible_within", `lands_within = "1s"`+"\nvisible_within", 1)})
			y := w.sites["crm"]
			shown := false
			y.on = func(r *http.Request, _ string) (reply, bool) {
				if r.URL.Path == "/search" && r.URL.Query().Get("reference") == "k" && shown {
					return says(200, `{"data":[{"id":"55","reference":"k"}]}`), true
				}
				return readsAs("55", `{"id":"55","reference":"k","amount":10}`)(r, "")
			}
			w.report(w.at("crm", "k", timeout))
			w.clock.advance(3 * time.Second)
			w.pass()
			if e := w.want("k", ledger.StateAmbiguous, "too_early"); e.Negatives != 0 {
				t.Errorf("%d negatives", e.Negatives)
			}
			w.clock.advance(59 * time.Second) // the first that counts
			w.pass()
			w.want("k", ledger.StateAmbiguous, "not_visible: 1 of 2")
			shown = true
			w.clock.advance(30 * time.Second)
			w.pass()
			if e := w.want("k", ledger.StateSettled, "found"); e.RemoteID != "55" || len(y.sends) > 0 {
				t.Errorf("remote id %q, %d sends", e.RemoteID, len(y.sends))
			}
		},
		"S24 E09 a batch answered 207: 97 found, two are not there, one failed, and each ends by itself": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": many})
			y := w.sites["crm"]
			batches := 0
			y.on = func(r *http.Request, body string) (reply, bool) {
				if r.URL.Path != "/batch" {
					return says(200, `{"results":[]}`), true
				}
				batches++
				var found []string
				for _, k := range batchOf(t, body) {
					if k != "k007" && k != "k098" && k != "k099" {
						found = append(found, fmt.Sprintf(`{"id":"id-%s","reference":%q}`, k, k))
					}
				}
				return says(207, `{"results":[`+strings.Join(found, ",")+`],"errors":[{"category":"OBJECT_NOT_FOUND","keys":["k098","k099"]},{"category":"VALIDATION_ERROR","keys":["k007"]}]}`), true
			}
			var lines []string
			for i := range 100 {
				k := fmt.Sprintf("k%03d", i)
				lines = append(lines, w.at("crm", k, timeout))
			}
			w.report(lines...)
			w.clock.advance(4 * time.Minute)
			c := w.pass().Counts
			if c.SettledApplied != 97 || c.StillAmbiguous != 2 || c.CouldNotAsk != 1 || batches != 1 {
				t.Errorf("counts %+v in %d batches", c, batches)
			}
			w.want("k098", ledger.StateAmbiguous, "not_visible: 1 of 2")
			if e := w.want("k007", ledger.StateAmbiguous, "could_not_ask: validation"); e.Negatives != 0 {
				t.Errorf("%d negatives", e.Negatives)
			}
		},
		"E09 what a 207 mentions nowhere was not answered: it is asked about alone": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": many})
			alone := map[string]int{}
			w.sites["crm"].on = func(r *http.Request, body string) (reply, bool) {
				if r.URL.Path == "/batch" {
					return says(207, `{"results":[{"id":"11","reference":"a"},{"id":"0","reference":"canary"}]}`), true
				}
				k := r.URL.Query().Get("reference")
				alone[k]++
				if k == "c" {
					return says(200, `{"results":[{"id":"33","reference":"c"}]}`), true
				}
				return says(500, ""), true
			}
			w.report(w.at("crm", "a", timeout), w.at("crm", "b", timeout), w.at("crm", "c", timeout))
			w.clock.advance(4 * time.Minute)
			w.pass()
			w.want("a", ledger.StateSettled, "found")
			w.want("b", ledger.StateAmbiguous, "could_not_ask: server_error")
			w.want("c", ledger.StateSettled, "found")
			if alone["a"] != 0 || alone["b"] != 1 || alone["c"] != 1 {
				t.Errorf("asked alone: %v", alone)
			}
		},
		"E09 a 207 with neither results nor errors is no answer": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": many})
			w.sites["crm"].on = func(*http.Request, string) (reply, bool) { return says(207, `{}`), true }
			w.report(w.at("crm", "a", timeout), w.at("crm", "b", timeout))
			w.clock.advance(4 * time.Minute)
			w.pass()
			if e := w.want("a", ledger.StateAmbiguous, "could_not_ask: malformed"); e.Negatives != 0 || e.LooksAnswered != 0 {
				t.Errorf("%d negatives, %d looks answered", e.Negatives, e.LooksAnswered)
			}
		},
		"S25 one malformed key spoils a batch of 100: it is split, 99 settle, and the bad one goes to a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": many})
			calls := 0
			w.sites["crm"].on = func(r *http.Request, body string) (reply, bool) {
				calls++
				var found []string
				for _, k := range batchOf(t, body) {
					if k == "k037" {
						return says(400, `{"message":"one input is malformed"}`), true
					}
					found = append(found, fmt.Sprintf(`{"id":"id-%s","reference":%q}`, k, k))
				}
				return says(200, `{"results":[`+strings.Join(found, ",")+`]}`), true
			}
			var lines []string
			for i := range 100 {
				lines = append(lines, w.at("crm", fmt.Sprintf("k%03d", i), timeout))
			}
			w.report(lines...)
			w.clock.advance(4 * time.Minute)
			c := w.pass().Counts
			if c.SettledApplied != 99 || c.Escalated != 1 || calls > 20 {
				t.Errorf("counts %+v in %d calls", c, calls)
			}
			w.want("k037", ledger.StateEscalated, "outcome_unknown: bad_key")
		},
		"no answer to a send within the timeout, and it was done: found, not repeated": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": `timeout = "2s"` + "\n"})
			y := w.sites["pay"]
			y.onSend = func(int, string) (reply, bool) { return reply{hang: true}.butMade(), true }
			w.report(w.at("pay", "k", limited))
			// On a machine that is busy the two seconds may be over before the
			// first byte: then nothing is sent, and that does not count.
			for range 10 {
				w.clock.advance(2 * time.Minute)
				if w.pass(); len(y.sends) > 0 {
					break
				}
			}
			if a := w.last("k"); a.Class != ledger.ClassTimeout || a.Effect != unknown || !a.Counts {
				t.Errorf("class %q, effect %q, counts %v", a.Class, a.Effect, a.Counts)
			}
			w.hours(time.Hour)
			w.want("k", ledger.StateSettled, "found")
			if len(y.sends) != 1 || y.effects("k") != 1 {
				t.Errorf("%d sends, %d effects", len(y.sends), y.effects("k"))
			}
		},
		"C03 C06 after a request in progress the same key and the same bytes are sent again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": stripe})
			y := w.sites["pay"]
			y.onSend = func(n int, _ string) (reply, bool) {
				return says(409, `{"error":{"code":"idempotency_key_in_use"}}`), n == 1
			}
			body := `{"amount":19.90, "contact_id":734512345678901235,"z":1}`
			w.report(strings.Replace(w.at("pay", "k", limited), `{"amount":10,"for":"k"}`, body, 1))
			w.hours(time.Hour)
			w.want("k", ledger.StateSettled, "sent")
			if len(y.sends) != 2 || y.bodies[0] != body || y.bodies[1] != body || y.sends[0].Header.Get("Idempotency-Key") != "k" || y.sends[1].Header.Get("Idempotency-Key") != "k" {
				t.Errorf("sent %q", y.bodies)
			}
			if y.effects("k") != 1 {
				t.Errorf("%d effects", y.effects("k"))
			}
		},
		"C05 one reason, whatever language the message has": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": stripe})
			reasons := map[string]bool{}
			for i, m := range []string{`,"message":"There is currently another request in progress"`, `,"message":"Schlüssel wird gerade verwendet"`, ``} {
				w.sites["pay"].onSend = func(int, string) (reply, bool) {
					return says(409, `{"error":{"code":"idempotency_key_in_use"`+m+`}}`), true
				}
				key := fmt.Sprint("k", i)
				w.report(w.at("pay", key, limited))
				w.clock.advance(31 * time.Second)
				w.pass()
				a := w.last(key)
				reasons[a.ReasonID] = true
				if a.Class != ledger.ClassLockConflict || a.Code != "idempotency_key_in_use" {
					t.Errorf("class %q code %q", a.Class, a.Code)
				}
			}
			if len(reasons) != 1 {
				t.Errorf("%d reasons", len(reasons))
			}
		},
		"S18 a stored error given again, by its header, and nothing there: a new linked key, asked for under both": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": ""})
			y := w.sites["pay"]
			y.onSend = func(n int, _ string) (reply, bool) {
				return says(500, `{"error":{"message":"boom"}}`, "Idempotent-Replayed", "true"), n == 1
			}
			w.report(w.at("pay", "k", timeout))
			w.hours(time.Hour)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || len(y.sends) != 2 || y.sends[1].Header.Get("Idempotency-Key") != e.Keys[1] || y.sends[1].Header.Get("X-Reference") != "k" {
				t.Errorf("keys %v, %d sends", e.Keys, len(y.sends))
			}
		},
		"L11 an error that stays under the key, reported by the workflow, is followed by a new key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": stripe}, withPolicy(func(p *reconcile.Policy) {
				p.Retryable, p.RetryableSet = []reconcile.ErrorMatch{{Class: ledger.ClassValidation}}, true
			}))
			y := w.sites["pay"]
			w.report(w.at("pay", "k", `"status":"error","http_status":402,"error_code":"card_error"`))
			w.hours(time.Hour)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || len(y.sends) != 1 || y.sends[0].Header.Get("Idempotency-Key") == "k" {
				t.Errorf("keys %v, %d sends", e.Keys, len(y.sends))
			}
		},
		"D12 a quota that is used up: 300 entries keep their attempts, the system is left alone, and one alert is opened": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": salesforce, "other": ""})
			y := w.sites["crm"]
			y.onSend = func(int, string) (reply, bool) {
				return says(403, `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"TotalRequests Limit exceeded."}]`), true
			}
			var lines []string
			for i := range 300 {
				lines = append(lines, w.at("crm", fmt.Sprintf("k%03d", i), limited))
			}
			w.report(append(lines, w.at("other", "o", limited))...)
			w.clock.advance(31 * time.Second)
			alerts, calls := 0, 0
			for range 4 { // within the hour
				for _, n := range w.pass().Notes {
					if strings.Contains(n, "quota") && !strings.Contains(n, "wait") {
						alerts++
					}
				}
				w.clock.advance(14 * time.Minute)
			}
			if calls = len(y.sends); calls > 2 { // as many as may be under way at once
				t.Errorf("%d calls in the hour", calls)
			}
			if alerts != 1 {
				t.Errorf("%d alerts, want one", alerts)
			}
			n, free := 0, 0
			for i := range 300 {
				e := w.entry(fmt.Sprintf("k%03d", i))
				n += e.AttemptCount
				if e.State == ledger.StateRetryable || e.State == ledger.StateReady {
					free++
				}
			}
			if n != 300 || free != 300 {
				t.Errorf("%d attempts count, %d entries wait; want 300 and 300", n, free)
			}
			w.want("o", ledger.StateSettled, "sent") // another system goes on
		},
		"E17 a token that a 200 calls expired is renewed, and the attempt does not count": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": `auth = { oauth2 = { grant = "client_credentials", token_url = "SITE/token", client_id = "id", client_secret = "a-secret-of-the-test" } }` + "\n" + marketo})
			y := w.sites["crm"]
			tokens := 0
			y.on = func(r *http.Request, _ string) (reply, bool) {
				if r.URL.Path != "/token" {
					return reply{}, false
				}
				tokens++
				return says(200, fmt.Sprintf(`{"access_token":"token-number-%d","token_type":"Bearer","expires_in":86400}`, tokens)), true
			}
			y.onSend = func(n int, _ string) (reply, bool) {
				return says(200, `{"success":false,"errors":[{"code":"602"}]}`), n == 1
			}
			w.report(w.at("crm", "k", limited))
			w.hours(10 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if tokens != 2 || len(y.sends) != 2 || e.AttemptCount != 2 || y.sends[0].Header.Get("Authorization") == y.sends[1].Header.Get("Authorization") {
				t.Errorf("%d tokens, %d sends, %d attempts count", tokens, len(y.sends), e.AttemptCount)
			}
		},
		"S23 one step made the charge and not the receipt: only the receipt is sent again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": "", "mail": mail})
			w.sites["pay"].make("run1:charge")
			w.report(w.at("pay", "run1:charge", timeout), w.at("mail", "run1:receipt", timeout))
			w.sites["mail"].onSend = func(int, string) (reply, bool) { return says(202, "", "X-Message-Id", "m-1").butMade(), true }
			w.hours(time.Hour)
			w.want("run1:charge", ledger.StateSettled, "found")
			w.want("run1:receipt", ledger.StateSettled, "sent")
			if len(w.sites["pay"].sends) != 0 || len(w.sites["mail"].sends) != 1 {
				t.Errorf("%d charges and %d receipts sent", len(w.sites["pay"].sends), len(w.sites["mail"].sends))
			}
		},
		"S59 a payload that is no JSON, kept by an older version, is never sent, and the pass goes on": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": strings.Replace(invoices, `headers = {`, `takes = ["amount", "for"], headers = {`, 1)})
			bad := strings.Replace(w.at("pay", "bad", limited), `"payload":{"amount":10,"for":"bad"}`, `"payload_text":"{broken","payload_type":"text/plain"`, 1)
			w.report(bad, w.at("pay", "good", limited))
			w.hours(10 * time.Minute)
			w.want("bad", ledger.StateEscalated, "not_sendable")
			w.want("good", ledger.StateSettled, "sent")
		},
		"an operation that the definition does not know goes to a person, not to nobody": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": ""})
			w.report(strings.Replace(w.at("pay", "k", timeout), "invoice.create", "invoice.creat", 1))
			w.pass()
			w.want("k", ledger.StateEscalated, "outcome_unknown")
		},
		"a change of a record is applied when it carries the values, absent when it last changed before us, and else a mismatch": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/deals/{record_id}", match = "id", id = "id" }
proof = { amount = "amount" }
changed = "updated_at"
canary = "canary"
repeatable = true
send = { method = "PATCH", path = "/deals/{record_id}", headers = { X-Reference = "{key}" } }
`})
			y := w.sites["crm"]
			before, after := w.clock.Now().Add(-time.Hour).Format(time.RFC3339), w.clock.Now().Add(time.Second).Format(time.RFC3339)
			state := map[string]string{
				"set":   `{"id":"set","amount":10,"updated_at":"` + after + `"}`,
				"unset": `{"id":"unset","amount":7,"updated_at":"` + before + `"}`,
				"other": `{"id":"other","amount":7,"updated_at":"` + after + `"}`,
			}
			y.on = func(r *http.Request, _ string) (reply, bool) {
				if body, ok := state[strings.TrimPrefix(r.URL.Path, "/deals/")]; ok {
					return says(200, body), true
				}
				return says(404, `{}`), true
			}
			y.onSend = func(int, string) (reply, bool) { return says(200, `{}`).butMade(), true }
			for _, k := range []string{"set", "unset", "other"} {
				w.report(strings.Replace(w.at("crm", k, timeout), `"owner"`, fmt.Sprintf(`"record_id":%q,"owner"`, k), 1))
			}
			w.hours(time.Hour)
			w.want("set", ledger.StateSettled, "found")
			w.want("other", ledger.StateEscalated, "mismatch: amount")
			w.want("unset", ledger.StateSettled, "sent")
			if len(y.sends) != 1 || y.effects("unset") != 1 {
				t.Errorf("%d sends", len(y.sends))
			}
		},
		"a removal is applied when the record is gone, sent again while it lives, and a mismatch where it never was": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"crm": strings.Replace(contacts, "canary = ", "removes = true\ncanary = ", 1)})
			y := w.sites["crm"]
			y.on = func(r *http.Request, _ string) (reply, bool) {
				k := r.URL.Query().Get("reference")
				switch r.URL.Path {
				case "/search":
					if k == "gone" || k == "lives" {
						return says(200, fmt.Sprintf(`{"data":[{"id":"id-%s","reference":%q}]}`, k, k)), true
					}
				case "/contacts/id-gone":
					return says(200, `{"id":"id-gone","reference":"gone","deleted":true}`), true
				case "/contacts/id-lives":
					return says(200, `{"id":"id-lives","reference":"lives","amount":10}`), true
				}
				return readsAs("-", "")(r, "")
			}
			w.report(w.at("crm", "gone", timeout), w.at("crm", "lives", timeout), w.at("crm", "never", timeout))
			w.hours(time.Hour)
			w.want("gone", ledger.StateSettled, "removed")
			w.want("lives", ledger.StateSettled, "sent")
			w.want("never", ledger.StateEscalated, "never_seen")
			if len(y.sends) != 1 {
				t.Errorf("%d sends", len(y.sends))
			}
		},
		"a key that had to be derived, and that the workflow may not have sent, finds and never proves absence": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": `key = { max = 26 }` + "\n"})
			long := "run_8f2d7c61-1c7e:create-the-invoice-of-this-order:"
			out := w.report(w.at("pay", long+"1", timeout), w.at("pay", long+"2", timeout))
			w.sites["pay"].make(out[0].Entry.ProviderKey)
			for range 14 {
				w.clock.advance(6 * time.Hour)
				w.pass()
			}
			w.want(long+"1", ledger.StateSettled, "found")
			w.want(long+"2", ledger.StateEscalated, "outcome_unknown: derived_key")
			if n := len(w.sites["pay"].sends); n > 0 {
				t.Errorf("%d sends", n)
			}
		},
		"S02 finally declined, and the policy tries again: under a new key, the decline set aside": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWire(t, open, map[string]string{"pay": ""}, withPolicy(func(p *reconcile.Policy) {
				p.Retryable, p.RetryableSet = []reconcile.ErrorMatch{{Class: ledger.ClassRejected}}, true
			}))
			y := w.sites["pay"]
			y.records = append(y.records, siteRecord{id: "7", key: "k", status: "failed", amount: "10"})
			w.report(w.at("pay", "k", timeout))
			w.hours(time.Hour)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || len(y.sends) != 1 || y.sends[0].Header.Get("Idempotency-Key") != e.Keys[1] {
				t.Errorf("keys %v, %d sends", e.Keys, len(y.sends))
			}
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachLedger(t, f)
		})
	}
}
