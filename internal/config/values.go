package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts the environment in place of each ${NAME}, once: what a variable
// holds is not looked at again. Errors show the name and never a value.
func expand(s string, env func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !envName.MatchString(name) {
			return "", errors.New("holds ${ without the name of a variable; write ${NAME}")
		}
		v, ok := env(name)
		if !ok {
			return "", fmt.Errorf("not set; export %s", name)
		}
		out.WriteString(v)
		s = after
	}
}

// expandURL is expand for an address. What the environment puts before the host
// need not be percent-encoded: a password may hold "/", "#" or "@". An encoded
// one is left as it is.
func expandURL(s string, env func(string) (string, bool)) (string, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return expand(s, env)
	}
	user, err := expand(authority[:at], func(name string) (string, bool) {
		v, ok := env(name)
		return escapeUser(v), ok
	})
	after, err2 := expand(rest[at:], env)
	return scheme + "://" + user + after, cmp.Or(err, err2)
}

var encodedByte = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)

// escapeUser encodes what would end or break the part of an address before its
// host.
func escapeUser(v string) string {
	var out strings.Builder
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c <= ' ', c >= 0x7f, strings.IndexByte("/?#[]@\\\"<>^`{|}", c) >= 0,
			c == '%' && !encodedByte.MatchString(v[i:]):
			fmt.Fprintf(&out, "%%%02X", c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// sizeUnits are the units of parseSize, longest name first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// parseSize reads "256KiB", "1MB" or "512B".
func parseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf(`%q is not a size; write for example "256KiB" or "1MiB"`, s)
}

// formatSize writes n as parseSize reads it.
func formatSize(n int64) string {
	for _, u := range []int{2, 1, 0} { // GiB, MiB, KiB
		if b := sizeUnits[u].bytes; n >= b && n%b == 0 {
			return fmt.Sprintf("%d%s", n/b, sizeUnits[u].name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
