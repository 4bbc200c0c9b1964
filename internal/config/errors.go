package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// FieldError is one mistake in a config or policy file, and what to do about
// it. Line is 0 where no line is to blame (a file that is missing); Path is the
// dotted path of the key ("policy.0.retry.max_attempts"), empty for the file as
// a whole.
type FieldError struct {
	File    string
	Line    int
	Column  int // of what Path names, in bytes, not printed; 0 where the file does not mention it
	Path    string
	Message string
}

func (e *FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are all mistakes found in one reading, by file and line. Each prints
// on a line of its own.
type Errors []*FieldError

func (es Errors) Error() string {
	lines := make([]string, 0, min(len(es), mostShown+1))
	for i, e := range es {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("and %d more; mend these first", len(es)-i))
			break
		}
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}

// mostShown is how many mistakes are printed: more than a screen holds, and the
// first still stand on it when scrolled back.
const mostShown = 50

// once leaves out what was said of the same place in the same words: what a YAML
// alias repeats is one mistake, under the first of its paths. Where the file does
// not mention a path itself, the path is what tells two mistakes apart.
func (es Errors) once() Errors {
	seen := map[FieldError]bool{}
	return slices.DeleteFunc(slices.Clone(es), func(e *FieldError) bool {
		said := *e
		if said.Column > 0 {
			said.Path = ""
		}
		again := seen[said]
		seen[said] = true
		return again
	})
}

// Unwrap gives each mistake to errors.As.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// orNil sorts the mistakes, each once, and returns nil when there are none: the
// files in the order in which they were read, then by line.
func (es Errors) orNil() error {
	if len(es) == 0 {
		return nil
	}
	es = es.once()
	order := map[string]int{}
	for _, e := range es {
		if _, ok := order[e.File]; !ok {
			order[e.File] = len(order)
		}
	}
	sort.SliceStable(es, func(i, j int) bool {
		if es[i].File != es[j].File {
			return order[es[i].File] < order[es[j].File]
		}
		return es[i].Line < es[j].Line
	})
	return es
}

// oneOf writes the accepted words of a key: "a", "b" or "c".
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}
