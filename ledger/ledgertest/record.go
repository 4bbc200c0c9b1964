package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

func recordVerdicts(t *testing.T, w *world) {
	w.put(w.entry("known"))
	decide := func(cur *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
		switch {
		case r.ActionKey == "bad":
			return ledger.Recording{Verdict: ledger.RecordedRefused, Errors: []ledger.FieldError{{Field: "workflow", Message: "is missing"}}}
		case r.ActionKey == "known":
			if cur == nil {
				t.Error("the decider was not shown the stored entry")
			}
			return ledger.Recording{Verdict: ledger.RecordedUnchanged, Warnings: []string{"seen before"}}
		}
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: w.entry(r.ActionKey), Attempts: []ledger.Attempt{
			{AttemptID: "a1", StartedAt: now, Status: ledger.AttemptError, Class: ledger.ClassTimeout, Effect: ledger.EffectUnknown}}}
	}
	before := w.get("known")
	w.clock.Add(time.Second)
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "bad"}, {ActionKey: "fresh"}, {ActionKey: "known"}}, decide)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range out {
		got = append(got, o.ActionKey+" "+string(o.Verdict))
	}
	same(t, "verdicts", got, []string{"bad refused", "fresh new", "known unchanged"})
	same(t, "warnings", out[2].Warnings, []string{"seen before"})
	same(t, "the unchanged entry", w.get("known"), before)
	if _, err := w.Entry(w.ctx(), "bad"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused entry: %v, want not found", err)
	}
	fresh := w.get("fresh")
	same(t, "the answer", out[1].Entry, fresh.Entry)
	if len(fresh.Attempts) != 1 || fresh.Attempts[0].No != 1 || fresh.Entry.Attempts != 1 {
		t.Errorf("attempts: %+v, counted %d", fresh.Attempts, fresh.Entry.Attempts)
	}
	now := w.clock.Now()
	a := fresh.Attempts[0]
	for what, at := range map[string]time.Time{
		"last activity": fresh.Entry.LastActivityAt, "attempt received": a.ReceivedAt, "result": a.ResultAt, "effect": a.EffectAt} {
		if !at.Equal(now) {
			t.Errorf("%s at %v, want %v", what, at, now)
		}
	}
	if fresh.Entry.OriginalOwner != "revops" || fresh.Entry.Class != ledger.ReportWaiting {
		t.Errorf("original owner %q, class %q", fresh.Entry.OriginalOwner, fresh.Entry.Class)
	}
	h := w.history(fresh.Entry.ID)
	if len(h) != 1 || h[0].From != "" || h[0].To != ledger.StateAmbiguous || h[0].Actor != "import" || h[0].Class != ledger.ReportWaiting {
		t.Errorf("history %+v", h)
	}
}

func recordThen(t *testing.T, w *world) {
	if err := w.Hold(w.ctx(), "crm", true, "person:ada"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	decide := func(cur *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
		e := w.entry(r.ActionKey)
		e.OutcomeKey = "outcome-1"
		e = ledger.Reopen(e, "first", now)
		e.Effect = ledger.EffectNotDone
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: e, Then: func(b ledger.Beside) ledger.Recording {
			d := ledger.Recording{Verdict: ledger.RecordedMerged, Entry: ledger.Wait(e, "later", now.Add(time.Minute)), Send: ledger.SendWait, Why: "others"}
			seen[r.ActionKey] = string(b.Entry.State)
			for _, s := range b.Siblings {
				seen[r.ActionKey] += " " + s.ActionKey + " " + string(s.State)
			}
			if len(b.Siblings) == 0 || b.Siblings[0].State != ledger.StateInFlight {
				a := ledger.Attempt{AttemptID: "intent", StartedAt: now, Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown}
				next := ledger.Begin(e, "then", now.Add(time.Hour))
				next.Effect = ledger.EffectUnknown
				d.Entry, d.Attempts, d.Send, d.Why = next, []ledger.Attempt{a}, ledger.SendYes, "free"
				d.History = []ledger.History{{To: ledger.StateInFlight, Reason: "then", Actor: "api"}}
			} else {
				d.History = []ledger.History{{To: ledger.StateRetryable, Reason: "later", Actor: "api"}}
			}
			if b.Held != "person:ada" {
				t.Errorf("%s: held by %q", r.ActionKey, b.Held)
			}
			return d
		}}
	}
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "a"}, {ActionKey: "b"}}, decide)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what stood beside them", seen, map[string]string{"a": "retryable b retryable", "b": "retryable a in_flight"})
	for i, want := range []struct {
		key    string
		send   ledger.Send
		state  ledger.State
		reason string
	}{{"a", ledger.SendYes, ledger.StateInFlight, "then"}, {"b", ledger.SendWait, ledger.StateRetryable, "later"}} {
		st := w.get(want.key)
		if out[i].Send != want.send || out[i].Verdict != ledger.RecordedNew || st.Entry.State != want.state || st.Entry.Reason != want.reason {
			t.Errorf("%s: answered %s %s, stored %s %q", want.key, out[i].Verdict, out[i].Send, st.Entry.State, st.Entry.Reason)
		}
		same(t, "the answer", out[i].Entry, st.Entry)
		if h := w.history(st.Entry.ID); len(h) != 1 || h[0].From != "" || h[0].To != want.state || h[0].No != 1 {
			t.Errorf("%s: history %+v", want.key, h)
		}
	}
	if n := len(w.get("a").Attempts); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	sibs, err := w.Siblings(w.ctx(), []int64{w.get("b").Entry.ID})
	if err != nil {
		t.Fatal(err)
	}
	if b := sibs[w.get("b").Entry.ID]; len(b) != 1 || !b[0].Holder {
		t.Errorf("the outcome key is not held by the first: %+v", b)
	}
}

func recordTwiceInBatch(t *testing.T, w *world) {
	decide := func(cur *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
		a := ledger.Attempt{AttemptID: r.RunID, Status: ledger.AttemptError, Effect: ledger.EffectUnknown}
		if cur == nil {
			return ledger.Recording{Verdict: ledger.RecordedNew, Entry: w.entry(r.ActionKey), Attempts: []ledger.Attempt{a}}
		}
		if len(cur.Attempts) != 1 || cur.Entry.ID == 0 {
			t.Errorf("the second record sees %+v", cur)
		}
		e := ledger.Settle(cur.Entry, ledger.OutcomeApplied, ledger.ByReport, "reported", now)
		e.Effect = ledger.EffectDone
		return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: e, Attempts: []ledger.Attempt{a}}
	}
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "k", RunID: "a1"}, {ActionKey: "k", RunID: "a2"}}, decide)
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Verdict != ledger.RecordedNew || out[1].Verdict != ledger.RecordedMerged || out[1].Entry.State != ledger.StateSettled {
		t.Fatalf("answers %+v", out)
	}
	st := w.get("k")
	if st.Entry.State != ledger.StateSettled || len(st.Attempts) != 2 || st.Attempts[1].No != 2 {
		t.Errorf("stored %+v", st)
	}
	w.unbroken("k")
}

func recordProviderKey(t *testing.T, w *world) {
	use := func(key string) func(*ledger.Entry) {
		return func(e *ledger.Entry) { e.ProviderKey, e.KeyGuard = key, key }
	}
	w.put(w.entry("stored", use("shared")))
	es := map[string]ledger.Entry{
		"first": w.entry("first", use("both")), "second": w.entry("second", use("both")),
		"third": w.entry("third", use("shared")), "fourth": w.entry("fourth", use("shared"), func(e *ledger.Entry) { e.Operation = "other" }),
		"folds": w.entry("folds", use("shared"), func(e *ledger.Entry) { e.ProviderKey = "SHARED" }),
		"tells": w.entry("tells", use("SHARED")),
		"none1": w.entry("none1", use("")), "none2": w.entry("none2", use("")),
	}
	var recs []ledger.Record
	for _, k := range []string{"first", "second", "third", "fourth", "none1", "none2", "folds", "tells"} {
		recs = append(recs, ledger.Record{ActionKey: k})
	}
	out, err := w.Record(w.ctx(), recs, func(_ *ledger.Stored, r ledger.Record, _ time.Time) ledger.Recording {
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: es[r.ActionKey]}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, other := range map[int]string{1: "first", 2: "stored", 6: "stored"} {
		if out[i].Verdict != ledger.RecordedRefused || len(out[i].Errors) != 1 {
			t.Errorf("%q: %s %v, want refused", out[i].ActionKey, out[i].Verdict, out[i].Errors)
			continue
		}
		e := out[i].Errors[0]
		if e.Field != "provider_key" || !strings.Contains(e.Message, other) || !strings.Contains(e.Message, out[i].ActionKey) {
			t.Errorf("%q: error %v names not both keys", out[i].ActionKey, e)
		}
	}
	for _, i := range []int{0, 3, 4, 5, 7} {
		if out[i].Verdict != ledger.RecordedNew {
			t.Errorf("%q: %s %v, want new", out[i].ActionKey, out[i].Verdict, out[i].Errors)
		}
	}
	// A merge that takes somebody else's key is refused too.
	e := w.get("none1").Entry
	e.ProviderKey, e.KeyGuard = "both", "both"
	out, err = w.Record(w.ctx(), []ledger.Record{{ActionKey: "none1"}}, writing(ledger.Recording{Verdict: ledger.RecordedMerged, Entry: e}))
	if err != nil || out[0].Verdict != ledger.RecordedRefused {
		t.Errorf("merge onto a taken key: %+v, %v", out, err)
	}
}

// What one entry has beside its own key (a later provider key, an idempotency
// key) is nobody else's either, whichever came first.
func recordKeysBeside(t *testing.T, w *world) {
	key := func(k, idem string, more ...string) func(*ledger.Entry) {
		return func(e *ledger.Entry) {
			e.ProviderKey, e.KeyGuard, e.IdempotencyKey = k, k, idem
			e.Keys = append([]string{k}, more...)
		}
	}
	put := func(e ledger.Entry, v ledger.Verdict) ledger.Recorded {
		t.Helper()
		out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: e.ActionKey}}, writing(ledger.Recording{Verdict: v, Entry: e}))
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	refused := func(o ledger.Recorded, field, other string) {
		t.Helper()
		if o.Verdict != ledger.RecordedRefused || len(o.Errors) != 1 || o.Errors[0].Field != field ||
			!strings.Contains(o.Errors[0].Message, strconv.Quote(other)) || !strings.Contains(o.Errors[0].Message, strconv.Quote(o.ActionKey)) {
			t.Errorf("%s: %s %v, want %s refused, and %q named", o.ActionKey, o.Verdict, o.Errors, field, other)
		}
	}
	taken := func(o ledger.Recorded) {
		t.Helper()
		if o.Verdict == ledger.RecordedRefused {
			t.Errorf("%s: refused, %v", o.ActionKey, o.Errors)
		}
	}
	taken(put(w.entry("a", key("a", "ia")), ledger.RecordedNew))
	refused(put(w.entry("b", key("b", "ia")), ledger.RecordedNew), "idempotency_key", "a")
	refused(put(w.entry("b", key("ia", "")), ledger.RecordedNew), "provider_key", "a")
	refused(put(w.entry("b", key("b", "", "a")), ledger.RecordedNew), "provider_key", "a")
	taken(put(w.entry("b", key("b", "ia"), func(e *ledger.Entry) { e.Operation = "other" }), ledger.RecordedNew))
	taken(put(w.entry("c", key("c", "")), ledger.RecordedNew))

	// A later report brings a key.
	e := w.get("c").Entry
	e.Keys = append(e.Keys, "later")
	taken(put(e, ledger.RecordedMerged))
	e = w.get("c").Entry
	e.Reason = "the same again"
	taken(put(e, ledger.RecordedMerged))
	refused(put(w.entry("d", key("later", "")), ledger.RecordedNew), "provider_key", "c")
	taken(put(w.entry("d", key("d", "")), ledger.RecordedNew))
	e = w.get("d").Entry
	e.Keys = append(e.Keys, "later")
	refused(put(e, ledger.RecordedMerged), "provider_key", "c")

	// And in one batch.
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "x"}, {ActionKey: "y"}}, func(_ *ledger.Stored, r ledger.Record, _ time.Time) ledger.Recording {
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: w.entry(r.ActionKey, key(r.ActionKey, "one"))}
	})
	if err != nil {
		t.Fatal(err)
	}
	taken(out[0])
	refused(out[1], "idempotency_key", "x")
}

// odd is what texts may hold that a database may not.
const odd = "a\x00b\xffc \u2028 \"q\" \\ \\N \\. \t|\n|\r| {x,y} 'z' %s ?:n \U0001F600"

func recordRoundTrip(t *testing.T, w *world) {
	at := func(n int) time.Time { return w.clock.Now().Add(time.Duration(n) * time.Microsecond) }
	e := w.entry("odd:1")
	e.Payload = []byte("{\"contact_id\":734512345678901235,\"amount\":19.90,\"\\u0000\":\"\xff\x00\"}")
	e.PayloadDigest, e.PayloadSize, e.PayloadType, e.Excerpt = "d1", len(e.Payload), "text/plain", "ex"
	e.RunID, e.StepID, e.Subject, e.OutcomeKey, e.Replaces = "odd", "1", "ada@example.org", "lead:1", "odd:0"
	e.Risk, e.Sanitized, e.IdempotencyKey = ledger.RiskHigh, 3, "idem"
	e.Keys = []string{"k,1", `k"2`, "k\\3", "odd:1"}
	e.Driver, e.DriverUntil = "platform", at(1)
	e.RemoteID, e.Flags = "r", []ledger.Flag{ledger.FlagDuplicate, ledger.FlagReversed}
	e.Attempts, e.AttemptCount, e.SendCount = 1, 1, math.MaxInt64
	e.LastClass, e.LastTriedAt, e.FirstFailedAt, e.FirstSentAt, e.KeySentAt, e.SendBy = ledger.ClassQuota, at(2), at(3), at(4), at(5), at(6)
	e.Unbounded, e.LooksAnswered, e.LooksFailed, e.LooksInRow, e.LastLookAt = true, 1, 2, 3, at(7)
	e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(8), "v1"
	e.SettleFrom, e.PausedBase = at(9), 1234567*time.Microsecond
	e.Granted, e.Approved, e.PolicyVersion = 1, true, "p1"
	e.Workflow = "Zürich"
	e.Owner = "revops"
	e = ledger.Escalate(e, ledger.Escalation{Owner: "boss", Due: at(10), Allowed: ledger.Actions(), Look: at(11)}, "mismatch: x")
	e.SettledAt = time.Time{}
	a := ledger.Attempt{
		AttemptID: "a:1", No: 1, Ours: true, StartedAt: at(1), FinishedAt: at(2), ReceivedAt: at(3), Status: ledger.AttemptError,
		HTTPStatus: 504, Class: ledger.ClassTimeout, Code: "C", Message: "{\"m\"}", RetryAfter: "120", RemoteID: "r", Effect: ledger.EffectUnknown,
		Rule: "rule", Sends: 1, Final: true, SendBy: at(4), Key: "k", Counts: true, Replayed: true, KeySpent: true,
		ReasonText: "t", ReasonID: "i", RulesVersion: 2,
	}
	ev := ledger.Evidence{
		Finding: ledger.FindingNotVisible, Connector: "crm", Form: "batch", RemoteID: "r", AskedAt: at(5), SeenAt: at(6),
		Counted: true, Version: "v", Detail: []byte("{\"n\":9007199254740993,\"b\":\"\\u0000\"}\x00\xff"), Digest: "dd", PassID: "p",
	}
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: e.ActionKey}}, writing(ledger.Recording{
		Entry: e, Attempts: []ledger.Attempt{a}, Evidence: []ledger.Evidence{ev},
		History: []ledger.History{{To: ledger.StateEscalated, Reason: e.Reason, Owner: "boss", Actor: "person:ada", Note: "n", Detail: []byte(`{"x":1}`)}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	st := w.get(e.ActionKey)
	e.ID, e.Class, e.LastActivityAt, e.OriginalOwner = st.Entry.ID, ledger.ReportEscalated, w.clock.Now(), "revops"
	if e.ID == 0 {
		t.Error("no id was given")
	}
	if st.Entry.OriginalOwner != "boss" && st.Entry.OriginalOwner != "revops" {
		t.Errorf("original owner %q", st.Entry.OriginalOwner)
	}
	e.OriginalOwner = st.Entry.OriginalOwner
	same(t, "entry", st.Entry, e)
	same(t, "answer", out[0].Entry, e)
	a.EntryID, a.ResultAt, a.EffectAt = e.ID, w.clock.Now(), w.clock.Now()
	same(t, "attempts", st.Attempts, []ledger.Attempt{a})
	evs := w.evidence(e.ID)
	ev.EntryID = e.ID
	same(t, "evidence", evs, []ledger.Evidence{ev})
	h := w.history(e.ID)
	if len(h) != 1 || h[0].Actor != "person:ada" || !bytes.Equal(h[0].Detail, []byte(`{"x":1}`)) || !h[0].At.Equal(w.clock.Now()) || len(h[0].Flags) != 2 {
		t.Errorf("history %+v", h)
	}

	// A text that a database may not hold is stored all the same, readably.
	e2 := w.entry("odd:2", func(e *ledger.Entry) { e.Excerpt, e.Keys, e.Reason = odd, []string{odd}, odd })
	got := w.put(e2, ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptError, Effect: ledger.EffectUnknown, Message: odd})
	if !strings.Contains(got.Excerpt, "\U0001F600") || strings.ContainsAny(got.Excerpt, "\x00") || got.Keys[0] != got.Excerpt || got.Reason != got.Excerpt {
		t.Errorf("odd text came back as %q, %q", got.Excerpt, got.Keys)
	}
	// What is only awkward comes back as it was, written new and written over.
	const awkward = "\t\n\r\\N \\. NULL {a,\"b\"} 'c' ?:n %s \x7f"
	edit := func(e *ledger.Entry) {
		e.Excerpt, e.Keys, e.Reason = awkward, []string{awkward + e.ActionKey, ""}, awkward
	}
	for what, got := range map[string]ledger.Entry{"new": w.put(w.entry("odd:4", edit)), "merged": w.put(w.entry("odd:2", edit))} {
		if got.Excerpt != awkward || got.Reason != awkward || len(got.Keys) != 2 || got.Keys[0] != awkward+got.ActionKey {
			t.Errorf("%s: %q came back as %q, %q, %q", what, awkward, got.Excerpt, got.Reason, got.Keys)
		}
	}
	big := w.entry("odd:3", func(e *ledger.Entry) {
		e.Payload = bytes.Repeat([]byte{0, 255, '\\', '"', '{', ','}, 40000)
		e.RecordID = strings.Repeat("ä", 5000)
	})
	if got := w.put(big, ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptError, Effect: ledger.EffectUnknown, Message: strings.Repeat("x", 60000)}); !bytes.Equal(got.Payload, big.Payload) || got.RecordID != big.RecordID {
		t.Error("a large payload did not come back as it was")
	}
	for _, f := range []func(*ledger.Entry){
		func(e *ledger.Entry) { e.OutcomeKey = strings.Repeat("k", 5000) }, func(e *ledger.Entry) { e.ProviderKey = strings.Repeat("k", 5000) },
	} {
		out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "long"}}, writing(ledger.Recording{Entry: w.entry("long", f)}))
		if err != nil || out[0].Verdict != ledger.RecordedRefused || len(out[0].Errors) != 1 {
			t.Errorf("a key of 5,000 bytes: %+v, %v; want refused", out, err)
		}
	}
}

func recordTooMany(t *testing.T, w *world) {
	if _, err := w.Record(w.ctx(), make([]ledger.Record, 1001), nil); err == nil {
		t.Error("1,001 records at once were taken")
	}
	if out, err := w.Record(w.ctx(), nil, nil); err != nil || len(out) != 0 {
		t.Errorf("no records: %v, %v", out, err)
	}
}

func recordIllegal(t *testing.T, w *world) {
	now := w.clock.Now()
	w.put(w.entry("done", as(func(e ledger.Entry) ledger.Entry {
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByReport, "reported", now)
	})))
	before := w.get("done")
	for name, e := range map[string]ledger.Entry{
		"settled is final": ledger.Doubt(before.Entry, "again", now),
		"half filled":      {ActionKey: "done", State: ledger.StateSettled, Effect: ledger.EffectDone},
	} {
		out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: "done"}}, writing(ledger.Recording{Entry: e,
			Attempts: []ledger.Attempt{{AttemptID: "x", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown}}}))
		if err != nil || out[0].Verdict != ledger.RecordedRefused {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	same(t, "entry", w.get("done"), before)
	w.unbroken("done")
}

func recordEndsClaims(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, l := w.claimed()
	merged := w.put(ledger.Doubt(e.Entry, "reported_again", w.clock.Now()), ledger.Attempt{AttemptID: "a2", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
	if merged.FencingToken <= l.Token {
		t.Errorf("token %d after the merge, %d claimed", merged.FencingToken, l.Token)
	}
	out := w.apply(ledger.Change{Lease: l, Next: ledger.Reopen(e.Entry, "absent", w.clock.Now())})
	if !errors.Is(out[0].Err, ledger.ErrLeaseLost) {
		t.Errorf("the old claim wrote: %v", out[0].Err)
	}
	// A merge without news of an attempt leaves claims alone.
	_, l = w.claimed()
	m := w.get("k").Entry
	m.Subject = "ada@example.org"
	w.put(m)
	if got := w.get("k").Entry; got.FencingToken != l.Token || got.Subject != "ada@example.org" {
		t.Errorf("token %d, claimed %d; subject %q", got.FencingToken, l.Token, got.Subject)
	}
}

func recordAtOnce(t *testing.T, w *world) {
	const sides, keys = 4, 40
	var wg sync.WaitGroup
	for side := range sides {
		s := w.another()
		wg.Go(func() {
			var recs []ledger.Record
			for i := range keys {
				recs = append(recs, ledger.Record{ActionKey: fmt.Sprintf("k%02d", (i*7+side*13)%keys), RunID: fmt.Sprintf("a%d", side)})
			}
			_, err := s.Record(w.ctx(), recs, func(cur *ledger.Stored, r ledger.Record, _ time.Time) ledger.Recording {
				a := []ledger.Attempt{{AttemptID: r.RunID, Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown}}
				if cur == nil {
					return ledger.Recording{Verdict: ledger.RecordedNew, Entry: w.entry(r.ActionKey), Attempts: a}
				}
				return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: cur.Entry, Attempts: a}
			})
			if err != nil {
				t.Errorf("side %d: %v", side, err)
			}
		})
	}
	wg.Wait()
	es, err := w.Entries(w.ctx(), ledger.Filter{}, "", 0, false)
	if err != nil || len(es) != keys {
		t.Fatalf("%d entries, %v; want %d", len(es), err, keys)
	}
	for _, e := range es {
		st := w.get(e.ActionKey)
		for i, a := range st.Attempts {
			if a.No != i+1 {
				t.Errorf("%q: attempt %d has number %d", e.ActionKey, i+1, a.No)
			}
		}
		if len(st.Attempts) != sides {
			t.Errorf("%q has %d attempts, want %d", e.ActionKey, len(st.Attempts), sides)
		}
		w.unbroken(e.ActionKey)
	}
}

func changeOne(t *testing.T, w *world) {
	w.put(w.entry("k"))
	_, l := w.claimed()
	now := w.clock.Now()
	got, err := w.Change(w.ctx(), "k", func(cur ledger.Stored, at time.Time) (ledger.Recording, error) {
		if !at.Equal(now) || cur.Entry.ActionKey != "k" {
			t.Errorf("decider got %v, %q", at, cur.Entry.ActionKey)
		}
		return ledger.Recording{
			Verdict: ledger.RecordedMerged, Entry: ledger.Settle(cur.Entry, ledger.OutcomeApplied, ledger.ByPerson, "resolved", at),
			Evidence: []ledger.Evidence{{Finding: ledger.FindingApplied, AskedAt: at, RemoteID: "R-1"}},
			History:  []ledger.History{{From: cur.Entry.State, To: ledger.StateSettled, Outcome: ledger.OutcomeApplied, Actor: "person:ada", Note: "seen it"}},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	st := w.get("k")
	same(t, "answer", got, st.Entry)
	if st.Entry.Class != ledger.ReportManuallyResolved || st.Entry.FencingToken != l.Token+1 || st.Entry.LeaseHolder != "" {
		t.Errorf("stored %+v", st.Entry)
	}
	h := w.history(st.Entry.ID)
	if len(h) != 2 || h[1].Actor != "person:ada" || h[1].No != 2 || h[1].Class != ledger.ReportManuallyResolved {
		t.Errorf("history %+v", h)
	}
	if len(w.evidence(st.Entry.ID)) != 1 {
		t.Error("the evidence is missing")
	}
	if out := w.apply(ledger.Change{Lease: l, Next: st.Entry}); !errors.Is(out[0].Err, ledger.ErrLeaseLost) {
		t.Errorf("the claim made before wrote: %v", out[0].Err)
	}
}

func changeRefused(t *testing.T, w *world) {
	w.put(w.entry("k"))
	before := w.get("k")
	broken := errors.New("broken")
	decide := func(r ledger.Recording, err error) func(ledger.Stored, time.Time) (ledger.Recording, error) {
		return func(ledger.Stored, time.Time) (ledger.Recording, error) { return r, err }
	}
	if _, err := w.Change(w.ctx(), "nobody", decide(ledger.Recording{}, nil)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("no such key: %v", err)
	}
	if _, err := w.Change(w.ctx(), "k", decide(ledger.Recording{}, broken)); !errors.Is(err, broken) {
		t.Errorf("the decider's error: %v", err)
	}
	refusal := ledger.Recording{Verdict: ledger.RecordedRefused, Errors: []ledger.FieldError{{Field: "action", Message: "is not allowed"}}}
	var fe *ledger.FieldError
	if _, err := w.Change(w.ctx(), "k", decide(refusal, nil)); !errors.As(err, &fe) || fe.Field != "action" {
		t.Errorf("a refusal: %v", err)
	}
	var te *ledger.TransitionError
	illegal := ledger.Advance(before.Entry, "x", w.clock.Now())
	if _, err := w.Change(w.ctx(), "k", decide(ledger.Recording{Entry: illegal}, nil)); !errors.As(err, &te) || te.From != ledger.StateAmbiguous {
		t.Errorf("an illegal change: %v", err)
	}
	same(t, "entry", w.get("k"), before)
	w.unbroken("k")
}

// interrupted: the drivers answer a cancelled context each in their own words.
func interrupted(t *testing.T, w *world) {
	w.put(w.entry("k"))
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	for name, err := range map[string]error{
		"read":  second(w.Entry(ctx, "k")),
		"claim": second(w.Claim(ctx, ledger.Claim{Lane: lane, Work: ledger.WorkLook, Limit: 1, Holder: "w", Lease: time.Minute})),
	} {
		if !errors.Is(err, ledger.ErrInterrupted) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want interrupted and context.Canceled", name, err)
		}
	}
	if got := w.claim(); len(got.Entries) != 1 {
		t.Errorf("the interrupted claim leased something: %d due", len(got.Entries))
	}
}

func second[T any](_ T, err error) error { return err }
