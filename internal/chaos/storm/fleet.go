package storm

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// Fleet is a number of processes that are started again whenever they end, and
// what is done to them. A process that stops itself is continued some time
// later.
type Fleet struct {
	Group *testproc.Group
	Log   *Log
	Rand  *rand.Rand // under mu

	// Command makes the process of a slot, 0 and up. stormy is false once the
	// storm is over: then nothing in it may fail on purpose.
	Command func(slot int, stormy bool) *exec.Cmd
	// StopFor is how long a stopped process stays so.
	StopFor func(r *rand.Rand) time.Duration

	mu     sync.Mutex
	slots  []*slot
	calm   bool
	closed chan struct{}
	work   sync.WaitGroup
}

type slot struct {
	no      int
	log     string
	proc    *testproc.Process // nil between two
	stopped string            // how it was stopped, while it is
}

// Start starts the processes.
func (f *Fleet) Start(n int) {
	f.closed = make(chan struct{})
	for i := range n {
		s := &slot{no: i, log: fmt.Sprintf("process-%d.log", i)}
		f.slots = append(f.slots, s)
		f.work.Go(func() { f.keep(s) })
	}
	f.work.Go(f.watch)
}

// keep runs one process after the other.
func (f *Fleet) keep(s *slot) {
	for {
		select {
		case <-f.closed:
			return
		case <-time.After(f.between(20, 300)):
		}
		f.mu.Lock()
		stormy := !f.calm
		f.mu.Unlock()
		p, err := f.Group.Start(f.Command(s.no, stormy), s.log, syscall.SIGKILL)
		if err != nil {
			return // the group is closed
		}
		f.mu.Lock()
		s.proc, s.stopped = p, ""
		f.mu.Unlock()
		select {
		case <-p.Done():
		case <-f.closed:
			p.Signal(syscall.SIGCONT)
			_ = p.Stop(syscall.SIGTERM, 30*time.Second) // an error means that it had to be killed
		}
		f.mu.Lock()
		s.proc = nil
		f.mu.Unlock()
	}
}

func (f *Fleet) between(low, high int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(low+f.Rand.IntN(high-low)) * time.Millisecond
}

// watch continues what stopped itself.
func (f *Fleet) watch() {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-f.closed:
			return
		case <-t.C:
		}
		f.mu.Lock()
		for _, s := range f.slots {
			if s.proc != nil && s.stopped == "" && IsStopped(s.proc.Pid) {
				s.stopped = "itself"
				f.later(s, s.proc, lastPoint(filepath.Join(f.Group.Dir, s.log)))
			}
		}
		f.mu.Unlock()
	}
}

// later continues a process after a while. f.mu is held.
func (f *Fleet) later(s *slot, p *testproc.Process, point string) {
	from, d := time.Now(), f.StopFor(f.Rand)
	f.work.Go(func() {
		select {
		case <-time.After(d):
		case <-f.closed:
		}
		f.Log.stopped(Stop{Point: point, From: from, To: time.Now()})
		p.Signal(syscall.SIGCONT)
		f.mu.Lock()
		if s.proc == p {
			s.stopped = ""
		}
		f.mu.Unlock()
	})
}

// IsStopped tells whether a process is stopped by a signal. Source: proc(5).
func IsStopped(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b[max(0, bytes.LastIndexByte(b, ')')):]), ") ")
	return strings.HasPrefix(rest, "T ")
}

func lastPoint(log string) string {
	b, _ := os.ReadFile(log)
	i := bytes.LastIndex(b, []byte("failpoint "))
	if i < 0 {
		return ""
	}
	name, _, _ := strings.Cut(string(b[i+len("failpoint "):]), ":")
	return name
}

// pick chooses a running process at random. f.mu is held.
func (f *Fleet) pick() *slot {
	var up []*slot
	for _, s := range f.slots {
		if s.proc != nil && s.stopped == "" {
			up = append(up, s)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[f.Rand.IntN(len(up))]
}

// Kill kills a process at random.
func (f *Fleet) Kill() { f.signal(syscall.SIGKILL, "process: kill -9 at a random moment") }

// Terminate asks a process at random to end.
func (f *Fleet) Terminate() { f.signal(syscall.SIGTERM, "process: SIGTERM at a random moment") }

func (f *Fleet) signal(sig syscall.Signal, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.pick(); s != nil {
		s.proc.Signal(sig)
		f.Log.Count(name)
	}
}

// Stop stops a process at random and continues it later.
func (f *Fleet) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.pick(); s != nil {
		s.stopped = "us"
		s.proc.Signal(syscall.SIGSTOP)
		f.Log.Count("process: SIGSTOP at a random moment, SIGCONT later")
		f.later(s, s.proc, "")
	}
}

// Pids are the running processes.
func (f *Fleet) Pids() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pids []int
	for _, s := range f.slots {
		if s.proc != nil {
			pids = append(pids, s.proc.Pid)
		}
	}
	return pids
}

// Calm ends what fails on purpose: every process is started anew, in peace.
func (f *Fleet) Calm() {
	f.mu.Lock()
	f.calm = true
	ps := make([]*testproc.Process, 0, len(f.slots))
	for _, s := range f.slots {
		if s.proc != nil {
			ps = append(ps, s.proc)
		}
	}
	f.mu.Unlock()
	for _, p := range ps {
		p.Signal(syscall.SIGCONT)
		_ = p.Stop(syscall.SIGTERM, 30*time.Second) // an error means that it had to be killed
	}
}

// Close ends the processes and counts the fail points that were hit.
func (f *Fleet) Close() {
	close(f.closed)
	f.work.Wait()
	for _, s := range f.slots {
		b, _ := os.ReadFile(filepath.Join(f.Group.Dir, s.log))
		f.Log.CountPoints(b)
	}
}

// CountPoints counts the fail points that a process wrote of.
func (l *Log) CountPoints(stderr []byte) {
	for line := range bytes.Lines(stderr) {
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("failpoint ")); ok {
			l.Count("fail point " + string(rest))
		}
	}
}

// Weighted is one fault of a storm and how often it comes.
type Weighted struct {
	Weight int
	Do     func(ctx context.Context)
}

// Blow does faults at random moments, every on average, until ctx ends. A fault
// that takes its time keeps the next one waiting.
func Blow(ctx context.Context, r *rand.Rand, every time.Duration, faults []Weighted) {
	total := 0
	for _, f := range faults {
		total += f.Weight
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(min(r.ExpFloat64(), 4) * float64(every))):
		}
		x := r.IntN(total)
		for _, f := range faults {
			if x -= f.Weight; x < 0 {
				f.Do(ctx)
				break
			}
		}
	}
}
