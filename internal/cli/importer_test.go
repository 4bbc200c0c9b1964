package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
)

// fakeImport records everything; a line that begins with "!" is refused when
// parsed, one with "?" when recorded.
type fakeImport struct {
	importer
	keys    []string
	refused []string
	batches int
}

func newFakeImport() *fakeImport {
	f := &fakeImport{}
	f.workers = 3
	f.parse = func(line []byte) (ledger.Record, []ledger.FieldError) {
		if line[0] == '!' {
			return ledger.Record{}, []ledger.FieldError{{Field: "workflow", Message: "missing"}, {Field: "operation", Message: "missing"}}
		}
		r := ledger.Record{ActionKey: string(line)}
		if strings.HasPrefix(r.ActionKey, "odd") {
			r.Unknown = []string{"colour"}
		}
		return r, nil
	}
	f.record = func(_ context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
		f.batches++
		out := make([]ledger.Recorded, len(recs))
		for i, r := range recs {
			out[i] = ledger.Recorded{ActionKey: r.ActionKey, Verdict: ledger.RecordedNew}
			if r.ActionKey[0] == '?' {
				out[i] = ledger.Recorded{Verdict: ledger.RecordedRefused, Errors: []ledger.FieldError{{Field: "payload", Message: "differs"}}}
			}
			f.keys = append(f.keys, r.ActionKey)
		}
		return out, nil
	}
	f.refuse = func(source string, line int, e ledger.FieldError) {
		f.refused = append(f.refused, fmt.Sprintf("%s:%d: %s", source, line, e.Error()))
	}
	return f
}

// What a followed input has given is recorded before it gives more, and counted
// though it is interrupted.
func TestImportFollows(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	pr, pw := io.Pipe()
	defer pw.Close()
	f := newFakeImport()
	recorded := make(chan string)
	plain := f.record
	f.record = func(ctx context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
		for _, r := range recs {
			recorded <- r.ActionKey
		}
		return plain(ctx, recs)
	}
	ended := make(chan error)
	go func() { ended <- f.file(ctx, "stdin", newStdin(ctx, pr)) }()
	for _, line := range []string{"a", "b", "c"} {
		if _, err := io.WriteString(pw, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-recorded; got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
	stop(ErrInterrupted)
	if err := <-ended; !errors.Is(err, ErrInterrupted) {
		t.Errorf("ended with %v", err)
	}
	if want := (importCounts{Read: 3, New: 3}); f.counts != want {
		t.Errorf("got %+v, want %+v", f.counts, want)
	}
}

func TestImportFile(t *testing.T) {
	cases := map[string]struct {
		in      string
		keys    []string
		refused []string
		counts  importCounts
	}{
		"nothing":          {in: ""},
		"only blank lines": {in: "\n  \n\r\n"},
		"the last line without a line end is read":       {in: "a\nb", keys: []string{"a", "b"}, counts: importCounts{Read: 2, New: 2}},
		"byte order mark, CRLF and blanks are taken off": {in: "\ufeffa\r\n\r\n b \r\n", keys: []string{"a", "b"}, counts: importCounts{Read: 2, New: 2}},
		"refused lines carry their number, and stop nothing else": {
			in: "a\n\n!\n?b\nc\n", keys: []string{"a", "?b", "c"}, counts: importCounts{Read: 4, New: 2, Refused: 2},
			refused: []string{"f:3: workflow: missing", "f:3: operation: missing", "f:4: payload: differs"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakeImport()
			if err := f.file(t.Context(), "f", strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.keys, f.keys); d != "" {
				t.Errorf("keys (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.refused, f.refused); d != "" {
				t.Errorf("refused (-want +got):\n%s", d)
			}
			if f.counts != c.counts {
				t.Errorf("counts: got %+v, want %+v", f.counts, c.counts)
			}
		})
	}
}

func TestImportKeepsTheOrderOfLinesOverManyBatches(t *testing.T) {
	f := newFakeImport()
	var in bytes.Buffer
	var want []string
	for i := range 5*importBatch + 7 {
		k := fmt.Sprintf("k%06d", i)
		want = append(want, k)
		fmt.Fprintln(&in, k)
	}
	if err := f.file(t.Context(), "f", &in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, f.keys); d != "" {
		t.Error(d)
	}
	if f.batches != 6 {
		t.Errorf("batches: got %d, want 6", f.batches)
	}
}

func TestImportWarnsOncePerKind(t *testing.T) {
	f := newFakeImport()
	in := strings.Repeat("odd\n", 3*importBatch)
	if err := f.file(t.Context(), "f", strings.NewReader("plain\n"+in)); err != nil {
		t.Fatal(err)
	}
	if len(f.warnings) != 1 {
		t.Fatalf("kinds of warnings: got %d, want 1", len(f.warnings))
	}
	for _, w := range f.warnings {
		if w.count != 3*importBatch || w.line != 2 {
			t.Errorf("got %d from line %d, want %d from line 2", w.count, w.line, 3*importBatch)
		}
	}
}

// endless gives n bytes of one line without holding them.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

func TestImportRefusesALineThatIsTooLongWithoutHoldingIt(t *testing.T) {
	f := newFakeImport()
	f.lineMax = 1 << 20
	in := io.MultiReader(strings.NewReader("a\n"), &endless{left: 20 * f.lineMax}, strings.NewReader("\nb\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := f.file(t.Context(), "f", in); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if d := cmp.Diff([]string{"a", "b"}, f.keys); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"f:2: record: the line is longer than 1 MiB; leave the payload out of it"}, f.refused); d != "" {
		t.Error(d)
	}
	// Growing a buffer to the limit costs a few times the limit; the whole
	// line would cost twenty times.
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(10*f.lineMax) {
		t.Errorf("allocated %d MiB for a line of %d MiB", used>>20, 20*f.lineMax>>20)
	}
	if f.counts != (importCounts{Read: 3, New: 2, Refused: 1}) {
		t.Errorf("counts: %+v", f.counts)
	}
}

func TestImportStopsAtALedgerThatFails(t *testing.T) {
	f := newFakeImport()
	broken := errors.New("connection lost")
	record := f.record
	f.record = func(ctx context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
		if f.batches == 1 {
			return nil, broken
		}
		return record(ctx, recs)
	}
	err := f.file(t.Context(), "f", strings.NewReader(strings.Repeat("a\n", 10*importBatch)))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "record f from line 1001 on") {
		t.Errorf("got %v", err)
	}
	if f.counts != (importCounts{Read: importBatch, New: importBatch}) {
		t.Errorf("counts: %+v", f.counts)
	}
}

func TestImportWritesTwoBatchesAtOnceUnlessTheyShareAKey(t *testing.T) {
	cases := map[string]struct {
		key  func(i int) string
		most int32
	}{
		"all keys differ: two at once":                  {func(i int) string { return fmt.Sprint(i) }, 2},
		"every batch has one action in common: in turn": {func(i int) string { return fmt.Sprint(i % importBatch) }, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakeImport()
			f.writers = 2
			var open, most atomic.Int32
			both := make(chan struct{})
			f.record = func(_ context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
				n := open.Add(1)
				defer open.Add(-1)
				if n == 2 && most.CompareAndSwap(1, 2) {
					close(both)
				}
				most.CompareAndSwap(0, n)
				if c.most == 2 {
					<-both // the first waits for the second
				}
				out := make([]ledger.Recorded, len(recs))
				for i := range out {
					out[i].Verdict = ledger.RecordedNew
				}
				return out, nil
			}
			var in bytes.Buffer
			for i := range 4 * importBatch {
				fmt.Fprintln(&in, c.key(i))
			}
			if err := f.file(t.Context(), "f", &in); err != nil {
				t.Fatal(err)
			}
			if most.Load() != c.most || f.counts.New != 4*importBatch {
				t.Errorf("at once: %d, new: %d; want %d and %d", most.Load(), f.counts.New, c.most, 4*importBatch)
			}
		})
	}
}

func TestImportInterruptedFinishesTheBatchUnderWay(t *testing.T) {
	f := newFakeImport()
	ctx, cancel := context.WithCancelCause(t.Context())
	record := f.record
	f.record = func(ctx context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
		cancel(ErrInterrupted)
		if ctx.Err() != nil {
			t.Error("the batch under way was cancelled")
		}
		return record(ctx, recs)
	}
	err := f.file(ctx, "f", strings.NewReader(strings.Repeat("a\n", 10*importBatch)))
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, want ErrInterrupted", err)
	}
	if f.counts != (importCounts{Read: importBatch, New: importBatch}) {
		t.Errorf("counts: %+v", f.counts)
	}
}

func TestStdinThatStaysSilentCanBeInterrupted(t *testing.T) {
	f := newFakeImport()
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		fmt.Fprintln(w, "a")
		cancel(ErrInterrupted)
	}()
	done := make(chan error, 1)
	go func() { done <- f.file(ctx, "stdin", newStdin(ctx, r)) }()
	select {
	case err := <-done:
		if !errors.Is(err, ErrInterrupted) {
			t.Errorf("got %v, want ErrInterrupted", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still reading")
	}
}
