package ledger

import (
	"strings"
	"testing"
)

// The ranges of the units are apart, so a number is in one of them at most.
func TestTimesThatAreNumbers(t *testing.T) {
	const form = "write RFC 3339 with a zone, such as "
	for value, want := range map[string]string{
		`1764321300`:          `1764321300 is no time; as seconds since 1970 it is "2025-11-28T09:15:00Z": write that`,
		`1764321300.25`:       `1764321300.25 is no time; as seconds since 1970 it is "2025-11-28T09:15:00.25Z": write that`,
		`1.7643213e9`:         `1.7643213e9 is no time; as seconds since 1970 it is "2025-11-28T09:15:00Z": write that`,
		`1764321300123`:       `1764321300123 is no time; as milliseconds since 1970 it is "2025-11-28T09:15:00.123Z": write that`,
		`1764321300123000`:    `1764321300123000 is no time; as microseconds since 1970 it is "2025-11-28T09:15:00.123Z": write that`,
		`1764321300123000000`: `1764321300123000000 is no time; as nanoseconds since 1970 it is "2025-11-28T09:15:00.123Z": write that`,
		`"1764321300"`:        `"1764321300" is no time; as seconds since 1970 it is "2025-11-28T09:15:00Z": write that`,
		`"1764321300123"`:     `"1764321300123" is no time; as milliseconds since 1970 it is "2025-11-28T09:15:00.123Z": write that`,
		`946684800`:           `as seconds since 1970 it is "2000-01-01T00:00:00Z"`,
		`946684799`:           form,
		`4102444799`:          `as seconds since 1970 it is "2099-12-31T23:59:59Z"`,
		`4102444800`:          form,
		`0`:                   form,
		`-1764321300`:         form,
		`20261128`:            form,
		`45000.5`:             form,
		`1e99`:                form,
		`true`:                `got true or false; ` + form,
		`{}`:                  `got an object; ` + form,
		`"infinity"`:          form,
		`"2026-11-28 09:15"`:  `"2026-11-28 09:15" is no time; ` + form,
	} {
		for _, member := range []string{"occurred_at", "started_at"} {
			line := `{"action_key":"a","workflow":"w","connector":"c","operation":"o","occurred_at":` + value + `}`
			field := member
			if member == "started_at" {
				field = "attempts.0.started_at"
				line = `{"action_key":"a","workflow":"w","connector":"c","operation":"o","attempts":[{"status":"ok","started_at":` + value + `}]}`
			}
			_, errs := ParseRecord([]byte(line), ParseOptions{})
			if len(errs) != 1 || errs[0].Field != field || !strings.Contains(errs[0].Message, want) {
				t.Errorf("%s %s: got %+v, want %q", member, value, errs, want)
			}
		}
	}
}
