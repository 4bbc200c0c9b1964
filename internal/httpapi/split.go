package httpapi

import "bytes"

// form is how a body holds its items, and so how the answer holds theirs.
type form int

const (
	formOne   form = iota // one object
	formArray             // a JSON array
	formLines             // one object a line, or several without anything between them
)

// split cuts a body into items without reading them, so that one that is broken
// takes no other with it. With lines each line is an item; else an array is told
// by its first byte, and objects that follow one another end where their braces
// close. No item holds blanks around it; blank lines are none. The items are
// parts of body. closed is false for an array that has no end.
func split(body []byte, lines bool) (how form, items [][]byte, closed bool) {
	body = trim(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	switch {
	case lines:
		for line := range bytes.Lines(body) {
			if len(items) > itemsMax {
				break // refused: too many
			}
			if line = trim(line); len(line) > 0 {
				items = append(items, line)
			}
		}
		return formLines, items, true
	case len(body) == 0:
		return formOne, nil, true
	case body[0] == '[':
		items, closed = splitArray(body)
		return formArray, items, closed
	}
	items = splitValues(body)
	if len(items) == 1 {
		return formOne, items, true
	}
	return formLines, items, true
}

// trim takes blanks of JSON away.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// nesting follows brackets through a text, strings left out.
type nesting struct {
	depth    int
	inString bool
	escaped  bool
}

// next says whether the byte stands outside of strings.
func (n *nesting) next(c byte) bool {
	switch {
	case n.escaped:
		n.escaped = false
	case n.inString && c == '\\':
		n.escaped = true
	case c == '"':
		n.inString = !n.inString
	case n.inString:
	case c == '{' || c == '[':
		n.depth++
		return true
	case c == '}' || c == ']':
		n.depth--
		return true
	default:
		return true
	}
	return false
}

// splitArray cuts at the commas of the outermost array. What stands behind its
// end, or where a brace closes it, is an item too, so that it is not lost
// without a word. closed is false where its bracket is missing.
func splitArray(body []byte) (items [][]byte, closed bool) {
	var n nesting
	start := 0
	for i, c := range body {
		if !n.next(c) {
			continue
		}
		switch {
		case i == 0:
			start = 1
		case n.depth == 1 && c == ',':
			if len(items) > itemsMax {
				return items, true // refused: too many
			}
			items = append(items, trim(body[start:i]))
			start = i + 1
		case n.depth == 0 && c == ']':
			if last := trim(body[start:i]); len(last) > 0 || len(items) > 0 {
				items = append(items, last)
			}
			if rest := trim(body[i+1:]); len(rest) > 0 {
				items = append(items, rest)
			}
			return items, true
		case n.depth == 0: // a brace that closes nothing
			n.depth = 1
		}
	}
	if last := trim(body[start:]); len(last) > 0 {
		items = append(items, last)
	}
	return items, false
}

// splitValues cuts where an object or an array ends. What is neither stays with
// what follows it, so that it is not lost without a word.
func splitValues(body []byte) [][]byte {
	var n nesting
	var items [][]byte
	start := 0
	for i, c := range body {
		if !n.next(c) || n.depth > 0 || c != '}' && c != ']' {
			continue
		}
		if len(items) > itemsMax {
			return items // refused: too many
		}
		items = append(items, trim(body[start:i+1]))
		start, n.depth = i+1, 0
	}
	if rest := trim(body[start:]); len(rest) > 0 {
		items = append(items, rest)
	}
	return items
}
