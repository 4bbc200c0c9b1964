package sqlstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
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

// stand puts an entry where its class says.
func stand(e *ledger.Entry, c ledger.ReportClass, at time.Time) {
	e.Class, e.LastActivityAt = c, at
	e.Outcome, e.SettledBy, e.SettledAt = ledger.OutcomeNone, ledger.ByNothing, time.Time{}
	switch c {
	case ledger.ReportWaiting:
		e.State = ledger.StateAmbiguous
	case ledger.ReportDeferred:
		e.State = ledger.StateDeferred
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

func TestReportsRefuseUnknownColumns(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		if _, err := s.OutcomeCounts(t.Context(), week(25, "payload")); err == nil {
			t.Error("outcomes by payload is answered")
		}
		if _, err := s.ReasonCounts(t.Context(), week(25, "class")); err == nil {
			t.Error("reasons by class is answered")
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
