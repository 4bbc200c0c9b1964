package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Setting is what a decision needs besides the entry and its attempts: all of
// it is read before, so that deciding does no I/O and reads no clock.
type Setting struct {
	Op            connectors.Operation
	Policy        Policy
	Owners        Owners
	Lane          ledger.Lane
	Now           time.Time // ledger time
	Version       string    // of the definition
	PolicyVersion string
}

// LookIn is how long a person's entry waits between two looks while its effect
// is unknown (docs/rules.md, section 3).
const LookIn = 24 * time.Hour

// longestLookWait caps the doubling of the look rhythm (docs/rules.md, section 5).
const longestLookWait = time.Hour

func (s Setting) risk(e ledger.Entry) ledger.Risk { return e.Risk.Higher(s.Policy.Risk) }

func (s Setting) escalate(e ledger.Entry, reason string) ledger.Entry {
	return ledger.Escalate(e, escalation(e, s.Policy, s.Owners, s.Now), reason)
}

// exhausted ends an entry whose limits are used up, as after_max_attempts says:
// escalated, or settled not applied on the ground given.
func (s Setting) exhausted(e ledger.Entry, by ledger.SettledBy, reason string) ledger.Entry {
	if s.Policy.FailedState && e.Effect == ledger.EffectNotDone {
		return ledger.Settle(e, ledger.OutcomeNotApplied, by, reason, s.Now)
	}
	return s.escalate(e, reason)
}

// refused ends an entry that a check refuses, as checks.refused says.
func (s Setting) refused(e ledger.Entry, reason string) ledger.Entry {
	if s.Policy.RefusedEscalates || e.Effect != ledger.EffectNotDone {
		return s.escalate(e, reason)
	}
	return ledger.Settle(e, ledger.OutcomeNotApplied, ledger.ByCheck, reason, s.Now)
}

// Look is one look at an entry: what was judged, and when it was asked.
type Look struct {
	Judgement
	Asked time.Time     // ledger time of the call
	Wait  time.Duration // least wait that the system asked for; 0: none
}

// Decided is what becomes of an entry, with the attempts whose result is now
// known.
type Decided struct {
	Next     ledger.Entry
	Attempts []ledger.Attempt
	Lag      bool // a hit after counted negatives: the lane's lag was greater than declared
}

// AfterLook says what becomes of an entry that was looked at (docs/rules.md,
// section 3, and section 5). A retryable entry stays as it is where the
// look found nothing: that is all that a resend asks for.
func AfterLook(e ledger.Entry, as []ledger.Attempt, l Look, s Setting) Decided {
	e.PolicyVersion = s.PolicyVersion
	e.LooksInRow++
	if l.Finding == ledger.FindingCouldNotAsk {
		e.LooksFailed++
		return Decided{Next: s.again(e, l)}
	}
	e.LooksAnswered++
	e.LastLookAt = l.Asked
	lag := lagging(e, as, l)
	switch {
	case l.Counts:
		e.Negatives, e.LastNegativeAt, e.NegativeVersion = l.Negatives, l.Asked, s.Version
	case e.NegativeVersion != s.Version:
		e.Negatives, e.NegativeVersion = 0, s.Version
	}
	if e.State == ledger.StateSettled {
		if l.Finding == ledger.FindingNotVisible && !l.Counts && !s.windowOver(e) {
			return Decided{Next: ledger.VerifyAt(e, nextLook(e, l, s))} // nothing was learned
		}
		return Decided{Next: verified(e, l), Lag: lag}
	}
	for _, f := range l.Flags {
		e = e.WithFlag(f)
	}

	switch l.Finding {
	case ledger.FindingApplied, ledger.FindingReversed:
		as, ch := mark(as, latestUnknown(as), ledger.EffectDone, "", "look: "+ledger.ReasonCode(l.Reason))
		e = Summarize(e, as)
		e.Effect = ledger.EffectDone
		e.RemoteID = l.RemoteID
		return Decided{Next: s.applied(e, as, ledger.ByLook, l.Reason), Attempts: ch, Lag: lag}

	case ledger.FindingPending:
		var ch []ledger.Attempt
		if e.Effect == ledger.EffectNotDone {
			as, ch = mark(as, last(as), ledger.EffectUnknown, "", "look: pending")
			e = Summarize(e, as)
			e.Effect = ledger.EffectUnknown
			e.SettleFrom = s.Now // it came to us as unknown only now
		}
		e.RemoteID = l.RemoteID
		return Decided{Next: s.pending(e, l), Attempts: ch, Lag: lag}

	case ledger.FindingDuplicate, ledger.FindingMismatch, ledger.FindingUnmapped:
		var ch []ledger.Attempt
		if l.Finding == ledger.FindingDuplicate && e.HasFlag(ledger.FlagDuplicate) {
			as, ch = mark(as, latestUnknown(as), ledger.EffectDone, "", "look: duplicate")
			e = Summarize(e, as)
			e.Effect = ledger.EffectDone
		}
		if e.State == ledger.StateEscalated {
			return Decided{Next: s.daily(e, l.Reason), Attempts: ch, Lag: lag}
		}
		return Decided{Next: s.escalate(e, l.Reason), Attempts: ch, Lag: lag}

	case ledger.FindingRejected:
		at := allUnknown(as)
		if len(at) == 0 {
			at = lastSent(as) // reported as not done, and this is why
		}
		as, ch := mark(as, at, ledger.EffectNotDone, ledger.ClassRejected, ruleRejected)
		as, ch = named(as, ch, l)
		e = Summarize(undriven(e), as)
		return Decided{Next: s.notDone(e, as, l.Reason, false), Attempts: ch}

	case ledger.FindingAbsent:
		if e.Effect == ledger.EffectNotDone && e.State == ledger.StateEscalated {
			return Decided{Next: s.daily(e, e.Reason)}
		}
		if e.Effect == ledger.EffectNotDone && e.State != ledger.StateAmbiguous {
			return Decided{Next: e}
		}
		as, ch := mark(as, allUnknown(as), ledger.EffectNotDone, "", ruleAbsent)
		e = Summarize(undriven(e), as)
		if e.LastClass == ledger.ClassAlreadyExists {
			return Decided{Next: s.escalate(e, "already_exists: the system says so, but shows no record with our key"), Attempts: ch}
		}
		return Decided{Next: s.notDone(e, as, l.Reason, e.Approved), Attempts: ch}
	}
	return Decided{Next: s.notVisible(e, as, l)}
}

const (
	// ruleAbsent marks attempts that were unknown until looks proved them absent.
	ruleAbsent = "look: absent"
	// ruleRejected marks attempts that a look found finally refused.
	ruleRejected = "look: rejected"
)

// named keeps with attempts just marked as rejected the records that say so, to
// tell them from others later.
func named(as, changed []ledger.Attempt, l Look) (all, named []ledger.Attempt) {
	var refused []connectors.Record
	for _, r := range l.Seen {
		if r.Standing == connectors.StandingRejected {
			refused = append(refused, r)
		}
	}
	for i, r := range newlyRejected(refused, as) {
		if i == len(changed) {
			break
		}
		changed[i].RemoteID = cmp.Or(changed[i].RemoteID, r.ID)
	}
	return patched(as, changed), changed
}

// lagging says whether a look shows that negatives counted before were wrong:
// something is there after them, or, where absence was proven and it was sent
// again, something more than that.
func lagging(e ledger.Entry, as []ledger.Attempt, l Look) bool {
	switch l.Finding {
	case ledger.FindingApplied, ledger.FindingPending:
		return e.Negatives > 0
	case ledger.FindingDuplicate:
		return e.Negatives > 0 || slices.ContainsFunc(as, func(a ledger.Attempt) bool { return strings.HasPrefix(a.Rule, ruleAbsent) })
	}
	return false
}

// verified ends the look after a resend: a second record is found and flagged,
// not hidden, whatever its status and content are.
func verified(e ledger.Entry, l Look) ledger.Entry {
	e = ledger.Verified(e)
	for _, f := range l.Flags {
		e = e.WithFlag(f)
	}
	there := false // something with our key is there, or was
	switch l.Finding {
	case ledger.FindingApplied, ledger.FindingPending, ledger.FindingReversed, ledger.FindingDuplicate:
		there = true
	case ledger.FindingMismatch, ledger.FindingUnmapped:
		there = l.RemoteID != "" && !slices.Contains(l.Flags, ledger.FlagOtherOrigin)
	}
	switch {
	case l.Finding == ledger.FindingDuplicate:
		e = e.WithFlag(ledger.FlagDuplicate)
		e.Reason = l.Reason
	case there && e.RemoteID != "" && mergedInto(l.Seen, e.RemoteID) != "":
		e.RemoteID = mergedInto(l.Seen, e.RemoteID)
	case there && e.RemoteID != "" && l.RemoteID != "" && l.RemoteID != e.RemoteID && l.Finding != ledger.FindingReversed:
		e = e.WithFlag(ledger.FlagDuplicate)
	case l.Finding == ledger.FindingRejected && e.Outcome == ledger.OutcomeApplied && l.RemoteID == e.RemoteID:
		e = e.WithFlag(ledger.FlagConflict) // taken on, and finally refused after all
		e.Reason = l.Reason
	case there && e.RemoteID == "":
		e.RemoteID = l.RemoteID
	}
	if there && e.Outcome != ledger.OutcomeApplied {
		// It was settled as not applied, and it happened all the same.
		e = e.WithFlag(ledger.FlagConflict)
		e.Effect = ledger.EffectDone
		if e.RemoteID == "" {
			e.RemoteID = l.RemoteID
		}
	}
	e.Class = ledger.ClassOf(e)
	return e
}

// mergedInto is the survivor of the record with this id; "" where it was not
// merged.
func mergedInto(rs []connectors.Record, id string) string {
	for _, r := range rs {
		if r.ID == id {
			return r.MergedInto
		}
	}
	return ""
}

// notDone goes on from a proven not_done: retryable if class and limits allow,
// else as after_max_attempts says. What a person owns stays with the person;
// what a person wanted tried again is, where nothing new speaks against it.
func (s Setting) notDone(e ledger.Entry, as []ledger.Attempt, reason string, wanted bool) ledger.Entry {
	switch {
	case e.State == ledger.StateEscalated:
		e.Work, e.NextAt, e.Reason = ledger.WorkNone, time.Time{}, reason
		return e
	case wanted:
		return ledger.Reopen(e, reason, s.Now)
	}
	next := AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now)
	if next.State == ledger.StateRetryable {
		next.Reason = reason
	}
	return next
}

// notVisible goes on from a none that proves nothing yet.
func (s Setting) notVisible(e ledger.Entry, as []ledger.Attempt, l Look) ledger.Entry {
	switch {
	case e.State == ledger.StateEscalated:
		return s.daily(e, e.Reason)
	case e.State == ledger.StateRetryable:
		return e
	case s.safeUnproven(e, l) && s.wantsAnother(e, as):
		why := ruleRepeatable
		if !s.Op.Repeatable {
			why = "second_refused: the system itself refuses a second effect"
		}
		return s.anotherAttempt(e, as, why)
	case s.windowOver(e), s.drivenTooLong(e), ledger.ReasonCode(l.Reason) == unfindable:
		return s.escalate(e, "outcome_unknown: "+l.Reason)
	}
	return ledger.Doubt(e, l.Reason, later(nextLook(e, l, s), s.Now.Add(l.Wait)))
}

// ruleRepeatable is why an attempt may follow one whose effect is unknown.
const ruleRepeatable = "repeatable: doing it twice is the same as once"

// wantsAnother says whether the policy tries again after the last failure, or a
// person wants it.
func (s Setting) wantsAnother(e ledger.Entry, as []ledger.Attempt) bool {
	c, status := failureOf(as)
	return e.Approved || RetryableClass(s.Policy, c, status)
}

// undriven ends the platform's own retries: nothing more comes from there.
func undriven(e ledger.Entry) ledger.Entry {
	e.Driver, e.DriverUntil = "", time.Time{}
	return e
}

// drivenTooLong says whether the platform has retried by itself for longer than
// the policy lets anybody try.
func (s Setting) drivenTooLong(e ledger.Entry) bool {
	return e.Driver == DriverPlatform && !e.FirstFailedAt.IsZero() && s.Now.Sub(e.FirstFailedAt) > s.Policy.MaxAge
}

// safeUnproven says whether a resend may be considered although absence is not
// proven: the operation is repeatable, or nothing bounds the attempt and the
// system itself refuses a second effect (docs/rules.md, section 5, "send_by"). Every
// attempt that has a bound must be past it.
func (s Setting) safeUnproven(e ledger.Entry, l Look) bool {
	if Driving(e, s.Now) || e.Effect != ledger.EffectUnknown || !l.Asked.After(e.SendBy) {
		return false
	}
	if s.Op.Repeatable {
		return true
	}
	settled := l.Asked.After(later(e.SendBy, e.LastTriedAt).Add(s.Op.LandsWithin + s.Op.VisibleWithin))
	return e.Unbounded && settled && e.LooksInRow >= l.Needed && RefusesSecond(e, s.Op, s.Now) != ""
}

func (s Setting) pending(e ledger.Entry, l Look) ledger.Entry {
	switch {
	case e.State == ledger.StateEscalated:
		return s.daily(e, e.Reason)
	case s.windowOver(e):
		return s.escalate(e, "still_pending: "+l.Reason)
	}
	return ledger.Doubt(e, l.Reason, later(s.Now.Add(s.Policy.PendingEvery), s.Now.Add(l.Wait)))
}

// again goes on from a question that could not be put: nothing is learned, the
// state stays, and no budget of the entry is spent.
func (s Setting) again(e ledger.Entry, l Look) ledger.Entry {
	if q := quietUntil(e, s.Op, s.Lane.LagFactor); l.FirstCount.IsZero() && !e.Unbounded && q.After(s.Now) {
		l.FirstCount = q
	}
	at := later(nextLook(e, l, s), s.Now.Add(l.Wait))
	if unusable(l) && s.windowOver(e) {
		// The system did answer, time and again: waiting does not help.
		switch e.State {
		case ledger.StateInFlight, ledger.StateAmbiguous:
			return s.escalate(e, "outcome_unknown: "+l.Reason)
		case ledger.StateSettled:
			return ledger.Verified(e)
		}
	}
	switch e.State {
	case ledger.StateInFlight:
		return ledger.Doubt(e, l.Reason, at)
	case ledger.StateEscalated:
		return s.daily(e, e.Reason)
	case ledger.StateSettled:
		return ledger.VerifyAt(e, at)
	}
	return ledger.Wait(e, l.Reason, at)
}

// unusable says whether the system answered, and its answer is none to the
// question: records of others alone, or only a part.
func unusable(l Look) bool {
	switch ledger.ReasonCode(l.Reason) {
	case reasonNotUsable, reasonIncomplete:
		return true
	}
	return false
}

func (s Setting) daily(e ledger.Entry, reason string) ledger.Entry {
	e.Reason = reason
	e.Work, e.NextAt = ledger.WorkLook, s.Now.Add(LookIn)
	if e.Effect != ledger.EffectUnknown {
		e.Work, e.NextAt = ledger.WorkNone, time.Time{}
	}
	return e
}

// windowOver says whether the settle window has passed. It runs from when the
// entry came to us and stands still while its lane is paused.
func (s Setting) windowOver(e ledger.Entry) bool {
	from := e.SettleFrom
	if from.IsZero() {
		from = e.ReceivedAt
	}
	paused := s.Lane.PausedFor(s.Now) - e.PausedBase
	if paused < 0 {
		paused = 0
	}
	return s.Now.Sub(from)-paused > s.Policy.SettleFor
}

// nextLook is the look rhythm: after every, doubling up to an hour, but no
// later than when a negative can first count; from there absent_spacing apart.
func nextLook(e ledger.Entry, l Look, s Setting) time.Time {
	if l.Counts {
		return l.FirstCount
	}
	wait, limit := s.Policy.SettleEvery, longestLookWait
	if wait > limit {
		limit = wait
	}
	for i := 1; i < e.LooksInRow && wait < limit; i++ {
		wait *= 2
	}
	if wait > limit {
		wait = limit
	}
	at := s.Now.Add(wait)
	if !l.FirstCount.IsZero() {
		// A millisecond behind it: a negative counts only if asked after.
		if first := l.FirstCount.Add(time.Millisecond); first.Before(at) {
			at = first
		}
	}
	if at.Before(s.Now) {
		at = s.Now
	}
	return at
}

// NoLookup says what becomes of an entry whose system cannot be asked at all.
func NoLookup(e ledger.Entry, as []ledger.Attempt, s Setting) ledger.Entry {
	e.PolicyVersion = s.PolicyVersion
	switch {
	case e.State == ledger.StateSettled:
		return ledger.Verified(e)
	case e.State == ledger.StateEscalated:
		e.Work, e.NextAt = ledger.WorkNone, time.Time{}
		return e
	case s.Op.Repeatable && s.Now.After(e.SendBy) && !Driving(e, s.Now) && s.wantsAnother(e, as):
		return s.anotherAttempt(e, as, ruleRepeatable)
	}
	x := escalation(e, s.Policy, s.Owners, s.Now)
	x.Look = time.Time{}
	return ledger.Escalate(e, x, "outcome_unknown: this system cannot be asked by our key")
}

// notConfigured says what becomes of an entry whose connector the config does
// not name. That may be mended at any time, so it waits no longer than for one
// look; but not for ever.
func notConfigured(e ledger.Entry, s Setting) ledger.Entry {
	e.PolicyVersion = s.PolicyVersion
	why := fmt.Sprintf("connector_not_configured: %q; add [connectors.%s] to the config", e.Connector, e.Connector)
	at := s.Now.Add(s.Policy.SettleEvery)
	switch e.State {
	case ledger.StateSettled:
		return ledger.VerifyAt(e, at)
	case ledger.StateEscalated:
		return s.daily(e, e.Reason)
	case ledger.StateRetryable:
		return ledger.Wait(e, why, at)
	}
	if s.windowOver(e) {
		return s.escalate(e, "outcome_unknown: "+why)
	}
	if e.State == ledger.StateInFlight {
		return ledger.Doubt(e, why, at)
	}
	return ledger.Wait(e, why, at)
}

// notAskable says what becomes of an entry that its system cannot be asked
// about, for the reason given, although it can be about others. One that is
// known not done needs no proof, but a person's word for the look that is
// missing; a person who has given it is not asked twice.
func notAskable(e ledger.Entry, as []ledger.Attempt, reason string, s Setting) ledger.Entry {
	if e.State == ledger.StateRetryable && (s.Op.Repeatable || e.Approved) {
		return e
	}
	x := NoLookup(e, as, s)
	switch {
	case x.State != ledger.StateEscalated || e.State == ledger.StateEscalated:
	case x.Effect == ledger.EffectNotDone:
		x.Reason = "needs_approval: it cannot be looked up first: " + reason
	default:
		x.Reason = "outcome_unknown: " + reason
	}
	return x
}

// AfterSend says what becomes of an entry whose attempt, the last of as, was
// sent by us and has its result.
func AfterSend(e ledger.Entry, as []ledger.Attempt, r connectors.SendResult, s Setting) ledger.Entry {
	e = Summarize(e, as)
	e.PolicyVersion = s.PolicyVersion
	a := as[len(as)-1]
	switch {
	case a.Effect == ledger.EffectDone:
		if a.RemoteID != "" {
			e.RemoteID = a.RemoteID
		}
		return s.applied(e, as, ledger.BySend, "sent: answered by the system")
	case a.Class == ledger.ClassAlreadyExists && s.Op.Lookup != connectors.LookupNone:
		if r.RemoteID != "" {
			e.RemoteID = r.RemoteID
		}
		return ledger.Doubt(e, "already_exists: looked up and read", s.Now)
	case a.Class == ledger.ClassAlreadyExists:
		return s.escalate(e, "already_exists: and this system cannot be asked")
	case a.Class == ledger.ClassDuplicateRequest:
		return s.escalate(e, "duplicate_request: the key was used with other content; another action may own it")
	case r.Refuses != "" && a.Effect == ledger.EffectNotDone:
		return s.refused(e, refusal(r.Refuses, "the system refused the send"))
	}
	return AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now)
}

// applied settles an entry as applied. Where another attempt than the one that
// is done was in doubt, now or once, or the platform may still retry, the system
// is looked at once more after a quiet period: a second record is found and
// flagged, not hidden.
func (s Setting) applied(e ledger.Entry, as []ledger.Attempt, by ledger.SettledBy, reason string) ledger.Entry {
	next := ledger.Settle(e, ledger.OutcomeApplied, by, reason, s.Now)
	if inDoubt(as) || e.Driver == DriverPlatform {
		next = s.lookOnceMore(next)
	}
	return next
}

// lookOnceMore has a settled entry looked at once more: after the quiet period
// of all its attempts, and after one counted from now, since what a worker sent
// that had been stopped may have gone out only just before.
func (s Setting) lookOnceMore(e ledger.Entry) ledger.Entry {
	if s.Op.Lookup == "" || s.Op.Lookup == connectors.LookupNone {
		return e
	}
	q := e
	q.SendBy = later(e.SendBy, s.Now)
	at := quietUntil(q, s.Op, s.Lane.LagFactor).Add(time.Millisecond)
	return ledger.VerifyAt(e, later(at, e.NextAt))
}

// inDoubt says whether an attempt that is not done may have had an effect all
// the same: it is unknown, or was until looks proved it absent.
func inDoubt(as []ledger.Attempt) bool {
	for _, a := range as {
		if a.Effect == ledger.EffectUnknown || a.Effect != ledger.EffectDone && strings.HasPrefix(a.Rule, "look:") {
			return true
		}
	}
	return false
}

// mark sets effect (and class, unless "") of the attempts at the places given,
// and returns all of them and those changed.
func mark(as []ledger.Attempt, at []int, eff ledger.Effect, c ledger.Class, rule string) (all, changed []ledger.Attempt) {
	all = append([]ledger.Attempt(nil), as...)
	for _, i := range at {
		_, also := ledger.SplitRule(all[i].Rule)
		all[i].Effect, all[i].Rule = eff, ledger.JoinRule(rule, also) // what contradicted stays readable
		if c != ledger.ClassNone {
			all[i].Class = c
			all[i].KeySpent = true
		}
		changed = append(changed, all[i])
	}
	return all, changed
}

func allUnknown(as []ledger.Attempt) (at []int) {
	for i, a := range as {
		if a.Effect == ledger.EffectUnknown {
			at = append(at, i)
		}
	}
	return at
}

func last(as []ledger.Attempt) []int {
	if len(as) == 0 {
		return nil
	}
	return []int{len(as) - 1}
}

// lastSent is the last attempt that reached the wire, else the last.
func lastSent(as []ledger.Attempt) []int {
	for i := len(as) - 1; i >= 0; i-- {
		if !neverSent(as[i]) {
			return []int{i}
		}
	}
	return last(as)
}

// latestUnknown is the attempt that a found record is put down to: the last
// unknown one, else the last.
func latestUnknown(as []ledger.Attempt) []int {
	if u := allUnknown(as); len(u) > 0 {
		return u[len(u)-1:]
	}
	return last(as)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func refusal(c connectors.CheckName, detail string) string {
	code := map[connectors.CheckName]string{
		connectors.CheckConsent:   "consent_withdrawn",
		connectors.CheckLifecycle: "lifecycle_closed",
		connectors.CheckOwner:     "owner_changed",
	}[c]
	if detail == "" {
		return code
	}
	return fmt.Sprintf("%s: %s", code, detail)
}

// AfterRelease says what becomes of a deferred entry: back to where it came
// from when its condition holds, to a person when its own expiry has passed,
// else it waits on.
func AfterRelease(e ledger.Entry, holds bool, s Setting) ledger.Entry {
	switch {
	case holds && e.ReleaseTo == ledger.StateAmbiguous:
		return ledger.Doubt(e, "released: "+e.ReleaseKind, s.Now)
	case holds && e.ReleaseTo == ledger.StateEscalated:
		return s.escalate(e, "released: "+e.ReleaseKind)
	case holds && e.Effect == ledger.EffectUnknown && !s.Op.Repeatable:
		return ledger.Doubt(e, "released: "+e.ReleaseKind, s.Now)
	case holds && s.tooOld(e) != "":
		return s.escalate(e, s.tooOld(e)) // somebody put it aside: it does not end unseen
	case holds:
		return ledger.Reopen(e, "released: "+e.ReleaseKind, s.Now)
	case !e.ReleaseAt.IsZero() && !e.ReleaseAt.After(s.Now):
		return s.escalate(e, "release_expired: "+e.ReleaseKind+" "+e.ReleaseRef)
	}
	return ledger.Wait(e, e.Reason, later(s.Now.Add(siblingWait(s.Policy)), s.Now))
}

// overdueWith comes between why a person has an entry and who had it before.
const overdueWith = " (overdue with "

// AfterOverdue says what becomes of an escalated entry whose due time passed.
func AfterOverdue(e ledger.Entry, s Setting) ledger.Entry {
	x := escalation(e, s.Policy, s.Owners, s.Now)
	x.Allowed, x.Owner = e.Allowed, e.Owner
	reason := e.Reason
	if next := s.Owners[e.Owner].Next; next != "" {
		x.Owner = next
		why, _, _ := strings.Cut(e.Reason, overdueWith)
		reason = why + overdueWith + e.Owner + ")"
		if why == ledger.ReasonCode(why) {
			reason = why + ":" + overdueWith + e.Owner + ")"
		}
	}
	if !x.Due.After(s.Now) { // a due of 0 would be overdue at once, for ever
		x.Due = s.Now.Add(LookIn)
	}
	if e.Work == ledger.WorkLook {
		x.Look = e.NextAt
	}
	return ledger.Escalate(e, x, reason)
}

// AfterLate says what becomes of an entry for which the result of our own send
// came after its lease was lost. The attempt itself is stored already.
func AfterLate(cur ledger.Stored, s Setting) ledger.Entry {
	e := cur.Entry
	var done *ledger.Attempt
	for i, a := range cur.Attempts {
		if a.Ours && a.Effect == ledger.EffectDone {
			done = &cur.Attempts[i]
		}
	}
	if e.State == ledger.StateSettled {
		if done != nil && e.Outcome == ledger.OutcomeNotApplied {
			e = e.WithFlag(ledger.FlagConflict)
		}
		if done != nil && done.RemoteID != "" && e.RemoteID != "" && done.RemoteID != e.RemoteID {
			e = e.WithFlag(ledger.FlagDuplicate)
		}
		if inDoubt(cur.Attempts) {
			e = s.lookOnceMore(e)
		}
		return e
	}
	e = Summarize(e, cur.Attempts)
	e.PolicyVersion = s.PolicyVersion
	switch {
	case done != nil:
		if done.RemoteID != "" {
			e.RemoteID = done.RemoteID
		}
		return s.applied(e, cur.Attempts, ledger.BySend, "sent: its answer came late")
	case e.Effect == ledger.EffectUnknown && (e.State == ledger.StateRetryable || e.State == ledger.StateReady):
		return ledger.Doubt(e, "late_result: the effect is unknown", s.Now)
	case e.Effect == ledger.EffectNotDone && e.State == ledger.StateEscalated:
		return s.daily(e, e.Reason)
	case e.Effect == ledger.EffectNotDone && (e.State == ledger.StateAmbiguous || e.State == ledger.StateInFlight):
		return AfterFailure(e, cur.Attempts, s.Policy, s.Op, s.Owners, s.Now)
	}
	return e
}
