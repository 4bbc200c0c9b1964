package reports

import (
	"context"
	"fmt"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// OutcomeStore counts entries by report class. The counts come sorted by the
// values of By.
type OutcomeStore interface {
	OutcomeCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.OutcomeCount, error)
}

// Outcomes reports how the entries received in the window ended, or where they
// stand: one column per report class. The classes add up to the total in every
// row.
func Outcomes(ctx context.Context, s OutcomeStore, p Params) (*Report, error) {
	r, w, err := begin("outcomes", p, []string{"workflow", "workflow_version", "connector", "operation"}, ledger.OutcomeColumns())
	if err != nil {
		return nil, err
	}
	counts, err := s.OutcomeCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report outcomes: %w", err)
	}
	classes := ledger.ReportClasses()
	r.Columns = byColumns(w.By)
	for _, c := range classes {
		r.Columns = append(r.Columns, render.Column{Name: string(c), Kind: render.Number, Brief: briefClasses[c]})
	}
	r.Columns = append(r.Columns, render.Column{Name: "total", Kind: render.Number}, render.Column{Name: "flagged", Kind: render.Number})

	sums := make([]int, len(classes))
	total, flagged := 0, 0
	for _, c := range counts {
		row := byValues(c.By)
		for i, class := range classes {
			row = append(row, c.Classes[class])
			sums[i] += c.Classes[class]
		}
		r.Rows = append(r.Rows, append(row, c.Total, c.Flagged))
		total, flagged = total+c.Total, flagged+c.Flagged
	}
	r.Totals = []Total{{"total", total}, {"flagged", flagged}}
	for i, class := range classes {
		r.Totals = append(r.Totals, Total{string(class), sums[i]})
		r.Bars = append(r.Bars, Bar{string(class), sums[i]})
	}
	return r, nil
}

// briefClasses are the names of the longer classes above a narrow column.
var briefClasses = map[ledger.ReportClass]string{
	ledger.ReportManuallyResolved:    "manually",
	ledger.ReportRecoveredAfterRetry: "by retry",
	ledger.ReportConfirmedByLookup:   "by look",
	ledger.ReportFirstAttemptSuccess: "at first",
	ledger.ReportPermanentlyFailed:   "failed",
}
