-- Allowed origins (CORS). See runtime/operations/campaigns/origins.py.

-- name: of_tenant
-- The tenant's origins, and those that its campaigns add. No row: no such tenant.
SELECT t.origins AS tenant, ARRAY(
    SELECT DISTINCT unnest(c.origins) FROM campaigns AS c
    WHERE c.tenant_id = $1 AND c.origins <> '{}' AND c.status <> 'draft'
) AS campaigns
FROM tenants AS t
WHERE t.tenant_id = $1

-- name: of_campaign
-- The tenant's origins, and those of campaign $2 or, if that is '', of the campaign of $3, a game, quest, leaderboard or
-- draw; none if it is unknown or a draft. No row: no such tenant.
SELECT t.origins AS tenant, coalesce((
    SELECT c.origins FROM campaigns AS c
    WHERE c.tenant_id = $1 AND c.status <> 'draft' AND c.campaign_id = coalesce(
        nullif($2, ''),
        (SELECT g.campaign_id FROM games AS g WHERE g.tenant_id = $1 AND g.game_id = $3),
        (SELECT q.campaign_id FROM quests AS q WHERE q.tenant_id = $1 AND q.quest_id = $3),
        (SELECT b.campaign_id FROM leaderboards AS b WHERE b.tenant_id = $1 AND b.board_id = $3),
        (SELECT d.campaign_id FROM draws AS d WHERE d.tenant_id = $1 AND d.draw_id = $3))
), '{}') AS campaigns
FROM tenants AS t
WHERE t.tenant_id = $1

-- name: known
-- Whether any tenant or campaign has one of these origins. Across tenants: a CORS preflight does not say which tenant it
-- is for.
SELECT EXISTS (SELECT FROM tenants WHERE origins && $1::text[])
    OR EXISTS (SELECT FROM campaigns WHERE origins && $1::text[] AND origins <> '{}' AND status <> 'draft')
