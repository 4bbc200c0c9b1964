package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
)

func newToken(a *app) *cobra.Command {
	return parent("token", "manage access to the HTTP interface of the daemon", newTokenCreate(a), newTokenList(a), newTokenRevoke(a))
}

// tokenCreateOptions are the flags of token create.
type tokenCreateOptions struct {
	name   string
	scopes []string
}

func newTokenCreate(a *app) *cobra.Command {
	var o tokenCreateOptions
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE,…",
		Short: "make a token, and print it once",
		Long: `create prints a new token alone on stdout. It is not kept, only its SHA-256 is: one
that is lost is revoked, and another made. The name stands in the history beside
what is done with it, so give each workflow and each tool a token of its own.

Scopes, none of which holds another:
  ingest    record actions and attempts
  read      read entries and reports, without payloads
  operate   retry, resolve, cancel, assign and snooze entries
  payload   together with read: read payloads too`,
		Example: `  reconcile token create --name n8n --scope ingest
  reconcile token create --name dashboard --scope read > token.txt`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.name, "name", "", "`name` of the token, as the history shows it")
	fs.StringSliceVar(&o.scopes, "scope", nil, "what it is good for: `scopes` separated by commas: "+strings.Join(texts(ledger.Scopes()), ", "))
	complete(cmd, "scope", texts(ledger.Scopes()))
	return cmd
}

// tokenNames are plain: a name stands in the history and in log lines.
var tokenNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check reads the flags; the scopes are in the order of ledger.Scopes, each once.
func (o tokenCreateOptions) check() ([]ledger.Scope, error) {
	known := texts(ledger.Scopes())
	if o.name == "" {
		return nil, usagef("token create needs --name: who will use it")
	}
	if !tokenNames.MatchString(o.name) {
		return nil, usagef("--name: %q is no name of a token; write up to 64 letters, digits, dots, dashes and underscores", o.name)
	}
	if len(o.scopes) == 0 {
		return nil, usagef("token create needs --scope: one or more of %s", strings.Join(known, ", "))
	}
	for _, s := range o.scopes {
		if !slices.Contains(known, s) {
			return nil, usagef("--scope: %q is none of %s%s", s, strings.Join(known, ", "), nearest.Hint(s, known))
		}
	}
	return slices.DeleteFunc(ledger.Scopes(), func(s ledger.Scope) bool { return !slices.Contains(o.scopes, string(s)) }), nil
}

func (o tokenCreateOptions) run(ctx context.Context, a *app) error {
	scopes, err := o.check()
	if err != nil {
		return err
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	token := ledger.NewToken()
	_, err = s.store.CreateToken(ctx, o.name, scopes, ledger.TokenDigest(token))
	if errors.Is(err, ledger.ErrTokenTaken) {
		return fmt.Errorf("%w; give another name, or revoke that one first: reconcile token revoke %s", err, o.name)
	}
	if err != nil {
		return err
	}
	if slices.Contains(scopes, ledger.ScopePayload) && !slices.Contains(scopes, ledger.ScopeRead) {
		a.note("warning: payload is good for nothing without read")
	}
	if _, err := fmt.Fprintln(a.Out, token); err != nil {
		// Nobody has it, so nobody may use it. The cause is not wrapped: here a
		// reader that went away is a failure too.
		undone := "it is revoked, so run this again"
		if _, rerr := s.store.RevokeToken(ctx, o.name); rerr != nil {
			undone = fmt.Sprintf("revoke it: reconcile token revoke %s (it could not be done here: %v)", o.name, rerr)
		}
		return fmt.Errorf("token %q could not be printed: %s; %s", o.name, err.Error(), undone)
	}
	a.note("token %q is good for %s; it is not shown again", o.name, strings.Join(texts(scopes), ", "))
	return nil
}

// tokenListOptions are the flags of token list.
type tokenListOptions struct{ output string }

func newTokenList(a *app) *cobra.Command {
	var o tokenListOptions
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "list the tokens, revoked ones too",
		Example: "  reconcile token list --output json",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var tokenColumns = []render.Column{
	{Name: "name", Kind: render.Key},
	{Name: "scopes"},
	{Name: "created_at"},
	{Name: "revoked_at", Blank: "-"},
}

func (o tokenListOptions) run(ctx context.Context, a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	rows := make([][]any, len(tokens))
	for i, t := range tokens {
		rows[i] = []any{t.Name, texts(t.Scopes), t.CreatedAt, t.RevokedAt}
	}
	return a.rows(o.output, tokenColumns, render.Slice(rows), now)
}

func newTokenRevoke(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "end a token, from the next request on",
		Long: `revoke ends a token at once, in every daemon on this ledger. The name is free
again. To change a token without a gap, make one under another name first.`,
		Example: "  reconcile token revoke n8n",
		Args:    exactly("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return revokeToken(cmd.Context(), a, args[0]) },
	}
}

func revokeToken(ctx context.Context, a *app, name string) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openLedger(ctx); err != nil {
		return err
	}
	t, err := s.store.RevokeToken(ctx, name)
	switch {
	case errors.Is(err, ledger.ErrTokenRevoked):
		return fmt.Errorf("token %q was revoked already, at %s", name, utc(t.RevokedAt))
	case errors.Is(err, ledger.ErrNotFound):
		hint := "; there is none"
		if tokens, err := s.store.Tokens(ctx); err == nil && len(tokens) > 0 {
			var names []string
			for _, t := range tokens {
				names = append(names, t.Name)
			}
			if hint = nearest.Hint(name, names); hint == "" {
				hint = "; see: reconcile token list"
			}
		}
		return fmt.Errorf("no token %q%s", name, hint)
	case err != nil:
		return err
	}
	a.note("token %q is revoked", name)
	return nil
}
