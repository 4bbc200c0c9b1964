// Package zone reads the names of time zones.
package zone

import (
	"fmt"
	"time"
	_ "time/tzdata" // a static binary in an empty image knows the zones too
)

// Load finds a time zone by its name, such as "Europe/Berlin". Nothing is ever
// silently UTC, or the zone of the machine, which two machines would read
// differently.
func Load(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf(`%q is no zone that every machine reads alike; write one such as "UTC" or "Europe/Berlin"`, name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`%q is not a time zone; write one such as "UTC" or "Europe/Berlin"`, name)
	}
	return loc, nil
}
