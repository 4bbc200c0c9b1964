package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/recovery-ledger/reconcile/connectors"
)

// maxMerges is how often a check follows a merged record to its survivor.
const maxMerges = 3

// reading is one verdict in the making; of several the worst holds.
type reading struct {
	read bool
	v    connectors.Verdict
}

func (r *reading) put(kind connectors.VerdictKind, value, detail string, err *connectors.Error) {
	rank := map[connectors.VerdictKind]int{connectors.VerdictPass: 1, connectors.VerdictUnread: 2, connectors.VerdictRefuse: 3}
	if value != "" && r.v.Value == "" {
		r.v.Value = value
	}
	if r.read && rank[kind] <= rank[r.v.Kind] {
		return
	}
	r.read = true
	r.v.Kind, r.v.Detail, r.v.Err = kind, detail, nil
	if err != nil {
		r.v.Err = err
	}
}

// Check implements connectors.Checker. Blocks are asked in the order of the
// definition, and only as far as something wanted is read.
func (c *Connector) Check(ctx context.Context, q connectors.CheckQuery) []connectors.Verdict {
	op, err := c.operation(q.Operation)
	if err != nil {
		return nil
	}
	readings := map[connectors.CheckName]*reading{}
	for _, name := range q.Want {
		if slices.Contains(op.info.Checks, name) {
			readings[name] = &reading{v: connectors.Verdict{Check: name}}
		}
	}
	state := &checkState{c: c, op: op, q: q, readings: readings}
	for i, b := range op.checks {
		if state.wanted(i) {
			state.ask(ctx, b)
		}
	}
	var out []connectors.Verdict
	for _, name := range op.info.Checks {
		r := readings[name]
		if r == nil {
			continue
		}
		if !r.read {
			detail := "nothing reads it for this entry"
			if q.Channel != "" {
				detail = fmt.Sprintf("no check reads it for channel %q", q.Channel)
			}
			r.put(connectors.VerdictUnread, "", detail, &connectors.Error{Kind: connectors.KindUnsupported, Message: detail})
		}
		out = append(out, r.v)
	}
	return out
}

type checkState struct {
	c        *Connector
	op       *operation
	q        connectors.CheckQuery
	readings map[connectors.CheckName]*reading
	owner    string // read by an earlier block
}

// wanted tells whether block i reads something asked for, or the owner that a
// later such block needs.
func (st *checkState) wanted(i int) bool {
	b := st.op.checks[i]
	if b.channel != "" && st.q.Channel != "" && b.channel != st.q.Channel {
		return false
	}
	if slices.ContainsFunc(b.provides, func(n connectors.CheckName) bool { return st.readings[n] != nil }) {
		return true
	}
	if b.owner == nil {
		return false
	}
	for j := i + 1; j < len(st.op.checks); j++ {
		if st.op.checks[j].usesOwner && st.wanted(j) {
			return true
		}
	}
	return false
}

func (st *checkState) put(name connectors.CheckName, kind connectors.VerdictKind, value, detail string, err *connectors.Error) {
	if r := st.readings[name]; r != nil {
		r.put(kind, value, detail, err)
	}
}

func (st *checkState) all(b *checkBlock, kind connectors.VerdictKind, detail string, err *connectors.Error) {
	for _, name := range b.provides {
		st.put(name, kind, "", detail, err)
	}
}

// ask asks one block and judges its records.
func (st *checkState) ask(ctx context.Context, b *checkBlock) {
	if b.usesOwner && st.owner == "" {
		return // there is no owner to ask about
	}
	s := &scope{key: lastKey(st.q.Query), actionKey: st.q.ActionKey, recordID: st.q.RecordID, subject: st.q.Subject,
		payload: st.q.Payload, owner: st.owner}
	for merges := 0; ; merges++ {
		records, e := st.records(ctx, b, s)
		switch {
		case errors.Is(e, errSkip):
			return
		case e != nil:
			var ce *connectors.Error
			errors.As(e, &ce)
			st.all(b, connectors.VerdictUnread, ce.Message, ce)
			return
		case len(records) == 0:
			detail := "there is no record"
			var err *connectors.Error
			if b.none == connectors.VerdictUnread {
				err = &connectors.Error{Kind: connectors.KindNotFound, Message: detail}
			}
			st.all(b, b.none, detail, err)
			return
		}
		survivor := ""
		for _, doc := range records {
			if m := b.merged.text1(doc); m != "" {
				survivor = m
			}
		}
		if survivor != "" && b.usesRecordID && merges < maxMerges && survivor != s.recordID {
			s.recordID = survivor // merged records are checked on the survivor
			continue
		}
		for _, doc := range records {
			st.judge(b, doc)
		}
		return
	}
}

// records asks the block and returns the records found. The error is errSkip
// or a *connectors.Error.
func (st *checkState) records(ctx context.Context, b *checkBlock, s *scope) ([]document, error) {
	c := st.c
	req, err := b.req.build(c.def.base, s)
	if errors.Is(err, errSkip) {
		return nil, err
	}
	if err != nil {
		return nil, c.unbuildable(err)
	}
	var n tally
	ans, j, failed, e := c.ask(ctx, st.op.rules, onCheck, req, b.req.bucket, &n)
	switch {
	case e != nil:
		return nil, e
	case failed && (j.finding == findNone || j.finding == findGone):
		return nil, nil
	case failed:
		return nil, j.error()
	case ans.bad != nil:
		return nil, c.malformed(ans)
	}
	reader := &block{items: b.items, answered: b.answered}
	items, err := reader.records(ans.doc)
	if err != nil {
		return nil, &connectors.Error{Kind: connectors.KindMalformed, HTTPStatus: ans.status, Message: c.line(err.Error())}
	}
	if why := reader.doubt(ans); why != "" && len(items) == 0 {
		return nil, c.doubted(ans, why)
	}
	var expect []string
	for _, h := range b.shownPlaceholder {
		if v, ok, err := h.value(s); err == nil && ok {
			expect = append(expect, v.text)
		}
	}
	var docs []document
	for _, item := range items {
		doc := document{body: item, header: ans.header}
		if len(b.match) > 0 {
			if _, ours := (&block{match: b.match}).shown(doc, expect); !ours {
				continue
			}
		}
		docs = append(docs, doc)
	}
	if len(items) > 0 && len(docs) == 0 {
		return nil, &connectors.Error{Kind: connectors.KindNotUsable, HTTPStatus: ans.status, Message: "the check answered with records of others only"}
	}
	return docs, nil
}

// judge reads one record.
func (st *checkState) judge(b *checkBlock, doc document) {
	if b.gone.truthy(doc) {
		st.put(connectors.CheckLifecycle, connectors.VerdictRefuse, "gone", "the record was removed", nil)
	} else if m := b.merged.text1(doc); m != "" {
		st.put(connectors.CheckLifecycle, connectors.VerdictRefuse, st.c.line(m), "the record was merged into another", nil)
	} else if b.lifecycle == nil && slices.Contains(b.provides, connectors.CheckLifecycle) {
		st.put(connectors.CheckLifecycle, connectors.VerdictPass, "", "", nil)
	}
	if b.lifecycle != nil {
		st.verdict(connectors.CheckLifecycle, b.lifecycle, doc, true)
	}
	if b.consent != nil {
		st.verdict(connectors.CheckConsent, b.consent, doc, true)
	}
	if b.owner != nil {
		owner := b.owner.text1(doc)
		if owner == "" {
			var err *connectors.Error
			if b.ownerMissing == connectors.VerdictUnread {
				err = &connectors.Error{Kind: connectors.KindMalformed, Message: "the record has no " + b.owner.text}
			}
			st.put(connectors.CheckOwner, b.ownerMissing, "", "the record has no owner", err)
		} else {
			st.owner = owner
			st.put(connectors.CheckOwner, connectors.VerdictPass, owner, "", nil)
		}
	}
	if b.active != nil {
		st.verdict(connectors.CheckOwner, b.active, doc, false)
	}
}

// verdict judges one value. withValue keeps what was read; of an owner the
// value is the id and not whether it is active.
func (st *checkState) verdict(name connectors.CheckName, r *verdictRule, doc document, withValue bool) {
	texts := r.path.texts(doc)
	if len(texts) == 0 {
		detail := "the record has no " + r.path.text
		var err *connectors.Error
		if r.missing == connectors.VerdictUnread {
			err = &connectors.Error{Kind: connectors.KindMalformed, Message: detail}
		}
		st.put(name, r.missing, "", detail, err)
		return
	}
	for _, text := range texts {
		kind, detail := r.of(text)
		value := ""
		if withValue {
			value = st.c.mask.Load().Line(text, 200)
		}
		var err *connectors.Error
		switch kind {
		case connectors.VerdictRefuse:
			detail = fmt.Sprintf("%s is %q", r.path.text, st.c.mask.Load().Line(text, 200))
		case connectors.VerdictUnread:
			detail = fmt.Sprintf("%s is %q: %s", r.path.text, st.c.mask.Load().Line(text, 200), detail)
			err = &connectors.Error{Kind: connectors.KindMalformed, Pauses: "entry", Message: detail}
		}
		st.put(name, kind, value, detail, err)
	}
}

// of judges one text: what is denied refuses, what is allowed passes; without
// lists a true value passes, and of consent nothing else does.
func (r *verdictRule) of(text string) (connectors.VerdictKind, string) {
	switch {
	case slices.Contains(r.deny, text):
		return connectors.VerdictRefuse, ""
	case len(r.allow) > 0 && !slices.Contains(r.allow, text):
		return connectors.VerdictRefuse, ""
	case len(r.allow) > 0 || r.deny != nil || yes(text):
		return connectors.VerdictPass, ""
	case no(text) || !r.consent && !truthy(text):
		return connectors.VerdictRefuse, ""
	case r.consent:
		// Whether "unsubscribed" is a yes is not guessed.
		return connectors.VerdictUnread, "is neither a yes nor a no; say which values pass with consent_allow, or which refuse with consent_deny"
	}
	return connectors.VerdictPass, ""
}

// yes and no say what a text stands for that is a truth value in JSON or is
// commonly written for one.
func yes(text string) bool {
	return slices.Contains([]string{"true", "yes", "y", "on", "1"}, strings.ToLower(strings.TrimSpace(text)))
}

func no(text string) bool {
	return slices.Contains([]string{"false", "no", "n", "off", "0", "null", "none", ""}, strings.ToLower(strings.TrimSpace(text)))
}
