package rest

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

func TestWhenLookupsLeaveTheRestToOthers(t *testing.T) {
	at := time.Date(2026, 10, 1, 23, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		rule   string
		header http.Header
		body   string
		wait   time.Duration
		known  bool
	}{
		"enough is left":                     {`{ remaining = "header:L", limit = "header:M", per = "10s" }`, http.Header{"L": {"20"}, "M": {"100"}}, ``, 0, true},
		"less than a fifth, until the reset": {`{ remaining = "header:L", limit = "header:M", reset = "header:R" }`, http.Header{"L": {"19"}, "M": {"100"}, "R": {"41"}}, ``, 41 * time.Second, true},
		"a reset as a moment":                {`{ remaining = "header:L", limit = "header:M", reset = "header:R", unit = "iso" }`, http.Header{"L": {"0"}, "M": {"100"}, "R": {"2026-10-01T23:00:07Z"}}, ``, 7 * time.Second, true},
		"a reset that is past":               {`{ remaining = "header:L", limit = "header:M", reset = "header:R" }`, http.Header{"L": {"0"}, "M": {"100"}, "R": {"1700000000"}}, ``, 0, true},
		"no reset: the window":               {`{ remaining = "header:L", limit = "header:M", per = "10s" }`, http.Header{"L": {"3"}, "M": {"100"}}, ``, 10 * time.Second, true},
		"a day is asked of again each hour":  {`{ remaining = "header:L", limit = "header:M", per = "24h" }`, http.Header{"L": {"3"}, "M": {"100"}}, ``, time.Hour, true},
		"so is a far reset":                  {`{ remaining = "header:L", limit = "header:M", reset = "header:R" }`, http.Header{"L": {"3"}, "M": {"100"}, "R": {"80000"}}, ``, time.Hour, true},
		"what is used of a limit":            {`{ used = "header:U", limit = "header:M", per = "24h" }`, http.Header{"U": {"81"}, "M": {"100"}}, ``, time.Hour, true},
		"in one header":                      {`{ header = "X", like = "api-usage=(?P<used>[0-9]+)/(?P<limit>[0-9]+)", per = "24h" }`, http.Header{"X": {"api-usage=12001/15000"}}, ``, time.Hour, true},
		"in one header, enough left":         {`{ header = "X", like = "api-usage=(?P<used>[0-9]+)/(?P<limit>[0-9]+)", per = "24h" }`, http.Header{"X": {"api-usage=12000/15000"}}, ``, 0, true},
		"a share of its own":                 {`{ remaining = "header:L", limit = "header:M", per = "10s", reserve = 0.5 }`, http.Header{"L": {"49"}, "M": {"100"}}, ``, 10 * time.Second, true},
		"a share of nothing":                 {`{ remaining = "header:L", limit = "header:M", per = "10s", reserve = 0 }`, http.Header{"L": {"0"}, "M": {"100"}}, ``, 0, false},
		"no limit is told":                   {`{ remaining = "header:L", per = "10s" }`, http.Header{"L": {"1"}}, ``, 0, false},
		"this answer tells nothing":          {`{ remaining = "header:L", limit = "header:M", per = "10s" }`, http.Header{"M": {"100"}}, ``, 0, false},
		"a limit of zero":                    {`{ remaining = "header:L", limit = "header:M", per = "10s" }`, http.Header{"L": {"0"}, "M": {"0"}}, ``, 0, false},
		"a bucket that refills": {`{ limit = "t.max", remaining = "t.now", refill = "t.rate", need = "t.need" }`, nil,
			`{"t":{"max":2000,"now":350,"rate":100,"need":150}}`, 2 * time.Second, true},
		"a bucket that does not": {`{ limit = "t.max", remaining = "t.now", refill = "t.rate", need = "t.need" }`, nil,
			`{"t":{"max":2000,"now":350,"rate":0,"need":150}}`, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustOpen(t, "https://sys.example", "rate_headers = ["+tc.rule+"]"+oneLookup)
			doc := document{header: tc.header}
			if tc.body != "" {
				var err error
				if doc.body, err = decode([]byte(tc.body)); err != nil {
					t.Fatal(err)
				}
			}
			wait, why, known := c.def.rates[0].reserved(doc, at)
			if wait != tc.wait || known != tc.known || wait > 0 && why == "" {
				t.Errorf("wait %s, known %v (%s); want %s, %v", wait, known, why, tc.wait, tc.known)
			}
		})
	}
}

func TestLookupsStopAtTheReserveAndOthersGoOn(t *testing.T) {
	sys := newSystem(t)
	var left, effects atomic.Int32
	head := func(w http.ResponseWriter) {
		w.Header().Set("X-Left", fmt.Sprint(left.Load()))
		w.Header().Set("X-Max", "100")
	}
	sys.do("GET /one/k1", func(w http.ResponseWriter, _ *http.Request, _ string) {
		head(w)
		_, _ = w.Write([]byte(`{"k":"k1","id":"1"}`))
	})
	sys.do("POST /one", func(w http.ResponseWriter, _ *http.Request, _ string) {
		effects.Add(1)
		head(w)
	})
	c := mustOpen(t, sys.URL, `rate_headers = [{ remaining = "header:X-Left", limit = "header:X-Max", per = "1m" }]`+
		`
probe = { method = "GET", path = "/one/k1" }`+oneLookup+`
check = { method = "GET", path = "/one/k1", lifecycle = "k", lifecycle_allow = ["k1"] }
[[operation]]
name = "many"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 9, each = "{key}", join = ",", query = { k = "{each}" } } }
[[operation]]
name = "none"
send = { method = "POST", path = "/one" }
`)
	left.Store(15)
	if _, e := ask(t, c, "one", "k1"); e != nil {
		t.Fatalf("nothing is known of the limit yet: %v", e)
	}
	sys.sent()
	a, e := ask(t, c, "one", "k1")
	if e == nil || e.Kind != connectors.KindRateLimit || e.Rule != "reserve" || e.Pauses != "entry" || a.Requests != 0 ||
		e.RetryAfter.Wait < 55*time.Second || e.RetryAfter.Wait > time.Minute {
		t.Errorf("%+v, %+v", a, e)
	}
	for _, r := range askMany(c, "many", "a", "b") {
		if r.Err == nil || r.Answer.Complete {
			t.Errorf("a batch: %+v", r)
		}
	}
	if n := len(sys.sent()); n != 0 {
		t.Errorf("%d questions went out", n)
	}
	if _, e := ask(t, c, "none", "k1"); e == nil || e.Kind != connectors.KindUnsupported {
		t.Errorf("what cannot be asked does not wait: %v", e)
	}
	// Sends, their checks and the probe are what the share is kept for.
	if r := send(c, "one"); r.Effect != connectors.EffectDone || effects.Load() != 1 {
		t.Errorf("%+v, %d effects", r, effects.Load())
	}
	vs := c.Check(context.Background(), connectors.CheckQuery{Query: connectors.Query{Operation: "one"}, Want: []connectors.CheckName{"lifecycle"}})
	if len(vs) != 1 || vs[0].Kind != connectors.VerdictPass {
		t.Errorf("%+v", vs)
	}
	if _, err := c.Probe(context.Background()); err != nil {
		t.Error(err)
	}
	if _, e := ask(t, c, "one", "k1"); e == nil {
		t.Error("the others' answers still show too little, and lookups go on")
	}
	// A send shows that the window is a new one.
	left.Store(99)
	send(c, "one")
	if _, e := ask(t, c, "one", "k1"); e != nil {
		t.Errorf("enough is left, and lookups do not go on: %v", e)
	}
}

func TestAShortHoldIsWaitedOut(t *testing.T) {
	sys := newSystem(t)
	sys.on("GET /one/k1", 200, `{"k":"k1","id":"1"}`, "X-Left", "1", "X-Max", "100")
	c := mustOpen(t, sys.URL, `rate_headers = [{ remaining = "header:X-Left", limit = "header:X-Max", per = "10s" }]`+oneLookup)
	if _, e := ask(t, c, "one", "k1"); e != nil {
		t.Fatal(e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Lookup(ctx, connectors.Query{Operation: "one", Keys: []string{"k1"}}); err == nil || len(sys.sent()) != 1 {
		t.Errorf("a wait that we end: %v", err)
	}
	until := time.Now().Add(30 * time.Millisecond)
	c.reserve.mu.Lock()
	c.reserve.holds[0] = hold{until, "it is nearly over"}
	c.reserve.mu.Unlock()
	if _, e := ask(t, c, "one", "k1"); e != nil || time.Now().Before(until) {
		t.Errorf("asked %s before the hold was over: %v", time.Until(until), e)
	}
}
