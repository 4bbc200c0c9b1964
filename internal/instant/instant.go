// Package instant reads the moments that people write on the command line.
package instant

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/recovery-ledger/reconcile/internal/duration"
)

// Parse reads how long before now ("90m", "24h", "7d", "2w"), a date (the start
// of that day in loc), or RFC 3339. The result is in UTC. The error of anything
// else lists these forms.
func Parse(s string, now time.Time, loc *time.Location) (time.Time, error) {
	return parse(s, now, loc, -1, "how long ago")
}

// ParseAhead is Parse for a moment to come: "2h" is two hours after now.
func ParseAhead(s string, now time.Time, loc *time.Location) (time.Time, error) {
	return parse(s, now, loc, 1, "how long from now")
}

func parse(s string, now time.Time, loc *time.Location, sign time.Duration, span string) (time.Time, error) {
	if d, err := duration.Parse(s); err == nil {
		return now.Add(sign * d).UTC(), nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return StartOfDay(t.Year(), t.Month(), t.Day(), loc), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	return time.Time{}, fmt.Errorf(`%q is not an instant; write %s ("90m", "24h", "7d", "2w"), a date ("2026-09-20") or RFC 3339 ("2026-09-20T14:00:00+02:00")`,
		s, span)
}

var week = regexp.MustCompile(`^(\d{4})-W(\d{2})$`)

// ParseWeek reads an ISO week ("2026-W48") and returns its Monday's start and
// the next Monday's, in loc; both results are in UTC.
func ParseWeek(s string, loc *time.Location) (since, until time.Time, err error) {
	m := week.FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, time.Time{}, fmt.Errorf(`%q is not a week; write one like "2026-W48"`, s)
	}
	year, _ := strconv.Atoi(m[1])
	n, _ := strconv.Atoi(m[2])
	monday := weekOne(year).AddDate(0, 0, 7*(n-1))
	if y, w := monday.ISOWeek(); y != year || w != n {
		last := int(weekOne(year+1).Sub(weekOne(year)).Hours()) / (7 * 24)
		return time.Time{}, time.Time{}, fmt.Errorf("%q is not a week: %d has the weeks W01 to W%d", s, year, last)
	}
	next := monday.AddDate(0, 0, 7)
	return StartOfDay(monday.Year(), monday.Month(), monday.Day(), loc), StartOfDay(next.Year(), next.Month(), next.Day(), loc), nil
}

// weekOne returns the Monday of the week that holds 4 January.
// Source: ISO 8601-1:2019, 3.1.1.23.
func weekOne(year int) time.Time {
	t := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)
	return t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
}

// StartOfDay returns the first moment of a calendar day in loc, in UTC. That is
// midnight, the earlier one where a change of clocks makes two; where it leaves
// none out, the moment of the change. time.Date promises neither.
func StartOfDay(year int, month time.Month, day int, loc *time.Location) time.Time {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	var first time.Time
	// No zone is further than 15 hours from UTC, so these see every offset that
	// can hold at the day's start.
	for _, around := range []time.Duration{-26 * time.Hour, -15 * time.Hour, 0, 15 * time.Hour} {
		_, offset := midnight.Add(around).In(loc).Zone()
		t := midnight.Add(-time.Duration(offset) * time.Second)
		if wall(t.In(loc)).Equal(midnight) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		return first
	}
	// Midnight was skipped: the day begins with a change of clocks.
	for t := midnight.Add(-26 * time.Hour).In(loc); ; {
		_, end := t.ZoneBounds()
		if end.IsZero() || end.After(midnight.Add(26*time.Hour)) {
			return time.Date(year, month, day, 0, 0, 0, 0, loc).UTC()
		}
		if !wall(end).Before(midnight) {
			return end.UTC()
		}
		t = end
	}
}

// wall is what a clock on the wall shows, as if it were UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
