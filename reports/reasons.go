package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// ReasonStore counts failed attempts by reason.
type ReasonStore interface {
	ReasonCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.ReasonCount, error)
}

// Kind is what a group of failures asks for.
type Kind string

// The kinds, the most careful one first.
const (
	KindHighRisk  Kind = "high_risk" // doing it twice has grave consequences
	KindAmbiguous Kind = "ambiguous" // it may have happened
	KindPermanent Kind = "permanent" // it will fail again
	KindTemporary Kind = "temporary" // it passes by itself
)

// KindOf is the kind of a group: that of its most delicate failure, so that no
// one retries a group by hand for its harmless part. Source:
// docs/rules.md, section 4.
func KindOf(c ledger.ReasonCount) Kind {
	switch {
	case c.HighRisk > 0:
		return KindHighRisk
	case c.Unknown > 0:
		return KindAmbiguous
	case c.Class.Temporary():
		return KindTemporary
	}
	return KindPermanent
}

// suggestions says what usually helps against a class of failure.
var suggestions = map[ledger.Class]string{
	ledger.ClassValidation:       "correct the data or the mapping in the workflow; a corrected payload is a new action key with replaces",
	ledger.ClassAuth:             "renew the credential; the lane goes on by itself once it works",
	ledger.ClassPermission:       "grant the credential the missing right, then retry",
	ledger.ClassNotFound:         "see why the record is missing: removed, merged, or not made yet by an earlier step",
	ledger.ClassConflict:         "compare with the record that is there; a person decides",
	ledger.ClassAlreadyExists:    "look the existing record up; the first try may have worked",
	ledger.ClassDuplicateRequest: "one key went out with two contents: find what changes the payload between attempts",
	ledger.ClassRateLimit:        "lower the rate of the lane or raise the limit; waits that the system asks for are kept",
	ledger.ClassQuota:            "raise the quota or spread the load; the lane waits until it is renewed",
	ledger.ClassTimeout:          "let looks settle it; if it recurs, compare the timeout with how long the system takes",
	ledger.ClassNetwork:          "let looks settle it; if it recurs, check the route, DNS and proxies to the system",
	ledger.ClassUnavailable:      "wait for the system; if it recurs, compare with its status page",
	ledger.ClassServerError:      "let looks settle it; if it recurs, report it to the vendor with the sample",
	ledger.ClassLockConflict:     "run fewer at a time on one record, or order the steps",
	ledger.ClassBlockedByEdge:    "ask who runs the firewall or proxy in front of the system to let these requests pass",
	ledger.ClassSilentNoop:       "the system said yes and did nothing: check what proves the operation, and the request",
	ledger.ClassConsent:          "do not resend; ask for consent again, or take the record out of the workflow",
	ledger.ClassRejected:         "see why the system refused it for good; correct it and record a new action key",
	ledger.ClassUnknown:          "add an errors rule to the connector, so that this answer has a class",
}

// Suggest says what usually helps against a class of failure.
func Suggest(c ledger.Class) string {
	if s, ok := suggestions[c]; ok {
		return s
	}
	return suggestions[ledger.ClassUnknown]
}

// mostBars is how many bars a chart has at most.
const mostBars = 10

// Reasons reports why attempts failed in the window, the most frequent reason
// first. FirstSeen reaches back to the first time ever. With Params.By each
// reason is split by these columns, which then come first.
func Reasons(ctx context.Context, s ReasonStore, p Params) (*Report, error) {
	r, w, err := begin("reasons", p, nil, ledger.ReasonColumns())
	if err != nil {
		return nil, err
	}
	own := []string{"connector", "operation"} // every row has them anyway
	w.By = slices.DeleteFunc(slices.Clone(w.By), func(c string) bool { return slices.Contains(own, c) })
	counts, err := s.ReasonCounts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("report reasons: %w", err)
	}
	slices.SortFunc(counts, func(a, b ledger.ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Connector, b.Connector), cmp.Compare(a.Operation, b.Operation),
			cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Reason, b.Reason),
			slices.Compare(a.By, b.By))
	})
	r.Columns = append(byColumns(w.By),
		render.Column{Name: "reason", Kind: render.Key, Finer: true},
		render.Column{Name: "connector"},
		render.Column{Name: "operation", Wordy: true},
		render.Column{Name: "class", Blank: "(none)"},
		render.Column{Name: "code", Finer: true},
		render.Column{Name: "text"},
		render.Column{Name: "kind"},
		render.Column{Name: "count", Kind: render.Number},
		render.Column{Name: "previous", Kind: render.Number},
		render.Column{Name: "versions"},
		render.Column{Name: "first_seen", Finer: true},
		render.Column{Name: "last_seen", Wordy: true},
		render.Column{Name: "suggests", Wordy: true},
		render.Column{Name: "sample_key", Kind: render.Key})

	r.RulesVersion = p.RulesVersion
	count, older := 0, 0
	for _, c := range counts {
		versions := c.Versions
		if versions == nil {
			versions = []string{} // an array in JSON, never null
		}
		r.Rows = append(r.Rows, append(byValues(c.By), c.Reason, c.Connector, c.Operation, c.Class, c.Code, c.Text, KindOf(c), c.Count, c.Previous,
			versions, c.FirstSeen, c.LastSeen, Suggest(c.Class), c.SampleKey))
		if len(r.Bars) < mostBars {
			r.Bars = append(r.Bars, Bar{strings.Join(slices.Concat(c.By, []string{c.Connector, c.Operation, string(c.Class), c.Text}), " "), c.Count})
		}
		count += c.Count
		r.RulesVersion = max(r.RulesVersion, c.RulesVersion)
	}
	for _, c := range counts {
		if c.RulesVersion < r.RulesVersion {
			older++
		}
	}
	r.Totals = []Total{{"count", count}}
	if older > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("rows grouped by older rules: %d; group them anew with: reconcile regroup", older))
	}
	return r, nil
}
