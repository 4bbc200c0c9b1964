//go:build !linux

package httpclient

import "time"

// running is the monotonic clock: it runs on while the process is stopped.
func running() time.Duration { return time.Since(started) }

var started = time.Now()
