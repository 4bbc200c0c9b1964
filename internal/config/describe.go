package config

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Describe prints every setting with its resolved value and where it came
// from, secrets redacted: what `config check` shows.
func (c *Config) Describe(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range c.Settings {
		if _, err := fmt.Fprintf(tw, "%s\t%s\t%s\n", s.Key, s.Value, s.Source); err != nil {
			return err
		}
	}
	return tw.Flush()
}
