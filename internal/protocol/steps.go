package protocol

import "fmt"

// step is one thing that happens.
type step struct {
	what string // with %s for the worker's name, where there is one
	who  int8   // worker, from 1; 0: none
}

func (st step) text(names [maxWorkers]int8) string {
	if st.who == 0 {
		return st.what
	}
	return fmt.Sprintf("worker %c ", 'A'+rune(names[st.who-1])) + st.what
}

// model is a world with its rules.
type model struct {
	World
	guards  Guard
	telling bool // the steps are to be named
	emit    func(step, state)
}

func (m *model) has(g Guard) bool { return m.guards.has(g) }

// each gives every step that is possible from a state, and what follows.
func (m *model) each(s state, emit func(step, state)) {
	m.emit = emit
	for i := range m.Workers {
		m.worker(s, i)
	}
	m.requests(s)
	m.workflow(s)
	m.faults(s)
	m.clock(s)
}

// start is the first moment of the world.
func (m *model) start() state {
	s := state{kills: m.Kills}
	e := &s.e
	e.token = 1
	e.window, e.key = m.Window, forever
	if m.Keeps > 0 {
		e.key = m.Keeps
	}
	quiet := m.shows()
	switch m.First {
	case Unanswered:
		e.st, e.unknown, e.quiet = ambiguous, true, quiet
		s.req[0] = request{by: byWorkflow, left: m.Lands + m.Overdue}
	case Refused:
		e.st = retryable
	case OnlyStarted, Promised:
		e.st, e.unknown, s.flow = inFlight, true, 1
		e.next = m.Promise
		if m.First == Promised {
			s.flowLeft = m.Promise
			e.quiet = m.Promise + quiet - 1 // it is sent before that, not at it
		} else {
			s.flowLeft = m.Within
			if m.Within == 0 {
				s.flowLeft = forever
			}
			if e.quiet, e.free = quiet, m.has(Promise); !e.free {
				e.quiet += e.next // given up by time, and counted from then
			}
		}
	}
	if m.Resends > 0 {
		s.flow, s.flowLeft = s.flow+m.Resends, forever
		if m.Driver > 0 {
			s.flowLeft = m.Driver
			if m.has(Driver) {
				e.driver = m.Driver
				e.quiet = m.Driver + quiet - 1
				// What was reported is not all that is sent.
				e.st, e.unknown = ambiguous, true
			}
		}
	}
	s.flowAgain = m.Reruns
	s.canonical(m.Workers)
	return s
}

// shows is how long it takes until what is sent now shows for certain, if it
// takes effect at all: a negative counts only if asked after lands_within and
// visible_within, not at their end.
func (m *model) shows() tick { return m.Lands + m.Visible + 1 }

// worker gives the steps of one worker.
func (m *model) worker(s state, i int8) {
	do := func(n state, what string, args ...any) {
		st := step{who: i + 1}
		if m.telling {
			st.what = fmt.Sprintf(what, args...)
		}
		m.emit(st, n)
	}
	w := s.w[i]
	switch w.at {
	case idle:
		m.claim(s, i, do)
	case looking:
		m.look(s, i, do)
	case advancing:
		e := w.e
		if e.sends >= m.Sends {
			n := s
			n.w[i].e, n.w[i].at = m.exhausted(e), deciding
			do(n, "finds the attempts used up")
			return
		}
		if m.Provider != NoLookup && (!e.looked && m.has(LookFirst) || m.has(ExtraLook)) {
			m.look(s, i, do)
			return
		}
		n := s
		n.w[i].at = passed
		do(n, "goes through the checks")
	case passed:
		n := s
		e := w.e
		e.st, e.cleared = ready, m.Clearance
		if m.write(&n, i, e, true) {
			n.w[i].at, n.w[i].from = holding, ready
			do(n, "writes ready: cleared for %d", m.Clearance)
		} else {
			n.w[i] = worker{}
			do(n, "may not write ready: its claim is over")
		}
	case deciding:
		n := s
		ok := m.write(&n, i, w.e, false)
		n.w[i] = worker{}
		if ok {
			do(n, "writes %s", describe(w.e))
		} else {
			do(n, "may not write %s: its claim is over", describe(w.e))
		}
	case holding:
		m.begin(s, i, do)
	case begun:
		n := s
		if w.wire == 0 && m.has(Wire) {
			n.w[i].at, n.w[i].ans = answered, unsent
			do(n, "refuses the first byte: send_by is over")
			return
		}
		n.w[i].at = armed
		if m.StopAtWire {
			do(n, "checks send_by: not over")
			return
		}
		m.send(n, i, do)
	case armed:
		m.send(s, i, do)
	case waiting:
		n := s
		n.w[i].at, n.w[i].ans = answered, noAnswer
		for k := range n.req {
			if n.req[k].from == i+1 {
				n.req[k].from = 0
			}
		}
		do(n, "gets no answer and gives up")
	case answered:
		m.result(s, i, do)
	}
}

func describe(e entry) string {
	switch {
	case e.st == settled && e.applied:
		return "settled applied"
	case e.st == settled:
		return "settled not_applied"
	}
	return e.st.String()
}

// claim leases the entry, if it is due.
func (m *model) claim(s state, i int8, do func(state, string, ...any)) {
	e := s.e
	if s.replaced && m.has(Notice) {
		m.raise(s, i, do) // by a claim of any entry
		return
	}
	switch {
	case e.lease > 0 || e.next > 0 || e.st == person || e.st == settled && !e.verify:
		return
	case s.lag && !s.failed && e.token-s.snap.token >= 4:
		return // the lost span is longer than the model follows
	}
	n := s
	n.e.token++
	n.e.lease = m.Lease
	w := worker{at: looking, from: e.st, e: n.e}
	w.e.lease, w.e.cleared = 0, 0
	if e.st == retryable || e.st == ready {
		w.at = advancing
		w.e.st = retryable
	}
	n.w[i] = w
	do(n, "claims the entry (%s)", describe(e))
}

// raise answers a database that lost commits.
func (m *model) raise(s state, i int8, do func(state, string, ...any)) {
	n := s
	n.replaced = false
	m.raised(&n)
	do(n, "notices the failover and raises the generation")
}

func (m *model) raised(n *state) {
	e := &n.e
	if e.st == settled {
		return
	}
	if m.has(AllUnknown) && (e.st == inFlight || e.lease > 0 || e.next == 0 && e.st != person) {
		if e.st == retryable || e.st == ready {
			e.st = ambiguous
		}
		e.unknown, e.next, e.cleared, e.unproven = true, 0, 0, false
		e.earlier, e.doubted = true, true
		e.negs, e.rows = 0, 0
		if m.has(QuietAnew) {
			e.quiet = max(e.quiet, m.Timeout+m.Lands+m.Visible)
		}
	}
	if m.has(QuietAnew) {
		e.negs, e.apart, e.looked = 0, 0, false
	}
	if m.has(VoidClaims) {
		e.token++
		e.lease = 0
	}
}

// shown is how many effects a lookup shows now, and the first of them.
func (s *state) shown() (n, id int8) {
	if s.blind == 1 || s.blip == 1 {
		return 0, 0
	}
	for k := range s.eff {
		if s.eff[k].by != 0 && s.eff[k].show == 0 {
			if n++; id == 0 {
				id = int8(k) + 1
			}
		}
	}
	return n, id
}

// look asks the system, and decides.
func (m *model) look(s state, i int8, do func(state, string, ...any)) {
	n := s
	w := &n.w[i]
	e := w.e
	w.at = deciding
	if m.Provider == NoLookup {
		if e.st == settled {
			e.verify = false
		} else {
			e.st = person
		}
		w.e = e
		do(n, "cannot ask this system: a person decides")
		return
	}
	if s.blind == 1 && m.has(Control) {
		*w = worker{}
		if m.holds(s.e, s.w[i]) {
			n.e.lease = 0
		}
		do(n, "looks; the control does not show either, so that nothing was asked")
		return
	}
	shown, id := s.shown()
	e.looked = true
	switch {
	case e.st == settled:
		e.verify = false
		e.flagged = e.flagged || shown > 1 || shown == 1 && id != e.remote
		w.e = e
		do(n, "looks once more; %d show", shown)
	case shown > 1:
		e.st, e.flagged = person, true
		w.e = e
		do(n, "looks; %d records show: a duplicate", shown)
	case shown == 1:
		w.e = m.applied(e, id, VerifyAll)
		do(n, "looks; the effect shows")
	case e.st == retryable:
		w.e, w.at = e, passed
		do(n, "looks; nothing shows, and goes through the checks")
	default:
		next, why := m.none(e)
		w.e = next
		do(n, "looks; nothing shows: %s", why)
	}
}

// none decides what follows from an answered look that shows nothing.
func (m *model) none(e entry) (next entry, why string) {
	e.st = ambiguous
	e.rows = min(e.rows+1, m.Negatives)
	need := m.Negatives
	if !m.has(Negatives) {
		need = 1
	}
	quiet := e.quiet == 0 || !m.has(Quiet)
	switch {
	case e.driver > 0:
		why = "the platform may still send"
	case e.free:
		why = "nothing bounds the attempt"
		if quiet && e.rows >= m.Negatives && m.keyAlive(e) {
			e.st, e.next, e.unproven = retryable, m.Backoff, true
			return e, "the key refuses a second effect: tried again without proof"
		}
	case !quiet:
		why = "too early"
	case e.apart > 0 && m.has(Spacing):
		why = "too close to the negative before"
	default:
		e.negs++
		e.apart = m.Spacing
		if e.negs >= need {
			e.negs = 0
			e.unknown, e.earlier, e.doubted = false, false, true
			return m.notDone(e), "the last negative needed: absent"
		}
		why = "a negative that counts"
	}
	if e.window == 0 {
		e.st = person
		why += "; the settle window is over: a person decides"
	}
	return e, why
}

// keyAlive says whether the system refuses a second effect under the entry's key.
func (m *model) keyAlive(e entry) bool {
	switch {
	case m.Provider != Key:
		return false
	case m.Keeps == 0:
		return true
	case m.has(KeyMargin):
		return e.key > m.Timeout+m.Lands
	}
	return e.key > 0
}

// notDone goes on from a proven not_done.
func (m *model) notDone(e entry) entry {
	if e.sends >= m.Sends {
		return m.exhausted(e)
	}
	e.st, e.next, e.rows, e.unproven = retryable, m.Backoff, 0, false
	return e
}

// exhausted ends an entry whose attempts are used up: a person's, or not_applied
// where that is proven and the policy says state = "failed".
func (m *model) exhausted(e entry) entry {
	if e.unknown || !m.Failed {
		e.st = person
		return e
	}
	return settle(e, false)
}

func settle(e entry, applied bool) entry {
	e.st, e.applied = settled, applied
	e.unknown, e.earlier, e.free, e.unproven, e.verify = false, false, false, false, false
	e.next, e.quiet, e.apart, e.window, e.cleared, e.driver = 0, 0, 0, 0, 0, 0
	e.negs, e.rows, e.looked = 0, 0, false
	return e
}

// applied settles an entry by the effect given. Where another attempt may have
// had one too, and g is kept, it is looked at once more when that must show.
func (m *model) applied(e entry, id int8, g Guard) entry {
	quiet, others := e.quiet, e.doubted || e.earlier
	e = settle(e, true)
	e.remote = id
	if others && m.has(g) && m.Provider != NoLookup {
		e.verify, e.next = true, quiet
		if m.has(VerifyAll) {
			e.next = max(quiet, m.shows())
		}
	}
	return e
}

// holds says whether a worker's claim still gives the right to write.
func (m *model) holds(stored entry, w worker) bool {
	return w.e.token == stored.token && w.from == stored.st
}

// write is the guarded door. keep: the lease stays.
func (m *model) write(n *state, i int8, next entry, keep bool) bool {
	w := n.w[i]
	ok := m.holds(n.e, w)
	if n.replaced && m.has(FindServer) {
		return false
	}
	if !ok && m.has(Token) {
		return false
	}
	n.wrote = n.wrote || !ok
	token, lease := n.e.token, n.e.lease
	n.e = next
	n.e.token, n.e.lease = token, 0
	if keep {
		n.e.lease = lease
	}
	if next.st != ready {
		n.e.cleared = 0
	}
	return true
}

// begin writes "started".
func (m *model) begin(s state, i int8, do func(state, string, ...any)) {
	n := s
	w := &n.w[i]
	stop := func(why string) {
		if m.holds(s.e, s.w[i]) {
			n.e.lease = 0
		}
		*w = worker{}
		do(n, "may not write started: %s", why)
	}
	switch {
	case m.has(Start) && !(m.holds(s.e, s.w[i]) && s.e.st == ready && s.e.lease > 0):
		stop("its claim is over")
		return
	case m.has(Start) && s.e.cleared == 0:
		stop("the clearance is over")
		return
	case s.replaced && m.has(Notice):
		stop("the database was replaced")
		return
	case w.e.unproven && m.has(KeyAtSend) && !m.keyAlive(w.e):
		if m.holds(s.e, s.w[i]) {
			n.e.st, n.e.unproven, n.e.lease, n.e.cleared = person, false, 0, 0
		}
		*w = worker{}
		do(n, "may not write started: its key has ended; a person decides")
		return
	}
	n.wrote = n.wrote || !m.holds(s.e, s.w[i])
	e := w.e
	e.token = s.e.token
	e.st, e.lease, e.cleared = inFlight, s.e.lease, 0
	if m.has(Start) {
		e.lease = m.Lease
	}
	e.next = max(m.Timeout, m.Lease)
	e.quiet = max(e.quiet, m.sentQuiet())
	e.doubted = e.doubted || e.unknown
	e.earlier, e.unknown = e.unknown, true
	e.negs, e.rows, e.apart, e.looked, e.unproven = 0, 0, 0, false, false
	e.sends++
	if e.sends == 1 && m.Keeps > 0 && !e.doubted {
		e.key = m.Keeps
	}
	n.e = e
	w.at, w.from, w.wire = begun, inFlight, m.Timeout
	w.e = e
	w.e.lease = 0
	do(n, "writes started: send_by in %d", m.Timeout)
}

// sentQuiet is the quiet period of an attempt of ours that begins now.
func (m *model) sentQuiet() tick {
	if !m.has(FromSendBy) {
		return m.Lands + m.Visible
	}
	return m.Timeout + m.Lands + m.Visible
}

// send hands the request over.
func (m *model) send(s state, i int8, do func(state, string, ...any)) {
	n := s
	n.w[i].at, n.w[i].wire = waiting, 0
	if n.put(request{by: byUs, from: i + 1, left: m.Lands}) {
		do(n, "puts the request on the wire")
	}
}

func (s *state) put(r request) bool {
	for k := range s.req {
		if s.req[k].by == 0 {
			s.req[k] = r
			return true
		}
	}
	return false
}

// result writes what a send came to.
func (m *model) result(s state, i int8, do func(state, string, ...any)) {
	n := s
	w := s.w[i]
	ok := m.holds(s.e, w) && !(s.replaced && m.has(FindServer))
	n.w[i] = worker{}
	if !ok {
		if m.has(LateFact) {
			m.late(&n, w)
		}
		do(n, "brings the result (%s) after its lease was lost", w.ans)
		return
	}
	e := w.e
	switch {
	case w.ans == okAnswer:
		e = m.applied(e, w.id, Verify)
	case w.ans == noAnswer:
		e.st, e.next = ambiguous, 0
	case e.earlier:
		e.st, e.next = ambiguous, 0
	default:
		e.unknown = false
		e = m.notDone(e)
	}
	token := n.e.token
	n.e = e
	n.e.token, n.e.lease = token, 0
	do(n, "writes the result (%s): %s", w.ans, describe(e))
}

func (a answer) String() string {
	return [...]string{"no answer", "done", "refused", "not sent"}[a]
}

// late brings the result of a send to an entry that has moved on. It is written
// under the row's lock, without a lease: the token rises.
func (m *model) late(n *state, w worker) {
	e := n.e
	switch {
	case e.st == settled && w.ans == okAnswer:
		e.flagged = e.flagged || !e.applied || e.remote != w.id
	case e.st == settled && w.ans == noAnswer && m.has(LateLook) && m.Provider != NoLookup:
		e.verify, e.next = true, m.shows()
	case e.st == settled:
	case w.ans == okAnswer:
		e = m.applied(e, w.id, VerifyAll)
	case w.ans == noAnswer && (e.st == retryable || e.st == ready):
		e.st, e.unknown, e.next = ambiguous, true, 0
	}
	e.token = n.e.token + 1
	e.lease, e.cleared = 0, 0
	n.e = e
}

// requests lets what is on its way take effect, be refused, or be lost.
func (m *model) requests(s state) {
	for k, r := range s.req {
		if r.by == 0 || k > 0 && r == s.req[k-1] {
			continue
		}
		told := func(n *state, a answer, id int8) {
			n.req[k] = request{}
			if r.from > 0 {
				n.w[r.from-1].at, n.w[r.from-1].ans, n.w[r.from-1].id = answered, a, id
			}
		}
		whose := "the workflow's request"
		if r.by == byUs {
			whose = "our request"
		}
		say := func(n state, what string) {
			if m.telling {
				what = whose + what
			}
			m.emit(step{what: what}, n)
		}
		n := s
		id, fresh := m.land(&n, r.by)
		if id == 0 {
			continue
		}
		did := " takes effect"
		if !fresh {
			did = " is known by its key: no second effect"
		}
		if r.by == byWorkflow {
			n.req[k] = request{}
			say(n, did+"; its answer is lost")
			if m.First == OnlyStarted || m.First == Promised {
				n.flowSaw = id
				say(n, did+" and is answered")
			}
			continue
		}
		if r.from == 0 {
			n.req[k] = request{}
			say(n, did+", late")
			continue
		}
		ok, lost, lie := n, n, n
		told(&ok, okAnswer, id)
		say(ok, did+" and is answered")
		lost.req[k] = request{}
		say(lost, did+"; its answer is lost")
		if m.Lies {
			told(&lie, refusal, 0)
			say(lie, did+", and is answered with an error that says nothing was done")
		}
		no := s
		told(&no, refusal, 0)
		say(no, " is refused")
	}
}

// land lets a request take effect, unless the system knows its key. It returns
// the effect, 0 where the model has no more room.
func (m *model) land(n *state, by int8) (id int8, fresh bool) {
	for k := range n.eff {
		f := &n.eff[k]
		if m.Provider == Key && f.by != 0 && f.keep > 0 {
			return int8(k) + 1, false
		}
	}
	for k := range n.eff {
		f := &n.eff[k]
		if f.by == 0 {
			*f = effect{by: by, show: m.Visible, keep: forever}
			if m.Keeps > 0 {
				f.keep = m.Keeps
			}
			return int8(k) + 1, true
		}
	}
	return 0, false
}

// workflow gives the steps of the first sender.
func (m *model) workflow(s state) {
	do := func(n state, what string) { m.emit(step{what: what}, n) }
	if s.flow > 0 && s.flowLeft > 0 {
		n := s
		n.flow--
		if n.put(request{by: byWorkflow, left: m.Lands + m.Overdue}) {
			n.flowNews = m.Reports
			what := "the workflow sends its request"
			if m.Resends > 0 {
				what = "the platform sends again by itself"
			}
			do(n, what)
		}
	}
	if s.flowNews {
		n := s
		n.flowNews = false
		m.news(&n, m.shows())
		do(n, "the platform reports that attempt as unknown")
	}
	if s.flowSaw > 0 {
		n := s
		e := n.e
		if e.st == settled {
			e.flagged = e.flagged || !e.applied || e.remote != s.flowSaw
		} else {
			e = m.applied(e, s.flowSaw, Verify)
		}
		e.token, e.lease = n.e.token+1, 0
		n.e, n.flowSaw = e, 0
		do(n, "the workflow reports its success")
	}
	if s.flowAgain > 0 && s.e.sends == 0 && (s.e.st == ambiguous || s.e.st == retryable || s.e.st == ready) {
		n := s
		n.flowAgain--
		n.flow, n.flowLeft = 1, m.Promise
		m.news(&n, m.Promise+m.shows()-1)
		do(n, "the workflow records a second attempt, with a send_by")
	}
}

// news records an attempt of somebody else whose effect is unknown.
func (m *model) news(n *state, quiet tick) {
	e := &n.e
	e.quiet = max(e.quiet, quiet)
	if e.st == settled {
		if m.Provider != NoLookup {
			e.verify, e.next = true, max(e.next, quiet)
		}
		e.quiet = 0
		return
	}
	e.st, e.unknown, e.earlier, e.unproven, e.next, e.cleared = ambiguous, true, true, false, 0, 0
	if m.has(NewsVoid) {
		e.negs, e.rows, e.looked = 0, 0, false
		e.token++
		e.lease = 0
	}
}

// faults gives kills, failovers and a lookup that sees less than it should.
func (m *model) faults(s state) {
	if s.kills > 0 {
		for i := range m.Workers {
			if s.w[i].at == idle {
				continue
			}
			n := s
			n.kills--
			n.w[i] = worker{}
			for k := range n.req {
				if n.req[k].from == i+1 {
					n.req[k].from = 0
				}
			}
			m.emit(step{"is killed", i + 1}, n)
		}
	}
	if m.Failover && !s.lag {
		n := s
		n.lag, n.snap = true, s.e
		m.emit(step{what: "commits no longer reach the standby"}, n)
	}
	if m.Failover && s.lag && !s.failed {
		n := s
		n.failed, n.replaced = true, true
		n.e, n.snap = s.snap, entry{}
		if m.has(Nonce) {
			for i := range n.w { // a claim that was lost is nobody's
				if n.w[i].e.token > n.e.token {
					n.w[i].e.token = 0
				}
			}
		}
		what := "the standby takes over; what was committed since is lost"
		if !m.Later {
			n.replaced = false
			m.raised(&n)
			if m.has(AllUnknown | VoidClaims | QuietAnew) {
				what += "; the generation is raised"
			}
		}
		m.emit(step{what: what}, n)
	}
	if m.Blind && s.blind < 2 {
		n := s
		n.blind++
		m.emit(step{what: [...]string{"the credential can no longer see records", "the credential is mended"}[s.blind]}, n)
	}
	if m.Blip && s.blip == 0 {
		n := s
		n.blip = 1
		m.emit(step{what: "a stale replica answers lookups for a moment"}, n)
	}
}

// clock lets effects show before they must, and time pass.
func (m *model) clock(s state) {
	for k, f := range s.eff {
		if f.by != 0 && f.show > 0 {
			n := s
			n.eff[k].show = 0
			m.emit(step{what: "the effect shows early"}, n)
		}
	}
	n := s
	n.e.pass()
	if s.lag && !s.failed {
		n.snap.pass()
	}
	for i := range n.w[:m.Workers] {
		if n.w[i].at != idle {
			n.w[i].e.pass()
			down(&n.w[i].wire)
		}
	}
	for k := range n.req {
		r := &n.req[k]
		if r.by != 0 && r.left == 0 {
			*r = request{} // it never lands
		}
		down(&r.left)
	}
	for k := range n.eff {
		down(&n.eff[k].show)
		down(&n.eff[k].keep)
	}
	down(&n.flowLeft)
	if n.blip == 1 {
		n.blip = 2
	}
	m.emit(step{what: passing}, n)
}

// passing is the step in which nothing but time goes on.
const passing = "time passes"
