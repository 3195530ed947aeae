-- Idempotency keys of staff requests. See runtime/operations/idempotent_writes.py.

-- name: claim
-- Claims an idempotency key for the transaction; a concurrent duplicate waits here. No row: a committed request used it.
-- $1 tenant, $2 merchant, $3 subject, $4 route, $5 key, $6 hash of the request.
INSERT INTO keyed_requests (tenant_id, merchant_id, subject, route, idempotency_key, request_hash)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING requested_at

-- name: store_reply
-- Stores the reply $6 under a key.
UPDATE keyed_requests SET reply = $6
WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5

-- name: find
-- The request hash and reply of a key.
SELECT request_hash, reply
FROM keyed_requests WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5

-- name: reclaim
-- Takes over a request that started at least $6 seconds ago and never stored a reply. No row: another retry has claimed it.
UPDATE keyed_requests SET requested_at = clock_timestamp()
WHERE tenant_id = $1 AND merchant_id = $2 AND subject = $3 AND route = $4 AND idempotency_key = $5
  AND requested_at <= clock_timestamp() - make_interval(secs => $6)
RETURNING true
