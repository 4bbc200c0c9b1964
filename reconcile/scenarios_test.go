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

// brokenStore is a ledger whose writes fail while failing says so, as when the
// database goes away in the middle of a pass.
type brokenStore struct {
	ledger.Store
	failing func() bool
}

var errGone = errors.New("the database is gone")

func (s *brokenStore) Apply(ctx context.Context, cs []ledger.Change) ([]ledger.Applied, error) {
	if s.failing() {
		return nil, errGone
	}
	return s.Store.Apply(ctx, cs)
}

func sibling(line, outcomeKey string) string {
	return strings.Replace(line, `"owner"`, fmt.Sprintf(`"outcome_key":%q,"owner"`, outcomeKey), 1)
}

// TestScenarios drives the real pass through the scenarios that the other
// tables of this package do not have. docs/scenarios.md says where each is.
func TestScenarios(t *testing.T) {
	checked := func(name connectors.CheckName, v connectors.Verdict) []option {
		return []option{withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{name} }),
			withSystem(func(y *system) { y.verdicts = []connectors.Verdict{v} })}
	}
	tests := map[string]func(t *testing.T, open func(*fakeClock) ledger.Store){
		"S02 finally declined: as after_max_attempts says, with the status kept": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.FailedState = true }))
			w.report(w.line("k", timeout))
			w.sys.make("k", "ch-1", func(o *object) { o.standing, o.status = connectors.StandingRejected, "card_declined" })
			w.pass()
			e := w.want("k", ledger.StateSettled, "permanent: rejected")
			if e.Outcome != ledger.OutcomeNotApplied || e.LastClass != ledger.ClassRejected || e.Class != ledger.ReportPermanentlyFailed {
				t.Errorf("got %s %s %s", e.Outcome, e.LastClass, e.Class)
			}
			ev, err := w.store.Evidence(context.Background(), e.ID)
			if err != nil || len(ev) != 1 || ev[0].Finding != ledger.FindingRejected || !strings.Contains(string(ev[0].Detail), "card_declined") {
				t.Errorf("evidence %+v, %v", ev, err)
			}
			w.wantEffects("k", 1, 0)
		},
		"S03 in progress: looked at on the pending schedule, never resent, and settled when it is done": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "p-1", func(o *object) { o.standing, o.status = connectors.StandingPending, "processing" })
			w.pass()
			e := w.want("k", ledger.StateAmbiguous, "pending")
			if d := e.NextAt.Sub(w.clock.Now()); d < 9*time.Minute || d > 11*time.Minute || e.Negatives != 0 {
				t.Errorf("looked at again in %s with %d negatives", d, e.Negatives)
			}
			w.runFor(35 * time.Minute)
			e = w.want("k", ledger.StateAmbiguous, "pending")
			if e.LooksAnswered > 5 || e.Negatives != 0 {
				t.Errorf("%d looks, %d negatives", e.LooksAnswered, e.Negatives)
			}
			w.sys.objects[1].standing = connectors.StandingApplied
			w.runFor(11 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
		},
		"S03 in progress past the settle window: a person, and still not resent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "p-1", func(o *object) { o.standing = connectors.StandingPending })
			for range 14 {
				w.pass()
				w.clock.advance(6 * time.Hour)
			}
			w.want("k", ledger.StateEscalated, "still_pending")
			w.wantEffects("k", 1, 0)
		},
		"A07 S07 a lookup that may lag by an hour never proves absence within it": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.VisibleWithin = time.Hour }), withSystem(func(y *system) { y.lag = 55 * time.Minute }))
			w.report(w.line("k", timeout))
			w.sys.make("k", "sms-1")
			w.runFor(50 * time.Minute)
			if e := w.want("k", ledger.StateAmbiguous, "too_early"); e.Negatives != 0 {
				t.Errorf("%d negatives", e.Negatives)
			}
			w.runFor(20 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
		},
		"S09 another system goes on while one is paused": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			other := &system{clock: w.clock, op: operation(), lane: "other", name: "other"}
			other.make("canary", "c")
			w.rec.Connectors["other"] = other
			w.engine = w.newEngine("one", w.store)
			w.sys.lookErr = func([]string) *connectors.Error {
				return &connectors.Error{Kind: connectors.KindRateLimit, HTTPStatus: 429, RetryAfter: connectors.RetryAfter{Wait: 30 * time.Second}}
			}
			w.report(w.line("k", timeout), strings.Replace(w.line("o", timeout), `"billing"`, `"other"`, 1))
			other.make("o", "1")
			w.pass()
			w.want("o", ledger.StateSettled, "found")
			if e := w.want("k", ledger.StateAmbiguous, ""); e.AttemptCount != 1 || e.Negatives != 0 {
				t.Errorf("%d attempts, %d negatives", e.AttemptCount, e.Negatives)
			}
		},
		"A04 C10 two records under one key: the system's key did not hold, the owner has both, nothing is resent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.Owner = "payments" }))
			w.report(w.line("pay-301", timeout))
			w.sys.make("pay-301", "881")
			w.sys.make("pay-301", "882")
			w.clock.advance(70 * time.Second)
			w.pass()
			e := w.want("pay-301", ledger.StateEscalated, "duplicate: 2 live records: 881, 882")
			if e.Owner != "payments" || e.OriginalOwner != "revops" || !e.HasFlag(ledger.FlagDuplicate) {
				t.Errorf("owner %q, first %q, flags %v", e.Owner, e.OriginalOwner, e.Flags)
			}
			w.runFor(time.Hour)
			w.wantEffects("pay-301", 2, 0)
		},
		"A03 not idempotent and not to be asked: a person, and no retry": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup, o.CarriesKey = connectors.LookupNone, false }))
			w.report(w.line("k", `"status":"unknown"`))
			w.runFor(time.Hour)
			w.want("k", ledger.StateEscalated, "outcome_unknown: this system cannot be asked")
			if w.sys.sends != 0 || w.sys.lookups != 0 {
				t.Errorf("%d sends, %d looks", w.sys.sends, w.sys.lookups)
			}
		},
		"A11 a run is played again: what was done stays done, and only the failed step is tried": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("email:offer:c-40", `"status":"ok","remote_id":"m-1"`), w.line("crm:note:c-40", `"status":"error","http_status":503`))
			w.sys.make("email:offer:c-40", "m-1")
			// The platform plays both again: it only says that it begins.
			again := func(key string) string {
				return strings.Replace(w.line(key, `"status":"started"`), `"a1"`, `"b1"`, 1)
			}
			w.report(again("email:offer:c-40"))
			e := w.want("email:offer:c-40", ledger.StateSettled, "")
			if e.Outcome != ledger.OutcomeApplied || !e.Verify {
				t.Errorf("got %s, looked at once more: %v", e.Outcome, e.Verify)
			}
			w.runFor(30 * time.Minute)
			w.want("crm:note:c-40", ledger.StateSettled, "sent")
			w.want("email:offer:c-40", ledger.StateSettled, "")
			w.wantEffects("email:offer:c-40", 1, 1)
			w.wantEffects("crm:note:c-40", 1, 1)
		},
		"A02 A12 two branches begin the same action: one entry, and what the first comes to holds for both": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("hubspot:company:example.org", `"status":"started"`))
			w.clock.advance(2 * time.Second)
			out := w.report(strings.Replace(w.line("hubspot:company:example.org", `"status":"started"`), `"a1"`, `"y1"`, 1))
			if out[0].Verdict != ledger.RecordedMerged || out[0].Entry.Attempts != 2 {
				t.Errorf("got %s with %d attempts", out[0].Verdict, out[0].Entry.Attempts)
			}
			w.sys.make("hubspot:company:example.org", "co-1")
			w.pass()
			e := w.want("hubspot:company:example.org", ledger.StateSettled, "found")
			if e.RemoteID != "co-1" {
				t.Errorf("remote id %q", e.RemoteID)
			}
			out = w.report(strings.Replace(w.line("hubspot:company:example.org", `"status":"error","http_status":409`), `"a1"`, `"y1"`, 1))
			if out[0].Entry.Outcome != ledger.OutcomeApplied || out[0].Entry.RemoteID != "co-1" {
				t.Errorf("told %s %q", out[0].Entry.Outcome, out[0].Entry.RemoteID)
			}
			w.runFor(10 * time.Minute)
			w.wantEffects("hubspot:company:example.org", 1, 0)
		},
		"S19 a key past its life, but a unique key: low risk, so it is sent after one negative": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey, o.Unique = 24*time.Hour, true }),
				withPolicy(func(p *reconcile.Policy) { p.MaxAge, p.Risk = 100*time.Hour, "" }))
			w.report(strings.Replace(w.line("k", timeout), `"owner"`, `"risk":"low","owner"`, 1))
			w.clock.advance(30 * time.Hour)
			w.pass()
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"S20 a lifetime that nobody published is not relied on: looked for, then made, under the same key": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open) // keeps_key is not set
			w.report(w.line("k", timeout))
			w.runFor(2 * time.Minute)
			w.wantEffects("k", 0, 0) // an unknown effect is never resent on the strength of the key
			w.runFor(5 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 1 || w.sys.sent[0].IdempotencyKey != "k" {
				t.Errorf("keys %v, sent %+v", e.Keys, w.sys.sent)
			}
			w.wantEffects("k", 1, 1)
		},
		"S20 at high risk such a key does not replace a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }))
			w.report(w.line("k", timeout))
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval: high risk")
			w.wantEffects("k", 0, 0)
		},
		"S21 another credential since the first send: the key is new to the system, so a new one follows proven absence": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey, o.KeyScope = 24*time.Hour, "credential" }),
				withSystem(func(y *system) { y.scopes = map[string]string{"credential": "aaaa"} }))
			w.report(w.line("k", timeout))
			w.pass()
			w.sys.scopes = map[string]string{"credential": "bbbb"}
			if notes := w.pass().Notes; len(notes) != 1 || !strings.Contains(notes[0], `the credential of "billing" is another`) {
				t.Errorf("notes %q", notes)
			}
			w.runFor(10 * time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || w.sys.sent[0].IdempotencyKey != e.Keys[1] {
				t.Errorf("keys %v, sent %+v", e.Keys, w.sys.sent)
			}
			// What came after the change is in the present scope.
			w.sys.sent = nil
			w.report(w.line("k2", timeout))
			w.engine = w.newEngine("two", w.store)
			w.runFor(10 * time.Minute)
			if e := w.want("k2", ledger.StateSettled, "sent"); len(e.Keys) != 1 || w.sys.sent[0].IdempotencyKey != "k2" {
				t.Errorf("keys %v, sent %+v", e.Keys, w.sys.sent)
			}
		},
		"S21 another region, at high risk: a person, with the reason": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey, o.KeyScope = 24*time.Hour, "region" }),
				withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }),
				withSystem(func(y *system) { y.scopes = map[string]string{"region": "eu", "credential": "aaaa"} }))
			w.report(w.line("k", timeout), w.line("k2", timeout))
			w.sys.make("k2", "2")
			w.pass()
			w.sys.scopes = map[string]string{"region": "us", "credential": "bbbb"}
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "needs_approval: high risk, and the key was sent under another region")
			w.want("k2", ledger.StateSettled, "found")
			w.wantEffects("k", 0, 0)
		},
		"S21 the same credential, at high risk: the key is alive, and refuses a second": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey, o.KeyScope = 24*time.Hour, "credential" }),
				withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }),
				withSystem(func(y *system) { y.scopes = map[string]string{"credential": "aaaa"} }))
			w.report(w.line("k", timeout))
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"S29 older than the system shows: absence cannot be proven, a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.LooksBack = 15 * 24 * time.Hour }),
				withPolicy(func(p *reconcile.Policy) { p.MaxAge = 90 * 24 * time.Hour }))
			old := strings.Replace(w.line("k", timeout), w.clock.Now().Format("2006-01-02"), "2026-09-01", 1)
			w.report(old)
			w.runFor(10 * time.Minute)
			if e := w.want("k", ledger.StateAmbiguous, "beyond_looks_back"); e.Negatives != 0 {
				t.Errorf("%d negatives", e.Negatives)
			}
			for range 14 {
				w.clock.advance(6 * time.Hour)
				w.pass()
			}
			w.want("k", ledger.StateEscalated, "outcome_unknown: beyond_looks_back")
			w.wantEffects("k", 0, 0)
		},
		"S33 an attempt that still runs in the workflow is not looked at before in_flight_for": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", `"status":"started"`))
			w.runFor(14 * time.Minute)
			if w.want("k", ledger.StateInFlight, ""); w.sys.lookups != 0 {
				t.Errorf("%d looks", w.sys.lookups)
			}
			w.sys.make("k", "x")
			w.runFor(2 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
		},
		"S38 a thousand entries that never settle do not hide new ones": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup, o.BatchMax, o.Canary = connectors.LookupBatch, 101, "" }))
			var lines []string
			for i := range 1000 {
				lines = append(lines, w.line(fmt.Sprintf("old%04d", i), timeout))
			}
			w.report(lines...)
			for range 10 {
				w.pass(reconcile.PassOptions{Limit: 100})
			}
			w.clock.advance(time.Second)
			w.report(w.line("new", timeout))
			w.sys.make("new", "1")
			// The thousand are not due again yet, or due later than the new one.
			w.pass(reconcile.PassOptions{Limit: 100})
			w.want("new", ledger.StateSettled, "found")
			w.clock.advance(time.Hour)
			w.report(w.line("newer", timeout))
			w.sys.make("newer", "2")
			for range 11 {
				w.pass(reconcile.PassOptions{Limit: 100})
			}
			w.want("newer", ledger.StateSettled, "found")
		},
		"S40 the record changed owner, hold: a person decides, nothing is sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, checked(connectors.CheckOwner, connectors.Verdict{Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "77"})...)
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateEscalated, `owner_changed: the record now belongs to "77"`)
			if e.Owner != "revops" || e.Effect != ledger.EffectNotDone {
				t.Errorf("owner %q, effect %s", e.Owner, e.Effect)
			}
			w.wantEffects("k", 0, 0)
		},
		"S41 closed meanwhile: blocked without a send": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, checked(connectors.CheckLifecycle, connectors.Verdict{Check: connectors.CheckLifecycle, Kind: connectors.VerdictRefuse, Value: "churned", Detail: `stage is "churned"`})...)
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			e := w.want("k", ledger.StateSettled, "lifecycle_closed")
			if e.Outcome != ledger.OutcomeNotApplied || e.Class != ledger.ReportBlocked {
				t.Errorf("got %s %s", e.Outcome, e.Class)
			}
			w.wantEffects("k", 0, 0)
		},
		"S39 S41 refused = escalated: the owner is told instead": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, append(checked(connectors.CheckLifecycle, connectors.Verdict{Check: connectors.CheckLifecycle, Kind: connectors.VerdictRefuse, Value: "closed"}),
				withPolicy(func(p *reconcile.Policy) { p.RefusedEscalates = true }))...)
			w.report(w.line("k", timeout))
			w.runFor(6 * time.Minute)
			w.want("k", ledger.StateEscalated, "lifecycle_closed")
			w.wantEffects("k", 0, 0)
		},
		"S44 the first for an outcome turns out not done and ends: the second is released": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 2 }))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				if s.Key == "k1" {
					return false, failed(connectors.KindValidation, connectors.EffectNotDone, 422)
				}
				return true, answered("inv-2")
			}
			w.report(sibling(w.line("k1", timeout), "invoice-9"), sibling(w.line("k2", limited), "invoice-9"))
			w.clock.advance(time.Minute)
			w.pass()
			w.want("k2", ledger.StateRetryable, "outcome_key_held: by k1")
			w.runFor(15 * time.Minute)
			w.want("k1", ledger.StateEscalated, "permanent: validation")
			w.want("k2", ledger.StateSettled, "sent")
			w.wantEffects("k2", 1, 2)
			w.wantEffects("k1", 0, 2)
		},
		"S44 both for one outcome turn out applied: both are settled and flagged, and nothing was sent by us": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(sibling(w.line("k1", timeout), "invoice-9"), sibling(w.line("k2", timeout), "invoice-9"))
			w.sys.make("k1", "1")
			w.sys.make("k2", "2")
			w.runFor(5 * time.Minute)
			for _, k := range []string{"k1", "k2"} {
				if e := w.want(k, ledger.StateSettled, ""); e.Outcome != ledger.OutcomeApplied || !e.HasFlag(ledger.FlagDuplicate) {
					t.Errorf("%s: %s, flags %v", k, e.Outcome, e.Flags)
				}
				w.wantExplained(k)
			}
			w.wantEffects("k1", 1, 0)
		},
		"S44 both for one outcome are reported as done: both are flagged, and a closed flag stays closed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			done := func(id string) string { return `"status":"ok","remote_id":"` + id + `"` }
			lines := []string{sibling(w.line("k1", done("1")), "invoice-9"), sibling(w.line("k2", done("2")), "invoice-9"), sibling(w.line("k3", done("2")), "invoice-8")}
			w.report(lines...)
			for k, want := range map[string]bool{"k1": true, "k2": true, "k3": false} {
				if e := w.want(k, ledger.StateSettled, ""); e.HasFlag(ledger.FlagDuplicate) != want {
					t.Errorf("%s: flags %v", k, e.Flags)
				}
			}
			w.wantExplained("k1")
			w.person("k1", reconcile.PersonAction{Action: ledger.ActionResolve, By: "ada", Note: "one was taken back"})
			w.report(lines...)
			if e := w.want("k1", ledger.StateSettled, ""); e.HasFlag(ledger.FlagDuplicate) {
				t.Errorf("flagged again: %v", e.Flags)
			}
		},
		"S44 both for one outcome, the second by a person's word: both are flagged": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(sibling(w.line("k1", `"status":"ok","remote_id":"1"`), "invoice-9"), sibling(w.line("k2", timeout), "invoice-9"))
			w.person("k2", reconcile.PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeApplied, By: "ada", Reference: "2", Note: "seen in the system"})
			for _, k := range []string{"k1", "k2"} {
				if e := w.want(k, ledger.StateSettled, ""); !e.HasFlag(ledger.FlagDuplicate) {
					t.Errorf("%s: flags %v", k, e.Flags)
				}
			}
		},
		"a connector that the config does not name: waits, says so, and goes to a person in the end": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			other := func(key, attempt string) string {
				return strings.Replace(w.line(key, attempt), `"billing"`, `"biling"`, 1)
			}
			w.report(other("unknown", timeout), other("not done", `"status":"error","http_status":503,"effect":"not_done"`))
			w.clock.advance(time.Minute)
			began := w.clock.Now()
			tally := w.pass()
			for k, state := range map[string]ledger.State{"unknown": ledger.StateAmbiguous, "not done": ledger.StateRetryable} {
				e := w.want(k, state, "connector_not_configured")
				if !e.NextAt.After(e.LastActivityAt) || e.LastActivityAt.Before(began) {
					t.Errorf("%s: next at %s, last activity %s", k, e.NextAt, e.LastActivityAt)
				}
			}
			if tally.Counts.CouldNotAsk != 1 || tally.Counts.Skipped != 1 {
				t.Errorf("counts %+v", tally.Counts)
			}
			for range 80 {
				w.clock.advance(time.Hour)
				w.pass()
			}
			w.want("unknown", ledger.StateEscalated, "outcome_unknown: connector_not_configured")
			w.want("not done", ledger.StateEscalated, "too_old")
		},
		"a success between failures ends their row, also while the lane is paused": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			lanes := reconcile.NewLanes(w.store)
			fail := &connectors.Error{Kind: connectors.KindServerError, HTTPStatus: 500}
			ctx := context.Background()
			for range 5 {
				if _, _, err := lanes.Failed(ctx, "billing", fail); err != nil {
					t.Fatal(err)
				}
			}
			if err := lanes.OK(ctx, "billing"); err != nil {
				t.Fatal(err)
			}
			if ln, err := w.store.Lane(ctx, "billing"); err != nil || ln.FailedInRow != 0 || !ln.PausedUntil.After(w.clock.Now()) {
				t.Errorf("%d failures in a row, paused until %s, %v; want none, and still paused", ln.FailedInRow, ln.PausedUntil, err)
			}
		},
		"C02 the same key for another operation is refused, with the way out": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("inv:55", timeout))
			out := w.report(strings.Replace(w.line("inv:55", timeout), "invoice.create", "invoice.pay", 1))
			if out[0].Verdict != ledger.RecordedRefused || len(out[0].Errors) == 0 || out[0].Errors[0].Field != "operation" || !strings.Contains(out[0].Errors[0].Message, "action_key of its own") {
				t.Errorf("got %+v", out[0])
			}
			w.want("inv:55", ledger.StateAmbiguous, "")
		},
		"C04 S45 tries are used up and it stays unknown: the owner is told that it is unknown, not that it failed": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 1 }), withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(w.line("k", `"status":"error","http_status":409,"error_class":"lock_conflict"`))
			looks := 0
			for range 14 {
				w.pass()
				w.clock.advance(6 * time.Hour)
				if e := w.entry("k"); e.State == ledger.StateAmbiguous {
					looks = e.LooksAnswered
				}
			}
			e := w.want("k", ledger.StateEscalated, "outcome_unknown")
			if looks == 0 || e.Effect != ledger.EffectUnknown || e.Class != ledger.ReportEscalated || e.DueAt.IsZero() {
				t.Errorf("%d looks before, effect %s, class %s", looks, e.Effect, e.Class)
			}
			w.wantEffects("k", 0, 0)
		},
		"G03 killed before the started mark: nothing happened, nothing counts": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", limited))
			w.clock.advance(time.Minute)
			ctx := context.Background()
			c, err := w.store.Claim(ctx, ledger.Claim{Lane: "billing", Work: ledger.WorkAdvance, Limit: 1, Holder: "dies", Lease: time.Minute})
			if err != nil || len(c.Leases) != 1 {
				t.Fatal(c, err)
			}
			if a, err := w.store.Apply(ctx, []ledger.Change{{Lease: c.Leases[0], Next: ledger.Advance(c.Entries[0].Entry, "checks_passed", w.clock.Now().Add(time.Minute)), Keep: true}}); err != nil || a[0].Err != nil {
				t.Fatal(a, err)
			}
			w.pass() // its lease still runs
			w.want("k", ledger.StateReady, "checks_passed")
			w.clock.advance(2 * time.Minute)
			w.pass()
			e := w.want("k", ledger.StateSettled, "sent")
			if e.Attempts != 2 {
				t.Errorf("%d attempts", e.Attempts)
			}
			w.wantEffects("k", 1, 1)
		},
		"G07 a restart changes nothing that is done, waiting or with a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("done", `"status":"ok","remote_id":"1"`), w.line("person", timeout), w.line("asleep", timeout), w.line("leased", timeout))
			w.sys.make("person", "1", func(o *object) { o.amount = "99" })
			w.sys.make("asleep", "1", func(o *object) { o.amount = "99" })
			w.pass()
			if _, err := w.engine.Person(context.Background(), "asleep", reconcile.PersonAction{Action: ledger.ActionSnooze, By: "ada", Until: w.clock.Now().Add(48 * time.Hour)}); err != nil {
				t.Fatal(err)
			}
			w.clock.advance(time.Hour)
			if _, err := w.store.Claim(context.Background(), ledger.Claim{Lane: "billing", Work: ledger.WorkLook, Limit: 9, Holder: "one", Lease: time.Hour}); err != nil {
				t.Fatal(err)
			}
			before := []ledger.Entry{w.entry("done"), w.entry("person"), w.entry("asleep"), w.entry("leased")}
			w.engine = w.newEngine("one", w.open()) // the same host, started again
			w.pass()
			for _, e := range before {
				if now := w.entry(e.ActionKey); now.State != e.State || now.Reason != e.Reason || now.FencingToken != e.FencingToken {
					t.Errorf("%s was %s %q, now %s %q", e.ActionKey, e.State, e.Reason, now.State, now.Reason)
				}
			}
		},
		"I02 S35 the ledger is gone when the answer to a send has to be written: not sent again, looked at": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", limited))
			w.clock.advance(time.Minute)
			sent := false
			w.sys.onSend = func() { sent = true }
			broken := w.newEngine("breaks", &brokenStore{Store: w.store, failing: func() bool { return sent }})
			if _, err := broken.Pass(context.Background(), reconcile.PassOptions{}); !errors.Is(err, errGone) {
				t.Fatalf("got %v", err)
			}
			w.want("k", ledger.StateInFlight, "sent")
			w.wantEffects("k", 1, 1)
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 1)
		},
		"I02 S35 the ledger is gone when a finding has to be written: it is asked again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "inv-1")
			broken := w.newEngine("breaks", &brokenStore{Store: w.store, failing: func() bool { return true }})
			if _, err := broken.Pass(context.Background(), reconcile.PassOptions{}); !errors.Is(err, errGone) {
				t.Fatalf("got %v", err)
			}
			w.want("k", ledger.StateAmbiguous, "")
			w.clock.advance(2 * time.Minute)
			w.pass()
			w.want("k", ledger.StateSettled, "found")
			w.wantEffects("k", 1, 0)
		},
		"I04 G08 fifty writers report while two processes run passes: none is told that the ledger is locked": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Lookup, o.BatchMax = connectors.LookupBatch, 101 }))
			second := w.open()
			engines := []*reconcile.Engine{w.engine, w.newEngine("two", second)}
			var lines [50][]ledger.Record
			for i := range lines {
				for j := range 8 {
					r, errs := ledger.ParseRecord([]byte(w.line(fmt.Sprintf("w%02d:%d", i, j), timeout)), ledger.ParseOptions{Now: w.clock.Now()})
					if len(errs) > 0 {
						t.Fatal(errs)
					}
					lines[i] = append(lines[i], r)
					w.sys.make(r.ActionKey, r.ActionKey)
				}
			}
			var wg sync.WaitGroup
			for i := range lines {
				wg.Go(func() {
					for _, r := range lines[i] {
						if _, err := second.Record(context.Background(), []ledger.Record{r}, w.rec.Decide); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for _, e := range engines {
				wg.Go(func() {
					for range 5 {
						if _, err := e.Pass(context.Background(), reconcile.PassOptions{}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			w.clock.advance(time.Minute)
			w.pass()
			if n, _, err := w.store.Count(context.Background(), ledger.Filter{State: ledger.StateSettled}); err != nil || n != 400 {
				t.Errorf("%d settled, want 400 (%v)", n, err)
			}
		},
		"S49 what another pass has claimed is counted as skipped": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout), w.line("free", timeout))
			if _, err := w.store.Claim(context.Background(), ledger.Claim{Lane: "billing", Work: ledger.WorkLook, Limit: 1, Holder: "other", Lease: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if c := w.pass().Counts; c.Skipped != 1 || c.LookedUp != 1 {
				t.Errorf("counts %+v", c)
			}
		},
		"S66 paid, then refunded: settled applied and flagged, never sent again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.sys.make("k", "ch-1", func(o *object) { o.standing, o.status = connectors.StandingReversed, "refunded" })
			w.pass()
			if e := w.want("k", ledger.StateSettled, "reversed"); e.Outcome != ledger.OutcomeApplied || !e.HasFlag(ledger.FlagReversed) {
				t.Errorf("got %s %v", e.Outcome, e.Flags)
			}
			w.runFor(10 * time.Minute)
			w.wantEffects("k", 1, 0)
		},
		"S31 a success is reported for what was settled not applied: a conflict for a person, nothing is overwritten": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.FailedState = true }))
			w.report(w.line("k", `"status":"error","http_status":422`))
			w.want("k", ledger.StateSettled, "permanent: validation")
			w.report(strings.Replace(w.line("k", `"status":"ok","remote_id":"r-1"`), `"a1"`, `"a2"`, 1))
			e := w.want("k", ledger.StateSettled, "permanent")
			if e.Outcome != ledger.OutcomeNotApplied || !e.HasFlag(ledger.FlagConflict) {
				t.Errorf("got %s %v", e.Outcome, e.Flags)
			}
			e, err := w.engine.Person(context.Background(), "k", reconcile.PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeApplied, By: "ada", Note: "seen"})
			if err != nil || e.Outcome != ledger.OutcomeApplied || len(e.Flags) > 0 {
				t.Errorf("corrected: %s %v, %v", e.Outcome, e.Flags, err)
			}
		},
		"the original lands late, after the resend: the second record is found and flagged": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.runFor(4 * time.Minute)
			if e := w.want("k", ledger.StateSettled, "sent"); !e.Verify || len(e.Flags) > 0 {
				t.Fatalf("looked at once more: %v, flags %v", e.Verify, e.Flags)
			}
			w.sys.make("k", "late") // later than lands_within says
			w.runFor(5 * time.Minute)
			e := w.want("k", ledger.StateSettled, "duplicate: 2 live records")
			if e.Outcome != ledger.OutcomeApplied || !e.HasFlag(ledger.FlagDuplicate) || e.Verify {
				t.Errorf("got %s %v", e.Outcome, e.Flags)
			}
			w.wantEffects("k", 2, 1)
			if l, err := w.store.Lane(context.Background(), "billing"); err != nil || l.LagFactor != 2 {
				t.Errorf("lag factor %d, %v", l.LagFactor, err)
			}
		},
		"the original lands late under the key that was given up: found under it, and flagged": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) { p.MaxAge = 100 * time.Hour }))
			w.sys.sendAs = func(s connectors.Send) (bool, connectors.SendResult) {
				w.sys.makeLocked(s.IdempotencyKey, "new")
				return false, answered("new")
			}
			w.report(w.line("k", timeout))
			w.clock.advance(25 * time.Hour)
			w.runFor(2 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.sys.make("k", "old")
			w.runFor(10 * time.Minute)
			if e := w.want("k", ledger.StateSettled, "duplicate: 2 live records"); !e.HasFlag(ledger.FlagDuplicate) {
				t.Errorf("flags %v", e.Flags)
			}
		},
		"an attempt only begun, without a send_by: found later, or never proven absent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("found", `"status":"started"`), w.line("never", `"status":"started"`))
			w.clock.advance(16 * time.Minute)
			w.pass()
			w.want("never", ledger.StateAmbiguous, "no_send_by")
			w.sys.make("found", "1")
			for range 14 {
				w.clock.advance(6 * time.Hour)
				w.pass()
			}
			w.want("found", ledger.StateSettled, "found")
			w.want("never", ledger.StateEscalated, "outcome_unknown: no_send_by")
			w.wantEffects("never", 0, 0)
		},
		"an attempt only begun, without a send_by, where a unique key refuses a second: sent after the looks": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Unique = true }))
			w.report(w.line("k", `"status":"started"`))
			w.clock.advance(16 * time.Minute)
			w.runFor(15 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"an attempt that promises its send_by is proven absent from there on": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", fmt.Sprintf(`"status":"started","send_by":%q`, w.clock.Now().Add(10*time.Minute).Format(time.RFC3339))))
			w.runFor(12 * time.Minute)
			if e := w.entry("k"); e.Negatives != 0 || w.sys.sends != 0 {
				t.Errorf("%d negatives, %d sends", e.Negatives, w.sys.sends)
			}
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"a repeatable operation is looked up, and sent again without proof of absence": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }))
			w.report(w.line("there", timeout), w.line("not", timeout))
			w.sys.make("there", "1")
			w.runFor(time.Minute)
			w.want("there", ledger.StateSettled, "found")
			w.want("not", ledger.StateSettled, "sent")
			w.wantEffects("there", 1, 1)
			w.wantEffects("not", 1, 1)
		},
		"two equal records without an outcome key: the second waits, and once the first is applied a person decides": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			equal := func(key, attempt string) string {
				return strings.Replace(w.line(key, attempt), fmt.Sprintf(`{"amount":10,"for":%q}`, key), `{"amount":10}`, 1)
			}
			rec := func(l string) string { return strings.Replace(l, `"owner"`, `"record_id":"form-1","owner"`, 1) }
			w.report(rec(equal("k1", timeout)), rec(equal("k2", limited)))
			w.clock.advance(time.Minute)
			w.pass()
			w.want("k2", ledger.StateRetryable, "look_alike: waits behind k1")
			w.sys.make("k1", "1")
			w.runFor(5 * time.Minute)
			w.want("k1", ledger.StateSettled, "found")
			w.want("k2", ledger.StateEscalated, "look_alike")
			w.wantEffects("k2", 0, 0)
		},
		"a newer change of the same record was applied: the older one is not sent any more": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }))
			rec := func(l string) string { return strings.Replace(l, `"owner"`, `"record_id":"deal-1","owner"`, 1) }
			w.report(rec(w.line("older", limited)))
			w.clock.advance(2 * time.Second)
			w.report(rec(w.line("newer", `"status":"ok","remote_id":"deal-1"`)))
			w.runFor(5 * time.Minute)
			w.want("newer", ledger.StateSettled, "")
			e := w.want("older", ledger.StateSettled, "superseded: newer is newer on the same record")
			if e.Class != ledger.ReportBlocked {
				t.Errorf("class %s", e.Class)
			}
			w.wantEffects("older", 0, 0)
		},
		"X05 a wait that would cross the end of the window ends it now": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAge = time.Hour }))
			w.report(strings.Replace(w.line("k", limited), `"status"`, `"retry_after":"3700","status"`, 1))
			w.want("k", ledger.StateEscalated, "wait_too_long")
			w.wantEffects("k", 0, 0)
		},
		"S02 a decline is not tried again because the policy lists the status of the answer that was lost": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) {
				p.Retryable, p.RetryableSet = []reconcile.ErrorMatch{{Class: ledger.ClassTimeout}, {Status: 504}}, true
			}))
			w.report(w.line("k", timeout))
			w.sys.make("k", "ch-1", func(o *object) { o.standing = connectors.StandingRejected })
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "permanent: rejected")
			w.wantEffects("k", 1, 0)
		},
		"S02 a decline that the look before a resend finds ends it, although the report said not done": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("declined", limited), w.line("later", limited))
			w.sys.make("declined", "ch-1", func(o *object) { o.standing = connectors.StandingRejected })
			w.sys.make("later", "ch-2", func(o *object) { o.standing = connectors.StandingPending })
			w.runFor(2 * time.Minute)
			w.want("declined", ledger.StateEscalated, "permanent: rejected")
			w.want("later", ledger.StateAmbiguous, "pending")
			w.sys.objects[2].standing = connectors.StandingRejected
			w.runFor(15 * time.Minute)
			w.want("later", ledger.StateEscalated, "permanent: rejected")
			w.wantEffects("later", 1, 0)
			w.wantExplained("later")
		},
		"S02 L11 a decline that is known says nothing of the resend under a new key, which may still land": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.KeepsKey = 24 * time.Hour }), withPolicy(func(p *reconcile.Policy) {
				p.Retryable, p.RetryableSet = []reconcile.ErrorMatch{{Class: ledger.ClassRejected}, {Class: ledger.ClassTimeout}}, true
			}))
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindTimeout, Effect: connectors.EffectUnknown}, Wrote: true}
			}
			w.report(w.line("k", timeout))
			w.sys.make("k", "ch-1", func(o *object) { o.standing = connectors.StandingRejected })
			w.runFor(2 * time.Minute)
			w.want("k", ledger.StateAmbiguous, "too_early")
			w.wantEffects("k", 1, 1)
			w.sys.make("k", "ch-2") // the resend lands late
			w.runFor(10 * time.Minute)
			e := w.want("k", ledger.StateSettled, "found")
			if e.RemoteID != "ch-2" || len(e.Keys) != 2 {
				t.Errorf("remote id %q, keys %v", e.RemoteID, e.Keys)
			}
			w.wantEffects("k", 2, 1)
		},
		"S02 an attempt that stands for two requests is not explained by one decline": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) {
				p.Retryable, p.RetryableSet = []reconcile.ErrorMatch{{Class: ledger.ClassRejected}}, true
			}))
			for _, sends := range []string{"2", "0"} {
				k := "k" + sends
				w.report(strings.Replace(w.line(k, timeout), `"status"`, `"sends":`+sends+`,"status"`, 1))
				w.sys.make(k, "ch-"+sends, func(o *object) { o.standing = connectors.StandingRejected })
			}
			w.runFor(2 * time.Minute)
			for _, k := range []string{"k2", "k0"} {
				w.want(k, ledger.StateAmbiguous, "too_early")
				w.sys.make(k, "late-"+k)
			}
			w.runFor(5 * time.Minute)
			for _, k := range []string{"k2", "k0"} {
				w.want(k, ledger.StateSettled, "found")
				w.wantEffects(k, 2, 0)
			}
		},
		"S02 a decline while the platform retries: looked at on the ordinary rhythm, a person at max_age; after its end decided": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAge = 5 * time.Hour }))
			until := w.clock.Now().Add(30 * time.Minute).Format(time.RFC3339)
			w.report(strings.Replace(w.line("never", limited), `"owner"`, `"driver":"platform","owner"`, 1),
				strings.Replace(w.line("ends", limited), `"owner"`, fmt.Sprintf(`"driver":"platform","driver_until":%q,"owner"`, until), 1))
			for _, k := range []string{"never", "ends"} {
				w.sys.make(k, "ch-"+k, func(o *object) { o.standing = connectors.StandingRejected })
			}
			w.runFor(20 * time.Minute)
			if e := w.want("never", ledger.StateAmbiguous, "platform_retries"); e.LooksAnswered > 6 {
				t.Errorf("%d looks in 20 minutes", e.LooksAnswered)
			}
			w.runFor(2 * time.Hour)
			w.want("ends", ledger.StateEscalated, "permanent: rejected")
			for range 6 {
				w.clock.advance(time.Hour)
				w.pass()
			}
			w.want("never", ledger.StateEscalated, "outcome_unknown: platform_retries")
			w.wantEffects("ends", 1, 0)
		},
		"a platform that retries is ended by a person: then it is looked at, and sent once": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(strings.Replace(w.line("k", limited), `"owner"`, `"driver":"platform","owner"`, 1))
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateAmbiguous, "platform_retries")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.pass()
			w.want("k", ledger.StateAmbiguous, "too_early") // it may have sent until just now
			w.wantEffects("k", 0, 0)
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
			w.wantExplained("k")
		},
		"two siblings of a repeatable operation, both unknown: they are looked at, and do not wait on each other for ever": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }))
			w.report(sibling(w.line("k1", timeout), "o-1"), sibling(w.line("k2", timeout), "o-1"))
			w.runFor(20 * time.Minute)
			sent := w.sentKeys()
			if sent != "k1" && sent != "k2" {
				t.Fatalf("sent: %q", sent)
			}
			other := map[string]string{"k1": "k2", "k2": "k1"}[sent]
			w.want(sent, ledger.StateSettled, "sent")
			w.want(other, ledger.StateSettled, "superseded: "+sent)
			w.wantEffects(sent, 1, 1)
			w.wantExplained(other)
		},
		"of two such siblings one is found: it is settled, and the other is not sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }))
			w.report(sibling(w.line("k1", timeout), "o-1"), sibling(w.line("k2", timeout), "o-1"))
			w.runFor(time.Minute)
			w.sys.make("k1", "it landed late")
			w.runFor(20 * time.Minute)
			w.want("k1", ledger.StateSettled, "found")
			w.want("k2", ledger.StateSettled, "superseded: k1")
			w.wantEffects("k1", 1, 0)
		},
		"a lookup that shows others' records alone is alerted once, and at the end of the settle window a person has the entry": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) { y.foreign = true }))
			w.report(w.line("k", timeout), w.line("late", `"status":"ok","remote_id":"r-1"`), w.line("batched", timeout))
			w.report(strings.Replace(w.line("late", `"status":"unknown"`), `"a1"`, `"a2"`, 1)) // looked at once more
			w.sys.lookErr = func(keys []string) *connectors.Error {
				if keys[0] != "batched" {
					return nil
				}
				return &connectors.Error{Kind: connectors.KindNotUsable, Message: "the reply holds a record that does not show our key"}
			}
			var notes []string
			for range 5 {
				notes = append(notes, w.pass().Notes...)
				w.clock.advance(time.Hour)
			}
			if len(notes) != 1 || !strings.Contains(notes[0], `lookup_not_usable: asked for`) {
				t.Errorf("notes %q", notes)
			}
			w.want("k", ledger.StateAmbiguous, "lookup_not_usable")
			for range 70 {
				w.clock.advance(time.Hour)
				w.pass()
			}
			for _, k := range []string{"k", "batched"} {
				if e := w.want(k, ledger.StateEscalated, "outcome_unknown: lookup_not_usable"); e.Effect != ledger.EffectUnknown || e.Work != ledger.WorkLook {
					t.Errorf("%s: effect %s, due %s", k, e.Effect, e.Work)
				}
			}
			if e := w.want("late", ledger.StateSettled, "reported_ok"); e.Work != ledger.WorkNone {
				t.Errorf("still looked at, %s", e.NextAt)
			}
			w.wantEffects("k", 0, 0)
			// The first look that shows one of ours, and no strangers, closes the alert.
			w.wantAlert("lookup_not_usable:billing/invoice.create", true)
			w.sys.strangers = true
			w.sys.make("beside", "1")
			w.report(w.line("beside", timeout))
			w.pass()
			w.want("beside", ledger.StateSettled, "found")
			w.wantAlert("lookup_not_usable:billing/invoice.create", true)
			w.sys.foreign, w.sys.strangers, w.sys.lookErr = false, false, nil
			w.sys.make("alone", "2")
			w.report(w.line("alone", timeout))
			w.pass()
			w.wantAlert("lookup_not_usable:billing/invoice.create", false)
		},
		"an answer that is never read to its end: at the end of the settle window a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) { y.incomplete = true }))
			w.report(w.line("k", timeout))
			for range 75 {
				w.pass()
				w.clock.advance(time.Hour)
			}
			w.want("k", ledger.StateEscalated, "outcome_unknown: answer_incomplete")
		},
		"a platform that a person ended may have sent until then, whatever is reported after": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			driven := strings.Replace(w.line("limited", limited), `"owner"`, `"driver":"platform","owner"`, 1)
			lost := strings.Replace(w.line("lost", timeout), `"owner"`, `"driver":"platform","owner"`, 1)
			w.report(driven, lost)
			w.runFor(20 * time.Minute)
			for _, k := range []string{"limited", "lost"} {
				w.want(k, ledger.StateAmbiguous, "platform_retries")
				w.person(k, reconcile.PersonAction{Action: ledger.ActionRetry})
			}
			w.pass()
			ended := w.clock.Now()
			undriven := func(l string) string {
				return strings.Replace(l, `"driver":"platform",`, `"subject":"ada@example.org",`, 1)
			}
			w.report(undriven(driven), undriven(lost)) // fills in what was empty, and knows nothing new
			for w.clock.Now().Sub(ended) < 2*time.Minute+30*time.Second {
				w.clock.advance(30 * time.Second)
				w.pass()
			}
			for _, k := range []string{"limited", "lost"} {
				if e := w.want(k, ledger.StateAmbiguous, "too_early"); e.Effect != ledger.EffectUnknown || e.Negatives > 0 {
					t.Errorf("%s: effect %s, %d negatives", k, e.Effect, e.Negatives)
				}
				w.wantEffects(k, 0, 0)
			}
			w.sys.make("limited", "by the platform, at last")
			w.runFor(10 * time.Minute)
			w.want("limited", ledger.StateSettled, "found")
			w.want("lost", ledger.StateSettled, "sent")
			w.wantEffects("limited", 1, 1)
			w.wantEffects("lost", 1, 1)
			w.wantExplained("limited")
		},
		"a repeatable operation whose key the lookup cannot take is sent, and ends": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }), withSystem(func(y *system) {
				y.lookErr = func(keys []string) *connectors.Error {
					if keys[0] == "canary" {
						return nil
					}
					return &connectors.Error{Kind: connectors.KindBadKey, Message: "malformed"}
				}
			}))
			w.report(w.line("unknown", timeout), w.line("limited", limited))
			w.runFor(3 * time.Minute)
			w.want("unknown", ledger.StateSettled, "sent")
			w.want("limited", ledger.StateSettled, "sent")
			w.wantEffects("unknown", 1, 2)
		},
		"a key that the lookup cannot take: known not done is not called unknown": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withSystem(func(y *system) {
				y.lookErr = func(keys []string) *connectors.Error {
					return &connectors.Error{Kind: connectors.KindBadKey, Message: "malformed"}
				}
			}))
			w.report(w.line("unknown", timeout), w.line("limited", limited))
			w.runFor(2 * time.Minute)
			w.want("unknown", ledger.StateEscalated, "outcome_unknown: bad_key")
			if e := w.want("limited", ledger.StateEscalated, "needs_approval: it cannot be looked up first: bad_key"); e.Effect != ledger.EffectNotDone || e.Work != ledger.WorkNone {
				t.Errorf("effect %s, due %s", e.Effect, e.Work)
			}
			w.person("limited", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.pass()
			w.want("limited", ledger.StateSettled, "sent")
			w.wantEffects("limited", 1, 1)
		},
		"stop_on holds for a repeatable operation too: absence is proven, and then a person": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }),
				withPolicy(func(p *reconcile.Policy) { p.StopOn = []reconcile.ErrorMatch{{Class: ledger.ClassTimeout}} }))
			w.report(w.line("k", timeout))
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "permanent: timeout")
			w.wantEffects("k", 0, 0)
		},
		"D01 a repeatable operation that is told to wait past the window goes to its owner, and is not put off for years": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }), withPolicy(func(p *reconcile.Policy) { p.FailedState = true }))
			w.report(strings.Replace(w.line("k", timeout), `"status"`, `"retry_after":"99999999999999999999","status"`, 1))
			w.runFor(time.Minute)
			if e := w.want("k", ledger.StateEscalated, "wait_too_long"); e.Effect != ledger.EffectUnknown {
				t.Errorf("effect %s", e.Effect)
			}
			w.wantEffects("k", 0, 0)
		},
		"D01 X07 a person retries in spite of such a wait: one attempt, and then the owner again": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, failed(connectors.KindRateLimit, connectors.EffectNotDone, 429)
			}
			w.report(strings.Replace(w.line("k", limited), `"status"`, `"retry_after":"99999999999999999999","status"`, 1))
			w.want("k", ledger.StateEscalated, "wait_too_long")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(10 * time.Minute)
			e := w.entry("k")
			if e.State == ledger.StateRetryable && e.NextAt.After(w.clock.Now().Add(72*time.Hour)) {
				t.Errorf("put off until %s", e.NextAt)
			}
			w.runFor(10 * time.Minute)
			w.want("k", ledger.StateEscalated, "")
		},
		"X07 a person retries what is too old: one attempt, however it fails": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAttempts = 5 }))
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, failed(connectors.KindRateLimit, connectors.EffectNotDone, 429)
			}
			w.report(w.line("k", limited))
			w.clock.advance(73 * time.Hour)
			w.pass()
			w.want("k", ledger.StateEscalated, "too_old")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(2 * time.Hour)
			w.want("k", ledger.StateEscalated, "too_old")
			w.wantEffects("k", 0, 1)
		},
		"X07 a person retries an unknown outcome of a permanent class: once absence is proven it is sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(w.line("k", `"status":"error","http_status":409`))
			for range 14 {
				w.pass()
				w.clock.advance(6 * time.Hour)
			}
			w.want("k", ledger.StateEscalated, "outcome_unknown: no_control")
			w.report(w.line("first", `"status":"ok","remote_id":"r-1"`)) // a control at last
			w.sys.make("first", "r-1")
			w.clock.advance(10 * time.Minute)
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(5 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.wantEffects("k", 1, 1)
		},
		"S42 put aside by a person until it is too old: a person again, whatever the policy says of failures": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.FailedState = true }))
			w.report(w.line("k", limited))
			w.person("k", reconcile.PersonAction{Action: ledger.ActionSnooze, Until: w.clock.Now().Add(80 * time.Hour)})
			w.clock.advance(81 * time.Hour)
			w.pass()
			w.want("k", ledger.StateEscalated, "too_old")
			w.wantEffects("k", 0, 0)
		},
		"X05 the window ends between the checks and the send: nothing goes out": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAge = time.Hour }),
				withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }))
			w.sys.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}}
			w.report(w.line("k", limited))
			w.sys.onCheck = func() { w.clock.advance(30 * time.Second) } // a slow one
			w.clock.advance(59*time.Minute + 50*time.Second)
			w.pass()
			w.pass()
			w.want("k", ledger.StateEscalated, "too_old")
			w.wantEffects("k", 0, 0)
		},
		"C08 the key's life ends between the checks and the send: it is not relied on": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.Risk = ledger.RiskHigh }),
				withOp(func(o *connectors.Operation) {
					o.KeepsKey, o.Checks = time.Hour, []connectors.CheckName{connectors.CheckConsent}
				}))
			w.sys.verdicts = []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}}
			w.report(w.line("k", limited))
			w.sys.onCheck = func() { w.clock.advance(30 * time.Second) }
			w.clock.advance(time.Hour - 80*time.Second - 10*time.Second) // timeout and lands_within before its end, and ten seconds
			w.pass()
			w.wantEffects("k", 0, 0)
			w.pass()
			w.want("k", ledger.StateEscalated, "needs_approval: high risk")
			w.wantEffects("k", 0, 0)
		},
		"S44 the first was ended by a person as unknown: the second goes to a person, and once the first is corrected it is sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(sibling(w.line("k1", timeout), "invoice-9"), sibling(w.line("k2", limited), "invoice-9"))
			w.pass()
			w.person("k1", reconcile.PersonAction{Action: ledger.ActionCancel})
			w.want("k1", ledger.StateSettled, "cancel")
			w.runFor(5 * time.Minute)
			w.want("k2", ledger.StateEscalated, "outcome_key_held: k1 was ended with its outcome unknown")
			w.person("k2", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(time.Minute)
			w.want("k2", ledger.StateEscalated, "outcome_key_held: k1")
			w.wantEffects("k2", 0, 0)
			w.person("k1", reconcile.PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeNotApplied, Note: "not there"})
			w.person("k2", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(time.Minute)
			w.want("k2", ledger.StateSettled, "sent")
			w.wantEffects("k2", 1, 1)
		},
		"S44 the first was settled not applied, and turned out applied: the second is not sent": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.FailedState = true }))
			w.report(sibling(w.line("k1", `"status":"error","http_status":422`), "invoice-9"))
			w.report(strings.Replace(sibling(w.line("k1", `"status":"ok","remote_id":"r-1"`), "invoice-9"), `"a1"`, `"a2"`, 1))
			if e := w.want("k1", ledger.StateSettled, "permanent"); !e.HasFlag(ledger.FlagConflict) {
				t.Fatalf("flags %v", e.Flags)
			}
			w.report(sibling(w.line("k2", limited), "invoice-9"))
			w.runFor(2 * time.Minute)
			w.want("k2", ledger.StateEscalated, "outcome_key_held: k1 was settled not applied, and turned out applied")
			w.wantEffects("k2", 0, 0)
		},
		"two changes of one record that are due at once never end with the older one": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Repeatable = true }))
			unsent := `"status":"error","error_class":"network","effect":"not_done"`
			rec := func(l string) string { return strings.Replace(l, `"owner"`, `"record_id":"deal-1","owner"`, 1) }
			w.report(rec(strings.Replace(w.line("older", unsent), `"status"`, `"retry_after":"60","status"`, 1)))
			w.clock.advance(2 * time.Second)
			w.report(rec(w.line("newer", unsent)))
			w.clock.advance(2 * time.Minute)
			w.runFor(5 * time.Minute)
			w.want("newer", ledger.StateSettled, "sent")
			if last := w.sys.sent[len(w.sys.sent)-1]; last.ActionKey != "newer" {
				t.Errorf("sent last: %s", last.ActionKey)
			}
		},
		"S29 the youngest record known is older than the system shows: no control, and the lookup stays in use": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary, o.LooksBack = "", 24*time.Hour }))
			w.report(w.line("old", `"status":"ok","remote_id":"r-1"`))
			w.clock.advance(72 * time.Hour) // and the system shows it no more
			w.report(w.line("k", timeout))
			w.clock.advance(5 * time.Minute)
			notes := w.pass().Notes
			w.want("k", ledger.StateAmbiguous, "no_control")
			if len(notes) > 0 {
				t.Errorf("notes %q", notes)
			}
		},
		"a lane that is known to lag asks for no control that is too young to show": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }), withSystem(func(y *system) { y.lag = 6 * time.Minute }))
			if _, err := w.store.SaveLane(context.Background(), "billing", func(l ledger.Lane, _ time.Time) ledger.Lane { l.LagFactor = 4; return l }); err != nil {
				t.Fatal(err)
			}
			w.report(w.line("k", timeout))
			w.clock.advance(10 * time.Minute)
			w.report(w.line("young", `"status":"ok","remote_id":"r-1"`))
			w.sys.make("young", "r-1")
			w.clock.advance(4 * time.Minute)
			w.pass()
			w.want("k", ledger.StateAmbiguous, "no_control")
			w.runFor(15 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
		},
		"S51 a dry run decides as the pass does after a release, of siblings, by state, and of what is looked at once more": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.AbsentAfter, o.VisibleWithin, o.LandsWithin = 1, 0, 0 }))
			w.report(w.line("asleep", limited), sibling(w.line("one", limited), "o-1"), sibling(w.line("two", limited), "o-1"), w.line("absent", timeout),
				w.line("twice", `"status":"ok","remote_id":"r-1"`))
			w.sys.make("twice", "r-1")
			w.report(strings.Replace(w.line("twice", `"status":"unknown"`), `"a1"`, `"a2"`, 1)) // looked at once more
			w.person("asleep", reconcile.PersonAction{Action: ledger.ActionSnooze, Until: w.clock.Now().Add(30 * time.Second)})
			w.clock.advance(time.Minute)
			only := reconcile.PassOptions{DryRun: true, Filter: ledger.Filter{State: ledger.StateAmbiguous}}
			if c := w.pass(only).Counts; c.WouldSend != 0 || c.Reopened != 1 {
				t.Errorf("by state: %+v", c)
			}
			dry := w.pass(reconcile.PassOptions{DryRun: true}).Counts
			if w.sys.sends != 0 {
				t.Fatalf("%d sends", w.sys.sends)
			}
			real := w.pass().Counts
			if dry.WouldSend != real.Sent || dry.Released != real.Released || dry.Reopened != real.Reopened ||
				dry.SettledApplied != real.SettledApplied-real.Recovered || dry.StillAmbiguous != real.StillAmbiguous || dry.Advanced < dry.WouldSend {
				t.Errorf("dry  %+v\nreal %+v", dry, real)
			}
			if real.Sent != 3 || real.Released != 1 {
				t.Errorf("real %+v", real)
			}
		},
		"found in progress or lost again after the settle window of the report: looked at, not handed over at once": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withPolicy(func(p *reconcile.Policy) { p.MaxAge = 200 * time.Hour }))
			w.sys.sendAs = func(connectors.Send) (bool, connectors.SendResult) {
				return false, connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindTimeout, Effect: connectors.EffectUnknown}, Wrote: true}
			}
			w.report(w.line("pending", limited), w.line("lost", limited))
			w.sys.make("pending", "p-1", func(o *object) { o.standing = connectors.StandingPending })
			w.clock.advance(80 * time.Hour)
			w.pass()
			w.pass()
			w.want("pending", ledger.StateAmbiguous, "pending")
			w.want("lost", ledger.StateAmbiguous, "")
			w.sys.make("lost", "l-1")
			w.sys.objects[1].standing = connectors.StandingApplied
			w.runFor(12 * time.Minute)
			w.want("pending", ledger.StateSettled, "found")
			w.want("lost", ledger.StateSettled, "found")
			w.wantEffects("lost", 1, 1)
		},
		"merged after the resend: the survivor is no second record": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			w.report(w.line("k", timeout))
			w.runFor(4 * time.Minute)
			w.want("k", ledger.StateSettled, "sent")
			w.sys.objects[1].merged = "survivor"
			w.runFor(5 * time.Minute)
			if e := w.want("k", ledger.StateSettled, "sent"); len(e.Flags) > 0 || e.RemoteID != "survivor" || e.Verify {
				t.Errorf("flags %v, remote id %q", e.Flags, e.RemoteID)
			}
		},
		"the workflow runs again under another key while the first waits to be tried again: the first waits for what becomes of that": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			equal := func(key, attempt string) string {
				l := strings.Replace(w.line(key, attempt), fmt.Sprintf(`{"amount":10,"for":%q}`, key), `{"amount":10}`, 1)
				return strings.Replace(l, `"owner"`, `"record_id":"form-1","owner"`, 1)
			}
			w.report(equal("run_1:create", limited))
			w.clock.advance(10 * time.Second)
			w.report(equal("run_2:create", timeout))
			w.sys.make("run_2:create", "late")
			w.sys.lag = 2 * time.Minute
			w.runFor(time.Minute)
			w.want("run_1:create", ledger.StateRetryable, "look_alike: waits behind run_2:create")
			w.runFor(5 * time.Minute)
			w.want("run_2:create", ledger.StateSettled, "found")
			w.want("run_1:create", ledger.StateEscalated, "look_alike: run_2:create")
			w.wantEffects("run_1:create", 0, 0)
		},
		"two equal records, both known not done: they do not wait for each other": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Unique = true }))
			equal := func(key, attempt string) string {
				l := strings.Replace(w.line(key, attempt), fmt.Sprintf(`{"amount":10,"for":%q}`, key), `{"amount":10}`, 1)
				return strings.Replace(l, `"owner"`, `"record_id":"form-1","owner"`, 1)
			}
			w.report(equal("k1", limited), equal("k2", `"status":"started"`))
			w.runFor(time.Hour) // the second is not proven, and may be sent all the same
			w.want("k1", ledger.StateSettled, "sent")
			w.want("k2", ledger.StateEscalated, "look_alike")
			w.wantEffects("k1", 1, 1)
		},
		"found while the platform retries: looked at once more after its end, and a second record is flagged": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open)
			until := w.clock.Now().Add(30 * time.Minute).Format(time.RFC3339)
			w.report(strings.Replace(w.line("k", timeout), `"owner"`, fmt.Sprintf(`"driver":"platform","driver_until":%q,"owner"`, until), 1))
			w.sys.make("k", "1")
			w.runFor(time.Minute)
			w.want("k", ledger.StateSettled, "found")
			w.sys.make("k", "2") // the platform did not see the first answer
			w.runFor(40 * time.Minute)
			if e := w.want("k", ledger.StateSettled, "duplicate: 2 live records"); !e.HasFlag(ledger.FlagDuplicate) {
				t.Errorf("flags %v", e.Flags)
			}
		},
		"a person retries, and the look finds it declined: the person again, not another charge": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Canary = "" }))
			w.report(w.line("k", timeout))
			for range 14 {
				w.pass()
				w.clock.advance(6 * time.Hour)
			}
			w.want("k", ledger.StateEscalated, "outcome_unknown")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.sys.make("k", "ch-1", func(o *object) { o.standing = connectors.StandingRejected })
			w.pass()
			w.want("k", ledger.StateEscalated, "permanent: rejected")
			w.person("k", reconcile.PersonAction{Action: ledger.ActionRetry})
			w.runFor(time.Minute)
			e := w.want("k", ledger.StateSettled, "sent")
			if len(e.Keys) != 2 || w.sys.sent[0].IdempotencyKey != e.Keys[1] {
				t.Errorf("keys %v", e.Keys)
			}
		},
		"K02 the consent service is down for ten minutes: what needs consent waits, at a bounded number of calls, and the rest goes out": func(t *testing.T, open func(*fakeClock) ledger.Store) {
			w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.Checks = []connectors.CheckName{connectors.CheckConsent} }))
			reset := w.rec.Policies.List[0]
			reset.Match, reset.Consent = reconcile.Match{Step: "reset"}, reconcile.CheckNone
			w.rec.Policies.List = append([]reconcile.Policy{reset}, w.rec.Policies.List...)
			w.engine = w.newEngine("one", w.store)
			down := true
			w.sys.checkAs = func(connectors.CheckQuery) []connectors.Verdict {
				v := connectors.Verdict{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}
				if down {
					v.Kind, v.Err = connectors.VerdictUnread, &connectors.Error{Kind: connectors.KindUnavailable, HTTPStatus: 503}
				}
				return []connectors.Verdict{v}
			}
			var lines []string
			for i := range 40 {
				lines = append(lines, w.line(fmt.Sprintf("m%02d:news", i), limited))
			}
			for i := range 5 {
				lines = append(lines, w.line(fmt.Sprintf("p%d:reset", i), limited))
			}
			w.report(lines...)
			w.clock.advance(time.Minute)
			notes := w.pass().Notes
			for i := range 5 {
				w.want(fmt.Sprintf("p%d:reset", i), ledger.StateSettled, "sent")
			}
			for w.clock.advance(15 * time.Second); w.sys.checks < 1000 && w.clock.Now().Before(start.Add(time.Hour+11*time.Minute)); w.clock.advance(15 * time.Second) {
				notes = append(notes, w.pass().Notes...)
			}
			for i := range 40 {
				if e := w.want(fmt.Sprintf("m%02d:news", i), ledger.StateRetryable, "check_unread: consent"); e.AttemptCount != 1 {
					t.Errorf("%d attempts", e.AttemptCount)
				}
			}
			if w.sys.checks > 80 || len(notes) != 1 {
				t.Errorf("%d checks, notes %q", w.sys.checks, notes)
			}
			down = false
			w.runFor(10 * time.Minute)
			for i := range 40 {
				w.want(fmt.Sprintf("m%02d:news", i), ledger.StateSettled, "sent")
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
