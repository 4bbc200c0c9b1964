package storm

import (
	"maps"
	"sync"
	"time"
)

// Log counts what was done, by name. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	counts map[string]int
	stops  []Stop
}

// Stop is one process that was stopped, and when it went on.
type Stop struct {
	Point    string // the fail point, or "" for a moment at random
	From, To time.Time
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{counts: map[string]int{}} }

// Count counts one fault.
func (l *Log) Count(name string) { l.Add(name, 1) }

// Add counts n faults.
func (l *Log) Add(name string, n int) {
	l.mu.Lock()
	l.counts[name] += n
	l.mu.Unlock()
}

// Counts are the faults so far.
func (l *Log) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

func (l *Log) stopped(s Stop) {
	l.mu.Lock()
	l.stops = append(l.stops, s)
	l.mu.Unlock()
}

// Continued tells whether a stopped process went on in the time before at, not
// longer ago than within: only then can a request that arrived at that moment
// have waited in a process between its check and its write.
func (l *Log) Continued(at time.Time, within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stops {
		if d := at.Sub(s.To); d >= -time.Millisecond && d <= within {
			return true
		}
	}
	return false
}
