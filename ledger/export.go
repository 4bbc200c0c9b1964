package ledger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// exportVersion is the format of an exported line. A reader refuses a newer
// one.
const exportVersion = 1

// exportLine is one exported entry: the members of a record, and what only an
// export carries. What a list shows of an entry stands at the top; the rest of
// the entry stands under "ledger", and the payload is added as its bytes.
type exportLine struct {
	Export          int       `json:"export"`
	ActionKey       string    `json:"action_key"`
	Workflow        string    `json:"workflow"`
	WorkflowVersion string    `json:"workflow_version,omitempty"`
	RunID           string    `json:"run_id,omitempty"`
	StepID          string    `json:"step_id,omitempty"`
	Connector       string    `json:"connector"`
	Operation       string    `json:"operation"`
	RecordID        string    `json:"record_id,omitempty"`
	Subject         string    `json:"subject,omitempty"`
	OutcomeKey      string    `json:"outcome_key,omitempty"`
	Risk            Risk      `json:"risk,omitempty"`
	Owner           string    `json:"owner,omitempty"`
	OccurredAt      time.Time `json:"occurred_at,omitzero"`
	ProviderKey     string    `json:"provider_key,omitempty"`
	IdempotencyKey  string    `json:"idempotency_key,omitempty"`
	Replaces        string    `json:"replaces,omitempty"`
	Driver          string    `json:"driver,omitempty"`
	DriverUntil     time.Time `json:"driver_until,omitzero"`

	State    State            `json:"state"`
	Effect   Effect           `json:"effect"`
	Outcome  Outcome          `json:"outcome"`
	Flags    []Flag           `json:"flags"`
	Keys     []string         `json:"keys"`
	Ledger   exportEntry      `json:"ledger"`
	Attempts []exportAttempt  `json:"attempts,omitempty"`
	Evidence []exportEvidence `json:"evidence"`
	History  []exportHistory  `json:"history"`

	PayloadDigest string `json:"payload_digest,omitempty"`
}

// exportEntry is the rest of an entry. What belongs to one ledger alone (leases,
// tokens, generation, row numbers) is not exported.
type exportEntry struct {
	OriginalOwner   string        `json:"original_owner"`
	ReceivedAt      time.Time     `json:"received_at,omitzero"`
	PayloadSize     int           `json:"payload_size,omitempty"`
	PayloadType     string        `json:"payload_type,omitempty"`
	Excerpt         string        `json:"excerpt,omitempty"`
	Sanitized       int           `json:"sanitized,omitempty"`
	KeyOrigin       string        `json:"key_origin,omitempty"`
	SettledBy       SettledBy     `json:"settled_by,omitempty"`
	Reason          string        `json:"reason"`
	RemoteID        string        `json:"remote_id,omitempty"`
	Lane            string        `json:"lane,omitempty"`
	Work            Work          `json:"work,omitempty"`
	NextAt          time.Time     `json:"next_at,omitzero"`
	AttemptCount    int           `json:"attempt_count"`
	SendCount       int           `json:"send_count"`
	LastClass       Class         `json:"last_class,omitempty"`
	LastTriedAt     time.Time     `json:"last_tried_at,omitzero"`
	FirstFailedAt   time.Time     `json:"first_failed_at,omitzero"`
	FirstSentAt     time.Time     `json:"first_sent_at,omitzero"`
	KeySentAt       time.Time     `json:"key_sent_at,omitzero"`
	SendBy          time.Time     `json:"send_by,omitzero"`
	Unbounded       bool          `json:"unbounded,omitempty"`
	LastActivityAt  time.Time     `json:"last_activity_at,omitzero"`
	LooksAnswered   int           `json:"looks_answered,omitempty"`
	LooksFailed     int           `json:"looks_failed,omitempty"`
	LooksInRow      int           `json:"looks_in_row,omitempty"`
	LastLookAt      time.Time     `json:"last_look_at,omitzero"`
	Negatives       int           `json:"negatives,omitempty"`
	LastNegativeAt  time.Time     `json:"last_negative_at,omitzero"`
	NegativeVersion string        `json:"negative_version,omitempty"`
	SettleFrom      time.Time     `json:"settle_from,omitzero"`
	PausedBase      time.Duration `json:"paused_base_ns,omitempty"`
	SettledAt       time.Time     `json:"settled_at,omitzero"`
	Verify          bool          `json:"verify,omitempty"`
	ClearedUntil    time.Time     `json:"cleared_until,omitzero"`
	Granted         int           `json:"granted,omitempty"`
	Approved        bool          `json:"approved,omitempty"`
	ReleaseKind     string        `json:"release_kind,omitempty"`
	ReleaseRef      string        `json:"release_ref,omitempty"`
	ReleaseAt       time.Time     `json:"release_at,omitzero"`
	ReleaseTo       State         `json:"release_to,omitempty"`
	DueAt           time.Time     `json:"due_at,omitzero"`
	Allowed         []Action      `json:"allowed,omitempty"`
	PolicyVersion   string        `json:"policy_version,omitempty"`
}

// exportAttempt is one attempt: the members of a reported one, and the rest.
type exportAttempt struct {
	AttemptID  string        `json:"attempt_id"`
	StartedAt  time.Time     `json:"started_at,omitzero"`
	FinishedAt time.Time     `json:"finished_at,omitzero"`
	Status     AttemptStatus `json:"status"`
	HTTPStatus int           `json:"http_status,omitempty"`
	Class      Class         `json:"error_class,omitempty"`
	Code       string        `json:"error_code,omitempty"`
	Message    string        `json:"message,omitempty"`
	RetryAfter string        `json:"retry_after,omitempty"`
	RemoteID   string        `json:"remote_id,omitempty"`
	Effect     Effect        `json:"effect"`
	SendBy     time.Time     `json:"send_by,omitzero"`
	Sends      int           `json:"sends"`
	Final      bool          `json:"final,omitempty"`

	Ledger struct {
		No           int       `json:"attempt_no"`
		Ours         bool      `json:"ours,omitempty"`
		ReceivedAt   time.Time `json:"received_at,omitzero"`
		ResultAt     time.Time `json:"result_at,omitzero"`
		EffectAt     time.Time `json:"effect_at,omitzero"`
		Rule         string    `json:"rule,omitempty"`
		Key          string    `json:"idempotency_key,omitempty"`
		Counts       bool      `json:"counts,omitempty"`
		Replayed     bool      `json:"replayed,omitempty"`
		KeySpent     bool      `json:"key_spent,omitempty"`
		ReasonText   string    `json:"reason_text,omitempty"`
		ReasonID     string    `json:"reason_id,omitempty"`
		RulesVersion int       `json:"rules_version,omitempty"`
	} `json:"ledger"`
}

type exportEvidence struct {
	Finding      Finding         `json:"finding"`
	Connector    string          `json:"connector,omitempty"`
	Form         string          `json:"form,omitempty"`
	RemoteID     string          `json:"remote_id,omitempty"`
	AskedAt      time.Time       `json:"asked_at,omitzero"`
	SeenAt       time.Time       `json:"seen_at,omitzero"`
	Counted      bool            `json:"counted,omitempty"`
	Void         bool            `json:"void,omitempty"`
	Version      string          `json:"version,omitempty"`
	Digest       string          `json:"digest,omitempty"`
	PassID       string          `json:"pass_id,omitempty"`
	Detail       json.RawMessage `json:"detail,omitempty"`
	DetailBase64 []byte          `json:"detail_base64,omitempty"` // of a detail that JSON would not give back as it is
}

type exportHistory struct {
	At            time.Time       `json:"at,omitzero"`
	From          State           `json:"from"`
	To            State           `json:"to"`
	Outcome       Outcome         `json:"outcome,omitempty"`
	Class         ReportClass     `json:"class,omitempty"`
	Flags         []Flag          `json:"flags,omitempty"`
	DueAt         time.Time       `json:"due_at,omitzero"`
	Reason        string          `json:"reason,omitempty"`
	Owner         string          `json:"owner,omitempty"`
	Actor         string          `json:"actor,omitempty"`
	PolicyVersion string          `json:"policy_version,omitempty"`
	Note          string          `json:"note,omitempty"`
	PassID        string          `json:"pass_id,omitempty"`
	Detail        json.RawMessage `json:"detail,omitempty"`
	DetailBase64  []byte          `json:"detail_base64,omitempty"`
}

// MarshalRecord writes an entry, with all that belongs to it, as one line of
// JSON without the line feed. ParseRecord with ParseOptions.Restore reads it
// back, and ParseRestore takes from that what a plain record does not hold. The
// payload keeps its bytes; where they cannot stand in a line of JSON, they stand
// as payload_base64.
func MarshalRecord(st Stored, evidence []Evidence, history []History) ([]byte, error) {
	e := st.Entry
	l := exportLine{
		Export: exportVersion, ActionKey: e.ActionKey, Workflow: e.Workflow, WorkflowVersion: e.WorkflowVersion, RunID: e.RunID,
		StepID: e.StepID, Connector: e.Connector, Operation: e.Operation, RecordID: e.RecordID, Subject: e.Subject,
		OutcomeKey: e.OutcomeKey, Risk: e.Risk, Owner: e.Owner, OccurredAt: e.OccurredAt, ProviderKey: e.ProviderKey,
		IdempotencyKey: e.IdempotencyKey, Replaces: e.Replaces, Driver: e.Driver, DriverUntil: e.DriverUntil,
		State: e.State, Effect: e.Effect, Outcome: e.Outcome, Flags: e.Flags, Keys: e.Keys, PayloadDigest: e.PayloadDigest,
		Evidence: make([]exportEvidence, 0, len(evidence)), History: make([]exportHistory, 0, len(history)),
		Ledger: exportEntry{
			OriginalOwner: e.OriginalOwner, ReceivedAt: e.ReceivedAt, PayloadSize: e.PayloadSize, PayloadType: e.PayloadType,
			Excerpt: e.Excerpt, Sanitized: e.Sanitized, KeyOrigin: e.KeyOrigin, SettledBy: e.SettledBy, Reason: e.Reason,
			RemoteID: e.RemoteID, Lane: e.Lane, Work: e.Work, NextAt: e.NextAt, AttemptCount: e.AttemptCount, SendCount: e.SendCount,
			LastClass: e.LastClass, LastTriedAt: e.LastTriedAt, FirstFailedAt: e.FirstFailedAt, FirstSentAt: e.FirstSentAt,
			KeySentAt: e.KeySentAt, SendBy: e.SendBy, Unbounded: e.Unbounded, LastActivityAt: e.LastActivityAt,
			LooksAnswered: e.LooksAnswered, LooksFailed: e.LooksFailed, LooksInRow: e.LooksInRow, LastLookAt: e.LastLookAt,
			Negatives: e.Negatives, LastNegativeAt: e.LastNegativeAt, NegativeVersion: e.NegativeVersion, SettleFrom: e.SettleFrom,
			PausedBase: e.PausedBase, SettledAt: e.SettledAt, Verify: e.Verify, ClearedUntil: e.ClearedUntil, Granted: e.Granted,
			Approved: e.Approved, ReleaseKind: e.ReleaseKind, ReleaseRef: e.ReleaseRef, ReleaseAt: e.ReleaseAt, ReleaseTo: e.ReleaseTo,
			DueAt: e.DueAt, Allowed: e.Allowed, PolicyVersion: e.PolicyVersion,
		},
	}
	if l.Flags == nil {
		l.Flags = []Flag{}
	}
	if l.Keys == nil {
		l.Keys = []string{}
	}
	for _, a := range st.Attempts {
		x := exportAttempt{
			AttemptID: a.AttemptID, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, Status: a.Status, HTTPStatus: a.HTTPStatus,
			Class: a.Class, Code: a.Code, Message: a.Message, RetryAfter: a.RetryAfter, RemoteID: a.RemoteID, Effect: a.Effect,
			SendBy: a.SendBy, Sends: a.Sends, Final: a.Final,
		}
		y := &x.Ledger
		y.No, y.Ours, y.ReceivedAt, y.ResultAt, y.EffectAt, y.Rule, y.Key = a.No, a.Ours, a.ReceivedAt, a.ResultAt, a.EffectAt, a.Rule, a.Key
		y.Counts, y.Replayed, y.KeySpent = a.Counts, a.Replayed, a.KeySpent
		y.ReasonText, y.ReasonID, y.RulesVersion = a.ReasonText, a.ReasonID, a.RulesVersion
		l.Attempts = append(l.Attempts, x)
	}
	for _, v := range evidence {
		x := exportEvidence{Finding: v.Finding, Connector: v.Connector, Form: v.Form, RemoteID: v.RemoteID, AskedAt: v.AskedAt,
			SeenAt: v.SeenAt, Counted: v.Counted, Void: v.Void, Version: v.Version, Digest: v.Digest, PassID: v.PassID}
		x.Detail, x.DetailBase64 = splitDetail(v.Detail)
		l.Evidence = append(l.Evidence, x)
	}
	for _, h := range history {
		x := exportHistory{At: h.At, From: h.From, To: h.To, Outcome: h.Outcome, Class: h.Class, Flags: h.Flags, DueAt: h.DueAt, Reason: h.Reason,
			Owner: h.Owner, Actor: h.Actor, PolicyVersion: h.PolicyVersion, Note: h.Note, PassID: h.PassID}
		x.Detail, x.DetailBase64 = splitDetail(h.Detail)
		l.History = append(l.History, x)
	}
	line, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("export %q: %w", e.ActionKey, err)
	}
	return addPayload(line, e), nil
}

// addPayload puts the payload into a marshalled line as its very bytes; the
// encoder of the standard library would change them.
func addPayload(line []byte, e Entry) []byte {
	if len(e.Payload) == 0 {
		return line
	}
	line = line[:len(line)-1]
	if e.PayloadType == "" && bytes.IndexByte(e.Payload, '\n') < 0 && bytes.IndexByte(e.Payload, '\r') < 0 && utf8.Valid(e.Payload) &&
		json.Valid(e.Payload) && bytes.Equal(bytes.TrimSpace(e.Payload), e.Payload) && string(e.Payload) != "null" && string(e.Payload) != `""` {
		line = append(line, `,"payload":`...)
		line = append(line, e.Payload...)
	} else {
		line = append(line, `,"payload_base64":"`...)
		line = base64.StdEncoding.AppendEncode(line, e.Payload)
		line = append(line, '"')
	}
	return append(line, '}')
}

// splitDetail is a stored JSON text as a member, where that gives it back byte
// for byte, else as bytes.
func splitDetail(d []byte) (json.RawMessage, []byte) {
	if len(d) == 0 {
		return nil, nil
	}
	if b, err := json.Marshal(json.RawMessage(d)); err == nil && bytes.Equal(b, d) && string(d) != "null" {
		return d, nil
	}
	return nil, d
}

func joinDetail(m json.RawMessage, b []byte) []byte {
	if len(m) > 0 {
		return m
	}
	return b
}

// Restored is an exported entry with all that belongs to it. IDs, leases and
// tokens are the store's to give.
type Restored struct {
	Stored
	Evidence []Evidence
	History  []History
}

// ParseRestore reads what an exported record carries beyond a plain one, and
// tests that it is whole: an entry that is half of one state and half of
// another is refused.
func ParseRestore(rec Record) (Restored, []FieldError) {
	var l exportLine
	if err := json.Unmarshal(rec.Restore, &l); err != nil {
		field, message := "record", err.Error()
		if t := (*json.UnmarshalTypeError)(nil); errors.As(err, &t) {
			field, message = t.Field, fmt.Sprintf("must be %s; got %s", t.Type, t.Value)
		}
		return Restored{}, []FieldError{{Field: field, Message: message + "; export the entry again"}}
	}
	x := l.Ledger
	e := Entry{
		ActionKey: rec.ActionKey, Workflow: rec.Workflow, WorkflowVersion: rec.WorkflowVersion, RunID: rec.RunID, StepID: rec.StepID,
		Connector: rec.Connector, Operation: rec.Operation, RecordID: rec.RecordID, Subject: rec.Subject, OutcomeKey: rec.OutcomeKey,
		Risk: rec.Risk, Owner: rec.Owner, OriginalOwner: x.OriginalOwner, Replaces: rec.Replaces, OccurredAt: instant(rec.OccurredAt),
		ReceivedAt: instant(x.ReceivedAt),
		Payload:    rec.Payload, PayloadType: x.PayloadType, PayloadDigest: l.PayloadDigest, PayloadSize: x.PayloadSize, Excerpt: x.Excerpt,
		Sanitized: x.Sanitized, ProviderKey: rec.ProviderKey, KeyOrigin: x.KeyOrigin, IdempotencyKey: rec.IdempotencyKey, Keys: l.Keys,
		Driver: rec.Driver, DriverUntil: instant(rec.DriverUntil),
		State: l.State, Effect: l.Effect, Outcome: l.Outcome, SettledBy: x.SettledBy, Reason: x.Reason, RemoteID: x.RemoteID,
		Flags: l.Flags, Lane: x.Lane, Work: x.Work, NextAt: instant(x.NextAt),
		Attempts: len(l.Attempts), AttemptCount: x.AttemptCount, SendCount: x.SendCount, LastClass: x.LastClass,
		LastTriedAt: instant(x.LastTriedAt), FirstFailedAt: instant(x.FirstFailedAt), FirstSentAt: instant(x.FirstSentAt),
		KeySentAt: instant(x.KeySentAt), SendBy: instant(x.SendBy), Unbounded: x.Unbounded, LastActivityAt: instant(x.LastActivityAt),
		LooksAnswered: x.LooksAnswered, LooksFailed: x.LooksFailed, LooksInRow: x.LooksInRow, LastLookAt: instant(x.LastLookAt),
		Negatives: x.Negatives, LastNegativeAt: instant(x.LastNegativeAt), NegativeVersion: x.NegativeVersion,
		SettleFrom: instant(x.SettleFrom), PausedBase: x.PausedBase, SettledAt: instant(x.SettledAt), Verify: x.Verify,
		ClearedUntil: instant(x.ClearedUntil), Granted: x.Granted, Approved: x.Approved, ReleaseKind: x.ReleaseKind,
		ReleaseRef: x.ReleaseRef, ReleaseAt: instant(x.ReleaseAt), ReleaseTo: x.ReleaseTo, DueAt: instant(x.DueAt), Allowed: x.Allowed,
		PolicyVersion: x.PolicyVersion,
	}
	if e.PayloadDigest == "" { // an older or a hand-made line
		e.PayloadDigest, e.PayloadSize, e.PayloadType = rec.PayloadDigest, rec.PayloadSize, rec.PayloadType
	}
	if e.Payload == nil && e.Excerpt == "" {
		e.Excerpt = rec.Excerpt // this ledger keeps less than the other did
	}
	if len(e.Flags) == 0 {
		e.Flags = nil
	}
	slices.Sort(e.Flags)
	e.Class = ClassOf(e)
	r := Restored{Stored: Stored{Entry: e}}
	for _, a := range l.Attempts {
		y := a.Ledger
		r.Attempts = append(r.Attempts, Attempt{
			AttemptID: a.AttemptID, No: y.No, Ours: y.Ours, StartedAt: instant(a.StartedAt), FinishedAt: instant(a.FinishedAt),
			ReceivedAt: instant(y.ReceivedAt), Status: a.Status, HTTPStatus: a.HTTPStatus, Class: a.Class, Code: a.Code, Message: a.Message,
			RetryAfter: a.RetryAfter, RemoteID: a.RemoteID, Effect: a.Effect, Rule: y.Rule, Sends: a.Sends, Final: a.Final,
			SendBy: instant(a.SendBy), Key: y.Key, Counts: y.Counts, Replayed: y.Replayed, KeySpent: y.KeySpent,
			ResultAt: instant(y.ResultAt), EffectAt: instant(y.EffectAt),
			ReasonText: y.ReasonText, ReasonID: y.ReasonID, RulesVersion: y.RulesVersion,
		})
	}
	slices.SortStableFunc(r.Attempts, func(a, b Attempt) int { return a.No - b.No })
	for _, v := range l.Evidence {
		r.Evidence = append(r.Evidence, Evidence{Finding: v.Finding, Connector: v.Connector, Form: v.Form, RemoteID: v.RemoteID,
			AskedAt: instant(v.AskedAt), SeenAt: instant(v.SeenAt), Counted: v.Counted, Void: v.Void, Version: v.Version,
			Digest: v.Digest, PassID: v.PassID, Detail: joinDetail(v.Detail, v.DetailBase64)})
	}
	for i, h := range l.History {
		r.History = append(r.History, History{No: i + 1, At: instant(h.At), From: h.From, To: h.To, Outcome: h.Outcome, Class: h.Class,
			Flags: h.Flags, DueAt: instant(h.DueAt), Reason: h.Reason, Owner: h.Owner, Actor: h.Actor, PolicyVersion: h.PolicyVersion, Note: h.Note,
			PassID: h.PassID, Detail: joinDetail(h.Detail, h.DetailBase64)})
	}
	return r, checkRestored(l.Export, r)
}

// checkRestored tests what a store's constraints test, so that one bad line is
// refused by itself and named.
func checkRestored(version int, r Restored) (errs []FieldError) {
	fail := func(field, format string, args ...any) {
		errs = append(errs, FieldError{Field: field, Message: fmt.Sprintf(format, args...) + "; export the entry again"})
	}
	e := r.Entry
	switch {
	case version > exportVersion:
		fail("export", "has format %d, this program reads up to %d; update it", version, exportVersion)
	case version < 1:
		fail("export", "must be the number of the format, %d", exportVersion)
	}
	if !slices.Contains(States(), e.State) {
		fail("state", "%q is no state", e.State)
	}
	if !validEffect(e.Effect) {
		fail("effect", "%q is no effect", e.Effect)
	}
	settled := e.State == StateSettled
	switch e.Outcome {
	case OutcomeNone, OutcomeApplied, OutcomeNotApplied, OutcomeUnknown:
		if settled != (e.Outcome != OutcomeNone) {
			fail("outcome", "%q does not go with state %q", e.Outcome, e.State)
		}
	default:
		fail("outcome", "%q is no outcome", e.Outcome)
	}
	switch e.SettledBy {
	case ByNothing, ByReport, BySend, ByLook, ByCheck, ByPolicy, ByPerson:
		if settled != (e.SettledBy != ByNothing) {
			fail("ledger.settled_by", "%q does not go with state %q", e.SettledBy, e.State)
		}
	default:
		fail("ledger.settled_by", "%q is no ground", e.SettledBy)
	}
	if settled != !e.SettledAt.IsZero() {
		fail("ledger.settled_at", "does not go with state %q", e.State)
	}
	switch e.Work {
	case WorkNone, WorkLook, WorkAdvance, WorkRelease:
		if (e.Work == WorkNone) != e.NextAt.IsZero() {
			fail("ledger.next_at", "does not go with work %q", e.Work)
		}
	default:
		fail("ledger.work", "%q is no kind of work", e.Work)
	}
	if !e.DueAt.IsZero() && e.State != StateEscalated {
		fail("ledger.due_at", "does not go with state %q", e.State)
	}
	if e.ProviderKey == "" || !slices.Contains(e.Keys, e.ProviderKey) {
		fail("keys", "must hold the provider_key %q", e.ProviderKey)
	}
	for _, f := range e.Flags {
		if f != FlagDuplicate && f != FlagConflict && f != FlagReversed && f != FlagOtherOrigin {
			fail("flags", "%q is no flag", f)
		}
	}
	if !validClass(e.LastClass) {
		fail("ledger.last_class", "%q is no class", e.LastClass)
	}
	for i, a := range r.Attempts {
		if !validEffect(a.Effect) {
			fail(fmt.Sprintf("attempts.%d.effect", i), "%q is no effect", a.Effect)
		}
		if !validClass(a.Class) {
			fail(fmt.Sprintf("attempts.%d.error_class", i), "%q is no class", a.Class)
		}
	}
	for i, v := range r.Evidence {
		if !validFinding(v.Finding) {
			fail(fmt.Sprintf("evidence.%d.finding", i), "%q is no finding", v.Finding)
		}
	}
	for i, h := range r.History {
		if h.From != "" && !slices.Contains(States(), h.From) || !slices.Contains(States(), h.To) {
			fail(fmt.Sprintf("history.%d", i), "%q to %q is no change of state", h.From, h.To)
		}
	}
	return errs
}

func validEffect(e Effect) bool {
	return e == EffectNotDone || e == EffectUnknown || e == EffectDone
}

func validClass(c Class) bool { return c == ClassNone || slices.Contains(Classes(), c) }

func validFinding(f Finding) bool {
	switch f {
	case FindingApplied, FindingPending, FindingRejected, FindingReversed, FindingAbsent, FindingNotVisible, FindingDuplicate,
		FindingMismatch, FindingUnmapped, FindingCouldNotAsk:
		return true
	}
	return false
}
