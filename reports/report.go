// Package reports makes reports of what a ledger holds, and lays them out as
// table, CSV and JSON; it also says in words what one entry's history means.
// It never changes the ledger and reads no clock: what is "now" is given.
package reports

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// settleIn is how long after its end a window stays provisional. Source:
// docs/rules.md, section 11: what was under way at the end of a week may still
// come to its own end.
const settleIn = 15 * time.Minute

// lastDays is the window of a report that names none.
const lastDays = 7 * 24 * time.Hour

// Params say what a report is to cover.
type Params struct {
	Since, Until time.Time      // ledger time; zero: the seven days before Until, and Now
	Now          time.Time      // the ledger's present time, read once
	Zone         *time.Location // in which a table shows times; nil: UTC
	By           []string       // columns to group by; none: the report's own
	Filter       ledger.Filter  // its window is not used
	// RulesVersion is the version of the rules by which reasons are grouped
	// now. Only Reasons prints it.
	RulesVersion int
}

// Report is what a report found, with one layout for every format.
type Report struct {
	Name         string
	Since, Until time.Time
	AsOf         time.Time // how things stood then is what is counted
	Standing     bool      // what stood at AsOf is counted, whenever it came: Since does not matter
	Provisional  bool      // the window is not over, or only just: the numbers may still change
	Zone         *time.Location
	RulesVersion int // 0: the report does not depend on it
	Columns      []render.Column
	Rows         [][]any
	Totals       []Total
	Notes        []string  // what the reader should know of the numbers
	Bars         []Bar     // what a page draws of it
	Parts        []*Report // of weekly: the reports on the page, whose cells are its rows
}

// Bar is one bar of the chart of a report.
type Bar struct {
	Label string
	Value int
}

// Total is a number over all rows.
type Total struct {
	Name  string
	Count int
}

// begin checks the parameters and makes an empty report and the window to ask
// the store for.
func begin(name string, p Params, byDefault, accepted []string) (*Report, ledger.ReportWindow, error) {
	var errs []error
	if p.Now.IsZero() {
		panic("reports: Params.Now is not set")
	}
	if p.Until.IsZero() {
		p.Until = p.Now
	}
	if p.Since.IsZero() {
		p.Since = p.Until.Add(-lastDays)
	}
	if !p.Since.Before(p.Until) {
		errs = append(errs, &WindowError{p.Since, p.Until})
	}
	if len(p.By) == 0 {
		p.By = byDefault
	}
	for i, c := range p.By {
		switch {
		case !slices.Contains(accepted, c):
			errs = append(errs, &ByError{Report: name, Column: c, Accepted: accepted})
		case slices.Contains(p.By[:i], c):
			errs = append(errs, &ByError{Report: name, Column: c, Twice: true})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, ledger.ReportWindow{}, err
	}
	if p.Zone == nil {
		p.Zone = time.UTC
	}
	r := &Report{Name: name, Since: p.Since.UTC(), Until: p.Until.UTC(), AsOf: p.Until.Add(settleIn).UTC(), Zone: p.Zone}
	if p.Now.Before(r.AsOf) {
		r.AsOf, r.Provisional = p.Now.UTC(), true
	}
	return r, ledger.ReportWindow{Since: r.Since, Until: r.Until, AsOf: r.AsOf, Filter: p.Filter, By: p.By}, nil
}

// WindowError is a window that ends before it begins.
type WindowError struct{ Since, Until time.Time }

func (e *WindowError) Error() string {
	return fmt.Sprintf("the window ends before it begins: since %s, until %s", stamp(e.Since), stamp(e.Until))
}

// ByError is a column that a report cannot be grouped by, or not Twice.
type ByError struct {
	Report   string
	Column   string
	Twice    bool
	Accepted []string
}

func (e *ByError) Error() string {
	if e.Twice {
		return fmt.Sprintf("report %s: column %q is named twice", e.Report, e.Column)
	}
	if len(e.Accepted) == 0 {
		return fmt.Sprintf("report %s cannot be grouped by %q: each report on it has its own lines; group that one", e.Report, e.Column)
	}
	return fmt.Sprintf("report %s cannot be grouped by %q; use one or more of %s", e.Report, e.Column, strings.Join(e.Accepted, ", "))
}

// byColumns are the columns a report is grouped by, as it prints them.
func byColumns(names []string) []render.Column {
	cols := make([]render.Column, len(names))
	for i, n := range names {
		cols[i] = render.Column{Name: n, Blank: "(none)"}
		if n == "workflow_version" {
			cols[i].Brief = "version"
		}
	}
	return cols
}

// byValues begins a row with the values a report is grouped by.
func byValues(by []string) []any {
	row := make([]any, len(by), len(by)+16)
	for i, v := range by {
		row[i] = v
	}
	return row
}

// barLabel names a bar after the line that it stands for.
func barLabel(by []string, what string) string {
	return strings.Join(append(slices.Clone(by), what), " ")
}

// Format is how a report is written.
type Format string

// The formats.
const (
	FormatTable    Format = "table"
	FormatCSV      Format = "csv"
	FormatJSON     Format = "json"
	FormatMarkdown Format = "markdown"
	FormatHTML     Format = "html" // one file, for a browser, a printer or a mail
)

// Formats lists the formats a report can be written in.
func Formats() []Format {
	return []Format{FormatTable, FormatCSV, FormatJSON, FormatMarkdown, FormatHTML}
}

// Layout says how a report is written.
type Layout struct {
	Format Format // "" is FormatTable
	Width  int    // of a table: columns of the terminal; 0: a pipe or a file
	CSV    render.CSVOptions
}

// Write writes the report. The same rows are in every format, and in CSV and
// JSON the same columns; the window, and what else is said of them, in all but
// CSV.
func (r *Report) Write(w io.Writer, l Layout) error {
	switch l.Format {
	case "", FormatTable:
		return r.table(w, l.Width)
	case FormatCSV:
		return render.CSV(w, render.Names(r.Columns), render.Slice(r.Rows), l.CSV)
	case FormatJSON:
		return r.json(w)
	case FormatMarkdown:
		return r.markdown(w)
	case FormatHTML:
		return r.html(w)
	}
	return fmt.Errorf("format %q: reports are written as %s", l.Format, strings.Join(list(Formats()), ", "))
}

func (r *Report) json(w io.Writer) error {
	v := struct {
		Report       string         `json:"report"`
		Since        time.Time      `json:"since"`
		Until        time.Time      `json:"until"`
		AsOf         time.Time      `json:"as_of"`
		Provisional  bool           `json:"provisional"`
		Timezone     string         `json:"timezone"`
		RulesVersion int            `json:"rules_version,omitempty"`
		Rows         any            `json:"rows"`
		Totals       map[string]int `json:"totals"`
		Notes        []string       `json:"notes,omitempty"`
	}{r.Name, r.Since, r.Until, r.AsOf, r.Provisional, r.Zone.String(), r.RulesVersion, r.objects(), r.totals(), r.Notes}
	if len(r.Parts) > 0 {
		v.Rows = r.parts()
	}
	return render.JSON(w, v)
}

// part is a report on a page, in JSON.
type part struct {
	Report string          `json:"report"`
	Rows   []render.Object `json:"rows"`
	Totals map[string]int  `json:"totals"`
	Notes  []string        `json:"notes,omitempty"`
}

func (r *Report) parts() []part {
	out := make([]part, len(r.Parts))
	for i, p := range r.Parts {
		out[i] = part{p.Name, p.objects(), p.totals(), p.Notes}
	}
	return out
}

func (r *Report) objects() []render.Object {
	out := make([]render.Object, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = render.Object{Columns: r.Columns, Row: row}
	}
	return out
}

func (r *Report) totals() map[string]int {
	out := map[string]int{}
	for _, t := range r.Totals {
		out[t.Name] = t.Count
	}
	return out
}

// table writes the heading, then for each report on it the rows, and how many
// there are. A terminal shows of each as much as a page.
func (r *Report) table(w io.Writer, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", render.Wrap(r.heading(), width))
	for _, s := range r.sections() {
		b.WriteByte('\n')
		if s != r {
			fmt.Fprintf(&b, "%s\n\n", s.Name)
		}
		rows, notes := s.Rows, s.footing()
		if width > 0 {
			rows, notes = r.shown(s)
		}
		if len(rows) > 0 {
			spec := render.TableSpec{Columns: s.Columns, Rows: render.Slice(rows), Width: width, Now: r.AsOf, Stack: true, Brief: s != r}
			if err := render.Table(&b, spec); err != nil {
				return err
			}
			b.WriteByte('\n')
		}
		for _, line := range notes {
			fmt.Fprintf(&b, "%s\n", render.Wrap(line, width))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// at is a moment in the reader's zone.
func (r *Report) at(t time.Time) string { return t.In(r.Zone).Format("2006-01-02 15:04") }

// heading says what the report covers, in the reader's zone.
func (r *Report) heading() string { return r.Name + ": " + r.window() }

func (r *Report) window() string {
	s := fmt.Sprintf("%s to %s (%s), as of %s", r.at(r.Since), r.at(r.Until), r.Zone, r.at(r.AsOf))
	if r.Standing {
		s = fmt.Sprintf("as of %s (%s)", r.at(r.AsOf), r.Zone)
	}
	if r.Provisional {
		s += ", provisional"
	}
	if r.RulesVersion > 0 {
		s += fmt.Sprintf(", rules version %d", r.RulesVersion)
	}
	return s
}

// footing says how many rows there are, the totals and the notes, a line each.
func (r *Report) footing() []string {
	s := strconv.Itoa(len(r.Rows)) + " rows"
	if len(r.Rows) == 1 {
		s = "1 row"
	}
	if len(r.Rows) > 0 || slices.ContainsFunc(r.Totals, func(t Total) bool { return t.Count != 0 }) {
		for _, t := range r.Totals {
			s += fmt.Sprintf(", %s %d", t.Name, t.Count)
		}
	}
	lines := []string{s}
	for _, n := range r.Notes {
		lines = append(lines, render.Visible(n))
	}
	return lines
}
