package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// The customers that are not like the others.
const (
	optedOut = "c-13" // withdrew consent after the workflow ran
	closed   = "c-21" // closed its account
	moved    = "c-34" // now belongs to another team
)

// callLimit is how long the workflow, and then reconcile, waits for an answer.
const callLimit = time.Second

// todo is one action of the demonstration and what will become of it.
type todo struct {
	workflow.Action
	script
}

// first is the fate of the workflow's own request.
func (t todo) first() fate {
	if len(t.fates) == 0 {
		return fateMade
	}
	return t.fates[0]
}

// customerOf is whom the invoice goes to.
func (t todo) customerOf() string { return t.RecordID }

// wanted says whether an invoice must exist in the end: all but those that the
// system refuses and those that a check must stop.
func (t todo) wanted() bool {
	switch {
	case t.first().creates():
		return true
	case t.first() == fateRefuse, t.customerOf() == optedOut, t.customerOf() == closed:
		return false
	}
	return true
}

// group is a number of actions with one script.
type group struct {
	n        int
	customer string // "" is any ordinary one
	script
}

// groups add up to 200. The first fate is that of the workflow's request, the
// others those of what reconcile sends.
var groups = []group{
	{n: 115},
	// Created, and the answer lost: 43 duplicates for whoever resends.
	{n: 20, script: script{fates: []fate{fateCut}}},
	{n: 8, script: script{fates: []fate{fateTorn}}},
	{n: 4, script: script{fates: []fate{fateLate}}},
	{n: 6, script: script{fates: []fate{fateError}}},
	{n: 2, script: script{fates: []fate{fateCut}, opens: 3 * time.Second}},
	{n: 1, script: script{fates: []fate{fateCrash}}},
	{n: 1, script: script{fates: []fate{fateCut}, status: "void"}},     // a clerk has cancelled it since
	{n: 1, script: script{fates: []fate{fateTorn}, status: "dispute"}}, // a status nobody told us about
	// Nothing created, and the workflow cannot tell it from the above.
	{n: 10, script: script{fates: []fate{fateSwallow}}},
	{n: 7, script: script{fates: []fate{fateOverload}}},
	{n: 3, script: script{fates: []fate{fateSwallow, fateCut}}}, // our own resend loses its answer too
	{n: 2, script: script{fates: []fate{fateOverload, fateLate}}},
	{n: 1, script: script{fates: []fate{fateSwallow, fateOverload}}},
	{n: 1, script: script{fates: []fate{fateCrashOff}}},
	{n: 1, customer: optedOut, script: script{fates: []fate{fateSwallow}}},
	{n: 1, customer: closed, script: script{fates: []fate{fateOverload}}},
	{n: 1, customer: moved, script: script{fates: []fate{fateSwallow}}},
	// Refused in so many words.
	{n: 8, script: script{fates: []fate{fateLimit}}},
	{n: 1, script: script{fates: []fate{fateLimit, fateLimit}}},
	{n: 6, script: script{fates: []fate{fateRefuse}}},
}

// plan makes the 200 actions in a fixed, mixed order.
func plan() []todo {
	rng := rand.New(rand.NewPCG(7, 200))
	var todos []todo
	for _, g := range groups {
		for range g.n {
			todos = append(todos, todo{Action: workflow.Action{RecordID: g.customer}, script: g.script})
		}
	}
	rng.Shuffle(len(todos), func(i, j int) { todos[i], todos[j] = todos[j], todos[i] })
	for i := range todos {
		t := &todos[i]
		if t.RecordID == "" {
			t.RecordID = fmt.Sprintf("c-%02d", 40+rng.IntN(50))
		}
		t.Key = fmt.Sprintf("run_%04d:create-invoice", i+1)
		t.Workflow, t.Version, t.Connector, t.Operation = "invoice-run", "7", "billing", "invoice.create"
		if i >= 120 {
			t.Version = "8" // somebody published a new version at noon
		}
		t.Subject = t.RecordID + "@customers.example"
		t.OutcomeKey = fmt.Sprintf("invoice:order-%04d", i+1)
		t.Owner = "billing"
		// Cannot fail: the values are texts and a number.
		t.Payload, _ = json.Marshal(map[string]any{
			"reference": t.Key, "customer": t.RecordID, "amount_cents": 1990 + 100*rng.IntN(500),
		})
		t.lag = time.Duration(300+rng.IntN(1200)) * time.Millisecond
	}
	return todos
}

// people are the customers behind the actions.
func people(todos []todo) []customer {
	seen := map[string]bool{}
	var cs []customer
	for _, t := range todos {
		if seen[t.customerOf()] {
			continue
		}
		seen[t.customerOf()] = true
		c := customer{ID: t.customerOf(), OptedIn: t.customerOf() != optedOut, Stage: "active"}
		c.Owner.ID = "5502"
		switch c.ID {
		case closed:
			c.Stage = "closed"
		case moved:
			c.Owner.ID = "5507"
		}
		cs = append(cs, c)
	}
	return cs
}

// scripts says how the billing system treats each reference. A workflow that
// dies before it sends is no request, and takes no fate.
func scripts(todos []todo) map[string]script {
	m := make(map[string]script, len(todos))
	for _, t := range todos {
		s := t.script
		if t.first() == fateCrashOff {
			s.fates = s.fates[1:]
		}
		m[t.Key] = s
	}
	return m
}
