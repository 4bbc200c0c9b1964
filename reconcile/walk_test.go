package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// TestWalk lets a few entries live through days of lost answers, requests that
// land late, looks that fail, reports that come late and people who press
// buttons, all within what the definition promises. Whatever happens: nothing is
// done twice, nothing is settled against the truth, each change has a reason,
// and in the end each entry is settled or waits for a person who has a due time.
func TestWalk(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, uint64(seed))
		})
	}
}

// upTo is a random time up to the one given.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// oneOf is a random one of these.
func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func walk(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	file := t.TempDir() + "/ledger.db"
	w := newWorld(t, func(c *fakeClock) ledger.Store { return openLedger(t, "sqlite:"+file, c) },
		withOp(func(o *connectors.Operation) {
			o.KeepsKey, o.AbsentAfter = oneOf(r, 0, time.Hour, 24*time.Hour), oneOf(r, 2, 3)
			o.Checks = []connectors.CheckName{connectors.CheckConsent}
		}),
		withPolicy(func(p *reconcile.Policy) {
			p.MaxAttempts, p.FailedState, p.Risk = 2+r.IntN(4), r.IntN(2) == 0, oneOf(r, "", ledger.RiskLow, ledger.RiskHigh)
			p.MaxAge, p.SettleFor = oneOf(r, 6*time.Hour, 72*time.Hour), oneOf(r, 2*time.Hour, 72*time.Hour)
			p.Retryable = oneOf(r, nil, []reconcile.ErrorMatch{{Class: ledger.ClassRejected}}, []reconcile.ErrorMatch{{Status: 504}})
		}))
	sys, calm := w.sys, false
	// happens makes an effect that shows only later, and finally refused ones too.
	happens := func(key string, standing connectors.Standing) {
		sys.makeLocked(key, fmt.Sprintf("id-%d", len(sys.objects)+1), func(o *object) {
			o.madeAt, o.standing = w.clock.Now().Add(upTo(r, sys.op.LandsWithin)+upTo(r, sys.op.VisibleWithin)), standing
		})
	}
	remembered := map[string]bool{} // idempotency keys
	outcome := map[string]string{}  // of a key, what must come about once
	// once fails where a send of ours would bring an outcome about again.
	once := func(key string) {
		for _, o := range sys.objects {
			if o.standing == connectors.StandingApplied && o.key != key && outcome[key] != "" && outcome[o.key] == outcome[key] && !w.entry(o.key).HasFlag(ledger.FlagConflict) {
				t.Errorf("%s is sent, and %s was done for %s", key, o.key, outcome[key])
			}
		}
	}
	sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
		lost := connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindTimeout, Effect: connectors.EffectUnknown}, Wrote: true}
		if sys.op.KeepsKey > 0 && remembered[s.IdempotencyKey] {
			return false, lost // no second effect, and nobody hears of the first
		}
		switch n := r.IntN(8); {
		case calm || n < 2:
			once(s.Key)
			remembered[s.IdempotencyKey] = true
			happens(s.Key, connectors.StandingApplied)
			return false, answered(fmt.Sprintf("id-%d", len(sys.objects)))
		case n == 2:
			once(s.Key)
			remembered[s.IdempotencyKey] = true
			happens(s.Key, connectors.StandingApplied)
			return false, lost
		case n == 3:
			happens(s.Key, connectors.StandingRejected)
			return false, lost
		case n == 4:
			return false, failed(connectors.KindRateLimit, connectors.EffectNotDone, 429)
		case n == 5:
			return false, connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindNetwork, Effect: connectors.EffectNotDone}}
		case n == 6:
			return false, failed(connectors.KindValidation, connectors.EffectNotDone, 422)
		}
		return false, lost
	}
	sys.lookErr = func([]string) *connectors.Error {
		if calm || r.IntN(4) > 0 {
			return nil
		}
		return &connectors.Error{Kind: oneOf(r, connectors.KindTimeout, connectors.KindServerError, connectors.KindRateLimit, connectors.KindAuth)}
	}
	sys.checkAs = func(connectors.CheckQuery) []connectors.Verdict {
		v := connectors.Verdict{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}
		if !calm && r.IntN(6) == 0 {
			v.Kind, v.Err = connectors.VerdictUnread, &connectors.Error{Kind: connectors.KindUnavailable}
		}
		return []connectors.Verdict{v}
	}

	var keys []string
	waiting := map[string]string{} // intents that were answered wait, as they were put
	// declare asks before it acts, and acts within what it promised where it may.
	declare := func(k, line string) {
		by := upTo(r, 10*time.Minute)
		asking := *w.rec
		asking.Answers = true
		rec, errs := ledger.ParseRecord([]byte(strings.Replace(line, `"owner"`, fmt.Sprintf(`"send_by":%q,"owner"`, w.clock.Now().Add(by).Format(time.RFC3339Nano)), 1)), ledger.ParseOptions{Now: w.clock.Now()})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		out, err := asking.Record(context.Background(), w.store, []ledger.Record{rec})
		if err != nil {
			t.Fatal(err)
		}
		delete(waiting, k)
		switch out[0].Send {
		case ledger.SendWait:
			waiting[k] = line
		case ledger.SendYes:
			sys.mu.Lock()
			once(k)
			if r.IntN(2) == 0 {
				sys.makeLocked(k, fmt.Sprintf("id-%d", len(sys.objects)+1), func(o *object) { o.madeAt = w.clock.Now().Add(by + upTo(r, sys.op.LandsWithin)) })
			}
			sys.mu.Unlock()
			remembered[k] = sys.effects(k) > 0
		}
	}
	said := map[string]bool{} // a person said what became of it
	locked := func(f func()) { sys.mu.Lock(); defer sys.mu.Unlock(); f() }
	report := func() {
		k := fmt.Sprintf("run_%d:create", len(keys))
		keys = append(keys, k)
		line := ""
		kind := r.IntN(6)
		switch kind {
		case 0, 1:
			locked(func() {
				if r.IntN(2) == 0 {
					happens(k, oneOf(r, connectors.StandingApplied, connectors.StandingApplied, connectors.StandingRejected))
				}
			})
			line = w.line(k, timeout)
		case 2:
			line = w.line(k, limited)
		case 3:
			by := upTo(r, 10*time.Minute)
			locked(func() {
				if r.IntN(2) == 0 {
					sys.makeLocked(k, fmt.Sprintf("id-%d", len(sys.objects)+1), func(o *object) { o.madeAt = w.clock.Now().Add(by + upTo(r, sys.op.LandsWithin)) })
				}
			})
			line = w.line(k, fmt.Sprintf(`"status":"started","send_by":%q`, w.clock.Now().Add(by).Format(time.RFC3339Nano)))
		case 4:
			line = strings.Replace(w.line(k, limited), `"owner"`, fmt.Sprintf(`"driver":"platform","driver_until":%q,"owner"`, w.clock.Now().Add(upTo(r, time.Hour)).Format(time.RFC3339)), 1)
		case 5:
			line, _, _ = strings.Cut(w.line(k, limited), `,"attempts":`)
			line += "}"
		}
		if seed%2 == 0 {
			outcome[k] = fmt.Sprint("o-", len(keys)/3)
			line = sibling(line, outcome[k])
		}
		if kind == 5 {
			declare(k, line)
			return
		}
		remembered[k] = sys.effects(k) > 0
		w.report(line)
	}
	press := func() {
		k := oneOf(r, keys...)
		e := w.entry(k)
		if e.State != ledger.StateEscalated && r.IntN(4) > 0 {
			return
		}
		a := reconcile.PersonAction{By: "ada", Action: oneOf(r, ledger.ActionRetry, ledger.ActionRetry, ledger.ActionCancel, ledger.ActionSnooze, ledger.ActionAssign), To: "sales", Until: w.clock.Now().Add(upTo(r, 10*time.Hour) + time.Second)}
		_, err := w.engine.Person(context.Background(), k, a)
		var no *reconcile.NotAllowedError
		if err != nil && !errors.As(err, &no) {
			t.Fatal(err)
		}
		said[k] = said[k] || err == nil && a.Action == ledger.ActionCancel
	}
	check := func() {
		for _, k := range keys {
			live := 0
			for _, o := range sys.objects {
				if o.key == k && o.standing == connectors.StandingApplied {
					live++
				}
			}
			e := w.entry(k)
			switch {
			case live > 1:
				t.Fatalf("%s: done %d times; %s %q after %d attempts", k, live, e.State, e.Reason, e.Attempts)
			case e.Outcome == ledger.OutcomeApplied && live == 0, e.Outcome == ledger.OutcomeNotApplied && live > 0 && !said[k]:
				t.Fatalf("%s: settled %s %q, and done %d times", k, e.Outcome, e.Reason, live)
			case !e.Settled() && e.State != ledger.StateEscalated && e.Work == ledger.WorkNone, e.State == ledger.StateEscalated && e.DueAt.IsZero():
				t.Fatalf("%s is left to nobody: %s %q", k, e.State, e.Reason)
			}
		}
	}
	for range 150 {
		switch n := r.IntN(10); {
		case n == 0 && len(keys) < 8 || len(keys) == 0:
			report()
		case n < 3:
			press()
		case n == 3:
			w.engine = w.newEngine(fmt.Sprint("engine ", r.Int64()), w.store) // started again
		case n < 6 && len(waiting) > 0:
			k := slices.Min(slices.Collect(maps.Keys(waiting)))
			declare(k, waiting[k])
		}
		w.pass(reconcile.PassOptions{Limit: oneOf(r, 0, 0, 2)})
		w.clock.advance(oneOf(r, upTo(r, time.Minute), upTo(r, 5*time.Minute), upTo(r, time.Hour)))
		check()
	}
	calm = true
	w.runFor(5 * 24 * time.Hour)
	check()
	for _, k := range keys {
		if e := w.entry(k); !e.Settled() && e.State != ledger.StateEscalated {
			t.Errorf("%s after five quiet days: %s %q, due %s at %s", k, e.State, e.Reason, e.Work, e.NextAt)
		}
		w.wantExplained(k)
	}
}
