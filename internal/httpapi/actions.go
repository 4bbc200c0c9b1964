package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/twice"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
	"github.com/recovery-ledger/reconcile/reports"
)

// actionMax is the largest body of an action: a note is a text for people.
const actionMax = 64 << 10

// asked is what somebody wants done with an entry. Its JSON form is a contract.
type asked struct {
	Action    ledger.Action  `json:"action"`
	ActionID  string         `json:"action_id"` // of the one who asks: the same id does nothing twice
	Seen      int            `json:"seen"`      // last row of history that was seen; 0: whatever it is
	Note      string         `json:"note"`
	Reference string         `json:"reference"` // of resolve
	Outcome   ledger.Outcome `json:"outcome"`   // of resolve
	To        string         `json:"to"`        // of assign
	Until     string         `json:"until"`     // of snooze
	Override  bool           `json:"override"`  // of retry
}

// acted is what became of it.
type acted struct {
	ActionKey string            `json:"action_key"`
	Action    ledger.Action     `json:"action"`
	ActionID  string            `json:"action_id"`
	Changed   bool              `json:"changed"` // false: this id did it before
	Why       string            `json:"why"`
	Warnings  []string          `json:"warnings"`
	Entry     reports.EntryView `json:"entry"` // as it stands now
}

// changedMeanwhile is how often an action is tried again that met an entry which
// changed between its reading and its writing. A pass changes an entry a few
// times in a row at most.
const changedMeanwhile = 5

// postAction does what a person wants done with an entry, under the name of the
// token.
func (a *API) postAction(w http.ResponseWriter, r *http.Request, t ledger.APIToken) error {
	ctx, cancel := context.WithTimeout(r.Context(), recordPatience)
	defer cancel()
	if err := noQuery(r); err != nil {
		return err
	}
	if lines, err := bodyLines(r); err != nil {
		return err
	} else if lines {
		return problem(http.StatusUnsupportedMediaType, "content_type", "an action is one JSON object; send application/json")
	}
	body, give, err := a.body(w, r, actionMax)
	if err != nil {
		return err
	}
	defer give()
	q, err := readAsked(body)
	if err != nil {
		return err
	}
	now, err := a.ledger.Now(ctx)
	if err != nil {
		return err
	}
	p, err := q.person(t.Name, now, a.zone)
	if err != nil {
		return err
	}
	out := acted{Action: q.Action, ActionID: q.ActionID, Warnings: a.ownerWarnings(q.To)}
	var e ledger.Entry
	for try := 1; ; try++ {
		e, out.Changed, err = a.act(ctx, r, q, p)
		if !errors.Is(err, ledger.ErrConcurrently) || try == changedMeanwhile {
			break
		}
	}
	var no *reconcile.NotAllowedError
	var lack *reconcile.PartError
	switch {
	case errors.As(err, &no):
		return problem(http.StatusConflict, "not_allowed", "%v", no)
	case errors.As(err, &lack):
		return problem(http.StatusUnprocessableEntity, "invalid", "%s: %s", lack.Part, lack.Why)
	case errors.Is(err, ledger.ErrConcurrently):
		return problem(http.StatusConflict, "concurrent", "the entry is being changed by somebody else; send it again")
	case err != nil:
		return err
	}
	if out.Changed {
		a.metrics.action(q.Action)
		a.log.Info("action", "action_key", e.ActionKey, "action", q.Action, "by", t.Name, "to", e.State)
	} else {
		out.Why = "this action_id did that before; nothing was changed"
	}
	shown, err := a.viewer.Listed(ctx, []ledger.Entry{e})
	if err != nil {
		return err
	}
	out.ActionKey, out.Entry = e.ActionKey, reports.ViewEntry(shown[0], false)
	writeJSON(w, http.StatusOK, out)
	return nil
}

// act reads the entry and its history, and changes it if it is still as it was
// read. The id is looked for in what was read, so that of two requests with one
// id, at the same moment, one finds that the other did it.
func (a *API) act(ctx context.Context, r *http.Request, q asked, p reconcile.PersonAction) (e ledger.Entry, changed bool, err error) {
	st, err := a.entry(ctx, r)
	if err != nil {
		return e, false, err
	}
	history, err := a.ledger.History(ctx, st.Entry.ID)
	if err != nil {
		return e, false, err
	}
	last := 0
	for _, h := range history {
		last = max(last, h.No)
		switch id, action := reconcile.ActionIDOf(h); {
		case id != q.ActionID:
		case action != q.Action:
			return e, false, problem(http.StatusConflict, "action_id_used", "action_id %q stands for %s of this entry; give this action an id of its own", id, action)
		default:
			return st.Entry, false, nil
		}
	}
	if q.Seen != 0 && q.Seen != last {
		return e, false, problem(http.StatusConflict, "outdated",
			"the entry has changed since (its history is at %d, seen was %d); look at it again before deciding (nothing was changed)", last, q.Seen)
	}
	p.Guard = func(cur ledger.Entry) error {
		// The token alone would not do: who has claimed the entry before writes
		// under the token that was read here.
		if cur.FencingToken != st.Entry.FencingToken || !cur.LastActivityAt.Equal(st.Entry.LastActivityAt) {
			return ledger.ErrConcurrently
		}
		return nil
	}
	e, err = a.people.Person(ctx, st.Entry.ActionKey, p)
	return e, true, err
}

// membersOf are the members that an action may have, beside action, action_id,
// seen and note.
var membersOf = map[ledger.Action][]string{
	ledger.ActionRetry:   {"override"},
	ledger.ActionResolve: {"reference", "outcome"},
	ledger.ActionCancel:  nil,
	ledger.ActionAssign:  {"to"},
	ledger.ActionSnooze:  {"until"},
}

// readAsked reads the body of an action. Unlike in a record, an unknown member
// is a mistake: what was meant to hold something back must not be dropped.
func readAsked(body []byte) (asked, error) {
	var q asked
	invalid := func(format string, args ...any) (asked, error) {
		return q, problem(http.StatusUnprocessableEntity, "invalid", format, args...)
	}
	var members map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&members); err != nil || members == nil {
		return invalid(`the body must be one JSON object, like {"action":"retry","action_id":"…"}`)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body must be one JSON object and nothing behind it")
	}
	if at := twice.Member(body, ""); at != nil {
		return invalid("%s: stands twice; which of the two is meant is not known", strings.Join(at, "."))
	}
	if raw, ok := members["action"]; ok && json.Unmarshal(raw, &q.Action) != nil {
		return invalid("action: must be a text")
	}
	more, known := membersOf[q.Action]
	if !known {
		names := texts(ledger.Actions())
		return invalid("action: %q is none of %s%s", q.Action, strings.Join(names, ", "), nearest.Hint(string(q.Action), names))
	}
	may := append([]string{"action", "action_id", "seen", "note"}, more...)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(may, name) {
			hint := nearest.Hint(name, may)
			if hint == "" {
				hint = "; it takes " + strings.Join(may, ", ")
			}
			return invalid("%s: is no member of %s%s", name, q.Action, hint)
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return invalid("%s: must not be a JSON %s", kind.Field, kind.Value)
		}
		return invalid("the body cannot be read: %v", err)
	}
	return q, nil
}

// person checks what is asked for, and makes an action of it.
func (q asked) person(name string, now time.Time, loc *time.Location) (reconcile.PersonAction, error) {
	p := reconcile.PersonAction{Action: q.Action, By: name, Note: q.Note, Reference: q.Reference, Outcome: q.Outcome, To: q.To,
		Override: q.Override, ActionID: q.ActionID}
	var errs []string
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }
	if q.ActionID == "" {
		wrong("action_id: give the action an id of your own, another one for each decision; with the same id nothing is done twice")
	} else if len(q.ActionID) > ledger.KeyMax {
		wrong("action_id: is longer than %d bytes", ledger.KeyMax)
	}
	if q.Seen < 0 {
		wrong("seen: give the no of the last row of the history that was seen, or leave it out")
	}
	readable := true
	if q.Action == ledger.ActionSnooze {
		until, err := instant.ParseAhead(q.Until, now, loc)
		if readable = err == nil; !readable {
			wrong("until: %v", err)
		}
		p.Until = until
	}
	for _, lack := range p.Check(now) {
		switch lack.Part {
		case reconcile.PartUntil:
			if readable { // else it is said already
				wrong("until: %s", lack.Why)
			}
		case reconcile.PartOutcome:
			wrong("outcome: %s%s", lack.Why, nearest.Hint(string(q.Outcome), texts(reconcile.Outcomes())))
		default:
			wrong("%s: %s", lack.Part, lack.Why)
		}
	}
	if len(errs) > 0 {
		return p, problem(http.StatusUnprocessableEntity, "invalid", "%s", strings.Join(errs, "; "))
	}
	return p, nil
}

// ownerWarnings says that a config which names owners does not name this one.
func (a *API) ownerWarnings(to string) []string {
	if w := a.recorder.Owners.Unknown(to); w != "" {
		return []string{"to: " + w}
	}
	return []string{}
}
