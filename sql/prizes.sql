-- Prizes and their stock. See runtime/operations/prizes/records.py.

-- name: insert
-- Makes a prize with full stock of $14 (0: unlimited).
WITH made AS (
    INSERT INTO prizes (tenant_id, prize_id, name, type, value, campaign_id, max_per_user, max_per_day,
                        redemption_mode, channel, channel_config, expires_after_days, status)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
)
INSERT INTO stock (tenant_id, prize_id, total, remaining, awarded) VALUES ($1, $2, $14, $14, 0)

-- name: get
-- One prize with its stock. $3 the merchant whose staff asks ('' the tenant's own),
-- $4 whether to write. No row: there is none that may be.
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, s.total, s.remaining, s.awarded,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
WHERE p.tenant_id = $1 AND p.prize_id = $2
  AND ($3 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Prizes newest first, after $7. $2 status ('': all but archived), $3 campaign, $4 type, $5 a LIKE pattern of the name,
-- $6 the merchant whose staff asks ('' the tenant's own).
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, s.total, s.remaining, s.awarded,
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
    channel = $10, channel_config = $11, expires_after_days = $12, status = $13, updated_at = now()
WHERE tenant_id = $1 AND prize_id = $2

-- name: set_total_stock
-- Sets the total (0: unlimited); what remains follows from what is awarded. No row: more is awarded than that.
UPDATE stock SET total = $3, remaining = CASE WHEN $3 = 0 THEN 0 ELSE $3 - awarded END
WHERE tenant_id = $1 AND prize_id = $2 AND ($3 = 0 OR awarded <= $3)
RETURNING total

-- name: awarded
-- How many of the prize are awarded.
SELECT awarded FROM stock WHERE tenant_id = $1 AND prize_id = $2

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
uncoded AS (
    DELETE FROM codes WHERE tenant_id = $1 AND prize_id = $2
)
DELETE FROM prizes WHERE tenant_id = $1 AND prize_id = $2

-- name: archive
-- Archives a prize that has history.
UPDATE prizes SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND prize_id = $2

-- name: summary
-- Stock and how far its rewards got (units, not rows), for prizes as in `list`.
-- claimed: their players have claimed them. fulfilled: they are delivered. Revoked ones count in neither.
SELECT p.prize_id, p.name, s.total, s.remaining, s.awarded, r.claimed, r.fulfilled,
       (SELECT count(*) FROM codes AS c
        WHERE c.tenant_id = $1 AND c.prize_id = p.prize_id AND c.reward_id IS NULL) AS codes_available
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(quantity) FILTER (WHERE claimed_at IS NOT NULL), 0)::bigint AS claimed,
           coalesce(sum(quantity) FILTER (WHERE status = 'fulfilled'), 0)::bigint AS fulfilled
    FROM rewards
    WHERE tenant_id = $1 AND prize_id = p.prize_id AND status <> 'revoked'
) AS r
WHERE p.tenant_id = $1
  AND CASE WHEN $2 = '' THEN p.status <> 'archived' ELSE p.status = $2 END
  AND ($3 = '' OR p.campaign_id = $3)
  AND ($4 = '' OR p.type = $4)
  AND p.name ILIKE $5
  AND ($6 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $6, false) AS o))
  AND ($7::text IS NULL OR p.prize_id < $7)
ORDER BY p.prize_id DESC
LIMIT $8
