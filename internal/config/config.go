// Package config reads the config file and the policy files, checks all of
// them at once, and says where each value came from. It opens connectors only
// to check their definitions; it reaches no system and no ledger.
package config

import (
	"fmt"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/textfile"
	"github.com/recovery-ledger/reconcile/internal/zone"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// Config is everything that the files say, resolved: what is unset holds its
// default.
type Config struct {
	Path string // as given to Load; "" where no file was read
	Dir  string // what relative paths in the config are relative to

	Timezone  *time.Location // of dates, weeks and cron lines
	Ledger    Ledger
	Daemon    Daemon
	Schedule  Schedules
	Retention Retention

	Owners reconcile.Owners
	Notify map[string]Channel // by name: [notify.NAME]

	// Policies in the order in which they match. OpenConnectors completes the
	// version.
	Policies   reconcile.Policies
	Connectors []ConnectorTable // sorted by name

	// Warnings are no mistakes, but somebody should know. Each begins with file
	// and line. OpenConnectors may add some.
	Warnings []string

	// Settings are all values in the order of the file, for Describe.
	Settings []Setting

	env     func(string) (string, bool)
	src     *source
	from    []origin // of Policies.List
	secrets []string
}

// Ledger is [ledger].
type Ledger struct {
	URL         Secret // as written, see LedgerURL; it may carry a password
	AutoMigrate bool
	Lease       time.Duration // a claim that nobody renews ends after this
	PayloadMax  int64         // bytes; a longer payload is kept as digest and excerpt
}

// Daemon is [daemon].
type Daemon struct {
	Listen     string        // host:port of the HTTP interface; "": it does not listen
	TLSCert    string        // file with the certificate and its chain, PEM; "": no TLS
	TLSKey     string        // file with its key
	AllowPlain bool          // other hosts may reach it without TLS
	Grace      time.Duration // for calls to finish when it stops
}

// Schedules is [schedule]: of each job the interval or cron line, as
// reconcile.ParseTimetable reads it in the config's time zone.
type Schedules struct {
	Settle, Advance, Release, Escalate, Digest, Weekly, Prune string
}

// Retention is [retention]; zero means that nothing is kept.
type Retention struct {
	Settled time.Duration // of settled entries
	Payload time.Duration // of their payloads
}

// ChannelType is the type of a channel for notices.
type ChannelType string

// The channel types.
const (
	ChannelSlack   ChannelType = "slack"
	ChannelWebhook ChannelType = "webhook"
	ChannelSMTP    ChannelType = "smtp"
)

// Channel is one [notify.NAME].
type Channel struct {
	Name   string
	Type   ChannelType
	URL    Secret   // it may carry credentials
	Secret Secret   // signs a webhook; not set: unsigned
	From   string   // smtp
	To     []string // smtp
}

// The defaults of the config itself; those of a policy are
// reconcile.DefaultPolicy (docs/rules.md, section 7).
const (
	defaultTimezone   = "UTC"
	defaultLedgerURL  = "sqlite:reconcile.db"
	defaultLease      = 60 * time.Second
	defaultPayloadMax = 256 << 10
	defaultListen     = "127.0.0.1:8321"
	listenOff         = "off" // written as daemon.listen: no HTTP interface
	defaultGrace      = 20 * time.Second
	defaultSettled    = 400 * 24 * time.Hour
	defaultPayload    = 90 * 24 * time.Hour
)

// mostPayload is below what SQLite stores in one value by default.
// Source: sqlite.org/limits.html, SQLITE_MAX_LENGTH, 2026-09.
const mostPayload = 512 << 20

// Load reads the config at path and the policy files that it names, and checks
// all of it: the error is an Errors with every mistake. An empty path reads no
// file: the defaults. env looks up environment variables; nil is os.LookupEnv.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	c, errs := read(path, env)
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// Open is Load and OpenConnectors in one: the error is an Errors with every
// mistake of the config, the policy files and the definitions.
func Open(path string, env func(string) (string, bool), reg *connectors.Registry, pacer func(lane string) connectors.Pacer) (*Config, map[string]connectors.Connector, error) {
	c, errs := read(path, env)
	var opened map[string]connectors.Connector
	if c != nil {
		var more Errors
		opened, more = c.openConnectors(reg, pacer)
		errs = append(errs, more...)
	}
	if err := errs.orNil(); err != nil {
		return nil, nil, err
	}
	return c, opened, nil
}

// read is Load before its mistakes are told. The config is nil where the file
// cannot be read at all.
func read(path string, env func(string) (string, bool)) (*Config, Errors) {
	if env == nil {
		env = os.LookupEnv
	}
	src := &source{name: path, root: map[string]any{}, lines: map[string]place{}}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, Errors{{File: path, Message: "cannot be read: " + textfile.Trouble(err)}}
		}
		s, fe := readTOML(path, data)
		if fe != nil {
			return nil, Errors{fe}
		}
		src = s
	}
	c, r := load(path, src, env)
	return c, r.errs
}

// Defaults is the config without any file.
func Defaults() *Config {
	c, err := Load("", func(string) (string, bool) { return "", false })
	if err != nil {
		panic(err) // the defaults are part of the program
	}
	return c
}

// load resolves a file that was read. The reader has its mistakes, and the config
// is what could be understood in spite of them.
func load(path string, src *source, env func(string) (string, bool)) (*Config, *reader) {
	c := &Config{Path: path, Dir: filepath.Dir(path), env: env, src: src}
	if path == "" {
		c.Dir = "."
	}
	r := &reader{env: env, keys: map[string]bool{}, written: map[string]string{}}
	var ps policyReader
	r.root(src, "", "", func(t *table) {
		c.readTop(t)
		c.readLedger(t)
		c.readDaemon(t)
		c.readSchedules(t)
		c.readRetention(t)
		c.readChannels(t)
		c.readOwners(t)
		ps.files(t, c.Dir, t.texts("policy_files", nil))
		t.list("policy", func(i int, t *table) { ps.read(t, fmt.Sprintf("[[policy]] %d", i+1)) })
		c.readConnectors(t)
	})
	c.noteDefaultPolicy(r)
	c.checkPolicies(r, &ps)
	c.warnNotYet(r, &ps)

	c.Policies.List, c.from = ps.list, ps.from
	c.Policies.Version = c.version(nil)
	c.Warnings, c.Settings = r.warnings, r.settings
	c.secrets = r.secrets
	return c, r
}

func (c *Config) readTop(t *table) {
	c.Timezone = time.UTC
	s := t.textOr("timezone", defaultTimezone, "")
	if loc, err := zone.Load(s); err != nil {
		t.refuseText("timezone", s, err)
	} else {
		c.Timezone = loc
	}
}

func (c *Config) readLedger(t *table) {
	t.sub("ledger", func(t *table) {
		u, ok := t.address("url")
		if !ok {
			u = defaultLedgerURL
		} else if err := checkLedgerURL(u); err != nil {
			t.refuse("url", "%v", err)
		}
		c.Ledger.URL = NewSecret(u)
		t.r.secrets = append(t.r.secrets, credentials(u)...)
		t.note("url", RedactURL(u))
		c.Ledger.AutoMigrate = t.truth("auto_migrate", false)
		c.Ledger.Lease = t.durationOr("lease", defaultLease, "60s")
		if c.Ledger.Lease < time.Second {
			t.refuse("lease", "%v is refused; a pass needs a lease of 1s or more", c.Ledger.Lease)
		}
		c.Ledger.PayloadMax = readSize(t, "payload_max", defaultPayloadMax)
	})
}

func readSize(t *table, key string, def int64) int64 {
	n := def
	if v, ok := t.value(key); ok {
		if i, isInt := v.(int64); isInt {
			n = i // bytes
		} else if s, ok := t.expanded(key, v); ok {
			size, err := parseSize(s)
			if err != nil {
				t.refuseText(key, s, err)
				size = def
			}
			n = size
		}
		if n < 0 || n > mostPayload {
			t.refuse(key, "%d bytes are refused; write at most %q", n, formatSize(mostPayload))
			n = def
		}
	}
	t.note(key, formatSize(n))
	return n
}

func (c *Config) readDaemon(t *table) {
	t.sub("daemon", func(t *table) {
		d := &c.Daemon
		d.Listen = t.textOr("listen", defaultListen, "")
		file := func(key string) string {
			s, _ := t.text(key)
			t.note(key, or(s, "none"))
			if s != "" && !filepath.IsAbs(s) {
				s = filepath.Join(c.Dir, s)
			}
			return s
		}
		d.TLSCert, d.TLSKey = file("tls_cert"), file("tls_key")
		d.AllowPlain = t.truth("allow_plain", false)
		if (d.TLSCert == "") != (d.TLSKey == "") {
			t.refuse("", "has one of tls_cert and tls_key; TLS needs both, the certificate and its key")
		}
		if err := checkListen(*d); err != nil {
			t.refuseText("listen", d.Listen, err)
		}
		if d.Listen == listenOff {
			d.Listen = ""
		}
		d.Grace = t.duration("grace", defaultGrace)
	})
}

// checkListen says what is wrong with the place where the daemon listens. Tokens
// must not cross a network in the clear unless somebody says that they may.
func checkListen(d Daemon) error {
	if d.Listen == listenOff {
		return nil
	}
	host, port, err := net.SplitHostPort(d.Listen)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is no address; write host and port, like %q, or %q", d.Listen, defaultListen, listenOff)
	}
	if thisHost(host) || d.TLSCert != "" || d.TLSKey != "" || d.AllowPlain {
		return nil
	}
	return fmt.Errorf("%q can be reached from other hosts, and tokens and payloads would travel in the clear; write tls_cert and tls_key, "+
		"or listen on 127.0.0.1 behind a proxy that speaks TLS, or, where nobody else is on that network, allow_plain = true", d.Listen)
}

// thisHost says whether a listening host can be reached from this host alone. Of
// a name other than localhost nobody can tell.
func thisHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func (c *Config) readSchedules(t *table) {
	t.sub("schedule", func(t *table) {
		read := func(key, def string) string {
			s := t.textOr(key, def, "")
			if _, isText := t.m[key].(string); t.has(key) && !isText {
				return "" // already refused
			}
			tt, err := reconcile.ParseTimetable(s, c.Timezone)
			if err != nil {
				t.refuseText(key, s, err)
			}
			return tt.String()
		}
		c.Schedule = Schedules{
			Settle:   read("settle", "30s"),
			Advance:  read("advance", "30s"),
			Release:  read("release", "1m"),
			Escalate: read("escalate", "1m"),
			Digest:   read("digest", "0 8 * * *"),
			Weekly:   read("weekly", "0 7 * * MON"),
			Prune:    read("prune", "0 3 * * *"),
		}
	})
}

func (c *Config) readRetention(t *table) {
	t.sub("retention", func(t *table) {
		c.Retention.Settled = t.duration("settled", defaultSettled)
		c.Retention.Payload = t.duration("payload", defaultPayload)
	})
}

func (c *Config) readChannels(t *table) {
	c.Notify = map[string]Channel{}
	t.each("notify", func(name string, t *table) {
		ch := Channel{Name: name}
		types := []string{string(ChannelSlack), string(ChannelWebhook), string(ChannelSMTP)}
		if !t.has("type") {
			t.know("type")
			t.refuse("", "has no type; write type = %s", oneOf(types))
		} else {
			ch.Type = ChannelType(t.choice("type", "", "", types...))
		}
		c.Notify[name] = ch
		if ch.Type == "" {
			// Which other keys belong here hangs on the type.
			t.known = append(t.known, "url", "secret", "from", "to")
			return
		}
		schemes := []string{"http", "https"}
		if ch.Type == ChannelSMTP {
			schemes = []string{"smtp", "smtps"}
		}
		if !t.has("url") {
			t.know("url")
			t.refuse("", "has no url; write where its notices go")
		} else {
			ch.URL = readURL(t, "url", schemes...)
		}
		switch ch.Type {
		case ChannelWebhook:
			ch.Secret = t.secret("secret")
			if !t.has("secret") {
				t.r.warn(t.src.name, t.src.line(t.path), "%s: has no secret, so its notices are not signed; write secret = %q", t.path, "${NAME}")
			}
		case ChannelSMTP:
			ch.From = readAddress(t, "from")
			ch.To = readAddresses(t, "to")
		}
		c.Notify[name] = ch
	})
}

func readAddress(t *table, key string) string {
	s, ok := t.text(key)
	if !t.has(key) {
		t.refuse("", "has no %s; write a mail address", key)
		return ""
	}
	if ok && !isAddress(s) {
		t.refuseText(key, s, fmt.Errorf("%q is not a mail address", s))
	}
	t.note(key, s)
	return s
}

func readAddresses(t *table, key string) []string {
	list := t.texts(key, func(at, s string) {
		if !isAddress(s) {
			t.refuse(at, "is not a mail address; write one like %q", "revops@example.org")
		}
	})
	if len(list) == 0 {
		t.refuse(key, "has no address; write a list of one or more")
	}
	return list
}

func isAddress(s string) bool {
	_, err := mail.ParseAddress(s)
	return err == nil
}

// readURL reads an address. Of one that takes posts, like a chat's webhook, the
// path is a credential: only its host is shown.
func readURL(t *table, key string, schemes ...string) Secret {
	s, ok := t.address(key)
	if !ok {
		t.note(key, "not set")
		return Secret{}
	}
	checkURL(t, key, s, schemes)
	if u, err := url.Parse(s); err == nil && slices.Contains(schemes, "https") {
		t.r.secrets = append(t.r.secrets, s)
		t.note(key, u.Scheme+"://"+u.Host+"/"+redacted)
	} else {
		t.r.secrets = append(t.r.secrets, credentials(s)...)
		t.note(key, RedactURL(s))
	}
	return NewSecret(s)
}

// checkURL never shows the address: it may be a credential.
func checkURL(t *table, key, s string, schemes []string) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		t.refuse(key, "is not an address; write one that begins with %s:// and has a host", strings.Join(schemes, ":// or "))
	}
}

func (c *Config) readOwners(t *table) {
	c.Owners = reconcile.Owners{}
	byExternal := map[string]string{}
	t.each("owners", func(id string, t *table) {
		o := reconcile.OwnerInfo{ID: id}
		o.Name = t.textOr("name", id, "")
		o.IDs = t.texts("ids", func(at, x string) {
			if other, taken := byExternal[x]; taken {
				t.refuseText(at, x, fmt.Errorf("%q stands in owners.%s too; an id of another system means one owner", x, other))
			}
			byExternal[x] = id
		})
		o.Notify = t.texts("notify", func(at, n string) {
			if _, ok := c.Notify[n]; !ok {
				t.refuseText(at, n, fmt.Errorf("there is no [notify.%s]%s", n, or(nearest.Hint(n, slices.Sorted(maps.Keys(c.Notify))), "; add it")))
			}
		})
		o.Next = t.textOr("next", "", "none: stays here")
		c.Owners[id] = o
	})
	for _, id := range slices.Sorted(maps.Keys(c.Owners)) {
		c.checkNext(t, id)
	}
}

// checkNext refuses a chain of owners that leads nowhere or in a circle. A
// circle is reported at its first owner by name.
func (c *Config) checkNext(t *table, id string) {
	key := "owners." + id + ".next"
	next := c.Owners[id].Next
	if next == "" || next == ledger.OwnerUnassigned {
		return
	}
	if _, ok := c.Owners[next]; !ok {
		t.refuseText(key, next, fmt.Errorf("there is no [owners.%s]%s", next, or(nearest.Hint(next, slices.Sorted(maps.Keys(c.Owners))), "; add it")))
		return
	}
	chain := []string{id}
	for next != "" && !slices.Contains(chain, next) {
		chain = append(chain, next)
		next = c.Owners[next].Next
	}
	if next == id && slices.Min(chain) == id {
		t.refuse(key, "goes in a circle: %s; end it at somebody", strings.Join(append(chain, id), " → "))
	}
}

// defaultPolicyLabel stands before the settings of the default policy.
const defaultPolicyLabel = "where no policy matches: "

// noteDefaultPolicy notes what holds where no policy matches.
func (c *Config) noteDefaultPolicy(r *reader) {
	r.root(&source{name: c.Path, lines: map[string]place{}}, defaultPolicyLabel, "policy", func(t *table) { readPolicy(t, "default") })
}

// checkPolicies looks at the policies beside the rest of the config.
func (c *Config) checkPolicies(r *reader, ps *policyReader) {
	var names []string
	for _, t := range c.Connectors {
		names = append(names, t.Name)
	}
	sort.Strings(names)
	for i, p := range ps.list {
		o := ps.from[i]
		if p.Owner != "" && p.Owner != ledger.OwnerUnassigned {
			if _, ok := c.Owners[p.Owner]; !ok {
				path := join(o.path, "after_max_attempts.owner")
				r.warn(o.file, o.src.line(path), "%s: there is no [owners.%s]%s: nobody is told", path, p.Owner,
					nearest.Hint(p.Owner, slices.Sorted(maps.Keys(c.Owners))))
			}
		}
		if m := p.Match.Connector; m != "" && !slices.Contains(names, m) {
			line, path := o.matchLine("connector")
			if hint := nearest.Hint(m, names); hint != "" {
				r.errs = append(r.errs, &FieldError{File: o.file, Line: line, Path: path, Message: fmt.Sprintf("there is no [connectors.%s]%s", m, hint)})
			} else {
				r.warn(o.file, line, "%s: there is no [connectors.%s]; its entries cannot be looked up or sent", path, m)
			}
		}
	}
	ps.warnUnreachable(r)
}

// Writes says whether the file itself gives a key a value, so that it is no
// default.
func (c *Config) Writes(key string) bool { return c.src.has(key) }

// Secrets returns the credentials that the config holds, the longest first, so
// that whatever is stored or logged can be searched for them. Texts under four
// bytes are left out: they would mask half of any message.
func (c *Config) Secrets() []string {
	list := []string{}
	for _, s := range c.secrets {
		if len(s) >= shortestCredential && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		if len(list[i]) != len(list[j]) {
			return len(list[i]) > len(list[j])
		}
		return list[i] < list[j]
	})
	return list
}
