package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"
)

// JSON writes v indented, with < > & as they are and a line end after it.
// Characters that could steer a terminal are escaped, which a reader of JSON
// undoes.
func JSON(w io.Writer, v any) error {
	p, err := encode(v, "")
	if err != nil {
		return err
	}
	_, err = w.Write(append(p, '\n'))
	return err
}

// JSONArray writes items as one JSON array, as they come. Without items it is
// [], never null.
func JSONArray[T any](w io.Writer, items iter.Seq2[T, error]) error {
	b := bufio.NewWriter(w)
	between := "[\n  "
	for v, err := range items {
		if err != nil {
			return errors.Join(err, b.Flush()) // the items that came are good
		}
		p, err := encode(v, "  ")
		if err != nil {
			return err
		}
		b.WriteString(between)
		between = ",\n  "
		if _, err := b.Write(p); err != nil {
			return err
		}
	}
	if between[0] == '[' {
		b.WriteString("[]\n")
	} else {
		b.WriteString("\n]\n")
	}
	return b.Flush()
}

func encode(v any, prefix string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("json: %w", err)
	}
	return escapeHidden(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// escapeHidden escapes hidden characters of a JSON text. Outside of strings
// there are none but line breaks, and inside none below a blank.
func escapeHidden(p []byte) []byte {
	clean := true
	for _, c := range p {
		if c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return p
	}
	out := make([]byte, 0, len(p)+len(p)/8)
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		switch {
		case r < 0x7f || !hidden(r):
			out = append(out, p[i:i+n]...)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		i += n
	}
	return out
}

// Object is a row as a JSON object with the members in the order of the
// columns. Zero times are null, and spans of time are seconds; everything else
// is as encoding/json has it.
type Object struct {
	Columns []Column
	Row     []any
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, c := range o.Columns {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(c.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		v := o.Row[i]
		switch t := v.(type) {
		case time.Time:
			if v = t.UTC(); t.IsZero() {
				v = nil
			}
		case time.Duration:
			v = seconds(t)
		}
		if err := enc.Encode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
