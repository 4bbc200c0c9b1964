package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors/httpclient"
)

const (
	// Longer addresses are refused by servers at 8 KiB and by some proxies
	// before that.
	defaultMaxURL = 8000
)

// request is how one call is made.
type request struct {
	where  string // path of its table in the definition
	method string
	path   []pathPart
	query  map[string]*node
	header map[string]*node

	// One of these is the body; stored sends the payload's own bytes.
	body        bodyKind
	json, form  *node // graphql: json holds the variables
	text        *template
	contentType string

	bucket  string
	timeout time.Duration
	maxURL  int
	maxText int // of {each}; 0 is no limit of its own
	maxBody int
}

type bodyKind int

const (
	bodyNone bodyKind = iota
	bodyJSON
	bodyForm
	bodyText
	bodyGraphQL
	bodyStored
)

// pathPart is one segment of a path.
type pathPart struct{ text *template }

// requestKeys are the keys of a request; the others of a block say how its
// answer is read.
var requestKeys = []string{"method", "path", "query", "headers", "json", "form", "text", "content_type", "graphql", "variables",
	"bucket", "timeout", "max_url", "max_text", "max_body"}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// request reads the request keys of a block.
func (d *definition) request(t *table, allowed []string, timeout time.Duration) *request {
	r := &request{where: t.path, query: map[string]*node{}, header: map[string]*node{}}
	r.method = t.oneOf("method", "", methods...)
	if r.method == "" && !t.has("method") {
		t.fail("method", "missing; write GET or POST")
	}
	if text, ok := t.str("path"); ok {
		r.path = d.path(t, text, allowed)
	} else if !t.has("path") {
		t.fail("path", "missing; write the path after base_url, such as %q", "/invoices")
	}
	maps.Copy(r.query, d.query)
	maps.Copy(r.header, d.headers)
	d.params(t, "query", allowed, r.query)
	d.params(t, "headers", allowed, r.header)

	d.body(t, r, allowed)
	r.bucket = t.strOr("bucket", "")
	d.bucketed[r.bucket] = true
	if r.bucket != "" && d.buckets[r.bucket] == "" {
		t.fail("bucket", "no rate has the name %q; add { name = %q, calls = …, per = … } to rate", r.bucket, r.bucket)
	}
	r.timeout = t.positive("timeout", timeout)
	r.maxURL = t.number("max_url", defaultMaxURL, 100, 1<<20)
	r.maxText = t.number("max_text", 0, 1, 1<<20)
	r.maxBody = t.number("max_body", httpclient.DefaultMaxBody, 1, 1<<30)
	return r
}

func (d *definition) path(t *table, text string, allowed []string) []pathPart {
	switch {
	case !strings.HasPrefix(text, "/"):
		t.fail("path", "must start with /; it is put behind base_url")
		return nil
	case strings.ContainsAny(strings.ReplaceAll(holeAny.ReplaceAllString(text, ""), "{{", ""), "?#"):
		t.fail("path", "has a ? or #; write parameters as query = { name = \"value\" }")
		return nil
	}
	var parts []pathPart
	for _, seg := range rejoinSlashes(strings.Split(text[1:], "/")) {
		tmpl, err := d.parse(seg, allowed)
		if err != nil {
			t.fail("path", "%v", err)
			return nil
		}
		if seg == "." || seg == ".." {
			t.fail("path", "the segment %q would leave the path; write the path as it is meant", seg)
		}
		parts = append(parts, pathPart{tmpl})
	}
	return parts
}

var holeAny = regexp.MustCompile(`\{[^{}]*\}`)

// rejoinSlashes undoes a split inside a placeholder: member names may hold /.
func rejoinSlashes(segs []string) []string {
	var out []string
	for i := 0; i < len(segs); i++ {
		seg := segs[i]
		for strings.Count(seg, "{") > strings.Count(seg, "}") && i+1 < len(segs) {
			i++
			seg += "/" + segs[i]
		}
		out = append(out, seg)
	}
	return out
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are made by the client or by auth.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}

func (d *definition) params(t *table, key string, allowed []string, into map[string]*node) {
	sub := t.table(key)
	if sub == nil {
		return
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(sub.m)) {
		v, _ := sub.raw(name)
		resolved, err := d.constant(name, nil)
		if err != nil {
			sub.fail(name, "%v", err)
			continue
		}
		if _, isTable := v.(map[string]any); isTable {
			sub.fail(name, "is a table; write text or a list")
			continue
		}
		if key == "headers" {
			if !headerName.MatchString(resolved) {
				sub.fail(name, "is no header name")
				continue
			}
			resolved = http.CanonicalHeaderKey(resolved)
			if slices.Contains(ownHeaders, resolved) {
				sub.fail(name, "is set by the client; take it out")
				continue
			}
			if d.auth.sets(resolved) {
				sub.fail(name, "is set by auth; keep one of the two")
				continue
			}
		}
		if seen[resolved] {
			sub.fail(name, "stands here twice, in other spelling; keep one")
			continue
		}
		seen[resolved] = true
		if n := d.node(t.p, sub.at(name), v, allowed); n != nil {
			if slices.ContainsFunc(n.list, func(e *node) bool { return e.members != nil || e.isList }) {
				sub.fail(name, "holds a table or a list; write a list of texts")
				continue
			}
			if key == "headers" && slices.ContainsFunc(append(slices.Clone(n.list), n), func(e *node) bool {
				text, _ := scalarText(e.constant)
				return e.text == nil && !visibleASCII(strings.ReplaceAll(text, " ", ""))
			}) {
				sub.fail(name, "a header holds visible ASCII only")
				continue
			}
			into[resolved] = n
		}
	}
}

func (d *definition) body(t *table, r *request, allowed []string) {
	given := 0
	if v, ok := t.raw("json"); ok {
		given++
		r.body, r.json = bodyJSON, d.node(t.p, t.at("json"), v, allowed)
	}
	if v, ok := t.raw("form"); ok {
		given++
		r.body, r.form = bodyForm, d.node(t.p, t.at("form"), v, allowed)
		if r.form != nil && r.form.members == nil && (r.form.text == nil || r.form.text.whole() == nil) {
			t.fail("form", "write a table, or %q", "{payload}")
		}
	}
	if text, ok := t.str("text"); ok {
		given++
		var err error
		r.body = bodyText
		if r.text, err = d.parse(text, allowed); err != nil {
			t.fail("text", "%v", err)
		}
		if !t.has("content_type") {
			t.fail("content_type", "missing; say what the text is, such as %q", "text/plain")
		}
	}
	if text, ok := t.str("graphql"); ok {
		given++
		var err error
		r.body = bodyGraphQL
		if r.text, err = d.parseGraphQL(text, allowed); err != nil {
			t.fail("graphql", "%v", err)
		}
		if mutation.MatchString(graphqlNoise.ReplaceAllString(text, "")) && !slices.Contains(allowed, "idempotency_key") {
			t.fail("graphql", "a mutation may stand in send only; lookups and checks change nothing")
		}
	}
	if v, ok := t.raw("variables"); ok {
		if r.body != bodyGraphQL {
			t.fail("variables", "only goes with graphql")
		} else {
			r.json = d.node(t.p, t.at("variables"), v, allowed)
		}
	}
	if r.text != nil && slices.ContainsFunc(r.text.holes(), func(h *placeholder) bool { return h.optional }) {
		key := "text"
		if r.body == bodyGraphQL {
			key = "graphql"
		}
		t.fail(key, "of a body that is one text nothing can be left out; take the ? out, or use json or variables")
	}
	r.contentType = t.strOr("content_type", "")
	// A send without a body of its own sends the stored one, whatever that is.
	if given == 0 && t.has("content_type") && !slices.Contains(allowed, "idempotency_key") {
		t.fail("content_type", "says what a body is, and there is none; take it out")
	}
	if t.has("max_text") && !t.has("batch") && !slices.Contains(allowed, "each") {
		t.fail("max_text", "limits {each}; it goes with a batch")
	}
	if given > 1 {
		t.p.add(t.path, "more than one of json, form, text and graphql; keep one")
	}
	if given > 0 && (r.method == "GET" || r.method == "HEAD") {
		t.fail("method", "%s carries no body; write POST, or take the body out", r.method)
	}
}

var (
	graphqlNoise = regexp.MustCompile(`(?m)#.*$|"(?:[^"\\]|\\.)*"`)
	mutation     = regexp.MustCompile(`(?:^|[\s}])(?:mutation|subscription)\b`)
)

// holes returns every placeholder of the request.
func (r *request) holes() []*placeholder {
	var hs []*placeholder
	for _, p := range r.path {
		hs = append(hs, p.text.holes()...)
	}
	for _, m := range []map[string]*node{r.query, r.header} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			hs = append(hs, m[name].holes()...)
		}
	}
	hs = append(hs, r.json.holes()...)
	hs = append(hs, r.form.holes()...)
	if r.text != nil {
		hs = append(hs, r.text.holes()...)
	}
	return hs
}

func (r *request) uses(name string) bool {
	return slices.ContainsFunc(r.holes(), func(h *placeholder) bool { return h.name == name })
}

// tooBig is a request beyond max_url, max_text or max_body.
type tooBig struct{ what string }

func (e *tooBig) Error() string { return "request is longer than " + e.what }

// build makes the request for these values. The error is a *badValue, a
// *tooBig or errSkip.
func (r *request) build(base *url.URL, s *scope) (httpclient.Request, error) {
	out := httpclient.Request{Method: r.method, Header: http.Header{}, Timeout: r.timeout, MaxBody: int64(r.maxBody)}

	var raw strings.Builder
	raw.WriteString(strings.TrimSuffix(base.EscapedPath(), "/"))
	for _, p := range r.path {
		segment, ok, err := p.text.render(s, inPath)
		if err != nil {
			return out, err
		}
		if !ok {
			return out, errSkip
		}
		if holes := p.text.holes(); len(holes) > 0 && (segment == "" || segment == "." || segment == "..") {
			return out, &badValue{holes[0].name, "empty, . and .. cannot be a segment of a path"}
		}
		raw.WriteByte('/')
		raw.WriteString(segment)
	}
	path, err := url.PathUnescape(raw.String())
	if err != nil {
		return out, &badValue{"path", "cannot be written as a path"}
	}
	u := *base
	u.Path, u.RawPath = path, raw.String()

	var query []string
	for _, name := range slices.Sorted(maps.Keys(r.query)) {
		values, err := r.query[name].texts(s, placing{})
		if err != nil {
			return out, err
		}
		for _, v := range values {
			query = append(query, percent(name)+"="+percent(v))
		}
	}
	u.RawQuery = strings.Join(query, "&")
	out.URL = &u

	out.Header.Set("Accept", "application/json")
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		values, err := r.header[name].texts(s, inHeader)
		if err != nil {
			return out, err
		}
		for i, v := range values {
			if i == 0 {
				out.Header.Set(name, v)
			} else {
				out.Header.Add(name, v)
			}
		}
	}

	if err := r.buildBody(s, &out); err != nil {
		return out, err
	}
	if len(u.String()) > r.maxURL {
		return out, &tooBig{fmt.Sprintf("max_url (%d)", r.maxURL)}
	}
	if len(out.Body) > r.maxBody {
		return out, &tooBig{fmt.Sprintf("max_body (%d)", r.maxBody)}
	}
	if r.maxText > 0 && s.each != nil {
		if v, _, _ := s.eachValue(); len(v.text) > r.maxText {
			return out, &tooBig{fmt.Sprintf("max_text (%d)", r.maxText)}
		}
	}
	return out, nil
}

var (
	inPath   = placing{literal: literalPath, value: func(v string) (string, string) { return percent(v), "" }}
	inHeader = placing{value: func(v string) (string, string) {
		if !visibleASCII(v) {
			return "", "a header holds visible ASCII only"
		}
		return v, ""
	}}
)

// literalPath encodes what the author wrote, leaving what a path may hold.
// Source: RFC 3986, 3.3.
func literalPath(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("!$&'()*+,;=:@%", s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			b.WriteString(percent(s[i : i+1]))
		}
	}
	return b.String()
}

func (r *request) buildBody(s *scope, out *httpclient.Request) error {
	contentType := r.contentType
	set := func(otherwise string) {
		if contentType == "" {
			contentType = otherwise
		}
		if out.Header.Get("Content-Type") == "" {
			out.Header.Set("Content-Type", contentType)
		}
	}
	switch r.body {
	case bodyJSON:
		raw, ok, err := r.json.json(s)
		if err != nil {
			return err
		}
		if !ok {
			raw = nil
		}
		out.Body = raw
		set("application/json")
	case bodyGraphQL:
		text, err := r.wholeText(s)
		if err != nil {
			return err
		}
		body := map[string]json.RawMessage{"query": json.RawMessage(jsonText(text))}
		if r.json != nil {
			raw, ok, err := r.json.json(s)
			if err != nil {
				return err
			}
			if ok {
				body["variables"] = raw
			}
		}
		if out.Body, err = json.Marshal(body); err != nil {
			return err
		}
		set("application/json")
	case bodyForm:
		raw, ok, err := r.form.json(s)
		if err != nil {
			return err
		}
		if ok {
			if out.Body, err = formBody(raw); err != nil {
				return err
			}
		}
		set("application/x-www-form-urlencoded")
	case bodyText:
		text, err := r.wholeText(s)
		if err != nil {
			return err
		}
		out.Body = []byte(text)
		set("text/plain")
	case bodyStored:
		if len(s.payload) == 0 && !s.trial {
			return &badValue{"payload", "the entry has none to send"}
		}
		out.Body = s.payload
		otherwise := "application/json"
		if s.payloadType != "" {
			otherwise = s.payloadType
		}
		set(otherwise)
	}
	return nil
}

// wholeText renders a body that is one text, of which nothing can be left out.
func (r *request) wholeText(s *scope) (string, error) {
	text, present, err := r.text.render(s, placing{})
	if err == nil && !present {
		for _, h := range r.text.holes() {
			if _, ok, _ := h.value(s); !ok {
				return "", &badValue{h.name, "there is none, and the text that it stands in cannot go without it"}
			}
		}
	}
	return text, err
}

// formBody writes a JSON object as a form, nested in brackets: a[b][0]=c. The
// members keep their order; null is an empty value.
func formBody(raw json.RawMessage) ([]byte, error) {
	var pairs []string
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	notObject := &badValue{"payload", "a form is made of a JSON object"}
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('{') {
		return nil, notObject
	}
	var object, list func(prefix string) error
	value := func(name string) error {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case json.Delim:
			if tok == '{' {
				return object(name)
			}
			return list(name)
		case nil:
			pairs = append(pairs, percent(name)+"=")
		default:
			text, _ := valueText(tok)
			pairs = append(pairs, percent(name)+"="+percent(text))
		}
		return nil
	}
	object = func(prefix string) error {
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return err
			}
			name, _ := tok.(string)
			if prefix != "" {
				name = prefix + "[" + name + "]"
			}
			if err := value(name); err != nil {
				return err
			}
		}
		_, err := dec.Token()
		return err
	}
	list = func(prefix string) error {
		for i := 0; dec.More(); i++ {
			if err := value(prefix + "[" + strconv.Itoa(i) + "]"); err != nil {
				return err
			}
		}
		_, err := dec.Token()
		return err
	}
	if err := object(""); err != nil {
		var bad *badValue
		if errors.As(err, &bad) {
			return nil, bad
		}
		return nil, &badValue{"payload", "it is not JSON"}
	}
	return []byte(strings.Join(pairs, "&")), nil
}
