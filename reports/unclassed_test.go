package reports

import (
	"testing"

	"github.com/recovery-ledger/reconcile/ledger"
)

// TestWhyOfAnErrorOfNoKnownClass: the word "unknown" alone tells a person
// nothing; what is known, and what to do, stand there instead.
func TestWhyOfAnErrorOfNoKnownClass(t *testing.T) {
	attempt := func(status int, effect ledger.Effect) []ledger.Attempt {
		return []ledger.Attempt{{No: 1, Status: ledger.AttemptError, Class: ledger.ClassUnknown, HTTPStatus: status, Effect: effect}}
	}
	escalated := ledger.Entry{State: ledger.StateEscalated, Effect: ledger.EffectNotDone, LastClass: ledger.ClassUnknown, Reason: "permanent: unknown",
		Owner: "revops", Allowed: []ledger.Action{ledger.ActionRetry, ledger.ActionCancel}}
	const advice = " What the system said stands with the attempt: retry it if that passes by itself, else cancel it." +
		" With an errors rule in the connector, or error_class in the record, the next such error has a class."
	cases := map[string]struct {
		st   ledger.Stored
		want string
	}{
		"not done, with an HTTP status": {ledger.Stored{Entry: escalated, Attempts: attempt(418, ledger.EffectNotDone)},
			"It stopped because the failure has no class that is known, so that nothing says whether another attempt would help." +
				" It did not happen: attempt 1 ended in an error of no known class (HTTP 418), which did nothing." + advice + " revops has to decide (may: retry, cancel)."},
		"not done, without one": {ledger.Stored{Entry: escalated, Attempts: attempt(0, ledger.EffectNotDone)},
			"It stopped because the failure has no class that is known, so that nothing says whether another attempt would help." +
				" It did not happen: attempt 1 ended in an error of no known class, which did nothing." + advice + " revops has to decide (may: retry, cancel)."},
		"effect unknown": {ledger.Stored{Entry: ledger.Entry{State: ledger.StateAmbiguous, Effect: ledger.EffectUnknown, LastClass: ledger.ClassUnknown, Reason: "effect_unknown: unknown"},
			Attempts: attempt(0, ledger.EffectUnknown)},
			"It stopped because nobody knows whether it happened: the answer was lost, or says nothing of the effect (an error of no known class)." +
				" Until a look settles that, sending again could do it twice. It has not been looked at yet."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Why(c.st, nil, nil); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
