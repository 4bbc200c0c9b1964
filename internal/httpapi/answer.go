package httpapi

import (
	"fmt"
	"net/http"

	"github.com/recovery-ledger/reconcile/internal/render"
)

// failure is an error as it is answered. Its JSON form is a contract
// (docs/http.md): a stable code, and what to do.
type failure struct {
	status  int
	Code    string `json:"error"`
	Message string `json:"message"`
	cause   error  // for the log alone
}

func (f *failure) Error() string { return f.Code + ": " + f.Message }
func (f *failure) Unwrap() error { return f.cause }

func problem(status int, code, format string, args ...any) *failure {
	return &failure{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (f *failure) because(err error) *failure {
	f.cause = err
	return f
}

// writeJSON answers with one JSON value. Of a client that went away nobody needs
// to know.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = render.JSON(w, v)
}
