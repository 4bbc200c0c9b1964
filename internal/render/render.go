// Package render lays rows out as a table, as CSV, as JSON and as Markdown, for
// everything that the command line prints.
//
// The same rows go to all of them. On a terminal a table is aligned, fits the
// width, and says "3h ago"; in a pipe it is tab-separated, whole and in
// RFC 3339. Text from outside never reaches a reader as control characters
// (Visible), and every error of the writer is returned: a full disk or a
// closed pipe is never taken for success.
package render

import (
	"fmt"
	"io"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Kind says how a column is laid out.
type Kind int

// The kinds.
const (
	Text    Kind = iota // left, cut with … where the terminal is narrow
	Key                 // left, never cut: it is copied and pasted
	Number              // right, never cut
	Percent             // a share of 1, on a terminal as a percentage; right, never cut
)

// Column is one column of a table, by the name that CSV and JSON use too.
type Column struct {
	Name  string
	Kind  Kind
	Head  string // what a person reads instead of Name, on a terminal or a page; "": Name
	Aside bool   // left out there: what another column is made of
	Finer bool   // left out on a page and in a brief table: more than a reader needs there
	Wordy bool   // left out in a brief table
	Brief string // what a brief table shows instead of Head, and any where Head does not fit
	Wrap  bool   // on a terminal its texts go on in further lines, where others are cut
	Blank string // what a table shows for an empty cell, such as "(none)"; CSV and JSON keep it empty
}

// Rows yields rows with one value per column, or the error that ended them.
// Values are texts (any type of kind string), numbers, time.Time (zero is an
// empty cell), time.Duration (for machines in seconds, to the millisecond),
// []string, bool, or nil, an empty cell.
type Rows = iter.Seq2[[]any, error]

// Slice makes Rows of a slice.
func Slice(rows [][]any) Rows {
	return func(yield func([]any, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Names lists the names of columns.
func Names(cols []Column) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return names
}

// plain is a value as text for machines: times in RFC 3339, UTC.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Duration:
		return strconv.FormatFloat(seconds(v), 'f', -1, 64)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339Nano)
	case []string:
		return strings.Join(v, ", ")
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.String {
		return r.String() // a typed string's own String method may decorate it
	}
	return fmt.Sprint(v)
}

// seconds is a span of time for machines, to the millisecond.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// Span tells a span of time to a person: "<1s", "42s", "90m", "36h", "12d", cut
// to the unit.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return "<1s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// spoken is a value as a person reads it, times relative to now.
func spoken(c Column, v any, now time.Time) string {
	switch v := v.(type) {
	case time.Time:
		return Ago(v, now)
	case time.Duration:
		return Span(v)
	case float64:
		if c.Kind == Percent {
			return strconv.FormatFloat(v*100, 'f', 1, 64) + "%"
		}
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return Visible(plain(v))
}

// isNumber says whether a value is a number by its type, so that its text
// needs no care.
func isNumber(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	}
	return false
}

// Ago tells a time to a person at a terminal, relative to now: "3h ago",
// "in 5m", "just now". Two months away and more it is a date, in UTC.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	ahead := d < 0
	if ahead {
		d = -d
	}
	const day = 24 * time.Hour
	var s string
	switch {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		s = fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		s = fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		s = fmt.Sprintf("%dh", d/time.Hour)
	case d < 60*day:
		s = fmt.Sprintf("%dd", d/day)
	default:
		return t.UTC().Format("2006-01-02")
	}
	if ahead {
		return "in " + s
	}
	return s + " ago"
}

// sticky remembers the first error of a writer: tablewriter does not return
// it.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
	return n, err
}
