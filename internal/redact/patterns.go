package redact

import (
	"regexp"
	"strings"
)

// triggers are what every pattern below contains at least one of. A text with
// none of them is left alone after one scan.
var triggers = []string{
	"auth", "api", "access", "basic", "bearer", "cookie", "credential", "eyj", "passphrase", "passw", "private", "pwd",
	"secret", "session", "sig", "token", "://", "%3a%2f%2f", "_live_", "_test_", "xox", "akia", "aiza", "whsec_", "pat-",
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
	"reconcile_",
}

var triggersBy = func() (by [256][]string) {
	for _, t := range triggers {
		by[t[0]] = append(by[t[0]], t)
	}
	return by
}()

func suspicious(s string) bool {
	for i := 0; i < len(s); i++ {
		for _, t := range triggersBy[lower(s[i])] {
			if hasPrefixFold(s[i:], t) {
				return true
			}
		}
	}
	return false
}

func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		if lower(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// secretName matches names whose values are secrets. Our own keys
// (action_key, idempotency_key) are not among them.
const secretName = `[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|authorization|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|signature|cookie|session[_-]?id)[\w.-]*|sig`

var (
	// user:password@ or token@ in an address, also percent-encoded.
	userInfo = regexp.MustCompile(`(?i)(://|%3a%2f%2f)([^\s/"'<>?#]*?)(?:(:|%3a)([^\s/"'<>?#]*))?(@|%40)`)

	// "name": in JSON, also inside a JSON string ( \"name\": ), and "name"=> as
	// some languages print it.
	member = regexp.MustCompile(`(?i)\\*["'](` + secretName + `)\\*["']\s*(?::|=>)\s*`)

	// name=value in queries and forms, also percent-encoded; a scheme of
	// authorization is part of the value.
	parameter = regexp.MustCompile(`(?i)(\b(?:` + secretName + `)(?:\[\])?(?:=|%3d)(?:(?:bearer|basic|token)(?: +|\+|%20))?)((?:[^\s&"'<>;,)}%]|%[013-9a-f][0-9a-f]|%2[0-57-9a-f])+)`)

	// Whole header lines; those of a digest hold quotes.
	header = regexp.MustCompile(`(?i)(\b(?:proxy-)?(?:authorization|(?:set-)?cookie)\s*:\s*)(digest\s[^\r\n]+|[^\r\n"'\\]+)`)

	// name: value in running text, and a value in quotes right behind its name.
	prose  = regexp.MustCompile(`(?i)(\b(?:` + secretName + `|api key)\s*:\s*)([^\s"',;&}\\]+)`)
	quoted = regexp.MustCompile("(?i)(\\b(?:" + secretName + "|api key)\\s*:?\\s*[\"'`])([^\\s\"'`\\\\]+)")

	// A scheme of authorization with what follows it; goesOn is what goes on after
	// that as in a sentence, be it with something that was masked.
	goesOn = regexp.MustCompile(`^[ \t]+[A-Za-z\[]`)
	scheme = regexp.MustCompile(`(?i)(\b(?:bearer|basic)(?:\s|%20)+)([A-Za-z0-9._~+/=-]{3,})`)

	// plainWord is a word as it stands in a sentence; schemeWords are those that
	// stand behind a scheme where it is spoken of.
	plainWord   = regexp.MustCompile(`^[A-Za-z]?[a-z]*(?:-[a-z]+)*[.]?$`)
	schemeWords = regexp.MustCompile(`(?i)^(?:auth|authentication|authorization|credentials?|errors?|format|headers?|is|key|keys|login|missing|not|of|or|password|realm|required|schemes?|tokens?|type|user|was)(?:[.=-].*)?$`)

	// Tokens that show by their form what they are: JSON web tokens, those with
	// "live" or "test" in them, and what the secret scanners of Slack, GitHub,
	// AWS, Google, webhook signers and HubSpot look for; private keys in PEM.
	// Source: GitHub Docs, "Supported secret scanning patterns", 2026-09.
	wellKnown = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?|\b[a-z]{2,5}_(?:live|test)_[A-Za-z0-9]{8,}` +
		`|\bxox[a-z]-[A-Za-z0-9-]{10,}|\b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[A-Za-z0-9_-]{35}` +
		`|\bwhsec_[A-Za-z0-9+/=]{16,}|\bpat-[a-z]{2}\d-[0-9a-f-]{36}` +
		`|\breconcile_[A-Za-z0-9_-]{43}`) // our own: ledger.NewToken
	privateKey = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)

	passwordName = regexp.MustCompile(`(?i)passw|passphrase|pwd`)
)

func patterns(s string) string {
	s = maskMembers(s)
	s = replace(s, userInfo, func(g []string) string {
		if g[3] == "" {
			return g[1] + Mask + g[5]
		}
		return g[1] + g[2] + g[3] + Mask + g[5]
	})
	s = replace(s, header, func(g []string) string { return g[1] + Mask })
	s = replace(s, parameter, func(g []string) string { return g[1] + Mask })
	s = replace(s, prose, func(g []string) string {
		// "invalid token: expired" is an explanation, "token: 9f86d081" is not.
		if looksRandom(g[2]) || passwordName.MatchString(g[1]) {
			return g[1] + Mask
		}
		return g[0]
	})
	s = replace(s, quoted, func(g []string) string {
		if looksRandom(g[2]) {
			return g[1] + Mask
		}
		return g[0]
	})
	s = replace(s, privateKey, func(g []string) string { return g[1] + Mask + g[2] })
	s = replace(s, scheme, func(g []string) string {
		if schemeSecret(g[1], g[2], goesOn.MatchString(g[3])) {
			return g[1] + Mask
		}
		return g[0]
	})
	return wellKnown.ReplaceAllString(s, Mask)
}

// schemeSecret says whether what stands behind "Bearer" or "Basic" is a secret.
// sentence: more words follow it.
func schemeSecret(scheme, value string, sentence bool) bool {
	switch {
	case looksRandom(value):
		return true
	case schemeWords.MatchString(value):
		return false
	case !plainWord.MatchString(value):
		return len(value) >= 6 // capitals within: no word
	case strings.HasPrefix(scheme, "Bearer"):
		return !sentence // "Bearer xyz" as a header has it, no "Bearer bonds are cheap"
	}
	return false
}

func looksRandom(s string) bool {
	return len(s) >= 20 || len(s) >= 6 && strings.ContainsAny(s, "0123456789")
}

// replace replaces each match by what with makes of its groups and, behind them,
// of the text that follows.
func replace(s string, re *regexp.Regexp, with func(groups []string) string) string {
	found := re.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
	var out strings.Builder
	last := 0
	for _, at := range found {
		groups := make([]string, len(at)/2, len(at)/2+1)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = s[at[2*i]:at[2*i+1]]
			}
		}
		out.WriteString(s[last:at[0]])
		out.WriteString(with(append(groups, s[at[1]:])))
		last = at[1]
	}
	out.WriteString(s[last:])
	return out.String()
}

// maskMembers masks the values of JSON members with secret names. The text need
// not be JSON as a whole: error messages quote pieces of it, cut anywhere.
func maskMembers(s string) string {
	var out strings.Builder
	for {
		at := member.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		name, rest := s[at[2]:at[3]], s[at[1]:]
		from, to := valueSpan(rest)
		out.WriteString(s[:at[1]])
		value := rest[from:to]
		switch {
		case value == "" || value == "null" || value == "true" || value == "false":
			out.WriteString(rest[:to])
		case strings.HasSuffix(strings.ToLower(name), "tokens") && strings.Trim(value, "0123456789") == "":
			out.WriteString(rest[:to]) // a count: "max_tokens": 100
		case from == 0:
			out.WriteString(`"` + Mask + `"`) // a number, list or object: keep it JSON
		default:
			out.WriteString(rest[:from])
			out.WriteString(Mask)
		}
		s = rest[to:]
	}
	if out.Len() == 0 {
		return s
	}
	out.WriteString(s)
	return out.String()
}

// valueSpan returns where the value at the start of s lies: of a string what
// is between its quotes. A value that is cut reaches to the end.
func valueSpan(s string) (from, to int) {
	slashes := 0
	for slashes < len(s) && s[slashes] == '\\' {
		slashes++
	}
	if slashes < len(s) && (s[slashes] == '"' || s[slashes] == '\'') {
		quote := s[slashes]
		run := 0
		for i := slashes + 1; i < len(s); i++ {
			switch {
			case s[i] == '\\':
				run++
			case s[i] == quote && run <= slashes:
				// As many backslashes as before the opening quote: this
				// one closes it. More: it is part of the value.
				return slashes + 1, i - run
			default:
				run = 0
			}
		}
		return slashes + 1, len(s)
	}
	if s == "" {
		return 0, 0
	}
	if s[0] == '{' || s[0] == '[' {
		depth := 0
		for i := 0; i < len(s); i++ {
			switch s[i] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return 0, i + 1
				}
			}
		}
		return 0, len(s)
	}
	if end := strings.IndexAny(s, ",}] \t\r\n"); end >= 0 {
		return 0, end
	}
	return 0, len(s)
}
