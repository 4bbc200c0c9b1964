package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/all"
)

// everyTable is a config with every table that has keys of its own. @NAME@
// stands where keys of the table NAME may be added.
const everyTable = `
@top@
policy_files = ["p.yaml"]
[ledger]
@ledger@
[daemon]
@daemon@
[schedule]
@schedule@
[retention]
@retention@
[owners.a]
@owners@
[notify.chat]
type = "slack"
url = "https://chat.example"
@slack@
[notify.hook]
type = "webhook"
url = "https://hook.example"
@webhook@
[notify.mail]
type = "smtp"
url = "smtps://mail.example"
from = "a@mail.example"
to = ["b@mail.example"]
@smtp@
[[policy]]
@policy@
[policy.match]
@match@
[policy.handover]
url = "https://flows.example"
secret = "abcdefgh"
@handover@
[policy.retry]
@retry@
[policy.retry.backoff]
@backoff@
[policy.settle]
@settle@
[policy.checks]
@checks@
[policy.after_max_attempts]
@after@
[connectors.x]
type = "rest"
base_url = "https://sys.example"
@connector@
[connectors.x.about]
@about@
[connectors.x.auth]
@auth@
[connectors.x.auth.login]
method = "POST"
path = "/login"
json = { user = "abcdefgh" }
token = "token"
@login@
[connectors.x.settings.s]
default = "x"
@setting@
[[connectors.x.rate]]
calls = 1
per = "1s"
@rate@
[connectors.x.key]
@key@
[connectors.x.idempotency]
@idempotency@
[connectors.x.idempotency.replayed]
@replayed@
[[connectors.x.probe]]
method = "GET"
path = "/me/{settings.s}"
@probe@
[[connectors.x.rate_headers]]
remaining = "header:A"
reset = "header:B"
@rate_headers@
[[connectors.x.errors]]
status = 429
class = "rate_limit"
@errors@
[connectors.x.errors.wait]
path = "wait"
@wait@
[[connectors.x.operation]]
name = "a"
statuses = { paid = "applied" }
@operation@
[connectors.x.operation.compare.total]
path = "total"
@compare@
[connectors.x.operation.lookup]
method = "GET"
path = "/a"
query = { k = "{key}", p = "{page}" }
items = "data"
match = { path = "k", like = "(.*)" }
status = "status"
@lookup@
[connectors.x.operation.lookup.pages]
next = "next"
@pages@
[connectors.x.operation.lookup.batch]
max = 5
each = "{key}"
query = { k = "{each}", p = "{page}" }
@batch@
[connectors.x.operation.lookup.batch.fault]
items = "errors"
@fault@
[connectors.x.operation.read]
method = "GET"
path = "/a/{id}"
@read@
[[connectors.x.operation.absence]]
method = "GET"
path = "/old/{key}"
@absence@
[connectors.x.operation.twin]
method = "GET"
path = "/twin/{subject}"
@twin@
[connectors.x.operation.send]
method = "POST"
path = "/a"
json = { k = "{key}" }
id = "id"
@send@
[connectors.x.operation.send.fault]
items = "errors"
@sendfault@
[[connectors.x.operation.check]]
method = "GET"
path = "/c/{record_id}"
owner = "owner"
@check@
[[connectors.x.operation]]
name = "b"
lookup = { method = "GET", path = "/b/{record_id}", match = "id" }
[connectors.x.operation.proof]
stage = "stage"
@proof@
`

// everyPolicyTable is the same for a policy file; the keys are written in the
// YAML flow form.
const everyPolicyTable = `{ step: s,
@policy@
match: { @match@ operation: o },
handover: { url: "https://flows.example", secret: abcdefgh, @handover@ },
retry: { @retry@ max_age: 1h, backoff: { @backoff@ base: 1s } },
settle: { @settle@ for: 1h },
checks: { @checks@ consent: none },
after_max_attempts: { @after@ due: 1h } }
`

const (
	requestKeys = "method path query headers json form text content_type graphql variables bucket timeout max_url max_text max_body "
	answerKeys  = "items answered match id status gone merged partial pages contains visible_within looks_back margin "
	timingKeys  = "timeout lands_within visible_within looks_back in_flight_for absent_after absent_spacing keeps_key key_scope "
	verdictKeys = "consent consent_allow consent_deny consent_missing active active_allow active_deny active_missing " +
		"lifecycle lifecycle_allow lifecycle_deny lifecycle_missing owner owner_missing "
)

// keysOf are the keys that belong into each table: all others are wrong there.
var keysOf = map[string]string{
	"top": "timezone policy_files ledger daemon schedule retention owners notify policy connectors", "ledger": "url auto_migrate lease payload_max",
	"daemon": "listen tls_cert tls_key allow_plain grace", "schedule": "settle advance release escalate digest weekly prune",
	"retention": "settled payload", "owners": "name ids notify next", "slack": "type url", "webhook": "type url secret", "smtp": "type url from to",
	"policy": "match workflow step operation connector risk dispatch handover retry settle checks after_max_attempts platform_retries_for repeats",
	"match":  "workflow step operation connector risk", "handover": "url secret", "retry": "max_attempts max_age backoff retryable stop_on",
	"backoff": "kind base factor max jitter", "settle": "for every pending_every", "checks": "consent channel owner lifecycle refused",
	"after": "state owner due allow notify",

	"connector": timingKeys + "type base_url about settings let auth headers query rate lane key idempotency probe rate_headers errors facts shape operation",
	"about":     "title pinned", "auth": "bearer basic header query none login oauth2", "login": requestKeys + "token lasts",
	"setting": "default pattern help", "rate": "calls per concurrent name", "key": "form max chars prefix digest folds",
	"idempotency": "max chars replay replayed", "replayed": "header is", "probe": requestKeys + "account mode expect",
	"rate_headers": "remaining limit used reset refill need header like per unit reserve",
	"errors":       "on status code is like class effect finding wait zone pauses id spent refuses", "wait": "path unit",
	"operation": timingKeys + "name let shape key idempotency errors lookup read absence twin statuses compare proof changed carries canary control " +
		"repeatable unique removes send check resend_asks",
	"compare": "path as", "lookup": requestKeys + answerKeys + "batch", "pages": "next url more from step total size max",
	"batch": requestKeys + answerKeys + "max each join missing span split fault replies tag", "fault": "items key",
	"read": requestKeys + answerKeys + "batch", "absence": requestKeys + answerKeys + "batch", "twin": requestKeys + answerKeys,
	"send": requestKeys + "id empty takes fault batch", "sendfault": "items key",
	"check": requestKeys + verdictKeys + "channel items answered match gone merged none batch fault",
	// Any name may be one of the payload: only the operation's own keys are wrong.
	"proof": "",
}

// wrongIn lists the keys that are known somewhere, but not in a table.
func wrongIn(table string) []string {
	if table == "proof" {
		return []string{"carries", "changed"}
	}
	var wrong []string
	for _, keys := range keysOf {
		wrong = append(wrong, strings.Fields(keys)...)
	}
	slices.Sort(wrong)
	wrong = slices.Compact(wrong)
	here := strings.Fields(keysOf[table])
	return slices.DeleteFunc(wrong, func(k string) bool { return slices.Contains(here, k) })
}

// unmarked is such a text with no key added.
func unmarked(text string) string {
	for table := range keysOf {
		text = strings.ReplaceAll(text, "@"+table+"@", "")
	}
	return text
}

// Each key that means something elsewhere is named, with its file and line, in
// every table where it means nothing.
func TestKeysInWrongPlacesAreNamed(t *testing.T) {
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T, config, policy string) Errors {
		t.Helper()
		write(t, map[string]string{"reconcile.toml": config, "p.yaml": policy})
		_, _, err := Open("reconcile.toml", environ(), reg, nil)
		var errs Errors
		if err != nil && !errors.As(err, &errs) {
			t.Fatal(err)
		}
		return errs
	}
	if errs := open(t, unmarked(everyTable), unmarked(everyPolicyTable)); errs != nil {
		t.Fatalf("the tables themselves: %v", errs)
	}
	try := func(t *testing.T, file, text, table, form string, said func(text string) Errors) {
		t.Helper()
		mark := "@" + table + "@"
		if !strings.Contains(text, mark) {
			return
		}
		wrong := wrongIn(table)
		var lines strings.Builder
		for _, key := range wrong {
			fmt.Fprintf(&lines, form, key)
		}
		first := strings.Count(text[:strings.Index(text, mark)], "\n") + 1
		errs := said(unmarked(strings.Replace(text, mark, lines.String(), 1)))
		named := map[string]bool{}
		for _, e := range errs {
			at := e.Line - first
			if e.File == file && at >= 0 && at < len(wrong) && strings.HasSuffix("."+e.Path, "."+wrong[at]) && strings.Contains(e.Error(), fmt.Sprintf("%s:%d: ", file, e.Line)) {
				named[wrong[at]] = true
			}
		}
		for _, key := range wrong {
			if !named[key] {
				t.Errorf("%s in %s: not named with file and line", key, table)
			}
		}
	}
	for _, table := range slices.Sorted(maps.Keys(keysOf)) {
		t.Run(table, func(t *testing.T) {
			try(t, "reconcile.toml", everyTable, table, "%s = \"x\"\n", func(text string) Errors { return open(t, text, unmarked(everyPolicyTable)) })
			try(t, "p.yaml", everyPolicyTable, table, "%s: x,\n", func(text string) Errors { return open(t, unmarked(everyTable), text) })
		})
	}
}
