package reports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// The page run on a Monday morning covers the full week before, in its zone: on
// the same moment, in New York it is still Sunday.
func TestWeeklyCoversTheLastFullWeek(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		now          time.Time
		zone         *time.Location
		since, until string
	}{
		"Monday in UTC":                  {time.Date(2026, 9, 21, 2, 30, 0, 0, time.UTC), nil, "2026-09-14T00:00:00Z", "2026-09-21T00:00:00Z"},
		"still Sunday in New York":       {time.Date(2026, 9, 21, 2, 30, 0, 0, time.UTC), newYork, "2026-09-07T04:00:00Z", "2026-09-14T04:00:00Z"},
		"the first moment of a Monday":   {time.Date(2026, 9, 21, 0, 0, 0, 0, time.UTC), time.UTC, "2026-09-14T00:00:00Z", "2026-09-21T00:00:00Z"},
		"the first week of a year":       {time.Date(2027, 1, 4, 7, 0, 0, 0, time.UTC), time.UTC, "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		"over the end of summer time":    {time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC), newYork, "2026-10-26T04:00:00Z", "2026-11-02T05:00:00Z"},
		"the week that began a day late": {time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC), time.UTC, "2025-12-22T00:00:00Z", "2025-12-29T00:00:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := reports.Weekly(t.Context(), &counted{}, reports.Params{Now: tc.now, Zone: tc.zone})
			if err != nil {
				t.Fatal(err)
			}
			if s, u := r.Since.Format(time.RFC3339), r.Until.Format(time.RFC3339); s != tc.since || u != tc.until {
				t.Errorf("%s to %s, want %s to %s", s, u, tc.since, tc.until)
			}
			for _, p := range r.Parts {
				if !p.Since.Equal(r.Since) || !p.Until.Equal(r.Until) || !p.AsOf.Equal(r.AsOf) {
					t.Errorf("%s covers %v to %v as of %v", p.Name, p.Since, p.Until, p.AsOf)
				}
			}
		})
	}
}

// Each report by itself and on the page is the same, and CSV holds each cell of
// JSON.
func TestWeeklyHasAllOfItsParts(t *testing.T) {
	s := &counted{outcomes: outcomes(3), reasons: reasonCounts(20), queue: queueCounts(3), recovery: recoveryCounts(3), twice: duplicatesOf(2), looks: lookCounts(2)}
	p := reports.Params{Since: day(16), Until: day(23), Now: day(30)}
	weekly, err := reports.Weekly(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]*reports.Report{}
	for _, part := range weekly.Parts {
		parts[part.Name] = part
	}
	for _, r := range made(t, s, p) {
		switch part := parts[r.Name]; {
		case r.Name == "weekly" || r.Name == "outcomes": // by other columns there
		case part == nil:
			t.Errorf("%s is not on the page", r.Name)
		default:
			if d := cmp.Diff([]any{render.Names(r.Columns), r.Rows, r.Totals}, []any{render.Names(part.Columns), part.Rows, part.Totals}); d != "" {
				t.Errorf("%s (-alone +on the page):\n%s", r.Name, d)
			}
		}
	}
	var c, j bytes.Buffer
	if err := weekly.Write(&c, reports.Layout{Format: reports.FormatCSV}); err != nil {
		t.Fatal(err)
	}
	if err := weekly.Write(&j, reports.Layout{Format: reports.FormatJSON}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&c).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Rows []struct {
			Report string
			Rows   []map[string]any
		}
	}
	if err := json.Unmarshal(j.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, part := range v.Rows {
		for _, row := range part.Rows {
			cells += len(row)
		}
	}
	if len(lines)-1 != cells || cells == 0 {
		t.Errorf("%d lines of CSV for %d cells", len(lines)-1, cells)
	}
	for _, line := range lines[1:] {
		no, err := strconv.Atoi(line[1])
		if err != nil || no < 1 {
			t.Fatalf("line %q", line)
		}
	}
}

// A terminal and a page show a part of a long report and say how to see all; a
// pipe shows all.
func TestWeeklyFitsAPage(t *testing.T) {
	s := &counted{reasons: reasonCounts(40)}
	r, err := reports.Weekly(t.Context(), s, reports.Params{Since: day(16), Until: day(23), Now: day(30)})
	if err != nil {
		t.Fatal(err)
	}
	const more = "the first 15 of 40 lines; for all: reconcile report reasons --since 2026-11-16T00:00:00Z --until 2026-11-23T00:00:00Z"
	for form, layout := range map[string]reports.Layout{"terminal": {Width: 300}, "markdown": {Format: reports.FormatMarkdown}, "html": {Format: reports.FormatHTML}, "pipe": {}} {
		var b strings.Builder
		if err := r.Write(&b, layout); err != nil {
			t.Fatal(err)
		}
		want := 15
		if form == "pipe" {
			want = 40
		}
		if n := strings.Count(b.String(), ":create-contact"); n != want {
			t.Errorf("%s: %d lines, want %d", form, n, want)
		}
		if strings.Contains(b.String(), more) == (form == "pipe") {
			t.Errorf("%s:\n%s", form, b.String())
		}
	}
}

func TestWeeklyIsNotGrouped(t *testing.T) {
	_, err := reports.Weekly(t.Context(), &counted{}, reports.Params{Now: day(30), By: []string{"owner"}})
	if want := `report weekly cannot be grouped by "owner": each report on it has its own lines; group that one`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What two reports of the page need is asked for once.
func TestWeeklyAsksOnce(t *testing.T) {
	s := &asks{counted: counted{reasons: reasonCounts(4), recovery: recoveryCounts(3)}}
	if _, err := reports.Weekly(t.Context(), s, reports.Params{Now: day(30)}); err != nil {
		t.Fatal(err)
	}
	if s.reasons != 1 || s.recoveries != 1 {
		t.Errorf("reasons were asked for %d times, recoveries %d times", s.reasons, s.recoveries)
	}
}

// asks counts how often a store is asked.
type asks struct {
	counted
	reasons, recoveries int
}

func (a *asks) ReasonCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.ReasonCount, error) {
	a.reasons++
	return a.counted.ReasonCounts(ctx, w)
}

func (a *asks) RecoveryCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.RecoveryCount, error) {
	a.recoveries++
	return a.counted.RecoveryCounts(ctx, w)
}
