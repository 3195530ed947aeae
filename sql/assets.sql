-- The tenant's pictures and fonts. See runtime/operations/assets/.

-- name: insert
-- Stores an asset within the tenant's quota of $11 bytes; the caller has locked the tenant, so that concurrent uploads
-- cannot exceed it. $2 asset, $3 merchant, $4 name, $5 type, $6 body, or $7 its object, $8 size, $9 width, $10 height. An
-- asset that several owners upload belongs to the tenant, and stays where it is. No row: the quota is used up.
INSERT INTO assets (tenant_id, asset_id, merchant_id, name, type, body, object, size, width, height)
SELECT $1::text, $2::text, $3, $4, $5, $6::bytea, $7::text, $8::integer, $9, $10
WHERE EXISTS (SELECT FROM assets WHERE tenant_id = $1 AND asset_id = $2)
   OR (SELECT coalesce(sum(size), 0) FROM assets WHERE tenant_id = $1) + $8 <= $11::bigint
ON CONFLICT (tenant_id, asset_id) DO UPDATE SET
    merchant_id = CASE WHEN assets.merchant_id = excluded.merchant_id THEN assets.merchant_id ELSE '' END
RETURNING asset_id AS id, name, type, size, width, height, merchant_id, unix(created_at) AS created_at, object

-- name: begin_object
-- Plans the removal of object $2, which is about to be written: in an hour, unless `keep_object` cancels it.
-- $3 its asset, $4 size, $5 the quota. No row: the quota is used up.
INSERT INTO asset_removals (tenant_id, object, due_at)
SELECT $1::text, $2::text, now() + interval '1 hour'
WHERE EXISTS (SELECT FROM assets WHERE tenant_id = $1 AND asset_id = $3)
   OR (SELECT coalesce(sum(size), 0) FROM assets WHERE tenant_id = $1) + $4::bigint <= $5::bigint
RETURNING object

-- name: keep_object
-- Cancels the removal of object $2 of an asset that the transaction stores. No row: the removal is due, and may have happened.
DELETE FROM asset_removals WHERE tenant_id = $1 AND object = $2 AND due_at > now() RETURNING object

-- name: used
-- The bytes of all assets of the tenant.
SELECT coalesce(sum(size), 0)::bigint FROM assets WHERE tenant_id = $1

-- name: get
-- One asset without its body. $3 the staff's merchant ('': the tenant), $4 whether to write.
-- No row: not found or not permitted.
SELECT asset_id AS id, name, type, size, width, height, merchant_id, unix(created_at) AS created_at
FROM assets
WHERE tenant_id = $1 AND asset_id = $2 AND ($3 = '' OR merchant_id = $3 OR (merchant_id = '' AND NOT $4))

-- name: list
-- Assets newest first, after ($5, $6). $2 the beginning of the type, $3 a LIKE pattern of the name, $4 the staff's
-- merchant ('': the tenant).
SELECT asset_id AS id, name, type, size, width, height, merchant_id, unix(created_at) AS created_at, position
FROM assets
WHERE tenant_id = $1 AND starts_with(type, $2) AND name ILIKE $3
  AND ($4 = '' OR merchant_id IN ('', $4))
  AND ($5::bigint IS NULL OR (position, asset_id) < ($5, $6::text))
ORDER BY position DESC, asset_id DESC
LIMIT $7

-- name: read
-- An asset's body, or the key of its object. No row: not found.
SELECT type, body, object FROM assets WHERE tenant_id = $1 AND asset_id = $2

-- name: users
-- What shows the asset with URL $2: campaigns, games and prizes that are not archived, of every merchant; the caller has
-- locked the tenant. `visible`: to staff of merchant $3 ('': the tenant).
WITH users AS (
    SELECT 'campaign' AS type, campaign_id AS id, name, campaign_id FROM campaigns
    WHERE tenant_id = $1 AND position($2 IN settings::text) > 0
    UNION ALL
    SELECT 'game', g.game_id, g.name, g.campaign_id FROM games AS g
    JOIN game_revisions AS r USING (tenant_id, game_id, revision)
    WHERE g.tenant_id = $1 AND g.status <> 'archived' AND position($2 IN (r.definition -> 'ui')::text) > 0
    UNION ALL
    SELECT 'prize', prize_id, name, campaign_id FROM prizes
    WHERE tenant_id = $1 AND status <> 'archived' AND image_url = $2
)
SELECT type, id, name, $3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o) AS visible
FROM users
ORDER BY type, id

-- name: delete
-- Deletes an asset, and plans the removal of its object; the caller has locked the tenant.
WITH gone AS (DELETE FROM assets WHERE tenant_id = $1 AND asset_id = $2 RETURNING object)
INSERT INTO asset_removals (tenant_id, object, due_at) SELECT $1, object, now() FROM gone WHERE object IS NOT NULL

-- name: removing_tenants
-- Tenants with objects to delete.
SELECT DISTINCT tenant_id FROM asset_removals WHERE due_at <= now()

-- name: due_removals
-- At most $2 objects to delete, the oldest first.
SELECT object FROM asset_removals WHERE tenant_id = $1 AND due_at <= now() ORDER BY due_at, object LIMIT $2

-- name: removed
-- Forgets an object that was deleted.
DELETE FROM asset_removals WHERE tenant_id = $1 AND object = $2 AND due_at <= now()

-- name: missing
-- Those of the URLs $2 that are no asset of the tenant.
SELECT url FROM unnest($2::text[]) AS url
WHERE NOT EXISTS (SELECT FROM assets WHERE tenant_id = $1 AND url = '/assets/' || $1 || '/' || asset_id)
