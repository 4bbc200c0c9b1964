package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// selector finds values in an answer: names joined by dots ("data.*.id", a
// number is an index), RFC 9535 where it starts with $, or a header
// ("header:X-Id"). With like, the first group of the match is the value.
type selector struct {
	text   string
	steps  []string
	path   *jsonpath.Path
	header string
	like   *regexp.Regexp
}

// selector compiles a path that stands in a definition.
func (d *definition) selector(t *table, key string) *selector {
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	return d.selectorOf(t.p, t.at(key), v)
}

// selectors is a list of paths, or one.
func (d *definition) selectors(t *table, key string) []*selector {
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	vs, isList := v.([]any)
	if !isList {
		return compact(d.selectorOf(t.p, t.at(key), v))
	}
	if len(vs) == 0 {
		t.fail(key, "empty; write at least one path")
	}
	var out []*selector
	for i, v := range vs {
		out = append(out, compact(d.selectorOf(t.p, join(t.at(key), i), v))...)
	}
	return out
}

func compact(s *selector) []*selector {
	if s == nil {
		return nil
	}
	return []*selector{s}
}

func (d *definition) selectorOf(p *problems, path string, v any) *selector {
	var like *regexp.Regexp
	text, ok := v.(string)
	if m, isTable := v.(map[string]any); isTable {
		t := p.table(path, m)
		text, ok = t.str("path")
		if !ok && !t.has("path") {
			t.fail("path", "missing; write the path of the value")
		}
		if like = t.regexp("like"); like != nil && like.NumSubexp() == 0 {
			t.fail("like", "has no group; put the part that is wanted in ( )")
		}
		t.finish()
	} else if !ok {
		p.add(path, "is %s; write a path in quotes, such as \"data.id\"", kindName(v))
	}
	if !ok {
		return nil
	}
	s, err := d.parseSelector(text)
	if err != nil {
		p.add(path, "%v", err)
		return nil
	}
	s.like = like
	return s
}

func (d *definition) parseSelector(text string) (*selector, error) {
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		if name == "" || strings.ContainsAny(name, " :\t{}") {
			return nil, fmt.Errorf("%q names no header; write header:NAME", text)
		}
		return &selector{text: text, header: name}, nil
	}
	if strings.HasPrefix(text, "$") {
		// Settings stand in a path as quoted names, so that none can change it.
		text, err := d.constant(text, func(v string) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		})
		if err != nil {
			return nil, err
		}
		p, err := jsonpath.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a path: %w", text, err)
		}
		return &selector{text: text, path: p}, nil
	}
	s := &selector{text: text, steps: rejoinPlaceholders(strings.Split(text, "."))}
	for i, part := range s.steps {
		part, err := d.constant(part, nil)
		if err != nil {
			return nil, err
		}
		if part == "" {
			return nil, fmt.Errorf("%q is not a path; write names joined by dots, such as \"data.id\"", text)
		}
		if strings.ContainsAny(part, "{}") {
			return nil, fmt.Errorf("%q is not a path: only {settings.x} and {let.x} may stand in one", text)
		}
		if strings.ContainsAny(part, "[]$@?\"'") || strings.TrimSpace(part) != part {
			return nil, fmt.Errorf("%q is not a dotted path; write \"data.0.id\", or start it with $ for RFC 9535", text)
		}
		s.steps[i] = part
	}
	return s, nil
}

// rejoinPlaceholders undoes the split at the dot of "{settings.x}".
func rejoinPlaceholders(parts []string) []string {
	var out []string
	for i := 0; i < len(parts); i++ {
		part := parts[i]
		for strings.Count(part, "{") > strings.Count(part, "}") && i+1 < len(parts) {
			i++
			part += "." + parts[i]
		}
		out = append(out, part)
	}
	return out
}

// document is an answer, or a part of one, that selectors look into.
type document struct {
	body   any // decoded with exact numbers; nil if there is none
	header http.Header
}

// startsWith tells whether a path begins at a member of that name.
func (s *selector) startsWith(name string) bool {
	switch {
	case s == nil || s.header != "":
		return false
	case s.path != nil:
		segments := s.path.Query().Segments()
		return len(segments) > 0 && slices.ContainsFunc(segments[0].Selectors(), func(sel spec.Selector) bool {
			switch sel := sel.(type) {
			case spec.Name:
				return string(sel) == name
			case spec.WildcardSelector, *spec.FilterSelector:
				return true // of any member
			}
			return false // of a list
		})
	}
	return s.steps[0] == name || s.steps[0] == "*"
}

// above is the path of the record of which id is found at s, a path from the top
// of an answer. ok is false where that cannot be said: of a header, or RFC 9535.
func (s *selector) above(id *selector) (top []string, ok bool) {
	n := len(s.steps) - len(id.steps)
	if n < 0 || len(id.steps) == 0 || !slices.Equal(s.steps[n:], id.steps) {
		return nil, false
	}
	return s.steps[:n], true
}

// nodes returns the values found, in the order of the document; members under
// a * by name. like is not applied.
func (s *selector) nodes(doc document) []any {
	switch {
	case s.header != "":
		var out []any
		for _, v := range doc.header.Values(s.header) {
			out = append(out, v)
		}
		return out
	case s.path != nil:
		return s.path.Select(doc.body)
	}
	return walk(doc.body, s.steps)
}

func walk(v any, steps []string) []any {
	if len(steps) == 0 {
		return []any{v}
	}
	step, rest := steps[0], steps[1:]
	switch v := v.(type) {
	case map[string]any:
		if step == "*" {
			var out []any
			for _, k := range slices.Sorted(maps.Keys(v)) {
				out = append(out, walk(v[k], rest)...)
			}
			return out
		}
		if e, ok := v[step]; ok {
			return walk(e, rest)
		}
	case []any:
		if step == "*" {
			var out []any
			for _, e := range v {
				out = append(out, walk(e, rest)...)
			}
			return out
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return walk(v[i], rest)
		}
	}
	return nil
}

// texts returns the scalar values found, as text; a list gives its elements.
// Null and what like does not match are left out.
func (s *selector) texts(doc document) []string {
	var out []string
	var add func(v any)
	add = func(v any) {
		if l, ok := v.([]any); ok {
			for _, e := range l {
				add(e)
			}
			return
		}
		text, ok := valueText(v)
		if !ok {
			return
		}
		if s.like != nil {
			m := s.like.FindStringSubmatch(text)
			if m == nil {
				return
			}
			text = m[1]
		}
		out = append(out, text)
	}
	for _, v := range s.nodes(doc) {
		add(v)
	}
	return out
}

// text1 returns the first value, "" for none.
func (s *selector) text1(doc document) string {
	if s == nil {
		return ""
	}
	if all := s.texts(doc); len(all) > 0 {
		return all[0]
	}
	return ""
}

// truthy tells whether a value is there and is not false, null, zero or empty.
func (s *selector) truthy(doc document) bool {
	if s == nil {
		return false
	}
	for _, v := range s.nodes(doc) {
		if truthy(v) {
			return true
		}
	}
	return false
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != "" && v != "false" && v != "0"
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// valueText is a scalar as text: numbers exactly as received.
func valueText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

var errTwoValues = errors.New("something follows the JSON value")

// decode reads JSON with exact numbers. Something after the value is an error:
// an answer that is cut or glued together is not an answer.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errTwoValues
	}
	return v, nil
}
