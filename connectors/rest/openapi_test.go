package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"
)

// specsOf lists the specifications that providers publish of the systems in
// testdata/systems; the others publish none that may be used here.
var specsOf = map[string][]string{
	"paypal": {"paypal_checkout_orders_v2.json", "paypal_invoicing_v2.json", "paypal_payments_payouts_batch_v1.json", "paypal_reporting_transactions_v1.json"},
	"stripe": {"stripe.yaml"},
	"xero":   {"xero_accounting.yaml"},
}

// checkAgainstSpecs tests the requests that a row made against the system's own
// specification: address, parameters, headers and body. It is left out, aloud,
// where the specifications are not there.
func checkAgainstSpecs(t *testing.T, system string, requests []heard) {
	t.Helper()
	names := specsOf[system]
	if len(names) == 0 || len(requests) == 0 {
		return
	}
	var specs []*openAPI
	for _, name := range names {
		s, err := readSpec(name)
		if errors.Is(err, os.ErrNotExist) {
			t.Logf("requests not checked: %s is not there; set PROVIDER_SPECS to its folder", name)
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		specs = append(specs, s)
	}
	for _, h := range requests {
		line := h.method + " " + h.path
		if h.query != "" {
			line += "?" + h.query
		}
		known := false
		for _, s := range specs {
			var wrong []string
			if known, wrong = s.check(h); known {
				for _, w := range wrong {
					t.Errorf("%s: by the specification, %s", line, w)
				}
				break
			}
		}
		if !known {
			t.Errorf("%s: no specification of %s has this address", line, system)
		}
	}
}

// openAPI is a specification, as far as requests are concerned.
// Source: OpenAPI 3.0.3.
type openAPI struct {
	doc  map[string]any
	base string // path of the server
}

var (
	specsMu sync.Mutex
	specs   = map[string]*openAPI{}
)

func readSpec(name string) (*openAPI, error) {
	specsMu.Lock()
	defer specsMu.Unlock()
	if s := specs[name]; s != nil {
		return s, nil
	}
	dir := os.Getenv("PROVIDER_SPECS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "specs")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	s := &openAPI{}
	if strings.HasSuffix(name, ".json") {
		err = json.Unmarshal(b, &s.doc)
	} else {
		err = yaml.Unmarshal(b, &s.doc)
	}
	if err != nil {
		return nil, err
	}
	if servers, _ := s.doc["servers"].([]any); len(servers) > 0 {
		u, err := url.Parse(fmt.Sprint(members(servers[0])["url"]))
		if err != nil {
			return nil, err
		}
		s.base = strings.TrimSuffix(u.Path, "/")
	}
	specs[name] = s
	return s, nil
}

func members(v any) map[string]any { m, _ := v.(map[string]any); return m }

// resolve follows references inside the document.
func (s *openAPI) resolve(v any) map[string]any {
	m := members(v)
	for range 20 {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		var at any = s.doc
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = members(at)[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
		m = members(at)
	}
	return m
}

// item is the path that an address belongs to; a literal one goes before one
// with parameters.
func (s *openAPI) item(path string) map[string]any {
	segments := strings.Split(path, "/")
	best, fewest := map[string]any(nil), 1000
	for template, item := range members(s.doc["paths"]) {
		for _, base := range []string{s.base, ""} {
			parts := strings.Split(base+template, "/")
			params := 0
			fits := len(parts) == len(segments)
			for i := range parts {
				if !fits {
					break
				}
				if strings.HasPrefix(parts[i], "{") {
					params++
					fits = segments[i] != ""
				} else {
					fits = parts[i] == segments[i]
				}
			}
			if fits && params < fewest {
				best, fewest = members(item), params
			}
		}
	}
	return best
}

// check says whether the specification has the request's address, and what of
// the request does not agree with it.
func (s *openAPI) check(h heard) (known bool, wrong []string) {
	item := s.item(h.path)
	op := members(item[strings.ToLower(h.method)])
	if op == nil {
		return false, nil
	}
	params := map[string]map[string]any{} // by place and name
	for _, list := range []any{item["parameters"], op["parameters"]} {
		l, _ := list.([]any)
		for _, p := range l {
			r := s.resolve(p)
			name := fmt.Sprint(r["name"])
			if r["in"] == "header" {
				name = http.CanonicalHeaderKey(name)
			}
			params[fmt.Sprint(r["in"])+" "+name] = r
		}
	}
	values, err := url.ParseQuery(h.query)
	if err != nil {
		return true, []string{err.Error()}
	}
	for name, vs := range values {
		p := params["query "+name]
		base, _, nested := strings.Cut(name, "[")
		if p == nil && nested {
			p = params["query "+base]
		}
		switch {
		case p == nil:
			wrong = append(wrong, fmt.Sprintf("there is no parameter %q", name))
		case nested:
			// A member of an object in brackets; its schema is one of several.
		default:
			for _, v := range vs {
				wrong = append(wrong, s.parameter(p, name, v)...)
			}
		}
	}
	for key, p := range params {
		place, name, _ := strings.Cut(key, " ")
		there := place == "path"
		switch place {
		case "query":
			there = values.Has(name)
		case "header":
			if vs := h.header.Values(name); len(vs) > 0 {
				there = true
				wrong = append(wrong, s.parameter(p, name, vs[0])...)
			}
		}
		if p["required"] == true && !there {
			wrong = append(wrong, fmt.Sprintf("the %s %q is required", place, name))
		}
	}
	return true, append(wrong, s.body(op, h)...)
}

// parameter tests one value of a parameter, which is text on the wire.
func (s *openAPI) parameter(p map[string]any, name, value string) []string {
	schema := s.resolve(p["schema"])
	if schema["type"] == "array" && p["explode"] == false {
		var wrong []string
		for _, v := range strings.Split(value, ",") {
			wrong = append(wrong, s.value(s.resolve(schema["items"]), v, name, true, 0)...)
		}
		return wrong
	}
	if schema["type"] == "array" {
		schema = s.resolve(schema["items"])
	}
	return s.value(schema, value, name, true, 0)
}

func (s *openAPI) body(op map[string]any, h heard) []string {
	rb := s.resolve(op["requestBody"])
	if len(h.body) == 0 {
		if rb["required"] == true {
			return []string{"a body is required"}
		}
		return nil
	}
	if rb == nil {
		return []string{"it takes no body"}
	}
	contentType, _, _ := strings.Cut(h.header.Get("Content-Type"), ";")
	content := members(members(rb["content"])[contentType])
	if content == nil {
		return []string{fmt.Sprintf("it takes no %q", contentType)}
	}
	schema := s.resolve(content["schema"])
	if contentType == "application/x-www-form-urlencoded" {
		v, err := formTree(string(h.body))
		if err != nil {
			return []string{err.Error()}
		}
		return s.value(schema, v, "the body", true, 0)
	}
	v, err := decode(h.body)
	if err != nil {
		return []string{"the body is no JSON: " + err.Error()}
	}
	return s.value(schema, v, "the body", false, 0)
}

// formTree reads a form nested in brackets. Lists stay objects by number.
func formTree(body string) (map[string]any, error) {
	root := map[string]any{}
	for _, pair := range strings.Split(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(name)
		value, err2 := url.QueryUnescape(value)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		steps := strings.Split(strings.ReplaceAll(name, "]", ""), "[")
		at := root
		for _, step := range steps[:len(steps)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		at[steps[len(steps)-1]] = value
	}
	return root, nil
}

// value tests a value against a schema. asText is true for values that are text
// on the wire, whatever they mean.
func (s *openAPI) value(schema map[string]any, v any, at string, asText bool, depth int) (wrong []string) {
	if schema == nil || depth > 30 {
		return nil
	}
	fail := func(format string, args ...any) { wrong = append(wrong, at+" "+fmt.Sprintf(format, args...)) }
	if v == nil {
		if schema["nullable"] != true && schema["type"] != nil {
			fail("is null")
		}
		return wrong
	}
	for _, part := range list(schema["allOf"]) {
		wrong = append(wrong, s.value(s.resolve(part), v, at, asText, depth+1)...)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		parts := list(schema[key])
		fits := len(parts) == 0
		var why []string
		for _, part := range parts {
			w := s.value(s.resolve(part), v, at, asText, depth+1)
			fits = fits || len(w) == 0
			why = append(why, w...)
		}
		if !fits {
			fail("is none of %s (%s)", key, strings.Join(why, "; "))
		}
	}
	if enum := list(schema["enum"]); len(enum) > 0 {
		if text, ok := valueText(v); ok && !slices.ContainsFunc(enum, func(e any) bool { return fmt.Sprint(e) == text }) {
			fail("is %q, which is none of %v", text, enum)
		}
	}
	switch schema["type"] {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			fail("is no object")
			return wrong
		}
		return append(wrong, s.object(schema, m, at, asText, depth)...)
	case "array":
		l, ok := v.([]any)
		if m, isMap := v.(map[string]any); isMap && asText { // a form numbers its elements
			for _, e := range m {
				l, ok = append(l, e), true
			}
		}
		if !ok {
			fail("is no list")
			return wrong
		}
		for i, e := range l {
			wrong = append(wrong, s.value(s.resolve(schema["items"]), e, fmt.Sprintf("%s.%d", at, i), asText, depth+1)...)
		}
		if most, ok := count(schema["maxItems"]); ok && len(l) > most {
			fail("has %d elements of at most %d", len(l), most)
		}
	case "string":
		text, ok := v.(string)
		if !ok {
			fail("is no text")
			return wrong
		}
		if most, ok := count(schema["maxLength"]); ok && len([]rune(text)) > most {
			fail("has %d characters of at most %d", len([]rune(text)), most)
		}
		if least, ok := count(schema["minLength"]); ok && len([]rune(text)) < least {
			fail("has %d characters of at least %d", len([]rune(text)), least)
		}
		if p, ok := schema["pattern"].(string); ok {
			if re, err := regexp.Compile(p); err == nil && !re.MatchString(text) {
				fail("is %q and not like %s", text, p)
			}
		}
	case "integer", "number":
		text, isText := v.(string)
		if n, ok := v.(json.Number); ok {
			text = n.String()
		} else if isText && !asText {
			fail("is text, not a number")
			return wrong
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || schema["type"] == "integer" && f != float64(int64(f)) {
			fail("is %q and no %s", text, schema["type"])
			return wrong
		}
		if most, ok := count(schema["maximum"]); ok && f > float64(most) {
			fail("is %v of at most %d", f, most)
		}
		if least, ok := count(schema["minimum"]); ok && f < float64(least) {
			fail("is %v of at least %d", f, least)
		}
	case "boolean":
		if text, ok := valueText(v); !ok || text != "true" && text != "false" || !asText && v != true && v != false {
			fail("is neither true nor false")
		}
	}
	if schema["type"] == nil && schema["properties"] != nil {
		if m, ok := v.(map[string]any); ok {
			wrong = append(wrong, s.object(schema, m, at, asText, depth)...)
		}
	}
	return wrong
}

func (s *openAPI) object(schema, m map[string]any, at string, asText bool, depth int) (wrong []string) {
	props := members(schema["properties"])
	for _, name := range list(schema["required"]) {
		if _, ok := m[fmt.Sprint(name)]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s lacks %q", at, name))
		}
	}
	for name, v := range m {
		if p, ok := props[name]; ok {
			wrong = append(wrong, s.value(s.resolve(p), v, at+"."+name, asText, depth+1)...)
			continue
		}
		if schema["additionalProperties"] == false {
			wrong = append(wrong, fmt.Sprintf("%s has no member %q", at, name))
		}
		if more := members(schema["additionalProperties"]); more != nil {
			wrong = append(wrong, s.value(s.resolve(more), v, at+"."+name, asText, depth+1)...)
		}
	}
	return wrong
}

func list(v any) []any { l, _ := v.([]any); return l }

func count(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return int(v), true
	}
	return 0, false
}

// TestTheReaderOfSpecificationsSeesMistakes makes sure that the checks above
// are none in name only.
func TestTheReaderOfSpecificationsSeesMistakes(t *testing.T) {
	s, err := readSpec("stripe.yaml")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no specifications here; set PROVIDER_SPECS to their folder")
	}
	if err != nil {
		t.Fatal(err)
	}
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for name, tc := range map[string]struct {
		h    heard
		want string // "" for no mistake
	}{
		"as it should be":         {heard{"POST", "/v1/payment_intents", "", form, []byte("amount=5&currency=eur&metadata%5Ba%5D=b")}, ""},
		"a member is missing":     {heard{"POST", "/v1/payment_intents", "", form, []byte("amount=5")}, `lacks "currency"`},
		"a member there is none":  {heard{"POST", "/v1/payment_intents", "", form, []byte("amount=5&currency=eur&amont=6")}, `no member "amont"`},
		"text for a number":       {heard{"POST", "/v1/payment_intents", "", form, []byte("amount=five&currency=eur")}, "no integer"},
		"a body of another kind":  {heard{"POST", "/v1/payment_intents", "", http.Header{"Content-Type": {"application/json"}}, []byte("{}")}, "takes no"},
		"an unknown parameter":    {heard{"GET", "/v1/payment_intents/search", "query=a&limt=5", nil, nil}, `no parameter "limt"`},
		"a parameter is missing":  {heard{"GET", "/v1/payment_intents/search", "limit=5", nil, nil}, `"query" is required`},
		"a parameter in brackets": {heard{"GET", "/v1/payment_intents", "created%5Bgte%5D=5", nil, nil}, ""},
	} {
		known, wrong := s.check(tc.h)
		all := strings.Join(wrong, "; ")
		if !known || tc.want == "" && all != "" || !strings.Contains(all, tc.want) {
			t.Errorf("%s: known %v, got %q, want %q", name, known, all, tc.want)
		}
	}
	if known, _ := s.check(heard{"GET", "/v1/paymentintents", "", nil, nil}); known {
		t.Error("an address that there is not is known")
	}
}
