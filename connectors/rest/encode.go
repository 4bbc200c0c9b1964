package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// encoders put a value into a longer text: a filter or a query in somebody's
// language. Each gives one literal of that language or refuses; none changes
// what the value means. What is documented is escaped, the rest is refused.
var encoders = map[string]func(string) (string, error){
	"plain": matching(regexp.MustCompile(`^[A-Za-z0-9_\-.:@]+$`), "only letters, digits and _ - . : @ may stand there; name an encoder such as {key:soql}"),
	"name":  matching(regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "it is no identifier"),
	// Source: Salesforce SOQL and SOSL reference, "Reserved Characters".
	"soql": quoted(`'`, `\'`, `\\`),
	"jql":  quoted(`"`, `\"`, `\\`),
	// Source: GraphQL specification, 2.9.4: string values escape as JSON's do.
	"graphql": func(s string) (string, error) { return jsonText(s), nil },
	// A backslash is not documented by QuickBooks, and read differently by
	// different versions of PocketBase: refused.
	"qbo":        quoted(`'`, `\'`, ""),
	"pocketbase": quoted(`'`, `\'`, ""),
	"stripe":     quoted(`'`, "", ""),
	"xero":       quoted(`"`, "", ""),
	"odata":      quoted(`'`, `''`, `\`),
	"csv": func(s string) (string, error) {
		if strings.ContainsAny(s, `,"`) || strings.TrimSpace(s) != s || s == "" {
			return "", errors.New("a comma, a quote or an outer blank would break the list")
		}
		return s, nil
	},
}

// timeEncoders write {from} and {until}.
var timeEncoders = map[string]func(time.Time) string{
	"unix":    func(t time.Time) string { return fmt.Sprint(t.Unix()) },
	"unix_ms": func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) },
	"rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"date":    func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
}

func encoderNames() []string {
	return slices.Sorted(maps.Keys(encoders))
}

func matching(re *regexp.Regexp, why string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !re.MatchString(s) {
			return "", errors.New(why)
		}
		return s, nil
	}
}

// quoted puts a value between quotes. asQuote and asBackslash are what stands
// for those two inside; empty means refused.
func quoted(quote, asQuote, asBackslash string) func(string) (string, error) {
	return func(s string) (string, error) {
		if asQuote == "" && strings.ContainsAny(s, `'"`) {
			return "", errors.New("a quote cannot be written there")
		}
		if asBackslash == "" && strings.Contains(s, `\`) {
			return "", errors.New("a backslash cannot be written there")
		}
		s = strings.NewReplacer(`\`, asBackslash, quote, asQuote).Replace(s)
		return quote + s + quote, nil
	}
}

// jsonText is a JSON string, without the escapes for HTML.
func jsonText(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes, into a buffer
	return strings.TrimSuffix(b.String(), "\n")
}

// percent encodes everything but the unreserved characters.
// Source: RFC 3986, 2.3.
func percent(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// unclean says why a value may stand nowhere, "" if it may.
func unclean(s string) string {
	if !utf8.ValidString(s) {
		return "it is not valid UTF-8"
	}
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return "it holds a control character"
	}
	return ""
}

// visibleASCII tells whether a value can stand in a header.
func visibleASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
