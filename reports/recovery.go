package reports

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// RecoveryStore counts what became of entries. The counts come sorted by the
// values of By.
type RecoveryStore interface {
	RecoveryCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.RecoveryCount, error)
}

// Recovery reports how much of what was received in the window failed at first,
// how much of that came to a good end, and how long it took. docs/reports.md
// gives numerator and denominator of each figure.
func Recovery(ctx context.Context, s RecoveryStore, p Params) (*Report, error) {
	r, w, err := begin("recovery", p, []string{"workflow", "workflow_version"}, ledger.RecoveryColumns())
	if err != nil {
		return nil, err
	}
	counts, err := s.RecoveryCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report recovery: %w", err)
	}
	aside := func(name string) render.Column { return render.Column{Name: name, Kind: render.Number, Aside: true} }
	rate := func(name, head, brief string) render.Column {
		return render.Column{Name: name, Head: head, Brief: brief, Kind: render.Percent, Blank: "-"}
	}
	span := func(name, head, brief string) render.Column {
		return render.Column{Name: name, Head: head, Brief: brief, Kind: render.Number, Blank: "-"}
	}
	r.Columns = append(byColumns(w.By),
		render.Column{Name: "entries", Kind: render.Number},
		aside("tried"), aside("initial_failed"), rate("initial_failure_rate", "1st failed", "1st fail"),
		aside("retried"), aside("recovered"), rate("retry_recovery_rate", "recovered", "retry ok"),
		aside("applied"), aside("attempts"), span("attempts_per_success", "tries/ok", "tries/ok"),
		aside("ended"), aside("failed"), rate("final_failure_rate", "final failed", "failed"),
		render.Column{Name: "duplicates_prevented", Head: "prevented", Kind: render.Number},
		span("recovery_seconds_p50", "recover p50", "rec p50"), span("recovery_seconds_p95", "recover p95", "rec p95"),
		span("settle_seconds_p50", "settle p50", "set p50"), span("settle_seconds_p95", "settle p95", "set p95"))
	var all ledger.RecoveryCount
	for _, c := range counts {
		r.Rows = append(r.Rows, append(byValues(c.By),
			c.Entries, c.Tried, c.FirstFailed, ratio(c.FirstFailed, c.Tried),
			c.Retried, c.Recovered, ratio(c.Recovered, c.Retried),
			c.Applied, c.Attempts, ratio(c.Attempts, c.Applied),
			c.Ended, c.Failed, ratio(c.Failed, c.Ended), c.Prevented,
			took(c.RecoverTimed, c.RecoverP50), took(c.RecoverTimed, c.RecoverP95),
			took(c.SettleTimed, c.SettleP50), took(c.SettleTimed, c.SettleP95)))
		all.Entries, all.Tried, all.FirstFailed = all.Entries+c.Entries, all.Tried+c.Tried, all.FirstFailed+c.FirstFailed
		all.Retried, all.Recovered = all.Retried+c.Retried, all.Recovered+c.Recovered
		all.Ended, all.Failed, all.Prevented = all.Ended+c.Ended, all.Failed+c.Failed, all.Prevented+c.Prevented
	}
	r.Totals = []Total{{"entries", all.Entries}, {"tried", all.Tried}, {"initial_failed", all.FirstFailed}, {"retried", all.Retried},
		{"recovered", all.Recovered}, {"ended", all.Ended}, {"failed", all.Failed}, {"duplicates_prevented", all.Prevented}}
	r.Bars = []Bar{{"entries", all.Entries}, {"failed at first", all.FirstFailed}, {"tried again", all.Retried}, {"recovered", all.Recovered},
		{"failed for good", all.Failed}, {"duplicates prevented", all.Prevented}}
	return r, nil
}

// ratio is a part of a whole, to four decimals; nil where there is no whole.
func ratio(part, whole int) any {
	if whole == 0 {
		return nil
	}
	return math.Round(float64(part)/float64(whole)*1e4) / 1e4
}

// took is a span of time of n things; nil where there are none.
func took(n int, d time.Duration) any {
	if n == 0 {
		return nil
	}
	return d
}
