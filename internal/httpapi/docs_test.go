package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/ledger"
)

// TestEveryExampleOfTheDocument runs the commands of docs/http.md in their order
// and compares what they answer with what the document says.
func TestEveryExampleOfTheDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
	server := httptest.NewServer(w.api)
	defer server.Close()
	env := map[string]string{"URL": server.URL}
	for name, token := range map[string]struct {
		name  string
		scope ledger.Scope
	}{"INGEST": {"n8n", ledger.ScopeIngest}, "READ": {"dashboard", ledger.ScopeRead}, "OPERATE": {"review-bot", ledger.ScopeOperate}} {
		env[name] = ledger.NewToken()
		if _, err := w.store.CreateToken(t.Context(), token.name, []ledger.Scope{token.scope}, ledger.TokenDigest(env[name])); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"failures.jsonl": `{"action_key":"run_9a1:charge","workflow":"billing","connector":"bank","operation":"charge","attempts":[{"attempt_id":"a1","status":"error","error_class":"validation"}]}
{"action_key":"run_9a2:charge","workflow":"billing","connector":"bank"}
`}

	blocks := fenced(string(text))
	var used []string
	for i, b := range blocks {
		if b.kind != "sh" || !strings.HasPrefix(b.text, "curl ") {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].kind == "sh" {
			t.Errorf("no answer stands behind:\n%s", b.text)
			continue
		}
		r := curl(t, b.text, env, files)
		used = append(used, r.Method+" "+r.URL.Path)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err := firstError(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		want := blocks[i+1]
		switch want.kind {
		case "json":
			if why := differs("", decoded[any](t, want.text), decoded[any](t, string(got))); why != "" {
				t.Errorf("%s\n%s\nanswer: %s", b.text, why, got)
			}
		case "jsonl":
			wants, gots := strings.Split(strings.TrimSpace(want.text), "\n"), strings.Split(strings.TrimSpace(string(got)), "\n")
			if len(wants) != len(gots) {
				t.Fatalf("%s\n%d lines, want %d: %s", b.text, len(gots), len(wants), got)
			}
			for j := range wants {
				if why := differs("", decoded[any](t, wants[j]), decoded[any](t, gots[j])); why != "" {
					t.Errorf("%s\nline %d: %s\nanswer: %s", b.text, j+1, why, gots[j])
				}
			}
		case "text":
			for line := range strings.Lines(want.text) {
				if !strings.Contains(string(got), line) {
					t.Errorf("%s\nthe answer has no line %q:\n%s", b.text, line, got)
				}
			}
		}
	}
	for _, path := range []string{"POST /v1/entries", "POST /v1/entries/run_8f2:create-contact/attempts", "GET /v1/entries", "GET /v1/entries/run_8f2:create-contact",
		"GET /v1/reports/outcomes", "POST /v1/entries/run_9a1:charge/actions", "GET /healthz", "GET /readyz", "GET /metrics"} {
		if !slices.Contains(used, path) {
			t.Errorf("docs/http.md has no example of %s", path)
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

type block struct{ kind, text string }

// fenced are the blocks of code of a Markdown text.
func fenced(text string) []block {
	var out []block
	in := false
	for line := range strings.Lines(text) {
		kind, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && !in:
			out = append(out, block{kind: kind})
		case in && !fence:
			out[len(out)-1].text += line
		}
		in = in != fence
	}
	return out
}

// curl makes the request that a command line of curl stands for, with the few
// options that the document uses.
func curl(t *testing.T, command string, env, files map[string]string) *http.Request {
	t.Helper()
	words := shell(t, command, env)
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-s":
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d", "--data-binary":
			i++
			method, body = http.MethodPost, words[i]
			if name, ok := strings.CutPrefix(body, "@"); ok {
				body = files[name]
			}
		default:
			if strings.HasPrefix(words[i], "-") || url != "" {
				t.Fatalf("%s: the test does not know %q", command, words[i])
			}
			url = words[i]
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	return r
}

// shell cuts a command into words as a shell does.
func shell(t *testing.T, command string, env map[string]string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	begun := false
	quote := byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '$' && quote != '\'':
			end := i + 1
			for end < len(command) && command[end] >= 'A' && command[end] <= 'Z' {
				end++
			}
			value, ok := env[command[i+1:end]]
			if !ok {
				t.Fatalf("%s: %q is not set", command, command[i:end])
			}
			word.WriteString(value)
			begun, i = true, end-1
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\n'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// more stands, in an example, for any text, and as a member for further ones.
const more = "…"

// differs says where an answer is not as the example has it; "" for nowhere.
func differs(path string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", path, got)
		}
		for name, v := range w {
			if name == more {
				continue
			}
			member, has := g[name]
			if !has {
				return fmt.Sprintf("%s has no %s", path, name)
			}
			if why := differs(path+"."+name, v, member); why != "" {
				return why
			}
		}
		if _, short := w[more]; !short && len(g) != len(w) {
			return fmt.Sprintf("%s has more members than the example, which does not say so", path)
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want a list of %d", path, got, len(w))
		}
		for i := range w {
			if why := differs(fmt.Sprintf("%s.%d", path, i), w[i], g[i]); why != "" {
				return why
			}
		}
		return ""
	case string:
		if w == more {
			return ""
		}
	}
	if want != got {
		b, _ := json.Marshal(got)
		return fmt.Sprintf("%s is %s, want %v", path, b, want)
	}
	return ""
}
