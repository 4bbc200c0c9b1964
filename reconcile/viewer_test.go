package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// askedStore counts the questions that a page of a list takes.
type askedStore struct {
	ledger.Store
	asked int
}

func (s *askedStore) History(ctx context.Context, id int64) ([]ledger.History, error) {
	s.asked++
	return s.Store.History(ctx, id)
}

func (s *askedStore) FlaggedAt(ctx context.Context, ids []int64) (map[int64]time.Time, error) {
	s.asked++
	return s.Store.FlaggedAt(ctx, ids)
}

func TestAPageOfOpenFlagsIsOneQuestion(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.Due = 8 * time.Hour }))
		const ok = `"status":"ok","remote_id":"r-1"`
		for _, k := range []string{"later", "since", "closed", "again", "plain"} {
			w.report(w.line(k, ok))
		}
		w.report(w.line("waits", `"status":"error","error_class":"validation"`))
		// change sets or ends the flag, and gives the time of the row it leaves.
		change := func(key string, flags ...ledger.Flag) time.Time {
			w.clock.advance(10 * time.Minute)
			e, err := w.store.Change(context.Background(), key, func(cur ledger.Stored, _ time.Time) (ledger.Recording, error) {
				next := cur.Entry
				next.Flags = flags
				return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next,
					History: []ledger.History{{From: next.State, To: next.State, Outcome: next.Outcome, Class: next.Class, Flags: flags, Reason: next.Reason, Owner: next.Owner}}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			hs, err := w.store.History(context.Background(), e.ID)
			if err != nil {
				t.Fatal(err)
			}
			return hs[len(hs)-1].At
		}
		want := map[string]time.Time{"plain": {}, "closed": {}}
		want["later"] = change("later", ledger.FlagReversed)
		want["since"] = change("since", ledger.FlagReversed)
		change("since", ledger.FlagReversed, ledger.FlagDuplicate) // never without one
		change("closed", ledger.FlagReversed)
		change("closed")
		change("again", ledger.FlagReversed)
		change("again")
		want["again"] = change("again", ledger.FlagDuplicate)
		change("waits", ledger.FlagDuplicate)

		asked := &askedStore{Store: w.store}
		v := reconcile.Viewer{Store: asked, Connectors: w.rec.Connectors, Policies: w.rec.Policies}
		es, err := w.store.Entries(context.Background(), ledger.Filter{}, "", 0, false)
		if err != nil {
			t.Fatal(err)
		}
		due := w.entry("waits").DueAt
		shown, err := v.Listed(context.Background(), es)
		if err != nil || len(shown) != 6 {
			t.Fatal(len(shown), err)
		}
		for _, e := range shown {
			at := due // of what is escalated: as the escalation gave it
			if e.ActionKey != "waits" {
				if at = want[e.ActionKey]; !at.IsZero() {
					at = at.Add(8 * time.Hour)
				}
			}
			if !e.DueAt.Equal(at) {
				t.Errorf("%s is due %s, want %s", e.ActionKey, e.DueAt, at)
			}
		}
		if asked.asked != 1 {
			t.Errorf("%d questions", asked.asked)
		}
		// Where no flag is open, none is asked.
		if _, err := v.Listed(context.Background(), []ledger.Entry{w.entry("plain")}); err != nil || asked.asked != 1 {
			t.Errorf("%d questions, %v", asked.asked, err)
		}
	})
}
