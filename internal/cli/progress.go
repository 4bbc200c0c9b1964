package cli

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on stderr, drawn on a terminal only.
type progress struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: not drawn
	total int64
}

// progressBytes is what a bar over bytes counts.
const progressBytes = "bytes"

// progress starts a bar over a total; 0: not known yet.
func (a *app) progress(what string, total int64) *progress {
	p := &progress{total: total}
	if !a.ErrTerminal {
		return p
	}
	n := total
	if n <= 0 {
		n = -1
	}
	p.bar = progressbar.NewOptions64(n,
		progressbar.OptionSetWriter(a.Err),
		progressbar.OptionSetVisibility(true),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(what),
		progressbar.OptionShowBytes(what == progressBytes),
		progressbar.OptionClearOnFinish(),
	)
	return p
}

// set says that done of total are done.
func (p *progress) set(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	if t := int64(total); t > 0 && t != p.total {
		p.total = t
		p.bar.ChangeMax64(t)
	}
	_ = p.bar.Set64(int64(done)) // a bar that cannot be drawn is no loss
}

// add says that n more are done.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

// above prints lines over the bar without leaving a torn one behind.
func (p *progress) above(print func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	print()
}

// done takes the bar away. It may be called again.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
