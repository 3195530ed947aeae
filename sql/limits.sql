-- Budgets of campaigns, and prizes that run low. See runtime/operations/budget_alerts.
-- Lock order: the tenant's mark, which whoever looks holds to the end, then what is written.

-- name: tenants
-- Tenants that have something to look at, or that had.
SELECT tenant_id FROM campaigns WHERE budget > 0
UNION SELECT tenant_id FROM prizes WHERE low_stock_at > 0
UNION SELECT tenant_id FROM budget_marks
UNION SELECT tenant_id FROM low_prizes

-- name: take
-- Holds the tenant's mark until the transaction ends; who comes next waits, and sees what this one has written.
-- $2 seconds until it is looked again. No row: it was looked at just now.
INSERT INTO limit_marks AS m (tenant_id, next_at) VALUES ($1, now() + make_interval(secs => $2))
ON CONFLICT (tenant_id) DO UPDATE SET next_at = excluded.next_at WHERE m.next_at <= clock_timestamp()
RETURNING tenant_id

-- name: rest
-- Has the next look wait for $2 times as long as this one took, where that is later.
UPDATE limit_marks SET next_at = greatest(next_at, clock_timestamp() + $2::float8 * (clock_timestamp() - now()))
WHERE tenant_id = $1

-- name: count_budgets
-- Counts what the tenant's campaigns have used of their budgets, marks what is reached, and notes what is to be told: 80
-- and 100 percent once each. Another amount has what it is below told anew when it is reached again; another currency
-- is another budget. The value of points and turns is a count, and no money. What has ended is counted once an hour.
-- The caller holds the tenant's mark.
WITH counted AS (
    SELECT c.campaign_id, c.name, c.budget AS amount, c.budget_currency AS currency, u.used,
           CASE WHEN u.used >= c.budget THEN 100 WHEN u.used >= 0.8 * c.budget THEN 80 ELSE 0 END AS reached,
           CASE WHEN b.currency = c.budget_currency THEN b.told ELSE 0 END AS told,
           b.amount IS DISTINCT FROM c.budget AS moved
    FROM campaigns AS c
    LEFT JOIN budget_marks AS b ON b.tenant_id = $1 AND b.campaign_id = c.campaign_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(r.quantity * r.value), 0)::float8 AS used
        FROM rewards AS r
        JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
        WHERE r.tenant_id = $1 AND r.campaign_id = c.campaign_id
          AND r.status NOT IN ('revoked', 'expired', 'failed')
          AND p.type NOT IN ('points', 'turns') AND p.currency = c.budget_currency
    ) AS u
    WHERE c.tenant_id = $1 AND c.budget > 0
      AND (campaign_status(c.status, c.end_date) <> 'ended' OR b.amount IS DISTINCT FROM c.budget
           OR b.currency <> c.budget_currency OR b.counted_at <= now() - interval '1 hour')
),
fresh AS (
    SELECT campaign_id, name, amount, currency, used, reached,
           CASE WHEN moved THEN least(told, reached) ELSE told END AS told
    FROM counted
),
kept AS (
    INSERT INTO budget_marks AS b (tenant_id, campaign_id, amount, currency, used, told)
    SELECT $1, campaign_id, amount, currency, used, greatest(told, reached) FROM fresh ORDER BY campaign_id
    ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET
        amount = excluded.amount, currency = excluded.currency, used = excluded.used, told = excluded.told,
        counted_at = now()
),
unkept AS (
    DELETE FROM budget_marks AS b WHERE b.tenant_id = $1
      AND NOT EXISTS (
          SELECT FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget > 0)
)
INSERT INTO notices (tenant_id, event_id, type, campaign_id, data)
SELECT $1, 'evt_' || replace(gen_random_uuid()::text, '-', ''), 'campaign.budget_reached', f.campaign_id,
       jsonb_build_object('campaign_id', f.campaign_id, 'name', f.name, 'percent', s.percent, 'amount', f.amount,
                          'currency', f.currency, 'used', f.used)
FROM fresh AS f
JOIN unnest(ARRAY[80, 100]) AS s (percent) ON s.percent <= f.reached AND s.percent > f.told
ORDER BY f.campaign_id, s.percent
RETURNING event_id

-- name: watch_stock
-- Marks the tenant's prizes that have come to run low, and notes it to be told; of those that have risen above it the
-- mark goes. An archived prize is not watched. The caller holds the tenant's mark.
WITH watched AS (
    SELECT p.prize_id, p.campaign_id, p.name, p.low_stock_at,
           left_of_prize(p.channel, s.total, s.remaining, f.free) AS remaining
    FROM prizes AS p
    JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = p.prize_id
    LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
    WHERE p.tenant_id = $1 AND p.low_stock_at > 0 AND p.status = 'active' AND p.type <> 'points'
),
risen AS (
    DELETE FROM low_prizes AS l WHERE l.tenant_id = $1 AND NOT EXISTS (
        SELECT FROM watched AS w WHERE w.prize_id = l.prize_id AND w.remaining <= w.low_stock_at)
),
fallen AS (
    INSERT INTO low_prizes (tenant_id, prize_id)
    SELECT $1, prize_id FROM watched WHERE remaining <= low_stock_at ORDER BY prize_id
    ON CONFLICT (tenant_id, prize_id) DO NOTHING
    RETURNING prize_id
)
INSERT INTO notices (tenant_id, event_id, type, campaign_id, data)
SELECT $1, 'evt_' || replace(gen_random_uuid()::text, '-', ''), 'prizes.low_stock', w.campaign_id,
       jsonb_build_object('prize_id', w.prize_id, 'name', w.name, 'remaining', w.remaining,
                          'low_stock_at', w.low_stock_at)
FROM watched AS w JOIN fallen AS f ON f.prize_id = w.prize_id
ORDER BY w.prize_id
RETURNING event_id

-- name: noticed
-- What was noticed, by events' ids; the smaller share of a budget first.
SELECT n.noticed_at AS at, n.event_id AS id, n.type, n.data, n.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM notices AS n
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = n.campaign_id
WHERE n.tenant_id = $1 AND n.event_id = ANY ($2::text[])
ORDER BY n.type, (n.data ->> 'percent')::int, n.event_id

-- name: purge
-- Forgets what was noticed more than 30 days ago, at most $2, but for what somebody is still to be told of.
DELETE FROM notices WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM notices
    WHERE tenant_id = $1 AND noticed_at < now() - interval '30 days'
      AND (noticed_at < (SELECT told_until FROM event_marks WHERE tenant_id = $1)
           OR NOT EXISTS (SELECT FROM integrations WHERE tenant_id = $1 AND status = 'active'))
    ORDER BY noticed_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
))

-- name: used
-- What campaigns $2 have used of their budgets, as it was counted last. No row: not counted yet, or of another budget.
SELECT b.campaign_id, b.used, unix(b.counted_at) AS used_at
FROM budget_marks AS b
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget_currency = b.currency
WHERE b.tenant_id = $1 AND b.campaign_id = ANY ($2::text[])

-- name: low
-- Those of prizes $2 that run low, as of now.
SELECT p.prize_id
FROM prizes AS p
JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = p.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[]) AND p.low_stock_at > 0 AND p.type <> 'points'
  AND left_of_prize(p.channel, s.total, s.remaining, f.free) <= p.low_stock_at

-- name: budgets
-- Campaigns that have used 80 percent of their budgets or more, and have not ended: who has used most first, ten at most.
-- $2 the merchant whose staff asks ('' the tenant's own).
SELECT b.campaign_id, c.name, c.budget AS amount, c.budget_currency AS currency, b.used
FROM budget_marks AS b
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget_currency = b.currency
WHERE b.tenant_id = $1 AND c.budget > 0 AND b.used >= 0.8 * c.budget
  AND campaign_status(c.status, c.end_date) <> 'ended'
  AND ($2 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
ORDER BY b.used / c.budget DESC, b.campaign_id
LIMIT 10

-- name: low_prizes
-- Prizes that run low, the emptiest first, ten at most. $2 the merchant whose staff asks ('' the tenant's own).
SELECT p.prize_id, p.name, p.low_stock_at,
       left_of_prize(p.channel, s.total, s.remaining, f.free) AS remaining
FROM low_prizes AS l
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = l.prize_id
JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = l.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = l.prize_id
WHERE l.tenant_id = $1 AND p.status = 'active'
  AND left_of_prize(p.channel, s.total, s.remaining, f.free) <= p.low_stock_at
  AND ($2 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
ORDER BY remaining, p.prize_id
LIMIT 10
