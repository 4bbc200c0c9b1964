// Package httpapi is the HTTP interface of the daemon: reports of actions come
// in, entries and reports are read, people's actions are taken. It decides
// nothing itself; docs/http.md describes it.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
	"github.com/recovery-ledger/reconcile/reports"
)

// Ledger is what the interface needs of a store.
type Ledger interface {
	ledger.Store
	reports.Store

	// TokenByDigest finds a token, a revoked one too; ledger.ErrNotFound.
	TokenByDigest(ctx context.Context, digest string) (ledger.APIToken, error)
	// Ready says why nothing can be read or recorded; nil: it can.
	Ready(ctx context.Context) error
	// Waiting counts what waits for a person, cheaply.
	Waiting(ctx context.Context) (escalated, overdue, flagged int, err error)
}

// People takes what people do; *reconcile.Engine does.
type People interface {
	Person(ctx context.Context, actionKey string, a reconcile.PersonAction) (ledger.Entry, error)
}

// Options are what the interface works with.
type Options struct {
	Ledger   Ledger             // nil: comes by Open, and until then nothing but /healthz is well
	People   People             // with the Ledger
	Recorder reconcile.Recorder // its Actor is set for each request
	Parse    ledger.ParseOptions
	Zone     *time.Location // of dates and weeks; nil: UTC
	Version  string         // of this program
	Log      *slog.Logger   // nil: discard. It gets no token, no body and no payload
}

// API answers requests. It is an http.Handler, safe for concurrent use.
type API struct {
	ledger   Ledger
	people   People
	recorder reconcile.Recorder
	viewer   reconcile.Viewer
	parse    ledger.ParseOptions
	zone     *time.Location
	log      *slog.Logger
	mux      *http.ServeMux
	small    *budget // of bodies of smallBody bytes at most, and of the first of all others
	large    *budget
	patience time.Duration // for a body
	turn     time.Duration // for a share of the budgets, and for each part of a large body
	metrics  metrics
	open     atomic.Bool // ledger, people and viewer are set, and do not change any more
	stopping atomic.Bool
}

// New makes the interface.
func New(o Options) *API {
	a := &API{recorder: o.Recorder, parse: o.Parse, zone: o.Zone, log: o.Log,
		mux: http.NewServeMux(), small: newBudget(smallMax), large: newBudget(largeMax), patience: bodyPatience, turn: turnPatience}
	a.recorder.Answers = true
	a.parse.Restore = false // a state is taken over by import alone
	if a.zone == nil {
		a.zone = time.UTC
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.metrics.version = o.Version
	for _, p := range a.paths() {
		a.mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) { a.route(w, r, p) })
	}
	if o.Ledger != nil {
		a.Open(o.Ledger, o.People)
	}
	return a
}

// Open gives the interface its ledger, once, where New did not: a daemon is
// asked how it is while its database is still away.
func (a *API) Open(l Ledger, p People) {
	a.ledger, a.people = l, p
	a.viewer = reconcile.Viewer{Store: l, Connectors: a.recorder.Connectors, Policies: a.recorder.Policies, Owners: a.recorder.Owners}
	a.open.Store(true)
}

// notOpen is the answer to whatever needs the ledger before Open.
func notOpen() *failure {
	return problem(http.StatusServiceUnavailable, "ledger", "the ledger was not reached yet, the daemon waits for it; try again later, its log says why")
}

// method is what one method of a path does, and the scope it needs; "" for what
// needs no token.
type method struct {
	scope ledger.Scope
	do    func(a *API, w http.ResponseWriter, r *http.Request, t ledger.APIToken) error
}

// path is a pattern of http.ServeMux without methods, so that one that is not
// allowed gets our own answer.
type path struct {
	pattern string
	methods map[string]method
}

func (a *API) paths() []path {
	later := map[string]method{} // of the contract, and not there yet
	return []path{
		{"/healthz", map[string]method{http.MethodGet: {"", (*API).healthz}}},
		{"/readyz", map[string]method{http.MethodGet: {"", (*API).readyz}}},
		{"/metrics", map[string]method{http.MethodGet: {"", (*API).getMetrics}}},
		{"/v1/entries", map[string]method{
			http.MethodGet:  {ledger.ScopeRead, (*API).getEntries},
			http.MethodPost: {ledger.ScopeIngest, (*API).postEntries},
		}},
		{"/v1/entries/{key}", map[string]method{http.MethodGet: {ledger.ScopeRead, (*API).getEntry}}},
		{"/v1/entries/{key}/attempts", map[string]method{http.MethodPost: {ledger.ScopeIngest, (*API).postAttempts}}},
		{"/v1/entries/{key}/actions", map[string]method{http.MethodPost: {ledger.ScopeOperate, (*API).postAction}}},
		{"/v1/reports/{name}", map[string]method{http.MethodGet: {ledger.ScopeRead, (*API).getReport}}},
		{"/v1/claims", later},
		{"/v1/signals/{name}", later},
		{"/", nil},
	}
}

// ServeHTTP implements http.Handler. A panic is this program's mistake: it is
// logged, and ends the one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorded{ResponseWriter: w}
	defer func() {
		what := recover()
		if what == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http has it
			panic(what)
		}
		if what != nil {
			a.log.Error("a request broke off", "method", r.Method, "route", r.Pattern, "err", fmt.Sprint(what))
			if rec.status == 0 {
				a.fail(rec, r, problem(http.StatusInternalServerError, "internal", "this is a mistake of reconcile; its log has more"))
			}
		}
		a.metrics.request(r.Pattern, rec.status)
	}()
	h := rec.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(rec, r)
}

// route finds the method, lets in whoever may, and tells errors.
func (a *API) route(w http.ResponseWriter, r *http.Request, p path) {
	m, ok := p.methods[r.Method]
	if !ok && r.Method == http.MethodHead {
		m, ok = p.methods[http.MethodGet]
	}
	var err error
	switch {
	case p.methods == nil:
		err = problem(http.StatusNotFound, "no_such_path", "there is no %s; docs/http.md lists what there is", r.URL.Path)
	case len(p.methods) == 0:
		err = problem(http.StatusNotFound, "not_supported", "%s: not supported yet", r.URL.Path)
	case !ok:
		var allowed []string
		for name := range p.methods {
			allowed = append(allowed, name)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		err = problem(http.StatusMethodNotAllowed, "method", "%s takes %s, not %s", r.URL.Path, strings.Join(allowed, " and "), r.Method)
	case m.scope != "" && !a.open.Load():
		err = notOpen()
	default:
		var t ledger.APIToken
		if m.scope != "" {
			t, err = a.admit(r, m.scope)
		}
		if err == nil {
			err = m.do(a, w, r, t)
		}
	}
	if err != nil {
		a.fail(w, r, err)
	}
}

// fail tells an error, once. One that is no *failure came from the ledger: what
// it is stands in the log, and is nobody else's business.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	if !errors.As(err, &f) {
		f = problem(http.StatusServiceUnavailable, "ledger", "the ledger cannot be read; try again later, the log of the daemon says why")
		f.cause = err
	}
	if f.cause != nil && r.Context().Err() == nil {
		a.log.Warn("a request could not be answered", "method", r.Method, "route", r.Pattern, "status", f.status, "err", f.cause)
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="reconcile"`)
	}
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, f.status, f)
}

// recorded is a response whose status is known afterwards.
type recorded struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorded) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorded) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *recorded) Unwrap() http.ResponseWriter { return r.ResponseWriter }
