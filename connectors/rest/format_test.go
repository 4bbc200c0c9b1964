package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

// Sentences of the format that no other test is about.

func TestRulesCompareValuesAsTheyWereReceived(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
errors = [
  { code = "n", is = 9007199254740993, class = "quota" },
  { code = "rate", is = "19.90", class = "conflict" },
  { code = "down", is = true, class = "unavailable" },
  { status = [400, 409], code = "codes.*.id", is = ["A", "B"], like = "^[A-B]$", class = "already_exists" },
  { code = "header:X-Problem", class = "lock_conflict" },
  { status = 422, class = "network" },
]
[[operation]]
name = "own"
send = { method = "POST", path = "/x" }
errors = [{ status = 422, class = "timeout" }]
[[operation]]
name = "plain"
send = { method = "POST", path = "/x" }
`)
	for name, tc := range map[string]struct {
		op     string
		status int
		body   string
		header []string
		want   connectors.Kind
		rule   string
	}{
		"a number beyond 2^53":               {"plain", 400, `{"n":9007199254740993}`, nil, "quota", "connector error 1"},
		"its neighbour is another":           {"plain", 400, `{"n":9007199254740992}`, nil, "validation", "default 4xx"},
		"a fraction with its zero":           {"plain", 400, `{"rate":19.90}`, nil, "conflict", "connector error 2"},
		"a fraction without it":              {"plain", 400, `{"rate":19.9}`, nil, "validation", "default 4xx"},
		"true":                               {"plain", 400, `{"down":true}`, nil, "unavailable", "connector error 3"},
		"true as text":                       {"plain", 400, `{"down":"true"}`, nil, "unavailable", "connector error 3"},
		"one of several values is enough":    {"plain", 409, `{"codes":[{"id":"Z"},{"id":"B"}]}`, nil, "already_exists", "connector error 4"},
		"every test must hold":               {"plain", 403, `{"codes":[{"id":"B"}]}`, nil, "permission", "default 403"},
		"there and not empty":                {"plain", 200, `{}`, []string{"X-Problem", "some"}, "lock_conflict", "connector error 5"},
		"there and empty":                    {"plain", 400, `{}`, []string{"X-Problem", ""}, "validation", "default 4xx"},
		"the operation's rule comes first":   {"own", 422, `{}`, nil, "timeout", "operation error 1"},
		"the connector's rule where no such": {"plain", 422, `{}`, nil, "network", "connector error 6"},
	} {
		t.Run(name, func(t *testing.T) {
			sys.on("POST /x", tc.status, tc.body, tc.header...)
			if r := send(c, tc.op); r.Kind != tc.want || r.Rule != tc.rule {
				t.Errorf("%s, %s; want %s, %s", r.Kind, r.Rule, tc.want, tc.rule)
			}
		})
	}
}

func TestWaitsInEveryForm(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
rate_headers = [{ remaining = "header:X-Left", reset = "header:X-Reset-Ms", unit = "ms" }, { remaining = "header:Y-Left", reset = "header:Y-Reset", unit = "epoch_ms" },
  { remaining = "limits.left", reset = "limits.until", unit = "iso" }, { remaining = "header:Z-Left", per = "10s" }]
errors = [
  { status = 429, code = "again_in_ms", class = "rate_limit", wait = { path = "again_in_ms", unit = "ms" } },
  { status = 429, code = "at", class = "rate_limit", wait = { path = "at", unit = "iso" } },
  { status = 429, code = "header:X-Again-Ms", class = "rate_limit", wait = { path = "header:X-Again-Ms", unit = "ms" } },
  { status = 503, class = "unavailable", wait = "4s" },
]
[[operation]]
name = "one"
lookup = { method = "GET", path = "/one/{key}", match = "k", id = "id" }
`)
	const date = "Thu, 01 Oct 2026 23:00:00 GMT"
	for name, tc := range map[string]struct {
		status int
		body   string
		header []string
		want   time.Duration
	}{
		"Retry-After in seconds":                         {429, `{}`, []string{"Retry-After", "7"}, 7 * time.Second},
		"Retry-After with a decimal rounds up":           {429, `{}`, []string{"Retry-After", "7.2"}, 8 * time.Second},
		"Retry-After as a date":                          {429, `{}`, []string{"Retry-After", "Thu, 01 Oct 2026 23:01:30 GMT"}, 90 * time.Second},
		"Retry-After as a date of the old form":          {429, `{}`, []string{"Retry-After", "Thursday, 01-Oct-26 23:01:30 GMT"}, 90 * time.Second},
		"Retry-After as a date that is past":             {429, `{}`, []string{"Retry-After", "Thu, 01 Oct 2026 22:01:30 GMT"}, 0},
		"Retry-After that is junk":                       {429, `{}`, []string{"Retry-After", "soon"}, 0},
		"Retry-After on a 503":                           {503, `{}`, []string{"Retry-After", "7"}, 7 * time.Second},
		"a rule's wait where it is longer":               {503, `{}`, []string{"Retry-After", "2"}, 4 * time.Second},
		"milliseconds in the body round up":              {429, `{"again_in_ms":1200}`, nil, 2 * time.Second},
		"milliseconds as text":                           {429, `{"again_in_ms":"2000"}`, nil, 2 * time.Second},
		"a moment in the body":                           {429, `{"at":"2026-10-01T23:00:20Z"}`, nil, 20 * time.Second},
		"milliseconds in a header":                       {429, `{}`, []string{"X-Again-Ms", "900"}, time.Second},
		"a limit's reset in milliseconds":                {429, `{}`, []string{"X-Left", "0", "X-Reset-Ms", "5000"}, 5 * time.Second},
		"a limit's reset, with something left":           {429, `{}`, []string{"X-Left", "3", "X-Reset-Ms", "5000"}, 0},
		"a limit's reset as a moment in milliseconds":    {429, `{}`, []string{"Y-Left", "0", "Y-Reset", "1790895605000"}, 5 * time.Second},
		"a limit in the body":                            {429, `{"limits":{"left":0,"until":"2026-10-01T23:00:09Z"}}`, nil, 9 * time.Second},
		"the length of the window where nothing is told": {429, `{}`, []string{"Z-Left", "0"}, 10 * time.Second},
		"but not where it is":                            {429, `{}`, []string{"Z-Left", "0", "Retry-After", "3"}, 3 * time.Second},
		"the longest of what is told":                    {429, `{"again_in_ms":1200}`, []string{"Retry-After", "3", "X-Left", "0", "X-Reset-Ms", "5000"}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			sys.on("GET /one/k1", tc.status, tc.body, append(tc.header, "Date", date)...)
			_, e := ask(t, c, "one", "k1")
			if e == nil || e.RetryAfter.Wait != tc.want {
				t.Errorf("got %+v, want %s", e, tc.want)
			}
		})
	}
}

func TestWhatABlockTakesFromItsParent(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "same path"
lookup = { method = "GET", path = "/things", query = { k = "{key}", fields = "all" }, headers = { X-Mode = "search", X-Of = "lookup" }, items = "data", match = "ref", id = "id", status = "st", gone = "gone" }
read = { query = { k = "id:{id:plain}" }, headers = { X-Mode = "read" } }
statuses = { open = "applied" }
[[operation]]
name = "own path"
shape = "thing"
read = { method = "GET", path = "/things/{id}" }
[[operation]]
name = "own key"
shape = "thing"
lookup = { method = "GET", path = "/others/{key}", match = "ref", status = "st" }
[shape.thing]
lookup = { method = "GET", path = "/things", query = { k = "{key}" }, items = "data", answered = "data", match = "ref", id = "id", status = "st", gone = "gone" }
statuses = { open = "applied" }
`)
	sys.on("GET /things", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}]}`)
	a, e := ask(t, c, "same path", "k1")
	if e != nil || len(a.Records) != 1 || a.Records[0].Standing != connectors.StandingApplied {
		t.Errorf("%+v, %v", a, e)
	}
	if d := cmp.Diff([]string{"GET /things?fields=all&k=k1", "GET /things?fields=all&k=id%3A1"}, sys.sent()); d != "" {
		t.Errorf("without a path of its own it is the parent's request, the named members replaced (-want +got)\n%s", d)
	}
	if h := sys.headers[1]; h.Get("X-Mode") != "read" || h.Get("X-Of") != "lookup" {
		t.Errorf("headers of the read: %v", h)
	}
	// With a path of its own it is a new request: items and answered are not
	// kept, match, id, status and gone are.
	sys.on("GET /things/1", 200, `{"ref":"k1","id":"1","st":"open","gone":true}`)
	a, e = ask(t, c, "own path", "k1")
	if e != nil || len(a.Records) != 1 || a.Records[0].Standing != connectors.StandingReversed || a.Records[0].Status != "open" {
		t.Errorf("%+v, %v", a, e)
	}
	if d := cmp.Diff([]string{"GET /things?k=k1", "GET /things/1"}, sys.sent()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	sys.on("GET /others/k1", 200, `{"ref":"k1","st":"open"}`)
	if a, e = ask(t, c, "own key", "k1"); e != nil || len(a.Records) != 1 || a.Records[0].ID != "" {
		t.Errorf("a shape fills only what is missing: %+v, %v", a, e)
	}
}

func TestTimingsOfAnOperationWin(t *testing.T) {
	c := mustOpen(t, "https://sys.example", `
timeout = "11s"
lands_within = "12s"
visible_within = "13s"
looks_back = "14h"
in_flight_for = "15m"
absent_after = 3
absent_spacing = "16s"
keeps_key = "17h"
key_scope = "region"
[[operation]]
name = "theirs"
lookup = { method = "GET", path = "/x/{key}", match = "k" }
[[operation]]
name = "own"
timeout = "21s"
lands_within = "22s"
visible_within = "0s"
looks_back = "24h"
in_flight_for = "25m"
absent_after = 4
absent_spacing = "0s"
keeps_key = "0s"
key_scope = "credential"
lookup = { method = "GET", path = "/x/{key}", match = "k" }
[[operation]]
name = "block"
lookup = { method = "GET", path = "/x/{key}", match = "k", visible_within = "1h", looks_back = "2w" }
`)
	for name, want := range map[string]connectors.Operation{
		"theirs": {Timeout: 11 * time.Second, LandsWithin: 12 * time.Second, VisibleWithin: 13 * time.Second, LooksBack: 14 * time.Hour, InFlightFor: 15 * time.Minute,
			AbsentAfter: 3, AbsentSpacing: 16 * time.Second, KeepsKey: 17 * time.Hour, KeyScope: "region"},
		"own": {Timeout: 21 * time.Second, LandsWithin: 22 * time.Second, LooksBack: 24 * time.Hour, InFlightFor: 25 * time.Minute, AbsentAfter: 4, KeyScope: "credential"},
		"block": {Timeout: 11 * time.Second, LandsWithin: 12 * time.Second, VisibleWithin: time.Hour, LooksBack: 14 * 24 * time.Hour, InFlightFor: 15 * time.Minute,
			AbsentAfter: 3, AbsentSpacing: 16 * time.Second, KeepsKey: 17 * time.Hour, KeyScope: "region"},
	} {
		want.Name, want.Lookup, want.BatchMax = name, connectors.LookupSingle, 1
		got, _ := c.Info().Operation(name)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

// buckets is a pacer that keeps the buckets asked for.
type buckets struct {
	mu  sync.Mutex
	all []string
}

func (b *buckets) Wait(_ context.Context, bucket string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, bucket)
	return nil
}

func TestABlockWaitsInItsBucket(t *testing.T) {
	sys := newSystem(t)
	p := &buckets{}
	m := fromTOML(t, `
rate = [{ calls = 10, per = "1s" }, { calls = 90, per = "1m", concurrent = 3 }, { name = "search", calls = 1, per = "1s" }]
[[operation]]
name = "a"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "data", match = "k", id = "id", bucket = "search" }
read = { method = "GET", path = "/one/{id}" }
`)
	m["base_url"] = sys.URL
	c, err := Open(connectors.Config{Name: "sys", Table: m, Env: noEnv, Pacer: p})
	if err != nil {
		t.Fatal(err)
	}
	sys.on("GET /search", 200, `{"data":[{"k":"k1","id":"1"}]}`)
	sys.on("GET /one/1", 200, `{"k":"k1","id":"1"}`)
	if _, e := ask(t, c, "a", "k1"); e != nil {
		t.Fatal(e)
	}
	if d := cmp.Diff([]string{"search", ""}, p.all); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	want := []connectors.Rate{{Calls: 10, Per: time.Second}, {Calls: 90, Per: time.Minute, Concurrent: 3}, {Bucket: "search", Calls: 1, Per: time.Second}}
	if d := cmp.Diff(want, c.Info().Rates); d != "" {
		t.Errorf("windows hold together (-want +got)\n%s", d)
	}
}

func TestAProbeOfSeveralRequests(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `probe = [{ method = "GET", path = "/me", account = "id" }, { method = "GET", path = "/mode", mode = "mode", expect = { "rights.*" = "write" } }]`+oneLookup)
	sys.on("GET /me", 200, `{"id":7}`)
	sys.on("GET /mode", 200, `{"mode":"test","rights":["read","write"]}`)
	if id, err := c.Probe(context.Background()); err != nil || id != (connectors.Identity{Account: "7", Mode: "test"}) {
		t.Errorf("%+v, %v", id, err)
	}
	sys.on("GET /mode", 200, `{"mode":"test","rights":["read"]}`)
	if _, err := c.Probe(context.Background()); err == nil {
		t.Error("the second request says that the credential may not write, and the probe passes")
	}
}

func TestATextGoesWholeOrNotAtAll(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "text"
send = { method = "POST", path = "/x", text = "{key};{idempotency_key}", content_type = "text/plain" }
[[operation]]
name = "graphql"
send = { method = "POST", path = "/x", graphql = 'mutation { make(k: {idempotency_key:graphql}) { id } }' }
`)
	made := 0
	sys.do("POST /x", func(http.ResponseWriter, *http.Request, string) { made++ })
	for _, op := range []string{"text", "graphql"} {
		r := c.Send(context.Background(), connectors.Send{Operation: op, Key: "k1", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)})
		if r.Effect != connectors.EffectNotDone || r.Kind != connectors.KindBadKey || r.Wrote || !strings.Contains(r.Message, "{idempotency_key}") {
			t.Errorf("%s without an idempotency key: %+v", op, r)
		}
	}
	if made != 0 {
		t.Errorf("%d effects", made)
	}
	if r := send(c, "text"); r.Effect != connectors.EffectDone || made != 1 {
		t.Errorf("%+v, %d effects", r, made)
	}
}

func TestWhatIsOptionalLeavesItsMemberOut(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
headers = { Accept = "application/vnd.sys+json" }
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "a"
send = { method = "POST", path = "/x", headers = { X-Key = "{key}", X-Who = "{payload.who?}", X-List = ["a", "{payload.who?}"] }, query = { w = "of {payload.who?}" }, json = { a = "for {payload.who?}", b = "{payload.who?:soql}", c = { d = "{payload.who?}" } } }
`)
	sys.on("POST /x", 200, `{}`)
	for payload, want := range map[string]string{
		`{}`:             `POST /x {"c":{}}`,
		`{"who":null}`:   `POST /x {"c":{}}`,
		`{"who":"it's"}`: ``,
		`{"who":"ada"}`:  `POST /x?w=of%20ada {"a":"for ada","b":"'ada'","c":{"d":"ada"}}`,
	} {
		r := c.Send(context.Background(), connectors.Send{Operation: "a", Key: "k1", Payload: []byte(payload), SendBy: time.Now().Add(time.Minute)})
		if got := strings.Join(sys.sent(), "\n"); got != want {
			t.Errorf("%s: %q, want %q (%+v)", payload, got, want, r)
		}
	}
	for _, h := range sys.headers {
		if h.Get("Accept") != "application/vnd.sys+json" {
			t.Errorf("Accept %q", h.Get("Accept"))
		}
		if who, list := h.Values("X-Who"), h.Values("X-List"); len(who) != len(list)-1 {
			t.Errorf("X-Who %q, X-List %q", who, list)
		}
	}
}

func TestSeveralAbsenceBlocksMustAllSayNone(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "a"
lookup = { method = "GET", path = "/live", query = { k = "{key}" }, items = "data", match = "k", id = "id" }
absence = [{ path = "/archive", method = "GET", query = { k = "{key}" }, items = "data" }, { path = "/bin", method = "GET", query = { k = "{key}" }, items = "data", gone = "binned" }]
`)
	const none, fails = `{"data":[]}`, ``
	hit := `{"data":[{"k":"k1","id":"1","binned":true}]}`
	for name, tc := range map[string]struct {
		live, archive, bin string
		want               string
	}{
		"all say none":                     {none, none, none, "none"},
		"a hit in one is a hit":            {none, none, hit, "reversed 1"},
		"one could not be asked":           {none, fails, none, "could not ask: malformed"},
		"a hit in one, the other fails":    {none, hit, fails, "could not ask: malformed"},
		"they are not asked behind a hit":  {hit, fails, fails, "applied 1"},
		"the lookup itself must be asked":  {fails, none, none, "could not ask: malformed"},
		"strangers in one are no obstacle": {none, `{"data":[{"k":"other","id":"9"}]}`, none, "1 strangers"},
	} {
		t.Run(name, func(t *testing.T) {
			sys.on("GET /live", 200, tc.live)
			sys.on("GET /archive", 200, tc.archive)
			sys.on("GET /bin", 200, tc.bin)
			got := answerLine(c.Lookup(t.Context(), connectors.Query{Operation: "a", Keys: []string{"k1"}}))
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFormsOfEach(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "joined"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 9, each = "{key:soql}", join = " or ", query = { k = "in ({each})" } } }
[[operation]]
name = "repeated"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 9, each = "{key}", query = { k = "{each}" } } }
[[operation]]
name = "list"
lookup = { method = "POST", path = "/x", json = { k = "{key}" }, items = "d", match = "k", batch = { max = 9, each = "{key}", json = { k = "{each}" } } }
[[operation]]
name = "objects"
lookup = { method = "POST", path = "/x", json = { k = "{key}" }, items = "d", match = "k", batch = { max = 9, each = { id = "{key}", t = 1 }, json = { k = "{each}" } } }
`)
	sys.on("GET /x", 200, `{"d":[]}`)
	sys.on("POST /x", 200, `{"d":[]}`)
	for op, want := range map[string]string{
		"joined":   `GET /x?k=in%20%28%27a%27%20or%20%27b%27%29`,
		"repeated": `GET /x?k=a&k=b`,
		"list":     `POST /x {"k":["a","b"]}`,
		"objects":  `POST /x {"k":[{"id":"a","t":1},{"id":"b","t":1}]}`,
	} {
		askMany(c, op, "a", "b")
		if got := strings.Join(sys.sent(), "\n"); got != want {
			t.Errorf("%s: %s, want %s", op, got, want)
		}
	}
}

func TestABadKeyInABatchHarmsNobody(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, batched)
	sys.on("POST /batch", 200, `{"replies":[{"tag":"k1","rows":{}},{"tag":"k3","rows":{"row":[{"ref":"c","id":"3"}]}}]}`)
	if d := cmp.Diff([]string{"none", "bad_key", "3"}, brief(askMany(c, "tags", "a", `b\`, "c"))); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if sent := sys.sent(); len(sent) != 1 || strings.Contains(sent[0], `b\`) {
		t.Errorf("requests: %q", sent)
	}
}

func TestARequestBeyondItsLimitsIsNotMade(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "url"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", max_url = 100 }
[[operation]]
name = "body"
lookup = { method = "POST", path = "/x", json = { k = "{key}" }, items = "d", match = "k", max_body = 40 }
`)
	for _, op := range []string{"url", "body"} {
		if a, e := ask(t, c, op, strings.Repeat("k", 90)); e == nil || e.Kind != connectors.KindBadKey || a.Requests != 0 {
			t.Errorf("%s: %+v, %v", op, a, e)
		}
	}
	sys.on("POST /x", 200, `{"d":[],"more":"`+strings.Repeat("x", 40)+`"}`)
	if _, e := ask(t, c, "body", "k1"); e == nil || e.Kind != connectors.KindMalformed || !strings.Contains(e.Message, "max_body") {
		t.Errorf("an answer beyond max_body: %v", e)
	}
}

func TestSettingsInAnAddress(t *testing.T) {
	const rest = "\n[[operation]]\nname = \"a\"\nlookup = { method = \"GET\", path = \"/x/{key}\", match = \"k\" }\n"
	for name, tc := range map[string]struct{ text, path string }{
		"a part of the host":              {"settings = { shop = \"acme\" }\nbase_url = \"https://{settings.shop}.sys.example/v1\"", ""},
		"all of the address":              {"settings = { url = \"https://sys.example/v1\" }\nbase_url = \"{settings.url}\"", ""},
		"a part that would be more":       {"settings = { shop = \"evil.example/x\" }\nbase_url = \"https://{settings.shop}.sys.example\"", "base_url"},
		"a part that would be a user":     {"settings = { shop = \"u:p@evil\" }\nbase_url = \"https://{settings.shop}.sys.example\"", "base_url"},
		"the pattern holds for the whole": {"settings = { shop = { default = \"acme.evil\", pattern = \"[a-z]+\" } }\nbase_url = \"https://{settings.shop}.sys.example\"", "settings.shop.default"},
	} {
		got := fieldErrors(t, tc.text+rest)
		if tc.path == "" && len(got) > 0 || tc.path != "" && got[tc.path] == "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestEveryPlaceEncodesWhatStandsThere sends hostile values through each place
// of a request and reads them back as the system would.
func TestEveryPlaceEncodesWhatStandsThere(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "a"
repeatable = true
send = { method = "POST", path = "/x/{payload.v}/y", query = { q = "{payload.v}" }, form = { a = "{payload.v}", n = { b = ["{payload.v}"] } } }
`)
	for _, v := range []string{"a/b", "a?b=c", "a#b", "a&b", "a%2fb", "a;b", "a b+c", "é", `a"b`, "a\\b", "..;", "%2e%2e", "a=b[c]", "{key}", "'; drop"} {
		var got []string
		sys.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			segments := strings.Split(r.URL.EscapedPath(), "/")
			if len(segments) != 4 {
				t.Errorf("%q: path %s", v, r.URL.EscapedPath())
				return
			}
			s, _ := url.PathUnescape(segments[2])
			_ = r.ParseForm()
			got = []string{s, r.URL.Query().Get("q"), r.PostForm.Get("a"), r.PostForm.Get("n[b][0]"), fmt.Sprint(len(r.URL.Query()), len(r.PostForm))}
		})
		c.Send(context.Background(), connectors.Send{Operation: "a", Key: "k1", Payload: []byte(`{"v":` + jsonText(v) + `}`), SendBy: time.Now().Add(time.Minute)})
		if want := []string{v, v, v, v, "1 2"}; !slices.Equal(got, want) {
			t.Errorf("%q: read back %q", v, got)
		}
	}
}
