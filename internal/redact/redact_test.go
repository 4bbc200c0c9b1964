package redact

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextMasksWhereSecretsStand(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"query of an address (L01)": {
			`Get "https://api.example.org/v1?api_key=SECRET1&id=5": dial tcp: i/o timeout`,
			`Get "https://api.example.org/v1?api_key=[redacted]&id=5": dial tcp: i/o timeout`},
		"token and sig in a query": {
			`https://h.example/a?token=SECRET1&sig=SECRET2&id=5`, `https://h.example/a?token=[redacted]&sig=[redacted]&id=5`},
		"user information": {
			`dial postgres://app:SECRET1@db.example:5432/x failed`, `dial postgres://app:[redacted]@db.example:5432/x failed`},
		"user information with an at sign in the password": {
			`https://u:SEC@RET1@h.example/x`, `https://u:[redacted]@h.example/x`},
		"a token as the user":       {`https://SECRET1@h.example/x`, `https://[redacted]@h.example/x`},
		"percent-encoded query":     {`next=https%3A%2F%2Fh.example%2F%3Fapi_key%3DSECRET1%26id%3D5`, `next=https%3A%2F%2Fh.example%2F%3Fapi_key%3D[redacted]%26id%3D5`},
		"percent-encoded user info": {`u=https%3A%2F%2Fa%3ASECRET1%40h.example`, `u=https%3A%2F%2Fa%3A[redacted]%40h.example`},
		"error object (L02)": {
			`{"message":"403","config":{"headers":{"Authorization":"Bearer SECRET2","X-Api-Key":"SECRET3"},"data":"{\"password\":\"SECRET4\"}"}}`,
			`{"message":"403","config":{"headers":{"Authorization":"[redacted]","X-Api-Key":"[redacted]"},"data":"{\"password\":\"[redacted]\"}"}}`},
		"quotes inside a value":           {`{"password":"a\"SECRET1","id":5}`, `{"password":"[redacted]","id":5}`},
		"cut inside the value":            {`{"id":5,"client_secret":"SECR`, `{"id":5,"client_secret":"[redacted]`},
		"number as value":                 {`{"pwd":12345,"id":5}`, `{"pwd":"[redacted]","id":5}`},
		"object as value":                 {`{"credentials":{"user":"u","x":["SECRET1"]},"id":5}`, `{"credentials":"[redacted]","id":5}`},
		"header line":                     {"Authorization: Bearer SECRET2\r\nX-Id: 5", "Authorization: [redacted]\r\nX-Id: 5"},
		"cookie line":                     {"Set-Cookie: sid=SECRET1; Path=/", "Set-Cookie: [redacted]"},
		"bearer in running text":          {"rejected Bearer SECRET2 for id 5", "rejected Bearer [redacted] for id 5"},
		"a bearer token alone":            {"Bearer xyz", "Bearer [redacted]"},
		"a bearer token alone, in a line": {"sent: Bearer xyz\nid 5", "sent: Bearer [redacted]\nid 5"},
		"a bearer token of letters":       {"the server saw bearer abcDEFghiJKL and refused", "the server saw bearer [redacted] and refused"},
		"a bearer token in quotes":        {`got "Bearer xyz", want another`, `got "Bearer [redacted]", want another`},
		"basic credentials of letters":    {"Basic dXNlcjpwYXNz was refused", "Basic [redacted] was refused"},
		"a token with spaces around":      {"token=SECRET1 api_key=SECRET2 id=5", "token=[redacted] api_key=[redacted] id=5"},
		"a JSON web token":                {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl expired", "jwt [redacted] expired"},
		"a mail server's address":         {"smtps://ada:SECRET1@mail.example: 535", "smtps://ada:[redacted]@mail.example: 535"},
		"news has a bearer":               {"the bearer of news; a bearer bond; Bearer bonds are cheap", "the bearer of news; a bearer bond; Bearer bonds are cheap"},
		"a bearer token is a term":        {"missing bearer token; Bearer authentication required. Use Bearer auth", "missing bearer token; Bearer authentication required. Use Bearer auth"},
		"a challenge":                     {`WWW-Authenticate: Bearer realm="api", error="invalid_token"`, `WWW-Authenticate: Bearer realm="api", error="invalid_token"`},
		"basics are no credentials":       {"the basic plan, basic-tier, Basic Support", "the basic plan, basic-tier, Basic Support"},
		"password in running text":        {"login with password: hunter", "login with password: [redacted]"},
		"form body":                       {"grant_type=x&client_secret=SECRET1&a=b", "grant_type=x&client_secret=[redacted]&a=b"},
		"well-known form":                 {"key sk_live_abcdefgh12345678 refused", "key [redacted] refused"},
		"a scheme inside a parameter":     {"authorization=Bearer SECRET2&a=b", "authorization=Bearer [redacted]&a=b"},
		"the same, percent-encoded":       {"Authorization%3DBearer%20SECRET2%26a", "Authorization%3DBearer%20[redacted]%26a"},
		"a hash as Ruby prints it":        {`{"Authorization"=>"Bearer SECRET2", "id"=>5}`, `{"Authorization"=>"[redacted]", "id"=>5}`},
		"a digest":                        {"Proxy-Authorization: Digest username=\"ada\", response=\"SECRET1\"\r\nX: 5", "Proxy-Authorization: [redacted]\r\nX: 5"},
		"an echoed key in quotes (L06)":   {"401 Bad api key 'SECRET5'", "401 Bad api key '[redacted]'"},
		"an echoed token in quotes":       {"token \"SECRET5\" was revoked", "token \"[redacted]\" was revoked"},
		"an api key in running text":      {"Bad api key: SECRET5", "Bad api key: [redacted]"},
		"a token of our own":              {"401 for reconcile_CJStyoDh_AeQnujPnW-lsCIL8OG8zPgG2C-NSjfUILw.", "401 for [redacted]."},
		"a table of our own":              {"relation \"reconcile_schema\" does not exist", "relation \"reconcile_schema\" does not exist"},
		"tokens known by their form":      {"xoxb-123456789012-abcdef ghp_abcdefghijklmnopqrstuvwxyz0123456789 AKIAIOSFODNN7EXAMPLE", "[redacted] [redacted] [redacted]"},
		"a private key":                   {"x -----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY----- y", "x -----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY----- y"},
		"a private key that is cut":       {"-----BEGIN PRIVATE KEY-----\nMIIabc", "-----BEGIN PRIVATE KEY-----[redacted]"},
		"a complaint in quotes stays":     {"Unexpected token 'o', \"not json\" is not valid JSON", "Unexpected token 'o', \"not json\" is not valid JSON"},
		"words in quotes stay":            {"relation \"api_usage_rollup\" does not exist; unknown token 'expired'", "relation \"api_usage_rollup\" does not exist; unknown token 'expired'"},
		"an explanation stays":            {"Invalid token: expired", "Invalid token: expired"},
		"javascript's complaint":          {"Unexpected token < in JSON at position 0", "Unexpected token < in JSON at position 0"},
		"our own keys stay":               {`{"action_key":"run_8f2:x","idempotency_key":"k-1"}`, `{"action_key":"run_8f2:x","idempotency_key":"k-1"}`},
		"counts stay":                     {`{"max_tokens":100}`, `{"max_tokens":100}`},
		"null stays":                      {`{"token":null,"secret":""}`, `{"token":null,"secret":""}`},
		"basic authentication is a term":  {"use basic authentication", "use basic authentication"},
		"mail addresses are no secrets":   {"no such user ada@example.org", "no such user ada@example.org"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Text(c.in)
			if got != c.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", c.in, got, c.want)
			}
			if again := New().Text(got); again != got {
				t.Errorf("masking twice changes %q into %q", got, again)
			}
		})
	}
}

func TestTextMasksGivenSecrets(t *testing.T) {
	m := New("SECRET5-with/slash+plus", "pin9", "x")
	cases := map[string]struct{ in, want string }{
		"echoed (L06)":           {`Bad api key 'SECRET5-with/slash+plus'`, `Bad api key '[redacted]'`},
		"cut at the end":         {`Bad api key 'SECRET5-wi...'`, `Bad api key '[redacted]...'`},
		"cut at the start":       {`key ...slash+plus`, `key ...[redacted]`},
		"percent-encoded":        {`?k=SECRET5-with%2Fslash%2Bplus&id=5`, `?k=[redacted]&id=5`},
		"lower-case escapes":     {`?k=SECRET5-with%2fslash%2bplus&id=5`, `?k=[redacted]&id=5`},
		"base64":                 {`Basic U0VDUkVUNS13aXRoL3NsYXNoK3BsdXM=`, `Basic [redacted]=`},
		"twice":                  {`SECRET5-with/slash+plus SECRET5-with/slash+plus`, `[redacted] [redacted]`},
		"a short one, whole":     {`pin9 is wrong`, `[redacted] is wrong`},
		"a short one, in a word": {`spin9s`, `spin9s`},
		"too short to look for":  {`x marks it`, `x marks it`},
		"nothing":                {`order 17 not found`, `order 17 not found`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := m.Text(c.in); got != c.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
	if got := m.With("another-secret").Text("SECRET5-with another-secret"); got != "[redacted] [redacted]" {
		t.Errorf("With forgets or misses: %q", got)
	}
	var none *Masker
	if got := none.Text("token=SECRET1"); got != "token=[redacted]" {
		t.Errorf("nil Masker: %q", got)
	}
}

func TestLineCutsAfterMasking(t *testing.T) {
	m := New("SECRET-0123456789")
	if got := m.Line("aaaa SECRET-0123456789 zzzz", 12); got != "aaaa [redac…" {
		t.Errorf("got %q", got)
	}
	if got := m.Line("a\r\n\x1b[31mb\x00\xffc", 50); got != "a [31mb \uFFFDc" {
		t.Errorf("got %q", got)
	}
}

func TestTextWithoutSecretsDoesNotAllocate(t *testing.T) {
	m := New("SECRET-0123456789")
	s := "upstream timed out after 30 s while creating contact form-991 (run_8f2)"
	if n := testing.AllocsPerRun(100, func() { m.Text(s) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkTextPlain(b *testing.B) {
	m := New("SECRET-0123456789", "another-long-secret-value")
	s := "upstream timed out after 30 s while creating contact form-991 (run_8f2), the connection was closed"
	for b.Loop() {
		m.Text(s)
	}
}

func FuzzText(f *testing.F) {
	f.Add(`{"password":"a\"b`)
	f.Add(`https://u:p@h?token=%3D`)
	f.Add("Bearer xyz")
	f.Add("Basic dXNlcjpwYXNz, Authorization: Bearer abc")
	f.Fuzz(func(t *testing.T, s string) {
		m := New("SECRET-0123456789")
		got := m.Text(s)
		if again := m.Text(got); again != got {
			t.Errorf("Text(%q) = %q, and again %q", s, got, again)
		}
		if strings.Contains(got, "SECRET-0") {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("Text(%q) = %q is not valid UTF-8", s, got)
		}
	})
}
