package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretPrintsNothingUnderAnyVerb(t *testing.T) {
	const text = "s3cret-text"
	s := NewSecret(text)
	type holder struct {
		Exported Secret
		hidden   Secret
	}
	values := map[string]any{"itself": s, "a pointer": &s, "in a struct": holder{s, s}, "in a list": []Secret{s}, "in a map": map[string]Secret{"k": s},
		"in an error": fmt.Errorf("x: %w", fmt.Errorf("%v", s)), "a channel": Channel{URL: s, Secret: s}}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%10s", "%-10.2v"} {
			out := fmt.Sprintf(verb, v)
			if strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) || strings.Contains(out, fmt.Sprintf("%X", text)) {
				t.Errorf("%s under %s prints %s", name, verb, out)
			}
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "secret", s, "holder", holder{s, s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "secret", s, "holder", holder{s, s})
	js, err := json.Marshal(map[string]any{"secret": s, "holder": holder{s, s}})
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{log.String(), string(js)} {
		if strings.Contains(out, text) || !strings.Contains(out, redacted) {
			t.Errorf("got %s", out)
		}
	}
	if s.Reveal() != text || !s.IsSet() {
		t.Error("the text is lost")
	}
	if none := NewSecret(""); none.IsSet() || none.String() != "" || none.Reveal() != "" {
		t.Error("an empty secret is set")
	}
}

// canaries stand wherever a secret can, in the environment and in the file.
var canaries = []string{"CANARY1slack", "CANARY2hook", "CANARY3mail", "CANARY4sign", "CANARY5ledger", "CANARY6bearer", "CANARY7header", "CANARY8param"}

const canaryConfig = `[ledger]
url = "postgres://ada:CANARY5ledger@h/db?sslpassword=CANARY8param"
%s
[notify.a]
type = "slack"
url = "${SLACK}"
[notify.b]
type = "webhook"
url = "https://x.example/p"
secret = "CANARY2hook"
[notify.c]
type = "smtp"
url = "smtps://u:${MAIL}@mail.example"
from = "a@example.org"
to = ["b@example.org"]
[[policy]]
handover = { url = "https://x.example/y", secret = "CANARY4sign" }
[connectors.crm]
type = "fake"
auth = { bearer = "CANARY6bearer" }
headers = { X-Key = "CANARY7header", X-Other = "${OTHER}" }
`

var canaryEnv = []string{"SLACK", "https://chat.example/CANARY1slack", "MAIL", "CANARY3mail", "OTHER", "from-the-environment"}

func TestDescribeShowsNoSecret(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": fmt.Sprintf(canaryConfig, "")}, canaryEnv...)
	var out bytes.Buffer
	if err := c.Describe(&out); err != nil {
		t.Fatal(err)
	}
	for _, s := range canaries {
		if strings.Contains(out.String(), s) || strings.Contains(fmt.Sprintf("%+v %#v", c.Notify, c.Ledger), s) {
			t.Errorf("%s is shown:\n%s", s, out.String())
		}
	}
	for _, want := range []string{
		"ledger.url ", "postgres://ada:[redacted]@h/db?sslpassword=[redacted]", "reconcile.toml:2",
		"https://chat.example/[redacted]", "smtps://u:[redacted]@mail.example",
		"connectors.crm.headers.X-Other", "${OTHER}", "where no policy matches: retry.max_age", "72h",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not shown:\n%s", want, out.String())
		}
	}
}

func TestSecretsForMasking(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": fmt.Sprintf(canaryConfig, "")}, canaryEnv...)
	want := []string{"https://chat.example/CANARY1slack", "from-the-environment", "https://x.example/p", "https://x.example/y",
		"CANARY5ledger", "CANARY6bearer", "CANARY8param", "CANARY2hook", "CANARY3mail", "CANARY4sign"}
	if d := cmp.Diff(want, c.Secrets()); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
	if _, err := LedgerURL("postgres://ada:from-the-flag@h/db", environ(), c); err != nil || !slices.Contains(c.Secrets(), "from-the-flag") {
		t.Errorf("a password on the command line is not among %q, %v", c.Secrets(), err)
	}
}

// A short credential is looked for too; a short word beside it is not.
func TestShortSecretsForMasking(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": `[connectors.crm]
type = "fake"
base_url = "https://${HOST}/x"
auth = { bearer = "${TOKEN}" }
[connectors.erp]
type = "fake"
auth = { oauth2 = { grant = "client", client_id = "shop", client_secret = "s3cr" } }
[connectors.pay]
type = "fake"
auth = { header = { X-Key = "k-9x" }, query = { pin = "123" } }
`}, "TOKEN", "SECRET5", "HOST", "eu-west")
	if d := cmp.Diff([]string{"SECRET5", "k-9x", "s3cr"}, c.Secrets()); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
}

// How and where a token is got is no secret, by its place: neither hidden from
// who checks the config, nor masked in what is stored.
func TestPublicKeysOfAuth(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": `[connectors.crm]
type = "fake"
auth.oauth2 = { grant = "client_credentials", token_url = "https://u:CANARY1pass@id.example/token", scope = "read write", audience = "https://aud.example", key_file = "/etc/crm.pem", client_id = "CANARY2client", client_secret = "CANARY3secret" }
[connectors.erp]
type = "fake"
auth = { login = { method = "POST", path = "/CANARY4path", lasts = "30m", json = { user = "CANARY5user" } } }
[connectors.pay]
type = "fake"
auth = { header = { grant = "CANARY6header" } }
headers = { oauth2 = "CANARY7header" }
query = { token_url = "CANARY8param" }
`})
	var out bytes.Buffer
	if err := c.Describe(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "CANARY") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	for key, value := range map[string]string{
		"crm.auth.oauth2.grant": "client_credentials", "crm.auth.oauth2.token_url": "https://u:[redacted]@id.example/token",
		"crm.auth.oauth2.scope": "read write", "crm.auth.oauth2.audience": "https://aud.example", "crm.auth.oauth2.key_file": "/etc/crm.pem",
		"crm.auth.oauth2.client_secret": "[redacted]", "erp.auth.login.method": "POST", "erp.auth.login.lasts": "30m",
		"erp.auth.login.json.user": "[redacted]", "pay.auth.header.grant": "[redacted]",
	} {
		if !slices.ContainsFunc(c.Settings, func(s Setting) bool { return s.Key == "connectors."+key && s.Value == value }) {
			t.Errorf("connectors.%s is not shown as %s:\n%s", key, value, out.String())
		}
	}
	want := []string{"CANARY2client", "CANARY3secret", "CANARY6header", "/CANARY4path", "CANARY1pass", "CANARY5user"}
	if d := cmp.Diff(want, c.Secrets()); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
}

func TestMistakesShowNoSecret(t *testing.T) {
	cases := map[string]struct{ old, new string }{
		"broken TOML in the next line":     {"[notify.a]", "[notify.a"},
		"an unknown key beside it":         {"[notify.b]", "[notify.b]\nsecrte = \"CANARY2hook\""},
		"a line end in it":                 {"https://x.example/y", `https://x.example/CANARY4sign\n`},
		"an address that is none":          {"https://x.example/p", "x.example/CANARY2hook"},
		"a ledger that is none":            {"postgres://ada", "pg://ada"},
		"an address that does not parse":   {"smtps://u:${MAIL}@mail.example", "smtps://u:${MAIL}@mail.example:port"},
		"a secret where a word belongs":    {"%s", "lease = \"${MAIL}\""},
		"a secret where a size belongs":    {"%s", "payload_max = \"${MAIL}\""},
		"a secret where a flag belongs":    {"%s", "auto_migrate = \"${MAIL}\""},
		"a secret as the name of a zone":   {"[ledger]", "timezone = \"${MAIL}\"\n[ledger]"},
		"a secret as a cron line":          {"[ledger]", "schedule.settle = \"${MAIL}\"\n[ledger]"},
		"a secret as a place to listen":    {"[ledger]", "daemon.listen = \"${MAIL}\"\n[ledger]"},
		"a secret as the type of a notice": {"type = \"smtp\"", "type = \"${MAIL}\""},
		"a secret as a sender":             {"from = \"a@example.org\"", "from = \"${MAIL}\""},
		"a secret as a receiver":           {"to = [\"b@example.org\"]", "to = [\"${MAIL}\"]"},
		"a secret as a class":              {"[[policy]]", "[[policy]]\nretry.retryable = [\"${MAIL}\"]"},
		"a secret as an action":            {"[[policy]]", "[[policy]]\nafter_max_attempts.allow = [\"${MAIL}\"]"},
		"a number where it belongs":        {"\"CANARY4sign\"", "1.2.CANARY4sign"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(canaryConfig, c.old, c.new, 1)
			if text == canaryConfig {
				t.Fatalf("%q is not in the config", c.old)
			}
			write(t, map[string]string{"reconcile.toml": strings.Replace(text, "%s", "", 1)})
			_, err := Load("reconcile.toml", environ(canaryEnv...))
			if err == nil {
				t.Fatal("was accepted")
			}
			for _, s := range canaries {
				if strings.Contains(err.Error(), s) {
					t.Errorf("shows %s: %v", s, err)
				}
			}
			var es Errors
			if !errors.As(err, &es) || es[0].Line == 0 {
				t.Errorf("has no line: %v", err)
			}
		})
	}
}
