package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/recovery-ledger/reconcile/ledger"
)

var tokenLayout = layoutOf("api_token", ledger.APIToken{})

// CreateToken keeps a new token by its digest. ledger.ErrTokenTaken: a token of
// that name is in use.
func (s *Store) CreateToken(ctx context.Context, name string, scopes []ledger.Scope, digest string) (ledger.APIToken, error) {
	t := ledger.APIToken{Digest: digest, Name: storable(name), Scopes: scopes}
	words := make([]string, len(scopes))
	for i, scope := range scopes {
		words[i] = string(scope)
	}
	err := s.write(ctx, fmt.Sprintf("create token %q", name), func(tx *txn) error {
		same, err := all[ledger.APIToken](ctx, s, tx, "tokens_by_name", tokenLayout, args{"name": t.Name})
		if err != nil {
			return err
		}
		for _, other := range same {
			if other.RevokedAt.IsZero() {
				return ledger.ErrTokenTaken
			}
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		t.CreatedAt = now
		_, err = s.exec(ctx, tx, "token_new", args{"digest": t.Digest, "name": t.Name, "scopes": strings.Join(words, ","), "at": micros(now)})
		return err
	})
	return t, err
}

// RevokeToken ends the token of that name, from the next request on. Of one that
// was revoked before, the error is ledger.ErrTokenRevoked, and it is returned as
// it stands; ledger.ErrNotFound when there never was one.
func (s *Store) RevokeToken(ctx context.Context, name string) (ledger.APIToken, error) {
	var t ledger.APIToken
	err := s.write(ctx, fmt.Sprintf("revoke token %q", name), func(tx *txn) error {
		same, err := all[ledger.APIToken](ctx, s, tx, "tokens_by_name", tokenLayout, args{"name": storable(name)})
		if err != nil {
			return err
		}
		if len(same) == 0 {
			return ledger.ErrNotFound
		}
		t = same[len(same)-1]
		for _, other := range same {
			if other.RevokedAt.IsZero() {
				t = other
			}
		}
		if !t.RevokedAt.IsZero() {
			return ledger.ErrTokenRevoked
		}
		if t.RevokedAt, err = s.now(ctx, tx); err != nil {
			return err
		}
		_, err = s.exec(ctx, tx, "token_revoke", args{"name": t.Name, "at": micros(t.RevokedAt)})
		return err
	})
	return t, err
}

// Tokens lists the tokens by name, revoked ones too.
func (s *Store) Tokens(ctx context.Context) ([]ledger.APIToken, error) {
	ts, err := all[ledger.APIToken](ctx, s, s.r, "tokens", tokenLayout, nil)
	return ts, s.readError(ctx, "list tokens", err)
}

// TokenByDigest finds a token, a revoked one too. ledger.ErrNotFound when there
// is none.
func (s *Store) TokenByDigest(ctx context.Context, digest string) (ledger.APIToken, error) {
	ts, err := all[ledger.APIToken](ctx, s, s.r, "token_by_digest", tokenLayout, args{"digest": digest})
	if err == nil && len(ts) == 0 {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return ledger.APIToken{}, s.readError(ctx, "read a token", err)
	}
	return ts[0], nil
}
