package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/zone"
)

func TestTimetable(t *testing.T) {
	tests := map[string]struct {
		text, zone, from, until string
		want                    []string // slots in UTC
		count                   int      // instead of want
	}{
		"H01 a time that the change to summer time skips comes at the change": {text: "30 2 * * *", zone: "America/New_York", from: "2026-03-07T12:00:00Z", until: "2026-03-10T00:00:00Z",
			want: []string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		"H01 a time that the change back repeats comes once, the first time": {text: "30 1 * * *", zone: "America/New_York", from: "2026-10-31T12:00:00Z", until: "2026-11-03T00:00:00Z",
			want: []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		"H01 the same, begun between the two": {text: "30 1 * * *", zone: "America/New_York", from: "2026-11-01T06:10:00Z", until: "2026-11-03T00:00:00Z",
			want: []string{"2026-11-02T06:30:00Z"}},
		"H01 every hour has 23 runs on the short day": {text: "15 * * * *", zone: "America/New_York", from: "2026-03-08T05:00:00Z", until: "2026-03-09T04:00:00Z", count: 23},
		"H01 every hour has 25 runs on the long day":  {text: "15 * * * *", zone: "America/New_York", from: "2026-11-01T04:00:00Z", until: "2026-11-02T05:00:00Z", count: 25},
		"H01 several times in the hour that is skipped come once, at the change": {text: "*/20 2 * * *", zone: "America/New_York", from: "2026-03-08T05:00:00Z", until: "2026-03-09T05:00:00Z",
			want: []string{"2026-03-08T07:00:00Z"}},
		"H02 a minute past midnight in Berlin, over the change back": {text: "1 0 * * *", zone: "Europe/Berlin", from: "2026-10-24T10:00:00Z", until: "2026-10-27T11:00:00Z",
			want: []string{"2026-10-24T22:01:00Z", "2026-10-25T23:01:00Z", "2026-10-26T23:01:00Z"}},
		"a change by half an hour": {text: "15 2 * * *", zone: "Australia/Lord_Howe", from: "2026-10-03T00:00:00Z", until: "2026-10-05T00:00:00Z",
			want: []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		"a day whose midnight is skipped": {text: "0 0 * * *", zone: "America/Santiago", from: "2026-09-05T12:00:00Z", until: "2026-09-07T12:00:00Z",
			want: []string{"2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}},
		"H08 days of the month and of the week are either": {text: "0 9 1 * 1", zone: "UTC", from: "2026-09-22T00:00:00Z", until: "2026-10-06T00:00:00Z",
			want: []string{"2026-09-28T09:00:00Z", "2026-10-01T09:00:00Z", "2026-10-05T09:00:00Z"}},
		"a zone in the line wins": {text: "CRON_TZ=Europe/Berlin 0 8 * * *", zone: "America/New_York", from: "2026-07-01T00:00:00Z", until: "2026-07-02T00:00:00Z",
			want: []string{"2026-07-01T06:00:00Z"}},
		"an interval knows no calendar": {text: "90m", zone: "Europe/Berlin", from: "2026-10-25T00:00:00Z", until: "2026-10-25T03:00:00Z",
			want: []string{"2026-10-25T01:30:00Z", "2026-10-25T03:00:00Z"}},
		"a slot just behind": {text: "0 9 * * *", zone: "UTC", from: "2026-09-22T08:59:59.999999Z", until: "2026-09-22T10:00:00Z", want: []string{"2026-09-22T09:00:00Z"}},
		"no slot at its own": {text: "0 9 * * *", zone: "UTC", from: "2026-09-22T09:00:00Z", until: "2026-09-22T10:00:00Z"},
	}
	when := func(t *testing.T, s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			table, err := ParseTimetable(tt.text, zone)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			until := when(t, tt.until)
			for at := table.next(when(t, tt.from)).at; !at.After(until); at = table.next(at).at {
				got = append(got, at.UTC().Format(time.RFC3339))
			}
			if tt.count > 0 && len(got) != tt.count || tt.count == 0 && !slices.Equal(got, tt.want) {
				t.Errorf("got %d: %v\nwant %d %v", len(got), got, tt.count, tt.want)
			}
			if n := table.missed(when(t, tt.from), until); n != len(got) {
				t.Errorf("%d missed, want %d", n, len(got))
			}
		})
	}
}

func TestParseTimetable(t *testing.T) {
	berlin, err := zone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		in, every, zone string // every is of an interval
	}{
		"an interval":              {"30s", "30s", ""},
		"an interval in days":      {"1d", "24h0m0s", ""},
		"every, as cron has it":    {"@every 90m", "1h30m0s", ""},
		"every so many days":       {"@every 1d", "24h0m0s", ""},
		"five fields":              {"0 8 * * *", "0s", "Europe/Berlin"},
		"days by name":             {"*/5 7-19 * * MON-FRI", "0s", "Europe/Berlin"},
		"both day fields":          {"0 9 1 * 1", "0s", "Europe/Berlin"},
		"a name":                   {"@hourly", "0s", "Europe/Berlin"},
		"a zone of its own":        {"CRON_TZ=America/New_York 0 8 * * *", "0s", "America/New_York"},
		"a zone, the short way":    {"TZ=UTC  @daily", "0s", "UTC"},
		"a day of leap years only": {"0 0 29 2 *", "0s", "Europe/Berlin"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTimetable(c.in, berlin)
			if err != nil {
				t.Fatal(err)
			}
			if got.every.String() != c.every || got.spec != nil && got.zone.String() != c.zone || (got.spec == nil) != (c.zone == "") {
				t.Errorf("%q: got %+v; want %+v", c.in, got, c)
			}
			if want := strings.TrimPrefix(c.in, "@every "); got.String() != want {
				t.Errorf("%q is shown as %q, want %q", c.in, got, want)
			}
			if again, err := ParseTimetable(got.String(), berlin); err != nil || again.String() != got.String() || again.every != got.every {
				t.Errorf("%q, read again: %+v, %v", got, again, err)
			}
		})
	}
	for _, in := range []string{"", "0s", "1ms", "-5m", "-30s", "30", "never", "* * * *", "* * * * * *", "60 * * * *", "61 * * * *", "0 0 31 2 *", "TZ=", "TZ=UTC",
		"CRON_TZ=Nope/Zone 0 8 * * *", "TZ=UTC TZ=UTC 0 8 * * *", "@often", "@every soon", "TZ=Local 0 8 * * *", "TZ=UTC @every 5m"} {
		if got, err := ParseTimetable(in, berlin); err == nil {
			t.Errorf("%q: got %+v", in, got)
		}
	}
}

func TestAClockThatIsSetBackDelaysNoSlot(t *testing.T) {
	at := func(s string) time.Time {
		x, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, schedule := range []string{"0 * * * *", "1h"} {
		d, err := ParseTimetable(schedule, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		due := d.next(at("2027-11-29T10:30:00Z")) // of a host that was a year ahead
		var daemon Daemon
		j := daemonJob{name: "settle", table: d}
		if daemon.reached(j, &due, at("2026-11-29T10:30:00Z")) || due.at.Sub(at("2026-11-29T10:30:00Z")) > time.Hour {
			t.Errorf("%q: next at %s, want within the hour", schedule, due.at)
		}
		still := due
		daemon.reached(j, &due, at("2026-11-29T10:31:00Z"))
		if !due.at.Equal(still.at) {
			t.Errorf("%q: moved from %s to %s", schedule, still.at, due.at)
		}
	}
}
