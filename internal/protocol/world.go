package protocol

// Provider is what the outside system offers.
type Provider uint8

// The kinds of outside system.
const (
	LookupOnly Provider = iota // it can be asked, and takes whatever comes
	Key                        // it can be asked, and refuses a second effect under one key
	NoLookup                   // neither
)

// First is how the entry comes into the ledger.
type First uint8

// The ways.
const (
	Unanswered  First = iota // the workflow sent, got no answer, and reported it
	Refused                  // the workflow was refused: nothing was done
	OnlyStarted              // the workflow reported "started" and no more, and promises nothing
	Promised                 // and promises a send_by
)

// World is what happens around one entry. Spans are in ticks; within them
// everything may take as long as it likes, and every worker may stop between
// any two steps for any time.
type World struct {
	Name     string
	Provider Provider
	First    First
	Workers  int8
	Sends    int8 // attempts that we may make
	Kills    int8 // workers that may be killed

	Timeout   tick // a call of ours: send_by is "started" + this
	Lands     tick // longest a request may still take effect
	Visible   tick // longest a lookup may not show it
	Spacing   tick // between two negatives
	Backoff   tick // between proven absent and the next attempt
	Lease     tick
	Clearance tick
	Window    tick // of settling
	Promise   tick // the workflow's own send_by, or when it is given up
	Within    tick // within which it sends what it did not promise; 0: whenever it likes
	Keeps     tick // how long the system remembers a key; 0: for ever
	Negatives int8 // that prove absence

	Failed     bool // after_max_attempts says failed: proven not_done is settled not_applied, else a person's
	StopAtWire bool // a worker may stop between the check of send_by and the first byte
	Resends    int8 // requests that the platform sends by itself
	Reports    bool // and reports
	Driver     tick // how long the platform says that it may
	Reruns     int8 // second attempts that the workflow records before it sends them, while we have begun none
	Overdue    tick // how much later than declared the workflow's request may take effect
	Lies       bool // an error may hide an effect
	Blind      bool // the credential may lose its sight
	Blip       bool // a stale replica may answer for a moment
	Failover   bool // a standby may take over without the last commits
	Later      bool // and that is noticed only by the next claim or "started", not at once
}

// base is the smallest world in which everything can go wrong that the
// protocol has to do with: an unanswered request of the workflow, a lookup, and
// two workers that may send once and be killed once.
func base(name string, change ...func(*World)) World {
	w := World{
		Name: name, Workers: 2, Sends: 1, Kills: 1, Negatives: 2, Failed: true,
		Timeout: 1, Lands: 1, Visible: 1, Spacing: 1, Lease: 2, Clearance: 2, Window: forever, Promise: 1,
	}
	for _, c := range change {
		c(&w)
	}
	return w
}
