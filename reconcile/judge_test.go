package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

var t0 = time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// testOp is an operation with ordinary timings: an unanswered request lands
// within 60 s, and shows within 2 min.
func testOp() connectors.Operation {
	return connectors.Operation{Name: "invoice.create", Lookup: connectors.LookupSingle, BatchMax: 1, Timeout: 20 * time.Second,
		LandsWithin: time.Minute, VisibleWithin: 2 * time.Minute, InFlightFor: 15 * time.Minute, AbsentAfter: 2, AbsentSpacing: 30 * time.Second,
		CanSend: true, SendNeedsID: true, CarriesKey: true}
}

// timedOut is an entry whose one attempt timed out and was reported at t0.
func timedOut() (ledger.Entry, []ledger.Attempt) {
	as := []ledger.Attempt{{AttemptID: "a1", No: 1, Status: ledger.AttemptError, Class: ledger.ClassTimeout, Effect: ledger.EffectUnknown,
		StartedAt: at(-30 * time.Second), FinishedAt: t0, ReceivedAt: t0, ResultAt: t0, SendBy: t0, Sends: 1, Counts: true, Key: "k"}}
	e := ledger.Entry{ID: 1, ActionKey: "k", Workflow: "w", Connector: "billing", Operation: "invoice.create", Lane: "billing",
		ProviderKey: "k", KeyOrigin: "action_key", Keys: []string{"k"}, Risk: ledger.RiskNormal, Owner: "revops", OriginalOwner: "revops",
		ReceivedAt: t0, SettleFrom: t0, State: ledger.StateAmbiguous, Work: ledger.WorkLook, NextAt: t0}
	return Summarize(e, as), as
}

func rec(id string, s connectors.Standing) connectors.Record {
	return connectors.Record{ID: id, Key: "k", Status: string(s), Standing: s}
}

func answer(rs ...connectors.Record) connectors.Answer {
	return connectors.Answer{Records: rs, Complete: true}
}

func TestJudge(t *testing.T) {
	quiet := 3 * time.Minute // lands_within + visible_within after send_by (t0)
	tests := map[string]struct {
		change     func(*ledger.Entry, *[]ledger.Attempt, *connectors.Operation)
		answer     connectors.Answer
		control    Control
		asked      time.Duration
		risk       ledger.Risk
		lag        int
		unfindable bool
		want       ledger.Finding
		reason     string
		counts     bool
		flag       ledger.Flag
		id         string
	}{
		"one live record with our key is applied": {
			answer: answer(rec("1", connectors.StandingApplied)), want: ledger.FindingApplied, reason: "found", id: "1"},
		"a merged record is applied under the survivor's id": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, MergedInto: "9"}), want: ledger.FindingApplied, reason: "found", id: "9"},
		"an object in progress is pending": {
			answer: answer(rec("1", connectors.StandingPending)), want: ledger.FindingPending, reason: "pending", id: "1"},
		"a final decline is rejected": {
			answer: answer(rec("1", connectors.StandingRejected)), want: ledger.FindingRejected, reason: "rejected", id: "1"},
		"a final decline beside a live record is set aside": {
			answer: answer(rec("1", connectors.StandingRejected), rec("2", connectors.StandingApplied)), want: ledger.FindingApplied, reason: "found", id: "2"},
		"one decline does not explain two unknown attempts that may still land": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				b := (*as)[0]
				b.AttemptID = "a2"
				*as = append(*as, b)
			},
			answer: answer(rec("1", connectors.StandingRejected)), asked: time.Second, want: ledger.FindingNotVisible, reason: "too_early"},
		"a decline in an answer that was not read to its end decides nothing: a live record may follow": {
			answer: connectors.Answer{Records: []connectors.Record{rec("1", connectors.StandingRejected)}}, asked: time.Hour, control: ControlFound,
			want: ledger.FindingCouldNotAsk, reason: "answer_incomplete"},
		"a decline that is known is set aside: the rest of the answer is a negative like any": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				b := (*as)[0]
				(*as)[0].Effect, (*as)[0].Class, (*as)[0].RemoteID = ledger.EffectNotDone, ledger.ClassRejected, "1"
				b.AttemptID = "a2"
				*as = append(*as, b)
			},
			answer: answer(rec("1", connectors.StandingRejected)), asked: time.Hour, control: ControlNone, want: ledger.FindingNotVisible, reason: "no_control"},
		"a decline that is known is set aside where records have no id": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				(*as)[0].Effect, (*as)[0].Class, (*as)[0].Rule = ledger.EffectNotDone, ledger.ClassRejected, ruleRejected
				e.Effect = ledger.EffectNotDone
			},
			answer: answer(rec("", connectors.StandingRejected)), asked: time.Hour, control: ControlNone, want: ledger.FindingNotVisible, reason: "no_control"},
		"a second decline after a known one may be anybody's: absence has to be proven, and the decline shows that the lookup works": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				b := (*as)[0]
				(*as)[0].Effect, (*as)[0].Class, (*as)[0].RemoteID = ledger.EffectNotDone, ledger.ClassRejected, "1"
				b.AttemptID = "a2"
				*as = append(*as, b)
			},
			answer: answer(rec("1", connectors.StandingRejected), rec("2", connectors.StandingRejected)), asked: time.Hour, want: ledger.FindingNotVisible, reason: "not_visible: 1 of 2", counts: true},
		"two declines explain two unknown attempts": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				b := (*as)[0]
				b.AttemptID = "a2"
				*as = append(*as, b)
			},
			answer: answer(rec("1", connectors.StandingRejected), rec("2", connectors.StandingRejected)), asked: time.Second, want: ledger.FindingRejected, reason: "rejected", id: "1"},
		"one decline and enough negatives for the other attempt": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				b := (*as)[0]
				b.AttemptID = "a2"
				*as = append(*as, b)
				e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(4*time.Minute), "v1"
			},
			answer: answer(rec("1", connectors.StandingRejected)), asked: time.Hour, want: ledger.FindingRejected, reason: "rejected", counts: true, id: "1"},
		"two live records of which one was merged into the other are one": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, MergedInto: "2"}, rec("2", connectors.StandingApplied)),
			want:   ledger.FindingApplied, reason: "found", id: "2"},
		"two live records are a duplicate, and flagged": {
			answer: answer(rec("1", connectors.StandingApplied), rec("2", connectors.StandingApplied)), want: ledger.FindingDuplicate, reason: "duplicate", flag: ledger.FlagDuplicate},
		"the same record twice is one": {
			answer: answer(rec("1", connectors.StandingApplied), rec("1", connectors.StandingApplied)), want: ledger.FindingApplied, reason: "found", id: "1"},
		"a removed record is reversed, never absent": {
			answer: answer(rec("1", connectors.StandingReversed)), asked: time.Hour, control: ControlFound, want: ledger.FindingReversed, reason: "reversed", flag: ledger.FlagReversed, id: "1"},
		"a status that is not mapped is named, never guessed": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Status: "limbo", Standing: connectors.StandingUnmapped}), want: ledger.FindingUnmapped, reason: `unmapped_status: "limbo"`},
		"another amount is a mismatch": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, Compared: []connectors.Compared{{Path: "amount", Want: "1", Got: "2"}}}),
			want:   ledger.FindingMismatch, reason: "mismatch: amount", id: "1"},
		"only foreign records: the lookup is not usable": {
			answer: connectors.Answer{Foreign: 3, Complete: true}, asked: time.Hour, control: ControlFound, want: ledger.FindingCouldNotAsk, reason: "lookup_not_usable"},
		"foreign records are normal where declared": {
			answer: connectors.Answer{Foreign: 3, Declared: true, Complete: true}, asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible", counts: true},
		"an answer that was not read to its end proves nothing": {
			answer: connectors.Answer{}, asked: time.Hour, control: ControlFound, want: ledger.FindingCouldNotAsk, reason: "answer_incomplete"},
		"a none 20 s after the timeout is too early": {
			answer: answer(), asked: 20 * time.Second, control: ControlFound, want: ledger.FindingNotVisible, reason: "too_early"},
		"a none at the very end of the quiet period is too early": {
			answer: answer(), asked: quiet, control: ControlFound, want: ledger.FindingNotVisible, reason: "too_early"},
		"a none just behind the quiet period counts, and one is not enough": {
			answer: answer(), asked: quiet + time.Microsecond, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible: 1 of 2", counts: true},
		"a lag seen before makes the quiet period longer": {
			answer: answer(), asked: quiet + time.Second, lag: 2, control: ControlFound, want: ledger.FindingNotVisible, reason: "too_early"},
		"without a control no negative counts": {
			answer: answer(), asked: time.Hour, control: ControlNone, want: ledger.FindingNotVisible, reason: "no_control"},
		"a control that could not be asked about: no negative counts": {
			answer: answer(), asked: time.Hour, control: ControlUnasked, want: ledger.FindingNotVisible, reason: "control_unasked"},
		"a payload without our key proves no absence": {
			answer: answer(), asked: time.Hour, control: ControlFound, unfindable: true, want: ledger.FindingNotVisible, reason: "unfindable"},
		"a payload without our key, before what was sent can show": {
			answer: answer(), asked: quiet - time.Second, control: ControlFound, unfindable: true, want: ledger.FindingNotVisible, reason: "too_early"},
		"a payload without our key may be found all the same": {
			answer: answer(rec("1", connectors.StandingApplied)), unfindable: true, want: ledger.FindingApplied, reason: "found", id: "1"},
		"a control that does not show puts the lookup out of use": {
			answer: answer(), asked: time.Hour, control: ControlMissing, want: ledger.FindingCouldNotAsk, reason: "control_not_found"},
		"a probe stands for the control where the definition says so": {
			answer: answer(), asked: time.Hour, control: ControlProbe, want: ledger.FindingNotVisible, reason: "not_visible", counts: true},
		"the second negative, far enough apart, proves absence": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(4*time.Minute), "v1"
			},
			answer: answer(), asked: 4*time.Minute + 30*time.Second, control: ControlFound, want: ledger.FindingAbsent, reason: "absent: 2 of 2", counts: true},
		"two negatives too close together are one": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(4*time.Minute), "v1"
			},
			answer: answer(), asked: 4*time.Minute + 29*time.Second, control: ControlFound, want: ledger.FindingNotVisible, reason: "too_close"},
		"negatives under another version of the definition do not count": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(4*time.Minute), "v0"
			},
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible: 1 of 2", counts: true},
		"low risk: one negative is enough": {
			answer: answer(), asked: time.Hour, control: ControlFound, risk: ledger.RiskLow, want: ledger.FindingAbsent, reason: "absent: 1 of 1", counts: true},
		"high risk: one more": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.Negatives, e.LastNegativeAt, e.NegativeVersion = 1, at(4*time.Minute), "v1"
			},
			answer: answer(), asked: time.Hour, control: ControlFound, risk: ledger.RiskHigh, want: ledger.FindingNotVisible, reason: "not_visible: 2 of 3", counts: true},
		"absent_after of 1 is raised to 2 where the lookup may lag": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.AbsentAfter = 1 },
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible: 1 of 2", counts: true},
		"absent_after of 1 stands where the system reads its own writes": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) {
				op.AbsentAfter, op.VisibleWithin = 1, 0
			},
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingAbsent, reason: "absent: 1 of 1", counts: true},
		"without a send_by absence is never proven": {
			change: func(e *ledger.Entry, as *[]ledger.Attempt, _ *connectors.Operation) {
				(*as)[0].SendBy = time.Time{}
				*e = Summarize(*e, *as)
			},
			answer: answer(), asked: 48 * time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "no_send_by"},
		"a derived key that the workflow may not have sent proves no absence": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) { e.KeyOrigin = "derived" },
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "derived_key"},
		"a derived key that the payload does not hold: no look will find it, and a person need not wait": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) { e.KeyOrigin = "derived" },
			answer: answer(), asked: time.Hour, control: ControlFound, unfindable: true, want: ledger.FindingNotVisible, reason: "unfindable"},
		"older than the system looks back: cannot prove": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.LooksBack = 24 * time.Hour },
			answer: answer(), asked: 25 * time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "beyond_looks_back"},
		"while the platform retries by itself a negative does not count": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) { e.Driver = "platform" },
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "platform_retries"},
		"while the platform retries by itself a hit counts": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) { e.Driver = "platform" },
			answer: answer(rec("1", connectors.StandingApplied)), want: ledger.FindingApplied, reason: "found", id: "1"},
		"a removal whose record is gone is applied": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.Removes = true },
			answer: answer(rec("1", connectors.StandingReversed)), want: ledger.FindingApplied, reason: "removed", id: "1"},
		"a removal whose record still lives is a negative": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.Removes = true },
			answer: answer(rec("1", connectors.StandingApplied)), asked: time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible", counts: true},
		"a removal that the system is still at is pending, not a negative": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.Removes = true },
			answer: answer(rec("1", connectors.StandingPending)), asked: time.Hour, control: ControlFound, want: ledger.FindingPending, reason: "pending", id: "1"},
		"a refused record with another amount is a mismatch, and explains no request": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingRejected, Compared: []connectors.Compared{{Path: "amount"}}}),
			want:   ledger.FindingMismatch, reason: "mismatch: amount", id: "1"},
		"a refused record with the same amount is rejected": {
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingRejected, Compared: []connectors.Compared{{Path: "amount", Equal: true}}}),
			want:   ledger.FindingRejected, reason: "rejected", id: "1"},
		"a removal of what was never seen is a mismatch": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.Removes = true },
			answer: answer(), asked: time.Hour, control: ControlFound, want: ledger.FindingMismatch, reason: "never_seen"},
		"a change is applied when the record carries the values": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.HasProof = true },
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, Proof: []connectors.Compared{{Path: "stage", Equal: true}}}),
			want:   ledger.FindingApplied, reason: "found", id: "1"},
		"a change without the values is a mismatch": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) { op.HasProof = true },
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, Proof: []connectors.Compared{{Path: "stage"}}}),
			want:   ledger.FindingMismatch, reason: "mismatch: stage", id: "1"},
		"a change without the values is a negative where the record last changed before us": {
			change: func(_ *ledger.Entry, _ *[]ledger.Attempt, op *connectors.Operation) {
				op.HasProof, op.HasChanged = true, true
			},
			answer: answer(connectors.Record{ID: "1", Key: "k", Standing: connectors.StandingApplied, ChangedAt: at(-time.Hour), Proof: []connectors.Compared{{Path: "stage"}}}),
			asked:  time.Hour, control: ControlFound, want: ledger.FindingNotVisible, reason: "not_visible", counts: true},
		"the system says that it exists: an equal record of other origin is applied and flagged": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.LastClass = ledger.ClassAlreadyExists
			},
			answer: answer(connectors.Record{ID: "1", Standing: connectors.StandingApplied, Origin: true, Compared: []connectors.Compared{{Path: "email", Equal: true}}}),
			want:   ledger.FindingApplied, reason: "other_origin", flag: ledger.FlagOtherOrigin, id: "1"},
		"an equal twin that nobody spoke of goes to a person": {
			answer: answer(connectors.Record{ID: "1", Standing: connectors.StandingApplied, Origin: true, Compared: []connectors.Compared{{Path: "email", Equal: true}}}),
			want:   ledger.FindingMismatch, reason: "other_origin", flag: ledger.FlagOtherOrigin, id: "1"},
		"a record of other origin in an answer that was not read to its end decides nothing": {
			answer: connectors.Answer{Records: []connectors.Record{{ID: "1", Standing: connectors.StandingApplied, Origin: true}}},
			want:   ledger.FindingCouldNotAsk, reason: "answer_incomplete"},
		"an equal record of other origin goes to a person at high risk": {
			change: func(e *ledger.Entry, _ *[]ledger.Attempt, _ *connectors.Operation) {
				e.LastClass = ledger.ClassAlreadyExists
			},
			answer: answer(connectors.Record{ID: "1", Standing: connectors.StandingApplied, Origin: true, Compared: []connectors.Compared{{Path: "email", Equal: true}}}),
			risk:   ledger.RiskHigh, want: ledger.FindingMismatch, reason: "other_origin", flag: ledger.FlagOtherOrigin, id: "1"},
		"a record of other origin with nothing to compare goes to a person": {
			answer: answer(connectors.Record{ID: "1", Standing: connectors.StandingApplied, Origin: true}),
			want:   ledger.FindingMismatch, reason: "other_origin", flag: ledger.FlagOtherOrigin, id: "1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, as := timedOut()
			op := testOp()
			if tt.change != nil {
				tt.change(&e, &as, &op)
			}
			risk := tt.risk
			if risk == "" {
				risk = ledger.RiskNormal
			}
			j := Judge(e, as, tt.answer, Question{Op: op, Risk: risk, Control: tt.control, AskedAt: at(tt.asked), Lag: tt.lag, Version: "v1", Findable: !tt.unfindable})
			if j.Finding != tt.want || !strings.HasPrefix(j.Reason, tt.reason) || j.Counts != tt.counts {
				t.Errorf("got %s %q counts=%v, want %s %q counts=%v", j.Finding, j.Reason, j.Counts, tt.want, tt.reason, tt.counts)
			}
			if tt.flag != "" && (len(j.Flags) != 1 || j.Flags[0] != tt.flag) {
				t.Errorf("flags %v, want %s", j.Flags, tt.flag)
			}
			if tt.id != "" && j.RemoteID != tt.id {
				t.Errorf("remote id %q, want %q", j.RemoteID, tt.id)
			}
		})
	}
}

func TestNextLook(t *testing.T) {
	s := Setting{Policy: DefaultPolicy(), Op: testOp(), Now: at(time.Minute)}
	tests := map[string]struct {
		inRow int
		look  Look
		every time.Duration
		want  time.Duration
	}{
		"the first wait is every":                       {inRow: 1, want: time.Minute},
		"waits double":                                  {inRow: 3, want: 4 * time.Minute},
		"waits end at an hour":                          {inRow: 50, want: time.Hour},
		"no later than when a negative can first count": {inRow: 3, look: Look{Judgement: Judgement{FirstCount: at(3 * time.Minute)}}, want: 2*time.Minute + time.Millisecond},
		"a counted negative is followed at its spacing": {inRow: 9, look: Look{Judgement: Judgement{Counts: true, FirstCount: at(90 * time.Second)}}, want: 30 * time.Second},
		"an every above an hour is not shortened":       {inRow: 4, every: 3 * time.Hour, want: 3 * time.Hour},
		"an every of nothing is never before now":       {inRow: 4, every: 0, look: Look{}, want: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := s
			if tt.every != 0 || strings.Contains(name, "nothing") {
				s.Policy.SettleEvery = tt.every
			}
			got := nextLook(ledger.Entry{LooksInRow: tt.inRow}, tt.look, s).Sub(s.Now)
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
