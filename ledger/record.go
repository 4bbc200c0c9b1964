package ledger

import (
	"encoding/json"
	"time"
)

// Record is one action as it is reported: a line of an import, the body of a
// request, the argument of the SQL function (docs/rules.md, section 2).
// ParseRecord makes one, checked; zero values mean "not given".
type Record struct {
	ActionKey       string
	Workflow        string
	WorkflowVersion string
	RunID           string
	StepID          string
	Connector       string
	Operation       string
	RecordID        string
	Subject         string
	OutcomeKey      string
	Risk            Risk
	Owner           string
	OccurredAt      time.Time
	Payload         []byte // the bytes as received; nil when none, or over the limit
	PayloadDigest   string // SHA-256 of the bytes as received, lower-case hex; "" without payload
	PayloadSize     int    // bytes, as received
	Excerpt         string // of a payload that was too large to keep
	PayloadText     bool   // Payload came as payload_text
	PayloadType     string
	ProviderKey     string
	IdempotencyKey  string
	Driver          string
	DriverUntil     time.Time
	SendBy          time.Time // of an intent: a promise that nothing is sent later
	Replaces        string
	Attempts        []RecordAttempt

	Sanitized int      // replacements made in texts
	Unknown   []string // members we do not know, dotted, sorted: warned about, never refused
	Doubts    []string // what was read, but may be read otherwise elsewhere: warned about, never refused

	// Restore is what only an export carries: state, outcome, flags, keys,
	// evidence and history. nil in a report of a workflow.
	Restore json.RawMessage
}

// RecordAttempt is one attempt as it is reported.
type RecordAttempt struct {
	AttemptID  string // never empty: given, or a digest of key, start, status and code
	StartedAt  time.Time
	FinishedAt time.Time
	Status     AttemptStatus
	HTTPStatus int
	ErrorClass string
	ErrorCode  string
	Message    string
	RetryAfter string
	RemoteID   string
	Effect     Effect // "" not given
	SendBy     time.Time
	Sends      int // 1 unless given; 0: not known
	Final      bool
	Token      string // of the answer to the intent that this attempt follows; "" not given
}

// FieldError is one mistake in one field of a record.
type FieldError struct {
	Field   string `json:"field"` // dotted: attempts.0.status
	Message string `json:"message"`
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Verdict is what recording did with one record.
type Verdict string

// The verdicts.
const (
	RecordedNew       Verdict = "new"
	RecordedMerged    Verdict = "merged"
	RecordedUnchanged Verdict = "unchanged"
	RecordedRefused   Verdict = "refused"
)

// Stored is an entry with its attempts.
type Stored struct {
	Entry    Entry
	Attempts []Attempt // by No
}

// Recording is what is to be written for one record, or for one change made
// under the row's lock.
type Recording struct {
	Verdict  Verdict
	Entry    Entry     // as it is to stand; ignored when unchanged or refused
	Attempts []Attempt // new ones, and those whose result is new (same AttemptID)
	Evidence []Evidence
	History  []History // EntryID and No are the store's, and At where it is zero (a restored row keeps its own)
	Void     bool      // earlier negatives are void: their evidence is marked
	Errors   []FieldError
	Warnings []string

	// Send answers whether the one who reports may send now, and Why says why;
	// empty where nobody asked.
	Send Send
	Why  string

	// Then, where it is set, goes on in the same transaction once the entry
	// stands as above and its outcome key is locked: knowing what stands beside
	// it, it says how the entry is to stand in the end. The history is what Then
	// returns; what is above is not written.
	Then func(b Beside) Recording
}

// Beside is what stands beside an entry that is about to be sent.
type Beside struct {
	Entry    Entry // as it stands now; another record of the same call may have moved it
	Siblings []Sibling
	Held     string // who holds the sends of its lane or of the whole ledger; "": nobody
	Token    int64  // the fencing token it gets where an attempt begins now
}

// Send answers a report of what is meant to be done: may it be sent now, by the
// one who asks?
type Send string

// The answers.
const (
	SendYes  Send = "yes"  // the attempt of the one who asks has begun; no other is to be made
	SendWait Send = "wait" // not now; ask again
	SendNo   Send = "no"   // not by the one who asks
)

// Decider says what a record makes of an entry. cur is nil when the key is new.
// It is pure: a store may call it again when a transaction has to be repeated.
type Decider func(cur *Stored, rec Record, now time.Time) Recording

// Recorded is the answer for one record.
type Recorded struct {
	ActionKey string
	Verdict   Verdict
	Entry     Entry // as stored; zero when refused and not known
	Errors    []FieldError
	Warnings  []string
	Send      Send   // of the Recording
	Why       string // likewise
}
