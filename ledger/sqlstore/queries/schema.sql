-- name: schema_exists (sqlite)
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'reconcile_schema'

-- name: schema_exists (postgres)
SELECT CASE WHEN to_regclass('reconcile_schema') IS NULL THEN 0 ELSE 1 END

-- name: schema_version
SELECT COALESCE(max(s.version), 0) FROM reconcile_schema AS s

-- name: schema_lock (sqlite)
-- The transaction began as IMMEDIATE, which is the lock.
SELECT 1

-- name: schema_lock (postgres)
-- The number is arbitrary and belongs to this step.
SELECT pg_advisory_xact_lock(7236104452981)

-- name: schema_create
CREATE TABLE IF NOT EXISTS reconcile_schema (version bigint NOT NULL PRIMARY KEY, migrated_at bigint NOT NULL)

-- name: schema_note (sqlite)
INSERT INTO reconcile_schema (version, migrated_at) VALUES (:version, :clock)

-- name: schema_note (postgres)
INSERT INTO reconcile_schema (version, migrated_at)
VALUES (:version, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint))
