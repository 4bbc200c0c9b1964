package rest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
)

const oneLookup = `
rate = { calls = 1000, per = "1s" }
[[operation]]
name = "one"
lookup = { method = "GET", path = "/one/{key}", match = "k", id = "id" }
send = { method = "POST", path = "/one", headers = { X-Reference = "{key}" } }
`

func TestKindsOfAuth(t *testing.T) {
	cases := map[string]struct{ auth, header, want string }{
		"bearer":              {`{ bearer = "${BILLING_TOKEN}" }`, "Authorization", "Bearer secret-token-value"},
		"basic":               {`{ basic = { user = "ada", password = "pass-word" } }`, "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:pass-word"))},
		"header":              {`{ header = { X-Api-Key = "${BILLING_TOKEN}" } }`, "X-Api-Key", "secret-token-value"},
		"a scheme of its own": {`{ header = { Authorization = "GenieKey secret-token-value" } }`, "Authorization", "GenieKey secret-token-value"},
		"query":               {`{ query = { api_key = "a&b" } }`, "", "/one/k1?api_key=a%26b"},
		"none":                {`{ none = true }`, "Authorization", ""},
		"none as text":        {`"none"`, "Authorization", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			sys.on("GET /one/k1", 200, `{"k":"k1","id":"1"}`)
			c := mustOpen(t, sys.URL, "auth = "+tc.auth+oneLookup)
			if _, e := ask(t, c, "one", "k1"); e != nil {
				t.Fatal(e)
			}
			got := strings.TrimPrefix(sys.sent()[0], "GET ")
			if tc.header != "" {
				got = sys.headers[0].Get(tc.header)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAUserInBaseURLIsBasicAuth(t *testing.T) {
	sys := newSystem(t)
	sys.on("GET /one/k1", 200, `{"k":"k1","id":"1"}`)
	c := mustOpen(t, strings.Replace(sys.URL, "http://", "http://ada:pass-word@", 1), oneLookup)
	if _, e := ask(t, c, "one", "k1"); e != nil {
		t.Fatal(e)
	}
	if got := sys.headers[0].Get("Authorization"); got != "Basic "+base64.StdEncoding.EncodeToString([]byte("ada:pass-word")) {
		t.Errorf("Authorization: %q", got)
	}
	sys.Close()
	if _, e := ask(t, c, "one", "k1"); e == nil || strings.Contains(e.Error(), "pass-word") || strings.Contains(e.Error(), "ada:") {
		t.Errorf("%v", e)
	}
}

func TestTokensAreAskedForOnceAndRenewed(t *testing.T) {
	const login = `auth = { login = { method = "POST", path = "/login", json = { identity = "ada@example.org", password = "pass{word}" }, token = "token", lasts = "30m" } }`
	const oauth = `auth = { oauth2 = { grant = "%s", token_url = "%s/token", client_id = "client-1", client_secret = "client-secret", %s scope = "a b" } }`
	for name, kind := range map[string]string{"login": "login", "client_credentials": "client_credentials", "refresh_token": "refresh_token",
		"the client in the body": "client_credentials"} {
		t.Run(name, func(t *testing.T) {
			inBody := strings.Contains(name, "body")
			sys := newSystem(t)
			auth := strings.Replace(strings.Replace(login, "pass{word}", "pass{{word}}", 1), "%", "%%", -1)
			if kind != "login" {
				extra := ""
				if kind == "refresh_token" {
					extra = `refresh_token = "refresh-me",`
				}
				auth = fmt.Sprintf(oauth, kind, sys.URL, extra)
			}
			var issued atomic.Int32
			token := func(w http.ResponseWriter, r *http.Request, body string) {
				user, password, _ := r.BasicAuth()
				switch {
				case kind == "login":
				case inBody && !strings.Contains(body, "client_secret"):
					w.WriteHeader(401)
					_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
					return
				case inBody:
					body = strings.Replace(body, "&client_id=client-1&client_secret=client-secret", "", 1)
				case user != "client-1" || password != "client-secret":
					t.Errorf("token request by %q, %q", user, password)
				}
				n := issued.Add(1)
				want := map[string]string{
					"login":              `{"identity":"ada@example.org","password":"pass{word}"}`,
					"client_credentials": "grant_type=client_credentials&scope=a%20b",
					"refresh_token":      "grant_type=refresh_token&refresh_token=refresh-me&scope=a%20b",
				}[kind]
				if body != want {
					t.Errorf("token request %s, want %s", body, want)
				}
				fmt.Fprintf(w, `{"token":"issued-token-%d","access_token":"issued-token-%d","expires_in":3600}`, n, n)
			}
			sys.do("POST /login", token)
			sys.do("POST /token", token)
			dead := "issued-token-1"
			sys.do("GET /one/k1", func(w http.ResponseWriter, r *http.Request, _ string) {
				if got := r.Header.Get("Authorization"); got == "Bearer "+dead {
					w.WriteHeader(401)
					_, _ = io.WriteString(w, `{"message":"token `+dead+` is over"}`)
					return
				}
				_, _ = io.WriteString(w, `{"k":"k1","id":"1"}`)
			})
			c := mustOpen(t, sys.URL, auth+oneLookup)
			dead = ""
			for range 3 {
				if _, e := ask(t, c, "one", "k1"); e != nil {
					t.Fatal(e)
				}
			}
			if n := issued.Load(); n != 1 {
				t.Errorf("%d tokens asked for, want 1", n)
			}
			dead = "issued-token-1"
			if a, e := ask(t, c, "one", "k1"); e != nil || a.Requests != 2 || issued.Load() != 2 {
				t.Errorf("a question is put again with a new token: %+v, %v, %d tokens", a, e, issued.Load())
			}
			// A send is not: its 401 says that nothing was done.
			dead = "issued-token-2"
			sys.do("POST /one", func(w http.ResponseWriter, r *http.Request, _ string) {
				w.WriteHeader(401)
				_, _ = io.WriteString(w, `{"message":"token issued-token-2 is over"}`)
			})
			r := send(c, "one")
			if r.Kind != connectors.KindAuth || r.Effect != connectors.EffectNotDone || strings.Contains(r.Message, "issued-token") {
				t.Errorf("%+v", r)
			}
			sent := sys.sent()
			if n := strings.Count(strings.Join(sent, "\n"), "POST /one"); n != 1 {
				t.Errorf("sent %d times", n)
			}
			// The next call has a new one.
			if _, e := ask(t, c, "one", "k1"); e != nil || issued.Load() != 3 {
				t.Errorf("%v, %d tokens", e, issued.Load())
			}
		})
	}
}

func TestARefusedTokenRequestIsAuth(t *testing.T) {
	sys := newSystem(t)
	sys.on("POST /token", 400, `{"error":"invalid_client","error_description":"client-secret is wrong"}`)
	c := mustOpen(t, sys.URL, `auth = { oauth2 = { grant = "client_credentials", token_url = "`+sys.URL+`/token", client_id = "client-1", client_secret = "client-secret" } }`+oneLookup)
	_, e := ask(t, c, "one", "k1")
	if e == nil || e.Kind != connectors.KindAuth || strings.Contains(e.Error(), "client-secret") {
		t.Errorf("%v", e)
	}
	if r := send(c, "one"); r.Kind != connectors.KindAuth || r.Effect != connectors.EffectNotDone || r.Wrote {
		t.Errorf("%+v", r)
	}
}

// pacer counts calls and may refuse.
type pacer struct {
	n   atomic.Int32
	err error
}

func (p *pacer) Wait(context.Context, string) error { p.n.Add(1); return p.err }

func TestEveryCallWaitsForItsLane(t *testing.T) {
	sys := newSystem(t)
	sys.on("POST /login", 200, `{"token":"issued-token"}`)
	sys.on("GET /one/k1", 200, `{"k":"k1","id":"1"}`)
	p := &pacer{}
	m := fromTOML(t, `auth = { login = { method = "POST", path = "/login", json = { password = "pass-word" }, token = "token" } }`+oneLookup)
	m["base_url"] = sys.URL
	c, err := Open(connectors.Config{Name: "sys", Table: m, Env: noEnv, Pacer: p})
	if err != nil {
		t.Fatal(err)
	}
	if _, e := ask(t, c, "one", "k1"); e != nil || p.n.Load() != 2 {
		t.Errorf("%v, %d waits, want 2", e, p.n.Load())
	}
	p.err = errors.New("the lane is closed")
	if _, e := ask(t, c, "one", "k1"); e == nil || e.Kind != connectors.KindStopping {
		t.Errorf("%v", e)
	}
	if r := send(c, "one"); r.Effect != connectors.EffectNotDone || r.Wrote {
		t.Errorf("%+v", r)
	}
}

func TestNoSecretLeaves(t *testing.T) {
	sys := newSystem(t)
	const token = "SECRET5-very/long+token"
	m := fromTOML(t, `auth = { bearer = "${TOKEN}" }
headers = { X-Other = "${OTHER}" }`+oneLookup+`[[operation]]
name = "hook"
send = { method = "POST", path = "/services/${HOOK}" }`)
	m["base_url"] = sys.URL
	c, err := Open(connectors.Config{Name: "sys", Table: m, Env: env("TOKEN", token, "OTHER", "OTHER-secret-1", "HOOK", "HOOK0123456789")})
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{
		"L06 echoed":      `{"message":"Bad api key '` + token + `'"}`,
		"cut":             `{"message":"Bad api key 'SECRET5-very/lo...'"}`,
		"percent-encoded": `{"message":"Bad ?k=SECRET5-very%2Flong%2Btoken"}`,
		"as a code":       `{"code":"OTHER-secret-1","message":"x"}`,
		"a page":          `<html><title>SECRET5-very/long+token</title></html>`,
		"plain text":      token,
		"its own address": `{"message":"Route POST:/services/HOOK0123456789 not found"}`,
	}
	for name, body := range bodies {
		for _, status := range []int{200, 400, 401, 500} {
			sys.on("GET /one/k1", status, body, "Retry-After", token)
			sys.on("POST /one", status, body, "Retry-After", token)
			_, e := ask(t, c, "one", "k1")
			r := send(c, "one")
			for _, text := range []string{fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", r)} {
				if strings.Contains(text, "SECRET5") || strings.Contains(text, "HOOK01") || strings.Contains(text, "OTHER-secret") {
					t.Errorf("%s, %d: %s", name, status, text)
				}
			}
		}
	}
	sys.Close()
	if _, e := ask(t, c, "one", "k1"); e == nil || strings.Contains(fmt.Sprintf("%+v", e), "SECRET5") {
		t.Errorf("%v", e)
	}
	if text := fmt.Sprintf("%+v", c.Info()); strings.Contains(text, "SECRET5") {
		t.Errorf("Info holds the token")
	}
	long := strings.Repeat("x", 700)
	sys2 := newSystem(t)
	sys2.on("GET /one/k1", 400, `{"message":"`+long+`"}`)
	c2 := mustOpen(t, sys2.URL, oneLookup)
	if _, e := ask(t, c2, "one", "k1"); len([]rune(e.Message)) > 500 {
		t.Errorf("%d characters", len([]rune(e.Message)))
	}
}

func TestProbe(t *testing.T) {
	sys := newSystem(t)
	c := mustOpen(t, sys.URL, `probe = { method = "GET", path = "/me", account = "acct", mode = "live", expect = { role = ["admin", "agent"] } }`+oneLookup)
	sys.on("GET /me", 200, `{"acct":"a1","live":false,"role":"agent"}`)
	if id, err := c.Probe(context.Background()); err != nil || id != (connectors.Identity{Account: "a1", Mode: "false"}) {
		t.Errorf("%+v, %v", id, err)
	}
	for name, tc := range map[string]struct {
		status int
		body   string
		kind   connectors.Kind
	}{
		"a stranger is answered as nobody": {200, `{"acct":"a1","live":false,"role":"end-user"}`, connectors.KindAuth},
		"401":                              {401, `{}`, connectors.KindAuth},
		"not JSON":                         {200, `ok`, connectors.KindMalformed},
	} {
		sys.on("GET /me", tc.status, tc.body)
		_, err := c.Probe(context.Background())
		var e *connectors.Error
		if !errors.As(err, &e) || e.Kind != tc.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := mustOpen(t, sys.URL, oneLookup).Probe(context.Background()); err == nil {
		t.Error("a definition without probe answers")
	}
}

func TestTokensOfLateAreMaskedAndOldOnesAreLetGo(t *testing.T) {
	sys := newSystem(t)
	var given []string
	sys.do("POST /token", func(w http.ResponseWriter, _ *http.Request, _ string) {
		given = append(given, rand.Text())
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":1}`, given[len(given)-1])
	})
	sys.do("GET /one/k1", func(w http.ResponseWriter, r *http.Request, _ string) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"message":"%s is over"}`, r.Header.Get("Authorization"))
	})
	c := mustOpen(t, sys.URL, `auth = { oauth2 = { grant = "client_credentials", token_url = "`+sys.URL+`/token", client_id = "client-1", client_secret = "client-secret" } }`+oneLookup)
	for range 10 {
		if _, e := ask(t, c, "one", "k1"); e == nil || strings.Contains(e.Message, given[len(given)-1]) {
			t.Errorf("%v", e)
		}
	}
	text := strings.Join(given, " ")
	for i, token := range given {
		if masked := !strings.Contains(c.text(text), token); masked != (i >= len(given)-keptTokens) {
			t.Errorf("token %d of %d: masked is %v", i+1, len(given), masked)
		}
	}
	if masked := c.text("client-secret"); masked == "client-secret" {
		t.Error("the credential is masked no more")
	}
}
