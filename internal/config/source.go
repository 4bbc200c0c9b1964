package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"gopkg.in/yaml.v3"

	"github.com/recovery-ledger/reconcile/internal/textfile"
)

// source is one TOML file, or one document of a YAML file: its values, and the
// line where each of them stands. Both forms come to the same shape, so that
// one reader checks both.
type source struct {
	name  string           // as shown to people
	root  map[string]any   // string, int64, float64, bool, []any, map[string]any; nil for a YAML null
	lines map[string]place // by dotted path; a list's items are numbered from 0
}

// place is where a value stands, both counted from 1; 0 is not known.
type place struct{ line, column int }

// place returns the place of a path, else the line alone of the nearest thing
// around it.
func (s *source) place(path string) place {
	if p, ok := s.lines[path]; ok {
		return p
	}
	for path != "" {
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
		if p, ok := s.lines[path]; ok {
			return place{line: p.line}
		}
	}
	return place{}
}

func (s *source) line(path string) int { return s.place(path).line }

// has says whether the file mentions a path.
func (s *source) has(path string) bool {
	_, ok := s.lines[path]
	return ok
}

// mark keeps the first place where a path is mentioned.
func (s *source) mark(path string, at place) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = at
	}
}

// join puts a key behind a path; either may be empty.
func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// utf8BOM is what some editors put before a file.
var utf8BOM = []byte("\xef\xbb\xbf")

// notText says why a file that its parser refused is none that it could read,
// and what to do; "" where the parser knows better.
func notText(data []byte) string {
	if why := textfile.NotText(data); why != "" {
		return why
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return "is no text file; name another, or write it anew"
	}
	return ""
}

// readTOML reads a whole TOML file. A file that is not TOML is one mistake: the
// parser cannot go on after it.
func readTOML(name string, data []byte) (*source, *FieldError) {
	data = bytes.TrimPrefix(data, utf8BOM)
	s := &source{name: name, root: map[string]any{}, lines: map[string]place{"": {1, 1}}}
	if err := toml.Unmarshal(data, &s.root); err != nil {
		if why := notText(data); why != "" {
			return nil, &FieldError{File: name, Message: why}
		}
		fe := &FieldError{File: name, Message: strings.TrimPrefix(err.Error(), "toml: ")}
		// Only the message: the excerpt that the parser offers may show a
		// neighbouring secret.
		if de := (*toml.DecodeError)(nil); errors.As(err, &de) {
			fe.Line, _ = de.Position()
		}
		return nil, fe
	}
	s.indexTOML(data)
	return s, nil
}

// indexTOML notes the line of every key of a file that is known to parse.
func (s *source) indexTOML(data []byte) {
	var ends []int // offsets of the line ends
	for i, b := range data {
		if b == '\n' {
			ends = append(ends, i)
		}
	}
	placeOf := func(n *unstable.Node) place {
		offset := int(n.Raw.Offset)
		before := sort.SearchInts(ends, offset) // line ends before it
		begins := 0
		if before > 0 {
			begins = ends[before-1] + 1
		}
		return place{before + 1, offset - begins + 1}
	}

	last := map[string]int{} // path of a [[list]] -> number of its present item

	// header walks the parts of a [table] or [[list]], into the present item of
	// every list on the way.
	header := func(n *unstable.Node) string {
		path := ""
		for it := n.Key(); it.Next(); {
			part, at := it.Node(), placeOf(it.Node())
			path = join(path, string(part.Data))
			s.mark(path, at)
			if it.IsLast() && n.Kind == unstable.ArrayTable {
				i, seen := last[path]
				if seen {
					i++
				}
				last[path] = i
				path = join(path, strconv.Itoa(i))
				s.mark(path, at)
			} else if i, ok := last[path]; ok {
				path = join(path, strconv.Itoa(i))
			}
		}
		return path
	}

	var value func(path string, n *unstable.Node, at place)
	keyValue := func(path string, n *unstable.Node) {
		var at place
		for it := n.Key(); it.Next(); {
			at = placeOf(it.Node())
			path = join(path, string(it.Node().Data))
			s.mark(path, at)
		}
		value(path, n.Value(), at)
	}
	value = func(path string, n *unstable.Node, at place) {
		switch n.Kind {
		case unstable.InlineTable:
			for it := n.Children(); it.Next(); {
				keyValue(path, it.Node())
			}
		case unstable.Array:
			i := 0
			for it := n.Children(); it.Next(); i++ {
				item := join(path, strconv.Itoa(i))
				// A list within a list has no place of its own.
				if it.Node().Raw.Length > 0 {
					at = placeOf(it.Node())
				}
				s.mark(item, at)
				value(item, it.Node(), at)
			}
		}
	}

	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = header(n)
		case unstable.KeyValue:
			keyValue(table, n)
		}
	}
}

// yamlLine finds the line in an error of the YAML parser, which has no type.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// readYAML reads the documents of a YAML file; empty ones are left out.
func readYAML(name string, data []byte) ([]*source, Errors) {
	var sources []*source
	var errs Errors
	dec := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, utf8BOM)))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return sources, errs
		}
		if err != nil {
			if why := notText(data); why != "" {
				return sources, append(errs, &FieldError{File: name, Message: why})
			}
			fe := &FieldError{File: name, Message: yamlLine.ReplaceAllString(err.Error(), "")}
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
				fe.Line, _ = strconv.Atoi(m[1])
			}
			return sources, append(errs, fe)
		}
		c := yamlReader{s: &source{name: name, lines: map[string]place{}}}
		root := c.value("", &doc, 0)
		errs = append(errs, c.errs...)
		switch m := root.(type) {
		case nil:
		case map[string]any:
			c.s.root = m
			sources = append(sources, c.s)
		default:
			errs = append(errs, &FieldError{File: name, Line: c.s.line(""),
				Message: `one document is one policy; begin with "workflow: …" and divide several policies by a line "---"`})
		}
	}
}

// yamlReader turns nodes into values, noting lines.
type yamlReader struct {
	s     *source
	errs  Errors
	nodes int
}

// Far beyond any policy: a handful of anchors that name each other could
// otherwise unfold without end.
const (
	yamlNodes = 20_000
	yamlDepth = 50
)

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

func (r *yamlReader) fail(n *yaml.Node, path, format string, args ...any) {
	r.errs = append(r.errs, &FieldError{File: r.s.name, Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (r *yamlReader) value(path string, n *yaml.Node, depth int) any {
	r.nodes++
	if r.nodes > yamlNodes || depth > yamlDepth {
		if r.nodes <= yamlNodes || r.nodes == yamlNodes+1 {
			r.fail(n, "", "too many values, or nested too deep; write the policy without anchors")
		}
		return nil
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(path, n.Content[0], depth+1)
	case yaml.AliasNode:
		return r.value(path, n.Alias, depth+1)
	case yaml.MappingNode:
		r.s.mark(path, placeOf(n))
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode {
				r.fail(k, path, "a key is a list or a table; write a word")
				continue
			}
			sub := join(path, k.Value)
			if _, twice := m[k.Value]; twice {
				r.fail(k, sub, "stands twice (first on line %d); remove one", r.s.line(sub))
				continue
			}
			r.s.mark(sub, placeOf(k))
			m[k.Value] = r.value(sub, n.Content[i+1], depth+1)
		}
		return m
	case yaml.SequenceNode:
		r.s.mark(path, placeOf(n))
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			item := join(path, strconv.Itoa(i))
			r.s.mark(item, placeOf(c))
			list[i] = r.value(item, c, depth+1)
		}
		return list
	}
	r.s.mark(path, placeOf(n))
	return yamlScalar(n)
}

// yamlScalar keeps text whatever is neither number, truth value nor nothing:
// 72h and 2026-01-01 alike.
func yamlScalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil {
			return f
		}
	}
	return n.Value
}
