package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// defaultPage is the length of a list when no limit is given.
const defaultPage = 1000

// filterArgs are the parameters of the fragments "matches" and "window".
func (s *Store) filterArgs(f ledger.Filter, a args) (args, error) {
	a["since"], a["until"] = micros(f.Since), micros(f.Until)
	a["workflow"], a["connector"], a["operation"] = storable(f.Workflow), storable(f.Connector), storable(f.Operation)
	a["state"], a["class"], a["owner"] = string(f.State), string(f.Class), storable(f.Owner)
	a["f_lane"] = storable(f.Lane)
	a["reason"], a["reason_detail"] = storable(f.Reason), storable(f.Reason)+":"
	a["flagged"], a["keyed"] = 0, 0
	if f.Flagged {
		a["flagged"] = 1
	}
	if len(f.ActionKeys) > 0 {
		a["keyed"] = 1
	}
	keys := make([]string, len(f.ActionKeys))
	for i, k := range f.ActionKeys {
		keys[i] = storable(k)
	}
	list, err := s.d.list(keys)
	a["keys"] = list
	return a, err
}

// Entry reads one entry with its attempts.
func (s *Store) Entry(ctx context.Context, actionKey string) (ledger.Stored, error) {
	what := fmt.Sprintf("read entry %q", actionKey)
	es, err := all[ledger.Entry](ctx, s, s.r, "entry", entryLayout, args{"action_key": storable(actionKey)})
	if err != nil {
		return ledger.Stored{}, s.readError(ctx, what, err)
	}
	if len(es) == 0 {
		return ledger.Stored{}, fmt.Errorf("entry %q: %w", actionKey, ledger.ErrNotFound)
	}
	as, err := s.attemptsOf(ctx, s.r, []int64{es[0].ID})
	return ledger.Stored{Entry: es[0], Attempts: as[es[0].ID]}, s.readError(ctx, what, err)
}

// Evidence reads the evidence of an entry, oldest first.
func (s *Store) Evidence(ctx context.Context, entryID int64) ([]ledger.Evidence, error) {
	evs, err := all[ledger.Evidence](ctx, s, s.r, "evidence", evidenceLayout, args{"id": entryID})
	return evs, s.readError(ctx, "read evidence", err)
}

// History reads the history of an entry, oldest first.
func (s *Store) History(ctx context.Context, entryID int64) ([]ledger.History, error) {
	hs, err := all[ledger.History](ctx, s, s.r, "history", historyLayout, args{"id": entryID})
	return hs, s.readError(ctx, "read history", err)
}

// FlaggedAt tells since when entries have had open flags; see ledger.Store.
func (s *Store) FlaggedAt(ctx context.Context, entryIDs []int64) (map[int64]time.Time, error) {
	out := map[int64]time.Time{}
	if len(entryIDs) == 0 {
		return out, nil
	}
	list, err := s.d.list(entryIDs)
	if err == nil {
		err = s.query(ctx, s.r, "flagged_at", args{"ids": list}, func(r *sqlx.Rows) error {
			var id int64
			var at time.Time
			err := r.Scan(&id, (*timeCell)(&at))
			out[id] = at
			return err
		})
	}
	return out, s.readError(ctx, "read since when entries are flagged", err)
}

// Entries lists entries by action key; see ledger.Store.
func (s *Store) Entries(ctx context.Context, f ledger.Filter, after string, limit int, withPayload bool) ([]ledger.Entry, error) {
	if limit <= 0 {
		limit = defaultPage
	}
	name, l := "entries", listedLayout
	if withPayload {
		name, l = "entries_whole", entryLayout
	}
	now, err := s.now(ctx, s.r)
	var es []ledger.Entry
	if err == nil {
		var a args
		if a, err = s.filterArgs(f, args{"now": micros(now), "after": storable(after), "limit": limit}); err == nil {
			es, err = all[ledger.Entry](ctx, s, s.r, name, l, a)
		}
	}
	return es, s.readError(ctx, "list entries", err)
}

// Count counts what a filter matches, and all entries.
func (s *Store) Count(ctx context.Context, f ledger.Filter) (matching, total int, err error) {
	now, err := s.now(ctx, s.r)
	if err == nil {
		var a args
		if a, err = s.filterArgs(f, args{"now": micros(now)}); err == nil {
			_, err = s.one(ctx, s.r, "count", a, &matching, &total)
		}
	}
	return matching, total, s.readError(ctx, "count entries", err)
}

// Control is the youngest entry of an operation that is known to be applied;
// see ledger.Store. What a person said, and what carries a flag, is no control:
// a lookup by our key need not find it.
func (s *Store) Control(ctx context.Context, connector, operation string, before time.Time) (ledger.Entry, bool, error) {
	es, err := all[ledger.Entry](ctx, s, s.r, "control", entryLayout, args{
		"connector": storable(connector), "operation": storable(operation), "before": micros(before)})
	if err != nil || len(es) == 0 {
		return ledger.Entry{}, false, s.readError(ctx, "find a control", err)
	}
	return es[0], true, nil
}
