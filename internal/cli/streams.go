package cli

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Streams are what a command reads and writes. stdout is the result, stderr
// everything else.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	InTerminal  bool // a person can answer questions
	OutTerminal bool // tables may be fitted, times may be relative
	OutClosed   bool // what is printed is lost, and no write fails
	ErrTerminal bool // a progress bar may be drawn
	Width       int  // columns of the terminal; 0: no limit

	Env func(name string) (string, bool)
	Now func() time.Time // the host's clock: only to check what was typed and to draw progress
}

// OSStreams are the streams of this process.
func OSStreams() Streams {
	s := Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		OutClosed:   outClosed(),
		Env:         os.LookupEnv,
		Now:         time.Now,
	}
	if dumb, _ := os.LookupEnv("TERM"); dumb == "dumb" {
		s.ErrTerminal = false // it cannot go back to the start of a line
	}
	if s.OutTerminal {
		s.Width = 80 // where the terminal does not tell
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
			s.Width = w
		}
		if c, ok := os.LookupEnv("COLUMNS"); ok {
			if n, err := strconv.Atoi(c); err == nil && n > 0 {
				s.Width = n
			}
		}
	}
	return s
}

// output is stdout with a memory: the first failed write is kept, because
// table writers do not report it, and nothing is written after it.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// closedPipe says whether a write failed because nobody reads any more
// (reconcile entries | head): that is no failure of ours.
func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
