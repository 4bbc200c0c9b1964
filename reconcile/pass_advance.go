package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/failpoint"
	"github.com/recovery-ledger/reconcile/ledger"
)

// clearance is how long checks that passed let a send begin (docs/rules.md, section 6).
const clearance = 60 * time.Second

// waitForPlace is how long a send waits before it asks again for one of the
// lane's places that other processes hold.
const waitForPlace = 50 * time.Millisecond

// advance re-checks and sends what may be tried again on a lane. extra are
// entries that a dry run has reopened in this pass.
func (r *run) advance(ctx context.Context, name string, due int, extra []ledger.Stored) error {
	ln, err := r.e.lanes.Load(ctx, name)
	if err != nil {
		return err
	}
	skip := func(format string, a ...any) error {
		if due > 0 || len(extra) > 0 {
			r.count(func(c *Counts) { c.Skipped += due })
			if format != "" {
				r.note(format, a...)
			}
		}
		return nil
	}
	switch {
	case r.held() != "":
		return skip("")
	case ln.Held:
		return skip("sends on lane %q are on hold; reconcile resume --connector %s lets them go", name, name)
	case ln.PausedUntil.After(r.ck.now()):
		return skip("lane %q is paused until %s; waiting to be sent: %d", name, ln.PausedUntil.Format(time.RFC3339), due)
	}
	st := &stage{r: r, name: name, work: ledger.WorkAdvance, lane: ln, stopped: make(chan struct{})}
	workers, _ := r.width(name)
	size := func(j job) int {
		// Sends of a group go out one after the other: small groups keep every
		// place of the lane busy, and checks fresh.
		return max(1, min((len(j.es)+workers-1)/workers, lookSize(j), 50))
	}
	var ready []ledger.Stored
	for _, s := range extra {
		if !s.Entry.NextAt.After(r.ck.now()) {
			ready = append(ready, s)
		}
	}
	return r.drive(ctx, st, size, func(ctx context.Context, j job) error { return r.advanceJob(ctx, st, j) }, ready)
}

// candidate is an entry on its way through the gates.
type candidate struct {
	stored   ledger.Stored // as it is to be judged next
	lease    ledger.Lease
	from     ledger.Entry // as claimed
	evidence []ledger.Evidence
	attempts []ledger.Attempt // changed on the way
	finding  ledger.Finding
	waits    *ledger.Entry // of one that is looked at, and not sent: how it waits for a sibling; else nil
	place    int           // in its job
	turn     *turn         // nil where there is no order to keep
}

func (r *run) advanceJob(ctx context.Context, st *stage, j job) error {
	if j.conn == nil {
		now := r.ck.now()
		for i, e := range j.es {
			c := candidate{stored: e, lease: j.ls[i], from: e.Entry}
			set := r.e.setting(e.Entry, j.op, "", st.lane, now)
			g := GateLimits(e.Entry, set)
			if !g.Stop {
				g.Next = notConfigured(e.Entry, set)
				r.count(func(c *Counts) { c.Skipped++ })
			}
			r.emit(st, c, g.Next, "")
		}
		return nil
	}
	ids := make([]int64, len(j.es))
	for i, e := range j.es {
		ids[i] = e.Entry.ID
	}
	sibs, err := r.e.store.Siblings(ctx, ids)
	if err != nil {
		if ctx.Err() != nil {
			r.giveBack(ctx, j.ls)
			return nil
		}
		return err
	}
	now := r.ck.now()
	var on []candidate
	for i, e := range j.es {
		c := candidate{stored: e, lease: j.ls[i], from: e.Entry, place: i}
		if e.Entry.State == ledger.StateReady {
			c.stored.Entry = ledger.Reopen(e.Entry, "clearance_lapsed", now)
		}
		set := r.e.setting(e.Entry, j.op, j.info.Version, st.lane, now)
		g := GateLimits(c.stored.Entry, set)
		if !g.Stop {
			g = GateSiblings(g.Next, sibs[e.Entry.ID], set)
			if looksOn(g, j.op) {
				c.waits = &g.Next
				g = pass(c.stored.Entry)
			}
		}
		c.stored.Entry = g.Next
		if g.Stop {
			r.emit(st, c, g.Next, "")
			continue
		}
		on = append(on, c)
	}
	on, err = r.lookFirst(ctx, st, j, on)
	if err != nil {
		return err
	}
	for i, c := range on {
		if st.halted(ctx) {
			r.giveBack(ctx, leasesOf(on[i:]))
			return nil
		}
		if err := r.advanceOne(ctx, st, j, c); err != nil {
			return err
		}
	}
	return nil
}

func leasesOf(cs []candidate) []ledger.Lease {
	ls := make([]ledger.Lease, len(cs))
	for i, c := range cs {
		ls[i] = c.lease
	}
	return ls
}

// emit hands on what becomes of a candidate.
func (r *run) emit(st *stage, c candidate, next ledger.Entry, detail string) {
	ch := ledger.Change{Lease: c.lease, Next: next, Attempts: c.attempts, Evidence: c.evidence, PassID: r.id}
	if detail != "" {
		ch.Detail = []byte(detail)
	}
	r.hand(st, c, became{ch: ch, from: c.from, finding: c.finding})
}

// hand puts what became of a candidate where it is written; with it goes its
// turn.
func (r *run) hand(st *stage, c candidate, b became) {
	if c.turn != nil {
		b.turn, c.turn.carried = c.turn, true
	}
	st.out <- b
}

// lookFirst looks at those entries that had no answered look since their last
// attempt, and lets on those of which nothing was found.
func (r *run) lookFirst(ctx context.Context, st *stage, j job, on []candidate) ([]candidate, error) {
	var need, rest []candidate
	for _, c := range on {
		if c.waits != nil || NeedsLook(c.stored.Entry, j.op) {
			need = append(need, c)
		} else {
			rest = append(rest, c)
		}
	}
	if len(need) == 0 {
		return rest, nil
	}
	if r.o.NoLookups {
		for _, c := range need {
			if c.waits != nil {
				r.emit(st, c, *c.waits, "")
				continue
			}
			r.unchanged(c.from, "", "look_needed: a look has to come first, and none was allowed")
		}
		return rest, nil
	}
	lj := j
	lj.es, lj.ls = nil, leasesOf(need)
	for _, c := range need {
		lj.es = append(lj.es, c.stored)
	}
	off, err := r.lookupOff(ctx, lj)
	if err != nil {
		return nil, err
	}
	if off {
		r.giveBack(ctx, lj.ls)
		for _, c := range need {
			r.unchanged(c.from, ledger.FindingCouldNotAsk, "control_not_found: this lookup is out of use for now")
		}
		r.count(func(c *Counts) { c.CouldNotAsk += len(need) })
		return rest, nil
	}
	ls, err := r.look(ctx, st, lj)
	if err != nil {
		return nil, err
	}
	for i, l := range ls {
		c := need[i]
		if l.cancelled {
			r.giveBack(ctx, []ledger.Lease{c.lease})
			continue
		}
		c.finding = l.finding
		c.evidence = append(c.evidence, l.evidence)
		c.attempts = l.decided.Attempts
		next := l.decided.Next
		// It goes on only if the system answered and showed nothing of ours, or
		// only what was refused; or if it needs no look after all.
		if c.waits != nil {
			set := r.e.setting(next, j.op, j.info.Version, st.lane, r.ck.now())
			r.emit(st, c, set.waitsOn(next, *c.waits, l.look), "")
			continue
		}
		clear := l.finding == ledger.FindingNotVisible || l.finding == ledger.FindingAbsent || l.finding == ledger.FindingRejected || l.skipped
		if !clear || next.State != ledger.StateRetryable {
			r.emit(st, c, next, "")
			continue
		}
		c.stored = ledger.Stored{Entry: next, Attempts: patched(c.stored.Attempts, c.attempts)}
		rest = append(rest, c)
	}
	slices.SortFunc(rest, func(a, b candidate) int { return cmp.Compare(a.place, b.place) })
	return rest, nil
}

// checkDetail is the detail of a history row: every verdict of the checks.
type checkDetail struct {
	Checks []checkVerdict `json:"checks"`
}

type checkVerdict struct {
	Check  connectors.CheckName   `json:"check"`
	Kind   connectors.VerdictKind `json:"verdict"`
	Value  string                 `json:"value,omitempty"`
	Detail string                 `json:"detail,omitempty"`
}

// turn is an entry's turn among the changes of one outside record that are due
// in this pass. It ends when what became of the entry is written.
type turn struct {
	once    sync.Once
	free    func()
	carried bool // a result that waits to be written ends it
}

// end lets the next change of the record begin. A nil turn has no end.
func (t *turn) end() {
	if t != nil {
		t.once.Do(t.free)
	}
}

// ordered says whether the changes that an operation makes of one record are
// ordered (docs/rules.md, section 6, "Changes of one record").
func ordered(op connectors.Operation) bool { return op.HasProof || op.Repeatable }

// recordOf names the outside record that an entry changes, where changes of it
// are ordered; "" for none.
func recordOf(e ledger.Entry, op connectors.Operation) string {
	if e.RecordID == "" || !ordered(op) {
		return ""
	}
	return e.Connector + "\x00" + e.Operation + "\x00" + e.RecordID
}

// byAge compares entries by when they came, the oldest first.
func byAge(a, b ledger.Entry) int {
	return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.ID, b.ID))
}

// inOrder waits for an entry's turn: the changes of one outside record that are
// due in this pass go one after the other. Of an entry that has one (not nil)
// the siblings have to be read again, since an older change must not follow a
// newer one. Between processes the ledger decides, in the statement that writes
// "started"; here it only saves a change the wait for the next pass.
func (r *run) inOrder(j job, e ledger.Entry) *turn {
	key := recordOf(e, j.op)
	if key == "" || r.o.DryRun {
		return nil
	}
	r.mu.Lock()
	m := r.records[key]
	if m == nil {
		m = &sync.Mutex{}
		r.records[key] = m
	}
	r.mu.Unlock()
	m.Lock()
	return &turn{free: m.Unlock}
}

// byRecord is a job with the changes of each outside record behind each other,
// oldest first: handled by one worker they go out in that order.
func byRecord(j job) job {
	first := map[string]int{} // where the first one claimed of each record stands
	place := make([]int, len(j.es))
	several := false
	for i, s := range j.es {
		place[i] = i
		if record := recordOf(s.Entry, j.op); record != "" {
			at, seen := first[record]
			if !seen {
				first[record] = i
				continue
			}
			place[i], several = at, true
		}
	}
	if !several {
		return j
	}
	order := make([]int, len(j.es))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(place[a], place[b]), byAge(j.es[a].Entry, j.es[b].Entry))
	})
	es, ls := make([]ledger.Stored, len(order)), make([]ledger.Lease, len(order))
	for i, at := range order {
		es[i], ls[i] = j.es[at], j.ls[at]
	}
	j.es, j.ls = es, ls
	return j
}

// wholeRecord is n, or as many more as bring the changes of the last record to
// their end.
func wholeRecord(j job, n int) int {
	record := recordOf(j.es[n-1].Entry, j.op)
	for record != "" && n < len(j.es) && recordOf(j.es[n].Entry, j.op) == record {
		n++
	}
	return n
}

// wouldSend accounts for an entry that the pass itself would send. It takes it
// that what would be sent before is answered.
func (r *run) wouldSend(st *stage, c candidate, e, next ledger.Entry, set Setting) {
	r.mu.Lock()
	record := recordOf(e, set.Op)
	newer, held := r.wouldChange[record], r.wouldHold[e.OutcomeKey]
	superseded := record != "" && byAge(newer, e) > 0
	if !superseded && !held {
		r.wouldHold[e.OutcomeKey] = e.OutcomeKey != ""
		r.wouldChange[record] = e
		r.tally.Counts.WouldSend++
		r.result(c.from).WouldSend = true
	}
	r.mu.Unlock()
	switch {
	case superseded:
		next = set.superseded(e, newer.ActionKey)
	case held:
		next = ledger.Wait(e, "outcome_key_held", set.Now.Add(siblingWait(set.Policy)))
	}
	r.emit(st, c, next, "")
}

// advanceOne takes one entry through the checks, clears it, and sends it.
func (r *run) advanceOne(ctx context.Context, st *stage, j job, c candidate) error {
	e, as := c.stored.Entry, c.stored.Attempts
	c.turn = r.inOrder(j, e)
	defer func() {
		if c.turn != nil && !c.turn.carried {
			c.turn.end()
		}
	}()
	now := r.ck.now() // it may have waited for its turn
	set := r.e.setting(e, j.op, j.info.Version, st.lane, now)
	if c.turn != nil {
		sibs, err := r.e.store.Siblings(ctx, []int64{e.ID})
		if ctx.Err() != nil {
			r.giveBack(ctx, []ledger.Lease{c.lease})
			return nil
		}
		if err != nil {
			return err
		}
		g := GateSiblings(e, sibs[e.ID], set)
		if g.Stop {
			r.emit(st, c, g.Next, "")
			return nil
		}
		e = g.Next
	}
	detail := ""
	if want, _ := ChecksWanted(set.Policy, j.op); len(want) > 0 && r.o.NoLookups {
		r.unchanged(c.from, "", "checks_needed: checks have to come first, and no question was allowed")
		return nil
	} else if len(want) > 0 {
		vs, err := r.check(ctx, st, j, e, set.Policy, want)
		if ctx.Err() != nil {
			r.giveBack(ctx, []ledger.Lease{c.lease})
			return nil
		}
		if err != nil {
			return err
		}
		d := checkDetail{Checks: []checkVerdict{}}
		for _, v := range vs {
			d.Checks = append(d.Checks, checkVerdict{v.Check, v.Kind, v.Value, v.Detail})
		}
		detail = string(mustJSON(d))
		now = r.ck.now()
		set.Now = now
		g := GateChecks(e, vs, set)
		if g.Stop {
			r.emit(st, c, g.Next, detail)
			return nil
		}
		e = g.Next
	} else if g := GateChecks(e, nil, set); g.Stop {
		r.emit(st, c, g.Next, "")
		return nil
	}
	sendable, why := sendability(j.conn, e)
	if g := GateApproval(e, as, sendable, why, set); g.Stop {
		r.emit(st, c, g.Next, detail)
		return nil
	}
	e, why = withKey(j.conn, e, as, j.op, now)
	if why != "" {
		r.emit(st, c, set.escalate(e, "no_key: "+why), detail)
		return nil
	}
	next := ledger.Advance(e, "checks_passed", set.clearedUntil(e))
	if r.o.DryRun {
		r.wouldSend(st, c, e, next, set)
		return nil
	}
	// The lease keeps others away while the clearance is in use. Once it has
	// ended nobody can start under it any more, so that there is nothing to wait
	// for.
	next.NextAt = now
	failpoint.Hit("after-checks")
	applied, err := r.e.store.Apply(ctx, []ledger.Change{{Lease: c.lease, Next: next, Attempts: c.attempts, Evidence: c.evidence,
		Keep: true, PassID: r.id, Detail: []byte(detail)}})
	if err != nil {
		if ctx.Err() != nil {
			r.giveBack(ctx, []ledger.Lease{c.lease})
			return nil
		}
		return err
	}
	if applied[0].Err != nil {
		r.untrack(c.lease)
		r.count(func(c *Counts) { c.Skipped++ })
		return nil
	}
	r.account(became{ch: ledger.Change{Lease: c.lease}, from: c.from, finding: c.finding}, applied[0].Entry)
	c.lease = applied[0].Lease
	r.track([]ledger.Lease{c.lease})
	return r.send(ctx, st, j, c, applied[0].Entry, as)
}

// check reads what must still be true. Checks have a breaker of their own: where
// they cannot be read, what needs none goes on. What speaks against the
// credential pauses the lane itself.
func (r *run) check(ctx context.Context, st *stage, j job, e ledger.Entry, p Policy, want []connectors.CheckName) ([]connectors.Verdict, error) {
	checker, ok := j.conn.(connectors.Checker)
	if !ok {
		return nil, nil
	}
	own := checkLane(st.name, j.op.Name)
	ln, err := r.e.lanes.Load(ctx, own)
	if err != nil {
		return nil, err
	}
	if ln.PausedUntil.After(r.ck.now()) {
		vs := make([]connectors.Verdict, len(want))
		for i, c := range want {
			vs[i] = connectors.Verdict{Check: c, Kind: connectors.VerdictUnread, Detail: "not asked, after " + ln.PauseReason}
		}
		return vs, nil
	}
	vs := checker.Check(ctx, connectors.CheckQuery{Query: query(e, j.op), Channel: p.Channel, Want: want})
	if ctx.Err() != nil {
		return vs, nil
	}
	read := false
	for _, v := range vs {
		if v.Kind != connectors.VerdictUnread || v.Err == nil {
			read = read || v.Kind != connectors.VerdictUnread
			continue
		}
		ce, name := asError(v.Err), own
		atOnce, _ := pausesAtOnce(ce)
		if atOnce {
			name = st.name
		}
		ln, alerted, err := r.e.lanes.Failed(ctx, name, ce)
		if err != nil {
			return vs, err
		}
		if ln.PausedUntil.After(r.ck.now()) {
			if atOnce {
				st.halt()
			}
			if alerted {
				r.note("lane %q is paused until %s: %s", name, ln.PausedUntil.Format(time.RFC3339), ce.Error())
			}
		}
		r.count(func(c *Counts) { c.CouldNotAsk++ })
		return vs, nil
	}
	if read {
		return vs, errors.Join(r.e.lanes.OK(ctx, own), r.e.lanes.OK(ctx, st.name))
	}
	return vs, nil
}

// sendability says whether the payload can be sent to this system.
func sendability(c connectors.Connector, e ledger.Entry) (ok bool, why string) {
	if _, ok := c.(connectors.Sender); !ok {
		return false, "the connector cannot send"
	}
	if e.Payload == nil && e.PayloadSize > 0 {
		return false, fmt.Sprintf("the payload of %d bytes was too large to keep", e.PayloadSize)
	}
	if d, ok := c.(connectors.KeyDeriver); ok {
		if _, sendable, why := d.CheckPayload(e.Operation, e.Keys, e.Payload); !sendable {
			if e.KeyOrigin == keyDerived { // nobody has seen it, and who sends by hand needs it
				why += fmt.Sprintf("; our key is %q, derived from the action key", e.ProviderKey)
			}
			return false, why
		}
	}
	return true, ""
}

// send writes "started", puts the request on the wire, and hands on its result.
// A stop does not cut it: a request that went out has its result written.
func (r *run) send(ctx context.Context, st *stage, j job, c candidate, e ledger.Entry, as []ledger.Attempt) error {
	sender := j.conn.(connectors.Sender)
	attempt := ledger.Attempt{EntryID: e.ID, AttemptID: "r-" + randomID(12), No: nextNo(as), Ours: true, Status: ledger.AttemptStarted,
		Effect: ledger.EffectUnknown, Sends: 1, Key: e.EffectiveIdempotencyKey(), Counts: true, Rule: ruleStarted}
	for {
		now := r.ck.now()
		if st.halted(ctx) || r.held() != "" {
			// Back to be checked anew, rather than ready until its clearance ends.
			c.evidence, c.attempts = nil, nil
			r.emit(st, c, ledger.Reopen(e, "not_sent: the lane stopped before it went out", now), "")
			return nil
		}
		attempt.StartedAt, attempt.ReceivedAt, attempt.SendBy = now, now, now.Add(j.op.Timeout)
		failpoint.Hit("before-started")
		host := time.Now()
		s, err := r.e.store.Start(ctx, ledger.Start{Lease: c.lease, Attempt: attempt, Next: begun(e, append(as[:len(as):len(as)], attempt), now),
			Timeout: j.op.Timeout, LeaseFor: max(r.e.lease, j.op.Timeout+closeGrace), Concurrent: st.concurrent(), Generation: e.Generation,
			Repeats: r.e.policies.For(e).Repeats, PassID: r.id})
		failpoint.Hit("after-started")
		switch {
		case errors.Is(err, ledger.ErrNotDurable):
			r.hold("a \"started\" mark was not durable (is the standby away?); nothing more is sent in this pass")
			return nil
		case err != nil && ctx.Err() != nil:
			return nil // whether the mark was written is not known: the entry is looked at once its lease has ended
		case err != nil:
			return err
		}
		switch s.Refused {
		case "":
			r.track([]ledger.Lease{s.Lease})
			return r.wire(ctx, st, j, c, s, as, attempt, sender, host.Add(j.op.Timeout))
		case "concurrent":
			if err := sleepUntil(ctx, time.Now().Add(waitForPlace)); err != nil {
				continue // halted: gives the lease back
			}
		case "outcome_key_held":
			return r.heldUp(ctx, st, j, c, e, now)
		case "held":
			r.hold("sends were put on hold")
		default: // lease_lost, clearance_lapsed, generation: somebody else, or later
			r.giveBack(ctx, []ledger.Lease{c.lease})
			return nil
		}
	}
}

// heldUp goes on from a "started" that a sibling kept from being written: one
// that came into the way, or was sent, while this one was checked.
func (r *run) heldUp(ctx context.Context, st *stage, j job, c candidate, e ledger.Entry, now time.Time) error {
	sibs, err := r.e.store.Siblings(ctx, []int64{e.ID})
	if ctx.Err() != nil {
		r.giveBack(ctx, []ledger.Lease{c.lease})
		return nil
	}
	if err != nil {
		return err
	}
	set := r.e.setting(e, j.op, j.info.Version, st.lane, now)
	next := ledger.Reopen(e, "outcome_key_held", now.Add(siblingWait(set.Policy)))
	if g := GateSiblings(next, sibs[e.ID], set); g.Stop {
		next = g.Next
	}
	c.evidence, c.attempts = nil, nil
	r.emit(st, c, next, "")
	return nil
}

// concurrent is how many "started" marks the lane may have open.
func (st *stage) concurrent() int {
	n, _ := st.r.width(st.name)
	return n
}

func nextNo(as []ledger.Attempt) int {
	n := 0
	for _, a := range as {
		n = max(n, a.No)
	}
	return n + 1
}

// begun is the entry with an attempt of ours just begun: what was known of
// looks before it is void, and a person's approval is used up. The store sets
// the times.
func begun(e ledger.Entry, as []ledger.Attempt, now time.Time) ledger.Entry {
	if e.Effect == ledger.EffectNotDone {
		e.SettleFrom = now // it becomes unknown only now
	}
	e = Summarize(e, as)
	e.LooksInRow, e.Negatives, e.LastNegativeAt = 0, 0, time.Time{}
	e.Approved = false
	return ledger.Begin(e, "sent: waiting for the answer", e.LastTriedAt)
}

// wire makes the one request and hands on what it came to.
func (r *run) wire(ctx context.Context, st *stage, j job, c candidate, s ledger.Started, as []ledger.Attempt, attempt ledger.Attempt, sender connectors.Sender, sendBy time.Time) error {
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Until(sendBy)+j.op.Timeout+closeGrace)
	defer cancel()
	e := s.Entry
	failpoint.Hit("before-wire")
	res := sender.Send(wctx, connectors.Send{Operation: e.Operation, Key: e.ProviderKey, IdempotencyKey: e.EffectiveIdempotencyKey(),
		ActionKey: e.ActionKey, RecordID: e.RecordID, Subject: e.Subject, Payload: e.Payload, PayloadType: e.PayloadType, SendBy: sendBy})
	failpoint.Hit("after-wire")
	r.count(func(c *Counts) { c.Sent++ })

	now := r.ck.now()
	attempt.StartedAt, attempt.SendBy, attempt.ReceivedAt = s.StartedAt, s.SendBy, s.StartedAt
	attempt = AttemptFromSend(e, attempt, res, now)
	set := r.e.setting(e, j.op, j.info.Version, st.lane, now)
	next := AfterSend(e, append(as[:len(as):len(as)], attempt), res, set)
	c.lease, c.evidence, c.finding = s.Lease, nil, ""
	r.hand(st, c, became{ch: ledger.Change{Lease: s.Lease, Next: next, Attempts: []ledger.Attempt{attempt}, PassID: r.id}, from: c.from, ours: true})

	if res.Kind == "" {
		return r.e.lanes.OK(wctx, st.name)
	}
	ce := &connectors.Error{Kind: res.Kind, HTTPStatus: res.HTTPStatus, Code: res.Code, Message: res.Message, RetryAfter: res.RetryAfter, Pauses: res.Pauses}
	if answeredByItself(res) {
		return nil // the system is well; it did not want this one
	}
	ln, alerted, err := r.e.lanes.Failed(wctx, st.name, ce)
	if err != nil {
		return err
	}
	if ln.PausedUntil.After(r.ck.now()) {
		st.halt()
		if alerted {
			r.note("lane %q is paused until %s: %s", st.name, ln.PausedUntil.Format(time.RFC3339), ce.Error())
		}
	}
	return nil
}

// answeredByItself says whether a failed send was a refusal of this one action,
// which says nothing against the lane.
func answeredByItself(r connectors.SendResult) bool {
	if pauses, _ := pausesAtOnce(&connectors.Error{Kind: r.Kind, Pauses: r.Pauses}); pauses {
		return false
	}
	return r.Answered && r.HTTPStatus < 500
}

func isNotFound(err error) bool { return errors.Is(err, ledger.ErrNotFound) }
