package reconcile_test

import (
	"context"
	"encoding/json"
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

// The names S01, A05 and so on are those of the scenarios and cases that the
// behaviour was specified by.
func TestPass(t *testing.T) {
	tests := map[string]func(t *testing.T, open func(*fakeClock) ledger.Store){
		"S01 a timeout whose record is found settles applied, with nothing sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1")
			tally := w.pass()
			e := w.want("k", ledger.StateSettled, "found")
			if e.Outcome != ledger.OutcomeApplied || e.RemoteID != "inv-1" || e.Class != ledger.ReportConfirmedByLookup {
				t.Errorf("got %s %q %s", e.Outcome, e.RemoteID, e.Class)
			}
			w.wantEffects("k", 1, 0)
			if c := tally.Counts; c.LookedUp != 1 || c.SettledApplied != 1 || c.Sent != 0 {
				t.Errorf("counts %+v", c)
			}
			ev, err := w.store.Evidence(context.Background(), e.ID)
			if err != nil || len(ev) != 1 || ev[0].Finding != ledger.FindingApplied || ev[0].RemoteID != "inv-1" {
				t.Errorf("evidence %+v, %v", ev, err)
			}
		},
		"S04 S05 a none is not believed before its time; two that count prove absence, and one resend recovers": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.pass()
			w.want("k", ledger.StateAmbiguous, "too_early")
			w.wantEffects("k", 0, 0)
			w.clock.advance(3*time.Minute + time.Second)
			w.pass()
			w.want("k", ledger.StateAmbiguous, "not_visible: 1 of 2")
			w.clock.advance(30 * time.Second)
			tally := w.pass()
			e := w.want("k", ledger.StateSettled, "sent")
			if e.Class != ledger.ReportRecoveredAfterRetry || e.RemoteID == "" {
				t.Errorf("class %s remote id %q", e.Class, e.RemoteID)
			}
			w.wantEffects("k", 1, 1)
			if c := tally.Counts; c.Reopened != 1 || c.Advanced != 1 || c.Sent != 1 || c.Recovered != 1 || c.SettledApplied != 1 {
				t.Errorf("counts %+v", c)
			}
			// Looked at once more after the resend, and then nothing is due.
			w.runFor(10 * time.Minute)
			if e := w.entry("k"); e.Work != ledger.WorkNone {
				t.Errorf("still due: %s at %s", e.Work, e.NextAt)
			}
			w.wantEffects("k", 1, 1)
		},
		"S06 two nones, then found: settled applied, the lag is seen, nothing sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.AbsentAfter = 3 }))
			w.report(w.line("k", timeout))
			w.clock.advance(4 * time.Minute)
			w.pass()
			w.clock.advance(time.Minute)
			w.pass()
			w.want("k", ledger.StateAmbiguous, "not_visible: 2 of 3")
			w.sys.make("k", "inv-1")
			w.clock.advance(time.Minute)
			w.pass()
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
			if l, err := w.store.Lane(context.Background(), "billing"); err != nil || l.LagFactor != 2 {
				t.Errorf("lag factor %d, %v", l.LagFactor, err)
			}
		},
		"S08 a look that fails is no look: nothing is spent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.lookErr = func([]string) *connectors.Error {
					return &connectors.Error{Kind: connectors.KindServerError, HTTPStatus: 500}
				}
			}))
			w.report(w.line("k", timeout))
			tally := w.pass()
			e := w.want("k", ledger.StateAmbiguous, "could_not_ask")
			if e.LooksAnswered != 0 || e.LooksFailed != 1 || e.Negatives != 0 || !e.NextAt.After(w.clock.Now()) {
				t.Errorf("got %+v", e)
			}
			if tally.Counts.CouldNotAsk != 1 || tally.Counts.LookedUp != 0 {
				t.Errorf("counts %+v", tally.Counts)
			}
		},
		"S09 a rate limit pauses the lane for as long as it asks": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.lookErr = func([]string) *connectors.Error {
					return &connectors.Error{Kind: connectors.KindRateLimit, HTTPStatus: 429, RetryAfter: connectors.RetryAfter{Wait: 30 * time.Second}}
				}
			}))
			for i := range 20 {
				w.report(w.line(fmt.Sprintf("k%d", i), timeout))
			}
			tally := w.pass()
			if w.sys.lookups > 8 {
				t.Errorf("%d calls to a lane that said stop", w.sys.lookups)
			}
			if tally.Counts.CouldNotAsk != 20 {
				t.Errorf("could not ask %d, want 20", tally.Counts.CouldNotAsk)
			}
			calls := w.sys.lookups
			w.clock.advance(15 * time.Second) // the clock runs on by itself as well
			w.pass()
			if w.sys.lookups != calls {
				t.Errorf("%d calls while the lane is paused", w.sys.lookups-calls)
			}
			w.sys.lookErr = nil
			for i := range 20 {
				w.sys.make(fmt.Sprintf("k%d", i), fmt.Sprint(i))
			}
			w.clock.advance(16 * time.Second)
			if c := w.pass().Counts; c.SettledApplied != 20 {
				t.Errorf("counts %+v", c)
			}
		},
		"S11 a dead credential: one alert, entries unchanged, resumed where it was": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.lookErr = func([]string) *connectors.Error {
					return &connectors.Error{Kind: connectors.KindAuth, HTTPStatus: 401}
				}
			}))
			w.report(w.line("k", timeout))
			notes := w.pass().Notes
			if len(notes) != 1 {
				t.Errorf("notes %q, want one", notes)
			}
			w.sys.lookErr = nil
			w.sys.make("k", "inv-1")
			w.clock.advance(6 * time.Second)
			w.pass()
			w.want("k", ledger.StateSettled, "found")
		},
		"S14 two records carry the key: escalated with both, never resent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1")
			w.sys.make("k", "inv-2")
			w.pass()
			e := w.want("k", ledger.StateEscalated, "duplicate: 2 live records: inv-1, inv-2")
			if !e.HasFlag(ledger.FlagDuplicate) || e.Owner != "revops" || e.DueAt.IsZero() || len(e.Allowed) != 5 {
				t.Errorf("got %+v", e)
			}
			w.runFor(2 * time.Hour)
			w.wantEffects("k", 2, 0)
		},
		"S15 another amount: escalated, never closed or resent by itself": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1", func(o *object) { o.amount = "99" })
			w.pass()
			w.want("k", ledger.StateEscalated, "mismatch: amount")
		},
		"S22 a system that cannot be asked: its unknown outcome goes to a person at once": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup = connectors.LookupNone }))
			w.report(w.line("k", timeout))
			w.pass()
			e := w.want("k", ledger.StateEscalated, "outcome_unknown")
			if e.Effect != ledger.EffectUnknown {
				t.Errorf("effect %s", e.Effect)
			}
			w.wantEffects("k", 0, 0)
		},
		"S24 a batch answers per item": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup, o.BatchMax = connectors.LookupBatch, 101 }),
				withSystem(func(y *system) {
					y.lookErr = func(keys []string) *connectors.Error {
						if keys[0] == "k007" {
							return &connectors.Error{Kind: connectors.KindServerError, HTTPStatus: 500}
						}
						return nil
					}
				}))
			var lines []string
			for i := range 100 {
				lines = append(lines, w.line(fmt.Sprintf("k%03d", i), timeout))
			}
			w.report(lines...)
			for i := range 98 {
				if i != 7 {
					w.sys.make(fmt.Sprintf("k%03d", i), fmt.Sprint(i))
				}
			}
			w.clock.advance(4 * time.Minute)
			c := w.pass().Counts
			if c.SettledApplied != 97 || c.StillAmbiguous != 2 || c.CouldNotAsk != 1 || c.LookedUp != 99 {
				t.Errorf("counts %+v", c)
			}
			if w.sys.lookups != 1 {
				t.Errorf("%d calls for one batch", w.sys.lookups)
			}
		},
		"S28 made, then removed by a person: settled applied, flagged, never made again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1", func(o *object) { o.standing = connectors.StandingReversed })
			w.pass()
			e := w.want("k", ledger.StateSettled, "reversed")
			if e.Outcome != ledger.OutcomeApplied || !e.HasFlag(ledger.FlagReversed) {
				t.Errorf("got %s %v", e.Outcome, e.Flags)
			}
			w.runFor(10 * time.Minute)
			w.wantEffects("k", 1, 0)
		},
		"S37 a dead lane starves no other": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			dead := &system{clock: w.clock, op: operation(), lane: "dead", name: "dead", lookErr: func([]string) *connectors.Error {
				return &connectors.Error{Kind: connectors.KindUnavailable, HTTPStatus: 503}
			}}
			w.rec.Connectors["dead"] = dead
			w.engine = w.newEngine("one", w.store)
			var lines []string
			for i := range 500 {
				lines = append(lines, strings.Replace(w.line(fmt.Sprintf("d%03d", i), timeout), `"billing"`, `"dead"`, 1))
			}
			w.report(lines...)
			w.clock.advance(time.Second)
			for i := range 50 {
				k := fmt.Sprintf("k%02d", i)
				w.report(w.line(k, timeout))
				w.sys.make(k, k)
			}
			c := w.pass().Counts
			if c.SettledApplied != 50 {
				t.Errorf("counts %+v", c)
			}
			if dead.lookups > 20 {
				t.Errorf("%d calls to a dead lane", dead.lookups)
			}
			if c.CouldNotAsk != 500 {
				t.Errorf("could not ask %d, want 500", c.CouldNotAsk)
			}
		},
		"S39 consent withdrawn since: blocked, not sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }),
				withSystem(func(y *system) {
					y.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictRefuse, Value: "false"}}
				}))
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateSettled, "consent_withdrawn")
			if e.Class != ledger.ReportBlocked {
				t.Errorf("class %s", e.Class)
			}
			w.wantEffects("k", 0, 0)
		},
		"S43 the consent service is down: held, and no attempt is counted": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }),
				withSystem(func(y *system) {
					y.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictUnread, Err: &connectors.Error{Kind: connectors.KindUnavailable}}}
				}))
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateRetryable, "check_unread")
			if e.AttemptCount != 1 {
				t.Errorf("%d attempts", e.AttemptCount)
			}
			w.wantEffects("k", 0, 0)
		},
		"S42 too old: escalated before any call, not sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", `"status":"error","http_status":429,"error_class":"rate_limit"`))
			w.clock.advance(73 * time.Hour)
			w.pass()
			w.want("k", ledger.StateEscalated, "too_old")
			if w.sys.lookups != 0 || w.sys.sends != 0 {
				t.Errorf("%d looks, %d sends", w.sys.lookups, w.sys.sends)
			}
		},
		"S44 a second action for the same outcome is frozen behind an unknown one, and superseded once it is applied": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			first := strings.Replace(w.line("k1", timeout), `"owner"`, `"outcome_key":"invoice-9","owner"`, 1)
			second := strings.Replace(w.line("k2", `"status":"error","http_status":429,"error_class":"rate_limit"`), `"owner"`, `"outcome_key":"invoice-9","owner"`, 1)
			w.report(first, second)
			w.clock.advance(time.Minute)
			w.pass()
			w.want("k2", ledger.StateRetryable, "outcome_key_held: by k1")
			w.wantEffects("k2", 0, 0)
			w.sys.make("k1", "inv-1")
			w.runFor(4 * time.Minute)
			w.want("k1", ledger.StateSettled, "found")
			e := w.want("k2", ledger.StateSettled, "superseded")
			if e.Outcome != ledger.OutcomeNotApplied || e.Class != ledger.ReportBlocked {
				t.Errorf("got %s %s", e.Outcome, e.Class)
			}
			w.wantEffects("k2", 0, 0)
		},
		"S45 unknown at the end of the settle window: escalated as unknown, never failed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(w.line("k", timeout))
			for range 80 {
				w.pass()
				w.clock.advance(time.Hour)
			}
			e := w.want("k", ledger.StateEscalated, "outcome_unknown: no_control")
			if e.Effect != ledger.EffectUnknown || e.Outcome != "" {
				t.Errorf("got %s %q", e.Effect, e.Outcome)
			}
			w.wantEffects("k", 0, 0)
		},
		"the youngest applied entry of the operation is the control where there is no canary": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(w.line("first", timeout))
			w.sys.make("first", "inv-0")
			w.pass()
			w.clock.advance(10 * time.Minute)
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"a control that does not show: negatives are not believed, one alert": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "nowhere" }))
			w.report(w.line("k", timeout))
			w.clock.advance(4 * time.Minute)
			tally := w.pass()
			w.want("k", ledger.StateAmbiguous, "control_not_found")
			if len(tally.Notes) != 1 || tally.Counts.CouldNotAsk != 1 {
				t.Errorf("notes %q counts %+v", tally.Notes, tally.Counts)
			}
		},
		"a resend whose answer is lost after the effect is found, not repeated": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
					return true, connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindNetwork, Effect: connectors.EffectUnknown}, Wrote: true, Message: "EOF"}
				}
			}))
			w.report(w.line("k", timeout))
			w.runFor(20 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 1)
		},
		"attempts that never succeed end with the owner, after max_attempts sends": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
					return false, connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindTimeout, Effect: connectors.EffectUnknown}, Wrote: true}
				}
			}))
			w.report(w.line("k", timeout))
			w.runFor(40 * time.Minute)
			e := w.want("k", ledger.StateEscalated, "attempts_exhausted: 3 of 3")
			if e.AttemptCount != 3 || e.Effect != ledger.EffectNotDone {
				t.Errorf("%d attempts, effect %s", e.AttemptCount, e.Effect)
			}
			w.wantEffects("k", 0, 2) // the first try was the workflow's
		},
		"without a policy nothing is sent: a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { *p = reconcile.DefaultPolicy() }))
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval")
			w.wantEffects("k", 0, 0)
		},
		"a person approves what was held: it is looked at anew, then sent once": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.Dispatch = reconcile.DispatchHold }))
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval")
			looks := w.sys.lookups
			if _, err := w.engine.Person(context.Background(), "k", reconcile.PersonAction{Action: ledger.ActionRetry, By: "ada", Note: "ok"}); err != nil {
				t.Fatal(err)
			}
			w.pass()
			w.want("k", ledger.StateSettled, "sent")
			if w.sys.lookups <= looks {
				t.Error("no look before the approved send")
			}
			w.wantEffects("k", 1, 1)
		},
		"the stored payload is sent byte for byte, with the stable key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			body := `{"contact_id":734512345678901235,"amount":19.90, "z":1,"a":2}`
			w.report(strings.Replace(w.line("k", timeout), `{"amount":10,"for":"k"}`, body, 1))
			w.runFor(6 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			if s := w.sys.sent[0]; string(s.Payload) != body || s.Key != "k" || s.IdempotencyKey != "k" {
				t.Errorf("sent %q under %q/%q", s.Payload, s.Key, s.IdempotencyKey)
			}
		},
		"S51 a dry run decides the same, writes nothing and sends nothing": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("found", timeout), w.line("absent", timeout))
			w.sys.make("found", "inv-1")
			w.clock.advance(4 * time.Minute)
			w.pass(reconcile.PassOptions{Filter: ledger.Filter{Workflow: "nobody"}})
			before := fmt.Sprint(w.entry("found"), w.entry("absent"))
			tally := w.pass(reconcile.PassOptions{DryRun: true})
			if after := fmt.Sprint(w.entry("found"), w.entry("absent")); after != before {
				t.Errorf("changed:\n%s\n%s", before, after)
			}
			if c := tally.Counts; c.SettledApplied != 1 || c.StillAmbiguous != 1 {
				t.Errorf("counts %+v", c)
			}
			w.pass()
			w.clock.advance(time.Minute)
			tally = w.pass(reconcile.PassOptions{DryRun: true})
			if c := tally.Counts; c.Reopened != 1 || c.WouldSend != 1 || c.Sent != 0 {
				t.Errorf("counts %+v", c)
			}
			w.wantEffects("absent", 0, 0)
			w.pass()
			w.want("absent", ledger.StateSettled, "sent")
		},
		"S49 two passes at once never handle an entry twice": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.AbsentAfter, o.VisibleWithin, o.LandsWithin = 1, 0, 0 }))
			var lines []string
			for i := range 300 {
				lines = append(lines, w.line(fmt.Sprintf("k%03d", i), timeout))
			}
			w.report(lines...)
			w.clock.advance(time.Minute)
			other := w.newEngine("two", w.open())
			var wg sync.WaitGroup
			for _, e := range []*reconcile.Engine{w.engine, other, w.engine} {
				wg.Go(func() {
					if _, err := e.Pass(context.Background(), reconcile.PassOptions{}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			w.pass()
			for i := range 300 {
				k := fmt.Sprintf("k%03d", i)
				w.want(k, ledger.StateSettled, "sent")
				if n := w.sys.effects(k); n != 1 {
					t.Errorf("%s has %d effects", k, n)
				}
			}
			if w.sys.sends != 300 {
				t.Errorf("%d sends, want 300", w.sys.sends)
			}
		},
		"--limit takes the longest due and counts the rest as skipped": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			for i := range 10 {
				k := fmt.Sprintf("k%d", i)
				w.report(w.line(k, timeout))
				w.sys.make(k, k)
				w.clock.advance(time.Second)
			}
			c := w.pass(reconcile.PassOptions{Limit: 3}).Counts
			if c.SettledApplied != 3 || c.Skipped != 7 {
				t.Errorf("counts %+v", c)
			}
			w.want("k2", ledger.StateSettled, "found")
			if e := w.entry("k3"); e.Settled() {
				t.Error("k3 is settled")
			}
		},
		"S50 what is due outside the window is counted, not worked on": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("old", timeout))
			w.sys.make("old", "1")
			w.clock.advance(48 * time.Hour)
			tally := w.pass(reconcile.PassOptions{Filter: ledger.Filter{Since: w.clock.Now().Add(-24 * time.Hour)}})
			if tally.OutsideWindow != 1 || tally.Counts.LookedUp != 0 || tally.OldestOutside.IsZero() {
				t.Errorf("outside %d, counts %+v", tally.OutsideWindow, tally.Counts)
			}
		},
		"a hold stops sends from the next started on, and resume lets them go": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", `"status":"error","http_status":429,"error_class":"rate_limit"`))
			ctx := context.Background()
			if err := w.store.Hold(ctx, "", true, "ada"); err != nil {
				t.Fatal(err)
			}
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateRetryable, "")
			if err := w.store.Hold(ctx, "", false, "ada"); err != nil {
				t.Fatal(err)
			}
			w.pass()
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"S34 a worker that stalls past its lease cannot write: one transition, one effect": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1")
			ctx := context.Background()
			stalled, err := w.store.Claim(ctx, ledger.Claim{Lane: "billing", Work: ledger.WorkLook, Limit: 10, Holder: "stalled", Lease: time.Minute})
			if err != nil || len(stalled.Leases) != 1 {
				t.Fatalf("%v %v", stalled.Leases, err)
			}
			w.clock.advance(2 * time.Minute)
			w.pass()
			w.want("k", ledger.StateSettled, "found")
			applied, err := w.store.Apply(ctx, []ledger.Change{{Lease: stalled.Leases[0], Next: ledger.Doubt(stalled.Entries[0].Entry, "late", w.clock.Now())}})
			if err != nil || !errors.Is(applied[0].Err, ledger.ErrLeaseLost) {
				t.Fatalf("%v %v", applied, err)
			}
			w.want("k", ledger.StateSettled, "found")
		},
		"S35 killed after started: the next pass looks first": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			killed := false
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return true, connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone}, RemoteID: "x"}
			}
			_ = killed
			w.report(w.line("k", `"status":"error","http_status":429,"error_class":"rate_limit"`))
			w.clock.advance(time.Minute)
			ctx := context.Background()
			c, err := w.store.Claim(ctx, ledger.Claim{Lane: "billing", Work: ledger.WorkAdvance, Limit: 1, Holder: "dies", Lease: time.Minute})
			if err != nil || len(c.Leases) != 1 {
				t.Fatal(c, err)
			}
			e := c.Entries[0].Entry
			a, err := w.store.Apply(ctx, []ledger.Change{{Lease: c.Leases[0], Next: ledger.Advance(e, "checks_passed", w.clock.Now().Add(time.Minute)), Keep: true}})
			if err != nil || a[0].Err != nil {
				t.Fatal(a, err)
			}
			att := ledger.Attempt{EntryID: e.ID, AttemptID: "r-1", No: 2, Ours: true, Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, Sends: 1, Key: "k", Counts: true}
			next := a[0].Entry
			next.Effect, next.Attempts = ledger.EffectUnknown, 2
			s, err := w.store.Start(ctx, ledger.Start{Lease: a[0].Lease, Attempt: att, Next: ledger.Begin(next, "sent", w.clock.Now()), Timeout: 20 * time.Second, LeaseFor: time.Minute, Concurrent: 4, Generation: next.Generation})
			if err != nil || s.Refused != "" {
				t.Fatal(s, err)
			}
			w.sys.make("k", "inv-1") // the request went out; the worker dies here
			w.pass()                 // its lease still runs
			w.want("k", ledger.StateInFlight, "sent")
			w.clock.advance(2 * time.Minute)
			w.pass()
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
		},
		"S60 a stop in the middle: nothing is lost, and a restart goes on at once": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			ctx, cancel := context.WithCancel(context.Background())
			n := 0
			w.sys.lookErr = func([]string) *connectors.Error {
				if n++; n == 10 {
					cancel()
				}
				return nil
			}
			for i := range 50 {
				k := fmt.Sprintf("k%02d", i)
				w.report(w.line(k, timeout))
				w.sys.make(k, k)
			}
			if _, err := w.engine.Pass(ctx, reconcile.PassOptions{}); !errors.Is(err, ledger.ErrInterrupted) {
				t.Fatalf("got %v", err)
			}
			w.sys.lookErr = nil
			w.pass()
			for i := range 50 {
				w.want(fmt.Sprintf("k%02d", i), ledger.StateSettled, "found")
			}
		},
		"S52 a step of the ledger's clock voids negatives and holds sends for that pass": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.clock.advance(4 * time.Minute)
			w.pass()
			w.want("k", ledger.StateAmbiguous, "not_visible: 1 of 2")
			skewed := w.newEngineRunning(func() time.Duration { return 0 }) // its own clock stood still
			w.engine = skewed
			w.pass(reconcile.PassOptions{Filter: ledger.Filter{Workflow: "nobody"}})
			w.clock.advance(time.Minute)
			tally := w.pass()
			if len(tally.Notes) == 0 || tally.Counts.Sent != 0 {
				t.Errorf("notes %q counts %+v", tally.Notes, tally.Counts)
			}
			if e := w.entry("k"); e.Negatives > 0 {
				t.Errorf("%d negatives stand", e.Negatives)
			}
			w.wantEffects("k", 0, 0)
		},
		"escalated and overdue: passed to the next owner of the chain, the first one kept": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.rec.Owners = reconcile.Owners{"revops": {ID: "revops", Next: "lead"}, "lead": {ID: "lead"}}
			w.engine = w.newEngine("one", w.store)
			w.report(w.line("k", timeout))
			w.sys.make("k", "1", func(o *object) { o.amount = "99" })
			w.pass()
			w.want("k", ledger.StateEscalated, "mismatch")
			w.clock.advance(25 * time.Hour)
			w.pass()
			e := w.want("k", ledger.StateEscalated, "mismatch")
			if e.Owner != "lead" || e.OriginalOwner != "revops" || !e.DueAt.After(w.clock.Now()) || e.Reason != "mismatch: amount differs (overdue with revops)" {
				t.Errorf("owner %q first %q due %s, %q", e.Owner, e.OriginalOwner, e.DueAt, e.Reason)
			}
		},
		"every check is kept with the history of the change it allowed or stopped": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }),
				withSystem(func(y *system) {
					y.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass, Value: "true"}}
				}))
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			hs, err := w.store.History(context.Background(), e.ID)
			if err != nil {
				t.Fatal(err)
			}
			var found bool
			for i, h := range hs {
				if h.No != i+1 {
					t.Errorf("history row %d has number %d", i+1, h.No)
				}
				if h.To == ledger.StateReady {
					found = json.Valid(h.Detail) && strings.Contains(string(h.Detail), `"consent"`)
				}
			}
			if !found {
				t.Errorf("no check in the history: %+v", hs)
			}
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachLedger(t, f)
		})
	}
}
