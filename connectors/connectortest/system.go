// Package connectortest has the suite that every connector passes (Run), and a
// system to connect to that answers badly on command (System).
//
// A System is an ordinary system in memory: records that carry a reference,
// which is our key; customers, whom checks read; an answer to "who am I". It
// lies where it is told to, in the ways that real systems do, and counts what
// was really done (Effects, Duplicates), so that a test asserts effects and not
// what the ledger believes:
//
//   - index lag: Lag, Record.VisibleAt; a stale hit, which only the direct read
//     knows better: Record.StaleUntil
//   - records deleted or merged since: Change, Remove, Record.MergedInto
//   - a batch that leaves items out, as a 207 too: Fault.LeaveOut, Fault.As
//   - a 404 or 403 that hides what is there: Fault.Status
//   - stored answers given again, errors included: Idempotent; keys that are
//     forgotten: KeepsKey; a 409 while the first request still runs: Idempotent,
//     with Fault.Delay
//   - answers that are lost, cut, dripping, pages, redirects: Fault.Cut, CutBody,
//     Drip, Body, Header
//   - limits in every form: Limits; a clock that is wrong: Skew
//   - effects that land after the caller gave up: Fault.Late
//
// Whoever writes a connector describes the operations as Table does, opens it
// to a System, and calls Run; the example of Run shows it.
package connectortest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind tells requests apart by what they are for.
type Kind string

// The kinds of requests that a System takes.
const (
	Create Kind = "create" // POST /records
	Lookup Kind = "lookup" // GET /records?reference=
	Batch  Kind = "batch"  // POST /records/search
	Read   Kind = "read"   // GET /records/{id}
	Check  Kind = "check"  // GET /customers/{id}
	Probe  Kind = "probe"  // GET /me
)

// Token is the bearer token that a System wants.
const Token = "test-token-0123456789"

// CanaryKey is the reference of a record that a System holds from the start.
const CanaryKey = "canary-record"

// Record is one record of a System.
type Record struct {
	ID        string
	Reference string // our key
	Status    string // "open" unless told otherwise
	Fields    map[string]any
	Deleted   bool
	VisibleAt time.Time // lookups do not show it before

	MergedInto string    // id of the survivor
	StaleUntil time.Time // until then lookups show it as neither deleted nor merged; the direct read knows better
}

// Customer is what the check endpoint knows of one record's subject.
type Customer struct {
	OptedIn bool
	Owner   string // "" for none
	Active  bool   // whether that owner is
	Stage   string
	Merged  string // id of the survivor
}

// Fault is how requests of one kind go wrong.
type Fault struct {
	On    Kind
	Times int    // how many requests; 0 is one, -1 all that follow
	Key   string // only requests that hold this text; "" is any

	// What happens. A create is carried out unless Swallow is set, or Status
	// is and Commit is not. With Late it is carried out that long after its
	// answer (504, unless Status or Cut say otherwise), whoever waits for it or not.
	Swallow  bool // read the request, do nothing, break the connection
	Cut      bool // break the connection instead of answering
	CutBody  bool // break the connection in the middle of the answer
	Delay    time.Duration
	Status   int // answer with this instead
	Header   http.Header
	Body     string
	Commit   bool
	LeaveOut []string      // references that a batch answer does not mention
	As       int           // status of what would be a 200 or 201
	Drip     time.Duration // between two bytes of the answer
	Late     time.Duration
}

// System is an outside system in memory: records by reference, customers, and
// faults on command. It is an http.Handler, needs no test to run in, and is
// safe for concurrent use.
type System struct {
	// Idempotent makes creates honour the Idempotency-Key header: a repeat is
	// given the stored answer, errors included, with Idempotent-Replayed.
	Idempotent bool
	// Unique refuses a second record with one reference (422, DUP_REF).
	Unique bool
	// Lag is how long lookups do not show a new record.
	Lag time.Duration
	// KeepsKey is how long an idempotency key is remembered; 0 is for ever.
	KeepsKey time.Duration
	// Skew is how far its clock is ahead of ours; it shows in Date, and in the
	// moments that Limits names.
	Skew time.Duration
	// Reads makes Table describe OpRead too.
	Reads bool

	mu         sync.Mutex
	running    map[string]bool // idempotency keys of requests under way
	stopping   context.Context
	stop       context.CancelFunc
	records    []*Record
	customers  map[string]Customer
	faults     []*Fault
	requests   map[Kind]int
	stored     map[string]storedAnswer
	violations []string
	seen       []string
	nextID     int

	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
}

type storedAnswer struct {
	status int
	body   []byte
	at     time.Time
}

// NewSystem returns a System with the canary record, not yet listening.
func NewSystem() *System {
	s := &System{customers: map[string]Customer{}, requests: map[Kind]int{}, stored: map[string]storedAnswer{}, running: map[string]bool{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.Add(Record{Reference: CanaryKey, Status: "paid"})
	return s
}

// Start listens on a free port of the loopback address.
func (s *System) Start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start the system: %w", err)
	}
	s.listener, s.server = l, &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	s.served.Go(func() { _ = s.server.Serve(l) }) // ends with Close
	return nil
}

// URL is the address after Start.
func (s *System) URL() string { return "http://" + s.listener.Addr().String() }

// Close stops listening and breaks open connections. Effects that are still to
// land do not.
func (s *System) Close() {
	s.stop()
	if s.server != nil {
		_ = s.server.Close()
		s.served.Wait()
	}
}

// Add puts a record in as if somebody had made it, and returns its id.
func (s *System) Add(r Record) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(r)
}

func (s *System) add(r Record) string {
	s.nextID++
	if r.ID == "" {
		r.ID = "rec_" + strconv.Itoa(s.nextID)
	}
	if r.Status == "" {
		r.Status = "open"
	}
	s.records = append(s.records, &r)
	return r.ID
}

// Change changes the records with a reference, and returns how many there are.
func (s *System) Change(reference string, change func(*Record)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.records {
		if r.Reference == reference {
			change(r)
			n++
		}
	}
	return n
}

// Remove takes the records with a reference out without a trace.
func (s *System) Remove(reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(r *Record) bool { return r.Reference == reference })
}

// SetCustomer sets what checks read of a record id. Unknown ids are 404.
func (s *System) SetCustomer(id string, c Customer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.customers[id] = c
}

// Fault adds a fault. Of several that fit a request the oldest happens.
func (s *System) Fault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away.
func (s *System) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Effects returns how many records carry a reference, deleted ones included.
func (s *System) Effects(reference string) int {
	return len(s.Find(reference))
}

// Find returns copies of the records with a reference.
func (s *System) Find(reference string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Record
	for _, r := range s.records {
		if r.Reference == reference {
			c := *r
			c.Fields = maps.Clone(r.Fields)
			out = append(out, c)
		}
	}
	return out
}

// Duplicates returns the references that more than one record carries, sorted.
func (s *System) Duplicates() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, r := range s.records {
		n[r.Reference]++
	}
	var out []string
	for ref, count := range n {
		if count > 1 {
			out = append(out, ref)
		}
	}
	slices.Sort(out)
	return out
}

// Requests returns how many requests of a kind came.
func (s *System) Requests(k Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[k]
}

// Seen returns all requests so far, as "METHOD /path?query".
func (s *System) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Violations returns requests that no connector may make: unsafe ones to where
// only questions are put, and those without credentials.
func (s *System) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

func kindOf(r *http.Request) (Kind, bool) {
	path := r.URL.Path
	switch {
	case path == "/records" && r.Method == http.MethodPost:
		return Create, true
	case path == "/records":
		return Lookup, r.Method == http.MethodGet
	case path == "/records/search":
		return Batch, r.Method == http.MethodPost
	case strings.HasPrefix(path, "/records/"):
		return Read, r.Method == http.MethodGet
	case strings.HasPrefix(path, "/customers/"):
		return Check, r.Method == http.MethodGet
	case path == "/me":
		return Probe, r.Method == http.MethodGet
	}
	return "", r.Method == http.MethodGet
}

// ServeHTTP answers a request, badly where a fault says so.
func (s *System) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	kind, safe := kindOf(r)
	s.mu.Lock()
	s.requests[kind]++
	s.seen = append(s.seen, r.Method+" "+r.URL.RequestURI())
	if !safe {
		s.violations = append(s.violations, r.Method+" "+r.URL.Path+" changes something where only questions are put")
	}
	authorized := r.Header.Get("Authorization") == "Bearer "+Token
	if !authorized {
		s.violations = append(s.violations, r.Method+" "+r.URL.Path+" came without the token")
	}
	f := s.faultFor(kind, r.URL.RequestURI()+"\n"+r.Header.Get("X-Reference")+"\n"+string(body))
	s.mu.Unlock()
	switch {
	case err != nil:
		return // the request did not come whole
	case !authorized:
		answer(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "unauthorized", "message": "no such token"}})
		return
	case f == nil:
		f = &Fault{}
	}
	if f.Swallow {
		cut(w)
		return
	}
	done, busy := s.begin(kind, r)
	if busy {
		answer(w, http.StatusConflict, map[string]any{"error": map[string]any{"code": "IN_PROGRESS", "message": "a request with this key is under way"}})
		return
	}
	defer done()
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			// The caller is gone; the request was taken all the same.
		}
	}
	var status int
	var out []byte
	replayed := false
	switch {
	case f.Late > 0:
		s.served.Go(func() {
			select {
			case <-time.After(f.Late):
				s.handle(kind, r, body, f)
			case <-s.stopping.Done():
			}
		})
		status = http.StatusGatewayTimeout
	case f.Status == 0 || f.Commit:
		status, out, replayed = s.handle(kind, r, body, f)
	}
	if f.As != 0 && status < 300 {
		status = f.As
	}
	if f.Status != 0 {
		status, out = f.Status, []byte(f.Body)
		s.store(kind, r, status, out)
	}
	if f.Cut {
		cut(w)
		return
	}
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if s.Skew != 0 && w.Header().Get("Date") == "" {
		w.Header().Set("Date", time.Now().Add(s.Skew).UTC().Format(http.TimeFormat))
	}
	if f.Drip > 0 {
		s.drip(w, r, status, out, f.Drip)
		return
	}
	if f.CutBody {
		w.Header().Set("Content-Length", strconv.Itoa(len(out)+1))
		w.WriteHeader(status)
		_, _ = w.Write(out[:len(out)/2])
		cut(w)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(out)
}

// begin notes that a request with an idempotency key is under way; busy is true
// where another one with that key is.
func (s *System) begin(k Kind, r *http.Request) (done func(), busy bool) {
	key := r.Header.Get("Idempotency-Key")
	if k != Create || key == "" || !s.Idempotent {
		return func() {}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] {
		return nil, true
	}
	s.running[key] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, key)
	}, false
}

// drip answers a byte at a time.
func (s *System) drip(w http.ResponseWriter, r *http.Request, status int, out []byte, pause time.Duration) {
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(status)
	for i := range out {
		_, err := w.Write(out[i : i+1])
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return
		}
	}
}

// Limits are the forms in which systems say how long a limit holds, by what they
// are called: headers for a Fault with Status 429. wait is in whole seconds;
// moments are by the system's own clock (Skew).
func (s *System) Limits(wait time.Duration) map[string]http.Header {
	now := time.Now().Add(s.Skew).UTC().Truncate(time.Second)
	until, seconds := now.Add(wait), strconv.Itoa(int(wait.Seconds()))
	date := func(layout string) http.Header {
		return http.Header{"Date": {now.Format(http.TimeFormat)}, "Retry-After": {until.Format(layout)}}
	}
	reset := func(v string) http.Header {
		return http.Header{"Date": {now.Format(http.TimeFormat)}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {v}}
	}
	return map[string]http.Header{
		"seconds":                    {"Retry-After": {seconds}},
		"seconds with a point":       {"Retry-After": {seconds + ".0"}},
		"an HTTP date":               date(http.TimeFormat),
		"a date of RFC 850":          date("Monday, 02-Jan-06 15:04:05 GMT"),
		"a date of asctime":          date(time.ANSIC),
		"two headers, the later one": {"Retry-After": {"1", seconds}},
		"a reset in seconds":         reset(seconds),
		"a reset since 1970":         reset(strconv.FormatInt(until.Unix(), 10)),
		"a reset in milliseconds":    reset(strconv.FormatInt(until.UnixMilli(), 10)),
		"a reset as a timestamp":     reset(until.Format(time.RFC3339)),
	}
}

// faultFor returns the fault that this request meets, nil for none. The caller
// holds the lock.
func (s *System) faultFor(k Kind, text string) *Fault {
	for _, f := range s.faults {
		if f.On != k || f.Times == 0 || f.Key != "" && !strings.Contains(text, f.Key) {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return f
	}
	return nil
}

// cut breaks the connection with a reset.
func cut(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok && w.Header().Get("Content-Length") != "" {
		f.Flush()
	}
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = c.Close()
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *System) store(k Kind, r *http.Request, status int, body []byte) {
	key := r.Header.Get("Idempotency-Key")
	if k != Create || key == "" || status == http.StatusTooManyRequests {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, have := s.stored[key]; s.Idempotent && !have {
		s.stored[key] = storedAnswer{status, body, time.Now()}
	}
}

// handle carries a request out.
func (s *System) handle(k Kind, r *http.Request, body []byte, f *Fault) (status int, out []byte, replayed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(status int, v any) (int, []byte, bool) {
		b, _ := json.Marshal(v) // maps and texts always encode
		return status, b, false
	}
	fail := func(status int, code string) (int, []byte, bool) {
		return reply(status, map[string]any{"error": map[string]any{"code": code, "message": strings.ReplaceAll(code, "_", " ")}})
	}
	now := time.Now()
	visible := func(r *Record) bool { return !now.Before(r.VisibleAt) }
	switch k {
	case Create:
		key := r.Header.Get("Idempotency-Key")
		if a, ok := s.stored[key]; ok && s.KeepsKey > 0 && now.Sub(a.at) > s.KeepsKey {
			delete(s.stored, key)
		} else if ok && s.Idempotent && key != "" {
			return a.status, a.body, true
		}
		fields := map[string]any{}
		dec := json.NewDecoder(strings.NewReader(string(body)))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			return fail(http.StatusBadRequest, "NOT_JSON")
		}
		ref, _ := fields["reference"].(string)
		if h := r.Header.Get("X-Reference"); h != "" {
			ref = h
		}
		if s.Unique && slices.ContainsFunc(s.records, func(r *Record) bool { return r.Reference == ref }) {
			return fail(http.StatusUnprocessableEntity, "DUP_REF")
		}
		rec := Record{Reference: ref, Fields: fields}
		if s.Lag > 0 {
			rec.VisibleAt = now.Add(s.Lag)
		}
		if st, ok := fields["status"].(string); ok {
			rec.Status = st
		}
		s.add(rec)
		status, out, _ = reply(http.StatusCreated, s.records[len(s.records)-1].json(false))
		if s.Idempotent && key != "" {
			s.stored[key] = storedAnswer{status, out, now}
		}
		return status, out, false
	case Lookup, Batch:
		refs := r.URL.Query()["reference"]
		if k == Batch {
			var in struct{ References []string }
			if err := json.Unmarshal(body, &in); err != nil {
				return fail(http.StatusBadRequest, "NOT_JSON")
			}
			refs = in.References
		}
		data := []any{}
		for _, rec := range s.records {
			if slices.Contains(refs, rec.Reference) && visible(rec) && !slices.Contains(f.LeaveOut, rec.Reference) {
				data = append(data, rec.json(now.Before(rec.StaleUntil)))
			}
		}
		return reply(http.StatusOK, map[string]any{"data": data})
	case Read:
		id := strings.TrimPrefix(r.URL.Path, "/records/")
		for _, rec := range s.records {
			if rec.ID == id {
				return reply(http.StatusOK, rec.json(false))
			}
		}
		return fail(http.StatusNotFound, "NOT_FOUND")
	case Check:
		c, ok := s.customers[strings.TrimPrefix(r.URL.Path, "/customers/")]
		if !ok {
			return fail(http.StatusNotFound, "NOT_FOUND")
		}
		v := map[string]any{"opted_in": c.OptedIn, "stage": c.Stage, "owner": nil, "merged_into": nil}
		if c.Owner != "" {
			v["owner"] = map[string]any{"id": c.Owner, "active": c.Active}
		}
		if c.Merged != "" {
			v["merged_into"] = c.Merged
		}
		return reply(http.StatusOK, v)
	case Probe:
		return reply(http.StatusOK, map[string]any{"account": map[string]any{"id": "acct_1"}, "mode": "test"})
	}
	return fail(http.StatusNotFound, "NO_SUCH_PATH")
}

// json is the record as it is shown; stale is as it was made.
func (r *Record) json(stale bool) map[string]any {
	m := maps.Clone(r.Fields)
	if m == nil {
		m = map[string]any{}
	}
	m["id"], m["reference"], m["status"], m["deleted"] = r.ID, r.Reference, r.Status, r.Deleted && !stale
	if r.MergedInto != "" && !stale {
		m["merged_into"] = r.MergedInto
	}
	return m
}
