package render

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ForReading leaves out the columns that a page does not show, with their
// values.
func ForReading(cols []Column, rows Rows) ([]Column, Rows) {
	s := without(TableSpec{Columns: cols, Rows: rows}, func(c Column) bool { return c.Aside || c.Finer })
	return s.Columns, s.Rows
}

// Cell is a value as a page shows it to a person: as on a terminal, but with
// times as at tells them.
func Cell(c Column, v any, at func(time.Time) string) string {
	text := ""
	if t, ok := v.(time.Time); !ok {
		text = spoken(c, v, time.Time{})
	} else if !t.IsZero() {
		text = at(t)
	}
	if text == "" {
		text = c.Blank
	}
	return text
}

// Markdown writes rows as a table of GitHub Flavored Markdown, with the columns
// and values that a person reads. No text in it is taken for markup or a link.
func Markdown(w io.Writer, cols []Column, rows Rows, at func(time.Time) string) error {
	cols, rows = ForReading(cols, rows)
	b := bufio.NewWriter(w)
	for _, c := range cols {
		fmt.Fprintf(b, "| %s ", EscapeMarkdown(c.Heading()))
	}
	b.WriteString("|\n")
	for _, c := range cols {
		if c.Right() {
			b.WriteString("| ---: ")
		} else {
			b.WriteString("| --- ")
		}
	}
	b.WriteString("|\n")
	for row, err := range rows {
		if err != nil {
			return errors.Join(err, b.Flush()) // the rows that came are good
		}
		for i, c := range cols {
			fmt.Fprintf(b, "| %s ", EscapeMarkdown(Cell(c, row[i], at)))
		}
		if _, err := b.WriteString("|\n"); err != nil {
			return err
		}
	}
	return b.Flush()
}

// EscapeMarkdown escapes what Markdown would take for markup, a link or an
// address. Underscores inside words stay, which nothing takes for markup; the
// result is one line. Source: GitHub Flavored Markdown, 2.4 and 6.9.
func EscapeMarkdown(s string) string {
	s = Visible(s)
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	var b strings.Builder
	before := ' '
	for i, r := range s {
		rest := s[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(rest)
		switch {
		case r == '_' && word(before) && word(next):
		case strings.ContainsRune("\\`*_[]<>|~&@#!$", r),
			r == ':' && strings.HasPrefix(rest, "//"),
			r == '.' && strings.HasSuffix(strings.ToLower(s[:i]), "www"):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}
