package ledger

import (
	"fmt"
	"sort"
	"time"
)

// The builders below are the only way to a new state: each takes the entry as
// it stands and returns it as it is to stand, with everything that belongs to
// the old state cleared. They do no I/O and read no clock; a store writes the
// result through its one guarded door (Store.Apply, Store.Start, Store.Record
// and Store.Change), which also tests Legal.

// leave clears what only the present state needs.
func (e Entry) leave() Entry {
	e.Work, e.NextAt = WorkNone, time.Time{}
	e.ClearedUntil = time.Time{}
	e.ReleaseKind, e.ReleaseRef, e.ReleaseAt, e.ReleaseTo = "", "", time.Time{}, ""
	e.DueAt, e.Allowed = time.Time{}, nil
	e.Outcome, e.SettledBy, e.SettledAt = OutcomeNone, ByNothing, time.Time{}
	e.Verify = false
	return e
}

func (e Entry) in(s State, reason string) Entry {
	e.State, e.Reason = s, reason
	e.Class = ClassOf(e)
	return e
}

// Settle makes the outcome final at the moment given, on the ground given.
func Settle(e Entry, o Outcome, by SettledBy, reason string, at time.Time) Entry {
	e = e.leave()
	e.Outcome, e.SettledBy, e.SettledAt = o, by, at
	return e.in(StateSettled, reason)
}

// VerifyAt asks for one more look at a settled entry, at the time given.
func VerifyAt(e Entry, at time.Time) Entry {
	e.Verify, e.Work, e.NextAt = true, WorkLook, at
	return e
}

// Verified ends that.
func Verified(e Entry) Entry {
	e.Verify, e.Work, e.NextAt = false, WorkNone, time.Time{}
	return e
}

// Begin says that an attempt has begun and has no result yet; it is looked at
// from lookAt on.
func Begin(e Entry, reason string, lookAt time.Time) Entry {
	e = e.leave()
	e.Work, e.NextAt = WorkLook, lookAt
	return e.in(StateInFlight, reason)
}

// Doubt says that the effect is unknown; the next look is due at lookAt.
func Doubt(e Entry, reason string, lookAt time.Time) Entry {
	e = e.leave()
	e.Work, e.NextAt = WorkLook, lookAt
	return e.in(StateAmbiguous, reason)
}

// Reopen says, on evidence of not done (or for a safely repeatable operation),
// that another attempt may be considered, not before the time given.
func Reopen(e Entry, reason string, notBefore time.Time) Entry {
	e = e.leave()
	e.Work, e.NextAt = WorkAdvance, notBefore
	return e.in(StateRetryable, reason)
}

// Advance clears the next attempt, until the time given: from then on it is
// due to be cleared anew.
func Advance(e Entry, reason string, clearedUntil time.Time) Entry {
	e = e.leave()
	e.ClearedUntil = clearedUntil
	e.Work, e.NextAt = WorkAdvance, clearedUntil
	return e.in(StateReady, reason)
}

// Release is what ends a deferral.
type Release struct {
	Kind string    // "time", "lane", "signal" or "entry"
	Ref  string    // which lane, signal or action key
	At   time.Time // the time; for the other kinds the deferral's own expiry
	Poll time.Time // when to see whether it holds; zero: At
}

// Defer puts the entry aside until a release condition holds. From ready it
// goes back to retryable.
func Defer(e Entry, r Release, reason string) Entry {
	from := e.State
	if from == StateReady {
		from = StateRetryable
	}
	e = e.leave()
	e.ReleaseKind, e.ReleaseRef, e.ReleaseAt, e.ReleaseTo = r.Kind, r.Ref, r.At, from
	e.Work, e.NextAt = WorkRelease, r.Poll
	if r.Poll.IsZero() {
		e.NextAt = r.At
	}
	return e.in(StateDeferred, reason)
}

// Escalation names who must act next.
type Escalation struct {
	Owner   string
	Due     time.Time
	Allowed []Action
	Look    time.Time // next daily look while the effect is unknown; zero: none
}

// Escalate makes a named owner responsible for the next step. The first owner
// stays in OriginalOwner.
func Escalate(e Entry, x Escalation, reason string) Entry {
	e = e.leave()
	if x.Owner == "" {
		x.Owner = OwnerUnassigned
	}
	e.Owner, e.DueAt, e.Allowed = x.Owner, x.Due, append([]Action(nil), x.Allowed...)
	if e.OriginalOwner == "" {
		e.OriginalOwner = x.Owner
	}
	e.Approved = false
	if !x.Look.IsZero() {
		e.Work, e.NextAt = WorkLook, x.Look
	}
	return e.in(StateEscalated, reason)
}

// Wait keeps the state and moves the time at which its work is due.
func Wait(e Entry, reason string, until time.Time) Entry {
	if e.Work != WorkNone {
		e.NextAt = until
	}
	e.Reason = reason
	return e
}

// legal lists, for each state, the states it may change to (docs/rules.md,
// section 3). Staying is always legal. docs/states.md holds the same table,
// compared by test.
var legal = map[State][]State{
	"":             {StateInFlight, StateAmbiguous, StateRetryable, StateDeferred, StateEscalated, StateSettled},
	StateInFlight:  {StateAmbiguous, StateRetryable, StateEscalated, StateSettled},
	StateAmbiguous: {StateRetryable, StateEscalated, StateDeferred, StateSettled},
	StateRetryable: {StateReady, StateAmbiguous, StateDeferred, StateEscalated, StateSettled},
	StateReady:     {StateInFlight, StateRetryable, StateAmbiguous, StateDeferred, StateEscalated, StateSettled},
	StateDeferred:  {StateAmbiguous, StateRetryable, StateEscalated, StateSettled},
	StateEscalated: {StateRetryable, StateAmbiguous, StateDeferred, StateSettled},
	StateSettled:   {},
}

// Legal says whether an entry may change from one state to another.
func Legal(from, to State) bool {
	if from == to {
		return true
	}
	for _, s := range legal[from] {
		if s == to {
			return true
		}
	}
	return false
}

// LegalTable lists every legal change of state as "from to", sorted, "new" for
// an entry not yet recorded.
func LegalTable() []string {
	var rows []string
	for from, tos := range legal {
		if from == "" {
			from = "new"
		}
		for _, to := range tos {
			rows = append(rows, fmt.Sprintf("%s %s", from, to))
		}
	}
	sort.Strings(rows)
	return rows
}
