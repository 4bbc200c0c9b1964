package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

func newPolicy(a *app) *cobra.Command {
	test := &cobra.Command{
		Use:                "test FILE",
		Short:              "run policies against examples (not supported yet)",
		DisableFlagParsing: true,
		RunE:               func(cmd *cobra.Command, _ []string) error { return notYet(words(cmd)) },
	}
	return parent("policy", "check policies, and explain which one holds", newPolicyCheck(a), newPolicyExplain(a), test)
}

// policyCheckOptions are the flags of policy check.
type policyCheckOptions struct{ output string }

func newPolicyCheck(a *app) *cobra.Command {
	var o policyCheckOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "check all policies and list them in the order in which they match",
		Long: `check reads every policy and lists them in their order: the first that matches an
entry holds. Where none matches, the default holds, which sends nothing. Mistakes
are listed with file and line, exit code 2.`,
		Example: "  reconcile policy check",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return o.run(a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var policyColumns = []render.Column{
	{Name: "policy", Kind: render.Key},
	{Name: "matches"},
	{Name: "dispatch"},
	{Name: "max_attempts", Kind: render.Number},
	{Name: "max_age"},
	{Name: "settle_for"},
	{Name: "after_max_attempts"},
	{Name: "owner"},
}

func (o policyCheckOptions) run(a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	var rows [][]any
	list := s.cfg.Policies.List
	// The last one is the default, unless a policy without match stands
	// before it already.
	if n := len(list); n == 0 || matchText(list[n-1].Match) != matchesAll {
		list = append(list[:n:n], reconcile.DefaultPolicy())
	}
	for _, p := range list {
		owner := p.Owner
		if owner == "" {
			owner = "the entry's"
		}
		rows = append(rows, []any{p.Name, matchText(p.Match), dispatchText(p), p.MaxAttempts, duration.Format(p.MaxAge),
			duration.Format(p.SettleFor), afterText(p), owner})
	}
	if err := a.rows(o.output, policyColumns, render.Slice(rows), a.Now()); err != nil {
		return err
	}
	a.note("version %s", s.cfg.Policies.Version)
	return nil
}

const matchesAll = "everything"

func matchText(m reconcile.Match) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("workflow", strings.Join(m.Workflow, " or "))
	add("step", m.Step)
	add("operation", m.Operation)
	add("connector", m.Connector)
	add("risk", string(m.Risk))
	if len(parts) == 0 {
		return matchesAll
	}
	return strings.Join(parts, ", ")
}

func dispatchText(p reconcile.Policy) string {
	switch {
	case p.Dispatch != reconcile.DispatchUnset:
		return string(p.Dispatch)
	case p.HasRetry:
		return "send, where the operation has a send"
	}
	return "hold"
}

func afterText(p reconcile.Policy) string {
	if p.FailedState {
		return "failed"
	}
	return "escalated"
}

// policyExplainOptions are the flags of policy explain.
type policyExplainOptions struct{ key, output string }

func newPolicyExplain(a *app) *cobra.Command {
	var o policyExplainOptions
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "say which policy holds for an entry, and every value of it",
		Example: `  reconcile policy explain run_8f2:create-contact
  reconcile policy explain run_8f2:create-contact --output json`,
		Args: exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.key = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON)
	return cmd
}

func (o policyExplainOptions) run(ctx context.Context, a *app) error {
	s, st, err := a.loadEntry(ctx, o.key)
	if err != nil {
		return err
	}
	defer s.close()
	e := st.Entry
	var op connectors.Operation
	var known bool
	if c, ok := s.connectors[e.Connector]; ok {
		op, known = c.Info().Operation(e.Operation)
	}
	if !known {
		a.note("warning: the config has no operation %q of connector %q; nothing can be looked up or sent for this entry", e.Operation, e.Connector)
	}
	fields := explainPolicy(s.cfg.Policies.For(e), e, op)
	if o.output == formatJSON {
		cols := make([]render.Column, len(fields))
		row := make([]any, len(fields))
		for i, f := range fields {
			cols[i], row[i] = render.Column{Name: f.Name}, f.Value
		}
		return render.JSON(a.Out, render.Object{Columns: cols, Row: row})
	}
	return render.Fields(a.Out, fields, a.Width)
}

// explainPolicy lists every value of a policy as it holds for one entry.
func explainPolicy(p reconcile.Policy, e ledger.Entry, op connectors.Operation) []render.Field {
	risk := e.Risk.Higher(p.Risk)
	retryable := "the temporary classes"
	if p.RetryableSet {
		retryable = errorMatches(p.Retryable)
	}
	owner := p.Owner
	if owner == "" {
		owner = e.Owner
	}
	if owner == "" {
		owner = ledger.OwnerUnassigned
	}
	notify := p.Notify
	if notify == reconcile.NotifyUnset {
		notify = reconcile.NotifyDigest
		if risk == ledger.RiskHigh {
			notify = reconcile.NotifyNow
		}
	}
	ownerCheck := string(p.OwnerCheck)
	if p.OwnerCheck == reconcile.OwnerDefault {
		ownerCheck = "hold, where the connector's check names an owner"
	}
	channel := p.Channel
	if channel == "" {
		channel = "any"
	}
	refused := "blocked"
	if p.RefusedEscalates {
		refused = "escalated"
	}
	return []render.Field{
		{Name: "entry", Value: e.ActionKey},
		{Name: "policy", Value: p.Name},
		{Name: "match", Value: matchText(p.Match)},
		{Name: "risk", Value: string(risk)},
		{Name: "dispatch", Value: string(reconcile.ResolvedDispatch(p, op))},
		{Name: "retry.max_attempts", Value: strconv.Itoa(p.MaxAttempts)},
		{Name: "retry.max_age", Value: duration.Format(p.MaxAge)},
		{Name: "retry.backoff", Value: backoffText(p.Backoff)},
		{Name: "retry.retryable", Value: retryable},
		{Name: "retry.stop_on", Value: errorMatches(p.StopOn)},
		{Name: "settle.for", Value: duration.Format(p.SettleFor)},
		{Name: "settle.every", Value: duration.Format(p.SettleEvery)},
		{Name: "settle.pending_every", Value: duration.Format(p.PendingEvery)},
		{Name: "checks.consent", Value: string(p.Consent)},
		{Name: "checks.channel", Value: channel},
		{Name: "checks.owner", Value: ownerCheck},
		{Name: "checks.lifecycle", Value: string(p.Lifecycle)},
		{Name: "checks.refused", Value: refused},
		{Name: "after_max_attempts.state", Value: afterText(p)},
		{Name: "after_max_attempts.owner", Value: owner},
		{Name: "after_max_attempts.due", Value: duration.Format(p.Due)},
		{Name: "after_max_attempts.allow", Value: strings.Join(texts(p.Allow), ", ")},
		{Name: "after_max_attempts.notify", Value: string(notify)},
		{Name: "platform_retries_for", Value: duration.Format(p.PlatformRetriesFor)},
		{Name: "repeats", Value: strconv.FormatBool(p.Repeats)},
	}
}

func errorMatches(ms []reconcile.ErrorMatch) string {
	if len(ms) == 0 {
		return "none"
	}
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = string(m.Class)
		if m.Status != 0 {
			out[i] = strconv.Itoa(m.Status)
		}
	}
	return strings.Join(out, ", ")
}

func backoffText(b reconcile.Backoff) string {
	text := fmt.Sprintf("%s, base %s", b.Kind, duration.Format(b.Base))
	if b.Kind == reconcile.BackoffExponential {
		text += fmt.Sprintf(", factor %g", b.Factor)
	}
	if b.Kind != reconcile.BackoffFixed {
		text += ", max " + duration.Format(b.Max)
	}
	return text + fmt.Sprintf(", jitter %g", b.Jitter)
}
