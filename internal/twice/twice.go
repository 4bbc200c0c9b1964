// Package twice finds members that stand twice in an object of a JSON text.
// Readers differ on which of the two holds, so what such a text says is not
// known. Source: RFC 8259, 4.
package twice

import (
	"bytes"
	"encoding/json"
	"slices"
)

// fewNames is how many names of one object are compared one by one: below that
// a set costs more than it saves.
const fewNames = 16

// level is an object or a list that is open where the walk stands.
type level struct {
	object bool
	skip   bool            // names in here may stand twice
	from   int             // its names are names[from:], up to those of the next level
	index  map[string]bool // of more than fewNames names
}

// Member returns the first member that stands twice in one object, at any
// depth: the names on the way to it, its own last, lists left out; nil if there
// is none. Names are compared as they read, escapes undone. Values of members
// named skip ("" for none) are not looked into. b must be valid JSON.
//
// It is one walk with a stack of its own: a text may be nested ten thousand
// deep.
func Member(b []byte, skip string) []string {
	// Room on the stack: most texts need no more, and so no allocation.
	var levels [8]level
	var room [32][]byte
	stack, names := levels[:0], room[:0]
	name := false     // a name comes next
	skipping := false // the value that comes is not looked into
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			name = b[i] == '{'
			skipping = skipping || len(stack) > 0 && stack[len(stack)-1].skip
			stack = append(stack, level{object: name, skip: skipping, from: len(names)})
			skipping = false
		case '}', ']':
			names = names[:stack[len(stack)-1].from]
			stack, name, skipping = stack[:len(stack)-1], false, false
		case ',':
			name, skipping = len(stack) > 0 && stack[len(stack)-1].object, false
		case '"':
			end := endOfString(b, i)
			if name {
				name = false
				if l := &stack[len(stack)-1]; !l.skip {
					n := nameOf(b[i:end])
					twice := l.has(n, names[l.from:])
					names = append(names, n)
					if twice {
						return path(stack, names)
					}
					if l.index == nil && len(names)-l.from > fewNames {
						l.index = make(map[string]bool, 4*fewNames)
						for _, o := range names[l.from:] {
							l.index[string(o)] = true
						}
					}
					skipping = skip != "" && string(n) == skip
				}
			}
			i = end - 1
		}
	}
	return nil
}

// has tells whether n is among the names of an object so far, and keeps it in
// the index where there is one.
func (l *level) has(n []byte, names [][]byte) bool {
	if l.index == nil {
		return slices.ContainsFunc(names, func(o []byte) bool { return bytes.Equal(o, n) })
	}
	before := l.index[string(n)]
	l.index[string(n)] = true
	return before
}

// path is the last name of each open object.
func path(stack []level, names [][]byte) []string {
	var parts []string
	for k, l := range stack {
		last := len(names)
		if k+1 < len(stack) {
			last = stack[k+1].from
		}
		if last > l.from {
			parts = append(parts, string(names[last-1]))
		}
	}
	return parts
}

// nameOf is the name that a text in quotes stands for.
func nameOf(quoted []byte) []byte {
	n := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(n, '\\') < 0 {
		return n
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // the whole text is valid, so this is too
	return []byte(text)
}

// endOfString is where the text that begins at i has ended, its quotes included.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}
