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

// Waiting counts what waits for a person: entries with a due time, those of them
// that are past it, and entries with an open flag. It reads no settled entry, so
// that it may be asked often.
func (s *Store) Waiting(ctx context.Context) (escalated, overdue, flagged int, err error) {
	now, err := s.now(ctx, s.r)
	if err == nil {
		_, err = s.one(ctx, s.r, "waiting", args{"now": micros(now)}, &escalated, &overdue, &flagged)
	}
	return escalated, overdue, flagged, s.readError(ctx, "count what waits for a person", err)
}
