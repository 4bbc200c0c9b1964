package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main executes the command line of this process and returns its exit code. The
// first of the signals asks the command to stop cleanly; the second ends the
// process at once.
func Main(signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		<-signals
		cancel(ErrInterrupted)
		<-signals
		os.Exit(ExitInterrupted)
	}()
	// A reader that went away is an error of the write, not the end of the
	// process in the middle of a pass.
	signal.Ignore(syscall.SIGPIPE)
	return Run(ctx, os.Args[1:], OSStreams())
}
