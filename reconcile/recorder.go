package reconcile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Recorder says what a record makes of an entry. Its Decide is a
// ledger.Decider: pure, and safe for concurrent use.
type Recorder struct {
	Connectors map[string]connectors.Connector // by the name that records carry; may be empty
	Policies   Policies
	Owners     Owners
	PayloadMax int    // bytes; 0: ledger.DefaultPayloadMax
	Actor      string // of the history rows: "import"

	// Answers says that whoever reports waits for the answer, and sends only
	// where it is yes: see Recorder.ask.
	Answers bool
}

// Where a key comes from (Entry.KeyOrigin).
const (
	keyOfRecord = "record"
	keyOfAction = "action_key"
	keyDerived  = "derived"
)

// intentID is the attempt of a record without attempts: an intent.
const intentID = "intent"

// Decide says what a record makes of the entry with its key (nil: none yet).
//
// A record without attempts is an intent. Where nobody answers it (an import) it
// is read the safe way: as an attempt begun, with the send_by that is promised or
// none. Where it is answered, that attempt begins only with a yes. Which attempt
// reported after it is the one that it announced, says announced.
//
// A record that restores (an export) is taken over as it stands where the key
// is new; else it merges its attempts like any other.
func (r *Recorder) Decide(cur *ledger.Stored, rec ledger.Record, now time.Time) ledger.Recording {
	if rec.PayloadDigest == "" && len(rec.Payload) > 0 { // not made by ParseRecord
		rec.SetPayload(rec.Payload, r.PayloadMax)
	}
	var d ledger.Recording
	switch {
	case cur != nil:
		d = r.merge(*cur, rec, now)
	case rec.Restore != nil:
		d = r.restore(rec, now)
	default:
		d = r.first(rec, now)
	}
	if w := r.undefined(rec); w != "" && d.Verdict != ledger.RecordedRefused {
		d.Warnings = append(d.Warnings, w)
	}
	if r.Answers && d.Then == nil {
		d.Send, d.Why = answered(d, cur)
	}
	return d
}

// undefined says that the config does not define where a record belongs, or "".
// Such a record is kept: the definition may come later, and until then every
// pass says that it could not ask.
func (r *Recorder) undefined(rec ledger.Record) string {
	conn := r.Connectors[rec.Connector]
	if conn == nil {
		names := slices.Sorted(maps.Keys(r.Connectors))
		return fmt.Sprintf("connector: %q is not in the config; kept, but nothing is looked up or sent for it%s",
			rec.Connector, nearest.Hint(rec.Connector, names))
	}
	info := conn.Info()
	if _, ok := info.Operation(rec.Operation); ok {
		return ""
	}
	names := make([]string, len(info.Operations))
	for i, o := range info.Operations {
		names[i] = o.Name
	}
	return fmt.Sprintf("operation: connector %q defines no %q; kept, but nothing is looked up or sent for it%s",
		rec.Connector, rec.Operation, nearest.Hint(rec.Operation, names))
}

// setting is what the decisions need of config and definitions.
func (r *Recorder) setting(e ledger.Entry, now time.Time) (Setting, connectors.Classifier) {
	s := Setting{Policy: r.Policies.For(e), Owners: r.Owners, Now: now, PolicyVersion: r.Policies.Version}
	conn := r.Connectors[e.Connector]
	if conn == nil {
		return s, nil
	}
	s.Op, _ = conn.Info().Operation(e.Operation)
	cl, _ := conn.(connectors.Classifier)
	return s, cl
}

// first makes a new entry.
func (r *Recorder) first(rec ledger.Record, now time.Time) ledger.Recording {
	d := ledger.Recording{Verdict: ledger.RecordedNew}
	e := r.entry(rec, now, &d)
	s, cl := r.setting(e, now)
	e.PolicyVersion = s.PolicyVersion
	if e.Owner == "" {
		e.Owner = cmp.Or(s.Policy.Owner, ledger.OwnerUnassigned)
	}
	e.OriginalOwner = e.Owner

	n := news{}
	as := n.attempts(e, nil, rec, s, cl, &d)
	if len(rec.Attempts) == 0 && r.Answers {
		return r.ask(d, ledger.Entry{}, drive(e, nil, rec, s.Policy, &n, now), rec, s)
	}
	if len(rec.Attempts) == 0 {
		as = append(as, intent(e, rec, now))
		n.add(as[0])
	}
	e = drive(e, as, rec, s.Policy, &n, now)
	e = Summarize(e, as)
	e, _ = place(e, "", as, n, s)
	d.Attempts = n.changed
	return r.recording(d, ledger.Entry{}, e)
}

// entry is a new entry as its record describes it, without its attempts.
func (r *Recorder) entry(rec ledger.Record, now time.Time, d *ledger.Recording) ledger.Entry {
	e := ledger.Entry{
		ActionKey: rec.ActionKey, Workflow: rec.Workflow, WorkflowVersion: rec.WorkflowVersion, RunID: rec.RunID, StepID: rec.StepID,
		Connector: rec.Connector, Operation: rec.Operation, RecordID: rec.RecordID, Subject: rec.Subject, OutcomeKey: rec.OutcomeKey,
		Risk: rec.Risk, Owner: rec.Owner, Replaces: rec.Replaces, OccurredAt: rec.OccurredAt, ReceivedAt: now, SettleFrom: now,
		IdempotencyKey: rec.IdempotencyKey, Sanitized: rec.Sanitized, Lane: rec.Connector, Effect: ledger.EffectNotDone,
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now
	}
	takePayload(&e, rec)
	conn := r.Connectors[rec.Connector]
	if conn != nil {
		e.Lane = cmp.Or(conn.Info().Lane, e.Lane)
	}
	e.ProviderKey, e.KeyOrigin = rec.ActionKey, keyOfAction
	var deriver connectors.KeyDeriver
	if r.undefined(rec) == "" {
		deriver, _ = conn.(connectors.KeyDeriver)
	}
	switch {
	case rec.ProviderKey != "":
		e.ProviderKey, e.KeyOrigin = rec.ProviderKey, keyOfRecord
		if deriver != nil {
			// It is said to have been sent, so it is kept, and looked for.
			if err := deriver.CheckKey(rec.Operation, rec.ProviderKey); err != nil {
				d.Warnings = append(d.Warnings, fmt.Sprintf("provider_key: %v; kept, but a look may not find it", err))
			}
		}
	case deriver != nil:
		key, derived, err := deriver.DeriveKey(rec.Operation, rec.ActionKey, 0)
		switch {
		case err != nil:
			d.Warnings = append(d.Warnings, fmt.Sprintf("action_key: %v; kept, but a look may not find it", err))
		case derived:
			e.ProviderKey, e.KeyOrigin = key, keyDerived
		default:
			e.ProviderKey = key
		}
	}
	e.Keys = []string{e.ProviderKey}
	e.KeyGuard = r.guard(e)
	done := slices.ContainsFunc(rec.Attempts, func(a ledger.RecordAttempt) bool { return a.Status == ledger.AttemptOK })
	if deriver != nil && len(e.Payload) > 0 && !done { // what is done need not be found
		if findable, _, why := deriver.CheckPayload(e.Operation, e.Keys, e.Payload); !findable && why != "" {
			d.Warnings = append(d.Warnings, "payload: "+why+"; kept, but no look can find it, so that an unknown outcome goes to a person")
		}
	}
	return e
}

// guard is the key as the system tells keys apart: what differs from another one
// by case only would find, or be refused for, the other's effect.
func (r *Recorder) guard(e ledger.Entry) string {
	if conn := r.Connectors[e.Connector]; conn != nil && conn.Info().KeyFold {
		return strings.ToLower(strings.ToUpper(e.ProviderKey)) // a letter may have more than one lower form
	}
	return e.ProviderKey
}

func takePayload(e *ledger.Entry, rec ledger.Record) {
	e.Payload, e.PayloadType, e.PayloadDigest, e.PayloadSize, e.Excerpt =
		rec.Payload, rec.PayloadType, rec.PayloadDigest, rec.PayloadSize, rec.Excerpt
}

// intent is the attempt that a record without attempts has begun.
func intent(e ledger.Entry, rec ledger.Record, now time.Time) ledger.Attempt {
	a := ledger.Attempt{AttemptID: intentID, No: 1, StartedAt: e.OccurredAt, ReceivedAt: now, Status: ledger.AttemptStarted,
		Effect: ledger.EffectUnknown, Rule: ruleIntent, Sends: 1, Key: e.EffectiveIdempotencyKey(), Counts: true, SendBy: rec.SendBy}
	if rec.Driver == DriverPlatform {
		a.SendBy = later(a.SendBy, rec.DriverUntil)
	}
	return a
}

// merge takes a further record of an entry.
func (r *Recorder) merge(cur ledger.Stored, rec ledger.Record, now time.Time) ledger.Recording {
	before := cur.Entry
	d := ledger.Recording{Verdict: ledger.RecordedMerged}
	if d.Errors = differs(before, rec); len(d.Errors) > 0 {
		d.Verdict = ledger.RecordedRefused
		return d
	}
	e := before
	s, cl := r.setting(e, now)
	n := news{}
	fill(&e, rec, &n, &d)
	cur.Attempts = slices.Clone(cur.Attempts)
	takeKeys(&e, cur.Attempts, rec, &n, &d)
	as := n.attempts(e, cur.Attempts, rec, s, cl, &d)
	e = drive(e, as, rec, s.Policy, &n, now)
	if r.Answers && len(rec.Attempts) == 0 && onlyWaited(e, as) {
		return r.ask(d, before, e, rec, s)
	}
	if !n.any() {
		return ledger.Recording{Verdict: ledger.RecordedUnchanged, Warnings: d.Warnings}
	}
	e = Summarize(e, as)
	if !n.fresh && e.Effect == before.Effect {
		// Only what was empty is filled in.
		d.Attempts = n.changed
		return r.recording(d, before, e)
	}
	if n.fresh {
		e.LooksInRow = 0
		e.Sanitized += rec.Sanitized
	}
	if before.Effect != ledger.EffectUnknown && e.Effect == ledger.EffectUnknown {
		n.unknown = true
		if !e.Settled() {
			e.SettleFrom = now // it came to us as unknown only now
		}
	}
	e.PolicyVersion = s.PolicyVersion
	e, d.Void = place(e, before.State, as, n, s)
	d.Attempts = n.changed
	return r.recording(d, before, e)
}

// differs names what makes a record another action than the entry stored under
// its key.
func differs(e ledger.Entry, rec ledger.Record) (errs []ledger.FieldError) {
	other := func(field, stored, got string) {
		if stored != got {
			errs = append(errs, ledger.FieldError{Field: field,
				Message: fmt.Sprintf("this action_key is recorded with %s %q, not %q; another action needs an action_key of its own", field, stored, got)})
		}
	}
	other("connector", e.Connector, rec.Connector)
	other("operation", e.Operation, rec.Operation)
	if rec.PayloadDigest != "" && e.PayloadDigest != "" && rec.PayloadDigest != e.PayloadDigest {
		errs = append(errs, ledger.FieldError{Field: "payload",
			Message: fmt.Sprintf("differs from the one recorded (SHA-256 %.12s…, now %.12s…); a corrected payload is a new action_key with \"replaces\": %q",
				e.PayloadDigest, rec.PayloadDigest, e.ActionKey)})
	}
	return errs
}

// fill takes what was empty; what was given before stays, with a warning where
// it matters.
func fill(e *ledger.Entry, rec ledger.Record, n *news, d *ledger.Recording) {
	for _, f := range [...]struct {
		name string
		dst  *string
		got  string
		warn bool
	}{
		{"workflow", &e.Workflow, rec.Workflow, true},
		{"workflow_version", &e.WorkflowVersion, rec.WorkflowVersion, false},
		{"run_id", &e.RunID, rec.RunID, false},
		{"step_id", &e.StepID, rec.StepID, false},
		{"record_id", &e.RecordID, rec.RecordID, true},
		{"subject", &e.Subject, rec.Subject, true},
		{"outcome_key", &e.OutcomeKey, rec.OutcomeKey, true},
		{"replaces", &e.Replaces, rec.Replaces, true},
	} {
		switch {
		case f.got == "" || f.got == *f.dst:
		case *f.dst == "":
			*f.dst = f.got
			n.filled = true
		case f.warn:
			d.Warnings = append(d.Warnings, f.name+": differs from what was recorded first, which stays")
		}
	}
	if rec.Owner != "" && rec.Owner != e.Owner && (e.Owner == "" || e.Owner == ledger.OwnerUnassigned) {
		if e.OriginalOwner == e.Owner || e.OriginalOwner == "" {
			e.OriginalOwner = rec.Owner
		}
		e.Owner = rec.Owner
		n.filled = true
	}
	if rec.Risk != ledger.RiskNone {
		if higher := e.Risk.Higher(rec.Risk); higher != e.Risk {
			e.Risk = higher
			n.filled = true
		}
	}
	if e.PayloadDigest == "" && rec.PayloadDigest != "" {
		takePayload(e, rec)
		n.filled = true
	}
}

// takeKeys takes keys that were really sent and that a later report brings. The
// effective key is fixed at first write, so that another one is only looked for
// as well. An idempotency key is taken over while nothing was sent by us: the
// attempts reported so far travelled with it too.
func takeKeys(e *ledger.Entry, as []ledger.Attempt, rec ledger.Record, n *news, d *ledger.Recording) {
	if k := rec.ProviderKey; k != "" && !slices.Contains(e.Keys, k) {
		e.Keys = append(slices.Clone(e.Keys), k)
		n.filled = true
		d.Warnings = append(d.Warnings, "provider_key: differs from the key fixed at first write; it is looked for as well")
	}
	idem := rec.IdempotencyKey
	if idem == "" && rec.ProviderKey != "" && rec.ProviderKey != e.ProviderKey && e.IdempotencyKey == "" {
		idem = rec.ProviderKey
	}
	if idem == "" || idem == e.EffectiveIdempotencyKey() {
		return
	}
	ours := slices.ContainsFunc(as, func(a ledger.Attempt) bool { return a.Ours })
	if ours || e.IdempotencyKey != "" {
		if rec.IdempotencyKey != "" {
			d.Warnings = append(d.Warnings, "idempotency_key: differs from the one in use, which stays")
		}
		return
	}
	e.IdempotencyKey = idem
	n.filled = true
	for i := range as {
		as[i].Key = idem
		n.change(as[i])
	}
}

// drive says whether the platform still retries by itself: as the record says,
// or for the time that the policy knows of, until it gives up or succeeds. A
// report that brings nothing new, repeated later, does not begin it anew.
func drive(e ledger.Entry, as []ledger.Attempt, rec ledger.Record, p Policy, n *news, now time.Time) ledger.Entry {
	if e.Settled() {
		return e
	}
	was, until := e.Driver, e.DriverUntil
	ended := slices.ContainsFunc(as, func(a ledger.Attempt) bool { return a.Final })
	promised := rec.DriverUntil
	if promised.IsZero() && p.PlatformRetriesFor > 0 {
		promised = now.Add(p.PlatformRetriesFor)
	}
	switch {
	case n.final || n.done:
		e.Driver, e.DriverUntil = "", time.Time{}
	case !promised.IsZero() && !promised.After(now): // over before we heard of it
	case n.fresh && (rec.Driver == DriverPlatform || p.PlatformRetriesFor > 0):
		e.Driver, e.DriverUntil = DriverPlatform, promised
	case rec.Driver == DriverPlatform && was == "" && !ended && len(rec.Attempts) == 0:
		e.Driver, e.DriverUntil = DriverPlatform, promised
	}
	if e.Driver != was || !e.DriverUntil.Equal(until) {
		n.filled = true
	}
	return e
}

// Driving says whether the platform still retries by itself at that moment.
func Driving(e ledger.Entry, now time.Time) bool {
	return e.Driver == DriverPlatform && (e.DriverUntil.IsZero() || now.Before(e.DriverUntil))
}

// news is what a record brings that was not known.
type news struct {
	changed []ledger.Attempt // new attempts, and those with news
	fresh   bool             // an attempt is new, or has its result
	done    bool             // a success is new
	unknown bool             // an attempt of unknown effect is new: by itself it puts the entry in doubt
	taken   bool             // the attempt that an intent announced has come
	final   bool             // the platform gave up
	filled  bool             // a field of the entry
}

func (n *news) any() bool { return n.fresh || n.filled || len(n.changed) > 0 }

// change notes an attempt that is to be written.
func (n *news) change(a ledger.Attempt) {
	for i := range n.changed {
		if n.changed[i].AttemptID == a.AttemptID {
			n.changed[i] = a
			return
		}
	}
	n.changed = append(n.changed, a)
}

// add notes an attempt that is new or has news in its result.
func (n *news) add(a ledger.Attempt) {
	n.change(a)
	n.fresh = true
	n.done = n.done || a.Effect == ledger.EffectDone
	n.unknown = n.unknown || a.Effect == ledger.EffectUnknown
}

// attempts merges the attempts of a record into those that are known, and
// returns all of them.
func (n *news) attempts(e ledger.Entry, as []ledger.Attempt, rec ledger.Record, s Setting, cl connectors.Classifier, d *ledger.Recording) []ledger.Attempt {
	reported := rec.Attempts
	if !sort.SliceIsSorted(reported, func(i, j int) bool { return reported[i].StartedAt.Before(reported[j].StartedAt) }) {
		reported = slices.Clone(reported)
		sort.SliceStable(reported, func(i, j int) bool { return reported[i].StartedAt.Before(reported[j].StartedAt) })
	}
	for _, ra := range reported {
		if _, ok := ledger.ParseClass(ra.ErrorClass); !ok && ra.ErrorClass != "" {
			d.Warnings = append(d.Warnings, fmt.Sprintf("attempts.error_class: %.40q is no class we know; the status decides", ra.ErrorClass))
		}
		a := reportedAttempt(e, ra, s, cl)
		if rec.Restore != nil { // it tells what a ledger made of the attempt, not what the workflow knows
			a.Rule = strings.Replace(a.Rule, ruleEffect, ruleReported, 1)
		}
		if rec.IdempotencyKey != "" {
			a.Key = rec.IdempotencyKey
		}
		reported := func(id string) int {
			return slices.IndexFunc(as, func(o ledger.Attempt) bool { return o.AttemptID == id })
		}
		at := reported(a.AttemptID)
		if at >= 0 && madeAnother(as[at], a) {
			a.AttemptID = anotherID(a)
			at = reported(a.AttemptID)
		}
		if at >= 0 {
			m, fresh, changed := mergeAttempt(as[at], a)
			if !changed {
				continue
			}
			n.final = n.final || m.Final
			if fresh {
				m = withReason(e, m)
				n.add(m)
			} else {
				n.change(m)
			}
			as[at] = m
			continue
		}
		i, beside := announced(as, a, ra)
		if beside != "" {
			d.Warnings = append(d.Warnings, beside)
		}
		if i >= 0 {
			as[i].Effect, as[i].Rule, as[i].Counts = ledger.EffectNotDone, ruleNotSent+": taken up by attempt "+a.AttemptID, false
			n.change(as[i])
			n.taken = true
		}
		a.No = len(as) + 1
		a = withReason(e, a)
		as = append(as, a)
		n.final = n.final || a.Final
		n.add(a)
	}
	return as
}

// madeAnother says whether a further report of an attempt tells of another record
// than the report before: then two were made, by one attempt or by two that
// nothing tells apart, and the second is an attempt of its own.
func madeAnother(old, rep ledger.Attempt) bool {
	made := func(a ledger.Attempt) bool {
		return a.Status == ledger.AttemptOK && a.Effect == ledger.EffectDone && a.RemoteID != ""
	}
	return made(old) && made(rep) && old.RemoteID != rep.RemoteID
}

// anotherID names the attempt that made another record under the attempt_id of
// one before; the same report gives the same id.
func anotherID(a ledger.Attempt) string {
	sum := sha256.Sum256([]byte(a.AttemptID + "\x00" + a.RemoteID))
	return "digest-" + hex.EncodeToString(sum[:12])
}

// reportedAttempt is a reported attempt as the ledger keeps it, but for its
// number and reason.
func reportedAttempt(e ledger.Entry, ra ledger.RecordAttempt, s Setting, cl connectors.Classifier) ledger.Attempt {
	a := ledger.Attempt{
		AttemptID: ra.AttemptID, StartedAt: ra.StartedAt, FinishedAt: ra.FinishedAt, ReceivedAt: s.Now, Status: ra.Status,
		HTTPStatus: ra.HTTPStatus, Code: ra.ErrorCode, Message: ra.Message, RetryAfter: ra.RetryAfter, RemoteID: ra.RemoteID,
		Sends: ra.Sends, Final: ra.Final, SendBy: ra.SendBy, Key: e.EffectiveIdempotencyKey(),
	}
	if a.StartedAt.IsZero() {
		a.StartedAt = s.Now
	}
	if a.Status != ledger.AttemptStarted {
		// With its result it is over: nothing of it is sent after the report.
		a.SendBy = later(s.Now, ra.SendBy)
	}
	a.Class, a.Effect, a.Rule = ClassifyReported(ra, s.Op, cl)
	if own, ok := ownRule(ra, s.Op, cl); ok {
		a.KeySpent = own.KeySpent
		if a.RemoteID == "" && a.Class == ledger.ClassAlreadyExists {
			a.RemoteID = own.Names // read directly by the look
		}
	}
	unsent := a.Class == ledger.ClassNetwork && a.Effect == ledger.EffectNotDone && a.HTTPStatus == 0
	if unsent {
		a.Rule = ruleNotSent + ": " + a.Rule
	}
	a.Counts = CountsAgainstLimit(a.Class, unsent)
	return a
}

// mergeAttempt takes a further report of an attempt. fresh: its result is news.
// A report that knows less than what is stored changes nothing, in whatever
// order they come: a known effect stays known, and a success is never lost.
//
// Two results of one attempt are two answers, so that more than one request
// was made. Where one of them says "not done" and the other cannot say, "not
// done" is proof no longer: the effect is unknown, whichever came first, and
// both stay readable in the attempt's rule. Only a report that gives the effect
// itself, or a look, knows better than that. What is said in the rule already
// is no news, so that the same reports once more change nothing.
func mergeAttempt(old, rep ledger.Attempt) (m ledger.Attempt, fresh, changed bool) {
	known := func(a ledger.Attempt) bool { return a.Effect != ledger.EffectUnknown }
	m = old
	gaveUp := rep.Final && !old.Final
	if gaveUp {
		// Until it gave up the platform may have sent again.
		m.Final, m.SendBy, changed = true, later(old.SendBy, rep.SendBy), true
	}
	begun := old.Status == ledger.AttemptStarted
	// A success without its proof, after looks proved absence, is news: it is
	// looked at once more.
	claimed := knowledge(old) == knowsByLook && rep.Status == ledger.AttemptOK && old.Status != ledger.AttemptOK && !known(rep)
	contradicted := contradict(old, rep)
	switch {
	case rep.Status == ledger.AttemptStarted:
		if begun && !known(old) && rep.SendBy.After(old.SendBy) {
			m.SendBy, changed = rep.SendBy, true // a promise, or a longer one
		}
		return m, false, changed
	case contradicted && !known(old):
		holds, also := ledger.SplitRule(old.Rule)
		if also != "" {
			return m, false, changed // it is in doubt for this reason already
		}
		m.Rule = ledger.JoinRule(holds, inShort(rep))
		m.SendBy = later(old.SendBy, rep.SendBy)
		return m, true, true
	case !begun && !claimed && !contradicted && !tellsMore(rep, old):
		if rep.Effect == ledger.EffectDone && old.RemoteID == "" && rep.RemoteID != "" {
			m.RemoteID = rep.RemoteID // what was made is named only now
			return m, true, true
		}
		return m, false, changed
	}
	final := m.Final
	m = rep
	m.EntryID, m.No, m.Ours, m.ReceivedAt, m.ResultAt, m.EffectAt, m.Key = old.EntryID, old.No, old.Ours, old.ReceivedAt, old.ResultAt, old.EffectAt, old.Key
	m.Final, m.KeySpent, m.Replayed = final, m.KeySpent || old.KeySpent, old.Replayed
	if !old.StartedAt.IsZero() {
		m.StartedAt = old.StartedAt
	}
	_, also := ledger.SplitRule(old.Rule)
	switch {
	case contradicted:
		m.Rule = ledger.JoinRule(m.Rule, inShort(old))
		m.SendBy = later(old.SendBy, rep.SendBy)
	case claimed:
		m.Rule = ledger.JoinRule(ruleClaimed, cmp.Or(also, "a look found nothing"))
	case !begun && !old.SendBy.IsZero():
		m.SendBy = old.SendBy // it was over when that was reported
	}
	if gaveUp {
		m.SendBy = later(m.SendBy, rep.SendBy)
	}
	if also != "" && knowledge(old) == knowledge(rep) {
		m.Rule = ledger.JoinRule(m.Rule, also) // in doubt for this reason still, which is no news when it is told again
	}
	if m.RemoteID == "" {
		m.RemoteID = old.RemoteID
	}
	if begun && !claimed && knowledge(old) > knowledge(rep) {
		m.Effect, m.Rule, m.Counts = old.Effect, old.Rule, old.Counts
		if old.Class != ledger.ClassNone {
			m.Class = old.Class
		}
	}
	return m, true, true
}

// ruleClaimed is the rule of a success without its proof, reported after looks
// proved absence: only a look, or a success with its proof, knows better.
const ruleClaimed = "ok, after a look"

// How well an attempt's effect is known, by what says so: the better one holds,
// so that it does not matter in which order reports come.
const (
	knowsNothing      = iota // no result, or only that it is unknown
	knowsNotDone             // what it ended with did nothing
	knowsUnknown             // what it ended with does not tell
	knowsNotDoneGiven        // the report says so itself
	knowsUnknownGiven        // likewise; or a look saw something that is not finished, or has to be made again
	knowsByLook              // absence was proven, or the system refused it
	knowsDone
)

func knowledge(a ledger.Attempt) int {
	rule, _ := ledger.SplitRule(strings.TrimPrefix(a.Rule, ruleNotSent+": "))
	notDone, given, looked := a.Effect == ledger.EffectNotDone, rule == ruleEffect, strings.HasPrefix(rule, ruleLook)
	switch {
	case a.Effect == ledger.EffectDone:
		return knowsDone
	case notDone && looked:
		return knowsByLook
	case notDone && given:
		return knowsNotDoneGiven
	case notDone:
		return knowsNotDone
	case given, looked, rule == ruleClaimed:
		return knowsUnknownGiven
	case a.Status == ledger.AttemptStarted, a.Status == ledger.AttemptUnknown && a.Class == ledger.ClassNone:
		return knowsNothing
	}
	return knowsUnknown
}

// contradict says whether one of two results says that nothing was done, and
// the other that nobody knows, and neither of them knows better.
func contradict(a, b ledger.Attempt) bool {
	x, y := knowledge(a), knowledge(b)
	return max(x, y) == knowsUnknown && min(x, y) == knowsNotDone || max(x, y) == knowsUnknownGiven && min(x, y) == knowsNotDoneGiven
}

// tellsMore says whether a says more than b: of the effect, else by its status.
func tellsMore(a, b ledger.Attempt) bool {
	rank := func(s ledger.AttemptStatus) int {
		return slices.Index([]ledger.AttemptStatus{ledger.AttemptStarted, ledger.AttemptUnknown, ledger.AttemptError, ledger.AttemptOK}, s)
	}
	x, y := knowledge(a), knowledge(b)
	return x > y || x == y && rank(a.Status) > rank(b.Status)
}

// inShort is what a report said, in a few words.
func inShort(a ledger.Attempt) string {
	s := string(a.Status)
	if a.HTTPStatus != 0 {
		s += " " + strconv.Itoa(a.HTTPStatus)
	}
	for _, t := range []string{string(a.Class), a.Code} {
		if t != "" {
			s += " " + t
		}
	}
	return s + ", effect " + string(a.Effect)
}

// place says where an entry stands after news of its attempts (docs/rules.md,
// section 3). e is summarized; from is the state before, "" for a new one. void
// says that earlier negatives are void.
func place(e ledger.Entry, from ledger.State, as []ledger.Attempt, n news, s Setting) (next ledger.Entry, void bool) {
	if e.Settled() {
		return afterSettledNews(e, as, n, s), false
	}
	if e.Effect == ledger.EffectDone {
		return settleReported(e, as, s), false
	}
	if n.unknown && from != "" {
		// Somebody else may have sent: what was asked before proves nothing,
		// and what was allowed before is not allowed now.
		e.Negatives, e.LastNegativeAt, e.Approved, void = 0, time.Time{}, false, true
	}
	pending, ended := unknownStatuses(as)
	switch {
	case from == "" && pending && !ended && e.Driver != DriverPlatform,
		from == ledger.StateInFlight && n.taken && pending && !ended:
		return ledger.Begin(e, begunReason(as), inFlightUntil(as, s)), void
	case from == "":
		return AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now), false
	case n.unknown:
		next = AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now)
		if pending && !ended {
			next.Reason = "attempt_started: by somebody else"
		}
		return next, void
	case e.Effect == ledger.EffectUnknown:
		if from == ledger.StateInFlight && !pending {
			return AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now), void
		}
		return e, void
	}
	// Every attempt turned out not done.
	switch from {
	case ledger.StateEscalated: // a person owns it
		if e.Work == ledger.WorkLook {
			e.Work, e.NextAt = ledger.WorkNone, time.Time{}
			e.Reason = withDetail("known_not_done", e.LastClass)
		}
		return e, void
	case ledger.StateDeferred:
		if e.ReleaseTo == ledger.StateAmbiguous || e.ReleaseTo == ledger.StateInFlight {
			e.ReleaseTo = ledger.StateRetryable
		}
		return e, void
	}
	return AfterFailure(e, as, s.Policy, s.Op, s.Owners, s.Now), void
}

// unknownStatuses says whether attempts of unknown effect have no result yet,
// and whether others have one that says nothing.
func unknownStatuses(as []ledger.Attempt) (pending, ended bool) {
	for _, a := range as {
		if a.Effect == ledger.EffectUnknown {
			if a.Status == ledger.AttemptStarted {
				pending = true
			} else {
				ended = true
			}
		}
	}
	return pending, ended
}

func begunReason(as []ledger.Attempt) string {
	if a := as[len(as)-1]; a.AttemptID == intentID {
		return "intent"
	}
	return "attempt_started"
}

// inFlightUntil is when an attempt without result is looked at: after
// in_flight_for, or after the send_by it promised, whichever comes first.
func inFlightUntil(as []ledger.Attempt, s Setting) time.Time {
	wait := s.Op.InFlightFor
	if wait <= 0 {
		wait = defaultInFlightFor
	}
	at := s.Now.Add(wait)
	for _, a := range as {
		if a.Effect == ledger.EffectUnknown && !a.SendBy.IsZero() && a.SendBy.Before(at) {
			at = later(a.SendBy, s.Now)
		}
	}
	return at
}

// defaultInFlightFor holds where the connector is not known (docs/rules.md,
// section 7, defaults).
const defaultInFlightFor = 15 * time.Minute

// settleReported settles an entry whose success was reported.
func settleReported(e ledger.Entry, as []ledger.Attempt, s Setting) ledger.Entry {
	next := s.applied(e, as, ledger.ByReport, "reported_ok")
	if len(remoteIDs(e, as)) > 1 {
		next = next.WithFlag(ledger.FlagDuplicate)
	}
	return next
}

// afterSettledNews keeps the state of a settled entry, flags what contradicts
// it, and has it looked at once more where a further attempt may have had an
// effect.
func afterSettledNews(e ledger.Entry, as []ledger.Attempt, n news, s Setting) ledger.Entry {
	if n.done && e.Outcome != ledger.OutcomeApplied {
		e = e.WithFlag(ledger.FlagConflict)
	}
	if n.done && len(remoteIDs(e, as)) > 1 {
		e = e.WithFlag(ledger.FlagDuplicate)
	}
	if n.unknown {
		e = s.lookOnceMore(e)
	}
	e.Class = ledger.ClassOf(e)
	return e
}

// remoteIDs are the different ids under which the action is known to exist.
func remoteIDs(e ledger.Entry, as []ledger.Attempt) map[string]bool {
	ids := map[string]bool{}
	if e.RemoteID != "" {
		ids[e.RemoteID] = true
	}
	for _, a := range as {
		if a.Effect == ledger.EffectDone && a.RemoteID != "" {
			ids[a.RemoteID] = true
		}
	}
	return ids
}

// restore takes over an exported entry. Its clearance is over: it is cleared
// anew.
func (r *Recorder) restore(rec ledger.Record, now time.Time) ledger.Recording {
	d := ledger.Recording{Verdict: ledger.RecordedNew}
	x, errs := ledger.ParseRestore(rec)
	if len(errs) > 0 {
		return ledger.Recording{Verdict: ledger.RecordedRefused, Errors: errs}
	}
	e := x.Entry
	e.Lane = rec.Connector
	if conn := r.Connectors[rec.Connector]; conn != nil {
		e.Lane = cmp.Or(conn.Info().Lane, e.Lane)
	}
	e.KeyGuard = r.guard(e)
	if e.State == ledger.StateReady {
		e = ledger.Reopen(e, "restored: the clearance is over", now)
	}
	e.Class = ledger.ClassOf(e)
	d.Attempts, d.Evidence, d.History = x.Attempts, x.Evidence, x.History
	d.History = append(d.History, r.row(ledger.Entry{}, e))
	d.History[len(d.History)-1].Note = "restored from an export"
	d.Entry = e
	return d
}

// recording completes a decision with its row of history, where the change
// leaves one.
func (r *Recorder) recording(d ledger.Recording, before, e ledger.Entry) ledger.Recording {
	e.Class = ledger.ClassOf(e)
	d.Entry = e
	if ledger.LeavesHistory(before, e) {
		d.History = []ledger.History{r.row(before, e)}
		if before.State != "" {
			d.History[0].Note = note(d.Attempts)
		}
	}
	return d
}

func (r *Recorder) row(before, e ledger.Entry) ledger.History {
	return ledger.History{From: before.State, To: e.State, Outcome: e.Outcome, Reason: e.Reason, Owner: e.Owner, Actor: r.Actor, PolicyVersion: e.PolicyVersion}
}

// note names the attempts that came with a report.
func note(as []ledger.Attempt) string {
	var l []string
	for _, a := range as {
		if len(l) == 3 {
			l = append(l, fmt.Sprintf("and %d more", len(as)-3))
			break
		}
		s := fmt.Sprintf("%s %s", a.AttemptID, a.Status)
		if a.Class != ledger.ClassNone {
			s += " " + string(a.Class)
		}
		l = append(l, s)
	}
	return strings.Join(l, ", ")
}
