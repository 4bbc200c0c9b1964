package rest

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// comparedAll compares the declared fields. What the payload does not have is
// not compared.
func comparedAll(cs []comparison, payload []byte, doc document) []connectors.Compared {
	if len(cs) == 0 || len(payload) == 0 {
		return nil
	}
	body, err := decode(payload)
	if err != nil {
		return nil
	}
	var out []connectors.Compared
	for _, c := range cs {
		want := walk(body, c.payload)
		if len(want) == 0 || want[0] == nil {
			continue
		}
		x := connectors.Compared{Path: c.name, Want: valueString(want[0])}
		for i, got := range c.record.nodes(doc) {
			if text, ok := valueText(got); ok && c.record.like != nil {
				m := c.record.like.FindStringSubmatch(text)
				if m == nil {
					continue
				}
				got = m[1]
			}
			if i == 0 || x.Got == "" {
				x.Got = valueString(got)
			}
			if equal(want[0], got, c.as) {
				x.Got, x.Equal = valueString(got), true
				break
			}
		}
		out = append(out, x)
	}
	return out
}

// valueString is a value as text: scalars as received, the rest as JSON.
func valueString(v any) string {
	if s, ok := valueText(v); ok {
		return s
	}
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// equal compares two values: numbers and numeric texts as exact decimals,
// other scalars as text, lists and objects member by member.
func equal(a, b any, as string) bool {
	switch a := a.(type) {
	case []any:
		l, ok := b.([]any)
		if !ok || len(a) != len(l) {
			return false
		}
		for i := range a {
			if !equal(a[i], l[i], as) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for k, v := range a {
			w, ok := m[k]
			if !ok || !equal(v, w, as) {
				return false
			}
		}
		return true
	case nil:
		return b == nil
	}
	x, ok1 := valueText(a)
	y, ok2 := valueText(b)
	if !ok1 || !ok2 {
		return false
	}
	switch as {
	case "fold":
		return strings.EqualFold(x, y)
	case "time":
		t, ok1 := instant(x)
		u, ok2 := instant(y)
		return ok1 && ok2 && t.Equal(u) || x == y
	}
	if x == y {
		return true
	}
	d, ok1 := decimal(x)
	e, ok2 := decimal(y)
	return ok1 && ok2 && d.Cmp(e) == 0
}

// A number as JSON writes it. A leading zero makes it a text: 007 is not 7.
var decimalForm = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$`)

// decimal reads an exact decimal. Absurdly long ones are compared as text.
func decimal(s string) (*big.Rat, bool) {
	if len(s) > 500 || !decimalForm.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

var digitsOnly = regexp.MustCompile(`^[0-9]{9,13}$`)

// instant reads a timestamp: RFC 3339, some near relatives, or epoch seconds or
// milliseconds.
func instant(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700", "2006-01-02T15:04:05.999999999Z0700",
		"2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	if digitsOnly.MatchString(s) {
		n, err := json.Number(s).Int64()
		if err != nil {
			return time.Time{}, false
		}
		if len(s) > 10 {
			return time.UnixMilli(n), true
		}
		return time.Unix(n, 0), true
	}
	return time.Time{}, false
}
