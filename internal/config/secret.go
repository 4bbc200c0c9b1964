package config

import (
	"fmt"
	"log/slog"
)

// redacted is what a secret prints as.
const redacted = "[redacted]"

// Secret is a text that must never be printed: a token, a password, an address
// that carries one. It prints "[redacted]" under every verb, in JSON and in
// logs; only Reveal gives the text. The zero value is a secret that is not
// set, and prints as nothing.
//
// The text stands behind a pointer because fmt reaches unexported fields of
// other structs without asking their methods: a pointer prints as an address
// there.
type Secret struct {
	text *string
}

// NewSecret keeps s. An empty s is a secret that is not set.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{text: &s}
}

// Reveal returns the text, for the one place that needs it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet says whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// String returns "[redacted]", or "" where nothing is set.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return redacted
}

// Format prints the same under every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String, for JSON and every other encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
