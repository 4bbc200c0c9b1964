package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// maxRecords is how many records one call may carry: a transaction stays
// short, and what it holds in memory stays small.
const maxRecords = 1000

// Longest texts that stand in an index, in bytes. PostgreSQL's limit for one
// index row is 2,704 bytes (a third of a page); connector and operation, 512
// each, stand before the provider key.
const (
	maxKey   = 512
	maxOther = 1024
)

// Record writes reports; see ledger.Store.
func (s *Store) Record(ctx context.Context, recs []ledger.Record, decide ledger.Decider) ([]ledger.Recorded, error) {
	if len(recs) > maxRecords {
		return nil, fmt.Errorf("record: %d records at once, at most %d can be written", len(recs), maxRecords)
	}
	if len(recs) == 0 {
		return nil, nil
	}
	var out []ledger.Recorded
	try := 0
	err := s.write(ctx, "record", func(tx *txn) (err error) {
		// Whether a provider key is taken is asked only once an insert has
		// shown that one is: few batches meet that, and the question costs.
		out, err = s.record(ctx, tx, recs, decide, try > 0)
		try++
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// keyUse is what one entry travels under, or is looked for by: no two entries may
// have one, as what the system shows or gives again under it would be taken for
// either of them.
type keyUse struct{ connector, operation, key string }

// usesOf are the keys of an entry: the one that its row guards ("" for none), and
// those beside it.
func usesOf(e ledger.Entry) (own keyUse, beside []keyUse) {
	own = keyUse{e.Connector, e.Operation, guard(e)}
	add := func(key string) {
		use := keyUse{e.Connector, e.Operation, key}
		if key != "" && key != e.ProviderKey && use != own && !slices.Contains(beside, use) {
			beside = append(beside, use)
		}
	}
	for _, k := range e.Keys {
		add(k)
	}
	add(e.IdempotencyKey)
	return own, beside
}

// guard is the entry's key as its system tells keys apart.
func guard(e ledger.Entry) string { return cmp.Or(e.KeyGuard, e.ProviderKey) }

func (s *Store) record(ctx context.Context, tx *txn, recs []ledger.Record, decide ledger.Decider, careful bool) ([]ledger.Recorded, error) {
	now, err := s.durableNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(recs))
	for i, r := range recs {
		keys[i] = storable(r.ActionKey)
	}
	stored, err := s.lockByKey(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	distinct := map[string]bool{}
	for _, k := range keys {
		if stored[k] == nil {
			distinct[k] = true
		}
	}
	ids, err := s.newIDs(ctx, tx, len(distinct))
	if err != nil {
		return nil, err
	}

	if !careful {
		// The index on the rows tells of their own keys alone.
		if careful, err = s.one(ctx, tx, "any_key", nil, new(int)); err != nil {
			return nil, err
		}
	}

	// owners are the entries that have a key already. A pass over the
	// records may ask for keys not looked up yet; then they are, and the pass
	// is made anew, as a refusal changes what comes after it.
	owners := map[keyUse]string{}
	for {
		b := newBatch(now, ids, len(recs))
		for k, p := range stored {
			b.entries[k] = p.copy()
		}
		out := make([]ledger.Recorded, len(recs))
		var unknown []keyUse
		var asks []asked
		for i, rec := range recs {
			var cur *ledger.Stored
			p := b.entries[keys[i]]
			if p != nil {
				c := p.stored()
				cur = &c
			}
			d := decide(cur, rec, now)
			out[i] = b.take(keys[i], p, d, owners)
			if d.Then != nil && out[i].Verdict != ledger.RecordedRefused {
				asks = append(asks, asked{out: &out[i], p: b.entries[keys[i]], then: d.Then})
			}
			if !writes(out[i].Verdict) {
				continue
			}
			own, beside := usesOf(d.Entry)
			if careful && own.key != "" {
				beside = append(beside, own)
			}
			for _, use := range beside {
				if _, known := owners[use]; !known {
					unknown = append(unknown, use)
				}
			}
		}
		if len(unknown) == 0 {
			err := s.flush(ctx, tx, b)
			if err == nil && len(asks) > 0 {
				err = s.goOn(ctx, tx, now, asks)
			}
			return out, err
		}
		if err := s.askOwners(ctx, tx, unknown, owners); err != nil {
			return nil, err
		}
	}
}

func writes(v ledger.Verdict) bool { return v == ledger.RecordedNew || v == ledger.RecordedMerged }

// askOwners finds out whose the keys are; "" is nobody's.
func (s *Store) askOwners(ctx context.Context, tx *txn, uses []keyUse, owners map[keyUse]string) error {
	for _, u := range uses {
		owners[u] = ""
	}
	rs := rows{len(uses), func(i int, to cells) {
		to.text(storable(uses[i].connector))
		to.text(storable(uses[i].operation))
		to.text(storable(uses[i].key))
	}}
	return s.bulk(ctx, tx, "key_owners", useLayout, rs, func(r *sqlx.Rows) error {
		var u keyUse
		var owner string
		err := r.Scan(&u.connector, &u.operation, &u.key, &owner)
		owners[u] = owner
		return err
	})
}

// Change lets decide change one entry under its row lock; see ledger.Store.
func (s *Store) Change(ctx context.Context, actionKey string, decide func(cur ledger.Stored, now time.Time) (ledger.Recording, error)) (ledger.Entry, error) {
	var out ledger.Entry
	key := storable(actionKey)
	err := s.write(ctx, fmt.Sprintf("change %q", actionKey), func(tx *txn) error {
		now, err := s.durableNow(ctx, tx)
		if err != nil {
			return err
		}
		stored, err := s.lockByKey(ctx, tx, []string{key})
		if err != nil {
			return err
		}
		p := stored[key]
		if p == nil {
			return ledger.ErrNotFound
		}
		d, err := decide(p.stored(), now)
		if err != nil {
			return err
		}
		if d.Verdict == "" {
			d.Verdict = ledger.RecordedMerged
		}
		if writes(d.Verdict) && !ledger.Legal(p.entry.State, d.Entry.State) {
			return &ledger.TransitionError{ActionKey: actionKey, From: p.entry.State, To: d.Entry.State}
		}
		b := newBatch(now, nil, 1)
		b.entries, b.raise = stored, true
		if d.Verdict != ledger.RecordedRefused {
			for i := range d.History {
				d.History[i].Actor = cmp.Or(d.History[i].Actor, defaultActor)
			}
		}
		r := b.take(key, p, d, nil)
		if r.Verdict == ledger.RecordedRefused {
			errs := make([]error, len(r.Errors))
			for i := range r.Errors {
				errs[i] = &r.Errors[i]
			}
			return errors.Join(errs...)
		}
		out = p.entry
		return s.flush(ctx, tx, b)
	})
	return out, err
}

// The actors of a history row whose writer named none.
const (
	defaultActor = "reconcile"
	importActor  = "import"
)

// pending is an entry under its row lock (or not yet written), on its way from
// what is stored to what is to stand.
type pending struct {
	entry    ledger.Entry
	attempts []ledger.Attempt
	fresh    bool // not stored yet
	born     bool // first stored in this transaction

	state     ledger.State // as stored
	token     int64        // as stored
	historyNo int          // rows of history there are
	written   int          // history rows added
	touched   bool
	changed   bool
	raised    bool
}

func (p *pending) copy() *pending {
	c := *p
	c.attempts = slices.Clone(p.attempts)
	return &c
}

func (p *pending) stored() ledger.Stored {
	return ledger.Stored{Entry: p.entry, Attempts: slices.Clone(p.attempts)}
}

// attemptKey is what is unique of an attempt.
type attemptKey struct {
	entry int64
	id    string
}

// batch collects what one transaction writes.
type batch struct {
	now     time.Time
	ids     []int64 // not used yet
	raise   bool    // raise tokens in any case
	goesOn  bool    // decided by Recording.Then, which gives the history itself
	entries map[string]*pending
	used    map[keyUse]string // keys of this batch, and whose they are

	order    []*pending         // touched, in their order
	attempts []ledger.Attempt   // of entries that are stored; those of new ones are in pending
	putAt    map[attemptKey]int // where in attempts
	evidence []ledger.Evidence
	history  []ledger.History
	keys     []entryKey
	void     []int64
}

// entryKey is a key that an entry has beside its own.
type entryKey struct {
	use   keyUse
	entry *pending
}

// newBatch is for about n entries.
func newBatch(now time.Time, ids []int64, n int) *batch {
	return &batch{
		now: now, ids: ids, entries: make(map[string]*pending, n), used: make(map[keyUse]string, n), putAt: map[attemptKey]int{},
		order: make([]*pending, 0, n), history: make([]ledger.History, 0, n),
	}
}

// take adds one decision, and says what becomes of it. owners are entries that
// are known to have a provider key.
func (b *batch) take(key string, p *pending, d ledger.Recording, owners map[keyUse]string) ledger.Recorded {
	out := ledger.Recorded{ActionKey: key, Verdict: d.Verdict, Errors: d.Errors, Warnings: d.Warnings, Send: d.Send, Why: d.Why}
	refuse := func(field, format string, a ...any) ledger.Recorded {
		out.Verdict = ledger.RecordedRefused
		out.Errors = append(slices.Clone(d.Errors), ledger.FieldError{Field: field, Message: fmt.Sprintf(format, a...)})
		if p != nil {
			out.Entry = p.entry
		}
		return out
	}
	if d.Verdict == ledger.RecordedRefused || d.Verdict == ledger.RecordedUnchanged && p == nil {
		if p != nil {
			out.Entry = p.entry
		}
		return out
	}
	for _, a := range d.Attempts {
		if a.AttemptID == "" || len(a.AttemptID) > maxKey {
			return refuse("attempts", "an attempt_id has 1 to %d bytes, this one %d", maxKey, len(a.AttemptID))
		}
	}

	var before ledger.Entry
	if p != nil {
		before = p.entry
	}
	next := before
	var fresh []keyUse // keys beside its own that are new
	if writes(d.Verdict) {
		next = d.Entry
		next.ActionKey = key
		if f := tooLong(next); f != "" {
			return refuse(f, "too long for the ledger's indexes; at most %d bytes", maxOther)
		}
		from := before.State
		if p != nil && p.born {
			from = ""
		}
		if !ledger.Legal(from, next.State) {
			return refuse("state", "%v", &ledger.TransitionError{ActionKey: key, From: from, To: next.State})
		}
		if err := sound(next); err != nil {
			return refuse("state", "%v", err)
		}
		own, beside := usesOf(next)
		if other := b.ownerOf(own, key, owners); other != "" {
			return refuse("provider_key", "%q would travel under the key of %q, as %s; give it a provider_key of its own", key, other, whyTaken(next))
		}
		_, had := usesOf(before)
		fresh = slices.DeleteFunc(beside, func(u keyUse) bool { return slices.Contains(had, u) })
		for _, use := range fresh {
			if other := b.ownerOf(use, key, owners); other != "" {
				field := "idempotency_key"
				if slices.Contains(next.Keys, use.key) {
					field = "provider_key"
				}
				return refuse(field, "%q is in use by the entry %q; what the system shows or answers under it would be taken for both, so %q needs a key of its own",
					use.key, other, key)
			}
		}
		b.used[own] = key
		for _, use := range fresh {
			b.used[use] = key
		}
	}

	if p == nil {
		p = &pending{fresh: true}
		next.ID, b.ids = b.ids[0], b.ids[1:]
		b.entries[key] = p
	}
	if !p.touched {
		p.touched = true
		b.order = append(b.order, p)
	}
	if writes(d.Verdict) {
		b.change(p, next, d)
	}
	for _, use := range fresh {
		b.keys = append(b.keys, entryKey{use, p})
	}
	b.facts(p, d)
	p.entry.Attempts = max(p.entry.Attempts, len(p.attempts))
	out.Entry = p.entry
	return out
}

// ownerOf is the other entry that has a key, as far as is known; "" for none.
func (b *batch) ownerOf(use keyUse, key string, owners map[keyUse]string) string {
	for _, other := range []string{owners[use], b.used[use]} {
		if use.key != "" && other != "" && other != key {
			return other
		}
	}
	return ""
}

// whyTaken says why the key of an entry is somebody else's.
func whyTaken(e ledger.Entry) string {
	if g := guard(e); g != e.ProviderKey {
		return fmt.Sprintf("the system does not tell %q from keys that differ in case only", e.ProviderKey)
	}
	return fmt.Sprintf("its key is %q too", e.ProviderKey)
}

// change makes the entry stand as decided, with its history.
func (b *batch) change(p *pending, next ledger.Entry, d ledger.Recording) {
	before := p.entry
	if !p.fresh || before.ID != 0 {
		next.ID = before.ID
		next.FencingToken, next.Generation = before.FencingToken, before.Generation
		next.LeaseHolder, next.LeaseUntil = before.LeaseHolder, before.LeaseUntil
	}
	if next.ReceivedAt.IsZero() {
		next.ReceivedAt = b.now
	}
	next.OriginalOwner = cmp.Or(next.OriginalOwner, next.Owner)
	next.KeyGuard = guard(next)
	next.Class = ledger.ClassOf(next)
	next.LastActivityAt = b.now
	if !p.fresh && !p.raised && (b.raise || len(d.Attempts) > 0) {
		// Claims made before can change nothing any more, so their leases
		// need not be waited for.
		next.FencingToken++
		next.LeaseHolder, next.LeaseUntil = "", time.Time{}
		p.raised = true
	}
	rows := d.History
	switch {
	case d.Then != nil:
		rows = nil
	case len(rows) == 0 && !b.goesOn && ledger.LeavesHistory(before, next):
		actor := importActor
		if b.raise {
			actor = defaultActor
		}
		rows = []ledger.History{{
			From: before.State, To: next.State, Outcome: next.Outcome, Reason: next.Reason, Owner: next.Owner,
			Actor: actor, PolicyVersion: next.PolicyVersion,
		}}
	}
	p.entry, p.changed = next, true
	for _, h := range rows {
		b.addHistory(p, h)
	}
}

func (b *batch) addHistory(p *pending, h ledger.History) {
	p.written++
	h.EntryID, h.No = p.entry.ID, p.historyNo+p.written
	if h.At.IsZero() { // a restored row has its own
		h.DueAt = p.entry.StepDue()
	}
	if h.At.IsZero() || h.At.After(b.now) {
		h.At = b.now
	}
	h.Actor = cmp.Or(h.Actor, importActor)
	if h.Class == "" { // a restored row has its own
		h.Class, h.Flags = p.entry.Class, p.entry.Flags
	}
	b.history = append(b.history, h)
}

// facts adds what is stored whatever becomes of the state.
func (b *batch) facts(p *pending, d ledger.Recording) {
	if !p.changed && len(d.History) > 0 {
		p.changed = true // the count of history rows lies in the entry
		for _, h := range d.History {
			b.addHistory(p, h)
		}
	}
	for _, a := range d.Attempts {
		a.EntryID = p.entry.ID
		if i := slices.IndexFunc(p.attempts, func(o ledger.Attempt) bool { return o.AttemptID == a.AttemptID }); i >= 0 {
			old := p.attempts[i]
			a.No, a.ReceivedAt, a.ResultAt, a.EffectAt = old.No, old.ReceivedAt, old.ResultAt, old.EffectAt
			if a.Effect != old.Effect {
				a.EffectAt = b.now
			}
			if a.ReasonID == "" || a.ReasonID == old.ReasonID {
				a.ReasonID, a.ReasonText, a.RulesVersion = old.ReasonID, old.ReasonText, old.RulesVersion
			}
			a = dated(a, b.now)
			p.attempts[i] = a
		} else {
			if a.No == 0 {
				a.No = len(p.attempts) + 1
			}
			a = dated(a, b.now)
			p.attempts = append(p.attempts, a)
		}
		if p.fresh {
			continue
		}
		if i, again := b.putAt[attemptKey{a.EntryID, a.AttemptID}]; again {
			b.attempts[i] = a
		} else {
			b.putAt[attemptKey{a.EntryID, a.AttemptID}] = len(b.attempts)
			b.attempts = append(b.attempts, a)
		}
	}
	for _, ev := range d.Evidence {
		ev.EntryID = p.entry.ID
		if ev.SeenAt.IsZero() {
			ev.SeenAt = b.now
		}
		b.evidence = append(b.evidence, ev)
	}
	if d.Void {
		b.void = append(b.void, p.entry.ID)
	}
}

// dated sets the ledger times of an attempt that are not set yet.
func dated(a ledger.Attempt, now time.Time) ledger.Attempt {
	if a.ReceivedAt.IsZero() {
		a.ReceivedAt = now
	}
	if a.ResultAt.IsZero() && a.Status != ledger.AttemptStarted {
		a.ResultAt = now
	}
	if a.EffectAt.IsZero() {
		a.EffectAt = now
	}
	return a
}

// sound tests what the database's constraints test, so that one half-filled
// entry is refused by itself and does not take its whole batch with it.
func sound(e ledger.Entry) error {
	var wrong []string
	settled := e.State == ledger.StateSettled
	if settled != (e.Outcome != ledger.OutcomeNone) || settled != (e.SettledBy != ledger.ByNothing) || settled == e.SettledAt.IsZero() {
		wrong = append(wrong, "outcome, ground and time of settling are set exactly when it is settled")
	}
	if (e.Work == ledger.WorkNone) != e.NextAt.IsZero() {
		wrong = append(wrong, "work and its time are set together")
	}
	if !e.DueAt.IsZero() && e.State != ledger.StateEscalated {
		wrong = append(wrong, "only an escalated entry has a due time")
	}
	if !slices.Contains(ledger.States(), e.State) {
		wrong = append(wrong, fmt.Sprintf("no state is called %q", e.State))
	}
	if wrong != nil {
		return fmt.Errorf("entry %q cannot stand like this: %s", e.ActionKey, strings.Join(wrong, "; "))
	}
	return nil
}

// tooLong names the first field that does not fit into its index; "" is none.
func tooLong(e ledger.Entry) string {
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"action_key", e.ActionKey, maxKey}, {"connector", e.Connector, maxKey}, {"operation", e.Operation, maxKey},
		{"lane", e.Lane, maxKey}, {"provider_key", e.ProviderKey, maxOther}, {"provider_key", e.KeyGuard, maxOther}, {"outcome_key", e.OutcomeKey, maxOther},
		{"idempotency_key", e.IdempotencyKey, maxOther},
	} {
		if len(f.value) > f.limit {
			return f.name
		}
	}
	if slices.ContainsFunc(e.Keys, func(k string) bool { return len(k) > maxOther }) {
		return "provider_key"
	}
	return ""
}

// flush writes a batch, in a few statements whatever its size.
func (s *Store) flush(ctx context.Context, tx *txn, b *batch) error {
	n := 0
	for _, p := range b.order {
		n += len(p.attempts)
	}
	attempts := make([]ledger.Attempt, 0, n)
	var fresh, changed []*pending
	var holders []holder
	for _, p := range b.order {
		switch {
		case p.fresh:
			fresh = append(fresh, p)
			attempts = append(attempts, p.attempts...)
		case p.changed:
			changed = append(changed, p)
		}
		if p.changed && p.entry.OutcomeKey != "" && holds(p.entry) {
			holders = append(holders, holder{storable(p.entry.OutcomeKey), p.entry.ID})
		}
	}
	added := rows{len(fresh), func(i int, to cells) {
		newLayout.write(&fresh[i].entry, to)
		to.int(int64(fresh[i].written))
	}}
	if err := s.insert(ctx, tx, "entry_new", newLayout, added); err != nil {
		return err
	}
	if err := s.insert(ctx, tx, "attempt_new", attemptLayout, rowsOf(attemptLayout, attempts)); err != nil {
		return err
	}
	keys := rows{len(b.keys), func(i int, to cells) {
		k := b.keys[i]
		to.text(storable(k.use.connector))
		to.text(storable(k.use.operation))
		to.text(storable(k.use.key))
		to.int(k.entry.entry.ID)
	}}
	if err := s.bulk(ctx, tx, "key_add", keyLayout, keys, nil); err != nil {
		return err
	}
	updates := rows{len(changed), func(i int, to cells) {
		p := changed[i]
		updateLayout.write(&p.entry, to)
		to.int(p.entry.ID)
		to.int(p.token)
		to.text(string(p.state))
		to.int(number01(p.raised))
		to.int(int64(p.written))
	}}
	updated := 0
	err := s.bulk(ctx, tx, "entry_update", updateLayout, updates, func(*sqlx.Rows) error { updated++; return nil })
	if err != nil {
		return err
	}
	if updated != len(changed) {
		return fmt.Errorf("%w: %d of %d locked entries were written", ledger.ErrConcurrently, updated, len(changed))
	}
	if err := s.writeFacts(ctx, tx, "attempt_put", b.attempts, b.evidence, b.void); err != nil {
		return err
	}
	if err := s.insert(ctx, tx, "history_add", historyLayout, rowsOf(historyLayout, b.history)); err != nil {
		return err
	}
	return s.takeHolders(ctx, tx, b.now, holders)
}

// writeFacts stores attempts and evidence. Evidence is made void before new
// evidence is added.
func (s *Store) writeFacts(ctx context.Context, tx *txn, attempts string, as []ledger.Attempt, evs []ledger.Evidence, void []int64) error {
	if err := s.bulk(ctx, tx, attempts, attemptLayout, rowsOf(attemptLayout, as), nil); err != nil {
		return err
	}
	if len(void) > 0 {
		list, err := s.d.list(void)
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, "evidence_void", args{"ids": list}); err != nil {
			return err
		}
	}
	return s.bulk(ctx, tx, "evidence_add", evidenceLayout, rowsOf(evidenceLayout, evs), nil)
}

// holds says whether an entry keeps its siblings from being sent. The fragment
// "holds" says the same in SQL.
func holds(e ledger.Entry) bool {
	return e.Outcome != ledger.OutcomeNotApplied &&
		(e.Effect != ledger.EffectNotDone || e.State == ledger.StateInFlight || e.Outcome == ledger.OutcomeApplied)
}

// holder is an entry that is to hold its outcome key.
type holder struct {
	outcomeKey string
	entryID    int64
}

// takeHolders makes entries the holders of their outcome keys where nobody is,
// and locks those keys until the transaction ends, so that a sibling cannot be
// started meanwhile.
func (s *Store) takeHolders(ctx context.Context, tx *txn, now time.Time, hs []holder) error {
	// One row per key, the first; in the order of the keys, so that two
	// transactions do not wait for each other in a ring.
	slices.SortStableFunc(hs, func(a, b holder) int { return strings.Compare(a.outcomeKey, b.outcomeKey) })
	hs = slices.CompactFunc(hs, func(a, b holder) bool { return a.outcomeKey == b.outcomeKey })
	rs := rows{len(hs), func(i int, to cells) {
		to.text(hs[i].outcomeKey)
		to.int(hs[i].entryID)
		to.int(micros(now))
	}}
	return s.bulk(ctx, tx, "holder_take", holderLayout, rs, nil)
}

// lockByKey reads entries with their attempts, and locks them.
func (s *Store) lockByKey(ctx context.Context, tx *txn, keys []string) (map[string]*pending, error) {
	list, err := s.d.list(keys)
	if err != nil {
		return nil, err
	}
	out := map[string]*pending{}
	byID := map[int64]*pending{}
	var e ledger.Entry
	var count int
	dest := append(entryLayout.dest(&e), &count)
	err = s.query(ctx, tx, "entry_lock_keys", args{"keys": list}, func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		p := &pending{entry: e, state: e.State, token: e.FencingToken, historyNo: count}
		out[e.ActionKey], byID[e.ID] = p, p
		return nil
	})
	if err != nil || len(out) == 0 {
		return out, err
	}
	as, err := s.attemptsOf(ctx, tx, mapKeys(byID))
	for id, list := range as {
		byID[id].attempts = list
	}
	return out, err
}

func mapKeys[V any](m map[int64]V) []int64 {
	ids := make([]int64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// attemptsOf reads the attempts of entries, by number.
func (s *Store) attemptsOf(ctx context.Context, on queryer, ids []int64) (map[int64][]ledger.Attempt, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := s.d.list(ids)
	if err != nil {
		return nil, err
	}
	as, err := all[ledger.Attempt](ctx, s, on, "attempts", attemptLayout, args{"ids": list})
	out := map[int64][]ledger.Attempt{}
	for _, a := range as {
		out[a.EntryID] = append(out[a.EntryID], a)
	}
	return out, err
}

// newIDs takes n numbers for new entries.
func (s *Store) newIDs(ctx context.Context, tx *txn, n int) ([]int64, error) {
	if n == 0 {
		return nil, nil
	}
	var list string
	if _, err := s.one(ctx, tx, "entry_ids", args{"n": n}, &list); err != nil {
		return nil, err
	}
	ids := make([]int64, 0, n)
	for text := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number new entries: %w", err)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}
