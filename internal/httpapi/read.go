package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/zone"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// readPatience ends a read that the ledger does not finish: the longest report
// over millions of entries takes less.
const readPatience = 2 * time.Minute

// pageDefault and pageMost are how many entries a page has.
const (
	pageDefault = 100
	pageMost    = 1000
)

// page is a page of entries. Its JSON form is a contract.
type page struct {
	Entries []reports.EntryView `json:"entries"`
	Next    *string             `json:"next"` // what the next page comes after; null: this was the last one
}

// getEntries lists entries by action key, without payloads.
func (a *API) getEntries(w http.ResponseWriter, r *http.Request, _ ledger.APIToken) error {
	ctx, cancel := context.WithTimeout(r.Context(), readPatience)
	defer cancel()
	q := newQuery(r, "since", "until", "workflow", "connector", "operation", "state", "class", "owner", "reason", "flagged", "limit", "after")
	f := ledger.Filter{
		Workflow: q.text("workflow"), Connector: q.text("connector"), Operation: q.text("operation"),
		State: ledger.State(q.word("state", texts(ledger.States()))), Class: ledger.ReportClass(q.word("class", texts(ledger.ReportClasses()))),
		Owner: q.text("owner"), Reason: q.text("reason"), Flagged: q.truth("flagged"),
	}
	limit := q.number("limit", pageDefault, pageMost)
	now, err := a.ledger.Now(ctx)
	if err != nil {
		return err
	}
	f.Since, f.Until = q.window(now, a.zone)
	if err := q.err(); err != nil {
		return err
	}
	// One more than wanted tells whether there is a next page.
	es, err := a.ledger.Entries(ctx, f, q.text("after"), limit+1, false)
	if err != nil {
		return err
	}
	p := page{Entries: []reports.EntryView{}}
	if len(es) > limit {
		es = es[:limit]
		p.Next = &es[limit-1].ActionKey
	}
	if es, err = a.viewer.Listed(ctx, es); err != nil {
		return err
	}
	for _, e := range es {
		p.Entries = append(p.Entries, reports.ViewEntry(e, false))
	}
	writeJSON(w, http.StatusOK, p)
	return nil
}

// window reads since and until, in the forms of the command line.
func (q *query) window(now time.Time, loc *time.Location) (since, until time.Time) {
	read := func(name string) (t time.Time) {
		s := q.text(name)
		if s == "" {
			return t
		}
		t, err := instant.Parse(s, now, loc)
		if err != nil {
			q.refuse(name, err.Error())
		}
		return t
	}
	since, until = read("since"), read("until")
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		q.refuse("since", fmt.Sprintf("%s is not before until, %s", since.Format(time.RFC3339), until.Format(time.RFC3339)))
	}
	return since, until
}

// getEntry is reconcile show KEY --output json; with payload=true, and a token
// that is good for it, with the payload.
func (a *API) getEntry(w http.ResponseWriter, r *http.Request, t ledger.APIToken) error {
	ctx, cancel := context.WithTimeout(r.Context(), readPatience)
	defer cancel()
	q := newQuery(r, "payload")
	payload := q.truth("payload")
	if err := q.err(); err != nil {
		return err
	}
	if payload {
		if err := permit(t, ledger.ScopePayload); err != nil {
			return err
		}
	}
	st, err := a.entry(ctx, r)
	if err != nil {
		return err
	}
	now, err := a.ledger.Now(ctx)
	if err != nil {
		return err
	}
	whole, err := a.viewer.Whole(ctx, st, now)
	if err != nil {
		return err
	}
	v := reports.ViewShow(whole.Stored, whole.Evidence, whole.History, payload)
	v.Why = strings.TrimSpace(v.Why + " " + whole.Held)
	writeJSON(w, http.StatusOK, v)
	return nil
}

// reportTypes are the formats that a report is answered in, with their types. A
// table is for terminals.
var reportTypes = map[reports.Format]string{
	reports.FormatJSON:     "application/json",
	reports.FormatCSV:      "text/csv; charset=utf-8",
	reports.FormatMarkdown: "text/markdown; charset=utf-8",
	reports.FormatHTML:     "text/html; charset=utf-8",
}

// getReport is reconcile report NAME.
func (a *API) getReport(w http.ResponseWriter, r *http.Request, _ ledger.APIToken) error {
	ctx, cancel := context.WithTimeout(r.Context(), readPatience)
	defer cancel()
	name := r.PathValue("name")
	var there []string
	for _, s := range reports.All() {
		there = append(there, s.Name)
	}
	at := slices.Index(there, name)
	if at < 0 {
		return problem(http.StatusNotFound, "no_report", "no report %q%s; there are %s", name, nearest.Hint(name, there), strings.Join(there, ", "))
	}

	q := newQuery(r, "since", "until", "week", "by", "timezone", "workflow", "connector", "operation", "output")
	output := cmp.Or(reports.Format(q.word("output", texts(slices.Sorted(maps.Keys(reportTypes))))), reports.FormatJSON)
	loc := a.zone
	if s := q.text("timezone"); s != "" {
		z, err := zone.Load(s)
		if err != nil {
			q.refuse("timezone", err.Error())
		} else {
			loc = z
		}
	}
	now, err := a.ledger.Now(ctx)
	if err != nil {
		return err
	}
	p := reports.Params{Now: now, Zone: loc, RulesVersion: ledger.RulesVersion,
		Filter: ledger.Filter{Workflow: q.text("workflow"), Connector: q.text("connector"), Operation: q.text("operation")}}
	p.Since, p.Until = q.window(now, loc)
	if week := q.text("week"); week != "" {
		if q.text("since") != "" || q.text("until") != "" {
			q.refuse("week", "is a window of its own; leave since and until out")
		}
		if p.Since, p.Until, err = instant.ParseWeek(week, loc); err != nil {
			q.refuse("week", err.Error())
		}
	}
	if by := q.text("by"); by != "" {
		p.By = strings.Split(by, ",")
	}
	if err := q.err(); err != nil {
		return err
	}
	report, err := reports.All()[at].Make(ctx, a.ledger, p)
	var by *reports.ByError
	var window *reports.WindowError
	if errors.As(err, &by) || errors.As(err, &window) {
		return problem(http.StatusBadRequest, "parameter", "%v", err)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", reportTypes[output])
	if output == reports.FormatHTML {
		// It needs nothing but its own styles, whatever came into it from outside.
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox")
	}
	_ = report.Write(w, reports.Layout{Format: output}) // a client that went away asks again
	return nil
}
