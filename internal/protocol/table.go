package protocol

// Row is a world under some of the guards, and what must come of it.
type Row struct {
	World  World
	Guards Guard
	Want   Harm // that is found, among others; "": clean

	// Beyond: what follows a duplicate is explored too, and it must always be
	// found and flagged.
	Beyond bool
}

// ungenerated is the protocol without anything that answers a failover.
const ungenerated = Safe &^ (Notice | AllUnknown | Nonce | VoidClaims | QuietAnew | FindServer)

// table is what a model of this protocol showed before there was any code
// (the worlds and their results are part of its specification): each must come
// out the same here.
func table() []Row {
	resends := func(w *World) { w.Resends = 1 }
	return []Row{
		{base("all guards, lookup only, two negatives"), Safe, "", false},
		{base("all guards, lookup only, one negative", func(w *World) { w.Negatives = 1 }), Safe, "", false},
		{base("quiet period not waited for"), Safe &^ Quiet, Duplicate, false},
		{base("no token guard on findings"), Safe &^ Token, Duplicate, false},
		{base("quiet period counted from \"started\", no check of send_by at the wire", twice), Safe &^ Wire, Duplicate, false},
		{base("the same with the check", twice), Safe, "", false},
		{base("\"started\" neither tests nor renews the lease", twice), Safe &^ Start, Duplicate, false},
		{base("stop in the instant between check and write, lookup only", twice, stops), Safe, Duplicate, false},
		{base("the same with a key", twice, stops, key, asked), Safe, "", false},
		{base("a workflow's attempt only \"started\", given up by time", given(OnlyStarted)), Safe &^ Promise, Duplicate, false},
		{base("it promises send_by", given(Promised)), Safe, "", false},
		{base("it promises nothing, with a key", given(OnlyStarted), key), Safe, "", false},
		{base("the platform sends again by itself", resends), Safe, Duplicate, false},
		{base("and reports it", resends, func(w *World) { w.Reports = true }), Safe, Duplicate, false},
		{base("it sends again by itself, with a key", resends, key, asked), Safe, "", false},
		{base("failover loses claim and \"started\"", fails), ungenerated, Duplicate, false},
		{base("one more look before each send", fails), ungenerated | ExtraLook, Duplicate, false},
		{base("all open entries made unknown", fails), ungenerated | AllUnknown, Duplicate, false},
		{base("plus a nonce per claim", fails), ungenerated | AllUnknown | Nonce, Duplicate, false},
		{base("only old claims void", fails), ungenerated | Nonce | VoidClaims, Duplicate, false},
		{base("both and quiet periods anew", fails), ungenerated | AllUnknown | Nonce | VoidClaims | QuietAnew, "", false},
	}
}

func key(w *World) { w.Provider = Key }

// asked has a person decide what the attempts could not.
func asked(w *World) { w.Failed = false }

func twice(w *World) { w.First, w.Sends = Refused, 2 }

func given(f First) func(*World) {
	return func(w *World) {
		if w.First = f; f == OnlyStarted {
			w.Window = 6 // nothing else may end it
		}
	}
}

// worlds are more of them, with what must come of each under all guards.
func worlds() []Row {
	return []Row{
		{base("nothing to look up with", func(w *World) { w.Provider = NoLookup }), Safe, "", false},
		{base("refused first, two attempts, two kills", twice, func(w *World) { w.Kills = 2 }), Safe, "", false},
		{base("nothing promised, lookup only", given(OnlyStarted)), Safe, "", false},
		{base("the platform says how long it sends again", driving), Safe, "", false},
		{base("the workflow records a second attempt before it sends it", reruns), Safe, "", false},
		{base("an error hides an effect, the lookup shows its own writes", lies), Safe, "", false},
		{base("the credential loses its sight", blind), Safe, "", false},
		{base("a stale replica answers for a moment", blip), Safe, "", false},
		{base("a key that ends", ends), Safe, "", false},
		{base("failover, noticed by the next claim or \"started\"", fails, later), Safe, "", false},
		{base("failover of an entry that was ambiguous, noticed later", ambiguousFails, later), Safe, "", false},
		{base("stop in the instant between check and write: found", twice, stops, asked, alive), Safe, Duplicate, true},
		{base("a request lands later than declared: found", overdue), Safe, Duplicate, true},
	}
}

// planted has, for each guard, a world in which its removal does harm, that is
// clean (or in which every duplicate is found) with it.
func planted() []Row {
	return []Row{
		{base("a negative counts at once"), Quiet, Duplicate, false},
		{base("the quiet period runs from started", twice, slow), FromSendBy, Duplicate, false},
		{base("the wire does not look at send_by", twice), Wire, Duplicate, false},
		{base("a stale claim may write"), Token, Duplicate, false},
		{base("started tests nothing", twice), Start, Duplicate, false},
		{base("one negative is enough", blip), Negatives, Duplicate, false},
		{base("negatives may follow at once", blip), Spacing, Duplicate, false},
		{base("no control", blind), Control, Duplicate, false},
		{base("a refusal is believed without a look", lies), LookFirst, Duplicate, false},
		{base("an attempt without bound is given up by time", given(OnlyStarted)), Promise, Duplicate, false},
		{base("the platform's own retries are not waited for", driving), Driver, Duplicate, false},
		{base("news of another attempt voids nothing", reruns), NewsVoid, Duplicate, false},
		{base("a key is used to its last moment", ends), KeyMargin, Duplicate, false},
		{base("a key is not looked at again before the send", ends), KeyAtSend, Duplicate, false},
		{base("a resent entry is not looked at once more", overdue), Verify, Hidden, true},
		{base("an entry settled by a look or a late answer is not looked at once more", twice, stops, asked, alive), VerifyAll, Hidden, true},
		{base("a late answer is thrown away", twice, stops, asked, alive), LateFact, Hidden, true},
		{base("a late result that says nothing is passed over", twice, stops, asked, alive), LateLook, Hidden, true},
		{base("a failover is not noticed", fails, later), Notice | FindServer, Duplicate, false},
		{base("the raise makes nothing unknown", fails, later), AllUnknown, Duplicate, false},
		{base("lost claims are met again", ambiguousFails, later), Nonce, Duplicate, false},
		{base("old claims live on", ambiguousFails, later), VoidClaims, Duplicate, false},
		{base("quiet periods run on", fails, later), QuietAnew, Duplicate, false},
		{base("a finding is written to a replaced database", ambiguousFails, later), FindServer, Duplicate, false},
	}
}

func stops(w *World)  { w.StopAtWire = true }
func alive(w *World)  { w.Kills = 0 }
func blip(w *World)   { w.Blip = true }
func blind(w *World)  { w.Blind = true }
func reruns(w *World) { w.Reruns = 1 }
func slow(w *World)   { w.Timeout = 3 }
func later(w *World)  { w.Later, w.Backoff = true, 2 }

// fails: what was sent in the lost span is not counted, so that one attempt is
// two.
func fails(w *World) { w.First, w.Failover, w.Kills = Refused, true, 0 }

func ambiguousFails(w *World) { w.Failover, w.Kills = true, 0 }

func driving(w *World) { w.Resends, w.Driver = 1, 4 }

func lies(w *World) { w.First, w.Sends, w.Lies, w.Visible, w.Failed = Refused, 2, true, 0, false }

func overdue(w *World) { w.Overdue, w.Negatives, w.Failed = 2, 1, false }

// ends: a key that is remembered for a while, and an attempt that nothing
// bounds, so that only the key allows another one.
func ends(w *World) {
	w.Provider, w.First, w.Keeps, w.Timeout, w.Window, w.Failed = Key, OnlyStarted, 9, 4, 4, false
	w.Within = 3
}
