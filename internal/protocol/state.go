package protocol

// tick is a span of time, or what is left of one. Everything counts down to 0
// and stays there, so that the worlds are finite without a last moment.
type tick = int8

// standing is the state of the entry; person stands for escalated.
type standing uint8

const (
	inFlight standing = iota
	ambiguous
	retryable
	ready
	person
	settled
)

func (s standing) String() string {
	return [...]string{"in_flight", "ambiguous", "retryable", "ready", "escalated", "settled"}[s]
}

// entry is what the ledger holds. The model has one.
type entry struct {
	st       standing
	applied  bool // the outcome, where settled
	token    int8
	lease    tick // 0: nobody's
	cleared  tick // left of the clearance
	next     tick // until its work is due
	quiet    tick // until a negative can count
	apart    tick // until the next negative can count
	window   tick // left of the settle window
	key      tick // left of the life of its idempotency key
	driver   tick // left of the time in which the platform retries by itself
	negs     int8 // negatives that counted
	rows     int8 // answered looks in a row
	sends    int8 // attempts of ours begun
	remote   int8 // the effect it is known by, from 1; 0: none
	free     bool // an unknown attempt that nothing bounds
	unknown  bool // the effect is unknown
	earlier  bool // and was so of an attempt before the present one
	looked   bool // an answered look since the last attempt
	verify   bool // settled, and to be looked at once more
	flagged  bool // a duplicate was found
	doubted  bool // an attempt was unknown once, before the present one
	unproven bool // retryable without proof of absence, since the key refuses a second effect
}

// place is where a worker stands in its work on the entry.
type place uint8

const (
	idle      place = iota
	looking         // claimed for a look
	advancing       // claimed for an advance
	passed          // the gates let it on
	deciding        // has decided what becomes of the entry: to be written
	holding         // wrote ready; "started" comes next
	begun           // wrote "started"; the check at the wire comes next
	armed           // checked; the first byte comes next
	waiting         // for the answer
	answered        // has the result: to be written
)

// answer is what a send came to.
type answer uint8

const (
	noAnswer answer = iota // cut, or timed out: unknown
	okAnswer
	refusal // an answer that says that nothing was done
	unsent  // not a byte was handed over
)

// worker is one process at work. What it holds in memory goes with a kill.
type worker struct {
	at   place
	from standing // under which the claim holds
	e    entry    // the entry as claimed, or as decided
	wire tick     // left until its send_by
	ans  answer
	id   int8 // the effect named in the answer
}

// request is on its way to the system.
type request struct {
	by   int8 // 0: none
	from int8 // the worker that waits for its answer, from 1; 0: nobody
	left tick // until it can no longer take effect
}

const (
	byWorkflow int8 = 1
	byUs       int8 = 2
)

// effect is a record at the outside system.
type effect struct {
	by   int8
	show tick // until lookups must show it; 0: they do
	keep tick // left of the system's memory of its key
}

// Limits of a world.
const (
	maxWorkers  = 3
	maxRequests = 4
	maxEffects  = 3
)

// state is one moment of a world. It is comparable and has no pointers.
type state struct {
	e, snap entry // the ledger, and the standby's copy
	w       [maxWorkers]worker
	req     [maxRequests]request
	eff     [maxEffects]effect

	lag      bool // commits no longer reach the standby
	failed   bool // the standby took over
	replaced bool // and nobody has noticed yet
	kills    int8 // left
	blind    int8 // the lookup: 0 sees, 1 sees nothing, 2 mended
	blip     int8 // a stale replica answers: 0 not yet, 1 now, 2 over

	flow      int8 // requests that the workflow has still to send
	flowLeft  tick // left of the time in which it sends them, where it promised one
	flowSaw   int8 // the effect it was told of, and has not reported
	flowNews  bool // a request it has not reported
	flowAgain int8 // second attempts it may record
	wrote     bool // a stale token has just written; no part of the state that follows
}

// forever is a span that does not count down.
const forever tick = 100

func down(t *tick) {
	if *t > 0 && *t < forever {
		*t--
	}
}

func (e *entry) pass() {
	for _, t := range [...]*tick{&e.lease, &e.cleared, &e.next, &e.quiet, &e.apart, &e.window, &e.key, &e.driver} {
		down(t)
	}
}

// order gives what tells two workers apart.
func (w *worker) order() [20]int8 {
	e := &w.e
	bits := func(bs ...bool) (n int8) {
		for i, b := range bs {
			if b {
				n |= 1 << i
			}
		}
		return n
	}
	return [20]int8{int8(w.at), int8(w.from), w.wire, int8(w.ans), w.id, int8(e.st), e.token, e.next, e.quiet, e.apart, e.window, e.key,
		e.driver, e.negs, e.rows, e.sends, e.remote, e.lease<<4 | e.cleared,
		bits(e.free, e.unknown, e.earlier, e.looked), bits(e.verify, e.flagged, e.doubted, e.applied, e.unproven)}
}

// canonical brings a state into the one form that stands for all that differ
// only in the names of workers or in the values of tokens nobody can meet
// again. It returns which worker each place now has.
func (s *state) canonical(workers int8) (names [maxWorkers]int8) {
	names = [maxWorkers]int8{0, 1, 2}
	s.wrote = false
	for i := range s.w[:workers] {
		w := &s.w[i]
		if w.at == idle {
			*w = worker{}
		}
	}
	for i := int8(1); i < workers; i++ {
		for j := i; j > 0; j-- {
			a, b := s.w[j-1].order(), s.w[j].order()
			if !lessOrder(b, a) {
				break
			}
			s.w[j-1], s.w[j] = s.w[j], s.w[j-1]
			names[j-1], names[j] = names[j], names[j-1]
			for k := range s.req {
				switch s.req[k].from {
				case j:
					s.req[k].from = j + 1
				case j + 1:
					s.req[k].from = j
				}
			}
		}
	}

	// Requests are a set.
	for i := 1; i < len(s.req); i++ {
		for j := i; j > 0 && lessRequest(s.req[j], s.req[j-1]); j-- {
			s.req[j-1], s.req[j] = s.req[j], s.req[j-1]
		}
	}

	// Tokens only rise: one that is behind both ledger and standby is lost for
	// good (0), and without a standby to come one that is equal is all there is.
	base := s.e.token
	if s.lag && !s.failed {
		base = min(base, s.snap.token)
	} else {
		s.snap = entry{}
	}
	shift := base - 1
	s.e.token -= shift
	if s.lag && !s.failed {
		s.snap.token -= shift
	}
	for i := range s.w[:workers] {
		if w := &s.w[i]; w.at != idle {
			w.e.token = max(w.e.token-shift, 0)
		}
	}
	return names
}

func lessOrder(a, b [20]int8) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func lessRequest(a, b request) bool {
	if a.by != b.by {
		return a.by > b.by // empty places last
	}
	if a.left != b.left {
		return a.left < b.left
	}
	return a.from < b.from
}
