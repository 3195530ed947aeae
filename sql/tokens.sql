-- API tokens. See runtime/operations/staff/tokens.py.

-- name: insert
-- Makes a token. No row: there is no such tenant.
INSERT INTO api_tokens (tenant_id, token_id, token_hash, name, roles, merchant_id, made_by, expires_at)
SELECT tenant_id, $2, $3, $4, $5, $6, $7, at_unix($8) FROM tenants WHERE tenant_id = $1
RETURNING token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at

-- name: bounded
-- How many of the tenant's tokens live, or ended so lately (at most $2 seconds ago) that edges may be told of it. Who
-- asks holds the tenant, so that nobody makes one meanwhile.
SELECT count(*) FROM api_tokens
WHERE tenant_id = $1 AND least(expires_at, revoked_at) > now() - $2::float8 * interval '1 second'

-- name: list
-- The tenant's tokens newest first, after $5. $2 is a LIKE pattern of the name, $3 who made them ('' anybody),
-- $4 the merchant whose staff asks ('' the tenant's own): it sees its own.
SELECT token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
       unix(used_at) AS last_used_at, unix(revoked_at) AS revoked_at
FROM api_tokens
WHERE tenant_id = $1 AND name ILIKE $2 AND ($3 = '' OR made_by = $3) AND ($4 = '' OR merchant_id = $4)
  AND ($5::text IS NULL OR token_id < $5)
ORDER BY token_id DESC
LIMIT $6

-- name: revoke
-- Ends token $2, for the staff of merchant $3 ('' the tenant's own) one of theirs. seconds: how long it would have lived.
-- No row: there is no such token, or it was revoked before.
UPDATE api_tokens SET revoked_at = now()
WHERE tenant_id = $1 AND token_id = $2 AND ($3 = '' OR merchant_id = $3) AND revoked_at IS NULL
RETURNING token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
          unix(used_at) AS last_used_at, greatest(0, extract(epoch FROM expires_at - now()))::float8 AS seconds

-- name: owner
-- The merchant whose token $2 is, '' the tenant's own, revoked or not. No row: there is none.
SELECT merchant_id FROM api_tokens WHERE tenant_id = $1 AND token_id = $2

-- name: hold_asker
-- Whether the token that asks as $2, "name (id)", was revoked; who revokes it waits until what it asks is kept. No row:
-- it is no token that asks.
SELECT revoked_at IS NOT NULL AS revoked FROM api_tokens
WHERE tenant_id = $1 AND token_id = substring($2::text FROM ' \((\w+)\)$')
FOR SHARE

-- name: maker
-- Who made token $2. No row: there is none.
SELECT made_by FROM api_tokens WHERE tenant_id = $1 AND token_id = $2

-- name: live_of
-- How many tokens that $2 made go on.
SELECT count(*) FROM api_tokens WHERE tenant_id = $1 AND made_by = $2 AND revoked_at IS NULL AND expires_at > now()

-- name: open
-- The token of hash $2; while it is good the hour of its use is noted, once. No row: there is none.
WITH found AS (
    SELECT token_id, name, roles, merchant_id, made_by, created_at, expires_at, used_at, revoked_at,
           expires_at <= now() AS expired
    FROM api_tokens WHERE tenant_id = $1 AND token_hash = $2
),
noted AS (
    UPDATE api_tokens AS t SET used_at = date_trunc('hour', now(), 'UTC')
    FROM found
    WHERE t.tenant_id = $1 AND t.token_id = found.token_id AND NOT found.expired AND t.revoked_at IS NULL
      AND (t.used_at IS NULL OR t.used_at < date_trunc('hour', now(), 'UTC'))
)
SELECT token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
       unix(used_at) AS last_used_at, unix(revoked_at) AS revoked_at, expired
FROM found

-- name: purge_tokens
-- Forgets tokens 90 days after they ended, or were revoked, at most $2. The audit log keeps who made them.
DELETE FROM api_tokens WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM api_tokens
    WHERE tenant_id = $1 AND least(expires_at, revoked_at) < now() - interval '90 days'
    ORDER BY least(expires_at, revoked_at) LIMIT $2::integer FOR UPDATE SKIP LOCKED
))
