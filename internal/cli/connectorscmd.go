package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// connectorsOptions are the flags of connectors.
type connectorsOptions struct{ output string }

func newConnectors(a *app) *cobra.Command {
	var o connectorsOptions
	cmd := &cobra.Command{
		Use:   "connectors",
		Short: "show what each connector can do, and how far its answers go",
		Long: `connectors lists one row for each operation: how it is asked, when a negative
answer counts and how many prove absence (where the risk is normal: low needs 1,
high one more), what shows that the lookup works, what at the system refuses a
second effect, and what can be sent and checked.`,
		Example: "  reconcile connectors\n  reconcile connectors --output json\n  reconcile connectors check billing",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s: unknown command %q%s", words(cmd), args[0], nearest.Hint(args[0], commandNames(cmd)))
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return o.run(a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	cmd.AddCommand(newConnectorsCheck(a))
	return cmd
}

var connectorColumns = []render.Column{
	{Name: "connector", Kind: render.Key},
	{Name: "operation", Kind: render.Key},
	{Name: "lookup"},
	{Name: "counts_after"},
	{Name: "absent_after"},
	{Name: "looks_back", Blank: "no bound"},
	{Name: "control"},
	{Name: "refuses_second"},
	{Name: "send"},
	{Name: "checks", Blank: "none"},
}

// connectorAllColumns are the same with what only describes a connector.
var connectorAllColumns = append(connectorColumns[:len(connectorColumns):len(connectorColumns)],
	render.Column{Name: "folds_keys"},
	render.Column{Name: "replays_errors"},
	render.Column{Name: "title"},
	render.Column{Name: "facts"},
)

func (o connectorsOptions) run(a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	cols := connectorAllColumns
	if o.output == formatTable {
		cols = connectorColumns
	}
	var rows [][]any
	for _, name := range sortedKeys(s.connectors) {
		info := s.connectors[name].Info()
		var facts []string
		for _, op := range info.Operations {
			facts = factsOf(op) // those of the connector: the same for each
			rows = append(rows, operationRow(info, op)[:len(cols)])
		}
		if about := joined("; ", append([]string{info.Title}, facts...)...); about != "" && o.output == formatTable {
			a.note("connector %s: %s", name, about)
		}
		if len(info.Operations) == 0 {
			a.note("connector %s has no operation", name)
		}
	}
	if len(s.connectors) == 0 {
		a.note("no connector in %s; add a [connectors.NAME] table (docs/connectors.md has examples)", configName(s.cfg))
	}
	return a.rows(o.output, cols, render.Slice(rows), a.Now())
}

func operationRow(info connectors.Info, op connectors.Operation) []any {
	lookup := string(op.Lookup)
	if op.Lookup == connectors.LookupBatch {
		lookup = fmt.Sprintf("batch of %d", op.BatchMax)
	}
	counts, absent, control := "never", "never", "none"
	back := ""
	if op.Lookup != connectors.LookupNone {
		after, needed := negatives(op)
		counts = duration.Format(after)
		absent = fmt.Sprintf("%d, %s apart", needed, duration.Format(op.AbsentSpacing))
		control = "youngest applied entry"
		switch {
		case op.Canary != "":
			control = "canary"
		case op.ControlProbe:
			control = "probe only"
		}
		if op.LooksBack > 0 {
			back = duration.Format(op.LooksBack)
		}
	}
	send := "no"
	if op.CanSend {
		send = "yes"
		if op.SendNeedsID {
			send = "yes, proven by id"
		}
	}
	checks := make([]string, len(op.Checks))
	for i, c := range op.Checks {
		checks[i] = string(c)
	}
	return []any{info.Name, op.Name, lookup, counts, absent, back, control, refusesSecond(op), send, checks,
		info.KeyFold, op.ReplaysError, info.Title, factsOf(op)}
}

// factsOf are the facts of a definition, a line each.
func factsOf(op connectors.Operation) []string {
	facts := []string{}
	for _, name := range sortedKeys(op.Facts) {
		facts = append(facts, name+": "+op.Facts[name])
	}
	return facts
}

// anyTime is when the entries and answers below are made up.
var anyTime = time.Unix(0, 0).UTC()

// negatives asks the judge of answers how long after the last moment of a send
// a negative begins to count, and how many of them prove absence where the risk
// is normal.
func negatives(op connectors.Operation) (after time.Duration, needed int) {
	none := connectors.Answer{Complete: true}
	if op.Removes { // what is still there is the negative
		none.Records = []connectors.Record{{Standing: connectors.StandingApplied}}
	}
	j := reconcile.Judge(ledger.Entry{SendBy: anyTime}, nil, none,
		reconcile.Question{Op: op, Risk: ledger.RiskNormal, Control: reconcile.ControlFound, AskedAt: anyTime, Findable: true})
	return j.FirstCount.Sub(anyTime), j.Needed
}

// refusesSecond says what at the system keeps a second effect from happening,
// for a key that was just sent.
func refusesSecond(op connectors.Operation) string {
	switch by := reconcile.RefusesSecond(ledger.Entry{KeySentAt: anyTime}, op, anyTime); by {
	case "":
		return "nothing"
	case "key":
		return fmt.Sprintf("key (%s, %s)", duration.Format(op.KeepsKey), op.KeyScope)
	default:
		return by
	}
}

// connectorsCheckOptions are the flags of connectors check.
type connectorsCheckOptions struct{ name, output string }

func newConnectorsCheck(a *app) *cobra.Command {
	var o connectorsCheckOptions
	cmd := &cobra.Command{
		Use:   "check [NAME]",
		Short: "ask a connector (or all) who we are, and look up its known records",
		Long: `check proves the credential with the probe, and each lookup with its canary: a
record that is always there. It changes nothing. With a failed check the exit
code is 4.`,
		Example: "  reconcile connectors check\n  reconcile connectors check billing",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly("NAME")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.name = args[0]
			}
			return o.run(cmd.Context(), a)
		},
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var checkColumns = []render.Column{
	{Name: "connector", Kind: render.Key},
	{Name: "check", Kind: render.Key},
	{Name: "result"},
	{Name: "detail"},
}

func (o connectorsCheckOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	names := sortedKeys(s.connectors)
	if o.name != "" {
		if _, err := s.connector(o.name); err != nil {
			return err
		}
		names = []string{o.name}
	}
	var rows [][]any
	bad := false
	for _, n := range names {
		for _, r := range checkConnector(ctx, s.connectors[n]) {
			rows = append(rows, []any{n, r.check, r.result, r.detail})
			bad = bad || r.result == checkFailed
		}
	}
	if err := a.rows(o.output, checkColumns, render.Slice(rows), a.Now()); err != nil {
		return err
	}
	if interrupted(ctx) {
		return ErrInterrupted
	}
	if bad {
		return exitStatus(ExitCouldNotAsk)
	}
	return nil
}

// The results of a check.
const (
	checkOK      = "ok"
	checkFailed  = "failed"
	checkSkipped = "not checked"
)

type checkResult struct{ check, result, detail string }

// checkConnector asks who we are, and each operation for its canary.
func checkConnector(ctx context.Context, c connectors.Connector) []checkResult {
	info := c.Info()
	var out []checkResult
	if p, ok := c.(connectors.Prober); ok && info.HasProbe {
		id, err := p.Probe(ctx)
		if err != nil {
			out = append(out, checkResult{"probe", checkFailed, err.Error()})
		} else {
			out = append(out, checkResult{"probe", checkOK, joined(" ", prefix("account ", id.Account), prefix("mode ", id.Mode))})
		}
	} else {
		out = append(out, checkResult{"probe", checkSkipped, "the definition has no probe"})
	}
	for _, op := range info.Operations {
		switch {
		case op.Lookup == connectors.LookupNone:
			out = append(out, checkResult{op.Name, checkSkipped, "cannot be looked up: unknown outcomes go to people"})
		case op.Canary == "":
			out = append(out, checkResult{op.Name, checkSkipped, "no canary: set one to a record that is always there"})
		default:
			out = append(out, checkCanary(ctx, c, op))
		}
	}
	return out
}

func checkCanary(ctx context.Context, c connectors.Connector, op connectors.Operation) checkResult {
	ctx, cancel := context.WithTimeout(ctx, max(op.Timeout, time.Second)*3) // it may read several pages
	defer cancel()
	r := checkResult{check: op.Name, result: checkFailed}
	ans, err := c.Lookup(ctx, connectors.Query{Operation: op.Name, Keys: []string{op.Canary}, ActionKey: op.Canary})
	switch {
	case err != nil:
		r.detail = err.Error()
		var ce *connectors.Error
		if errors.As(err, &ce) && ce.Kind == connectors.KindNotUsable {
			r.detail += "; the lookup does not filter by our key"
		}
	case len(ans.Records) == 0 && ans.Foreign > 0:
		r.detail = fmt.Sprintf("canary %q: only other records came back; the lookup does not filter by our key", op.Canary)
	case len(ans.Records) == 0:
		r.detail = fmt.Sprintf("canary %q was not found; no negative of this lookup can be believed", op.Canary)
	default:
		r.result, r.detail = checkOK, fmt.Sprintf("canary %q found as %s", op.Canary, ans.Records[0].ID)
	}
	return r
}

// keyOptions are the flags of key.
type keyOptions struct{ connector, key, operation string }

func newKey(a *app) *cobra.Command {
	var o keyOptions
	cmd := &cobra.Command{
		Use:   "key CONNECTOR KEY",
		Short: "print the key that an action travels under at a system",
		Long: `key prints the effective key of an action: the action key itself where it fits
the system, else the key derived from it. A workflow that sends this key can
always be looked up.`,
		Example: "  reconcile key billing run_8f2:create-invoice",
		Args:    exactly("CONNECTOR", "KEY"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.connector, o.key = args[0], args[1]
			return o.run(a)
		},
	}
	cmd.Flags().StringVar(&o.operation, "operation", "", "of this `operation`, where operations differ")
	return cmd
}

func (o keyOptions) run(a *app) error {
	if why := ledger.CheckKey(o.key); why != "" {
		return usagef("KEY: %s", why)
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	c, err := s.connector(o.connector)
	if err != nil {
		return err
	}
	info := c.Info()
	ops := info.Operations
	if o.operation != "" {
		op, ok := info.Operation(o.operation)
		if !ok {
			return usagef("--operation: connector %s has no operation %q%s", o.connector, o.operation, nearest.Hint(o.operation, operationNames(info)))
		}
		ops = []connectors.Operation{op}
	}
	d, ok := c.(connectors.KeyDeriver)
	if !ok {
		_, err := fmt.Fprintln(a.Out, o.key)
		return err
	}
	type derived struct {
		key string
		by  bool
	}
	byOp := map[derived][]string{}
	var first derived
	for i, op := range ops {
		k, der, err := d.DeriveKey(op.Name, o.key, 0)
		if err != nil {
			return fmt.Errorf("operation %s: %w", op.Name, err)
		}
		if i == 0 {
			first = derived{k, der}
		}
		byOp[derived{k, der}] = append(byOp[derived{k, der}], op.Name)
	}
	if len(byOp) > 1 {
		for _, op := range ops {
			k, _, err := d.DeriveKey(op.Name, o.key, 0)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.Out, "%s\t%s\n", op.Name, render.Visible(k)); err != nil {
				return err
			}
		}
		a.note("the key differs by operation; --operation prints one alone")
		return nil
	}
	if first.by {
		a.note("derived: the action key itself does not fit this system")
	}
	_, err = fmt.Fprintln(a.Out, render.Visible(first.key))
	return err
}

func operationNames(info connectors.Info) []string {
	var names []string
	for _, op := range info.Operations {
		names = append(names, op.Name)
	}
	return names
}
