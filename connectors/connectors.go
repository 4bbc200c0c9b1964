// Package connectors says how an outside system is described, opened and
// asked. It knows nothing of the ledger and never judges what an answer means:
// package reconcile does both.
//
// Asking (Connector, BatchLooker, Checker, Prober) only reads. What writes
// (Sender) is another type, so a lookup can never reach it.
package connectors

import (
	"context"
	"time"
)

// Connector looks actions up in an external system. It never writes there.
// An implementation is safe for concurrent use.
type Connector interface {
	// Info describes the opened connector. It does no I/O.
	Info() Info

	// Lookup asks for one action by all keys it ever used (and by its remote
	// id, where known). A nil error means that the system answered: with
	// records, or with none. An error (always an *Error) means that the
	// question could not be put; it says nothing about the action.
	Lookup(ctx context.Context, q Query) (Answer, error)
}

// BatchLooker is a Connector that can ask about many actions in one call, for
// the operations whose Operation.Lookup is LookupBatch.
type BatchLooker interface {
	// LookupBatch answers per item, in the order of qs, which all name the same
	// operation and are at most Operation.BatchMax. An item that the system
	// did not mention carries an error of KindNotMentioned, unless the
	// definition declares the answer complete: the caller asks it alone. One
	// unusable key does not fail its neighbours.
	LookupBatch(ctx context.Context, qs []Query) []Result
}

// Sender sends an action. It is never reached from a lookup.
type Sender interface {
	// Send puts one request on the wire, once: no redirect, no hidden retry,
	// no first byte after s.SendBy. The result always says what is known of
	// the effect; a failure is not an error but a SendResult.
	Send(ctx context.Context, s Send) SendResult
}

// Checker re-reads what must still be true before a send: consent, owner and
// lifecycle of the record. It only reads.
type Checker interface {
	// Check answers for each name in q.Want that the operation can read
	// (Operation.Checks). A part that could not be read is VerdictUnread with
	// its error, never a pass.
	Check(ctx context.Context, q CheckQuery) []Verdict
}

// Prober asks who we are at the external system. It only reads.
type Prober interface {
	// Probe proves the credential, and returns what identifies the account and
	// its mode ("live", "test"), empty where the system does not tell.
	Probe(ctx context.Context) (Identity, error)
}

// Classifier applies a connector's own error rules to an attempt that
// somebody else made and reported.
type Classifier interface {
	// Classify answers what a call of ours would have got. ok is false when no
	// rule of the definition matches; then the general defaults hold.
	Classify(operation string, f Failure) (c Classified, ok bool)
}

// Info is what an opened connector says of itself. Its lists are shared, and not
// to be changed.
type Info struct {
	Name       string // as in the config: "billing"
	Type       string // "rest"
	Title      string // for people
	Lane       string // shared rate, breaker and pause: the connector's name unless told otherwise
	Version    string // digest of the definition; a negative counts only under the present one
	HasProbe   bool
	HasBatch   bool
	Operations []Operation // sorted by name
	Rates      []Rate      // limits of the lane
	KeyFold    bool        // the system does not tell keys apart by case

	// Scopes are short digests of what an idempotency key may be bound to, by
	// the words of Operation.KeyScope: "credential" (the secrets in use) and
	// "region" (where calls go). When one changes, keys sent before are new to
	// the system.
	Scopes map[string]string
}

// Operation returns the named operation, and whether there is one.
func (i Info) Operation(name string) (Operation, bool) {
	for _, o := range i.Operations {
		if o.Name == name {
			return o, true
		}
	}
	return Operation{}, false
}

// Rate is one limit on calls. Concurrent is the greatest number of open calls
// (0: no limit of its own).
type Rate struct {
	Bucket     string // "" holds for every call of the lane
	Calls      int
	Per        time.Duration
	Concurrent int
}

// LookupKind says how an operation can be asked about.
type LookupKind string

// The lookup kinds.
const (
	LookupNone   LookupKind = "none"   // unknown outcomes go to people at once
	LookupSingle LookupKind = "single" // one action a call
	LookupBatch  LookupKind = "batch"  // many actions a call
)

// CheckName names a thing that is re-read before a send.
type CheckName string

// The checks a connector can read.
const (
	CheckConsent   CheckName = "consent"
	CheckOwner     CheckName = "owner"
	CheckLifecycle CheckName = "lifecycle"
)

// Operation is everything known of one kind of action before asking: what the
// decisions need, and what `reconcile connectors` prints. Durations are
// resolved: operation, else connector, else default.
type Operation struct {
	Name string

	Lookup   LookupKind
	BatchMax int // most keys in one call; 1 unless Lookup is LookupBatch

	Timeout       time.Duration // longest one call may take
	LandsWithin   time.Duration // longest an unanswered request may still take effect
	VisibleWithin time.Duration // longest a lookup may not show it; 0: reads its own writes
	LooksBack     time.Duration // how far back it can be asked; 0: no bound
	InFlightFor   time.Duration // an attempt without result is looked at from then on
	AbsentAfter   int           // counting negatives that prove absence
	AbsentSpacing time.Duration // least time between two of them

	KeepsKey     time.Duration // how long it remembers an idempotency key; 0: never relied on
	KeyScope     string        // account, credential or region
	KeysFrom     time.Time     // keys sent before (ledger time) were sent in another scope; set by the engine, zero: none
	CarriesKey   bool          // a send carries {idempotency_key} (or {key} as such), so the system can refuse a second
	ReplaysError bool          // a stored error may be given again under the same key

	Repeatable bool // doing it twice is the same as once
	Unique     bool // the system refuses a second record with this key
	Removes    bool // the action deletes: a live hit is the negative
	HasProof   bool // applied when the found record carries the payload's values
	HasCompare bool
	HasChanged bool
	HasTwin    bool

	Canary       string // key of a record that is always there; "" for none
	ControlProbe bool   // control = "probe": the probe stands for a control, visibly

	CanSend     bool
	SendNeedsID bool        // a 2xx without an id proves nothing
	Checks      []CheckName // what the check blocks can read, in order

	Facts map[string]string // sources of the numbers above, for people
}

// Query is one question about one action.
type Query struct {
	Operation string

	// Keys are all keys that the action ever travelled under, oldest first. A
	// record is ours if it shows one of them, byte for byte.
	Keys []string

	RemoteID  string // id in the external system, where known: read directly
	ActionKey string
	RecordID  string
	Subject   string
	Payload   []byte // the stored bytes; JSON unless the operation says otherwise

	// From and Until bound when the action can have been made, for systems
	// that are asked by a span of time. Zero: unknown.
	From, Until time.Time
}

// Result is one item of a batch.
type Result struct {
	Answer Answer
	Err    error // an *Error, or nil
}

// Answer is what a system said. No records with Complete set is an explicit
// none; no records without it proves nothing.
type Answer struct {
	Records  []Record
	Complete bool      // the answer holds all there is (all pages read, not marked partial)
	AskedAt  time.Time // host clock with its monotonic reading, just before the question went out
	Form     string    // how it was asked: "single", "batch", "read", "absence", joined by +
	Requests int       // calls spent on this answer; in a batch counted on its first item

	// Foreign counts records that show none of our keys. Declared is true
	// where the definition says that strangers are normal there (contains, a
	// scan), else strangers alone mean that the lookup is not usable.
	Foreign  int
	Declared bool
}

// Standing is what a record's status means for the action.
type Standing string

// The standings. A status with no mapping is StandingUnmapped, never a guess.
const (
	StandingApplied  Standing = "applied"
	StandingPending  Standing = "pending"
	StandingRejected Standing = "rejected" // can never become applied
	StandingReversed Standing = "reversed" // was applied, then undone or removed
	StandingUnmapped Standing = "unmapped"
)

// Record is one record of the external system that shows one of our keys.
type Record struct {
	ID         string
	Key        string // the key of ours it shows; of one found by {record_id}, the entry's first key
	Status     string // as the system wrote it; "" where the definition reads none
	Standing   Standing
	MergedInto string // id of the survivor, where it was merged
	Compared   []Compared
	Proof      []Compared // values that prove a change of an existing record
	ChangedAt  time.Time  // when it last changed, by the system's clock; zero: not told
	Origin     bool       // found by business identity (twin), not by our key
}

// Compared is one declared field, as the payload has it and as the record
// shows it. What the payload does not have is not compared and not listed.
type Compared struct {
	Path      string // in the payload
	Want, Got string // texts as received, numbers exact
	Equal     bool
}

// Send is one attempt to put on the wire.
type Send struct {
	Operation      string
	Key            string // {key}
	IdempotencyKey string // {idempotency_key}; "" when the attempt may not carry one
	ActionKey      string
	RecordID       string
	Subject        string
	Payload        []byte
	PayloadType    string // media type of a payload_text; "" is JSON

	// SendBy is the last moment for the first byte, on this host's clock with
	// its monotonic reading.
	SendBy time.Time
}

// Effect is what is known of the effect of one attempt.
type Effect string

// The effects.
const (
	EffectNotDone Effect = "not_done"
	EffectUnknown Effect = "unknown"
	EffectDone    Effect = "done"
)

// RuleRecordShown is the SendResult.Rule of an answer that shows a record which is
// no proof that our action took effect (another key, status or content). The
// record is there: no look that misses it proves that nothing was made.
const RuleRecordShown = "record in a 2xx"

// SendResult is what one send came to.
type SendResult struct {
	Classified
	Answered bool   // an HTTP answer was read to its end
	Wrote    bool   // at least one byte was handed over
	RemoteID string // id of the record made, or of the one that an error names
	Replayed bool   // a stored answer given again
	Message  string // masked, at most 500 characters; "" on success

	RetryAfter RetryAfter
}

// Failure is a reported failure as a rule can see it.
type Failure struct {
	HTTPStatus int
	Code       string
	Message    string
}

// Classified is the class and effect of one attempt, and the rule used.
type Classified struct {
	Kind       Kind // "" on success
	Effect     Effect
	HTTPStatus int
	Code       string
	Rule       string    // which rule decided: "connector error 2", "default 5xx"; kept with the attempt
	KeySpent   bool      // the idempotency key is used up
	Refuses    CheckName // the system refused what a check of ours should have
	Pauses     string    // "lane", "entry" or "" for the default of the kind
	Names      string    // id of the record that the error names
}

// CheckQuery asks what must still be true before a send.
type CheckQuery struct {
	Query
	Channel string      // the policy's channel; "" is any
	Want    []CheckName // what is asked for
}

// VerdictKind is what a check came to.
type VerdictKind string

// The verdict kinds.
const (
	VerdictPass   VerdictKind = "pass"
	VerdictRefuse VerdictKind = "refuse"
	VerdictUnread VerdictKind = "unread"
)

// Verdict is one thing read by a check. Of CheckOwner, Value is the id of the
// present owner ("" for none) and Refuse means that this owner is inactive;
// whether the owner changed is for the caller to judge.
type Verdict struct {
	Check  CheckName
	Kind   VerdictKind
	Value  string
	Detail string // why it is refused or unread, for people
	Err    error  // an *Error, where it could not be read
}

// Identity is what a probe learned of the credential.
type Identity struct {
	Account, Mode string
}
