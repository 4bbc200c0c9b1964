package sqlstore

import (
	"context"
	"errors"
)

// Ready says why nothing can be read or recorded now: the database cannot be
// reached, takes no writes (a standby), or has another schema than this program
// needs (ledger.ErrOldSchema, ledger.ErrNewerSchema). nil: all is well. It
// changes nothing, and waits for nobody who writes.
func (s *Store) Ready(ctx context.Context) error {
	ms, err := s.d.migrations()
	if err != nil {
		return err
	}
	have, err := s.schemaVersion(ctx, s.r)
	if err != nil {
		return s.readError(ctx, "read the schema", err)
	}
	if err := schemaError(have, len(ms)); err != nil {
		return err
	}
	var readOnly int
	if _, err := s.one(ctx, s.r, "read_only", nil, &readOnly); err != nil {
		return s.readError(ctx, "ask whether the ledger takes writes", err)
	}
	if readOnly != 0 {
		return errors.New("the server is a standby, or takes no writes; name the primary")
	}
	return nil
}
