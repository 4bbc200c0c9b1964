// Package e2e holds the proof against real software: the built program, both
// ledgers, and PocketBase behind Toxiproxy. It has tests only.
package e2e
