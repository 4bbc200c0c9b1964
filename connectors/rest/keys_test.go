package rest

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

const keyed = `
[[operation]]
name = "free"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
[[operation]]
name = "path"
lookup = { method = "GET", path = "/x/{key}", match = "k" }
[[operation]]
name = "header"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x", headers = { Idempotency-Key = "{idempotency_key}" } }
idempotency = { max = 30 }
[[operation]]
name = "plain"
lookup = { method = "GET", path = "/x", query = { q = "ref = {key}" }, match = "k" }
[[operation]]
name = "short"
key = { max = 21, form = "digest" }
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
[[operation]]
name = "digits"
key = { max = 40, form = "digest", digest = "digits", prefix = "9" }
[[operation]]
name = "uuid"
key = { form = "digest", digest = "uuid" }
[[operation]]
name = "hex"
key = { form = "digest", digest = "hex", chars = "[0-9a-f]" }
[[operation]]
name = "batch"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 5, each = "{key:csv}", join = ",", query = { k = "{each}" } } }
[[operation]]
name = "carries"
carries = ["meta.key"]
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x/{payload.id}", takes = ["meta", "id"] }
`

// unseen are sends that have no place for our key: the payload has to hold it.
const unseen = `
[[operation]]
name = "stored"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x" }
[[operation]]
name = "parts"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x", json = { note = "for {payload.note}", who = "{payload.who?}" } }
[[operation]]
name = "form"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x", form = "{payload}" }
[[operation]]
name = "twice"
repeatable = true
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "PUT", path = "/x" }
[[operation]]
name = "change"
proof = { stage = "stage" }
lookup = { method = "GET", path = "/x/{record_id}", match = "id" }
send = { method = "PATCH", path = "/x/{record_id}" }
[[operation]]
name = "remove"
removes = true
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "DELETE", path = "/x/{record_id}" }
[[operation]]
name = "action"
lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k" }
send = { method = "POST", path = "/x", json = { ref = "{action_key}" } }
`

func TestDeriveKey(t *testing.T) {
	c := mustOpen(t, "https://sys.example", keyed)
	cases := map[string]struct {
		op, action string
		n          int
		derived    bool
		form       string // regexp of the key
	}{
		"an action key that fits is the key":         {"free", "run_8f2:create contact/é", 0, false, `^run_8f2:create contact/é$`},
		"dots cannot be a path":                      {"path", "..", 0, true, `^[0-9a-v]{26}$`},
		"a slash can":                                {"path", "a/b", 0, false, `^a/b$`},
		"beyond ASCII cannot be a header":            {"header", "Zoë", 0, true, `^[0-9a-v]{26}$`},
		"too long for the idempotency key":           {"header", strings.Repeat("x", 31), 0, true, `^[0-9a-v]{26}$`},
		"blanks cannot stand in a filter unencoded":  {"plain", "a b", 0, true, `^[0-9a-v]{26}$`},
		"always a digest":                            {"short", "a", 0, true, `^[0-9a-v]{21}$`},
		"digits, with prefix":                        {"digits", "a", 0, true, `^9[0-9]{26}$`},
		"uuid":                                       {"uuid", "a", 0, true, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
		"hex":                                        {"hex", "a", 0, true, `^[0-9a-f]{26}$`},
		"a comma cannot stand in the batch":          {"batch", "a,b", 0, true, `^[0-9a-v]{26}$`},
		"a replacement is derived from the same key": {"free", "a", 1, true, `^[0-9a-v]{26}$`},
	}
	seen := map[string]string{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			key, derived, err := c.DeriveKey(tc.op, tc.action, tc.n)
			if err != nil || derived != tc.derived || !regexp.MustCompile(tc.form).MatchString(key) {
				t.Errorf("DeriveKey(%q, %q, %d) = %q, %v, %v", tc.op, tc.action, tc.n, key, derived, err)
			}
			again, _, _ := c.DeriveKey(tc.op, tc.action, tc.n)
			if again != key {
				t.Errorf("not the same again: %q, %q", key, again)
			}
			if err := c.CheckKey(tc.op, key); err != nil {
				t.Errorf("the key does not pass CheckKey: %v", err)
			}
			if tc.derived {
				if err := c.CheckKey(tc.op, tc.action); tc.n == 0 && tc.op != "short" && tc.op != "uuid" && tc.op != "digits" && tc.op != "hex" && err == nil {
					t.Error("the action key passes CheckKey")
				}
			}
			seen[name] = key
		})
	}
	// Documented: SHA-256 of the action key, lower-case base32hex, 26
	// characters. These never change: keys already sent depend on them.
	for _, golden := range []struct {
		n    int
		want string
	}{{0, "jr2m5jm0a61sci9v2llo93rku3"}, {1, "0secttv94ddu3m2ivvlc9844m1"}} {
		key := c.def.operations["path"].key.derive("run_8f2:create-contact", golden.n, 0)
		if key != golden.want {
			t.Errorf("derive(n=%d) = %q, want %q", golden.n, key, golden.want)
		}
	}
	if seen["always a digest"] == seen["a replacement is derived from the same key"][:21] {
		t.Error("a replacement is the first key again")
	}
	if _, _, err := c.DeriveKey("nope", "a", 0); err == nil {
		t.Error("no such operation, no error")
	}
}

func TestCheckPayload(t *testing.T) {
	c := mustOpen(t, "https://sys.example", keyed+unseen)
	cases := map[string]struct {
		op, payload        string
		findable, sendable bool
		say                string
	}{
		"the key stands there":             {"carries", `{"meta":{"key":"k1"},"id":5}`, true, true, ""},
		"another key of ours stands there": {"carries", `{"meta":{"key":"k0"},"id":5}`, true, true, ""},
		"no key":                           {"carries", `{"meta":{},"id":5}`, false, false, "meta.key"},
		"another's key":                    {"carries", `{"meta":{"key":"K1"},"id":5}`, false, false, "meta.key"},
		"a member that the send drops":     {"carries", `{"meta":{"key":"k1"},"id":5,"x":1}`, true, false, `"x"`},
		"a value that the send needs":      {"carries", `{"meta":{"key":"k1"}}`, true, false, "payload.id"},
		"not JSON":                         {"carries", `x`, false, false, "not JSON"},
		"no send":                          {"free", `{}`, true, false, ""},
		"no lookup":                        {"uuid", `{}`, false, false, ""},

		"no place for the key, and the payload holds it":               {"stored", `{"ref":"k1"}`, true, true, ""},
		"deep in the payload, in a longer text":                        {"stored", `{"a":[{"b":"order k1, urgent"}]}`, true, true, ""},
		"escaped in the payload":                                       {"stored", `{"ref":"\u006b1"}`, true, true, ""},
		"no place for the key, and it is nowhere":                      {"stored", `{"amount":10}`, false, false, "nowhere in the request"},
		"a short key within another word is chance":                    {"stored", `{"ref":"ak12"}`, false, false, "nowhere in the request"},
		"no payload: what the workflow sent is not known":              {"stored", ``, true, false, "no payload"},
		"the part that is sent holds it":                               {"parts", `{"note":"k1"}`, true, true, ""},
		"only a part that is not sent holds it":                        {"parts", `{"note":"x","ref":"k1"}`, true, false, "nowhere in the request"},
		"in a form":                                                    {"form", `{"meta":{"ref":"k1"}}`, true, true, ""},
		"not in the form":                                              {"form", `{"meta":{"ref":"x"}}`, false, false, "nowhere in the request"},
		"twice is the same as once: sent, but its absence is no proof": {"twice", `{"amount":10}`, false, true, ""},
		"a change finds its record by its id":                          {"change", `{"stage":"won"}`, true, true, ""},
		"a removal finds what is there":                                {"remove", ``, true, true, ""},
		"the action key is the key":                                    {"action", `{}`, true, true, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, s, why := c.CheckPayload(tc.op, []string{"k0", "k1"}, []byte(tc.payload))
			if f != tc.findable || s != tc.sendable || !strings.Contains(why, tc.say) || tc.say == "" && why != "" {
				t.Errorf("CheckPayload(%q, %s) = %v, %v, %q", tc.op, tc.payload, f, s, why)
			}
		})
	}
}

func TestAShortKeyCountsAsAWordOfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		text, key string
		want      bool
	}{
		"all of the text":                    {"77", "77", true},
		"between signs":                      {"ref=77&x", "77", true},
		"at the end":                         {"order 77", "77", true},
		"at the start of a word":             {"77th", "77", false},
		"inside a word":                      {"x77y", "77", false},
		"overlapping itself at a word's end": {"x777", "77", false},
		"again and again in a number":        {"1000", "0", false},
		"first in a word, then on its own":   {"x77 77", "77", true},
		"on its own, then in a word":         {"77 x77", "77", true},
		"behind a letter of two bytes":       {"é77", "77", false},
		"of letters of two bytes, repeated":  {"xéé", "é", false},
		"of letters of two bytes, alone":     {"x é", "é", true},
		"not there":                          {"78", "77", false},
		"no key":                             {"77", "", false},
		"a long one inside a word":           {"x12345678y", "12345678", true},
	} {
		if got := holdsKey(tc.text, []string{"other", tc.key}); got != tc.want {
			t.Errorf("%s: holdsKey(%q, %q) = %v, want %v", name, tc.text, tc.key, got, tc.want)
		}
	}
}

func TestNothingGoesOutThatCouldNotBeFound(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, unseen)
	for _, at := range []string{"POST /x", "PUT /x", "DELETE /x/r"} {
		sys.on(at, 200, `{}`)
	}
	cases := map[string]struct {
		s    connectors.Send
		sent bool
	}{
		"the payload holds the key":                     {connectors.Send{Operation: "stored", Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{"ref":"k1"}`)}, true},
		"it does not":                                   {connectors.Send{Operation: "stored", Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{"ref":"k2"}`)}, false},
		"the action key is the key":                     {connectors.Send{Operation: "action", Key: "k1", ActionKey: "k1", Payload: []byte(`{}`)}, true},
		"the action key is another than the key":        {connectors.Send{Operation: "action", Key: "k1", ActionKey: "a1", Payload: []byte(`{}`)}, false},
		"twice is the same as once":                     {connectors.Send{Operation: "twice", Key: "k1", Payload: []byte(`{}`)}, true},
		"a removal, by the id of what is to be removed": {connectors.Send{Operation: "remove", Key: "k1", RecordID: "r"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys.sent()
			tc.s.SendBy = time.Now().Add(time.Minute)
			r := c.Send(context.Background(), tc.s)
			if n := len(sys.sent()); (n == 1) != tc.sent || r.Wrote != tc.sent {
				t.Errorf("%d requests, want sent %v: %+v", n, tc.sent, r)
			}
			if !tc.sent && (r.Kind != connectors.KindBadKey || r.Effect != connectors.EffectNotDone) {
				t.Errorf("%+v", r)
			}
		})
	}
}
