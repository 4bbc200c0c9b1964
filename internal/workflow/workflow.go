// Package workflow plays the workflow that reconcile is there for: it sends
// each action once over HTTP, sees whatever it sees, and writes one record of
// the result as JSON Lines, the way a workflow hands its results to a recovery
// ledger. The demonstration and the proof against a real application share it.
//
// It knows nothing of the ledger on purpose: what it writes is what the
// documented record format allows anybody to write.
package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// Action is one thing that a workflow means to happen once.
type Action struct {
	Key        string // action key; the payload carries it too
	Workflow   string
	Version    string
	Connector  string
	Operation  string
	RecordID   string
	Subject    string
	OutcomeKey string
	Owner      string
	Payload    json.RawMessage
}

// Attempt is what the workflow saw of its one try. The JSON names are those of
// the record format.
type Attempt struct {
	AttemptID  string     `json:"attempt_id"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"` // nil: the workflow died before it had a result
	Status     string     `json:"status"`
	HTTPStatus int        `json:"http_status,omitempty"`
	ErrorClass string     `json:"error_class,omitempty"`
	ErrorCode  string     `json:"error_code,omitempty"`
	Message    string     `json:"message,omitempty"`
	RetryAfter string     `json:"retry_after,omitempty"`
	RemoteID   string     `json:"remote_id,omitempty"`
	SendBy     *time.Time `json:"send_by,omitempty"`
}

// OK says whether the workflow knows that its action was done.
func (a Attempt) OK() bool { return a.Status == "ok" }

// Record is one line of the file that the workflow leaves.
type Record struct {
	ActionKey       string          `json:"action_key"`
	Workflow        string          `json:"workflow"`
	WorkflowVersion string          `json:"workflow_version,omitempty"`
	Connector       string          `json:"connector"`
	Operation       string          `json:"operation"`
	RecordID        string          `json:"record_id,omitempty"`
	Subject         string          `json:"subject,omitempty"`
	OutcomeKey      string          `json:"outcome_key,omitempty"`
	Owner           string          `json:"owner,omitempty"`
	OccurredAt      time.Time       `json:"occurred_at"`
	Payload         json.RawMessage `json:"payload"`
	Attempts        []Attempt       `json:"attempts"`
}

// RecordOf puts an action and its attempts into one record.
func RecordOf(a Action, attempts ...Attempt) Record {
	return Record{
		ActionKey: a.Key, Workflow: a.Workflow, WorkflowVersion: a.Version, Connector: a.Connector, Operation: a.Operation,
		RecordID: a.RecordID, Subject: a.Subject, OutcomeKey: a.OutcomeKey, Owner: a.Owner,
		OccurredAt: attempts[0].StartedAt, Payload: a.Payload, Attempts: attempts,
	}
}

// Client sends actions. It never sends one twice by itself: each call has a
// connection of its own, since Go's client may otherwise repeat a request on a
// kept one that breaks.
type Client struct {
	Timeout time.Duration // of one call
	Header  http.Header   // with every request; may be nil
	IDPath  string        // member of the answer that holds the record's id: "id"
	Code    func(body []byte) (code, message string)

	http http.Client
	once sync.Once
}

// Send posts the action's payload to an address, once, and says what came back.
func (c *Client) Send(ctx context.Context, to string, a Action) Attempt {
	c.once.Do(func() {
		c.http.Transport = &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}
	})
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	at := Attempt{AttemptID: a.Key + "/1", StartedAt: time.Now().UTC()}
	status, header, body, err := c.post(ctx, to, a.Payload)
	end := time.Now().UTC()
	at.FinishedAt = &end
	switch {
	case err != nil:
		at.Status, at.ErrorClass, at.Message = "error", "network", err.Error()
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			at.Message = ue.Err.Error() // without the address, which is the same for all
		}
		if errors.Is(err, context.DeadlineExceeded) {
			at.ErrorClass = "timeout"
		}
	case status/100 == 2:
		at.Status, at.HTTPStatus = "ok", status
		var m map[string]any
		if json.Unmarshal(body, &m) == nil {
			at.RemoteID, _ = m[c.IDPath].(string)
		}
		if at.RemoteID == "" {
			// A success without the proof of one: the answer was cut.
			at.Status, at.ErrorClass, at.Message = "error", "network", "the answer carries no id"
		}
	default:
		at.Status, at.HTTPStatus, at.RetryAfter = "error", status, header.Get("Retry-After")
		if c.Code != nil {
			at.ErrorCode, at.Message = c.Code(body)
		}
	}
	return at
}

func (c *Client) post(ctx context.Context, to string, body []byte) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	for k, vs := range c.Header {
		req.Header[k] = vs
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("answer cut: %w", err)
	}
	return resp.StatusCode, resp.Header, answer, nil
}

// Each calls do for every index below n, at most width at once, and waits for
// all of them.
func Each(n, width int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// WriteFile writes records as JSON Lines, in their order.
func WriteFile(path string, recs []Record) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, r := range recs {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("record %q: %w", r.ActionKey, err)
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
