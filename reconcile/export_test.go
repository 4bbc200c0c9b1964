package reconcile

import (
	"context"
	"time"
)

// DaemonOf is a daemon over any pass, for tests.
func DaemonOf(pass func(context.Context, PassOptions) (Tally, error), s Schedule) *Daemon {
	d, err := NewDaemon(&Engine{}, s, time.Minute, nil)
	if err != nil {
		panic(err)
	}
	d.pass = pass
	return d
}
