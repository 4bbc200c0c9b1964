package reports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notReasons are texts in the sources of package reconcile that look like the
// code of a reason and are something else.
var notReasons = map[string]string{
	"action_key": "the name of a field", "idempotency_key": "the name of a field",
	"outcome_key": "the name of a field", "policy_version": "the name of a field", "provider_key": "the name of a field",
	"record_id": "the name of a field", "run_id": "the name of a field", "step_id": "the name of a field",
	"workflow_version": "the name of a field", "connector": "the name of a field", "operation": "the name of a field",
	"payload":         "the name of a field",
	"in_order":        "the beginning of the name of a meta value",
	"looked_up":       "a count of a pass",
	"settled_applied": "a count of a pass", "settled_not_applied": "a count of a pass",
	"clock_step": "what a pass notes", "lag_seen": "what a pass notes", "own_not_shown": "what a pass notes",
	"begun": "an answer to an intent", "settled": "an answer to an intent", "escalated": "an answer to an intent", "refused": "an answer to an intent",
	"look": "a rule of an attempt", "reconcile": "the beginning of an error", "daemon": "the beginning of an error",
}

var (
	codeAlone  = regexp.MustCompile(`^[a-z]+(?:_[a-z]+)+$`)
	codeBefore = regexp.MustCompile(`^([a-z]+(?:_[a-z]+)*): `)
	codeInSQL  = regexp.MustCompile(`\breason = '([a-z_]+)'`)
)

// TestEveryReasonHasWords reads the sources that give reasons (the package that
// decides, and what the store writes by itself): each text there that has the
// form of a code, alone or before a detail, has words of its own, or stands
// above as something else. A code of one word that stands alone (absent, sent)
// cannot be told from other words by its form.
func TestEveryReasonHasWords(t *testing.T) {
	files, err := filepath.Glob("../reconcile/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of package reconcile: %v", err)
	}
	files = append(files, "../ledger/transition.go")
	used := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for code, at := range codesIn(t, name) {
			used[code] = at
		}
	}
	queries, err := filepath.Glob("../ledger/sqlstore/queries/*.sql")
	if err != nil || len(queries) == 0 {
		t.Fatalf("no queries of the store: %v", err)
	}
	for _, name := range queries {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range codeInSQL.FindAllStringSubmatch(string(src), -1) {
			used[m[1]] = name
		}
	}
	for code, at := range used {
		_, known := meanings[code]
		if _, other := notReasons[code]; !known && !other {
			t.Errorf("%s: %q has no words; add them to meanings, or say in notReasons what it is", at, code)
		}
	}
	for code := range notReasons {
		if _, ok := used[code]; !ok {
			t.Errorf("notReasons: %q stands in no source any more; remove it", code)
		}
	}
}

// codesIn lists the texts of a file that have the form of a code, with where
// they stand. Tags of struct fields are left out: they name columns of JSON.
func codesIn(t *testing.T, name string) map[string]string {
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var skip []*ast.BasicLit
	codes := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			skip = append(skip, x.Tag)
		case *ast.BasicLit:
			if x.Kind != token.STRING || slices.Contains(skip, x) {
				return true
			}
			text, err := strconv.Unquote(x.Value)
			if err != nil {
				t.Fatalf("%s: %v", fset.Position(x.Pos()), err)
			}
			if m := codeBefore.FindStringSubmatch(text); m != nil {
				codes[m[1]] = fset.Position(x.Pos()).String()
			} else if codeAlone.MatchString(text) {
				codes[text] = fset.Position(x.Pos()).String()
			}
		}
		return true
	})
	return codes
}
