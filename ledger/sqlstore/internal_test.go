package sqlstore

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// both runs a test on a fresh ledger of either kind. The URL is not opened yet.
func both(t *testing.T, f func(t *testing.T, ledgerURL string)) {
	t.Run("sqlite", func(t *testing.T) { f(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { f(t, pgtest.DB(t)) })
}

func opened(t *testing.T, ledgerURL string, o Options) *Store {
	t.Helper()
	o.AutoMigrate = true
	s, err := Open(t.Context(), ledgerURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// connected is a store whose schema nobody has looked at.
func connected(t *testing.T, ledgerURL string) *Store {
	t.Helper()
	s, err := connect(t.Context(), ledgerURL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestEveryQueryIsUnderstoodByItsDatabase(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		for name, text := range s.queries {
			if strings.HasPrefix(text, "COPY") || strings.Contains(text, "BY_COLUMNS") {
				continue // cannot be prepared like this; other tests run them
			}
			stmt, err := s.w.PrepareNamedContext(t.Context(), text)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
				continue
			}
			if err := stmt.Close(); err != nil { //nolint:sqlclosecheck // one at a time: there are many
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestBothDatabasesHaveTheSameQueries(t *testing.T) {
	var names [2][]string
	for i, d := range []*dialect{sqliteDialect, postgres} {
		qs, err := loadQueries(d)
		if err != nil {
			t.Fatal(err)
		}
		for n := range qs {
			names[i] = append(names[i], n)
		}
		slices.Sort(names[i])
	}
	if !slices.Equal(names[0], names[1]) {
		t.Errorf("sqlite has %q\npostgres has %q", names[0], names[1])
	}
}

// TestFixedWordsEqualTheChecks compares the Go lists with the constraints.
func TestFixedWordsEqualTheChecks(t *testing.T) {
	states := words(ledger.States())
	outcomes := words([]ledger.Outcome{ledger.OutcomeNone, ledger.OutcomeApplied, ledger.OutcomeNotApplied, ledger.OutcomeUnknown})
	effects := words([]ledger.Effect{ledger.EffectNotDone, ledger.EffectUnknown, ledger.EffectDone})
	classes := append([]string{""}, words(ledger.Classes())...)
	reports := words(ledger.ReportClasses())
	want := map[string][]string{
		"entry.state": states, "entry.effect": effects, "entry.outcome": outcomes, "entry.class": reports, "entry.last_class": classes,
		"entry.settled_by": words([]ledger.SettledBy{ledger.ByNothing, ledger.ByReport, ledger.BySend, ledger.ByLook, ledger.ByCheck, ledger.ByPolicy, ledger.ByPerson}),
		"entry.risk":       words([]ledger.Risk{ledger.RiskNone, ledger.RiskLow, ledger.RiskNormal, ledger.RiskHigh}),
		"entry.work":       words([]ledger.Work{ledger.WorkNone, ledger.WorkLook, ledger.WorkAdvance, ledger.WorkRelease}),
		"entry.release_to": append([]string{""}, states...), "entry.release_kind": {"", "time", "lane", "signal", "entry"},
		"entry.key_origin": {"", "record", "action_key", "derived"},
		"attempt.status":   words([]ledger.AttemptStatus{ledger.AttemptStarted, ledger.AttemptOK, ledger.AttemptError, ledger.AttemptUnknown}),
		"attempt.effect":   effects, "attempt.class": classes,
		"evidence.finding": words([]ledger.Finding{ledger.FindingApplied, ledger.FindingPending, ledger.FindingRejected, ledger.FindingReversed, ledger.FindingAbsent,
			ledger.FindingNotVisible, ledger.FindingDuplicate, ledger.FindingMismatch, ledger.FindingUnmapped, ledger.FindingCouldNotAsk}),
		"history.from_state": append([]string{""}, states...), "history.to_state": states, "history.outcome": outcomes, "history.class": reports,
	}
	table := regexp.MustCompile(`^CREATE TABLE (\w+)`)
	check := regexp.MustCompile(`CHECK \((\w+) IN \(('[^)]*)\)\)`)
	for _, d := range []*dialect{sqliteDialect, postgres} {
		ms, err := d.migrations()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, m := range ms {
			at := ""
			for _, line := range strings.Split(m.text, "\n") {
				if f := table.FindStringSubmatch(line); f != nil {
					at = f[1]
				}
				if f := check.FindStringSubmatch(line); f != nil {
					for _, word := range strings.Split(f[2], ", ") {
						got[at+"."+f[1]] = append(got[at+"."+f[1]], strings.Trim(word, "'"))
					}
				}
			}
		}
		for column, list := range want {
			have := got[column]
			slices.Sort(have)
			list := slices.Sorted(slices.Values(list))
			if !slices.Equal(have, list) {
				t.Errorf("%s %s: the constraint has %q, Go has %q", d.name, column, have, list)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d columns with fixed words, %d compared", d.name, len(got), len(want))
		}
	}
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// TestSchema compares the schema that the migrations make with a dump of it,
// made anew with -update.
func TestSchema(t *testing.T) {
	dumps := map[string]string{
		"sqlite": `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY type DESC, name`,
		"postgres": `SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE ' NULL' END
				|| COALESCE(' ' || (SELECT collname FROM pg_collation WHERE oid = a.attcollation), '')
				|| COALESCE(' default ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
			  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			  LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
			 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
			UNION ALL SELECT conrelid::regclass || ' constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
			 WHERE connamespace = current_schema()::regnamespace
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
			ORDER BY 1`,
	}
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		var lines []string
		if err := s.w.SelectContext(t.Context(), &lines, dumps[s.d.name]); err != nil {
			t.Fatal(err)
		}
		slices.Sort(lines)
		got := strings.Join(lines, "\n") + "\n"
		golden := filepath.Join("testdata", "schema."+s.d.name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the schema is not the one in %s; look at the difference, then run this test with -update", golden)
		}
	})
}

// TestPlans reads the plans of what must not grow with settled entries.
func TestPlans(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := opened(t, ledgerURL, Options{})
		ctx := t.Context()
		fill := `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20500)
			INSERT INTO entry (action_key, provider_key, connector, operation, record_id, payload_digest, lane, outcome_key, state, effect,
			                   class, outcome, settled_by, settled_at, work, next_at, last_activity_at, received_at, due_at)
			SELECT 'k' || CAST(i AS text), 'k' || CAST(i AS text), 'crm', 'contact.create', 'r' || CAST(i / 2 AS text), 'd' || CAST(i AS text), 'crm',
			       'o' || CAST(i / 2 AS text), CASE WHEN i > 20000 THEN 'escalated' ELSE 'settled' END, 'unknown', 'escalated',
			       CASE WHEN i > 20000 THEN '' ELSE 'applied' END, CASE WHEN i > 20000 THEN '' ELSE 'look' END,
			       CASE WHEN i > 20000 THEN 0 ELSE i END, CASE WHEN i > 20000 THEN 'look' ELSE '' END,
			       CASE WHEN i > 20000 THEN i ELSE 0 END, i, i, CASE WHEN i > 20000 THEN i ELSE 0 END
			  FROM n`
		tries := `INSERT INTO attempt (entry_id, attempt_id, status, effect) SELECT id, 'a1', 'unknown', 'unknown' FROM entry`
		for _, text := range []string{fill, tries, "ANALYZE"} {
			if _, err := s.w.ExecContext(ctx, text); err != nil {
				t.Fatal(err)
			}
		}
		ids, err := s.d.list([]int64{20100, 20101})
		if err != nil {
			t.Fatal(err)
		}
		now := int64(1e15)
		filtered := func(a args) args {
			a["now"], a["limit"] = now, 100
			a, err := s.filterArgs(ledger.Filter{Since: time.UnixMicro(5), Workflow: ""}, a)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		claim := func() args {
			return filtered(args{"lane": "crm", "work": "look", "due_until": now, "after_at": 0, "after_key": "", "holder": "w",
				"lease_until": now, "generation": 1})
		}
		start := args{"id": 20100, "token": 0, "holder": "w", "generation": 1, "timeout": 1, "lease": 1, "concurrent": 2,
			"next_at": 1, "first_sent_at": 0, "key_sent_at": 0, "send_by": 0, "repeats": 0}
		var e ledger.Entry
		for i, v := range startLayout.values(&e) {
			start[cell(i)[1:]] = v
		}
		for name, a := range map[string]args{
			"claim": claim(), "peek": claim(), "due": filtered(args{}), "overdue": filtered(args{}),
			"control":  {"connector": "crm", "operation": "contact.create", "before": now},
			"siblings": {"ids": ids}, "entry": {"action_key": "k1"}, "attempts": {"ids": ids}, "apply_lock": {"ids": ids}, "lease_lock": {"ids": ids},
			"start": start,
		} {
			plan := planOf(t, s, name, a)
			for _, line := range plan {
				if strings.Contains(line, "Seq Scan on entry") || strings.Contains(line, "Seq Scan on attempt") ||
					regexp.MustCompile(`SCAN (e|h|l|m|entry)( |$)`).MatchString(line) && !strings.Contains(line, "entry_due") {
					t.Errorf("%s reads the whole table:\n%s", name, strings.Join(plan, "\n"))
					break
				}
			}
		}
	})
}

func planOf(t *testing.T, s *Store, name string, a args) []string {
	t.Helper()
	query, list, err := s.bind(name, a)
	if err != nil {
		t.Fatal(err)
	}
	return explained(t, s, name, query, list)
}

// explained is the plan of a statement, line by line.
func explained(t *testing.T, s *Store, name, query string, list []any) []string {
	t.Helper()
	explain, column := "EXPLAIN ", 0
	if s.d == sqliteDialect {
		explain, column = "EXPLAIN QUERY PLAN ", 3
	}
	rows, err := s.w.QueryxContext(t.Context(), explain+query, list...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var plan []string
	err = each(rows, func(r *sqlx.Rows) error {
		cells, err := r.SliceScan()
		if err != nil {
			return err
		}
		line, err := text(cells[column])
		plan = append(plan, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestSchemaThatDoesNotFit(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		postgresOnly := strings.HasPrefix(ledgerURL, "postgres")
		if s, err := Open(t.Context(), ledgerURL, Options{}); postgresOnly {
			if !errors.Is(err, ledger.ErrOldSchema) || !strings.Contains(err.Error(), "reconcile migrate") {
				t.Errorf("no tables at all: %v", err)
			}
		} else if err != nil {
			t.Errorf("SQLite is created on first use: %v", err)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
		var said strings.Builder
		if err := Migrate(t.Context(), ledgerURL, &said); err != nil {
			t.Fatal(err)
		}
		if postgresOnly && said.String() != "0001_ledger.sql\n" {
			t.Errorf("migrating said %q", said.String())
		}
		s := opened(t, ledgerURL, Options{})
		known := len(must(s.d.migrations()))
		for by, want := range map[int]error{-1: ledger.ErrOldSchema, 0: nil, 1: ledger.ErrNewerSchema} {
			if _, err := s.w.ExecContext(t.Context(), s.w.Rebind("UPDATE reconcile_schema SET version = ? WHERE version IN (?, ?, ?)"), known+by, known-1, known, known+1); err != nil {
				t.Fatal(err)
			}
			if err := s.checkSchema(t.Context()); !errors.Is(err, want) {
				t.Errorf("schema %+d: %v, want %v", by, err, want)
			}
			if by != 1 {
				continue
			}
			if _, err := Open(t.Context(), ledgerURL, Options{AutoMigrate: true}); !errors.Is(err, want) {
				t.Errorf("opening a newer schema: %v", err)
			}
			if err := Migrate(t.Context(), ledgerURL, io.Discard); !errors.Is(err, want) {
				t.Errorf("migrating a newer schema: %v", err)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The environment by which this test binary becomes another process.
const (
	envPart = "SQLSTORE_TEST_PART"
	envURL  = "SQLSTORE_TEST_URL"
)

func TestMain(m *testing.M) {
	switch os.Getenv(envPart) {
	case "migrate":
		if err := Migrate(context.Background(), os.Getenv(envURL), io.Discard); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "stop in the middle":
		if err := stopInTheMiddle(os.Getenv(envURL)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// stopInTheMiddle does a step of the migrations but for its commit, says so,
// and waits to be killed.
func stopInTheMiddle(ledgerURL string) error {
	ctx := context.Background()
	s, err := connect(ctx, ledgerURL, Options{})
	if err != nil {
		return err
	}
	return s.once(ctx, func(tx *txn) error {
		for _, name := range []string{"schema_lock", "schema_create"} {
			if _, err := s.exec(ctx, tx, name, nil); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, must(s.d.migrations())[0].text); err != nil {
			return err
		}
		fmt.Println("in the middle")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
}

func part(t *testing.T, what, ledgerURL string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envPart+"="+what, envURL+"="+ledgerURL)
	return cmd
}

func TestFiveProcessesMigrateAtOnce(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		var cmds []*exec.Cmd
		var said [5]strings.Builder
		for i := range said {
			cmd := part(t, "migrate", ledgerURL)
			cmd.Stderr = &said[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, cmd)
		}
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v: %s", i, err, said[i].String())
			}
		}
		s, err := Open(t.Context(), ledgerURL, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestKilledInTheMiddleOfAMigration(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		cmd := part(t, "stop in the middle", ledgerURL)
		var said strings.Builder
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close() //nolint:errcheck // the process is dead by then
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "in the middle\n" {
			t.Fatalf("it said %q, %v: %s", line, err, said.String())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed, as it says
		s := connected(t, ledgerURL)
		if v, err := s.schemaVersion(t.Context(), s.w); err != nil || v != 0 {
			t.Errorf("something was left: schema %d, %v", v, err)
		}
		if err := Migrate(t.Context(), ledgerURL, io.Discard); err != nil {
			t.Errorf("migrating again: %v", err)
		}
	})
}

func TestAStepThatFailsLeavesNothing(t *testing.T) {
	both(t, func(t *testing.T, ledgerURL string) {
		s := connected(t, ledgerURL)
		m := must(s.d.migrations())[0]
		m.text += "\nINSERT INTO nowhere VALUES (1);"
		if _, err := s.step(t.Context(), m); err == nil {
			t.Fatal("a broken step succeeded")
		}
		if err := s.migrate(t.Context(), io.Discard); err != nil {
			t.Errorf("the repaired step: %v", err)
		}
	})
}

// TestGenerationIsNoticedAndRaisedOnce takes the notes of another server for a
// failover.
func TestGenerationIsNoticedAndRaisedOnce(t *testing.T) {
	dbURL := pgtest.DB(t)
	a, b := opened(t, dbURL, Options{}), opened(t, dbURL, Options{})
	ctx := t.Context()
	claim := ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 1, Holder: "w", Lease: time.Minute}
	if _, err := a.Claim(ctx, claim); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"timeline": "000000FF", "system_identifier": "42"} {
		before := must(a.Meta(ctx, ledger.MetaGeneration))
		if err := a.SetMeta(ctx, name, value); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{a, b} {
			if _, err := s.Claim(ctx, claim); !errors.Is(err, ledger.ErrGeneration) {
				t.Fatalf("%s changed: %v", name, err)
			}
		}
		for _, s := range []*Store{a, b} {
			if _, err := s.Unsettle(ctx, "failover", true, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Claim(ctx, claim); err != nil {
			t.Errorf("after it: %v", err)
		}
		if got := must(a.Meta(ctx, ledger.MetaGeneration)); got != before[:len(before)-1]+string(before[len(before)-1]+1) {
			t.Errorf("%s: generation %s after %s, want one more", name, got, before)
		}
	}
	// By hand it is raised whenever somebody says so.
	before := must(a.Meta(ctx, ledger.MetaGeneration))
	if _, err := a.Unsettle(ctx, "reconcile ledger restored", true, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := must(b.Meta(ctx, ledger.MetaGeneration)); got == before {
		t.Error("by hand it was not raised")
	}
}

// TestWhatFitsNoIndexIsNamed, by the member that a record has it from.
func TestWhatFitsNoIndexIsNamed(t *testing.T) {
	most, more := strings.Repeat("k", maxOther), strings.Repeat("k", maxOther+1)
	for want, e := range map[string]ledger.Entry{
		"":                {ProviderKey: most, KeyGuard: most, IdempotencyKey: most, Keys: []string{most}},
		"action_key":      {ActionKey: more},
		"provider_key":    {Keys: []string{"k", more}},
		"idempotency_key": {IdempotencyKey: more},
	} {
		if got := tooLong(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatIsUnreachable: what may mend by itself is told from what needs a person.
func TestWhatIsUnreachable(t *testing.T) {
	code := func(c pqerror.Code) error { return &pq.Error{Code: c} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":                      {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"a name that is not there yet":        {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, true},
		"the connection breaks":               {io.EOF, true},
		"the connection breaks in an answer":  {io.ErrUnexpectedEOF, true},
		"a connection that broke before":      {driver.ErrBadConn, true},
		"the server is starting":              {code("57P03"), true},
		"the server is stopping":              {code("57P01"), true},
		"another session of it crashed":       {code("57P02"), true},
		"the server has no connection left":   {code("53300"), true},
		"a pooler whose server is away":       {code("08P01"), true},
		"one host refuses, another is away":   {errors.Join(code("57P03"), &net.OpError{Op: "dial", Err: io.EOF}), true},
		"a statement that somebody cancelled": {code("57014"), false},
		"a wrong password":                    {code("28P01"), false},
		"a database that is not there":        {code("3D000"), false},
		"a right that is missing":             {code("42501"), false},
		"a URL that cannot be read":           {errors.New("not a URL"), false},
	} {
		err := (&Store{d: postgres}).explain(t.Context(), fmt.Errorf("ask: %w", c.err))
		if got := errors.Is(err, ledger.ErrUnreachable); got != c.want {
			t.Errorf("%s: %t, want %t: %v", name, got, c.want, err)
		}
	}
}

// TestWhatWasClaimedElsewhereChangesNothing: a worker that comes back after a
// failover brings its facts, and no change.
func TestWhatWasClaimedElsewhereChangesNothing(t *testing.T) {
	s := opened(t, pgtest.DB(t), Options{})
	ctx := t.Context()
	now := time.Now()
	e := ledger.Doubt(ledger.Entry{ActionKey: "k", Workflow: "w", Connector: "crm", Operation: "o", Lane: "crm", Effect: ledger.EffectUnknown}, "timeout", now.Add(-time.Minute))
	decide := func(*ledger.Stored, ledger.Record, time.Time) ledger.Recording {
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: e}
	}
	must(s.Record(ctx, []ledger.Record{{ActionKey: "k"}}, decide))
	c := must(s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 1, Holder: "w", Lease: time.Minute}))
	if err := s.SetMeta(ctx, "system_identifier", "42"); err != nil {
		t.Fatal(err)
	}
	next := ledger.Reopen(c.Entries[0].Entry, "absent", now)
	got := must(s.Apply(ctx, []ledger.Change{{Lease: c.Leases[0], Next: next, Evidence: []ledger.Evidence{{Finding: ledger.FindingAbsent, Connector: "crm", AskedAt: now, Detail: []byte("{}")}}}}))
	if !errors.Is(got[0].Err, ledger.ErrGeneration) {
		t.Errorf("got %v, want ErrGeneration", got[0].Err)
	}
	stored := must(s.Entry(ctx, "k")).Entry
	if stored.State != ledger.StateAmbiguous {
		t.Errorf("it became %s", stored.State)
	}
	if ev := must(s.Evidence(ctx, stored.ID)); len(ev) != 1 {
		t.Errorf("%d pieces of evidence, want 1", len(ev))
	}
}

// TestTransactionsAreRepeated: a serialization failure is no failure.
func TestTransactionsAreRepeated(t *testing.T) {
	s := opened(t, pgtest.DB(t), Options{})
	ctx := t.Context()
	now := time.Now()
	e := ledger.Doubt(ledger.Entry{ActionKey: "k", Workflow: "w", Lane: "crm", Effect: ledger.EffectUnknown}, "timeout", now)
	decide := func(*ledger.Stored, ledger.Record, time.Time) ledger.Recording {
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: e}
	}
	if _, err := s.Record(ctx, []ledger.Record{{ActionKey: "k"}}, decide); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE SEQUENCE tries",
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint := nextval('tries'); BEGIN
			IF n <= 2 THEN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END IF;
			IF n <= 3 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END IF;
			RETURN NEW; END $$`,
		"CREATE TRIGGER refuse BEFORE UPDATE ON entry FOR EACH ROW EXECUTE FUNCTION refuse()",
	} {
		if _, err := s.w.ExecContext(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 1, Holder: "w", Lease: time.Minute})
	if err != nil || len(got.Leases) != 1 {
		t.Fatalf("claim: %v, %v", got.Leases, err)
	}
	if _, err := s.w.ExecContext(ctx, "SELECT setval('tries', 1, false)"); err != nil {
		t.Fatal(err)
	}
	out, err := s.Apply(ctx, []ledger.Change{{Lease: got.Leases[0], Next: ledger.Reopen(got.Entries[0].Entry, "absent", now)}})
	if err != nil || out[0].Err != nil {
		t.Fatalf("apply: %v, %v", out, err)
	}
	if hs, err := s.History(ctx, got.Leases[0].EntryID); err != nil || len(hs) != 2 {
		t.Errorf("%d rows of history, %v; want 2", len(hs), err)
	}
	if _, err := s.w.ExecContext(ctx, "SELECT setval('tries', 1, false); ALTER SEQUENCE tries INCREMENT 0"); err == nil {
		t.Fatal("an increment of 0 is refused by the server")
	}
	if _, err := s.w.ExecContext(ctx, "ALTER SEQUENCE tries MINVALUE -1000 RESTART WITH -1000"); err != nil {
		t.Fatal(err)
	}
	got, err = s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkAdvance, Limit: 1, Holder: "w", Lease: time.Minute})
	if !errors.Is(err, ledger.ErrConcurrently) {
		t.Errorf("refused again and again: %v, %v", got.Leases, err)
	}
}

// TestAConnectionLostWithinACopy: the transaction ends with an error, and the
// next one has another connection.
func TestAConnectionLostWithinACopy(t *testing.T) {
	s := opened(t, pgtest.DB(t), Options{})
	ctx := t.Context()
	row := rowsOf(historyLayout, []ledger.History{{EntryID: 1, No: 1, To: ledger.StateAmbiguous, Class: ledger.ReportWaiting}})
	ended := make(chan error, 1)
	go func() {
		ended <- s.once(ctx, func(tx *txn) error {
			var pid int
			if err := tx.GetContext(ctx, &pid, "SELECT pg_backend_pid()"); err != nil {
				return err
			}
			if _, err := s.r.ExecContext(ctx, "SELECT pg_terminate_backend($1, 10000)", pid); err != nil {
				return err
			}
			return s.insert(ctx, tx, "history_add", historyLayout, row)
		})
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a COPY on a connection that is gone succeeded")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the transaction hangs")
	}
	if err := s.once(ctx, func(tx *txn) error { return s.insert(ctx, tx, "history_add", historyLayout, row) }); err != nil {
		t.Errorf("the next transaction: %v", err)
	}
}

// TestUnsettleBesideWorkersKeepsHistoryWhole: entries that are claimed, changed
// and given back while a new generation begins are in its set whole or not at
// all: each has as many rows of history as it counts, and as many attempts.
func TestUnsettleBesideWorkersKeepsHistoryWhole(t *testing.T) {
	s := opened(t, pgtest.DB(t), Options{})
	ctx := t.Context()
	now := time.Now()
	const n = 60
	recs := make([]ledger.Record, n)
	for i := range recs {
		recs[i] = ledger.Record{ActionKey: fmt.Sprintf("k%d", i)}
	}
	_, err := s.Record(ctx, recs, func(_ *ledger.Stored, r ledger.Record, _ time.Time) ledger.Recording {
		e := ledger.Doubt(ledger.Entry{ActionKey: r.ActionKey, Workflow: "w", Lane: "crm", Effect: ledger.EffectUnknown}, "timeout", now)
		return ledger.Recording{Verdict: ledger.RecordedNew, Entry: e, Attempts: []ledger.Attempt{{AttemptID: "a", Status: ledger.AttemptUnknown, Effect: ledger.EffectUnknown}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var workers sync.WaitGroup
	for w := range 3 {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				// What a raised generation refuses is refused; only what is
				// left behind counts here.
				got, err := s.Claim(ctx, ledger.Claim{Lane: "crm", Work: ledger.WorkLook, Limit: 7, Holder: fmt.Sprint("w", w), Lease: time.Minute})
				if err != nil || len(got.Entries) == 0 {
					continue
				}
				var cs []ledger.Change
				for j, e := range got.Entries {
					next := ledger.Doubt(e.Entry, fmt.Sprintf("not_visible: %d", i), now)
					next.Negatives = 1
					cs = append(cs, ledger.Change{Lease: got.Leases[j], Next: next})
				}
				if i%2 == 0 {
					_ = s.Release(ctx, got.Leases)
				} else {
					_, _ = s.Apply(ctx, cs)
				}
			}
		})
	}
	for i := range 10 {
		if _, err := s.Unsettle(ctx, "test", i%2 == 0, time.Second); err != nil {
			t.Errorf("unsettle %d: %v", i, err)
			break
		}
	}
	close(ended)
	workers.Wait()
	var broken []string
	err = s.r.SelectContext(ctx, &broken, `SELECT e.action_key || ': counts ' || e.history_count || ' rows of history, has ' || count(h.history_no) || '; ' || e.attempts || ' attempts, has '
		|| (SELECT count(*) FROM attempt AS a WHERE a.entry_id = e.id)
		FROM entry AS e JOIN history AS h ON h.entry_id = e.id GROUP BY e.id
		HAVING count(h.history_no) <> e.history_count OR e.attempts <> (SELECT count(*) FROM attempt AS a WHERE a.entry_id = e.id)`)
	if err != nil || len(broken) > 0 {
		t.Errorf("%d entries are not whole, %v; %q", len(broken), err, broken[:min(3, len(broken))])
	}
}
