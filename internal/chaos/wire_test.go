package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
	"github.com/recovery-ledger/reconcile/internal/chaos/storm"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/internal/testproc"
	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// TestAStopBetweenCheckAndWrite is the one duplicate that cannot be prevented
// from this side: a process is stopped after it has checked send_by and before
// it writes, for longer than it takes another one to prove absence and send,
// and then writes. Where the system refuses a second effect there is none;
// where it can only be asked, the duplicate is found and flagged.
func TestAStopBetweenCheckAndWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes, some ten seconds")
	}
	bin, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []string{"sqlite", "postgres"} {
		for kind, effects := range map[provider.Kind]int{provider.Refuses: 1, provider.Lookup: 2} {
			t.Run(on+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				if on == "postgres" {
					if _, err := pgtest.Programs(); err != nil {
						testproc.Missing(t, pgtest.EnvRequire, err.Error())
					}
				}
				var a provider.Action
				var e entry
				for try := 1; a.Requests < 2; try++ {
					if try > 3 {
						t.Skip("each time the process found its time over, and reset the connection, before it wrote: nothing to find")
					}
					a, e = stopAtWire(t, &campaign{Campaign: Campaign{Ledger: on, Timings: brief}, tool: bin, log: storm.NewLog(), say: t.Logf}, kind)
					if a.Requests == 1 && (len(a.Effects) != 1 || len(e.Flags) > 0 || e.Outcome != "applied") {
						t.Fatalf("%d effects, %s %q, flags %v; want one, and nothing flagged", len(a.Effects), e.State, e.Outcome, e.Flags)
					}
				}
				if len(a.Effects) != effects {
					t.Errorf("%d effects of %d requests %s, want %d", len(a.Effects), a.Requests, times(a), effects)
				}
				if a.Requests != 2 {
					t.Errorf("%d requests, want that of the second process and that of the first, too late", a.Requests)
				}
				if flagged := slices.Contains(e.Flags, "duplicate"); flagged != (effects > 1) || e.State != "settled" || e.Outcome != "applied" {
					t.Errorf("%s %q, flags %v, reason %q", e.State, e.Outcome, e.Flags, e.Reason)
				}
			})
		}
	}
}

// stopAtWire has one process stopped at the wire, lets a second one do the
// action and settle it, and continues the first. Whether that still writes is a
// race of its threads: with one request at the provider it did not.
func stopAtWire(t *testing.T, c *campaign, kind provider.Kind) (provider.Action, entry) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	c.group, err = testproc.NewGroup("chaos", false)
	must(err)
	t.Cleanup(func() { _ = c.group.Close() }) // its watchdog ends what is left
	c.dir = c.group.Dir
	c.prov = provider.New(provider.Config{Lands: c.Lands, Visible: c.Visible})
	for _, k := range []provider.Kind{provider.Refuses, provider.Lookup} {
		c.prov.Add(k, canary, 1)
	}
	addr, stop, err := c.prov.Serve(t.Context())
	must(err)
	t.Cleanup(stop)
	c.wire, err = storm.NewProxy(addr, c.log)
	must(err)
	t.Cleanup(c.wire.Close)
	url, closeLedger, err := c.openLedger()
	must(err)
	t.Cleanup(func() { must(closeLedger()) })
	c.config = filepath.Join(c.dir, "reconcile.toml")
	must(os.WriteFile(c.config, []byte(c.configText(url)), 0o600))
	_, err = c.command(t.Context(), false, "migrate")
	must(err)

	key := "run_1:do"
	action := workflow.Action{Key: key, Workflow: "storm", Version: "1", Connector: string(kind), Operation: "action.do", RecordID: key,
		OutcomeKey: key, Owner: "ops", Payload: []byte(`{"reference":"` + key + `","amount_cents":1990}`)}
	now := time.Now().UTC()
	file := filepath.Join(c.dir, "records.jsonl")
	must(workflow.WriteFile(file, []workflow.Record{workflow.RecordOf(action, workflow.Attempt{AttemptID: key + "/1", StartedAt: now,
		FinishedAt: &now, Status: "error", HTTPStatus: 429})}))
	_, err = c.command(t.Context(), false, "import", file)
	must(err)

	first, err := c.group.Start(c.program(c.bin, atWire, "daemon"), "first.log", syscall.SIGKILL)
	must(err)
	waitFor(t, "the first process to stop at the wire", func() bool { return storm.IsStopped(first.Pid) })
	if n := c.prov.Action(kind, key).Requests; n != 0 {
		t.Fatalf("%d requests before the first process wrote", n)
	}
	_, err = c.group.Start(c.program(c.bin, "", "daemon"), "second.log", syscall.SIGKILL)
	must(err)
	stands := func() entry {
		es, err := c.entries(t.Context())
		must(err)
		if len(es) != 1 {
			t.Fatalf("%d entries", len(es))
		}
		return es[0]
	}
	waitFor(t, "the second process to send and settle", func() bool { return stands().State == "settled" })
	if a := c.prov.Action(kind, key); len(a.Effects) != 1 || a.Requests != 1 {
		t.Fatalf("%d effects of %d requests", len(a.Effects), a.Requests)
	}
	first.Signal(syscall.SIGCONT)
	for range 50 { // it writes at once or never
		if c.prov.Action(kind, key).Requests == 2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	waitFor(t, "nothing to move any more", func() bool {
		n, err := c.moving(t.Context())
		must(err)
		return n == 0
	})
	return c.prov.Action(kind, key), stands()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	const most = 4 * time.Minute // seconds where nothing else runs
	for end := time.Now().Add(most); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", most, what)
		}
	}
}
