package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// standing is what is stored of an entry that is to change.
type standing struct {
	ledger.Entry // the columns of standsLayout only
	history      int
	outcomeKey   string // of start_lock only
}

// Apply changes claimed entries; see ledger.Store. A lease that was given back,
// by Release or an Apply before, counts as lost.
func (s *Store) Apply(ctx context.Context, cs []ledger.Change) ([]ledger.Applied, error) {
	out := make([]ledger.Applied, len(cs))
	if len(cs) == 0 {
		return out, nil
	}
	err := s.write(ctx, "apply changes", func(tx *txn) error {
		// What was claimed on another server may have gone on there: its facts
		// are kept, and nothing is changed by it.
		now, _, err := s.claimTime(ctx, tx)
		var gone error
		if errors.Is(err, ledger.ErrGeneration) {
			gone = err
			now, err = s.now(ctx, tx)
		}
		if err != nil {
			return err
		}
		if err := s.keepSeen(ctx, tx, micros(now)); err != nil {
			return err
		}
		// An entry that is named twice is changed twice: each round has it once.
		for _, round := range rounds(cs) {
			if err := s.apply(ctx, tx, now, cs, round, out, gone); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rounds groups the indices of changes so that no group names an entry twice.
func rounds(cs []ledger.Change) [][]int {
	var out [][]int
	times := map[int64]int{}
	for i, c := range cs {
		n := times[c.Lease.EntryID]
		times[c.Lease.EntryID]++
		if n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

func (s *Store) apply(ctx context.Context, tx *txn, now time.Time, cs []ledger.Change, round []int, out []ledger.Applied, gone error) error {
	ids := make([]int64, len(round))
	for j, i := range round {
		ids[j] = cs[i].Lease.EntryID
	}
	stored, err := s.lockStanding(ctx, tx, ids)
	if err != nil {
		return err
	}
	numbers, err := s.numbersOf(ctx, tx, cs, round)
	if err != nil {
		return err
	}
	var changed []int // of cs: what is written
	var attempts []ledger.Attempt
	var evidence []ledger.Evidence
	var void []int64
	at := map[int64]int{} // index of the change of an entry that is to be written
	history := map[int64]ledger.History{}
	for _, i := range round {
		c := cs[i]
		id := c.Lease.EntryID
		cur, ok := stored[id]
		if !ok {
			out[i] = ledger.Applied{Err: fmt.Errorf("entry %q: %w", c.Lease.ActionKey, ledger.ErrNotFound)}
			continue
		}
		for _, a := range c.Attempts {
			a.EntryID = id
			if a.No == 0 {
				a.No = numbers.of(a)
			}
			a.ResultAt, a.EffectAt = time.Time{}, time.Time{} // the stored ones stay where nothing is new
			attempts = append(attempts, dated(a, now))
		}
		for _, ev := range c.Evidence {
			ev.EntryID, ev.PassID = id, cmp.Or(ev.PassID, c.PassID)
			if ev.SeenAt.IsZero() {
				ev.SeenAt = now
			}
			evidence = append(evidence, ev)
		}
		next, err := permitted(cur, c, now)
		if gone != nil {
			err = fmt.Errorf("entry %q: %w", c.Lease.ActionKey, gone)
		}
		if err != nil {
			out[i] = ledger.Applied{Err: err}
			continue
		}
		if ledger.LeavesHistory(cur.Entry, next) {
			history[id] = ledger.History{
				EntryID: id, No: cur.history + 1, At: now, From: cur.State, To: next.State, Outcome: next.Outcome,
				Class: next.Class, Flags: next.Flags, DueAt: next.StepDue(), Reason: next.Reason, Owner: next.Owner, Actor: cmp.Or(c.Actor, defaultActor),
				PolicyVersion: next.PolicyVersion, Note: c.Note, PassID: c.PassID, Detail: c.Detail,
			}
		}
		if c.Void {
			void = append(void, id)
		}
		changed = append(changed, i)
		at[id] = i
		out[i] = ledger.Applied{Entry: next}
	}

	written := map[int64]bool{}
	rs := rows{len(changed), func(j int, to cells) {
		i := changed[j]
		l := cs[i].Lease
		_, added := history[l.EntryID]
		applyLayout.write(&out[i].Entry, to)
		to.int(l.EntryID)
		to.int(l.Token)
		to.text(string(stored[l.EntryID].State))
		to.int(number01(cs[i].Keep))
		to.int(number01(added))
	}}
	err = s.bulk(ctx, tx, "apply", applyLayout, rs, func(r *sqlx.Rows) error {
		var id int64
		err := r.Scan(&id)
		written[id] = true
		return err
	})
	if err != nil {
		return err
	}
	var hs []ledger.History
	for _, id := range ids {
		i, ok := at[id]
		if !ok {
			continue
		}
		if !written[id] { // cannot be, as the row is locked; and would be no error of the others
			out[i] = ledger.Applied{Err: lost(cs[i].Lease, stored[id])}
			continue
		}
		if h, ok := history[id]; ok {
			hs = append(hs, h)
		}
		if cs[i].Keep {
			l := cs[i].Lease
			l.State, l.Until = out[i].Entry.State, stored[id].LeaseUntil
			out[i].Lease = l
		}
	}
	if err := s.writeFacts(ctx, tx, "attempt_learn", attempts, evidence, void); err != nil {
		return err
	}
	return s.insert(ctx, tx, "history_add", historyLayout, rowsOf(historyLayout, hs))
}

// attemptNumbers knows the attempts of entries, to number further ones.
type attemptNumbers map[int64][]ledger.Attempt

// of is the number an attempt has, or gets.
func (ns attemptNumbers) of(a ledger.Attempt) int {
	highest := 0
	for _, o := range ns[a.EntryID] {
		if o.AttemptID == a.AttemptID {
			return o.No
		}
		highest = max(highest, o.No)
	}
	a.No = highest + 1
	ns[a.EntryID] = append(ns[a.EntryID], a)
	return a.No
}

// numbersOf reads the attempts of those entries whose changes bring one
// without a number: a worker that reports its own knows it.
func (s *Store) numbersOf(ctx context.Context, tx *txn, cs []ledger.Change, round []int) (attemptNumbers, error) {
	var ids []int64
	for _, i := range round {
		if slices.ContainsFunc(cs[i].Attempts, func(a ledger.Attempt) bool { return a.No == 0 }) {
			ids = append(ids, cs[i].Lease.EntryID)
		}
	}
	return s.attemptsOf(ctx, tx, ids)
}

// permitted gives the entry as it is to be written, or why it is not.
func permitted(cur standing, c ledger.Change, now time.Time) (ledger.Entry, error) {
	if !holdsLease(c.Lease, cur) {
		return ledger.Entry{}, lost(c.Lease, cur)
	}
	next := c.Next
	if !ledger.Legal(cur.State, next.State) {
		return ledger.Entry{}, &ledger.TransitionError{ActionKey: cur.ActionKey, From: cur.State, To: next.State}
	}
	next.ID, next.ActionKey = cur.ID, cur.ActionKey
	if err := sound(next); err != nil {
		return ledger.Entry{}, err
	}
	next.OriginalOwner = cmp.Or(cur.OriginalOwner, next.OriginalOwner, next.Owner)
	next.Class = ledger.ClassOf(next)
	next.LastActivityAt = now
	next.FencingToken, next.Generation = cur.FencingToken, cur.Generation
	next.LeaseHolder, next.LeaseUntil = "", time.Time{}
	if c.Keep {
		next.LeaseHolder, next.LeaseUntil = cur.LeaseHolder, cur.LeaseUntil
	}
	return next, nil
}

// holdsLease says whether a lease still gives the right to write. Its time does
// not matter: as long as nobody else claimed the entry, nobody is overwritten.
func holdsLease(l ledger.Lease, cur standing) bool {
	return cur.FencingToken == l.Token && cur.LeaseHolder == storable(l.Holder) && cur.LeaseHolder != "" && cur.State == l.State
}

func lost(l ledger.Lease, cur standing) error {
	switch {
	case cur.FencingToken != l.Token:
		return fmt.Errorf("entry %q: %w: token %d, stored %d", l.ActionKey, ledger.ErrLeaseLost, l.Token, cur.FencingToken)
	case cur.State != l.State:
		return fmt.Errorf("entry %q: %w: it was %s, and is %s", l.ActionKey, ledger.ErrLeaseLost, l.State, cur.State)
	}
	return fmt.Errorf("entry %q: %w: it was given back", l.ActionKey, ledger.ErrLeaseLost)
}

// lockStanding reads what must be known of entries to change them, and locks
// them in the order of their ids.
func (s *Store) lockStanding(ctx context.Context, tx *txn, ids []int64) (map[int64]standing, error) {
	list, err := s.d.list(ids)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]standing, len(ids))
	var st standing
	dest := append(standsLayout.dest(&st.Entry), &st.history)
	err = s.query(ctx, tx, "apply_lock", args{"ids": list}, func(r *sqlx.Rows) error {
		err := r.Scan(dest...)
		out[st.ID] = st
		return err
	})
	return out, err
}

// Why a start is refused; see ledger.Started.
const (
	refusedLease      = "lease_lost"
	refusedClearance  = "clearance_lapsed"
	refusedOutcome    = "outcome_key_held"
	refusedHeld       = "held"
	refusedConcurrent = "concurrent"
	refusedGeneration = "generation"
)

// errRefused ends a transaction in which nothing was started.
var errRefused = errors.New("refused")

// Start writes "started"; see ledger.Store. Without a Timeout the entry's and
// the attempt's SendBy stand as given, and no mark is open: somebody else sends.
// Concurrent 0 is no limit.
func (s *Store) Start(ctx context.Context, st ledger.Start) (ledger.Started, error) {
	what := fmt.Sprintf("start %q", st.Lease.ActionKey)
	next := st.Next
	next.ID = st.Lease.EntryID
	if next.State != ledger.StateInFlight {
		return ledger.Started{}, fmt.Errorf("%s: %w", what, &ledger.TransitionError{ActionKey: st.Lease.ActionKey, From: st.Lease.State, To: next.State})
	}
	if err := sound(next); err != nil {
		return ledger.Started{}, fmt.Errorf("%s: %w", what, err)
	}
	var out ledger.Started
	err := s.write(ctx, what, func(tx *txn) (err error) {
		out, err = s.start(ctx, tx, st, next)
		return err
	})
	if errors.Is(err, errRefused) {
		return ledger.Started{Refused: out.Refused}, nil
	}
	if err != nil {
		return ledger.Started{}, err
	}
	return out, nil
}

func (s *Store) start(ctx context.Context, tx *txn, st ledger.Start, next ledger.Entry) (ledger.Started, error) {
	var out ledger.Started
	if _, err := s.durableNow(ctx, tx); err != nil {
		return out, err
	}
	// Locks first, the statement that decides last: it then neither waits nor
	// sees what was true before it waited.
	cur, err := s.startLocks(ctx, tx, st)
	if err != nil {
		return out, err
	}
	if cur == nil {
		return ledger.Started{Refused: refusedLease}, errRefused
	}
	next.ActionKey, next.OutcomeKey, next.Lane = cur.ActionKey, cur.outcomeKey, cur.Lane
	next.OriginalOwner = cmp.Or(cur.OriginalOwner, next.OriginalOwner, next.Owner)
	next.Class = ledger.ClassOf(next)

	a := args{
		"id": st.Lease.EntryID, "token": st.Lease.Token, "holder": storable(st.Lease.Holder), "generation": st.Generation,
		"timeout": spanMicros(st.Timeout), "lease": spanMicros(st.LeaseFor), "concurrent": st.Concurrent, "repeats": number01(st.Repeats),
		"next_at": micros(next.NextAt), "first_sent_at": micros(next.FirstSentAt), "key_sent_at": micros(next.KeySentAt),
		"send_by": micros(next.SendBy),
	}
	for i, v := range startLayout.values(&next) {
		a[cell(i)[1:]] = v
	}
	var at, until, nextAt, firstSent, keySent, sendBy int64
	started, err := s.one(ctx, tx, "start", a, &at, &until, &nextAt, &firstSent, &keySent, &sendBy)
	if err != nil {
		return out, err
	}
	if !started {
		out.Refused, err = s.whyNotStarted(ctx, tx, a)
		return out, cmp.Or(err, errRefused)
	}
	now := s.saw(at)
	next.LastTriedAt, next.LastActivityAt, next.NextAt = now, now, instant(nextAt)
	next.FirstSentAt, next.KeySentAt, next.SendBy = instant(firstSent), instant(keySent), instant(sendBy)
	next.FencingToken, next.Generation = cur.FencingToken, cur.Generation
	next.LeaseHolder, next.LeaseUntil = cur.LeaseHolder, instant(until)

	att := st.Attempt
	att.EntryID, att.StartedAt, att.ReceivedAt, att.Status = next.ID, now, now, ledger.AttemptStarted
	att.Effect = cmp.Or(att.Effect, ledger.EffectUnknown)
	att.ResultAt, att.EffectAt = time.Time{}, now
	if att.No == 0 {
		att.No = cur.Attempts + 1
	}
	if st.Timeout > 0 {
		att.SendBy = now.Add(st.Timeout)
	}
	// Earlier negatives say nothing of this attempt.
	var void []int64
	if cur.LooksAnswered > 0 {
		void = []int64{next.ID}
	}
	if err := s.writeFacts(ctx, tx, "attempt_put", []ledger.Attempt{att}, nil, void); err != nil {
		return out, err
	}
	h := ledger.History{
		EntryID: next.ID, No: cur.history + 1, At: now, From: cur.State, To: next.State, Class: next.Class, Flags: next.Flags,
		Reason: next.Reason, Owner: next.Owner, Actor: defaultActor, PolicyVersion: next.PolicyVersion, PassID: st.PassID, Detail: st.Detail,
	}
	if err := s.insert(ctx, tx, "history_add", historyLayout, rowsOf(historyLayout, []ledger.History{h})); err != nil {
		return out, err
	}
	if next.OutcomeKey != "" {
		if _, err := s.exec(ctx, tx, "holder_set", args{"id": next.ID, "at": at, "outcome_key": next.OutcomeKey}); err != nil {
			return out, err
		}
	}
	lease := st.Lease
	lease.State, lease.Until = next.State, next.LeaseUntil
	return ledger.Started{StartedAt: now, SendBy: att.SendBy, Entry: next, Lease: lease}, nil
}

// startLocks locks what a start rests on: entry, outcome key, what it has in
// common with others, lane, in this order. nil: there is no such entry.
func (s *Store) startLocks(ctx context.Context, tx *txn, st ledger.Start) (*standing, error) {
	var cur standing
	dest := append(standsLayout.dest(&cur.Entry), &cur.history, &cur.outcomeKey,
		&cur.Connector, &cur.Operation, &cur.RecordID, &cur.PayloadDigest)
	found, err := s.one(ctx, tx, "start_lock", args{"id": st.Lease.EntryID}, dest...)
	if err != nil || !found {
		return nil, err
	}
	if cur.outcomeKey != "" {
		if _, err := s.exec(ctx, tx, "holder_lock", args{"outcome_key": cur.outcomeKey, "id": cur.ID}); err != nil {
			return nil, err
		}
	}
	if err := s.lockWays(ctx, tx, []ledger.Entry{cur.Entry}); err != nil {
		return nil, err
	}
	if st.Concurrent <= 0 {
		return &cur, nil
	}
	// Under the lane's lock no other start can count the same free mark.
	var held int
	found, err = s.one(ctx, tx, "start_lane_lock", args{"lane": cur.Lane}, &held)
	if err == nil && !found {
		if _, err = s.exec(ctx, tx, "lane_new", args{"lane": cur.Lane}); err == nil {
			_, err = s.one(ctx, tx, "start_lane_lock", args{"lane": cur.Lane}, &held)
		}
	}
	return &cur, err
}

func (s *Store) whyNotStarted(ctx context.Context, tx *txn, a args) (string, error) {
	var generation, replaced, lease, clearance, held, outcome int
	_, err := s.one(ctx, tx, "start_why", a, &generation, &replaced, &lease, &clearance, &held, &outcome)
	switch {
	case err != nil:
		return "", err
	case replaced == 1:
		s.replaced.Store(a["generation"].(int64) + 1)
		return refusedGeneration, nil
	case generation == 1:
		return refusedGeneration, nil
	case lease == 1:
		return refusedLease, nil
	case clearance == 1:
		return refusedClearance, nil
	case held == 1:
		return refusedHeld, nil
	case outcome == 1:
		return refusedOutcome, nil
	}
	return refusedConcurrent, nil
}
