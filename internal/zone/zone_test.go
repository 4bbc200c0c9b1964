package zone

import (
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Etc/GMT+5"} {
		if loc, err := Load(name); err != nil || loc.String() != name {
			t.Errorf("%s: got %v, %v", name, loc, err)
		}
	}
	for _, name := range []string{"", "Local", "Nope/Zone", "Berlin", "../../etc/passwd", "CET+1"} {
		if loc, err := Load(name); err == nil {
			t.Errorf("%q: got %v; it must never silently be another zone", name, loc)
		}
	}
}

// The binary carries the zones: an empty image has no files to read them from.
func TestZonesNeedNoFiles(t *testing.T) {
	t.Setenv("ZONEINFO", "/nonexistent")
	loc, err := Load("Australia/Lord_Howe")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, 1, 1, 0, 0, 0, 0, loc).Zone(); offset != 11*3600 {
		t.Errorf("got an offset of %d s", offset)
	}
}
