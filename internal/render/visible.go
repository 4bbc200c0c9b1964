package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// Visible returns s with everything that could steer a terminal, or hide or
// reorder text, made visible: C0 and C1 control characters and ESC as \x1b,
// line breaks and tabs as \n, \r and \t, bidirectional controls, line
// separators and other invisible characters as \u202e, invalid UTF-8 as its
// bytes. The joiners U+200C and U+200D stay, which emoji and several scripts
// need; so do backslashes, so the result is for reading, not for decoding.
func Visible(s string) string { return visible(s, "") }

// visible is Visible, but for the runes in keep.
func visible(s, keep string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] > 0x7e {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r) || !hidden(r):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden says whether a rune steers, hides or reorders instead of showing.
func hidden(r rune) bool {
	if r == 0x200c || r == 0x200d {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Width is the number of terminal columns that s takes, by grapheme: a wide
// character takes two, a combining one none.
func Width(s string) int { return displaywidth.String(s) }

// Cut shortens s to at most width columns, ending it with … where something
// was left out. It never splits a grapheme.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	return displaywidth.TruncateString(s, width, "…")
}

// Wrap breaks a line at blanks so that no part is wider than width, where its
// words allow; a width of 0 leaves it whole.
func Wrap(line string, width int) string {
	if width <= 0 || Width(line) <= width {
		return line
	}
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(line) {
		n := Width(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
