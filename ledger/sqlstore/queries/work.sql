-- fragment: due
-- Due entries of one lane and kind of work that nobody has leased.
e.lane = :lane AND e.work = :work AND e.work <> ''
   AND e.next_at <= CAST(:due_until AS bigint)
   AND e.lease_until <= CAST(:now AS bigint)
   AND (e.next_at, e.action_key) > (CAST(:after_at AS bigint), :after_key)
   AND {matches} AND {window}

-- name: claim_time (postgres)
-- It also keeps this transaction to the indexes: before a table that has grown
-- fast was analyzed, a join by key is planned as a scan of all that is settled.
SELECT {now} AS now,
       CASE WHEN {same server} THEN 1 ELSE 0 END AS same,
       (SELECT CAST(g.value AS bigint) FROM meta AS g WHERE g.name = 'generation') AS generation
  FROM (SELECT set_config('enable_seqscan', 'off', true)) AS planner

-- name: claim_time (sqlite)
SELECT {now} AS now,
       CASE WHEN {same server} THEN 1 ELSE 0 END AS same,
       (SELECT CAST(g.value AS bigint) FROM meta AS g WHERE g.name = 'generation') AS generation

-- name: claim
WITH due (due_id) AS (
    SELECT e.id FROM entry AS e
     WHERE {due} AND {same server}
     ORDER BY e.next_at, e.action_key
     LIMIT :limit
     {skip locked})
UPDATE entry SET fencing_token = fencing_token + 1, lease_holder = :holder,
       lease_until = CAST(:lease_until AS bigint), generation = CAST(:generation AS bigint)
 WHERE id IN (SELECT due_id FROM due)
RETURNING {entry}

-- name: peek
SELECT {e.entry}
  FROM entry AS e
 WHERE {due}
 ORDER BY e.next_at, e.action_key
 LIMIT :limit

-- name: lease_lock
-- In the order in which apply_lock locks, so that the two do not wait for each
-- other in a ring.
SELECT e.id FROM entry AS e WHERE e.id {any id} ORDER BY e.id {lock}

-- name: renew
UPDATE entry SET lease_until = n.until
  FROM {rows lease}
 WHERE entry.id = n.id AND entry.fencing_token = n.token AND entry.lease_holder = n.holder
RETURNING entry.id, entry.fencing_token

-- name: release
UPDATE entry SET lease_until = 0, lease_holder = ''
  FROM {rows lease}
 WHERE entry.id = n.id AND entry.fencing_token = n.token AND entry.lease_holder = n.holder
RETURNING entry.id, entry.fencing_token

-- name: due
SELECT e.lane, e.work,
       CAST(sum(CASE WHEN {window} AND e.lease_until <= CAST(:now AS bigint) THEN 1 ELSE 0 END) AS bigint) AS due,
       CAST(sum(CASE WHEN {window} AND e.lease_until > CAST(:now AS bigint) THEN 1 ELSE 0 END) AS bigint) AS leased,
       CAST(sum(CASE WHEN {window} THEN 0 ELSE 1 END) AS bigint) AS outside,
       COALESCE(min(CASE WHEN {window} THEN NULL ELSE {activity} END), 0) AS oldest_at
  FROM entry AS e
 WHERE e.work <> '' AND e.next_at <= CAST(:now AS bigint) AND {matches}
 GROUP BY e.lane, e.work
 ORDER BY e.lane, e.work

-- name: overdue
SELECT {e.entry}
  FROM entry AS e
 WHERE e.due_at > 0 AND e.due_at <= CAST(:now AS bigint) AND e.state = 'escalated' AND {matches} AND {window}
 ORDER BY e.due_at, e.action_key
 LIMIT :limit
