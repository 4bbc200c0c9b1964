// Package redact takes secrets out of texts before they are stored, logged or
// shown: those it is given, also cut or encoded, and whatever stands where
// secrets usually stand (headers, query parameters, JSON members, user
// information in addresses).
package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask replaces a secret.
const Mask = "[redacted]"

// gram is the length of the pieces by which a cut secret is known. Eight bytes
// fit a machine word and are too long to be met by chance.
const gram = 8

// shortest is the length below which a given secret is not looked for: it
// would turn up in ordinary words everywhere.
const shortest = 4

// Masker masks texts. It is immutable, safe for concurrent use, and useful as
// nil or zero: then it knows no secrets, only where secrets stand.
type Masker struct {
	short  []string // shorter than a gram: only whole
	grams  map[uint64]struct{}
	filter [1024]uint64 // one bit per hash of a gram: most positions end here
	all    []string
}

// New returns a Masker that knows these secrets besides the general patterns.
// Of a secret of 8 bytes or more every piece of 8 bytes is masked, so that a
// cut one is known too; one of 4 to 7 bytes is masked where it stands whole;
// shorter ones are not looked for. Each is also known percent-encoded, escaped
// as in JSON, and in base64.
func New(secrets ...string) *Masker {
	m := &Masker{grams: map[uint64]struct{}{}}
	return m.With(secrets...)
}

// With returns a Masker that knows further secrets.
func (m *Masker) With(secrets ...string) *Masker {
	n := &Masker{grams: map[uint64]struct{}{}}
	if m != nil {
		n.all = slices.Clone(m.all)
	}
	for _, s := range secrets {
		if len(s) >= shortest && !slices.Contains(n.all, s) {
			n.all = append(n.all, s)
		}
	}
	for _, s := range n.all {
		for _, form := range forms(s) {
			n.learn(form)
		}
	}
	return n
}

func forms(s string) []string {
	fs := []string{s}
	add := func(f string) {
		if len(f) >= shortest && !slices.Contains(fs, f) {
			fs = append(fs, f)
		}
	}
	for _, esc := range []string{url.QueryEscape(s), url.PathEscape(s)} {
		add(esc)
		add(lowerHex(esc))
	}
	if quoted, err := json.Marshal(s); err == nil {
		add(strings.Trim(string(quoted), `"`))
	}
	if len(s) >= gram {
		add(base64.RawStdEncoding.EncodeToString([]byte(s)))
		add(base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	return fs
}

// lowerHex writes percent escapes with lower-case digits, as some systems do.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1] = lower(b[i+1])
			b[i+2] = lower(b[i+2])
		}
	}
	return string(b)
}

func (m *Masker) learn(s string) {
	if len(s) < gram {
		m.short = append(m.short, s)
		return
	}
	var w uint64
	for i := 0; i < len(s); i++ {
		w = w<<8 | uint64(s[i])
		if i >= gram-1 {
			m.grams[w] = struct{}{}
			h := hash(w)
			m.filter[h>>6] |= 1 << (h & 63)
		}
	}
}

func hash(w uint64) uint64 { return (w * 0x9E3779B97F4A7C15) >> 48 }

// Text returns s with secrets masked. A text without any is returned as it is,
// without allocation.
func (m *Masker) Text(s string) string {
	s = m.known(s)
	if !suspicious(s) {
		return s
	}
	return patterns(s)
}

// Line returns s masked and fit for one line of at most max characters: control
// characters become blanks, invalid UTF-8 the replacement character. It is cut
// after masking, so that half a secret cannot remain.
func (m *Masker) Line(s string, max int) string {
	s = m.Text(strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if utf8.RuneCountInString(s) <= max {
		return s
	}
	r := []rune(s)
	return string(r[:max-1]) + "…"
}

// known masks the secrets that the Masker was given.
func (m *Masker) known(s string) string {
	if m == nil {
		return s
	}
	if len(m.grams) > 0 && len(s) >= gram {
		s = m.maskGrams(s)
	}
	for _, short := range m.short {
		if strings.Contains(s, short) {
			s = maskWhole(s, short)
		}
	}
	return s
}

func (m *Masker) maskGrams(s string) string {
	var out strings.Builder
	var w uint64
	kept := 0   // everything before is written
	hitTo := -1 // end of the run of pieces found, -1 outside one
	start := 0
	flush := func() {
		out.WriteString(s[kept:start])
		out.WriteString(Mask)
		kept, hitTo = hitTo, -1
	}
	for i := 0; i < len(s); i++ {
		w = w<<8 | uint64(s[i])
		if i < gram-1 {
			continue
		}
		h := hash(w)
		if m.filter[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		if _, ok := m.grams[w]; !ok {
			continue
		}
		from := i - gram + 1
		if hitTo >= 0 && from > hitTo {
			flush()
		}
		if hitTo < 0 {
			start = max(from, kept)
		}
		hitTo = i + 1
	}
	if hitTo < 0 && kept == 0 {
		return s
	}
	if hitTo >= 0 {
		flush()
	}
	out.WriteString(s[kept:])
	return out.String()
}

// maskWhole masks a short secret only where it is a word of its own.
func maskWhole(s, secret string) string {
	var out strings.Builder
	for {
		i := strings.Index(s, secret)
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		end := i + len(secret)
		if i > 0 && wordByte(s[i-1]) && wordByte(secret[0]) || end < len(s) && wordByte(s[end]) && wordByte(secret[len(secret)-1]) {
			out.WriteString(s[:end])
		} else {
			out.WriteString(s[:i])
			out.WriteString(Mask)
		}
		s = s[end:]
	}
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
