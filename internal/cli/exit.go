package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The exit codes (docs/rules.md, section 9). An unknown code means failure.
const (
	ExitDone        = 0
	ExitFailed      = 1   // failed, no such key, or part of the input refused
	ExitUsage       = 2   // usage or config: nothing was run
	ExitPerson      = 3   // with --detailed-exitcode: done, and entries need a person
	ExitCouldNotAsk = 4   // done, but a system could not be asked
	ExitInterrupted = 130 // SIGINT or SIGTERM
)

// ErrInterrupted is the cause with which main cancels the context on the first
// signal.
var ErrInterrupted = errors.New("interrupted")

// usageError is a mistake in what was typed or configured: nothing was run.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// exitStatus ends a command with a code; everything there was to say has been
// said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// exitCode is the one table from errors to exit codes. ctx is that of the
// command: once it was interrupted, whatever error came of it is an
// interruption.
func exitCode(ctx context.Context, err error) int {
	var status exitStatus
	var usage *usageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		return ExitUsage
	case interrupted(ctx):
		return ExitInterrupted
	}
	return ExitFailed
}

func interrupted(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), ErrInterrupted)
}

// messages are the lines to print for an error: one for each mistake of a
// joined one.
func messages(err error) []string {
	var status exitStatus
	if err == nil || errors.As(err, &status) {
		return nil
	}
	return strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
}
