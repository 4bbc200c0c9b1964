package demo

import "strings"

// The files of the demonstration, in its folder.
const (
	configName  = "reconcile.toml"
	ledgerName  = "reconcile.db"
	resultsName = "results.jsonl"
)

// token is what the billing system wants to see; it lives as long as the
// demonstration.
const token = "demo-token"

// canary is the reference of an invoice that is always there: a search that
// does not find it proves nothing.
const canary = "opening-balance"

// configText is the config for a billing system at an address. The timings are
// those of a system that settles within seconds; a real one needs minutes.
func configText(url string) string {
	return strings.ReplaceAll(`# Written by reconcile demo. The billing system at this address ends with it.

[ledger]
url = "sqlite:reconcile.db"

[connectors.billing]
type = "rest"
base_url = "URL"
auth = { bearer = "demo-token" }
timeout = "1s"
rate = { calls = 100, per = "1s", concurrent = 8 }
lands_within = "500ms"      # longest an unanswered request may still take effect
visible_within = "2s"       # longest the search may not show it
absent_after = 2            # so many empty answers prove that it did not happen ...
absent_spacing = "500ms"    # ... so far apart
in_flight_for = "10s"
probe = { method = "GET", path = "/me" }
errors = [ { status = 429, class = "rate_limit", effect = "not_done", pauses = "entry" } ]

[[connectors.billing.operation]]
name = "invoice.create"
canary = "opening-balance"  # an invoice that is always there: proves that the search works
carries = "reference"
compare = { amount_cents = "amount_cents" }
statuses = { open = "applied", paid = "applied", processing = "pending", void = "reversed" }
check = { method = "GET", path = "/customers/{record_id}", consent = "opted_in", owner = "owner.id", lifecycle = "stage", lifecycle_deny = ["closed"] }
send = { method = "POST", path = "/invoices", id = "id" }

[connectors.billing.operation.lookup]
method = "GET"
path = "/invoices"
query = { reference = "{key}" }
items = "data"
match = "reference"
id = "id"
status = "status"
batch = { max = 50, query = { reference = "{each}" }, each = "{key:csv}", join = ",", missing = "negative" }

[owners.billing]
name = "Billing"
ids = ["5502"]
[owners.billing-west]
name = "Billing, west"
ids = ["5507"]

[[policy]]
retry = { max_attempts = 4, max_age = "1h", backoff = { kind = "exponential", base = "500ms", factor = 2, max = "4s", jitter = 0.2 } }
settle = { for = "1h", every = "1s", pending_every = "1s" }
checks = { consent = "required", owner = "transfer", lifecycle = "required", refused = "blocked" }
after_max_attempts = { state = "escalated", owner = "billing", due = "8h", allow = ["retry", "resolve", "cancel"] }
`, "URL", url)
}
