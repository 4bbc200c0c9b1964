package rest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

func pemOf(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func keyFileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verifyJWT is the other side: it tests the signature by the public key and
// returns header and claims.
func verifyJWT(token string, public crypto.PublicKey) (header, claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, nil, fmt.Errorf("%d parts", len(parts))
	}
	for i, into := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			dec := json.NewDecoder(bytes.NewReader(b))
			dec.UseNumber()
			err = dec.Decode(into)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	switch public := public.(type) {
	case *rsa.PublicKey:
		if header["alg"] != "RS256" {
			return nil, nil, fmt.Errorf("alg %v", header["alg"])
		}
		err = rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], sig)
	case *ecdsa.PublicKey:
		if header["alg"] != "ES256" || len(sig) != 64 {
			return nil, nil, fmt.Errorf("alg %v, %d bytes", header["alg"], len(sig))
		}
		if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
			err = fmt.Errorf("the signature is wrong")
		}
	}
	return header, claims, err
}

func TestATokenIsGivenForASignedAssertion(t *testing.T) {
	ec, rsa2048 := ecKey(t, elliptic.P256()), rsaKey(t, 2048)
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pemOf(t, "PRIVATE KEY", der, err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	for name, tc := range map[string]struct {
		pem    string
		public crypto.PublicKey
		extra  string // of the definition
		form   map[string]string
		claims map[string]any
		kid    any
		user   string // of basic auth
	}{
		"RS256, PKCS #8":           {pem: pkcs8(rsa2048), public: &rsa2048.PublicKey},
		"RS256, PKCS #1":           {pem: pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048), nil), public: &rsa2048.PublicKey},
		"ES256, PKCS #8":           {pem: pkcs8(ec), public: &ec.PublicKey},
		"ES256, behind parameters": {pem: pemOf(t, "EC PARAMETERS", []byte{6, 8}, nil) + pemOf(t, "EC PRIVATE KEY", sec1, err), public: &ec.PublicKey},
		"everything said": {pem: pkcs8(ec), public: &ec.PublicKey,
			extra:  `, subject = "ada@example.org", audience = "https://login.sys.example", key_id = "key-7", scope = "read write"`,
			form:   map[string]string{"scope": "read write"},
			claims: map[string]any{"sub": "ada@example.org", "aud": "https://login.sys.example", "scope": "read write"}, kid: "key-7"},
		"a client with a secret shows itself too": {pem: pkcs8(ec), public: &ec.PublicKey, extra: `, client_secret = "client-secret"`, user: "client-1"},
	} {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			var seen []string
			issued := 0
			sys.do("POST /token", func(w http.ResponseWriter, r *http.Request, body string) {
				form, err := url.ParseQuery(body)
				if err != nil {
					t.Error(err)
				}
				header, claims, err := verifyJWT(form.Get("assertion"), tc.public)
				if err != nil {
					t.Error(err)
				}
				want := map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": form.Get("assertion")}
				for k, v := range tc.form {
					want[k] = v
				}
				for k, v := range want {
					if form.Get(k) != v {
						t.Errorf("%s = %q, want %q", k, form.Get(k), v)
					}
				}
				if len(form) != len(want) {
					t.Errorf("the request holds %v", form)
				}
				wantClaims := map[string]any{"iss": "client-1", "sub": "client-1", "aud": sys.URL + "/token"}
				for k, v := range tc.claims {
					wantClaims[k] = v
				}
				for k, v := range wantClaims {
					if claims[k] != v {
						t.Errorf("claim %s = %v, want %v", k, claims[k], v)
					}
				}
				iat, _ := claims["iat"].(json.Number).Int64()
				exp, _ := claims["exp"].(json.Number).Int64()
				if d := time.Now().Unix() - iat; d < 0 || d > 60 || exp-iat != 180 {
					t.Errorf("made %d s ago, good for %d s", d, exp-iat)
				}
				if header["kid"] != tc.kid || header["typ"] != "JWT" {
					t.Errorf("header %v", header)
				}
				if user, _, _ := r.BasicAuth(); user != tc.user {
					t.Errorf("the client shows itself as %q, want %q", user, tc.user)
				}
				seen = append(seen, fmt.Sprint(claims["jti"]))
				issued++
				fmt.Fprintf(w, `{"access_token":"issued-token-%d","token_type":"Bearer","expires_in":3600}`, issued)
			})
			dead := ""
			sys.do("GET /one/k1", func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Header.Get("Authorization") == "Bearer "+dead {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = io.WriteString(w, `{"k":"k1","id":"1"}`)
			})
			c := mustOpen(t, sys.URL, fmt.Sprintf(`auth = { oauth2 = { grant = "jwt_bearer", token_url = "%s/token", client_id = "client-1", key_file = %q%s } }`,
				sys.URL, keyFileOf(t, tc.pem), tc.extra)+oneLookup)
			for range 2 {
				if _, e := ask(t, c, "one", "k1"); e != nil {
					t.Fatal(e)
				}
			}
			if issued != 1 {
				t.Errorf("%d tokens for two questions", issued)
			}
			dead = "issued-token-1"
			if _, e := ask(t, c, "one", "k1"); e != nil || issued != 2 || seen[0] == seen[1] {
				t.Errorf("a dead token is renewed with an assertion of its own: %v, %d tokens, %q", e, issued, seen)
			}
		})
	}
}

func TestARefusedAssertionIsAuthAndGivesNothingAway(t *testing.T) {
	sys := newSystem(t)
	ec := ecKey(t, elliptic.P256())
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	text := pemOf(t, "PRIVATE KEY", der, err)
	secret := strings.Split(text, "\n")[1]
	asked := 0
	sys.do("POST /token", func(w http.ResponseWriter, _ *http.Request, body string) {
		asked++
		form, _ := url.ParseQuery(body)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"assertion %s of key %s is refused"}`, form.Get("assertion"), secret)
	})
	c := mustOpen(t, sys.URL, fmt.Sprintf(`auth = { oauth2 = { grant = "jwt_bearer", token_url = "%s/token", client_id = "client-1", key_file = %q } }`,
		sys.URL, keyFileOf(t, text))+oneLookup)
	_, e := ask(t, c, "one", "k1")
	if e == nil || e.Kind != connectors.KindAuth || asked != 1 {
		t.Errorf("%v, asked %d times", e, asked)
	}
	r := send(c, "one")
	if r.Kind != connectors.KindAuth || r.Effect != connectors.EffectNotDone || r.Wrote {
		t.Errorf("%+v", r)
	}
	all := fmt.Sprintf("%+v %#v %+v %v %+v %#v", e, e, r, c.def.auth.oauth2.signer, c.def.auth.oauth2, c.def.auth.oauth2)
	for _, piece := range []string{secret, secret[:20], secret[len(secret)-20:], "eyJ", ec.D.String()} { //nolint:staticcheck // the number must not be printed
		if strings.Contains(all, piece) {
			t.Errorf("%q stands in a text", piece)
		}
	}
}

func TestPrivateKeysThatAreRefused(t *testing.T) {
	p384, small := ecKey(t, elliptic.P384()), rsaKey(t, 1024)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edDER, edErr := x509.MarshalPKCS8PrivateKey(ed)
	p384DER, p384Err := x509.MarshalPKCS8PrivateKey(p384)
	public, publicErr := x509.MarshalPKIXPublicKey(&p384.PublicKey)
	for name, tc := range map[string]struct{ pem, say string }{
		"an RSA key that is too short": {pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small), nil), "1024 bits"},
		"a curve of its own":           {pemOf(t, "PRIVATE KEY", p384DER, p384Err), "P-384; ES256 needs P-256"},
		"another kind of key":          {pemOf(t, "PRIVATE KEY", edDER, edErr), "neither RSA nor EC"},
		"the public half":              {pemOf(t, "PUBLIC KEY", public, publicErr), "no private key"},
		"one with a passphrase":        {pemOf(t, "ENCRYPTED PRIVATE KEY", []byte{1, 2}, nil), "encrypted"},
		"one with a passphrase, old":   {"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n", "encrypted"},
		"half of a file":               {pemOf(t, "PRIVATE KEY", p384DER[:40], nil), "whether the file is whole"},
		"an empty file":                {"", "no private key"},
	} {
		got := fieldErrors(t, fmt.Sprintf("base_url = \"https://sys.example\"\nauth = { oauth2 = { grant = \"jwt_bearer\", token_url = \"https://t.example\", client_id = \"client-1\", key_file = %q } }\n", keyFileOf(t, tc.pem))+oneLookup)
		if !strings.Contains(got["auth.oauth2.key_file"], tc.say) || len(got) != 1 {
			t.Errorf("%s: %q, want one that says %q", name, got, tc.say)
		}
	}
}
