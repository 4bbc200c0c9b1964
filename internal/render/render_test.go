package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 9, 22, 10, 0, 0, 0, time.UTC)

func table(t *testing.T, s TableSpec) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	cols := []Column{{Name: "action_key", Kind: Key}, {Name: "reason_code"}, {Name: "attempts", Kind: Number}, {Name: "last_tried_at"}}
	rows := [][]any{
		{"run_1:create", "timeout", 2, now.Add(-3 * time.Hour)},
		{"run_2:create", "", 10, time.Time{}},
	}
	tests := map[string]struct {
		spec TableSpec
		want string
	}{
		"terminal: names as documented, numbers to the right, relative times, lines of one width": {
			TableSpec{Columns: cols, Rows: Slice(rows), Width: 80, Now: now},
			"action_key    reason_code  attempts  last_tried_at\n" +
				"run_1:create  timeout             2  3h ago       \n" +
				"run_2:create                     10               \n",
		},
		"pipe: tabs and RFC 3339": {
			TableSpec{Columns: cols, Rows: Slice(rows)},
			"action_key\treason_code\tattempts\tlast_tried_at\n" +
				"run_1:create\ttimeout\t2\t2026-09-22T07:00:00Z\n" +
				"run_2:create\t\t10\t\n",
		},
		"no rows on a terminal: says so": {TableSpec{Columns: cols, Rows: Slice(nil), Width: 80}, "0 rows\n"},
		"no rows in a pipe: the names only": {TableSpec{Columns: cols, Rows: Slice(nil)},
			"action_key\treason_code\tattempts\tlast_tried_at\n"},
		"an empty cell shows what the column says": {
			TableSpec{Columns: []Column{{Name: "owner", Blank: "(none)"}}, Rows: Slice([][]any{{nil}, {"x x"}}), Width: 80},
			"owner \n(none)\nx x   \n",
		},
		"double blanks, letters of the stand-in and outer blanks stay": {
			TableSpec{Columns: []Column{{Name: "xx"}, {Name: "n"}}, Rows: Slice([][]any{{"xax  b x", " y"}}), Width: 80},
			"xx        n \nxax  b x   y\n",
		},
		"too narrow: texts and names are cut, keys and numbers are not": {
			TableSpec{Columns: cols, Rows: Slice([][]any{{"run_1:create-contact", "a long reason of many words", 123456789, now}}), Width: 51, Now: now},
			"action_key            reason_…   attempts  last_tr…\n" +
				"run_1:create-contact  a long …  123456789  just now\n",
		},
		"far too narrow: one block for each row": {
			TableSpec{Columns: cols, Rows: Slice(rows), Width: 20, Now: now, Stack: true},
			"action_key     run_1:create\nreason_code    timeout\nattempts       2\nlast_tried_at  3h ago\n\n" +
				"action_key     run_2:create\nreason_code\nattempts       10\nlast_tried_at\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, table(t, tc.spec)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Wide characters (J06): widths are counted by grapheme, whatever the
// environment says of East Asian text.
func TestTableWide(t *testing.T) {
	t.Setenv("LANG", "ja_JP.UTF-8")
	rows := [][]any{
		{"日本語 ✅", 1}, {"e\u0301", 22}, {"⚠️", 3}, {"👨\u200d👩\u200d👧", 4}, {"🇩🇪 Jürgen", 5},
		{"https://example.org/" + strings.Repeat("p", 300), 6},
		{strings.Repeat("語", 60), 7}, {strings.Repeat("e\u0301", 60), 8},
	}
	got := table(t, TableSpec{Columns: []Column{{Name: "text"}, {Name: "n", Kind: Number}}, Rows: Slice(rows), Width: 40, Now: now})
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != len(rows)+1 {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(rows)+1, got)
	}
	for _, l := range lines {
		if w := Width(l); w != 40 {
			t.Errorf("width %d, want 40: %q", w, l)
		}
	}
	if !strings.Contains(got, "…") || strings.Contains(got, "\u0301…") == strings.Contains(got, "e…") {
		t.Errorf("a combining character was parted from its letter:\n%s", got)
	}
	var b bytes.Buffer
	if err := CSV(&b, []string{"text", "n"}, Slice(rows), CSVOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "…") {
		t.Error("CSV was cut")
	}
}

// The measure itself, by what terminals show. Source: Unicode Standard Annex
// 11 for wide characters, Technical Standard 51 for emoji sequences.
func TestWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "abc": 3, "日本語 ✅": 9, "e\u0301": 1, "⚠️": 2, "👨\u200d👩\u200d👧": 2, "🇩🇪 Jürgen": 9, "…": 1, "タイムアウト": 12,
	} {
		if got := Width(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// hostile is text that steers terminals and reorders what is read (J07).
const hostile = "\x1b[2J\x1b]52;c;QUJD\x07done\rOK\u202Egpj\u009b31m\x00\x7f\u2028\u200b\xff\ttab\nline"

func TestNothingSteersATerminal(t *testing.T) {
	cols := []Column{{Name: "message" + hostile}}
	rows := [][]any{{hostile}}
	outputs := map[string]func(b *bytes.Buffer) error{
		"terminal": func(b *bytes.Buffer) error {
			return Table(b, TableSpec{Columns: cols, Rows: Slice(rows), Width: 400, Now: now})
		},
		"narrow": func(b *bytes.Buffer) error {
			return Table(b, TableSpec{Columns: cols, Rows: Slice(rows), Width: 12, Now: now})
		},
		"pipe":   func(b *bytes.Buffer) error { return Table(b, TableSpec{Columns: cols, Rows: Slice(rows)}) },
		"fields": func(b *bytes.Buffer) error { return Fields(b, []Field{{Name: hostile, Value: hostile}}, 40) },
		"CSV":    func(b *bytes.Buffer) error { return CSV(b, Names(cols), Slice(rows), CSVOptions{}) },
		"JSON":   func(b *bytes.Buffer) error { return JSON(b, map[string]any{hostile: Object{cols, rows[0]}}) },
	}
	for name, write := range outputs {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			keep := "\n"
			if name == "pipe" {
				keep += "\t"
			}
			if name == "CSV" {
				keep += "\t\r"
			}
			for _, r := range b.String() {
				if hidden(r) && !strings.ContainsRune(keep, r) || r == '\ufffd' && name != "JSON" {
					t.Errorf("%U came through: %q", r, b.String())
				}
			}
		})
	}
	want := `\x1b[2J\x1b]52;c;QUJD\x07done\rOK\u202egpj\x9b31m\x00\x7f\u2028\u200b\xff\ttab\nline`
	if got := Visible(hostile); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := `plain "é" 日本 👨‍👩‍👧 c:\x`; Visible(s) != s {
		t.Errorf("harmless text changed: %s", Visible(s))
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	text := "a<b> & \u202e \u0085 \U000e0041 é"
	row := Object{[]Column{{Name: "z"}, {Name: "a"}, {Name: "at"}, {Name: "never"}, {Name: "n"}},
		[]any{text, "", now, time.Time{}, int64(9007199254740993)}}
	if err := JSON(&b, map[string]any{"rows": []Object{row}}); err != nil {
		t.Fatal(err)
	}
	want := `{
  "rows": [
    {
      "z": "a<b> & \u202e \u0085 \udb40\udc41 é",
      "a": "",
      "at": "2026-09-22T10:00:00Z",
      "never": null,
      "n": 9007199254740993
    }
  ]
}
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	var back struct{ Rows []struct{ Z string } }
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Rows[0].Z != text {
		t.Errorf("read back %q, %v; want %q", back.Rows[0].Z, err, text)
	}
	for n, want := range []string{"[]\n", "[\n  {\n    \"n\": 0\n  }\n]\n", "[\n  {\n    \"n\": 0\n  },\n  {\n    \"n\": 1\n  }\n]\n"} {
		b.Reset()
		err := JSONArray(&b, func(yield func(map[string]int, error) bool) {
			for i := range n {
				yield(map[string]int{"n": i}, nil)
			}
		})
		if err != nil || b.String() != want {
			t.Errorf("array of %d: %v\n%s", n, err, b.String())
		}
	}
}

func csvText(t *testing.T, header []string, rows [][]any, o CSVOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := CSV(&b, header, Slice(rows), o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSVFormulas(t *testing.T) {
	tests := []struct{ in, want string }{
		{`=cmd|'/C calc'!A0`, `'=cmd|'/C calc'!A0`},
		{"@SUM(A1)", "'@SUM(A1)"},
		{"-5.00", "-5.00"},
		{"-1,234.56", `"-1,234.56"`},
		{"-1.234,56", `"-1.234,56"`},
		{"-1e-05", "-1e-05"},
		{"-2+3+cmd|x", "'-2+3+cmd|x"},
		{"+15550100", "'+15550100"},
		{"\t=1+1", "\"'\t=1+1\""},
		{"\r=1+1", "\"'\r=1+1\""},
		{"-- note", "'-- note"},
		{" =1+1", "' =1+1"},
		{"＝1+1", "'＝1+1"},
		{"a=b", "a=b"},
		{"1+1", "1+1"},
		{"", ""},
	}
	for _, tc := range tests {
		t.Run(tc.in, func(t *testing.T) {
			want := strings.ReplaceAll(tc.want, "\"'\t=1+1\"", "'\t=1+1") // a tab alone needs no quotes
			if got := csvText(t, []string{"a", "b"}, [][]any{{"k", tc.in}}, CSVOptions{}); got != "a,b\r\nk,"+want+"\r\n" {
				t.Errorf("got %q, want %q", got, want)
			}
			got := csvText(t, []string{"a", "b"}, [][]any{{"k", tc.in}}, CSVOptions{RawFormulas: true})
			back, err := csv.NewReader(strings.NewReader(got)).ReadAll()
			if err != nil || back[1][1] != tc.in {
				t.Errorf("raw formulas: read back %q, %v", back, err)
			}
		})
	}
	if got := csvText(t, []string{"n", "m"}, [][]any{{-5, int64(-7)}}, CSVOptions{}); got != "n,m\r\n-5,-7\r\n" {
		t.Errorf("numbers changed: %q", got)
	}
}

func TestCSVForms(t *testing.T) {
	tests := map[string]struct {
		header []string
		rows   [][]any
		o      CSVOptions
		want   string
	}{
		"Excel: one mark at the start, UTF-8":       {[]string{"owner", "reason"}, [][]any{{"Jürgen Müller", "タイムアウト"}}, CSVOptions{Excel: true}, "\xef\xbb\xbfowner,reason\r\nJürgen Müller,タイムアウト\r\n"},
		"default: no mark":                          {[]string{"owner", "reason"}, [][]any{{"Jürgen Müller", "タイムアウト"}}, CSVOptions{}, "owner,reason\r\nJürgen Müller,タイムアウト\r\n"},
		"Excel with semicolons: no sep line":        {[]string{"a", "b"}, [][]any{{"a;b", "1,5"}}, CSVOptions{Excel: true, Delimiter: ';'}, "\ufeffa;b\r\n\"a;b\";1,5\r\n"},
		"long ids and leading zeros: as they are":   {[]string{"k", "o"}, [][]any{{"9912140633506421", "00742"}}, CSVOptions{Excel: true}, "\ufeffk,o\r\n9912140633506421,00742\r\n"},
		"long ids and leading zeros, safe as texts": {[]string{"k", "o", "n"}, [][]any{{"9912140633506421", "00742", "123"}}, CSVOptions{TextIDs: true}, "k,o,n\r\n\"=\"\"9912140633506421\"\"\",\"=\"\"00742\"\"\",123\r\n"},
		"a row of one empty cell is still a row":    {[]string{"k"}, [][]any{{""}, {nil}}, CSVOptions{}, "k\r\n\"\"\r\n\"\"\r\n"},
		"NUL and the mark inside are visible":       {[]string{"k"}, [][]any{{"a\x00b\ufeff"}}, CSVOptions{}, "k\r\na\\x00b\\ufeff\r\n"},
		"no rows: the names":                        {[]string{"a", "b"}, nil, CSVOptions{}, "a,b\r\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, csvText(t, tc.header, tc.rows, tc.o)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Line breaks and lone CR (J05): what a reader of CSV gets back is what was
// written, but that Go's reader makes LF of CR LF.
func TestCSVLineBreaks(t *testing.T) {
	texts := []string{"a\rb", "c\r\nd", "e\nf", `say "hi"`, " leading", "trailing ", "x,y", "z"}
	var rows [][]any
	for _, s := range texts {
		rows = append(rows, []any{s, "end"})
	}
	got := csvText(t, []string{"text", "end"}, rows, CSVOptions{})
	back, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil || len(back) != len(texts)+1 {
		t.Fatalf("%d rows, %v:\n%q", len(back), err, got)
	}
	for i, s := range texts {
		if want := strings.ReplaceAll(s, "\r\n", "\n"); back[i+1][0] != want {
			t.Errorf("read back %q, want %q", back[i+1][0], want)
		}
	}
	if !strings.Contains(got, "\"c\r\nd\"") || !strings.Contains(got, "\"a\rb\"") {
		t.Errorf("line breaks changed: %q", got)
	}
}

func TestParseDelimiter(t *testing.T) {
	for in, want := range map[string]rune{",": ',', ";": ';', "|": '|', `\t`: '\t', "\t": '\t', "·": '·'} {
		if got, err := ParseDelimiter(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ",,", `"`, "\n", "\r", "a", "7", " ", "-", "=", "\x00", "\xff"} {
		if got, err := ParseDelimiter(in); err == nil {
			t.Errorf("%q is taken as %q", in, got)
		}
	}
}

// failing takes n bytes and then fails, as a full disk.
type failing struct{ n int }

var errFull = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	cols := []Column{{Name: "a", Kind: Key}, {Name: "b"}}
	var rows [][]any
	for i := range 3000 {
		rows = append(rows, []any{fmt.Sprint(i), "text"})
	}
	for name, write := range map[string]func(w *failing) error{
		"terminal": func(w *failing) error {
			return Table(w, TableSpec{Columns: cols, Rows: Slice(rows), Width: 80, Now: now})
		},
		"blocks": func(w *failing) error {
			return Table(w, TableSpec{Columns: cols, Rows: Slice(rows), Width: 2, Now: now, Stack: true})
		},
		"pipe": func(w *failing) error { return Table(w, TableSpec{Columns: cols, Rows: Slice(rows)}) },
		"CSV":  func(w *failing) error { return CSV(w, Names(cols), Slice(rows), CSVOptions{}) },
		"JSON": func(w *failing) error { return JSON(w, rows) },
		"array": func(w *failing) error {
			return JSONArray(w, Slice(rows))
		},
	} {
		for _, n := range []int{0, 5000} {
			if err := write(&failing{n}); !errors.Is(err, errFull) {
				t.Errorf("%s, full after %d bytes: %v", name, n, err)
			}
		}
	}
}

// What came before an error is printed, and the error says that more is
// missing.
func TestRowErrorsAreReturned(t *testing.T) {
	broken := errors.New("ledger gone")
	rows := func(yield func([]any, error) bool) {
		_ = yield([]any{"first"}, nil) && yield(nil, broken)
	}
	cols := []Column{{Name: "a"}}
	var b bytes.Buffer
	if err := Table(&b, TableSpec{Columns: cols, Rows: rows}); !errors.Is(err, broken) || b.String() != "a\nfirst\n" {
		t.Errorf("pipe: %v, %q", err, b.String())
	}
	if err := Table(&b, TableSpec{Columns: cols, Rows: rows, Width: 80}); !errors.Is(err, broken) {
		t.Errorf("terminal: %v", err)
	}
	if err := CSV(&b, []string{"a"}, rows, CSVOptions{}); !errors.Is(err, broken) {
		t.Errorf("CSV: %v", err)
	}
	if err := JSONArray(&b, Rows(rows)); !errors.Is(err, broken) {
		t.Errorf("array: %v", err)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "just now", 900 * time.Millisecond: "just now", time.Second: "1s ago", 59 * time.Second: "59s ago",
		90 * time.Second: "1m ago", 3*time.Hour + 59*time.Minute: "3h ago", 47 * time.Hour: "47h ago", 48 * time.Hour: "2d ago",
		60 * 24 * time.Hour: "2026-07-24", -5 * time.Minute: "in 5m", -400 * 24 * time.Hour: "2027-10-27",
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	if got := Ago(time.Time{}, now); got != "" {
		t.Errorf("never: %q", got)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("a\rb", "x,\"y\"")
	f.Add("=1", "\t")
	f.Fuzz(func(t *testing.T, a, c string) {
		var b bytes.Buffer
		if err := CSV(&b, []string{"h", "i"}, Slice([][]any{{a, c}}), CSVOptions{}); err != nil {
			t.Fatal(err)
		}
		back, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(back) != 2 || len(back[1]) != 2 {
			t.Fatalf("%q %q: %q, %v", a, c, back, err)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add("日本", "x", 10)
	f.Fuzz(func(t *testing.T, a, c string, width int) {
		width = 1 + max(width, -width)%100
		s := table(t, TableSpec{Columns: []Column{{Name: "k"}, {Name: "v"}}, Rows: Slice([][]any{{a, c}, {c, a}}), Width: width, Now: now})
		lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		if len(lines) != 3 || Width(lines[0]) != Width(lines[1]) || Width(lines[1]) != Width(lines[2]) {
			t.Fatalf("%q", lines)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", time.Microsecond: "<1s", time.Second: "1s", 119 * time.Second: "119s", 2 * time.Minute: "2m",
		119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		line  string
		width int
		want  string
	}{
		"fits":                                  {"a b c", 5, "a b c"},
		"no width":                              {"a b c", 0, "a b c"},
		"broken at blanks":                      {"aa bb cc", 5, "aa bb\ncc"},
		"a word that is too long stays whole":   {"a bbbbbbbb c", 4, "a\nbbbbbbbb\nc"},
		"a wide character takes two of a line":  {"日本 語語", 5, "日本\n語語"},
		"the first word is too long for a line": {"aaaaaa b", 3, "aaaaaa\nb"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Wrap(tc.line, tc.width); got != tc.want {
				t.Errorf("%q in %d: got %q, want %q", tc.line, tc.width, got, tc.want)
			}
		})
	}
}

// Rates and spans of time are for people on a terminal and for programs
// everywhere else; what stands aside is left out there.
func TestFiguresForPeopleAndPrograms(t *testing.T) {
	cols := []Column{{Name: "rate", Head: "share", Kind: Percent, Blank: "-"}, {Name: "of", Kind: Number, Aside: true},
		{Name: "seconds", Kind: Number, Blank: "-"}, {Name: "per", Kind: Number, Blank: "-"}}
	rows := [][]any{{0.3333, 3, 90*time.Second + 1499*time.Microsecond, 1.5}, {nil, 0, nil, nil}}
	for name, tc := range map[string]struct {
		width int
		want  string
	}{
		"terminal": {80, "share  seconds   per\n33.3%      90s  1.50\n    -        -     -\n"},
		"pipe":     {0, "rate\tof\tseconds\tper\n0.3333\t3\t90.001\t1.5\n-\t0\t-\t-\n"},
	} {
		var b strings.Builder
		if err := Table(&b, TableSpec{Columns: cols, Rows: Slice(rows), Width: tc.width}); err != nil {
			t.Fatal(err)
		}
		if b.String() != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), tc.want)
		}
	}
	var b strings.Builder
	if err := CSV(&b, Names(cols), Slice(rows), CSVOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := "rate,of,seconds,per\r\n0.3333,3,90.001,1.5\r\n,0,,\r\n"; b.String() != want {
		t.Errorf("CSV %q, want %q", b.String(), want)
	}
	j, err := json.Marshal([]Object{{Columns: cols, Row: rows[0]}, {Columns: cols, Row: rows[1]}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"rate":0.3333,"of":3,"seconds":90.001,"per":1.5},{"rate":null,"of":0,"seconds":null,"per":null}]`; string(j) != want {
		t.Errorf("JSON %s, want %s", j, want)
	}
}

func TestEscapeMarkdown(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain words":                       {"upstream timed out after 5 s", "upstream timed out after 5 s"},
		"a key with an underscore":          {"run_8f2:create-contact", "run_8f2:create-contact"},
		"emphasis":                          {"_a_ *b* ~c~", `\_a\_ \*b\* \~c\~`},
		"a cell's end":                      {"a|b", `a\|b`},
		"markup and an entity":              {"<b>&amp;", `\<b\>\&amp;`},
		"a link, an image and an address":   {"[x](https://e.x) ![y](z) a@e.x", `\[x\](https\://e.x) \!\[y\](z) a\@e.x`},
		"an address that needs no scheme":   {"see www.example.org", `see www\.example.org`},
		"a line break, and a hidden mark":   {"a\nb\u202e", `a\\nb\\u202e`},
		"a backslash before a bar":          {`\|`, `\\\|`},
		"code, a heading and a mathematics": {"`x` # y $z$", "\\`x\\` \\# y \\$z\\$"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := EscapeMarkdown(tc.text); got != tc.want {
				t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

func TestMarkdown(t *testing.T) {
	cols := []Column{{Name: "owner", Blank: "(none)"}, {Name: "rate", Head: "share", Kind: Percent, Blank: "-"}, {Name: "of", Kind: Number, Aside: true}, {Name: "at", Blank: "never"}}
	rows := [][]any{{"a|b", 0.5, 2, time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)}, {"", nil, 0, time.Time{}}}
	var b strings.Builder
	if err := Markdown(&b, cols, Slice(rows), func(t time.Time) string { return t.Format("02.01.") }); err != nil {
		t.Fatal(err)
	}
	want := "| owner | share | at |\n| --- | ---: | --- |\n| a\\|b | 50.0% | 17.11. |\n| (none) | - | never |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestBriefTable(t *testing.T) {
	cols := []Column{{Name: "workflow_version", Brief: "version"}, {Name: "reason", Finer: true}, {Name: "suggests", Wordy: true}, {Name: "per", Head: "each", Kind: Number}}
	rows := [][]any{{"7", "ab", "wait", 2.0}}
	for name, tc := range map[string]struct {
		width int
		want  string
	}{
		"terminal": {60, "version  each\n7        2.00\n"},
		"pipe":     {0, "workflow_version\treason\tsuggests\tper\n7\tab\twait\t2\n"},
	} {
		var b strings.Builder
		if err := Table(&b, TableSpec{Columns: cols, Rows: Slice(rows), Width: tc.width, Brief: true}); err != nil {
			t.Fatal(err)
		}
		if b.String() != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), tc.want)
		}
	}
	if cols[0].Head != "" {
		t.Error("the caller's columns were changed")
	}
}

// A text that a person has to read whole goes on in further lines, in its own
// column, and a key is never broken.
func TestWrappedTexts(t *testing.T) {
	cols := []Column{{Name: "key", Kind: Key}, {Name: "n", Kind: Number}, {Name: "because", Wrap: true}}
	long := strings.Repeat("k", 45)
	for name, c := range map[string]struct {
		key, because string
		width        int
		want         string
	}{
		"it fits": {"a:1", "found", 40, "" +
			"key  n  because\n" +
			"a:1  7  found  \n"},
		"it is broken at blanks, and each line keeps its width": {"a:1", "the failure is one that another attempt does not cure", 32, "" +
			"key  n  because                 \n" +
			"a:1  7  the failure is one that \n" +
			"        another attempt does not\n" +
			"        cure                    \n"},
		"a word without blanks is broken where it has to be": {"a:1", "見" + strings.Repeat("語", 20), 32, "" +
			"key  n  because                 \n" +
			"a:1  7  見語語語語語語語語語語語\n" +
			"        語語語語語語語語語      \n"},
		"too narrow: blocks, whose texts are broken too": {"run_8f2:create-contact", "the failure is one that another attempt does not cure", 33, "" +
			"key      run_8f2:create-contact\n" +
			"n        7\n" +
			"because  the failure is one that\n" +
			"         another attempt does not\n" +
			"         cure\n"},
		"a key is to be copied": {long, "a b", 40, "" +
			"key      " + long + "\n" +
			"n        7\n" +
			"because  a b\n"},
		"a pipe has it all in one line": {"a:1", "the failure is one that another attempt does not cure", 0, "" +
			"key\tn\tbecause\n" +
			"a:1\t7\tthe failure is one that another attempt does not cure\n"},
	} {
		got := table(t, TableSpec{Columns: cols, Rows: Slice([][]any{{c.key, 7, c.because}}), Width: c.width, Now: now, Stack: true})
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// The names of two columns of numbers that would be cut to the same are made
// shorter instead.
func TestNamesOfNumbersAreNotCut(t *testing.T) {
	cols := []Column{{Name: "workflow", Brief: "flow"}, {Name: "settle_seconds_p50", Head: "settle p50", Brief: "set p50", Kind: Number},
		{Name: "settle_seconds_p95", Head: "settle p95", Brief: "set p95", Kind: Number}}
	for width, want := range map[int]string{
		40: "workflow  settle p50  settle p95\nlead               1           2\n",
		26: "flow  set p50  set p95\nlead        1        2\n",
	} {
		got := table(t, TableSpec{Columns: cols, Rows: Slice([][]any{{"lead", 1, 2}}), Width: width, Now: now})
		if got != want {
			t.Errorf("%d:\n%s\nwant\n%s", width, got, want)
		}
	}
}
