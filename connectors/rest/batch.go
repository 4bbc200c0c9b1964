package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
)

// item is one key of a batch and what became of it.
type item struct {
	q      connectors.Query
	owner  int      // index of its query
	s      *scope   // with the key or id asked for
	expect []string // values of which a record of ours shows one

	found found
	none  bool // an explicit none
	err   *connectors.Error
	at    time.Time // when it was asked
}

// fail keeps the first error of an item that has no answer.
func (it *item) fail(e *connectors.Error) {
	if it.err == nil && !it.none && len(it.found.records) == 0 {
		it.err = e
	}
}

// sizes remembers the batch size that worked where a larger one was refused
// for its size.
type sizes struct {
	mu sync.Mutex
	of map[*batch]int
}

func (z *sizes) most(b *batch) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	if n := z.of[b]; n > 0 {
		return min(n, b.max)
	}
	return b.max
}

func (z *sizes) learn(b *batch, n int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.of == nil {
		z.of = map[*batch]int{}
	}
	if have := z.of[b]; n > 0 && (have == 0 || n < have) {
		z.of[b] = n
	}
}

// LookupBatch implements connectors.BatchLooker. An operation without batch is
// asked one by one.
func (c *Connector) LookupBatch(ctx context.Context, qs []connectors.Query) []connectors.Result {
	out := make([]connectors.Result, len(qs))
	if len(qs) == 0 {
		return out
	}
	op, err := c.operation(qs[0].Operation)
	if err != nil || op.lookup == nil || op.lookup.batch == nil || len(qs) > op.lookup.batch.max {
		for i, q := range qs {
			switch {
			case err == nil && q.Operation != qs[0].Operation:
				out[i].Err = &connectors.Error{Kind: connectors.KindUnsupported, Message: "a batch asks for one operation"}
			default:
				out[i].Answer, out[i].Err = c.Lookup(ctx, q)
			}
		}
		return out
	}
	if e := c.keepShare(ctx); e != nil {
		for i := range out {
			out[i].Err = e
		}
		return out
	}
	b := op.lookup.batch
	var n tally
	items := itemsOf(op, b, qs)
	c.askItems(ctx, op, b, items, &n)
	byQuery := make([][]*item, len(qs))
	for _, it := range items {
		byQuery[it.owner] = append(byQuery[it.owner], it)
	}
	state := make([]asked, len(qs))
	for i := range qs {
		state[i].outcome, state[i].at = collect(byQuery[i])
		state[i].forms = []string{"batch"}
	}
	c.prefetchReads(ctx, op, qs, state, &n)
	c.prefetchAbsence(ctx, op, qs, state, &n)
	for i, q := range qs {
		st := &state[i]
		own := tally{askedAt: st.at}
		more, failed := c.follow(ctx, op, q, &st.found, st.err, &own, st.pre)
		if own.askedAt.IsZero() {
			own.askedAt = n.askedAt
		}
		if i == 0 {
			own.requests += n.requests
		}
		out[i].Answer, out[i].Err = c.result(st.found, own, append(st.forms, more...), failed)
	}
	return out
}

// asked is what is known of one query of a batch.
type asked struct {
	outcome
	at    time.Time
	forms []string
	pre   prefetched
}

// prefetchReads reads all hits and known ids of a batch together, where the
// definition can. What is not mentioned is read alone later.
func (c *Connector) prefetchReads(ctx context.Context, op *operation, qs []connectors.Query, state []asked, n *tally) {
	if op.read == nil || op.read.batch == nil {
		return
	}
	var items []*item
	for i, q := range qs {
		ids := []string{q.RemoteID}
		for _, r := range state[i].found.records {
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			if id != "" {
				it := &item{q: q, owner: i, s: newScope(q, lastKey(q), &op.read.batch.block), expect: op.expected(q)}
				it.s.id = id
				items = append(items, it)
			}
		}
	}
	if len(items) < 2 {
		return
	}
	c.askItems(ctx, op, op.read.batch, items, n)
	for _, it := range items {
		if it.err != nil && it.err.Kind == connectors.KindNotMentioned {
			continue
		}
		// Several ids of one entry come back under one key: each id takes its own.
		f := it.found
		f.records = nil
		for _, r := range it.found.records {
			if r.ID == it.s.id || r.ID == "" {
				f.records = append(f.records, r)
			}
		}
		if len(f.records) == 0 && it.err == nil && !it.none && !op.read.batch.negative {
			continue
		}
		if f.records != nil {
			f.foreign = 0 // of other items of the same call
		}
		pre := &state[it.owner].pre
		if pre.reads == nil {
			pre.reads = map[string]outcome{}
		}
		pre.reads[it.s.id] = outcome{f, it.err}
	}
}

// prefetchAbsence asks the absence blocks for all entries of which nothing was
// found, where they can be asked together.
func (c *Connector) prefetchAbsence(ctx context.Context, op *operation, qs []connectors.Query, state []asked, n *tally) {
	for _, b := range op.absence {
		if b.batch == nil {
			continue
		}
		var some []connectors.Query
		var index []int
		for i, q := range qs {
			if state[i].err == nil && len(state[i].found.records) == 0 {
				some, index = append(some, q), append(index, i)
			}
		}
		if len(some) < 2 {
			return
		}
		items := itemsOf(op, b.batch, some)
		c.askItems(ctx, op, b.batch, items, n)
		byQuery := make([][]*item, len(some))
		for _, it := range items {
			byQuery[it.owner] = append(byQuery[it.owner], it)
		}
		for j, of := range byQuery {
			got, _ := collect(of)
			if got.err != nil && got.err.Kind == connectors.KindNotMentioned {
				continue
			}
			pre := &state[index[j]].pre
			if pre.absence == nil {
				pre.absence = map[*block]outcome{}
			}
			pre.absence[b] = got
		}
	}
}

// itemsOf makes one item of each key, or one of each query in a scan.
func itemsOf(op *operation, b *batch, qs []connectors.Query) []*item {
	perKey := b.each != nil && slices.ContainsFunc(b.each.holes(), func(h *placeholder) bool { return h.name == "key" })
	var items []*item
	for i, q := range qs {
		keys := q.Keys
		if !perKey && len(keys) > 1 {
			keys = keys[:1]
		}
		if len(keys) == 0 {
			keys = []string{""}
		}
		for _, key := range keys {
			it := &item{q: q, owner: i, s: newScope(q, key, &b.block), expect: op.expected(q)}
			if perKey && !op.lookup.byRecord() {
				it.expect = []string{key}
			}
			items = append(items, it)
		}
	}
	return items
}

// collect joins what became of the keys of one entry.
func collect(items []*item) (o outcome, askedAt time.Time) {
	o.found.complete = true
	for _, it := range items {
		o.found.merge(it.found)
		if it.err != nil {
			o.found.complete = false
			if o.err == nil {
				o.err = it.err
			}
		}
		if askedAt.IsZero() || !it.at.IsZero() && it.at.Before(askedAt) {
			askedAt = it.at
		}
	}
	return o, askedAt
}

// renderEach makes what {each} stands for.
func (b *batch) renderEach(scopes []*scope) (*eachList, error) {
	e := &eachList{joined: b.hasJoin, join: b.join}
	for _, s := range scopes {
		if b.each.text != nil {
			text, ok, err := b.each.text.render(s, placing{})
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, &badValue{"each", "a value is missing"}
			}
			e.texts = append(e.texts, text)
			continue
		}
		raw, _, err := b.each.json(s)
		if err != nil {
			return nil, err
		}
		e.raws = append(e.raws, json.RawMessage(raw))
	}
	return e, nil
}

// askItems asks for all items in as few calls as the limits allow. Each item
// ends with records, an explicit none, or an error.
func (c *Connector) askItems(ctx context.Context, op *operation, b *batch, items []*item, n *tally) {
	for i, it := range items {
		it.s.tag = "k" + strconv.Itoa(i+1)
	}
	if b.scan {
		for _, group := range spans(b, items) {
			c.askGroup(ctx, op, b, group, n)
		}
		return
	}
	var usable []*item
	for _, it := range items {
		if _, err := b.renderEach([]*scope{it.s}); err != nil {
			it.err = c.unbuildable(err)
			continue
		}
		usable = append(usable, it)
	}
	for len(usable) > 0 {
		size := min(len(usable), c.sizes.most(b))
		for size > 0 {
			_, err := c.buildBatch(b, usable[:size])
			var big *tooBig
			if !errors.As(err, &big) {
				break
			}
			if size == 1 {
				usable[0].err = c.unbuildable(err)
				break
			}
			size /= 2
		}
		if usable[0].err == nil {
			c.askGroup(ctx, op, b, usable[:size], n)
		}
		usable = usable[size:]
	}
}

// spans groups the items of a scan so that one group covers one span of time.
func spans(b *batch, items []*item) [][]*item {
	var dated []*item
	for _, it := range items {
		if it.s.from.IsZero() || it.s.until.IsZero() {
			it.err = &connectors.Error{Kind: connectors.KindNotMentioned, Message: "not known when the action can have been made; asked alone"}
			continue
		}
		dated = append(dated, it)
	}
	slices.SortStableFunc(dated, func(x, y *item) int { return x.s.from.Compare(y.s.from) })
	var groups [][]*item
	var until time.Time
	for _, it := range dated {
		if len(groups) > 0 {
			last := groups[len(groups)-1]
			if next := later(until, it.s.until); next.Sub(last[0].s.from) <= b.span && len(last) < b.max {
				groups[len(groups)-1] = append(last, it)
				until = next
				continue
			}
		}
		groups = append(groups, []*item{it})
		until = it.s.until
	}
	return groups
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// batchScope holds the values of the request as a whole.
func (c *Connector) batchScope(b *batch, items []*item) (*scope, error) {
	s := &scope{from: items[0].s.from, until: items[0].s.until}
	for _, it := range items {
		if it.s.from.Before(s.from) {
			s.from = it.s.from
		}
		s.until = later(s.until, it.s.until)
	}
	if b.each == nil {
		return s, nil
	}
	scopes := make([]*scope, len(items))
	for i, it := range items {
		scopes[i] = it.s
	}
	var err error
	s.each, err = b.renderEach(scopes)
	return s, err
}

func (c *Connector) buildBatch(b *batch, items []*item) (*scope, error) {
	s, err := c.batchScope(b, items)
	if err != nil {
		return nil, err
	}
	if b.pages != nil && b.pages.counting() {
		s.page = strconv.Itoa(b.pages.from)
	}
	_, err = b.req.build(c.def.base, s)
	return s, err
}

// poisoned lists the statuses by which one bad key can spoil a batch.
var poisoned = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
	http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge}

func (b *batch) splits(status int) bool {
	return slices.Contains(poisoned, status) || slices.Contains(b.split, status)
}

// askGroup asks for a group in one call, and splits it where one key spoils it.
func (c *Connector) askGroup(ctx context.Context, op *operation, b *batch, items []*item, n *tally) {
	e := c.askOnce(ctx, op, b, items, n)
	if e == nil {
		return
	}
	failAll := func(items []*item, e *connectors.Error) {
		for _, it := range items {
			it.fail(e)
		}
	}
	if len(items) == 1 || !b.splits(e.HTTPStatus) {
		failAll(items, e)
		return
	}
	// Two alone first: if both fail alike it is not a key but the request.
	first, second := c.askOnce(ctx, op, b, items[:1], n), c.askOnce(ctx, op, b, items[1:2], n)
	if first != nil && second != nil && first.HTTPStatus == second.HTTPStatus && first.Code == second.Code {
		failAll(items, e)
		return
	}
	badKey := func(it *item, e *connectors.Error) {
		if b.splits(e.HTTPStatus) {
			bad := *e
			bad.Kind = connectors.KindBadKey
			e = &bad
		}
		it.fail(e)
	}
	if first != nil {
		badKey(items[0], first)
	}
	if second != nil {
		badKey(items[1], second)
	}
	bySize := e.HTTPStatus == http.StatusRequestEntityTooLarge || e.HTTPStatus == http.StatusRequestURITooLong ||
		e.HTTPStatus == http.StatusRequestHeaderFieldsTooLarge
	budget := 2*bits.Len(uint(len(items)-1)) + 2 // and the two above make + 4
	var halve func(part []*item, e *connectors.Error)
	halve = func(part []*item, e *connectors.Error) {
		if len(part) == 1 {
			badKey(part[0], e)
			return
		}
		if !b.splits(e.HTTPStatus) {
			failAll(part, e)
			return
		}
		for _, half := range [][]*item{part[:len(part)/2], part[len(part)/2:]} {
			if budget <= 0 {
				failAll(half, e)
				continue
			}
			budget--
			if e := c.askOnce(ctx, op, b, half, n); e != nil {
				halve(half, e)
			} else if bySize {
				c.sizes.learn(b, len(half))
			}
		}
	}
	if rest := items[2:]; len(rest) > 0 {
		budget--
		if e := c.askOnce(ctx, op, b, rest, n); e != nil {
			halve(rest, e)
		}
	}
}

// askOnce makes one call for these items and spreads the answer over them. An
// error concerns the call as a whole.
func (c *Connector) askOnce(ctx context.Context, op *operation, b *batch, items []*item, n *tally) *connectors.Error {
	s, err := c.buildBatch(b, items)
	if err != nil {
		return c.unbuildable(err)
	}
	complete, doubt := true, "" // doubt: why what is not mentioned is no none
	var own tally
	done, e := c.pagesOf(ctx, op, &b.block, s, &own, func(ans *answer, j judged, failed bool) ([]any, *connectors.Error) {
		switch {
		case failed && j.finding != "":
			// Rules about one record do not speak for many: each is asked alone.
			e := j.error()
			e.Kind, e.Message = connectors.KindNotMentioned, "the batch as a whole was answered "+e.Message
			return nil, e
		case failed:
			return nil, j.error()
		case ans.bad != nil:
			return nil, c.malformed(ans)
		}
		if b.partial.truthy(ans.doc) {
			complete = false
		}
		why := b.doubt(ans, b.faultList, b.replies)
		faulty, loose := c.spreadFaults(op, b, ans, items)
		if loose {
			why = "the answer holds an error that names no item"
		}
		if why != "" && doubt == "" {
			doubt = why
		}
		if b.replies != nil {
			return nil, c.spreadReplies(op, b, ans, items, why)
		}
		records, err := b.records(ans.doc)
		if err != nil {
			if faulty {
				return nil, nil // every item may be among the faults
			}
			return nil, &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(err.Error())}
		}
		spreadRecords(op, b, ans, items, records)
		return records, nil
	})
	n.requests += own.requests
	if n.askedAt.IsZero() {
		n.askedAt = own.askedAt
	}
	for _, it := range items {
		if it.at.IsZero() {
			it.at = own.askedAt
		}
	}
	if e != nil {
		return e
	}
	for _, it := range items {
		if op.read == nil {
			it.found.number()
		}
		it.found.complete = done && complete && (doubt == "" || it.none)
		switch {
		case it.err != nil || it.none || len(it.found.records) > 0:
		case doubt != "":
			it.err = &connectors.Error{Kind: connectors.KindNotMentioned, Message: c.line(doubt + "; asked alone")}
		case it.found.complete && !b.negative:
			it.err = &connectors.Error{Kind: connectors.KindNotMentioned, Message: "the batch did not mention it; asked alone"}
		}
	}
	return nil
}

// spreadRecords gives each record to the item whose key it shows. Strangers
// are counted with every item: they show that the batch does not filter.
func spreadRecords(op *operation, b *batch, ans *answer, items []*item, records []any) {
	byKey := map[string][]*item{}
	for _, it := range items {
		it.found.declared = b.contains || b.scan
		for _, k := range it.expect {
			byKey[k] = append(byKey[k], it)
		}
	}
	for _, r := range records {
		doc := document{body: r, header: ans.header}
		ours := false
		for _, m := range b.match {
			for _, text := range m.texts(doc) {
				for _, it := range byKey[text] {
					ours = true
					it.found.add(op.record(&b.block, doc, op.keyOf(it.q, text), it.q.Payload))
				}
			}
			if ours {
				break
			}
		}
		if ours {
			continue
		}
		for _, it := range items {
			if r, named := op.named(&b.block, doc, it.q, it.s.id); named && b.id != nil && b.id.text1(doc) == it.s.id {
				it.found.add(r)
			} else {
				it.found.foreign++
			}
		}
	}
}

// spreadFaults gives each per-item error to the items it names. seen tells
// whether there was one, loose whether one names nobody.
func (c *Connector) spreadFaults(op *operation, b *batch, ans *answer, items []*item) (seen, loose bool) {
	if b.faultList == nil {
		return false, false
	}
	for _, node := range b.faultList.nodes(ans.doc) {
		list, isList := node.([]any)
		if !isList {
			list = []any{node}
		}
		for _, fault := range list {
			if fault == nil {
				continue
			}
			seen = true
			doc := document{body: fault, header: ans.header}
			var named []*item
			if b.faultKey != nil {
				for _, text := range b.faultKey.texts(doc) {
					for _, it := range items {
						if slices.Contains(it.expect, text) || text == it.s.id && text != "" || text == it.s.tag {
							named = append(named, it)
						}
					}
				}
			}
			if len(named) == 0 && len(items) == 1 {
				named = items
			}
			loose = loose || len(named) == 0
			for _, it := range named {
				c.fault(op, ans, doc, it)
			}
		}
	}
	return seen, loose
}

// fault applies the rules to one item's error.
func (c *Connector) fault(op *operation, ans *answer, doc document, it *item) {
	part := &answer{status: ans.status, header: ans.header, doc: doc, at: ans.at}
	r, _ := firstRule(op.rules, onLookup, ans.status, doc)
	if r != nil {
		switch r.finding {
		case findNone:
			it.none = true
			return
		case findGone:
			it.found.add(connectors.Record{Key: it.s.key, ID: it.s.id, Standing: connectors.StandingReversed})
			return
		}
	}
	e := c.classify(op.rules, onLookup, part)
	if e.Kind == "" { // the status says nothing: it is of the call, and no rule fits the fault
		e.Kind, e.Rule, e.Code, e.Message = connectors.KindUnknown, "fault in a 2xx", part.code(), c.line(part.message())
	}
	it.fail(e)
}

// spreadReplies gives each reply to the item whose tag it carries. Where the
// answer as a whole is in doubt, an empty reply is no explicit none.
func (c *Connector) spreadReplies(op *operation, b *batch, ans *answer, items []*item, doubt string) *connectors.Error {
	nodes := b.replies.nodes(ans.doc)
	if len(nodes) == 0 {
		return &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status,
			Message: c.line("the answer has no " + b.replies.text)}
	}
	byTag := map[string]*item{}
	for _, it := range items {
		byTag[it.s.tag] = it
	}
	for _, node := range nodes {
		switch node := node.(type) {
		case map[string]any:
			if !b.byName {
				continue
			}
			for tag, reply := range node {
				if it := byTag[tag]; it != nil {
					c.reply(op, b, ans, reply, it, doubt)
				}
			}
		case []any:
			for _, reply := range node {
				doc := document{body: reply, header: ans.header}
				path := &selector{text: b.tag, steps: strings.Split(b.tag, ".")}
				if it := byTag[path.text1(doc)]; it != nil {
					c.reply(op, b, ans, reply, it, doubt)
				}
			}
		}
	}
	return nil
}

// reply reads the answer to one key of a tagged batch.
func (c *Connector) reply(op *operation, b *batch, ans *answer, reply any, it *item, doubt string) {
	doc := document{body: reply, header: ans.header}
	if !truthy(reply) {
		it.none = doubt == ""
		return
	}
	if r, _ := firstRule(op.rules, onLookup, ans.status, doc); r != nil && (r.class != "" || r.finding != "") {
		c.fault(op, ans, doc, it)
		return
	}
	// Of replies named by tag the member is the record itself.
	q := b.block
	if b.byName {
		q.items, q.answered = nil, nil
	}
	records, err := q.records(doc)
	if err != nil {
		it.fail(&connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(err.Error())})
		return
	}
	for _, r := range records {
		one := document{body: r, header: ans.header}
		if shown, ok := b.shown(one, it.expect); ok {
			it.found.add(op.record(&b.block, one, op.keyOf(it.q, shown), it.q.Payload))
		} else {
			it.found.foreign++
		}
	}
	it.none = len(it.found.records) == 0 && it.found.foreign == 0 && doubt == ""
	if it.found.foreign > 0 && len(it.found.records) == 0 {
		it.fail(&connectors.Error{Kind: connectors.KindNotUsable, HTTPStatus: ans.status, Message: "the reply holds a record that does not show our key"})
	}
}
