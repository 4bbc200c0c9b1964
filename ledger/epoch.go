package ledger

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// asEpoch says which instant a number means to whoever counts from 1970, as what
// to write instead; "" where it is an instant of this century in no unit, or is
// no number.
func asEpoch(number string) string {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return ""
	}
	from, until := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, unit := range []struct {
		name      string
		perSecond float64
	}{{"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}} {
		seconds := f / unit.perSecond
		if seconds < float64(from.Unix()) || seconds >= float64(until.Unix()) {
			continue
		}
		// Milliseconds are what a float64 keeps of any of these.
		t := time.UnixMilli(int64(math.Round(seconds * 1e3))).UTC()
		return fmt.Sprintf("as %s since 1970 it is %q: write that", unit.name, t.Format(time.RFC3339Nano))
	}
	return ""
}
