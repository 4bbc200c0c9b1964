package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/internal/render"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// Limits of a request that reports.
const (
	// bodyMax bytes, or more where ledger.payload_max is large: see API.bodyMax.
	bodyMax = 16 << 20
	// smallBody bytes are read of each body before it needs a place among the large
	// ones: a hundred records, and what a client that only begins can hold.
	smallBody = 256 << 10
	// smallMax and largeMax bytes are held at once, of the bodies that are not
	// larger than smallBody, or have not come further, and of the others.
	smallMax, largeMax = 16 << 20, 48 << 20
	// itemsMax bounds the answer, which is held until the last item is recorded.
	itemsMax = 10_000
	// batchItems and batchBytes end a transaction: Store.Record takes no more than
	// the first, and the second keeps memory flat.
	batchItems = 1000
	batchBytes = 2 << 20
	// bodyPatience is how long a client gets to send its body: 16 MiB in a minute
	// are 280 KB a second.
	bodyPatience = time.Minute
	// turnPatience is how long a request waits for its share of these, and how long
	// a large body may take for each further smallBody: who sends nothing more
	// gives its place to the one who waits.
	turnPatience = 10 * time.Second
	// recordPatience ends a transaction that the ledger does not finish.
	recordPatience = 30 * time.Second
)

// answer is what became of one item. Its JSON form is a contract
// (docs/rules.md, section 10); lists are never null.
type answer struct {
	ActionKey      string              `json:"action_key"`
	Recorded       ledger.Verdict      `json:"recorded"`
	State          ledger.State        `json:"state"`
	Outcome        ledger.Outcome      `json:"outcome"`
	Send           ledger.Send         `json:"send"`
	Why            string              `json:"why"`
	ProviderKey    string              `json:"provider_key"`
	IdempotencyKey string              `json:"idempotency_key"`
	Token          string              `json:"token"`
	SendBy         *time.Time          `json:"send_by"` // null: none was promised
	Errors         []ledger.FieldError `json:"errors"`
	Warnings       []string            `json:"warnings"`
}

// reader makes a record of one item.
type reader func(item []byte, o ledger.ParseOptions) (ledger.Record, []ledger.FieldError)

// postEntries records actions: one object, an array, or one object a line.
func (a *API) postEntries(w http.ResponseWriter, r *http.Request, t ledger.APIToken) error {
	if err := noQuery(r); err != nil {
		return err
	}
	return a.intake(w, r, t, ledger.ParseRecord)
}

// postAttempts records attempts of an entry that is there, in the same forms.
func (a *API) postAttempts(w http.ResponseWriter, r *http.Request, t ledger.APIToken) error {
	if err := noQuery(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordPatience)
	defer cancel()
	st, err := a.entry(ctx, r)
	if err != nil {
		return err
	}
	return a.intake(w, r, t, attemptReader(st.Entry))
}

// attemptReader reads an item as an attempt of the entry. Mistakes are named as
// the item has them.
func attemptReader(e ledger.Entry) reader {
	const within = "attempts.0"
	inItem := func(field string) string {
		if field == within {
			return "record"
		}
		return strings.TrimPrefix(field, within+".")
	}
	return func(item []byte, o ledger.ParseOptions) (ledger.Record, []ledger.FieldError) {
		if items := splitValues(item); len(items) != 1 || item[0] != '{' {
			return ledger.Record{ActionKey: e.ActionKey}, []ledger.FieldError{{Field: "record", Message: "must be one JSON object: an attempt, with its status"}}
		}
		var b bytes.Buffer
		for i, m := range [...]struct{ name, value string }{
			{"action_key", e.ActionKey}, {"workflow", e.Workflow}, {"connector", e.Connector}, {"operation", e.Operation},
		} {
			value, err := json.Marshal(m.value)
			if err != nil {
				panic(err) // a string has a JSON form
			}
			fmt.Fprintf(&b, "%c%q:%s", "{,,,"[i], m.name, value)
		}
		b.WriteString(`,"attempts":[`)
		b.Write(item)
		b.WriteString("]}")
		rec, errs := ledger.ParseRecord(b.Bytes(), o)
		rec.ActionKey = e.ActionKey
		for i := range errs {
			errs[i].Field = inItem(errs[i].Field)
		}
		for i := range rec.Unknown {
			rec.Unknown[i] = inItem(rec.Unknown[i])
		}
		return rec, errs
	}
}

// intake reads the whole body first, so that one that is too large, too slow or
// cut short records nothing; then it records batch by batch, and answers when
// the last one is durable. Where the ledger fails in the middle the answer is an
// error, and what was recorded stays: the same request again does no harm.
func (a *API) intake(w http.ResponseWriter, r *http.Request, t ledger.APIToken, read reader) error {
	lines, err := bodyLines(r)
	if err != nil {
		return err
	}
	body, give, err := a.body(w, r, a.limit())
	if err != nil {
		return err
	}
	defer give()
	how, items, closed := split(body, lines)
	if len(items) == 0 && how == formOne {
		return problem(http.StatusBadRequest, "empty", "the body is empty; send a record, an array of records, or one record a line")
	}
	if len(items) > itemsMax {
		return problem(http.StatusRequestEntityTooLarge, "too_many", "%d records in one request; send at most %d (nothing was recorded)", len(items), itemsMax)
	}
	answers, err := a.record(r.Context(), t, items, read)
	if err != nil {
		return err
	}
	if !closed {
		// What came is whole or is refused for itself; that more was meant is told.
		answers = append(answers, refusal("", []ledger.FieldError{{Field: "record",
			Message: fmt.Sprintf("the array is not closed: the body ends at byte %d without its ]; what is before it is recorded as its answers say", len(body))}}))
	}
	refused := 0
	for _, x := range answers {
		if x.Recorded == ledger.RecordedRefused {
			refused++
		}
		a.metrics.record(x.Recorded, x.Send)
	}
	status := http.StatusOK
	switch {
	case refused > 0 && refused == len(answers):
		status = http.StatusUnprocessableEntity
	case refused > 0:
		status = http.StatusMultiStatus
	}
	writeAnswers(w, status, how, answers)
	return nil
}

// record has items recorded in batches, in their order. A batch that has begun
// is finished, whether or not the client still waits.
func (a *API) record(ctx context.Context, t ledger.APIToken, items [][]byte, read reader) ([]answer, error) {
	clock, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	now, err := a.ledger.Now(clock)
	if err != nil {
		return nil, err
	}
	o := a.parse
	o.Now = now
	recorder := a.recorder
	recorder.Actor = "http:" + t.Name

	answers := make([]answer, len(items))
	var recs []ledger.Record
	var at []int // place of each record in answers
	size := 0
	flush := func() error {
		if len(recs) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
		defer cancel()
		got, err := recorder.Record(ctx, a.ledger, recs)
		if err != nil {
			return problem(http.StatusServiceUnavailable, "not_recorded",
				"the ledger did not confirm that all of it is recorded; send the same request again, nothing is recorded twice").because(err)
		}
		for i, g := range got {
			answers[at[i]] = answerTo(recs[i], g)
		}
		recs, at, size = recs[:0], at[:0], 0
		return nil
	}
	for i, item := range items {
		rec, errs := read(item, o)
		if len(errs) > 0 {
			answers[i] = refusal(rec.ActionKey, errs)
			continue
		}
		if len(recs) > 0 && (len(recs) == batchItems || size+len(item) > batchBytes) {
			if err := flush(); err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, ctx.Err() // nobody waits for the rest; it comes again
			}
		}
		recs, at, size = append(recs, rec), append(at, i), size+len(item)
	}
	return answers, flush()
}

// answerTo is the answer to a record that was read. Whether its sender may send
// was decided with the recording itself (reconcile.Recorder.Answers).
func answerTo(rec ledger.Record, g ledger.Recorded) answer {
	e := g.Entry
	x := answer{ActionKey: rec.ActionKey, Recorded: g.Verdict, State: e.State, Outcome: e.Outcome, Send: g.Send, Why: g.Why,
		Errors: append([]ledger.FieldError{}, g.Errors...), Warnings: []string{}}
	if e.ActionKey != "" {
		x.ProviderKey, x.IdempotencyKey = e.ProviderKey, e.EffectiveIdempotencyKey()
	}
	if g.Send == ledger.SendYes {
		x.Token = strconv.FormatInt(e.FencingToken, 10)
		if !e.SendBy.IsZero() {
			by := e.SendBy.UTC()
			x.SendBy = &by
		}
	}
	for _, u := range rec.Unknown {
		x.Warnings = append(x.Warnings, u+": not a member of a record, ignored")
	}
	x.Warnings = append(append(x.Warnings, rec.Doubts...), g.Warnings...)
	return x
}

// refusal is the answer to an item that could not be read.
func refusal(key string, errs []ledger.FieldError) answer {
	return answer{ActionKey: key, Recorded: ledger.RecordedRefused, Send: ledger.SendNo, Why: "refused: see errors", Errors: errs, Warnings: []string{}}
}

// writeAnswers answers in the form of the request.
func writeAnswers(w http.ResponseWriter, status int, how form, answers []answer) {
	kind, open, between, end := "application/json", "", "", "\n"
	switch how {
	case formArray:
		open, between, end = "[", ",\n", "]\n"
	case formLines:
		kind, between = "application/x-ndjson", "\n"
	}
	b := bytes.NewBufferString(open)
	var wide bytes.Buffer // an answer as JSON is written here, over several lines
	for i, x := range answers {
		if i > 0 {
			b.WriteString(between)
		}
		wide.Reset()
		err := render.JSON(&wide, x)
		if err == nil {
			err = json.Compact(b, wide.Bytes())
		}
		if err != nil {
			panic(err) // texts, a time and lists of texts have a JSON form
		}
	}
	if len(answers) > 0 || how != formLines {
		b.WriteString(end)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that went away sends it again, and is told the same
}

// lineTypes are the names under which one object a line travels.
var lineTypes = []string{"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines"}

// bodyLines says whether the type of a body is one object a line.
func bodyLines(r *http.Request) (bool, error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return false, problem(http.StatusUnsupportedMediaType, "encoding", "Content-Encoding %q is not taken; send the body as it is", c)
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return false, nil
	}
	kind, _, err := mime.ParseMediaType(given)
	switch {
	case err == nil && slices.Contains(lineTypes, kind):
		return true, nil
	case err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")):
		return false, nil
	}
	return false, problem(http.StatusUnsupportedMediaType, "content_type",
		"Content-Type %q is not taken; send application/json (an object or an array) or application/x-ndjson (one object a line)", given)
}

// limit is the largest report taken: a payload that may be kept must fit in.
func (a *API) limit() int { return max(bodyMax, 2*a.parse.PayloadMax+1<<20) }

// body reads the whole body, at most limit bytes in a.patience. It takes room for
// as much as a small one has, and only once that has come for all that may
// follow: a client that says much and sends little holds little. What gives its
// memory back is to be called when nothing of it is used any more.
func (a *API) body(w http.ResponseWriter, r *http.Request, limit int) (body []byte, give func(), err error) {
	tooLarge := problem(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than %d KiB; send less at once (nothing was done)", limit>>10)
	want := limit
	if r.ContentLength >= 0 {
		if r.ContentLength > int64(limit) {
			return nil, nil, tooLarge
		}
		want = int(r.ContentLength)
	}
	busy := problem(http.StatusServiceUnavailable, "busy", "too much is being sent at once; send it again in a moment")
	if give, err = a.small.wait(r.Context(), a.turn, min(want, smallBody)); err != nil {
		return nil, nil, busy
	}
	read := http.NewResponseController(w)
	end := time.Now().Add(a.patience)
	until := func(t time.Time) {
		// A server that cannot set deadlines (a test's recorder) has no slow clients.
		_ = read.SetReadDeadline(t)
	}
	until(end)
	var b bytes.Buffer
	b.Grow(min(want, smallBody) + bytes.MinRead) // no more than was taken of the budget
	from := http.MaxBytesReader(w, r.Body, int64(limit))
	_, err = io.CopyN(&b, from, smallBody)
	if err == nil && want > smallBody {
		// Its place among the small ones is given up once it has one among the large
		// ones, where nobody waits for a small one: so nobody waits for ever.
		giveSmall := give
		give, err = a.large.wait(r.Context(), a.turn, want)
		giveSmall()
		if err != nil {
			return nil, nil, busy
		}
		if r.ContentLength > 0 {
			b.Grow(want - b.Len() + bytes.MinRead)
		}
		for err == nil {
			until(earlier(end, time.Now().Add(a.turn)))
			_, err = io.CopyN(&b, from, smallBody)
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		until(time.Time{}) // else its passing would look as if the client had gone
		return b.Bytes(), give, nil
	}
	give()
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, problem(http.StatusRequestTimeout, "slow", "the body came too slowly: all of it must come within %v, and of a large one %d KiB in %v; nothing was done",
			a.patience, smallBody>>10, a.turn)
	}
	return nil, nil, problem(http.StatusBadRequest, "cut", "the body was cut short; nothing was done")
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// entry reads the entry that a path names, within ctx.
func (a *API) entry(ctx context.Context, r *http.Request) (ledger.Stored, error) {
	key := r.PathValue("key")
	st, err := a.ledger.Entry(ctx, key)
	if errors.Is(err, ledger.ErrNotFound) {
		return st, problem(http.StatusNotFound, "no_entry", "no entry %q; a key in a path is percent-encoded (a slash is %%2F)", key)
	}
	return st, err
}

var _ People = (*reconcile.Engine)(nil)
