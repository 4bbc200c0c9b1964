// Package all is the one list of built-in connectors.
package all

import (
	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/rest"
)

// Descriptors returns the built-in connectors, for connectors.NewRegistry.
func Descriptors() []connectors.Descriptor {
	return []connectors.Descriptor{rest.Descriptor()}
}
