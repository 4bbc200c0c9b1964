package connectortest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// Opener opens the connector under test to a System. It must describe the
// operations OpBatch, OpAsking, OpSingle and OpBlind as System.Table does, and
// OpRead where System.Reads is set.
type Opener func(t testing.TB, s *System) connectors.Connector

// FromDescriptor opens connectors that are described by a table.
func FromDescriptor(d connectors.Descriptor) Opener {
	return func(t testing.TB, s *System) connectors.Connector {
		t.Helper()
		c, err := d.Open(s.Config("fake"))
		if err != nil {
			t.Fatalf("open:\n%v", err)
		}
		return c
	}
}

// Run checks what every connector promises: an answer or an error and never a
// guess, one request a call, nothing written by a question, no secret in what
// it returns.
func Run(t *testing.T, open Opener) {
	t.Run("abilities agree with what it says of itself", func(t *testing.T) { abilities(t, open) })
	t.Run("lookups answer", func(t *testing.T) { lookups(t, open) })
	t.Run("trouble is never an answer", func(t *testing.T) { trouble(t, open) })
	t.Run("batches answer per item", func(t *testing.T) { batches(t, open) })
	t.Run("sends say what is known", func(t *testing.T) { sends(t, open) })
	t.Run("a system that lies", func(t *testing.T) { lies(t, open) })
	t.Run("checks fail closed", func(t *testing.T) { checks(t, open) })
	t.Run("credentials stay", func(t *testing.T) { credentials(t, open) })
	t.Run("stopping is prompt", func(t *testing.T) { stopping(t, open) })
	t.Run("many at once", func(t *testing.T) { concurrent(t, open) })
}

func query(op string, keys ...string) connectors.Query {
	return connectors.Query{Operation: op, Keys: keys, ActionKey: keys[0], RecordID: "rec", Subject: "ada@example.org",
		Payload: []byte(`{"amount_cents":1990}`), From: time.Now().Add(-time.Hour), Until: time.Now()}
}

func kindOfError(t *testing.T, err error) connectors.Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *connectors.Error
	if !errors.As(err, &e) {
		t.Errorf("error %v is no *connectors.Error", err)
		return "?"
	}
	return e.Kind
}

func abilities(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	info := c.Info()
	if info.Name == "" || info.Type == "" || info.Lane == "" || info.Version == "" {
		t.Errorf("incomplete: %+v", info)
	}
	if again := open(t, s).Info().Version; again != info.Version {
		t.Errorf("opened again it is version %s, was %s", again, info.Version)
	}
	if !slices.IsSortedFunc(info.Operations, func(a, b connectors.Operation) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("operations are not sorted")
	}
	_, batch := c.(connectors.BatchLooker)
	_, sender := c.(connectors.Sender)
	_, checker := c.(connectors.Checker)
	_, prober := c.(connectors.Prober)
	hasBatch := false
	for _, op := range info.Operations {
		hasBatch = hasBatch || op.Lookup == connectors.LookupBatch
		switch {
		case op.Lookup == connectors.LookupBatch && (!batch || op.BatchMax < 2):
			t.Errorf("%s: says batch of %d, ability %v", op.Name, op.BatchMax, batch)
		case op.Lookup != connectors.LookupBatch && op.BatchMax != 1:
			t.Errorf("%s: no batch, but BatchMax %d", op.Name, op.BatchMax)
		case op.CanSend && !sender, len(op.Checks) > 0 && !checker:
			t.Errorf("%s: says more than the connector can", op.Name)
		case op.Timeout <= 0 || op.AbsentAfter < 1 || op.KeyScope == "":
			t.Errorf("%s: unresolved: %+v", op.Name, op)
		}
	}
	if info.HasBatch != hasBatch || info.HasProbe && !prober {
		t.Errorf("HasBatch %v, HasProbe %v", info.HasBatch, info.HasProbe)
	}
	if p, ok := c.(connectors.Prober); ok && info.HasProbe {
		if id, err := p.Probe(context.Background()); err != nil || id.Account != "acct_1" || id.Mode != "test" {
			t.Errorf("Probe = %+v, %v", id, err)
		}
	}
	if k, ok := c.(connectors.KeyDeriver); ok {
		key, derived, err := k.DeriveKey(OpSingle, "run:step", 0)
		if err != nil || key != "run:step" || derived {
			t.Errorf("DeriveKey = %q, %v, %v", key, derived, err)
		}
		first, _, _ := k.DeriveKey(OpSingle, "run:step", 1)
		if first == key || first == "" {
			t.Errorf("the replacement key is %q", first)
		}
	}
	if _, err := c.Lookup(context.Background(), query(OpBlind, "k1")); kindOfError(t, err) != connectors.KindUnsupported {
		t.Errorf("a lookup that there is not: %v", err)
	}
	if _, err := c.Lookup(context.Background(), query("no.such", "k1")); kindOfError(t, err) != connectors.KindUnsupported {
		t.Errorf("an operation that there is not: %v", err)
	}
}

func lookups(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	s.Add(Record{Reference: "one", ID: "id-1", Fields: map[string]any{"amount_cents": 1990}})
	s.Add(Record{Reference: "two"})
	s.Add(Record{Reference: "two"})
	s.Add(Record{Reference: "pending", Status: "processing"})
	s.Add(Record{Reference: "rejected", Status: "failed"})
	s.Add(Record{Reference: "gone", Deleted: true})
	s.Add(Record{Reference: "odd", Status: "never heard of"})
	s.Add(Record{Reference: "other amount", Fields: map[string]any{"amount_cents": 1991}})
	for key, want := range map[string][]connectors.Standing{
		"one": {connectors.StandingApplied}, "two": {connectors.StandingApplied, connectors.StandingApplied},
		"pending": {connectors.StandingPending}, "rejected": {connectors.StandingRejected}, "gone": {connectors.StandingReversed},
		"odd": {connectors.StandingUnmapped}, "none": nil, "ONE": nil, "on": nil,
	} {
		before := time.Now()
		a, err := c.Lookup(context.Background(), query(OpSingle, key))
		var got []connectors.Standing
		for _, r := range a.Records {
			got = append(got, r.Standing)
			if r.Key != key || r.ID == "" {
				t.Errorf("%s: record %+v", key, r)
			}
		}
		if err != nil || !slices.Equal(got, want) || !a.Complete || a.Requests != 1 || a.AskedAt.Before(before) || a.AskedAt.After(time.Now()) || a.Form == "" {
			t.Errorf("%s: %+v, %v; want %v", key, a, err, want)
		}
	}
	a, err := c.Lookup(context.Background(), query(OpSingle, "none", "one"))
	if err != nil || len(a.Records) != 1 || a.Records[0].ID != "id-1" || a.Records[0].Key != "one" {
		t.Errorf("by an older key: %+v, %v", a, err)
	}
	for key, equal := range map[string]bool{"one": true, "other amount": false} {
		a, err := c.Lookup(context.Background(), query(OpSingle, key))
		if err != nil || len(a.Records) != 1 || len(a.Records[0].Compared) != 1 || a.Records[0].Compared[0].Equal != equal {
			t.Errorf("%s: %+v, %v; want equal %v", key, a, err, equal)
		}
	}
	if n := s.Requests(Create); n != 0 {
		t.Errorf("%d creates by lookups", n)
	}
}

// elsewhere is the address of a system that nobody may call.
func elsewhere(t *testing.T) string {
	t.Helper()
	s := NewSystem()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if seen := s.Seen(); len(seen) > 0 {
			t.Errorf("a redirect was followed: %q", seen)
		}
	})
	return s.URL()
}

// faults by which no question is answered, with the kind each gives.
func faults(other string) map[string]struct {
	fault Fault
	kind  connectors.Kind
} {
	page := http.Header{"Content-Type": {"text/html"}}
	return map[string]struct {
		fault Fault
		kind  connectors.Kind
	}{
		"the connection breaks":              {Fault{Swallow: true}, connectors.KindNetwork},
		"the answer is cut":                  {Fault{CutBody: true}, connectors.KindNetwork},
		"401":                                {Fault{Status: 401, Body: `{}`}, connectors.KindAuth},
		"403":                                {Fault{Status: 403, Body: `{}`}, connectors.KindPermission},
		"403 with a page":                    {Fault{Status: 403, Header: page, Body: `<html><title>Just a moment...</title></html>`}, connectors.KindBlockedByEdge},
		"a page in a 200":                    {Fault{Status: 200, Header: page, Body: `<!doctype html><title>Just a moment...</title>`}, connectors.KindBlockedByEdge},
		"429":                                {Fault{Status: 429, Header: http.Header{"Retry-After": {"30"}}, Body: `{}`}, connectors.KindRateLimit},
		"500":                                {Fault{Status: 500}, connectors.KindServerError},
		"503":                                {Fault{Status: 503}, connectors.KindUnavailable},
		"504":                                {Fault{Status: 504}, connectors.KindTimeout},
		"a 404 that nothing explains":        {Fault{Status: 404, Body: `{}`}, connectors.KindNotFound},
		"a redirect":                         {Fault{Status: 307, Header: http.Header{"Location": {other}}}, connectors.KindUnknown},
		"another shape":                      {Fault{Status: 200, Body: `{"rows":[]}`}, connectors.KindMalformed},
		"no JSON":                            {Fault{Status: 200, Body: `ok`}, connectors.KindMalformed},
		"nothing":                            {Fault{Status: 200}, connectors.KindMalformed},
		"more than anybody asked for (2 MB)": {Fault{Status: 200, Body: `{"data":["` + strings.Repeat("x", 2<<20) + `"]}`}, connectors.KindMalformed},
	}
}

func trouble(t *testing.T, open Opener) {
	other := elsewhere(t)
	for name, tc := range faults(other) {
		t.Run(name, func(t *testing.T) {
			s := NewFake(t)
			c := open(t, s)
			s.Add(Record{Reference: "k1"})
			tc.fault.On = Lookup
			s.Fault(tc.fault)
			a, err := c.Lookup(context.Background(), query(OpSingle, "k1"))
			if k := kindOfError(t, err); k != tc.kind || len(a.Records) != 0 || a.Complete {
				t.Errorf("Lookup = %+v, %v; want %s", a, err, tc.kind)
			}
			var e *connectors.Error
			if errors.As(err, &e) && tc.kind == connectors.KindRateLimit && e.RetryAfter.Wait != 30*time.Second {
				t.Errorf("RetryAfter %+v", e.RetryAfter)
			}
			if n := s.Requests(Lookup); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if a, err := c.Lookup(context.Background(), query(OpSingle, "k1")); err != nil || len(a.Records) != 1 {
				t.Errorf("after it: %+v, %v", a, err)
			}
			b, ok := c.(connectors.BatchLooker)
			if !ok {
				return
			}
			tc.fault.On = Batch
			s.Fault(tc.fault)
			for i, r := range b.LookupBatch(context.Background(), []connectors.Query{query(OpBatch, "k1"), query(OpBatch, "none")}) {
				if k := kindOfError(t, r.Err); k != tc.kind && k != connectors.KindNotMentioned || len(r.Answer.Records) != 0 || r.Answer.Complete {
					t.Errorf("item %d: %+v; want %s", i, r, tc.kind)
				}
			}
		})
	}
	t.Run("no answer in time", func(t *testing.T) {
		s := NewFake(t)
		c := open(t, s)
		s.Fault(Fault{On: Lookup, Delay: 10 * time.Second})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Lookup(ctx, query(OpSingle, "k1")); kindOfError(t, err) != connectors.KindTimeout {
			t.Errorf("%v", err)
		}
	})
}

func batches(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	b, ok := c.(connectors.BatchLooker)
	if !ok {
		t.Skip("the connector asks one by one")
	}
	for _, k := range []string{"a", "b", "d"} {
		s.Add(Record{Reference: k, ID: "id-" + k})
	}
	ask := func(op string, keys ...string) []connectors.Result {
		var qs []connectors.Query
		for _, k := range keys {
			qs = append(qs, query(op, strings.Split(k, "+")...))
		}
		rs := b.LookupBatch(context.Background(), qs)
		if len(rs) != len(qs) {
			t.Fatalf("%d results for %d queries", len(rs), len(qs))
		}
		return rs
	}
	rs := ask(OpBatch, "d", "none", "a", "none+b")
	for i, want := range []string{"id-d", "", "id-a", "id-b"} {
		r := rs[i]
		got := ""
		if len(r.Answer.Records) == 1 {
			got = r.Answer.Records[0].ID
		}
		if r.Err != nil || got != want || !r.Answer.Complete || r.Answer.AskedAt.IsZero() {
			t.Errorf("item %d: %+v; want %q", i, r, want)
		}
	}
	if n := s.Requests(Batch) + s.Requests(Lookup); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	s.Fault(Fault{On: Batch, LeaveOut: []string{"a"}})
	rs = ask(OpAsking, "d", "a", "none")
	if rs[0].Err != nil || len(rs[0].Answer.Records) != 1 {
		t.Errorf("mentioned: %+v", rs[0])
	}
	for _, r := range rs[1:] {
		if kindOfError(t, r.Err) != connectors.KindNotMentioned || r.Answer.Complete {
			t.Errorf("left out: %+v", r)
		}
	}
	rs = ask(OpBatch, "a", "bad\x00key", "b")
	if kindOfError(t, rs[1].Err) != connectors.KindBadKey || rs[0].Err != nil || rs[2].Err != nil || len(rs[2].Answer.Records) != 1 {
		t.Errorf("an unusable key: %+v", rs)
	}
	s.Fault(Fault{On: Batch, Times: -1, Key: `"poison"`, Status: 400, Body: `{"error":{"code":"BAD_INPUT"}}`})
	keys := []string{"a", "b", "none", "poison", "d"}
	for i, r := range ask(OpBatch, keys...) {
		want := connectors.Kind("")
		if keys[i] == "poison" {
			want = connectors.KindBadKey
		}
		if k := kindOfError(t, r.Err); k != want {
			t.Errorf("%s beside a poisonous key: %+v", keys[i], r)
		}
	}
}

func sends(t *testing.T, open Opener) {
	const done, notDone, unknown = connectors.EffectDone, connectors.EffectNotDone, connectors.EffectUnknown
	other := elsewhere(t)
	cases := map[string]struct {
		fault   Fault
		sendBy  time.Duration
		effect  connectors.Effect
		kind    connectors.Kind
		wrote   bool
		effects int // records made
	}{
		"made":                               {Fault{}, time.Minute, done, "", true, 1},
		"the answer is lost after the work":  {Fault{Cut: true}, time.Minute, unknown, connectors.KindNetwork, true, 1},
		"the request is lost":                {Fault{Swallow: true}, time.Minute, unknown, connectors.KindNetwork, true, 0},
		"the answer is cut":                  {Fault{CutBody: true}, time.Minute, unknown, connectors.KindNetwork, true, 1},
		"a gateway gives up, the work done":  {Fault{Status: 504, Commit: true}, time.Minute, unknown, connectors.KindTimeout, true, 1},
		"500":                                {Fault{Status: 500}, time.Minute, unknown, connectors.KindServerError, true, 0},
		"422":                                {Fault{Status: 422, Body: `{}`}, time.Minute, notDone, connectors.KindValidation, true, 0},
		"422 that says it is there":          {Fault{Status: 422, Body: `{"error":{"code":"DUP_REF"}}`}, time.Minute, notDone, connectors.KindAlreadyExists, true, 0},
		"429":                                {Fault{Status: 429, Body: `{}`}, time.Minute, notDone, connectors.KindRateLimit, true, 0},
		"401":                                {Fault{Status: 401, Body: `{}`}, time.Minute, notDone, connectors.KindAuth, true, 0},
		"a redirect":                         {Fault{Status: 307, Header: http.Header{"Location": {other}}}, time.Minute, unknown, connectors.KindUnknown, true, 0},
		"a 200 with a page":                  {Fault{Status: 200, Body: `<!doctype html><title>x</title>`}, time.Minute, unknown, connectors.KindBlockedByEdge, true, 0},
		"a 200 without the id":               {Fault{Status: 200, Body: `{}`}, time.Minute, unknown, connectors.KindSilentNoop, true, 0},
		"send_by is over":                    {Fault{}, -time.Second, notDone, connectors.KindTimeout, false, 0},
		"send_by passes before the answer":   {Fault{Delay: 5 * time.Second}, 100 * time.Millisecond, unknown, connectors.KindTimeout, true, -1},
		"more than we read (2 MB) in a 200":  {Fault{Status: 200, Body: `{"id":"` + strings.Repeat("x", 2<<20) + `"}`}, time.Minute, unknown, connectors.KindUnknown, true, 0},
		"429 with a wait beyond any window":  {Fault{Status: 429, Header: http.Header{"Retry-After": {"99999999999999999999"}}}, time.Minute, notDone, connectors.KindRateLimit, true, 0},
		"a conflict that nothing explains":   {Fault{Status: 409, Body: `{}`}, time.Minute, unknown, connectors.KindConflict, true, 0},
		"a 2xx that is no JSON":              {Fault{Status: 200, Body: `done`}, time.Minute, unknown, connectors.KindUnknown, true, 0},
		"a body without end, then the break": {Fault{Status: 201, Body: `{"id":"1","x":"`, CutBody: true}, time.Minute, unknown, connectors.KindNetwork, true, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := NewFake(t)
			c := open(t, s)
			sender := sending(t, c)
			tc.fault.On = Create
			s.Fault(tc.fault)
			r := sender.Send(context.Background(), connectors.Send{Operation: OpSingle, Key: "k1", IdempotencyKey: "k1", ActionKey: "k1",
				Payload: []byte(`{"amount_cents":19.90}`), SendBy: time.Now().Add(tc.sendBy)})
			if r.Effect != tc.effect || r.Kind != tc.kind || r.Wrote != tc.wrote || r.Rule == "" {
				t.Errorf("got %+v\nwant %s, %q, wrote %v", r, tc.effect, tc.kind, tc.wrote)
			}
			if n := s.Effects("k1"); tc.effects >= 0 && n != tc.effects {
				t.Errorf("%d records, want %d", n, tc.effects)
			}
			requests := 0
			if tc.wrote {
				requests = 1
			}
			if n := s.Requests(Create); n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
			if tc.effect == done {
				if found := s.Find("k1"); r.RemoteID != found[0].ID || fmt.Sprint(found[0].Fields["amount_cents"]) != "19.90" {
					t.Errorf("%+v, %+v", r, found)
				}
			}
			if strings.Contains(name, "beyond") && !r.RetryAfter.Beyond {
				t.Errorf("RetryAfter %+v", r.RetryAfter)
			}
		})
	}
	t.Run("the same key twice is one effect", func(t *testing.T) {
		s := NewFake(t)
		s.Idempotent = true
		c := open(t, s)
		sender := sending(t, c)
		in := connectors.Send{Operation: OpSingle, Key: "k1", IdempotencyKey: "k1", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)}
		s.Fault(Fault{On: Create, Cut: true})
		lost, again := sender.Send(context.Background(), in), sender.Send(context.Background(), in)
		if lost.Effect != unknown || again.Effect != done || !again.Replayed || s.Effects("k1") != 1 {
			t.Errorf("%+v, then %+v; %d records", lost, again, s.Effects("k1"))
		}
		s.Fault(Fault{On: Create, Status: 500})
		in.Key, in.IdempotencyKey = "k2", "k2"
		first, replay := sender.Send(context.Background(), in), sender.Send(context.Background(), in)
		if first.KeySpent || !replay.Replayed || !replay.KeySpent || replay.Effect != unknown {
			t.Errorf("a stored error: %+v, then %+v", first, replay)
		}
	})
}

// lies are what real systems do besides failing: what they show is old, what
// they say of time is by another clock, what they do comes late.
func lies(t *testing.T, open Opener) {
	showsOld(t, open)
	comesLate(t, open)
	keepsKeys(t, open)
	tellsLimits(t, open)
}

// standings asks for one key, and returns what each record is and is called.
func standings(t *testing.T, c connectors.Connector, op, key string) (string, connectors.Answer) {
	t.Helper()
	a, err := c.Lookup(context.Background(), query(op, key))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range a.Records {
		out = append(out, string(r.Standing)+" "+r.ID+r.MergedInto)
	}
	return strings.Join(out, ", "), a
}

// sending skips the test where the connector does not send.
func sending(t *testing.T, c connectors.Connector) connectors.Sender {
	t.Helper()
	sender, ok := c.(connectors.Sender)
	if !ok {
		t.Skip("the connector does not send")
	}
	return sender
}

func sendOf(key string, within time.Duration) connectors.Send {
	return connectors.Send{Operation: OpSingle, Key: key, IdempotencyKey: key, ActionKey: key, Payload: []byte(`{}`), SendBy: time.Now().Add(within)}
}

// until waits for something to hold, which is soon.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 10 s, and %s", what)
		}
	}
}

func showsOld(t *testing.T, open Opener) {
	ctx := context.Background()
	t.Run("an index that lags shows nothing, completely", func(t *testing.T) {
		s := NewFake(t)
		c := open(t, s)
		s.Add(Record{Reference: "k1", ID: "a", VisibleAt: time.Now().Add(time.Hour)})
		if got, a := standings(t, c, OpSingle, "k1"); got != "" || !a.Complete {
			t.Errorf("%s, %+v", got, a)
		}
		s.Change("k1", func(r *Record) { r.VisibleAt = time.Time{} })
		if got, _ := standings(t, c, OpSingle, "k1"); got != "applied a" {
			t.Error(got)
		}
	})
	t.Run("the direct read decides a stale hit", func(t *testing.T) {
		s := NewFake(t)
		s.Reads = true
		c := open(t, s)
		later := time.Now().Add(time.Hour)
		s.Add(Record{Reference: "deleted", ID: "a", Deleted: true, StaleUntil: later})
		s.Add(Record{Reference: "merged", ID: "b", MergedInto: "z", StaleUntil: later})
		for key, want := range map[string][2]string{"deleted": {"applied a", "reversed a"}, "merged": {"applied b", "applied bz"}} {
			for i, op := range []string{OpSingle, OpRead} {
				if got, _ := standings(t, c, op, key); got != want[i] {
					t.Errorf("%s by %s: %s, want %s", key, op, got, want[i])
				}
			}
		}
		s.Add(Record{Reference: "hidden", ID: "c"})
		for _, status := range []int{403, 404} {
			s.Fault(Fault{On: Read, Status: status, Body: `{}`})
			if a, err := c.Lookup(ctx, query(OpRead, "hidden")); err == nil || len(a.Records) != 0 {
				t.Errorf("a %d that hides a record: %+v", status, a)
			}
		}
	})
	t.Run("a 207 that leaves items out", func(t *testing.T) {
		s := NewFake(t)
		c := open(t, s)
		b, ok := c.(connectors.BatchLooker)
		if !ok {
			t.Skip("the connector asks one by one")
		}
		s.Add(Record{Reference: "a"})
		s.Add(Record{Reference: "b"})
		s.Fault(Fault{On: Batch, LeaveOut: []string{"b"}, As: http.StatusMultiStatus})
		rs := b.LookupBatch(ctx, []connectors.Query{query(OpAsking, "a"), query(OpAsking, "b")})
		if len(rs[0].Answer.Records) != 1 || kindOfError(t, rs[1].Err) != connectors.KindNotMentioned {
			t.Errorf("%+v", rs)
		}
	})
}

func comesLate(t *testing.T, open Opener) {
	ctx := context.Background()
	t.Run("an answer that drips is no answer in the end", func(t *testing.T) {
		s := NewFake(t)
		c := open(t, s)
		s.Add(Record{Reference: "k1"})
		s.Fault(Fault{On: Lookup, Drip: 20 * time.Millisecond})
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if _, err := c.Lookup(short, query(OpSingle, "k1")); kindOfError(t, err) != connectors.KindTimeout {
			t.Error(err)
		}
		sender := sending(t, c)
		s.Fault(Fault{On: Create, Drip: 20 * time.Millisecond})
		if r := sender.Send(ctx, sendOf("k2", 200*time.Millisecond)); r.Effect != connectors.EffectUnknown || r.Kind != connectors.KindTimeout || s.Effects("k2") != 1 {
			t.Errorf("%+v, %d records", r, s.Effects("k2"))
		}
	})
	t.Run("an effect that lands when nobody waits for it", func(t *testing.T) {
		s := NewFake(t)
		c := open(t, s)
		sender := sending(t, c)
		s.Fault(Fault{On: Create, Cut: true, Late: 100 * time.Millisecond})
		r := sender.Send(ctx, sendOf("k1", time.Minute))
		if r.Effect != connectors.EffectUnknown || s.Effects("k1") != 0 {
			t.Errorf("%+v, %d records", r, s.Effects("k1"))
		}
		if got, _ := standings(t, c, OpSingle, "k1"); got != "" {
			t.Errorf("seen before it landed: %s", got)
		}
		until(t, "the effect did not land", func() bool { return s.Effects("k1") > 0 })
		if got, _ := standings(t, c, OpSingle, "k1"); !strings.HasPrefix(got, "applied") {
			t.Errorf("after it landed: %q", got)
		}
	})
}

func keepsKeys(t *testing.T, open Opener) {
	ctx := context.Background()
	t.Run("a 409 while the first still runs is no failure", func(t *testing.T) {
		s := NewFake(t)
		s.Idempotent = true
		c := open(t, s)
		sender := sending(t, c)
		s.Fault(Fault{On: Create, Delay: 400 * time.Millisecond})
		first := make(chan connectors.SendResult, 1)
		go func() { first <- sender.Send(ctx, sendOf("k1", time.Minute)) }()
		until(t, "the first request did not arrive", func() bool { return s.Requests(Create) > 0 })
		if r := sender.Send(ctx, sendOf("k1", time.Minute)); r.Effect != connectors.EffectUnknown || r.HTTPStatus != http.StatusConflict {
			t.Errorf("%+v", r)
		}
		if r := <-first; r.Effect != connectors.EffectDone || s.Effects("k1") != 1 {
			t.Errorf("%+v, %d records", r, s.Effects("k1"))
		}
	})
	t.Run("a key that is forgotten protects nothing", func(t *testing.T) {
		s := NewFake(t)
		s.Idempotent, s.KeepsKey = true, time.Nanosecond
		c := open(t, s)
		sender := sending(t, c)
		first, again := sender.Send(ctx, sendOf("k1", time.Minute)), sender.Send(ctx, sendOf("k1", time.Minute))
		if again.Replayed || again.RemoteID == first.RemoteID || s.Effects("k1") != 2 {
			t.Errorf("%+v, then %+v; %d records", first, again, s.Effects("k1"))
		}
	})
}

func tellsLimits(t *testing.T, open Opener) {
	ctx := context.Background()
	for _, skew := range []time.Duration{0, 5 * time.Minute, -time.Hour} {
		t.Run(fmt.Sprintf("limits in every form, by a clock that is %s ahead", skew), func(t *testing.T) {
			s := NewFake(t)
			s.Skew = skew
			c := open(t, s)
			for form, header := range s.Limits(90 * time.Second) {
				s.Fault(Fault{On: Lookup, Status: 429, Header: header, Body: `{}`})
				_, err := c.Lookup(ctx, query(OpSingle, "k1"))
				var e *connectors.Error
				if !errors.As(err, &e) || e.Kind != connectors.KindRateLimit || e.RetryAfter.Wait != 90*time.Second {
					t.Errorf("%s: %v, %+v; want 90s", form, err, e)
				}
			}
		})
	}
}

func checks(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	checker, ok := c.(connectors.Checker)
	if !ok {
		t.Skip("the connector does not check")
	}
	all := []connectors.CheckName{connectors.CheckConsent, connectors.CheckOwner, connectors.CheckLifecycle}
	const pass, refuse, unread = connectors.VerdictPass, connectors.VerdictRefuse, connectors.VerdictUnread
	s.SetCustomer("good", Customer{OptedIn: true, Owner: "5502", Active: true, Stage: "customer"})
	s.SetCustomer("out", Customer{Owner: "5502", Active: true, Stage: "customer"})
	s.SetCustomer("left", Customer{OptedIn: true, Owner: "5502", Stage: "customer"})
	s.SetCustomer("churned", Customer{OptedIn: true, Owner: "5502", Active: true, Stage: "churned"})
	s.SetCustomer("merged", Customer{OptedIn: true, Stage: "churned", Merged: "good"})
	for id, want := range map[string][]connectors.VerdictKind{
		"good": {pass, pass, pass}, "out": {refuse, pass, pass}, "left": {pass, refuse, pass}, "churned": {pass, pass, refuse}, "merged": {pass, pass, pass},
	} {
		q := connectors.CheckQuery{Query: query(OpSingle, "k1"), Want: all}
		q.RecordID = id
		vs := checker.Check(context.Background(), q)
		if len(vs) != 3 {
			t.Errorf("%s: %+v", id, vs)
			continue
		}
		for i, v := range vs {
			if v.Check != all[i] || v.Kind != want[i] || v.Check == connectors.CheckOwner && v.Value != "5502" {
				t.Errorf("%s: %+v, want %s", id, v, want[i])
			}
		}
	}
	for name, tc := range faults("http://127.0.0.1:1") {
		if tc.fault.Status == 200 && strings.HasPrefix(tc.fault.Body, "{") {
			continue // data, though not what was meant
		}
		tc.fault.On = Check
		s.Fault(tc.fault)
		q := connectors.CheckQuery{Query: query(OpSingle, "k1"), Want: []connectors.CheckName{connectors.CheckConsent}}
		q.RecordID = "good"
		vs := checker.Check(context.Background(), q)
		if len(vs) != 1 || vs[0].Kind != unread || kindOfError(t, vs[0].Err) != tc.kind {
			t.Errorf("%s: %+v; want unread, %s", name, vs, tc.kind)
		}
	}
	if n := s.Requests(Create); n != 0 {
		t.Errorf("%d creates by checks", n)
	}
}

func credentials(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	for _, body := range []string{
		`{"error":{"code":"` + Token + `","message":"bad token ` + Token + `"}}`, "bad token " + Token[:15],
		`<html><title>` + Token + `</title></html>`,
	} {
		for _, status := range []int{200, 401, 500} {
			header := http.Header{"Retry-After": {Token}}
			s.Fault(Fault{On: Lookup, Status: status, Body: body, Header: header})
			s.Fault(Fault{On: Create, Status: status, Body: body, Header: header})
			s.Fault(Fault{On: Check, Status: status, Body: body, Header: header})
			_, err := c.Lookup(context.Background(), query(OpSingle, "k1"))
			texts := []string{fmt.Sprintf("%+v %#v", err, err)}
			for e := err; e != nil; e = errors.Unwrap(e) {
				texts = append(texts, e.Error())
			}
			if sender, ok := c.(connectors.Sender); ok {
				texts = append(texts, fmt.Sprintf("%+v", sender.Send(context.Background(), connectors.Send{Operation: OpSingle, Key: "k1",
					IdempotencyKey: "k1", Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)})))
			}
			if checker, ok := c.(connectors.Checker); ok {
				for _, v := range checker.Check(context.Background(), connectors.CheckQuery{Query: query(OpSingle, "k1"), Want: []connectors.CheckName{connectors.CheckConsent}}) {
					texts = append(texts, fmt.Sprintf("%+v", v))
				}
			}
			for _, text := range texts {
				if strings.Contains(text, Token[:8]) {
					t.Errorf("the token stands in %s", text)
				}
			}
		}
	}
}

func stopping(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	s.Fault(Fault{On: Lookup, Delay: 30 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, err := c.Lookup(ctx, query(OpSingle, "k1"))
	if k := kindOfError(t, err); k != connectors.KindStopping || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if _, err := c.Lookup(ctx, query(OpSingle, "k1")); kindOfError(t, err) != connectors.KindStopping {
		t.Errorf("already stopped: %v", err)
	}
}

func concurrent(t *testing.T, open Opener) {
	s := NewFake(t)
	c := open(t, s)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			key := fmt.Sprintf("k%d", i)
			if sender, ok := c.(connectors.Sender); ok {
				if r := sender.Send(context.Background(), connectors.Send{Operation: OpSingle, Key: key, IdempotencyKey: key,
					Payload: []byte(`{}`), SendBy: time.Now().Add(time.Minute)}); r.Effect != connectors.EffectDone {
					t.Errorf("%s: %+v", key, r)
				}
			} else {
				s.Add(Record{Reference: key})
			}
			a, err := c.Lookup(context.Background(), query(OpSingle, key))
			if err != nil || len(a.Records) != 1 || a.Records[0].Key != key {
				t.Errorf("%s: %+v, %v", key, a, err)
			}
		})
	}
	wg.Wait()
}
