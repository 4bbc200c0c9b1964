package reconcile

import (
	"context"
	"fmt"
)

// Restored answers a ledger that a person says was put back from a copy (or
// taken over by a standby) as a pass answers one that it finds replaced: claims
// made before are void, and every open entry that was due may have been sent
// in the span that was lost, so that it is unknown and is looked at first. It
// returns how many entries are open. by names who says so, for the alert and the
// history.
func (e *Engine) Restored(ctx context.Context, by string) (entries int, err error) {
	return e.newGeneration(ctx, "restored, says "+by, "the ledger was restored, says "+by)
}

// newGeneration begins one: what was due may have been sent in the span that
// was lost. note stands in the history, why in the alert.
func (e *Engine) newGeneration(ctx context.Context, note, why string) (entries int, err error) {
	entries, err = e.store.Unsettle(ctx, note, true, e.longest)
	if err != nil {
		return 0, err
	}
	_, err = e.store.Alert(ctx, "generation", fmt.Sprintf("%s; %d entries are open, and those that were due are looked at first", why, entries))
	return entries, err
}
