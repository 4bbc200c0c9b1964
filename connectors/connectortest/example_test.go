package connectortest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/connectortest"
	"github.com/recovery-ledger/reconcile/connectors/rest"
)

// A test of the connector's own puts it to the suite. A connector that is not
// described by a table opens itself: give Run a function that returns it. This
// is compiled and not run, since only a test has a *testing.T;
// TestRestPassesTheSuite is such a test.
func ExampleRun() {
	testMine := func(t *testing.T) { // func TestMine(t *testing.T)
		connectortest.Run(t, func(t testing.TB, s *connectortest.System) connectors.Connector {
			c, err := rest.Open(s.Config("mine"))
			if err != nil {
				t.Fatal(err)
			}
			return c
		})
	}
	_ = testMine
}

// A System answers badly on command, and counts what was really done.
func ExampleSystem() {
	s := connectortest.NewSystem()
	if err := s.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := rest.Open(s.Config("mine"))
	if err != nil {
		fmt.Println(err)
		return
	}

	// The work is done, and the answer is lost.
	s.Fault(connectortest.Fault{On: connectortest.Create, Cut: true})
	sent := c.Send(context.Background(), connectors.Send{Operation: connectortest.OpSingle, Key: "order-7", IdempotencyKey: "order-7",
		Payload: []byte(`{"amount_cents":1990}`), SendBy: time.Now().Add(time.Second)})
	fmt.Println("sent:", sent.Effect, sent.Kind)

	found, err := c.Lookup(context.Background(), connectors.Query{Operation: connectortest.OpSingle, Keys: []string{"order-7"}})
	fmt.Println("found:", len(found.Records), err)
	fmt.Println("really done:", s.Effects("order-7"), s.Duplicates())
	// Output:
	// sent: unknown network
	// found: 1 <nil>
	// really done: 1 []
}
