package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
	"github.com/recovery-ledger/reconcile/internal/chaos/storm"
	"github.com/recovery-ledger/reconcile/internal/failpoint"
	"github.com/recovery-ledger/reconcile/internal/testproc"
	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// Timings are what the provider promises and the config says. They are short,
// so that a run takes minutes; their proportions are those of a real system.
type Timings struct {
	Call    time.Duration // one call
	Lands   time.Duration // lands_within
	Visible time.Duration // visible_within
	Lease   time.Duration
	Window  time.Duration // settle.for: what stays unknown for so long goes to a person
}

// Campaign is one storm over one ledger.
type Campaign struct {
	Ledger   string // sqlite or postgres
	Actions  int    // over all kinds
	Batch    int    // actions of a workflow between two imports
	Daemons  int
	Every    time.Duration // between two faults, on average
	AtLeast  time.Duration // the storm blows for so long, even when all is settled
	AtMost   time.Duration // and no longer than this behind the last import
	Quiet    time.Duration // how long what is left may move after the storm
	Seed     uint64
	AtWire   bool // processes are stopped in the instant between check and write, too
	Failover bool // PostgreSQL has a standby
	Timings
}

// canary is the key of an action that is always there.
const canary = "always-there"

// tool is the built program with one config.
type tool struct {
	bin, fast, config string
}

// campaign is a Campaign under way.
type campaign struct {
	Campaign
	tool
	dir   string
	log   *storm.Log
	prov  *provider.Provider
	wire  *storm.Proxy
	db    *storm.Cluster // nil on SQLite
	disk  *disk          // nil where there is none to fill
	fleet *storm.Fleet
	group *testproc.Group
	say   func(format string, a ...any)

	mu    sync.Mutex
	keys  []todo
	files []string // imported, in order
	calm  bool
}

// todo is one action of the workflow.
type todo struct {
	kind provider.Kind
	key  string
	seen string // what the workflow saw: ok, error, started, none
}

// Run runs the campaign. An error means that it could not be run; what it came
// to is in the Result.
func (c Campaign) Run(ctx context.Context, t tool, say func(string, ...any)) (*Result, error) {
	run := &campaign{Campaign: c, tool: t, log: storm.NewLog(), say: say}
	began := time.Now()
	res, err := run.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("campaign on %s: %w", c.Ledger, err)
	}
	res.Took = time.Since(began).Round(time.Second).String()
	return res, nil
}

func (c *campaign) run(ctx context.Context) (res *Result, err error) {
	if c.group, err = testproc.NewGroup("chaos", false); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.group.Close()) }()
	c.dir = c.group.Dir

	c.prov = provider.New(provider.Config{Seed: c.Seed, Lands: c.Lands, Visible: c.Visible})
	c.prov.Add(provider.Refuses, canary, 1)
	c.prov.Add(provider.Lookup, canary, 1)
	addr, stop, err := c.prov.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if c.wire, err = storm.NewProxy(addr, c.log); err != nil {
		return nil, err
	}
	defer c.wire.Close()

	ledgerURL, closeLedger, err := c.openLedger()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	c.config = filepath.Join(c.dir, "reconcile.toml")
	if err := os.WriteFile(c.config, []byte(c.configText(ledgerURL)), 0o600); err != nil {
		return nil, err
	}
	if out, err := c.command(ctx, false, "migrate"); err != nil {
		return nil, fmt.Errorf("migrate: %w\n%s", err, out)
	}

	c.fleet = &storm.Fleet{Group: c.group, Log: c.log, Rand: c.dice(1), Command: c.daemon, StopFor: c.stopFor}
	c.fleet.Start(c.Daemons)
	closeFleet := sync.OnceFunc(c.fleet.Close)
	defer closeFleet()

	if err := c.storm(ctx, addr); err != nil {
		return nil, err
	}
	left, err := c.drain(ctx)
	if err != nil {
		return nil, err
	}
	closeFleet()
	c.prov.Settle()
	return c.account(ctx, left)
}

func (c *campaign) dice(n uint64) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, n)) }

// openLedger makes the ledger's place.
func (c *campaign) openLedger() (url string, closeIt func() error, err error) {
	if c.Ledger == "sqlite" {
		dir := filepath.Join(c.dir, "ledger")
		c.disk, err = newDisk(dir)
		if err != nil {
			c.say("no disk that can be filled: %v; that fault is left out", err)
		}
		return "sqlite:" + filepath.Join(dir, "reconcile.db"), func() error { return c.disk.close() }, os.MkdirAll(dir, 0o700)
	}
	c.db, err = storm.NewCluster(c.Failover, c.log)
	if err != nil {
		return "", nil, err
	}
	return c.db.URL(), c.db.Close, nil
}

func (c *campaign) configText(ledgerURL string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `[ledger]
url = %q
auto_migrate = true
lease = "%s"
[daemon]
listen = "127.0.0.1:0"
grace = "3s"
[schedule]
settle = "300ms"
advance = "300ms"
release = "5s"
escalate = "5s"
[owners.ops]
name = "Operations"
[[policy]]
retry = { max_attempts = 12, max_age = "12h", backoff = { kind = "exponential", base = "300ms", factor = 1.5, max = "3s", jitter = 0.2 } }
settle = { for = "%s", every = "1s", pending_every = "1s" }
after_max_attempts = { state = "escalated", owner = "ops", due = "24h" }
`, ledgerURL, c.Lease, c.Window)
	for _, k := range provider.Kinds {
		fmt.Fprintf(&b, `
[connectors.%[1]s]
type = "rest"
base_url = "http://%[2]s/%[1]s"
auth = "none"
timeout = "%[3]s"
rate = { calls = 2000, per = "1s", concurrent = 8 }
lands_within = "%[4]s"
visible_within = "%[5]s"
absent_after = 2
absent_spacing = "300ms"
in_flight_for = "10s"
errors = [ { status = 429, class = "rate_limit", effect = "not_done", pauses = "entry" }, { status = 409, code = "error.code", is = "DUP_REF", class = "already_exists" } ]
[[connectors.%[1]s.operation]]
name = "action.do"
carries = "reference"
send = { method = "POST", path = "/actions", id = "id" }
`, k, c.wire.Addr, c.Call, c.Lands, c.Visible)
		if k == provider.Neither {
			continue
		}
		if k == provider.Refuses {
			fmt.Fprintln(&b, "unique = true")
		}
		fmt.Fprintf(&b, `canary = %q
compare = { amount_cents = "amount_cents" }
lookup = { method = "GET", path = "/actions", query = { reference = "{key}" }, items = "data", match = "reference", id = "id", batch = { max = 50, query = { reference = "{each}" }, each = "{key:csv}", join = ",", missing = "negative" } }
`, canary)
	}
	return b.String()
}

// The fail points at which a process is killed or stopped. A stop at-wire is
// what cannot be closed from this side, so it has a campaign of its own.
var failPoints = []string{
	"before-claim", "after-claim", "before-look", "after-look", "after-checks", "before-started", "after-started",
	"before-wire", "at-wire", "after-wire", "before-apply", "after-apply", "before-commit", "after-commit",
}

// atWire stops a process between check and write.
const atWire = "at-wire=stop"

// points chooses what may happen to the process of a slot: it dies at one point
// and stops at another, sooner or later. Where processes are stopped between
// check and write, every other one is let alone: if all stood still, nobody
// would be there to prove absence and send meanwhile.
func (c *campaign) points(slot int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, b := rand.IntN(len(failPoints)), rand.IntN(len(failPoints))
	chance := map[string]string{"before-commit": "0.01", "after-commit": "0.01"}
	of := func(i int) string {
		if s, ok := chance[failPoints[i]]; ok {
			return s
		}
		return "0.05"
	}
	s := failPoints[a] + "=kill:" + of(a)
	switch {
	case c.AtWire && slot%2 == 0:
		return atWire + ":0.2"
	case c.AtWire:
		return ""
	case failPoints[b] == "at-wire", a == b:
		return s
	}
	return s + ";" + failPoints[b] + "=stop:" + of(b)
}

func (c *campaign) stopFor(r *rand.Rand) time.Duration {
	quiet := c.Call + c.Lands + c.Visible
	switch {
	case c.AtWire:
		// Mostly long enough for somebody else to prove absence and send.
		return 2*quiet + time.Duration(r.Float64()*float64(quiet))
	case r.IntN(8) == 0:
		return quiet + time.Duration(r.Float64()*2*float64(quiet))
	}
	return time.Duration((0.2 + 2.3*r.Float64()) * float64(c.Lease))
}

// program prepares the program, with the fail points given.
func (c *campaign) program(bin, points string, args ...string) *exec.Cmd {
	cmd := c.group.Command(bin, append(args, "--config", c.config)...)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=2")
	if strings.HasPrefix(points, atWire) {
		// With more, another thread mostly finds that the time is over, and
		// closes the connection, before the one that was stopped has written.
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	if points != "" {
		cmd.Env = append(cmd.Env, failpoint.Env+"="+points)
	}
	return cmd
}

// daemon is the process of a slot. On PostgreSQL the second one runs on a host
// whose clock is ten minutes fast.
func (c *campaign) daemon(slot int, stormy bool) *exec.Cmd {
	points, bin := "", c.bin
	if stormy {
		points = c.points(slot)
	}
	if slot == 1 && c.Ledger == "postgres" && c.fast != "" {
		bin = c.fast
		c.log.Count("process: started on a host whose clock is 10 minutes fast")
	}
	return c.program(bin, points, "daemon")
}

// command runs one command to its end and returns what it printed.
func (c *campaign) command(ctx context.Context, stormy bool, args ...string) ([]byte, error) {
	points := ""
	if stormy {
		points = "before-commit=kill:0.02;after-commit=kill:0.02"
	}
	cmd := c.program(c.bin, points, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	c.log.CountPoints(errs.Bytes())
	if err != nil {
		return out.Bytes(), fmt.Errorf("%w: %s", err, tail(errs.Bytes()))
	}
	return out.Bytes(), nil
}

func tail(b []byte) string {
	const most = 1500
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(bytes.TrimSpace(b))
}

// storm lets the workflow run and everything fail, until all is recorded and
// either most is settled or the time is over.
func (c *campaign) storm(ctx context.Context, direct string) error {
	c.prov.SetFaults(provider.Storm())
	c.wire.Poison(0.03, c.Lands/4)
	began := time.Now()
	sctx, over := context.WithCancel(ctx)
	var weather sync.WaitGroup
	var broken error
	weather.Go(func() { storm.Blow(sctx, c.dice(2), c.Every, c.faults(&broken)) })
	defer func() { over(); weather.Wait() }()

	if err := c.work(ctx); err != nil {
		return err
	}
	c.say("%s: %d actions recorded after %s", c.Ledger, len(c.keys), time.Since(began).Round(time.Second))
	last := time.Now()
	for time.Since(last) < c.AtMost {
		n, err := c.open(ctx)
		if err == nil && n <= len(c.keys)/100 && time.Since(began) > c.AtLeast {
			break
		}
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	over()
	weather.Wait()
	c.mu.Lock()
	c.calm = true
	c.mu.Unlock()
	return broken
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// faults are what blows, beside what the provider, the wire and the fail points
// do by themselves.
func (c *campaign) faults(broken *error) []storm.Weighted {
	r := c.dice(3)
	do := func(f func()) func(context.Context) { return func(context.Context) { f() } }
	db := func(f func() error) func(context.Context) {
		return func(context.Context) {
			if *broken != nil {
				return
			}
			if err := f(); err != nil {
				*broken = fmt.Errorf("database: %w", err)
			}
		}
	}
	fs := []storm.Weighted{
		{Weight: 30, Do: do(c.fleet.Kill)},
		{Weight: 20, Do: do(c.fleet.Terminate)},
		{Weight: 20, Do: do(c.fleet.Stop)},
		{Weight: 10, Do: c.onePass},
	}
	if c.disk != nil {
		fs = append(fs, storm.Weighted{Weight: 6, Do: func(ctx context.Context) {
			if err := c.disk.fill(); err != nil {
				return
			}
			c.log.Count("disk: full for a while")
			_ = sleep(ctx, time.Duration(200+r.IntN(1500))*time.Millisecond) // an end is an end
			c.disk.free()
		}})
	}
	if c.db == nil {
		return fs
	}
	fs = append(fs,
		storm.Weighted{Weight: 20, Do: do(func() { c.db.Proxy.CutCommits(1 + r.IntN(3)) })},
		storm.Weighted{Weight: 5, Do: do(func() { c.db.Proxy.Cut(); c.log.Count("database: all connections cut") })},
		storm.Weighted{Weight: 2, Do: db(func() error { return c.db.Restart(storm.Fast) })},
		storm.Weighted{Weight: 2, Do: db(func() error { return c.db.Restart(storm.Immediate) })},
		storm.Weighted{Weight: 2, Do: db(func() error { return c.db.Restart(storm.Killed) })},
	)
	if c.Failover {
		fs = append(fs,
			storm.Weighted{Weight: 2, Do: db(func() error { return c.failover(storm.FailoverKilled) })},
			storm.Weighted{Weight: 2, Do: db(func() error { return c.failover(storm.FailoverLossy) })},
			storm.Weighted{Weight: 2, Do: db(func() error { return c.failover(storm.FailoverReadOnly) })},
		)
	}
	return fs
}

func (c *campaign) failover(how string) error { return c.db.Failover(how) }

// onePass runs one-shot passes beside the daemons, two at once.
func (c *campaign) onePass(ctx context.Context) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			cmd := c.program(c.bin, c.killPoint(), "--since", "24h")
			cmd.Stdout = io.Discard
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if cmd.Start() != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // it may die, and may find something to ask nobody about
			stop()
			c.log.CountPoints(errs.Bytes())
			c.log.Count("process: one-shot pass beside the daemons")
		})
	}
	both.Wait()
}

// killPoint is a fail point at which nobody has to continue the process.
func (c *campaign) killPoint() string {
	return failPoints[rand.IntN(len(failPoints))] + "=kill:0.05"
}

// work plays the workflow: it sends each action once, sees what it sees, and
// records that with the import command, again and again until it succeeds.
func (c *campaign) work(ctx context.Context) error {
	client := &workflow.Client{Timeout: c.Call, IDPath: "id", Code: errorCode}
	r := c.dice(4)
	for len(c.keys) < c.Actions {
		n := min(c.Batch, c.Actions-len(c.keys))
		recs := make([]workflow.Record, n)
		todos := make([]todo, n)
		deaths := make([]float64, n)
		for i := range n {
			no := len(c.keys) + i
			k := provider.Kinds[no%len(provider.Kinds)]
			todos[i] = todo{kind: k, key: fmt.Sprintf("run-%06d:do-%s", no, k)}
			deaths[i] = r.Float64()
		}
		workflow.Each(n, 16, func(i int) { recs[i] = c.act(ctx, client, &todos[i], deaths[i]) })
		if err := ctx.Err(); err != nil {
			return err
		}
		file := filepath.Join(c.dir, fmt.Sprintf("results-%05d.jsonl", len(c.files)))
		if err := workflow.WriteFile(file, recs); err != nil {
			return err
		}
		c.keys = append(c.keys, todos...)
		c.files = append(c.files, file)
		if err := c.record(ctx, file, true); err != nil {
			return err
		}
	}
	return nil
}

// act is one action of the workflow. One in a hundred times the workflow dies:
// before its request or behind it. It has promised by when it sends, or not.
func (c *campaign) act(ctx context.Context, client *workflow.Client, t *todo, death float64) workflow.Record {
	payload, _ := json.Marshal(map[string]any{"reference": t.key, "amount_cents": 1990}) // a text and a number: cannot fail
	a := workflow.Action{Key: t.key, Workflow: "storm", Version: "1", Connector: string(t.kind), Operation: "action.do",
		RecordID: t.key, OutcomeKey: t.key, Owner: "ops", Payload: payload}
	to := "http://" + c.wire.Addr + "/" + string(t.kind) + "/actions"
	switch {
	case death >= 0.01:
		at := client.Send(ctx, to, a)
		t.seen = at.Status
		return workflow.RecordOf(a, at)
	case death >= 0.005:
		t.seen = "died behind its request"
		at := client.Send(ctx, to, a)
		return workflow.RecordOf(a, started(a, at.StartedAt, c.Call, death >= 0.006))
	}
	t.seen = "died before its request"
	return workflow.RecordOf(a, started(a, time.Now().UTC(), c.Call, death >= 0.001))
}

func started(a workflow.Action, at time.Time, call time.Duration, promises bool) workflow.Attempt {
	s := workflow.Attempt{AttemptID: a.Key + "/1", StartedAt: at, Status: "started"}
	if promises {
		by := at.Add(call)
		s.SendBy = &by
	}
	return s
}

func errorCode(body []byte) (code, message string) {
	var e struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(body, &e) // an answer of another shape has no code
	return e.Error.Code, e.Error.Message
}

// record imports a file, until that succeeds.
func (c *campaign) record(ctx context.Context, file string, stormy bool) error {
	for try := 1; ; try++ {
		_, err := c.command(ctx, stormy, "import", file)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !stormy || try > 200 {
			return fmt.Errorf("import %s: %w", filepath.Base(file), err)
		}
		c.log.Count("import: failed, and repeated")
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// drain ends the storm and waits until nothing moves any more. It returns how
// many entries would still.
func (c *campaign) drain(ctx context.Context) (left int, err error) {
	c.prov.SetFaults(provider.Faults{})
	c.wire.Poison(0, 0)
	if c.db != nil {
		c.db.Proxy.CutCommits(0)
	}
	if c.disk != nil {
		c.disk.free()
	}
	c.fleet.Calm()
	if c.Failover {
		// A failover may have lost the last records; imports can be repeated.
		// They wait until what was sent in that span can be seen.
		if err := sleep(ctx, c.Call+c.Lands+c.Visible); err != nil {
			return 0, err
		}
		for _, f := range c.files {
			if err := c.record(ctx, f, false); err != nil {
				return 0, err
			}
		}
	}
	c.say("%s: the storm is over; waiting until nothing moves", c.Ledger)
	for began := time.Now(); ; {
		left, err = c.moving(ctx)
		if err != nil || left == 0 || time.Since(began) > c.Quiet {
			return left, err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return left, err
		}
	}
}
