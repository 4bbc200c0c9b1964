package reconcile_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

func TestDaemonSchedule(t *testing.T) {
	w := newWorld(t, func(c *fakeClock) ledger.Store { return openLedger(t, "sqlite:"+t.TempDir()+"/l.db", c) })
	t.Run("an interval and a cron line are told apart, and shown before they run", func(t *testing.T) {
		d, err := reconcile.NewDaemon(w.engine, reconcile.Schedule{Settle: "30s", Advance: "30s", Release: "*/5 * * * *"}, time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		rs := d.Explain(start, 2)
		want := []reconcile.Run{{Job: "settle+advance", Schedule: "30s", At: start.Add(30 * time.Second)}, {Job: "settle+advance", Schedule: "30s", At: start.Add(time.Minute)},
			{Job: "release", Schedule: "*/5 * * * *", At: start.Add(5 * time.Minute)}, {Job: "release", Schedule: "*/5 * * * *", At: start.Add(10 * time.Minute)}}
		if len(rs) != len(want) {
			t.Fatalf("got %v", rs)
		}
		for i := range want {
			if rs[i].Job != want[i].Job || !rs[i].At.Equal(want[i].At) {
				t.Errorf("run %d: got %v, want %v", i, rs[i], want[i])
			}
		}
	})
	t.Run("what is neither is refused, with its name", func(t *testing.T) {
		if _, err := reconcile.NewDaemon(w.engine, reconcile.Schedule{Settle: "now and then"}, time.Second, nil); err == nil {
			t.Error("accepted")
		}
	})
}

// A daemon settles what is due, and ends when it is told to: after the call
// under way, and with its result written.
func TestDaemonStopsCleanly(t *testing.T) {
	w := newWorld(t, func(c *fakeClock) ledger.Store { return openLedger(t, "sqlite:"+t.TempDir()+"/l.db", c) })
	w.report(w.line("k", limited))
	w.clock.advance(time.Minute)
	ctx, stop := context.WithCancel(context.Background())
	w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
		stop() // in the middle of the send
		return true, answered("INV-1")
	}
	d, err := reconcile.NewDaemon(w.engine, reconcile.Schedule{Settle: "1h", Advance: "1h"}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	w.want("k", ledger.StateSettled, "sent")
	w.wantEffects("k", 1, 1)
}

// Passes of one daemon never run beside each other, however long one takes.
func TestDaemonRunsOnePassAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, passes int
		d := reconcile.DaemonOf(func(ctx context.Context, o reconcile.PassOptions) (reconcile.Tally, error) {
			running++
			most = max(most, running)
			passes++
			time.Sleep(45 * time.Second)
			running--
			return reconcile.Tally{}, nil
		}, reconcile.Schedule{Settle: "30s", Release: "1m"})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		if err := d.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if most != 1 || passes < 8 {
			t.Errorf("%d passes, at most %d at once", passes, most)
		}
		synctest.Wait()
	})
}

// Slots that went by are made up for by one run, a pass that breaks off ends
// nothing but itself, and the next slots come at their times.
func TestDaemonMakesUpForMissedSlotsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		d := reconcile.DaemonOf(func(context.Context, reconcile.PassOptions) (reconcile.Tally, error) {
			at = append(at, time.Since(began).Truncate(time.Minute))
			switch len(at) {
			case 2:
				time.Sleep(3*time.Hour + 10*time.Minute) // as a host that was stopped
			case 4:
				panic("in the middle of a pass")
			}
			return reconcile.Tally{}, nil
		}, reconcile.Schedule{Settle: "0 * * * *"}) // the bubble begins at midnight
		ctx, stop := context.WithTimeout(t.Context(), 6*time.Hour+30*time.Minute)
		defer stop()
		if err := d.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, time.Hour, 4*time.Hour + 10*time.Minute, 5 * time.Hour, 6 * time.Hour}
		if !slices.Equal(at, want) {
			t.Errorf("ran at %v, want %v", at, want)
		}
		synctest.Wait()
	})
}
