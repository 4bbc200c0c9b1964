package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// Viewer reads entries as they are shown to people: with what holds for them by
// policy and is not stored. It changes nothing.
type Viewer struct {
	Store      ledger.Store
	Connectors map[string]connectors.Connector // by the name that entries carry
	Policies   Policies
	Owners     Owners
}

// View is everything known of one entry.
type View struct {
	ledger.Stored
	Evidence []ledger.Evidence // oldest first
	History  []ledger.History  // oldest first
	Held     string            // what keeps it where it is, whatever its own state is; "": nothing
}

// Setting is what a decision about an entry needs, outside of a pass.
func (v Viewer) Setting(e ledger.Entry, now time.Time) Setting {
	s := Setting{Policy: v.Policies.For(e), Owners: v.Owners, Now: now, PolicyVersion: v.Policies.Version}
	if c, ok := v.Connectors[e.Connector]; ok {
		s.Op, _ = c.Info().Operation(e.Operation)
	}
	return s
}

// Listed is entries as lists show them: under the risk that holds, the higher of
// their record's and their policy's, and with the due time and the actions of
// open flags where nobody escalated them. It asks the ledger once for all of
// them, at most, and changes the slice that it was given.
func (v Viewer) Listed(ctx context.Context, es []ledger.Entry) ([]ledger.Entry, error) {
	var flagged []int64
	for _, e := range es {
		if flagReviewed(e) {
			flagged = append(flagged, e.ID)
		}
	}
	var opened map[int64]time.Time
	if len(flagged) > 0 {
		var err error
		if opened, err = v.Store.FlaggedAt(ctx, flagged); err != nil {
			return nil, err
		}
	}
	for i, e := range es {
		e.Risk = e.Risk.Higher(v.Policies.For(e).Risk)
		es[i] = FlagReview(e, opened[e.ID], v.Setting(e, e.LastActivityAt))
	}
	return es, nil
}

// Whole reads what belongs to an entry. now is the ledger's present time.
func (v Viewer) Whole(ctx context.Context, st ledger.Stored, now time.Time) (View, error) {
	w := View{Stored: st}
	var err error
	if w.Evidence, err = v.Store.Evidence(ctx, st.Entry.ID); err != nil {
		return w, err
	}
	if w.History, err = v.Store.History(ctx, st.Entry.ID); err != nil {
		return w, err
	}
	es, err := v.Listed(ctx, []ledger.Entry{st.Entry})
	if err != nil {
		return w, err
	}
	w.Entry = es[0]
	w.Held, err = v.held(ctx, st.Entry, now)
	return w, err
}

// held says what keeps an entry that the program works on where it is: a hold,
// or a pause of its lane.
func (v Viewer) held(ctx context.Context, e ledger.Entry, now time.Time) (string, error) {
	if e.Work == ledger.WorkNone {
		return "", nil
	}
	by, err := v.Store.Meta(ctx, ledger.MetaHeld)
	if err != nil {
		return "", err
	}
	ln, err := v.Store.Lane(ctx, e.Lane)
	if err != nil {
		return "", err
	}
	sends := e.State == ledger.StateRetryable || e.State == ledger.StateReady
	switch {
	case sends && by != "":
		return fmt.Sprintf("Nothing is sent at present: %s holds all sends (reconcile resume ends that).", by), nil
	case sends && ln.Held:
		return fmt.Sprintf("Nothing is sent at present: %s holds the sends to %s (reconcile resume --connector %s ends that).", ln.HeldBy, e.Lane, e.Connector), nil
	case ln.PausedUntil.After(now):
		return fmt.Sprintf("Nothing is asked of %s until %s (%s).", e.Lane, ln.PausedUntil.UTC().Format(time.RFC3339), ln.PauseReason), nil
	}
	return "", nil
}
