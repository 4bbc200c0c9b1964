package reports

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// meaning is what a reason code stands for. With whole set the text says it
// all: the detail after the code only says the same again.
type meaning struct {
	text  string
	whole bool
}

// meanings says in words what each reason code stands for. It is the one such
// list: show, lists and notices read it. A code that is not in it is shown as
// it is.
var meanings = map[string]meaning{
	// What a look found.
	"found":             {"a look found it under our key", false},
	"removed":           {"a look found that it is gone, as it was meant to be", true},
	"pending":           {"the system has it, and has not finished it", false},
	"rejected":          {"the system refused it for good", false},
	"reversed":          {"it was applied, and then undone or removed", true},
	"duplicate":         {"the system has more than one live record of it", false},
	"mismatch":          {"the system has it with other content", false},
	"never_seen":        {"what was to be removed was never there", true},
	"unmapped_status":   {"the system shows a status that the definition does not know", false},
	"other_origin":      {"it exists, but was not made under our key", false},
	"absent":            {"looks prove that it did not happen", false},
	"not_visible":       {"nothing was found, which does not prove yet that it did not happen", false},
	"too_early":         {"nothing was found, but a fresh record might not show yet", true},
	"too_close":         {"nothing was found, too soon after the look before to count", true},
	"no_control":        {"nothing was found, and no known record shows that the lookup works", true},
	"no_send_by":        {"nothing was found, but nothing says when the attempt can no longer be sent", true},
	"beyond_looks_back": {"nothing was found, but the system no longer shows things that old", false},
	"derived_key":       {"nothing was found, but the workflow may have sent another key", true},
	"platform_retries":  {"the platform still retries by itself", false},
	"unfindable":        {"nothing was found, but what was sent does not hold our key where the lookup looks", true},
	"control_unasked":   {"nothing was found, and the record that shows that the lookup works could not be asked for", true},

	// Why a look told nothing.
	"could_not_ask":            {"the system could not be asked", false},
	"lookup_not_usable":        {"the lookup answers with other people's records only", true},
	"answer_incomplete":        {"the answer could not be read to its end", true},
	"control_not_found":        {"the lookup does not show a record that is known to exist", true},
	"connector_not_configured": {"the config has no such connector", false},
	"look_needed":              {"a look has to come first", true},
	"checks_needed":            {"checks have to come first", true},
	"bad_key":                  {"the question cannot be put for this key", false},
	"unsupported":              {"this system cannot be asked by our key", false},

	// What may be tried again, and what may not.
	"generation":           {"the database was replaced; what was written last may be lost, and with it an attempt", true},
	"effect_unknown":       {"the answer was lost, or says nothing of the effect", false},
	"backoff":              {"it did not happen, and may be tried again", false},
	"held":                 {"sends are on hold", true},
	"promise_over":         {"the moment until which it was promised to be sent has passed", true},
	"repeatable":           {"doing it twice is the same as doing it once", true},
	"second_refused":       {"the system itself refuses a second effect", true},
	"unproven":             {"the system would no longer refuse a second effect, and nothing proves that it did not happen", true},
	"clearance_lapsed":     {"it was not sent while its checks held; they are made again", true},
	"not_sent":             {"sending stopped before it went out; its checks are made again", true},
	"checks_passed":        {"all checks passed; it may be sent now", true},
	"attempts_exhausted":   {"all attempts that the policy allows are used up", false},
	"too_old":              {"it is older than the policy allows", false},
	"wait_too_long":        {"the system asks to wait longer than the policy allows", false},
	"permanent":            {"the failure is one that another attempt does not cure", false},
	"superseded":           {"another entry has taken its place", false},
	"outcome_key_held":     {"another entry for the same outcome is not settled yet", false},
	"look_alike":           {"an equal entry stands in its way", false},
	"consent_withdrawn":    {"consent was withdrawn", false},
	"lifecycle_closed":     {"the record is gone, merged or closed", false},
	"owner_changed":        {"the record belongs to somebody else now", false},
	"owner_inactive":       {"the owner of the record is no longer active", false},
	"check_unread":         {"what has to be checked before a send could not be read", false},
	"needs_approval":       {"a person has to approve the next attempt", false},
	"handover_unavailable": {"this version cannot hand over to the workflow", true},
	"cannot_send":          {"the connector cannot send this operation", true},
	"not_sendable":         {"what is stored is not enough to send it again", false},
	"no_key":               {"no key can be made that the next attempt could travel under", false},
	"key_spent":            {"the idempotency key is used up and the send cannot carry a new one", true},
	"already_exists":       {"the system says that it exists already", false},
	"duplicate_request":    {"the key was used with other content; another action may own it", true},

	// What is unknown for good.
	"outcome_unknown": {"it is not known whether it happened, and looking does not tell", false},
	"still_pending":   {"the system has had it pending longer than the policy waits", false},

	// What was reported and sent.
	"reported_ok":     {"the workflow reported success", true},
	"intent":          {"the workflow said that it is about to send", true},
	"attempt_started": {"an attempt was begun and has no result yet", false},
	"known_not_done":  {"every attempt turned out to have had no effect", false},
	"restored":        {"it was restored from an export", false},
	"sent":            {"our own attempt was sent", false},
	"late_result":     {"a result came late, and its effect is unknown", true},

	// What was waited for, and what a person did.
	"released":        {"what it waited for is there", false},
	"release_expired": {"what it waited for did not come in time", false},
	"retry":           {"a person allowed another attempt", false},
	"resolve":         {"a person settled it", false},
	"cancel":          {"a person ended it", false},
	"assign":          {"a person made somebody else the owner", false},
	"take":            {"a person took it", false},
	"snooze":          {"a person put it aside", false},
	"override":        {"a person skipped the look", false},
}

// Plain says in words what a reason stands for, with its detail. A code that is
// not known is returned as it is.
func Plain(reason string) string {
	code, detail, _ := strings.Cut(reason, ":")
	m, ok := meanings[code]
	detail = strings.TrimSpace(detail)
	unclassed := detail == string(ledger.ClassUnknown)
	switch {
	case !ok:
		return reason
	case m.whole || detail == "":
		return m.text
	case unclassed && code == "permanent":
		return "the failure has no class that is known, so that nothing says whether another attempt would help"
	case unclassed:
		return m.text + " (an error of no known class)"
	}
	return m.text + " (" + Plain(detail) + ")" // the detail may be a reason of its own
}

// lookDetail is what the evidence of a look keeps, as far as it is shown.
type lookDetail struct {
	Reason  string `json:"reason"`
	Records []struct {
		ID         string `json:"id"`
		Status     string `json:"status"`
		Standing   string `json:"standing"`
		MergedInto string `json:"merged_into"`
		Compared   []struct {
			Path  string `json:"path"`
			Want  string `json:"want"`
			Got   string `json:"got"`
			Equal bool   `json:"equal"`
		} `json:"compared"`
	} `json:"records"`
	Control   string `json:"control"`
	Negatives int    `json:"negatives"`
	Needed    int    `json:"needed"`
	Error     string `json:"error"`
	Reference string `json:"reference"` // of a person
	By        string `json:"by"`
}

// Seen tells in one line what a piece of evidence holds: the records and
// values that were seen, what stood as control, or why nothing was learned.
func Seen(ev ledger.Evidence) string {
	var d lookDetail
	if json.Unmarshal(ev.Detail, &d) != nil {
		return ""
	}
	var parts []string
	for _, r := range d.Records {
		text := "record " + r.ID
		if r.Status != "" {
			text += fmt.Sprintf(" with status %q", r.Status)
		}
		if r.Standing != "" {
			text += ": " + r.Standing
		}
		if r.MergedInto != "" {
			text += ", merged into " + r.MergedInto
		}
		for _, c := range r.Compared {
			if c.Equal {
				text += fmt.Sprintf(", %s %q as sent", c.Path, c.Got)
			} else {
				text += fmt.Sprintf(", %s %q instead of %q", c.Path, c.Got, c.Want)
			}
		}
		parts = append(parts, text)
	}
	if len(d.Records) == 0 {
		switch {
		case d.Error != "":
			parts = append(parts, d.Error)
		case d.By != "":
			parts = append(parts, fmt.Sprintf("seen by %s: %s", d.By, d.Reference))
		case ev.Counted:
			parts = append(parts, fmt.Sprintf("nothing, negative %d of %d", d.Negatives, d.Needed))
		case d.Reason != "":
			parts = append(parts, Plain(d.Reason))
		}
	}
	switch d.Control {
	case "found":
		parts = append(parts, "the control was found")
	case "missing":
		parts = append(parts, "the control was not found")
	case "probe":
		parts = append(parts, "the probe stands for a control")
	}
	return strings.Join(parts, "; ")
}

// Checks tells in one line what the checks before a send read, as a history
// row keeps it; "" where it keeps none.
func Checks(h ledger.History) string {
	var d struct {
		Checks []struct{ Check, Verdict, Value, Detail string } `json:"checks"`
	}
	if json.Unmarshal(h.Detail, &d) != nil || len(d.Checks) == 0 {
		return ""
	}
	parts := make([]string, len(d.Checks))
	for i, c := range d.Checks {
		parts[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Check, c.Verdict, c.Value))
		if c.Detail != "" {
			parts[i] += " (" + c.Detail + ")"
		}
	}
	return "checks: " + strings.Join(parts, ", ")
}

// Why says why another attempt is (or was) safe, or why it stopped: from the
// reason, and from the attempts and the evidence that stand behind it. It is
// text for a person, without times relative to now.
func Why(st ledger.Stored, evidence []ledger.Evidence, history []ledger.History) string {
	e := st.Entry
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }

	resent := resends(st.Attempts)
	for _, a := range resent {
		if why := whyResent(a, st.Attempts, evidence, history); why != "" {
			add("Attempt %d was safe: %s.", a.No, why)
		}
	}
	for _, a := range st.Attempts {
		if stands(a) {
			add("Attempt %d stands for what may have been sent until %s and is not in this ledger any more.", a.No, stamp(a.ReceivedAt))
		}
	}

	switch e.State {
	case ledger.StateSettled:
		add("%s", whySettled(e, evidence, len(resent) > 0))
		if e.Verify {
			because := "it was sent again after an attempt of unknown effect"
			if len(resent) == 0 {
				because = "an attempt of unknown effect may have been sent beside it"
			}
			add("It will be looked at once more%s, because %s: a second record would be flagged.", at(e.NextAt), because)
		}
	case ledger.StateInFlight:
		add("An attempt was begun and has no result yet. Nothing else is sent meanwhile; from %s on it is looked at.", stamp(e.NextAt))
	case ledger.StateAmbiguous:
		add("It stopped because nobody knows whether it happened: %s. Until a look settles that, sending again could do it twice.", Plain(e.Reason))
		for _, a := range st.Attempts {
			if _, also := ledger.SplitRule(a.Rule); also != "" && a.Effect == ledger.EffectUnknown {
				add("Attempt %d was reported with two answers that contradict each other (%s, and %s), so neither proves anything.", a.No, failure(a), also)
			}
		}
		add("%s", proofSoFar(e, evidence))
		if !e.NextAt.IsZero() {
			add("The next look is due at %s.", stamp(e.NextAt))
		}
	case ledger.StateRetryable:
		if e.Effect == ledger.EffectNotDone {
			add("Another attempt is safe: %s.", whyNotDone(st.Attempts, evidence))
		} else {
			add("Another attempt is safe: %s.", Plain(e.Reason))
		}
		add("It is due at %s and is checked again before anything is sent (stands here because %s).", stamp(e.NextAt), Plain(e.Reason))
	case ledger.StateReady:
		add("Another attempt is safe and cleared until %s: %s.", stamp(e.ClearedUntil), whyNotDone(st.Attempts, evidence))
	case ledger.StateDeferred:
		add("It waits: %s. It goes on %s.", Plain(e.Reason), releaseText(e))
	case ledger.StateEscalated:
		add("It stopped because %s.", Plain(e.Reason))
		if e.Effect == ledger.EffectUnknown {
			add("Nobody knows whether it happened, so nothing is sent. %s", proofSoFar(e, evidence))
		} else if e.Effect == ledger.EffectNotDone {
			add("It did not happen: %s.", whyNotDone(st.Attempts, evidence))
			if e.LastClass == ledger.ClassUnknown {
				add("What the system said stands with the attempt: retry it if that passes by itself, else cancel it. " +
					"With an errors rule in the connector, or error_class in the record, the next such error has a class.")
			}
		}
		add("%s has to decide%s%s.", e.Owner, by(e.DueAt), allowed(e.Allowed))
	}
	for _, f := range e.Flags {
		add("%s", flagText(f))
	}
	if len(e.Flags) > 0 && e.State != ledger.StateEscalated {
		add("%s has to look at that%s%s.", e.Owner, by(e.DueAt), allowed(e.Allowed))
	}
	return strings.Join(clean(parts), " ")
}

// stands says whether an attempt was never seen, and stands for what the ledger
// may have lost: see ledger.Store, Unsettle.
func stands(a ledger.Attempt) bool {
	return a.Ours && strings.HasPrefix(a.AttemptID, ledger.LostAttempt)
}

// resends are the attempts we sent ourselves after an earlier one.
func resends(as []ledger.Attempt) []ledger.Attempt {
	var out []ledger.Attempt
	for i, a := range as {
		if i > 0 && a.Ours && !stands(a) {
			out = append(out, a)
		}
	}
	return out
}

// whyResent says on what ground attempt a was sent.
func whyResent(a ledger.Attempt, as []ledger.Attempt, evidence []ledger.Evidence, history []ledger.History) string {
	var before []ledger.Attempt
	for _, b := range as {
		if b.No < a.No {
			before = append(before, b)
		}
	}
	// Where the effect was not proven not done, the reason of the last change
	// to retryable says what makes a second effect impossible.
	for i := len(history) - 1; i >= 0; i-- {
		h := history[i]
		if h.At.After(a.StartedAt) || h.To != ledger.StateRetryable {
			continue
		}
		if code := ledger.ReasonCode(h.Reason); code == "take" || code == "assign" {
			continue // only the owner changed
		}
		switch code := ledger.ReasonCode(h.Reason); code {
		case "repeatable", "second_refused":
			return Plain(code)
		}
		break
	}
	return whyNotDone(before, proof(evidence, a.StartedAt))
}

// proof are the negatives that proved absence before the moment given. They may
// be void by now: a later attempt voids what was known before it.
func proof(evidence []ledger.Evidence, before time.Time) []ledger.Evidence {
	last, n := -1, 0
	for i, ev := range evidence {
		if ev.Finding == ledger.FindingAbsent && !ev.AskedAt.After(before) {
			var d lookDetail
			if json.Unmarshal(ev.Detail, &d) == nil {
				last, n = i, d.Negatives
			}
		}
	}
	var out []ledger.Evidence
	for i := last; i >= 0 && len(out) < n; i-- {
		if evidence[i].Counted {
			ev := evidence[i]
			ev.Void = false
			out = append([]ledger.Evidence{ev}, out...)
		}
	}
	return out
}

// whyNotDone says how it is known that no attempt had an effect.
func whyNotDone(as []ledger.Attempt, evidence []ledger.Evidence) string {
	var parts []string
	looked, rejected := false, false
	var refused []string
	for _, a := range as {
		switch {
		case strings.HasPrefix(a.Rule, "look: absent"):
			looked = true
		case strings.HasPrefix(a.Rule, "look: rejected"):
			rejected = true
		case a.Effect == ledger.EffectNotDone:
			refused = append(refused, fmt.Sprintf("attempt %d ended in %s, which did nothing", a.No, failure(a)))
		}
	}
	if looked {
		n, first, last, controlled := negatives(evidence)
		text := "the system was asked by our key after the last moment at which an earlier attempt could still arrive and be seen"
		if n > 0 {
			text = fmt.Sprintf("%s by our key, after the last moment at which an earlier attempt could still arrive and be seen, found nothing (%s)",
				times(n, "look", "looks"), span(first, last))
		}
		if controlled {
			text += ", while the same lookup did show a record that is known to exist"
		}
		parts = append(parts, text)
	}
	if rejected {
		parts = append(parts, "a look found the earlier attempt finally refused")
	}
	parts = append(parts, refused...)
	if len(as) == 0 {
		parts = append(parts, "nothing has been sent yet")
	}
	if len(parts) == 0 {
		return "every attempt is known to have had no effect"
	}
	return strings.Join(parts, "; ")
}

// negatives counts the looks that count towards absence, and says whether a
// control stood beside one of them.
func negatives(evidence []ledger.Evidence) (n int, first, last time.Time, controlled bool) {
	for _, ev := range evidence {
		if !ev.Counted || ev.Void {
			continue
		}
		n++
		if first.IsZero() {
			first = ev.AskedAt
		}
		last = ev.AskedAt
		// A negative counts only with a control, or where the definition says
		// that the probe stands for one; the evidence says which.
		var d lookDetail
		controlled = controlled || json.Unmarshal(ev.Detail, &d) == nil && d.Control == "found"
	}
	return n, first, last, controlled
}

func whySettled(e ledger.Entry, evidence []ledger.Evidence, resent bool) string {
	where := e.Connector
	if e.RemoteID != "" {
		where += " as " + e.RemoteID
	}
	switch {
	case e.SettledBy == ledger.ByPerson:
		return fmt.Sprintf("A person settled it: %s (%s).", outcomeText(e.Outcome), Plain(e.Reason))
	case e.Outcome == ledger.OutcomeApplied && e.SettledBy == ledger.ByLook:
		text := fmt.Sprintf("It happened: a look found it at %s.", where)
		for i := len(evidence) - 1; i >= 0; i-- {
			if evidence[i].Finding == ledger.FindingApplied && !evidence[i].AskedAt.IsZero() {
				text = fmt.Sprintf("It happened: a look at %s found it at %s.", stamp(evidence[i].AskedAt), where)
				break
			}
		}
		if !resent {
			text += " It was not sent again: that would have made a duplicate."
		}
		return text
	case e.Outcome == ledger.OutcomeApplied && e.SettledBy == ledger.BySend:
		return fmt.Sprintf("It happened: our own attempt was confirmed by %s.", where)
	case e.Outcome == ledger.OutcomeApplied:
		return fmt.Sprintf("It happened: the workflow reported success at %s.", where)
	case e.Outcome == ledger.OutcomeNotApplied:
		return fmt.Sprintf("It did not happen and is not tried again: %s.", Plain(e.Reason))
	}
	return fmt.Sprintf("It is settled: %s (%s).", outcomeText(e.Outcome), Plain(e.Reason))
}

func proofSoFar(e ledger.Entry, evidence []ledger.Evidence) string {
	if n, first, last, _ := negatives(evidence); n > 0 {
		return fmt.Sprintf("So far %s (%s) found nothing and count towards proof that it did not happen.", times(n, "look", "looks"), span(first, last))
	}
	switch {
	case e.LooksAnswered == 0 && e.LooksFailed > 0:
		return fmt.Sprintf("The system was asked %s and did not answer.", times(e.LooksFailed, "time", "times"))
	case e.LooksAnswered == 0:
		return "It has not been looked at yet."
	}
	return fmt.Sprintf("It was looked at %s; none of the answers counts as proof that it did not happen.", times(e.LooksAnswered, "time", "times"))
}

func outcomeText(o ledger.Outcome) string {
	switch o {
	case ledger.OutcomeApplied:
		return "it happened"
	case ledger.OutcomeNotApplied:
		return "it did not happen"
	}
	return "it stays unknown whether it happened"
}

func flagText(f ledger.Flag) string {
	if text := PlainFlag(f); text != string(f) {
		return fmt.Sprintf("Open flag %s: %s.", f, text)
	}
	return fmt.Sprintf("Open flag %s.", f)
}

// PlainFlag says in words what an open flag stands for. One that is not known is
// returned as it is.
func PlainFlag(f ledger.Flag) string {
	switch f {
	case ledger.FlagDuplicate:
		return "it was done more than once: the system holds two records of this action, or another entry did the same outcome; a person should undo one"
	case ledger.FlagConflict:
		return "a success was reported for an entry that was settled as not applied"
	case ledger.FlagReversed:
		return "it was applied, and then removed or undone"
	case ledger.FlagOtherOrigin:
		return "the record exists, but was not made under our key"
	}
	return string(f)
}

func releaseText(e ledger.Entry) string {
	switch e.ReleaseKind {
	case "time":
		return "at " + stamp(e.ReleaseAt)
	case "lane":
		return fmt.Sprintf("when lane %s is back, or to a person at %s", e.ReleaseRef, stamp(e.ReleaseAt))
	case "signal":
		return fmt.Sprintf("when signal %s comes, or to a person at %s", e.ReleaseRef, stamp(e.ReleaseAt))
	case "entry":
		return fmt.Sprintf("when entry %s is settled, or to a person at %s", e.ReleaseRef, stamp(e.ReleaseAt))
	}
	return "when a person releases it"
}

func failure(a ledger.Attempt) string {
	switch {
	case a.Class == ledger.ClassUnknown && a.HTTPStatus != 0:
		return fmt.Sprintf("an error of no known class (HTTP %d)", a.HTTPStatus)
	case a.Class == ledger.ClassUnknown:
		return "an error of no known class"
	case a.Class != ledger.ClassNone && a.HTTPStatus != 0:
		return fmt.Sprintf("%s (HTTP %d)", a.Class, a.HTTPStatus)
	case a.Class != ledger.ClassNone:
		return string(a.Class)
	case a.HTTPStatus != 0:
		return fmt.Sprintf("HTTP %d", a.HTTPStatus)
	}
	return "a failure"
}

func allowed(as []ledger.Action) string {
	if len(as) == 0 {
		return ""
	}
	return " (may: " + strings.Join(list(as), ", ") + ")"
}

func times(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func span(first, last time.Time) string {
	if first.Equal(last) {
		return "at " + stamp(first)
	}
	return "from " + stamp(first) + " to " + stamp(last)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "no set time"
	}
	return t.UTC().Format(time.RFC3339)
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + stamp(t)
}

func by(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " by " + stamp(t)
}

func clean(parts []string) []string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}
