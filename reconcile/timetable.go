package reconcile

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/zone"
)

// Timetable says when a job runs: at an interval, or by a cron line, which is
// read by the calendar of a zone. A line that names hours runs once for each
// time of day that it names: one that the change to summer time skips at the
// moment of the change, one that the change back repeats the first time alone.
// A line for every hour runs in each hour that there is, 23 or 25 a day.
// As always in cron, a line that names days of the month and of the week runs
// on both.
type Timetable struct {
	text  string
	every time.Duration // of an interval; else zero
	spec  *cron.SpecSchedule
	zone  *time.Location
}

// shortestInterval keeps a slip of the pen from becoming a loop without pause.
// The daemon looks at its timetable once a second; what is below that is a
// second.
const shortestInterval = 10 * time.Millisecond

// ParseTimetable reads an interval ("30s", "1d") or a cron line: five fields or
// a name such as @hourly. A line is read in the zone given; it may name one of its
// own ("CRON_TZ=Europe/Berlin 0 8 * * *").
func ParseTimetable(text string, in *time.Location) (Timetable, error) {
	// "@every 30s" says no more than "30s", and cron would not take days in it.
	interval := strings.TrimSpace(strings.TrimPrefix(text, "@every "))
	if every, err := duration.Parse(interval); err == nil {
		if every < shortestInterval {
			return Timetable{}, fmt.Errorf("%q is refused: a job needs an interval of %v or more", text, shortestInterval)
		}
		return Timetable{text: interval, every: every, zone: in}, nil
	}
	line := text
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		rest, ok := strings.CutPrefix(line, prefix)
		if !ok {
			continue
		}
		name, fields, _ := strings.Cut(rest, " ")
		own, err := zone.Load(name)
		if err != nil {
			return Timetable{}, err
		}
		in, line = own, strings.TrimSpace(fields)
		break
	}
	parsed, err := cron.ParseStandard("TZ=UTC " + line) // it is asked about wall time
	spec, isLine := parsed.(*cron.SpecSchedule)
	if err != nil || !isLine || strings.Contains(line, "TZ=") {
		return Timetable{}, fmt.Errorf(`%q is neither an interval such as "30s" nor a cron line such as "0 8 * * MON" or "@hourly"`, text)
	}
	tt := Timetable{text: text, spec: spec, zone: in}
	// A fixed start: whether a line ever comes due does not depend on today.
	if tt.next(time.Unix(0, 0)).at.IsZero() {
		return Timetable{}, fmt.Errorf("%q names a day that never comes; correct day and month", text)
	}
	return tt, nil
}

// String is the timetable as it was written, but for "@every ".
func (tt Timetable) String() string { return tt.text }

// slot is one planned run.
type slot struct {
	at      time.Time
	shifted bool // its time of day was skipped by a change of clocks
}

// everyHour says whether a cron line names no hours.
func (tt Timetable) everyHour() bool {
	const all = 1<<24 - 1
	return tt.spec.Hour&all == all
}

// next is the first slot after a moment; a zero one where there is none within
// five years.
func (tt Timetable) next(after time.Time) slot {
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
func (tt Timetable) missed(after, until time.Time) int {
	if tt.spec == nil {
		return int(min(until.Sub(after)/tt.every, 1000))
	}
	n := 0
	for at := tt.next(after).at; !at.IsZero() && !at.After(until) && n < 1000; at = tt.next(at).at {
		n++
	}
	return n
}
