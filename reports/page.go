package reports

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/render"
)

// pageRows is how many lines of each of its reports a page shows; what does not
// fit is in CSV and JSON.
const pageRows = 15

// sections are the reports on a page: its parts, or the report itself.
func (r *Report) sections() []*Report {
	if len(r.Parts) == 0 {
		return []*Report{r}
	}
	return r.Parts
}

// shown are the lines that a page has room for, and a note where there are more.
func (r *Report) shown(of *Report) ([][]any, []string) {
	notes := of.footing()
	if of == r || len(of.Rows) <= pageRows {
		return of.Rows, notes
	}
	return of.Rows[:pageRows], append(notes, fmt.Sprintf("the first %d of %d lines; for all: reconcile report %s --since %s --until %s",
		pageRows, len(of.Rows), of.Name, of.Since.Format(time.RFC3339Nano), of.Until.Format(time.RFC3339Nano)))
}

func (r *Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", render.EscapeMarkdown(r.Name), render.EscapeMarkdown(r.window()))
	for _, s := range r.sections() {
		if s != r {
			fmt.Fprintf(&b, "\n## %s\n", render.EscapeMarkdown(s.Name))
		}
		rows, notes := r.shown(s)
		if len(rows) > 0 {
			b.WriteByte('\n')
			if err := render.Markdown(&b, s.Columns, render.Slice(rows), r.at); err != nil {
				return err
			}
		}
		for _, n := range notes {
			fmt.Fprintf(&b, "\n%s\n", render.EscapeMarkdown(n))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// page is what the template is filled with. All texts are visible and are
// escaped by the template.
type page struct {
	Title, Window string
	Sections      []section
}

type section struct {
	Name  string // "" on a page of one report
	Bars  []drawn
	Heads []cell
	Lines [][]cell
	Notes []string
}

type drawn struct {
	Label string
	Value int
	Width int // of barWidth
}

type cell struct {
	Text  string
	Right bool
}

// barWidth is the length of the longest bar, in pixels: beside its label it fits
// a mail on a telephone.
const barWidth = 240

func (r *Report) html(w io.Writer) error {
	p := page{Title: render.Visible(r.Name), Window: render.Visible(r.window())}
	for _, s := range r.sections() {
		rows, notes := r.shown(s)
		sec := section{Bars: draw(s.Bars), Notes: notes}
		if s != r {
			sec.Name = render.Visible(s.Name)
		}
		cols, all := render.ForReading(s.Columns, render.Slice(rows))
		for _, c := range cols {
			sec.Heads = append(sec.Heads, cell{headline(c), c.Right()})
		}
		for row, err := range all {
			if err != nil {
				return err
			}
			line := make([]cell, len(cols))
			for i, c := range cols {
				line[i] = cell{render.Cell(c, row[i], r.at), c.Right()}
			}
			sec.Lines = append(sec.Lines, line)
		}
		p.Sections = append(p.Sections, sec)
	}
	return htmlPage.Execute(w, p)
}

// headline is what stands above a column of a page, with blanks at which it can
// be broken: most columns are narrower than their names.
func headline(c render.Column) string {
	return strings.ReplaceAll(render.Visible(c.Heading()), "_", " ")
}

// labelWidth is where the label of a bar is cut, in columns of a terminal.
const labelWidth = 60

// draw measures bars by the longest. Whatever is not nothing is seen.
func draw(bars []Bar) []drawn {
	most := 0
	for _, b := range bars {
		most = max(most, b.Value)
	}
	if most == 0 {
		return nil
	}
	out := make([]drawn, len(bars))
	for i, b := range bars {
		width := b.Value * barWidth / most
		if b.Value > 0 {
			width = max(width, 1)
		}
		out[i] = drawn{render.Cut(render.Visible(b.Label), labelWidth), b.Value, width}
	}
	return out
}

// htmlPage is one file that needs nothing else: it loads nothing, runs nothing,
// and is of plain tables, so that a mail program or a printer shows it too. Where
// drawings are taken out, as many mail programs do, labels and numbers stay.
var htmlPage = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>
body { font: 14px/1.4 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: #222; background: #fff; margin: 24px; }
h1 { font-size: 22px; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 28px 0 8px; border-bottom: 1px solid #ccc; }
p { margin: 4px 0; }
table { border-collapse: collapse; margin: 8px 0; }
th, td { text-align: left; vertical-align: top; padding: 3px 10px 3px 0; }
.lines th, .lines td { border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
.lines th { color: #555; font-weight: 600; }
.number { text-align: right; white-space: nowrap; }
.bar { width: 240px; }
svg { display: block; }
@page { margin: 12mm; }
@media print {
  body { margin: 0; font-size: 10px; }
  thead { display: table-header-group; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
</style>
</head>
<body>
<h1>{{.Title}}</h1>
<p>{{.Window}}</p>
{{range .Sections -}}
{{if .Name}}<h2>{{.Name}}</h2>
{{end -}}
{{if .Bars}}<table class="bars">
{{range .Bars -}}
<tr><td>{{.Label}}</td><td class="bar"><svg width="240" height="12" aria-hidden="true"><rect width="{{.Width}}" height="12" fill="#3b6ea5"/></svg></td><td class="number" align="right">{{.Value}}</td></tr>
{{end -}}
</table>
{{end -}}
{{if .Lines}}<table class="lines">
<thead><tr>{{range .Heads}}<th{{if .Right}} class="number" align="right"{{end}}>{{.Text}}</th>{{end}}</tr></thead>
<tbody>
{{range .Lines -}}
<tr>{{range .}}<td{{if .Right}} class="number" align="right"{{end}}>{{.Text}}</td>{{end}}</tr>
{{end -}}
</tbody>
</table>
{{end -}}
{{range .Notes}}<p>{{.}}</p>
{{end -}}
{{end -}}
</body>
</html>
`))
