package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// controlFresh is how long a control that was found stands for later lookups of
// the same operation (docs/rules.md, section 5: within the minute before); a little
// less, so that it is not too old when the call that relies on it goes out.
const controlFresh = 50 * time.Second

// controlState is what is known of the control of one operation.
type controlState struct {
	mu       sync.Mutex
	query    connectors.Query
	has      bool
	chosenAt time.Time // host clock
	state    Control
	asked    time.Time // ledger time of the last call that decided state
}

// clock tells ledger time between two readings of it, by this host's monotonic
// clock. A reading takes its time, at some moment of which it was true: times
// are known to lie between two bounds, and each is used where it is safe.
type clock struct {
	mu            sync.Mutex
	before, after time.Time // host clock around the reading
	at            time.Time
}

// set takes over a reading that was begun at before and has just come.
func (c *clock) set(ledgerNow, before time.Time) {
	c.mu.Lock()
	c.at, c.before, c.after = ledgerNow, before, time.Now()
	c.mu.Unlock()
}

// of is the ledger time of a moment of the host's clock, and not later than it
// was: what a question is dated by, so that no negative counts too early.
func (c *clock) of(host time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(host.Sub(c.after)).Truncate(time.Microsecond)
}

// now is the present ledger time, and not earlier than it is: what waits begin
// at.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(time.Since(c.before)).Truncate(time.Microsecond)
}

// asked is what came of asking about one entry.
type asked struct {
	answer  connectors.Answer
	err     *connectors.Error
	control Control
	at      time.Time // ledger time of the call
}

// query makes the question about an entry.
func query(e ledger.Entry, op connectors.Operation) connectors.Query {
	q := connectors.Query{Operation: e.Operation, Keys: e.Keys, RemoteID: e.RemoteID, ActionKey: e.ActionKey,
		RecordID: e.RecordID, Subject: e.Subject, Payload: e.Payload, From: e.FirstSentAt}
	if len(q.Keys) == 0 {
		q.Keys = []string{e.ProviderKey}
	}
	if !e.SendBy.IsZero() {
		q.Until = e.SendBy.Add(op.LandsWithin)
	}
	return q
}

// queryAt is the question about an entry at a moment: where nothing says when an
// attempt can no longer have been made, it may have been until then.
func queryAt(e ledger.Entry, op connectors.Operation, now time.Time) connectors.Query {
	q := query(e, op)
	if e.Unbounded {
		q.Until = later(q.Until, now)
	}
	return q
}

// ask puts the question about entries of one operation, in one call where the
// system takes several. Each result stands for itself; an error is trouble with
// the ledger.
func (e *Engine) ask(ctx context.Context, ck *clock, c connectors.Connector, op connectors.Operation, lag int, es []ledger.Stored) ([]asked, error) {
	out := make([]asked, len(es))
	batcher, batched := c.(connectors.BatchLooker)
	if !batched || op.Lookup != connectors.LookupBatch || op.BatchMax < 2 {
		ctl, err := e.controlNow(ctx, ck, c, op, lag)
		if err != nil {
			return nil, err
		}
		for i, s := range es {
			out[i] = askOne(ctx, ck, c, queryAt(s.Entry, op, ck.now()))
			out[i].control = ctl
		}
		return out, nil
	}

	cq, has, err := e.controlQuery(ctx, ck, c, op, lag)
	if err != nil {
		return nil, err
	}
	ride := has && !op.ControlProbe
	for from := 0; from < len(es); {
		n := min(len(es)-from, op.BatchMax)
		if ride && n == op.BatchMax {
			n--
		}
		qs := make([]connectors.Query, 0, n+1)
		for _, s := range es[from : from+n] {
			qs = append(qs, queryAt(s.Entry, op, ck.now()))
		}
		if ride {
			qs = append(qs, cq)
		}
		host := time.Now()
		rs := batcher.LookupBatch(ctx, qs)
		ctl := ControlNone
		if ride {
			ctl, err = e.controlResult(ctx, ck, c, op, rs[n], host)
		} else if op.ControlProbe {
			ctl, err = e.controlNow(ctx, ck, c, op, lag)
		}
		if err != nil {
			return nil, err
		}
		for i := 0; i < n; i++ {
			a := result(ck, rs[i], host)
			if a.err != nil && a.err.Kind == connectors.KindNotMentioned {
				a = askOne(ctx, ck, c, qs[i])
			}
			a.control = ctl
			out[from+i] = a
		}
		from += n
	}
	return out, nil
}

func askOne(ctx context.Context, ck *clock, c connectors.Connector, q connectors.Query) asked {
	host := time.Now()
	a, err := c.Lookup(ctx, q)
	return result(ck, connectors.Result{Answer: a, Err: err}, host)
}

// result dates an answer by its own call. A cancelled call is no look.
func result(ck *clock, r connectors.Result, host time.Time) asked {
	if !r.Answer.AskedAt.IsZero() {
		host = r.Answer.AskedAt
	}
	a := asked{answer: r.Answer, at: ck.of(host)}
	if r.Err != nil {
		a.err = asError(r.Err)
	}
	return a
}

func asError(err error) *connectors.Error {
	var ce *connectors.Error
	if errors.As(err, &ce) {
		return ce
	}
	kind := connectors.KindUnknown
	if errors.Is(err, context.Canceled) {
		kind = connectors.KindStopping
	}
	return &connectors.Error{Kind: kind, Message: err.Error()}
}

func (e *Engine) controlOf(c connectors.Connector, op connectors.Operation) *controlState {
	key := c.Info().Name + "\x00" + op.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	st, ok := e.controls[key]
	if !ok {
		st = &controlState{state: ControlNone}
		e.controls[key] = st
	}
	return st
}

// controlQuery chooses the record that this lookup must show: the canary, else
// the youngest entry of the operation known to be applied, old enough to show
// with the lag seen on this lane, and not older than the system shows anything.
func (e *Engine) controlQuery(ctx context.Context, ck *clock, c connectors.Connector, op connectors.Operation, lag int) (connectors.Query, bool, error) {
	if op.Canary != "" {
		return connectors.Query{Operation: op.Name, Keys: []string{op.Canary}, ActionKey: op.Canary}, true, nil
	}
	st := e.controlOf(c, op)
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.chosenAt.IsZero() && time.Since(st.chosenAt) < controlFresh && st.has {
		return st.query, true, nil
	}
	now := ck.now()
	old := now.Add(-op.LandsWithin - time.Duration(max(lag, 1))*op.VisibleWithin)
	en, ok, err := e.store.Control(ctx, c.Info().Name, op.Name, old)
	if err != nil {
		return connectors.Query{}, false, err
	}
	if op.LooksBack > 0 && en.FirstSentAt.Before(now.Add(-op.LooksBack)) {
		ok = false
	}
	st.has, st.chosenAt = ok, time.Now()
	if ok {
		st.query = query(en, op)
		st.query.RemoteID = "" // the same lookup, never the direct read
	}
	return st.query, ok, nil
}

// controlNow answers whether the lookup was shown to work within the minute
// before, and asks for the control where that is too long ago.
func (e *Engine) controlNow(ctx context.Context, ck *clock, c connectors.Connector, op connectors.Operation, lag int) (Control, error) {
	st := e.controlOf(c, op)
	st.mu.Lock()
	fresh := (st.state == ControlFound || st.state == ControlProbe) && ck.now().Sub(st.asked) < controlFresh
	state := st.state
	st.mu.Unlock()
	if fresh {
		return state, nil
	}
	if op.ControlProbe {
		p, ok := c.(connectors.Prober)
		if !ok {
			return ControlNone, nil
		}
		host := time.Now()
		if _, err := p.Probe(ctx); err != nil {
			return ControlUnasked, nil
		}
		return st.set(ControlProbe, ck.of(host)), nil
	}
	q, has, err := e.controlQuery(ctx, ck, c, op, lag)
	if err != nil || !has {
		return ControlNone, err
	}
	host := time.Now()
	a, err := c.Lookup(ctx, q)
	return e.controlResult(ctx, ck, c, op, connectors.Result{Answer: a, Err: err}, host)
}

// controlResult notes what came of asking for the control. Found, it brings a
// lookup that was out of use back.
func (e *Engine) controlResult(ctx context.Context, ck *clock, c connectors.Connector, op connectors.Operation, r connectors.Result, host time.Time) (Control, error) {
	st := e.controlOf(c, op)
	switch {
	case r.Err != nil || len(r.Answer.Records) == 0 && !r.Answer.Complete:
		return ControlUnasked, nil
	case len(r.Answer.Records) == 0:
		return st.set(ControlMissing, ck.of(host)), nil
	}
	name := lookupLane(c.Info().Lane, op.Name)
	if err := e.lanes.OK(ctx, name); err != nil && ctx.Err() == nil {
		return ControlNone, err
	}
	return st.set(ControlFound, ck.of(host)), nil
}

func (st *controlState) set(c Control, at time.Time) Control {
	st.mu.Lock()
	st.state, st.asked = c, at
	st.mu.Unlock()
	return c
}

// seen is one record in the evidence of a look.
type seen struct {
	ID         string              `json:"id"`
	Key        string              `json:"key,omitempty"`
	Status     string              `json:"status,omitempty"`
	Standing   connectors.Standing `json:"standing"`
	MergedInto string              `json:"merged_into,omitempty"`
	Origin     bool                `json:"other_origin,omitempty"`
	Compared   []seenValue         `json:"compared,omitempty"`
}

type seenValue struct {
	Path  string `json:"path"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	Equal bool   `json:"equal"`
}

// lookDetail is the detail of the evidence of a look.
type lookDetail struct {
	Reason    string   `json:"reason"`
	Keys      []string `json:"asked_for,omitempty"`
	Records   []seen   `json:"records"`
	Foreign   int      `json:"foreign,omitempty"`
	Control   Control  `json:"control,omitempty"`
	Negatives int      `json:"negatives,omitempty"`
	Needed    int      `json:"needed,omitempty"`
	NotBefore string   `json:"first_counts_at,omitempty"`
	Error     string   `json:"error,omitempty"`
	Class     string   `json:"error_class,omitempty"`
	Status    int      `json:"http_status,omitempty"`
}

// maxSeen bounds the records kept in one piece of evidence.
const maxSeen = 20

// lookEvidence is the evidence of one look: what was asked, what was answered,
// and what it was taken for.
func lookEvidence(en ledger.Entry, connector, version, passID string, a asked, l Look) ledger.Evidence {
	d := lookDetail{Reason: l.Reason, Keys: query(en, connectors.Operation{}).Keys, Records: []seen{}, Foreign: a.answer.Foreign}
	if a.err != nil {
		d.Error, d.Class, d.Status = a.err.Message, string(a.err.Kind), a.err.HTTPStatus
		if d.Error == "" {
			d.Error = a.err.Error()
		}
	} else if len(a.answer.Records) == 0 {
		d.Control, d.Negatives, d.Needed = a.control, l.Negatives, l.Needed
		if !l.FirstCount.IsZero() {
			d.NotBefore = l.FirstCount.UTC().Format(time.RFC3339)
		}
	}
	for i, r := range a.answer.Records {
		if i == maxSeen {
			break
		}
		s := seen{ID: r.ID, Key: r.Key, Status: r.Status, Standing: r.Standing, MergedInto: r.MergedInto, Origin: r.Origin}
		for _, c := range append(append([]connectors.Compared(nil), r.Compared...), r.Proof...) {
			s.Compared = append(s.Compared, seenValue{c.Path, c.Want, c.Got, c.Equal})
		}
		d.Records = append(d.Records, s)
	}
	return ledger.Evidence{EntryID: en.ID, Finding: l.Finding, Connector: connector, Form: a.answer.Form, RemoteID: l.RemoteID,
		AskedAt: l.Asked, Counted: l.Counts, Version: version, Detail: mustJSON(d), PassID: passID}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type of our own that cannot be marshalled
	}
	return b
}
