package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/internal/textfile"
	"github.com/recovery-ledger/reconcile/ledger"
)

// importOptions are the flags of import.
type importOptions struct {
	files  []string
	format string
	output string
}

// The output of import as text.
const formatText = "text"

func newImport(a *app) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE…|-",
		Short: "record actions and their attempts from JSON Lines",
		Long: `import records one action per line. The same file may be imported again: what is
recorded already is merged. A line that cannot be recorded is named on stderr as
FILE:LINE: field: message, and stops nothing else; with one or more of them the
exit code is 1. "-" reads stdin; what it gives is recorded as soon as it pauses.`,
		Example: `  reconcile import failures.jsonl
  reconcile import monday.jsonl tuesday.jsonl --output json
  kubectl logs worker | grep '^{' | reconcile import -
  tail -F failures.jsonl | reconcile import -`,
		Args: atLeastOne("FILE (or - for stdin)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			return o.run(cmd.Context(), a)
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "jsonl", "`format` of the files: jsonl (n8n: not supported yet)")
	bindOutput(cmd, &o.output, formatText, formatJSON)
	return cmd
}

func (o importOptions) check() error {
	switch o.format {
	case "jsonl":
	case "n8n":
		return notYet("import --format n8n")
	default:
		return oneOf("format", o.format, []string{"jsonl", "n8n"})
	}
	stdin := 0
	for _, f := range o.files {
		if f == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return usagef("stdin can be read only once; give - once")
	}
	return nil
}

func (o importOptions) run(ctx context.Context, a *app) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := a.load()
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.openLedger(ctx); err != nil {
		return err
	}

	if os.Getenv("GOGC") == "" {
		// Nearly all that an import allocates is dropped with its batch: to
		// collect half as often saves an eighth of its time for 15 MiB.
		debug.SetGCPercent(200)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	parse := s.parseOptions(now)
	bar := a.progress(progressBytes, o.size())
	defer bar.done()
	recorder := s.recorder()
	im := &importer{
		parse: func(line []byte) (ledger.Record, []ledger.FieldError) {
			received := parse
			received.Now = now.Add(time.Since(began)) // an input that is followed may last for days
			return ledger.ParseRecord(line, received)
		},
		workers: min(runtime.GOMAXPROCS(0), 4),
		writers: 2, // one is made ready while the database works on the other
		record: func(ctx context.Context, recs []ledger.Record) ([]ledger.Recorded, error) {
			return recorder.Record(ctx, s.store, recs)
		},
		refuse: func(source string, line int, e ledger.FieldError) {
			bar.above(func() { a.note("%s:%d: %s: %s", source, line, e.Field, e.Message) })
		},
		advance: bar.add,
	}
	unread := 0
	var failed error
	for _, name := range o.files {
		err := o.file(ctx, a, im, name)
		var pe *fs.PathError
		var not *notTextError
		if errors.As(err, &pe) || errors.As(err, &not) {
			// One file that cannot be read loses nothing of the others.
			if name == "-" {
				name = "stdin"
			}
			bar.above(func() { a.note("reconcile: %s: %s", name, textfile.Trouble(err)) })
			unread++
			continue
		}
		if err != nil {
			failed = err
			break
		}
	}
	bar.done()
	o.warn(a, im)
	if failed != nil {
		a.note("what is counted here is recorded; import the same files again for the rest, nothing is recorded twice")
	}
	written := o.print(a, im.counts)
	switch { // a reader of the counts that went away hides neither
	case failed != nil:
		return failed
	case unread > 0 || im.counts.Refused > 0:
		return exitStatus(ExitFailed)
	}
	return written
}

// size is the total of all files for the progress bar; 0 where it is not known.
func (o importOptions) size() int64 {
	var total int64
	for _, f := range o.files {
		info, err := os.Stat(f)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

func (o importOptions) file(ctx context.Context, a *app, im *importer, name string) error {
	if name == "-" {
		if a.InTerminal {
			a.note("reading records from the terminal; end with Ctrl-D")
		}
		return im.file(ctx, "stdin", newStdin(ctx, a.In))
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return im.file(ctx, name, f)
}

// stdin is a reader that can be interrupted: a read from a terminal or a quiet
// pipe would otherwise hold the command until its next line.
type stdin struct {
	ctx  context.Context
	got  chan []byte
	err  error // set before got is closed
	rest []byte
}

func newStdin(ctx context.Context, r io.Reader) *stdin {
	s := &stdin{ctx: ctx, got: make(chan []byte)}
	// It ends with the input, or is left behind in its last read by an
	// interrupted command, which is about to exit.
	go func() {
		defer close(s.got)
		for {
			buf := make([]byte, 256<<10)
			n, err := r.Read(buf)
			if n > 0 {
				select {
				case s.got <- buf[:n]:
				case <-ctx.Done():
					s.err = ctx.Err()
					return
				}
			}
			if err != nil {
				s.err = err
				return
			}
		}
	}()
	return s
}

// soon implements follower.
func (s *stdin) soon(d time.Duration) bool {
	if len(s.rest) > 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case s.rest = <-s.got: // nothing at the end of the input, which Read tells
		return true
	case <-s.ctx.Done():
		return true
	case <-t.C:
		return false
	}
}

func (s *stdin) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case b, ok := <-s.got:
			if !ok {
				return 0, s.err
			}
			s.rest = b
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (o importOptions) warn(a *app, im *importer) {
	kinds := sortedKeys(im.warnings)
	sort.SliceStable(kinds, func(i, j int) bool { return im.warnings[kinds[i]].count > im.warnings[kinds[j]].count })
	for _, k := range kinds {
		w := im.warnings[k]
		a.note("warning: %s:%d: %s (%s)", w.source, w.line, k, plural(w.count, "record", "records"))
	}
}

func (o importOptions) print(a *app, c importCounts) error {
	if o.output == formatJSON {
		return render.JSON(a.Out, c)
	}
	_, err := fmt.Fprintf(a.Out, "read %d, new %d, merged %d, unchanged %d, refused %d\n", c.Read, c.New, c.Merged, c.Unchanged, c.Refused)
	return err
}
