package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/recovery-ledger/reconcile/internal/chaos/provider"
)

// Action is the job: one thing that is to happen once.
type Action struct {
	Key      string        `json:"key" river:"unique"`
	Provider provider.Kind `json:"provider"`
}

// Kind implements river.JobArgs.
func (Action) Kind() string { return "action" }

// InsertOpts implements river.JobArgsWithInsertOpts: an insert whose answer was
// lost can be repeated. In every state, or one that was given to a person would
// be inserted a second time.
func (Action) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: rivertype.JobStates()}}
}

// settings are how a worker process works. They travel as JSON in one argument.
type settings struct {
	Database string
	Provider string
	Careful  bool // looks up before it sends
	Tuned    bool
	Call     time.Duration
	Quiet    time.Duration // from a send until its effect must be seen
	Rescue   time.Duration // of Tuned
}

// worker does actions.
type worker struct {
	river.WorkerDefaults[Action]
	s    settings
	http *http.Client
}

// errKnown marks an error after which it is known that nothing was done.
const errKnown = "not done: "

// Work does one action. The plain one is what River's own documentation asks
// for: return an error, and River tries again; "already exists" is a success.
func (w *worker) Work(ctx context.Context, job *river.Job[Action]) error {
	if w.s.Careful && job.Attempt > 1 {
		done, err := w.before(ctx, job)
		if done || err != nil {
			return err
		}
	}
	err := w.send(ctx, job.Args)
	if err != nil && w.s.Careful && job.Args.Provider == provider.Neither && !strings.HasPrefix(err.Error(), errKnown) {
		return river.JobCancel(fmt.Errorf("outcome unknown, and nobody can be asked: a person must look: %w", err))
	}
	return err
}

// before looks whether an earlier attempt has done it. Where nobody can be
// asked, and nothing says that it was not done, a person decides.
func (w *worker) before(ctx context.Context, job *river.Job[Action]) (done bool, err error) {
	if job.Args.Provider != provider.Neither {
		return w.look(ctx, job.Args)
	}
	if n := len(job.Errors); n == 0 || !strings.HasPrefix(job.Errors[n-1].Error, errKnown) {
		return false, river.JobCancel(errors.New("outcome unknown, and nobody can be asked: a person must look"))
	}
	return false, nil
}

func (w *worker) send(ctx context.Context, a Action) error {
	body, err := json.Marshal(map[string]any{"reference": a.Key, "amount_cents": 1990})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.s.Provider+"/"+string(a.Provider)+"/actions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	status, answer, err := w.do(req)
	switch {
	case err != nil:
		return err
	case status == http.StatusConflict: // it exists: an earlier attempt made it
		return nil
	case status == http.StatusTooManyRequests:
		return errors.New(errKnown + "429")
	case status/100 != 2:
		return fmt.Errorf("HTTP %d", status)
	}
	var r struct{ ID string }
	if err := json.Unmarshal(answer, &r); err != nil || r.ID == "" {
		return errors.New("no id in the answer")
	}
	return nil
}

func (w *worker) look(ctx context.Context, a Action) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.s.Provider+"/"+string(a.Provider)+"/actions?reference="+url.QueryEscape(a.Key), nil)
	if err != nil {
		return false, err
	}
	status, answer, err := w.do(req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("look: HTTP %d", status)
	}
	if err != nil {
		return false, err
	}
	var r struct {
		Data []struct{ Reference string }
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return false, err
	}
	return len(r.Data) > 0 && r.Data[0].Reference == a.Key, nil
}

func (w *worker) do(req *http.Request) (int, []byte, error) {
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end below
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// retry is the tuned policy: a retry waits until what an unanswered request did
// must be visible, then goes on quickly.
type retry struct{ quiet time.Duration }

// NextRetry implements river.ClientRetryPolicy.
func (r retry) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(r.quiet + time.Duration(len(job.Errors))*500*time.Millisecond)
}

// config is River's as it comes, or as its documentation lets one tune it.
func (s settings) config() *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{s: s, http: &http.Client{Timeout: s.Call}})
	c := &river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, Workers: workers}
	if s.Tuned {
		c.JobTimeout = 3 * s.Call
		c.RescueStuckJobsAfter = s.Rescue
		c.RetryPolicy = retry{s.Quiet}
		c.FetchCooldown = 20 * time.Millisecond
	}
	return c
}

// work is the process of a worker: it runs until a signal, and then stops as
// River's documentation says.
func work(arg string) error {
	var s settings
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(context.Background(), s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), s.config())
	if err != nil {
		return err
	}
	if err := client.Start(context.Background()); err != nil {
		return err
	}
	<-ctx.Done()
	soft, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := client.Stop(soft); err != nil {
		hard, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		return client.StopAndCancel(hard)
	}
	return nil
}
