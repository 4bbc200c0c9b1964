package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/recovery-ledger/reconcile/internal/render"
)

// The output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatCSV   = "csv"
)

// bindOutput adds --output with the formats a command knows; the first is the
// default.
func bindOutput(cmd *cobra.Command, to *string, formats ...string) {
	cmd.Flags().StringVar(to, "output", formats[0], "`format`: "+strings.Join(formats, ", "))
	complete(cmd, "output", formats)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("output", *to, formats); err != nil {
			return err
		}
		if *to == "" {
			return usagef("--output needs one of %s", strings.Join(formats, ", "))
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// table prints rows in one of the formats table and csv. now is for relative
// times on a terminal.
func (a *app) table(format string, cols []render.Column, rows render.Rows, now time.Time) error {
	if format == formatCSV {
		return render.CSV(a.Out, render.Names(cols), rows, render.CSVOptions{})
	}
	return render.Table(a.Out, render.TableSpec{Columns: cols, Rows: rows, Width: a.Width, Now: now, Stack: true})
}

// objects prints rows as one JSON array of objects, never null.
func (a *app) objects(cols []render.Column, rows render.Rows) error {
	return render.JSONArray(a.Out, func(yield func(render.Object, error) bool) {
		for row, err := range rows {
			if !yield(render.Object{Columns: cols, Row: row}, err) {
				return
			}
		}
	})
}

// rows prints the same rows in any of the three formats.
func (a *app) rows(format string, cols []render.Column, rows render.Rows, now time.Time) error {
	if format == formatJSON {
		return a.objects(cols, rows)
	}
	return a.table(format, cols, rows, now)
}

// note says something on stderr. Text from outside is made visible.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.Err, render.Visible(fmt.Sprintf(format, args...)))
}

// when tells an instant: relative to now on a terminal, else RFC 3339.
func (a *app) when(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case a.OutTerminal:
		return render.Ago(t, now)
	}
	return utc(t)
}

// plural is "1 entry" or "3 entries".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
