package reconcile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Answers to intents (docs/rules.md, section 6, "An intent that is answered"):
// whoever means to act asks first. Yes is an attempt begun, and takes the outcome
// key. Wait (another one holds the outcome key, an equal action or an older
// change of the record is open, the effect is unknown, sends are on hold) and no
// (settled, superseded, with a person) begin none; asked again, it is answered
// anew. What has only waited is retryable: a pass does it as the policy says,
// unless the one who asks comes first.

// onlyWaited says whether nobody has tried yet.
func onlyWaited(e ledger.Entry, as []ledger.Attempt) bool {
	return e.State == ledger.StateRetryable && len(as) == 0 && e.SendCount == 0
}

// ask records an intent, new or once more, and decides once it stands. before
// is the entry as stored; zero for a new one.
func (r *Recorder) ask(d ledger.Recording, before, e ledger.Entry, rec ledger.Record, s Setting) ledger.Recording {
	e.Driver, e.DriverUntil = "", time.Time{} // the platform drives once it may begin
	e = ledger.Reopen(Summarize(e, nil), "intent", s.Now)
	e.PolicyVersion = s.PolicyVersion
	d.Entry = e
	if before.State != "" {
		d.Entry = ledger.Advance(e, "intent", s.Now) // so that it may begin
	}
	d.Then = func(b ledger.Beside) ledger.Recording { return r.intention(before, rec, b, s) }
	return d
}

// intention decides one intent by what stands beside its entry, which was never
// tried.
func (r *Recorder) intention(before ledger.Entry, rec ledger.Record, b ledger.Beside, s Setting) ledger.Recording {
	if now := b.Entry.State; b.Entry.Attempts > 0 || now != ledger.StateRetryable && now != ledger.StateReady {
		send, why := standsFor(b.Entry) // asked twice at once
		return ledger.Recording{Verdict: ledger.RecordedUnchanged, Send: send, Why: why}
	}
	e := ledger.Reopen(b.Entry, "intent", s.Now) // with what a later record of the same request filled in
	d := ledger.Recording{Verdict: ledger.RecordedMerged}
	g := GateSiblings(e, b.Siblings, s)
	if !g.Stop && b.Held != "" {
		g = stop(ledger.Wait(e, "held: by "+b.Held, s.Now.Add(siblingWait(s.Policy))))
	}
	if !g.Stop && !rec.SendBy.IsZero() && !rec.SendBy.After(s.Now) {
		g = stop(ledger.Wait(e, "promise_over: send_by is past; ask with a later one, or with none", s.Now.Add(siblingWait(s.Policy))))
	}
	if g.Stop {
		d = r.recording(d, before, g.Next)
		d.Send, d.Why = standsFor(d.Entry)
		return d
	}
	e = drive(e, nil, rec, s.Policy, &news{}, s.Now)
	a := intent(e, rec, s.Now)
	a.StartedAt = s.Now // it may have waited since it occurred
	a.Rule = ruleAnswered + strconv.FormatInt(b.Token, 10)
	as := []ledger.Attempt{a}
	next := ledger.Begin(begun(e, as, s.Now), "intent", inFlightUntil(as, s))
	d.Attempts, d.Void = as, before.LooksAnswered > 0
	cleared := ledger.Advance(e, "intent", s.Now)
	if before.State == "" {
		cleared = ledger.Entry{} // it began as it came
	} else {
		d.History = append(d.History, r.row(before, cleared))
	}
	next.Class = ledger.ClassOf(next)
	d.History = append(d.History, r.row(cleared, next))
	d.Entry = next
	d.Send, d.Why = ledger.SendYes, "begun: nothing stands in its way; report what became of it as an attempt with this token"
	return d
}

const (
	// ruleIntent is the rule of the attempt that an intent has begun.
	ruleIntent = "intent"

	// ruleAnswered is the same where a yes was given, with the token of the answer
	// behind it.
	ruleAnswered = ruleIntent + ": token "
)

// announced is the place of the intent under way that an attempt, not reported
// before, takes up; -1 for none. Another attempt than the one that the intent
// announced must not: what was allowed to begin would be taken for over.
//
// The token of the answer tells it exactly. Without one, an attempt takes it up
// unless it says that it began before (the intent's own clock is the ledger's,
// so that a reporter's slow clock costs a look). beside says what to warn of
// where an attempt stands beside an intent that was answered.
func announced(as []ledger.Attempt, a ledger.Attempt, ra ledger.RecordAttempt) (at int, beside string) {
	at = slices.IndexFunc(as, func(o ledger.Attempt) bool {
		return o.AttemptID == intentID && !o.Ours && o.Status == ledger.AttemptStarted && o.Effect == ledger.EffectUnknown
	})
	if at < 0 {
		return -1, ""
	}
	token, answered := strings.CutPrefix(as[at].Rule, ruleAnswered)
	const kept = "; kept beside the intent, which counts as under way"
	switch {
	case answered && ra.Token == token:
		return at, ""
	case answered && ra.Token != "":
		return -1, fmt.Sprintf("attempts.token: %.40q is not the one of its answer", ra.Token) + kept
	case a.StartedAt.Before(asPreciseAs(a.StartedAt, as[at].StartedAt)),
		!a.FinishedAt.IsZero() && a.FinishedAt.Before(asPreciseAs(a.FinishedAt, as[at].StartedAt)):
		return -1, "attempts.token: not given, and it began before the intent" + kept
	}
	return at, ""
}

// asPreciseAs is the time given, cut to what a reporter wrote of another: one
// that writes whole seconds or milliseconds begins nothing before it was
// answered.
func asPreciseAs(written, t time.Time) time.Time {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if written.Truncate(unit).Equal(written) {
			return t.Truncate(unit)
		}
	}
	return t
}

// whyRefused is why nobody may send what was not recorded.
const whyRefused = "refused: see errors"

// answered is the answer to a record which begins nothing. cur is the entry as stored.
func answered(d ledger.Recording, cur *ledger.Stored) (ledger.Send, string) {
	switch {
	case d.Verdict == ledger.RecordedRefused:
		return ledger.SendNo, whyRefused
	case d.Verdict == ledger.RecordedUnchanged && cur != nil:
		return standsFor(cur.Entry)
	}
	return standsFor(d.Entry)
}

// standsFor says what an entry, as it stands, means for whoever would send, and
// why: a stable code, with detail after a colon.
func standsFor(e ledger.Entry) (ledger.Send, string) {
	switch e.State {
	case ledger.StateSettled:
		switch {
		case ledger.ReasonCode(e.Reason) == "superseded":
			return ledger.SendNo, e.Reason
		case e.Outcome == ledger.OutcomeApplied && e.RemoteID != "":
			return ledger.SendNo, "settled: it was done, as " + e.RemoteID
		case e.Outcome == ledger.OutcomeApplied:
			return ledger.SendNo, "settled: it was done"
		}
		return ledger.SendNo, fmt.Sprintf("settled: %s, %s", e.Outcome, e.Reason)
	case ledger.StateEscalated:
		return ledger.SendNo, fmt.Sprintf("escalated: %s decides, %s", e.Owner, e.Reason)
	case ledger.StateInFlight:
		return ledger.SendWait, "effect_unknown: an attempt began at " + e.LastTriedAt.UTC().Format(time.RFC3339) + ofRun(e) + " and has no result yet"
	case ledger.StateAmbiguous:
		return ledger.SendWait, "effect_unknown: nobody knows yet whether it happened" + ofRun(e)
	}
	return ledger.SendWait, e.Reason
}

// ofRun names the run that an entry came from.
func ofRun(e ledger.Entry) string {
	if e.RunID == "" {
		return ""
	}
	return " in run " + e.RunID
}
