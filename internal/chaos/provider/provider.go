// Package provider is an outside system that lies, for storms: it loses
// answers, swallows requests, lets effects land after the client gave up, hides
// them from its search for a while, refuses and limits. Whatever it does to an
// answer, it counts each effect under the key that came with it, and that count
// is the truth by which a storm is judged.
//
// What happens to a request depends on the seed, its key and its number alone,
// so a storm can be repeated as far as the provider goes.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is what a provider offers to whoever does not know whether an action
// happened.
type Kind string

// The kinds, as docs/rules.md, section 14, tells them apart.
const (
	Refuses Kind = "refuses" // refuses a second effect under the same key, and can be asked
	Lookup  Kind = "lookup"  // can be asked, behind an index that lags, and refuses nothing
	Neither Kind = "neither" // neither
)

// Kinds are all kinds.
var Kinds = []Kind{Refuses, Lookup, Neither}

// Faults are the chances of what can go wrong, each from 0 to 1; their sum is 1
// at most. The zero value is a system that is well.
type Faults struct {
	// The answer is lost, the action is done.
	Cut    float64 // connection closed instead of an answer
	Torn   float64 // connection closed inside the answer
	Late   float64 // done some time later, never answered
	Failed float64 // answered 500

	// Not done.
	Swallowed float64 // connection closed; the client cannot tell it from Cut
	Down      float64 // answered 503
	Limited   float64 // answered 429 with Retry-After

	// A lookup that is not answered, of all lookups.
	Blind float64
}

// Storm is a fifth of all answers lost, and a tenth of all requests not carried
// out.
func Storm() Faults {
	return Faults{Cut: 0.08, Torn: 0.03, Late: 0.06, Failed: 0.03, Swallowed: 0.04, Down: 0.03, Limited: 0.03, Blind: 0.02}
}

// Config is how a provider keeps what it promises.
type Config struct {
	Seed    uint64
	Lands   time.Duration // longest from the arrival of a request to its effect
	Visible time.Duration // longest from an effect to the search that shows it
}

// Effect is one thing that really happened.
type Effect struct {
	ID        string
	ArrivedAt time.Time // of its request
	LandedAt  time.Time
	shownAt   time.Time
}

// Action is what a provider knows of one key.
type Action struct {
	Requests int // to do it
	Effects  []Effect
	cents    int64
}

// Provider is the system. Each kind lies under its own path: POST and GET
// /KIND/actions.
type Provider struct {
	cfg Config

	mu      sync.Mutex
	faults  Faults
	actions map[Kind]map[string]*Action
	counts  map[string]int // faults, by name
	made    int
	lookups int
	late    sync.WaitGroup // effects that have still to land
}

// New makes a provider that is well.
func New(cfg Config) *Provider {
	p := &Provider{cfg: cfg, actions: map[Kind]map[string]*Action{}, counts: map[string]int{}}
	for _, k := range Kinds {
		p.actions[k] = map[string]*Action{}
	}
	return p
}

// SetFaults changes what goes wrong from now on.
func (p *Provider) SetFaults(f Faults) {
	p.mu.Lock()
	p.faults = f
	p.mu.Unlock()
}

// Add puts an action there that has always been there.
func (p *Provider) Add(k Kind, key string, cents int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	p.actions[k][key] = &Action{cents: cents, Effects: []Effect{{ID: fmt.Sprintf("x-%d", p.made)}}}
}

// Action is what became of a key. It waits for nothing.
func (p *Provider) Action(k Kind, key string) Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.actions[k][key]; a != nil {
		return Action{Requests: a.Requests, Effects: slices.Clone(a.Effects)}
	}
	return Action{}
}

// Counts are the faults by name, and the number of lookup calls.
func (p *Provider) Counts() (faults map[string]int, lookups int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	faults = make(map[string]int, len(p.counts))
	for k, n := range p.counts {
		faults[k] = n
	}
	return faults, p.lookups
}

// Settle waits until every effect that was still to land has landed.
func (p *Provider) Settle() { p.late.Wait() }

// Serve starts it on a free port of 127.0.0.1. stop ends it and waits.
func (p *Provider) Serve(ctx context.Context) (addr string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("start the provider: %w", err)
	}
	mux := http.NewServeMux()
	for _, k := range Kinds {
		mux.HandleFunc("POST /"+string(k)+"/actions", func(w http.ResponseWriter, r *http.Request) { p.create(k, w, r) })
		if k != Neither {
			mux.HandleFunc("GET /"+string(k)+"/actions", func(w http.ResponseWriter, r *http.Request) { p.search(k, w, r) })
		}
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Hour} // a client may be stopped before it writes
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	return l.Addr().String(), func() {
		_ = srv.Close() // an answer that is held back must not hold the end
		<-done          //nolint:errcheck // it says that it was closed
		p.Settle()
	}, nil
}

// request is the body of a create, and what a search shows.
type request struct {
	ID        string `json:"id,omitempty"`
	Reference string `json:"reference"`
	Cents     int64  `json:"amount_cents"`
}

// fate is what becomes of one request to create.
type fate struct {
	name  string
	does  bool
	delay time.Duration // until it is done
}

// take notes a request and decides its fate.
func (p *Provider) take(k Kind, in request) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actions[k][in.Reference]
	if a == nil {
		a = &Action{}
		p.actions[k][in.Reference] = a
	}
	a.Requests++
	rng := p.dice(k, in.Reference, uint64(a.Requests))
	x := rng.Float64()
	f := fate{name: "answered", does: true}
	for _, c := range []struct {
		chance float64
		fate   fate
	}{
		{p.faults.Cut, fate{name: "answer cut", does: true}},
		{p.faults.Torn, fate{name: "answer torn", does: true}},
		// Up to half of what is promised; the way there may take some of the rest.
		{p.faults.Late, fate{name: "done late", does: true, delay: time.Duration(rng.Float64() * float64(p.cfg.Lands) / 2)}},
		{p.faults.Failed, fate{name: "done and 500", does: true}},
		{p.faults.Swallowed, fate{name: "request swallowed"}},
		{p.faults.Down, fate{name: "503"}},
		{p.faults.Limited, fate{name: "429"}},
	} {
		if x < c.chance {
			f = c.fate
			p.counts[f.name]++
			break
		}
		x -= c.chance
	}
	return f
}

func (p *Provider) dice(k Kind, key string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(k)+"\x00"+key) // a hash takes everything
	return rand.New(rand.NewPCG(p.cfg.Seed^h.Sum64(), n))
}

// land makes the effect, unless there is one and the kind refuses a second.
func (p *Provider) land(k Kind, in request, arrived time.Time) (id string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actions[k][in.Reference]
	if k == Refuses && len(a.Effects) > 0 {
		return a.Effects[0].ID, true
	}
	p.made++
	now := time.Now()
	// Up to four fifths of what is promised, so that a busy machine does not
	// make the promise untrue.
	lag := time.Duration(p.dice(k, in.Reference, 1<<40+uint64(len(a.Effects))).Float64() * 0.8 * float64(p.cfg.Visible))
	e := Effect{ID: fmt.Sprintf("x-%d", p.made), ArrivedAt: arrived, LandedAt: now, shownAt: now.Add(lag)}
	a.Effects = append(a.Effects, e)
	a.cents = in.Cents
	return e.ID, false
}

func (p *Provider) create(k Kind, w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	var in request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil || in.Reference == "" {
		refuse(w, http.StatusBadRequest, "BAD_REQUEST", "an action needs a reference")
		return
	}
	f := p.take(k, in)
	if f.name == "done late" {
		p.late.Go(func() {
			time.Sleep(f.delay)
			p.land(k, in, arrived)
		})
		<-r.Context().Done() // the client has hung up
		return
	}
	var second bool
	if f.does {
		in.ID, second = p.land(k, in, arrived)
	}
	switch f.name {
	case "answer cut", "request swallowed":
		cut(w, "")
	case "answer torn":
		cut(w, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 120\r\n\r\n{\"id\":\"x")
	case "done and 500":
		refuse(w, http.StatusInternalServerError, "INTERNAL", "unexpected error")
	case "503":
		refuse(w, http.StatusServiceUnavailable, "OVERLOADED", "no worker was free")
	case "429":
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "SLOW_DOWN", "too many requests")
	default:
		if second {
			refuse(w, http.StatusConflict, "DUP_REF", "this reference exists")
			return
		}
		reply(w, http.StatusCreated, in)
	}
}

// search answers GET ?reference=a,b,c with every action that it shows by now.
func (p *Provider) search(k Kind, w http.ResponseWriter, r *http.Request) {
	found := []request{}
	p.mu.Lock()
	p.lookups++
	blind := p.faults.Blind > 0 && rand.Float64() < p.faults.Blind
	if blind {
		p.counts["lookup not answered"]++
	}
	now := time.Now()
	for key := range strings.SplitSeq(r.URL.Query().Get("reference"), ",") {
		a := p.actions[k][key]
		if a == nil {
			continue
		}
		for _, e := range a.Effects {
			if !e.shownAt.After(now) {
				found = append(found, request{ID: e.ID, Reference: key, Cents: a.cents})
			}
		}
	}
	p.mu.Unlock()
	if blind {
		cut(w, "")
		return
	}
	reply(w, http.StatusOK, map[string]any{"data": found})
}

// cut closes the connection behind an answer's first bytes.
func cut(w http.ResponseWriter, first string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection as well
	}
	_, werr := io.WriteString(conn, first)
	_ = errors.Join(werr, conn.Close()) // the client is meant to see an error
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is none of our concern
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}
