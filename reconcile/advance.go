package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// The gates of an advance, in their fixed order (docs/rules.md, section 6): limits,
// siblings, the look, lifecycle, ownership, consent, approval. Each takes the
// retryable entry and either stops it, with what becomes of it, or lets it go
// on.

// Gate is what one gate said.
type Gate struct {
	Next ledger.Entry
	Stop bool // Next is what becomes of the entry; no attempt now
}

func pass(e ledger.Entry) Gate { return Gate{Next: e} }
func stop(e ledger.Entry) Gate { return Gate{Next: e, Stop: true} }

// GateLimits tests attempts and age. A person's retry grants one attempt beyond
// both.
func GateLimits(e ledger.Entry, s Setting) Gate {
	e.PolicyVersion = s.PolicyVersion
	if e.AttemptCount >= s.Policy.MaxAttempts+e.Granted {
		return stop(s.exhausted(e, ledger.ByPolicy, fmt.Sprintf("attempts_exhausted: %d of %d", e.AttemptCount, s.Policy.MaxAttempts)))
	}
	if why := s.tooOld(e); why != "" {
		return stop(s.exhausted(e, ledger.ByCheck, why))
	}
	return pass(e)
}

// GateSiblings tests the other entries that may stand in the way.
func GateSiblings(e ledger.Entry, sibs []ledger.Sibling, s Setting) Gate {
	wait := func(reason string) Gate {
		if e.Effect == ledger.EffectUnknown && s.Op.Lookup == connectors.LookupNone && s.windowOver(e) {
			return stop(s.escalate(e, "outcome_unknown: "+reason)) // no look ends its wait
		}
		return stop(ledger.Wait(e, reason, s.Now.Add(siblingWait(s.Policy))))
	}
	for _, b := range sibs {
		open := b.State != ledger.StateSettled
		switch b.Kind {
		case ledger.SiblingOutcome:
			switch {
			case b.Outcome == ledger.OutcomeApplied && e.Effect == ledger.EffectNotDone:
				return stop(s.refused(e, "superseded: "+b.ActionKey+" was applied for the same outcome"))
			case b.Outcome == ledger.OutcomeApplied, open && b.Effect != ledger.EffectNotDone, b.State == ledger.StateInFlight:
				return wait("outcome_key_held: by " + b.ActionKey)
			case b.Outcome == ledger.OutcomeUnknown && b.Effect != ledger.EffectNotDone:
				// Nobody looks at it any more: waiting would not end.
				return stop(s.escalate(e, "outcome_key_held: "+b.ActionKey+" was ended with its outcome unknown; correct that one first (review resolve)"))
			case b.Effect == ledger.EffectDone && !e.Approved:
				return stop(s.escalate(e, "outcome_key_held: "+b.ActionKey+" was settled not applied, and turned out applied"))
			}
		case ledger.SiblingLookAlike:
			switch {
			case s.Policy.Repeats:
			case open:
				return wait("look_alike: waits behind " + b.ActionKey)
			case b.Outcome == ledger.OutcomeApplied && !e.Approved && !b.SettledAt.Before(e.ReceivedAt):
				return stop(s.escalate(e, "look_alike: "+b.ActionKey+", equal to this one, was applied"))
			}
		case ledger.SiblingRecord:
			if ordered(s.Op) && e.RecordID != "" {
				return stop(s.superseded(e, b.ActionKey))
			}
		case ledger.SiblingEarlier:
			if ordered(s.Op) && e.RecordID != "" {
				return wait(reasonInOrder + ": " + b.ActionKey + ", older on the same record, may still take effect")
			}
		}
	}
	return pass(e)
}

// reasonInOrder is the code of a wait that ends by itself, when an older change
// of the record can land no more.
const reasonInOrder = "in_order"

// looksOn says whether an entry that waits for a sibling is looked at meanwhile:
// where its own effect is unknown it may be the one that the other waits for.
func looksOn(g Gate, op connectors.Operation) bool {
	return g.Stop && g.Next.State == ledger.StateRetryable && g.Next.Effect == ledger.EffectUnknown &&
		ledger.ReasonCode(g.Next.Reason) != reasonInOrder && op.Lookup != connectors.LookupNone
}

// waitsOn goes on from a look at an entry that waits for a sibling as given:
// unless the look says more it waits on, in the rhythm of looks, until the
// settle window is over.
func (s Setting) waitsOn(e, waits ledger.Entry, l Look) ledger.Entry {
	switch {
	case e.State != ledger.StateRetryable || e.Effect != ledger.EffectUnknown:
		return e
	case l.Finding != ledger.FindingCouldNotAsk && s.windowOver(e):
		return s.escalate(e, "outcome_unknown: "+l.Reason)
	}
	return ledger.Wait(e, waits.Reason, later(waits.NextAt, nextLook(e, l, s)))
}

// superseded ends an entry after which a newer change of its record was sent.
func (s Setting) superseded(e ledger.Entry, by string) ledger.Entry {
	return s.refused(e, "superseded: "+by+" is newer on the same record")
}

// siblingWait is how long an entry waits before it sees whether another one
// still stands in its way.
func siblingWait(p Policy) time.Duration {
	if p.SettleEvery < time.Second {
		return time.Second
	}
	return p.SettleEvery
}

// NeedsLook says whether a look has to come before a resend: one answered look
// since the last attempt, and since the last moment at which any can have been
// sent. (A report may come long after the attempt that it tells of.)
// Not after a person's override.
func NeedsLook(e ledger.Entry, op connectors.Operation) bool {
	return !overridden(e) && op.Lookup != connectors.LookupNone && !e.LastLookAt.After(later(e.LastTriedAt, e.SendBy))
}

// overridden says whether a person skipped the look, and nothing has come
// between since.
func overridden(e ledger.Entry) bool { return ledger.ReasonCode(e.Reason) == reasonOverride }

// ChecksWanted lists what has to be read, in the order of the gates, and those
// that are required and cannot be read at all.
func ChecksWanted(p Policy, op connectors.Operation) (want, missing []connectors.CheckName) {
	can := func(c connectors.CheckName) bool { return slices.Contains(op.Checks, c) }
	add := func(c connectors.CheckName, m CheckMode) {
		switch {
		case m == CheckNone:
		case can(c):
			want = append(want, c)
		case m == CheckRequired:
			missing = append(missing, c)
		}
	}
	add(connectors.CheckLifecycle, p.Lifecycle)
	if p.OwnerCheck != OwnerNone && can(connectors.CheckOwner) {
		want = append(want, connectors.CheckOwner)
	}
	add(connectors.CheckConsent, p.Consent)
	return want, missing
}

// GateChecks judges what was read. The first refusal, in the order of the
// gates, is the reason; what could not be read sends nothing.
func GateChecks(e ledger.Entry, vs []connectors.Verdict, s Setting) Gate {
	want, missing := ChecksWanted(s.Policy, s.Op)
	if len(missing) > 0 && !e.Approved {
		return stop(s.escalate(e, fmt.Sprintf("needs_approval: nothing can read %s, and the policy requires it", missing[0])))
	}
	for _, c := range want {
		v := connectors.Verdict{Check: c, Kind: connectors.VerdictUnread, Detail: "the check gave no answer"}
		for _, got := range vs {
			if got.Check == c {
				v = got
				// The worst of several verdicts on one thing holds.
				if v.Kind != connectors.VerdictPass {
					break
				}
			}
		}
		if v.Kind == connectors.VerdictUnread {
			at := s.Now.Add(siblingWait(s.Policy))
			detail := v.Detail
			if ce := (*connectors.Error)(nil); errors.As(v.Err, &ce) && ce.HTTPStatus != 0 {
				detail = fmt.Sprintf("HTTP %d: %s", ce.HTTPStatus, detail)
			}
			return stop(ledger.Wait(e, fmt.Sprintf("check_unread: %s: %s", c, detail), at))
		}
		if c == connectors.CheckOwner {
			g := s.owner(e, v)
			if g.Stop {
				return g
			}
			e = g.Next
			continue
		}
		if v.Kind == connectors.VerdictRefuse {
			d := v.Detail
			if d == "" {
				d = v.Value
			}
			return stop(s.refused(e, refusal(c, d)))
		}
	}
	return pass(e)
}

// owner judges the owner that was read against the entry's own.
func (s Setting) owner(e ledger.Entry, v connectors.Verdict) Gate {
	known, ok := s.Owners.ByExternal(v.Value)
	same := v.Value == "" || v.Value == e.Owner || v.Value == e.OriginalOwner ||
		ok && (known.ID == e.Owner || known.ID == e.OriginalOwner)
	nobody := e.Owner == ledger.OwnerUnassigned && e.OriginalOwner == ledger.OwnerUnassigned
	inactive := v.Kind == connectors.VerdictRefuse
	switch {
	case e.Approved: // a person has looked at it
		return pass(e)
	case inactive:
		return stop(s.escalate(e, fmt.Sprintf("owner_inactive: %q", v.Value)))
	case same:
		return pass(e)
	case s.Policy.OwnerCheck == OwnerTransfer && ok:
		e.Owner = known.ID
		return pass(e)
	case nobody:
		return pass(e)
	}
	return stop(s.escalate(e, fmt.Sprintf("owner_changed: the record now belongs to %q", v.Value)))
}

// RefusesSecond says what at the system refuses a second effect of this entry:
// "repeatable", "unique", "key" (until when it is alive), or "" for nothing.
func RefusesSecond(e ledger.Entry, op connectors.Operation, now time.Time) string {
	switch {
	case op.Repeatable:
		return "repeatable"
	case op.Unique:
		return "unique"
	case KeyAlive(e, op, now):
		return "key"
	}
	return ""
}

// KeyAlive says whether the system still remembers the present idempotency key
// for as long as a request sent now could land. A key that has not been sent
// yet protects nothing that was sent before it, and one that was sent in
// another scope (another credential or region) is new to the system.
func KeyAlive(e ledger.Entry, op connectors.Operation, now time.Time) bool {
	if !op.CarriesKey || op.KeepsKey <= 0 || e.KeySentAt.IsZero() || e.KeySentAt.Before(op.KeysFrom) {
		return false
	}
	return now.Before(keyEnd(e, op))
}

// keyEnd is the moment from which a request sent could land after the system
// has forgotten the present key.
func keyEnd(e ledger.Entry, op connectors.Operation) time.Time {
	return e.KeySentAt.Add(op.KeepsKey - op.Timeout - op.LandsWithin)
}

// clearedUntil is until when checks that passed now let a send begin: the
// clearance, but neither past the window of attempts nor past the life of a key
// that is alive now.
func (s Setting) clearedUntil(e ledger.Entry) time.Time {
	until := s.Now.Add(clearance)
	if end := s.windowEnd(e); !end.IsZero() && end.Before(until) {
		until = end
	}
	if KeyAlive(e, s.Op, s.Now) && keyEnd(e, s.Op).Before(until) {
		until = keyEnd(e, s.Op)
	}
	return until
}

// keySpent says whether the present key can no longer be used: a final
// rejection, a replayed stored error, or an error that uses it up.
func keySpent(e ledger.Entry, as []ledger.Attempt) bool {
	present := e.EffectiveIdempotencyKey()
	for _, a := range as {
		if (a.Key == "" || a.Key == present) && (a.KeySpent || a.Class == ledger.ClassRejected) {
			return true
		}
	}
	return false
}

// NeedsNewKey says whether the next attempt travels under a new attempt key,
// and whether one may be made at all.
func NeedsNewKey(e ledger.Entry, as []ledger.Attempt, op connectors.Operation, now time.Time) bool {
	if e.Effect != ledger.EffectNotDone || !op.CarriesKey {
		return false
	}
	expired := op.KeepsKey > 0 && !e.KeySentAt.IsZero() && !KeyAlive(e, op, now)
	return keySpent(e, as) || expired
}

// ResolvedDispatch is who sends the next attempt.
func ResolvedDispatch(p Policy, op connectors.Operation) Dispatch {
	if p.Dispatch != DispatchUnset {
		return p.Dispatch
	}
	if p.HasRetry && op.CanSend {
		return DispatchSend
	}
	return DispatchHold
}

// GateApproval tests who may send, and whether a person has to be asked first.
// sendable is false where the payload cannot be sent, with why.
func GateApproval(e ledger.Entry, as []ledger.Attempt, sendable bool, why string, s Setting) Gate {
	switch d := ResolvedDispatch(s.Policy, s.Op); {
	case d == DispatchHandover:
		return stop(s.escalate(e, "handover_unavailable: this version cannot hand over; send it by hand, or use dispatch = \"send\""))
	case d == DispatchHold && !e.Approved:
		return stop(s.escalate(e, "needs_approval: the policy holds it for a person"))
	case !s.Op.CanSend:
		return stop(s.escalate(e, "cannot_send: the connector has no send for this operation"))
	case !sendable:
		return stop(s.escalate(e, "not_sendable: "+why))
	}
	if e.Effect != ledger.EffectNotDone && RefusesSecond(e, s.Op, s.Now) == "" && !overridden(e) {
		// What let it come here without proof (a live key) has ended meanwhile.
		return stop(ledger.Doubt(e, "unproven: nothing refuses a second effect any more", s.Now))
	}
	spent := keySpent(e, as)
	switch {
	case spent && !s.Op.CarriesKey && !e.Approved:
		return stop(s.escalate(e, "key_spent: the key is used up and the send cannot carry a new one"))
	case s.risk(e) != ledger.RiskHigh || e.Approved:
	case spent && KeyAlive(e, s.Op, s.Now):
		return stop(s.escalate(e, "needs_approval: high risk, and the used-up key is still remembered"))
	case RefusesSecond(e, s.Op, s.Now) == "" && e.KeySentAt.Before(s.Op.KeysFrom):
		return stop(s.escalate(e, "needs_approval: high risk, and the key was sent under another "+s.Op.KeyScope+", so that it is new to the system"))
	case RefusesSecond(e, s.Op, s.Now) == "":
		return stop(s.escalate(e, "needs_approval: high risk, and nothing at the system refuses a second effect"))
	}
	return pass(e)
}

// withKey gives the entry the key of its next attempt: the present one, or a
// new attempt key, derived and linked, where that one can no longer be used.
func withKey(c connectors.Connector, e ledger.Entry, as []ledger.Attempt, op connectors.Operation, now time.Time) (ledger.Entry, string) {
	if !NeedsNewKey(e, as, op, now) {
		return e, ""
	}
	d, ok := c.(connectors.KeyDeriver)
	if !ok {
		return e, "the connector cannot make a new attempt key"
	}
	key, _, err := d.DeriveKey(e.Operation, e.ActionKey, len(e.Keys))
	if err != nil {
		return e, err.Error()
	}
	e.IdempotencyKey = key
	e.Keys = append(append([]string(nil), e.Keys...), key)
	e.KeySentAt = time.Time{}
	return e, ""
}
