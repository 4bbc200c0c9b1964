package reconcile

import (
	"log/slog"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Options are what an Engine works with.
type Options struct {
	Store      ledger.Store
	Connectors map[string]connectors.Connector // by the name that entries carry
	Policies   Policies
	Owners     Owners
	Holder     string        // names this process in leases; made up when empty
	Lease      time.Duration // 0: 60 s
	Log        *slog.Logger  // nil: discard
	Seed       uint64        // of jitter; 0: from the clock
}
