package reports_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
	"github.com/recovery-ledger/reconcile/reports"
)

// bench is a ledger whose clock the test moves.
type bench struct {
	*sqlstore.Store
	now time.Time
}

// onBoth runs a test on a new ledger of each kind.
func onBoth(t *testing.T, f func(t *testing.T, b *bench)) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "reconcile.db") },
		"postgres": func(t *testing.T) string { return pgtest.DB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{now: day(16)}
			s, err := sqlstore.Open(t.Context(), url(t), sqlstore.Options{AutoMigrate: true, Clock: func() time.Time { return b.now }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			b.Store = s
			f(t, b)
		})
	}
}

// failed records a new entry whose first attempt failed with a message.
func (b *bench) failed(t *testing.T, key, version, message string) {
	t.Helper()
	b.record(t, ledger.Record{ActionKey: key, Workflow: "lead-intake", WorkflowVersion: version, Connector: "crm", Operation: "contact.create"},
		func(rec ledger.Record) ledger.Recording {
			e := ledger.Entry{ActionKey: rec.ActionKey, Workflow: rec.Workflow, WorkflowVersion: rec.WorkflowVersion, Connector: rec.Connector,
				Operation: rec.Operation, ProviderKey: rec.ActionKey, Owner: "revops", Effect: ledger.EffectUnknown}
			a := ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptError, Class: ledger.ClassTimeout, Code: "504", Message: message,
				Effect: ledger.EffectUnknown, RulesVersion: ledger.RulesVersion}
			a.ReasonID, a.ReasonText = ledger.FailureReason(e.Connector, e.Operation, a.Class, a.Code, message)
			return ledger.Recording{Verdict: ledger.RecordedNew, Entry: ledger.Doubt(e, "timeout", b.now.Add(time.Minute)), Attempts: []ledger.Attempt{a}}
		})
}

func (b *bench) record(t *testing.T, rec ledger.Record, decide func(rec ledger.Record) ledger.Recording) {
	t.Helper()
	out, err := b.Record(t.Context(), []ledger.Record{rec}, func(_ *ledger.Stored, rec ledger.Record, _ time.Time) ledger.Recording { return decide(rec) })
	if err != nil || len(out[0].Errors) > 0 {
		t.Fatal(err, out)
	}
}

// change changes an entry under its row lock.
func (b *bench) change(t *testing.T, key string, next func(e ledger.Entry) ledger.Entry, attempts ...ledger.Attempt) {
	t.Helper()
	_, err := b.Change(t.Context(), key, func(cur ledger.Stored, _ time.Time) (ledger.Recording, error) {
		return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: next(cur.Entry), Attempts: attempts}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reason is the id of the reason of an entry's first attempt.
func (b *bench) reason(t *testing.T, key string) string {
	t.Helper()
	st, err := b.Entry(t.Context(), key)
	if err != nil || len(st.Attempts) == 0 || st.Attempts[0].ReasonID == "" {
		t.Fatal(err, st)
	}
	return st.Attempts[0].ReasonID
}

// page is the reports of a window, as JSON.
func (b *bench) page(t *testing.T, p reports.Params) string {
	t.Helper()
	p.Now = b.now
	var out bytes.Buffer
	for _, r := range made(t, b, p) {
		if err := r.Write(&out, reports.Layout{Format: reports.FormatJSON}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// A past week gives the same bytes whenever it is run again, whatever became
// of its entries and was recorded since (S58).
func TestAPastWeekStaysAsItWas(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		for i := range 6 {
			b.now = day(17).Add(time.Duration(i) * time.Hour)
			b.failed(t, fmt.Sprint("k", i), fmt.Sprint(6+i%2), fmt.Sprintf("timeout after %d ms", 10000+i))
		}
		b.now = day(22)
		b.change(t, "k0", func(e ledger.Entry) ledger.Entry {
			e.Effect = ledger.EffectDone
			return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByLook, "found", b.now)
		})
		b.change(t, "k1", func(e ledger.Entry) ledger.Entry {
			return ledger.Escalate(e, ledger.Escalation{Owner: "boss", Due: day(25)}, "outcome_unknown").WithFlag(ledger.FlagDuplicate)
		})
		window := reports.Params{Since: day(16), Until: day(23)}
		b.now = day(23).Add(15 * time.Minute)
		before := b.page(t, window)
		if !strings.Contains(before, `"class": "timeout"`) {
			t.Errorf("no class:\n%s", before)
		}
		for _, want := range []string{`"duplicates_prevented": 1`, `"happened": 1`, `"overdue": 0`} {
			if !strings.Contains(before, want) {
				t.Errorf("no %s:\n%s", want, before)
			}
		}
		if !strings.Contains(before, `"due_next": "2026-11-25T00:00:00Z"`) {
			t.Errorf("the due time of what was escalated is not there:\n%s", before)
		}

		b.now = day(24)
		settle := func(e ledger.Entry) ledger.Entry {
			e.Effect, e.Flags = ledger.EffectDone, nil
			return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByPerson, "resolved", b.now)
		}
		b.change(t, "k1", settle)
		// What a look had settled is corrected by a person: its time, its ground and
		// its outcome are others from now on.
		b.change(t, "k0", func(e ledger.Entry) ledger.Entry {
			return ledger.Settle(e, ledger.OutcomeNotApplied, ledger.ByPerson, "resolved", b.now)
		})
		// What was a failure turns out well, of another class, or without effect.
		b.change(t, "k2", settle, ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptOK, Effect: ledger.EffectDone, RemoteID: "r"})
		b.change(t, "k3", func(e ledger.Entry) ledger.Entry {
			e.Effect = ledger.EffectNotDone
			return ledger.Reopen(e, "absent", b.now)
		}, ledger.Attempt{AttemptID: "a2", Status: ledger.AttemptError, Class: ledger.ClassTimeout, Effect: ledger.EffectNotDone, ReasonID: "other", ReasonText: "other"})
		b.change(t, "k4", func(e ledger.Entry) ledger.Entry { return e }, ledger.Attempt{AttemptID: "a1", Status: ledger.AttemptError,
			Class: ledger.ClassRejected, Code: "declined", Effect: ledger.EffectNotDone, ReasonID: b.reason(t, "k4")})
		b.failed(t, "late", "7", "timeout after 9 ms")
		b.now = day(30)
		if d := cmp.Diff(before, b.page(t, window)); d != "" {
			t.Errorf("the week has changed:\n%s", d)
		}
		if b.page(t, reports.Params{Since: day(23), Until: day(30)}) == before {
			t.Error("the next week is the same")
		}
	})
}

// One root cause under several wrappers and with numbers in it is one reason,
// counted per workflow version (F01, F04).
// What stands for a span that a restore has lost is no attempt: nobody knows
// that anything was sent.
func TestRecoveryCountsNoAttemptsThatNobodyKnowsOf(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.now = day(17)
		b.failed(t, "again", "7", "timeout")
		b.failed(t, "once", "7", "timeout")
		b.record(t, ledger.Record{ActionKey: "meant", Workflow: "lead-intake", WorkflowVersion: "7", Connector: "crm", Operation: "contact.create"},
			func(rec ledger.Record) ledger.Recording {
				e := ledger.Entry{ActionKey: rec.ActionKey, Workflow: rec.Workflow, WorkflowVersion: rec.WorkflowVersion, Connector: rec.Connector,
					Operation: rec.Operation, ProviderKey: rec.ActionKey, Owner: "revops", Effect: ledger.EffectNotDone}
				return ledger.Recording{Verdict: ledger.RecordedNew, Entry: ledger.Reopen(e, "intent", b.now)}
			})
		b.now = b.now.Add(time.Hour)
		if n, err := b.Unsettle(t.Context(), "restored", true, time.Minute); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		b.now = b.now.Add(time.Hour)
		found := func(e ledger.Entry) ledger.Entry {
			return ledger.Settle(e, ledger.OutcomeApplied, ledger.ByLook, "found", b.now)
		}
		b.change(t, "once", found)
		b.change(t, "meant", found)
		b.change(t, "again", found, ledger.Attempt{AttemptID: "a2", Ours: true, Status: ledger.AttemptOK, Effect: ledger.EffectDone})
		p := reports.Params{Since: day(16), Until: day(18), Now: day(18)}
		for _, when := range []string{"as they stand", "as they stood"} {
			if when == "as they stood" {
				b.now, p.Now = day(20), day(20)
				for _, key := range []string{"again", "once", "meant"} {
					b.change(t, key, func(e ledger.Entry) ledger.Entry { e.Owner = "ada"; return e })
				}
			}
			r, err := reports.Recovery(t.Context(), b, p)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for i, c := range r.Columns {
				got[c.Name] = r.Rows[0][i]
			}
			for name, want := range map[string]int{"entries": 3, "tried": 2, "initial_failed": 2, "retried": 1, "recovered": 1, "applied": 3, "attempts": 3} {
				if got[name] != want {
					t.Errorf("%s: %s is %v, want %d", when, name, got[name], want)
				}
			}
		}
	})
}

func TestReasonsByVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.now = day(17)
		b.failed(t, "k1", "v3", "timeout after 10003ms at 2026-09-22T10:00:03Z")
		b.failed(t, "k2", "v4", "timeout after 10021ms at 2026-09-22T10:04:11Z")
		b.now = day(18)
		r, err := reports.Reasons(t.Context(), b, reports.Params{Now: b.now})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 1 || r.Rows[0][7] != 2 || cmp.Diff(r.Rows[0][9], []string{"v3", "v4"}) != "" || r.Rows[0][6] != reports.KindAmbiguous ||
			r.Rows[0][3] != ledger.ClassTimeout || r.Rows[0][4] != "504" {
			t.Errorf("rows %v", r.Rows)
		}
		r, err = reports.Reasons(t.Context(), b, reports.Params{Now: b.now, By: []string{"workflow_version"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 2 || r.Rows[0][0] != "v3" || r.Rows[0][8] != 1 || r.Rows[1][0] != "v4" || r.Rows[1][8] != 1 {
			t.Errorf("rows by version %v", r.Rows)
		}
	})
}
