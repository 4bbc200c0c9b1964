package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// reviewOptions are the flags of a person's action.
type reviewOptions struct {
	filterFlags
	action    ledger.Action
	keys      []string
	note      string
	reference string
	outcome   string
	to        string
	snooze    string // --until of snooze
	override  bool
	yes       bool
	dryRun    bool
	output    string
}

var reviewTexts = map[ledger.Action]struct{ short, long, example string }{
	ledger.ActionTake: {
		"become the owner of entries",
		"take makes you the owner. It is always allowed.",
		"  reconcile review take run_8f2:create-contact",
	},
	ledger.ActionRetry: {
		"allow one more attempt, beyond the limits",
		`retry is permission, not proof: an entry whose effect is unknown is looked at
first, and all checks are made anew. --override skips the look; say why with
--note, it stays in the history.`,
		"  reconcile review retry run_8f2:create-contact --yes\n  reconcile review retry --connector billing --reason attempts_exhausted",
	},
	ledger.ActionResolve: {
		"settle entries, on what a person has seen",
		`resolve settles an entry as applied (or as --outcome says). The reference is what
you have seen in the outside system: it becomes evidence, and the remote id where
there is none. On a settled entry --note closes the open flags, and with
--outcome corrects it; both outcomes stay in the history.`,
		`  reconcile review resolve run_8f2:create-contact --reference C-123 --note "found by hand"
  reconcile review resolve run_9a1:charge --outcome not_applied --reference T-77 --note "bank says no"`,
	},
	ledger.ActionCancel: {
		"settle entries without another attempt",
		"cancel settles an entry as not applied, or as unknown while its effect is unknown.",
		`  reconcile review cancel run_8f2:create-contact --note "customer withdrew"`,
	},
	ledger.ActionAssign: {
		"make somebody else the owner of entries",
		"assign changes the owner. The first owner is kept.",
		"  reconcile review assign run_8f2:create-contact --to finance",
	},
	ledger.ActionSnooze: {
		"put entries aside for a time",
		"snooze defers an entry until an instant: 2h, 3d (from now), a date, RFC 3339.",
		"  reconcile review snooze run_8f2:create-contact --until 3d",
	},
}

func newReviewAction(a *app, action ledger.Action) *cobra.Command {
	o := reviewOptions{action: action}
	text := reviewTexts[action]
	cmd := &cobra.Command{
		Use:   string(action) + " KEY…",
		Short: text.short,
		Long: text.long + `

Entries are named by key, or selected by flags from what waits for a person. It
asks before it acts on a terminal, and needs --yes elsewhere. What an entry does
not allow is refused for that entry, shown, and ends in exit code 1.`,
		Example: text.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.keys = args
			return o.run(cmd.Context(), a)
		},
	}
	fs := cmd.Flags()
	o.bindReview(cmd)
	fs.StringVar(&o.since, "since", "", "only what was last active at or after this `instant`")
	if action != ledger.ActionSnooze {
		fs.StringVar(&o.until, "until", "", "only what was last active before this `instant`")
	}
	fs.StringVar(&o.note, "note", "", "`text` for the history")
	switch action {
	case ledger.ActionResolve:
		fs.StringVar(&o.reference, "reference", "", "`what` was seen in the outside system")
		fs.StringVar(&o.outcome, "outcome", "", "`outcome`: applied (the default), not_applied")
		complete(cmd, "outcome", texts(reconcile.Outcomes()))
	case ledger.ActionAssign:
		fs.StringVar(&o.to, "to", "", "the new `owner`")
	case ledger.ActionSnooze:
		fs.StringVar(&o.snooze, "until", "", "put aside until this `instant`")
	case ledger.ActionRetry:
		fs.BoolVar(&o.override, "override", false, "skip the look that comes before a send; needs --note")
	}
	fs.BoolVar(&o.yes, "yes", false, "do not ask")
	fs.BoolVar(&o.dryRun, "dry-run", false, "say what would be done; change nothing")
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

// check tells what was typed wrong, before anything is opened.
func (o reviewOptions) check(now time.Time, loc *time.Location) (reconcile.PersonAction, error) {
	p := reconcile.PersonAction{Action: o.action, By: person(), Note: o.note, Reference: o.reference,
		Outcome: ledger.Outcome(o.outcome), To: o.to, Override: o.override}
	name := "review " + string(o.action)
	if len(o.keys) > 0 && o.any() {
		return p, usagef("%s: give keys or flags that select, not both", name)
	}
	if len(o.keys) == 0 && !o.any() {
		return p, usagef("%s needs KEY…, or flags that select entries; see: reconcile review list", name)
	}
	if err := oneOf("outcome", o.outcome, texts(reconcile.Outcomes())); err != nil {
		return p, err
	}
	if o.snooze != "" {
		t, err := instant.ParseAhead(o.snooze, now, loc)
		if err != nil {
			return p, usagef("--until: %w", err)
		}
		p.Until = t
	}
	if lacks := p.Check(now); len(lacks) > 0 {
		return p, usagef("%s needs --%s: %s", name, lacks[0].Part, lacks[0].Why)
	}
	return p, nil
}

// reviewed is what became of one entry.
type reviewed struct {
	key      string
	from, to ledger.Entry
	refused  string
}

var reviewedColumns = []render.Column{
	{Name: "action_key", Kind: render.Key},
	{Name: "from"},
	{Name: "to"},
	{Name: "outcome"},
	{Name: "owner"},
	{Name: "result", Wrap: true},
}

func (o reviewOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := o.check(a.Now(), s.zone); err != nil {
		return err
	}
	if !o.yes && !o.dryRun && !(a.InTerminal && a.ErrTerminal) {
		return usagef("review %s asks before it acts; there is nobody to ask, so give --yes (nothing was done)", o.action)
	}
	if w := s.cfg.Owners.Unknown(o.to); w != "" {
		a.note("warning: --to: %s", w)
	}
	f, now, err := s.selection(ctx, o.filterFlags, s.openEngine)
	if err != nil {
		return err
	}
	p, err := o.check(now, s.zone)
	if err != nil {
		return err
	}
	keys := o.keys
	if len(keys) == 0 {
		es, err := waiting(ctx, s, f)
		if err != nil {
			return err
		}
		for _, e := range es {
			keys = append(keys, e.ActionKey)
		}
		if len(keys) == 0 {
			a.note("no entry waits for a person there")
		}
	}
	if len(keys) > 0 && !o.yes && !o.dryRun {
		if ok, err := o.ask(a, keys); err != nil || !ok {
			if err == nil {
				a.note("nothing was done")
				err = exitStatus(ExitFailed)
			}
			return err
		}
	}
	var done []reviewed
	var broken error
	for _, k := range keys {
		if ctx.Err() != nil {
			broken = context.Cause(ctx)
			break
		}
		r, err := o.one(ctx, s, k, p, now)
		if err != nil {
			broken = err
			break
		}
		done = append(done, r)
	}
	if err := o.print(a, done, now); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	for _, r := range done {
		if r.refused != "" {
			return exitStatus(ExitFailed)
		}
	}
	return nil
}

// ask shows what is about to be done, and waits for a yes.
func (o reviewOptions) ask(a *app, keys []string) (bool, error) {
	const shown = 20
	for _, k := range keys[:min(len(keys), shown)] {
		a.note("  %s", k)
	}
	if n := len(keys) - shown; n > 0 {
		a.note("  and %d more", n)
	}
	fmt.Fprintf(a.Err, "%s %s? [y/N] ", o.action, plural(len(keys), "entry", "entries"))
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// one applies the action to one entry, or says why not.
func (o reviewOptions) one(ctx context.Context, s *session, key string, p reconcile.PersonAction, now time.Time) (reviewed, error) {
	r := reviewed{key: key}
	st, err := findEntry(ctx, s.store, key)
	if errors.Is(err, ledger.ErrNotFound) {
		r.refused = err.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.from, r.to = st.Entry, st.Entry
	var next ledger.Entry
	if o.dryRun {
		next, err = reconcile.AfterPerson(st.Entry, p, s.viewer().Setting(st.Entry, now))
	} else {
		next, err = s.engine.Person(ctx, key, p)
	}
	var no *reconcile.NotAllowedError
	var lack *reconcile.PartError
	switch {
	case errors.As(err, &no):
		r.refused = no.Why
		return r, nil
	case errors.As(err, &lack):
		r.refused = fmt.Sprintf("it needs --%s: %s", lack.Part, lack.Why)
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.to = next
	return r, nil
}

func (o reviewOptions) print(a *app, done []reviewed, now time.Time) error {
	rows := make([][]any, len(done))
	for i, r := range done {
		result := "done"
		switch {
		case r.refused != "":
			result = "refused: " + r.refused
			a.note("%s: %s", r.key, r.refused)
		case o.dryRun:
			result = "would be done"
		}
		rows[i] = []any{r.key, r.from.State, r.to.State, r.to.Outcome, r.to.Owner, result}
	}
	return a.rows(o.output, reviewedColumns, render.Slice(rows), now)
}
