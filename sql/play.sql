-- What the play actor reads; commit.sql is what it writes. See runtime/actors/game/batch.py.

-- name: snapshot
-- A game with its campaign, the catalogue version of both, and the hashes of its 20 latest stored terms.
-- No row: no such game.
SELECT t.catalog_version, g.status, g.revision, r.definition, g.campaign_id,
       c.merchant_id, c.status AS campaign_status,
       CASE WHEN t.status = 'suspended' THEN 'tenant' WHEN o.status = 'suspended' THEN 'merchant' ELSE '' END AS suspended,
       unix(c.start_date) AS start_date, unix(c.end_date) AS end_date, unix(c.redeem_until) AS redeem_until,
       c.timezone,
       CASE WHEN c.entry ->> 'mode' = 'before_play' THEN c.entry_needs END AS entry_needs,
       CASE WHEN c.entry ->> 'mode' = 'before_play' THEN c.entry -> 'countries' END AS entry_countries,
       ARRAY(SELECT k.revision_hash::text FROM promised_terms AS k
             WHERE k.tenant_id = $1 AND k.game_id = $2 ORDER BY k.created_at DESC LIMIT 20) AS kept,
       EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = $2) AS played
FROM games AS g
JOIN tenants AS t ON t.tenant_id = g.tenant_id
JOIN campaigns AS c ON c.tenant_id = g.tenant_id AND c.campaign_id = g.campaign_id
JOIN game_revisions AS r ON r.tenant_id = g.tenant_id AND r.game_id = g.game_id AND r.revision = g.revision
LEFT JOIN merchants AS o ON o.tenant_id = g.tenant_id AND o.merchant_id = c.merchant_id
WHERE g.tenant_id = $1 AND g.game_id = $2

-- name: insert_terms
-- Stores the terms $4 of game $3 under their hash $2. No row: already stored, or the catalogue has passed version $5
-- that they were read at. They may then mix two versions and must be read again.
INSERT INTO promised_terms (tenant_id, revision_hash, game_id, terms)
SELECT tenant_id, $2, $3, $4 FROM tenants WHERE tenant_id = $1 AND catalog_version = $5
ON CONFLICT DO NOTHING

-- name: terms
-- The terms with hash $2. $3 the staff's merchant ('': the tenant's staff, or a player), $4 whether to write.
-- No row: no start has promised them.
SELECT p.revision_hash, p.game_id, p.terms, unix(p.created_at) AS promised_at
FROM promised_terms AS p
WHERE p.tenant_id = $1 AND p.revision_hash = $2
  AND ($3 = '' OR EXISTS (
      SELECT FROM games AS g
      WHERE g.tenant_id = $1 AND g.game_id = p.game_id AND g.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o)
  ))

-- name: ui
-- The UI of a game at a revision, which determines where a wheel stopped. No row: no such revision.
SELECT definition -> 'ui' AS ui FROM game_revisions WHERE tenant_id = $1 AND game_id = $2 AND revision = $3

-- name: prizes
-- The prizes $2 that a game names; `content` is set for those in $3. A missing row: an unknown prize, never available.
SELECT prize_id, name, type, value, max_per_user, max_per_day, redemption_mode, channel, expires_after_days, status, release,
       CASE WHEN prize_id = ANY($3::text[]) THEN prize_content(prizes) END AS content
FROM prizes WHERE tenant_id = $1 AND prize_id = ANY($2::text[])

-- name: refresh
-- The current state of players ($3) and prizes ($4) of a game ($2). Creates the missing players ($5). $6 campaign, $7
-- wallet scope, $8 local day, $9 whether plays need an entry. Always one row; missing data of a player or prize is zero or
-- null.
WITH created AS (
    INSERT INTO players (tenant_id, player_id, auth_method)
    SELECT $1, n.player_id, first_known_as(n.player_id) FROM unnest($5::text[]) AS n (player_id)
    ON CONFLICT DO NOTHING
)
SELECT
    extract(epoch FROM clock_timestamp())::float8 AS now,
    (SELECT catalog_version FROM tenants WHERE tenant_id = $1) AS catalog_version,
    (
        SELECT json_agg(json_build_array(
            n.player_id,
            coalesce(g.plays, 0),
            CASE WHEN g.day >= $8 THEN g.day_plays ELSE 0 END,
            g.day > $8,
            coalesce(t.balance, 0),
            coalesce(p.status = 'suspended', false),
            (SELECT json_object_agg(h.prize_id, h.awarded) FROM prize_players AS h
             WHERE h.tenant_id = $1 AND h.player_id = n.player_id AND h.prize_id = ANY($4::text[])),
            (SELECT json_object_agg(b.currency, b.balance) FROM balances AS b
             WHERE b.tenant_id = $1 AND b.player_id = n.player_id AND b.scope_key = $7),
            (SELECT json_object_agg(m.milestone_id, unix(m.granted_at)) FROM milestone_grants AS m
             WHERE m.tenant_id = $1 AND m.player_id = n.player_id AND m.game_id = $2),
            p.auth_method = 'guest',
            p.merged_into,
            coalesce(g.busy_until, 0),
            CASE WHEN $9 THEN (
                SELECT json_build_array(e.revision, e.given) FROM entries AS e
                WHERE e.tenant_id = $1 AND e.campaign_id = $6 AND e.player_id = n.player_id
            ) END
        ))
        FROM unnest($3::text[]) AS n (player_id)
        LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = n.player_id
        LEFT JOIN game_players AS g ON g.tenant_id = $1 AND g.game_id = $2 AND g.player_id = n.player_id
        LEFT JOIN turn_balances AS t ON t.tenant_id = $1 AND t.player_id = n.player_id AND t.campaign_id = $6
    ) AS players,
    (
        SELECT json_agg(json_build_array(
            n.prize_id,
            CASE WHEN s.total > 0 THEN s.remaining END,
            coalesce((SELECT d.awarded FROM prize_days AS d
                      WHERE d.tenant_id = $1 AND d.prize_id = n.prize_id AND d.day = $8), 0),
            coalesce(k.free, 0)
        ))
        FROM unnest($4::text[]) AS n (prize_id)
        LEFT JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = n.prize_id
        LEFT JOIN free_codes AS k ON k.tenant_id = $1 AND k.prize_id = n.prize_id
    ) AS prizes

-- name: rewind_days
-- Sets back day counters that are ahead of the local day $4, which ends at $5 (unix seconds). The campaign's time zone
-- has moved west, so they count plays of this day or earlier. Fewer rows, for one of these reasons:
--   the day is over, or the counters are not ahead;
--   a statement from before the last catalogue change still runs: a play decided in the old time zone could commit
--   later, restart its day and lose the count;
--   the catalogue has passed version $6, which determined the day: the time zone may have changed again, and setting
--   the day back would restart it and grant its free plays twice.
UPDATE game_players SET day = $4
WHERE tenant_id = $1 AND game_id = $2 AND player_id = ANY($3::text[]) AND day > $4
  AND extract(epoch FROM clock_timestamp()) < $5::bigint
  AND EXISTS (SELECT FROM tenants WHERE tenant_id = $1 AND catalog_version = $6)
  AND NOT EXISTS (
      SELECT FROM tenants AS t, pg_stat_activity AS a
      WHERE t.tenant_id = $1 AND a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND a.backend_type = 'client backend' AND age(a.backend_xmin) >= age(t.xmin))

-- name: find
-- Plays of these sessions ($2), or of game $5 by these players ($3) under these idempotency keys ($4).
SELECT p.play_id, p.game_id, p.player_id, p.seed, p.outcome, p.idempotency_key, p.request_hash
FROM plays AS p
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[])
UNION ALL
SELECT p.play_id, p.game_id, p.player_id, p.seed, p.outcome, p.idempotency_key, p.request_hash
FROM unnest($3::text[], $4::text[]) AS n (player_id, key)
JOIN plays AS p ON p.tenant_id = $1 AND p.player_id = n.player_id AND p.game_id = $5 AND p.idempotency_key = n.key

-- name: find_redeems
-- Redeems of game $4 by these players ($2) under these idempotency keys ($3).
SELECT g.player_id, g.idempotency_key, g.request_hash, g.reply
FROM unnest($2::text[], $3::text[]) AS n (player_id, key)
JOIN milestone_grants AS g ON g.tenant_id = $1 AND g.player_id = n.player_id AND g.game_id = $4
    AND g.idempotency_key = n.key

-- name: history
-- A player's plays of a game, newest first, before $4 (NULL: from the newest), each with its revision_hash.
SELECT p.play_id, p.game_id, p.session_id, p.revision, p.seed, p.client_seed, p.outcome,
       unix(p.played_at) AS played_at, coalesce(t.revision_hash, '') AS revision_hash
FROM plays AS p
LEFT JOIN promised_terms AS t ON t.tenant_id = $1 AND t.game_id = p.game_id
    AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'
WHERE p.tenant_id = $1 AND p.game_id = $2 AND p.player_id = $3 AND ($4::text IS NULL OR p.play_id < $4)
ORDER BY p.play_id DESC
LIMIT $5

-- name: game_exists
-- No row: no such public game (games.sql, `on_show`).
SELECT 1 FROM games AS g JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE g.tenant_id = $1 AND g.game_id = $2 AND g.status IN ('active', 'paused') AND c.status <> 'draft'

-- name: play
-- One play with the terms it was promised, and its payload and outcome as texts, as they are stored. $3 the staff's
-- merchant ('': the tenant). No row: not found or not readable.
SELECT p.play_id, p.game_id, p.player_id, p.session_id, p.revision, p.seed, p.client_seed, p.payload, p.outcome,
       p.payload::text AS stored_payload, p.outcome::text AS stored_outcome,
       unix(p.played_at) AS played_at, coalesce(t.revision_hash, '') AS revision_hash, t.terms
FROM plays AS p
LEFT JOIN promised_terms AS t ON t.tenant_id = $1 AND t.game_id = p.game_id
    AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'
WHERE p.tenant_id = $1 AND p.play_id = $2
  AND ($3 = '' OR EXISTS (
      SELECT FROM games AS g
      WHERE g.tenant_id = $1 AND g.game_id = p.game_id AND g.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o)
  ))
