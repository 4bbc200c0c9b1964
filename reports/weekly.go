package reports

import (
	"context"
	"fmt"
	"slices"
	"time"

	weeks "github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Weekly is all reports on one page, over the last full week of p.Zone unless p
// has a window. Its rows are those of its parts, a cell each, as CSV has no place
// for several tables.
func Weekly(ctx context.Context, s Store, p Params) (*Report, error) {
	if p.Since.IsZero() && p.Until.IsZero() {
		var err error
		if p.Since, p.Until, err = lastWeek(p.Now, p.Zone); err != nil {
			return nil, err
		}
	}
	r, _, err := begin("weekly", p, nil, nil)
	if err != nil {
		return nil, err
	}
	m := &memory{Store: s}
	for _, make := range []func(p Params) (*Report, error){
		func(p Params) (*Report, error) {
			p.By = []string{"workflow", "workflow_version"} // a line for each version, as a review goes by them
			return Outcomes(ctx, m, p)
		},
		func(p Params) (*Report, error) { return Reasons(ctx, m, p) },
		func(p Params) (*Report, error) { return Recovery(ctx, m, p) },
		func(p Params) (*Report, error) { return Connectors(ctx, m, p) },
		func(p Params) (*Report, error) { return Queue(ctx, m, p) },
		func(p Params) (*Report, error) { return Duplicates(ctx, m, p) },
	} {
		part, err := make(p)
		if err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, part)
		r.RulesVersion = max(r.RulesVersion, part.RulesVersion)
		for i, row := range part.Rows {
			for k, c := range part.Columns {
				r.Rows = append(r.Rows, []any{part.Name, i + 1, c.Name, row[k]})
			}
		}
	}
	r.Columns = []render.Column{{Name: "report"}, {Name: "line", Kind: render.Number}, {Name: "column"}, {Name: "value"}}
	return r, nil
}

// lastWeek is the last week, Monday to Monday in a zone, that is over.
func lastWeek(now time.Time, zone *time.Location) (since, until time.Time, err error) {
	if zone == nil {
		zone = time.UTC
	}
	year, week := now.In(zone).AddDate(0, 0, -7).ISOWeek()
	return weeks.ParseWeek(fmt.Sprintf("%04d-W%02d", year, week), zone)
}

// memory is a store that counts once what several reports of one page and one
// window need.
type memory struct {
	Store
	reasons  []ledger.ReasonCount
	recovery []ledger.RecoveryCount
}

// ReasonCounts counts reasons; those by connector and operation follow from
// those by nothing, as each has its own.
func (m *memory) ReasonCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.ReasonCount, error) {
	if m.reasons != nil && slices.Equal(w.By, []string{"connector", "operation"}) {
		cs := slices.Clone(m.reasons)
		for i, c := range cs {
			cs[i].By = []string{c.Connector, c.Operation}
		}
		return cs, nil
	}
	cs, err := m.Store.ReasonCounts(ctx, w)
	if err == nil && len(w.By) == 0 {
		m.reasons = slices.Clone(cs)
	}
	return cs, err
}

// RecoveryCounts counts recoveries; where they are asked for by nothing, the
// lines of those counted before serve as well: they add up to the same.
func (m *memory) RecoveryCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.RecoveryCount, error) {
	if m.recovery != nil && len(w.By) == 0 {
		return m.recovery, nil
	}
	cs, err := m.Store.RecoveryCounts(ctx, w)
	m.recovery = cs
	return cs, err
}
