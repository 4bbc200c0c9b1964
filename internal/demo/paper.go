package demo

import (
	"fmt"
	"io"
	"strings"
)

// Indent is how many columns what a command prints is moved to the right.
const Indent = 3

// paper is where the demonstration is written: narrow sections, a little colour
// on a terminal. The first failed write is kept, and nothing is written after.
type paper struct {
	w     io.Writer
	color bool
	no    int // of the last section
	err   error
}

func (p *paper) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// Colours are the eight of every terminal (ECMA-48, SGR).
func (p *paper) paint(code, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *paper) bold(s string) string { return p.paint("1", s) }
func (p *paper) dim(s string) string  { return p.paint("2", s) }
func (p *paper) good(s string) string { return p.paint("32", s) }
func (p *paper) bad(s string) string  { return p.paint("31", s) }

func (p *paper) title(s string) { p.write(p.bold("reconcile demo: "+s) + "\n") }

func (p *paper) section(s string) {
	p.no++
	p.write("\n" + p.bold(fmt.Sprintf("%d  %s", p.no, s)) + "\n")
}

func (p *paper) line(format string, args ...any) {
	p.write(strings.TrimRight(strings.Repeat(" ", Indent)+fmt.Sprintf(format, args...), " ") + "\n")
}

func (p *paper) blank() { p.write("\n") }

// ran shows a command as it would be typed.
func (p *paper) ran(command string) { p.line("%s", p.dim("$ "+command)) }

// quote shows what a command printed.
func (p *paper) quote(out string) {
	for l := range strings.Lines(strings.TrimRight(out, "\n")) {
		p.line("%s", strings.TrimRight(l, "\n"))
	}
}
