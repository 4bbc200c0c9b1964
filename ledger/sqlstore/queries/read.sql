-- fragment: matches
-- All of a ledger.Filter but its window.
(CAST(:workflow AS text) = '' OR e.workflow = CAST(:workflow AS text))
   AND (CAST(:connector AS text) = '' OR e.connector = CAST(:connector AS text))
   AND (CAST(:operation AS text) = '' OR e.operation = CAST(:operation AS text))
   AND (CAST(:state AS text) = '' OR e.state = CAST(:state AS text))
   AND (CAST(:class AS text) = '' OR e.class = CAST(:class AS text))
   AND (CAST(:owner AS text) = '' OR e.owner = CAST(:owner AS text))
   AND (CAST(:f_lane AS text) = '' OR e.lane = CAST(:f_lane AS text))
   AND (CAST(:reason AS text) = '' OR e.reason = CAST(:reason AS text)
        OR substr(e.reason, 1, length(CAST(:reason_detail AS text))) = CAST(:reason_detail AS text))
   AND (CAST(:flagged AS bigint) = 0 OR e.flags <> '')
   AND (CAST(:keyed AS bigint) = 0 OR e.action_key {any key})

-- fragment: activity
-- The latest of what happened, and of due times once passed.
{greatest}(e.last_activity_at,
           CASE WHEN e.next_at <= CAST(:now AS bigint) THEN e.next_at ELSE 0 END,
           CASE WHEN e.due_at <= CAST(:now AS bigint) THEN e.due_at ELSE 0 END)

-- fragment: window
(CAST(:since AS bigint) = 0 OR {activity} >= CAST(:since AS bigint))
   AND (CAST(:until AS bigint) = 0 OR {activity} < CAST(:until AS bigint))

-- fragment: recent
-- What the beginning of a window leaves, in a form that indexes can answer:
-- all that is open, and what is younger.
(CAST(:since AS bigint) = 0 OR e.last_activity_at >= CAST(:since AS bigint) OR e.work <> '' OR e.due_at > 0)

-- name: entry
SELECT {e.entry} FROM entry AS e WHERE e.action_key = :action_key

-- name: evidence
SELECT {evidence} FROM evidence WHERE entry_id = :id ORDER BY asked_at, seen_at, finding, digest

-- name: history
SELECT {history} FROM history WHERE entry_id = :id ORDER BY history_no

-- name: flagged_at
-- The first row of history after the last one without a flag.
SELECT e.entry_id, min(e.at)
  FROM history AS e
 WHERE e.entry_id {any id}
   AND e.history_no > COALESCE((SELECT max(x.history_no) FROM history AS x WHERE x.entry_id = e.entry_id AND x.flags = ''), 0)
 GROUP BY e.entry_id

-- name: entries
SELECT {e.listed}
  FROM entry AS e
 WHERE e.action_key > :after AND {matches} AND {recent} AND {window}
 ORDER BY e.action_key
 LIMIT :limit

-- name: entries_whole
SELECT {e.entry}
  FROM entry AS e
 WHERE e.action_key > :after AND {matches} AND {recent} AND {window}
 ORDER BY e.action_key
 LIMIT :limit

-- name: count
SELECT (SELECT count(*) FROM entry AS e WHERE {matches} AND {recent} AND {window}) AS matching,
       (SELECT count(*) FROM entry) AS total

-- name: control
SELECT {e.entry}
  FROM entry AS e
 WHERE e.connector = :connector AND e.operation = :operation AND e.outcome = 'applied' AND e.settled_at < :before
   AND e.settled_by <> 'person' AND e.flags = ''
 ORDER BY e.settled_at DESC, e.id DESC
 LIMIT 1
