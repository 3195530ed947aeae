-- Which keys the processes that live have, and use: runtime/stores/keyring.py. They belong to no tenant: $1 is ''.

-- name: take_turns
-- Has announcements wait for each other: each goes by what the one before it left.
SELECT pg_advisory_xact_lock($1)

-- name: others
-- What the others have that live: heard of within $3 seconds. $2: who asks.
SELECT kind, process, known, used FROM key_holders
WHERE tenant_id = $1 AND holder_id <> $2 AND seen_at > now() - make_interval(secs => $3)

-- name: retired
-- Keys that nothing may be sealed with.
SELECT key_id FROM retired_keys WHERE tenant_id = $1

-- name: announce
-- What the process $3 (by the name of $4) has of the keys of kind $2, and which one it uses from now on.
INSERT INTO key_holders (tenant_id, kind, holder_id, process, known, used) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, kind, holder_id) DO UPDATE SET known = excluded.known, used = excluded.used, seen_at = now()

-- name: leave
-- The process $2 ends. Fewer rows than kinds: it has been silent for so long that it was forgotten.
DELETE FROM key_holders WHERE tenant_id = $1 AND holder_id = $2

-- name: forget
-- Removes those that ended without a word: not heard of for $2 seconds.
DELETE FROM key_holders WHERE tenant_id = $1 AND seen_at < now() - make_interval(secs => $2)
