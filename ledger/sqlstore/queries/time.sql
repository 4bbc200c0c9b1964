-- name: now
SELECT {now} AS now

-- name: durable_now
-- Also: to the indexes, as in claim_time.
SELECT {now} AS now {durable}

-- name: keep_seen (sqlite)
UPDATE meta SET value = CAST(:now AS text)
 WHERE name = 'highest_seen' AND CAST(value AS bigint) < :now

-- name: keep_seen (postgres)
-- Whoever does not get the row does without: another process is just storing.
UPDATE meta SET value = CAST(CAST(:now AS bigint) AS text)
 WHERE name = (SELECT m.name FROM meta AS m
                WHERE m.name = 'highest_seen' AND CAST(m.value AS bigint) < CAST(:now AS bigint)
                  FOR UPDATE SKIP LOCKED)

-- name: know_server
-- Which server wrote the ledger, noted once.
UPDATE meta SET value = CASE name WHEN 'timeline' THEN {timeline} ELSE {system} END
 WHERE name IN ('system_identifier', 'timeline') AND value = ''

-- name: know_timeline
UPDATE meta SET value = {timeline} WHERE name = 'timeline' AND value = ''

-- name: meta
SELECT m.value FROM meta AS m WHERE m.name = :name

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
