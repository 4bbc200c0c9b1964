package connectors

import (
	"testing"
	"time"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC) // a Tuesday
	for in, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "1.5": 2 * time.Second, "2.0": 2 * time.Second, "0.5": time.Second, " 7 ": 7 * time.Second,
		"Tue, 22 Sep 2026 10:02:00 GMT": 2 * time.Minute, "Tuesday, 22-Sep-26 10:02:00 GMT": 2 * time.Minute,
		"Tue Sep 22 10:02:00 2026": 2 * time.Minute, "Tue, 22 Sep 2026 10:02:00 +0000": 2 * time.Minute,
		"Tue, 22 Sep 2026 09:59:00 GMT": 0,
		"-3":                            0, "+3": 0, "1e3": 0, "0x10": 0, "": 0, "   ": 0, "soon": 0, "2,0": 0, "120junk": 0, "120, 120": 0, "²": 0, "１２０": 0, ".5": 0, "5.": 0, "1.2.3": 0,
	} {
		if got := ParseRetryAfter(in, now); got.Wait != want || got.Beyond || got.Raw != in {
			t.Errorf("%q: got %+v, want %s", in, got, want)
		}
	}
	if got := ParseRetryAfter("Tue, 22 Sep 2026 10:00:00 GMT", now.Add(-400*time.Millisecond)); got.Wait != time.Second {
		t.Errorf("less than half a second left: got %s, want 1s", got.Wait)
	}
	for _, in := range []string{"9223372036", "9223372037", "9223372036854775807", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		if got := ParseRetryAfter(in, now); !got.Beyond || got.Wait != LongestWait {
			t.Errorf("%q: got %+v, want beyond every window", in, got)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Tue, 22 Sep 2026 10:02:00 GMT")
	f.Fuzz(func(t *testing.T, s string) {
		if r := ParseRetryAfter(s, time.Unix(1790071200, 0)); r.Wait < 0 || r.Wait > LongestWait || r.Raw != s {
			t.Errorf("%q: %+v", s, r)
		}
	})
}
