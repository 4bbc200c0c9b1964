package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
)

// alike makes entries of equal content, in order, and gives the leases of those
// that are to be claimed.
func alike(t *testing.T, s *Store, keys ...string) (es []ledger.Entry, ls []ledger.Lease) {
	t.Helper()
	for _, key := range keys {
		_, err := s.Record(t.Context(), []ledger.Record{{ActionKey: key}}, func(_ *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
			return ledger.Recording{Verdict: ledger.RecordedNew, Entry: ledger.Reopen(ledger.Entry{ActionKey: key, ProviderKey: key, Workflow: "w",
				Connector: "crm", Operation: "o", RecordID: "r", PayloadDigest: "d", Lane: "crm", Effect: ledger.EffectNotDone}, "backoff", now)}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := must(s.Claim(t.Context(), ledger.Claim{Lane: "crm", Work: ledger.WorkAdvance, Limit: len(keys), Holder: "w", Lease: time.Minute}))
	if len(got.Leases) != len(keys) {
		t.Fatalf("claimed %d of %d", len(got.Leases), len(keys))
	}
	for _, st := range got.Entries {
		es = append(es, st.Entry)
	}
	return es, got.Leases
}

// waits returns once somebody waits for a lock that others hold, or has ended
// without.
func waits(t *testing.T, db *sqlx.DB, ended func() bool) {
	t.Helper()
	for ctx := t.Context(); ; {
		if ended() {
			t.Error("it waited for nobody")
			return
		}
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestLeasesAreLockedInTheOrderOfApply: whoever renews or gives back leases, in
// whatever order they are named, and waits for one entry, holds none behind it.
func TestLeasesAreLockedInTheOrderOfApply(t *testing.T) {
	for name, act := range map[string]func(s *Store, ls []ledger.Lease) error{
		"renew":   func(s *Store, ls []ledger.Lease) error { _, err := s.Renew(t.Context(), ls, time.Minute); return err },
		"release": func(s *Store, ls []ledger.Lease) error { return s.Release(t.Context(), ls) },
	} {
		t.Run(name, func(t *testing.T) {
			u := must(url.Parse(pgtest.DB(t)))
			q := u.Query()
			q.Set("options", "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off") // as with a large ledger: entry by entry, as named
			u.RawQuery = q.Encode()
			s := opened(t, u.String(), Options{})
			_, ls := alike(t, s, "a", "b")
			tx := must(s.w.BeginTxx(t.Context(), nil))
			defer rollback(t, tx)
			lock := func(id int64) error {
				_, err := tx.ExecContext(t.Context(), "SELECT id FROM entry WHERE id = $1 FOR UPDATE NOWAIT", id)
				return err
			}
			if err := lock(min(ls[0].EntryID, ls[1].EntryID)); err != nil {
				t.Fatal(err)
			}
			if ls[0].EntryID < ls[1].EntryID {
				ls[0], ls[1] = ls[1], ls[0]
			}
			done := make(chan error, 1)
			go func() { done <- act(s, ls) }()
			waits(t, s.w, func() bool { return len(done) > 0 })
			if err := lock(ls[0].EntryID); err != nil {
				t.Errorf("it holds the later entry while it waits for the earlier one: %v", err)
			}
			rollback(t, tx)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func rollback(t *testing.T, tx *sqlx.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		t.Error(err)
	}
}

// TestAStartBesideAnEqualIntent: of a pass that writes "started" and of an
// intent that is decided at the same time for an equal action, one goes ahead.
func TestAStartBesideAnEqualIntent(t *testing.T) {
	for name, c := range map[string]struct {
		repeats bool
		refused string
	}{
		"the intent is first: the start waits for it, and is refused": {false, refusedOutcome},
		"equal actions are wanted: both":                              {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, ledgerURL string) {
				s := opened(t, ledgerURL, Options{})
				es, ls := alike(t, s, "a")
				now := es[0].NextAt
				out := must(s.Apply(t.Context(), []ledger.Change{{Lease: ls[0], Next: ledger.Advance(es[0], "ok", now.Add(time.Hour)), Keep: true}}))
				if out[0].Err != nil {
					t.Fatal(out[0].Err)
				}
				// The intent has decided, and is not yet written, as the start comes.
				decided, start := make(chan struct{}), make(chan struct{})
				asked := make(chan error, 1)
				go func() {
					_, err := s.Record(context.WithoutCancel(t.Context()), []ledger.Record{{ActionKey: "b"}}, func(_ *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
						e := ledger.Reopen(ledger.Entry{ActionKey: "b", ProviderKey: "b", Workflow: "w", Connector: "crm", Operation: "o",
							RecordID: "r", PayloadDigest: "d", Lane: "crm", Effect: ledger.EffectNotDone}, "intent", now)
						return ledger.Recording{Verdict: ledger.RecordedNew, Entry: e, Then: func(b ledger.Beside) ledger.Recording {
							close(decided)
							<-start
							e := b.Entry
							e.Effect = ledger.EffectUnknown
							return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: ledger.Begin(e, "intent", now.Add(time.Hour)),
								Attempts: []ledger.Attempt{{AttemptID: "intent", Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown}}}
						}}
					})
					asked <- err
				}()
				<-decided
				started := make(chan ledger.Started, 1)
				go func() {
					next := out[0].Entry
					next.Effect = ledger.EffectUnknown
					st, err := s.Start(context.WithoutCancel(t.Context()), ledger.Start{Lease: out[0].Lease, Next: ledger.Begin(next, "sent", now),
						Attempt: ledger.Attempt{AttemptID: "r1", No: 1, Ours: true}, Timeout: time.Second, LeaseFor: time.Minute,
						Generation: next.Generation, Repeats: c.repeats})
					if err != nil {
						t.Error(err)
					}
					started <- st
				}()
				if s.d == postgres {
					waits(t, s.w, func() bool { return len(started) > 0 })
				}
				close(start)
				if err := <-asked; err != nil {
					t.Error(err)
				}
				if st := <-started; st.Refused != c.refused {
					t.Errorf("refused %q, want %q", st.Refused, c.refused)
				}
			})
		})
	}
}
