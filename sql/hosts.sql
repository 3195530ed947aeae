-- Host names of brands. See runtime/operations/campaigns/hosts.py.

-- name: allow
-- Allows the tenant exactly the hosts $2, and returns those. A host of another tenant stays that tenant's; a host that is
-- no longer allowed is lost to its campaign, too.
WITH removed AS (
    DELETE FROM hosts WHERE tenant_id = $1 AND host <> ALL ($2::text[])
),
added AS (
    INSERT INTO hosts (tenant_id, host) SELECT $1, h FROM unnest($2::text[]) AS h ORDER BY h
    ON CONFLICT DO NOTHING RETURNING host
)
SELECT host FROM added UNION SELECT host FROM hosts WHERE tenant_id = $1 AND host = ANY ($2::text[])

-- name: claim
-- Gives campaign $2 exactly the hosts $3, of those that the tenant may use and no other campaign has. Returns the changed
-- rows; the host of another campaign is not among them.
UPDATE hosts SET campaign_id = CASE WHEN host = ANY ($3::text[]) THEN $2 ELSE '' END
WHERE tenant_id = $1 AND (campaign_id = $2 OR (campaign_id = '' AND host = ANY ($3::text[])))
RETURNING host, campaign_id

-- name: taken
-- Which of the hosts $2 tenants other than $1 have.
SELECT host, tenant_id FROM hosts WHERE host = ANY ($2::text[]) AND tenant_id <> $1 ORDER BY host

-- name: find
-- The tenant of host $1, and the campaign whose page it shows: '' if it has none, or a draft. Across tenants: the request
-- names none. No row: no tenant has the host.
SELECT h.tenant_id, coalesce(c.campaign_id, '') AS campaign_id FROM hosts AS h
LEFT JOIN campaigns AS c
    ON c.tenant_id = h.tenant_id AND c.campaign_id = h.campaign_id AND c.status <> 'draft'
WHERE h.host = $1
