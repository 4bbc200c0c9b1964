package reconcile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Rules that are not a connector's own. A rule is kept with the attempt.
const (
	ruleReported = "reported"      // the report names the class itself
	ruleEffect   = "effect given"  // the report names the effect itself: it knows better than the class
	ruleStarted  = "started"       // no result yet
	ruleProven   = "ok"            // a success with the proof that the operation asks for
	ruleUnproven = "ok, no proof"  // a success that names no id where one is needed
	ruleUnknown  = "unknown"       // reported as unknown
	ruleNotSent  = "not sent"      // prefix: the attempt never reached the wire
	ruleDefault  = "default"       // prefix: the general defaults hold
	ruleNoStatus = "default class" // no status was given: the class alone decides
	ruleLook     = "look: "        // prefix: a look said so
)

// ClassFromKind is the error class of a connector's failure. Kinds that only a
// connector needs, and say nothing of an attempt, are ClassUnknown.
func ClassFromKind(k connectors.Kind) ledger.Class {
	if k == "" {
		return ledger.ClassNone
	}
	for _, c := range ledger.Classes() {
		if string(c) == string(k) {
			return c
		}
	}
	return ledger.ClassUnknown
}

// classOfStatus is what an HTTP status says of a write where no rule does, and
// whether it says that nothing was done. Status 0 says nothing.
// Source: docs/connectors.md, "Errors and effects", defaults.
func classOfStatus(status int) (c ledger.Class, notDone bool) {
	switch {
	case status == 401:
		return ledger.ClassAuth, true
	case status == 403:
		return ledger.ClassPermission, true
	case status == 404, status == 410:
		return ledger.ClassNotFound, true
	case status == 408, status == 499, status == 504: // 499: the client gave up, as nginx logs it
		return ledger.ClassTimeout, false
	case status == 409:
		return ledger.ClassConflict, false
	case status == 423, status == 425:
		return ledger.ClassLockConflict, true
	case status == 429:
		return ledger.ClassRateLimit, true
	case status >= 400 && status < 500:
		return ledger.ClassValidation, true
	case status == 502, status == 503:
		return ledger.ClassUnavailable, false
	case status >= 500:
		return ledger.ClassServerError, false
	}
	return ledger.ClassUnknown, false
}

// refusesBeforeActing lists the classes that by themselves say that nothing was
// done, where no status speaks against it (docs/rules.md, section 4).
func refusesBeforeActing(c ledger.Class) bool {
	switch c {
	case ledger.ClassValidation, ledger.ClassAuth, ledger.ClassPermission, ledger.ClassNotFound, ledger.ClassRateLimit,
		ledger.ClassQuota, ledger.ClassConsent, ledger.ClassBlockedByEdge:
		return true
	}
	return false
}

// ClassifyReported says what class and effect a reported attempt has, and by
// which rule. op is zero where the connector or operation is not known: then
// only a remote id proves a success. cl may be nil.
func ClassifyReported(ra ledger.RecordAttempt, op connectors.Operation, cl connectors.Classifier) (ledger.Class, ledger.Effect, string) {
	class, effect, rule := ledger.ClassNone, ledger.EffectUnknown, ruleStarted
	switch ra.Status {
	case ledger.AttemptStarted:
		return class, effect, rule
	case ledger.AttemptOK:
		class, effect, rule = reportedOK(ra, op)
	default:
		class, effect, rule = reportedFailure(ra, op, cl)
	}
	if ra.Sends != 1 && effect == ledger.EffectNotDone {
		// One answer says nothing of the other requests.
		effect = ledger.EffectUnknown
		rule += "; stands for several requests"
	}
	return class, effect, rule
}

func reportedOK(ra ledger.RecordAttempt, op connectors.Operation) (ledger.Class, ledger.Effect, string) {
	switch {
	case ra.Effect == ledger.EffectNotDone:
		// "Success, nothing done" has a class of its own.
		return ledger.ClassSilentNoop, ra.Effect, ruleEffect
	case ra.Effect != "":
		return ledger.ClassNone, ra.Effect, ruleEffect
	case ra.RemoteID != "" || op.CanSend && !op.SendNeedsID:
		return ledger.ClassNone, ledger.EffectDone, ruleProven
	}
	return ledger.ClassNone, ledger.EffectUnknown, ruleUnproven
}

func reportedFailure(ra ledger.RecordAttempt, op connectors.Operation, cl connectors.Classifier) (ledger.Class, ledger.Effect, string) {
	own, matched := ownRule(ra, op, cl)
	byStatus, statusAllows := classOfStatus(ra.HTTPStatus)

	class, named := ledger.ParseClass(ra.ErrorClass)
	rule := ruleReported
	switch {
	case named:
	case matched:
		class, rule = ClassFromKind(own.Kind), own.Rule
	case ra.HTTPStatus != 0:
		class, rule = byStatus, ruleDefault+" "+strconv.Itoa(ra.HTTPStatus)
		if ra.HTTPStatus == 403 && isHTML(ra.Message) {
			class = ledger.ClassBlockedByEdge // a page of the edge, not an answer of the system
		}
	case ra.Status == ledger.AttemptUnknown:
		class, rule = ledger.ClassNone, ruleUnknown
	default:
		class, rule = ledger.ClassUnknown, ruleNoStatus
	}

	switch {
	case ra.Effect != "":
		return class, ra.Effect, ruleEffect
	case ra.Status == ledger.AttemptUnknown:
		return class, ledger.EffectUnknown, rule
	case matched && own.Effect != "":
		eff := ledger.Effect(own.Effect)
		if class == ledger.ClassAlreadyExists && eff == ledger.EffectNotDone {
			eff = ledger.EffectUnknown // it may be ours: looked up and read
		}
		return class, eff, own.Rule
	case refusesBeforeActing(class) && (ra.HTTPStatus == 0 || statusAllows):
		return class, ledger.EffectNotDone, rule
	}
	return class, ledger.EffectUnknown, rule
}

// ownRule is what the connector's own rules say of a reported failure.
func ownRule(ra ledger.RecordAttempt, op connectors.Operation, cl connectors.Classifier) (connectors.Classified, bool) {
	if cl == nil || op.Name == "" || ra.Status == ledger.AttemptOK || ra.Status == ledger.AttemptStarted {
		return connectors.Classified{}, false
	}
	return cl.Classify(op.Name, connectors.Failure{HTTPStatus: ra.HTTPStatus, Code: ra.ErrorCode, Message: ra.Message})
}

// isHTML says whether a text is a page where an answer was expected.
func isHTML(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		s = s[:64]
	}
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html") || strings.HasPrefix(s, "<head")
}

// CountsAgainstLimit says whether an attempt that ended so counts against
// max_attempts: those that ended in auth, quota or an edge block, or never
// reached the wire, do not; a rate limit does.
func CountsAgainstLimit(c ledger.Class, neverReachedWire bool) bool {
	switch c {
	case ledger.ClassAuth, ledger.ClassQuota, ledger.ClassBlockedByEdge:
		return false
	}
	return !neverReachedWire
}

// neverSent says whether an attempt is known not to have reached the wire.
func neverSent(a ledger.Attempt) bool {
	return a.Effect == ledger.EffectNotDone && strings.HasPrefix(a.Rule, ruleNotSent)
}

// AttemptFromSend is an attempt of ours with what its send came to. a is as it
// was when "started" was written; finishedAt is ledger time.
func AttemptFromSend(e ledger.Entry, a ledger.Attempt, r connectors.SendResult, finishedAt time.Time) ledger.Attempt {
	a.FinishedAt = finishedAt
	a.HTTPStatus, a.Code, a.Message, a.RemoteID = r.HTTPStatus, r.Code, r.Message, r.RemoteID
	a.Class, a.Effect, a.Rule = ClassFromKind(r.Kind), ledger.Effect(r.Effect), r.Rule
	a.Replayed, a.KeySpent = r.Replayed, r.KeySpent
	a.RetryAfter = retryAfterText(r.RetryAfter)
	a.Status = ledger.AttemptError
	if r.Kind == "" {
		a.Status = ledger.AttemptOK
	}
	switch a.Effect {
	case ledger.EffectDone, ledger.EffectNotDone:
	default: // not saying is not knowing
		a.Effect = ledger.EffectUnknown
	}
	if a.Class == ledger.ClassAlreadyExists && a.Effect == ledger.EffectNotDone {
		a.Effect = ledger.EffectUnknown // it may be ours: looked up and read
	}
	unsent := a.Effect == ledger.EffectNotDone && !r.Wrote
	if unsent {
		a.Rule = ruleNotSent + ": " + a.Rule
	}
	a.Counts = CountsAgainstLimit(a.Class, unsent)
	return withReason(e, a)
}

// withReason fills the reason of a failed attempt.
func withReason(e ledger.Entry, a ledger.Attempt) ledger.Attempt {
	a.ReasonID, a.ReasonText, a.RulesVersion = "", "", 0
	if a.Status == ledger.AttemptOK && a.Class == ledger.ClassNone || a.Status == ledger.AttemptStarted {
		return a
	}
	m := a.Message
	if strings.TrimSpace(m) == "" && a.Code == "" && a.HTTPStatus != 0 {
		m = fmt.Sprintf("HTTP %d", a.HTTPStatus)
	}
	a.ReasonID, a.ReasonText = ledger.FailureReason(e.Connector, e.Operation, a.Class, a.Code, m)
	a.RulesVersion = ledger.RulesVersion
	return a
}

// retryAfterText is a wait as connectors.ParseRetryAfter reads it back: whole seconds
// where one was asked for (it may have come as a date against the system's own
// clock, or in a body), else what was received. What asked for no wait, as a
// moment that is past, must not be read for one when it is read again.
func retryAfterText(r connectors.RetryAfter) string {
	switch {
	case r.Beyond:
		return strconv.FormatInt(int64(longestWait/time.Second), 10)
	case r.Wait > 0:
		return strconv.FormatInt(int64((r.Wait+time.Second-1)/time.Second), 10)
	}
	_, number := connectors.ParseSeconds(strings.TrimSpace(r.Raw))
	_, date := connectors.ParseHTTPDate(strings.TrimSpace(r.Raw))
	if number || date {
		return "no wait: " + r.Raw
	}
	return r.Raw
}
