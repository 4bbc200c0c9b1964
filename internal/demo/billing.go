package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// fate is what the billing system does with one request to create an invoice.
type fate string

// The fates. Of those that end without an answer the caller cannot tell which
// one it was: that is the point of the demonstration.
const (
	fateMade     fate = "made"           // created and answered
	fateCut      fate = "cut"            // created; connection closed before the answer
	fateTorn     fate = "torn"           // created; connection closed inside the answer
	fateLate     fate = "late"           // created; answered after the caller has given up
	fateError    fate = "error"          // created; answered 500
	fateSwallow  fate = "swallowed"      // connection closed, nothing created
	fateOverload fate = "overload"       // answered 503, nothing created
	fateLimit    fate = "limited"        // answered 429, nothing created
	fateRefuse   fate = "refused"        // answered 422, nothing created
	fateCrash    fate = "crashed"        // created; the caller dies before it can note the answer
	fateCrashOff fate = "crashed before" // the caller dies before it sends
)

// creates says whether an invoice exists afterwards.
func (f fate) creates() bool {
	switch f {
	case fateMade, fateCut, fateTorn, fateLate, fateError, fateCrash:
		return true
	}
	return false
}

// invoice is a record of the billing system.
type invoice struct {
	ID          string `json:"id"`
	Reference   string `json:"reference"`
	Customer    string `json:"customer"`
	AmountCents int64  `json:"amount_cents"`
	Status      string `json:"status"`

	shownAt time.Time // the search does not know it before
	openAt  time.Time // until then the status is "processing"; zero: never was
}

// customer is whom an invoice goes to.
type customer struct {
	ID      string `json:"id"`
	OptedIn bool   `json:"opted_in"`
	Owner   struct {
		ID string `json:"id"`
	} `json:"owner"`
	Stage string `json:"stage"`
}

// script says how the billing system treats one reference.
type script struct {
	fates  []fate        // of the first, second, … request; after the last one: made
	lag    time.Duration // until the search shows the invoice
	status string        // of the new invoice; "" is open
	opens  time.Duration // it is "processing" for so long
}

// billing is a small billing system with an in-memory store, on loopback. It
// has no unique constraint: two requests make two invoices. Its search lags
// behind, as an index does.
type billing struct {
	token string
	now   func() time.Time

	mu        sync.Mutex
	scripts   map[string]script
	requests  map[string]int // to create, by reference
	invoices  []*invoice
	customers map[string]customer
	searches  int // calls
	asked     int // references asked for
}

func newBilling(token string, scripts map[string]script, customers []customer) *billing {
	b := &billing{token: token, now: time.Now, scripts: scripts, requests: map[string]int{}, customers: map[string]customer{}}
	for _, c := range customers {
		b.customers[c.ID] = c
	}
	return b
}

// serve starts it on a free port of 127.0.0.1. stop ends it and waits.
func (b *billing) serve(ctx context.Context) (url string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("start the billing system: %w", err)
	}
	srv := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // always ends in an error: that it was closed
	}()
	return "http://" + l.Addr().String(), func() {
		// Close, not Shutdown: an answer that is held back must not hold the end.
		_ = srv.Close()
		<-done
	}, nil
}

func (b *billing) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"account": "demo-company", "mode": "demo"})
	})
	mux.HandleFunc("GET /invoices", b.search)
	mux.HandleFunc("POST /invoices", b.create)
	mux.HandleFunc("GET /customers/{id}", b.customer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+b.token {
			refuse(w, http.StatusUnauthorized, "NO_TOKEN", "no valid token")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// search answers GET /invoices?reference=a,b,c with every invoice that shows
// one of the references, those too fresh left out.
func (b *billing) search(w http.ResponseWriter, r *http.Request) {
	refs := strings.Split(r.URL.Query().Get("reference"), ",")
	b.mu.Lock()
	b.searches++
	b.asked += len(refs)
	now := b.now()
	found := []invoice{}
	for _, inv := range b.invoices {
		if slices.Contains(refs, inv.Reference) && !now.Before(inv.shownAt) {
			v := *inv
			if now.Before(v.openAt) {
				v.Status = "processing"
			}
			found = append(found, v)
		}
	}
	b.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{"data": found})
}

func (b *billing) customer(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	c, ok := b.customers[r.PathValue("id")]
	b.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "NO_CUSTOMER", "no such customer")
		return
	}
	reply(w, http.StatusOK, c)
}

// create answers POST /invoices, or does not.
func (b *billing) create(w http.ResponseWriter, r *http.Request) {
	var in invoice
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil || in.Reference == "" {
		refuse(w, http.StatusBadRequest, "BAD_REQUEST", "an invoice needs a reference")
		return
	}
	f, inv := b.take(in)
	switch f {
	case fateMade, fateCrash:
		reply(w, http.StatusCreated, inv)
	case fateCut, fateSwallow:
		cut(w, "")
	case fateTorn:
		cut(w, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 120\r\n\r\n{\"id\":\"in")
	case fateLate:
		<-r.Context().Done() // the caller has hung up
	case fateError:
		refuse(w, http.StatusInternalServerError, "INTERNAL", "unexpected error in module pdf-render, incident "+inv.ID)
	case fateOverload:
		refuse(w, http.StatusServiceUnavailable, "OVERLOADED", "no worker was free after 30 s")
	case fateLimit:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "SLOW_DOWN", "too many requests for account 4711")
	case fateRefuse:
		refuse(w, http.StatusUnprocessableEntity, "VAT_ID_INVALID", fmt.Sprintf("vat id %q of customer %s is not valid", "DE"+in.Customer, in.Customer))
	}
}

// take decides the fate of one request, and commits the invoice where it is
// one that creates.
func (b *billing) take(in invoice) (fate, invoice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.scripts[in.Reference]
	n := b.requests[in.Reference]
	b.requests[in.Reference]++
	f := fateMade
	if n < len(s.fates) {
		f = s.fates[n]
	}
	if !f.creates() {
		return f, in
	}
	in.ID = fmt.Sprintf("inv_%04d", len(b.invoices)+1)
	in.Status = "open"
	if s.status != "" {
		in.Status = s.status
	}
	now := b.now()
	in.shownAt = now.Add(s.lag)
	if s.opens > 0 {
		in.openAt = now.Add(s.opens)
	}
	b.invoices = append(b.invoices, &in)
	return f, in
}

// count returns how many invoices each reference has.
func (b *billing) count() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[string]int{}
	for _, inv := range b.invoices {
		n[inv.Reference]++
	}
	return n
}

// calls returns the number of searches, and of references they asked for.
func (b *billing) calls() (searches, asked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.searches, b.asked
}

// cut closes the connection behind an answer's first bytes.
func cut(w http.ResponseWriter, first string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection as well
	}
	_, werr := io.WriteString(conn, first)
	_ = errors.Join(werr, conn.Close()) // the caller is meant to see an error
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone is none of our concern
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}
