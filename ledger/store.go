package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What callers branch on.
var (
	ErrNotFound     = errors.New("not found")
	ErrLeaseLost    = errors.New("lease lost")
	ErrNewerSchema  = errors.New("the ledger was migrated by a newer version of reconcile; update this program")
	ErrOldSchema    = errors.New("the ledger has an older schema; run: reconcile migrate")
	ErrNotDurable   = errors.New("the commit is not durable")
	ErrInterrupted  = errors.New("interrupted")
	ErrConcurrently = errors.New("changed at the same time by somebody else; try again")
	// ErrUnreachable: the database server cannot be reached, or is starting,
	// stopping or out of something. It may mend by itself; a wrong login, or a
	// database that is not there, does not, and is not this.
	ErrUnreachable = errors.New("the database cannot be reached")
	// ErrGeneration: the database is not the one that wrote these entries last
	// (a failover, a restore). Nothing is claimed or started until Unsettle was
	// called with generation.
	ErrGeneration = errors.New("the database was replaced, and may have lost what was written last")
)

// Meta values that the store itself keeps; read them with Store.Meta.
const (
	MetaHeld       = "held"       // who holds the sends of the whole ledger; "" when nobody does
	MetaGeneration = "generation" // a number, raised by Store.Unsettle
)

// MetaOrder names the meta value which notes that the changes an operation
// makes of one record are ordered: how long one may still land after its
// send_by, in microseconds; "" where they are not. Store.Start keeps that order.
func MetaOrder(connector, operation string) string { return "in_order/" + connector + "/" + operation }

// TransitionError is a change that the table of states does not allow.
type TransitionError struct {
	ActionKey string
	From, To  State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("entry %q: %s may not change to %s", e.ActionKey, e.From, e.To)
}

// Store keeps entries, their attempts, evidence and the history of every
// change. Each method is one transaction, or none. Implementations must pass
// ledgertest.Run. A store is safe for concurrent use.
//
// Facts are always stored; only changes of state are guarded.
type Store interface {
	// Now is the ledger's time: the database server's on PostgreSQL, this
	// host's on SQLite, and never before the highest one seen.
	Now(ctx context.Context) (time.Time, error)

	// Record writes reports, answering per item in their order. It reads what
	// is there under a lock, asks decide, and writes everything in a few bulk
	// statements of one transaction; it returns after a durable commit. A
	// merge that adds or changes an attempt raises the fencing token, so that
	// claims made before it can change nothing. Two records that would travel
	// under one provider key for one connector and operation: the second is
	// refused, with both action keys named. At most 1,000 records a call.
	Record(ctx context.Context, recs []Record, decide Decider) ([]Recorded, error)

	// Change lets decide change one entry under its row lock, without a lease:
	// a person's action, or a result that came after its lease was lost. It
	// raises the fencing token. ErrNotFound when there is none.
	Change(ctx context.Context, actionKey string, decide func(cur Stored, now time.Time) (Recording, error)) (Entry, error)

	// Claim leases up to c.Limit due entries of one lane and one kind of work,
	// longest due first. Each claim raises the entry's fencing token by one.
	// Nothing due is an empty slice, not an error. It reads the database's
	// clock at that very moment and returns it in Claimed.Now. ErrGeneration:
	// call Unsettle with generation first.
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Renew extends leases; those lost meanwhile are returned.
	Renew(ctx context.Context, ls []Lease, d time.Duration) (lost []Lease, err error)

	// Release gives leases back and changes nothing else.
	Release(ctx context.Context, ls []Lease) error

	// Apply is the only door through which a claimed entry changes. In one
	// transaction and a few bulk statements it stores every fact (attempts,
	// evidence), and for each change whose stored token and state equal those
	// of its lease, and whose change of state is Legal, the entry and one
	// history row. The others change nothing, and carry ErrLeaseLost or a
	// *TransitionError. Results are in the order of cs. Class is recomputed,
	// LastActivityAt set, and the lease ended unless Change.Keep. A lease that
	// was given back, by Release or an Apply before, counts as lost: repeating
	// an Apply whose answer was lost changes nothing twice. An attempt's known
	// effect is not replaced by a lesser one: done stays done, and not done
	// gives way to done only.
	Apply(ctx context.Context, cs []Change) ([]Applied, error)

	// Start writes "started": one statement per entry on the database's own
	// clock, testing token, generation, state ready, lease, clearance, that
	// the outcome key is free, that no other change of the record comes first or
	// came after it (see MetaOrder; with a limit of marks, so that two starts do
	// not test at once), that neither lane nor ledger is held, and that fewer
	// than s.Concurrent marks of the lane are open. It renews the lease,
	// stores the attempt with its key and send_by (its start + s.Timeout), and
	// takes the outcome key. Only when Started.Refused is empty and err is nil
	// may the request go out. ErrNotDurable: nothing may be sent. Without a
	// Timeout somebody else sends: SendBy stays as given, and no mark is open.
	// The store sets NextAt to the latest of the one given, the send_by and the
	// end of the lease, and makes the entry's earlier negatives void.
	Start(ctx context.Context, s Start) (Started, error)

	// Siblings finds, for each entry named, the others that may stand in the
	// way of a send. Of one outcome key at most fifty are given, those in the
	// way first; of the other kinds one each.
	Siblings(ctx context.Context, ids []int64) (map[int64][]Sibling, error)

	// Control is the youngest entry of an operation that is known to be
	// applied and was settled before the time given. What a person said, and
	// what carries a flag, is none: a lookup by our key need not find it.
	Control(ctx context.Context, connector, operation string, before time.Time) (Entry, bool, error)

	// Due counts what is due in each lane, within the filter's window and
	// outside of it, at the ledger's present time.
	Due(ctx context.Context, f Filter) ([]Due, error)

	// Overdue leases nothing: it lists escalated entries whose DueAt has
	// passed, longest overdue first.
	Overdue(ctx context.Context, f Filter, limit int) ([]Stored, error)

	// Entry, and what belongs to it. ErrNotFound when there is none.
	Entry(ctx context.Context, actionKey string) (Stored, error)
	Evidence(ctx context.Context, entryID int64) ([]Evidence, error)
	History(ctx context.Context, entryID int64) ([]History, error)
	// FlaggedAt tells since when each of the entries has had an open flag
	// without a pause. Those that have none are left out.
	FlaggedAt(ctx context.Context, entryIDs []int64) (map[int64]time.Time, error)

	// Entries lists entries by action key, those after the key given, at most
	// limit (0: 1,000). Payloads are left out unless withPayload.
	Entries(ctx context.Context, f Filter, after string, limit int, withPayload bool) ([]Entry, error)
	// Count counts what a filter matches, and all entries.
	Count(ctx context.Context, f Filter) (matching, all int, err error)

	// Lanes.
	Lanes(ctx context.Context) ([]Lane, error)
	Lane(ctx context.Context, name string) (Lane, error) // a lane never used is zero but for its name and LagFactor 1
	SaveLane(ctx context.Context, name string, change func(l Lane, now time.Time) Lane) (Lane, error)
	// Reserve takes n calls from a rate that all processes share, and returns
	// the ledger time from which they may go out, spaced evenly. burst calls
	// may go at once after a silence.
	Reserve(ctx context.Context, lane, bucket string, n, burst int, every time.Duration) (from, now time.Time, err error)
	// Hold and resume sends, for one lane or ("") for the whole ledger.
	Hold(ctx context.Context, lane string, on bool, by string) error

	// Unsettle makes negatives void and starts quiet periods at now, for every
	// open entry: after a step of the clock. With generation it also voids
	// claims and makes every open entry that was due unknown, with send_by =
	// now + longest (a failover, a restore, a copied file); a process that was
	// told ErrGeneration, and finds it answered by another, changes nothing.
	// Such an entry gets an attempt of unknown effect; see LostAttempt.
	Unsettle(ctx context.Context, reason string, generation bool, longest time.Duration) (entries int, err error)

	// Alert opens an alert under a key, unless one is open: then opened is
	// false. Calm closes it.
	Alert(ctx context.Context, key, text string) (opened bool, err error)
	Calm(ctx context.Context, key string) error

	// Meta values: small texts that all processes share.
	Meta(ctx context.Context, name string) (string, error)
	SetMeta(ctx context.Context, name, value string) error

	Close() error
}

// Lease is a time-limited right to work on an entry.
type Lease struct {
	EntryID   int64
	ActionKey string
	Token     int64
	State     State // when claimed
	Holder    string
	Until     time.Time
}

// Filter selects entries. Zero fields select all. The window is on last
// activity (docs/rules.md, section 9).
type Filter struct {
	Since, Until time.Time
	Workflow     string
	Connector    string
	Operation    string
	State        State
	Class        ReportClass
	Owner        string
	Reason       string // code
	Lane         string
	Flagged      bool
	ActionKeys   []string
}

// Claim asks for due entries.
type Claim struct {
	Lane      string
	Work      Work
	Limit     int
	DueBefore time.Time // at or before this, and never after the present; zero: the present
	Holder    string
	Lease     time.Duration
	Filter    Filter
	After     Position // continue behind this one (dry run); zero: from the start
	Peek      bool     // dry run: read, lease nothing
}

// Position is a place in the order of due entries.
type Position struct {
	NextAt    time.Time
	ActionKey string
}

// Claimed is what a claim got.
type Claimed struct {
	Now     time.Time
	Entries []Stored
	Leases  []Lease // in the same order
}

// Change is one entry's change, with the facts that came with it.
type Change struct {
	Lease    Lease
	Next     Entry      // as it is to stand
	Attempts []Attempt  // results, stored whatever becomes of the change
	Evidence []Evidence // likewise
	Void     bool       // earlier counted negatives are void
	Keep     bool       // keep the lease, and leave Lease.State behind: the caller goes on with the new state
	Actor    string     // "reconcile" when empty
	Note     string
	Detail   []byte // of the history row
	PassID   string
}

// Applied is what became of a change.
type Applied struct {
	Entry Entry
	Lease Lease // for Keep: with the new state
	Err   error
}

// Start asks to write "started".
type Start struct {
	Lease      Lease
	Attempt    Attempt       // AttemptID, No and Key are set
	Next       Entry         // as it is to stand (Begin), but for the times that the store sets
	Timeout    time.Duration // send_by = started + this
	LeaseFor   time.Duration
	Concurrent int   // 0: no limit
	Repeats    bool  // an equal action that was begun, or is in doubt, is not in the way
	Generation int64 // of the claimed entry
	PassID     string
	Detail     []byte
}

// Started is what became of it.
type Started struct {
	Refused   string // why nothing may be sent: "lease_lost", "clearance_lapsed", "outcome_key_held" (any sibling in the way), "held", "concurrent", "generation"; "" when it may
	StartedAt time.Time
	SendBy    time.Time
	Entry     Entry
	Lease     Lease // renewed, with state in_flight
}

// SiblingKind says why an entry may stand in another's way.
type SiblingKind string

// The sibling kinds.
const (
	SiblingOutcome   SiblingKind = "outcome"    // same outcome key
	SiblingLookAlike SiblingKind = "look_alike" // no outcome key; same connector, operation, record and payload; older and open, or applied
	SiblingRecord    SiblingKind = "record"     // same connector, operation and record, whose changes are noted as ordered; newer, and sent or applied
	SiblingEarlier   SiblingKind = "earlier"    // same connector, operation and record, whose changes are noted as ordered; older, and may still land
)

// Sibling is another entry that may stand in the way of a send.
type Sibling struct {
	Kind      SiblingKind
	ActionKey string
	State     State
	Effect    Effect
	Outcome   Outcome
	RemoteID  string
	SettledAt time.Time // zero while open
	Holder    bool      // of the outcome key
}

// Due counts the due entries of one lane and kind of work.
type Due struct {
	Lane     string
	Work     Work
	Count    int       // inside the window and filter, not leased
	Leased   int       // inside, but claimed elsewhere
	Outside  int       // due, matching the other filters, outside the window
	OldestAt time.Time // activity of the oldest one outside
}
