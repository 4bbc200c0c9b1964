package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
)

// Result is what a campaign came to, counted at the provider.
type Result struct {
	Ledger   string         `json:"ledger"`
	Storm    string         `json:"storm"`
	Seed     uint64         `json:"seed"`
	Daemons  int            `json:"daemons"`
	Took     string         `json:"took"`
	Kinds    []Tally        `json:"kinds"`
	Faults   map[string]int `json:"faults"`
	Lookups  int            `json:"lookup_calls"`
	Moving   int            `json:"still_moving"` // when the patience was over
	Problems []string       `json:"problems"`     // each with its key, at most a few of a sort
}

// Tally is the count of one kind of provider.
type Tally struct {
	Kind       provider.Kind `json:"kind"`
	Actions    int           `json:"actions"`
	Unknown    int           `json:"unknown_to_workflow"` // the workflow's own try did not end in ok
	Sends      int           `json:"sends"`               // requests at the provider, the workflow's among them
	Effects    int           `json:"effects"`
	Duplicates int           `json:"duplicates"` // keys with two effects or more
	Flagged    int           `json:"duplicates_flagged"`
	Stopped    int           `json:"duplicates_of_a_stop"` // a stop between check and write explains them
	Lost       int           `json:"lost"`
	Wrong      int           `json:"wrongly_settled"`
	Stuck      int           `json:"stuck"`
	Person     int           `json:"with_a_person"`
	Applied    int           `json:"settled_applied"`
	NotApplied int           `json:"settled_not_applied"`

	Reasons map[string]int `json:"with_a_person_because"` // codes
}

// entry is what the entries command tells of one; the names are its contract.
type entry struct {
	Key     string   `json:"action_key"`
	State   string   `json:"state"`
	Effect  string   `json:"effect"`
	Outcome string   `json:"outcome"`
	Flags   []string `json:"flags"`
	Owner   string   `json:"owner"`
	NextAt  *string  `json:"next_at"`
	DueAt   *string  `json:"due_at"`
	Reason  string   `json:"reason"`
}

func (c *campaign) entries(ctx context.Context, args ...string) ([]entry, error) {
	out, err := c.command(ctx, false, append([]string{"entries", "--output", "json"}, args...)...)
	if err != nil {
		return nil, err
	}
	var es []entry
	return es, json.Unmarshal(out, &es)
}

// openStates are those in which an entry waits for nobody but the program.
var openStates = []string{"in_flight", "ambiguous", "retryable", "ready", "deferred"}

// open counts entries that the program has still to work on; beyond a hundredth
// of all it does not count on.
func (c *campaign) open(ctx context.Context) (int, error) {
	n := 0
	for _, s := range openStates {
		es, err := c.entries(ctx, "--state", s, "--limit", strconv.Itoa(len(c.keys)/100+2))
		if err != nil {
			return 0, err
		}
		n += len(es)
	}
	return n, nil
}

// moving counts entries that the program would still work on, those settled and
// to be looked at once more among them. What a person owns is looked at daily,
// and waits for the person.
func (c *campaign) moving(ctx context.Context) (int, error) {
	n, err := c.open(ctx)
	if err != nil || n > 0 {
		return n, err
	}
	es, err := c.entries(ctx, "--state", "settled")
	for _, e := range es {
		if e.NextAt != nil {
			n++
		}
	}
	return n, err
}

// account compares every action at the provider with its entry.
func (c *campaign) account(ctx context.Context, moving int) (*Result, error) {
	es, err := c.entries(ctx)
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]entry, len(es))
	for _, e := range es {
		byKey[e.Key] = e
	}
	faults, lookups := c.prov.Counts()
	for name, n := range c.log.Counts() {
		faults[name] += n
	}
	res := &Result{Ledger: c.Ledger, Storm: "no stop between check and write", Seed: c.Seed, Daemons: c.Daemons, Faults: faults, Lookups: lookups, Moving: moving, Problems: []string{}}
	if c.AtWire {
		res.Storm = "stops between check and write"
	}
	for _, k := range provider.Kinds {
		t := Tally{Kind: k, Reasons: map[string]int{}}
		for _, todo := range c.keys {
			if todo.kind == k {
				e, there := byKey[todo.key]
				c.judge(&t, res, todo, c.prov.Action(k, todo.key), e, there)
			}
		}
		res.Kinds = append(res.Kinds, t)
	}
	return res, nil
}

// judge counts one action.
func (c *campaign) judge(t *Tally, res *Result, todo todo, a provider.Action, e entry, there bool) {
	problem := func(n *int, what string) {
		if *n++; *n <= 5 {
			res.Problems = append(res.Problems, fmt.Sprintf("%s: %s: %s: the workflow saw %q; %d requests, %d effects %s; entry %s, effect %s, outcome %q, flags %v, reason %q",
				c.Ledger, what, todo.key, todo.seen, a.Requests, len(a.Effects), times(a), e.State, e.Effect, e.Outcome, e.Flags, e.Reason))
		}
	}
	t.Actions++
	t.Sends += a.Requests
	t.Effects += len(a.Effects)
	if todo.seen != "ok" {
		t.Unknown++
	}
	person := e.State == "escalated" && e.Owner != "" && e.DueAt != nil
	if len(a.Effects) > 1 {
		problem(&t.Duplicates, "duplicate")
		if slices.Contains(e.Flags, "duplicate") {
			t.Flagged++
		}
		for _, ef := range a.Effects[1:] {
			// A second is more than a continued process needs for its write.
			if c.log.Continued(ef.ArrivedAt, time.Second+c.Lands/4) {
				t.Stopped++
				break
			}
		}
	}
	switch {
	case !there:
		problem(&t.Lost, "lost: no entry")
	case person:
		t.Person++
		code, _, _ := strings.Cut(e.Reason, ":")
		t.Reasons[code]++
	case e.State != "settled":
		problem(&t.Stuck, "stuck")
	case e.Outcome == "applied":
		t.Applied++
		if len(a.Effects) == 0 {
			problem(&t.Wrong, "settled applied, and it did not happen")
			t.Lost++
		}
	default:
		t.NotApplied++
		if len(a.Effects) > 0 {
			problem(&t.Wrong, "settled not applied, and it happened")
		}
	}
}

func times(a provider.Action) string {
	s := ""
	for _, e := range a.Effects {
		s += fmt.Sprintf("(%s arrived %s landed %s)", e.ID, e.ArrivedAt.Format("15:04:05.000"), e.LandedAt.Format("15:04:05.000"))
	}
	return s
}

// Broken are the promises of docs/rules.md, section 14, that did not hold.
func (r *Result) Broken() []string {
	var broken []string
	for _, t := range r.Kinds {
		bad := func(n int, what string) {
			if n > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s, provider %q: %d %s", r.Ledger, r.Storm, t.Kind, n, what))
			}
		}
		bad(t.Lost, "lost")
		bad(t.Wrong, "wrongly settled")
		bad(t.Stuck, "stuck")
		switch t.Kind {
		case provider.Lookup:
			bad(t.Duplicates-t.Stopped, "duplicates that no stop between check and write explains")
			bad(t.Duplicates-t.Flagged, "duplicates not flagged")
		default:
			bad(t.Duplicates, "duplicates")
		}
	}
	if r.Moving > 0 {
		broken = append(broken, fmt.Sprintf("%s: %d entries still moved when the patience was over", r.Ledger, r.Moving))
	}
	return broken
}

// print writes the tables.
func print(w io.Writer, rs []*Result) error {
	var rows [][]any
	for _, r := range rs {
		for _, t := range r.Kinds {
			rows = append(rows, []any{r.Ledger, r.Storm, t.Kind, t.Actions, t.Unknown, t.Sends, t.Effects, t.Duplicates, t.Flagged, t.Lost, t.Wrong, t.Stuck, t.Person})
		}
	}
	head := []string{"ledger", "storm", "provider", "actions", "unknown", "sends", "effects", "duplicates", "flagged", "lost", "wrong", "stuck", "person"}
	if err := markdown(w, head, rows); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, r := range rs {
		for n := range r.Faults {
			names[n] = true
		}
	}
	rows = nil
	head = []string{"fault"}
	total := []any{"all"}
	for _, r := range rs {
		head = append(head, r.Ledger+", "+r.Storm)
		sum := 0
		for _, n := range r.Faults {
			sum += n
		}
		total = append(total, sum)
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		row := []any{n}
		for _, r := range rs {
			row = append(row, r.Faults[n])
		}
		rows = append(rows, row)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return markdown(w, head, append(rows, total))
}

func markdown(w io.Writer, head []string, rows [][]any) error {
	line := func(cells []any) string {
		s := "|"
		for _, c := range cells {
			s += fmt.Sprintf(" %v |", c)
		}
		return s + "\n"
	}
	all := make([]any, len(head))
	rule := "|"
	for i, h := range head {
		all[i] = h
		rule += " --- |"
	}
	text := line(all) + rule + "\n"
	for _, r := range rows {
		text += line(r)
	}
	_, err := io.WriteString(w, text)
	return err
}
