package reconcile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestAPersonAndAnOpenFlag(t *testing.T) {
	settled := ledger.Settle(ledger.Entry{Owner: "revops"}, ledger.OutcomeApplied, ledger.ByReport, "reported_ok", t0)
	flagged := settled.WithFlag(ledger.FlagDuplicate)
	for name, c := range map[string]struct {
		entry  ledger.Entry
		action PersonAction
		owner  string
		flags  int
		no     bool
	}{
		"take: the flag is mine":            {flagged, PersonAction{Action: ledger.ActionTake, By: "ada"}, "ada", 1, false},
		"assign: it is somebody else's":     {flagged, PersonAction{Action: ledger.ActionAssign, To: "finance"}, "finance", 1, false},
		"assign to nobody is refused":       {flagged, PersonAction{Action: ledger.ActionAssign}, "revops", 1, true},
		"resolve closes it":                 {flagged, PersonAction{Action: ledger.ActionResolve, Note: "removed one"}, "revops", 0, false},
		"retry is refused":                  {flagged, PersonAction{Action: ledger.ActionRetry}, "revops", 1, true},
		"snooze is refused":                 {flagged, PersonAction{Action: ledger.ActionSnooze, Until: at(time.Hour)}, "revops", 1, true},
		"without a flag nobody takes it":    {settled, PersonAction{Action: ledger.ActionTake, By: "ada"}, "revops", 0, true},
		"without a flag nobody is assigned": {settled, PersonAction{Action: ledger.ActionAssign, To: "finance"}, "revops", 0, true},
	} {
		got, err := AfterPerson(c.entry, c.action, settingAt(0))
		if (err != nil) != c.no || got.Owner != c.owner || len(got.Flags) != c.flags || got.State != ledger.StateSettled || got.Outcome != ledger.OutcomeApplied {
			t.Errorf("%s: owner %s, flags %v, %s %s, %v", name, got.Owner, got.Flags, got.State, got.Outcome, err)
		}
	}
}

func TestAnActionThatLacksSomething(t *testing.T) {
	doubt, _ := timedOut()
	waiting := ledger.Escalate(doubt, ledger.Escalation{Owner: "revops", Due: at(time.Hour), Allowed: ledger.Actions()}, "x")
	flagged := ledger.Settle(ledger.Entry{}, ledger.OutcomeApplied, ledger.ByReport, "reported_ok", t0).WithFlag(ledger.FlagDuplicate)
	for name, c := range map[string]struct {
		entry  ledger.Entry
		action PersonAction
		part   Part // "": it lacks nothing
	}{
		"resolve without a note":                           {waiting, PersonAction{Action: ledger.ActionResolve, Reference: "9"}, PartNote},
		"resolve without a reference":                      {waiting, PersonAction{Action: ledger.ActionResolve, Note: "seen"}, PartReference},
		"resolve as not applied needs none":                {waiting, PersonAction{Action: ledger.ActionResolve, Note: "not there", Outcome: ledger.OutcomeNotApplied}, ""},
		"to close a flag needs none":                       {flagged, PersonAction{Action: ledger.ActionResolve, Note: "one was removed"}, ""},
		"resolve as unknown":                               {waiting, PersonAction{Action: ledger.ActionResolve, Note: "seen", Reference: "9", Outcome: ledger.OutcomeUnknown}, PartOutcome},
		"assign to nobody":                                 {waiting, PersonAction{Action: ledger.ActionAssign, By: "ada"}, PartTo},
		"take by somebody":                                 {waiting, PersonAction{Action: ledger.ActionTake, By: "ada"}, ""},
		"an override without a note":                       {waiting, PersonAction{Action: ledger.ActionRetry, Override: true}, PartNote},
		"a retry that looks needs none":                    {waiting, PersonAction{Action: ledger.ActionRetry}, ""},
		"snooze without an end":                            {waiting, PersonAction{Action: ledger.ActionSnooze}, PartUntil},
		"snooze until this very moment":                    {waiting, PersonAction{Action: ledger.ActionSnooze, Until: at(time.Hour)}, PartUntil},
		"snooze until later":                               {waiting, PersonAction{Action: ledger.ActionSnooze, Until: at(time.Hour + 1)}, ""},
		"cancel needs nothing":                             {waiting, PersonAction{Action: ledger.ActionCancel}, ""},
		"what it lacks is said before what is not allowed": {flagged, PersonAction{Action: ledger.ActionSnooze}, PartUntil},
	} {
		got, err := AfterPerson(c.entry, c.action, settingAt(time.Hour))
		part := Part("")
		var lack *PartError
		if errors.As(err, &lack) {
			part = lack.Part
		}
		if part != c.part || (err == nil) != (c.part == "") {
			t.Errorf("%s: %v, want a lack of %q", name, err, c.part)
		}
		if c.part != "" && !reflect.DeepEqual(got, c.entry) {
			t.Errorf("%s: the entry changed", name)
		}
	}
	if lacks := (PersonAction{Action: ledger.ActionResolve, Outcome: "lost"}).Check(t0); len(lacks) != 2 {
		t.Errorf("all that is wrong is said at once: %v", lacks)
	}
}

func TestAnOwnerThatNobodyKnows(t *testing.T) {
	owners := Owners{"revops": {ID: "revops", IDs: []string{"5502"}}, "finance": {ID: "finance"}}
	for name, c := range map[string]struct {
		owners Owners
		to     string
		want   string
	}{
		"known":                          {owners, "revops", ""},
		"always there":                   {owners, ledger.OwnerUnassigned, ""},
		"nobody":                         {owners, "", ""},
		"the config names no owners":     {nil, "ada", ""},
		"nobody of that name":            {owners, "ada", "there is no [owners.ada], so that nobody is told; the config has finance, revops"},
		"spelt wrong":                    {owners, "revop", `did you mean "revops"?`},
		"as an outside system calls him": {owners, "5502", `did you mean "revops", whom an outside system calls so?`},
	} {
		if got := c.owners.Unknown(c.to); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFlagReview(t *testing.T) {
	s := settingAt(time.Hour)
	s.Policy.Due = 8 * time.Hour
	settled := ledger.Settle(ledger.Entry{Owner: "revops"}, ledger.OutcomeApplied, ledger.ByReport, "reported_ok", t0)
	settled.LastActivityAt = at(30 * time.Minute)
	closers := []ledger.Action{ledger.ActionResolve, ledger.ActionAssign}
	for name, c := range map[string]struct {
		entry   ledger.Entry
		opened  time.Time
		due     time.Time
		allowed []ledger.Action
	}{
		"flagged later than it was settled":             {settled.WithFlag(ledger.FlagDuplicate), at(10 * time.Minute), at(8*time.Hour + 10*time.Minute), closers},
		"nobody knows since when: since it was settled": {settled.WithFlag(ledger.FlagDuplicate), time.Time{}, at(8 * time.Hour), closers},
		"not flagged: nothing to do":                    {settled, time.Time{}, time.Time{}, nil},
		"escalated: as it was given": {ledger.Escalate(ledger.Entry{}, ledger.Escalation{Owner: "x", Due: at(time.Hour), Allowed: []ledger.Action{ledger.ActionCancel}}, "x").WithFlag(ledger.FlagDuplicate),
			t0, at(time.Hour), []ledger.Action{ledger.ActionCancel}},
		"flagged, and in doubt again": {ledger.Entry{State: ledger.StateAmbiguous, Effect: ledger.EffectUnknown, LastActivityAt: t0, Flags: []ledger.Flag{ledger.FlagDuplicate}}, time.Time{}, at(8 * time.Hour),
			[]ledger.Action{ledger.ActionResolve, ledger.ActionCancel, ledger.ActionAssign, ledger.ActionSnooze}},
	} {
		got := FlagReview(c.entry, c.opened, s)
		if !got.DueAt.Equal(c.due) || !slices.Equal(got.Allowed, c.allowed) {
			t.Errorf("%s: due %s, allowed %v; want %s, %v", name, got.DueAt.Sub(t0), got.Allowed, c.due.Sub(t0), c.allowed)
		}
	}
}
