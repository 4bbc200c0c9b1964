package realtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/realtest"
)

// send creates a record on a connection of its own, and returns the status of
// an answer that arrived whole, else the error.
func send(t *testing.T, base, key string, patience time.Duration) (int, error) {
	t.Helper()
	// The answer repeats the amount, so that it has a body worth cutting.
	body, err := json.Marshal(map[string]string{"action_key": key, "amount": strings.Repeat("9", 2000)})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, realtest.RecordsURL(base, "deals"), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func TestTheFaultDecidesWhetherTheRecordIsThereAndTheClientCannotTell(t *testing.T) {
	pb := realtest.StartPocketBase(t)
	pb.CreateCollection(t, "deals", "action_key", "amount")
	proxy := realtest.StartToxiproxy(t).Proxy(t, pb.URL)

	want := map[string]int{}
	for name, c := range map[string]struct {
		toxic     realtest.Toxic
		patience  time.Duration
		committed int
	}{
		"answer cut before its first byte":     {toxic: realtest.CutAnswer(0), committed: 1},
		"answer cut inside the headers":        {toxic: realtest.CutAnswer(40), committed: 1},
		"answer cut inside the body":           {toxic: realtest.CutAnswer(1000), committed: 1},
		"answer replaced by a reset":           {toxic: realtest.ResetAnswer(), committed: 1},
		"answer later than the client's limit": {toxic: realtest.DelayAnswer(2 * time.Second), patience: 500 * time.Millisecond, committed: 1},
		"request swallowed":                    {toxic: realtest.SwallowRequest(100 * time.Millisecond), committed: 0},
		"request met by a reset":               {toxic: realtest.ResetRequest(), committed: 0},
	} {
		if c.committed > 0 {
			want[name] = c.committed
		}
		if c.patience == 0 {
			c.patience = 10 * time.Second
		}
		proxy.With(t, c.toxic, func() {
			status, err := send(t, proxy.URL, name, c.patience)
			if err == nil {
				t.Errorf("%s: the client got a whole answer, status %d", name, status)
			}
			t.Logf("%s: the client sees: %v", name, err)
		})
	}

	proxy.Down(t)
	if _, err := send(t, proxy.URL, "refused", 10*time.Second); err == nil {
		t.Error("proxy down: the client got an answer")
	}
	proxy.Up(t)
	if status, err := send(t, proxy.URL, "no fault", 10*time.Second); err != nil || status != http.StatusOK {
		t.Errorf("no fault: status %d, error %v", status, err)
	}
	want["no fault"] = 1

	// What a blind resend would do: the collection itself refuses no second.
	for range 2 {
		pb.Create(t, "deals", map[string]string{"action_key": "sent twice"})
	}
	want["sent twice"] = 2

	got := pb.CountBy(t, "deals", "action_key")
	for key := range got {
		if want[key] == 0 {
			t.Errorf("%q: %d records, want none", key, got[key])
		}
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%q: %d records, want %d", key, got[key], n)
		}
	}
}

func TestRecordsAreReadBeyondOnePage(t *testing.T) {
	t.Parallel()
	pb := realtest.StartPocketBase(t)
	pb.CreateCollection(t, "deals", "action_key")
	const n = 1005
	for range n {
		pb.Create(t, "deals", map[string]string{"action_key": "k"})
	}
	if got := len(pb.Records(t, "deals")); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

func TestAListRuleHidesRecordsAndRefusesNobody(t *testing.T) {
	t.Parallel()
	pb := realtest.StartPocketBase(t)
	pb.CreateCollection(t, "deals", "action_key")
	id := pb.Create(t, "deals", map[string]string{"action_key": "k1"})
	nobody := "action_key = 'none of these'"
	pb.SetRules(t, "deals", &nobody, &nobody)

	res, err := http.Get(realtest.RecordsURL(pb.URL, "deals"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct{ TotalItems int }
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || page.TotalItems != 0 {
		t.Errorf("status %d with %d records, want 200 with none", res.StatusCode, page.TotalItems)
	}
	if got := pb.CountBy(t, "deals", "action_key")["k1"]; got != 1 {
		t.Errorf("superuser sees %d records, want 1", got)
	}
	pb.Delete(t, "deals", id)
	if got := len(pb.Records(t, "deals")); got != 0 {
		t.Errorf("%d records after the delete, want none", got)
	}
}

func TestARateLimitRefusesWith429UntilItIsLifted(t *testing.T) {
	t.Parallel()
	pb := realtest.StartPocketBase(t)
	pb.CreateCollection(t, "deals", "action_key")
	pb.LimitRate(t, 2, 60)
	var got []int
	for range 3 {
		status, err := send(t, pb.URL, "k", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Errorf("statuses %v, want 200, 200, 429", got)
	}
	pb.LimitRate(t, 0, 0)
	if status, err := send(t, pb.URL, "k", 10*time.Second); status != 200 {
		t.Errorf("after lifting the limit: status %d, error %v", status, err)
	}
}

func TestAPausedApplicationAnswersWhenItGoesOn(t *testing.T) {
	t.Parallel()
	pb := realtest.StartPocketBase(t)
	pb.CreateCollection(t, "deals", "action_key")
	pb.Pause()
	if _, err := send(t, pb.URL, "k1", 200*time.Millisecond); err == nil {
		t.Error("paused: the client got an answer")
	}
	pb.Continue()
	if status, err := send(t, pb.URL, "k2", 10*time.Second); status != 200 {
		t.Errorf("after the pause: status %d, error %v", status, err)
	}
}
