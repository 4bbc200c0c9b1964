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

// Listed is an entry as lists show it: under the risk that holds, the higher of
// its record's and its policy's, and with the due time and the actions of its
// open flags where nobody escalated it.
func (v Viewer) Listed(ctx context.Context, e ledger.Entry) (ledger.Entry, error) {
	if len(e.Flags) == 0 || e.State == ledger.StateEscalated {
		return v.shown(e, nil), nil
	}
	history, err := v.Store.History(ctx, e.ID)
	return v.shown(e, history), err
}

func (v Viewer) shown(e ledger.Entry, history []ledger.History) ledger.Entry {
	e.Risk = e.Risk.Higher(v.Policies.For(e).Risk)
	return FlagReview(e, history, v.Setting(e, e.LastActivityAt))
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
	w.Entry = v.shown(st.Entry, w.History)
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
