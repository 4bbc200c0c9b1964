package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/recovery-ledger/reconcile/ledger"
)

// changing are the columns of an entry that history keeps, by their names in
// history: grouped by one of them, a report reads how it stood then.
var changing = map[string]string{"owner": "owner", "state": "to_state", "outcome": "outcome", "class": "class"}

// grouped gives a statement of queries/reports.sql, grouped by the columns
// named. Each must be one of known.
func (s *Store) grouped(name string, by, known []string) (string, error) {
	var columns, then, names, numbers strings.Builder
	for i, c := range by {
		if !slices.Contains(known, c) {
			return "", fmt.Errorf("cannot be grouped by %q", c)
		}
		n := strconv.Itoa(i + 1)
		old := "e." + c
		if h, ok := changing[c]; ok {
			old = "COALESCE(h." + h + ", e." + c + ")"
		}
		columns.WriteString("e." + c + " AS b" + n + ", ")
		then.WriteString(old + " AS b" + n + ", ")
		names.WriteString("g.b" + n + ", ")
		numbers.WriteString(n + ", ")
	}
	numbers.WriteString(strconv.Itoa(len(by) + 1))
	return strings.NewReplacer("BY_COLUMNS", columns.String(), "BY_THEN", then.String(),
		"BY_NAMES", names.String(), "BY_NUMBERS", numbers.String()).Replace(s.q(name)), nil
}

// windowed gives a grouped statement over a window, with its parameters, in the
// driver's own placeholders.
func (s *Store) windowed(name string, w ledger.ReportWindow, known []string) (string, []any, error) {
	text, err := s.grouped(name, w.By, known)
	if err != nil {
		return "", nil, err
	}
	a, err := s.filterArgs(w.Filter, args{})
	if err != nil {
		return "", nil, err
	}
	// The window of the report, not that of the filter.
	a["since"], a["until"], a["as_of"] = micros(w.Since), micros(w.Until), micros(w.AsOf)
	a["before"] = micros(w.Since.Add(-w.Until.Sub(w.Since)))
	query, list, err := sqlx.Named(text, map[string]any(a))
	return sqlx.Rebind(s.d.bind, query), list, err
}

// report runs a grouped statement over a window and hands each row to scan.
func (s *Store) report(ctx context.Context, name string, w ledger.ReportWindow, known []string, scan func(*sqlx.Rows) error) error {
	query, list, err := s.windowed(name, w, known)
	if err != nil {
		return err
	}
	rows, err := s.r.QueryxContext(ctx, query, list...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// OutcomeCounts counts the entries received in a window by their report class
// as it was at w.AsOf, sorted by the values of w.By. It reads counts, not
// entries.
func (s *Store) OutcomeCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.OutcomeCount, error) {
	counts := map[string]*ledger.OutcomeCount{}
	by := make([]string, len(w.By))
	var class ledger.ReportClass
	var entries, flagged int
	dest := append(pointers(by), &class, &entries, &flagged)
	err := s.report(ctx, "outcome_counts", w, ledger.OutcomeColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		key := strings.Join(by, "\x00")
		c, ok := counts[key]
		if !ok {
			c = &ledger.OutcomeCount{By: slices.Clone(by), Classes: map[ledger.ReportClass]int{}}
			counts[key] = c
		}
		c.Classes[class] += entries
		c.Total += entries
		c.Flagged += flagged
		return nil
	})
	if err != nil {
		return nil, s.readError(ctx, "count outcomes", err)
	}
	return sorted(counts, func(c ledger.OutcomeCount) []string { return c.By }), nil
}

// ReasonCounts counts the failed attempts whose result was stored in a window,
// by reason, sorted by the values of w.By and the reason. A reason that was
// there only in the window before is not among them.
func (s *Store) ReasonCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.ReasonCount, error) {
	counts := map[string]*ledger.ReasonCount{}
	by := make([]string, len(w.By))
	var part ledger.ReasonCount // the share of one workflow version
	var version string
	dest := append(pointers(by), &part.Reason, &version, &part.Connector, &part.Operation, &part.Class, &part.Code, &part.Text,
		&part.RulesVersion, &part.Count, &part.Previous, &part.Unknown, &part.HighRisk, (*timeCell)(&part.LastSeen),
		(*timeCell)(&part.FirstSeen), &part.SampleKey)
	err := s.report(ctx, "reason_counts", w, ledger.ReasonColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		key := strings.Join(append(slices.Clone(by), part.Reason), "\x00")
		c, ok := counts[key]
		if !ok {
			first := part
			first.By, first.Count, first.Previous, first.Unknown, first.HighRisk = slices.Clone(by), 0, 0, 0, 0
			first.LastSeen, first.SampleKey = time.Time{}, ""
			c = &first
			counts[key] = c
		}
		c.Count += part.Count
		c.Previous += part.Previous
		c.Unknown += part.Unknown
		c.HighRisk += part.HighRisk
		// One reason may have several texts and codes (where either names no
		// cause): the same one is shown every time.
		c.Text, c.Code = min(c.Text, part.Text), min(c.Code, part.Code)
		c.RulesVersion = max(c.RulesVersion, part.RulesVersion)
		if part.Count == 0 {
			return nil
		}
		if version != "" {
			c.Versions = append(c.Versions, version)
		}
		if part.LastSeen.After(c.LastSeen) || part.LastSeen.Equal(c.LastSeen) && part.SampleKey > c.SampleKey {
			c.LastSeen, c.SampleKey = part.LastSeen, part.SampleKey
		}
		return nil
	})
	if err != nil {
		return nil, s.readError(ctx, "count reasons", err)
	}
	for key, c := range counts {
		slices.Sort(c.Versions)
		if c.Count == 0 {
			delete(counts, key)
		}
	}
	return sorted(counts, func(c ledger.ReasonCount) []string { return append(slices.Clone(c.By), c.Reason) }), nil
}

// QueueCounts counts what waits for a person or a release condition as it stood
// at w.AsOf, sorted by the values of w.By and what it waits for. The rest of the
// window does not matter.
func (s *Store) QueueCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.QueueCount, error) {
	out := []ledger.QueueCount{}
	by := make([]string, len(w.By))
	var c ledger.QueueCount
	dest := append(pointers(by), &c.Waits, &c.Count, &c.Flagged, &c.Overdue, (*timeCell)(&c.Oldest), (*timeCell)(&c.DueNext))
	err := s.report(ctx, "queue_counts", w, ledger.QueueColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		c.By = slices.Clone(by)
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, s.readError(ctx, "count the queue", err)
	}
	order := []ledger.Waits{ledger.WaitsEscalated, ledger.WaitsDeferred, ledger.WaitsFlagged}
	slices.SortFunc(out, func(a, b ledger.QueueCount) int {
		return cmp.Or(slices.Compare(a.By, b.By), cmp.Compare(slices.Index(order, a.Waits), slices.Index(order, b.Waits)))
	})
	return out, nil
}

// Duplicates lists the entries that were flagged as duplicates in a window, by
// the time they were flagged and their key, each followed by the other entries of
// its outcome.
func (s *Store) Duplicates(ctx context.Context, w ledger.ReportWindow) ([]ledger.Duplicate, error) {
	out, err := s.duplicates(ctx, w)
	if err != nil {
		return nil, s.readError(ctx, "list duplicates", err)
	}
	return out, nil
}

func (s *Store) duplicates(ctx context.Context, w ledger.ReportWindow) ([]ledger.Duplicate, error) {
	type found struct {
		id int64
		ledger.Duplicate
	}
	var flagged []found
	by := make([]string, len(w.By))
	var f found
	dest := append(pointers(by), &f.id, &f.ActionKey, &f.OutcomeKey, (*timeCell)(&f.FlaggedAt), &f.Reason, &f.Open)
	err := s.report(ctx, "duplicates", w, ledger.DuplicateColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		f.By = slices.Clone(by)
		flagged = append(flagged, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(flagged, func(a, b found) int {
		return cmp.Or(a.FlaggedAt.Compare(b.FlaggedAt), cmp.Compare(a.ActionKey, b.ActionKey))
	})
	out := []ledger.Duplicate{}
	for part := range slices.Chunk(flagged, duplicatesAtOnce) {
		var ids []int64
		for _, f := range part {
			ids = append(ids, f.id)
		}
		list, err := s.d.list(ids)
		if err != nil {
			return nil, err
		}
		others := map[int64][]found{}
		err = s.query(ctx, s.r, "duplicate_others", args{"ids": list, "as_of": micros(w.AsOf)}, func(r *sqlx.Rows) error {
			var of int64
			var o found
			if err := r.Scan(&of, &o.id, &o.ActionKey); err != nil {
				return err
			}
			others[of] = append(others[of], o)
			ids = append(ids, o.id)
			return nil
		})
		if err != nil {
			return nil, err
		}
		attempts, err := s.attemptsOf(ctx, s.r, ids)
		if err != nil {
			return nil, err
		}
		if list, err = s.d.list(ids); err != nil {
			return nil, err
		}
		evs, err := all[ledger.Evidence](ctx, s, s.r, "evidence_of", evidenceLayout, args{"ids": list})
		if err != nil {
			return nil, err
		}
		evidence := map[int64][]ledger.Evidence{}
		for _, ev := range evs {
			evidence[ev.EntryID] = append(evidence[ev.EntryID], ev)
		}
		for _, f := range part {
			for _, one := range append([]found{f}, others[f.id]...) {
				if one.id != f.id {
					one.Of, one.OutcomeKey, one.By = f.ActionKey, f.OutcomeKey, f.By
				}
				one.Attempts, one.Evidence = attempts[one.id], evidence[one.id]
				out = append(out, one.Duplicate)
			}
		}
	}
	return out, nil
}

// duplicatesAtOnce is of how many duplicates the facts are read together.
const duplicatesAtOnce = 500

// RecoveryCounts counts what became of the entries received in a window, as it
// stood at w.AsOf, sorted by the values of w.By.
func (s *Store) RecoveryCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.RecoveryCount, error) {
	out := []ledger.RecoveryCount{}
	by := make([]string, len(w.By))
	var c ledger.RecoveryCount
	var whole string
	var recoverP50, recoverP95, settleP50, settleP95 int64
	dest := append(pointers(by), &whole, &c.Entries, &c.Tried, &c.FirstFailed, &c.Retried, &c.Recovered, &c.Applied, &c.Attempts, &c.Ended,
		&c.Failed, &c.Prevented, &c.RecoverTimed, &c.SettleTimed, &recoverP50, &recoverP95, &settleP50, &settleP95)
	err := s.report(ctx, "recovery_counts", w, ledger.RecoveryColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		span := func(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
		c.By = slices.Clone(by)
		c.RecoverP50, c.RecoverP95, c.SettleP50, c.SettleP95 = span(recoverP50), span(recoverP95), span(settleP50), span(settleP95)
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, s.readError(ctx, "count recoveries", err)
	}
	slices.SortFunc(out, func(a, b ledger.RecoveryCount) int { return slices.Compare(a.By, b.By) })
	return out, nil
}

// LookCounts counts the looks in a window, and those that it took to settle what
// was settled in it, sorted by the values of w.By.
func (s *Store) LookCounts(ctx context.Context, w ledger.ReportWindow) ([]ledger.LookCount, error) {
	out := []ledger.LookCount{}
	by := make([]string, len(w.By))
	var c ledger.LookCount
	var whole string
	dest := append(pointers(by), &whole, &c.Looks, &c.CouldNotAsk, &c.Settled, &c.LooksOfSettled)
	err := s.report(ctx, "look_counts", w, ledger.LookColumns(), func(r *sqlx.Rows) error {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		c.By = slices.Clone(by)
		out = append(out, c)
		return nil
	})
	if err != nil {
		return nil, s.readError(ctx, "count looks", err)
	}
	slices.SortFunc(out, func(a, b ledger.LookCount) int { return slices.Compare(a.By, b.By) })
	return out, nil
}

func pointers(texts []string) []any {
	out := make([]any, len(texts))
	for i := range texts {
		out[i] = &texts[i]
	}
	return out
}

// sorted takes the values out of a map in the order of their keys, so that
// both databases, whatever they sort by, answer alike.
func sorted[T any](m map[string]*T, key func(T) []string) []T {
	out := make([]T, 0, len(m))
	for _, v := range m {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b T) int { return slices.Compare(key(a), key(b)) })
	return out
}
