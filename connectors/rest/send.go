package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
)

// Send implements connectors.Sender.
func (c *Connector) Send(ctx context.Context, s connectors.Send) connectors.SendResult {
	notSent := func(kind connectors.Kind, message string) connectors.SendResult {
		return connectors.SendResult{
			Classified: connectors.Classified{Kind: kind, Effect: connectors.EffectNotDone, Rule: "not sent"},
			Message:    c.line(message),
		}
	}
	op, err := c.operation(s.Operation)
	if err != nil {
		return notSent(connectors.KindUnsupported, err.Error())
	}
	if op.send == nil {
		return notSent(connectors.KindUnsupported, "the definition has no send for this operation")
	}
	req, err := op.send.req.build(c.def.base, &scope{
		key: s.Key, idempotencyKey: s.IdempotencyKey, actionKey: s.ActionKey, recordID: s.RecordID, subject: s.Subject,
		payload: s.Payload, payloadType: s.PayloadType,
	})
	if err != nil {
		return notSent(connectors.KindBadKey, "the request cannot be built: "+err.Error())
	}
	if op.needsKey() && !op.placesEffectiveKey && !shows(req, []string{s.Key, s.IdempotencyKey}) {
		return notSent(connectors.KindBadKey, uncarried)
	}
	token, e := c.authorize(ctx, &req)
	if e == nil {
		e = c.wait(ctx, op.send.req.bucket)
	}
	if e != nil {
		r := notSent(e.Kind, e.Message)
		r.HTTPStatus, r.Code, r.RetryAfter, r.Pauses = e.HTTPStatus, e.Code, e.RetryAfter, e.Pauses
		return r
	}
	resp, sent, err := c.http.Write(ctx, req, s.SendBy)
	if err != nil {
		return c.unanswered(sent, err)
	}
	ans := newAnswer(resp)
	c.reserve.learn(c.def.rates, ans)
	r := c.sendResult(op, ans, s)
	r.Wrote = sent.Wrote
	if r.Kind == connectors.KindAuth && token != "" {
		c.forget(token)
	}
	return r
}

// unanswered is a send whose answer did not come, or not whole. Only where not
// one byte was handed over is it known that nothing was done.
func (c *Connector) unanswered(sent httpclient.Sent, err error) connectors.SendResult {
	r := connectors.SendResult{Wrote: sent.Wrote, Message: c.line(err.Error())}
	r.Kind, r.Effect, r.Rule = connectors.KindNetwork, connectors.EffectUnknown, "default no answer"
	var he *httpclient.Error
	if errors.As(err, &he) {
		r.Kind, r.HTTPStatus = he.Kind, he.Status
		if he.Header != nil {
			r.RetryAfter = httpclient.ParseRetryAfter(he.Header, time.Now())
		}
	}
	if !sent.Wrote {
		r.Effect, r.Rule = connectors.EffectNotDone, "not sent"
		return r
	}
	switch r.Kind {
	case connectors.KindStopping:
		// It was under way when we stopped: an attempt like any other.
		r.Kind = connectors.KindTimeout
	case connectors.KindMalformed:
		r.Kind = connectors.KindUnknown
	}
	return r
}

// sendResult judges the answer to a send.
func (c *Connector) sendResult(op *operation, ans *answer, s connectors.Send) connectors.SendResult {
	r := connectors.SendResult{Answered: true, Wrote: true}
	r.Replayed = op.idempotency.replayed(ans)
	j, failed := c.judge(op.rules, onSend, ans)
	r.HTTPStatus = ans.status
	if !failed && op.send.proof(ans) == "" {
		if fault, ok := op.send.faultOf(ans, s); ok {
			if j, failed = c.judge(op.rules, onSend, fault); !failed {
				j = judged{kind: connectors.KindUnknown, effect: connectors.EffectUnknown, rule: "fault in a 2xx",
					code: fault.code(), message: c.line(fault.message())}
				failed = true
			}
		}
	}
	r.RemoteID = op.send.proof(ans)
	if !failed {
		r.Effect, r.KeySpent = connectors.EffectDone, j.spent
		r.Rule = "default 2xx"
		if j.rule != "" {
			r.Rule = j.rule
		}
		// Beside an id an error may be a warning; a plain no is none.
		name := ans.denial()
		if op.send.id == nil {
			name = ans.complaintOfAny()
		}
		if name != "" && j.rule == "" {
			r.RemoteID = ""
			r.Effect, r.Rule, r.Kind = connectors.EffectUnknown, "error in a 2xx", connectors.KindUnknown
			r.Message = c.line(fmt.Sprintf("answered %d, with %q: %s", ans.status, name, ans.message()))
			return r
		}
		if op.send.id == nil && ans.unreadable() && j.rule == "" {
			r.Effect, r.Rule, r.Kind = connectors.EffectUnknown, "unreadable 2xx", connectors.KindUnknown
			r.Message = c.line(ans.bad.Error())
			return r
		}
		if m := op.made(ans, s); m.why != "" {
			// It was taken, and that is all: what it came to, the look says.
			r.Effect, r.Rule = connectors.EffectUnknown, connectors.RuleRecordShown
			if m.foreign {
				r.RemoteID = ""
			}
			if m.standing != connectors.StandingPending {
				r.Kind = connectors.KindUnknown
			}
			r.Message = c.line(fmt.Sprintf("answered %d, and the record %s", ans.status, m.why))
			return r
		}
		if op.send.id == nil || r.RemoteID != "" || slices.Contains(op.send.empty, ans.status) {
			return r
		}
		// A 2xx without the proof that the definition asks for.
		r.Effect, r.Rule, r.Kind = connectors.EffectUnknown, "no id in a 2xx", connectors.KindSilentNoop
		r.Message = c.line("answered " + ans.message() + ", but nothing stands at " + op.send.id.text)
		if ans.bad != nil {
			r.Kind = connectors.KindUnknown
			r.Message = c.line(ans.bad.Error())
		}
		return r
	}
	r.Classified = connectors.Classified{Kind: j.kind, Effect: j.effect, HTTPStatus: ans.status, Code: j.code, Rule: j.rule,
		KeySpent: j.spent || r.Replayed, Refuses: j.refuses, Pauses: j.pauses}
	r.Message, r.RetryAfter = j.message, j.wait
	r.RemoteID = ""
	if len(j.ids) > 0 {
		r.RemoteID = j.ids[0]
	}
	if j.effect == connectors.EffectDone && !j.classed {
		r.Kind, r.Message = "", ""
		r.RemoteID = op.send.proof(ans)
	}
	return r
}

// faultOf is the first error of a single item in an answer, as an answer of its
// own. What names others only is not about this send.
func (b *sendBlock) faultOf(ans *answer, s connectors.Send) (*answer, bool) {
	if b.fault == nil {
		return nil, false
	}
	for _, node := range b.fault.nodes(ans.doc) {
		faults, isList := node.([]any)
		if !isList {
			faults = []any{node}
		}
		for _, f := range faults {
			doc := document{body: f, header: ans.header}
			if truthy(f) && b.isOurs(doc, s) {
				return &answer{status: ans.status, header: ans.header, doc: doc, at: ans.at}, true
			}
		}
	}
	return nil, false
}

func (b *sendBlock) isOurs(fault document, s connectors.Send) bool {
	if b.whose == nil {
		return true
	}
	named := b.whose.texts(fault)
	return len(named) == 0 || slices.ContainsFunc(named, func(k string) bool {
		return k != "" && (k == s.Key || k == s.IdempotencyKey)
	})
}

// proof is the id of what was made, "" where the answer does not show one: false
// and 0 are no ids, and of a member that stands twice nobody knows which is meant.
func (b *sendBlock) proof(ans *answer) string {
	if b.id == nil || ans.twice && b.id.header == "" {
		return ""
	}
	if nodes := b.id.nodes(ans.doc); len(nodes) > 0 && b.id.header == "" {
		if _, text := nodes[0].(string); !text && !truthy(nodes[0]) {
			return ""
		}
	}
	return b.id.text1(ans.doc)
}

// made is what an answer to a send shows of the record that was made.
type made struct {
	why      string // it is no proof that our action took effect; "" for nothing
	standing connectors.Standing
	foreign  bool // it shows another key
}

// made reads the record in an answer to a send as the lookup would read it. What
// is not shown is not missed. The record is there where its id is; of an
// operation that removes, what stands there says nothing.
func (op *operation) made(ans *answer, s connectors.Send) made {
	b := op.lookup
	if b == nil || b.id == nil || op.send.id == nil || op.info.Removes {
		return made{}
	}
	top, ok := op.send.id.above(b.id)
	if !ok {
		return made{}
	}
	for _, body := range walk(ans.doc.body, top) {
		doc := document{body: body, header: ans.header}
		if text := b.foreign(doc, s); text != "" {
			return made{why: fmt.Sprintf("shows the key %q", text), foreign: true}
		}
		if status := b.status.text1(doc); status != "" {
			if r := op.record(b, doc, s.Key, nil); r.Standing != connectors.StandingApplied {
				return made{why: fmt.Sprintf("has the status %q", status), standing: r.Standing}
			}
		}
		for _, x := range comparedAll(op.compare, s.Payload, doc) {
			if !x.Equal && x.Got != "" {
				return made{why: fmt.Sprintf("has another %s", x.Path)}
			}
		}
	}
	return made{}
}

// foreign is the key that a record shows where ours would stand, "" if it is
// ours or none.
func (b *block) foreign(doc document, s connectors.Send) (text string) {
	if b.byRecord() {
		return ""
	}
	if _, ours := b.shown(doc, []string{s.Key, s.IdempotencyKey}); ours {
		return ""
	}
	for _, m := range b.match {
		if text = m.text1(doc); text != "" {
			return text
		}
	}
	return ""
}

// replayed tells whether an answer is a stored one given again.
func (r idempotencyRule) replayed(ans *answer) bool {
	if r.header == "" {
		return false
	}
	return slices.ContainsFunc(ans.header.Values(r.header), func(v string) bool { return slices.Contains(r.is, v) })
}
