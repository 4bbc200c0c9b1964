-- name: entries_lock (postgres)
-- What follows is several statements about one set of entries: nobody may move
-- one into it or out of it between them. Reading goes on.
LOCK TABLE entry IN EXCLUSIVE MODE

-- name: entries_lock (sqlite)
-- A transaction that writes has the database to itself.
SELECT 1

-- name: generation_lock
SELECT CAST(m.value AS bigint) FROM meta AS m WHERE m.name = 'generation' {lock}

-- name: generation_set
UPDATE meta SET value = CASE name WHEN 'generation' THEN CAST(CAST(:generation AS bigint) AS text)
                                  WHEN 'timeline' THEN {timeline} ELSE {system} END
 WHERE name IN ('generation', 'timeline', 'system_identifier')

-- fragment: open due
-- Open, and due or at work: what a claim of the lost span may have been about.
e.state <> 'settled' AND (e.work <> '' AND e.next_at <= CAST(:now AS bigint) OR e.lease_until > 0 OR e.state = 'in_flight')

-- name: lost_attempts
-- What may have been sent in the span that was lost, by whomever.
INSERT INTO attempt (entry_id, attempt_id, attempt_no, started_at, received_at, result_at, effect_at, sends, send_by,
                     ours, status, effect, class, code, rule, attempt_key)
SELECT e.id, :attempt_id, e.attempts + 1, CAST(:now AS bigint), CAST(:now AS bigint), CAST(:now AS bigint), CAST(:now AS bigint),
       0, CAST(:send_by AS bigint), 1, 'unknown', 'unknown', 'unknown', 'generation', 'generation', e.provider_key
  FROM entry AS e
 WHERE {open due}
ON CONFLICT (entry_id, attempt_id) DO NOTHING

-- name: lost_history
INSERT INTO history (entry_id, history_no, at, from_state, to_state, outcome, class, flags, due_at, reason, owner, actor, policy_version, note)
SELECT e.id, e.history_count + 1, CAST(:now AS bigint), e.state,
       CASE WHEN e.state IN ('retryable', 'ready', 'deferred') THEN 'ambiguous' ELSE e.state END,
       e.outcome, CASE WHEN e.state = 'deferred' THEN 'waiting' ELSE e.class END, e.flags, e.due_at,
       'generation', e.owner, 'reconcile', e.policy_version, :note
  FROM entry AS e
 WHERE {open due}

-- name: lost_entries
UPDATE entry AS e SET
       -- In doubt from now on, however long ago it came.
       effect = 'unknown', reason = 'generation', attempts = attempts + 1, history_count = history_count + 1, settle_from = CAST(:now AS bigint),
       send_by = {greatest}(send_by, CAST(:send_by AS bigint)),
       -- It cannot have been sent before it was known.
       first_sent_at = CASE WHEN first_sent_at = 0 THEN received_at ELSE first_sent_at END,
       key_sent_at = CASE WHEN key_sent_at = 0 THEN received_at ELSE key_sent_at END,
       last_activity_at = CAST(:now AS bigint),
       class = CASE WHEN state = 'deferred' THEN 'waiting' ELSE class END,
       work = 'look', next_at = CAST(:now AS bigint),
       cleared_until = 0, release_kind = '', release_ref = '', release_at = 0, release_to = '',
       looks_in_row = 0, negatives = 0, mark_until = 0,
       state = CASE WHEN state IN ('retryable', 'ready', 'deferred') THEN 'ambiguous' ELSE state END
 WHERE {open due}

-- name: claims_void
-- A claim that was lost with its token must not find its number again: the
-- tokens leap.
UPDATE entry SET fencing_token = fencing_token + 1000000, lease_holder = '', lease_until = 0 WHERE state <> 'settled' OR work <> ''

-- name: negatives_void
UPDATE evidence SET void = 1
 WHERE counted = 1 AND void = 0 AND entry_id IN (SELECT e.id FROM entry AS e WHERE e.state <> 'settled')

-- name: void_history
INSERT INTO history (entry_id, history_no, at, from_state, to_state, outcome, class, flags, due_at, reason, owner, actor, policy_version, note)
SELECT e.id, e.history_count + 1, CAST(:now AS bigint), e.state, e.state, e.outcome, e.class, e.flags,
       CASE WHEN e.state = 'deferred' THEN e.release_at ELSE e.due_at END,
       e.reason, e.owner, 'reconcile', e.policy_version, :note
  FROM entry AS e
 WHERE e.state <> 'settled' AND e.negatives > 0

-- name: quiet_again
UPDATE entry SET
       history_count = history_count + CASE WHEN negatives > 0 THEN 1 ELSE 0 END,
       negatives = 0, last_negative_at = 0, last_look_at = 0,
       send_by = CASE WHEN effect = 'unknown' AND send_by < CAST(:now AS bigint) THEN CAST(:now AS bigint) ELSE send_by END
 WHERE state <> 'settled'
