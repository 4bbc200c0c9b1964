package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// intentLine is what a workflow records before it acts; more are members of the
// record, with their commas.
func intentLine(key, more string) string {
	return fmt.Sprintf(`{"action_key":%q,"workflow":"w","connector":"billing","operation":"invoice.create","owner":"revops",%s"payload":{"amount":10}}`, key, more)
}

// TestIntents has workflows ask before they act (docs/rules.md, section 6,
// "An intent that is answered").
func TestIntents(t *testing.T) {
	tests := map[string]func(t *testing.T, w *world){
		"A02: of two that announce one action the first may send; the second waits, and is told the end": func(t *testing.T, w *world) {
			w.ask("wa:1:t", "yes", "begun", "")
			e := w.want("wa:1:t", ledger.StateInFlight, "intent")
			if e.Effect != ledger.EffectUnknown || e.AttemptCount != 1 {
				t.Errorf("effect %s after %d attempts, want unknown after 1", e.Effect, e.AttemptCount)
			}
			w.clock.advance(3 * time.Second)
			w.ask("wa:1:t", "wait", "effect_unknown: an attempt began at", "")
			if again := w.entry("wa:1:t"); again.FencingToken != e.FencingToken || again.State != e.State {
				t.Errorf("asked again, it is %s with token %d; was %s with %d", again.State, again.FencingToken, e.State, e.FencingToken)
			}
			w.report(strings.Replace(intentLine("wa:1:t", ""), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"ok","remote_id":"m-1"}],"payload"`, 1))
			w.ask("wa:1:t", "no", "settled: it was done, as m-1", "")
			w.runFor(time.Hour)
			w.wantEffects("wa:1:t", 0, 0) // nothing by us
			w.wantRows("wa:1:t", " in_flight", "in_flight settled")
		},
		"an outcome key is held: the other waits, is retryable, and begins once the first surely did nothing": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"outcome_key":"lead:1",`)
			w.ask("b:1", "wait", "outcome_key_held: by a:1", `"outcome_key":"lead:1",`)
			w.want("b:1", ledger.StateRetryable, "outcome_key_held")
			w.pass()
			w.report(strings.Replace(intentLine("a:1", `"outcome_key":"lead:1",`), `"payload"`,
				`"attempts":[{"attempt_id":"a1","status":"error","error_class":"validation","effect":"not_done","token":"1"}],"payload"`, 1))
			w.ask("b:1", "yes", "begun", `"outcome_key":"lead:1",`)
			w.want("b:1", ledger.StateInFlight, "intent")
			w.wantRows("b:1", " retryable", "retryable ready", "ready in_flight")
			w.ask("a:1", "no", "escalated: revops decides", `"outcome_key":"lead:1",`)
		},
		"an outcome that was reached is not reached again": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"outcome_key":"lead:1",`)
			w.ask("b:1", "wait", "", `"outcome_key":"lead:1",`)
			w.report(strings.Replace(intentLine("a:1", `"outcome_key":"lead:1",`), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"ok","remote_id":"c-1"}],"payload"`, 1))
			w.ask("b:1", "no", "superseded: a:1 was applied for the same outcome", `"outcome_key":"lead:1",`)
			w.ask("c:1", "no", "superseded: a:1 was applied for the same outcome", `"outcome_key":"lead:1",`)
			if e := w.want("c:1", ledger.StateSettled, "superseded"); e.Outcome != ledger.OutcomeNotApplied || e.Class != ledger.ReportBlocked {
				t.Errorf("%s %s", e.Outcome, e.Class)
			}
		},
		"of two in one request with one outcome the first may send": func(t *testing.T, w *world) {
			w.rec.Answers = true
			out := w.report(intentLine("a:1", `"outcome_key":"o",`), intentLine("b:1", `"outcome_key":"o",`), intentLine("a:1", `"outcome_key":"o",`), intentLine("c:1", `"record_id":"r-1",`), intentLine("d:1", `"record_id":"r-1",`))
			got := fmt.Sprint(out[0].Send, out[1].Send, out[2].Send, out[3].Send, out[4].Send, out[0].Verdict, out[1].Verdict, out[2].Verdict)
			if want := "yeswaitwaityeswaitnewnewmerged"; got != want {
				t.Errorf("answered %s, want %s", got, want)
			}
			if !strings.HasPrefix(out[1].Why, "outcome_key_held: by a:1") || !strings.HasPrefix(out[2].Why, "effect_unknown") ||
				!strings.HasPrefix(out[4].Why, "look_alike: waits behind c:1") {
				t.Errorf("why: %q, %q, %q", out[1].Why, out[2].Why, out[4].Why)
			}
		},
		"an equal action of the same record waits behind the open one": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"record_id":"r-1",`)
			w.ask("b:1", "wait", "look_alike: waits behind a:1", `"record_id":"r-1",`)
			w.ask("c:1", "yes", "", `"record_id":"r-2",`)
		},
		"two that give neither record nor payload are not equal": func(t *testing.T, w *world) {
			w.rec.Answers = true
			bare := func(key string) string {
				return strings.Replace(intentLine(key, ""), `,"payload":{"amount":10}`, "", 1)
			}
			for _, o := range w.report(bare("a:1"), bare("b:1")) {
				if o.Send != ledger.SendYes {
					t.Errorf("%s was answered %s %q", o.ActionKey, o.Send, o.Why)
				}
			}
		},
		"sends are on hold: it waits, and begins after resume": func(t *testing.T, w *world) {
			ctx := context.Background()
			if err := w.store.Hold(ctx, "", true, "person:ada"); err != nil {
				t.Fatal(err)
			}
			w.ask("a:1", "wait", "held: by person:ada", "")
			if err := w.store.Hold(ctx, "", false, "person:ada"); err != nil {
				t.Fatal(err)
			}
			if err := w.store.Hold(ctx, "billing", true, "person:bob"); err != nil {
				t.Fatal(err)
			}
			w.ask("a:1", "wait", "held: by person:bob", "")
			w.wantRows("a:1", " retryable") // asking again changes nothing
			w.pass()                        // nothing is sent
			w.want("a:1", ledger.StateRetryable, "")
			if err := w.store.Hold(ctx, "billing", false, ""); err != nil {
				t.Fatal(err)
			}
			w.ask("a:1", "yes", "begun", "")
			w.wantEffects("a:1", 0, 0)
		},
		"a promise that is over begins nothing": func(t *testing.T, w *world) {
			w.ask("a:1", "wait", "promise_over", `"send_by":"`+w.clock.Now().Add(-time.Second).Format(time.RFC3339)+`",`)
			w.ask("a:1", "yes", "begun", `"send_by":"`+w.clock.Now().Add(time.Minute).Format(time.RFC3339)+`",`)
		},
		"what waited begins when it is told to, not when it was first meant": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"outcome_key":"o","driver":"platform",`)
			w.ask("b:1", "wait", "outcome_key_held", `"outcome_key":"o","driver":"platform",`)
			if e := w.entry("b:1"); e.Driver != "" {
				t.Errorf("driven by %q while it waits", e.Driver)
			}
			w.report(strings.Replace(intentLine("a:1", `"outcome_key":"o",`), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"error","error_class":"validation","effect":"not_done","final":true,"token":"1"}],"payload"`, 1))
			w.clock.advance(time.Hour)
			now := w.clock.Now()
			w.ask("b:1", "yes", "begun", `"outcome_key":"o","driver":"platform",`)
			st, err := w.store.Entry(context.Background(), "b:1")
			if err != nil {
				t.Fatal(err)
			}
			if a := st.Attempts[0]; a.StartedAt.Before(now) || st.Entry.Driver != reconcile.DriverPlatform {
				t.Errorf("begun at %v by %q, want %v by the platform", a.StartedAt, st.Entry.Driver, now)
			}
		},
		"what has only waited is done by a pass, once, and then nobody else may": func(t *testing.T, w *world) {
			promise := `"outcome_key":"o","send_by":"` + w.clock.Now().Add(time.Minute).Format(time.RFC3339) + `",`
			w.ask("a:1", "yes", "", promise)
			w.ask("b:1", "wait", "outcome_key_held", promise)
			w.report(strings.Replace(intentLine("a:1", `"outcome_key":"o",`), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"error","error_class":"validation","effect":"not_done","token":"1"}],"payload"`, 1))
			w.runFor(10 * time.Minute)
			w.wantEffects("b:1", 1, 1)
			w.ask("b:1", "no", "settled: it was done, as", `"outcome_key":"o",`)
			w.ask("c:1", "no", "superseded: b:1", `"outcome_key":"o",`)
		},
		"an answer that was lost: the workflow sent nothing, and a pass does it once, after the promise": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"send_by":"`+w.clock.Now().Add(time.Minute).Format(time.RFC3339)+`",`)
			w.ask("a:1", "wait", "effect_unknown", "")
			w.runFor(20 * time.Minute)
			w.wantEffects("a:1", 1, 1)
			w.want("a:1", ledger.StateSettled, "")
			w.wantExplained("a:1")
		},
		"an answer that was lost, without a promise: it may be sent for ever, so no silence proves anything": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", "")
			w.runFor(20 * time.Minute)
			w.wantEffects("a:1", 0, 0)
			w.want("a:1", ledger.StateAmbiguous, "")
		},
		"a pass that has just cleared it finds its claim lost": func(t *testing.T, w *world) {
			w.ask("a:1", "yes", "", `"outcome_key":"o",`)
			w.ask("b:1", "wait", "outcome_key_held", `"outcome_key":"o",`)
			w.report(strings.Replace(intentLine("a:1", `"outcome_key":"o",`), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"error","error_class":"validation","effect":"not_done","token":"1"}],"payload"`, 1))
			w.clock.advance(time.Hour)
			asked := false
			w.sys.onCheck = func() {
				w.sys.mu.Unlock()
				defer w.sys.mu.Lock()
				if !asked {
					asked = true
					w.ask("b:1", "yes", "begun", `"outcome_key":"o",`)
				}
			}
			checked(w.sys, &w.rec.Policies.List[0])
			w.engine = w.newEngine("one", w.store)
			w.pass()
			if !asked {
				t.Fatal("nothing was checked, so that nothing was asked")
			}
			w.wantEffects("b:1", 0, 0)
			w.want("b:1", ledger.StateInFlight, "intent")
		},
		"a report answers what it means for whoever would send": func(t *testing.T, w *world) {
			w.rec.Answers = true
			for _, c := range []struct{ attempt, send, why string }{
				{timeout, "wait", "effect_unknown: nobody knows yet whether it happened in run"},
				{`"status":"started"`, "wait", "effect_unknown: an attempt began at"},
				{`"status":"error","http_status":429`, "wait", "backoff"},
				{`"status":"error","http_status":422`, "no", "escalated: revops decides"},
				{`"status":"ok","remote_id":"r-9"`, "no", "settled: it was done, as r-9"},
			} {
				out := w.report(w.line(c.attempt+":1", c.attempt))[0]
				if string(out.Send) != c.send || !strings.HasPrefix(out.Why, c.why) {
					t.Errorf("%s: answered %s %q, want %s %q", c.attempt, out.Send, out.Why, c.send, c.why)
				}
			}
		},
		"one that would travel under the key of another is refused, and may not be sent": func(t *testing.T, w *world) {
			w.rec.Answers = true
			tried := strings.Replace(intentLine("c:1", `"provider_key":"p",`), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"error","http_status":429}],"payload"`, 1)
			for i, o := range w.report(intentLine("a:1", `"provider_key":"p",`), intentLine("b:1", `"provider_key":"p",`), tried) {
				switch {
				case i == 0 && o.Send != ledger.SendYes:
					t.Errorf("the first was answered %q %q", o.Send, o.Why)
				case i > 0 && (o.Verdict != ledger.RecordedRefused || o.Send != ledger.SendNo || o.Why != "refused: see errors"):
					t.Errorf("%s was %s, and answered %q %q", o.ActionKey, o.Verdict, o.Send, o.Why)
				}
			}
		},
		"the token of the answer says which attempt the intent announced": func(t *testing.T, w *world) {
			// a:1 was tried without asking, and asked about later: of which try is a report?
			report := func(key, attempt string) ledger.Recorded {
				return w.report(strings.Replace(intentLine(key, ""), `"payload"`, `"attempts":[{"attempt_id":"a1","status":"error","error_class":"validation",`+attempt+`}],"payload"`, 1))[0]
			}
			before := `"started_at":"` + w.clock.Now().Add(-time.Second).Format(time.RFC3339Nano) + `"`
			after := `"started_at":"` + w.clock.Now().Add(time.Minute).Format(time.RFC3339Nano) + `"` // after the answer, which comes now
			for i, c := range []struct {
				attempt string
				state   ledger.State
				warning string
			}{
				{before, ledger.StateInFlight, "it began before the intent"},
				{strings.Replace(before, "started_at", "finished_at", 1), ledger.StateInFlight, "it began before the intent"},
				{before + `,"token":"7"`, ledger.StateInFlight, `"7" is not the one`},
				{after + `,"token":"7"`, ledger.StateInFlight, `"7" is not the one`},
				{`"effect":"not_done"`, ledger.StateEscalated, ""}, // undated: at the moment of receipt
				{`"started_at":"the second of the answer"`, ledger.StateEscalated, ""},
				{before + `,"token":1`, ledger.StateEscalated, ""},
				{after, ledger.StateEscalated, ""},
			} {
				key := fmt.Sprintf("a%d:1", i)
				w.ask(key, "yes", "begun", fmt.Sprintf(`"record_id":"r%d",`, i))
				st, err := w.store.Entry(context.Background(), key)
				if err != nil {
					t.Fatal(err)
				}
				o := report(key, strings.Replace(c.attempt, "the second of the answer", st.Attempts[0].StartedAt.UTC().Format(time.RFC3339), 1))
				if o.Entry.State != c.state || !strings.Contains(strings.Join(o.Warnings, "; "), c.warning) || (c.warning == "") != (len(o.Warnings) == 0) {
					t.Errorf("%s: %s, warned %q", c.attempt, o.Entry.State, o.Warnings)
				}
				if c.state != ledger.StateInFlight {
					continue
				}
				if e := w.entry(key); e.Effect != ledger.EffectUnknown {
					t.Errorf("%s: effect %s", c.attempt, e.Effect)
				}
				// The report that has the token comes in the end.
				if o := w.report(strings.Replace(intentLine(key, ""), `"payload"`, `"attempts":[{"attempt_id":"a2","status":"error","error_class":"validation","token":"1"}],"payload"`, 1))[0]; o.Entry.Effect != ledger.EffectNotDone {
					t.Errorf("%s, then the one of the intent: %s, %s", c.attempt, o.Entry.State, o.Entry.Effect)
				}
			}
		},
		"an imported intent is answered by nobody, and counts as begun": func(t *testing.T, w *world) {
			out := w.report(intentLine("a:1", ""))[0]
			if out.Send != "" || out.Entry.State != ledger.StateInFlight {
				t.Errorf("answered %q, %s", out.Send, out.Entry.State)
			}
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
				w := newWorld(t, open, withOp(func(o *connectors.Operation) { o.SendNeedsID = true }))
				f(t, w)
			})
		})
	}
}

// TestIntentsAtOnce: of many processes that announce the same outcome, or an
// equal action, at the same time one may send.
func TestIntentsAtOnce(t *testing.T) {
	t.Parallel()
	for what, member := range map[string]string{"one outcome key": `"outcome_key":"o%d",`, "equal actions": `"record_id":"r%d",`} {
		t.Run(what, func(t *testing.T) { intentsAtOnce(t, member) })
	}
}

func intentsAtOnce(t *testing.T, member string) {
	eachLedger(t, func(t *testing.T, open func(*fakeClock) ledger.Store) {
		w := newWorld(t, open)
		const outcomes, each = 5, 8
		var mu sync.Mutex
		yes := map[int]int{}
		var wg sync.WaitGroup
		for k := range each {
			wg.Go(func() {
				store := w.open()
				rec := reconcile.Recorder{Connectors: w.rec.Connectors, Policies: w.rec.Policies, Answers: true}
				for o := range outcomes {
					line := intentLine(fmt.Sprintf("run%d:%d", k, o), fmt.Sprintf(member, o))
					r, errs := ledger.ParseRecord([]byte(line), ledger.ParseOptions{Now: w.clock.Now()})
					if len(errs) > 0 {
						t.Error(errs)
						return
					}
					out, err := rec.Record(context.Background(), store, []ledger.Record{r})
					if err != nil {
						t.Error(err)
						return
					}
					if out[0].Send == ledger.SendYes {
						mu.Lock()
						yes[o]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for o := range outcomes {
			if yes[o] != 1 {
				t.Errorf("outcome %d: %d may send, want 1", o, yes[o])
			}
		}
	})
}

// ask records an intent and tests the answer.
func (w *world) ask(key, send, why, more string) {
	w.t.Helper()
	asking := *w.rec
	asking.Answers = true
	r, errs := ledger.ParseRecord([]byte(intentLine(key, more)), ledger.ParseOptions{Now: w.clock.Now()})
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	out, err := asking.Record(context.Background(), w.store, []ledger.Record{r})
	if err != nil {
		w.t.Fatal(err)
	}
	if st, err := w.store.Entry(context.Background(), key); err != nil {
		w.t.Fatal(err)
	} else if want := fmt.Sprintf("intent: token %d", st.Entry.FencingToken); send == "yes" && st.Attempts[0].Rule != want {
		w.t.Errorf("%s: the intent's rule is %q, want %q, as answered", key, st.Attempts[0].Rule, want)
	}
	if string(out[0].Send) != send || !strings.HasPrefix(out[0].Why, why) {
		w.t.Fatalf("%s was answered %s %q, want %s %q", key, out[0].Send, out[0].Why, send, why)
	}
	if e := w.entry(key); e.State != out[0].Entry.State || e.FencingToken != out[0].Entry.FencingToken {
		w.t.Errorf("%s: answered with %s and token %d, stored %s and %d", key, out[0].Entry.State, out[0].Entry.FencingToken, e.State, e.FencingToken)
	}
}

// wantRows tests the changes of an entry's history, each as "from to".
func (w *world) wantRows(key string, want ...string) {
	w.t.Helper()
	hs, err := w.store.History(context.Background(), w.entry(key).ID)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, h := range hs {
		got = append(got, string(h.From)+" "+string(h.To))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		w.t.Errorf("%s went %q, want %q", key, got, want)
	}
}
