package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/recovery-ledger/reconcile/ledger"
)

// admit finds the token of a request and says whether it is good for this. A
// token is looked up by its digest, of which a guess learns nothing by how long
// that takes, and compared in constant time all the same.
func (a *API) admit(r *http.Request, need ledger.Scope) (ledger.APIToken, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return ledger.APIToken{}, problem(http.StatusUnauthorized, "no_token",
			`send a token in the header "Authorization: Bearer TOKEN"; reconcile token create makes one`)
	}
	digest := ledger.TokenDigest(token)
	ctx, cancel := context.WithTimeout(r.Context(), recordPatience)
	defer cancel()
	t, err := a.ledger.TokenByDigest(ctx, digest)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return t, problem(http.StatusServiceUnavailable, "ledger", "the token cannot be looked up; try again later").because(err)
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(t.Digest), []byte(digest)) != 1 {
		return t, problem(http.StatusUnauthorized, "unknown_token", "the token is not known to this ledger; reconcile token create makes one")
	}
	if !t.RevokedAt.IsZero() {
		return t, problem(http.StatusUnauthorized, "revoked_token", "the token was revoked; reconcile token create makes another")
	}
	return t, permit(t, need)
}

// permit says whether a token is good for something.
func permit(t ledger.APIToken, need ledger.Scope) error {
	if t.May(need) {
		return nil
	}
	has := make([]string, len(t.Scopes))
	for i, s := range t.Scopes {
		has[i] = string(s)
	}
	return problem(http.StatusForbidden, "scope", "this needs a token with the scope %s; this one, %q, has %s", need, t.Name, strings.Join(has, ", "))
}
