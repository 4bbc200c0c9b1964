package rest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
)

// Tokens are renewed a minute before they end: longer than any call.
const renewBefore = time.Minute

// auth says how calls show who we are.
type auth struct {
	headers map[string]string // set on every request
	query   map[string]string

	login  *request  // asks for a token with a request of the definition's own
	token  *selector // where it stands in the answer
	lasts  time.Duration
	oauth2 *oauth2
}

type oauth2 struct {
	grant, clientID, clientSecret, refreshToken, scope string
	url                                                *url.URL
	inBody                                             bool // the server takes credentials in the body only; whoever has the turn sets it
	jwt                                                jwtClaims
	signer                                             *signer // of the assertion; nil but for jwt_bearer
}

// The grants, as they are written in a definition.
const (
	grantClient  = "client_credentials"
	grantRefresh = "refresh_token"
	grantJWT     = "jwt_bearer"
)

var grants = []string{grantClient, grantRefresh, grantJWT}

var authKinds = []string{"bearer", "basic", "header", "query", "login", "oauth2", "none"}

func (d *definition) readAuth(t *table) {
	d.auth = auth{headers: map[string]string{}, query: map[string]string{}}
	if d.base != nil && d.base.User != nil {
		password, _ := d.base.User.Password()
		if t.has("auth") {
			t.fail("base_url", "holds a user, and auth is given too; keep one")
		}
		d.setBasic(d.base.User.Username(), password)
		d.base.User = nil
	}
	if s, ok := t.m["auth"].(string); ok && s == "none" {
		t.raw("auth")
		return
	}
	at := t.table("auth")
	if at == nil {
		return
	}
	kinds := 0
	for _, k := range authKinds {
		if at.has(k) {
			kinds++
		}
	}
	if kinds != 1 {
		t.fail("auth", "must hold exactly one of bearer, basic, header, query, login, oauth2, none")
	}
	if s, ok := at.str("bearer"); ok {
		d.secretHeader(at, "bearer", "Authorization", "Bearer ", s)
	}
	if bt := basicTable(at); bt != nil {
		user, _ := bt.str("user")
		password := bt.strOr("password", "")
		if user == "" && !d.p.has(bt.at("user")) {
			bt.fail("user", "empty; write the user, or the key that takes its place")
		}
		bt.finish()
		d.setBasic(user, password)
	}
	for _, kind := range []string{"header", "query"} {
		kt := at.table(kind)
		if kt == nil {
			continue
		}
		if len(kt.m) == 0 {
			at.fail(kind, "empty; write { NAME = \"${SECRET}\" }")
		}
		for _, name := range slices.Sorted(maps.Keys(kt.m)) {
			s := kt.strOr(name, "")
			if kind == "query" {
				d.secret(kt, name, s)
				d.auth.query[name] = s
				continue
			}
			if !headerName.MatchString(name) {
				kt.fail(name, "is no header name")
			}
			d.secretHeader(kt, name, http.CanonicalHeaderKey(name), "", s)
		}
	}
	if lt := at.table("login"); lt != nil {
		d.login(lt)
	}
	if ot := at.table("oauth2"); ot != nil {
		d.readOAuth2(ot)
	}
	if v, ok := at.raw("none"); ok && v != true {
		at.fail("none", "write none = true")
	}
	at.finish()
	for name := range d.headers {
		if d.auth.sets(name) {
			d.p.add(join("headers", name), "is set by auth; keep one of the two")
		}
	}
}

// has tells whether a mistake at this path was reported.
func (p *problems) has(path string) bool {
	return slices.ContainsFunc(p.errs, func(err error) bool {
		var f *connectors.FieldError
		return errors.As(err, &f) && f.Path == path
	})
}

func basicTable(at *table) *table {
	if !at.has("basic") {
		return nil
	}
	return at.table("basic")
}

// secret keeps a credential for masking, and reports an empty one.
func (d *definition) secret(t *table, key, s string) {
	if s == "" && !d.p.has(t.at(key)) {
		t.fail(key, "empty; write the credential, best as \"${NAME}\" from the environment")
	}
	d.secrets = append(d.secrets, s)
}

// secretHeader is secret for a credential that travels in a header of its own,
// behind the name of its scheme.
func (d *definition) secretHeader(t *table, key, header, scheme, s string) {
	d.secret(t, key, s)
	if !d.p.has(t.at(key)) && (!visibleASCII(strings.ReplaceAll(s, " ", "")) || strings.TrimSpace(s) != s) {
		t.fail(key, "a credential in a header holds visible ASCII only; look for a line break at its end")
	}
	d.auth.headers[header] = scheme + s
}

func (d *definition) setBasic(user, password string) {
	pair := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	d.secrets = append(d.secrets, user, password, pair)
	d.auth.headers["Authorization"] = "Basic " + pair
}

func (d *definition) login(t *table) {
	d.secrets = append(d.secrets, leaves(t.m["json"])...)
	d.secrets = append(d.secrets, leaves(t.m["form"])...)
	d.auth.login = d.request(t, staticOnly, d.timings.timeout)
	d.auth.token = d.selector(t, "token")
	if !t.has("token") {
		t.fail("token", "missing; write the path of the token in the answer")
	}
	d.auth.lasts = t.positive("lasts", 10*time.Minute)
	t.finish()
}

func leaves(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case map[string]any:
		var out []string
		for _, e := range v {
			out = append(out, leaves(e)...)
		}
		return out
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, leaves(e)...)
		}
		return out
	}
	return nil
}

func (d *definition) readOAuth2(t *table) {
	o := &oauth2{scope: t.strOr("scope", "")}
	o.grant = t.oneOf("grant", "", grants...)
	if o.grant == "" && !t.has("grant") {
		t.fail("grant", "missing; write one of %s", strings.Join(grants, ", "))
	}
	if t.boolean("rotates") {
		t.fail("rotates", "not supported yet: a refresh token that changes at each use needs a place to be kept")
	}
	if text, ok := t.str("token_url"); ok {
		text, err := d.constant(text, hostPart)
		if err == nil {
			o.url, err = parseURL(text)
		}
		if err != nil {
			t.fail("token_url", "%v", err)
		}
	} else if !t.has("token_url") {
		t.fail("token_url", "missing; write the address that gives tokens")
	}
	need := []string{"client_id", "client_secret"}
	switch o.grant {
	case grantRefresh:
		need = append(need, "refresh_token")
	case grantJWT:
		need = need[:1]
	}
	values := map[string]string{}
	for _, key := range []string{"client_id", "client_secret", "refresh_token"} {
		s, ok := t.str(key)
		values[key] = s
		if ok || slices.Contains(need, key) {
			d.secret(t, key, s)
		}
	}
	for key, grant := range map[string]string{"refresh_token": grantRefresh, "key_file": grantJWT, "key_id": grantJWT, "subject": grantJWT, "audience": grantJWT} {
		if o.grant != "" && o.grant != grant && t.has(key) {
			t.fail(key, "goes with grant = %q", grant)
		}
	}
	o.clientID, o.clientSecret, o.refreshToken = values["client_id"], values["client_secret"], values["refresh_token"]
	o.jwt = jwtClaims{
		issuer: o.clientID, subject: t.strOr("subject", o.clientID), scope: o.scope, keyID: t.strOr("key_id", ""),
	}
	if o.url != nil {
		o.jwt.audience = o.url.String()
	}
	o.jwt.audience = t.strOr("audience", o.jwt.audience)
	if file, ok := t.str("key_file"); ok && o.grant == grantJWT && !d.p.has(t.at("key_file")) {
		d.keyFile(t, o, file)
	} else if o.grant == grantJWT && !t.has("key_file") {
		t.fail("key_file", "missing; write the path of the file that holds the private key (PEM)")
	}
	d.hidden = append(d.hidden, o.basic())
	t.finish()
	d.auth.oauth2 = o
}

// sets tells whether a header is the place of a credential.
func (a *auth) sets(header string) bool {
	return a.headers[header] != "" || a.dynamic() && header == "Authorization"
}

// dynamic tells whether calls need a token that is asked for first.
func (a *auth) dynamic() bool { return a.login != nil || a.oauth2 != nil }

// tokens holds the present token. One call asks for a new one; the others wait
// for it, as long as their context lets them.
type tokens struct {
	turn   chan struct{} // holds one value: whoever takes it owns the rest
	token  string
	until  time.Time
	recent []string // the last ones given, masked in all texts
}

// authorize adds the credentials to a request, and returns the token used, to
// be named when it turns out to be dead.
func (c *Connector) authorize(ctx context.Context, r *httpclient.Request) (token string, err *connectors.Error) {
	for name, v := range c.def.auth.headers {
		r.Header.Set(name, v)
	}
	if len(c.def.auth.query) > 0 {
		u := *r.URL
		for _, name := range slices.Sorted(maps.Keys(c.def.auth.query)) {
			if u.RawQuery != "" {
				u.RawQuery += "&"
			}
			u.RawQuery += percent(name) + "=" + percent(c.def.auth.query[name])
		}
		r.URL = &u
	}
	if !c.def.auth.dynamic() {
		return "", nil
	}
	select {
	case <-c.tokens.turn:
	case <-ctx.Done():
		return "", c.stopped(ctx, ctx.Err())
	}
	defer func() { c.tokens.turn <- struct{}{} }()
	if c.tokens.token == "" || !time.Now().Before(c.tokens.until) {
		if err := c.renew(ctx); err != nil {
			return "", err
		}
	}
	r.Header.Set("Authorization", "Bearer "+c.tokens.token)
	return c.tokens.token, nil
}

// forget drops a token that the system refused.
func (c *Connector) forget(token string) {
	<-c.tokens.turn
	defer func() { c.tokens.turn <- struct{}{} }()
	if c.tokens.token == token {
		c.tokens.token = ""
	}
}

// renew asks for a token. The caller has the turn.
func (c *Connector) renew(ctx context.Context) *connectors.Error {
	a := &c.def.auth
	bucket := ""
	if a.login != nil {
		bucket = a.login.bucket
	}
	resp, err := c.askToken(ctx, bucket)
	if err == nil && a.oauth2 != nil && a.oauth2.showsClient() && !a.oauth2.inBody && unknownClient(resp) {
		// The server may be one of those that read the body only.
		a.oauth2.inBody = true
		resp, err = c.askToken(ctx, bucket)
		a.oauth2.inBody = err == nil && resp.Status >= 200 && resp.Status <= 299
	}
	if err != nil {
		return err
	}
	ans := newAnswer(resp)
	if resp.Status < 200 || resp.Status > 299 {
		e := c.classify(nil, onLookup, ans)
		if e.Kind == connectors.KindValidation || e.Kind == connectors.KindNotFound || e.Kind == connectors.KindPermission {
			// A token request is nothing but credentials: refused is auth.
			// Source: RFC 6749, 5.2 (invalid_client, invalid_grant are 400).
			e.Kind = connectors.KindAuth
		}
		e.Message = c.line("asking for a token: " + e.Message)
		return e
	}
	token, lasts := "", a.lasts
	if a.login != nil {
		token = a.token.text1(ans.doc)
	} else {
		body, _ := ans.doc.body.(map[string]any)
		token, _ = body["access_token"].(string)
		lasts = 10 * time.Minute // none said: short enough for any system
		if n, ok := body["expires_in"].(json.Number); ok {
			if s, err := n.Float64(); err == nil && s > 0 && s < 1e9 {
				lasts = time.Duration(s) * time.Second
			}
		}
	}
	if token == "" || !visibleASCII(token) {
		return &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: resp.Status, Message: "the answer to the token request holds no token"}
	}
	c.tokens.token = token
	c.tokens.until = time.Now().Add(lasts - min(renewBefore, lasts/2))
	c.maskToken(token)
	return nil
}

// askToken makes one token request.
func (c *Connector) askToken(ctx context.Context, bucket string) (*httpclient.Response, *connectors.Error) {
	var r httpclient.Request
	var err error
	if a := &c.def.auth; a.login != nil {
		r, err = a.login.build(c.def.base, &scope{})
	} else {
		r, err = a.oauth2.request(c.def.timings.timeout)
	}
	if err != nil {
		return nil, &connectors.Error{Kind: connectors.KindAuth, Message: c.line("asking for a token: " + err.Error())}
	}
	if e := c.wait(ctx, bucket); e != nil {
		return nil, e
	}
	resp, err := c.http.Read(ctx, r)
	if err != nil {
		return nil, c.transportError(err)
	}
	return resp, nil
}

// unknownClient tells whether a token request was refused because of who asks,
// and not because of what was asked for. Source: RFC 6749, 5.2.
func unknownClient(r *httpclient.Response) bool {
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnauthorized {
		return false
	}
	return !slices.Contains([]string{"invalid_grant", "invalid_scope", "unsupported_grant_type"}, newAnswer(r).code())
}

// request is the token request. Credentials travel as basic auth, which every
// server must take, or in the body, which some take only. Beside a signed
// assertion a client need not show itself, and does if it has a secret.
// Source: RFC 6749, 2.3.1, 4.4.2 and 6; RFC 7521, 4.1; RFC 7523, 2.1.
func (o *oauth2) request(timeout time.Duration) (httpclient.Request, error) {
	grant := o.grant
	if grant == grantJWT {
		grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	}
	form := []string{"grant_type=" + percent(grant)}
	if o.inBody {
		form = append(form, "client_id="+percent(o.clientID), "client_secret="+percent(o.clientSecret))
	}
	switch o.grant {
	case grantRefresh:
		form = append(form, "refresh_token="+percent(o.refreshToken))
	case grantJWT:
		assertion, err := o.signer.assertion(o.jwt, time.Now())
		if err != nil {
			return httpclient.Request{}, err
		}
		form = append(form, "assertion="+assertion)
	}
	if o.scope != "" {
		form = append(form, "scope="+percent(o.scope))
	}
	h := http.Header{}
	h.Set("Accept", "application/json")
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	if o.showsClient() && !o.inBody {
		h.Set("Authorization", "Basic "+o.basic())
	}
	return httpclient.Request{Method: http.MethodPost, URL: o.url, Header: h, Body: []byte(strings.Join(form, "&")), Timeout: timeout}, nil
}

// showsClient tells whether a token request holds the client's credentials.
func (o *oauth2) showsClient() bool { return o.grant != grantJWT || o.clientSecret != "" }

// basic is the pair of basic auth. Source: RFC 6749, 2.3.1: both are encoded as
// in a form first.
func (o *oauth2) basic() string {
	return base64.StdEncoding.EncodeToString([]byte(percent(o.clientID) + ":" + percent(o.clientSecret)))
}
