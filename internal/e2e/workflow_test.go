package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/realtest"
	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// fault is what happens to the workflow's one request.
type fault struct {
	name  string
	n     int
	toxic *realtest.Toxic // on the way; nil: none
	down  bool            // the proxy refuses connections
	bad   bool            // the payload is one that PocketBase refuses
	died  bool            // the workflow dies before it has a result, having promised a send_by
	made  bool            // the record exists afterwards
}

// patience is how long the workflow and reconcile wait for an answer. Above it
// lies only what DelayAnswer holds back.
const patience = time.Second

// faults add up to 200 actions, a third of them committed with the answer cut.
func faults() []fault {
	tox := func(t realtest.Toxic) *realtest.Toxic { return &t }
	return []fault{
		{name: "no fault", n: 96, made: true},
		{name: "answer cut at byte 0", n: 14, toxic: tox(realtest.CutAnswer(0)), made: true},
		{name: "answer cut in its first line", n: 12, toxic: tox(realtest.CutAnswer(40)), made: true},
		{name: "answer cut in its header", n: 12, toxic: tox(realtest.CutAnswer(200)), made: true},
		{name: "answer cut in its body", n: 8, toxic: tox(realtest.CutAnswer(2000)), made: true},
		{name: "connection reset instead of an answer", n: 10, toxic: tox(realtest.ResetAnswer()), made: true},
		{name: "answer too late", n: 10, toxic: tox(realtest.DelayAnswer(3 * patience)), made: true},
		{name: "request swallowed", n: 10, toxic: tox(realtest.SwallowRequest(200 * time.Millisecond))},
		{name: "connection reset before the request", n: 10, toxic: tox(realtest.ResetRequest())},
		{name: "connection refused", n: 4, down: true},
		{name: "payload refused", n: 12, bad: true},
		{name: "workflow died after the request", n: 1, died: true, made: true},
		{name: "workflow died before the request", n: 1, died: true},
	}
}

// collections of PocketBase: one that reconcile looks after, and one for the
// control, where everything that failed is simply sent again.
const (
	collection = "deals"
	control    = "deals_resent"
	canary     = "canary-1"
)

// run is one workflow run of 200 actions.
type run struct {
	actions []workflow.Action
	faults  []fault // of the action with the same index
	routes  map[string]*realtest.Proxy
	client  *workflow.Client
}

// newRun lays 200 actions in a fixed, mixed order, and a proxy for each fault.
func newRun(t *testing.T, pb *realtest.PocketBase, tp *realtest.Toxiproxy) *run {
	t.Helper()
	r := &run{routes: map[string]*realtest.Proxy{}, client: &workflow.Client{
		Timeout: patience, IDPath: "id", Code: pocketBaseCode, Header: http.Header{"Authorization": {pb.Token}},
	}}
	for _, f := range faults() {
		p := tp.Proxy(t, pb.URL)
		r.routes[f.name] = p
		if f.toxic != nil {
			p.Add(t, *f.toxic)
		}
		if f.down {
			p.Down(t)
		}
		for range f.n {
			r.faults = append(r.faults, f)
		}
	}
	rng := rand.New(rand.NewPCG(11, 200))
	rng.Shuffle(len(r.faults), func(i, j int) { r.faults[i], r.faults[j] = r.faults[j], r.faults[i] })
	for i, f := range r.faults {
		key := fmt.Sprintf("run-%04d:create-deal", i+1)
		// Long enough that the answer to a create is longer than an empty
		// lookup's, so that the one can be cut and the other not.
		title := fmt.Sprintf("deal %d %s", i+1, strings.Repeat("x", 3000))
		if f.bad {
			title = strings.Repeat("t", 6000) // PocketBase takes 5,000
		}
		payload, err := json.Marshal(map[string]string{"action_key": key, "title": title, "amount": fmt.Sprintf("%d.90", 100+i)})
		if err != nil {
			t.Fatal(err)
		}
		r.actions = append(r.actions, workflow.Action{
			Key: key, Workflow: "deal-intake", Version: fmt.Sprint(3 + i/120), Connector: "pb", Operation: "deal.create",
			RecordID: fmt.Sprintf("form-%d", i+1), OutcomeKey: fmt.Sprintf("deal:form-%d", i+1), Owner: "revops", Payload: payload,
		})
	}
	return r
}

// send does every action once, each over the route of its fault, and returns
// what the workflow saw.
func (r *run) send(t *testing.T, into string) []workflow.Attempt {
	t.Helper()
	seen := make([]workflow.Attempt, len(r.actions))
	workflow.Each(len(r.actions), 8, func(i int) {
		f := r.faults[i]
		if f.died {
			start := time.Now().UTC()
			promise := start.Add(patience)
			if !f.made {
				// Proven absent later than the others, so that those are all
				// resent together.
				promise = start.Add(8 * patience)
			}
			seen[i] = workflow.Attempt{AttemptID: r.actions[i].Key + "/1", StartedAt: start, Status: "started", SendBy: &promise}
			if !f.made {
				return
			}
		}
		at := r.client.Send(t.Context(), realtest.RecordsURL(r.routes[f.name].URL, into), r.actions[i])
		if !f.died {
			seen[i] = at
		}
	})
	return seen
}

// resend sends once more, on a clean line, whatever did not end well and was
// not refused: what a workflow without a ledger can do.
func (r *run) resend(t *testing.T, pb *realtest.PocketBase, into string, seen []workflow.Attempt) {
	t.Helper()
	workflow.Each(len(r.actions), 8, func(i int) {
		if seen[i].OK() || seen[i].HTTPStatus == http.StatusBadRequest {
			return
		}
		if at := r.client.Send(t.Context(), realtest.RecordsURL(pb.URL, into), r.actions[i]); !at.OK() {
			t.Errorf("resend of %s on a clean line: %+v", r.actions[i].Key, at)
		}
	})
}

// pocketBaseCode reads code and message of a refusal: the first field's.
func pocketBaseCode(body []byte) (code, message string) {
	var e struct {
		Message string
		Data    map[string]struct{ Code, Message string }
	}
	if json.Unmarshal(body, &e) != nil {
		return "", ""
	}
	for name, f := range e.Data {
		return f.Code, name + ": " + f.Message
	}
	return "", e.Message
}
