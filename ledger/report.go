package ledger

import (
	"slices"
	"time"
)

// ReportWindow is what a report counts over: what the ledger learned from
// Since on and before Until, as it stood at AsOf. All are ledger time. Asked
// again with the same window it gives the same numbers, whatever was recorded
// since.
type ReportWindow struct {
	Since, Until time.Time
	AsOf         time.Time
	// Filter selects entries as in a list, so that a count and the list behind
	// it agree. Its own window is not used.
	Filter Filter
	// By names the columns to group by; see OutcomeColumns, ReasonColumns and
	// QueueColumns.
	By []string
}

// recordColumns are what a record says once and for all.
var recordColumns = []string{"workflow", "workflow_version", "run_id", "step_id", "connector", "operation", "record_id", "risk", "original_owner"}

// OutcomeColumns lists what OutcomeCounts can group by: columns of the record,
// and of where the entry stood at AsOf.
func OutcomeColumns() []string {
	return slices.Concat(recordColumns, []string{"owner", "state", "outcome", "class"})
}

// ReasonColumns lists what ReasonCounts can group by, in addition to the
// reason.
func ReasonColumns() []string { return slices.Clone(recordColumns) }

// QueueColumns lists what QueueCounts can group by, in addition to what an entry
// waits for.
func QueueColumns() []string { return slices.Concat(recordColumns, []string{"owner"}) }

// Waits is why an entry is in the queue. It is there once: under the first of
// these that holds.
type Waits string

// What an entry waits for.
const (
	WaitsEscalated Waits = "escalated" // a person owns it
	WaitsDeferred  Waits = "deferred"  // a release condition
	WaitsFlagged   Waits = "flagged"   // an open flag that a person is to close
)

// QueueCount counts the entries that wait at ReportWindow.AsOf, share the values
// of By, and wait for the same.
type QueueCount struct {
	By      []string
	Waits   Waits
	Count   int
	Flagged int // of Count: those with an open flag
	// Overdue are those whose time has passed: the first one that the present
	// owner was given since it was escalated, whatever reminders came since; the
	// end of the deferral. A flag alone has none in the ledger.
	Overdue int
	Oldest  time.Time // since when the one waits that waits longest
	DueNext time.Time // the next time still to come; zero: none
}

// OutcomeCount counts the entries received in a window that share the values
// of By, by their report class at AsOf.
type OutcomeCount struct {
	By      []string // in the order of ReportWindow.By
	Classes map[ReportClass]int
	Total   int // all entries, each in exactly one class
	Flagged int // those with an open flag at AsOf
}

// ReasonCount counts the failed attempts with one reason whose result was
// stored in a window.
type ReasonCount struct {
	By           []string
	Reason       string // Attempt.ReasonID
	Connector    string
	Operation    string
	Class        Class
	Code         string
	Text         string
	Count        int
	Previous     int // in the window of the same length before
	Unknown      int // of Count: the effect was unknown at AsOf
	HighRisk     int // of Count: the entry is of high risk
	Versions     []string
	FirstSeen    time.Time // ever, in whatever workflow
	LastSeen     time.Time // in the window
	SampleKey    string    // action key of the youngest entry counted
	RulesVersion int       // of the normaliser that made the text
}

// DuplicateColumns lists by what Duplicates can describe an entry.
func DuplicateColumns() []string { return slices.Clone(recordColumns) }

// Duplicate is an entry that was flagged in a window as one whose outcome came
// about twice, or another entry of the same outcome.
type Duplicate struct {
	By         []string // of the flagged entry, in the order of ReportWindow.By
	ActionKey  string
	OutcomeKey string
	FlaggedAt  time.Time // zero: flagged at another time, and here as the other one of Of
	Of         string    // action key of the entry whose other one this is; "" for a flagged one
	Reason     string    // with which it was flagged
	Open       bool      // the flag was open at AsOf
	// What is known of it; what came after AsOf is for the reader to leave out.
	Attempts []Attempt
	Evidence []Evidence
}

// RecoveryColumns lists what RecoveryCounts can group by.
func RecoveryColumns() []string { return OutcomeColumns() }

// RecoveryCount counts what became of the entries received in a window that
// share the values of By, as they stood at AsOf. docs/reports.md says what each
// figure means. Percentiles are by nearest rank: a value that occurred.
type RecoveryCount struct {
	By          []string
	Entries     int
	Tried       int // those whose first attempt ended, or whose answer is lost
	FirstFailed int // of Tried: those whose first attempt was no success
	Retried     int // of FirstFailed: those with a further attempt
	Recovered   int // of Retried: those applied, without a person saying so
	Applied     int
	Attempts    int // of those applied
	Ended       int // settled
	Failed      int // of Ended: not applied, other than blocked by a check
	Prevented   int // applied, and known only by a look: a resend would have been a second one

	RecoverTimed, SettleTimed int // how many the times below are of
	RecoverP50, RecoverP95    time.Duration
	SettleP50, SettleP95      time.Duration
}

// LookColumns lists what LookCounts can group by.
func LookColumns() []string { return slices.Clone(recordColumns) }

// LookCount counts looks at the entries that share the values of By. A look is
// one question about one entry: a call that asks about many is as many looks.
type LookCount struct {
	By             []string
	Looks          int // in the window, answered or not
	CouldNotAsk    int // of Looks: the question could not be put
	Settled        int // entries that came in open, were looked at, and were settled in the window, by whatever
	LooksOfSettled int // all looks at those, up to AsOf
}
