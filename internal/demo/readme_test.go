package demo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/all"
	"github.com/recovery-ledger/reconcile/internal/config"
	"github.com/recovery-ledger/reconcile/ledger"
)

// readme returns the first block of the README in a language.
func readme(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "```"+language+"\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !ok || !closed {
		t.Fatalf("README.md has no block of %s", language)
	}
	return block
}

// Whatever differs between two runs of the demonstration: times, ids that
// depend on the order of requests, and the counts of single passes.
var (
	changes = regexp.MustCompile(`^ *\d+\.\ds |searches asked|\dZ|inv_`)
	digits  = regexp.MustCompile(`[\d ]+`)
)

// plain makes lines of two runs comparable.
func plain(line string) string {
	if changes.MatchString(line) {
		line = digits.ReplaceAllString(line, "#")
	}
	return strings.TrimSpace(line)
}

// checkReadme compares the README's example with what the demonstration
// printed.
func checkReadme(t *testing.T, out string) {
	t.Helper()
	printed := map[string]bool{}
	for line := range strings.Lines(out) {
		printed[plain(strings.TrimRight(line, "\n"))] = true
	}
	example, _, _ := strings.Cut(readme(t, "text"), "\n   Why\n") // the words of show are broken to fit the terminal
	for line := range strings.Lines(example) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) != "…" && !printed[plain(line)] {
			t.Errorf("README.md shows a line that reconcile demo does not print: %q", line)
		}
	}
}

func TestReadmeConfigIsTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), configName)
	if err := os.WriteFile(file, []byte(readme(t, "toml")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, func(name string) (string, bool) { return "x", name == "BILLING_TOKEN" })
	if err != nil {
		t.Fatal(err)
	}
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.OpenConnectors(reg, nil); err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 0 {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
}

func TestReadmeRecordIsTaken(t *testing.T) {
	rec, errs := ledger.ParseRecord([]byte(readme(t, "json")), ledger.ParseOptions{})
	if len(errs) != 0 || len(rec.Unknown) != 0 {
		t.Errorf("errors %v, unknown members %v", errs, rec.Unknown)
	}
}
