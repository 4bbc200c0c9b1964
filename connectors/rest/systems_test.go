package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

// The definitions of real systems in testdata/systems are opened whole, and
// asked against a server that answers as each system does, as far as that is
// known. The rows stand in systems_rows_test.go.

// systemNames lists the definitions in testdata/systems.
var systemNames = []string{"google", "hubspot", "jira", "paypal", "pocketbase", "quickbooks", "salesforce", "shopify", "stripe", "xero", "zendesk"}

// unsupportedIn lists the keys of each definition that are refused until the
// engine or the ledger can do them. Nothing else may be refused.
var unsupportedIn = map[string][]string{
	"hubspot":    {"operation.0.check.0.batch", "operation.1.send.batch"},
	"quickbooks": {"auth.oauth2.rotates"},
	"xero":       {"auth.oauth2.rotates"},
}

// systemTable reads a definition as it would stand in a config.
func systemTable(t *testing.T, name string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "systems", name+".toml"))
	if err != nil {
		t.Fatal(err)
	}
	return fromTOML(t, string(b))
}

// without takes a key at a dotted path out of a table.
func without(v any, path string) {
	step, rest, more := strings.Cut(path, ".")
	switch v := v.(type) {
	case map[string]any:
		if !more {
			delete(v, step)
			return
		}
		if _, isList := v[step].([]any); !isList {
			// One table may stand where a list of one is meant.
			rest = strings.TrimPrefix(rest, "0.")
		}
		without(v[step], rest)
	case []any:
		i, _ := strconv.Atoi(step)
		without(v[i], rest)
	}
}

func secretEnv(name string) (string, bool) { return "secret-of-" + strings.ToLower(name), true }

func openSystem(t *testing.T, name string) *Connector {
	t.Helper()
	m := systemTable(t, name)
	for _, path := range unsupportedIn[name] {
		without(m, path)
	}
	c, err := Open(connectors.Config{Name: name, Table: m, Env: secretEnv})
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDefinitionsOfRealSystemsLoad(t *testing.T) {
	files, err := filepath.Glob("testdata/systems/*.toml")
	if err != nil || len(files) != len(systemNames) {
		t.Fatalf("%d definitions, %d names, %v", len(files), len(systemNames), err)
	}
	for _, name := range systemNames {
		t.Run(name, func(t *testing.T) {
			_, err := Open(connectors.Config{Name: name, Table: systemTable(t, name), Env: secretEnv})
			var refused []string
			for err := range eachError(err) {
				var f *connectors.FieldError
				if !errors.As(err, &f) || !strings.Contains(f.Message, "not supported yet") {
					t.Errorf("%v", err)
					continue
				}
				refused = append(refused, f.Path)
			}
			slices.Sort(refused)
			if d := cmp.Diff(unsupportedIn[name], refused); d != "" {
				t.Errorf("refused (-want +got)\n%s", d)
			}
			openSystem(t, name)
		})
	}
}

// exchange is one answer of a system, to the request "METHOD /path". Several at
// one place are given in turn, the last one again and again.
type exchange struct {
	at     string
	status int
	body   string
	header []string
	made   bool // the system did what was asked
	lost   bool // the connection ends without an answer
}

func says(at string, status int, body string, header ...string) exchange {
	return exchange{at: at, status: status, body: body, header: header}
}

func makes(at string, status int, body string, header ...string) exchange {
	return exchange{at: at, status: status, body: body, header: header, made: true}
}

func loses(at string, made bool) exchange { return exchange{at: at, made: made, lost: true} }

// deed is what is asked of the connector.
type deed struct {
	do                       string // look, batch, send, check, probe
	op                       string
	keys                     []string // action keys; of a batch one entry each
	payload, record, subject string
	id                       string
	want                     []connectors.CheckName
}

// row is one behaviour of a system. In all texts <1> stands for the key that
// the action "run:1" travels under, and <1%> for the same in an address.
type row struct {
	deed
	answers []exchange
	says    string   // what the connector makes of it
	asked   []string // the requests, where they matter; token requests are left out
}

func look(op string, more ...func(*deed)) deed { return newDeed("look", op, []string{"run:1"}, more) }
func batch2(op string, more ...func(*deed)) deed {
	return newDeed("batch", op, []string{"run:1", "run:2"}, more)
}
func batch3(op string) deed { return newDeed("batch", op, []string{"run:1", "run:2", "run:3"}, nil) }
func sending(op, payload string, more ...func(*deed)) deed {
	d := newDeed("send", op, []string{"run:1"}, more)
	d.payload = payload
	return d
}
func checking(op string, want []connectors.CheckName, more ...func(*deed)) deed {
	d := newDeed("check", op, []string{"run:1"}, more)
	d.want = want
	return d
}

func newDeed(do, op string, keys []string, more []func(*deed)) deed {
	d := deed{do: do, op: op, keys: keys}
	for _, f := range more {
		f(&d)
	}
	return d
}

func byID(id string) func(*deed)                                 { return func(d *deed) { d.id = id } }
func ofRecord(id string) func(*deed)                             { return func(d *deed) { d.record = id } }
func toSubject(s string) func(*deed)                             { return func(d *deed) { d.subject = s } }
func withPayload(s string) func(*deed)                           { return func(d *deed) { d.payload = s } }
func wants(names ...connectors.CheckName) []connectors.CheckName { return names }

var (
	lookFrom  = time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)
	lookUntil = time.Date(2026, 10, 1, 10, 20, 0, 0, time.UTC)
)

// realSystem plays one system for one row.
type realSystem struct {
	*httptest.Server
	t         *testing.T
	mu        sync.Mutex
	answers   map[string][]exchange
	tokenPath string
	effects   int
	lines     []string
	requests  []heard
}

// heard is one request as it came.
type heard struct {
	method, path, query string
	header              http.Header
	body                []byte
}

func (s *realSystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == s.tokenPath {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"granted-token-1","token":"granted-token-1","expires_in":3600}`)
		return
	}
	s.mu.Lock()
	line := r.Method + " " + r.URL.RequestURI()
	if len(body) > 0 {
		line += " " + string(body)
	}
	s.lines = append(s.lines, line)
	s.requests = append(s.requests, heard{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), body})
	at := r.Method + " " + r.URL.EscapedPath()
	queue := s.answers[at]
	if len(queue) > 1 {
		s.answers[at] = queue[1:]
	}
	if len(queue) > 0 && queue[0].made {
		s.effects++
	}
	s.mu.Unlock()
	switch {
	case len(queue) == 0:
		s.t.Errorf("unexpected request: %s", line)
		w.WriteHeader(http.StatusTeapot)
		return
	case queue[0].lost:
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", "Thu, 01 Oct 2026 23:00:00 GMT")
	for i := 0; i < len(queue[0].header); i += 2 {
		w.Header().Set(queue[0].header[i], queue[0].header[i+1])
	}
	w.WriteHeader(queue[0].status)
	_, _ = io.WriteString(w, queue[0].body)
}

// runRow plays one row and returns what was heard.
func runRow(t *testing.T, system string, r row) []heard {
	c := openSystem(t, system)
	keys := map[string]string{}
	var marks []string
	for i, action := range []string{"run:1", "run:2", "run:3"} {
		key := action
		if r.op != "" {
			var err error
			if key, _, err = c.DeriveKey(r.op, action, 0); err != nil {
				t.Fatal(err)
			}
		}
		keys[action] = key
		marks = append(marks, fmt.Sprintf("<%d>", i+1), key, fmt.Sprintf("<%d%%>", i+1), percent(key))
	}
	fill := strings.NewReplacer(marks...).Replace

	s := &realSystem{t: t, answers: map[string][]exchange{}}
	for _, x := range r.answers {
		x.at, x.body = fill(x.at), fill(x.body)
		s.answers[x.at] = append(s.answers[x.at], x)
	}
	s.Server = httptest.NewServer(s)
	defer s.Close()
	here, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	redirect := func(u *url.URL) *url.URL {
		out := *u
		out.Scheme, out.Host = here.Scheme, here.Host
		return &out
	}
	c.def.base = redirect(c.def.base)
	switch a := &c.def.auth; {
	case a.oauth2 != nil:
		a.oauth2.url = redirect(a.oauth2.url)
		s.tokenPath = a.oauth2.url.Path
	case a.login != nil:
		req, err := a.login.build(c.def.base, &scope{})
		if err != nil {
			t.Fatal(err)
		}
		s.tokenPath = req.URL.Path
	}

	got := play(t, c, r.deed, keys, fill)
	s.Close() // waits for what is under way
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := fill(r.says); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r.asked != nil {
		var want []string
		for _, line := range r.asked {
			want = append(want, fill(line))
		}
		if d := cmp.Diff(want, s.lines); d != "" {
			t.Errorf("requests (-want +got)\n%s", d)
		}
	}
	if r.do == "send" {
		if len(s.lines) != 1 {
			t.Errorf("one send made %d requests: %q", len(s.lines), s.lines)
		}
		switch said, _, _ := strings.Cut(got, " "); {
		case said == string(connectors.EffectDone) && s.effects != 1:
			t.Errorf("said to be done, and %d effects at the system", s.effects)
		case said == string(connectors.EffectNotDone) && s.effects != 0:
			t.Errorf("said to be not done, and %d effects at the system", s.effects)
		}
	} else if s.effects != 0 {
		t.Errorf("%d effects of a question", s.effects)
	}
	return s.requests
}

// play does the deed and says in one line what came of it.
func play(t *testing.T, c *Connector, d deed, keys map[string]string, fill func(string) string) string {
	ctx := context.Background()
	query := func(action string) connectors.Query {
		return connectors.Query{Operation: d.op, Keys: []string{keys[action]}, RemoteID: d.id, ActionKey: action, RecordID: d.record,
			Subject: d.subject, Payload: []byte(fill(d.payload)), From: lookFrom, Until: lookUntil}
	}
	switch d.do {
	case "look":
		return answerLine(c.Lookup(ctx, query(d.keys[0])))
	case "batch":
		var qs []connectors.Query
		for _, action := range d.keys {
			qs = append(qs, query(action))
		}
		var out []string
		for i, r := range c.LookupBatch(ctx, qs) {
			out = append(out, fmt.Sprintf("%d: %s", i+1, answerLine(r.Answer, r.Err)))
		}
		return strings.Join(out, "; ")
	case "send":
		return sendLine(c.Send(ctx, connectors.Send{Operation: d.op, Key: keys[d.keys[0]], IdempotencyKey: keys[d.keys[0]], ActionKey: d.keys[0],
			RecordID: d.record, Subject: d.subject, Payload: []byte(fill(d.payload)), SendBy: time.Now().Add(time.Minute)}))
	case "check":
		var out []string
		for _, v := range c.Check(ctx, connectors.CheckQuery{Query: query(d.keys[0]), Channel: "email", Want: d.want}) {
			line := fmt.Sprintf("%s %s", v.Check, v.Kind)
			if v.Value != "" {
				line += " " + v.Value
			}
			out = append(out, line)
		}
		return strings.Join(out, ", ")
	case "probe":
		id, err := c.Probe(ctx)
		if err != nil {
			return answerLine(connectors.Answer{}, err)
		}
		return strings.TrimSpace(id.Account + " " + id.Mode)
	}
	t.Fatalf("no deed %q", d.do)
	return ""
}

func answerLine(a connectors.Answer, err error) string {
	var e *connectors.Error
	if errors.As(err, &e) {
		return "could not ask: " + string(e.Kind) + waitText(e.RetryAfter) + pausesText(e.Pauses)
	}
	var out []string
	for _, r := range a.Records {
		line := fmt.Sprintf("%s %s", r.Standing, r.ID)
		if r.MergedInto != "" {
			line += " in " + r.MergedInto
		}
		if r.Origin {
			line += " of another origin"
		}
		if slices.ContainsFunc(r.Compared, func(c connectors.Compared) bool { return !c.Equal }) {
			line += " differs"
		}
		if slices.ContainsFunc(r.Proof, func(c connectors.Compared) bool { return !c.Equal }) {
			line += " unproven"
		}
		out = append(out, line)
	}
	if a.Foreign > 0 && !a.Declared {
		out = append(out, fmt.Sprintf("%d strangers", a.Foreign))
	}
	switch {
	case len(out) == 0 && a.Complete:
		return "none"
	case len(out) == 0:
		return "nothing, and not all was read"
	case !a.Complete:
		return strings.Join(out, ", ") + ", not all was read"
	}
	return strings.Join(out, ", ")
}

func waitText(r connectors.RetryAfter) string {
	switch {
	case r.Beyond:
		return " beyond"
	case r.Wait > 0:
		return " wait " + r.Wait.String()
	}
	return ""
}

func pausesText(p string) string {
	if p == "" {
		return ""
	}
	return " pauses " + p
}

func sendLine(r connectors.SendResult) string {
	out := string(r.Effect)
	if r.Kind != "" {
		out += " " + string(r.Kind)
	}
	if r.RemoteID != "" {
		out += " id " + r.RemoteID
	}
	out += waitText(r.RetryAfter)
	if r.KeySpent {
		out += " spent"
	}
	if r.Replayed {
		out += " replayed"
	}
	if r.Refuses != "" {
		out += " refuses " + string(r.Refuses)
	}
	return out + pausesText(r.Pauses)
}

func TestRealSystems(t *testing.T) {
	for _, system := range systemNames {
		rows := systemRows[system]
		if len(rows) == 0 {
			t.Errorf("%s: no rows", system)
		}
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			t.Run(system+"/"+name, func(t *testing.T) {
				requests := runRow(t, system, rows[name])
				for _, h := range requests {
					if bytes.Contains(h.body, []byte("secret-of-")) {
						t.Errorf("a credential stands in a body: %s", h.body)
					}
				}
				checkAgainstSpecs(t, system, requests)
			})
		}
	}
}

func TestHowLateRealSystemsShowARecord(t *testing.T) {
	const none = connectors.LookupNone
	for name, want := range map[string]struct {
		lookup         connectors.LookupKind
		batch          int
		visible, keeps time.Duration // until a record is shown, and a key remembered
		back           time.Duration
	}{
		"hubspot contact.create":       {connectors.LookupBatch, 100, 2 * time.Minute, 0, 0},
		"salesforce lead.create":       {connectors.LookupBatch, 200, 2 * time.Minute, 0, 14 * 24 * time.Hour},
		"stripe payment_intent.create": {connectors.LookupBatch, 10, 0, 24 * time.Hour, 0}, // the list has the last word, and does not lag
		"zendesk ticket.create":        {connectors.LookupBatch, 50, 12 * time.Minute, 2 * time.Hour, 30 * 24 * time.Hour},
		"xero invoice.create":          {connectors.LookupBatch, 100, 2 * time.Minute, 6 * time.Minute, 0},
		"quickbooks invoice.create":    {connectors.LookupBatch, 30, 2 * time.Minute, 0, 0},
		"shopify order.create":         {connectors.LookupSingle, 1, 2 * time.Minute, 0, 0},
		"jira issue.create":            {connectors.LookupBatch, 50, 10 * time.Minute, 0, 0},
		"google event.create":          {connectors.LookupBatch, 1000, 2 * time.Minute, 0, 0},
		"paypal order.create":          {none, 1, 2 * time.Minute, 6 * time.Hour, 0},
		"paypal order.capture":         {connectors.LookupBatch, 1000, 3 * time.Hour, 6 * time.Hour, 1090 * 24 * time.Hour},
		"paypal payout.create":         {none, 1, 2 * time.Minute, 30 * 24 * time.Hour, 0},
		"pocketbase record.create":     {connectors.LookupBatch, 50, 0, 0, 0},
	} {
		system, operation, _ := strings.Cut(name, " ")
		o, ok := openSystem(t, system).Info().Operation(operation)
		if !ok || o.Lookup != want.lookup || o.BatchMax != want.batch || o.VisibleWithin != want.visible || o.KeepsKey != want.keeps || o.LooksBack != want.back {
			t.Errorf("%s: %s of %d, visible within %s, keeps a key %s, looks back %s", name, o.Lookup, o.BatchMax, o.VisibleWithin, o.KeepsKey, o.LooksBack)
		}
	}
}

func TestKeysOfRealSystems(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, tc := range map[string]struct {
		action, like string // of the key; "" for the action key itself
	}{
		"hubspot contact.create":         {"run:8f2/create contact é", ""},
		"hubspot deal.create":            {long, `^[0-9a-v]{26}$`},
		"salesforce lead.create":         {"run:1", `^[0-9a-v]{26}$`},
		"stripe payment_intent.create":   {"run:1", ""},
		"stripe payment.charge":          {"it's", `^[0-9a-v]{26}$`}, // a quote ends the search's text
		"stripe invoice.create":          {long, `^[0-9a-v]{26}$`},   // 500 in metadata, 255 as a key
		"zendesk ticket.create":          {"run:1", ""},
		"zendesk ticket.update":          {"run,1", ""},
		"xero invoice.create":            {"run,1", `^[0-9a-v]{26}$`}, // a comma parts the list
		"quickbooks invoice.create":      {"run:1", `^[0-9a-v]{21}$`},
		"shopify customer.set":           {"run:1", `^[0-9a-v]{26}$`},
		"jira issue.create":              {"run 1", `^[0-9a-v]{26}$`}, // a label has no blanks
		"google event.create":            {"run:1", `^[0-9a-v]{26}$`},
		"paypal order.create":            {strings.Repeat("x", 109), `^[0-9a-v]{26}$`},
		"paypal invoice.create":          {strings.Repeat("x", 120), ""},
		"paypal payout.create":           {strings.Repeat("x", 128), `^[0-9a-v]{26}$`},
		"pocketbase record.create":       {`run\1`, `^[0-9a-v]{26}$`},
		"pocketbase record.create again": {`it's "run" 1`, ""},
	} {
		system, operation, _ := strings.Cut(strings.TrimSuffix(name, " again"), " ")
		c := openSystem(t, system)
		key, derived, err := c.DeriveKey(operation, tc.action, 0)
		if tc.like == "" && (key != tc.action || derived) || tc.like != "" && (!derived || !regexp.MustCompile(tc.like).MatchString(key)) || err != nil {
			t.Errorf("%s: %q travels as %q (%v, %v)", name, tc.action, key, derived, err)
		}
		if err := c.CheckKey(operation, key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		next, derived, err := c.DeriveKey(operation, tc.action, 1)
		if err != nil || !derived || next == key || c.CheckKey(operation, next) != nil {
			t.Errorf("%s: the key after it is %q (%v)", name, next, err)
		}
	}
}

func TestPayloadsThatCouldNeverBeFoundAgain(t *testing.T) {
	for name, payloads := range map[string][2]string{ // as it should be, and without our key
		"hubspot contact.create":       {`{"properties":{"action_key":"<1>"}}`, `{"properties":{"email":"a@example.org"}}`},
		"stripe payment_intent.create": {`{"amount":1,"metadata":{"action_key":"<1>"}}`, `{"amount":1,"metadata":{"order":"<1>"}}`},
		"zendesk ticket.create":        {`{"ticket":{"external_id":"<1>"}}`, `{"ticket":{"subject":"<1>"}}`},
		"xero invoice.create":          {`{"Invoices":[{"InvoiceNumber":"<1>"}]}`, `{"Invoices":[{"Reference":"<1>"}]}`},
		"quickbooks invoice.create":    {`{"DocNumber":"<1>"}`, `{"PrivateNote":"<1>"}`},
		"shopify order.create":         {`{"metafields":[{"key":"other","value":"x"},{"key":"action_key","value":"<1>"}]}`, `{"metafields":[{"key":"other","value":"<1>"}]}`},
		"jira issue.create":            {`{"fields":{"labels":["a","<1>"]}}`, `{"fields":{"summary":"<1>","labels":["a"]}}`},
		"google event.create":          {`{"id":"<1>"}`, `{"summary":"<1>"}`},
		"paypal invoice.create":        {`{"detail":{"reference":"<1>"}}`, `{"detail":{"note":"<1>"}}`},
		"pocketbase record.create":     {`{"action_key":"<1>"}`, `{"title":"<1>"}`},
	} {
		system, operation, _ := strings.Cut(name, " ")
		c := openSystem(t, system)
		key, _, err := c.DeriveKey(operation, "run:1", 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, payload := range payloads {
			payload = strings.ReplaceAll(payload, "<1>", key)
			findable, sendable, why := c.CheckPayload(operation, []string{key}, []byte(payload))
			if want := i == 0; findable != want || sendable != want || (why == "") != want {
				t.Errorf("%s: %s: findable %v, sendable %v, %q", name, payload, findable, sendable, why)
			}
		}
	}
	// An upsert by our key needs it nowhere in the payload, but takes only what
	// the request carries.
	c := openSystem(t, "hubspot")
	payload := []byte(`{"properties":{"action_key":"run:1"},"associations":[]}`)
	if findable, sendable, why := c.CheckPayload("contact.upsert", []string{"run:1"}, payload); !findable || sendable || !strings.Contains(why, `"associations"`) {
		t.Errorf("findable %v, sendable %v, %q", findable, sendable, why)
	}
}

// TestFailuresThatWorkflowsReport has the definitions read what a workflow
// tells of its own calls: a status, perhaps a code, and a message that quotes
// the answer more or less.
func TestFailuresThatWorkflowsReport(t *testing.T) {
	for name, tc := range map[string]struct {
		f    connectors.Failure
		want string // "" where no rule of the definition speaks of it
	}{
		"hubspot contact.create: made before": {connectors.Failure{HTTPStatus: 409,
			Message: `409 - {"status":"error","message":"Contact already exists. Existing ID: 51","category":"CONFLICT"}`}, "not_done already_exists id 51"},
		"hubspot contact.create: a code alone":               {connectors.Failure{HTTPStatus: 409, Code: "CONFLICT"}, "not_done already_exists"},
		"hubspot contact.create: locked":                     {connectors.Failure{HTTPStatus: 423}, "not_done lock_conflict"},
		"hubspot contact.create: an error of theirs":         {connectors.Failure{HTTPStatus: 502, Message: "Bad Gateway"}, ""},
		"salesforce lead.create: several, none written":      {connectors.Failure{HTTPStatus: 300, Message: `["/services/data/v62.0/sobjects/Lead/00Q1"]`}, "not_done conflict"},
		"salesforce lead.create: a duplicate, quoted":        {connectors.Failure{HTTPStatus: 400, Message: `Bad request: [{"message":"duplicate value found: X duplicates value on record with id: 00Q000000012345","errorCode":"DUPLICATE_VALUE"}]`}, "not_done already_exists id 00Q000000012345"},
		"salesforce lead.create: a locked row":               {connectors.Failure{HTTPStatus: 400, Code: "UNABLE_TO_LOCK_ROW"}, "not_done lock_conflict"},
		"stripe payment_intent.create: declined":             {connectors.Failure{HTTPStatus: 402, Code: "card_error"}, "not_done validation spent"},
		"stripe payment_intent.create: the first still runs": {connectors.Failure{HTTPStatus: 409, Code: "idempotency_key_in_use"}, "unknown lock_conflict"},
		"stripe payment_intent.create: no code, no JSON":     {connectors.Failure{HTTPStatus: 402, Message: "Your card was declined."}, ""},
		"zendesk ticket.create: the same key":                {connectors.Failure{HTTPStatus: 400, Code: "IdempotentRequestError"}, "unknown duplicate_request"},
		"zendesk ticket.create: another is at it":            {connectors.Failure{HTTPStatus: 409}, "unknown conflict"},
		"xero invoice.create: the number is taken": {connectors.Failure{HTTPStatus: 400,
			Message: `{"ErrorNumber":10,"Type":"ValidationException","Elements":[{"ValidationErrors":[{"Message":"Invoice # must be unique."}]}]}`}, "not_done already_exists"},
		"quickbooks invoice.create: the number is taken":   {connectors.Failure{HTTPStatus: 400, Code: "6140"}, "not_done already_exists"},
		"quickbooks invoice.create: a fault in a 200":      {connectors.Failure{HTTPStatus: 200, Message: `{"Fault":{"Error":[{"code":"10000"}],"type":"SystemFault"}}`}, "unknown server_error"},
		"shopify customer.set: throttled in a 200":         {connectors.Failure{HTTPStatus: 200, Code: "THROTTLED"}, "not_done rate_limit"},
		"shopify customer.set: user errors":                {connectors.Failure{HTTPStatus: 200, Message: `{"data":{"customerSet":{"customer":null,"userErrors":[{"message":"Email is invalid"}]}}}`}, "not_done validation"},
		"jira issue.create: a limit":                       {connectors.Failure{HTTPStatus: 429}, "not_done rate_limit"},
		"google event.create: made before":                 {connectors.Failure{HTTPStatus: 409, Message: "The requested identifier already exists."}, "not_done already_exists"},
		"google event.create: a limit as a 403":            {connectors.Failure{HTTPStatus: 403, Code: "rateLimitExceeded"}, "not_done rate_limit"},
		"paypal order.capture: under an invoice before":    {connectors.Failure{HTTPStatus: 422, Code: "DUPLICATE_INVOICE_ID"}, "not_done already_exists"},
		"paypal order.create: the first still runs":        {connectors.Failure{HTTPStatus: 422, Code: "PREVIOUS_REQUEST_IN_PROGRESS"}, "unknown lock_conflict"},
		"pocketbase record.create: made before":            {connectors.Failure{HTTPStatus: 400, Message: `{"data":{"action_key":{"code":"validation_not_unique","message":"Value must be unique."}},"status":400}`}, "not_done already_exists"},
		"pocketbase record.create: a 404 is for questions": {connectors.Failure{HTTPStatus: 404}, ""},
	} {
		system, rest, _ := strings.Cut(name, " ")
		operation, _, _ := strings.Cut(rest, ":")
		got, ok := openSystem(t, system).Classify(operation, tc.f)
		line := ""
		if ok {
			line = sendLine(connectors.SendResult{Classified: got, RemoteID: got.Names})
		}
		if line != tc.want {
			t.Errorf("%s: got %q, want %q", name, line, tc.want)
		}
	}
}
