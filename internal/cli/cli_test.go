package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

func TestExitCode(t *testing.T) {
	stopped, cancel := context.WithCancelCause(context.Background())
	cancel(ErrInterrupted)
	cases := map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"no error":                                         {context.Background(), nil, ExitDone},
		"no error, although a signal came":                 {stopped, nil, ExitDone},
		"any error":                                        {context.Background(), errors.New("x"), ExitFailed},
		"a mistake in usage":                               {context.Background(), usagef("x"), ExitUsage},
		"a mistake in usage, wrapped":                      {context.Background(), fmt.Errorf("y: %w", usagef("x")), ExitUsage},
		"mistakes in the config":                           {context.Background(), asUsage(config.Errors{{Message: "x"}}), ExitUsage},
		"a status that a command chose":                    {context.Background(), exitStatus(ExitCouldNotAsk), ExitCouldNotAsk},
		"an error after a signal":                          {stopped, errors.New("context canceled"), ExitInterrupted},
		"a mistake in usage stays one, interrupted or not": {stopped, usagef("x"), ExitUsage},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(c.ctx, c.err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// run is one command line with streams that are no terminal.
func run(t *testing.T, out io.Writer, args ...string) (code int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	code = Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: out, Err: &errs, Now: time.Now,
		Env: func(string) (string, bool) { return "", false }})
	return code, errs.String()
}

func TestUsageMistakes(t *testing.T) {
	cases := map[string]struct {
		args string
		want string
	}{
		"unknown command, near one":     {"entrys", `unknown command "entrys"; did you mean "entries"?`},
		"unknown command, near none":    {"frobnicate", `unknown command "frobnicate"; run: reconcile --help`},
		"unknown flag, near one":        {"--sicne 24h", `unknown flag --sicne; did you mean "--since"?`},
		"unknown flag of a command":     {"entries --conector x", `unknown flag --conector; did you mean "--connector"?`},
		"unknown flag, near none":       {"entries --zzz", "unknown flag --zzz; run: reconcile entries --help"},
		"a number that is none":         {"--limit ten", `--limit: "ten" is not a whole number`},
		"a negative limit":              {"--limit -1", "--limit -1"},
		"an argument too many":          {"show a b", `show: one argument too many: "b"`},
		"an argument missing":           {"key crm", "key needs KEY"},
		"a subcommand missing":          {"policy", "policy needs one of: check, explain, test"},
		"an unknown subcommand":         {"policy chek", `policy: unknown command "chek"; did you mean "check"?`},
		"an unknown format":             {"--output jsn", `--output: "jsn" is none of table, json, csv; did you mean "json"?`},
		"no lookups in a real pass":     {"--no-lookups", "--no-lookups works with --dry-run only"},
		"a later command":               {"prune", "prune: not supported yet"},
		"a later command with flags":    {"erase --all x", "erase: not supported yet"},
		"a page grouped":                {"report weekly --by owner", `--by: report weekly cannot be grouped by "owner"`},
		"an unknown report":             {"report outcome", `no report "outcome"; did you mean "outcomes"?`},
		"n8n records":                   {"import --format n8n x", "import --format n8n: not supported yet"},
		"stdin twice":                   {"import - -", "stdin can be read only once"},
		"week and since":                {"report outcomes --week 2026-W48 --since 1d", "--week is a window of its own"},
		"a column twice":                {"report outcomes --by workflow,workflow", `--by: report outcomes: column "workflow" is named twice`},
		"a column that is none":         {"report outcomes --by payload", `cannot be grouped by "payload"`},
		"no columns":                    {"report outcomes --by=", "--by: given, but empty"},
		"a window in the future":        {"report outcomes --since 2099-01-01", "--since: the window ends before it begins"},
		"a payload in a table":          {"entries --payload", "--payload works with --output json only"},
		"review without keys":           {"review retry", "needs KEY"},
		"review with keys and flags":    {"review retry k --owner x", "give keys or flags"},
		"resolve without a note":        {"review resolve k", "needs --note"},
		"override without a note":       {"review retry k --override", "review retry needs --note: say why no look is needed"},
		"review with nobody to ask":     {"review retry k", "give --yes"},
		"an instant that is none":       {"--since 24x", `--since: "24x" is not an instant`},
		"a window that ends too early":  {"--since 1h --until 2h", "is not before --until"},
		"an unknown state":              {"entries --state ambigous", `did you mean "ambiguous"?`},
		"a connector that is not there": {"--connector crm", `no connector "crm" in the config`},
		"a config that is not there":    {"--config nowhere.toml entries", "nowhere.toml: no such file"},
		"a ledger that is none":         {"entries --ledger mysql://x", "--ledger"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			var out bytes.Buffer
			code, stderr := run(t, &out, strings.Fields(c.args)...)
			if code != ExitUsage || !strings.Contains(stderr, "reconcile: ") || !strings.Contains(stderr, c.want) {
				t.Errorf("reconcile %s: exit %d, stderr %q; want exit 2 and %q", c.args, code, stderr, c.want)
			}
			if out.Len() > 0 {
				t.Errorf("stdout: %q", out.String())
			}
		})
	}
}

// failing is a stdout that cannot be written.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestStdoutThatCannotBeWritten(t *testing.T) {
	code, stderr := run(t, failing{syscall.ENOSPC}, "version")
	if code != ExitFailed || !strings.Contains(stderr, "no space left") {
		t.Errorf("full disk: exit %d, stderr %q", code, stderr)
	}
	code, stderr = run(t, failing{syscall.EPIPE}, "version")
	if code != ExitDone || stderr != "" {
		t.Errorf("closed pipe: exit %d, stderr %q; want a quiet 0", code, stderr)
	}
}

func TestEveryCommandHasHelpThatNeedsNoManual(t *testing.T) {
	root := newRoot(&app{})
	for _, c := range root.Commands() {
		if c.Short == "" {
			t.Errorf("%s has no short text", c.Name())
		}
		if c.GroupID == "" {
			t.Errorf("%s is in no group", c.Name())
		}
		if c.GroupID == groupLater || c.Name() == "help" || c.Name() == "completion" || c.Name() == "version" || c.Long == "" && c.HasSubCommands() {
			continue
		}
		if c.Long == "" || c.Example == "" {
			t.Errorf("%s has no long text or no example", c.Name())
		}
	}
}

// docs/cli.md names every command and every flag.
func TestDocsNameEveryCommandAndFlag(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() != "help" && c.Name() != "reconcile" && !strings.Contains(doc, c.Name()) {
			t.Errorf("docs/cli.md does not name %q", c.CommandPath())
		}
		if c.Name() == "completion" {
			return // cobra's own
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(doc, "--"+f.Name) {
				t.Errorf("docs/cli.md does not name --%s of %q", f.Name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{}))
}

// TestShownRisk: the higher of the record's risk and the policy's holds.
func TestShownRisk(t *testing.T) {
	s := &session{cfg: &config.Config{Policies: reconcile.Policies{List: []reconcile.Policy{
		{Match: reconcile.Match{Connector: "bank"}, Risk: ledger.RiskHigh},
		{Match: reconcile.Match{Connector: "chat"}, Risk: ledger.RiskLow},
	}}}}
	for name, c := range map[string]struct {
		connector    string
		record, want ledger.Risk
	}{
		"nobody says one":      {"crm", ledger.RiskNone, ledger.RiskNormal},
		"the record alone":     {"crm", ledger.RiskLow, ledger.RiskLow},
		"the policy alone":     {"chat", ledger.RiskNone, ledger.RiskLow},
		"the policy says more": {"bank", ledger.RiskNormal, ledger.RiskHigh},
		"the record says more": {"chat", ledger.RiskHigh, ledger.RiskHigh},
	} {
		shown, err := s.viewer().Listed(t.Context(), []ledger.Entry{{Connector: c.connector, Risk: c.record}})
		if err != nil {
			t.Fatal(err)
		}
		if got := shown[0].Risk; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCountsText(t *testing.T) {
	for name, c := range map[string]struct {
		ev   ledger.Evidence
		want string
	}{
		"a negative that counts":                           {ledger.Evidence{Counted: true}, "yes"},
		"one that proved absence, before the next attempt": {ledger.Evidence{Counted: true, Void: true}, "yes, then void"},
		"one that never counted, before the next attempt":  {ledger.Evidence{Void: true}, "void"},
		"any other answer":                                 {ledger.Evidence{}, ""},
	} {
		if got := countsText(c.ev); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"run_8f2:create-contact": "run_8f2:create-contact", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestAnswerTextSaysEachThingOnce(t *testing.T) {
	for want, a := range map[string]ledger.Attempt{
		"":                                 {},
		"timeout":                          {Class: ledger.ClassTimeout},
		"HTTP 500 server_error":            {HTTPStatus: 500, Class: ledger.ClassServerError, Message: "HTTP 500"},
		"HTTP 504 timeout page: Gateway":   {HTTPStatus: 504, Class: ledger.ClassTimeout, Message: "HTTP 504 page: Gateway"},
		"HTTP 401 auth invalid_token":      {HTTPStatus: 401, Class: ledger.ClassAuth, Code: "invalid_token", Message: "invalid_token"},
		"HTTP 422 validation DUP a taken":  {HTTPStatus: 422, Class: ledger.ClassValidation, Code: "DUP", Message: "a taken"},
		"HTTP 201 id 7":                    {HTTPStatus: 201, RemoteID: "7"},
		"HTTP 500 server_error HTTP 502 x": {HTTPStatus: 500, Class: ledger.ClassServerError, Message: "HTTP 502 x"},
	} {
		if got := answerText(a); got != want {
			t.Errorf("%+v: got %q, want %q", a, got, want)
		}
	}
}

func TestWindowText(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	for name, c := range map[string]struct {
		since, until time.Time
		want         string
	}{
		"everything":       {want: "window: everything"},
		"from on":          {since: before, want: "window: last active since 2026-11-28T11:00:00Z"},
		"until":            {until: before, want: "window: last active before 2026-11-28T11:00:00Z"},
		"between":          {since: before, until: after, want: "window: last active from 2026-11-28T11:00:00Z until 2026-11-28T13:00:00Z"},
		"now on":           {since: now, want: "window: last active since 2026-11-28T12:00:00Z"},
		"not yet: a slip?": {since: after, want: "window: nothing: --since 2026-11-28T13:00:00Z lies in the future"},
	} {
		if got := windowText(c.since, c.until, now); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
