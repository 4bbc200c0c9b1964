package config

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// policyOf loads one policy, written as a [[policy]] block or as a file.
func policyOf(t *testing.T, toml, yaml string) reconcile.Policy {
	t.Helper()
	var list []reconcile.Policy
	if toml != "" {
		list = mustLoad(t, map[string]string{"reconcile.toml": "[[policy]]\n" + toml}).Policies.List
	} else {
		list = mustLoad(t, map[string]string{"reconcile.toml": `policy_files = ["p.yaml"]`, "p.yaml": yaml}).Policies.List
	}
	if len(list) != 1 {
		t.Fatalf("got %d policies", len(list))
	}
	list[0].Name = "default"
	return list[0]
}

func TestPolicyKeys(t *testing.T) {
	with := func(change func(p *reconcile.Policy)) reconcile.Policy {
		p := reconcile.DefaultPolicy()
		change(&p)
		return p
	}
	class := func(cs ...ledger.Class) (ms []reconcile.ErrorMatch) {
		for _, c := range cs {
			ms = append(ms, reconcile.ErrorMatch{Class: c})
		}
		return ms
	}
	cases := map[string]struct {
		toml, yaml string
		want       reconcile.Policy
	}{
		"nothing set: the defaults": {"repeats = false", "repeats: false", reconcile.DefaultPolicy()},
		"an empty retry block is one": {"retry = {}", "retry: {}", with(func(p *reconcile.Policy) {
			p.HasRetry = true
		})},
		"one attempt is the first try alone": {"retry.max_attempts = 1", "retry: {max_attempts: 1}", with(func(p *reconcile.Policy) {
			p.HasRetry, p.MaxAttempts = true, 1
		})},
		"backoff as a word keeps the rest": {`retry.backoff = "linear"`, "retry: {backoff: linear}", with(func(p *reconcile.Policy) {
			p.HasRetry, p.Backoff.Kind = true, reconcile.BackoffLinear
		})},
		"backoff as a table": {`retry.backoff = { base = "1m", factor = 3, max = "2h", jitter = 0.5 }`,
			"retry: {backoff: {base: 1m, factor: 3, max: 2h, jitter: 0.5}}", with(func(p *reconcile.Policy) {
				p.HasRetry = true
				p.Backoff = reconcile.Backoff{Kind: reconcile.BackoffExponential, Base: time.Minute, Factor: 3, Max: 2 * time.Hour, Jitter: 0.5}
			})},
		"an explicit zero is zero": {`settle = { for = "0s", every = "0s" }
after_max_attempts.due = "0s"
retry = { max_age = "0s", backoff = { base = "0s", jitter = 0 } }`,
			"settle: {for: 0s, every: 0s}\nafter_max_attempts: {due: 0s}\nretry: {max_age: 0s, backoff: {base: 0s, jitter: 0}}",
			with(func(p *reconcile.Policy) {
				p.HasRetry, p.MaxAge, p.SettleFor, p.SettleEvery, p.Due = true, 0, 0, 0, 0
				p.Backoff.Base, p.Backoff.Jitter = 0, 0
			})},
		"classes by any accepted name, status codes, each once": {
			`retry = { retryable = ["timeout", "timeout_error", 502, "502", 429], stop_on = ["permission_denied"] }`,
			"retry: {retryable: [timeout, timeout_error, 502, '502', 429], stop_on: [permission_denied]}",
			with(func(p *reconcile.Policy) {
				p.HasRetry, p.RetryableSet = true, true
				p.Retryable = append(class(ledger.ClassTimeout), reconcile.ErrorMatch{Status: 502}, reconcile.ErrorMatch{Status: 429})
				p.StopOn = class(ledger.ClassPermission)
			})},
		"an empty list of retryable is none, not the default": {"retry.retryable = []", "retry: {retryable: []}",
			with(func(p *reconcile.Policy) {
				p.HasRetry, p.RetryableSet, p.Retryable = true, true, []reconcile.ErrorMatch{}
			})},
		"an empty list of allowed actions leaves take": {"after_max_attempts.allow = []", "after_max_attempts: {allow: []}",
			with(func(p *reconcile.Policy) { p.Allow = []ledger.Action{} })},
		"take may be written": {`after_max_attempts.allow = ["take", "retry", "retry"]`, "after_max_attempts: {allow: [take, retry, retry]}",
			with(func(p *reconcile.Policy) { p.Allow = []ledger.Action{ledger.ActionRetry} })},
		"notify true is the default way": {"after_max_attempts.notify = true", "after_max_attempts: {notify: true}", reconcile.DefaultPolicy()},
		"notify false is none": {"after_max_attempts.notify = false", "after_max_attempts: {notify: false}",
			with(func(p *reconcile.Policy) { p.Notify = reconcile.NotifyNone })},
		"notify as a word": {`after_max_attempts.notify = "now"`, "after_max_attempts: {notify: now}",
			with(func(p *reconcile.Policy) { p.Notify = reconcile.NotifyNow })},
		"match by a list of workflows": {`match = { workflow = ["a", "b"], risk = "high" }`, "match: {workflow: [a, b], risk: high}",
			with(func(p *reconcile.Policy) {
				p.Match = reconcile.Match{Workflow: []string{"a", "b"}, Risk: ledger.RiskHigh}
			})},
		"the keys of match may stand beside it": {`workflow = ["a", "b"]
step = "s"
match = { operation = "o" }`, "workflow: [a, b]\nstep: s\nmatch: {operation: o}",
			with(func(p *reconcile.Policy) {
				p.Match = reconcile.Match{Workflow: []string{"a", "b"}, Step: "s", Operation: "o"}
			})},
		"a handover": {`dispatch = "handover"
handover = { url = "https://flows.example/x", secret = "s" }`, "dispatch: handover\nhandover: {url: 'https://flows.example/x', secret: s}",
			with(func(p *reconcile.Policy) {
				p.Dispatch, p.HandoverURL, p.Handover = reconcile.DispatchHandover, "https://flows.example/x", "s"
			})},
		"the rest": {`platform_retries_for = "2d"
repeats = true
risk = "low"
checks = { consent = "none", lifecycle = "required", owner = "none", refused = "escalated" }
after_max_attempts.state = "failed"`,
			"platform_retries_for: 2d\nrepeats: true\nrisk: low\n" +
				"checks: {consent: none, lifecycle: required, owner: none, refused: escalated}\nafter_max_attempts: {state: failed}",
			with(func(p *reconcile.Policy) {
				p.PlatformRetriesFor, p.Repeats, p.Risk, p.FailedState = 48*time.Hour, true, ledger.RiskLow, true
				p.Consent, p.Lifecycle, p.OwnerCheck, p.RefusedEscalates = reconcile.CheckNone, reconcile.CheckRequired, reconcile.OwnerNone, true
			})},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, policyOf(t, c.toml, "")); d != "" {
				t.Errorf("TOML (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.want, policyOf(t, "", c.yaml)); d != "" {
				t.Errorf("YAML (-want +got):\n%s", d)
			}
		})
	}
}

func TestPoliciesMatchInOrder(t *testing.T) {
	c := mustLoad(t, map[string]string{
		"reconcile.toml": `policy_files = ["z/*.yaml", "a/*.yaml", "*/1.yaml"]
[[policy]]
match.workflow = "w"
[[policy]]
`,
		"z/2.yaml": "step: z2", "z/1.yaml": "step: z1a\n---\n---\nstep: z1b\n", "a/1.yaml": "step: a1",
	})
	var got []string
	for _, p := range c.Policies.List {
		got = append(got, p.Name)
	}
	want := []string{"z/1.yaml (1)", "z/1.yaml (2)", "z/2.yaml", "a/1.yaml", "[[policy]] 1", "[[policy]] 2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	if p := c.Policies.For(ledger.Entry{StepID: "z1b"}); p.Name != "z/1.yaml (2)" {
		t.Errorf("step z1b: got %s", p.Name)
	}
	if p := c.Policies.For(ledger.Entry{}); p.Name != "[[policy]] 2" {
		t.Errorf("nothing in particular: got %s", p.Name)
	}
}

func TestUnreachablePolicies(t *testing.T) {
	cases := map[string]struct {
		policies string
		want     []string // parts of each warning
	}{
		"after one that matches everything": {"[[policy]]\n[[policy]]\nmatch.step = \"s\"\n",
			[]string{"reconcile.toml:2: [[policy]] 2 can never match: [[policy]] 1 (reconcile.toml:1)"}},
		"after one that matches more": {"[[policy]]\nmatch.workflow = [\"a\", \"b\"]\n[[policy]]\nmatch = { workflow = \"a\", step = \"s\" }\n",
			[]string{"[[policy]] 2 can never match"}},
		"narrow before wide is right":    {"[[policy]]\nmatch = { workflow = \"a\", step = \"s\" }\n[[policy]]\nmatch.workflow = \"a\"\n[[policy]]\n", nil},
		"an overlap is no shadow":        {"[[policy]]\nmatch.workflow = [\"a\", \"b\"]\n[[policy]]\nmatch.workflow = [\"b\", \"c\"]\n", nil},
		"different risks do not overlap": {"[[policy]]\nmatch.risk = \"high\"\n[[policy]]\nmatch.risk = \"low\"\n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mustLoad(t, map[string]string{"reconcile.toml": c.policies}).Warnings
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %d warnings", got, len(c.want))
			}
			for i, w := range c.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("got %q, want %q in it", got[i], w)
				}
			}
		})
	}
}

func TestPolicyMistakes(t *testing.T) {
	cases := map[string]struct{ toml, want string }{
		"match given twice":               {"step = \"a\"\nmatch.step = \"b\"", "policy.0.step: stands twice: here and in match; remove one"},
		"workflow given twice":            {"workflow = \"a\"\nmatch.workflow = \"b\"", "policy.0.workflow: stands twice"},
		"an empty list matches nothing":   {"workflow = []", "is an empty list, which matches nothing"},
		"an unknown match key":            {"match.opration = \"x\"", `policy.0.match.opration: is not a key; did you mean "operation"?`},
		"max_attempts as text":            {`retry.max_attempts = "3"`, "is text; write a whole number, 1 or more"},
		"max_attempts with a fraction":    {`retry.max_attempts = 2.5`, "is a number; write a whole number"},
		"a negative max_attempts":         {`retry.max_attempts = -1`, "-1 is refused; the first try counts, so the least is 1"},
		"a negative duration":             {`retry.max_age = "-1h"`, "negative"},
		"a duration beyond all bounds":    {`retry.max_age = "2000000h"`, "longer than a hundred years"},
		"an unknown backoff":              {`retry.backoff = "exponental"`, `did you mean "exponential"?`},
		"retryable as text":               {`retry.retryable = "timeout"`, "is text; write a list"},
		"a number that is no status":      {`retry.retryable = [600]`, "600 is not an HTTP status code"},
		"a class of status codes":         {`retry.retryable = ["5xx"]`, `"5xx" is not a class; write an HTTP status code or one of`},
		"jitter above all":                {`retry.backoff = { jitter = 1.5 }`, "1.5 is refused; write a number from 0 to 1"},
		"jitter that is no number":        {`retry.backoff = { jitter = nan }`, "NaN is refused"},
		"an unknown dispatch":             {`dispatch = "sent"`, `"sent" is not known; did you mean "send"?`},
		"an unknown risk":                 {`risk = "medium"`, `"medium" is not known; write "low", "normal" or "high"`},
		"an unknown owner mode":           {`checks.owner = "keep"`, `write "transfer", "hold" or "none"`},
		"a handover that nobody signs":    {`handover = { url = "https://x.example" }`, "policy.0.handover: has no secret"},
		"a handover that goes nowhere":    {`handover = { secret = "x" }`, "policy.0.handover: has no url"},
		"a handover by mail":              {`handover = { url = "mailto:x@y", secret = "x" }`, "begins with http:// or https://"},
		"a table where text belongs":      {"step = {}", "is a table; write text in quotes"},
		"text where a table belongs":      {`retry = "3"`, "is text; write a table: retry = { … }"},
		"a table where truth belongs":     {"repeats = 1", "is a number; write true or false"},
		"a date where a duration belongs": {"settle.for = 2026-01-01", "is a date; write text in quotes"},
		"a key of the config":             {`timezone = "UTC"`, "policy.0.timezone: is not a key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mistakes(t, map[string]string{"reconcile.toml": "[[policy]]\n" + c.toml})
			if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.HasPrefix(got[0], "reconcile.toml:") {
				t.Errorf("%s:\ngot  %q\nwant %q", c.toml, got, c.want)
			}
		})
	}
}

func TestYAMLForms(t *testing.T) {
	cases := map[string]struct{ yaml, want string }{
		"a key twice":                {"step: a\nstep: b", "p.yaml:2: step: stands twice (first on line 1); remove one"},
		"a key within a table twice": {"retry:\n  max_age: 1h\n  max_age: 2h", "p.yaml:3: retry.max_age: stands twice"},
		"a number for a name":        {"workflow: 12", "p.yaml:1: workflow: is a number; write text in quotes"},
		"a list as a key":            {"[a]: b", "a key is a list or a table"},
		"broken":                     {"step: 'a", "p.yaml: found unexpected end of stream"},
		"tabs":                       {"retry:\n\tmax_age: 1h", "p.yaml:2: found character that cannot start any token"},
		"anchors without end":        {"a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]", "without anchors"},
		"an anchor within itself":    {"a: &a [*a]", "without anchors"},
		"the name of no variable":    {"step: ${", "holds ${ without the name of a variable"},
		"a variable that is not set": {"step: ${STEP}", "p.yaml:1: step: not set; export STEP"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(mistakes(t, map[string]string{"reconcile.toml": `policy_files = ["p.yaml"]`, "p.yaml": c.yaml}), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("%s:\ngot  %s\nwant %q", c.yaml, got, c.want)
			}
		})
	}
	p := policyOf(t, "", "# a comment\nstep: &s charge\noperation: *s\nsettle: {for: 1d12h}\n")
	if p.Match.Step != "charge" || p.Match.Operation != "charge" || p.SettleFor != 36*time.Hour {
		t.Errorf("an anchor: got %+v", p.Match)
	}
	c := mustLoad(t, map[string]string{"reconcile.toml": `policy_files = ["p.yaml"]`, "p.yaml": "# nothing yet\n"})
	if len(c.Policies.List) != 0 || len(c.Warnings) != 1 || c.Warnings[0] != "p.yaml: holds no policy" {
		t.Errorf("an empty file: got %d policies, warnings %q", len(c.Policies.List), c.Warnings)
	}
}

func TestAFactorOfNothingIsSaid(t *testing.T) {
	for kind, want := range map[string]string{
		"exponential": "",
		"linear":      "reconcile.toml:2: policy.0.retry.backoff.factor: has no effect: the kind is linear, and only exponential grows by a factor",
		"fixed":       "reconcile.toml:2: policy.0.retry.backoff.factor: has no effect: the kind is fixed, and only exponential grows by a factor",
	} {
		c := mustLoad(t, map[string]string{"reconcile.toml": "[[policy]]\nretry.backoff = { kind = \"" + kind + "\", factor = 3 }"})
		if got := strings.Join(c.Warnings, "\n"); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}

func TestMistakesAreSaidOnce(t *testing.T) {
	many := func(alias string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(alias+", ", n), ", ") + "]"
	}
	cases := map[string]struct {
		files map[string]string
		want  []string // all that is printed; "…" stands for anything between
	}{
		"under an alias that is used many times": {map[string]string{"reconcile.toml": `policy_files = ["p.yaml"]`,
			"p.yaml": "match: {step: &s {b: 1, b: 2}}\nworkflow: " + many("*s", 40)}, []string{
			"p.yaml:1: match.step.b: stands twice (first on line 1); remove one",
			"p.yaml:1: match.step: is a table; write text in quotes",
			"p.yaml:2: workflow.0: is a table; write text in quotes", "…",
			"p.yaml:2: workflow.39: is a table; write text in quotes"}},
		"two on one line are two": {map[string]string{"reconcile.toml": `[[policy]]
settle = { for = 5, every = 5 }`}, []string{"reconcile.toml:2: policy.0.settle.for: 5 has no unit; …", "reconcile.toml:2: policy.0.settle.every: 5 has no unit; …"}},
		"more than anybody reads are counted": {map[string]string{"reconcile.toml": strings.Repeat("[[policy]]\nrepeats = 1\n", 60)}, []string{
			"reconcile.toml:2: policy.0.repeats: is a number; write true or false", "…",
			"reconcile.toml:100: policy.49.repeats: is a number; write true or false", "and 10 more; mend these first"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			write(t, c.files)
			_, err := Load("reconcile.toml", environ())
			if err == nil {
				t.Fatal("no mistake")
			}
			parts := strings.Split(regexp.QuoteMeta(strings.Join(c.want, "\n")), "…")
			if got := err.Error(); !regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$").MatchString(got) {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(c.want, "\n"))
			}
			if n := strings.Count(err.Error(), "stands twice"); n > 1 {
				t.Errorf("said %d times", n)
			}
		})
	}
	// What the file does not mention has no place of its own.
	missing := Errors{{File: "f", Line: 1, Path: "lookup.match", Message: "missing"}, {File: "f", Line: 1, Path: "read.match", Message: "missing"}}
	if got := missing.orNil().Error(); got != "f:1: lookup.match: missing\nf:1: read.match: missing" {
		t.Errorf("got %q", got)
	}
}
