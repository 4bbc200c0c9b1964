package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct{ output string }

func newDoctor(a *app) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check config, ledger, clock, lanes and connectors in one go",
		Long: `doctor checks whatever a pass depends on, and changes nothing in outside systems.
A ledger that cannot be used is exit code 1; a connector that does not answer 4.`,
		Example: "  reconcile doctor",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var doctorColumns = []render.Column{
	{Name: "part", Kind: render.Key},
	{Name: "check", Kind: render.Key},
	{Name: "result"},
	{Name: "detail"},
}

// clockApart is how far this host's clock may be from the ledger's before
// doctor says so: a step of that size makes a pass void what it knows.
const clockApart = 5 * time.Second

func (o doctorOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	var rows [][]any
	add := func(part, check, result, detail string) { rows = append(rows, []any{part, check, result, detail}) }
	add("config", configName(s.cfg), checkOK, fmt.Sprintf("%s, %s", plural(len(s.cfg.Policies.List), "policy", "policies"),
		plural(len(s.connectors), "connector", "connectors")))

	ledgerErr := s.openLedger(ctx)
	if ledgerErr != nil {
		add("ledger", config.RedactURL(s.url), checkFailed, ledgerErr.Error())
	} else if ledgerErr = s.checkLedger(ctx, a.Now, add); ledgerErr != nil {
		add("ledger", config.RedactURL(s.url), checkFailed, ledgerErr.Error())
	}
	deaf := false
	for _, n := range sortedKeys(s.connectors) {
		for _, r := range checkConnector(ctx, s.connectors[n]) {
			add("connector "+n, r.check, r.result, r.detail)
			deaf = deaf || r.result == checkFailed
		}
	}
	if err := a.rows(o.output, doctorColumns, render.Slice(rows), a.Now()); err != nil {
		return err
	}
	switch {
	case interrupted(ctx):
		return ErrInterrupted
	case ledgerErr != nil:
		return exitStatus(ExitFailed)
	case deaf:
		return exitStatus(ExitCouldNotAsk)
	}
	return nil
}

// checkLedger looks at the clock, the counts and the lanes of an open ledger.
func (s *session) checkLedger(ctx context.Context, host func() time.Time, add func(part, check, result, detail string)) error {
	_, all, err := s.store.Count(ctx, ledger.Filter{})
	if err != nil {
		return err
	}
	add("ledger", config.RedactURL(s.url), checkOK, plural(all, "entry", "entries"))

	before := host()
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	// Half of the round trip lies before the reading.
	apart := now.Sub(before.Add(host().Sub(before) / 2)).Round(time.Millisecond)
	result, detail := checkOK, fmt.Sprintf("the ledger's clock is %s from this host's", apart.Abs())
	if apart.Abs() > clockApart {
		result = "warning"
		detail += "; the ledger's holds, set this host's right"
	}
	add("ledger", "clock", result, detail)

	held, err := s.store.Meta(ctx, ledger.MetaHeld)
	if err != nil {
		return err
	}
	if held != "" {
		add("ledger", "sends", "warning", "held by "+held+"; reconcile resume allows them again")
	}
	lanes, err := s.store.Lanes(ctx)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.PausedUntil.After(now) {
			add("lane "+l.Name, "pause", "warning", fmt.Sprintf("paused until %s: %s", utc(l.PausedUntil), l.PauseReason))
		}
		if l.Held {
			add("lane "+l.Name, "sends", "warning", joined(" ", "held", prefix("by ", l.HeldBy))+"; reconcile resume --connector allows them again")
		}
	}
	return nil
}
