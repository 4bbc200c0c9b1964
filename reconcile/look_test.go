package reconcile

import (
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
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

// A system that is asked by a span of time is asked for all in which the action
// can have been made.
func TestQueryEndsNoSoonerThanTheLastAttempt(t *testing.T) {
	e, as := timedOut()
	if got, want := queryAt(e, testOp(), at(time.Hour)).Until, t0.Add(time.Minute); !got.Equal(want) {
		t.Errorf("bounded: until %s, want %s", got, want)
	}
	as = append(as, ledger.Attempt{AttemptID: "a2", Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, StartedAt: t0, ReceivedAt: t0, Sends: 1})
	if got, want := queryAt(Summarize(e, as), testOp(), at(time.Hour)).Until, at(time.Hour); !got.Equal(want) {
		t.Errorf("unbounded: until %s, want %s", got, want)
	}
}
