// Package protocol is a model of how an entry is claimed, looked at, sent and
// settled, small enough to be explored whole: every order of the steps of two
// workers, a workflow, an outside system and the clock, with requests that land
// late or never, effects that show late, kills, stops of any length, and a
// database failover that loses the last commits.
//
// The model knows nothing of the product's code. Each rule that the product
// rests on is a Guard here, a switch: with all of them on no world has a
// duplicate of ours, a wrong settlement or a lost entry, but where nothing
// can close it (docs/rules.md, section 6); with any one of them off Explore finds
// the shortest way to the harm. docs/protocol.md names the function that implements each.
package protocol
