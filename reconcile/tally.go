package reconcile

import (
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Tally is what one pass did. Its JSON form is a contract (docs/rules.md, section 9).
type Tally struct {
	RunID         string        `json:"run_id"`
	Since         *time.Time    `json:"since"` // null: no bound
	Until         *time.Time    `json:"until"`
	DryRun        bool          `json:"dry_run"`
	OutsideWindow int           `json:"outside_window"`
	Counts        Counts        `json:"counts"`
	Entries       []EntryResult `json:"entries"`

	// Not of the contract's JSON.
	OldestOutside time.Time `json:"-"` // of the open entries that are due outside the window
	NeedPerson    int       `json:"-"` // entries of this pass that now wait for a person
	Notes         []string  `json:"-"` // for people, on stderr: paused lanes, alerts, held ledger
}

// Counts are the counts of one pass.
type Counts struct {
	LookedUp          int `json:"looked_up"`
	SettledApplied    int `json:"settled_applied"`
	SettledNotApplied int `json:"settled_not_applied"`
	Reopened          int `json:"reopened"`
	StillAmbiguous    int `json:"still_ambiguous"`
	CouldNotAsk       int `json:"could_not_ask"`
	Advanced          int `json:"advanced"`
	Sent              int `json:"sent"`
	WouldSend         int `json:"would_send"` // of a dry run
	Recovered         int `json:"recovered"`
	Blocked           int `json:"blocked"`
	Deferred          int `json:"deferred"`
	Released          int `json:"released"`
	Escalated         int `json:"escalated"`
	Skipped           int `json:"skipped"`
}

// EntryResult is what a pass did with one entry: the state it had at the
// start of the pass, and the one it was left in.
type EntryResult struct {
	ActionKey string             `json:"action_key"`
	From      ledger.State       `json:"from"`
	To        ledger.State       `json:"to"`
	Outcome   ledger.Outcome     `json:"outcome"`
	Class     ledger.ReportClass `json:"class"`
	Finding   ledger.Finding     `json:"finding"` // last one of this pass; "" where nothing was asked
	Reason    string             `json:"reason"`
	WouldSend bool               `json:"would_send,omitempty"` // of a dry run
}

// PassOptions say what one pass is to work on.
type PassOptions struct {
	Filter    ledger.Filter // window, workflow, connector, state
	Limit     int           // at most so many entries, those longest due first; 0: all
	DryRun    bool          // decide, write nothing, send nothing
	NoLookups bool          // ask nothing (only with DryRun)
	Keep      bool          // keep Tally.Entries; a daemon does without
	Steps     Steps         // which steps to run; none named: all, in their order

	// Progress, if set, is called now and then from one goroutine.
	Progress func(done, total int)
}

// Steps are the steps of a pass, in their order.
type Steps struct {
	Settle, Release, Advance, Escalate bool
}

// orAll is every step where none is named.
func (s Steps) orAll() Steps {
	if s == (Steps{}) {
		return Steps{true, true, true, true}
	}
	return s
}
