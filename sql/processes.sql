-- Which version each process is of that lives: runtime/stores/heartbeat.py. They belong to no tenant: $1 is ''.

-- name: keep_off
-- Has whoever comes wait for a migration that takes something away, and such a migration for whoever comes.
SELECT pg_advisory_xact_lock_shared($1)

-- name: announce
-- The process $2 (by the name of $3) lives, and $4 is the newest migration that it has.
INSERT INTO processes (tenant_id, process_id, process, migration) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, process_id) DO UPDATE SET seen_at = now()

-- name: leave
-- The process $2 ends. No row: it has been silent for so long that it was forgotten.
DELETE FROM processes WHERE tenant_id = $1 AND process_id = $2

-- name: forget
-- Removes those that ended without a word: not heard of for $2 seconds.
DELETE FROM processes WHERE tenant_id = $1 AND seen_at < now() - make_interval(secs => $2)

-- name: behind
-- Those that live (heard of within $3 seconds) and lack the migration $2, by the newest one that they have.
SELECT migration, string_agg(process, '; ' ORDER BY process) AS processes, count(*) AS many FROM processes
WHERE tenant_id = $1 AND migration COLLATE "C" < $2 AND seen_at > now() - make_interval(secs => $3)
GROUP BY migration ORDER BY migration
