-- What reports count. Store.grouped fills in what a report groups by:
-- BY_COLUMNS are the columns, each with a comma behind it, BY_THEN the same as
-- history has them, BY_NAMES the names they were given, BY_NUMBERS the places
-- of all of them and of the one that follows.

-- name: outcome_counts
-- Entries that did not change after the moment stand as they did then. Of the
-- others the history tells: the last row up to that moment. Nothing is active
-- before it is received, so the condition on last activity loses none; it has
-- the index.
SELECT BY_COLUMNS e.class AS class, count(*) AS entries,
       CAST(sum(CASE WHEN e.flags <> '' THEN 1 ELSE 0 END) AS bigint) AS flagged
  FROM entry AS e
 WHERE e.received_at >= :since AND e.received_at < :until
   AND e.last_activity_at >= :since AND e.last_activity_at <= :as_of
   AND {matches}
 GROUP BY BY_NUMBERS
 UNION ALL
SELECT BY_THEN COALESCE(h.class, e.class) AS class, count(*) AS entries,
       CAST(sum(CASE WHEN COALESCE(h.flags, e.flags) <> '' THEN 1 ELSE 0 END) AS bigint) AS flagged
  FROM entry AS e
  LEFT JOIN {as it stood}
 WHERE e.received_at >= :since AND e.received_at < :until
   AND e.last_activity_at > :as_of
   AND {matches}
 GROUP BY BY_NUMBERS

-- fragment: as it stood (postgres)
-- Joined as below, the planner would read all of history for a few entries.
LATERAL (SELECT x.class, x.flags, x.owner, x.to_state, x.outcome FROM history AS x
                 WHERE x.entry_id = e.id AND x.at <= :as_of
                 ORDER BY x.history_no DESC LIMIT 1) AS h ON true

-- fragment: as it stood (sqlite)
history AS h ON h.entry_id = e.id AND h.history_no = (SELECT x.history_no FROM history AS x
                                     WHERE x.entry_id = e.id AND x.at <= :as_of
                                     ORDER BY x.history_no DESC LIMIT 1)

-- name: reason_counts
-- The reasons there are, one step of the index for each; then the failures of
-- each in this window and in the one before.
WITH RECURSIVE r (reason_id) AS (
  SELECT min(a.reason_id) FROM attempt AS a WHERE a.reason_id <> ''
  UNION ALL
  SELECT (SELECT min(a.reason_id) FROM attempt AS a WHERE a.reason_id <> '' AND a.reason_id > r.reason_id)
    FROM r WHERE r.reason_id IS NOT NULL
)
SELECT BY_NAMES g.reason_id, g.version, g.connector, g.operation, g.class, g.code, g.reason_text, g.rules_version,
       g.failures, g.previous, g.uncertain, g.high_risk, g.last_seen,
       (SELECT min(f.result_at) FROM attempt AS f WHERE f.reason_id = g.reason_id AND f.reason_id <> '') AS first_seen,
       COALESCE((SELECT y.action_key FROM entry AS y WHERE y.id = g.sample), '') AS sample_key
  FROM (
    SELECT BY_COLUMNS a.reason_id AS reason_id, e.workflow_version AS version,
           min(e.connector) AS connector, min(e.operation) AS operation,
           min(CASE WHEN a.reason_class = '' THEN a.class ELSE a.reason_class END) AS class,
           min(CASE WHEN a.reason_class = '' THEN a.code ELSE a.reason_code END) AS code,
           min(a.reason_text) AS reason_text, max(a.rules_version) AS rules_version,
           CAST(sum(CASE WHEN a.result_at >= :since THEN 1 ELSE 0 END) AS bigint) AS failures,
           CAST(sum(CASE WHEN a.result_at < :since THEN 1 ELSE 0 END) AS bigint) AS previous,
           CAST(sum(CASE WHEN a.result_at >= :since AND (a.effect = 'unknown' OR a.effect_at > :as_of) THEN 1 ELSE 0 END) AS bigint) AS uncertain,
           CAST(sum(CASE WHEN a.result_at >= :since AND e.risk = 'high' THEN 1 ELSE 0 END) AS bigint) AS high_risk,
           max(CASE WHEN a.result_at >= :since THEN a.result_at ELSE 0 END) AS last_seen,
           max(CASE WHEN a.result_at >= :since THEN e.id ELSE 0 END) AS sample
      FROM r
      JOIN attempt AS a ON a.reason_id = r.reason_id AND a.reason_id <> '' AND a.result_at >= :before AND a.result_at < :until
      JOIN entry AS e ON e.id = a.entry_id
     WHERE {matches}
     GROUP BY BY_NUMBERS, e.workflow_version
  ) AS g

-- name: queue_counts
-- What waits for a person or a condition, as it stood at the moment. Each kind
-- of what has not changed since has an index of its own; the sum keeps the
-- planner from the index on activity, which would give it nearly everything.
WITH g AS (
  SELECT BY_COLUMNS e.id AS id, 'escalated' AS waits, e.flags AS flags, e.owner AS owner
    FROM entry AS e
   WHERE e.due_at > 0 AND e.last_activity_at + 0 <= :as_of AND {matches}
   UNION ALL
  SELECT BY_COLUMNS e.id AS id, 'deferred' AS waits, e.flags AS flags, e.owner AS owner
    FROM entry AS e
   WHERE e.work <> '' AND e.work = 'release' AND e.last_activity_at + 0 <= :as_of AND {matches}
   UNION ALL
  SELECT BY_COLUMNS e.id AS id, 'flagged' AS waits, e.flags AS flags, e.owner AS owner
    FROM entry AS e
   WHERE e.flags <> '' AND e.state NOT IN ('escalated', 'deferred') AND e.last_activity_at + 0 <= :as_of AND {matches}
   UNION ALL
  SELECT BY_THEN e.id AS id, CASE WHEN h.to_state IN ('escalated', 'deferred') THEN h.to_state ELSE 'flagged' END AS waits,
         h.flags AS flags, h.owner AS owner
    FROM entry AS e
    JOIN {as it stood}
   WHERE e.last_activity_at > :as_of AND e.received_at <= :as_of
     AND (h.to_state IN ('escalated', 'deferred') OR h.flags <> '')
     AND {matches}
), came AS MATERIALIZED (
  -- With the row of history with which it came to wait.
  SELECT BY_NAMES g.id, g.waits, g.flags, g.owner,
         CASE g.waits
           WHEN 'flagged' THEN 1 + COALESCE((SELECT max(x.history_no) FROM history AS x
                                              WHERE x.entry_id = g.id AND x.at <= :as_of AND x.flags = ''), 0)
           ELSE (SELECT max(x.history_no) FROM history AS x
                  WHERE x.entry_id = g.id AND x.at <= :as_of AND x.to_state = g.waits AND x.from_state <> g.waits)
         END AS came
    FROM g
), queue AS MATERIALIZED (
  SELECT BY_NAMES g.waits, g.flags,
         (SELECT min(x.at) FROM history AS x WHERE x.entry_id = g.id AND x.history_no >= g.came) AS since,
         CASE g.waits
           -- A reminder gives an owner a later time; the first one is what was promised.
           WHEN 'escalated' THEN (SELECT min(x.due_at) FROM history AS x
                                   WHERE x.entry_id = g.id AND x.history_no >= g.came AND x.at <= :as_of
                                     AND x.owner = g.owner AND x.due_at > 0)
           WHEN 'deferred' THEN (SELECT x.due_at FROM history AS x WHERE x.entry_id = g.id AND x.at <= :as_of
                                  ORDER BY x.history_no DESC LIMIT 1)
           ELSE 0 END AS due
    FROM came AS g
)
SELECT BY_NAMES g.waits, count(*) AS entries,
       CAST(sum(CASE WHEN g.flags <> '' THEN 1 ELSE 0 END) AS bigint) AS flagged,
       CAST(sum(CASE WHEN g.due > 0 AND g.due <= :as_of THEN 1 ELSE 0 END) AS bigint) AS overdue,
       COALESCE(min(g.since), 0) AS oldest,
       COALESCE(min(CASE WHEN g.due > :as_of THEN g.due END), 0) AS due_next
  FROM queue AS g
 GROUP BY BY_NUMBERS
