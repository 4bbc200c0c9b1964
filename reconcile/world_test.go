package reconcile_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
	"github.com/recovery-ledger/reconcile/reconcile"
)

var start = time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC)

// fakeClock is the ledger's clock and the host's running clock of a test. It
// runs, since a pass tells the time between two readings by the host's clock;
// advance moves it on.
type fakeClock struct {
	mu    sync.Mutex
	moved time.Duration
	began time.Time
}

func newClock() *fakeClock { return &fakeClock{began: time.Now()} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return start.Add(c.moved + time.Since(c.began))
}

func (c *fakeClock) running() time.Duration { return c.Now().Sub(start) }

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.moved += d
	c.mu.Unlock()
}

// object is one record of the scripted system.
type object struct {
	id, key  string
	standing connectors.Standing
	status   string
	amount   string
	madeAt   time.Time
	merged   string
}

// system is a scripted outside system. It counts effects itself: a test asks
// it, not the ledger, how often a thing was done.
type system struct {
	mu      sync.Mutex
	clock   *fakeClock
	op      connectors.Operation
	lane    string
	name    string
	scopes  map[string]string // what keys are bound to
	objects []object
	lag     time.Duration

	lookErr    func(keys []string) *connectors.Error
	sendAs     func(s connectors.Send) (effect bool, r connectors.SendResult) // nil: done and answered
	verdicts   []connectors.Verdict
	origin     *connectors.Record // found by business identity
	foreign    bool               // it does not filter, and shows others' records
	strangers  bool               // as foreign, beside our own too
	incomplete bool               // its answers are cut
	onSend     func()
	onCheck    func() // with the system's lock held
	checkAs    func(connectors.CheckQuery) []connectors.Verdict

	lookups, sends, checks int
	sent                   []connectors.Send
}

func (y *system) Info() connectors.Info {
	return connectors.Info{Name: y.name, Type: "fake", Lane: y.lane, Version: "v1", Operations: []connectors.Operation{y.op},
		Rates: []connectors.Rate{{Concurrent: 4}}, HasBatch: y.op.Lookup == connectors.LookupBatch, Scopes: y.scopes}
}

func (y *system) make(key, id string, change ...func(*object)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.makeLocked(key, id, change...)
}

func (y *system) makeLocked(key, id string, change ...func(*object)) {
	o := object{id: id, key: key, standing: connectors.StandingApplied, madeAt: y.clock.Now()}
	for _, c := range change {
		c(&o)
	}
	y.objects = append(y.objects, o)
}

// effects is how many records carry a key, whatever became of them.
func (y *system) effects(key string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := 0
	for _, o := range y.objects {
		if o.key == key {
			n++
		}
	}
	return n
}

func (y *system) answer(q connectors.Query) connectors.Answer {
	a := connectors.Answer{Complete: true, AskedAt: time.Now(), Form: "single", Requests: 1}
	for _, o := range y.objects {
		if !slices.Contains(q.Keys, o.key) || y.clock.Now().Sub(o.madeAt) < y.lag {
			continue
		}
		r := connectors.Record{ID: o.id, Key: o.key, Standing: o.standing, Status: o.status, MergedInto: o.merged}
		if o.amount != "" {
			r.Compared = []connectors.Compared{{Path: "amount", Want: "10", Got: o.amount, Equal: o.amount == "10"}}
		}
		a.Records = append(a.Records, r)
	}
	if y.origin != nil && len(a.Records) == 0 {
		a.Records = append(a.Records, *y.origin)
	}
	if y.strangers || y.foreign && len(a.Records) == 0 {
		a.Foreign = 1
	}
	a.Complete = !y.incomplete
	return a
}

func (y *system) Lookup(ctx context.Context, q connectors.Query) (connectors.Answer, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lookups++
	if ctx.Err() != nil {
		return connectors.Answer{}, &connectors.Error{Kind: connectors.KindStopping}
	}
	if f := y.lookErr; f != nil {
		y.mu.Unlock() // it may reach back into the world
		e := f(q.Keys)
		y.mu.Lock()
		if e != nil {
			return connectors.Answer{}, e
		}
	}
	return y.answer(q), nil
}

func (y *system) LookupBatch(ctx context.Context, qs []connectors.Query) []connectors.Result {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lookups++
	rs := make([]connectors.Result, len(qs))
	for i, q := range qs {
		if y.lookErr != nil {
			if e := y.lookErr(q.Keys); e != nil {
				rs[i].Err = e
				continue
			}
		}
		rs[i].Answer = y.answer(q)
		rs[i].Answer.Form = "batch"
	}
	return rs
}

func (y *system) Send(_ context.Context, s connectors.Send) connectors.SendResult {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.sends++
	y.sent = append(y.sent, s)
	if y.onSend != nil {
		y.onSend()
	}
	id := fmt.Sprintf("id-%d", len(y.objects)+1)
	if y.sendAs != nil {
		effect, r := y.sendAs(s)
		if effect {
			y.makeLocked(s.Key, id)
		}
		return r
	}
	y.makeLocked(s.Key, id)
	return connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone, HTTPStatus: 201}, Answered: true, Wrote: true, RemoteID: id}
}

func (y *system) Check(_ context.Context, q connectors.CheckQuery) []connectors.Verdict {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.checks++
	if y.onCheck != nil {
		y.onCheck()
	}
	if y.checkAs != nil {
		return y.checkAs(q)
	}
	return y.verdicts
}

func (y *system) DeriveKey(_, actionKey string, n int) (string, bool, error) {
	if n == 0 {
		return actionKey, false, nil
	}
	return fmt.Sprintf("%s#%d", actionKey, n), true, nil
}
func (y *system) CheckKey(string, string) error { return nil }
func (y *system) CheckPayload(string, []string, []byte) (bool, bool, string) {
	return true, true, ""
}

// world is a ledger, an engine and scripted systems.
type world struct {
	t      *testing.T
	clock  *fakeClock
	store  ledger.Store
	sys    *system
	engine *reconcile.Engine
	rec    *reconcile.Recorder
	open   func() ledger.Store
}

// eachLedger runs a test on SQLite and on PostgreSQL.
func eachLedger(t *testing.T, f func(t *testing.T, open func(*fakeClock) ledger.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		f(t, func(c *fakeClock) ledger.Store { return openLedger(t, "sqlite:"+file, c) })
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.Reused(t, migrated, emptied)
		f(t, func(c *fakeClock) ledger.Store { return openLedger(t, url, c) })
	})
}

// migrated makes a new database a ledger, and keeps how one begins.
func migrated(url string) error {
	s, err := sqlstore.Open(context.Background(), url, sqlstore.Options{AutoMigrate: true})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return pgExec(url, `CREATE SCHEMA begin; CREATE TABLE begin.meta AS TABLE public.meta; UPDATE begin.meta SET value = '0' WHERE name = 'highest_seen'`)
}

// emptied makes a ledger as migrated left it.
func emptied(url string) error {
	return pgExec(url, `DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'reconcile_schema' LOOP
			EXECUTE format('DELETE FROM public.%I', r.tablename);
		END LOOP;
		INSERT INTO public.meta TABLE begin.meta;
	END $$`)
}

func pgExec(url, statements string) error {
	db, err := sql.Open("postgres", url)
	if err != nil {
		return err
	}
	_, err = db.Exec(statements)
	return errors.Join(err, db.Close())
}

func openLedger(t *testing.T, url string, c *fakeClock) ledger.Store {
	t.Helper()
	s, err := sqlstore.Open(context.Background(), url, sqlstore.Options{Clock: c.Now, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sending is a policy that sends, with no jitter.
func sending() reconcile.Policy {
	p := reconcile.DefaultPolicy()
	p.Name, p.HasRetry = "test", true
	p.Backoff.Jitter = 0
	return p
}

func operation() connectors.Operation {
	return connectors.Operation{Name: "invoice.create", Lookup: connectors.LookupSingle, BatchMax: 1, Timeout: 20 * time.Second, LandsWithin: time.Minute,
		VisibleWithin: 2 * time.Minute, InFlightFor: 15 * time.Minute, AbsentAfter: 2, AbsentSpacing: 30 * time.Second, Canary: "canary",
		CanSend: true, SendNeedsID: true, CarriesKey: true}
}

type option func(*system, *reconcile.Policy)

func withOp(f func(*connectors.Operation)) option {
	return func(y *system, _ *reconcile.Policy) { f(&y.op) }
}
func withPolicy(f func(*reconcile.Policy)) option {
	return func(_ *system, p *reconcile.Policy) { f(p) }
}
func withSystem(f func(*system)) option { return func(y *system, _ *reconcile.Policy) { f(y) } }

func newWorld(t *testing.T, open func(*fakeClock) ledger.Store, opts ...option) *world {
	t.Helper()
	w := &world{t: t, clock: newClock()}
	w.open = func() ledger.Store { return open(w.clock) }
	w.store = w.open()
	w.sys = &system{clock: w.clock, op: operation(), lane: "billing", name: "billing"}
	p := sending()
	for _, o := range opts {
		o(w.sys, &p)
	}
	w.sys.make("canary", "canary-1")
	w.clock.advance(time.Hour)
	w.rec = &reconcile.Recorder{Connectors: map[string]connectors.Connector{"billing": w.sys}, Policies: reconcile.Policies{List: []reconcile.Policy{p}, Version: "p1"}}
	w.engine = w.newEngine("one", w.store)
	return w
}

func (w *world) newEngine(holder string, store ledger.Store) *reconcile.Engine {
	w.t.Helper()
	e, err := reconcile.New(reconcile.Options{Store: store, Connectors: w.rec.Connectors, Policies: w.rec.Policies, Owners: w.rec.Owners, Holder: holder, Running: w.clock.running})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// report records one line as a workflow would.
func (w *world) report(lines ...string) []ledger.Recorded {
	w.t.Helper()
	var recs []ledger.Record
	for _, l := range lines {
		r, errs := ledger.ParseRecord([]byte(l), ledger.ParseOptions{Now: w.clock.Now()})
		if len(errs) > 0 {
			w.t.Fatalf("%s: %v", l, errs)
		}
		recs = append(recs, r)
	}
	out, err := w.rec.Record(context.Background(), w.store, recs)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// line is one record with one attempt.
func (w *world) line(key, attempt string) string {
	return fmt.Sprintf(`{"action_key":%q,"workflow":"w","workflow_version":"7","connector":"billing","operation":"invoice.create","owner":"revops","payload":{"amount":10,"for":%q},"attempts":[{"attempt_id":"a1","started_at":%q,%s}]}`,
		key, key, w.clock.Now().Format(time.RFC3339), attempt)
}

const timeout = `"status":"error","http_status":504,"error_class":"timeout"`

func (w *world) pass(o ...reconcile.PassOptions) reconcile.Tally {
	w.t.Helper()
	opts := reconcile.PassOptions{Keep: true}
	if len(o) > 0 {
		opts = o[0]
		opts.Keep = true
	}
	t, err := w.engine.Pass(context.Background(), opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func (w *world) entry(key string) ledger.Entry {
	w.t.Helper()
	s, err := w.store.Entry(context.Background(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Entry
}

func (w *world) want(key string, state ledger.State, reason string) ledger.Entry {
	w.t.Helper()
	e := w.entry(key)
	if e.State != state || !strings.HasPrefix(e.Reason, reason) {
		w.t.Fatalf("%s is %s %q, want %s %q", key, e.State, e.Reason, state, reason)
	}
	return e
}

func (w *world) wantEffects(key string, effects, sends int) {
	w.t.Helper()
	if got := w.sys.effects(key); got != effects || w.sys.sends != sends {
		w.t.Fatalf("%s: %d effects and %d sends, want %d and %d", key, got, w.sys.sends, effects, sends)
	}
}

// runFor runs a pass every 15 s, but for those in which nothing could be due.
func (w *world) runFor(d time.Duration) {
	w.t.Helper()
	const step = 15 * time.Second
	for left := d; left > 0; {
		w.pass()
		n := max(min(w.idle(), left-step)/step, 0) * step
		w.clock.advance(n + step)
		left -= n + step
	}
}

// idle is for how long nothing will be due.
func (w *world) idle() time.Duration {
	w.t.Helper()
	es, err := w.store.Entries(context.Background(), ledger.Filter{}, "", 0, false)
	if err != nil {
		w.t.Fatal(err)
	}
	now, until := w.clock.Now(), time.Time{}
	for _, e := range es {
		for _, at := range []time.Time{e.NextAt, e.DueAt} {
			if !at.IsZero() && (until.IsZero() || at.Before(until)) {
				until = at
			}
		}
	}
	if until.IsZero() {
		return 1 << 62
	}
	return until.Sub(now)
}

// person applies a person's action, which has to be allowed.
// wantAlert tells whether an alert is open, as the store tells it: by opening
// it, and closing it where it was not.
func (w *world) wantAlert(key string, open bool) {
	w.t.Helper()
	opened, err := w.store.Alert(context.Background(), key, "asked by a test")
	if err == nil && opened {
		err = w.store.Calm(context.Background(), key)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if open == opened {
		w.t.Errorf("alert %s: open %t, want %t", key, !opened, open)
	}
}

func (w *world) person(key string, a reconcile.PersonAction) ledger.Entry {
	w.t.Helper()
	if a.By == "" {
		a.By = "ada"
	}
	e, err := w.engine.Person(context.Background(), key, a)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// wantExplained fails unless the history of an entry leads without a gap to
// where it stands, each row with a reason.
func (w *world) wantExplained(key string) {
	w.t.Helper()
	e := w.entry(key)
	hs, err := w.store.History(context.Background(), e.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	var at ledger.State
	for i, h := range hs {
		if h.No != i+1 || h.From != at || h.Reason == "" || h.Actor == "" {
			w.t.Errorf("row %d of %s: %+v, after %q", i+1, key, h, at)
		}
		at = h.To
	}
	if at != e.State {
		w.t.Errorf("%s is %s %q, its history ends %s", key, e.State, e.Reason, at)
	}
}

// newEngineRunning is an engine whose host has another running clock.
func (w *world) newEngineRunning(running func() time.Duration) *reconcile.Engine {
	w.t.Helper()
	e, err := reconcile.New(reconcile.Options{Store: w.store, Connectors: w.rec.Connectors, Policies: w.rec.Policies, Owners: w.rec.Owners, Holder: "skewed", Running: running})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}
