-- What staff did once for each idempotency key. See runtime/operations/idempotent_writes.py.

-- name: take
-- Takes a key for the transaction. No row: it was used, by a request that is committed.
-- $1 tenant, $2 merchant, $3 subject, $4 route, $5 key, $6 hash of the request.
INSERT INTO keyed_requests (tenant_id, merchant_id, subject, route, idempotency_key, request_hash)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING asked_at

-- name: keep
-- Keeps the reply $6 of the request under a key.
UPDATE keyed_requests SET reply = $6
WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5

-- name: find
-- What a key was used for.
SELECT request_hash, reply
FROM keyed_requests WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5

-- name: begin_again
-- Takes over a request whose first try ended without a word, $6 seconds ago at least. No row: another retry has.
UPDATE keyed_requests SET asked_at = clock_timestamp()
WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5
  AND asked_at <= clock_timestamp() - make_interval(secs => $6)
RETURNING true
