-- The version of each live process: runtime/stores/heartbeat.py. They belong to no tenant: $1 is ''.

-- name: exclude_migrations
-- The shared lock of a starting process: it excludes migrations that remove something, which lock it exclusively.
SELECT pg_advisory_xact_lock_shared($1)

-- name: announce
-- Heartbeat: process $2 (named $3) is live, and $4 is its newest migration.
INSERT INTO processes (tenant_id, process_id, process, migration) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, process_id) DO UPDATE SET seen_at = now()

-- name: leave
-- Process $2 ends. No row: it was silent for so long that it was removed.
DELETE FROM processes WHERE tenant_id = $1 AND process_id = $2

-- name: remove_silent
-- Removes processes that ended without notice: silent for $2 seconds.
DELETE FROM processes WHERE tenant_id = $1 AND seen_at < now() - make_interval(secs => $2)

-- name: behind
-- Live processes (seen within $3 seconds) without migration $2, grouped by their newest one.
SELECT migration, string_agg(process, '; ' ORDER BY process) AS processes, count(*) AS many FROM processes
WHERE tenant_id = $1 AND migration COLLATE "C" < $2 AND seen_at > now() - make_interval(secs => $3)
GROUP BY migration ORDER BY migration
