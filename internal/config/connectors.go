package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/duration"
	"github.com/recovery-ledger/reconcile/internal/nearest"
)

// ConnectorTable is one [connectors.NAME] as written: ${NAME} is not yet
// expanded, which the connector does where a value is used.
type ConnectorTable struct {
	Name  string
	Table map[string]any
}

// readConnectors keeps the tables. What they may hold, the connector's own
// declaration says: see OpenConnectors.
func (c *Config) readConnectors(t *table) {
	v, ok := t.value("connectors")
	if !ok {
		return
	}
	m, isTable := v.(map[string]any)
	if !isTable {
		t.refuse("connectors", "is %s; write a table for each, like [connectors.NAME]", kindOf(v))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		body, isTable := m[name].(map[string]any)
		path := join("connectors", name)
		if !isTable {
			t.refuse(path, "is %s; write a table: [%s]", kindOf(m[name]), path)
			continue
		}
		if typ, isText := body["type"].(string); !isText || typ == "" {
			t.refuse(path, `has no type; write type = "rest", or one that "reconcile connectors" lists`)
		}
		c.Connectors = append(c.Connectors, ConnectorTable{Name: name, Table: body})
		noteConnector(t, path, body, nil)
		t.r.secrets = append(t.r.secrets, connectorSecrets(body, t.r.env)...)
	}
}

// secretTables are where a definition holds credentials; everything below them
// is shown only as far as it is a name of the environment, or public.
var secretTables = []string{"auth", "headers", "query", "dsn"}

// public are the keys below auth that say how and where a credential is got, and
// hold none themselves.
var public = map[string][]string{
	"oauth2": {"grant", "token_url", "key_file", "scope", "audience"},
	"login":  {"method", "lasts"},
}

// isPublic takes a path below a connector's table.
func isPublic(path []string) bool {
	return len(path) == 3 && path[0] == "auth" && slices.Contains(public[path[1]], path[2])
}

// noteConnector notes what a definition says, leaf by leaf. in is the path below
// the connector's table.
func noteConnector(t *table, path string, v any, in []string) {
	secret := !isPublic(in) && slices.ContainsFunc(in, func(k string) bool { return slices.Contains(secretTables, k) })
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			noteConnector(t, join(path, k), v[k], append(slices.Clip(in), k))
		}
		return
	case []any:
		for i, item := range v {
			noteConnector(t, join(path, strconv.Itoa(i)), item, append(slices.Clip(in), strconv.Itoa(i)))
		}
		return
	case string:
		if secret && !onlyNames(v) {
			v = redacted
		}
		noteAt(t, path, RedactURL(v))
	default:
		if secret {
			noteAt(t, path, redacted)
			return
		}
		noteAt(t, path, fmt.Sprint(v))
	}
}

func noteAt(t *table, path, value string) {
	t.r.settings = append(t.r.settings, Setting{Key: path, Value: value, Source: fmt.Sprintf("%s:%d", t.src.name, t.src.line(path))})
}

// onlyNames says whether a text holds nothing but ${NAME} and {placeholder}.
func onlyNames(s string) bool {
	for s != "" {
		s = strings.TrimPrefix(s, "$")
		inner, after, ok := strings.Cut(s, "}")
		if !ok || !strings.HasPrefix(inner, "{") {
			return false
		}
		s = after
	}
	return true
}

// Bytes of the shortest text that is looked for in messages: of a credential
// what redact looks for at all, of other texts what no word is by chance.
const (
	shortestCredential = 4
	shortestText       = 8
)

// names are the keys below auth that say who we are: no word that is one by
// chance is looked for.
var names = []string{"user", "client_id"}

// connectorSecrets returns what the environment puts into a definition, and
// the texts that stand in its auth table themselves.
func connectorSecrets(v any, env func(string) (string, bool)) []string {
	var found []string
	add := func(s string, credential bool) {
		if len(s) >= shortestText || credential && len(s) >= shortestCredential {
			found = append(found, s)
		}
	}
	var walk func(v any, in []string)
	walk = func(v any, in []string) {
		auth := slices.Contains(in, "auth")
		credential := auth && !slices.Contains(names, in[len(in)-1])
		switch v := v.(type) {
		case map[string]any:
			for k, sub := range v {
				walk(sub, append(slices.Clip(in), k))
			}
		case []any:
			for _, sub := range v {
				walk(sub, in)
			}
		case string:
			if isPublic(in) {
				found = append(found, credentials(expandNames(v, env))...)
				return
			}
			if auth && !strings.Contains(v, "${") {
				add(v, credential)
			}
			_ = expandNames(v, func(name string) (string, bool) {
				value, set := env(name)
				if set {
					add(value, credential)
				}
				return value, set
			})
		}
	}
	walk(v, nil)
	return found
}

// OpenConnectors opens every [connectors.NAME], which checks the whole
// definition and reaches no system, and then the policies against what the
// connectors can do. All mistakes come together, as Errors with file and line.
// pacer gives the pacer of a lane; nil paces nothing.
//
// It completes Policies.Version by the versions of the opened definitions
// (those built in are part of them) and may add Warnings.
func (c *Config) OpenConnectors(reg *connectors.Registry, pacer func(lane string) connectors.Pacer) (map[string]connectors.Connector, error) {
	opened, errs := c.openConnectors(reg, pacer)
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	return opened, nil
}

func (c *Config) openConnectors(reg *connectors.Registry, pacer func(lane string) connectors.Pacer) (map[string]connectors.Connector, Errors) {
	opened := make(map[string]connectors.Connector, len(c.Connectors))
	var errs Errors
	for _, t := range c.Connectors {
		path := join("connectors", t.Name)
		typ, _ := t.Table["type"].(string)
		if typ == "" {
			continue // said when the config was read
		}
		d, ok := reg.Descriptor(typ)
		if !ok {
			errs = append(errs, c.fieldError(path+".type", fmt.Sprintf("%q is not a type of connector%s; known are %s",
				typ, nearest.Hint(typ, reg.Types()), strings.Join(reg.Types(), ", "))))
			continue
		}
		cfg := connectors.Config{Name: t.Name, Table: t.Table, Env: c.env}
		if pacer != nil {
			lane, _ := t.Table["lane"].(string)
			cfg.Pacer = pacer(or(lane, t.Name))
		}
		conn, err := d.Open(cfg)
		if err != nil {
			errs = append(errs, c.connectorErrors(path, err)...)
			continue
		}
		opened[t.Name] = conn
		c.noteDefaults(t, conn.Info())
	}
	if len(errs) > 0 {
		return nil, errs
	}
	c.checkOperations(opened)
	c.checkEncrypted()
	c.Policies.Version = c.version(opened)
	return opened, nil
}

// checkEncrypted warns of an address that credentials and payloads would reach
// in clear. It is no mistake: a system may stand in a network of its own.
func (c *Config) checkEncrypted() {
	for _, t := range c.Connectors {
		path := join("connectors", t.Name)
		auth, _ := t.Table["auth"].(map[string]any)
		oauth, _ := auth["oauth2"].(map[string]any)
		for _, a := range []struct {
			path  string
			value any
		}{
			{"base_url", t.Table["base_url"]},
			{"auth.oauth2.token_url", oauth["token_url"]},
		} {
			text, _ := a.value.(string)
			if host := clearHost(expandNames(text, c.env)); host != "" {
				at := join(path, a.path)
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s:%d: %s: http to %s sends credentials and payloads unencrypted; write https:// where the system takes it",
					c.src.name, c.src.line(at), at, host))
			}
		}
	}
}

// clearHost is the host of a plain http address, "" where calls are encrypted,
// stay on this machine, or go to a test host.
func clearHost(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme, "http") {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, 6.3: never leaves the host
		return ""
	}
	if strings.HasSuffix(host, ".test") { // RFC 6761, 6.2: no name of the public network
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return ""
	}
	return host
}

// expandNames puts the environment into a text. A name that is not set stays:
// the connector refuses it where it is used.
func expandNames(s string, env func(string) (string, bool)) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(s, "${")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		s = after
		if name, rest, closed := strings.Cut(after, "}"); closed {
			if value, set := env(name); set {
				out.WriteString(value)
				s = rest
				continue
			}
		}
		out.WriteString("${")
	}
}

// noteDefaults notes what holds for a connector where its table says nothing,
// behind what the table says. What an operation says for itself stands there
// already.
func (c *Config) noteDefaults(t ConnectorTable, info connectors.Info) {
	path := join("connectors", t.Name)
	var add []Setting
	note := func(key, value string) {
		if _, set := t.Table[key]; !set {
			add = append(add, Setting{Key: join(path, key), Value: value, Source: "default"})
		}
	}
	for _, r := range info.Rates {
		if r.Bucket == "" {
			note("rate", fmt.Sprintf("{ calls = %d, per = %q, concurrent = %d }", r.Calls, duration.Format(r.Per), r.Concurrent))
		}
	}
	period := func(d func(connectors.Operation) time.Duration) func(connectors.Operation) string {
		return func(o connectors.Operation) string { return duration.Format(d(o)) }
	}
	for _, k := range []struct {
		key   string
		value func(connectors.Operation) string
	}{
		{"timeout", period(func(o connectors.Operation) time.Duration { return o.Timeout })},
		{"lands_within", period(func(o connectors.Operation) time.Duration { return o.LandsWithin })},
		{"visible_within", period(func(o connectors.Operation) time.Duration { return o.VisibleWithin })},
		{"looks_back", func(o connectors.Operation) string {
			if o.LooksBack == 0 {
				return "no bound"
			}
			return duration.Format(o.LooksBack)
		}},
		{"in_flight_for", period(func(o connectors.Operation) time.Duration { return o.InFlightFor })},
		{"absent_after", func(o connectors.Operation) string { return strconv.Itoa(o.AbsentAfter) }},
		{"absent_spacing", period(func(o connectors.Operation) time.Duration { return o.AbsentSpacing })},
		{"keeps_key", period(func(o connectors.Operation) time.Duration { return o.KeepsKey })},
		{"key_scope", func(o connectors.Operation) string { return o.KeyScope }},
	} {
		if op, ok := without(t.Table["operation"], k.key, info); ok {
			note(k.key, k.value(op))
		}
	}
	at := len(c.Settings)
	for i, s := range c.Settings {
		if strings.HasPrefix(s.Key, path+".") {
			at = i + 1
		}
	}
	c.Settings = slices.Insert(c.Settings, at, add...)
}

// without is an operation whose table says nothing of a key, so that the
// connector's value holds for it.
func without(tables any, key string, info connectors.Info) (connectors.Operation, bool) {
	list, _ := tables.([]any)
	for _, t := range list {
		op, _ := t.(map[string]any)
		name, _ := op["name"].(string)
		if _, set := op[key]; set {
			continue
		}
		if o, ok := info.Operation(name); ok {
			return o, true
		}
	}
	return connectors.Operation{}, false
}

func (c *Config) fieldError(path, message string) *FieldError {
	at := c.src.place(path)
	return &FieldError{File: c.src.name, Line: at.line, Column: at.column, Path: path, Message: message}
}

// connectorErrors gives each mistake of a definition its file and line.
func (c *Config) connectorErrors(path string, err error) Errors {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var errs Errors
		for _, e := range many.Unwrap() {
			errs = append(errs, c.connectorErrors(path, e)...)
		}
		return errs
	}
	if fe := (*connectors.FieldError)(nil); errors.As(err, &fe) {
		if fe.Path != "" {
			path = join(path, fe.Path)
		}
		return Errors{c.fieldError(path, fe.Message)}
	}
	return Errors{c.fieldError(path, err.Error())}
}

// checkOperations warns of a policy for an operation that its connector does
// not have, or that none has: a slip that would leave the promise unkept.
func (c *Config) checkOperations(opened map[string]connectors.Connector) {
	var all []string
	byConnector := map[string][]string{}
	for name, conn := range opened {
		for _, op := range conn.Info().Operations {
			all = append(all, op.Name)
			byConnector[name] = append(byConnector[name], op.Name)
		}
	}
	sort.Strings(all)
	for i, p := range c.Policies.List {
		m := p.Match
		if m.Operation == "" || len(opened) == 0 {
			continue
		}
		known, missing := all, fmt.Sprintf("no connector has an operation %q", m.Operation)
		if m.Connector != "" {
			if _, ok := opened[m.Connector]; !ok {
				continue // said when the config was read
			}
			known, missing = byConnector[m.Connector], fmt.Sprintf("connector %q has no operation %q", m.Connector, m.Operation)
		}
		if !slices.Contains(known, m.Operation) {
			line, path := c.from[i].matchLine("operation")
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s:%d: %s: %s%s", c.from[i].file, line, path, missing, nearest.Hint(m.Operation, known)))
		}
	}
}
