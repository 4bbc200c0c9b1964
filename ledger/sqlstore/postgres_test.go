package sqlstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

// doubtful is a new entry that is due for a look.
func doubtful(key string, at time.Time) ledger.Entry {
	return ledger.Doubt(ledger.Entry{
		ActionKey: key, Workflow: "w", Connector: "crm", Operation: "o", ProviderKey: key, Lane: "crm", Effect: ledger.EffectUnknown,
	}, "timeout", at)
}

// report records an attempt of an entry, once.
func report(cur *ledger.Stored, r ledger.Record, now time.Time) ledger.Recording {
	a := []ledger.Attempt{{AttemptID: r.RunID, Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown}}
	if cur == nil {
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: doubtful(r.ActionKey, now), Attempts: a}
	}
	if slices.ContainsFunc(cur.Attempts, func(a ledger.Attempt) bool { return a.AttemptID == r.RunID }) {
		return ledger.Recording{Verdict: ledger.RecordedUnchanged}
	}
	return ledger.Recording{Verdict: ledger.RecordedMerged, Entry: cur.Entry, Attempts: a}
}

// TestBehindATransactionPooler: workers that share two sessions do not meet one
// another's statements, and the migrations run there too.
func TestBehindATransactionPooler(t *testing.T) {
	pooled := pgtest.Pooler(t, pgtest.DB(t))
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			s, err := sqlstore.Open(t.Context(), pooled, sqlstore.Options{AutoMigrate: true})
			if err != nil {
				t.Errorf("worker %d: %v", w, err)
				return
			}
			defer s.Close() //nolint:errcheck // what was done is tested
			for i := range 15 {
				key := fmt.Sprintf("w%d-%d", w, i)
				if err := settleOne(t.Context(), s, key); err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
			}
		})
	}
	wg.Wait()
	s := open(t, pooled, sqlstore.Options{})
	if n, all, err := s.Count(t.Context(), ledger.Filter{State: ledger.StateSettled}); err != nil || n != 90 || all != 90 {
		t.Errorf("%d of %d settled, %v; want 90", n, all, err)
	}
}

// settleOne takes an entry from its report through a start to its end.
func settleOne(ctx context.Context, s *sqlstore.Store, key string) error {
	if _, err := s.Record(ctx, []ledger.Record{{ActionKey: key, RunID: "a1"}}, report); err != nil {
		return err
	}
	got, err := s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 1, Holder: key, Lease: time.Minute, Filter: ledger.Filter{ActionKeys: []string{key}}})
	if err != nil {
		return err
	}
	if len(got.Entries) != 1 || got.Entries[0].Entry.ActionKey != key {
		return fmt.Errorf("claimed %d entries", len(got.Entries))
	}
	e := got.Entries[0].Entry
	e.Effect = ledger.EffectNotDone
	e = ledger.Reopen(e, "absent", got.Now)
	out, err := s.Apply(ctx, []ledger.Change{{Lease: got.Leases[0], Next: e, Keep: true}})
	if err != nil || out[0].Err != nil {
		return errors.Join(err, out[0].Err)
	}
	out, err = s.Apply(ctx, []ledger.Change{{Lease: out[0].Lease, Next: ledger.Advance(out[0].Entry, "ok", got.Now.Add(time.Minute)), Keep: true}})
	if err != nil || out[0].Err != nil {
		return errors.Join(err, out[0].Err)
	}
	next := out[0].Entry
	next.Effect = ledger.EffectUnknown
	st, err := s.Start(ctx, ledger.Start{
		Lease: out[0].Lease, Next: ledger.Begin(next, "sent", got.Now), Attempt: ledger.Attempt{AttemptID: "r2", No: 2, Ours: true},
		Timeout: time.Second, LeaseFor: time.Minute, Concurrent: 100, Generation: next.Generation,
	})
	if err != nil {
		return err
	}
	if st.Refused != "" {
		return fmt.Errorf("refused: %s", st.Refused)
	}
	done := ledger.Settle(st.Entry, ledger.OutcomeApplied, ledger.BySend, "sent", st.StartedAt)
	out, err = s.Apply(ctx, []ledger.Change{{Lease: st.Lease, Next: done}})
	return errors.Join(err, out[0].Err)
}

// TestCommitThatIsNotDurable: a commit that stops waiting for the standby
// succeeds with a warning, and counts as a failure here.
func TestCommitThatIsNotDurable(t *testing.T) {
	server := pgtest.Start(t, nil)
	s := open(t, server.DB(t), sqlstore.Options{AutoMigrate: true})
	ctx := t.Context()
	admin := raw(t, server.Admin())
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := admin.ExecContext(ctx, query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	run("SELECT pg_reload_conf()")
	done := make(chan error, 1)
	go func() {
		_, err := s.Record(ctx, []ledger.Record{{ActionKey: "k", RunID: "a1"}}, report)
		done <- err
	}()
	deadline := time.Now().Add(30 * time.Second)
	for {
		var n int
		err := admin.QueryRowContext(ctx, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no commit waited for the standby")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := <-done; !errors.Is(err, ledger.ErrNotDurable) {
		t.Errorf("record: %v, want not durable", err)
	}
	run("ALTER SYSTEM RESET synchronous_standby_names")
	run("SELECT pg_reload_conf()")
	out, err := s.Record(ctx, []ledger.Record{{ActionKey: "k", RunID: "a1"}}, report)
	if err != nil || out[0].Verdict != ledger.RecordedUnchanged {
		t.Errorf("again: %+v, %v; want unchanged", out, err)
	}
}

// TestRoleWithoutTheSystemIdentifier: what may not be asked is done without.
func TestRoleWithoutTheSystemIdentifier(t *testing.T) {
	server := pgtest.Start(t, nil)
	dbURL := server.DB(t)
	admin, err := url.Parse(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	admin.Path = u.Path
	if _, err := raw(t, admin.String()).ExecContext(t.Context(), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	s := open(t, dbURL, sqlstore.Options{AutoMigrate: true})
	if err := settleOne(t.Context(), s, "k"); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Meta(t.Context(), "system_identifier"); err != nil || id != "" {
		t.Errorf("system identifier %q, %v", id, err)
	}
	if err := s.SetMeta(t.Context(), "timeline", "000000FF"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 1, Holder: "w", Lease: time.Minute}); !errors.Is(err, ledger.ErrGeneration) {
		t.Errorf("another timeline: %v", err)
	}
}

// TestServerThatIsKilled: what was answered is there, and the store goes on by
// itself.
func TestServerThatIsKilled(t *testing.T) {
	server := pgtest.Start(t, nil)
	s := open(t, server.DB(t), sqlstore.Options{AutoMigrate: true})
	if err := settleOne(t.Context(), s, "before"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if _, err := s.Entry(t.Context(), "before"); err == nil || errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("while it is down: %v", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Entry(t.Context(), "before"); err != nil || e.Entry.State != ledger.StateSettled {
		t.Errorf("after it: %s, %v", e.Entry.State, err)
	}
	if err := settleOne(t.Context(), s, "after"); err != nil {
		t.Error(err)
	}
}

// TestAnswerOfACommitThatIsLost: the transaction was done, the caller was told
// that it failed, and tries again: nothing is there twice.
func TestAnswerOfACommitThatIsLost(t *testing.T) {
	dbURL := pgtest.DB(t)
	direct := open(t, dbURL, sqlstore.Options{AutoMigrate: true})
	cut := &cutter{}
	s := open(t, cut.start(t, dbURL), sqlstore.Options{})
	ctx := t.Context()
	recs := []ledger.Record{{ActionKey: "k", RunID: "a1"}}

	cut.armed.Store(true)
	if _, err := s.Record(ctx, recs, report); err == nil {
		t.Fatal("the answer was not lost")
	}
	out, err := s.Record(ctx, recs, report)
	if err != nil || out[0].Verdict != ledger.RecordedUnchanged {
		t.Fatalf("recorded again: %+v, %v", out, err)
	}
	got, err := s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 10, Holder: "w", Lease: time.Minute})
	if err != nil || len(got.Leases) != 1 {
		t.Fatalf("claim: %v, %v", got.Leases, err)
	}
	change := []ledger.Change{{
		Lease: got.Leases[0], Next: ledger.Reopen(got.Entries[0].Entry, "absent", got.Now),
		Attempts: []ledger.Attempt{{AttemptID: "r2", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown}},
		Evidence: []ledger.Evidence{{Finding: ledger.FindingAbsent, AskedAt: got.Now, Digest: "d"}},
	}}
	cut.armed.Store(true)
	if _, err := s.Apply(ctx, change); err == nil {
		t.Fatal("the answer was not lost")
	}
	applied, err := s.Apply(ctx, change)
	if err != nil || !errors.Is(applied[0].Err, ledger.ErrLeaseLost) {
		t.Fatalf("applied again: %+v, %v", applied, err)
	}
	st, err := direct.Entry(ctx, "k")
	if err != nil || st.Entry.State != ledger.StateRetryable || len(st.Attempts) != 2 {
		t.Errorf("stored %+v, %v", st, err)
	}
	hs, err := direct.History(ctx, st.Entry.ID)
	evs, err2 := direct.Evidence(ctx, st.Entry.ID)
	if err := errors.Join(err, err2); err != nil || len(hs) != 2 || len(evs) != 1 {
		t.Errorf("%d rows of history, %d of evidence, %v; want 2 and 1", len(hs), len(evs), err)
	}
}

// cutter is a proxy that, when armed, lets one COMMIT through and cuts the
// connection instead of handing on the answer.
type cutter struct{ armed atomic.Bool }

func (c *cutter) start(t *testing.T, dbURL string) string {
	t.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	server := u.Host
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(client, server) })
		}
	})
	u.Host = ln.Addr().String()
	return u.String()
}

func (c *cutter) serve(client net.Conn, address string) {
	defer client.Close() //nolint:errcheck // cutting is what it is for
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // likewise
	var cutting atomic.Bool
	go func() {
		defer server.Close() //nolint:errcheck // likewise
		// The first message has no type: length, then content.
		if !forward(client, server, 0, nil) {
			return
		}
		for forward(client, server, 1, func(kind byte, body []byte) {
			if kind == 'Q' && string(body) == "COMMIT\x00" && c.armed.CompareAndSwap(true, false) {
				cutting.Store(true)
			}
		}) {
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil || cutting.Load() {
			return // the server has answered, so it is done
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// forward hands on one message of the protocol.
// Source: PostgreSQL 15 manual, "Message Formats".
func forward(from io.Reader, to io.Writer, typed int, see func(kind byte, body []byte)) bool {
	head := make([]byte, typed+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return false
	}
	body := make([]byte, binary.BigEndian.Uint32(head[typed:])-4)
	if _, err := io.ReadFull(from, body); err != nil {
		return false
	}
	if see != nil {
		see(head[0], body)
	}
	_, err := to.Write(append(head, body...))
	return err == nil
}
