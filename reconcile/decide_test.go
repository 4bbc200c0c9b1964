package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// retrying is a policy that sends.
func retrying() Policy {
	p := DefaultPolicy()
	p.HasRetry = true
	p.Backoff.Jitter = 0
	return p
}

func settingAt(d time.Duration) Setting {
	return Setting{Op: testOp(), Policy: retrying(), Owners: Owners{"revops": {ID: "revops", IDs: []string{"5502"}}, "sales": {ID: "sales", IDs: []string{"7"}}}, Now: at(d), Version: "v1", PolicyVersion: "p1"}
}

func TestAfterLook(t *testing.T) {
	tests := map[string]struct {
		entry  func(*ledger.Entry, *[]ledger.Attempt)
		set    func(*Setting)
		look   Look
		want   ledger.State
		reason string
		check  func(t *testing.T, d Decided)
	}{
		"found: settled applied, confirmed by lookup, nothing sent": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "found", RemoteID: "9"}}, want: ledger.StateSettled, reason: "found",
			check: func(t *testing.T, d Decided) {
				if d.Next.Outcome != ledger.OutcomeApplied || d.Next.RemoteID != "9" || d.Next.Class != ledger.ReportConfirmedByLookup || d.Next.Effect != ledger.EffectDone {
					t.Errorf("got %s %q %s %s", d.Next.Outcome, d.Next.RemoteID, d.Next.Class, d.Next.Effect)
				}
				if len(d.Attempts) != 1 || d.Attempts[0].Effect != ledger.EffectDone {
					t.Errorf("the attempt is not put down as done: %+v", d.Attempts)
				}
			}},
		"found, with another attempt in doubt: looked at once more": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				b := (*as)[0]
				b.AttemptID, b.No = "a2", 2
				*as = append(*as, b)
				*e = Summarize(*e, *as)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "found", RemoteID: "9"}}, want: ledger.StateSettled, reason: "found",
			check: func(t *testing.T, d Decided) {
				if want := at(time.Hour + 3*time.Minute + time.Millisecond); !d.Next.Verify || !d.Next.NextAt.Equal(want) {
					t.Errorf("verify %v at %s, want %s", d.Next.Verify, d.Next.NextAt, want)
				}
			}},
		"found, then removed: settled applied, flag reversed": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingReversed, Reason: "reversed", RemoteID: "9", Flags: []ledger.Flag{ledger.FlagReversed}}}, want: ledger.StateSettled, reason: "reversed",
			check: func(t *testing.T, d Decided) {
				if d.Next.Outcome != ledger.OutcomeApplied || !d.Next.HasFlag(ledger.FlagReversed) {
					t.Errorf("got %s %v", d.Next.Outcome, d.Next.Flags)
				}
			}},
		"found after counted negatives: the lane lags": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) { e.Negatives = 1 },
			look:  Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "found"}}, want: ledger.StateSettled, reason: "found",
			check: func(t *testing.T, d Decided) {
				if !d.Lag {
					t.Error("no lag seen")
				}
			}},
		"pending: stays ambiguous on the pending schedule": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingPending, Reason: "pending"}}, want: ledger.StateAmbiguous, reason: "pending",
			check: func(t *testing.T, d Decided) {
				if got := d.Next.NextAt.Sub(at(time.Hour)); got != 10*time.Minute {
					t.Errorf("next look in %s, want 10m", got)
				}
			}},
		"pending past the settle window: escalated": {
			set:  func(s *Setting) { s.Now = at(73 * time.Hour) },
			look: Look{Judgement: Judgement{Finding: ledger.FindingPending, Reason: "pending"}}, want: ledger.StateEscalated, reason: "still_pending"},
		"absent: retryable, effect not done": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true, Negatives: 2}}, want: ledger.StateRetryable, reason: "absent",
			check: func(t *testing.T, d Decided) {
				if d.Next.Effect != ledger.EffectNotDone || d.Next.Work != ledger.WorkAdvance || d.Next.NextAt.After(at(time.Hour)) {
					t.Errorf("got %s %s due %s", d.Next.Effect, d.Next.Work, d.Next.NextAt)
				}
			}},
		"absent, of a class that is not retryable: escalated": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].Class = ledger.ClassConflict
				*e = Summarize(*e, *as)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true}}, want: ledger.StateEscalated, reason: "permanent"},
		"absent with the attempts used up: escalated, and the owner has it": {
			set:  func(s *Setting) { s.Policy.MaxAttempts = 1; s.Policy.Owner = "sales" },
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true}}, want: ledger.StateEscalated, reason: "attempts_exhausted",
			check: func(t *testing.T, d Decided) {
				if d.Next.Owner != "sales" || d.Next.OriginalOwner != "revops" || d.Next.DueAt.IsZero() || len(d.Next.Allowed) != 5 {
					t.Errorf("got %+v", d.Next)
				}
			}},
		"absent with the attempts used up and state failed: settled not applied": {
			set:  func(s *Setting) { s.Policy.MaxAttempts = 1; s.Policy.FailedState = true },
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true}}, want: ledger.StateSettled, reason: "attempts_exhausted",
			check: func(t *testing.T, d Decided) {
				if d.Next.Class != ledger.ReportPermanentlyFailed {
					t.Errorf("class %s", d.Next.Class)
				}
			}},
		"absent, but already exists according to the system: a person": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].Class = ledger.ClassAlreadyExists
				*e = Summarize(*e, *as)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true}}, want: ledger.StateEscalated, reason: "already_exists"},
		"finally rejected: not tried again where the policy does not list it": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingRejected, Reason: "rejected"}}, want: ledger.StateEscalated, reason: "permanent: rejected"},
		"finally rejected: tried again where the policy lists it, under a new key": {
			set: func(s *Setting) {
				s.Policy.Retryable, s.Policy.RetryableSet = []ErrorMatch{{Class: ledger.ClassRejected}}, true
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingRejected, Reason: "rejected"}}, want: ledger.StateRetryable, reason: "rejected",
			check: func(t *testing.T, d Decided) {
				if !NeedsNewKey(d.Next, d.Attempts, testOp(), at(time.Hour)) {
					t.Error("no new key")
				}
			}},
		"not visible: stays ambiguous, nothing is proven": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_control"}}, want: ledger.StateAmbiguous, reason: "no_control"},
		"not visible past the settle window: escalated, outcome unknown, looked at daily": {
			set:  func(s *Setting) { s.Now = at(73 * time.Hour) },
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_control"}}, want: ledger.StateEscalated, reason: "outcome_unknown: no_control",
			check: func(t *testing.T, d Decided) {
				if d.Next.Work != ledger.WorkLook || d.Next.NextAt.Sub(at(73*time.Hour)) != 24*time.Hour {
					t.Errorf("not looked at daily: %s %s", d.Next.Work, d.Next.NextAt)
				}
			}},
		"the settle window stands still while the lane is paused": {
			set: func(s *Setting) {
				s.Now = at(73 * time.Hour)
				s.Lane = ledger.Lane{PausedTotal: 2 * time.Hour}
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_control"}}, want: ledger.StateAmbiguous, reason: "no_control"},
		"not visible, repeatable: a resend needs no proof": {
			set:  func(s *Setting) { s.Op.Repeatable = true },
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "too_early"}, Asked: at(time.Minute)}, want: ledger.StateRetryable, reason: "repeatable"},
		"no send_by and a system that refuses a second: may be resent after the looks": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].SendBy = time.Time{}
				*e = Summarize(*e, *as)
				e.LooksInRow = 1
			},
			set:  func(s *Setting) { s.Op.Unique = true },
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_send_by", Needed: 2}, Asked: at(time.Hour)}, want: ledger.StateRetryable, reason: "second_refused"},
		"no send_by and nothing that refuses a second: only looking": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].SendBy = time.Time{}
				*e = Summarize(*e, *as)
				e.LooksInRow = 5
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_send_by", Needed: 2}, Asked: at(time.Hour)}, want: ledger.StateAmbiguous, reason: "no_send_by"},
		"what no look can find: a person at once, not at the end of the window": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: unfindable + ": x", Needed: 2}, Asked: at(time.Hour)}, want: ledger.StateEscalated, reason: "outcome_unknown: unfindable"},
		"duplicate: escalated with its flag": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingDuplicate, Reason: "duplicate: 2", Flags: []ledger.Flag{ledger.FlagDuplicate}}}, want: ledger.StateEscalated, reason: "duplicate"},
		"mismatch: escalated": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingMismatch, Reason: "mismatch: amount"}}, want: ledger.StateEscalated, reason: "mismatch"},
		"unmapped status: escalated, still looked at": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingUnmapped, Reason: "unmapped_status"}}, want: ledger.StateEscalated, reason: "unmapped_status"},
		"could not ask: ambiguous, no budget spent": {
			look: Look{Judgement: Judgement{Finding: ledger.FindingCouldNotAsk, Reason: "could_not_ask: timeout"}}, want: ledger.StateAmbiguous, reason: "could_not_ask",
			check: func(t *testing.T, d Decided) {
				if d.Next.LooksAnswered != 0 || d.Next.LooksFailed != 1 || d.Next.AttemptCount != 1 || d.Next.Negatives != 0 {
					t.Errorf("budget spent: %+v", d.Next)
				}
			}},
		"could not ask past the settle window: never escalated for that": {
			set:  func(s *Setting) { s.Now = at(100 * time.Hour) },
			look: Look{Judgement: Judgement{Finding: ledger.FindingCouldNotAsk, Reason: "could_not_ask: timeout"}}, want: ledger.StateAmbiguous, reason: "could_not_ask"},
		"escalated and found later: settled applied": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.Escalate(*e, ledger.Escalation{Owner: "x", Look: t0}, "outcome_unknown")
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "found", RemoteID: "9"}}, want: ledger.StateSettled, reason: "found"},
		"escalated and absent later: stays with its owner, effect now known": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.Escalate(*e, ledger.Escalation{Owner: "x", Look: t0}, "outcome_unknown")
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingAbsent, Reason: "absent", Counts: true}}, want: ledger.StateEscalated, reason: "absent",
			check: func(t *testing.T, d Decided) {
				if d.Next.Effect != ledger.EffectNotDone || d.Next.Work != ledger.WorkNone || d.Next.Owner != "x" {
					t.Errorf("got %+v", d.Next)
				}
			}},
		"settled not applied, and a look finds it all the same: flagged conflict, outcome kept": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeNotApplied, ledger.ByPerson, "cancel", t0), t0)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "found", RemoteID: "9"}}, want: ledger.StateSettled, reason: "cancel",
			check: func(t *testing.T, d Decided) {
				if !d.Next.HasFlag(ledger.FlagConflict) || d.Next.Outcome != ledger.OutcomeNotApplied || d.Next.Effect != ledger.EffectDone || d.Next.RemoteID != "9" {
					t.Errorf("got %+v", d.Next)
				}
			}},
		"looked at once more, and nothing was learned: looked at again": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "control_unasked"}}, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, d Decided) {
				if !d.Next.Verify || !d.Next.NextAt.After(at(time.Hour)) || d.Next.Outcome != ledger.OutcomeApplied {
					t.Errorf("verify %v at %s", d.Next.Verify, d.Next.NextAt)
				}
			}},
		"looked at once more: another record in progress is a second one": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "8"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingPending, Reason: "x", RemoteID: "9"}}, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, d Decided) {
				if d.Next.HasFlag(ledger.FlagDuplicate) != true || d.Next.RemoteID != "8" || d.Next.Verify {
					t.Errorf("flags %v, remote id %q", d.Next.Flags, d.Next.RemoteID)
				}
			}},
		"looked at once more: another record with other content is a second one": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "8"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingMismatch, Reason: "x", RemoteID: "9"}}, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, d Decided) {
				if d.Next.HasFlag(ledger.FlagDuplicate) != true || d.Next.RemoteID != "8" || d.Next.Verify {
					t.Errorf("flags %v, remote id %q", d.Next.Flags, d.Next.RemoteID)
				}
			}},
		"looked at once more: another record in a status nobody mapped is a second one": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "8"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingUnmapped, Reason: "x", RemoteID: "9"}}, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, d Decided) {
				if d.Next.HasFlag(ledger.FlagDuplicate) != true || d.Next.RemoteID != "8" || d.Next.Verify {
					t.Errorf("flags %v, remote id %q", d.Next.Flags, d.Next.RemoteID)
				}
			}},
		"looked at once more: the record that ours was merged into is no second one": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "8"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingApplied, Reason: "x", RemoteID: "9", Seen: []connectors.Record{{ID: "8", Key: "k", Standing: connectors.StandingApplied, MergedInto: "9"}}}}, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, d Decided) {
				if d.Next.HasFlag(ledger.FlagDuplicate) != false || d.Next.RemoteID != "9" || d.Next.Verify {
					t.Errorf("flags %v, remote id %q", d.Next.Flags, d.Next.RemoteID)
				}
			}},
		"looked at once more: what was taken on is finally refused: flagged, the outcome kept": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "9"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingRejected, Reason: "rejected: declined", RemoteID: "9"}}, want: ledger.StateSettled, reason: "rejected",
			check: func(t *testing.T, d Decided) {
				if !d.Next.HasFlag(ledger.FlagConflict) || d.Next.Outcome != ledger.OutcomeApplied {
					t.Errorf("%s, flags %v", d.Next.Outcome, d.Next.Flags)
				}
			}},
		"could not ask: asked again no later than when a negative can first count": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) { e.LooksInRow = 9 },
			set:   func(s *Setting) { s.Now = at(time.Minute) },
			look:  Look{Judgement: Judgement{Finding: ledger.FindingCouldNotAsk, Reason: "could_not_ask: timeout"}}, want: ledger.StateAmbiguous, reason: "could_not_ask",
			check: func(t *testing.T, d Decided) {
				if want := at(3*time.Minute + time.Millisecond); !d.Next.NextAt.Equal(want) {
					t.Errorf("next look %s, want %s", d.Next.NextAt, want)
				}
			}},
		"escalated, known not done, and a look was due all the same: it ends": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].Effect = ledger.EffectNotDone
				*e = ledger.Escalate(Summarize(*e, *as), ledger.Escalation{Owner: "x", Look: t0}, "outcome_unknown")
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingNotVisible, Reason: "no_control"}}, want: ledger.StateEscalated, reason: "outcome_unknown",
			check: func(t *testing.T, d Decided) {
				if d.Next.Work != ledger.WorkNone || !d.Next.NextAt.IsZero() {
					t.Errorf("due: %s at %s", d.Next.Work, d.Next.NextAt)
				}
			}},
		"two records, although absence was proven before the resend: the lane lags": {
			entry: func(e *ledger.Entry, as *[]ledger.Attempt) {
				(*as)[0].Rule = ruleAbsent
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingDuplicate, Reason: "duplicate: 2 live records", Flags: []ledger.Flag{ledger.FlagDuplicate}}}, want: ledger.StateSettled, reason: "duplicate",
			check: func(t *testing.T, d Decided) {
				if !d.Lag {
					t.Error("no lag seen")
				}
			}},
		"looked at once more after a resend: a second record is flagged, not hidden": {
			entry: func(e *ledger.Entry, _ *[]ledger.Attempt) {
				*e = ledger.VerifyAt(ledger.Settle(*e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
				e.RemoteID = "8"
			},
			look: Look{Judgement: Judgement{Finding: ledger.FindingDuplicate, Reason: "duplicate: 2 live records", Flags: []ledger.Flag{ledger.FlagDuplicate}}}, want: ledger.StateSettled, reason: "duplicate",
			check: func(t *testing.T, d Decided) {
				if !d.Next.HasFlag(ledger.FlagDuplicate) || d.Next.Work != ledger.WorkNone || d.Next.Outcome != ledger.OutcomeApplied {
					t.Errorf("got %+v", d.Next)
				}
			}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, as := timedOut()
			if tt.entry != nil {
				tt.entry(&e, &as)
			}
			s := settingAt(time.Hour)
			if tt.set != nil {
				tt.set(&s)
			}
			if tt.look.Asked.IsZero() {
				tt.look.Asked = s.Now
			}
			d := AfterLook(e, as, tt.look, s)
			if d.Next.State != tt.want || !strings.HasPrefix(d.Next.Reason, tt.reason) {
				t.Errorf("got %s %q, want %s %q", d.Next.State, d.Next.Reason, tt.want, tt.reason)
			}
			if !ledger.Legal(e.State, d.Next.State) {
				t.Errorf("%s to %s is not legal", e.State, d.Next.State)
			}
			if tt.check != nil {
				tt.check(t, d)
			}
		})
	}
}

func TestAfterSend(t *testing.T) {
	tests := map[string]struct {
		result connectors.SendResult
		first  ledger.Effect // of the attempt before
		rule   string
		set    func(*Setting)
		want   ledger.State
		reason string
		check  func(t *testing.T, e ledger.Entry)
	}{
		"answered: settled applied, recovered after retry, and looked at once more": {
			result: connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone, HTTPStatus: 201}, Answered: true, Wrote: true, RemoteID: "9"},
			first:  ledger.EffectNotDone, rule: ruleAbsent, want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, e ledger.Entry) {
				if e.Class != ledger.ReportRecoveredAfterRetry || e.RemoteID != "9" || !e.Verify || e.Work != ledger.WorkLook {
					t.Errorf("got %s %q verify=%v", e.Class, e.RemoteID, e.Verify)
				}
			}},
		"answered, and no attempt was ever unknown: nothing more to look at": {
			result: connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone, HTTPStatus: 201}, Answered: true, Wrote: true, RemoteID: "9"},
			first:  ledger.EffectNotDone, rule: "default 429", want: ledger.StateSettled, reason: "sent",
			check: func(t *testing.T, e ledger.Entry) {
				if e.Verify {
					t.Error("looked at once more")
				}
			}},
		"timed out: ambiguous, looked at from now": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindTimeout, Effect: connectors.EffectUnknown}, Wrote: true},
			first:  ledger.EffectNotDone, want: ledger.StateAmbiguous, reason: "effect_unknown"},
		"not one byte went out: retryable, and it does not count": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindNetwork, Effect: connectors.EffectNotDone}},
			first:  ledger.EffectNotDone, want: ledger.StateRetryable, reason: "backoff",
			check: func(t *testing.T, e ledger.Entry) {
				if e.AttemptCount != 1 {
					t.Errorf("%d attempts count, want 1", e.AttemptCount)
				}
			}},
		"rate limited for 10 minutes: not before that": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindRateLimit, Effect: connectors.EffectNotDone, HTTPStatus: 429}, Answered: true, Wrote: true, RetryAfter: connectors.RetryAfter{Wait: 10 * time.Minute}},
			first:  ledger.EffectNotDone, want: ledger.StateRetryable, reason: "backoff",
			check: func(t *testing.T, e ledger.Entry) {
				if e.NextAt.Before(at(time.Hour + 10*time.Minute)) {
					t.Errorf("next at %s", e.NextAt)
				}
			}},
		"already exists: looked up and read": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindAlreadyExists, Effect: connectors.EffectNotDone, HTTPStatus: 409}, Answered: true, Wrote: true, RemoteID: "6001"},
			first:  ledger.EffectNotDone, want: ledger.StateAmbiguous, reason: "already_exists",
			check: func(t *testing.T, e ledger.Entry) {
				if e.RemoteID != "6001" {
					t.Errorf("remote id %q", e.RemoteID)
				}
			}},
		"the key was used with other content: a person, never a new key": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindDuplicateRequest, Effect: connectors.EffectUnknown, HTTPStatus: 400}, Answered: true, Wrote: true},
			first:  ledger.EffectNotDone, want: ledger.StateEscalated, reason: "duplicate_request"},
		"refused for consent by the system: blocked": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindConsent, Effect: connectors.EffectNotDone, HTTPStatus: 400, Refuses: connectors.CheckConsent}, Answered: true, Wrote: true},
			first:  ledger.EffectNotDone, want: ledger.StateSettled, reason: "consent_withdrawn",
			check: func(t *testing.T, e ledger.Entry) {
				if e.Class != ledger.ReportBlocked {
					t.Errorf("class %s", e.Class)
				}
			}},
		"a permanent refusal: escalated": {
			result: connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindValidation, Effect: connectors.EffectNotDone, HTTPStatus: 422}, Answered: true, Wrote: true},
			first:  ledger.EffectNotDone, want: ledger.StateEscalated, reason: "permanent: validation"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, as := timedOut()
			as[0].Effect, as[0].Rule = tt.first, tt.rule
			own := ledger.Attempt{AttemptID: "r-1", No: 2, Ours: true, Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, Sends: 1, Key: "k",
				Counts: true, StartedAt: at(time.Hour), ReceivedAt: at(time.Hour), SendBy: at(time.Hour + 20*time.Second)}
			e = begun(e, append(as, own), own.StartedAt)
			s := settingAt(time.Hour)
			if tt.set != nil {
				tt.set(&s)
			}
			own = AttemptFromSend(e, own, tt.result, s.Now)
			got := AfterSend(e, append(as, own), tt.result, s)
			if got.State != tt.want || !strings.HasPrefix(got.Reason, tt.reason) {
				t.Errorf("got %s %q, want %s %q", got.State, got.Reason, tt.want, tt.reason)
			}
			if !ledger.Legal(e.State, got.State) {
				t.Errorf("%s to %s is not legal", e.State, got.State)
			}
			if tt.check != nil {
				tt.check(t, got)
			}
		})
	}
}

func TestAfterLate(t *testing.T) {
	late := func(eff ledger.Effect) ledger.Stored {
		e, as := timedOut()
		as[0].Effect, as[0].Rule = ledger.EffectNotDone, ruleAbsent
		as = append(as, ledger.Attempt{AttemptID: "r-1", No: 2, Ours: true, Status: ledger.AttemptError, Effect: eff, Sends: 1, Key: "k", RemoteID: "9", StartedAt: t0, SendBy: t0})
		return ledger.Stored{Entry: e, Attempts: as}
	}
	s := settingAt(time.Hour)
	t.Run("open and done: settled applied, and looked at once more for the attempt that was in doubt", func(t *testing.T) {
		got := AfterLate(late(ledger.EffectDone), s)
		if got.Outcome != ledger.OutcomeApplied || got.RemoteID != "9" || !got.Verify {
			t.Errorf("got %s %q verify=%v", got.Outcome, got.RemoteID, got.Verify)
		}
	})
	for name, tt := range map[string]struct {
		state  func(ledger.Entry) ledger.Entry
		want   ledger.State
		reason string
		work   ledger.Work
	}{
		"ambiguous, and not done after all: tried again": {func(e ledger.Entry) ledger.Entry { return e }, ledger.StateRetryable, "backoff", ledger.WorkAdvance},
		"escalated, and not done after all: the person's, and looked at no more": {func(e ledger.Entry) ledger.Entry {
			return ledger.Escalate(e, ledger.Escalation{Owner: "x", Look: t0}, "mismatch")
		}, ledger.StateEscalated, "mismatch", ledger.WorkNone},
	} {
		t.Run(name, func(t *testing.T) {
			c := late(ledger.EffectNotDone)
			c.Attempts[1].Class = ledger.ClassRateLimit
			c.Entry = tt.state(c.Entry)
			if got := AfterLate(c, s); got.State != tt.want || !strings.HasPrefix(got.Reason, tt.reason) || got.Work != tt.work {
				t.Errorf("got %s %q due %s", got.State, got.Reason, got.Work)
			}
		})
	}
	t.Run("settled by somebody else, our own effect unknown: looked at once more", func(t *testing.T) {
		c := late(ledger.EffectUnknown)
		c.Entry = ledger.Settle(c.Entry, ledger.OutcomeApplied, ledger.ByLook, "found", t0)
		got := AfterLate(c, s)
		if !got.Settled() || !got.Verify || !got.NextAt.After(at(time.Hour+3*time.Minute)) {
			t.Errorf("got %s verify=%v at %s", got.State, got.Verify, got.NextAt)
		}
	})
	t.Run("settled not applied, and it was done: flagged conflict", func(t *testing.T) {
		c := late(ledger.EffectDone)
		c.Entry = ledger.Settle(c.Entry, ledger.OutcomeNotApplied, ledger.ByPolicy, "x", t0)
		if got := AfterLate(c, s); !got.HasFlag(ledger.FlagConflict) || got.Outcome != ledger.OutcomeNotApplied {
			t.Errorf("got %s %v", got.Outcome, got.Flags)
		}
	})
	t.Run("settled under another id, and it was done: flagged duplicate", func(t *testing.T) {
		c := late(ledger.EffectDone)
		c.Entry = ledger.Settle(c.Entry, ledger.OutcomeApplied, ledger.ByLook, "found", t0)
		c.Entry.RemoteID = "8"
		if got := AfterLate(c, s); !got.HasFlag(ledger.FlagDuplicate) {
			t.Errorf("flags %v", got.Flags)
		}
	})
}

// retryable is an entry whose absence has been proven.
func retryable() (ledger.Entry, []ledger.Attempt) {
	e, as := timedOut()
	as[0].Effect, as[0].Rule = ledger.EffectNotDone, ruleAbsent
	e = ledger.Reopen(Summarize(e, as), "absent", t0)
	return e, as
}

func TestGates(t *testing.T) {
	sib := func(k ledger.SiblingKind, s ledger.State, eff ledger.Effect, o ledger.Outcome) []ledger.Sibling {
		return []ledger.Sibling{{Kind: k, ActionKey: "other", State: s, Effect: eff, Outcome: o, SettledAt: at(time.Minute)}}
	}
	ok := []connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictPass}, {Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "5502"}, {Check: connectors.CheckLifecycle, Kind: connectors.VerdictPass}}
	with := func(v connectors.Verdict) []connectors.Verdict {
		out := append([]connectors.Verdict(nil), ok...)
		for i := range out {
			if out[i].Check == v.Check {
				out[i] = v
			}
		}
		return out
	}
	all := []connectors.CheckName{connectors.CheckConsent, connectors.CheckOwner, connectors.CheckLifecycle}
	tests := map[string]struct {
		entry  func(*ledger.Entry)
		set    func(*Setting)
		gate   func(ledger.Entry, []ledger.Attempt, Setting) Gate
		want   ledger.State // "" goes on
		reason string
		class  ledger.ReportClass
	}{
		"limits: inside":                                  {gate: limits},
		"limits: attempts used up":                        {set: func(s *Setting) { s.Policy.MaxAttempts = 1 }, gate: limits, want: ledger.StateEscalated, reason: "attempts_exhausted"},
		"limits: a person's retry grants one beyond them": {entry: func(e *ledger.Entry) { e.Granted, e.Approved = 1, true }, set: func(s *Setting) { s.Policy.MaxAttempts = 1; s.Now = at(100 * time.Hour) }, gate: limits},
		"limits: too old":                                 {set: func(s *Setting) { s.Now = at(73 * time.Hour) }, gate: limits, want: ledger.StateEscalated, reason: "too_old"},
		"limits: too old, state failed: blocked":          {set: func(s *Setting) { s.Now = at(73 * time.Hour); s.Policy.FailedState = true }, gate: limits, want: ledger.StateSettled, reason: "too_old", class: ledger.ReportBlocked},

		"siblings: applied for the same outcome supersedes":              {gate: siblings(sib(ledger.SiblingOutcome, ledger.StateSettled, ledger.EffectDone, ledger.OutcomeApplied)), want: ledger.StateSettled, reason: "superseded", class: ledger.ReportBlocked},
		"siblings: an unknown one freezes":                               {gate: siblings(sib(ledger.SiblingOutcome, ledger.StateEscalated, ledger.EffectUnknown, "")), want: ledger.StateRetryable, reason: "outcome_key_held"},
		"siblings: one that a person ended as unknown: a person":         {entry: func(e *ledger.Entry) { e.Approved = true }, gate: siblings(sib(ledger.SiblingOutcome, ledger.StateSettled, ledger.EffectUnknown, ledger.OutcomeUnknown)), want: ledger.StateEscalated, reason: "outcome_key_held"},
		"siblings: settled not applied, and done: a person":              {gate: siblings(sib(ledger.SiblingOutcome, ledger.StateSettled, ledger.EffectDone, ledger.OutcomeNotApplied)), want: ledger.StateEscalated, reason: "outcome_key_held"},
		"siblings: settled not applied, and done, but approved: goes on": {entry: func(e *ledger.Entry) { e.Approved = true }, gate: siblings(sib(ledger.SiblingOutcome, ledger.StateSettled, ledger.EffectDone, ledger.OutcomeNotApplied))},
		"limits: a grant that was made use of does not lift the age":     {entry: func(e *ledger.Entry) { e.Granted = 1 }, set: func(s *Setting) { s.Now = at(73 * time.Hour) }, gate: limits, want: ledger.StateEscalated, reason: "too_old"},
		"limits: at the very end of the window":                          {set: func(s *Setting) { s.Now = at(72 * time.Hour) }, gate: limits},
		"limits: a microsecond past it":                                  {set: func(s *Setting) { s.Now = at(72*time.Hour + time.Microsecond) }, gate: limits, want: ledger.StateEscalated, reason: "too_old"},
		"siblings: one not done does not":                                {gate: siblings(sib(ledger.SiblingOutcome, ledger.StateSettled, ledger.EffectNotDone, ledger.OutcomeNotApplied))},
		"siblings: a look-alike waits behind an open one":                {gate: siblings(sib(ledger.SiblingLookAlike, ledger.StateAmbiguous, ledger.EffectUnknown, "")), want: ledger.StateRetryable, reason: "look_alike"},
		"siblings: a look-alike of an applied one goes to a person":      {gate: siblings(sib(ledger.SiblingLookAlike, ledger.StateSettled, ledger.EffectDone, ledger.OutcomeApplied)), want: ledger.StateEscalated, reason: "look_alike"},
		"siblings: a look-alike goes on where the policy repeats":        {set: func(s *Setting) { s.Policy.Repeats = true }, gate: siblings(sib(ledger.SiblingLookAlike, ledger.StateAmbiguous, ledger.EffectUnknown, ""))},
		"siblings: unknown itself, and nothing can be asked: a person at the end of the window": {entry: func(e *ledger.Entry) { e.Effect = ledger.EffectUnknown },
			set:  func(s *Setting) { s.Op.Lookup, s.Op.Repeatable, s.Now = connectors.LookupNone, true, at(73*time.Hour) },
			gate: siblings(sib(ledger.SiblingOutcome, ledger.StateRetryable, ledger.EffectUnknown, "")), want: ledger.StateEscalated, reason: "outcome_unknown: outcome_key_held"},
		"siblings: an older change that may still land: waits":        {entry: func(e *ledger.Entry) { e.RecordID = "r" }, set: func(s *Setting) { s.Op.HasProof = true }, gate: siblings(sib(ledger.SiblingEarlier, ledger.StateInFlight, ledger.EffectUnknown, "")), want: ledger.StateRetryable, reason: "in_order: other"},
		"siblings: an older change, where there is no order: goes on": {entry: func(e *ledger.Entry) { e.RecordID = "r" }, gate: siblings(sib(ledger.SiblingEarlier, ledger.StateInFlight, ledger.EffectUnknown, ""))},
		"siblings: a newer change that was sent: superseded":          {entry: func(e *ledger.Entry) { e.RecordID = "r" }, set: func(s *Setting) { s.Op.HasProof = true }, gate: siblings(sib(ledger.SiblingRecord, ledger.StateAmbiguous, ledger.EffectUnknown, "")), want: ledger.StateSettled, reason: "superseded: other", class: ledger.ReportBlocked},

		"checks: all pass":                                              {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(ok)},
		"checks: consent withdrawn: blocked":                            {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(with(connectors.Verdict{Check: connectors.CheckConsent, Kind: connectors.VerdictRefuse})), want: ledger.StateSettled, reason: "consent_withdrawn", class: ledger.ReportBlocked},
		"checks: consent withdrawn, refused = escalated":                {set: func(s *Setting) { s.Op.Checks = all; s.Policy.RefusedEscalates = true }, gate: checks(with(connectors.Verdict{Check: connectors.CheckConsent, Kind: connectors.VerdictRefuse})), want: ledger.StateEscalated, reason: "consent_withdrawn"},
		"checks: closed beats consent, by their order":                  {set: func(s *Setting) { s.Op.Checks = all }, gate: checks([]connectors.Verdict{{Check: connectors.CheckConsent, Kind: connectors.VerdictRefuse}, {Check: connectors.CheckLifecycle, Kind: connectors.VerdictRefuse, Value: "churned"}, ok[1]}), want: ledger.StateSettled, reason: "lifecycle_closed: churned"},
		"checks: what cannot be read sends nothing":                     {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(with(connectors.Verdict{Check: connectors.CheckConsent, Kind: connectors.VerdictUnread})), want: ledger.StateRetryable, reason: "check_unread: consent"},
		"checks: no answer at all is unread":                            {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(nil), want: ledger.StateRetryable, reason: "check_unread"},
		"checks: consent required and unreadable by anything: a person": {set: func(s *Setting) { s.Policy.Consent = CheckRequired }, gate: checks(nil), want: ledger.StateEscalated, reason: "needs_approval"},
		"checks: consent none is not read":                              {set: func(s *Setting) { s.Op.Checks = all[:1]; s.Policy.Consent = CheckNone }, gate: checks(nil)},
		"owner: changed: held for a person":                             {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(with(connectors.Verdict{Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "7"})), want: ledger.StateEscalated, reason: "owner_changed"},
		"owner: changed to one we know, transfer: goes on under it":     {set: func(s *Setting) { s.Op.Checks = all; s.Policy.OwnerCheck = OwnerTransfer }, gate: checks(with(connectors.Verdict{Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "7"}))},
		"owner: changed to a stranger, transfer: a person":              {set: func(s *Setting) { s.Op.Checks = all; s.Policy.OwnerCheck = OwnerTransfer }, gate: checks(with(connectors.Verdict{Check: connectors.CheckOwner, Kind: connectors.VerdictPass, Value: "99"})), want: ledger.StateEscalated, reason: "owner_changed"},
		"owner: inactive: a person":                                     {set: func(s *Setting) { s.Op.Checks = all }, gate: checks(with(connectors.Verdict{Check: connectors.CheckOwner, Kind: connectors.VerdictRefuse, Value: "5502"})), want: ledger.StateEscalated, reason: "owner_inactive"},

		"approval: a policy with retry and a send: goes on":                                {gate: approval},
		"approval: no policy: a person":                                                    {set: func(s *Setting) { s.Policy = DefaultPolicy() }, gate: approval, want: ledger.StateEscalated, reason: "needs_approval"},
		"approval: hold: a person":                                                         {set: func(s *Setting) { s.Policy.Dispatch = DispatchHold }, gate: approval, want: ledger.StateEscalated, reason: "needs_approval"},
		"approval: hold and approved: goes on":                                             {entry: func(e *ledger.Entry) { e.Approved = true }, set: func(s *Setting) { s.Policy.Dispatch = DispatchHold }, gate: approval},
		"approval: send where the connector has none: a person":                            {set: func(s *Setting) { s.Policy.Dispatch = DispatchSend; s.Op.CanSend = false }, gate: approval, want: ledger.StateEscalated, reason: "cannot_send"},
		"approval: unproven, and the key that let it come here has ended: looked at again": {entry: func(e *ledger.Entry) { e.Effect = ledger.EffectUnknown }, set: func(s *Setting) { s.Op.KeepsKey = 24 * time.Hour; s.Now = at(24 * time.Hour) }, gate: approval, want: ledger.StateAmbiguous, reason: "unproven"},
		"approval: unproven, and the key lives: goes on":                                   {entry: func(e *ledger.Entry) { e.Effect = ledger.EffectUnknown }, set: func(s *Setting) { s.Op.KeepsKey = 24 * time.Hour }, gate: approval},
		"approval: unproven, by a person's override: goes on":                              {entry: func(e *ledger.Entry) { e.Effect, e.Reason, e.Approved = ledger.EffectUnknown, "override: by ada", true }, gate: approval},
		"approval: high risk and nothing that refuses a second: a person":                  {entry: func(e *ledger.Entry) { e.Risk = ledger.RiskHigh }, gate: approval, want: ledger.StateEscalated, reason: "needs_approval: high risk"},
		"approval: high risk and a unique key: goes on":                                    {entry: func(e *ledger.Entry) { e.Risk = ledger.RiskHigh }, set: func(s *Setting) { s.Op.Unique = true }, gate: approval},
		"approval: high risk and a live key: goes on":                                      {entry: func(e *ledger.Entry) { e.Risk = ledger.RiskHigh }, set: func(s *Setting) { s.Op.KeepsKey = 24 * time.Hour }, gate: approval},
		"approval: high risk and a key past its life: a person":                            {entry: func(e *ledger.Entry) { e.Risk = ledger.RiskHigh }, set: func(s *Setting) { s.Op.KeepsKey = 24 * time.Hour; s.Now = at(24 * time.Hour) }, gate: approval, want: ledger.StateEscalated, reason: "needs_approval: high risk"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, as := retryable()
			s := settingAt(time.Hour)
			if tt.entry != nil {
				tt.entry(&e)
			}
			if tt.set != nil {
				tt.set(&s)
			}
			g := tt.gate(e, as, s)
			if tt.want == "" {
				if g.Stop {
					t.Fatalf("stopped: %s %q", g.Next.State, g.Next.Reason)
				}
				return
			}
			if !g.Stop || g.Next.State != tt.want || !strings.HasPrefix(g.Next.Reason, tt.reason) {
				t.Errorf("got stop=%v %s %q, want %s %q", g.Stop, g.Next.State, g.Next.Reason, tt.want, tt.reason)
			}
			if tt.class != "" && g.Next.Class != tt.class {
				t.Errorf("class %s, want %s", g.Next.Class, tt.class)
			}
		})
	}
}

func limits(e ledger.Entry, _ []ledger.Attempt, s Setting) Gate { return GateLimits(e, s) }
func siblings(bs []ledger.Sibling) func(ledger.Entry, []ledger.Attempt, Setting) Gate {
	return func(e ledger.Entry, _ []ledger.Attempt, s Setting) Gate { return GateSiblings(e, bs, s) }
}
func checks(vs []connectors.Verdict) func(ledger.Entry, []ledger.Attempt, Setting) Gate {
	return func(e ledger.Entry, _ []ledger.Attempt, s Setting) Gate { return GateChecks(e, vs, s) }
}
func approval(e ledger.Entry, as []ledger.Attempt, s Setting) Gate {
	return GateApproval(e, as, true, "", s)
}

func TestKeyLifetime(t *testing.T) {
	op := testOp()
	op.KeepsKey = 24 * time.Hour
	e, as := retryable()
	for name, tt := range map[string]struct {
		now   time.Duration
		alive bool
	}{
		"five minutes before its end":                  {24*time.Hour - 5*time.Minute, true},
		"too near its end for a request to land in it": {24*time.Hour - 90*time.Second, false},
		"five minutes past its end":                    {24*time.Hour + 5*time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := KeyAlive(e, op, at(tt.now)); got != tt.alive {
				t.Errorf("alive %v, want %v", got, tt.alive)
			}
			if got := NeedsNewKey(e, as, op, at(tt.now)); got == tt.alive {
				t.Errorf("new key %v with a key alive %v", got, tt.alive)
			}
		})
	}
	t.Run("a clearance ends with the key's life, and with the window", func(t *testing.T) {
		s := settingAt(24*time.Hour - 150*time.Second)
		s.Op = op
		if got, want := s.clearedUntil(e), e.KeySentAt.Add(24*time.Hour-80*time.Second); !got.Equal(want) {
			t.Errorf("cleared until %s, want %s", got, want)
		}
		s = settingAt(72*time.Hour - time.Second)
		if got := s.clearedUntil(e); !got.Equal(e.FirstFailedAt.Add(72 * time.Hour)) {
			t.Errorf("cleared until %s", got)
		}
		if got, want := settingAt(time.Hour).clearedUntil(e), at(time.Hour+clearance); !got.Equal(want) {
			t.Errorf("cleared until %s, want %s", got, want)
		}
	})
	t.Run("a report that comes after the look, of an attempt before it, needs another look", func(t *testing.T) {
		e := e
		e.LastLookAt, e.LastTriedAt, e.SendBy = at(10*time.Minute), at(9*time.Minute), at(11*time.Minute)
		if !NeedsLook(e, op) {
			t.Error("no look")
		}
		e.Reason = "override: by ada"
		if NeedsLook(e, op) {
			t.Error("a look in spite of an override")
		}
		e.Reason = ""
		e.LastLookAt = at(11*time.Minute + time.Microsecond)
		if NeedsLook(e, op) {
			t.Error("a second look")
		}
	})
	t.Run("with keeps_key 0 a key is never replaced for its age", func(t *testing.T) {
		op.KeepsKey = 0
		if NeedsNewKey(e, as, op, at(1000*time.Hour)) {
			t.Error("replaced")
		}
	})
	t.Run("a replayed stored error spends the key", func(t *testing.T) {
		as[0].KeySpent = true
		if !NeedsNewKey(e, as, op, at(time.Hour)) {
			t.Error("not replaced")
		}
	})
}

func TestAfterPerson(t *testing.T) {
	esc := func(eff ledger.Effect) ledger.Entry {
		e, _ := timedOut()
		e.Effect = eff
		return ledger.Escalate(e, ledger.Escalation{Owner: "revops", Due: at(time.Hour), Allowed: ledger.Actions()}, "x")
	}
	tests := map[string]struct {
		entry   ledger.Entry
		action  PersonAction
		want    ledger.State
		outcome ledger.Outcome
		refused bool
	}{
		"retry with the effect unknown: looked at first":      {entry: esc(ledger.EffectUnknown), action: PersonAction{Action: ledger.ActionRetry}, want: ledger.StateAmbiguous},
		"retry with the effect not done: retryable":           {entry: esc(ledger.EffectNotDone), action: PersonAction{Action: ledger.ActionRetry}, want: ledger.StateRetryable},
		"retry with an override skips the look":               {entry: esc(ledger.EffectUnknown), action: PersonAction{Action: ledger.ActionRetry, Override: true, By: "ada", Note: "called them"}, want: ledger.StateRetryable},
		"resolve is applied unless told otherwise":            {entry: esc(ledger.EffectUnknown), action: PersonAction{Action: ledger.ActionResolve, Reference: "9", Note: "seen"}, want: ledger.StateSettled, outcome: ledger.OutcomeApplied},
		"resolve as not applied":                              {entry: esc(ledger.EffectUnknown), action: PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeNotApplied, Note: "not there"}, want: ledger.StateSettled, outcome: ledger.OutcomeNotApplied},
		"cancel while the effect is unknown: outcome unknown": {entry: esc(ledger.EffectUnknown), action: PersonAction{Action: ledger.ActionCancel}, want: ledger.StateSettled, outcome: ledger.OutcomeUnknown},
		"cancel with the effect not done: not applied":        {entry: esc(ledger.EffectNotDone), action: PersonAction{Action: ledger.ActionCancel}, want: ledger.StateSettled, outcome: ledger.OutcomeNotApplied},
		"cancel of what is known to have happened is refused": {entry: esc(ledger.EffectDone), action: PersonAction{Action: ledger.ActionCancel}, refused: true},
		"assign": {entry: esc(ledger.EffectNotDone), action: PersonAction{Action: ledger.ActionAssign, To: "sales"}, want: ledger.StateEscalated},
		"snooze": {entry: esc(ledger.EffectNotDone), action: PersonAction{Action: ledger.ActionSnooze, Until: at(9 * time.Hour)}, want: ledger.StateDeferred},
		"what the entry does not allow is refused": {entry: ledger.Escalate(ledger.Entry{State: ledger.StateAmbiguous}, ledger.Escalation{Allowed: []ledger.Action{ledger.ActionCancel}}, "x"),
			action: PersonAction{Action: ledger.ActionRetry}, refused: true},
		"a settled entry is not retried": {entry: ledger.Settle(ledger.Entry{}, ledger.OutcomeApplied, ledger.ByLook, "found", t0), action: PersonAction{Action: ledger.ActionRetry}, refused: true},
		"a settled entry that nothing contradicts is not corrected": {entry: ledger.Settle(ledger.Entry{}, ledger.OutcomeApplied, ledger.ByLook, "found", t0),
			action: PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeNotApplied, Note: "not there"}, refused: true},
		"what a person settled is corrected by a person": {entry: ledger.Settle(ledger.Entry{}, ledger.OutcomeUnknown, ledger.ByPerson, "cancel", t0),
			action: PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeNotApplied, Note: "not there"}, want: ledger.StateSettled, outcome: ledger.OutcomeNotApplied},
		"a settled entry with an open flag is corrected": {entry: ledger.Settle(ledger.Entry{}, ledger.OutcomeNotApplied, ledger.ByCheck, "x", t0).WithFlag(ledger.FlagConflict),
			action: PersonAction{Action: ledger.ActionResolve, Outcome: ledger.OutcomeApplied, Note: "seen"}, want: ledger.StateSettled, outcome: ledger.OutcomeApplied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := AfterPerson(tt.entry, tt.action, settingAt(time.Hour))
			var no *NotAllowedError
			if tt.refused != errors.As(err, &no) {
				t.Fatalf("refused: %v", err)
			}
			if !tt.refused && (got.State != tt.want || got.Outcome != tt.outcome) {
				t.Errorf("got %s %q, want %s %q", got.State, got.Outcome, tt.want, tt.outcome)
			}
		})
	}
}

// Whatever a look says, at whatever time: a settled entry stays settled, an
// entry becomes retryable only with its effect known to be not done (or where
// doing it twice is harmless, or refused by the system), no wait is negative,
// and every change is legal.
func TestAfterLookKeepsThePromise(t *testing.T) {
	findings := []ledger.Finding{ledger.FindingApplied, ledger.FindingPending, ledger.FindingRejected, ledger.FindingReversed, ledger.FindingAbsent,
		ledger.FindingNotVisible, ledger.FindingDuplicate, ledger.FindingMismatch, ledger.FindingUnmapped, ledger.FindingCouldNotAsk}
	rapid.Check(t, func(t *rapid.T) {
		e, as := timedOut()
		switch rapid.IntRange(0, 4).Draw(t, "state") {
		case 1:
			e = ledger.Begin(e, "x", t0)
		case 2:
			e = ledger.Escalate(e, ledger.Escalation{Owner: "x", Look: t0}, "x")
		case 3:
			e = ledger.VerifyAt(ledger.Settle(e, ledger.OutcomeApplied, ledger.BySend, "sent", t0), t0)
		case 4:
			e, as = retryable()
		}
		s := settingAt(time.Duration(rapid.Int64Range(0, int64(200*time.Hour)).Draw(t, "now")))
		s.Op.Repeatable = rapid.Bool().Draw(t, "repeatable")
		s.Op.Unique = rapid.Bool().Draw(t, "unique")
		s.Policy.FailedState = rapid.Bool().Draw(t, "failed")
		s.Policy.SettleEvery = time.Duration(rapid.Int64Range(0, int64(5*time.Hour)).Draw(t, "every"))
		f := rapid.SampledFrom(findings).Draw(t, "finding")
		l := Look{Judgement: Judgement{Finding: f, Reason: string(f), Counts: f == ledger.FindingAbsent, Needed: 2}, Asked: s.Now,
			Wait: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))}
		got := AfterLook(e, as, l, s).Next
		if !ledger.Legal(e.State, got.State) {
			t.Fatalf("%s to %s", e.State, got.State)
		}
		if e.Settled() && (!got.Settled() || got.Outcome != e.Outcome) {
			t.Fatalf("settled %s became %s %s", e.Outcome, got.State, got.Outcome)
		}
		if got.State == ledger.StateRetryable && got.Effect != ledger.EffectNotDone && !s.Op.Repeatable && !s.Op.Unique {
			t.Fatalf("retryable with effect %s", got.Effect)
		}
		if got.Settled() && got.Outcome == ledger.OutcomeNotApplied && got.Effect != ledger.EffectNotDone {
			t.Fatalf("not applied with effect %s", got.Effect)
		}
		if got.State == ledger.StateAmbiguous && got.NextAt.Before(s.Now.Add(l.Wait)) && f != ledger.FindingPending && !(f == ledger.FindingAbsent) {
			t.Fatalf("looked at again at %s, before %s", got.NextAt, s.Now.Add(l.Wait))
		}
		if (got.Work == ledger.WorkNone) != got.NextAt.IsZero() {
			t.Fatalf("work %q due %s", got.Work, got.NextAt)
		}
	})
}
