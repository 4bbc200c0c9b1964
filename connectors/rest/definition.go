package rest

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// Defaults where a definition says nothing. Source: docs/rules.md, section 7.
const (
	defaultTimeout       = 20 * time.Second
	defaultLandsWithin   = 60 * time.Second
	defaultVisibleWithin = 2 * time.Minute
	defaultInFlightFor   = 15 * time.Minute
	defaultAbsentAfter   = 2
	defaultAbsentSpacing = 30 * time.Second
	defaultMargin        = 5 * time.Minute // clocks of two systems are nearer than that
	defaultMaxPages      = 20
)

var defaultRate = connectors.Rate{Calls: 5, Per: time.Second, Concurrent: 2}

// definition is a validated connector table.
type definition struct {
	p    *problems
	base *url.URL

	settings map[string]any
	used     map[string]bool // settings that something refers to
	lets     map[string]any
	opLets   map[string]any // of the operation being read

	query, headers map[string]*node
	buckets        map[string]string // names of rates, and the path where each stands
	bucketed       map[string]bool   // buckets that a block uses
	shaped         map[string]bool   // shapes that an operation uses

	info        connectors.Info
	timings     timings
	key         keyRule
	idempotency idempotencyRule
	auth        auth
	rules       []*rule
	rates       []rateHeader
	probes      []*probeBlock
	operations  map[string]*operation

	secrets []string // credentials
	hidden  []string // other values that environment gave to requests
}

// timings are the numbers that an operation may have of its own.
type timings struct {
	timeout, landsWithin, visibleWithin, looksBack, inFlightFor, absentSpacing, keepsKey time.Duration
	absentAfter                                                                          int
	keyScope                                                                             string
}

func (t *table) timings(or timings) timings {
	return timings{
		timeout:       t.positive("timeout", or.timeout),
		landsWithin:   t.duration("lands_within", or.landsWithin),
		visibleWithin: t.duration("visible_within", or.visibleWithin),
		looksBack:     t.positive("looks_back", or.looksBack),
		inFlightFor:   t.positive("in_flight_for", or.inFlightFor),
		absentSpacing: t.duration("absent_spacing", or.absentSpacing),
		keepsKey:      t.duration("keeps_key", or.keepsKey),
		absentAfter:   t.number("absent_after", or.absentAfter, 1, 100),
		keyScope:      t.oneOf("key_scope", or.keyScope, "account", "credential", "region"),
	}
}

// load validates the whole table. All mistakes come joined.
func load(cfg connectors.Config) (*definition, error) {
	p := &problems{}
	raw, _ := normal(cfg.Table).(map[string]any)
	if raw == nil {
		raw = map[string]any{}
	}
	d := &definition{p: p, used: map[string]bool{}, query: map[string]*node{}, headers: map[string]*node{},
		buckets: map[string]string{}, bucketed: map[string]bool{}, shaped: map[string]bool{}, operations: map[string]*operation{}}
	d.info = connectors.Info{Name: cfg.Name, Type: "rest", Version: version(raw)}

	given := map[string][]string{}
	p.expand("", raw, cfg.Env, given)
	d.keepSecrets(given)

	t := p.table("", raw)
	if typ := t.strOr("type", "rest"); typ != "rest" {
		t.fail("type", "%q cannot be opened here; write \"rest\"", typ)
	}
	if about := t.table("about"); about != nil {
		d.info.Title = about.strOr("title", "")
		about.strOr("pinned", "")
		about.finish()
	}
	d.constants(t)
	d.base = d.baseURL(t)
	d.timings = t.timings(timings{
		timeout: defaultTimeout, landsWithin: defaultLandsWithin, visibleWithin: defaultVisibleWithin, inFlightFor: defaultInFlightFor,
		absentSpacing: defaultAbsentSpacing, absentAfter: defaultAbsentAfter, keyScope: "account",
	})
	if d.info.Lane = t.strOr("lane", cfg.Name); d.info.Lane == "" && !p.has("lane") {
		t.fail("lane", "empty; write a name, or take it out")
	}
	d.readRates(t)
	d.params(t, "headers", staticOnly, d.headers)
	d.params(t, "query", staticOnly, d.query)
	d.readAuth(t)
	d.key = d.keyRule(t, keyRule{form: "as_is", digest: "base32hex"})
	d.idempotency = d.idempotencyRule(t, idempotencyRule{header: "Idempotent-Replayed", is: []string{"true"}})
	d.rules = d.errorRules(t, "errors", "connector")
	d.rates = d.rateHeaders(t)
	for _, pt := range t.tables("probe") {
		d.probes = append(d.probes, d.probe(pt))
	}
	facts := d.facts(t)
	shapes := d.shapes(t)
	ops := t.tables("operation")
	if !t.has("operation") || len(ops) == 0 && !p.has("operation") {
		t.fail("operation", "missing; describe at least one as [[connectors.%s.operation]]", cfg.Name)
	}
	for _, ot := range ops {
		d.operation(ot, shapes, facts)
	}
	t.finish()
	for _, name := range slices.Sorted(maps.Keys(d.settings)) {
		if !d.used[name] {
			p.add("settings."+name, "is used nowhere; take it out, or write {settings.%s}", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if !d.shaped[name] && len(p.errs) == 0 { // else what should use it may be the mistake
			p.add("shape."+name, "is used nowhere; take it out, or write shape = %q in an operation", name)
		}
	}
	if len(p.errs) == 0 { // else what should name it may be the mistake
		for _, name := range slices.Sorted(maps.Keys(d.buckets)) {
			if !d.bucketed[name] {
				p.add(d.buckets[name], "no block has bucket = %q, so the limit holds for nothing; take it out, or name the bucket in a block", name)
			}
		}
	}
	if errs := p.all(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	d.info.Scopes = map[string]string{"credential": scopeDigest(d.secrets...), "region": scopeDigest(d.base.Scheme, d.base.Host, d.base.Path)}
	d.info.HasProbe = len(d.probes) > 0
	d.info.KeyFold = d.key.folds
	for _, name := range slices.Sorted(maps.Keys(d.operations)) {
		op := d.operations[name]
		d.info.Operations = append(d.info.Operations, op.info)
		d.info.HasBatch = d.info.HasBatch || op.info.Lookup == connectors.LookupBatch
		d.info.KeyFold = d.info.KeyFold || op.key.folds
	}
	return d, nil
}

// version is the digest of a definition as it is written: without the values
// of environment, without credentials, and without what changes no answer.
func version(raw map[string]any) string {
	m := maps.Clone(raw)
	for _, cosmetic := range []string{"about", "facts", "rate", "lane", "type"} {
		delete(m, cosmetic)
	}
	if a, ok := m["auth"]; ok {
		m["auth"] = shapeOf(a)
	}
	b, _ := json.Marshal(m) // what came out of TOML always encodes; keys are sorted
	sum := sha256.Sum256(append([]byte("rest 1\n"), b...))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:16]
}

// scopeDigest tells values apart and gives none of them away: of 32 bits, many
// values fit each.
func scopeDigest(values ...string) string {
	values = slices.Clone(values)
	slices.Sort(values)
	b, _ := json.Marshal(slices.Compact(values)) // texts always encode
	sum := sha256.Sum256(append([]byte("scope 1\n"), b...))
	return hex.EncodeToString(sum[:4])
}

// shapeOf keeps the names of a table and drops its texts.
func shapeOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			m[k] = shapeOf(e)
		}
		return m
	case string:
		return ""
	}
	return v
}

// keepSecrets remembers what environment gave to places where secrets stand.
// What stands in auth, headers and query is a credential; a path or a body may
// hold one too (the address of a webhook is its password), and is only hidden.
func (d *definition) keepSecrets(given map[string][]string) {
	for path, values := range given {
		steps := strings.Split(path, ".")
		in := func(names ...string) bool {
			return slices.ContainsFunc(steps, func(s string) bool { return slices.Contains(names, s) })
		}
		switch {
		case path == "auth.oauth2.token_url" || path == "auth.oauth2.key_file": // where it is, not what it is
		case steps[0] == "auth", in("headers", "query"):
			d.secrets = append(d.secrets, values...)
		case in("path", "json", "form", "text", "graphql", "variables"):
			d.hidden = append(d.hidden, values...)
		}
	}
}

var settingName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// constants reads settings and let. A setting is its value, or a table with
// default, pattern and help.
func (d *definition) constants(t *table) {
	d.settings = map[string]any{}
	if st := t.table("settings"); st != nil {
		for _, name := range slices.Sorted(maps.Keys(st.m)) {
			v, _ := st.raw(name)
			if !settingName.MatchString(name) {
				st.fail(name, "is no name; use letters, digits, _ and -")
				continue
			}
			if _, isTable := v.(map[string]any); isTable {
				one := st.table(name)
				def, ok := one.raw("default")
				pattern := one.regexp("pattern")
				help := one.strOr("help", "")
				one.finish()
				if !ok {
					if help != "" {
						help = " (" + help + ")"
					}
					st.fail(name, "not set; write %s = \"…\" under settings%s", name, help)
					continue
				}
				d.checkPattern(one, def, pattern)
				v = def
			}
			if l, isList := v.([]any); isList {
				for _, e := range l {
					if _, ok := scalarText(e); !ok {
						st.fail(name, "holds %s; write a list of texts", kindName(e))
					}
				}
			} else if _, ok := scalarText(v); !ok {
				st.fail(name, "is %s; write text, a number or a list", kindName(v))
				continue
			}
			d.settings[name] = v
		}
	}
	d.lets = d.readLets(t)
}

func (d *definition) checkPattern(one *table, v any, pattern *regexp.Regexp) {
	if pattern == nil {
		return
	}
	whole := regexp.MustCompile(`^(?:` + pattern.String() + `)$`)
	vs, isList := v.([]any)
	if !isList {
		vs = []any{v}
	}
	for _, v := range vs {
		if text, _ := scalarText(v); !whole.MatchString(text) {
			one.fail("default", "%q does not match the pattern %q", text, pattern.String())
		}
	}
}

func (d *definition) readLets(t *table) map[string]any {
	lt := t.table("let")
	if lt == nil {
		return nil
	}
	lets := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(lt.m)) {
		v, _ := lt.raw(name)
		resolved, err := d.resolveLet(v)
		if err != nil {
			lt.fail(name, "%v", err)
			continue
		}
		lets[name] = resolved
	}
	return lets
}

// resolveLet puts settings into a constant.
func (d *definition) resolveLet(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if m := constantForm.FindString(v); m != "" && m == v {
			return d.constantValue(strings.Trim(v, "{}"))
		}
		return d.constant(v, nil)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = d.resolveLet(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case int64, float64, bool:
		return v, nil
	}
	return nil, fmt.Errorf("is %s; write text, a number or a list", kindName(v))
}

// constantValue is the value of settings.x or let.x.
func (d *definition) constantValue(name string) (any, error) {
	root, name, _ := strings.Cut(name, ".")
	if root == "settings" {
		d.used[name] = true
		if v, ok := d.settings[name]; ok {
			return v, nil
		}
		if d.p.seenSetting(name) {
			return "", nil // said where it stands
		}
		return nil, fmt.Errorf("unknown setting {settings.%s}; %s", name, suggest(name, slices.Sorted(maps.Keys(d.settings))))
	}
	if v, ok := d.opLets[name]; ok {
		return v, nil
	}
	if v, ok := d.lets[name]; ok {
		return v, nil
	}
	known := append(slices.Collect(maps.Keys(d.lets)), slices.Collect(maps.Keys(d.opLets))...)
	slices.Sort(known)
	return nil, fmt.Errorf("unknown constant {let.%s}; %s", name, suggest(name, known))
}

// seenSetting tells whether a mistake of this setting was reported already.
func (p *problems) seenSetting(name string) bool {
	return slices.ContainsFunc(p.errs, func(err error) bool {
		var f *connectors.FieldError
		return errors.As(err, &f) && f.Path == "settings."+name
	})
}

// strings reads a list of texts in which a single {settings.x} may stand for
// all of it.
func (d *definition) strings(t *table, key string) []string {
	if _, ok := t.m[key]; !ok {
		t.raw(key)
		return nil
	}
	if s, ok := t.m[key].(string); ok {
		if m := constantForm.FindString(s); m == s && m != "" {
			t.raw(key)
			v, err := d.constantValue(strings.Trim(s, "{}"))
			if err != nil {
				t.fail(key, "%v", err)
				return nil
			}
			one := &table{path: t.path, m: map[string]any{key: v}, asked: map[string]bool{}, p: t.p}
			return append([]string{}, one.list(key)...)
		}
	}
	out := append([]string{}, t.list(key)...) // an empty list is one
	for i, s := range out {
		resolved, err := d.constant(s, nil)
		if err != nil {
			t.fail(key, "%v", err)
		}
		out[i] = resolved
	}
	return out
}

var hostPart = func(v string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9._~-]+$`).MatchString(v) {
		return "", errors.New("inside an address only letters, digits, . _ ~ and - may stand")
	}
	return v, nil
}

func (d *definition) baseURL(t *table) *url.URL {
	text, ok := t.str("base_url")
	if !ok {
		if !t.has("base_url") {
			t.fail("base_url", "missing; write the address that all paths start from, such as %q", "https://billing.example/api")
		}
		return &url.URL{}
	}
	encode := hostPart
	if constantForm.FindString(text) == text {
		encode = nil // the whole address is the setting
	}
	text, err := d.constant(text, encode)
	if err != nil {
		t.fail("base_url", "%v", err)
		return &url.URL{}
	}
	u, err := parseURL(text)
	if err != nil {
		t.fail("base_url", "%v", err)
		return &url.URL{}
	}
	return u
}

// parseURL accepts an absolute http or https address. The error does not
// repeat it: it may hold a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no address; write one such as \"https://billing.example/api\"")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, errors.New("must start with https:// and name a host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("must end with the path: write parameters as query = { name = \"value\" }")
	}
	return u, nil
}

func (d *definition) readRates(t *table) {
	for _, rt := range t.tables("rate") {
		r := connectors.Rate{
			Bucket: rt.strOr("name", ""), Calls: rt.number("calls", 0, 1, 1<<30),
			Per: rt.positive("per", 0), Concurrent: rt.number("concurrent", 0, 1, 10_000),
		}
		if (r.Calls == 0) != (r.Per == 0) {
			rt.fail("per", "calls and per go together: calls = 10, per = \"1s\"")
		}
		if r.Calls == 0 && r.Concurrent == 0 {
			rt.fail("calls", "missing; write calls and per, or concurrent")
		}
		rt.finish()
		if r.Bucket != "" {
			d.buckets[r.Bucket] = rt.at("name")
		}
		d.info.Rates = append(d.info.Rates, r)
	}
	if !slices.ContainsFunc(d.info.Rates, func(r connectors.Rate) bool { return r.Bucket == "" }) {
		d.info.Rates = append([]connectors.Rate{defaultRate}, d.info.Rates...)
	}
}

func (d *definition) facts(t *table) map[string]string {
	ft := t.table("facts")
	if ft == nil {
		return nil
	}
	facts := map[string]string{}
	for name := range ft.m {
		facts[name] = ft.strOr(name, "")
	}
	return facts
}

func (d *definition) shapes(t *table) map[string]map[string]any {
	st := t.table("shape")
	if st == nil {
		return nil
	}
	shapes := map[string]map[string]any{}
	for name := range st.m {
		if one := st.table(name); one != nil {
			shapes[name] = one.m
		}
	}
	return shapes
}
