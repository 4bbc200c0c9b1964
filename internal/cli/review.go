package cli

import (
	"context"
	"iter"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

func newReview(a *app) *cobra.Command {
	return parent("review", "see and decide what waits for a person", newReviewList(a),
		newReviewAction(a, ledger.ActionTake), newReviewAction(a, ledger.ActionRetry), newReviewAction(a, ledger.ActionResolve),
		newReviewAction(a, ledger.ActionCancel), newReviewAction(a, ledger.ActionAssign), newReviewAction(a, ledger.ActionSnooze))
}

// reviewListOptions are the flags of review list.
type reviewListOptions struct {
	filterFlags
	limit  int
	output string
}

func newReviewList(a *app) *cobra.Command {
	var o reviewListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list what waits for a person: escalated entries and open flags",
		Example: `  reconcile review list
  reconcile review list --owner revops --output json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	fs := cmd.Flags()
	o.windowFlags.bind(fs)
	o.bindReview(cmd)
	fs.IntVar(&o.limit, "limit", 0, "print at most `n` entries (0: all)")
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

// bindReview adds the flags that narrow the review queue, but for its window.
func (f *filterFlags) bindReview(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.workflow, "workflow", "", "only entries of this `workflow`")
	fs.StringVar(&f.connector, "connector", "", "only entries of this `connector`")
	fs.StringVar(&f.operation, "operation", "", "only entries of this `operation`")
	fs.StringVar(&f.owner, "owner", "", "only entries of this `owner`")
	fs.StringVar(&f.reason, "reason", "", "only entries that stand where they stand for this reason `code`")
	fs.StringVar(&f.state, "state", "", "only entries in this `state`: escalated, or settled with an open flag")
	fs.StringVar(&f.class, "class", "", "only entries of this report `class`")
	fs.BoolVar(&f.flagged, "flagged", false, "only entries with an open flag")
	complete(cmd, "state", texts(ledger.States()))
	complete(cmd, "class", texts(ledger.ReportClasses()))
}

func (o reviewListOptions) run(ctx context.Context, a *app) error {
	if o.limit < 0 {
		return usagef("--limit %d: give a number of entries, or 0 for all", o.limit)
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	f, now, err := s.selection(ctx, o.filterFlags, s.openLedger)
	if err != nil {
		return err
	}
	es, err := waiting(ctx, s, f)
	if err != nil {
		return err
	}
	_, all, err := s.store.Count(ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	matching := len(es)
	if o.limit > 0 && len(es) > o.limit {
		es = es[:o.limit]
	}
	if o.output == formatJSON {
		err = render.JSONArray(a.Out, func(yield func(reports.EntryView, error) bool) {
			for _, e := range es {
				if !yield(reports.ViewEntry(e, false), nil) {
					return
				}
			}
		})
	} else {
		cols := reviewColumns
		if o.output == formatCSV {
			cols = entryCSVColumns
		}
		err = a.table(o.output, entryNames(cols), rowsOf(cols, es), now)
	}
	if err != nil {
		return err
	}
	a.note("%s of %s", plural(matching, "entry waits for a person", "entries wait for a person"), plural(all, "entry", "entries"))
	return nil
}

// waiting lists escalated entries and those with an open flag, as far as the
// filter selects them: longest due first.
func waiting(ctx context.Context, s *session, f ledger.Filter) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for _, flagged := range []bool{false, true} {
		g := f
		g.Flagged = flagged || f.Flagged
		if !flagged {
			if f.State != "" && f.State != ledger.StateEscalated {
				continue
			}
			g.State = ledger.StateEscalated
		}
		p := &pager{ctx: ctx, session: s, filter: g}
		for e, err := range p.all {
			if err != nil {
				return nil, err
			}
			if flagged && e.State == ledger.StateEscalated {
				continue // listed already
			}
			out = append(out, e)
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i].DueAt, out[j].DueAt
		switch {
		case a.IsZero() != b.IsZero():
			return b.IsZero()
		case !a.Equal(b):
			return a.Before(b)
		}
		return out[i].ActionKey < out[j].ActionKey
	})
	return out, nil
}

// reviewColumns are what a person needs to decide.
var reviewColumns = []entryColumn{
	{render.Column{Name: "action_key", Kind: render.Key}, func(e ledger.Entry) any { return e.ActionKey }},
	{render.Column{Name: "owner"}, func(e ledger.Entry) any { return e.Owner }},
	{render.Column{Name: "due_at", Blank: "-"}, func(e ledger.Entry) any { return e.DueAt }},
	{render.Column{Name: "effect"}, func(e ledger.Entry) any { return e.Effect }},
	{render.Column{Name: "flags", Blank: "-"}, func(e ledger.Entry) any { return texts(e.Flags) }},
	{render.Column{Name: "allowed", Wrap: true}, func(e ledger.Entry) any { return texts(e.Allowed) }},
	{render.Column{Name: "because", Wrap: true}, because},
}

// because says why an entry waits for a person: why it was escalated, and what
// its open flags stand for.
func because(e ledger.Entry) any {
	var parts []string
	if e.State == ledger.StateEscalated {
		parts = append(parts, reports.Plain(e.Reason))
	}
	for _, f := range e.Flags {
		parts = append(parts, reports.PlainFlag(f))
	}
	return strings.Join(parts, "; ")
}

func rowsOf(cols []entryColumn, es []ledger.Entry) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, e := range es {
			row := make([]any, len(cols))
			for i, c := range cols {
				row[i] = c.value(e)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
