package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/recovery-ledger/reconcile/ledger"
)

//go:embed example.tmpl
var exampleText string

//go:embed sample.tmpl
var sampleText string

// Example is config.example.toml: every key, with the default of each that has
// one. It needs the environment variables that it names.
func Example() []byte { return generate(exampleText) }

// Sample is the shorter config that `reconcile init` writes. It loads as it is,
// in any environment.
func Sample() []byte { return generate(sampleText) }

// generate fills in the defaults, as Describe would print them.
func generate(text string) []byte {
	defaults := map[string]string{}
	for _, s := range Defaults().Settings {
		defaults[s.Key] = s.Value
	}
	plain := func(key string) (string, error) {
		v, ok := defaults[key]
		if !ok {
			return "", fmt.Errorf("%s: no such setting", key)
		}
		return v, nil
	}
	quoted := func(prefix string) func(string) (string, error) {
		return func(key string) (string, error) {
			v, err := plain(prefix + key)
			return strconv.Quote(v), err
		}
	}
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"default":     quoted(""),
		"plain":       plain,
		"policy":      quoted(defaultPolicyLabel),
		"policyPlain": func(key string) (string, error) { return plain(defaultPolicyLabel + key) },
		"temporary": func() string {
			var names []string
			for _, c := range ledger.Classes() {
				if c.Temporary() {
					names = append(names, strconv.Quote(string(c)))
				}
			}
			return strings.Join(names, ", ")
		},
		"allow": func() string {
			var names []string
			for _, a := range ledger.Actions() {
				names = append(names, strconv.Quote(string(a)))
			}
			return strings.Join(names, ", ")
		},
	}).Parse(text))
	var out bytes.Buffer
	if err := t.Execute(&out, nil); err != nil {
		panic(err) // the templates are part of the program
	}
	return out.Bytes()
}
