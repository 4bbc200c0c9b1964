package reconcile

import (
	"fmt"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/ledger"
)

// DriverPlatform is the driver of an entry whose platform still retries by
// itself: a hit counts, a negative does not, and we never send.
const DriverPlatform = "platform"

// Summarize recomputes everything of an entry that follows from its attempts:
// effect, counts, last class, and the moments at which it can have been sent or
// failed. It changes no state. While the platform retries by itself, what was
// reported is not all that was sent, so that the effect is never not_done; what
// was settled as applied stays done.
func Summarize(e ledger.Entry, as []ledger.Attempt) ledger.Entry {
	e.Effect = ledger.EffectOf(as)
	switch {
	case e.State == ledger.StateSettled && e.Outcome == ledger.OutcomeApplied:
		e.Effect = ledger.EffectDone
	case e.Driver == DriverPlatform && e.Effect == ledger.EffectNotDone:
		e.Effect = ledger.EffectUnknown
	}

	e.Attempts, e.AttemptCount, e.SendCount = len(as), 0, 0
	e.LastClass, e.LastTriedAt, e.FirstFailedAt = ledger.ClassNone, time.Time{}, time.Time{}
	e.FirstSentAt, e.KeySentAt, e.SendBy = time.Time{}, time.Time{}, time.Time{}
	e.Unbounded = e.Driver == DriverPlatform && e.DriverUntil.IsZero()
	if e.Driver == DriverPlatform {
		e.SendBy = e.DriverUntil
	}
	present := e.EffectiveIdempotencyKey()
	for _, a := range as {
		if a.Counts {
			e.AttemptCount++
		}
		at := sentAt(a)
		e.LastTriedAt = later(e.LastTriedAt, at)
		if failed(a) {
			e.FirstFailedAt = earlier(e.FirstFailedAt, failedAt(a))
			e.LastClass = a.Class
		}
		if neverSent(a) {
			continue
		}
		if !a.Ours || a.Code != codeGeneration { // which stands for a doubt, and is no send that anybody knows of
			e.SendCount += max(a.Sends, 1)
		}
		e.FirstSentAt = earlier(e.FirstSentAt, at)
		if a.Key == present {
			e.KeySentAt = earlier(e.KeySentAt, at)
		}
		e.SendBy = later(e.SendBy, a.SendBy)
		// A record that the system showed in its answer to us is there, whatever a
		// look does not show: its absence is not proven by waiting.
		rule, _ := ledger.SplitRule(a.Rule)
		shown := a.Ours && a.Effect == ledger.EffectUnknown && rule == connectors.RuleRecordShown
		named := a.Ours && a.Effect == ledger.EffectUnknown && a.RemoteID != "" && a.Class != ledger.ClassAlreadyExists
		if a.Effect == ledger.EffectUnknown && a.SendBy.IsZero() || shown || named {
			e.Unbounded = true
		}
		// Of the record made, or of the one that stands in the way.
		if (a.Effect == ledger.EffectDone || a.Class == ledger.ClassAlreadyExists || named) && e.RemoteID == "" {
			e.RemoteID = a.RemoteID
		}
	}
	return e
}

// codeGeneration marks the attempt that stands for what may have been sent in a
// span that a failover lost; see ledger.Store, Unsettle.
const codeGeneration = "generation"

// failed says whether an attempt ended without success: by its result, or
// because it was proven not done although no result ever came. One that was
// never begun did not fail, and one that only may have been lost is a doubt: it
// has no class of its own, and what failed before it decides what comes next.
func failed(a ledger.Attempt) bool {
	if a.Ours && a.Code == codeGeneration {
		return false
	}
	if a.Status == ledger.AttemptStarted {
		return a.Effect == ledger.EffectNotDone && !neverSent(a)
	}
	return a.Effect != ledger.EffectDone
}

// sentAt is the earliest moment at which an attempt can have been sent: the
// earlier of its start as reported and its receipt.
func sentAt(a ledger.Attempt) time.Time {
	if a.Ours {
		return a.StartedAt
	}
	return earlier(a.StartedAt, a.ReceivedAt)
}

// failedAt is when an attempt ended, as far as it is known. A reporter's clock
// that runs ahead does not make a failure younger than its report.
func failedAt(a ledger.Attempt) time.Time {
	at := a.FinishedAt
	if at.IsZero() {
		at = a.StartedAt
	}
	if a.Ours {
		return at
	}
	return earlier(at, later(a.ReceivedAt, a.ResultAt))
}

// earlier is the earlier of two moments; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// AfterFailure says what becomes of an open entry whose attempts all have
// their result and none succeeded: looked at while the effect is unknown, tried
// again where class and limits allow, else as after_max_attempts says (docs/rules.md,
// section 3). e is summarized.
func AfterFailure(e ledger.Entry, as []ledger.Attempt, p Policy, op connectors.Operation, owners Owners, now time.Time) ledger.Entry {
	s := Setting{Op: op, Policy: p, Owners: owners, Now: now}
	last, status := failureOf(as)
	if Driving(e, now) {
		at := now
		if ledger.EffectOf(as) == ledger.EffectNotDone && e.DriverUntil.After(now) {
			at = e.DriverUntil // nothing is in doubt until then
		}
		return ledger.Doubt(e, withDetail("platform_retries", e.LastClass), at)
	}
	if e.Effect != ledger.EffectNotDone {
		return ledger.Doubt(e, withDetail("effect_unknown", e.LastClass), now)
	}
	switch {
	case last == ledger.ClassDuplicateRequest:
		return s.escalate(e, "duplicate_request: the key was used with other content; another action may own it")
	case !RetryableClass(p, last, status):
		return s.exhausted(e, ledger.ByPolicy, withDetail("permanent", last))
	}
	return s.anotherAttempt(e, as, withDetail("backoff", last))
}

// anotherAttempt has an entry tried again after the policy's wait, for the
// reason given, where attempts and age allow it; else it ends as
// after_max_attempts says.
func (s Setting) anotherAttempt(e ledger.Entry, as []ledger.Attempt, reason string) ledger.Entry {
	p := s.Policy
	if n := p.MaxAttempts; e.AttemptCount >= n+e.Granted {
		return s.exhausted(e, ledger.ByPolicy, fmt.Sprintf("attempts_exhausted: %d of %d", e.AttemptCount, n))
	}
	if why := s.tooOld(e); why != "" {
		return s.exhausted(e, ledger.ByCheck, why)
	}
	next := NextAttemptAt(e, as, p, s.Now)
	if end := s.windowEnd(e); !end.IsZero() && next.After(end) {
		if asksToWait(as) {
			return s.exhausted(e, ledger.ByPolicy, fmt.Sprintf("wait_too_long: the system asks to wait past the limit of %s", p.MaxAge))
		}
		return s.exhausted(e, ledger.ByCheck, fmt.Sprintf("too_old: the next attempt would be later than %s after the first failure", p.MaxAge))
	}
	return ledger.Reopen(e, reason, next)
}

// windowEnd is the last moment at which an attempt may begin: max_age after the
// first failure. Zero: there was none, or a person's retry, not yet made use
// of, grants one attempt beyond it.
func (s Setting) windowEnd(e ledger.Entry) time.Time {
	if e.FirstFailedAt.IsZero() || e.Approved {
		return time.Time{}
	}
	return e.FirstFailedAt.Add(s.Policy.MaxAge)
}

// tooOld says that the window is over; "" while it is not.
func (s Setting) tooOld(e ledger.Entry) string {
	if end := s.windowEnd(e); end.IsZero() || !s.Now.After(end) {
		return ""
	}
	return fmt.Sprintf("too_old: failed %s ago, the limit is %s", duration.Format(s.Now.Sub(e.FirstFailedAt).Round(time.Minute)), duration.Format(s.Policy.MaxAge))
}

// failureOf is the class of the last failure, and its HTTP status. What a look
// found refused has none: the status is of an answer that was lost.
func failureOf(as []ledger.Attempt) (c ledger.Class, status int) {
	for i := len(as) - 1; i >= 0; i-- {
		switch a := as[i]; {
		case !failed(a):
		case strings.HasPrefix(a.Rule, ruleRejected):
			return a.Class, 0
		default:
			return a.Class, a.HTTPStatus
		}
	}
	return ledger.ClassNone, 0
}

func asksToWait(as []ledger.Attempt) bool {
	for _, a := range as {
		if ra := connectors.ParseRetryAfter(a.RetryAfter, resultAt(a)); ra.Beyond || ra.Wait > 0 {
			return true
		}
	}
	return false
}

func withDetail(code string, c ledger.Class) string {
	if c == ledger.ClassNone {
		return code
	}
	return code + ": " + string(c)
}

// escalation names who must act next: the policy's owner, else the entry's,
// else unassigned. An owner whom the entry calls by an outside id is found by
// it. While the effect is unknown the entry is still looked at daily.
func escalation(e ledger.Entry, p Policy, owners Owners, now time.Time) ledger.Escalation {
	x := ledger.Escalation{Owner: p.Owner, Due: now.Add(p.Due), Allowed: p.Allow}
	if x.Owner == "" {
		x.Owner = e.Owner
	}
	if w, ok := owners.ByExternal(x.Owner); ok {
		x.Owner = w.ID
	}
	if x.Owner == "" {
		x.Owner = ledger.OwnerUnassigned
	}
	if e.Effect == ledger.EffectUnknown {
		x.Look = now.Add(LookIn)
	}
	return x
}
