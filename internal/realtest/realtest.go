// Package realtest runs programs of other people, so that tests prove something
// against more than our own fakes: PocketBase, a REST application with a
// database of its own, and Toxiproxy, which stands in front of it and loses
// answers or requests at a chosen place.
//
// The programs are built by "make real" into .tools/bin; RECONCILE_TOOLS_DIR
// names another folder. Where they are missing a test is skipped, aloud; with
// RECONCILE_REQUIRE_REAL=1, as in make test and in CI, it fails. They listen on
// free ports of 127.0.0.1 and end with the test, even when the test binary is
// killed (see testproc).
//
//	pb := realtest.StartPocketBase(t)
//	pb.CreateCollection(t, "deals", "action_key", "amount")
//	proxy := realtest.StartToxiproxy(t).Proxy(t, pb.URL)
//	proxy.With(t, realtest.CutAnswer(0), func() {
//		// a create sent to proxy.URL is committed, and its answer is lost
//	})
//	n := pb.CountBy(t, "deals", "action_key")["k1"]
package realtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

const (
	// EnvTools names the folder of the programs, instead of .tools/bin.
	EnvTools = "RECONCILE_TOOLS_DIR"
	// EnvRequire set to 1 makes a test fail that would be skipped because a
	// program is missing.
	EnvRequire = "RECONCILE_REQUIRE_REAL"
)

// startPatience is how long a program may take to answer. Thirty seconds: they
// take half of one, on a machine busy with other tests some.
const startPatience = 30 * time.Second

// program finds a program, or ends the test.
func program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(toolsDir(), name)
	if _, err := os.Stat(path); err != nil {
		testproc.Missing(t, EnvRequire, fmt.Sprintf("%s is not built (%v): run make real, or set %s", name, err, EnvTools))
	}
	return path
}

// toolsDir is the folder of the programs: below the top of the repository, which
// lies above the folder that go test runs a test in.
func toolsDir() string {
	if dir := os.Getenv(EnvTools); dir != "" {
		return dir
	}
	const below = ".tools/bin"
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, below)
		}
		dir = filepath.Dir(dir)
	}
	return below
}

// group makes the folder and watchdog of a program, ended with the test.
func group(t testing.TB, name string) *testproc.Group {
	t.Helper()
	g, err := testproc.NewGroup(name, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return g
}

// client asks the programs themselves, past any proxy. Connections are not
// kept, so that none is met by a toxic meant for another request.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call sends in as JSON (nil: no body) and reads the answer into out (nil: not
// read). Any status but a 2xx is an error that carries the body.
func call(ctx context.Context, method, url, token string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, url, res.Status, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
