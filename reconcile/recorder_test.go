package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// described is a connector that is only described.
type described struct {
	op   connectors.Operation
	fits func(key string) bool
}

func (c described) Info() connectors.Info {
	return connectors.Info{Name: "billing", Lane: "billing-live", Operations: []connectors.Operation{c.op}}
}

func (described) Lookup(context.Context, connectors.Query) (connectors.Answer, error) {
	return connectors.Answer{}, &connectors.Error{Kind: connectors.KindUnsupported}
}

func (c described) DeriveKey(_, actionKey string, n int) (string, bool, error) {
	if c.fits != nil && !c.fits(actionKey) {
		return fmt.Sprintf("d%d-%d", n, len(actionKey)), true, nil
	}
	return actionKey, false, nil
}

func (c described) CheckKey(_, key string) error {
	if c.fits != nil && !c.fits(key) {
		return errors.New("too long for this system")
	}
	return nil
}

func (described) CheckPayload(_ string, _ []string, payload []byte) (findable, sendable bool, why string) {
	if bytes.Contains(payload, []byte(`"keyless"`)) {
		return false, false, "our key is not in it"
	}
	return true, true, ""
}

func recorder(change ...func(*connectors.Operation, *Policy)) *Recorder {
	op, p := testOp(), retrying()
	for _, f := range change {
		f(&op, &p)
	}
	return &Recorder{Connectors: map[string]connectors.Connector{"billing": described{op: op, fits: func(k string) bool { return len(k) <= 36 }}},
		Policies: Policies{List: []Policy{p}, Version: "p1"}, Actor: "import"}
}

// told records lines one after the other, a minute apart, as a store would.
type told struct {
	t    *testing.T
	r    *Recorder
	now  time.Time
	cur  *ledger.Stored
	last ledger.Recording
	hist []ledger.History
}

func tell(t *testing.T, r *Recorder, members ...string) *told {
	d := &told{t: t, r: r, now: t0}
	for i, m := range members {
		d.now = at(time.Duration(i) * time.Minute)
		d.record(m)
	}
	return d
}

// record records {"action_key":"k:s", …} with these members.
func (d *told) record(members string) ledger.Recording {
	d.t.Helper()
	if members != "" {
		members = "," + members
	}
	rec, errs := ledger.ParseRecord([]byte(`{"action_key":"k:s","workflow":"w","connector":"billing","operation":"invoice.create"`+members+`}`), ledger.ParseOptions{Now: d.now, Restore: true})
	if len(errs) > 0 {
		d.t.Fatal(errs)
	}
	return d.take(d.r.Decide(d.cur, rec, d.now))
}

func (d *told) take(got ledger.Recording) ledger.Recording {
	d.t.Helper()
	d.last = got
	if got.Verdict == ledger.RecordedRefused || got.Verdict == ledger.RecordedUnchanged {
		return got
	}
	from := ledger.State("")
	next := &ledger.Stored{Entry: got.Entry}
	if d.cur != nil {
		from = d.cur.Entry.State
		next.Attempts = slices.Clone(d.cur.Attempts)
	}
	if !ledger.Legal(from, got.Entry.State) {
		d.t.Fatalf("%s may not change to %s", from, got.Entry.State)
	}
	for _, a := range got.Attempts {
		i := slices.IndexFunc(next.Attempts, func(o ledger.Attempt) bool { return o.AttemptID == a.AttemptID })
		if i < 0 {
			next.Attempts = append(next.Attempts, a)
		} else {
			next.Attempts[i] = a
		}
	}
	d.hist = append(d.hist, got.History...)
	d.cur = next
	return got
}

const (
	timeoutA1 = `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","finished_at":"2026-09-22T09:59:30Z","status":"error","http_status":504}]`
	intent958 = `"occurred_at":"2026-09-22T09:58:00Z"`
	startedA1 = `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","status":"started"}]`
	okA1      = `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","status":"ok","remote_id":"9"}]`
	limitedA1 = `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","status":"error","http_status":429,"retry_after":"120"}]`
	invalidA1 = `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","status":"error","http_status":422}]`
	timeoutA2 = `"attempts":[{"attempt_id":"a2","status":"error","http_status":504}]`
	startedA2 = `"attempts":[{"attempt_id":"a2","status":"started"}]`
	okA2      = `"attempts":[{"attempt_id":"a2","status":"ok","remote_id":"10"}]`
	limitedA2 = `"attempts":[{"attempt_id":"a2","status":"error","http_status":429}]`
	invalidA2 = `"attempts":[{"attempt_id":"a2","status":"error","http_status":422}]`
)

func attemptsOf(ids ...string) string {
	var l []string
	for i, id := range ids {
		l = append(l, fmt.Sprintf(`{"attempt_id":"a%d","status":"ok","http_status":200,"remote_id":%q}`, i+1, id))
	}
	return `"attempts":[` + strings.Join(l, ",") + `]`
}

func TestRecorder(t *testing.T) {
	is := func(s ledger.State, reason string) func(*told) bool {
		return func(d *told) bool { return d.cur.Entry.State == s && ledger.ReasonCode(d.cur.Entry.Reason) == reason }
	}
	both := func(fs ...func(*told) bool) func(*told) bool {
		return func(d *told) bool {
			for _, f := range fs {
				if !f(d) {
					return false
				}
			}
			return true
		}
	}
	verdict := func(v ledger.Verdict) func(*told) bool { return func(d *told) bool { return d.last.Verdict == v } }
	entry := func(f func(e ledger.Entry) bool) func(*told) bool {
		return func(d *told) bool { return f(d.cur.Entry) }
	}
	applied := both(is(ledger.StateSettled, "reported_ok"), entry(func(e ledger.Entry) bool {
		return e.Outcome == ledger.OutcomeApplied && e.SettledBy == ledger.ByReport && e.Effect == ledger.EffectDone
	}))
	flags := func(fs ...ledger.Flag) func(*told) bool {
		return entry(func(e ledger.Entry) bool { return slices.Equal(e.Flags, fs) })
	}

	for name, c := range map[string]struct {
		tell  []string
		r     *Recorder
		check func(*told) bool
	}{
		"an intent: in flight, unbounded, looked at after 15 minutes": {[]string{""}, nil, both(is(ledger.StateInFlight, "intent"), verdict(ledger.RecordedNew), entry(func(e ledger.Entry) bool {
			return e.Unbounded && e.NextAt.Equal(at(15*time.Minute)) && e.Work == ledger.WorkLook && e.AttemptCount == 1 && e.Effect == ledger.EffectUnknown
		}))},
		"an intent again: nothing new": {[]string{"", ""}, nil, both(is(ledger.StateInFlight, "intent"), verdict(ledger.RecordedUnchanged))},
		"an intent, then its success: one send, first attempt": {[]string{intent958, okA1}, nil, both(applied, entry(func(e ledger.Entry) bool {
			return e.Class == ledger.ReportFirstAttemptSuccess && e.SendCount == 1 && !e.Verify && e.Attempts == 2
		}))},
		"an intent, then its rate limit: tried again":    {[]string{intent958, limitedA1}, nil, is(ledger.StateRetryable, "backoff")},
		"an intent, then its timeout":                    {[]string{intent958, timeoutA1}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), entry(func(e ledger.Entry) bool { return !e.Unbounded }))},
		"an intent, then that its attempt started":       {[]string{intent958, startedA1}, nil, both(is(ledger.StateInFlight, "attempt_started"), entry(func(e ledger.Entry) bool { return e.AttemptCount == 1 && e.NextAt.Equal(at(16*time.Minute)) }))},
		"an intent, then an attempt from before it":      {[]string{"", limitedA1}, nil, both(is(ledger.StateInFlight, "intent"), entry(func(e ledger.Entry) bool { return e.Effect == ledger.EffectUnknown }))},
		"an intent, then an attempt from long before it": {[]string{"", `"attempts":[{"attempt_id":"a0","started_at":"2026-09-22T08:00:00Z","status":"error","http_status":429}]`}, nil, both(is(ledger.StateInFlight, "intent"), entry(func(e ledger.Entry) bool { return e.Effect == ledger.EffectUnknown }))},
		"started": {[]string{startedA1}, nil, both(is(ledger.StateInFlight, "attempt_started"), entry(func(e ledger.Entry) bool { return e.Unbounded && e.NextAt.Equal(at(15*time.Minute)) }))},
		"started, with a promise: looked at when it is over": {[]string{`"attempts":[{"attempt_id":"a1","status":"started","send_by":"2026-09-22T10:02:00Z"}]`}, nil, both(is(ledger.StateInFlight, "attempt_started"), entry(func(e ledger.Entry) bool {
			return !e.Unbounded && e.NextAt.Equal(at(2*time.Minute)) && e.SendBy.Equal(at(2*time.Minute))
		}))},
		"started twice: the same report":             {[]string{startedA1, startedA1}, nil, verdict(ledger.RecordedUnchanged)},
		"started, then its result":                   {[]string{startedA1, okA1}, nil, both(applied, entry(func(e ledger.Entry) bool { return e.Attempts == 1 && e.RemoteID == "9" }))},
		"started, then its rate limit":               {[]string{startedA1, limitedA1}, nil, both(is(ledger.StateRetryable, "backoff"), entry(func(e ledger.Entry) bool { return e.NextAt.Sub(at(time.Minute)) >= 2*time.Minute }))},
		"a result, then a late started: nothing new": {[]string{limitedA1, startedA1}, nil, both(is(ledger.StateRetryable, "backoff"), verdict(ledger.RecordedUnchanged))},
		"a timeout: ambiguous, looked at at once": {[]string{timeoutA1}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), entry(func(e ledger.Entry) bool {
			return e.NextAt.Equal(t0) && e.SendBy.Equal(t0) && e.LastClass == ledger.ClassTimeout && e.FirstFailedAt.Equal(at(-30*time.Second))
		}))},
		"the same timeout again: unchanged": {[]string{timeoutA1, timeoutA1}, nil, verdict(ledger.RecordedUnchanged)},
		"a timeout, then a success": {[]string{timeoutA1, okA2}, nil, both(applied, entry(func(e ledger.Entry) bool {
			return e.Class == ledger.ReportRecoveredAfterRetry && e.Verify && e.Work == ledger.WorkLook && e.NextAt.Sub(at(time.Minute)) > 3*time.Minute
		}))},
		"a rate limit, then a success: nothing was in doubt": {[]string{limitedA1, okA2}, nil, both(applied, entry(func(e ledger.Entry) bool {
			return e.Class == ledger.ReportRecoveredAfterRetry && !e.Verify && e.Work == ledger.WorkNone
		}))},
		"a rate limit":                                               {[]string{limitedA1}, nil, both(is(ledger.StateRetryable, "backoff"), entry(func(e ledger.Entry) bool { return e.NextAt.Equal(at(2 * time.Minute)) }))},
		"a permanent class":                                          {[]string{invalidA1}, nil, is(ledger.StateEscalated, "permanent")},
		"a permanent class, policy says failed":                      {[]string{invalidA1}, recorder(func(_ *connectors.Operation, p *Policy) { p.FailedState = true }), both(is(ledger.StateSettled, "permanent"), entry(func(e ledger.Entry) bool { return e.Class == ledger.ReportPermanentlyFailed }))},
		"a rate limit, then a timeout: in doubt":                     {[]string{limitedA1, timeoutA2}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), func(d *told) bool { return d.last.Void && d.cur.Entry.SettleFrom.Equal(at(time.Minute)) })},
		"a rate limit, then another began":                           {[]string{limitedA1, startedA2}, nil, both(is(ledger.StateAmbiguous, "attempt_started"), func(d *told) bool { return d.last.Void })},
		"a timeout, then a rate limit: still in doubt":               {[]string{timeoutA1, limitedA2}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), func(d *told) bool { return !d.last.Void && d.cur.Entry.Attempts == 2 })},
		"a timeout that the workflow later knows was not done":       {[]string{timeoutA1, `"attempts":[{"attempt_id":"a1","started_at":"2026-09-22T09:59:00Z","status":"error","http_status":504,"effect":"not_done"}]`}, nil, is(ledger.StateRetryable, "backoff")},
		"a rate limit, then a timeout of the same attempt: no proof": {[]string{limitedA1, timeoutA1}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), func(d *told) bool { return d.last.Void && len(d.cur.Attempts) == 1 })},
		"a timeout, then a rate limit of the same attempt: no proof": {[]string{timeoutA1, limitedA1}, nil, both(is(ledger.StateAmbiguous, "effect_unknown"), func(d *told) bool { return d.last.Void && d.cur.Attempts[0].HTTPStatus == 504 })},
		"two answers of one attempt, told again: nothing new":        {[]string{timeoutA1, limitedA1, timeoutA1}, nil, verdict(ledger.RecordedUnchanged)},
		"two answers of one attempt, the other told again":           {[]string{timeoutA1, limitedA1, limitedA1}, nil, verdict(ledger.RecordedUnchanged)},
		"escalated, then a timeout: in doubt again":                  {[]string{invalidA1, timeoutA2}, nil, is(ledger.StateAmbiguous, "effect_unknown")},
		"escalated, then another refusal: a person has it":           {[]string{invalidA1, invalidA2}, nil, both(is(ledger.StateEscalated, "permanent"), verdict(ledger.RecordedMerged))},
		"escalated, then a success":                                  {[]string{invalidA1, okA2}, nil, applied},
		"five writes, each with another id":                          {[]string{attemptsOf("r-1"), attemptsOf("r-1", "r-2"), attemptsOf("r-1", "r-2", "r-3", "r-4", "r-5")}, nil, both(applied, flags(ledger.FlagDuplicate), entry(func(e ledger.Entry) bool { return e.Attempts == 5 && e.RemoteID == "r-1" }))},
		"two successes in one report":                                {[]string{attemptsOf("r-1", "r-2")}, nil, both(applied, flags(ledger.FlagDuplicate))},
		"one attempt made two records": {[]string{okA1, strings.Replace(okA1, `"9"`, `"10"`, 1)}, nil, both(applied, flags(ledger.FlagDuplicate), entry(func(e ledger.Entry) bool {
			return e.RemoteID == "9" && e.Attempts == 2 && e.SendCount == 2
		}))},
		"one attempt made two records, told again": {[]string{okA1, strings.Replace(okA1, `"9"`, `"10"`, 1), okA1, strings.Replace(okA1, `"9"`, `"10"`, 1)}, nil, both(flags(ledger.FlagDuplicate), verdict(ledger.RecordedUnchanged))},
		"what was made is named later": {[]string{strings.Replace(okA1, `,"remote_id":"9"`, "", 1), okA1}, recorder(func(o *connectors.Operation, _ *Policy) { o.SendNeedsID = false }), both(applied, flags(), entry(func(e ledger.Entry) bool {
			return e.RemoteID == "9" && e.Attempts == 1
		}))},
		"two successes with one id are one": {[]string{attemptsOf("r-1", "r-1")}, nil, both(applied, flags())},
		"a success for what was settled not applied": {[]string{invalidA1, okA2}, recorder(func(_ *connectors.Operation, p *Policy) { p.FailedState = true }), both(flags(ledger.FlagConflict), entry(func(e ledger.Entry) bool {
			return e.State == ledger.StateSettled && e.Outcome == ledger.OutcomeNotApplied && e.Effect == ledger.EffectDone
		}))},
		"a timeout after a success: looked at once more": {[]string{okA1, timeoutA2}, nil, both(applied, flags(), entry(func(e ledger.Entry) bool { return e.Verify && e.NextAt.After(at(4*time.Minute)) }))},
		"a refusal after a success: kept, nothing else":  {[]string{okA1, invalidA2}, nil, both(applied, flags(), entry(func(e ledger.Entry) bool { return !e.Verify && e.Attempts == 2 }))},
		"ok without the id that is needed: looked at":    {[]string{`"attempts":[{"attempt_id":"a1","status":"ok","http_status":200}]`}, nil, is(ledger.StateAmbiguous, "effect_unknown")},
		"ok of an operation that needs no proof":         {[]string{`"attempts":[{"attempt_id":"a1","status":"ok"}]`}, recorder(func(o *connectors.Operation, _ *Policy) { o.SendNeedsID = false }), applied},
		"ok, and the connector is not known":             {[]string{`"attempts":[{"attempt_id":"a1","status":"ok"}]`}, &Recorder{}, is(ledger.StateAmbiguous, "effect_unknown")},
		"a rate limit, and the connector is not known": {[]string{limitedA1}, &Recorder{}, both(is(ledger.StateRetryable, "backoff"), entry(func(e ledger.Entry) bool {
			return e.Lane == "billing" && e.Owner == ledger.OwnerUnassigned && e.OriginalOwner == ledger.OwnerUnassigned
		}))},
		"attempts in any order are numbered by their start": {[]string{`"attempts":[{"attempt_id":"b","started_at":"2026-09-22T09:50:00Z","status":"error","http_status":429},{"attempt_id":"a","started_at":"2026-09-22T09:40:00Z","status":"error","http_status":422}]`}, nil, both(is(ledger.StateRetryable, "backoff"), func(d *told) bool { return d.cur.Attempts[0].AttemptID == "a" && d.cur.Attempts[0].No == 1 })},
		"old failures are too old when they come":           {[]string{`"attempts":[{"attempt_id":"a","started_at":"2026-09-01T09:50:00Z","status":"error","http_status":429}]`}, nil, is(ledger.StateEscalated, "too_old")},

		"the platform retries: looked at when its time is over": {[]string{`"driver":"platform","driver_until":"2026-09-22T11:00:00Z",` + limitedA1}, nil, both(is(ledger.StateAmbiguous, "platform_retries"), entry(func(e ledger.Entry) bool { return e.NextAt.Equal(at(time.Hour)) && e.Effect == ledger.EffectUnknown }))},
		"the platform retries, and gives up":                    {[]string{`"driver":"platform","driver_until":"2026-09-22T11:00:00Z",` + limitedA1, `"attempts":[{"attempt_id":"a2","status":"error","http_status":429,"final":true}]`}, nil, both(is(ledger.StateRetryable, "backoff"), entry(func(e ledger.Entry) bool { return e.Driver == "" && e.DriverUntil.IsZero() }))},
		"it gives up with an attempt that was known":            {[]string{`"driver":"platform",` + limitedA1, `"driver":"platform",` + strings.Replace(limitedA1, `"status"`, `"final":true,"status"`, 1)}, nil, is(ledger.StateRetryable, "backoff")},
		"the platform retries, and succeeds":                    {[]string{`"driver":"platform",` + limitedA1, okA2}, nil, applied},
		"said later that the platform retries: nothing is sent": {[]string{limitedA1, `"driver":"platform"`}, nil, is(ledger.StateAmbiguous, "platform_retries")},
		"a policy knows that the platform replays":              {[]string{limitedA1}, recorder(func(_ *connectors.Operation, p *Policy) { p.PlatformRetriesFor = 6 * time.Hour }), both(is(ledger.StateAmbiguous, "platform_retries"), entry(func(e ledger.Entry) bool { return e.DriverUntil.Equal(at(6 * time.Hour)) }))},
		"each report begins its time anew":                      {[]string{limitedA1, limitedA2}, recorder(func(_ *connectors.Operation, p *Policy) { p.PlatformRetriesFor = 6 * time.Hour }), entry(func(e ledger.Entry) bool { return e.DriverUntil.Equal(at(6*time.Hour + time.Minute)) })},

		"another operation under the key": {[]string{timeoutA1}, nil, func(d *told) bool {
			rec, _ := ledger.ParseRecord([]byte(`{"action_key":"k:s","workflow":"w","connector":"crm","operation":"invoice.pay"}`), ledger.ParseOptions{})
			got := d.r.Decide(d.cur, rec, d.now)
			return got.Verdict == ledger.RecordedRefused && len(got.Errors) == 2 && got.Errors[0].Field == "connector" && got.Errors[1].Field == "operation" && strings.Contains(got.Errors[1].Message, "action_key of its own")
		}},
		"another payload under the key": {[]string{`"payload":{"a":1},` + timeoutA1, `"payload":{"a":2}`}, nil, both(verdict(ledger.RecordedRefused), func(d *told) bool {
			return d.last.Errors[0].Field == "payload" && strings.Contains(d.last.Errors[0].Message, `"replaces": "k:s"`) && string(d.cur.Entry.Payload) == `{"a":1}`
		})},
		"the same payload, and a report without one": {[]string{`"payload":{"a":1},` + timeoutA1, `"payload":{"a":1},` + limitedA2, startedA2}, nil, verdict(ledger.RecordedUnchanged)},
		"what was empty is filled in, and what was given stays": {[]string{`"subject":"ada@example.org",` + timeoutA1, `"subject":"bob@example.org","outcome_key":"lead:1","owner":"sales","risk":"high","payload":{"a":1}`}, nil, both(verdict(ledger.RecordedMerged), entry(func(e ledger.Entry) bool {
			return e.Subject == "ada@example.org" && e.OutcomeKey == "lead:1" && e.Owner == "sales" && e.OriginalOwner == "sales" && e.Risk == ledger.RiskHigh && string(e.Payload) == `{"a":1}` && e.State == ledger.StateAmbiguous
		}), func(d *told) bool {
			return len(d.last.Warnings) == 1 && strings.HasPrefix(d.last.Warnings[0], "subject: ")
		})},
		"an owner that was named stays": {[]string{`"owner":"revops",` + timeoutA1, `"owner":"sales"`}, nil, both(verdict(ledger.RecordedUnchanged), entry(func(e ledger.Entry) bool { return e.Owner == "revops" && e.OriginalOwner == "revops" }))},
		"a payload in which no look finds our key": {[]string{`"payload":{"keyless":1},` + timeoutA1}, nil, both(verdict(ledger.RecordedNew), func(d *told) bool {
			return len(d.last.Warnings) == 1 && strings.HasPrefix(d.last.Warnings[0], "payload: our key is not in it; kept, ")
		})},
		"a class that is none": {[]string{strings.Replace(timeoutA1, `"status"`, `"error_class":"Boom","status"`, 1)}, nil, func(d *told) bool { return len(d.last.Warnings) == 1 && d.cur.Entry.LastClass == ledger.ClassTimeout }},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.r
			if r == nil {
				r = recorder()
			}
			d := tell(t, r, c.tell...)
			if !c.check(d) {
				e := d.cur.Entry
				t.Errorf("verdict %s, state %s %q outcome %q effect %s work %q next %s flags %v class %s sends %d counted %d verify %v void %v warnings %q errors %v",
					d.last.Verdict, e.State, e.Reason, e.Outcome, e.Effect, e.Work, e.NextAt.Sub(t0), e.Flags, e.Class, e.SendCount, e.AttemptCount, e.Verify, d.last.Void, d.last.Warnings, d.last.Errors)
			}
		})
	}
}

// What the config does not define is kept, with a warning that names it.
func TestRecorderWarnsOfWhatIsNotDefined(t *testing.T) {
	for name, c := range map[string]struct{ connector, operation, want string }{
		"all defined":          {"billing", "invoice.create", ""},
		"no such connector":    {"biling", "invoice.create", `connector: "biling" is not in the config; kept, but nothing is looked up or sent for it; did you mean "billing"?`},
		"nothing like it":      {"crm", "invoice.create", `connector: "crm" is not in the config; kept, but nothing is looked up or sent for it`},
		"no such operation":    {"billing", "invoice.crate", `operation: connector "billing" defines no "invoice.crate"; kept, but nothing is looked up or sent for it; did you mean "invoice.create"?`},
		"case tells names too": {"Billing", "invoice.create", `connector: "Billing" is not in the config; kept, but nothing is looked up or sent for it; did you mean "billing"?`},
	} {
		r := recorder()
		rec := ledger.Record{ActionKey: "k", Workflow: "w", Connector: c.connector, Operation: c.operation, OccurredAt: t0,
			Attempts: []ledger.RecordAttempt{{AttemptID: "a", Status: ledger.AttemptError, HTTPStatus: 504, StartedAt: t0, Sends: 1}}}
		first := r.Decide(nil, rec, t0)
		again := r.Decide(&ledger.Stored{Entry: first.Entry, Attempts: first.Attempts}, rec, t0)
		for _, d := range []ledger.Recording{first, again} {
			if got := strings.Join(d.Warnings, "\n"); got != c.want || d.Verdict == ledger.RecordedRefused {
				t.Errorf("%s: %s\n got %q\nwant %q", name, d.Verdict, got, c.want)
			}
		}
	}
}

func TestRecorderKeys(t *testing.T) {
	r := recorder()
	d := tell(t, r, timeoutA1)
	if e := d.cur.Entry; e.ProviderKey != "k:s" || e.KeyOrigin != "action_key" || !slices.Equal(e.Keys, []string{"k:s"}) || e.Lane != "billing-live" || d.cur.Attempts[0].Key != "k:s" {
		t.Errorf("the action key where it fits: %+v", e)
	}
	long, _ := ledger.ParseRecord([]byte(`{"action_key":"`+strings.Repeat("x", 60)+`","workflow":"w","connector":"billing","operation":"invoice.create"}`), ledger.ParseOptions{Now: t0})
	if e := r.Decide(nil, long, t0).Entry; e.ProviderKey != "d0-60" || e.KeyOrigin != "derived" {
		t.Errorf("derived where it does not: %q %q", e.ProviderKey, e.KeyOrigin)
	}
	long.ProviderKey = strings.Repeat("y", 60)
	got := r.Decide(nil, long, t0)
	if e := got.Entry; e.ProviderKey != long.ProviderKey || e.KeyOrigin != "record" || len(got.Warnings) != 1 {
		t.Errorf("what was really sent is kept, with a warning: %q %q %q", e.ProviderKey, e.KeyOrigin, got.Warnings)
	}

	d = tell(t, r, timeoutA1, `"provider_key":"pk","idempotency_key":"ik",`+timeoutA1)
	e := d.cur.Entry
	if e.ProviderKey != "k:s" || !slices.Equal(e.Keys, []string{"k:s", "pk"}) || e.IdempotencyKey != "ik" || d.cur.Attempts[0].Key != "ik" || !e.KeySentAt.Equal(at(-time.Minute)) {
		t.Errorf("keys that come later: %q %q %q, attempt %q, sent %s", e.ProviderKey, e.Keys, e.IdempotencyKey, d.cur.Attempts[0].Key, e.KeySentAt)
	}
	d.record(`"idempotency_key":"other"`)
	if d.last.Verdict != ledger.RecordedUnchanged || len(d.last.Warnings) != 1 {
		t.Errorf("a second idempotency key: %s %q", d.last.Verdict, d.last.Warnings)
	}
}

func TestRecorderHistory(t *testing.T) {
	d := tell(t, recorder(), timeoutA1, limitedA2, okA2, `"attempts":[{"attempt_id":"a3","status":"ok","remote_id":"11"}]`)
	var got []string
	for _, h := range d.hist {
		got = append(got, fmt.Sprintf("%s>%s %s %s (%s)", h.From, h.To, h.Reason, h.Actor, h.Note))
	}
	want := []string{
		">ambiguous effect_unknown: timeout import ()",
		"settled>settled reported_ok import (a3 ok)",
	}
	// a2 is reported as limitedA1, then as ok: a success is never lost.
	want = slices.Insert(want, 1, "ambiguous>settled reported_ok import (a2 ok)")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !d.cur.Entry.HasFlag(ledger.FlagDuplicate) {
		t.Error("two ids, no flag")
	}
}

// A result that comes after a look has settled the attempt.
func TestMergeAttempt(t *testing.T) {
	old := ledger.Attempt{AttemptID: "a1", No: 1, Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, StartedAt: t0, ReceivedAt: t0, Sends: 1, Key: "k"}
	with := func(a ledger.Attempt, f func(*ledger.Attempt)) ledger.Attempt { f(&a); return a }
	result := func(s ledger.AttemptStatus, c ledger.Class, e ledger.Effect) ledger.Attempt {
		return with(old, func(a *ledger.Attempt) {
			a.Status, a.Class, a.Effect, a.Rule, a.No, a.ReceivedAt, a.SendBy, a.Key = s, c, e, "reported", 0, at(time.Hour), at(time.Hour), "other"
		})
	}
	looked := func(e ledger.Effect) ledger.Attempt {
		return with(old, func(a *ledger.Attempt) { a.Effect, a.Rule = e, "look: x" })
	}
	given := func(e ledger.Effect) ledger.Attempt {
		return with(result("error", "timeout", e), func(a *ledger.Attempt) { a.Rule = "effect given" })
	}
	for name, c := range map[string]struct {
		old, rep       ledger.Attempt
		fresh, changed bool
		check          func(m ledger.Attempt) bool
	}{
		"its first result": {old, result("error", "timeout", "unknown"), true, true, func(m ledger.Attempt) bool {
			return m.Class == "timeout" && m.SendBy.Equal(at(time.Hour)) && m.ReceivedAt.Equal(t0) && m.Key == "k" && m.No == 1
		}},
		"found by a look, then a timeout: the fact is kept, it stays done": {looked("done"), result("error", "timeout", "unknown"), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "done" && m.Class == "timeout" && m.Status == "error" && m.Rule == "look: x"
		}},
		"proven absent, then a timeout":                  {looked("not_done"), result("error", "timeout", "unknown"), true, true, func(m ledger.Attempt) bool { return m.Effect == "not_done" }},
		"proven absent, then a success: a contradiction": {looked("not_done"), result("ok", "", "done"), true, true, func(m ledger.Attempt) bool { return m.Effect == "done" && m.Rule == "reported" }},
		"an error, then a success":                       {result("error", "timeout", "unknown"), result("ok", "", "done"), true, true, func(m ledger.Attempt) bool { return m.Effect == "done" }},
		"a success, then an error":                       {result("ok", "", "done"), result("error", "timeout", "unknown"), false, false, nil},
		"reported unknown, then its error":               {result("unknown", "", "unknown"), result("error", "server_error", "unknown"), true, true, func(m ledger.Attempt) bool { return m.Class == "server_error" }},
		"the same error again":                           {result("error", "timeout", "unknown"), result("error", "timeout", "unknown"), false, false, nil},
		"the same error, now final":                      {result("error", "timeout", "unknown"), with(result("error", "timeout", "unknown"), func(a *ledger.Attempt) { a.Final = true }), false, true, func(m ledger.Attempt) bool { return m.Final }},
		"the same refusal, final an hour later: until then the platform may have sent": {result("error", "rate_limit", "not_done"), with(result("error", "rate_limit", "not_done"), func(a *ledger.Attempt) { a.Final, a.SendBy = true, at(2*time.Hour) }), false, true, func(m ledger.Attempt) bool {
			return m.Final && m.SendBy.Equal(at(2*time.Hour))
		}},
		"started again, with a promise": {old, with(old, func(a *ledger.Attempt) { a.SendBy = at(time.Minute) }), false, true, func(m ledger.Attempt) bool { return m.SendBy.Equal(at(time.Minute)) }},
		"a rate limit, then a timeout: in doubt": {result("error", "rate_limit", "not_done"), with(result("error", "timeout", "unknown"), func(a *ledger.Attempt) { a.HTTPStatus, a.SendBy = 504, at(2*time.Hour) }), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "unknown" && m.Class == "timeout" && m.Rule == "reported; also reported: error rate_limit, effect not_done" && m.SendBy.Equal(at(2*time.Hour))
		}},
		"a timeout, then a rate limit: the same": {with(result("error", "timeout", "unknown"), func(a *ledger.Attempt) { a.HTTPStatus, a.SendBy = 504, at(2*time.Hour) }), result("error", "rate_limit", "not_done"), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "unknown" && m.Class == "timeout" && m.Rule == "reported; also reported: error rate_limit, effect not_done" && m.SendBy.Equal(at(2*time.Hour))
		}},
		"a timeout and a rate limit, then another refusal": {with(result("error", "timeout", "unknown"), func(a *ledger.Attempt) { a.Rule = "reported; also reported: x" }), result("error", "validation", "not_done"), false, false, nil},
		"reported unknown without more, then a rate limit": {result("unknown", "", "unknown"), result("error", "rate_limit", "not_done"), true, true, func(m ledger.Attempt) bool { return m.Effect == "not_done" && m.Rule == "reported" }},
		"a rate limit, then unknown without more":          {result("error", "rate_limit", "not_done"), result("unknown", "", "unknown"), false, false, nil},
		"a rate limit, then a success without proof":       {result("error", "rate_limit", "not_done"), result("ok", "", "unknown"), true, true, func(m ledger.Attempt) bool { return m.Effect == "unknown" && m.Status == "ok" }},
		"a timeout, then not done, given":                  {result("error", "timeout", "unknown"), given("not_done"), true, true, func(m ledger.Attempt) bool { return m.Effect == "not_done" && m.Rule == "effect given" }},
		"not done, given, then a timeout":                  {given("not_done"), result("error", "timeout", "unknown"), false, false, nil},
		"not done, given, then unknown, given": {given("not_done"), given("unknown"), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "unknown" && strings.Contains(m.Rule, "; also reported: error timeout, effect not_done")
		}},
		"unknown, given, then a rate limit": {given("unknown"), result("error", "rate_limit", "not_done"), false, false, nil},
		"seen pending by a look, then a rate limit": {with(looked("unknown"), func(a *ledger.Attempt) { a.Rule = "look: pending" }), result("error", "rate_limit", "not_done"), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "unknown" && m.Status == "error" && m.Class == "rate_limit"
		}},
		"proven absent, then a success without proof: looked at once more": {looked("not_done"), result("ok", "", "unknown"), true, true, func(m ledger.Attempt) bool {
			return m.Effect == "unknown" && m.Status == "ok" && m.SendBy.Equal(at(time.Hour))
		}},
		"a late start": {result("error", "timeout", "unknown"), old, false, false, nil},
	} {
		m, fresh, changed := mergeAttempt(c.old, c.rep)
		if fresh != c.fresh || changed != c.changed || c.check != nil && !c.check(m) {
			t.Errorf("%s: fresh %v changed %v %+v", name, fresh, changed, m)
		}
	}
}

// In whatever order the reports of one attempt come, its effect is the same:
// what is known best, and unknown where two answers contradict each other.
func TestReportsOfOneAttemptInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var reports []ledger.RecordAttempt
		for range rapid.IntRange(2, 5).Draw(rt, "reports") {
			reports = append(reports, ledger.RecordAttempt{AttemptID: "a", StartedAt: at(-time.Minute), Sends: 1,
				Status:     rapid.SampledFrom([]ledger.AttemptStatus{"ok", "error", "error", "error", "unknown", "started"}).Draw(rt, "status"),
				HTTPStatus: rapid.SampledFrom([]int{0, 422, 429, 500, 504}).Draw(rt, "http"),
				ErrorClass: rapid.SampledFrom([]string{"", "", "validation", "timeout"}).Draw(rt, "class"),
				RemoteID:   rapid.SampledFrom([]string{"", "", "", "7"}).Draw(rt, "remote"),
				Effect:     rapid.SampledFrom([]ledger.Effect{"", "", "", "not_done", "unknown"}).Draw(rt, "effect"),
			})
		}
		tell := func(order []int) *told {
			d := &told{t: t, r: recorder(), now: t0}
			for i, j := range order {
				d.now = at(time.Duration(i) * time.Minute)
				rec := ledger.Record{ActionKey: "k:s", Workflow: "w", Connector: "billing", Operation: "invoice.create", OccurredAt: t0, Attempts: reports[j : j+1]}
				d.take(d.r.Decide(d.cur, rec, d.now))
			}
			return d
		}
		order := make([]int, len(reports))
		for i := range order {
			order[i] = i
		}
		a := tell(order).cur.Attempts[0]
		b := tell(rapid.Permutation(order).Draw(rt, "order")).cur.Attempts[0]
		_, alsoA := ledger.SplitRule(a.Rule)
		_, alsoB := ledger.SplitRule(b.Rule)
		if a.Effect != b.Effect || (alsoA != "") != (alsoB != "") && a.Effect == ledger.EffectNotDone {
			rt.Fatalf("%s (%s), in another order %s (%s)", a.Effect, a.Rule, b.Effect, b.Rule)
		}
	})
}

// A record may name an attempt more than once, with different results. What it
// makes of the attempt, from wherever that stood, stays when it comes again.
func TestResultsOfOneAttemptAgain(t *testing.T) {
	one := func(s ledger.AttemptStatus, httpStatus int) ledger.RecordAttempt {
		return ledger.RecordAttempt{AttemptID: "a", Status: s, HTTPStatus: httpStatus, Sends: 1}
	}
	looks := map[string]ledger.Effect{"no look": "", "found by a look": ledger.EffectDone, "seen pending": ledger.EffectUnknown, "proven absent": ledger.EffectNotDone}
	again := func(fatal func(string, ...any), op connectors.Operation, before []ledger.RecordAttempt, look string, results []ledger.RecordAttempt) {
		var as []ledger.Attempt
		take := func(l []ledger.RecordAttempt) []ledger.Attempt {
			n := news{}
			as = n.attempts(ledger.Entry{}, as, ledger.Record{Attempts: l}, Setting{Op: op, Now: at(time.Hour)}, nil, &ledger.Recording{})
			return n.changed
		}
		take(before)
		if unknown := allUnknown(as); looks[look] != "" && len(unknown) > 0 {
			as, _ = mark(as, unknown, looks[look], "", ruleLook+look)
		}
		take(results)
		first := slices.Clone(as)
		if changed := take(results); len(changed) > 0 {
			fatal("%v, %s, then %v: %+v\nagain: %+v", before, look, results, first, as)
		}
	}
	needsID := connectors.Operation{Name: "invoice.create", CanSend: true, SendNeedsID: true}
	for name, c := range map[string]struct {
		before  []ledger.RecordAttempt
		look    string
		results []ledger.RecordAttempt
	}{
		"in doubt, then a success without proof and the refusal that cast the doubt": {
			[]ledger.RecordAttempt{one("error", 0)}, "no look", []ledger.RecordAttempt{one("error", 400), one("ok", 0)}},
		"proven absent, then a refusal and a success without proof": {
			[]ledger.RecordAttempt{one("error", 504)}, "proven absent", []ledger.RecordAttempt{one("error", 400), one("ok", 0)}},
		"begun and proven absent, then a success without proof and a refusal": {
			[]ledger.RecordAttempt{one("started", 0)}, "proven absent", []ledger.RecordAttempt{one("ok", 0), one("error", 400)}},
	} {
		t.Run(name, func(t *testing.T) { again(t.Fatalf, needsID, c.before, c.look, c.results) })
	}
	t.Run("any", rapid.MakeCheck(func(rt *rapid.T) {
		op := needsID
		op.SendNeedsID = rapid.Bool().Draw(rt, "needs_id")
		draw := rapid.Custom(func(rt *rapid.T) ledger.RecordAttempt {
			a := drawAttempt(rt)
			a.AttemptID = "a"
			return a
		})
		again(rt.Fatalf, op, rapid.SliceOfN(draw, 0, 2).Draw(rt, "before"),
			rapid.SampledFrom(slices.Sorted(maps.Keys(looks))).Draw(rt, "look"), rapid.SliceOfN(draw, 1, 4).Draw(rt, "results"))
	}))
}

func TestRecorderRestores(t *testing.T) {
	for name, members := range map[string][]string{
		"ambiguous": {timeoutA1}, "retryable": {limitedA1}, "escalated": {invalidA1}, "settled with a flag": {attemptsOf("1", "2")}, "in flight": {""},
		"settled, looked at once more": {`"payload":{"n":734512345678901235,"x":19.90},"outcome_key":"o","risk":"high",` + timeoutA1, okA2},
		"driven by the platform":       {`"driver":"platform","driver_until":"2026-09-22T11:00:00Z",` + limitedA1},
	} {
		d := tell(t, recorder(), members...)
		d.cur.Entry.Negatives, d.cur.Entry.LooksAnswered, d.cur.Entry.PausedBase = 1, 2, 90*time.Second
		evidence := []ledger.Evidence{{Finding: ledger.FindingNotVisible, Connector: "billing", Form: "single", AskedAt: at(time.Minute), SeenAt: at(time.Minute), Counted: true, Version: "v1", Detail: []byte(`{"records":[]}`), Digest: "x"}}
		line, err := ledger.MarshalRecord(*d.cur, evidence, d.hist)
		if err != nil {
			t.Fatal(err)
		}
		rec, errs := ledger.ParseRecord(line, ledger.ParseOptions{Now: at(time.Hour), Restore: true})
		if len(errs) > 0 || len(rec.Unknown) > 0 {
			t.Fatalf("%s: %v %v", name, errs, rec.Unknown)
		}
		got := recorder().Decide(nil, rec, at(time.Hour))
		if got.Verdict != ledger.RecordedNew {
			t.Fatalf("%s: %s %v", name, got.Verdict, got.Errors)
		}
		if diff := cmp.Diff(d.cur.Entry, got.Entry); diff != "" {
			t.Errorf("%s: entry\n%s", name, diff)
		}
		if diff := cmp.Diff(d.cur.Attempts, got.Attempts); diff != "" {
			t.Errorf("%s: attempts\n%s", name, diff)
		}
		if diff := cmp.Diff(evidence, got.Evidence); diff != "" {
			t.Errorf("%s: evidence\n%s", name, diff)
		}
		if n := len(got.History); n != len(d.hist)+1 || got.History[n-1].Note != "restored from an export" {
			t.Errorf("%s: %d rows of history, want %d", name, n, len(d.hist)+1)
		}

		// The same line again, and a line over an entry that went on.
		again := recorder().Decide(&ledger.Stored{Entry: got.Entry, Attempts: got.Attempts}, rec, at(2*time.Hour))
		if again.Verdict != ledger.RecordedUnchanged {
			t.Errorf("%s: restored twice: %s %v", name, again.Verdict, again.Errors)
		}
	}
}

func TestRestoreOfAReadyEntryIsClearedAnew(t *testing.T) {
	d := tell(t, recorder(), limitedA1)
	d.cur.Entry = ledger.Advance(d.cur.Entry, "cleared", at(time.Minute))
	line, err := ledger.MarshalRecord(*d.cur, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, errs := ledger.ParseRecord(line, ledger.ParseOptions{Restore: true})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if e := recorder().Decide(nil, rec, at(time.Hour)).Entry; e.State != ledger.StateRetryable || !e.ClearedUntil.IsZero() {
		t.Errorf("%s", e.State)
	}
}

// drawAttempt is any attempt of four that a record may report.
func drawAttempt(rt *rapid.T) ledger.RecordAttempt {
	return ledger.RecordAttempt{
		AttemptID:  rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "id"),
		StartedAt:  at(time.Duration(rapid.IntRange(-100, 100).Draw(rt, "start")) * time.Minute),
		Status:     rapid.SampledFrom([]ledger.AttemptStatus{"ok", "error", "unknown", "started"}).Draw(rt, "status"),
		HTTPStatus: rapid.SampledFrom([]int{0, 200, 400, 401, 409, 429, 500, 504}).Draw(rt, "http"),
		RemoteID:   rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(rt, "remote"),
		Effect:     rapid.SampledFrom([]ledger.Effect{"", "", "", "not_done", "unknown", "done"}).Draw(rt, "effect"),
		RetryAfter: rapid.SampledFrom([]string{"", "60", "99999999999999999999"}).Draw(rt, "retry_after"),
		Sends:      rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(rt, "sends"),
		Final:      rapid.IntRange(0, 5).Draw(rt, "final") == 0,
		SendBy:     rapid.SampledFrom([]time.Time{{}, {}, at(time.Minute), at(2 * time.Hour)}).Draw(rt, "send_by"),
	}
}

// Whatever is reported, in whatever order: settled stays settled, nothing is
// tried again while the effect is unknown, every change is legal, and the same
// record twice is nothing new.
func TestRecorderSequences(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := recorder(func(o *connectors.Operation, p *Policy) {
			p.FailedState = rapid.Bool().Draw(rt, "failed_state")
			o.SendNeedsID = rapid.Bool().Draw(rt, "needs_id")
			if rapid.Bool().Draw(rt, "platform") {
				p.PlatformRetriesFor = 10 * time.Minute
			}
		})
		d := &told{t: t, r: r, now: t0}
		for i := range rapid.IntRange(1, 8).Draw(rt, "records") {
			d.now = at(time.Duration(i) * time.Minute)
			rec := ledger.Record{ActionKey: "k:s", Workflow: "w", Connector: "billing", Operation: "invoice.create", OccurredAt: t0}
			if rapid.IntRange(0, 5).Draw(rt, "driven") == 0 {
				rec.Driver = DriverPlatform
			}
			for range rapid.IntRange(0, 3).Draw(rt, "attempts") {
				rec.Attempts = append(rec.Attempts, drawAttempt(rt))
			}
			before := d.cur
			got := d.take(r.Decide(d.cur, rec, d.now))
			if before != nil && got.Verdict == ledger.RecordedNew || before == nil && got.Verdict != ledger.RecordedNew {
				rt.Fatalf("verdict %s", got.Verdict)
			}
			e := d.cur.Entry
			if before != nil && before.Entry.Settled() {
				b := before.Entry
				if e.State != b.State || e.Outcome != b.Outcome || e.SettledAt != b.SettledAt || e.SettledBy != b.SettledBy {
					rt.Fatalf("settled %s became %s %s", b.Outcome, e.State, e.Outcome)
				}
			}
			if (e.State == ledger.StateRetryable || e.State == ledger.StateReady) && e.Effect != ledger.EffectNotDone {
				rt.Fatalf("%s while the effect is %s", e.State, e.Effect)
			}
			if e.Outcome == ledger.OutcomeNotApplied && e.SettledAt.Equal(d.now) && e.Effect != ledger.EffectNotDone && got.Verdict != ledger.RecordedUnchanged && (before == nil || !before.Entry.Settled()) {
				rt.Fatalf("settled not_applied while the effect is %s", e.Effect)
			}
			if (e.Outcome != "") != e.Settled() || (e.Work == ledger.WorkNone) != e.NextAt.IsZero() || e.Class != ledger.ClassOf(e) || e.OriginalOwner == "" {
				rt.Fatalf("half an entry: %+v", e)
			}
			if !e.NextAt.IsZero() && e.NextAt.Before(t0) {
				rt.Fatalf("due at %s", e.NextAt)
			}
			if eff := ledger.EffectOf(d.cur.Attempts); eff == ledger.EffectDone && !e.Settled() {
				rt.Fatalf("done, and %s", e.State)
			}
			if again := r.Decide(d.cur, rec, d.now); again.Verdict != ledger.RecordedUnchanged {
				rt.Fatalf("the same record again: %s\n%s", again.Verdict, cmp.Diff(d.cur.Entry, again.Entry))
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	r := recorder()
	rec, errs := ledger.ParseRecord([]byte(`{"action_key":"k:s","workflow":"w","connector":"billing","operation":"invoice.create","payload":{"a":1},`+timeoutA1+`}`), ledger.ParseOptions{Now: t0})
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Decide(nil, rec, t0)
	}
}
