package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
	"github.com/recovery-ledger/reconcile/internal/zone"
)

// purpose is what a call is made for; rules may hold for some only.
type purpose string

const (
	onSend   purpose = "send"
	onLookup purpose = "lookup"
	onCheck  purpose = "check"
)

// finding is what a rule makes of an answer to a question.
type finding string

const (
	findNone      finding = "none"      // an explicit none
	findGone      finding = "gone"      // it was there and is removed
	findDuplicate finding = "duplicate" // several records carry the key
)

// rule is one error rule: tests joined by and, and what follows.
type rule struct {
	name     string // "connector error 2"
	on       []purpose
	statuses []int
	code     *selector
	is       []string
	like     *regexp.Regexp

	class   connectors.Kind
	effect  connectors.Effect
	finding finding
	wait    *waitRule
	pauses  string
	id      *selector
	spent   bool
	refuses connectors.CheckName
}

// waitRule is the least wait that a rule asks for.
type waitRule struct {
	fixed    time.Duration
	midnight *time.Location
	path     *selector
	unit     string
}

// classes a rule may give: those of the ledger, and the accepted names.
var classes = func() map[string]connectors.Kind {
	m := map[string]connectors.Kind{"permission_denied": connectors.KindPermission}
	for _, k := range []connectors.Kind{
		connectors.KindValidation, connectors.KindAuth, connectors.KindPermission, connectors.KindNotFound, connectors.KindConflict,
		connectors.KindAlreadyExists, connectors.KindDuplicateRequest, connectors.KindRateLimit, connectors.KindQuota, connectors.KindTimeout,
		connectors.KindNetwork, connectors.KindUnavailable, connectors.KindServerError, connectors.KindLockConflict,
		connectors.KindBlockedByEdge, connectors.KindSilentNoop, connectors.KindConsent, connectors.KindUnknown,
	} {
		m[string(k)] = k
		m[string(k)+"_error"] = k
	}
	return m
}()

func (d *definition) errorRules(t *table, key, whose string) []*rule {
	var rs []*rule
	for i, rt := range t.tables(key) {
		r := &rule{name: fmt.Sprintf("%s error %d", whose, i+1)}
		for _, on := range rt.list("on") {
			p := purpose(on)
			if p != onSend && p != onLookup && p != onCheck {
				rt.fail("on", "%q is not known; %s", on, suggest(on, []string{"send", "lookup", "check"}))
				continue
			}
			r.on = append(r.on, p)
		}
		if rt.has("on") && len(r.on) == 0 && !rt.p.has(rt.at("on")) {
			rt.fail("on", "empty; write where the rule holds, or take it out: then it holds everywhere")
		}
		r.statuses = d.statusList(rt, "status")
		r.code = d.selector(rt, "code")
		r.is = rt.list("is")
		if rt.has("is") && len(r.is) == 0 && !rt.p.has(rt.at("is")) {
			rt.fail("is", "empty; write the values that are meant, or take it out: then any value will do")
		}
		r.like = rt.regexp("like")
		if r.code == nil && !rt.has("code") {
			if rt.has("is") || rt.has("like") {
				rt.fail("code", "missing; say which value is tested, such as %q or %q", "error.code", "header:X-Error")
			} else if len(r.statuses) == 0 {
				rt.fail("status", "missing; a rule tests a status, a code, or both")
			}
		}
		if class := rt.strOr("class", ""); class != "" {
			var ok bool
			if r.class, ok = classes[class]; !ok {
				rt.fail("class", "%q is no error class; %s", class, suggest(class, slices.Sorted(maps.Keys(classes))))
			}
		}
		r.effect = connectors.Effect(rt.oneOf("effect", "", "not_done", "unknown", "done"))
		r.finding = finding(rt.oneOf("finding", "", "none", "gone", "duplicate"))
		if r.finding != "" && slices.Contains(r.on, onSend) {
			rt.fail("finding", "goes with on = [\"lookup\", \"check\"] only")
		}
		if len(r.on) > 0 && !slices.Contains(r.on, onSend) {
			for _, key := range []string{"effect", "spent", "refuses"} {
				if rt.has(key) {
					rt.fail(key, "speaks of a send; add \"send\" to on, or take it out")
				}
			}
		}
		r.wait = d.waitRule(rt)
		r.pauses = rt.oneOf("pauses", "", "lane", "entry")
		r.id = d.selector(rt, "id")
		r.spent = rt.boolean("spent")
		r.refuses = connectors.CheckName(rt.oneOf("refuses", "", "consent", "lifecycle", "owner"))
		if r.class == "" && !rt.has("class") && r.effect == "" && r.finding == "" && r.wait == nil && r.pauses == "" && r.id == nil && !r.spent && r.refuses == "" {
			rt.fail("class", "missing; say what follows: class, effect, finding or another consequence")
		}
		rt.finish()
		rs = append(rs, r)
	}
	return rs
}

func (d *definition) statusList(t *table, key string) []int {
	var out []int
	v, ok := t.raw(key)
	if !ok {
		return nil
	}
	vs, isList := v.([]any)
	if !isList {
		vs = []any{v}
	}
	for _, v := range vs {
		n, ok := v.(int64)
		if !ok || n < 200 || n > 599 {
			t.fail(key, "%v is no HTTP status; write a number from 200 to 599", v)
			continue
		}
		out = append(out, int(n))
	}
	return out
}

func (d *definition) waitRule(t *table) *waitRule {
	in := time.UTC
	if name, ok := t.str("zone"); ok {
		name, err := d.constant(name, nil)
		if err == nil {
			in, err = zone.Load(name)
		}
		if err != nil {
			t.fail("zone", "%v", err)
			in = time.UTC
		}
		if t.m["wait"] != "midnight" {
			t.fail("zone", "only goes with wait = %q", "midnight")
		}
	}
	v, ok := t.raw("wait")
	switch {
	case !ok:
		return nil
	case v == "midnight":
		return &waitRule{midnight: in}
	}
	if _, isTable := v.(map[string]any); isTable {
		wt := t.table("wait")
		w := &waitRule{path: d.selector(wt, "path"), unit: wt.oneOf("unit", "", "s", "ms", "epoch", "epoch_ms", "iso")}
		if !wt.has("path") {
			wt.fail("path", "missing; write where the wait stands")
		}
		wt.finish()
		return w
	}
	return &waitRule{fixed: t.duration("wait", 0)}
}

// after is the wait that this rule asks for, given an answer that came at now.
func (w *waitRule) after(doc document, now time.Time) connectors.RetryAfter {
	switch {
	case w == nil:
		return connectors.RetryAfter{}
	case w.midnight != nil:
		at := now.In(w.midnight)
		next := time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, w.midnight)
		for next.Day() == at.Day() { // summer time begins at midnight: the day does at 1:00
			next = next.Add(time.Hour)
		}
		return connectors.RetryAfter{Wait: ceilSecond(next.Sub(now))}
	case w.path != nil:
		return httpclient.ParseReset(w.path.text1(doc), w.unit, now)
	}
	return connectors.RetryAfter{Wait: w.fixed}
}

func ceilSecond(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// ofSends tells whether a rule says anything of a send. A finding is what a
// question comes to; beside a class or an effect, those hold for sends.
func (r *rule) ofSends() bool {
	return r.finding == "" || r.class != "" || r.effect != "" || r.spent || r.refuses != ""
}

// matches tests a rule against an answer, or a part of one (a fault in a
// batch), and returns the code it saw.
func (r *rule) matches(on purpose, status int, doc document) (code string, ok bool) {
	if len(r.on) > 0 && !slices.Contains(r.on, on) || on == onSend && !r.ofSends() {
		return "", false
	}
	if len(r.statuses) > 0 && !slices.Contains(r.statuses, status) {
		return "", false
	}
	if r.code == nil {
		return "", true
	}
	if len(r.is) == 0 && r.like == nil {
		// There and not empty: also a list or object that says something.
		return r.code.text1(doc), r.code.truthy(doc)
	}
	for _, text := range r.code.texts(doc) {
		if len(r.is) > 0 && !slices.Contains(r.is, text) || r.like != nil && !r.like.MatchString(text) {
			continue
		}
		return text, true
	}
	return "", false
}

// firstRule returns the first rule that matches: the operation's, then the
// connector's.
func firstRule(rules []*rule, on purpose, status int, doc document) (*rule, string) {
	for _, r := range rules {
		if code, ok := r.matches(on, status, doc); ok {
			return r, code
		}
	}
	return nil, ""
}

// byStatus is what an HTTP status means where no rule says otherwise.
func byStatus(status int, html bool) (connectors.Kind, connectors.Effect, string) {
	const notDone, unknown = connectors.EffectNotDone, connectors.EffectUnknown
	name := fmt.Sprintf("default %d", status)
	switch {
	case status >= 200 && status < 300:
		return connectors.KindUnknown, unknown, "default 2xx"
	case status < 400:
		return connectors.KindUnknown, unknown, "default 3xx"
	case status == http.StatusUnauthorized:
		return connectors.KindAuth, notDone, name
	case status == http.StatusForbidden && html:
		return connectors.KindBlockedByEdge, notDone, "default 403 page"
	case status == http.StatusForbidden:
		return connectors.KindPermission, notDone, name
	case status == http.StatusNotFound || status == http.StatusGone:
		return connectors.KindNotFound, notDone, name
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return connectors.KindTimeout, unknown, name
	case status == http.StatusConflict:
		return connectors.KindConflict, unknown, name
	case status == http.StatusLocked || status == http.StatusTooEarly:
		return connectors.KindLockConflict, notDone, name
	case status == http.StatusTooManyRequests:
		return connectors.KindRateLimit, notDone, name
	case status == 499:
		// A proxy's "client closed request": it may have been passed on.
		return connectors.KindTimeout, unknown, name
	case status < 500:
		return connectors.KindValidation, notDone, "default 4xx"
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable:
		return connectors.KindUnavailable, unknown, name
	}
	return connectors.KindServerError, unknown, "default 5xx"
}

// rateHeader reads how long a limit holds out of headers or body.
type rateHeader struct {
	remaining, limit, used, reset, refill, need *selector
	header                                      string
	like                                        *regexp.Regexp
	unit                                        string
	per                                         time.Duration // the window; 0: not told
	reserve                                     float64       // share of the limit that lookups leave to others; 0: none
}

// longestWindow is the longest wait for a window of which nobody says when it
// ends: in longer ones (a day) the system is asked again every hour.
const longestWindow = time.Hour

func (d *definition) rateHeaders(t *table) []rateHeader {
	var hs []rateHeader
	for _, rt := range t.tables("rate_headers") {
		h := rateHeader{
			remaining: d.selector(rt, "remaining"), limit: d.selector(rt, "limit"), used: d.selector(rt, "used"),
			reset:  d.selector(rt, "reset"),
			refill: d.selector(rt, "refill"), need: d.selector(rt, "need"),
			header: rt.strOr("header", ""), like: rt.regexp("like"),
			unit: rt.oneOf("unit", "", "s", "ms", "epoch", "epoch_ms", "iso"),
			per:  rt.positive("per", 0),
		}
		if (h.header == "") != (h.like == nil) && !(rt.has("like") && h.like == nil) {
			rt.fail("header", "goes with like, whose groups are named remaining, limit, used or reset")
		}
		if h.like != nil && !slices.ContainsFunc(h.like.SubexpNames(), func(n string) bool {
			return slices.Contains([]string{"remaining", "limit", "used", "reset"}, n)
		}) {
			rt.fail("like", "names nothing; write groups such as (?P<remaining>[0-9]+)")
		}
		if (h.refill == nil) != (h.need == nil) || h.refill != nil && h.remaining == nil {
			rt.fail("refill", "goes with need and remaining")
		}
		if !rt.has("reset") && !rt.has("refill") && !rt.has("like") && !rt.has("per") {
			rt.fail("reset", "missing; say when the limit is lifted, how fast it refills, or how long its window is: reset, refill and need, or per")
		}
		names := func(key string) bool {
			return rt.has(key) || h.like != nil && slices.Contains(h.like.SubexpNames(), key) || rt.has("like") && h.like == nil
		}
		if rt.has("unit") && !names("reset") {
			rt.fail("unit", "is that of reset; say where that stands, or take it out")
		}
		if rt.has("used") && !names("limit") {
			rt.fail("used", "says nothing without limit; add it, or take this out")
		}
		if rt.has("per") && !rt.has("like") && !rt.has("remaining") && !rt.has("used") {
			rt.fail("per", "goes with remaining, or with limit and used")
		}
		h.reserve = rt.share("reserve", defaultReserve)
		if rt.has("reserve") && !names("limit") {
			rt.fail("reserve", "is a share of the limit; say where that stands: limit, or a group (?P<limit>…) in like")
		}
		rt.finish()
		hs = append(hs, h)
	}
	return hs
}

// limitSeen is what one answer shows of a limit.
type limitSeen struct {
	left, limit       float64
	hasLeft, hasLimit bool
	refill, need      float64
	hasRefill         bool
	reset             string
}

// read reads what an answer shows of this limit.
func (h rateHeader) read(doc document) (s limitSeen) {
	remaining, limit, used := h.remaining.text1(doc), h.limit.text1(doc), h.used.text1(doc)
	s.reset = h.reset.text1(doc)
	if h.like != nil {
		if m := h.like.FindStringSubmatch(doc.header.Get(h.header)); m != nil {
			for i, name := range h.like.SubexpNames() {
				switch name {
				case "remaining":
					remaining = m[i]
				case "limit":
					limit = m[i]
				case "used":
					used = m[i]
				case "reset":
					s.reset = m[i]
				}
			}
		}
	}
	s.left, s.hasLeft = number(remaining)
	s.limit, s.hasLimit = number(limit)
	if s.hasLimit && !s.hasLeft {
		var spent float64
		spent, s.hasLeft = number(used)
		s.left = s.limit - spent
	}
	if h.refill != nil {
		var ok1, ok2 bool
		s.refill, ok1 = number(h.refill.text1(doc))
		s.need, ok2 = number(h.need.text1(doc))
		s.hasRefill = ok1 && ok2
	}
	return s
}

// wait is how long this limit asks to wait. Something left asks for nothing.
// told is true where the answer says how long otherwise: then the length of the
// window, which is the most that may be left of it, is no reason to wait longer.
func (h rateHeader) wait(doc document, now time.Time, told bool) connectors.RetryAfter {
	s := h.read(doc)
	if h.refill != nil {
		if !s.hasRefill || !s.hasLeft || s.refill <= 0 || s.need <= s.left {
			return connectors.RetryAfter{}
		}
		return httpclient.ParseReset(fmt.Sprintf("%.3f", (s.need-s.left)/s.refill), "s", now)
	}
	switch {
	case s.hasLeft && s.left > 0:
		return connectors.RetryAfter{}
	case s.reset == "" && told:
		return connectors.RetryAfter{}
	case s.reset == "" && s.hasLeft:
		return connectors.RetryAfter{Wait: min(h.per, longestWindow)}
	case s.reset == "":
		return connectors.RetryAfter{}
	}
	return httpclient.ParseReset(s.reset, h.unit, now)
}

func number(s string) (float64, bool) {
	f, err := json.Number(strings.TrimSpace(s)).Float64()
	return f, err == nil && s != ""
}
