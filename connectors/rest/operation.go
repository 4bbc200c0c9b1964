package rest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// operation is one kind of action.
type operation struct {
	info connectors.Operation

	lookup, read *block
	absence      []*block
	twin         *block
	send         *sendBlock
	checks       []*checkBlock

	statuses map[string]connectors.Standing
	compare  []comparison
	proof    []comparison
	changed  *selector
	carries  []*selector
	rules    []*rule // own ones first, then the connector's

	key                 keyRule
	idempotency         idempotencyRule
	keyUses             []keyUse
	sendsIdempotencyKey bool
	sendsPayloadParts   bool // a placeholder of the send reads the payload
	placesKey           bool // the send has a place for our key
	placesEffectiveKey  bool // the send has a place for {key} itself, so Send need not search the request
}

// block is a question and how its answer is read.
type block struct {
	req *request

	items, answered             *selector
	match                       []*selector
	id, status, merged, partial *selector
	gone                        *selector
	pages                       *pages
	contains                    bool
	scan                        bool // all between {from} and {until}: strangers are normal
	margin                      time.Duration
	visibleWithin, looksBack    time.Duration // as this block says; see has…
	hasVisible, hasLooksBack    bool
	batch                       *batch
}

// batch asks about many keys in one call.
type batch struct {
	block
	max       int
	each      *node // nil in a scan
	join      string
	hasJoin   bool
	negative  bool // missing = "negative": the answer is declared complete
	span      time.Duration
	split     []int // statuses that split the batch
	faultList *selector
	faultKey  *selector
	replies   *selector // one reply a key ...
	tag       string    // ... told apart by the value there; "" with replies named by tag
	byName    bool
}

// pages says how the next page is reached.
type pages struct {
	next, url, more, total *selector
	link                   bool // url = "link:next"
	from, step, size, max  int
}

type sendBlock struct {
	req   *request
	id    *selector
	empty []int
	takes []string  // nil: all members
	fault *selector // errors of single items in a 2xx ...
	whose *selector // ... and the keys that each names; nil: all are ours
}

type checkBlock struct {
	req              *request
	channel          string
	items, answered  *selector
	match            []*selector
	gone, merged     *selector
	none             connectors.VerdictKind
	consent, active  *verdictRule
	lifecycle        *verdictRule
	owner            *selector
	ownerMissing     connectors.VerdictKind
	provides         []connectors.CheckName
	usesRecordID     bool
	usesOwner        bool
	shownPlaceholder []*placeholder // what match must show
}

// verdictRule judges one value.
type verdictRule struct {
	path        *selector
	allow, deny []string
	missing     connectors.VerdictKind
	consent     bool // what is neither a yes nor a no is not guessed
}

type probeBlock struct {
	req           *request
	account, mode *selector
	expect        []expectation
}

type expectation struct {
	path *selector
	is   []string
}

// comparison is one declared field: where the payload has it, and where the
// record.
type comparison struct {
	name    string
	payload []string
	record  *selector
	as      string // "", "fold" or "time"
}

var standings = map[string]connectors.Standing{
	"applied": connectors.StandingApplied, "pending": connectors.StandingPending,
	"rejected": connectors.StandingRejected, "reversed": connectors.StandingReversed,
}

// operation reads one operation table.
func (d *definition) operation(t *table, shapes map[string]map[string]any, facts map[string]string) {
	d.fillShape(t, shapes)
	op := &operation{statuses: map[string]connectors.Standing{}}
	name := d.operationName(t)
	d.opLets = d.readLets(t)
	defer func() { d.opLets = nil }()
	own := t.timings(d.timings)

	op.key = d.keyRule(t, d.key)
	op.idempotency = d.idempotencyRule(t, d.idempotency)
	op.rules = append(d.errorRules(t, "errors", "operation"), d.rules...)

	d.operationBlocks(t, op, own.timeout)
	d.readStatuses(t, op)
	op.compare = d.comparisons(t, "compare")
	op.proof = d.comparisons(t, "proof")
	op.changed = d.selector(t, "changed")
	op.carries = d.selectors(t, "carries")
	if op.changed != nil && len(op.proof) == 0 && !t.has("proof") {
		t.fail("changed", "only goes with proof")
	}
	if op.lookup == nil && op.read == nil {
		for _, key := range []string{"compare", "proof", "canary", "control", "statuses"} {
			if t.has(key) {
				t.fail(key, "needs a lookup to read; add lookup = { … }, or take this out")
			}
		}
	}

	op.info = d.operationInfo(t, op, own)
	op.info.Name, op.info.Facts = name, facts
	t.unsupported("resend_asks")
	t.finish()
	op.sendsIdempotencyKey = op.send != nil && op.send.req.uses("idempotency_key")
	op.sendsPayloadParts = op.send != nil && op.send.req.namesPayload()
	op.placesKey = op.send != nil && op.send.req.placesKey()
	op.placesEffectiveKey = op.send != nil && op.send.req.uses("key")
	if op.send != nil && op.needsKey() && !op.placesKey && !op.send.req.usesPayload() {
		t.fail("send", "carries our key nowhere, so that what it makes could never be found by the lookup; put {key} where the system keeps it")
	}
	op.findKeyUses()
	d.checkKeyRule(t, op)
	if name != "" {
		d.operations[name] = op
	}
}

// fillShape puts the keys of a shape where an operation leaves them out.
func (d *definition) fillShape(t *table, shapes map[string]map[string]any) {
	name, ok := t.str("shape")
	if !ok {
		return
	}
	shape, ok := shapes[name]
	if !ok {
		t.fail("shape", "there is no shape.%s; %s", name, suggest(name, slices.Sorted(maps.Keys(shapes))))
	}
	d.shaped[name] = true
	filled := maps.Clone(t.m)
	for k, v := range shape {
		if _, own := filled[k]; !own {
			filled[k] = v
		}
	}
	t.m = filled
}

// operationName reads the name, which no other operation of the connector has.
func (d *definition) operationName(t *table) string {
	name := t.strOr("name", "")
	switch {
	case name == "" && !t.has("name"):
		t.fail("name", "missing; write the operation's name, such as %q", "invoice.create")
	case name == "" || strings.TrimSpace(name) != name || len(name) > 512:
		t.fail("name", "must have 1 to 512 bytes and no outer blanks")
	case d.operations[name] != nil:
		t.fail("name", "%q is described twice; keep one", name)
	}
	return name
}

// operationBlocks reads the requests of an operation.
func (d *definition) operationBlocks(t *table, op *operation, timeout time.Duration) {
	lookupTable := t.table("lookup")
	if lookupTable != nil {
		op.lookup = d.block(lookupTable, names("from", "until", "page"), timeout)
		op.lookup.batch = d.batch(lookupTable, names("from", "until", "page", "each", "tag"), timeout)
		op.lookup.checkMargin(lookupTable)
	}
	if rt := t.table("read"); rt != nil {
		rt.noAbsence("a direct read")
		rt = d.inherit(lookupTable, rt)
		op.read = d.block(rt, names("id", "page"), timeout)
		if !op.read.req.uses("id") && rt.m["path"] != nil {
			rt.fail("path", "a direct read names its record; put {id} into the request")
		}
		op.read.batch = d.batch(rt, names("id", "page", "each", "tag"), timeout)
	}
	for _, at := range t.tables("absence") {
		at = d.inherit(lookupTable, at)
		b := d.block(at, names("from", "until", "page"), timeout)
		b.batch = d.batch(at, names("from", "until", "page", "each", "tag"), timeout)
		b.checkMargin(at)
		op.absence = append(op.absence, b)
	}
	if tt := t.table("twin"); tt != nil {
		tt.noAbsence("a twin")
		tt = d.inherit(lookupTable, tt)
		op.twin = d.block(tt, names("page"), timeout)
		if tt.has("batch") {
			tt.fail("batch", "a twin is asked for one entry at a time; take it out")
		}
	}
	if op.lookup == nil && (op.absence != nil || op.twin != nil) {
		t.fail("lookup", "missing; absence and twin come after a lookup")
	}
	if st := t.table("send"); st != nil {
		op.send = d.send(st, timeout)
	}
	for _, ct := range t.tables("check") {
		op.checks = append(op.checks, d.check(ct, timeout))
	}
}

// operationInfo says what an operation can do, by its blocks and by the keys
// that only say so. Its name and facts are not set.
func (d *definition) operationInfo(t *table, op *operation, own timings) connectors.Operation {
	info := connectors.Operation{
		Lookup: connectors.LookupNone, BatchMax: 1,
		Timeout: own.timeout, LandsWithin: own.landsWithin, VisibleWithin: own.visibleWithin, LooksBack: own.looksBack,
		InFlightFor: own.inFlightFor, AbsentAfter: own.absentAfter, AbsentSpacing: own.absentSpacing,
		KeepsKey: own.keepsKey, KeyScope: own.keyScope,
		Repeatable: t.boolean("repeatable"), Unique: t.boolean("unique"), Removes: t.boolean("removes"),
		HasProof: len(op.proof) > 0, HasCompare: len(op.compare) > 0, HasChanged: op.changed != nil, HasTwin: op.twin != nil,
		CanSend: op.send != nil,
	}
	if op.lookup != nil {
		info.Lookup = connectors.LookupSingle
		if op.lookup.batch != nil {
			info.Lookup, info.BatchMax = connectors.LookupBatch, op.lookup.batch.max
		}
		d.negatives(&info, op)
	}
	if op.send != nil {
		info.SendNeedsID = op.send.id != nil
		info.CarriesKey = op.send.req.carriesKey()
		info.Timeout = op.send.req.timeout
		if replay := op.idempotency.replay; info.CarriesKey && info.KeepsKey > 0 {
			info.ReplaysError = replay == "stored" || replay == "" || replay == "unknown"
		}
	}
	if s, ok := t.str("canary"); ok {
		var err error
		if info.Canary, err = d.constant(s, nil); err != nil {
			t.fail("canary", "%v", err)
		} else if info.Canary == "" {
			t.fail("canary", "empty; write the key of a record that is always there, or take it out")
		}
	}
	if t.oneOf("control", "", "probe") == "probe" {
		info.ControlProbe = true
		if len(d.probes) == 0 {
			t.fail("control", "there is no probe; add probe = { method = \"GET\", path = \"/me\" } to the connector")
		}
		if t.has("canary") {
			t.fail("control", "canary is the better control, and there is one; keep one of the two")
		}
	}
	seen := map[connectors.CheckName]bool{}
	for _, c := range op.checks {
		for _, n := range c.provides {
			seen[n] = true
		}
	}
	for _, n := range []connectors.CheckName{connectors.CheckConsent, connectors.CheckOwner, connectors.CheckLifecycle} {
		if seen[n] {
			info.Checks = append(info.Checks, n)
		}
	}
	return info
}

// noAbsence refuses what dates a negative where no negative counts.
func (t *table) noAbsence(what string) {
	for _, key := range []string{"visible_within", "looks_back"} {
		if t.has(key) {
			t.fail(key, "%s proves no absence; write it in lookup or absence", what)
		}
	}
	if bt, ok := t.m["batch"].(map[string]any); ok {
		t.p.table(t.at("batch"), bt).noAbsence(what)
	}
}

// negatives sets how long an empty answer proves nothing: by the blocks whose
// negatives count.
func (d *definition) negatives(info *connectors.Operation, op *operation) {
	asked := []*block{op.lookup}
	if len(op.absence) > 0 {
		asked = op.absence
	}
	visible, back := time.Duration(-1), time.Duration(0)
	for _, b := range asked {
		for _, q := range b.forms() {
			v := info.VisibleWithin
			if q.hasVisible {
				v = q.visibleWithin
			}
			visible = max(visible, v)
			l := info.LooksBack
			if q.hasLooksBack {
				l = q.looksBack
			}
			if l > 0 && (back == 0 || l < back) {
				back = l
			}
		}
	}
	info.VisibleWithin, info.LooksBack = visible, back
}

// forms are the ways a block is asked.
func (b *block) forms() []*block {
	if b.batch == nil {
		return []*block{b}
	}
	return []*block{b, &b.batch.block}
}

func (d *definition) readStatuses(t *table, op *operation) {
	st := t.table("statuses")
	if st != nil {
		for _, status := range slices.Sorted(maps.Keys(st.m)) {
			name := st.oneOf(status, "", slices.Sorted(maps.Keys(standings))...)
			if name != "" {
				op.statuses[status] = standings[name]
			}
		}
	}
	reads := false
	for _, b := range append([]*block{op.lookup, op.read, op.twin}, op.absence...) {
		if b == nil {
			continue
		}
		for _, q := range b.forms() {
			reads = reads || q.status != nil
		}
	}
	switch {
	case reads && st == nil && !t.has("statuses"):
		t.fail("statuses", "missing; map each status that can be read, such as statuses = { paid = \"applied\", failed = \"rejected\" }")
	case !reads && st != nil && (op.lookup != nil || op.read != nil):
		t.fail("statuses", "no block has a status; add status = \"path\" to lookup")
	}
}

func (d *definition) comparisons(t *table, key string) []comparison {
	ct := t.table(key)
	if ct == nil {
		return nil
	}
	var out []comparison
	for _, name := range slices.Sorted(maps.Keys(ct.m)) {
		v, _ := ct.raw(name)
		c := comparison{name: name}
		resolved, err := d.constant(name, nil)
		if err != nil || resolved == "" || strings.ContainsAny(resolved, "*$[]") {
			ct.fail(name, "is no path in the payload; write names joined by dots")
			continue
		}
		c.payload = strings.Split(resolved, ".")
		_, isTable := v.(map[string]any)
		if own := []string{"changed", "carries"}; !isTable && slices.Contains(own, name) && !t.has(name) {
			ct.fail(name, "is a member of the payload here, not the operation's %s; write %s beside %s, or, where the payload has such a member, %s = { path = \"…\" }",
				name, name, key, name)
		}
		if isTable {
			one := ct.table(name)
			c.record = d.selector(one, "path")
			if !one.has("path") {
				one.fail("path", "missing; write the path in the found record")
			}
			c.as = one.oneOf("as", "", "fold", "time")
			one.finish()
		} else {
			c.record = d.selector(ct, name)
		}
		out = append(out, c)
	}
	return out
}

// answerKeys say how an answer is read; inheritedAlways are those that a block
// with a path of its own still takes from its parent.
var answerKeys = []string{"items", "answered", "match", "id", "status", "gone", "merged", "partial", "pages", "contains",
	"visible_within", "looks_back", "margin"}

var inheritedAlways = []string{"match", "id", "status", "gone", "merged"}

// inherit fills a block from its parent: with a path of its own it is a new
// request and keeps how a record is read; without, it is the parent's request
// with the named members replaced.
func (d *definition) inherit(parent, child *table) *table {
	if parent == nil {
		return child
	}
	m := maps.Clone(child.m)
	_, own := child.m["path"]
	for k, v := range parent.m {
		if k == "batch" || own && !slices.Contains(inheritedAlways, k) {
			continue
		}
		have, ok := m[k]
		if !ok {
			m[k] = v
			continue
		}
		above, isTable := v.(map[string]any)
		here, alsoTable := have.(map[string]any)
		if isTable && alsoTable && slices.Contains([]string{"query", "headers", "json", "variables"}, k) {
			merged := maps.Clone(above)
			maps.Copy(merged, here)
			m[k] = merged
		}
	}
	t := child.p.table(child.path, m)
	// A mistake in what comes from the parent was said there.
	keys := inheritedAlways
	if !own {
		keys = append(slices.Clone(requestKeys), answerKeys...)
	}
	for _, k := range keys {
		if _, here := child.m[k]; !here {
			t.p.mute(t.at(k))
		}
	}
	return t
}

// question is a request that only reads.
func (d *definition) question(t *table, allowed []string, timeout time.Duration) *request {
	r := d.request(t, allowed, timeout)
	if r.method != "" && r.method != "GET" && r.method != "POST" {
		t.fail("method", "%s may change something; what only asks is GET, or POST where the system wants it", r.method)
	}
	return r
}

// block reads a question.
func (d *definition) block(t *table, allowed []string, timeout time.Duration) *block {
	b := &block{req: d.question(t, allowed, timeout)}
	d.answerKeys(t, b)
	t.raw("batch")
	t.finish()
	d.checkPages(t, b)
	return b
}

func (d *definition) answerKeys(t *table, b *block) {
	b.items = d.selector(t, "items")
	b.answered = d.selector(t, "answered")
	b.match = d.selectors(t, "match")
	b.id = d.selector(t, "id")
	b.status = d.selector(t, "status")
	b.gone = d.selector(t, "gone")
	b.merged = d.selector(t, "merged")
	b.partial = d.selector(t, "partial")
	b.contains = t.boolean("contains")
	b.hasVisible, b.hasLooksBack = t.has("visible_within"), t.has("looks_back")
	b.visibleWithin = t.duration("visible_within", 0)
	b.looksBack = t.positive("looks_back", 0)
	b.scan = b.req.uses("from") || b.req.uses("until")
	b.margin = t.duration("margin", defaultMargin)
	if t.has("margin") && !b.scan && !t.has("batch") {
		t.fail("margin", "goes with {from} and {until} in the request")
	}
	if t.has("answered") && !t.has("items") && !t.has("replies") && !t.has("batch") {
		t.fail("answered", "tells an empty list from no list; it goes with items")
	}
	b.pages = d.pages(t)
	if len(b.match) == 0 && !t.has("match") {
		why := "so that a record can show whose it is"
		if b.items == nil {
			why = "the body is the record, and must show our key too"
		}
		t.fail("match", "missing; write the path of our key in a record (%s)", why)
	}
}

// checkMargin refuses a margin where neither a block nor its batch is a scan.
func (b *block) checkMargin(t *table) {
	if t.has("margin") && b.batch != nil && !b.scan && !b.batch.scan {
		t.fail("margin", "goes with {from} and {until} in the request")
	}
}

func (d *definition) pages(t *table) *pages {
	pt := t.table("pages")
	if pt == nil {
		return nil
	}
	p := &pages{
		next: d.selector(pt, "next"), more: d.selector(pt, "more"), total: d.selector(pt, "total"),
		from: pt.number("from", 1, 0, 1<<30), step: pt.number("step", 1, 1, 1<<20), size: pt.number("size", 0, 1, 1<<20),
		max: pt.number("max", defaultMaxPages, 1, 10_000),
	}
	if s, ok := pt.m["url"].(string); ok && s == "link:next" {
		pt.raw("url")
		p.link = true
	} else {
		p.url = d.selector(pt, "url")
	}
	if p.next != nil && (p.url != nil || p.link) {
		pt.fail("next", "next and url are two ways to the same page; keep one")
	}
	if !p.counting() || pt.has("url") || pt.has("next") {
		for _, key := range []string{"from", "step", "size", "total"} {
			if pt.has(key) {
				pt.fail(key, "goes with counted pages; take it out, or take next and url out")
			}
		}
	}
	pt.finish()
	return p
}

func (p *pages) counting() bool { return p.next == nil && p.url == nil && !p.link }

func (d *definition) checkPages(t *table, b *block) {
	uses := b.req.uses("page")
	switch {
	case b.pages == nil && uses:
		t.fail("pages", "missing; {page} is used, so say where the next page is found, such as pages = { next = \"next_page\" }")
	case b.pages != nil && !uses && b.pages.url == nil && !b.pages.link:
		t.fail("pages", "{page} stands nowhere in the request; put it where the cursor goes")
	case uses && !b.pages.counting():
		isPage := func(h *placeholder) bool { return h.name == "page" }
		inPath := slices.ContainsFunc(b.req.path, func(p pathPart) bool { return slices.ContainsFunc(p.text.holes(), isPage) })
		if inPath || b.req.text != nil && slices.ContainsFunc(b.req.text.holes(), isPage) {
			t.fail("pages", "the first call has no cursor, and neither a path nor a text can go without it; put {page} into query, headers or json")
		}
	}
}

// batch reads the batch of a block, nil for none.
func (d *definition) batch(parent *table, allowed []string, timeout time.Duration) *batch {
	bt := parent.table("batch")
	if bt == nil {
		return nil
	}
	t := d.inherit(parent, bt)
	b := &batch{block: block{req: d.question(t, allowed, timeout)}}
	b.max = t.number("max", 0, 1, 100_000)
	if !t.has("max") {
		t.fail("max", "missing; write the most keys that one call may ask for")
	}
	if v, ok := t.raw("each"); ok {
		eachAllowed := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "each" || s == "page" })
		if text, isText := v.(string); isText && t.has("graphql") {
			tmpl, err := d.parseGraphQL(text, eachAllowed)
			if err != nil {
				t.fail("each", "%v", err)
			} else {
				b.each = &node{text: tmpl}
			}
		} else {
			b.each = d.node(t.p, t.at("each"), v, eachAllowed)
		}
	}
	b.join, b.hasJoin = t.str("join")
	b.negative = t.oneOf("missing", "ask", "ask", "negative") == "negative"
	b.split = d.statusList(t, "split")
	if ft := t.table("fault"); ft != nil {
		b.faultList, b.faultKey = d.selector(ft, "items"), d.selector(ft, "key")
		if !ft.has("items") {
			ft.fail("items", "missing; write the path of the list of errors")
		}
		ft.finish()
	}
	b.replies = d.selector(t, "replies")
	b.tag = t.strOr("tag", "")
	b.byName = b.replies != nil && b.tag == ""
	b.span = t.positive("span", 0)
	d.answerKeys(t, &b.block)
	t.finish()
	d.checkPages(t, &b.block)

	if t.has("max_text") && b.each == nil && !t.has("each") {
		t.fail("max_text", "limits {each}, and there is none; take it out")
	}
	if b.hasJoin && b.scan {
		t.fail("join", "joins what each key looks like, and a scan asks for no keys; take it out")
	}
	eachHoles := b.each.holes()
	uses := b.req.uses("each")
	usesTag := slices.ContainsFunc(eachHoles, func(h *placeholder) bool { return h.name == "tag" })
	switch {
	case b.scan && b.each != nil:
		t.fail("each", "a scan by {from} and {until} asks for no keys; take it out")
	case b.scan && b.span == 0:
		t.fail("span", "missing; write the longest time one scan may cover, such as \"24h\"")
	case !b.scan && b.span > 0:
		t.fail("span", "goes with {from} and {until} in the request")
	case !b.scan && b.each == nil && !t.has("each"):
		t.fail("each", "missing; write what one key looks like in the request, such as \"{key}\"")
	case b.each != nil && !uses:
		t.fail("each", "{each} stands nowhere in the request; put it where the keys go")
	case b.replies != nil && !usesTag:
		t.fail("each", "replies are told apart by {tag}; put it into each")
	case b.replies == nil && (usesTag || b.tag != ""):
		t.fail("replies", "missing; {tag} is used, so say where the replies stand")
	case b.replies != nil && b.pages != nil:
		t.fail("pages", "replies by tag have no pages; take it out")
	case b.hasJoin && b.each != nil && b.each.text == nil:
		t.fail("join", "only joins an each that is text")
	}
	for _, h := range b.req.holes() {
		if !h.optional && !isConstant(h.name) && !slices.Contains([]string{"each", "page", "from", "until"}, h.name) {
			// It was taken over from the parent, most likely.
			t.fail("each", "{%s} stands in the request beside {each}, which asks for many entries and has no %s of one; put {each} in its place, or give the batch a path of its own",
				h.name, h.name)
			break
		}
	}
	if b.each != nil && b.each.text != nil && !b.hasJoin {
		for _, h := range b.mixedHoles() {
			if h.name == "each" {
				t.fail("join", "missing; {each} stands inside a longer text, so say what stands between two keys")
			}
		}
	}
	if b.hasJoin && b.each != nil && b.each.text != nil {
		// Joined keys stand in a longer text: each needs an encoder there.
		if h := b.each.text.whole(); h != nil && h.encoder == "" && h.name != "payload" {
			h.encoder = "plain"
		}
	}
	return b
}

// mixedHoles are the placeholders that stand inside a longer text.
func (b *batch) mixedHoles() []*placeholder {
	var hs []*placeholder
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil {
			return
		}
		if n.text != nil && n.text.whole() == nil {
			hs = append(hs, n.text.holes()...)
		}
		for _, m := range n.members {
			visit(m)
		}
		for _, e := range n.list {
			visit(e)
		}
	}
	for _, n := range b.req.query {
		visit(n)
	}
	visit(b.req.json)
	visit(b.req.form)
	if b.req.text != nil && b.req.text.whole() == nil {
		hs = append(hs, b.req.text.holes()...)
	}
	for _, p := range b.req.path {
		hs = append(hs, p.text.holes()...)
	}
	return hs
}

func (d *definition) send(t *table, timeout time.Duration) *sendBlock {
	s := &sendBlock{req: d.request(t, names("idempotency_key"), timeout)}
	s.id = d.selector(t, "id")
	s.empty = d.statusList(t, "empty")
	if t.has("empty") && !t.has("id") {
		t.fail("empty", "names answers that need no id, and without id none needs one; take it out, or add id")
	}
	if t.has("takes") {
		s.takes = d.strings(t, "takes")
	}
	if s.req.method == "GET" || s.req.method == "HEAD" {
		t.fail("method", "%s changes nothing; write POST, PUT, PATCH or DELETE", s.req.method)
	}
	if s.req.body == bodyNone && s.req.method != "DELETE" && !t.has("json") && !t.has("form") && !t.has("text") && !t.has("graphql") {
		s.req.body = bodyStored
	}
	if ft := t.table("fault"); ft != nil {
		s.fault, s.whose = d.selector(ft, "items"), d.selector(ft, "key")
		if !ft.has("items") {
			ft.fail("items", "missing; write the path of the list of errors")
		}
		ft.finish()
	}
	t.unsupported("batch")
	t.finish()
	return s
}

// carriesKey tells whether a send carries a key that the system can refuse a
// second request by: {idempotency_key} anywhere, or {key} as a header.
func (r *request) carriesKey() bool {
	if r.uses("idempotency_key") {
		return true
	}
	for _, n := range r.header {
		for _, h := range n.holes() {
			if h.name == "key" {
				return true
			}
		}
	}
	return false
}

var verdictWords = map[string]connectors.VerdictKind{
	"pass": connectors.VerdictPass, "refuse": connectors.VerdictRefuse, "unread": connectors.VerdictUnread,
}

func (t *table) verdict(key string) connectors.VerdictKind {
	return verdictWords[t.oneOf(key, "unread", "unread", "pass", "refuse")]
}

func (d *definition) check(t *table, timeout time.Duration) *checkBlock {
	c := &checkBlock{req: d.question(t, names("owner"), timeout)}
	c.channel = t.strOr("channel", "")
	c.items, c.answered = d.selector(t, "items"), d.selector(t, "answered")
	if t.has("answered") && !t.has("items") {
		t.fail("answered", "tells an empty list from no list; it goes with items")
	}
	c.match = d.selectors(t, "match")
	c.gone, c.merged = d.selector(t, "gone"), d.selector(t, "merged")
	c.none = t.verdict("none")
	c.consent = d.verdictRule(t, "consent")
	c.active = d.verdictRule(t, "active")
	c.lifecycle = d.verdictRule(t, "lifecycle")
	c.owner = d.selector(t, "owner")
	if t.has("owner_missing") && c.owner == nil {
		t.fail("owner_missing", "goes with owner")
	}
	c.ownerMissing = t.verdict("owner_missing")
	if c.consent != nil {
		c.provides = append(c.provides, connectors.CheckConsent)
	}
	if c.owner != nil || c.active != nil {
		c.provides = append(c.provides, connectors.CheckOwner)
	}
	if c.lifecycle != nil || c.gone != nil || c.merged != nil {
		c.provides = append(c.provides, connectors.CheckLifecycle)
	}
	if len(c.provides) == 0 {
		t.fail("consent", "missing; a check reads consent, owner, active, lifecycle, gone or merged")
	}
	c.usesRecordID, c.usesOwner = c.req.uses("record_id"), c.req.uses("owner")
	for _, h := range c.req.holes() {
		if slices.Contains([]string{"record_id", "subject", "owner", "key"}, h.name) || strings.HasPrefix(h.name, "payload.") {
			c.shownPlaceholder = append(c.shownPlaceholder, h)
		}
	}
	if len(c.match) > 0 && len(c.shownPlaceholder) == 0 {
		t.fail("match", "the request asks for nobody in particular; put {record_id} or {subject} into it")
	}
	t.unsupported("batch", "fault")
	t.finish()
	return c
}

func (d *definition) verdictRule(t *table, name string) *verdictRule {
	v := &verdictRule{path: d.selector(t, name), consent: name == "consent"}
	v.allow, v.deny = d.strings(t, name+"_allow"), d.strings(t, name+"_deny")
	if t.has(name+"_allow") && len(v.allow) == 0 && !d.p.has(t.at(name+"_allow")) {
		t.fail(name+"_allow", "empty, so nothing would pass; write the values that pass")
	}
	v.missing = t.verdict(name + "_missing")
	if v.path == nil {
		for _, suffix := range []string{"_allow", "_deny", "_missing"} {
			if t.has(name+suffix) && !t.has(name) {
				t.fail(name+suffix, "goes with %s", name)
			}
		}
		return nil
	}
	return v
}

func (d *definition) probe(t *table) *probeBlock {
	b := &probeBlock{req: d.question(t, staticOnly, d.timings.timeout)}
	b.account, b.mode = d.selector(t, "account"), d.selector(t, "mode")
	if et := t.table("expect"); et != nil {
		for _, path := range slices.Sorted(maps.Keys(et.m)) {
			s, err := d.parseSelector(path)
			if err != nil {
				et.fail(path, "%v", err)
				continue
			}
			is := d.strings(et, path)
			if len(is) == 0 {
				et.fail(path, "empty, so nothing would hold; write the values that may stand there")
			}
			b.expect = append(b.expect, expectation{path: s, is: is})
		}
	}
	t.finish()
	return b
}

// String names a comparison in messages.
func (c comparison) String() string { return fmt.Sprintf("%s = %s", c.name, c.record.text) }
