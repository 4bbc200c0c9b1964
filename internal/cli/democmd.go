package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/demo"
)

func newDemo(a *app) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see it work: a billing system that loses answers, and its recovery",
		Long: `demo starts a small billing system of its own that loses answers, refuses, limits
and lags, runs 200 actions against it as a workflow would, and recovers them with
the same commands that you would type. It needs no server and no network.`,
		Example: "  reconcile demo\n  reconcile demo --keep ./demo",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), demo.Options{
				Out:   a.Out,
				Color: a.color(),
				Dir:   keep,
				Command: func(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
					inner := a.Streams
					inner.In, inner.Out, inner.Err = cmd.InOrStdin(), stdout, stderr
					inner.Width = max(0, a.Width-demo.Indent)
					inner.InTerminal, inner.OutTerminal, inner.ErrTerminal = false, a.OutTerminal, false
					return Run(ctx, args, inner)
				},
			})
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep config, results and ledger in this `folder`")
	return cmd
}

// color says whether stdout shows colours: a terminal that nobody asked to go
// without. Source: no-color.org.
func (a *app) color() bool {
	if !a.OutTerminal {
		return false
	}
	no, _ := a.Env("NO_COLOR")
	dumb, _ := a.Env("TERM")
	return no == "" && dumb != "dumb"
}
