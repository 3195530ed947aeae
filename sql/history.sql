-- Identifies the database's history (timeline). See runtime/stores/history.py.

-- name: history
-- The name of the history, which changes with a restore (point-in-time too) and with a standby's promotion; and its WAL
-- position in bytes, which decreases only if the same files are restored. No row: a standby.
SELECT system_identifier || '.' || coalesce(to_regclass('tenants')::oid, 0)
           || '.' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS name,
       (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS written
FROM pg_control_system()
WHERE NOT pg_is_in_recovery();
