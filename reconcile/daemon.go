package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

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

	// Passed, where it is set before Run, is told of each pass when it has ended.
	Passed func(t Tally, err error)
}

type daemonJob struct {
	name     string
	schedule string
	table    Timetable
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
		table, err := ParseTimetable(schedule, d.zone)
		if err != nil {
			errs = append(errs, fmt.Errorf("schedule.%s: %w", name, err))
			return
		}
		d.jobs = append(d.jobs, daemonJob{name: name, schedule: schedule, steps: step, table: table})
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
			at = j.table.next(at).at
			rs = append(rs, Run{Job: j.name, Schedule: j.schedule, At: at})
		}
	}
	return rs
}

// beat is how often the daemon looks at the clock. It goes by the time of day,
// and not by timers, which stand still while a host sleeps.
const beat = time.Second

// late is how far behind its slot a run may begin without a word. A minute: as
// long as a pass may well take.
const late = time.Minute

// setBack is how far a slot may lie behind the next one that the timetable names
// now before the clock counts as set back.
const setBack = time.Second

// Run runs the jobs until ctx is cancelled: each at once, then on its schedule.
// Slots that were missed, by a long pass or a host that slept, are made up for
// by one run. Then it starts nothing new, waits for the pass under way (which
// stops by itself, within grace), and returns nil. A job never overlaps itself
// or another one; a panic in a pass is logged and ends that pass alone.
func (d *Daemon) Run(ctx context.Context) error {
	turn := make(chan struct{}, 1) // one pass at a time: whoever put the token in
	sched, err := gocron.NewScheduler(gocron.WithLocation(d.zone), gocron.WithStopTimeout(time.Millisecond),
		gocron.WithGlobalJobOptions(gocron.WithSingletonMode(gocron.LimitModeReschedule)))
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	due := make([]slot, len(d.jobs))
	now := clockOnTheWall()
	for i := range due {
		due[i] = slot{at: now}
	}
	task := func() {
		for i, j := range d.jobs {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return
			}
			func() {
				defer func() {
					if what := recover(); what != nil {
						d.log.Error("a pass broke off", "job", j.name, "err", fmt.Sprint(what))
					}
					<-turn
				}()
				if d.reached(j, &due[i], clockOnTheWall()) {
					d.once(ctx, j)
				}
			}()
		}
	}
	if _, err := sched.NewJob(gocron.DurationJob(beat), gocron.NewTask(task), gocron.WithName("passes"), gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
		return fmt.Errorf("daemon: %w", err)
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

// clockOnTheWall is the time of day, without the monotonic reading that would
// win in comparisons.
func clockOnTheWall() time.Time { return time.Now().Round(0) }

// reached says whether a job's slot has come, and then sets its next one.
func (d *Daemon) reached(j daemonJob, due *slot, now time.Time) bool {
	if due.at.IsZero() || due.at.After(now) {
		if next := j.table.next(now); !next.at.IsZero() && due.at.Sub(next.at) > setBack {
			*due = next // the clock was set back
		}
		return false
	}
	if due.shifted {
		d.log.Info("a slot was shifted by the change of clocks", "job", j.name, "at", due.at)
	}
	if now.Sub(due.at) > late {
		d.log.Info("slots were missed; one run makes up for them", "job", j.name, "missed", 1+j.table.missed(due.at, now), "since", due.at)
	}
	*due = j.table.next(now)
	return true
}

// once runs one pass of a job and logs one line.
func (d *Daemon) once(ctx context.Context, j daemonJob) {
	if ctx.Err() != nil {
		return
	}
	t, err := d.pass(ctx, PassOptions{Steps: j.steps})
	if d.Passed != nil {
		d.Passed(t, err)
	}
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
