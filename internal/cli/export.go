package cli

import (
	"bufio"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/ledger"
)

// exportOptions are the flags of export.
type exportOptions struct{ filterFlags }

func newExport(a *app) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export",
		Short: "write entries as JSON Lines that import restores",
		Long: `export writes one line per entry, with its attempts, keys, state, outcome, flags,
evidence and payload, so that import on another ledger restores it. Payloads are
in it: keep the file as carefully as the ledger.`,
		Example: `  reconcile export > all.jsonl
  reconcile export --workflow lead-intake --since 30d > leads.jsonl
  reconcile export --ledger sqlite:old.db | reconcile import --ledger postgres://… -`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	o.bind(cmd, true)
	return cmd
}

func (o exportOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	f, _, err := s.selection(ctx, o.filterFlags, s.openLedger)
	if err != nil {
		return err
	}
	total, _, err := s.store.Count(ctx, f)
	if err != nil {
		return err
	}
	bar := a.progress("entries", int64(total))
	defer bar.done()
	w := bufio.NewWriterSize(a.Out, 256<<10)
	n, after := 0, ""
	for {
		page, err := s.store.Whole(ctx, f, after, payloadPage)
		if err != nil {
			// What is whole is good; the error says that more is missing.
			return errors.Join(err, w.Flush())
		}
		for _, x := range page {
			line, err := ledger.MarshalRecord(x.Stored, x.Evidence, x.History)
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
			after = x.Entry.ActionKey
		}
		n += len(page)
		bar.set(n, total)
		if len(page) < payloadPage {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	bar.done()
	a.note("%s exported", plural(n, "entry", "entries"))
	return nil
}
