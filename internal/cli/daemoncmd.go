package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/internal/httpapi"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// daemonOptions are the flags of daemon.
type daemonOptions struct {
	explain bool
	runs    int
	output  string
	logJSON bool
}

func newDaemon(a *app) *cobra.Command {
	var o daemonOptions
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "run passes on the schedule of the config, until a signal",
		Long: `daemon runs the steps of a pass on the schedule of the config, one pass at a time.
Several daemons may share one PostgreSQL ledger. It logs to stderr, one line per
pass and per change of an entry. On SIGINT or SIGTERM it claims nothing new, lets
calls under way finish within the grace period, and exits 0; a second signal ends
it at once.

Beside that it answers HTTP where daemon.listen says (127.0.0.1:8321 unless the
config says otherwise; "off": nowhere): reports of actions, entries, reports and
people's actions for those who have a token (reconcile token create), and
/healthz, /readyz and /metrics for everybody. See docs/http.md.

A PostgreSQL server that is away when it starts is waited for, as one that goes
away later is; a wrong login or another schema ends it at once.

Notices, digest, weekly and prune are not supported yet.`,
		Example: "  reconcile daemon\n  reconcile daemon --explain",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.run(cmd.Context(), a)
			if !o.explain && exitCode(cmd.Context(), err) == ExitInterrupted {
				return nil // stopped while it started: nothing had begun
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.explain, "explain", false, "print the next runs of each job, and run nothing")
	fs.IntVar(&o.runs, "runs", 3, "with --explain: how many `runs` of each job")
	fs.BoolVar(&o.logJSON, "log-json", false, "log JSON lines")
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

func (o daemonOptions) run(ctx context.Context, a *app) error {
	if o.runs < 1 {
		return usagef("--runs %d: give a number of 1 or more", o.runs)
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	log := o.log(a)
	s.log = log
	if o.explain {
		return o.print(ctx, a, s)
	}
	passLog := reconcile.NewPassLog(log.Handler())
	s.log = slog.New(passLog)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	away := s.begin(ctx)
	if away != nil && !errors.Is(away, ledger.ErrUnreachable) {
		return away
	}
	api := httpapi.New(httpapi.Options{Recorder: *s.recorder(), Zone: s.zone,
		Parse:   s.parseOptions(time.Time{}), // the moment of receipt is each request's own
		Version: buildVersion(), Log: log})
	if away == nil {
		api.Open(s.store, s.engine)
	}
	served, err := s.serve(ctx, stop, api, log)
	if err != nil {
		return err
	}
	defer log.Info("daemon stopped")
	err = s.passes(ctx, away, api, passLog, log)
	stop(nil) // where it ended by itself
	return errors.Join(err, <-served)
}

// passes runs passes until ctx is over; where the database was away, from when it
// is there.
func (s *session) passes(ctx context.Context, away error, api *httpapi.API, passLog *reconcile.PassLog, log *slog.Logger) error {
	if away != nil {
		err := s.beginWaiting(ctx, away, log)
		switch {
		case ctx.Err() != nil:
			return nil // told to stop
		case err != nil:
			return err
		}
		api.Open(s.store, s.engine)
	}
	d, err := reconcile.NewDaemon(s.engine, schedule(s.cfg), s.cfg.Daemon.Grace, log)
	if err != nil {
		return asUsage(err)
	}
	d.Passed = func(t reconcile.Tally, err error) {
		passLog.Ended()
		api.Passed(t, err)
	}
	log.Info("daemon started", "ledger", config.RedactURL(s.url), "config", configName(s.cfg), "version", buildVersion(), "policy_version", s.cfg.Policies.Version)
	return d.Run(ctx)
}

// serve begins to answer HTTP, where the config wants that. What it ends with
// comes on served once ctx is over; a server that breaks by itself ends the
// daemon, so that whatever watches it starts another.
func (s *session) serve(ctx context.Context, stop context.CancelCauseFunc, api *httpapi.API, log *slog.Logger) (served <-chan error, err error) {
	ended := make(chan error, 1)
	c := s.cfg.Daemon
	if c.Listen == "" {
		ended <- nil
		return ended, nil
	}
	l, err := httpapi.Listen(ctx, c.Listen, httpapi.TLSFiles{Cert: c.TLSCert, Key: c.TLSKey}, api, log)
	switch {
	case errors.Is(err, httpapi.ErrAddressTaken) && !s.cfg.Writes("daemon.listen"):
		log.Warn("HTTP is not answered by this daemon; give it a port of its own with daemon.listen, or write \"off\"", "err", err)
		ended <- nil
		return ended, nil
	case err != nil:
		return nil, err
	}
	log.Info("http", "address", l.Address())
	go func() {
		err := l.Serve(ctx, c.Grace)
		stop(err) // nil: it is over already
		ended <- err
	}()
	return ended, nil
}

func (o daemonOptions) log(a *app) *slog.Logger {
	if o.logJSON {
		return slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	return slog.New(slog.NewTextHandler(a.Err, nil))
}

// schedule takes the steps of a pass from the config; digest, weekly and prune
// are no part of a pass.
func schedule(c *config.Config) reconcile.Schedule {
	return reconcile.Schedule{
		Settle: c.Schedule.Settle, Advance: c.Schedule.Advance,
		Release: c.Schedule.Release, Escalate: c.Schedule.Escalate,
		Zone: c.Timezone,
	}
}

var runColumns = []render.Column{
	{Name: "job", Kind: render.Key},
	{Name: "schedule"},
	{Name: "at"},
}

func (o daemonOptions) print(ctx context.Context, a *app, s *session) error {
	if err := s.openEngine(ctx); err != nil {
		return err
	}
	d, err := reconcile.NewDaemon(s.engine, schedule(s.cfg), s.cfg.Daemon.Grace, s.log)
	if err != nil {
		return asUsage(err)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, r := range d.Explain(now, o.runs) {
		at := any(r.At)
		if o.output == formatTable {
			at = r.At.Format("Mon 2006-01-02 15:04:05 MST")
		}
		rows = append(rows, []any{r.Job, r.Schedule, at})
	}
	return a.rows(o.output, runColumns, render.Slice(rows), now)
}
