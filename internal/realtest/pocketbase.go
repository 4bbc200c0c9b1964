package realtest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/recovery-ledger/reconcile/internal/testproc"
)

// PocketBase is a running PocketBase with an empty database.
type PocketBase struct {
	// URL is its address, http://127.0.0.1:PORT, without a slash at the end.
	URL string
	// Token is a superuser's, valid for the time of a test. PocketBase wants it
	// bare in the header Authorization, and takes it after "Bearer " too.
	Token string

	proc *testproc.Process
}

// StartPocketBase starts a PocketBase of its own for the test.
func StartPocketBase(t testing.TB) *PocketBase {
	t.Helper()
	bin := program(t, "pocketbase")
	pb, err := startPocketBase(t, bin)
	if err != nil {
		t.Fatalf("start PocketBase: %v", err)
	}
	return pb
}

func startPocketBase(t testing.TB, bin string) (*PocketBase, error) {
	g := group(t, "pocketbase")
	data := filepath.Join(g.Dir, "data")
	login := map[string]string{"identity": "root@example.test", "password": "only-for-this-test"}
	if err := g.Run(bin, "superuser", "upsert", login["identity"], login["password"], "--dir", data); err != nil {
		return nil, err
	}
	for range 5 {
		port, err := testproc.FreePort()
		if err != nil {
			return nil, err
		}
		addr := "127.0.0.1:" + strconv.Itoa(port)
		cmd := g.Command(bin, "serve", "--http", addr, "--dir", data, "--automigrate=0")
		p, err := g.Start(cmd, "pocketbase.log", syscall.SIGTERM)
		if err != nil {
			return nil, err
		}
		pb := &PocketBase{URL: "http://" + addr, proc: p}
		var auth struct{ Token string }
		err = p.WaitReady(startPatience, func(ctx context.Context) error {
			return call(ctx, http.MethodPost, pb.URL+"/api/collections/_superusers/auth-with-password", "", login, &auth)
		})
		if err == nil {
			pb.Token = auth.Token
			return pb, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no port stayed free")
}

// CreateCollection makes a collection with text fields of any length up to
// 5,000 characters, of which none is required and none unique: a create that is
// sent twice makes two records. Reading, creating, changing and removing its
// records need no token.
func (pb *PocketBase) CreateCollection(t testing.TB, name string, fields ...string) {
	t.Helper()
	type field struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	type collection struct {
		Name       string  `json:"name"`
		Type       string  `json:"type"`
		Fields     []field `json:"fields"`
		ListRule   string  `json:"listRule"`
		ViewRule   string  `json:"viewRule"`
		CreateRule string  `json:"createRule"`
		UpdateRule string  `json:"updateRule"`
		DeleteRule string  `json:"deleteRule"`
	}
	c := collection{Name: name, Type: "base"} // an empty rule allows everybody
	for _, f := range fields {
		c.Fields = append(c.Fields, field{Name: f, Type: "text"})
	}
	if err := call(t.Context(), http.MethodPost, pb.URL+"/api/collections", pb.Token, c, nil); err != nil {
		t.Fatalf("create collection %s: %v", name, err)
	}
}

// SetRules changes who may list and view the records of a collection: nil
// leaves it to superusers, an empty text allows everybody, another text is a
// filter over the records. A list rule hides records, it refuses nobody.
// Source: seen with 0.36.8; a caller whom the rule excludes gets 200 and none.
func (pb *PocketBase) SetRules(t testing.TB, collection string, list, view *string) {
	t.Helper()
	rules := map[string]*string{"listRule": list, "viewRule": view}
	if err := call(t.Context(), http.MethodPatch, pb.URL+"/api/collections/"+collection, pb.Token, rules, nil); err != nil {
		t.Fatalf("set rules of %s: %v", collection, err)
	}
}

// RecordsURL is where the records of a collection are listed and created, at
// the given base: the URL of PocketBase, or of a Proxy before it.
func RecordsURL(base, collection string) string {
	return base + "/api/collections/" + url.PathEscape(collection) + "/records"
}

// Create makes one record, straight, and returns its id.
func (pb *PocketBase) Create(t testing.TB, collection string, fields map[string]string) string {
	t.Helper()
	var rec struct{ ID string }
	if err := call(t.Context(), http.MethodPost, RecordsURL(pb.URL, collection), pb.Token, fields, &rec); err != nil {
		t.Fatalf("create record: %v", err)
	}
	return rec.ID
}

// Delete removes one record.
func (pb *PocketBase) Delete(t testing.TB, collection, id string) {
	t.Helper()
	if err := call(t.Context(), http.MethodDelete, RecordsURL(pb.URL, collection)+"/"+id, pb.Token, nil, nil); err != nil {
		t.Fatalf("delete record: %v", err)
	}
}

// Records reads all records of a collection, in the order of their ids.
func (pb *PocketBase) Records(t testing.TB, collection string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for page := 1; ; page++ {
		var got struct {
			Items      []map[string]any
			TotalPages int
		}
		// 1000 is the most that PocketBase gives at once.
		u := RecordsURL(pb.URL, collection) + "?sort=id&perPage=1000&page=" + strconv.Itoa(page)
		if err := call(t.Context(), http.MethodGet, u, pb.Token, nil, &got); err != nil {
			t.Fatalf("read records of %s: %v", collection, err)
		}
		all = append(all, got.Items...)
		if page >= got.TotalPages {
			return all
		}
	}
}

// CountBy counts the records of a collection by the text of a field: with the
// action key as that field, 2 is a duplicate and none is missing from the map.
func (pb *PocketBase) CountBy(t testing.TB, collection, field string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, r := range pb.Records(t, collection) {
		text, ok := r[field].(string)
		if !ok {
			t.Fatalf("record %v of %s has no text field %q", r["id"], collection, field)
		}
		n[text]++
	}
	return n
}

// LimitRate makes PocketBase refuse (429) what a client sends beyond so many
// requests in so many seconds; 0 requests lifts the limit. Superusers are not
// limited, nor are other clients than the one that sends too much.
func (pb *PocketBase) LimitRate(t testing.TB, requests, seconds int) {
	t.Helper()
	type rule struct {
		Label       string `json:"label"`
		MaxRequests int    `json:"maxRequests"`
		Duration    int    `json:"duration"`
	}
	limits := map[string]any{"enabled": false}
	if requests > 0 {
		limits = map[string]any{"enabled": true, "rules": []rule{{Label: "/api/", MaxRequests: requests, Duration: seconds}}}
	}
	err := call(t.Context(), http.MethodPatch, pb.URL+"/api/settings", pb.Token, map[string]any{"rateLimits": limits}, nil)
	if err != nil {
		t.Fatalf("set rate limit: %v", err)
	}
}

// Pause stops the process in the middle of whatever it does, as a machine
// without memory would; Continue lets it go on.
func (pb *PocketBase) Pause() { pb.proc.Suspend() }

// Continue ends a Pause.
func (pb *PocketBase) Continue() { pb.proc.Signal(syscall.SIGCONT) }
