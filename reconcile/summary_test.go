package reconcile

import (
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

func TestSummarize(t *testing.T) {
	reported := func(status ledger.AttemptStatus, effect ledger.Effect, started, received time.Duration) ledger.Attempt {
		a := ledger.Attempt{AttemptID: string(status), Status: status, Effect: effect, StartedAt: at(started), ReceivedAt: at(received), Sends: 1, Key: "k", Counts: true}
		if status != ledger.AttemptStarted {
			a.FinishedAt, a.SendBy = at(started+30*time.Second), at(received)
		}
		return a
	}
	const min = time.Minute
	base := ledger.Entry{ProviderKey: "k", State: ledger.StateAmbiguous}
	for name, c := range map[string]struct {
		e     func(*ledger.Entry)
		as    []ledger.Attempt
		check func(e ledger.Entry) bool
	}{
		"a timeout: unknown, bounded by its report": {nil, []ledger.Attempt{reported("error", ledger.EffectUnknown, 0, 2*min)}, func(e ledger.Entry) bool {
			return e.Effect == ledger.EffectUnknown && !e.Unbounded && e.SendBy.Equal(at(2*min)) && e.FirstFailedAt.Equal(at(30*time.Second)) &&
				e.FirstSentAt.Equal(at(0)) && e.KeySentAt.Equal(at(0)) && e.LastTriedAt.Equal(at(0)) && e.SendCount == 1 && e.AttemptCount == 1
		}},
		"started without a promise: nothing bounds it": {nil, []ledger.Attempt{reported("started", ledger.EffectUnknown, 0, 0)}, func(e ledger.Entry) bool { return e.Unbounded && e.FirstFailedAt.IsZero() && e.LastClass == "" }},
		"a reporter's clock that runs ahead moves nothing": {nil, []ledger.Attempt{reported("error", ledger.EffectNotDone, 60*min, 0)}, func(e ledger.Entry) bool {
			return e.LastTriedAt.Equal(at(0)) && e.FirstSentAt.Equal(at(0)) && e.FirstFailedAt.Equal(at(0))
		}},
		"age runs from the first failure, not from the first start": {nil, []ledger.Attempt{reported("error", ledger.EffectNotDone, 50*min, 66*min), reported("error", ledger.EffectNotDone, 55*min, 66*min)}, func(e ledger.Entry) bool { return e.FirstFailedAt.Equal(at(50*min + 30*time.Second)) }},
		"one done of two": {nil, []ledger.Attempt{reported("error", ledger.EffectUnknown, 0, 1), reported("ok", ledger.EffectDone, 2, 3)}, func(e ledger.Entry) bool { return e.Effect == ledger.EffectDone && e.SendCount == 2 }},
		"several requests in one attempt": {nil, func() []ledger.Attempt {
			a := reported("ok", ledger.EffectDone, 0, 1)
			a.Sends, a.RemoteID = 3, "9"
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool { return e.SendCount == 3 && e.RemoteID == "9" }},
		"what never reached the wire is no send, but a failure": {nil, func() []ledger.Attempt {
			a := reported("error", ledger.EffectNotDone, 0, 1)
			a.Rule, a.Class, a.Counts = ruleNotSent+": default", ledger.ClassNetwork, false
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool {
			return e.SendCount == 0 && e.AttemptCount == 0 && e.LastClass == ledger.ClassNetwork && !e.FirstFailedAt.IsZero() && e.KeySentAt.IsZero()
		}},
		"a new key has an age of its own": {func(e *ledger.Entry) { e.ProviderKey = "k2" }, func() []ledger.Attempt {
			b := reported("error", ledger.EffectUnknown, 10*min, 10*min)
			b.Key = "k2"
			return []ledger.Attempt{reported("error", ledger.EffectNotDone, 0, 0), b}
		}(), func(e ledger.Entry) bool { return e.KeySentAt.Equal(at(10*min)) && e.FirstSentAt.Equal(at(0)) }},
		"while the platform retries, not done is not known": {func(e *ledger.Entry) { e.Driver, e.DriverUntil = DriverPlatform, at(60*min) }, []ledger.Attempt{reported("error", ledger.EffectNotDone, 0, 0)}, func(e ledger.Entry) bool {
			return e.Effect == ledger.EffectUnknown && e.SendBy.Equal(at(60*min)) && !e.Unbounded
		}},
		"nor bounded, where it does not say until when": {func(e *ledger.Entry) { e.Driver = DriverPlatform }, []ledger.Attempt{reported("error", ledger.EffectNotDone, 0, 0)}, func(e ledger.Entry) bool { return e.Unbounded }},
		"settled applied stays done":                    {func(e *ledger.Entry) { e.State, e.Outcome = ledger.StateSettled, ledger.OutcomeApplied }, []ledger.Attempt{reported("error", ledger.EffectNotDone, 0, 0)}, func(e ledger.Entry) bool { return e.Effect == ledger.EffectDone }},
		"an attempt without result that was proven absent is a failure": {nil, func() []ledger.Attempt {
			a := reported("started", ledger.EffectNotDone, 0, 0)
			a.Rule = ruleAbsent
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool {
			return !e.FirstFailedAt.IsZero() && !e.Unbounded && e.Effect == ledger.EffectNotDone
		}},
		"what the system named is there: no look proves its absence": {nil, func() []ledger.Attempt {
			a := reported("ok", ledger.EffectUnknown, 0, 1)
			a.Ours, a.RemoteID = true, "inv_9"
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool { return e.Unbounded && e.RemoteID == "inv_9" }},
		"so is what its answer showed under another key": {nil, func() []ledger.Attempt {
			a := reported("error", ledger.EffectUnknown, 0, 1)
			a.Ours, a.Rule = true, connectors.RuleRecordShown
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool { return e.Unbounded && e.RemoteID == "" }},
		"what it named, and a look found refused, is bounded": {nil, func() []ledger.Attempt {
			a := reported("error", ledger.EffectNotDone, 0, 1)
			a.Ours, a.RemoteID, a.Class = true, "inv_9", ledger.ClassRejected
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool { return !e.Unbounded && e.RemoteID == "" }},
		"what stands in the way is named too, and may be another's": {nil, func() []ledger.Attempt {
			a := reported("error", ledger.EffectUnknown, 0, 1)
			a.Ours, a.RemoteID, a.Class = true, "inv_9", ledger.ClassAlreadyExists
			return []ledger.Attempt{a}
		}(), func(e ledger.Entry) bool { return !e.Unbounded && e.RemoteID == "inv_9" }},
		"no attempts": {nil, nil, func(e ledger.Entry) bool { return e.Effect == ledger.EffectNotDone && e.Attempts == 0 }},
	} {
		e := base
		if c.e != nil {
			c.e(&e)
		}
		if got := Summarize(e, c.as); !c.check(got) {
			t.Errorf("%s: %+v", name, got)
		}
		if a, b := Summarize(Summarize(e, c.as), c.as), Summarize(e, c.as); a.SendBy != b.SendBy || a.SendCount != b.SendCount || a.Effect != b.Effect {
			t.Errorf("%s: summarizing twice gives something else", name)
		}
	}
}

func TestAfterFailure(t *testing.T) {
	failed := func(c ledger.Class, status int, retryAfter string, ago time.Duration) ledger.Attempt {
		return ledger.Attempt{AttemptID: "a", Status: ledger.AttemptError, Class: c, HTTPStatus: status, Effect: ledger.EffectNotDone, RetryAfter: retryAfter,
			StartedAt: at(-ago), FinishedAt: at(-ago), ReceivedAt: at(-ago), SendBy: at(-ago), Sends: 1, Counts: CountsAgainstLimit(c, false), Key: "k"}
	}
	times := func(n int, a ledger.Attempt) (as []ledger.Attempt) {
		for range n {
			as = append(as, a)
		}
		return as
	}
	for name, c := range map[string]struct {
		as     []ledger.Attempt
		e      func(*ledger.Entry)
		p      func(*Policy)
		state  ledger.State
		reason string
		check  func(e ledger.Entry) bool
	}{
		"a rate limit: tried again after the backoff": {as: times(1, failed(ledger.ClassRateLimit, 429, "", 0)), state: ledger.StateRetryable, reason: "backoff: rate_limit",
			check: func(e ledger.Entry) bool { return e.NextAt.Equal(at(30*time.Second)) && e.Work == ledger.WorkAdvance }},
		"the system asks for two minutes": {as: times(1, failed(ledger.ClassRateLimit, 429, "120", 0)), state: ledger.StateRetryable, reason: "backoff: rate_limit",
			check: func(e ledger.Entry) bool { return e.NextAt.Equal(at(2 * time.Minute)) }},
		"a permanent class: a person": {as: times(1, failed(ledger.ClassValidation, 400, "", 0)), state: ledger.StateEscalated, reason: "permanent: validation",
			check: func(e ledger.Entry) bool {
				return e.Owner == "revops" && e.DueAt.Equal(at(24*time.Hour)) && len(e.Allowed) == 5 && e.Work == ledger.WorkNone
			}},
		"a permanent class, policy says failed": {as: times(1, failed(ledger.ClassValidation, 400, "", 0)), p: func(p *Policy) { p.FailedState = true }, state: ledger.StateSettled, reason: "permanent: validation",
			check: func(e ledger.Entry) bool {
				return e.Outcome == ledger.OutcomeNotApplied && e.Class == ledger.ReportPermanentlyFailed
			}},
		"unknown: only looking is allowed, whatever the policy says": {as: func() []ledger.Attempt {
			a := failed(ledger.ClassTimeout, 504, "", 0)
			a.Effect = ledger.EffectUnknown
			return []ledger.Attempt{a}
		}(), p: func(p *Policy) { p.FailedState, p.MaxAttempts = true, 1 }, state: ledger.StateAmbiguous, reason: "effect_unknown: timeout",
			check: func(e ledger.Entry) bool { return e.NextAt.Equal(at(0)) && e.Work == ledger.WorkLook }},
		"the last attempt that is allowed":            {as: times(3, failed(ledger.ClassRateLimit, 429, "", 0)), state: ledger.StateEscalated, reason: "attempts_exhausted: 3 of 3"},
		"one attempt is one attempt":                  {as: times(1, failed(ledger.ClassRateLimit, 429, "", 0)), p: func(p *Policy) { p.MaxAttempts = 1 }, state: ledger.StateEscalated, reason: "attempts_exhausted: 1 of 1"},
		"a person granted one more":                   {as: times(3, failed(ledger.ClassRateLimit, 429, "", 0)), e: func(e *ledger.Entry) { e.Granted = 1 }, state: ledger.StateRetryable, reason: "backoff: rate_limit"},
		"a refused credential spends no attempt":      {as: times(5, failed(ledger.ClassAuth, 401, "", 0)), state: ledger.StateRetryable, reason: "backoff: auth"},
		"too old":                                     {as: times(1, failed(ledger.ClassRateLimit, 429, "", 73*time.Hour)), p: func(p *Policy) { p.FailedState = true }, state: ledger.StateSettled, reason: "too_old: failed 3d1h ago, the limit is 3d", check: func(e ledger.Entry) bool { return e.Class == ledger.ReportBlocked }},
		"a wait that crosses the end: now, not then":  {as: times(1, failed(ledger.ClassRateLimit, 429, "", 72*time.Hour-20*time.Second)), p: func(p *Policy) { p.Backoff.Base = 80 * time.Hour; p.Backoff.Max = 80 * time.Hour }, state: ledger.StateEscalated, reason: "too_old: the next attempt would be later than 72h0m0s after the first failure"},
		"the system asks to wait past the window":     {as: times(1, failed(ledger.ClassRateLimit, 429, "360000", 0)), state: ledger.StateEscalated, reason: "wait_too_long: the system asks to wait past the limit of 72h0m0s"},
		"a wait that overflows is longer than any":    {as: times(1, failed(ledger.ClassRateLimit, 429, "9223372037", 0)), state: ledger.StateEscalated, reason: "wait_too_long: the system asks to wait past the limit of 72h0m0s"},
		"rejected by a look, and the policy lists it": {as: times(1, failed(ledger.ClassRejected, 0, "", 0)), p: func(p *Policy) { p.Retryable = []ErrorMatch{{Class: ledger.ClassRejected}} }, state: ledger.StateRetryable, reason: "backoff: rejected"},
		"no answer at all, and proven absent": {as: func() []ledger.Attempt {
			a := failed("", 0, "", 0)
			a.Status, a.Rule = ledger.AttemptStarted, ruleAbsent
			return []ledger.Attempt{a}
		}(), state: ledger.StateRetryable, reason: "backoff"},
		"the platform still retries, and says how long": {as: times(1, failed(ledger.ClassRateLimit, 429, "", 0)), e: func(e *ledger.Entry) { e.Driver, e.DriverUntil = DriverPlatform, at(time.Hour) }, state: ledger.StateAmbiguous, reason: "platform_retries: rate_limit",
			check: func(e ledger.Entry) bool { return e.NextAt.Equal(at(time.Hour)) }},
		"the platform's promise is over": {as: times(1, failed(ledger.ClassRateLimit, 429, "", time.Hour)), e: func(e *ledger.Entry) { e.Driver, e.DriverUntil = DriverPlatform, at(-time.Minute) }, state: ledger.StateAmbiguous, reason: "effect_unknown: rate_limit"},
		"an owner by an outside id":      {as: times(1, failed(ledger.ClassValidation, 400, "", 0)), e: func(e *ledger.Entry) { e.Owner = "5502" }, state: ledger.StateEscalated, reason: "permanent: validation", check: func(e ledger.Entry) bool { return e.Owner == "revops" }},
		"nobody is named":                {as: times(1, failed(ledger.ClassValidation, 400, "", 0)), e: func(e *ledger.Entry) { e.Owner = "" }, state: ledger.StateEscalated, reason: "permanent: validation", check: func(e ledger.Entry) bool { return e.Owner == ledger.OwnerUnassigned }},
		"the policy names somebody": {as: times(1, failed(ledger.ClassValidation, 400, "", 0)), p: func(p *Policy) { p.Owner = "sales"; p.Due = time.Hour }, state: ledger.StateEscalated, reason: "permanent: validation", check: func(e ledger.Entry) bool {
			return e.Owner == "sales" && e.OriginalOwner == "revops" && e.DueAt.Equal(at(time.Hour))
		}},
	} {
		e := ledger.Entry{ActionKey: "k", ProviderKey: "k", Keys: []string{"k"}, Owner: "revops", OriginalOwner: "revops", State: ledger.StateInFlight, ReceivedAt: t0, SettleFrom: t0}
		p := retrying()
		s := settingAt(0)
		if c.e != nil {
			c.e(&e)
		}
		if c.p != nil {
			c.p(&p)
		}
		got := AfterFailure(Summarize(e, c.as), c.as, p, s.Op, s.Owners, t0)
		if got.State != c.state || got.Reason != c.reason || c.check != nil && !c.check(got) {
			t.Errorf("%s: got %s %q next %s owner %q, want %s %q", name, got.State, got.Reason, got.NextAt.Sub(t0), got.Owner, c.state, c.reason)
		}
	}
}

// A crash campaign found it: after a failover, whatever had been due went to a
// person as soon as its absence was proven, class "unknown" being permanent.
func TestWhatAFailoverMayHaveLostIsNoFailure(t *testing.T) {
	before := ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptError, Effect: ledger.EffectNotDone, Class: ledger.ClassTimeout, Rule: ruleAbsent,
		StartedAt: at(0), ReceivedAt: at(0), FinishedAt: at(time.Second), Sends: 1, Counts: true, Key: "k"}
	lost := ledger.Attempt{AttemptID: "generation-2", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown, Class: ledger.ClassUnknown,
		Code: codeGeneration, Rule: "generation", Ours: true, StartedAt: at(time.Minute), ReceivedAt: at(time.Minute), SendBy: at(2 * time.Minute), Key: "k"}
	absent := lost
	absent.Effect, absent.Rule = ledger.EffectNotDone, ruleAbsent
	p := Policy{MaxAttempts: 3, MaxAge: 72 * time.Hour, Backoff: Backoff{Base: time.Second, Factor: 2}}
	for name, c := range map[string]struct {
		as    []ledger.Attempt
		state ledger.State
		class ledger.Class
	}{
		"not yet looked at: in doubt":                             {[]ledger.Attempt{before, lost}, ledger.StateAmbiguous, ledger.ClassTimeout},
		"proven absent: what failed before decides":               {[]ledger.Attempt{before, absent}, ledger.StateRetryable, ledger.ClassTimeout},
		"proven absent, and nothing failed before: tried anew":    {[]ledger.Attempt{absent}, ledger.StateRetryable, ledger.ClassNone},
		"the class unknown of a report stays a permanent failure": {[]ledger.Attempt{func() ledger.Attempt { a := before; a.Class = ledger.ClassUnknown; return a }(), absent}, ledger.StateEscalated, ledger.ClassUnknown},
	} {
		e := Summarize(ledger.Entry{ActionKey: "a", ProviderKey: "k", State: ledger.StateAmbiguous}, c.as)
		got := AfterFailure(e, c.as, p, connectors.Operation{}, Owners{}, at(10*time.Minute))
		if sends := len(c.as) - 1; e.SendCount != sends {
			t.Errorf("%s: %d sends, want %d: what may have been lost is none", name, e.SendCount, sends)
		}
		if got.State != c.state || got.LastClass != c.class {
			t.Errorf("%s: %s, last class %q, reason %q; want %s, %q", name, got.State, got.LastClass, got.Reason, c.state, c.class)
		}
	}
}
