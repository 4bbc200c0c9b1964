package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// DuplicateStore lists what was flagged as having happened twice, each followed
// by the other entries of its outcome, in the order of flagging.
type DuplicateStore interface {
	Duplicates(ctx context.Context, w ledger.ReportWindow) ([]ledger.Duplicate, error)
	RecoveryStore
}

// preventedNote says what the number of duplicates prevented stands for.
const preventedNote = "prevented: entries received in the window that a look found applied while no answer had said so; " +
	"a resend without looking would have been a second one, unless the system itself refuses that"

// Duplicates reports the outcomes that were found in the window to have come
// about twice, one in each row, and counts the duplicates that looks prevented.
func Duplicates(ctx context.Context, s DuplicateStore, p Params) (*Report, error) {
	r, w, err := begin("duplicates", p, []string{"workflow", "connector", "operation"}, ledger.DuplicateColumns())
	if err != nil {
		return nil, err
	}
	found, err := s.Duplicates(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report duplicates: %w", err)
	}
	by := w.By
	w.By = nil
	counts, err := s.RecoveryCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report duplicates: %w", err)
	}
	r.Columns = append(byColumns(by),
		render.Column{Name: "flagged_at"},
		render.Column{Name: "open"},
		render.Column{Name: "action_keys", Kind: render.Key},
		render.Column{Name: "remote_ids", Blank: "(not known)"},
		render.Column{Name: "why", Wrap: true})
	open, prevented := 0, 0
	for _, t := range twice(found, r.AsOf) {
		r.Rows = append(r.Rows, append(byValues(t.by), t.at, t.open, t.keys, t.ids, t.why))
		if t.open {
			open++
		}
	}
	for _, c := range counts {
		prevented += c.Prevented
	}
	r.Totals = []Total{{"happened", len(r.Rows)}, {"open", open}, {"prevented", prevented}}
	r.Bars = []Bar{{"happened", len(r.Rows)}, {"prevented", prevented}}
	r.Notes = []string{preventedNote}
	return r, nil
}

// happenedTwice is one outcome that came about twice: of one entry, or of
// several with one outcome key.
type happenedTwice struct {
	by   []string
	at   time.Time // when the first of them was flagged
	open bool
	keys []string
	ids  []string
	why  string
}

// twice puts together the entries that brought about the same outcome.
func twice(found []ledger.Duplicate, asOf time.Time) []happenedTwice {
	shared := map[string]bool{} // outcome keys of several entries
	for _, d := range found {
		if d.Of != "" {
			shared[d.OutcomeKey] = true
		}
	}
	var out []happenedTwice
	at := map[string]int{}
	for _, d := range found {
		group := "entry:" + d.ActionKey
		if shared[d.OutcomeKey] {
			group = "outcome:" + d.OutcomeKey
		}
		i, ok := at[group]
		if !ok { // a flagged one: others follow theirs
			i = len(out)
			at[group] = i
			out = append(out, happenedTwice{by: d.By, at: d.FlaggedAt, keys: []string{}, ids: []string{}})
		}
		t := &out[i]
		t.open = t.open || d.Open
		t.keys = union(t.keys, d.ActionKey)
		t.ids = union(t.ids, remoteIDs(d, asOf)...)
	}
	for i := range out {
		t := &out[i]
		switch {
		case len(t.keys) > 1:
			t.why = fmt.Sprintf("%d entries brought about one outcome", len(t.keys))
		case len(t.ids) > 1:
			t.why = fmt.Sprintf("one action, %d records", len(t.ids))
		default:
			t.why = "a look, or a second report, showed more than one record"
		}
	}
	return out
}

// remoteIDs are the ids under which an action is known to have taken effect, in
// the order in which they were learned.
func remoteIDs(d ledger.Duplicate, asOf time.Time) []string {
	type learned struct {
		at time.Time
		id string
	}
	var ls []learned
	for _, a := range d.Attempts {
		if a.Effect == ledger.EffectDone && !a.EffectAt.After(asOf) {
			ls = append(ls, learned{a.EffectAt, a.RemoteID})
		}
	}
	for _, ev := range d.Evidence {
		if ev.SeenAt.After(asOf) || ev.Form == formPerson {
			continue
		}
		switch ev.Finding {
		case ledger.FindingApplied, ledger.FindingReversed:
			ls = append(ls, learned{ev.SeenAt, ev.RemoteID})
		case ledger.FindingDuplicate:
			var seen lookDetail
			if json.Unmarshal(ev.Detail, &seen) != nil {
				continue
			}
			for _, rec := range seen.Records {
				if rec.Standing == "applied" || rec.Standing == "pending" {
					ls = append(ls, learned{ev.SeenAt, rec.ID})
				}
			}
		}
	}
	slices.SortStableFunc(ls, func(a, b learned) int { return a.at.Compare(b.at) })
	var ids []string
	for _, l := range ls {
		if l.id != "" {
			ids = union(ids, l.id)
		}
	}
	return ids
}

// formPerson is the form of evidence that a person gave: a reference, which need
// not be an id of the system.
const formPerson = "person"

// union adds what is not there yet.
func union(to []string, more ...string) []string {
	for _, m := range more {
		if !slices.Contains(to, m) {
			to = append(to, m)
		}
	}
	return to
}
