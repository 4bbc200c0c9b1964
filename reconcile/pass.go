package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/failpoint"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Sizes of a pass. They bound its memory: per lane at most two claims are open,
// and one batch of results waits to be written.
const (
	claimBatch  = 500 // entries a claim, where the system takes batches
	claimSingle = 100 // and where it does not
	writeBatch  = 500 // changes written in one transaction
	closeGrace  = 10 * time.Second
)

// run is one pass under way.
type run struct {
	e      *Engine
	o      PassOptions
	ck     clock
	filter ledger.Filter
	id     string
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	tally      Tally
	results    map[string]*EntryResult
	order      []string
	leases     map[int64]ledger.Lease // held, to be renewed
	noSends    string                 // why nothing may be sent in this pass; "" when it may
	records    map[string]*sync.Mutex // of outside records whose changes are sent one after the other
	alerted    map[string]bool        // alerts that this pass has opened or found open
	calmed     map[string]bool        // alerts that this pass has closed, were they open
	fatal      error
	done       int
	total      int
	reportedAt time.Time

	// Of a dry run: what its sends would take.
	wouldHold   map[string]bool         // outcome keys
	wouldChange map[string]ledger.Entry // outside records whose changes are ordered, with the last change
}

// Pass runs one pass: settle, release, advance, escalate, every lane by itself
// and all lanes beside each other. Trouble with single entries is counted, and
// trouble with one system only holds its lane; an error means that the pass
// itself broke. When ctx is cancelled it claims nothing new, writes what has
// been learned, lets sends under way finish, gives its leases back, and returns
// the tally so far with ledger.ErrInterrupted.
func (e *Engine) Pass(ctx context.Context, o PassOptions) (Tally, error) {
	o.Steps = o.Steps.orAll()
	r := &run{e: e, o: o, filter: o.Filter, id: "p-" + randomID(8), results: map[string]*EntryResult{}, leases: map[int64]ledger.Lease{},
		records: map[string]*sync.Mutex{}, alerted: map[string]bool{}, calmed: map[string]bool{}, wouldHold: map[string]bool{}, wouldChange: map[string]ledger.Entry{}}
	r.tally = Tally{RunID: r.id, DryRun: o.DryRun, Entries: []EntryResult{}}
	if !o.Filter.Since.IsZero() {
		r.tally.Since = &o.Filter.Since
	}
	if !o.Filter.Until.IsZero() {
		r.tally.Until = &o.Filter.Until
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)

	if err := r.begin(ctx); err != nil {
		return r.finish(ctx, err)
	}
	due, err := r.plan(ctx)
	if err != nil {
		return r.finish(ctx, err)
	}

	stopRenewing := r.renewing(ctx)
	var wg sync.WaitGroup
	for _, name := range sortedLanes(due) {
		wg.Go(func() {
			if err := r.lane(ctx, name, due[name]); err != nil {
				r.fail(err)
			}
		})
	}
	wg.Wait()
	stopRenewing()
	if ctx.Err() == nil && o.Steps.Escalate {
		r.fail(r.overdue(ctx))
	}
	return r.finish(ctx, nil)
}

// fail ends the pass over trouble with the ledger.
func (r *run) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	r.mu.Lock()
	if r.fatal == nil {
		r.fatal = err
	}
	r.mu.Unlock()
	r.cancel(err)
}

// begin reads the clock and the policy version, and says what that forbids.
func (r *run) begin(ctx context.Context) error {
	host := time.Now()
	now, err := r.e.store.Now(ctx)
	if err != nil {
		return err
	}
	r.ck.set(now, host)
	if err := r.clockStep(ctx, now); err != nil {
		return err
	}
	if err := r.scopes(ctx, now); err != nil {
		return err
	}
	version, err := r.e.store.Meta(ctx, metaPolicy)
	if err != nil {
		return err
	}
	if !r.o.DryRun && version != "" && version != r.e.policies.Version {
		r.hold("another version of the policies and definitions was loaded since; this process looks, but does not send")
	}
	heldBy, err := r.e.store.Meta(ctx, ledger.MetaHeld)
	if err != nil {
		return err
	}
	if heldBy != "" {
		r.hold("sends are on hold for the whole ledger; reconcile resume lets them go")
	}
	if r.o.DryRun || r.held() != "" {
		return nil
	}
	return r.noteOrder(ctx)
}

// clockStep voids what a step of the ledger's clock makes doubtful.
func (r *run) clockStep(ctx context.Context, now time.Time) error {
	if !r.e.stepped(now) || r.o.DryRun {
		return nil
	}
	r.hold("the ledger's clock stepped by more than 5 s; negatives asked before are void, and nothing is sent in this pass")
	if _, err := r.e.store.Unsettle(ctx, "clock_step", false, 0); err != nil {
		return err
	}
	_, err := r.e.store.Alert(ctx, "clock", "the ledger's clock stepped by more than 5 s")
	return err
}

// replaced answers a database that is not the one that wrote last: a standby
// took over, or a copy was restored. What was due becomes unknown.
func (r *run) replaced(ctx context.Context, why error) error {
	r.hold("the database was replaced and may have lost what was written last; what was due is looked at first, and nothing is sent in this pass")
	_, err := r.e.newGeneration(ctx, "generation", why.Error())
	return err
}

// hold stops sends for this pass, and says why once.
func (r *run) hold(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noSends == "" {
		r.noSends = why
		r.tally.Notes = append(r.tally.Notes, why)
	}
}

func (r *run) note(format string, a ...any) {
	r.mu.Lock()
	r.tally.Notes = append(r.tally.Notes, fmt.Sprintf(format, a...))
	r.mu.Unlock()
}

// alert opens an alert about what many entries of a pass may show, and asks the
// ledger once.
func (r *run) alert(ctx context.Context, key, text string) error {
	r.mu.Lock()
	known := r.alerted[key]
	r.alerted[key] = true
	r.mu.Unlock()
	if known || r.o.DryRun {
		return nil
	}
	opened, err := r.e.store.Alert(ctx, key, text)
	if opened {
		r.note("%s", text)
	}
	return err
}

// calm closes an alert about what a look has shown to be well again, and asks
// the ledger once. One that this pass has raised stays: where some looks say so
// and some say no, all is not well.
func (r *run) calm(ctx context.Context, key string) error {
	r.mu.Lock()
	known := r.alerted[key] || r.calmed[key]
	r.calmed[key] = true
	r.mu.Unlock()
	if known || r.o.DryRun {
		return nil
	}
	return r.e.store.Calm(ctx, key)
}

func (r *run) held() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noSends
}

type dueByWork map[ledger.Work]int

func sortedLanes(due map[string]dueByWork) []string {
	names := make([]string, 0, len(due))
	for n := range due {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// plan counts what is due, and with a limit chooses the entries longest due.
func (r *run) plan(ctx context.Context) (map[string]dueByWork, error) {
	counts, err := r.e.store.Due(ctx, r.filter)
	if err != nil {
		return nil, err
	}
	due := map[string]dueByWork{}
	for _, d := range counts {
		r.tally.Counts.Skipped += d.Leased
		r.tally.OutsideWindow += d.Outside
		if d.Outside > 0 && (r.tally.OldestOutside.IsZero() || d.OldestAt.Before(r.tally.OldestOutside)) {
			r.tally.OldestOutside = d.OldestAt
		}
		if d.Count == 0 || !r.wants(d.Work) {
			continue
		}
		if due[d.Lane] == nil {
			due[d.Lane] = dueByWork{}
		}
		due[d.Lane][d.Work] += d.Count
		r.total += d.Count
	}
	if r.o.Limit <= 0 || r.total <= r.o.Limit {
		return due, nil
	}
	return r.limit(ctx, due)
}

func (r *run) wants(w ledger.Work) bool {
	switch w {
	case ledger.WorkLook:
		return r.o.Steps.Settle
	case ledger.WorkRelease:
		return r.o.Steps.Release
	case ledger.WorkAdvance:
		return r.o.Steps.Advance
	}
	return false
}

// limit chooses the entries longest due over all lanes, and counts the others
// as skipped.
func (r *run) limit(ctx context.Context, due map[string]dueByWork) (map[string]dueByWork, error) {
	type place struct {
		lane string
		work ledger.Work
		pos  ledger.Position
	}
	var all []place
	for lane, works := range due {
		for work := range works {
			c, err := r.e.store.Claim(ctx, ledger.Claim{Lane: lane, Work: work, Limit: r.o.Limit, Filter: r.filter, Peek: true})
			if err != nil {
				return nil, err
			}
			for _, s := range c.Entries {
				all = append(all, place{lane, work, ledger.Position{NextAt: s.Entry.NextAt, ActionKey: s.Entry.ActionKey}})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if !all[i].pos.NextAt.Equal(all[j].pos.NextAt) {
			return all[i].pos.NextAt.Before(all[j].pos.NextAt)
		}
		return all[i].pos.ActionKey < all[j].pos.ActionKey
	})
	all = all[:min(len(all), r.o.Limit)]
	chosen := map[string]dueByWork{}
	r.filter.ActionKeys = nil
	for _, p := range all {
		if chosen[p.lane] == nil {
			chosen[p.lane] = dueByWork{}
		}
		chosen[p.lane][p.work]++
		r.filter.ActionKeys = append(r.filter.ActionKeys, p.pos.ActionKey)
	}
	r.tally.Counts.Skipped += r.total - len(all)
	r.total = len(all)
	return chosen, nil
}

// lane runs the steps of one lane in their order.
func (r *run) lane(ctx context.Context, name string, due dueByWork) error {
	var reopened []ledger.Stored
	if due[ledger.WorkLook] > 0 {
		var err error
		if reopened, err = r.settle(ctx, name, due[ledger.WorkLook]); err != nil {
			return err
		}
	}
	if due[ledger.WorkRelease] > 0 {
		released, err := r.release(ctx, name)
		if err != nil {
			return err
		}
		reopened = append(reopened, released...)
	}
	if r.o.Steps.Advance {
		return r.advance(ctx, name, due[ledger.WorkAdvance], reopened)
	}
	return nil
}

// job is a group of claimed entries of one operation.
type job struct {
	es   []ledger.Stored
	ls   []ledger.Lease
	conn connectors.Connector // nil when not configured
	info connectors.Info
	op   connectors.Operation
	have bool // the connector has the operation
}

// stage is one step over one lane: it claims, groups, and lets as many workers
// as the lane allows handle the groups, while results are written in batches.
type stage struct {
	r       *run
	name    string
	work    ledger.Work
	lane    ledger.Lane
	out     chan became
	stopped chan struct{} // closed when the lane can go no further in this pass
	once    sync.Once
}

// became is what became of one entry, to be written.
type became struct {
	ch      ledger.Change
	from    ledger.Entry
	finding ledger.Finding
	ours    bool  // it carries the result of our own send
	turn    *turn // that ends when it is written; may be nil
}

func (st *stage) halt() { st.once.Do(func() { close(st.stopped) }) }

func (st *stage) halted(ctx context.Context) bool {
	select {
	case <-st.stopped:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// drive claims what is due and hands it to handle. size says how many entries a
// group may have. extra, of a dry run, are entries to go through first.
func (r *run) drive(ctx context.Context, st *stage, size func(job) int, handle func(context.Context, job) error, extra []ledger.Stored) error {
	host := time.Now()
	cutoff, err := r.e.store.Now(ctx)
	if err != nil {
		return err
	}
	r.ck.set(cutoff, host)
	workers, limit := r.width(st.name)

	st.out = make(chan became, writeBatch)
	written := make(chan error, 1)
	go func() { written <- r.write(ctx, st) }()

	jobs := make(chan job)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range jobs {
				if st.halted(ctx) {
					r.giveBack(ctx, j.ls)
					continue
				}
				if err := handle(ctx, j); err != nil {
					r.fail(err)
					st.halt()
				}
			}
		})
	}
	claimErr := r.claim(ctx, st, cutoff, limit, workers, size, jobs, extra)
	close(jobs)
	wg.Wait()
	close(st.out)
	return errors.Join(claimErr, <-written)
}

// width is how many calls a lane may have open, and how many entries a claim.
func (r *run) width(lane string) (workers, claim int) {
	workers, claim = 0, claimSingle
	for _, c := range r.e.conns {
		i := c.Info()
		if i.Lane != lane {
			continue
		}
		for _, rate := range i.Rates {
			if rate.Bucket == "" && rate.Concurrent > 0 && (workers == 0 || rate.Concurrent < workers) {
				workers = rate.Concurrent
			}
		}
		if i.HasBatch {
			claim = claimBatch
		}
	}
	return max(workers, 1), claim
}

func (r *run) claim(ctx context.Context, st *stage, cutoff time.Time, limit, workers int, size func(job) int, jobs chan<- job, extra []ledger.Stored) error {
	if len(extra) > 0 {
		r.group(ctx, st, extra, make([]ledger.Lease, len(extra)), workers, size, jobs)
	}
	var after ledger.Position
	for !st.halted(ctx) {
		failpoint.Hit("before-claim")
		host := time.Now()
		c, err := r.e.store.Claim(ctx, ledger.Claim{Lane: st.name, Work: st.work, Limit: limit, DueBefore: cutoff, Holder: r.e.holder,
			Lease: r.e.lease, Filter: r.filter, After: after, Peek: r.o.DryRun})
		if errors.Is(err, ledger.ErrGeneration) && !r.o.DryRun {
			if err := r.replaced(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if len(c.Entries) == 0 {
			return nil
		}
		failpoint.Hit("after-claim")
		r.ck.set(c.Now, host)
		if err := r.clockStep(ctx, c.Now); err != nil {
			return err
		}
		r.track(c.Leases)
		lastEntry := c.Entries[len(c.Entries)-1].Entry
		after = ledger.Position{NextAt: lastEntry.NextAt, ActionKey: lastEntry.ActionKey}
		ls := c.Leases
		if r.o.DryRun {
			ls = make([]ledger.Lease, len(c.Entries))
		}
		r.group(ctx, st, c.Entries, ls, workers, size, jobs)
	}
	return nil
}

// group hands claimed entries on, by connector and operation, in their order.
func (r *run) group(ctx context.Context, st *stage, es []ledger.Stored, ls []ledger.Lease, workers int, size func(job) int, jobs chan<- job) {
	groups := map[string]*job{}
	var order []string
	for i, s := range es {
		key := s.Entry.Connector + "\x00" + s.Entry.Operation
		j, ok := groups[key]
		if !ok {
			j = &job{conn: r.e.conns[s.Entry.Connector]}
			if j.conn != nil {
				j.info = j.conn.Info()
				j.op, j.have = j.info.Operation(s.Entry.Operation)
				j.op.KeysFrom = r.e.keysSince(j.info.Name, j.op.KeyScope)
			}
			groups[key] = j
			order = append(order, key)
		}
		j.es, j.ls = append(j.es, s), append(j.ls, ls[i])
	}
	for _, key := range order {
		j := *groups[key]
		n := max(1, size(j))
		if st.work == ledger.WorkAdvance {
			j = byRecord(j)
		}
		for len(j.es) > 0 {
			k := min(n, len(j.es))
			if st.work == ledger.WorkAdvance {
				k = wholeRecord(j, k)
			}
			part := j
			part.es, part.ls = j.es[:k], j.ls[:k]
			j.es, j.ls = j.es[k:], j.ls[k:]
			select {
			case jobs <- part:
			case <-ctx.Done():
				r.giveBack(ctx, part.ls)
			case <-st.stopped:
				r.giveBack(ctx, part.ls)
			}
		}
	}
}

// write gathers results and writes them, many in one transaction, as soon as no
// more wait.
func (r *run) write(ctx context.Context, st *stage) error {
	var batch []became
	var failed error
	flush := func() {
		if len(batch) > 0 && failed == nil {
			if failed = r.apply(ctx, batch); failed != nil {
				r.fail(failed)
				st.halt()
			}
		}
		for _, b := range batch {
			b.turn.end()
		}
		batch = batch[:0]
	}
	for {
		var res became
		var ok bool
		if len(batch) == 0 {
			res, ok = <-st.out
		} else {
			select {
			case res, ok = <-st.out:
			default:
				flush()
				res, ok = <-st.out
			}
		}
		if !ok {
			flush()
			return failed
		}
		if batch = append(batch, res); len(batch) >= writeBatch {
			flush()
		}
	}
}

// apply writes one batch through the ledger's door, on a context that a stop
// does not cut: what has been learned is stored.
func (r *run) apply(ctx context.Context, batch []became) error {
	if r.o.DryRun {
		for _, b := range batch {
			r.account(b, b.ch.Next)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.e.lease+closeGrace)
	defer cancel()
	cs := make([]ledger.Change, len(batch))
	for i, b := range batch {
		cs[i] = b.ch
	}
	if err := flagFirst(ctx, r.e.store, cs, r.id); err != nil {
		r.e.log.Warn("duplicates not flagged yet; what was learned is written first", "err", err)
	}
	failpoint.Hit("before-apply")
	applied, err := r.e.store.Apply(ctx, cs)
	failpoint.Hit("after-apply")
	if err != nil {
		return err
	}
	var done []ledger.Entry
	for i, a := range applied {
		r.untrack(cs[i].Lease)
		switch {
		case a.Err == nil:
			r.account(batch[i], a.Entry)
			if cs[i].Lease.State != a.Entry.State {
				done = append(done, a.Entry)
			}
		case errors.Is(a.Err, ledger.ErrLeaseLost), errors.Is(a.Err, ledger.ErrGeneration):
			if batch[i].ours {
				if err := r.late(ctx, batch[i]); err != nil {
					return err
				}
			}
			r.e.log.Info("lease lost", "action_key", cs[i].Lease.ActionKey)
			r.count(func(c *Counts) { c.Skipped++ })
		default:
			return a.Err
		}
	}
	return flagTwice(ctx, r.e.store, done, r.id)
}

// late brings the result of our own send to an entry that somebody else has
// moved meanwhile.
func (r *run) late(ctx context.Context, b became) error {
	var was ledger.State
	e, err := r.e.store.Change(ctx, b.ch.Lease.ActionKey, func(cur ledger.Stored, now time.Time) (ledger.Recording, error) {
		was = cur.Entry.State
		op := connectors.Operation{}
		if c := r.e.conns[cur.Entry.Connector]; c != nil {
			op, _ = c.Info().Operation(cur.Entry.Operation)
		}
		next := AfterLate(cur, r.e.setting(cur.Entry, op, "", ledger.Lane{}, now))
		next.Class = ledger.ClassOf(next)
		rec := ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next}
		if ledger.LeavesHistory(cur.Entry, next) {
			rec.History = []ledger.History{historyOf(cur.Entry, next, "reconcile", "its answer came after the lease was lost", r.id)}
		}
		return rec, nil
	})
	if err != nil {
		return ignoreNotFound(err)
	}
	if e.Outcome == ledger.OutcomeApplied && e.OutcomeKey != "" && was != e.State {
		return flagTwice(ctx, r.e.store, []ledger.Entry{e}, r.id)
	}
	return nil
}

func (r *run) track(ls []ledger.Lease) {
	r.mu.Lock()
	for _, l := range ls {
		r.leases[l.EntryID] = l
	}
	r.mu.Unlock()
}

func (r *run) untrack(l ledger.Lease) {
	r.mu.Lock()
	if r.leases[l.EntryID].Token == l.Token {
		delete(r.leases, l.EntryID)
	}
	r.mu.Unlock()
}

// giveBack ends leases without any change.
func (r *run) giveBack(ctx context.Context, ls []ledger.Lease) {
	if r.o.DryRun || len(ls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := r.e.store.Release(ctx, ls); err != nil {
		r.e.log.Warn("leases not released; they end by themselves", "err", err)
	}
	for _, l := range ls {
		r.untrack(l)
	}
}

// renewing renews the leases held, at a third of their time, until told to
// stop.
func (r *run) renewing(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(r.e.lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			r.mu.Lock()
			ls := make([]ledger.Lease, 0, len(r.leases))
			for _, l := range r.leases {
				ls = append(ls, l)
			}
			r.mu.Unlock()
			if len(ls) == 0 {
				continue
			}
			lost, err := r.e.store.Renew(ctx, ls, r.e.lease)
			if err != nil && ctx.Err() == nil {
				r.e.log.Warn("leases not renewed", "err", err)
			}
			for _, l := range lost {
				r.untrack(l)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (r *run) count(f func(*Counts)) {
	r.mu.Lock()
	f(&r.tally.Counts)
	r.mu.Unlock()
}

// result returns the line of an entry, which a pass may touch more than once.
// r.mu is held.
func (r *run) result(from ledger.Entry) *EntryResult {
	res, ok := r.results[from.ActionKey]
	if !ok {
		res = &EntryResult{ActionKey: from.ActionKey, From: from.State}
		if r.o.Keep {
			r.results[from.ActionKey] = res
			r.order = append(r.order, from.ActionKey)
		}
	}
	return res
}

// account counts what became of one entry.
func (r *run) account(b became, to ledger.Entry) {
	r.mu.Lock()
	res := r.result(b.from)
	res.To, res.Outcome, res.Class, res.Reason = to.State, to.Outcome, to.Class, to.Reason
	if b.finding != "" {
		res.Finding = b.finding
	}
	c := &r.tally.Counts
	was := b.ch.Lease.State
	if r.o.DryRun { // nothing is leased
		was = b.from.State
	}
	moved := was != to.State
	switch {
	case !moved:
		if to.State == ledger.StateAmbiguous && b.finding != "" && b.finding != ledger.FindingCouldNotAsk {
			c.StillAmbiguous++
		}
	case to.State == ledger.StateSettled && to.Outcome == ledger.OutcomeApplied:
		c.SettledApplied++
		if to.SettledBy == ledger.BySend {
			c.Recovered++
		}
	case to.State == ledger.StateSettled:
		c.SettledNotApplied++
		if to.Class == ledger.ReportBlocked {
			c.Blocked++
		}
	case to.State == ledger.StateRetryable && was != ledger.StateReady && b.finding != "":
		c.Reopened++
	case to.State == ledger.StateAmbiguous && b.finding != ledger.FindingCouldNotAsk:
		c.StillAmbiguous++
	case to.State == ledger.StateReady:
		c.Advanced++
	case to.State == ledger.StateDeferred:
		c.Deferred++
	case to.State == ledger.StateEscalated:
		c.Escalated++
	}
	r.done++
	done, total, report := r.done, r.total, false
	if r.o.Progress != nil && time.Since(r.reportedAt) > 100*time.Millisecond {
		r.reportedAt, report = time.Now(), true
	}
	r.mu.Unlock()
	if moved {
		r.e.log.Info("transition", "action_key", to.ActionKey, "from", was, "to", to.State, "reason", to.Reason)
	}
	if report {
		r.o.Progress(min(done, total), total)
	}
}

// unchanged lists an entry that a pass could do nothing about.
func (r *run) unchanged(e ledger.Entry, finding ledger.Finding, reason string) {
	r.mu.Lock()
	res := r.result(e)
	res.To, res.Outcome, res.Class, res.Finding, res.Reason = e.State, e.Outcome, e.Class, finding, reason
	r.mu.Unlock()
}

// finish closes the tally.
func (r *run) finish(ctx context.Context, err error) (Tally, error) {
	r.mu.Lock()
	if err == nil {
		err = r.fatal
	}
	for _, k := range r.order {
		r.tally.Entries = append(r.tally.Entries, *r.results[k])
	}
	held := make([]ledger.Lease, 0, len(r.leases))
	for _, l := range r.leases {
		held = append(held, l)
	}
	if ctx.Err() != nil { // what was due and not worked on any more
		r.tally.Counts.Skipped += max(0, r.total-r.done-r.tally.Counts.CouldNotAsk)
	}
	t := r.tally
	r.mu.Unlock()
	sort.Slice(t.Entries, func(i, j int) bool { return t.Entries[i].ActionKey < t.Entries[j].ActionKey })
	r.giveBack(ctx, held)
	if r.o.Progress != nil {
		r.o.Progress(r.total, r.total)
	}
	if err != nil {
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ledger.ErrInterrupted)) {
			return t, ledger.ErrInterrupted
		}
		return t, err
	}
	if ctx.Err() != nil {
		return t, ledger.ErrInterrupted
	}
	f := r.o.Filter
	f.State = ledger.StateEscalated
	n, _, err := r.e.store.Count(ctx, f)
	if err != nil {
		return t, err
	}
	t.NeedPerson = n
	return t, nil
}
