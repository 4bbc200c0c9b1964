package twice

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMember(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"m%d":{"x":%d},`, i, i)
	}
	deep := strings.Repeat(`{"a":[`, 4000) + `{"b":1,"b":2}` + strings.Repeat(`]}`, 4000)
	for name, c := range map[string]struct{ json, skip, want string }{
		"none":                               {json: `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}`},
		"a text that looks like one":         {json: `{"a":"\"a\":1,\"a\":2","b":"a"}`},
		"values alike":                       {json: `{"a":"x","b":"x","c":["x","x"]}`},
		"not of an object":                   {json: `["a","a",1,null]`},
		"a name with no letters":             {json: `{"":1,"a":{"":1,"":2}}`, want: "a."},
		"once with an escape":                {json: `{"ab":1,"\u0061b":2}`, want: "ab"},
		"a quote in a name":                  {json: `{"a\"b":1,"a\u0022b":2}`, want: `a"b`},
		"behind a byte order mark":           {json: "\ufeff" + `{"a":1,"a":2}`, want: "a"},
		"deep inside what is skipped":        {json: `{"d":[{"x":{"a":1,"a":2}}],"e":1}`, skip: "d"},
		"a text that is skipped, then twice": {json: `{"d":"x","o":{"e":1,"e":2}}`, skip: "d", want: "o.e"},
		"an empty list that is skipped":      {json: `{"d":[],"o":{"e":1,"e":2}}`, skip: "d", want: "o.e"},
		"in a list of what is skipped":       {json: `[{"d":1},{"e":1,"e":2}]`, skip: "d", want: "e"},
		"at the top":                         {json: `{"a":1 , "a" :2}`, want: "a"},
		"behind an array":                    {json: `{"l":[{"a":1,"b":2},3],"l":4}`, want: "l"},
		"letter case tells apart":            {json: `{"a":1,"A":2}`},
		"many members, none twice":           {json: `{` + many.String() + `"z":1}`},
		"many members, one twice":            {json: `{` + many.String() + `"m3":1}`, want: "m3"},
		"deep down":                          {json: deep, want: strings.Repeat("a.", 4000) + "b"},
		"inside what is skipped":             {json: `{"d":{"a":1,"a":2},"e":1}`, skip: "d"},
		"what is skipped stands twice":       {json: `{"d":{"a":1},"d":1}`, skip: "d", want: "d"},
		"behind what is skipped, a text too": {json: `{"d":"}\"","e":1,"e":2}`, skip: "d", want: "e"},
	} {
		path := Member([]byte(c.json), c.skip)
		if got := strings.Join(path, "."); got != c.want || (path != nil) != (c.want != "") {
			t.Errorf("%s: got %.80q, want %.80q", name, got, c.want)
		}
	}
}

// FuzzMember compares with a slower reader of the same text.
func FuzzMember(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `[{"a":[{"b":1}]},{"a":{"b":{},"b":[]}}]`, `{"a\"b":1,"a\u0022b":2}`, `"a"`, `{"x":",{}[]\"","x ":0}`, `[]`, `{"":1,"":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) {
			return
		}
		dec := json.NewDecoder(strings.NewReader(s))
		var twice bool
		var value func(tok json.Token)
		value = func(tok json.Token) {
			names := map[json.Token]bool{}
			if tok != json.Delim('{') && tok != json.Delim('[') {
				return
			}
			for dec.More() {
				next, _ := dec.Token()
				if tok == json.Delim('{') {
					twice = twice || names[next]
					names[next] = true
					next, _ = dec.Token()
				}
				value(next)
			}
			_, _ = dec.Token()
		}
		tok, _ := dec.Token()
		value(tok)
		// What is no UTF-8 is one replacement to the slow reader.
		if got := Member([]byte(s), "") != nil; got != twice && utf8.ValidString(s) && !strings.Contains(s, `\ud`) {
			t.Errorf("%q: %v, want %v", s, got, twice)
		}
	})
}

func BenchmarkMember(b *testing.B) {
	const record = `{"id":"rec-00017","reference":"run_8f2:create-contact","status":"open","amount_cents":1990,` +
		`"owner":{"id":"5502","name":"Ada"},"note":"a text that is longer than the others, with \"quotes\" in it"}`
	text := []byte(`{"data":[` + strings.Repeat(record+",", 99) + record + `]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if Member(text, "") != nil {
			b.Fatal("there is none")
		}
	}
}
