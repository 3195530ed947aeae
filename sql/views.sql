-- Page views. See runtime/operations/reporting/views.py.

-- name: page
-- Whether game $3 is one of the campaign's that players see ('': the campaign's own page). No row: no such campaign, or
-- a draft.
SELECT $3 = '' OR EXISTS (
    SELECT FROM games AS g
    WHERE g.tenant_id = $1 AND g.game_id = $3 AND g.campaign_id = $2 AND g.status IN ('active', 'paused')
) AS is_page
FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2 AND status <> 'draft'

-- name: fold
-- Adds the rows $3 of set $2 to the views, in key order. No row changes if the set was added before.
WITH once AS (
    INSERT INTO view_folds (tenant_id, fold_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1
)
INSERT INTO campaign_views AS v (
    tenant_id, view_id, campaign_id, hour, game_id, source, medium, utm_campaign, device, country,
    views, visitors, page_visitors
)
SELECT $1, n.view_id, n.campaign_id, to_timestamp(n.hour * 3600), n.game_id, n.source, n.medium, n.utm_campaign, n.device,
       n.country, n.views, n.visitors, n.page_visitors
FROM jsonb_to_recordset($3::jsonb) AS n (
    view_id text, campaign_id text, hour bigint, game_id text, source text, medium text, utm_campaign text, device text,
    country text, views bigint, visitors bigint, page_visitors bigint
)
WHERE EXISTS (SELECT FROM once)
ORDER BY n.campaign_id, n.hour, n.game_id, n.source, n.medium, n.utm_campaign, n.device, n.country
ON CONFLICT (tenant_id, campaign_id, hour, game_id, source, medium, utm_campaign, device, country) DO UPDATE SET
    views = v.views + excluded.views, visitors = v.visitors + excluded.visitors,
    page_visitors = v.page_visitors + excluded.page_visitors

-- name: totals
-- Views and visitors from $3 to before $4, of game $5 ('': all), in total and by source, device, country, and day and
-- hour of time zone $6. `by` says which of these a row is of.
SELECT (ARRAY['total', 'source', 'device', 'country', 'time'])[
           1 + (grouping(source) = 0)::int + 2 * (grouping(device) = 0)::int + 3 * (grouping(country) = 0)::int
           + 4 * (grouping(n.local) = 0)::int] AS by,
       source, medium, utm_campaign, device, country, n.local::date AS day, extract(hour FROM n.local)::int AS hour,
       coalesce(sum(views), 0)::bigint AS views,
       coalesce(sum(CASE WHEN $5 = '' THEN visitors ELSE page_visitors END), 0)::bigint AS visitors
FROM campaign_views AS v
CROSS JOIN LATERAL (SELECT date_trunc('hour', v.hour AT TIME ZONE $6) AS local) AS n
WHERE v.tenant_id = $1 AND v.campaign_id = $2 AND v.hour >= $3 AND v.hour < $4 AND ($5 = '' OR v.game_id = $5)
GROUP BY GROUPING SETS ((), (source, medium, utm_campaign), (device), (country), (n.local))

-- name: entries
-- The campaign's entries from $3 to before $4 by source, and how many have an optional consent in force. Sources beyond the
-- largest $5 are counted together.
WITH form AS MATERIALIZED (
    SELECT consent_tokens(entry) AS tokens,
           ARRAY(SELECT k ->> 'id' FROM jsonb_array_elements(entry -> 'consents') AS k
                 WHERE NOT (k ->> 'required')::boolean) AS optional
    FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
),
counted AS (
    SELECT n.source, n.medium, n.utm_campaign, count(*) AS entries,
           count(*) FILTER (WHERE EXISTS (
               SELECT FROM unnest(f.optional) AS o (consent) WHERE consent_in_force(o.consent, e.given, f.tokens)
           )) AS opted_in
    FROM entries AS e CROSS JOIN form AS f CROSS JOIN LATERAL source_parts(e.source) AS n
    WHERE e.tenant_id = $1 AND e.campaign_id = $2 AND e.created_at >= $3 AND e.created_at < $4
    GROUP BY 1, 2, 3
)
SELECT CASE WHEN is_large THEN source ELSE 'other' END AS source, CASE WHEN is_large THEN medium ELSE '' END AS medium,
       CASE WHEN is_large THEN utm_campaign ELSE '' END AS utm_campaign,
       sum(entries)::bigint AS entries, sum(opted_in)::bigint AS opted_in
FROM (
    SELECT *, row_number() OVER (ORDER BY entries DESC, source, medium, utm_campaign) <= $5 AS is_large FROM counted
) AS c
GROUP BY 1, 2, 3

-- name: purge_folds
-- Deletes ids of sets older than three days, at most $2: Valkey keeps no set for longer than two days.
DELETE FROM view_folds WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM view_folds
    WHERE tenant_id = $1 AND folded_at < now() - interval '3 days'
    ORDER BY folded_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
))

-- name: retain
-- Deletes views with ids before $2, which begin with their hour; at most $3.
DELETE FROM campaign_views WHERE tenant_id = $1 AND view_id = ANY (ARRAY(
    SELECT view_id FROM campaign_views WHERE tenant_id = $1 AND view_id < $2
    ORDER BY view_id LIMIT $3 FOR UPDATE SKIP LOCKED
))
