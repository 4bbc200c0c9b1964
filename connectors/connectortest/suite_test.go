package connectortest_test

import (
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/connectortest"
	"github.com/recovery-ledger/reconcile/connectors/rest"
)

func TestRestPassesTheSuite(t *testing.T) {
	connectortest.Run(t, connectortest.FromDescriptor(rest.Descriptor()))
}

func TestTheTOMLOpensToo(t *testing.T) {
	s := connectortest.NewFake(t)
	var config struct {
		Connectors map[string]map[string]any
	}
	if err := toml.Unmarshal([]byte(s.TOML("fake")), &config); err != nil {
		t.Fatal(err)
	}
	c, err := rest.Open(connectors.Config{Name: "fake", Table: config.Connectors["fake"]})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.TOML("fake"))
	}
	d, err := rest.Open(s.Config("fake"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Info().Version != d.Info().Version {
		t.Error("TOML and Table are two definitions")
	}
}
