package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// failed is a send that the system refused.
func failed(kind connectors.Kind, eff connectors.Effect, status int) connectors.SendResult {
	return connectors.SendResult{Classified: connectors.Classified{Kind: kind, Effect: eff, HTTPStatus: status}, Answered: true, Wrote: true}
}

func answered(id string) connectors.SendResult {
	return connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone, HTTPStatus: 201}, Answered: true, Wrote: true, RemoteID: id}
}

const limited = `"status":"error","http_status":429,"error_class":"rate_limit"`

// TestCases drives the real pass through faults that people met. Names are
// those of the scenarios and cases.
func TestCases(t *testing.T) {
	tests := map[string]func(t *testing.T, open func(*fakeClock) ledger.Store){
		"A01 five successes with five ids: settled once, flagged duplicate, never tried again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			for i := range 5 {
				w.report(strings.Replace(w.line("k", fmt.Sprintf(`"status":"ok","http_status":200,"remote_id":"r-%d"`, i+1)), `"a1"`, fmt.Sprintf(`"a%d"`, i+1), 1))
				w.clock.advance(5 * time.Second)
			}
			e := w.want("k", ledger.StateSettled, "")
			if e.Outcome != ledger.OutcomeApplied || !e.HasFlag(ledger.FlagDuplicate) || e.Attempts != 5 {
				t.Errorf("got %s %v with %d attempts", e.Outcome, e.Flags, e.Attempts)
			}
			w.runFor(5 * time.Minute)
			w.wantEffects("k", 0, 0)
		},
		"A05 an operator's retry while the outcome is unknown sends nothing, and says why": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.clock.advance(20 * time.Second)
			_, err := w.engine.Person(context.Background(), "k", reconcile.PersonAction{Action: ledger.ActionRetry, By: "ada"})
			var no *reconcile.NotAllowedError
			if !errors.As(err, &no) || !strings.Contains(no.Why, "looked at first") {
				t.Fatalf("got %v", err)
			}
			w.sys.make("k", "INV-9")
			w.runFor(2 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
		},
		"A06 a duplicate registration means that the first one worked: looked up, equal, applied": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				w.sys.makeLocked("k", "TB-77", func(o *object) { o.amount = "10" })
				return false, failed(connectors.KindAlreadyExists, connectors.EffectNotDone, 400)
			}
			w.report(w.line("k", limited))
			w.runFor(5 * time.Minute)
			e := w.want("k", ledger.StateSettled, "found")
			if e.RemoteID != "TB-77" {
				t.Errorf("remote id %q", e.RemoteID)
			}
			w.wantEffects("k", 1, 1)
		},
		"A06 a duplicate registration with another amount goes to a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				w.sys.makeLocked("k", "TB-77", func(o *object) { o.amount = "99" })
				return false, failed(connectors.KindAlreadyExists, connectors.EffectNotDone, 400)
			}
			w.report(w.line("k", limited))
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateEscalated, "mismatch: amount")
		},
		"A09 C06 every attempt sends the same bytes under the same key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, failed(connectors.KindRateLimit, connectors.EffectNotDone, 429)
			}
			w.report(w.line("k", limited))
			w.runFor(15 * time.Minute)
			w.want("k", ledger.StateEscalated, "attempts_exhausted")
			if len(w.sys.sent) != 2 {
				t.Fatalf("%d sends", len(w.sys.sent))
			}
			a, b := w.sys.sent[0], w.sys.sent[1]
			if string(a.Payload) != string(b.Payload) || a.Key != b.Key || a.IdempotencyKey != b.IdempotencyKey {
				t.Errorf("%+v\n%+v", a, b)
			}
		},
		"B03 a live record without our key goes to a person, and nothing is made": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.origin = &connectors.Record{ID: "90", Standing: connectors.StandingApplied, Origin: true}
			w.clock.advance(4 * time.Minute)
			w.pass()
			e := w.want("k", ledger.StateEscalated, "other_origin")
			if !e.HasFlag(ledger.FlagOtherOrigin) {
				t.Errorf("flags %v", e.Flags)
			}
			w.wantEffects("k", 0, 0)
		},
		"B06 a search that is ten minutes behind: nothing is made before its time, few questions, and then found": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.VisibleWithin, o.LandsWithin = 12*time.Minute, 0 }), withSystem(func(y *system) { y.lag = 10 * time.Minute }))
			w.report(w.line("k", timeout))
			w.sys.make("k", "T-1")
			asked := w.sys.lookups
			w.runFor(15 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
			// One control in each minute of looking comes on top.
			if e := w.entry("k"); e.LooksAnswered > 6 {
				t.Errorf("%d looks (%d calls)", e.LooksAnswered, w.sys.lookups-asked)
			}
		},
		"C01 S16 the key was used with other content: a person, and never a new key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
					return false, failed(connectors.KindDuplicateRequest, connectors.EffectUnknown, 400)
				}
			}))
			w.report(w.line("k", limited))
			w.runFor(2 * time.Hour)
			e := w.want("k", ledger.StateEscalated, "duplicate_request")
			if len(e.Keys) != 1 || w.sys.sends != 1 {
				t.Errorf("keys %v, %d sends", e.Keys, w.sys.sends)
			}
		},
		"C03 a request still in progress is ambiguous, looked at, and tried again under the same key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			first := true
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				if first {
					first = false
					return false, failed(connectors.KindLockConflict, connectors.EffectUnknown, 409)
				}
				return true, answered("x")
			}
			w.report(w.line("k", timeout))
			w.runFor(15 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			if len(w.sys.sent) != 2 || w.sys.sent[0].IdempotencyKey != w.sys.sent[1].IdempotencyKey {
				t.Errorf("sent %+v", w.sys.sent)
			}
			w.wantEffects("k", 1, 2)
		},
		"C04 tries used up while the outcome is unknown: looked at before anybody is told": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 1 }))
			w.report(w.line("k", `"status":"error","http_status":409,"error_class":"lock_conflict"`))
			w.sys.make("k", "INV-1")
			w.pass()
			w.want("k", ledger.StateSettled, "found")
		},
		"C08 a key past its life is not sent again: after proven absence a new one, linked": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.MaxAge = 100 * time.Hour }))
			w.report(w.line("k", timeout))
			w.clock.advance(24*time.Hour + 5*time.Minute)
			w.runFor(5 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if s := w.sys.sent[0]; s.Key != "k" || s.IdempotencyKey == "k" || len(e.Keys) != 2 {
				t.Errorf("sent under %q/%q, keys %v", s.Key, s.IdempotencyKey, e.Keys)
			}
		},
		"C08 within its life the same key is sent again, after the look": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.MaxAge = 100 * time.Hour }))
			w.report(w.line("k", timeout))
			w.clock.advance(23 * time.Hour)
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			if s := w.sys.sent[0]; s.IdempotencyKey != "k" {
				t.Errorf("sent under %q", s.IdempotencyKey)
			}
		},
		"S19 a key past its life and high risk: a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.MaxAge, p.Risk = 100*time.Hour, ledger.RiskHigh }))
			w.report(w.line("k", timeout))
			w.clock.advance(30 * time.Hour)
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval: high risk")
			w.wantEffects("k", 0, 0)
		},
		"S17 a resend gets the stored error again, but the look finds the effect: settled applied": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }))
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				r := failed(connectors.KindServerError, connectors.EffectUnknown, 500)
				r.Replayed, r.KeySpent = true, true
				w.sys.makeLocked("k", "INV-1")
				return false, r
			}
			w.report(w.line("k", limited))
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 1)
		},
		"S18 a stored error given again and nothing there: a new linked key, asked for under both": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				if s.IdempotencyKey == "k" {
					r := failed(connectors.KindServerError, connectors.EffectUnknown, 500)
					r.Replayed, r.KeySpent = true, true
					return false, r
				}
				return true, answered("INV-1")
			}
			w.report(w.line("k", timeout))
			w.runFor(20 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || len(w.sys.sent) != 2 || w.sys.sent[1].IdempotencyKey != e.Keys[1] {
				t.Errorf("keys %v, sent %+v", e.Keys, w.sys.sent)
			}
			w.wantEffects("k", 1, 2)
		},
		"S18 the same at high risk: no fresh key within the lifetime, a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				r := failed(connectors.KindServerError, connectors.EffectUnknown, 500)
				r.Replayed, r.KeySpent = true, true
				return false, r
			}
			w.report(w.line("k", timeout))
			w.runFor(30 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval")
			w.wantEffects("k", 0, 1)
		},
		"D05 Retry-After is a floor, and the policy's wait holds where it is longer": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(strings.Replace(w.line("k", limited), `"status"`, `"retry_after":"4","status"`, 1))
			if got := w.entry("k").NextAt.Sub(w.clock.Now()); got < 29*time.Second || got > 31*time.Second {
				t.Errorf("next in %s, want 30s", got)
			}
		},
		"D01 a Retry-After that overflows is longer than the window: escalated": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			for i, v := range []string{"9223372036", "9223372037", "9223372036854775807", "99999999999999999999"} {
				w.report(strings.Replace(w.line(fmt.Sprintf("k%d", i), limited), `"status"`, fmt.Sprintf(`"retry_after":%q,"status"`, v), 1))
				w.want(fmt.Sprintf("k%d", i), ledger.StateEscalated, "wait_too_long")
			}
		},
		"D16 entries limited together do not wake together": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.Backoff.Jitter = 0.2 }))
			var lines []string
			for i := range 200 {
				lines = append(lines, strings.Replace(w.line(fmt.Sprintf("k%03d", i), limited), `"status"`, `"retry_after":"600","status"`, 1))
			}
			now := w.clock.Now()
			w.report(lines...)
			perSecond, first, last := map[int64]int{}, time.Time{}, time.Time{}
			for i := range 200 {
				at := w.entry(fmt.Sprintf("k%03d", i)).NextAt
				if at.Before(now.Add(600 * time.Second)) {
					t.Fatalf("k%03d wakes after %s, before it may", i, at.Sub(now))
				}
				perSecond[at.Unix()]++
				if first.IsZero() || at.Before(first) {
					first = at
				}
				if at.After(last) {
					last = at
				}
			}
			for s, n := range perSecond {
				if n > 10 {
					t.Errorf("%d wake in second %d", n, s)
				}
			}
			if last.Sub(first) < time.Minute {
				t.Errorf("spread over %s only", last.Sub(first))
			}
		},
		"G02 slow is not dead: an entry whose lease is renewed is not taken": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			ctx := context.Background()
			c, err := w.store.Claim(ctx, ledger.Claim{Lane: "billing", Work: ledger.WorkLook, Limit: 1, Holder: "slow", Lease: time.Minute})
			if err != nil || len(c.Leases) != 1 {
				t.Fatal(c, err)
			}
			for range 12 {
				w.clock.advance(45 * time.Second)
				if lost, err := w.store.Renew(ctx, c.Leases, time.Minute); err != nil || len(lost) != 0 {
					t.Fatal(lost, err)
				}
				w.pass()
			}
			if w.sys.lookups != 0 {
				t.Errorf("%d looks at what another one holds", w.sys.lookups)
			}
			a, err := w.store.Apply(ctx, []ledger.Change{{Lease: c.Leases[0], Next: ledger.Settle(c.Entries[0].Entry, ledger.OutcomeApplied, ledger.ByLook, "found", w.clock.Now())}})
			if err != nil || a[0].Err != nil {
				t.Fatal(a, err)
			}
		},
		"G05 entries leased by a worker that no longer exists are taken up by the next pass": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			var lines []string
			for i := range 300 {
				lines = append(lines, w.line(fmt.Sprintf("k%03d", i), timeout))
				w.sys.make(fmt.Sprintf("k%03d", i), fmt.Sprint(i))
			}
			w.report(lines...)
			if _, err := w.store.Claim(context.Background(), ledger.Claim{Lane: "billing", Work: ledger.WorkLook, Limit: 300, Holder: "gone", Lease: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if c := w.pass().Counts; c.Skipped != 300 || c.LookedUp != 0 {
				t.Errorf("counts %+v", c)
			}
			w.clock.advance(time.Hour)
			if c := w.pass().Counts; c.SettledApplied != 300 {
				t.Errorf("counts %+v", c)
			}
		},
		"S27 made, then merged into another: settled applied under the survivor's id": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "7", func(o *object) { o.merged = "9" })
			w.pass()
			if e := w.want("k", ledger.StateSettled, "found"); e.RemoteID != "9" {
				t.Errorf("remote id %q", e.RemoteID)
			}
		},
		"S30 a status that we do not map holds that entry alone, and names the value": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout), w.line("other", timeout))
			w.sys.make("k", "7", func(o *object) { o.standing, o.status = connectors.StandingUnmapped, "limbo" })
			w.sys.make("other", "8")
			w.pass()
			w.want("k", ledger.StateEscalated, `unmapped_status: "limbo"`)
			w.want("other", ledger.StateSettled, "found")
		},
		"S31 a late failure report does not overturn what is settled": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", `"status":"ok","remote_id":"r-1"`))
			w.report(strings.Replace(w.line("k", timeout), `"a1"`, `"a0"`, 1))
			e := w.want("k", ledger.StateSettled, "")
			if e.Outcome != ledger.OutcomeApplied || e.Attempts != 2 {
				t.Errorf("got %s with %d attempts", e.Outcome, e.Attempts)
			}
		},
		"S33 a success reported during the look wins: the look's write is refused": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.lookErr = func(keys []string) *connectors.Error {
				if keys[0] == "k" {
					w.report(strings.Replace(w.line("k", `"status":"ok","remote_id":"r-1"`), `"a1"`, `"a2"`, 1))
				}
				return nil
			}
			w.pass()
			e := w.want("k", ledger.StateSettled, "")
			if e.Outcome != ledger.OutcomeApplied || e.RemoteID != "r-1" {
				t.Errorf("got %s %q", e.Outcome, e.RemoteID)
			}
			w.wantEffects("k", 0, 0)
		},
		"S40 the record changed owner, transfer: goes on under the new owner, the first one kept": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckOwner} }),
				withPolicy(func(p *reconcile.Policy) { p.OwnerCheck = reconcile.OwnerTransfer }),
				withSystem(func(y *system) {
					y.verdicts = []connectors.Verdict{{Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "77"}}
				}))
			w.rec.Owners = reconcile.Owners{"sales": {ID: "sales", IDs: []string{"77"}}}
			w.engine = w.newEngine("one", w.store)
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if e.Owner != "sales" || e.OriginalOwner != "revops" {
				t.Errorf("owner %q, first %q", e.Owner, e.OriginalOwner)
			}
		},
		"S55 two actions that would travel under one key: the second is refused, with both named": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(strings.Replace(w.line("k1", timeout), `"owner"`, `"provider_key":"same","owner"`, 1))
			out := w.report(strings.Replace(w.line("k2", timeout), `"owner"`, `"provider_key":"same","owner"`, 1))
			if out[0].Verdict != ledger.RecordedRefused || len(out[0].Errors) == 0 || !strings.Contains(out[0].Errors[0].Message, "k1") {
				t.Errorf("got %+v", out[0])
			}
		},
		"S64 the same key with another payload is refused, and the first entry untouched": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			before := fmt.Sprint(w.entry("k"))
			out := w.report(strings.Replace(w.line("k", timeout), `"amount":10`, `"amount":11`, 1))
			if out[0].Verdict != ledger.RecordedRefused || len(out[0].Errors) == 0 {
				t.Errorf("got %+v", out[0])
			}
			if after := fmt.Sprint(w.entry("k")); after != before {
				t.Errorf("changed:\n%s\n%s", before, after)
			}
		},
		"K01 consent is read for each entry right before its send": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }))
			w.sys.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}}
			w.sys.onSend = func() { // somebody opts out while the first is sent
				w.sys.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictRefuse}}
			}
			w.report(w.line("k1", limited))
			w.clock.advance(time.Second)
			w.report(w.line("k2", limited))
			w.clock.advance(time.Minute)
			w.pass(reconcile.PassOptions{Limit: 1})
			w.pass()
			w.want("k1", ledger.StateSettled, "sent")
			w.want("k2", ledger.StateSettled, "consent_withdrawn")
			w.wantEffects("k2", 0, 1)
		},
		"X03 max_attempts 1 is one call in all": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 1 }))
			w.report(w.line("k", limited))
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateEscalated, "attempts_exhausted: 1 of 1")
			w.wantEffects("k", 0, 0)
		},
		"X07 an entry that a person retries and that fails again is escalated once more each time": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 1 }), withSystem(func(y *system) {
				y.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
					return false, failed(connectors.KindValidation, connectors.EffectNotDone, 422)
				}
			}))
			w.report(w.line("k", limited))
			for range 3 {
				if _, err := w.engine.Person(context.Background(), "k", reconcile.PersonAction{Action: ledger.ActionRetry, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				w.pass()
				w.pass()
				w.want("k", ledger.StateEscalated, "permanent: validation")
			}
			hs, err := w.store.History(context.Background(), w.entry("k").ID)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, h := range hs {
				if h.To == ledger.StateEscalated && h.From != ledger.StateEscalated {
					n++
				}
			}
			if n != 4 || w.sys.sends != 3 {
				t.Errorf("%d episodes and %d sends, want 4 and 3", n, w.sys.sends)
			}
		},
		"while the platform retries by itself nothing is sent; from its end on absence can be proven": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			until := w.clock.Now().Add(30 * time.Minute).Format(time.RFC3339)
			w.report(strings.Replace(w.line("k", limited), `"owner"`, fmt.Sprintf(`"driver":"platform","driver_until":%q,"owner"`, until), 1))
			w.runFor(29 * time.Minute)
			if e := w.entry("k"); e.State != ledger.StateAmbiguous || e.Negatives != 0 {
				t.Fatalf("got %s %q with %d negatives", e.State, e.Reason, e.Negatives)
			}
			w.wantEffects("k", 0, 0)
			w.runFor(7 * time.Minute) // quiet, and two negatives
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"a platform that never says when it gives up: a person, once max_age has passed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAge = 5 * time.Hour }))
			w.report(strings.Replace(w.line("k", timeout), `"owner"`, `"driver":"platform","owner"`, 1))
			for range 14 {
				w.pass()
				w.clock.advance(time.Hour)
			}
			w.want("k", ledger.StateEscalated, "outcome_unknown: platform_retries")
			w.wantEffects("k", 0, 0)
		},
		"what was made under our key and is not shown raises an alert, not silence": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				w.sys.makeLocked("under another key", "INV-1")
				return false, answered("INV-1")
			}
			w.report(w.line("k", timeout))
			var notes []string
			for range 40 {
				notes = append(notes, w.pass().Notes...)
				w.clock.advance(15 * time.Second)
			}
			w.want("k", ledger.StateSettled, "sent")
			if len(notes) != 1 || !strings.HasPrefix(notes[0], "own_not_shown") {
				t.Errorf("notes %q", notes)
			}
			// Found by a first look, another one says nothing of what was sent.
			w.report(w.line("found", timeout))
			w.sys.make("found", "INV-2")
			w.runFor(5 * time.Minute)
			w.want("found", ledger.StateSettled, "found")
			w.wantAlert("own_not_shown:billing/invoice.create", true)
			// What is sent now is shown.
			w.sys.sendAs = nil
			w.report(w.line("mended", timeout))
			w.runFor(10 * time.Minute)
			w.want("mended", ledger.StateSettled, "sent")
			w.wantAlert("own_not_shown:billing/invoice.create", false)
		},
		"the history of a change of owner says who gave it to whom, and the entry keeps why it waits": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", strings.Replace(timeout, "timeout", "validation", 1)))
			before := w.entry("k")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionTake, By: "ada"})
			w.person("k", reconcile.PersonAction{Action: ledger.ActionAssign, By: "ada", To: "finance", Note: "theirs"})
			if e := w.entry("k"); e.Reason != before.Reason || e.Owner != "finance" {
				t.Errorf("reason %q, owner %s", e.Reason, e.Owner)
			}
			hs, err := w.store.History(context.Background(), before.ID)
			if err != nil || len(hs) != 3 {
				t.Fatalf("%d rows of history, %v", len(hs), err)
			}
			for i, want := range []string{"take: from " + before.Owner, "assign: from ada to finance"} {
				if h := hs[i+1]; h.Reason != want || h.Actor != "person:ada" {
					t.Errorf("row %d: %q by %s, want %q", i+2, h.Reason, h.Actor, want)
				}
			}
			if hs[2].Note != "theirs" {
				t.Errorf("note %q", hs[2].Note)
			}
		},
		"an unknown connector is named, and its entries wait: nothing was asked, so no look has failed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(strings.Replace(w.line("k", timeout), `"billing"`, `"nowhere"`, 1), w.line("ok", timeout))
			w.sys.make("ok", "1")
			tally := w.pass()
			if tally.Counts.CouldNotAsk != 1 || tally.Counts.SettledApplied != 1 {
				t.Errorf("counts %+v", tally.Counts)
			}
			if e := w.entry("k"); e.State != ledger.StateAmbiguous || e.LooksFailed != 0 {
				t.Errorf("got %s, %d looks failed", e.State, e.LooksFailed)
			}
		},
		"a send whose answer comes after its lease was lost is kept, and settles": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", limited))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				// While the request is under way, the workflow reports another attempt.
				w.report(strings.Replace(w.line("k", timeout), `"a1"`, `"a2"`, 1))
				return true, answered("INV-1")
			}
			w.clock.advance(time.Minute)
			w.pass()
			e := w.want("k", ledger.StateSettled, "sent")
			if e.RemoteID != "INV-1" || e.Attempts != 3 {
				t.Errorf("remote id %q, %d attempts", e.RemoteID, e.Attempts)
			}
			w.wantExplained("k")
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachLedger(t, f)
		})
	}
}
