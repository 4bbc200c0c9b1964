package protocol

import "strings"

// Guard is a set of rules of the protocol.
type Guard uint32

// The guards, one by one.
const (
	Quiet      Guard = 1 << iota // a negative counts only after the quiet period
	FromSendBy                   // the quiet period runs from send_by, not from "started"
	Wire                         // no first byte after send_by
	Token                        // a change is written only under the token and state of its claim
	Start                        // "started" tests token, state and lease, and renews the lease
	Negatives                    // as many counting negatives as the risk asks for
	Spacing                      // and these apart from each other
	Control                      // a negative counts only from a lookup that shows a record known to exist
	LookFirst                    // one answered look before a resend, with effect not_done too
	Promise                      // no negative counts against an attempt that nothing bounds
	Driver                       // nor while the platform says that it still retries by itself
	NewsVoid                     // news of somebody else's attempt voids claims and negatives
	KeyMargin                    // a key is relied on only while a request sent now lands within its life
	KeyAtSend                    // what goes on because of its key is held when the key has ended before the send
	Verify                       // an entry resent after an unknown attempt is looked at once more when its answer settles it
	VerifyAll                    // and when a look or a late answer does; never sooner than what is sent now must show
	LateFact                     // an answer is kept though its lease was lost
	LateLook                     // a late result that says nothing has a settled entry looked at once more

	// What follows on a failover that loses commits.
	Notice     // claim and "started" are refused on a replaced database until the generation is raised
	AllUnknown // raising it makes unknown what was due or at work
	Nonce      // a claim is told from another with the same token
	VoidClaims // raising it voids all claims
	QuietAnew  // raising it voids negatives and looks, and starts quiet periods at now plus the longest call
	FindServer // findings are refused on a replaced database until the generation is raised

	// ExtraLook is no rule of the product: one more look before each send,
	// which is what people try in place of a generation.
	ExtraLook

	// Safe is every rule that the protocol needs.
	Safe = ExtraLook - 1
)

// guardInfo says what a guard is, and which symbols of the product implement it.
type guardInfo struct {
	guard   Guard
	name    string
	rule    string
	symbols string // "" where the product has none
}

// Guards lists the guards of Safe in their order.
func guards() []guardInfo {
	return []guardInfo{
		{Quiet, "quiet", "a negative counts only after `send_by` + `lands_within` + `visible_within`", "`reconcile.quietUntil`, `Judgement.negative` (`too_early`)"},
		{FromSendBy, "from_send_by", "that period runs from `send_by`, not from \"started\"", "`reconcile.Summarize` (`Entry.SendBy`), query `start`"},
		{Wire, "wire", "no first byte goes out after `send_by`, by a clock that runs on through a stop", "`httpclient.guardedConn.Write`, `httpclient.running`"},
		{Token, "token", "a change is written only under the token, holder and state of its claim", "`sqlstore.permitted`, `sqlstore.holdsLease`, query `apply`"},
		{Start, "start", "\"started\" tests token, holder, state, lease and clearance in the statement that writes, and renews the lease", "query `start`, `Store.Start`"},
		{Negatives, "negatives", "absence takes as many counting negatives as the risk asks for", "`reconcile.negativesNeeded`"},
		{Spacing, "spacing", "and these `absent_spacing` apart, each dated by its own call", "`Judgement.negative` (`too_close`), `result`"},
		{Control, "control", "a negative counts only from a lookup that has just shown a record known to exist", "`Judgement.negative` (`no_control`), `Engine.controlNow`"},
		{LookFirst, "look_first", "one answered look since the last attempt before a resend, with effect `not_done` too", "`reconcile.NeedsLook`, `run.lookFirst`"},
		{Promise, "promise", "no negative counts against an attempt that nothing bounds", "`Judgement.negative` (`no_send_by`), `Entry.Unbounded`"},
		{Driver, "driver", "nor while the platform says that it still retries by itself", "`Judgement.negative` (`platform_retries`), `reconcile.Driving`"},
		{NewsVoid, "news_void", "news of somebody else's attempt voids claims and negatives", "`reconcile.place`, query `entry_update` (raises the token)"},
		{KeyMargin, "key_margin", "a key counts as alive only while a request sent now would land within its life", "`reconcile.KeyAlive`"},
		{KeyAtSend, "key_at_send", "an entry that goes on because its key refuses a second effect is held once the key has ended", "`reconcile.GateApproval` (`unproven`)"},
		{Verify, "verify", "an entry resent after an unknown attempt is looked at once more after the quiet period, although the resend was answered", "`reconcile.AfterSend` (`ledger.VerifyAt`), `reconcile.verified`"},
		{VerifyAll, "verify_all", "and so is one that a look or a late answer settles; never before `lands_within` + `visible_within` from now", "`Setting.applied`, `Setting.lookOnceMore`"},
		{LateFact, "late_fact", "an answer is kept though its lease was lost, and what it contradicts is flagged", "`Store.Apply` (facts), `run.late`, `reconcile.AfterLate`"},
		{LateLook, "late_look", "a late result that says nothing has a settled entry looked at once more", "`reconcile.AfterLate`, `Setting.lookOnceMore`"},
		{Notice, "notice", "claim and \"started\" are refused on a replaced database until the generation is raised", "fragment `same server` in queries `claim` and `start`, `Store.claimTime`"},
		{AllUnknown, "all_unknown", "raising it makes unknown every open entry that was due or at work", "`Store.raiseGeneration`, query `lost_entries`"},
		{Nonce, "nonce", "a claim is told from a lost one that had the same token", "`sqlstore.holdsLease` (holder), query `claims_void` (tokens leap)"},
		{VoidClaims, "void_claims", "raising it voids all claims", "query `claims_void`"},
		{QuietAnew, "quiet_anew", "raising it voids negatives and looks, and starts quiet periods at now plus the longest call", "queries `lost_entries`, `negatives_void`, `quiet_again`"},
		{FindServer, "find_server", "findings too are refused on a replaced database until the generation is raised", "`Store.Apply` (`ErrGeneration`)"},
	}
}

func (g Guard) has(o Guard) bool { return g&o != 0 }

// String names the guards of a set, "all" for Safe.
func (g Guard) String() string {
	if g == Safe {
		return "all"
	}
	var l []string
	for _, i := range guards() {
		if g.has(i.guard) {
			l = append(l, i.name)
		}
	}
	if g.has(ExtraLook) {
		l = append(l, "extra_look")
	}
	return strings.Join(l, " ")
}
