package ledger

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// settled is an entry with everything set.
func settledSample() (Stored, []Evidence, []History) {
	at := func(s int) time.Time { return received.Add(time.Duration(s)*time.Second + 123456*time.Microsecond) }
	e := Entry{
		ActionKey: "r:s", Workflow: "w", WorkflowVersion: "7", RunID: "r", StepID: "s", Connector: "c", Operation: "o", RecordID: "x<y>&z",
		Subject: "ada@example.org", OutcomeKey: "lead:1", Risk: RiskHigh, Owner: "sales", OriginalOwner: "revops", Replaces: "old",
		OccurredAt: at(1), ReceivedAt: at(2), ProviderKey: "p1", KeyOrigin: "derived", IdempotencyKey: "i1", Keys: []string{"p0", "p1"},
		Driver: "platform", DriverUntil: at(3), State: StateSettled, Effect: EffectDone, Outcome: OutcomeApplied, SettledBy: ByLook,
		Reason: "found: \u2028 it", RemoteID: "9", Flags: []Flag{FlagDuplicate, FlagReversed}, Lane: "c", Work: WorkLook, NextAt: at(4),
		Attempts: 2, AttemptCount: 1, SendCount: 2, LastClass: ClassTimeout, LastTriedAt: at(5), FirstFailedAt: at(6), FirstSentAt: at(7),
		KeySentAt: at(8), SendBy: at(9), Unbounded: true, LastActivityAt: at(10), LooksAnswered: 3, LooksFailed: 4, LooksInRow: 5,
		LastLookAt: at(11), Negatives: 1, LastNegativeAt: at(12), NegativeVersion: "v1", SettleFrom: at(13), PausedBase: 90 * time.Second,
		SettledAt: at(14), Verify: true, Granted: 1, Approved: true, PolicyVersion: "pv", Sanitized: 2,
	}
	e.Class = ClassOf(e)
	as := []Attempt{
		{AttemptID: "a1", No: 1, StartedAt: at(20), FinishedAt: at(21), ReceivedAt: at(22), ResultAt: at(23), EffectAt: at(24), Status: AttemptError,
			HTTPStatus: 504, Class: ClassTimeout, Code: "E", Message: "a\uFFFDb\n\"c\"", RetryAfter: "120", Effect: EffectUnknown, Rule: "default 504", Sends: 0,
			Final: true, SendBy: at(25), Key: "i0", Counts: true, ReasonText: "timeout", ReasonID: "abcd", RulesVersion: 1},
		{AttemptID: "a2", No: 2, Ours: true, StartedAt: at(30), ReceivedAt: at(30), Status: AttemptStarted, Effect: EffectDone, RemoteID: "9", Rule: "look: found",
			Sends: 1, SendBy: at(31), Key: "i1", Replayed: true, KeySpent: true},
	}
	evidence := []Evidence{
		{Finding: FindingNotVisible, Connector: "c", Form: "single", AskedAt: at(40), SeenAt: at(41), Counted: true, Void: true, Version: "v1", Detail: []byte(`{"records":[],"n":19.90}`), Digest: "d1", PassID: "p-1"},
		{Finding: FindingApplied, RemoteID: "9", AskedAt: at(42), SeenAt: at(43), Detail: []byte("{ \"spaced\": 1 }\n"), Digest: "d2"},
	}
	history := []History{
		{No: 1, At: at(50), To: StateInFlight, Class: ReportWaiting, Reason: "attempt_started", Owner: "revops", Actor: "import"},
		{No: 2, At: at(51), From: StateInFlight, To: StateSettled, Outcome: OutcomeApplied, Class: ReportRecoveredAfterRetry, Flags: []Flag{FlagDuplicate}, Reason: "found", Owner: "sales",
			Actor: "reconcile", PolicyVersion: "pv", Note: "n", PassID: "p-1", Detail: []byte(`{"checks":[]}`)},
	}
	return Stored{Entry: e, Attempts: as}, evidence, history
}

func restored(t *testing.T, line []byte, opts ParseOptions) (Restored, []FieldError) {
	t.Helper()
	opts.Restore = true
	rec, errs := ParseRecord(line, opts)
	if len(errs) > 0 {
		t.Fatalf("%s\n%v", line, errs)
	}
	if len(rec.Unknown) > 0 {
		t.Errorf("unknown members %v", rec.Unknown)
	}
	return ParseRestore(rec)
}

func TestAnExportedEntryComesBackWhole(t *testing.T) {
	st, evidence, history := settledSample()
	line, err := MarshalRecord(st, evidence, history)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(line, "\n\r") {
		t.Errorf("more than one line: %s", line)
	}
	for _, member := range []string{`"state":"settled"`, `"effect":"done"`, `"outcome":"applied"`, `"flags":["duplicate","reversed"]`, `"keys":["p0","p1"]`, `"evidence":[{"finding":"not_visible"`} {
		if !bytes.Contains(line, []byte(member)) {
			t.Errorf("no %s in %s", member, line)
		}
	}
	got, errs := restored(t, line, ParseOptions{Now: received})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, d := range []string{cmp.Diff(st.Entry, got.Entry), cmp.Diff(st.Attempts, got.Attempts), cmp.Diff(evidence, got.Evidence), cmp.Diff(history, got.History)} {
		if d != "" {
			t.Error(d)
		}
	}
}

func TestAnExportedEntryIsAlsoAReport(t *testing.T) {
	st, _, _ := settledSample()
	line, _ := MarshalRecord(st, nil, nil)
	rec, errs := ParseRecord(line, ParseOptions{Now: received, Restore: true})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(rec.Attempts) != 2 || rec.Attempts[0].AttemptID != "a1" || rec.Attempts[0].Sends != 0 || rec.Attempts[1].Effect != EffectDone {
		t.Errorf("%+v", rec.Attempts)
	}
	plain, errs := ParseRecord(line, ParseOptions{Now: received})
	if len(errs) > 0 || plain.Restore != nil || len(plain.Unknown) == 0 {
		t.Errorf("without Restore it is a report with unknown members: %v %v", errs, plain.Unknown)
	}
}

func TestAnExportWithAMemberTwice(t *testing.T) {
	st, evidence, history := settledSample()
	whole, _ := MarshalRecord(st, evidence, history)
	for name, c := range map[string]struct{ old, repl, field string }{
		"its state":                    {`"state":"settled"`, `"state":"settled","state":"settled"`, "state"},
		"inside its evidence":          {`"evidence":[{"finding"`, `"evidence":[{"finding":"absent","finding"`, "evidence.finding"},
		"inside what the ledger notes": {`"ledger":{`, `"ledger":{"work":"","work":"",`, "ledger.work"},
	} {
		line := bytes.Replace(whole, []byte(c.old), []byte(c.repl), 1)
		if bytes.Equal(line, whole) {
			t.Fatalf("%s: no %s in %s", name, c.old, whole)
		}
		_, errs := ParseRecord(line, ParseOptions{Now: received, Restore: true})
		if len(errs) == 0 || !strings.HasSuffix(errs[0].Field, c.field) {
			t.Errorf("%s: got %v, want one of %s", name, errs, c.field)
		}
	}
}

func TestExportKeepsThePayload(t *testing.T) {
	for name, c := range map[string]struct{ body, typ string }{
		"numbers and order":      {`{"contact_id":734512345678901235,"amount":19.90,"a":"<&>"}`, ""},
		"blanks inside":          {`{ "a" : 1 }`, ""},
		"line ends":              {"{\n \"a\": 1\r\n}", ""},
		"blanks outside":         {` {"a":1} `, ""},
		"invalid UTF-8":          {"{\"a\":\"\xff\"}", ""},
		"lone surrogate and NUL": {`{"s":"\ud83d\u0000"}`, ""},
		"a text":                 {"<a>\x00\n</a>", "application/xml"},
		"a text that is JSON":    {`{"a":1}`, "text/plain; charset=utf-8"},
		"null":                   {`null`, ""},
	} {
		st, _, _ := settledSample()
		var r Record
		r.SetPayload([]byte(c.body), 0)
		e := &st.Entry
		e.Payload, e.PayloadType, e.PayloadDigest, e.PayloadSize = r.Payload, c.typ, r.PayloadDigest, r.PayloadSize
		line, err := MarshalRecord(st, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, errs := restored(t, line, ParseOptions{})
		if len(errs) > 0 || string(got.Entry.Payload) != c.body || got.Entry.PayloadType != c.typ || got.Entry.PayloadDigest != e.PayloadDigest || bytes.IndexByte(line, '\n') >= 0 {
			t.Errorf("%s: %q %q %v", name, got.Entry.Payload, got.Entry.PayloadType, errs)
		}
	}
}

func TestExportOfAPayloadThatIsNotKept(t *testing.T) {
	st, _, _ := settledSample()
	e := &st.Entry
	e.PayloadDigest, e.PayloadSize, e.Excerpt = strings.Repeat("ab", 32), 300<<10, `{"begin`
	line, _ := MarshalRecord(st, nil, nil)
	got, errs := restored(t, line, ParseOptions{})
	if len(errs) > 0 || got.Entry.Payload != nil || got.Entry.PayloadDigest != e.PayloadDigest || got.Entry.PayloadSize != e.PayloadSize || got.Entry.Excerpt != e.Excerpt {
		t.Errorf("%+v %v", got.Entry, errs)
	}

	// A ledger that keeps less.
	e.Payload, e.Excerpt = []byte(`{"a":"`+strings.Repeat("x", 100)+`"}`), ""
	line, _ = MarshalRecord(st, nil, nil)
	got, errs = restored(t, line, ParseOptions{PayloadMax: 50})
	if len(errs) > 0 || got.Entry.Payload != nil || got.Entry.PayloadDigest != e.PayloadDigest || !strings.HasPrefix(got.Entry.Excerpt, `{"a":"x`) {
		t.Errorf("%q %q %v", got.Entry.Payload, got.Entry.Excerpt, errs)
	}
}

func TestHalfAnExportIsRefused(t *testing.T) {
	st, evidence, history := settledSample()
	line, _ := MarshalRecord(st, evidence, history)
	for name, c := range map[string]struct{ from, to, want string }{
		"a newer format":               {`"export":1`, `"export":2`, "export: has format 2"},
		"no format":                    {`"export":1`, `"export":0`, "export: must be the number"},
		"a format that is no number":   {`"export":1`, `"export":"x"`, "export: must be int"},
		"no such state":                {`"state":"settled"`, `"state":"parked"`, `state: "parked" is no state`},
		"settled without an outcome":   {`"outcome":"applied","flags"`, `"outcome":"","flags"`, `outcome: "" does not go with state "settled"`},
		"no such outcome":              {`"outcome":"applied","flags"`, `"outcome":"done","flags"`, `outcome: "done" is no outcome`},
		"no such effect":               {`"effect":"done","outcome"`, `"effect":"perhaps","outcome"`, `effect: "perhaps" is no effect`},
		"no ground":                    {`"settled_by":"look"`, `"settled_by":""`, `ledger.settled_by: "" does not go`},
		"no such work":                 {`"work":"look"`, `"work":"sleep"`, `ledger.work: "sleep"`},
		"work without a time":          {`"work":"look"`, `"work":""`, `ledger.next_at: does not go with work ""`},
		"no such flag":                 {`"flags":["duplicate","reversed"]`, `"flags":["odd"]`, `flags: "odd" is no flag`},
		"keys without the present one": {`"keys":["p0","p1"]`, `"keys":["p0"]`, `keys: must hold the provider_key "p1"`},
		"no such class of an attempt":  {`"error_class":"timeout"`, `"error_class":"Timeout"`, `attempts.0.error_class: "Timeout" is no class`},
		"no such finding":              {`"finding":"applied"`, `"finding":"seen"`, `evidence.1.finding: "seen" is no finding`},
		"a change to nowhere":          {`"to":"in_flight"`, `"to":""`, `history.0: "" to "" is no change`},
		"a due time that does not fit": {`"original_owner"`, `"due_at":"2026-11-28T10:00:00Z","original_owner"`, "ledger.due_at: does not go"},
		"a wrong type deep inside":     {`"counts":true`, `"counts":"yes"`, "attempts.ledger.counts: must be bool; got string"},
	} {
		if !bytes.Contains(line, []byte(c.from)) {
			t.Errorf("%s: no %s in %s", name, c.from, line)
			continue
		}
		_, errs := restored(t, bytes.Replace(line, []byte(c.from), []byte(c.to), 1), ParseOptions{})
		if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), c.want) || !strings.HasSuffix(errs[0].Message, "export the entry again") {
			t.Errorf("%s: got %v, want %s", name, errs, c.want)
		}
	}
}
