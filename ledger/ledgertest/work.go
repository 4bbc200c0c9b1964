package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

func claimOrder(t *testing.T, w *world) {
	now := w.clock.Now()
	at := func(d time.Duration) func(*ledger.Entry) { return func(e *ledger.Entry) { e.NextAt = now.Add(d) } }
	w.put(w.entry("b", at(-time.Minute)))
	w.put(w.entry("a", at(-time.Minute)))
	w.put(w.entry("Z", at(-time.Minute))) // bytes, not the alphabet of some language
	w.put(w.entry("oldest", at(-time.Hour)))
	w.put(w.entry("later", at(time.Second)))
	w.put(w.entry("elsewhere", func(e *ledger.Entry) { e.Lane = "other" }))
	w.put(w.entry("to advance", retryable(now)))
	w.put(w.entry("settled", as(func(e ledger.Entry) ledger.Entry {
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByReport, "reported", now)
	})), ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptOK, Effect: ledger.EffectDone})
	got := w.claim(func(c *ledger.Claim) { c.Limit = 3 })
	same(t, "first", keysOf(got.Entries), []string{"oldest", "Z", "a"})
	if !got.Now.Equal(now) {
		t.Errorf("now %v, want %v", got.Now, now)
	}
	for i, l := range got.Leases {
		e := got.Entries[i].Entry
		want := ledger.Lease{EntryID: e.ID, ActionKey: e.ActionKey, Token: 1, State: ledger.StateAmbiguous, Holder: "w1", Until: now.Add(time.Minute)}
		same(t, "lease", l, want)
		if e.LeaseHolder != "w1" || e.FencingToken != 1 || e.Generation == 0 {
			t.Errorf("claimed entry %+v", e)
		}
	}
	same(t, "then", keysOf(w.claim().Entries), []string{"b"})
	if got := w.claim(); len(got.Entries) != 0 || len(got.Leases) != 0 {
		t.Errorf("nothing due: %+v", got)
	}
	same(t, "due before a time", keysOf(w.claim(advancing, func(c *ledger.Claim) { c.DueBefore = now.Add(-time.Second) }).Entries), nil)
	st, _ := w.claimed(advancing)
	same(t, "the same as stored", st, w.get("to advance"))
	w.clock.Add(time.Second)
	same(t, "once due", keysOf(w.claim().Entries), []string{"later"})
}

func claimAtOnce(t *testing.T, w *world) {
	const total, claimers = 400, 4
	var es []ledger.Entry
	for i := range total {
		es = append(es, w.entry(fmt.Sprintf("k%04d", i)))
	}
	w.putAll(es)
	var mu sync.Mutex
	by := map[string]string{}
	var wg sync.WaitGroup
	for i := range claimers {
		s, holder := w.another(), fmt.Sprintf("w%d", i)
		wg.Go(func() {
			for {
				got, err := s.Claim(w.ctx(), ledger.Claim{Lane: lane, Work: ledger.WorkLook, Limit: 17, Holder: holder, Lease: time.Minute})
				if err != nil {
					t.Errorf("%s: %v", holder, err)
					return
				}
				if len(got.Entries) == 0 {
					// Others may hold rows locked that are then not taken.
					mu.Lock()
					done := len(by) == total
					mu.Unlock()
					if done || t.Failed() {
						return
					}
					continue
				}
				mu.Lock()
				for _, l := range got.Leases {
					if first, twice := by[l.ActionKey]; twice {
						t.Errorf("%q was claimed by %s and %s", l.ActionKey, first, holder)
					}
					by[l.ActionKey] = holder
					if l.Token != 1 {
						t.Errorf("%q has token %d", l.ActionKey, l.Token)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(by) != total {
		t.Errorf("%d entries were claimed, want %d", len(by), total)
	}
}

func claimExpiry(t *testing.T, w *world) {
	w.put(w.entry("k"))
	_, first := w.claimed()
	w.clock.Add(59 * time.Second)
	if got := w.claim(); len(got.Entries) != 0 {
		t.Fatal("a live lease was taken")
	}
	w.clock.Add(time.Second)
	_, next := w.claimed(func(c *ledger.Claim) { c.Holder = "w2" })
	if next.Token <= first.Token {
		t.Errorf("token %d after %d", next.Token, first.Token)
	}
}

func claimPeek(t *testing.T, w *world) {
	now := w.clock.Now()
	var want []string
	for i := range 7 {
		k := fmt.Sprintf("k%d", i)
		w.put(w.entry(k, func(e *ledger.Entry) { e.NextAt = now.Add(-time.Duration(3-i/3) * time.Minute) }), ledger.Attempt{AttemptID: "a", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
		want = append(want, k)
	}
	before := w.get("k3")
	var got []string
	var after ledger.Position
	for {
		page := w.claim(func(c *ledger.Claim) { c.Peek, c.Limit, c.After = true, 2, after })
		if len(page.Leases) != 0 {
			t.Fatal("a peek gave leases")
		}
		if len(page.Entries) == 0 {
			break
		}
		got = append(got, keysOf(page.Entries)...)
		last := page.Entries[len(page.Entries)-1].Entry
		after = ledger.Position{NextAt: last.NextAt, ActionKey: last.ActionKey}
		if len(page.Entries[0].Attempts) != 1 {
			t.Error("a peek gave no attempts")
		}
	}
	same(t, "pages", got, want)
	same(t, "entry", w.get("k3"), before)
}

func claimWindow(t *testing.T, w *world) {
	start := w.clock.Now()
	w.put(w.entry("old", func(e *ledger.Entry) { e.NextAt = start }))
	w.clock.Add(10 * time.Hour)
	w.put(w.entry("young", func(e *ledger.Entry) { e.NextAt = start }))
	w.put(w.entry("came due", func(e *ledger.Entry) { e.NextAt = start.Add(12 * time.Hour) }))
	w.clock.Add(10 * time.Hour)
	for name, c := range map[string]struct {
		since, until time.Duration
		want         []string
	}{
		"since":               {since: 5 * time.Hour, want: []string{"young", "came due"}},
		"until":               {until: 5 * time.Hour, want: []string{"old"}},
		"both":                {since: 5 * time.Hour, until: 11 * time.Hour, want: []string{"young"}},
		"came due in it":      {since: 11 * time.Hour, until: 13 * time.Hour, want: []string{"came due"}},
		"since is inclusive":  {since: 10 * time.Hour, want: []string{"young", "came due"}},
		"until is exclusive":  {until: 10 * time.Hour, want: []string{"old"}},
		"nothing happened":    {since: 19 * time.Hour},
		"no window":           {want: []string{"old", "young", "came due"}},
		"before there was it": {until: time.Nanosecond},
	} {
		f := ledger.Filter{}
		if c.since != 0 {
			f.Since = start.Add(c.since)
		}
		if c.until != 0 {
			f.Until = start.Add(c.until)
		}
		got := w.claim(func(cl *ledger.Claim) { cl.Peek, cl.Filter = true, f })
		same(t, name, keysOf(got.Entries), c.want)
		es, err := w.Entries(w.ctx(), f, "", 0, false)
		if err != nil || len(es) != len(c.want) {
			t.Errorf("%s: the list has %v, %v; want %v", name, names(es), err, c.want)
		}
		if n, all, err := w.Count(w.ctx(), f); err != nil || n != len(c.want) || all != 3 {
			t.Errorf("%s: counted %d of %d, %v", name, n, all, err)
		}
	}
}

func claimStarvation(t *testing.T, w *world) {
	var es []ledger.Entry
	for i := range 30 {
		es = append(es, w.entry(fmt.Sprintf("hopeless%02d", i)))
	}
	w.putAll(es)
	w.clock.Add(time.Second)
	w.put(w.entry("young"))
	for pass := range 5 {
		got := w.claim(func(c *ledger.Claim) { c.Limit = 10 })
		var cs []ledger.Change
		for i, e := range got.Entries {
			if e.Entry.ActionKey == "young" {
				return
			}
			cs = append(cs, ledger.Change{Lease: got.Leases[i], Next: ledger.Wait(e.Entry, "not_visible", got.Now.Add(time.Minute))})
		}
		for _, a := range w.apply(cs...) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		w.clock.Add(time.Second)
		if pass == 4 {
			t.Error("the young entry was not reached in five passes")
		}
	}
}

func renewRelease(t *testing.T, w *world) {
	w.put(w.entry("k"))
	_, l := w.claimed()
	w.clock.Add(50 * time.Second)
	if lost, err := w.Renew(w.ctx(), []ledger.Lease{l}, time.Minute); err != nil || len(lost) != 0 {
		t.Fatalf("renew: lost %v, %v", lost, err)
	}
	w.clock.Add(50 * time.Second)
	if got := w.claim(); len(got.Entries) != 0 {
		t.Error("a renewed lease was taken")
	}
	stale := l
	stale.Token--
	if lost, err := w.Renew(w.ctx(), []ledger.Lease{stale, l}, time.Minute); err != nil || len(lost) != 1 || lost[0].Token != stale.Token {
		t.Errorf("renew: lost %v, %v", lost, err)
	}
	if err := w.Release(w.ctx(), []ledger.Lease{stale}); err != nil {
		t.Fatal(err)
	}
	if got := w.claim(); len(got.Entries) != 0 {
		t.Error("a stale holder released the lease")
	}
	before := w.get("k").Entry
	if err := w.Release(w.ctx(), []ledger.Lease{l}); err != nil {
		t.Fatal(err)
	}
	after := w.get("k").Entry
	before.LeaseHolder, before.LeaseUntil = "", time.Time{}
	same(t, "released", after, before)
	if out := w.apply(ledger.Change{Lease: l, Next: after}); !errors.Is(out[0].Err, ledger.ErrLeaseLost) {
		t.Errorf("applied after release: %v", out[0].Err)
	}
	if _, next := w.claimed(); next.Token != l.Token+1 {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
	if lost, err := w.Renew(w.ctx(), []ledger.Lease{l}, time.Minute); err != nil || len(lost) != 1 {
		t.Errorf("renew of a lease taken over: lost %v, %v", lost, err)
	}
}

// negative is evidence that counts.
func negative(at time.Time) ledger.Evidence {
	return ledger.Evidence{Finding: ledger.FindingAbsent, Connector: "crm", Form: "single", AskedAt: at, Counted: true, Version: "v", Detail: []byte(`{"none":true}`), Digest: "d"}
}

func applyWrites(t *testing.T, w *world) {
	w.put(w.entry("k"), ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
	w.clock.Add(time.Second)
	e, l := w.claimed()
	w.clock.Add(time.Second)
	now := w.clock.Now()
	next := ledger.Reopen(e.Entry, "absent: twice", now.Add(time.Minute))
	next.Effect, next.Negatives, next.LastNegativeAt = ledger.EffectNotDone, 2, now
	a := e.Attempts[0]
	a.Effect = ledger.EffectNotDone
	out := w.mustApply(ledger.Change{
		Lease: l, Next: next, Attempts: []ledger.Attempt{a}, Evidence: []ledger.Evidence{negative(now)},
		Note: "n", Detail: []byte(`{"v":1}`), PassID: "p1",
	})
	st := w.get("k")
	same(t, "answer", out.Entry, st.Entry)
	next.LastActivityAt, next.LeaseHolder, next.LeaseUntil, next.Class = now, "", time.Time{}, ledger.ReportWaiting
	same(t, "entry", st.Entry, next)
	if got := st.Attempts[0]; got.Effect != ledger.EffectNotDone || !got.EffectAt.Equal(now) || !got.ResultAt.Equal(now.Add(-2*time.Second)) {
		t.Errorf("attempt %+v", got)
	}
	if ev := w.evidence(st.Entry.ID); len(ev) != 1 || ev[0].PassID != "p1" || !ev[0].SeenAt.Equal(now) || !ev[0].Counted || ev[0].Void {
		t.Errorf("evidence %+v", ev)
	}
	h := w.history(st.Entry.ID)
	want := ledger.History{EntryID: st.Entry.ID, No: 2, At: now, From: ledger.StateAmbiguous, To: ledger.StateRetryable,
		Class: ledger.ReportWaiting, Reason: "absent: twice", Owner: "revops", Actor: "reconcile", Note: "n", Detail: []byte(`{"v":1}`), PassID: "p1"}
	same(t, "history", h[1], want)

	// The detail of a reason, and a new due time, are no history.
	w.clock.Add(time.Minute)
	e, l = w.claimed(advancing)
	w.mustApply(ledger.Change{Lease: l, Next: ledger.Wait(e.Entry, "absent: thrice", w.clock.Now().Add(time.Minute)), Void: true})
	if h := w.history(st.Entry.ID); len(h) != 2 {
		t.Errorf("%d rows of history, want 2", len(h))
	}
	if ev := w.evidence(st.Entry.ID); !ev[0].Void {
		t.Error("the negative is not void")
	}
	w.unbroken("k")
}

func applyStale(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, old := w.claimed()
	w.clock.Add(2 * time.Minute)
	e2, l := w.claimed(func(c *ledger.Claim) { c.Holder = "w2" })
	before := w.get("k").Entry
	now := w.clock.Now()
	late := ledger.Change{
		Lease: old, Next: ledger.Settle(e.Entry, ledger.OutcomeApplied, ledger.ByLook, "found", now),
		Attempts: []ledger.Attempt{{AttemptID: "late", Ours: true, Status: ledger.AttemptOK, Effect: ledger.EffectDone, RemoteID: "R"}},
		Evidence: []ledger.Evidence{negative(now)}, Void: true,
	}
	if out := w.apply(late); !errors.Is(out[0].Err, ledger.ErrLeaseLost) {
		t.Fatalf("a stale token: %v", out[0].Err)
	}
	st := w.get("k")
	same(t, "entry", st.Entry, before)
	if len(st.Attempts) != 1 || st.Attempts[0].RemoteID != "R" {
		t.Errorf("the late result was lost: %+v", st.Attempts)
	}
	if ev := w.evidence(st.Entry.ID); len(ev) != 1 || ev[0].Void {
		t.Errorf("the late finding was lost: %+v", ev)
	}
	if h := w.history(st.Entry.ID); len(h) != 1 {
		t.Errorf("%d rows of history, want 1", len(h))
	}
	w.apply(late) // told twice, stored once
	if st, ev := w.get("k"), w.evidence(st.Entry.ID); len(st.Attempts) != 1 || len(ev) != 1 {
		t.Errorf("told twice: %d attempts, %d evidence", len(st.Attempts), len(ev))
	}
	w.mustApply(ledger.Change{Lease: l, Next: ledger.Wait(e2.Entry, "not_visible", now.Add(time.Minute))})

	// The right token with another state is stale too.
	w.clock.Add(time.Minute)
	e, l = w.claimed()
	wrong := l
	wrong.State = ledger.StateInFlight
	if out := w.apply(ledger.Change{Lease: wrong, Next: ledger.Doubt(e.Entry, "x", now)}); !errors.Is(out[0].Err, ledger.ErrLeaseLost) {
		t.Errorf("another state: %v", out[0].Err)
	}
	gone := ledger.Lease{EntryID: 1 << 60, ActionKey: "gone", Token: 1, State: ledger.StateAmbiguous, Holder: "w1"}
	if out := w.apply(ledger.Change{Lease: gone, Next: e.Entry}); !errors.Is(out[0].Err, ledger.ErrNotFound) {
		t.Errorf("no such entry: %v", out[0].Err)
	}
}

func applyIllegal(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, l := w.claimed()
	before := w.get("k").Entry
	out := w.apply(ledger.Change{Lease: l, Next: ledger.Advance(e.Entry, "x", w.clock.Now().Add(time.Minute)), Evidence: []ledger.Evidence{negative(w.clock.Now())}})
	var te *ledger.TransitionError
	if !errors.As(out[0].Err, &te) || te.From != ledger.StateAmbiguous || te.To != ledger.StateReady || te.ActionKey != "k" {
		t.Fatalf("an illegal change: %v", out[0].Err)
	}
	same(t, "entry", w.get("k").Entry, before)
	if h := w.history(before.ID); len(h) != 1 {
		t.Errorf("%d rows of history, want 1", len(h))
	}
	if ev := w.evidence(before.ID); len(ev) != 1 {
		t.Error("the finding was lost")
	}
	half := e.Entry
	half.State = ledger.StateSettled
	if out := w.apply(ledger.Change{Lease: l, Next: half}); out[0].Err == nil {
		t.Error("a half-filled entry was written")
	}
}

func applyMixed(t *testing.T, w *world) {
	w.put(w.entry("taken"))
	for i := range 4 {
		w.put(w.entry(fmt.Sprintf("k%d", i)))
	}
	got := w.claim(func(c *ledger.Claim) { c.Filter.ActionKeys = []string{"k0", "k1", "k2", "k3"} })
	now := w.clock.Now()
	var cs []ledger.Change
	for i, e := range got.Entries {
		cs = append(cs, ledger.Change{Lease: got.Leases[i], Next: ledger.Reopen(e.Entry, "absent", now)})
	}
	cs[0].Lease.Token = 77
	cs[2].Next = ledger.Advance(cs[2].Next, "x", now)
	cs[3].Next.ProviderKey = "taken" // fixed at first write
	out := w.apply(cs...)
	if !errors.Is(out[0].Err, ledger.ErrLeaseLost) || out[1].Err != nil || out[2].Err == nil || out[3].Err != nil {
		t.Errorf("results %v, %v, %v, %v", out[0].Err, out[1].Err, out[2].Err, out[3].Err)
	}
	for i, want := range []ledger.State{ledger.StateAmbiguous, ledger.StateRetryable, ledger.StateAmbiguous, ledger.StateRetryable} {
		key := fmt.Sprintf("k%d", i)
		if e := w.get(key).Entry; e.State != want || e.ProviderKey != key {
			t.Errorf("%s is %s under the key %q, want %s under its own", key, e.State, e.ProviderKey, want)
		}
		w.unbroken(key)
	}
}

func applyKeep(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, l := w.claimed()
	out := w.mustApply(ledger.Change{Lease: l, Next: ledger.Reopen(e.Entry, "absent", w.clock.Now()), Keep: true})
	want := l
	want.State = ledger.StateRetryable
	same(t, "lease", out.Lease, want)
	if got := w.claim(advancing); len(got.Entries) != 0 {
		t.Error("a kept lease was taken")
	}
	out = w.mustApply(ledger.Change{Lease: out.Lease, Next: ledger.Advance(out.Entry, "ok", w.clock.Now().Add(time.Minute))})
	same(t, "lease", out.Lease, ledger.Lease{})
	if e := w.get("k").Entry; e.LeaseHolder != "" || !e.LeaseUntil.IsZero() {
		t.Errorf("the lease did not end: %q, %v", e.LeaseHolder, e.LeaseUntil)
	}
	w.unbroken("k")
}

func applyTwice(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, l := w.claimed()
	l2 := l
	l2.State = ledger.StateRetryable
	first := ledger.Reopen(e.Entry, "absent", w.clock.Now())
	out := w.apply(
		ledger.Change{Lease: l, Next: first, Keep: true},
		ledger.Change{Lease: l2, Next: ledger.Advance(first, "ok", w.clock.Now().Add(time.Minute))})
	if out[0].Err != nil || out[1].Err != nil || w.get("k").Entry.State != ledger.StateReady || len(w.history(e.Entry.ID)) != 3 {
		t.Errorf("results %v, %v; %s, %d rows of history", out[0].Err, out[1].Err, w.get("k").Entry.State, len(w.history(e.Entry.ID)))
	}
	w.unbroken("k")
}

func applyDoneStays(t *testing.T, w *world) {
	done := ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptOK, Effect: ledger.EffectDone, RemoteID: "R"}
	w.put(w.entry("k"), done)
	e, l := w.claimed()
	w.mustApply(ledger.Change{Lease: l, Next: ledger.Wait(e.Entry, "x", w.clock.Now().Add(time.Minute)), Attempts: []ledger.Attempt{
		{AttemptID: "a1", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown},
		{AttemptID: "a2", Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, Ours: true},
	}})
	st := w.get("k")
	if len(st.Attempts) != 2 || st.Attempts[0].Effect != ledger.EffectDone || st.Attempts[0].RemoteID != "R" || st.Attempts[1].No != 2 {
		t.Errorf("attempts %+v", st.Attempts)
	}
	if !st.Attempts[1].ResultAt.IsZero() {
		t.Error("an attempt that only started has a result")
	}
}

// applyCut: whatever moment a transaction is cut at, state and history agree.
func applyCut(t *testing.T, w *world) {
	w.put(w.entry("k"))
	e, l := w.claimed()
	for i := range 20 {
		ctx, cancel := context.WithTimeout(w.ctx(), time.Duration(i*i)*20*time.Microsecond)
		out, err := w.Apply(ctx, []ledger.Change{{Lease: l, Next: ledger.Reopen(e.Entry, "absent", w.clock.Now()), Keep: true}})
		cancel()
		if err != nil && !errors.Is(err, ledger.ErrInterrupted) {
			t.Fatalf("cut: %v", err)
		}
		st := w.get("k").Entry
		if err == nil && out[0].Err == nil && st.State != ledger.StateRetryable {
			t.Fatalf("applied, but it is %s", st.State)
		}
		w.unbroken("k")
		if st.State == ledger.StateRetryable {
			return
		}
	}
}

func startWrites(t *testing.T, w *world) {
	e, l := w.ready("k", func(e *ledger.Entry) { e.OutcomeKey = "lead:1"; e.LooksAnswered = 1 })
	w.clock.Add(time.Second)
	now := w.clock.Now()
	out := w.mustStart(w, w.start(e, l))
	if out.Refused != "" {
		t.Fatalf("refused: %s", out.Refused)
	}
	st := w.get("k")
	same(t, "answer", out.Entry, st.Entry)
	s := st.Entry
	if s.State != ledger.StateInFlight || s.Work != ledger.WorkLook || !s.SendBy.Equal(now.Add(20*time.Second)) || !s.LeaseUntil.Equal(now.Add(time.Minute)) ||
		!s.NextAt.Equal(now.Add(time.Minute)) || !s.LastTriedAt.Equal(now) || !s.FirstSentAt.Equal(now) || !s.KeySentAt.Equal(now) || s.FencingToken != l.Token {
		t.Errorf("entry %+v", s)
	}
	a := st.Attempts[0]
	if len(st.Attempts) != 1 || a.Status != ledger.AttemptStarted || a.Effect != ledger.EffectUnknown || !a.StartedAt.Equal(now) ||
		!a.SendBy.Equal(now.Add(20*time.Second)) || a.Key != "k" || !a.Ours || !a.ResultAt.IsZero() || !out.SendBy.Equal(a.SendBy) || !out.StartedAt.Equal(now) {
		t.Errorf("attempt %+v", st.Attempts)
	}
	h := w.history(s.ID)
	if last := h[len(h)-1]; last.From != ledger.StateReady || last.To != ledger.StateInFlight || last.PassID != "p1" || last.Class != ledger.ReportWaiting {
		t.Errorf("history %+v", last)
	}
	// The holder goes on with the lease it got.
	done := ledger.Settle(s, ledger.OutcomeApplied, ledger.BySend, "sent", now)
	done.Effect = ledger.EffectDone
	a.Status, a.Effect = ledger.AttemptOK, ledger.EffectDone
	w.mustApply(ledger.Change{Lease: out.Lease, Next: done, Attempts: []ledger.Attempt{a}})
	if got := w.get("k"); got.Entry.Class != ledger.ReportFirstAttemptSuccess || got.Attempts[0].Status != ledger.AttemptOK || !got.Attempts[0].ResultAt.Equal(now) {
		t.Errorf("settled %+v", got)
	}
	w.unbroken("k")

	// Handed over: somebody else sends, and promises nothing.
	e, l = w.ready("handed over")
	out = w.mustStart(w, w.start(e, l, func(s *ledger.Start) { s.Timeout, s.Concurrent, s.Attempt.Ours = 0, 0, false }))
	if got := w.get("handed over"); out.Refused != "" || !got.Entry.SendBy.IsZero() || !got.Attempts[0].SendBy.IsZero() || got.Attempts[0].Ours {
		t.Errorf("%q, %+v", out.Refused, got)
	}
}

func startRefused(t *testing.T, w *world) {
	for name, c := range map[string]struct {
		before func(e ledger.Entry, l *ledger.Lease)
		edit   func(*ledger.Start)
		want   string
	}{
		"stale token":          {edit: func(s *ledger.Start) { s.Lease.Token-- }, want: "lease_lost"},
		"another holder":       {edit: func(s *ledger.Start) { s.Lease.Holder = "w9" }, want: "lease_lost"},
		"no such entry":        {edit: func(s *ledger.Start) { s.Lease.EntryID = 1 << 60 }, want: "lease_lost"},
		"lease expired":        {before: func(ledger.Entry, *ledger.Lease) { w.clock.Add(61 * time.Second) }, want: "lease_lost"},
		"another generation":   {edit: func(s *ledger.Start) { s.Generation += 5 }, want: "generation"},
		"the ledger is held":   {before: func(ledger.Entry, *ledger.Lease) { w.hold("", true) }, want: "held"},
		"the lane is held":     {before: func(e ledger.Entry, _ *ledger.Lease) { w.hold(e.Lane, true) }, want: "held"},
		"not held any more":    {before: func(e ledger.Entry, _ *ledger.Lease) { w.hold(e.Lane, true); w.hold(e.Lane, false) }, want: ""},
		"another lane is held": {before: func(e ledger.Entry, _ *ledger.Lease) { w.hold("x"+e.Lane, true) }, want: ""},
		"clearance lapsed": {before: func(e ledger.Entry, l *ledger.Lease) {
			if _, err := w.Renew(w.ctx(), []ledger.Lease{*l}, time.Hour); err != nil {
				t.Fatal(err)
			}
			w.clock.Add(60 * time.Second)
		}, want: "clearance_lapsed"},
		"given back": {before: func(e ledger.Entry, l *ledger.Lease) {
			if err := w.Release(w.ctx(), []ledger.Lease{*l}); err != nil {
				t.Fatal(err)
			}
		}, want: "lease_lost"},
	} {
		e, l := w.ready("k " + name)
		if c.before != nil {
			c.before(e, &l)
		}
		st := w.start(e, l)
		if c.edit != nil {
			c.edit(&st)
		}
		before := w.get(e.ActionKey)
		out := w.mustStart(w, st)
		if out.Refused != c.want {
			t.Errorf("%s: refused %q, want %q", name, out.Refused, c.want)
		}
		if c.want != "" {
			same(t, name, w.get(e.ActionKey), before)
		}
		w.unbroken(e.ActionKey)
		w.hold("", false)
	}
	e, l := w.ready("illegal")
	st := w.start(e, l)
	st.Next = e
	var te *ledger.TransitionError
	if _, err := w.Start(w.ctx(), st); !errors.As(err, &te) {
		t.Errorf("a start that begins nothing: %v", err)
	}
	// Started once, it cannot be started again under the lease from before.
	if out := w.mustStart(w, w.start(e, l)); out.Refused != "" {
		t.Fatal(out.Refused)
	}
	if out := w.mustStart(w, w.start(e, l)); out.Refused != "lease_lost" {
		t.Errorf("started twice: %q", out.Refused)
	}
}

func (w *world) hold(lane string, on bool) {
	w.t.Helper()
	if err := w.Hold(w.ctx(), lane, on, "ada"); err != nil {
		w.t.Fatal(err)
	}
}

func startOutcomeKey(t *testing.T, w *world) {
	const rivals = 4
	for round := range 5 {
		key := fmt.Sprintf("lead:%d", round)
		starts := make([]ledger.Start, rivals)
		for i := range starts {
			e, l := w.ready(fmt.Sprintf("k%d-%d", round, i), func(e *ledger.Entry) { e.OutcomeKey = key })
			starts[i] = w.start(e, l)
		}
		outs := make([]ledger.Started, rivals)
		var wg sync.WaitGroup
		for i := range starts {
			s := w.another()
			wg.Go(func() {
				var err error
				if outs[i], err = s.Start(w.ctx(), starts[i]); err != nil {
					t.Errorf("start: %v", err)
				}
			})
		}
		wg.Wait()
		started := 0
		for i, o := range outs {
			switch o.Refused {
			case "":
				started++
				sib, err := w.Siblings(w.ctx(), []int64{starts[(i+1)%rivals].Lease.EntryID})
				if err != nil {
					t.Fatal(err)
				}
				if s := sib[starts[(i+1)%rivals].Lease.EntryID]; len(s) != rivals-1 || !s[0].Holder || s[0].ActionKey != starts[i].Lease.ActionKey {
					t.Errorf("siblings %+v, want the holder first", s)
				}
			case "outcome_key_held":
			default:
				t.Errorf("refused %q", o.Refused)
			}
		}
		if started != 1 {
			t.Fatalf("%d siblings were started, want 1", started)
		}
	}

	// The key is free again once its holder is known to be not done, and held
	// for good once it is applied.
	e, l := w.ready("first", func(e *ledger.Entry) { e.OutcomeKey = "lead" })
	out := w.mustStart(w, w.start(e, l))
	other, l2 := w.ready("other", func(e *ledger.Entry) { e.OutcomeKey = "lead" })
	if got := w.mustStart(w, w.start(other, l2)); got.Refused != "outcome_key_held" {
		t.Fatalf("holder in flight: %q", got.Refused)
	}
	esc := ledger.Escalate(out.Entry, ledger.Escalation{Owner: "ada", Due: w.clock.Now().Add(time.Hour)}, "mismatch")
	kept := w.mustApply(ledger.Change{Lease: out.Lease, Next: esc, Keep: true})
	if got := w.mustStart(w, w.start(other, l2)); got.Refused != "outcome_key_held" {
		t.Fatalf("holder escalated and unknown: %q", got.Refused)
	}
	notDone := ledger.Reopen(kept.Entry, "rejected", w.clock.Now())
	notDone.Effect = ledger.EffectNotDone
	w.mustApply(ledger.Change{Lease: kept.Lease, Next: notDone})
	started := w.mustStart(w, w.start(other, l2))
	if started.Refused != "" {
		t.Fatalf("holder not done: %q", started.Refused)
	}
	done := ledger.Settle(started.Entry, ledger.OutcomeApplied, ledger.BySend, "sent", w.clock.Now())
	done.Effect = ledger.EffectDone
	w.mustApply(ledger.Change{Lease: started.Lease, Next: done})
	third, l3 := w.ready("third", func(e *ledger.Entry) { e.OutcomeKey = "lead" })
	if got := w.mustStart(w, w.start(third, l3)); got.Refused != "outcome_key_held" {
		t.Errorf("holder applied: %q", got.Refused)
	}
}

func startConcurrent(t *testing.T, w *world) {
	const rivals = 5
	one := func(e *ledger.Entry) { e.Lane = "narrow" }
	starts := make([]ledger.Start, rivals)
	for i := range starts {
		e, l := w.ready(fmt.Sprintf("k%d", i), one)
		starts[i] = w.start(e, l)
	}
	outs := make([]ledger.Started, rivals)
	var wg sync.WaitGroup
	for i := range starts {
		s := w.another()
		wg.Go(func() {
			var err error
			if outs[i], err = s.Start(w.ctx(), starts[i]); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
	wg.Wait()
	var begun []ledger.Started
	var refused []ledger.Start
	for i, o := range outs {
		if o.Refused == "" {
			begun = append(begun, o)
		} else if o.Refused != "concurrent" {
			t.Errorf("refused %q", o.Refused)
		} else {
			refused = append(refused, starts[i])
		}
	}
	if len(begun) != 2 {
		t.Fatalf("%d marks in a lane for 2", len(begun))
	}
	w.mustApply(ledger.Change{Lease: begun[0].Lease, Next: ledger.Doubt(begun[0].Entry, "timeout", w.clock.Now())})
	if out := w.mustStart(w, refused[0]); out.Refused != "" {
		t.Errorf("after one ended: %q", out.Refused)
	}
	if out := w.mustStart(w, refused[1]); out.Refused != "concurrent" {
		t.Errorf("full again: %q", out.Refused)
	}
	w.clock.Add(21 * time.Second) // the calls under way have ended by themselves
	if out := w.mustStart(w, refused[1]); out.Refused != "" {
		t.Errorf("after their send_by: %q", out.Refused)
	}
}

func startAfterReport(t *testing.T, w *world) {
	e, l := w.ready("ours", func(e *ledger.Entry) { e.OutcomeKey = "lead" })
	w.put(w.entry("theirs", func(e *ledger.Entry) { e.OutcomeKey = "lead" }), ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
	if out := w.mustStart(w, w.start(e, l)); out.Refused != "outcome_key_held" {
		t.Errorf("a sibling's attempt was reported: %q", out.Refused)
	}
	sib, err := w.Siblings(w.ctx(), []int64{e.ID})
	if err != nil || len(sib[e.ID]) != 1 || !sib[e.ID][0].Holder || sib[e.ID][0].Kind != ledger.SiblingOutcome {
		t.Errorf("siblings %+v, %v", sib, err)
	}
}
