package reconcile_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// lookCase is one answer to the question whether an action was done, and what
// it must come to. The workflow's attempt timed out; when it is asked, a none
// may count.
type lookCase struct {
	def    string
	answer reply // to each question about the action; the control is found
	blind  bool  // the control gets the same answer

	state    ledger.State
	reason   string // its beginning
	outcome  ledger.Outcome
	remoteID string
	flag     ledger.Flag
	counted  int  // negatives
	failed   bool // no look: nothing is learned and nothing is spent
	paused   time.Duration
	reads    int              // direct reads; 0: not tested
	read     map[string]reply // by id
}

// couldNotAsk is an answer from which nothing is learned.
func couldNotAsk(def string, a reply, said string) lookCase {
	return lookCase{def: def, answer: a, state: ledger.StateAmbiguous, reason: "could_not_ask: " + said, failed: true}
}

func foundApplied(def string, a reply, id string) lookCase {
	return lookCase{def: def, answer: a, state: ledger.StateSettled, reason: "found", outcome: ledger.OutcomeApplied, remoteID: id}
}

func (c lookCase) with(f func(*lookCase)) lookCase {
	f(&c)
	return c
}

// OURS in an answer stands for our key.
const (
	explained404 = `errors = [{ status = 404, code = "error.code", is = "resource_missing", on = ["lookup", "check"], finding = "none" }]` + "\n"
	okFalse      = `errors = [{ code = "ok", is = "false", class = "rate_limit", wait = { path = "retry_after", unit = "s" } }]` + "\n"
	several      = `errors = [{ status = 300, on = ["lookup"], finding = "duplicate", id = "*" }]` + "\n"
	readable     = `
errors = [{ status = 404, on = ["lookup"], finding = "none" }]
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/search", query = { reference = "{key}" }, items = "data", match = "reference", id = "id", merged = "merged_into" }
read = { method = "GET", path = "/invoices/{id}", gone = "deleted" }
compare = { amount = "amount" }
canary = "canary"
send = { method = "POST", path = "/invoices", id = "id", headers = { Idempotency-Key = "{idempotency_key}", X-Reference = "{key}" } }
`
	partial = `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/search", query = { reference = "{key}" }, items = "data", match = "reference", id = "id", partial = "incomplete_results" }
canary = "canary"
send = { method = "POST", path = "/invoices", id = "id", headers = { X-Reference = "{key}" } }
`
	contains = `
[[operation]]
name = "invoice.create"
lookup = { method = "GET", path = "/search", query = { q = "{key}", reference = "{key}" }, items = "data", match = "reference", id = "id", contains = true }
canary = "canary"
send = { method = "POST", path = "/invoices", id = "id", headers = { X-Reference = "{key}" } }
`
)

func lookCases() map[string]lookCase {
	record := func(status string) reply {
		return says(200, `{"data":[{"id":"7","reference":"OURS","status":"`+status+`","amount":10}]}`)
	}
	hit := says(200, `{"data":[{"id":"7","reference":"OURS"}]}`)
	none := says(200, `{"data":[]}`)
	cases := map[string]lookCase{
		"S01 found with our key":                     foundApplied("", record("open"), "7"),
		"S02 found finally declined":                 {answer: record("failed"), state: ledger.StateEscalated, reason: "permanent: rejected"},
		"S03 found in progress":                      {answer: record("processing"), state: ledger.StateAmbiguous, reason: "pending", remoteID: "7"},
		"S14 found twice":                            {answer: says(200, `{"data":[{"id":"7","reference":"OURS","status":"open"},{"id":"8","reference":"OURS","status":"open"}]}`), state: ledger.StateEscalated, reason: "duplicate: 2 live records: 7, 8", flag: ledger.FlagDuplicate},
		"S15 found with another amount":              {answer: says(200, `{"data":[{"id":"7","reference":"OURS","status":"open","amount":10.01}]}`), state: ledger.StateEscalated, reason: "mismatch: amount"},
		"S30 found with a status that nobody mapped": {answer: record("limbo"), state: ledger.StateEscalated, reason: `unmapped_status: "limbo"`},
		"S66 found, and reversed since":              {answer: record("void"), state: ledger.StateSettled, reason: "reversed", outcome: ledger.OutcomeApplied, flag: ledger.FlagReversed, remoteID: "7"},
		"S27 found, and merged since": foundApplied(readable, says(200, `{"data":[{"id":"7","reference":"OURS","merged_into":"9"}]}`), "9").with(func(c *lookCase) {
			c.read = map[string]reply{"7": says(200, `{"id":"7","reference":"OURS","merged_into":"9","amount":10}`)}
		}),
		"S10 a limit in a 200":                   couldNotAsk(okFalse, says(200, `{"ok":false,"retry_after":30}`), "rate_limit: HTTP 200").with(func(c *lookCase) { c.paused = 30 * time.Second }),
		"S09 a 429":                              couldNotAsk("", says(429, `{}`, "Retry-After", "30"), "rate_limit: HTTP 429").with(func(c *lookCase) { c.paused = 30 * time.Second }),
		"S11 a 401":                              couldNotAsk("", says(401, `{}`), "auth: HTTP 401").with(func(c *lookCase) { c.paused = 5 * time.Second }),
		"S08 a 500":                              couldNotAsk("", says(500, ""), "server_error: HTTP 500"),
		"S13 a 404 that the definition explains": {def: explained404, answer: says(404, `{"error":{"code":"resource_missing"}}`), state: ledger.StateAmbiguous, reason: "not_visible: 1 of 2", counted: 1},
		"a 404 that nothing explains may be a 403": couldNotAsk("", says(404, `{"message":"Not Found"}`), "not_found: HTTP 404"),
		"a 403":            couldNotAsk("", says(403, `{"message":"no rights"}`), "permission: HTTP 403"),
		"an explicit none": {answer: none, state: ledger.StateAmbiguous, reason: "not_visible: 1 of 2", counted: 1},
		"S63 a none, and the control does not show": {answer: none, blind: true, state: ledger.StateAmbiguous, reason: "control_not_found", failed: true},
		"E12 a 504 page":                                  couldNotAsk("", page(504, "504 Gateway Time-out"), "timeout: HTTP 504"),
		"E13 a challenge in a 403":                        couldNotAsk("", page(403, "Just a moment..."), "blocked_by_edge: HTTP 403").with(func(c *lookCase) { c.paused = 5 * time.Second }),
		"E13 a challenge in a 200":                        couldNotAsk("", page(200, "Just a moment..."), "blocked_by_edge: HTTP 200").with(func(c *lookCase) { c.paused = 5 * time.Second }),
		"E15 an empty 200":                                couldNotAsk("", says(200, ""), "malformed: HTTP 200"),
		"a 200 of another shape":                          couldNotAsk("", says(200, `{}`), "malformed: HTTP 200"),
		"a 200 with an error in it, and no list":          couldNotAsk("", says(200, `{"error":"backend unavailable"}`), "malformed: HTTP 200"),
		"a body that is cut":                              couldNotAsk("", reply{status: 200, body: `{"data":[`, cut: true}, "network"),
		"a connection that breaks":                        couldNotAsk("", reply{cut: true}, "network"),
		"no answer within the timeout":                    couldNotAsk(`timeout = "500ms"`+"\n", reply{hang: true}, "timeout"),
		"a redirect to a login page":                      couldNotAsk("", says(302, "", "Location", "/login"), "unknown: HTTP 302"),
		"only somebody else's record":                     {answer: says(200, `{"data":[{"id":"1","reference":"another","status":"open","amount":10}]}`), state: ledger.StateAmbiguous, reason: "lookup_not_usable", failed: true},
		"B10 a record whose key differs by case":          {answer: says(200, `{"data":[{"id":"1","reference":"UPPER","status":"open","amount":10}]}`), state: ledger.StateAmbiguous, reason: "lookup_not_usable", failed: true},
		"a none that the system calls incomplete":         {def: partial, answer: says(200, `{"data":[],"incomplete_results":true}`), state: ledger.StateAmbiguous, reason: "answer_incomplete", failed: true},
		"a search for text that shows longer keys too":    {def: contains, answer: says(200, `{"data":[{"id":"1","reference":"OURS-2"}]}`), state: ledger.StateAmbiguous, reason: "not_visible: 1 of 2", counted: 1},
		"B09 a 300 with two records":                      {def: several, answer: says(300, `["/lead/00Q1","/lead/00Q2"]`), state: ledger.StateEscalated, reason: "duplicate: 2 live records: /lead/00Q1, /lead/00Q2", flag: ledger.FlagDuplicate},
		"B05 a hit that the direct read shows as deleted": {def: readable, answer: hit, read: map[string]reply{"7": says(200, `{"id":"7","reference":"OURS","deleted":true}`)}, reads: 1, state: ledger.StateSettled, reason: "reversed", outcome: ledger.OutcomeApplied, flag: ledger.FlagReversed, remoteID: "7"},
		"B05 a hit that is not there any more":            {def: readable, answer: hit, read: map[string]reply{"7": says(404, `{}`)}, reads: 1, state: ledger.StateSettled, reason: "reversed", outcome: ledger.OutcomeApplied, flag: ledger.FlagReversed, remoteID: "7"},
		"B05 a hit that cannot be read":                   couldNotAsk(readable, hit, "server_error: HTTP 500").with(func(c *lookCase) { c.read = map[string]reply{"7": says(500, "")} }),
		"B05 a hit that became somebody else's":           {def: readable, answer: hit, read: map[string]reply{"7": says(200, `{"id":"7","reference":"another"}`)}, reads: 1, state: ledger.StateAmbiguous, reason: "lookup_not_usable", failed: true},
		"the direct read decides what is compared":        {def: readable, answer: hit, read: map[string]reply{"7": says(200, `{"id":"7","reference":"OURS","amount":11}`)}, reads: 1, state: ledger.StateEscalated, reason: "mismatch: amount"},
	}
	for _, status := range []int{499, 502, 503, 520, 521, 522, 523, 524} {
		cases[fmt.Sprintf("E11 a %d page", status)] = couldNotAsk("", page(status, "api.example.org"), "")
	}
	return cases
}

// TestWireLooks puts every answer to a look through a whole pass, each at a
// system of its own: what is found ends the entry or goes to a person, and
// whatever is no plain answer teaches nothing and costs nothing.
func TestWireLooks(t *testing.T) {
	t.Parallel()
	cases := lookCases()
	var names []string
	defs := map[string]string{}
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		defs[fmt.Sprintf("c%03d", i)] = cases[name].def
	}
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		w := newWire(t, open, defs)
		reads := map[string]int{}
		var lines []string
		for i, name := range names {
			key, c := fmt.Sprintf("c%03d", i), cases[name]
			lines = append(lines, w.at(key, key, timeout))
			w.sites[key].on = func(r *http.Request, _ string) (reply, bool) {
				if id, ok := strings.CutPrefix(r.URL.Path, "/invoices/"); ok && id != "canary-1" {
					reads[key]++
					a := c.read[id]
					a.body = strings.ReplaceAll(a.body, "OURS", key)
					return a, true
				} else if ok {
					return says(200, `{"id":"canary-1","reference":"canary","status":"open"}`), true
				}
				if r.URL.Query().Get("reference") != key && !c.blind {
					return reply{}, false
				}
				a := c.answer
				a.body = strings.NewReplacer("OURS", key, "UPPER", strings.ToUpper(key)).Replace(a.body)
				return a, true
			}
		}
		w.report(lines...)
		w.clock.advance(4 * time.Minute)
		w.pass()
		for i, name := range names {
			key, c := fmt.Sprintf("c%03d", i), cases[name]
			t.Run(name, func(t *testing.T) {
				w := w.in(t)
				e := w.want(key, c.state, c.reason)
				if e.Outcome != c.outcome || e.Negatives != c.counted || c.remoteID != "" && e.RemoteID != c.remoteID {
					t.Errorf("outcome %q, %d negatives, remote id %q; want %q, %d, %q", e.Outcome, e.Negatives, e.RemoteID, c.outcome, c.counted, c.remoteID)
				}
				if c.flag == "" && len(e.Flags) > 0 || c.flag != "" && !e.HasFlag(c.flag) {
					t.Errorf("flags %v, want %q", e.Flags, c.flag)
				}
				looks := [2]int{1, 0}
				if c.failed {
					looks = [2]int{0, 1}
				}
				if got := [2]int{e.LooksAnswered, e.LooksFailed}; got != looks || e.AttemptCount != 1 {
					t.Errorf("looks answered and failed %v, want %v; %d attempts", got, looks, e.AttemptCount)
				}
				l, err := w.store.Lane(t.Context(), key)
				if got := l.PausedUntil.Sub(l.PausedSince); err != nil || got < c.paused || got > c.paused+5*time.Second {
					t.Errorf("lane paused for %s, want %s (%v)", got, c.paused, err)
				}
				if c.reads > 0 && reads[key] != c.reads {
					t.Errorf("%d direct reads, want %d", reads[key], c.reads)
				}
				ev, err := w.store.Evidence(t.Context(), e.ID)
				if err != nil || len(ev) != 1 || !json.Valid(ev[0].Detail) || strings.Contains(string(ev[0].Detail), "<p>") {
					t.Errorf("evidence %+v, %v", ev, err)
				}
				if y := w.sites[key]; len(y.sends) > 0 {
					t.Errorf("%d sends", len(y.sends))
				}
			})
		}
		// Whatever is only heard as noise proves nothing, for as long as it lasts.
		w.hours(6 * time.Hour)
		for i, name := range names {
			if key, c := fmt.Sprintf("c%03d", i), cases[name]; c.failed {
				t.Run(name+", six hours long", func(t *testing.T) {
					w := w.in(t)
					e := w.want(key, ledger.StateAmbiguous, "")
					if y := w.sites[key]; len(y.sends) > 0 || e.Negatives > 0 || e.AttemptCount != 1 {
						t.Errorf("%d sends, %d negatives, %d attempts", len(y.sends), e.Negatives, e.AttemptCount)
					}
				})
			}
		}
	})
}
