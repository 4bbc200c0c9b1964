package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// poolerConf hands a server session to a client for one transaction only, has
// two sessions for all clients of a database, and takes them in turn, so that
// successive statements of a client do meet different sessions. extra_float_digits is set by lib/pq
// at start-up, and PgBouncer refuses what it does not know.
const poolerConf = `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = %s
auth_file = %s
pool_mode = transaction
default_pool_size = 2
server_round_robin = 1
max_client_conn = 300
ignore_startup_parameters = extra_float_digits
server_tls_sslmode = disable
`

// Pooler starts a PgBouncer in transaction mode in front of the server that
// dbURL names, and returns dbURL with the pooler's address instead. It ends
// with the test. Where PgBouncer is missing, the test is skipped or fails as
// with DB.
func Pooler(t testing.TB, dbURL string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		// Not in the search path of every user.
		bin, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		testproc.Missing(t, EnvRequire, "no pgbouncer found: install pgbouncer")
	}
	pooled, err := startPooler(t, bin, dbURL)
	if err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	return pooled
}

func startPooler(t testing.TB, bin, dbURL string) (string, error) {
	u, err := url.Parse(dbURL)
	if err != nil {
		return "", err
	}
	group, err := testproc.NewGroup("pgbouncer", true)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Errorf("close PgBouncer: %v", err)
		}
	})

	password, auth := "", "trust"
	if p, ok := u.User.Password(); ok {
		password, auth = p, "plain"
	}
	users := filepath.Join(group.Dir, "users.txt")
	if err := write(group, users, fmt.Sprintf("%q %q\n", u.User.Username(), password)); err != nil {
		return "", err
	}
	serverPort := u.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	ini := filepath.Join(group.Dir, "pgbouncer.ini")
	for range 5 {
		port, err := testproc.FreePort()
		if err != nil {
			return "", err
		}
		if err := write(group, ini, fmt.Sprintf(poolerConf, u.Hostname(), serverPort, port, auth, users)); err != nil {
			return "", err
		}
		p, err := group.Start(group.Command(bin, ini), "pgbouncer.log", syscall.SIGTERM)
		if err != nil {
			return "", err
		}
		pooled := *u
		pooled.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		err = p.WaitReady(startPatience, func(ctx context.Context) error { return ping(ctx, pooled.String()) })
		if err == nil {
			return pooled.String(), nil
		}
		// The free port was taken by somebody else meanwhile: another one.
		if !strings.Contains(err.Error(), "cannot bind") && !strings.Contains(err.Error(), "Address already in use") {
			return "", err
		}
	}
	return "", fmt.Errorf("no port stayed free")
}

func write(group *testproc.Group, path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return group.Own(path)
}
