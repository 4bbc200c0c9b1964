package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// passOptions are the flags of a pass.
type passOptions struct {
	filterFlags
	limit        int
	dryRun       bool
	noLookups    bool
	output       string
	detailedExit bool
}

func newPass(a *app) *cobra.Command {
	var o passOptions
	cmd := &cobra.Command{
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	o.bind(cmd, false)
	fs := cmd.Flags()
	fs.IntVar(&o.limit, "limit", 0, "work on at most `n` entries, those longest due first (0: all)")
	fs.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, up to the first send of each entry; change and send nothing")
	fs.BoolVar(&o.noLookups, "no-lookups", false, "with --dry-run: ask the outside systems nothing either")
	fs.BoolVar(&o.detailedExit, "detailed-exitcode", false, "exit 3 when entries need a person")
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

func (o passOptions) check() error {
	switch {
	case o.limit < 0:
		return usagef("--limit %d: give a number of entries, or 0 for all", o.limit)
	case o.noLookups && !o.dryRun:
		return usagef("--no-lookups works with --dry-run only: without a look a pass may not decide")
	}
	return nil
}

func (o passOptions) run(ctx context.Context, a *app) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if o.connector != "" && s.connectors[o.connector] == nil {
		return usagef("--connector: %w", s.noConnector(o.connector))
	}
	f, now, err := s.selection(ctx, o.filterFlags, s.openEngine)
	if err != nil {
		return err
	}
	if !o.dryRun {
		if err := s.engine.Announce(ctx); err != nil {
			return err
		}
	}
	a.note("%s", windowText(f.Since, f.Until, now))

	bar := a.progress("entries", 0)
	t, err := s.engine.Pass(ctx, reconcile.PassOptions{
		Filter: f, Limit: o.limit, DryRun: o.dryRun, NoLookups: o.noLookups, Keep: true, Progress: bar.set,
	})
	bar.done()
	stopped := interrupted(ctx)
	if err != nil && !stopped {
		// What was done before the ledger failed is done: it is shown.
		if len(t.Entries) > 0 {
			err = errors.Join(err, o.print(a, t, now))
		}
		return err
	}
	for _, n := range t.Notes {
		a.note("%s", n)
	}
	if t.OutsideWindow > 0 {
		a.note("%s due outside the window, the oldest last active %s; run without --since and --until to include them",
			plural(t.OutsideWindow, "open entry is", "open entries are"), utc(t.OldestOutside))
	}
	if err := o.print(a, t, now); err != nil {
		return err
	}
	switch {
	case stopped:
		return ErrInterrupted
	case t.Counts.CouldNotAsk > 0:
		return exitStatus(ExitCouldNotAsk)
	case o.detailedExit && t.NeedPerson > 0:
		return exitStatus(ExitPerson)
	}
	return nil
}

// windowText says what a pass or list covers, once, in UTC.
func windowText(since, until, now time.Time) string {
	switch {
	case since.After(now):
		return "window: nothing: --since " + utc(since) + " lies in the future"
	case since.IsZero() && until.IsZero():
		return "window: everything"
	case until.IsZero():
		return "window: last active since " + utc(since)
	case since.IsZero():
		return "window: last active before " + utc(until)
	}
	return "window: last active from " + utc(since) + " until " + utc(until)
}

var passColumns = []render.Column{
	{Name: "action_key", Kind: render.Key},
	{Name: "from"},
	{Name: "to"},
	{Name: "outcome"},
	{Name: "class"},
	{Name: "finding"},
	{Name: "reason"},
}

func passRows(es []reconcile.EntryResult) render.Rows {
	return func(yield func([]any, error) bool) {
		for _, e := range es {
			if !yield([]any{e.ActionKey, e.From, e.To, e.Outcome, e.Class, e.Finding, e.Reason}, nil) {
				return
			}
		}
	}
}

func (o passOptions) print(a *app, t reconcile.Tally, now time.Time) error {
	switch o.output {
	case formatJSON:
		if t.Entries == nil {
			t.Entries = []reconcile.EntryResult{}
		}
		return render.JSON(a.Out, t)
	case formatCSV:
		return a.table(formatCSV, passColumns, passRows(t.Entries), now)
	}
	if len(t.Entries) == 0 {
		_, err := fmt.Fprintln(a.Out, summary(t))
		return err
	}
	shown := t.Entries
	if a.OutTerminal && len(shown) > terminalRows {
		shown = shown[:terminalRows]
	}
	if err := a.table(formatTable, passColumns, passRows(shown), now); err != nil {
		return err
	}
	if n := len(t.Entries) - len(shown); n > 0 {
		a.note("and %s; --output csv or json lists all", plural(n, "more entry", "more entries"))
	}
	if a.OutTerminal {
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Out, summary(t))
	return err
}

// terminalRows is how many rows a terminal is given unless told otherwise.
const terminalRows = 100

// summary is what a pass did, in one line: every count that is not zero.
func summary(t reconcile.Tally) string {
	c := t.Counts
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{
		{c.LookedUp, "looked up"},
		{c.SettledApplied, "settled applied"},
		{c.SettledNotApplied, "settled not applied"},
		{c.Reopened, "reopened"},
		{c.StillAmbiguous, "still ambiguous"},
		{c.CouldNotAsk, "could not ask"},
		{c.Advanced, "advanced"},
		{c.Sent, "sent"},
		{c.WouldSend, "would send"},
		{c.Recovered, "recovered"},
		{c.Blocked, "blocked"},
		{c.Deferred, "deferred"},
		{c.Released, "released"},
		{c.Escalated, "escalated"},
		{c.Skipped, "skipped"},
	} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.text, p.n))
		}
	}
	line := "nothing was due"
	if len(parts) > 0 {
		line = strings.Join(parts, " · ")
	}
	if t.DryRun {
		line = "dry run, nothing was changed or sent: " + line
	}
	return line
}
