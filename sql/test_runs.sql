-- Test-mode runs by staff. See runtime/operations/games/trials.py.

-- name: insert
-- Stores a run of test plays for a day. No row: the game was deleted.
INSERT INTO test_runs (tenant_id, run_id, game_id, revision, times, frequencies, plays, made_by)
SELECT tenant_id, $2, game_id, $4, $5, $6, $7, $8 FROM games WHERE tenant_id = $1 AND game_id = $3
RETURNING unix(created_at) AS created_at

-- name: list
-- The runs of a game in the last day, newest first, after $3.
SELECT run_id AS id, game_id, revision, times, frequencies, plays, made_by, unix(created_at) AS created_at
FROM test_runs
WHERE tenant_id = $1 AND game_id = $2 AND created_at > now() - interval '1 day' AND ($3::text IS NULL OR run_id < $3)
ORDER BY run_id DESC
LIMIT $4

-- name: purge
-- Deletes runs older than a day, at most $2.
DELETE FROM test_runs WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM test_runs WHERE tenant_id = $1 AND created_at < now() - interval '1 day'
    ORDER BY created_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
))
