package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/recovery-ledger/reconcile/internal/nearest"
)

// query reads the parameters of a request and gathers what is wrong with them.
// A parameter that nobody knows is a mistake: a filter that is spelt wrong must
// not select everything.
type query struct {
	values url.Values
	errs   []string
}

// newQuery checks the names of the parameters.
func newQuery(r *http.Request, known ...string) *query {
	q := &query{}
	var err error
	if q.values, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		q.errs = append(q.errs, "the query cannot be read; percent-encode its values")
		return q
	}
	names := make([]string, 0, len(q.values))
	for name := range q.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case len(known) == 0:
			q.refuse(name, "this takes no parameters")
		case !slices.Contains(known, name):
			hint := nearest.Hint(name, known)
			if hint == "" {
				hint = "; known here: " + strings.Join(known, ", ")
			}
			q.refuse(name, "is not a parameter"+hint)
		case len(q.values[name]) > 1:
			q.refuse(name, "is given twice")
		case q.values.Get(name) == "":
			q.refuse(name, "is given, but empty; give a value, or leave it out")
		}
	}
	return q
}

func noQuery(r *http.Request) error { return newQuery(r).err() }

func (q *query) refuse(name, message string) { q.errs = append(q.errs, name+": "+message) }

// text is a parameter, "" where it is not given.
func (q *query) text(name string) string { return q.values.Get(name) }

// word is a parameter that is one of some words.
func (q *query) word(name string, words []string) string {
	s := q.text(name)
	if s != "" && !slices.Contains(words, s) {
		q.refuse(name, strconv.Quote(s)+" is none of "+strings.Join(words, ", ")+nearest.Hint(s, words))
	}
	return s
}

// truth is a parameter that is true or false.
func (q *query) truth(name string) bool {
	return q.word(name, []string{"true", "false"}) == "true"
}

// number is a parameter from 1 to most.
func (q *query) number(name string, def, most int) int {
	s := q.text(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		q.refuse(name, strconv.Quote(s)+" is refused; give a number from 1 to "+strconv.Itoa(most))
		return def
	}
	return n
}

// err tells all mistakes in one answer.
func (q *query) err() error {
	if len(q.errs) == 0 {
		return nil
	}
	return problem(http.StatusBadRequest, "parameter", "%s", strings.Join(q.errs, "; "))
}

func texts[T ~string](xs []T) []string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = string(x)
	}
	return out
}
