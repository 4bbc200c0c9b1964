// Package duration reads durations as people write them in config files and on
// the command line: those of Go, with days and weeks.
package duration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Longest is the longest duration Parse accepts: a hundred years, far from the
// 292 years where a time.Duration wraps.
const Longest = 100 * 365 * 24 * time.Hour

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Parse reads "90m", "24h", "7d", "2w", "1d12h" or "0s". A day is 24 hours: use
// calendar arithmetic where daylight saving matters. A bare number is refused,
// because nobody can tell which unit was meant; so are negative durations and
// those above Longest.
func Parse(s string) (time.Duration, error) {
	if strings.TrimSpace(s) == "" {
		return 0, errors.New(`empty; write a duration such as "30s", "24h" or "7d"`)
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit; write %q for seconds, %q for hours or %q for days", s, s+"s", s+"h", s+"d")
	}
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is negative; write a duration of zero or more", s)
	}
	var total time.Duration
	rest := s
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n <= 0 {
			return 0, unreadable(s)
		}
		m := strings.IndexFunc(rest[n:], func(r rune) bool { return r >= '0' && r <= '9' || r == '.' })
		if m < 0 {
			m = len(rest) - n
		}
		number, unit := rest[:n], rest[n:n+m]
		rest = rest[n+m:]

		var part time.Duration
		switch unit {
		case "d", "w":
			size := day
			if unit == "w" {
				size = week
			}
			f, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return 0, unreadable(s)
			}
			if f > float64(Longest)/float64(size) {
				return 0, tooLong(s)
			}
			part = time.Duration(f * float64(size))
		default:
			d, err := time.ParseDuration(number + unit)
			if err != nil {
				return 0, unreadable(s)
			}
			part = d
		}
		if part > Longest-total {
			return 0, tooLong(s)
		}
		total += part
	}
	return total, nil
}

// Format writes d as Parse reads it, in the largest units that fit: "7d",
// "1h30m", "0s".
func Format(d time.Duration) string {
	if d <= 0 {
		return d.String()
	}
	var b strings.Builder
	if n := d / day; n > 0 {
		fmt.Fprintf(&b, "%dd", n)
		d -= n * day
	}
	if d == 0 {
		return b.String()
	}
	// Go writes "1h0m0s": the empty parts at the end say nothing.
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	b.WriteString(s)
	return b.String()
}

func unreadable(s string) error {
	return fmt.Errorf(`%q is not a duration; write for example "30s", "90m", "24h", "7d" or "2w"`, s)
}

func tooLong(s string) error {
	return fmt.Errorf("%q is longer than a hundred years; write a shorter duration", s)
}
