package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// asked is a record whose decision goes on once its entry stands; see
// ledger.Recording.Then.
type asked struct {
	out  *ledger.Recorded
	p    *pending
	then func(ledger.Beside) ledger.Recording
}

// goOn decides what was asked, in the order of the records. Of those that may
// stand in each other's way one is decided after what became of the other is
// written.
func (s *Store) goOn(ctx context.Context, tx *txn, now time.Time, asks []asked) error {
	if err := s.lockOutcomes(ctx, tx, asks); err != nil {
		return err
	}
	es := make([]ledger.Entry, len(asks))
	for i, a := range asks {
		es[i] = a.p.entry
	}
	if err := s.lockWays(ctx, tx, es); err != nil {
		return err
	}
	held, err := s.holders(ctx, tx)
	if err != nil {
		return err
	}
	if _, _, err := s.claimTime(ctx, tx); errors.Is(err, ledger.ErrGeneration) {
		held[""] = "the ledger, which is on another server now: the next pass sorts out what was lost"
	} else if err != nil {
		return err
	}
	for len(asks) > 0 {
		var round, rest []asked
		taken := map[string]bool{}
		for _, a := range asks {
			way := inTheWay(a.p.entry)
			if slices.ContainsFunc(way, func(w string) bool { return taken[w] }) {
				rest = append(rest, a)
				continue
			}
			for _, w := range way {
				taken[w] = true
			}
			round = append(round, a)
		}
		if err := s.goOnWith(ctx, tx, now, round, held); err != nil {
			return err
		}
		asks = rest
	}
	return nil
}

// inTheWay names what two entries have in common when one may stand in the
// other's way.
func inTheWay(e ledger.Entry) []string {
	way := []string{"action " + e.ActionKey}
	if e.OutcomeKey != "" {
		way = append(way, "outcome "+e.OutcomeKey)
	}
	if e.RecordID != "" || e.PayloadDigest != "" { // look-alikes; one with an outcome key is in the way of one without
		way = append(way, "content "+e.Connector+" "+e.Operation+" "+e.PayloadDigest+" "+e.RecordID)
	}
	if e.RecordID != "" { // changes of one record
		way = append(way, "record "+e.Connector+" "+e.Operation+" "+e.RecordID)
	}
	return way
}

// goOnWith decides those that are not in each other's way.
func (s *Store) goOnWith(ctx context.Context, tx *txn, now time.Time, round []asked, held map[string]string) error {
	b := newBatch(now, nil, len(round))
	b.goesOn = true
	ids := make([]int64, len(round))
	for i, a := range round {
		a.p.stand()
		b.entries[a.p.entry.ActionKey] = a.p
		ids[i] = a.p.entry.ID
	}
	siblings, err := s.siblings(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, a := range round {
		d := a.then(ledger.Beside{Entry: a.p.entry, Siblings: siblings[a.p.entry.ID], Held: heldBy(held, a.p.entry.Lane),
			Token: a.p.entry.FencingToken + 1}) // an attempt raises it, see batch.change
		first := *a.out
		*a.out = b.take(first.ActionKey, a.p, d, nil)
		a.out.Warnings = append(first.Warnings, a.out.Warnings...)
		if a.out.Verdict != ledger.RecordedRefused {
			a.out.Verdict = first.Verdict // of the record as a whole
		}
	}
	return s.flush(ctx, tx, b)
}

// stand notes that a pending entry is written as it is.
func (p *pending) stand() {
	p.born = p.born || p.fresh
	p.fresh, p.touched, p.changed, p.raised = false, false, false, false
	p.state, p.token = p.entry.State, p.entry.FencingToken
	p.historyNo += p.written
	p.written = 0
}

// lockOutcomes locks the outcome keys of what was asked, in the order of the
// keys, so that no sibling is started meanwhile.
func (s *Store) lockOutcomes(ctx context.Context, tx *txn, asks []asked) error {
	first := map[string]int64{}
	var keys []string
	for _, a := range asks {
		k := storable(a.p.entry.OutcomeKey)
		if _, known := first[k]; k == "" || known {
			continue
		}
		first[k] = a.p.entry.ID
		keys = append(keys, k)
	}
	slices.Sort(keys)
	rs := rows{len(keys), func(i int, to cells) {
		to.text(keys[i])
		to.int(first[keys[i]])
		to.int(0)
	}}
	return s.bulk(ctx, tx, "holder_locks", holderLayout, rs, nil)
}

// lockWays locks what entries about to begin have in common with others beside
// an outcome key (equal content, one record), so that of two that begin at once
// one sees the other. Their rows and then the outcome keys are locked before.
func (s *Store) lockWays(ctx context.Context, tx *txn, es []ledger.Entry) error {
	var ways []string
	for _, e := range es {
		for _, w := range inTheWay(e) {
			if strings.HasPrefix(w, "content ") || strings.HasPrefix(w, "record ") {
				ways = append(ways, storable(w))
			}
		}
	}
	if len(ways) == 0 {
		return nil
	}
	list, err := s.d.list(ways)
	if err != nil {
		return err
	}
	return s.query(ctx, tx, "way_locks", args{"keys": list}, func(*sqlx.Rows) error { return nil })
}

// holders are those who hold the sends of a lane, by its name, and of the whole
// ledger, by "".
func (s *Store) holders(ctx context.Context, tx *txn) (map[string]string, error) {
	held := map[string]string{}
	err := s.query(ctx, tx, "held", nil, func(r *sqlx.Rows) error {
		var lane, by string
		err := r.Scan(&lane, &by)
		held[lane] = by
		return err
	})
	return held, err
}

func heldBy(held map[string]string, lane string) string {
	if by := held[""]; by != "" {
		return by
	}
	return held[lane]
}
