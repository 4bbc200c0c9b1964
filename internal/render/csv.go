package render

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// CSVOptions are the choices of CSV. The zero value is plain CSV for programs.
type CSVOptions struct {
	Excel     bool // a byte order mark at the start, without which Excel reads UTF-8 as another encoding
	Delimiter rune // 0: a comma
	// RawFormulas writes cells that a spreadsheet would run as they are.
	RawFormulas bool
	// TextIDs writes whole numbers of 16 digits and more, and those with
	// leading zeros, as ="0042", so that a spreadsheet shows them digit by
	// digit. For people only: a program reads the formula.
	TextIDs bool
}

// ParseDelimiter reads a delimiter as a command line gives it: one character,
// or \t for a tab.
func ParseDelimiter(s string) (rune, error) {
	if s == `\t` {
		return '\t', nil
	}
	rs := []rune(s)
	if len(rs) != 1 || !validDelimiter(rs[0]) {
		return 0, fmt.Errorf(`delimiter %q: not usable; give one character such as , or ; or | or \t`, s)
	}
	return rs[0], nil
}

// validDelimiter refuses what stands in unquoted cells by its nature.
func validDelimiter(r rune) bool {
	return r == '\t' || r != '"' && r != unicode.ReplacementChar && !hidden(r) && !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Z) &&
		!strings.ContainsRune("+-.:'=@", r)
}

// CSV writes rows as RFC 4180: lines end in CR LF, a cell is quoted where it
// must be, and no cell is ever cut. Line breaks inside cells are kept as they
// are (a reader may make LF of CR LF); other control and hidden characters are
// made visible as in Visible. A text that a spreadsheet would run as a formula
// starts with an apostrophe; plain negative numbers do not.
func CSV(w io.Writer, header []string, rows Rows, o CSVOptions) error {
	if o.Delimiter == 0 {
		o.Delimiter = ','
	}
	if !validDelimiter(o.Delimiter) {
		return fmt.Errorf("delimiter %q: not usable", o.Delimiter)
	}
	b := bufio.NewWriter(w)
	if o.Excel {
		b.WriteString("\ufeff") // no sep= line: with one, Excel ignores the mark
	}
	cells := make([]any, len(header))
	for i, h := range header {
		cells[i] = h
	}
	if err := line(b, cells, o); err != nil {
		return err
	}
	for row, err := range rows {
		if err != nil {
			return errors.Join(err, b.Flush()) // the rows that came are good
		}
		if err := line(b, row, o); err != nil {
			return err
		}
	}
	return b.Flush()
}

func line(b *bufio.Writer, row []any, o CSVOptions) error {
	for i, v := range row {
		if i > 0 {
			b.WriteRune(o.Delimiter)
		}
		text := plain(v)
		switch {
		case isNumber(v):
		case o.TextIDs && longID.MatchString(text):
			text = `="` + text + `"`
		case !o.RawFormulas && formula(text):
			text = "'" + visible(text, "\t\r\n")
		default:
			text = visible(text, "\t\r\n")
		}
		quote(b, text, o.Delimiter, len(row) == 1)
	}
	_, err := b.WriteString("\r\n")
	return err
}

var (
	longID = regexp.MustCompile(`^([0-9]{16,}|0[0-9]+)$`)
	// Digits with their marks and nothing else cannot do anything.
	negative = regexp.MustCompile(`^-[0-9][0-9.,]*([eE][-+]?[0-9]+)?$`)
)

// formula says whether a spreadsheet would run a text, or make something else
// of it. Source: OWASP, "CSV Injection", with the full-width forms that some
// spreadsheets read alike.
func formula(s string) bool {
	if s == "" || negative.MatchString(s) {
		return false
	}
	if strings.ContainsRune("\t\r\n", rune(s[0])) {
		return true
	}
	for _, r := range strings.TrimLeft(s, " \u00a0\u3000") {
		return strings.ContainsRune("=+-@＝＋－＠", r)
	}
	return false
}

// quote writes a cell, quoted where a reader could otherwise split or trim it.
// A single empty cell is quoted too: an empty line is no row to most readers.
func quote(b *bufio.Writer, s string, delimiter rune, alone bool) {
	if !strings.ContainsAny(s, "\"\r\n") && !strings.ContainsRune(s, delimiter) && strings.TrimSpace(s) == s && !(alone && s == "") {
		b.WriteString(s)
		return
	}
	b.WriteByte('"')
	b.WriteString(strings.ReplaceAll(s, `"`, `""`))
	b.WriteByte('"')
}
