package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/internal/httpapi"
	"github.com/recovery-ledger/reconcile/ledger"
)

// TestAnswersHaveTheFormAndTheOrderOfTheRequest goes through the forms of a body.
func TestAnswersHaveTheFormAndTheOrderOfTheRequest(t *testing.T) {
	const lines, none = "Content-Type: application/x-ndjson", "Content-Type:"
	bad := `{"action_key":"bad","workflow":"w","connector":"crm"}`
	onBoth(t, func(t *testing.T, w *world) {
		n := 0
		for name, c := range map[string]struct {
			body    string // K1, K2 stand for keys of their own
			header  string
			status  int
			want    []string // what recording said of each item
			oneLine bool     // the answer is no array
		}{
			"one object is answered by one":             {record("K1", "unknown", ""), "", 200, []string{"new"}, true},
			"over several lines, it is still one":       {"\r\n{\n\"action_key\":\"K1\",\"workflow\":\"w\",\n\"connector\":\"crm\",\"operation\":\"x\"}\n", "", 200, []string{"new"}, true},
			"an array, by its first byte":               {" [" + record("K1", "unknown", "") + " ,\n" + record("K2", "unknown", "") + "]", "", 200, []string{"new", "new"}, false},
			"an array of one is an array":               {"[" + record("K1", "unknown", "") + "]", "", 200, []string{"new"}, false},
			"an array of none":                          {"[]", "", 200, []string{}, false},
			"one object a line, by the type":            {record("K1", "unknown", "") + "\n\n" + record("K2", "unknown", "") + "\r\n", lines, 200, []string{"new", "new"}, true},
			"without a type, by what follows":           {record("K1", "unknown", "") + "\n" + record("K2", "unknown", ""), none, 200, []string{"new", "new"}, true},
			"the type has parameters":                   {record("K1", "unknown", ""), "Content-Type: application/json; charset=utf-8", 200, []string{"new"}, true},
			"some refused, in their places":             {"[" + record("K1", "unknown", "") + "," + bad + "," + record("K2", "unknown", "") + "]", "", 207, []string{"new", "refused", "new"}, false},
			"a broken item takes no other with it":      {"[" + record("K1", "unknown", "") + `,{"action_key":tru},7,` + record("K2", "unknown", "") + "]", "", 207, []string{"new", "refused", "refused", "new"}, false},
			"a broken line takes no other with it":      {`{"action_key":"K1"` + "\n" + record("K2", "unknown", "") + "\n", lines, 207, []string{"refused", "new"}, true},
			"all refused":                               {"[" + bad + "," + bad + "]", "", 422, []string{"refused", "refused"}, false},
			"one refused":                               {bad, "", 422, []string{"refused"}, true},
			"no object":                                 {`"hello"`, "", 422, []string{"refused"}, true},
			"brackets in texts are no brackets":         {"[" + record("K1", "unknown", `,"message":"]}, \"{["`) + "," + record("K2", "unknown", "") + "]", "", 200, []string{"new", "new"}, false},
			"one key twice: the second sees the first":  {"[" + record("K1", "unknown", "") + "," + record("K1", "unknown", "") + "]", "", 200, []string{"new", "unchanged"}, false},
			"an array that is not closed loses nothing": {"[" + record("K1", "unknown", "") + "," + record("K2", "unknown", ""), "", 207, []string{"new", "new", "refused"}, false},
			"an array that ends behind a comma":         {"[" + record("K1", "unknown", "") + " , ", "", 207, []string{"new", "refused"}, false},
			"an array that ends within an item":         {"[" + record("K1", "unknown", "") + `,{"action_key":"K2"`, "", 207, []string{"new", "refused", "refused"}, false},
			"an array that a brace closes":              {"[" + record("K1", "unknown", "") + "}", "", 422, []string{"refused", "refused"}, false},
			"an array that only begins":                 {" [ ", "", 422, []string{"refused"}, false},
			"a byte order mark":                         {"\ufeff" + record("K1", "unknown", ""), "", 200, []string{"new"}, true},
		} {
			n++
			body := strings.NewReplacer("K1", fmt.Sprintf("k%d:a", n), "K2", fmt.Sprintf("k%d:b", n)).Replace(c.body)
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			rec := w.do(w.request(http.MethodPost, "/v1/entries", body, w.token(ledger.ScopeIngest), headers...))
			if rec.Code != c.status {
				t.Errorf("%s: status %d, want %d: %s", name, rec.Code, c.status, rec.Body)
				continue
			}
			var got []answer
			if c.oneLine {
				dec := json.NewDecoder(rec.Body)
				for dec.More() {
					var x answer
					if err := dec.Decode(&x); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					got = append(got, x)
				}
			} else {
				got = decoded[[]answer](t, rec.Body.String())
			}
			verdicts := []string{}
			for _, x := range got {
				verdicts = append(verdicts, x.Recorded)
				if x.Send == "" || x.Why == "" || x.Errors == nil || x.Warnings == nil {
					t.Errorf("%s: half an answer: %+v", name, x)
				}
				if (x.Recorded == "refused") != (len(x.Errors) > 0) {
					t.Errorf("%s: %s with errors %v", name, x.Recorded, x.Errors)
				}
			}
			if d := cmp.Diff(c.want, verdicts); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	})
}

// TestAnArrayThatIsNotClosed is told with its position.
func TestAnArrayThatIsNotClosed(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	body := "[" + record("k", "unknown", "")
	got := decoded[[]answer](t, w.post("/v1/entries", body, 207))
	want := fmt.Sprintf("the array is not closed: the body ends at byte %d without its ]", len(body))
	if len(got) != 2 || len(got[1].Errors) != 1 || !strings.HasPrefix(got[1].Errors[0].Message, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// TestAnswersSteerNoTerminal: what came from outside goes back escaped.
func TestAnswersSteerNoTerminal(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	for name, kind := range map[string]string{"an array": "application/json", "lines": "application/x-ndjson"} {
		// U+009B begins a sequence of control, U+202E turns what follows around.
		item := `{"action_key":"` + name + `","workflow":"w","connector":"crm","operation":"x","a` + "\u009b\u202e" + `b":1}`
		if name == "an array" {
			item = "[" + item + "]"
		}
		got := w.post("/v1/entries", item, 200, "Content-Type: "+kind)
		if strings.ContainsAny(got, "\u009b\u202e") || !strings.Contains(got, `a\u009b\u202eb: not a member`) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAnAnswerHasEveryMember(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		got := decoded[map[string]any](t, w.post("/v1/entries", record("run:a", "ok", `,"remote_id":"C-1","surprise":1`), 200))
		want := map[string]any{"action_key": "run:a", "recorded": "new", "state": "settled", "outcome": "applied", "send": "no",
			"why": "settled: it was done, as C-1", "provider_key": "run:a", "idempotency_key": "run:a", "token": "", "send_by": nil,
			"errors": []any{}, "warnings": []any{"attempts.0.surprise: not a member of a record, ignored",
				`connector: "crm" is not in the config; kept, but nothing is looked up or sent for it`}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		// An intent is answered.
		yes := decoded[answer](t, w.post("/v1/entries", `{"action_key":"run:i","workflow":"w","connector":"crm","operation":"x","idempotency_key":"idem-1","outcome_key":"o"}`, 200))
		if yes.Send != "yes" || yes.State != "in_flight" || yes.IdempotencyKey != "idem-1" {
			t.Errorf("an intent that nothing stands in the way of: %+v", yes)
		}
		wait := decoded[answer](t, w.post("/v1/entries", `{"action_key":"run:j","workflow":"w","connector":"crm","operation":"x","outcome_key":"o"}`, 200))
		if wait.Send != "wait" || wait.Token != "" {
			t.Errorf("an intent whose outcome key is held: %+v", wait)
		}
		// A state is taken over by import alone.
		restored := decoded[answer](t, w.post("/v1/entries", `{"action_key":"run:r","workflow":"w","connector":"crm","operation":"x","export":1,"state":"settled","outcome":"applied","attempts":[{"status":"unknown"}]}`, 200))
		if restored.State != "ambiguous" || !slices.Contains(restored.Warnings, "state: not a member of a record, ignored") {
			t.Errorf("a record that carries a state: %+v", restored)
		}
		// What contradicts what is there is refused, and the answer says how it stands.
		other := decoded[answer](t, w.post("/v1/entries", `{"action_key":"run:a","workflow":"w","connector":"crm","operation":"contact.delete"}`, 422))
		if other.Recorded != "refused" || other.Send != "no" || len(other.Errors) != 1 || other.Errors[0].Field != "operation" {
			t.Errorf("another operation: %+v", other)
		}
	})
}

func TestRecordsOfManyBatchesKeepTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		var b strings.Builder
		const n = 2500
		for i := range n {
			b.WriteString(record(fmt.Sprintf("k:%04d", i), "unknown", "") + "\n")
		}
		dec := json.NewDecoder(strings.NewReader(w.post("/v1/entries", b.String(), 200, "Content-Type: application/x-ndjson")))
		for i := range n {
			var x answer
			if err := dec.Decode(&x); err != nil || x.ActionKey != fmt.Sprintf("k:%04d", i) || x.Recorded != "new" {
				t.Fatalf("answer %d: %v, %+v", i, err, x)
			}
		}
		if w.ledger.calls != 3 {
			t.Errorf("%d transactions", w.ledger.calls)
		}
		if got := w.entries(); got != n {
			t.Errorf("%d entries", got)
		}
	})
}

// TestPayloadsAreKeptByteForByte: what is cut out of an array is not written anew.
func TestPayloadsAreKeptByteForByte(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		payload := "{\"n\":12345678901234567890, \"price\":19.90,\t\"z\":1,\"a\":\"\\u00e9\"}"
		item := func(key string) string {
			return `{"action_key":"` + key + `","workflow":"w","connector":"crm","operation":"x","payload":` + payload + `}`
		}
		w.post("/v1/entries", "[ "+item("a")+" , "+item("b")+" ]", 200)
		for _, key := range []string{"a", "b"} {
			if got := string(w.stored(key).Entry.Payload); got != payload {
				t.Errorf("%s: %q", key, got)
			}
		}
	})
}

// TestNothingIsAnsweredBeforeItIsDurable: where the ledger does not confirm, the
// answer is an error, and the same request again does the rest.
func TestNothingIsAnsweredBeforeItIsDurable(t *testing.T) {
	for name, failure := range map[string]error{
		"the commit fails":                      errors.New("disk full: /secret/path"),
		"the standby does not confirm":          ledger.ErrNotDurable,
		"somebody else changed it all the time": ledger.ErrConcurrently,
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				w.ledger.when(func(int) error { return failure })
				got := w.post("/v1/entries", record("run:a", "unknown", ""), 503)
				if !strings.Contains(got, `"error": "not_recorded"`) || !strings.Contains(got, "send the same request again") || strings.Contains(got, "secret") {
					t.Errorf("answer %s", got)
				}
				if n := w.entries(); n != 0 {
					t.Errorf("%d entries were recorded", n)
				}
				if !strings.Contains(w.log.String(), failure.Error()) {
					t.Errorf("the log does not say why: %s", w.log)
				}

				// Of several batches the first stays.
				var b strings.Builder
				for i := range 1500 {
					b.WriteString(record(fmt.Sprintf("k:%04d", i), "unknown", "") + "\n")
				}
				w.ledger.when(func(n int) error {
					if n == 2 {
						return failure
					}
					return nil
				})
				w.post("/v1/entries", b.String(), 503, "Content-Type: application/x-ndjson")
				if n := w.entries(); n != 1000 {
					t.Errorf("%d entries after the first batch", n)
				}
				w.ledger.when(nil)
				again := w.post("/v1/entries", b.String(), 200, "Content-Type: application/x-ndjson")
				if unchanged, fresh := strings.Count(again, `"unchanged"`), strings.Count(again, `"new"`); unchanged != 1000 || fresh != 500 {
					t.Errorf("again: %d unchanged, %d new", unchanged, fresh)
				}
			})
		})
	}
}

// TestACommitThatFailsRecordsNothing fails it in the database itself.
func TestACommitThatFailsRecordsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		breakCommits(t, w)
		w.post("/v1/entries", record("run:a", "unknown", ""), 503)
		if n := w.entries(); n != 0 {
			t.Errorf("%d entries were recorded", n)
		}
	})
}

func TestAttempts(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", record("run/1:a", "unknown", ""), 200)
		path := "/v1/entries/run%2F1:a/attempts"
		one := decoded[answer](t, w.post(path, `{"attempt_id":"a2","status":"started","suprise":1}`, 200))
		if one.Recorded != "merged" || one.ActionKey != "run/1:a" || !slices.Contains(one.Warnings, "suprise: not a member of a record, ignored") {
			t.Errorf("one more: %+v", one)
		}
		// A key that arrives more than once is told so.
		if again := decoded[answer](t, w.post(path, `{"attempt_id":"a2","status":"started"}`, 200)); again.Recorded != "unchanged" {
			t.Errorf("the same again: %+v", again)
		}
		many := decoded[[]answer](t, w.post(path, `[{"attempt_id":"a3","status":"perhaps","effect":"x"},{"attempt_id":"a2","status":"ok","remote_id":"C-1"}]`, 207))
		fields := []string{}
		for _, e := range many[0].Errors {
			fields = append(fields, e.Field)
		}
		if d := cmp.Diff([]string{"effect", "status"}, slices.Sorted(slices.Values(fields))); d != "" {
			t.Errorf("mistakes are named as the attempt has them (-want +got):\n%s", d)
		}
		if many[1].State != "settled" || many[1].Outcome != "applied" {
			t.Errorf("its result: %+v", many[1])
		}
		// No item can become anything but an attempt.
		for _, item := range []string{`{"status":"ok"}],"risk":"high","x":[{}`, `7`, `[]`, `{"status":"ok"`, `null`, `{"status":"ok"},{"status":"ok"}`} {
			rec := w.do(w.request(http.MethodPost, path, item+"\n", w.token(ledger.ScopeIngest), "Content-Type: application/x-ndjson"))
			if rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: status %d: %s", item, rec.Code, rec.Body)
			}
		}
		if got := w.stored("run/1:a").Entry.Risk; got != ledger.RiskNone {
			t.Errorf("risk %q", got)
		}
		if got := w.post("/v1/entries/run:b/attempts", `{"status":"ok"}`, 404); !strings.Contains(got, "percent-encoded") {
			t.Errorf("no such entry: %s", got)
		}
	})
}

// TestKeysInPaths: whatever a key may hold can be named in a path.
func TestKeysInPaths(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for key, path := range map[string]string{
			"a/b//c":  "a%2Fb%2F%2Fc",
			"..":      "%2E%2E",
			"ä ö?#":   "%C3%A4%20%C3%B6%3F%23",
			"100%":    "100%25",
			"a+b:c.d": "a+b:c.d",
		} {
			w.post("/v1/entries", record(key, "unknown", ""), 200)
			if got := decoded[map[string]any](t, w.get("/v1/entries/"+path, 200)); got["action_key"] != key {
				t.Errorf("%q: %v", key, got["action_key"])
			}
		}
	})
}

func TestBodiesThatAreNotTaken(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	gzip := "Content-Encoding: gzip"
	large := strings.Repeat(" ", httpapi.BodyMax) + record("run:a", "unknown", "")
	many := "[" + strings.Repeat("{},", httpapi.ItemsMax) + "{}]"
	for name, c := range map[string]struct {
		body, header string
		status       int
		want         string
	}{
		"a form, as curl -d sends it": {record("k", "unknown", ""), "Content-Type: application/x-www-form-urlencoded", 415, "send application/json"},
		"text":                        {record("k", "unknown", ""), "Content-Type: text/plain", 415, "application/x-ndjson"},
		"a type that is none":         {record("k", "unknown", ""), "Content-Type: ;;", 415, "is not taken"},
		"packed":                      {record("k", "unknown", ""), gzip, 415, "as it is"},
		"nothing":                     {"", "", 400, "the body is empty"},
		"blanks":                      {" \n\t", "", 400, "the body is empty"},
		"too large":                   {large, "", 413, "larger than 16384 KiB"},
		"too many":                    {many, "", 413, "10001 records in one request; send at most 10000"},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		if got := w.post("/v1/entries", c.body, c.status, headers...); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", name, got, c.want)
		}
	}
	// A body whose length nobody tells is cut off at the same place.
	r := w.request(http.MethodPost, "/v1/entries", large, w.token(ledger.ScopeIngest))
	r.ContentLength = -1
	if rec := w.do(r); rec.Code != 413 {
		t.Errorf("too large, length unknown: %d: %s", rec.Code, rec.Body)
	}
	if got := w.post("/v1/entries?dry_run=true", record("k", "unknown", ""), 400); !strings.Contains(got, "takes no parameters") {
		t.Errorf("a parameter: %s", got)
	}
	if n := w.entries(); n != 0 {
		t.Errorf("%d entries were recorded", n)
	}
}

// dial opens a connection to a server of the interface.
func dial(t *testing.T, w *world) net.Conn {
	t.Helper()
	server := httptest.NewServer(w.api)
	t.Cleanup(server.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func head(w *world, length int) string {
	return fmt.Sprintf("POST /v1/entries HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		w.token(ledger.ScopeIngest), length)
}

// TestASlowClientIsCutOff: it is told, and nothing of what it sent is recorded.
func TestASlowClientIsCutOff(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	w.api.Patient(50 * time.Millisecond)
	conn := dial(t, w)
	body := record("run:a", "unknown", "")
	if _, err := fmt.Fprint(conn, head(w, len(body)+1)+body); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = got.ReadFrom(conn)
	if !strings.HasPrefix(got.String(), "HTTP/1.1 408 ") || !strings.Contains(got.String(), "nothing was done") {
		t.Errorf("answer %q", got.String())
	}
	if n := w.entries(); n != 0 {
		t.Errorf("%d entries were recorded", n)
	}
}

// begin sends the head of a report and the first bytes of its body, once the
// server has said that it reads it. length is what it says of its length, or -1
// where it sends chunks.
func begin(t *testing.T, w *world, conn net.Conn, length, bytes int) {
	t.Helper()
	how := fmt.Sprintf("Content-Length: %d", length)
	body := strings.Repeat(" ", bytes)
	if length < 0 {
		how, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s", bytes+1, body)
	}
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/entries HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n%s\r\n\r\n",
		w.token(ledger.ScopeIngest), how); err != nil {
		t.Fatal(err)
	}
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(goOn))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != goOn {
		t.Fatalf("the server does not read the body: %v, %q", err, got)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
}

// TestSlowClientsLockNobodyOut: whoever says that much will come, or does not say
// how much, holds no more than what has come.
func TestSlowClientsLockNobodyOut(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	server := httptest.NewServer(w.api)
	t.Cleanup(server.Close)
	connect := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range 10 {
		begin(t, w, connect(), -1, 100)
		begin(t, w, connect(), httpapi.BodyMax, 100)
	}
	w.post("/v1/entries", record("run:small", "unknown", ""), 200)
	w.post("/v1/entries", strings.Repeat(" ", httpapi.BodyMax/2)+record("run:large", "unknown", ""), 200)
	// Those that have sent a part of a large body and no more: the large ones are
	// waited for, a small one is taken.
	for range 10 {
		conn := connect()
		begin(t, w, conn, -1, httpapi.SmallBody+100)
	}
	w.post("/v1/entries", record("run:small-2", "unknown", ""), 200)
}

// TestALargeBodyThatStopsIsCutOff long before the time for all of it is over.
func TestALargeBodyThatStopsIsCutOff(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	w.api.TurnPatience(50 * time.Millisecond)
	for _, length := range []int{-1, httpapi.BodyMax} {
		conn := dial(t, w)
		begin(t, w, conn, length, httpapi.SmallBody) // all of it is written before its time begins
		var got bytes.Buffer
		_, _ = got.ReadFrom(conn)
		if !strings.HasPrefix(got.String(), "HTTP/1.1 408 ") || !strings.Contains(got.String(), "256 KiB in 50ms; nothing was done") {
			t.Errorf("answer %q", got.String())
		}
	}
	if n := w.entries(); n != 0 {
		t.Errorf("%d entries were recorded", n)
	}
}

// TestAClientThatGoesAway while its body is on the way has recorded nothing; one
// that goes while it is written has recorded all of the batch.
func TestAClientThatGoesAway(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		body := record("run:a", "unknown", "")
		early := dial(t, w)
		if _, err := fmt.Fprint(early, head(w, len(body)+1)+body); err != nil {
			t.Fatal(err)
		}
		if err := early.Close(); err != nil {
			t.Fatal(err)
		}

		reached, gone := make(chan struct{}), make(chan struct{})
		w.ledger.when(func(int) error {
			close(reached)
			<-gone
			return nil
		})
		late := dial(t, w)
		if _, err := fmt.Fprint(late, head(w, len(body))+body); err != nil {
			t.Fatal(err)
		}
		<-reached
		if n := w.entries(); n != 0 {
			t.Errorf("%d entries came of half a body", n)
		}
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
		close(gone)
		for deadline := time.Now().Add(20 * time.Second); w.entries() == 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the batch that had begun was dropped")
			}
		}
		w.ledger.when(nil)
		if again := decoded[answer](t, w.post("/v1/entries", body, 200)); again.Recorded != "unchanged" {
			t.Errorf("sent again: %+v", again)
		}
	})
}

// FuzzSplit compares the cutting with a reader of JSON, and reads every item.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"", " ", "{}", "[]", "[{}]", `[{"a":"]"},{"b":[1,{"c":"\\\""}]}]`, "{}\n{}", "{}{}", `[1,"a,b",null]`, "[", "]", "}", "[}", `["`, "[,]", "[{}]{}", "{\n}\n{", "\ufeff{}", `{"a":"\`,
		record("k", "ok", ""),
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		form, items := httpapi.Split(body, lines)
		rest := body
		for _, item := range items {
			// Nothing is made up, and nothing comes twice.
			at := bytes.Index(rest, item)
			if at < 0 {
				t.Fatalf("%q is no part of what is left of %q", item, body)
			}
			rest = rest[at+len(item):]
			ledger.ParseRecord(item, ledger.ParseOptions{})
		}
		if lines {
			return
		}
		var want []json.RawMessage
		trimmed := bytes.Trim(body, " \t\r\n") // what JSON has for blanks
		switch {
		case len(trimmed) == 0 || !json.Valid(trimmed):
			return
		case trimmed[0] == '[':
			if err := json.Unmarshal(trimmed, &want); err != nil {
				t.Fatal(err)
			}
		default:
			want = []json.RawMessage{trimmed}
		}
		if len(want) != len(items) {
			t.Fatalf("%q: form %d, %d items, want %d", body, form, len(items), len(want))
		}
		for i := range want {
			if !bytes.Equal(bytes.Trim(want[i], " \t\r\n"), items[i]) {
				t.Fatalf("%q: item %d is %q, want %q", body, i, items[i], want[i])
			}
		}
	})
}
