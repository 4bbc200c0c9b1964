package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	env := environ("A", "one", "B_2", "two", "EMPTY", "", "NESTED", "${A}")
	cases := map[string]struct{ in, want, wantErr string }{
		"no variable":                      {"plain $A $ {A} }", "plain $A $ {A} }", ""},
		"several":                          {"<${A}|${B_2}>", "<one|two>", ""},
		"what a variable holds stays":      {"${NESTED}", "${A}", ""},
		"set and empty is set":             {"x${EMPTY}y", "xy", ""},
		"not set":                          {"${NOPE}", "", "not set; export NOPE"},
		"not closed":                       {"${A", "", "write ${NAME}"},
		"no name":                          {"${}", "", "write ${NAME}"},
		"a name with a default is no name": {"${A:-x}", "", "write ${NAME}"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := expand(c.in, env)
			if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%q: got %q, %v; want %q, %q", c.in, got, err, c.want, c.wantErr)
			}
		})
	}
	addresses := map[string]struct{ in, want string }{
		"user and password are encoded":    {"smtps://${U}:${P}@mail.example/${P}", "smtps://a%40b:p%2Fw%23@mail.example/p/w#"},
		"what stands there itself is not":  {"smtps://a%40b:x@h", "smtps://a%40b:x@h"},
		"without a user nothing is":        {"https://${H}/x@y", "https://h.example/x@y"},
		"an address that is one variable":  {"${ALL}", "https://u:p@h/x"},
		"a user and password in one":       {"https://${BOTH}@h", "https://u:p@h"},
		"an encoded password is left":      {"https://u:${ENC}@h", "https://u:%2F%25@h"},
		"a percent sign alone is encoded":  {"https://u:${PCT}@h", "https://u:5%25@h"},
		"a second at sign is the user's":   {"smtps://${U}:x@y@h", "smtps://a%40b:x@y@h"},
		"a ledger in a file is no address": {"sqlite:${U}.db", "sqlite:a@b.db"},
	}
	env = environ("U", "a@b", "P", "p/w#", "H", "h.example", "ALL", "https://u:p@h/x", "BOTH", "u:p", "ENC", "%2F%25", "PCT", "5%")
	for name, c := range addresses {
		t.Run(name, func(t *testing.T) {
			if got, err := expandURL(c.in, env); err != nil || got != c.want {
				t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
			}
		})
	}
	if _, err := expandURL("https://${NOPE}@h", env); err == nil || err.Error() != "not set; export NOPE" {
		t.Errorf("got %v", err)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"256KiB": 256 << 10, "1MiB": 1 << 20, "0B": 0, "10 kB": 10_000, "2MB": 2_000_000, "512B": 512} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "256", "KiB", "-1B", "1.5MiB", "1TB", "9999999999999GiB"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q: got %d", in, got)
		}
	}
	for _, n := range []int64{0, 1, 1000, 1 << 10, 3 << 20, 1 << 30, 1<<10 + 1} {
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%d is written %s, and read %d, %v", n, formatSize(n), got, err)
		}
	}
}

func TestPayloadMax(t *testing.T) {
	for text, want := range map[string]int64{`"1MiB"`: 1 << 20, "1024": 1024, "0": 0} {
		if got := mustLoad(t, map[string]string{"reconcile.toml": "ledger.payload_max = " + text}).Ledger.PayloadMax; got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"-1", `"1GiB"`, "1.5", "true", `"lots"`} {
		if got := mistakes(t, map[string]string{"reconcile.toml": "ledger.payload_max = " + text}); len(got) != 1 {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

func TestOwners(t *testing.T) {
	cases := map[string]struct{ toml, want string }{
		"a next that is nobody":          {"[owners.a]\nnext = \"lead\"\n[owners.leads]\n", `owners.a.next: there is no [owners.lead]; did you mean "leads"?`},
		"a circle of one":                {"[owners.a]\nnext = \"a\"\n", "owners.a.next: goes in a circle: a → a"},
		"a circle of three, told once":   {"[owners.b]\nnext = \"c\"\n[owners.c]\nnext = \"a\"\n[owners.a]\nnext = \"b\"\n", "owners.a.next: goes in a circle: a → b → c → a"},
		"one that leads into a circle":   {"[owners.a]\nnext = \"b\"\n[owners.b]\nnext = \"c\"\n[owners.c]\nnext = \"b\"\n", "owners.b.next: goes in a circle: b → c → b"},
		"an id of two owners":            {"[owners.a]\nids = [\"7\"]\n[owners.b]\nids = [\"7\"]\n", `owners.b.ids.0: "7" stands in owners.a too`},
		"unassigned needs no table":      {"[owners.a]\nnext = \"unassigned\"\n", ""},
		"unassigned may have one":        {"[owners.unassigned]\nnotify = []\n", ""},
		"a number as an id":              {"[owners.a]\nids = [5502]\n", "owners.a.ids.0: is a number; write text in quotes"},
		"an owner that is no table":      {"owners.a = \"x\"\n", "owners.a: is text; write a table, like [owners.NAME]"},
		"a channel without type":         {"[notify.a]\nurl = \"https://x\"\n", `notify.a: has no type; write type = "slack", "webhook" or "smtp"`},
		"a channel without address":      {"[notify.a]\ntype = \"slack\"\n", "notify.a: has no url"},
		"a mail channel without sender":  {"[notify.a]\ntype = \"smtp\"\nurl = \"smtp://h\"\nto = [\"a@example.org\"]\n", "notify.a: has no from"},
		"a mail channel for nobody":      {"[notify.a]\ntype = \"smtp\"\nurl = \"smtp://h\"\nfrom = \"a@example.org\"\n", "notify.a.to: has no address"},
		"a key of another type":          {"[notify.a]\ntype = \"slack\"\nurl = \"https://x\"\nsecret = \"x\"\n", "notify.a.secret: is not a key; known here: type, url"},
		"a chat by mail":                 {"[notify.a]\ntype = \"slack\"\nurl = \"smtps://x\"\n", "notify.a.url: is not an address; write one that begins with http:// or https://"},
		"a place that is none to listen": {"daemon.listen = \"8321\"\n", `daemon.listen: "8321" is no address; write host and port`},
		"to listen for everybody":        {"daemon.listen = \"0.0.0.0:8321\"\n", `daemon.listen: "0.0.0.0:8321" can be reached from other hosts, and tokens and payloads would travel in the clear; write tls_cert and tls_key`},
		"to listen on a name":            {"daemon.listen = \"ledger.example:8321\"\n", `daemon.listen: "ledger.example:8321" can be reached`},
		"to listen on every address":     {"daemon.listen = \":8321\"\n", `daemon.listen: ":8321" can be reached`},
		"to listen in the clear, meant":  {"[daemon]\nlisten = \"0.0.0.0:8321\"\nallow_plain = true\n", ""},
		"to listen with TLS":             {"[daemon]\nlisten = \":8321\"\ntls_cert = \"a.crt\"\ntls_key = \"a.key\"\n", ""},
		"a certificate without its key":  {"[daemon]\ntls_cert = \"a.crt\"\n", "daemon: has one of tls_cert and tls_key"},
		"to listen on this host":         {"daemon.listen = \"[::1]:0\"\n", ""},
		"to listen on this host by name": {"daemon.listen = \"localhost:80\"\n", ""},
		"not to listen":                  {"daemon.listen = \"off\"\n", ""},
		"a lease too short":              {"ledger.lease = \"10ms\"\n", "ledger.lease: 10ms is refused"},
		"a list of policies as text":     {"policy = \"x\"\n", "policy: is text; write each one under a heading of its own: [[policy]]"},
		"policy files as text":           {"policy_files = \"x.yaml\"\n", "policy_files: is text; write a list"},
		"a bad pattern":                  {"policy_files = [\"[\"]\n", "policy_files.0: \"[\" is not a pattern"},
		"a key that stands twice":        {"timezone = \"UTC\"\ntimezone = \"UTC\"\n", "reconcile.toml:2: key timezone is already defined"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mistakes(t, map[string]string{"reconcile.toml": c.toml})
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], c.want) || c.want == "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDefaultsAreThoseOfTheSpec(t *testing.T) {
	write(t, map[string]string{"reconcile.toml": "", "sample.toml": sample[strings.Index(sample, "[ledger]"):strings.Index(sample, "[owners")]})
	c, err := Load("reconcile.toml", environ())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load("sample.toml", environ())
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Options{cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b Secret) bool { return a.Reveal() == b.Reveal() })}
	for name, pair := range map[string][2]any{
		"ledger": {s.Ledger, c.Ledger}, "daemon": {s.Daemon, c.Daemon}, "schedule": {s.Schedule, c.Schedule},
		"retention": {s.Retention, c.Retention}, "timezone": {time.UTC, c.Timezone},
	} {
		if d := cmp.Diff(pair[0], pair[1], same); d != "" {
			t.Errorf("%s (-spec +default):\n%s", name, d)
		}
	}
	if c.Ledger.PayloadMax != 256<<10 || len(c.Policies.List) != 0 || len(c.Warnings) != 0 {
		t.Errorf("got %d, %d policies, warnings %q", c.Ledger.PayloadMax, len(c.Policies.List), c.Warnings)
	}
}

func TestLoadOfAFileThatCannotBeRead(t *testing.T) {
	write(t, map[string]string{"dir/x": "", "reconcile.toml": "policy_files = [\"dir\"]"})
	for path, want := range map[string]string{"nope.toml": "nope.toml: cannot be read: no such file", "dir": "dir: cannot be read: is a folder; name the files in it",
		"reconcile.toml": "dir: cannot be read: is a folder; name the files in it"} {
		_, err := Load(path, environ())
		var es Errors
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.As(err, &es) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestByteOrderMarkAndWindowsLineEnds(t *testing.T) {
	c := mustLoad(t, map[string]string{
		"reconcile.toml": "\ufeffpolicy_files = [\"p.yaml\"]\r\n[ledger]\r\nlease = \"2m\"\r\n",
		"p.yaml":         "\ufeffstep: a\r\nrepeats: true\r\n",
	})
	if c.Ledger.Lease != 2*time.Minute || len(c.Policies.List) != 1 || c.Policies.List[0].Match.Step != "a" {
		t.Errorf("got %+v", c.Policies.List)
	}
	if got := mistakes(t, map[string]string{"reconcile.toml": "\r\n\r\nx = 1\r\n"}); len(got) != 1 || !strings.HasPrefix(got[0], "reconcile.toml:3: x: ") {
		t.Errorf("got %q", got)
	}
}

// Two readings of one file print the same.
func TestDescribeIsTheSameTwice(t *testing.T) {
	env := append([]string{}, sampleEnv...)
	write(t, map[string]string{"reconcile.toml": sample + twoConnectors, "policies/lead.yaml": samplePolicy})
	var outs [2]bytes.Buffer
	for i := range outs {
		c, err := Load("reconcile.toml", environ(env...))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Describe(&outs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if outs[0].String() != outs[1].String() {
		t.Error("the outputs differ")
	}
	for _, want := range []string{"policies/lead.yaml: retry.max_age", "policies/lead.yaml:5", "policy.0.handover.url", "connectors.crm.lane"} {
		if !strings.Contains(outs[0].String(), want) {
			t.Errorf("%s is not shown", want)
		}
	}
}

// FuzzLoad feeds any bytes as config and as policy file: whatever they hold,
// the answer is a config or mistakes with a file, and no text of a secret.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(sample), []byte(samplePolicy))
	f.Add(Example(), []byte("a: &a [*a]"))
	f.Add([]byte("[[a]]\n[a.b]\nc = [[1, {d = 2}], []]\n[[a]]\n"), []byte("- x\n---\n? [a]\n: b\n"))
	f.Add([]byte("policy = [{}, {retry = {}}, 1]\nowners = []\nschedule = {settle = \"TZ=\"}"), []byte("retry:\n  backoff:\n    factor: .inf\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, tomlText, yamlText []byte) {
		r := &reader{env: environ(sampleEnv...), keys: map[string]bool{}, written: map[string]string{}}
		var ps policyReader
		docs, errs := readYAML("p.yaml", yamlText)
		for _, d := range docs {
			r.root(d, "", "policy", func(t *table) { ps.read(t, "p.yaml") })
		}
		errs = append(errs, r.errs...)
		if src, fe := readTOML("reconcile.toml", tomlText); fe != nil {
			errs = append(errs, fe)
		} else {
			delete(src.root, "policy_files") // no reading of what the input names
			_, r := load(dir+"/reconcile.toml", src, environ(sampleEnv...))
			errs = append(errs, r.errs...)
		}
		for _, e := range errs {
			if e.File == "" || e.Message == "" || e.Line < 0 {
				t.Errorf("incomplete: %+v", e)
			}
			for i := 1; i < len(sampleEnv); i += 2 {
				if sampleEnv[i-1] != "MAIL_USER" && strings.Contains(e.Error(), sampleEnv[i]) {
					t.Errorf("shows a secret: %v", e)
				}
			}
		}
	})
}
