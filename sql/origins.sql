-- Whose pages may ask. See runtime/operations/campaigns/origins.py.

-- name: of_tenant
-- The tenant's origins, and those that its campaigns add together. No row: there is no such tenant.
SELECT t.origins AS tenant, ARRAY(
    SELECT DISTINCT unnest(c.origins) FROM campaigns AS c
    WHERE c.tenant_id = $1 AND c.origins <> '{}' AND c.status <> 'draft'
) AS campaigns
FROM tenants AS t
WHERE t.tenant_id = $1

-- name: of_campaign
-- The tenant's origins, and those that campaign $2 adds, or where that is '' game $3's campaign: none for one that is
-- not there, or a draft. No row: there is no such tenant.
SELECT t.origins AS tenant, coalesce((
    SELECT c.origins FROM campaigns AS c
    WHERE c.tenant_id = $1 AND c.status <> 'draft' AND c.campaign_id = coalesce(
        nullif($2, ''), (SELECT g.campaign_id FROM games AS g WHERE g.tenant_id = $1 AND g.game_id = $3))
), '{}') AS campaigns
FROM tenants AS t
WHERE t.tenant_id = $1

-- name: known
-- Whether any tenant, or any campaign, has one of these. Over all tenants: a browser that asks whether it may ask
-- (a preflight) says nothing of whose.
SELECT EXISTS (SELECT FROM tenants WHERE origins && $1::text[])
    OR EXISTS (SELECT FROM campaigns WHERE origins && $1::text[] AND origins <> '{}' AND status <> 'draft')
