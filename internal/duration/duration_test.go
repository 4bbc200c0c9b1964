package duration

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		in   string
		want time.Duration
		err  string
	}{
		"seconds":                       {"30s", 30 * time.Second, ""},
		"days":                          {"7d", 168 * time.Hour, ""},
		"weeks":                         {"2w", 336 * time.Hour, ""},
		"days and hours":                {"1d12h", 36 * time.Hour, ""},
		"half a day":                    {"0.5d", 12 * time.Hour, ""},
		"zero":                          {"0s", 0, ""},
		"minutes and seconds":           {"1m30s", 90 * time.Second, ""},
		"a bare number says the remedy": {"30", 0, `"30s" for seconds`},
		"a bare fraction":               {"1.5", 0, "no unit"},
		"bare zero":                     {"0", 0, "no unit"},
		"negative":                      {"-3s", 0, "negative"},
		"empty":                         {"", 0, "empty"},
		"unit first":                    {"h3", 0, "not a duration"},
		"unknown unit":                  {"3y", 0, "not a duration"},
		"months are no unit":            {"6mo", 0, "not a duration"},
		"overflow in days":              {"999999999d", 0, "longer than"},
		"overflow in hours":             {"99999999999h", 0, "not a duration"},
		"sum overflows":                 {"36000d36000d", 0, "longer than"},
		"two points":                    {"1.2.3d", 0, "not a duration"},
		"blank inside":                  {"1 d", 0, "not a duration"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.in)
			switch {
			case c.err == "" && (err != nil || got != c.want):
				t.Errorf("Parse(%q) = %v, %v; want %v", c.in, got, err, c.want)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("Parse(%q) = %v, %v; want an error with %q", c.in, got, err, c.err)
			}
		})
	}
}

func TestFormatIsReadBack(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1m": time.Minute, "2h": 2 * time.Hour, "1h30m": 90 * time.Minute,
		"7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1h0m5s": time.Hour + 5*time.Second,
	} {
		if got := Format(d); got != want {
			t.Errorf("Format(%v) = %q, want %q", d, got, want)
		}
		if back, err := Parse(want); err != nil || back != d {
			t.Errorf("Parse(%q) = %v, %v; want %v", want, back, err, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30s", "7d", "1d12h", "99999999999999999999w", "0.5d", "٣s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err == nil && (d < 0 || d > Longest) {
			t.Errorf("Parse(%q) = %v, out of range", s, d)
		}
	})
}
