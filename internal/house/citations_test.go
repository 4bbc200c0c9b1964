package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// heading is the head of a numbered section of docs/rules.md.
	heading = regexp.MustCompile(`(?m)^## ([0-9]+)\. `)

	// broken is the end of a line inside a comment, where a citation may be cut.
	broken = regexp.MustCompile(`\n[ \t]*(?://|--|#)?[ \t]*`)

	cited  = regexp.MustCompile(`docs/rules\.md, section ([0-9]+)`)
	nobody = regexp.MustCompile(`\b(?i:spec|specification)(?:,|'s)? section [0-9]+`)
)

// citations are the sections of docs/rules.md that a text cites, and what in it
// cites a document that is not here.
func citations(text string) (sections, lost []string) {
	text = broken.ReplaceAllString(text, " ")
	for _, m := range cited.FindAllStringSubmatch(text, -1) {
		sections = append(sections, m[1])
	}
	return sections, nobody.FindAllString(text, -1)
}

// TestEachCitedRuleExists keeps the comments honest: whoever follows one to
// docs/rules.md finds the section there.
func TestEachCitedRuleExists(t *testing.T) {
	top, names := tree(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	var have []string
	for _, m := range heading.FindAllStringSubmatch(read("docs/rules.md"), -1) {
		if slices.Contains(have, m[1]) {
			t.Errorf("docs/rules.md has two sections %s", m[1])
		}
		have = append(have, m[1])
	}
	found := 0
	for _, name := range names {
		if !slices.Contains([]string{".go", ".sql", ".md", ".toml"}, path.Ext(name)) {
			continue
		}
		sections, lost := citations(read(name))
		for _, s := range sections {
			found++
			if !slices.Contains(have, s) {
				t.Errorf("%s cites section %s of docs/rules.md, which has only %s", name, s, strings.Join(have, ", "))
			}
		}
		for _, l := range lost {
			t.Errorf("%s cites %q, which is not in this repository; cite docs/rules.md", name, l)
		}
	}
	if found < 30 {
		t.Errorf("only %d citations were read", found)
	}
}

func TestCitationsAreFound(t *testing.T) {
	const rules, other = "docs/rules" + ".md,", "sp" + "ec"
	cases := map[string]struct {
		text     string
		sections []string
		lost     []string
	}{
		"in one line":                       {"// x (" + rules + " section 12).", []string{"12"}, nil},
		"cut before the word":               {"// x (" + rules + "\n\t// section 3).", []string{"3"}, nil},
		"cut before the number":             {"-- x (" + rules + " section\n-- 4)", []string{"4"}, nil},
		"cut in a page":                     {"see " + rules + "\nsection 5, and that", []string{"5"}, nil},
		"two":                               {rules + " section 1; " + rules + " section 2", []string{"1", "2"}, nil},
		"a document that is not here":       {"// x (" + other + ", section 5).", nil, []string{other + ", section 5"}},
		"the same, cut":                     {"// x (" + other + ",\n// section 9).", nil, []string{other + ", section 9"}},
		"the same, as its owner":            {"the " + other + "'s section 2", nil, []string{other + "'s section 2"}},
		"the page without a section":        {"see docs/rules.md", nil, nil},
		"a document of somebody else":       {"GraphQL " + other + "ification, 2.9.4", nil, nil},
		"a section of another page of docs": {"docs/connectors.md, \"Keys\"", nil, nil},
	}
	for name, c := range cases {
		sections, lost := citations(c.text)
		if d := cmp.Diff([][]string{c.sections, c.lost}, [][]string{sections, lost}); d != "" {
			t.Errorf("%s: %q (-want +got):\n%s", name, c.text, d)
		}
	}
}
