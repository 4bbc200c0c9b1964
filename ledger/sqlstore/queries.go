package sqlstore

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/recovery-ledger/reconcile/ledger"
)

// Every statement stands once in queries/*.sql, for both databases:
//
//	-- name: overdue
//	SELECT {e.entry} FROM entry AS e WHERE e.due_at <= :now AND {matches}
//
// A name may be followed by "(postgres)" or "(sqlite)" where one statement
// cannot serve both; then there is one of each. Parameters are named and bound
// through sqlx; what is in braces is a fragment: see newFragments and the
// lines "-- fragment: NAME" in the files. To add queries, add a file to the
// folder; Store.q gives the finished text by name. Two traps of sqlx: write
// CAST(:x AS bigint) and not :x::bigint, and no ':' or '?' in literals. Cast a
// parameter that is compared with a literal only: PostgreSQL would take it for
// a short integer.
//
//go:embed queries/*.sql
var queryFiles embed.FS

// loadQueries reads the statements for one database and fills the fragments.
func loadQueries(d *dialect) (map[string]string, error) {
	files, err := fs.Glob(queryFiles, "queries/*.sql")
	if err != nil {
		return nil, err
	}
	queries := map[string]string{}
	fragments := newFragments(d)
	for _, file := range files {
		b, err := queryFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := split(file, string(b), d.name, queries, fragments); err != nil {
			return nil, err
		}
	}
	for name, text := range queries {
		if queries[name], err = fill(text, fragments); err != nil {
			return nil, fmt.Errorf("query %q: %w", name, err)
		}
	}
	return queries, nil
}

// split takes a file apart at its headings.
func split(file, content, dialect string, queries, fragments map[string]string) error {
	var into map[string]string
	var name string
	var body strings.Builder
	done := func() error {
		text := strings.TrimSpace(body.String())
		body.Reset()
		if into == nil {
			return nil
		}
		if _, twice := into[name]; twice {
			return fmt.Errorf("%s: %q is there twice", file, name)
		}
		into[name] = text
		return nil
	}
	for _, line := range strings.Split(content, "\n") {
		what, head, isHead := heading(line)
		if !isHead {
			if !strings.HasPrefix(strings.TrimSpace(line), "--") {
				body.WriteString(line + "\n")
			}
			continue
		}
		if err := done(); err != nil {
			return err
		}
		n, only, restricted := strings.Cut(head, " (")
		name = n
		switch {
		case restricted && strings.TrimSuffix(only, ")") != dialect:
			into = nil
		case what == "name":
			into = queries
		default:
			into = fragments
		}
	}
	return done()
}

func heading(line string) (what, head string, ok bool) {
	for _, w := range []string{"name", "fragment"} {
		if h, found := strings.CutPrefix(line, "-- "+w+": "); found {
			return w, strings.TrimSpace(h), true
		}
	}
	return "", "", false
}

// fill replaces {fragment}; a fragment may hold others.
func fill(text string, fragments map[string]string) (string, error) {
	for range 8 {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			return text, nil
		}
		var b strings.Builder
		for open >= 0 {
			end := strings.IndexByte(text[open:], '}')
			if end < 0 {
				return "", fmt.Errorf("a brace is not closed")
			}
			name := text[open+1 : open+end]
			f, ok := fragments[name]
			if !ok {
				return "", fmt.Errorf("no fragment is called %q", name)
			}
			b.WriteString(text[:open])
			b.WriteString(f)
			text = text[open+end+1:]
			open = strings.IndexByte(text, '{')
		}
		b.WriteString(text)
		text = b.String()
	}
	return "", fmt.Errorf("fragments go in circles")
}

// Layouts of what is written in bulk, apart from the whole tables.
var (
	// listedLayout is an entry without its payload.
	listedLayout = entryLayout.without("payload")

	// standingLayout is what Apply and Start write of an entry: all that a
	// later report cannot change either stays as it was recorded.
	standingLayout = entryLayout.without("id", "action_key", "workflow", "workflow_version", "run_id", "step_id",
		"connector", "operation", "provider_key", "key_guard", "key_origin", "record_id", "subject", "outcome_key", "risk", "replaces", "occurred_at", "received_at",
		"payload", "payload_type", "payload_digest", "payload_size", "excerpt", "sanitized",
		"fencing_token", "lease_holder", "lease_until", "generation")

	// startLayout is the same for Start, less the times that the database sets.
	startLayout = standingLayout.without("next_at", "last_tried_at", "first_sent_at", "key_sent_at", "send_by",
		"last_activity_at")

	// applyLayout is one row of Apply: what to write, and what must be there.
	applyLayout = standingLayout.with(
		column{name: "id", kind: kindInt}, column{name: "token", kind: kindInt}, column{name: "from_state", kind: kindText},
		column{name: "keep", kind: kindInt}, column{name: "added", kind: kindInt})

	// newLayout is a new entry, updateLayout one that a report or a person
	// changed, under its row lock.
	newLayout    = entryLayout.with(column{name: "history_count", kind: kindInt})
	changeLayout = entryLayout.without("id", "action_key", "fencing_token", "lease_holder", "lease_until", "generation")
	updateLayout = changeLayout.with(
		column{name: "id", kind: kindInt}, column{name: "token", kind: kindInt}, column{name: "from_state", kind: kindText},
		column{name: "raise", kind: kindInt}, column{name: "added", kind: kindInt})

	// standsLayout is what must be known of an entry to change it.
	standsLayout = entryLayout.only("id", "action_key", "state", "effect", "fencing_token", "lease_holder", "lease_until",
		"outcome", "class", "owner", "original_owner", "flags", "reason", "attempts", "looks_answered",
		"lane", "generation")

	leaseLayout = layout{columns: []column{{name: "id", kind: kindInt}, {name: "token", kind: kindInt},
		{name: "holder"}, {name: "until", kind: kindInt}}}

	useLayout = layout{columns: []column{{name: "connector"}, {name: "operation"}, {name: "key"}}}

	keyLayout = layout{columns: []column{{name: "connector"}, {name: "operation"}, {name: "key"}, {name: "entry_id", kind: kindInt}}}

	holderLayout = layout{columns: []column{{name: "outcome_key"}, {name: "entry_id", kind: kindInt}, {name: "taken_at", kind: kindInt}}}
)

// newFragments gives the fragments that follow from the layouts and the
// database.
func newFragments(d *dialect) map[string]string {
	f := map[string]string{
		"entry":      entryLayout.list(""),
		"e.entry":    entryLayout.list("e."),
		"e.listed":   listedLayout.list("e."),
		"new":        newLayout.list(""),
		"n.new":      newLayout.list("n."),
		"standing":   standingLayout.list(""),
		"n.standing": standingLayout.list("n."),
		"start":      startLayout.list(""),
		"n.start":    startLayout.list("n."),
		"change":     changeLayout.list(""),
		"n.change":   changeLayout.list("n."),
		"attempt":    attemptLayout.list(""),
		"n.attempt":  attemptLayout.list("n."),
		"evidence":   evidenceLayout.list(""),
		"evidence+":  evidenceLayout.list(""),
		"n.evidence": evidenceLayout.list("n."),
		"history":    historyLayout.list(""),
		"history+":   historyLayout.list(""),
		"n.history":  historyLayout.list("n."),
		"lane":       laneLayout.list(""),
		"n.lane":     laneLayout.list("n."),
		"e.stands":   standsLayout.list("e."),
		"row start":  oneRow(startLayout),

		"a lost": unseen("a"),
		"f lost": unseen("f"),

		"rows new":      d.rows(newLayout),
		"rows apply":    d.rows(applyLayout),
		"rows update":   d.rows(updateLayout),
		"rows lease":    d.rows(leaseLayout),
		"rows lane":     d.rows(laneLayout),
		"rows attempt":  d.rows(attemptLayout),
		"rows evidence": d.rows(evidenceLayout),
		"rows history":  d.rows(historyLayout),
		"rows use":      d.rows(useLayout),
		"rows key":      d.rows(keyLayout),
		"rows holder":   d.rows(holderLayout),
	}
	for name, text := range d.fragments {
		f[name] = text
	}
	return f
}

// unseen says that an attempt stands for what the ledger may have lost: nobody
// knows that anything was sent.
func unseen(attempt string) string {
	return attempt + ".ours = 1 AND substr(" + attempt + ".attempt_id, 1, " + strconv.Itoa(len(ledger.LostAttempt)) + ") = '" + ledger.LostAttempt + "'"
}

// oneRow is a table n of one row, in a form that both databases read.
func oneRow(l layout) string {
	return "(SELECT " + joined(len(l.columns), func(i int) string {
		return "CAST(" + cell(i) + " AS " + postgresType(l.columns[i].kind) + ") AS " + l.columns[i].name
	}) + ") AS n"
}
