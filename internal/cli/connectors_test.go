package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/connectors"
)

// TestOperationRow: what is shown is what the engine goes by, not only what was
// declared.
func TestOperationRow(t *testing.T) {
	base := connectors.Operation{Name: "o", Lookup: connectors.LookupSingle, Timeout: 20 * time.Second, LandsWithin: time.Minute,
		VisibleWithin: 2 * time.Minute, AbsentAfter: 1, AbsentSpacing: 30 * time.Second, KeyScope: "account"}
	cases := map[string]struct {
		change                 func(*connectors.Operation)
		counts, absent, refuse string
	}{
		"one negative never does where a fresh record may not show": {func(*connectors.Operation) {}, "3m", "2, 30s apart", "nothing"},
		"one does where it reads its own writes":                    {func(o *connectors.Operation) { o.VisibleWithin = 0 }, "1m", "1, 30s apart", "nothing"},
		"more are needed where more are declared":                   {func(o *connectors.Operation) { o.AbsentAfter = 4 }, "3m", "4, 30s apart", "nothing"},
		"what is to be removed counts while it is there":            {func(o *connectors.Operation) { o.Removes = true }, "3m", "2, 30s apart", "nothing"},
		"a system that remembers keys":                              {func(o *connectors.Operation) { o.CarriesKey, o.KeepsKey = true, 24*time.Hour }, "3m", "2, 30s apart", "key (1d, account)"},
		"a key that is forgotten before a send has landed":          {func(o *connectors.Operation) { o.CarriesKey, o.KeepsKey = true, time.Minute }, "3m", "2, 30s apart", "nothing"},
		"a unique key":             {func(o *connectors.Operation) { o.Unique = true }, "3m", "2, 30s apart", "unique"},
		"an upsert":                {func(o *connectors.Operation) { o.Repeatable = true }, "3m", "2, 30s apart", "repeatable"},
		"what cannot be looked up": {func(o *connectors.Operation) { o.Lookup = connectors.LookupNone }, "never", "never", "nothing"},
	}
	for name, c := range cases {
		op := base
		c.change(&op)
		row := operationRow(connectors.Info{Name: "c"}, op)
		if len(row) != len(connectorAllColumns) {
			t.Fatalf("%d values for %d columns", len(row), len(connectorAllColumns))
		}
		got := []any{row[3], row[4], row[7]}
		if d := cmp.Diff([]any{c.counts, c.absent, c.refuse}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

const described = `[connectors.crm]
type = "rest"
base_url = "https://crm.example"
about = { title = "The CRM", pinned = "2026-01" }
facts = { rate = "vendor manual, page 7", keys = "tried on 2026-10-01" }
key = { folds = "case" }
[[connectors.crm.operation]]
name = "contact.create"
lookup = { method = "GET", path = "/c", query = { ref = "{key}" }, items = "data", match = "ref", id = "id" }
`

// TestConnectorsPrintWhatOnlyDescribes: a person reads it, since nothing else does.
func TestConnectorsPrintWhatOnlyDescribes(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("reconcile.toml", []byte(described), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, stderr := run(t, &out, "connectors", "--output", "json"); code != ExitDone {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{`"title":"The CRM"`, `"facts":["keys: tried on 2026-10-01","rate: vendor manual, page 7"]`, `"folds_keys":true`, `"replays_errors":false`} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), ""), strings.Join(strings.Fields(want), "")) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	out.Reset()
	_, stderr := run(t, &out, "connectors")
	if want := "connector crm: The CRM; keys: tried on 2026-10-01; rate: vendor manual, page 7\n"; !strings.Contains(stderr, want) {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	if strings.Contains(out.String(), "facts") {
		t.Errorf("the table is for what decides: %s", out.String())
	}
}
