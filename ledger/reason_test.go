package ledger

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func reasonID(c Class, code, message string) string {
	id, _ := FailureReason("crm", "contact.create", c, code, message)
	return id
}

func TestFailuresOfOneCauseShareAReason(t *testing.T) {
	const key = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '%' if you meant to execute a different request."
	stripe := func(id string) string { return strings.Replace(key, "%", id, 1) }
	page := `<html><head><title>504 Gateway Time-out</title></head><body><center><h1>504 Gateway Time-out</h1></center><hr><center>nginx/1.13.9</center></body></html>`
	edge := func(host, ray string) string {
		return "<!DOCTYPE html>\n<html lang=\"en-US\"><head>\n<title>" + host + " | 520: Web server is returning an unknown error</title></head><body>" +
			strings.Repeat("<p>x</p>", 1000) + "Cloudflare Ray ID: " + ray + "</body></html>"
	}
	for name, c := range map[string]struct {
		class    Class
		messages []string
		text     string
	}{
		"one key error, three keys": {ClassConflict, []string{stripe("5f07aeb4-6c1b-4b52-9d0a-0c2f6b7a9e11"), stripe("beefcafe-dead-beef-cafe-deadbeefcafe"), stripe("01234567-89ab-cdef-0123-456789abcdef")},
			"Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '#' if you meant to execute a different request."},
		"an existing contact, by its id": {ClassAlreadyExists, []string{"Contact already exists. Existing ID: 6001", "Contact already exists. Existing ID: 7002"},
			"Contact already exists. Existing ID: #"},
		"the same as the whole answer, with its correlation id": {ClassAlreadyExists, []string{
			`{"category":"CONFLICT","message":"Contact already exists. Existing ID: 6001","correlationId":"0f3c9b62-5f1e-4a7e-9f57-0d5c1f2a7b11"}`,
			`{"category":"CONFLICT","message":"Contact already exists. Existing ID: 7002","correlationId":"77aa9b62-5f1e-4a7e-9f57-0d5c1f2a7b99"}`},
			"Contact already exists. Existing ID: #"},
		"how long and when":                   {ClassTimeout, []string{"timeout after 10003ms at 2026-09-22T10:00:03Z", "timeout after 10021ms at 2026-09-22T10:04:11Z"}, "timeout after # at #"},
		"a host for each connection":          {ClassNetwork, []string{"write CONNECTION_CLOSED 1f46aa0b33de4c5f8a7b6c5d4e3f3970.db.example:5432", "write CONNECTION_CLOSED 5c01aa0b33de4c5f8a7b6c5d4e3fdaee.db.example:5432"}, "write CONNECTION_CLOSED"},
		"one root, wrapped differently":       {ClassNetwork, []string{"sync failed: save: dial tcp 10.0.0.7:443: i/o timeout", "nightly: dial tcp 10.0.0.9:443: i/o timeout", "dial tcp [2001:db8::1]:443: i/o timeout", `Post "https://api.example.org/v1/contacts?id=5": dial tcp 10.0.0.9:443: i/o timeout`}, "dial tcp: i/o timeout"},
		"a page of the edge":                  {ClassServerError, []string{edge("api.example.org", "8f1a2b3c4d5e6f70"), edge("eu.example.net", "1111111111111111")}, "gateway 520"},
		"a page of a proxy":                   {ClassTimeout, []string{page}, "gateway 504"},
		"a record id that starts with digits": {ClassLockConflict, []string{"unable to obtain exclusive access to this record or 1 records: 001A", "unable to obtain exclusive access to this record or 1 records: 0015e00000XyZzyAAB"}, "unable to obtain exclusive access to this record or # records: #"},
		"dates as mail writes them":           {ClassRateLimit, []string{"try again after Tue, 22 Sep 2026 10:02:00 GMT", "try again after Wed, 3 Jun 2026 01:02:03 GMT"}, "try again after # GMT"},
		"mail addresses and sites":            {ClassValidation, []string{"no mailbox ada@example.org at https://mail.example.org/x?y=1", "no mailbox bob.b+c@mail.example at http://other.example/"}, "no mailbox # at #"},
		"vendor ids":                          {ClassNotFound, []string{"No such customer: 'cus_NffrFeUfNV2Hib'; a similar object exists", "No such customer: 'cus_Aa1bB2cC3dD4eE'; a similar object exists"}, "No such customer: '#'; a similar object exists"},
		"times on their own":                  {ClassTimeout, []string{"gave up at 10:04:11.123", "gave up at 10:04"}, "gave up at #"},
		"blanks and line ends":                {ClassServerError, []string{"a  b\r\n c", "a b c"}, "a b c"},
		"the status stays":                    {ClassServerError, []string{"HTTP 500", "HTTP 500"}, "HTTP 500"},
	} {
		first := reasonID(c.class, "", c.messages[0])
		for _, m := range c.messages {
			if id, text := FailureReason("crm", "contact.create", c.class, "", m); id != first || text != c.text {
				t.Errorf("%s: %.120q\n got %s %q\nwant %s %q", name, m, id, text, first, c.text)
			}
		}
	}
}

func TestWordsKeepReasonsApart(t *testing.T) {
	for _, m := range []string{
		`relation "api_usage_rollup" does not exist`,
		`relation "deadbeef_cafe" does not exist`,
		"PS99:Unexpected error.",
		"field error.code is missing",
		"java.io.IOException: broken pipe",
		"utf8 expected, x509 and sha256 are words",
		"HTTP 404",
		"status code 503",
		"タイムアウト",
		"title 'Throttled' is taken",
	} {
		if _, text := FailureReason("crm", "x", ClassUnknown, "", m); text != m {
			t.Errorf("%q became %q; want it word for word", m, text)
		}
	}
	if a, b := reasonID(ClassServerError, "", "HTTP 500"), reasonID(ClassServerError, "", "HTTP 501"); a == b {
		t.Error("two statuses share a reason")
	}
}

func TestACodeNamesTheCauseInAnyLanguage(t *testing.T) {
	english, e := FailureReason("billing", "charge", ClassLockConflict, "idempotency_key_in_use", "There is currently another in-progress request using this key.")
	german, _ := FailureReason("billing", "charge", ClassLockConflict, "idempotency_key_in_use", "Mit diesem Schlüssel läuft bereits eine Anfrage.")
	none, n := FailureReason("billing", "charge", ClassLockConflict, "idempotency_key_in_use", "")
	if english != german || english != none {
		t.Errorf("three reasons: %s %s %s", english, german, none)
	}
	if e == "" || n != "idempotency_key_in_use" {
		t.Errorf("texts %q and %q; want both readable", e, n)
	}
	if a, b := reasonID(ClassRateLimit, "TEN_SECONDLY_ROLLING", "limit"), reasonID(ClassRateLimit, "DAILY", "limit"); a == b {
		t.Error("two codes share a reason")
	}
	if a, b := reasonID(ClassValidation, "400", "email is invalid"), reasonID(ClassValidation, "400", "phone is invalid"); a == b {
		t.Error("the HTTP status, given as code, hides the text")
	}
	if _, text := FailureReason("sms", "send", ClassConsent, "21610", ""); text != "code 21610" {
		t.Errorf("a numeric code without a message: %q", text)
	}
	if _, text := FailureReason("sms", "send", ClassTimeout, "", ""); text != "timeout" {
		t.Errorf("nothing but a class: %q", text)
	}
}

func TestReasonIsShort(t *testing.T) {
	_, text := FailureReason("crm", "x", ClassUnknown, "", strings.Repeat("ä ö ", 20000))
	if n := utf8.RuneCountInString(text); n > 500 || n < 400 {
		t.Errorf("%d characters", n)
	}
}

func FuzzFailureReason(f *testing.F) {
	for _, s := range []string{
		"", "#", "a # b", "Tue, 22 Sep 2026", "Mon 10.0.0.1 22", "<html><title>504", "a: dial tcp 1.2.3.4:5: x", `{"message":"{\"message\":\"x 5\"}"}`,
		"cus_123456", "x@y.example:80", "[::1]:80", "http://a.example.", "5f07aeb4-6c1b-4b52-9d0a-0c2f6b7a9e11", "\x00\xff\xed\xa0\x80", "HTTP: 500 5 00",
		"1.2.3.4<html>", "status=#404", "a.example b.example c", "Sep-22-2026",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := normalise(s)
		if again := normalise(once); again != once {
			t.Errorf("%q became %q, and that %q", s, once, again)
		}
		if utf8.RuneCountInString(once) > reasonMax || !utf8.ValidString(once) {
			t.Errorf("%q: too long or not UTF-8: %q", s, once)
		}
		FailureReason("c", "o", ClassUnknown, s, s)
	})
}

func BenchmarkFailureReason(b *testing.B) {
	for b.Loop() {
		FailureReason("crm", "contact.create", ClassTimeout, "", "timeout after 10003ms at 2026-09-22T10:00:03Z: upstream api.example.org:443 gave no answer")
	}
}
