package rest

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/connectors/httpclient"
)

// digestLength is how many characters of a digest make a key: 130 bits in
// base32hex, far beyond any chance of two actions sharing one.
const digestLength = 26

// leastBits is the least strength of a derived key. At 80 bits a billion
// actions still share none.
const leastBits = 80

// keyRule says what a key of ours may look like in the system.
type keyRule struct {
	form   string // as_is or digest
	max    int    // bytes; 0 is no limit
	chars  *regexp.Regexp
	prefix string // before a digest
	digest string
	folds  bool // the system does not tell keys apart by case
}

// idempotencyRule is the same for {idempotency_key}, and how a replay shows.
type idempotencyRule struct {
	max    int
	chars  *regexp.Regexp
	replay string
	header string
	is     []string
}

func (d *definition) keyRule(t *table, or keyRule) keyRule {
	kt := t.table("key")
	if kt == nil {
		return or
	}
	k := or
	k.form = kt.oneOf("form", or.form, "as_is", "digest")
	k.max = kt.number("max", or.max, 1, 4096)
	if kt.has("chars") {
		k.chars = charClass(kt)
	}
	k.prefix = kt.strOr("prefix", or.prefix)
	k.digest = kt.oneOf("digest", or.digest, "base32hex", "hex", "uuid", "digits")
	if kt.has("folds") {
		k.folds = kt.oneOf("folds", "", "case") == "case"
	}
	kt.finish()
	return k
}

func (d *definition) idempotencyRule(t *table, or idempotencyRule) idempotencyRule {
	it := t.table("idempotency")
	if it == nil {
		return or
	}
	r := or
	r.max = it.number("max", or.max, 1, 4096)
	if it.has("chars") {
		r.chars = charClass(it)
	}
	r.replay = it.oneOf("replay", or.replay, "stored", "latest", "refused", "unknown")
	if rt := it.table("replayed"); rt != nil {
		if r.header = rt.strOr("header", or.header); !headerName.MatchString(r.header) && !rt.p.has(rt.at("header")) {
			rt.fail("header", "is no header name")
		}
		if rt.has("is") {
			r.is = rt.list("is")
		}
		rt.finish()
	}
	it.finish()
	return r
}

// charClass reads what one character of a key may be.
func charClass(t *table) *regexp.Regexp {
	re := t.regexp("chars")
	if re == nil {
		return nil
	}
	return regexp.MustCompile(`^(?:` + re.String() + `)*$`)
}

// checkKeyRule finds rules under which no digest can be made.
func (d *definition) checkKeyRule(t *table, op *operation) {
	k := op.key
	sample := k.derive("sample", 0, op.limit())
	at := "key"
	if bits := k.bits(len(sample) - len(k.prefix)); bits < leastBits {
		t.fail(at, "a derived key would have %d bits; make max at least %d characters", bits, len(k.prefix)+k.leastLength())
		return
	}
	for n := range 8 {
		if why := op.fits(k.derive("sample"+strconv.Itoa(n), n, op.limit())); why != "" {
			t.fail(at, "a derived key does not fit: %s; choose another digest or prefix", why)
			return
		}
	}
}

func (k keyRule) bitsPerChar() float64 {
	switch k.digest {
	case "hex", "uuid":
		return 4
	case "digits":
		return 3.32
	}
	return 5
}

func (k keyRule) bits(chars int) int {
	if k.digest == "uuid" {
		return 122
	}
	return int(float64(max(chars, 0)) * k.bitsPerChar())
}

func (k keyRule) leastLength() int { return int(leastBits/k.bitsPerChar()) + 1 }

// limit is the most bytes that a key may have wherever it travels; 0 is none.
func (op *operation) limit() int {
	limit := op.key.max
	if op.sendsIdempotencyKey && op.idempotency.max > 0 && (limit == 0 || op.idempotency.max < limit) {
		limit = op.idempotency.max
	}
	return limit
}

// derive makes a key: SHA-256 of the action key, and of the number for a
// replacement, written in the digest's alphabet and cut.
func (k keyRule) derive(actionKey string, n, limit int) string {
	in := actionKey
	if n > 0 {
		in += "\x00" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(in))
	var text string
	length := digestLength
	switch k.digest {
	case "hex":
		text = hex.EncodeToString(sum[:])
	case "digits":
		text = new(big.Int).SetBytes(sum[:]).Text(10)
		text = strings.Repeat("0", 78-len(text)) + text
		// The first digits of a number below 2^256 are not even: the last are.
		text = text[len(text)-digestLength:]
	case "uuid":
		// Source: RFC 9562, 5.8: version 8 leaves the content to the maker.
		u := sum[:16]
		u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
		h := hex.EncodeToString(u)
		return k.prefix + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	default:
		text = strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	}
	if limit > 0 {
		length = max(min(length, limit-len(k.prefix)), 0)
	}
	return k.prefix + text[:length]
}

// fits says why a key cannot travel to this system, "" if it can: its length,
// its characters, and every place of the requests where it stands.
func (op *operation) fits(key string) string {
	if key == "" {
		return "it is empty"
	}
	if limit := op.limit(); limit > 0 && len(key) > limit {
		return fmt.Sprintf("it has %d bytes and the system takes %d", len(key), limit)
	}
	if op.key.chars != nil && !op.key.chars.MatchString(key) {
		return "it has a character that the system does not take"
	}
	if op.sendsIdempotencyKey && op.idempotency.chars != nil && !op.idempotency.chars.MatchString(key) {
		return "it has a character that the system does not take in an idempotency key"
	}
	if why := unclean(key); why != "" {
		return why
	}
	s := &scope{key: key, idempotencyKey: key, trial: true}
	for _, use := range op.keyUses {
		text, _, err := use.text.render(s, use.at)
		var bad *badValue
		switch {
		case errors.As(err, &bad) && (bad.name == "key" || bad.name == "idempotency_key"):
			return "in " + use.where + ": " + bad.why
		case use.segment && (text == "" || text == "." || text == ".."):
			return "in " + use.where + ": empty, . and .. cannot be a segment of a path"
		}
	}
	return ""
}

// keyUse is one place where a key stands.
type keyUse struct {
	where   string
	text    *template
	at      placing
	segment bool // of a path
}

// findKeyUses lists the places of all requests where a key stands, so that a
// key can be tried without building them: that happens for every record of an
// import.
func (op *operation) findKeyUses() {
	seen := map[string]bool{}
	add := func(where, position string, t *template, at placing, segment bool) {
		carries := slices.ContainsFunc(t.holes(), func(h *placeholder) bool { return h.name == "key" || h.name == "idempotency_key" })
		if id := position + t.text + fmt.Sprint(t.whole() == nil); carries && !seen[id] {
			seen[id] = true
			op.keyUses = append(op.keyUses, keyUse{where: where, text: t, at: at, segment: segment})
		}
	}
	var nodes func(where, position string, n *node, at placing)
	nodes = func(where, position string, n *node, at placing) {
		if n == nil {
			return
		}
		if n.text != nil {
			add(where, position, n.text, at, false)
		}
		for _, name := range slices.Sorted(maps.Keys(n.members)) {
			nodes(where, position, n.members[name], at)
		}
		for _, e := range n.list {
			nodes(where, position, e, at)
		}
	}
	request := func(r *request) {
		for _, p := range r.path {
			add(r.where+".path", "path ", p.text, inPath, true)
		}
		for _, name := range slices.Sorted(maps.Keys(r.query)) {
			nodes(r.where+".query."+name, "", r.query[name], placing{})
		}
		for _, name := range slices.Sorted(maps.Keys(r.header)) {
			nodes(r.where+".headers."+name, "header ", r.header[name], inHeader)
		}
		nodes(r.where, "", r.json, placing{})
		nodes(r.where, "", r.form, placing{})
		if r.text != nil {
			add(r.where, "", r.text, placing{}, false)
		}
	}
	for _, b := range op.blocks() {
		request(b.req)
		if b.batch != nil {
			request(b.batch.req)
			nodes(b.batch.req.where+".each", "each ", b.batch.each, placing{})
		}
	}
	if op.send != nil {
		request(op.send.req)
	}
}

func (op *operation) blocks() []*block {
	var bs []*block
	for _, b := range append([]*block{op.lookup, op.read, op.twin}, op.absence...) {
		if b != nil {
			bs = append(bs, b)
		}
	}
	return bs
}

// DeriveKey implements connectors.KeyDeriver.
func (c *Connector) DeriveKey(operation, actionKey string, n int) (string, bool, error) {
	op, err := c.operation(operation)
	if err != nil {
		return "", false, err
	}
	if n == 0 && op.key.form == "as_is" && op.fits(actionKey) == "" {
		return actionKey, false, nil
	}
	key := op.key.derive(actionKey, n, op.limit())
	if why := op.fits(key); why != "" {
		return "", false, &connectors.FieldError{Path: "key", Message: "the derived key does not fit: " + why}
	}
	return key, true, nil
}

// CheckKey implements connectors.KeyDeriver.
func (c *Connector) CheckKey(operation, key string) error {
	op, err := c.operation(operation)
	if err != nil {
		return err
	}
	if why := op.fits(key); why != "" {
		return &connectors.FieldError{Path: "provider_key",
			Message: fmt.Sprintf("cannot travel to %s: %s; leave it out to have one derived", c.def.info.Name, why)}
	}
	return nil
}

// CheckPayload implements connectors.KeyDeriver.
func (c *Connector) CheckPayload(operation string, keys []string, payload []byte) (findable, sendable bool, why string) {
	op, err := c.operation(operation)
	if err != nil {
		return false, false, err.Error()
	}
	findable, sendable = op.lookup != nil, op.send != nil
	var doc document
	// What the workflow sent is not known where the record kept no payload.
	if known := len(payload) > 0; known && (len(op.carries) > 0 || op.send != nil && op.send.takes != nil) {
		body, err := decode(payload)
		if err != nil {
			return false, false, "the payload is not JSON, so our key cannot stand in it"
		}
		doc.body = body
	}
	for _, path := range op.carries {
		shown := path.texts(doc)
		if len(payload) > 0 && !slices.ContainsFunc(shown, func(s string) bool { return slices.Contains(keys, s) }) {
			return false, false, fmt.Sprintf("our key does not stand at %s in the payload, so the action cannot be found again", path.text)
		}
	}
	carried := op.carriesKeyIn(keys, payload)
	if !carried {
		// It may be in the system all the same: its absence proves nothing.
		findable = findable && !op.foundByKey()
	}
	if op.send == nil {
		return findable, false, ""
	}
	if takes := op.send.takes; takes != nil {
		members, _ := doc.body.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if !slices.Contains(takes, name) {
				return findable, false, fmt.Sprintf("the send does not carry the payload's member %q", name)
			}
		}
	}
	if op.send.req.body == bodyStored && len(payload) == 0 {
		return findable, false, "there is no payload to send"
	}
	unseen := op.needsKey() && !op.placesKey
	if !op.sendsPayloadParts {
		if unseen && !carried {
			return findable, false, uncarried
		}
		return findable, sendable, ""
	}
	s := &scope{key: "x", idempotencyKey: "x", actionKey: "x", recordID: "x", subject: "x", payload: payload}
	if len(keys) > 0 {
		s.key, s.idempotencyKey, s.actionKey = keys[len(keys)-1], keys[len(keys)-1], keys[0]
	}
	req, err := op.send.req.build(trialBase, s)
	if err != nil {
		return findable, false, err.Error()
	}
	if unseen && !shows(req, keys) {
		return findable, false, uncarried
	}
	return findable, sendable, ""
}

// uncarried is why an action is not sent whose request would not show our key.
const uncarried = "our key stands nowhere in the request, so that what it makes could never be found again; " +
	"put {key} into the send, or the key into the payload"

// foundByKey tells whether a record is known as ours by our key alone. A change
// or a removal finds the record that it is about, which is there before.
func (op *operation) foundByKey() bool {
	return op.lookup != nil && !op.lookup.byRecord() && !op.info.Removes && len(op.proof) == 0
}

// needsKey tells whether a send that does not show our key must not go out: what
// it makes is never found, so its absence would be believed and it would be
// made again. Doing it twice harms only where twice is not the same as once.
func (op *operation) needsKey() bool { return op.foundByKey() && !op.info.Repeatable }

// carriesKeyIn tells whether a request for this payload, made by the definition
// or by the workflow, shows one of these keys, as far as can be seen: a place
// for the key in the send, or the key in the payload. Of an operation that is
// only looked up, or whose payload is not known, it is taken for granted.
func (op *operation) carriesKeyIn(keys []string, payload []byte) bool {
	if op.send == nil || op.placesKey {
		return true
	}
	return len(payload) == 0 && op.send.req.usesPayload() || showsIn(payload, keys)
}

// placesKey tells whether the request has a place for our key. The action key
// is one where keys are action keys; Send sees whether it is in each case.
func (r *request) placesKey() bool {
	return r.uses("key") || r.uses("idempotency_key") || r.uses("action_key")
}

// usesPayload tells whether the request carries the payload or a part of it.
func (r *request) usesPayload() bool { return r.body == bodyStored || r.namesPayload() }

// namesPayload tells whether a placeholder of the request reads the payload.
func (r *request) namesPayload() bool {
	return slices.ContainsFunc(r.holes(), func(h *placeholder) bool {
		return h.name == "payload" || strings.HasPrefix(h.name, "payload.")
	})
}

// shows tells whether one of these keys stands anywhere in a request: in its
// address, a header or the body, also inside a longer text.
func shows(r httpclient.Request, keys []string) bool {
	for _, text := range []string{r.URL.Path, unescaped(r.URL.RawQuery)} {
		if holdsKey(text, keys) {
			return true
		}
	}
	for _, values := range r.Header {
		if slices.ContainsFunc(values, func(v string) bool { return holdsKey(v, keys) }) {
			return true
		}
	}
	return showsIn(r.Body, keys)
}

// showsIn is shows for a body: JSON, a form or text.
func showsIn(body []byte, keys []string) bool {
	if holdsKey(string(body), keys) {
		return true
	}
	if v, err := decode(body); err == nil {
		return slices.ContainsFunc(leaves(v), func(text string) bool { return holdsKey(text, keys) })
	}
	return holdsKey(unescaped(string(body)), keys)
}

func unescaped(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return out
	}
	return s
}

// shortKey is the length below which a key may stand in a longer word by
// chance, so that it counts only as a word of its own.
const shortKey = 8

func holdsKey(text string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		for at := 0; key != ""; at++ {
			i := strings.Index(text[at:], key)
			if i < 0 {
				return false
			}
			at += i
			before, _ := utf8.DecodeLastRuneInString(text[:at])
			after, _ := utf8.DecodeRuneInString(text[at+len(key):])
			if len(key) >= shortKey || !wordRune(before) && !wordRune(after) {
				return true
			}
		}
		return false
	})
}

func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
