// Package reconcile decides what becomes of each entry and runs the passes
// that do it: which entries are due, what a finding means, what may be tried
// again, and when a job runs. It contains no SQL, no HTTP and no formatting.
package reconcile

import (
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Dispatch says who sends the next attempt.
type Dispatch string

// The dispatches. DispatchUnset takes the default: send in a policy that has
// retry, for operations that have a send; hold in any other case.
const (
	DispatchUnset    Dispatch = ""
	DispatchSend     Dispatch = "send"
	DispatchHandover Dispatch = "handover"
	DispatchHold     Dispatch = "hold"
)

// CheckMode says how a check binds.
type CheckMode string

// The check modes.
const (
	CheckRequired CheckMode = "required" // where nothing can read it, a person decides
	CheckDeclared CheckMode = "declared" // where the connector's check names it
	CheckNone     CheckMode = "none"
)

// OwnerMode says what happens when the record's owner changed or is inactive.
type OwnerMode string

// The owner modes. OwnerDefault is hold where the connector's check names an
// owner.
const (
	OwnerDefault  OwnerMode = ""
	OwnerTransfer OwnerMode = "transfer"
	OwnerHold     OwnerMode = "hold"
	OwnerNone     OwnerMode = "none"
)

// Notify says how an escalation is told. NotifyUnset is digest, and now for
// high risk.
type Notify string

// The kinds of notice.
const (
	NotifyUnset  Notify = ""
	NotifyNow    Notify = "now"
	NotifyDigest Notify = "digest"
	NotifyNone   Notify = "none"
)

// Match says which entries a policy is for. Empty fields match all.
type Match struct {
	Workflow  []string
	Step      string
	Operation string
	Connector string
	Risk      ledger.Risk
}

// Policy is a business promise: what may be tried again, how often and how
// long, by whom, and who owns what is left. Every field is resolved: an unset
// key of the file is the default of DefaultPolicy.
type Policy struct {
	Name  string // for people: "policies/lead.yaml" or "[[policy]] 2"; "default" where none matches
	Match Match

	Risk        ledger.Risk // "" adds nothing to the record's
	Dispatch    Dispatch
	HasRetry    bool // the policy has a retry block: it may send
	HandoverURL string
	Handover    string // secret that signs offers

	MaxAttempts int           // first try included
	MaxAge      time.Duration // from the first failure
	Backoff     Backoff
	Retryable   []ErrorMatch // with RetryableSet false: the temporary classes
	StopOn      []ErrorMatch // beats Retryable

	RetryableSet bool

	SettleFor    time.Duration
	SettleEvery  time.Duration
	PendingEvery time.Duration

	Consent          CheckMode
	Channel          string
	Lifecycle        CheckMode
	OwnerCheck       OwnerMode
	RefusedEscalates bool // checks.refused = "escalated"; else blocked

	FailedState bool // after_max_attempts.state = "failed": settled not_applied; else escalated
	Owner       string
	Due         time.Duration
	Allow       []ledger.Action
	Notify      Notify

	PlatformRetriesFor time.Duration
	Repeats            bool
}

// ErrorMatch is one entry of retryable or stop_on: a class, or an HTTP status.
type ErrorMatch struct {
	Class  ledger.Class
	Status int // 0: match by class
}

// Matches says whether a failure is meant.
func (m ErrorMatch) Matches(c ledger.Class, status int) bool {
	if m.Status != 0 {
		return m.Status == status
	}
	return m.Class == c
}

// BackoffKind is how waits grow.
type BackoffKind string

// The kinds of backoff.
const (
	BackoffExponential BackoffKind = "exponential"
	BackoffLinear      BackoffKind = "linear"
	BackoffFixed       BackoffKind = "fixed"
)

// Backoff says how long to wait before attempt n+1.
type Backoff struct {
	Kind   BackoffKind
	Base   time.Duration
	Factor float64 // of exponential
	Max    time.Duration
	Jitter float64 // up to this share is added, never taken away
}

// DefaultPolicy is what holds where a policy sets nothing (docs/rules.md,
// section 7, defaults). HasRetry is false: without a policy nothing is sent.
func DefaultPolicy() Policy {
	return Policy{
		Name:         "default",
		MaxAttempts:  3,
		MaxAge:       72 * time.Hour,
		Backoff:      Backoff{Kind: BackoffExponential, Base: 30 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2},
		SettleFor:    72 * time.Hour,
		SettleEvery:  time.Minute,
		PendingEvery: 10 * time.Minute,
		Consent:      CheckDeclared,
		Lifecycle:    CheckDeclared,
		Due:          24 * time.Hour,
		Allow:        ledger.Actions(),
	}
}

// Policies are all policies in their order; the first match wins.
type Policies struct {
	List    []Policy
	Version string // digest of the policies and definitions alone
}

// For returns the first policy that matches, else DefaultPolicy.
func (ps Policies) For(e ledger.Entry) Policy {
	for _, p := range ps.List {
		if p.Match.matches(e) {
			return p
		}
	}
	return DefaultPolicy()
}

func (m Match) matches(e ledger.Entry) bool {
	if len(m.Workflow) > 0 {
		hit := false
		for _, w := range m.Workflow {
			hit = hit || w == e.Workflow
		}
		if !hit {
			return false
		}
	}
	return (m.Step == "" || m.Step == e.StepID) &&
		(m.Operation == "" || m.Operation == e.Operation) &&
		(m.Connector == "" || m.Connector == e.Connector) &&
		(m.Risk == ledger.RiskNone || m.Risk == e.Risk.Higher(ledger.RiskNone))
}

// OwnerInfo is one [owners.X].
type OwnerInfo struct {
	ID     string // X
	Name   string
	IDs    []string // what outside systems call this owner
	Notify []string
	Next   string
}

// Owners are all known owners by id.
type Owners map[string]OwnerInfo

// ByExternal finds the owner that an outside system calls by this id, or that
// has this very name.
func (o Owners) ByExternal(id string) (OwnerInfo, bool) {
	if w, ok := o[id]; ok {
		return w, true
	}
	for _, w := range o {
		for _, x := range w.IDs {
			if x == id {
				return w, true
			}
		}
	}
	return OwnerInfo{}, false
}
