package httpapi_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/httpapi"
	"github.com/recovery-ledger/reconcile/internal/pgtest"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/ledger/sqlstore"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// world is one test's ledger, and the interface over it.
type world struct {
	t      *testing.T
	url    string
	store  *sqlstore.Store
	ledger *trouble
	api    *httpapi.API
	log    *safeBuffer
	tokens map[string]string // by their scopes

	connectors map[string]connectors.Connector // none, unless a test adds some before requests
}

// trouble is a ledger that can be made to fail.
type trouble struct {
	*sqlstore.Store
	mu     sync.Mutex
	record func(n int) error // asked before the n-th Record, from 1
	calls  int
}

func (l *trouble) Record(ctx context.Context, recs []ledger.Record, decide ledger.Decider) ([]ledger.Recorded, error) {
	l.mu.Lock()
	l.calls++
	n, f := l.calls, l.record
	l.mu.Unlock()
	if f != nil {
		if err := f(n); err != nil {
			return nil, err
		}
	}
	return l.Store.Record(ctx, recs, decide)
}

func (l *trouble) when(f func(n int) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.record = 0, f
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// onBoth runs a test on a fresh ledger of either kind.
func onBoth(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) { f(t, newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))) })
	t.Run("postgres", func(t *testing.T) { f(t, newWorld(t, pgtest.Reused(t, migrated, emptied))) })
}

// migrated makes the schema, and keeps how its shared values begin.
func migrated(url string) error {
	if err := sqlstore.Migrate(context.Background(), url, io.Discard); err != nil {
		return err
	}
	return execute("postgres", url, `CREATE SCHEMA begin; CREATE TABLE begin.meta AS TABLE public.meta`)
}

func emptied(url string) error {
	return execute("postgres", url, `DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'reconcile_schema' LOOP
			EXECUTE format('DELETE FROM public.%I', r.tablename);
		END LOOP;
		INSERT INTO public.meta TABLE begin.meta;
	END $$`)
}

// execute runs statements beside the store.
func execute(driver, dsn string, statements ...string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

// breakCommits makes every transaction that adds an entry fail: on PostgreSQL
// when it commits, on SQLite at the latest moment that it offers.
func breakCommits(t *testing.T, w *world) {
	t.Helper()
	if file, ok := strings.CutPrefix(w.url, "sqlite:"); ok {
		// History is written last.
		if err := execute("sqlite", file, `CREATE TRIGGER refuse AFTER INSERT ON history BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Cleanup(func() {
		if err := execute("postgres", w.url, `DROP FUNCTION refuse() CASCADE`); err != nil {
			t.Error(err)
		}
	})
	if err := execute("postgres", w.url, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`,
		`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
}

// sendPolicy lets entries be tried again, so that they come to each state.
func sendPolicy() reconcile.Policies {
	p := reconcile.DefaultPolicy()
	return reconcile.Policies{List: []reconcile.Policy{p}, Version: "v1"}
}

func newWorld(t *testing.T, ledgerURL string) *world {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), ledgerURL, sqlstore.Options{AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w := &world{t: t, url: ledgerURL, store: store, ledger: &trouble{Store: store}, log: &safeBuffer{}, tokens: map[string]string{}}
	policies := sendPolicy()
	owners := reconcile.Owners{"revops": {ID: "revops"}}
	engine, err := reconcile.New(reconcile.Options{Store: store, Policies: policies, Owners: owners})
	if err != nil {
		t.Fatal(err)
	}
	w.connectors = map[string]connectors.Connector{}
	w.api = httpapi.New(httpapi.Options{Ledger: w.ledger, People: engine, Recorder: reconcile.Recorder{Policies: policies, Owners: owners, Connectors: w.connectors},
		Version: "test", Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	return w
}

// token is a token with these scopes, made once.
func (w *world) token(scopes ...ledger.Scope) string {
	w.t.Helper()
	var words []string
	for _, s := range scopes {
		words = append(words, string(s))
	}
	name := strings.Join(words, ".")
	if name == "" {
		name = "nothing"
	}
	if w.tokens[name] == "" {
		token := ledger.NewToken()
		if _, err := w.store.CreateToken(w.t.Context(), name, scopes, ledger.TokenDigest(token)); err != nil {
			w.t.Fatal(err)
		}
		w.tokens[name] = token
	}
	return w.tokens[name]
}

// request is made by w.do; header lines are "Name: value".
func (w *world) request(method, path, body, token string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		r.Header.Del(name)
		if v := strings.TrimSpace(value); v != "" {
			r.Header.Set(name, v)
		}
	}
	return r
}

// do answers a request through the handler.
func (w *world) do(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	return rec
}

// post records a body with a token that may, and wants a status.
func (w *world) post(path, body string, want int, headers ...string) string {
	w.t.Helper()
	rec := w.do(w.request(http.MethodPost, path, body, w.token(ledger.ScopeIngest), headers...))
	if rec.Code != want {
		w.t.Fatalf("POST %s: status %d, want %d: %s", path, rec.Code, want, rec.Body)
	}
	return rec.Body.String()
}

func (w *world) get(path string, want int) string {
	w.t.Helper()
	rec := w.do(w.request(http.MethodGet, path, "", w.token(ledger.ScopeRead)))
	if rec.Code != want {
		w.t.Fatalf("GET %s: status %d, want %d: %s", path, rec.Code, want, rec.Body)
	}
	return rec.Body.String()
}

func (w *world) act(key, body string, want int) string {
	w.t.Helper()
	rec := w.do(w.request(http.MethodPost, "/v1/entries/"+key+"/actions", body, w.token(ledger.ScopeOperate)))
	if rec.Code != want {
		w.t.Fatalf("action on %s: status %d, want %d: %s", key, rec.Code, want, rec.Body)
	}
	return rec.Body.String()
}

// stored is an entry as the ledger has it.
func (w *world) stored(key string) ledger.Stored {
	w.t.Helper()
	st, err := w.store.Entry(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// entries is how many entries there are.
func (w *world) entries() int {
	w.t.Helper()
	_, n, err := w.store.Count(w.t.Context(), ledger.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// lane is a connector that has one, and answers nothing.
type lane string

// Info implements connectors.Connector.
func (l lane) Info() connectors.Info { return connectors.Info{Name: string(l), Lane: string(l)} }

// Lookup implements connectors.Connector.
func (lane) Lookup(context.Context, connectors.Query) (connectors.Answer, error) {
	return connectors.Answer{}, errors.New("it answers nothing")
}

// decoded reads JSON strictly as one value.
func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("more than one value: %s", text)
	}
	return v
}

// answer is one answer to an item.
type answer struct {
	ActionKey      string              `json:"action_key"`
	Recorded       string              `json:"recorded"`
	State          string              `json:"state"`
	Outcome        string              `json:"outcome"`
	Send           string              `json:"send"`
	Why            string              `json:"why"`
	ProviderKey    string              `json:"provider_key"`
	IdempotencyKey string              `json:"idempotency_key"`
	Token          string              `json:"token"`
	SendBy         *time.Time          `json:"send_by"`
	Errors         []ledger.FieldError `json:"errors"`
	Warnings       []string            `json:"warnings"`
}

// record is a record with one attempt; more is put behind its status.
func record(key, status, more string) string {
	return `{"action_key":"` + key + `","workflow":"w","connector":"crm","operation":"contact.create","attempts":[{"attempt_id":"a1","status":"` + status + `"` + more + `}]}`
}

// failed is a record of an action that needs a person: the policy tries a
// permanent failure no more.
func failed(key string) string { return record(key, "error", `,"error_class":"validation"`) }
