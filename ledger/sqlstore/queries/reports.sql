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

-- fragment: h duplicate
h.flags <> '' AND ',' || h.flags || ',' LIKE '%,duplicate,%'

-- fragment: x duplicate
x.flags <> '' AND ',' || x.flags || ',' LIKE '%,duplicate,%'

-- name: duplicates
-- The changes in the window that opened the flag.
SELECT BY_COLUMNS e.id, e.action_key, e.outcome_key, h.at, h.reason,
       CASE WHEN ',' || COALESCE((SELECT x.flags FROM history AS x WHERE x.entry_id = h.entry_id AND x.at <= :as_of
                                   ORDER BY x.history_no DESC LIMIT 1), '') || ',' LIKE '%,duplicate,%' THEN 1 ELSE 0 END AS still_open
  FROM history AS h
  JOIN entry AS e ON e.id = h.entry_id
 WHERE h.at >= :since AND h.at < :until AND h.at <= :as_of AND {h duplicate}
   AND NOT EXISTS (SELECT 1 FROM history AS x WHERE x.entry_id = h.entry_id AND x.history_no = h.history_no - 1 AND {x duplicate})
   AND {matches}

-- name: duplicate_others
-- Entries of the same outcome that were flagged for it too.
SELECT e.id, o.id, o.action_key
  FROM entry AS e
  JOIN entry AS o ON o.outcome_key = e.outcome_key AND o.outcome_key <> '' AND o.id <> e.id
 WHERE e.id {any id}
   AND EXISTS (SELECT 1 FROM history AS x WHERE x.entry_id = o.id AND x.at <= :as_of AND {x duplicate})
 ORDER BY e.id, o.id

-- Percentiles by nearest rank. SQLite has no aggregate for them, and takes them
-- from the ranks of the values.

-- fragment: ranks (postgres)

-- fragment: rank windows (postgres)

-- fragment: ranks (sqlite)
,
         row_number() OVER settling AS settle_rank, count(*) OVER (PARTITION BY BY_NAMES CASE WHEN g.settle_in IS NULL THEN 0 ELSE 1 END) AS settle_n,
         row_number() OVER recovering AS recover_rank, count(*) OVER (PARTITION BY BY_NAMES CASE WHEN g.recover_in IS NULL THEN 0 ELSE 1 END) AS recover_n

-- fragment: rank windows (sqlite)

  WINDOW settling AS (PARTITION BY BY_NAMES CASE WHEN g.settle_in IS NULL THEN 0 ELSE 1 END ORDER BY g.settle_in),
         recovering AS (PARTITION BY BY_NAMES CASE WHEN g.recover_in IS NULL THEN 0 ELSE 1 END ORDER BY g.recover_in)

-- fragment: recover p50 (postgres)
percentile_disc(0.50) WITHIN GROUP (ORDER BY g.recover_in)

-- fragment: recover p50 (sqlite)
min(CASE WHEN g.recover_rank * 100 >= g.recover_n * 50 THEN g.recover_in END)

-- fragment: recover p95 (postgres)
percentile_disc(0.95) WITHIN GROUP (ORDER BY g.recover_in)

-- fragment: recover p95 (sqlite)
min(CASE WHEN g.recover_rank * 100 >= g.recover_n * 95 THEN g.recover_in END)

-- fragment: settle p50 (postgres)
percentile_disc(0.50) WITHIN GROUP (ORDER BY g.settle_in)

-- fragment: settle p50 (sqlite)
min(CASE WHEN g.settle_rank * 100 >= g.settle_n * 50 THEN g.settle_in END)

-- fragment: settle p95 (postgres)
percentile_disc(0.95) WITHIN GROUP (ORDER BY g.settle_in)

-- fragment: settle p95 (sqlite)
min(CASE WHEN g.settle_rank * 100 >= g.settle_n * 95 THEN g.settle_in END)

-- name: recovery_counts
-- Entries received in the window, as they stood at the moment: those unchanged
-- since, then the others. What a row of history says does not change any more;
-- the time and ground of the settling stand there, as a correction overwrites
-- those of the entry. Nothing leaves settled, so an entry has one such row at
-- most; it has none where its first report settled it, or an export brought it.
WITH stood AS (
  SELECT BY_COLUMNS e.id AS id, e.received_at AS received_at, e.class AS class, e.outcome AS outcome, e.state AS state,
         -- Looked for only where there is one: a ledger begins with generation 1.
         CASE WHEN e.attempts = 0 OR (SELECT m.value FROM meta AS m WHERE m.name = 'generation') = '1' THEN e.attempts
              ELSE e.attempts - (SELECT count(*) FROM attempt AS a WHERE a.entry_id = e.id AND {a lost}) END AS tries
    FROM entry AS e
   WHERE e.received_at >= :since AND e.received_at < :until
     AND e.last_activity_at >= :since AND e.last_activity_at <= :as_of
     AND {matches}
   UNION ALL
  SELECT BY_THEN e.id AS id, e.received_at AS received_at, COALESCE(h.class, e.class) AS class, COALESCE(h.outcome, e.outcome) AS outcome,
         COALESCE(h.to_state, e.state) AS state,
         (SELECT count(*) FROM attempt AS a WHERE a.entry_id = e.id AND a.received_at <= :as_of AND NOT ({a lost})) AS tries
    FROM entry AS e
    LEFT JOIN {as it stood}
   WHERE e.received_at >= :since AND e.received_at < :until
     AND e.last_activity_at > :as_of
     AND {matches}
), told AS (
  SELECT BY_NAMES g.id, g.outcome, g.tries,
         CASE WHEN g.class IN ('permanently_failed', 'blocked', 'deferred', 'escalated', 'waiting', 'manually_resolved') THEN 0 ELSE 1 END AS recoverable,
         CASE WHEN g.class = 'permanently_failed' OR g.class = 'manually_resolved' AND g.outcome <> 'applied' THEN 1 ELSE 0 END AS failed,
         CASE WHEN f.entry_id IS NULL OR f.received_at > :as_of THEN 0
              WHEN f.result_at > 0 AND f.result_at <= :as_of OR g.state <> 'in_flight' THEN 1 ELSE 0 END AS tried,
         -- An answer that did not come while the entry has moved on is lost.
         CASE WHEN f.entry_id IS NULL OR f.received_at > :as_of THEN 0
              WHEN f.result_at > 0 AND f.result_at <= :as_of THEN CASE WHEN f.reason_id <> '' THEN f.result_at ELSE 0 END
              WHEN g.state <> 'in_flight' THEN f.received_at ELSE 0 END AS failed_at,
         CASE WHEN s.at > g.received_at THEN s.at - g.received_at ELSE CASE WHEN s.at IS NULL THEN NULL ELSE 0 END END AS settle_in,
         s.at AS settled_at,
         CASE WHEN substr(s.reason, 1, 5) = 'found' OR substr(s.reason, 1, 8) = 'reversed' THEN 1 ELSE 0 END AS by_look
    FROM stood AS g
    LEFT JOIN attempt AS f ON f.entry_id = g.id AND f.attempt_no = 1 AND NOT ({f lost})
    LEFT JOIN history AS s ON s.entry_id = g.id AND s.to_state = 'settled' AND s.from_state NOT IN ('', 'settled') AND s.at <= :as_of
), counted AS (
  SELECT BY_NAMES g.outcome, g.tries, g.tried, g.failed, g.settle_in,
         CASE WHEN g.failed_at > 0 THEN 1 ELSE 0 END AS first_failed,
         CASE WHEN g.failed_at > 0 AND g.tries > 1 THEN 1 ELSE 0 END AS retried,
         CASE WHEN g.failed_at > 0 AND g.tries > 1 AND g.recoverable = 1 THEN 1 ELSE 0 END AS recovered,
         CASE WHEN g.failed_at > 0 AND g.recoverable = 1 AND g.settled_at IS NOT NULL
              THEN CASE WHEN g.settled_at > g.failed_at THEN g.settled_at - g.failed_at ELSE 0 END END AS recover_in,
         CASE WHEN g.by_look = 1 AND g.recoverable = 1
               AND NOT EXISTS (SELECT 1 FROM history AS x WHERE x.entry_id = g.id AND x.at <= :as_of AND {x duplicate}) THEN 1 ELSE 0 END AS prevented
    FROM told AS g
), ranked AS (
  SELECT g.*{ranks} FROM counted AS g {rank windows}
)
SELECT BY_NAMES CAST('' AS text) AS whole, count(*) AS entries,
       CAST(sum(g.tried) AS bigint), CAST(sum(g.first_failed) AS bigint), CAST(sum(g.retried) AS bigint), CAST(sum(g.recovered) AS bigint),
       CAST(sum(CASE WHEN g.outcome = 'applied' THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN g.outcome = 'applied' THEN g.tries ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN g.outcome <> '' THEN 1 ELSE 0 END) AS bigint), CAST(sum(g.failed) AS bigint), CAST(sum(g.prevented) AS bigint),
       count(g.recover_in), count(g.settle_in),
       COALESCE({recover p50}, 0), COALESCE({recover p95}, 0), COALESCE({settle p50}, 0), COALESCE({settle p95}, 0)
  FROM ranked AS g
 GROUP BY BY_NUMBERS

-- name: look_counts
-- Looks of the window, and all looks of the entries that were settled in it.
-- Whatever was looked at or settled since the beginning is active since then.
WITH looked AS (
  SELECT BY_COLUMNS e.id AS id,
         sum(CASE WHEN v.seen_at >= :since AND v.seen_at < :until THEN 1 ELSE 0 END) AS looks,
         sum(CASE WHEN v.seen_at >= :since AND v.seen_at < :until AND v.finding = 'could_not_ask' THEN 1 ELSE 0 END) AS unasked,
         count(*) AS of_settled
    FROM entry AS e
    JOIN evidence AS v ON v.entry_id = e.id AND v.seen_at <= :as_of AND v.form <> 'person'
   WHERE e.last_activity_at >= :since AND e.received_at < :until AND e.looks_answered + e.looks_failed > 0
     AND {matches}
   GROUP BY BY_NUMBERS
), counted AS (
  -- Settled by something that came after its first report: once, as nothing
  -- leaves settled.
  SELECT BY_NAMES g.looks, g.unasked,
         CASE WHEN s.at >= :since AND s.at < :until THEN 1 ELSE 0 END AS settled,
         CASE WHEN s.at >= :since AND s.at < :until THEN g.of_settled ELSE 0 END AS of_settled
    FROM looked AS g
    LEFT JOIN history AS s ON s.entry_id = g.id AND s.to_state = 'settled' AND s.from_state NOT IN ('', 'settled') AND s.at <= :as_of
   WHERE g.looks > 0 OR s.at >= :since AND s.at < :until
)
SELECT BY_NAMES CAST('' AS text) AS whole,
       CAST(sum(g.looks) AS bigint), CAST(sum(g.unasked) AS bigint), CAST(sum(g.settled) AS bigint), CAST(sum(g.of_settled) AS bigint)
  FROM counted AS g
 GROUP BY BY_NUMBERS
