package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// RulesVersion is the version of the rules by which FailureReason groups. It is
// stored with each attempt; `regroup` brings older ones up to it.
const RulesVersion = 1

const (
	reasonMax   = 500      // characters kept of a reason's text
	reasonInput = 16 << 10 // bytes of a message that are looked at
)

// FailureReason groups failures that have one cause. text is the message with
// ids, numbers, times, hosts, long hex and addresses taken out ("#" stands for
// them, hosts go without a trace), and with its words kept, in quotes too; at
// most 500 characters. id is a digest of connector, operation, class, code and
// text. Where the system gave a code, the code names the cause and the text,
// which may come in any language, is only shown.
func FailureReason(connector, operation string, c Class, code, message string) (id, text string) {
	text = normalise(message)
	code = strings.TrimSpace(code)
	part := text
	if !genericCode(code) {
		part = ""
		if text == "" {
			text = normalise(code)
		}
		if text == "" || text == "#" {
			text = "code " + cutRunes(code, reasonMax-len("code "))
		}
	} else {
		code = ""
	}
	if text == "" {
		text = string(c)
	}
	h := sha256.New()
	for _, s := range [...]string{connector, operation, string(c), code, part} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), text
}

// genericCode says whether a code names no cause: none at all, the HTTP status
// again, or what a client library writes on every refused call.
func genericCode(code string) bool {
	switch code {
	case "", "ERR_BAD_REQUEST", "ERR_BAD_RESPONSE", "error", "Error", "ERROR", "unknown", "UNKNOWN":
		return true
	}
	return len(code) == 3 && code[0] >= '1' && code[0] <= '5' && isDigit(code[1]) && isDigit(code[2])
}

// normalise takes everything out of a message that differs between two failures
// of one cause. Normalising twice gives the same text.
func normalise(message string) string {
	s := message
	if len(s) > reasonInput {
		s = s[:reasonInput]
	}
	s = strings.ToValidUTF8(s, "?")
	// Taking something out can bring together what is taken out in turn, so
	// it goes on until nothing changes. Each round leaves fewer characters that
	// could be taken out.
	for {
		t := rootCause(pageTitle(unwrapJSON(s)))
		t = cutRunes(rootCause(scan(cutRunes(t, 4*reasonMax))), reasonMax)
		if t == s {
			return t
		}
		s = t
	}
}

// unwrapJSON takes the message out of an error object, where it is one.
func unwrapJSON(s string) string {
	t := strings.TrimSpace(s)
	if t == "" || t[0] != '{' && t[0] != '[' || !json.Valid([]byte(t)) {
		return s
	}
	var v any
	if json.Unmarshal([]byte(t), &v) != nil {
		return s
	}
	if m := messageOf(v, 0); m != "" {
		return m
	}
	return s
}

func messageOf(v any, depth int) string {
	if depth > 3 {
		return ""
	}
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			return messageOf(v[0], depth+1)
		}
	case map[string]any:
		for _, name := range [...]string{"message", "Message", "error_description", "detail", "title", "msg", "errorMessage"} {
			if s, ok := v[name].(string); ok && strings.TrimSpace(s) != "" {
				return s
			}
		}
		for _, name := range [...]string{"error", "errors", "Error", "fault"} {
			if s, ok := v[name].(string); ok && strings.TrimSpace(s) != "" {
				return s
			}
			if s := messageOf(v[name], depth+1); s != "" {
				return s
			}
		}
	}
	return ""
}

// pageTitle makes "gateway 504" of a web page that came where an answer was
// expected: its text is the page's, not the system's.
func pageTitle(s string) string {
	t := strings.TrimSpace(s)
	if t == "" || t[0] != '<' {
		return s
	}
	head := strings.ToLower(t[:min(len(t), 4096)])
	if !strings.HasPrefix(head, "<!doctype html") && !strings.HasPrefix(head, "<html") && !strings.HasPrefix(head, "<head") && !strings.HasPrefix(head, "<title") {
		return s
	}
	title := between(head, "<title", "</title")
	if title == "" {
		title = between(head, "<h1", "</h1")
	}
	for i := 0; i+3 <= len(title); i++ {
		if (title[i] == '4' || title[i] == '5') && isDigit(title[i+1]) && isDigit(title[i+2]) &&
			(i == 0 || !isWord(title[i-1])) && (i+3 == len(title) || !isWord(title[i+3])) {
			return "gateway " + title[i:i+3]
		}
	}
	if title = strings.TrimSpace(title); title != "" {
		return "web page: " + title
	}
	return "web page"
}

// between returns what an element holds, without nested elements.
func between(s, open, end string) string {
	_, s, ok := strings.Cut(s, open)
	if !ok {
		return ""
	}
	_, s, ok = strings.Cut(s, ">")
	if !ok {
		return ""
	}
	s, _, _ = strings.Cut(s, end)
	s, _, _ = strings.Cut(s, "<")
	return s
}

// roots are how errors of the network begin, below whatever a program wrapped
// around them.
var roots = [...]string{"dial tcp", "dial udp", "dial unix", "read tcp", "write tcp", "lookup ", "proxyconnect tcp", "x509: ", "tls: ",
	"connect ECONN", "connect ETIMEDOUT", "getaddrinfo ", "read ECONN", "write ECONN", "socket hang up"}

// rootCause cuts off what programs wrapped around an error of the network: the
// call path does not tell causes apart.
func rootCause(s string) string {
	for end := len(s); ; {
		i := strings.LastIndex(s[:end], ": ")
		if i < 0 {
			return s
		}
		for _, r := range roots {
			if strings.HasPrefix(s[i+2:], r) {
				return s[i+2:]
			}
		}
		end = i
	}
}

// scan is one round over the text.
func scan(s string) string {
	var o cleaned
	o.b = make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '#':
			o.hole()
			i++
		case c <= ' ' || c == 0x7f:
			o.blank()
			i++
		case c == '[' && ipv6(s[i:]) > 0:
			i += ipv6(s[i:])
			i += port(s[i:])
			o.gone()
		case isWord(c):
			i += o.token(s[i:])
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029 {
				o.blank()
			} else {
				o.b = append(o.b, s[i:i+n]...)
				o.word = ""
			}
			i += n
		default:
			o.b = append(o.b, c)
			if c != ':' && c != '=' {
				o.word = ""
			}
			i++
		}
	}
	return strings.TrimRight(string(o.b), " ")
}

// cleaned is the text as it is being made.
type cleaned struct {
	b    []byte
	word string // the last word, while only blanks, ":" or "=" followed it
}

// hole writes the mark for what was taken out. Marks that only a separator
// parts become one: the parts of a date, of a version, of an id.
func (o *cleaned) hole() {
	o.word = ""
	n := len(o.b)
	if n > 0 && o.b[n-1] == '#' {
		return
	}
	if n > 2 && o.b[n-3] == '#' && o.b[n-2] == ',' && o.b[n-1] == ' ' {
		o.b = o.b[:n-2]
		return
	}
	if n > 1 && o.b[n-2] == '#' && strings.IndexByte(" -:./,_+", o.b[n-1]) >= 0 {
		o.b = o.b[:n-1]
		return
	}
	o.b = append(o.b, '#')
}

func (o *cleaned) blank() {
	if n := len(o.b); n > 0 && o.b[n-1] != ' ' {
		o.b = append(o.b, ' ')
	}
}

// gone takes something out without a mark, and the blank before it.
func (o *cleaned) gone() {
	o.word = ""
	if n := len(o.b); n > 0 && o.b[n-1] == ' ' {
		o.b = o.b[:n-1]
	}
}

// token deals with what begins at s, which starts with a word character, and
// returns how much of s it took.
func (o *cleaned) token(s string) int {
	if n := uuid(s); n > 0 {
		o.hole()
		return n
	}
	if n := url(s); n > 0 {
		o.hole()
		return n
	}
	if n := mail(s); n > 0 {
		o.hole()
		return n
	}
	if n := host(s); n > 0 {
		o.gone()
		return n
	}
	n := 1
	for n < len(s) && isWord(s[n]) {
		n++
	}
	w := s[:n]
	switch {
	case n == 3 && calendar(w) && nearNumber(o.b, s[n:]):
		o.hole()
	case keepStatus(o.word, w):
		o.b = append(o.b, w...)
		o.word = ""
	case value(w):
		o.hole()
	default:
		o.b = append(o.b, w...)
		o.word = w
	}
	return n
}

// keepStatus says whether a number is the HTTP status that the word before it
// announces: that one names the failure.
func keepStatus(word, w string) bool {
	if len(w) != 3 || w[0] < '1' || w[0] > '5' || !isDigit(w[1]) || !isDigit(w[2]) {
		return false
	}
	return strings.EqualFold(word, "http") || strings.EqualFold(word, "status") || strings.EqualFold(word, "gateway") ||
		strings.EqualFold(word, "code")
}

// value says whether a token is a number or an id, not a word. A word may end
// in a few digits (utf8, x509, PS99).
func value(w string) bool {
	digits, hexes, letters, lower, upper := 0, 0, 0, false, false
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case isDigit(c):
			digits++
			hexes++
		case c != '_':
			letters++
			if isHex(c) {
				hexes++
			}
			lower, upper = lower || c >= 'a', upper || c < 'a'
		}
	}
	switch {
	case digits == 0:
		return false
	case isDigit(w[0]) || letters == 0:
		return true
	case hexes == len(w) && len(w) >= 6:
		return true
	}
	return digits >= 4 || len(w) >= 12 && (digits >= 3 || lower && upper) && !trailingDigits(w)
}

// trailingDigits says whether all digits stand at the end, after the word.
func trailingDigits(w string) bool {
	return strings.IndexFunc(strings.TrimRight(w, "0123456789"), func(r rune) bool { return r >= '0' && r <= '9' }) < 0
}

func uuid(s string) int {
	const n = 36
	if len(s) < n || len(s) > n && isWord(s[n]) {
		return 0
	}
	for i := 0; i < n; i++ {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return 0
			}
		default:
			if !isHex(s[i]) {
				return 0
			}
		}
	}
	return n
}

// url is the length of an address with a scheme, up to a blank or a quote.
func url(s string) int {
	n := 0
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] == '+') {
		n++
	}
	if n < 2 || !strings.HasPrefix(s[n:], "://") {
		return 0
	}
	n += 3
	for n < len(s) && s[n] > ' ' && strings.IndexByte("\"'`<>()[]{}|,;", s[n]) < 0 {
		n++
	}
	// What ends a sentence does not end an address.
	for strings.IndexByte(".:!?", s[n-1]) >= 0 {
		n--
	}
	return n
}

func mail(s string) int {
	n := 0
	for n < len(s) && (isWord(s[n]) || s[n] == '.' || s[n] == '+' || s[n] == '-') {
		n++
	}
	if n == 0 || n >= len(s) || s[n] != '@' {
		return 0
	}
	d := dotted(s[n+1:])
	if d == 0 || strings.IndexByte(s[n+1:n+1+d], '.') < 0 {
		return 0
	}
	return n + 1 + d
}

// host is the length of a host name or IPv4 address, with its port. A dotted
// name without a port is one where it ends as names of hosts do: "error.code"
// and "java.io.IOException" are words.
func host(s string) int {
	n := dotted(s)
	if n == 0 {
		return 0
	}
	name := s[:n]
	p := port(s[n:])
	dot := strings.LastIndexByte(name, '.')
	switch {
	case ipv4(name):
	case dot < 0:
		if p == 0 || name != "localhost" {
			return 0
		}
	case p > 0 && !isDigit(name[dot+1]):
	case !topLevel(name[dot+1:]):
		return 0
	}
	return n + p
}

// dotted is the length of labels joined by dots; it does not end in one.
func dotted(s string) int {
	n := 0
	for n < len(s) && (isWord(s[n]) || s[n] == '-' || s[n] == '.') {
		n++
	}
	for n > 0 && (s[n-1] == '.' || s[n-1] == '-') {
		n--
	}
	return n
}

func port(s string) int {
	if len(s) < 2 || s[0] != ':' {
		return 0
	}
	n := 1
	for n < len(s) && n < 7 && isDigit(s[n]) {
		n++
	}
	if n < 3 || n < len(s) && isWord(s[n]) {
		return 0
	}
	return n
}

func ipv4(s string) bool {
	dots, digits := 0, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '.' && digits > 0:
			dots++
			digits = 0
		case isDigit(s[i]) && digits < 3:
			digits++
		default:
			return false
		}
	}
	return dots == 3 && digits > 0
}

// ipv6 is the length of an address in brackets.
func ipv6(s string) int {
	n, colons := 1, 0
	for n < len(s) && n < 48 && (isHex(s[n]) || s[n] == ':' || s[n] == '.' || s[n] == '%') {
		if s[n] == ':' {
			colons++
		}
		n++
	}
	if colons < 2 || n >= len(s) || s[n] != ']' {
		return 0
	}
	return n + 1
}

func topLevel(s string) bool {
	switch s {
	case "com", "net", "org", "io", "dev", "app", "cloud", "co", "eu", "de", "uk", "us", "fr", "nl", "ch", "at", "biz", "ai", "local",
		"internal", "example", "test", "invalid", "localhost", "lan", "svc":
		return true
	}
	return false
}

func calendar(w string) bool {
	switch w {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec":
		return true
	}
	return false
}

// nearNumber says whether a day or month stands beside a number, so that it is
// part of a date.
func nearNumber(before []byte, after string) bool {
	n := len(before)
	for n > 0 && (before[n-1] == ' ' || before[n-1] == '-') {
		n--
	}
	if n > 0 && before[n-1] == '#' {
		return true
	}
	after = strings.TrimLeft(after, " ,-")
	return after != "" && (isDigit(after[0]) || after[0] == '#' || len(after) > 4 && calendar(after[:3]) && (after[3] == ' ' || after[3] == '-'))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// cutRunes cuts s to at most n characters.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimRight(s[:i], " ")
		}
		n--
	}
	return s
}
