package httpapi

import "time"

// Split is split, for the fuzz target.
func Split(body []byte, lines bool) (form int, items [][]byte) {
	f, items, _ := split(body, lines)
	return int(f), items
}

// Patient sets how long a client gets to send its body.
func (a *API) Patient(d time.Duration) { a.patience = d }

// TurnPatience sets how long a client gets to send each part of a large body.
func (a *API) TurnPatience(d time.Duration) { a.turn = d }

// The limits, for tests.
const (
	BodyMax   = bodyMax
	ItemsMax  = itemsMax
	SmallBody = smallBody
)
