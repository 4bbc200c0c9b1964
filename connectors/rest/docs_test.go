package rest

import (
	"os"
	"regexp"
	"strings"
	"testing"
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
auth = { bearer = "abcd", ` + bad + ` }
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
	if tables < 18 {
		t.Errorf("only %d tables were tried", tables)
	}
}

func TestTheExampleInTheDocsOpens(t *testing.T) {
	b, err := os.ReadFile("../../docs/connectors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```toml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	m := fromTOML(t, example)["connectors"].(map[string]any)["billing"].(map[string]any)
	if _, err := Open(configOf(m)); err != nil {
		t.Error(err)
	}
}
