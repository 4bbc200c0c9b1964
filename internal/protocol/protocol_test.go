package protocol

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// explore looks for what a row wants, and no further. Several rows are about
// one world: it is explored once.
func (r Row) explore(g Guard) Result {
	o := Options{Beyond: r.Beyond}
	if !r.Beyond || r.Want == Hidden {
		o.Until = r.Want
	}
	w := r.World
	w.Name = ""
	once, _ := explored.LoadOrStore(exploration{w, g, o}, sync.OnceValue(func() Result { return Explore(w, g, o) }))
	return once.(func() Result)()
}

var explored sync.Map // of exploration to func() Result

type exploration struct {
	w World
	g Guard
	o Options
}

// check fails the test where a row under its guards does not come out as it
// says.
func (r Row) check(t *testing.T) {
	t.Helper()
	got := r.explore(r.Guards)
	t.Logf("%d states, %d steps: %s", got.States, got.Steps, got)
	switch {
	case r.Want == "" && !got.Whole:
		t.Error("not explored whole")
	case r.Want == "" && len(got.Traces) > 0, r.Beyond && got.String() != string(r.Want):
		for h, trace := range got.Traces {
			t.Errorf("%s:\n%s", h, strings.Join(trace, "\n"))
		}
	case r.Want != "" && got.Traces[r.Want] == nil:
		t.Errorf("got %s, want %s", got, r.Want)
	case r.Want != "":
		t.Logf("%s:\n%s", r.Want, strings.Join(got.Traces[r.Want], "\n"))
	}
}

func TestWorldsOfTheSpecification(t *testing.T) {
	for _, r := range table() {
		t.Run(r.World.Name, func(t *testing.T) {
			t.Parallel()
			r.check(t)
		})
	}
}

func TestFurtherWorlds(t *testing.T) {
	for _, r := range worlds() {
		t.Run(r.World.Name, func(t *testing.T) {
			t.Parallel()
			r.check(t)
		})
	}
}

// The test of the test: each guard is needed in some world, which is in order
// with it, and the explorer finds what is planted by taking it away.
func TestEveryGuardIsMissedWhenItIsGone(t *testing.T) {
	gone := Guard(0)
	for _, p := range planted() {
		gone |= p.Guards
		t.Run(p.World.Name, func(t *testing.T) {
			t.Parallel()
			with := Row{World: p.World, Guards: Safe, Beyond: p.Beyond}
			if p.Beyond {
				with.Want = Duplicate
			}
			with.check(t)
			got := p.explore(Safe &^ p.Guards)
			trace := got.Traces[p.Want]
			if trace == nil {
				t.Fatalf("without %q: %s after %d states, want %s", p.Guards, got, got.States, p.Want)
			}
			t.Logf("without %q: %s after %d states:\n%s", p.Guards, p.Want, got.States, strings.Join(trace, "\n"))
			if len(trace) > 40 {
				t.Errorf("the trace has %d lines: too long to be read", len(trace))
			}
		})
	}
	if gone != Safe {
		t.Errorf("no world is planted for %q", Safe&^gone)
	}
}

func TestEveryGuardIsDescribed(t *testing.T) {
	all := Guard(0)
	for i, g := range guards() {
		if g.guard != 1<<i {
			t.Errorf("%q is out of order", g.name)
		}
		all |= g.guard
	}
	if all != Safe {
		t.Errorf("guards() has %b, Safe is %b", all, Safe)
	}
}

func TestTheShortestTraceIsTold(t *testing.T) {
	got := Explore(base("quiet period not waited for"), Safe&^Quiet, Options{Until: Duplicate}).Traces[Duplicate]
	want := ` 0  the workflow sends, gets no answer, and reports that: the entry is ambiguous
 0  worker A claims the entry (ambiguous)
 0  worker A looks; nothing shows: a negative that counts
 0  worker A writes ambiguous
 0  worker B claims the entry (ambiguous)
 1  worker B looks; nothing shows: the last negative needed: absent
 1  worker B writes retryable
 1  worker A claims the entry (retryable)
 1  worker A goes through the checks
 1  worker A writes ready: cleared for 2
 1  worker A writes started: send_by in 1
 1  worker A puts the request on the wire
 1  our request takes effect and is answered
 1  the workflow's request takes effect; its answer is lost`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestTheSameExplorationTwice(t *testing.T) {
	w := base("ambiguous", func(w *World) { w.StopAtWire, w.Kills = true, 1 })
	a, b := Explore(w, Safe, Options{}), Explore(w, Safe, Options{})
	if a.States != b.States || a.Steps != b.Steps || a.String() != b.String() {
		t.Errorf("%d states, %d steps, %s; then %d, %d, %s", a.States, a.Steps, a, b.States, b.Steps, b)
	}
	c, d := Walk(w, Safe&^Token, 7, 50, 100), Walk(w, Safe&^Token, 7, 50, 100)
	if c.Steps != d.Steps || c.String() != d.String() {
		t.Errorf("walks: %d steps, %s; then %d, %s", c.Steps, c, d.Steps, d)
	}
}

// What walks find must be what exploring finds.
func TestAWalkFindsWhatIsPlanted(t *testing.T) {
	r := Walk(base("ambiguous", twice), Safe&^Start, 1, 3000, 120)
	if r.Traces[Duplicate] == nil {
		t.Errorf("%d steps: %s, want a duplicate", r.Steps, r)
	}
}

// Worlds made at random are explored up to a number of states, and walked
// through beyond. RECONCILE_PROTOCOL_WORLDS is how many (20),
// RECONCILE_PROTOCOL_STATES how many states of each are explored (20,000: what
// takes a second), RECONCILE_PROTOCOL_SEED where to begin (1).
func TestRandomWorlds(t *testing.T) {
	count, limit, seed := number(t, "RECONCILE_PROTOCOL_WORLDS", 20), number(t, "RECONCILE_PROTOCOL_STATES", 20_000), number(t, "RECONCILE_PROTOCOL_SEED", 1)
	states, steps, whole := 0, 0, 0
	for i := range count {
		w := randomWorld(uint64(seed + i))
		r := Explore(w, Safe, Options{Limit: limit})
		if r.Whole {
			whole++
		}
		far := Walk(w, Safe, uint64(seed+i), 1+limit/4000, 400)
		states, steps = states+r.States, steps+r.Steps+far.Steps
		for _, got := range []Result{r, far} {
			for h, trace := range got.Traces {
				t.Errorf("%s of %+v:\n%s", h, w, strings.Join(trace, "\n"))
			}
		}
	}
	t.Logf("%d worlds, %d of them whole, from seed %d: %d states, %d steps", count, whole, seed, states, steps)
}

func number(t *testing.T, name string, unset int) int {
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		t.Fatalf("%s: %q is no number", name, s)
	}
	return n
}
