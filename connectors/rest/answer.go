package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
	"github.com/recovery-ledger/reconcile/internal/twice"
)

// answer is an HTTP answer, read as JSON where it is.
type answer struct {
	status int
	header http.Header
	body   []byte
	doc    document
	bad    error // why the body cannot be read as JSON; nil if it can
	twice  bool  // JSON that names a member twice: what it says depends on the reader
	html   bool  // a page for people
	at     time.Time
}

func newAnswer(r *httpclient.Response) *answer {
	a := &answer{status: r.Status, header: r.Header, body: r.Body, at: r.At, doc: document{header: r.Header}}
	if len(bytes.TrimSpace(r.Body)) == 0 {
		a.bad = errors.New("the answer is empty")
		return a
	}
	v, err := decode(r.Body)
	if err == nil {
		a.doc.body = v
		if path := twice.Member(r.Body, ""); path != nil {
			a.bad, a.twice = fmt.Errorf("the answer has the member %q twice, so what it says is not known", path[len(path)-1]), true
		}
		return a
	}
	a.html = isPage(r.Header.Get("Content-Type"), r.Body)
	if a.html {
		a.bad = errors.New("the answer is a page, not data" + strings.TrimPrefix(a.message(), fmt.Sprintf("HTTP %d page", a.status)))
	} else {
		// Plain text and XML are one text, for rules to look at.
		a.doc.body = string(r.Body)
		// Not the decoder's words: they quote the answer and help nobody.
		a.bad = errors.New("the answer is not JSON, or was cut off")
	}
	return a
}

// now is the moment of the answer by the system's own clock where it tells it:
// what a limit says of a moment is measured against that, so that a wrong clock
// on either side does no harm.
func (a *answer) now() time.Time {
	if at, ok := connectors.ParseHTTPDate(strings.TrimSpace(a.header.Get("Date"))); ok {
		return at
	}
	return a.at
}

// Comments and an XML declaration may stand before a page.
var pageStart = regexp.MustCompile(`(?is)^(?:<!--.*?-->\s*|<\?xml[^>]*>\s*)*<(?:!doctype html|html|head|body|title)\b`)

func isPage(contentType string, body []byte) bool {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	return pageStart.Match(body) || strings.Contains(strings.ToLower(contentType), "html") && bytes.HasPrefix(body, []byte("<"))
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// Where systems put their error texts and codes. A definition's own paths come
// first; these only make a message readable.
var (
	messagePaths = []string{"message", "error.message", "errors.0.message", "error_description", "detail", "title", "error.description",
		"0.message", "errors.0.detail", "errors.0", "error", "errorMessage", "reason"}
	codePaths = []string{"error.code", "code", "errorCode", "0.errorCode", "errors.0.code", "error.type", "category", "error"}
	codeForm  = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
)

// message is what the answer says to people, never empty: of a page its title,
// of JSON the usual members, else the text.
func (a *answer) message() string {
	status := fmt.Sprintf("HTTP %d", a.status)
	if m := pageTitle.FindSubmatch(a.body); m != nil && a.doc.body == nil {
		return status + " page: " + html.UnescapeString(string(m[1]))
	}
	if a.html {
		return status + " page"
	}
	for _, p := range messagePaths {
		for _, v := range walk(a.doc.body, strings.Split(p, ".")) {
			if s, ok := v.(string); ok && strings.TrimSpace(s) != "" {
				return s
			}
		}
	}
	if location := a.header.Get("Location"); a.status >= 300 && a.status < 400 && location != "" {
		return status + ": redirects are not followed; set base_url to where the system answers"
	}
	if text := strings.TrimSpace(string(a.body)); text != "" {
		return text
	}
	return status
}

// code is the answer's error code where it stands in one of the usual places.
func (a *answer) code() string {
	for _, p := range codePaths {
		for _, v := range walk(a.doc.body, strings.Split(p, ".")) {
			if s, ok := valueText(v); ok && codeForm.MatchString(s) && s != "true" && s != "false" {
				return s
			}
		}
	}
	return ""
}

// age is how long a cache on the way says it has had the answer.
// Source: RFC 9111, 5.1.
func (a *answer) age() time.Duration {
	s, _ := connectors.ParseSeconds(strings.TrimSpace(a.header.Get("Age")))
	return time.Duration(min(s, connectors.LongestWait.Seconds())) * time.Second
}

// complaint names the member at the top of an answer that says that something
// went wrong, "" for none. known are paths that the definition reads: what they
// start with is meant.
func (a *answer) complaint(known ...*selector) string {
	if text, ok := a.doc.body.(string); ok {
		if m := xmlComplaint.FindStringSubmatch(text); m != nil {
			return cmp.Or(m[1], m[2])
		}
		return ""
	}
	name := a.member(known, func(name string, v any) bool {
		switch strings.ToLower(name) {
		case "error", "errors", "fault":
			return truthy(v)
		case "errcode", "error_code", "errorcode":
			return errorCode(v)
		case "status":
			return v == "error" || v == "fail" || errorStatus(v) // Source: JSend, which has "success" beside them
		case "code", "statuscode", "status_code":
			return errorStatus(v)
		}
		return false
	})
	return cmp.Or(name, a.denial(known...))
}

// errorCode tells whether the value of a member for error codes is one: not 0,
// however long, and no word for success.
func errorCode(v any) bool {
	text, _ := valueText(v)
	switch text = strings.ToLower(strings.TrimSpace(text)); text {
	case "ok", "success", "none", "no_error", "false":
		return false
	}
	return strings.Trim(text, "0") != ""
}

// errorStatus tells whether a value is the HTTP status of an error: some
// systems answer 200 and write the status that they mean into the body.
func errorStatus(v any) bool {
	text, _ := valueText(v)
	n, err := strconv.Atoi(text)
	return err == nil && len(text) == 3 && n >= 400 && n < 600
}

// xmlComplaint finds, in a text that is XML, a fault (SOAP 1.1, 4.4) or a plain no.
var xmlComplaint = regexp.MustCompile(`(?i)<(?:[\w.-]+:)?(?:(fault)[\s>]|(success|ok)>\s*(?:false|0)\s*</)`)

// denial is complaint for a plain no.
func (a *answer) denial(known ...*selector) string {
	return a.member(known, func(name string, v any) bool {
		switch strings.ToLower(name) {
		case "ok", "success":
			return plainNo(v)
		}
		return false
	})
}

// plainNo tells whether a value is false, as whatever it is written.
func plainNo(v any) bool {
	text, ok := valueText(v)
	return ok && text != "" && !truthy(v) || strings.EqualFold(text, "false")
}

// member names a member at the top of an answer for which is holds, the first by
// name, "" for none. What known begins with is left out.
func (a *answer) member(known []*selector, is func(name string, v any) bool) string {
	top, _ := a.doc.body.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if is(name, top[name]) && !slices.ContainsFunc(known, func(s *selector) bool { return s.startsWith(name) }) {
			return name
		}
	}
	return ""
}

// complaintOfAny is complaint for an answer that may be a list of answers.
func (a *answer) complaintOfAny() string {
	list, _ := a.doc.body.([]any)
	for _, v := range list {
		if name := (&answer{doc: document{body: v}}).complaint(); name != "" {
			return name
		}
	}
	return a.complaint()
}

// unreadable tells whether an answer was meant as data, and what it says is not
// known: JSON that was cut off, or that names a member twice.
func (a *answer) unreadable() bool {
	body := bytes.TrimSpace(bytes.TrimPrefix(a.body, []byte("\ufeff")))
	return a.twice || a.bad != nil && !a.html && (bytes.HasPrefix(body, []byte("{")) || bytes.HasPrefix(body, []byte("[")))
}

// doubt says why an answer without a record is no explicit none, "" if it is
// one: it holds an error, or came with a status that says it is not all.
func (b *block) doubt(a *answer, known ...*selector) string {
	switch {
	case a.status == http.StatusAccepted:
		return "the question was accepted, and not answered yet"
	case a.status == http.StatusPartialContent && b.pages == nil:
		return "the answer is only a part"
	case b.items == nil && len(known) == 0:
		return "" // the body is the record, and its members are its own
	}
	if name := a.complaint(append(known, b.items, b.answered, b.partial)...); name != "" {
		return fmt.Sprintf("nothing was found, and the answer holds %q: %s", name, a.message())
	}
	return b.untold(a, append(known, b.items, b.answered, b.partial))
}

// untold says by what an answer shows that it is not all, although the
// definition reads nothing of the kind, "" for nothing.
func (b *block) untold(a *answer, known []*selector) string {
	if b.pages != nil {
		return ""
	}
	if name := a.member(known, func(name string, v any) bool {
		return slices.Contains([]string{"has_more", "hasMore", "incomplete_results"}, name) && v == true
	}); name != "" {
		return fmt.Sprintf("the answer is only a part: it says %q, and the definition has no pages", name)
	}
	if items, err := b.records(a.doc); err != nil || len(items) > 0 {
		return ""
	}
	if name := a.member(known, func(name string, v any) bool {
		n, ok := v.(json.Number)
		return ok && truthy(n) && slices.Contains([]string{"total", "totalSize", "total_count", "totalCount"}, name)
	}); name != "" {
		return fmt.Sprintf("nothing was shown, and the answer counts some as %q", name)
	}
	return ""
}

// records returns the records in an answer and whether it is one: an empty
// answer counts only if the place of the records, or answered, is there.
func (b *block) records(doc document) (items []any, err error) {
	if b.items == nil {
		switch v := doc.body.(type) {
		case []any:
			return v, nil
		case nil:
			return nil, nil
		default:
			return []any{v}, nil
		}
	}
	nodes := b.items.nodes(doc)
	for _, n := range nodes {
		switch v := n.(type) {
		case []any:
			items = append(items, v...)
		case nil:
		default:
			items = append(items, v)
		}
	}
	if len(items) > 0 {
		return items, nil
	}
	if b.answered != nil {
		if len(b.answered.nodes(doc)) == 0 {
			return nil, fmt.Errorf("the answer has no %s, so an empty one proves nothing", b.answered.text)
		}
		return nil, nil
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("the answer has no %s", b.items.text)
	}
	return nil, nil
}

// shown returns the key of ours that a record shows, byte for byte.
func (b *block) shown(doc document, keys []string) (string, bool) {
	for _, m := range b.match {
		for _, text := range m.texts(doc) {
			if slices.Contains(keys, text) {
				return text, true
			}
		}
	}
	return "", false
}

// record reads one record of ours.
func (op *operation) record(b *block, doc document, key string, payload []byte) connectors.Record {
	r := connectors.Record{Key: key, ID: b.id.text1(doc), Standing: connectors.StandingApplied}
	if b.status != nil {
		r.Status = b.status.text1(doc)
		var ok bool
		if r.Standing, ok = op.statuses[r.Status]; !ok {
			r.Standing = connectors.StandingUnmapped
		}
	}
	switch {
	case b.gone.truthy(doc) && b.merged.text1(doc) == "":
		r.Standing = connectors.StandingReversed
	case b.merged != nil:
		// A merged record is often marked as gone too: it lives on in the
		// survivor.
		if r.MergedInto = b.merged.text1(doc); r.MergedInto != "" {
			r.Standing = connectors.StandingApplied
		}
	}
	r.Compared = comparedAll(op.compare, payload, doc)
	r.Proof = comparedAll(op.proof, payload, doc)
	if op.changed != nil {
		if at, ok := instant(op.changed.text1(doc)); ok {
			r.ChangedAt = at
		}
	}
	return r
}

// reported tests a rule against what a workflow reported: a code by the rule's
// list, the JSON that a message quotes by the rule's path.
func (r *rule) reported(f connectors.Failure, quoted document) bool {
	if !r.ofSends() || len(r.on) > 0 && !slices.Contains(r.on, onSend) {
		return false
	}
	if len(r.statuses) > 0 && !slices.Contains(r.statuses, f.HTTPStatus) {
		return false
	}
	if r.code == nil {
		return true
	}
	if quoted.body != nil {
		if _, ok := r.matches(onSend, f.HTTPStatus, quoted); ok {
			return true
		}
	}
	switch {
	case len(r.is) > 0 && r.like != nil:
		return slices.Contains(r.is, f.Code) && r.like.MatchString(f.Code)
	case len(r.is) > 0:
		return f.Code != "" && slices.Contains(r.is, f.Code)
	case r.like != nil:
		return f.Code != "" && r.like.MatchString(f.Code) || f.Message != "" && r.like.MatchString(f.Message)
	}
	return false // "there and not empty" cannot be seen from outside
}

// quotedJSON is the JSON that a message holds: the first object, or list of
// objects ("Request failed [400]: {…}" holds one), nil for none.
func quotedJSON(message string) any {
	for at, tries := 0, 0; tries < 20; tries++ {
		i := strings.IndexAny(message[at:], "{[")
		if i < 0 {
			return nil
		}
		at += i
		dec := json.NewDecoder(strings.NewReader(message[at:]))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) == nil {
			switch l := v.(type) {
			case map[string]any:
				return v
			case []any:
				if len(l) > 0 {
					if _, ok := l[0].(map[string]any); ok {
						return v
					}
				}
			}
		}
		at++
	}
	return nil
}
