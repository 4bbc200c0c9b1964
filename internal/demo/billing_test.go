package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// fixture is a billing system with its own clock, and a client of it.
func fixture(t *testing.T, scripts map[string]script) (b *billing, url string, c *workflow.Client) {
	t.Helper()
	b = newBilling("t", scripts, []customer{{ID: "c-1", OptedIn: true, Stage: "active"}})
	srv := httptest.NewServer(b.handler())
	t.Cleanup(srv.Close)
	return b, srv.URL, client("t")
}

func ask(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func action(ref string) workflow.Action {
	p, _ := json.Marshal(map[string]any{"reference": ref, "customer": "c-1", "amount_cents": 1990})
	return workflow.Action{Key: ref, Payload: p}
}

func TestEachFateDoesWhatItSays(t *testing.T) {
	for f, want := range map[fate]struct {
		status string
		http   int
		class  string
	}{
		fateMade:     {"ok", 201, ""},
		fateCut:      {"error", 0, "network"},
		fateTorn:     {"error", 0, "network"},
		fateLate:     {"error", 0, "timeout"},
		fateError:    {"error", 500, ""},
		fateSwallow:  {"error", 0, "network"},
		fateOverload: {"error", 503, ""},
		fateLimit:    {"error", 429, ""},
		fateRefuse:   {"error", 422, ""},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b, url, c := fixture(t, map[string]script{"r": {fates: []fate{f}}})
			at := c.Send(t.Context(), url+"/invoices", action("r"))
			if at.Status != want.status || at.HTTPStatus != want.http || at.ErrorClass != want.class {
				t.Errorf("the caller saw %+v, want %+v", at, want)
			}
			if made := b.count()["r"] == 1; made != f.creates() {
				t.Errorf("invoice made: %t, want %t", made, f.creates())
			}
		})
	}
}

func TestNothingRefusesASecondInvoice(t *testing.T) {
	b, url, c := fixture(t, map[string]script{"r": {fates: []fate{fateCut}}})
	c.Send(t.Context(), url+"/invoices", action("r"))
	if at := c.Send(t.Context(), url+"/invoices", action("r")); !at.OK() {
		t.Fatalf("second send: %+v", at)
	}
	if n := b.count()["r"]; n != 2 {
		t.Errorf("%d invoices after a blind resend, want 2: without that the demonstration proves nothing", n)
	}
}

func TestSearchLagsBehindAndAnswersForMany(t *testing.T) {
	b, url, c := fixture(t, map[string]script{
		"late":    {lag: time.Minute},
		"pending": {opens: time.Hour},
	})
	clock := time.Now()
	b.now = func() time.Time { return clock }
	for _, ref := range []string{"late", "pending", "plain"} {
		c.Send(t.Context(), url+"/invoices", action(ref))
	}
	q := url + "/invoices?reference=late,pending,plain,never"
	_, body := ask(t, q, "t")
	if strings.Contains(body, `"late"`) || !strings.Contains(body, `"processing"`) || !strings.Contains(body, `"plain"`) {
		t.Errorf("want pending and plain, not the one that lags: %s", body)
	}
	clock = clock.Add(2 * time.Hour)
	_, body = ask(t, q, "t")
	if !strings.Contains(body, `"late"`) || strings.Contains(body, `"processing"`) {
		t.Errorf("want all three, open: %s", body)
	}
	if _, body := ask(t, url+"/invoices?reference=none", "t"); strings.TrimSpace(body) != `{"data":[]}` {
		t.Errorf("none is an empty list, got %s", body)
	}
	if status, _ := ask(t, q, "wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: HTTP %d, want 401", status)
	}
}

func TestPlanIsTwoHundredDifferentActions(t *testing.T) {
	todos := plan()
	seen := map[string]bool{}
	wanted, lost := 0, 0
	for _, a := range todos {
		if seen[a.Key] {
			t.Errorf("action key %q is used twice", a.Key)
		}
		seen[a.Key] = true
		if a.wanted() {
			wanted++
		}
		if a.first() != fateMade && a.first().creates() {
			lost++
		}
	}
	if len(todos) != 200 || wanted != 192 || lost != 43 {
		t.Errorf("%d actions, %d invoices wanted, %d created with the answer lost; want 200, 192, 43", len(todos), wanted, lost)
	}
}
