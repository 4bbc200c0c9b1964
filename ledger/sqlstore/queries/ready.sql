-- name: read_only (postgres)
SELECT CASE WHEN pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on' THEN 1 ELSE 0 END

-- name: read_only (sqlite)
SELECT 0

-- name: waiting
-- Each part is counted in an index that holds what waits and nothing else.
SELECT (SELECT count(*) FROM entry AS e WHERE e.due_at > 0) AS escalated,
       (SELECT count(*) FROM entry AS e WHERE e.due_at > 0 AND e.due_at <= CAST(:now AS bigint)) AS overdue,
       (SELECT count(*) FROM entry AS e WHERE e.flags <> '') AS flagged
