package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Record records reports, and flags what they show to have been brought about
// twice. What was recorded stays so when the flagging fails: the same reports
// once more do the rest.
func (r *Recorder) Record(ctx context.Context, store ledger.Store, recs []ledger.Record) ([]ledger.Recorded, error) {
	out, err := store.Record(ctx, recs, r.Decide)
	if err != nil {
		return nil, err
	}
	var done []ledger.Entry
	for i := range out {
		if o := &out[i]; o.Verdict != ledger.RecordedRefused && o.Entry.OutcomeKey != "" {
			done = append(done, o.Entry)
		}
	}
	return out, flagTwice(ctx, store, done, "")
}

// flagTwice flags those of the entries that are applied and have a sibling of
// the same outcome that is applied too, and that sibling: what must happen once
// has happened twice. An entry is flagged for this once; what a person has
// closed stays closed.
func flagTwice(ctx context.Context, store ledger.Store, es []ledger.Entry, passID string) error {
	var ids []int64
	var applied []ledger.Entry
	for _, e := range es {
		if e.Outcome == ledger.OutcomeApplied && e.OutcomeKey != "" {
			ids, applied = append(ids, e.ID), append(applied, e)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	sibs, err := store.Siblings(ctx, ids)
	if err != nil {
		return err
	}
	for _, e := range applied {
		for _, b := range sibs[e.ID] {
			same := b.RemoteID != "" && b.RemoteID == e.RemoteID
			if b.Kind != ledger.SiblingOutcome || b.Outcome != ledger.OutcomeApplied || same {
				continue
			}
			if err := errors.Join(flagDuplicate(ctx, store, e.ActionKey, b.ActionKey, passID), flagDuplicate(ctx, store, b.ActionKey, e.ActionKey, passID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// flagDuplicate flags a settled entry whose outcome another one brought about
// too.
func flagDuplicate(ctx context.Context, store ledger.Store, key, other, passID string) error {
	st, err := store.Entry(ctx, key)
	if err != nil {
		return ignoreNotFound(err)
	}
	past, err := store.History(ctx, st.Entry.ID)
	if err != nil || slices.ContainsFunc(past, func(h ledger.History) bool { return slices.Contains(h.Flags, ledger.FlagDuplicate) }) {
		return err
	}
	_, err = store.Change(ctx, key, func(cur ledger.Stored, _ time.Time) (ledger.Recording, error) {
		if cur.Entry.HasFlag(ledger.FlagDuplicate) || cur.Entry.Outcome != ledger.OutcomeApplied {
			return ledger.Recording{Verdict: ledger.RecordedUnchanged}, nil
		}
		next := cur.Entry.WithFlag(ledger.FlagDuplicate)
		next.Reason = "duplicate: " + other + " was applied for the same outcome"
		return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next,
			History: []ledger.History{historyOf(cur.Entry, next, "reconcile", "", passID)}}, nil
	})
	return ignoreNotFound(err)
}
