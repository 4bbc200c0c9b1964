package rest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
)

// defaultReserve is the share of a limit that lookups leave to others: enough
// for live traffic to go on while a backlog is worked off.
const defaultReserve = 0.2

// waitedOut is the longest hold that is waited out before a lookup: the windows
// of ten seconds that some systems have. For a longer one the caller is told to
// come back.
const waitedOut = 12 * time.Second

// reserve remembers which limits have no more left than the share that lookups
// leave to others. Every answer that shows a limit says so anew.
type reserve struct {
	mu    sync.Mutex
	holds map[int]hold // by the place in rate_headers
}

// hold is why lookups wait, and until when.
type hold struct {
	until time.Time // host clock, monotonic
	why   string
}

// learn reads the limits that an answer shows.
func (r *reserve) learn(rates []rateHeader, ans *answer) {
	for i, h := range rates {
		wait, why, known := h.reserved(ans.doc, ans.now())
		if !known {
			continue
		}
		r.mu.Lock()
		if wait > 0 {
			if r.holds == nil {
				r.holds = map[int]hold{}
			}
			r.holds[i] = hold{ans.at.Add(wait), why}
		} else {
			delete(r.holds, i)
		}
		r.mu.Unlock()
	}
}

// longest returns how long the last hold goes on from now, and why.
func (r *reserve) longest(now time.Time) (wait time.Duration, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range r.holds {
		left := h.until.Sub(now)
		if left <= 0 {
			delete(r.holds, i) // the next answer tells whether it is lifted
			continue
		}
		if left > wait {
			wait, why = left, h.why
		}
	}
	return wait, why
}

// reserved tells whether no more is left of this limit than the share that
// lookups leave to others: then wait is how long until there is more, an hour at
// most. known is false where the answer does not show the limit.
func (h rateHeader) reserved(doc document, now time.Time) (wait time.Duration, why string, known bool) {
	seen := h.read(doc)
	if h.reserve <= 0 || !seen.hasLeft || !seen.hasLimit || seen.limit <= 0 {
		return 0, "", false
	}
	kept := h.reserve * seen.limit
	if seen.left >= kept {
		return 0, "", true
	}
	why = fmt.Sprintf("%g of %g calls are left, and %g%% of them are kept for others (reserve)", seen.left, seen.limit, 100*h.reserve)
	var told connectors.RetryAfter
	switch {
	case h.refill != nil:
		if seen.refill <= 0 {
			return 0, "", false // nobody can say when
		}
		told = httpclient.ParseReset(fmt.Sprintf("%.3f", (kept+seen.need-seen.left)/seen.refill), "s", now)
	case seen.reset != "":
		told = httpclient.ParseReset(seen.reset, h.unit, now)
	default:
		told.Wait = h.per
	}
	return min(told.Wait, longestWindow), why, true
}

// keepShare lets a lookup go on only if enough is left of every limit. A short
// hold is waited out. An error puts off this question alone: what else goes
// over the lane is what the share is kept for.
func (c *Connector) keepShare(ctx context.Context) *connectors.Error {
	for {
		wait, why := c.reserve.longest(time.Now())
		if wait == 0 {
			return nil
		}
		if wait > waitedOut {
			return &connectors.Error{Kind: connectors.KindRateLimit, Rule: "reserve", Pauses: "entry", Message: why,
				RetryAfter: connectors.RetryAfter{}.ForSeconds(wait.Seconds())}
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return c.stopped(ctx, ctx.Err())
		}
	}
}
