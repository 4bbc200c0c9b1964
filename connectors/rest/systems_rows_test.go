package rest

import (
	"strings"

	"github.com/recovery-ledger/reconcile/connectors"
)

// systemRows says what each real system answers, as far as that is known, and
// what the connector makes of it. Codes and texts whose source is weak only
// show what the definition does with them.
var systemRows = map[string]map[string]row{
	"hubspot":    hubspotRows,
	"salesforce": salesforceRows,
	"stripe":     stripeRows,
	"zendesk":    zendeskRows,
	"xero":       xeroRows,
	"quickbooks": quickbooksRows,
	"shopify":    shopifyRows,
	"jira":       jiraRows,
	"google":     googleRows,
	"paypal":     paypalRows,
	"pocketbase": pocketbaseRows,
}

const (
	consent   = connectors.CheckConsent
	owner     = connectors.CheckOwner
	lifecycle = connectors.CheckLifecycle
)

var hubspotRows = func() map[string]row {
	const (
		contact  = "GET /crm/objects/2026-09/contacts/<1%>"
		batch    = "POST /crm/objects/2026-09/contacts/batch/read"
		create   = "POST /crm/objects/2026-09/contacts"
		upsert   = "POST /crm/objects/2026-09/contacts/batch/upsert"
		missing  = `{"status":"error","message":"Object not found.","correlationId":"c1","category":"OBJECT_NOT_FOUND"}`
		found    = `{"id":"501","archived":false,"properties":{"action_key":"<1>","email":"Ada@Example.org"}}`
		payload  = `{"properties":{"action_key":"<1>","email":"ada@example.org"}}`
		consents = "GET /communication-preferences/2026-09/statuses/ada%40example.org/unsubscribe-all"
		person   = "GET /crm/objects/2026-09/contacts/ada%40example.org"
	)
	ada := toSubject("ada@example.org")
	return map[string]row{
		"found, the address written in other case": {look("contact.create", withPayload(payload)), []exchange{says(contact, 200, found)}, "applied 501",
			[]string{contact + "?archived=false&idProperty=action_key&properties=action_key&properties=email"}},
		"found, with another address": {look("contact.create", withPayload(`{"properties":{"email":"bob@example.org"}}`)),
			[]exchange{says(contact, 200, found)}, "applied 501 differs", nil},
		"none, nor among the archived": {look("contact.create"), []exchange{says(contact, 404, missing)}, "none",
			[]string{contact + "?archived=false&idProperty=action_key&properties=action_key&properties=email",
				contact + "?archived=true&idProperty=action_key&properties=action_key&properties=email"}},
		"archived since": {look("contact.create"), []exchange{says(contact, 404, missing),
			says(contact, 200, `{"id":"501","archived":true,"properties":{"action_key":"<1>"}}`)}, "reversed 501", nil},
		"a 404 of another kind says nothing": {look("contact.create"), []exchange{says(contact, 404, `{"status":"error","message":"resource not found"}`)},
			"could not ask: not_found", nil},
		"a record without our key is a stranger": {look("contact.create"), []exchange{says(contact, 200, `{"id":"9","archived":false,"properties":{"action_key":"RUN:1"}}`)},
			"1 strangers", nil},
		"too many calls in ten seconds": {look("contact.create"), []exchange{says(contact, 429, `{"status":"error","policyName":"TEN_SECONDLY_ROLLING","category":"RATE_LIMITS"}`,
			"X-HubSpot-RateLimit-Remaining", "0", "X-HubSpot-RateLimit-Max", "100")}, "could not ask: rate_limit wait 10s", nil},
		"all calls of the day used": {look("contact.create"), []exchange{says(contact, 429, `{"status":"error","policyName":"DAILY"}`)},
			"could not ask: quota wait 1h0m0s", nil},
		"a move of the account":   {look("contact.create"), []exchange{says(contact, 477, `{}`, "Retry-After", "90")}, "could not ask: unavailable wait 1m30s", nil},
		"locked":                  {look("contact.create"), []exchange{says(contact, 423, `{"status":"error","category":"LOCKED"}`)}, "could not ask: lock_conflict wait 2s", nil},
		"a dead token":            {look("contact.create"), []exchange{says(contact, 401, `{"status":"error","category":"INVALID_AUTHENTICATION"}`)}, "could not ask: auth", nil},
		"a missing scope":         {look("contact.create"), []exchange{says(contact, 403, `{"status":"error","category":"MISSING_SCOPES"}`)}, "could not ask: permission", nil},
		"the edge is down":        {look("contact.create"), []exchange{says(contact, 502, `<html><title>502</title></html>`, "Content-Type", "text/html")}, "could not ask: unavailable", nil},
		"no answer to a question": {look("contact.create"), []exchange{loses(contact, false)}, "could not ask: network", nil},
		"a batch, all found": {batch2("contact.create"), []exchange{says(batch, 200, `{"status":"COMPLETE","results":[{"id":"502","properties":{"action_key":"<2>"}},{"id":"501","properties":{"action_key":"<1>"}}]}`)},
			"1: applied 501; 2: applied 502",
			[]string{batch + `?archived=false {"idProperty":"action_key","inputs":[{"id":"<1>"},{"id":"<2>"}],"properties":["action_key","email"],"propertiesWithHistory":[]}`}},
		"a batch with a gap that is named in a 207": {batch2("contact.create"), []exchange{
			says(batch, 207, `{"status":"COMPLETE","numErrors":1,"results":[{"id":"501","properties":{"action_key":"<1>"}}],"errors":[{"category":"OBJECT_NOT_FOUND","message":"gone","context":{"ids":["<2>"]}}]}`),
			says("GET /crm/objects/2026-09/contacts/<2%>", 404, missing)}, "1: applied 501; 2: none", nil},
		"a batch with a gap that nobody names": {batch2("contact.create"), []exchange{
			says(batch, 200, `{"status":"COMPLETE","results":[{"id":"501","properties":{"action_key":"<1>"}}]}`)}, "1: applied 501; 2: could not ask: not_mentioned", nil},
		"a batch of which nothing is there, one archived since": {batch2("contact.create"), []exchange{
			says(batch, 207, `{"results":[],"errors":[{"category":"OBJECT_NOT_FOUND","context":{"ids":["<1>","<2>"]}}]}`),
			says(contact, 404, missing), says("GET /crm/objects/2026-09/contacts/<2%>", 200, `{"id":"502","archived":true,"properties":{"action_key":"<2>"}}`)},
			"1: none; 2: reversed 502", nil},
		"a batch that one key spoils": {batch3("contact.create"), []exchange{says(batch, 400, `{"status":"error","category":"VALIDATION_ERROR"}`),
			says(batch, 200, `{"results":[{"id":"501","properties":{"action_key":"<1>"}}]}`), says(batch, 400, `{"status":"error","category":"VALIDATION_ERROR"}`),
			says(batch, 200, `{"results":[{"id":"503","properties":{"action_key":"<3>"}}]}`)}, "1: applied 501; 2: could not ask: bad_key; 3: applied 503", nil},
		"a batch that is wrong in itself": {batch3("contact.create"), []exchange{says(batch, 400, `{"status":"error","category":"VALIDATION_ERROR"}`)},
			"1: could not ask: validation; 2: could not ask: validation; 3: could not ask: validation", nil},
		"a 207 with neither results nor errors proves nothing": {batch2("contact.create"), []exchange{says(batch, 207, `{"status":"COMPLETE"}`)},
			"1: could not ask: malformed; 2: could not ask: malformed", nil},

		"made":                       {sending("contact.create", payload), []exchange{makes(create, 201, found)}, "done id 501", []string{create + " " + payload}},
		"made, and the answer lost":  {sending("contact.create", payload), []exchange{loses(create, true)}, "unknown network", nil},
		"not made, and no answer":    {sending("contact.create", payload), []exchange{loses(create, false)}, "unknown network", nil},
		"made, and an error of 502":  {sending("contact.create", payload), []exchange{makes(create, 502, ``)}, "unknown unavailable", nil},
		"made before, with the id":   {sending("contact.create", payload), []exchange{says(create, 409, `{"status":"error","message":"Contact already exists. Existing ID: 51","category":"CONFLICT"}`)}, "not_done already_exists id 51", nil},
		"made before, without an id": {sending("contact.create", payload), []exchange{says(create, 409, `{"status":"error","message":"Conflict","category":"CONFLICT"}`)}, "not_done already_exists", nil},
		"a property that is wrong":   {sending("contact.create", payload), []exchange{says(create, 400, `{"status":"error","message":"Property values were not valid","category":"VALIDATION_ERROR","errors":[{"code":"INVALID_EMAIL"}]}`)}, "not_done validation", nil},
		"a send beyond the limit":    {sending("contact.create", payload), []exchange{says(create, 429, `{"policyName":"SECONDLY"}`)}, "not_done rate_limit wait 10s", nil},
		"upserted": {sending("contact.upsert", payload), []exchange{makes(upsert, 200, `{"status":"COMPLETE","results":[{"id":"501","new":true}]}`)}, "done id 501",
			[]string{upsert + ` {"inputs":[{"id":"<1>","idProperty":"action_key","objectWriteTraceId":"<1>","properties":{"action_key":"<1>","email":"ada@example.org"}}]}`}},
		"an upsert refused in a 207":              {sending("contact.upsert", payload), []exchange{says(upsert, 207, `{"status":"COMPLETE","results":[],"numErrors":1,"errors":[{"category":"VALIDATION_ERROR","message":"bad","context":{"objectWriteTraceId":["<1>"]}}]}`)}, "not_done validation", nil},
		"an upsert whose 207 names somebody else": {sending("contact.upsert", payload), []exchange{makes(upsert, 207, `{"results":[],"errors":[{"category":"VALIDATION_ERROR","context":{"objectWriteTraceId":["other"]}}]}`)}, "unknown silent_noop", nil},
		"an upsert with an empty 207":             {sending("contact.upsert", payload), []exchange{says(upsert, 207, `{"status":"COMPLETE"}`)}, "unknown silent_noop", nil},

		"all may go on": {checking("contact.create", wants(consent, owner, lifecycle), ada), []exchange{
			says(consents, 200, `{"results":[{"status":"SUBSCRIBED","subscriberIdString":"ada@example.org"}]}`),
			says(person, 200, `{"id":"7","properties":{"hubspot_owner_id":"55","lifecyclestage":"lead"}}`),
			says("GET /crm/owners/2026-09/55", 200, `{"id":"55","archived":false}`)}, "consent pass SUBSCRIBED, owner pass 55, lifecycle pass lead", nil},
		"unsubscribed":                 {checking("contact.create", wants(consent), ada), []exchange{says(consents, 200, `{"results":[{"status":"UNSUBSCRIBED"}]}`)}, "consent refuse UNSUBSCRIBED", nil},
		"nobody says whether they are": {checking("contact.create", wants(consent), ada), []exchange{says(consents, 200, `{"results":[]}`)}, "consent unread", nil},
		"the owner has left": {checking("contact.create", wants(owner), ada), []exchange{
			says(person, 200, `{"id":"7","properties":{"hubspot_owner_id":"55"}}`), says("GET /crm/owners/2026-09/55", 200, `{"id":"55","archived":true}`)}, "owner refuse 55", nil},
		"whose account and which": {newDeed("probe", "", nil, nil), []exchange{says("GET /account-info/2026-09/details", 200, `{"portalId":62515,"accountType":"SANDBOX"}`)}, "62515 SANDBOX", nil},
	}
}()

var salesforceRows = func() map[string]row {
	const (
		all    = "GET /services/data/v62.0/queryAll"
		query  = "GET /services/data/v62.0/query"
		next   = "GET /services/data/v62.0/query/01gD0000002HU6KIAW-2000"
		upsert = "PATCH /services/data/v62.0/sobjects/Lead/Action_Key__c/<1%>"
		found  = `{"attributes":{"type":"Lead"},"Id":"00Q1","Action_Key__c":"<1>","Email":"ada@example.org","IsDeleted":false,"MasterRecordId":null}`
		none   = `{"totalSize":0,"done":true,"records":[]}`
		lead   = `{"LastName":"Lovelace","Company":"Engines","Email":"ada@example.org"}`
	)
	ada := toSubject("ada.o'neil@example.org")
	return map[string]row{
		"found": {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":true,"records":[`+found+`]}`)}, "applied 00Q1",
			[]string{all + "?q=SELECT%20Id%2C%20Action_Key__c%2C%20Email%2C%20OwnerId%2C%20IsConverted%2C%20IsDeleted%2C%20MasterRecordId%20FROM%20Lead%20WHERE%20Action_Key__c%20%3D%20%27<1>%27"}},
		"none":                          {look("lead.create"), []exchange{says(all, 200, none)}, "none", nil},
		"deleted since":                 {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":true,"records":[{"Id":"00Q1","Action_Key__c":"<1>","IsDeleted":true,"MasterRecordId":null}]}`)}, "reversed 00Q1", nil},
		"merged since":                  {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":true,"records":[{"Id":"00Q1","Action_Key__c":"<1>","IsDeleted":true,"MasterRecordId":"00Q9"}]}`)}, "applied 00Q1 in 00Q9", nil},
		"two of them":                   {look("lead.create"), []exchange{says(all, 200, `{"totalSize":2,"done":true,"records":[`+found+`,{"Id":"00Q2","Action_Key__c":"<1>","IsDeleted":false}]}`)}, "applied 00Q1, applied 00Q2", nil},
		"on the next page":              {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/01gD0000002HU6KIAW-2000","records":[]}`), says(next, 200, `{"totalSize":1,"done":true,"records":[`+found+`]}`)}, "applied 00Q1", nil},
		"a page at another host":        {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":false,"nextRecordsUrl":"https://elsewhere.example/x","records":[]}`)}, "could not ask: malformed", nil},
		"the next page fails":           {look("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/01gD0000002HU6KIAW-2000","records":[]}`), says(next, 503, `[{"errorCode":"SERVER_UNAVAILABLE","message":"x"}]`)}, "could not ask: unavailable", nil},
		"a wrong query is nobody's key": {look("lead.create"), []exchange{says(all, 400, `[{"errorCode":"INVALID_FIELD","message":"No such column"}]`)}, "could not ask: validation pauses lane", nil},
		"the calls of the day are used": {look("lead.create"), []exchange{says(all, 403, `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"TotalRequests Limit exceeded."}]`, "Sforce-Limit-Info", "api-usage=15000/15000")}, "could not ask: quota wait 1h0m0s", nil},
		"a session that is over, twice": {look("lead.create"), []exchange{says(all, 401, `[{"errorCode":"INVALID_SESSION_ID","message":"Session expired or invalid"}]`)}, "could not ask: auth", nil},
		"a session that is renewed":     {look("lead.create"), []exchange{says(all, 401, `[{"errorCode":"INVALID_SESSION_ID","message":"Session expired or invalid"}]`), says(all, 200, none)}, "none", nil},
		"a batch is declared complete":  {batch2("lead.create"), []exchange{says(all, 200, `{"totalSize":1,"done":true,"records":[`+found+`]}`)}, "1: applied 00Q1; 2: none", nil},
		"a batch whose address is too long, and nobody's key": {batch3("lead.create"), []exchange{says(all, 414, ``), says(all, 200, `{"totalSize":1,"done":true,"records":[`+found+`]}`), says(all, 200, none)}, "1: applied 00Q1; 2: none; 3: none", nil},

		"made":                        {sending("lead.create", lead), []exchange{makes(upsert, 201, `{"id":"00Q1","success":true,"errors":[],"created":true}`)}, "done id 00Q1", []string{upsert + " " + lead}},
		"set again":                   {sending("lead.create", lead), []exchange{makes(upsert, 204, ``)}, "done", nil},
		"several, none written":       {sending("lead.create", lead), []exchange{says(upsert, 300, `["/services/data/v62.0/sobjects/Lead/00Q0000000AAA01","/services/data/v62.0/sobjects/Lead/00Q0000000AAA02"]`)}, "not_done conflict id 00Q0000000AAA01", nil},
		"a duplicate by another rule": {sending("lead.create", lead), []exchange{says(upsert, 400, `[{"errorCode":"DUPLICATE_VALUE","message":"duplicate value found: Email duplicates value on record with id: 00Q000000012345","fields":[]}]`)}, "not_done already_exists id 00Q000000012345", nil},
		"a locked row":                {sending("lead.create", lead), []exchange{says(upsert, 400, `[{"errorCode":"UNABLE_TO_LOCK_ROW","message":"unable to obtain exclusive access"}]`)}, "not_done lock_conflict", nil},
		"a field that is missing":     {sending("lead.create", lead), []exchange{says(upsert, 400, `[{"errorCode":"REQUIRED_FIELD_MISSING","message":"Required fields are missing: [Company]","fields":["Company"]}]`)}, "not_done validation", nil},
		"a session over at a send is not sent again": {sending("lead.create", lead), []exchange{says(upsert, 401, `[{"errorCode":"INVALID_SESSION_ID","message":"Session expired or invalid"}]`)}, "not_done auth", nil},
		"made, and the answer lost":                  {sending("lead.create", lead), []exchange{loses(upsert, true)}, "unknown network", nil},
		"made, and an error":                         {sending("lead.create", lead), []exchange{makes(upsert, 500, `[{"errorCode":"UNKNOWN_EXCEPTION"}]`)}, "unknown server_error", nil},

		"all may go on": {checking("lead.create", wants(consent, owner, lifecycle), ada), []exchange{
			says(query, 200, `{"totalSize":1,"done":true,"records":[{"OwnerId":"005A","IsConverted":false,"HasOptedOutOfEmail":false}]}`),
			says(query, 200, `{"totalSize":1,"done":true,"records":[{"IsActive":true}]}`)}, "consent pass false, owner pass 005A, lifecycle pass false",
			[]string{query + "?q=SELECT%20OwnerId%2C%20IsConverted%2C%20HasOptedOutOfEmail%20FROM%20Lead%20WHERE%20Email%20%3D%20%27ada.o%5C%27neil%40example.org%27",
				query + "?q=SELECT%20IsActive%20FROM%20User%20WHERE%20Id%20%3D%20%27005A%27"}},
		"opted out, converted, and the owner left": {checking("lead.create", wants(consent, owner, lifecycle), ada), []exchange{
			says(query, 200, `{"totalSize":1,"done":true,"records":[{"OwnerId":"005A","IsConverted":true,"HasOptedOutOfEmail":true}]}`),
			says(query, 200, `{"totalSize":1,"done":true,"records":[{"IsActive":false}]}`)}, "consent refuse true, owner refuse 005A, lifecycle refuse true", nil},
		"whose org": {newDeed("probe", "", nil, nil), []exchange{says(query, 200, `{"totalSize":1,"done":true,"records":[{"Id":"00D1","IsSandbox":true}]}`)}, "00D1 true", nil},
	}
}()

var stripeRows = func() map[string]row {
	const (
		search  = "GET /v1/payment_intents/search"
		read    = "GET /v1/payment_intents/pi_1"
		list    = "GET /v1/payment_intents"
		create  = "POST /v1/payment_intents"
		intent  = `{"id":"pi_1","object":"payment_intent","amount":1990,"currency":"eur","customer":"cus_1","status":"succeeded","metadata":{"action_key":"<1>"}}`
		other   = `{"id":"pi_8","object":"payment_intent","amount":5,"currency":"eur","status":"succeeded","metadata":{}}`
		nothing = `{"object":"search_result","data":[],"has_more":false,"next_page":null,"url":"/v1/payment_intents/search"}`
		hit     = `{"object":"search_result","data":[` + intent + `],"has_more":false,"next_page":null}`
		pay     = `{"amount":1990,"currency":"EUR","customer":"cus_1","metadata":{"action_key":"<1>"}}`
		listed  = list + "?created%5Bgte%5D=1790848500&created%5Blte%5D=1790850300&limit=100"
	)
	withStatus := func(s string) []exchange {
		body := `{"id":"pi_1","object":"payment_intent","amount":1990,"currency":"eur","customer":"cus_1","status":"` + s + `","metadata":{"action_key":"<1>"}}`
		return []exchange{says(search, 200, hit), says(read, 200, body)}
	}
	return map[string]row{
		"found, and the read decides": {look("payment_intent.create", withPayload(pay)), []exchange{says(search, 200, hit), says(read, 200, intent)}, "applied pi_1",
			[]string{search + "?limit=100&query=metadata%5B%27action_key%27%5D%3A%27run%3A1%27", read}},
		"found, with another amount":  {look("payment_intent.create", withPayload(`{"amount":1991,"currency":"eur"}`)), []exchange{says(search, 200, hit), says(read, 200, intent)}, "applied pi_1 differs", nil},
		"money under way":             {look("payment.charge"), withStatus("processing"), "pending pi_1", nil},
		"money refused":               {look("payment.charge"), withStatus("requires_payment_method"), "rejected pi_1", nil},
		"an intent that was canceled": {look("payment_intent.create"), withStatus("canceled"), "reversed pi_1", nil},
		"a status of the future":      {look("payment_intent.create"), withStatus("resting"), "unmapped pi_1", nil},
		"none, in the search and in the list": {look("payment_intent.create"), []exchange{says(search, 200, nothing), says(list, 200, `{"object":"list","data":[`+other+`],"has_more":false}`)}, "none",
			[]string{search + "?limit=100&query=metadata%5B%27action_key%27%5D%3A%27run%3A1%27", listed}},
		"the search lags, the list shows it on its second page": {look("payment_intent.create"), []exchange{says(search, 200, nothing),
			says(list, 200, `{"object":"list","data":[`+other+`],"has_more":true}`), says(list, 200, `{"object":"list","data":[`+intent+`],"has_more":false}`)}, "applied pi_1",
			[]string{search + "?limit=100&query=metadata%5B%27action_key%27%5D%3A%27run%3A1%27", listed, listed + "&starting_after=pi_8"}},
		"the list breaks off": {look("payment_intent.create"), []exchange{says(search, 200, nothing),
			says(list, 200, `{"object":"list","data":[`+other+`],"has_more":true}`), says(list, 500, `{"error":{"type":"api_error"}}`)}, "could not ask: server_error", nil},
		"the search shows two": {look("payment_intent.create"), []exchange{
			says(search, 200, `{"data":[`+intent+`,{"id":"pi_2","status":"succeeded","metadata":{"action_key":"<1>"}}],"has_more":false,"next_page":null}`),
			says(read, 200, intent), says("GET /v1/payment_intents/pi_2", 200, `{"id":"pi_2","status":"succeeded","metadata":{"action_key":"<1>"}}`)}, "applied pi_1, applied pi_2", nil},
		"on the next page of the search": {look("payment_intent.create"), []exchange{says(search, 200, `{"data":[],"has_more":true,"next_page":"p2"}`), says(search, 200, hit), says(read, 200, intent)}, "applied pi_1", nil},
		"a draft that was deleted":       {look("invoice.create"), []exchange{says("GET /v1/invoices/search", 200, `{"data":[{"id":"in_1","status":"draft","metadata":{"action_key":"<1>"}}],"has_more":false}`), says("GET /v1/invoices/in_1", 404, `{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such invoice"}}`)}, "reversed in_1", nil},
		"too many searches":              {look("payment_intent.create"), []exchange{says(search, 429, `{"error":{"type":"invalid_request_error","message":"Too many requests"}}`, "Stripe-Rate-Limited-Reason", "endpoint-rate")}, "could not ask: rate_limit", nil},
		"a lock that was not had":        {look("payment_intent.create"), []exchange{says(search, 429, `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`)}, "could not ask: lock_conflict", nil},
		"a key that is wrong":            {look("payment_intent.create"), []exchange{says(search, 401, `{"error":{"type":"invalid_request_error","message":"Invalid API Key provided"}}`)}, "could not ask: auth", nil},
		"a batch: one found, one none by the list": {batch3("payment_intent.create"), []exchange{says(search, 200, hit), says(read, 200, intent), says(list, 200, `{"data":[`+other+`],"has_more":false}`)},
			"1: applied pi_1; 2: none; 3: none",
			[]string{search + "?limit=100&query=metadata%5B%27action_key%27%5D%3A%27run%3A1%27%20OR%20metadata%5B%27action_key%27%5D%3A%27run%3A2%27%20OR%20metadata%5B%27action_key%27%5D%3A%27run%3A3%27", listed, read}},

		"paid": {sending("payment_intent.create", pay), []exchange{makes(create, 200, intent)}, "done id pi_1",
			[]string{create + " amount=1990&currency=EUR&customer=cus_1&metadata%5Baction_key%5D=run%3A1"}},
		"charged at once": {sending("payment.charge", `{"amount":1990,"currency":"eur","confirm":true,"payment_method":"pm_1","metadata":{"action_key":"<1>"}}`), []exchange{makes(create, 200, intent)}, "done id pi_1",
			[]string{create + " amount=1990&currency=eur&confirm=true&payment_method=pm_1&metadata%5Baction_key%5D=run%3A1"}},
		"charged, and the money under way": {sending("payment.charge", pay), []exchange{makes(create, 200, strings.Replace(intent, "succeeded", "processing", 1))}, "unknown id pi_1", nil},
		"charged, and refused":             {sending("payment.charge", pay), []exchange{makes(create, 200, strings.Replace(intent, "succeeded", "requires_payment_method", 1))}, "unknown unknown id pi_1", nil},
		"another amount is on it":          {sending("payment_intent.create", pay), []exchange{makes(create, 200, strings.Replace(intent, "1990", "19", 1))}, "unknown unknown id pi_1", nil},
		"an invoice":                       {sending("invoice.create", `{"customer":"cus_1","auto_advance":false,"metadata":{"action_key":"<1>"}}`), []exchange{makes("POST /v1/invoices", 200, `{"id":"in_1","status":"draft"}`)}, "done id in_1", nil},
		"the stored success again":         {sending("payment_intent.create", pay), []exchange{makes(create, 200, intent, "Idempotent-Replayed", "true")}, "done id pi_1 replayed", nil},
		"the stored error again":           {sending("payment_intent.create", pay), []exchange{says(create, 500, `{"error":{"type":"api_error"}}`, "Idempotent-Replayed", "true")}, "unknown server_error spent replayed", nil},
		"the same key with other content":  {sending("payment_intent.create", pay), []exchange{says(create, 400, `{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters"}}`)}, "unknown duplicate_request", nil},
		"the first request still runs":     {sending("payment_intent.create", pay), []exchange{makes(create, 409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`)}, "unknown lock_conflict wait 30s", nil},
		"a card that is declined":          {sending("payment.charge", pay), []exchange{says(create, 402, `{"error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}}`)}, "not_done validation spent", nil},
		"a parameter that is wrong":        {sending("payment_intent.create", pay), []exchange{says(create, 400, `{"error":{"type":"invalid_request_error","param":"amount"}}`)}, "not_done validation", nil},
		"a limit ahead of the key":         {sending("payment_intent.create", pay), []exchange{says(create, 429, `{"error":{"type":"invalid_request_error"}}`)}, "not_done rate_limit", nil},
		"paid, and an error":               {sending("payment_intent.create", pay), []exchange{makes(create, 500, `{"error":{"type":"api_error"}}`)}, "unknown server_error", nil},
		"paid, and the answer lost":        {sending("payment_intent.create", pay), []exchange{loses(create, true)}, "unknown network", nil},
		"a customer that was deleted":      {checking("payment_intent.create", wants(lifecycle), withPayload(`{"customer":"cus_1"}`)), []exchange{says("GET /v1/customers/cus_1", 200, `{"id":"cus_1","deleted":true}`)}, "lifecycle refuse gone", nil},
		"a customer that is there":         {checking("payment_intent.create", wants(lifecycle), withPayload(`{"customer":"cus_1"}`)), []exchange{says("GET /v1/customers/cus_1", 200, `{"id":"cus_1"}`)}, "lifecycle pass", nil},
		"a customer that never was":        {checking("payment_intent.create", wants(lifecycle), withPayload(`{"customer":"cus_1"}`)), []exchange{says("GET /v1/customers/cus_1", 404, `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`)}, "lifecycle refuse", nil},
		"live or test":                     {newDeed("probe", "", nil, nil), []exchange{says("GET /v1/balance", 200, `{"object":"balance","livemode":false}`)}, "false", nil},
	}
}()

var zendeskRows = func() map[string]row {
	const (
		list   = "GET /api/v2/tickets"
		read   = "GET /api/v2/tickets/35436"
		create = "POST /api/v2/tickets"
		update = "PUT /api/v2/tickets/35436"
		ticket = `{"id":35436,"external_id":"<1>","status":"open","assignee_id":235323}`
		none   = `{"tickets":[],"meta":{"has_more":false,"after_cursor":null},"links":{}}`
		gone   = `{"error":"RecordNotFound","description":"Not found"}`
		body   = `{"ticket":{"subject":"Printer","external_id":"<1>","comment":{"body":"It burns"}}}`
		asked  = list + "?external_id=run%3A1&page%5Bsize%5D=100"
	)
	hit := says(list, 200, `{"tickets":[`+ticket+`],"meta":{"has_more":false,"after_cursor":"x"}}`)
	one := says(read, 200, `{"ticket":`+ticket+`}`)
	return map[string]row{
		"found": {look("ticket.create"), []exchange{hit, one}, "applied 35436", []string{asked, read}},
		"none":  {look("ticket.create"), []exchange{says(list, 200, none)}, "none", []string{asked}},
		"two tickets of one id": {look("ticket.create"), []exchange{says(list, 200, `{"tickets":[`+ticket+`,{"id":35437,"external_id":"<1>","status":"new"}],"meta":{"has_more":false}}`), one,
			says("GET /api/v2/tickets/35437", 200, `{"ticket":{"id":35437,"external_id":"<1>","status":"new"}}`)}, "applied 35436, applied 35437", nil},
		"deleted since":                                           {look("ticket.create"), []exchange{hit, says(read, 404, gone)}, "reversed 35436", nil},
		"on the next page":                                        {look("ticket.create"), []exchange{says(list, 200, `{"tickets":[],"meta":{"has_more":true,"after_cursor":"abc=="}}`), hit, one}, "applied 35436", []string{asked, list + "?external_id=run%3A1&page%5Bafter%5D=abc%3D%3D&page%5Bsize%5D=100", read}},
		"the next page is not read":                               {look("ticket.create"), []exchange{says(list, 200, `{"tickets":[],"meta":{"has_more":true,"after_cursor":"abc=="}}`), says(list, 503, ``)}, "could not ask: unavailable", nil},
		"more is promised without a cursor":                       {look("ticket.create"), []exchange{says(list, 200, `{"tickets":[],"meta":{"has_more":true,"after_cursor":null}}`)}, "nothing, and not all was read", nil},
		"a filter that is ignored":                                {look("ticket.create"), []exchange{says(list, 200, `{"tickets":[{"id":1,"external_id":null,"status":"open"},{"id":2,"external_id":"x","status":"open"}],"meta":{"has_more":false}}`)}, "2 strangers", nil},
		"the search is behind, the read shows the present status": {look("ticket.create"), []exchange{hit, says(read, 200, `{"ticket":{"id":35436,"external_id":"<1>","status":"closed"}}`)}, "applied 35436", nil},
		"the minute is used up, in seconds":                       {look("ticket.create"), []exchange{says(list, 429, ``, "Retry-After", "47", "X-Rate-Limit", "700", "X-Rate-Limit-Remaining", "0", "ratelimit-reset", "41")}, "could not ask: rate_limit wait 47s", nil},
		"the minute is used up, no Retry-After":                   {look("ticket.create"), []exchange{says(list, 429, ``, "X-Rate-Limit-Remaining", "0", "ratelimit-reset", "41")}, "could not ask: rate_limit wait 41s", nil},
		"a limit of one endpoint":                                 {look("ticket.create"), []exchange{says(list, 429, ``, "zendesk-ratelimit-tickets-index", "total=100; remaining=0; resets=49")}, "could not ask: rate_limit wait 49s", nil},
		"a batch: what is not mentioned is asked alone": {batch2("ticket.create"), []exchange{hit, one}, "1: applied 35436; 2: could not ask: not_mentioned",
			[]string{list + "?external_id=run%3A1%2Crun%3A2&page%5Bsize%5D=100", read}},
		"a batch with two hits reads both at once": {batch2("ticket.create"), []exchange{
			says(list, 200, `{"tickets":[`+ticket+`,{"id":35437,"external_id":"<2>","status":"new"}],"meta":{"has_more":false}}`),
			says("GET /api/v2/tickets/show_many", 200, `{"tickets":[{"id":35437,"external_id":"<2>","status":"closed"},`+ticket+`]}`)},
			"1: applied 35436; 2: applied 35437", []string{list + "?external_id=run%3A1%2Crun%3A2&page%5Bsize%5D=100", "GET /api/v2/tickets/show_many?ids=35436%2C35437"}},

		"made":                            {sending("ticket.create", body), []exchange{makes(create, 201, `{"ticket":`+ticket+`}`, "x-idempotency-lookup", "miss")}, "done id 35436", []string{create + " " + body}},
		"made before, the answer again":   {sending("ticket.create", body), []exchange{makes(create, 201, `{"ticket":`+ticket+`}`, "x-idempotency-lookup", "hit")}, "done id 35436 replayed", nil},
		"a stored error again":            {sending("ticket.create", body), []exchange{says(create, 422, `{"error":"RecordInvalid","details":{"base":[{"description":"x"}]}}`, "x-idempotency-lookup", "hit")}, "not_done validation spent replayed", nil},
		"the same key with other content": {sending("ticket.create", body), []exchange{says(create, 400, `{"error":"IdempotentRequestError","description":"..."}`)}, "unknown duplicate_request", nil},
		"a field that is wrong":           {sending("ticket.create", body), []exchange{says(create, 422, `{"error":"RecordInvalid","description":"Record validation errors","details":{"requester":[{"description":"Requester is suspended."}]}}`)}, "not_done validation", nil},
		"another is at it":                {sending("ticket.create", body), []exchange{makes(create, 409, `{"error":"Conflict"}`)}, "unknown conflict wait 5s", nil},
		"made, and the answer lost":       {sending("ticket.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"made, and an error":              {sending("ticket.create", body), []exchange{makes(create, 500, ``)}, "unknown server_error", nil},
		"changed":                         {sending("ticket.update", `{"ticket":{"status":"solved"}}`, ofRecord("35436")), []exchange{makes(update, 200, `{"ticket":{"id":35436,"status":"solved"}}`)}, "done id 35436", nil},
		"closed, so not changed": {sending("ticket.update", `{"ticket":{"status":"open"}}`, ofRecord("35436")), []exchange{says(update, 422,
			`{"error":"RecordInvalid","details":{"status":[{"description":"Status: closed prevents ticket update"}]}}`)}, "not_done conflict refuses lifecycle", nil},
		"changed as wanted":  {look("ticket.update", ofRecord("35436"), withPayload(`{"ticket":{"status":"open","assignee_id":235323}}`)), []exchange{one}, "applied 35436", nil},
		"not changed":        {look("ticket.update", ofRecord("35436"), withPayload(`{"ticket":{"status":"solved"}}`)), []exchange{one}, "applied 35436 unproven", nil},
		"closed meanwhile":   {checking("ticket.update", wants(owner, lifecycle), ofRecord("35436")), []exchange{says(read, 200, `{"ticket":{"id":35436,"status":"closed","assignee_id":null}}`)}, "owner pass, lifecycle refuse closed", nil},
		"a stranger's token": {newDeed("probe", "", nil, nil), []exchange{says("GET /api/v2/users/me", 200, `{"user":{"id":null,"role":"end-user"}}`)}, "could not ask: auth", nil},
	}
}()

var xeroRows = func() map[string]row {
	const (
		list   = "GET /api.xro/2.0/Invoices"
		read   = "GET /api.xro/2.0/Invoices/inv-1"
		create = "PUT /api.xro/2.0/Invoices"
		inv    = `{"InvoiceID":"inv-1","InvoiceNumber":"<1>","Status":"AUTHORISED","Total":19.90,"Contact":{"ContactID":"c-1"}}`
		body   = `{"Invoices":[{"Type":"ACCREC","InvoiceNumber":"<1>","Contact":{"ContactID":"00000000-0000-0000-0000-000000000000"},"LineItems":[{"Description":"Work"}]}]}`
		asked  = list + "?InvoiceNumbers=run%3A1&page=1&pageSize=100"
	)
	hit := says(list, 200, `{"Id":"x","Status":"OK","Invoices":[`+inv+`]}`)
	return map[string]row{
		"found":         {look("invoice.create", withPayload(`{"Invoices":[{"Total":19.9,"Contact":{"ContactID":"c-1"}}]}`)), []exchange{hit, says(read, 200, `{"Invoices":[`+inv+`]}`)}, "applied inv-1", []string{asked, read}},
		"another total": {look("invoice.create", withPayload(`{"Invoices":[{"Total":20}]}`)), []exchange{hit, says(read, 200, `{"Invoices":[`+inv+`]}`)}, "applied inv-1 differs", nil},
		"none":          {look("invoice.create"), []exchange{says(list, 200, `{"Invoices":[]}`)}, "none", []string{asked}},
		"two of them": {look("invoice.create"), []exchange{says(list, 200, `{"Invoices":[`+inv+`,{"InvoiceID":"inv-2","InvoiceNumber":"<1>","Status":"DRAFT"}]}`), says(read, 200, `{"Invoices":[`+inv+`]}`),
			says("GET /api.xro/2.0/Invoices/inv-2", 200, `{"Invoices":[{"InvoiceID":"inv-2","InvoiceNumber":"<1>","Status":"DRAFT"}]}`)}, "applied inv-1, applied inv-2", nil},
		"on the second page of a hundred":   {look("invoice.create"), []exchange{says(list, 200, `{"Invoices":[`+strings.TrimSuffix(strings.Repeat(`{"InvoiceID":"x","InvoiceNumber":"other"},`, 100), ",")+`]}`), hit, says(read, 200, `{"Invoices":[`+inv+`]}`)}, "applied inv-1, 100 strangers", nil},
		"voided since":                      {look("invoice.create"), []exchange{hit, says(read, 200, `{"Invoices":[{"InvoiceID":"inv-1","InvoiceNumber":"<1>","Status":"VOIDED"}]}`)}, "reversed inv-1", nil},
		"no list at all":                    {look("invoice.create"), []exchange{says(list, 200, `{"Status":"OK"}`)}, "could not ask: malformed", nil},
		"the minute":                        {look("invoice.create"), []exchange{says(list, 429, ``, "X-Rate-Limit-Problem", "minute", "Retry-After", "22", "X-MinLimit-Remaining", "0")}, "could not ask: rate_limit wait 22s", nil},
		"the minute, without a Retry-After": {look("invoice.create"), []exchange{says(list, 429, ``, "X-Rate-Limit-Problem", "minute", "X-MinLimit-Remaining", "0")}, "could not ask: rate_limit wait 1m0s", nil},
		"the day":                           {look("invoice.create"), []exchange{says(list, 429, ``, "X-Rate-Limit-Problem", "day", "Retry-After", "7200", "X-DayLimit-Remaining", "0")}, "could not ask: quota wait 2h0m0s", nil},
		"a wrong tenant":                    {look("invoice.create"), []exchange{says(list, 403, `{"Type":null,"Title":"Forbidden","Status":403,"Detail":"AuthenticationUnsuccessful"}`)}, "could not ask: permission", nil},
		"a batch with a gap":                {batch2("invoice.create"), []exchange{hit, says(read, 200, `{"Invoices":[`+inv+`]}`)}, "1: applied inv-1; 2: could not ask: not_mentioned", []string{list + "?InvoiceNumbers=run%3A1%2Crun%3A2&page=1&pageSize=100", read}},

		"made for another customer": {sending("invoice.create", body), []exchange{makes(create, 200, `{"Invoices":[`+inv+`]}`)}, "unknown unknown id inv-1", nil},
		"made":                      {sending("invoice.create", body), []exchange{makes(create, 200, `{"Invoices":[`+strings.Replace(inv, "c-1", "00000000-0000-0000-0000-000000000000", 1)+`]}`)}, "done id inv-1", []string{create + "?summarizeErrors=true " + body}},
		"refused":                   {sending("invoice.create", body), []exchange{says(create, 400, `{"ErrorNumber":10,"Type":"ValidationException","Message":"A validation exception occurred","Elements":[{"ValidationErrors":[{"Message":"Email address must be valid."}]}]}`)}, "not_done validation", nil},
		"the number is taken":       {sending("invoice.create", body), []exchange{says(create, 400, `{"ErrorNumber":10,"Type":"ValidationException","Elements":[{"ValidationErrors":[{"Message":"Invoice # must be unique."}]}]}`)}, "not_done already_exists", nil},
		"refused within a 200":      {sending("invoice.create", body), []exchange{says(create, 200, `{"Invoices":[{"InvoiceID":"00000000-0000-0000-0000-000000000000","HasErrors":true,"ValidationErrors":[{"Message":"The Contact is archived"}]}]}`)}, "not_done validation", nil},
		"a limit, as an HTTP date":  {sending("invoice.create", body), []exchange{says(create, 429, ``, "Retry-After", "Thu, 01 Oct 2026 23:00:20 GMT")}, "not_done rate_limit wait 20s", nil},
		"made, and the answer lost": {sending("invoice.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"made, and an error":        {sending("invoice.create", body), []exchange{makes(create, 503, ``)}, "unknown unavailable", nil},
		"an archived contact": {checking("invoice.create", wants(lifecycle), withPayload(`{"Invoices":[{"Contact":{"ContactID":"c-1"}}]}`)),
			[]exchange{says("GET /api.xro/2.0/Contacts/c-1", 200, `{"Contacts":[{"ContactID":"c-1","ContactStatus":"GDPRREQUEST"}]}`)}, "lifecycle refuse GDPRREQUEST", nil},
		"whose books": {newDeed("probe", "", nil, nil), []exchange{says("GET /api.xro/2.0/Organisation", 200, `{"Organisations":[{"OrganisationID":"org-1"}]}`)}, "org-1", nil},
	}
}()

var quickbooksRows = func() map[string]row {
	const (
		base   = "/v3/company/4620816365"
		query  = "GET " + base + "/query"
		read   = "GET " + base + "/invoice/129"
		batch  = "POST " + base + "/batch"
		create = "POST " + base + "/invoice"
		inv    = `{"Id":"129","DocNumber":"<1>","TotalAmt":100.00,"CustomerRef":{"value":"20"}}`
		body   = `{"DocNumber":"<1>","CustomerRef":{"value":"20"},"TotalAmt":100}`
		asked  = query + "?minorversion=75&query=select%20%2A%20from%20Invoice%20where%20DocNumber%20%3D%20%27<1>%27"
	)
	fault := func(kind, code string) string {
		return `{"Fault":{"Error":[{"Message":"m","Detail":"d","code":"` + code + `"}],"type":"` + kind + `"},"time":"2026-10-01"}`
	}
	hit := says(query, 200, `{"QueryResponse":{"Invoice":[`+inv+`],"startPosition":1,"maxResults":1},"time":"x"}`)
	return map[string]row{
		"found":                  {look("invoice.create", withPayload(body)), []exchange{hit, says(read, 200, `{"Invoice":`+inv+`}`)}, "applied 129", []string{asked, read + "?minorversion=75"}},
		"none has no member":     {look("invoice.create"), []exchange{says(query, 200, `{"QueryResponse":{},"time":"x"}`)}, "none", []string{asked}},
		"no answer to the query": {look("invoice.create"), []exchange{says(query, 200, `{"time":"x"}`)}, "could not ask: malformed", nil},
		"two of them": {look("invoice.create"), []exchange{says(query, 200, `{"QueryResponse":{"Invoice":[`+inv+`,{"Id":"130","DocNumber":"<1>"}]}}`), says(read, 200, `{"Invoice":`+inv+`}`),
			says("GET "+base+"/invoice/130", 200, `{"Invoice":{"Id":"130","DocNumber":"<1>"}}`)}, "applied 129, applied 130", nil},
		"deleted since, told in a 400": {look("invoice.create"), []exchange{hit, says(read, 400, fault("ValidationFault", "610"))}, "reversed 129", nil},
		"deleted since, told in a 200": {look("invoice.create"), []exchange{hit, says(read, 200, fault("ValidationFault", "610"))}, "reversed 129", nil},
		"a fault in a 200":             {look("invoice.create"), []exchange{says(query, 200, fault("SystemFault", "10000"))}, "could not ask: server_error", nil},
		"too fast":                     {look("invoice.create"), []exchange{says(query, 429, `{"Fault":{"Error":[{"code":"003001","Message":"message=ThrottleExceeded"}],"type":"THROTTLED"}}`)}, "could not ask: rate_limit wait 1m0s", nil},
		"a token that is over, twice":  {look("invoice.create"), []exchange{says(query, 401, fault("AUTHENTICATION", "3200"))}, "could not ask: auth", nil},
		"a batch by tags": {batch2("invoice.create"), []exchange{says(batch, 200, `{"BatchItemResponse":[{"bId":"k2","QueryResponse":{}},{"bId":"k1","QueryResponse":{"Invoice":[`+inv+`]}}]}`), says(read, 200, `{"Invoice":`+inv+`}`)},
			"1: applied 129; 2: none",
			[]string{batch + `?minorversion=75 {"BatchItemRequest":[{"Query":"select * from Invoice where DocNumber = '<1>'","bId":"k1"},{"Query":"select * from Invoice where DocNumber = '<2>'","bId":"k2"}]}`, read + "?minorversion=75"}},
		"a batch with a fault of one": {batch2("invoice.create"), []exchange{says(batch, 200, `{"BatchItemResponse":[{"bId":"k1","Fault":{"Error":[{"code":"4000"}],"type":"ValidationFault"}},{"bId":"k2","QueryResponse":{}}]}`)}, "1: could not ask: validation; 2: none", nil},
		"a batch that forgets one":    {batch2("invoice.create"), []exchange{says(batch, 200, `{"BatchItemResponse":[{"bId":"k2","QueryResponse":{}}]}`)}, "1: could not ask: not_mentioned; 2: none", nil},

		"made":                          {sending("invoice.create", body), []exchange{makes(create, 200, `{"Invoice":`+inv+`}`)}, "done id 129", []string{create + "?minorversion=75&requestid=<1> " + body}},
		"the number is taken, in a 400": {sending("invoice.create", body), []exchange{says(create, 400, fault("ValidationFault", "6140"))}, "not_done already_exists", nil},
		"the number is taken, in a 200": {sending("invoice.create", body), []exchange{says(create, 200, fault("ValidationFault", "6140"))}, "not_done already_exists", nil},
		"a request id that was used":    {sending("invoice.create", body), []exchange{makes(create, 400, fault("ValidationFault", "600"))}, "unknown duplicate_request", nil},
		"a field that is wrong":         {sending("invoice.create", body), []exchange{says(create, 400, fault("ValidationFault", "2020"))}, "not_done validation", nil},
		"a fault of theirs in a 200":    {sending("invoice.create", body), []exchange{makes(create, 200, fault("SystemFault", "10000"))}, "unknown server_error", nil},
		"too fast to be made":           {sending("invoice.create", body), []exchange{says(create, 429, ``)}, "not_done rate_limit wait 1m0s", nil},
		"made, and the answer lost":     {sending("invoice.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"made, and a timeout of theirs": {sending("invoice.create", body), []exchange{makes(create, 504, ``)}, "unknown timeout", nil},
		"a customer that is not active": {checking("invoice.create", wants(lifecycle), withPayload(body)), []exchange{says("GET "+base+"/customer/20", 200, `{"Customer":{"Id":"20","Active":false}}`)}, "lifecycle refuse false", nil},
	}
}()

var shopifyRows = func() map[string]row {
	const (
		at      = "POST /admin/api/2026-07/graphql.json"
		cost    = `"extensions":{"cost":{"requestedQueryCost":12,"throttleStatus":{"maximumAvailable":2000.0,"currentlyAvailable":%s,"restoreRate":100.0}}}`
		limited = `"extensions":{"cost":{"requestedQueryCost":112,"throttleStatus":{"maximumAvailable":2000.0,"currentlyAvailable":12,"restoreRate":10.0}}}`
		person  = `{"id":"gid://shopify/Customer/1","mark":{"value":"<1>"}}`
		body    = `{"email":"ada@example.org"}`
		order   = `{"lineItems":[],"metafields":[{"namespace":"recovery","key":"action_key","value":"<1>"}]}`
	)
	return map[string]row{
		"found":                               {look("customer.set"), []exchange{says(at, 200, `{"data":{"customerByIdentifier":`+person+`}}`)}, "applied gid://shopify/Customer/1", nil},
		"null is an explicit none":            {look("customer.set"), []exchange{says(at, 200, `{"data":{"customerByIdentifier":null}}`)}, "none", nil},
		"null beside an error proves nothing": {look("customer.set"), []exchange{says(at, 200, `{"data":{"customerByIdentifier":null},"errors":[{"message":"Internal error"}]}`)}, "could not ask: server_error", nil},
		"data is null":                        {look("customer.set"), []exchange{says(at, 200, `{"data":null,"errors":[{"message":"x","extensions":{"code":"ACCESS_DENIED"}}]}`)}, "could not ask: permission", nil},
		"the answer has no data":              {look("customer.set"), []exchange{says(at, 200, `{}`)}, "could not ask: malformed", nil},
		"throttled in a 200":                  {look("customer.set"), []exchange{says(at, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],`+limited+`}`)}, "could not ask: rate_limit wait 10s", nil},
		"throttled in a 429":                  {look("customer.set"), []exchange{says(at, 429, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}`, "Retry-After", "2.0")}, "could not ask: rate_limit wait 2s", nil},
		"an order that was canceled":          {look("order.create"), []exchange{says(at, 200, `{"data":{"orderByIdentifier":{"id":"gid://shopify/Order/1","cancelledAt":"2026-10-01T00:00:00Z","mark":{"value":"<1>"}}}}`)}, "reversed gid://shopify/Order/1", nil},
		"a batch by aliases": {batch2("customer.set"), []exchange{says(at, 200, `{"data":{"k1":`+person+`,"k2":null}}`)}, "1: applied gid://shopify/Customer/1; 2: none",
			[]string{at + ` {"query":"query ($ns: String, $key: String!) { k1: customerByIdentifier(identifier: {customId: {namespace: $ns, key: $key, value: \"<1>\"}}) { id mark: metafield(namespace: $ns, key: $key) { value } } k2: customerByIdentifier(identifier: {customId: {namespace: $ns, key: $key, value: \"<2>\"}}) { id mark: metafield(namespace: $ns, key: $key) { value } } }","variables":{"key":"action_key","ns":"recovery"}}`}},
		"a batch in which one alias fails": {batch2("customer.set"), []exchange{says(at, 200, `{"data":{"k1":`+person+`,"k2":null},"errors":[{"message":"Internal error","path":["k2"]}]}`)}, "1: could not ask: server_error; 2: could not ask: server_error", nil},

		"set":                       {sending("customer.set", body), []exchange{makes(at, 200, `{"data":{"customerSet":{"customer":{"id":"gid://shopify/Customer/1"},"userErrors":[]}}}`)}, "done id gid://shopify/Customer/1", nil},
		"refused in a 200":          {sending("customer.set", body), []exchange{says(at, 200, `{"data":{"customerSet":{"customer":null,"userErrors":[{"field":["email"],"message":"Email is invalid","code":"INVALID"}]}}}`)}, "not_done validation", nil},
		"taken":                     {sending("order.create", order), []exchange{says(at, 200, `{"data":{"orderCreate":{"order":null,"userErrors":[{"message":"Value is taken","code":"TAKEN"}]}}}`)}, "not_done already_exists", nil},
		"throttled at a send":       {sending("customer.set", body), []exchange{says(at, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],`+limited+`}`)}, "not_done rate_limit wait 10s", nil},
		"an error of theirs":        {sending("customer.set", body), []exchange{makes(at, 200, `{"data":{"customerSet":null},"errors":[{"message":"Internal error"}]}`)}, "unknown server_error", nil},
		"set, and the answer lost":  {sending("customer.set", body), []exchange{loses(at, true)}, "unknown network", nil},
		"set, and an error of 502":  {sending("customer.set", body), []exchange{makes(at, 502, ``)}, "unknown unavailable", nil},
		"not subscribed":            {checking("customer.set", wants(consent), toSubject("ada@example.org")), []exchange{says(at, 200, `{"data":{"customerByIdentifier":{"defaultEmailAddress":{"marketingState":"UNSUBSCRIBED"}}}}`)}, "consent refuse UNSUBSCRIBED", nil},
		"nobody there to subscribe": {checking("customer.set", wants(consent), toSubject("ada@example.org")), []exchange{says(at, 200, `{"data":{"customerByIdentifier":null}}`)}, "consent pass", nil},
	}
}()

var jiraRows = func() map[string]row {
	const (
		search = "POST /rest/api/3/search/jql"
		read   = "GET /rest/api/3/issue/10001"
		create = "POST /rest/api/3/issue"
		issue  = `{"id":"10001","key":"OPS-1","fields":{"labels":["other","<1>"],"summary":"Printer","status":{"statusCategory":{"key":"new"}}}}`
		body   = `{"fields":{"summary":"Printer","labels":["<1>"]}}`
		asked  = search + ` {"fields":["labels","status","summary"],"jql":"project = OPS AND labels = \"<1>\"","maxResults":100}`
	)
	hit := says(search, 200, `{"issues":[`+issue+`],"isLast":true}`)
	one := says(read, 200, issue)
	return map[string]row{
		"found": {look("issue.create", withPayload(body)), []exchange{hit, one}, "applied 10001", []string{asked, read + "?fields=labels%2Cstatus%2Csummary"}},
		"none":  {look("issue.create"), []exchange{says(search, 200, `{"issues":[],"isLast":true}`)}, "none", []string{asked}},
		"on the next page": {look("issue.create"), []exchange{says(search, 200, `{"issues":[],"nextPageToken":"t2"}`), hit, one}, "applied 10001",
			[]string{asked, search + ` {"fields":["labels","status","summary"],"jql":"project = OPS AND labels = \"<1>\"","maxResults":100,"nextPageToken":"t2"}`, read + "?fields=labels%2Cstatus%2Csummary"}},
		"deleted since": {look("issue.create"), []exchange{hit, says(read, 404, `{"errorMessages":["Issue does not exist or you do not have permission to see it."],"errors":{}}`)}, "reversed 10001", nil},
		"two of them": {look("issue.create"), []exchange{says(search, 200, `{"issues":[`+issue+`,{"id":"10002","fields":{"labels":["<1>"]}}],"isLast":true}`), one,
			says("GET /rest/api/3/issue/10002", 200, `{"id":"10002","fields":{"labels":["<1>"],"status":{"statusCategory":{"key":"done"}}}}`)}, "applied 10001, applied 10002", nil},
		"a label in other case":      {look("issue.create"), []exchange{says(search, 200, `{"issues":[{"id":"10002","fields":{"labels":["RUN:1"]}}],"isLast":true}`)}, "1 strangers", nil},
		"a wrong query":              {look("issue.create"), []exchange{says(search, 400, `{"errorMessages":["Error in the JQL Query"],"errors":{}}`)}, "could not ask: validation", nil},
		"a burst":                    {look("issue.create"), []exchange{says(search, 429, ``, "RateLimit-Reason", "jira-burst-based", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-10-01T23:00:12Z")}, "could not ask: rate_limit wait 12s", nil},
		"a burst without any header": {look("issue.create"), []exchange{says(search, 429, ``)}, "could not ask: rate_limit wait 5s", nil},
		"the quota of the hour":      {look("issue.create"), []exchange{says(search, 429, ``, "RateLimit-Reason", "jira-quota-global-based", "Retry-After", "1847")}, "could not ask: quota wait 30m47s", nil},
		"a batch is declared complete": {batch3("issue.create"), []exchange{hit, one}, "1: applied 10001; 2: none; 3: none",
			[]string{search + ` {"fields":["labels","status","summary"],"jql":"project = OPS AND labels in (\"<1>\",\"<2>\",\"<3>\")","maxResults":100}`, read + "?fields=labels%2Cstatus%2Csummary"}},
		"a batch with two hits reads both at once": {batch2("issue.create"), []exchange{
			says(search, 200, `{"issues":[`+issue+`,{"id":"10002","fields":{"labels":["<2>"],"status":{"statusCategory":{"key":"done"}}}}],"isLast":true}`),
			says("POST /rest/api/3/issue/bulkfetch", 200, `{"issues":[`+issue+`],"issueErrors":[]}`),
			says("GET /rest/api/3/issue/10002", 404, `{}`)}, "1: applied 10001; 2: reversed 10002", nil},

		"made":                          {sending("issue.create", body), []exchange{makes(create, 201, `{"id":"10001","key":"OPS-1"}`)}, "done id 10001", []string{create + " " + body}},
		"a field that is wrong":         {sending("issue.create", body), []exchange{says(create, 400, `{"errorMessages":[],"errors":{"summary":"You must specify a summary of the issue."}}`)}, "not_done validation", nil},
		"a burst at a send":             {sending("issue.create", body), []exchange{says(create, 429, ``, "Retry-After", "3")}, "not_done rate_limit wait 5s", nil},
		"made, and the answer lost":     {sending("issue.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"made, and a timeout":           {sending("issue.create", body), []exchange{makes(create, 504, ``)}, "unknown timeout", nil},
		"done meanwhile, nobody has it": {checking("issue.create", wants(owner, lifecycle), ofRecord("10001")), []exchange{says(read, 200, `{"id":"10001","fields":{"assignee":null,"status":{"statusCategory":{"key":"done"}}}}`)}, "owner pass, lifecycle refuse done", nil},
		"who asks":                      {newDeed("probe", "", nil, nil), []exchange{says("GET /rest/api/3/myself", 200, `{"accountId":"5b10"}`)}, "5b10", nil},
	}
}()

var googleRows = func() map[string]row {
	const (
		events = "/calendar/v3/calendars/primary/events"
		get    = "GET " + events + "/<1%>"
		list   = "GET " + events
		create = "POST " + events
		event  = `{"kind":"calendar#event","id":"<1>","status":"confirmed","summary":"Call","start":{"dateTime":"2026-10-02T09:00:00+02:00"}}`
		body   = `{"id":"<1>","summary":"Call","start":{"dateTime":"2026-10-02T07:00:00Z"},"end":{"dateTime":"2026-10-02T08:00:00Z"}}`
	)
	failure := func(code, reason string) string {
		return `{"error":{"code":` + code + `,"message":"m","errors":[{"domain":"usageLimits","reason":"` + reason + `","message":"m"}]}}`
	}
	return map[string]row{
		"found, in another zone": {look("event.create", withPayload(body)), []exchange{says(get, 200, event)}, "applied <1>", []string{get}},
		"none":                   {look("event.create"), []exchange{says(get, 404, failure("404", "notFound"))}, "none", nil},
		"canceled since":         {look("event.create"), []exchange{says(get, 200, `{"id":"<1>","status":"cancelled"}`)}, "reversed <1>", nil},
		"removed since":          {look("event.create"), []exchange{says(get, 410, failure("410", "deleted"))}, "reversed ", nil},
		"a limit as a 403":       {look("event.create"), []exchange{says(get, 403, failure("403", "rateLimitExceeded"), "Retry-After", "3")}, "could not ask: rate_limit wait 3s", nil},
		"a limit of one user":    {look("event.create"), []exchange{says(get, 429, failure("429", "userRateLimitExceeded"))}, "could not ask: rate_limit", nil},
		"a quota":                {look("event.create"), []exchange{says(get, 403, failure("403", "quotaExceeded"))}, "could not ask: quota", nil},
		"a missing right":        {look("event.create"), []exchange{says(get, 403, failure("403", "forbidden"))}, "could not ask: permission", nil},
		"a batch is one scan, the rest is asked alone": {batch2("event.create"), []exchange{says(list, 200, `{"items":[{"id":"stranger","status":"confirmed"}],"nextPageToken":"p2"}`), says(list, 200, `{"items":[`+event+`]}`)},
			"1: applied <1>; 2: could not ask: not_mentioned",
			[]string{list + "?maxResults=2500&showDeleted=true&updatedMin=2026-10-01T09%3A55%3A00Z", list + "?maxResults=2500&pageToken=p2&showDeleted=true&updatedMin=2026-10-01T09%3A55%3A00Z"}},

		"made":                      {sending("event.create", body), []exchange{makes(create, 200, event)}, "done id <1>", []string{create + "?sendUpdates=none " + body}},
		"made before":               {sending("event.create", body), []exchange{says(create, 409, failure("409", "duplicate"))}, "not_done already_exists", nil},
		"a field that is wrong":     {sending("event.create", body), []exchange{says(create, 400, failure("400", "invalid"))}, "not_done validation", nil},
		"a limit at a send":         {sending("event.create", body), []exchange{says(create, 403, failure("403", "userRateLimitExceeded"))}, "not_done rate_limit", nil},
		"made, and the answer lost": {sending("event.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"made, and an error":        {sending("event.create", body), []exchange{makes(create, 500, failure("500", "backendError"))}, "unknown server_error", nil},
		"may write":                 {newDeed("probe", "", nil, nil), []exchange{says(list, 200, `{"accessRole":"writer","items":[]}`)}, "", nil},
		"may only read":             {newDeed("probe", "", nil, nil), []exchange{says(list, 200, `{"accessRole":"reader","items":[]}`)}, "could not ask: auth", nil},
	}
}()

var paypalRows = func() map[string]row {
	const (
		order    = "GET /v2/checkout/orders/5O190127TN364715T"
		orders   = "POST /v2/checkout/orders"
		capture  = "POST /v2/checkout/orders/5O190127TN364715T/capture"
		report   = "GET /v1/reporting/transactions"
		search   = "POST /v2/invoicing/search-invoices"
		invoice  = "GET /v2/invoicing/invoices/INV2-1"
		invoices = "POST /v2/invoicing/invoices"
		payouts  = "POST /v1/payments/payouts"
		made     = `{"id":"5O190127TN364715T","status":"CREATED","purchase_units":[{"custom_id":"<1>","amount":{"currency_code":"EUR","value":"19.90"}}]}`
		body     = `{"intent":"CAPTURE","purchase_units":[{"custom_id":"<1>","amount":{"currency_code":"EUR","value":"19.90"}}]}`
		gone     = `{"name":"RESOURCE_NOT_FOUND","message":"The specified resource does not exist.","debug_id":"x"}`
		bill     = `{"detail":{"currency_code":"EUR","reference":"<1>"}}`
		batch    = `{"sender_batch_header":{"sender_batch_id":"<1>"},"items":[{"recipient_type":"EMAIL","receiver":"ada@example.org","amount":{"currency":"EUR","value":"1.00"}}]}`
		asked    = report + "?end_date=2026-10-01T10%3A25%3A00Z&fields=transaction_info&page=1&page_size=500&start_date=2026-10-01T09%3A55%3A00Z"
	)
	issue := func(name, issue string) string {
		return `{"name":"` + name + `","details":[{"issue":"` + issue + `","description":"d"}],"debug_id":"x"}`
	}
	money := func(key, status string) string {
		return `{"transaction_info":{"transaction_id":"T-1","transaction_status":"` + status + `","custom_field":"` + key + `"}}`
	}
	return map[string]row{
		"an order has no lookup by a key": {look("order.create"), nil, "could not ask: unsupported", nil},
		"an order whose id is known":      {look("order.create", byID("5O190127TN364715T"), withPayload(body)), []exchange{says(order, 200, made)}, "applied 5O190127TN364715T", []string{order}},
		"an order that is not there":      {look("order.create", byID("5O190127TN364715T")), []exchange{says(order, 404, gone)}, "nothing, and not all was read", nil},
		"money in the report":             {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("else", "S")+`,`+money("<1>", "S")+`],"total_items":2,"total_pages":1,"page":1}`)}, "applied T-1", []string{asked}},
		"money under way":                 {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("<1>", "P")+`],"total_items":1,"total_pages":1}`)}, "pending T-1", nil},
		"money refused":                   {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("<1>", "D")+`],"total_items":1,"total_pages":1}`)}, "rejected T-1", nil},
		"money taken twice":               {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("<1>", "S")+`,{"transaction_info":{"transaction_id":"T-2","transaction_status":"S","custom_field":"<1>"}}],"total_items":2,"total_pages":1}`)}, "applied T-1, applied T-2", nil},
		"no money on two pages":           {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("else", "S")+`],"total_items":2,"total_pages":2}`), says(report, 200, `{"transaction_details":[`+money("more", "S")+`],"total_items":2,"total_pages":2}`)}, "none", nil},
		"no money at all":                 {look("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[],"total_items":0,"total_pages":0}`)}, "none", nil},
		"an invoice":                      {look("invoice.create"), []exchange{says(search, 200, `{"items":[{"id":"INV2-1","status":"DRAFT","detail":{"reference":"<1>"}}],"total_items":1,"total_pages":1}`), says(invoice, 200, `{"id":"INV2-1","status":"SENT","detail":{"reference":"<1>","currency_code":"EUR"}}`)}, "applied INV2-1", []string{search + `?page=1&page_size=100&total_required=true {"reference":"<1>"}`, invoice}},
		"no invoice":                      {look("invoice.create"), []exchange{says(search, 200, `{"total_items":0,"total_pages":0}`)}, "none", nil},
		"an invoice whose reference only begins with our key": {look("invoice.create"), []exchange{says(search, 200, `{"items":[{"id":"INV2-9","status":"DRAFT","detail":{"reference":"<1>0"}}],"total_items":1,"total_pages":1}`)}, "1 strangers", nil},
		"a limit":                     {look("invoice.create"), []exchange{says(search, 429, `{"name":"RATE_LIMIT_REACHED"}`)}, "could not ask: rate_limit", nil},
		"several captures of a batch": {batch2("order.capture", ofRecord("5O190127TN364715T")), []exchange{says(report, 200, `{"transaction_details":[`+money("<1>", "S")+`],"total_items":1,"total_pages":1}`)}, "1: applied T-1; 2: none", []string{asked}},

		"an order made":                      {sending("order.create", body), []exchange{makes(orders, 201, made)}, "done id 5O190127TN364715T", []string{orders + " " + body}},
		"an order refused":                   {sending("order.create", body), []exchange{says(orders, 422, issue("UNPROCESSABLE_ENTITY", "CURRENCY_NOT_SUPPORTED"))}, "not_done validation", nil},
		"the first request still runs":       {sending("order.create", body), []exchange{makes(orders, 422, issue("UNPROCESSABLE_ENTITY", "PREVIOUS_REQUEST_IN_PROGRESS"))}, "unknown lock_conflict wait 30s", nil},
		"an order made, the answer lost":     {sending("order.create", body), []exchange{loses(orders, true)}, "unknown network", nil},
		"an order made, and an error":        {sending("order.create", body), []exchange{makes(orders, 500, `{"name":"INTERNAL_SERVER_ERROR"}`)}, "unknown server_error", nil},
		"captured":                           {sending("order.capture", `{"note_to_payer":"x"}`, ofRecord("5O190127TN364715T")), []exchange{makes(capture, 201, `{"id":"5O190127TN364715T","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{"id":"3C679366HH908993F","status":"COMPLETED"}]}}]}`)}, "done id 3C679366HH908993F", nil},
		"captured, and nothing shows it":     {sending("order.capture", `{}`, ofRecord("5O190127TN364715T")), []exchange{makes(capture, 200, `{"id":"5O190127TN364715T","status":"APPROVED"}`)}, "unknown silent_noop", nil},
		"captured under an invoice before":   {sending("order.capture", `{}`, ofRecord("5O190127TN364715T")), []exchange{says(capture, 422, issue("UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID"))}, "not_done already_exists", nil},
		"an invoice made":                    {sending("invoice.create", bill), []exchange{makes(invoices, 201, `{"id":"INV2-1","status":"DRAFT"}`)}, "done id INV2-1", nil},
		"paid out":                           {sending("payout.create", batch), []exchange{makes(payouts, 201, `{"batch_header":{"payout_batch_id":"5UXD2E8A7EBQJ","batch_status":"PENDING"}}`)}, "done id 5UXD2E8A7EBQJ", nil},
		"paid out before, with a link to it": {sending("payout.create", batch), []exchange{says(payouts, 400, `{"name":"USER_BUSINESS_ERROR","message":"Duplicate","links":[{"href":"https://api.paypal.com/v1/payments/payouts/5UXD2E8A7EBQJ","rel":"self"}]}`)}, "not_done already_exists id 5UXD2E8A7EBQJ", nil},
		"a payout whose id is known":         {look("payout.create", byID("5UXD2E8A7EBQJ")), []exchange{says("GET /v1/payments/payouts/5UXD2E8A7EBQJ", 200, `{"batch_header":{"payout_batch_id":"5UXD2E8A7EBQJ","batch_status":"PROCESSING","sender_batch_header":{"sender_batch_id":"<1>"}}}`)}, "pending 5UXD2E8A7EBQJ", nil},
	}
}()

var pocketbaseRows = func() map[string]row {
	const (
		list    = "GET /api/collections/things/records"
		read    = "GET /api/collections/things/records/abc123"
		create  = "POST /api/collections/things/records"
		thing   = `{"id":"abc123","collectionName":"things","action_key":"<1>"}`
		body    = `{"action_key":"<1>"}`
		none    = `{"page":1,"perPage":500,"totalItems":0,"totalPages":0,"items":[]}`
		missing = `{"data":{},"message":"The requested resource wasn't found.","status":404}`
		asked   = list + "?filter=action_key%3D%27run%3A1%27&page=1&perPage=500"
	)
	hit := says(list, 200, `{"page":1,"perPage":500,"totalItems":1,"totalPages":1,"items":[`+thing+`]}`)
	one := says(read, 200, thing)
	return map[string]row{
		"found":                              {look("record.create"), []exchange{hit, one}, "applied abc123", []string{asked, read}},
		"none":                               {look("record.create"), []exchange{says(list, 200, none)}, "none", []string{asked}},
		"deleted since":                      {look("record.create"), []exchange{hit, says(read, 404, missing)}, "reversed abc123", nil},
		"no collection":                      {look("record.create"), []exchange{says(list, 404, missing)}, "none", nil},
		"on page two":                        {look("record.create"), []exchange{says(list, 200, `{"totalItems":501,"totalPages":2,"items":[]}`), hit, one}, "applied abc123", nil},
		"a filter refused":                   {look("record.create"), []exchange{says(list, 400, `{"data":{},"message":"Something went wrong while processing your request.","status":400}`)}, "could not ask: validation", nil},
		"too fast":                           {look("record.create"), []exchange{says(list, 429, `{"data":{},"message":"Too Many Requests.","status":429}`)}, "could not ask: rate_limit wait 10s", nil},
		"a token that is over, renewed once": {look("record.create"), []exchange{says(list, 401, `{"message":"The request requires valid record authorization token."}`), hit, one}, "applied abc123", nil},
		"a batch is declared complete": {batch2("record.create"), []exchange{hit, one}, "1: applied abc123; 2: none",
			[]string{list + "?filter=action_key%3D%27run%3A1%27%20%7C%7C%20action_key%3D%27run%3A2%27&page=1&perPage=500", read}},
		"a batch refused, and nobody's key": {batch3("record.create"), []exchange{says(list, 400, `{"status":400}`)}, "1: could not ask: validation; 2: could not ask: validation; 3: could not ask: validation", nil},

		"made":                      {sending("record.create", body), []exchange{makes(create, 200, thing)}, "done id abc123", []string{create + " " + body}},
		"made before":               {sending("record.create", body), []exchange{says(create, 400, `{"data":{"action_key":{"code":"validation_not_unique","message":"Value must be unique."}},"message":"Failed to create record.","status":400}`)}, "not_done already_exists", nil},
		"a field that is wrong":     {sending("record.create", body), []exchange{says(create, 400, `{"data":{"title":{"code":"validation_required","message":"Cannot be blank."}},"status":400}`)}, "not_done validation", nil},
		"made, and the answer lost": {sending("record.create", body), []exchange{loses(create, true)}, "unknown network", nil},
		"whose collection":          {newDeed("probe", "", nil, nil), []exchange{says("GET /api/collections/things", 200, `{"id":"pbc_1"}`)}, "pbc_1", nil},
	}
}()
