package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

func siblings(t *testing.T, w *world) {
	now := w.clock.Now()
	alike := func(e *ledger.Entry) { e.RecordID, e.PayloadDigest = "form-1", "d1" }
	applied := as(func(e ledger.Entry) ledger.Entry {
		e.Effect = ledger.EffectDone
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByLook, "found", now.Add(time.Second))
	})
	// Settled before the others came: it happened, and this is another time.
	w.put(w.entry("long ago", alike, as(func(e ledger.Entry) ledger.Entry {
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByReport, "reported", now.Add(-time.Hour))
	})))
	first := w.put(w.entry("1 open", alike, retryable(now)))
	second := w.put(w.entry("2 open", alike, retryable(now)))
	third := w.put(w.entry("3 applied", alike, applied, func(e *ledger.Entry) { e.RemoteID = "R" }))
	other := w.put(w.entry("4 other content", func(e *ledger.Entry) { e.RecordID, e.PayloadDigest = "form-1", "d2" }, retryable(now)))
	apart := w.put(w.entry("5 other operation", alike, retryable(now), func(e *ledger.Entry) { e.Operation = "contact.delete" }))
	keyed := w.put(w.entry("6 keyed", alike, retryable(now), func(e *ledger.Entry) { e.OutcomeKey = "o"; e.RecordID = "form-2" }))
	var got map[int64][]ledger.Sibling
	read := func() {
		var err error
		if got, err = w.Siblings(w.ctx(), []int64{first.ID, second.ID, third.ID, other.ID, apart.ID, keyed.ID}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(id int64) []string {
		var out []string
		for _, s := range got[id] {
			out = append(out, fmt.Sprintf("%s %s %s", s.Kind, s.ActionKey, s.Outcome))
		}
		sort.Strings(out)
		return out
	}
	read()
	same(t, "first, while nothing says that changes are ordered", list(first.ID), []string{"look_alike 3 applied applied"})
	if err := w.SetMeta(w.ctx(), ledger.MetaOrder("crm", "contact.create"), "60000000"); err != nil {
		t.Fatal(err)
	}
	read()
	same(t, "first", list(first.ID), []string{"look_alike 3 applied applied", "record 3 applied applied"})
	same(t, "second", list(second.ID), []string{"look_alike 1 open ", "look_alike 3 applied applied", "record 3 applied applied"})
	same(t, "third", list(third.ID), []string{"look_alike 1 open "})
	same(t, "other content", list(other.ID), nil)
	same(t, "other operation", list(apart.ID), nil)
	same(t, "with outcome key", list(keyed.ID), nil)
	for _, s := range got[first.ID] {
		if s.RemoteID != "R" || s.Effect != ledger.EffectDone || !s.SettledAt.Equal(now.Add(time.Second)) {
			t.Errorf("sibling %+v", s)
		}
	}
	if none, err := w.Siblings(w.ctx(), nil); err != nil || len(none) != 0 {
		t.Errorf("of nothing: %v, %v", none, err)
	}
}

func control(t *testing.T, w *world) {
	now := w.clock.Now()
	settled := func(by ledger.SettledBy, o ledger.Outcome, at time.Time) func(*ledger.Entry) {
		return as(func(e ledger.Entry) ledger.Entry { return ledger.Settle(e, o, by, "x", at) })
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	w.put(w.entry("old", settled(ledger.ByLook, ledger.OutcomeApplied, ago(3*time.Hour))))
	w.put(w.entry("young", settled(ledger.BySend, ledger.OutcomeApplied, ago(2*time.Hour))))
	w.put(w.entry("too young", settled(ledger.ByLook, ledger.OutcomeApplied, ago(time.Minute))))
	w.put(w.entry("not applied", settled(ledger.ByCheck, ledger.OutcomeNotApplied, ago(time.Hour))))
	w.put(w.entry("a person's word", settled(ledger.ByPerson, ledger.OutcomeApplied, ago(time.Hour))))
	w.put(w.entry("reversed", settled(ledger.ByLook, ledger.OutcomeApplied, ago(time.Hour)), func(e *ledger.Entry) { *e = e.WithFlag(ledger.FlagReversed) }))
	w.put(w.entry("other", settled(ledger.ByLook, ledger.OutcomeApplied, ago(time.Hour)), func(e *ledger.Entry) { e.Operation = "x" }))
	e, found, err := w.Control(w.ctx(), "crm", "contact.create", ago(30*time.Minute))
	if err != nil || !found || e.ActionKey != "young" {
		t.Errorf("control %q, %v, %v", e.ActionKey, found, err)
	}
	if _, found, err := w.Control(w.ctx(), "crm", "contact.create", ago(4*time.Hour)); err != nil || found {
		t.Errorf("nothing old enough: %v, %v", found, err)
	}
}

func due(t *testing.T, w *world) {
	start := w.clock.Now()
	for i := range 3 {
		w.put(w.entry(fmt.Sprintf("old%d", i), func(e *ledger.Entry) { e.NextAt = start.Add(time.Duration(i) * time.Second) }))
	}
	w.clock.Add(10 * time.Hour)
	now := w.clock.Now()
	for i := range 4 {
		w.put(w.entry(fmt.Sprintf("young%d", i)))
	}
	w.put(w.entry("elsewhere", func(e *ledger.Entry) { e.Lane, e.Workflow = "billing", "invoices" }))
	w.put(w.entry("advance", retryable(now)))
	w.put(w.entry("not yet", func(e *ledger.Entry) { e.NextAt = now.Add(time.Hour) }))
	w.claim(func(c *ledger.Claim) { c.Limit, c.Filter.ActionKeys = 1, []string{"young2"} })
	get := func(f ledger.Filter) []ledger.Due {
		t.Helper()
		ds, err := w.Due(w.ctx(), f)
		if err != nil {
			t.Fatal(err)
		}
		return ds
	}
	same(t, "all", get(ledger.Filter{}), []ledger.Due{
		{Lane: "billing", Work: ledger.WorkLook, Count: 1}, {Lane: lane, Work: ledger.WorkAdvance, Count: 1}, {Lane: lane, Work: ledger.WorkLook, Count: 6, Leased: 1}})
	same(t, "window", get(ledger.Filter{Since: now.Add(-time.Hour), Connector: "crm", Workflow: "lead-intake"}), []ledger.Due{
		{Lane: lane, Work: ledger.WorkAdvance, Count: 1}, {Lane: lane, Work: ledger.WorkLook, Count: 3, Leased: 1, Outside: 3, OldestAt: start}})
	same(t, "nothing", get(ledger.Filter{Workflow: "none"}), nil)
}

func overdue(t *testing.T, w *world) {
	now := w.clock.Now()
	esc := func(due time.Time) func(*ledger.Entry) {
		return as(func(e ledger.Entry) ledger.Entry {
			return ledger.Escalate(e, ledger.Escalation{Owner: "revops", Due: due}, "mismatch")
		})
	}
	w.put(w.entry("b", esc(now.Add(-time.Minute))), ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
	w.put(w.entry("a", esc(now.Add(-time.Minute))))
	w.put(w.entry("c", esc(now.Add(-time.Hour))))
	w.put(w.entry("later", esc(now.Add(time.Minute))))
	w.put(w.entry("open"))
	got, err := w.Overdue(w.ctx(), ledger.Filter{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "longest first", keysOf(got), []string{"c", "a"})
	got, err = w.Overdue(w.ctx(), ledger.Filter{Owner: "revops", ActionKeys: []string{"b"}}, 0)
	if err != nil || len(got) != 1 || len(got[0].Attempts) != 1 {
		t.Errorf("filtered: %v, %v", keysOf(got), err)
	}
	if got, err := w.Overdue(w.ctx(), ledger.Filter{Owner: "x"}, 0); err != nil || len(got) != 0 {
		t.Errorf("another owner: %v, %v", keysOf(got), err)
	}
}

func entries(t *testing.T, w *world) {
	now := w.clock.Now()
	for i := range 9 {
		w.put(w.entry(fmt.Sprintf("k%d", i), func(e *ledger.Entry) { e.Payload = []byte(`{"a":1}`) }))
	}
	w.put(w.entry("x flagged", func(e *ledger.Entry) { *e = e.WithFlag(ledger.FlagConflict); e.Reason = "found: twice" }))
	w.put(w.entry("x reason", func(e *ledger.Entry) { e.Reason = "foundling" }))
	w.put(w.entry("x retry", retryable(now), func(e *ledger.Entry) {
		e.Workflow, e.Connector, e.Operation, e.Owner, e.Lane = "w", "c", "o", "own", "l"
	}))
	w.put(w.entry("x deferred", as(func(e ledger.Entry) ledger.Entry {
		return ledger.Defer(e, ledger.Release{Kind: "time", At: now.Add(time.Hour)}, "snoozed")
	})))
	for name, c := range map[string]struct {
		f    ledger.Filter
		want []string
	}{
		"workflow":             {ledger.Filter{Workflow: "w"}, []string{"x retry"}},
		"connector":            {ledger.Filter{Connector: "c"}, []string{"x retry"}},
		"operation":            {ledger.Filter{Operation: "o"}, []string{"x retry"}},
		"owner":                {ledger.Filter{Owner: "own"}, []string{"x retry"}},
		"lane":                 {ledger.Filter{Lane: "l"}, []string{"x retry"}},
		"state":                {ledger.Filter{State: ledger.StateRetryable}, []string{"x retry"}},
		"class":                {ledger.Filter{Class: ledger.ReportDeferred}, []string{"x deferred"}},
		"flagged":              {ledger.Filter{Flagged: true}, []string{"x flagged"}},
		"code of the reason":   {ledger.Filter{Reason: "found"}, []string{"x flagged"}},
		"keys":                 {ledger.Filter{ActionKeys: []string{"k1", "none", "k3"}}, []string{"k1", "k3"}},
		"two that never agree": {ledger.Filter{Flagged: true, Owner: "own"}, nil},
	} {
		es, err := w.Entries(w.ctx(), c.f, "", 0, true)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, names(es), c.want)
	}

	var got []string
	after := ""
	for page := 0; ; page++ {
		es, err := w.Entries(w.ctx(), ledger.Filter{Workflow: "lead-intake", State: ledger.StateAmbiguous}, after, 4, page == 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(es) == 0 {
			break
		}
		if has := es[0].Payload != nil; page == 0 && !has || page > 0 && has {
			t.Errorf("page %d: payload %q", page, es[0].Payload)
		}
		got, after = append(got, names(es)...), es[len(es)-1].ActionKey
		w.put(w.entry(fmt.Sprintf("a%d", page))) // behind us: not seen, and nothing is seen twice
	}
	same(t, "pages", got, []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "x flagged", "x reason"})
}

func lanes(t *testing.T, w *world) {
	fresh, err := w.Lane(w.ctx(), "crm")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "never used", fresh, ledger.Lane{Name: "crm", LagFactor: 1})
	now := w.clock.Now()
	got, err := w.SaveLane(w.ctx(), "crm", func(l ledger.Lane, at time.Time) ledger.Lane {
		same(t, "before", l, fresh)
		if !at.Equal(now) {
			t.Errorf("now %v, want %v", at, now)
		}
		l.PausedUntil, l.PausedSince, l.PauseReason = at.Add(time.Minute), at, "quota"
		l.PausedTotal, l.PauseStep, l.FailedInRow, l.LagFactor = time.Hour, 5*time.Second, 3, 2
		return l
	})
	if err != nil {
		t.Fatal(err)
	}
	read, err := w.Lane(w.ctx(), "crm")
	if err != nil || read.PausedTotal != time.Hour || read.LagFactor != 2 || !read.PausedUntil.Equal(now.Add(time.Minute)) {
		t.Errorf("stored %+v, %v", read, err)
	}
	same(t, "answer", got, read)
	w.hold("crm", true)
	w.hold("billing", true)
	ls, err := w.Lanes(w.ctx())
	if err != nil || len(ls) != 2 || ls[0].Name != "billing" || !ls[1].Held || ls[1].HeldBy != "ada" || ls[1].PauseReason != "quota" {
		t.Errorf("lanes %+v, %v", ls, err)
	}
	w.hold("crm", false)
	if l, err := w.Lane(w.ctx(), "crm"); err != nil || l.Held || l.HeldBy != "" {
		t.Errorf("resumed %+v, %v", l, err)
	}
	w.hold("", true)
	if by, err := w.Meta(w.ctx(), ledger.MetaHeld); err != nil || by != "ada" {
		t.Errorf("held by %q, %v", by, err)
	}

	var wg sync.WaitGroup
	for range 4 {
		s := w.another()
		wg.Go(func() {
			for range 5 {
				if _, err := s.SaveLane(w.ctx(), "counted", func(l ledger.Lane, _ time.Time) ledger.Lane { l.FailedInRow++; return l }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if l, err := w.Lane(w.ctx(), "counted"); err != nil || l.FailedInRow != 20 {
		t.Errorf("20 changes at once made %d, %v", l.FailedInRow, err)
	}
}

func reserve(t *testing.T, w *world) {
	stores := []ledger.Store{w, w.another()}
	const every = 200 * time.Millisecond
	start := w.clock.Now()
	var at []time.Time
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				from, now, err := stores[i%2].Reserve(w.ctx(), "crm", "calls", 1, 1, every)
				if err != nil || !now.Equal(start) {
					t.Errorf("reserve: %v, %v", now, err)
				}
				mu.Lock()
				at = append(at, from)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sort.Slice(at, func(i, j int) bool { return at[i].Before(at[j]) })
	for i, a := range at {
		if want := start.Add(time.Duration(i) * every); !a.Equal(want) {
			t.Fatalf("call %d may go at %v, want %v", i, a.Sub(start), want.Sub(start))
		}
	}
	if from, _, err := w.Reserve(w.ctx(), "crm", "other", 3, 1, every); err != nil || !from.Equal(start) {
		t.Errorf("another bucket: %v, %v", from, err)
	}
	if from, _, err := w.Reserve(w.ctx(), "crm", "other", 1, 1, every); err != nil || !from.Equal(start.Add(3*every)) {
		t.Errorf("after three at once: %v, %v", from.Sub(start), err)
	}
}

func reserveBurst(t *testing.T, w *world) {
	const every = time.Second
	start := w.clock.Now()
	var got []time.Duration
	for range 5 {
		from, _, err := w.Reserve(w.ctx(), "crm", "calls", 1, 3, every)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, from.Sub(start))
	}
	same(t, "after a silence", got, []time.Duration{0, 0, 0, every, 2 * every})
	w.clock.Add(time.Hour)
	if from, now, err := w.Reserve(w.ctx(), "crm", "calls", 1, 3, every); err != nil || !from.Equal(now) {
		t.Errorf("after another: %v, %v", from.Sub(now), err)
	}
}

func unsettle(t *testing.T, w *world) {
	now := w.clock.Now()
	w.put(w.entry("unknown", func(e *ledger.Entry) {
		e.Negatives, e.LastNegativeAt, e.SendBy, e.LastLookAt = 1, now, now.Add(-time.Hour), now
	}))
	w.put(w.entry("not done", retryable(now)))
	w.put(w.entry("settled", as(func(e ledger.Entry) ledger.Entry {
		e.Negatives = 2
		return ledger.Settle(e, ledger.OutcomeNotApplied, ledger.ByPolicy, "x", now)
	})))
	e, l := w.claimed()
	w.mustApply(ledger.Change{Lease: l, Next: ledger.Wait(e.Entry, "absent", now), Evidence: []ledger.Evidence{negative(now)}})
	_, l = w.claimed()
	settled := w.get("settled")
	w.clock.Add(time.Hour)
	n, err := w.Unsettle(w.ctx(), "the clock stepped by 1h", false, 0)
	if err != nil || n != 2 {
		t.Fatalf("unsettled %d, %v; want 2", n, err)
	}
	u := w.get("unknown").Entry
	if u.Negatives != 0 || !u.LastNegativeAt.IsZero() || !u.SendBy.Equal(w.clock.Now()) || !u.LastLookAt.IsZero() || u.State != ledger.StateAmbiguous || u.FencingToken != l.Token {
		t.Errorf("unknown %+v", u)
	}
	if ev := w.evidence(u.ID); len(ev) != 1 || !ev[0].Void {
		t.Errorf("evidence %+v", ev)
	}
	if h := w.history(u.ID); h[len(h)-1].Note != "the clock stepped by 1h" {
		t.Errorf("history %+v", h)
	}
	if nd := w.get("not done").Entry; !nd.SendBy.IsZero() {
		t.Errorf("a quiet period began for what was never sent: %v", nd.SendBy)
	}
	same(t, "settled", w.get("settled"), settled)
	w.unbroken("unknown")
}

func unsettleGeneration(t *testing.T, w *world) {
	now := w.clock.Now()
	w.put(w.entry("ambiguous", func(e *ledger.Entry) { e.Negatives = 1 }))
	w.put(w.entry("retryable", retryable(now)))
	w.put(w.entry("later", retryable(now.Add(time.Hour))))
	w.put(w.entry("escalated", as(func(e ledger.Entry) ledger.Entry {
		return ledger.Escalate(e, ledger.Escalation{Owner: "ada", Due: now.Add(time.Hour), Look: now}, "mismatch")
	})))
	w.put(w.entry("deferred", as(func(e ledger.Entry) ledger.Entry {
		e.Effect = ledger.EffectNotDone
		return ledger.Defer(ledger.Reopen(e, "x", now), ledger.Release{Kind: "lane", Ref: lane, At: now.Add(time.Hour), Poll: now}, "source")
	})))
	w.put(w.entry("settled", as(func(e ledger.Entry) ledger.Entry {
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByLook, "x", now)
	})))
	e, l := w.ready("ready")
	settled, later := w.get("settled"), w.get("later")
	generation, err := w.Meta(w.ctx(), ledger.MetaGeneration)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Unsettle(w.ctx(), "restored from a backup", true, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if g, err := w.Meta(w.ctx(), ledger.MetaGeneration); err != nil || g == generation {
		t.Errorf("generation %q after %q, %v", g, generation, err)
	}
	for key, want := range map[string]ledger.State{
		"ambiguous": ledger.StateAmbiguous, "retryable": ledger.StateAmbiguous, "ready": ledger.StateAmbiguous,
		"deferred": ledger.StateAmbiguous, "escalated": ledger.StateEscalated,
	} {
		st := w.get(key)
		g := st.Entry
		if g.State != want || g.Effect != ledger.EffectUnknown || g.Work != ledger.WorkLook || !g.NextAt.Equal(now) ||
			!g.SendBy.Equal(now.Add(20*time.Second)) || !g.SettleFrom.Equal(now) || g.Negatives != 0 || g.Class != ledger.ClassOf(g) {
			t.Errorf("%s: %+v", key, g)
		}
		if ledger.EffectOf(st.Attempts) != ledger.EffectUnknown || len(st.Attempts) != g.Attempts {
			t.Errorf("%s: attempts %+v", key, st.Attempts)
		}
		w.unbroken(key)
	}
	same(t, "settled", w.get("settled"), settled)
	l8r := w.get("later").Entry
	if l8r.State != ledger.StateRetryable || l8r.FencingToken <= later.Entry.FencingToken {
		t.Errorf("later: %+v", l8r)
	}
	if out := w.mustStart(w, w.start(e, l)); out.Refused == "" {
		t.Error("a claim of the old generation started")
	}
	if out := w.apply(ledger.Change{Lease: l, Next: e}); out[0].Err == nil {
		t.Error("a claim of the old generation wrote")
	}
	if got := w.get("ready").Entry; got.FencingToken < l.Token+1000 {
		t.Errorf("token %d after %d: a lost claim may find its number again", got.FencingToken, l.Token)
	}
}

func alerts(t *testing.T, w *world) {
	other := w.another()
	step := func(s ledger.Store, want bool) {
		t.Helper()
		if opened, err := s.Alert(w.ctx(), "lane:crm", "the lane is paused"); err != nil || opened != want {
			t.Errorf("opened %v, %v; want %v", opened, err, want)
		}
	}
	step(w, true)
	step(other, false)
	if err := w.Calm(w.ctx(), "lane:crm"); err != nil {
		t.Fatal(err)
	}
	if err := w.Calm(w.ctx(), "never opened"); err != nil {
		t.Fatal(err)
	}
	step(other, true)
	step(w, false)
}

func meta(t *testing.T, w *world) {
	get := func(want string) {
		t.Helper()
		if v, err := w.Meta(w.ctx(), "policy"); err != nil || v != want {
			t.Errorf("%q, %v; want %q", v, err, want)
		}
	}
	get("")
	for _, v := range []string{"v1", "v2", ""} {
		if err := w.SetMeta(w.ctx(), "policy", v); err != nil {
			t.Fatal(err)
		}
		get(v)
	}
}

func ledgerTime(t *testing.T, w *world) {
	w.put(w.entry("k"))
	now := func(s ledger.Store) time.Time {
		t.Helper()
		at, err := s.Now(w.ctx())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	high := now(w)
	if !high.Equal(w.clock.Now()) {
		t.Errorf("now %v, want %v", high, w.clock.Now())
	}
	w.clock.Add(-time.Hour)
	for name, s := range map[string]ledger.Store{"here": w, "elsewhere": w.another()} {
		if got := now(s); got.Before(high) {
			t.Errorf("%s the time went back by %v", name, high.Sub(got))
		}
	}
	if got := w.claim(); got.Now.Before(high) {
		t.Errorf("a claim is at %v, before %v", got.Now, high)
	}
}

func reopened(t *testing.T, w *world) {
	w.put(w.entry("k"), ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown})
	_, l := w.claimed()
	before := w.get("k")
	history := w.history(before.Entry.ID)
	w.Store = w.another()
	same(t, "entry", w.get("k"), before)
	same(t, "history", w.history(before.Entry.ID), history)
	w.mustApply(ledger.Change{Lease: l, Next: ledger.Wait(before.Entry, "x", w.clock.Now().Add(time.Minute))})
}

// walks takes entries through random claims, changes, starts, reports, crashes
// (a lease that is never given back) and late results, and tests what must
// always hold: settled stays settled, histories have no gaps, tokens and
// attempts never fall, owners change only by a hand that may.
func walks(t *testing.T, w *world) {
	for seed := range uint64(3) {
		walk(t, w, seed)
	}
}

func walk(t *testing.T, w *world, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var keys []string
	for i := range 6 {
		keys = append(keys, fmt.Sprintf("s%d-%d", seed, i))
		w.put(w.entry(keys[i], func(e *ledger.Entry) { e.Lane = fmt.Sprint("walk", seed); e.OutcomeKey = fmt.Sprint("o", seed, i%3) }))
	}
	type held struct {
		e ledger.Stored
		l ledger.Lease
	}
	var leases []held // also stale ones: workers that died or dawdle
	last := map[string]ledger.Stored{}
	var trace []string
	for step := range 120 {
		now := w.clock.Now()
		what := "wait"
		switch n := r.IntN(10); {
		case n < 4:
			what = "claim"
			work := []ledger.Work{ledger.WorkLook, ledger.WorkAdvance, ledger.WorkRelease}[r.IntN(3)]
			got := w.claim(func(c *ledger.Claim) {
				c.Lane, c.Work, c.Limit, c.Holder = fmt.Sprint("walk", seed), work, 2, fmt.Sprint("w", step)
			})
			for i, e := range got.Entries {
				leases = append(leases, held{e, got.Leases[i]})
			}
		case n < 8 && len(leases) > 0:
			what = "apply"
			h := leases[r.IntN(len(leases))]
			next := step2(r, h.e.Entry, now)
			w.apply(ledger.Change{Lease: h.l, Next: next, Attempts: []ledger.Attempt{
				{AttemptID: fmt.Sprint("a", r.IntN(4)), Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown, Ours: true}}})
		case n == 8:
			what = "start"
			for _, h := range leases {
				if e := w.get(h.e.Entry.ActionKey).Entry; e.State == ledger.StateReady && e.FencingToken == h.l.Token {
					l := h.l
					l.State = ledger.StateReady
					w.mustStart(w, w.start(e, l))
					break
				}
			}
		default:
			w.clock.Add(time.Duration(r.IntN(90)) * time.Second)
		}
		trace = append(trace, what)
		for _, k := range keys {
			st := w.get(k)
			was, seen := last[k]
			last[k] = st
			if !seen {
				continue
			}
			fell := st.Entry.FencingToken < was.Entry.FencingToken || len(st.Attempts) < len(was.Attempts)
			left := was.Entry.Settled() && (!st.Entry.Settled() || st.Entry.Outcome != was.Entry.Outcome)
			owned := st.Entry.Owner != was.Entry.Owner && st.Entry.State != ledger.StateEscalated
			if fell || left || owned || st.Entry.OriginalOwner != was.Entry.OriginalOwner {
				t.Fatalf("seed %d, after %v: %q went from %+v to %+v", seed, trace, k, was.Entry, st.Entry)
			}
			w.unbroken(k)
		}
		holders := map[string]int{}
		for _, k := range keys {
			if e := last[k].Entry; e.State == ledger.StateInFlight {
				holders[e.OutcomeKey]++
				if holders[e.OutcomeKey] > 1 {
					t.Fatalf("seed %d, after %v: two in flight for %q", seed, trace, e.OutcomeKey)
				}
			}
		}
	}
}

// step2 is some next state, legal or not.
func step2(r *rand.Rand, e ledger.Entry, now time.Time) ledger.Entry {
	at := now.Add(time.Duration(r.IntN(60)) * time.Second)
	switch r.IntN(7) {
	case 0:
		return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByLook, "found", now)
	case 1:
		return ledger.Doubt(e, "timeout", at)
	case 2, 3:
		e.Effect = ledger.EffectNotDone
		return ledger.Reopen(e, "absent", at)
	case 4:
		e.Effect = ledger.EffectNotDone
		return ledger.Advance(e, "ok", now.Add(time.Minute))
	case 5:
		return ledger.Defer(e, ledger.Release{Kind: "time", At: at}, "later")
	default:
		return ledger.Escalate(e, ledger.Escalation{Owner: "ada", Due: at, Look: at}, "mismatch")
	}
}
