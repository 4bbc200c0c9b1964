package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/recovery-ledger/reconcile/ledger"
)

// The connector and operation of all records.
const (
	connectorName = "bench"
	operationName = "thing.create"
)

// payload is what one record carries: about the size of a small form.
func payload(n int) string {
	return fmt.Sprintf(`{"reference":"run_%d:create","email":"person%d@example.org","amount":"%d.90","note":"a line of free text"}`, n, n, n%1000)
}

// writeRecords writes n records as JSON Lines: six of ten succeeded, the others
// ended without an answer. It returns the size of the file.
func writeRecords(path string, n int) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	at := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	for i := range n {
		result := `"status":"ok","http_status":201,"remote_id":"r` + fmt.Sprint(i) + `"`
		if i%10 >= 6 {
			result = `"status":"error","http_status":504,"error_class":"timeout","message":"upstream timed out after 30 s"`
		}
		// A failed write is kept by the writer, and told by Flush.
		fmt.Fprintf(w, `{"action_key":"run_%d:create","workflow":"intake","workflow_version":"7","connector":"%s","operation":"%s",`+
			`"record_id":"form-%d","subject":"person%d@example.org","owner":"ops","occurred_at":"%s","payload":%s,`+
			`"attempts":[{"attempt_id":"a1","started_at":"%s","finished_at":"%s",%s}]}`+"\n",
			i, connectorName, operationName, i, i, at, payload(i), at, at, result)
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), f.Close()
}

// reported makes the records from..to, all with the attempt given.
func reported(prefix string, from, to int, at ledger.RecordAttempt) []ledger.Record {
	recs := make([]ledger.Record, 0, to-from)
	for i := from; i < to; i++ {
		key := fmt.Sprintf("%s_%d:create", prefix, i)
		a := at
		a.AttemptID = key + "/1"
		if a.Status == ledger.AttemptOK {
			a.RemoteID = fmt.Sprintf("r%d", i)
		}
		recs = append(recs, ledger.Record{
			ActionKey: key, Workflow: "intake", WorkflowVersion: "7", RunID: key, StepID: "create",
			Connector: connectorName, Operation: operationName, RecordID: fmt.Sprintf("form-%d", i), Subject: fmt.Sprintf("person%d@example.org", i),
			OccurredAt: at.StartedAt, Payload: []byte(payload(i)), Attempts: []ledger.RecordAttempt{a},
		})
	}
	return recs
}
