package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/robfig/cron/v3"

	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Schedule says when each step runs: an interval ("30s") or a cron line of five
// fields, in Zone. An empty one runs never.
type Schedule struct {
	Settle, Advance, Release, Escalate string
	Zone                               *time.Location // nil: UTC
}

// Daemon runs passes on a schedule, one at a time, until it is stopped.
type Daemon struct {
	jobs  []daemonJob
	zone  *time.Location
	grace time.Duration
	log   *slog.Logger
	pass  func(context.Context, PassOptions) (Tally, error)
}

type daemonJob struct {
	name     string
	schedule string
	every    time.Duration // of an interval; else zero
	cron     cron.Schedule // of a cron line; else nil
	steps    Steps
}

// NewDaemon checks the schedule. Steps that run at the same times run in one
// pass, in their order. grace is how long a stop waits for calls under way.
func NewDaemon(e *Engine, s Schedule, grace time.Duration, log *slog.Logger) (*Daemon, error) {
	d := &Daemon{zone: s.Zone, grace: grace, log: log, pass: e.Pass}
	if d.zone == nil {
		d.zone = time.UTC
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	var errs []error
	add := func(name, schedule string, step Steps) {
		if schedule == "" {
			return
		}
		for i := range d.jobs {
			if d.jobs[i].schedule == schedule {
				d.jobs[i].steps = d.jobs[i].steps.and(step)
				d.jobs[i].name += "+" + name
				return
			}
		}
		j := daemonJob{name: name, schedule: schedule, steps: step}
		var err error
		if j.every, err = duration.Parse(schedule); err != nil || j.every <= 0 {
			j.every = 0
			if j.cron, err = cron.ParseStandard(schedule); err != nil {
				errs = append(errs, fmt.Errorf("schedule.%s: %q is neither an interval (\"30s\") nor a cron line (\"*/5 * * * *\"): %w", name, schedule, err))
			}
		}
		d.jobs = append(d.jobs, j)
	}
	add("settle", s.Settle, Steps{Settle: true})
	add("release", s.Release, Steps{Release: true})
	add("advance", s.Advance, Steps{Advance: true})
	add("escalate", s.Escalate, Steps{Escalate: true})
	return d, errors.Join(errs...)
}

func (s Steps) and(o Steps) Steps {
	return Steps{s.Settle || o.Settle, s.Release || o.Release, s.Advance || o.Advance, s.Escalate || o.Escalate}
}

// Run is one planned run of a job.
type Run struct {
	Job, Schedule string
	At            time.Time
}

// Explain lists the next n runs of each job after the time given.
func (d *Daemon) Explain(after time.Time, n int) []Run {
	var rs []Run
	for _, j := range d.jobs {
		at := after.In(d.zone)
		for range n {
			if j.cron != nil {
				at = j.cron.Next(at)
			} else {
				at = at.Add(j.every)
			}
			rs = append(rs, Run{Job: j.name, Schedule: j.schedule, At: at})
		}
	}
	return rs
}

// Run runs the jobs until ctx is cancelled: each at once, then on its schedule.
// Then it starts nothing new, waits for the pass under way (which stops by
// itself, within grace), and returns nil. A job never overlaps itself or
// another one; a panic in a pass is logged and ends that pass alone.
func (d *Daemon) Run(ctx context.Context) error {
	turn := make(chan struct{}, 1) // one pass at a time: whoever put the token in
	sched, err := gocron.NewScheduler(gocron.WithLocation(d.zone), gocron.WithStopTimeout(time.Millisecond),
		gocron.WithGlobalJobOptions(gocron.WithSingletonMode(gocron.LimitModeReschedule),
			gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(func(_ uuid.UUID, name string, what any) {
				d.log.Error("a pass broke off", "job", name, "err", fmt.Sprint(what))
			}))))
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	for _, j := range d.jobs {
		def := gocron.DurationJob(j.every)
		if j.cron != nil {
			def = gocron.CronJob(j.schedule, false)
		}
		task := func() {
			if ctx.Err() != nil {
				return
			}
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
				d.once(ctx, j)
			case <-ctx.Done():
			}
		}
		if _, err := sched.NewJob(def, gocron.NewTask(task), gocron.WithName(j.name), gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
			return fmt.Errorf("daemon: job %s: %w", j.name, err)
		}
	}
	sched.Start()
	<-ctx.Done()
	// Nothing new starts from here on. The pass under way sees the same ctx: it
	// writes what it has learned and ends, once the calls that it made have.
	if err := sched.Shutdown(); err != nil && !errors.Is(err, gocron.ErrStopJobsTimedOut) {
		d.log.Warn("scheduler did not stop cleanly", "err", err)
	}
	t := time.NewTimer(d.grace)
	defer t.Stop()
	select {
	case turn <- struct{}{}: // the pass under way has ended
	case <-t.C:
		d.log.Warn("a call took longer than the grace period; its entry is looked at once its lease has ended")
	}
	return nil
}

// once runs one pass of a job and logs one line.
func (d *Daemon) once(ctx context.Context, j daemonJob) {
	if ctx.Err() != nil {
		return
	}
	t, err := d.pass(ctx, PassOptions{Steps: j.steps})
	for _, n := range t.Notes {
		d.log.Warn(n, "job", j.name)
	}
	c := t.Counts
	args := []any{"job", j.name, "run_id", t.RunID, "looked_up", c.LookedUp, "settled_applied", c.SettledApplied, "settled_not_applied", c.SettledNotApplied,
		"reopened", c.Reopened, "could_not_ask", c.CouldNotAsk, "advanced", c.Advanced, "sent", c.Sent, "recovered", c.Recovered,
		"blocked", c.Blocked, "released", c.Released, "deferred", c.Deferred, "escalated", c.Escalated, "skipped", c.Skipped}
	switch {
	case errors.Is(err, ledger.ErrInterrupted):
		d.log.Info("pass stopped", args...)
	case err != nil:
		d.log.Warn("pass failed; it will be tried again", append(args, "err", err)...)
	default:
		d.log.Info("pass", args...)
	}
}
