package reconcile

import (
	"cmp"
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
		switch o := &out[i]; {
		case o.Verdict == ledger.RecordedRefused && r.Answers:
			o.Send, o.Why = ledger.SendNo, whyRefused // the store refuses after Decide, too
		case o.Verdict != ledger.RecordedRefused && o.Entry.OutcomeKey != "":
			done = append(done, o.Entry)
		}
	}
	return out, flagTwice(ctx, store, done, "")
}

// Whoever settles an entry as applied may be cut off before the next statement.
// So what is known to be brought about twice is flagged with the settling
// itself (flagFirst), and what two do at the same moment, neither seeing the
// other, right after it (flagTwice).

// flagFirst flags the duplicates among changes that are about to be written: of
// entries that become applied, those with a sibling of the same outcome that is
// applied, or becomes so with them. That sibling is flagged before: should the
// changes not be written, the same is found again.
func flagFirst(ctx context.Context, store ledger.Store, cs []ledger.Change, passID string) error {
	var es []ledger.Entry
	for _, c := range cs {
		if becomesApplied(c) {
			es = append(es, c.Next)
		}
	}
	twins, err := appliedTwins(ctx, store, es)
	if err != nil {
		return err
	}
	with := map[string]ledger.Entry{} // by outcome key: the first that becomes applied
	for i := range cs {
		if !becomesApplied(cs[i]) {
			continue
		}
		next := &cs[i].Next
		other := ""
		for _, b := range twins[next.ID] {
			other = b.ActionKey
			if err := flagDuplicate(ctx, store, b.ActionKey, next.ActionKey, passID); err != nil {
				return err
			}
		}
		first, both := with[next.OutcomeKey]
		if !both {
			with[next.OutcomeKey] = *next
		} else if !sameRemote(first.RemoteID, next.RemoteID) {
			other = first.ActionKey
			for j := range cs[:i] {
				if cs[j].Next.ID == first.ID && becomesApplied(cs[j]) {
					cs[j] = duplicating(cs[j], next.ActionKey)
				}
			}
		}
		if other != "" {
			cs[i] = duplicating(cs[i], other)
		}
	}
	return nil
}

// becomesApplied says whether a change settles an entry with an outcome key as
// applied.
func becomesApplied(c ledger.Change) bool {
	return c.Next.Outcome == ledger.OutcomeApplied && c.Next.OutcomeKey != "" && c.Lease.State != ledger.StateSettled
}

// duplicating is a change that flags its entry too; its row of history keeps
// why it was settled.
func duplicating(c ledger.Change, other string) ledger.Change {
	if c.Next.HasFlag(ledger.FlagDuplicate) {
		return c
	}
	c.Note = cmp.Or(c.Note, c.Next.Reason)
	c.Next = c.Next.WithFlag(ledger.FlagDuplicate)
	c.Next.Reason = duplicateOf(other)
	return c
}

func duplicateOf(other string) string {
	return "duplicate: " + other + " was applied for the same outcome"
}

func sameRemote(a, b string) bool { return a != "" && a == b }

// appliedTwins finds, for those of the entries that are applied or about to be,
// the siblings of the same outcome that are applied under another remote id.
func appliedTwins(ctx context.Context, store ledger.Store, es []ledger.Entry) (map[int64][]ledger.Sibling, error) {
	var ids []int64
	remote := map[int64]string{}
	for _, e := range es {
		if e.Outcome == ledger.OutcomeApplied && e.OutcomeKey != "" {
			ids, remote[e.ID] = append(ids, e.ID), e.RemoteID
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	sibs, err := store.Siblings(ctx, ids)
	if err != nil {
		return nil, err
	}
	for id, bs := range sibs {
		sibs[id] = slices.DeleteFunc(bs, func(b ledger.Sibling) bool {
			return b.Kind != ledger.SiblingOutcome || b.Outcome != ledger.OutcomeApplied || sameRemote(b.RemoteID, remote[id])
		})
	}
	return sibs, nil
}

// flagTwice flags those of the entries that are applied and have a sibling of
// the same outcome that is applied too, and that sibling: what must happen once
// has happened twice. An entry is flagged for this once; what a person has
// closed stays closed.
func flagTwice(ctx context.Context, store ledger.Store, es []ledger.Entry, passID string) error {
	twins, err := appliedTwins(ctx, store, es)
	if err != nil {
		return err
	}
	for _, e := range es {
		for _, b := range twins[e.ID] {
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
		next.Reason = duplicateOf(other)
		return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next,
			History: []ledger.History{historyOf(cur.Entry, next, "reconcile", "", passID)}}, nil
	})
	return ignoreNotFound(err)
}
