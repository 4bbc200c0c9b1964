package nearest

import "testing"

func TestWord(t *testing.T) {
	known := []string{"max_attempts", "max_age", "state", "key", "show", "Größe"}
	for name, c := range map[string]struct{ typed, want string }{
		"the word itself":                        {"state", "state"},
		"a letter dropped":                       {"max_atempts", "max_attempts"},
		"a letter added":                         {"keys", "key"},
		"a letter changed":                       {"stade", "state"},
		"two neighbours swapped are one slip":    {"kye", "key"},
		"as many slips as a third of the word":   {"mx_atempts", "max_attempts"},
		"one more is too many":                   {"sdale", ""},
		"upper case is no slip":                  {"STATE", "state"},
		"letters are counted, not their bytes":   {"Grösse", "Größe"},
		"a short word may have one wrong":        {"kex", "key"},
		"a word of one letter is like no other":  {"x", ""},
		"nothing is like no other":               {"", ""},
		"a word that is far from all":            {"jitter", ""},
		"longer by a part of itself is not near": {"max", ""},
	} {
		if got := Word(c.typed, known); got != c.want {
			t.Errorf("%s: %q: got %q, want %q", name, c.typed, got, c.want)
		}
	}
	if got := Word("a3", []string{"a1", "a2"}); got != "a1" {
		t.Errorf("of two words equally near the first is taken, not %q", got)
	}
}

func TestHint(t *testing.T) {
	if got := Hint("sohw", []string{"show"}); got != `; did you mean "show"?` {
		t.Errorf("near: %q", got)
	}
	if got := Hint("elsewhere", []string{"show"}); got != "" {
		t.Errorf("far: %q", got)
	}
}
