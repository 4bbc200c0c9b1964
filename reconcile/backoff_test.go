package reconcile

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestBackoffDelay(t *testing.T) {
	plain := Backoff{Kind: BackoffExponential, Base: 30 * time.Second, Factor: 2, Max: time.Hour}
	for name, c := range map[string]struct {
		b       Backoff
		attempt int
		want    time.Duration
	}{
		"the first":                           {plain, 1, 30 * time.Second},
		"the seventh":                         {plain, 7, 1920 * time.Second},
		"the eighth is capped":                {plain, 8, time.Hour},
		"where nanoseconds turn negative":     {plain, 30, time.Hour},
		"where they turn false":               {plain, 40, time.Hour},
		"where floats overflow":               {plain, 100_000, time.Hour},
		"before the first":                    {plain, 0, 30 * time.Second},
		"no cap of its own":                   {Backoff{Base: time.Second, Factor: 10}, 1000, longestWait},
		"linear":                              {Backoff{Kind: BackoffLinear, Base: time.Minute, Max: time.Hour}, 5, 5 * time.Minute},
		"linear, capped":                      {Backoff{Kind: BackoffLinear, Base: time.Minute, Max: time.Hour}, 1 << 40, time.Hour},
		"fixed":                               {Backoff{Kind: BackoffFixed, Base: time.Minute, Max: time.Hour}, 9, time.Minute},
		"a base of nothing waits for nothing": {Backoff{Factor: 2, Max: time.Hour}, 9, 0},
		"a factor below one never shrinks":    {Backoff{Base: time.Minute, Factor: 0.5, Max: time.Hour}, 9, time.Minute},
	} {
		if got := c.b.Delay(c.attempt, "k"); got != c.want {
			t.Errorf("%s: after attempt %d got %s, want %s", name, c.attempt, got, c.want)
		}
	}
}

func TestJitterOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Kind:   rapid.SampledFrom([]BackoffKind{BackoffExponential, BackoffLinear, BackoffFixed, ""}).Draw(t, "kind"),
			Base:   time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "base")),
			Factor: rapid.Float64().Draw(t, "factor"),
			Max:    time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "max")),
			Jitter: rapid.Float64Range(-1, 5).Draw(t, "jitter"),
		}
		n, seed := rapid.Int().Draw(t, "attempt"), rapid.String().Draw(t, "seed")
		d, plain := b.Delay(n, seed), b.plain(n)
		if plain < 0 || d < plain || b.Max > 0 && plain > b.Max {
			t.Fatalf("%+v attempt %d: %s of %s", b, n, d, plain)
		}
		if d != b.Delay(n, seed) {
			t.Fatal("the same seed gave another wait")
		}
	})
}

func TestEntriesLimitedTogetherDoNotWakeTogether(t *testing.T) {
	p := DefaultPolicy()
	second := map[int64]int{}
	first, last := time.Duration(1<<62), time.Duration(0)
	for i := range 200 {
		e := ledger.Entry{ActionKey: fmt.Sprintf("run_%d:create-contact", i), AttemptCount: 1}
		a := ledger.Attempt{Status: ledger.AttemptError, Class: ledger.ClassRateLimit, Effect: ledger.EffectNotDone, RetryAfter: "600", ReceivedAt: t0, SendBy: t0}
		w := NextAttemptAt(e, []ledger.Attempt{a}, p, t0).Sub(t0)
		first, last = min(first, w), max(last, w)
		second[int64(w/time.Second)]++
	}
	if first < 600*time.Second || last-first < time.Minute {
		t.Errorf("between %s and %s", first, last)
	}
	for s, n := range second {
		if n > 10 {
			t.Errorf("%d wake at second %d", n, s)
		}
	}
}

func TestNextAttemptAt(t *testing.T) {
	p := DefaultPolicy()
	p.Backoff.Jitter = 0
	failed := func(received time.Duration, retryAfter string) ledger.Attempt {
		return ledger.Attempt{Status: ledger.AttemptError, Effect: ledger.EffectNotDone, RetryAfter: retryAfter, ReceivedAt: at(received), SendBy: at(received)}
	}
	for name, c := range map[string]struct {
		as   []ledger.Attempt
		now  time.Duration
		want time.Duration
	}{
		"it has only waited: at once":                      {nil, 0, 0},
		"backoff from the last result":                     {[]ledger.Attempt{failed(0, "")}, 10 * time.Second, 30 * time.Second},
		"backoff is over: at once, never in the past":      {[]ledger.Attempt{failed(0, "")}, time.Hour, time.Hour},
		"seconds are seconds, the later of the two holds":  {[]ledger.Attempt{failed(0, "4")}, 0, 30 * time.Second},
		"the system asks for more":                         {[]ledger.Attempt{failed(0, "120")}, 0, 2 * time.Minute},
		"what an earlier attempt was asked holds on":       {[]ledger.Attempt{failed(0, "3600"), failed(time.Second, "")}, time.Second, time.Hour},
		"junk is ignored":                                  {[]ledger.Attempt{failed(0, "soon")}, 0, 30 * time.Second},
		"overflow is beyond every window":                  {[]ledger.Attempt{failed(0, "99999999999999999999")}, 0, longestWait},
		"of ours, from when it ended":                      {[]ledger.Attempt{{Ours: true, Status: ledger.AttemptError, StartedAt: at(0), FinishedAt: at(20 * time.Second)}}, 20 * time.Second, 50 * time.Second},
		"from the result, not from the first report of it": {[]ledger.Attempt{{Status: ledger.AttemptError, ReceivedAt: at(0), SendBy: at(time.Minute)}}, time.Minute, 90 * time.Second},
	} {
		e := ledger.Entry{ActionKey: "k", AttemptCount: len(c.as)}
		e.AttemptCount = min(e.AttemptCount, 1)
		if got := NextAttemptAt(e, c.as, p, at(c.now)).Sub(t0); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestNoWaitIsNegativeOrBeforeRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultPolicy()
		p.Backoff.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		e := ledger.Entry{ActionKey: rapid.String().Draw(t, "key"), AttemptCount: rapid.IntRange(0, 2000).Draw(t, "count")}
		now := at(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "now")))
		var as []ledger.Attempt
		var floor time.Time
		for range rapid.IntRange(0, 4).Draw(t, "attempts") {
			s := rapid.Uint32Max(9*365*24*3600).Draw(t, "seconds")
			received := at(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "received")))
			as = append(as, ledger.Attempt{Status: ledger.AttemptError, ReceivedAt: received, SendBy: received, RetryAfter: fmt.Sprint(s)})
			floor = later(floor, received.Add(time.Duration(s)*time.Second))
		}
		next := NextAttemptAt(e, as, p, now)
		if next.Before(now) || next.Before(floor) {
			t.Fatalf("next %s, now %s, floor %s", next, now, floor)
		}
	})
}

func TestRetryableClass(t *testing.T) {
	match := func(s string) []ErrorMatch {
		c, _ := ledger.ParseClass(s)
		return []ErrorMatch{{Class: c}}
	}
	for name, c := range map[string]struct {
		p      Policy
		class  ledger.Class
		status int
		want   bool
	}{
		"in neither, temporary":             {Policy{}, ledger.ClassTimeout, 504, true},
		"in neither, permanent":             {Policy{}, ledger.ClassValidation, 400, false},
		"in neither, unknown":               {Policy{}, ledger.ClassUnknown, 0, false},
		"no answer at all":                  {Policy{}, ledger.ClassNone, 0, true},
		"a permanent class that is listed":  {Policy{Retryable: match("rejected")}, ledger.ClassRejected, 0, true},
		"a temporary class that is stopped": {Policy{StopOn: match("auth")}, ledger.ClassAuth, 401, false},
		"stop_on beats retryable":           {Policy{Retryable: match("timeout"), StopOn: match("timeout_error")}, ledger.ClassTimeout, 504, false},
		"a status that is listed":           {Policy{Retryable: []ErrorMatch{{Status: 409}}}, ledger.ClassConflict, 409, true},
		"another status":                    {Policy{Retryable: []ErrorMatch{{Status: 409}}}, ledger.ClassConflict, 412, false},
		"a status that is stopped":          {Policy{StopOn: []ErrorMatch{{Status: 503}}}, ledger.ClassUnavailable, 503, false},
		"a list does not forbid the others": {Policy{Retryable: match("timeout"), RetryableSet: true}, ledger.ClassNetwork, 0, true},
	} {
		if got := RetryableClass(c.p, c.class, c.status); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
