package protocol

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
)

// Harm is what must never happen.
type Harm string

// The harms.
const (
	Duplicate Harm = "dup"       // two effects, one of them ours
	Wrong     Harm = "wrong"     // settled not_applied, and there is an effect
	Unsettled Harm = "unsettled" // a settled entry changed its outcome or left its state
	Stale     Harm = "stale"     // a worker wrote without the right to
	Lost      Harm = "lost"      // an entry that can no longer end settled or with a person
	Hidden    Harm = "hidden"    // a duplicate that nobody will find
)

// Result is what an exploration found.
type Result struct {
	States int
	Steps  int
	Whole  bool              // every state that can be reached was seen
	Traces map[Harm][]string // the shortest way to each harm that was found
}

// Harms lists what was found, sorted.
func (r Result) Harms() []Harm {
	var l []Harm
	for h := range r.Traces {
		l = append(l, h)
	}
	slices.Sort(l)
	return l
}

// String is "clean", or the harms.
func (r Result) String() string {
	if len(r.Traces) == 0 {
		return "clean"
	}
	var l []string
	for _, h := range r.Harms() {
		l = append(l, string(h))
	}
	return strings.Join(l, ", ")
}

// harmOf is what is wrong with a state by itself.
func harmOf(s *state) Harm {
	ours, all := 0, 0
	for _, f := range s.eff {
		if f.by != 0 {
			all++
		}
		if f.by == byUs {
			ours++
		}
	}
	switch {
	case all > 1 && ours > 0:
		return Duplicate
	case all > 0 && s.e.st == settled && !s.e.applied:
		return Wrong
	}
	return ""
}

// ended says whether an entry is settled or with a person.
func ended(s *state) bool { return s.e.st == settled || s.e.st == person }

// hidden says whether a state in which nothing more will come to light has a
// duplicate that was not found.
func (m *model) hidden(s *state) bool {
	if harmOf(s) != Duplicate || s.e.st != settled || s.e.flagged || s.e.verify || s.flow > 0 || s.flowSaw > 0 || s.flowNews {
		return false
	}
	for _, w := range s.w {
		if w.at != idle {
			return false
		}
	}
	for _, r := range s.req {
		if r.by != 0 {
			return false
		}
	}
	return true
}

// settledChanged says whether a step other than the loss of commits changed
// what was settled.
func settledChanged(from, to *state) bool {
	return from.e.st == settled && to.failed == from.failed && (to.e.st != settled || to.e.applied != from.e.applied)
}

// Options of an exploration.
type Options struct {
	Limit  int  // states at most; 0: no limit
	Until  Harm // end as soon as this was found
	Beyond bool // follow what comes after a duplicate, to see whether it is found
}

// Explore goes through every state that a world can reach under the guards
// given, the nearest first, so that each trace is as short as can be.
func Explore(w World, g Guard, o Options) Result {
	m := &model{World: w, guards: g}
	r := Result{Traces: map[Harm][]string{}}
	seen := newStates()
	first := m.start()
	seen.add(&first)
	parent := []int32{-1}
	var into []edge // to find what can still end

	var stop bool
	found := func(h Harm, at int32) {
		if _, ok := r.Traces[h]; ok {
			return
		}
		r.Traces[h] = m.trace(seen, parent, at)
		stop = stop || h == o.Until
	}
	dead := []bool{false} // not followed further
	for at := int32(0); int(at) < seen.count && !stop; at++ {
		if dead[at] {
			continue
		}
		if o.Limit > 0 && seen.count >= o.Limit {
			r.States = seen.count
			return r
		}
		s := *seen.at(at)
		m.each(s, func(_ step, n state) {
			r.Steps++
			changed, stale := settledChanged(&s, &n), n.wrote
			n.canonical(w.Workers)
			i, fresh := seen.add(&n)
			into = append(into, edge{i, at})
			if !fresh {
				return
			}
			parent = append(parent, at)
			h := harmOf(&n)
			dead = append(dead, h != "" && !(o.Beyond && h == Duplicate))
			if h != "" {
				found(h, i)
			}
			if changed {
				found(Unsettled, i)
			}
			if stale {
				found(Stale, i)
			}
			if o.Beyond && m.hidden(&n) {
				found(Hidden, i)
			}
		})
	}
	r.States = seen.count
	r.Whole = !stop
	if r.Whole {
		if at := cannotEnd(seen, into, dead); at >= 0 {
			found(Lost, at)
		}
	}
	return r
}

// edge is a step from one state to another.
type edge struct{ to, from int32 }

// cannotEnd is the first state from which no way leads to an entry that is
// settled or with a person; -1 for none.
func cannotEnd(seen *states, into []edge, dead []bool) int32 {
	// The steps into each state lie together, from start[i] on.
	start := make([]int32, seen.count+1)
	for _, e := range into {
		start[e.to+1]++
	}
	for i := range seen.count {
		start[i+1] += start[i]
	}
	from, fill := make([]int32, len(into)), slices.Clone(start)
	for _, e := range into {
		from[fill[e.to]] = e.from
		fill[e.to]++
	}
	can := make([]bool, seen.count)
	var todo []int32
	for i := range seen.count {
		if dead[i] || ended(seen.at(int32(i))) {
			can[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, f := range from[start[at]:start[at+1]] {
			if !can[f] {
				can[f] = true
				todo = append(todo, f)
			}
		}
	}
	return int32(slices.Index(can, false))
}

// states is a set of states in the order they were found. They lie in pieces,
// so that none is moved when more come.
type states struct {
	seed   maphash.Seed
	places map[uint64]int32
	pieces [][]state
	count  int
}

const piece = 4096

func newStates() *states { return &states{seed: maphash.MakeSeed(), places: map[uint64]int32{}} }

func (ss *states) at(i int32) *state { return &ss.pieces[i/piece][i%piece] }

func (ss *states) add(s *state) (at int32, fresh bool) {
	h := maphash.Comparable(ss.seed, *s)
	for {
		i, ok := ss.places[h]
		if !ok {
			break
		}
		if *ss.at(i) == *s {
			return i, false
		}
		h++ // two states of one hash: the next free place
	}
	if ss.count%piece == 0 {
		ss.pieces = append(ss.pieces, make([]state, 0, piece))
	}
	last := len(ss.pieces) - 1
	ss.pieces[last] = append(ss.pieces[last], *s)
	ss.places[h] = int32(ss.count)
	ss.count++
	return int32(ss.count - 1), true
}

// trace tells how a state is reached, with workers called by the same name all
// the way.
func (m *model) trace(seen *states, parent []int32, at int32) []string {
	var path []int32
	for i := at; i >= 0; i = parent[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return m.tell(*seen.at(path[0]), func(k int, n state) bool { return n == *seen.at(path[k+1]) }, len(path)-1)
}

// tell names the steps of a way of n states, of which is says whether a state
// is the k-th.
func (m *model) tell(s state, is func(k int, n state) bool, n int) []string {
	m.telling = true
	defer func() { m.telling = false }()
	emit := m.emit
	defer func() { m.emit = emit }()
	names := [maxWorkers]int8{0, 1, 2}
	now := 0
	lines := []string{m.opening()}
	for k := range n {
		taken := false
		at := s
		m.each(at, func(st step, next state) {
			if taken {
				return
			}
			moved := next.canonical(m.Workers)
			if !is(k, next) {
				return
			}
			taken = true
			if st.what == passing {
				now++
			} else {
				lines = append(lines, fmt.Sprintf("%2d  %s", now, st.text(names)))
			}
			var renamed [maxWorkers]int8
			for i := range renamed {
				renamed[i] = names[moved[i]]
			}
			names, s = renamed, next
		})
	}
	return lines
}

func (m *model) opening() string {
	return " 0  " + [...]string{
		Unanswered:  "the workflow sends, gets no answer, and reports that: the entry is ambiguous",
		Refused:     "the workflow reports an attempt that was refused: the entry is retryable",
		OnlyStarted: "the workflow reports \"started\" and no more: the entry is in_flight",
		Promised:    fmt.Sprintf("the workflow reports \"started\" and promises a send_by in %d: the entry is in_flight", m.Promise),
	}[m.First]
}

// Walk goes through a world at random, from the same seed always the same way:
// for worlds too large to be explored whole. States counts the steps' results,
// repeated ones too.
func Walk(w World, g Guard, seed uint64, walks, length int) Result {
	m := &model{World: w, guards: g}
	rnd := rand.New(rand.NewPCG(seed, uint64(len(w.Name))))
	r := Result{Traces: map[Harm][]string{}}
	for range walks {
		s := m.start()
		way := []state{s}
		for range length {
			var next []state
			m.each(s, func(_ step, n state) { next = append(next, n) })
			n := next[rnd.IntN(len(next))]
			changed := settledChanged(&s, &n)
			n.canonical(w.Workers)
			r.Steps++
			r.States++
			s = n
			way = append(way, s)
			h := harmOf(&s)
			if changed {
				h = Unsettled
			}
			if h == "" {
				continue
			}
			if _, ok := r.Traces[h]; !ok {
				r.Traces[h] = m.tell(way[0], func(k int, n state) bool { return n == way[k+1] }, len(way)-1)
			}
			break
		}
	}
	return r
}
