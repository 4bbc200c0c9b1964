package reconcile

import (
	"testing"
	"time"
)

// A ledger that is busy answers late: the time it gave was true at some moment
// of the call.
func TestLedgerTimeLiesBetweenTwoBounds(t *testing.T) {
	var c clock
	asked := time.Now()
	c.set(t0, asked.Add(-5*time.Second))
	if got := c.of(asked); got.After(t0) {
		t.Errorf("a question put before the answer came is dated %s after it", got.Sub(t0))
	}
	if got := c.now(); got.Before(at(5 * time.Second)) {
		t.Errorf("a wait begins %s after the reading, want at least 5s", got.Sub(t0))
	}
}
