package protocol

import (
	"fmt"
	"math/rand/v2"
)

// randomWorld makes a world that must be clean under all guards, from the same
// seed always the same one. What nothing can close (a stop between check and
// write, a platform that says nothing of its retries, a request that lands
// later than declared) is not in it.
func randomWorld(seed uint64) World {
	r := rand.New(rand.NewPCG(seed, 14))
	one := func(of int) bool { return r.IntN(of) == 0 }
	span := func(from, to int) tick { return tick(from + r.IntN(to-from+1)) }
	w := World{
		Name:     fmt.Sprintf("random %d", seed),
		Provider: []Provider{LookupOnly, LookupOnly, LookupOnly, Key, Key, NoLookup}[r.IntN(6)],
		First:    First(r.IntN(4)),
		Workers:  int8(2 + r.IntN(2)), Sends: int8(1 + r.IntN(2)), Kills: int8(r.IntN(3)), Negatives: int8(1 + r.IntN(2)),
		Timeout: span(1, 3), Lands: span(0, 3), Visible: span(0, 3), Spacing: span(1, 2), Backoff: span(0, 3),
		Lease: span(1, 4), Clearance: span(1, 3), Window: forever, Promise: span(1, 3), Failed: one(2),
	}
	if w.First == OnlyStarted {
		w.Window = span(2, 6)
	}
	if w.Provider == NoLookup {
		w.Window = forever
	}
	switch r.IntN(6) {
	case 0:
		w.Failover, w.Later = true, one(2)
	case 1:
		w.Blind = true
	case 2:
		w.Blip, w.Negatives = true, 2
	case 3:
		if w.First == Unanswered {
			w.Reruns = 1
		}
	case 4:
		if w.First == Unanswered || w.First == Refused {
			w.Resends, w.Driver = 1, span(1, 4)
		}
	case 5:
		if w.Provider != NoLookup {
			w.Lies, w.Visible, w.Failed = true, 0, false
		}
	}
	return w
}
