package main

import (
	"context"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// instant is an outside system inside this process that answers at once: it
// has every action that it is asked for. What is measured with it is our own
// cost.
type instant struct{ batch int }

func (c instant) Info() connectors.Info {
	return connectors.Info{
		Name: connectorName, Type: "bench", Title: "instant answers", Lane: connectorName, Version: "1", HasBatch: true,
		Operations: []connectors.Operation{{
			Name: operationName, Lookup: connectors.LookupBatch, BatchMax: c.batch, Timeout: 20 * time.Second,
			LandsWithin: time.Minute, InFlightFor: 15 * time.Minute, AbsentAfter: 2, AbsentSpacing: 30 * time.Second,
		}},
	}
}

func (c instant) Lookup(_ context.Context, q connectors.Query) (connectors.Answer, error) {
	return c.answer(q), nil
}

func (c instant) LookupBatch(_ context.Context, qs []connectors.Query) []connectors.Result {
	rs := make([]connectors.Result, len(qs))
	for i, q := range qs {
		rs[i].Answer = c.answer(q)
		if i > 0 {
			rs[i].Answer.Requests = 0
		}
	}
	return rs
}

func (instant) answer(q connectors.Query) connectors.Answer {
	key := q.Keys[0]
	return connectors.Answer{
		Records:  []connectors.Record{{ID: "id-" + key, Key: key, Status: "open", Standing: connectors.StandingApplied}},
		Complete: true, AskedAt: time.Now(), Form: "batch", Requests: 1,
	}
}
