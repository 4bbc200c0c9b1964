package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// What a client gets before it is cut off. Reports over millions of entries take
// minutes to make and seconds to send.
const (
	headerPatience = 10 * time.Second
	answerPatience = readPatience + 3*time.Minute
	idlePatience   = 2 * time.Minute
	headersMax     = 64 << 10 // bytes; a key of 512 bytes takes 1.5 KiB in a path
)

// Listener is an address that the daemon has taken, and how it speaks there.
type Listener struct {
	net  net.Listener
	tls  bool
	http *http.Server
	api  *API
	log  *slog.Logger
}

// TLSFiles are the PEM files of a certificate with its chain, and of its key;
// empty: no TLS.
type TLSFiles struct{ Cert, Key string }

// ErrAddressTaken means that another process listens there.
var ErrAddressTaken = errors.New("the address is taken by another process")

// Listen takes an address (host:port) and reads the certificate. Nothing is
// answered before Serve.
func Listen(ctx context.Context, address string, files TLSFiles, api *API, log *slog.Logger) (*Listener, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Listener{api: api, log: log}
	// ReadTimeout is for bodies that nobody reads: whoever has no token is
	// answered, and his body is waited for no longer than another's.
	l.http = &http.Server{Handler: api, ReadHeaderTimeout: headerPatience, ReadTimeout: headerPatience + bodyPatience,
		WriteTimeout: answerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: headersMax, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	if files != (TLSFiles{}) {
		cert, err := newCertificate(files, log)
		if err != nil {
			return nil, fmt.Errorf("daemon.tls_cert, daemon.tls_key: %w", err)
		}
		l.http.TLSConfig = &tls.Config{GetCertificate: cert.get, MinVersion: tls.VersionTLS12}
		l.tls = true
	}
	var err error
	if l.net, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = ErrAddressTaken
		}
		return nil, fmt.Errorf("daemon.listen: %s: %w", address, err)
	}
	return l, nil
}

// Address is where it listens, as a URL.
func (l *Listener) Address() string {
	scheme := "http"
	if l.tls {
		scheme = "https"
	}
	return scheme + "://" + l.net.Addr().String()
}

// Serve answers requests until ctx is cancelled. Then /readyz says so, nothing
// new is accepted, requests under way get as long as grace to finish, and what
// is left is cut off. It returns nil after such a stop.
func (l *Listener) Serve(ctx context.Context, grace time.Duration) error {
	failed := make(chan error, 1)
	go func() {
		if l.tls {
			failed <- l.http.ServeTLS(l.net, "", "")
		} else {
			failed <- l.http.Serve(l.net)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("http %s: %w", l.Address(), err)
	case <-ctx.Done():
	}
	l.api.Stopping()
	// A context of its own: the one given is over.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := l.http.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		l.log.Warn("requests took longer than the grace period and were cut off; whoever sent them sends them again")
		err = l.http.Close()
	}
	if broken := <-failed; !errors.Is(broken, http.ErrServerClosed) {
		err = errors.Join(err, broken)
	}
	return err
}

// Close gives up an address that was never served.
func (l *Listener) Close() error { return l.net.Close() }
