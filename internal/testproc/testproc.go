// Package testproc runs the real programs that tests need (database servers,
// proxies, applications) so that none of them outlives its test binary, not
// even one that is killed.
//
// Each Group has a private folder and a watchdog: a small shell that waits on
// a pipe which only the test binary holds open. When the binary ends, however
// it ends, the pipe closes, and the watchdog ends the group's processes and
// removes the folder. No TestMain is needed.
package testproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// watchdog ends the processes listed in $1/run (file name: process id; content:
// the signal that ends it quickly) when its standard input closes.
//
// Five seconds for a clean end: a database server needs some milliseconds.
const watchdog = `
trap '' INT TERM HUP
read -r _
cd "$1" || exit 0
each() { for f in run/*; do [ -f "$f" ] && "$@" "$f"; done; }
end() { kill -s "$(cat "$1")" "${1##*/}" 2>/dev/null; }
alive() {
	kill -0 "${1##*/}" 2>/dev/null || return
	# Dead, and only not yet reaped by the parent that took it over.
	case $(cat "/proc/${1##*/}/stat" 2>/dev/null) in *') Z '*) return ;; esac
	left=1
}
kill9() { kill -KILL "${1##*/}" 2>/dev/null; }
each end
n=0
while [ $n -lt 50 ]; do
	left=
	each alive
	[ -z "$left" ] && break
	sleep 0.1
	n=$((n+1))
done
each kill9
cd / && rm -rf "$1"
`

// Group is a private folder and the processes that live in it. It is safe for
// concurrent use.
type Group struct {
	// Dir is the group's folder, removed when the group ends.
	Dir string

	cred *syscall.Credential // nil: the processes run as the caller
	pipe *os.File            // open for as long as the test binary lives
	dog  *exec.Cmd

	mu    sync.Mutex
	procs map[*Process]struct{}
}

// NewGroup makes a folder whose name begins with prefix, and its watchdog.
// An unprivileged group, made by root, belongs to another user (postgres, else
// nobody), because some servers refuse to run as root; made by anybody else it
// belongs to the caller.
func NewGroup(prefix string, unprivileged bool) (*Group, error) {
	g := &Group{procs: map[*Process]struct{}{}}
	root := ""
	if unprivileged && os.Geteuid() == 0 {
		cred, err := otherUser()
		if err != nil {
			return nil, err
		}
		g.cred = cred
		root = sharedTemp()
	}
	dir, err := os.MkdirTemp(root, prefix+"-")
	if err != nil {
		return nil, err
	}
	g.Dir = dir
	if err := g.adopt(dir, filepath.Join(dir, "run")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := g.watch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return g, nil
}

// adopt makes the folders that are missing and gives all to the group's user.
func (g *Group) adopt(dirs ...string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
		if err := g.Own(d); err != nil {
			return err
		}
	}
	return nil
}

// Own gives a file or folder to the user whom the group's processes run as.
func (g *Group) Own(path string) error {
	if g.cred == nil {
		return nil
	}
	return os.Chown(path, int(g.cred.Uid), int(g.cred.Gid))
}

func (g *Group) watch() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // our copy of the watchdog's end
	dog := exec.Command("/bin/sh", "-c", watchdog, "watchdog", g.Dir)
	dog.Dir = "/"
	dog.Stdin = r
	// A session of its own: an interrupt typed at the terminal must end the
	// test binary only, and leave the watchdog to clean up behind it.
	dog.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: g.cred}
	if err := dog.Start(); err != nil {
		return errors.Join(fmt.Errorf("start watchdog: %w", err), w.Close())
	}
	g.pipe, g.dog = w, dog
	return nil
}

// Close ends the group's processes, removes its folder and waits for both.
// A second Close does nothing.
func (g *Group) Close() error {
	g.mu.Lock()
	pipe := g.pipe
	g.pipe = nil
	procs := make([]*Process, 0, len(g.procs))
	for p := range g.procs {
		procs = append(procs, p)
	}
	g.mu.Unlock()
	if pipe == nil {
		return nil
	}
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.Stop(p.end, 5*time.Second))
	}
	errs = append(errs, pipe.Close(), g.dog.Wait())
	return errors.Join(errs...)
}

// Command prepares a program that runs in the group's folder as the group's
// user, for use with Run or Start.
func (g *Group) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = g.Dir
	cmd.Env = append(os.Environ(), "HOME="+g.Dir, "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: g.cred}
	return cmd
}

// Run runs a short program to its end. The error carries what it printed.
func (g *Group) Run(name string, args ...string) error {
	out, err := g.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

// Process is one running program of a group.
type Process struct {
	// Pid is its process id.
	Pid int

	group *Group
	cmd   *exec.Cmd
	log   string
	end   syscall.Signal
	done  chan struct{} // closed once the process is reaped
	err   error         // of Wait; read after done
}

// Start runs a program that stays. Its output goes to the file log in the
// group's folder. The signal end is what ends it without delay (SIGQUIT for a
// PostgreSQL server, SIGTERM for most).
func (g *Group) Start(cmd *exec.Cmd, log string, end syscall.Signal) (*Process, error) {
	f, err := os.OpenFile(filepath.Join(g.Dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the process has its own copy
	cmd.Stdout, cmd.Stderr = f, f
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return nil, errors.New("group is closed")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Pid: cmd.Process.Pid, group: g, cmd: cmd, log: f.Name(), end: end, done: make(chan struct{})}
	note := filepath.Join(g.Dir, "run", strconv.Itoa(p.Pid))
	noted := os.WriteFile(note, []byte(strconv.Itoa(int(end))), 0o600)
	if noted == nil {
		noted = g.Own(note)
	}
	g.procs[p] = struct{}{}
	go func() {
		p.err = cmd.Wait()
		// The id may now be given to a stranger: the watchdog must forget it.
		os.Remove(note) //nolint:errcheck // gone when the watchdog was first
		g.mu.Lock()
		delete(g.procs, p)
		g.mu.Unlock()
		close(p.done)
	}()
	if noted != nil {
		p.Signal(syscall.SIGKILL)
		return nil, noted
	}
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal. To a process that has ended it does nothing.
func (p *Process) Signal(s syscall.Signal) {
	// An error means that it has ended already, which Done tells.
	_ = p.cmd.Process.Signal(s)
}

// Suspend stops a process, and returns when none of its threads runs any more:
// the signal reaches those that run on another processor a moment later. Where
// there is no /proc it returns at once.
func (p *Process) Suspend() {
	p.Signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		running := false
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		for _, f := range threads {
			b, err := os.ReadFile(f)
			running = running || err == nil && !strings.Contains(string(b), ") T ") && !strings.Contains(string(b), ") Z ")
		}
		if !running {
			return
		}
	}
}

// Stop sends the signal and waits; what is still there after the patience is
// killed, and that is an error. Stopping what has ended does nothing.
func (p *Process) Stop(s syscall.Signal, patience time.Duration) error {
	p.Signal(s)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("%s did not end within %s of signal %d\n%s", filepath.Base(p.cmd.Path), patience, s, p.LogTail())
}

// Kill ends the process and its children at once, as a power cut would: none
// of them runs another instruction of its own.
func (p *Process) Kill() {
	p.Signal(syscall.SIGSTOP) // so that no child is born while we list them
	kids := children(p.Pid)
	p.Signal(syscall.SIGKILL)
	for _, pid := range kids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
}

// children lists the processes whose parent is pid. Where there is no /proc it
// lists none; a database server's children then end by themselves.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var kids []int
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name) state ppid …; the name may hold blanks and brackets.
		// Source: proc(5), /proc/pid/stat.
		_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if kid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			kids = append(kids, kid)
		}
	}
	return kids
}

// LogTail is the end of what the process printed, at most 4 KiB.
func (p *Process) LogTail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // read only
	const most = 4 << 10
	if st, err := f.Stat(); err == nil && st.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, _ := io.ReadAll(f)
	return string(b)
}

// WaitReady polls try until it returns nil, the process ends, or the patience
// is over. The error then carries the last one of try and the log's end.
func (p *Process) WaitReady(patience time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := filepath.Base(p.cmd.Path)
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%w) before it was ready\n%s", name, p.err, p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s not ready within %s: %w\n%s", name, patience, err, p.LogTail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on. It lies
// below the range that the system gives to outgoing connections, so that a
// server which restarts on it finds it free. Another process may still take
// it: be ready to try again.
func FreePort() (int, error) {
	for range 200 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free TCP port found between 15000 and 32000 on 127.0.0.1")
}

// otherUser is whom servers run as that refuse root.
func otherUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and neither user postgres nor nobody exists to run the server as")
}

// sharedTemp is the temporary folder if other users can enter it, else /tmp.
func sharedTemp() string {
	tmp := os.TempDir()
	for dir := tmp; ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil || st.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return tmp
		}
	}
}

// tb is what Missing needs of a test.
type tb interface {
	Helper()
	Name() string
	Skip(args ...any)
	Fatal(args ...any)
}

// Missing ends a test that needs a program which is not there: it skips, aloud,
// or fails where the environment variable require is "1", as it is in make test
// and in CI, so that a suite which did not run does not look green.
func Missing(t tb, require, what string) {
	t.Helper()
	if os.Getenv(require) == "1" {
		t.Fatal(what + "; " + require + "=1 forbids to skip it")
	}
	fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), what)
	t.Skip(what)
}
