package httpapi

import "time"

// Split is split, for the fuzz target.
func Split(body []byte, lines bool) (form int, items [][]byte) {
	f, items := split(body, lines)
	return int(f), items
}

// Patient sets how long a client gets to send its body.
func (a *API) Patient(d time.Duration) { a.patience = d }

// The limits, for tests.
const (
	BodyMax  = bodyMax
	ItemsMax = itemsMax
)
