-- The keys that live processes know and use: runtime/stores/keyring.py. They belong to no tenant: $1 is ''.

-- name: lock_announcements
-- Serializes announcements: each builds on the one before.
SELECT pg_advisory_xact_lock($1)

-- name: keys_of_others
-- The keys of other live processes, seen within $3 seconds. $2: this process.
SELECT kind, process, known, used FROM key_holders
WHERE tenant_id = $1 AND holder_id <> $2 AND seen_at > now() - make_interval(secs => $3)

-- name: retired
-- Keys that must not be used for encryption.
SELECT key_id FROM retired_keys WHERE tenant_id = $1

-- name: announce
-- Announces the keys of kind $2 that process $3 (named $4) knows, and the one it uses from now on.
INSERT INTO key_holders (tenant_id, kind, holder_id, process, known, used) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, kind, holder_id) DO UPDATE SET known = excluded.known, used = excluded.used, seen_at = now()

-- name: leave
-- Process $2 ends. Fewer rows than kinds: it was silent for so long that it was removed.
DELETE FROM key_holders WHERE tenant_id = $1 AND holder_id = $2

-- name: remove_silent
-- Removes processes that ended without notice: silent for $2 seconds.
DELETE FROM key_holders WHERE tenant_id = $1 AND seen_at < now() - make_interval(secs => $2)
