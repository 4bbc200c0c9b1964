package ledger

import "testing"

func TestLeavesHistory(t *testing.T) {
	before := Entry{State: StateRetryable, Class: ReportWaiting, Owner: "revops", Reason: "backoff: timeout", Flags: []Flag{FlagReversed}}
	cases := map[string]struct {
		change func(*Entry)
		want   bool
	}{
		"nothing changed":                      {func(*Entry) {}, false},
		"another state":                        {func(e *Entry) { e.State = StateReady }, true},
		"another outcome":                      {func(e *Entry) { e.Outcome = OutcomeApplied }, true},
		"another report class":                 {func(e *Entry) { e.Class = ReportBlocked }, true},
		"another owner":                        {func(e *Entry) { e.Owner = "sales" }, true},
		"a flag more":                          {func(e *Entry) { *e = e.WithFlag(FlagDuplicate) }, true},
		"a flag closed":                        {func(e *Entry) { e.Flags = nil }, true},
		"another code of reason":               {func(e *Entry) { e.Reason = "too_old: timeout" }, true},
		"the same code, with another detail":   {func(e *Entry) { e.Reason = "backoff: HTTP 502" }, false},
		"what is counted and timed by the way": {func(e *Entry) { e.LooksAnswered++; e.NextAt = e.NextAt.AddDate(1, 0, 0) }, false},
	}
	for name, c := range cases {
		after := before
		c.change(&after)
		if got := LeavesHistory(before, after); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if LeavesHistory(Entry{Flags: nil}, Entry{Flags: []Flag{}}) {
		t.Error("no flags and an empty list of them are the same")
	}
}
