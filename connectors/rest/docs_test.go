package rest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

// TestDocsNameEveryKey puts a key that does not exist into each table of the
// format: the keys known there must stand in docs/connectors.md.
func TestDocsNameEveryKey(t *testing.T) {
	b, err := os.ReadFile("../../docs/connectors.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	const bad = "qqqqqqqqqqqqqqqqqqqq = 1"
	text := `
base_url = "https://sys.example"
` + bad + `
about = { ` + bad + ` }
auth = { oauth2 = { ` + bad + ` }, ` + bad + ` }
rate = { calls = 1, per = "1s", ` + bad + ` }
key = { ` + bad + ` }
idempotency = { ` + bad + `, replayed = { ` + bad + ` } }
probe = { method = "GET", path = "/", ` + bad + ` }
rate_headers = [{ ` + bad + ` }]
errors = [{ status = 400, class = "quota", wait = { path = "a", ` + bad + ` }, ` + bad + ` }]
[[operation]]
name = "a"
` + bad + `
lookup = { method = "GET", path = "/x/{key}", match = "k", ` + bad + `, pages = { ` + bad + ` }, batch = { max = 5, each = "{key}", ` + bad + `, fault = { items = "e", ` + bad + ` } } }
send = { method = "POST", path = "/x", ` + bad + ` }
check = { method = "GET", path = "/x", owner = "o", ` + bad + ` }
compare = { a = { path = "a", ` + bad + ` } }
`
	known := regexp.MustCompile(`known here: ([^\n]*)`)
	tables := 0
	for path, message := range fieldErrors(t, text) {
		m := known.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		tables++
		for _, key := range strings.Split(m[1], ", ") {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, "_allow"), "_deny"), "_missing")
			if !regexp.MustCompile(`\b` + base + `\b`).MatchString(docs) {
				t.Errorf("%s: the key %q stands nowhere in docs/connectors.md", path, key)
			}
		}
	}
	if tables < 19 {
		t.Errorf("only %d tables were tried", tables)
	}
}

// docsExamples are the definitions in docs/connectors.md, by the name of their
// connector.
func docsExamples(t *testing.T) map[string]map[string]any {
	t.Helper()
	b, err := os.ReadFile("../../docs/connectors.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]map[string]any{}
	for _, m := range regexp.MustCompile("(?s)```toml\n(.*?)\n```").FindAllStringSubmatch(string(b), -1) {
		for name, table := range fromTOML(t, m[1])["connectors"].(map[string]any) {
			examples[name] = table.(map[string]any)
		}
	}
	return examples
}

func TestTheExamplesInTheDocsOpen(t *testing.T) {
	examples := docsExamples(t)
	for name, table := range examples {
		cfg := connectors.Config{Name: name, Table: table, Env: env("BILLING_TOKEN", "secret-token-value", "DESK_TOKEN", "secret-token-value")}
		if _, err := Open(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"billing", "desk"} {
		if examples[name] == nil {
			t.Errorf("there is no example %q", name)
		}
	}
}

// TestTheBatchesInTheDocsAreOneCall: many keys make the call that the page says,
// and each of them gets the answer that it says.
func TestTheBatchesInTheDocsAreOneCall(t *testing.T) {
	sys := newSystem(t)
	table := docsExamples(t)["desk"]
	table["base_url"] = sys.URL
	c, err := Open(connectors.Config{Name: "desk", Table: table, Env: env("DESK_TOKEN", "secret-token-value")})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		operation, call, answer string
		status                  int
		sent                    string
		want                    []string
	}{
		"a list in the address": {"ticket.create", "GET /tickets", `{"tickets":[{"external_id":"a","id":7},{"external_id":"c","id":9}]}`, 200,
			"GET /tickets?external_id=a%2Cb%2Cc", []string{"7", "not_mentioned", "9"}},
		"a list in the body": {"contact.create", "POST /contacts/batch/read", `{"results":[{"ref":"a","id":"11"}],"errors":[{"ref":"c","message":"try later"}]}`, 207,
			`POST /contacts/batch/read {"inputs":[{"ref":"a"},{"ref":"b"},{"ref":"c"}]}`, []string{"11", "none", "unknown"}},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			sys.on(tt.call, tt.status, tt.answer)
			rs := askMany(c, tt.operation, "a", "b", "c")
			got := brief(rs)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("answers (-want +got)\n%s", d)
			}
			if want := "unknown: HTTP 207: try later"; tt.status == 207 && rs[2].Err.Error() != want {
				t.Errorf("a fault that no rule knows: got %q, want %q", rs[2].Err, want)
			}
			if d := cmp.Diff([]string{tt.sent}, sys.sent()); d != "" {
				t.Errorf("requests (-want +got)\n%s", d)
			}
		})
	}
}
