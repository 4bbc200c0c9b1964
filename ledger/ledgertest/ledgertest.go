// Package ledgertest holds the suite that every ledger.Store passes.
package ledgertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Open opens the ledger of a test, empty at the first call, with the clock
// given in place of the database's. Called again with the same t it opens the
// same ledger a second time. The suite closes what it opened.
type Open func(t *testing.T, clock func() time.Time) ledger.Store

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *world){
		"record: new, unchanged, merged and refused are told apart, in order":            recordVerdicts,
		"record: one key twice in a batch, the second sees the first":                    recordTwiceInBatch,
		"record: two entries under one provider key, the second is refused by name":      recordProviderKey,
		"record: a key that an entry has beside its own is nobody else's":                recordKeysBeside,
		"record: times, big numbers, odd texts and payload bytes come back as they were": recordRoundTrip,
		"record: too many at once is an error":                                           recordTooMany,
		"record: a change that is not allowed is refused and leaves nothing":             recordIllegal,
		"record: a merge with an attempt ends the claims made before":                    recordEndsClaims,
		"record: a decision goes on once the entry stands, knowing its siblings":         recordThen,
		"record: the same keys from two sides at once are one entry each":                recordAtOnce,
		"change: writes under the row lock, and raises the token":                        changeOne,
		"change: unknown key, refusal, error and illegal change write nothing":           changeRefused,
		"claim: longest due first, only what is due, of this lane and work":              claimOrder,
		"claim: two claimers never share an entry":                                       claimAtOnce,
		"claim: an expired lease may be taken, a live one not, and tokens only rise":     claimExpiry,
		"claim: a peek changes nothing and pages":                                        claimPeek,
		"claim: the window takes what happened in it, or came due in it":                 claimWindow,
		"claim: hopeless entries do not hide others":                                     claimStarvation,
		"renew and release: only by the holder":                                          renewRelease,
		"apply: state, history and facts are written together":                           applyWrites,
		"apply: a stale token writes its facts and nothing else":                         applyStale,
		"apply: an illegal change leaves no history":                                     applyIllegal,
		"apply: one bad change does not take the others with it":                         applyMixed,
		"apply: kept leases go on with the new state":                                    applyKeep,
		"apply: the same entry twice in a call is changed twice":                         applyTwice,
		"apply: what is known to be done stays done":                                     applyDoneStays,
		"apply: a cut transaction leaves neither state nor history":                      applyCut,
		"start: writes the mark, the attempt and the outcome key":                        startWrites,
		"start: each ground of refusal, and then nothing is written":                     startRefused,
		"start: an outcome key has one holder, whoever is first":                         startOutcomeKey,
		"start: no more marks in a lane than allowed":                                    startConcurrent,
		"start: a report of a sibling in flight refuses it":                              startAfterReport,
		"siblings: by outcome, by look, by record":                                       siblings,
		"control: the youngest that is known to be applied":                              control,
		"due: counted by lane and work, in the window and outside":                       due,
		"overdue: escalated and past their time, longest first":                          overdue,
		"entries: filters, and pages that survive inserts":                               entries,
		"lanes: saved under their lock, held and resumed":                                lanes,
		"reserve: calls of two stores are spaced over both":                              reserve,
		"reserve: a burst goes at once after a silence":                                  reserveBurst,
		"unsettle: negatives are void and quiet periods begin anew":                      unsettle,
		"unsettle: a new generation makes due entries unknown and ends claims":           unsettleGeneration,
		"alerts: open once, closed, open again":                                          alerts,
		"meta: shared values":                                                            meta,
		"time: never goes back, not even in another process":                             ledgerTime,
		"a reopened ledger is unchanged":                                                 reopened,
		"a cancelled context is interrupted":                                             interrupted,
		"random walks of claims, crashes and changes keep the rules":                     walks,
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, clock: NewClock(), open: open}
			w.Store = w.another()
			test(t, w)
		})
	}
}

// Walk is one random walk of the suite; the same seed takes the same steps. It
// serves as a fuzz target.
func Walk(t *testing.T, open Open, seed uint64) {
	w := &world{t: t, clock: NewClock(), open: open}
	w.Store = w.another()
	walk(t, w, seed)
}

// Clock is a clock that tests set.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a moment with microseconds, in a year whose numbers of
// microseconds do not fit into 2^53 by accident of rounding.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 11, 28, 9, 15, 0, 123457000, time.UTC)}
}

// Now is the time that was set.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock, forward or back.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is one test's ledger and clock.
type world struct {
	ledger.Store
	t     *testing.T
	clock *Clock
	open  Open
	made  int
}

func (w *world) ctx() context.Context { return w.t.Context() }

// another opens the same ledger once more.
func (w *world) another() ledger.Store {
	w.t.Helper()
	s := w.open(w.t, w.clock.Now)
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	})
	return s
}

// lane is the lane of test entries.
const lane = "crm"

// entry is a valid entry in some state, due now for a look.
func (w *world) entry(key string, edit ...func(*ledger.Entry)) ledger.Entry {
	now := w.clock.Now()
	e := ledger.Entry{
		ActionKey: key, Workflow: "lead-intake", WorkflowVersion: "7", Connector: "crm", Operation: "contact.create",
		RecordID: "form-" + key, Owner: "revops", OccurredAt: now.Add(-time.Minute), ReceivedAt: now,
		ProviderKey: key, KeyGuard: key, KeyOrigin: "action_key", Keys: []string{key}, Lane: lane, Effect: ledger.EffectUnknown,
	}
	e = ledger.Doubt(e, "timeout", now)
	for _, f := range edit {
		f(&e)
	}
	return e
}

// as is an edit that takes the entry through a builder.
func as(f func(ledger.Entry) ledger.Entry) func(*ledger.Entry) {
	return func(e *ledger.Entry) { *e = f(*e) }
}

// retryable is an edit: not done, due now.
func retryable(now time.Time) func(*ledger.Entry) {
	return as(func(e ledger.Entry) ledger.Entry {
		e.Effect = ledger.EffectNotDone
		return ledger.Reopen(e, "temporary", now)
	})
}

// writing is a decider that writes exactly this.
func writing(r ledger.Recording) ledger.Decider {
	return func(cur *ledger.Stored, _ ledger.Record, _ time.Time) ledger.Recording {
		if r.Verdict == "" {
			r.Verdict = ledger.RecordedNew
			if cur != nil {
				r.Verdict = ledger.RecordedMerged
			}
		}
		return r
	}
}

// put records one entry as given, with its attempts, and returns it as stored.
func (w *world) put(e ledger.Entry, as ...ledger.Attempt) ledger.Entry {
	w.t.Helper()
	out, err := w.Record(w.ctx(), []ledger.Record{{ActionKey: e.ActionKey}}, writing(ledger.Recording{Entry: e, Attempts: as}))
	if err != nil {
		w.t.Fatalf("record %q: %v", e.ActionKey, err)
	}
	if v := out[0].Verdict; v != ledger.RecordedNew && v != ledger.RecordedMerged {
		w.t.Fatalf("record %q: %s %v", e.ActionKey, v, out[0].Errors)
	}
	return w.get(e.ActionKey).Entry
}

// putAll records entries in batches.
func (w *world) putAll(es []ledger.Entry) {
	w.t.Helper()
	byKey := map[string]ledger.Entry{}
	for chunk := range slices.Chunk(es, 500) {
		recs := make([]ledger.Record, len(chunk))
		for i, e := range chunk {
			recs[i].ActionKey = e.ActionKey
			byKey[e.ActionKey] = e
		}
		out, err := w.Record(w.ctx(), recs, func(_ *ledger.Stored, r ledger.Record, _ time.Time) ledger.Recording {
			return ledger.Recording{Verdict: ledger.RecordedNew, Entry: byKey[r.ActionKey]}
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range out {
			if o.Verdict != ledger.RecordedNew {
				w.t.Fatalf("record %q: %s %v", o.ActionKey, o.Verdict, o.Errors)
			}
		}
	}
}

func (w *world) get(key string) ledger.Stored {
	w.t.Helper()
	st, err := w.Entry(w.ctx(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

func (w *world) history(id int64) []ledger.History {
	w.t.Helper()
	hs, err := w.History(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return hs
}

func (w *world) evidence(id int64) []ledger.Evidence {
	w.t.Helper()
	evs, err := w.Evidence(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return evs
}

// claim asks for looks of the test lane.
func (w *world) claim(edit ...func(*ledger.Claim)) ledger.Claimed {
	w.t.Helper()
	c := ledger.Claim{Lane: lane, Work: ledger.WorkLook, Limit: 100, Holder: "w1", Lease: time.Minute}
	for _, f := range edit {
		f(&c)
	}
	got, err := w.Claim(w.ctx(), c)
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	return got
}

// claimed is the one entry that a claim must get.
func (w *world) claimed(edit ...func(*ledger.Claim)) (ledger.Stored, ledger.Lease) {
	w.t.Helper()
	got := w.claim(edit...)
	if len(got.Entries) != 1 {
		w.t.Fatalf("claimed %d entries, want 1", len(got.Entries))
	}
	return got.Entries[0], got.Leases[0]
}

func advancing(c *ledger.Claim) { c.Work = ledger.WorkAdvance }

func (w *world) apply(cs ...ledger.Change) []ledger.Applied {
	w.t.Helper()
	out, err := w.Apply(w.ctx(), cs)
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	return out
}

// mustApply applies one change that must succeed.
func (w *world) mustApply(c ledger.Change) ledger.Applied {
	w.t.Helper()
	out := w.apply(c)[0]
	if out.Err != nil {
		w.t.Fatalf("apply to %q: %v", c.Lease.ActionKey, out.Err)
	}
	return out
}

// ready makes an entry and takes it to ready, with a lease that is kept.
func (w *world) ready(key string, edit ...func(*ledger.Entry)) (ledger.Entry, ledger.Lease) {
	w.t.Helper()
	w.made++
	// A key of its own lane keeps entries of one test apart in a claim.
	own := fmt.Sprintf("%s-%d", lane, w.made)
	w.put(w.entry(key, append([]func(*ledger.Entry){retryable(w.clock.Now()), func(e *ledger.Entry) { e.Lane = own }}, edit...)...))
	e, l := w.claimed(advancing, func(c *ledger.Claim) { c.Filter.ActionKeys = []string{key}; c.Lane = w.get(key).Entry.Lane })
	out := w.mustApply(ledger.Change{Lease: l, Next: ledger.Advance(e.Entry, "checks_passed", w.clock.Now().Add(time.Minute)), Keep: true})
	return out.Entry, out.Lease
}

// start is a start that is allowed, unless an edit sees to it.
func (w *world) start(e ledger.Entry, l ledger.Lease, edit ...func(*ledger.Start)) ledger.Start {
	next := e
	next.Effect = ledger.EffectUnknown
	next.Attempts, next.AttemptCount = e.Attempts+1, e.AttemptCount+1
	st := ledger.Start{
		Lease: l, Next: ledger.Begin(next, "sent", w.clock.Now()),
		Attempt: ledger.Attempt{AttemptID: fmt.Sprintf("r%d", next.Attempts), No: next.Attempts, Ours: true, Key: e.ProviderKey, Sends: 1, Counts: true},
		Timeout: 20 * time.Second, LeaseFor: time.Minute, Concurrent: 2, Generation: e.Generation, PassID: "p1",
	}
	for _, f := range edit {
		f(&st)
	}
	return st
}

func (w *world) mustStart(s ledger.Store, st ledger.Start) ledger.Started {
	w.t.Helper()
	out, err := s.Start(w.ctx(), st)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	return out
}

// same compares, taking empty and nil for equal; want may be a plain nil where
// a list is to be empty.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if want == nil && reflect.ValueOf(got).Len() == 0 {
		return
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: (-want +got)\n%s", what, d)
	}
}

func keysOf(ss []ledger.Stored) []string {
	var keys []string
	for _, s := range ss {
		keys = append(keys, s.Entry.ActionKey)
	}
	return keys
}

func names(es []ledger.Entry) []string {
	var keys []string
	for _, e := range es {
		keys = append(keys, e.ActionKey)
	}
	return keys
}

// unbroken tests that the history of an entry is numbered without gaps, joins
// up from state to state, and ends where the entry stands.
func (w *world) unbroken(key string) {
	w.t.Helper()
	e := w.get(key).Entry
	var at ledger.State
	for i, h := range w.history(e.ID) {
		if h.No != i+1 {
			w.t.Fatalf("%q: row %d of the history has number %d", key, i+1, h.No)
		}
		if h.From != at {
			w.t.Fatalf("%q: row %d of the history begins at %q, the one before ends at %q", key, h.No, h.From, at)
		}
		if !ledger.Legal(h.From, h.To) {
			w.t.Fatalf("%q: row %d of the history is no legal change: %q to %q", key, h.No, h.From, h.To)
		}
		at = h.To
	}
	if at != e.State {
		w.t.Fatalf("%q: the history ends at %q, the entry is %q", key, at, e.State)
	}
}
