package sqlstore

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestTokens(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		ctx := t.Context()
		if _, err := s.TokenByDigest(ctx, ledger.TokenDigest("nobody's")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a token that nobody made: %v", err)
		}
		if _, err := s.RevokeToken(ctx, "n8n"); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("revoking one that nobody made: %v", err)
		}
		first := ledger.TokenDigest(ledger.NewToken())
		made, err := s.CreateToken(ctx, "n8n", []ledger.Scope{ledger.ScopeIngest, ledger.ScopeRead}, first)
		if err != nil {
			t.Fatal(err)
		}
		if made.CreatedAt.IsZero() || !made.May(ledger.ScopeRead) || made.May(ledger.ScopePayload) {
			t.Errorf("made %+v", made)
		}
		got, err := s.TokenByDigest(ctx, first)
		if diff := cmp.Diff(made, got); err != nil || diff != "" {
			t.Errorf("found: %v, %s", err, diff)
		}
		second := ledger.TokenDigest(ledger.NewToken())
		if _, err := s.CreateToken(ctx, "n8n", []ledger.Scope{ledger.ScopeRead}, second); !errors.Is(err, ledger.ErrTokenTaken) {
			t.Errorf("a name that is taken: %v", err)
		}
		if _, err := s.TokenByDigest(ctx, second); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("it was kept all the same: %v", err)
		}

		ended, err := s.RevokeToken(ctx, "n8n")
		if err != nil || ended.RevokedAt.IsZero() || ended.May(ledger.ScopeRead) {
			t.Errorf("revoked: %v, %+v", err, ended)
		}
		again, err := s.RevokeToken(ctx, "n8n")
		if !errors.Is(err, ledger.ErrTokenRevoked) || !again.RevokedAt.Equal(ended.RevokedAt) {
			t.Errorf("revoked twice: %v, %+v", err, again)
		}
		if got, err := s.TokenByDigest(ctx, first); err != nil || got.RevokedAt.IsZero() {
			t.Errorf("one revoked is known still: %v, %+v", err, got)
		}

		if _, err := s.CreateToken(ctx, "n8n", []ledger.Scope{ledger.ScopeOperate}, second); err != nil {
			t.Errorf("the name is free again: %v", err)
		}
		if _, err := s.CreateToken(ctx, "bot", nil, ledger.TokenDigest("x")); err != nil {
			t.Error(err)
		}
		list, err := s.Tokens(ctx)
		var names []string
		for _, l := range list {
			names = append(names, l.Name)
		}
		if err != nil || !slices.Equal(names, []string{"bot", "n8n", "n8n"}) || list[1].Digest != first || list[2].Digest != second {
			t.Errorf("listed: %v, %+v", err, list)
		}
		if ended, err := s.RevokeToken(ctx, "n8n"); err != nil || ended.Digest != second {
			t.Errorf("the one that is good is revoked: %v, %+v", err, ended)
		}
	})
}

func TestATokenNameIsGivenOnceToManyWhoWantIt(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = s.CreateToken(t.Context(), "n8n", nil, ledger.TokenDigest(ledger.NewToken()))
			})
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			switch {
			case err == nil:
				made++
			case !errors.Is(err, ledger.ErrTokenTaken):
				t.Errorf("the others are told that it is taken: %v", err)
			}
		}
		if made != 1 {
			t.Errorf("made %d times", made)
		}
	})
}
