package config

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

// fake is a connector that can do what its table says under "operation".
type fake struct{ info connectors.Info }

func (f fake) Info() connectors.Info { return f.info }
func (f fake) Lookup(context.Context, connectors.Query) (connectors.Answer, error) {
	return connectors.Answer{}, &connectors.Error{Kind: connectors.KindUnsupported}
}

// registry knows the type "fake". What it opens is refused with refuse, if set.
func registry(t *testing.T, version string, refuse error, seen *[]connectors.Config) *connectors.Registry {
	t.Helper()
	reg, err := connectors.NewRegistry(connectors.Descriptor{Type: "fake", Summary: "a fake", Open: func(c connectors.Config) (connectors.Connector, error) {
		if seen != nil {
			*seen = append(*seen, c)
		}
		if refuse != nil {
			return nil, refuse
		}
		info := connectors.Info{Name: c.Name, Type: "fake", Version: version}
		ops, _ := c.Table["operation"].([]any)
		for _, o := range ops {
			name, _ := o.(map[string]any)["name"].(string)
			info.Operations = append(info.Operations, connectors.Operation{Name: name})
		}
		return fake{info}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

const twoConnectors = `[connectors.crm]
type = "fake"
lane = "shared"
auth = { bearer = "${CRM_TOKEN}" }
[[connectors.crm.operation]]
name = "contact.create"
lookup = { path = "/a", items = "x" }
[[connectors.crm.operation]]
name = "contact.update"
lookup = { path = "/a",
  query = { q = "{key}" }, items = "[" }
[connectors.crm.operation.send]
method = "POST"
[connectors."bill.ing"]
type = "fake"
`

func TestOpenConnectorsGivesTheTableAsWritten(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": twoConnectors})
	var seen []connectors.Config
	var lanes []string
	opened, err := c.OpenConnectors(registry(t, "v1", nil, &seen), func(lane string) connectors.Pacer {
		lanes = append(lanes, lane)
		return nil
	})
	if err != nil || len(opened) != 2 {
		t.Fatalf("got %d connectors, %v", len(opened), err)
	}
	if d := cmp.Diff([]string{"bill.ing", "shared"}, lanes); d != "" {
		t.Errorf("lanes (-want +got):\n%s", d)
	}
	if got := seen[1].Table["auth"].(map[string]any)["bearer"]; got != "${CRM_TOKEN}" {
		t.Errorf("the connector expands its own names; it was given %q", got)
	}
	if _, ok := seen[1].Env("CRM_TOKEN"); ok {
		t.Error("the environment is another than that of Load")
	}
}

func TestMistakesOfAllFilesComeTogether(t *testing.T) {
	refuse := errors.Join(&connectors.FieldError{Path: "base_url", Message: "is missing"}, &connectors.FieldError{Path: "operation.0.lookup.match", Message: "is missing"})
	cases := map[string]struct {
		files map[string]string
		want  []string
	}{
		"config, policies and definitions": {
			map[string]string{
				"reconcile.toml": `timezone = "Nope/Zone"
policy_files = ["p.yaml"]
[connectors.crm]
type = "fake"
[[connectors.crm.operation]]
name = "contact.create"
lookup = { path = "/a" }
[connectors.mail]
type = "fkae"
[connectors.shop]
[[policy]]
retry = { max_attempts = 0 }
`,
				"p.yaml": "workflow: w\nretry:\n  max_age: 72\n",
			},
			[]string{
				`reconcile.toml:1: timezone: "Nope/Zone" is not a time zone; write one such as "UTC" or "Europe/Berlin"`,
				`reconcile.toml:3: connectors.crm.base_url: is missing`,
				`reconcile.toml:7: connectors.crm.operation.0.lookup.match: is missing`,
				`reconcile.toml:9: connectors.mail.type: "fkae" is not a type of connector; did you mean "fake"?; known are fake`,
				`reconcile.toml:10: connectors.shop: has no type; write type = "rest", or one that "reconcile connectors" lists`,
				`reconcile.toml:12: policy.0.retry.max_attempts: 0 is refused; the first try counts, so the least is 1`,
				`p.yaml:3: retry.max_age: 72 has no unit; write for example "72s", "72m" or "72h" in quotes`,
			},
		},
		"a file that is no TOML is one mistake: the parser cannot go on": {
			map[string]string{"reconcile.toml": "timezone = \n"},
			[]string{`reconcile.toml:1: unexpected character U+000A at start of value`},
		},
		"a file that is not there": {
			map[string]string{},
			[]string{`reconcile.toml: cannot be read: no such file; correct the name`},
		},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			write(t, tt.files)
			c, opened, err := Open("reconcile.toml", environ(), registry(t, "", refuse, nil), nil)
			if c != nil || opened != nil || err == nil {
				t.Fatalf("got %v, %v, %v", c, opened, err)
			}
			if d := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("mistakes (-want +got):\n%s", d)
			}
		})
	}
}

func TestMistakesOfDefinitionsGetTheirLines(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": twoConnectors + "[connectors.mail]\ntype = \"fkae\"\n"})
	refuse := errors.Join(
		&connectors.FieldError{Path: "operation.1.lookup.items", Message: "is no path"},
		errors.Join(&connectors.FieldError{Path: "operation.1.send.method", Message: "is refused"}),
		&connectors.FieldError{Path: "operation.1.lookup.query.q", Message: "is odd"},
		&connectors.FieldError{Path: "operation.0.lookup.match", Message: "is missing"},
		&connectors.FieldError{Path: "base_url", Message: "is missing"},
		errors.New("cannot be opened"),
	)
	_, err := c.OpenConnectors(registry(t, "", refuse, nil), nil)
	want := []string{
		`reconcile.toml:1: connectors.crm.base_url: is missing`,
		`reconcile.toml:1: connectors.crm: cannot be opened`,
		`reconcile.toml:7: connectors.crm.operation.0.lookup.match: is missing`,
		`reconcile.toml:11: connectors.crm.operation.1.lookup.items: is no path`,
		`reconcile.toml:11: connectors.crm.operation.1.lookup.query.q: is odd`,
		`reconcile.toml:13: connectors.crm.operation.1.send.method: is refused`,
		`reconcile.toml:17: connectors.mail.type: "fkae" is not a type of connector; did you mean "fake"?; known are fake`,
	}
	var got []string
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.Contains(line, "bill.ing") {
			got = append(got, line)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mistakes (-want +got):\n%s", d)
	}
	var fe *FieldError
	if !errors.As(err, &fe) || fe.Line == 0 {
		t.Errorf("errors.As gives %+v", fe)
	}
}

func TestPoliciesAreCheckedAgainstConnectors(t *testing.T) {
	cases := map[string]struct{ policy, wantErr, wantWarning string }{
		"a connector that is nearly one": {`match.connector = "crn"`, `reconcile.toml:18: policy.0.match.connector: there is no [connectors.crn]; did you mean "crm"?`, ""},
		"a connector that is none":       {`connector = "warehouse"`, "", `reconcile.toml:18: policy.0.connector: there is no [connectors.warehouse]`},
		"an operation of that connector": {`match = { connector = "crm", operation = "contact.create" }`, "", ""},
		"an operation it does not have": {`match = { connector = "crm", operation = "contact.crate" }`, "",
			`reconcile.toml:18: policy.0.match.operation: connector "crm" has no operation "contact.crate"; did you mean "contact.create"?`},
		"an operation that some connector has": {`operation = "contact.update"`, "", ""},
		"an operation that none has": {`operation = "charge"`, "",
			`reconcile.toml:18: policy.0.operation: no connector has an operation "charge"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			write(t, map[string]string{"reconcile.toml": twoConnectors + "\n[[policy]]\n" + c.policy})
			cfg, err := Load("reconcile.toml", environ())
			if err == nil {
				_, err = cfg.OpenConnectors(registry(t, "", nil, nil), nil)
			}
			if c.wantErr != "" {
				if err == nil || err.Error() != c.wantErr {
					t.Errorf("got error %v, want %s", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(cfg.Warnings, "\n"); c.wantWarning == "" && got != "" || !strings.HasPrefix(got, c.wantWarning) {
				t.Errorf("got warnings %q, want %q", got, c.wantWarning)
			}
		})
	}
}

// What holds where a connector's table says nothing is printed like any other
// value, unless every operation says it for itself.
func TestDefaultsOfConnectorsAreNoted(t *testing.T) {
	reg, err := connectors.NewRegistry(connectors.Descriptor{Type: "fake", Summary: "a fake", Open: func(c connectors.Config) (connectors.Connector, error) {
		op := func(name string, timeout time.Duration) connectors.Operation {
			return connectors.Operation{Name: name, Timeout: timeout, LandsWithin: time.Minute, VisibleWithin: 0, InFlightFor: 15 * time.Minute,
				AbsentAfter: 2, AbsentSpacing: 30 * time.Second, KeepsKey: 24 * time.Hour, KeyScope: "account"}
		}
		return fake{connectors.Info{Name: c.Name, Rates: []connectors.Rate{{Calls: 5, Per: time.Second, Concurrent: 2}},
			Operations: []connectors.Operation{op("a", 5*time.Second), op("b", 20*time.Second)}}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := mustLoad(t, map[string]string{"reconcile.toml": `[connectors.crm]
type = "fake"
lands_within = "60s"
[[connectors.crm.operation]]
name = "a"
timeout = "5s"
absent_after = 3
[[connectors.crm.operation]]
name = "b"
absent_after = 2
`})
	if _, err := cfg.OpenConnectors(reg, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range cfg.Settings {
		if strings.HasPrefix(s.Key, "connectors.crm.") && !strings.Contains(s.Key, ".operation.") {
			got = append(got, s.Key+" = "+s.Value+" ("+s.Source+")")
		}
	}
	want := []string{
		"connectors.crm.lands_within = 60s (reconcile.toml:3)", "connectors.crm.type = fake (reconcile.toml:2)",
		`connectors.crm.rate = { calls = 5, per = "1s", concurrent = 2 } (default)`, "connectors.crm.timeout = 20s (default)",
		"connectors.crm.visible_within = 0s (default)", "connectors.crm.looks_back = no bound (default)", "connectors.crm.in_flight_for = 15m (default)",
		"connectors.crm.absent_spacing = 30s (default)", "connectors.crm.keeps_key = 1d (default)", "connectors.crm.key_scope = account (default)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPlainHTTPIsWarnedOf(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"https":                        {`base_url = "https://billing.example"`, ""},
		"http to a name":               {`base_url = "http://billing.example:8080/api"`, "reconcile.toml:3: connectors.crm.base_url: http to billing.example sends credentials and payloads unencrypted; write https:// where the system takes it"},
		"http to an address":           {`base_url = "http://10.0.0.7"`, "reconcile.toml:3: connectors.crm.base_url: http to 10.0.0.7 "},
		"the scheme in capitals":       {`base_url = "HTTP://billing.example"`, "reconcile.toml:3: connectors.crm.base_url: http to billing.example "},
		"a host of the environment":    {`base_url = "http://${HOST}/x"`, "reconcile.toml:3: connectors.crm.base_url: http to flows.example "},
		"the whole of the environment": {`base_url = "${URL}"`, "reconcile.toml:3: connectors.crm.base_url: http to erp.example "},
		"a name that is not set":       {`base_url = "${NOWHERE}"`, ""},
		"a password is not shown":      {`base_url = "http://ada:geheim@billing.example"`, "reconcile.toml:3: connectors.crm.base_url: http to billing.example "},
		"localhost":                    {`base_url = "http://localhost:8080"`, ""},
		"a name below localhost":       {`base_url = "http://crm.localhost"`, ""},
		"a test host":                  {`base_url = "http://crm.test:8080"`, ""},
		"a name that only holds test":  {`base_url = "http://crm.test.example"`, "reconcile.toml:3: connectors.crm.base_url: http to crm.test.example "},
		"the loopback":                 {`base_url = "http://127.0.0.1:8080"`, ""},
		"the whole loopback block":     {`base_url = "http://127.9.9.9"`, ""},
		"the loopback of IPv6":         {`base_url = "http://[::1]:8080"`, ""},
		"a mapped loopback":            {`base_url = "http://[::ffff:127.0.0.1]"`, ""},
		"a name that only begins so":   {`base_url = "http://localhost.evil.example"`, "reconcile.toml:3: connectors.crm.base_url: http to localhost.evil.example "},
		"where tokens come from": {"base_url = \"https://billing.example\"\nauth = { oauth2 = { token_url = \"http://id.example/token\" } }",
			"reconcile.toml:4: connectors.crm.auth.oauth2.token_url: http to id.example "},
	} {
		cfg := mustLoad(t, map[string]string{"reconcile.toml": "[connectors.crm]\ntype = \"fake\"\n" + c.lines + "\n"}, "HOST", "flows.example", "URL", "http://erp.example")
		if _, err := cfg.OpenConnectors(registry(t, "", nil, nil), nil); err != nil {
			t.Fatal(name, err)
		}
		if got := strings.Join(cfg.Warnings, "\n"); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got warnings %q, want %q", name, got, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	base := "[ledger]\nurl = \"sqlite:a.db\"\n[[policy]]\nretry.max_attempts = 3\nhandover = { url = \"https://${HOST}/x\", secret = \"one\" }\n" +
		"[connectors.crm]\ntype = \"fake\"\ntimeout = \"20s\"\nauth = { bearer = \"one\" }\n"
	version := func(text, builtin string) string {
		c := mustLoad(t, map[string]string{"reconcile.toml": text}, "HOST", "flows.example", "OTHER", "x")
		if builtin != "" {
			if _, err := c.OpenConnectors(registry(t, builtin, nil, nil), nil); err != nil {
				t.Fatal(err)
			}
		}
		return c.Policies.Version
	}
	replace := func(old, new string) string {
		if !strings.Contains(base, old) {
			t.Fatalf("%q is not in the config", old)
		}
		return strings.Replace(base, old, new, 1)
	}
	was := version(base, "v1")
	if len(was) != 64 {
		t.Errorf("got %q, want a SHA-256 in hex", was)
	}
	same := map[string]string{
		"a comment":                  "# new\n" + base,
		"the ledger":                 replace("a.db", "b.db"),
		"the secret of a handover":   replace(`secret = "one"`, `secret = "two"`),
		"a credential":               replace(`bearer = "one"`, `bearer = "two"`),
		"a default written out":      replace("retry.max_attempts = 3\n", "retry.max_attempts = 3\nretry.max_age = \"72h\"\nrepeats = false\n"),
		"another way to write a day": replace("retry.max_attempts = 3\n", "retry.max_attempts = 3\nretry.max_age = \"3d\"\n"),
	}
	for name, text := range same {
		if got := version(text, "v1"); got != was {
			t.Errorf("%s: the version changed", name)
		}
	}
	other := map[string]string{
		"a limit":                 replace("max_attempts = 3", "max_attempts = 4"),
		"where offers go":         replace("https://${HOST}/x", "https://${HOST}/y"),
		"a timing of a connector": replace("20s", "30s"),
		"one more policy":         base + "[[policy]]\n",
	}
	for name, text := range other {
		if got := version(text, "v1"); got == was {
			t.Errorf("%s: the version did not change", name)
		}
	}
	if version(base, "v2") == was {
		t.Error("another built-in definition: the version did not change")
	}
	if again := version(base, ""); again != version(base, "") {
		t.Error("two readings differ")
	}
}
