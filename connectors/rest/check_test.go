package rest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/recovery-ledger/reconcile/connectors"
)

const checks = `
rate = { calls = 1000, per = "1s" }
settings = { deny = { default = [] } }
errors = [{ status = 404, code = "code", is = "missing", on = ["check"], finding = "none" }]
[[operation]]
name = "a"
check = [
  { channel = "email", method = "GET", path = "/consent/{subject}", items = "results", match = "mail", consent = "status", consent_deny = ["UNSUBSCRIBED"] },
  { method = "GET", path = "/records/{record_id}", none = "refuse", merged = "into", gone = "deleted", owner = "owner.id", lifecycle = "stage", lifecycle_deny = ["closed"], lifecycle_missing = "pass" },
  { method = "GET", path = "/owners/{owner}", active = "archived", active_deny = ["true"], none = "refuse" },
]
[[operation]]
name = "optional"
check = { method = "GET", path = "/records/{payload.customer?}", lifecycle = "stage", lifecycle_allow = ["ACTIVE"], merged = "into" }
[[operation]]
name = "open"
check = { method = "GET", path = "/records/{record_id}", lifecycle = "stage", lifecycle_deny = "{settings.deny}", consent = "opted" }
`

func TestChecks(t *testing.T) {
	type answers map[string]string // path: body; a body that starts with 404 or 500 is that status
	pass, refuse, unread := connectors.VerdictPass, connectors.VerdictRefuse, connectors.VerdictUnread
	v := func(check connectors.CheckName, kind connectors.VerdictKind, value string) connectors.Verdict {
		return connectors.Verdict{Check: check, Kind: kind, Value: value}
	}
	all := []connectors.CheckName{"consent", "owner", "lifecycle"}
	good := `{"owner":{"id":"5502"},"stage":"open"}`
	cases := map[string]struct {
		op, channel string
		want        []connectors.CheckName
		answers     answers
		verdicts    []connectors.Verdict
		requests    int
	}{
		"all pass": {"a", "email", all, answers{"/consent/s@x": `{"results":[{"mail":"s@x","status":"OK"}]}`, "/records/r1": good, "/owners/5502": `{"archived":false}`},
			[]connectors.Verdict{v("consent", pass, "OK"), v("owner", pass, "5502"), v("lifecycle", pass, "open")}, 3},
		"consent withdrawn": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[{"mail":"s@x","status":"UNSUBSCRIBED"}]}`},
			[]connectors.Verdict{v("consent", refuse, "UNSUBSCRIBED")}, 1},
		"of several records each must pass": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[{"mail":"s@x","status":"OK"},{"mail":"s@x","status":"UNSUBSCRIBED"}]}`},
			[]connectors.Verdict{v("consent", refuse, "OK")}, 1},
		"somebody else's consent is not ours": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[{"mail":"t@x","status":"OK"}]}`},
			[]connectors.Verdict{v("consent", unread, "")}, 1},
		"no record is unread": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[]}`},
			[]connectors.Verdict{v("consent", unread, "")}, 1},
		"K02 the source is down": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `500`},
			[]connectors.Verdict{v("consent", unread, "")}, 1},
		"the value is missing": {"a", "email", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[{"mail":"s@x"}]}`},
			[]connectors.Verdict{v("consent", unread, "")}, 1},
		"another channel is not read": {"a", "phone", []connectors.CheckName{"consent"}, nil,
			[]connectors.Verdict{v("consent", unread, "")}, 0},
		"any channel is": {"a", "", []connectors.CheckName{"consent"}, answers{"/consent/s@x": `{"results":[{"mail":"s@x","status":"OK"}]}`},
			[]connectors.Verdict{v("consent", pass, "OK")}, 1},
		"K07 the owner has left": {"a", "email", []connectors.CheckName{"owner"}, answers{"/records/r1": good, "/owners/5502": `{"archived":true}`},
			[]connectors.Verdict{v("owner", refuse, "5502")}, 2},
		"the owner does not exist": {"a", "email", []connectors.CheckName{"owner"}, answers{"/records/r1": good, "/owners/5502": `404{"code":"missing"}`},
			[]connectors.Verdict{v("owner", refuse, "5502")}, 2},
		"whether the owner is active cannot be read": {"a", "email", []connectors.CheckName{"owner"}, answers{"/records/r1": good, "/owners/5502": `500`},
			[]connectors.Verdict{v("owner", unread, "5502")}, 2},
		"no owner is unread": {"a", "email", []connectors.CheckName{"owner"}, answers{"/records/r1": `{"stage":"open"}`},
			[]connectors.Verdict{v("owner", unread, "")}, 1},
		"K08 closed meanwhile": {"a", "email", []connectors.CheckName{"lifecycle"}, answers{"/records/r1": `{"owner":{"id":"5502"},"stage":"closed"}`},
			[]connectors.Verdict{v("lifecycle", refuse, "closed")}, 1},
		"removed meanwhile": {"a", "email", []connectors.CheckName{"lifecycle"}, answers{"/records/r1": `{"deleted":true,"stage":"open"}`},
			[]connectors.Verdict{v("lifecycle", refuse, "gone")}, 1},
		"the record is not there": {"a", "email", []connectors.CheckName{"lifecycle"}, answers{"/records/r1": `404{"code":"missing"}`},
			[]connectors.Verdict{v("lifecycle", refuse, "")}, 1},
		"a bare 404 is could-not-ask": {"a", "email", []connectors.CheckName{"lifecycle"}, answers{"/records/r1": `404{}`},
			[]connectors.Verdict{v("lifecycle", unread, "")}, 1},
		"merged: checked on the survivor": {"a", "email", []connectors.CheckName{"lifecycle", "owner"}, answers{"/records/r1": `{"into":"r2","stage":"closed"}`, "/records/r2": good, "/owners/5502": `{"archived":false}`},
			[]connectors.Verdict{v("owner", pass, "5502"), v("lifecycle", pass, "open")}, 3},
		"merged in a circle": {"a", "email", []connectors.CheckName{"lifecycle"}, answers{"/records/r1": `{"into":"r2"}`, "/records/r2": `{"into":"r1"}`},
			[]connectors.Verdict{v("lifecycle", refuse, "r1")}, 4},
		"an optional value that is missing skips the block": {"optional", "", []connectors.CheckName{"lifecycle"}, nil,
			[]connectors.Verdict{v("lifecycle", unread, "")}, 0},
		"an empty list denies nothing": {"open", "", []connectors.CheckName{"lifecycle", "consent"}, answers{"/records/r1": `{"stage":"0","opted":false}`},
			[]connectors.Verdict{v("consent", refuse, "false"), v("lifecycle", pass, "0")}, 1},
		"what is not wanted is not asked": {"open", "", []connectors.CheckName{"owner"}, nil, nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			c := mustOpen(t, sys.URL, checks)
			for path, body := range tc.answers {
				status := 200
				switch {
				case len(body) >= 3 && body[:3] == "404":
					status, body = 404, body[3:]
				case len(body) >= 3 && body[:3] == "500":
					status, body = 500, body[3:]
				}
				sys.on("GET "+path, status, body)
			}
			got := c.Check(context.Background(), connectors.CheckQuery{
				Query:   connectors.Query{Operation: tc.op, RecordID: "r1", Subject: "s@x", Payload: []byte(`{"customer":null}`)},
				Channel: tc.channel, Want: tc.want})
			if d := cmp.Diff(tc.verdicts, got, cmpopts.IgnoreFields(connectors.Verdict{}, "Detail", "Err")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			for _, g := range got {
				if (g.Kind == unread) != (g.Err != nil) || g.Kind != pass && g.Detail == "" {
					t.Errorf("%+v", g)
				}
			}
			if n := len(sys.sent()); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

func TestConsentIsNotGuessed(t *testing.T) {
	const pass, refuse, unread = connectors.VerdictPass, connectors.VerdictRefuse, connectors.VerdictUnread
	for text, want := range map[string]connectors.VerdictKind{
		"true": pass, "yes": pass, "Y": pass, "1": pass, "on": pass,
		"false": refuse, "FALSE": refuse, "no": refuse, "N": refuse, "0": refuse, "": refuse, "off": refuse,
		"unsubscribed": unread, "2026-01-01": unread, "2": unread,
	} {
		if got, _ := (&verdictRule{consent: true}).of(text); got != want {
			t.Errorf("consent %q: got %s, want %s", text, got, want)
		}
	}
	if got, _ := (&verdictRule{}).of("customer"); got != pass {
		t.Errorf("a stage without lists: got %s", got)
	}
	if got, _ := (&verdictRule{consent: true, deny: []string{"unsubscribed"}}).of("subscribed"); got != pass {
		t.Errorf("with a list what is not denied passes: got %s", got)
	}
}
