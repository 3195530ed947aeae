-- Campaign analytics. See runtime/operations/campaigns/analytics.py.

-- name: campaign
-- How many seconds ago the campaign's plays were last counted (null: never).
-- $3 the staff's merchant ('': the tenant). No row: not found or not readable.
SELECT CASE WHEN isfinite(m.counted_until) THEN extract(epoch FROM now() - m.counted_until)::float8 END AS age
FROM campaigns AS c
LEFT JOIN campaign_marks AS m USING (tenant_id, campaign_id)
WHERE c.tenant_id = $1 AND c.campaign_id = $2
  AND ($3 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: create_watermark
-- Creates the watermark of a campaign without counts.
INSERT INTO campaign_marks (tenant_id, campaign_id) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: lock_watermark
-- Locks the campaign's watermark until the transaction ends. is_ahead: the clock was set back since, so that new plays are
-- before the watermark; an archive's plays cannot be counted again. No row: another process is counting.
SELECT counted_until > clock_timestamp() AND NOT is_archived($1, $2) AS is_ahead FROM campaign_marks WHERE tenant_id = $1 AND campaign_id = $2 FOR UPDATE SKIP LOCKED

-- name: horizon
-- A watermark: no play before it can still appear. played_at is the start of the play's transaction, so this is the
-- start of the oldest running transaction, less a second for one that pg_stat_activity does not show yet. A transaction
-- older than five minutes that has written nothing (a backup) is ignored.
SELECT least(
    clock_timestamp(),
    (SELECT min(xact_start) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
       AND (backend_xid IS NOT NULL OR xact_start > clock_timestamp() - interval '5 minutes'))
) - interval '1 second'

-- name: count_plays
-- Adds the campaign's plays from its watermark to before $3 to its days, and advances the watermark to $3.
-- The caller has locked the watermark, so the time zone is the one that the earlier days were counted in.
WITH fresh AS (
    SELECT p.player_id, (p.played_at AT TIME ZONE c.timezone)::date AS day,
           count(*) AS plays, count(*) FILTER (WHERE p.wins > 0) AS wins
    FROM plays AS p, (SELECT timezone FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2) AS c
    WHERE p.tenant_id = $1 AND p.played_at < $3
      AND p.played_at >= (SELECT counted_until FROM campaign_marks WHERE tenant_id = $1 AND campaign_id = $2)
      AND p.game_id = ANY (SELECT game_id FROM games WHERE tenant_id = $1 AND campaign_id = $2)
    GROUP BY p.player_id, day
),
met AS (
    INSERT INTO campaign_player_days (tenant_id, player_id, campaign_id, day)
    SELECT $1, player_id, $2, day FROM fresh
    ON CONFLICT DO NOTHING
    RETURNING player_id, day
),
came AS (
    -- New players, and players now seen on a second day. The counts do not include the rows of `met`.
    SELECT count(*) FILTER (WHERE d.before = 0) AS players,
           count(*) FILTER (WHERE d.before < 2 AND d.before + m.days > 1) AS returned
    FROM (SELECT player_id, count(*) AS days FROM met GROUP BY player_id) AS m
    CROSS JOIN LATERAL (
        SELECT count(*) AS before FROM (
            SELECT FROM campaign_player_days AS d
            WHERE d.tenant_id = $1 AND d.player_id = m.player_id AND d.campaign_id = $2 LIMIT 2) AS two
    ) AS d
),
days AS (
    INSERT INTO campaign_days AS c (tenant_id, campaign_id, day, plays, players, wins)
    SELECT $1, $2, f.day, sum(f.plays), count(met.player_id), sum(f.wins)
    FROM fresh AS f
    LEFT JOIN met ON met.player_id = f.player_id AND met.day = f.day
    GROUP BY f.day
    ON CONFLICT (tenant_id, campaign_id, day) DO UPDATE SET
        plays = c.plays + excluded.plays, players = c.players + excluded.players, wins = c.wins + excluded.wins
)
UPDATE campaign_marks SET counted_until = $3, players = campaign_marks.players + came.players,
    returned = campaign_marks.returned + came.returned
FROM came
WHERE tenant_id = $1 AND campaign_id = $2 AND counted_until < $3

-- name: days
-- Every day of the campaign with plays: the stored counts plus later plays. One snapshot, so that the two neither
-- overlap nor leave a gap. `players_in_all` is the same in each row.
WITH mark AS (
    SELECT counted_until, players FROM campaign_marks WHERE tenant_id = $1 AND campaign_id = $2
),
fresh AS (
    SELECT p.player_id, (p.played_at AT TIME ZONE c.timezone)::date AS day,
           count(*) AS plays, count(*) FILTER (WHERE p.wins > 0) AS wins
    FROM plays AS p, (SELECT timezone FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2) AS c
    WHERE p.tenant_id = $1 AND p.played_at >= coalesce((SELECT counted_until FROM mark), '-infinity')
      AND p.game_id = ANY (SELECT game_id FROM games WHERE tenant_id = $1 AND campaign_id = $2)
    GROUP BY p.player_id, day
),
met AS (
    -- One lookup per new player and day: the aggregate keeps the planner from joining all counted days.
    SELECT f.player_id, f.day, f.plays, f.wins, d.ever, d.that_day
    FROM fresh AS f
    CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS ever, coalesce(bool_or(d.day = f.day), false) AS that_day
        FROM campaign_player_days AS d
        WHERE d.tenant_id = $1 AND d.player_id = f.player_id AND d.campaign_id = $2
    ) AS d
),
parts AS (
    SELECT day, plays, players, wins FROM campaign_days WHERE tenant_id = $1 AND campaign_id = $2
    UNION ALL
    SELECT day, sum(plays), count(*) FILTER (WHERE NOT that_day), sum(wins) FROM met GROUP BY day
)
SELECT day, sum(plays)::bigint AS plays, sum(players)::bigint AS players, sum(wins)::bigint AS wins,
       (coalesce((SELECT players FROM mark), 0)
        + (SELECT count(DISTINCT player_id) FROM met WHERE NOT ever))::bigint AS players_in_all
FROM parts
GROUP BY day
ORDER BY day

-- name: rewards
-- The campaign's rewards by status and prize: rows, units, and claimed units.
SELECT status, prize_id, count(*) AS rewards, sum(quantity)::bigint AS units,
       coalesce(sum(quantity) FILTER (WHERE claimed_at IS NOT NULL), 0)::bigint AS claimed
FROM rewards
WHERE tenant_id = $1 AND campaign_id = $2
GROUP BY status, prize_id

-- name: prizes
-- Stock of the campaign's own prizes and of those in $3, which it awarded.
WITH own AS MATERIALIZED (
    SELECT p.prize_id, p.name, p.type, p.channel, p.status, s.total, s.remaining, s.awarded
    FROM prizes AS p
    JOIN stock AS s USING (tenant_id, prize_id)
    WHERE p.tenant_id = $1 AND (p.campaign_id = $2 OR p.prize_id = ANY ($3::text[]))
)
SELECT p.*, coalesce(f.free, 0) AS codes_available
FROM own AS p
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
ORDER BY p.prize_id

-- name: await_watermark
-- Locks the campaign's watermark until the transaction ends; waits for a count or a merge that holds it.
SELECT FROM campaign_marks WHERE tenant_id = $1 AND campaign_id = $2 FOR UPDATE

-- name: reset_counts
-- Discards the campaign's counts, because its days now begin at other times, or the clock was set back. The caller has locked the watermark.
WITH unmet AS (
    DELETE FROM campaign_player_days WHERE tenant_id = $1 AND campaign_id = $2 RETURNING 1
),
undone AS (
    -- Locked after the players, as in sql/locks.py.
    DELETE FROM campaign_days WHERE tenant_id = $1 AND campaign_id = $2 AND (SELECT count(*) FROM unmet) >= 0
)
UPDATE campaign_marks SET counted_until = '-infinity', players = 0, returned = 0 WHERE tenant_id = $1 AND campaign_id = $2

-- name: lock_watermarks_of_player
-- Locks the watermarks of all campaigns that the player played in (archived ones: was counted in), in key order, so that
-- nothing is counted meanwhile.
SELECT m.campaign_id
FROM campaign_marks AS m
WHERE m.tenant_id = $1
  AND m.campaign_id IN (
      SELECT g.campaign_id FROM plays AS p JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
      WHERE p.tenant_id = $1 AND p.player_id = $2
      UNION ALL SELECT d.campaign_id FROM campaign_player_days AS d WHERE d.tenant_id = $1 AND d.player_id = $2)
ORDER BY m.campaign_id
FOR UPDATE

-- name: merge_players
-- Moves the counted days of guest $2 to player $3. A day on which both were counted loses one player.
WITH guest AS (
    DELETE FROM campaign_player_days WHERE tenant_id = $1 AND player_id = $2 RETURNING campaign_id, day
),
moved AS (
    INSERT INTO campaign_player_days (tenant_id, player_id, campaign_id, day)
    SELECT $1, $3, campaign_id, day FROM guest
    ON CONFLICT DO NOTHING
    RETURNING campaign_id, day
),
days AS (
    UPDATE campaign_days AS c SET players = c.players - 1
    FROM (SELECT campaign_id, day FROM guest EXCEPT SELECT campaign_id, day FROM moved) AS both_on
    WHERE c.tenant_id = $1 AND c.campaign_id = both_on.campaign_id AND c.day = both_on.day
)
-- One player fewer. Up to two returning players become one, who is returning with more than one day in total.
UPDATE campaign_marks AS m SET players = m.players - 1,
    returned = m.returned - (g.days > 1)::int - (p.days > 1)::int + (p.days + coalesce(o.days, 0) > 1)::int
FROM (SELECT campaign_id, count(*) AS days FROM guest GROUP BY campaign_id) AS g
CROSS JOIN LATERAL (
    SELECT count(*) AS days FROM campaign_player_days AS d
    WHERE d.tenant_id = $1 AND d.player_id = $3 AND d.campaign_id = g.campaign_id
) AS p
LEFT JOIN (SELECT campaign_id, count(*) AS days FROM moved GROUP BY campaign_id) AS o USING (campaign_id)
WHERE m.tenant_id = $1 AND m.campaign_id = g.campaign_id AND p.days > 0

-- name: tenants
-- Every tenant.
SELECT tenant_id FROM tenants ORDER BY tenant_id

-- name: campaigns_to_count
-- The tenant's campaigns in play: active ones, and those counted less than a day ago.
SELECT c.campaign_id
FROM campaigns AS c
LEFT JOIN campaign_marks AS m USING (tenant_id, campaign_id)
WHERE c.tenant_id = $1
  AND EXISTS (
      SELECT FROM games AS g JOIN game_players AS p USING (tenant_id, game_id)
      WHERE g.tenant_id = $1 AND g.campaign_id = c.campaign_id)
  AND (c.status = 'active' OR m.counted_until > now() - interval '1 day')
ORDER BY c.campaign_id
