package reconcile

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// longestWait caps every computed wait, and stands for one that overflowed: far
// beyond any window, and far from where a time.Duration wraps.
const longestWait = 10 * 365 * 24 * time.Hour

// Delay is the wait after the attempt of that number (from 1) before the next:
// growing, capped at Max (0: no cap), with a jitter that only adds. The jitter
// depends on the seed and the number alone, so that the same entry waits the
// same time in a dry run, while entries that failed together do not wake
// together. A wait is never negative.
func (b Backoff) Delay(attempt int, seed string) time.Duration {
	return b.spread(b.plain(attempt), attempt, seed)
}

// plain is the wait without jitter.
func (b Backoff) plain(attempt int) time.Duration {
	n := float64(max(attempt, 1))
	d := float64(b.Base)
	switch b.Kind {
	case BackoffFixed:
	case BackoffLinear:
		d *= n
	default:
		factor := b.Factor
		if !(factor >= 1) { // unset, or not a number
			factor = 1
		}
		d *= math.Pow(factor, n-1)
	}
	limit := longestWait
	if b.Max > 0 && b.Max < limit {
		limit = b.Max
	}
	// The product is compared before it becomes a Duration: from about the
	// thirtieth attempt on it would wrap to a negative one.
	switch {
	case d >= float64(limit) || math.IsNaN(d):
		return limit
	case d < 0:
		return 0
	}
	return time.Duration(d)
}

// spread adds the jitter: up to its share of the wait. Where a system asked for
// a wait longer than Max, the share is of Max, so that a day does not become
// five hours more.
func (b Backoff) spread(d time.Duration, attempt int, seed string) time.Duration {
	if !(b.Jitter > 0) {
		return d
	}
	base := d
	if b.Max > 0 && base > b.Max {
		base = b.Max
	}
	add := float64(base) * math.Min(b.Jitter, 1) * share(seed, attempt)
	if add >= float64(longestWait) {
		return longestWait
	}
	return min(d, longestWait) + time.Duration(add)
}

// share is a number in [0, 1) that depends on seed and n alone.
func share(seed string, n int) float64 {
	h := fnv.New64a()
	h.Write([]byte(seed))
	h.Write([]byte{0, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	// FNV leaves the low bits of similar keys alike: mix them (the finalizer
	// of MurmurHash3).
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// matches says whether one of the matches means the failure.
func matches(ms []ErrorMatch, c ledger.Class, status int) bool {
	for _, m := range ms {
		if m.Matches(c, status) {
			return true
		}
	}
	return false
}

// RetryableClass says whether a policy tries again after a failure of this
// class and HTTP status (0: none): stop_on beats retryable, and in neither the
// temporary classes retry. Without a class the attempt had no answer, and
// waiting helps as it does after a timeout.
func RetryableClass(p Policy, c ledger.Class, status int) bool {
	switch {
	case matches(p.StopOn, c, status):
		return false
	case matches(p.Retryable, c, status):
		return true
	}
	return c == ledger.ClassNone || c.Temporary()
}

// NextAttemptAt is the earliest moment of the next attempt: the backoff of the
// policy after the last result, and no earlier than any system asked us to
// wait, with jitter that only adds; never before now. A wait that overflowed
// gives a moment beyond every window. Waits are counted from ledger time: the
// clocks of reporters are not trusted with them.
func NextAttemptAt(e ledger.Entry, as []ledger.Attempt, p Policy, now time.Time) time.Time {
	var last, floor time.Time
	for _, a := range as {
		at := resultAt(a)
		last = later(last, at)
		ra := connectors.ParseRetryAfter(a.RetryAfter, at)
		if ra.Beyond {
			return now.Add(longestWait)
		}
		floor = later(floor, at.Add(ra.Wait))
	}
	if last.IsZero() { // it has only waited
		return now
	}
	n := max(e.AttemptCount, 1)
	wait := max(p.Backoff.plain(n), floor.Sub(last))
	return later(last.Add(p.Backoff.spread(wait, n, e.ActionKey)), now)
}

// resultAt is the ledger time at which the result of an attempt became known;
// of one without result, the last moment known of it.
func resultAt(a ledger.Attempt) time.Time {
	switch {
	case !a.ResultAt.IsZero():
		return a.ResultAt
	case a.Ours && !a.FinishedAt.IsZero():
		return a.FinishedAt
	case a.Ours:
		return later(a.StartedAt, a.ReceivedAt)
	case a.Status != ledger.AttemptStarted:
		return later(a.ReceivedAt, a.SendBy)
	}
	return a.ReceivedAt
}
