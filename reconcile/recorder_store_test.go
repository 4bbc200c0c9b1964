package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// Moving from one ledger to another: what is exported is restored, byte for
// byte, and restoring it again changes nothing.
func TestExportMovesALedger(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		ctx := context.Background()
		r := &reconcile.Recorder{Policies: reconcile.Policies{List: []reconcile.Policy{sending()}, Version: "p1"}, Actor: "import"}
		clock := newClock()
		from := openLedger(t, "sqlite:"+t.TempDir()+"/from.db", clock)
		var recs []ledger.Record
		for i, attempts := range []string{
			``, // an intent
			`{"attempt_id":"a","status":"started","send_by":"2026-09-22T10:01:00Z"}`,
			`{"status":"error","http_status":504,"message":"a\u0000b \ud83d"},{"status":"error","http_status":429,"retry_after":120}`,
			`{"status":"error","http_status":429}`,
			`{"status":"error","http_status":422}`,
			`{"status":"ok","remote_id":"1"},{"status":"ok","remote_id":"2"}`,
		} {
			line := fmt.Sprintf(`{"action_key":"r%d:s","workflow":"w","connector":"billing","operation":"invoice.create","payload":{"n":734512345678901235,"x":19.90,"s":"\ud83d\u0000"},"attempts":[%s]}`, i, attempts)
			rec, errs := ledger.ParseRecord([]byte(line), ledger.ParseOptions{Now: start})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			recs = append(recs, rec)
		}
		// The same lines in one call with others of their keys, and again.
		for i, want := range []ledger.Verdict{ledger.RecordedNew, ledger.RecordedUnchanged} {
			got, err := from.Record(ctx, recs, r.Decide)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range got {
				if g.Verdict != want {
					t.Errorf("time %d: %s is %s %v", i+1, g.ActionKey, g.Verdict, g.Errors)
				}
			}
		}
		export := func(s ledger.Store) (lines [][]byte) {
			t.Helper()
			for _, rec := range recs {
				st, err := s.Entry(ctx, rec.ActionKey)
				if err != nil {
					t.Fatal(err)
				}
				ev, err := s.Evidence(ctx, st.Entry.ID)
				if err != nil {
					t.Fatal(err)
				}
				hs, err := s.History(ctx, st.Entry.ID)
				if err != nil {
					t.Fatal(err)
				}
				line, err := ledger.MarshalRecord(st, ev, hs)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, line)
			}
			return lines
		}
		to := open(clock)
		lines := export(from)
		for i, want := range []ledger.Verdict{ledger.RecordedNew, ledger.RecordedUnchanged} {
			var again []ledger.Record
			for _, line := range lines {
				rec, errs := ledger.ParseRecord(line, ledger.ParseOptions{Now: start, Restore: true})
				if len(errs) > 0 || len(rec.Unknown) > 0 {
					t.Fatal(errs, rec.Unknown)
				}
				again = append(again, rec)
			}
			got, err := to.Record(ctx, again, r.Decide)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range got {
				if g.Verdict != want {
					t.Errorf("restored, time %d: %s is %s %v", i+1, g.ActionKey, g.Verdict, g.Errors)
				}
			}
		}
		for _, rec := range recs {
			a, _ := from.Entry(ctx, rec.ActionKey)
			b, err := to.Entry(ctx, rec.ActionKey)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b, cmpopts.IgnoreFields(ledger.Entry{}, "ID", "LastActivityAt", "Generation", "FencingToken"), cmpopts.IgnoreFields(ledger.Attempt{}, "EntryID")); diff != "" {
				t.Errorf("%s\n%s", rec.ActionKey, diff)
			}
			if !bytes.Equal(b.Entry.Payload, rec.Payload) || b.Entry.PayloadDigest != rec.PayloadDigest {
				t.Errorf("%s: payload %q", rec.ActionKey, b.Entry.Payload)
			}
		}
	})
}

// What is recorded again, after any reports of the same attempts, is nothing new,
// as the ledger kept it.
func TestRecordedAgainIsUnchanged(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		s := open(newClock())
		r := &reconcile.Recorder{Policies: reconcile.Policies{List: []reconcile.Policy{sending()}, Version: "p1"}, Actor: "import"}
		attempt := rapid.Custom(func(rt *rapid.T) ledger.RecordAttempt {
			return ledger.RecordAttempt{Sends: 1,
				AttemptID:  rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id"),
				StartedAt:  start.Add(time.Duration(rapid.IntRange(-9, 9).Draw(rt, "start")) * time.Minute),
				Status:     rapid.SampledFrom([]ledger.AttemptStatus{"ok", "error", "error", "unknown", "started"}).Draw(rt, "status"),
				HTTPStatus: rapid.SampledFrom([]int{0, 400, 429, 504}).Draw(rt, "http"),
				RemoteID:   rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(rt, "remote"),
				Effect:     rapid.SampledFrom([]ledger.Effect{"", "", "", "not_done", "unknown"}).Draw(rt, "effect"),
			}
		})
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			for range rapid.IntRange(1, 3).Draw(rt, "records") {
				rec := ledger.Record{ActionKey: fmt.Sprintf("again%d:s", n), Workflow: "w", Connector: "billing", Operation: "invoice.create", OccurredAt: start,
					Attempts: rapid.SliceOfN(attempt, 1, 3).Draw(rt, "attempts")}
				for i := range 2 {
					got, err := s.Record(t.Context(), []ledger.Record{rec}, r.Decide)
					if err != nil {
						rt.Fatal(err)
					}
					if i == 1 && got[0].Verdict != ledger.RecordedUnchanged {
						rt.Fatalf("recorded again: %s %v", got[0].Verdict, got[0].Errors)
					}
				}
			}
		})
	})
}
