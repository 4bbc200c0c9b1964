package rest

import (
	"errors"
	"strings"
	"testing"

	"github.com/recovery-ledger/reconcile/connectors"
)

// fieldErrors opens a definition and returns its mistakes by path.
func fieldErrors(t *testing.T, text string) map[string]string {
	t.Helper()
	_, err := Open(connectors.Config{Name: "sys", Table: fromTOML(t, text), Env: env("SET", "value-from-env")})
	out := map[string]string{}
	for err := range eachError(err) {
		var f *connectors.FieldError
		if !errors.As(err, &f) {
			t.Errorf("not a FieldError: %v", err)
			continue
		}
		out[f.Path] += f.Message + "\n"
	}
	return out
}

func eachError(err error) func(func(error) bool) {
	return func(yield func(error) bool) {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			if err != nil {
				yield(err)
			}
			return
		}
		for _, e := range joined.Unwrap() {
			if !yield(e) {
				return
			}
		}
	}
}

func TestMistakesAreRefusedWithTheirRemedy(t *testing.T) {
	const head = "base_url = \"https://sys.example\"\n"
	const lookup = `lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "data", match = "k", id = "id" }` + "\n"
	op := func(lines ...string) string {
		return head + "[[operation]]\nname = \"a\"\n" + strings.Join(lines, "\n")
	}
	cases := map[string]struct{ text, path, say string }{
		"unknown connector key":                  {"base_ulr = \"x\"\n" + op(lookup), "base_ulr", `did you mean "base_url"?`},
		"unknown operation key":                  {op(lookup, `cannary = "x"`), "operation.0.cannary", `did you mean "canary"?`},
		"unknown block key":                      {op(`lookup = { method = "GET", path = "/x", itmes = "data", match = "k" }`), "operation.0.lookup.itmes", `did you mean "items"?`},
		"unknown key far from all":               {op(lookup, `zzzzzzzzzz = 1`), "operation.0.zzzzzzzzzz", "known here: absence"},
		"no base_url":                            {"[[operation]]\nname = \"a\"", "base_url", "missing"},
		"base_url without scheme":                {"base_url = \"sys.example\"\n[[operation]]\nname = \"a\"", "base_url", "https://"},
		"base_url with query":                    {"base_url = \"https://sys.example?x=1\"\n[[operation]]\nname = \"a\"", "base_url", "query = {"},
		"no operation":                           {head, "operation", "[[connectors.sys.operation]]"},
		"operation without name":                 {head + "[[operation]]\n" + lookup, "operation.0.name", "missing"},
		"operation twice":                        {op(lookup) + "[[operation]]\nname = \"a\"", "operation.1.name", "twice"},
		"items without match":                    {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "data" }`), "operation.0.lookup.match", "missing"},
		"body is the record, without match":      {op(`lookup = { method = "GET", path = "/x/{key}" }`), "operation.0.lookup.match", "must show our key too"},
		"status without statuses":                {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", status = "s" }`), "operation.0.statuses", "map each status"},
		"statuses without status":                {op(lookup, `statuses = { a = "applied" }`), "operation.0.statuses", "no block has a status"},
		"a standing that does not exist":         {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", status = "s" }`, `statuses = { a = "aplied" }`), "operation.0.statuses.a", `did you mean "applied"?`},
		"batch without max":                      {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { each = "{key}", query = { k = "{each}" } } }`), "operation.0.lookup.batch.max", "missing"},
		"batch without each":                     {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 5 } }`), "operation.0.lookup.batch.each", "missing"},
		"each that stands nowhere":               {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 5, each = "{key}" } }`), "operation.0.lookup.batch.each", "stands nowhere"},
		"a key beside each":                      {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 5, each = "{key}", query = { ks = "{each}" } } }`), "operation.0.lookup.batch.each", "{key} stands in the request beside {each}"},
		"each in a longer text, no join":         {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, items = "d", match = "k", batch = { max = 5, each = "{key}", query = { k = "in ({each})" } } }`), "operation.0.lookup.batch.join", "missing"},
		"unknown placeholder":                    {op(`lookup = { method = "GET", path = "/x/{keys}", match = "k" }`), "operation.0.lookup.path", `did you mean "key"?`},
		"placeholder of another block":           {op(`lookup = { method = "GET", path = "/x/{owner}", match = "k" }`), "operation.0.lookup.path", "unknown placeholder {owner} here"},
		"unknown encoder":                        {op(`lookup = { method = "GET", path = "/x", query = { q = "k = {key:sqol}" }, match = "k" }`), "operation.0.lookup.query.q", `did you mean "soql"?`},
		"from without encoder":                   {op(`lookup = { method = "GET", path = "/x", query = { q = "{from}" }, match = "k" }`), "operation.0.lookup.query.q", "{from:rfc3339}"},
		"stray brace":                            {op(`lookup = { method = "GET", path = "/x", query = { q = "a } {key}" }, match = "k" }`), "operation.0.lookup.query.q", "}}"},
		"open brace":                             {op(`lookup = { method = "GET", path = "/x", query = { q = "{key" }, match = "k" }`), "operation.0.lookup.query.q", "{{"},
		"query in a path":                        {op(`lookup = { method = "GET", path = "/x?k={key}", match = "k" }`), "operation.0.lookup.path", "query = {"},
		"path without slash":                     {op(`lookup = { method = "GET", path = "x", match = "k" }`), "operation.0.lookup.path", "start with /"},
		"dots in a path":                         {op(`lookup = { method = "GET", path = "/x/../{key}", match = "k" }`), "operation.0.lookup.path", "leave the path"},
		"a lookup that changes something":        {op(`lookup = { method = "DELETE", path = "/x/{key}", match = "k" }`), "operation.0.lookup.method", "may change something"},
		"a send that changes nothing":            {op(`send = { method = "GET", path = "/x" }`), "operation.0.send.method", "changes nothing"},
		"a mutation in a lookup":                 {op(`lookup = { method = "POST", path = "/g", graphql = "mutation { x }", match = "k" }`), "operation.0.lookup.graphql", "send only"},
		"a send without our key":                 {op(lookup, `send = { method = "POST", path = "/x/{record_id}", json = { who = "{subject}" } }`), "operation.0.send", "put {key} where"},
		"two bodies":                             {op(`send = { method = "POST", path = "/x", json = { a = 1 }, text = "b", content_type = "text/plain" }`), "operation.0.send", "keep one"},
		"a body in a GET":                        {op(`lookup = { method = "GET", path = "/x", json = { a = "{key}" }, match = "k" }`), "operation.0.lookup.method", "no body"},
		"a path that does not parse":             {op(`lookup = { method = "GET", path = "/x/{key}", match = "a..b" }`), "operation.0.lookup.match", "is not a path"},
		"an RFC 9535 path that does not":         {op(`lookup = { method = "GET", path = "/x/{key}", match = "$.a[?" }`), "operation.0.lookup.match", "is not a path"},
		"brackets without $":                     {op(`lookup = { method = "GET", path = "/x/{key}", match = "a[0]" }`), "operation.0.lookup.match", "start it with $"},
		"a regexp that does not parse":           {op(lookup, `errors = [{ code = "a", like = "(", class = "quota" }]`), "operation.0.errors.0.like", "RE2"},
		"like without group in a path":           {op(`lookup = { method = "GET", path = "/x/{key}", match = { path = "a", like = "b" } }`), "operation.0.lookup.match.like", "no group"},
		"a bare number as duration":              {op(lookup, `timeout = "20"`), "operation.0.timeout", `"20s"`},
		"a number as duration":                   {op(lookup, `timeout = 20`), "operation.0.timeout", `"30s"`},
		"a timeout of zero":                      {op(lookup, `timeout = "0s"`), "operation.0.timeout", "longer than zero"},
		"absent_after of zero":                   {op(lookup, `absent_after = 0`), "operation.0.absent_after", "out of range"},
		"key_scope":                              {op(lookup, `key_scope = "world"`), "operation.0.key_scope", "account, credential, region"},
		"a rule that tests nothing":              {op(lookup, `errors = [{ class = "quota" }]`), "operation.0.errors.0.status", "missing"},
		"a rule that says nothing":               {op(lookup, `errors = [{ status = 400 }]`), "operation.0.errors.0.class", "missing"},
		"a class that does not exist":            {op(lookup, `errors = [{ status = 400, class = "qouta" }]`), "operation.0.errors.0.class", `did you mean "quota"?`},
		"a finding on a send":                    {op(lookup, `errors = [{ status = 400, on = "send", finding = "none" }]`), "operation.0.errors.0.finding", "lookup"},
		"a status that is none":                  {op(lookup, `errors = [{ status = 42, class = "quota" }]`), "operation.0.errors.0.status", "no HTTP status"},
		"a zone that does not exist":             {op(lookup, `errors = [{ status = 429, wait = "midnight", zone = "Mars/Base" }]`), "operation.0.errors.0.zone", "time zone"},
		"control without probe":                  {op(lookup, `control = "probe"`), "operation.0.control", "add probe"},
		"changed without proof":                  {op(lookup, `changed = "updated"`), "operation.0.changed", "proof"},
		"compare without lookup":                 {op(`compare = { a = "b" }`), "operation.0.compare", "needs a lookup"},
		"absence without lookup":                 {op(`absence = { method = "GET", path = "/x/{key}", match = "k" }`), "operation.0.lookup", "missing"},
		"{page} without pages":                   {op(`lookup = { method = "GET", path = "/x", query = { p = "{page}" }, match = "k" }`), "operation.0.lookup.pages", "missing"},
		"pages without {page}":                   {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}" }, match = "k", pages = { next = "n" } }`), "operation.0.lookup.pages", "stands nowhere"},
		"unknown setting":                        {op(`lookup = { method = "GET", path = "/x/{settings.y}", match = "k" }`), "operation.0.lookup.path", "unknown setting"},
		"a setting used nowhere":                 {"settings = { y = \"1\" }\n" + op(lookup), "settings.y", "used nowhere"},
		"a setting without value":                {"settings = { y = { help = \"the realm\" } }\n" + op(`lookup = { method = "GET", path = "/x/{settings.y}", match = "k" }`), "settings.y", "(the realm)"},
		"a setting off its pattern":              {"settings = { y = { default = \"A b\", pattern = \"[a-z]+\" } }\n" + op(`lookup = { method = "GET", path = "/x/{settings.y}", match = "k" }`), "settings.y.default", "does not match"},
		"unset environment":                      {"headers = { X-Key = \"${UNSET_NAME}\" }\n" + op(lookup), "headers.X-Key", "not set; export UNSET_NAME"},
		"a malformed variable":                   {"headers = { X-Key = \"${9}\" }\n" + op(lookup), "headers.X-Key", "write ${NAME}"},
		"two kinds of auth":                      {"auth = { bearer = \"abcdef\", header = { X = \"y\" } }\n" + op(lookup), "auth", "exactly one of"},
		"an empty credential":                    {"auth = { bearer = \"\" }\n" + op(lookup), "auth.bearer", "empty"},
		"a credential with a line break":         {"auth = { bearer = \"abc\\n\" }\n" + op(lookup), "auth.bearer", "line break"},
		"oauth2 without token_url":               {"auth = { oauth2 = { grant = \"client_credentials\", client_id = \"a\", client_secret = \"b\" } }\n" + op(lookup), "auth.oauth2.token_url", "missing"},
		"jwt_bearer without key_file":            {"auth = { oauth2 = { grant = \"jwt_bearer\", token_url = \"https://t.example\", client_id = \"a\" } }\n" + op(lookup), "auth.oauth2.key_file", "missing"},
		"jwt_bearer with a file there is not":    {"auth = { oauth2 = { grant = \"jwt_bearer\", token_url = \"https://t.example\", client_id = \"a\", key_file = \"testdata/none.pem\" } }\n" + op(lookup), "auth.oauth2.key_file", "cannot read \"testdata/none.pem\": no such file"},
		"jwt_bearer with a file of no key":       {"auth = { oauth2 = { grant = \"jwt_bearer\", token_url = \"https://t.example\", client_id = \"a\", key_file = \"jwt.go\" } }\n" + op(lookup), "auth.oauth2.key_file", "holds no private key"},
		"jwt_bearer without a client":            {"auth = { oauth2 = { grant = \"jwt_bearer\", token_url = \"https://t.example\", key_file = \"jwt.go\" } }\n" + op(lookup), "auth.oauth2.client_id", "empty"},
		"a key file of another grant":            {"auth = { oauth2 = { grant = \"client_credentials\", token_url = \"https://t.example\", client_id = \"a\", client_secret = \"b\", key_file = \"x\" } }\n" + op(lookup), "auth.oauth2.key_file", "goes with grant"},
		"a refresh token of another grant":       {"auth = { oauth2 = { grant = \"client_credentials\", token_url = \"https://t.example\", client_id = \"a\", client_secret = \"b\", refresh_token = \"x\" } }\n" + op(lookup), "auth.oauth2.refresh_token", "goes with grant"},
		"a grant that does not exist":            {"auth = { oauth2 = { grant = \"jwt\", token_url = \"https://t.example\", client_id = \"a\" } }\n" + op(lookup), "auth.oauth2.grant", "jwt_bearer"},
		"send.batch":                             {op(lookup, `send = { method = "POST", path = "/x", batch = { max = 2 } }`), "operation.0.send.batch", "not supported yet"},
		"margin without a scan":                  {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", margin = "5m" }`), "operation.0.lookup.margin", "{from} and {until}"},
		"visible_within of a read":               {op(lookup, `read = { method = "GET", path = "/x/{id}", visible_within = "1m" }`), "operation.0.read.visible_within", "proves no absence"},
		"looks_back of a twin":                   {op(lookup, `twin = { method = "GET", path = "/x/{subject}", looks_back = "1h" }`), "operation.0.twin.looks_back", "proves no absence"},
		"a size of pages with a cursor":          {op(`lookup = { method = "GET", path = "/x", query = { k = "{key}", p = "{page}" }, match = "k", pages = { next = "n", size = 5 } }`), "operation.0.lookup.pages.size", "counted pages"},
		"max_text without a batch":               {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", max_text = 100 }`), "operation.0.lookup.max_text", "batch"},
		"max_text of a send":                     {op(lookup, `send = { method = "POST", path = "/x", json = { k = "{key}" }, max_text = 100 }`), "operation.0.send.max_text", "batch"},
		"max_text of a check":                    {op(lookup, `check = { method = "GET", path = "/x/{record_id}", owner = "o", max_text = 100 }`), "operation.0.check.max_text", "batch"},
		"max_text of a scan":                     {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", batch = { path = "/y", method = "GET", query = { f = "{from:unix}" }, items = "d", max = 5, span = "1h", max_text = 100 } }`), "operation.0.lookup.batch.max_text", "{each}"},
		"join of a scan":                         {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", batch = { path = "/y", method = "GET", query = { f = "{from:unix}" }, items = "d", max = 5, span = "1h", join = "," } }`), "operation.0.lookup.batch.join", "asks for no keys"},
		"margin of a lookup whose batch is none": {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", margin = "1m", batch = { path = "/y", method = "GET", query = { k = "{each}" }, items = "d", max = 5, each = "{key}" } }`), "operation.0.lookup.margin", "{from} and {until}"},
		"the type of no body":                    {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", content_type = "a/b" }`), "operation.0.lookup.content_type", "there is none"},
		"answered without items":                 {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", answered = "n" }`), "operation.0.lookup.answered", "goes with items"},
		"answered of a check, without items":     {op(`check = { method = "GET", path = "/x/{record_id}", owner = "o", answered = "n" }`), "operation.0.check.answered", "goes with items"},
		"empty answers where none needs an id":   {op(lookup, `send = { method = "POST", path = "/x", json = { k = "{key}" }, empty = [204] }`), "operation.0.send.empty", "add id"},
		"visible_within of a batch of reads":     {op(lookup, `read = { method = "GET", path = "/x/{id}", batch = { path = "/x", method = "GET", query = { i = "{each}" }, items = "d", max = 5, each = "{id}", visible_within = "1m" } }`), "operation.0.read.batch.visible_within", "proves no absence"},
		"changed inside proof":                   {op(lookup, `proof = { stage = "stage", changed = "updated_at" }`), "operation.0.proof.changed", "write changed beside proof"},
		"carries inside compare":                 {op(lookup, `compare = { carries = "key" }`), "operation.0.compare.carries", "write carries beside compare"},
		"the unit of no reset":                   {"rate_headers = [{ remaining = \"header:X-Left\", per = \"1m\", unit = \"s\" }]\n" + op(lookup), "rate_headers.0.unit", "of reset"},
		"what is used of no limit":               {"rate_headers = [{ used = \"header:X-Used\", reset = \"header:X\" }]\n" + op(lookup), "rate_headers.0.used", "without limit"},
		"a zone that machines read differently":  {op(lookup, `errors = [{ status = 429, wait = "midnight", zone = "Local" }]`), "operation.0.errors.0.zone", "Europe/Berlin"},
		"canary and probe":                       {"probe = { method = \"GET\", path = \"/me\" }\n" + op(lookup, `canary = "c"`, `control = "probe"`), "operation.0.control", "keep one"},
		"a probe that expects nothing":           {"probe = { method = \"GET\", path = \"/me\", expect = { a = [] } }\n" + op(lookup), "probe.expect.a", "nothing would hold"},
		"an allow list of nothing":               {op(`check = { method = "GET", path = "/x/{record_id}", consent = "c", consent_allow = [] }`), "operation.0.check.consent_allow", "nothing would pass"},
		"a rule that holds nowhere":              {op(lookup, `errors = [{ status = 400, on = [], class = "quota" }]`), "operation.0.errors.0.on", "empty"},
		"a rule for no value":                    {op(lookup, `errors = [{ code = "c", is = [], class = "quota" }]`), "operation.0.errors.0.is", "empty"},
		"an effect of a lookup":                  {op(lookup, `errors = [{ status = 400, on = "lookup", effect = "not_done" }]`), "operation.0.errors.0.effect", "speaks of a send"},
		"a limit that never asks to wait":        {"rate_headers = [{ remaining = \"header:X-Left\" }]\n" + op(lookup), "rate_headers.0.reset", "missing"},
		"a share of no limit":                    {"rate_headers = [{ remaining = \"header:X-Left\", per = \"1m\", reserve = 0.5 }]\n" + op(lookup), "rate_headers.0.reserve", "where that stands"},
		"a share of more than all":               {"rate_headers = [{ remaining = \"header:X-Left\", limit = \"header:X-Max\", per = \"1m\", reserve = 20 }]\n" + op(lookup), "rate_headers.0.reserve", "less than 1"},
		"a share that is text":                   {"rate_headers = [{ remaining = \"header:X-Left\", limit = \"header:X-Max\", per = \"1m\", reserve = \"20%\" }]\n" + op(lookup), "rate_headers.0.reserve", "such as 0.2"},
		"match of nothing":                       {op(`lookup = { method = "GET", path = "/x/{key}", match = [] }`), "operation.0.lookup.match", "at least one path"},
		"carries of nothing":                     {op(lookup, `carries = []`), "operation.0.carries", "at least one path"},
		"a shape used nowhere":                   {op(lookup) + "\n[shape.object]\n" + lookup, "shape.object", "used nowhere"},
		"a bucket used nowhere":                  {"rate = [{ calls = 5, per = \"1s\" }, { name = \"search\", calls = 1, per = \"1s\" }]\n" + op(lookup), "rate.1.name", "holds for nothing"},
		"the only limit is for no block":         {"rate = { name = \"search\", calls = 1, per = \"1s\" }\n" + op(lookup), "rate.name", "holds for nothing"},
		"the first of two limits is unused":      {"rate = [{ name = \"search\", calls = 1, per = \"1s\" }, { name = \"list\", calls = 1, per = \"1s\" }]\n" + op(lookup), "rate.0.name", "holds for nothing"},
		"the second of them is unused too":       {"rate = [{ name = \"search\", calls = 1, per = \"1s\" }, { name = \"list\", calls = 1, per = \"1s\" }]\n" + op(lookup), "rate.1.name", "holds for nothing"},
		"faults of a send without a list":        {op(lookup, `send = { method = "POST", path = "/x", json = { k = "{key}" }, fault = { key = "k" } }`), "operation.0.send.fault.items", "path of the list"},
		"an empty lane":                          {"lane = \"\"\n" + op(lookup), "lane", "empty"},
		"an empty list of operations":            {head + "operation = []", "operation", "[[connectors.sys.operation]]"},
		"a placeholder in a path of an answer":   {op(`lookup = { method = "GET", path = "/x/{key}", match = "a.{key}" }`), "operation.0.lookup.match", "{settings.x} and {let.x}"},
		"a table in a list of parameters":        {op(`lookup = { method = "GET", path = "/x", query = { k = ["{key}", { a = 1 }] }, match = "k" }`), "operation.0.lookup.query.k", "list of texts"},
		"a line break in a list of headers":      {op(`send = { method = "POST", path = "/x", headers = { X-A = ["a", "b\n"] } }`), "operation.0.send.headers.X-A", "visible ASCII"},
		"a read of nobody":                       {op(lookup, `read = { method = "GET", path = "/x" }`), "operation.0.read.path", "{id}"},
		"a limit whose pattern names nothing":    {"rate_headers = [{ header = \"X\", like = \"[0-9]+\" }]\n" + op(lookup), "rate_headers.0.like", "names nothing"},
		"a replay header that is none":           {"idempotency = { replayed = { header = \"a b\" } }\n" + op(lookup), "idempotency.replayed.header", "no header name"},
		"an unnamed bucket":                      {op(`lookup = { method = "GET", path = "/x/{key}", match = "k", bucket = "search" }`), "operation.0.lookup.bucket", "no rate has the name"},
		"calls without per":                      {"rate = { calls = 5 }\n" + op(lookup), "rate.per", "go together"},
		"a derived key too weak":                 {op(lookup, `key = { max = 8 }`), "operation.0.key", "bits"},
		"a digest outside chars":                 {op(lookup, `key = { chars = "[A-Z]" }`), "operation.0.key", "does not fit"},
		"check that reads nothing":               {op(`check = { method = "GET", path = "/x/{record_id}" }`), "operation.0.check.consent", "missing"},
		"allow list without its path":            {op(`check = { method = "GET", path = "/x/{record_id}", owner = "o", consent_allow = ["a"] }`), "operation.0.check.consent_allow", "goes with consent"},
		"header with a line break":               {op(`send = { method = "POST", path = "/x", headers = { X-A = "a\nb" } }`), "operation.0.send.headers.X-A", "visible ASCII"},
		"a header that is ours":                  {op(`send = { method = "POST", path = "/x", headers = { host = "h" } }`), "operation.0.send.headers.host", "set by the client"},
		"a fraction to be compared":              {op(lookup, `errors = [{ code = "rate", is = 19.90, class = "quota" }]`), "operation.0.errors.0.is.0", "in quotes"},
		"a fraction in a deny list":              {op(`check = { method = "GET", path = "/x/{record_id}", lifecycle = "v", lifecycle_deny = [1.0] }`), "operation.0.check.lifecycle_deny.0", "in quotes"},
		"a text with a part to be left out":      {op(`send = { method = "POST", path = "/x", text = "a {payload.b?} {key}", content_type = "text/plain" }`), "operation.0.send.text", "take the ? out"},
		"GraphQL with a part to be left out":     {op(`send = { method = "POST", path = "/x", graphql = "mutation { a(k: {key:graphql}, b: {payload.b?:graphql}) }" }`), "operation.0.send.graphql", "take the ? out"},
		"a cursor in a path":                     {op(`lookup = { method = "GET", path = "/x/{page}", query = { k = "{key}" }, match = "k", pages = { next = "n" } }`), "operation.0.lookup.pages", "first call has no cursor"},
		"a cursor in a text":                     {op(`lookup = { method = "POST", path = "/x", text = "{key} {page}", content_type = "text/plain", match = "k", pages = { next = "n" } }`), "operation.0.lookup.pages", "first call has no cursor"},
		"a placeholder in a let":                 {"let = { q = \"k = {key}\" }\n" + op(`lookup = { method = "GET", path = "/x", query = { q = "{let.q}" }, match = "k" }`), "operation.0.lookup.query.q", "in the request itself"},
		"a placeholder in a list of a let":       {"let = { q = [\"a\", \"{key}\"] }\n" + op(`lookup = { method = "GET", path = "/x", query = { q = "{let.q}" }, match = "k" }`), "operation.0.lookup.query.q", "in the request itself"},
		"a placeholder in a let, in a text":      {"let = { q = \"{key:soql}\" }\n" + op(`lookup = { method = "GET", path = "/x", query = { q = "k = {let.q}" }, match = "k" }`), "operation.0.lookup.query.q", "in the request itself"},
		"a header twice":                         {"headers = { X-Tenant = \"a\", x-tenant = \"b\" }\n" + op(lookup), "headers.x-tenant", "twice"},
		"a header beside auth":                   {"auth = { bearer = \"abcdef\" }\nheaders = { Authorization = \"b\" }\n" + op(lookup), "headers.Authorization", "set by auth"},
		"a header of a block beside auth":        {"auth = { header = { X-Api-Key = \"abcdef\" } }\n" + op(`send = { method = "POST", path = "/x", headers = { x-api-key = "b" } }`), "operation.0.send.headers.x-api-key", "set by auth"},
		"unknown shape":                          {op(`shape = "objekt"`) + "\n[shape.object]\n" + lookup, "operation.0.shape", `did you mean "object"?`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fieldErrors(t, c.text)
			if !strings.Contains(got[c.path], c.say) {
				t.Errorf("no mistake at %q that says %q; got %q", c.path, c.say, got)
			}
		})
	}
}

// A payload may have a member with the name of a key: the operation's own key
// beside it, or the longer form, says that it is meant.
func TestAMemberNamedLikeAKeyIsCompared(t *testing.T) {
	const head = "base_url = \"https://sys.example\"\n[[operation]]\nname = \"a\"\nlookup = { method = \"GET\", path = \"/x/{record_id}\", match = \"id\" }\n"
	for _, text := range []string{
		`proof = { stage = "stage", changed = { path = "changed" } }`,
		"changed = \"updated_at\"\nproof = { stage = \"stage\", changed = \"changed\" }",
	} {
		if got := fieldErrors(t, head+text); len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestAllMistakesComeAtOnceAndOnlyOnce(t *testing.T) {
	got := fieldErrors(t, `
base_url = "https://sys.example"
timeout = "20"
[[operation]]
name = "a"
lookup = { method = "GET", path = "/x", query = { k = "{kee}" }, items = "data", match = "a..b", batch = { max = 5, each = "{key}", query = { k = "{each}" } } }
read = { path = "/x/{id}", method = "GET" }
`)
	want := []string{"timeout", "operation.0.lookup.query.k", "operation.0.lookup.match"}
	for _, path := range want {
		if strings.Count(got[path], "\n") != 1 {
			t.Errorf("at %s: %q, want one mistake", path, got[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q, want mistakes at %q only", got, want)
	}
}

func TestAnUnsetVariableIsOneMistake(t *testing.T) {
	const lookup = "\n[[operation]]\nname = \"a\"\nlookup = { method = \"GET\", path = \"/x/{key}\", match = \"k\" }\n"
	for path, line := range map[string]string{
		"headers.X-Key":       `headers = { X-Key = "${UNSET_NAME}" }`,
		"headers.X-Key.0":     `headers = { X-Key = ["${UNSET_NAME}", "b"] }`,
		"query.k":             `query = { k = "${UNSET_NAME}" }`,
		"auth.bearer":         `auth = { bearer = "${UNSET_NAME}" }`,
		"auth.header.X-Key":   `auth = { header = { X-Key = "${UNSET_NAME}" } }`,
		"auth.query.k":        `auth = { query = { k = "${UNSET_NAME}" } }`,
		"auth.basic.user":     `auth = { basic = { user = "${UNSET_NAME}", password = "p" } }`,
		"auth.basic.password": `auth = { basic = { user = "u", password = "${UNSET_NAME}" } }`,
		"base_url":            ``,
		"rate.per":            `rate = { calls = 1, per = "${UNSET_NAME}" }`,
		"about.title":         `about = { title = "${UNSET_NAME}" }`,
	} {
		base := "base_url = \"https://sys.example\"\n"
		if line == "" {
			base = "base_url = \"${UNSET_NAME}\"\n"
		}
		got := fieldErrors(t, base+line+lookup)
		if len(got) != 1 || got[path] != "not set; export UNSET_NAME\n" {
			t.Errorf("%s%s: got %q, want one mistake at %s", base, line, got, path)
		}
	}
}

func TestEnvironmentIsExpandedOnceAndOnlyInValues(t *testing.T) {
	m := fromTOML(t, `
base_url = "https://sys.example"
headers = { X-Tenant = "${A}" }
[[operation]]
name = "a"
lookup = { method = "GET", path = "/x/{key}", match = "k" }
`)
	c, err := Open(connectors.Config{Name: "sys", Table: m, Env: env("A", "$"+"{B}", "B", "no")})
	if err != nil {
		t.Fatal(err)
	}
	req, err := c.def.operations["a"].lookup.req.build(c.def.base, &scope{key: "k"})
	if err != nil || req.Header.Get("X-Tenant") != "${B}" {
		t.Errorf("X-Tenant = %q, %v; want the value as it is", req.Header.Get("X-Tenant"), err)
	}
	if v, _ := m["headers"].(map[string]any); v["X-Tenant"] != "${A}" {
		t.Errorf("the caller's table was changed: %v", m)
	}
}

func TestScopesTellCredentialsAndPlacesApart(t *testing.T) {
	open := func(base, token string) map[string]string {
		m := fromTOML(t, "auth = { bearer = \"${T}\" }\n[[operation]]\nname = \"a\"\nlookup = { method = \"GET\", path = \"/x/{key}\", match = \"k\" }\n")
		m["base_url"] = base
		c, err := Open(connectors.Config{Name: "sys", Table: m, Env: env("T", token)})
		if err != nil {
			t.Fatal(err)
		}
		return c.Info().Scopes
	}
	a, again := open("https://eu.sys.example", "token-one"), open("https://eu.sys.example", "token-one")
	token, region := open("https://eu.sys.example", "token-two"), open("https://us.sys.example", "token-one")
	if a["credential"] != again["credential"] || a["region"] != again["region"] {
		t.Errorf("the same twice: %v, %v", a, again)
	}
	if a["credential"] == token["credential"] || a["region"] != token["region"] {
		t.Errorf("another token: %v, %v", a, token)
	}
	if a["region"] == region["region"] || a["credential"] != region["credential"] {
		t.Errorf("another region: %v, %v", a, region)
	}
}

func TestVersionIsOfTheDefinitionAlone(t *testing.T) {
	open := func(token, text string) string {
		m := fromTOML(t, text)
		c, err := Open(connectors.Config{Name: "sys", Table: m, Env: env("T", token)})
		if err != nil {
			t.Fatal(err)
		}
		return c.Info().Version
	}
	const def = "base_url = \"https://sys.example\"\nauth = { bearer = \"${T}\" }\n[[operation]]\nname = \"a\"\nlookup = { method = \"GET\", path = \"/x/{key}\", match = \"k\" }\n"
	a := open("token-one", def)
	if b := open("token-two", def); a != b {
		t.Errorf("another token changes the version: %s, %s", a, b)
	}
	if b := open("token-one", strings.Replace(def, "${T}", "literal-token", 1)); a != b {
		t.Errorf("a literal token changes the version: %s, %s", a, b)
	}
	if b := open("token-one", strings.Replace(def, "/x/", "/y/", 1)); a == b {
		t.Error("another path does not change the version")
	}
}
