package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/recovery-ledger/reconcile/ledger"
)

// The changes that some operations make of one outside record are ordered
// (docs/rules.md, section 6, "Changes of one record"). The statement that writes
// "started" keeps that order between processes; which operations those are, and
// for how long a change may still land after its send_by, it reads in the ledger.

// metaOrders is the value that lists what is noted, so that a pass reads one.
const metaOrders = "in_order"

// noteOrder notes the operations of this process's connectors whose changes are
// ordered. It is called only where the process is on the newest version.
func (r *run) noteOrder(ctx context.Context) error {
	want := map[string]string{}
	for name, c := range r.e.conns {
		for _, op := range c.Info().Operations {
			if ordered(op) {
				want[ledger.MetaOrder(name, op.Name)] = strconv.FormatInt(op.LandsWithin.Microseconds(), 10)
			}
		}
	}
	list := string(mustJSON(want)) // its names are sorted
	noted, err := r.e.store.Meta(ctx, metaOrders)
	if err != nil || noted == list || noted == "" && len(want) == 0 {
		return err
	}
	before := map[string]string{}
	if noted != "" {
		if err := json.Unmarshal([]byte(noted), &before); err != nil {
			return fmt.Errorf("meta %s: %w", metaOrders, err)
		}
	}
	for name := range before {
		if _, still := want[name]; !still {
			want[name] = ""
		}
	}
	for name, value := range want {
		if err := r.e.store.SetMeta(ctx, name, value); err != nil {
			return err
		}
	}
	return r.e.store.SetMeta(ctx, metaOrders, list) // last: what was cut short is done again
}
