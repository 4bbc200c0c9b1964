package sqlstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
)

// reportDay is the day that the rows of these tests are counted from.
var reportDay = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

func hours(n int) time.Time { return reportDay.Add(time.Duration(n) * time.Hour) }

// shelf is what the tests of reports put into a ledger, row by row and as it
// is, which no path of the product would do.
type shelf struct {
	entries  []ledger.Entry
	attempts []ledger.Attempt
	evidence []ledger.Evidence
	history  []ledger.History
	rows     map[int64]int // of history, by entry; those of entry are not counted
}

// entry adds an entry received at a moment, with the classes it had since, each
// from a moment on; the first is from its receipt.
func (h *shelf) entry(key string, received time.Time, at map[time.Time]ledger.ReportClass, change func(e *ledger.Entry)) int64 {
	id := int64(len(h.entries) + 1)
	e := ledger.Entry{ID: id, ActionKey: key, Workflow: "lead-intake", WorkflowVersion: "7", Connector: "crm", Operation: "contact.create",
		ProviderKey: key, Risk: ledger.RiskNormal, Owner: "revops", OriginalOwner: "revops", ReceivedAt: received, Effect: ledger.EffectUnknown}
	if change != nil {
		change(&e)
	}
	from, flags := ledger.State(""), e.Flags
	for no, moment := range slices.SortedFunc(maps.Keys(at), time.Time.Compare) {
		stand(&e, at[moment], moment)
		e.Flags = flags
		if strings.HasPrefix(key, "flagged") && no == 0 {
			e.Flags = []ledger.Flag{ledger.FlagDuplicate} // closed by the next change
		}
		row := ledger.History{EntryID: id, No: no + 1, At: moment, From: from, To: e.State, Outcome: e.Outcome, Class: e.Class, Flags: e.Flags, Owner: e.Owner}
		h.history = append(h.history, row)
		from = e.State
	}
	h.entries = append(h.entries, e)
	return id
}

// step is one change of an entry, with the row of history that it leaves. A
// reminder leaves none.
type step struct {
	at       int // hours from reportDay
	class    ledger.ReportClass
	owner    string
	due      int // of an owner, or of the end of a deferral, in hours
	flags    []ledger.Flag
	reason   string
	reminder bool
}

// steps adds an entry that went through the steps given, received with the
// first.
func (h *shelf) steps(key string, change func(e *ledger.Entry), steps ...step) int64 {
	id := h.entry(key, hours(steps[0].at), nil, change)
	e := &h.entries[id-1]
	if h.rows == nil {
		h.rows = map[int64]int{}
	}
	no := 0
	for _, s := range steps {
		from := e.State
		stand(e, s.class, hours(s.at))
		e.Owner, e.Flags = s.owner, s.flags
		switch e.State {
		case ledger.StateEscalated:
			e.DueAt = hours(s.due)
		case ledger.StateDeferred:
			e.ReleaseAt, e.NextAt = hours(s.due), hours(s.due)
		}
		if s.reminder {
			continue
		}
		no++
		h.history = append(h.history, ledger.History{EntryID: id, No: no, At: hours(s.at), From: from, To: e.State, Outcome: e.Outcome,
			Class: e.Class, Flags: e.Flags, DueAt: e.StepDue(), Owner: e.Owner, Reason: s.reason})
		h.rows[id]++
	}
	return id
}

// stand puts an entry where its class says.
func stand(e *ledger.Entry, c ledger.ReportClass, at time.Time) {
	e.Class, e.LastActivityAt = c, at
	e.DueAt, e.Work, e.NextAt, e.ReleaseAt = time.Time{}, ledger.WorkNone, time.Time{}, time.Time{}
	e.Outcome, e.SettledBy, e.SettledAt = ledger.OutcomeNone, ledger.ByNothing, time.Time{}
	switch c {
	case ledger.ReportWaiting:
		e.State = ledger.StateAmbiguous
	case ledger.ReportDeferred:
		e.State, e.Work, e.ReleaseAt, e.NextAt = ledger.StateDeferred, ledger.WorkRelease, at.Add(time.Hour), at.Add(time.Hour)
	case ledger.ReportEscalated:
		e.State = ledger.StateEscalated
	default:
		e.State, e.Outcome, e.SettledBy, e.SettledAt = ledger.StateSettled, ledger.OutcomeApplied, ledger.ByReport, at
		if c == ledger.ReportBlocked || c == ledger.ReportPermanentlyFailed {
			e.Outcome = ledger.OutcomeNotApplied
		}
	}
}

// failure adds a failed attempt.
func (h *shelf) failure(entry int64, reason string, at time.Time, change func(a *ledger.Attempt)) {
	a := ledger.Attempt{EntryID: entry, AttemptID: fmt.Sprintf("a%d", len(h.attempts)), No: 1, ReceivedAt: at, ResultAt: at, EffectAt: at,
		Status: ledger.AttemptError, Class: ledger.ClassTimeout, Code: "504", Effect: ledger.EffectNotDone,
		ReasonID: reason, ReasonText: "text of " + reason, RulesVersion: 1}
	if change != nil {
		change(&a)
	}
	h.attempts = append(h.attempts, a)
}

// tries adds the attempts of an entry, each received at an hour, with its result
// at another: 0 and more. A try without result has a negative one.
type try struct {
	received, result int
	ok               bool
	remote           string
}

func (h *shelf) tries(id int64, tries ...try) {
	for i, x := range tries {
		a := ledger.Attempt{EntryID: id, AttemptID: fmt.Sprintf("a%d", i+1), No: i + 1, ReceivedAt: hours(x.received), Status: ledger.AttemptStarted,
			Effect: ledger.EffectUnknown, RemoteID: x.remote}
		if x.result >= x.received {
			a.ResultAt, a.EffectAt, a.Status, a.ReasonID = hours(x.result), hours(x.result), ledger.AttemptError, "r"
			if x.ok {
				a.Status, a.Effect, a.ReasonID = ledger.AttemptOK, ledger.EffectDone, ""
			}
		}
		h.attempts = append(h.attempts, a)
		h.entries[id-1].Attempts++
	}
}

// looks adds looks at an entry, each at an hour of the day; one at a negative
// hour is at that hour of the day too, and was in vain.
func (h *shelf) looks(id int64, at ...int) {
	for _, hour := range at {
		v := ledger.Evidence{EntryID: id, Finding: ledger.FindingNotVisible, Form: "single"}
		if hour < 0 {
			hour, v.Finding = -hour, ledger.FindingCouldNotAsk
			h.entries[id-1].LooksFailed++
		} else {
			h.entries[id-1].LooksAnswered++
		}
		v.AskedAt, v.SeenAt, v.Digest = hours(hour), hours(hour), fmt.Sprint(len(h.evidence))
		h.evidence = append(h.evidence, v)
	}
}

func (h *shelf) put(t *testing.T, s *Store) {
	t.Helper()
	insert := func(tx *txn, l layout, values []any) error {
		_, err := tx.Exec(sqlx.Rebind(s.d.bind, "INSERT INTO "+l.table+" ("+l.list("")+") VALUES ("+
			joined(len(l.columns), func(int) string { return "?" })+")"), values...)
		return err
	}
	err := s.write(t.Context(), "put", func(tx *txn) error {
		for _, e := range h.entries {
			if err := insert(tx, entryLayout, entryLayout.values(&e)); err != nil {
				return err
			}
		}
		for _, a := range h.attempts {
			if err := insert(tx, attemptLayout, attemptLayout.values(&a)); err != nil {
				return err
			}
		}
		for _, ev := range h.evidence {
			if err := insert(tx, evidenceLayout, evidenceLayout.values(&ev)); err != nil {
				return err
			}
		}
		for _, r := range h.history {
			if err := insert(tx, historyLayout, historyLayout.values(&r)); err != nil {
				return err
			}
		}
		for id, n := range h.rows {
			if _, err := tx.Exec(sqlx.Rebind(s.d.bind, "UPDATE entry SET history_count = ? WHERE id = ?"), n, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onBoth runs a test on a new ledger of each kind.
func onBoth(t *testing.T, f func(t *testing.T, s *Store)) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "reconcile.db") },
		"postgres": func(t *testing.T) string { return pgtest.DB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), url(t), Options{AutoMigrate: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			f(t, s)
		})
	}
}

// week is the window of a day that is over; asOf is after its end.
func week(asOf int, by ...string) ledger.ReportWindow {
	return ledger.ReportWindow{Since: hours(0), Until: hours(24), AsOf: hours(asOf), By: by}
}

func TestOutcomeCounts(t *testing.T) {
	var h shelf
	class := func(at ...any) map[time.Time]ledger.ReportClass {
		m := map[time.Time]ledger.ReportClass{}
		for i := 0; i < len(at); i += 2 {
			m[hours(at[i].(int))] = at[i+1].(ledger.ReportClass)
		}
		return m
	}
	h.entry("settled within", hours(1), class(1, ledger.ReportWaiting, 2, ledger.ReportConfirmedByLookup), nil)
	h.entry("settled later", hours(3), class(3, ledger.ReportWaiting, 30, ledger.ReportRecoveredAfterRetry), nil)
	h.entry("corrected later", hours(4), class(4, ledger.ReportWaiting, 5, ledger.ReportPermanentlyFailed, 40, ledger.ReportManuallyResolved), nil)
	h.entry("changed at that very moment", hours(6), class(6, ledger.ReportWaiting, 25, ledger.ReportEscalated), nil)
	h.entry("flagged, closed later", hours(7), class(7, ledger.ReportFirstAttemptSuccess, 31, ledger.ReportManuallyResolved), nil)
	h.entry("another workflow", hours(8), class(8, ledger.ReportDeferred), func(e *ledger.Entry) {
		e.Workflow, e.WorkflowVersion, e.Flags = "billing", "", []ledger.Flag{ledger.FlagConflict, ledger.FlagDuplicate}
	})
	h.entry("first moment", hours(0), class(0, ledger.ReportBlocked), nil)
	h.entry("the day before", hours(-1), class(-1, ledger.ReportWaiting, 3, ledger.ReportBlocked), nil)
	h.entry("the day after", hours(24), class(24, ledger.ReportWaiting), nil)

	type counts = map[ledger.ReportClass]int
	tests := map[string]struct {
		w    ledger.ReportWindow
		want []ledger.OutcomeCount
	}{
		"as they stood an hour after the end": {week(25, "workflow", "workflow_version"), []ledger.OutcomeCount{
			{By: []string{"billing", ""}, Classes: counts{ledger.ReportDeferred: 1}, Total: 1, Flagged: 1},
			{By: []string{"lead-intake", "7"}, Classes: counts{ledger.ReportConfirmedByLookup: 1, ledger.ReportWaiting: 1,
				ledger.ReportPermanentlyFailed: 1, ledger.ReportEscalated: 1, ledger.ReportFirstAttemptSuccess: 1, ledger.ReportBlocked: 1}, Total: 6, Flagged: 1}}},
		"as they stand now": {week(100, "workflow"), []ledger.OutcomeCount{
			{By: []string{"billing"}, Classes: counts{ledger.ReportDeferred: 1}, Total: 1, Flagged: 1},
			{By: []string{"lead-intake"}, Classes: counts{ledger.ReportConfirmedByLookup: 1, ledger.ReportRecoveredAfterRetry: 1,
				ledger.ReportManuallyResolved: 2, ledger.ReportEscalated: 1, ledger.ReportBlocked: 1}, Total: 6}}},
		"what changes is as it was then": {week(25, "state", "class", "outcome"), []ledger.OutcomeCount{
			{By: []string{"ambiguous", "waiting", ""}, Classes: counts{ledger.ReportWaiting: 1}, Total: 1},
			{By: []string{"deferred", "deferred", ""}, Classes: counts{ledger.ReportDeferred: 1}, Total: 1, Flagged: 1},
			{By: []string{"escalated", "escalated", ""}, Classes: counts{ledger.ReportEscalated: 1}, Total: 1},
			{By: []string{"settled", "blocked", "not_applied"}, Classes: counts{ledger.ReportBlocked: 1}, Total: 1},
			{By: []string{"settled", "confirmed_by_lookup", "applied"}, Classes: counts{ledger.ReportConfirmedByLookup: 1}, Total: 1},
			{By: []string{"settled", "first_attempt_success", "applied"}, Classes: counts{ledger.ReportFirstAttemptSuccess: 1}, Total: 1, Flagged: 1},
			{By: []string{"settled", "permanently_failed", "not_applied"}, Classes: counts{ledger.ReportPermanentlyFailed: 1}, Total: 1}}},
		"one workflow": {ledger.ReportWindow{Since: hours(0), Until: hours(24), AsOf: hours(25), By: []string{"owner"}, Filter: ledger.Filter{Workflow: "billing"}},
			[]ledger.OutcomeCount{{By: []string{"revops"}, Classes: counts{ledger.ReportDeferred: 1}, Total: 1, Flagged: 1}}},
		"nothing in the window": {ledger.ReportWindow{Since: hours(200), Until: hours(224), AsOf: hours(225), By: []string{"owner"}}, []ledger.OutcomeCount{}},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := s.OutcomeCounts(t.Context(), tc.w)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

func TestReasonCounts(t *testing.T) {
	var h shelf
	at := map[time.Time]ledger.ReportClass{hours(-40): ledger.ReportWaiting}
	v6 := h.entry("k6", hours(-40), at, func(e *ledger.Entry) { e.WorkflowVersion = "6" })
	v7 := h.entry("k7", hours(-40), at, func(e *ledger.Entry) { e.Risk = ledger.RiskHigh })
	other := h.entry("other", hours(-40), at, func(e *ledger.Entry) { e.Workflow, e.WorkflowVersion = "billing", "" })

	h.failure(v6, "net", hours(-2000), nil) // long ago
	h.failure(v6, "net", hours(-25), nil)   // before the window before
	h.failure(v6, "net", hours(-24), nil)   // in the window before
	h.failure(v7, "net", hours(-1), nil)    // likewise
	h.failure(v6, "net", hours(0), nil)     // first moment
	h.failure(v6, "net", hours(3), func(a *ledger.Attempt) { a.Effect = ledger.EffectUnknown })
	h.failure(v7, "net", hours(5), func(a *ledger.Attempt) { a.EffectAt = hours(30) }) // known only later
	h.failure(other, "net", hours(5), nil)
	h.failure(v7, "net", hours(24), nil) // after the window
	h.failure(v7, "data", hours(7), func(a *ledger.Attempt) { a.Class, a.RulesVersion, a.Sends = ledger.ClassValidation, 2, 5 })
	h.failure(v7, "gone", hours(-3), nil) // only in the window before
	h.failure(v7, "", hours(8), func(a *ledger.Attempt) { a.Status, a.Class = ledger.AttemptOK, ledger.ClassNone })
	h.failure(v7, "late", hours(-3), func(a *ledger.Attempt) { a.ResultAt = hours(9) }) // begun before, learned within

	row := func(by []string, reason string, count, previous, unknown, high int, versions []string, first, last int, sample string) ledger.ReasonCount {
		c := ledger.ReasonCount{By: by, Reason: reason, Connector: "crm", Operation: "contact.create", Class: ledger.ClassTimeout, Code: "504",
			Text: "text of " + reason, Count: count, Previous: previous, Unknown: unknown, HighRisk: high, Versions: versions,
			FirstSeen: hours(first), LastSeen: hours(last), SampleKey: sample, RulesVersion: 1}
		if reason == "data" {
			c.Class, c.RulesVersion = ledger.ClassValidation, 2
		}
		return c
	}
	tests := map[string]struct {
		w    ledger.ReportWindow
		want []ledger.ReasonCount
	}{
		"reasons of the window, an hour after its end": {week(25), []ledger.ReasonCount{
			row([]string{}, "data", 1, 0, 0, 1, []string{"7"}, 7, 7, "k7"),
			row([]string{}, "late", 1, 0, 0, 1, []string{"7"}, 9, 9, "k7"),
			row([]string{}, "net", 4, 2, 2, 1, []string{"6", "7"}, -2000, 5, "other")}},
		"long after: the same, but for what a look has shown since": {week(1000, "workflow_version"), []ledger.ReasonCount{
			row([]string{""}, "net", 1, 0, 0, 0, nil, -2000, 5, "other"),
			row([]string{"6"}, "net", 2, 1, 1, 0, []string{"6"}, -2000, 3, "k6"),
			row([]string{"7"}, "data", 1, 0, 0, 1, []string{"7"}, 7, 7, "k7"),
			row([]string{"7"}, "late", 1, 0, 0, 1, []string{"7"}, 9, 9, "k7"),
			row([]string{"7"}, "net", 1, 1, 0, 1, []string{"7"}, -2000, 5, "k7")}},
		"one workflow: first seen is of all": {ledger.ReportWindow{Since: hours(0), Until: hours(24), AsOf: hours(25), Filter: ledger.Filter{Workflow: "billing"}},
			[]ledger.ReasonCount{row([]string{}, "net", 1, 0, 0, 0, nil, -2000, 5, "other")}},
		"nothing in the window": {ledger.ReportWindow{Since: hours(200), Until: hours(224), AsOf: hours(225)}, []ledger.ReasonCount{}},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := s.ReasonCounts(t.Context(), tc.w)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

func TestQueueCounts(t *testing.T) {
	const waiting, escalated, deferred, settled = ledger.ReportWaiting, ledger.ReportEscalated, ledger.ReportDeferred, ledger.ReportFirstAttemptSuccess
	dup := []ledger.Flag{ledger.FlagDuplicate}
	var h shelf
	// The owner had until hour 4; the reminder at hour 5 gave until hour 50.
	h.steps("reminded", nil, step{at: -48, class: waiting, owner: "a"}, step{at: 1, class: escalated, owner: "a", due: 4},
		step{at: 5, class: escalated, owner: "a", due: 50, reminder: true})
	h.steps("handed on", nil, step{at: 2, class: escalated, owner: "a", due: 4}, step{at: 4, class: escalated, owner: "b", due: 30})
	h.steps("taken, and settled later", nil, step{at: 3, class: escalated, owner: "a", due: 8}, step{at: 6, class: escalated, owner: "ada", due: 8},
		step{at: 60, class: ledger.ReportManuallyResolved, owner: "ada"})
	h.steps("back again", nil, step{at: 3, class: escalated, owner: "b", due: 5}, step{at: 6, class: waiting, owner: "b"},
		step{at: 9, class: escalated, owner: "b", due: 40, flags: dup})
	h.steps("put aside, and longer", nil, step{at: 3, class: escalated, owner: "a", due: 9}, step{at: 7, class: deferred, owner: "a", due: 20},
		step{at: 8, class: deferred, owner: "a", due: 70})
	h.steps("released in time, unseen", nil, step{at: 10, class: deferred, owner: "a", due: 24})
	h.steps("flagged, closed, flagged", nil, step{at: 1, class: settled, owner: "b", flags: dup}, step{at: 2, class: settled, owner: "b"},
		step{at: 11, class: settled, owner: "b", flags: []ledger.Flag{ledger.FlagReversed}}, step{at: 12, class: settled, owner: "b", flags: dup})
	h.steps("flagged only later", nil, step{at: 1, class: settled, owner: "a"}, step{at: 40, class: settled, owner: "a", flags: dup})
	h.steps("came later", nil, step{at: 30, class: escalated, owner: "z", due: 31})
	h.steps("elsewhere", func(e *ledger.Entry) { e.Connector = "billing" }, step{at: 1, class: escalated, owner: "z", due: 2})

	crm := ledger.Filter{Connector: "crm"}
	type count = ledger.QueueCount
	row := func(by string, waits ledger.Waits, n, flagged, overdue, oldest int, next time.Time) count {
		c := count{By: []string{}, Waits: waits, Count: n, Flagged: flagged, Overdue: overdue, Oldest: hours(oldest), DueNext: next}
		if by != "" {
			c.By = []string{by}
		}
		return c
	}
	tests := map[string]struct {
		w    ledger.ReportWindow
		want []count
	}{
		"an hour after the end of the day": {ledger.ReportWindow{AsOf: hours(25), By: []string{"owner"}, Filter: crm}, []count{
			row("a", ledger.WaitsEscalated, 1, 0, 1, 1, time.Time{}),
			row("a", ledger.WaitsDeferred, 2, 0, 1, 7, hours(70)),
			row("ada", ledger.WaitsEscalated, 1, 0, 1, 3, time.Time{}),
			row("b", ledger.WaitsEscalated, 2, 1, 0, 2, hours(30)),
			row("b", ledger.WaitsFlagged, 1, 1, 0, 11, time.Time{})}},
		"in the morning, before most of it": {ledger.ReportWindow{AsOf: hours(4), By: []string{"owner"}, Filter: crm}, []count{
			row("a", ledger.WaitsEscalated, 3, 0, 1, 1, hours(8)),
			row("b", ledger.WaitsEscalated, 2, 0, 0, 2, hours(5))}},
		"long after, all together": {ledger.ReportWindow{AsOf: hours(100)}, []count{
			row("", ledger.WaitsEscalated, 5, 1, 5, 1, time.Time{}),
			row("", ledger.WaitsDeferred, 2, 0, 2, 7, time.Time{}),
			row("", ledger.WaitsFlagged, 2, 2, 0, 11, time.Time{})}},
		"before anything": {ledger.ReportWindow{AsOf: hours(-100)}, []count{}},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := s.QueueCounts(t.Context(), tc.w)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

// open says whether an entry of a class is not settled.
func open(c ledger.ReportClass) bool {
	return c == ledger.ReportWaiting || c == ledger.ReportDeferred || c == ledger.ReportEscalated
}

// walk adds n entries that went through random steps.
func (h *shelf) walk(rnd *rand.Rand, n int) {
	classes := ledger.ReportClasses()
	for i := range n {
		at := rnd.IntN(72) - 24
		var ss []step
		for no := range 1 + rnd.IntN(6) {
			class := classes[rnd.IntN(len(classes))]
			if no > 0 && !open(ss[no-1].class) && open(class) { // settled is final
				class = ledger.ReportManuallyResolved
			}
			s := step{at: at, class: class, owner: []string{"a", "b", "c"}[rnd.IntN(3)]}
			if no > 0 && ss[no-1].class == ledger.ReportEscalated && rnd.IntN(2) == 0 {
				s.class, s.owner, s.reminder = ledger.ReportEscalated, ss[no-1].owner, rnd.IntN(2) == 0
			}
			if s.reminder {
				s.flags = ss[no-1].flags
			} else if rnd.IntN(3) == 0 {
				s.flags = []ledger.Flag{[]ledger.Flag{ledger.FlagReversed, ledger.FlagDuplicate}[rnd.IntN(2)]}
			}
			s.reason = []string{"found", "found: x", "reversed", "sent", "foundling"}[rnd.IntN(4)]
			if s.class == ledger.ReportEscalated || s.class == ledger.ReportDeferred {
				s.due = at + rnd.IntN(40)
			}
			ss = append(ss, s)
			at += 1 + rnd.IntN(20)
		}
		h.steps(fmt.Sprint("walk", i), func(e *ledger.Entry) { e.Workflow = []string{"x", "y"}[rnd.IntN(2)] }, ss...)
	}
}

// On a random ledger both databases count the queue as a plain loop over its
// history does.
func TestQueueEqualsAPlainCount(t *testing.T) {
	var h shelf
	h.walk(rand.New(rand.NewPCG(5, 8)), 400)
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for _, asOf := range []int{-10, 0, 12, 24, 25, 40, 200} {
			w := ledger.ReportWindow{AsOf: hours(asOf), By: []string{"workflow", "owner"}}
			got, err := s.QueueCounts(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(h.queue(w.AsOf), got); d != "" {
				t.Errorf("as of hour %d: %s", asOf, d)
			}
		}
	})
}

func (h *shelf) queue(asOf time.Time) []ledger.QueueCount {
	counts := map[string]*ledger.QueueCount{}
	for _, e := range h.entries {
		var past []ledger.History
		for _, r := range h.history {
			if r.EntryID == e.ID && !r.At.After(asOf) {
				past = append(past, r)
			}
		}
		if len(past) == 0 {
			continue
		}
		now := past[len(past)-1]
		waits := map[ledger.State]ledger.Waits{ledger.StateEscalated: ledger.WaitsEscalated, ledger.StateDeferred: ledger.WaitsDeferred}[now.To]
		if waits == "" && len(now.Flags) > 0 {
			waits = ledger.WaitsFlagged
		}
		if waits == "" {
			continue
		}
		var since, due time.Time
		for i := len(past) - 1; i >= 0; i-- {
			r := past[i]
			if waits == ledger.WaitsFlagged && len(r.Flags) == 0 || waits != ledger.WaitsFlagged && r.To != now.To {
				break
			}
			since = r.At
			if r.Owner == now.Owner && r.To == ledger.StateEscalated && (due.IsZero() || r.DueAt.Before(due)) {
				due = r.DueAt
			}
		}
		if waits == ledger.WaitsDeferred {
			due = now.DueAt
		}
		k := e.Workflow + now.Owner + string(waits)
		if counts[k] == nil {
			counts[k] = &ledger.QueueCount{By: []string{e.Workflow, now.Owner}, Waits: waits, Oldest: since}
		}
		c := counts[k]
		c.Count++
		if len(now.Flags) > 0 {
			c.Flagged++
		}
		if since.Before(c.Oldest) {
			c.Oldest = since
		}
		switch {
		case waits == ledger.WaitsFlagged:
		case !due.After(asOf):
			c.Overdue++
		case c.DueNext.IsZero() || due.Before(c.DueNext):
			c.DueNext = due
		}
	}
	place := map[ledger.Waits]string{ledger.WaitsEscalated: "1", ledger.WaitsDeferred: "2", ledger.WaitsFlagged: "3"}
	return sorted(counts, func(c ledger.QueueCount) []string { return append(slices.Clone(c.By), place[c.Waits]) })
}

// TestReportPlans reads the plans of the reports on a ledger of which the window
// is a small part: none reads a whole table.
func TestReportPlans(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		// An entry an hour; each has an attempt, a look and two rows of history.
		fill := []string{`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
			INSERT INTO entry (id, action_key, provider_key, connector, operation, workflow, state, effect, class, outcome, settled_by, settled_at,
			                   work, next_at, last_activity_at, received_at, due_at, flags, attempts, looks_answered, history_count)
			SELECT i, 'k' || CAST(i AS text), 'k', 'crm', 'contact.create', 'w', CASE WHEN i % 500 = 0 THEN 'escalated' ELSE 'settled' END, 'unknown',
			       CASE WHEN i % 500 = 0 THEN 'escalated' ELSE 'confirmed_by_lookup' END,
			       CASE WHEN i % 500 = 0 THEN '' ELSE 'applied' END, CASE WHEN i % 500 = 0 THEN '' ELSE 'look' END,
			       CASE WHEN i % 500 = 0 THEN 0 ELSE i * 3600000000 END, '', 0, i * 3600000000, i * 3600000000,
			       CASE WHEN i % 500 = 0 THEN i * 3600000000 ELSE 0 END, CASE WHEN i % 700 = 0 THEN 'duplicate' ELSE '' END, 1, 1, 2
			  FROM n`,
			`INSERT INTO attempt (entry_id, attempt_id, attempt_no, status, effect, received_at, result_at, reason_id, message)
			 SELECT id, 'a1', 1, 'error', 'unknown', received_at, received_at, 'r' || CAST(id % 7 AS text), '` + strings.Repeat("m", 600) + `' FROM entry`,
			`INSERT INTO evidence (entry_id, asked_at, seen_at, finding, version, digest)
			 SELECT id, received_at, received_at, 'applied', '` + strings.Repeat("v", 600) + `', 'd' FROM entry`,
			`INSERT INTO history (entry_id, history_no, at, from_state, to_state, class) SELECT id, 1, received_at, '', 'ambiguous', 'waiting' FROM entry`,
			`INSERT INTO history (entry_id, history_no, at, from_state, to_state, outcome, class, flags, owner)
			 SELECT id, 2, received_at, 'ambiguous', state, outcome, class, flags, owner FROM entry`,
			"ANALYZE"}
		for _, text := range fill {
			if _, err := s.w.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		hour := func(n int64) time.Time { return time.UnixMicro(n * 3600_000_000) }
		w := ledger.ReportWindow{Since: hour(29500), Until: hour(29668), AsOf: hour(29669), By: []string{"workflow"}}
		for name, known := range map[string][]string{
			"outcome_counts": ledger.OutcomeColumns(), "reason_counts": ledger.ReasonColumns(), "queue_counts": ledger.QueueColumns(),
			"duplicates": ledger.DuplicateColumns(), "recovery_counts": ledger.RecoveryColumns(), "look_counts": ledger.LookColumns(),
		} {
			query, list, err := s.windowed(name, w, known)
			if err != nil {
				t.Fatal(err)
			}
			plan := explained(t, s, name, query, list)
			for _, line := range plan {
				if whole.MatchString(line) {
					t.Errorf("%s reads a whole table:\n%s", name, strings.Join(plan, "\n"))
					break
				}
			}
		}
	})
}

// whole is a line of a plan in which a table is read from one end to the other.
// On SQLite a scan of an index is not: those are partial.
var whole = regexp.MustCompile(`Seq Scan on (entry|attempt|evidence|history)\b|SCAN [aefhvxy]$`)

func TestRecoveryCounts(t *testing.T) {
	const waiting, first, recovered, looked = ledger.ReportWaiting, ledger.ReportFirstAttemptSuccess, ledger.ReportRecoveredAfterRetry, ledger.ReportConfirmedByLookup
	var h shelf
	h.tries(h.steps("at once", nil, step{at: 1, class: first, reason: "reported_ok"}), try{1, 1, true, "r"})
	h.tries(h.steps("found", nil, step{at: 1, class: waiting}, step{at: 3, class: looked, reason: "found"}), try{1, 1, false, ""})
	h.tries(h.steps("no answer, found elsewhere", nil, step{at: 2, class: waiting}, step{at: 4, class: waiting}, step{at: 7, class: looked, reason: "found: merged into x"}),
		try{2, -1, false, ""})
	h.tries(h.steps("sent again", nil, step{at: 2, class: waiting}, step{at: 12, class: recovered, reason: "sent"}), try{2, 2, false, ""}, try{8, 12, true, "r"})
	h.tries(h.steps("sent again, and known by a look", nil, step{at: 3, class: waiting}, step{at: 7, class: recovered, reason: "found"}), try{3, 3, false, ""}, try{5, -1, false, ""})
	h.tries(h.steps("sent again in vain", nil, step{at: 4, class: waiting}, step{at: 9, class: ledger.ReportPermanentlyFailed, reason: "x"}), try{4, 4, false, ""}, try{6, 7, false, ""})
	h.tries(h.steps("a person said so", nil, step{at: 5, class: waiting}, step{at: 6, class: ledger.ReportManuallyResolved}), try{5, 5, false, ""})
	h.tries(h.steps("blocked", nil, step{at: 5, class: waiting}, step{at: 6, class: ledger.ReportBlocked}), try{5, 5, false, ""})
	h.tries(h.steps("under way", func(e *ledger.Entry) {}, step{at: 6, class: waiting}), try{6, -1, false, ""})
	h.entries[len(h.entries)-1].State, h.history[len(h.history)-1].To = ledger.StateInFlight, ledger.StateInFlight
	h.steps("only meant", nil, step{at: 7, class: waiting})
	dup := []ledger.Flag{ledger.FlagDuplicate}
	h.tries(h.steps("found, and found twice", nil, step{at: 8, class: waiting}, step{at: 10, class: looked, reason: "found"}, step{at: 11, class: looked, flags: dup},
		step{at: 12, class: looked}), try{8, 8, false, ""})
	h.tries(h.steps("open, and found later", nil, step{at: 20, class: waiting}, step{at: 60, class: looked, reason: "found"}), try{20, 20, false, ""}, try{50, 60, true, ""})
	h.tries(h.steps("the day before", nil, step{at: -1, class: waiting}, step{at: 3, class: looked, reason: "found"}), try{-1, -1, false, ""})

	h2 := 2 * time.Hour
	tests := map[string]struct {
		w    ledger.ReportWindow
		want []ledger.RecoveryCount
	}{
		// First failed: all but "at once", "under way" and "only meant". Timed to
		// recover, in hours: 2 (twice), 4, 5, 10. To settle the same, and 1, 1, 5.
		"an hour after the end of the day": {week(25, "workflow"), []ledger.RecoveryCount{{By: []string{"lead-intake"}, Entries: 12, Tried: 10,
			FirstFailed: 9, Retried: 3, Recovered: 2, Applied: 7, Attempts: 9, Ended: 9, Failed: 1, Prevented: 3,
			RecoverTimed: 5, RecoverP50: 4 * time.Hour, RecoverP95: 10 * time.Hour, SettleTimed: 8, SettleP50: h2, SettleP95: 10 * time.Hour}}},
		"long after: one more has ended": {week(1000), []ledger.RecoveryCount{{By: []string{}, Entries: 12, Tried: 10,
			FirstFailed: 9, Retried: 4, Recovered: 3, Applied: 8, Attempts: 11, Ended: 10, Failed: 1, Prevented: 4,
			RecoverTimed: 6, RecoverP50: 4 * time.Hour, RecoverP95: 40 * time.Hour, SettleTimed: 9, SettleP50: 4 * time.Hour, SettleP95: 40 * time.Hour}}},
		"nothing in the window": {ledger.ReportWindow{Since: hours(200), Until: hours(224), AsOf: hours(225)}, []ledger.RecoveryCount{}},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := s.RecoveryCounts(t.Context(), tc.w)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

// On a random ledger both databases count recoveries as a plain loop does.
func TestRecoveryEqualsAPlainCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	var h shelf
	h.walk(rnd, 400)
	for i := range h.entries {
		at := int(h.entries[i].ReceivedAt.Sub(reportDay) / time.Hour)
		var ts []try
		for range rnd.IntN(4) {
			ts = append(ts, try{at, at + rnd.IntN(12) - 2, rnd.IntN(3) == 0, ""})
			at += rnd.IntN(30)
		}
		h.tries(int64(i+1), ts...)
		if n := len(ts); n > 0 { // nothing is active before what it did
			h.entries[i].LastActivityAt = slices.MaxFunc([]time.Time{h.entries[i].LastActivityAt, hours(ts[n-1].received)}, time.Time.Compare)
		}
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for _, asOf := range []int{24, 25, 40, 200} {
			w := week(asOf, "workflow", "owner")
			got, err := s.RecoveryCounts(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(h.recovery(w), got); d != "" {
				t.Errorf("as of hour %d: %s", asOf, d)
			}
		}
	})
}

func (h *shelf) recovery(w ledger.ReportWindow) []ledger.RecoveryCount {
	type group struct {
		ledger.RecoveryCount
		recover, settle []time.Duration
	}
	groups := map[string]*group{}
	for _, e := range h.entries {
		if e.ReceivedAt.Before(w.Since) || !e.ReceivedAt.Before(w.Until) {
			continue
		}
		var now, settled ledger.History
		twice := false
		for _, r := range h.history {
			if r.EntryID != e.ID || r.At.After(w.AsOf) {
				continue
			}
			now = r
			if r.To == ledger.StateSettled && settled.No == 0 {
				settled = r
			}
			twice = twice || slices.Contains(r.Flags, ledger.FlagDuplicate)
		}
		if now.Outcome == "" || settled.No == 1 {
			settled = ledger.History{} // open, or settled by its first report
		}
		var tries []ledger.Attempt
		for _, a := range h.attempts {
			if a.EntryID == e.ID && !a.ReceivedAt.After(w.AsOf) {
				tries = append(tries, a)
			}
		}
		k := e.Workflow + now.Owner
		if groups[k] == nil {
			groups[k] = &group{RecoveryCount: ledger.RecoveryCount{By: []string{e.Workflow, now.Owner}}}
		}
		g := groups[k]
		g.Entries++
		well := now.Outcome == ledger.OutcomeApplied && now.Class != ledger.ReportManuallyResolved
		var failedAt time.Time
		if len(tries) > 0 {
			switch a := tries[0]; {
			case !a.ResultAt.IsZero() && !a.ResultAt.After(w.AsOf):
				g.Tried++
				if a.ReasonID != "" {
					failedAt = a.ResultAt
				}
			case now.To != ledger.StateInFlight:
				g.Tried++
				failedAt = a.ReceivedAt
			}
		}
		if !failedAt.IsZero() {
			g.FirstFailed++
			if len(tries) > 1 {
				g.Retried++
				if well {
					g.Recovered++
				}
			}
			if well && settled.No > 0 {
				g.recover = append(g.recover, max(settled.At.Sub(failedAt), 0))
			}
		}
		if now.Outcome == ledger.OutcomeApplied {
			g.Applied++
			g.Attempts += len(tries)
		}
		if now.Outcome != "" {
			g.Ended++
		}
		if now.Class == ledger.ReportPermanentlyFailed || now.Class == ledger.ReportManuallyResolved && now.Outcome != ledger.OutcomeApplied {
			g.Failed++
		}
		if settled.No > 0 {
			g.settle = append(g.settle, settled.At.Sub(e.ReceivedAt))
			if code := ledger.ReasonCode(settled.Reason); well && !twice && (code == "found" || code == "reversed") {
				g.Prevented++
			}
		}
	}
	rank := func(ds []time.Duration, percent int) time.Duration {
		if len(ds) == 0 {
			return 0
		}
		slices.Sort(ds)
		return ds[(len(ds)*percent+99)/100-1]
	}
	var out []ledger.RecoveryCount
	for _, g := range groups {
		g.RecoverTimed, g.RecoverP50, g.RecoverP95 = len(g.recover), rank(g.recover, 50), rank(g.recover, 95)
		g.SettleTimed, g.SettleP50, g.SettleP95 = len(g.settle), rank(g.settle, 50), rank(g.settle, 95)
		out = append(out, g.RecoveryCount)
	}
	slices.SortFunc(out, func(a, b ledger.RecoveryCount) int { return slices.Compare(a.By, b.By) })
	return out
}

func TestLookCounts(t *testing.T) {
	const waiting, looked = ledger.ReportWaiting, ledger.ReportConfirmedByLookup
	var h shelf
	h.looks(h.steps("settled after three", nil, step{at: -5, class: waiting}, step{at: 3, class: looked}), -4, -1, 3, -2)
	h.looks(h.steps("looked at once more", nil, step{at: 1, class: waiting}, step{at: 2, class: looked}, step{at: 30, class: looked}), 2, 24, 30)
	h.looks(h.steps("still in doubt", nil, step{at: 4, class: waiting}, step{at: 50, class: looked}), 4, -5, -6, 50)
	h.looks(h.steps("settled the day before", nil, step{at: -9, class: waiting}, step{at: -8, class: looked}, step{at: 5, class: looked}), -8, 5)
	h.looks(h.steps("settled at once, looked at to make sure", nil, step{at: -3, class: looked}, step{at: 30, class: looked}), 30)
	h.steps("never looked at", nil, step{at: 6, class: waiting}, step{at: 7, class: looked})
	h.looks(h.steps("another system", func(e *ledger.Entry) { e.Connector = "billing" }, step{at: 6, class: waiting}, step{at: 7, class: waiting}), -6, -7)
	person := h.steps("a person only", nil, step{at: 8, class: waiting}, step{at: 9, class: ledger.ReportManuallyResolved})
	h.evidence = append(h.evidence, ledger.Evidence{EntryID: person, Finding: ledger.FindingApplied, Form: "person", AskedAt: hours(9), SeenAt: hours(9)})

	tests := map[string]struct {
		w    ledger.ReportWindow
		want []ledger.LookCount
	}{
		// crm in the window: 4 of the first entry (3 in vain), 1 of the second, 3 of
		// the third (2 in vain), 2 of the fourth (1 in vain). It took the first 4
		// looks, and the second 2 so far.
		"an hour after the end of the day": {week(25, "connector"), []ledger.LookCount{
			{By: []string{"billing"}, Looks: 2, CouldNotAsk: 2},
			{By: []string{"crm"}, Looks: 10, CouldNotAsk: 6, Settled: 2, LooksOfSettled: 6}}},
		"long after: the further looks at what was settled": {week(1000, "operation"), []ledger.LookCount{
			{By: []string{"contact.create"}, Looks: 12, CouldNotAsk: 8, Settled: 2, LooksOfSettled: 7}}},
		"all together, as it was": {week(25), []ledger.LookCount{{By: []string{}, Looks: 12, CouldNotAsk: 8, Settled: 2, LooksOfSettled: 6}}},
		"nothing":                 {ledger.ReportWindow{Since: hours(-90), Until: hours(-80), AsOf: hours(-79)}, []ledger.LookCount{}},
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				got, err := s.LookCounts(t.Context(), tc.w)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

// On a random ledger both databases count looks as a plain loop does.
func TestLooksEqualAPlainCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 9))
	var h shelf
	h.walk(rnd, 300)
	for i, e := range h.entries {
		at := int(e.ReceivedAt.Sub(reportDay) / time.Hour)
		for last := int(e.LastActivityAt.Sub(reportDay) / time.Hour); at <= last; at += 1 + rnd.IntN(9) {
			if at > 0 && rnd.IntN(3) == 0 {
				h.looks(int64(i+1), -at)
			} else if at > 0 {
				h.looks(int64(i+1), at)
			}
		}
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for _, asOf := range []int{24, 25, 40, 200} {
			w := week(asOf, "workflow")
			got, err := s.LookCounts(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(h.lookCounts(w), got); d != "" {
				t.Errorf("as of hour %d: %s", asOf, d)
			}
		}
	})
}

func (h *shelf) lookCounts(w ledger.ReportWindow) []ledger.LookCount {
	counts := map[string]*ledger.LookCount{}
	within := func(t time.Time) bool { return !t.Before(w.Since) && t.Before(w.Until) && !t.After(w.AsOf) }
	for _, e := range h.entries {
		looks, unasked, all := 0, 0, 0
		for _, v := range h.evidence {
			if v.EntryID != e.ID || v.SeenAt.After(w.AsOf) {
				continue
			}
			all++
			if within(v.SeenAt) {
				looks++
				if v.Finding == ledger.FindingCouldNotAsk {
					unasked++
				}
			}
		}
		first := slices.IndexFunc(h.history, func(r ledger.History) bool {
			return r.EntryID == e.ID && r.To == ledger.StateSettled && r.From != r.To && r.From != ""
		})
		settled := first >= 0 && within(h.history[first].At) && all > 0
		if looks == 0 && !settled {
			continue
		}
		c := counts[e.Workflow]
		if c == nil {
			c = &ledger.LookCount{By: []string{e.Workflow}}
			counts[e.Workflow] = c
		}
		c.Looks += looks
		c.CouldNotAsk += unasked
		if settled {
			c.Settled++
			c.LooksOfSettled += all
		}
	}
	return sorted(counts, func(c ledger.LookCount) []string { return c.By })
}

func TestDuplicates(t *testing.T) {
	const looked = ledger.ReportConfirmedByLookup
	dup, reversed := []ledger.Flag{ledger.FlagDuplicate}, []ledger.Flag{ledger.FlagReversed}
	var h shelf
	outcome := func(key string) func(e *ledger.Entry) { return func(e *ledger.Entry) { e.OutcomeKey = key } }
	one := h.steps("one key, two records", nil, step{at: -9, class: looked}, step{at: 2, class: looked, flags: append(dup, reversed...), reason: "duplicate: 2 live records: a, b"})
	h.tries(one, try{-9, -9, true, "a"})
	h.evidence = append(h.evidence, ledger.Evidence{EntryID: one, Finding: ledger.FindingDuplicate, AskedAt: hours(2), SeenAt: hours(2), Digest: "d"})
	h.steps("second of an outcome", outcome("o"), step{at: 3, class: looked}, step{at: 4, class: looked, flags: dup, reason: "duplicate: first"}, step{at: 12, class: looked})
	first := h.steps("first of an outcome", outcome("o"), step{at: -3, class: looked}, step{at: 4, class: looked, flags: dup, reason: "duplicate: second"})
	h.tries(first, try{-3, -3, true, "c"})
	h.steps("third, not applied", outcome("o"), step{at: 3, class: ledger.ReportBlocked})
	h.steps("flagged for something else", nil, step{at: 5, class: looked, flags: reversed})
	h.steps("flagged the day before", nil, step{at: -5, class: looked, flags: dup}, step{at: 5, class: looked, flags: append(dup, reversed...)})
	h.steps("flagged the day after", nil, step{at: 5, class: looked}, step{at: 24, class: looked, flags: dup})
	h.steps("elsewhere", func(e *ledger.Entry) { e.Workflow = "billing" }, step{at: 6, class: looked, flags: dup})

	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		w := week(25, "workflow")
		w.Filter.Workflow = "lead-intake"
		got, err := s.Duplicates(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, d := range got {
			at := "-"
			if !d.FlaggedAt.IsZero() {
				at = fmt.Sprint(d.FlaggedAt.Sub(reportDay).Hours())
			}
			lines = append(lines, fmt.Sprintf("%s|%s|of %s|%s|%s|%t|%d|%d", d.ActionKey, d.OutcomeKey, d.Of, at, d.Reason, d.Open, len(d.Attempts), len(d.Evidence)))
		}
		want := []string{
			"one key, two records||of |2|duplicate: 2 live records: a, b|true|1|1",
			"first of an outcome|o|of |4|duplicate: second|true|1|0",
			"second of an outcome|o|of first of an outcome|-||false|0|0",
			"second of an outcome|o|of |4|duplicate: first|false|0|0",
			"first of an outcome|o|of second of an outcome|-||false|1|0",
		}
		if d := cmp.Diff(want, lines); d != "" {
			t.Error(d)
		}
	})
}

func TestReportsRefuseUnknownColumns(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		if _, err := s.OutcomeCounts(t.Context(), week(25, "payload")); err == nil {
			t.Error("outcomes by payload is answered")
		}
		if _, err := s.ReasonCounts(t.Context(), week(25, "class")); err == nil {
			t.Error("reasons by class is answered")
		}
		if _, err := s.QueueCounts(t.Context(), week(25, "state")); err == nil {
			t.Error("queue by state is answered")
		}
		if _, err := s.Duplicates(t.Context(), week(25, "owner")); err == nil {
			t.Error("duplicates by owner is answered")
		}
		if _, err := s.RecoveryCounts(t.Context(), week(25, "reason")); err == nil {
			t.Error("recovery by reason is answered")
		}
		for _, c := range ledger.LookColumns() {
			if _, err := s.LookCounts(t.Context(), week(25, c)); err != nil {
				t.Errorf("looks by %s: %v", c, err)
			}
		}
		for _, c := range ledger.RecoveryColumns() {
			if _, err := s.RecoveryCounts(t.Context(), week(25, c)); err != nil {
				t.Errorf("recovery by %s: %v", c, err)
			}
		}
		for _, c := range ledger.QueueColumns() {
			if _, err := s.QueueCounts(t.Context(), week(25, c)); err != nil {
				t.Errorf("queue by %s: %v", c, err)
			}
		}
		for _, c := range ledger.OutcomeColumns() {
			if _, err := s.OutcomeCounts(t.Context(), week(25, c)); err != nil {
				t.Errorf("outcomes by %s: %v", c, err)
			}
		}
		for _, c := range ledger.ReasonColumns() {
			if _, err := s.ReasonCounts(t.Context(), week(25, c)); err != nil {
				t.Errorf("reasons by %s: %v", c, err)
			}
		}
	})
}

// On a random ledger both databases count what a plain loop counts, at each
// moment.
func TestReportsEqualAPlainCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	pick := func(xs ...string) string { return xs[rnd.IntN(len(xs))] }
	classes := ledger.ReportClasses()
	var h shelf
	for i := range 300 {
		received := hours(rnd.IntN(72) - 24)
		at := map[time.Time]ledger.ReportClass{received: classes[rnd.IntN(len(classes))]}
		for range rnd.IntN(4) {
			at[received.Add(time.Duration(rnd.IntN(60))*time.Hour)] = classes[rnd.IntN(len(classes))]
		}
		id := h.entry(pick("key", "flagged")+fmt.Sprint(i), received, at, func(e *ledger.Entry) {
			e.Workflow, e.WorkflowVersion, e.Connector = pick("a", "b"), pick("1", "2", "10"), pick("crm", "billing")
		})
		for range rnd.IntN(3) {
			h.failure(id, pick("r1", "r2", "r3", "r4")+h.entries[id-1].Connector, received.Add(time.Duration(rnd.IntN(30))*time.Hour), func(a *ledger.Attempt) {
				a.EffectAt = a.EffectAt.Add(time.Duration(rnd.IntN(30)) * time.Hour)
			})
		}
	}
	onBoth(t, func(t *testing.T, s *Store) {
		h.put(t, s)
		for _, asOf := range []int{24, 26, 40, 200} {
			w := week(asOf, "workflow", "connector")
			got, err := s.OutcomeCounts(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(h.outcomes(w), got); d != "" {
				t.Errorf("outcomes as of hour %d: %s", asOf, d)
			}
			reasons, err := s.ReasonCounts(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range reasons {
				count, previous, unknown := h.failures(w, c)
				if c.Count != count || c.Previous != previous || c.Unknown != unknown {
					t.Errorf("as of hour %d, %v %s: got %d, %d, %d; want %d, %d, %d", asOf, c.By, c.Reason, c.Count, c.Previous, c.Unknown, count, previous, unknown)
				}
			}
			if len(reasons) != 16 {
				t.Errorf("%d reasons, want 4 for each workflow and connector", len(reasons))
			}
		}
	})
}

func (h *shelf) outcomes(w ledger.ReportWindow) []ledger.OutcomeCount {
	counts := map[string]*ledger.OutcomeCount{}
	for _, e := range h.entries {
		if e.ReceivedAt.Before(w.Since) || !e.ReceivedAt.Before(w.Until) {
			continue
		}
		var last ledger.History
		for _, r := range h.history {
			if r.EntryID == e.ID && !r.At.After(w.AsOf) {
				last = r
			}
		}
		k := e.Workflow + e.Connector
		if counts[k] == nil {
			counts[k] = &ledger.OutcomeCount{By: []string{e.Workflow, e.Connector}, Classes: map[ledger.ReportClass]int{}}
		}
		counts[k].Classes[last.Class]++
		counts[k].Total++
		if len(last.Flags) > 0 {
			counts[k].Flagged++
		}
	}
	return sorted(counts, func(c ledger.OutcomeCount) []string { return c.By })
}

func (h *shelf) failures(w ledger.ReportWindow, c ledger.ReasonCount) (count, previous, unknown int) {
	for _, a := range h.attempts {
		e := h.entries[a.EntryID-1]
		if a.ReasonID != c.Reason || e.Workflow != c.By[0] || e.Connector != c.By[1] {
			continue
		}
		switch {
		case a.ResultAt.Before(hours(-24)), !a.ResultAt.Before(w.Until):
		case a.ResultAt.Before(w.Since):
			previous++
		default:
			count++
			if a.EffectAt.After(w.AsOf) {
				unknown++
			}
		}
	}
	return count, previous, unknown
}
