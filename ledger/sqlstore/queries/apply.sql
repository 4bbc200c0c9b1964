-- name: apply_lock
SELECT {e.stands}, e.history_count
  FROM entry AS e
 WHERE e.id {any id}
 ORDER BY e.id
 {lock}

-- name: apply
UPDATE entry SET ({standing}) = ({n.standing}),
       lease_holder = CASE WHEN n.keep = 1 THEN entry.lease_holder ELSE '' END,
       lease_until = CASE WHEN n.keep = 1 THEN entry.lease_until ELSE 0 END,
       mark_until = CASE WHEN n.state = 'in_flight' THEN entry.mark_until ELSE 0 END,
       history_count = entry.history_count + n.added
  FROM {rows apply}
 WHERE entry.id = n.id AND entry.fencing_token = n.token AND entry.state = n.from_state
RETURNING entry.id

-- name: start_lock
SELECT {e.stands}, e.history_count, e.outcome_key, e.connector, e.operation, e.record_id, e.payload_digest
  FROM entry AS e
 WHERE e.id = :id
 {lock}

-- name: start_lane_lock
SELECT l.held FROM lane AS l WHERE l.name = :lane {lock}

-- name: lane_new
INSERT INTO lane (name) VALUES (:lane) ON CONFLICT (name) DO NOTHING

-- name: holder_lock
-- Two updates guarded by "no sibling is in flight" would both succeed: neither
-- sees the other. Here the second waits for the first, and then sees it.
INSERT INTO outcome_holder (outcome_key, entry_id, taken_at) VALUES (:outcome_key, :id, 0)
ON CONFLICT (outcome_key) DO UPDATE SET outcome_key = excluded.outcome_key

-- name: holder_set
UPDATE outcome_holder SET entry_id = :id, taken_at = :at WHERE outcome_key = :outcome_key

-- fragment: generation holds
(SELECT CAST(g.value AS bigint) FROM meta AS g WHERE g.name = 'generation') = CAST(:generation AS bigint) AND {same server}

-- fragment: send held
EXISTS (SELECT 1 FROM meta AS x WHERE x.name = 'held' AND x.value <> '')
    OR EXISTS (SELECT 1 FROM lane AS l WHERE l.name = entry.lane AND l.held = 1)

-- fragment: sibling holds
entry.outcome_key <> '' AND EXISTS (SELECT 1 FROM entry AS h
        WHERE h.outcome_key = entry.outcome_key AND h.outcome_key <> '' AND h.id <> entry.id AND {holds})
    OR {out of order}
    OR CAST(:repeats AS bigint) = 0 AND {look alike begun}

-- fragment: marks
-- Calls under way on the entry's lane.
(SELECT count(*) FROM entry AS m
        WHERE m.lane = entry.lane AND m.mark_until > t.now AND m.mark_until > 0 AND m.state = 'in_flight' AND m.id <> entry.id)

-- name: start
WITH t (now) AS MATERIALIZED (SELECT {now})
UPDATE entry SET ({start}) = ({n.start}),
       next_at = {greatest}(CAST(:next_at AS bigint), t.now + CAST(:timeout AS bigint), t.now + CAST(:lease AS bigint)),
       last_tried_at = t.now,
       first_sent_at = CASE WHEN CAST(:first_sent_at AS bigint) = 0 THEN t.now ELSE CAST(:first_sent_at AS bigint) END,
       key_sent_at = CASE WHEN CAST(:key_sent_at AS bigint) = 0 THEN t.now ELSE CAST(:key_sent_at AS bigint) END,
       send_by = CASE WHEN CAST(:timeout AS bigint) > 0
                      THEN {greatest}(CAST(:send_by AS bigint), t.now + CAST(:timeout AS bigint))
                      ELSE CAST(:send_by AS bigint) END,
       last_activity_at = t.now,
       lease_until = t.now + CAST(:lease AS bigint),
       mark_until = CASE WHEN CAST(:timeout AS bigint) > 0 THEN t.now + CAST(:timeout AS bigint) ELSE 0 END,
       history_count = entry.history_count + 1
  FROM t, {row start}
 WHERE entry.id = :id AND entry.fencing_token = :token AND entry.lease_holder = :holder AND entry.state = 'ready'
   AND entry.lease_until > t.now AND entry.cleared_until > t.now
   AND entry.generation = CAST(:generation AS bigint) AND {generation holds}
   AND NOT ({send held})
   AND NOT ({sibling holds})
   AND (CAST(:concurrent AS bigint) <= 0 OR {marks} < CAST(:concurrent AS bigint))
RETURNING last_activity_at, lease_until, next_at, first_sent_at, key_sent_at, send_by

-- name: start_why
-- What kept a start from being written: 1 where it did.
WITH t (now) AS MATERIALIZED (SELECT {now})
SELECT CASE WHEN entry.generation = CAST(:generation AS bigint) AND {generation holds} THEN 0 ELSE 1 END,
       CASE WHEN {same server} THEN 0 ELSE 1 END,
       CASE WHEN entry.fencing_token = :token AND entry.lease_holder = :holder AND entry.state = 'ready'
                 AND entry.lease_until > t.now THEN 0 ELSE 1 END,
       CASE WHEN entry.cleared_until > t.now THEN 0 ELSE 1 END,
       CASE WHEN {send held} THEN 1 ELSE 0 END,
       CASE WHEN {sibling holds} THEN 1 ELSE 0 END
  FROM entry, t
 WHERE entry.id = :id
