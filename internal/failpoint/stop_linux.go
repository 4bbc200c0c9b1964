package failpoint

import (
	"os"
	"syscall"
)

// stop returns once somebody has sent SIGCONT. The signal goes to this thread,
// which so cannot run on while another one takes it; it stops them all.
func stop() {
	_ = syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP) // of ourselves: cannot fail
}
