-- name: read_only (postgres)
SELECT CASE WHEN pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on' THEN 1 ELSE 0 END

-- name: read_only (sqlite)
SELECT 0
