// Package ledger holds the vocabulary of the recovery ledger, the table of
// legal changes, and what a store promises. It knows no outside system, no
// schedule and no format.
package ledger

// State is where an entry stands. A claim is not a state.
type State string

// The states. Only StateSettled is final.
const (
	StateInFlight  State = "in_flight" // an attempt began, no result yet
	StateAmbiguous State = "ambiguous" // effect unknown; only looking is allowed
	StateRetryable State = "retryable" // effect not done, or safely repeatable; due at NextAt
	StateReady     State = "ready"     // checks passed; cleared until ClearedUntil
	StateDeferred  State = "deferred"  // waits for a release condition
	StateEscalated State = "escalated" // a person owns it
	StateSettled   State = "settled"   // final, with an outcome
)

// States lists every state, in the order of a report.
func States() []State {
	return []State{StateInFlight, StateAmbiguous, StateRetryable, StateReady, StateDeferred, StateEscalated, StateSettled}
}

// Effect is what is known of the effect of an attempt, or of all attempts of
// an entry together.
type Effect string

// The effects.
const (
	EffectNotDone Effect = "not_done"
	EffectUnknown Effect = "unknown"
	EffectDone    Effect = "done"
)

// Outcome is set exactly when an entry is settled.
type Outcome string

// The outcomes. Only a person may settle with OutcomeUnknown.
const (
	OutcomeNone       Outcome = ""
	OutcomeApplied    Outcome = "applied"
	OutcomeNotApplied Outcome = "not_applied"
	OutcomeUnknown    Outcome = "unknown"
)

// SettledBy says on what ground an outcome stands.
type SettledBy string

// The grounds.
const (
	ByNothing SettledBy = ""
	ByReport  SettledBy = "report" // the workflow reported it
	BySend    SettledBy = "send"   // our own send was answered
	ByLook    SettledBy = "look"   // a look found it
	ByCheck   SettledBy = "check"  // a check refused, superseded, or too old
	ByPolicy  SettledBy = "policy" // permanent class or limits, policy says settle
	ByPerson  SettledBy = "person"
)

// Finding is what we judge from answers.
type Finding string

// The findings. FindingCouldNotAsk is none of the nine: it stands for "the
// question was not put", so that lists can show it.
const (
	FindingApplied     Finding = "applied"
	FindingPending     Finding = "pending"
	FindingRejected    Finding = "rejected"
	FindingReversed    Finding = "reversed"
	FindingAbsent      Finding = "absent"
	FindingNotVisible  Finding = "not_visible"
	FindingDuplicate   Finding = "duplicate"
	FindingMismatch    Finding = "mismatch"
	FindingUnmapped    Finding = "unmapped"
	FindingCouldNotAsk Finding = "could_not_ask"
)

// Class is the class of a failure (docs/rules.md, section 4).
type Class string

// The classes. ClassNone is a success, or a result not yet known.
const (
	ClassNone             Class = ""
	ClassValidation       Class = "validation"
	ClassAuth             Class = "auth"
	ClassPermission       Class = "permission"
	ClassNotFound         Class = "not_found"
	ClassConflict         Class = "conflict"
	ClassAlreadyExists    Class = "already_exists"
	ClassDuplicateRequest Class = "duplicate_request"
	ClassRateLimit        Class = "rate_limit"
	ClassQuota            Class = "quota"
	ClassTimeout          Class = "timeout"
	ClassNetwork          Class = "network"
	ClassUnavailable      Class = "unavailable"
	ClassServerError      Class = "server_error"
	ClassLockConflict     Class = "lock_conflict"
	ClassBlockedByEdge    Class = "blocked_by_edge"
	ClassSilentNoop       Class = "silent_noop"
	ClassConsent          Class = "consent"
	ClassRejected         Class = "rejected" // a look found it finally refused
	ClassUnknown          Class = "unknown"
)

// Classes lists every class but ClassNone, in the order of docs/rules.md, section 4.
func Classes() []Class {
	return []Class{ClassValidation, ClassAuth, ClassPermission, ClassNotFound, ClassConflict, ClassAlreadyExists,
		ClassDuplicateRequest, ClassRateLimit, ClassQuota, ClassTimeout, ClassNetwork, ClassUnavailable, ClassServerError,
		ClassLockConflict, ClassBlockedByEdge, ClassSilentNoop, ClassConsent, ClassRejected, ClassUnknown}
}

// Temporary says whether a class passes by itself.
func (c Class) Temporary() bool {
	switch c {
	case ClassTimeout, ClassNetwork, ClassUnavailable, ClassServerError, ClassRateLimit, ClassQuota, ClassLockConflict,
		ClassAuth, ClassBlockedByEdge:
		return true
	}
	return false
}

// ParseClass reads a class as a record or a policy writes it. "x_error" is an
// accepted name of "x", and "permission_denied" of "permission".
func ParseClass(s string) (Class, bool) {
	for _, c := range Classes() {
		if s == string(c) || s == string(c)+"_error" {
			return c, true
		}
	}
	if s == "permission_denied" {
		return ClassPermission, true
	}
	return ClassNone, false
}

// Risk is the consequence of doing an action twice.
type Risk string

// The risks, rising. RiskNone means not given.
const (
	RiskNone   Risk = ""
	RiskLow    Risk = "low"
	RiskNormal Risk = "normal"
	RiskHigh   Risk = "high"
)

// Higher returns the higher of two risks; with neither given, RiskNormal.
func (r Risk) Higher(o Risk) Risk {
	rank := map[Risk]int{RiskNone: 0, RiskLow: 1, RiskNormal: 2, RiskHigh: 3}
	if rank[o] > rank[r] {
		r = o
	}
	if r == RiskNone {
		return RiskNormal
	}
	return r
}

// Flag is a contradiction that stays open until a person closes it.
type Flag string

// The flags.
const (
	FlagDuplicate   Flag = "duplicate"    // two successes with different remote ids
	FlagConflict    Flag = "conflict"     // a success for an entry settled not applied
	FlagReversed    Flag = "reversed"     // applied, then removed or undone
	FlagOtherOrigin Flag = "other_origin" // it exists, but not by our key
)

// ReportClass is what a report counts an entry as. Each entry is in exactly
// one.
type ReportClass string

// The report classes, in the order in which they are tested.
const (
	ReportManuallyResolved    ReportClass = "manually_resolved"
	ReportRecoveredAfterRetry ReportClass = "recovered_after_retry"
	ReportConfirmedByLookup   ReportClass = "confirmed_by_lookup"
	ReportFirstAttemptSuccess ReportClass = "first_attempt_success"
	ReportBlocked             ReportClass = "blocked"
	ReportPermanentlyFailed   ReportClass = "permanently_failed"
	ReportDeferred            ReportClass = "deferred"
	ReportEscalated           ReportClass = "escalated"
	ReportWaiting             ReportClass = "waiting"
)

// ReportClasses lists the report classes in that order.
func ReportClasses() []ReportClass {
	return []ReportClass{ReportManuallyResolved, ReportRecoveredAfterRetry, ReportConfirmedByLookup, ReportFirstAttemptSuccess,
		ReportBlocked, ReportPermanentlyFailed, ReportDeferred, ReportEscalated, ReportWaiting}
}

// Work is what is due at an entry's NextAt.
type Work string

// The kinds of work. WorkNone: nothing is due; NextAt is zero.
const (
	WorkNone    Work = ""
	WorkLook    Work = "look"    // ask the outside system
	WorkAdvance Work = "advance" // re-check, then send or hold
	WorkRelease Work = "release" // see whether the release condition holds
)

// Action is what a person may do with an entry.
type Action string

// The actions. Take is always allowed.
const (
	ActionTake    Action = "take"
	ActionRetry   Action = "retry"
	ActionResolve Action = "resolve"
	ActionCancel  Action = "cancel"
	ActionAssign  Action = "assign"
	ActionSnooze  Action = "snooze"
)

// Actions lists the five actions that a policy may allow.
func Actions() []Action {
	return []Action{ActionRetry, ActionResolve, ActionCancel, ActionAssign, ActionSnooze}
}

// OwnerUnassigned always exists, is shown in the queue, and is alerted.
const OwnerUnassigned = "unassigned"
