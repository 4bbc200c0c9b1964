package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/recovery-ledger/reconcile/internal/instant"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/ledger"
)

// windowFlags are --since and --until as they were typed.
type windowFlags struct{ since, until string }

func (w *windowFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&w.since, "since", "", "only what was last active at or after this `instant`: 24h, 7d, 2w, 90m, a date, RFC 3339")
	fs.StringVar(&w.until, "until", "", "only what was last active before this `instant`, in the same forms")
}

// resolve reads the window. now is what ages count from, loc the zone of
// dates.
func (w windowFlags) resolve(now time.Time, loc *time.Location) (since, until time.Time, err error) {
	for _, f := range []struct {
		name, text string
		to         *time.Time
	}{{"since", w.since, &since}, {"until", w.until, &until}} {
		if f.text == "" {
			continue
		}
		t, err := instant.Parse(f.text, now, loc)
		if err != nil {
			return time.Time{}, time.Time{}, usagef("--%s: %w", f.name, err)
		}
		*f.to = t.UTC()
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return time.Time{}, time.Time{}, usagef("--since %s is not before --until %s", utc(since), utc(until))
	}
	return since, until, nil
}

// filterFlags select entries.
type filterFlags struct {
	windowFlags
	workflow, connector, operation string
	state, class                   string
	owner, reason                  string
	flagged                        bool
}

// bind adds the flags of a pass, and with all those of a list.
func (f *filterFlags) bind(cmd *cobra.Command, all bool) {
	fs := cmd.Flags()
	f.windowFlags.bind(fs)
	fs.StringVar(&f.workflow, "workflow", "", "only entries of this `workflow`")
	fs.StringVar(&f.connector, "connector", "", "only entries of this `connector`")
	fs.StringVar(&f.state, "state", "", "only entries in this `state`: "+strings.Join(texts(ledger.States()), ", "))
	complete(cmd, "state", texts(ledger.States()))
	if !all {
		return
	}
	fs.StringVar(&f.operation, "operation", "", "only entries of this `operation`")
	fs.StringVar(&f.class, "class", "", "only entries of this report `class`: "+strings.Join(texts(ledger.ReportClasses()), ", "))
	fs.StringVar(&f.owner, "owner", "", "only entries of this `owner`")
	fs.StringVar(&f.reason, "reason", "", "only entries that stand where they stand for this reason `code`")
	fs.BoolVar(&f.flagged, "flagged", false, "only entries with an open flag")
	complete(cmd, "class", texts(ledger.ReportClasses()))
}

// filter reads the flags into a filter.
func (f filterFlags) filter(now time.Time, loc *time.Location) (ledger.Filter, error) {
	since, until, err := f.resolve(now, loc)
	if err != nil {
		return ledger.Filter{}, err
	}
	if err := oneOf("state", f.state, texts(ledger.States())); err != nil {
		return ledger.Filter{}, err
	}
	if err := oneOf("class", f.class, texts(ledger.ReportClasses())); err != nil {
		return ledger.Filter{}, err
	}
	return ledger.Filter{
		Since: since, Until: until, Workflow: f.workflow, Connector: f.connector, Operation: f.operation,
		State: ledger.State(f.state), Class: ledger.ReportClass(f.class), Owner: f.owner, Reason: f.reason, Flagged: f.flagged,
	}, nil
}

// any says whether any of the flags narrows what is selected.
func (f filterFlags) any() bool { return f != filterFlags{} }

// oneOf refuses a value that is none of those listed; empty is not given.
func oneOf(flag, value string, allowed []string) error {
	if value == "" {
		return nil
	}
	for _, a := range allowed {
		if a == value {
			return nil
		}
	}
	return usagef("--%s: %q is none of %s%s", flag, value, strings.Join(allowed, ", "), nearest.Hint(value, allowed))
}

func complete(cmd *cobra.Command, flag string, values []string) {
	// The only error is a flag that does not exist: a mistake of this program.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func texts[T ~string](xs []T) []string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = string(x)
	}
	return out
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
