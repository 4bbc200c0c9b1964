//go:build !linux

package failpoint

// stop does nothing: a thread can stop itself for sure on Linux only.
func stop() {}
