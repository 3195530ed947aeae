-- Prizes and their stock. See runtime/operations/prizes/prize_admin.py.

-- name: insert
-- Creates a prize with full stock of $21 (0: unlimited).
WITH created AS (
    INSERT INTO prizes (tenant_id, prize_id, name, type, value, campaign_id, max_per_user, max_per_day,
                        redemption_mode, channel, channel_config, expires_after_days, status, description, image_url,
                        terms, currency, low_stock_at, claim_fields, release)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
)
INSERT INTO stock (tenant_id, prize_id, total, remaining, awarded) VALUES ($1, $2, $21, $21, 0)

-- name: promise_release
-- Keeps the release $3 of a prize by its commitment.
INSERT INTO promised_releases (tenant_id, commitment, prize_id, release) VALUES ($1, $3::jsonb ->> 'commitment', $2, $3)
ON CONFLICT DO NOTHING

-- name: promised_releases
-- The releases with commitments $2.
SELECT prize_id, release FROM promised_releases WHERE tenant_id = $1 AND commitment = ANY ($2::text[]) ORDER BY commitment

-- name: get
-- One prize with its stock. $3 the staff's merchant ('': the tenant),
-- $4 whether to write. No row: not found or not permitted.
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, p.description, p.image_url, p.terms, p.currency,
       p.low_stock_at, p.claim_fields, p.release, s.total, s.remaining, s.awarded,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
WHERE p.tenant_id = $1 AND p.prize_id = $2
  AND ($3 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Prizes newest first, after $7. $2 status ('': all but archived), $3 campaign, $4 type, $5 a LIKE pattern of the name,
-- $6 the staff's merchant ('': the tenant).
SELECT p.prize_id AS id, p.name, p.type, p.value, p.campaign_id, p.max_per_user, p.max_per_day, p.redemption_mode,
       p.channel, p.channel_config, p.expires_after_days, p.status, p.description, p.image_url, p.terms, p.currency,
       p.low_stock_at, p.claim_fields, p.release, s.total, s.remaining, s.awarded,
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
-- Writes every field of a prize except its stock; the caller has locked the tenant.
UPDATE prizes SET
    name = $3, type = $4, value = $5, campaign_id = $6, max_per_user = $7, max_per_day = $8, redemption_mode = $9,
    channel = $10, channel_config = $11, expires_after_days = $12, status = $13, description = $14, image_url = $15,
    terms = $16, currency = $17, low_stock_at = $18, claim_fields = $19, release = $20,
    updated_at = now()
WHERE tenant_id = $1 AND prize_id = $2

-- name: set_total_stock
-- Sets the total to $3 (0: unlimited) or, if that is NULL, changes it by $4, and records the move by $5 for reason $6.
-- remaining follows from awarded. The caller has locked the tenant's catalogue, which serializes moves.
-- No row: more is awarded than that, the total is out of range, or $4 would change from or to unlimited.
WITH current_stock AS (
    SELECT total, coalesce($3::bigint, total + $4::bigint) AS wanted
    FROM stock WHERE tenant_id = $1 AND prize_id = $2
),
moved AS (
    -- Reads `awarded` from the updated row: a win may have committed after the read above.
    UPDATE stock AS s SET total = h.wanted, remaining = CASE WHEN h.wanted = 0 THEN 0 ELSE h.wanted - s.awarded END
    FROM current_stock AS h
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
-- The prize's awarded count and total.
SELECT awarded, total FROM stock WHERE tenant_id = $1 AND prize_id = $2

-- name: stock_moves
-- Stock moves of prize $2, newest first, after $3.
SELECT seq::text AS id, prize_id, actor, reason, total_before, total_after, remaining_before, remaining_after,
       unix(created_at) AS created_at
FROM stock_moves
WHERE tenant_id = $1 AND prize_id = $2 AND ($3::text IS NULL OR seq < $3::text::bigint)
ORDER BY seq DESC
LIMIT $4

-- name: named
-- Those of prizes $2 that exist, for staff of merchant $3 ('': the tenant's).
SELECT prize_id, name, status <> 'active' AS is_archived FROM prizes WHERE tenant_id = $1 AND prize_id = ANY ($2::text[])
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: count_released
-- How many of prizes $2 have a release.
SELECT count(*) FROM prizes WHERE tenant_id = $1 AND prize_id = ANY ($2::text[]) AND release IS NOT NULL

-- name: games_that_may_name
-- Active games whose definition contains the prize's id; the caller then checks the definition.
SELECT g.game_id, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.status = 'active' AND position($2 IN r.definition::text) > 0
ORDER BY g.game_id

-- name: frozen_games_that_may_name
-- Launched games of frozen campaigns under way whose definition contains the prize's id; the caller then checks the
-- definition.
SELECT g.campaign_id, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE g.tenant_id = $1 AND g.status <> 'draft' AND c.frozen
  AND campaign_status(c.status, c.end_date) IN ('active', 'paused') AND position($2 IN r.definition::text) > 0
ORDER BY g.game_id

-- name: boards_that_name
-- Leaderboards that award the prize: active ones, and those that still owe it to a rank.
SELECT b.board_id, b.name
FROM leaderboards AS b
WHERE b.tenant_id = $1 AND (
    (b.status = 'active' AND b.prizes @> jsonb_build_array(jsonb_build_object('prize_id', $2::text)))
    OR EXISTS (
        SELECT FROM leaderboard_standings AS s
        WHERE s.tenant_id = $1 AND s.board_id = b.board_id AND s.prize_id = $2 AND s.reason = 'PENDING'))
ORDER BY b.board_id

-- name: draws_that_name
-- Draws that award the prize: unconfirmed ones, and those that still owe it to a rank.
SELECT d.draw_id, d.name
FROM draws AS d
WHERE d.tenant_id = $1 AND (
    (d.status IN ('open', 'closed', 'drawn') AND d.prizes @> jsonb_build_array(jsonb_build_object('prize_id', $2::text)))
    OR EXISTS (
        SELECT FROM leaderboard_standings AS s
        WHERE s.tenant_id = $1 AND s.board_id = d.draw_id AND s.prize_id = $2 AND s.reason = 'PENDING'))
ORDER BY d.draw_id

-- name: lock
-- Locks the prize before its deletion, so that `remove` sees the codes of imports in progress.
SELECT FROM prizes WHERE tenant_id = $1 AND prize_id = $2 FOR UPDATE

-- name: has_history
-- True if the prize was ever won or could have been (points create no reward, but the play names the revision). A rank's
-- standing names its prize before the award, so an award that has not committed yet is history too.
SELECT EXISTS (SELECT FROM rewards WHERE tenant_id = $1 AND prize_id = $2)
    OR EXISTS (SELECT FROM stock WHERE tenant_id = $1 AND prize_id = $2 AND awarded > 0)
    OR EXISTS (SELECT FROM prize_players WHERE tenant_id = $1 AND prize_id = $2)
    OR EXISTS (SELECT FROM codes WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NOT NULL)
    OR EXISTS (SELECT FROM leaderboard_standings WHERE tenant_id = $1 AND prize_id = $2 AND prize_id <> '')
    OR EXISTS (
        SELECT FROM game_revisions AS r
        WHERE r.tenant_id = $1 AND position($2 IN r.definition::text) > 0
          AND EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = r.game_id)
    )

-- name: has_codes_or_units_to_deliver
-- Whether a reward of prize $2 that may still be delivered has a code, which its player would get with a delivery over
-- another channel, or several units, for which voucher_code would give one code.
SELECT EXISTS (
    SELECT FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.prize_id = $2 AND r.status IN ('won', 'claimed', 'fulfilling', 'failed')
      AND (r.quantity > 1 OR EXISTS (SELECT FROM codes AS c WHERE c.tenant_id = $1 AND c.reward_id = r.reward_id))
)

-- name: remove
-- Deletes a prize that was never used, with its stock and codes.
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
-- Stock and progress of rewards (in units, not rows), for prizes as in `list`.
-- claimed: by their players. fulfilled: delivered. Revoked rewards count in neither.
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
-- Once for the whole page: per prize, each could read all rewards that the tenant's players ever won.
-- MATERIALIZED: the planner expects a filtered page to have one prize, and would count again for each.
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
