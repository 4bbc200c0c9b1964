package reports

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ reason, want string }{
		"a code alone":           {"consent_withdrawn", "consent was withdrawn"},
		"a code with its detail": {"attempts_exhausted: 3 of 3", "all attempts that the policy allows are used up (3 of 3)"},
		"a detail that only repeats the code is left out": {"too_early: a fresh record may not show yet", "nothing was found, but a fresh record might not show yet"},
		"a detail that is a reason of its own":            {"outcome_unknown: no_control: none", "it is not known whether it happened, and looking does not tell (nothing was found, and no known record shows that the lookup works)"},
		"a code that is not known is shown as it is":      {"brand_new: thing", "brand_new: thing"},
		"nothing": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Plain(c.reason); got != c.want {
				t.Errorf("Plain(%q)\n got %q\nwant %q", c.reason, got, c.want)
			}
		})
	}
}

var (
	noon  = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	look1 = noon.Add(3 * time.Minute)
	look2 = noon.Add(4 * time.Minute)
)

func negative(at time.Time, n int) ledger.Evidence {
	d, _ := json.Marshal(map[string]any{"reason": "x", "records": []any{}, "control": "found", "negatives": n, "needed": 2})
	return ledger.Evidence{Finding: ledger.FindingNotVisible, AskedAt: at, Counted: true, Detail: d}
}

// absence is the negative that completed the proof; a later attempt of unknown
// effect made both void.
func absence(at time.Time, n int) ledger.Evidence {
	ev := negative(at, n)
	ev.Finding, ev.Void = ledger.FindingAbsent, true
	return ev
}

func TestWhy(t *testing.T) {
	lost := ledger.Attempt{No: 1, StartedAt: noon, Status: ledger.AttemptError, Class: ledger.ClassTimeout, HTTPStatus: 504, Effect: ledger.EffectUnknown}
	absent := lost
	absent.Effect, absent.Rule = ledger.EffectNotDone, "look: absent"
	refused := ledger.Attempt{No: 1, StartedAt: noon, Status: ledger.AttemptError, Class: ledger.ClassRateLimit, HTTPStatus: 429, Effect: ledger.EffectNotDone}
	ours := ledger.Attempt{No: 2, Ours: true, StartedAt: noon.Add(5 * time.Minute), Status: ledger.AttemptOK, Effect: ledger.EffectDone}
	base := ledger.Entry{ActionKey: "k", Connector: "billing", Owner: "revops"}
	with := func(change func(*ledger.Entry)) ledger.Entry {
		e := base
		change(&e)
		return e
	}
	cases := map[string]struct {
		st       ledger.Stored
		evidence []ledger.Evidence
		history  []ledger.History
		want     []string // in this order
		not      string
	}{
		"found by a look: it would have been a duplicate": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Outcome, e.SettledBy, e.RemoteID = ledger.StateSettled, ledger.OutcomeApplied, ledger.ByLook, "C-1"
			}), Attempts: []ledger.Attempt{lost}},
			evidence: []ledger.Evidence{{Finding: ledger.FindingApplied, AskedAt: look1, RemoteID: "C-1"}},
			want:     []string{"a look at 2026-11-28T12:03:00Z found it at billing as C-1", "would have made a duplicate"},
		},
		"resent after proven absence: says which looks, and the control": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Outcome, e.SettledBy, e.RemoteID = ledger.StateSettled, ledger.OutcomeApplied, ledger.BySend, "C-2"
			}), Attempts: []ledger.Attempt{absent, ours}},
			evidence: []ledger.Evidence{negative(look1, 1), absence(look2, 2)},
			want: []string{"Attempt 2 was safe: 2 looks by our key", "from 2026-11-28T12:03:00Z to 2026-11-28T12:04:00Z",
				"show a record that is known to exist", "our own attempt was confirmed by billing as C-2"},
		},
		"an attempt that stands for what the ledger lost is no resend": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Effect, e.Reason, e.NextAt = ledger.StateAmbiguous, ledger.EffectUnknown, "generation", look2
			}), Attempts: []ledger.Attempt{absent, {No: 2, AttemptID: "generation-2", Ours: true, Rule: "generation", ReceivedAt: look1}}},
			want: []string{"Attempt 2 stands for what may have been sent until 2026-11-28T12:03:00Z", "the database was replaced"},
			not:  "was safe",
		},
		"resent because the system itself refuses a second one": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Outcome, e.SettledBy = ledger.StateSettled, ledger.OutcomeApplied, ledger.BySend
			}), Attempts: []ledger.Attempt{lost, ours}},
			history: []ledger.History{{At: look1, To: ledger.StateRetryable, Reason: "second_refused: key"}},
			want:    []string{"Attempt 2 was safe: the system itself refuses a second effect"},
		},
		"ambiguous: why it stopped, what is known, and what comes": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Effect, e.Reason, e.NextAt, e.LooksAnswered = ledger.StateAmbiguous, ledger.EffectUnknown, "too_early: x", look2, 1
			}), Attempts: []ledger.Attempt{lost}},
			want: []string{"nobody knows whether it happened", "a fresh record might not show yet", "looked at 1 time", "due at 2026-11-28T12:04:00Z"},
			not:  "was safe",
		},
		"ambiguous: a void negative is no proof": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Effect, e.Reason, e.LooksAnswered = ledger.StateAmbiguous, ledger.EffectUnknown, "no_control", 1
			}), Attempts: []ledger.Attempt{lost}},
			evidence: []ledger.Evidence{{Counted: true, Void: true, AskedAt: look1}},
			want:     []string{"none of the answers counts"},
		},
		"retryable: the answer itself says that nothing was done": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Effect, e.Reason, e.NextAt = ledger.StateRetryable, ledger.EffectNotDone, "backoff: rate_limit", look2
			}), Attempts: []ledger.Attempt{refused}},
			want: []string{"Another attempt is safe: attempt 1 ended in rate_limit (HTTP 429), which did nothing", "due at 2026-11-28T12:04:00Z"},
		},
		"escalated: who has to decide, until when, and what is allowed": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Effect, e.Reason, e.DueAt = ledger.StateEscalated, ledger.EffectUnknown, "outcome_unknown", look2
				e.Allowed = []ledger.Action{ledger.ActionResolve, ledger.ActionCancel}
			}), Attempts: []ledger.Attempt{lost}},
			want: []string{"looking does not tell", "so nothing is sent", "revops has to decide by 2026-11-28T12:04:00Z (may: resolve, cancel)"},
		},
		"blocked: it did not happen, and why it is not tried again": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Outcome, e.SettledBy, e.Reason = ledger.StateSettled, ledger.OutcomeNotApplied, ledger.ByCheck, "consent_withdrawn"
			}), Attempts: []ledger.Attempt{refused}},
			want: []string{"It did not happen and is not tried again: consent was withdrawn"},
		},
		"an open flag is told, whatever the state": {
			st: ledger.Stored{Entry: with(func(e *ledger.Entry) {
				e.State, e.Outcome, e.SettledBy = ledger.StateSettled, ledger.OutcomeApplied, ledger.ByReport
				e.Flags = []ledger.Flag{ledger.FlagDuplicate}
			})},
			want: []string{"the workflow reported success", "Open flag duplicate"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Why(c.st, c.evidence, c.history)
			rest := got
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("%q is missing, or not in its place, in:\n%s", w, got)
				}
				rest = after
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("%q is in:\n%s", c.not, got)
			}
		})
	}
}

func TestSeen(t *testing.T) {
	for name, c := range map[string]struct{ detail, want string }{
		"a record with its values": {`{"records":[{"id":"C-1","status":"paid","standing":"applied","compared":[{"path":"amount","want":"5","got":"5","equal":true},{"path":"to","want":"a","got":"b"}]}]}`,
			`record C-1 with status "paid": applied, amount "5" as sent, to "b" instead of "a"`},
		"a failed question":        {`{"records":[],"error":"HTTP 503"}`, "HTTP 503"},
		"nothing, with a control":  {`{"records":[],"reason":"too_close: x","control":"found"}`, "nothing was found, too soon after the look before to count; the control was found"},
		"what a person has seen":   {`{"by":"ada","reference":"T-1"}`, "seen by ada: T-1"},
		"a detail that is no JSON": {`x`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Seen(ledger.Evidence{Detail: []byte(c.detail)}); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestViewsHaveNoNullLists(t *testing.T) {
	v := ViewShow(ledger.Stored{Entry: ledger.Entry{ActionKey: "k", Payload: []byte(`{"n":9007199254740993}`)}}, nil, nil, false)
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"attempts", "evidence", "history", "flags", "allowed", "keys"} {
		if l, ok := m[name].([]any); !ok || len(l) != 0 {
			t.Errorf("%s is %v, want an empty array", name, m[name])
		}
	}
	if _, ok := m["payload"]; ok {
		t.Error("the payload is shown without being asked for")
	}
	b, err = json.Marshal(ViewEntry(ledger.Entry{Payload: []byte(`{"n":9007199254740993}`)}, true).Payload)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`{"n":9007199254740993}`, string(b)); d != "" {
		t.Error(d)
	}
}
