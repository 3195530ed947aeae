-- Prizes and their stock. See runtime/operations/prizes/prize_admin.py.

-- name: insert
-- Makes a prize with full stock of $20 (0: unlimited).
WITH made AS (
    INSERT INTO prizes (tenant_id, prize_id, name, type, value, campaign_id, max_per_user, max_per_day,
                        redemption_mode, channel, channel_config, expires_after_days, status, description, image_url,
                        terms, currency, low_stock_at, claim_fields)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
)
INSERT INTO stock (tenant_id, prize_id, total, remaining, awarded) VALUES ($1, $2, $20, $20, 0)

-- name: get
-- One prize with its stock. $3 the merchant whose staff asks ('' the tenant's own),
-- $4 whether to write. No row: there is none that may be.
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, p.description, p.image_url, p.terms, p.currency,
       p.low_stock_at, p.claim_fields, s.total, s.remaining, s.awarded,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
WHERE p.tenant_id = $1 AND p.prize_id = $2
  AND ($3 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Prizes newest first, after $7. $2 status ('': all but archived), $3 campaign, $4 type, $5 a LIKE pattern of the name,
-- $6 the merchant whose staff asks ('' the tenant's own).
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, p.description, p.image_url, p.terms, p.currency,
       p.low_stock_at, p.claim_fields, s.total, s.remaining, s.awarded,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
WHERE p.tenant_id = $1
  AND CASE WHEN $2 = '' THEN p.status <> 'archived' ELSE p.status = $2 END
  AND ($3 = '' OR p.campaign_id = $3)
  AND ($4 = '' OR p.type = $4)
  AND p.name ILIKE $5
  AND ($6 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $6, false) AS o))
  AND ($7::text IS NULL OR p.prize_id < $7)
ORDER BY p.prize_id DESC
LIMIT $8

-- name: update
-- Writes every field of a prize but its stock; the caller holds the tenant's lock.
UPDATE prizes SET
    name = $3, type = $4, value = $5, campaign_id = $6, max_per_user = $7, max_per_day = $8, redemption_mode = $9,
    channel = $10, channel_config = $11, expires_after_days = $12, status = $13, description = $14, image_url = $15,
    terms = $16, currency = $17, low_stock_at = $18, claim_fields = $19, updated_at = now()
WHERE tenant_id = $1 AND prize_id = $2

-- name: set_total_stock
-- Sets the total to $3 (0: unlimited) or, where that is NULL, moves it by $4; what remains follows from what is
-- awarded. The move is written down: $5 who, $6 why. The caller holds the tenant's catalogue, so moves take turns.
-- No row: more is awarded than that, it is more than can be counted, or $4 would lead from or to unlimited.
WITH held AS (
    SELECT total, coalesce($3::bigint, total + $4::bigint) AS wanted
    FROM stock WHERE tenant_id = $1 AND prize_id = $2
),
moved AS (
    -- What is awarded is read from the row that is written: a winner may have come after the look above.
    UPDATE stock AS s SET total = h.wanted, remaining = CASE WHEN h.wanted = 0 THEN 0 ELSE h.wanted - s.awarded END
    FROM held AS h
    WHERE s.tenant_id = $1 AND s.prize_id = $2
      AND (h.wanted = 0 OR s.awarded <= h.wanted) AND h.wanted <= 2147483647
      AND ($3::bigint IS NOT NULL OR (h.total > 0 AND h.wanted > 0))
    RETURNING h.total AS total_before, s.total, s.remaining, s.awarded
)
INSERT INTO stock_moves (tenant_id, prize_id, seq, actor, reason, total_before, remaining_before, total_after,
                         remaining_after)
SELECT $1, $2, 1 + coalesce((SELECT max(o.seq) FROM stock_moves AS o WHERE o.tenant_id = $1 AND o.prize_id = $2), 0),
       $5, $6, total_before, CASE WHEN total_before = 0 THEN 0 ELSE total_before - awarded END, total, remaining
FROM moved
RETURNING seq::text AS id, prize_id, actor, reason, total_before, total_after, remaining_before, remaining_after,
          unix(created_at) AS created_at

-- name: awarded
-- How many of the prize are awarded, and its total.
SELECT awarded, total FROM stock WHERE tenant_id = $1 AND prize_id = $2

-- name: stock_moves
-- Moves of the total of prize $2, newest first, after $3.
SELECT seq::text AS id, prize_id, actor, reason, total_before, total_after, remaining_before, remaining_after,
       unix(created_at) AS created_at
FROM stock_moves
WHERE tenant_id = $1 AND prize_id = $2 AND ($3::text IS NULL OR seq < $3::text::bigint)
ORDER BY seq DESC
LIMIT $4

-- name: usable
-- Which of the prizes $2 there are and are not archived, for staff of merchant $3 ('' the tenant's own).
SELECT prize_id FROM prizes WHERE tenant_id = $1 AND prize_id = ANY ($2::text[]) AND status = 'active'
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: games_that_may_name
-- Active games in whose definition the prize's id stands anywhere; the caller looks closer.
SELECT g.game_id, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.status = 'active' AND position($2 IN r.definition::text) > 0
ORDER BY g.game_id

-- name: boards_that_name
-- Active leaderboards that award the prize.
SELECT board_id
FROM leaderboards
WHERE tenant_id = $1 AND status = 'active'
  AND prizes @> jsonb_build_array(jsonb_build_object('prize_id', $2::text))
ORDER BY board_id

-- name: hold
-- Holds the prize before it goes, so that `remove` sees the codes of imports that were under way.
SELECT FROM prizes WHERE tenant_id = $1 AND prize_id = $2 FOR UPDATE

-- name: has_history
-- True where the prize was ever won, or could have been (points leave no reward, but a play names the revision).
SELECT EXISTS (SELECT FROM rewards WHERE tenant_id = $1 AND prize_id = $2)
    OR EXISTS (SELECT FROM stock WHERE tenant_id = $1 AND prize_id = $2 AND awarded > 0)
    OR EXISTS (SELECT FROM prize_players WHERE tenant_id = $1 AND prize_id = $2)
    OR EXISTS (SELECT FROM codes WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NOT NULL)
    OR EXISTS (
        SELECT FROM game_revisions AS r
        WHERE r.tenant_id = $1 AND position($2 IN r.definition::text) > 0
          AND EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = r.game_id)
    )

-- name: remove
-- Removes a prize that was never used, with its stock and its codes.
WITH unstocked AS (
    DELETE FROM stock WHERE tenant_id = $1 AND prize_id = $2
),
unmoved AS (
    DELETE FROM stock_moves WHERE tenant_id = $1 AND prize_id = $2
),
uncoded AS (
    DELETE FROM codes WHERE tenant_id = $1 AND prize_id = $2
),
uncounted AS (
    DELETE FROM code_pools WHERE tenant_id = $1 AND prize_id = $2
),
unended AS (
    DELETE FROM code_ends WHERE tenant_id = $1 AND prize_id = $2
)
DELETE FROM prizes WHERE tenant_id = $1 AND prize_id = $2

-- name: archive
-- Archives a prize that has history.
UPDATE prizes SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND prize_id = $2

-- name: summary
-- Stock and how far its rewards got (units, not rows), for prizes as in `list`.
-- claimed: their players have claimed them. fulfilled: they are delivered. Revoked ones count in neither.
WITH page AS MATERIALIZED (
    SELECT p.prize_id, p.name, p.type, p.channel, p.status, s.total, s.remaining, s.awarded
    FROM prizes AS p
    JOIN stock AS s USING (tenant_id, prize_id)
    WHERE p.tenant_id = $1
      AND CASE WHEN $2 = '' THEN p.status <> 'archived' ELSE p.status = $2 END
      AND ($3 = '' OR p.campaign_id = $3)
      AND ($4 = '' OR p.type = $4)
      AND p.name ILIKE $5
      AND ($6 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $6, false) AS o))
      AND ($7::text IS NULL OR p.prize_id < $7)
    ORDER BY p.prize_id DESC
    LIMIT $8
),
-- Once for the whole page: prize by prize, each could read all that the tenant's players ever won.
-- MATERIALIZED, or the plan, which takes a filtered page to be one prize, would count them all again for each.
won AS MATERIALIZED (
    SELECT prize_id, coalesce(sum(quantity) FILTER (WHERE claimed_at IS NOT NULL), 0)::bigint AS claimed,
           coalesce(sum(quantity) FILTER (WHERE status = 'fulfilled'), 0)::bigint AS fulfilled
    FROM rewards
    WHERE tenant_id = $1 AND prize_id = ANY (ARRAY(SELECT prize_id FROM page)) AND status <> 'revoked'
    GROUP BY prize_id
)
SELECT p.*, coalesce(w.claimed, 0) AS claimed, coalesce(w.fulfilled, 0) AS fulfilled,
       coalesce(f.free, 0) AS codes_available
FROM page AS p
LEFT JOIN won AS w USING (prize_id)
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
ORDER BY p.prize_id DESC
