package all

import (
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
)

func TestDescriptorsRegister(t *testing.T) {
	r, err := connectors.NewRegistry(Descriptors()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Descriptor("rest"); !ok {
		t.Errorf("types %v, want rest among them", r.Types())
	}
}
