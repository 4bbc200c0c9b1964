package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// How long the ledger gets to answer whoever asks whether it does.
const readyPatience = 3 * time.Second

// healthz says that the process is alive, and nothing of the ledger: a daemon
// that is restarted because its database is away helps nobody.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request, _ ledger.APIToken) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	return nil
}

// readyz says whether reports can be taken: the ledger is reached, its schema is
// the right one, and the daemon is not stopping.
func (a *API) readyz(w http.ResponseWriter, r *http.Request, _ ledger.APIToken) error {
	if a.stopping.Load() {
		return problem(http.StatusServiceUnavailable, "stopping", "the daemon is stopping")
	}
	if !a.open.Load() {
		return notOpen()
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyPatience)
	defer cancel()
	if err := a.ledger.Ready(ctx); err != nil {
		return problem(http.StatusServiceUnavailable, "ledger", "the ledger is not ready; the log of the daemon, and reconcile doctor, say why").because(err)
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	return nil
}

// Stopping makes /readyz say that nothing more should be sent here.
func (a *API) Stopping() { a.stopping.Store(true) }

// metrics are counted in memory, since the start of the process, but for what is
// due, which is read from the ledger.
type metrics struct {
	version string

	mu       sync.Mutex
	requests map[[2]string]int // by route and status
	verdicts map[string]int    // of records that came by HTTP
	sends    map[string]int    // answers to them
	actions  map[string]int    // of people, by HTTP, that changed something
	passes   map[string]int    // by how they ended
	entries  map[string]int    // what passes did with entries

	stands   standing
	standsAt time.Time // when it was read last
}

// standing is how the ledger stands.
type standing struct {
	up                          bool // it could be read
	due                         []ledger.Due
	escalated, overdue, flagged int
}

func count[K comparable](m *map[K]int, k K, n int) {
	if *m == nil {
		*m = map[K]int{}
	}
	(*m)[k] += n
}

func (m *metrics) request(route string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.requests, [2]string{cmp.Or(route, "/"), fmt.Sprint(status)}, 1)
}

func (m *metrics) record(v ledger.Verdict, s ledger.Send) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.verdicts, string(v), 1)
	count(&m.sends, string(s), 1)
}

func (m *metrics) action(name ledger.Action) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.actions, string(name), 1)
}

// Passed counts a pass of this process.
func (a *API) Passed(t reconcile.Tally, err error) {
	m := &a.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	result := "done"
	if err != nil {
		result = "failed"
	}
	count(&m.passes, result, 1)
	c := t.Counts
	for what, n := range map[string]int{
		"looked_up": c.LookedUp, "settled_applied": c.SettledApplied, "settled_not_applied": c.SettledNotApplied, "reopened": c.Reopened,
		"still_ambiguous": c.StillAmbiguous, "could_not_ask": c.CouldNotAsk, "advanced": c.Advanced, "sent": c.Sent, "recovered": c.Recovered,
		"blocked": c.Blocked, "deferred": c.Deferred, "released": c.Released, "escalated": c.Escalated,
	} {
		count(&m.entries, what, n)
	}
}

// standsFor is how old the counts of the ledger may be: they are read at most
// this often, however often somebody asks.
const standsFor = 30 * time.Second

// standing reads how the ledger stands, unless it was read just now.
func (a *API) standing(ctx context.Context) standing {
	if !a.open.Load() {
		return standing{}
	}
	m := &a.metrics
	m.mu.Lock()
	s, fresh := m.stands, time.Since(m.standsAt) < standsFor
	if !fresh {
		m.standsAt = time.Now() // whoever asks meanwhile gets the counts before
	}
	m.mu.Unlock()
	if fresh {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, standsFor)
	defer cancel()
	s = standing{}
	var err error
	if s.due, err = a.ledger.Due(ctx, ledger.Filter{}); err == nil {
		s.due = a.byKnownLanes(s.due)
		s.escalated, s.overdue, s.flagged, err = a.ledger.Waiting(ctx)
	}
	if s.up = err == nil; !s.up {
		a.log.Warn("what is due and what waits could not be counted", "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stands = s
	return s
}

// otherLane stands for the lanes of connectors that the config does not define:
// their names came from outside, and each value of a label costs whoever keeps
// the metrics.
const otherLane = "unknown"

// byKnownLanes adds up what is due on lanes of no connector in the config.
func (a *API) byKnownLanes(due []ledger.Due) []ledger.Due {
	known := map[string]bool{}
	for _, c := range a.recorder.Connectors {
		known[c.Info().Lane] = true
	}
	var out []ledger.Due
	at := map[ledger.Work]int{} // place in out of what is due on other lanes
	for _, d := range due {
		if !known[d.Lane] {
			i, there := at[d.Work]
			if there {
				out[i].Count += d.Count
				out[i].Leased += d.Leased
				continue
			}
			at[d.Work] = len(out)
			d.Lane = otherLane
		}
		out = append(out, d)
	}
	return out
}

// getMetrics writes the Prometheus text format, version 0.0.4.
func (a *API) getMetrics(w http.ResponseWriter, r *http.Request, _ ledger.APIToken) error {
	s := a.standing(context.WithoutCancel(r.Context()))
	var b bytes.Buffer
	head := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	counter := func(name, help, label string, values map[string]int) {
		head(name, "counter", help)
		for _, k := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&b, "%s{%s=%s} %d\n", name, label, quoted(k), values[k])
		}
	}
	m := &a.metrics
	head("reconcile_build_info", "gauge", "The version of this program.")
	fmt.Fprintf(&b, "reconcile_build_info{version=%s} 1\n", quoted(m.version))
	head("reconcile_ledger_up", "gauge", "Whether the ledger could be read when its counts were read last.")
	fmt.Fprintf(&b, "reconcile_ledger_up %d\n", map[bool]int{true: 1}[s.up])
	if s.up {
		head("reconcile_due_entries", "gauge", "Entries that are due and that nobody has claimed, by lane and work; at most 30 seconds old.")
		for _, d := range s.due {
			fmt.Fprintf(&b, "reconcile_due_entries{lane=%s,work=%s} %d\n", quoted(d.Lane), quoted(string(d.Work)), d.Count)
		}
		head("reconcile_claimed_entries", "gauge", "Entries that are due and claimed, by lane and work.")
		for _, d := range s.due {
			fmt.Fprintf(&b, "reconcile_claimed_entries{lane=%s,work=%s} %d\n", quoted(d.Lane), quoted(string(d.Work)), d.Leased)
		}
		head("reconcile_waiting_entries", "gauge", "Entries that wait for a person: escalated, overdue among them, and flagged.")
		for _, w := range []struct {
			why string
			n   int
		}{{"escalated", s.escalated}, {"overdue", s.overdue}, {"flagged", s.flagged}} {
			fmt.Fprintf(&b, "reconcile_waiting_entries{why=%s} %d\n", quoted(w.why), w.n)
		}
	}
	m.mu.Lock()
	counter("reconcile_passes_total", "Passes of this process, by how they ended.", "result", m.passes)
	counter("reconcile_pass_entries_total", "What passes of this process did with entries.", "what", m.entries)
	counter("reconcile_records_total", "Records that came by HTTP, by what recording did.", "recorded", m.verdicts)
	counter("reconcile_answers_total", "Whether those who reported may send.", "send", m.sends)
	counter("reconcile_actions_total", "Actions of people that came by HTTP and changed an entry.", "action", m.actions)
	head("reconcile_http_requests_total", "counter", "Requests by route and status.")
	for _, k := range slices.SortedFunc(maps.Keys(m.requests), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }) {
		fmt.Fprintf(&b, "reconcile_http_requests_total{route=%s,status=%s} %d\n", quoted(k[0]), quoted(k[1]), m.requests[k])
	}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // of a client that went away nobody needs to know
	return nil
}

// labels are what must be escaped in the value of a label.
// Source: prometheus.io/docs/instrumenting/exposition_formats, "Comments, help text, and type information", 2026-09.
var labels = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quoted(s string) string { return `"` + labels.Replace(s) + `"` }
