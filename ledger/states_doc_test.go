package ledger_test

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/ledger"
)

// docRow is one row of the table of changes in docs/states.md.
var docRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([a-z_]+)` \\| .+ \\|$")

func TestStatesDocHasTheTableOfTheCode(t *testing.T) {
	doc, err := os.ReadFile("../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range docRow.FindAllStringSubmatch(string(doc), -1) {
		rows = append(rows, m[1]+" "+m[2])
	}
	sort.Strings(rows)
	if diff := cmp.Diff(ledger.LegalTable(), rows); diff != "" {
		t.Errorf("docs/states.md and ledger.LegalTable differ (-code +doc):\n%s", diff)
	}
}

func TestStatesDocNamesEveryWord(t *testing.T) {
	doc, err := os.ReadFile("../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range ledger.States() {
		words = append(words, string(s))
	}
	for _, c := range ledger.ReportClasses() {
		words = append(words, string(c))
	}
	for _, f := range []ledger.Flag{ledger.FlagDuplicate, ledger.FlagConflict, ledger.FlagReversed, ledger.FlagOtherOrigin} {
		words = append(words, string(f))
	}
	for _, w := range words {
		if !strings.Contains(string(doc), "`"+w+"`") {
			t.Errorf("docs/states.md does not say what %q is", w)
		}
	}
}
