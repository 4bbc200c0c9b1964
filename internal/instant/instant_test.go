package instant

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// now is a fixed reading of the clock.
var now = time.Date(2026, 9, 27, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		zone, in, want string
	}{
		"hours ago":                              {"UTC", "24h", "2026-09-26T12:00:00Z"},
		"days ago":                               {"UTC", "7d", "2026-09-20T12:00:00Z"},
		"weeks ago":                              {"UTC", "2w", "2026-09-13T12:00:00Z"},
		"minutes ago":                            {"UTC", "90m", "2026-09-27T10:30:00Z"},
		"a date in UTC":                          {"UTC", "2026-09-20", "2026-09-20T00:00:00Z"},
		"a date is the start of day in the zone": {"Europe/Berlin", "2026-09-20", "2026-09-19T22:00:00Z"},
		"a date after the clocks went back":      {"Europe/Berlin", "2026-11-01", "2026-10-31T23:00:00Z"},
		"RFC 3339 with an offset":                {"America/New_York", "2026-09-20T14:00:00+02:00", "2026-09-20T12:00:00Z"},
		"RFC 3339 with fractions":                {"UTC", "2026-09-20T14:00:00.5Z", "2026-09-20T14:00:00.5Z"},
		"a day without a midnight":               {"Africa/Cairo", "2023-04-28", "2023-04-27T22:00:00Z"},
		"a day with two midnights":               {"Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00Z"},
		"a day that never was":                   {"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},
		"zero is now":                            {"UTC", "0s", "2026-09-27T12:00:00Z"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.in, now, zone(t, c.zone))
			if err != nil {
				t.Fatalf("%q: %v", c.in, err)
			}
			if s := got.Format(time.RFC3339Nano); s != c.want {
				t.Errorf("%q in %s: got %s, want %s", c.in, c.zone, s, c.want)
			}
		})
	}
}

func TestParseAheadCountsForward(t *testing.T) {
	got, err := ParseAhead("2d", now, time.UTC)
	if want := now.Add(48 * time.Hour); err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParseRefusesAndListsTheForms(t *testing.T) {
	for _, in := range []string{"-1h", "0", "tomorrow", "", " 24h", "2026-13-01", "2026-02-30", "2026-9-2", "2026-09-20T14:00:00", "20", "24 h", "1e3h"} {
		_, err := Parse(in, now, time.UTC)
		if err == nil {
			t.Errorf("%q: was accepted", in)
			continue
		}
		for _, form := range []string{`"24h"`, `"7d"`, `"2w"`, `"90m"`, `"2026-09-20"`, "RFC 3339"} {
			if !strings.Contains(err.Error(), form) {
				t.Errorf("%q: the error does not list %s: %v", in, form, err)
			}
		}
	}
}

func TestParseWeek(t *testing.T) {
	cases := map[string]struct {
		zone, in, since, until string
	}{
		"an ordinary week":                        {"UTC", "2026-W48", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		"the first week may begin in December":    {"UTC", "2026-W01", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		"a long year has a week 53":               {"UTC", "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		"the week in which clocks go back is 169": {"Europe/Berlin", "2026-W43", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			since, until, err := ParseWeek(c.in, zone(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			if s, u := since.Format(time.RFC3339), until.Format(time.RFC3339); s != c.since || u != c.until {
				t.Errorf("%q: got %s to %s, want %s to %s", c.in, s, u, c.since, c.until)
			}
		})
	}
	for _, in := range []string{"2026-W00", "2026-W54", "2027-W53", "2026-48", "W48", "2026-W4", "2026-w48", "last"} {
		if _, _, err := ParseWeek(in, time.UTC); err == nil {
			t.Errorf("%q: was accepted", in)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"24h", "7d", "2w", "90m", "2026-09-20", "2026-09-20T14:00:00+02:00", "-1h", "0", "tomorrow", "2026-W48", "0000-01-01", "9999-12-31"} {
		f.Add(s, "Europe/Berlin")
		f.Add(s, "Africa/Cairo")
		f.Add(s, "Pacific/Apia")
	}
	f.Fuzz(func(t *testing.T, s, name string) {
		loc, err := time.LoadLocation(name)
		if err != nil {
			return
		}
		if at, err := Parse(s, now, loc); err == nil {
			if at.Location() != time.UTC {
				t.Errorf("%q: result is not in UTC", s)
			}
			// A date is the first moment of that day: a nanosecond earlier the
			// calendar shows another one.
			if d, dateErr := time.Parse(time.DateOnly, s); dateErr == nil {
				before := at.Add(-1).In(loc).Format(time.DateOnly)
				if before >= d.Format(time.DateOnly) {
					t.Errorf("%q in %s: %v is not the day's start; the moment before is on %s", s, name, at, before)
				}
			}
		}
		if since, until, err := ParseWeek(s, loc); err == nil && !since.Before(until) {
			t.Errorf("%q in %s: %v to %v", s, name, since, until)
		}
	})
}
