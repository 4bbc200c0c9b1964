package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/ledger"
)

// How a daemon asks for a database that is away: after a second, then after
// twice as long each time up to the second span, since a database that starts
// beside it takes some seconds and one that is repaired takes hours. It says so
// at once, and then as often as the third.
const (
	awayFirst = time.Second
	awayMost  = 15 * time.Second
	awayTold  = 5 * time.Minute
)

// begin opens the ledger and the engine over it, and notes in the ledger what
// this process was made for. What it ends with leaves nothing open.
func (s *session) begin(ctx context.Context) error {
	err := s.openEngine(ctx)
	if err == nil {
		err = s.engine.Announce(ctx)
	}
	if err != nil {
		s.close()
	}
	return err
}

// beginWaiting is begin, again and again until the database, which was away the
// first time, is there. It ends early with what waiting does not mend, and
// where ctx is over.
func (s *session) beginWaiting(ctx context.Context, away error, log *slog.Logger) error {
	since := time.Now()
	told, pause := time.Time{}, awayFirst
	for tries := 1; ; tries++ {
		if time.Since(told) >= awayTold {
			told = time.Now()
			log.Warn("the database is away; the daemon waits for it and asks again", "ledger", config.RedactURL(s.url), "tries", tries,
				"since", since.UTC(), "err", away)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause = min(2*pause, awayMost)
		if away = s.begin(ctx); away == nil {
			log.Info("the database is there", "tries", tries+1, "since", since.UTC())
			return nil
		}
		if ctx.Err() != nil || !errors.Is(away, ledger.ErrUnreachable) {
			return away
		}
	}
}
