-- Games and their revisions. See runtime/operations/games/game_admin.py.

-- name: insert
-- Creates a game at revision 1.
WITH created AS (
    INSERT INTO games (tenant_id, game_id, campaign_id, name, type, status)
    VALUES ($1, $2, $3, $4, $5, $6)
)
INSERT INTO game_revisions (tenant_id, game_id, revision, definition) VALUES ($1, $2, 1, $7)

-- name: get
-- One game with its current definition. $3 the staff's merchant ('': the tenant), $4 whether to write.
-- No row: not found or not permitted.
SELECT g.game_id AS id, g.campaign_id, g.status, g.revision, r.definition,
       unix(g.created_at) AS created_at, unix(g.updated_at) AS updated_at
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.game_id = $2
  AND ($3 = '' OR g.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Games newest first, after $7. $2 status ('': all but archived), $3 campaign, $4 type, $5 a LIKE pattern of the name,
-- $6 the staff's merchant ('': the tenant).
SELECT g.game_id AS id, g.campaign_id, g.status, g.revision, r.definition,
       unix(g.created_at) AS created_at, unix(g.updated_at) AS updated_at
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1
  AND CASE WHEN $2 = '' THEN g.status <> 'archived' ELSE g.status = $2 END
  AND ($3 = '' OR g.campaign_id = $3)
  AND ($4 = '' OR g.type = $4)
  AND g.name ILIKE $5
  AND ($6 = '' OR g.campaign_id IN (SELECT o FROM campaigns_of($1, $6, false) AS o))
  AND ($7::text IS NULL OR g.game_id < $7)
ORDER BY g.game_id DESC
LIMIT $8

-- name: revise
-- Creates the next revision of a game that is at $3 (optimistic lock). No row: it is at another revision.
WITH revised AS (
    UPDATE games SET name = $4, type = $5, status = $6, revision = revision + 1, updated_at = now()
    WHERE tenant_id = $1 AND game_id = $2 AND revision = $3
    RETURNING tenant_id, game_id, revision
)
INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
SELECT tenant_id, game_id, revision, $7::jsonb FROM revised
RETURNING revision

-- name: boards_that_count
-- Active leaderboards of the game.
SELECT board_id, name FROM leaderboards WHERE tenant_id = $1 AND game_id = $2 AND status = 'active' ORDER BY board_id

-- name: has_history
-- True if the game was ever played, granted a milestone, or was on a leaderboard.
SELECT EXISTS (SELECT FROM game_players WHERE tenant_id = $1 AND game_id = $2)
    OR EXISTS (SELECT FROM milestone_grants WHERE tenant_id = $1 AND game_id = $2)
    OR EXISTS (SELECT FROM leaderboards WHERE tenant_id = $1 AND game_id = $2)

-- name: was_played
-- True if the game was ever played.
SELECT EXISTS (SELECT FROM game_players WHERE tenant_id = $1 AND game_id = $2)

-- name: has_moved
-- True if the game was ever played or granted a milestone, and so may have changed wallets.
SELECT EXISTS (SELECT FROM game_players WHERE tenant_id = $1 AND game_id = $2)
    OR EXISTS (SELECT FROM milestone_grants WHERE tenant_id = $1 AND game_id = $2)

-- name: remove
-- Deletes a game that was never played, with its revisions.
WITH forgotten AS (
    DELETE FROM game_revisions WHERE tenant_id = $1 AND game_id = $2
)
DELETE FROM games WHERE tenant_id = $1 AND game_id = $2

-- name: archive
-- Archives a game that was played.
UPDATE games SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND game_id = $2

-- name: on_show
-- A public game, as `get`, with its campaign's merchant, status, dates, time zone and settings, and whether there are
-- quests, leaderboards and codes for its players. No row: unknown, archived, a draft, or in a draft campaign.
SELECT g.game_id AS id, g.campaign_id, g.status, g.revision, r.definition,
       unix(g.created_at) AS created_at, unix(g.updated_at) AS updated_at, c.merchant_id,
       c.status AS campaign_status, unix(c.start_date) AS start_date, unix(c.end_date) AS end_date,
       unix(c.redeem_until) AS redeem_until, c.timezone, c.settings,
       EXISTS (
           SELECT FROM quests AS q WHERE q.tenant_id = $1 AND q.campaign_id = g.campaign_id AND q.status = 'active'
       ) AS has_quests,
       referral_quest($1, g.campaign_id) IS NOT NULL AS has_referrals,
       jsonb_path_exists(coalesce(c.messages, '{}'), '$.templates[*] ? (@.paused == false)') AS has_messages,
       EXISTS (
           SELECT FROM leaderboards AS b
           WHERE b.tenant_id = $1 AND b.campaign_id = g.campaign_id AND b.game_id IN ('', g.game_id)
             AND b.status <> 'archived'
       ) AS has_leaderboards,
       EXISTS (
           SELECT FROM packs AS p WHERE p.tenant_id = $1 AND p.campaign_id = g.campaign_id AND p.status = 'active'
       ) AS has_codes,
       EXISTS (
           SELECT FROM draws AS d
           WHERE d.tenant_id = $1 AND d.campaign_id = g.campaign_id
             AND (d.status <> 'cancelled' OR d.closed_at IS NOT NULL)
       ) AS has_draws
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE g.tenant_id = $1 AND g.game_id = $2 AND g.status IN ('active', 'paused') AND c.status <> 'draft'

-- name: active_of_campaign
-- The campaign's public active games, newest first.
SELECT g.game_id AS id, g.campaign_id, g.status, g.revision, r.definition,
       unix(g.created_at) AS created_at, unix(g.updated_at) AS updated_at
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status = 'active'
ORDER BY g.game_id DESC
LIMIT $3

-- name: prizes_on_show
-- The public part of prizes $2. available: in stock, and with a free code if it needs one. needs_claim: the winner must
-- claim it. A missing row: an unknown or archived prize, which cannot be won.
SELECT p.prize_id, p.name, p.type, p.value, p.description, p.image_url, p.terms, p.currency, p.claim_fields,
       p.redemption_mode <> 'on_win' AND p.type NOT IN ('points', 'turns') AS needs_claim,
       p.channel = 'voucher_code' AND p.type <> 'points' AS gives_code,
       (p.type = 'points' OR s.total = 0 OR s.remaining > 0)
       AND (p.channel <> 'voucher_code' OR p.type = 'points' OR coalesce(f.free, 0) > 0) AS available
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
LEFT JOIN free_codes AS f USING (tenant_id, prize_id)
WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[]) AND p.status = 'active'

-- name: insert_revision
-- Adds a revision of a game.
INSERT INTO game_revisions (tenant_id, game_id, revision, definition) VALUES ($1, $2, $3, $4)

-- name: revisions
-- A game's revisions, newest first, after $4, each with its author. $3 a single revision (0: all).
SELECT r.revision::text AS id, r.revision, r.definition, unix(r.created_at) AS made_at, coalesce(made.actor, '') AS made_by
FROM game_revisions AS r
LEFT JOIN LATERAL (
    SELECT a.actor FROM audit_entries AS a
    WHERE a.tenant_id = $1 AND a.subject_type = 'game' AND a.subject_id = $2
      AND a.action IN ('game.create', 'game.update') AND (a.after ->> 'revision')::integer = r.revision
    ORDER BY a.entry_id DESC LIMIT 1
) AS made ON true
WHERE r.tenant_id = $1 AND r.game_id = $2
  AND ($3::integer = 0 OR r.revision = $3) AND ($4::text IS NULL OR r.revision < $4::integer)
ORDER BY r.revision DESC
LIMIT $5
