package rest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// An assertion is good for three minutes: some servers take none that is good
// for longer, and the request that carries it takes seconds.
const assertionLasts = 3 * time.Minute

// leastRSA is the least length of an RSA key in bits. Source: RFC 7518, 3.3.
const leastRSA = 2048

// jwtClaims is what an assertion says. Source: RFC 7523, 3.
type jwtClaims struct {
	issuer, subject, audience, scope, keyID string
}

// signer signs assertions with a private key. It prints nothing of the key.
type signer struct {
	algorithm string // RS256 or ES256
	key       crypto.Signer
}

// String keeps the key out of every text.
func (s *signer) String() string { return s.algorithm + " signer" }

// GoString is String for %#v.
func (s *signer) GoString() string { return s.String() }

// keyFile reads the private key of jwt_bearer. What the file holds is masked.
func (d *definition) keyFile(t *table, o *oauth2, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		t.fail("key_file", "cannot read %q: %v", file, err)
		return
	}
	if o.signer, err = newSigner(b); err != nil {
		t.fail("key_file", "%q: %v", file, err)
		return
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			d.secrets = append(d.secrets, line)
		}
	}
}

// newSigner reads a private key in PEM: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC).
// Other blocks before it, such as EC parameters, are passed over.
func newSigner(b []byte) (*signer, error) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return nil, errors.New("holds no private key; write the path of a PEM file with BEGIN PRIVATE KEY")
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return nil, errors.New("the key is encrypted; store it without a passphrase, in a file that only this program can read")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			// Not the parser's words: they may quote the key.
			return nil, fmt.Errorf("the %s cannot be read; look whether the file is whole", strings.ToLower(block.Type))
		}
		return signerOf(key)
	}
}

func signerOf(key any) (*signer, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < leastRSA {
			return nil, fmt.Errorf("the RSA key has %d bits; RS256 needs at least %d", bits, leastRSA)
		}
		return &signer{"RS256", key}, nil
	case *ecdsa.PrivateKey:
		if key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the EC key is of curve %s; ES256 needs P-256", key.Curve.Params().Name)
		}
		return &signer{"ES256", key}, nil
	}
	return nil, errors.New("the key is neither RSA nor EC; make one for RS256 or ES256")
}

// assertion is a signed JSON Web Token. Source: RFC 7515, 3 and 7.1; RFC 7518,
// 3.3 and 3.4.
func (s *signer) assertion(c jwtClaims, now time.Time) (string, error) {
	header := map[string]any{"alg": s.algorithm, "typ": "JWT"}
	if c.keyID != "" {
		header["kid"] = c.keyID
	}
	claims := map[string]any{"iss": c.issuer, "sub": c.subject, "aud": c.audience, "iat": now.Unix(), "exp": now.Add(assertionLasts).Unix(), "jti": rand.Text()}
	if c.scope != "" {
		// Some servers read it here, others in the request.
		claims["scope"] = c.scope
	}
	var parts []string
	for _, m := range []map[string]any{header, claims} {
		b, err := json.Marshal(m)
		if err != nil {
			return "", err
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(b))
	}
	signed := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	var err error
	switch key := s.key.(type) {
	case *rsa.PrivateKey:
		sig, err = rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, v, signErr := ecdsa.Sign(rand.Reader, key, sum[:])
		if err = signErr; err == nil {
			sig = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot sign with the key of key_file: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}
