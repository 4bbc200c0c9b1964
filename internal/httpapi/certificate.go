package httpapi

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is read anew when one of its files has changed, so that one that
// is renewed every few weeks needs no restart. While the new files cannot be
// read, as between the writing of the one and of the other, the old one holds.
type certificate struct {
	files TLSFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]version // of the files, when they were read last
}

// version tells one content of a file from the next.
type version struct {
	at   time.Time
	size int64
}

func newCertificate(files TLSFiles, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log, read: versions(files)}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	c.current = &pair
	return c, err
}

func versions(files TLSFiles) (vs [2]version) {
	for i, name := range []string{files.Cert, files.Key} {
		if info, err := os.Stat(name); err == nil {
			vs[i] = version{info.ModTime(), info.Size()}
		}
	}
	return vs
}

// get is for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := versions(c.files) // before reading: what changes meanwhile is read the next time
	if now == c.read {
		return c.current, nil
	}
	c.read = now
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		c.log.Error("the new certificate cannot be used; the one before holds until its files change again", "cert", c.files.Cert, "key", c.files.Key, "err", err)
		return c.current, nil
	}
	c.current = &pair
	c.log.Info("the certificate was read anew", "cert", c.files.Cert)
	return c.current, nil
}
