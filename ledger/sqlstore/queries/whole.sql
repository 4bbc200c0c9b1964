-- What belongs to many entries, for an export.

-- name: evidence_of
SELECT {evidence} FROM evidence AS e WHERE e.entry_id {any id} ORDER BY e.entry_id, e.asked_at, e.seen_at, e.finding, e.digest

-- name: history_of
SELECT {history} FROM history AS e WHERE e.entry_id {any id} ORDER BY e.entry_id, e.history_no
