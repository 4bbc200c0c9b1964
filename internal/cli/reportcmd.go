package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/internal/zone"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// reportOptions are the flags of report.
type reportOptions struct {
	filterFlags
	name      string
	week      string
	by        []string
	timezone  string
	output    string
	csv       render.CSVOptions // all but the delimiter
	delimiter string
}

// reportNames are the names of the reports, in the order of the help.
func reportNames() []string {
	var names []string
	for _, r := range reports.All() {
		names = append(names, r.Name)
	}
	return names
}

// reportHelp lists the reports with what each counts.
func reportHelp() string {
	var b strings.Builder
	for _, r := range reports.All() {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Name, r.Summary)
	}
	return b.String()
}

func newReport(a *app) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report NAME",
		Short: "report what came of a week: " + strings.Join(reportNames(), ", "),
		Long: `report counts over a window of ledger time: the last 7 days (weekly:
the last full week), unless told otherwise.

` + reportHelp() + `
A past window gives the same numbers whenever it is run. Until 15 minutes after
its end a report is provisional, and says so.`,
		Example: `  reconcile report outcomes
  reconcile report outcomes --week 2026-W48 --by workflow,workflow_version
  reconcile report reasons --since 30d --output csv --excel > reasons.csv
  reconcile report queue
  reconcile report outcomes --week 2026-W48 --output html > outcomes.html`,
		Args:      exactly("NAME (" + strings.Join(reportNames(), ", ") + ")"),
		ValidArgs: reportNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.since, "since", "", "count from this `instant` on: 24h, 7d, 2w, 90m, a date, RFC 3339")
	fs.StringVar(&o.until, "until", "", "count up to this `instant`, in the same forms")
	fs.StringVar(&o.week, "week", "", "count this ISO `week`, like 2026-W48")
	fs.StringSliceVar(&o.by, "by", nil, "group by these `columns`, separated by commas")
	fs.StringVar(&o.timezone, "timezone", "", "`zone` of dates and weeks (default: that of the config)")
	fs.StringVar(&o.workflow, "workflow", "", "only entries of this `workflow`")
	fs.StringVar(&o.connector, "connector", "", "only entries of this `connector`")
	fs.StringVar(&o.operation, "operation", "", "only entries of this `operation`")
	fs.BoolVar(&o.csv.Excel, "excel", false, "with --output csv: begin with a byte order mark, so that Excel reads it")
	fs.StringVar(&o.delimiter, "delimiter", "", "with --output csv: the `character` between cells (default a comma; \\t is a tab)")
	fs.BoolVar(&o.csv.TextIDs, "text-ids", false, "with --output csv: write long numbers and leading zeros as =\"0042\", for spreadsheets only")
	fs.BoolVar(&o.csv.RawFormulas, "raw-formulas", false, "with --output csv: leave cells as they are that a spreadsheet would run, for programs only")
	bindOutput(cmd, &o.output, texts(reports.Formats())...)
	return cmd
}

// check tells what was typed wrong, before anything is opened.
func (o reportOptions) check() (render.CSVOptions, error) {
	csv := o.csv
	if !slices.Contains(reportNames(), o.name) {
		return csv, usagef("no report %q%s; there are %s", o.name, nearest.Hint(o.name, reportNames()), strings.Join(reportNames(), ", "))
	}
	if o.week != "" && (o.since != "" || o.until != "") {
		return csv, usagef("--week is a window of its own; leave --since and --until out")
	}
	if o.output != formatCSV && (o.csv != render.CSVOptions{} || o.delimiter != "") {
		return csv, usagef("--excel, --delimiter, --text-ids and --raw-formulas work with --output csv only")
	}
	if o.delimiter != "" {
		d, err := render.ParseDelimiter(o.delimiter)
		if err != nil {
			return csv, usagef("--delimiter: %w", err)
		}
		csv.Delimiter = d
	}
	return csv, nil
}

// zone is where dates and weeks are read.
func (o reportOptions) zone(configured *time.Location) (*time.Location, error) {
	if o.timezone == "" {
		return configured, nil
	}
	loc, err := zone.Load(o.timezone)
	if err != nil {
		return nil, usagef("--timezone: %w", err)
	}
	return loc, nil
}

// window reads --week, or --since and --until.
func (o reportOptions) window(now time.Time, loc *time.Location) (since, until time.Time, err error) {
	if o.week == "" {
		return o.resolve(now, loc)
	}
	if since, until, err = instant.ParseWeek(o.week, loc); err != nil {
		return since, until, usagef("--week: %w", err)
	}
	return since, until, nil
}

func (o reportOptions) run(ctx context.Context, a *app) error {
	csv, err := o.check()
	if err != nil {
		return err
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	loc, err := o.zone(s.zone)
	if err != nil {
		return err
	}
	if _, _, err := o.window(a.Now(), loc); err != nil {
		return err
	}
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	since, until, err := o.window(now, loc)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(reports.All(), func(r reports.Spec) bool { return r.Name == o.name })
	r, err := reports.All()[i].Make(ctx, s.store, reports.Params{
		Since: since, Until: until, Now: now, Zone: loc, By: o.by, RulesVersion: ledger.RulesVersion,
		Filter: ledger.Filter{Workflow: o.workflow, Connector: o.connector, Operation: o.operation},
	})
	var by *reports.ByError
	var window *reports.WindowError
	switch {
	case errors.As(err, &by):
		return usagef("--by: %w", err)
	case errors.As(err, &window):
		return usagef("--since: %w", err)
	}
	if err != nil {
		return err
	}
	return r.Write(a.Out, reports.Layout{Format: reports.Format(o.output), Width: a.Width, CSV: csv})
}
