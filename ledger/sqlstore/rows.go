package sqlstore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/recovery-ledger/reconcile/ledger"
)

// kind is how a Go value is stored.
type kind int

const (
	kindText  kind = iota // strings, and typed strings
	kindInt               // int, int64
	kindTime              // microseconds since 1970; 0 is the zero time
	kindSpan              // microseconds
	kindBool              // 0 or 1
	kindWords             // lists of typed strings, separated by commas
	kindKeys              // []string, as JSON
	kindBytes             // nil is the empty value
)

// column is one field of a struct and the column it is stored in.
type column struct {
	name  string
	field int // of the struct; -1: a column that the struct does not have
	kind  kind
}

// layout says how a struct lies in its table. A column's name is the field's,
// in snake case, but for the few in renamed.
type layout struct {
	table   string
	columns []column
}

// renamed are columns whose plain names would be words of SQL, or would say
// too little in a joined row.
var renamed = map[string]string{
	"attempt.No":   "attempt_no",
	"attempt.Key":  "attempt_key",
	"history.No":   "history_no",
	"history.From": "from_state",
	"history.To":   "to_state",
}

var (
	entryLayout    = layoutOf("entry", ledger.Entry{})
	attemptLayout  = layoutOf("attempt", ledger.Attempt{})
	evidenceLayout = layoutOf("evidence", ledger.Evidence{})
	historyLayout  = layoutOf("history", ledger.History{})
	laneLayout     = layoutOf("lane", ledger.Lane{})
)

func layoutOf(table string, zero any) layout {
	l := layout{table: table}
	t := reflect.TypeOf(zero)
	for i := range t.NumField() {
		f := t.Field(i)
		name := snake(f.Name)
		if r, ok := renamed[table+"."+f.Name]; ok {
			name = r
		}
		l.columns = append(l.columns, column{name: name, field: i, kind: kindOf(f)})
	}
	return l
}

func kindOf(f reflect.StructField) kind {
	switch f.Type {
	case reflect.TypeFor[time.Time]():
		return kindTime
	case reflect.TypeFor[time.Duration]():
		return kindSpan
	case reflect.TypeFor[[]byte]():
		return kindBytes
	case reflect.TypeFor[[]string]():
		return kindKeys
	}
	switch f.Type.Kind() {
	case reflect.String:
		return kindText
	case reflect.Int, reflect.Int64:
		return kindInt
	case reflect.Bool:
		return kindBool
	case reflect.Slice:
		if f.Type.Elem().Kind() == reflect.String {
			return kindWords
		}
	}
	panic(fmt.Sprintf("sqlstore: field %s has type %s, which has no column type", f.Name, f.Type))
}

// snake turns SendBy into send_by, and HTTPStatus into http_status.
func snake(s string) string {
	r := []rune(s)
	var b strings.Builder
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && (unicode.IsLower(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// without returns the layout less the columns named.
func (l layout) without(names ...string) layout {
	out := layout{table: l.table}
	for _, c := range l.columns {
		if !slices.Contains(names, c.name) {
			out.columns = append(out.columns, c)
		}
	}
	if len(out.columns)+len(names) != len(l.columns) {
		panic(fmt.Sprintf("sqlstore: table %s does not have all of %q", l.table, names))
	}
	return out
}

// only returns the layout of the columns named, in the order of the struct.
func (l layout) only(names ...string) layout {
	out := layout{table: l.table}
	for _, c := range l.columns {
		if slices.Contains(names, c.name) {
			out.columns = append(out.columns, c)
		}
	}
	if len(out.columns) != len(names) {
		panic(fmt.Sprintf("sqlstore: table %s does not have all of %q", l.table, names))
	}
	return out
}

// with returns the layout and further columns, which no field has: their
// values are given apart (see values).
func (l layout) with(more ...column) layout {
	out := layout{table: l.table, columns: append([]column(nil), l.columns...)}
	for _, c := range more {
		c.field = -1
		out.columns = append(out.columns, c)
	}
	return out
}

// list writes the columns, each behind a prefix.
func (l layout) list(prefix string) string {
	names := make([]string, len(l.columns))
	for i, c := range l.columns {
		names[i] = prefix + c.name
	}
	return strings.Join(names, ", ")
}

// rows are what a bulk statement writes, n of them. write gives the values of
// row i, in the order of the columns.
type rows struct {
	n     int
	write func(i int, to cells)
}

// cells takes values one after the other, as they are to be stored. Each
// database has its own, so that no value is packed to be unpacked again: a
// record has some 130 of them.
type cells interface {
	int(n int64)
	text(s string)
	bytes(b []byte)
}

// rowsOf are the rows of structs.
func rowsOf[T any](l layout, vs []T) rows {
	return rows{len(vs), func(i int, to cells) { l.write(&vs[i], to) }}
}

// write gives the values of a struct, in the order of the columns; the values
// of those that are no fields, which stand last, are for the caller to give.
func (l layout) write(v any, to cells) {
	rv := reflect.ValueOf(v).Elem()
	for _, c := range l.columns {
		if c.field < 0 {
			return
		}
		f := rv.Field(c.field)
		switch c.kind {
		case kindText:
			to.text(storable(f.String()))
		case kindInt:
			to.int(f.Int())
		case kindTime:
			to.int(micros(*f.Addr().Interface().(*time.Time)))
		case kindSpan:
			to.int(f.Int() / int64(time.Microsecond))
		case kindBool:
			to.int(number01(f.Bool()))
		case kindWords:
			words := make([]string, f.Len())
			for j := range words {
				words[j] = f.Index(j).String()
			}
			to.text(storable(strings.Join(words, ",")))
		case kindKeys:
			to.text(keysText(*f.Addr().Interface().(*[]string)))
		case kindBytes:
			to.bytes(f.Bytes())
		}
	}
}

// number01 is how yes and no are stored.
func number01(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// boxes are cells as the arguments of one statement.
type boxes []any

func (b *boxes) int(n int64)   { *b = append(*b, n) }
func (b *boxes) text(s string) { *b = append(*b, s) }
func (b *boxes) bytes(p []byte) {
	if p == nil {
		p = []byte{} // not NULL
	}
	*b = append(*b, p)
}

// values are those of write.
func (l layout) values(v any) []any {
	out := make(boxes, 0, len(l.columns))
	l.write(v, &out)
	return out
}

// dest gives what Rows.Scan needs to fill a struct from the columns. It may be
// used for row after row: every value is set anew.
func (l layout) dest(v any) []any {
	rv := reflect.ValueOf(v).Elem()
	out := make([]any, len(l.columns))
	for i, c := range l.columns {
		f := rv.Field(c.field)
		switch c.kind {
		case kindTime:
			out[i] = (*timeCell)(f.Addr().Interface().(*time.Time))
		case kindSpan:
			out[i] = (*spanCell)(f.Addr().Interface().(*time.Duration))
		case kindBool:
			out[i] = (*boolCell)(f.Addr().Interface().(*bool))
		case kindWords:
			out[i] = wordsCell{f}
		case kindKeys:
			out[i] = (*keysCell)(f.Addr().Interface().(*[]string))
		case kindBytes:
			out[i] = (*bytesCell)(f.Addr().Interface().(*[]byte))
		default:
			out[i] = f.Addr().Interface()
		}
	}
	return out
}

// micros is how an instant is stored: no zone, no rounding between the
// databases, and it sorts. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func spanMicros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// storable makes a text that both databases can hold: PostgreSQL refuses NUL
// and invalid UTF-8. The intake replaces and counts them before; this is so
// that nothing that came by another way can make the ledger lose an entry.
func storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func keysText(keys []string) string {
	if len(keys) == 0 {
		return "[]"
	}
	if len(keys) == 1 && plainJSON(keys[0]) { // as nearly always
		return `["` + keys[0] + `"]`
	}
	clean := make([]string, len(keys))
	for i, k := range keys {
		clean[i] = storable(k)
	}
	b, err := json.Marshal(clean)
	if err != nil {
		panic("sqlstore: strings always marshal: " + err.Error())
	}
	return string(b)
}

// plainJSON says whether a text stands in JSON as it is.
func plainJSON(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

type (
	timeCell  time.Time
	spanCell  time.Duration
	boolCell  bool
	keysCell  []string
	bytesCell []byte
	wordsCell struct{ f reflect.Value }
)

func number(src any) (int64, error) {
	if n, ok := src.(int64); ok {
		return n, nil
	}
	return 0, fmt.Errorf("a %T where a whole number is stored", src)
}

func text(src any) (string, error) {
	switch s := src.(type) {
	case string:
		return s, nil
	case []byte:
		return string(s), nil
	}
	return "", fmt.Errorf("a %T where a text is stored", src)
}

func (c *timeCell) Scan(src any) error {
	n, err := number(src)
	*c = timeCell(instant(n))
	return err
}

func (c *spanCell) Scan(src any) error {
	n, err := number(src)
	*c = spanCell(time.Duration(n) * time.Microsecond)
	return err
}

func (c *boolCell) Scan(src any) error {
	n, err := number(src)
	*c = n != 0
	return err
}

func (c *keysCell) Scan(src any) error {
	s, err := text(src)
	*c = nil
	if err != nil || s == "[]" {
		return err
	}
	return json.Unmarshal([]byte(s), (*[]string)(c))
}

func (c *bytesCell) Scan(src any) error {
	switch b := src.(type) {
	case []byte:
		*c = nil
		if len(b) > 0 {
			*c = append([]byte(nil), b...)
		}
		return nil
	case nil: // SQLite's driver gives an empty blob as nil
		*c = nil
		return nil
	}
	return fmt.Errorf("a %T where bytes are stored", src)
}

func (c wordsCell) Scan(src any) error {
	s, err := text(src)
	if err != nil || s == "" {
		c.f.SetZero()
		return err
	}
	words := strings.Split(s, ",")
	list := reflect.MakeSlice(c.f.Type(), len(words), len(words))
	for i, w := range words {
		list.Index(i).SetString(w)
	}
	c.f.Set(list)
	return nil
}
