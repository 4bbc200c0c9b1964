package config

import (
	"fmt"
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
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake to errors.As.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// orNil sorts the mistakes and returns nil when there are none: the files in
// the order in which they were read, then by line.
func (es Errors) orNil() error {
	if len(es) == 0 {
		return nil
	}
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

// didYouMean returns `; did you mean "x"?` for the known word nearest to s, or
// nothing where none is near: within a third of its letters, two at least.
func didYouMean(s string, known []string) string {
	best, least := "", max(2, len(s)/3)+1
	for _, k := range known {
		if d := editDistance(strings.ToLower(s), strings.ToLower(k)); d < least && d < len(s) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the letters to add, drop or replace to turn a into b,
// two swapped neighbours counting as one.
func editDistance(a, b string) int {
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
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
