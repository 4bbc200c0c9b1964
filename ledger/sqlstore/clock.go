package sqlstore

import "time"

// hostClock is the clock of a SQLite ledger: this host's.
func hostClock() time.Time { return time.Now() }
