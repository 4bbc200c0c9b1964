package connectortest

import (
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/recovery-ledger/reconcile/connectors"
)

// NewFake starts a System for the length of a test. The test fails if a
// request came that no connector may make.
func NewFake(t testing.TB) *System {
	t.Helper()
	s := NewSystem()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		for _, v := range s.Violations() {
			t.Errorf("unsafe request: %s", v)
		}
	})
	return s
}

// Operations that Table describes.
const (
	OpBatch  = "record.create"        // looked up in batches of BatchMax, whose answers are complete
	OpAsking = "record.create.asking" // the same, but what a batch leaves out is not answered
	OpSingle = "record.create.single" // looked up one by one
	OpBlind  = "record.create.blind"  // no lookup
	OpRead   = "record.create.read"   // a direct read decides each hit; only with System.Reads
)

// BatchMax is how many keys one batch of those operations may hold.
const BatchMax = 50

// Table returns the definition of a "rest" connector to this system, to be
// changed at will. It shows a new record at once (visible_within 0s), and a
// lost request has landed after a second.
func (s *System) Table() map[string]any {
	send := map[string]any{
		"method": "POST", "path": "/records", "id": "id",
		"headers": map[string]any{"Idempotency-Key": "{idempotency_key}", "X-Reference": "{key}"},
	}
	check := map[string]any{
		"method": "GET", "path": "/customers/{record_id}", "none": "pass",
		"consent": "opted_in", "owner": "owner.id", "owner_missing": "pass",
		"active": "owner.active", "active_missing": "pass",
		"lifecycle": "stage", "lifecycle_deny": []any{"churned"}, "merged": "merged_into",
	}
	lookup := func() map[string]any {
		return map[string]any{
			"method": "GET", "path": "/records", "query": map[string]any{"reference": "{key}"},
			"items": "data", "match": "reference", "id": "id", "status": "status", "gone": "deleted", "merged": "merged_into",
		}
	}
	batched := func(missing string) map[string]any {
		l := lookup()
		l["batch"] = map[string]any{
			"method": "POST", "path": "/records/search", "json": map[string]any{"references": "{each}"},
			"max": int64(BatchMax), "each": "{key}", "items": "data", "missing": missing,
		}
		return l
	}
	operation := func(name string, lookup map[string]any) map[string]any {
		op := map[string]any{"name": name, "send": send, "check": check}
		if lookup != nil {
			op["lookup"] = lookup
			op["canary"] = CanaryKey
			op["statuses"] = map[string]any{"paid": "applied", "open": "applied", "processing": "pending", "void": "reversed", "failed": "rejected"}
			op["compare"] = map[string]any{"amount_cents": "amount_cents"}
		}
		return op
	}
	operations := []any{
		operation(OpBatch, batched("negative")), operation(OpAsking, batched("ask")),
		operation(OpSingle, lookup()), operation(OpBlind, nil),
	}
	if s.Reads {
		op := operation(OpRead, lookup())
		op["read"] = map[string]any{"method": "GET", "path": "/records/{id}"}
		operations = append(operations, op)
	}
	return map[string]any{
		"type": "rest", "base_url": s.URL(), "auth": map[string]any{"bearer": Token}, "timeout": "5s",
		"rate":         map[string]any{"calls": int64(100_000), "per": "1s", "concurrent": int64(64)},
		"lands_within": "1s", "visible_within": "0s", "keeps_key": "24h", "absent_spacing": "1s",
		"probe":        map[string]any{"method": "GET", "path": "/me", "account": "account.id", "mode": "mode"},
		"rate_headers": []any{map[string]any{"remaining": "header:X-RateLimit-Remaining", "reset": "header:X-RateLimit-Reset"}},
		"errors": []any{
			map[string]any{"status": int64(422), "code": "error.code", "is": "DUP_REF", "class": "already_exists", "effect": "not_done"},
			map[string]any{"status": int64(409), "code": "error.code", "is": "IN_PROGRESS", "class": "lock_conflict", "effect": "unknown", "wait": "1s"},
			map[string]any{"status": int64(404), "code": "error.code", "is": "NOT_FOUND", "on": []any{"lookup", "check"}, "finding": "none"},
		},
		"operation": operations,
	}
}

// TOML returns Table as it stands in a config file, under [connectors.name].
func (s *System) TOML(name string) string {
	b, err := toml.Marshal(map[string]any{"connectors": map[string]any{name: s.Table()}})
	if err != nil {
		panic(err) // the table above is always TOML
	}
	return string(b)
}

// Config is what a connector to this system is opened with.
func (s *System) Config(name string) connectors.Config {
	return connectors.Config{Name: name, Table: s.Table(), Env: func(string) (string, bool) { return "", false }}
}
