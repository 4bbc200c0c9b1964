package reconcile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/recovery-ledger/reconcile/reconcile"
)

// A ledger that goes away in a pass with a thousand leases is two lines of the
// log, and a word of the next pass again.
func TestAWarningThatRepeatsItselfInAPassIsCounted(t *testing.T) {
	var b bytes.Buffer
	quiet := reconcile.NewPassLog(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	log := slog.New(quiet)
	away := errors.New("away")
	for range 1000 {
		log.Warn("leases not released", "err", away)
		log.With("job", "settle").Warn("leases not released", "err", away)
		log.Info("transition", "action_key", "a:1")
	}
	log.Warn("leases not renewed", "err", away)
	transition := "level=INFO msg=transition action_key=a:1\n"
	if n := strings.Count(b.String(), transition); n != 1000 {
		t.Errorf("%d lines that are no warning, want all", n)
	}
	got := strings.ReplaceAll(b.String(), transition, "")
	b.Reset()
	quiet.Ended()
	quiet.Ended() // a pass without a warning
	log.Warn("leases not released", "err", away)
	got += b.String()
	want := `level=WARN msg="leases not released" err=away
level=WARN msg="leases not renewed" err=away
level=WARN msg="leases not released" more=1999
level=WARN msg="leases not released" err=away
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
