package cli

import (
	"context"
	"fmt"
	"os/user"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// lanesOptions are the flags of lanes.
type lanesOptions struct{ output string }

func newLanes(a *app) *cobra.Command {
	var o lanesOptions
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "show what is paused, held or waiting at each outside system",
		Long: `lanes lists one row for each lane: a connector with its credential, or several
that share one. A paused lane is asked nothing until the pause is over; a held
one is asked, and sent nothing, until resume.`,
		Example: "  reconcile lanes\n  reconcile lanes --output json",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var laneColumns = []render.Column{
	{Name: "lane", Kind: render.Key},
	{Name: "connectors"},
	{Name: "due_look", Kind: render.Number},
	{Name: "due_advance", Kind: render.Number},
	{Name: "due_release", Kind: render.Number},
	{Name: "claimed", Kind: render.Number},
	{Name: "held"},
	{Name: "paused_until", Blank: "-"},
	{Name: "pause_reason", Blank: "-"},
	{Name: "failed_in_row", Kind: render.Number},
	{Name: "lag_factor", Kind: render.Number},
}

func (o lanesOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	lanes, err := s.store.Lanes(ctx)
	if err != nil {
		return err
	}
	by, err := s.store.Meta(ctx, ledger.MetaHeld)
	if err != nil {
		return err
	}
	if by != "" {
		a.note("sends are on hold for the whole ledger, by %s; reconcile resume lets them go", by)
		for i := range lanes {
			lanes[i].Held = true
		}
	}
	due, err := s.store.Due(ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	return a.rows(o.output, laneColumns, render.Slice(laneRows(s, lanes, due, now, by != "")), now)
}

// laneRows puts together the lanes of the config, those that the ledger knows,
// and those that have something due. held: the whole ledger is.
func laneRows(s *session, lanes []ledger.Lane, due []ledger.Due, now time.Time, held bool) [][]any {
	type row struct {
		lane       ledger.Lane
		connectors []string
		due        map[ledger.Work]int
		claimed    int
	}
	all := map[string]*row{}
	at := func(name string) *row {
		r := all[name]
		if r == nil {
			r = &row{lane: ledger.Lane{Name: name, LagFactor: 1, Held: held}, connectors: []string{}, due: map[ledger.Work]int{}}
			all[name] = r
		}
		return r
	}
	for _, l := range lanes {
		at(l.Name).lane = l
	}
	for _, name := range sortedKeys(s.connectors) {
		r := at(s.connectors[name].Info().Lane)
		r.connectors = append(r.connectors, name)
	}
	for _, d := range due {
		r := at(d.Lane)
		r.due[d.Work] += d.Count
		r.claimed += d.Leased
	}
	names := sortedKeys(all)
	sort.Strings(names)
	rows := make([][]any, 0, len(names))
	for _, n := range names {
		r := all[n]
		var until time.Time
		why := ""
		if r.lane.PausedUntil.After(now) {
			until, why = r.lane.PausedUntil, r.lane.PauseReason
		}
		rows = append(rows, []any{n, r.connectors, r.due[ledger.WorkLook], r.due[ledger.WorkAdvance], r.due[ledger.WorkRelease],
			r.claimed, r.lane.Held, until, why, r.lane.FailedInRow, r.lane.LagFactor})
	}
	return rows
}

// holdOptions are the flags of hold and resume.
type holdOptions struct {
	connector string
	on        bool
}

func newHold(a *app) *cobra.Command {
	return holdCommand(a, true, &cobra.Command{
		Use:   "hold",
		Short: "stop all sends, for every process, from their next one on",
		Long: `hold stops sends until resume: of one connector, or of the whole ledger. Every
process that works on this ledger sends nothing from its next attempt on; looks
and settling go on.`,
		Example: "  reconcile hold\n  reconcile hold --connector billing",
	})
}

func newResume(a *app) *cobra.Command {
	return holdCommand(a, false, &cobra.Command{
		Use:     "resume",
		Short:   "allow sends again",
		Long:    "resume ends a hold: of one connector, or of the whole ledger. What was held for\none connector stays held until it is resumed by name.",
		Example: "  reconcile resume\n  reconcile resume --connector billing",
	})
}

func holdCommand(a *app, on bool, cmd *cobra.Command) *cobra.Command {
	o := holdOptions{on: on}
	cmd.Args = exactly()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) }
	cmd.Flags().StringVar(&o.connector, "connector", "", "only this `connector` (and those that share its lane)")
	return cmd
}

func (o holdOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	lane, what := "", "the ledger"
	if o.connector != "" {
		c, err := s.connector(o.connector)
		if err != nil {
			return err
		}
		lane = c.Info().Lane
		what = "lane " + lane
	}
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	if err := s.store.Hold(ctx, lane, o.on, "person:"+person()); err != nil {
		return err
	}
	text := "sends are allowed again"
	if o.on {
		text = "sends are held until resume"
	}
	_, err = fmt.Fprintf(a.Out, "%s: %s\n", what, text)
	return err
}

// person names who acts, for the history.
func person() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}
