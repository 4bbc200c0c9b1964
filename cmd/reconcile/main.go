// Command reconcile settles unknown outcomes of business automations.
package main

import (
	"os"

	"github.com/recovery-ledger/reconcile/internal/cli"
	"github.com/recovery-ledger/reconcile/internal/cli/early"
)

func main() { os.Exit(cli.Main(early.Signals)) }
