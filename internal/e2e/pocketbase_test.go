package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/internal/realtest"
	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// config asks and sends through a proxy. The timings are short because they can
// be: nothing lands later than its request is over, and PocketBase has one
// database, so it reads its own writes.
const config = `
[ledger]
url = %q

[connectors.pb]
type = "rest"
base_url = %q
auth = { header = { Authorization = "${PB_TOKEN}" } }
timeout = "1s"
rate = { calls = 400, per = "1s", concurrent = 4 }
lands_within = "1s"
visible_within = "0s"
absent_after = 2
absent_spacing = "1s"
probe = { method = "GET", path = "/api/collections/deals" }

[[connectors.pb.operation]]
name = "deal.create"
canary = "canary-1"
carries = "action_key"
compare = { title = "title" }
lookup = { method = "GET", path = "/api/collections/deals/records", query = { filter = "action_key={key:pocketbase}", perPage = "500", page = "{page}" }, pages = { from = 1, total = "totalPages" }, items = "items", answered = "totalItems", match = "action_key", id = "id", batch = { max = 50, max_text = 3_400, each = "action_key={key:pocketbase}", join = " || ", missing = "negative", query = { filter = "{each}" } } }
send = { method = "POST", path = "/api/collections/deals/records", id = "id" }

[owners.revops]
name = "RevOps"

[[policy]]
retry = { max_attempts = 12, max_age = "1h", backoff = { kind = "exponential", base = "1s", factor = 2, max = "4s", jitter = 0.1 } }
settle = { for = "1h", every = "1s", pending_every = "1s" }
after_max_attempts = { state = "escalated", owner = "revops", due = "8h", allow = ["resolve", "cancel"] }
`

// TestPocketBase is the proof of the main claim. A workflow makes 200 records
// over a line that loses a third of the answers; its results go into the ledger
// as JSON Lines; reconcile runs until nothing moves, two passes beside each
// other, and loses answers of its own meanwhile. Then the records are counted at PocketBase, which refuses no
// second one: exactly one per action, none missing.
func TestPocketBase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		prove(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		prove(t, pgtest.DB(t))
	})
}

func prove(t *testing.T, ledgerURL string) {
	t.Parallel() // most of it is waiting for what the config promises
	pb, tp := realtest.StartPocketBase(t), realtest.StartToxiproxy(t)
	for _, c := range []string{collection, control} {
		pb.CreateCollection(t, c, "action_key", "title", "amount")
		pb.Create(t, c, map[string]string{"action_key": canary, "title": "always there", "amount": "0"})
	}

	// The workflow runs, once for us and once for the control.
	r := newRun(t, pb, tp)
	seen := r.send(t, collection)
	checkFaults(t, r, seen, pb.CountBy(t, collection, "action_key"))

	// The control: the same run with everything that failed sent again.
	seenControl := r.send(t, control)
	r.resend(t, pb, control, seenControl)
	avoided := duplicates(pb.CountBy(t, control, "action_key"))
	if avoided == 0 {
		t.Fatal("blind resending made no duplicate: then this test proves nothing")
	}

	// Into the ledger.
	line := tp.Proxy(t, pb.URL)
	p := newProgram(t, fmt.Sprintf(config, ledgerURL, line.URL), "PB_TOKEN="+pb.Token)
	p.run(t, []int{0}, "migrate")
	file := filepath.Join(p.dir, "results.jsonl")
	recs := make([]workflow.Record, len(seen))
	for i := range seen {
		recs[i] = workflow.RecordOf(r.actions[i], seen[i])
	}
	if err := workflow.WriteFile(file, recs); err != nil {
		t.Fatal(err)
	}
	p.run(t, []int{0}, "import", file)
	before := p.entries(t)
	if len(before) != len(recs) {
		t.Fatalf("%d entries after the import of %d records", len(before), len(recs))
	}

	// First on a clean line: what is there is found. Then with answers cut
	// behind their first 2,000 bytes: lookups that find nothing fit into that,
	// answers to our own sends do not.
	found := p.confirm(t, r)
	cut := realtest.CutAnswer(2000)
	line.Add(t, cut)
	lost := 0
	for deadline := time.Now().Add(60 * time.Second); lost == 0; {
		ta := p.pass(t)
		if ta.Counts["sent"] > 0 {
			for _, e := range p.entries(t) {
				if e.AttemptCount > 1 && e.Effect == "unknown" {
					lost++
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no send of ours was lost within a minute; last pass: %v", ta.Counts)
		}
		time.Sleep(time.Second) // so that those asked in one pass are due in one
	}
	line.Remove(t, cut)
	// And once with nobody there: nothing may follow from not being able to ask.
	line.Down(t)
	down := p.pass(t)
	if n := down.Counts["settled_applied"] + down.Counts["settled_not_applied"] + down.Counts["sent"] + down.Counts["reopened"]; n != 0 {
		t.Errorf("with PocketBase out of reach a pass settled, reopened or sent %d entries: %v", n, down.Counts)
	}
	line.Up(t)
	sum := p.settle(t, 3*time.Minute)

	// The verdict is PocketBase's.
	made := pb.CountBy(t, collection, "action_key")
	missing := 0
	for i, a := range r.actions {
		want := 1
		if r.faults[i].bad {
			want = 0
		}
		if n := made[a.Key]; n != want {
			t.Errorf("%s (%s): %d records at PocketBase, want %d", a.Key, r.faults[i].name, n, want)
			if n < want {
				missing++
			}
		}
		delete(made, a.Key)
	}
	delete(made, canary)
	if len(made) != 0 {
		t.Errorf("records that nobody asked for: %v", made)
	}

	// And the ledger says the same.
	after := p.entries(t)
	for i, a := range r.actions {
		e := after[a.Key]
		if r.faults[i].bad {
			if e.State != "escalated" || e.Owner != "revops" || e.DueAt == nil || e.LastClass != "validation" {
				t.Errorf("%s was refused and must be with its owner, with a due time: %+v", a.Key, e)
			}
			continue
		}
		if e.State != "settled" || e.Outcome != "applied" || e.RemoteID == "" || len(e.Flags) != 0 {
			t.Errorf("%s (%s) must be settled applied with the record's id and no flag: %+v", a.Key, r.faults[i].name, e)
		}
	}
	checkReport(t, p, r)
	checkShow(t, p, r)

	t.Logf("200 creates: %d answers lost by the line, %d sends of reconcile lost on top; %d were confirmed by looking, %d sends settled the rest",
		lostAnswers(seen), lost, found, sum["sent"])
	t.Logf("records at PocketBase: one per action, %d missing, 0 twice; blind resending made %d duplicates", missing, avoided)
}

// confirm runs passes until every record that is there has been found, before
// anything is proven absent, and returns how many were.
func (p *program) confirm(t *testing.T, r *run) int {
	t.Helper()
	for range 5 {
		p.pass(t)
		es := p.entries(t)
		found, open := 0, 0
		for i, f := range r.faults {
			switch e := es[r.actions[i].Key]; {
			case !f.made || f.name == "no fault":
			case e.State == "settled":
				found++
			default:
				open++
			}
		}
		if open == 0 {
			return found
		}
	}
	t.Fatal("after five passes not all records that are there have been found")
	return 0
}

// checkFaults makes sure that each fault did what it says: a proof whose faults
// do not bite proves nothing.
func checkFaults(t *testing.T, r *run, seen []workflow.Attempt, made map[string]int) {
	t.Helper()
	for i, f := range r.faults {
		at, want := seen[i], 0
		if f.made {
			want = 1
		}
		if n := made[r.actions[i].Key]; n != want {
			t.Errorf("%s: %d records of %s, want %d", f.name, n, r.actions[i].Key, want)
		}
		switch {
		case f.bad:
			if at.HTTPStatus != http.StatusBadRequest {
				t.Errorf("%s: the workflow saw %+v, want HTTP 400", f.name, at)
			}
		case f.name == "no fault":
			if !at.OK() {
				t.Errorf("%s: the workflow saw %+v", f.name, at)
			}
		case f.died:
		default:
			if at.OK() || at.HTTPStatus != 0 && f.toxic == nil {
				t.Errorf("%s: the workflow saw %+v, want no answer", f.name, at)
			}
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func duplicates(made map[string]int) int {
	n := 0
	for _, c := range made {
		n += max(0, c-1)
	}
	return n
}

func lostAnswers(seen []workflow.Attempt) int {
	n := 0
	for _, at := range seen {
		if at.HTTPStatus == 0 {
			n++
		}
	}
	return n
}

// checkReport: every entry is in exactly one class, and the classes tell how it
// was done.
func checkReport(t *testing.T, p *program, r *run) {
	t.Helper()
	var rep struct {
		Rows []map[string]any `json:"rows"`
	}
	p.json(t, []int{0}, &rep, "report", "outcomes", "--since", "24h")
	classes := []string{"manually_resolved", "recovered_after_retry", "confirmed_by_lookup", "first_attempt_success",
		"blocked", "permanently_failed", "deferred", "escalated", "waiting"}
	sum, total := map[string]int{}, 0
	for _, row := range rep.Rows {
		for _, c := range classes {
			n, _ := row[c].(float64)
			sum[c] += int(n)
		}
		n, _ := row["total"].(float64)
		total += int(n)
	}
	added := 0
	for _, c := range classes {
		added += sum[c]
	}
	if total != len(r.actions) || added != total {
		t.Errorf("report outcomes: classes add up to %d and totals to %d, want %d: %v", added, total, len(r.actions), sum)
	}
	want := map[string]int{}
	for _, f := range r.faults {
		switch {
		case f.bad:
			want["escalated"]++
		case f.name == "no fault":
			want["first_attempt_success"]++
		case f.made:
			want["confirmed_by_lookup"]++
		}
	}
	for c, n := range want {
		if sum[c] != n {
			t.Errorf("report outcomes: %s is %d, want %d: %v", c, sum[c], n, sum)
		}
	}
}

// checkShow: the timeline of an entry that was resent says why that was safe.
func checkShow(t *testing.T, p *program, r *run) {
	t.Helper()
	for i, f := range r.faults {
		if f.name != "request swallowed" {
			continue
		}
		var shown struct {
			entry
			Attempts []map[string]any `json:"attempts"`
			Evidence []struct {
				Finding string `json:"finding"`
			} `json:"evidence"`
			History []struct {
				From, To, Reason string
			} `json:"history"`
		}
		p.json(t, []int{0}, &shown, "show", r.actions[i].Key)
		negatives := 0
		for _, e := range shown.Evidence {
			if e.Finding == "absent" || e.Finding == "not_visible" {
				negatives++
			}
		}
		if len(shown.Attempts) < 2 || negatives < 2 || len(shown.History) < 4 {
			t.Errorf("show %s: %d attempts, %d negatives, %d changes; want 2, 2, 4 at least: %+v",
				r.actions[i].Key, len(shown.Attempts), negatives, len(shown.History), shown)
		}
		return
	}
}
