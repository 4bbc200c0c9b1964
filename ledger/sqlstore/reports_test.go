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
	history  []ledger.History
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
	reminder bool
}

// steps adds an entry that went through the steps given, received with the
// first.
func (h *shelf) steps(key string, change func(e *ledger.Entry), steps ...step) int64 {
	id := h.entry(key, hours(steps[0].at), nil, change)
	e := &h.entries[id-1]
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
			Class: e.Class, Flags: e.Flags, DueAt: e.StepDue(), Owner: e.Owner})
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
		for _, r := range h.history {
			if err := insert(tx, historyLayout, historyLayout.values(&r)); err != nil {
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
	tests := map[string]struct {
		w    ledger.ReportWindow
		want []count
	}{
		"an hour after the end of the day": {ledger.ReportWindow{AsOf: hours(25), By: []string{"owner"}, Filter: crm}, []count{
			{[]string{"a"}, ledger.WaitsEscalated, 1, 0, 1, hours(1), time.Time{}},
			{[]string{"a"}, ledger.WaitsDeferred, 2, 0, 1, hours(7), hours(70)},
			{[]string{"ada"}, ledger.WaitsEscalated, 1, 0, 1, hours(3), time.Time{}},
			{[]string{"b"}, ledger.WaitsEscalated, 2, 1, 0, hours(2), hours(30)},
			{[]string{"b"}, ledger.WaitsFlagged, 1, 1, 0, hours(11), time.Time{}}}},
		"in the morning, before most of it": {ledger.ReportWindow{AsOf: hours(4), By: []string{"owner"}, Filter: crm}, []count{
			{[]string{"a"}, ledger.WaitsEscalated, 3, 0, 1, hours(1), hours(8)},
			{[]string{"b"}, ledger.WaitsEscalated, 2, 0, 0, hours(2), hours(5)}}},
		"long after, all together": {ledger.ReportWindow{AsOf: hours(100)}, []count{
			{[]string{}, ledger.WaitsEscalated, 5, 1, 5, hours(1), time.Time{}},
			{[]string{}, ledger.WaitsDeferred, 2, 0, 2, hours(7), time.Time{}},
			{[]string{}, ledger.WaitsFlagged, 2, 2, 0, hours(11), time.Time{}}}},
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

// walk adds n entries that went through random steps.
func (h *shelf) walk(rnd *rand.Rand, n int) {
	classes := ledger.ReportClasses()
	for i := range n {
		at := rnd.IntN(72) - 24
		var ss []step
		for no := range 1 + rnd.IntN(6) {
			s := step{at: at, class: classes[rnd.IntN(len(classes))], owner: []string{"a", "b", "c"}[rnd.IntN(3)]}
			if no > 0 && ss[no-1].class == ledger.ReportEscalated && rnd.IntN(2) == 0 {
				s.class, s.owner, s.reminder = ledger.ReportEscalated, ss[no-1].owner, rnd.IntN(2) == 0
			}
			if s.reminder {
				s.flags = ss[no-1].flags
			} else if rnd.IntN(3) == 0 {
				s.flags = []ledger.Flag{ledger.FlagReversed}
			}
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
			`INSERT INTO evidence (entry_id, asked_at, seen_at, finding, digest) SELECT id, received_at, received_at, 'applied', 'd' FROM entry`,
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
