package config

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/nearest"
)

// Setting is one resolved value and where it came from.
type Setting struct {
	Key    string // "ledger.lease"; of a policy file "policies/lead.yaml: retry.max_age"
	Value  string // as it would be written; secrets are "[redacted]"
	Source string // "reconcile.toml:12", or "default"
}

// reader gathers what one Load finds. It never stops at a mistake: all are
// reported together.
type reader struct {
	env      func(string) (string, bool)
	errs     Errors
	warnings []string
	settings []Setting
	secrets  []string          // texts to mask wherever they show up
	written  map[string]string // file and path -> text before the environment was put in, where that made a difference
	keys     map[string]bool   // every key asked for, names and numbers as "*"
}

func (r *reader) warn(file string, line int, format string, args ...any) {
	where := file
	if line > 0 {
		where = fmt.Sprintf("%s:%d", file, line)
	}
	r.warnings = append(r.warnings, where+": "+fmt.Sprintf(format, args...))
}

// table is one table of a file, read key by key. What is asked for is known;
// what was never asked for is an unknown key. A table that is not there reads
// like an empty one, so that every default is noted.
type table struct {
	r       *reader
	src     *source
	path    string
	pattern string // path, with names and numbers as "*"
	label   string // put before the key of a Setting
	m       map[string]any
	known   []string
}

// root makes the table of a whole file. pattern stands before the keys of a
// file that is itself one policy.
func (r *reader) root(src *source, label, pattern string, read func(*table)) {
	t := &table{r: r, src: src, label: label, pattern: pattern, m: src.root}
	read(t)
	t.finish()
}

// value marks a key as known and returns what it holds. A key that a YAML file
// leaves empty is a mistake: nobody can tell what was meant.
func (t *table) value(key string) (any, bool) {
	t.know(key)
	v, ok := t.m[key]
	if ok && v == nil {
		t.refuse(key, "has no value; give it one, or remove the line for the default")
		return nil, false
	}
	return v, ok
}

func (t *table) know(key string) {
	t.known = append(t.known, key)
	t.r.keys[join(t.pattern, key)] = true
}

func (t *table) has(key string) bool { return t.m[key] != nil }

// refuse reports a mistake in the value of a key.
func (t *table) refuse(key, format string, args ...any) {
	path := join(t.path, key)
	at := t.src.place(path)
	t.r.errs = append(t.r.errs, &FieldError{File: t.src.name, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// note keeps a resolved value for Describe.
func (t *table) note(key, value string) {
	s := Setting{Key: t.label + join(t.path, key), Value: value, Source: "default"}
	if t.has(key) {
		s.Source = t.src.name
		if n := t.src.line(join(t.path, key)); n > 0 {
			s.Source = fmt.Sprintf("%s:%d", t.src.name, n)
		}
	}
	t.r.settings = append(t.r.settings, s)
}

// finish reports every key that nothing asked for.
func (t *table) finish() {
	var unknown []string
	known := map[string]bool{}
	for _, k := range t.known {
		known[k] = true
	}
	for k := range t.m {
		if !known[k] {
			unknown = append(unknown, k)
		}
	}
	sort.Strings(unknown)
	for _, k := range unknown {
		if remedy, ok := otherNames[k]; ok && known[remedy.key] {
			t.refuse(k, "is not a key; write %s", remedy.text)
			continue
		}
		hint := nearest.Hint(k, t.known)
		if hint == "" {
			hint = "; known here: " + strings.Join(sorted(t.known), ", ")
		}
		t.refuse(k, "is not a key%s", hint)
	}
}

// otherNames are names that other tools use for what we call otherwise.
var otherNames = map[string]struct{ key, text string }{
	"max_retries": {"max_attempts", "max_attempts, which counts the first try too: one more than the retries"},
	"retries":     {"max_attempts", "max_attempts, which counts the first try too: one more than the retries"},
}

func sorted(words []string) []string {
	s := append([]string(nil), words...)
	sort.Strings(s)
	return s
}

// kindOf says what a value is, for people.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case int64, float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date"
}

// text returns the expanded text of a key; ok is false where it is not set or
// not usable.
func (t *table) text(key string) (s string, ok bool) {
	v, ok := t.value(key)
	if !ok {
		return "", false
	}
	return t.expanded(key, v)
}

// address is text for an address.
func (t *table) address(key string) (string, bool) {
	v, ok := t.value(key)
	if !ok {
		return "", false
	}
	return t.expandedBy(expandURL, key, v)
}

// expanded reads v, which stands at key, as text.
func (t *table) expanded(key string, v any) (string, bool) {
	return t.expandedBy(expand, key, v)
}

func (t *table) expandedBy(expand func(string, func(string) (string, bool)) (string, error), key string, v any) (string, bool) {
	raw, isText := v.(string)
	if !isText {
		t.refuse(key, "is %s; write text in quotes", kindOf(v))
		return "", false
	}
	s, err := expand(raw, t.r.env)
	if err != nil {
		t.refuse(key, "%v", err)
		return "", false
	}
	if s != raw {
		t.r.written[t.src.name+" "+join(t.path, key)] = raw
	}
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		t.refuse(key, "holds a control character (a line end?); remove it")
		return "", false
	}
	return s, true
}

// refuseText reports why a text is not usable. Where the text came from the
// environment the message shows the name, not the value.
func (t *table) refuseText(key, s string, err error) {
	msg := err.Error()
	if raw, ok := t.r.written[t.src.name+" "+join(t.path, key)]; ok && s != "" {
		// Quoted as %q would: the quotes are no part of it.
		quoted := strconv.Quote(s)
		msg = strings.ReplaceAll(strings.ReplaceAll(msg, quoted[1:len(quoted)-1], raw), s, raw)
	}
	t.refuse(key, "%s", msg)
}

// textOr is text with a default; shown is what Describe prints for the default
// ("" for the default itself).
func (t *table) textOr(key, def, shown string) string {
	s, ok := t.text(key)
	if !ok {
		s = def
		t.note(key, or(shown, s))
		return s
	}
	t.note(key, s)
	return s
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// choice is one of some words.
func (t *table) choice(key, def, shown string, words ...string) string {
	s, ok := t.text(key)
	if !ok {
		t.note(key, or(shown, def))
		return def
	}
	for _, w := range words {
		if s == w {
			t.note(key, s)
			return s
		}
	}
	t.refuseText(key, s, fmt.Errorf("%q is not known%s", s, or(nearest.Hint(s, words), "; write "+oneOf(words))))
	return def
}

// secret is a text that is never shown.
func (t *table) secret(key string) Secret {
	s, _ := t.text(key)
	if s != "" {
		t.r.secrets = append(t.r.secrets, s)
		t.note(key, redacted)
	} else {
		t.note(key, "not set")
	}
	return NewSecret(s)
}

// truth is true or false.
func (t *table) truth(key string, def bool) bool {
	v, ok := t.value(key)
	b, isBool := v.(bool)
	if ok && !isBool {
		t.refuse(key, "is %s; write true or false", kindOf(v))
	}
	if !ok || !isBool {
		b = def
	}
	t.note(key, strconv.FormatBool(b))
	return b
}

// duration reads "30s", "24h", "7d"; a number without a unit is refused.
func (t *table) duration(key string, def time.Duration) time.Duration {
	return t.durationOr(key, def, formatDuration(def))
}

// durationOr is duration with a wording of the default.
func (t *table) durationOr(key string, def time.Duration, shown string) time.Duration {
	v, ok := t.value(key)
	if !ok {
		t.note(key, shown)
		return def
	}
	switch n := v.(type) {
	case int64, float64:
		t.refuse(key, `%v has no unit; write for example "%vs", "%vm" or "%vh" in quotes`, n, n, n, n)
		return def
	}
	s, ok := t.expanded(key, v)
	if !ok {
		return def
	}
	d, err := duration.Parse(s)
	if err != nil {
		t.refuseText(key, s, err)
		return def
	}
	t.note(key, s)
	return d
}

// formatDuration writes a default as the documents do: hours up to three days.
func formatDuration(d time.Duration) string {
	if h := d / time.Hour; d%time.Hour == 0 && h > 0 && h <= 72 {
		return fmt.Sprintf("%dh", h)
	}
	return duration.Format(d)
}

// number reads a number between least and most.
func (t *table) number(key string, def, least, most float64) float64 {
	f := def
	if v, ok := t.value(key); ok {
		switch n := v.(type) {
		case int64:
			f = float64(n)
		case float64:
			f = n
		default:
			t.refuse(key, "is %s; write a number", kindOf(v))
		}
		if math.IsNaN(f) || f < least || f > most {
			t.refuse(key, "%v is refused; write a number from %v to %v", f, least, most)
			f = def
		}
	}
	t.note(key, strconv.FormatFloat(f, 'g', -1, 64))
	return f
}

// texts reads a list of texts, empty where it is not set. check, if given, sees
// each of them with the key that it stands at.
func (t *table) texts(key string, check func(at, s string)) []string {
	var list []string
	if v, ok := t.value(key); ok {
		list = t.textList(key, v, check)
	}
	t.note(key, or(strings.Join(list, ", "), "none"))
	return list
}

// textList reads v, which stands at key. The list is never nil: set and empty
// is not the same as unset.
func (t *table) textList(key string, v any, check func(at, s string)) []string {
	list := []string{}
	items, ok := v.([]any)
	if !ok {
		t.refuse(key, `is %s; write a list, like ["a", "b"]`, kindOf(v))
		return list
	}
	for i, item := range items {
		at := join(key, strconv.Itoa(i))
		s, ok := t.expanded(at, item)
		if !ok {
			continue
		}
		list = append(list, s)
		if check != nil {
			check(at, s)
		}
	}
	return list
}

// sub reads the table of a key. It says whether the table is there.
func (t *table) sub(key string, read func(*table)) bool {
	v, ok := t.value(key)
	m, isTable := v.(map[string]any)
	if ok && !isTable {
		t.refuse(key, "is %s; write a table: %s = { … }", kindOf(v), key)
	}
	s := &table{r: t.r, src: t.src, path: join(t.path, key), pattern: join(t.pattern, key), label: t.label, m: m}
	read(s)
	s.finish()
	return ok && isTable
}

// each reads tables that have names: [owners.X]. They come sorted by name.
func (t *table) each(key string, read func(name string, t *table)) {
	v, ok := t.value(key)
	if !ok {
		return
	}
	m, isTable := v.(map[string]any)
	if !isTable {
		t.refuse(key, "is %s; write a table for each, like [%s.NAME]", kindOf(v), key)
		return
	}
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		entry, isTable := m[n].(map[string]any)
		if !isTable {
			t.refuse(join(key, n), "is %s; write a table, like [%s.NAME]", kindOf(m[n]), key)
			continue
		}
		s := &table{r: t.r, src: t.src, path: join(join(t.path, key), n), pattern: join(join(t.pattern, key), "*"), label: t.label, m: entry}
		read(n, s)
		s.finish()
	}
}

// list reads a list of tables: [[policy]].
func (t *table) list(key string, read func(i int, t *table)) {
	v, ok := t.value(key)
	if !ok {
		return
	}
	items, isList := v.([]any)
	if !isList {
		t.refuse(key, "is %s; write each one under a heading of its own: [[%s]]", kindOf(v), key)
		return
	}
	for i, item := range items {
		path := join(key, strconv.Itoa(i))
		m, isTable := item.(map[string]any)
		if !isTable {
			t.refuse(path, "is %s; write a table", kindOf(item))
			continue
		}
		s := &table{r: t.r, src: t.src, path: join(t.path, path), pattern: join(t.pattern, key), label: t.label, m: m}
		read(i, s)
		s.finish()
	}
}
