package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// Scope is one thing that a token of the HTTP interface is good for. None of
// them holds another.
type Scope string

// The scopes.
const (
	ScopeIngest  Scope = "ingest"  // record actions and attempts
	ScopeRead    Scope = "read"    // read entries and reports, without payloads
	ScopeOperate Scope = "operate" // act as a person does: retry, resolve, cancel, assign, snooze
	ScopePayload Scope = "payload" // together with read: read payloads too
)

// Scopes lists every scope, in the order in which they are told.
func Scopes() []Scope { return []Scope{ScopeIngest, ScopeRead, ScopeOperate, ScopePayload} }

// What callers of a token store branch on.
var (
	ErrTokenTaken   = errors.New("there is a token of that name already")
	ErrTokenRevoked = errors.New("the token was revoked")
)

// APIToken is an access to the HTTP interface, as it is kept: of the token
// itself only its digest. A name stands for one token at a time; that of a
// revoked one is free again.
type APIToken struct {
	Digest    string // SHA-256 of the token, lower-case hex
	Name      string
	Scopes    []Scope
	CreatedAt time.Time
	RevokedAt time.Time // zero: it is good
}

// May says whether the token is good for something.
func (t APIToken) May(s Scope) bool { return t.RevokedAt.IsZero() && slices.Contains(t.Scopes, s) }

// TokenPrefix begins every token, so that people and scanners for leaked secrets
// know one when they see it.
const TokenPrefix = "reconcile_"

// tokenBytes are random: 256 bits, which nobody guesses.
const tokenBytes = 32

// NewToken makes a token: TokenPrefix and 32 random bytes in URL-safe base64
// without padding.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails: it ends the program where there is no randomness
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// TokenDigest is what is kept of a token. A plain digest will do: a token is as
// random as a key, and no word that could be tried out.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
