package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/recovery-ledger/reconcile/internal/nearest"
	"github.com/recovery-ledger/reconcile/internal/textfile"
	"github.com/recovery-ledger/reconcile/ledger"
	"github.com/recovery-ledger/reconcile/reconcile"
)

// origin is where a policy stands, for messages about it.
type origin struct {
	file        string
	line        int
	src         *source
	path        string // of its table, "" in a policy file
	handoverURL string // as written: what the environment puts in is no part of the version
}

// policyReader gathers the policies in the order in which they match.
type policyReader struct {
	list []reconcile.Policy
	from []origin
}

// files reads the policy files that the patterns name: in the order of the
// patterns, by name within one. A file that two patterns name is read once.
func (ps *policyReader) files(t *table, dir string, patterns []string) {
	seen := map[string]bool{}
	for i, pattern := range patterns {
		key := join("policy_files", strconv.Itoa(i))
		if strings.TrimSpace(pattern) == "" {
			t.refuse(key, "is empty; name a file, or a pattern such as %q", "policies/*.yaml")
			continue
		}
		full := pattern
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, pattern)
		}
		names, err := filepath.Glob(full)
		if err != nil {
			t.refuse(key, "%q is not a pattern; write for example %q", pattern, "policies/*.yaml")
			continue
		}
		if len(names) == 0 {
			if !strings.ContainsAny(pattern, `*?[`) {
				t.refuse(key, "%s: no such file; it is looked for beside the config", full)
				continue
			}
			t.r.warn(t.src.name, t.src.line(key), "%s: %s matches no file; no policy is read from it", key, full)
		}
		sort.Strings(names)
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				ps.file(t.r, dir, name)
			}
		}
	}
}

func (ps *policyReader) file(r *reader, dir, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		r.errs = append(r.errs, &FieldError{File: name, Message: "cannot be read: " + textfile.Trouble(err)})
		return
	}
	docs, errs := readYAML(name, data)
	r.errs = append(r.errs, errs...)
	if len(docs) == 0 && len(errs) == 0 {
		r.warn(name, 0, "holds no policy")
	}
	title := name
	if rel, err := filepath.Rel(dir, name); err == nil {
		title = filepath.ToSlash(rel)
	}
	for i, doc := range docs {
		title := title
		if len(docs) > 1 {
			title = fmt.Sprintf("%s (%d)", title, i+1)
		}
		r.root(doc, title+": ", "policy", func(t *table) { ps.read(t, title) })
	}
}

// read reads one policy, of either form.
func (ps *policyReader) read(t *table, name string) {
	p, o := readPolicy(t, name)
	ps.list = append(ps.list, p)
	ps.from = append(ps.from, o)
}

func readPolicy(t *table, name string) (reconcile.Policy, origin) {
	p := reconcile.DefaultPolicy()
	p.Name = name
	o := origin{file: t.src.name, line: t.src.line(t.path), src: t.src, path: t.path}

	p.Match = readMatch(t)
	p.Risk = ledger.Risk(t.choice("risk", string(p.Risk), "the record's, else normal", risks...))

	// The wording of the default depends on the retry block, which is read next.
	unset := "hold"
	if t.has("retry") {
		unset = "send where the operation has a send, else hold"
	}
	p.Dispatch = reconcile.Dispatch(t.choice("dispatch", string(p.Dispatch), unset,
		string(reconcile.DispatchSend), string(reconcile.DispatchHandover), string(reconcile.DispatchHold)))

	t.sub("handover", func(t *table) {
		p.HandoverURL = readURL(t, "url", "http", "https").Reveal()
		o.handoverURL, _ = t.m["url"].(string)
		p.Handover = t.secret("secret").Reveal()
		if t.has("url") != t.has("secret") {
			missing := "secret"
			if t.has("secret") {
				missing = "url"
			}
			t.refuse("", "has no %s; an offer needs a url to go to and a secret that signs it", missing)
		}
	})

	p.HasRetry = t.sub("retry", func(t *table) { readRetry(t, &p) })

	t.sub("settle", func(t *table) {
		p.SettleFor = t.duration("for", p.SettleFor)
		p.SettleEvery = t.duration("every", p.SettleEvery)
		p.PendingEvery = t.duration("pending_every", p.PendingEvery)
	})

	t.sub("checks", func(t *table) {
		modes := []string{string(reconcile.CheckRequired), string(reconcile.CheckDeclared), string(reconcile.CheckNone)}
		p.Consent = reconcile.CheckMode(t.choice("consent", string(p.Consent), "", modes...))
		p.Channel = t.textOr("channel", p.Channel, "any")
		p.OwnerCheck = reconcile.OwnerMode(t.choice("owner", string(p.OwnerCheck), "hold where the connector's check names an owner",
			string(reconcile.OwnerTransfer), string(reconcile.OwnerHold), string(reconcile.OwnerNone)))
		p.Lifecycle = reconcile.CheckMode(t.choice("lifecycle", string(p.Lifecycle), "", modes...))
		p.RefusedEscalates = t.choice("refused", "blocked", "", "blocked", "escalated") == "escalated"
	})

	t.sub("after_max_attempts", func(t *table) {
		p.FailedState = t.choice("state", "escalated", "", "failed", "escalated") == "failed"
		p.Owner = t.textOr("owner", p.Owner, "the entry's, else "+ledger.OwnerUnassigned)
		p.Due = t.duration("due", p.Due)
		p.Allow = readAllow(t, p.Allow)
		p.Notify = readNotice(t)
	})

	p.PlatformRetriesFor = t.duration("platform_retries_for", p.PlatformRetriesFor)
	p.Repeats = t.truth("repeats", p.Repeats)
	return p, o
}

var risks = []string{string(ledger.RiskLow), string(ledger.RiskNormal), string(ledger.RiskHigh)}

// readMatch reads match = { … }, and the same keys beside it, which is how a
// policy file names its workflow.
func readMatch(t *table) reconcile.Match {
	var m reconcile.Match
	t.sub("match", func(t *table) {
		m.Workflow = readWorkflows(t)
		if !t.has("workflow") {
			t.note("workflow", "any")
		}
		m.Step = t.textOr("step", "", "any")
		m.Operation = t.textOr("operation", "", "any")
		m.Connector = t.textOr("connector", "", "any")
		m.Risk = ledger.Risk(t.choice("risk", "", "any", risks...))
	})
	beside := func(key string, into *string) {
		s, ok := t.text(key)
		if !ok {
			return
		}
		t.note(key, s)
		if *into != "" {
			t.refuse(key, "stands twice: here and in match; remove one")
			return
		}
		*into = s
	}
	if t.has("workflow") && len(m.Workflow) > 0 {
		t.know("workflow")
		t.refuse("workflow", "stands twice: here and in match; remove one")
	} else if w := readWorkflows(t); len(w) > 0 {
		m.Workflow = w
	}
	beside("step", &m.Step)
	beside("operation", &m.Operation)
	beside("connector", &m.Connector)
	return m
}

// readWorkflows reads one workflow or a list of them.
func readWorkflows(t *table) []string {
	v, ok := t.value("workflow")
	if !ok {
		return nil
	}
	var list []string
	if items, isList := v.([]any); isList {
		list = t.textList("workflow", v, nil)
		if len(items) == 0 {
			t.refuse("workflow", "is an empty list, which matches nothing; name a workflow, or remove the key to match all")
		}
	} else if s, ok := t.expanded("workflow", v); ok {
		list = []string{s}
	}
	t.note("workflow", strings.Join(list, ", "))
	return list
}

func readRetry(t *table, p *reconcile.Policy) {
	p.MaxAttempts = readMaxAttempts(t, p.MaxAttempts)
	p.MaxAge = t.duration("max_age", p.MaxAge)
	readBackoff(t, &p.Backoff)
	p.RetryableSet = t.has("retryable")
	p.Retryable = readErrorMatches(t, "retryable", "the temporary classes")
	p.StopOn = readErrorMatches(t, "stop_on", "none")
	for _, m := range p.Retryable {
		if slices.Contains(p.StopOn, m) {
			t.r.warn(t.src.name, t.src.line(join(t.path, "stop_on")), "%s: %s stands in retryable too; stop_on wins",
				join(t.path, "stop_on"), errorMatchText(m))
		}
	}
}

func readMaxAttempts(t *table, def int) int {
	n := def
	if v, ok := t.value("max_attempts"); ok {
		i, isInt := v.(int64)
		switch {
		case !isInt:
			t.refuse("max_attempts", "is %s; write a whole number, 1 or more", kindOf(v))
		case i < 1:
			t.refuse("max_attempts", "%d is refused; the first try counts, so the least is 1", i)
		case i > math.MaxInt32:
			t.refuse("max_attempts", "%d is refused; write a number that somebody could wait for", i)
		default:
			n = int(i)
		}
	}
	t.note("max_attempts", strconv.Itoa(n))
	return n
}

var backoffKinds = []string{string(reconcile.BackoffExponential), string(reconcile.BackoffLinear), string(reconcile.BackoffFixed)}

// readBackoff reads one word, or a table whose unset keys keep their defaults.
func readBackoff(t *table, b *reconcile.Backoff) {
	if _, isText := t.m["backoff"].(string); isText {
		b.Kind = reconcile.BackoffKind(t.choice("backoff", string(b.Kind), "", backoffKinds...))
		return
	}
	t.sub("backoff", func(t *table) {
		b.Kind = reconcile.BackoffKind(t.choice("kind", string(b.Kind), "", backoffKinds...))
		b.Base = t.duration("base", b.Base)
		b.Factor = t.number("factor", b.Factor, 1, 1000)
		if t.has("factor") && b.Kind != reconcile.BackoffExponential {
			t.r.warn(t.src.name, t.src.line(join(t.path, "factor")), "%s: has no effect: the kind is %s, and only %s grows by a factor",
				join(t.path, "factor"), b.Kind, reconcile.BackoffExponential)
		}
		b.Max = t.duration("max", b.Max)
		b.Jitter = t.number("jitter", b.Jitter, 0, 1)
		if b.Max < b.Base {
			key := "max"
			if !t.has(key) {
				key = "base"
			}
			t.refuse(key, "the longest wait (max %s) is shorter than the first (base %s); raise max",
				formatDuration(b.Max), formatDuration(b.Base))
		}
	})
}

// readErrorMatches reads classes and HTTP status codes.
func readErrorMatches(t *table, key, shown string) []reconcile.ErrorMatch {
	v, ok := t.value(key)
	if !ok {
		t.note(key, shown)
		return nil
	}
	items, isList := v.([]any)
	if !isList {
		t.refuse(key, "is %s; write a list of classes and status codes, like [%q, 502]", kindOf(v), ledger.ClassTimeout)
		return nil
	}
	list, names := []reconcile.ErrorMatch{}, []string{}
	for i, item := range items {
		at := join(key, strconv.Itoa(i))
		m, ok := readErrorMatch(t, at, item)
		if !ok {
			continue
		}
		if !slices.Contains(list, m) {
			list, names = append(list, m), append(names, errorMatchText(m))
		}
	}
	t.note(key, or(strings.Join(names, ", "), "none"))
	return list
}

func readErrorMatch(t *table, at string, item any) (reconcile.ErrorMatch, bool) {
	status, isInt := item.(int64)
	if s, isText := item.(string); isText {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			status, isInt = n, true
		}
	}
	if isInt {
		if status < 100 || status > 599 {
			t.refuse(at, "%d is not an HTTP status code; write one from 100 to 599, or a class", status)
			return reconcile.ErrorMatch{}, false
		}
		return reconcile.ErrorMatch{Status: int(status)}, true
	}
	s, ok := t.expanded(at, item)
	if !ok {
		return reconcile.ErrorMatch{}, false
	}
	c, known := ledger.ParseClass(s)
	if !known {
		var names []string
		for _, c := range ledger.Classes() {
			names = append(names, string(c))
		}
		hint := nearest.Hint(s, names)
		if hint == "" {
			hint = "; write an HTTP status code or one of " + strings.Join(names, ", ")
		}
		t.refuseText(at, s, fmt.Errorf("%q is not a class%s", s, hint))
		return reconcile.ErrorMatch{}, false
	}
	return reconcile.ErrorMatch{Class: c}, true
}

func errorMatchText(m reconcile.ErrorMatch) string {
	if m.Status != 0 {
		return strconv.Itoa(m.Status)
	}
	return string(m.Class)
}

// readAllow reads what a person may do. Take may be written, and is always
// allowed.
func readAllow(t *table, def []ledger.Action) []ledger.Action {
	v, ok := t.value("allow")
	if !ok {
		t.note("allow", joinWords(def))
		return def
	}
	var names []string
	for _, a := range ledger.Actions() {
		names = append(names, string(a))
	}
	allow := []ledger.Action{}
	t.textList("allow", v, func(at, s string) {
		switch a := ledger.Action(s); {
		case a == ledger.ActionTake, slices.Contains(allow, a):
		case slices.Contains(names, s):
			allow = append(allow, a)
		default:
			t.refuseText(at, s, fmt.Errorf("%q is not an action%s", s, or(nearest.Hint(s, names), "; write some of "+strings.Join(names, ", "))))
		}
	})
	t.note("allow", or(joinWords(allow), "take alone"))
	return allow
}

func joinWords[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

// readNotice reads notify: a word, or true (the default way) and false (none).
func readNotice(t *table) reconcile.Notify {
	const shown = "digest, and now where the risk is high"
	if b, isBool := t.m["notify"].(bool); isBool {
		t.know("notify")
		if b {
			t.note("notify", shown)
			return reconcile.NotifyUnset
		}
		t.note("notify", string(reconcile.NotifyNone))
		return reconcile.NotifyNone
	}
	return reconcile.Notify(t.choice("notify", string(reconcile.NotifyUnset), shown,
		string(reconcile.NotifyNow), string(reconcile.NotifyDigest), string(reconcile.NotifyNone)))
}

// warnUnreachable names every policy that can never match, because an earlier
// one matches all that it matches.
func (ps *policyReader) warnUnreachable(r *reader) {
	for i := range ps.list {
		for j := 0; j < i; j++ {
			if covers(ps.list[j].Match, ps.list[i].Match) {
				r.warn(ps.from[i].file, ps.from[i].line, "%s can never match: %s (%s:%d) comes first and matches all that it does; move it up or remove it",
					ps.list[i].Name, ps.list[j].Name, ps.from[j].file, ps.from[j].line)
				break
			}
		}
	}
}

// covers says whether a matches everything that b matches.
func covers(a, b reconcile.Match) bool {
	if len(a.Workflow) > 0 {
		if len(b.Workflow) == 0 {
			return false
		}
		for _, w := range b.Workflow {
			if !slices.Contains(a.Workflow, w) {
				return false
			}
		}
	}
	within := func(a, b string) bool { return a == "" || a == b }
	return within(a.Step, b.Step) && within(a.Operation, b.Operation) && within(a.Connector, b.Connector) &&
		within(string(a.Risk), string(b.Risk))
}

// matchLine returns the line and path of a match key, wherever it was written.
func (o origin) matchLine(key string) (line int, path string) {
	for _, p := range []string{join(join(o.path, "match"), key), join(o.path, key)} {
		if o.src.has(p) {
			return o.src.line(p), p
		}
	}
	return o.line, o.path
}

// pathCause takes the path off an error that already has it.
func pathCause(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
