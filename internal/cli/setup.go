package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/all"
	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/redact"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// session is what a command works with: the config, checked as a whole, and
// the ledger and engine once they are opened.
type session struct {
	app        *app
	cfg        *config.Config
	zone       *time.Location
	url        string // of the ledger
	connectors map[string]connectors.Connector
	log        *slog.Logger // of the ledger and the engine

	store  *sqlstore.Store
	engine *reconcile.Engine
	pacing pacing
}

// load finds the config, reads it and checks all of it, policies and
// connectors included. Every mistake is a usage error. It reaches no outside
// system and no ledger.
func (a *app) load() (*session, error) {
	path, found, err := config.Find(a.configFile, a.Env)
	if err != nil {
		return nil, asUsage(err)
	}
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		return nil, err
	}
	s := &session{app: a, log: a.warnings()}
	if s.cfg, s.connectors, err = config.Open(path, a.Env, reg, s.pacing.pacer); err != nil {
		return nil, asUsage(err)
	}
	s.zone = s.cfg.Timezone
	if s.url, err = config.LedgerURL(a.ledgerURL, a.Env, s.cfg); err != nil {
		return nil, asUsage(err)
	}
	if !found {
		a.note("no config found; the defaults hold (reconcile init writes one)")
	}
	for _, w := range s.cfg.Warnings {
		a.note("warning: %s", w)
	}
	return s, nil
}

// warnings is the log of every command but the daemon: what somebody should
// know beside the result. The steps of a pass are part of what it prints.
func (a *app) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openLedger opens the ledger. A SQLite one is created and migrated on first
// use; a PostgreSQL one only where the config says so.
func (s *session) openLedger(ctx context.Context) error {
	isNew := newFile(s.url)
	store, err := sqlstore.Open(ctx, s.url, sqlstore.Options{AutoMigrate: s.cfg.Ledger.AutoMigrate, Log: s.log})
	if err != nil {
		return err
	}
	s.store = store
	if isNew {
		s.app.note("created the ledger %s", config.RedactURL(s.url))
	}
	return nil
}

// newFile says whether a ledger is a file that is not there yet. Whoever meant
// another folder should not take an empty ledger for an answer.
func newFile(ledgerURL string) bool {
	file, ok := strings.CutPrefix(ledgerURL, "sqlite:")
	if !ok {
		return false
	}
	_, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// openEngine opens the ledger and the engine over it. From then on every call
// of a connector waits for its lane.
func (s *session) openEngine(ctx context.Context) error {
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	lanes := reconcile.NewLanes(s.store)
	s.pacing.set(lanes.Pacer)
	engine, err := reconcile.New(reconcile.Options{
		Store: s.store, Connectors: s.connectors, Lanes: lanes,
		Policies: s.cfg.Policies, Owners: s.cfg.Owners, Lease: s.cfg.Ledger.Lease, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.engine = engine
	return nil
}

// selection opens the ledger, or the engine over it, and reads which entries
// are meant, at the ledger's time now. Whatever was typed wrong is told before
// anything is opened.
func (s *session) selection(ctx context.Context, flags filterFlags, open func(context.Context) error) (f ledger.Filter, now time.Time, err error) {
	if _, err := flags.filter(s.app.Now(), s.zone); err != nil {
		return f, now, err
	}
	if err := open(ctx); err != nil {
		return f, now, err
	}
	if now, err = s.store.Now(ctx); err != nil {
		return f, now, err
	}
	f, err = flags.filter(now, s.zone)
	return f, now, err
}

// viewer reads entries as they are shown.
func (s *session) viewer() reconcile.Viewer {
	return reconcile.Viewer{Store: s.store, Connectors: s.connectors, Policies: s.cfg.Policies, Owners: s.cfg.Owners}
}

// recorder is what makes entries of records.
func (s *session) recorder() *reconcile.Recorder {
	return &reconcile.Recorder{Connectors: s.connectors, Policies: s.cfg.Policies, Owners: s.cfg.Owners,
		PayloadMax: int(s.cfg.Ledger.PayloadMax), Actor: "import"}
}

// connector finds a connector by its name in the config.
func (s *session) connector(name string) (connectors.Connector, error) {
	c, ok := s.connectors[name]
	if !ok {
		return nil, s.noConnector(name)
	}
	return c, nil
}

// noConnector is the mistake of a name that no connector in the config has.
func (s *session) noConnector(name string) error {
	names := sortedKeys(s.connectors)
	hint := nearest.Hint(name, names)
	switch {
	case hint != "":
	case len(names) == 0:
		hint = "; it has none"
	case len(names) <= 10:
		hint = "; it has " + strings.Join(names, ", ")
	default:
		hint = "; see: reconcile connectors"
	}
	return usagef("no connector %q in the config%s", name, hint)
}

// close lets the ledger go.
func (s *session) close() {
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil && !errors.Is(err, context.Canceled) {
		s.app.note("reconcile: close the ledger: %v", err)
	}
	s.store = nil
}

// pacing gives connectors their pacer before there is a ledger to pace them
// with: the config is checked first, and connectors are opened once.
type pacing struct {
	mu sync.Mutex
	by func(lane string) connectors.Pacer // nil: nothing is paced yet
}

func (p *pacing) set(by func(lane string) connectors.Pacer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by = by
}

func (p *pacing) pacer(lane string) connectors.Pacer { return latePacer{p, lane} }

type latePacer struct {
	pacing *pacing
	lane   string
}

// Wait implements connectors.Pacer.
func (l latePacer) Wait(ctx context.Context, bucket string) error {
	l.pacing.mu.Lock()
	by := l.pacing.by
	l.pacing.mu.Unlock()
	if by == nil {
		return ctx.Err()
	}
	return by(l.lane).Wait(ctx, bucket)
}

// parseOptions say how the records of an import are read. now is the moment of
// receipt.
func (s *session) parseOptions(now time.Time) ledger.ParseOptions {
	return ledger.ParseOptions{
		Now:        now,
		PayloadMax: int(s.cfg.Ledger.PayloadMax),
		Redact:     redact.New(s.cfg.Secrets()...).Text,
		Restore:    true, // an export is imported like any other file
	}
}
