package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// environ makes a lookup of the names given.
func environ(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// write puts files into a folder and makes it the working folder, so that
// messages name them as a user would see them. It loads reconcile.toml.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func mustLoad(t *testing.T, files map[string]string, env ...string) *Config {
	t.Helper()
	write(t, files)
	c, err := Load("reconcile.toml", environ(env...))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

// sample is a config that sets something in every block.
const sample = `timezone = "Europe/Berlin"              # dates on the command line, weeks in reports, cron lines
policy_files = ["policies/*.yaml"]

[ledger]
url = "sqlite:reconcile.db"             # or "postgres://…"
auto_migrate = false
lease = "60s"                           # a claim that nobody renews ends after this
[daemon]
listen = "127.0.0.1:8321"
grace = "20s"
[schedule]                              # an interval, or a cron line
settle = "30s"
advance = "30s"
release = "1m"
escalate = "1m"
digest = "0 8 * * *"
weekly = "0 7 * * MON"
prune = "0 3 * * *"
[retention]                             # of settled entries, and of their payloads
settled = "400d"
payload = "90d"
[owners.revops]
name = "RevOps"
ids = ["5502"]                          # what outside systems call this owner
notify = ["ops-chat", "ops-mail"]
next = "revops-lead"
[owners.revops-lead]
name = "RevOps lead"
[notify.ops-chat]
type = "slack"                          # slack | webhook (with secret = "…", which signs) | smtp
url = "${OPS_CHAT_WEBHOOK}"
[notify.ops-mail]
type = "smtp"
url = "smtps://${MAIL_USER}:${MAIL_PASSWORD}@mail.example"
from = "reconcile@example.org"
to = ["revops@example.org"]

[[policy]]
match = { workflow = "lead-intake", step = "create-task", operation = "contact.create", connector = "crm", risk = "high" }
risk = "high"
dispatch = "send"                     # send | handover | hold
handover = { url = "https://flows.example/resume", secret = "${HANDOVER_SECRET}" }   # where offers go, and what signs them
retry = { max_attempts = 3, max_age = "72h", backoff = "exponential", retryable = ["timeout"], stop_on = ["validation"] }
settle = { for = "72h", every = "1m", pending_every = "10m" }
checks = { consent = "required", channel = "email", owner = "transfer", lifecycle = "required", refused = "blocked" }
after_max_attempts = { state = "escalated", owner = "revops", due = "8h", allow = ["retry", "resolve", "cancel"], notify = "now" }
platform_retries_for = "0s"           # a platform that replays by itself: how long after its last report
repeats = false
`

var sampleEnv = []string{"OPS_CHAT_WEBHOOK", "https://chat.example/hook/T0PS3CRET", "MAIL_USER", "mailer",
	"MAIL_PASSWORD", "pa55word-of-mail", "HANDOVER_SECRET", "handover-s3cret"}

// samplePolicy is a policy file as docs/config.md shows one.
const samplePolicy = `workflow: lead-intake
step: create-task
retry:
  max_attempts: 3            # the first try included; 0 is refused
  max_age: 72h               # from the first failure
  backoff: exponential       # or {kind: exponential, base: 30s, factor: 2, max: 1h, jitter: 0.2}
  retryable: [timeout, rate_limit, 502]     # classes or HTTP status codes
  stop_on: [validation_error, permission_denied]
after_max_attempts:
  state: failed              # or escalated
  owner: revops
  notify: true               # or now | digest | none
`

func TestLoadOfTheSpecsSample(t *testing.T) {
	c := mustLoad(t, map[string]string{"reconcile.toml": sample, "policies/lead.yaml": samplePolicy}, sampleEnv...)

	if got := c.Timezone.String(); got != "Europe/Berlin" {
		t.Errorf("timezone: got %s", got)
	}
	wantOwners := reconcile.Owners{
		"revops":      {ID: "revops", Name: "RevOps", IDs: []string{"5502"}, Notify: []string{"ops-chat", "ops-mail"}, Next: "revops-lead"},
		"revops-lead": {ID: "revops-lead", Name: "RevOps lead"},
	}
	if d := cmp.Diff(wantOwners, c.Owners); d != "" {
		t.Errorf("owners (-want +got):\n%s", d)
	}
	if got := c.Notify["ops-mail"].URL.Reveal(); got != "smtps://mailer:pa55word-of-mail@mail.example" {
		t.Errorf("mail address: got %q", got)
	}
	if got := c.Schedule.Weekly; got != "0 7 * * MON" {
		t.Errorf("weekly: got %q", got)
	}

	if len(c.Policies.List) != 2 {
		t.Fatalf("got %d policies, want the file's and the config's", len(c.Policies.List))
	}
	yaml := reconcile.DefaultPolicy()
	yaml.Name = "policies/lead.yaml"
	yaml.Match = reconcile.Match{Workflow: []string{"lead-intake"}, Step: "create-task"}
	yaml.HasRetry, yaml.RetryableSet = true, true
	yaml.Retryable = []reconcile.ErrorMatch{{Class: ledger.ClassTimeout}, {Class: ledger.ClassRateLimit}, {Status: 502}}
	yaml.StopOn = []reconcile.ErrorMatch{{Class: ledger.ClassValidation}, {Class: ledger.ClassPermission}}
	yaml.FailedState, yaml.Owner = true, "revops"
	if d := cmp.Diff(yaml, c.Policies.List[0]); d != "" {
		t.Errorf("policy of the file (-want +got):\n%s", d)
	}
	block := reconcile.DefaultPolicy()
	block.Name = "[[policy]] 1"
	block.Match = reconcile.Match{Workflow: []string{"lead-intake"}, Step: "create-task", Operation: "contact.create", Connector: "crm", Risk: "high"}
	block.Risk, block.Dispatch = ledger.RiskHigh, reconcile.DispatchSend
	block.HandoverURL, block.Handover = "https://flows.example/resume", "handover-s3cret"
	block.HasRetry, block.RetryableSet = true, true
	block.Retryable = []reconcile.ErrorMatch{{Class: ledger.ClassTimeout}}
	block.StopOn = []reconcile.ErrorMatch{{Class: ledger.ClassValidation}}
	block.Consent, block.Channel, block.Lifecycle, block.OwnerCheck = "required", "email", "required", "transfer"
	block.Owner, block.Due, block.Notify = "revops", 8*time.Hour, reconcile.NotifyNow
	block.Allow = []ledger.Action{ledger.ActionRetry, ledger.ActionResolve, ledger.ActionCancel}
	if d := cmp.Diff(block, c.Policies.List[1]); d != "" {
		t.Errorf("policy of the config (-want +got):\n%s", d)
	}

	want := []string{
		"reconcile.toml:39: policy.0.match.connector: there is no [connectors.crm]; its entries cannot be looked up or sent",
		"reconcile.toml:38: [[policy]] 1 can never match: policies/lead.yaml (policies/lead.yaml:1) comes first and matches all that it does; move it up or remove it",
		"reconcile.toml:29: notify: no effect in this version: notices are not sent yet, to no owner",
		"reconcile.toml:16: schedule.digest, schedule.weekly, schedule.prune: no effect in this version: nothing runs at that time yet",
		"reconcile.toml:19: retention: no effect in this version: everything is kept",
		"reconcile.toml:42: policy.0.handover: no effect in this version: nothing is handed over yet",
		"policies/lead.yaml:12: after_max_attempts.notify: no effect in this version: notices are not sent yet (also in other policies: 1)",
	}
	if d := cmp.Diff(want, c.Warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

// mistakes loads a config and returns what is wrong with it, line by line.
func mistakes(t *testing.T, files map[string]string, env ...string) []string {
	t.Helper()
	write(t, files)
	_, err := Load("reconcile.toml", environ(env...))
	if err == nil {
		return nil
	}
	var es Errors
	if !errors.As(err, &es) {
		t.Fatalf("load: got a %T, want Errors: %v", err, err)
	}
	return strings.Split(err.Error(), "\n")
}

func TestEveryMistakeIsReportedWithLineAndRemedy(t *testing.T) {
	got := mistakes(t, map[string]string{
		"reconcile.toml": `timezone = "Nope/Zone"
polcy_files = []
policy_files = ["policies/*.yaml", "missing.yaml"]
[ledger]
url = "mysql://root:hunter2hunter2@db/x"
lease = 30
[schedule]
settle = "0s"
weekly = "0 0 31 2 *"
digest = "TZ=UTC"
[owners.a]
next = "b"
notify = ["chta"]
[owners.b]
next = "a"
[notify.chat]
type = "slak"
url = "https://chat.example/x"
[[policy]]
retry.max_attempts = 0
retry.max_retries = 4
retry.backoff = { base = "2h", factor = inf }
retry.retryable = ["timout", 99, "502"]
[[policy]]
match = { workflow = "x" }
after_max_attempts = { allow = ["reslove"], due = "tomorrow", notify = "yes" }
[connectors.crm]
base_url = "https://x"
`,
		"policies/a.yaml": "workflow: x\nretry:\n  max_age: 72\n  max_age: 72h\nsettle:\nwhatever: [1]\n---\n- list\n",
		"policies/b.yaml": "workflow: [\n",
	})
	want := []string{
		`reconcile.toml:1: timezone: "Nope/Zone" is not a time zone; write one such as "UTC" or "Europe/Berlin"`,
		`reconcile.toml:2: polcy_files: is not a key; did you mean "policy_files"?`,
		`reconcile.toml:3: policy_files.1: missing.yaml: no such file; it is looked for beside the config`,
		`reconcile.toml:5: ledger.url: is not the address of a ledger; write "sqlite:FILE" or "postgres://…"`,
		`reconcile.toml:6: ledger.lease: 30 has no unit; write for example "30s", "30m" or "30h" in quotes`,
		`reconcile.toml:8: schedule.settle: "0s" is refused: a job needs an interval of 10ms or more`,
		`reconcile.toml:9: schedule.weekly: "0 0 31 2 *" names a day that never comes; correct day and month`,
		`reconcile.toml:10: schedule.digest: "TZ=UTC" is neither an interval such as "30s" nor a cron line such as "0 8 * * MON" or "@hourly"`,
		`reconcile.toml:12: owners.a.next: goes in a circle: a → b → a; end it at somebody`,
		`reconcile.toml:13: owners.a.notify.0: there is no [notify.chta]; did you mean "chat"?`,
		`reconcile.toml:17: notify.chat.type: "slak" is not known; did you mean "slack"?`,
		`reconcile.toml:20: policy.0.retry.max_attempts: 0 is refused; the first try counts, so the least is 1`,
		`reconcile.toml:21: policy.0.retry.max_retries: is not a key; write max_attempts, which counts the first try too: one more than the retries`,
		`reconcile.toml:22: policy.0.retry.backoff.factor: +Inf is refused; write a number from 1 to 1000`,
		`reconcile.toml:22: policy.0.retry.backoff.base: the longest wait (max 1h) is shorter than the first (base 2h); raise max`,
		`reconcile.toml:23: policy.0.retry.retryable.0: "timout" is not a class; did you mean "timeout"?`,
		`reconcile.toml:23: policy.0.retry.retryable.1: 99 is not an HTTP status code; write one from 100 to 599, or a class`,
		`reconcile.toml:26: policy.1.after_max_attempts.due: "tomorrow" is not a duration; write for example "30s", "90m", "24h", "7d" or "2w"`,
		`reconcile.toml:26: policy.1.after_max_attempts.allow.0: "reslove" is not an action; did you mean "resolve"?`,
		`reconcile.toml:26: policy.1.after_max_attempts.notify: "yes" is not known; write "now", "digest" or "none"`,
		`reconcile.toml:27: connectors.crm: has no type; write type = "rest", or one that "reconcile connectors" lists`,
		`policies/a.yaml:3: retry.max_age: 72 has no unit; write for example "72s", "72m" or "72h" in quotes`,
		`policies/a.yaml:4: retry.max_age: stands twice (first on line 3); remove one`,
		`policies/a.yaml:5: settle: has no value; give it one, or remove the line for the default`,
		`policies/a.yaml:6: whatever: is not a key; known here: after_max_attempts, checks, connector, dispatch, handover, match, operation, platform_retries_for, repeats, retry, risk, settle, step, workflow`,
		`policies/a.yaml:8: one document is one policy; begin with "workflow: …" and divide several policies by a line "---"`,
		`policies/b.yaml:1: did not find expected node content`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mistakes (-want +got):\n%s", d)
	}
}
