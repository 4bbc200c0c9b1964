package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var received = time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)

const sample = `{"action_key":"run_8f2:create-contact","workflow":"lead-intake","workflow_version":"7","run_id":"run_8f2",
 "step_id":"create-contact","connector":"crm","operation":"contact.create","record_id":"form-991",
 "subject":"ada@example.org","outcome_key":"lead:form-991","risk":"normal","owner":"revops",
 "occurred_at":"2026-11-28T09:15:00Z","payload":{"email":"ada@example.org"},
 "attempts":[{"attempt_id":"a1","started_at":"2026-11-28T09:15:00Z","finished_at":"2026-11-28T09:15:30Z",
   "status":"error","http_status":504,"error_class":"timeout","error_code":"","message":"upstream timed out",
   "retry_after":"120","remote_id":""}]}`

// with is a small good record with more members.
func with(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"action_key":"r:s","workflow":"w","connector":"c","operation":"o"` + members + `}`
}

func attempt(members string) string { return with(`"attempts":[{` + members + `}]`) }

func parse(t *testing.T, line string) Record {
	t.Helper()
	r, errs := ParseRecord([]byte(line), ParseOptions{Now: received})
	if len(errs) > 0 {
		t.Fatalf("%s\n%v", line, errs)
	}
	return r
}

func TestParseTheSample(t *testing.T) {
	at := func(s string) time.Time { v, _ := time.Parse(time.RFC3339, s); return v.UTC() }
	body := `{"email":"ada@example.org"}`
	sum := sha256.Sum256([]byte(body))
	want := Record{ActionKey: "run_8f2:create-contact", Workflow: "lead-intake", WorkflowVersion: "7", RunID: "run_8f2", StepID: "create-contact",
		Connector: "crm", Operation: "contact.create", RecordID: "form-991", Subject: "ada@example.org", OutcomeKey: "lead:form-991",
		Risk: RiskNormal, Owner: "revops", OccurredAt: at("2026-11-28T09:15:00Z"),
		Payload: []byte(body), PayloadDigest: hex.EncodeToString(sum[:]), PayloadSize: len(body),
		Attempts: []RecordAttempt{{AttemptID: "a1", StartedAt: at("2026-11-28T09:15:00Z"), FinishedAt: at("2026-11-28T09:15:30Z"),
			Status: AttemptError, HTTPStatus: 504, ErrorClass: "timeout", Message: "upstream timed out", RetryAfter: "120", Sends: 1}}}
	if diff := cmp.Diff(want, parse(t, sample)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	long := strings.Repeat("k", 5000)
	for name, c := range map[string]struct {
		line string
		want []string // field: beginning of the message
	}{
		"not JSON":                            {`{"action_key":`, []string{"record: not valid JSON at byte 14"}},
		"no line":                             {``, []string{"record: not valid JSON"}},
		"no object":                           {`[1]`, []string{"record: must be one JSON object; got a list"}},
		"nothing required":                    {`{}`, []string{"action_key: missing", "workflow: missing", "connector: missing", "operation: missing"}},
		"empty is missing":                    {`{"action_key":"","workflow":null,"connector":"c","operation":"o"}`, []string{"action_key: missing", "workflow: missing"}},
		"a number for a text, named once":     {`{"action_key":5,"workflow":"w","connector":"c","operation":"o"}`, []string{`action_key: must be a text; got a number: write "5" in quotes`}},
		"an over-long key":                    {strings.Replace(with(""), "r:s", long, 1), []string{"action_key: is 5000 bytes long, at most 512"}},
		"outer blanks":                        {strings.Replace(with(""), "r:s", " r:s", 1), []string{`action_key: " r:s" begins or ends with a blank`}},
		"outer blanks of another script":      {with(`"subject":"x\u00a0"`), []string{"subject: \"x\\u00a0\" begins or ends with a blank"}},
		"a control character":                 {with(`"record_id":"a\tb"`), []string{"record_id: holds the control character U+0009"}},
		"a control character above ASCII":     {with(`"record_id":"a\u0085b"`), []string{"record_id: holds the control character U+0085"}},
		"NUL in a key":                        {with(`"outcome_key":"a\u0000b"`), []string{"outcome_key: holds NUL"}},
		"half a pair in a key":                {with(`"outcome_key":"\ud83d"`), []string{"outcome_key: holds NUL, half a surrogate pair"}},
		"bad UTF-8 in a key":                  {with("\"outcome_key\":\"a\xffb\""), []string{"outcome_key: holds NUL, half a surrogate pair or invalid UTF-8"}},
		"an unknown risk":                     {with(`"risk":"huge"`), []string{`risk: "huge" is no risk`}},
		"an unknown driver":                   {with(`"driver":"cron"`), []string{`driver: "cron" is no driver`}},
		"a date without a zone":               {with(`"occurred_at":"2026-11-28 09:15"`), []string{"occurred_at: \"2026-11-28 09:15\" is no time; write RFC 3339"}},
		"a date as a number":                  {with(`"occurred_at":1790071200`), []string{`occurred_at: 1790071200 is no time; as seconds since 1970 it is "2026-09-22T10:00:00Z": write that`}},
		"two payloads":                        {with(`"payload":{},"payload_text":"x"`), []string{"payload_text: stands beside payload"}},
		"a payload_text that is JSON":         {with(`"payload_text":{}`), []string{"payload_text: must be a text; got an object"}},
		"attempts that are no list":           {with(`"attempts":{}`), []string{"attempts: must be a list of objects; got an object"}},
		"an attempt that is no object":        {with(`"attempts":["x"]`), []string{"attempts.0: must be an object; got a text"}},
		"an attempt without status":           {with(`"attempts":[{"status":"ok"},{}]`), []string{"attempts.1.status: missing"}},
		"an unknown status":                   {attempt(`"status":"failed"`), []string{`attempts.0.status: "failed" is no status`}},
		"a status of the wrong type":          {attempt(`"status":1`), []string{"attempts.0.status: must be a text"}},
		"an unknown effect":                   {attempt(`"status":"ok","effect":"maybe"`), []string{`attempts.0.effect: "maybe" is no effect`}},
		"an HTTP status as a text":            {attempt(`"status":"error","http_status":"504"`), []string{"attempts.0.http_status: must be a number; write 504 without quotes"}},
		"an HTTP status in words":             {attempt(`"status":"error","http_status":"gone"`), []string{"attempts.0.http_status: must be a number; got a text"}},
		"an HTTP status out of range":         {attempt(`"status":"error","http_status":99`), []string{"attempts.0.http_status: 99 is no HTTP status"}},
		"a fraction of a status":              {attempt(`"status":"error","http_status":504.5`), []string{"attempts.0.http_status: 504.5 is no whole number"}},
		"negative sends":                      {attempt(`"status":"error","sends":-1`), []string{"attempts.0.sends: -1 is out of range"}},
		"a token that is no text":             {attempt(`"status":"error","token":{}`), []string{"attempts.0.token: must be a text; got an object"}},
		"final as a text":                     {attempt(`"status":"error","final":"yes"`), []string{"attempts.0.final: must be true or false; got a text"}},
		"several at once, in their own order": {`{"workflow":1,"connector":"c","attempts":[{"status":"no"},{"status":"ok","send_by":"soon"}]}`, []string{"workflow: must", "attempts.0.status: ", "attempts.1.send_by: ", "action_key: missing", "operation: missing"}},
		"an overflowing number":               {attempt(`"status":"error","sends":99999999999999999999`), []string{"attempts.0.sends: 99999999999999999999 is no whole number in range"}},
		"too many attempts":                   {with(`"attempts":[` + strings.TrimSuffix(strings.Repeat(`{"status":"ok"},`, 1001), ",") + `]`), []string{"attempts: 1001 attempts in one record; at most 1000"}},
	} {
		_, errs := ParseRecord([]byte(c.line), ParseOptions{Now: received})
		ok := len(errs) == len(c.want)
		for i := 0; ok && i < len(errs); i++ {
			ok = strings.HasPrefix(errs[i].Error(), c.want[i])
		}
		if !ok {
			var got []string
			for _, e := range errs {
				got = append(got, e.Error())
			}
			t.Errorf("%s\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestWhatIsNotGiven(t *testing.T) {
	r := parse(t, with(`"attempts":[{"status":"error","http_status":0,"error_code":null,"started_at":"","sends":null}],"occurred_at":"","payload":null`))
	if r.RunID != "r" || r.StepID != "s" || !r.OccurredAt.Equal(received) || r.PayloadDigest != "" || r.Risk != RiskNone {
		t.Errorf("%+v", r)
	}
	if a := r.Attempts[0]; !a.StartedAt.Equal(received) || a.Sends != 1 || a.HTTPStatus != 0 || !a.FinishedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if r := parse(t, strings.Replace(with(""), "r:s", "a:b:c", 1)); r.RunID != "a:b" || r.StepID != "c" {
		t.Errorf("run %q step %q", r.RunID, r.StepID)
	}
	if r := parse(t, strings.Replace(with(""), "r:s", "plain", 1)); r.RunID != "" || r.StepID != "" {
		t.Errorf("run %q step %q", r.RunID, r.StepID)
	}
	if r := parse(t, attempt(`"status":"error","sends":0`)); r.Attempts[0].Sends != 0 {
		t.Error("an explicit 0 is 0")
	}
	// What Go programs write for "no time".
	if r := parse(t, attempt(`"status":"ok","started_at":"0001-01-01T00:00:00Z"`)); !r.Attempts[0].StartedAt.Equal(received) {
		t.Error(r.Attempts[0].StartedAt)
	}
}

func TestCheckKey(t *testing.T) {
	for name, c := range map[string]struct{ key, want string }{
		"a usual one":     {"run_8f2:create-contact", ""},
		"512 bytes":       {strings.Repeat("é", 256), ""},
		"513 bytes":       {strings.Repeat("k", 513), "is 513 bytes long"},
		"empty":           {"", "is empty"},
		"a line feed":     {"a\nb", "holds the control character U+000A"},
		"NUL":             {"a\x00b", "holds the control character U+0000"},
		"a blank outside": {"a ", "\"a \" begins or ends with a blank"},
		"no UTF-8":        {"a\xff", "holds invalid UTF-8"},
	} {
		if got := CheckKey(c.key); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestUnknownMembersWarn(t *testing.T) {
	r := parse(t, with(`"zeta":1,"Action_Key":"x","state":"settled","attempts":[{"status":"ok","took":{"a":[1,"}"]}}]`))
	if diff := cmp.Diff([]string{"Action_Key", "attempts.0.took", "state", "zeta"}, r.Unknown); diff != "" {
		t.Error(diff)
	}
	if r.Restore != nil {
		t.Error("a report restores nothing")
	}
}

func TestAMemberThatStandsTwice(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want []string // fields refused
		unk  []string
		dbt  string // how the doubt begins
	}{
		"in the record: refused":                {line: with(`"owner":"a","owner":"b"`), want: []string{"owner"}},
		"the same value: refused too":           {line: with(`"owner":"a","owner":"a"`), want: []string{"owner"}},
		"written with an escape: refused":       {line: with(`"owner":"a","own\u0065r":"b"`), want: []string{"owner"}},
		"the key itself: refused":               {line: with(`"action_key":"other"`), want: []string{"action_key"}},
		"three times: named each time":          {line: with(`"owner":"a","owner":"b","owner":"c"`), want: []string{"owner", "owner"}},
		"not given, then given: refused":        {line: with(`"risk":"","risk":"high"`), want: []string{"risk"}},
		"the list of attempts: refused":         {line: with(`"attempts":[{"status":"ok"}],"attempts":[]`), want: []string{"attempts"}},
		"the payload: refused":                  {line: with(`"payload":{"a":1},"payload":{"a":2}`), want: []string{"payload"}},
		"in an attempt: refused":                {line: with(`"attempts":[{"status":"ok"},{"status":"ok","status":"error"}]`), want: []string{"attempts.1.status"}},
		"a remote id of digits: refused":        {line: attempt(`"status":"ok","remote_id":1,"remote_id":2`), want: []string{"attempts.0.remote_id"}},
		"the same member of two attempts: good": {line: with(`"attempts":[{"status":"ok"},{"status":"ok"}]`)},
		"one that we do not know: a warning":    {line: with(`"zeta":1,"zeta":2`), unk: []string{"zeta", "zeta"}},
		"in an error object, kept as its text":  {line: attempt(`"status":"error","message":{"a":1,"a":2}`)},
		"in the payload: kept, in doubt":        {line: with(`"payload":{"b":[{"x":1,"y":{"x":2}},{"x":1,"x":2}]}`), dbt: "payload.b.x: "},
		"in the payload as a text: good":        {line: with(`"payload_text":"{\"a\":1,\"a\":2}"`)},
	} {
		r, errs := ParseRecord([]byte(c.line), ParseOptions{Now: received})
		var fields []string
		for _, e := range errs {
			fields = append(fields, e.Field)
		}
		if diff := cmp.Diff(c.want, fields); diff != "" {
			t.Errorf("%s: %s\n%s", name, c.line, diff)
		}
		if len(errs) > 0 {
			continue
		}
		if diff := cmp.Diff(c.unk, r.Unknown); diff != "" {
			t.Errorf("%s: %s\n%s", name, c.line, diff)
		}
		if got := strings.Join(r.Doubts, "; "); !strings.HasPrefix(got, c.dbt) || c.dbt == "" && got != "" {
			t.Errorf("%s: %s\n got doubts %q\nwant %q", name, c.line, got, c.dbt)
		}
	}
}

func TestSendByOfAnIntent(t *testing.T) {
	base := `{"action_key":"a:1","workflow":"w","connector":"c","operation":"o","send_by":"2026-11-28T10:00:00+01:00"`
	r, errs := ParseRecord([]byte(base+"}"), ParseOptions{Now: received})
	if want := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC); len(errs) > 0 || !r.SendBy.Equal(want) || len(r.Doubts)+len(r.Unknown) > 0 {
		t.Errorf("send_by %v, want %v; errors %v, doubts %v, unknown %v", r.SendBy, want, errs, r.Doubts, r.Unknown)
	}
	r, errs = ParseRecord([]byte(base+`,"attempts":[{"status":"started"}]}`), ParseOptions{Now: received})
	if len(errs) > 0 || len(r.Doubts) != 1 || !strings.HasPrefix(r.Doubts[0], "send_by: ") {
		t.Errorf("beside attempts: errors %v, doubts %v; want one doubt of send_by", errs, r.Doubts)
	}
}

// Every member that is read is also noticed when it stands twice.
func TestEveryKnownMemberMayStandOnce(t *testing.T) {
	if len(memberBits) > 64 {
		t.Fatal("more members than bits")
	}
	for name := range memberBits {
		twice := `"` + name + `":null,"` + name + `":null`
		var refused bool
		for _, line := range []string{with(twice + `,"export":1`), attempt(twice + `,"status":"ok"`)} {
			_, errs := ParseRecord([]byte(line), ParseOptions{Restore: true})
			refused = refused || slices.ContainsFunc(errs, func(e FieldError) bool { return strings.Contains(e.Message, "stands twice") })
		}
		if !refused {
			t.Errorf("%s is read twice", name)
		}
	}
	src, err := os.ReadFile("parse.go")
	if err != nil {
		t.Fatal(err)
	}
	// All of them stand in the cases of the three functions that read members.
	for _, c := range regexp.MustCompile(`(?m)^\tcase ("[a-z_]+"(?:, "[a-z_]+")*):`).FindAllStringSubmatch(string(src), -1) {
		for name := range strings.SplitSeq(c[1], ", ") {
			if memberBits[strings.Trim(name, `"`)] == 0 {
				t.Errorf("%s has no bit in memberBits", name)
			}
		}
	}
}

func TestPayloadKeepsItsBytes(t *testing.T) {
	for _, body := range []string{
		`{"contact_id":734512345678901235,"amount":19.90}`,
		`{ "z" : 1,"a":[ 1 , 2 ] }`,
		`{"note":"a\u0000b","k\u0000":1,"s":"\ud83d","t":"\\u0000"}`,
		"{\"raw\":\"a\xffb\"}",
		`[1,2]`, `"text"`, `0`, `false`,
	} {
		r := parse(t, with(`"payload": `+body+` ,"owner":"x"`))
		sum := sha256.Sum256([]byte(body))
		if string(r.Payload) != body || r.PayloadDigest != hex.EncodeToString(sum[:]) || r.PayloadSize != len(body) || r.Owner != "x" {
			t.Errorf("%s became %s", body, r.Payload)
		}
		if r.Sanitized != 0 {
			t.Errorf("%s: %d replacements", body, r.Sanitized)
		}
	}
	r := parse(t, with(`"payload_text":"<a>\u00e4\n\u0000</a>","payload_type":"application/xml"`))
	if string(r.Payload) != "<a>ä\n\x00</a>" || !r.PayloadText || r.PayloadType != "application/xml" {
		t.Errorf("%q %q", r.Payload, r.PayloadType)
	}
	if r := parse(t, with(`"payload_text":"x"`)); r.PayloadType != "text/plain; charset=utf-8" {
		t.Errorf("%q", r.PayloadType)
	}
}

func TestLargePayloadLeavesDigestAndExcerpt(t *testing.T) {
	body := `{"token":"SECRET1","x":"` + strings.Repeat("ä", 2000) + `"}`
	r, errs := ParseRecord([]byte(with(`"payload":`+body)), ParseOptions{PayloadMax: 1000, Redact: func(s string) string { return strings.ReplaceAll(s, "SECRET1", "[masked]") }})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	sum := sha256.Sum256([]byte(body))
	if r.Payload != nil || r.PayloadSize != len(body) || r.PayloadDigest != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes kept of %d", len(r.Payload), r.PayloadSize)
	}
	if !strings.HasPrefix(r.Excerpt, `{"token":"[masked]","x":"ä`) || len(r.Excerpt) > ExcerptMax || !utf8.ValidString(r.Excerpt) {
		t.Errorf("excerpt %.60q, %d bytes", r.Excerpt, len(r.Excerpt))
	}
	if r := parse(t, with(`"payload":"`+strings.Repeat("x", DefaultPayloadMax-2)+`"`)); len(r.Payload) != DefaultPayloadMax {
		t.Error("a payload of just the limit is kept")
	}
	if r := parse(t, with(`"payload":"`+strings.Repeat("x", DefaultPayloadMax-1)+`"`)); r.Payload != nil {
		t.Error("one byte more is not")
	}
}

func TestTextsAreMadeStorable(t *testing.T) {
	for name, c := range map[string]struct {
		message, want string
		replaced      int
	}{
		"NUL as an escape":               {`a\u0000b`, "a\uFFFDb", 1},
		"NUL raw":                        {"a\x00b", "a\uFFFDb", 1},
		"a line end raw":                 {"a\nb", "a\nb", 0},
		"half a pair":                    {`\ud83d`, "\uFFFD", 1},
		"the other half":                 {`x\ude00y`, "x\uFFFDy", 1},
		"two first halves":               {`\ud83d\ud83d\ude00`, "\uFFFD😀", 1},
		"a whole pair":                   {`\ud83d\ude00`, "😀", 0},
		"the text of an escape":          {`\\u0000`, `\u0000`, 0},
		"the replacement itself":         {`\ufffd` + "\uFFFD", "\uFFFD\uFFFD", 0},
		"invalid UTF-8":                  {"a\xffb\xc3", "a\uFFFDb\uFFFD", 2},
		"every escape":                   {`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t", 0},
		"an escaped backslash at an end": {`a\\`, `a\`, 0},
	} {
		r := parse(t, attempt(`"status":"error","message":"`+c.message+`"`))
		if got := r.Attempts[0].Message; got != c.want || r.Sanitized != c.replaced {
			t.Errorf("%s: got %q and %d replacements; want %q and %d", name, got, r.Sanitized, c.want, c.replaced)
		}
	}
	long := parse(t, attempt(`"status":"error","message":"`+strings.Repeat("ä", 60000)+`"`))
	if m := long.Attempts[0].Message; len(m) != MessageMax || !utf8.ValidString(m) {
		t.Errorf("%d bytes", len(m))
	}
	if r := parse(t, attempt(`"status":"error","message":{"code":"x","a":[1]}`)); r.Attempts[0].Message != `{"code":"x","a":[1]}` {
		t.Errorf("an error object: %q", r.Attempts[0].Message)
	}
}

func TestSecretsAreMaskedBeforeAnythingIsReturned(t *testing.T) {
	line := attempt(`"status":"error","message":"Bad api key 'SECRET5'","error_code":"SECRET5","retry_after":"SECRET5","error_class":"SECRET5"`)
	r, errs := ParseRecord([]byte(line), ParseOptions{Redact: func(s string) string { return strings.ReplaceAll(s, "SECRET5", "[masked]") }})
	if len(errs) > 0 || strings.Contains(fmt.Sprintf("%+v", r), "SECRET5") {
		t.Errorf("%v %+v", errs, r)
	}
	object := attempt(`"status":"error","message":{"config":{"headers":{"Authorization":"Bearer SECRET2"}}}`)
	r, _ = ParseRecord([]byte(object), ParseOptions{Redact: func(s string) string { return strings.ReplaceAll(s, "SECRET2", "[masked]") }})
	if got := r.Attempts[0].Message; got != `{"config":{"headers":{"Authorization":"Bearer [masked]"}}}` {
		t.Error(got)
	}
}

func TestNumbersWhereSystemsSendThem(t *testing.T) {
	a := parse(t, attempt(`"status":"error","retry_after":1.5,"error_code":21610,"remote_id":734512345678901235`)).Attempts[0]
	if a.RetryAfter != "1.5" || a.ErrorCode != "21610" || a.RemoteID != "734512345678901235" {
		t.Errorf("%+v", a)
	}
}

func TestAttemptIDStandsForTheSameReport(t *testing.T) {
	id := func(members string) string { return parse(t, attempt(members)).Attempts[0].AttemptID }
	one := id(`"status":"error","http_status":504,"started_at":"2026-11-28T09:15:00Z"`)
	for name, c := range map[string]struct {
		members string
		same    bool
	}{
		"the same report":           {`"status":"error","http_status":504,"started_at":"2026-11-28T09:15:00Z"`, true},
		"its start in another zone": {`"status":"error","http_status":504,"started_at":"2026-11-28T10:15:00+01:00"`, true},
		"with another message":      {`"status":"error","http_status":504,"started_at":"2026-11-28T09:15:00Z","message":"x"`, true},
		"another start":             {`"status":"error","http_status":504,"started_at":"2026-11-28T09:15:01Z"`, false},
		"another status":            {`"status":"ok","http_status":504,"started_at":"2026-11-28T09:15:00Z"`, false},
		"another code":              {`"status":"error","http_status":504,"error_code":"E","started_at":"2026-11-28T09:15:00Z"`, false},
		"another HTTP status":       {`"status":"error","http_status":503,"started_at":"2026-11-28T09:15:00Z"`, false},
	} {
		if got := id(c.members) == one; got != c.same {
			t.Errorf("%s: same is %v, want %v", name, got, c.same)
		}
	}
	// A missing start is not the moment of receipt here, so the same line read
	// tomorrow is the same report.
	line := []byte(attempt(`"status":"error"`))
	a, _ := ParseRecord(line, ParseOptions{Now: received})
	b, _ := ParseRecord(line, ParseOptions{Now: received.Add(24 * time.Hour)})
	if a.Attempts[0].AttemptID != b.Attempts[0].AttemptID {
		t.Error("the id depends on the moment of receipt")
	}
	two := parse(t, with(`"attempts":[{"status":"error"},{"status":"error"},{"status":"ok"}]`)).Attempts
	if two[0].AttemptID == two[1].AttemptID || two[1].AttemptID == two[2].AttemptID {
		t.Errorf("%q %q %q", two[0].AttemptID, two[1].AttemptID, two[2].AttemptID)
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, s := range []string{sample, with(""), attempt(`"status":"ok"`), "{", `{"a":"\ud83d\u0000"}`, "\xef\xbb\xbf{}", `{"attempts":[[],{},"x",null]}`, "{\"a\":\"\x01\"}",
		`{"export":1,"action_key":"k","workflow":"w","connector":"c","operation":"o","payload_base64":"eA==","ledger":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		was := string(line)
		for _, restore := range []bool{false, true} {
			r, errs := ParseRecord(line, ParseOptions{Now: received, Restore: restore})
			if string(line) != was {
				t.Fatal("the line was changed")
			}
			if len(errs) > 0 {
				continue
			}
			if badKey(r.ActionKey) != "" || r.ActionKey == "" || r.Operation == "" {
				t.Errorf("accepted %q %q", r.ActionKey, r.Operation)
			}
			for _, a := range r.Attempts {
				if a.AttemptID == "" || strings.ContainsRune(a.Message, 0) || !utf8.ValidString(a.Message+a.ErrorCode+a.RemoteID) {
					t.Errorf("%+v", a)
				}
			}
		}
	})
}

func BenchmarkParseRecord(b *testing.B) {
	line := []byte(strings.ReplaceAll(sample, "\n", ""))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := ParseRecord(line, ParseOptions{Now: received, Restore: true}); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
