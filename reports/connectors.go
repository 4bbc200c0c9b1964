package reports

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// LookStore counts looks, and what they settled, in whatever order.
type LookStore interface {
	LookCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.LookCount, error)
	ReasonStore
}

// Connectors reports how the outside systems did in the window: how many
// attempts failed there, how often they were asked and could not be, and how many
// looks it took to settle an entry.
func Connectors(ctx context.Context, s LookStore, p Params) (*Report, error) {
	r, w, err := begin("connectors", p, []string{"connector", "operation"}, ledger.LookColumns())
	if err != nil {
		return nil, err
	}
	looks, err := s.LookCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report connectors: %w", err)
	}
	reasons, err := s.ReasonCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report connectors: %w", err)
	}
	r.Columns = append(byColumns(w.By),
		render.Column{Name: "failures", Kind: render.Number},
		render.Column{Name: "unknown", Kind: render.Number},
		render.Column{Name: "looks", Kind: render.Number},
		render.Column{Name: "could_not_ask", Kind: render.Number},
		render.Column{Name: "could_not_ask_rate", Head: "in vain", Kind: render.Percent, Blank: "-"},
		render.Column{Name: "settled", Kind: render.Number},
		render.Column{Name: "looks_of_settled", Kind: render.Number, Aside: true},
		render.Column{Name: "looks_per_settled", Head: "looks each", Kind: render.Number, Blank: "-"})
	var all connectorCount
	for _, c := range byConnector(looks, reasons) {
		r.Rows = append(r.Rows, append(byValues(c.By), c.failures, c.unknown, c.Looks, c.CouldNotAsk, ratio(c.CouldNotAsk, c.Looks),
			c.Settled, c.LooksOfSettled, ratio(c.LooksOfSettled, c.Settled)))
		if len(r.Bars) < mostBars {
			r.Bars = append(r.Bars, Bar{barLabel(c.By, "failures"), c.failures}, Bar{barLabel(c.By, "looks"), c.Looks})
		}
		all.failures, all.unknown = all.failures+c.failures, all.unknown+c.unknown
		all.Looks, all.CouldNotAsk, all.Settled = all.Looks+c.Looks, all.CouldNotAsk+c.CouldNotAsk, all.Settled+c.Settled
	}
	r.Totals = []Total{{"failures", all.failures}, {"unknown", all.unknown}, {"looks", all.Looks}, {"could_not_ask", all.CouldNotAsk}, {"settled", all.Settled}}
	return r, nil
}

// connectorCount is what is known of one connector, or whatever lines are by.
type connectorCount struct {
	ledger.LookCount
	failures int
	unknown  int // of failures: of unknown effect
}

// byConnector puts looks and failures together, sorted by the values of By.
func byConnector(looks []ledger.LookCount, reasons []ledger.ReasonCount) []connectorCount {
	counts := map[string]*connectorCount{}
	of := func(by []string) *connectorCount {
		key := strings.Join(by, "\x00")
		if counts[key] == nil {
			counts[key] = &connectorCount{LookCount: ledger.LookCount{By: by}}
		}
		return counts[key]
	}
	for _, l := range looks {
		of(l.By).LookCount = l
	}
	for _, c := range reasons {
		n := of(c.By)
		n.failures += c.Count
		n.unknown += c.Unknown
	}
	out := make([]connectorCount, 0, len(counts))
	for _, c := range counts {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b connectorCount) int { return slices.Compare(a.By, b.By) })
	return out
}
