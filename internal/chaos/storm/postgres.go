package storm

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// patience is how long a server may take to start, stop or be copied.
const patience = 90 * time.Second

// Cluster is a PostgreSQL primary with a standby, behind one address that moves
// over. Replication does not wait for the standby, as it comes: a failover may
// lose what was committed last.
type Cluster struct {
	// Proxy is what clients connect to.
	Proxy *Proxy

	group    *testproc.Group
	log      *Log
	bin      string
	password string
	pwfile   string
	repl     *Proxy // between primary and standby
	primary  *node
	standby  *node
	made     int
}

type node struct {
	dir  string
	port int
	proc *testproc.Process
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// NewCluster starts a primary and, if asked to, a standby.
func NewCluster(standby bool, log *Log) (*Cluster, error) {
	bin, err := pgtest.Programs()
	if err != nil {
		return nil, err
	}
	group, err := testproc.NewGroup("chaos-pg", true)
	if err != nil {
		return nil, err
	}
	c := &Cluster{group: group, log: log, bin: bin, password: rand.Text()}
	if err := c.create(standby); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) create(standby bool) error {
	c.pwfile = filepath.Join(c.group.Dir, "password")
	if err := os.WriteFile(c.pwfile, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := c.group.Own(c.pwfile); err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	if err := c.group.Run(filepath.Join(c.bin, "initdb"), "-D", n.dir, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-A", "password", "--pwfile", c.pwfile); err != nil {
		return err
	}
	if err := c.start(n); err != nil {
		return err
	}
	c.primary = n
	if c.Proxy, err = NewProxy(n.addr(), c.log); err != nil {
		return err
	}
	if c.repl, err = NewProxy(n.addr(), NewLog()); err != nil {
		return err
	}
	for _, q := range []string{`CREATE ROLE app LOGIN PASSWORD '` + c.password + `'`, `CREATE DATABASE app OWNER app`} {
		if err := c.exec(n, q); err != nil {
			return err
		}
	}
	if !standby {
		return nil
	}
	return c.follow()
}

// node is a place for one more server.
func (c *Cluster) node() (*node, error) {
	port, err := testproc.FreePort()
	if err != nil {
		return nil, err
	}
	c.made++
	return &node{dir: filepath.Join(c.group.Dir, "data"+strconv.Itoa(c.made)), port: port}, nil
}

func (c *Cluster) start(n *node) error {
	args := []string{"-D", n.dir, "-p", strconv.Itoa(n.port)}
	for _, s := range []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300", "shared_buffers=128MB",
		// What was committed outlives a killed server; only the machine must not die.
		"fsync=off", "full_page_writes=off", "wal_keep_size=2GB", "max_wal_senders=4", "hot_standby=on",
		"wal_retrieve_retry_interval=200ms", "wal_receiver_timeout=10s",
	} {
		args = append(args, "-c", s)
	}
	// SIGQUIT is PostgreSQL's immediate shutdown: it ends its children first.
	p, err := c.group.Start(c.group.Command(filepath.Join(c.bin, "postgres"), args...), filepath.Base(n.dir)+".log", syscall.SIGQUIT)
	if err != nil {
		return err
	}
	n.proc = p
	return p.WaitReady(patience, func(ctx context.Context) error {
		db, err := sql.Open("postgres", c.url(n.addr(), "postgres", "postgres"))
		if err != nil {
			return err
		}
		return errors.Join(db.PingContext(ctx), db.Close())
	})
}

func (c *Cluster) url(host, user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, c.password), Host: host, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// URL is where clients connect to, wherever the primary is.
func (c *Cluster) URL() string { return c.url(c.Proxy.Addr, "app", "app") }

// exec runs one statement as the administrator, on a connection of its own.
func (c *Cluster) exec(n *node, query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := sql.Open("postgres", c.url(n.addr(), "postgres", "postgres"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, query)
	return errors.Join(err, db.Close())
}

// follow makes a standby of the present primary.
func (c *Cluster) follow() error {
	n, err := c.node()
	if err != nil {
		return err
	}
	c.repl.Upstream(c.primary.addr())
	host, port, _ := net.SplitHostPort(c.repl.Addr)
	dsn := fmt.Sprintf("host=%s port=%s user=postgres password=%s", host, port, c.password)
	err = c.group.Run(filepath.Join(c.bin, "pg_basebackup"), "-D", n.dir, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-d", dsn)
	if err != nil {
		return err
	}
	if err := c.start(n); err != nil {
		return err
	}
	c.standby = n
	return nil
}

// The ways to restart a server.
const (
	Fast      = "database: restarted (fast)"
	Immediate = "database: restarted (immediate)"
	Killed    = "database: killed and restarted"
)

// Restart ends the primary one way or another and starts it again.
func (c *Cluster) Restart(how string) error {
	n := c.primary
	switch how {
	case Fast:
		// SIGINT: transactions are cut off, what was committed is written out.
		if err := n.proc.Stop(syscall.SIGINT, patience); err != nil {
			return err
		}
	case Immediate:
		if err := n.proc.Stop(syscall.SIGQUIT, patience); err != nil {
			return err
		}
	default:
		n.proc.Kill()
		time.Sleep(300 * time.Millisecond) // its children see that it is gone
		if err := os.Remove(filepath.Join(n.dir, "postmaster.pid")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	c.log.Count(how)
	return c.start(n)
}

// The ways to fail over.
const (
	// FailoverKilled: the primary dies, the standby takes over.
	FailoverKilled = "database: failover, primary killed"
	// FailoverLossy: the same, and what was committed in the last moments never
	// reached the standby.
	FailoverLossy = "database: failover, last commits lost"
	// FailoverReadOnly: the primary lives on as a server that only reads, and
	// keeps the connections that it has.
	FailoverReadOnly = "database: failover, old primary read-only with its connections"
)

// Failover moves to the standby, and makes a new one.
func (c *Cluster) Failover(how string) error {
	old, next := c.primary, c.standby
	c.standby = nil
	switch how {
	case FailoverLossy:
		c.repl.Hold(true)
		time.Sleep(400 * time.Millisecond)
		fallthrough
	case FailoverKilled:
		old.proc.Kill()
		c.repl.Cut()
		c.repl.Hold(false)
	case FailoverReadOnly:
		err := c.exec(old, `ALTER SYSTEM SET default_transaction_read_only = on`)
		if err == nil {
			err = c.exec(old, `SELECT pg_reload_conf()`)
		}
		if err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // what was under way ends
	}
	if err := c.exec(next, `SELECT pg_promote(true, 60)`); err != nil {
		return err
	}
	c.primary = next
	c.Proxy.Upstream(next.addr())
	c.log.Count(how)
	if how == FailoverReadOnly {
		time.Sleep(3 * time.Second) // its clients still read there, and cannot write
		old.proc.Kill()
	}
	if err := c.follow(); err != nil {
		return err
	}
	return os.RemoveAll(old.dir)
}

// Close ends both servers and removes their data.
func (c *Cluster) Close() error {
	for _, p := range []*Proxy{c.Proxy, c.repl} {
		if p != nil {
			p.Close()
		}
	}
	return c.group.Close()
}
