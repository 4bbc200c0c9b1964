package ledger_test

import (
	"regexp"
	"testing"

	"github.com/recovery-ledger/reconcile/ledger"
)

func TestTokensAreRandomAndFitForURLs(t *testing.T) {
	form := regexp.MustCompile(`^reconcile_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 1000 {
		token := ledger.NewToken()
		if !form.MatchString(token) {
			t.Fatalf("%q is no token", token)
		}
		if seen[token] {
			t.Fatalf("%q came twice", token)
		}
		seen[token] = true
	}
	// Source: FIPS 180-2, appendix B.1: the digest of "abc".
	if got := ledger.TokenDigest("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("digest %s", got)
	}
}
