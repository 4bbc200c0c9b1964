package reports_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

func TestDuplicateRows(t *testing.T) {
	done := func(id string, at int) ledger.Attempt {
		return ledger.Attempt{Effect: ledger.EffectDone, RemoteID: id, EffectAt: day(at)}
	}
	look := func(f ledger.Finding, id string, at int, detail string) ledger.Evidence {
		return ledger.Evidence{Finding: f, RemoteID: id, SeenAt: day(at), Detail: []byte(detail)}
	}
	person := look(ledger.FindingApplied, "ticket 7", 17, "")
	person.Form = "person"
	tests := map[string]struct {
		found []ledger.Duplicate
		keys  [][]string
		ids   [][]string
		open  []bool
		why   []string
	}{
		"one action, the ids from reports and from a look, what was refused and what a person wrote left out": {
			found: []ledger.Duplicate{{ActionKey: "k", FlaggedAt: day(17), Open: true,
				Attempts: []ledger.Attempt{done("a", 16), {Effect: ledger.EffectNotDone, RemoteID: "refused"}, done("late", 29)},
				Evidence: []ledger.Evidence{person, look(ledger.FindingAbsent, "x", 16, ""),
					look(ledger.FindingDuplicate, "", 17, `{"records":[{"id":"a","standing":"applied"},{"id":"b","standing":"pending"},{"id":"c","standing":"rejected"}]}`)}}},
			keys: [][]string{{"k"}}, ids: [][]string{{"a", "b"}}, open: []bool{true}, why: []string{"one action, 2 records"}},
		"two entries of one outcome, both flagged: one row": {
			found: []ledger.Duplicate{{ActionKey: "k1", OutcomeKey: "o", FlaggedAt: day(17), Attempts: []ledger.Attempt{done("a", 17)}},
				{ActionKey: "k2", OutcomeKey: "o", Of: "k1", Attempts: []ledger.Attempt{done("b", 16)}},
				{ActionKey: "k2", OutcomeKey: "o", FlaggedAt: day(18), Open: true, Attempts: []ledger.Attempt{done("b", 16)}},
				{ActionKey: "k1", OutcomeKey: "o", Of: "k2", Attempts: []ledger.Attempt{done("a", 17)}}},
			keys: [][]string{{"k1", "k2"}}, ids: [][]string{{"a", "b"}}, open: []bool{true}, why: []string{"2 entries brought about one outcome"}},
		"two actions without outcome key: two rows": {
			found: []ledger.Duplicate{{ActionKey: "k1", FlaggedAt: day(17)}, {ActionKey: "k2", FlaggedAt: day(18), Evidence: []ledger.Evidence{look(ledger.FindingReversed, "r", 18, "")}}},
			keys:  [][]string{{"k1"}, {"k2"}}, ids: [][]string{{}, {"r"}}, open: []bool{false, false},
			why: []string{"a look, or a second report, showed more than one record", "a look, or a second report, showed more than one record"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &counted{twice: tc.found, recovery: []ledger.RecoveryCount{{Prevented: 5}}}
			r, err := reports.Duplicates(t.Context(), s, reports.Params{Since: day(16), Until: day(23), Now: day(30), By: []string{"workflow"}})
			if err != nil {
				t.Fatal(err)
			}
			var keys, ids [][]string
			var open []bool
			var why []string
			for _, row := range r.Rows {
				n := len(row)
				open, keys, ids, why = append(open, row[n-4].(bool)), append(keys, row[n-3].([]string)), append(ids, row[n-2].([]string)), append(why, row[n-1].(string))
			}
			if d := cmp.Diff([]any{tc.keys, tc.ids, tc.open, tc.why}, []any{keys, ids, open, why}); d != "" {
				t.Error(d)
			}
			if r.Totals[0].Count != len(tc.keys) || r.Totals[2].Count != 5 || len(s.asked.By) != 0 {
				t.Errorf("totals %v, prevented counted by %v", r.Totals, s.asked.By)
			}
		})
	}
}

// The figures of a small ledger, counted by hand: of 8 tried 3 failed at first,
// of 2 tried again 1 came through, 6 of 7 ended well after 8 attempts.
func TestRecoveryFigures(t *testing.T) {
	s := &counted{recovery: []ledger.RecoveryCount{{By: []string{"w"}, Entries: 9, Tried: 8, FirstFailed: 3, Retried: 2, Recovered: 1, Applied: 6, Attempts: 8,
		Ended: 7, Failed: 1, Prevented: 1}}}
	r, err := reports.Recovery(t.Context(), s, reports.Params{Now: day(30), By: []string{"workflow"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"w", 9, 8, 3, 0.375, 2, 1, 0.5, 6, 8, 1.3333, 7, 1, 0.1429, 1, nil, nil, nil, nil}
	if d := cmp.Diff([][]any{want}, r.Rows); d != "" {
		t.Error(d)
	}
}
