// Command river puts River, a job queue on PostgreSQL, into the storm of the
// crash campaign: the same provider, the same faults, the same count. It is a
// module of its own, so that River is no dependency of the product.
//
// Four ways are measured: River's own retries, and a look-up before each retry
// as a careful engineer writes it, each with River's defaults and tuned.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
	"github.com/recovery-ledger/reconcile/internal/chaos/storm"
	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// The timings of the product's campaign.
const (
	call    = time.Second
	lands   = 2 * time.Second
	visible = 1500 * time.Millisecond
	lease   = 2 * time.Second
	quiet   = call + lands + visible
)

type options struct {
	actions  int
	workers  int
	seed     uint64
	every    time.Duration
	atLeast  time.Duration
	atMost   time.Duration
	patience time.Duration
	rescue   time.Duration
	failover bool
	json     string
}

func main() {
	var err error
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		err = work(os.Args[2])
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, os.Args[1:], os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	fs := flag.NewFlagSet("river", flag.ContinueOnError)
	fs.IntVar(&o.actions, "actions", 6000, "actions of each way, over all kinds of provider")
	fs.IntVar(&o.workers, "workers", 5, "worker processes")
	fs.Uint64Var(&o.seed, "seed", 1, "of the provider's faults")
	fs.DurationVar(&o.every, "every", 250*time.Millisecond, "time between two faults, on average")
	fs.DurationVar(&o.atLeast, "at-least", time.Minute, "each storm blows for so long")
	fs.DurationVar(&o.atMost, "at-most", 3*time.Minute, "and no longer than this behind the last insert, when not every job was tried")
	fs.DurationVar(&o.patience, "patience", 3*time.Minute, "how long what is left may move after the storm")
	fs.DurationVar(&o.rescue, "rescue", 10*time.Second, "RescueStuckJobsAfter of the tuned ways")
	fs.BoolVar(&o.failover, "failover", true, "PostgreSQL has a standby and fails over to it")
	fs.StringVar(&o.json, "json", "", "write the results to this file, too")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var results []*result
	for _, w := range []settings{{}, {Tuned: true}, {Careful: true}, {Careful: true, Tuned: true}} {
		r, err := measure(ctx, o, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name(), err)
		}
		results = append(results, r)
		fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05"), w.name(), "measured")
	}
	if o.json != "" {
		b, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return print(out, results)
}

func (s settings) name() string {
	n := "River, its own retries"
	if s.Careful {
		n = "River, look-up then send"
	}
	if s.Tuned {
		return n + ", tuned"
	}
	return n + ", defaults"
}

// result is what one way came to.
type result struct {
	Way    string         `json:"way"`
	Took   string         `json:"took"`
	Kinds  []tally        `json:"kinds"`
	Faults map[string]int `json:"faults"`
}

type tally struct {
	Kind       provider.Kind `json:"kind"`
	Actions    int           `json:"actions"`
	Sends      int           `json:"sends"`
	Effects    int           `json:"effects"`
	Duplicates int           `json:"duplicates"`
	Lost       int           `json:"lost"`    // discarded or gone, and it did not happen
	Wrong      int           `json:"wrong"`   // completed, and it did not happen
	Running    int           `json:"running"` // when the patience was over: waits to be rescued
	Retrying   int           `json:"retrying"`
	Person     int           `json:"person"` // cancelled: a person must look
}

func measure(ctx context.Context, o options, s settings) (res *result, err error) {
	began := time.Now()
	log := storm.NewLog()
	prov := provider.New(provider.Config{Seed: o.seed, Lands: lands, Visible: visible})
	addr, stop, err := prov.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	wire, err := storm.NewProxy(addr, log)
	if err != nil {
		return nil, err
	}
	defer wire.Close()
	db, err := storm.NewCluster(o.failover, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	group, err := testproc.NewGroup("river", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, group.Close()) }()

	pool, err := pgxpool.New(ctx, db.URL())
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}

	s.Database, s.Provider, s.Call, s.Quiet, s.Rescue = db.URL(), "http://"+wire.Addr, call, quiet, o.rescue
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dice := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, n)) }
	fleet := &storm.Fleet{Group: group, Log: log, Rand: dice(1),
		Command: func(int, bool) *exec.Cmd {
			cmd := group.Command(self, "worker", string(arg))
			cmd.Env = append(cmd.Env, "GOMAXPROCS=2")
			return cmd
		},
		StopFor: func(r *rand.Rand) time.Duration {
			if r.IntN(8) == 0 {
				return quiet + time.Duration(r.Float64()*2*float64(quiet))
			}
			return time.Duration((0.2 + 2.3*r.Float64()) * float64(lease))
		}}
	fleet.Start(o.workers)
	closeFleet := sync.OnceFunc(fleet.Close)
	defer closeFleet()

	prov.SetFaults(provider.Storm())
	wire.Poison(0.03, lands/4)
	sctx, over := context.WithCancel(ctx)
	var weather sync.WaitGroup
	weather.Go(func() { storm.Blow(sctx, dice(2), o.every, faults(o, fleet, db, log, dice(3))) })
	keys, err := insert(ctx, pool, o)
	for last := time.Now(); err == nil && time.Since(last) < o.atMost; err = sleep(ctx, time.Second) {
		var untried int
		asked := pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'available'`).Scan(&untried)
		if asked == nil && untried <= o.actions/100 && time.Since(began) > o.atLeast {
			break
		}
	}
	over()
	weather.Wait()
	if err != nil {
		return nil, err
	}

	prov.SetFaults(provider.Faults{})
	wire.Poison(0, 0)
	db.Proxy.CutCommits(0)
	fleet.Calm()
	if o.failover { // what a failover lost is inserted again, as the product's campaign does
		if _, err := insert(ctx, pool, o); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(o.patience); time.Now().Before(end); {
		var open int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')`).Scan(&open)
		if err == nil && open == 0 {
			break
		}
		if err := sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	closeFleet()
	prov.Settle()
	res, err = account(ctx, pool, prov, keys)
	if err != nil {
		return nil, err
	}
	counts, _ := prov.Counts()
	for n, k := range log.Counts() {
		counts[n] += k
	}
	res.Way, res.Faults, res.Took = s.name(), counts, time.Since(began).Round(time.Second).String()
	return res, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// faults are those of the product's campaign, but for its fail points, which
// lie inside the product.
func faults(o options, fleet *storm.Fleet, db *storm.Cluster, log *storm.Log, r *rand.Rand) []storm.Weighted {
	do := func(f func()) func(context.Context) { return func(context.Context) { f() } }
	must := func(f func() error) func(context.Context) {
		return func(context.Context) {
			if err := f(); err != nil {
				fmt.Fprintln(os.Stderr, "database:", err)
			}
		}
	}
	fs := []storm.Weighted{
		{Weight: 30, Do: do(fleet.Kill)},
		{Weight: 20, Do: do(fleet.Terminate)},
		{Weight: 20, Do: do(fleet.Stop)},
		{Weight: 20, Do: do(func() { db.Proxy.CutCommits(1 + r.IntN(3)) })},
		{Weight: 5, Do: do(func() { db.Proxy.Cut(); log.Count("database: all connections cut") })},
		{Weight: 2, Do: must(func() error { return db.Restart(storm.Fast) })},
		{Weight: 2, Do: must(func() error { return db.Restart(storm.Immediate) })},
		{Weight: 2, Do: must(func() error { return db.Restart(storm.Killed) })},
	}
	if o.failover {
		for _, how := range []string{storm.FailoverKilled, storm.FailoverLossy, storm.FailoverReadOnly} {
			fs = append(fs, storm.Weighted{Weight: 2, Do: must(func() error { return db.Failover(how) })})
		}
	}
	return fs
}

// insert inserts every job, in batches, each until that succeeds.
func insert(ctx context.Context, pool *pgxpool.Pool, o options) ([]Action, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return nil, err
	}
	keys := make([]Action, o.actions)
	for i := range keys {
		k := provider.Kinds[i%len(provider.Kinds)]
		keys[i] = Action{Key: fmt.Sprintf("run-%06d:do-%s", i, k), Provider: k}
	}
	for batch := range slices.Chunk(keys, max(60, o.actions/60)) {
		params := make([]river.InsertManyParams, len(batch))
		for i, a := range batch {
			params[i] = river.InsertManyParams{Args: a}
		}
		for try := 0; ; try++ {
			tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := client.InsertMany(tctx, params)
			cancel()
			if err == nil {
				break
			}
			if try == 200 || ctx.Err() != nil {
				return nil, fmt.Errorf("insert: %w", err)
			}
			if err := sleep(ctx, 200*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// account compares every action at the provider with its job.
func account(ctx context.Context, pool *pgxpool.Pool, prov *provider.Provider, keys []Action) (*result, error) {
	rows, err := pool.Query(ctx, `SELECT args->>'key', state::text FROM river_job`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	states := map[string]string{}
	for rows.Next() {
		var key, state string
		if err := rows.Scan(&key, &state); err != nil {
			return nil, err
		}
		states[key] = state
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	res := &result{}
	for _, k := range provider.Kinds {
		t := tally{Kind: k}
		for _, a := range keys {
			if a.Provider != k {
				continue
			}
			seen := prov.Action(k, a.Key)
			t.Actions++
			t.Sends += seen.Requests
			t.Effects += len(seen.Effects)
			if len(seen.Effects) > 1 {
				t.Duplicates++
			}
			none := len(seen.Effects) == 0
			switch states[a.Key] {
			case "completed":
				if none {
					t.Wrong++
				}
			case "cancelled":
				t.Person++
			case "discarded", "":
				if none {
					t.Lost++
				}
			case "running":
				t.Running++
			default:
				t.Retrying++
			}
		}
		res.Kinds = append(res.Kinds, t)
	}
	return res, nil
}

// print writes the tables.
func print(w io.Writer, rs []*result) error {
	text := "| way | provider | actions | sends | effects | duplicates | lost | wrong | still running | still retrying | person |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
	for _, r := range rs {
		for _, t := range r.Kinds {
			text += fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.Way, t.Kind, t.Actions, t.Sends, t.Effects, t.Duplicates, t.Lost, t.Wrong, t.Running, t.Retrying, t.Person)
		}
	}
	names := map[string]bool{}
	head, rule := "\n| fault |", "\n| --- |"
	for _, r := range rs {
		head, rule = head+" "+r.Way+" |", rule+" --- |"
		for n := range r.Faults {
			names[n] = true
		}
	}
	text += head + rule + "\n"
	for _, n := range slices.Sorted(maps.Keys(names)) {
		text += "| " + n + " |"
		for _, r := range rs {
			text += fmt.Sprintf(" %d |", r.Faults[n])
		}
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
