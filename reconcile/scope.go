package reconcile

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// An idempotency key may hold only for the credential or the region that it was
// first sent with (key_scope). The ledger notes which of them each connector
// uses, as a short digest, and since when; keys sent before that moment are
// treated as expired.

// metaScope is the value that notes a connector's scope: "digest" or "digest
// since", where it has changed.
func metaScope(connector, scope string) string { return "key_scope:" + scope + ":" + connector }

// scopes compares the scopes of this process's connectors with those noted.
func (r *run) scopes(ctx context.Context, now time.Time) error {
	names := make([]string, 0, len(r.e.conns))
	for n := range r.e.conns {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, name := range names {
		info := r.e.conns[name].Info()
		for _, scope := range keyScopes(info) {
			since, changed, err := r.scopeSince(ctx, name, scope, info.Scopes[scope], now)
			if err != nil {
				return err
			}
			if changed {
				r.note("the %s of %q is another than before; idempotency keys sent until now are not relied on", scope, name)
			}
			r.e.mu.Lock()
			r.e.keysFrom[name+"\x00"+scope] = since
			r.e.mu.Unlock()
		}
	}
	return nil
}

// keyScopes are the scopes that some operation relies on and that the connector
// can tell apart.
func keyScopes(info connectors.Info) []string {
	var out []string
	for _, scope := range []string{"credential", "region"} {
		for _, op := range info.Operations {
			if op.KeyScope == scope && op.KeepsKey > 0 && info.Scopes[scope] != "" {
				out = append(out, scope)
				break
			}
		}
	}
	return out
}

// scopeSince reads since when a scope is the one given, and notes a change.
func (r *run) scopeSince(ctx context.Context, name, scope, digest string, now time.Time) (since time.Time, changed bool, err error) {
	noted, err := r.e.store.Meta(ctx, metaScope(name, scope))
	if err != nil {
		return since, false, err
	}
	old, at, _ := strings.Cut(noted, " ")
	value := digest
	switch {
	case old == digest:
		if at != "" {
			if since, err = time.Parse(time.RFC3339Nano, at); err != nil {
				return since, false, fmt.Errorf("meta %s: %w", metaScope(name, scope), err)
			}
		}
		return since, false, nil
	case old != "":
		since, changed = now, true
		value += " " + now.UTC().Format(time.RFC3339Nano)
	}
	if r.o.DryRun {
		return since, changed, nil
	}
	return since, changed, r.e.store.SetMeta(ctx, metaScope(name, scope), value)
}

// keysSince is the moment from which keys of an operation are in its present
// scope; zero: as far as is known they always were.
func (e *Engine) keysSince(connector, scope string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keysFrom[connector+"\x00"+scope]
}
