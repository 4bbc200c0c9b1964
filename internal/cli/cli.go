// Package cli is the command line of reconcile: commands, flags, streams and
// exit codes. It wires the other packages and holds no rule that a test of
// theirs could not reach.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/recovery-ledger/reconcile/internal/nearest"
)

// app is what every command has at hand: its streams and the flags that stand
// before or after any command.
type app struct {
	Streams
	configFile string // --config
	ledgerURL  string // --ledger
}

// Run executes one command line and returns its exit code. The context is
// cancelled with ErrInterrupted as its cause to stop a command cleanly.
func Run(ctx context.Context, args []string, s Streams) int {
	out := &output{w: s.Out}
	s.Out = out
	a := &app{Streams: s}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)

	if werr := out.failed(); werr != nil {
		switch {
		case closedPipe(werr) && (err == nil || errors.Is(err, werr)):
			return ExitDone
		case err == nil, errors.Is(err, werr):
			err = fmt.Errorf("%w; the result is not whole: make room, or write it elsewhere", cmp.Or(err, werr))
		}
	}
	code := exitCode(ctx, err)
	if code == ExitInterrupted {
		fmt.Fprintln(s.Err, "reconcile: interrupted")
		return code
	}
	for _, m := range messages(err) {
		a.note("reconcile: %s", m)
	}
	return code
}

// onlyPrint are the commands that are run for what they print alone: where
// nobody can read it, they fail, before they do anything. The others may be run
// for what they do.
var onlyPrint = []string{"export", "entries", "show", "report", "review list", "lanes", "key", "token create", "token list"}

// Groups of commands in the help.
const (
	groupRecords = "records"
	groupLook    = "look"
	groupPeople  = "people"
	groupRun     = "run"
	groupSetup   = "setup"
	groupLater   = "later"
)

const rootLong = `reconcile settles unknown outcomes of business automations.

Without a command it runs one pass over the recovery ledger: it settles what is
unknown by asking the outside system by action key, releases what waited for a
condition that now holds, advances what may be tried again, and escalates what
needs a person. Then it says what it did. Without --since a pass takes all that
is due: that is the line for cron.

Instants (--since, --until): 90m, 24h, 7d or 2w ago; a date (start of that day
in the configured zone); or RFC 3339. The window is on last activity.`

const rootExample = `  reconcile init                       write a config and an empty ledger
  reconcile import failures.jsonl      record what happened
  reconcile --since 24h --dry-run      see what a pass would do
  reconcile --since 24h                do it
  reconcile show run_8f2:create-contact
  reconcile report outcomes --since 7d`

const exitHelp = `Exit codes:
  0    done
  1    failed, no such key, or part of the input was refused
  2    mistake in usage or config: nothing was run
  3    with --detailed-exitcode: done, and entries need a person
  4    done, but a system could not be asked (wins over 3)
  130  interrupted; a daemon that stops cleanly exits 0
`

func newRoot(a *app) *cobra.Command {
	root := newPass(a)
	root.Use = "reconcile"
	root.Short = "settle unknown outcomes of business automations"
	root.Long = rootLong
	root.Example = rootExample
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SuggestionsMinimumDistance = 2
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef("unknown command %q%s", args[0], cmp.Or(nearest.Hint(args[0], commandNames(cmd)), "; run: reconcile --help"))
	}
	root.PersistentFlags().StringVar(&a.configFile, "config", "", "config `file` (default ./reconcile.toml, then the user's config folder; env RECONCILE_CONFIG)")
	root.PersistentFlags().StringVar(&a.ledgerURL, "ledger", "", "ledger `url`: sqlite:FILE or postgres://… (env RECONCILE_LEDGER; default reconcile.db beside the config)")
	root.SetFlagErrorFunc(flagError)
	// An unset variable in a script must not select everything.
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return usagef("%s: an argument is empty; is a variable of a script not set?", words(cmd))
		}
		var empty []string
		cmd.Flags().Visit(func(f *pflag.Flag) {
			list, isList := f.Value.(pflag.SliceValue)
			if f.Value.Type() == "string" && f.Value.String() == "" || isList && len(list.GetSlice()) == 0 {
				empty = append(empty, "--"+f.Name)
			}
		})
		if len(empty) > 0 {
			return usagef("%s: given, but empty; give a value, or leave it out", strings.Join(empty, ", "))
		}
		if a.OutClosed && slices.Contains(onlyPrint, words(cmd)) {
			return fmt.Errorf("%s: stdout is closed, so the result would be lost; give it a file or a pipe (> /dev/null throws it away)", words(cmd))
		}
		return nil
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(),
		`{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}`,
		`{{if and .HasAvailableSubCommands (not .HasParent)}}

`+exitHelp+`
Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}`, 1))

	root.AddGroup(
		&cobra.Group{ID: groupRecords, Title: "Record and read:"},
		&cobra.Group{ID: groupLook, Title: "Reports:"},
		&cobra.Group{ID: groupPeople, Title: "Decide:"},
		&cobra.Group{ID: groupRun, Title: "Run and stop:"},
		&cobra.Group{ID: groupSetup, Title: "Set up and check:"},
		&cobra.Group{ID: groupLater, Title: "Not there yet (exit 2):"},
	)
	add := func(group string, cs ...*cobra.Command) {
		for _, c := range cs {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRecords, newImport(a), newExport(a), newEntries(a), newShow(a))
	add(groupLook, newReport(a))
	add(groupPeople, newReview(a))
	add(groupRun, newDaemon(a), newLanes(a), newHold(a), newResume(a), newLedger(a))
	add(groupSetup, newInit(a), newMigrate(a), newConfig(a), newPolicy(a), newConnectors(a), newKey(a), newToken(a), newDoctor(a),
		newDemo(a), newVersion(a))
	root.AddCommand(laterCommands()...)
	root.SetHelpCommandGroupID(groupSetup)
	root.SetCompletionCommandGroupID(groupSetup)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseUnknownTopics(root)
	for name, short := range map[string]string{"help": "show the help of a command", "completion": "print a completion script for bash, zsh, fish or powershell"} {
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			c.Short = short
			if name == "completion" {
				c.Args = nil
				c.RunE = func(cmd *cobra.Command, args []string) error {
					return usagef("completion: name the shell: bash, zsh, fish or powershell%s", nearest.Hint(strings.Join(args, " "), commandNames(cmd)))
				}
			}
		}
	}
	return root
}

// refuseUnknownTopics makes a slip after help a mistake, as it is without help.
func refuseUnknownTopics(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
		at := root
		for i, name := range args {
			next, _, err := at.Find([]string{name})
			if err != nil || next == at {
				return usagef("help: unknown command %q%s", strings.Join(args[:i+1], " "), cmp.Or(nearest.Hint(name, commandNames(at)), "; run: "+at.CommandPath()+" --help"))
			}
			at = next
		}
		at.InitDefaultHelpFlag() // it is listed, though nobody asked by it
		return at.Help()
	}
}

// flagError turns a mistake in a flag into a usage error that says what to do.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		add := func(f *pflag.Flag) { names = append(names, f.Name) }
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		name := unknown.GetSpecifiedName()
		hint := nearest.Hint("--"+name, prefixed("--", names))
		if hint == "" {
			hint = "; run: " + cmd.CommandPath() + " --help"
		}
		return usagef("unknown flag --%s%s", name, hint)
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		want := map[string]string{"int": "a whole number", "bool": "true or false"}[f.Value.Type()]
		if want != "" {
			return usagef("--%s: %q is not %s", f.Name, value.GetValue(), want)
		}
	}
	return usagef("%w; run: %s --help", err, cmd.CommandPath())
}

func prefixed(prefix string, xs []string) []string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = prefix + x
	}
	return out
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// words is a command as it is typed after the program's name.
func words(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// exactly is an argument check that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s needs %s; run: %s --help", words(cmd), strings.Join(names[len(args):], " and "), cmd.CommandPath())
		case len(args) > len(names):
			return usagef("%s: one argument too many: %q; run: %s --help", words(cmd), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// atLeastOne is an argument check for a list of things.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs at least one %s; run: %s --help", words(cmd), name, cmd.CommandPath())
		}
		return nil
	}
}

// parent is a command that only holds others.
func parent(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs one of: %s", words(cmd), strings.Join(commandNames(cmd), ", "))
		}
		return usagef("%s: unknown command %q%s", words(cmd), args[0], nearest.Hint(args[0], commandNames(cmd)))
	}
	c.RunE = func(*cobra.Command, []string) error { return nil } // never reached: Args refuses everything
	c.AddCommand(subs...)
	return c
}
