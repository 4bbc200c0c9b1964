// Package nearest finds the known word that somebody meant to type.
package nearest

import (
	"fmt"
	"strings"
)

// Word returns the known word nearest to the one typed, the first of several,
// or "" when none is near: at most a third of its letters, one at least, are
// wrong, and not all of them. Upper and lower case are the same.
func Word(typed string, known []string) string {
	t := []rune(strings.ToLower(typed))
	best, least := "", min(max(1, len(t)/3)+1, len(t))
	for _, k := range known {
		if d := distance(t, []rune(strings.ToLower(k))); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint is what an error message says of the nearest word, to be appended to it:
// `; did you mean "state"?`, or nothing where no word is near.
func Hint(typed string, known []string) string {
	if w := Word(typed, known); w != "" {
		return fmt.Sprintf("; did you mean %q?", w)
	}
	return ""
}

// distance is the number of letters to add, drop, change or swap with their
// neighbour to turn one word into the other.
func distance(s, t []rune) int {
	before, prev, cur := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(s); i++ {
		cur[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(t)]
}
