package main

import (
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
	"github.com/recovery-ledger/reconcile/internal/chaos/storm"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// brief are the timings of the short storms.
var brief = Timings{Call: 500 * time.Millisecond, Lands: 1500 * time.Millisecond, Visible: time.Second, Lease: time.Second, Window: 20 * time.Second}

// TestStorm is a short campaign on each ledger, with the real program.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm takes half a minute; make chaos-short runs it too")
	}
	bin, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Campaign{
		"SQLite, two daemons":                   {Ledger: "sqlite"},
		"PostgreSQL with failover, two daemons": {Ledger: "postgres", Failover: true},
		"SQLite, stops between check and write": {Ledger: "sqlite", AtWire: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.Ledger == "postgres" {
				if _, err := pgtest.Programs(); err != nil {
					testproc.Missing(t, pgtest.EnvRequire, err.Error())
				}
			}
			c.Actions, c.Batch, c.Daemons, c.Seed, c.Timings = 120, 20, 2, 7, brief
			c.Every, c.AtLeast, c.AtMost, c.Quiet = 200*time.Millisecond, 6*time.Second, 8*time.Second, 2*time.Minute
			res, err := c.Run(t.Context(), bin, t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			faults := 0
			for _, n := range res.Faults {
				faults += n
			}
			if faults < 40 {
				t.Errorf("%d faults; a storm has more", faults)
			}
			if broken := res.Broken(); len(broken) > 0 {
				t.Errorf("broken promises:\n%s\n%s", strings.Join(broken, "\n"), strings.Join(res.Problems, "\n"))
			}
			t.Logf("%+v; faults %v", res.Kinds, res.Faults)
		})
	}
}

// TestBrokenPromisesAreSeen is the test of the count itself.
func TestBrokenPromisesAreSeen(t *testing.T) {
	due := "2026-11-29T00:00:00Z"
	effects := func(n int) (a provider.Action) {
		for range n {
			a.Effects = append(a.Effects, provider.Effect{ArrivedAt: time.Now()})
		}
		return a
	}
	for name, tc := range map[string]struct {
		kind   provider.Kind
		action provider.Action
		entry  *entry
		want   string // part of what is broken; "" is nothing
	}{
		"done once, settled applied":        {provider.Lookup, effects(1), &entry{State: "settled", Outcome: "applied"}, ""},
		"not done, settled not applied":     {provider.Lookup, effects(0), &entry{State: "settled", Outcome: "not_applied"}, ""},
		"unknown, with a person":            {provider.Neither, effects(1), &entry{State: "escalated", Owner: "ops", DueAt: &due}, ""},
		"done twice":                        {provider.Refuses, effects(2), &entry{State: "settled", Outcome: "applied", Flags: []string{"duplicate"}}, "1 duplicates"},
		"done twice where only a lookup is": {provider.Lookup, effects(2), &entry{State: "settled", Outcome: "applied", Flags: []string{"duplicate"}}, "no stop between check and write explains"},
		"done twice, and nobody told":       {provider.Lookup, effects(2), &entry{State: "settled", Outcome: "applied"}, "not flagged"},
		"settled applied, and not done":     {provider.Lookup, effects(0), &entry{State: "settled", Outcome: "applied"}, "1 wrongly settled"},
		"settled not applied, and done":     {provider.Lookup, effects(1), &entry{State: "settled", Outcome: "not_applied"}, "1 wrongly settled"},
		"no entry":                          {provider.Lookup, effects(0), nil, "1 lost"},
		"still ambiguous":                   {provider.Lookup, effects(1), &entry{State: "ambiguous"}, "1 stuck"},
		"escalated to nobody":               {provider.Neither, effects(1), &entry{State: "escalated", DueAt: &due}, "1 stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &campaign{Campaign: Campaign{Ledger: "sqlite"}}
			res, tally := &Result{Ledger: "sqlite"}, Tally{Kind: tc.kind, Reasons: map[string]int{}}
			e := entry{}
			if tc.entry != nil {
				e = *tc.entry
			}
			c.log = storm.NewLog()
			c.judge(&tally, res, todo{kind: tc.kind, key: "k"}, tc.action, e, tc.entry != nil)
			res.Kinds = []Tally{tally}
			got := strings.Join(res.Broken(), "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("broken: %q, want %q", got, tc.want)
			}
		})
	}
}
