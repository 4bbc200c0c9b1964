package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/recovery-ledger/reconcile/internal/duration"
)

// timetable says when a job runs: at an interval, or by a cron line, which is
// read by the calendar of a zone. A line that names hours runs once for each
// time of day that it names: one that the change to summer time skips at the
// moment of the change, one that the change back repeats the first time alone.
// A line for every hour runs in each hour that there is, 23 or 25 a day.
// As always in cron, a line that names days of the month and of the week runs
// on both.
type timetable struct {
	every time.Duration // of an interval; else zero
	spec  *cron.SpecSchedule
	zone  *time.Location
}

// newTimetable reads an interval ("30s") or a cron line of five fields; a line
// may name a zone of its own ("CRON_TZ=Europe/Berlin 0 8 * * *").
func newTimetable(text string, zone *time.Location) (timetable, error) {
	tt := timetable{zone: zone}
	every, err := duration.Parse(text)
	if err == nil && every > 0 {
		tt.every = every
		return tt, nil
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return tt, fmt.Errorf("%q is neither an interval (\"30s\") nor a cron line (\"*/5 * * * *\"): %w", text, err)
	}
	switch s := s.(type) {
	case cron.ConstantDelaySchedule: // "@every 5m"
		tt.every = s.Delay
	case *cron.SpecSchedule:
		if s.Location != time.Local { // what stands there where the line names no zone
			tt.zone = s.Location
		}
		s.Location = time.UTC // it is asked about wall time
		tt.spec = s
		if tt.next(time.Unix(0, 0)).at.IsZero() {
			return tt, errors.New("this cron line never comes")
		}
	}
	return tt, nil
}

// slot is one planned run.
type slot struct {
	at      time.Time
	shifted bool // its time of day was skipped by a change of clocks
}

// everyHour says whether a cron line names no hours.
func (tt timetable) everyHour() bool {
	const all = 1<<24 - 1
	return tt.spec.Hour&all == all
}

// next is the first slot after a moment; a zero one where there is none within
// five years.
func (tt timetable) next(after time.Time) slot {
	if tt.spec == nil {
		return slot{at: after.Add(tt.every)}
	}
	if tt.everyHour() {
		s := *tt.spec
		s.Location = tt.zone
		return slot{at: s.Next(after.In(tt.zone))}
	}
	wall := wallOf(after.In(tt.zone))
	for {
		if wall = tt.spec.Next(wall); wall.IsZero() {
			return slot{}
		}
		if s := instantOf(wall, tt.zone); s.at.After(after) {
			return s
		}
	}
}

// wallOf is what the clocks on the wall show, as if it were UTC.
func wallOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instantOf is the first moment at which the clocks of a zone show that, or the
// moment at which they jump past it.
func instantOf(wall time.Time, zone *time.Location) slot {
	var first time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(near).In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if wallOf(at).Equal(wall) {
			return slot{at: at} // by the offset before a change first: the earlier one
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	_, change := first.ZoneBounds()
	return slot{at: change, shifted: true}
}

// missed is how many slots lie after one moment and not after another, at most
// a thousand.
func (tt timetable) missed(after, until time.Time) int {
	if tt.spec == nil {
		return int(min(until.Sub(after)/tt.every, 1000))
	}
	n := 0
	for at := tt.next(after).at; !at.IsZero() && !at.After(until) && n < 1000; at = tt.next(at).at {
		n++
	}
	return n
}
