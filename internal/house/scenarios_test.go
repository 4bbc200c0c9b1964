package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// suites are the folders whose subtests run from another folder.
var suites = map[string]string{"ledger/sqlstore": "ledger/ledgertest"}

var (
	testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")
)

// TestScenariosNameTestsThatExist keeps docs/scenarios.md true: every test that
// it names is there, with a subtest or row of those words, and every row names
// a test or says why there is none.
func TestScenariosNameTestsThatExist(t *testing.T) {
	top, names := tree(t)
	doc, err := os.ReadFile(filepath.Join(top, "docs", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, texts := testsOf(t, top, goFiles(names))
	for _, m := range testName.FindAllStringSubmatch(string(doc), -1) {
		test, words := m[1], m[2]
		if len(tests[test]) == 0 {
			t.Errorf("docs/scenarios.md names %s, which is no test", test)
		}
		found := words == "" || slices.ContainsFunc(tests[test], func(file string) bool {
			dir := path.Dir(file)
			return slices.Contains(names, dir+"/testdata/script/"+words+".txtar") ||
				slices.ContainsFunc(append(texts[file], texts[suites[dir]]...), func(s string) bool { return strings.Contains(s, words) })
		})
		if !found {
			t.Errorf("docs/scenarios.md names %s/%s: nothing in %v has these words", test, words, tests[test])
		}
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(string(doc), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.Contains(line, "---") || strings.Contains(line, "proven by") {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if len(cells) > 4 && seen[id] {
			t.Errorf("docs/scenarios.md has two rows for %s", id)
		}
		seen[id] = true
		if last := cells[len(cells)-2]; !testName.MatchString(last) && !strings.Contains(last, "not applicable: ") && id != "S36" {
			t.Errorf("docs/scenarios.md: the row of %s names no test", id)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d rows were read", len(seen))
	}
}

// testsOf are the files of all test functions, and the texts that stand in each
// test file; those of a suite stand under its folder.
func testsOf(t *testing.T, top string, files []string) (tests, texts map[string][]string) {
	t.Helper()
	tests, texts = map[string][]string{}, map[string][]string{}
	for _, name := range files {
		under := name
		if dir := path.Dir(name); slices.Contains(slices.Collect(maps.Values(suites)), dir) {
			under = dir
		} else if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = append(tests[fn.Name.Name], name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					texts[under] = append(texts[under], s)
				}
			}
			return true
		})
	}
	return tests, texts
}
