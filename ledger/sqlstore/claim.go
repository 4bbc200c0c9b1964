package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Claim leases due entries; see ledger.Store. ErrGeneration: the database is
// not the one that wrote the ledger last.
func (s *Store) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	var out ledger.Claimed
	var err error
	if c.Peek {
		// A dry run's reads need no transaction: nothing rests on their agreeing.
		out, err = s.claim(ctx, s.r, c, nil)
		err = s.readError(ctx, "peek", err)
	} else {
		err = s.write(ctx, "claim", func(tx *txn) error {
			out, err = s.claim(ctx, tx, c, tx)
			return err
		})
	}
	if err != nil {
		return ledger.Claimed{}, err
	}
	return out, nil
}

func (s *Store) claim(ctx context.Context, on queryer, c ledger.Claim, tx *txn) (ledger.Claimed, error) {
	now, generation, err := s.claimTime(ctx, on)
	if err != nil {
		return ledger.Claimed{}, err
	}
	dueUntil := now
	if !c.DueBefore.IsZero() && c.DueBefore.Before(now) {
		dueUntil = c.DueBefore
	}
	until := now.Add(c.Lease)
	a, err := s.filterArgs(c.Filter, args{
		"lane": storable(c.Lane), "work": string(c.Work), "limit": c.Limit,
		"now": micros(now), "due_until": micros(dueUntil),
		"after_at": micros(c.After.NextAt), "after_key": storable(c.After.ActionKey),
		"holder": storable(c.Holder), "lease_until": micros(until), "generation": generation,
	})
	if err != nil {
		return ledger.Claimed{}, err
	}
	out := ledger.Claimed{Now: now}
	name := "peek"
	if tx != nil {
		name = "claim"
		if err := s.keepSeen(ctx, tx, micros(now)); err != nil {
			return out, err
		}
	}
	es, err := all[ledger.Entry](ctx, s, on, name, entryLayout, a)
	if err != nil {
		return out, err
	}
	// What an UPDATE returns has no order.
	slices.SortFunc(es, func(x, y ledger.Entry) int {
		if c := x.NextAt.Compare(y.NextAt); c != 0 {
			return c
		}
		return strings.Compare(x.ActionKey, y.ActionKey)
	})
	if out.Entries, err = s.withAttempts(ctx, on, es); err != nil || c.Peek {
		return out, err
	}
	for _, e := range es {
		out.Leases = append(out.Leases, ledger.Lease{
			EntryID: e.ID, ActionKey: e.ActionKey, Token: e.FencingToken, State: e.State, Holder: e.LeaseHolder, Until: e.LeaseUntil,
		})
	}
	return out, nil
}

// claimTime reads the clock and the generation, and notices a database that is
// not the one that wrote the ledger last.
func (s *Store) claimTime(ctx context.Context, on queryer) (now time.Time, generation int64, err error) {
	var us int64
	var same int
	if _, err := s.one(ctx, on, "claim_time", nil, &us, &same, &generation); err != nil {
		return time.Time{}, 0, err
	}
	if same == 0 {
		return time.Time{}, 0, s.wasReplaced(generation)
	}
	return s.saw(us), generation, nil
}

// wasReplaced notes at which generation the database was found to be another.
func (s *Store) wasReplaced(generation int64) error {
	s.replaced.Store(generation + 1)
	return fmt.Errorf("%w (generation %d)", ledger.ErrGeneration, generation)
}

// withAttempts adds the attempts to entries, whose order stays.
func (s *Store) withAttempts(ctx context.Context, on queryer, es []ledger.Entry) ([]ledger.Stored, error) {
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.ID
	}
	as, err := s.attemptsOf(ctx, on, ids)
	if err != nil {
		return nil, err
	}
	out := make([]ledger.Stored, len(es))
	for i, e := range es {
		out[i] = ledger.Stored{Entry: e, Attempts: as[e.ID]}
	}
	return out, nil
}

// Renew extends leases to d from now; those lost meanwhile are returned.
func (s *Store) Renew(ctx context.Context, ls []ledger.Lease, d time.Duration) (lost []ledger.Lease, err error) {
	err = s.write(ctx, "renew leases", func(tx *txn) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		lost, err = s.onLeases(ctx, tx, "renew", ls, now.Add(d))
		return err
	})
	return lost, err
}

// Release gives leases back and changes nothing else. Those lost meanwhile are
// not an error.
func (s *Store) Release(ctx context.Context, ls []ledger.Lease) error {
	return s.write(ctx, "release leases", func(tx *txn) error {
		_, err := s.onLeases(ctx, tx, "release", ls, time.Time{})
		return err
	})
}

func (s *Store) onLeases(ctx context.Context, tx *txn, name string, ls []ledger.Lease, until time.Time) (lost []ledger.Lease, err error) {
	rs := rows{len(ls), func(i int, to cells) {
		to.int(ls[i].EntryID)
		to.int(ls[i].Token)
		to.text(storable(ls[i].Holder))
		to.int(micros(until))
	}}
	ids := make([]int64, len(ls))
	for i, l := range ls {
		ids[i] = l.EntryID
	}
	list, err := s.d.list(ids)
	if err != nil {
		return nil, err
	}
	if err := s.query(ctx, tx, "lease_lock", args{"ids": list}, func(*sqlx.Rows) error { return nil }); err != nil {
		return nil, err
	}
	type claim struct{ id, token int64 }
	held := map[claim]bool{}
	err = s.bulk(ctx, tx, name, leaseLayout, rs, func(r *sqlx.Rows) error {
		var c claim
		err := r.Scan(&c.id, &c.token)
		held[c] = true
		return err
	})
	for _, l := range ls {
		if !held[claim{l.EntryID, l.Token}] {
			lost = append(lost, l)
		}
	}
	return lost, err
}

// Due counts what is due in each lane; see ledger.Store.
func (s *Store) Due(ctx context.Context, f ledger.Filter) ([]ledger.Due, error) {
	out, err := s.due(ctx, f)
	return out, s.readError(ctx, "count due entries", err)
}

func (s *Store) due(ctx context.Context, f ledger.Filter) ([]ledger.Due, error) {
	now, err := s.now(ctx, s.r)
	if err != nil {
		return nil, err
	}
	a, err := s.filterArgs(f, args{"now": micros(now)})
	if err != nil {
		return nil, err
	}
	var out []ledger.Due
	err = s.query(ctx, s.r, "due", a, func(r *sqlx.Rows) error {
		var d ledger.Due
		var oldest int64
		err := r.Scan(&d.Lane, &d.Work, &d.Count, &d.Leased, &d.Outside, &oldest)
		d.OldestAt = instant(oldest)
		out = append(out, d)
		return err
	})
	return out, err
}

// Overdue lists escalated entries whose due time has passed, longest overdue
// first, at most limit (0: 1,000).
func (s *Store) Overdue(ctx context.Context, f ledger.Filter, limit int) ([]ledger.Stored, error) {
	out, err := s.overdue(ctx, f, limit)
	return out, s.readError(ctx, "list overdue entries", err)
}

func (s *Store) overdue(ctx context.Context, f ledger.Filter, limit int) ([]ledger.Stored, error) {
	if limit <= 0 {
		limit = defaultPage
	}
	now, err := s.now(ctx, s.r)
	if err != nil {
		return nil, err
	}
	a, err := s.filterArgs(f, args{"now": micros(now), "limit": limit})
	if err != nil {
		return nil, err
	}
	es, err := all[ledger.Entry](ctx, s, s.r, "overdue", entryLayout, a)
	if err != nil {
		return nil, err
	}
	return s.withAttempts(ctx, s.r, es)
}

// Siblings finds the entries that may stand in the way of others; see
// ledger.Store. Of one outcome key it gives at most fifty, those in the way
// first; of the other kinds one each is enough. An applied look-alike counts
// when it was still open as the entry came.
func (s *Store) Siblings(ctx context.Context, ids []int64) (map[int64][]ledger.Sibling, error) {
	out, err := s.siblings(ctx, s.r, ids)
	return out, s.readError(ctx, "find siblings", err)
}

func (s *Store) siblings(ctx context.Context, on queryer, ids []int64) (map[int64][]ledger.Sibling, error) {
	out := map[int64][]ledger.Sibling{}
	if len(ids) == 0 {
		return out, nil
	}
	list, err := s.d.list(ids)
	if err != nil {
		return nil, err
	}
	err = s.query(ctx, on, "siblings", args{"ids": list}, func(r *sqlx.Rows) error {
		var id, settled int64
		var holder int
		var b ledger.Sibling
		err := r.Scan(&id, &b.Kind, &b.ActionKey, &b.State, &b.Effect, &b.Outcome, &b.RemoteID, &settled, &holder)
		b.SettledAt, b.Holder = instant(settled), holder == 1
		out[id] = append(out[id], b)
		return err
	})
	return out, err
}
