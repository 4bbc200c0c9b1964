package reconcile

import (
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// refusing is a connector that takes no payload.
type refusing struct {
	connectors.Connector
	connectors.Sender
	connectors.KeyDeriver
}

func (refusing) CheckPayload(string, []string, []byte) (findable, sendable bool, why string) {
	return false, false, "our key stands nowhere in the request"
}

func TestWhyAPayloadIsNotSent(t *testing.T) {
	cases := map[string]struct {
		entry ledger.Entry
		want  string
	}{
		"under its action key": {ledger.Entry{ActionKey: "a:1", ProviderKey: "a:1", Payload: []byte(`{}`)},
			"our key stands nowhere in the request"},
		"under a derived key, which is named": {ledger.Entry{ActionKey: "a:1", ProviderKey: "jr2m5jm0", KeyOrigin: keyDerived, Payload: []byte(`{}`)},
			`our key stands nowhere in the request; our key is "jr2m5jm0", derived from the action key`},
		"too large": {ledger.Entry{ActionKey: "a:1", ProviderKey: "a:1", PayloadSize: 300000},
			"the payload of 300000 bytes was too large to keep"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if ok, got := sendability(refusing{}, c.entry); ok || got != c.want {
				t.Errorf("got %v, %q; want %q", ok, got, c.want)
			}
		})
	}
}
