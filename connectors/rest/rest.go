// Package rest is the connector for any JSON API that a definition describes:
// how a record is looked up by our key, how an action is sent, what is checked
// before, and what the answers mean. docs/connectors.md has the format.
package rest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
	"github.com/recovery-ledger/reconcile/internal/redact"
)

// maxMessage is the most characters of a message that are kept.
const maxMessage = 500

// trialBase stands for base_url where a request is built only to see whether
// it can be.
var trialBase = &url.URL{Scheme: "https", Host: "trial.invalid"}

// Descriptor describes this kind of connector.
func Descriptor() connectors.Descriptor {
	return connectors.Descriptor{
		Type:    "rest",
		Summary: "any JSON API over HTTP, described by a definition in the config",
		Open: func(cfg connectors.Config) (connectors.Connector, error) {
			c, err := Open(cfg)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}
}

// Connector asks and sends as its definition says. It is safe for concurrent
// use. What it can do is in Info: a method for something that the definition
// does not describe answers KindUnsupported.
type Connector struct {
	def     *definition
	http    *httpclient.Client
	pacer   connectors.Pacer
	secrets *redact.Masker                // knows the credentials
	mask    atomic.Pointer[redact.Masker] // and the tokens of late
	tokens  tokens
	sizes   sizes
	reserve reserve
}

var (
	_ connectors.Connector   = (*Connector)(nil)
	_ connectors.BatchLooker = (*Connector)(nil)
	_ connectors.Sender      = (*Connector)(nil)
	_ connectors.Checker     = (*Connector)(nil)
	_ connectors.Prober      = (*Connector)(nil)
	_ connectors.Classifier  = (*Connector)(nil)
	_ connectors.KeyDeriver  = (*Connector)(nil)
)

// Open validates the whole definition and makes the connector. The error joins
// every mistake, each a *connectors.FieldError.
func Open(cfg connectors.Config) (*Connector, error) {
	def, err := load(cfg)
	if err != nil {
		return nil, err
	}
	c := &Connector{def: def, pacer: cfg.Pacer}
	c.tokens.turn = make(chan struct{}, 1)
	c.tokens.turn <- struct{}{}
	c.secrets = redact.New(append(slices.Clone(def.secrets), def.hidden...)...)
	c.mask.Store(c.secrets)
	c.http = httpclient.New(httpclient.Config{UserAgent: agent(), Mask: c.text})
	return c, nil
}

// agent is what we call ourselves, with the program's version.
func agent() string {
	v := "dev"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return "reconcile/" + v
}

// Info implements connectors.Connector.
func (c *Connector) Info() connectors.Info {
	return c.def.info
}

// Close lets idle connections go.
func (c *Connector) Close() error {
	c.http.Close()
	return nil
}

func (c *Connector) operation(name string) (*operation, error) {
	if op := c.def.operations[name]; op != nil {
		return op, nil
	}
	return nil, &connectors.Error{Kind: connectors.KindUnsupported, Message: fmt.Sprintf(
		"connector %q has no operation %q; %s", c.def.info.Name, name, suggest(name, slices.Sorted(maps.Keys(c.def.operations))))}
}

// text masks, and line masks and cuts: nothing leaves the package past them.
func (c *Connector) text(s string) string { return c.mask.Load().Text(s) }
func (c *Connector) line(s string) string { return c.mask.Load().Line(s, maxMessage) }

// keptTokens is how many tokens are masked beside the credentials: the present
// one and those that an answer under way may still repeat. Older ones are dead.
const keptTokens = 4

// maskToken masks a token from now on. The caller has the turn of the tokens.
func (c *Connector) maskToken(token string) {
	t := &c.tokens
	t.recent = append(t.recent, token)
	t.recent = t.recent[max(0, len(t.recent)-keptTokens):]
	c.mask.Store(c.secrets.With(t.recent...))
}

// wait blocks until the lane allows one more call.
func (c *Connector) wait(ctx context.Context, bucket string) *connectors.Error {
	if c.pacer != nil {
		if err := c.pacer.Wait(ctx, bucket); err != nil {
			return c.stopped(ctx, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return c.stopped(ctx, err)
	}
	return nil
}

func (c *Connector) stopped(ctx context.Context, err error) *connectors.Error {
	kind := connectors.KindStopping
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = connectors.KindTimeout
	}
	return &connectors.Error{Kind: kind, Message: c.line(err.Error())}
}

func (c *Connector) transportError(err error) *connectors.Error {
	e := &connectors.Error{Kind: connectors.KindNetwork, Message: c.line(err.Error())}
	var he *httpclient.Error
	if errors.As(err, &he) {
		e.Kind, e.HTTPStatus = he.Kind, he.Status
		if he.Status >= 400 && he.Kind != connectors.KindStopping {
			// The status came; what is cut off would only have explained it.
			e.Kind, _, e.Rule = byStatus(he.Status, false)
			e.RetryAfter = httpclient.ParseRetryAfter(he.Header, time.Now())
		}
	}
	return e
}

// judged is what an answer that is no plain success means.
type judged struct {
	kind    connectors.Kind
	effect  connectors.Effect
	status  int
	rule    string
	code    string
	message string
	wait    connectors.RetryAfter
	pauses  string
	ids     []string
	spent   bool
	refuses connectors.CheckName
	finding finding
	classed bool // a rule named the class
}

// judge applies the rules to an answer. failed is false for a plain success.
func (c *Connector) judge(rules []*rule, on purpose, ans *answer) (j judged, failed bool) {
	r, code := firstRule(rules, on, ans.status, ans.doc)
	success := ans.status >= 200 && ans.status < 300
	j.status = ans.status
	j.kind, j.effect, j.rule = byStatus(ans.status, ans.html)
	if success && ans.html {
		// A page where data was expected: something stands in front of the
		// system. Whether the request went on behind it nobody can say.
		j.kind, j.rule = connectors.KindBlockedByEdge, "default 2xx page"
	}
	switch {
	case r == nil && success && !ans.html:
		return judged{status: ans.status}, false
	case r != nil:
		if success && r.class == "" && r.effect == "" && r.finding == "" {
			return judged{status: ans.status, spent: r.spent, rule: r.name}, false
		}
		j.rule, j.code = r.name, code
		if r.class != "" {
			j.kind, j.classed = r.class, true
		}
		if r.effect != "" {
			j.effect = r.effect
		}
		j.pauses, j.spent, j.refuses, j.finding = r.pauses, r.spent, r.refuses, r.finding
		if r.id != nil {
			j.ids = r.id.texts(ans.doc)
		}
		j.wait = r.wait.after(ans.doc, ans.now())
	}
	if j.code == "" {
		j.code = ans.code()
	}
	j.code = c.mask.Load().Line(j.code, 100)
	j.message = c.line(ans.message())
	told := httpclient.ParseRetryAfter(ans.header, ans.at)
	j.wait = httpclient.Later(told, j.wait)
	if j.kind == connectors.KindRateLimit || j.kind == connectors.KindQuota {
		for _, h := range c.def.rates {
			j.wait = httpclient.Later(j.wait, h.wait(ans.doc, ans.now(), told.Wait > 0 || told.Beyond))
		}
	}
	j.wait.Raw = c.mask.Load().Line(j.wait.Raw, 200)
	return j, true
}

func (j judged) error() *connectors.Error {
	return &connectors.Error{Kind: j.kind, HTTPStatus: j.status, Code: j.code, Message: j.message, Rule: j.rule,
		RetryAfter: j.wait, Pauses: j.pauses}
}

// classify is judge for an answer that is known to be a failure.
func (c *Connector) classify(rules []*rule, on purpose, ans *answer) *connectors.Error {
	j, _ := c.judge(rules, on, ans)
	return j.error()
}

// tally counts the calls of one question and dates it by the first, or by what
// is older: an answer that a cache remembers.
type tally struct {
	requests int
	askedAt  time.Time
}

// ask makes one read call and applies the rules. With credentials that are
// asked for, a refused token is renewed and the question put once more: a
// question changes nothing.
func (c *Connector) ask(ctx context.Context, rules []*rule, on purpose, r httpclient.Request, bucket string, n *tally) (*answer, judged, bool, *connectors.Error) {
	for again := false; ; again = true {
		req := r
		req.Header = r.Header.Clone()
		if req.Header.Get("Cache-Control") == "" {
			// What a cache remembers is older than the question.
			// Source: RFC 9111, 5.2.1.4.
			req.Header.Set("Cache-Control", "no-cache")
		}
		token, e := c.authorize(ctx, &req)
		if e != nil {
			return nil, judged{}, false, e
		}
		if e := c.wait(ctx, bucket); e != nil {
			return nil, judged{}, false, e
		}
		n.requests++
		if n.askedAt.IsZero() {
			n.askedAt = time.Now()
		}
		resp, err := c.http.Read(ctx, req)
		if err != nil {
			return nil, judged{}, false, c.transportError(err)
		}
		ans := newAnswer(resp)
		c.reserve.learn(c.def.rates, ans)
		if made := ans.at.Add(-ans.age()); made.Before(n.askedAt) {
			n.askedAt = made
		}
		j, failed := c.judge(rules, on, ans)
		if failed && j.kind == connectors.KindAuth && token != "" {
			c.forget(token)
			if !again {
				continue
			}
		}
		return ans, j, failed, nil
	}
}

// Probe implements connectors.Prober.
func (c *Connector) Probe(ctx context.Context) (connectors.Identity, error) {
	var id connectors.Identity
	if len(c.def.probes) == 0 {
		return id, &connectors.Error{Kind: connectors.KindUnsupported, Message: "the definition has no probe"}
	}
	var n tally
	for _, p := range c.def.probes {
		req, err := p.req.build(c.def.base, &scope{})
		if err != nil {
			return id, &connectors.Error{Kind: connectors.KindUnsupported, Message: c.line(err.Error())}
		}
		ans, j, failed, e := c.ask(ctx, c.def.rules, onCheck, req, p.req.bucket, &n)
		if e != nil {
			return id, e
		}
		if failed {
			return id, j.error()
		}
		if name := ans.complaint(); name != "" {
			return id, c.doubted(ans, fmt.Sprintf("the probe was answered with %q: %s", name, ans.message()))
		}
		if ans.bad != nil && (p.account != nil || p.mode != nil || p.expect != nil) {
			return id, c.malformed(ans)
		}
		for _, x := range p.expect {
			got := x.path.texts(ans.doc)
			if !slices.ContainsFunc(got, func(s string) bool { return slices.Contains(x.is, s) }) {
				return id, &connectors.Error{Kind: connectors.KindAuth, HTTPStatus: ans.status, Rule: "probe expect",
					Message: c.line(fmt.Sprintf("the probe expects %s to be one of %q and read %q", x.path.text, x.is, got))}
			}
		}
		if p.account != nil {
			id.Account = p.account.text1(ans.doc)
		}
		if p.mode != nil {
			id.Mode = p.mode.text1(ans.doc)
		}
	}
	return id, nil
}

// doubted is an answer without a record that is no explicit none.
func (c *Connector) doubted(ans *answer, why string) *connectors.Error {
	return &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Rule: "default no none", Message: c.line(why)}
}

func (c *Connector) malformed(ans *answer) *connectors.Error {
	return &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(ans.bad.Error())}
}

// Classify implements connectors.Classifier: the rules of the definition over
// what a workflow reported. A message that quotes the answer's JSON is read
// like the answer.
func (c *Connector) Classify(operation string, f connectors.Failure) (connectors.Classified, bool) {
	rules := c.def.rules
	if op := c.def.operations[operation]; op != nil {
		rules = op.rules
	}
	quoted := document{header: http.Header{}, body: quotedJSON(f.Message)}
	for _, r := range rules {
		if !r.reported(f, quoted) {
			continue
		}
		out := connectors.Classified{Kind: r.class, Effect: r.effect, HTTPStatus: f.HTTPStatus, Code: f.Code,
			Rule: r.name, KeySpent: r.spent, Refuses: r.refuses, Pauses: r.pauses}
		if r.id != nil {
			if ids := r.id.texts(quoted); len(ids) > 0 {
				out.Names = c.line(ids[0])
			}
		}
		kind, effect := connectors.KindUnknown, connectors.EffectUnknown
		if f.HTTPStatus >= 200 {
			kind, effect, _ = byStatus(f.HTTPStatus, false)
		}
		if out.Kind == "" {
			out.Kind = kind
		}
		if out.Effect == "" {
			out.Effect = effect
		}
		return out, true
	}
	return connectors.Classified{}, false
}
