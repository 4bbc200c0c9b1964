package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

const plain = `
rate = { calls = 1000, per = "1s" }
errors = [{ status = 404, code = "code", is = "missing", on = ["lookup", "check"], finding = "none" },
  { status = 410, on = ["lookup"], finding = "gone" },
  { status = 300, on = ["lookup"], finding = "duplicate", id = "*" },
  { status = 200, code = "ok", is = "false", class = "rate_limit", wait = { path = "retry_after", unit = "s" } }]
[[operation]]
name = "list"
lookup = { method = "GET", path = "/list", query = { k = "{key}" }, items = "data", match = "ref", id = "id", status = "st", gone = "deleted", merged = "into", partial = "partial" }
statuses = { open = "applied", wait = "pending", bad = "rejected", void = "reversed" }
compare = { amount = "amount", "who.mail" = { path = "mail", as = "fold" }, at = { path = "at", as = "time" } }
[[operation]]
name = "one"
lookup = { method = "GET", path = "/one/{key}", match = "refs", id = "id" }
[[operation]]
name = "answered"
lookup = { method = "GET", path = "/answered", query = { k = "{key}" }, items = "q.rows", answered = "q", match = "ref", id = "id" }
`

func ask(t *testing.T, c *Connector, op string, keys ...string) (connectors.Answer, *connectors.Error) {
	t.Helper()
	a, err := c.Lookup(context.Background(), connectors.Query{Operation: op, Keys: keys, RecordID: "r-1",
		Payload: []byte(`{"amount":19.90,"who":{"mail":"Ada@Example.org"},"at":"2026-01-01T00:00:00Z","big":9007199254740993}`)})
	var e *connectors.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error of another type: %v", err)
	}
	return a, e
}

func TestWhatAnAnswerMeans(t *testing.T) {
	type want struct {
		kind     connectors.Kind // of the error; "" for an answer
		standing []connectors.Standing
		complete bool
		foreign  int
	}
	none := want{complete: true}
	cases := map[string]struct {
		op     string
		status int
		body   string
		header []string
		want   want
	}{
		"a record of ours":                     {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}]}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"pending":                              {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"wait"}]}`, nil, want{"", []connectors.Standing{"pending"}, true, 0}},
		"a status with no mapping (S30)":       {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"new!"}]}`, nil, want{"", []connectors.Standing{"unmapped"}, true, 0}},
		"no status where one is read":          {"list", 200, `{"data":[{"ref":"k1","id":"1"}]}`, nil, want{"", []connectors.Standing{"unmapped"}, true, 0}},
		"removed since (S28)":                  {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open","deleted":true}]}`, nil, want{"", []connectors.Standing{"reversed"}, true, 0}},
		"merged since (S27)":                   {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open","deleted":true,"into":"9"}]}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"two records (S14)":                    {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"},{"ref":"k1","id":"2","st":"bad"}]}`, nil, want{"", []connectors.Standing{"applied", "rejected"}, true, 0}},
		"one id twice is one record":           {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"},{"ref":"k1","id":"1","st":"open"}]}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"one object instead of a list":         {"list", 200, `{"data":{"ref":"k1","id":"1","st":"open"}}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"an empty list is an explicit none":    {"list", 200, `{"data":[]}`, nil, none},
		"null is an explicit none":             {"list", 200, `{"data":null}`, nil, none},
		"only strangers":                       {"list", 200, `{"data":[{"ref":"K1","id":"1"},{"ref":"k11","id":"2"}]}`, nil, want{"", nil, true, 2}},
		"marked partial":                       {"list", 200, `{"data":[],"partial":true}`, nil, want{}},
		"the place of the records is missing":  {"list", 200, `{"rows":[]}`, nil, want{kind: "malformed"}},
		"not JSON":                             {"list", 200, `{"data":[`, nil, want{kind: "malformed"}},
		"two JSON values":                      {"list", 200, `{"data":[]}{"data":[]}`, nil, want{kind: "malformed"}},
		"an empty body":                        {"list", 200, ``, nil, want{kind: "malformed"}},
		"a page in a 200 (E13)":                {"list", 200, `<!DOCTYPE html><title>Just a moment...</title>`, []string{"Content-Type", "text/html"}, want{kind: "blocked_by_edge"}},
		"a page in a 403 (E13)":                {"list", 403, `<html>Just a moment...</html>`, []string{"Content-Type", "text/html"}, want{kind: "blocked_by_edge"}},
		"a page in a 504 (E12)":                {"list", 504, `<html><title>504 Gateway Time-out</title></html>`, []string{"Content-Type", "text/html"}, want{kind: "timeout"}},
		"a bare 404 is could-not-ask":          {"list", 404, `{}`, nil, want{kind: "not_found"}},
		"a 404 that the definition knows":      {"list", 404, `{"code":"missing"}`, nil, none},
		"a 410 that the definition knows":      {"list", 410, `{}`, nil, want{"", []connectors.Standing{"reversed"}, true, 0}},
		"several records carry the key":        {"list", 300, `["/x/1","/x/2"]`, nil, want{"", []connectors.Standing{"applied", "applied"}, true, 0}},
		"several, but only one is named":       {"list", 300, `["/x/1"]`, nil, want{kind: "unknown"}},
		"429 (S09)":                            {"list", 429, `{}`, []string{"Retry-After", "30"}, want{kind: "rate_limit"}},
		"429 in a 200 (S10)":                   {"list", 200, `{"ok":false,"retry_after":30}`, nil, want{kind: "rate_limit"}},
		"401 (S11)":                            {"list", 401, `{}`, nil, want{kind: "auth"}},
		"500 (S08)":                            {"list", 500, ``, nil, want{kind: "server_error"}},
		"a redirect":                           {"list", 302, ``, []string{"Location", "https://elsewhere.example/"}, want{kind: "unknown"}},
		"the body is the record":               {"one", 200, `{"refs":["x","k1"],"id":1}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"the body is somebody else's":          {"one", 200, `{"refs":["k2"],"id":1}`, nil, want{"", nil, true, 1}},
		"answered without records":             {"answered", 200, `{"q":{}}`, nil, none},
		"not answered":                         {"answered", 200, `{}`, nil, want{kind: "malformed"}},
		"a number that shows the key as text":  {"one", 200, `{"refs":9007199254740993,"id":1}`, nil, want{"", nil, true, 1}},
		"an error beside an empty list":        {"list", 200, `{"data":[],"error":"backend timed out"}`, nil, want{kind: "malformed"}},
		"errors beside null, as in GraphQL":    {"list", 200, `{"data":null,"errors":[{"message":"a resolver failed"}]}`, nil, want{kind: "malformed"}},
		"errors beside answered":               {"answered", 200, `{"q":{"rows":null},"errors":[{"message":"x"}]}`, nil, want{kind: "malformed"}},
		"success false beside an empty list":   {"list", 200, `{"success":false,"data":[]}`, nil, want{kind: "malformed"}},
		"success 0 beside an empty list":       {"list", 200, `{"success":0,"data":[]}`, nil, want{kind: "malformed"}},
		"JSend error beside an empty list":     {"list", 200, `{"status":"error","data":[]}`, nil, want{kind: "malformed"}},
		"JSend success beside an empty list":   {"list", 200, `{"status":"success","data":[]}`, nil, none},
		"a number as error code":               {"list", 200, `{"errcode":40001,"errmsg":"invalid","data":[]}`, nil, want{kind: "malformed"}},
		"an error code of 0":                   {"list", 200, `{"errcode":0,"errmsg":"ok","data":[]}`, nil, none},
		"a text as error code":                 {"list", 200, `{"errorCode":"RATE_LIMIT","data":[]}`, nil, want{kind: "malformed"}},
		"an error code of success":             {"list", 200, `{"error_code":"SUCCESS","errcode":"0000","errorCode":null,"data":[]}`, nil, none},
		"the status of an error in the body":   {"list", 200, `{"status":429,"message":"slow down","data":[]}`, nil, want{kind: "malformed"}},
		"the same as text":                     {"list", 200, `{"statusCode":"503","data":null}`, nil, want{kind: "malformed"}},
		"the same as code":                     {"list", 200, `{"code":401,"data":[]}`, nil, want{kind: "malformed"}},
		"a code of success in the body":        {"list", 200, `{"status":200,"code":0,"data":[]}`, nil, none},
		"a code that is no HTTP status":        {"list", 200, `{"code":40012,"data":[]}`, nil, none},
		"more to come, and no pages":           {"list", 200, `{"data":[],"has_more":true}`, nil, want{kind: "malformed"}},
		"no more to come":                      {"list", 200, `{"data":[],"has_more":false,"total":0,"incomplete_results":false}`, nil, none},
		"cut short by the system":              {"list", 200, `{"data":[],"incomplete_results":true}`, nil, want{kind: "malformed"}},
		"a hit, and more to come":              {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}],"has_more":true}`, nil, want{"", []connectors.Standing{"applied"}, false, 0}},
		"a total of what is not shown":         {"list", 200, `{"data":[],"total":5}`, nil, want{kind: "malformed"}},
		"a total beside a hit":                 {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}],"total":5}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"no errors, success true":              {"list", 200, `{"data":[],"errors":[],"error":null,"success":true}`, nil, none},
		"a hit beside errors stands":           {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}],"errors":[{"message":"x"}]}`, nil, want{"", []connectors.Standing{"applied"}, false, 0}},
		"a record has an error of its own":     {"one", 200, `{"refs":["k1"],"id":1,"error":"card declined"}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"a 202 has not answered":               {"list", 202, `{"data":[]}`, nil, want{kind: "malformed"}},
		"a 206 is a part":                      {"list", 206, `{"data":[]}`, nil, want{kind: "malformed"}},
		"a hit in a 206 stands":                {"list", 206, `{"data":[{"ref":"k1","id":"1","st":"open"}]}`, nil, want{"", []connectors.Standing{"applied"}, false, 0}},
		"a 203 is an answer":                   {"list", 203, `{"data":[]}`, nil, none},
		"a 204 where a list is read":           {"list", 204, ``, nil, want{kind: "malformed"}},
		"a member twice, the last one empty":   {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open"}],"data":[]}`, nil, want{kind: "malformed"}},
		"a member twice in a record":           {"list", 200, `{"data":[{"ref":"k2","id":"1","st":"open","ref":"k1"}]}`, nil, want{kind: "malformed"}},
		"a member twice, once escaped":         {"list", 200, `{"data":[],"d\u0061ta":[]}`, nil, want{kind: "malformed"}},
		"the same name in two objects":         {"list", 200, `{"data":[{"ref":"k1","id":"1","st":"open","o":{"id":"9","ref":"x"}}]}`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"a byte order mark":                    {"list", 200, "\ufeff" + `{"data":[]}`, nil, none},
		"UTF-16":                               {"list", 200, "\xff\xfe{\x00}\x00", nil, want{kind: "malformed"}},
		"Latin-1 in another member":            {"list", 200, "{\"data\":[{\"ref\":\"k1\",\"id\":\"1\",\"st\":\"open\",\"name\":\"J\xfcrgen\"}]}", []string{"Content-Type", "application/json; charset=iso-8859-1"}, want{"", []connectors.Standing{"applied"}, true, 0}},
		"something behind the JSON":            {"list", 200, "{\"data\":[]}\x00", nil, want{kind: "malformed"}},
		"one JSON a line":                      {"list", 200, "{\"data\":[]}\n{\"data\":[]}\n", nil, want{kind: "malformed"}},
		"a call around the JSON":               {"list", 200, `cb({"data":[]})`, nil, want{kind: "malformed"}},
		"a text that holds JSON":               {"list", 200, `"{\"data\":[]}"`, nil, want{kind: "malformed"}},
		"a list at the root":                   {"one", 200, `[{"refs":["k1"],"id":1}]`, nil, want{"", []connectors.Standing{"applied"}, true, 0}},
		"an empty list at the root":            {"one", 200, `[]`, nil, none},
		"an error list at the root":            {"one", 200, `[{"errorCode":"X"}]`, nil, want{"", nil, true, 1}},
		"the place of the records is false":    {"list", 200, `{"data":false}`, nil, want{"", nil, true, 1}},
		"a 421":                                {"list", 421, `{}`, nil, want{kind: "validation"}},
		"a 451":                                {"list", 451, `{"data":[]}`, nil, want{kind: "validation"}},
		"a 511 of a portal":                    {"list", 511, `<html><title>Log in to the network</title></html>`, []string{"Content-Type", "text/html"}, want{kind: "server_error"}},
		"content type says page, body is JSON": {"list", 200, `{"data":[]}`, []string{"Content-Type", "text/html"}, none},
	}
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, at := range []string{"GET /list", "GET /one/k1", "GET /answered"} {
				sys.on(at, tc.status, tc.body, tc.header...)
			}
			a, e := ask(t, c, tc.op, "k1")
			got := want{complete: a.Complete, foreign: a.Foreign}
			if e != nil {
				got = want{kind: e.Kind}
				if e.Rule == "" && e.Kind != connectors.KindMalformed {
					t.Errorf("no rule named: %+v", e)
				}
				if strings.Contains(e.Error(), "invalid character") {
					t.Errorf("the decoder's words: %v", e)
				}
			}
			for _, r := range a.Records {
				got.standing = append(got.standing, r.Standing)
				if r.Key != "k1" {
					t.Errorf("record under key %q", r.Key)
				}
			}
			if !cmp.Equal(got, tc.want, cmp.AllowUnexported(want{})) {
				t.Errorf("%d %s\n got %+v (%v)\nwant %+v", tc.status, tc.body, got, e, tc.want)
			}
			if a.Requests != 1 {
				t.Errorf("%d requests, want 1", a.Requests)
			}
		})
	}
	sys.on("GET /one/9007199254740993", 200, `{"refs":9007199254740993,"id":1}`)
	if a, e := ask(t, c, "one", "9007199254740993"); e != nil || len(a.Records) != 1 {
		t.Errorf("a number is matched by its exact text: %+v, %v", a, e)
	}
	sys.on("GET /list", 429, `{}`, "Retry-After", "30")
	if _, e := ask(t, c, "list", "k1"); e.RetryAfter.Wait != 30*time.Second {
		t.Errorf("%+v", e.RetryAfter)
	}
}

func TestAnAnswerOutOfACacheIsAsOldAsItSays(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	for age, least := range map[string]time.Duration{"": 0, "0": 0, "soon": 0, "-5": 0, "300": 5 * time.Minute, "99999999999999999999": connectors.LongestWait} {
		sys.on("GET /list", 200, `{"data":[]}`, "Age", age)
		a, e := ask(t, c, "list", "k1")
		if old := time.Since(a.AskedAt); e != nil || !a.Complete || old < least || old > least+5*time.Second {
			t.Errorf("Age %q: %s old, want %s (%v)", age, old, least, e)
		}
	}
	if got := sys.headers[0].Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q", got)
	}
}

func TestCompareIsExact(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	sys.on("GET /list", 200, `{"data":[{"ref":"k1","id":"1","st":"open","amount":"19.9","mail":"ada@example.ORG","at":"2026-01-01T01:00:00+01:00"}]}`)
	a, e := ask(t, c, "list", "k1")
	if e != nil {
		t.Fatal(e)
	}
	want := []connectors.Compared{
		{Path: "amount", Want: "19.90", Got: "19.9", Equal: true},
		{Path: "at", Want: "2026-01-01T00:00:00Z", Got: "2026-01-01T01:00:00+01:00", Equal: true},
		{Path: "who.mail", Want: "Ada@Example.org", Got: "ada@example.ORG", Equal: true},
	}
	if d := cmp.Diff(want, a.Records[0].Compared); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}

	for name, x := range map[string]struct {
		a, b string
		want bool
	}{
		"2^53 and its neighbour":  {"9007199254740992", "9007199254740993", false},
		"2^53+1 as text":          {"9007199254740993", `"9007199254740993"`, true},
		"trailing zeros":          {"19.90", "19.9", true},
		"exponent":                {"1e2", "100.0", true},
		"a leading zero is text":  {`"007"`, "7", false},
		"an absurd exponent":      {"1e999999", "1e999998", false},
		"text and true":           {`"true"`, "true", true},
		"null is not empty":       {"null", `""`, false},
		"lists":                   {`[1,"a"]`, `["1","a"]`, true},
		"lists of another length": {`[1]`, `[1,2]`, false},
		"objects":                 {`{"a":1.0}`, `{"a":1}`, true},
		"objects with more":       {`{"a":1}`, `{"a":1,"b":2}`, false},
		"text of another case":    {`"A"`, `"a"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			v, err1 := decode([]byte(x.a))
			w, err2 := decode([]byte(x.b))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if equal(v, w, "") != x.want || equal(w, v, "") != x.want {
				t.Errorf("equal(%s, %s) is not %v", x.a, x.b, x.want)
			}
		})
	}
}

func TestEveryKeyIsAskedFor(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	sys.do("GET /list", func(w http.ResponseWriter, r *http.Request, _ string) {
		switch r.URL.Query().Get("k") {
		case "old":
			_, _ = io.WriteString(w, `{"data":[{"ref":"old","id":"1","st":"bad"}]}`)
		default:
			_, _ = io.WriteString(w, `{"data":[{"ref":"old","id":"1","st":"bad"},{"ref":"new","id":"2","st":"open"}]}`)
		}
	})
	a, e := ask(t, c, "list", "old", "new")
	if e != nil || len(a.Records) != 2 || a.Records[0].Key != "old" || a.Records[1].Key != "new" || a.Requests != 2 || a.Foreign != 0 {
		t.Errorf("%+v, %v", a, e)
	}
	// What the second question would have shown is not known: the hit stands,
	// completeness does not.
	sys.do("GET /list", func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("k") == "new" {
			http.Error(w, "x", 500)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"ref":"old","id":"1","st":"bad"}]}`)
	})
	a, e = ask(t, c, "list", "old", "new")
	if e != nil || len(a.Records) != 1 || a.Complete {
		t.Errorf("%+v, %v", a, e)
	}
	// And with no hit it is could-not-ask.
	sys.do("GET /list", func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("k") == "new" {
			http.Error(w, "x", 500)
			return
		}
		_, _ = io.WriteString(w, `{"data":[]}`)
	})
	if a, e = ask(t, c, "list", "old", "new"); e == nil || e.Kind != connectors.KindServerError {
		t.Errorf("%+v, %v", a, e)
	}
}

func TestAKeyThatCannotTravelHarmsNobody(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	for _, key := range []string{"..", ".", "a\x00b", "a\nb", "\xff"} {
		if a, e := ask(t, c, "one", key); e == nil || e.Kind != connectors.KindBadKey || a.Requests != 0 {
			t.Errorf("key %q: %+v, %v", key, a, e)
		} else if strings.Contains(e.Error(), key) && len(key) > 2 {
			t.Errorf("the error repeats the value: %v", e)
		}
	}
	if n := len(sys.sent()); n != 0 {
		t.Errorf("%d requests went out", n)
	}
}

func TestRecordsWithoutAnIdAreTold(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
[[operation]]
name = "a"
lookup = { method = "GET", path = "/list", query = { k = "{key}" }, items = "data", match = "refs", batch = { max = 5, each = "{key}", join = ",", query = { k = "{each}" } } }
`)
	for name, tc := range map[string]struct {
		body string
		keys []string
		want []string
	}{
		"one":                             {`{"data":[{"refs":"k1"}]}`, []string{"k1"}, []string{""}},
		"two of one key are two (S14)":    {`{"data":[{"refs":"k1"},{"refs":"k1"}]}`, []string{"k1"}, []string{"#1 of k1", "#2 of k1"}},
		"one that shows both keys is one": {`{"data":[{"refs":["k1","k2"]}]}`, []string{"k1", "k2"}, []string{""}},
		"one of each key are two":         {`{"data":[{"refs":"k1"},{"refs":"k2"}]}`, []string{"k1", "k2"}, []string{"#1 of k1", "#1 of k2"}},
	} {
		t.Run(name, func(t *testing.T) {
			sys.on("GET /list", 200, tc.body)
			a, e := ask(t, c, "a", tc.keys...)
			b := askMany(c, "a", strings.Join(tc.keys, "+"))[0].Answer
			if strings.Contains(name, "both") {
				b = a // a batch spreads it over the keys, one item each
			}
			for _, rs := range [][]connectors.Record{a.Records, b.Records} {
				var got []string
				for _, r := range rs {
					got = append(got, r.ID)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%q (%v), want %q", got, e, tc.want)
				}
			}
		})
	}
}

const paged = `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "token"
lookup = { method = "GET", path = "/token", query = { k = "{key}", p = "{page}" }, items = "data", match = "ref", id = "id", pages = { next = "next", max = 4 } }
[[operation]]
name = "count"
lookup = { method = "GET", path = "/count", query = { k = "{key}", p = "{page}" }, items = "data", match = "ref", id = "id", pages = { from = 1, size = 2 } }
[[operation]]
name = "total"
lookup = { method = "GET", path = "/total", query = { k = "{key}", p = "{page}" }, items = "data", match = "ref", id = "id", pages = { total = "pages" } }
[[operation]]
name = "more"
lookup = { method = "GET", path = "/more", query = { k = "{key}", p = "{page}" }, items = "data", match = "ref", id = "id", pages = { more = "more", size = 5 } }
[[operation]]
name = "asked"
lookup = { method = "GET", path = "/asked", query = { k = "{key}", p = "{page}" }, items = "data", match = "ref", id = "id", pages = { next = "next", more = "more" } }
[[operation]]
name = "link"
lookup = { method = "GET", path = "/link", query = { k = "{key}" }, items = "data", match = "ref", id = "id", pages = { url = "link:next" } }
[[operation]]
name = "url"
lookup = { method = "GET", path = "/url", query = { k = "{key}" }, items = "data", match = "ref", id = "id", pages = { url = "next" } }
`

func TestPages(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, paged)
	hit := `{"ref":"k1","id":"1"}`
	other := `{"ref":"zz","id":"7"}`
	serve := func(at string, pages map[string]string) {
		sys.do(at, func(w http.ResponseWriter, r *http.Request, _ string) {
			body, ok := pages[r.URL.Query().Get("p")]
			if !ok {
				t.Errorf("unexpected page %s", r.URL)
			}
			_, _ = io.WriteString(w, body)
		})
	}
	check := func(name, op string, hits, requests int, complete bool, kind connectors.Kind) {
		t.Helper()
		a, e := ask(t, c, op, "k1")
		var got connectors.Kind
		if e != nil {
			got = e.Kind
		}
		if len(a.Records) != hits || a.Requests != requests || a.Complete != complete || got != kind {
			t.Errorf("%s: %+v, %v; want %d hits, %d requests, complete %v, kind %q", name, a, e, hits, requests, complete, kind)
		}
	}
	serve("GET /token", map[string]string{"": `{"data":[` + other + `],"next":"a"}`, "a": `{"data":[],"next":"b"}`, "b": `{"data":[` + hit + `]}`})
	check("a hit on the last page, past an empty one", "token", 1, 3, true, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":"a"}`, "a": `{"data":[],"next":"a"}`})
	check("a cursor seen before", "token", 0, 2, false, "")
	serve("GET /token", map[string]string{"": `{"data":[` + hit + `],"next":"a"}`, "a": `oops`})
	check("a hit, then a broken page", "token", 1, 2, false, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":"a"}`, "a": `oops`})
	check("nothing, then a broken page", "token", 0, 2, false, connectors.KindMalformed)
	sys.do("GET /token", func(w http.ResponseWriter, r *http.Request, _ string) {
		fmt.Fprintf(w, `{"data":[],"next":"x%s"}`, r.URL.Query().Get("p"))
	})
	check("more pages than allowed", "token", 0, 4, false, "")

	serve("GET /count", map[string]string{"1": `{"data":[` + other + `,` + other + `]}`, "2": `{"data":[` + hit + `]}`})
	check("counting ends with a short page", "count", 1, 2, true, "")
	serve("GET /total", map[string]string{"1": `{"data":[` + other + `],"pages":2}`, "2": `{"data":[` + hit + `],"pages":2}`})
	check("counting ends with the total", "total", 1, 2, true, "")
	serve("GET /total", map[string]string{"1": `{"data":[` + other + `]}`})
	check("a total that is missing", "total", 0, 1, false, "")
	serve("GET /total", map[string]string{"1": `{"data":[],"pages":2}`, "2": `{"data":[` + hit + `],"pages":2}`})
	check("an empty page before the last", "total", 1, 2, true, "")
	serve("GET /more", map[string]string{"1": `{"data":[` + other + `],"more":true}`, "2": `{"data":[` + hit + `],"more":false}`})
	check("a short page that says there is more", "more", 1, 2, true, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":false}`})
	check("a cursor that is false", "token", 0, 1, true, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":0}`})
	check("a cursor that is 0", "token", 0, 1, true, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":17}`, "17": `{"data":[` + hit + `],"next":null}`})
	check("a cursor that is a number", "token", 1, 2, true, "")

	serve("GET /token", map[string]string{"": `{"data":[],"next":{"after":"a"}}`})
	check("a cursor that cannot be read", "token", 0, 1, false, "")
	serve("GET /url", map[string]string{"": `{"data":[],"next":{"href":"/url?p=2"}}`})
	check("an address that cannot be read", "url", 0, 1, false, "")
	serve("GET /token", map[string]string{"": `{"data":[],"next":{}}`})
	check("a cursor that is empty", "token", 0, 1, true, "")
	serve("GET /total", map[string]string{"1": `{"data":[],"pages":0}`})
	check("a total of 0", "total", 0, 1, true, "")
	serve("GET /total", map[string]string{"1": `{"data":[],"pages":-1}`})
	check("a total that is not known", "total", 0, 1, false, "")
	serve("GET /asked", map[string]string{"": `{"data":[],"next":"a"}`, "a": `{"data":[` + hit + `],"more":false}`})
	check("a cursor, and not said whether there is more", "asked", 1, 2, true, "")
	serve("GET /asked", map[string]string{"": `{"data":[]}`})
	check("no cursor, and not said whether there is more", "asked", 0, 1, true, "")
	serve("GET /asked", map[string]string{"": `{"data":[],"next":"a","more":false}`})
	check("a cursor, and no more", "asked", 0, 1, true, "")
	serve("GET /asked", map[string]string{"": `{"data":[],"more":true}`})
	check("more, and no cursor", "asked", 0, 1, false, "")

	sys.do("GET /link", func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("p") == "" {
			w.Header().Set("Link", `</link?p=0>; rel="prev", </link?p=2&k=k1>; rel="next"`)
			_, _ = io.WriteString(w, `{"data":[]}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[`+hit+`]}`)
	})
	check("a link header", "link", 1, 2, true, "")
	for name, next := range map[string]string{
		"another host": "https://elsewhere.example/x", "another port": "http://127.0.0.1:1/x", "another scheme": strings.Replace(sys.URL, "http:", "https:", 1) + "/x",
		"a user": strings.Replace(sys.URL, "http://", "http://u:p@", 1) + "/x",
	} {
		sys.on("GET /url", 200, `{"data":[],"next":"`+next+`"}`)
		check("the next page at "+name, "url", 0, 1, false, connectors.KindMalformed)
	}
	sys.on("GET /url", 200, `{"data":[],"next":"`+strings.Replace(sys.URL, "http:", "HTTP:", 1)+`/url2"}`)
	sys.on("GET /url2", 200, `{"data":[`+hit+`]}`)
	check("the next page at the same place", "url", 1, 2, true, "")
}

func TestNextLink(t *testing.T) {
	for header, want := range map[string]string{
		``: "", `<a>; rel="prev"`: "", `<a>; rel=next`: "a", `<a>; rel="next"`: "a", `<a>; rel='next'`: "a", `<a>; Rel = "NEXT"`: "a",
		`<a>; rel="prev", <b>; rel="next"`: "b", `<a?x=1,2>; rel="next"`: "a?x=1,2", `<a>; title="one, two; rel=no"; rel="next"`: "a",
		`<a>; rel="last next"`: "a", `<a>; rel="nextish"`: "", `<a>; type="x"; rel="first", <b>; type="y", <c>; rel=next`: "c", `<a>`: "",
		`<a>; title="say \"hi\""; rel="next"`: "a",
	} {
		if got := nextLink([]string{header}); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if got := nextLink([]string{`<a>; rel="first"`, `<b>; rel="next"`}); got != "b" {
		t.Errorf("two headers: %q", got)
	}
}

const followed = `
rate = { calls = 1000, per = "1s" }
errors = [{ status = 404, on = ["lookup"], finding = "none" }]
[[operation]]
name = "read"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "data", match = "ref", id = "id" }
read = { method = "GET", path = "/items/{id}" }
[[operation]]
name = "absence"
lookup = { method = "GET", path = "/search", query = { k = "{key}", archived = "false" }, items = "data", match = "ref", id = "id", visible_within = "1h" }
absence = { query = { archived = "true" }, visible_within = "5s" }
[[operation]]
name = "twin"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "data", match = "ref", id = "id" }
twin = { method = "GET", path = "/twin", query = { mail = "{payload.who.mail}" }, items = "data" }
[[operation]]
name = "proof"
lookup = { method = "GET", path = "/items/{record_id}", match = "id", id = "id" }
proof = { amount = "amount" }
changed = "updated"
`

func TestWhatFollowsALookup(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, followed)

	sys.on("GET /search", 200, `{"data":[{"ref":"k1","id":"1"},{"ref":"k1","id":"2"},{"ref":"k1","id":"3"}]}`)
	sys.on("GET /items/1", 200, `{"ref":"k1","id":"1"}`)
	sys.on("GET /items/2", 404, ``)
	sys.on("GET /items/3", 200, `{"ref":"other","id":"3"}`)
	a, e := ask(t, c, "read", "k1")
	if e != nil || len(a.Records) != 2 || a.Records[0].Standing != connectors.StandingApplied || a.Records[1].Standing != connectors.StandingReversed ||
		a.Records[1].ID != "2" || a.Foreign != 1 || a.Form != "single+read" || a.Requests != 4 {
		t.Errorf("the read decides every hit: %+v, %v", a, e)
	}
	sys.on("GET /items/2", 500, ``)
	if _, e := ask(t, c, "read", "k1"); e == nil || e.Kind != connectors.KindServerError {
		t.Errorf("a hit that cannot be read is could-not-ask: %v", e)
	}
	sys.on("GET /search", 200, `{"data":[]}`)
	got, err := c.Lookup(context.Background(), connectors.Query{Operation: "read", Keys: []string{"k1"}, RemoteID: "1"})
	if err != nil || len(got.Records) != 1 || got.Records[0].ID != "1" {
		t.Errorf("a known remote id is read: %+v, %v", got, err)
	}
	// One that does not show our key is of another origin, and compared; where
	// the lookup itself failed it decides nothing.
	sys.on("GET /items/1", 200, `{"id":"1"}`)
	got, err = c.Lookup(context.Background(), connectors.Query{Operation: "read", Keys: []string{"k1"}, RemoteID: "1"})
	if err != nil || len(got.Records) != 1 || got.Records[0].ID != "1" || !got.Records[0].Origin || got.Records[0].Key != "" || got.Foreign != 0 {
		t.Errorf("a known remote id without our key: %+v, %v", got, err)
	}
	sys.on("GET /search", 500, ``)
	if got, err = c.Lookup(context.Background(), connectors.Query{Operation: "read", Keys: []string{"k1"}, RemoteID: "1"}); err == nil || len(got.Records) != 0 {
		t.Errorf("a record of another origin beside a failed lookup: %+v, %v", got, err)
	}
	sys.sent()

	op, _ := c.Info().Operation("absence")
	if op.VisibleWithin != 5*time.Second {
		t.Errorf("visible within %v, want that of absence: its negatives count", op.VisibleWithin)
	}
	sys.do("GET /search", func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("archived") == "true" {
			_, _ = io.WriteString(w, `{"data":[{"ref":"k1","id":"1"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[]}`)
	})
	a, e = ask(t, c, "absence", "k1")
	if e != nil || len(a.Records) != 1 || a.Form != "single+absence" {
		t.Errorf("%+v, %v", a, e)
	}
	if d := cmp.Diff([]string{"GET /search?archived=false&k=k1", "GET /search?archived=true&k=k1"}, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}

	sys.on("GET /search", 200, `{"data":[]}`)
	sys.on("GET /twin", 200, `{"data":[{"ref":"","id":"8"},{"ref":"k1","id":"9"}]}`)
	a, e = ask(t, c, "twin", "k1")
	if e != nil || len(a.Records) != 2 || !a.Records[0].Origin || a.Records[0].Key != "" || a.Records[1].Origin {
		t.Errorf("%+v, %v", a, e)
	}

	sys.on("GET /items/r-1", 200, `{"id":"r-1","amount":"19.9","updated":"2026-02-01T00:00:00Z"}`)
	a, e = ask(t, c, "proof", "k1")
	if e != nil || len(a.Records) != 1 || a.Records[0].Key != "k1" || !a.Records[0].Proof[0].Equal || a.Records[0].ChangedAt.Month() != 2 {
		t.Errorf("%+v, %v", a, e)
	}
}

const batched = `
rate = { calls = 1000, per = "1s" }
errors = [{ code = "category", is = "OBJECT_NOT_FOUND", on = ["lookup"], finding = "none" },
  { code = "category", is = "VALIDATION_ERROR", class = "validation", effect = "not_done" }]
[[operation]]
name = "keys"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "results", match = "ref", id = "id", batch = {
  method = "POST", path = "/batch", json = { inputs = "{each}" }, max = 100, each = { id = "{key}" }, items = "results", fault = { items = "errors", key = "context.ids.*" } } }
[[operation]]
name = "faulty"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "results", match = "ref", id = "id", batch = {
  method = "POST", path = "/batch", json = { inputs = "{each}" }, max = 100, each = { id = "{key}" }, items = "results", missing = "negative", fault = { items = "errors", key = "context.ids.*" } } }
[[operation]]
name = "complete"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "results", match = "ref", id = "id", batch = {
  max = 100, each = "{key}", join = ",", missing = "negative", query = { k = "in ({each})" } } }
[[operation]]
name = "tags"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "rows.row", answered = "rows", match = "ref", id = "id", batch = {
  method = "POST", path = "/batch", json = { q = "{each}" }, max = 30, each = { tag = "{tag}", query = "ref = {key:qbo}" }, replies = "replies", tag = "tag", items = "rows.row", answered = "rows" } }
[[operation]]
name = "names"
lookup = { method = "POST", path = "/graphql", items = "data.item", match = "mark.value", id = "id", graphql = 'query($k: String!) { item(k: $k) { id } }', variables = { k = "{key}" }, batch = {
  method = "POST", path = "/graphql", max = 20, join = " ", each = '{tag:name}: item(k: {key:graphql}) { id }', graphql = 'query { {each} }', replies = "data" } }
[[operation]]
name = "scan"
lookup = { method = "GET", path = "/one/{key}", match = "ref", id = "id", batch = {
  method = "GET", path = "/scan", query = { since = "{from:unix}", till = "{until:unix}", page = "{page}" }, items = "data", pages = { next = "next" }, max = 1000, span = "2h", margin = "5m", missing = "negative" } }
`

func askMany(c *Connector, op string, keys ...string) []connectors.Result {
	var qs []connectors.Query
	at := time.Unix(1_800_000_000, 0)
	for i, k := range keys {
		qs = append(qs, connectors.Query{Operation: op, Keys: strings.Split(k, "+"), From: at.Add(time.Duration(i) * time.Minute), Until: at.Add(time.Duration(i+1) * time.Minute)})
	}
	return c.LookupBatch(context.Background(), qs)
}

// brief writes results so that a test can name them: ids of hits, "none", or
// the kind of the error.
func brief(rs []connectors.Result) []string {
	var out []string
	for _, r := range rs {
		var e *connectors.Error
		switch {
		case errors.As(r.Err, &e):
			out = append(out, string(e.Kind))
		case len(r.Answer.Records) > 0:
			var ids []string
			for _, rec := range r.Answer.Records {
				ids = append(ids, rec.ID)
			}
			out = append(out, strings.Join(ids, "+"))
		case r.Answer.Foreign > 0:
			out = append(out, "strangers")
		case r.Answer.Complete:
			out = append(out, "none")
		default:
			out = append(out, "incomplete")
		}
	}
	return out
}

func TestBatchAnswersPerItem(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, batched)
	want := func(name string, rs []connectors.Result, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, brief(rs)); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
	// S24 and E09: a found, b a fault, c an explicit none, d mentioned nowhere.
	sys.on("POST /batch", 207, `{"results":[{"ref":"a","id":"11"}],"errors":[
		{"category":"VALIDATION_ERROR","context":{"ids":["b"]}},{"category":"OBJECT_NOT_FOUND","context":{"ids":["c","c2"]}}]}`)
	rs := askMany(c, "keys", "a", "b", "c", "d")
	want("207 with faults", rs, "11", "validation", "none", "not_mentioned")
	if rs[0].Answer.Requests != 1 || rs[1].Answer.Requests != 0 || rs[0].Answer.Form != "batch" || rs[0].Answer.AskedAt.IsZero() || rs[2].Answer.AskedAt.IsZero() {
		t.Errorf("%+v", rs)
	}
	if d := cmp.Diff([]string{`POST /batch {"inputs":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"}]}`}, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}
	sys.on("POST /batch", 207, `{}`)
	want("207 with neither results nor errors", askMany(c, "keys", "a", "b"), "malformed", "malformed")
	sys.on("GET /search", 207, `{"results":[{"ref":"a","id":"1"}],"errors":[{"message":"a shard is down"}]}`)
	want("an error beside a list that is said to be complete", askMany(c, "complete", "a", "b"), "1", "not_mentioned")
	sys.on("GET /search", 206, `{"results":[{"ref":"a","id":"1"}]}`)
	want("a part of a list that is said to be complete", askMany(c, "complete", "a", "b"), "1", "not_mentioned")
	sys.on("GET /search", 200, `{"results":[{"ref":"a","id":"1"}],"results":[]}`)
	want("a list that stands twice", askMany(c, "complete", "a", "b"), "malformed", "malformed")
	sys.on("POST /batch", 207, `{"results":[{"ref":"a","id":"1"}],"errors":[{"category":"VALIDATION_ERROR","context":{}}]}`)
	want("a fault that names nobody", askMany(c, "keys", "a", "b"), "1", "not_mentioned")
	want("a fault that names nobody, of a list that is said to be complete", askMany(c, "faulty", "a", "b"), "1", "not_mentioned")
	want("of one item alone it is its own", askMany(c, "keys", "b"), "validation")
	sys.on("POST /graphql", 200, `{"data":{"k1":{"id":"1","mark":{"value":"a"}},"k2":null},"errors":[{"path":["k2"],"message":"timed out"}]}`)
	want("null beside an error, as in GraphQL", askMany(c, "names", "a", "b"), "1", "not_mentioned")
	sys.sent()
	sys.on("POST /batch", 503, ``)
	want("503", askMany(c, "keys", "a", "b"), "unavailable", "unavailable")
	sys.on("POST /batch", 200, `{"results":[{"ref":"x","id":"1"}]}`)
	want("an unusable key does not harm its neighbour", askMany(c, "keys", "a", "b\x00"), "not_mentioned", "bad_key")
	sys.on("POST /batch", 200, `{"results":[{"ref":"new","id":"1"},{"ref":"old","id":"2"},{"ref":"new","id":"1"}]}`)
	want("all keys of an entry ride in one call", askMany(c, "keys", "old+new"), "2+1")

	sys.sent()
	sys.on("GET /search", 200, `{"results":[{"ref":"a","id":"1"}]}`)
	want("a complete answer", askMany(c, "complete", "a", "b"), "1", "none")
	if d := cmp.Diff([]string{"GET /search?k=in%20%28a%2Cb%29"}, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}
	sys.on("GET /search", 200, `{"results":[{"ref":"x","id":"1"}]}`)
	want("a system that does not filter", askMany(c, "complete", "a", "b"), "strangers", "strangers")
	want("a key that would break out of the list", askMany(c, "complete", "a", "b)OR(1"), "strangers", "bad_key")

	sys.on("POST /batch", 200, `{"replies":[{"tag":"k2","rows":{}},{"tag":"k1","rows":{"row":[{"ref":"a'b","id":"1"}]}},{"tag":"k3","category":"VALIDATION_ERROR"}]}`)
	want("replies by tag", askMany(c, "tags", "a'b", "b", "c", "d"), "1", "none", "validation", "not_mentioned")
	sys.sent()
	sys.on("POST /graphql", 200, `{"data":{"k1":{"id":"1","mark":{"value":"a"}},"k2":null,"k3":{"id":"9","mark":{"value":"zz"}}}}`)
	want("replies by name", askMany(c, "names", "a", "b", "c"), "1", "none", "not_usable")
	if d := cmp.Diff([]string{`POST /graphql {"query":"query { k1: item(k: \"a\") { id } k2: item(k: \"b\") { id } k3: item(k: \"c\") { id } }"}`}, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}

	sys.do("GET /scan", func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("page") == "" {
			_, _ = io.WriteString(w, `{"data":[{"ref":"stranger","id":"5"}],"next":"2"}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"ref":"b","id":"6"}]}`)
	})
	sys.sent()
	rs = askMany(c, "scan", "a", "b")
	if !rs[0].Answer.Declared || rs[0].Answer.Foreign != 1 || !rs[0].Answer.Complete || len(rs[0].Answer.Records) != 0 || rs[1].Answer.Records[0].ID != "6" {
		t.Errorf("a scan: %+v", rs)
	}
	if d := cmp.Diff([]string{"GET /scan?since=1799999700&till=1800000420", "GET /scan?page=2&since=1799999700&till=1800000420"}, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}
}

func TestPoisonedBatchIsSplit(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, batched)
	bad := map[string]bool{"key-37": true}
	calls := 0
	sys.do("POST /batch", func(w http.ResponseWriter, _ *http.Request, body string) {
		calls++
		var in struct{ Inputs []struct{ ID string } }
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			t.Error(err)
		}
		var out []map[string]string
		for _, i := range in.Inputs {
			if bad[i.ID] {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, `{"message":"one input is malformed"}`)
				return
			}
			out = append(out, map[string]string{"ref": i.ID, "id": "id-" + i.ID})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"results": out})
	})
	var keys []string
	for i := range 100 {
		keys = append(keys, "key-"+strconv.Itoa(i))
	}
	rs := askMany(c, "keys", keys...)
	for i, got := range brief(rs) {
		want := "id-" + keys[i]
		if bad[keys[i]] {
			want = "bad_key"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", keys[i], got, want)
		}
	}
	if limit := 2*7 + 4 + 1; calls > limit {
		t.Errorf("%d calls, want at most %d", calls, limit)
	}

	// The request itself is wrong: two alone fail alike, and that is all.
	calls = 0
	for _, k := range keys {
		bad[k] = true
	}
	rs = askMany(c, "keys", keys...)
	if calls != 3 || slices.ContainsFunc(rs, func(r connectors.Result) bool {
		var e *connectors.Error
		return !errors.As(r.Err, &e) || e.Kind != connectors.KindValidation
	}) {
		t.Errorf("%d calls, want 3; %q", calls, brief(rs))
	}
}

func TestBatchIsCutToWhatARequestHolds(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, strings.Replace(batched, `max = 100, each = "{key}", join = ","`, `max = 100, max_text = 20, each = "{key}", join = ","`, 1))
	sys.on("GET /search", 200, `{"results":[]}`)
	rs := askMany(c, "complete", "aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd", "eeeeeeeeeeeeeeeeeeeeeeeeeeeee")
	if d := cmp.Diff([]string{"none", "none", "none", "none", "bad_key"}, brief(rs)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, line := range sys.sent() {
		if len(line) > len("GET /search?k=in%20%28")+2*20 {
			t.Errorf("too long: %s", line)
		}
	}
}

func TestStoppedLookupIsNoAnswer(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, plain)
	ctx, cancel := context.WithCancel(context.Background())
	sys.do("GET /list", func(w http.ResponseWriter, r *http.Request, _ string) {
		cancel()
		<-r.Context().Done()
	})
	_, err := c.Lookup(ctx, connectors.Query{Operation: "list", Keys: []string{"k1"}})
	var e *connectors.Error
	if !errors.As(err, &e) || e.Kind != connectors.KindStopping {
		t.Errorf("%v", err)
	}
	_, err = c.Lookup(context.Background(), connectors.Query{Operation: "lst", Keys: []string{"k1"}})
	if !errors.As(err, &e) || e.Kind != connectors.KindUnsupported || !strings.Contains(e.Message, `did you mean "list"?`) {
		t.Errorf("%v", err)
	}
}

const together = `
rate = { calls = 1000, per = "1s" }
errors = [{ status = 404, on = ["lookup"], finding = "none" }]
[[operation]]
name = "reads"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "data", match = "ref", id = "id", batch = { max = 50, each = "{key}", query = { k = "{each}" }, missing = "negative" } }
read = { method = "GET", path = "/items/{id}", batch = { method = "POST", path = "/bulk", max = 100, each = "{id}", items = "data", json = { ids = "{each}" } } }
[[operation]]
name = "absences"
lookup = { method = "GET", path = "/search", query = { k = "{key}" }, items = "data", match = "ref", id = "id", visible_within = "65m", batch = { max = 50, each = "{key}", query = { k = "{each}" }, missing = "negative" } }
absence = { method = "GET", path = "/list", query = { since = "{from:unix}", till = "{until:unix}" }, visible_within = "0s", items = "data", batch = { max = 1000, span = "2h", missing = "negative" } }
`

func TestReadsAndAbsenceAreBatchedToo(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, together)
	sys.on("GET /search", 200, `{"data":[{"ref":"a","id":"1"},{"ref":"b","id":"2"},{"ref":"b","id":"3"}]}`)
	sys.on("POST /bulk", 200, `{"data":[{"ref":"a","id":"1"},{"ref":"b","id":"3"}]}`)
	sys.on("GET /items/2", 404, ``)
	rs := askMany(c, "reads", "a", "b", "none")
	if d := cmp.Diff([]string{"1", "2+3", "none"}, brief(rs)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if rs[1].Answer.Records[0].Standing != connectors.StandingReversed || rs[1].Answer.Records[1].Standing != connectors.StandingApplied {
		t.Errorf("%+v", rs[1])
	}
	want := []string{"GET /search?k=a&k=b&k=none", `POST /bulk {"ids":["1","2","3"]}`, "GET /items/2"}
	if d := cmp.Diff(want, sys.sent()); d != "" {
		t.Errorf("requests (-want +got)\n%s", d)
	}

	sys.on("GET /search", 200, `{"data":[]}`)
	sys.on("GET /list", 200, `{"data":[{"ref":"b","id":"2"},{"ref":"stranger","id":"9"}]}`)
	rs = askMany(c, "absences", "a", "b", "c")
	if rs[0].Answer.Foreign != 1 || !rs[0].Answer.Declared || !rs[0].Answer.Complete || rs[1].Answer.Records[0].ID != "2" || rs[2].Answer.Form != "batch+absence" {
		t.Errorf("%+v", rs)
	}
	if n := len(sys.sent()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if op, _ := c.Info().Operation("absences"); op.VisibleWithin != 0 {
		t.Errorf("visible within %v", op.VisibleWithin)
	}
}

func TestAPathReadsTheMemberThatItStartsWith(t *testing.T) {
	d := &definition{p: &problems{}}
	for path, want := range map[string]bool{
		"error": true, "error.rows": true, "*.rows": true, "errorless": false, "data.error": false, "header:error": false,
		"$.error": true, "$.error.rows": true, `$["error"]`: true, "$['data','error']": true, "$.*": true, "$..error": true,
		"$[?@.rows]": true, "$.errorless": false, "$.data.error": false, `$.data["error"]`: false, "$": false, "$[0]": false, "$[1:]": false,
	} {
		s, err := d.parseSelector(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.startsWith("error"); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
