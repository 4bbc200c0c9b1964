package config

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/all"
)

var update = flag.Bool("update", false, "rewrite config.example.toml")

const exampleFile = "../../config.example.toml"

var exampleEnv = environ("OPS_CHAT_WEBHOOK", "https://chat.example/hook/x", "OPS_HOOK_SECRET", "hook-secret",
	"MAIL_USER", "mailer", "MAIL_PASSWORD", "secret", "HANDOVER_SECRET", "secret", "BILLING_TOKEN", "secret")

func TestExampleOnDiskIsTheGeneratedOne(t *testing.T) {
	if *update {
		if err := os.WriteFile(exampleFile, Example(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(Example()), string(got)); d != "" {
		t.Errorf("config.example.toml differs; run this test with -update and look at the change (-want +got):\n%s", d)
	}
}

func loadExample(t *testing.T) (*Config, *source, *reader) {
	t.Helper()
	src, fe := readTOML("config.example.toml", Example())
	if fe != nil {
		t.Fatal(fe)
	}
	c, r := load("config.example.toml", src, exampleEnv)
	if err := r.errs.orNil(); err != nil {
		t.Fatalf("load: %v", err)
	}
	return c, src, r
}

// Its definition is opened by the real connectors. It shows every key, so it
// warns of each block that has no effect yet, and of nothing else.
func TestExampleWarnsOfWhatIsNotThereYet(t *testing.T) {
	c, _, _ := loadExample(t)
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenConnectors(reg, nil); err != nil {
		t.Errorf("connectors: %v", err)
	}
	number := regexp.MustCompile(`:\d+:`)
	var got []string
	for _, w := range c.Warnings {
		got = append(got, number.ReplaceAllString(w, ":"))
	}
	want := []string{
		"config.example.toml: notify: no effect in this version: notices are not sent yet, to no owner",
		"config.example.toml: schedule.digest, schedule.weekly, schedule.prune: no effect in this version: nothing runs at that time yet",
		"config.example.toml: retention: no effect in this version: everything is kept",
		"config.example.toml: policy.1.dispatch: no effect in this version: nothing is handed over yet; a person decides instead",
		"config.example.toml: policy.0.after_max_attempts.notify: no effect in this version: notices are not sent yet (also in other policies: 1)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	if len(c.Policies.List) != 3 || len(c.Connectors) != 1 {
		t.Errorf("got %d policies and %d connectors", len(c.Policies.List), len(c.Connectors))
	}
}

// Keys that are asked for are the keys that exist, so what a reading asked for
// is the whole list.
func TestExampleHasEveryKey(t *testing.T) {
	_, src, r := loadExample(t)
	number := regexp.MustCompile(`\.\d+\b`)
	name := regexp.MustCompile(`^(owners|notify)\.[^.]+`)
	shown := map[string]bool{}
	for path := range src.lines {
		shown[name.ReplaceAllString(number.ReplaceAllString(path, ""), "$1.*")] = true
	}
	for key := range r.keys {
		if !shown[key] {
			t.Errorf("%s: not in the example", key)
		}
	}
}

func TestExampleShowsTheDefaults(t *testing.T) {
	defaults := map[string]string{}
	for _, s := range Defaults().Settings {
		defaults[s.Key] = s.Value
	}
	c, src, _ := loadExample(t)
	lines := strings.Split(string(Example()), "\n")
	for _, s := range c.Settings {
		want, known := defaults[s.Key]
		if rest, ok := strings.CutPrefix(s.Key, "policy.2."); ok {
			want, known = defaults[defaultPolicyLabel+rest]
			switch rest {
			case "dispatch", "retry.retryable", "checks.owner", "after_max_attempts.owner", "after_max_attempts.notify":
				continue // their defaults depend on something else, and are told in words
			}
		}
		if known && s.Value != want {
			t.Errorf("%s: the example says %s, the default is %s", s.Key, s.Value, want)
		}
		if known && s.Source != "default" && !strings.Contains(lines[src.line(s.Key)-1], "# default") {
			t.Errorf("%s: its line does not say that this is the default", s.Key)
		}
	}
}

func TestSampleLoadsInAnyEnvironment(t *testing.T) {
	write(t, map[string]string{"reconcile.toml": string(Sample())})
	c, err := Load("reconcile.toml", environ())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

// What init writes is an invitation: with its comments taken away it must be a
// config too.
func TestSampleLoadsWithEveryLineInUse(t *testing.T) {
	commented := regexp.MustCompile(`(?m)^# (\[.*|[a-z_]+ = .*)$`)
	text := commented.ReplaceAllString(string(Sample()), "$1")
	text = strings.Replace(text, `policy_files = ["policies/*.yaml"]`, "", 1)
	write(t, map[string]string{"reconcile.toml": text})
	c, err := Load("reconcile.toml", exampleEnv)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenConnectors(reg, nil); err != nil {
		t.Errorf("connectors: %v", err)
	}
	if len(c.Warnings) > 0 || len(c.Policies.List) != 1 || len(c.Connectors) != 1 {
		t.Errorf("got warnings %q, %d policies, %d connectors", c.Warnings, len(c.Policies.List), len(c.Connectors))
	}
	if bytes.Contains(Sample(), []byte("\t")) {
		t.Error("has tabs")
	}
}

// The reference names every key, and no other.
func TestDocumentHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, _, r := loadExample(t)
	want := map[string]bool{}
	for key := range r.keys {
		leaf := true
		for other := range r.keys {
			leaf = leaf && !strings.HasPrefix(other, key+".")
		}
		// retry.backoff is a word as well as a table.
		if leaf && key != "connectors" || key == "policy.retry.backoff" {
			want[strings.TrimPrefix(strings.Replace(key, ".*.", ".X.", 1), "policy.")] = true
		}
	}
	got := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-zX_.]+)`").FindAllStringSubmatch(cells[1], -1) {
			got[m[1]] = true
		}
	}
	delete(got, "connectors.X")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys (-program +docs/config.md):\n%s", d)
	}
}
