// Package house holds the tests that keep the shape of this repository: which
// package may import which, what lies at the top, that each package says what
// it is, and that no committed text names the machine it was written on.
package house

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "github.com/recovery-ledger/reconcile"

// helpers stands for the packages of internal/ that know none of the four
// product packages (ledger, connectors, reconcile, reports): duration, redact
// and the like. Whatever is in internal/ and has no rule of its own is one.
const helpers = "helpers"

// rule says what the packages of one pattern may import of this module, beside
// themselves. A pattern is a folder, with /... for what lies below it too.
// Test files may import the helpers and what tests lists as well.
type rule struct {
	pattern string
	imports []string
	tests   []string
}

// rules is the import direction of the house; the first pattern that fits a
// package holds. A change here is a change of architecture: say why in
// docs/decisions.
var rules = []rule{
	{"cmd/...", []string{"internal/cli", "internal/cli/early"}, nil},

	{"ledger", []string{helpers}, []string{"ledger/..."}},
	{"ledger/...", []string{"ledger/...", helpers}, nil},

	{"connectors", []string{helpers}, []string{"connectors/..."}},
	{"connectors/...", []string{"connectors/...", helpers}, nil},

	// Decisions know what a ledger and a connector promise, and no particular
	// one; their tests run against real ones.
	{"reconcile/...", []string{"ledger", "connectors", "reconcile/...", helpers}, []string{"ledger/...", "connectors/..."}},

	{"reports/...", []string{"ledger", "reports/...", helpers}, []string{"ledger/..."}},

	// These put the four together, so they may know all of them.
	{"internal/cli/...", []string{"ledger/...", "connectors/...", "reconcile/...", "reports/...", "internal/cli/...", "internal/config", "internal/demo", "internal/httpapi", helpers}, nil},
	{"internal/httpapi", []string{"ledger", "reconcile", "reports", helpers}, []string{"ledger/...", "connectors/..."}},
	{"internal/config", []string{"ledger", "connectors/...", "reconcile/...", helpers}, nil},

	// These exercise the product as a whole.
	{"internal/demo", []string{"ledger/...", "connectors/...", "reconcile/...", "reports/...", "internal/config", helpers}, nil},
	{"internal/bench", []string{"ledger/...", "connectors/...", "reconcile/...", "reports/...", "internal/config", helpers, "internal/pgtest"}, nil},
	{"internal/chaos", []string{"internal/chaos/...", helpers, "internal/pgtest", "internal/realtest", "internal/testproc"}, nil},
	{"internal/chaos/provider", nil, nil},
	{"internal/chaos/storm", []string{"internal/chaos/provider", "internal/pgtest", "internal/testproc"}, nil},
	{"internal/e2e", []string{"ledger/...", "connectors/...", "reconcile/...", "reports/...", "internal/config", helpers, "internal/pgtest", "internal/realtest"}, nil},

	// These serve tests only: their imports (package testing, a driver, the
	// running of other programs) have no place in the product.
	{"internal/pgtest", []string{"internal/testproc"}, nil},
	{"internal/realtest", []string{"internal/testproc"}, nil},
	{"internal/testproc", nil, nil},

	{"internal/...", []string{helpers}, nil},
}

// testOnly are the packages that any test file may import, and no other file
// but where rules name them.
var testOnly = []string{"internal/pgtest", "internal/realtest", "internal/testproc"}

// outside says which packages of other modules, and of the standard library, a
// package must do without, since what they are for is the duty of another.
var outside = []rule{
	{pattern: "ledger", imports: outsideIO},
	{pattern: "reconcile/...", imports: outsideIO},
}

var outsideIO = []string{
	"database/sql", "github.com/jmoiron/sqlx", "github.com/lib/pq", "modernc.org/sqlite", // ledger/sqlstore
	"net/http",                                                    // connectors
	"github.com/olekukonko/tablewriter", "github.com/spf13/cobra", // reports, internal/cli
}

// harmless are the names of packages in outside that any package may use: they
// are words and rules, and reach nothing.
var harmless = map[string]*regexp.Regexp{
	"net/http": regexp.MustCompile(`^(ParseTime|TimeFormat|Status[A-Z].*|Method[A-Z].*)$`),
}

// fits tells whether a folder matches a pattern.
func fits(pattern, dir string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return dir == base || below && strings.HasPrefix(dir, base+"/")
}

func ruleOf(dir string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return fits(r.pattern, dir) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// allowed tells whether a file of the package in the folder from, a test file
// or not, may import the package of this module in the folder to.
func allowed(from, to string, test bool) bool {
	r, ok := ruleOf(from)
	if !ok {
		return false
	}
	if from == to {
		return true // a test of a package from outside
	}
	may := r.imports
	if test {
		may = slices.Concat(may, r.tests, testOnly, []string{helpers})
	}
	return slices.ContainsFunc(may, func(pattern string) bool {
		if pattern == helpers {
			target, ok := ruleOf(to)
			return ok && target.pattern == "internal/..."
		}
		return fits(pattern, to)
	})
}

// banned tells whether the package in the folder from must not import a
// package that is not of this module.
func banned(from, to string) bool {
	for _, r := range outside {
		if fits(r.pattern, from) && slices.ContainsFunc(r.imports, func(p string) bool { return fits(p+"/...", to) }) {
			return true
		}
	}
	return false
}

// topLevel is what may lie at the top of the repository.
var topLevel = []string{
	".ci", ".gitignore", ".golangci.yml", "LICENSE", "Makefile", "README.md",
	"cmd", "config.example.toml", "connectors", "docs", "go.mod", "go.sum",
	"internal", "ledger", "reconcile", "reports",
}

// root finds the top of the repository from the folder of a test.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above this folder")
		}
		dir = filepath.Dir(dir)
	}
}

// files lists the files that are, or are about to be, part of the repository,
// with slashes and relative to its top: as git sees it, ignored files left out,
// or all files where this is no clone.
func files(root string) ([]string, error) {
	cmd := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if out, err := cmd.Output(); err == nil {
		var names []string
		for name := range strings.SplitSeq(string(out), "\x00") {
			if name == "" {
				continue
			}
			// In the index, and removed from the folder: on its way out.
			if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
				names = append(names, name)
			}
		}
		return names, nil
	}
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if rel == "bin" || rel == ".tools" || path.Base(rel) == ".git" {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			names = append(names, rel)
		}
		return nil
	})
	return names, err
}
