package reports

import (
	"context"
	"fmt"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// QueueStore counts what waits at a moment. The counts come sorted by the
// values of By and by what is waited for.
type QueueStore interface {
	QueueCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.QueueCount, error)
}

// Queue reports what waited for a person or a release condition at AsOf, by
// owner: how much, since when, how much of it is late, and what is due next.
// Each entry is in one line. The beginning of the window does not matter.
func Queue(ctx context.Context, s QueueStore, p Params) (*Report, error) {
	r, w, err := begin("queue", p, []string{"owner"}, ledger.QueueColumns())
	if err != nil {
		return nil, err
	}
	counts, err := s.QueueCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report queue: %w", err)
	}
	r.Standing = true
	r.Columns = append(byColumns(w.By),
		render.Column{Name: "waits"},
		render.Column{Name: "count", Kind: render.Number},
		render.Column{Name: "flagged", Kind: render.Number},
		render.Column{Name: "overdue", Kind: render.Number},
		render.Column{Name: "oldest", Blank: "-"},
		render.Column{Name: "due_next", Blank: "-"})
	count, flagged, overdue := 0, 0, 0
	for _, c := range counts {
		r.Rows = append(r.Rows, append(byValues(c.By), c.Waits, c.Count, c.Flagged, c.Overdue, c.Oldest, c.DueNext))
		if len(r.Bars) < mostBars {
			r.Bars = append(r.Bars, Bar{barLabel(c.By, string(c.Waits)), c.Count})
		}
		count, flagged, overdue = count+c.Count, flagged+c.Flagged, overdue+c.Overdue
	}
	r.Totals = []Total{{"count", count}, {"flagged", flagged}, {"overdue", overdue}}
	return r, nil
}
