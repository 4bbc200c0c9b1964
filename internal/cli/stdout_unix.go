//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// outClosed says whether stdout was closed by whoever started the program
// (reconcile export >&-). The runtime opens the null device in its place, for
// reading and writing, which a shell never does: there is no error to see when
// what is written is lost. Some platforms give that to a program whose output
// nobody wants, so it is no mistake by itself.
// Source: Go 1.26 runtime, fds_unix.go.
func outClosed() bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	out, err := os.Stdout.Stat()
	if err != nil || !os.SameFile(null, out) {
		return false
	}
	flags, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
