package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/all"
	"github.com/recovery-ledger/reconcile/internal/config"
)

func TestConfigIsTakenWithoutAWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), configName)
	if err := os.WriteFile(file, []byte(configText("http://127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := connectors.NewRegistry(all.Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	conns, err := cfg.OpenConnectors(reg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 0 {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
	op, ok := conns["billing"].Info().Operation("invoice.create")
	if !ok || op.Lookup != connectors.LookupBatch || !op.CanSend || len(op.Checks) != 3 {
		t.Errorf("the operation is not what the demonstration shows: %+v", op)
	}
}
