package reconcile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Control says whether the lookup that gave an answer was shown to see a record
// that is known to exist.
type Control string

// The controls.
const (
	ControlNone    Control = "none"    // nothing is known to exist: no negative counts
	ControlFound   Control = "found"   // in the same call, or within the minute before
	ControlMissing Control = "missing" // it did not show: the lookup is out of use
	ControlProbe   Control = "probe"   // the probe stands for it, as the definition says
	ControlUnasked Control = "unasked" // it could not be asked about: nothing is known of the lookup
)

// unfindable is the code of a reason that no wait and no further look changes.
const unfindable = "unfindable"

// Codes of the reasons for which an answer is none.
const (
	reasonNotUsable  = "lookup_not_usable" // it shows others' records alone
	reasonIncomplete = "answer_incomplete" // it was not read to its end
)

// Question is how an answer was come by: what Judge needs besides the entry and
// the answer.
type Question struct {
	Op       connectors.Operation
	Risk     ledger.Risk // the higher of record and policy
	Control  Control
	AskedAt  time.Time // ledger time of the call
	Lag      int       // the lane's factor; 0 is 1
	Version  string    // of the definition
	Findable bool      // our key stands in the payload where the lookup will show it
}

// Judgement is what one answer means for one entry.
type Judgement struct {
	Finding  ledger.Finding
	Reason   string // stable code, detail after a colon
	RemoteID string // of the record that decides; "" without one
	Flags    []ledger.Flag

	// Counts: a negative that counts towards absence. Negatives is their
	// number with this one.
	Counts    bool
	Negatives int
	Needed    int

	// FirstCount is when a negative can first count; zero when no wait makes
	// it count.
	FirstCount time.Time

	Seen []connectors.Record // every record looked at, for the evidence
}

// quietUntil is the moment from which a negative counts: the latest send_by,
// plus the longest a request may still land, plus the longest a lookup may not
// show it (times the lag seen on this lane).
func quietUntil(e ledger.Entry, op connectors.Operation, lag int) time.Time {
	if lag < 1 {
		lag = 1
	}
	return e.SendBy.Add(op.LandsWithin + time.Duration(lag)*op.VisibleWithin)
}

// negativesNeeded is how many counting negatives prove absence at this risk
// (docs/rules.md, section 5, "Risk").
func negativesNeeded(r ledger.Risk, op connectors.Operation) int {
	n := op.AbsentAfter
	if n < 1 {
		n = 1
	}
	if n < 2 && op.VisibleWithin > 0 {
		n = 2
	}
	switch r {
	case ledger.RiskLow:
		return 1
	case ledger.RiskHigh:
		return n + 1
	}
	return n
}

// Judge makes a finding of an answer. It does no I/O and reads no clock.
func Judge(e ledger.Entry, as []ledger.Attempt, a connectors.Answer, q Question) Judgement {
	j := Judgement{Seen: a.Records, Needed: negativesNeeded(q.Risk, q.Op)}
	if a.Foreign > 0 && !a.Declared && len(a.Records) == 0 {
		return j.is(ledger.FindingCouldNotAsk, reasonNotUsable+": only records without our key came back")
	}

	var live, rejected, reversed, unmapped, other []connectors.Record
	for _, r := range a.Records {
		switch {
		case r.Origin:
			other = append(other, r)
		case r.Standing == connectors.StandingApplied || r.Standing == connectors.StandingPending:
			live = append(live, r)
		case r.Standing == connectors.StandingRejected:
			rejected = append(rejected, r)
		case r.Standing == connectors.StandingReversed:
			reversed = append(reversed, r)
		default:
			unmapped = append(unmapped, r)
		}
	}

	if q.Op.Removes {
		switch {
		case len(pendingOf(live)) > 0:
			p := pendingOf(live)[0]
			return j.found(ledger.FindingPending, fmt.Sprintf("pending: status %q", p.Status), p)
		case len(live) > 0:
			return j.negative(e, as, a, q)
		case len(reversed) > 0:
			return j.found(ledger.FindingApplied, "removed", reversed[0])
		case len(a.Records) == 0 && a.Complete:
			return j.is(ledger.FindingMismatch, "never_seen: what was to be removed was never there")
		}
	}

	switch {
	case len(unmapped) > 0:
		j.RemoteID = unmapped[0].ID
		return j.is(ledger.FindingUnmapped, fmt.Sprintf("unmapped_status: %q of record %q", unmapped[0].Status, unmapped[0].ID))
	case distinct(live) > 1:
		if distinct(appliedOf(live)) > 0 {
			j.Flags = append(j.Flags, ledger.FlagDuplicate)
		}
		return j.is(ledger.FindingDuplicate, fmt.Sprintf("duplicate: %d live records: %s", distinct(live), ids(live)))
	case len(live) > 0:
		return j.one(e, as, a, live[0], len(reversed) > 0, q)
	case len(reversed) > 0:
		j.Flags = append(j.Flags, ledger.FlagReversed)
		return j.found(ledger.FindingReversed, "reversed", reversed[0])
	case len(other) > 0 && a.Complete:
		return j.origin(e, other, q.Risk)
	}
	if !a.Complete {
		return j.is(ledger.FindingCouldNotAsk, reasonIncomplete+": not all of the answer could be read")
	}
	if fresh := newlyRejected(rejected, as); len(fresh) > 0 {
		// With other content it is the refusal of somebody else's request, which
		// has used our key: it says nothing of ours.
		for _, r := range fresh {
			if bad := unequal(r.Compared); bad != "" {
				return j.found(ledger.FindingMismatch, "mismatch: "+bad+" differs", r)
			}
		}
		return j.rejected(e, as, a, fresh, q)
	}
	return j.negative(e, as, a, q)
}

// rejected judges refused records that are not known yet. Each explains one
// request; any other may still land, so that its absence has to be proven like
// that of any. A record that shows is its own control. After a refusal that is
// known already, or while the platform retries, nothing says which request a
// further record belongs to.
func (j Judgement) rejected(e ledger.Entry, as []ledger.Attempt, a connectors.Answer, fresh []connectors.Record, q Question) Judgement {
	explained := unknownRequests(as) <= distinct(fresh) && !knownRejected(as) && !Driving(e, q.AskedAt)
	if !explained {
		if q.Control == ControlNone || q.Control == ControlUnasked {
			q.Control = ControlFound
		}
		if n := j.negative(e, as, a, q); n.Finding != ledger.FindingAbsent {
			return n
		} else {
			j = n
		}
	}
	return j.found(ledger.FindingRejected, fmt.Sprintf("rejected: status %q", fresh[0].Status), fresh[0])
}

// newlyRejected are the refused records but for those known as such: they are
// set aside.
func newlyRejected(rejected []connectors.Record, as []ledger.Attempt) (fresh []connectors.Record) {
	for _, r := range rejected {
		known := false
		for _, a := range as {
			// Where records have no id, what a look found refused is that one.
			known = known || a.Class == ledger.ClassRejected && a.RemoteID == r.ID && (r.ID != "" || strings.HasPrefix(a.Rule, ruleRejected))
		}
		if !known {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

func knownRejected(as []ledger.Attempt) bool {
	return slices.ContainsFunc(as, func(a ledger.Attempt) bool { return a.Class == ledger.ClassRejected })
}

func (j Judgement) is(f ledger.Finding, reason string) Judgement {
	j.Finding, j.Reason = f, reason
	return j
}

func (j Judgement) found(f ledger.Finding, reason string, r connectors.Record) Judgement {
	j.RemoteID = r.ID
	if r.MergedInto != "" {
		j.RemoteID = r.MergedInto
		reason += ": merged into " + r.MergedInto
	}
	return j.is(f, reason)
}

// one judges a single live record.
func (j Judgement) one(e ledger.Entry, as []ledger.Attempt, a connectors.Answer, r connectors.Record, gone bool, q Question) Judgement {
	if r.Standing == connectors.StandingPending {
		return j.found(ledger.FindingPending, fmt.Sprintf("pending: status %q", r.Status), r)
	}
	if bad := unequal(r.Compared); bad != "" {
		j.RemoteID = r.ID
		return j.is(ledger.FindingMismatch, "mismatch: "+bad+" differs")
	}
	if q.Op.HasProof {
		if bad := unequal(r.Proof); bad != "" || len(r.Proof) == 0 {
			// The record is there, its values are not. It was not changed only
			// if it last changed before the first attempt could have landed.
			if q.Op.HasChanged && !r.ChangedAt.IsZero() && !e.FirstSentAt.IsZero() && r.ChangedAt.Before(e.FirstSentAt) {
				return j.negative(e, as, a, q)
			}
			j.RemoteID = r.ID
			return j.is(ledger.FindingMismatch, "mismatch: "+bad+" has another value")
		}
	}
	if gone {
		j.Flags = append(j.Flags, ledger.FlagReversed)
	}
	return j.found(ledger.FindingApplied, "found", r)
}

// origin judges records that match by business identity, or are named by an
// error, and do not show our key. Only where the system says that the action
// exists already may an equal one be taken for its effect; any other goes to a
// person.
func (j Judgement) origin(e ledger.Entry, rs []connectors.Record, risk ledger.Risk) Judgement {
	r := rs[0]
	exists := e.LastClass == ledger.ClassAlreadyExists || e.RemoteID != "" && e.RemoteID == r.ID
	j.RemoteID = r.ID
	j.Flags = append(j.Flags, ledger.FlagOtherOrigin)
	switch {
	case distinct(rs) > 1:
		return j.is(ledger.FindingMismatch, fmt.Sprintf("other_origin: %d records without our key: %s", distinct(rs), ids(rs)))
	case exists && len(r.Compared) > 0 && unequal(r.Compared) == "" && risk != ledger.RiskHigh && r.Standing == connectors.StandingApplied:
		return j.is(ledger.FindingApplied, "other_origin: all compared fields are equal")
	case unequal(r.Compared) != "":
		return j.is(ledger.FindingMismatch, "other_origin: "+unequal(r.Compared)+" differs")
	}
	return j.is(ledger.FindingMismatch, "other_origin: a record without our key; a person has to compare")
}

// negative judges an explicit none: whether it counts, and whether absence is
// now proven (docs/rules.md, section 5, "A negative").
func (j Judgement) negative(e ledger.Entry, as []ledger.Attempt, a connectors.Answer, q Question) Judgement {
	op, asked := q.Op, q.AskedAt
	j.Negatives = e.Negatives
	if e.NegativeVersion != q.Version {
		j.Negatives = 0
	}
	no := func(reason string) Judgement { return j.is(ledger.FindingNotVisible, reason) }
	if !a.Complete {
		return j.is(ledger.FindingCouldNotAsk, reasonIncomplete+": not all of the answer could be read")
	}
	quiet := quietUntil(e, op, q.Lag)
	first := e.FirstSentAt
	switch {
	case Driving(e, asked):
		if !e.DriverUntil.IsZero() {
			j.FirstCount = quiet
		}
		return no("platform_retries: the platform may still send")
	case q.Findable && e.KeyOrigin == "derived" && workflowUnknown(as):
		return no("derived_key: the workflow may not have sent this key")
	case op.LooksBack > 0 && !first.IsZero() && first.Before(asked.Add(-op.LooksBack)):
		return no(fmt.Sprintf("beyond_looks_back: the system shows only the last %s", op.LooksBack))
	case e.Unbounded:
		return no("no_send_by: nothing says when the attempt can no longer be sent")
	case !asked.After(quiet):
		j.FirstCount = quiet
		return no("too_early: a fresh record may not show yet")
	case !q.Findable:
		return no(unfindable + ": our key does not stand in the payload where the lookup would show it")
	case q.Control == ControlMissing:
		return j.is(ledger.FindingCouldNotAsk, "control_not_found: this lookup did not show a record that exists")
	case q.Control == ControlUnasked:
		return no("control_unasked: the record that this lookup must show could not be asked about")
	case q.Control == ControlNone:
		return no("no_control: no record is known that this lookup must show")
	case j.Negatives > 0 && asked.Sub(e.LastNegativeAt) < op.AbsentSpacing:
		j.FirstCount = e.LastNegativeAt.Add(op.AbsentSpacing)
		return no(fmt.Sprintf("too_close: negatives count %s apart", op.AbsentSpacing))
	}
	j.Counts = true
	j.Negatives++
	if j.Negatives >= j.Needed {
		return j.is(ledger.FindingAbsent, fmt.Sprintf("absent: %d of %d negatives count", j.Negatives, j.Needed))
	}
	j.FirstCount = asked.Add(op.AbsentSpacing)
	return no(fmt.Sprintf("not_visible: %d of %d negatives count", j.Negatives, j.Needed))
}

// unknownRequests is how many requests the attempts of unknown effect stand
// for; more than any answer has records where one of them does not know.
func unknownRequests(as []ledger.Attempt) int {
	n := 0
	for _, a := range as {
		switch {
		case a.Effect != ledger.EffectUnknown:
		case a.Sends < 1:
			return math.MaxInt
		default:
			n += a.Sends
		}
	}
	return n
}

func workflowUnknown(as []ledger.Attempt) bool {
	for _, a := range as {
		if !a.Ours && a.Effect == ledger.EffectUnknown {
			return true
		}
	}
	return false
}

func unequal(cs []connectors.Compared) string {
	var bad []string
	for _, c := range cs {
		if !c.Equal {
			bad = append(bad, c.Path)
		}
	}
	return strings.Join(bad, ", ")
}

func distinct(rs []connectors.Record) int { return len(idSet(rs)) }

// idSet are the records that there are: one that was merged away is its
// survivor.
func idSet(rs []connectors.Record) map[string]bool {
	set := make(map[string]bool, len(rs))
	for _, r := range rs {
		set[cmp.Or(r.MergedInto, r.ID)] = true
	}
	return set
}

func ids(rs []connectors.Record) string {
	var l []string
	for id := range idSet(rs) {
		l = append(l, id)
	}
	sort.Strings(l)
	return strings.Join(l, ", ")
}

func appliedOf(rs []connectors.Record) []connectors.Record {
	return standing(rs, connectors.StandingApplied)
}

func pendingOf(rs []connectors.Record) []connectors.Record {
	return standing(rs, connectors.StandingPending)
}

func standing(rs []connectors.Record, s connectors.Standing) []connectors.Record {
	var out []connectors.Record
	for _, r := range rs {
		if r.Standing == s {
			out = append(out, r)
		}
	}
	return out
}
