-- What staff did once for each idempotency key. See runtime/operations/once.py.

-- name: take
-- Takes a key for the transaction. No row: it was used, by a request that is committed.
-- $1 tenant, $2 subject, $3 route, $4 key, $5 hash of the request.
INSERT INTO keyed_requests (tenant_id, subject, route, idempotency_key, request_hash) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING
RETURNING asked_at

-- name: keep
-- Keeps the reply $5 of the request under a key.
UPDATE keyed_requests SET reply = $5
WHERE tenant_id = $1 AND subject = $2 AND route = $3 AND idempotency_key = $4

-- name: find
-- What a key was used for.
SELECT request_hash, reply
FROM keyed_requests WHERE tenant_id = $1 AND subject = $2 AND route = $3 AND idempotency_key = $4

-- name: begin_again
-- Takes over a request whose first try ended without a word, $5 seconds ago at least. No row: another retry has.
UPDATE keyed_requests SET asked_at = clock_timestamp()
WHERE tenant_id = $1 AND subject = $2 AND route = $3 AND idempotency_key = $4
  AND asked_at <= clock_timestamp() - make_interval(secs => $5)
RETURNING true
