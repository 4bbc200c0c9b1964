package demo

import (
	"encoding/json"
	"net/http"

	"github.com/recovery-ledger/reconcile/internal/workflow"
)

// client is the workflow's HTTP client.
func client(token string) *workflow.Client {
	return &workflow.Client{
		Timeout: callLimit,
		Header:  http.Header{"Authorization": {"Bearer " + token}},
		IDPath:  "id",
		Code: func(body []byte) (code, message string) {
			var e struct {
				Error struct{ Code, Message string }
			}
			// An answer that is no JSON has no code.
			_ = json.Unmarshal(body, &e)
			return e.Error.Code, e.Error.Message
		},
	}
}
