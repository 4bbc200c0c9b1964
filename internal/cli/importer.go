package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/internal/textfile"
	"github.com/recovery-ledger/reconcile/ledger"
)

const (
	// importBatch is how many records go into one transaction: Store.Record
	// takes no more, and fewer spend more commits.
	importBatch = 1000
	// importBatchBytes ends a batch early, so that large records keep memory
	// flat.
	importBatchBytes = 2 << 20
	// importLineMax is the longest line read; a longer one is refused and
	// skipped without being held in memory.
	importLineMax = 16 << 20
	// importAhead is how many batches may be read and parsed while one is
	// being written.
	importAhead = 2
)

// importCounts is what an import did. Its JSON form is a contract.
type importCounts struct {
	Read      int `json:"read"`
	New       int `json:"new"`
	Merged    int `json:"merged"`
	Unchanged int `json:"unchanged"`
	Refused   int `json:"refused"`
}

// importer reads records from files and has them recorded. Reading, parsing
// and writing run beside each other. Batches are begun in the order of their
// lines, and two are under way at once only if they have no action key in
// common, so that news of one action is recorded in its order.
type importer struct {
	parse   func(line []byte) (ledger.Record, []ledger.FieldError)
	record  func(ctx context.Context, recs []ledger.Record) ([]ledger.Recorded, error)
	workers int // parsers at work at once; at least 1
	writers int // batches being written at once; at least 1
	lineMax int // bytes of the longest line read; 0: importLineMax

	refuse  func(source string, line int, e ledger.FieldError)
	advance func(bytes int) // progress; may be nil

	counts   importCounts
	warnings map[string]*importWarning
}

// importWarning is one kind of warning, counted instead of repeated.
type importWarning struct {
	count  int
	source string // where it was seen first
	line   int
}

// importChunk is one batch on its way.
type importChunk struct {
	lines []importLine
	bytes int

	recs    []ledger.Record
	at      []int // line of each record
	refused []importRefusal
	parsed  chan struct{} // closed when the three above are set

	got     []ledger.Recorded
	err     error
	written chan struct{} // closed when these two are set
}

type importLine struct {
	no   int
	text []byte
	long bool // too long to be kept; text is empty
	last bool // the input ends without a line end
}

type importRefusal struct {
	line int
	errs []ledger.FieldError
}

// file imports one source. An error means that reading or the ledger broke:
// what was recorded before it stays, and is in the counts.
func (im *importer) file(ctx context.Context, source string, r io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	toParse := make(chan *importChunk, importAhead)
	inOrder := make(chan *importChunk, importAhead)
	var readErr error
	wg.Add(1)
	go func() {
		defer wg.Done()
		defer close(inOrder)
		defer close(toParse)
		readErr = readChunks(r, im.longest(), func(c *importChunk) bool {
			for _, to := range []chan *importChunk{toParse, inOrder} {
				select {
				case to <- c:
				case <-ctx.Done():
					return false
				}
			}
			return true
		})
	}()
	for range max(im.workers, 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range toParse {
				im.parseChunk(c)
			}
		}()
	}

	var underWay []*importChunk
	// finish waits for the oldest batches until at most n are under way.
	finish := func(n int) (err error) {
		for len(underWay) > n {
			c := underWay[0]
			underWay = underWay[1:]
			<-c.written
			err = errors.Join(err, im.finish(source, c))
		}
		return err
	}
	for c := range inOrder {
		<-c.parsed
		room := max(im.writers, 1) - 1
		if sharesKey(c, underWay) {
			room = 0
		}
		if err := finish(room); err != nil {
			return errors.Join(err, finish(0))
		}
		if ctx.Err() != nil {
			break
		}
		underWay = append(underWay, c)
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer close(c.written)
			if len(c.recs) > 0 {
				// A batch that has begun is finished, so that the counts are
				// true when a signal comes.
				c.got, c.err = im.record(context.WithoutCancel(ctx), c.recs)
			}
		}()
	}
	if err := finish(0); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return readErr
}

// sharesKey says whether a batch has an action key in common with one of the
// others.
func sharesKey(c *importChunk, others []*importChunk) bool {
	if len(others) == 0 {
		return false
	}
	keys := make(map[string]bool, len(c.recs))
	for _, r := range c.recs {
		keys[r.ActionKey] = true
	}
	for _, o := range others {
		for _, r := range o.recs {
			if keys[r.ActionKey] {
				return true
			}
		}
	}
	return false
}

func (im *importer) longest() int {
	if im.lineMax > 0 {
		return im.lineMax
	}
	return importLineMax
}

func (im *importer) parseChunk(c *importChunk) {
	defer close(c.parsed)
	c.recs, c.at = make([]ledger.Record, 0, len(c.lines)), make([]int, 0, len(c.lines))
	for _, l := range c.lines {
		if l.long {
			c.refused = append(c.refused, importRefusal{l.no, []ledger.FieldError{{
				Field:   "record",
				Message: fmt.Sprintf("the line is longer than %d MiB; leave the payload out of it", im.longest()>>20),
			}}})
			continue
		}
		rec, errs := im.parse(l.text)
		if len(errs) > 0 {
			if l.last && !json.Valid(l.text) {
				errs[0].Message += "; the input ends within this line: if it is still being written, import it again once it is whole"
			}
			c.refused = append(c.refused, importRefusal{l.no, errs})
			continue
		}
		c.recs = append(c.recs, rec)
		c.at = append(c.at, l.no)
	}
	c.lines = nil
}

// finish counts what became of a written batch, and reports its refused lines
// in their order.
func (im *importer) finish(source string, c *importChunk) error {
	if c.err != nil {
		return fmt.Errorf("record %s from line %d on: %w", source, c.at[0], c.err)
	}
	refused := c.refused
	for i, g := range c.got {
		switch g.Verdict {
		case ledger.RecordedNew:
			im.counts.New++
		case ledger.RecordedMerged:
			im.counts.Merged++
		case ledger.RecordedUnchanged:
			im.counts.Unchanged++
		default:
			refused = append(refused, importRefusal{c.at[i], g.Errors})
		}
		for _, w := range g.Warnings {
			im.warn(w, source, c.at[i])
		}
		for _, u := range c.recs[i].Unknown {
			im.warn(fmt.Sprintf("%s: not a member of a record, ignored", u), source, c.at[i])
		}
		for _, w := range c.recs[i].Doubts {
			im.warn(w, source, c.at[i])
		}
	}
	sort.SliceStable(refused, func(i, j int) bool { return refused[i].line < refused[j].line })
	for _, r := range refused {
		if len(r.errs) == 0 {
			r.errs = []ledger.FieldError{{Field: "record", Message: "refused"}}
		}
		for _, e := range r.errs {
			im.refuse(source, r.line, e)
		}
	}
	im.counts.Refused += len(refused)
	im.counts.Read += len(c.recs) + len(c.refused)
	if im.advance != nil {
		im.advance(c.bytes)
	}
	return nil
}

func (im *importer) warn(text, source string, line int) {
	if im.warnings == nil {
		im.warnings = map[string]*importWarning{}
	}
	w := im.warnings[text]
	if w == nil {
		// Members made of data (ids as names) must not fill the memory.
		if len(im.warnings) >= importWarningKinds {
			text = "more kinds of warnings"
			if w = im.warnings[text]; w == nil {
				w = &importWarning{source: source, line: line}
				im.warnings[text] = w
			}
			w.count++
			return
		}
		w = &importWarning{source: source, line: line}
		im.warnings[text] = w
	}
	w.count++
}

// importWarningKinds is how many kinds of warnings are told apart: more than
// anybody reads.
const importWarningKinds = 50

// importPause is how long a source may say nothing before the lines it has given
// are recorded: what is followed (tail -f, a log) is in the ledger at once.
const importPause = 200 * time.Millisecond

// follower is a reader that can tell whether more comes soon.
type follower interface {
	// soon waits for more, at most d; the end of the input is more too.
	soon(d time.Duration) bool
}

// notTextError is a source of which no line can be a record.
type notTextError struct{ why string }

func (e *notTextError) Error() string { return e.why }

// readChunks cuts r into batches of lines and gives each to next, until next
// returns false. A batch ends early where r is a follower and pauses. Blank
// lines are left out; a byte order mark and carriage returns are taken off.
// A source that is no UTF-8 text by its first bytes is a *notTextError.
func readChunks(r io.Reader, lineMax int, next func(*importChunk) bool) error {
	br := bufio.NewReaderSize(r, 256<<10)
	chunk := func() *importChunk {
		return &importChunk{parsed: make(chan struct{}), written: make(chan struct{})}
	}
	c := chunk()
	no := 0
	followed, _ := r.(follower)
	for {
		if followed != nil && len(c.lines) > 0 && br.Buffered() == 0 && !followed.soon(importPause) {
			if !next(c) {
				return nil
			}
			c = chunk()
		}
		text, size, long, err := readLine(br, lineMax)
		if size > 0 || err == nil {
			no++
			if no == 1 {
				if why := textfile.NotText(text); why != "" {
					return &notTextError{why}
				}
				text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
			}
			c.bytes += size
			if text = bytes.TrimSpace(text); len(text) > 0 || long {
				c.lines = append(c.lines, importLine{no: no, text: text, long: long, last: err != nil})
			}
		}
		if len(c.lines) >= importBatch || c.bytes >= importBatchBytes || err != nil {
			if c.bytes > 0 && !next(c) {
				return nil
			}
			c = chunk()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after line %d: %w", no, err)
		}
	}
}

// readLine reads up to and including the next line feed. text is the caller's
// own; size counts all bytes read, also those of a line that was too long to
// keep.
func readLine(br *bufio.Reader, lineMax int) (text []byte, size int, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		size += len(part)
		if size > lineMax {
			text, long = nil, true
		} else {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return text, size, long, err
	}
}
