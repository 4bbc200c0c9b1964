package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

func newLedger(a *app) *cobra.Command {
	return parent("ledger", "say what happened to the ledger itself", newRestored(a))
}

// restoredOptions are the flags of ledger restored.
type restoredOptions struct {
	output string
}

// restoredResult is what it did, as JSON.
type restoredResult struct {
	Generation string `json:"generation"`
	Entries    int    `json:"entries"` // open ones
}

func newRestored(a *app) *cobra.Command {
	var o restoredOptions
	cmd := &cobra.Command{
		Use:   "restored",
		Short: "say that the ledger was put back from a copy, or lost what was written last",
		Long: `Run this after the ledger was restored from a backup, or its file copied back:
between the copy and now something may have been sent that the ledger does not
know of. Claims made before are void, and every open entry that was due counts
as unknown until the outside system was asked. Nothing is sent blindly, nothing
that is settled changes, and to run it once too often costs only looks.

What was only recorded in the span that was lost is gone: import it again. On
PostgreSQL a standby that took over and a restored cluster are noticed without
it; a database or a SQLite file that was put back by hand is not.`,
		Example: "  reconcile hold               # before the copy is put back\n  reconcile ledger restored\n  reconcile import failures.jsonl\n  reconcile resume",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	bindOutput(cmd, &o.output, formatText, formatJSON)
	return cmd
}

func (o restoredOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openEngine(ctx); err != nil {
		return err
	}
	n, err := s.engine.Restored(ctx, "person:"+person())
	if err != nil {
		return err
	}
	generation, err := s.store.Meta(ctx, ledger.MetaGeneration)
	if err != nil {
		return err
	}
	if o.output == formatJSON {
		return render.JSON(a.Out, restoredResult{Generation: generation, Entries: n})
	}
	_, err = fmt.Fprintf(a.Out, "generation %s: %s; what was due is looked at before anything is sent\n", generation, plural(n, "open entry", "open entries"))
	return err
}
