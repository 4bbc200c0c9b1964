package render

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// TableSpec is a table to print.
type TableSpec struct {
	Columns []Column
	Rows    Rows
	Width   int       // columns of the terminal; 0: a pipe or a file
	Now     time.Time // for relative times; needed for a terminal
	// Stack prints each row as a block of "name value" lines where the
	// terminal is too narrow for the columns even when their texts are cut.
	Stack bool
	// Brief makes the table of a terminal one of several, with fewer columns and
	// shorter names.
	Brief bool
}

// minText is the width below which a text column is not cut: seven characters
// and the … still tell words apart.
const minText = 8

// minWrapped is the width below which a text is not broken into lines.
const minWrapped = 24

// gap stands between columns.
const gap = "  "

// Table prints a table. In a pipe: a line of names, then a line per row, in
// tab-separated whole cells, row by row as they come. On a terminal: aligned,
// every line of the same display width, at most s.Width as far as keys and
// numbers allow; without rows it says "0 rows".
func Table(w io.Writer, s TableSpec) error {
	if s.Width <= 0 {
		return tabs(w, s)
	}
	s = without(s, func(c Column) bool { return c.Aside || s.Brief && (c.Finer || c.Wordy) })
	if s.Brief {
		brief(s.Columns)
	}
	var grid [][]string
	for row, err := range s.Rows {
		if err != nil {
			return err
		}
		grid = append(grid, texts(s, row))
	}
	if len(grid) == 0 {
		_, err := io.WriteString(w, "0 rows\n")
		return err
	}
	widths, fits := fit(s, grid)
	if !fits && s.Stack {
		return stack(w, s, grid)
	}
	if cutNumber(s.Columns, widths) {
		brief(s.Columns)
		widths, _ = fit(s, grid)
	}
	head := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		head[i] = Cut(Visible(c.Heading()), widths[i])
	}
	lines := [][]string{head}
	for _, row := range grid {
		lines = append(lines, laid(s.Columns, row, widths)...)
	}
	return aligned(w, s.Columns, lines)
}

// brief gives columns their shorter names.
func brief(cols []Column) {
	for i, c := range cols {
		cols[i].Head = cmp.Or(c.Brief, c.Head)
	}
}

// cutNumber says whether the name of a column of numbers would be cut: two that
// begin alike (p50, p95) could not be told apart.
func cutNumber(cols []Column, widths []int) bool {
	for i, c := range cols {
		if c.Right() && Width(Visible(c.Heading())) > widths[i] {
			return true
		}
	}
	return false
}

// laid is a row in as many lines as its texts need.
func laid(cols []Column, row []string, widths []int) [][]string {
	lines := [][]string{make([]string, len(row))}
	for i, text := range row {
		parts := []string{Cut(text, widths[i])}
		if cols[i].Wrap {
			parts = broken(text, widths[i])
		}
		for n, part := range parts {
			if n == len(lines) {
				lines = append(lines, make([]string, len(row)))
			}
			lines[n][i] = part
		}
	}
	return lines
}

// broken is a text in lines of at most width columns, broken at blanks and, in
// a word that is wider, wherever it has to be.
func broken(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(Wrap(text, width), "\n") {
		for Width(line) > width {
			part := displaywidth.TruncateString(line, width, "")
			if part == "" {
				break // not even one letter fits
			}
			out, line = append(out, part), line[len(part):]
		}
		out = append(out, line)
	}
	return out
}

// without leaves out columns.
func without(s TableSpec, out func(c Column) bool) TableSpec {
	var shown []int
	t := s
	t.Columns = nil
	for i, c := range s.Columns {
		if !out(c) {
			shown = append(shown, i)
			t.Columns = append(t.Columns, c)
		}
	}
	t.Rows = func(yield func([]any, error) bool) {
		for row, err := range s.Rows {
			var kept []any
			if err == nil {
				for _, i := range shown {
					kept = append(kept, row[i])
				}
			}
			if !yield(kept, err) {
				return
			}
		}
	}
	return t
}

// Heading is what stands above the column for a person to read.
func (c Column) Heading() string { return cmp.Or(c.Head, c.Name) }

// Right says whether the column is aligned to the right.
func (c Column) Right() bool { return c.Kind == Number || c.Kind == Percent }

// texts is a row as a table shows it.
func texts(s TableSpec, row []any) []string {
	out := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		text := Visible(plain(row[i]))
		if s.Width > 0 {
			text = spoken(c, row[i], s.Now)
		}
		if text == "" {
			text = c.Blank
		}
		out[i] = text
	}
	return out
}

func tabs(w io.Writer, s TableSpec) error {
	b := bufio.NewWriter(w)
	names := Names(s.Columns)
	for i := range names {
		names[i] = Visible(names[i])
	}
	fmt.Fprintln(b, strings.Join(names, "\t"))
	for row, err := range s.Rows {
		if err != nil {
			return errors.Join(err, b.Flush()) // the rows that came are good; the error says that more is missing
		}
		if _, err := fmt.Fprintln(b, strings.Join(texts(s, row), "\t")); err != nil {
			return err
		}
	}
	return b.Flush()
}

// fit chooses the width of each column: as wide as its widest cell, then the
// widest text narrowed until the line fits, and no further than minText.
func fit(s TableSpec, grid [][]string) (widths []int, fits bool) {
	n := len(s.Columns)
	widths, least := make([]int, n), make([]int, n)
	total := len(gap) * (n - 1)
	for i, c := range s.Columns {
		for _, row := range grid {
			widths[i] = max(widths[i], Width(row[i]))
		}
		// A name may be cut, but not to nothing; keys and numbers may not.
		head := Width(Visible(c.Heading()))
		least[i] = max(widths[i], min(head, minText))
		switch {
		case c.Wrap:
			least[i] = min(least[i], minWrapped)
		case c.Kind == Text:
			least[i] = min(least[i], minText)
		}
		widths[i] = max(widths[i], head)
		total += widths[i]
	}
	for total > s.Width {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
		total--
	}
	return widths, true
}

// aligned lays lines out through tablewriter. That counts the width of a text
// rune by rune, which is wrong for emoji made of several and depends on the
// environment; so it is given a stand-in of as many letters for each cell, and
// the texts are put in afterwards, in the same order.
func aligned(w io.Writer, cols []Column, lines [][]string) error {
	aligns := make([]tw.Align, len(cols))
	pads := make([]tw.Padding, len(cols))
	for i, c := range cols {
		// One blank on each side makes the gap: a padding of two characters
		// is taken twice in columns aligned to the right, and cuts the cell.
		aligns[i], pads[i] = tw.AlignLeft, tw.PaddingDefault
		if c.Right() {
			aligns[i] = tw.AlignRight
		}
	}
	pads[0].Left, pads[len(cols)-1].Right = tw.Empty, tw.Empty
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: aligns},
		Padding:    tw.CellPadding{Global: tw.PaddingNone, PerColumn: pads},
	}
	var texts []string
	standIns := make([][]string, len(lines))
	for r, line := range lines {
		standIns[r] = make([]string, len(line))
		for i, text := range line {
			n := Width(text)
			standIns[r][i] = strings.Repeat(string(standIn), n)
			if n > 0 {
				texts = append(texts, text)
			}
		}
	}
	out := &filler{sticky: sticky{w: w}, texts: texts}
	t := tablewriter.NewTable(out,
		tablewriter.WithConfig(tablewriter.Config{
			Header: cell, Row: cell,
			Behavior: tw.Behavior{AutoHide: tw.Off, TrimSpace: tw.Off, TrimLine: tw.Off, TrimTab: tw.Off},
		}),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Symbols:  tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})))
	t.Header(standIns[0])
	if err := t.Bulk(standIns[1:]); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	return out.finish()
}

// standIn is the letter that stands for one column of a cell.
const standIn = 'x'

// filler replaces each run of stand-ins by the next text.
type filler struct {
	sticky
	texts []string
	inRun bool
}

func (f *filler) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, c := range p {
		if c != standIn {
			out, f.inRun = append(out, c), false
			continue
		}
		if !f.inRun && len(f.texts) > 0 {
			out, f.texts = append(out, f.texts[0]...), f.texts[1:]
		}
		f.inRun = true
	}
	if _, err := f.sticky.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// finish reports what went wrong while writing.
func (f *filler) finish() error {
	if f.err == nil && len(f.texts) > 0 {
		return fmt.Errorf("table: %d cells were not laid out", len(f.texts))
	}
	return f.err
}

// stack prints rows as blocks, with an empty line between two.
func stack(w io.Writer, s TableSpec, grid [][]string) error {
	b := bufio.NewWriter(w)
	for r, row := range grid {
		if r > 0 {
			fmt.Fprintln(b)
		}
		fields := make([]Field, len(s.Columns))
		for i, c := range s.Columns {
			fields[i] = Field{Name: c.Heading(), Value: row[i], Whole: c.Kind == Key}
		}
		if err := Fields(b, fields, s.Width); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Field is one named value of a single thing.
type Field struct {
	Name  string
	Value string
	Whole bool // never broken into lines: it is to be copied
}

// Fields prints "name  value" lines with the values in one column, visible, and
// those that are wider than the terminal in several lines. A width of 0 is a
// pipe.
func Fields(w io.Writer, fields []Field, width int) error {
	names := 0
	for _, f := range fields {
		names = max(names, Width(Visible(f.Name)))
	}
	room := width - names - len(gap)
	b := bufio.NewWriter(w)
	for _, f := range fields {
		name, value := Visible(f.Name), Visible(f.Value)
		if !f.Whole && room >= minWrapped {
			value = Wrap(value, room)
		}
		for line := range strings.SplitSeq(value, "\n") {
			fmt.Fprintln(b, strings.TrimRight(name+strings.Repeat(" ", names-Width(name))+gap+line, " "))
			name = ""
		}
	}
	return b.Flush()
}
