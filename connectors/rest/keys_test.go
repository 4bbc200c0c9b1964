package rest

import (
	"regexp"
	"strings"
	"testing"
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
	c := mustOpen(t, "https://sys.example", keyed)
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
