package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scope holds the values that a request is built from.
type scope struct {
	key, idempotencyKey, actionKey, recordID, subject string

	payload     []byte
	payloadType string // "" is JSON

	id, owner, tag, page string
	from, until          time.Time
	each                 *eachList

	// trial fills whatever is not a key with something that fits anywhere, to
	// learn whether a key can travel.
	trial bool
}

// eachList is what {each} stands for in a batch.
type eachList struct {
	texts  []string          // of an each that is a text
	raws   []json.RawMessage // of an each that is a table
	joined bool
	join   string
}

// value is what a placeholder stands for: raw JSON of the payload, a list, or
// text.
type value struct {
	text string
	raw  json.RawMessage
	list []string
}

// badValue is an entry whose request cannot be built. It names the placeholder
// and never the value, which may be personal.
type badValue struct {
	name string // placeholder
	why  string
}

func (e *badValue) Error() string { return fmt.Sprintf("{%s}: %s", e.name, e.why) }

// errSkip is a path with an optional value that is missing: the block is left
// out.
var errSkip = errors.New("optional value of the path is missing")

// lookup returns the value of a placeholder; ok is false where there is none.
func (s *scope) lookup(name string) (v value, ok bool, err error) {
	text := ""
	switch root, path, _ := strings.Cut(name, "."); root {
	case "key":
		text = s.key
	case "idempotency_key":
		text = s.idempotencyKey
	case "action_key":
		text = s.actionKey
	case "record_id":
		text = s.recordID
	case "subject":
		text = s.subject
	case "id":
		text = s.id
	case "owner":
		text = s.owner
	case "tag":
		text = s.tag
	case "page":
		return value{text: s.page}, s.page != "", nil // also in a trial: a first page
	case "each":
		return s.eachValue()
	case "payload":
		if s.trial {
			return value{text: "x", raw: json.RawMessage(`"x"`)}, true, nil
		}
		return s.payloadValue(path)
	}
	if text == "" && s.trial {
		text = "x"
	}
	return value{text: text}, text != "", nil
}

func (s *scope) eachValue() (value, bool, error) {
	e := s.each
	switch {
	case e == nil:
		return value{}, false, nil
	case e.raws != nil:
		parts := make([][]byte, len(e.raws))
		for i, r := range e.raws {
			parts[i] = r
		}
		raw := append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
		return value{text: string(raw), raw: raw}, true, nil
	case e.joined:
		return value{text: strings.Join(e.texts, e.join)}, true, nil
	}
	raw, err := json.Marshal(e.texts)
	return value{text: strings.Join(e.texts, ","), raw: raw, list: e.texts}, true, err
}

func (s *scope) payloadValue(path string) (value, bool, error) {
	if len(s.payload) == 0 {
		return value{}, false, nil
	}
	if path == "" && s.payloadType != "" {
		return value{text: string(s.payload)}, true, nil
	}
	if s.payloadType != "" {
		return value{}, false, nil // a part of what is not JSON
	}
	raw := json.RawMessage(s.payload)
	if path == "" {
		if !json.Valid(raw) {
			return value{}, false, &badValue{"payload", "it is not JSON"}
		}
		return value{text: string(raw), raw: raw}, true, nil
	}
	raw, ok := rawAt(raw, strings.Split(path, "."))
	if !ok {
		return value{}, false, nil
	}
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return value{}, false, &badValue{"payload." + path, "it cannot be read"}
		}
	}
	return value{text: text, raw: raw}, string(raw) != "null", nil
}

// rawAt returns the bytes of a value as they stand in the text: 19.90 stays
// 19.90.
func rawAt(raw json.RawMessage, path []string) (json.RawMessage, bool) {
	for _, step := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil && m != nil {
			next, ok := m[step]
			if !ok {
				return nil, false
			}
			raw = next
			continue
		}
		var l []json.RawMessage
		i, err := strconv.Atoi(step)
		if err != nil || json.Unmarshal(raw, &l) != nil || i < 0 || i >= len(l) {
			return nil, false
		}
		raw = l[i]
	}
	raw = bytes.TrimSpace(raw)
	return raw, len(raw) > 0
}

// placeholder is {name}, {name?}, {name:encoder}.
type placeholder struct {
	name     string
	optional bool
	encoder  string
}

// template is a text with placeholders.
type template struct {
	parts []part
	text  string // as written, for messages
}

type part struct {
	literal string
	hole    *placeholder
}

// whole returns the placeholder of a template that is one and no more.
func (t *template) whole() *placeholder {
	if len(t.parts) == 1 {
		return t.parts[0].hole
	}
	return nil
}

func (t *template) holes() []*placeholder {
	var hs []*placeholder
	for _, p := range t.parts {
		if p.hole != nil {
			hs = append(hs, p.hole)
		}
	}
	return hs
}

// placing is what a position does to what stands there; nil members leave it
// as it is. value returns why a value may not stand there, "" if it may.
type placing struct {
	literal func(string) string
	value   func(string) (out, why string)
}

// render returns the text. present is false where an optional value is
// missing. A whole template gives the value itself; in a longer one each value
// goes through its encoder first.
func (t *template) render(s *scope, at placing) (text string, present bool, err error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.hole == nil {
			lit := p.literal
			if at.literal != nil {
				lit = at.literal(lit)
			}
			b.WriteString(lit)
			continue
		}
		v, ok, err := p.hole.value(s)
		if err != nil {
			return "", false, err
		}
		if !ok {
			return "", false, nil
		}
		out := v.text
		if p.hole.name != "each" { // its values were encoded when it was made
			name := p.hole.encoder
			if name == "" && t.whole() == nil {
				name = "plain"
			}
			if why := unclean(out); why != "" && !(p.hole.name == "payload" && t.whole() != nil) {
				return "", false, &badValue{p.hole.name, why}
			}
			if enc := encoders[name]; enc != nil {
				if out, err = enc(out); err != nil {
					return "", false, &badValue{p.hole.name, err.Error()}
				}
			}
		}
		if at.value != nil {
			var why string
			if out, why = at.value(out); why != "" {
				return "", false, &badValue{p.hole.name, why}
			}
		}
		b.WriteString(out)
	}
	return b.String(), true, nil
}

// value reads a placeholder. A missing value without ? is an error, but for
// {page}, which the first call leaves out, and {idempotency_key}, which an
// attempt may have to go without.
func (h *placeholder) value(s *scope) (value, bool, error) {
	switch h.name {
	case "from", "until":
		at := s.from
		if h.name == "until" {
			at = s.until
		}
		if s.trial {
			at = time.Unix(0, 0)
		}
		if at.IsZero() {
			return value{}, false, &badValue{h.name, "not known when the action can have been made"}
		}
		return value{text: timeEncoders[h.encoder](at)}, true, nil
	}
	v, ok, err := s.lookup(h.name)
	if err == nil && !ok && !h.optional && h.name != "page" && h.name != "idempotency_key" {
		err = &badValue{h.name, "the entry has none"}
	}
	return v, ok, err
}

// The names a placeholder may have, by where it stands.
var (
	entryNames = []string{"key", "action_key", "record_id", "subject", "payload"}
	staticOnly = []string{}
)

func names(more ...string) []string { return append(slices.Clone(entryNames), more...) }

var holeForm = regexp.MustCompile(`^([a-z_]+(?:\.[^{}:?]+)?)(\?)?(?::([a-z0-9_]+))?(\?)?$`)

// parse compiles a text. allowed are the placeholders that have a value there,
// besides settings and let, which are put in at once.
func (d *definition) parse(text string, allowed []string) (*template, error) {
	t := &template{text: text}
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			t.parts = append(t.parts, part{literal: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "{{"):
			lit.WriteByte('{')
			i += 2
		case strings.HasPrefix(text[i:], "}}"):
			lit.WriteByte('}')
			i += 2
		case text[i] == '}':
			return nil, fmt.Errorf("a } stands alone; write }} for a brace")
		case text[i] == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("a { is not closed; write {{ for a brace")
			}
			inner := text[i+1 : i+end]
			i += end + 1
			h, err := d.hole(inner, allowed)
			if err != nil {
				return nil, err
			}
			if isConstant(h.name) {
				v, err := d.constantText(h, len(inner)+2 == len(text))
				if err == nil {
					err = noHoles(h.name, v)
				}
				if err != nil {
					return nil, err
				}
				lit.WriteString(v)
				continue
			}
			flush()
			t.parts = append(t.parts, part{hole: h})
		default:
			lit.WriteByte(text[i])
			i++
		}
	}
	flush()
	return t, nil
}

// entryHole is a placeholder that speaks of an entry.
var entryHole = regexp.MustCompile(`\{(?:key|idempotency_key|action_key|record_id|subject|owner|each|page|from|until|payload(?:\.[^{}]*)?)\??(?::[a-z0-9_]+)?\??\}`)

// noHoles refuses a let that holds a placeholder: it would be sent as it is.
func noHoles(name, text string) error {
	if ref := entryHole.FindString(text); ref != "" && strings.HasPrefix(name, "let.") {
		return fmt.Errorf("{%s} holds %s, which has no value in a constant; write it in the request itself", name, ref)
	}
	return nil
}

func isConstant(name string) bool {
	return strings.HasPrefix(name, "settings.") || strings.HasPrefix(name, "let.")
}

func (d *definition) hole(inner string, allowed []string) (*placeholder, error) {
	m := holeForm.FindStringSubmatch(inner)
	if m == nil {
		return nil, fmt.Errorf("{%s} is no placeholder; write {name}, {name?} or {name:encoder}, and {{ for a brace", inner)
	}
	h := &placeholder{name: m[1], optional: m[2] != "" || m[4] != "", encoder: m[3]}
	root, path, dotted := strings.Cut(h.name, ".")
	switch {
	case isConstant(h.name):
	case dotted && root != "payload":
		return nil, fmt.Errorf("{%s}: %s has no parts; write {%s}", h.name, root, root)
	case dotted && (path == "" || strings.Contains(path, "*") || strings.Contains(path, "$")):
		return nil, fmt.Errorf("{%s}: write one path with dots, such as {payload.customer.id}", h.name)
	case !slices.Contains(allowed, root):
		return nil, fmt.Errorf("unknown placeholder {%s} here; %s", h.name, suggest(root, append(slices.Clone(allowed), "settings", "let")))
	}
	isTime := root == "from" || root == "until"
	switch {
	case isTime && timeEncoders[h.encoder] == nil:
		return nil, fmt.Errorf("{%s} needs one of the encoders %s; write {%s:rfc3339}", h.name, strings.Join(slices.Sorted(maps.Keys(timeEncoders)), ", "), h.name)
	case !isTime && h.encoder != "" && encoders[h.encoder] == nil:
		return nil, fmt.Errorf("unknown encoder %q; %s", h.encoder, suggest(h.encoder, encoderNames()))
	}
	return h, nil
}

// constantText resolves {settings.x} or {let.x}. Inside a longer text a setting
// goes through its encoder, plain unless named; a let is the author's own text.
func (d *definition) constantText(h *placeholder, whole bool) (string, error) {
	v, err := d.constantValue(h.name)
	if err != nil {
		return "", err
	}
	text, ok := scalarText(v)
	if !ok {
		return "", fmt.Errorf("{%s} is %s; it can only stand alone", h.name, kindName(v))
	}
	name := h.encoder
	if name == "" && !whole && strings.HasPrefix(h.name, "settings.") {
		name = "plain"
	}
	if enc := encoders[name]; enc != nil {
		text, err = enc(text)
		if err != nil {
			return "", fmt.Errorf("{%s}: %w", h.name, err)
		}
	}
	if why := unclean(text); why != "" {
		return "", fmt.Errorf("{%s}: %s", h.name, why)
	}
	return text, nil
}

// constant replaces the settings and lets in a text that is no template: a
// path, a list member. encode, if not nil, writes each value.
func (d *definition) constant(text string, encode func(string) (string, error)) (string, error) {
	var firstErr error
	out := constantForm.ReplaceAllStringFunc(text, func(ref string) string {
		v, err := d.constantValue(strings.Trim(ref, "{}"))
		s, ok := scalarText(v)
		if err == nil && !ok {
			err = fmt.Errorf("%s is %s; it cannot stand in a path", ref, kindName(v))
		}
		if err == nil && encode != nil {
			s, err = encode(s)
		}
		if err != nil && firstErr == nil {
			firstErr = err
		}
		return s
	})
	return out, firstErr
}

var constantForm = regexp.MustCompile(`\{(?:settings|let)\.[A-Za-z0-9_-]+\}`)

// graphqlHole is a placeholder in GraphQL, where braces are the language: it
// needs an encoder, but for {each}.
var graphqlHole = regexp.MustCompile(`\{((?:key|idempotency_key|action_key|record_id|subject|id|owner|tag|from|until|payload\.[A-Za-z0-9_.-]+|settings\.[A-Za-z0-9_-]+|let\.[A-Za-z0-9_-]+)\??:[a-z0-9_]+|each)\}`)

func (d *definition) parseGraphQL(text string, allowed []string) (*template, error) {
	t := &template{text: text}
	last := 0
	for _, at := range graphqlHole.FindAllStringSubmatchIndex(text, -1) {
		h, err := d.hole(text[at[2]:at[3]], allowed)
		if err != nil {
			return nil, err
		}
		lit := text[last:at[0]]
		last = at[1]
		if isConstant(h.name) {
			v, err := d.constantText(h, false)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part{literal: lit + v})
			continue
		}
		if lit != "" {
			t.parts = append(t.parts, part{literal: lit})
		}
		t.parts = append(t.parts, part{hole: h})
	}
	if last < len(text) || len(t.parts) == 0 {
		t.parts = append(t.parts, part{literal: text[last:]})
	}
	return t, nil
}

// node is a JSON value with placeholders: of a body, of variables, of query
// parameters.
type node struct {
	constant any              // neither of the below: as it is
	text     *template        // a string
	members  map[string]*node // an object
	list     []*node
	isList   bool
}

// node compiles a TOML value.
func (d *definition) node(p *problems, path string, v any, allowed []string) *node {
	switch v := v.(type) {
	case string:
		if m := constantForm.FindString(v); m != "" && m == v {
			name := strings.Trim(v, "{}")
			c, err := d.constantValue(name)
			for _, text := range leaves(c) {
				if err == nil {
					err = noHoles(name, text)
				}
			}
			if err != nil {
				p.add(path, "%v", err)
				return nil
			}
			return &node{constant: c}
		}
		t, err := d.parse(v, allowed)
		if err != nil {
			p.add(path, "%v", err)
			return nil
		}
		if len(t.holes()) == 0 {
			lit := ""
			for _, part := range t.parts {
				lit += part.literal
			}
			return &node{constant: lit}
		}
		return &node{text: t}
	case map[string]any:
		n := &node{members: map[string]*node{}}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			resolved, err := d.constant(name, nil)
			if err != nil {
				p.add(join(path, name), "%v", err)
				continue
			}
			if m := d.node(p, join(path, name), v[name], allowed); m != nil {
				n.members[resolved] = m
			}
		}
		return n
	case []any:
		n := &node{isList: true}
		for i, e := range v {
			if m := d.node(p, join(path, i), e, allowed); m != nil {
				n.list = append(n.list, m)
			}
		}
		return n
	case int64, float64, bool:
		return &node{constant: v}
	}
	p.add(path, "is %s; write text in quotes", kindName(v))
	return nil
}

// holes returns every placeholder in n.
func (n *node) holes() []*placeholder {
	if n == nil {
		return nil
	}
	var hs []*placeholder
	if n.text != nil {
		hs = n.text.holes()
	}
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		hs = append(hs, n.members[name].holes()...)
	}
	for _, e := range n.list {
		hs = append(hs, e.holes()...)
	}
	return hs
}

// json renders n. present is false where an optional value is missing: the
// member is left out.
func (n *node) json(s *scope) (raw json.RawMessage, present bool, err error) {
	switch {
	case n.text != nil:
		if h := n.text.whole(); h != nil && h.encoder == "" {
			v, ok, err := h.value(s)
			if err != nil || !ok {
				return nil, false, err
			}
			if v.raw != nil {
				return v.raw, true, nil
			}
			if why := unclean(v.text); why != "" && h.name != "each" && h.name != "payload" {
				return nil, false, &badValue{h.name, why}
			}
			return json.RawMessage(jsonText(v.text)), true, nil
		}
		text, ok, err := n.text.render(s, placing{})
		return json.RawMessage(jsonText(text)), ok, err
	case n.members != nil:
		var b bytes.Buffer
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(n.members)) {
			raw, ok, err := n.members[name].json(s)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				continue
			}
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			b.WriteString(jsonText(name))
			b.WriteByte(':')
			b.Write(raw)
		}
		b.WriteByte('}')
		return b.Bytes(), true, nil
	case n.isList:
		var b bytes.Buffer
		b.WriteByte('[')
		for _, e := range n.list {
			raw, ok, err := e.json(s)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				continue
			}
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			b.Write(raw)
		}
		b.WriteByte(']')
		return b.Bytes(), true, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(n.constant)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true, err
}

// texts renders n as the values of a query parameter or header: none, one, or
// several.
func (n *node) texts(s *scope, at placing) ([]string, error) {
	switch {
	case n.text != nil:
		if h := n.text.whole(); h != nil && h.name == "each" {
			v, _, err := h.value(s)
			if err == nil && v.list != nil {
				return v.list, nil
			}
			return []string{v.text}, err
		}
		text, ok, err := n.text.render(s, at)
		if err != nil || !ok {
			return nil, err
		}
		return []string{text}, nil
	case n.isList:
		var out []string
		for _, e := range n.list {
			ts, err := e.texts(s, at)
			if err != nil {
				return nil, err
			}
			out = append(out, ts...)
		}
		return out, nil
	}
	if l, ok := n.constant.([]any); ok {
		var out []string
		for _, e := range l {
			text, _ := scalarText(e)
			out = append(out, text)
		}
		return out, nil
	}
	text, _ := scalarText(n.constant)
	return []string{text}, nil
}
