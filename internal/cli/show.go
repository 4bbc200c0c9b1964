package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reports"
)

// showOptions are the flags of show.
type showOptions struct {
	key     string
	payload bool
	output  string
}

func newShow(a *app) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "show one entry: its timeline, its evidence, and why",
		Long: `show prints everything known of one entry: what was tried, what was asked and
answered, how it changed, and why another attempt is safe or why it stopped.`,
		Example: `  reconcile show run_8f2:create-contact
  reconcile show run_8f2:create-contact --output json --payload`,
		Args: exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.key = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&o.payload, "payload", false, "print the payload too")
	bindOutput(cmd, &o.output, formatTable, formatJSON)
	return cmd
}

func (o showOptions) run(ctx context.Context, a *app) error {
	s, st, err := a.loadEntry(ctx, o.key)
	if err != nil {
		return err
	}
	defer s.close()
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	w, err := s.viewer().Whole(ctx, st, now)
	if err != nil {
		return err
	}
	v := reports.ViewShow(w.Stored, w.Evidence, w.History, o.payload)
	v.Why = joined(" ", v.Why, w.Held)
	if o.output == formatJSON {
		return render.JSON(a.Out, v)
	}
	return a.timeline(w.Stored, w.Evidence, w.History, v.Why, o.payload, now)
}

// loadEntry checks the config, opens the ledger and reads one entry. The caller
// closes the session.
func (a *app) loadEntry(ctx context.Context, key string) (*session, ledger.Stored, error) {
	s, err := a.load()
	if err != nil {
		return nil, ledger.Stored{}, err
	}
	err = s.openLedger(ctx)
	var st ledger.Stored
	if err == nil {
		st, err = findEntry(ctx, s.store, key)
	}
	if err != nil {
		s.close()
		return nil, st, err
	}
	return s, st, nil
}

// findEntry reads one entry; where there is none it names the nearest keys.
func findEntry(ctx context.Context, store ledger.Store, key string) (ledger.Stored, error) {
	st, err := store.Entry(ctx, key)
	if !errors.Is(err, ledger.ErrNotFound) {
		return st, err
	}
	return st, &noEntryError{key, nearKey(ctx, store, key)}
}

// nearKey is a hint at the key that was meant among its neighbours in the order
// of keys: most slips of the hand are at the end of a key.
func nearKey(ctx context.Context, store ledger.Store, key string) string {
	var candidates []string
	for cut := len(key) - 1; cut > 0 && cut >= len(key)-4; cut-- {
		es, err := store.Entries(ctx, ledger.Filter{}, key[:cut], 50, false)
		if err != nil {
			return "" // a hint is not worth an error
		}
		for _, e := range es {
			candidates = append(candidates, e.ActionKey)
		}
	}
	sort.Strings(candidates)
	return nearest.Hint(key, candidates)
}

// timeline prints an entry for a person.
func (a *app) timeline(st ledger.Stored, evidence []ledger.Evidence, history []ledger.History, why string, payload bool, now time.Time) error {
	e := st.Entry
	w := &lines{w: a.Out}
	fields := []render.Field{{Name: "entry", Value: e.ActionKey, Whole: true}}
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, render.Field{Name: name, Value: value})
		}
	}
	field("workflow", joined(" ", e.Workflow, prefix("version ", e.WorkflowVersion), prefix("step ", e.StepID)))
	field("action", joined(" ", e.Connector, e.Operation, prefix("on record ", e.RecordID)))
	state := string(e.State)
	if e.Outcome != ledger.OutcomeNone {
		state += " " + string(e.Outcome)
	}
	field("state", joined(", ", state, "effect "+string(e.Effect), "class "+string(e.Class)))
	field("reason", joined(" – ", e.Reason, differs(reports.Plain(e.Reason), e.Reason)))
	field("flags", strings.Join(texts(e.Flags), ", "))
	field("owner", joined(", ", e.Owner, prefix("first ", differs(e.OriginalOwner, e.Owner)), prefix("due ", a.when(e.DueAt, now)), prefix("may ", strings.Join(texts(e.Allowed), ", "))))
	if e.Work != ledger.WorkNone {
		field("next", joined(" ", workText(e.Work), a.when(e.NextAt, now)))
	}
	if e.State == ledger.StateDeferred {
		field("release", joined(" ", e.ReleaseKind, e.ReleaseRef, a.when(e.ReleaseAt, now)))
	}
	field("remote id", e.RemoteID)
	field("key", joined(", ", e.ProviderKey, prefix("idempotency key ", differs(e.EffectiveIdempotencyKey(), e.ProviderKey))))
	field("risk", string(e.Risk))
	field("outcome key", e.OutcomeKey)
	field("replaces", e.Replaces)
	field("recorded", a.when(e.ReceivedAt, now))
	if err := render.Fields(w, fields, a.Width); err != nil {
		return err
	}
	if payload && e.Payload != nil {
		w.heading("Payload")
		w.line("%s", string(e.Payload))
	}

	if len(st.Attempts) > 0 {
		w.heading("Attempts")
		rows := make([][]any, len(st.Attempts))
		for i, t := range st.Attempts {
			who := "workflow"
			if t.Ours {
				who = "reconcile"
			}
			started := t.StartedAt
			if started.IsZero() {
				started = t.ReceivedAt
			}
			rows[i] = []any{t.No, who, started, t.Status, t.Effect, answerText(t)}
		}
		if err := a.block(w, []render.Column{{Name: "no", Kind: render.Number}, {Name: "by"}, {Name: "started"}, {Name: "status"}, {Name: "effect"}, {Name: "answer", Wrap: true}}, rows, now); err != nil {
			return err
		}
	}
	if len(evidence) > 0 {
		w.heading("Asked and answered")
		rows := make([][]any, len(evidence))
		for i, ev := range evidence {
			asked := ev.AskedAt
			if asked.IsZero() {
				asked = ev.SeenAt
			}
			rows[i] = []any{asked, ev.Connector, ev.Form, ev.Finding, countsText(ev), reports.Seen(ev)}
		}
		if err := a.block(w, []render.Column{{Name: "asked"}, {Name: "connector"}, {Name: "form"}, {Name: "finding"}, {Name: "counts"}, {Name: "seen", Wrap: true}}, rows, now); err != nil {
			return err
		}
	}
	if len(history) > 0 {
		w.heading("History")
		rows := make([][]any, len(history))
		for i, h := range history {
			to := joined(" ", string(h.To), string(h.Outcome))
			from := string(h.From)
			if from == "" {
				from = "new"
			}
			rows[i] = []any{h.At, from, to, h.Actor, joined("; ", reports.Plain(h.Reason), h.Note, reports.Checks(h))}
		}
		if err := a.block(w, []render.Column{{Name: "at"}, {Name: "from"}, {Name: "to"}, {Name: "by"}, {Name: "because", Wrap: true}}, rows, now); err != nil {
			return err
		}
	}
	w.heading("Why")
	w.wrapped(why, a.Width)
	return w.err
}

// answerText is what came of an attempt, in one line that says each thing once:
// a message may begin with the status, or be the code and no more.
func answerText(t ledger.Attempt) string {
	status := prefix("HTTP ", number(t.HTTPStatus))
	message := t.Message
	if rest, ok := strings.CutPrefix(message, status); ok && status != "" {
		message = strings.TrimLeft(rest, " :")
	}
	_, also := ledger.SplitRule(t.Rule)
	return joined("; ", joined(" ", status, string(t.Class), differs(t.Code, message), message, prefix("id ", t.RemoteID)), prefix("also reported: ", also))
}

// block prints a table within a longer text: aligned whether or not there is
// a terminal, because nothing reads it but people.
func (a *app) block(w *lines, cols []render.Column, rows [][]any, now time.Time) error {
	width := a.Width
	if width == 0 {
		width = wideBlock
		for _, r := range rows {
			for i, v := range r {
				if t, ok := v.(time.Time); ok && !t.IsZero() {
					r[i] = utc(t) // relative times are for a terminal
				}
			}
		}
	}
	var out bytes.Buffer
	if err := render.Table(&out, render.TableSpec{Columns: cols, Rows: render.Slice(rows), Width: width, Now: now, Stack: a.Width > 0}); err != nil {
		return err
	}
	for l := range strings.Lines(out.String()) {
		fmt.Fprintln(w, strings.TrimRight(l, " \n"))
	}
	return w.err
}

// wideBlock is wider than any row: nothing is cut in a pipe.
const wideBlock = 1 << 20

// lines writes a text of several parts and keeps the first error.
type lines struct {
	w   interface{ Write([]byte) (int, error) }
	err error
}

func (l *lines) Write(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.w.Write(p)
	l.err = err
	return n, err
}

func (l *lines) line(format string, args ...any) {
	fmt.Fprintln(l, render.Visible(fmt.Sprintf(format, args...)))
}

func (l *lines) heading(s string) { fmt.Fprintf(l, "\n%s\n", s) }

// wrapped prints a paragraph in lines that fit; without a terminal in lines of
// a hundred columns, for people too.
func (l *lines) wrapped(text string, width int) {
	if width <= 0 || width > 100 {
		width = 100
	}
	line := ""
	for _, word := range strings.Fields(render.Visible(text)) {
		switch {
		case line == "":
			line = word
		case render.Width(line)+1+render.Width(word) <= width:
			line += " " + word
		default:
			fmt.Fprintln(l, line)
			line = word
		}
	}
	if line != "" {
		fmt.Fprintln(l, line)
	}
}

func workText(w ledger.Work) string {
	switch w {
	case ledger.WorkLook:
		return "look"
	case ledger.WorkAdvance:
		return "check and send"
	case ledger.WorkRelease:
		return "see whether it may go on"
	}
	return string(w)
}

func countsText(ev ledger.Evidence) string {
	switch {
	case ev.Void && ev.Counted:
		return "yes, then void" // by a later attempt, which it may have allowed
	case ev.Void:
		return "void"
	case ev.Counted:
		return "yes"
	}
	return ""
}

// joined puts the texts that are not empty together.
func joined(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

func prefix(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

// differs is s, unless it says the same as the other.
func differs(s, other string) string {
	if s == other {
		return ""
	}
	return s
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// sortedKeys lists the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

// noEntryError is a key that the ledger does not know.
type noEntryError struct{ key, hint string }

func (e *noEntryError) Error() string { return fmt.Sprintf("no entry %q%s", e.key, e.hint) }
func (e *noEntryError) Unwrap() error { return ledger.ErrNotFound }
