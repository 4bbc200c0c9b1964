// Package demo is "reconcile demo": a small billing system that loses answers,
// a workflow that meets it 200 times, and the recovery, run through the same
// commands that a user types. It needs no server and no network.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// Options say how the demonstration is shown.
type Options struct {
	Out io.Writer

	// Command runs one command line of reconcile, as on a terminal that is
	// narrower by Indent, and returns its exit code. The demonstration does
	// nothing that a user could not type.
	Command func(ctx context.Context, stdout, stderr io.Writer, args ...string) int

	Color bool
	Dir   string // keep config, ledger and results there; "" is a temporary folder, removed at the end
}

// allowed is how long the passes may take until nothing moves. The timings of
// the config add up to about twelve seconds.
const allowed = 60 * time.Second

// Numbers are what was counted at the billing system.
type Numbers struct {
	Actions    int // of the workflow
	Failed     int // did not end well, as the workflow saw it
	Lost       int // of those, the invoice exists: duplicates of a blind resend
	Wanted     int // invoices that must exist in the end
	Once       int // of those, exist exactly once in the end
	Missing    int
	Twice      int
	Unwanted   int // exist although they must not
	Passes     int
	Escalated  int // entries that now wait for a person
	StillMoves int // entries that a pass would still work on
}

// Right says whether the outcome is the one that reconcile promises.
func (n Numbers) Right() bool {
	return n.Once == n.Wanted && n.Missing == 0 && n.Twice == 0 && n.Unwanted == 0 && n.StillMoves == 0
}

// Run shows the demonstration. It returns an error when the count at the
// billing system is not exactly one invoice per action that should have one.
func Run(ctx context.Context, o Options) error {
	n, err := run(ctx, o)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if !n.Right() {
		return fmt.Errorf("demo: the count at the billing system is wrong: %d of %d invoices exist once, %d are missing, %d exist twice, %d must not exist",
			n.Once, n.Wanted, n.Missing, n.Twice, n.Unwanted)
	}
	return nil
}

// show is one run of the demonstration.
type show struct {
	Options
	paper
	dir   string
	todos []todo
	Numbers
}

func run(ctx context.Context, o Options) (Numbers, error) {
	s := &show{Options: o, paper: paper{w: o.Out, color: o.Color}, dir: o.Dir, todos: plan()}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "reconcile-demo-")
		if err != nil {
			return s.Numbers, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder, which the system removes in the end
		s.dir = dir
	} else if err := s.fresh(); err != nil {
		return s.Numbers, err
	}
	b := newBilling(token, scripts(s.todos), people(s.todos))
	url, stop, err := b.serve(ctx)
	if err != nil {
		return s.Numbers, err
	}
	defer stop()
	if err := s.play(ctx, b, url); err != nil {
		return s.Numbers, errors.Join(context.Cause(ctx), err)
	}
	return s.Numbers, s.err
}

// fresh makes the folder, and refuses one where a demonstration has been.
func (s *show) fresh() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{configName, ledgerName, resultsName} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return fmt.Errorf("%s is already in %s; name an empty folder", name, s.dir)
		}
	}
	return nil
}

func (s *show) play(ctx context.Context, b *billing, url string) error {
	s.title("200 invoices, lost answers, and the way back")
	config := filepath.Join(s.dir, configName)
	if err := os.WriteFile(config, []byte(configText(url)), 0o600); err != nil {
		return err
	}
	c := client(token)
	if at := c.Send(ctx, url+"/invoices", workflow.Action{Key: canary, Payload: json.RawMessage(`{"reference":"` + canary + `","customer":"c-00","amount_cents":100}`)}); !at.OK() {
		return fmt.Errorf("the first invoice, which is always there, could not be made: %s", at.Message)
	}

	s.section("A workflow creates 200 invoices. This is what it sees:")
	recs := s.work(ctx, c, url)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := workflow.WriteFile(filepath.Join(s.dir, resultsName), recs); err != nil {
		return err
	}
	s.truth(b, recs)

	s.section("Its results go into the recovery ledger.")
	out, err := s.command(ctx, nil, "import", filepath.Join(s.dir, resultsName))
	if err != nil {
		return err
	}
	s.ran("reconcile import " + resultsName)
	s.quote(out)
	s.blank()
	es, err := s.entries(ctx)
	if err != nil {
		return err
	}
	s.states(es)

	s.section("reconcile asks, waits until silence means something, then resends.")
	if err := s.passes(ctx); err != nil {
		return err
	}

	s.section("Counted at the billing system:")
	s.verdict(b)

	s.section("What the week's review sees:")
	if err := s.outcomes(ctx); err != nil {
		return err
	}
	s.blank()
	if err := s.reasons(ctx); err != nil {
		return err
	}

	s.section("Why one of the resends was safe, although its answer was lost too:")
	if err := s.quoted(ctx, "show", s.sample()); err != nil {
		return err
	}
	s.end()
	return nil
}

// command runs one command with the demonstration's config and returns its
// standard output. Exit codes beyond those allowed (0 always is) are an error.
func (s *show) command(ctx context.Context, codes []int, args ...string) (string, error) {
	var out, errs bytes.Buffer
	all := append([]string{"--config", filepath.Join(s.dir, configName)}, args...)
	code := s.Command(ctx, &out, &errs, all...)
	if code != 0 && !slices.Contains(codes, code) {
		return "", fmt.Errorf("reconcile %s: exit %d\n%s%s", strings.Join(args, " "), code, errs.String(), out.String())
	}
	return out.String(), nil
}

// quoted runs a command and shows it with what it printed.
func (s *show) quoted(ctx context.Context, args ...string) error {
	out, err := s.command(ctx, nil, args...)
	if err != nil {
		return err
	}
	s.ran("reconcile " + strings.Join(args, " "))
	s.quote(out)
	return nil
}

// work lets the workflow run: every action is sent once.
func (s *show) work(ctx context.Context, c *workflow.Client, url string) []workflow.Record {
	recs := make([]workflow.Record, len(s.todos))
	workflow.Each(len(s.todos), 8, func(i int) {
		t := s.todos[i]
		var at workflow.Attempt
		if f := t.first(); f == fateCrash || f == fateCrashOff {
			// It noted the attempt, with a promise that nothing is sent later,
			// and never came to note a result.
			start := time.Now().UTC()
			promise := start.Add(callLimit)
			at = workflow.Attempt{AttemptID: t.Key + "/1", StartedAt: start, Status: "started", SendBy: &promise}
			if f == fateCrash {
				c.Send(ctx, url+"/invoices", t.Action)
			}
		} else {
			at = c.Send(ctx, url+"/invoices", t.Action)
		}
		recs[i] = workflow.RecordOf(t.Action, at)
	})
	return recs
}

// truth tells what the workflow saw, and what it cannot know.
func (s *show) truth(b *billing, recs []workflow.Record) {
	made := b.count()
	var kinds []string
	seen, exist := map[string]int{}, map[string]int{}
	for _, r := range recs {
		k := sight(r.Attempts[0])
		if seen[k] == 0 {
			kinds = append(kinds, k)
		}
		seen[k]++
		s.Actions++
		if made[r.ActionKey] > 0 {
			exist[k]++
		}
		if !r.Attempts[0].OK() {
			s.Failed++
			s.Lost += made[r.ActionKey]
		}
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if seen[a] != seen[b] {
			return seen[b] - seen[a]
		}
		return strings.Compare(a, b)
	})
	s.line("%28s  %7s   %s", "", "actions", s.dim("invoice exists (it cannot know)"))
	for _, k := range kinds {
		s.line("%28s  %7d   %s", k, seen[k], s.dim(fmt.Sprintf("%7d", exist[k])))
	}
	s.blank()
	s.line("%d did not end well. Resending them would make %d invoices twice;", s.Failed, s.Lost)
	s.line("not resending them would lose %d.", s.wantedCount()-s.existing(made))
}

// sight is what one result looks like to the workflow.
func sight(at workflow.Attempt) string {
	switch {
	case at.OK():
		return "created"
	case at.Status == "started":
		return "died in the middle"
	case at.ErrorClass == "timeout":
		return "no answer in time"
	case at.HTTPStatus == 0:
		return "connection cut"
	}
	return fmt.Sprintf("%d %s", at.HTTPStatus, http.StatusText(at.HTTPStatus))
}

func (s *show) wantedCount() int {
	n := 0
	for _, t := range s.todos {
		if t.wanted() {
			n++
		}
	}
	return n
}

// existing is how many of the wanted invoices exist.
func (s *show) existing(made map[string]int) int {
	n := 0
	for _, t := range s.todos {
		if t.wanted() && made[t.Key] > 0 {
			n++
		}
	}
	return n
}

// entry is what the demonstration reads of entries --output json.
type entry struct {
	ActionKey string     `json:"action_key"`
	State     string     `json:"state"`
	NextAt    *time.Time `json:"next_at"`
}

// moves says whether a pass may still work on the entry by itself. A settled
// one that was resent is looked at once more.
func (e entry) moves() bool {
	return e.State != "escalated" && (e.State != "settled" || e.NextAt != nil)
}

func (s *show) entries(ctx context.Context) ([]entry, error) {
	out, err := s.command(ctx, nil, "entries", "--limit", "0", "--output", "json")
	if err != nil {
		return nil, err
	}
	var es []entry
	if err := json.Unmarshal([]byte(out), &es); err != nil {
		return nil, fmt.Errorf("reconcile entries: %w", err)
	}
	return es, nil
}

// states draws the ledger by state.
func (s *show) states(es []entry) {
	n := map[string]int{}
	for _, e := range es {
		n[e.State]++
	}
	meaning := map[string]string{
		"settled": "done, and known to be", "ambiguous": "unknown: only looking is allowed",
		"retryable": "not done, may be tried again", "in_flight": "begun, no result noted",
		"escalated": "a person owns it", "ready": "checked, about to be sent", "deferred": "waits for a condition",
	}
	for _, st := range []string{"settled", "in_flight", "ambiguous", "retryable", "ready", "deferred", "escalated"} {
		if n[st] > 0 {
			s.line("%11s %4d  %-15s %s", st, n[st], strings.Repeat("█", max(1, n[st]/8)), s.dim(meaning[st]))
		}
	}
}

// passes runs reconcile --since 24h until nothing moves.
func (s *show) passes(ctx context.Context) error {
	s.ran("reconcile --since 24h")
	s.line("%6s %10s %8s %10s %6s %8s %10s %6s", "", "looked up", "applied", "not there", "sent", "blocked", "to people", "open")
	start := time.Now()
	for {
		out, err := s.command(ctx, []int{4}, "--since", "24h", "--output", "json")
		if err != nil {
			return err
		}
		var t struct {
			Counts map[string]int `json:"counts"`
		}
		if err := json.Unmarshal([]byte(out), &t); err != nil {
			return fmt.Errorf("reconcile: %w", err)
		}
		es, err := s.entries(ctx)
		if err != nil {
			return err
		}
		s.Passes++
		s.StillMoves, s.Escalated = 0, 0
		for _, e := range es {
			if e.moves() {
				s.StillMoves++
			}
			if e.State == "escalated" {
				s.Escalated++
			}
		}
		c := t.Counts
		if c["looked_up"]+c["sent"]+c["blocked"]+c["escalated"]+c["could_not_ask"] > 0 {
			s.line("%5.1fs %10d %8d %10d %6d %8d %10d %6d", time.Since(start).Seconds(), c["looked_up"], c["settled_applied"],
				c["reopened"], c["sent"], c["blocked"], c["escalated"], s.StillMoves)
		}
		switch {
		case s.StillMoves == 0:
			return nil
		case time.Since(start) > allowed:
			return fmt.Errorf("%d entries still move after %s", s.StillMoves, allowed)
		}
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verdict counts at the billing system.
func (s *show) verdict(b *billing) {
	made := b.count()
	for _, t := range s.todos {
		n := made[t.Key]
		if !t.wanted() {
			s.Unwanted += n
			continue
		}
		s.Wanted++
		switch {
		case n == 1:
			s.Once++
		case n == 0:
			s.Missing++
		default:
			s.Twice++
		}
	}
	mark := s.good("✓")
	if !s.Right() {
		mark = s.bad("✗")
	}
	s.line("%s %d invoices had to exist: %d exist once, %d are missing, %d exist twice.", mark, s.Wanted, s.Once, s.Missing, s.Twice)
	s.line("  %d must not exist, refused by the system or stopped by a check: %d exist.", s.Actions-s.Wanted, s.Unwanted)
	s.line("  %d duplicates were avoided, %d entries wait for a person.", s.Lost, s.Escalated)
	searches, asked := b.calls()
	if searches > 0 {
		s.line("  %d searches asked for %d references: %.0f to a call.", searches, asked, float64(asked)/float64(searches))
	}
}

// report reads the rows of a report into out.
func (s *show) report(ctx context.Context, out any, args ...string) error {
	args = append([]string{"report"}, args...)
	text, err := s.command(ctx, nil, append(args, "--output", "json")...)
	if err != nil {
		return err
	}
	s.ran("reconcile " + strings.Join(args, " "))
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("reconcile %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// outcomes draws the report of that name upright: classes down, versions
// across.
func (s *show) outcomes(ctx context.Context) error {
	var rep struct{ Rows []map[string]any }
	if err := s.report(ctx, &rep, "outcomes", "--since", "24h", "--by", "workflow_version"); err != nil {
		return err
	}
	head := fmt.Sprintf("%21s", "")
	for _, r := range rep.Rows {
		head += fmt.Sprintf("%10s", fmt.Sprintf("version %v", r["workflow_version"]))
	}
	s.line("%s%7s", head, "total")
	means := map[string]string{
		"confirmed_by_lookup": "found by asking", "recovered_after_retry": "resent, once it was safe",
		"blocked": "no longer wanted", "escalated": "with a person, and why",
	}
	for _, class := range []string{"first_attempt_success", "confirmed_by_lookup", "recovered_after_retry", "manually_resolved",
		"blocked", "permanently_failed", "deferred", "escalated", "waiting", "total"} {
		row, sum := fmt.Sprintf("%21s", class), 0
		for _, r := range rep.Rows {
			n, _ := r[class].(float64)
			sum += int(n)
			row += fmt.Sprintf("%10d", int(n))
		}
		if sum > 0 {
			s.line("%s%7d   %s", row, sum, s.dim(means[class]))
		}
	}
	return nil
}

// reasons draws the report of that name in a few narrow columns.
func (s *show) reasons(ctx context.Context) error {
	var rep struct {
		Rows []struct {
			Count                   int
			Kind, Class, Code, Text string
		}
	}
	if err := s.report(ctx, &rep, "reasons", "--since", "24h"); err != nil {
		return err
	}
	s.line("%5s  %-9s %-12s %-14s %s", "count", "kind", "class", "code", "text")
	for _, r := range rep.Rows {
		s.line("%5d  %-9s %-12s %-14s %s", r.Count, r.Kind, r.Class, r.Code, s.dim(short(r.Text, 30)))
	}
	return nil
}

// short cuts a text to at most n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// sample is the action whose first resend lost its answer too.
func (s *show) sample() string {
	for _, t := range s.todos {
		if slices.Equal(t.fates, []fate{fateSwallow, fateCut}) {
			return t.Key
		}
	}
	return s.todos[0].Key
}

func (s *show) end() {
	if s.Options.Dir == "" {
		s.section("All this was in a temporary folder; --keep DIR leaves it in one of yours.")
		return
	}
	s.section("Config, results and ledger are in " + s.dir + ".")
	s.line("Try: reconcile --config %s review list", filepath.Join(s.dir, configName))
}

// client is the workflow's HTTP client.
func client(token string) *workflow.Client {
	return &workflow.Client{
		Timeout: callLimit,
		Header:  http.Header{"Authorization": {"Bearer " + token}},
		IDPath:  "id",
		Code: func(body []byte) (code, message string) {
			var e struct {
				Error struct{ Code, Message string }
			}
			// An answer that is no JSON has no code.
			_ = json.Unmarshal(body, &e)
			return e.Error.Code, e.Error.Message
		},
	}
}
