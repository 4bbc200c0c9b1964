package httpclient

import (
	"net/http"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

var t0 = time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	type want struct {
		wait   time.Duration
		beyond bool
	}
	year := connectors.LongestWait
	cases := map[string]struct {
		value string
		date  string
		now   time.Time
		want  want
	}{
		"D01 the last second that fits a duration":   {"9223372036", "", t0, want{year, true}},
		"D01 one second more overflows":              {"9223372037", "", t0, want{year, true}},
		"D01 the largest int64":                      {"9223372036854775807", "", t0, want{year, true}},
		"D01 beyond int64":                           {"99999999999999999999", "", t0, want{year, true}},
		"D02 negative":                               {"-3", "", t0, want{}},
		"D02 plus sign":                              {"+3", "", t0, want{}},
		"D02 fraction rounds up":                     {"1.5", "", t0, want{2 * time.Second, false}},
		"D02 exponent":                               {"1e3", "", t0, want{}},
		"D02 hexadecimal":                            {"0x10", "", t0, want{}},
		"D02 empty":                                  {"", "", t0, want{}},
		"D02 blanks":                                 {"   ", "", t0, want{}},
		"D02 words":                                  {"soon", "", t0, want{}},
		"D03 IMF fixdate":                            {"Tue, 22 Sep 2026 10:02:00 GMT", "", t0, want{120 * time.Second, false}},
		"D03 RFC 850":                                {"Tuesday, 22-Sep-26 10:02:00 GMT", "", t0, want{120 * time.Second, false}},
		"D03 asctime":                                {"Tue Sep 22 10:02:00 2026", "", t0, want{120 * time.Second, false}},
		"D03 a past date asks nothing more":          {"Tue, 22 Sep 2026 09:59:00 GMT", "", t0, want{}},
		"D03 numeric zone":                           {"Tue, 22 Sep 2026 10:02:00 +0000", "", t0, want{120 * time.Second, false}},
		"D04 decimal seconds":                        {"2.0", "", t0, want{2 * time.Second, false}},
		"D04 half a second":                          {"0.5", "", t0, want{time.Second, false}},
		"D04 decimal comma":                          {"2,0", "", t0, want{}},
		"D05 seconds are not milliseconds":           {"4", "", t0, want{4 * time.Second, false}},
		"D06 trailing junk":                          {"120junk", "", t0, want{}},
		"D06 two values":                             {"120, 120", "", t0, want{}},
		"D06 superscript digit":                      {"²", "", t0, want{}},
		"D06 full-width digits":                      {"１２０", "", t0, want{}},
		"D07 less than half a second left":           {"Tue, 22 Sep 2026 10:00:00 GMT", "", t0.Add(-400 * time.Millisecond), want{time.Second, false}},
		"D17 measured against the answer's own date": {"Tue, 22 Sep 2026 10:06:00 GMT", "Tue, 22 Sep 2026 10:05:00 GMT", t0, want{60 * time.Second, false}},
		"an unreadable own date is not used":         {"Tue, 22 Sep 2026 10:06:00 GMT", "yesterday", t0, want{360 * time.Second, false}},
		"a date in another century":                  {"Fri, 31 Dec 9999 23:59:59 GMT", "", t0, want{year, true}},
		"zero":                                       {"0", "", t0, want{}},
		"outer blanks":                               {" 30 ", "", t0, want{30 * time.Second, false}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			h.Set("Retry-After", c.value)
			if c.date != "" {
				h.Set("Date", c.date)
			}
			got := ParseRetryAfter(h, c.now)
			if w := (connectors.RetryAfter{Wait: c.want.wait, Beyond: c.want.beyond, Raw: c.value}); got != w {
				t.Errorf("Retry-After %q, Date %q: got %+v, want %+v", c.value, c.date, got, w)
			}
		})
	}
}

func TestParseReset(t *testing.T) {
	cases := map[string]struct {
		raw, unit string
		want      time.Duration
		beyond    bool
	}{
		"D08 a moment ago":           {"1790071140", "", 0, false},
		"D09 epoch seconds":          {"1790071290", "", 90 * time.Second, false},
		"D09 epoch milliseconds":     {"1790071290000", "", 90 * time.Second, false},
		"epoch with a fraction":      {"1790071289.2", "", 90 * time.Second, false},
		"epoch microseconds":         {"1790071290000000", "", 90 * time.Second, false},
		"epoch nanoseconds":          {"1790071290000000000", "", 90 * time.Second, false},
		"negative":                   {"-90", "", 0, false},
		"infinite":                   {"Inf", "", 0, false},
		"not a number":               {"NaN", "", 0, false},
		"timestamp with an offset":   {"2026-09-22T12:01:00+02:00", "", time.Minute, false},
		"an HTTP date":               {"Tue, 22 Sep 2026 10:01:00 GMT", "", time.Minute, false},
		"D09 delta":                  {"90", "", 90 * time.Second, false},
		"D10 body in seconds":        {"737.317", "s", 738 * time.Second, false},
		"D10 body in milliseconds":   {"555", "ms", time.Second, false},
		"timestamp":                  {"2026-09-22T10:01:00Z", "", time.Minute, false},
		"unit says timestamp":        {"90", "iso", 0, false},
		"unit says epoch":            {"1790071290", "epoch", 90 * time.Second, false},
		"a number larger than any":   {"99999999999999999999999", "s", connectors.LongestWait, true},
		"junk":                       {"soon", "", 0, false},
		"empty":                      {"", "", 0, false},
		"a unit that does not exist": {"90", "weeks", 0, false},
	}
	now := time.Unix(1790071200, 0)
	if !now.Equal(t0) {
		t.Fatal("the cases count from 2026-09-22T10:00:00Z")
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ParseReset(c.raw, c.unit, now)
			if got.Wait != c.want || got.Beyond != c.beyond || got.Raw != c.raw {
				t.Errorf("ParseReset(%q, %q) = %+v, want %v", c.raw, c.unit, got, c.want)
			}
		})
	}
}

func TestOfSeveralRetryAfterTheLongestHolds(t *testing.T) {
	h := http.Header{"Retry-After": {"5", "soon", "120", "Tue, 22 Sep 2026 10:01:00 GMT"}}
	got := ParseRetryAfter(h, t0)
	if got.Wait != 2*time.Minute || got.Raw != "5; soon; 120; Tue, 22 Sep 2026 10:01:00 GMT" {
		t.Errorf("got %+v", got)
	}
}

func TestLaterKeepsBothTexts(t *testing.T) {
	a := connectors.RetryAfter{Wait: time.Second, Raw: "1"}
	b := connectors.RetryAfter{Wait: time.Minute, Raw: "60"}
	want := connectors.RetryAfter{Wait: time.Minute, Raw: "1; 60"}
	if got := Later(a, b); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Later(a, connectors.RetryAfter{Beyond: true, Wait: connectors.LongestWait}); !got.Beyond || got.Raw != "1" {
		t.Errorf("got %+v", got)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "1.5", "99999999999999999999", "Tue, 22 Sep 2026 10:02:00 GMT", "²", "-1"} {
		f.Add(s, "Tue, 22 Sep 2026 10:05:00 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		got := ParseRetryAfter(h, t0)
		if got.Wait < 0 || got.Wait > connectors.LongestWait || got.Raw != value || got.Beyond && got.Wait != connectors.LongestWait {
			t.Errorf("%q, %q: %+v", value, date, got)
		}
		reset := ParseReset(value, "", t0)
		if reset.Wait < 0 || reset.Wait > connectors.LongestWait {
			t.Errorf("reset %q: %+v", value, reset)
		}
	})
}
