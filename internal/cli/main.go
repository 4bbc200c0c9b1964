package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main executes the command line of this process and returns its exit code.
// The first SIGINT or SIGTERM asks the command to stop cleanly; the second
// ends the process at once.
func Main() int {
	// A reader that went away is an error of the write, not the end of the
	// process in the middle of a pass.
	signal.Ignore(syscall.SIGPIPE)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(ErrInterrupted)
		<-signals
		os.Exit(ExitInterrupted)
	}()
	return Run(ctx, os.Args[1:], OSStreams())
}
