package httpclient

import (
	"time"

	"golang.org/x/sys/unix"
)

// running is a clock that runs on while the process is stopped and while the
// machine sleeps. Go's monotonic clock does the first only.
func running() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(started)
	}
	return time.Duration(ts.Nano())
}

var started = time.Now()
