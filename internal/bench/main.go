// Command bench measures what reconcile reaches on this machine, on a private
// PostgreSQL that waits for the disk: records imported a second, entries
// settled a second against the same bulk statements without any lookup, and
// the time of a claim beside a long settled history. Read the ratios: they hold
// on other machines, the absolute figures do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// options are the sizes of a run.
type options struct {
	records int // of the import
	entries int // to settle, in each round
	settled int // the long history of the claims
	rounds  int
	batch   int // keys in one lookup
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.records, "records", 50_000, "records to import")
	fs.IntVar(&o.entries, "entries", 10_000, "entries to settle in each round")
	fs.IntVar(&o.settled, "settled", 100_000, "settled entries beside which claims are timed")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds, of which the median counts")
	fs.IntVar(&o.batch, "batch", 50, "keys in one lookup")
	full := fs.Bool("full", false, "larger: 500,000 records, 50,000 entries a round, 1,000,000 settled (some ten minutes)")
	if err := fs.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if *full {
		o.records, o.entries, o.settled = 500_000, 50_000, 1_000_000
	}
	if min(o.records, o.entries, o.settled, o.rounds, o.batch) < 1 {
		return errors.New("every size must be 1 or more")
	}

	// The disk is waited for, as a ledger must: figures without that flatter.
	pg, err := pgtest.New(map[string]string{"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB"})
	if err != nil {
		return err
	}
	defer pg.Close() //nolint:errcheck // its watchdog cleans up whatever is left
	b := &bench{options: o, pg: pg, out: out}
	b.say("%s %s/%s, %d CPUs%s; PostgreSQL with fsync=on; medians of %d rounds", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), load(), o.rounds)
	for _, part := range []func(context.Context) error{b.imports, b.settles, b.claims} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// load is what else the machine is doing, where that can be read: a figure from
// a busy machine is a lower bound. Source: proc(5), /proc/loadavg.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return ", load " + one + " at the start"
}

type bench struct {
	options
	pg  *pgtest.Server
	out io.Writer
	url string // of the ledger opened last
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// importConfig describes the system that the records name, so that keys are
// derived and payloads checked as they are in use. It is never asked.
const importConfig = `
[connectors.bench]
type = "rest"
base_url = "http://127.0.0.1:1"
[[connectors.bench.operation]]
name = "thing.create"
carries = "reference"
lookup = { method = "GET", path = "/things", query = { reference = "{key}" }, items = "data", match = "reference", id = "id" }
send = { method = "POST", path = "/things", id = "id" }
[[policy]]
retry = { max_attempts = 3 }
`

// imports runs the program's own import, as it is released, on a file.
func (b *bench) imports(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "reconcile-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder, which the system removes in the end
	bin := filepath.Join(dir, "reconcile")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/recovery-ledger/reconcile/cmd/reconcile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "reconcile.toml"), []byte(importConfig), 0o600); err != nil {
		return err
	}
	file := filepath.Join(dir, "records.jsonl")
	size, err := writeRecords(file, b.records)
	if err != nil {
		return err
	}
	var perSecond, peak, cpu, again []float64
	for range b.rounds {
		url, err := b.pg.NewDB()
		if err != nil {
			return err
		}
		if _, err := command(ctx, dir, bin, "migrate", "--ledger", url); err != nil {
			return err
		}
		u, err := command(ctx, dir, bin, "import", file, "--ledger", url)
		if err != nil {
			return err
		}
		perSecond, peak = append(perSecond, float64(b.records)/u.took.Seconds()), append(peak, u.peakMiB)
		cpu = append(cpu, float64(u.cpu.Microseconds())/float64(b.records))
		if u, err = command(ctx, dir, bin, "import", file, "--ledger", url); err != nil {
			return err
		}
		again = append(again, float64(b.records)/u.took.Seconds())
	}
	b.say("\nimport of %s records (%.0f MB of JSON Lines) by the built program", thousands(b.records), float64(size)/1e6)
	b.say("  new                 %9s records/s   (%s)", thousands(int(median(perSecond))), spread(perSecond))
	b.say("  the same file again %9s records/s   (%s)", thousands(int(median(again))), spread(again))
	b.say("  CPU of the program  %9.0f µs a record, without the database's", median(cpu))
	b.say("  peak memory         %9.0f MiB", slices.Max(peak))
	return nil
}

// usage is what a run of the program took.
type usage struct {
	took    time.Duration
	cpu     time.Duration
	peakMiB float64 // resident
}

// command runs the program.
func command(ctx context.Context, dir, bin string, args ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = dir
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return usage{}, fmt.Errorf("reconcile %s: %w\n%s", args[0], err, out)
	}
	u := usage{took: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peakMiB = float64(r.Maxrss) / 1024 // KiB on Linux. Source: getrusage(2).
	}
	return u, nil
}

// ledgerAt opens a fresh ledger.
func (b *bench) ledgerAt(ctx context.Context) (*sqlstore.Store, error) {
	url, err := b.pg.NewDB()
	if err != nil {
		return nil, err
	}
	b.url = url
	return sqlstore.Open(ctx, url, sqlstore.Options{AutoMigrate: true})
}

// tidy has the server do at once what it would do by itself within a minute,
// and otherwise while the clock runs: vacuum and analyze what was filled in, and
// write it out.
func (b *bench) tidy(ctx context.Context) (err error) {
	db, err := sqlx.Open("postgres", b.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM ANALYZE")
	return err
}

func (b *bench) connectors() map[string]connectors.Connector {
	return map[string]connectors.Connector{connectorName: instant{batch: b.batch}}
}

// fill records n entries, all with the attempt given.
func (b *bench) fill(ctx context.Context, s ledger.Store, prefix string, n int, at ledger.RecordAttempt) error {
	decide := (&reconcile.Recorder{Connectors: b.connectors()}).Decide
	const most = 1000 // of Store.Record
	for from := 0; from < n; from += most {
		recs := reported(prefix, from, min(from+most, n), at)
		done, err := s.Record(ctx, recs, decide)
		if err != nil {
			return err
		}
		if v := done[0].Verdict; v != ledger.RecordedNew {
			return fmt.Errorf("record %s: %s %v", recs[0].ActionKey, v, done[0].Errors)
		}
	}
	return nil
}

// lost is an attempt whose answer was lost an hour ago.
func lost(now time.Time) ledger.RecordAttempt {
	return ledger.RecordAttempt{StartedAt: now.Add(-time.Hour), FinishedAt: now.Add(-time.Hour + 30*time.Second), Sends: 1,
		Status: ledger.AttemptError, HTTPStatus: 504, ErrorClass: "timeout", Message: "upstream timed out"}
}

// settles times a pass that settles by batch lookups which are answered at
// once, and, on an equal ledger, the bulk statements alone: claim, settle, write
// entry, attempt, evidence and history.
func (b *bench) settles(ctx context.Context) error {
	var pass, raw, ratio []float64
	for round := range b.rounds {
		one := func(f func(context.Context, *sqlstore.Store) (int, error)) (float64, error) {
			s, err := b.ledgerAt(ctx)
			if err != nil {
				return 0, err
			}
			defer s.Close() //nolint:errcheck // its database goes with the server
			if err := b.fill(ctx, s, "lost", b.entries, lost(time.Now())); err != nil {
				return 0, err
			}
			start := time.Now()
			n, err := f(ctx, s)
			if err != nil {
				return 0, err
			}
			if n != b.entries {
				return 0, fmt.Errorf("%d of %d entries were settled", n, b.entries)
			}
			return float64(n) / time.Since(start).Seconds(), nil
		}
		// In turns, so that a slow moment of the machine meets both.
		order := []func(context.Context, *sqlstore.Store) (int, error){b.onePass, rawStatements}
		var rate [2]float64
		for k := range order {
			i := (k + round) % 2
			r, err := one(order[i])
			if err != nil {
				return err
			}
			rate[i] = r
		}
		pass, raw, ratio = append(pass, rate[0]), append(raw, rate[1]), append(ratio, rate[0]/rate[1])
	}
	b.say("\nsettling %s entries by lookups of %d keys, answered at once", thousands(b.entries), b.batch)
	b.say("  a whole pass            %9s entries/s   (%s)", thousands(int(median(pass))), spread(pass))
	b.say("  the bulk statements     %9s entries/s   (%s)", thousands(int(median(raw))), spread(raw))
	b.say("  ratio                   %9.2f             (%.2f to %.2f; the aim is 0.70 or more)", median(ratio), slices.Min(ratio), slices.Max(ratio))
	return nil
}

func (b *bench) onePass(ctx context.Context, s *sqlstore.Store) (int, error) {
	e, err := reconcile.New(reconcile.Options{Store: s, Connectors: b.connectors()})
	if err != nil {
		return 0, err
	}
	t, err := e.Pass(ctx, reconcile.PassOptions{})
	return t.Counts.SettledApplied, err
}

// rawWorkers claim and write beside each other, as the claims and writes of a
// pass do: twice as many bring no more on the two cores this was tried on.
const rawWorkers = 2

// rawStatements claims and settles with no lookup and no decision.
func rawStatements(ctx context.Context, s *sqlstore.Store) (int, error) {
	var total atomic.Int64
	errs := make([]error, rawWorkers)
	var wg sync.WaitGroup
	for i := range rawWorkers {
		wg.Go(func() {
			n, err := rawWorker(ctx, s)
			total.Add(int64(n))
			errs[i] = err
		})
	}
	wg.Wait()
	return int(total.Load()), errors.Join(errs...)
}

func rawWorker(ctx context.Context, s *sqlstore.Store) (int, error) {
	total := 0
	for {
		c, err := s.Claim(ctx, ledger.Claim{Lane: connectorName, Work: ledger.WorkLook, Limit: 500, Holder: "bench", Lease: time.Minute})
		if err != nil || len(c.Entries) == 0 {
			return total, err
		}
		cs := make([]ledger.Change, len(c.Entries))
		for i, st := range c.Entries {
			cs[i] = settled(c, st, c.Leases[i])
		}
		done, err := s.Apply(ctx, cs)
		if err != nil {
			return total, err
		}
		for _, d := range done {
			if d.Err != nil {
				return total, d.Err
			}
			total++
		}
	}
}

// settled is the change that a look makes which finds the record: the entry,
// its attempt, and the evidence.
func settled(c ledger.Claimed, st ledger.Stored, l ledger.Lease) ledger.Change {
	next := ledger.Settle(st.Entry, ledger.OutcomeApplied, ledger.ByLook, "found", c.Now)
	next.Effect = ledger.EffectDone
	next.RemoteID = "id-" + st.Entry.ActionKey
	next.LooksAnswered++
	at := st.Attempts[len(st.Attempts)-1]
	at.Effect, at.Rule = ledger.EffectDone, "look: found"
	return ledger.Change{Lease: l, Next: next, PassID: "raw", Attempts: []ledger.Attempt{at}, Evidence: []ledger.Evidence{{
		EntryID: st.Entry.ID, Finding: ledger.FindingApplied, Connector: connectorName, Form: "batch", RemoteID: next.RemoteID,
		AskedAt: c.Now, Version: "1", Detail: []byte(`{"records":[{"id":"` + next.RemoteID + `","status":"open"}]}`), PassID: "raw",
	}}}
}

// claims times a claim of 500 due entries beside a short and a long settled
// history.
func (b *bench) claims(ctx context.Context) error {
	const batch, claims = 500, 60
	due := max(batch, min(5_000, b.entries))
	short := min(10_000, b.settled)
	var times, best [2]float64
	for i, settled := range []int{short, b.settled} {
		s, err := b.ledgerAt(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		err = b.fill(ctx, s, "done", settled, ledger.RecordAttempt{StartedAt: now.Add(-time.Hour), FinishedAt: now, Sends: 1, Status: ledger.AttemptOK, HTTPStatus: 201})
		if err == nil {
			err = b.fill(ctx, s, "lost", due, lost(now))
		}
		if err == nil {
			err = b.tidy(ctx)
		}
		var took []float64
		for k := 0; err == nil && k < claims; k++ {
			start := time.Now()
			var c ledger.Claimed
			c, err = s.Claim(ctx, ledger.Claim{Lane: connectorName, Work: ledger.WorkLook, Limit: batch, Holder: "bench", Lease: time.Minute})
			took = append(took, float64(time.Since(start).Microseconds())/1000)
			if err == nil && len(c.Leases) != batch {
				err = fmt.Errorf("a claim got %d entries, want %d", len(c.Leases), batch)
			}
			if err == nil {
				err = s.Release(ctx, c.Leases)
			}
		}
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
		times[i], best[i] = median(took), slices.Min(took)
	}
	b.say("\na claim of %d due entries out of %s", batch, thousands(due))
	b.say("  beside %9s settled   %6.1f ms   (fastest %.1f)", thousands(short), times[0], best[0])
	b.say("  beside %9s settled   %6.1f ms   (fastest %.1f): %.2f times", thousands(b.settled), times[1], best[1], times[1]/times[0])
	return nil
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func spread(xs []float64) string {
	return thousands(int(slices.Min(xs))) + " to " + thousands(int(slices.Max(xs)))
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}
