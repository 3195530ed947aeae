-- Budget and low-stock alerts. See runtime/operations/budget_alerts.
-- Lock order: the tenant's mark, held until the end of a check, then the written rows.

-- name: tenants
-- Tenants with budgets or watched prizes, now or before.
SELECT tenant_id FROM campaigns WHERE budget > 0
UNION SELECT tenant_id FROM prizes WHERE low_stock_at > 0
UNION SELECT tenant_id FROM budget_marks
UNION SELECT tenant_id FROM low_prizes

-- name: lock_mark
-- Locks the tenant's mark until the transaction ends; a concurrent check waits and then sees the results of this one.
-- $2 seconds until the next check. A time more than four hours ahead is from before a correction of the clock. No row:
-- checked just now.
INSERT INTO limit_marks AS m (tenant_id, next_at) VALUES ($1, now() + make_interval(secs => $2))
ON CONFLICT (tenant_id) DO UPDATE SET next_at = excluded.next_at
    WHERE m.next_at <= clock_timestamp() OR m.next_at > clock_timestamp() + interval '4 hours'
RETURNING tenant_id

-- name: delay_next
-- Delays the next check to $2 times the duration of this one, if that is later. Keeps the load of slow checks bounded.
UPDATE limit_marks SET next_at = greatest(next_at, clock_timestamp() + $2::float8 * (clock_timestamp() - now()))
WHERE tenant_id = $1

-- name: count_budgets
-- Computes the budget use of the tenant's campaigns, stores it, and inserts an event for 80 and for 100 percent, once each.
-- After a change of the amount, a threshold that is no longer reached can fire again; another currency is another budget.
-- Points and turns are counts, not money. Ended campaigns are checked once an hour.
-- The caller has locked the tenant's mark.
WITH counted AS (
    SELECT c.campaign_id, c.name, c.budget AS amount, c.budget_currency AS currency, u.used::float8 AS used,
           CASE WHEN u.used >= c.budget::numeric THEN 100
                WHEN u.used >= 0.8 * c.budget::numeric THEN 80 ELSE 0 END AS reached,
           CASE WHEN b.currency = c.budget_currency THEN b.notified_percent ELSE 0 END AS notified_percent,
           b.amount IS DISTINCT FROM c.budget AS moved
    FROM campaigns AS c
    LEFT JOIN budget_marks AS b ON b.tenant_id = $1 AND b.campaign_id = c.campaign_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(r.quantity * r.value::numeric), 0) AS used  -- Exact: ten of 0.1 reach a budget of 1.
        FROM rewards AS r
        JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
        WHERE r.tenant_id = $1 AND r.campaign_id = c.campaign_id
          AND (r.status NOT IN ('revoked', 'expired', 'failed') OR r.fulfilled_at IS NOT NULL)
          AND r.type NOT IN ('points', 'turns') AND p.currency = c.budget_currency
    ) AS u
    WHERE c.tenant_id = $1 AND c.budget > 0
      AND (campaign_status(c.status, c.end_date) <> 'ended' OR b.amount IS DISTINCT FROM c.budget
           OR b.currency <> c.budget_currency OR b.counted_at <= now() - interval '1 hour')
),
fresh AS (
    SELECT campaign_id, name, amount, currency, used, reached,
           CASE WHEN moved THEN least(notified_percent, reached) ELSE notified_percent END AS notified_percent
    FROM counted
),
stored AS (
    INSERT INTO budget_marks AS b (tenant_id, campaign_id, amount, currency, used, notified_percent)
    SELECT $1, campaign_id, amount, currency, used, greatest(notified_percent, reached) FROM fresh ORDER BY campaign_id
    ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET
        amount = excluded.amount, currency = excluded.currency, used = excluded.used,
        notified_percent = excluded.notified_percent,
        counted_at = now()
),
deleted AS (
    DELETE FROM budget_marks AS b WHERE b.tenant_id = $1
      AND NOT EXISTS (
          SELECT FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget > 0)
)
INSERT INTO notices (tenant_id, event_id, type, campaign_id, data)
SELECT $1, 'evt_' || replace(gen_random_uuid()::text, '-', ''), 'campaign.budget_reached', f.campaign_id,
       jsonb_build_object('campaign_id', f.campaign_id, 'name', f.name, 'percent', s.percent, 'amount', f.amount,
                          'currency', f.currency, 'used', f.used)
FROM fresh AS f
JOIN unnest(ARRAY[80, 100]) AS s (percent) ON s.percent <= f.reached AND s.percent > f.notified_percent
ORDER BY f.campaign_id, s.percent
RETURNING event_id

-- name: watch_stock
-- Marks prizes that have reached their low-stock threshold and inserts an event for each; unmarks those above it.
-- Archived prizes are not watched. The caller has locked the tenant's mark.
WITH watched AS (
    SELECT p.prize_id, p.campaign_id, p.name, p.low_stock_at,
           remaining_of_prize(p.channel, s.total, s.remaining, f.free) AS remaining
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

-- name: events
-- Stored events by id; for a budget the lower threshold first.
SELECT n.noticed_at AS at, n.event_id AS id, n.type, n.data, n.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM notices AS n
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = n.campaign_id
WHERE n.tenant_id = $1 AND n.event_id = ANY ($2::text[])
ORDER BY n.type, (n.data ->> 'percent')::int, n.event_id

-- name: purge
-- Deletes events older than 30 days, at most $2, except those that the backfill has still to deliver.
DELETE FROM notices WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM notices
    WHERE tenant_id = $1 AND noticed_at < now() - interval '30 days'
      AND (noticed_at < (SELECT backfilled_until FROM event_marks WHERE tenant_id = $1)
           OR NOT EXISTS (SELECT FROM integrations WHERE tenant_id = $1 AND status = 'active'))
    ORDER BY noticed_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
))

-- name: used
-- The budget use of campaigns $2 at the last check. No row: not checked yet, or another currency.
SELECT b.campaign_id, b.used, unix(b.counted_at) AS used_at
FROM budget_marks AS b
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget_currency = b.currency
WHERE b.tenant_id = $1 AND b.campaign_id = ANY ($2::text[])

-- name: low
-- Those of prizes $2 that are low in stock now.
SELECT p.prize_id
FROM prizes AS p
JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = p.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[]) AND p.low_stock_at > 0 AND p.type <> 'points'
  AND remaining_of_prize(p.channel, s.total, s.remaining, f.free) <= p.low_stock_at

-- name: budgets
-- Campaigns that have used at least 80 percent of their budget and have not ended, the highest share first, at most
-- ten. $2 the staff's merchant ('': the tenant).
SELECT b.campaign_id, c.name, c.budget AS amount, c.budget_currency AS currency, b.used
FROM budget_marks AS b
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = b.campaign_id AND c.budget_currency = b.currency
WHERE b.tenant_id = $1 AND c.budget > 0 AND b.used >= 0.8 * c.budget
  AND campaign_status(c.status, c.end_date) <> 'ended'
  AND ($2 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
ORDER BY b.used / c.budget DESC, b.campaign_id
LIMIT 10

-- name: low_prizes
-- Prizes low in stock, the lowest first, at most ten. $2 the staff's merchant ('': the tenant).
SELECT p.prize_id, p.name, p.low_stock_at,
       remaining_of_prize(p.channel, s.total, s.remaining, f.free) AS remaining
FROM low_prizes AS l
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = l.prize_id
JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = l.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = l.prize_id
WHERE l.tenant_id = $1 AND p.status = 'active'
  AND remaining_of_prize(p.channel, s.total, s.remaining, f.free) <= p.low_stock_at
  AND ($2 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
ORDER BY remaining, p.prize_id
LIMIT 10
