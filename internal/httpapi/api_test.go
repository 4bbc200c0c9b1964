package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/internal/httpapi"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
	"github.com/recovery-ledger/reconcile/reports"
)

// TestEachScopeIsGoodForItsOwnAndNothingElse is the whole matrix: every path and
// method, with every scope alone.
func TestEachScopeIsGoodForItsOwnAndNothingElse(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", failed("run:a"), 200)
		w.post("/v1/entries", `{"action_key":"run:p","workflow":"w","connector":"crm","operation":"x","payload":{"secret":"s3cr"}}`, 200)
		const all = "all"
		rows := []struct {
			method, path, body string
			need               []ledger.Scope
		}{
			{"POST", "/v1/entries", record("run:b", "unknown", ""), []ledger.Scope{ledger.ScopeIngest}},
			{"POST", "/v1/entries/run:a/attempts", `{"attempt_id":"a1","status":"error","error_class":"validation"}`, []ledger.Scope{ledger.ScopeIngest}},
			{"GET", "/v1/entries", "", []ledger.Scope{ledger.ScopeRead}},
			{"GET", "/v1/entries/run:a", "", []ledger.Scope{ledger.ScopeRead}},
			{"GET", "/v1/entries/run:p?payload=true", "", []ledger.Scope{ledger.ScopeRead, ledger.ScopePayload}},
			{"POST", "/v1/entries/run:a/actions", `{"action":"assign","action_id":"x","to":"revops"}`, []ledger.Scope{ledger.ScopeOperate}},
			{"GET", "/v1/reports/outcomes", "", []ledger.Scope{ledger.ScopeRead}},
		}
		for _, row := range rows {
			for _, scope := range append(texts(ledger.Scopes()), all, "") {
				var has []ledger.Scope
				switch scope {
				case all:
					has = row.need
				case "":
				default:
					has = []ledger.Scope{ledger.Scope(scope)}
				}
				want := http.StatusForbidden
				if !slices.ContainsFunc(row.need, func(s ledger.Scope) bool { return !slices.Contains(has, s) }) {
					want = http.StatusOK
				}
				rec := w.do(w.request(row.method, row.path, row.body, w.token(has...)))
				if rec.Code != want {
					t.Errorf("%s %s with %v: status %d, want %d: %s", row.method, row.path, has, rec.Code, want, rec.Body)
				}
				if want == http.StatusForbidden && !strings.Contains(rec.Body.String(), "this needs a token with the scope") {
					t.Errorf("%s %s with %v: %s", row.method, row.path, has, rec.Body)
				}
			}
			for name, c := range map[string]struct{ header, want string }{
				"no token":                 {"Authorization:", "no_token"},
				"another scheme":           {"Authorization: Basic dTpw", "no_token"},
				"a token without a scheme": {"Authorization: " + w.token(row.need...), "no_token"},
				"an empty token":           {"Authorization: Bearer ", "no_token"},
				"a token nobody made":      {"Authorization: Bearer " + ledger.NewToken(), "unknown_token"},
				"a token with more behind": {"Authorization: Bearer " + w.token(row.need...) + "x", "unknown_token"},
				"the digest of a token":    {"Authorization: Bearer " + ledger.TokenDigest(w.token(row.need...)), "unknown_token"},
			} {
				rec := w.do(w.request(row.method, row.path, row.body, "", c.header))
				if rec.Code != http.StatusUnauthorized || !strings.Contains(rec.Body.String(), c.want) || rec.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s, %s: status %d: %s", row.method, row.path, name, rec.Code, rec.Body)
				}
			}
			// A token in a parameter would stand in logs of proxies.
			rec := w.do(w.request(row.method, "/v1/entries?access_token="+w.token(row.need...), row.body, ""))
			if rec.Code != http.StatusUnauthorized {
				t.Errorf("a token in the query: %d", rec.Code)
			}
		}
		// A revoked one is good for nothing, from the next request on.
		token := w.token(ledger.ScopeRead)
		if _, err := w.store.RevokeToken(t.Context(), "read"); err != nil {
			t.Fatal(err)
		}
		rec := w.do(w.request("GET", "/v1/entries", "", token))
		if rec.Code != http.StatusUnauthorized || !strings.Contains(rec.Body.String(), "revoked_token") {
			t.Errorf("revoked: %d: %s", rec.Code, rec.Body)
		}
		for name, token := range w.tokens {
			if strings.Contains(w.log.String(), token) {
				t.Errorf("the token %s stands in the log", name)
			}
		}
		if strings.Contains(w.log.String(), "s3cr") {
			t.Error("a payload stands in the log")
		}
	})
}

func texts[T ~string](xs []T) []string {
	var out []string
	for _, x := range xs {
		out = append(out, string(x))
	}
	return out
}

func TestPathsAndMethods(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	for _, c := range []struct {
		method, path string
		status       int
		want, allow  string
	}{
		{"GET", "/", 404, "docs/http.md", ""},
		{"GET", "/v2/entries", 404, "no_such_path", ""},
		{"GET", "/v1/entries/a/b", 404, "no_such_path", ""},
		{"POST", "/v1/claims", 404, "not supported yet", ""},
		{"POST", "/v1/signals/crm-back", 404, "not supported yet", ""},
		{"GET", "/v1/signals/crm-back", 404, "not supported yet", ""},
		{"DELETE", "/v1/entries/a", 405, "takes GET, not DELETE", "GET"},
		{"PUT", "/v1/entries", 405, "takes GET and POST, not PUT", "GET, POST"},
		{"GET", "/v1/entries/a/attempts", 405, "takes POST", "POST"},
		{"GET", "/v1/entries/a/actions", 405, "takes POST", "POST"},
		{"POST", "/healthz", 405, "takes GET", "GET"},
		{"HEAD", "/healthz", 200, "", ""},
		{"GET", "/v1/entries/nobody", 404, "no_entry", ""},
		{"GET", "/v1/reports/outcome", 404, `did you mean \"outcomes\"?`, ""},
	} {
		rec := w.do(w.request(c.method, c.path, "", w.token(ledger.Scopes()...)))
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.want) || rec.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: status %d, allow %q: %s", c.method, c.path, rec.Code, rec.Header().Get("Allow"), rec.Body)
		}
		if got := rec.Header().Get("Content-Type"); got != "application/json" || rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", c.method, c.path, rec.Header())
		}
		if c.status >= 400 {
			if f := decoded[map[string]string](t, rec.Body.String()); f["error"] == "" || f["message"] == "" || len(f) != 2 {
				t.Errorf("%s %s: %v", c.method, c.path, f)
			}
		}
	}
}

type entriesPage struct {
	Entries []map[string]any `json:"entries"`
	Next    *string          `json:"next"`
}

func TestEntriesArePagedByKey(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		if got := w.get("/v1/entries", 200); decoded[entriesPage](t, got).Entries == nil || !strings.Contains(got, `"next": null`) {
			t.Errorf("an empty ledger: %s", got)
		}
		var b strings.Builder
		for i := range 7 {
			b.WriteString(failed(fmt.Sprintf("k:%d", i)) + "\n")
		}
		b.WriteString(record("k:done", "ok", `,"remote_id":"C-1"`))
		w.post("/v1/entries", b.String(), 200, "Content-Type: application/x-ndjson")

		keys := func(path string) (all []string, pages int) {
			after := ""
			for {
				p := decoded[entriesPage](t, w.get(path+after, 200))
				for _, e := range p.Entries {
					all = append(all, e["action_key"].(string))
					if _, has := e["payload"]; has {
						t.Error("a payload in a list")
					}
				}
				pages++
				if p.Next == nil {
					return all, pages
				}
				after = "&after=" + *p.Next
				// What comes behind the place where the reader is does not move it.
				w.post("/v1/entries", failed("k:0"+fmt.Sprint(pages)), 200)
			}
		}
		got, pages := keys("/v1/entries?state=escalated&limit=3")
		if want := []string{"k:0", "k:1", "k:2", "k:3", "k:4", "k:5", "k:6"}; pages != 3 || !slices.Equal(want, got) {
			t.Errorf("%d pages: %q", pages, got)
		}
		for query, want := range map[string]int{
			"class=first_attempt_success": 1, "state=settled": 1, "connector=crm&limit=1000": 10, "workflow=other": 0, "since=1h": 10, "until=1h": 0, "flagged=true": 0,
			"owner=unassigned": 10, "reason=permanent": 9, "operation=contact.create": 10, "after=k:6": 1,
		} {
			if p := decoded[entriesPage](t, w.get("/v1/entries?"+query, 200)); len(p.Entries) != want {
				t.Errorf("%s: %d entries, want %d", query, len(p.Entries), want)
			}
		}
		for query, want := range map[string]string{
			"stat=escalated":            `stat: is not a parameter; did you mean \"state\"?`,
			"state=esclated":            `state: \"esclated\" is none of in_flight`,
			"class=done":                "class: ",
			"since=yesterday":           "since: ",
			"since=1h&until=2h":         "is not before until",
			"limit=0":                   "give a number from 1 to 1000",
			"limit=5000":                "give a number from 1 to 1000",
			"flagged=yes":               "is none of true, false",
			"state=":                    "state: is given, but empty",
			"state=settled&state=ready": "state: is given twice",
			"payload=true":              "payload: is not a parameter",
			"%zz":                       "cannot be read",
		} {
			if got := w.get("/v1/entries?"+strings.ReplaceAll(query, " ", "%20"), 400); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %q", query, got, want)
			}
		}
	})
}

func TestAnEntryIsShownAsShowDoes(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", strings.TrimSuffix(failed("run:a"), "}")+`,"payload":{"n":12345678901234567890}}`, 200)
		got := decoded[map[string]any](t, w.get("/v1/entries/run:a", 200))
		for _, list := range []string{"attempts", "evidence", "history", "flags", "allowed"} {
			if _, ok := got[list].([]any); !ok {
				t.Errorf("%s is no list: %v", list, got[list])
			}
		}
		if got["payload"] != nil || got["state"] != "escalated" || got["why"] == "" || got["due_at"] == nil {
			t.Errorf("shown: %v", got)
		}
		if h := got["history"].([]any)[0].(map[string]any); h["actor"] != "http:ingest" {
			t.Errorf("who reported it: %v", h["actor"])
		}
		rec := w.do(w.request("GET", "/v1/entries/run:a?payload=true", "", w.token(ledger.ScopeRead, ledger.ScopePayload)))
		if !strings.Contains(rec.Body.String(), `"n": 12345678901234567890`) {
			t.Errorf("with payload: %s", rec.Body)
		}
		w.get("/v1/entries/run:a?payload=maybe", 400)
	})
}

type acted struct {
	ActionKey string         `json:"action_key"`
	Action    string         `json:"action"`
	ActionID  string         `json:"action_id"`
	Changed   bool           `json:"changed"`
	Why       string         `json:"why"`
	Warnings  []string       `json:"warnings"`
	Entry     map[string]any `json:"entry"`
}

func TestActions(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			body, state, outcome string
		}{
			"retry":           {`{"action":"retry","action_id":"1","note":"the form was mended"}`, "retryable", ""},
			"retry, no look":  {`{"action":"retry","action_id":"1","override":true,"note":"seen with my own eyes"}`, "retryable", ""},
			"resolve":         {`{"action":"resolve","action_id":"1","reference":"C-7","note":"found by hand"}`, "settled", "applied"},
			"resolve as none": {`{"action":"resolve","action_id":"1","outcome":"not_applied","note":"bank says no"}`, "settled", "not_applied"},
			"cancel":          {`{"action":"cancel","action_id":"1"}`, "settled", "not_applied"},
			"assign":          {`{"action":"assign","action_id":"1","to":"revops"}`, "escalated", ""},
			"snooze":          {`{"action":"snooze","action_id":"1","until":"2h"}`, "deferred", ""},
		} {
			key := strings.ReplaceAll(name, " ", "_")
			w.post("/v1/entries", failed(key), 200)
			got := decoded[acted](t, w.act(key, c.body, 200))
			if !got.Changed || got.ActionKey != key || got.ActionID != "1" || got.Entry["state"] != c.state || got.Entry["outcome"] != c.outcome {
				t.Errorf("%s: %+v", name, got)
			}
			st := w.stored(key)
			history, err := w.store.History(t.Context(), st.Entry.ID)
			if err != nil {
				t.Fatal(err)
			}
			last := history[len(history)-1]
			id, action := reconcile.ActionIDOf(last)
			if last.Actor != "person:operate" || id != "1" || string(action) != got.Action {
				t.Errorf("%s: history %+v", name, last)
			}

			// The same id does nothing twice, whatever has become of the entry.
			again := decoded[acted](t, w.act(key, c.body, 200))
			if again.Changed || again.Why == "" || again.Entry["state"] != c.state {
				t.Errorf("%s, again: %+v", name, again)
			}
			now, err := w.store.History(t.Context(), st.Entry.ID)
			if err != nil || len(now) != len(history) {
				t.Errorf("%s, again: history grew to %d, %v", name, len(now), err)
			}
		}
		if st := w.stored("resolve"); st.Entry.RemoteID != "C-7" {
			t.Errorf("the reference is the remote id: %q", st.Entry.RemoteID)
		}
		if got := decoded[acted](t, w.act("assign", `{"action":"assign","action_id":"2","to":"revop"}`, 200)); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], `did you mean "revops"`) {
			t.Errorf("an owner that nobody knows: %+v", got)
		}
	})
}

func TestActionsThatAreRefusedChangeNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", "["+failed("run:a")+","+record("run:done", "ok", `,"remote_id":"C-1"`)+"]", 200)
		before := w.stored("run:a")
		for name, c := range map[string]struct {
			key, body string
			status    int
			want      string
		}{
			"no entry":                   {"nobody", `{"action":"retry","action_id":"1"}`, 404, "no_entry"},
			"settled already":            {"run:done", `{"action":"cancel","action_id":"1"}`, 409, "not_allowed"},
			"no id":                      {"run:a", `{"action":"retry"}`, 422, "action_id: give the action an id of your own"},
			"an unknown action":          {"run:a", `{"action":"retri","action_id":"1"}`, 422, `did you mean \"retry\"?`},
			"no action":                  {"run:a", `{"action_id":"1"}`, 422, "action: "},
			"take is not for tools":      {"run:a", `{"action":"take","action_id":"1"}`, 422, "is none of retry, resolve, cancel, assign, snooze"},
			"a member spelt wrong":       {"run:a", `{"action":"retry","action_id":"1","overide":true}`, 422, `did you mean \"override\"?`},
			"a member of another":        {"run:a", `{"action":"cancel","action_id":"1","to":"x"}`, 422, "to: is no member of cancel"},
			"another case":               {"run:a", `{"action":"retry","action_id":"1","Note":"x"}`, 422, "Note: is no member"},
			"a number for a text":        {"run:a", `{"action":"retry","action_id":1}`, 422, "action_id: must not be a JSON number"},
			"an array":                   {"run:a", `[{"action":"retry","action_id":"1"}]`, 422, "must be one JSON object"},
			"two objects":                {"run:a", `{"action":"retry","action_id":"1"}{}`, 422, "nothing behind it"},
			"a member that stands twice": {"run:a", `{"action":"retry","action_id":"1","seen":1,"seen":2}`, 422, "seen: stands twice"},
			"no JSON":                    {"run:a", `retry`, 422, "must be one JSON object"},
			"resolve, no note":           {"run:a", `{"action":"resolve","action_id":"1","reference":"C-1"}`, 422, "note: say what was found"},
			"resolve, no reference":      {"run:a", `{"action":"resolve","action_id":"1","note":"n"}`, 422, "reference: say what was seen"},
			"resolve, odd outcome":       {"run:a", `{"action":"resolve","action_id":"1","note":"n","outcome":"unknown"}`, 422, "outcome: "},
			"assign to nobody":           {"run:a", `{"action":"assign","action_id":"1"}`, 422, "to: name the new owner"},
			"snooze for ever":            {"run:a", `{"action":"snooze","action_id":"1"}`, 422, "until: "},
			"snooze until yesterday":     {"run:a", `{"action":"snooze","action_id":"1","until":"2020-01-01"}`, 422, "is not in the future"},
			"override, no note":          {"run:a", `{"action":"retry","action_id":"1","override":true}`, 422, "note: say why no look is needed"},
			"decided on what was":        {"run:a", `{"action":"retry","action_id":"1","seen":7}`, 409, "outdated"},
			"a seen that is none":        {"run:a", `{"action":"retry","action_id":"1","seen":-1}`, 422, "seen: "},
		} {
			if got := w.act(c.key, c.body, c.status); !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %q", name, got, c.want)
			}
		}
		if d := cmp.Diff(before, w.stored("run:a")); d != "" {
			t.Errorf("the entry changed (-before +after):\n%s", d)
		}
		// What was seen is what is there: it holds.
		w.act("run:a", `{"action":"assign","action_id":"1","to":"revops","seen":1}`, 200)
		// The second press of another button, made for the same view, is outdated.
		if got := w.act("run:a", `{"action":"cancel","action_id":"2","seen":1}`, 409); !strings.Contains(got, "its history is at 2, seen was 1") {
			t.Errorf("outdated: %s", got)
		}
		if got := w.act("run:a", `{"action":"cancel","action_id":"1"}`, 409); !strings.Contains(got, "action_id_used") {
			t.Errorf("one id for two actions: %s", got)
		}
	})
}

// TestOneActionIDAtTheSameMoment: of many who press, one changes the entry.
func TestOneActionIDAtTheSameMoment(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", failed("run:a"), 200)
		token := w.token(ledger.ScopeOperate)
		var wg sync.WaitGroup
		var mu sync.Mutex
		changed, codes := 0, map[int]int{}
		for range 8 {
			wg.Go(func() {
				rec := w.do(w.request("POST", "/v1/entries/run:a/actions", `{"action":"assign","action_id":"press","to":"revops"}`, token))
				mu.Lock()
				defer mu.Unlock()
				codes[rec.Code]++
				if strings.Contains(rec.Body.String(), `"changed": true`) {
					changed++
				}
			})
		}
		wg.Wait()
		if changed != 1 || codes[200]+codes[409] != 8 {
			t.Errorf("changed %d times, status %v", changed, codes)
		}
		history, err := w.store.History(t.Context(), w.stored("run:a").Entry.ID)
		if err != nil || len(history) != 2 {
			t.Errorf("%d rows of history, %v", len(history), err)
		}
	})
}

func TestReports(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.post("/v1/entries", "["+failed("run:a")+","+record("run:b", "ok", `,"remote_id":"C-1"`)+"]", 200)
		got := decoded[map[string]any](t, w.get("/v1/reports/outcomes?by=workflow&since=24h", 200))
		rows := got["rows"].([]any)
		if got["report"] != "outcomes" || len(rows) != 1 || rows[0].(map[string]any)["total"] != float64(2) {
			t.Errorf("outcomes: %v", got)
		}
		csv := w.do(w.request("GET", "/v1/reports/reasons?output=csv", "", w.token(ledger.ScopeRead)))
		if !strings.HasPrefix(csv.Body.String(), "reason,connector,operation,") || csv.Header().Get("Content-Type") != "text/csv; charset=utf-8" {
			t.Errorf("as CSV: %v %s", csv.Header(), csv.Body)
		}
		w.get("/v1/reports/outcomes?week=2026-W20&timezone=Europe/Berlin", 200)
		for _, s := range reports.All() {
			if got := decoded[map[string]any](t, w.get("/v1/reports/"+s.Name, 200)); got["report"] != s.Name {
				t.Errorf("%s: %v", s.Name, got["report"])
			}
		}
		page := w.do(w.request("GET", "/v1/reports/weekly?output=html", "", w.token(ledger.ScopeRead)))
		if !strings.HasPrefix(page.Body.String(), "<!") || page.Header().Get("Content-Type") != "text/html; charset=utf-8" || page.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("as a page: %v %.100s", page.Header(), page.Body)
		}
		for query, want := range map[string]string{
			"by=color":               "cannot be grouped by",
			"week=2026-W20&since=1h": "a window of its own",
			"week=20":                "week: ",
			"timezone=Mars":          "timezone: ",
			"output=xml":             "is none of csv, html, json, markdown",
			"sinc=1h":                `did you mean \"since\"?`,
			"since=1h&until=2h":      "is not before",
			"since=2099-01-01":       "before it begins",
		} {
			if got := w.get("/v1/reports/outcomes?"+query, 400); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %q", query, got, want)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		get := func(path string) (int, string) {
			rec := w.do(w.request("GET", path, "", ""))
			return rec.Code, rec.Body.String()
		}
		if code, body := get("/readyz"); code != 200 {
			t.Errorf("ready: %d %s", code, body)
		}
		w.connectors["crm"] = lane("crm")
		w.post("/v1/entries", "["+record("run:a", "unknown", "")+`,{"action_key":"x"}]`, 207)
		for _, foreign := range []string{"made-up", "made up too"} {
			w.post("/v1/entries", strings.Replace(record("run:"+foreign, "unknown", ""), `"crm"`, `"`+foreign+`"`, 1), 200)
		}
		w.api.Passed(reconcile.Tally{Counts: reconcile.Counts{SettledApplied: 3}}, nil)
		w.act("run:a", `{"action":"assign","action_id":"1","to":"revops"}`, 200)
		w.get("/v1/entries/run:nobody", 404)
		_, text := get("/metrics")
		for _, want := range []string{
			"# TYPE reconcile_due_entries gauge\n", `reconcile_due_entries{lane="crm",work="look"} 1` + "\n", `reconcile_due_entries{lane="unknown",work="look"} 2` + "\n",
			"reconcile_ledger_up 1\n", `reconcile_waiting_entries{why="flagged"} 0` + "\n", `reconcile_build_info{version="test"} 1`, `reconcile_passes_total{result="done"} 1`,
			`reconcile_pass_entries_total{what="settled_applied"} 3`, `reconcile_records_total{recorded="new"} 3`, `reconcile_records_total{recorded="refused"} 1`,
			`reconcile_answers_total{send="wait"} 3`, `reconcile_actions_total{action="assign"} 1`,
			`reconcile_http_requests_total{route="/v1/entries/{key}",status="404"} 1`, `reconcile_http_requests_total{route="/v1/entries",status="207"} 1`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics have no %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "run:") {
			t.Error("a key stands in the metrics")
		}
		if strings.Contains(text, "made") {
			t.Errorf("a name from outside stands in the metrics:\n%s", text)
		}
		// What is due is counted once for all who ask within a while.
		w.post("/v1/entries", record("run:b", "unknown", ""), 200)
		if _, text := get("/metrics"); !strings.Contains(text, `reconcile_due_entries{lane="crm",work="look"} 1`) {
			t.Errorf("it was counted anew:\n%s", text)
		}

		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "reconcile doctor") {
			t.Errorf("without a ledger: %d %s", code, body)
		}
		if code, _ := get("/healthz"); code != 200 {
			t.Errorf("the process is alive all the same: %d", code)
		}
		rec := w.do(w.request("GET", "/v1/entries", "", w.tokens["read"]))
		if rec.Code != 503 || rec.Header().Get("Retry-After") == "" || rec.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("a token that cannot be looked up is not unknown: %d %s", rec.Code, rec.Body)
		}
		w.api.Stopping()
		if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "stopping") {
			t.Errorf("stopping: %d %s", code, body)
		}
	})
}

// mistaken is a ledger with a mistake in it.
type mistaken struct{ httpapi.Ledger }

func (mistaken) TokenByDigest(context.Context, string) (ledger.APIToken, error) {
	panic("a mistake of ours")
}

func TestAPanicEndsOneRequest(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	w.api = httpapi.New(httpapi.Options{Ledger: mistaken{w.ledger}})
	rec := w.do(w.request("GET", "/v1/entries", "", "x"))
	if rec.Code != 500 || !strings.Contains(rec.Body.String(), "internal") || strings.Contains(rec.Body.String(), "mistake of ours") {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
}

// TestBodiesAreBoundedTogether: whoever comes when too much is being read waits,
// and is told to come again.
func TestBodiesAreBoundedTogether(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	hold := make(chan struct{})
	reached := make(chan struct{}, 8)
	w.ledger.when(func(int) error {
		reached <- struct{}{}
		<-hold
		return nil
	})
	large := strings.Repeat(" ", httpapi.SmallBody)
	var wg sync.WaitGroup
	for i := range 3 {
		r := w.request("POST", "/v1/entries", large+record(fmt.Sprintf("k:%d", i), "unknown", ""), w.token(ledger.ScopeIngest))
		r.ContentLength = -1 // it may become as large as any
		wg.Go(func() { w.do(r) })
	}
	for range 3 {
		<-reached
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := w.request("POST", "/v1/entries", large+record("k:x", "unknown", ""), w.token(ledger.ScopeIngest)).WithContext(ctx)
	r.ContentLength = -1
	if rec := w.do(r); rec.Code != 503 || !strings.Contains(rec.Body.String(), "busy") {
		t.Errorf("one too many: %d %s", rec.Code, rec.Body)
	}
	close(hold)
	wg.Wait()
	w.ledger.when(nil)
	w.post("/v1/entries", record("k:x", "unknown", ""), 200)
}
