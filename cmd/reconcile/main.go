// Command reconcile settles unknown outcomes of business automations.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/recovery-ledger/reconcile/internal/cli"
)

func main() {
	os.Exit(run())
}

// run executes the command line. The first SIGINT or SIGTERM asks the command
// to stop cleanly; the second ends the process at once.
func run() int {
	// A reader that went away is an error of the write, not the end of the
	// process in the middle of a pass.
	signal.Ignore(syscall.SIGPIPE)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(cli.ErrInterrupted)
		<-signals
		os.Exit(cli.ExitInterrupted)
	}()
	return cli.Run(ctx, os.Args[1:], cli.OSStreams())
}
