// Package early takes the signals that stop the process, before the packages of
// the product and of its libraries begin to initialise: some of them take longer
// for it than a signal may take to come, and one that nobody took kills the
// process with another exit status than the promised one.
//
// It works because Go initialises packages as soon as their imports are, the
// first by import path first. So this package imports nothing but os, os/signal
// and syscall. Only the main package of a program may import it: whoever does
// has to read Signals.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals has each SIGINT and SIGTERM that came since the process began. Two are
// kept for a reader that comes later: the one that asks to stop, and the one that
// insists.
var Signals = take()

func take() <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	return c
}
