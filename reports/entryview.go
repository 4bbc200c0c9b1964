package reports

import (
	"encoding/json"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// EntryView is an entry as lists show it. Its JSON form is a contract
// (docs/rules.md, section 9): the names of a record, and where it stands. Times that are not
// set are null; lists never are, and a risk that nobody gave is the normal one.
type EntryView struct {
	ActionKey       string     `json:"action_key"`
	Workflow        string     `json:"workflow"`
	WorkflowVersion string     `json:"workflow_version"`
	RunID           string     `json:"run_id"`
	StepID          string     `json:"step_id"`
	Connector       string     `json:"connector"`
	Operation       string     `json:"operation"`
	RecordID        string     `json:"record_id"`
	Subject         string     `json:"subject"`
	OutcomeKey      string     `json:"outcome_key"`
	Risk            string     `json:"risk"`
	Owner           string     `json:"owner"`
	OccurredAt      *time.Time `json:"occurred_at"`
	ReceivedAt      *time.Time `json:"received_at"`
	ProviderKey     string     `json:"provider_key"`
	IdempotencyKey  string     `json:"idempotency_key"`
	Keys            []string   `json:"keys"` // every key ever used, oldest first
	Replaces        string     `json:"replaces"`
	Driver          string     `json:"driver"`
	DriverUntil     *time.Time `json:"driver_until"`
	PayloadDigest   string     `json:"payload_digest"`
	PayloadSize     int        `json:"payload_size"`

	State          string       `json:"state"`
	Effect         string       `json:"effect"`
	Outcome        string       `json:"outcome"`
	Class          string       `json:"class"`
	Flags          []string     `json:"flags"`
	AttemptCount   int          `json:"attempt_count"` // those that count against the limit
	LooksAnswered  int          `json:"looks_answered"`
	LooksFailed    int          `json:"looks_failed"`
	LastClass      string       `json:"last_class"`
	LastTriedAt    *time.Time   `json:"last_tried_at"`
	LastActivityAt *time.Time   `json:"last_activity_at"`
	NextAt         *time.Time   `json:"next_at"`
	SettledAt      *time.Time   `json:"settled_at"`
	RemoteID       string       `json:"remote_id"`
	OriginalOwner  string       `json:"original_owner"`
	DueAt          *time.Time   `json:"due_at"`
	Allowed        []string     `json:"allowed"`
	Release        *ReleaseView `json:"release"` // null unless deferred
	Reason         string       `json:"reason"`

	// Payload is set only on request. PayloadText is a payload that is not
	// JSON.
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadText *string         `json:"payload_text,omitempty"`
	PayloadType string          `json:"payload_type,omitempty"`
}

// ReleaseView is what ends a deferral.
type ReleaseView struct {
	Kind string     `json:"kind"` // time, lane, signal or entry
	Ref  string     `json:"ref"`
	At   *time.Time `json:"at"`
	To   string     `json:"to"` // the state it goes back to
}

// ViewEntry makes the view of an entry, with its payload only if asked to.
func ViewEntry(e ledger.Entry, withPayload bool) EntryView {
	v := EntryView{
		ActionKey: e.ActionKey, Workflow: e.Workflow, WorkflowVersion: e.WorkflowVersion, RunID: e.RunID, StepID: e.StepID,
		Connector: e.Connector, Operation: e.Operation, RecordID: e.RecordID, Subject: e.Subject, OutcomeKey: e.OutcomeKey,
		Risk: string(e.Risk.Higher(ledger.RiskNone)), Owner: e.Owner, OccurredAt: instant(e.OccurredAt), ReceivedAt: instant(e.ReceivedAt),
		ProviderKey: e.ProviderKey, IdempotencyKey: e.EffectiveIdempotencyKey(), Keys: list(e.Keys), Replaces: e.Replaces,
		Driver: e.Driver, DriverUntil: instant(e.DriverUntil),
		PayloadDigest: e.PayloadDigest, PayloadSize: e.PayloadSize,

		State: string(e.State), Effect: string(e.Effect), Outcome: string(e.Outcome), Class: string(e.Class),
		Flags: list(e.Flags), AttemptCount: e.AttemptCount, LooksAnswered: e.LooksAnswered, LooksFailed: e.LooksFailed,
		LastClass: string(e.LastClass), LastTriedAt: instant(e.LastTriedAt), LastActivityAt: instant(e.LastActivityAt),
		NextAt: instant(e.NextAt), SettledAt: instant(e.SettledAt), RemoteID: e.RemoteID, OriginalOwner: e.OriginalOwner,
		DueAt: instant(e.DueAt), Allowed: list(e.Allowed), Reason: e.Reason,
	}
	if e.State == ledger.StateDeferred {
		v.Release = &ReleaseView{Kind: e.ReleaseKind, Ref: e.ReleaseRef, At: instant(e.ReleaseAt), To: string(e.ReleaseTo)}
	}
	if withPayload && e.Payload != nil {
		if e.PayloadType == "" && json.Valid(e.Payload) {
			v.Payload = e.Payload
		} else {
			text := string(e.Payload)
			v.PayloadText, v.PayloadType = &text, e.PayloadType
		}
	}
	return v
}

// ShowView is everything known of one entry: the JSON form of show, a contract
// (docs/rules.md, section 9). Its lists are never null.
type ShowView struct {
	EntryView
	Attempts []AttemptView  `json:"attempts"`
	Evidence []EvidenceView `json:"evidence"`
	History  []HistoryView  `json:"history"`
	Why      string         `json:"why"` // why another attempt is safe, or why it stopped
}

// AttemptView is one attempt.
type AttemptView struct {
	No             int        `json:"attempt_no"`
	AttemptID      string     `json:"attempt_id"`
	Ours           bool       `json:"ours"`
	StartedAt      *time.Time `json:"started_at"`
	FinishedAt     *time.Time `json:"finished_at"`
	ReceivedAt     *time.Time `json:"received_at"`
	Status         string     `json:"status"`
	HTTPStatus     int        `json:"http_status"`
	Class          string     `json:"error_class"`
	Code           string     `json:"error_code"`
	Message        string     `json:"message"`
	RetryAfter     string     `json:"retry_after"`
	RemoteID       string     `json:"remote_id"`
	Effect         string     `json:"effect"`
	Rule           string     `json:"rule"` // which rule gave class and effect
	Sends          int        `json:"sends"`
	SendBy         *time.Time `json:"send_by"`
	IdempotencyKey string     `json:"idempotency_key"`
	Counts         bool       `json:"counts"`
}

// EvidenceView is one finding kept as ground for a change. Detail holds the
// records and values that were seen.
type EvidenceView struct {
	Finding   string          `json:"finding"`
	Connector string          `json:"connector"`
	Form      string          `json:"form"`
	RemoteID  string          `json:"remote_id"`
	AskedAt   *time.Time      `json:"asked_at"`
	SeenAt    *time.Time      `json:"seen_at"`
	Counted   bool            `json:"counted"`
	Void      bool            `json:"void"`
	Version   string          `json:"version"`
	Digest    string          `json:"digest"`
	Detail    json.RawMessage `json:"detail"`
}

// HistoryView is one change of state.
type HistoryView struct {
	No            int             `json:"no"`
	At            *time.Time      `json:"at"`
	From          string          `json:"from"`
	To            string          `json:"to"`
	Outcome       string          `json:"outcome"`
	Class         string          `json:"class"`
	Flags         []string        `json:"flags"`
	Reason        string          `json:"reason"`
	Owner         string          `json:"owner"`
	Actor         string          `json:"actor"`
	PolicyVersion string          `json:"policy_version"`
	Note          string          `json:"note"`
	RunID         string          `json:"pass_id"`
	Detail        json.RawMessage `json:"detail"`
}

// ViewShow makes the view of one entry and all that belongs to it.
func ViewShow(st ledger.Stored, evidence []ledger.Evidence, history []ledger.History, withPayload bool) ShowView {
	v := ShowView{
		EntryView: ViewEntry(st.Entry, withPayload),
		Attempts:  make([]AttemptView, 0, len(st.Attempts)),
		Evidence:  make([]EvidenceView, 0, len(evidence)),
		History:   make([]HistoryView, 0, len(history)),
		Why:       Why(st, evidence, history),
	}
	for _, a := range st.Attempts {
		v.Attempts = append(v.Attempts, AttemptView{
			No: a.No, AttemptID: a.AttemptID, Ours: a.Ours, StartedAt: instant(a.StartedAt), FinishedAt: instant(a.FinishedAt),
			ReceivedAt: instant(a.ReceivedAt), Status: string(a.Status), HTTPStatus: a.HTTPStatus, Class: string(a.Class),
			Code: a.Code, Message: a.Message, RetryAfter: a.RetryAfter, RemoteID: a.RemoteID, Effect: string(a.Effect),
			Rule: a.Rule, Sends: a.Sends, SendBy: instant(a.SendBy), IdempotencyKey: a.Key, Counts: a.Counts,
		})
	}
	for _, ev := range evidence {
		v.Evidence = append(v.Evidence, EvidenceView{
			Finding: string(ev.Finding), Connector: ev.Connector, Form: ev.Form, RemoteID: ev.RemoteID,
			AskedAt: instant(ev.AskedAt), SeenAt: instant(ev.SeenAt), Counted: ev.Counted, Void: ev.Void,
			Version: ev.Version, Digest: ev.Digest, Detail: detail(ev.Detail),
		})
	}
	for _, h := range history {
		v.History = append(v.History, HistoryView{
			No: h.No, At: instant(h.At), From: string(h.From), To: string(h.To), Outcome: string(h.Outcome),
			Class: string(h.Class), Flags: list(h.Flags), Reason: h.Reason, Owner: h.Owner, Actor: h.Actor,
			PolicyVersion: h.PolicyVersion, Note: h.Note, RunID: h.PassID, Detail: detail(h.Detail),
		})
	}
	return v
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// list copies texts so that none is null in JSON.
func list[T ~string](xs []T) []string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = string(x)
	}
	return out
}

// detail is stored JSON as it stands; an empty object where there is none.
func detail(b []byte) json.RawMessage {
	if len(b) == 0 || !json.Valid(b) {
		return json.RawMessage("{}")
	}
	return b
}
