package sqlstore

import (
	"context"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Whole is Entries with everything that belongs to each entry, payload
// included, for an export: four statements a page instead of three an entry.
func (s *Store) Whole(ctx context.Context, f ledger.Filter, after string, limit int) ([]ledger.Restored, error) {
	es, err := s.Entries(ctx, f, after, limit, true)
	if err != nil || len(es) == 0 {
		return nil, err
	}
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.ID
	}
	attempts, err := s.attemptsOf(ctx, s.r, ids)
	if err != nil {
		return nil, s.readError(ctx, "read attempts", err)
	}
	list, err := s.d.list(ids)
	if err != nil {
		return nil, err
	}
	evidence, err := all[ledger.Evidence](ctx, s, s.r, "evidence_of", evidenceLayout, args{"ids": list})
	if err != nil {
		return nil, s.readError(ctx, "read evidence", err)
	}
	history, err := all[ledger.History](ctx, s, s.r, "history_of", historyLayout, args{"ids": list})
	if err != nil {
		return nil, s.readError(ctx, "read history", err)
	}
	out := make([]ledger.Restored, len(es))
	at := make(map[int64]*ledger.Restored, len(es))
	for i, e := range es {
		out[i].Entry, out[i].Attempts = e, attempts[e.ID]
		at[e.ID] = &out[i]
	}
	for _, v := range evidence {
		at[v.EntryID].Evidence = append(at[v.EntryID].Evidence, v)
	}
	for _, h := range history {
		at[h.EntryID].History = append(at[h.EntryID].History, h)
	}
	return out, nil
}
