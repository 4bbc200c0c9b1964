package rest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/nearest"
)

// problems collects every mistake of a definition.
type problems struct {
	errs []error
	seen map[string]bool

	// Mistakes at inherited keys are said once, where the keys stand. They
	// count all the same if they are the only ones.
	muted  []string
	hidden []error

	// Where environment gave nothing: what is left of such a value is not what
	// was meant, so nothing else is said of it.
	unset []string
}

func (p *problems) mute(path string) { p.muted = append(p.muted, path) }

func (p *problems) all() []error {
	if len(p.errs) == 0 {
		return p.hidden
	}
	return p.errs
}

func (p *problems) add(path, format string, args ...any) {
	if slices.Contains(p.unset, path) {
		return
	}
	e := &connectors.FieldError{Path: path, Message: fmt.Sprintf(format, args...)}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	if p.seen[e.Error()] {
		return
	}
	p.seen[e.Error()] = true
	for _, m := range p.muted {
		if path == m || strings.HasPrefix(path, m+".") {
			p.hidden = append(p.hidden, e)
			return
		}
	}
	p.errs = append(p.errs, e)
}

// table reads one TOML table strictly: what is there and was not asked for is
// a mistake.
type table struct {
	path  string
	m     map[string]any
	asked map[string]bool
	p     *problems
}

func (p *problems) table(path string, m map[string]any) *table {
	return &table{path: path, m: m, asked: map[string]bool{}, p: p}
}

func join(path string, key any) string {
	if path == "" {
		return fmt.Sprint(key)
	}
	return fmt.Sprintf("%s.%v", path, key)
}

func (t *table) at(key string) string { return join(t.path, key) }

func (t *table) fail(key, format string, args ...any) { t.p.add(t.at(key), format, args...) }

func (t *table) raw(key string) (any, bool) {
	t.asked[key] = true
	v, ok := t.m[key]
	return v, ok
}

func (t *table) has(key string) bool {
	_, ok := t.m[key]
	return ok
}

// finish reports the keys that nobody asked for.
func (t *table) finish() {
	for _, key := range slices.Sorted(maps.Keys(t.m)) {
		if t.asked[key] {
			continue
		}
		known := slices.Sorted(maps.Keys(t.asked))
		t.fail(key, "unknown key; %s", suggest(key, known))
	}
}

// suggest names the known word nearest to a wrong one, or all of them.
func suggest(word string, known []string) string {
	if w := nearest.Word(word, known); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	return "known here: " + strings.Join(known, ", ")
}

func (t *table) str(key string) (string, bool) {
	v, ok := t.raw(key)
	if !ok {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		t.fail(key, "is %s; write text in quotes", kindName(v))
	}
	return s, ok
}

func (t *table) strOr(key, otherwise string) string {
	if s, ok := t.str(key); ok {
		return s
	}
	return otherwise
}

func (t *table) boolean(key string) bool {
	v, ok := t.raw(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		t.fail(key, "is %s; write true or false", kindName(v))
	}
	return b
}

func (t *table) number(key string, otherwise, least, most int) int {
	v, ok := t.raw(key)
	if !ok {
		return otherwise
	}
	n, ok := v.(int64)
	if !ok {
		t.fail(key, "is %s; write a whole number", kindName(v))
		return otherwise
	}
	if n < int64(least) || n > int64(most) {
		t.fail(key, "%d is out of range; write a number from %d to %d", n, least, most)
		return otherwise
	}
	return int(n)
}

// share is a number from 0 to less than 1.
func (t *table) share(key string, otherwise float64) float64 {
	v, ok := t.raw(key)
	if !ok {
		return otherwise
	}
	var f float64
	switch v := v.(type) {
	case float64:
		f = v
	case int64:
		f = float64(v)
	default:
		t.fail(key, "is %s; write a share such as 0.2", kindName(v))
		return otherwise
	}
	if !(f >= 0 && f < 1) { // also what is no number
		t.fail(key, "%v is out of range; write a share from 0 to less than 1, such as 0.2", f)
		return otherwise
	}
	return f
}

func (t *table) duration(key string, otherwise time.Duration) time.Duration {
	v, ok := t.raw(key)
	if !ok {
		return otherwise
	}
	s, ok := v.(string)
	if !ok {
		t.fail(key, "is %s; write a duration in quotes, such as %q or %q", kindName(v), "30s", "24h")
		return otherwise
	}
	d, err := duration.Parse(s)
	if err != nil {
		t.fail(key, "%v", err)
		return otherwise
	}
	return d
}

// positive is a duration that must not be zero.
func (t *table) positive(key string, otherwise time.Duration) time.Duration {
	d := t.duration(key, otherwise)
	if d <= 0 && t.has(key) {
		t.fail(key, "must be longer than zero")
		return otherwise
	}
	return d
}

// oneOf is text out of a list.
func (t *table) oneOf(key, otherwise string, allowed ...string) string {
	s, ok := t.str(key)
	if !ok {
		return otherwise
	}
	if !slices.Contains(allowed, s) {
		t.fail(key, "%q is not known; %s", s, suggest(s, allowed))
		return otherwise
	}
	return s
}

// list is a list of scalars as text, or one scalar.
func (t *table) list(key string) []string {
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	vs, isList := v.([]any)
	if !isList {
		vs = []any{v}
	}
	var out []string
	for i, v := range vs {
		s, ok := scalarText(v)
		if _, fraction := v.(float64); fraction {
			// What is meant is compared as text: 19.90 is not 19.9.
			t.p.add(join(t.at(key), i), "is a number with a fraction, of which TOML keeps no zeros; write it in quotes, as the system does")
			continue
		}
		if !ok {
			t.p.add(join(t.at(key), i), "is %s; write text in quotes", kindName(v))
			continue
		}
		out = append(out, s)
	}
	return out
}

func (t *table) table(key string) *table {
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.fail(key, "is %s; write a table such as { name = \"value\" }", kindName(v))
		return nil
	}
	return t.p.table(t.at(key), m)
}

// tables is a list of tables, or one table.
func (t *table) tables(key string) []*table {
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	if m, ok := v.(map[string]any); ok {
		return []*table{t.p.table(t.at(key), m)}
	}
	vs, ok := v.([]any)
	if !ok {
		t.fail(key, "is %s; write a table or a list of tables", kindName(v))
		return nil
	}
	var out []*table
	for i, v := range vs {
		m, ok := v.(map[string]any)
		if !ok {
			t.p.add(join(t.at(key), i), "is %s; write a table such as { name = \"value\" }", kindName(v))
			continue
		}
		out = append(out, t.p.table(join(t.at(key), i), m))
	}
	return out
}

func (t *table) regexp(key string) *regexp.Regexp {
	s, ok := t.str(key)
	if !ok {
		return nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		t.fail(key, "is not a regular expression (RE2): %v", err)
		return nil
	}
	return re
}

// unsupported refuses a key of the format that this version cannot do yet, so
// that it is never ignored.
func (t *table) unsupported(keys ...string) {
	for _, key := range keys {
		if _, ok := t.raw(key); ok {
			t.fail(key, "not supported yet; take it out")
		}
	}
}

func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return "", false
		}
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// normal copies a decoded table so that every list is a []any, every table a
// map[string]any and every whole number an int64, however it was decoded or
// written in Go.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = normal(e)
		}
		return m
	case map[string]string:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = e
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = normal(e)
		}
		return l
	case []map[string]any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = normal(e)
		}
		return l
	case []string:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = e
		}
		return l
	case int:
		return int64(v)
	case float32:
		return float64(v)
	}
	return v
}

var (
	envName   = regexp.MustCompile(`\$\{([^}]*)\}?`)
	validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand replaces ${NAME} in all values, once, and returns the values that
// environment gave by the path where they stand.
func (p *problems) expand(path string, v any, env func(string) (string, bool), given map[string][]string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = p.expand(join(path, k), v[k], env, given)
		}
	case []any:
		before := len(p.unset)
		for i := range v {
			v[i] = p.expand(join(path, i), v[i], env, given)
		}
		if len(p.unset) > before {
			p.unset = append(p.unset, path)
		}
	case string:
		if !strings.Contains(v, "${") {
			return v
		}
		before := len(p.errs)
		text := envName.ReplaceAllStringFunc(v, func(ref string) string {
			name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
			if !validName.MatchString(name) || !strings.HasSuffix(ref, "}") {
				p.add(path, "%q is not a variable; write ${NAME} with letters, digits and _", ref)
				return ""
			}
			value, ok := "", false
			if env != nil {
				value, ok = env(name)
			}
			if !ok {
				p.add(path, "not set; export %s", name)
				return ""
			}
			given[path] = append(given[path], value)
			if isTemplate(path) {
				value = strings.NewReplacer("{", "{{", "}", "}}").Replace(value)
			}
			return value
		})
		if len(p.errs) > before {
			p.unset = append(p.unset, path)
		}
		return text
	}
	return v
}

// isTemplate tells whether the text at a path may hold placeholders: there a
// brace that environment brings is only a brace.
func isTemplate(path string) bool {
	steps := strings.Split(path, ".")
	if steps[0] == "auth" && (len(steps) < 2 || steps[1] != "login") {
		return false
	}
	return slices.ContainsFunc(steps, func(s string) bool {
		return slices.Contains([]string{"headers", "query", "json", "form", "text", "path", "variables", "each"}, s)
	})
}
