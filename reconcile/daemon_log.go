package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// PassLog is the log of an engine that a daemon runs. Where a ledger goes away in
// the middle of a pass, each batch and each entry warns of it for itself: of
// warnings with one message the first of a pass is written at once, and with
// the end of the pass how many more there were. It is a slog.Handler.
type PassLog struct {
	slog.Handler
	more *repeats
}

// repeats are the warnings of the pass under way, by message: how often each came
// after the first time.
type repeats struct {
	mu sync.Mutex
	by map[string]int
}

// NewPassLog writes to the handler given.
func NewPassLog(to slog.Handler) *PassLog { return &PassLog{to, &repeats{by: map[string]int{}}} }

// Handle implements slog.Handler.
func (l *PassLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && l.more.again(r.Message) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

func (m *repeats) again(message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, known := m.by[message]
	if known {
		n++
	}
	m.by[message] = n
	return known
}

// WithAttrs implements slog.Handler.
func (l *PassLog) WithAttrs(as []slog.Attr) slog.Handler {
	return &PassLog{l.Handler.WithAttrs(as), l.more}
}

// WithGroup implements slog.Handler.
func (l *PassLog) WithGroup(name string) slog.Handler {
	return &PassLog{l.Handler.WithGroup(name), l.more}
}

// Ended says that a pass has ended: it writes what came more than once, and the
// next pass warns anew.
func (l *PassLog) Ended() {
	l.more.mu.Lock()
	by := l.more.by
	l.more.by = map[string]int{}
	l.more.mu.Unlock()
	log := slog.New(l.Handler)
	for _, message := range slices.Sorted(maps.Keys(by)) {
		if n := by[message]; n > 0 {
			log.Warn(message, "more", n)
		}
	}
}
