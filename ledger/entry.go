package ledger

import (
	"slices"
	"strings"
	"time"
)

// Entry is the ledger's record of one action. Zero times mean "not set"; all
// times are UTC with whole microseconds. A store keeps each field in the column
// of its name (ActionKey in action_key).
type Entry struct {
	ID int64 // given by the store at first write

	// What was recorded. It does not change after the first write, but for
	// Owner, and for what a later report fills in where it was empty.
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
	Risk            Risk // of the record; the policy's may be higher
	Owner           string
	OriginalOwner   string // the first; always set
	Replaces        string
	OccurredAt      time.Time
	ReceivedAt      time.Time // ledger time of the first report

	Payload       []byte // the stored bytes; nil when none, or over the limit
	PayloadType   string // media type of a payload_text; "" is JSON
	PayloadDigest string // SHA-256 of the bytes as received, lower-case hex; "" without payload
	PayloadSize   int    // bytes, as received
	Excerpt       string // of a payload that was too large to keep
	Sanitized     int    // replacements made in texts so that both databases can hold them

	ProviderKey    string    // the effective key: what travels with the action; fixed at first write
	KeyGuard       string    // the key as the system tells keys apart: no two entries of one operation share it; "" = ProviderKey
	KeyOrigin      string    // "record", "action_key" or "derived"
	IdempotencyKey string    // the record's own; "" = the effective key
	Keys           []string  // every key ever used, oldest first; includes ProviderKey
	Driver         string    // "platform" while the platform retries by itself
	DriverUntil    time.Time // its promise; zero without

	// Where it stands. Changed only by Apply, Start and Record.
	State     State
	Effect    Effect
	Outcome   Outcome
	SettledBy SettledBy
	Class     ReportClass // always ClassOf(entry)
	Reason    string      // stable code, detail after a colon
	RemoteID  string
	Flags     []Flag // open ones, sorted
	Lane      string
	Work      Work
	NextAt    time.Time // when Work is due; zero: never

	Attempts       int // all attempts
	AttemptCount   int // those that count against the limit
	SendCount      int // requests that may have had an effect (report class)
	LastClass      Class
	LastTriedAt    time.Time // latest start of an attempt, or its report
	FirstFailedAt  time.Time
	FirstSentAt    time.Time // earliest moment the key can have been sent
	KeySentAt      time.Time // the same, for the present attempt key
	SendBy         time.Time // latest of all attempts; see Unbounded
	Unbounded      bool      // an attempt of unknown effect promises no send_by: absence cannot be proven
	LastActivityAt time.Time

	LooksAnswered   int
	LooksFailed     int
	LooksInRow      int       // looks since the last attempt, for the rhythm
	LastLookAt      time.Time // latest answered one, dated by its own call
	Negatives       int       // that count, under NegativeVersion
	LastNegativeAt  time.Time
	NegativeVersion string        // of the definition they were asked under
	SettleFrom      time.Time     // start of the settle window
	PausedBase      time.Duration // the lane's paused total at SettleFrom
	SettledAt       time.Time     // of the last settle; zero while open
	Verify          bool          // settled, but to be looked at once more (resent after an unknown attempt)

	ClearedUntil  time.Time // of StateReady
	Granted       int       // attempts a person allowed beyond the limits
	Approved      bool      // a person approved the next send
	ReleaseKind   string    // of StateDeferred: "time", "lane", "signal", "entry"
	ReleaseRef    string    // which lane, signal or entry
	ReleaseAt     time.Time // time, or the deferral's own expiry
	ReleaseTo     State     // where it came from
	DueAt         time.Time // of StateEscalated
	Allowed       []Action
	PolicyVersion string // of the last decision

	FencingToken int64
	LeaseHolder  string
	LeaseUntil   time.Time
	Generation   int64
}

// StepDue is when the next step of an entry that is not for a pass to take is
// due: the owner's where it is escalated, the end of the deferral where it is
// deferred. Zero: there is none.
func (e Entry) StepDue() time.Time {
	switch e.State {
	case StateEscalated:
		return e.DueAt
	case StateDeferred:
		return e.ReleaseAt
	}
	return time.Time{}
}

// HasFlag says whether a flag is open.
func (e Entry) HasFlag(f Flag) bool {
	for _, g := range e.Flags {
		if g == f {
			return true
		}
	}
	return false
}

// WithFlag returns the entry with a flag open.
func (e Entry) WithFlag(f Flag) Entry {
	if e.HasFlag(f) {
		return e
	}
	fs := append(append([]Flag(nil), e.Flags...), f)
	for i := len(fs) - 1; i > 0 && fs[i] < fs[i-1]; i-- {
		fs[i], fs[i-1] = fs[i-1], fs[i]
	}
	e.Flags = fs
	return e
}

// Settled says whether the entry is final.
func (e Entry) Settled() bool { return e.State == StateSettled }

// EffectiveIdempotencyKey is what {idempotency_key} stands for.
func (e Entry) EffectiveIdempotencyKey() string {
	if e.IdempotencyKey != "" {
		return e.IdempotencyKey
	}
	return e.ProviderKey
}

// LeavesHistory says whether a change leaves a row of history: a new state,
// outcome, class, owner, set of flags, or code of the reason. A reason whose
// detail alone is another one leaves none.
func LeavesHistory(before, after Entry) bool {
	return before.State != after.State || before.Outcome != after.Outcome || before.Class != after.Class ||
		before.Owner != after.Owner || !slices.Equal(before.Flags, after.Flags) || ReasonCode(before.Reason) != ReasonCode(after.Reason)
}

// ReasonCode is the stable part of a reason.
func ReasonCode(reason string) string {
	code, _, _ := strings.Cut(reason, ":")
	return code
}

// ClassOf is the report class of an entry: the rules of docs/rules.md,
// section 3, in their order.
func ClassOf(e Entry) ReportClass {
	switch e.State {
	case StateSettled:
		switch {
		case e.SettledBy == ByPerson:
			return ReportManuallyResolved
		case e.Outcome == OutcomeApplied && e.SendCount >= 2:
			return ReportRecoveredAfterRetry
		case e.Outcome == OutcomeApplied && e.SettledBy == ByLook:
			return ReportConfirmedByLookup
		case e.Outcome == OutcomeApplied:
			return ReportFirstAttemptSuccess
		case e.SettledBy == ByCheck:
			return ReportBlocked
		}
		return ReportPermanentlyFailed
	case StateDeferred:
		return ReportDeferred
	case StateEscalated:
		return ReportEscalated
	}
	return ReportWaiting
}

// AttemptStatus is how an attempt ended.
type AttemptStatus string

// The statuses.
const (
	AttemptStarted AttemptStatus = "started" // no result yet
	AttemptOK      AttemptStatus = "ok"
	AttemptError   AttemptStatus = "error"
	AttemptUnknown AttemptStatus = "unknown"
)

// LostAttempt begins the id of an attempt of ours that nobody saw: it stands for
// what the ledger may have lost. The number of the generation follows; see
// Store.Unsettle.
const LostAttempt = "generation-"

// Attempt is one try. Ours are stored before they are sent.
type Attempt struct {
	EntryID    int64
	AttemptID  string    // unique within the entry; makes reporting idempotent
	No         int       // from 1, in the order of recording
	Ours       bool      // sent by reconcile
	StartedAt  time.Time // as reported; ours: ledger time
	FinishedAt time.Time
	ReceivedAt time.Time // ledger time of the first report of it
	Status     AttemptStatus
	HTTPStatus int
	Class      Class
	Code       string
	Message    string // masked
	RetryAfter string // as received
	RemoteID   string
	Effect     Effect
	Rule       string    // which rule gave class and effect; see SplitRule
	Sends      int       // requests it stands for; 1 is usual, 0 not known
	Final      bool      // the platform gave up
	SendBy     time.Time // nobody puts it on the wire after this; zero: no promise
	Key        string    // idempotency key it travelled with
	Counts     bool      // against the limit
	Replayed   bool
	KeySpent   bool

	// The store sets both, so that a report over a past window can be run
	// again with the same numbers.
	ResultAt time.Time // ledger time at which its first result was stored; zero while started
	EffectAt time.Time // ledger time at which its present effect was stored; before that it was unknown

	// Of the failure; "" on a success. A failure that turns out well later keeps
	// it, so that the week it was counted in shows it still.
	ReasonText   string // normalised text
	ReasonID     string // digest of connector, operation, class, code and text
	RulesVersion int    // of the normaliser
}

// EffectOf is the effect over all attempts: done if any is done, else unknown
// if any is unknown or without result, else not done. Without attempts it is
// not done.
func EffectOf(as []Attempt) Effect {
	eff := EffectNotDone
	for _, a := range as {
		switch a.Effect {
		case EffectDone:
			return EffectDone
		case EffectNotDone:
		default:
			eff = EffectUnknown
		}
	}
	return eff
}

// Evidence is a finding kept as ground for a change, or as a fact learned too
// late to change anything.
type Evidence struct {
	EntryID   int64
	Finding   Finding
	Connector string
	Form      string // how it was asked: single, batch, read, check, control
	RemoteID  string
	AskedAt   time.Time // ledger time of the call
	SeenAt    time.Time // ledger time of writing
	Counted   bool      // a negative that counts
	Void      bool      // made void later (new attempt, clock step, generation)
	Version   string    // of the definition
	Detail    []byte    // JSON: records, values, control, error; masked
	Digest    string    // SHA-256 of Detail, lower-case hex
	PassID    string
}

// History is one change of an entry: of its state, or, with the state
// unchanged, of its class, its flags or its owner. Rows are only ever added.
// The store fills Class, Flags and DueAt from the entry as it is written with
// the row, whoever made the row, so that a report can say how things stood at
// any moment.
type History struct {
	EntryID       int64
	No            int // from 1 within the entry
	At            time.Time
	From, To      State
	Outcome       Outcome
	Class         ReportClass // of the entry after the change: Entry.Class
	Flags         []Flag      // open after the change, sorted: Entry.Flags
	DueAt         time.Time   // what was waited for after the change: Entry.StepDue
	Reason        string
	Owner         string
	Actor         string // "reconcile", "import", "person:NAME"
	PolicyVersion string
	Note          string
	PassID        string
	Detail        []byte // JSON: verdicts of checks, keys; may be nil
}

// Lane is what processes share of one connector and credential.
type Lane struct {
	Name        string
	PausedUntil time.Time
	PauseReason string
	PausedSince time.Time     // of the present pause; zero when not paused
	PausedTotal time.Duration // of ended pauses
	PauseStep   time.Duration // the last step of the growing pause
	FailedInRow int
	LagFactor   int // multiplies visible_within; 1 unless lag was seen
	Held        bool
	HeldBy      string // who holds it
}

// PausedFor is the whole time the lane has been paused up to now.
func (l Lane) PausedFor(now time.Time) time.Duration {
	d := l.PausedTotal
	if !l.PausedSince.IsZero() {
		end := now
		if l.PausedUntil.Before(end) {
			end = l.PausedUntil
		}
		if end.After(l.PausedSince) {
			d += end.Sub(l.PausedSince)
		}
	}
	return d
}

// ruleAlso comes, in an attempt's rule, between the rule that holds and what
// another report of the same attempt said that contradicts it.
const ruleAlso = "; also reported: "

// SplitRule takes an attempt's rule apart: the rule that holds, and what
// contradicted it, "" for nothing.
func SplitRule(rule string) (holds, also string) {
	holds, also, _ = strings.Cut(rule, ruleAlso)
	return holds, also
}

// JoinRule is the reverse of SplitRule.
func JoinRule(holds, also string) string {
	if also == "" {
		return holds
	}
	return holds + ruleAlso + also
}
