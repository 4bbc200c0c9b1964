package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/recovery-ledger/reconcile/internal/twice"
)

// Limits of a record. Keys and names are indexed, so they are short; texts are
// cut, since a failure must not be lost because its message is long.
const (
	KeyMax            = 512       // bytes of an action key, and of every other key or name
	MessageMax        = 64 << 10  // bytes kept of an attempt's message
	CodeMax           = 512       // bytes kept of an error code, error class or Retry-After
	ExcerptMax        = 1000      // bytes kept of a payload that is too large
	AttemptsMax       = 1000      // attempts in one record
	DefaultPayloadMax = 256 << 10 // bytes of a payload (ledger.payload_max)

	sendsMax = 1_000_000
)

// ParseOptions say how a record is read.
type ParseOptions struct {
	// Now is the moment of receipt: it stands for a missing occurred_at or
	// started_at. Zero leaves them zero.
	Now time.Time

	// PayloadMax is the largest payload kept, in bytes; 0: DefaultPayloadMax.
	// Of a larger one only digest, size and excerpt are kept.
	PayloadMax int

	// Redact masks secrets in texts (messages, codes, excerpts) before anything
	// is returned. nil masks nothing.
	Redact func(string) string

	// Restore reads what only an export carries: state, effect, outcome, flags,
	// keys, evidence and history. Without it they are unknown members.
	Restore bool
}

// ParseRecord reads one record: one JSON object as docs/rules.md, section 2,
// has it. It returns every mistake, not only the first; with any, the record is
// not to be used. The record shares no memory with line.
//
// An empty text, null and http_status 0 mean "not given". A member that stands
// twice is a mistake: readers differ on which one holds. Names of members are
// matched exactly; unknown ones are listed in Record.Unknown. The payload is
// kept byte for byte, and so is a member that stands twice in it: what may have
// been sent must not be lost, and it is what travels again; Record.Doubts says
// so. In texts, NUL, halves of surrogate pairs and invalid UTF-8
// become U+FFFD and are counted in Record.Sanitized; in a key they are a
// mistake. Control characters that stand raw in a text, which is no JSON, are
// read all the same.
func ParseRecord(line []byte, opts ParseOptions) (Record, []FieldError) {
	p := parser{opts: opts, attempt: -1}
	if !json.Valid(line) {
		fixed, n := escapeControls(line)
		if n == 0 || !json.Valid(fixed) {
			return Record{}, []FieldError{{Field: "record", Message: syntaxMessage(line)}}
		}
		line = fixed
	}
	i := blanks(line, 0)
	if line[i] != '{' {
		return Record{}, []FieldError{{Field: "record", Message: "must be one JSON object; got " + kindOf(line[i:])}}
	}
	p.export = opts.Restore && bytes.Contains(line, []byte(`"export"`)) && hasMember(line[i:], "export")
	members(line[i:], p.member)
	p.finish()
	if p.export && len(p.errs) == 0 {
		p.rec.Restore = append(json.RawMessage(nil), line...)
	}
	if len(p.errs) > 0 {
		return p.rec, p.errs
	}
	return p.rec, nil
}

type parser struct {
	opts    ParseOptions
	rec     Record
	errs    []FieldError
	export  bool
	attempt int // index of the attempt being read; -1 outside
	payload []byte
	text    bool // payload came as payload_text
	given   [2]bool
	digest  string // of an export
	inEntry uint64 // known members of the record seen so far, by memberBits
	inTry   uint64 // likewise of the attempt being read
}

// memberBits has a bit for each member that a record, an export or an attempt
// may hold: what is read without being here could stand twice.
var memberBits = func() map[string]uint64 {
	m := map[string]uint64{}
	for i, name := range []string{
		"action_key", "workflow", "workflow_version", "run_id", "step_id", "connector", "operation", "record_id", "subject", "outcome_key",
		"owner", "provider_key", "idempotency_key", "replaces", "risk", "driver", "driver_until", "occurred_at", "payload", "payload_text",
		"payload_type", "attempts",
		"export", "state", "effect", "outcome", "flags", "keys", "evidence", "history", "ledger", "payload_digest", "payload_base64",
		"attempt_id", "started_at", "finished_at", "send_by", "status", "http_status", "sends", "final", "error_class", "error_code",
		"retry_after", "remote_id", "message", "token",
	} {
		m[name] = 1 << i
	}
	return m
}()

// fail notes a mistake in a member of the object being read.
func (p *parser) fail(name, format string, args ...any) {
	p.errs = append(p.errs, FieldError{Field: p.path(name), Message: fmt.Sprintf(format, args...)})
}

func (p *parser) path(name string) string {
	if p.attempt < 0 {
		return name
	}
	if name == "" {
		return "attempts." + strconv.Itoa(p.attempt)
	}
	return "attempts." + strconv.Itoa(p.attempt) + "." + name
}

func (p *parser) failed(name string) bool {
	for _, e := range p.errs {
		if e.Field == name {
			return true
		}
	}
	return false
}

// once notes a known member of the object being read, and refuses a second one.
func (p *parser) once(seen *uint64, name []byte) {
	bit := memberBits[string(name)]
	if *seen&bit != 0 {
		p.fail(string(name), "stands twice; readers differ on which one holds, so write it once")
	}
	*seen |= bit
}

func (p *parser) member(name, val []byte) {
	r := &p.rec
	switch string(name) {
	case "action_key":
		p.key("action_key", val, &r.ActionKey)
	case "workflow":
		p.key("workflow", val, &r.Workflow)
	case "workflow_version":
		p.key("workflow_version", val, &r.WorkflowVersion)
	case "run_id":
		p.key("run_id", val, &r.RunID)
	case "step_id":
		p.key("step_id", val, &r.StepID)
	case "connector":
		p.key("connector", val, &r.Connector)
	case "operation":
		p.key("operation", val, &r.Operation)
	case "record_id":
		p.key("record_id", val, &r.RecordID)
	case "subject":
		p.key("subject", val, &r.Subject)
	case "outcome_key":
		p.key("outcome_key", val, &r.OutcomeKey)
	case "owner":
		p.key("owner", val, &r.Owner)
	case "provider_key":
		p.key("provider_key", val, &r.ProviderKey)
	case "idempotency_key":
		p.key("idempotency_key", val, &r.IdempotencyKey)
	case "replaces":
		p.key("replaces", val, &r.Replaces)
	case "risk":
		var s string
		p.key("risk", val, &s)
		switch r.Risk = Risk(s); r.Risk {
		case RiskNone, RiskLow, RiskNormal, RiskHigh:
		default:
			p.fail("risk", "%q is no risk; write low, normal or high", s)
		}
	case "driver":
		p.key("driver", val, &r.Driver)
		if r.Driver != "" && r.Driver != "platform" {
			p.fail("driver", `%q is no driver; write "platform" where the platform still retries by itself, else leave it out`, r.Driver)
		}
	case "driver_until":
		p.time("driver_until", val, &r.DriverUntil)
	case "send_by":
		p.time("send_by", val, &r.SendBy)
	case "occurred_at":
		p.time("occurred_at", val, &r.OccurredAt)
	case "payload":
		p.payload, p.text, p.given[0] = nil, false, val[0] != 'n' && string(val) != `""`
		if p.given[0] {
			p.payload = append([]byte(nil), val...)
			if path, found := repeated(val, ""); found {
				r.Doubts = append(r.Doubts, "payload."+path+": stands twice; kept byte for byte, but systems differ on which one holds")
			}
		}
	case "payload_text":
		p.payloadText(val)
	case "payload_type":
		p.key("payload_type", val, &r.PayloadType)
	case "attempts":
		p.attempts(val)
	default:
		if !p.export || !p.exported(name, val) {
			p.unknown(name)
			return
		}
	}
	p.once(&p.inEntry, name)
}

// unknown notes a member that we do not know. A name made of rubbish must not
// end in a log as it is.
func (p *parser) unknown(name []byte) {
	p.rec.Unknown = append(p.rec.Unknown, p.path(shownName(name)))
}

// shownName is a name of a member as a message may carry it.
func shownName(name []byte) string {
	s := strings.ToValidUTF8(string(name), "?")
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// exported says whether a member belongs to an export.
func (p *parser) exported(name, val []byte) bool {
	switch string(name) {
	case "export", "state", "effect", "outcome", "flags", "keys", "evidence", "history", "ledger":
		p.exportedValue(name, val)
		return true
	case "payload_digest": // of the bytes as received, where others are stored
		p.key("payload_digest", val, &p.digest)
		return true
	case "payload_base64":
		s, ok := p.string("payload_base64", val)
		b, err := base64.StdEncoding.DecodeString(s)
		if ok && err != nil {
			p.fail("payload_base64", "is no base64; export the entry again")
		}
		p.payload, p.text, p.given[0] = b, false, len(b) > 0
		return true
	}
	return false
}

// exportedValue refuses a member that stands twice anywhere in a value of an
// export. A detail holds what an outside system answered, and is kept as it is.
func (p *parser) exportedValue(name, val []byte) {
	if path, found := repeated(val, "detail"); found {
		p.fail(string(name)+"."+path, "stands twice; export the entry again")
	}
}

func (p *parser) payloadText(val []byte) {
	if val[0] == 'n' {
		return
	}
	if val[0] != '"' {
		p.fail("payload_text", "must be a text; got %s: a JSON body goes into payload", kindOf(val))
		return
	}
	b, n := decode(val, true)
	p.rec.Sanitized += n
	p.payload, p.text, p.given[1] = b, true, len(b) > 0
}

func (p *parser) attempts(val []byte) {
	p.rec.Attempts = nil
	switch val[0] {
	case 'n':
		return
	case '[':
	default:
		p.fail("attempts", "must be a list of objects; got %s: write [ … ] around it", kindOf(val))
		return
	}
	n := 0
	elements(val, func(el []byte) {
		p.attempt = n
		n++
		switch {
		case n > AttemptsMax:
		case el[0] != '{':
			p.fail("", "must be an object; got %s", kindOf(el))
		default:
			a := RecordAttempt{Sends: 1}
			p.inTry = 0
			members(el, func(name, v []byte) { p.attemptMember(&a, name, v) })
			if a.Status == "" && !p.failed(p.path("status")) {
				p.fail("status", "missing; write ok, error, unknown or started")
			}
			p.rec.Attempts = append(p.rec.Attempts, a)
		}
	})
	p.attempt = -1
	if n > AttemptsMax {
		p.fail("attempts", "%d attempts in one record; at most %d: report the others in further records of the same key", n, AttemptsMax)
	}
}

func (p *parser) attemptMember(a *RecordAttempt, name, val []byte) {
	switch string(name) {
	case "attempt_id":
		p.key("attempt_id", val, &a.AttemptID)
	case "started_at":
		p.time("started_at", val, &a.StartedAt)
	case "finished_at":
		p.time("finished_at", val, &a.FinishedAt)
	case "send_by":
		p.time("send_by", val, &a.SendBy)
	case "status":
		var s string
		p.key("status", val, &s)
		switch a.Status = AttemptStatus(s); a.Status {
		case "", AttemptOK, AttemptError, AttemptUnknown, AttemptStarted:
		default:
			p.fail("status", "%q is no status; write ok, error, unknown or started", s)
		}
	case "effect":
		var s string
		p.key("effect", val, &s)
		switch a.Effect = Effect(s); a.Effect {
		case "", EffectNotDone, EffectUnknown, EffectDone:
		default:
			p.fail("effect", "%q is no effect; write not_done, unknown or done, or leave it out", s)
		}
	case "http_status":
		if n, ok := p.number("http_status", val, 0); ok {
			if n != 0 && (n < 100 || n > 599) {
				p.fail("http_status", "%d is no HTTP status; write 100 to 599, or leave it out", n)
			}
			a.HTTPStatus = n
		}
	case "sends":
		if n, ok := p.number("sends", val, 1); ok {
			if n < 0 || n > sendsMax {
				p.fail("sends", "%d is out of range; write how many requests this attempt stands for, 0 where that is not known", n)
			}
			a.Sends = n
		}
	case "final":
		switch val[0] {
		case 't':
			a.Final = true
		case 'f', 'n':
			a.Final = false
		default:
			p.fail("final", "must be true or false; got %s", kindOf(val))
		}
	case "error_class":
		a.ErrorClass = p.short("error_class", val, false)
	case "error_code":
		a.ErrorCode = p.short("error_code", val, true)
	case "retry_after":
		a.RetryAfter = p.short("retry_after", val, true)
	case "remote_id":
		if n := val[0]; n == '-' || isDigit(n) {
			a.RemoteID = string(val) // the digits as they stand
			break
		}
		p.key("remote_id", val, &a.RemoteID)
	case "token":
		if n := val[0]; n == '-' || isDigit(n) {
			a.Token = string(val)
			break
		}
		p.key("token", val, &a.Token)
	case "message":
		a.Message = p.message(val)
	default:
		if !p.export || string(name) != "ledger" {
			p.unknown(name)
			return
		}
		p.exportedValue(name, val)
	}
	p.once(&p.inTry, name)
}

// finish fills in what follows from the rest, and tests what is required.
func (p *parser) finish() {
	r := &p.rec
	for _, f := range [...]struct{ name, value, hint string }{
		{"action_key", r.ActionKey, `give the stable key that also travels with the request, such as "run_8f2:create-contact"`},
		{"workflow", r.Workflow, "name the workflow that did this"},
		{"connector", r.Connector, "name the outside system, as in the config"},
		{"operation", r.Operation, `name the kind of action, such as "contact.create"`},
	} {
		if f.value == "" && !p.failed(f.name) {
			p.fail(f.name, "missing; %s", f.hint)
		}
	}
	if i := strings.LastIndexByte(r.ActionKey, ':'); i >= 0 {
		// Blanks around the colon would make a name with outer blanks.
		if r.RunID == "" {
			r.RunID = strings.TrimSpace(r.ActionKey[:i])
		}
		if r.StepID == "" {
			r.StepID = strings.TrimSpace(r.ActionKey[i+1:])
		}
	}
	if p.given[0] && p.given[1] {
		p.fail("payload_text", "stands beside payload; give the one that was really sent")
	}
	if p.text && r.PayloadType == "" {
		r.PayloadType = "text/plain; charset=utf-8"
	}
	if !p.text {
		r.PayloadType = "" // JSON
	}
	r.PayloadText = p.text && len(p.payload) > 0
	r.SetPayload(p.payload, p.opts.PayloadMax)
	if p.opts.Redact != nil && r.Excerpt != "" {
		r.Excerpt = excerpt(p.payload, p.opts.Redact)
	}
	if p.digest != "" {
		r.PayloadDigest = p.digest
	}
	if !r.SendBy.IsZero() && len(r.Attempts) > 0 {
		r.Doubts = append(r.Doubts, "send_by: promises for an intent, and this record has attempts: write it into the attempt; ignored")
	}
	sort.Strings(r.Unknown)

	if r.OccurredAt.IsZero() {
		r.OccurredAt = instant(p.opts.Now)
	}
	seen := map[string]int(nil)
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.AttemptID == "" {
			a.AttemptID = attemptID(r.ActionKey, *a)
			// Two attempts that nothing tells apart are two all the same.
			if len(r.Attempts) > 1 {
				if seen == nil {
					seen = make(map[string]int)
				}
				seen[a.AttemptID]++
				if n := seen[a.AttemptID]; n > 1 {
					a.AttemptID += "-" + strconv.Itoa(n)
				}
			}
		}
		a.ErrorCode = p.redact(a.ErrorCode)
		if a.StartedAt.IsZero() {
			a.StartedAt = instant(p.opts.Now)
		}
	}
}

// attemptID stands for a missing attempt_id: a digest of key, start as
// reported, status, and the two codes. The same report gives the same id.
func attemptID(actionKey string, a RecordAttempt) string {
	start := ""
	if !a.StartedAt.IsZero() {
		start = a.StartedAt.Format(time.RFC3339Nano)
	}
	h := sha256.New()
	for _, s := range [...]string{actionKey, start, string(a.Status), a.ErrorCode, strconv.Itoa(a.HTTPStatus)} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return "digest-" + hex.EncodeToString(h.Sum(nil)[:12])
}

// SetPayload takes a payload: its digest, its size, and the bytes themselves
// where they are at most limit (0: DefaultPayloadMax), else an excerpt. The
// record owns b from then on.
func (r *Record) SetPayload(b []byte, limit int) {
	r.Payload, r.PayloadDigest, r.PayloadSize, r.Excerpt = nil, "", len(b), ""
	if len(b) == 0 {
		return
	}
	if limit <= 0 {
		limit = DefaultPayloadMax
	}
	sum := sha256.Sum256(b)
	r.PayloadDigest = hex.EncodeToString(sum[:])
	if len(b) <= limit {
		r.Payload = b
		return
	}
	r.Excerpt = excerpt(b, nil)
}

// excerpt is the beginning of a payload as a text, masked before it is cut, so
// that no half of a secret is left.
func excerpt(b []byte, redact func(string) string) string {
	s, _ := cleanText(cutBytes(string(b[:min(len(b), 4*ExcerptMax)]), 4*ExcerptMax-utf8.UTFMax))
	if redact != nil {
		s = redact(s)
	}
	return cutBytes(s, ExcerptMax)
}

func (p *parser) redact(s string) string {
	if p.opts.Redact == nil || s == "" {
		return s
	}
	return p.opts.Redact(s)
}

// string reads a text. ok is false where the member is null or no text; the
// latter is a mistake.
func (p *parser) string(name string, val []byte) (s string, ok bool) {
	switch val[0] {
	case '"':
		b, n := decode(val, false)
		p.rec.Sanitized += n
		return string(b), true
	case 'n':
		return "", false
	}
	hint := ""
	if val[0] == '-' || isDigit(val[0]) || val[0] == 't' || val[0] == 'f' {
		hint = fmt.Sprintf(`: write "%s" in quotes`, val[:min(len(val), 40)])
	}
	p.fail(name, "must be a text; got %s%s", kindOf(val), hint)
	return "", false
}

// key reads a key or a name: at most KeyMax bytes, no control characters, no
// outer blanks.
func (p *parser) key(name string, val []byte, dst *string) {
	*dst = ""
	if val[0] == '"' && plainKey(val[1:len(val)-1]) {
		*dst = string(val[1 : len(val)-1])
		return
	}
	before := p.rec.Sanitized
	s, ok := p.string(name, val)
	if !ok || s == "" {
		return
	}
	if p.rec.Sanitized != before {
		p.rec.Sanitized = before
		p.fail(name, "holds NUL, half a surrogate pair or invalid UTF-8; write it without them")
		return
	}
	if why := badKey(s); why != "" {
		p.fail(name, "%s", why)
		return
	}
	*dst = s
}

// plainKey says whether the inside of a JSON text is a good key as it stands:
// the usual case, told without decoding.
func plainKey(b []byte) bool {
	if len(b) > KeyMax || len(b) > 0 && (b[0] == ' ' || b[len(b)-1] == ' ') {
		return false
	}
	for _, c := range b {
		if c < ' ' || c >= 0x7f || c == '\\' {
			return false
		}
	}
	return true
}

// CheckKey says what is wrong with a key or a name that no record may carry, and
// what to do; "" where nothing is.
func CheckKey(s string) string {
	switch {
	case s == "":
		return "is empty; give the stable key of the action"
	case !utf8.ValidString(s):
		return "holds invalid UTF-8; write it without"
	}
	return badKey(s)
}

// badKey says what is wrong with a key, and what to do; "" where nothing is.
func badKey(s string) string {
	if len(s) > KeyMax {
		return fmt.Sprintf("is %d bytes long, at most %d; use a shorter one, for example a digest of it", len(s), KeyMax)
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Sprintf("holds the control character U+%04X; write it without", r)
		}
	}
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return fmt.Sprintf("%q begins or ends with a blank; take it off, also where the key is sent", s)
	}
	return ""
}

// short reads a text of an outside system that is kept up to CodeMax bytes; a
// number is taken by its digits where systems send one.
func (p *parser) short(name string, val []byte, number bool) string {
	if number && (val[0] == '-' || isDigit(val[0])) {
		return string(val[:min(len(val), CodeMax)])
	}
	s, _ := p.string(name, val)
	if name != "error_code" { // masked when its digest has been taken
		s = p.redact(s)
	}
	return cutBytes(s, CodeMax)
}

// message reads a message. An error object, which some platforms hand over
// whole, is kept as its JSON.
func (p *parser) message(val []byte) string {
	var s string
	switch val[0] {
	case 'n':
		return ""
	case '"':
		s, _ = p.string("message", val)
	default:
		var n int
		s, n = cleanText(string(val))
		p.rec.Sanitized += n
	}
	return cutBytes(p.redact(s), MessageMax)
}

// number reads a whole number; null is missing.
func (p *parser) number(name string, val []byte, missing int) (int, bool) {
	switch c := val[0]; {
	case c == 'n':
		return missing, true
	case c == '-' || isDigit(c):
		n, err := strconv.Atoi(string(val))
		if err != nil {
			p.fail(name, "%.40s is no whole number in range", val)
			return 0, false
		}
		return n, true
	}
	if text, ok := bytes.CutPrefix(val, []byte{'"'}); ok {
		text = bytes.TrimSuffix(text, []byte{'"'})
		if n, err := strconv.Atoi(string(text)); err == nil {
			p.fail(name, "must be a number; write %d without quotes", n)
			return 0, false
		}
	}
	p.fail(name, "must be a number; got %s", kindOf(val))
	return 0, false
}

const timeForm = "write RFC 3339 with a zone, such as 2026-11-28T09:15:00Z"

// time reads an instant. The year 1, which is how Go writes "no time", means
// not given.
func (p *parser) time(name string, val []byte, dst *time.Time) {
	*dst = time.Time{}
	var t time.Time
	if val[0] == '"' && t.UnmarshalText(val[1:len(val)-1]) == nil {
		*dst = instant(t)
		return
	}
	shown, text := fmt.Sprintf("%.40s", val), string(val)
	switch val[0] {
	case 'n':
		return
	case '"':
		if text, _ = p.string(name, val); text == "" {
			return
		}
		shown = strconv.Quote(cutBytes(text, 60))
	case '{', '[', 't', 'f':
		p.fail(name, "must be a time; got %s; %s", kindOf(val), timeForm)
		return
	}
	if val[0] != '"' || t.UnmarshalText([]byte(text)) != nil {
		p.fail(name, "%s is no time; %s", shown, cmp.Or(asEpoch(text), timeForm))
		return
	}
	*dst = instant(t)
}

// instant is a time as the ledger keeps it: UTC, whole microseconds.
func instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// cutBytes cuts s to at most n bytes, between characters.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cleanText replaces what not every database can hold.
func cleanText(s string) (string, int) {
	n := 0
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s, 0
	}
	var b strings.Builder
	for i, r := range s {
		if r == 0 || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			r = utf8.RuneError
			n++
		}
		b.WriteRune(r)
	}
	return b.String(), n
}

// The functions below walk over JSON that json.Valid has accepted, so they need
// no errors of their own. They exist because the payload must keep its bytes,
// halves of surrogate pairs must be seen, and every mistake must be named; the
// decoder of the standard library does none of the three.

func blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// end is the index behind the value that begins at b[i].
func end(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = endOfString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what holds a number or a literal
				return i
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// members calls f for each member of the object that begins obj.
func members(obj []byte, f func(name, val []byte)) {
	i := blanks(obj, 1)
	for i < len(obj) && obj[i] == '"' {
		j := endOfString(obj, i)
		name := obj[i+1 : j-1]
		for _, c := range name {
			if c == '\\' {
				name, _ = decode(obj[i:j], false)
				break
			}
		}
		i = blanks(obj, blanks(obj, j)+1)
		j = end(obj, i)
		f(name, obj[i:j])
		i = blanks(obj, j)
		if i < len(obj) && obj[i] == ',' {
			i = blanks(obj, i+1)
		}
	}
}

// repeated finds the first member that stands twice in one object, at any depth,
// and returns its dotted path, as a message may carry it. Values of members named
// skip are not looked into.
func repeated(b []byte, skip string) (path string, found bool) {
	names := twice.Member(b, skip)
	for i, n := range names {
		names[i] = shownName([]byte(n))
	}
	return strings.Join(names, "."), len(names) > 0
}

func hasMember(obj []byte, name string) bool {
	found := false
	members(obj, func(n, _ []byte) { found = found || string(n) == name })
	return found
}

// elements calls f for each element of the array that begins arr.
func elements(arr []byte, f func(val []byte)) {
	i := blanks(arr, 1)
	for i < len(arr) && arr[i] != ']' {
		j := end(arr, i)
		f(arr[i:j])
		i = blanks(arr, j)
		if i < len(arr) && arr[i] == ',' {
			i = blanks(arr, i+1)
		}
	}
}

// decode returns the text that a JSON string stands for, and how many
// replacements it took. With raw, NUL and bytes that are no UTF-8 stay: they are
// the bytes of a payload.
func decode(val []byte, raw bool) ([]byte, int) {
	in := val[1 : len(val)-1]
	plain := true
	for _, c := range in {
		if c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return append([]byte(nil), in...), 0
	}
	out, n := make([]byte, 0, len(in)), 0
	for i := 0; i < len(in); {
		switch c := in[i]; {
		case c == '\\' && in[i+1] == 'u':
			r := hex4(in[i+2:])
			i += 6
			switch {
			case r >= 0xd800 && r < 0xdc00 && i+6 <= len(in) && in[i] == '\\' && in[i+1] == 'u' && hex4(in[i+2:])&0xfc00 == 0xdc00:
				r = 0x10000 + (r-0xd800)<<10 + hex4(in[i+2:]) - 0xdc00
				i += 6
			case r >= 0xd800 && r < 0xe000, r == 0 && !raw:
				r = utf8.RuneError
				n++
			}
			out = utf8.AppendRune(out, r)
		case c == '\\':
			out = append(out, unescaped(in[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, size := utf8.DecodeRune(in[i:])
			if r == utf8.RuneError && size == 1 && !raw {
				out = utf8.AppendRune(out, r)
				n++
			} else {
				out = append(out, in[i:i+size]...)
			}
			i += size
		}
	}
	return out, n
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a':
			c -= 'a' - 10
		default:
			c -= 'A' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// escapeControls writes control characters that stand raw inside texts as
// escapes, and says how many there were. Templates that put an error message
// into JSON by hand often leave them in, and the failure must not be lost.
func escapeControls(line []byte) ([]byte, int) {
	out, n, inside := make([]byte, 0, len(line)+16), 0, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case inside && c < ' ':
			out = append(out, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			n++
			continue
		case inside && c == '\\' && i+1 < len(line):
			out = append(out, c)
			i++
			c = line[i]
		case c == '"':
			inside = !inside
		}
		out = append(out, c)
	}
	return out, n
}

func kindOf(val []byte) string {
	switch val[0] {
	case '"':
		return "a text"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

func syntaxMessage(line []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(line, &raw)
	if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
		return fmt.Sprintf("not valid JSON at byte %d: %v; write one whole JSON object", s.Offset, err)
	}
	return "not valid JSON; write one whole JSON object"
}
