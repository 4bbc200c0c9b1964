package reports_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// Failures and looks meet in one line, whichever of them a connector has.
func TestConnectorFigures(t *testing.T) {
	by := func(connector string) []string { return []string{connector} }
	s := &counted{
		looks: []ledger.LookCount{{By: by("crm"), Looks: 8, CouldNotAsk: 2, Settled: 3, LooksOfSettled: 7}, {By: by("mail"), Looks: 1}},
		reasons: []ledger.ReasonCount{{By: by("crm"), Reason: "a", Count: 4, Unknown: 1}, {By: by("crm"), Reason: "b", Count: 2},
			{By: by("billing"), Reason: "c", Count: 5, Unknown: 5}},
	}
	r, err := reports.Connectors(t.Context(), s, reports.Params{Now: day(30), By: by("connector")})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]any{
		{"billing", 5, 5, 0, 0, nil, 0, 0, nil},
		{"crm", 6, 1, 8, 2, 0.25, 3, 7, 2.3333},
		{"mail", 0, 0, 1, 0, 0.0, 0, 0, nil},
	}
	if d := cmp.Diff(want, r.Rows); d != "" {
		t.Error(d)
	}
	totals := []reports.Total{{Name: "failures", Count: 11}, {Name: "unknown", Count: 6}, {Name: "looks", Count: 9}, {Name: "could_not_ask", Count: 2}, {Name: "settled", Count: 3}}
	if d := cmp.Diff(totals, r.Totals); d != "" {
		t.Error(d)
	}
}
