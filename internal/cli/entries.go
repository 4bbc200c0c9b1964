package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// entriesOptions are the flags of entries.
type entriesOptions struct {
	filterFlags
	limit   int
	after   string
	payload bool
	output  string
}

func newEntries(a *app) *cobra.Command {
	o := entriesOptions{limit: -1}
	cmd := &cobra.Command{
		Use:   "entries",
		Short: "list entries of the ledger",
		Long: `entries lists what is in the ledger, by action key. How many match, and how many
there are, goes to stderr. In a terminal it prints the first 100; --after KEY
goes on behind the last key printed.`,
		Example: `  reconcile entries --state escalated --owner revops
  reconcile entries --since 7d --class confirmed_by_lookup --output csv
  reconcile entries --flagged
  reconcile entries --limit 50 --after run_8f2:create-contact`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("limit") && o.limit < 0 {
				return usagef("--limit %d: give a number of entries, or 0 for all", o.limit)
			}
			return o.run(cmd.Context(), a)
		},
	}
	o.bind(cmd, true)
	fs := cmd.Flags()
	fs.IntVar(&o.limit, "limit", -1, "print at most `n` entries (0: all; default all, 100 on a terminal)")
	fs.Lookup("limit").DefValue = "0" // the default is told in words
	fs.StringVar(&o.after, "after", "", "go on behind this action `key`")
	fs.BoolVar(&o.payload, "payload", false, "with --output json: print payloads too")
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

func (o entriesOptions) run(ctx context.Context, a *app) error {
	if o.payload && o.output != formatJSON {
		return usagef("--payload works with --output json only")
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
	if o.since != "" || o.until != "" {
		a.note("%s", windowText(f.Since, f.Until, now))
	}
	matching, all, err := s.store.Count(ctx, f)
	if err != nil {
		return err
	}
	limit := o.limit
	if limit < 0 {
		limit = 0
		if a.OutTerminal {
			limit = terminalRows
		}
	}
	p := &pager{ctx: ctx, session: s, filter: f, after: o.after, limit: limit, payload: o.payload}
	if o.output == formatJSON {
		err = render.JSONArray(a.Out, func(yield func(reports.EntryView, error) bool) {
			for e, err := range p.all {
				if !yield(reports.ViewEntry(e, o.payload), err) {
					return
				}
			}
		})
	} else {
		cols := entryColumns
		switch {
		case o.output == formatCSV:
			cols = entryCSVColumns
		case a.OutTerminal:
			cols = entryTerminalColumns
		}
		err = a.table(o.output, entryNames(cols), entryRows(cols, p), now)
	}
	if err != nil {
		return err
	}
	a.note("%s of %s", plural(matching, "entry matches", "entries match"), plural(all, "entry", "entries"))
	if p.more {
		a.note("the next page: --after %s", shellQuote(p.last))
	}
	return nil
}

// pager walks through entries by action key, a page at a time.
type pager struct {
	ctx     context.Context
	session *session
	filter  ledger.Filter
	after   string
	limit   int // 0: all
	payload bool

	last string // the last key yielded
	more bool   // there are entries behind it
}

// pageSize and, where payloads are read, payloadPage bound the memory of a
// long list: a payload may be as large as ledger.payload_max.
const (
	pageSize    = 1000
	payloadPage = 100
)

func (p *pager) all(yield func(ledger.Entry, error) bool) {
	n := 0
	after := p.after
	for {
		// One more than wanted tells whether there is a next page.
		want := pageSize
		if p.payload {
			want = payloadPage
		}
		if p.limit > 0 && p.limit-n < want {
			want = p.limit - n + 1
		}
		es, err := p.session.store.Entries(p.ctx, p.filter, after, want, p.payload)
		if err != nil {
			yield(ledger.Entry{}, err)
			return
		}
		read := len(es)
		if p.limit > 0 && n+read > p.limit {
			es, p.more = es[:p.limit-n], true
		}
		if es, err = p.session.viewer().Listed(p.ctx, es); err != nil {
			yield(ledger.Entry{}, err)
			return
		}
		for _, e := range es {
			if !yield(e, nil) {
				return
			}
			n++
			after, p.last = e.ActionKey, e.ActionKey
		}
		if p.more || read < want {
			return
		}
	}
}

// entryColumn is a column of a list of entries.
type entryColumn struct {
	render.Column
	value func(e ledger.Entry) any
}

// entryTerminalColumns are what a person needs to see where entries stand, on
// a screen of usual width.
var entryTerminalColumns = []entryColumn{
	{render.Column{Name: "action_key", Kind: render.Key}, func(e ledger.Entry) any { return e.ActionKey }},
	{render.Column{Name: "state"}, func(e ledger.Entry) any { return joined(" ", string(e.State), string(e.Outcome)) }},
	{render.Column{Name: "effect"}, func(e ledger.Entry) any { return e.Effect }},
	{render.Column{Name: "next", Blank: "-"}, func(e ledger.Entry) any { return e.NextAt }},
	{render.Column{Name: "owner"}, func(e ledger.Entry) any { return e.Owner }},
	{render.Column{Name: "reason"}, func(e ledger.Entry) any {
		return joined("; ", prefix("flags ", strings.Join(texts(e.Flags), ", ")), e.Reason)
	}},
}

// entryColumns are the same for a pipe, one fact to a column.
var entryColumns = []entryColumn{
	{render.Column{Name: "action_key", Kind: render.Key}, func(e ledger.Entry) any { return e.ActionKey }},
	{render.Column{Name: "state"}, func(e ledger.Entry) any { return e.State }},
	{render.Column{Name: "effect"}, func(e ledger.Entry) any { return e.Effect }},
	{render.Column{Name: "outcome"}, func(e ledger.Entry) any { return e.Outcome }},
	{render.Column{Name: "class"}, func(e ledger.Entry) any { return e.Class }},
	{render.Column{Name: "flags"}, func(e ledger.Entry) any { return texts(e.Flags) }},
	{render.Column{Name: "attempts", Kind: render.Number}, func(e ledger.Entry) any { return e.AttemptCount }},
	{render.Column{Name: "next_at"}, func(e ledger.Entry) any { return e.NextAt }},
	{render.Column{Name: "owner"}, func(e ledger.Entry) any { return e.Owner }},
	{render.Column{Name: "reason"}, func(e ledger.Entry) any { return e.Reason }},
}

// entryCSVColumns are the fields of the JSON that fit into one cell.
var entryCSVColumns = []entryColumn{
	{render.Column{Name: "action_key"}, func(e ledger.Entry) any { return e.ActionKey }},
	{render.Column{Name: "workflow"}, func(e ledger.Entry) any { return e.Workflow }},
	{render.Column{Name: "workflow_version"}, func(e ledger.Entry) any { return e.WorkflowVersion }},
	{render.Column{Name: "run_id"}, func(e ledger.Entry) any { return e.RunID }},
	{render.Column{Name: "step_id"}, func(e ledger.Entry) any { return e.StepID }},
	{render.Column{Name: "connector"}, func(e ledger.Entry) any { return e.Connector }},
	{render.Column{Name: "operation"}, func(e ledger.Entry) any { return e.Operation }},
	{render.Column{Name: "record_id"}, func(e ledger.Entry) any { return e.RecordID }},
	{render.Column{Name: "outcome_key"}, func(e ledger.Entry) any { return e.OutcomeKey }},
	{render.Column{Name: "risk"}, func(e ledger.Entry) any { return e.Risk }},
	{render.Column{Name: "occurred_at"}, func(e ledger.Entry) any { return e.OccurredAt }},
	{render.Column{Name: "state"}, func(e ledger.Entry) any { return e.State }},
	{render.Column{Name: "effect"}, func(e ledger.Entry) any { return e.Effect }},
	{render.Column{Name: "outcome"}, func(e ledger.Entry) any { return e.Outcome }},
	{render.Column{Name: "class"}, func(e ledger.Entry) any { return e.Class }},
	{render.Column{Name: "flags"}, func(e ledger.Entry) any { return texts(e.Flags) }},
	{render.Column{Name: "attempt_count"}, func(e ledger.Entry) any { return e.AttemptCount }},
	{render.Column{Name: "last_class"}, func(e ledger.Entry) any { return e.LastClass }},
	{render.Column{Name: "last_tried_at"}, func(e ledger.Entry) any { return e.LastTriedAt }},
	{render.Column{Name: "next_at"}, func(e ledger.Entry) any { return e.NextAt }},
	{render.Column{Name: "remote_id"}, func(e ledger.Entry) any { return e.RemoteID }},
	{render.Column{Name: "owner"}, func(e ledger.Entry) any { return e.Owner }},
	{render.Column{Name: "original_owner"}, func(e ledger.Entry) any { return e.OriginalOwner }},
	{render.Column{Name: "due_at"}, func(e ledger.Entry) any { return e.DueAt }},
	{render.Column{Name: "allowed"}, func(e ledger.Entry) any { return texts(e.Allowed) }},
	{render.Column{Name: "reason"}, func(e ledger.Entry) any { return e.Reason }},
}

func entryNames(cols []entryColumn) []render.Column {
	out := make([]render.Column, len(cols))
	for i, c := range cols {
		out[i] = c.Column
	}
	return out
}

func entryRows(cols []entryColumn, p *pager) render.Rows {
	return func(yield func([]any, error) bool) {
		for e, err := range p.all {
			row := make([]any, len(cols))
			if err == nil {
				for i, c := range cols {
					row[i] = c.value(e)
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// shellQuote writes a key so that it can be pasted into a command line.
func shellQuote(s string) string {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '-' || r == '_' || r == ':' || r == '.' || r == '/' || r == '@' || r == '+' || r == ',':
		default:
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	if s == "" {
		return "''"
	}
	return s
}
