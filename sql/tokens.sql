-- API tokens. See runtime/operations/staff/tokens.py.

-- name: insert
-- Creates a token. No row: no such tenant.
INSERT INTO api_tokens (tenant_id, token_id, token_hash, name, roles, merchant_id, made_by, expires_at)
SELECT tenant_id, $2, $3, $4, $5, $6, $7, at_unix($8) FROM tenants WHERE tenant_id = $1
RETURNING token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at

-- name: count_recent
-- The number of the tenant's tokens that are live, or ended at most $2 seconds ago, so that edges may still have to learn
-- of it. The caller has locked the tenant, so none is created meanwhile.
SELECT count(*) FROM api_tokens
WHERE tenant_id = $1 AND least(expires_at, revoked_at) > now() - $2::float8 * interval '1 second'

-- name: list
-- The tenant's tokens newest first, after $5. $2 is a LIKE pattern of the name, $3 their creator ('': any),
-- $4 the staff's merchant ('': the tenant): it sees its own.
SELECT token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
       unix(used_at) AS last_used_at, unix(revoked_at) AS revoked_at
FROM api_tokens
WHERE tenant_id = $1 AND name ILIKE $2 AND ($3 = '' OR made_by = $3) AND ($4 = '' OR merchant_id = $4)
  AND ($5::text IS NULL OR token_id < $5)
ORDER BY token_id DESC
LIMIT $6

-- name: revoke
-- Revokes token $2; staff of merchant $3 ('': the tenant's) only its own. seconds: its remaining lifetime.
-- No row: no such token, or already revoked.
UPDATE api_tokens SET revoked_at = now()
WHERE tenant_id = $1 AND token_id = $2 AND ($3 = '' OR merchant_id = $3) AND revoked_at IS NULL
RETURNING token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
          unix(used_at) AS last_used_at, greatest(0, extract(epoch FROM expires_at - now()))::float8 AS seconds

-- name: owner
-- The merchant of token $2 ('': the tenant), revoked or not. No row: no such token.
SELECT merchant_id FROM api_tokens WHERE tenant_id = $1 AND token_id = $2

-- name: lock_requester
-- Whether the token that requests as $2, "name (id)", was revoked. FOR SHARE: a revocation waits until the request is
-- stored. No row: the requester is not a token.
SELECT revoked_at IS NOT NULL AS revoked FROM api_tokens
WHERE tenant_id = $1 AND token_id = substring($2::text FROM ' \((\w+)\)$')
FOR SHARE

-- name: creator
-- The creator of token $2. No row: no such token.
SELECT made_by FROM api_tokens WHERE tenant_id = $1 AND token_id = $2

-- name: count_live
-- The number of live tokens created by $2.
SELECT count(*) FROM api_tokens WHERE tenant_id = $1 AND made_by = $2 AND revoked_at IS NULL AND expires_at > now()

-- name: open
-- The token with hash $2. If valid, records the hour of its use, once per hour. No row: no such token.
WITH found AS (
    SELECT token_id, name, roles, merchant_id, made_by, created_at, expires_at, used_at, revoked_at,
           expires_at <= now() AS expired
    FROM api_tokens WHERE tenant_id = $1 AND token_hash = $2
),
recorded_use AS (
    UPDATE api_tokens AS t SET used_at = date_trunc('hour', now(), 'UTC')
    FROM found
    WHERE t.tenant_id = $1 AND t.token_id = found.token_id AND NOT found.expired AND t.revoked_at IS NULL
      AND (t.used_at IS NULL OR t.used_at < date_trunc('hour', now(), 'UTC'))
)
SELECT token_id AS id, name, roles, merchant_id, made_by, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
       unix(used_at) AS last_used_at, unix(revoked_at) AS revoked_at, expired
FROM found

-- name: purge_tokens
-- Deletes tokens 90 days after they ended, at most $2. The audit log still names their creators.
DELETE FROM api_tokens WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM api_tokens
    WHERE tenant_id = $1 AND least(expires_at, revoked_at) < now() - interval '90 days'
    ORDER BY least(expires_at, revoked_at) LIMIT $2::integer FOR UPDATE SKIP LOCKED
))
