-- fragment: sibling columns
h.action_key, h.state, h.effect, h.outcome, h.remote_id, h.settled_at

-- fragment: same record
l.connector = e.connector AND l.operation = e.operation
            AND substr(l.record_id, 1, 128) = substr(e.record_id, 1, 128) AND l.record_id = e.record_id

-- fragment: same content
substr(l.payload_digest, 1, 16) = substr(e.payload_digest, 1, 16) AND l.payload_digest = e.payload_digest

-- fragment: may be alike
-- Two that give neither record nor payload are not equal: nothing is known of them.
e.outcome_key = '' AND (e.record_id <> '' OR e.payload_digest <> '')

-- fragment: l is newer
-- By when they came; the numbers of a ledger that was imported say nothing.
(l.received_at, l.id) > (e.received_at, e.id)

-- fragment: l is older
(l.received_at, l.id) < (e.received_at, e.id)

-- fragment: sent or applied
-- A change l, or perhaps.
(l.send_count > 0 OR l.effect <> 'not_done' OR l.state = 'in_flight' OR l.outcome = 'applied')

-- fragment: ordered
-- Changes that e's operation makes of one record are ordered, as o notes
-- (ledger.MetaOrder).
o.name = 'in_order/' || e.connector || '/' || e.operation AND o.value <> '' AND e.record_id <> ''

-- fragment: may still land
l.effect = 'unknown' AND l.send_by + CAST(NULLIF(o.value, '') AS bigint) > t.now

-- fragment: out of order
-- Another change of the entry's record comes first, as it may still land, or
-- came after it.
EXISTS (SELECT 1
          FROM entry AS e
          JOIN meta AS o ON {ordered}
          JOIN entry AS l ON {same record}
         WHERE e.id = entry.id AND ({l is newer} AND {sent or applied} OR {l is older} AND {may still land}))

-- fragment: look alike begun
-- An equal action was begun meanwhile, or is in doubt.
EXISTS (SELECT 1
          FROM entry AS e
          JOIN entry AS l ON {same record} AND {same content} AND l.settled_at = 0
         WHERE e.id = entry.id AND {may be alike} AND l.id <> e.id AND l.effect <> 'not_done' AND l.state NOT IN ('retryable', 'ready'))

-- name: siblings
-- By outcome: all of them, but no more than fifty an entry, those first that
-- matter. By record: one of a kind is enough to be in the way.
WITH t (now) AS MATERIALIZED (SELECT {now})
SELECT x.id, x.kind, x.action_key, x.state, x.effect, x.outcome, x.remote_id, x.settled_at, x.holder
  FROM (SELECT e.id, 'outcome' AS kind, {sibling columns},
               CASE WHEN k.entry_id = h.id AND {holds} THEN 1 ELSE 0 END AS holder,
               row_number() OVER (PARTITION BY e.id ORDER BY
                   CASE WHEN {holds} THEN 0 ELSE 1 END, CASE WHEN k.entry_id = h.id THEN 0 ELSE 1 END, h.id) AS place
          FROM entry AS e
          JOIN entry AS h ON h.outcome_key = e.outcome_key AND h.id <> e.id
          LEFT JOIN outcome_holder AS k ON k.outcome_key = e.outcome_key
         WHERE e.id {any id} AND e.outcome_key <> '' AND h.outcome_key <> '') AS x
 WHERE x.place <= 50
UNION ALL
-- Older, and still open; or newer, and perhaps done.
SELECT e.id, 'look_alike', {sibling columns}, 0
  FROM entry AS e
  JOIN entry AS h ON h.id = (SELECT l.id FROM entry AS l
         WHERE {same record} AND {same content} AND l.settled_at = 0 AND l.id <> e.id
           AND ({l is older} OR l.effect <> 'not_done' AND l.state NOT IN ('retryable', 'ready')) LIMIT 1)
 WHERE e.id {any id} AND {may be alike}
UNION ALL
-- Applied since this one came: it was open then.
SELECT e.id, 'look_alike', {sibling columns}, 0
  FROM entry AS e
  JOIN entry AS h ON h.id = (SELECT l.id FROM entry AS l
         WHERE {same record} AND {same content} AND l.settled_at >= e.received_at AND l.settled_at > 0
           AND l.outcome = 'applied' AND l.id <> e.id
         ORDER BY l.settled_at LIMIT 1)
 WHERE e.id {any id} AND {may be alike}
UNION ALL
-- Newer on the same record, where that matters, and sent or applied.
SELECT e.id, 'record', {sibling columns}, 0
  FROM entry AS e
  JOIN meta AS o ON {ordered}
  JOIN entry AS h ON h.id = (SELECT l.id FROM entry AS l
         WHERE {same record} AND {l is newer} AND {sent or applied}
         ORDER BY l.received_at DESC, l.id DESC LIMIT 1)
 WHERE e.id {any id}
UNION ALL
-- Older on the same record, where that matters, and perhaps on its way.
SELECT e.id, 'earlier', {sibling columns}, 0
  FROM entry AS e
  CROSS JOIN t
  JOIN meta AS o ON {ordered}
  JOIN entry AS h ON h.id = (SELECT l.id FROM entry AS l
         WHERE {same record} AND {l is older} AND {may still land} LIMIT 1)
 WHERE e.id {any id}
