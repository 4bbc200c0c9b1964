package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// version digests the policies and the definitions alone: two processes with
// the same version decide alike. The ledger's address, secrets, comments, file
// names and the order of keys are no part of it. opened adds the versions of
// the definitions built in; nil where none is opened yet.
func (c *Config) version(opened map[string]connectors.Connector) string {
	type policy struct {
		reconcile.Policy
		HandoverURL string // as written, before the environment
	}
	type definition struct {
		Name, Version string
		Table         map[string]any
	}
	var what struct {
		Policies    []policy
		Definitions []definition
	}
	for i, p := range c.Policies.List {
		p.Name, p.Handover = "", ""
		what.Policies = append(what.Policies, policy{p, c.from[i].handoverURL})
	}
	for _, t := range c.Connectors {
		d := definition{Name: t.Name, Table: maps.Clone(t.Table)}
		delete(d.Table, "auth") // who we are decides nothing, and may be a secret
		if conn, ok := opened[t.Name]; ok {
			d.Version = conn.Info().Version
		}
		what.Definitions = append(what.Definitions, d)
	}
	slices.SortFunc(what.Definitions, func(a, b definition) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	// Keys of a map come sorted, from both encodings. The second is for what
	// JSON cannot write: TOML has inf and nan.
	text, err := json.Marshal(what)
	if err != nil {
		text = fmt.Appendf(nil, "%#v", what)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
