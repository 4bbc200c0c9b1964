package reconcile

import (
	"testing"
	"time"

	"github.com/recovery-ledger/reconcile/connectors"
	"github.com/recovery-ledger/reconcile/ledger"
)

// rules is a classifier of a few rules.
type rules []struct {
	status int
	code   string
	c      connectors.Classified
}

func (rs rules) Classify(_ string, f connectors.Failure) (connectors.Classified, bool) {
	for _, r := range rs {
		if (r.status == 0 || r.status == f.HTTPStatus) && (r.code == "" || r.code == f.Code) {
			return r.c, true
		}
	}
	return connectors.Classified{}, false
}

func TestClassifyReported(t *testing.T) {
	known := connectors.Operation{Name: "contact.create", CanSend: true, SendNeedsID: true}
	noProof := connectors.Operation{Name: "mail.send", CanSend: true}
	lock := rules{{400, "UNABLE_TO_LOCK_ROW", connectors.Classified{Kind: connectors.KindLockConflict, Effect: connectors.EffectNotDone, Rule: "connector error 0"}},
		{502, "", connectors.Classified{Kind: connectors.KindUnavailable, Effect: connectors.EffectNotDone, Rule: "connector error 1"}},
		{400, "DUP_REG", connectors.Classified{Kind: connectors.KindAlreadyExists, Effect: connectors.EffectNotDone, Rule: "connector error 2"}},
		{400, "odd", connectors.Classified{Kind: connectors.KindMalformed, Rule: "connector error 3"}}}
	const (
		no    = ledger.EffectNotDone
		dunno = ledger.EffectUnknown
		done  = ledger.EffectDone
	)
	for name, c := range map[string]struct {
		ra     ledger.RecordAttempt
		op     connectors.Operation
		cl     connectors.Classifier
		class  ledger.Class
		effect ledger.Effect
		rule   string
	}{
		"started has no result":                             {ledger.RecordAttempt{Status: "started", Sends: 1}, known, nil, "", dunno, "started"},
		"ok with an id":                                     {ledger.RecordAttempt{Status: "ok", RemoteID: "9", Sends: 1}, known, nil, "", done, "ok"},
		"ok without the id that is needed: looked at":       {ledger.RecordAttempt{Status: "ok", HTTPStatus: 200, Sends: 1}, known, nil, "", dunno, "ok, no proof"},
		"ok where no id is needed":                          {ledger.RecordAttempt{Status: "ok", Sends: 1}, noProof, nil, "", done, "ok"},
		"ok of an operation that nobody knows":              {ledger.RecordAttempt{Status: "ok", Sends: 1}, connectors.Operation{}, nil, "", dunno, "ok, no proof"},
		"ok, and the workflow knows that it is done":        {ledger.RecordAttempt{Status: "ok", Effect: done, Sends: 1}, known, nil, "", done, "effect given"},
		"ok, but nothing done":                              {ledger.RecordAttempt{Status: "ok", Effect: no, Sends: 1}, known, nil, ledger.ClassSilentNoop, no, "effect given"},
		"a timeout":                                         {ledger.RecordAttempt{Status: "error", HTTPStatus: 504, ErrorClass: "timeout", Sends: 1}, known, nil, ledger.ClassTimeout, dunno, "reported"},
		"a class by its other name":                         {ledger.RecordAttempt{Status: "error", ErrorClass: "validation_error", Sends: 1}, known, nil, ledger.ClassValidation, no, "reported"},
		"permission_denied":                                 {ledger.RecordAttempt{Status: "error", ErrorClass: "permission_denied", Sends: 1}, known, nil, ledger.ClassPermission, no, "reported"},
		"a class that is none: the status decides":          {ledger.RecordAttempt{Status: "error", ErrorClass: "TimeoutException", HTTPStatus: 429, Sends: 1}, known, nil, ledger.ClassRateLimit, no, "default 429"},
		"validation, but a 504 speaks against it":           {ledger.RecordAttempt{Status: "error", ErrorClass: "validation", HTTPStatus: 504, Sends: 1}, known, nil, ledger.ClassValidation, dunno, "reported"},
		"quota by a 403":                                    {ledger.RecordAttempt{Status: "error", ErrorClass: "quota", HTTPStatus: 403, Sends: 1}, known, nil, ledger.ClassQuota, no, "reported"},
		"a rate limit in a 200":                             {ledger.RecordAttempt{Status: "error", ErrorClass: "rate_limit", HTTPStatus: 200, Sends: 1}, known, nil, ledger.ClassRateLimit, dunno, "reported"},
		"a conflict says nothing":                           {ledger.RecordAttempt{Status: "error", ErrorClass: "conflict", Sends: 1}, known, nil, ledger.ClassConflict, dunno, "reported"},
		"network says nothing":                              {ledger.RecordAttempt{Status: "error", ErrorClass: "network", Sends: 1}, known, nil, ledger.ClassNetwork, dunno, "reported"},
		"network, and the workflow knows better":            {ledger.RecordAttempt{Status: "error", ErrorClass: "network", Effect: no, Sends: 1}, known, nil, ledger.ClassNetwork, no, "effect given"},
		"an edge page":                                      {ledger.RecordAttempt{Status: "error", HTTPStatus: 403, Message: "<!DOCTYPE html><title>Just a moment...</title>", Sends: 1}, known, nil, ledger.ClassBlockedByEdge, no, "default 403"},
		"several requests: not done is not known":           {ledger.RecordAttempt{Status: "error", HTTPStatus: 400, Sends: 3}, known, nil, ledger.ClassValidation, dunno, "default 400; stands for several requests"},
		"an unknown number of requests":                     {ledger.RecordAttempt{Status: "error", HTTPStatus: 400, Effect: no, Sends: 0}, known, nil, ledger.ClassValidation, dunno, "effect given; stands for several requests"},
		"several requests, one of them done":                {ledger.RecordAttempt{Status: "ok", RemoteID: "9", Sends: 3}, known, nil, "", done, "ok"},
		"a rule of the connector":                           {ledger.RecordAttempt{Status: "error", HTTPStatus: 400, ErrorCode: "UNABLE_TO_LOCK_ROW", Sends: 1}, known, lock, ledger.ClassLockConflict, no, "connector error 0"},
		"a rule that says a 502 did nothing":                {ledger.RecordAttempt{Status: "error", HTTPStatus: 502, Sends: 1}, known, lock, ledger.ClassUnavailable, no, "connector error 1"},
		"without that rule":                                 {ledger.RecordAttempt{Status: "error", HTTPStatus: 502, Sends: 1}, known, nil, ledger.ClassUnavailable, dunno, "default 502"},
		"a reported class stands, the rule says the effect": {ledger.RecordAttempt{Status: "error", HTTPStatus: 502, ErrorClass: "server_error", Sends: 1}, known, lock, ledger.ClassServerError, no, "connector error 1"},
		"it exists already: looked up and read":             {ledger.RecordAttempt{Status: "error", HTTPStatus: 400, ErrorCode: "DUP_REG", Sends: 1}, known, lock, ledger.ClassAlreadyExists, dunno, "connector error 2"},
		"a kind that is no class":                           {ledger.RecordAttempt{Status: "error", HTTPStatus: 400, ErrorCode: "odd", Sends: 1}, known, lock, ledger.ClassUnknown, dunno, "connector error 3"},
		"rules of an operation that is not known":           {ledger.RecordAttempt{Status: "error", HTTPStatus: 502, Sends: 1}, connectors.Operation{}, lock, ledger.ClassUnavailable, dunno, "default 502"},
		"unknown, nothing said":                             {ledger.RecordAttempt{Status: "unknown", Sends: 1}, known, nil, "", dunno, "unknown"},
		"unknown, but a 400 was seen":                       {ledger.RecordAttempt{Status: "unknown", HTTPStatus: 400, Sends: 1}, known, nil, ledger.ClassValidation, dunno, "default 400"},
		"unknown, and the workflow knows better":            {ledger.RecordAttempt{Status: "unknown", Effect: no, Sends: 1}, known, nil, "", no, "effect given"},
		"an error of which nothing is said":                 {ledger.RecordAttempt{Status: "error", Sends: 1}, known, nil, ledger.ClassUnknown, dunno, "default class"},
	} {
		class, effect, rule := ClassifyReported(c.ra, c.op, c.cl)
		if class != c.class || effect != c.effect || rule != c.rule {
			t.Errorf("%s: got %q %s %q, want %q %s %q", name, class, effect, rule, c.class, c.effect, c.rule)
		}
	}
}

func TestClassOfStatus(t *testing.T) {
	for status, want := range map[int]struct {
		class   ledger.Class
		notDone bool
	}{
		0: {ledger.ClassUnknown, false}, 200: {ledger.ClassUnknown, false}, 302: {ledger.ClassUnknown, false},
		400: {ledger.ClassValidation, true}, 401: {ledger.ClassAuth, true}, 402: {ledger.ClassValidation, true}, 403: {ledger.ClassPermission, true},
		404: {ledger.ClassNotFound, true}, 408: {ledger.ClassTimeout, false}, 409: {ledger.ClassConflict, false}, 410: {ledger.ClassNotFound, true},
		422: {ledger.ClassValidation, true}, 423: {ledger.ClassLockConflict, true}, 425: {ledger.ClassLockConflict, true}, 429: {ledger.ClassRateLimit, true},
		500: {ledger.ClassServerError, false}, 502: {ledger.ClassUnavailable, false}, 503: {ledger.ClassUnavailable, false}, 504: {ledger.ClassTimeout, false}, 520: {ledger.ClassServerError, false},
	} {
		if c, n := classOfStatus(status); c != want.class || n != want.notDone {
			t.Errorf("%d: got %s %v, want %s %v", status, c, n, want.class, want.notDone)
		}
	}
}

// Every class has a kind of the same name, but the one that only a look gives.
func TestKindsAndClassesAgree(t *testing.T) {
	kinds := []connectors.Kind{connectors.KindValidation, connectors.KindAuth, connectors.KindPermission, connectors.KindNotFound, connectors.KindConflict,
		connectors.KindAlreadyExists, connectors.KindDuplicateRequest, connectors.KindRateLimit, connectors.KindQuota, connectors.KindTimeout, connectors.KindNetwork,
		connectors.KindUnavailable, connectors.KindServerError, connectors.KindLockConflict, connectors.KindBlockedByEdge, connectors.KindSilentNoop, connectors.KindConsent, connectors.KindUnknown}
	have := map[ledger.Class]bool{ledger.ClassRejected: true}
	for _, k := range kinds {
		c := ClassFromKind(k)
		if string(c) != string(k) {
			t.Errorf("kind %q is class %q", k, c)
		}
		have[c] = true
	}
	for _, c := range ledger.Classes() {
		if !have[c] {
			t.Errorf("class %q has no kind", c)
		}
	}
	for _, k := range []connectors.Kind{connectors.KindUnsupported, connectors.KindMalformed, connectors.KindNotMentioned, connectors.KindBadKey, connectors.KindNotUsable, connectors.KindStopping} {
		if c := ClassFromKind(k); c != ledger.ClassUnknown {
			t.Errorf("kind %q is class %q", k, c)
		}
	}
	if ClassFromKind("") != ledger.ClassNone {
		t.Error("no kind is no class")
	}
}

func TestAttemptFromSend(t *testing.T) {
	e := ledger.Entry{Connector: "crm", Operation: "contact.create"}
	begun := ledger.Attempt{AttemptID: "r1", Ours: true, Status: ledger.AttemptStarted, Effect: ledger.EffectUnknown, StartedAt: t0, SendBy: at(20 * time.Second), Sends: 1, Counts: true}
	for name, c := range map[string]struct {
		r     connectors.SendResult
		check func(a ledger.Attempt) bool
	}{
		"a success": {connectors.SendResult{Classified: connectors.Classified{Effect: connectors.EffectDone, HTTPStatus: 201, Rule: "ok"}, RemoteID: "9", Wrote: true},
			func(a ledger.Attempt) bool {
				return a.Status == ledger.AttemptOK && a.Effect == ledger.EffectDone && a.RemoteID == "9" && a.Counts && a.ReasonID == "" && a.Class == ""
			}},
		"not one byte went out: it does not count": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindNetwork, Effect: connectors.EffectNotDone, Rule: "default network"}},
			func(a ledger.Attempt) bool {
				return a.Status == ledger.AttemptError && a.Effect == ledger.EffectNotDone && !a.Counts && neverSent(a)
			}},
		"a refused credential does not count": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindAuth, Effect: connectors.EffectNotDone, HTTPStatus: 401, Rule: "default 401"}, Wrote: true},
			func(a ledger.Attempt) bool { return !a.Counts && !neverSent(a) && a.ReasonText == "HTTP 401" }},
		"a rate limit counts, and its wait is kept as seconds": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindRateLimit, Effect: connectors.EffectNotDone, HTTPStatus: 429}, Wrote: true, RetryAfter: connectors.RetryAfter{Wait: 1500 * time.Millisecond, Raw: "Tue, 22 Sep 2026 10:02:00 GMT"}},
			func(a ledger.Attempt) bool { return a.Counts && a.RetryAfter == "2" }},
		"an overflowing wait stays one": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindRateLimit, Effect: connectors.EffectNotDone}, Wrote: true, RetryAfter: connectors.RetryAfter{Beyond: true, Raw: "9e99"}},
			func(a ledger.Attempt) bool { return connectors.ParseRetryAfter(a.RetryAfter, t0).Beyond }},
		"junk is kept raw": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindRateLimit, Effect: connectors.EffectNotDone}, Wrote: true, RetryAfter: connectors.RetryAfter{Raw: "soon"}},
			func(a ledger.Attempt) bool { return a.RetryAfter == "soon" }},
		"it exists already: that may be ours": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindAlreadyExists, Effect: connectors.EffectNotDone, HTTPStatus: 400}, Wrote: true},
			func(a ledger.Attempt) bool { return a.Effect == ledger.EffectUnknown }},
		"a result that says nothing of the effect": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindUnknown}, Wrote: true},
			func(a ledger.Attempt) bool { return a.Effect == ledger.EffectUnknown && a.Class == ledger.ClassUnknown }},
		"cancelled by us before the first byte": {connectors.SendResult{Classified: connectors.Classified{Kind: connectors.KindStopping, Effect: connectors.EffectNotDone}},
			func(a ledger.Attempt) bool { return !a.Counts && neverSent(a) }},
	} {
		a := AttemptFromSend(e, begun, c.r, at(5*time.Second))
		if !c.check(a) || !a.FinishedAt.Equal(at(5*time.Second)) || !a.SendBy.Equal(begun.SendBy) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
