package connectors

import (
	"context"
	"errors"
	"fmt"
	"sort"
)

// Pacer lets a connector make calls no faster than its lane allows. Every
// request, pages and token requests included, waits for it first.
type Pacer interface {
	// Wait blocks until one more call may go out in this bucket ("" for the
	// lane's own), or returns the context's error.
	Wait(ctx context.Context, bucket string) error
}

// Config is what a connector is opened with.
type Config struct {
	Name  string         // as in the config file
	Table map[string]any // its table, decoded from TOML; ${NAME} is not yet expanded

	// Env looks up an environment variable. Unset is an error of the field.
	Env func(name string) (string, bool)

	Pacer Pacer // nil: no pacing (tests, config check)
}

// Descriptor is everything the tool knows about a kind of connector before
// opening it.
type Descriptor struct {
	Type    string // as written in the config: type = "rest"
	Summary string // one sentence

	// Open checks the whole definition (every mistake, joined *FieldErrors) and
	// makes the connector. It does no network I/O.
	Open func(cfg Config) (Connector, error)
}

// Registry holds the connector kinds that this program knows.
type Registry struct {
	byType map[string]Descriptor
}

// NewRegistry returns an error on a duplicate or incomplete descriptor.
func NewRegistry(ds ...Descriptor) (*Registry, error) {
	r := &Registry{byType: make(map[string]Descriptor, len(ds))}
	var errs []error
	for _, d := range ds {
		switch {
		case d.Type == "" || d.Summary == "" || d.Open == nil:
			errs = append(errs, fmt.Errorf("connector type %q: incomplete descriptor", d.Type))
		case r.byType[d.Type].Type != "":
			errs = append(errs, fmt.Errorf("connector type %q: described twice", d.Type))
		default:
			r.byType[d.Type] = d
		}
	}
	return r, errors.Join(errs...)
}

// Types returns the known types, sorted.
func (r *Registry) Types() []string {
	ts := make([]string, 0, len(r.byType))
	for t := range r.byType {
		ts = append(ts, t)
	}
	sort.Strings(ts)
	return ts
}

// Descriptor returns the descriptor of a type, and whether there is one.
func (r *Registry) Descriptor(typ string) (Descriptor, bool) {
	d, ok := r.byType[typ]
	return d, ok
}

// KeyDeriver makes the effective key of an action.
type KeyDeriver interface {
	// DeriveKey returns the key that travels with the action when the record
	// carries none: the action key where it fits the system, else a
	// deterministic digest (derived is true). n counts replacement keys: 0 is
	// the first, 1 the first new attempt key, linked to it by being derived
	// from the same action key. err (a *FieldError) when a given key cannot
	// travel at all.
	DeriveKey(operation, actionKey string, n int) (key string, derived bool, err error)

	// CheckKey says whether a key that a record brings can travel to this
	// system.
	CheckKey(operation, key string) error

	// CheckPayload says whether an action with this payload could be found, and
	// whether it could be sent, and of the first that fails why. It cannot be
	// found where there is no lookup, where the key does not stand where the
	// definition's carries says, and where the send carries our key nowhere
	// although a record is known as ours by it alone. It cannot be sent where
	// there is no send, where it could not be found again (unless doing it twice
	// harms nothing), and where the send does not take a member of the payload
	// or lacks one. An empty payload is one that was not kept: then the key is
	// taken to have travelled, since as a rule the workflow sends it.
	CheckPayload(operation string, keys []string, payload []byte) (findable, sendable bool, why string)
}
