package httpclient

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// longestWait is the longest wait that is told as a number; whatever is longer
// is only "beyond". A year is more than any max_age anybody sets.
const longestWait = 366 * 24 * time.Hour

// Digits, with decimals as some systems send them. ASCII only: no sign, no
// exponent, no hexadecimal, no other digits.
var decimalSeconds = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// ParseRetryAfter reads the Retry-After of an answer that was received at now.
// It takes delta seconds (decimals round up) or any HTTP date, which is
// measured against the answer's own Date, so that a wrong clock on either side
// does no harm. Junk gives no wait and stays in Raw. A wait is rounded up to
// whole seconds; one beyond a year, also by overflow, is Beyond.
//
// Source: RFC 9110, 10.2.3 (delta seconds, HTTP date); decimals are sent by
// several systems all the same.
func ParseRetryAfter(header http.Header, now time.Time) connectors.RetryAfter {
	raw := header.Get("Retry-After")
	r := connectors.RetryAfter{Raw: raw}
	value := strings.TrimSpace(raw)
	switch {
	case value == "":
		return r
	case decimalSeconds.MatchString(value):
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			f = math.Inf(1) // only a range error is left: the form was tested
		}
		return wait(r, f)
	}
	at, ok := httpDate(value)
	if !ok {
		return r
	}
	base := now
	if sent, ok := httpDate(strings.TrimSpace(header.Get("Date"))); ok {
		base = sent
	}
	return wait(r, seconds(base, at))
}

// ParseReset reads the moment at which a limit is lifted, as rate-limit headers
// and bodies give it, at now. unit is "s" or "ms" (from now), "epoch" or
// "epoch_ms" (since 1970), "iso" (a timestamp), or "" to tell by size. A moment
// in the past asks for no wait; what cannot be read stays in Raw.
func ParseReset(raw, unit string, now time.Time) connectors.RetryAfter {
	r := connectors.RetryAfter{Raw: raw}
	value := strings.TrimSpace(raw)
	if at, ok := timestamp(value); ok && (unit == "iso" || unit == "") {
		return wait(r, seconds(now, at))
	}
	if !decimalSeconds.MatchString(value) || unit == "iso" {
		return r
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return wait(r, math.Inf(1))
	}
	if unit == "" {
		// Epoch seconds have ten digits from 2001 to 2286, epoch milliseconds
		// thirteen; nobody asks for a wait of thirty years.
		switch {
		case f >= 1e11:
			unit = "epoch_ms"
		case f >= 1e9:
			unit = "epoch"
		default:
			unit = "s"
		}
	}
	epoch := float64(now.UnixMilli()) / 1000
	switch unit {
	case "s":
		return wait(r, f)
	case "ms":
		return wait(r, f/1000)
	case "epoch":
		return wait(r, f-epoch)
	case "epoch_ms":
		return wait(r, f/1000-epoch)
	}
	return r
}

// Later returns the longer of two waits. The text of both is kept.
func Later(a, b connectors.RetryAfter) connectors.RetryAfter {
	if b.Raw != "" && a.Raw != "" && a.Raw != b.Raw {
		raw := a.Raw + "; " + b.Raw
		a.Raw, b.Raw = raw, raw
	}
	if b.Beyond || !a.Beyond && b.Wait > a.Wait {
		if b.Raw == "" {
			b.Raw = a.Raw
		}
		return b
	}
	if a.Raw == "" {
		a.Raw = b.Raw
	}
	return a
}

func wait(r connectors.RetryAfter, s float64) connectors.RetryAfter {
	switch {
	case s <= 0:
	case s > longestWait.Seconds():
		r.Wait, r.Beyond = longestWait, true
	default:
		r.Wait = time.Duration(math.Ceil(s)) * time.Second
	}
	return r
}

// seconds is what lies between two instants. It does not use a Duration, which
// saturates after 292 years.
func seconds(from, to time.Time) float64 {
	return float64(to.Unix()-from.Unix()) + float64(to.Nanosecond()-from.Nanosecond())/1e9
}

func httpDate(s string) (time.Time, bool) {
	if t, err := http.ParseTime(s); err == nil {
		return t, true
	}
	// Not an HTTP date by the standard, but sent: a numeric zone.
	t, err := time.Parse(time.RFC1123Z, s)
	return t, err == nil
}

func timestamp(s string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	return httpDate(s)
}
