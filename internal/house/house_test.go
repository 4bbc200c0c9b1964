package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// tree is the repository: its top and its files.
func tree(t *testing.T) (top string, names []string) {
	t.Helper()
	top, err := root()
	if err != nil {
		t.Fatal(err)
	}
	names, err = files(top)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "go.mod") {
		t.Fatalf("go.mod is not among the %d files found below %s", len(names), top)
	}
	return top, names
}

// goFiles are the files of the product's module: folders named testdata, and
// modules within the repository, are not of it.
func goFiles(names []string) []string {
	var nested []string
	for _, n := range names {
		if path.Base(n) == "go.mod" && n != "go.mod" {
			nested = append(nested, path.Dir(n)+"/")
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return path.Ext(n) != ".go" || strings.Contains("/"+n, "/testdata/") ||
			slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(n, dir) })
	})
}

func TestImportsPointOneWay(t *testing.T) {
	top, names := tree(t)
	fset := token.NewFileSet()
	for _, name := range goFiles(names) {
		from := path.Dir(name)
		if _, ok := ruleOf(from); !ok {
			t.Errorf("%s: no rule says what %s may import; add one", name, from)
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(top, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		test := strings.HasSuffix(name, "_test.go")
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Error(err)
				continue
			}
			line := fset.Position(spec.Pos()).Line
			if to, ours := strings.CutPrefix(imported, module+"/"); ours {
				if !allowed(from, to, test) {
					t.Errorf("%s:%d: %s must not import %s", name, line, from, to)
				}
			} else if !test && banned(from, imported) && !onlyHarmless(f, spec, imported) {
				t.Errorf("%s:%d: %s must not import %s: that is another package's duty", name, line, from, imported)
			}
		}
	}
}

// onlyHarmless tells whether a file uses nothing of an imported package but
// what is harmless.
func onlyHarmless(f *ast.File, spec *ast.ImportSpec, imported string) bool {
	names, ok := harmless[imported]
	if !ok || spec.Name != nil {
		return false
	}
	only := true
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == path.Base(imported) && !names.MatchString(sel.Sel.Name) {
				only = false
			}
		}
		return only
	})
	return only
}

func TestHarmlessNamesOfAForbiddenPackageMayBeUsed(t *testing.T) {
	for body, want := range map[string]bool{
		"var _, _ = http.ParseTime(``)":                    true,
		"var _ = http.StatusOK":                            true,
		"var _ = http.DefaultClient":                       false,
		"func f(c http.Client) { _ = http.StatusText(1) }": false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\nimport \"net/http\"\n"+body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := onlyHarmless(f, f.Imports[0], "net/http"); got != want {
			t.Errorf("%s: harmless %t, want %t", body, got, want)
		}
	}
}

func TestRulesTellRightFromWrong(t *testing.T) {
	type edge struct {
		from, to string
		test     bool
	}
	for name, c := range map[string]struct {
		edge
		want bool
	}{
		"a command imports the command line":                    {edge{"cmd/reconcile", "internal/cli", false}, true},
		"a command imports nothing else":                        {edge{"cmd/reconcile", "ledger", false}, false},
		"nothing but a command imports the command line":        {edge{"internal/demo", "internal/cli", false}, false},
		"decisions know what a ledger is":                       {edge{"reconcile", "ledger", false}, true},
		"decisions know what a connector is":                    {edge{"reconcile", "connectors", false}, true},
		"decisions know no particular store":                    {edge{"reconcile", "ledger/sqlstore", false}, false},
		"tests of decisions may use a particular store":         {edge{"reconcile", "ledger/sqlstore", true}, true},
		"decisions know no particular connector":                {edge{"reconcile", "connectors/rest", false}, false},
		"decisions know no report":                              {edge{"reconcile", "reports", false}, false},
		"a ledger knows no connector":                           {edge{"ledger", "connectors", false}, false},
		"nor does its store, in a test":                         {edge{"ledger/sqlstore", "connectors", true}, false},
		"a connector knows no ledger":                           {edge{"connectors/rest", "ledger", false}, false},
		"a connector shares the HTTP client":                    {edge{"connectors/rest", "connectors/httpclient", false}, true},
		"the vocabulary of connectors knows none of them":       {edge{"connectors", "connectors/rest", false}, false},
		"the vocabulary of a ledger knows no store":             {edge{"ledger", "ledger/sqlstore", false}, false},
		"reports read a ledger":                                 {edge{"reports", "ledger", false}, true},
		"reports know no decisions":                             {edge{"reports", "reconcile", false}, false},
		"reports know no connectors":                            {edge{"reports", "connectors", false}, false},
		"helpers serve everybody":                               {edge{"ledger", "internal/redact", false}, true},
		"helpers know no product package":                       {edge{"internal/redact", "ledger", false}, false},
		"not even in a test":                                    {edge{"internal/redact", "ledger", true}, false},
		"reading the config is no helper":                       {edge{"reports", "internal/config", false}, false},
		"a test starts a PostgreSQL":                            {edge{"ledger/sqlstore", "internal/pgtest", true}, true},
		"the product never does":                                {edge{"ledger/sqlstore", "internal/pgtest", false}, false},
		"a PostgreSQL for tests knows no product package":       {edge{"internal/pgtest", "ledger", false}, false},
		"a test imports its own package from outside":           {edge{"ledger/sqlstore", "ledger/sqlstore", true}, true},
		"a folder that only begins alike is not under a rule":   {edge{"ledgerish", "ledger", false}, false},
		"the command line wires a store":                        {edge{"internal/cli", "ledger/sqlstore", false}, true},
		"the proof against real programs may start all of them": {edge{"internal/e2e", "internal/realtest", true}, true},
	} {
		if got := allowed(c.from, c.to, c.test); got != c.want {
			t.Errorf("%s: allowed(%q, %q, test %t) = %t, want %t", name, c.from, c.to, c.test, got, c.want)
		}
	}
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"reconcile", "net/http", true},
		{"reconcile", "net/http/httptrace", true},
		{"reconcile", "net/url", false},
		{"ledger", "database/sql", true},
		{"ledger/sqlstore", "database/sql", false},
	} {
		if got := banned(c.from, c.to); got != c.want {
			t.Errorf("banned(%q, %q) = %t, want %t", c.from, c.to, got, c.want)
		}
	}
}

func TestOnlyWhatBelongsThereLiesAtTheTop(t *testing.T) {
	_, names := tree(t)
	seen := map[string]bool{}
	for _, n := range names {
		first, _, _ := strings.Cut(n, "/")
		seen[first] = true
	}
	for _, n := range slices.Sorted(maps.Keys(seen)) {
		if !slices.Contains(topLevel, n) {
			t.Errorf("%s lies at the top of the repository; move it, or allow it in topLevel", n)
		}
	}
	for _, n := range topLevel {
		if !seen[n] {
			t.Errorf("%s is missing at the top of the repository", n)
		}
	}
}

func TestEachPackageSaysWhatItIs(t *testing.T) {
	top, names := tree(t)
	documented := map[string]bool{}
	for _, name := range goFiles(names) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		dir := path.Dir(name)
		documented[dir] = documented[dir] || saysWhatItIs(f)
	}
	for _, dir := range slices.Sorted(maps.Keys(documented)) {
		if !documented[dir] {
			t.Errorf("package %s has no doc comment that begins with %q", dir, docStart(dir))
		}
	}
}

func docStart(dir string) string {
	if strings.HasPrefix(dir, "cmd/") {
		return "Command " + path.Base(dir)
	}
	return "Package " + path.Base(dir)
}

func saysWhatItIs(f *ast.File) bool {
	text := f.Doc.Text()
	return strings.HasPrefix(text, "Package "+strings.TrimSuffix(f.Name.Name, "_test")+" ") ||
		f.Name.Name == "main" && strings.HasPrefix(text, "Command ")
}

func TestEachExportedNameSaysWhatItIs(t *testing.T) {
	top, names := tree(t)
	fset := token.NewFileSet()
	for _, name := range goFiles(names) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(top, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, id := range undocumented(f) {
			t.Errorf("%s:%d: exported %s has no doc comment", name, fset.Position(id.Pos()).Line, id.Name)
		}
	}
}

// undocumented lists the exported names at the top of a file, methods of
// exported types among them, that neither have a comment nor stand in a group
// that has one. Methods that the standard library gave their meaning need none.
func undocumented(f *ast.File) []*ast.Ident {
	var bare []*ast.Ident
	note := func(id *ast.Ident, comments ...*ast.CommentGroup) {
		said := slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil })
		if id.IsExported() && !said {
			bare = append(bare, id)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || exportedReceiver(d.Recv) && !slices.Contains(wellKnown, d.Name.Name) {
				note(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					note(s.Name, d.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						note(id, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return bare
}

func TestUndocumentedNamesAreFound(t *testing.T) {
	const src = `package p

func Bare() {}

// Said does.
func Said() {}

type T struct{}

func (t *T) Method() {}
func (t *T) String() string { return "" }

type hidden struct{}

func (hidden) Method() {}

// A group with a comment.
const (
	A = 1
	B = 2
)

var (
	V = 1
	W = 2 // said at the end of the line
)
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range undocumented(f) {
		got = append(got, id.Name)
	}
	if want := []string{"Bare", "T", "Method", "V"}; !slices.Equal(got, want) {
		t.Errorf("undocumented names %v, want %v", got, want)
	}
}

// wellKnown are methods whose meaning the standard library fixes.
var wellKnown = []string{
	"String", "GoString", "Format", "LogValue", "Error", "Unwrap", "Is", "As", "Scan", "Value",
	"MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON", "Len", "Less", "Swap", "Close",
}

func exportedReceiver(recv *ast.FieldList) bool {
	expr := recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return false
		}
	}
}

// machine finds what only makes sense where a text was written: folders of
// somebody's machine, and the hosts that packages happened to come from. The
// words are put together here so that this file does not hold them itself.
var (
	machineDirs  = []string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/"}
	packageHosts = []string{"proxy.go" + "lang.org", "sum.go" + "lang.org", "registry.npm" + "js.org", "deb.deb" + "ian.org", "py" + "pi.org", "GOPRO" + "XY="}
)

// machine returns the first such word of a line, or nothing. A folder counts
// where a path begins, not inside an address or a relative path.
func machine(line string) string {
	for _, host := range packageHosts {
		if strings.Contains(line, host) {
			return host
		}
	}
	for _, dir := range machineDirs {
		for rest := line; ; {
			i := strings.Index(rest, dir)
			if i < 0 {
				break
			}
			if i == 0 || strings.ContainsRune(" \t\"'`=:([<,", rune(rest[i-1])) {
				return dir
			}
			rest = rest[i+len(dir):]
		}
	}
	return ""
}

func TestNoTextNamesTheMachineItWasWrittenOn(t *testing.T) {
	top, names := tree(t)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !utf8.Valid(b) || slices.Contains(b, 0) {
			continue // not a text
		}
		for i, line := range strings.Split(string(b), "\n") {
			if m := machine(line); m != "" {
				t.Errorf("%s:%d: names a folder of one machine or a package host: %q", name, i+1, m)
			}
		}
	}
}

func TestMachineTellsRightFromWrong(t *testing.T) {
	for text, want := range map[string]bool{
		"see /wo" + "rk/shared/notes.md":                 true,
		`path = "/ro` + `ot/.cache"`:                     true,
		"/ho" + "me/ada/reconcile.toml":                  true,
		"https://example.org/work/items":                 false,
		"./work/out":                                     false,
		"https://example.org/ho" + "me/, /ho" + "me/ada": true,
		"a workflow, a root cause, a /rootfs":            false,
		"from proxy.go" + "lang.org":                     true,
	} {
		if got := machine(text); (got != "") != want {
			t.Errorf("%q: found %q, want something: %t", text, got, want)
		}
	}
}

// What only tests and lint run stays out of what a user of the module gets.
func TestToolsStayOutOfTheModule(t *testing.T) {
	top, _ := tree(t)
	b, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"pocketbase", "toxiproxy", "golangci-lint"} {
		if strings.Contains(strings.ToLower(string(b)), tool) {
			t.Errorf("go.mod names %s; build it by version in the Makefile instead", tool)
		}
	}
}
