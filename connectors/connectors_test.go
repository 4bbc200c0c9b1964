package connectors

import (
	"errors"
	"strings"
	"testing"
)

func TestRegistry(t *testing.T) {
	open := func(Config) (Connector, error) { return nil, nil }
	a := Descriptor{Type: "a", Summary: "a thing", Open: open}
	b := Descriptor{Type: "b", Summary: "another", Open: open}
	r, err := NewRegistry(b, a)
	if err != nil || strings.Join(r.Types(), ",") != "a,b" {
		t.Errorf("%v, %v", r.Types(), err)
	}
	if d, ok := r.Descriptor("a"); !ok || d.Summary != "a thing" {
		t.Errorf("%+v, %v", d, ok)
	}
	if _, ok := r.Descriptor("c"); ok {
		t.Error("there is a c")
	}
	for name, ds := range map[string][]Descriptor{
		"described twice":       {a, a},
		"incomplete descriptor": {{Type: "x", Open: open}},
	} {
		if _, err := NewRegistry(ds...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("no answer in time")
	for want, e := range map[string]*Error{
		"timeout: no answer in time":             {Kind: KindTimeout, Err: cause},
		"auth: HTTP 401":                         {Kind: KindAuth, HTTPStatus: 401},
		"validation: HTTP 422: DUP_REF: a taken": {Kind: KindValidation, HTTPStatus: 422, Code: "DUP_REF", Message: "a taken", Err: cause},
		"server_error: HTTP 500":                 {Kind: KindServerError, HTTPStatus: 500, Message: "HTTP 500"},
		"timeout: HTTP 504 page: Gateway":        {Kind: KindTimeout, HTTPStatus: 504, Message: "HTTP 504 page: Gateway"},
		"auth: HTTP 401: invalid_token":          {Kind: KindAuth, HTTPStatus: 401, Code: "invalid_token", Message: "invalid_token"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !errors.Is(&Error{Kind: KindTimeout, Err: cause}, cause) {
		t.Error("the cause is not found")
	}
	if got := (&FieldError{Path: "operation.0.name", Message: "missing"}).Error(); got != "operation.0.name: missing" {
		t.Errorf("got %q", got)
	}
}

func TestOperationByName(t *testing.T) {
	i := Info{Operations: []Operation{{Name: "a"}, {Name: "b", BatchMax: 5}}}
	if o, ok := i.Operation("b"); !ok || o.BatchMax != 5 {
		t.Errorf("%+v, %v", o, ok)
	}
	if _, ok := i.Operation("c"); ok {
		t.Error("there is a c")
	}
}
