package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/failpoint"
	"github.com/recovery-ledger/reconcile/ledger"
)

// settle looks at every due entry of a lane. Of a dry run it returns the
// entries that would go on to the advance step.
func (r *run) settle(ctx context.Context, name string, due int) ([]ledger.Stored, error) {
	ln, err := r.e.lanes.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	if ln.PausedUntil.After(r.ck.now()) {
		r.count(func(c *Counts) { c.CouldNotAsk += due })
		r.note("lane %q is paused until %s (%s); waiting: %d", name, ln.PausedUntil.Format(time.RFC3339), ln.PauseReason, due)
		return nil, nil
	}
	if r.o.NoLookups {
		r.count(func(c *Counts) { c.Skipped += due })
		return nil, nil
	}
	st := &stage{r: r, name: name, work: ledger.WorkLook, lane: ln, stopped: make(chan struct{})}
	s := &settler{stage: st, left: due}
	err = r.drive(ctx, st, lookSize, s.handle, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left > 0 && s.down != "" {
		// The rest of the lane waits; nobody's budget is spent.
		r.count(func(c *Counts) { c.CouldNotAsk += s.left })
	}
	return s.reopened, err
}

// lookSize is how many entries one look takes.
func lookSize(j job) int {
	if !j.have || j.op.Lookup == connectors.LookupNone {
		return writeBatch // nothing is asked
	}
	return lookSizeOf(j.op)
}

func lookSizeOf(op connectors.Operation) int {
	switch {
	case op.Lookup != connectors.LookupBatch || op.BatchMax < 2:
		return 1
	case op.ControlProbe:
		return op.BatchMax
	}
	return op.BatchMax - 1 // one place is the control's
}

type settler struct {
	*stage
	mu       sync.Mutex
	left     int    // due, not yet looked at
	down     string // why the lane went no further
	reopened []ledger.Stored
}

func (s *settler) handle(ctx context.Context, j job) error {
	r := s.r
	if j.conn == nil {
		s.took(len(j.es))
		now := r.ck.now()
		for i, e := range j.es {
			next := notConfigured(e.Entry, r.e.setting(e.Entry, j.op, "", s.lane, now))
			if next.State != ledger.StateEscalated {
				r.count(func(c *Counts) { c.CouldNotAsk++ })
			}
			s.emit(j.ls[i], e, next, nil, ledger.FindingCouldNotAsk)
		}
		return nil
	}
	if !j.have || j.op.Lookup == connectors.LookupNone {
		s.took(len(j.es))
		now := r.ck.now()
		for i, e := range j.es {
			set := r.e.setting(e.Entry, j.op, j.info.Version, s.lane, now)
			s.emit(j.ls[i], e, NoLookup(e.Entry, e.Attempts, set), nil, "")
		}
		return nil
	}
	off, err := r.lookupOff(ctx, j)
	if err != nil {
		return err
	}
	if off {
		r.giveBack(ctx, j.ls)
		for _, e := range j.es {
			r.unchanged(e.Entry, ledger.FindingCouldNotAsk, "control_not_found: this lookup is out of use for now")
		}
		s.took(len(j.es))
		r.count(func(c *Counts) { c.CouldNotAsk += len(j.es) })
		return nil
	}
	looked, err := r.look(ctx, s.stage, j)
	if err != nil {
		return err
	}
	for i, l := range looked {
		if l.cancelled {
			r.giveBack(ctx, j.ls[i:i+1])
			continue
		}
		s.took(1)
		e := j.es[i]
		s.emit(j.ls[i], e, l.decided.Next, &l, l.finding)
		if r.goesOn(l.decided.Next) {
			s.mu.Lock()
			s.reopened = append(s.reopened, ledger.Stored{Entry: l.decided.Next, Attempts: patched(e.Attempts, l.decided.Attempts)})
			s.mu.Unlock()
		}
		if l.down != "" {
			s.mu.Lock()
			s.down = l.down
			s.mu.Unlock()
		}
	}
	return nil
}

// goesOn says whether a dry run takes an entry that it has just made retryable
// on to the advance step, as the pass itself would by claiming it: where it is
// still inside the filter.
func (r *run) goesOn(e ledger.Entry) bool {
	f := r.filter
	return r.o.DryRun && e.State == ledger.StateRetryable && (f.State == "" || f.State == e.State) &&
		(f.Until.IsZero() || !f.Until.Before(r.ck.now()))
}

func (s *settler) took(n int) {
	s.mu.Lock()
	s.left -= n
	s.mu.Unlock()
}

func (s *settler) emit(l ledger.Lease, e ledger.Stored, next ledger.Entry, lk *looked, f ledger.Finding) {
	ch := ledger.Change{Lease: l, Next: next, PassID: s.r.id}
	if lk != nil {
		ch.Attempts = lk.decided.Attempts
		ch.Evidence = []ledger.Evidence{lk.evidence}
	}
	s.out <- became{ch: ch, from: e.Entry, finding: f}
}

// looked is what one look at one entry came to.
type looked struct {
	look      Look
	decided   Decided
	evidence  ledger.Evidence
	finding   ledger.Finding
	cancelled bool   // by us: no look
	skipped   bool   // it cannot be asked about, and needs no look
	down      string // the lane was paused by it
}

// look asks about the entries of a job and decides what becomes of each. It
// counts, keeps the lane's breaker, and stops the stage when the lane pauses.
func (r *run) look(ctx context.Context, st *stage, j job) ([]looked, error) {
	failpoint.Hit("before-look")
	as, err := r.e.ask(ctx, &r.ck, j.conn, j.op, st.lane.LagFactor, j.es)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("after-look")
	out := make([]looked, len(as))
	now := r.ck.now()
	var failed *connectors.Error // one call that failed for many counts once
	answered, missing := false, false
	for i, a := range as {
		e := j.es[i]
		set := r.e.setting(e.Entry, j.op, j.info.Version, st.lane, now)
		var l Look
		switch {
		case a.err != nil && (a.err.Kind == connectors.KindStopping || ctx.Err() != nil):
			out[i].cancelled = true
			continue
		case a.err != nil && (a.err.Kind == connectors.KindBadKey || a.err.Kind == connectors.KindUnsupported):
			l = Look{Judgement: Judgement{Finding: ledger.FindingCouldNotAsk, Reason: string(a.err.Kind) + ": " + a.err.Message}, Asked: a.at}
			out[i].decided = Decided{Next: notAskable(e.Entry, e.Attempts, l.Reason, set)}
			out[i].skipped = out[i].decided.Next.State == ledger.StateRetryable
		case a.err != nil:
			l = Look{Judgement: Judgement{Finding: ledger.FindingCouldNotAsk, Reason: "could_not_ask: " + a.err.Error()}, Asked: a.at, Wait: entryWait(a.err)}
			if a.err.Kind == connectors.KindNotUsable {
				l.Reason = reasonNotUsable + ": " + a.err.Message
			}
			out[i].decided = AfterLook(e.Entry, e.Attempts, l, set)
			pauses, counts := pausesAtOnce(a.err)
			if pauses {
				// The lane waits, not the entry: it stays due.
				out[i].decided.Next.NextAt = e.Entry.NextAt
				out[i].decided.Next.Work = e.Entry.Work
			}
			if counts && (failed == nil || *failed != *a.err) {
				failed = a.err
				ln, alerted, err := r.e.lanes.Failed(ctx, st.name, a.err)
				if err != nil {
					return nil, err
				}
				if ln.PausedUntil.After(now) {
					out[i].down = ln.PauseReason
					st.halt()
					if alerted {
						r.note("lane %q is paused until %s: %s", st.name, ln.PausedUntil.Format(time.RFC3339), a.err.Error())
					}
				}
			}
		default:
			answered = true
			missing = missing || a.control == ControlMissing
			l.Judgement = Judge(e.Entry, e.Attempts, a.answer, Question{Op: j.op, Risk: set.risk(e.Entry), Control: a.control, AskedAt: a.at,
				Lag: st.lane.LagFactor, Version: j.info.Version, Findable: findable(j.conn, e.Entry)})
			l.Asked = a.at
			out[i].decided = AfterLook(e.Entry, e.Attempts, l, set)
			own := e.Entry.Outcome == ledger.OutcomeApplied && e.Entry.SettledBy != ledger.ByPerson
			shown := showsOurs(a.answer)
			switch {
			case own && l.Counts:
				err = r.ownNotShown(ctx, st.name, j, e.Entry)
			case own && shown:
				err = r.calm(ctx, alertOwnNotShown(st.name, j.op.Name))
			}
			if err == nil && shown && (a.answer.Foreign == 0 || a.answer.Declared) {
				err = r.calm(ctx, alertNotUsable(st.name, j.op.Name))
			}
			if err != nil {
				return nil, err
			}
			if out[i].decided.Lag {
				if err := r.lagSeen(ctx, st.name, e.Entry); err != nil {
					return nil, err
				}
			}
		}
		if ledger.ReasonCode(l.Reason) == reasonNotUsable {
			if err := r.notUsable(ctx, st.name, j, e.Entry); err != nil {
				return nil, err
			}
		}
		out[i].look, out[i].finding = l, l.Finding
		out[i].evidence = lookEvidence(e.Entry, j.info.Name, j.info.Version, r.id, a, l)
		unasked := a.err != nil && (a.err.Kind == connectors.KindBadKey || a.err.Kind == connectors.KindUnsupported)
		r.count(func(c *Counts) {
			switch {
			case l.Finding != ledger.FindingCouldNotAsk:
				c.LookedUp++
			case !unasked: // the system is well; this entry cannot be asked about
				c.CouldNotAsk++
			}
		})
	}
	if answered {
		if err := r.e.lanes.OK(ctx, st.name); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	if missing {
		return out, r.controlMissing(ctx, st.name, j)
	}
	return out, nil
}

// showsOurs says whether an answer holds a record that shows our key.
func showsOurs(a connectors.Answer) bool {
	return slices.ContainsFunc(a.Records, func(r connectors.Record) bool { return !r.Origin })
}

// findable says whether the lookup can show the entry: whether our key stands in
// the payload where the definition says that it is looked for.
func findable(c connectors.Connector, e ledger.Entry) bool {
	d, ok := c.(connectors.KeyDeriver)
	if !ok {
		return true
	}
	found, _, _ := d.CheckPayload(e.Operation, e.Keys, e.Payload)
	return found
}

// entryWait is the least wait that a failed look asks for the entry itself.
func entryWait(e *connectors.Error) time.Duration {
	if e.RetryAfter.Beyond {
		return pauseBeyond
	}
	return e.RetryAfter.Wait
}

// lagSeen notes a hit after counted negatives: the lane lags more than its
// definition says. Its alert stays open, as the lag stays doubled.
func (r *run) lagSeen(ctx context.Context, lane string, e ledger.Entry) error {
	if r.o.DryRun {
		return nil
	}
	if _, err := r.e.store.SaveLane(ctx, lane, func(l ledger.Lane, _ time.Time) ledger.Lane {
		l.LagFactor = min(max(l.LagFactor, 1)*2, 64)
		return l
	}); err != nil {
		return err
	}
	text := fmt.Sprintf("lag_seen: %q was found after negatives that counted; raise visible_within of lane %q", e.ActionKey, lane)
	r.note("%s", text)
	_, err := r.e.store.Alert(ctx, "lag_seen:"+lane, text)
	return err
}

// ownNotShown alerts that a lookup which works for its control does not show
// what was made under our key: the system learns the key from somewhere else
// than we think, and the next absence would be believed wrongly.
func (r *run) ownNotShown(ctx context.Context, lane string, j job, e ledger.Entry) error {
	text := fmt.Sprintf("own_not_shown: %q was made as %q, but the lookup of %s on %q does not show it; see that the request carries our key, and name where with carries",
		e.ActionKey, e.RemoteID, j.op.Name, lane)
	return r.alert(ctx, alertOwnNotShown(lane, j.op.Name), text)
}

// notUsable alerts that a lookup answers with records of others: it does not ask
// by our key, and the entries that rely on it are settled by nobody.
func (r *run) notUsable(ctx context.Context, lane string, j job, e ledger.Entry) error {
	text := fmt.Sprintf("%s: asked for %q, the lookup of %s on %q shows records of others alone; see that it filters by our key and that match names where the key stands, or declare contains where the system matches by part",
		reasonNotUsable, e.ActionKey, j.op.Name, lane)
	return r.alert(ctx, alertNotUsable(lane, j.op.Name), text)
}

// The names of these two alerts. The first look that shows a record under our
// key, and no strangers, closes the second; one that shows a record of an entry
// which is known to be applied, the first.
func alertOwnNotShown(lane, operation string) string {
	return "own_not_shown:" + lookupLane(lane, operation)
}

func alertNotUsable(lane, operation string) string {
	return reasonNotUsable + ":" + lookupLane(lane, operation)
}

// controlMissing puts the lookup of one operation out of use for a while.
func (r *run) controlMissing(ctx context.Context, lane string, j job) error {
	name := lookupLane(lane, j.op.Name)
	ln, err := r.e.store.SaveLane(ctx, name, func(l ledger.Lane, now time.Time) ledger.Lane {
		return pauseFrom(l, connectors.RetryAfter{}, "control_not_found", now)
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the lookup of %s on %q did not show a record that exists; it is out of use until %s: check the credential's rights and the definition",
		j.op.Name, lane, ln.PausedUntil.Format(time.RFC3339))
	opened, err := r.e.store.Alert(ctx, alertLane(name), text)
	if opened {
		r.note("%s", text)
	}
	return err
}

// lookupOff says whether the lookup of the job's operation is out of use.
func (r *run) lookupOff(ctx context.Context, j job) (bool, error) {
	ln, err := r.e.store.Lane(ctx, lookupLane(j.info.Lane, j.op.Name))
	return ln.PausedUntil.After(r.ck.now()), err
}

// patched is all attempts with the changed ones in place.
func patched(as, changed []ledger.Attempt) []ledger.Attempt {
	if len(changed) == 0 {
		return as
	}
	out := append([]ledger.Attempt(nil), as...)
	for _, c := range changed {
		found := false
		for i := range out {
			if out[i].AttemptID == c.AttemptID {
				out[i], found = c, true
			}
		}
		if !found {
			out = append(out, c)
		}
	}
	return out
}

// release sees which release conditions hold. Of a dry run it returns the
// entries that would go on to the advance step.
func (r *run) release(ctx context.Context, name string) (released []ledger.Stored, err error) {
	ln, err := r.e.lanes.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	st := &stage{r: r, name: name, work: ledger.WorkRelease, lane: ln, stopped: make(chan struct{})}
	handle := func(ctx context.Context, j job) error {
		now := r.ck.now()
		for i, e := range j.es {
			holds, err := r.holds(ctx, e.Entry, now)
			if err != nil {
				return err
			}
			next := AfterRelease(e.Entry, holds, r.e.setting(e.Entry, j.op, "", ln, now))
			if holds {
				r.count(func(c *Counts) { c.Released++ })
			}
			if r.goesOn(next) {
				mu.Lock()
				released = append(released, ledger.Stored{Entry: next, Attempts: e.Attempts})
				mu.Unlock()
			}
			st.out <- became{ch: ledger.Change{Lease: j.ls[i], Next: next, PassID: r.id}, from: e.Entry}
		}
		return nil
	}
	err = r.drive(ctx, st, func(job) int { return writeBatch }, handle, nil)
	return released, err
}

// holds says whether a release condition is met.
func (r *run) holds(ctx context.Context, e ledger.Entry, now time.Time) (bool, error) {
	switch e.ReleaseKind {
	case "lane":
		ln, err := r.e.store.Lane(ctx, e.ReleaseRef)
		return err == nil && !ln.PausedUntil.After(now), err
	case "entry":
		s, err := r.e.store.Entry(ctx, e.ReleaseRef)
		return err == nil && s.Entry.Settled(), ignoreNotFound(err)
	case "signal":
		at, err := r.e.store.Meta(ctx, "signal:"+e.ReleaseRef)
		return err == nil && at != "", err
	}
	return !e.ReleaseAt.After(now), nil
}

// overdue passes escalated entries whose due time has passed to the next owner
// of the chain; where there is none, the owner keeps them and is due again. A
// dry run shows the first of them.
func (r *run) overdue(ctx context.Context) error {
	left := claimBatch
	for ctx.Err() == nil {
		if r.o.Limit > 0 {
			left = min(claimBatch, r.o.Limit-r.total)
		}
		if left <= 0 {
			return nil
		}
		late, err := r.e.store.Overdue(ctx, r.filter, left)
		if err != nil || len(late) == 0 {
			return err
		}
		r.mu.Lock()
		r.total += len(late)
		r.mu.Unlock()
		for _, s := range late {
			if err := r.overdueOne(ctx, s); err != nil || ctx.Err() != nil {
				return err
			}
		}
		if r.o.DryRun {
			return nil
		}
	}
	return nil
}

func (r *run) overdueOne(ctx context.Context, s ledger.Stored) error {
	moved := false
	decide := func(cur ledger.Stored, now time.Time) (ledger.Recording, error) {
		moved = false
		if cur.Entry.State != ledger.StateEscalated || cur.Entry.DueAt.After(now) {
			return ledger.Recording{Verdict: ledger.RecordedUnchanged}, nil
		}
		next := AfterOverdue(cur.Entry, r.e.setting(cur.Entry, connectors.Operation{}, "", ledger.Lane{}, now))
		moved = next.Owner != cur.Entry.Owner
		rec := ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next}
		if moved { // a reminder alone leaves no row
			rec.History = []ledger.History{historyOf(cur.Entry, next, "reconcile", "", r.id)}
		}
		return rec, nil
	}
	var to ledger.Entry
	var err error
	if r.o.DryRun {
		var rec ledger.Recording
		rec, err = decide(s, r.ck.now())
		to = rec.Entry
	} else {
		to, err = r.e.store.Change(ctx, s.Entry.ActionKey, decide)
	}
	if err != nil || !moved {
		return err
	}
	r.escalatedOn(s.Entry, to)
	return nil
}

// escalatedOn counts an entry that was passed on to another owner.
func (r *run) escalatedOn(from, to ledger.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := r.result(from)
	res.To, res.Outcome, res.Class, res.Reason = to.State, to.Outcome, to.Class, to.Reason
	r.tally.Counts.Escalated++
}

// historyOf is the row of a change made under the row's lock.
func historyOf(from, to ledger.Entry, actor, note, passID string) ledger.History {
	return ledger.History{From: from.State, To: to.State, Outcome: to.Outcome, Reason: to.Reason, Owner: to.Owner, Actor: actor,
		PolicyVersion: to.PolicyVersion, Note: note, PassID: passID, Class: to.Class, Flags: to.Flags}
}

func ignoreNotFound(err error) error {
	if err == nil || isNotFound(err) {
		return nil
	}
	return err
}
