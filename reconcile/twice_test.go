package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// mortalStore is the ledger of a process that dies right after it has written
// what it learned.
type mortalStore struct {
	ledger.Store
	dead bool
}

func (s *mortalStore) Apply(ctx context.Context, cs []ledger.Change) ([]ledger.Applied, error) {
	if s.dead {
		return nil, errGone
	}
	s.dead = true
	return s.Store.Apply(ctx, cs)
}

func (s *mortalStore) Siblings(ctx context.Context, ids []int64) (map[int64][]ledger.Sibling, error) {
	if s.dead {
		return nil, errGone
	}
	return s.Store.Siblings(ctx, ids)
}

func (s *mortalStore) Release(ctx context.Context, ls []ledger.Lease) error {
	if s.dead {
		return errGone
	}
	return s.Store.Release(ctx, ls)
}

// A flag does not depend on what a process does after it has settled an entry.
func TestADuplicateIsFlaggedAlthoughTheProcessDies(t *testing.T) {
	tests := map[string]func(w *world){
		"one was applied before": func(w *world) {
			w.report(sibling(w.line("k1", `"status":"ok","remote_id":"1"`), "invoice-9"), sibling(w.line("k2", timeout), "invoice-9"))
			w.sys.make("k2", "2")
		},
		"both are found by one look": func(w *world) {
			w.report(sibling(w.line("k1", timeout), "invoice-9"), sibling(w.line("k2", timeout), "invoice-9"))
			w.sys.make("k1", "1")
			w.sys.make("k2", "2")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
				w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup, o.BatchMax = connectors.LookupBatch, 10 }))
				test(w)
				if _, err := w.newEngine("dying", &mortalStore{Store: w.store}).Pass(context.Background(), reconcile.PassOptions{}); err == nil {
					t.Fatal("the process lives")
				}
				w.clock.advance(2 * time.Minute)
				w.pass()
				for _, k := range []string{"k1", "k2"} {
					if e := w.want(k, ledger.StateSettled, "duplicate: "); !e.HasFlag(ledger.FlagDuplicate) || e.Outcome != ledger.OutcomeApplied {
						t.Errorf("%s: %s, flags %v", k, e.Outcome, e.Flags)
					}
					w.wantExplained(k)
				}
			})
		})
	}
}
