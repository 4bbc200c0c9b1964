package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Options are what an Engine works with.
type Options struct {
	Store      ledger.Store
	Connectors map[string]connectors.Connector // by the name that entries carry
	Lanes      *Lanes                          // the one whose Pacer the connectors were opened with; nil: no pacing
	Policies   Policies
	Owners     Owners
	Holder     string        // names this process in leases; made up when empty
	Lease      time.Duration // 0: 60 s
	Log        *slog.Logger  // nil: discard

	// Running is this host's own running clock, for finding steps of the
	// ledger's; nil: the monotonic clock. Tests that move the ledger's clock
	// move this one too.
	Running func() time.Duration
}

// Engine runs passes over one ledger. It is safe for concurrent use; two passes
// of one engine, like those of two processes, never handle an entry twice.
type Engine struct {
	store    ledger.Store
	conns    map[string]connectors.Connector
	lanes    *Lanes
	policies Policies
	owners   Owners
	holder   string
	lease    time.Duration
	log      *slog.Logger
	running  func() time.Duration
	longest  time.Duration // of any configured call

	mu       sync.Mutex
	controls map[string]*controlState
	keysFrom map[string]time.Time // by connector and scope: since when keys are sent in the present one
	lastSeen time.Time            // ledger time last read
	lastRun  time.Duration        // running clock at that moment
}

// defaultLease is the lease where none is configured (docs/rules.md, section 7).
const defaultLease = 60 * time.Second

// New makes an engine.
func New(o Options) (*Engine, error) {
	if o.Store == nil {
		return nil, errors.New("reconcile: no ledger")
	}
	e := &Engine{store: o.Store, conns: o.Connectors, lanes: o.Lanes, policies: o.Policies, owners: o.Owners,
		holder: o.Holder, lease: o.Lease, log: o.Log, running: o.Running, controls: map[string]*controlState{}, keysFrom: map[string]time.Time{}}
	if e.lanes == nil {
		e.lanes = NewLanes(o.Store)
	}
	if e.lease <= 0 {
		e.lease = defaultLease
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.holder == "" {
		h, _ := os.Hostname()
		e.holder = fmt.Sprintf("%s:%d:%s", h, os.Getpid(), randomID(3))
	}
	if e.running == nil {
		start := time.Now()
		e.running = func() time.Duration { return time.Since(start) }
	}
	for _, name := range slices.Sorted(maps.Keys(e.conns)) {
		i := e.conns[name].Info()
		if i.Name != name {
			return nil, fmt.Errorf("reconcile: connector %q calls itself %q", name, i.Name)
		}
		e.lanes.register(i)
		for _, op := range i.Operations {
			e.longest = max(e.longest, op.Timeout)
		}
	}
	return e, nil
}

// Announce notes this process's policies and definitions in the ledger as the
// newest loaded. A process on another version looks from then on, but does not
// send.
func (e *Engine) Announce(ctx context.Context) error {
	return e.store.SetMeta(ctx, metaPolicy, e.policies.Version)
}

const metaPolicy = "policy_version"

func randomID(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails: it ends the program where there is no randomness
	return hex.EncodeToString(b)
}

// stepTolerance is how far the ledger's clock may run apart from our own
// between two readings (docs/rules.md, section 12).
const stepTolerance = 5 * time.Second

// stepped compares a reading of the ledger's clock with our own running clock.
func (e *Engine) stepped(now time.Time) bool {
	run := e.running()
	e.mu.Lock()
	defer e.mu.Unlock()
	step := false
	if !e.lastSeen.IsZero() {
		apart := now.Sub(e.lastSeen) - (run - e.lastRun)
		step = apart > stepTolerance || apart < -stepTolerance
	}
	e.lastSeen, e.lastRun = now, run
	return step
}

// setting gathers what a decision about one entry needs.
func (e *Engine) setting(en ledger.Entry, op connectors.Operation, version string, ln ledger.Lane, now time.Time) Setting {
	return Setting{Op: op, Policy: e.policies.For(en), Owners: e.owners, Lane: ln, Now: now, Version: version, PolicyVersion: e.policies.Version}
}
