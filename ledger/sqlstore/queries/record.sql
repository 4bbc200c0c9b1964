-- name: entry_lock_keys
SELECT {e.entry}, e.history_count
  FROM entry AS e
 WHERE e.action_key {any key}
 ORDER BY e.action_key
 {lock}

-- name: entry_ids (postgres)
-- One row, and the sequence looked up once.
SELECT string_agg(CAST(nextval(s.id) AS text), ',')
  FROM (SELECT CAST(pg_get_serial_sequence('entry', 'id') AS regclass) AS id OFFSET 0) AS s, generate_series(1, CAST(:n AS integer))

-- name: entry_ids (sqlite)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n)
SELECT group_concat(COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'entry'), 0) + i) FROM n

-- name: entry_new (postgres)
COPY entry ({new}) FROM STDIN

-- name: entry_new (sqlite)
INSERT INTO entry ({new}) SELECT {n.new} FROM {rows new}

-- name: entry_update
UPDATE entry SET ({change}) = ({n.change}),
       fencing_token = entry.fencing_token + n.raise,
       lease_holder = CASE WHEN n.raise = 1 THEN '' ELSE entry.lease_holder END,
       lease_until = CASE WHEN n.raise = 1 THEN 0 ELSE entry.lease_until END,
       mark_until = CASE WHEN n.state = 'in_flight' THEN entry.mark_until ELSE 0 END,
       history_count = entry.history_count + n.added
  FROM {rows update}
 WHERE entry.id = n.id AND entry.fencing_token = n.token AND entry.state = n.from_state
RETURNING entry.id

-- name: key_owners
WITH u AS (SELECT n.connector, n.operation, n.key FROM {rows use})
SELECT u.connector, u.operation, u.key, e.action_key
  FROM u
  JOIN entry AS e ON e.connector = u.connector AND e.operation = u.operation AND e.key_guard = u.key
 WHERE e.key_guard <> ''
UNION ALL
SELECT u.connector, u.operation, u.key, e.action_key
  FROM u
  JOIN entry_key AS k ON k.connector = u.connector AND k.operation = u.operation AND k.key = u.key
  JOIN entry AS e ON e.id = k.entry_id

-- name: any_key
SELECT 1 FROM entry_key LIMIT 1

-- name: key_add
INSERT INTO entry_key (connector, operation, key, entry_id)
SELECT n.connector, n.operation, n.key, n.entry_id FROM {rows key} ORDER BY n.key

-- name: attempts
SELECT {attempt} FROM attempt AS e WHERE e.entry_id {any id} ORDER BY e.entry_id, e.attempt_no, e.attempt_id

-- name: attempt_new (postgres)
COPY attempt ({attempt}) FROM STDIN

-- name: attempt_new (sqlite)
INSERT INTO attempt ({attempt}) SELECT {n.attempt} FROM {rows attempt}

-- name: attempt_put
-- Decided under the entry's row lock: it replaces what was there.
INSERT INTO attempt ({attempt}) SELECT {n.attempt} FROM {rows attempt} WHERE 1 = 1
ON CONFLICT (entry_id, attempt_id) DO UPDATE SET {attempt result}

-- name: attempt_learn
-- Learned by a worker whose knowledge may be older than what is stored. What
-- is known to be done stays done, and a result is not replaced by "started".
INSERT INTO attempt ({attempt}) SELECT {n.attempt} FROM {rows attempt} WHERE 1 = 1
ON CONFLICT (entry_id, attempt_id) DO UPDATE SET {attempt result}
 WHERE excluded.effect = 'done'
    OR attempt.effect = 'unknown' AND (excluded.status <> 'started' OR attempt.status = 'started')
    OR attempt.effect = 'not_done' AND excluded.effect = 'not_done'

-- fragment: attempt result
-- A failure that turns out well keeps its reason, and what the reason was made
-- of: the week it was counted in shows it still.
    started_at = excluded.started_at, finished_at = excluded.finished_at, http_status = excluded.http_status,
    sends = excluded.sends, send_by = excluded.send_by, final = excluded.final,
    counts = excluded.counts, replayed = excluded.replayed, key_spent = excluded.key_spent, status = excluded.status,
    effect = excluded.effect, class = excluded.class, code = excluded.code, message = excluded.message,
    retry_after = excluded.retry_after, remote_id = excluded.remote_id, rule = excluded.rule,
    result_at = CASE WHEN attempt.result_at <> 0 THEN attempt.result_at ELSE excluded.result_at END,
    effect_at = CASE WHEN attempt.effect = excluded.effect THEN attempt.effect_at ELSE excluded.effect_at END,
    attempt_key = excluded.attempt_key,
    reason_text = CASE WHEN {same reason} THEN attempt.reason_text ELSE excluded.reason_text END,
    rules_version = CASE WHEN {same reason} THEN attempt.rules_version ELSE excluded.rules_version END,
    reason_class = CASE WHEN NOT {same reason} THEN excluded.class WHEN attempt.reason_class = '' THEN attempt.class ELSE attempt.reason_class END,
    reason_code = CASE WHEN NOT {same reason} THEN excluded.code WHEN attempt.reason_class = '' THEN attempt.code ELSE attempt.reason_code END,
    reason_id = CASE WHEN {same reason} THEN attempt.reason_id ELSE excluded.reason_id END

-- fragment: same reason
(excluded.reason_id IN ('', attempt.reason_id))

-- name: evidence_void
UPDATE evidence SET void = 1 WHERE counted = 1 AND void = 0 AND entry_id {any id}

-- name: evidence_add
INSERT INTO evidence ({evidence}) SELECT {n.evidence} FROM {rows evidence} WHERE 1 = 1
ON CONFLICT (entry_id, asked_at, finding, digest) DO NOTHING

-- name: history_add (postgres)
COPY history ({history}) FROM STDIN

-- name: history_add (sqlite)
INSERT INTO history ({history}) SELECT {n.history} FROM {rows history}

-- fragment: holds
-- An entry h that keeps its siblings from being sent.
h.outcome <> 'not_applied' AND (h.effect <> 'not_done' OR h.state = 'in_flight' OR h.outcome = 'applied')

-- name: holder_take
INSERT INTO outcome_holder (outcome_key, entry_id, taken_at)
SELECT n.outcome_key, n.entry_id, n.taken_at FROM {rows holder} WHERE 1 = 1
ON CONFLICT (outcome_key) DO UPDATE SET
    taken_at = CASE WHEN {held by another} THEN outcome_holder.taken_at ELSE excluded.taken_at END,
    entry_id = CASE WHEN {held by another} THEN outcome_holder.entry_id ELSE excluded.entry_id END

-- name: holder_locks
-- Locks outcome keys; whoever holds one goes on holding it.
INSERT INTO outcome_holder (outcome_key, entry_id, taken_at)
SELECT n.outcome_key, n.entry_id, n.taken_at FROM {rows holder} WHERE 1 = 1
ON CONFLICT (outcome_key) DO UPDATE SET outcome_key = excluded.outcome_key

-- name: way_locks (postgres)
-- In the order of the numbers; two ways of one number wait for each other needlessly.
SELECT pg_advisory_xact_lock(w.h)
  FROM (SELECT DISTINCT hashtextextended(k, 0) AS h FROM unnest(CAST(:keys AS text[])) AS k ORDER BY 1) AS w

-- name: way_locks (sqlite)
-- A transaction that writes has the database to itself.
SELECT 1 WHERE :keys = ''

-- name: held
-- Who holds sends: of the whole ledger ('') and of lanes.
SELECT '', m.value FROM meta AS m WHERE m.name = 'held' AND m.value <> ''
UNION ALL
SELECT l.name, l.held_by FROM lane AS l WHERE l.held = 1

-- fragment: held by another
EXISTS (SELECT 1 FROM entry AS h WHERE h.id = outcome_holder.entry_id AND {holds})
