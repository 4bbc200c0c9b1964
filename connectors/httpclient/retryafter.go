package httpclient

import (
	"net/http"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// ParseRetryAfter reads the Retry-After of an answer that was received at now.
// A date is measured against the answer's own Date; of several headers the
// longest wait holds. See connectors.ParseRetryAfter.
func ParseRetryAfter(header http.Header, now time.Time) connectors.RetryAfter {
	if sent, ok := connectors.ParseHTTPDate(strings.TrimSpace(header.Get("Date"))); ok {
		now = sent
	}
	var r connectors.RetryAfter
	for _, v := range header.Values("Retry-After") {
		r = Later(r, connectors.ParseRetryAfter(v, now))
	}
	return r
}

// ParseReset reads the moment at which a limit is lifted, as rate-limit headers
// and bodies give it, at now. unit is "s" or "ms" (from now), "epoch" or
// "epoch_ms" (since 1970), "iso" (a timestamp), or "" to tell by size. A moment
// in the past asks for no wait; what cannot be read stays in Raw.
func ParseReset(raw, unit string, now time.Time) connectors.RetryAfter {
	r := connectors.RetryAfter{Raw: raw}
	value := strings.TrimSpace(raw)
	if at, ok := timestamp(value); ok && (unit == "iso" || unit == "") {
		return r.ForSeconds(connectors.SecondsBetween(now, at))
	}
	f, ok := connectors.ParseSeconds(value)
	if !ok || unit == "iso" {
		return r
	}
	if unit == "" {
		// Epoch seconds have ten digits from 2001 to 2286, milliseconds thirteen,
		// microseconds sixteen and nanoseconds nineteen; nobody asks for a wait of
		// thirty years.
		switch {
		case f >= 1e17 && f < 1e20:
			f, unit = f/1e6, "epoch_ms"
		case f >= 1e14 && f < 1e17:
			f, unit = f/1e3, "epoch_ms"
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
		return r.ForSeconds(f)
	case "ms":
		return r.ForSeconds(f / 1000)
	case "epoch":
		return r.ForSeconds(f - epoch)
	case "epoch_ms":
		return r.ForSeconds(f/1000 - epoch)
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

func timestamp(s string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	return connectors.ParseHTTPDate(s)
}
