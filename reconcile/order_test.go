package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// change is a record with one attempt that changes an outside record.
func change(line string) string {
	return strings.Replace(line, `"owner"`, `"record_id":"deal-1","owner"`, 1)
}

// unsent is an attempt that surely did nothing, and is tried again.
const unsent = `"status":"error","error_class":"network","effect":"not_done"`

// checked has consent read before each send.
func checked(y *system, p *reconcile.Policy) {
	y.op.Checks = []connectors.CheckName{connectors.CheckConsent}
	y.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}}
	p.Consent = reconcile.CheckRequired
}

// sentKeys are the actions sent, in the order in which the system got them.
func (w *world) sentKeys() string {
	w.sys.mu.Lock()
	defer w.sys.mu.Unlock()
	var keys []string
	for _, s := range w.sys.sent {
		keys = append(keys, s.ActionKey)
	}
	return strings.Join(keys, " ")
}

// passElsewhere runs a pass of another process on the same ledger, from within
// a call of the system.
func (w *world) passElsewhere(filter ledger.Filter) reconcile.Tally {
	w.sys.mu.Unlock()
	defer w.sys.mu.Lock()
	tally, err := w.newEngine("two", w.open()).Pass(context.Background(), reconcile.PassOptions{Filter: filter, Keep: true})
	if err != nil {
		w.t.Error(err)
	}
	return tally
}

// TestChangesOfOneRecord has several processes send the changes of one record
// (docs/rules.md, section 6, "Changes of one record").
func TestChangesOfOneRecord(t *testing.T) {
	repeatable := withOp(func(o *connectors.Operation) { o.Repeatable = true })
	only := func(key string) ledger.Filter { return ledger.Filter{ActionKeys: []string{key}} }
	tests := map[string]func(t *testing.T, open func(*fakeClock) ledger.Store){
		"another process sends the newer one while the older is checked: the older one is not sent after it": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable, checked)
			w.report(change(w.line("older", unsent)))
			w.report(change(w.line("newer", unsent)))
			w.clock.advance(time.Minute)
			once := false
			w.sys.onCheck = func() {
				if !once {
					once = true
					w.passElsewhere(only("newer"))
				}
			}
			w.pass(reconcile.PassOptions{Filter: only("older")})
			w.want("newer", ledger.StateSettled, "sent")
			if e := w.want("older", ledger.StateSettled, "superseded: newer is newer on the same record"); e.Class != ledger.ReportBlocked {
				t.Errorf("class %s", e.Class)
			}
			if got := w.sentKeys(); got != "newer" {
				t.Errorf("sent: %s", got)
			}
			w.wantExplained("older")
		},
		"another process has the newer one while the older is on the wire: it waits, and is sent after it": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable)
			w.report(change(w.line("older", unsent)))
			w.report(change(w.line("newer", unsent)))
			w.clock.advance(time.Minute)
			once := false
			w.sys.onSend = func() {
				if !once {
					once = true
					w.passElsewhere(only("newer"))
				}
			}
			w.pass(reconcile.PassOptions{Filter: only("older")})
			if got := w.sentKeys(); got != "older" {
				t.Errorf("sent at once: %s", got)
			}
			w.want("newer", ledger.StateRetryable, "in_order: older, older on the same record, may still take effect")
			w.runFor(2 * time.Minute)
			w.want("older", ledger.StateSettled, "sent")
			w.want("newer", ledger.StateSettled, "sent")
			if got := w.sentKeys(); got != "older newer" {
				t.Errorf("sent: %s", got)
			}
		},
		"another process begins the older one while the newer is checked: the newer waits until that can land no more": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable, checked)
			w.report(change(w.line("older", unsent)))
			w.report(change(w.line("newer", unsent)))
			w.clock.advance(time.Minute)
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, failed(connectors.KindTimeout, connectors.EffectUnknown, 504)
			}
			once := false
			w.sys.onCheck = func() {
				if !once {
					once = true
					w.passElsewhere(only("older"))
				}
			}
			w.pass(reconcile.PassOptions{Filter: only("newer")})
			w.sys.sendAs = nil
			w.want("newer", ledger.StateRetryable, "in_order: older")
			if got := w.sentKeys(); got != "older" {
				t.Errorf("sent: %s", got)
			}
			until := w.entry("older").SendBy.Add(w.sys.op.LandsWithin)
			w.runFor(10 * time.Minute)
			w.want("newer", ledger.StateSettled, "sent")
			if last := w.entry("newer").LastTriedAt; last.Before(until) {
				t.Errorf("sent at %s, while the older one may land until %s", last, until)
			}
			if keys := strings.Fields(w.sentKeys()); keys[len(keys)-1] != "newer" {
				t.Errorf("sent: %s", keys)
			}
		},
		"all are due in one pass, and answered: all are sent in it, oldest first": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable)
			w.report(change(strings.Replace(w.line("first", unsent), `"status"`, `"retry_after":"60","status"`, 1)))
			w.report(change(w.line("second", unsent)))
			w.report(w.line("between", unsent))
			w.report(change(w.line("third", unsent)))
			w.clock.advance(2 * time.Minute)
			dry := w.pass(reconcile.PassOptions{DryRun: true}).Counts
			real := w.pass().Counts
			if got := strings.Join(strings.Fields(strings.Replace(w.sentKeys(), "between", "", 1)), " "); got != "first second third" {
				t.Errorf("sent: %s", got)
			}
			if dry.WouldSend != 4 || real.Sent != 4 || dry.Blocked+real.Blocked > 0 {
				t.Errorf("dry  %+v\nreal %+v", dry, real)
			}
		},
		"S51 where the newer is so much longer due that it comes first, the older is superseded, and a dry run says so": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable)
			w.report(change(strings.Replace(w.line("older", unsent), `"status"`, `"retry_after":"60","status"`, 1)))
			w.report(change(w.line("newer", unsent)))
			var between []string
			for i := range 100 { // as many as one claim takes
				between = append(between, strings.Replace(w.line(fmt.Sprintf("b%02d", i), unsent), `"status"`, `"retry_after":"40","status"`, 1))
			}
			w.report(between...)
			w.clock.advance(2 * time.Minute)
			dry := w.pass(reconcile.PassOptions{DryRun: true}).Counts
			real := w.pass().Counts
			if dry.WouldSend != 101 || dry.Blocked != 1 || real.Sent != 101 || real.Blocked != 1 {
				t.Errorf("dry  %+v\nreal %+v", dry, real)
			}
			w.want("older", ledger.StateSettled, "superseded: newer")
		},
		"three processes at once: no two changes of a record are on the wire together, and none follows a newer one": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			const records, changes = 8, 3
			w := newWorld(t, open, repeatable)
			var of [changes]ledger.Filter // one process has all first changes, and so on
			for n := range changes {
				for r := range records {
					of[n].ActionKeys = append(of[n].ActionKeys, fmt.Sprintf("r%d-%d", r, n))
					w.report(strings.Replace(w.line(fmt.Sprintf("r%d-%d", r, n), unsent), `"owner"`, fmt.Sprintf(`"record_id":"r%d","owner"`, r), 1))
				}
			}
			w.clock.advance(time.Minute)
			onWire, newest := map[string]int{}, map[string]string{}
			w.sys.onSend = func() {
				s := w.sys.sent[len(w.sys.sent)-1]
				onWire[s.RecordID]++
				if onWire[s.RecordID] > 1 {
					t.Errorf("%s is sent while another change of %s is on the wire", s.ActionKey, s.RecordID)
				}
				if s.ActionKey <= newest[s.RecordID] {
					t.Errorf("%s is sent after %s", s.ActionKey, newest[s.RecordID])
				}
				newest[s.RecordID] = s.ActionKey
				w.sys.mu.Unlock()
				time.Sleep(3 * time.Millisecond) // on the wire
				w.sys.mu.Lock()
				onWire[s.RecordID]--
			}
			engines := []*reconcile.Engine{w.engine, w.newEngine("two", w.open()), w.newEngine("three", w.open())}
			for range 4 {
				var wg sync.WaitGroup
				for n, e := range engines {
					wg.Go(func() {
						if _, err := e.Pass(context.Background(), reconcile.PassOptions{Filter: of[n]}); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				w.clock.advance(time.Minute + time.Second)
			}
			for r := range records {
				for n := range changes {
					w.want(fmt.Sprintf("r%d-%d", r, n), ledger.StateSettled, "")
				}
				if want := fmt.Sprintf("r%d-%d", r, changes-1); newest[fmt.Sprintf("r%d", r)] != want {
					t.Errorf("sent last: %s, want %s", newest[fmt.Sprintf("r%d", r)], want)
				}
			}
		},
		"an imported ledger numbers them anew: the order is that in which they came": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable)
			from := w.store
			w.store = openLedger(t, "sqlite:"+t.TempDir()+"/from.db", w.clock)
			w.report(change(w.line("z", unsent)))
			w.clock.advance(time.Second)
			w.report(change(w.line("a", unsent)))
			var exported []ledger.Record
			for _, k := range []string{"a", "z"} { // as export lists them
				st, err := w.store.Entry(context.Background(), k)
				if err != nil {
					t.Fatal(err)
				}
				line, err := ledger.MarshalRecord(st, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				rec, errs := ledger.ParseRecord(line, ledger.ParseOptions{Now: w.clock.Now(), Restore: true})
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				exported = append(exported, rec)
			}
			w.store = from
			if _, err := w.rec.Record(context.Background(), w.store, exported); err != nil {
				t.Fatal(err)
			}
			w.clock.advance(time.Minute)
			w.pass()
			if got := w.sentKeys(); got != "z a" {
				t.Errorf("sent: %s, want z a", got)
			}
		},
		"a change without order is held up by nothing": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(change(w.line("older", unsent)))
			w.report(change(w.line("newer", unsent)))
			w.clock.advance(time.Minute)
			once := false
			w.sys.onSend = func() {
				if !once {
					once = true
					w.passElsewhere(only("newer"))
				}
			}
			w.pass(reconcile.PassOptions{Filter: only("older")})
			w.want("older", ledger.StateSettled, "sent")
			w.want("newer", ledger.StateSettled, "sent")
		},
		"an operation that is declared repeatable no more holds up nothing any more": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, repeatable)
			w.pass()
			w.sys.op.Repeatable = false
			w.report(change(w.line("older", unsent)))
			w.report(change(w.line("newer", `"status":"ok","remote_id":"deal-1"`)))
			w.clock.advance(time.Minute)
			w.pass()
			w.want("older", ledger.StateSettled, "sent")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { eachLedger(t, test) })
	}
}

// deadStore is the ledger of a process that dies as it is about to write
// "started".
type deadStore struct {
	ledger.Store
	dead bool
}

func (s *deadStore) Start(context.Context, ledger.Start) (ledger.Started, error) {
	s.dead = true
	return ledger.Started{}, errGone
}

func (s *deadStore) Release(ctx context.Context, ls []ledger.Lease) error {
	if s.dead {
		return errGone
	}
	return s.Store.Release(ctx, ls)
}

// A cleared entry waits for the lease of the process that cleared it, not for
// the clearance: with the lease nobody can start under it any more.
func TestAClearedEntryOfADeadProcess(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		w := newWorld(t, open)
		w.report(w.line("k", unsent))
		w.clock.advance(time.Minute)
		dying, err := reconcile.New(reconcile.Options{Store: &deadStore{Store: w.store}, Connectors: w.rec.Connectors, Policies: w.rec.Policies,
			Holder: "dying", Lease: 10 * time.Second, Running: w.clock.running})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dying.Pass(context.Background(), reconcile.PassOptions{}); !errors.Is(err, errGone) {
			t.Fatalf("the pass ended with %v", err)
		}
		w.want("k", ledger.StateReady, "checks_passed")
		w.clock.advance(8 * time.Second)
		if c := w.pass().Counts; c.Skipped != 1 || c.Sent != 0 {
			t.Errorf("while the lease holds: %+v", c)
		}
		w.clock.advance(3 * time.Second)
		w.pass()
		w.want("k", ledger.StateSettled, "sent")
		w.wantEffects("k", 1, 1)
		w.wantExplained("k")
	})
}
