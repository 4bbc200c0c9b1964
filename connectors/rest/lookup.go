package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/recovery-ledger/reconcile/connectors"
)

// found is what was learned of one entry so far.
type found struct {
	records  []connectors.Record
	foreign  int
	declared bool // strangers are normal here
	complete bool // nothing was left out: no records means none
}

func (f *found) add(r connectors.Record) {
	if r.ID != "" {
		for _, have := range f.records {
			if have.ID == r.ID {
				return // one id twice is one record
			}
		}
	}
	f.records = append(f.records, r)
}

func (f *found) merge(o found) {
	for _, r := range o.records {
		f.add(r)
	}
	f.foreign += o.foreign
	f.declared = f.declared || o.declared
	f.complete = f.complete && o.complete
}

// newScope holds an entry's values, with one of its keys.
func newScope(q connectors.Query, key string, b *block) *scope {
	s := &scope{key: key, actionKey: q.ActionKey, recordID: q.RecordID, subject: q.Subject, payload: q.Payload}
	if !q.From.IsZero() {
		s.from = q.From.Add(-b.margin)
	}
	if !q.Until.IsZero() {
		s.until = q.Until.Add(b.margin)
	}
	return s
}

// byRecord tells whether a block finds what is asked for by {record_id}
// instead of a key: an operation that changes an existing record.
func (b *block) byRecord() bool {
	return !b.scan && !b.req.uses("key") && b.req.uses("record_id")
}

// expected are the values of which a record of ours shows one.
func (op *operation) expected(q connectors.Query) []string {
	if op.lookup != nil && op.lookup.byRecord() && q.RecordID != "" {
		return []string{q.RecordID}
	}
	return q.Keys
}

// keyOf is the key that a record is reported under.
func (op *operation) keyOf(q connectors.Query, shown string) string {
	if op.lookup != nil && op.lookup.byRecord() && len(q.Keys) > 0 {
		return q.Keys[0]
	}
	return shown
}

// Lookup implements connectors.Connector.
func (c *Connector) Lookup(ctx context.Context, q connectors.Query) (connectors.Answer, error) {
	op, err := c.operation(q.Operation)
	if err != nil {
		return connectors.Answer{}, err
	}
	if op.lookup == nil && (op.read == nil || q.RemoteID == "") {
		return connectors.Answer{}, &connectors.Error{Kind: connectors.KindUnsupported, Message: "the definition has no lookup for this operation"}
	}
	if e := c.keepShare(ctx); e != nil {
		return connectors.Answer{}, e
	}
	var n tally
	var forms []string
	f := found{complete: true}
	var failed *connectors.Error
	if op.lookup != nil {
		forms = append(forms, "single")
		f, failed = c.askKeys(ctx, op, op.lookup, q, &n)
	}
	more, failed := c.follow(ctx, op, q, &f, failed, &n, prefetched{})
	if op.lookup == nil && len(f.records) == 0 {
		f.complete = false // a direct read that finds nothing does not look for a key
	}
	return c.result(f, n, append(forms, more...), failed)
}

// result makes the answer of what was found. What stands is kept: an error
// only counts if nothing was found.
func (c *Connector) result(f found, n tally, forms []string, failed *connectors.Error) (connectors.Answer, error) {
	a := connectors.Answer{
		Records: distinct(f.records), Complete: f.complete && failed == nil, AskedAt: n.askedAt, Form: strings.Join(forms, "+"),
		Requests: n.requests, Foreign: f.foreign, Declared: f.declared,
	}
	if failed != nil && !ours(f.records) {
		// A record of another origin decides nothing while it is not known
		// whether there is one of ours.
		a.Records = nil
		return a, failed
	}
	return a, nil
}

// number tells the records of one answer apart of which the system shows no id:
// one beside another under the same key is a second one.
func (f *found) number() {
	n := map[string]int{}
	for _, r := range f.records {
		if r.ID == "" {
			n[r.Key]++
		}
	}
	at := map[string]int{}
	for i, r := range f.records {
		if r.ID == "" && n[r.Key] > 1 {
			at[r.Key]++
			f.records[i].ID = fmt.Sprintf("#%d of %s", at[r.Key], r.Key)
		}
	}
}

// distinct leaves one record of each key where the system shows no ids, and
// names them by their keys where there are several: what two questions showed
// under one key is the same.
func distinct(rs []connectors.Record) []connectors.Record {
	var out []connectors.Record
	seen := map[string]bool{}
	for _, r := range rs {
		if r.ID == "" && !r.Origin {
			if seen[r.Key] {
				continue
			}
			seen[r.Key] = true
		}
		out = append(out, r)
	}
	for i, r := range out {
		if r.ID == "" && !r.Origin && len(out) > 1 {
			out[i].ID = "#1 of " + r.Key
		}
	}
	return out
}

// outcome is what one question about one entry came to.
type outcome struct {
	found found
	err   *connectors.Error
}

// prefetched holds what was asked for many entries at once already.
type prefetched struct {
	reads   map[string]outcome // by id
	absence map[*block]outcome
}

// follow does what comes after the first question: direct reads decide hits,
// absence is asked where nothing was found, and the twin last.
func (c *Connector) follow(ctx context.Context, op *operation, q connectors.Query, f *found, failed *connectors.Error, n *tally, pre prefetched) (forms []string, e *connectors.Error) {
	if op.read != nil && (len(f.records) > 0 || q.RemoteID != "") {
		forms = append(forms, "read")
		if e := c.confirm(ctx, op, q, f, n, pre); e != nil {
			return forms, e
		}
	}
	if failed != nil || ours(f.records) {
		return forms, failed
	}
	origin := f.records // named by its id, without our key
	if len(op.absence) > 0 {
		forms = append(forms, "absence")
		all := found{complete: true}
		for _, b := range op.absence {
			got, ok := pre.absence[b]
			if !ok {
				got.found, got.err = c.askKeys(ctx, op, b, q, n)
			}
			if got.err != nil && len(got.found.records) == 0 {
				return forms, got.err
			}
			all.merge(got.found)
		}
		// These blocks decide whether there is none, also where the lookup
		// itself was partial.
		all.records = append(all.records, origin...)
		*f = all
		if len(f.records) > 0 {
			return forms, nil
		}
	}
	if len(origin) > 0 {
		return forms, nil
	}
	if op.twin != nil && f.complete {
		e = c.askTwin(ctx, op, q, f, n)
	}
	return forms, e
}

// askKeys puts the question once for each key, or once where the request does
// not name the key.
func (c *Connector) askKeys(ctx context.Context, op *operation, b *block, q connectors.Query, n *tally) (found, *connectors.Error) {
	all := found{complete: true}
	keys := q.Keys
	if !b.req.uses("key") && len(keys) > 1 {
		keys = keys[:1]
	}
	if len(keys) == 0 {
		if b.req.uses("key") {
			return all, &connectors.Error{Kind: connectors.KindBadKey, Message: "the entry has no key to ask for"}
		}
		keys = []string{""}
	}
	var failed *connectors.Error
	for _, key := range keys {
		f, e := c.askBlock(ctx, op, b, q, newScope(q, key, b), n)
		all.merge(f)
		if e != nil && failed == nil {
			failed = e
		}
		if e != nil && e.Kind == connectors.KindStopping {
			break
		}
	}
	return all, failed
}

// askBlock puts one question and reads all its pages. Hits of the pages that
// came stand, whatever happened after.
func (c *Connector) askBlock(ctx context.Context, op *operation, b *block, q connectors.Query, s *scope, n *tally) (found, *connectors.Error) {
	f := found{complete: true, declared: b.contains || b.scan}
	expect := op.expected(q)
	done, e := c.pagesOf(ctx, op, b, s, n, func(ans *answer, j judged, failed bool) ([]any, *connectors.Error) {
		if failed {
			switch {
			case j.finding == findNone:
				return nil, nil
			case j.finding == findGone && s.key != "":
				f.add(connectors.Record{Key: s.key, ID: s.id, Standing: connectors.StandingReversed})
				return nil, nil
			case j.finding == findDuplicate && len(j.ids) > 1 && s.key != "":
				for _, id := range j.ids {
					f.add(connectors.Record{Key: s.key, ID: id, Standing: connectors.StandingApplied})
				}
				return nil, nil
			}
			return nil, j.error()
		}
		if ans.bad != nil {
			return nil, c.malformed(ans)
		}
		items, err := b.records(ans.doc)
		if err != nil {
			return nil, &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(err.Error())}
		}
		if b.partial.truthy(ans.doc) {
			f.complete = false
		}
		if why := b.doubt(ans); why != "" {
			if len(items) == 0 {
				return nil, c.doubted(ans, why)
			}
			f.complete = false
		}
		for _, item := range items {
			doc := document{body: item, header: ans.header}
			shown, ok := b.shown(doc, expect)
			if ok {
				f.add(op.record(b, doc, op.keyOf(q, shown), q.Payload))
			} else if r, named := op.named(b, doc, q, s.id); named {
				f.add(r)
			} else {
				f.foreign++
			}
		}
		return items, nil
	})
	f.complete = f.complete && done
	if op.read == nil { // else an id is needed to go on
		f.number()
	}
	return f, e
}

// named reads a record that an error or a report names by its id, and that
// does not show our key: it is of another origin, and to be compared.
func (op *operation) named(b *block, doc document, q connectors.Query, id string) (r connectors.Record, ok bool) {
	if id == "" || id != q.RemoteID {
		return r, false
	}
	r = op.record(b, doc, "", q.Payload)
	if r.ID == "" {
		r.ID = id
	}
	r.Origin = true
	return r, r.ID == id
}

// ours tells whether one of the records shows our key.
func ours(rs []connectors.Record) bool {
	return slices.ContainsFunc(rs, func(r connectors.Record) bool { return !r.Origin })
}

var (
	link      = regexp.MustCompile(`<([^>]*)>((?:\s*;[^,;"]*(?:"(?:[^"\\]|\\.)*"[^,;"]*)*)*)`)
	linkParam = regexp.MustCompile(`;\s*([A-Za-z*-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;,"']+)`)
)

// nextLink is the address that Link headers name as the next page, "" for none.
// Source: RFC 8288, 3.
func nextLink(headers []string) string {
	for _, l := range link.FindAllStringSubmatch(strings.Join(headers, ","), -1) {
		for _, p := range linkParam.FindAllStringSubmatch(l[2], -1) {
			if strings.EqualFold(p[1], "rel") && slices.Contains(strings.Fields(strings.ToLower(strings.Trim(p[2], `"'`))), "next") {
				return l[1]
			}
		}
	}
	return ""
}

// pagesOf makes the calls of one question. each looks at an answer and returns
// its records. done is false when pages were left unread.
func (c *Connector) pagesOf(ctx context.Context, op *operation, b *block, s *scope, n *tally,
	each func(*answer, judged, bool) ([]any, *connectors.Error)) (done bool, e *connectors.Error) {
	p := b.pages
	page := 0
	s.page = ""
	if p != nil && p.counting() {
		page = p.from
		s.page = strconv.Itoa(page)
	}
	seen := map[string]bool{}
	req, err := b.req.build(c.def.base, s)
	for calls := 1; ; calls++ {
		if err != nil {
			return false, c.unbuildable(err)
		}
		ans, j, failed, e := c.ask(ctx, op.rules, onLookup, req, b.req.bucket, n)
		if e != nil {
			return false, e
		}
		items, e := each(ans, j, failed)
		if e != nil {
			return false, e
		}
		if p == nil || failed {
			return true, nil
		}
		told := p.more != nil && len(p.more.nodes(ans.doc)) > 0 // what is not there says nothing
		if told && !p.more.truthy(ans.doc) {
			return true, nil
		}
		var token string
		switch {
		case p.counting():
			// Where the system says how far it goes, a short page ends nothing: it
			// may give fewer than it was asked for.
			switch {
			case p.total != nil:
				total, ok := number(p.total.text1(ans.doc))
				if !ok || total < 0 {
					return false, nil
				}
				if float64(calls) >= total {
					return true, nil
				}
			case told: // it says that there is more
			case len(items) == 0 || p.size > 0 && len(items) < p.size:
				return true, nil
			}
			page += p.step
			token = strconv.Itoa(page)
		case p.link:
			token = nextLink(ans.header.Values("Link"))
		default:
			cursor := p.next
			if p.url != nil {
				cursor = p.url
			}
			if cursor.truthy(ans.doc) { // false and 0 are no cursors
				token = cursor.text1(ans.doc)
				if token == "" {
					return false, nil // an object, say: it goes on, and we cannot follow
				}
			}
		}
		if token == "" {
			// No cursor is the end, unless the answer says that more follows.
			return !told, nil
		}
		if calls >= p.max || seen[token] {
			return false, nil
		}
		seen[token] = true
		if p.link || p.url != nil {
			next, e := nextURL(req.URL, token)
			if e != nil {
				return false, e
			}
			req.URL = next
			if req.Method != http.MethodGet {
				req.Method, req.Body = http.MethodGet, nil
				req.Header.Del("Content-Type")
			}
			continue
		}
		s.page = token
		req, err = b.req.build(c.def.base, s)
	}
}

// nextURL is the address of the next page, which must be at the same place:
// credentials go nowhere else.
func nextURL(from *url.URL, ref string) (*url.URL, *connectors.Error) {
	u, err := url.Parse(ref)
	if err == nil {
		u = from.ResolveReference(u)
	}
	if err != nil || u.Scheme != from.Scheme || hostPort(u) != hostPort(from) || u.User != nil {
		return nil, &connectors.Error{Kind: connectors.KindMalformed, Message: "the next page is at another host; not asked"}
	}
	u.Fragment = ""
	return u, nil
}

// hostPort is a host and its port as they are compared: the port that the
// scheme stands for is written or left out.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// unbuildable is a request that cannot be made from this entry.
func (c *Connector) unbuildable(err error) *connectors.Error {
	return &connectors.Error{Kind: connectors.KindBadKey, Message: c.line("the request cannot be built: " + err.Error())}
}

// confirm reads each hit, and a known remote id, directly: the read decides. A
// hit that is not there any more was removed since.
func (c *Connector) confirm(ctx context.Context, op *operation, q connectors.Query, f *found, n *tally, pre prefetched) *connectors.Error {
	hits := f.records
	f.records = nil
	known := q.RemoteID == ""
	for _, hit := range hits {
		if hit.ID == "" {
			f.records = append(f.records, hit)
			continue
		}
		known = known || hit.ID == q.RemoteID
		r, e := c.readOne(ctx, op, q, hit.ID, n, pre)
		if e != nil {
			f.records = nil // an undecided hit may be a second one
			return e
		}
		switch {
		case len(r.records) > 0:
			f.merge(found{records: r.records, complete: true})
		case r.foreign > 0:
			f.foreign += r.foreign // the search was behind: it is somebody else's by now
		default:
			hit.Standing = connectors.StandingReversed
			f.add(hit)
		}
	}
	if known {
		return nil
	}
	r, e := c.readOne(ctx, op, q, q.RemoteID, n, pre)
	if e != nil {
		return e
	}
	f.merge(found{records: r.records, foreign: r.foreign, complete: true})
	return nil
}

func (c *Connector) readOne(ctx context.Context, op *operation, q connectors.Query, id string, n *tally, pre prefetched) (found, *connectors.Error) {
	if got, ok := pre.reads[id]; ok {
		return got.found, got.err
	}
	s := newScope(q, lastKey(q), op.read)
	s.id = id
	return c.askBlock(ctx, op, op.read, q, s, n)
}

func lastKey(q connectors.Query) string {
	if len(q.Keys) == 0 {
		return ""
	}
	return q.Keys[len(q.Keys)-1]
}

// askTwin looks by business identity. Records that show our key are ours after
// all; the others are of another origin.
func (c *Connector) askTwin(ctx context.Context, op *operation, q connectors.Query, f *found, n *tally) *connectors.Error {
	b := op.twin
	s := newScope(q, lastKey(q), b)
	if _, err := b.req.build(c.def.base, s); errors.Is(err, errSkip) {
		return nil // the entry has no such identity
	}
	done, e := c.pagesOf(ctx, op, b, s, n, func(ans *answer, j judged, failed bool) ([]any, *connectors.Error) {
		if failed {
			if j.finding == findNone || j.finding == findGone {
				return nil, nil
			}
			return nil, j.error()
		}
		if ans.bad != nil {
			return nil, c.malformed(ans)
		}
		items, err := b.records(ans.doc)
		if err != nil {
			return nil, &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(err.Error())}
		}
		if why := b.doubt(ans); why != "" && len(items) == 0 {
			return nil, c.doubted(ans, why)
		}
		for _, item := range items {
			doc := document{body: item, header: ans.header}
			shown, ours := b.shown(doc, op.expected(q))
			r := op.record(b, doc, op.keyOf(q, shown), q.Payload)
			if !ours {
				r.Key, r.Origin = "", true
			}
			f.add(r)
		}
		return items, nil
	})
	f.complete = f.complete && done
	return e
}
