package rest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

const sends = `
keeps_key = "24h"
rate = { calls = 1000, per = "1s" }
rate_headers = [{ remaining = "extensions.cost.available", refill = "extensions.cost.rate", need = "extensions.cost.requested" },
  { remaining = "header:X-RateLimit-Remaining", reset = "header:X-RateLimit-Reset" },
  { remaining = "header:X-Minute-Left", per = "1m" }, { remaining = "header:X-Day-Left", per = "24h" },
  { limit = "header:X-Limit", used = "header:X-Used", reset = "header:X-Until" },
  { header = "limits", like = "remaining=(?P<remaining>[0-9]+); resets=(?P<reset>[0-9]+)" }]
errors = [
  { code = "error.type", is = "idempotency_error", class = "duplicate_request", effect = "unknown" },
  { code = "error.code", is = "idempotency_key_in_use", class = "lock_conflict", effect = "unknown", wait = "30s" },
  { code = "error.type", is = "card_error", class = "validation", effect = "not_done", spent = true },
  { code = "errors.*.extensions.code", is = "THROTTLED", class = "rate_limit", effect = "not_done" },
  { on = "send", code = "data.*.userErrors.*.message", class = "validation", effect = "not_done" },
  { code = "errors.*.message", class = "server_error", effect = "unknown" },
  { code = "*.errorCode", is = "REQUEST_LIMIT_EXCEEDED", class = "quota", effect = "not_done", wait = "1h" },
  { code = "*.errorCode", is = "UNABLE_TO_LOCK_ROW", class = "lock_conflict", effect = "not_done" },
  { code = "*.errorCode", is = ["DUPLICATES_DETECTED"], class = "already_exists", effect = "not_done", id = { path = "*.message", like = "id: ([0-9A-Za-z]+)" } },
  { status = 429, code = "policyName", is = "DAILY", class = "quota", wait = "midnight", zone = "Europe/Berlin" },
  { status = 429, code = "policyName", is = "TEN_SECONDLY_ROLLING", class = "rate_limit", wait = "10s" },
  { status = 403, code = "message", like = "secondary rate limit", class = "rate_limit", wait = "60s" },
  { status = 422, code = "errors", is = "Too many requests", class = "rate_limit" },
  { code = "error", is = "invalid_auth", class = "auth", effect = "not_done" },
  { code = "error", is = "ratelimited", class = "rate_limit", effect = "not_done" },
  { code = "ok", is = "false", class = "validation", effect = "not_done" },
  { code = "Fault", class = "server_error", effect = "unknown" },
  { status = 409, code = "error.code", is = "closed", class = "conflict", effect = "not_done", refuses = "lifecycle", pauses = "entry" },
  { status = 304, effect = "done" },
]
[[operation]]
name = "make"
send = { method = "POST", path = "/make", id = "id", empty = [204], headers = { Idempotency-Key = "{idempotency_key}" } }
[[operation]]
name = "items"
send = { method = "POST", path = "/items", id = "results.0.id", fault = { items = "errors" } }
errors = [{ code = "category", is = "VALIDATION_ERROR", class = "validation", effect = "not_done" }]
[[operation]]
name = "hook"
send = { method = "POST", path = "/hook", text = "{payload}", content_type = "text/plain" }
[[operation]]
name = "mail"
send = { method = "POST", path = "/mail", id = "header:X-Message-Id" }
`

func send(c *Connector, op string) connectors.SendResult {
	return c.Send(context.Background(), connectors.Send{Operation: op, Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{"a":1}`),
		SendBy: time.Now().Add(time.Minute)})
}

func TestWhatAnAnswerToASendMeans(t *testing.T) {
	type want struct {
		kind   connectors.Kind
		effect connectors.Effect
		id     string
	}
	const done, notDone, unknown = connectors.EffectDone, connectors.EffectNotDone, connectors.EffectUnknown
	html := []string{"Content-Type", "text/html"}
	cases := map[string]struct {
		op     string
		status int
		body   string
		header []string
		want   want
		wait   time.Duration
	}{
		"201 with an id":                         {"make", 201, `{"id":7}`, nil, want{"", done, "7"}, 0},
		"E14 200 without body, id needed":        {"make", 200, ``, nil, want{"unknown", unknown, ""}, 0},
		"200 without the id":                     {"make", 200, `{"x":1}`, nil, want{"silent_noop", unknown, ""}, 0},
		"an empty id is none":                    {"make", 200, `{"id":""}`, nil, want{"silent_noop", unknown, ""}, 0},
		"a status that needs no body":            {"make", 204, ``, nil, want{"", done, ""}, 0},
		"unreadable 200":                         {"make", 200, `{"id":`, nil, want{"unknown", unknown, ""}, 0},
		"E14 id in a header":                     {"mail", 202, ``, []string{"X-Message-Id", "m-1"}, want{"", done, "m-1"}, 0},
		"E03 plain ok":                           {"hook", 200, `ok`, []string{"Content-Type", "text/plain"}, want{"", done, ""}, 0},
		"E03 another form of success":            {"hook", 200, `{"success":true}`, nil, want{"", done, ""}, 0},
		"E03 204":                                {"hook", 204, ``, nil, want{"", done, ""}, 0},
		"E13 challenge page in a 200":            {"hook", 200, `<!DOCTYPE html><title>Just a moment...</title>`, html, want{"blocked_by_edge", unknown, ""}, 0},
		"E13 challenge page in a 403":            {"make", 403, `<html>Just a moment...</html>`, html, want{"blocked_by_edge", notDone, ""}, 0},
		"E11 520 page":                           {"make", 520, `<html><title>api.example.org | 520: unknown error</title>`, html, want{"server_error", unknown, ""}, 0},
		"E12 504 page":                           {"make", 504, `<html><head><title>504 Gateway Time-out</title></head></html>`, html, want{"timeout", unknown, ""}, 0},
		"499 of a proxy":                         {"make", 499, ``, nil, want{"timeout", unknown, ""}, 0},
		"E15 bodiless 500":                       {"make", 500, ``, nil, want{"server_error", unknown, ""}, 0},
		"E15 bodiless 404":                       {"make", 404, ``, nil, want{"not_found", notDone, ""}, 0},
		"E18 502 without rule":                   {"make", 502, ``, nil, want{"unavailable", unknown, ""}, 0},
		"503":                                    {"make", 503, ``, nil, want{"unavailable", unknown, ""}, 0},
		"408":                                    {"make", 408, ``, nil, want{"timeout", unknown, ""}, 0},
		"409":                                    {"make", 409, `{}`, nil, want{"conflict", unknown, ""}, 0},
		"423":                                    {"make", 423, `{}`, nil, want{"lock_conflict", notDone, ""}, 0},
		"401":                                    {"make", 401, `{}`, nil, want{"auth", notDone, ""}, 0},
		"403":                                    {"make", 403, `{"message":"Resource not accessible by integration"}`, nil, want{"permission", notDone, ""}, 0},
		"422":                                    {"make", 422, `{"errors":{"email":["is invalid"]}}`, nil, want{"validation", notDone, ""}, 0},
		"a redirect":                             {"make", 307, ``, []string{"Location", "https://elsewhere.example/"}, want{"unknown", unknown, ""}, 0},
		"a rule that says done":                  {"make", 304, ``, nil, want{"", done, ""}, 0},
		"429":                                    {"make", 429, `{}`, []string{"Retry-After", "2.0"}, want{"rate_limit", notDone, ""}, 2 * time.Second},
		"C01 other content":                      {"make", 400, `{"error":{"type":"idempotency_error","message":"Keys 'k-778'"}}`, nil, want{"duplicate_request", unknown, ""}, 0},
		"C03 in progress":                        {"make", 409, `{"error":{"code":"idempotency_key_in_use"}}`, nil, want{"lock_conflict", unknown, ""}, 30 * time.Second},
		"C05 the same in German":                 {"make", 409, `{"error":{"code":"idempotency_key_in_use","message":"Schlüssel in Benutzung"}}`, nil, want{"lock_conflict", unknown, ""}, 30 * time.Second},
		"D11 403 that is a limit":                {"make", 403, `{"message":"You have exceeded a secondary rate limit."}`, nil, want{"rate_limit", notDone, ""}, time.Minute},
		"D12 quota as 403":                       {"make", 403, `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"TotalRequests Limit exceeded."}]`, nil, want{"quota", notDone, ""}, time.Hour},
		"D13 ten-second limit":                   {"make", 429, `{"policyName":"TEN_SECONDLY_ROLLING"}`, nil, want{"rate_limit", notDone, ""}, 10 * time.Second},
		"the later of rule and header":           {"make", 429, `{"policyName":"TEN_SECONDLY_ROLLING"}`, []string{"Retry-After", "40"}, want{"rate_limit", notDone, ""}, 40 * time.Second},
		"D14 wait derived from cost":             {"make", 200, `{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requested":92,"available":42,"rate":50}}}`, nil, want{"rate_limit", notDone, ""}, time.Second},
		"D14 a rate of zero":                     {"make", 200, `{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requested":92,"available":42,"rate":0}}}`, nil, want{"rate_limit", notDone, ""}, 0},
		"D09 reset header as delta":              {"make", 429, `{}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90"}, want{"rate_limit", notDone, ""}, 90 * time.Second},
		"D08 reset already past":                 {"make", 429, `{}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1000000000"}, want{"rate_limit", notDone, ""}, 0},
		"all of a limit used":                    {"make", 429, `{}`, []string{"X-Limit", "9", "X-Used", "9", "X-Until", "44"}, want{"rate_limit", notDone, ""}, 44 * time.Second},
		"some of a limit left":                   {"make", 429, `{}`, []string{"X-Limit", "9", "X-Used", "8", "X-Until", "44"}, want{"rate_limit", notDone, ""}, 0},
		"limits in one header":                   {"make", 429, `{}`, []string{"limits", "total=9; remaining=0; resets=33"}, want{"rate_limit", notDone, ""}, 33 * time.Second},
		"D18 422 that is a limit":                {"make", 422, `{"errors":"Too many requests"}`, nil, want{"rate_limit", notDone, ""}, 0},
		"E01 text that only holds the word":      {"make", 200, `{"errors":[{"message":"title 'Throttled' is taken"}]}`, nil, want{"server_error", unknown, ""}, 0},
		"E01 user errors":                        {"make", 200, `{"data":{"orderCreate":{"order":null,"userErrors":[{"field":["email"],"message":"is invalid"}]}}}`, nil, want{"validation", notDone, ""}, 0},
		"E02 invalid_auth":                       {"make", 200, `{"ok":false,"error":"invalid_auth"}`, nil, want{"auth", notDone, ""}, 0},
		"E02 ratelimited":                        {"make", 200, `{"ok":false,"error":"ratelimited"}`, []string{"Retry-After", "30"}, want{"rate_limit", notDone, ""}, 30 * time.Second},
		"E02 channel_not_found":                  {"make", 200, `{"ok":false,"error":"channel_not_found"}`, nil, want{"validation", notDone, ""}, 0},
		"E05 a Fault in a 200":                   {"make", 200, `{"id":"1","Fault":{"Error":[{"code":"6140"}]}}`, nil, want{"server_error", unknown, ""}, 0},
		"E19 row lock":                           {"make", 400, `[{"errorCode":"UNABLE_TO_LOCK_ROW","message":"record 001A"}]`, nil, want{"lock_conflict", notDone, ""}, 0},
		"E19 duplicate, with the id":             {"make", 400, `[{"errorCode":"DUPLICATES_DETECTED","message":"duplicate value with id: 001A"}]`, nil, want{"already_exists", notDone, "001A"}, 0},
		"E19 missing field":                      {"make", 400, `[{"errorCode":"REQUIRED_FIELD_MISSING"}]`, nil, want{"validation", notDone, ""}, 0},
		"a replayed error spends the key":        {"make", 500, `{}`, []string{"Idempotent-Replayed", "true"}, want{"server_error", unknown, ""}, 0},
		"a replayed success":                     {"make", 201, `{"id":7}`, []string{"Idempotent-Replayed", "true"}, want{"", done, "7"}, 0},
		"an error that stays under the key":      {"make", 402, `{"error":{"type":"card_error"}}`, nil, want{"validation", notDone, ""}, 0},
		"an id that is false is none":            {"make", 200, `{"id":false}`, nil, want{"silent_noop", unknown, ""}, 0},
		"an id that is null is none":             {"make", 201, `{"id":null}`, nil, want{"silent_noop", unknown, ""}, 0},
		"an id that is 0 is none":                {"make", 200, `{"id":0}`, nil, want{"silent_noop", unknown, ""}, 0},
		"success 0 beside an id":                 {"make", 200, `{"id":7,"success":0}`, nil, want{"unknown", unknown, ""}, 0},
		"success False as text":                  {"make", 200, `{"id":7,"success":"False"}`, nil, want{"unknown", unknown, ""}, 0},
		"OK false, in capitals":                  {"make", 200, `{"id":7,"OK":false}`, nil, want{"unknown", unknown, ""}, 0},
		"success 1":                              {"hook", 200, `{"success":1}`, nil, want{"", done, ""}, 0},
		"success null says nothing":              {"hook", 200, `{"success":null}`, nil, want{"", done, ""}, 0},
		"success 0 where no id is due":           {"hook", 200, `{"success":0}`, nil, want{"unknown", unknown, ""}, 0},
		"JSend error":                            {"hook", 200, `{"status":"error","message":"no"}`, nil, want{"unknown", unknown, ""}, 0},
		"JSend fail":                             {"hook", 200, `{"status":"fail","data":{"to":"is missing"}}`, nil, want{"unknown", unknown, ""}, 0},
		"a number as error code":                 {"hook", 200, `{"errcode":40001,"errmsg":"invalid"}`, nil, want{"unknown", unknown, ""}, 0},
		"an error code of 0":                     {"hook", 200, `{"errcode":0,"errmsg":"ok"}`, nil, want{"", done, ""}, 0},
		"the status of an error in the body":     {"hook", 200, `{"statusCode":500,"message":"no"}`, nil, want{"unknown", unknown, ""}, 0},
		"JSend success":                          {"hook", 200, `{"status":"success","data":null}`, nil, want{"", done, ""}, 0},
		"a list that holds a no":                 {"hook", 200, `[{"success":true},{"success":false,"errors":[{"statusCode":"X"}]}]`, nil, want{"unknown", unknown, ""}, 0},
		"a list without one":                     {"hook", 200, `[{"success":true}]`, nil, want{"", done, ""}, 0},
		"E07 a SOAP fault, no rule":              {"hook", 200, `<s:Envelope><s:Body><s:Fault>Busy</s:Fault></s:Body></s:Envelope>`, []string{"Content-Type", "text/xml"}, want{"unknown", unknown, ""}, 0},
		"E06 Success False in XML, no rule":      {"hook", 200, `<r><Message>PS99</Message><Success> False </Success></r>`, []string{"Content-Type", "text/xml"}, want{"unknown", unknown, ""}, 0},
		"Success True in XML":                    {"hook", 200, `<r><Default>1</Default><Success>True</Success></r>`, []string{"Content-Type", "text/xml"}, want{"", done, ""}, 0},
		"JSON that is cut, no id due":            {"hook", 200, `{"error":"bad","x":`, nil, want{"unknown", unknown, ""}, 0},
		"a no and a yes under one name":          {"hook", 200, `{"done":false,"done":true}`, nil, want{"unknown", unknown, ""}, 0},
		"E13 a page behind a comment":            {"hook", 200, "<!-- a\nb -->\n<!DOCTYPE html><title>Just a moment...</title>", nil, want{"blocked_by_edge", unknown, ""}, 0},
		"an id beyond 2^53":                      {"make", 201, `{"id":9007199254740993}`, nil, want{"", done, "9007199254740993"}, 0},
		"an id that stands twice":                {"make", 201, `{"id":"1","id":"2"}`, nil, want{"unknown", unknown, ""}, 0},
		"a page of the edge in a 429":            {"make", 429, `<!doctype html><title>Too many requests</title>`, html, want{"rate_limit", notDone, ""}, 0},
		"402":                                    {"make", 402, `{}`, nil, want{"validation", notDone, ""}, 0},
		"405":                                    {"make", 405, ``, nil, want{"validation", notDone, ""}, 0},
		"412":                                    {"make", 412, `{}`, nil, want{"validation", notDone, ""}, 0},
		"413 of a proxy":                         {"make", 413, `<html><title>413 Request Entity Too Large</title></html>`, html, want{"validation", notDone, ""}, 0},
		"421":                                    {"make", 421, `{}`, nil, want{"validation", notDone, ""}, 0},
		"425":                                    {"make", 425, `{}`, nil, want{"lock_conflict", notDone, ""}, 0},
		"451":                                    {"make", 451, `{}`, nil, want{"validation", notDone, ""}, 0},
		"300":                                    {"make", 300, `[]`, nil, want{"unknown", unknown, ""}, 0},
		"303 to what was made":                   {"make", 303, ``, []string{"Location", "/made/1"}, want{"unknown", unknown, ""}, 0},
		"507":                                    {"make", 507, `{}`, nil, want{"server_error", unknown, ""}, 0},
		"529":                                    {"make", 529, `{}`, nil, want{"server_error", unknown, ""}, 0},
		"a wait on a 503":                        {"make", 503, ``, []string{"Retry-After", "7"}, want{"unavailable", unknown, ""}, 7 * time.Second},
		"E09 207 with a fault that a rule knows": {"items", 207, `{"results":[],"errors":[{"category":"VALIDATION_ERROR","reason":"bad date"}]}`, nil, want{"validation", notDone, ""}, 0},
		"E09 207 with another fault":             {"items", 207, `{"errors":[{"category":"OTHER"}]}`, nil, want{"unknown", unknown, ""}, 0},
		"E09 207 with the id and no faults":      {"items", 207, `{"results":[{"id":7}],"errors":[]}`, nil, want{"", done, "7"}, 0},
		"E10 207 with nothing in it":             {"items", 207, `{"numCreated":0,"results":[],"errors":[]}`, nil, want{"silent_noop", unknown, ""}, 0},
		"a minute's limit used up, no reset":     {"make", 429, `{}`, []string{"X-Minute-Left", "0"}, want{"rate_limit", notDone, ""}, time.Minute},
		"a day's limit used up, no reset":        {"make", 429, `{}`, []string{"X-Day-Left", "0", "X-Minute-Left", "5"}, want{"rate_limit", notDone, ""}, time.Hour},
		"207 with the id":                        {"make", 207, `{"id":7}`, nil, want{"", done, "7"}, 0},
		"207 with nothing done":                  {"make", 207, `{"results":[]}`, nil, want{"silent_noop", unknown, ""}, 0},
		"a reset in microseconds, past":          {"make", 429, `{}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1700000000000000"}, want{"rate_limit", notDone, ""}, 0},
		"a reset below zero":                     {"make", 429, `{}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "-5"}, want{"rate_limit", notDone, ""}, 0},
		"a refusal that our check should see":    {"make", 409, `{"error":{"code":"closed"}}`, nil, want{"conflict", notDone, ""}, 0},
	}
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, sends)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys.on("POST /"+tc.op, tc.status, tc.body, tc.header...)
			r := send(c, tc.op)
			got := want{r.Kind, r.Effect, r.RemoteID}
			if got != tc.want || !r.Wrote || !r.Answered || r.HTTPStatus != tc.status || r.Rule == "" || r.RetryAfter.Wait != tc.wait {
				t.Errorf("%d %s\n got %+v\nwant %+v, wait %v", tc.status, tc.body, r, tc.want, tc.wait)
			}
			if r.Kind != "" && r.Message == "" || r.Kind == "" && r.Message != "" {
				t.Errorf("message %q with kind %q", r.Message, r.Kind)
			}
			if strings.Contains(r.Message, "invalid character") || strings.Contains(r.Message, "<") && !strings.Contains(name, "no rule") {
				t.Errorf("message %q", r.Message)
			}
			if replayed := strings.Contains(name, "replayed"); r.Replayed != replayed {
				t.Errorf("Replayed = %v", r.Replayed)
			}
			if spent := strings.Contains(name, "replayed error") || strings.Contains(name, "under the key"); r.KeySpent != spent {
				t.Errorf("KeySpent = %v", r.KeySpent)
			}
			if strings.Contains(name, "our check") && (r.Refuses != connectors.CheckLifecycle || r.Pauses != "entry") {
				t.Errorf("%+v", r)
			}
		})
	}

	sys.on("POST /make", 429, `{"policyName":"DAILY"}`)
	if r := send(c, "make"); r.Kind != connectors.KindQuota || r.RetryAfter.Wait <= 0 || r.RetryAfter.Wait > 24*time.Hour {
		t.Errorf("until midnight: %+v", r)
	}
	berlin, _ := time.LoadLocation("Europe/Berlin")
	w := &waitRule{midnight: berlin}
	if got := w.after(document{}, time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC)); got.Wait != 12*time.Hour {
		t.Errorf("D13: %v until 2026-09-22T22:00:00Z", got.Wait)
	}
	for zone, noon := range map[string]time.Time{ // the day after has no midnight
		"America/Santiago": time.Date(2026, 9, 5, 16, 0, 0, 0, time.UTC),
		"Africa/Cairo":     time.Date(2026, 4, 23, 10, 0, 0, 0, time.UTC),
	} {
		place, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&waitRule{midnight: place}).after(document{}, noon); got.Wait != 12*time.Hour {
			t.Errorf("%s: %v until the next day begins, want 12h", zone, got.Wait)
		}
	}
}

// A payment that was taken and declined has an id like any other.
func TestWhatTheRecordInAnAnswerShowsDecides(t *testing.T) {
	const done, unknown = connectors.EffectDone, connectors.EffectUnknown
	const statuses = `statuses = { paid = "applied", processing = "pending", failed = "rejected", void = "reversed" }` + "\n"
	const root = `lookup = { method = "GET", path = "/x/{key}", match = "ref", id = "id", status = "status" }` + "\n" + statuses
	const list = `lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "data", match = "ref", id = "id", status = "state.code" }` + "\n" + statuses
	cases := map[string]struct {
		op     string
		body   string
		effect connectors.Effect
		kind   connectors.Kind
		id     string
	}{
		"applied":                              {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"paid"}`, done, "", "1"},
		"declined":                             {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"failed"}`, unknown, "unknown", "1"},
		"under way is no failure":              {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"processing"}`, unknown, "", "1"},
		"undone at once":                       {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"void"}`, unknown, "unknown", "1"},
		"not listed: never guessed":            {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"weird"}`, unknown, "unknown", "1"},
		"no status shown":                      {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1"}`, done, "", "1"},
		"a status of null shows none":          {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":null}`, done, "", "1"},
		"the record stands where its id does":  {list + `send = { method = "POST", path = "/p/{key}", id = "result.0.id" }`, `{"state":{"code":"paid"},"result":[{"id":"1","state":{"code":"failed"}}]}`, unknown, "unknown", "1"},
		"another place is not the record":      {list + `send = { method = "POST", path = "/p/{key}", id = "result.id" }`, `{"result":{"id":"1"},"state":{"code":"failed"}}`, done, "", "1"},
		"an id of another name tells no place": {root + `send = { method = "POST", path = "/p/{key}", id = "made" }`, `{"made":"1","status":"failed"}`, done, "", "1"},
		"an id in a header tells no place":     {root + `send = { method = "POST", path = "/p/{key}", id = "header:X-Id" }`, `{"id":"1","status":"failed"}`, unknown, "silent_noop", ""},
		"what is removed keeps its status":     {root + "removes = true\n" + `send = { method = "DELETE", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"void"}`, done, "", "1"},
		"no body where none is due":            {root + `send = { method = "POST", path = "/p/{key}", id = "id", empty = [200] }`, ``, done, "", ""},
		"our key":                              {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","ref":"k1"}`, done, "", "1"},
		"somebody else's record":               {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","ref":"K1","status":"paid"}`, unknown, "unknown", ""},
		"a key of null shows none":             {root + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","ref":null}`, done, "", "1"},
		"the same content":                     {root + "compare = { a = \"amount\" }\n" + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","amount":"1.00"}`, done, "", "1"},
		"other content":                        {root + "compare = { a = \"amount\" }\n" + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","ref":"k1","amount":100}`, unknown, "unknown", "1"},
		"content that is not shown":            {root + "compare = { a = \"amount\" }\n" + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","ref":"k1"}`, done, "", "1"},
		"removed at once":                      {root[:strings.Index(root, " }")] + `, gone = "void" }` + "\n" + statuses + `send = { method = "POST", path = "/p/{key}", id = "id" }`, `{"id":"1","status":"paid","void":true}`, unknown, "unknown", "1"},
		"a rule that says done":                {root + `send = { method = "POST", path = "/p/{key}", id = "id" }` + "\n" + `errors = [{ on = "send", status = 200, code = "status", is = "failed", effect = "done" }]`, `{"id":"1","status":"failed"}`, done, "", "1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			c := mustOpen(t, sys.URL, "[[operation]]\nname = \"pay\"\n"+tc.op)
			method := "POST"
			if strings.Contains(tc.op, "DELETE") {
				method = "DELETE"
			}
			sys.on(method+" /p/k1", 200, tc.body)
			r := send(c, "pay")
			if r.Effect != tc.effect || r.Kind != tc.kind || r.RemoteID != tc.id {
				t.Errorf("%s\n got %+v\nwant %s %q id %q", tc.body, r, tc.effect, tc.kind, tc.id)
			}
		})
	}
}

func TestASendThatIsNotSent(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, sends+`
[[operation]]
name = "part"
send = { method = "POST", path = "/items/{record_id}", json = { who = "{payload.who}" }, headers = { X-Sub = "{subject}" } }
[[operation]]
name = "none"
lookup = { method = "GET", path = "/x/{key}", match = "k" }
`)
	in := func(change func(*connectors.Send)) connectors.SendResult {
		s := connectors.Send{Operation: "part", Key: "k1", RecordID: "r1", Subject: "s", Payload: []byte(`{"who":1}`), SendBy: time.Now().Add(time.Minute)}
		change(&s)
		return c.Send(context.Background(), s)
	}
	cases := map[string]struct {
		r    connectors.SendResult
		kind connectors.Kind
		say  string
	}{
		"send_by is over":                {in(func(s *connectors.Send) { s.SendBy = time.Now().Add(-time.Second) }), connectors.KindTimeout, "send_by passed"},
		"no send_by":                     {in(func(s *connectors.Send) { s.SendBy = time.Time{} }), connectors.KindTimeout, "send_by passed"},
		"a path that would leave":        {in(func(s *connectors.Send) { s.RecordID = ".." }), connectors.KindBadKey, "{record_id}"},
		"a header that would break":      {in(func(s *connectors.Send) { s.Subject = "a\r\nX: y" }), connectors.KindBadKey, "{subject}"},
		"a header beyond ASCII":          {in(func(s *connectors.Send) { s.Subject = "Zoë" }), connectors.KindBadKey, "visible ASCII"},
		"a payload without the member":   {in(func(s *connectors.Send) { s.Payload = []byte(`{}`) }), connectors.KindBadKey, "{payload.who}"},
		"no such operation":              {in(func(s *connectors.Send) { s.Operation = "prt" }), connectors.KindUnsupported, `did you mean "part"?`},
		"an operation that is not sent":  {in(func(s *connectors.Send) { s.Operation = "none" }), connectors.KindUnsupported, "no send"},
		"stored bytes that are not kept": {in(func(s *connectors.Send) { s.Operation = "make"; s.Payload = nil }), connectors.KindBadKey, "none to send"},
	}
	for name, tc := range cases {
		if tc.r.Kind != tc.kind || tc.r.Effect != connectors.EffectNotDone || tc.r.Wrote || tc.r.Answered || !strings.Contains(tc.r.Message, tc.say) {
			t.Errorf("%s: %+v", name, tc.r)
		}
		if strings.Contains(tc.r.Message, "Zoë") {
			t.Errorf("%s: the message holds the value: %q", name, tc.r.Message)
		}
	}
	if got := sys.sent(); len(got) != 0 {
		t.Errorf("requests went out: %q", got)
	}
}

func TestALostAnswerIsUnknown(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, sends)
	sys.do("POST /make", func(w http.ResponseWriter, _ *http.Request, _ string) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	})
	if r := send(c, "make"); r.Effect != connectors.EffectUnknown || r.Kind != connectors.KindNetwork || !r.Wrote || r.Answered {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sys.do("POST /make", func(_ http.ResponseWriter, r *http.Request, _ string) { cancel(); <-r.Context().Done() })
	r := c.Send(ctx, connectors.Send{Operation: "make", Key: "k", IdempotencyKey: "k", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)})
	if r.Effect != connectors.EffectUnknown || r.Kind != connectors.KindTimeout || !r.Wrote {
		t.Errorf("stopped under way: %+v", r)
	}
	if got := sys.sent(); len(got) != 2 {
		t.Errorf("%d requests, want 2: %q", len(got), got)
	}
	r = c.Send(ctx, connectors.Send{Operation: "make", Key: "k", IdempotencyKey: "k", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)})
	if r.Effect != connectors.EffectNotDone || r.Kind != connectors.KindStopping || r.Wrote {
		t.Errorf("stopped before: %+v", r)
	}
}

func TestBodiesAndPlaceholders(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
settings = { prop = "action_key", list = ["a", "b"] }
let = { kind = "deals", fields = "Id, {settings.prop}" }
rate = { calls = 1000, per = "1s" }
query = { v = "2" }
[[operation]]
name = "json"
send = { method = "POST", path = "/{let.kind}/{record_id}", query = { "page[size]" = "1", p = "{settings.list}", w = "{let.fields}", gone = "{payload.none?}" }, json = { "{settings.prop}" = "{key}", whole = "{payload}", part = "{payload.n}", text = "for {key}: x", gone = "{payload.none?}", list = ["{payload.none?}", 1, true] }, headers = { Idempotency-Key = "{idempotency_key}" } }
[[operation]]
name = "form"
send = { method = "POST", path = "/form", form = "{payload}" }
[[operation]]
name = "graphql"
send = { method = "POST", path = "/graphql", graphql = 'mutation ($x: In!) { make(k: {key:graphql}, x: $x) { id } }', variables = { x = "{payload}" } }
[[operation]]
name = "text"
send = { method = "PUT", path = "/text/{record_id}.txt", text = "{payload}", content_type = "text/csv" }
[[operation]]
name = "bytes"
send = { method = "POST", path = "/bytes" }
`)
	const payload = `{"n":19.90,"z":{"b":[1,{"c":"x&y"}],"a":null},"big":9007199254740993}`
	cases := map[string]struct {
		send connectors.Send
		want string
	}{
		"JSON keeps the payload's own bytes": {
			connectors.Send{Operation: "json", Key: `k"1:a`, RecordID: "a/b ?#%é", Payload: []byte(payload)},
			""},
		"JSON with a key that fits the longer text": {
			connectors.Send{Operation: "json", Key: "k1:a", RecordID: "a/b ?#%é", Payload: []byte(payload)},
			`POST /deals/a%2Fb%20%3F%23%25%C3%A9?p=a&p=b&page%5Bsize%5D=1&v=2&w=Id%2C%20action_key {"action_key":"k1:a","list":[1,true],"part":19.90,"text":"for k1:a: x","whole":` + payload + `}`},
		"a form nests in brackets and keeps the order": {
			connectors.Send{Operation: "form", Key: "k", Payload: []byte(payload)},
			`POST /form?v=2 n=19.90&z%5Bb%5D%5B0%5D=1&z%5Bb%5D%5B1%5D%5Bc%5D=x%26y&z%5Ba%5D=&big=9007199254740993`},
		"GraphQL": {
			connectors.Send{Operation: "graphql", Key: `a"b\`, Payload: []byte(`{"a":1}`)},
			`POST /graphql?v=2 {"query":"mutation ($x: In!) { make(k: \"a\\\"b\\\\\", x: $x) { id } }","variables":{"x":{"a":1}}}`},
		"text": {
			connectors.Send{Operation: "text", Key: "k", RecordID: "r", Payload: []byte("a;b\n1;2\n"), PayloadType: "text/csv"},
			"PUT /text/r.txt?v=2 a;b\n1;2\n"},
		"the stored bytes of another type": {
			connectors.Send{Operation: "bytes", Key: "k", Payload: []byte("<x/>"), PayloadType: "application/xml"},
			"POST /bytes?v=2 <x/>"},
	}
	for _, at := range []string{"POST /deals/a/b ?#%é", "POST /form", "POST /graphql", "PUT /text/r.txt", "POST /bytes"} {
		sys.on(at, 200, `{}`)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys.sent()
			tc.send.SendBy = time.Now().Add(time.Minute)
			r := c.Send(context.Background(), tc.send)
			got := strings.Join(sys.sent(), "\n")
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%+v\n(-want +got)\n%s", r, d)
			}
		})
	}
	sys.mu.Lock()
	defer sys.mu.Unlock()
	for _, h := range sys.headers {
		if h.Values("Idempotency-Key") != nil {
			t.Errorf("an attempt that may carry no key carries %q", h.Values("Idempotency-Key"))
		}
	}
}

func TestAnErrorInA2xxIsNoSuccess(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `
[[operation]]
name = "hook"
send = { method = "POST", path = "/hook", text = "{key}", content_type = "text/plain" }
[[operation]]
name = "ids"
send = { method = "POST", path = "/ids", id = "id", json = { k = "{key}" } }
[[operation]]
name = "graph"
send = { method = "POST", path = "/hook", graphql = "mutation { make(k: {key:graphql}) { id } }" }
`)
	sys.on("POST /ids", 200, `{"id":"7","success":false}`)
	if r := send(c, "ids"); r.Effect != connectors.EffectUnknown || r.RemoteID != "" {
		t.Errorf("an id beside a no: %+v", r)
	}
	sys.on("POST /ids", 200, `{"id":"7","errors":["a field is old"]}`)
	if r := send(c, "ids"); r.Effect != connectors.EffectDone || r.RemoteID != "7" {
		t.Errorf("an id beside a warning: %+v", r)
	}
	for body, done := range map[string]bool{
		`{"ok":true}`: true, `{"success":true,"errors":[]}`: true, `{"error":null}`: true, `{"error":""}`: true, `ok`: true, ``: true, `[]`: true, `null`: true,
		`{"data":{"make":{"id":1}}}`: true, `{"rows":[{"error":"of a row"}]}`: true,
		`{"ok":false}`: false, `{"success":false,"code":601}`: false, `{"error":"channel_not_found"}`: false, `{"errors":[{"message":"x"}],"data":null}`: false,
		`{"Fault":{"code":"6140"}}`: false,
	} {
		for _, op := range []string{"hook", "graph"} {
			sys.on("POST /hook", 200, body)
			r := send(c, op)
			want := connectors.EffectUnknown
			if done {
				want = connectors.EffectDone
			}
			if r.Effect != want || (r.Kind == "") != done || r.Rule == "" {
				t.Errorf("%s %s: %+v, want %s", op, body, r, want)
			}
		}
	}
}

func TestClassifyReportedAttempts(t *testing.T) {
	c := mustOpen(t, "http://127.0.0.1:1", sends+`
[[operation]]
name = "own"
errors = [{ status = 502, class = "unavailable", effect = "not_done" }]
send = { method = "POST", path = "/x" }
`)
	cases := map[string]struct {
		op   string
		f    connectors.Failure
		want connectors.Classified
		ok   bool
	}{
		"a code that a rule lists":       {"make", connectors.Failure{HTTPStatus: 400, Code: "card_error"}, connectors.Classified{Kind: "validation", Effect: "not_done", Rule: "connector error 3", KeySpent: true}, true},
		"no rule":                        {"make", connectors.Failure{HTTPStatus: 502}, connectors.Classified{}, false},
		"E18 a rule of the operation":    {"own", connectors.Failure{HTTPStatus: 502}, connectors.Classified{Kind: "unavailable", Effect: "not_done", Rule: "operation error 1"}, true},
		"the message quotes the answer":  {"make", connectors.Failure{Message: `400 - {"error":{"type":"idempotency_error"}}`}, connectors.Classified{Kind: "duplicate_request", Effect: "unknown", Rule: "connector error 1"}, true},
		"brackets before what it quotes": {"make", connectors.Failure{Message: `[Billing] request failed [400]: {"error":{"type":"idempotency_error"}}`}, connectors.Classified{Kind: "duplicate_request", Effect: "unknown", Rule: "connector error 1"}, true},
		"a text by like":                 {"make", connectors.Failure{HTTPStatus: 403, Message: "a secondary rate limit was hit"}, connectors.Classified{Kind: "rate_limit", Effect: "not_done", Rule: "connector error 12"}, true},
		"the same text, another status":  {"make", connectors.Failure{HTTPStatus: 400, Message: "a secondary rate limit was hit"}, connectors.Classified{}, false},
		"the id that a message names":    {"make", connectors.Failure{HTTPStatus: 400, Message: `400 [{"errorCode":"DUPLICATES_DETECTED","message":"duplicate value with id: 001A"}]`}, connectors.Classified{Kind: "already_exists", Effect: "not_done", Rule: "connector error 9", Names: "001A"}, true},
		"any code is not the code there": {"make", connectors.Failure{HTTPStatus: 400, Code: "other"}, connectors.Classified{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := c.Classify(tc.op, tc.f)
			tc.want.HTTPStatus, tc.want.Code = got.HTTPStatus, got.Code
			if ok != tc.ok || got != tc.want {
				t.Errorf("got %+v, %v\nwant %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}
