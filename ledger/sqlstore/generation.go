package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Unsettle makes negatives void and starts quiet periods at now; see
// ledger.Store. With generation it does more, once: a process that was told
// ErrGeneration, and finds that another one has answered it meanwhile, changes
// nothing.
func (s *Store) Unsettle(ctx context.Context, reason string, generation bool, longest time.Duration) (entries int, err error) {
	err = s.write(ctx, "unsettle", func(tx *txn) error {
		entries = 0
		var stored int64
		if generation {
			// Before the entries are locked: who finds that another one has
			// answered it need not wait for them.
			if _, err := s.one(ctx, tx, "generation_lock", nil, &stored); err != nil {
				return err
			}
			if noticed := s.replaced.Load(); noticed != 0 && stored > noticed-1 {
				return nil
			}
		}
		now, err := s.durableNow(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, "entries_lock", nil); err != nil {
			return err
		}
		a := func() args {
			return args{"now": micros(now), "send_by": micros(now.Add(longest)), "note": storable(reason)}
		}
		if generation {
			if err := s.raiseGeneration(ctx, tx, stored+1, a); err != nil {
				return err
			}
		}
		for _, name := range []string{"negatives_void", "void_history"} {
			if _, err := s.exec(ctx, tx, name, a()); err != nil {
				return err
			}
		}
		entries, err = s.exec(ctx, tx, "quiet_again", a())
		return err
	})
	if err == nil && generation {
		s.replaced.Store(0)
	}
	return entries, err
}

// raiseGeneration notes the present server under a new generation, makes what
// was due unknown, and ends all claims. What may have been sent in the lost
// span becomes an attempt of unknown effect, since an entry's effect is that of
// its attempts.
func (s *Store) raiseGeneration(ctx context.Context, tx *txn, generation int64, a func() args) error {
	set := a()
	set["generation"] = generation
	if _, err := s.exec(ctx, tx, "generation_set", set); err != nil {
		return err
	}
	attempts := a()
	attempts["attempt_id"] = fmt.Sprintf("%s%d", ledger.LostAttempt, generation)
	if _, err := s.exec(ctx, tx, "lost_attempts", attempts); err != nil {
		return err
	}
	for _, name := range []string{"lost_history", "lost_entries", "claims_void"} {
		if _, err := s.exec(ctx, tx, name, a()); err != nil {
			return err
		}
	}
	return nil
}
