-- Live figures. See runtime/operations/reporting/live.py. $2: the staff's merchant ('': the tenant).

-- name: plays
-- Plays and wins of the last minute.
SELECT count(*) AS plays, count(*) FILTER (WHERE wins > 0) AS wins, unix(now()) AS at
FROM plays
WHERE tenant_id = $1 AND played_at > now() - interval '1 minute'
  AND ($2 = '' OR game_id IN (
      SELECT game_id FROM games
      WHERE tenant_id = $1 AND campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o)))

-- name: deliveries
-- Pending and dead deliveries, each counted up to $3.
SELECT (SELECT count(*) FROM (
            SELECT FROM tasks WHERE tenant_id = $1 AND status IN ('pending', 'retry')
              AND ($2 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o)) LIMIT $3) AS t) AS waiting,
       (SELECT count(*) FROM (
            SELECT FROM tasks WHERE tenant_id = $1 AND status = 'dead'
              AND ($2 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o)) LIMIT $3) AS t) AS dead

-- name: integrations
-- Active integrations with pending retries, and how many, up to 1,000.
SELECT i.integration_id, i.type, w.waiting::int AS waiting
FROM integrations AS i
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM integration_deliveries AS d
        WHERE d.tenant_id = $1 AND d.integration_id = i.integration_id AND d.status = 'retry' LIMIT 1000) AS d
) AS w
WHERE i.tenant_id = $1 AND i.status = 'active' AND w.waiting > 0
  AND ($2 = '' OR i.merchant_id = $2
       OR (i.merchant_id = '' AND i.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o)))
ORDER BY w.waiting DESC, i.integration_id
LIMIT 10

-- name: won
-- Prizes won in the last 24 hours and their cost in the prize's currency (points and turns are counts, not money).
-- $3: a key before all rewards of that time, so that the primary key limits the scan.
SELECT w.*, coalesce(p.currency, '') AS currency
FROM (
    SELECT prize_id, sum(quantity)::bigint AS units,
           coalesce(sum(quantity * value) FILTER (WHERE type NOT IN ('points', 'turns')), 0)::float8 AS cost
    FROM rewards
    WHERE tenant_id = $1 AND reward_id > $3::text AND won_at > now() - interval '24 hours'
      AND (status NOT IN ('revoked', 'expired', 'failed') OR fulfilled_at IS NOT NULL)
      AND ($2 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
    GROUP BY prize_id
) AS w
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = w.prize_id

-- name: stock
-- What remains of the limited prizes $2: of their stock, and of their free codes if these are at most $3.
SELECT prize_id, name, remaining
FROM (
    SELECT p.prize_id, p.name, least(CASE WHEN s.total > 0 THEN s.remaining END,
                                     CASE WHEN p.channel = 'voucher_code' AND coalesce(f.free, 0) <= $3
                                          THEN coalesce(f.free, 0) END) AS remaining
    FROM prizes AS p JOIN stock AS s USING (tenant_id, prize_id) LEFT JOIN free_codes AS f USING (tenant_id, prize_id)
    WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[])
) AS p
WHERE remaining IS NOT NULL
