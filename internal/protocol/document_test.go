package protocol

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/protocol.md")

const document = "../../docs/protocol.md"

// The tables of the document are those of the code, with what was measured.
func TestDocumentHoldsWhatIsMeasured(t *testing.T) {
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	was := string(b)
	now := was
	for name, text := range map[string]string{
		"guards": guardTable(), "specification": rowTable(table()), "further": rowTable(worlds()), "planted": plantedTable(), "missing": missing(),
	} {
		now = between(t, now, name, text)
	}
	if now == was {
		return
	}
	if !*update {
		t.Fatal("docs/protocol.md is not what is measured now; run: go test ./internal/protocol -run TestDocument -update, and read the difference")
	}
	if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// between puts text between the two marks of a name.
func between(t *testing.T, s, name, text string) string {
	t.Helper()
	open, closing := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	i, j := strings.Index(s, open), strings.Index(s, closing)
	if i < 0 || j < i {
		t.Fatalf("docs/protocol.md has no marks %q", name)
	}
	return s[:i+len(open)] + text + s[j:]
}

func guardTable() string {
	var b strings.Builder
	b.WriteString("| guard | rule | in the product |\n|---|---|---|\n")
	for _, g := range guards() {
		symbols := g.symbols
		if symbols == "" {
			symbols = "**not there yet**, see below"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", g.name, g.rule, symbols)
	}
	return b.String()
}

func rowTable(rows []Row) string {
	var b strings.Builder
	b.WriteString("| world | guards | states | result |\n|---|---|---:|---|\n")
	for _, r := range rows {
		got := r.explore(r.Guards)
		result := got.String()
		switch {
		case r.Beyond:
			result += ", always found and flagged"
		case r.Want != "":
			result = string(r.Want) // others may be further away
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", r.World.Name, guardsOf(r.Guards), got.States, result)
	}
	return b.String()
}

// guardsOf names the guards of a row by what is not as the rules are.
func guardsOf(g Guard) string {
	none := ungenerated
	var l []string
	switch {
	case g == Safe:
		return "all"
	case g&^ExtraLook&none == none:
		l = append(l, "none against failover")
		if more := g &^ none &^ ExtraLook; more != 0 {
			l = []string{"against failover only " + names(more)}
		}
	default:
		l = append(l, "all but "+names(Safe&^g))
	}
	if g.has(ExtraLook) {
		l = append(l, "one more look")
	}
	return strings.Join(l, ", ")
}

func names(g Guard) string { return "`" + strings.ReplaceAll(g.String(), " ", "`, `") + "`" }

func plantedTable() string {
	var b strings.Builder
	b.WriteString("| without | what is planted | found | after states | lines of the trace |\n|---|---|---|---:|---:|\n")
	for _, p := range planted() {
		got := p.explore(Safe &^ p.Guards)
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d |\n", names(p.Guards), p.World.Name, p.Want, got.States, len(got.Traces[p.Want]))
	}
	return b.String()
}

// missing tells the harm that each guard the product does not have could have
// kept away.
func missing() string {
	var b strings.Builder
	for _, g := range guards() {
		if g.symbols != "" {
			continue
		}
		for _, p := range planted() {
			if p.Guards == g.guard {
				got := p.explore(Safe &^ p.Guards)
				fmt.Fprintf(&b, "`%s`: %s. Without it (%s):\n\n```\n%s\n```\n\n", g.name, g.rule, p.Want, strings.Join(got.Traces[p.Want], "\n"))
			}
		}
	}
	if b.Len() == 0 {
		return "Nothing: the code has every guard.\n"
	}
	return b.String()
}

// A symbol that is renamed in the product is renamed here.
func TestTheSymbolsNamedAreInTheProduct(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"reconcile", "ledger", "connectors"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || d.IsDir() || ext != ".go" && ext != ".sql" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	quoted := regexp.MustCompile("`[^`]+`")
	for _, g := range guards() {
		for _, q := range quoted.FindAllString(g.symbols, -1) {
			name := strings.Trim(q, "`")
			name = name[strings.LastIndex(name, ".")+1:]
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(source.String()) {
				t.Errorf("%s: nothing in the product is called %s", g.name, q)
			}
		}
	}
}
