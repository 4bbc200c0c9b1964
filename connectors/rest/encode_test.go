package rest

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/recovery-ledger/reconcile/connectors"
)

// readLiteral reads one quoted literal as the language does, and what is left.
var readLiteral = map[string]func(s string) (value, rest string, ok bool){
	"soql":       quotedLiteral('\'', '\\'),
	"jql":        quotedLiteral('"', '\\'),
	"pocketbase": quotedLiteral('\'', '\\'),
	"qbo":        quotedLiteral('\'', '\\'),
	"stripe":     quotedLiteral('\'', '\\'),
	"xero":       quotedLiteral('"', '\\'),
	"odata":      quotedLiteral('\'', '\''),
}

func quotedLiteral(quote, escape byte) func(string) (string, string, bool) {
	return func(s string) (string, string, bool) {
		if s == "" || s[0] != quote {
			return "", "", false
		}
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == escape && i+1 < len(s) && (escape != quote || s[i+1] == quote):
				i++
				b.WriteByte(s[i])
			case s[i] == quote:
				return b.String(), s[i+1:], true
			default:
				b.WriteByte(s[i])
			}
		}
		return "", "", false
	}
}

var hostile = []string{"a", "it's", `say "hi"`, `back\slash`, `\`, `\\`, `'`, `''`, `\'`, `"`, `' OR '1'='1`, "a,b", "a b", "é", "日本",
	"a}b", "{key}", "%27", "${X}", "a&b=c", "../x", "..", ".", "", "a/b", "a?b#c", "`", "a\u2028b"}

func TestEncodersGiveOneLiteral(t *testing.T) {
	for name, read := range readLiteral {
		for _, s := range hostile {
			out, err := encoders[name](s)
			if err != nil {
				continue // refused: never sent
			}
			if value, rest, ok := read(out); !ok || value != s || rest != "" {
				t.Errorf("%s(%q) = %s: read back %q, rest %q", name, s, out, value, rest)
			}
		}
	}
	for _, s := range hostile {
		out, _ := encoders["graphql"](s)
		var back string
		if err := json.Unmarshal([]byte(out), &back); err != nil || back != s {
			t.Errorf("graphql(%q) = %s", s, out)
		}
		if out, err := encoders["csv"](s); err == nil && (strings.Contains(out, ",") || out == "") {
			t.Errorf("csv(%q) = %s", s, out)
		}
		for _, strict := range []string{"plain", "name"} {
			if out, err := encoders[strict](s); err == nil && (out != s || strings.ContainsAny(out, `'"\ ,/?#{}%&`)) {
				t.Errorf("%s(%q) = %s", strict, s, out)
			}
		}
	}
	for name, refused := range map[string]string{"qbo": `a\b`, "pocketbase": `a\b`, "stripe": `a'b`, "xero": `a"b`} {
		if _, err := encoders[name](refused); err == nil {
			t.Errorf("%s takes %q", name, refused)
		}
	}
}

func FuzzNoValueBreaksOut(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	m := map[string]any{"base_url": "https://sys.example/api", "operation": []any{map[string]any{
		"name": "a",
		"send": map[string]any{"method": "POST", "path": "/x/{key}/y", "query": map[string]any{"q": "{key}"},
			"json": map[string]any{"k": "{key}", "soql": "k = {key:soql} and"}},
	}}}
	c, err := Open(connectors.Config{Name: "sys", Table: m})
	if err != nil {
		f.Fatal(err)
	}
	r := c.def.operations["a"].send.req
	f.Fuzz(func(t *testing.T, key string) {
		req, err := r.build(c.def.base, &scope{key: key})
		if err != nil {
			return
		}
		if !utf8.ValidString(key) {
			t.Errorf("%q was taken", key)
		}
		u, err := url.Parse(req.URL.String())
		if err != nil || u.Host != "sys.example" || u.Path != "/api/x/"+key+"/y" || strings.Count(u.EscapedPath(), "/") != 4 {
			t.Errorf("path of %q: %s, %v", key, req.URL, err)
		}
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil || len(q) != 1 || q.Get("q") != key {
			t.Errorf("query of %q: %s", key, u.RawQuery)
		}
		var body map[string]string
		if err := json.Unmarshal(req.Body, &body); err != nil || len(body) != 2 || body["k"] != key {
			t.Errorf("body of %q: %s, %v", key, req.Body, err)
		}
		value, rest, ok := readLiteral["soql"](strings.TrimPrefix(body["soql"], "k = "))
		if !ok || value != key || rest != " and" {
			t.Errorf("query language of %q: %s", key, body["soql"])
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"data":[{"ref":"k1"}]}`, `[]`, `null`, `{"data":{"ref":["k1"]}}`, `<html>`, `{"data":`, "\xff"} {
		f.Add([]byte(s))
	}
	b := &block{items: &selector{steps: []string{"data"}}, match: []*selector{{steps: []string{"ref"}}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := decode(body)
		if err != nil {
			return
		}
		items, err := b.records(document{body: v})
		if err != nil && len(items) > 0 {
			t.Errorf("%s: records and an error", body)
		}
		for _, it := range items {
			if key, ok := b.shown(document{body: it}, []string{"k1"}); ok && key != "k1" {
				t.Errorf("%s: shows %q", body, key)
			}
		}
	})
}
