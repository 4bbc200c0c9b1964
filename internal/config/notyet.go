package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/recovery-ledger/reconcile/reconcile"
)

// warnNotYet names, once for each block, what somebody wrote and this version
// does not act on. The keys are part of the contract, so they are read and
// checked all the same.
func (c *Config) warnNotYet(r *reader, ps *policyReader) {
	warn := func(line int, path, why string) {
		r.warn(c.Path, line, "%s: no effect in this version: %s", path, why)
	}
	if channels := slices.Sorted(maps.Keys(c.Notify)); len(channels) > 0 {
		warn(c.src.line("notify."+channels[0]), "notify", "notices are not sent yet, to no owner")
	}
	var jobs []string
	for _, job := range []string{"digest", "weekly", "prune"} {
		if path := "schedule." + job; c.src.has(path) {
			jobs = append(jobs, path)
		}
	}
	if jobs != nil {
		warn(c.src.line(jobs[0]), strings.Join(jobs, ", "), "nothing runs at that time yet")
	}
	if path := "retention"; c.src.has(path) {
		warn(c.src.line(path), path, "everything is kept")
	}
	ps.warnNotYet(r)
}

// warnNotYet is the same for the policies: notices once for all of them, a
// hand-over once for each, because it changes what becomes of an entry.
func (ps *policyReader) warnNotYet(r *reader) {
	var notices []origin
	const key = "after_max_attempts.notify"
	for i, p := range ps.list {
		o := ps.from[i]
		if o.src.has(join(o.path, key)) && p.Notify != reconcile.NotifyNone {
			notices = append(notices, o)
		}
		path := join(o.path, "dispatch")
		switch {
		case p.Dispatch == reconcile.DispatchHandover:
			r.warn(o.file, o.src.line(path), "%s: no effect in this version: nothing is handed over yet; a person decides instead", path)
		case o.src.has(join(o.path, "handover")):
			path = join(o.path, "handover")
			r.warn(o.file, o.src.line(path), "%s: no effect in this version: nothing is handed over yet", path)
		}
	}
	if len(notices) == 0 {
		return
	}
	also := ""
	if n := len(notices) - 1; n > 0 {
		also = fmt.Sprintf(" (also in other policies: %d)", n)
	}
	o := notices[0]
	path := join(o.path, key)
	r.warn(o.file, o.src.line(path), "%s: no effect in this version: notices are not sent yet%s", path, also)
}
