package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/internal/textfile"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
)

func newConfig(a *app) *cobra.Command {
	return parent("config", "check the config", newConfigCheck(a))
}

// configCheckOptions are the flags of config check.
type configCheckOptions struct{ output string }

func newConfigCheck(a *app) *cobra.Command {
	var o configCheckOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "check config, policies and connectors, and print every resolved value",
		Long: `check reads the config, the policy files and the definitions of all connectors,
and prints every value with where it comes from. Secrets are not printed. It
reaches neither an outside system nor the ledger. A mistake is exit code 2, with
all mistakes listed.`,
		Example: "  reconcile config check\n  reconcile config check --config staging.toml",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return o.run(a) },
	}
	bindOutput(cmd, &o.output, formatTable, formatJSON, formatCSV)
	return cmd
}

var settingColumns = []render.Column{
	{Name: "key", Kind: render.Key},
	{Name: "value"},
	{Name: "source"},
}

func (o configCheckOptions) run(a *app) error {
	s, err := a.load()
	if err != nil {
		return err
	}
	rows := make([][]any, len(s.cfg.Settings))
	for i, set := range s.cfg.Settings {
		rows[i] = []any{set.Key, set.Value, set.Source}
	}
	if err := a.rows(o.output, settingColumns, render.Slice(rows), a.Now()); err != nil {
		return err
	}
	a.note("%s: %s, %s; nothing is wrong", configName(s.cfg), plural(len(s.cfg.Policies.List), "policy", "policies"),
		plural(len(s.connectors), "connector", "connectors"))
	return nil
}

func configName(c *config.Config) string {
	if c.Path == "" {
		return "defaults"
	}
	return c.Path
}

func newInit(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "write a commented config and an empty ledger",
		Long: `init writes a short reconcile.toml (or the file that --config names), commented,
and creates the embedded ledger beside it. It never overwrites. Every key there
is stands in config.example.toml and docs/config.md.`,
		Example: "  reconcile init\n  reconcile init --config ops/reconcile.toml",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runInit(cmd.Context(), a) },
	}
}

func runInit(ctx context.Context, a *app) error {
	path := a.configFile
	if path == "" {
		path, _ = a.Env("RECONCILE_CONFIG")
	}
	if path == "" {
		path = "reconcile.toml"
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("%s: cannot be written: %s", path, textfile.Trouble(err))
	}
	// O_EXCL: two of them at once do not overwrite each other either. The
	// config may come to hold secrets.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already and is not overwritten; edit it, or name another file with --config", path)
	}
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %s", path, textfile.Trouble(err))
	}
	if _, err = f.Write(config.Sample()); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "wrote %s\n", path)

	cfg, err := config.Load(path, a.Env)
	if err != nil {
		return err
	}
	url, err := config.LedgerURL(a.ledgerURL, a.Env, cfg)
	if err != nil {
		return asUsage(err)
	}
	store, err := sqlstore.Open(ctx, url, sqlstore.Options{AutoMigrate: cfg.Ledger.AutoMigrate, Log: a.warnings()})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	check := "reconcile config check"
	if found, ok, err := config.Find("", a.Env); err != nil || !ok || found != path {
		check += " --config " + path // it is not found without
	}
	_, err = fmt.Fprintf(a.Out, "created the ledger %s\nnext: describe your systems in %s, then run: %s\n", config.RedactURL(url), path, check)
	return err
}

func newMigrate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "bring the ledger to the schema of this version",
		Long: `migrate creates or updates the tables of the ledger. It may be run at any time and
by several processes at once; migrations only go forward. A SQLite ledger is
migrated on first use; a PostgreSQL one here, or with ledger.auto_migrate.`,
		Example: "  reconcile migrate\n  reconcile migrate --ledger postgres://…",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.load()
			if err != nil {
				return err
			}
			return sqlstore.Migrate(cmd.Context(), s.url, a.Out)
		},
	}
}
