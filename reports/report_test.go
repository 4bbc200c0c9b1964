package reports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// counted stands for a store: it answers with what it was made of, and keeps
// the question.
type counted struct {
	outcomes []ledger.OutcomeCount
	reasons  []ledger.ReasonCount
	queue    []ledger.QueueCount
	recovery []ledger.RecoveryCount
	twice    []ledger.Duplicate
	looks    []ledger.LookCount
	asked    ledger.ReportWindow
	err      error
}

func (c *counted) OutcomeCounts(_ context.Context, w ledger.ReportWindow) ([]ledger.OutcomeCount, error) {
	c.asked = w
	return c.outcomes, c.err
}

func (c *counted) ReasonCounts(_ context.Context, w ledger.ReportWindow) ([]ledger.ReasonCount, error) {
	c.asked = w
	cs := slices.Clone(c.reasons)
	for i := range cs {
		if cs[i].By == nil { // of the one connector there is
			cs[i].By = []string{"crm", "contact.create"}[:len(w.By)]
		}
	}
	return cs, c.err
}

func (c *counted) QueueCounts(_ context.Context, w ledger.ReportWindow) ([]ledger.QueueCount, error) {
	c.asked = w
	return c.queue, c.err
}

func (c *counted) RecoveryCounts(_ context.Context, w ledger.ReportWindow) ([]ledger.RecoveryCount, error) {
	c.asked = w
	return c.recovery, c.err
}

func (c *counted) Duplicates(_ context.Context, w ledger.ReportWindow) ([]ledger.Duplicate, error) {
	c.asked = w
	return c.twice, c.err
}

func (c *counted) LookCounts(_ context.Context, w ledger.ReportWindow) ([]ledger.LookCount, error) {
	c.asked = w
	return c.looks, c.err
}

func day(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }

func berlin(t *testing.T) *time.Location {
	t.Helper()
	z, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

const odd = "\x1b[2J=1+1|\"q\"\r\n日本語 ✅\u202e"

func outcomes(n int) []ledger.OutcomeCount {
	var cs []ledger.OutcomeCount
	for i := range n {
		c := ledger.OutcomeCount{By: []string{"lead-intake", fmt.Sprint(i + 7), "crm", "contact.create"}, Classes: map[ledger.ReportClass]int{}, Flagged: i}
		for k, class := range ledger.ReportClasses() {
			c.Classes[class] = (i*7 + k*3) % 11 * (1 + i*1000)
			c.Total += c.Classes[class]
		}
		cs = append(cs, c)
	}
	return cs
}

func reasonCounts(n int) []ledger.ReasonCount {
	var cs []ledger.ReasonCount
	for i := range n {
		cs = append(cs, ledger.ReasonCount{
			Reason: fmt.Sprintf("%016x", i*7919), Connector: "crm", Operation: "contact.create",
			Class: ledger.Classes()[i%len(ledger.Classes())], Code: "E1", Text: "upstream timed out after <n>",
			Count: 1 + i%5, Previous: i % 3, Unknown: i % 2, Versions: []string{"6", "7"},
			FirstSeen: day(1).Add(time.Duration(i) * time.Hour), LastSeen: day(22), SampleKey: fmt.Sprintf("run_%d:create-contact", i), RulesVersion: 1,
		})
	}
	return cs
}

func queueCounts(n int) []ledger.QueueCount {
	var cs []ledger.QueueCount
	for i := range n {
		c := ledger.QueueCount{By: []string{fmt.Sprintf("owner-%03d", i)}, Waits: ledger.WaitsEscalated, Count: 3 + i, Flagged: i % 2, Overdue: i % 3,
			Oldest: day(2).Add(time.Duration(i) * time.Hour)}
		if i%2 == 0 {
			c.Waits, c.DueNext = ledger.WaitsDeferred, day(24).Add(time.Duration(i)*time.Minute)
		}
		cs = append(cs, c)
	}
	return cs
}

func recoveryCounts(n int) []ledger.RecoveryCount {
	var cs []ledger.RecoveryCount
	for i := range n {
		c := ledger.RecoveryCount{By: []string{"lead-intake", fmt.Sprint(i + 7)}, Entries: 100 + i, Tried: 96, FirstFailed: 24, Retried: 9, Recovered: 8,
			Applied: 90, Attempts: 99, Ended: 95, Failed: 2, Prevented: 11, RecoverTimed: 19, SettleTimed: 21,
			RecoverP50: 90 * time.Second, RecoverP95: 26 * time.Hour, SettleP50: 1234567 * time.Microsecond, SettleP95: 72 * time.Hour}
		if i == 2 {
			c = ledger.RecoveryCount{By: c.By, Entries: 1} // nothing to divide by
		}
		cs = append(cs, c)
	}
	return cs
}

func duplicatesOf(n int) []ledger.Duplicate {
	var ds []ledger.Duplicate
	for i := range n {
		k := fmt.Sprintf("run_%d:create-invoice", i)
		d := ledger.Duplicate{By: []string{"invoice-run", "billing", "invoice.create"}, ActionKey: k, FlaggedAt: day(17).Add(time.Duration(i) * time.Hour), Open: i%2 == 0,
			Attempts: []ledger.Attempt{{Effect: ledger.EffectDone, RemoteID: "inv_" + fmt.Sprint(i), EffectAt: day(17)}}}
		ds = append(ds, d)
		if i%3 == 1 {
			ds[len(ds)-1].OutcomeKey = "order"
			ds = append(ds, ledger.Duplicate{By: d.By, OutcomeKey: "order", Of: k, ActionKey: "other:" + k,
				Attempts: []ledger.Attempt{{Effect: ledger.EffectDone, RemoteID: "inv_9" + fmt.Sprint(i), EffectAt: day(18)}}})
		}
	}
	return ds
}

func lookCounts(n int) []ledger.LookCount {
	var cs []ledger.LookCount
	for i := range n {
		cs = append(cs, ledger.LookCount{By: []string{fmt.Sprintf("crm-%03d", i), "contact.create"}, Looks: 40 * i, CouldNotAsk: 3 * i, Settled: 11 * i, LooksOfSettled: 30 * i})
	}
	return cs
}

// made are all reports of a store, in their order.
func made(t *testing.T, s reports.Store, p reports.Params) []*reports.Report {
	t.Helper()
	var rs []*reports.Report
	for _, spec := range reports.All() {
		r, err := spec.Make(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Name != spec.Name {
			t.Errorf("asked for %s, made %s", spec.Name, r.Name)
		}
		rs = append(rs, r)
	}
	return rs
}

// TestGolden pins each report in each format: without rows, with ordinary
// ones, with odd text, and large.
func TestGolden(t *testing.T) {
	oddOutcome := ledger.OutcomeCount{By: []string{odd, "", "=cmd|x", "-5"}, Classes: map[ledger.ReportClass]int{ledger.ReportWaiting: 1}, Total: 1, Flagged: 1}
	oddReason := ledger.ReasonCount{Reason: "ab", Connector: "c", Operation: "o", Text: odd, Count: 2, HighRisk: 1, SampleKey: "9912140633506421", RulesVersion: 1}
	oddQueue := ledger.QueueCount{By: []string{odd}, Waits: ledger.WaitsFlagged, Count: 1, Flagged: 1, Oldest: day(3)}
	oddTwice := ledger.Duplicate{By: []string{odd, "", "-5"}, ActionKey: "@k" + odd, FlaggedAt: day(17),
		Attempts: []ledger.Attempt{{Effect: ledger.EffectDone, RemoteID: "=1+1", EffectAt: day(17)}}}
	stores := map[string]*counted{
		"empty":    {},
		"ordinary": {outcomes: outcomes(3), reasons: reasonCounts(4), queue: queueCounts(3), recovery: recoveryCounts(3), twice: duplicatesOf(3), looks: lookCounts(3)},
		"odd": {outcomes: []ledger.OutcomeCount{oddOutcome}, reasons: []ledger.ReasonCount{oddReason}, queue: []ledger.QueueCount{oddQueue},
			recovery: []ledger.RecoveryCount{{By: []string{odd, "=1+1"}, Entries: 1}}, twice: []ledger.Duplicate{oddTwice}, looks: []ledger.LookCount{{By: []string{odd, "-5"}, Looks: 1}}},
		"large": {outcomes: outcomes(200), reasons: reasonCounts(200), queue: queueCounts(200), recovery: recoveryCounts(200), twice: duplicatesOf(200), looks: lookCounts(200)},
	}
	layouts := map[string]reports.Layout{
		"md": {Format: reports.FormatMarkdown}, "html": {Format: reports.FormatHTML}, "terminal": {Width: 240}, "narrow": {Width: 80}, "pipe": {}, "csv": {Format: reports.FormatCSV}, "json": {Format: reports.FormatJSON},
		"excel": {Format: reports.FormatCSV, CSV: render.CSVOptions{Excel: true, Delimiter: ';'}},
	}
	params := reports.Params{Since: day(16), Until: day(23), Now: day(30), Zone: berlin(t), RulesVersion: 2}
	for name, s := range stores {
		for _, r := range made(t, s, params) {
			for form, layout := range layouts {
				if name == "large" && form != "terminal" && form != "csv" {
					continue // the others add megabytes and no new case
				}
				t.Run(strings.Join([]string{r.Name, name, form}, "/"), func(t *testing.T) {
					var b bytes.Buffer
					if err := r.Write(&b, layout); err != nil {
						t.Fatal(err)
					}
					golden(t, fmt.Sprintf("%s-%s.%s", r.Name, name, form), b.Bytes())
					if form == "html" {
						for _, no := range []string{"<script", "src=", "href=", "url(", "@import", "http://", "https://", "onload"} {
							if bytes.Contains(b.Bytes(), []byte(no)) {
								t.Errorf("the page has %s", no)
							}
						}
					}
					if bytes.ContainsAny(b.Bytes(), "\x1b\x00\x07") || bytes.Contains(b.Bytes(), []byte("\u202e")) {
						t.Error("a control character came through")
					}
				})
			}
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (rewrite with -update):\n%s", path, d)
	}
}

// All formats carry the same fields and values.
func TestFormatsAgree(t *testing.T) {
	s := &counted{outcomes: outcomes(5), reasons: reasonCounts(5), queue: queueCounts(5), recovery: recoveryCounts(5), twice: duplicatesOf(5), looks: lookCounts(5)}
	for _, r := range made(t, s, reports.Params{Now: day(30)}) {
		if len(r.Parts) > 0 {
			continue // see TestWeeklyHasAllOfItsParts
		}
		var c, j bytes.Buffer
		if err := errors.Join(r.Write(&c, reports.Layout{Format: reports.FormatCSV}), r.Write(&j, reports.Layout{Format: reports.FormatJSON})); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&c).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Rows []map[string]any }
		dec := json.NewDecoder(&j)
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if len(v.Rows) != len(lines)-1 || len(v.Rows) != len(r.Rows) {
			t.Fatalf("%s: %d rows in JSON, %d lines of CSV, %d rows", r.Name, len(v.Rows), len(lines), len(r.Rows))
		}
		for i, row := range v.Rows {
			if len(row) != len(lines[0]) {
				t.Errorf("%s: %d fields in JSON, %d in CSV", r.Name, len(row), len(lines[0]))
			}
			for k, name := range lines[0] {
				want := fmt.Sprint(row[name])
				if row[name] == nil {
					want = ""
				}
				if xs, ok := row[name].([]any); ok {
					want = strings.Trim(strings.ReplaceAll(fmt.Sprint(xs), " ", ", "), "[]")
				}
				if got := lines[i+1][k]; got != want {
					t.Errorf("%s row %d, %s: CSV %q, JSON %q", r.Name, i, name, got, want)
				}
			}
		}
	}
}

func TestColumns(t *testing.T) {
	s := &counted{outcomes: outcomes(1), reasons: reasonCounts(1)}
	o, err := reports.Outcomes(t.Context(), s, reports.Params{Now: day(30)})
	if err != nil {
		t.Fatal(err)
	}
	want := "workflow workflow_version connector operation manually_resolved recovered_after_retry confirmed_by_lookup first_attempt_success " +
		"blocked permanently_failed deferred escalated waiting total flagged"
	if got := strings.Join(render.Names(o.Columns), " "); got != want {
		t.Errorf("outcomes:\n%s\nwant\n%s", got, want)
	}
	rs, err := reports.Reasons(t.Context(), s, reports.Params{Now: day(30)})
	if err != nil {
		t.Fatal(err)
	}
	want = "reason connector operation class code text kind count previous versions first_seen last_seen suggests sample_key"
	if got := strings.Join(render.Names(rs.Columns), " "); got != want {
		t.Errorf("reasons:\n%s\nwant\n%s", got, want)
	}
	rs, err = reports.Reasons(t.Context(), s, reports.Params{Now: day(30), By: []string{"workflow_version", "connector"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(render.Names(rs.Columns), " "); got != "workflow_version "+want || !slices.Equal(s.asked.By, []string{"workflow_version"}) {
		t.Errorf("reasons by version: %s, asked by %v", got, s.asked.By)
	}
}

func TestWindow(t *testing.T) {
	tests := map[string]struct {
		p           reports.Params
		since, asOf time.Time
		provisional bool
	}{
		"no window: the last seven days, provisional": {reports.Params{Now: day(30)}, day(23), day(30), true},
		"over for long: as it stood a quarter of an hour after": {
			reports.Params{Since: day(1), Until: day(8), Now: day(30)}, day(1), day(8).Add(15 * time.Minute), false},
		"just over: still provisional": {
			reports.Params{Since: day(1), Until: day(8), Now: day(8).Add(15*time.Minute - 1)}, day(1), day(8).Add(15*time.Minute - 1), true},
		"over for a quarter of an hour: final": {
			reports.Params{Since: day(1), Until: day(8), Now: day(8).Add(15 * time.Minute)}, day(1), day(8).Add(15 * time.Minute), false},
		"ends in the future: as it stands now": {reports.Params{Since: day(1), Until: day(30), Now: day(8)}, day(1), day(8), true},
		"only an end: seven days before it":    {reports.Params{Until: day(8), Now: day(30)}, day(1), day(8).Add(15 * time.Minute), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &counted{}
			r, err := reports.Outcomes(t.Context(), s, tc.p)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Since.Equal(tc.since) || !r.AsOf.Equal(tc.asOf) || r.Provisional != tc.provisional {
				t.Errorf("since %v, as of %v, provisional %t; want %v, %v, %t", r.Since, r.AsOf, r.Provisional, tc.since, tc.asOf, tc.provisional)
			}
			if !s.asked.AsOf.Equal(r.AsOf) || !s.asked.Since.Equal(r.Since) || !s.asked.Until.Equal(r.Until) {
				t.Errorf("asked for %+v, reported %v to %v as of %v", s.asked, r.Since, r.Until, r.AsOf)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	tests := map[string]struct {
		p    reports.Params
		want string
	}{
		"an unknown column: the accepted ones are listed": {reports.Params{Now: day(30), By: []string{"workflow", "payload"}},
			`report outcomes cannot be grouped by "payload"; use one or more of workflow, workflow_version, run_id, step_id, connector, operation, record_id, risk, original_owner, owner, state, outcome, class`},
		"a column twice": {reports.Params{Now: day(30), By: []string{"owner", "owner"}}, `report outcomes: column "owner" is named twice`},
		"an end before the begin": {reports.Params{Now: day(30), Since: day(8), Until: day(8)},
			"the window ends before it begins: since 2026-11-08T00:00:00Z, until 2026-11-08T00:00:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := reports.Outcomes(t.Context(), &counted{}, tc.p)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	gone := errors.New("ledger gone")
	if _, err := reports.Reasons(t.Context(), &counted{err: gone}, reports.Params{Now: day(30)}); !errors.Is(err, gone) {
		t.Errorf("the store's error: %v", err)
	}
	r, err := reports.Outcomes(t.Context(), &counted{}, reports.Params{Now: day(30)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(&bytes.Buffer{}, reports.Layout{Format: "pdf"}); err == nil || err.Error() != `format "pdf": reports are written as table, csv, json, markdown, html` {
		t.Errorf("pdf: %v", err)
	}
}

func TestKindOf(t *testing.T) {
	tests := map[string]struct {
		c    ledger.ReasonCount
		want reports.Kind
	}{
		"temporary class, effect known":       {ledger.ReasonCount{Class: ledger.ClassRateLimit, Count: 3}, reports.KindTemporary},
		"permanent class":                     {ledger.ReasonCount{Class: ledger.ClassValidation, Count: 3}, reports.KindPermanent},
		"one of three of unknown effect":      {ledger.ReasonCount{Class: ledger.ClassTimeout, Count: 3, Unknown: 1}, reports.KindAmbiguous},
		"permanent class, effect unknown":     {ledger.ReasonCount{Class: ledger.ClassConflict, Count: 1, Unknown: 1}, reports.KindAmbiguous},
		"one of three of high risk":           {ledger.ReasonCount{Class: ledger.ClassTimeout, Count: 3, Unknown: 3, HighRisk: 1}, reports.KindHighRisk},
		"a class that is not known: look out": {ledger.ReasonCount{Class: ledger.ClassUnknown, Count: 1}, reports.KindPermanent},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := reports.KindOf(tc.c); got != tc.want {
				t.Errorf("%+v: got %s, want %s", tc.c, got, tc.want)
			}
		})
	}
}

func TestEachClassHasASuggestion(t *testing.T) {
	seen := map[string]ledger.Class{}
	for _, c := range ledger.Classes() {
		s := reports.Suggest(c)
		if o, ok := seen[s]; ok {
			t.Errorf("%s and %s suggest the same", c, o)
		}
		seen[s] = c
	}
}
