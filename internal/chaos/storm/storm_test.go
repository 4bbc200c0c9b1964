package storm

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestACommitIsSeenInWhatAClientSends(t *testing.T) {
	query := func(q string) string { return "Q\x00\x00\x00\x00" + q + "\x00" }
	for what, want := range map[string]bool{
		query("COMMIT"):                         true,
		query("commit"):                         true,
		"S\x00\x00\x00\x04" + query("commit"):   true,
		query("ROLLBACK"):                       false,
		query("SELECT 'commit'"):                false,
		query("CREATE INDEX ON commit_log (a)"): false,
		"":                                      false,
	} {
		if got := isCommit([]byte(what)); got != want {
			t.Errorf("%q: %t, want %t", what, got, want)
		}
	}
}

// echo is a server that answers what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// ask sends one message through the proxy and returns the answer, or how the
// connection ended.
func ask(t *testing.T, p *Proxy, what string) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // read below
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, what); err != nil {
		return "", err
	}
	b := make([]byte, len(what))
	_, err = io.ReadFull(c, b)
	return string(b), err
}

func TestOnlyTheReplyToACommitIsCut(t *testing.T) {
	log := NewLog()
	p, err := NewProxy(echo(t), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	const commit = "Q\x00\x00\x00\x0bCOMMIT\x00"
	p.CutCommits(1)
	if got, err := ask(t, p, "Q\x00\x00\x00\x0dSELECT 1\x00"); err != nil {
		t.Errorf("a query got %q, %v", got, err)
	}
	if got, err := ask(t, p, commit); err == nil {
		t.Errorf("the commit got its reply %q", got)
	}
	if got, err := ask(t, p, commit); err != nil || got != commit {
		t.Errorf("the next commit got %q, %v", got, err)
	}
	if n := log.Counts()["database: connection cut after commit"]; n != 1 {
		t.Errorf("%d cut, want 1", n)
	}
}

func TestAStopExplainsOnlyWhatArrivedRightBehindIt(t *testing.T) {
	l := NewLog()
	now := time.Now()
	l.stopped(Stop{From: now.Add(-time.Minute), To: now})
	for d, want := range map[time.Duration]bool{-time.Second: false, 0: true, 500 * time.Millisecond: true, 2 * time.Second: false} {
		if got := l.Continued(now.Add(d), time.Second); got != want {
			t.Errorf("%s behind the stop: %t, want %t", d, got, want)
		}
	}
}
