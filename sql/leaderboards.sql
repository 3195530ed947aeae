-- Leaderboards, the scores computed from plays, and the standings stored at finalization.
-- See runtime/operations/leaderboards/board_admin.py, rankings.py and finalize.py. Lock order: tenant, board, standings.

-- name: insert
-- $1 tenant, $2 board, $3 campaign, $4 game ('' = the whole campaign), $5 name, $6 metric, $7 mode, $8 start_date and
-- $9 end_date in unix seconds, $10 prizes, $11 the staff's merchant ('': the tenant). No row: the campaign is unknown
-- or not writable, or the game is not in it.
INSERT INTO leaderboards (tenant_id, board_id, campaign_id, game_id, name, metric, mode, start_date, end_date, prizes)
SELECT c.tenant_id, $2::text, c.campaign_id, $4::text, $5, $6, $7, at_unix($8), at_unix($9), $10
FROM campaigns AS c
WHERE c.tenant_id = $1 AND c.campaign_id = $3 AND ($4::text = '' OR EXISTS (
    SELECT FROM games AS g WHERE g.tenant_id = $1 AND g.game_id = $4 AND g.campaign_id = c.campaign_id))
  AND ($11 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $11, true) AS o))
RETURNING board_id AS id, campaign_id, game_id, name, metric, mode, status, unix(start_date) AS start_date,
          unix(end_date) AS end_date, prizes, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
          unix(finalized_at) AS finalized_at;

-- name: game_campaign
-- The campaign of a game. $1 tenant, $2 game, $3 the staff's merchant ('': the tenant). No row: an unknown game.
SELECT campaign_id FROM games WHERE tenant_id = $1 AND game_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o));

-- name: get
-- $1 tenant, $2 board,
-- $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT board_id AS id, campaign_id, game_id, name, metric, mode, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, prizes, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
       unix(finalized_at) AS finalized_at
FROM leaderboards WHERE tenant_id = $1 AND board_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o));

-- name: on_show
-- A public board. $1 tenant, $2 board. No row: unknown, archived, or in a draft campaign.
SELECT b.finalized_at IS NOT NULL AS finalized
FROM leaderboards AS b JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE b.tenant_id = $1 AND b.board_id = $2 AND b.status <> 'archived' AND c.status <> 'draft';

-- name: of_campaign
-- The campaign's public boards, newest first: not archived, and not of a draft game.
SELECT b.board_id AS id, b.campaign_id, b.game_id, b.name, b.metric, b.mode, b.status,
       unix(b.start_date) AS start_date, unix(b.end_date) AS end_date, b.prizes, unix(b.created_at) AS created_at,
       unix(b.updated_at) AS updated_at, unix(b.finalized_at) AS finalized_at
FROM leaderboards AS b
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = b.game_id
WHERE b.tenant_id = $1 AND b.campaign_id = $2 AND b.status <> 'archived' AND coalesce(g.status, '') <> 'draft'
ORDER BY b.board_id DESC
LIMIT $3;

-- name: lock
-- As `get`, and locks the board until the transaction ends. $1 tenant, $2 board,
-- $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT board_id AS id, campaign_id, game_id, name, metric, mode, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, prizes, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
       unix(finalized_at) AS finalized_at
FROM leaderboards WHERE tenant_id = $1 AND board_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))
FOR UPDATE;

-- name: ending
-- A tenant's boards to finalize: those past their end, once all earlier plays are visible, and those closed with prizes
-- still to award.
SELECT board_id FROM leaderboards WHERE tenant_id = $1 AND status = 'active' AND end_date <= settled_at()
UNION
SELECT s.board_id FROM leaderboard_standings AS s
JOIN leaderboards AS b ON b.tenant_id = $1 AND b.board_id = s.board_id
WHERE s.tenant_id = $1 AND s.reason = 'PENDING'
ORDER BY board_id;

-- name: tenants_with_ending
-- Tenants that may have boards in `ending`.
SELECT tenant_id FROM leaderboards WHERE status = 'active' AND end_date <= now()
UNION
SELECT tenant_id FROM leaderboard_standings WHERE reason = 'PENDING'
ORDER BY tenant_id;

-- name: list
-- Newest first. $1 tenant, $2 campaign, $3 status ('' = any but archived), $4 LIKE pattern of the name, $5 the staff's
-- merchant ('': the tenant), $6 the id of the last one shown (null at first), $7 how many.
SELECT board_id AS id, campaign_id, game_id, name, metric, mode, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, prizes, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
       unix(finalized_at) AS finalized_at
FROM leaderboards
WHERE tenant_id = $1 AND ($2::text = '' OR campaign_id = $2)
  AND CASE WHEN $3::text = '' THEN status <> 'archived' ELSE status = $3 END
  AND name ILIKE $4 AND ($5 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
  AND ($6::text IS NULL OR board_id < $6)
ORDER BY board_id DESC
LIMIT $7;

-- name: update
-- Parameters as in `insert`. No row: unknown campaign or game, as there; the caller has locked the board.
UPDATE leaderboards AS b SET
    campaign_id = c.campaign_id, game_id = $4, name = $5, metric = $6, mode = $7, start_date = at_unix($8),
    end_date = at_unix($9), prizes = $10, updated_at = now()
FROM campaigns AS c
WHERE b.tenant_id = $1 AND b.board_id = $2 AND c.tenant_id = $1 AND c.campaign_id = $3
  AND ($4::text = '' OR EXISTS (
    SELECT FROM games AS g WHERE g.tenant_id = $1 AND g.game_id = $4 AND g.campaign_id = c.campaign_id))
  AND ($11 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $11, true) AS o))
RETURNING b.board_id AS id, b.campaign_id, b.game_id, b.name, b.metric, b.mode, b.status,
          unix(b.start_date) AS start_date, unix(b.end_date) AS end_date, b.prizes,
          unix(b.created_at) AS created_at, unix(b.updated_at) AS updated_at, unix(b.finalized_at) AS finalized_at;

-- name: remove
-- Deletes a board without any scores. No row: it has history. The caller has locked the board. $1 tenant, $2 board.
DELETE FROM leaderboards AS b
WHERE b.tenant_id = $1 AND b.board_id = $2 AND b.status = 'active'
  AND NOT EXISTS (SELECT FROM leaderboard_adjustments AS a WHERE a.tenant_id = $1 AND a.board_id = $2)
  AND NOT EXISTS (SELECT FROM leaderboard_disqualifications AS d WHERE d.tenant_id = $1 AND d.board_id = $2)
  AND NOT EXISTS (
    SELECT FROM games AS g JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = g.game_id
    WHERE g.tenant_id = $1
      AND CASE WHEN b.game_id <> '' THEN g.game_id = b.game_id ELSE g.campaign_id = b.campaign_id END)
RETURNING b.board_id;

-- name: draws_that_name
-- Open draws whose tickets are the board's scores. $1 tenant, $2 board.
SELECT draw_id, name FROM draws
WHERE tenant_id = $1 AND status = 'open' AND tickets ->> 'ranking' = $2
ORDER BY draw_id;

-- name: allow_computing
-- Lets this transaction compute for long between two statements: the time grows with the players.
SELECT set_config('idle_in_transaction_session_timeout', '0', true);

-- name: archive
-- $1 tenant, $2 board. No row: unknown.
UPDATE leaderboards SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND board_id = $2
RETURNING board_id;

-- name: knows_player
-- True if the tenant has the player: registered, or with plays. $1 tenant, $2 player.
SELECT EXISTS (SELECT FROM players WHERE tenant_id = $1 AND player_id = $2)
    OR EXISTS (SELECT FROM plays WHERE tenant_id = $1 AND player_id = $2);

-- name: contacts
-- The oldest phone number or e-mail address of each of players $2. A missing row: the player has none.
SELECT DISTINCT ON (player_id) player_id, value FROM contacts
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND type IN ('phone', 'email')
ORDER BY player_id, contact_id;

-- name: is_disqualified
-- $1 tenant, $2 board, $3 player.
SELECT EXISTS (
    SELECT FROM leaderboard_disqualifications WHERE tenant_id = $1 AND board_id = $2 AND player_id = $3);

-- name: adjust
-- Records a score adjustment. $1 tenant, $2 board, $3 player, $4 entry, $5 delta, $6 reason.
INSERT INTO leaderboard_adjustments (tenant_id, board_id, player_id, entry_id, delta, reason)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING entry_id;

-- name: disqualify
-- Disqualifies a player; the first reason stays. No row: already disqualified.
-- $1 tenant, $2 board, $3 player, $4 reason.
INSERT INTO leaderboard_disqualifications (tenant_id, board_id, player_id, reason)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
RETURNING player_id;

-- name: disqualification
-- $1 tenant, $2 board, $3 player. No row: the player is not disqualified.
SELECT board_id AS leaderboard_id, player_id, reason, unix(disqualified_at) AS disqualified_at
FROM leaderboard_disqualifications WHERE tenant_id = $1 AND board_id = $2 AND player_id = $3;

-- name: scores
-- The scores of players on boards. This is the only definition of a score: live updates use it for some players, a
-- rebuild and finalization for all.
--
-- A play counts with the board's metric (score, wins, points, or 1 for plays) if its game is the
-- board's, or is in the board's campaign, and it was played in [start_date, end_date). The mode reduces the values to
-- their sum, the best or the latest. Adjustments are added. achieved_at is when the score
-- was reached: by the last play that changed a sum, by the first play that was the best, by the latest, or
-- by a later adjustment. A player who is disqualified, or has neither play nor adjustment, has no score.
--
-- $1 tenant, $2 boards (null = the active ones), $3 only boards that count one of these games
-- (null = any), $4 players (null = all).
-- One row per board and requested player; score is null if there is none. A board without players has one row with a
-- null player. `version` orders results: the greater one saw everything that the lesser one saw. `config` identifies the
-- board's definition. `status` is draft if the campaign is, so that no live ranking is stored for an unpublished board.
WITH boards AS MATERIALIZED (
    SELECT b.board_id, b.metric, b.mode, b.start_date, b.end_date, s.games,
           md5(concat_ws('|', b.metric, b.mode, unix(b.start_date), unix(b.end_date), array_to_string(s.games, ','))) AS config,
           CASE WHEN (SELECT c.status FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = b.campaign_id) = 'draft'
               THEN 'draft' ELSE b.status END AS status
    FROM leaderboards AS b
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(g.game_id::text ORDER BY g.game_id), '{}') AS games
        FROM games AS g
        WHERE g.tenant_id = $1
          AND CASE WHEN b.game_id <> '' THEN g.game_id = b.game_id ELSE g.campaign_id = b.campaign_id END
    ) AS s
    WHERE b.tenant_id = $1 AND CASE WHEN $2::text[] IS NULL THEN b.status = 'active' ELSE b.board_id = ANY($2) END
      AND ($3::text[] IS NULL OR s.games && $3)
),
seats AS MATERIALIZED (
    SELECT b.board_id, p.player_id FROM boards AS b CROSS JOIN unnest($4::text[]) AS p (player_id)
    UNION
    SELECT b.board_id, c.player_id::text
    FROM boards AS b JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = ANY(b.games)
    WHERE $4 IS NULL
    UNION
    SELECT b.board_id, a.player_id::text
    FROM boards AS b JOIN leaderboard_adjustments AS a ON a.tenant_id = $1 AND a.board_id = b.board_id
    WHERE $4 IS NULL
),
adjusted AS MATERIALIZED (
    SELECT a.board_id, a.player_id, sum(a.delta) AS delta, max(a.created_at) AS adjusted_at
    FROM boards AS b JOIN leaderboard_adjustments AS a ON a.tenant_id = $1 AND a.board_id = b.board_id
    WHERE $4 IS NULL OR a.player_id = ANY($4)
    GROUP BY a.board_id, a.player_id
),
scored AS (
    SELECT s.board_id, s.player_id,
           CASE WHEN d.player_id IS NULL AND (p.value IS NOT NULL OR a.delta IS NOT NULL)
               THEN coalesce(p.value, 0) + coalesce(a.delta, 0) END AS score,
           greatest(p.reached_at, a.adjusted_at) AS achieved_at
    FROM seats AS s
    JOIN boards AS b ON b.board_id = s.board_id
    CROSS JOIN LATERAL (
        SELECT
            CASE b.mode
                WHEN 'sum' THEN sum(v.value)
                WHEN 'best' THEN max(v.value)
                ELSE (array_agg(v.value ORDER BY v.played_at DESC, v.play_id DESC) FILTER (WHERE b.mode = 'latest'))[1]
            END AS value,
            CASE b.mode
                WHEN 'sum' THEN coalesce(max(v.played_at) FILTER (WHERE v.value <> 0), min(v.played_at))
                WHEN 'best' THEN
                    (array_agg(v.played_at ORDER BY v.value DESC, v.played_at) FILTER (WHERE b.mode = 'best'))[1]
                ELSE max(v.played_at)
            END AS reached_at
        FROM (
            SELECT p.play_id, p.played_at, CASE b.metric
                WHEN 'score' THEN p.score WHEN 'wins' THEN p.wins WHEN 'points' THEN p.points ELSE 1 END AS value
            FROM plays AS p
            WHERE p.tenant_id = $1 AND p.player_id = s.player_id AND p.game_id = ANY(b.games)
              AND (b.start_date IS NULL OR p.played_at >= b.start_date)
              AND (b.end_date IS NULL OR p.played_at < b.end_date)
        ) AS v
    ) AS p
    LEFT JOIN adjusted AS a ON a.board_id = s.board_id AND a.player_id = s.player_id
    LEFT JOIN leaderboard_disqualifications AS d
        ON d.tenant_id = $1 AND d.board_id = s.board_id AND d.player_id = s.player_id
),
seen AS MATERIALIZED (
    -- xmin and xmax only increase, and between equal ones the set of running transactions only shrinks.
    SELECT lpad(pg_snapshot_xmax(s)::text, 20, '0') || lpad(pg_snapshot_xmin(s)::text, 20, '0')
           || lpad((9999999999 - (SELECT count(*) FROM pg_snapshot_xip(s)))::text, 10, '0') AS version,
           extract(epoch FROM CASE WHEN $4 IS NULL THEN settled_at() ELSE now() END)::float8 AS as_of
    FROM pg_current_snapshot() AS s
)
SELECT b.board_id, b.status, b.config, seen.version, seen.as_of, s.player_id,
       coalesce(u.display_name, '') AS display_name,
       CASE WHEN s.score IS NOT NULL
           THEN least(greatest(s.score, -9223372036854775808), 9223372036854775807)::bigint END AS score,
       (extract(epoch FROM s.achieved_at) * 1000000)::bigint AS achieved_us
FROM boards AS b
CROSS JOIN seen
LEFT JOIN scored AS s ON s.board_id = b.board_id AND (s.score IS NOT NULL OR $4 IS NOT NULL)
LEFT JOIN players AS u ON u.tenant_id = $1 AND u.player_id = s.player_id
ORDER BY b.board_id, s.score DESC, s.achieved_at, s.player_id;

-- name: active
-- The tenant's active boards. $1 tenant.
SELECT board_id FROM leaderboards WHERE tenant_id = $1 AND status = 'active' ORDER BY board_id;

-- name: tenants
-- Tenants with an active board, or with board $2. $1 only this tenant ('' = any), $2 only this board ('' = any).
-- For the sweep and the rebuild command, which then work per tenant.
SELECT DISTINCT tenant_id FROM leaderboards
WHERE status = 'active' AND ($1::text = '' OR tenant_id = $1) AND ($2::text = '' OR board_id = $2)
ORDER BY tenant_id;

-- name: touched
-- Players whose scores or names may have changed since $2 (unix seconds): played, adjusted, disqualified,
-- renamed, merged. as_of: the value of $2 for the next call. $1 tenant. Always a row.
SELECT extract(epoch FROM settled_at())::float8 AS as_of, coalesce((
    SELECT array_agg(DISTINCT t.player_id) FROM (
        SELECT player_id::text FROM plays WHERE tenant_id = $1 AND played_at >= to_timestamp($2)
        UNION ALL
        SELECT player_id FROM leaderboard_adjustments WHERE tenant_id = $1 AND created_at >= to_timestamp($2)
        UNION ALL
        SELECT player_id FROM leaderboard_disqualifications WHERE tenant_id = $1 AND disqualified_at >= to_timestamp($2)
        UNION ALL
        SELECT player_id FROM players WHERE tenant_id = $1 AND updated_at >= to_timestamp($2)
        UNION ALL
        SELECT merged_into FROM players
        WHERE tenant_id = $1 AND updated_at >= to_timestamp($2) AND merged_into IS NOT NULL
    ) AS t
), '{}') AS players;

-- name: finalize
-- Closes the board for good. No row: already closed, or unknown. $1 tenant, $2 board.
UPDATE leaderboards SET status = 'finalized', finalized_at = now(), updated_at = now()
WHERE tenant_id = $1 AND board_id = $2 AND status = 'active'
RETURNING board_id;

-- name: has_standings
-- True if the board was ever finalized, even if archived since. $1 tenant, $2 board. No row: unknown.
SELECT finalized_at IS NOT NULL FROM leaderboards WHERE tenant_id = $1 AND board_id = $2;

-- name: insert_standings
-- Stores a part of the final ranking. Rank $8 + i is position i of the arrays; a rank with a prize is PENDING until
-- awarded. A score of 0 or less gets no prize: NO_SCORE if its rank has one. Nor does a player who is suspended
-- (SUSPENDED) or erased (ERASED).
-- $1 tenant, $2 board, $3 players, $4 names, $5 scores, $6 achieved_at in microseconds, $7 the ranks' prizes ('': none).
INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, display_name, score, achieved_at, prize_id,
                                   reason)
SELECT $1, $2, $8::bigint + n.rank, n.player_id, n.display_name, n.score,
       timestamptz 'epoch' + n.achieved_us * interval '1 microsecond',
       CASE WHEN n.score > 0 THEN n.prize_id ELSE '' END,
       CASE WHEN n.prize_id = '' THEN '' WHEN n.score <= 0 THEN 'NO_SCORE'
            WHEN is_suspended($1, n.player_id) THEN 'SUSPENDED'
            WHEN is_erased($1, n.player_id) THEN 'ERASED' ELSE 'PENDING' END
FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[]) WITH ORDINALITY
    AS n (player_id, display_name, score, achieved_us, prize_id, rank);

-- name: standings
-- The ranks of a finalized board. $1 tenant, $2 board, $3 the last rank shown (0 at first), $4 how many.
SELECT rank, player_id, display_name, score, unix(achieved_at) AS achieved_at, prize_id, reward_id, reason
FROM leaderboard_standings WHERE tenant_id = $1 AND board_id = $2 AND rank > $3
ORDER BY rank LIMIT $4;

-- name: standing_of
-- A player's rank on a finalized board. No row: not ranked. $1 tenant, $2 board, $3 player.
SELECT rank, player_id, display_name, score, unix(achieved_at) AS achieved_at
FROM leaderboard_standings WHERE tenant_id = $1 AND board_id = $2 AND player_id = $3;

-- name: owed
-- Ranks with prizes still to award, each with the recipient: a guest merged since is replaced by the player.
-- $1 tenant, $2 board, $3 how many.
SELECT s.rank, coalesce(p.merged_into, s.player_id) AS player_id, s.prize_id,
       p.merged_into IS NULL AND p.auth_method = 'guest' AS guest, is_suspended($1, s.player_id) AS is_suspended
FROM leaderboard_standings AS s
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = s.player_id
WHERE s.tenant_id = $1 AND s.board_id = $2 AND s.reason = 'PENDING'
ORDER BY s.rank LIMIT $3;

-- name: turns_of
-- The turns of player $2 in campaign $3. No row: the player never had any.
SELECT balance FROM turn_balances WHERE tenant_id = $1 AND player_id = $2 AND campaign_id = $3;

-- name: withhold
-- Withholds a rank's prize for reason $4. No row: already awarded or withheld. $1 tenant, $2 board, $3 rank.
UPDATE leaderboard_standings SET reason = $4
WHERE tenant_id = $1 AND board_id = $2 AND rank = $3 AND reason = 'PENDING'
RETURNING rank;

-- name: closed_board
-- The fields of a finalized board for awarding and for the event. $1 tenant, $2 board. No row: unknown.
SELECT b.campaign_id, b.game_id, b.name, c.merchant_id, c.timezone, unix(b.finalized_at) AS finalized_at,
       (SELECT count(*) FROM leaderboard_standings AS s WHERE s.tenant_id = $1 AND s.board_id = $2)::integer AS players
FROM leaderboards AS b JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = b.campaign_id
WHERE b.tenant_id = $1 AND b.board_id = $2;
