package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, f Faults) (*Provider, string) {
	t.Helper()
	p := New(Config{Seed: 1, Lands: 40 * time.Millisecond, Visible: 0})
	p.SetFaults(f)
	addr, stop, err := p.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return p, "http://" + addr
}

func post(t *testing.T, url string, k Kind, key string) (status int, err error) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/"+string(k)+"/actions", strings.NewReader(`{"reference":"`+key+`","amount_cents":5}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.ReadAll(resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestEachFateIsWhatItSays(t *testing.T) {
	for name, c := range map[string]struct {
		faults  Faults
		status  int // 0: no answer
		effects int
	}{
		"well":              {Faults{}, 201, 1},
		"answer cut":        {Faults{Cut: 1}, 0, 1},
		"answer torn":       {Faults{Torn: 1}, 0, 1},
		"done late":         {Faults{Late: 1}, 0, 1},
		"done and 500":      {Faults{Failed: 1}, 500, 1},
		"request swallowed": {Faults{Swallowed: 1}, 0, 0},
		"503":               {Faults{Down: 1}, 503, 0},
		"429":               {Faults{Limited: 1}, 429, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, url := start(t, c.faults)
			status, err := post(t, url, Lookup, "k")
			if c.status == 0 && err == nil || c.status != 0 && (err != nil || status != c.status) {
				t.Errorf("got status %d and error %v, want %d", status, err, c.status)
			}
			p.Settle()
			if a := p.Action(Lookup, "k"); a.Requests != 1 || len(a.Effects) != c.effects {
				t.Errorf("got %d requests and %d effects, want 1 and %d", a.Requests, len(a.Effects), c.effects)
			}
		})
	}
}

func TestOnlyOneKindRefusesASecondEffect(t *testing.T) {
	p, url := start(t, Faults{})
	for k, want := range map[Kind]int{Refuses: 1, Lookup: 2, Neither: 2} {
		for range 2 {
			if _, err := post(t, url, k, "k"); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.Action(k, "k").Effects); n != want {
			t.Errorf("%s: %d effects, want %d", k, n, want)
		}
	}
}

func TestSearchShowsTheKeysAskedFor(t *testing.T) {
	p, url := start(t, Faults{})
	p.Add(Lookup, "a", 1)
	p.Add(Lookup, "b", 2)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/lookup/actions?reference=a,c", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read below
	var out struct{ Data []request }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out.Data); got != "[{x-1 a 1}]" {
		t.Errorf("found %s", got)
	}
}
