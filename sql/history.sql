-- Which history of the database a process sees. See runtime/stores/history.py.

-- name: history
-- The history's name: another one after a restore, to a point in time too, and after a standby's promotion; and how
-- far it is written, in bytes, which only a restored copy of the same files can undo. No row: a standby, which has none
-- of its own.
SELECT system_identifier || '.' || coalesce(to_regclass('tenants')::oid, 0)
           || '.' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS name,
       (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS written
FROM pg_control_system()
WHERE NOT pg_is_in_recovery();
