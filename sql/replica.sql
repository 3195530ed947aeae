-- Compares a read replica with its primary. See runtime/stores/replica.py.

-- name: position
-- Which database this is (equal in a primary and its standbys), whether it is a standby, and how far its WAL is written
-- (primary) or replayed (standby), in bytes.
SELECT system_identifier || '.' || coalesce(to_regclass('tenants')::oid, 0) AS name,
       pg_is_in_recovery() AS is_standby,
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
           - '0/0'::pg_lsn)::bigint AS position
FROM pg_control_system();
