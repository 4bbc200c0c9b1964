package connectors

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the class of a failure. Its values are those of the ledger's error
// classes, and a few that only a connector needs. No kind says that an action
// did not happen.
type Kind string

// The kinds.
const (
	KindValidation       Kind = "validation"
	KindAuth             Kind = "auth"
	KindPermission       Kind = "permission"
	KindNotFound         Kind = "not_found"
	KindConflict         Kind = "conflict"
	KindAlreadyExists    Kind = "already_exists"
	KindDuplicateRequest Kind = "duplicate_request" // key reused with other content
	KindRateLimit        Kind = "rate_limit"
	KindQuota            Kind = "quota"
	KindTimeout          Kind = "timeout"
	KindNetwork          Kind = "network"
	KindUnavailable      Kind = "unavailable"
	KindServerError      Kind = "server_error"
	KindLockConflict     Kind = "lock_conflict"
	KindBlockedByEdge    Kind = "blocked_by_edge"
	KindSilentNoop       Kind = "silent_noop"
	KindConsent          Kind = "consent"
	KindUnknown          Kind = "unknown"

	KindUnsupported  Kind = "unsupported"   // this connector cannot do that
	KindMalformed    Kind = "malformed"     // the answer could not be read
	KindNotMentioned Kind = "not_mentioned" // a batch left this item out: ask it alone
	KindBadKey       Kind = "bad_key"       // the request cannot be built from this entry; nobody else is harmed
	KindNotUsable    Kind = "not_usable"    // only foreign records: the lookup does not filter by our key
	KindStopping     Kind = "stopping"      // cancelled by us: no attempt, no look
)

// Error is why a question could not be put, or not be answered.
type Error struct {
	Kind       Kind
	HTTPStatus int
	Code       string
	Message    string // masked, at most 500 characters
	Rule       string // the rule that classified it
	RetryAfter RetryAfter
	Pauses     string // "lane", "entry", or "" for the default of the kind
	Err        error  // the cause, masked; may be nil
}

// Error says each thing once: a message may begin with the status, or be the
// code and no more.
func (e *Error) Error() string {
	s := string(e.Kind)
	if status := fmt.Sprintf("HTTP %d", e.HTTPStatus); e.HTTPStatus != 0 && !strings.HasPrefix(e.Message, status) {
		s = fmt.Sprintf("%s: %s", s, status)
	}
	if e.Code != "" && e.Code != e.Message {
		s = fmt.Sprintf("%s: %s", s, e.Code)
	}
	if e.Message != "" {
		s = fmt.Sprintf("%s: %s", s, e.Message)
	} else if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RetryAfter is how long a system asked us to wait. It is a floor: jitter only
// adds to it.
type RetryAfter struct {
	Wait   time.Duration // 0: nothing asked
	Beyond bool          // longer than any window: the number overflowed
	Raw    string        // as received, also when it was junk and ignored
}

// FieldError is one mistake in a definition or config, at a dotted path
// relative to the connector's own table ("operation.0.lookup.items").
type FieldError struct {
	Path    string
	Message string // what is wrong and what to do
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Message }
