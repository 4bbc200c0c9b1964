package httpapi_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/httpapi"
	"github.com/recovery-ledger/reconcile/ledger"
)

func listen(t *testing.T, w *world, files httpapi.TLSFiles) *httpapi.Listener {
	t.Helper()
	l, err := httpapi.Listen(t.Context(), "127.0.0.1:0", files, w.api, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// send makes a request from outside.
func send(t *testing.T, client *http.Client, method, url, body, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}

// TestAStopLetsRequestsFinish: what is being recorded is answered, and nothing
// new is taken.
func TestAStopLetsRequestsFinish(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	l := listen(t, w, httpapi.TLSFiles{})
	reached, hold := make(chan struct{}), make(chan struct{})
	w.ledger.when(func(int) error {
		close(reached)
		<-hold
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, time.Minute) }()
	token := w.token(ledger.ScopeIngest)
	answered := make(chan int, 1)
	go func() {
		code, _ := send(t, http.DefaultClient, "POST", l.Address()+"/v1/entries", record("run:a", "unknown", ""), token)
		answered <- code
	}()
	<-reached
	stop()
	address := strings.TrimPrefix(l.Address(), "http://")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			break // nothing new is accepted
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it goes on listening")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended before its request: %v", err)
	default:
	}
	close(hold)
	if code := <-answered; code != 200 {
		t.Errorf("the request under way: %d", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
}

// TestAStopDoesNotWaitForEver for a request that does not end.
func TestAStopDoesNotWaitForEver(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	l := listen(t, w, httpapi.TLSFiles{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, 20*time.Millisecond) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.Address(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, head(w, 1000)+"{"); err != nil {
		t.Fatal(err)
	}
	// The server has seen it once it has answered another.
	send(t, http.DefaultClient, "GET", l.Address()+"/healthz", "", "")
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stopped: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it did not stop")
	}
}

func TestTLS(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	files, pool := certificate(t)
	l := listen(t, w, files)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, time.Second) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	if code, body := send(t, client, "POST", l.Address()+"/v1/entries", record("run:a", "unknown", ""), w.token(ledger.ScopeIngest)); code != 200 {
		t.Errorf("over TLS: %d %s", code, body)
	}
	if code, _ := send(t, http.DefaultClient, "GET", strings.Replace(l.Address(), "https://", "http://", 1)+"/healthz", "", ""); code != 400 {
		t.Errorf("in the clear: %d", code)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	missing := httpapi.TLSFiles{Cert: filepath.Join(t.TempDir(), "none"), Key: files.Key}
	if _, err := httpapi.Listen(t.Context(), "127.0.0.1:0", missing, w.api, nil); err == nil || !strings.Contains(err.Error(), "daemon.tls_cert") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}

// TestACertificateIsReadAnew when its files change; one that cannot be read
// leaves the old one in place.
func TestACertificateIsReadAnew(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	files, old := certificate(t)
	l, err := httpapi.Listen(t.Context(), "127.0.0.1:0", files, w.api, slog.New(slog.NewTextHandler(w.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, time.Second) }()
	trusts := func(pool *x509.CertPool) bool {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.Address(), "https://"))
		var unknown x509.UnknownAuthorityError
		if err == nil {
			_ = conn.Close()
		} else if !errors.As(err, &unknown) {
			t.Fatal(err)
		}
		return err == nil
	}
	written := time.Now()
	write := func(to, content string) {
		t.Helper()
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		written = written.Add(time.Minute) // a file system's clock may be coarse
		if err := os.Chtimes(to, written, written); err != nil {
			t.Fatal(err)
		}
	}
	content := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if !trusts(old) {
		t.Error("the first certificate is not given")
	}
	next, pool := certificate(t)
	write(files.Cert, content(next.Cert))
	if !trusts(old) || !strings.Contains(w.log.String(), "the new certificate cannot be used") {
		t.Errorf("a certificate without its key: the old one is given up, or nothing is said: %s", w.log)
	}
	if n := strings.Count(w.log.String(), "cannot be used"); !trusts(old) || n != strings.Count(w.log.String(), "cannot be used") {
		t.Error("it is told more than once")
	}
	write(files.Key, content(next.Key))
	if trusts(old) || !trusts(pool) {
		t.Error("the new certificate is not given")
	}
	if err := os.Remove(files.Cert); err != nil {
		t.Fatal(err)
	}
	if !trusts(pool) {
		t.Error("a file that is gone takes the certificate with it")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/ledger.db")
	l := listen(t, w, httpapi.TLSFiles{})
	defer l.Close()
	_, err := httpapi.Listen(t.Context(), strings.TrimPrefix(l.Address(), "http://"), httpapi.TLSFiles{}, w.api, nil)
	if !errors.Is(err, httpapi.ErrAddressTaken) || !strings.HasPrefix(err.Error(), "daemon.listen: 127.0.0.1:") {
		t.Errorf("taken: %v", err)
	}
	if _, err := httpapi.Listen(t.Context(), "192.0.2.1:1", httpapi.TLSFiles{}, w.api, nil); err == nil || errors.Is(err, httpapi.ErrAddressTaken) {
		t.Errorf("an address of another host: %v", err)
	}
}

// certificate makes a certificate for this host, and a pool that trusts it.
func certificate(t *testing.T) (httpapi.TLSFiles, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		var out bytes.Buffer
		if err := pem.Encode(&out, &pem.Block{Type: kind, Bytes: b}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return httpapi.TLSFiles{Cert: write("server.crt", "CERTIFICATE", der), Key: write("server.key", "PRIVATE KEY", keyDER)}, pool
}
