package connectors

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// LongestWait is the longest wait that is told as a number; whatever is longer
// is Beyond. A year is more than any max_age anybody sets.
const LongestWait = 366 * 24 * time.Hour

// ParseRetryAfter reads the text of a Retry-After: delta seconds (decimals
// round up) or any HTTP date, measured against the moment given (the answer's
// own Date where there is one, so that a wrong clock on either side does no
// harm). Junk asks for no wait and stays in Raw. A wait is rounded up to whole
// seconds; one longer than LongestWait, also by overflow, is Beyond.
//
// Source: RFC 9110, 10.2.3 (delta seconds, HTTP date); decimals are sent by
// several systems all the same.
func ParseRetryAfter(raw string, against time.Time) RetryAfter {
	r := RetryAfter{Raw: raw}
	v := strings.TrimSpace(raw)
	if s, ok := ParseSeconds(v); ok {
		return r.ForSeconds(s)
	}
	if at, ok := ParseHTTPDate(v); ok {
		return r.ForSeconds(SecondsBetween(against, at))
	}
	return r
}

// ParseSeconds reads ASCII digits, perhaps with a fraction: no sign, exponent,
// blank or digit of another script. A number too large for a float is +Inf.
func ParseSeconds(s string) (float64, bool) {
	dot := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
		case c == '.' && !dot && i > 0 && i < len(s)-1:
			dot = true
		default:
			return 0, false
		}
	}
	if s == "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil { // only a range error is left: the form was tested
		f = math.Inf(1)
	}
	return f, true
}

// ParseHTTPDate reads the three forms of RFC 9110, 5.6.7, and the numeric zone
// that is sent all the same.
func ParseHTTPDate(s string) (time.Time, bool) {
	t, err := http.ParseTime(s)
	if err != nil {
		t, err = time.Parse(time.RFC1123Z, s)
	}
	return t, err == nil
}

// SecondsBetween is what lies between two instants. It does not use a
// Duration, which saturates after 292 years.
func SecondsBetween(from, to time.Time) float64 {
	return float64(to.Unix()-from.Unix()) + float64(to.Nanosecond()-from.Nanosecond())/1e9
}

// ForSeconds is r asking for a wait of that many seconds; a moment in the past
// asks for none.
func (r RetryAfter) ForSeconds(s float64) RetryAfter {
	switch {
	case s <= 0:
	case s > LongestWait.Seconds():
		r.Wait, r.Beyond = LongestWait, true
	default:
		r.Wait = time.Duration(math.Ceil(s)) * time.Second
	}
	return r
}
