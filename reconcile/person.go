package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/ledger"
)

// PersonAction is what a person wants done with an entry.
type PersonAction struct {
	Action    ledger.Action
	By        string // who: kept in the history
	Note      string
	Reference string         // of resolve: what was seen outside; becomes evidence, and the remote id where there is none
	Outcome   ledger.Outcome // of resolve; "" is applied
	To        string         // of assign
	Until     time.Time      // of snooze
	Override  bool           // of retry: skip the look, by name, in the history

	// ActionID, where it is set, is kept in the detail of the row of history, so
	// that a repetition is known by it (ActionIDOf).
	ActionID string
	// Guard, where it is set, is asked under the entry's lock; its error changes
	// nothing, and is returned.
	Guard func(e ledger.Entry) error
}

// personDetail is the detail of a row of history that a person's action left.
type personDetail struct {
	ActionID string        `json:"action_id"`
	Action   ledger.Action `json:"action"`
}

// ActionIDOf is the id under which a row of history was asked for, and the
// action; "" where it was asked for under none.
func ActionIDOf(h ledger.History) (id string, action ledger.Action) {
	var d personDetail
	if json.Unmarshal(h.Detail, &d) != nil {
		return "", ""
	}
	return d.ActionID, d.Action
}

// NotAllowedError is an action that an entry does not allow.
type NotAllowedError struct {
	ActionKey string
	Action    ledger.Action
	Why       string
}

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("entry %q does not allow %s: %s", e.ActionKey, e.Action, e.Why)
}

// Part is a part of a PersonAction. What it is called where it is given (a flag,
// a member) is known there.
type Part string

// The parts that an action may lack.
const (
	PartNote      Part = "note"
	PartReference Part = "reference"
	PartOutcome   Part = "outcome"
	PartTo        Part = "to"
	PartUntil     Part = "until"
)

// PartError is a part of an action that is missing or wrong.
type PartError struct {
	Action ledger.Action
	Part   Part
	Why    string // what to give, or what is wrong with what was given
}

func (e *PartError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Action, e.Part, e.Why) }

// Check lists what an action lacks, whatever entry it is for.
func (a PersonAction) Check(now time.Time) []*PartError {
	var lacks []*PartError
	lack := func(p Part, format string, args ...any) {
		lacks = append(lacks, &PartError{a.Action, p, fmt.Sprintf(format, args...)})
	}
	switch a.Action {
	case ledger.ActionResolve:
		if !slices.Contains(Outcomes(), cmp.Or(a.Outcome, ledger.OutcomeApplied)) {
			lack(PartOutcome, "%q is none of %s", a.Outcome, joinWords(Outcomes()))
		}
		if a.Note == "" {
			lack(PartNote, "say what was found")
		}
	case ledger.ActionRetry:
		if a.Override && a.Note == "" {
			lack(PartNote, "say why no look is needed")
		}
	case ledger.ActionTake, ledger.ActionAssign:
		if a.newOwner() == "" {
			lack(PartTo, "name the new owner")
		}
	case ledger.ActionSnooze:
		if a.Until.IsZero() {
			lack(PartUntil, "say until when")
		} else if !a.Until.After(now) {
			lack(PartUntil, "%s is not in the future", a.Until.UTC().Format(time.RFC3339))
		}
	}
	return lacks
}

// Outcomes are those that a person may settle an entry with; unknown is what
// cancel comes to.
func Outcomes() []ledger.Outcome {
	return []ledger.Outcome{ledger.OutcomeApplied, ledger.OutcomeNotApplied}
}

// newOwner is the owner that take and assign give an entry.
func (a PersonAction) newOwner() string {
	if a.Action == ledger.ActionTake {
		return a.By
	}
	return a.To
}

// Unknown says that a config which names owners does not name this one; "" where
// it does, or names none. It is no mistake: whoever takes an entry need not
// stand in the config either.
func (o Owners) Unknown(name string) string {
	if _, known := o[name]; known || name == "" || name == ledger.OwnerUnassigned || len(o) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(o))
	hint := nearest.Hint(name, names)
	if w, ok := o.ByExternal(name); ok {
		hint = fmt.Sprintf("; did you mean %q, whom an outside system calls so?", w.ID)
	}
	return fmt.Sprintf("there is no [owners.%s], so that nobody is told; the config has %s%s", name, strings.Join(names, ", "), hint)
}

// Person applies a person's action to one entry. A *PartError or a
// *NotAllowedError changes nothing.
func (e *Engine) Person(ctx context.Context, actionKey string, a PersonAction) (ledger.Entry, error) {
	out, err := e.store.Change(ctx, actionKey, func(cur ledger.Stored, now time.Time) (ledger.Recording, error) {
		op := connectors.Operation{}
		if c := e.conns[cur.Entry.Connector]; c != nil {
			op, _ = c.Info().Operation(cur.Entry.Operation)
		}
		s := e.setting(cur.Entry, op, "", ledger.Lane{}, now)
		if a.Guard != nil {
			if err := a.Guard(cur.Entry); err != nil {
				return ledger.Recording{}, err
			}
		}
		next, err := AfterPerson(cur.Entry, a, s)
		if err != nil {
			return ledger.Recording{}, err
		}
		var changed []ledger.Attempt
		if a.Action == ledger.ActionRetry && cur.Entry.Driver != "" {
			next, changed = endDriving(next, cur.Attempts, now)
		}
		rec := ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next, Attempts: changed,
			History: []ledger.History{historyOf(cur.Entry, next, "person:"+a.By, a.Note, "")}}
		if why := handedOver(cur.Entry, a); why != "" {
			rec.History[0].Reason = why
		}
		if a.ActionID != "" {
			rec.History[0].Detail = mustJSON(personDetail{a.ActionID, a.Action})
		}
		if a.Reference != "" {
			rec.Evidence = []ledger.Evidence{{EntryID: cur.Entry.ID, Finding: ledger.FindingApplied, Connector: cur.Entry.Connector, Form: "person",
				RemoteID: a.Reference, AskedAt: now, Detail: mustJSON(map[string]string{"by": a.By, "reference": a.Reference, "note": a.Note})}}
			if next.Outcome != ledger.OutcomeApplied {
				rec.Evidence[0].Finding = ledger.FindingRejected
			}
		}
		return rec, nil
	})
	if err != nil {
		return out, err
	}
	return out, flagTwice(ctx, e.store, []ledger.Entry{out}, "")
}

// handedOver is the reason of the row of history of a change of owner alone. The
// entry itself keeps its reason: it stands where it stood.
func handedOver(e ledger.Entry, a PersonAction) string {
	switch a.Action {
	case ledger.ActionTake:
		return fmt.Sprintf("take: from %s", e.Owner)
	case ledger.ActionAssign:
		return fmt.Sprintf("assign: from %s to %s", e.Owner, a.To)
	}
	return ""
}

// AfterPerson says what becomes of an entry by a person's action (docs/rules.md,
// section 3, "What a person may do"). It does no I/O. An action that lacks
// something is a *PartError, one that the entry does not allow a
// *NotAllowedError.
func AfterPerson(e ledger.Entry, a PersonAction, s Setting) (ledger.Entry, error) {
	if lacks := a.Check(s.Now); len(lacks) > 0 {
		return e, lacks[0]
	}
	no := func(format string, args ...any) (ledger.Entry, error) {
		return e, &NotAllowedError{ActionKey: e.ActionKey, Action: a.Action, Why: fmt.Sprintf(format, args...)}
	}
	reason := string(a.Action)
	if a.Note != "" {
		reason += ": " + a.Note
	}
	if e.Settled() {
		return afterSettled(e, a, s, reason, no)
	}
	if e.State == ledger.StateEscalated && a.Action != ledger.ActionTake && !slices.Contains(e.Allowed, a.Action) {
		return no("allowed are take, %s", cmp.Or(joinWords(e.Allowed), "nothing else"))
	}
	switch a.Action {
	case ledger.ActionTake, ledger.ActionAssign:
		e.Owner = a.newOwner()
		return e, nil
	case ledger.ActionRetry:
		return afterRetry(e, a, s, reason, no)
	case ledger.ActionResolve:
		if e.State == ledger.StateInFlight {
			return no("an attempt is under way; wait for its result, or until it is looked at")
		}
		o := cmp.Or(a.Outcome, ledger.OutcomeApplied)
		if o == ledger.OutcomeApplied && a.Reference == "" {
			return e, &PartError{a.Action, PartReference, "say what was seen in the outside system"}
		}
		if e.RemoteID == "" && o == ledger.OutcomeApplied {
			e.RemoteID = a.Reference
		}
		return ledger.Settle(e, o, ledger.ByPerson, reason, s.Now), nil
	case ledger.ActionCancel:
		if e.State == ledger.StateInFlight {
			return no("an attempt is under way; wait for its result, or until it is looked at")
		}
		o := ledger.OutcomeNotApplied
		switch e.Effect {
		case ledger.EffectNotDone:
		case ledger.EffectDone:
			return no("it is known to have happened; resolve ends it")
		default:
			o = ledger.OutcomeUnknown
		}
		return ledger.Settle(e, o, ledger.ByPerson, reason, s.Now), nil
	case ledger.ActionSnooze:
		if !ledger.Legal(e.State, ledger.StateDeferred) {
			return no("an entry that is %s cannot be put aside", e.State)
		}
		return ledger.Defer(e, ledger.Release{Kind: "time", At: a.Until}, reason), nil
	}
	return no("there is no such action")
}

// Possible lists what a person may do with an entry, in the order of
// ledger.Actions. Take is always allowed where anything is, and not listed.
func Possible(e ledger.Entry, s Setting) []ledger.Action {
	var may []ledger.Action
	for _, a := range ledger.Actions() {
		try := PersonAction{Action: a, By: "somebody", To: "somebody", Note: "a note", Reference: "a reference", Until: s.Now.Add(time.Hour)}
		if _, err := AfterPerson(e, try, s); err == nil {
			may = append(may, a)
		}
	}
	return may
}

// flagReviewed says whether an entry waits for a person for its open flags
// alone.
func flagReviewed(e ledger.Entry) bool { return len(e.Flags) > 0 && e.State != ledger.StateEscalated }

// FlagReview is an entry as it stands in the review queue for its open flags,
// though nobody escalated it: due as long after the flags were opened as the
// policy gives for an escalation, with what a person may do. Any other entry
// is returned as it is. Where opened is not known it is zero. The result is to
// be shown, not stored: that an entry is flagged is no change of its state.
func FlagReview(e ledger.Entry, opened time.Time, s Setting) ledger.Entry {
	if !flagReviewed(e) {
		return e
	}
	for _, t := range []time.Time{e.SettledAt, e.LastActivityAt} {
		if opened.IsZero() {
			opened = t
		}
	}
	e.DueAt, e.Allowed = opened.Add(s.Policy.Due), Possible(e, s)
	return e
}

// reasonOverride is the code of a retry that skips the look.
const reasonOverride = "override"

// afterRetry grants one attempt beyond the limits. It is permission, not proof:
// looks and checks are made anew.
func afterRetry(e ledger.Entry, a PersonAction, s Setting, reason string, no func(string, ...any) (ledger.Entry, error)) (ledger.Entry, error) {
	if e.State == ledger.StateInFlight {
		return no("an attempt is under way; wait for its result, or until it is looked at")
	}
	driven := e.Driver != ""
	e.Granted = max(e.AttemptCount+1-s.Policy.MaxAttempts, 1)
	e.Approved = true
	e = undriven(e)
	e.SettleFrom = s.Now
	e.LooksInRow = 0
	if e.Effect == ledger.EffectNotDone || a.Override {
		if a.Override {
			reason = reasonOverride + ": the look was skipped by " + a.By + suffixNote(a.Note)
		} else {
			e.LastLookAt = time.Time{} // looked at anew
		}
		if e.State == ledger.StateRetryable {
			e.NextAt, e.Reason = s.Now, reason
			return e, nil
		}
		return ledger.Reopen(e, reason, s.Now), nil
	}
	if e.State == ledger.StateAmbiguous && !driven {
		return no("the outcome is unknown; it is looked at first, and may be sent once absence is proven")
	}
	return ledger.Doubt(e, reason+" (looked at first)", s.Now), nil
}

// ruleDriven marks the attempt that stands for what a platform may have sent by
// itself until a person ended that.
const ruleDriven = "platform_retries: it may have sent until a person ended that"

// endDriving is an entry whose platform does not retry by itself any more,
// because a person says so: until now it may have sent. The last attempt that it
// reported keeps that, so that no later report makes less of it; changed is that
// attempt.
func endDriving(e ledger.Entry, as []ledger.Attempt, now time.Time) (next ledger.Entry, changed []ledger.Attempt) {
	as = slices.Clone(as)
	unknown := ledger.EffectOf(as) == ledger.EffectUnknown
	for i := len(as) - 1; i >= 0; i-- {
		a := &as[i]
		if a.Ours || a.SendBy.IsZero() { // without a bound it has none still
			continue
		}
		a.SendBy = later(a.SendBy, now)
		if !unknown && e.Effect == ledger.EffectUnknown {
			_, also := ledger.SplitRule(a.Rule)
			a.Rule = ledger.JoinRule(ruleDriven, cmp.Or(also, inShort(*a)))
			a.Effect, a.Sends = ledger.EffectUnknown, 0
		}
		changed = as[i : i+1]
		break
	}
	return Summarize(e, as), changed
}

func suffixNote(n string) string {
	if n == "" {
		return ""
	}
	return ": " + n
}

// afterSettled closes open flags, or corrects the outcome: where a flag stands
// for a contradiction, or where a person gave the outcome. Both stay in the
// history. While a flag is open the entry waits for a person, who may be
// another one.
func afterSettled(e ledger.Entry, a PersonAction, s Setting, reason string, no func(string, ...any) (ledger.Entry, error)) (ledger.Entry, error) {
	switch flagged := len(e.Flags) > 0; {
	case flagged && (a.Action == ledger.ActionTake || a.Action == ledger.ActionAssign):
		e.Owner = a.newOwner()
		return e, nil
	case flagged && a.Action != ledger.ActionResolve:
		return no("it is settled, with an open flag; allowed are take, resolve, assign")
	case a.Action != ledger.ActionResolve:
		return no("it is settled; only resolve corrects it")
	}
	if a.Outcome != ledger.OutcomeNone && a.Outcome != e.Outcome {
		if len(e.Flags) == 0 && e.SettledBy != ledger.ByPerson {
			return no("it is settled %s on evidence, and nothing contradicts that", e.Outcome)
		}
		e.Flags = nil
		return ledger.Settle(e, a.Outcome, ledger.ByPerson, reason, s.Now), nil
	}
	if len(e.Flags) == 0 {
		return no("it is settled and has no open flag")
	}
	e.Flags = nil
	e.Reason = reason
	return e, nil
}

func joinWords[T ~string](words []T) string {
	s := make([]string, len(words))
	for i, w := range words {
		s[i] = string(w)
	}
	return strings.Join(s, ", ")
}
