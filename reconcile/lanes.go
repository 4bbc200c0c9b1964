package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Pauses of a lane (docs/rules.md, section 7, defaults).
const (
	pauseFirst      = 5 * time.Second
	pauseLongest    = 5 * time.Minute
	failuresToPause = 5 // in a row; some kinds pause at once

	// pauseBeyond stands for a wait that overflowed. One odd header must not put
	// a lane out of use for good: it is tried again by the hour.
	pauseBeyond = time.Hour
)

// Lanes paces calls and pauses lanes. Rates and pauses are shared through the
// ledger with every other process. It is safe for concurrent use.
type Lanes struct {
	store ledger.Store

	mu    sync.Mutex
	lanes map[string]*laneState
}

type laneState struct {
	name string

	mu      sync.Mutex
	rates   []connectors.Rate
	windows []*window
	loaded  bool
	failed  bool // the ledger has a failure or a pause to be cleared by the next success
}

// NewLanes makes the pacing and breaking of all lanes over one ledger. Open the
// connectors with Pacer, then give them to New.
func NewLanes(store ledger.Store) *Lanes {
	return &Lanes{store: store, lanes: map[string]*laneState{}}
}

// Pacer is what a connector that goes over the lane is to be opened with. Calls
// made before New has been given the connector are not paced.
func (l *Lanes) Pacer(lane string) connectors.Pacer { return pacer{l.state(lane)} }

// register takes the rates that a connector declares for its lane. The rates
// of all connectors that share it hold together.
func (l *Lanes) register(i connectors.Info) {
	st := l.state(i.Lane)
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, r := range i.Rates {
		if r.Calls > 0 && r.Per > 0 && !slices.Contains(st.rates, r) {
			st.windows = append(st.windows, newWindow(l.store, i.Lane, len(st.rates), r))
			st.rates = append(st.rates, r)
		}
	}
}

type pacer struct{ lane *laneState }

// Wait implements connectors.Pacer.
func (p pacer) Wait(ctx context.Context, bucket string) error {
	p.lane.mu.Lock()
	ws := p.lane.windows
	p.lane.mu.Unlock()
	for _, w := range ws {
		if w.bucket == "" || w.bucket == bucket {
			if err := w.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// window hands out the calls of one rate, spaced evenly. It takes them from the
// ledger a quarter of a second at a time, so that every process together keeps
// the rate without a statement per call.
type window struct {
	store  ledger.Store
	lane   string
	id     string
	bucket string
	every  time.Duration
	chunk  int
	burst  int

	mu   sync.Mutex
	next time.Time // host clock
	left int
}

const (
	paceChunk = 250 * time.Millisecond
	paceBurst = 50 * time.Millisecond // finer than this is not worth a sleep
	paceFree  = 20 * time.Microsecond // a rate above 50,000 a second is no limit
)

func newWindow(store ledger.Store, lane string, n int, r connectors.Rate) *window {
	w := &window{store: store, lane: lane, id: fmt.Sprintf("%s#%d", r.Bucket, n), bucket: r.Bucket, every: r.Per / time.Duration(r.Calls)}
	if w.every > 0 {
		w.chunk = max(1, int(paceChunk/w.every))
		w.burst = max(1, int(paceBurst/w.every))
	}
	return w
}

func (w *window) wait(ctx context.Context) error {
	if w.every < paceFree || w.store == nil {
		return ctx.Err()
	}
	w.mu.Lock()
	if w.left == 0 {
		host := time.Now()
		from, now, err := w.store.Reserve(ctx, w.lane, w.id, w.chunk, w.burst, w.every)
		if err != nil {
			w.mu.Unlock()
			return err
		}
		w.next, w.left = host.Add(from.Sub(now)), w.chunk
	}
	at := w.next
	w.next, w.left = w.next.Add(w.every), w.left-1
	w.mu.Unlock()
	return sleepUntil(ctx, at)
}

func sleepUntil(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pausesAtOnce says whether one failure of this kind pauses the lane; counts,
// whether it is a failed call of the lane at all.
func pausesAtOnce(e *connectors.Error) (pauses, counts bool) {
	switch e.Pauses {
	case "lane":
		return true, true
	case "entry":
		return false, false
	}
	switch e.Kind {
	case connectors.KindAuth, connectors.KindQuota, connectors.KindRateLimit, connectors.KindBlockedByEdge:
		return true, true
	case connectors.KindBadKey, connectors.KindNotMentioned, connectors.KindUnsupported, connectors.KindStopping, connectors.KindNotUsable:
		return false, false
	}
	return false, true
}

// state returns what is known locally of a lane.
func (l *Lanes) state(name string) *laneState {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, ok := l.lanes[name]
	if !ok {
		st = &laneState{name: name}
		l.lanes[name] = st
	}
	return st
}

// Load reads a lane from the ledger.
func (l *Lanes) Load(ctx context.Context, name string) (ledger.Lane, error) {
	ln, err := l.store.Lane(ctx, name)
	if err != nil {
		return ln, err
	}
	st := l.state(name)
	st.mu.Lock()
	st.loaded = true
	st.failed = ln.FailedInRow > 0 || !ln.PausedSince.IsZero()
	st.mu.Unlock()
	return ln, nil
}

// OK notes a call that was answered: it ends a row of failures, the growth of
// pauses, and the lane's alert.
func (l *Lanes) OK(ctx context.Context, name string) error {
	st := l.state(name)
	st.mu.Lock()
	failed := st.failed || !st.loaded
	st.failed, st.loaded = false, true
	st.mu.Unlock()
	if !failed {
		return nil
	}
	paused := false
	_, err := l.store.SaveLane(ctx, name, func(ln ledger.Lane, now time.Time) ledger.Lane {
		// A call that was under way when the pause began does not end it; but
		// the failures are in a row no more.
		if paused = ln.PausedUntil.After(now); paused {
			ln.FailedInRow = 0
			return ln
		}
		ln.PausedTotal = ln.PausedFor(now)
		ln.PausedSince, ln.PausedUntil, ln.PauseReason = time.Time{}, time.Time{}, ""
		ln.PauseStep, ln.FailedInRow = 0, 0
		return ln
	})
	if err != nil || paused {
		st.mu.Lock()
		st.failed = true
		st.mu.Unlock()
		return err
	}
	return l.store.Calm(ctx, alertLane(name))
}

// Failed notes a call that was not answered. It returns the lane as it stands
// and whether an alert was opened by this call.
func (l *Lanes) Failed(ctx context.Context, name string, e *connectors.Error) (ln ledger.Lane, alerted bool, err error) {
	pauses, counts := pausesAtOnce(e)
	if !counts {
		ln, err = l.Load(ctx, name)
		return ln, false, err
	}
	st := l.state(name)
	st.mu.Lock()
	st.failed, st.loaded = true, true
	st.mu.Unlock()
	var paused bool
	ln, err = l.store.SaveLane(ctx, name, func(ln ledger.Lane, now time.Time) ledger.Lane {
		paused = false
		ln.FailedInRow++
		if pauses || ln.FailedInRow >= failuresToPause {
			paused = true
			ln = pauseFrom(ln, e.RetryAfter, string(e.Kind)+suffix(e), now)
		}
		return ln
	})
	if err != nil || !paused {
		return ln, false, err
	}
	alerted, err = l.store.Alert(ctx, alertLane(name), fmt.Sprintf("lane %q is paused until %s: %s", name, ln.PausedUntil.Format(time.RFC3339), e.Error()))
	return ln, alerted, err
}

func suffix(e *connectors.Error) string {
	if e.HTTPStatus != 0 {
		return fmt.Sprintf(": HTTP %d", e.HTTPStatus)
	}
	return ""
}

// pauseFrom begins a pause, or lengthens the present one where the system asks
// for more. A pause begun while another runs does not grow the step: calls
// under way together fail together.
func pauseFrom(ln ledger.Lane, ra connectors.RetryAfter, reason string, now time.Time) ledger.Lane {
	wait := ra.Wait
	if ra.Beyond {
		wait = pauseBeyond
	}
	if !ln.PausedUntil.After(now) {
		ln.PausedTotal = ln.PausedFor(now)
		ln.PausedSince = now
		ln.PauseStep = min(max(ln.PauseStep*2, pauseFirst), pauseLongest)
		ln.PausedUntil = now.Add(ln.PauseStep)
		ln.PauseReason = reason
	}
	ln.PausedUntil = later(ln.PausedUntil, now.Add(wait))
	return ln
}

func alertLane(name string) string { return "lane:" + name }

// lookupLane is the name under which the lookup of one operation is paused
// alone: its control was not found.
func lookupLane(lane, operation string) string { return lane + "/" + operation }

// checkLane is the name under which the checks of one operation are paused
// alone: they cannot be read.
func checkLane(lane, operation string) string { return lookupLane(lane, operation) + "/check" }
