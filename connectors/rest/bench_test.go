package rest

import (
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
)

// Import derives and checks a key for every record.
func BenchmarkDeriveKey(b *testing.B) {
	c := benchConnector(b)
	for b.Loop() {
		if _, _, err := c.DeriveKey("make", "run_8f2:create-contact", 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckPayload(b *testing.B) {
	c := benchConnector(b)
	keys, payload := []string{"k1"}, []byte(`{"email":"ada@example.org","reference":"k1","amount_cents":1990,"lines":[{"a":1},{"a":2}]}`)
	for b.Loop() {
		if f, _, why := c.CheckPayload("make", keys, payload); !f {
			b.Fatal(why)
		}
	}
}

func benchConnector(b *testing.B) *Connector {
	c, err := Open(connectors.Config{Name: "sys", Table: map[string]any{"base_url": "https://sys.example", "operation": []any{map[string]any{
		"name": "make", "carries": "reference",
		"lookup": map[string]any{"method": "GET", "path": "/x", "query": map[string]any{"k": "{key}"}, "items": "data", "match": "ref", "id": "id",
			"batch": map[string]any{"max": 50, "each": "{key:csv}", "join": ",", "query": map[string]any{"k": "{each}"}}},
		"send": map[string]any{"method": "POST", "path": "/x", "headers": map[string]any{"Idempotency-Key": "{idempotency_key}"}},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
