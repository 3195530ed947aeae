-- Plays counted per quarter hour, and campaign reports. See runtime/operations/reporting.

-- name: create_watermark
-- Creates the watermark of a tenant without counts.
INSERT INTO figure_marks (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: lock_watermark
-- Locks the tenant's watermark until the transaction ends. is_ahead: the clock was set back since, so that new plays are
-- before the watermark. No row: another process is counting.
SELECT counted_until, counted_until > clock_timestamp() AS is_ahead
FROM figure_marks WHERE tenant_id = $1 FOR UPDATE SKIP LOCKED

-- name: take_back
-- Takes back the counts from the quarter hour of $2 on, and returns the watermark. The caller has locked it. `game_sources`
-- may then have earlier plays twice, of players whose entry was created since.
WITH quarters AS (
    DELETE FROM game_quarters WHERE tenant_id = $1 AND quarter >= date_bin('15 minutes', $2, '2000-01-01Z') RETURNING 1
),
sources AS (
    DELETE FROM game_sources
    WHERE tenant_id = $1 AND quarter >= date_bin('15 minutes', $2, '2000-01-01Z') AND (SELECT count(*) FROM quarters) >= 0
    RETURNING 1
),
draws AS (
    DELETE FROM game_draws
    WHERE tenant_id = $1 AND quarter >= date_bin('15 minutes', $2, '2000-01-01Z') AND (SELECT count(*) FROM sources) >= 0
)
UPDATE figure_marks SET counted_until = date_bin('15 minutes', $2, '2000-01-01Z') WHERE tenant_id = $1
RETURNING counted_until

-- name: age
-- Seconds since the tenant's plays were last counted. Null: never. No row: no watermark yet.
SELECT CASE WHEN isfinite(counted_until) THEN extract(epoch FROM now() - counted_until)::float8 END
FROM figure_marks WHERE tenant_id = $1

-- name: count_plays
-- Counts the tenant's plays from its watermark, $3, to before $2, and advances it. The caller has locked the watermark. A
-- play counts for the source of the player's entry, also if the entry comes later. An entry with a guest's (has_guests)
-- gets no earlier plays: those of the guest may have been counted for the guest's source.
WITH of_entries AS (
    SELECT p.game_id, date_bin('15 minutes', p.played_at, '2000-01-01Z') AS quarter, p.wins, e.source
    FROM plays AS p
    JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
    JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = g.campaign_id AND e.player_id = p.player_id
    WHERE p.tenant_id = $1 AND p.played_at < $2 AND p.played_at >= $3 AND e.created_at < $2 AND e.source <> '{}'
    UNION ALL
    SELECT p.game_id, date_bin('15 minutes', p.played_at, '2000-01-01Z'), p.wins, e.source
    FROM entries AS e
    JOIN games AS g ON g.tenant_id = $1 AND g.campaign_id = e.campaign_id
    JOIN plays AS p ON p.tenant_id = $1 AND p.player_id = e.player_id AND p.game_id = g.game_id AND p.played_at < $3
    WHERE e.tenant_id = $1 AND e.created_at < $2 AND e.created_at >= $3 AND e.source <> '{}' AND NOT e.has_guests
),
fresh AS (
    SELECT game_id, date_bin('15 minutes', played_at, '2000-01-01Z') AS quarter, revision,
           coalesce(outcome #>> '{decided,metadata,prize_group}', '') AS prize_group,
           coalesce(outcome #>> '{decided,metadata,item}', outcome #>> '{decided,path,1,1}', '') AS drawn,
           count(*) AS plays, count(*) FILTER (WHERE wins > 0) AS wins
    FROM plays
    WHERE tenant_id = $1 AND played_at < $2 AND played_at >= $3
    GROUP BY 1, 2, 3, 4, 5
),
quarters AS (
    INSERT INTO game_quarters AS q (tenant_id, game_id, quarter, plays, wins)
    SELECT $1, game_id, quarter, sum(plays), sum(wins) FROM fresh GROUP BY game_id, quarter ORDER BY game_id, quarter
    ON CONFLICT (tenant_id, game_id, quarter) DO UPDATE SET plays = q.plays + excluded.plays, wins = q.wins + excluded.wins
    RETURNING 1
),
sources AS (
    INSERT INTO game_sources AS s (tenant_id, game_id, quarter, source, medium, utm_campaign, plays, wins)
    SELECT $1, f.game_id, f.quarter, n.source, n.medium, n.utm_campaign, count(*), count(*) FILTER (WHERE f.wins > 0)
    FROM of_entries AS f CROSS JOIN LATERAL source_parts(f.source) AS n
    WHERE (SELECT count(*) FROM quarters) >= 0
    GROUP BY 2, 3, 4, 5, 6 ORDER BY 2, 3, 4, 5, 6
    ON CONFLICT (tenant_id, game_id, quarter, source, medium, utm_campaign) DO UPDATE SET
        plays = s.plays + excluded.plays, wins = s.wins + excluded.wins
    RETURNING 1
),
draws AS (
    INSERT INTO game_draws AS d (tenant_id, game_id, quarter, revision, prize_group, drawn, draws)
    SELECT $1, game_id, quarter, revision, prize_group, drawn, plays FROM fresh
    WHERE (SELECT count(*) FROM sources) >= 0
    ORDER BY game_id, quarter, revision, prize_group, drawn
    ON CONFLICT (tenant_id, game_id, quarter, revision, prize_group, drawn) DO UPDATE SET draws = d.draws + excluded.draws
)
UPDATE figure_marks SET counted_until = $2 WHERE tenant_id = $1 AND counted_until < $2

-- name: count_starts
-- Adds $4 starts of games $2 in the quarter hours that begin at $3 (unix seconds).
INSERT INTO game_starts AS s (tenant_id, game_id, quarter, starts)
SELECT $1, n.game_id, to_timestamp(n.quarter), n.starts
FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS n (game_id, quarter, starts)
ORDER BY n.game_id, n.quarter
ON CONFLICT (tenant_id, game_id, quarter) DO UPDATE SET starts = s.starts + excluded.starts

-- name: campaign
-- The campaign's time zone, when days $4 and $5 begin and end in it ('' and null: unbounded), and the watermark of
-- counted plays. A day begins one second after 23:59:59, since midnight comes twice where the clock is then set back.
-- $3 the staff's merchant ('': the tenant). No row: not found or not readable.
SELECT c.timezone,
       coalesce((nullif($4, '')::date - interval '1 second') AT TIME ZONE c.timezone + interval '1 second', '-infinity')
           AS since,
       coalesce((nullif($5, '')::date + time '23:59:59') AT TIME ZONE c.timezone + interval '1 second', 'infinity')
           AS until,
       (SELECT CASE WHEN isfinite(m.counted_until) THEN unix(m.counted_until) ELSE 0 END
        FROM figure_marks AS m WHERE m.tenant_id = $1) AS counted_until
FROM campaigns AS c
WHERE c.tenant_id = $1 AND c.campaign_id = $2
  AND ($3 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: games
-- Starts, plays and wins of the campaign's games from $3 to before $4; $5 limits this to one game.
SELECT g.game_id, g.name, coalesce(sum(q.plays), 0)::bigint AS plays, coalesce(sum(q.wins), 0)::bigint AS wins,
       (SELECT coalesce(sum(s.starts), 0)::bigint FROM game_starts AS s
        WHERE s.tenant_id = $1 AND s.game_id = g.game_id AND s.quarter >= $3 AND s.quarter < $4) AS starts
FROM games AS g
LEFT JOIN game_quarters AS q
    ON q.tenant_id = $1 AND q.game_id = g.game_id AND q.quarter >= $3 AND q.quarter < $4
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($5 = '' OR g.game_id = $5)
GROUP BY g.game_id, g.name
ORDER BY g.game_id

-- name: hours
-- As `games`, per local hour of time zone $6.
SELECT (q.quarter AT TIME ZONE $6)::date AS day, extract(hour FROM q.quarter AT TIME ZONE $6)::int AS hour,
       sum(q.plays)::bigint AS plays, sum(q.wins)::bigint AS wins
FROM games AS g
JOIN game_quarters AS q ON q.tenant_id = $1 AND q.game_id = g.game_id AND q.quarter >= $3 AND q.quarter < $4
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($5 = '' OR g.game_id = $5)
GROUP BY 1, 2
ORDER BY 1, 2

-- name: sources
-- As `games`, per source of the players' entries; plays of players without one are left out. Anyone can invent sources, so
-- those beyond the largest $6 are counted together as 'other'.
WITH counted AS (
    SELECT s.source, s.medium, s.utm_campaign, sum(s.plays) AS plays, sum(s.wins) AS wins
    FROM games AS g
    JOIN game_sources AS s ON s.tenant_id = $1 AND s.game_id = g.game_id AND s.quarter >= $3 AND s.quarter < $4
    WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($5 = '' OR g.game_id = $5)
    GROUP BY 1, 2, 3
)
SELECT CASE WHEN is_large THEN source ELSE 'other' END AS source, CASE WHEN is_large THEN medium ELSE '' END AS medium,
       CASE WHEN is_large THEN utm_campaign ELSE '' END AS utm_campaign, sum(plays)::bigint AS plays, sum(wins)::bigint AS wins
FROM (
    SELECT *, row_number() OVER (ORDER BY plays DESC, source, medium, utm_campaign) <= $6 AS is_large FROM counted
) AS c
GROUP BY 1, 2, 3

-- name: claims
-- Claimed or delivered rewards of plays from $3 to before $4 per source of the winners' entries, as in `prizes`. Rewards of
-- winners without a source are left out. Sources beyond the largest $6 are added up as `other`.
WITH counted AS (
    SELECT n.source, n.medium, n.utm_campaign, count(*) AS claimed
    FROM rewards AS r
    JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = $2 AND e.player_id = r.player_id AND e.source <> '{}'
    CROSS JOIN LATERAL source_parts(e.source) AS n
    WHERE r.tenant_id = $1 AND r.campaign_id = $2 AND r.play_id <> ''
      AND (r.claimed_at IS NOT NULL OR r.status = 'fulfilled')
      AND CASE WHEN r.won_at >= $3 AND r.won_at < $4 THEN $5 = '' OR r.game_id = $5 ELSE false END
    GROUP BY 1, 2, 3
)
SELECT CASE WHEN is_large THEN source ELSE 'other' END AS source, CASE WHEN is_large THEN medium ELSE '' END AS medium,
       CASE WHEN is_large THEN utm_campaign ELSE '' END AS utm_campaign, sum(claimed)::bigint AS claimed
FROM (
    SELECT *, row_number() OVER (ORDER BY claimed DESC, source, medium, utm_campaign) <= $6 AS is_large FROM counted
) AS c
GROUP BY 1, 2, 3

-- name: day_players
-- Players per day of the campaign, from $3 to $4 ('': unbounded).
SELECT day, players FROM campaign_days
WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR day >= nullif($3, '')::date) AND ($4 = '' OR day <= nullif($4, '')::date)

-- name: players
-- Distinct players of these days, and how many of them played on more than one. Uses the stored counts for all days of
-- the campaign, and counts for a range of days.
WITH stored AS (
    SELECT players, returned FROM campaign_marks AS m
    WHERE m.tenant_id = $1 AND m.campaign_id = $2 AND NOT EXISTS (
        SELECT FROM campaign_days AS d
        WHERE d.tenant_id = $1 AND d.campaign_id = $2
          AND (d.day < nullif($3, '')::date OR d.day > nullif($4, '')::date))
)
SELECT players, returned AS returning FROM stored
UNION ALL
SELECT count(*), count(*) FILTER (WHERE days > 1)
FROM (
    SELECT count(*) AS days FROM campaign_player_days
    WHERE tenant_id = $1 AND campaign_id = $2
      AND day >= coalesce(nullif($3, '')::date, '-infinity') AND day <= coalesce(nullif($4, '')::date, 'infinity')
      AND NOT EXISTS (SELECT FROM stored)
    GROUP BY player_id
) AS seen
HAVING NOT EXISTS (SELECT FROM stored)

-- name: game_players
-- A game's players, and how many played more than once.
SELECT count(*) AS players, count(*) FILTER (WHERE plays > 1) AS returning
FROM game_players WHERE tenant_id = $1 AND game_id = $2

-- name: prizes
-- Rewards won by plays from $3 to before $4, per prize: how many were claimed and fulfilled, and their cost in the prize's
-- currency (points and turns are counts, not money). $5 limits this to one game. CASE around the bounds: the planner
-- would otherwise expect few rows and sort all rewards of the campaign by prize.
SELECT w.*, coalesce(p.currency, '') AS currency
FROM (
    SELECT r.prize_id, max(r.name) AS name,
           count(*) FILTER (WHERE r.play_id <> '') AS rewards,
           count(*) FILTER (WHERE r.play_id <> '' AND (r.claimed_at IS NOT NULL OR r.status = 'fulfilled')) AS claimed,
           count(*) FILTER (WHERE r.play_id <> '' AND r.status = 'fulfilled') AS fulfilled,
           coalesce(sum(r.quantity) FILTER (WHERE s.is_held), 0)::bigint AS units,
           coalesce(sum(r.quantity * r.value) FILTER (WHERE s.is_held AND r.type NOT IN ('points', 'turns')), 0)::float8 AS cost
    FROM rewards AS r
    CROSS JOIN LATERAL (
        SELECT r.status NOT IN ('revoked', 'expired', 'failed') OR r.fulfilled_at IS NOT NULL AS is_held
    ) AS s
    WHERE r.tenant_id = $1 AND r.campaign_id = $2
      AND CASE WHEN r.won_at >= $3 AND r.won_at < $4 THEN $5 = '' OR r.game_id = $5 ELSE false END
    GROUP BY r.prize_id
) AS w
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = w.prize_id
ORDER BY w.cost DESC, w.prize_id

-- name: draws
-- Draw results per revision, with the revision's definition; $3 limits this to one game. Since the first play: the test of
-- the odds (runtime/operations/reporting/odds_test.py) holds for no part of the draws that was chosen later.
SELECT d.game_id, g.name, d.revision, d.prize_group, d.drawn, sum(d.draws)::bigint AS draws,
       (SELECT jsonb_build_object('handler', r.definition -> 'reward_handler', 'config', r.definition -> 'handler_config')
        FROM game_revisions AS r
        WHERE r.tenant_id = $1 AND r.game_id = d.game_id AND r.revision = d.revision) AS declared
FROM games AS g
JOIN game_draws AS d ON d.tenant_id = $1 AND d.game_id = g.game_id
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($3 = '' OR g.game_id = $3)
GROUP BY d.game_id, g.name, d.revision, d.prize_group, d.drawn
ORDER BY d.game_id, d.revision DESC, d.prize_group, d.drawn

-- name: names
-- Names of prizes.
SELECT prize_id, name FROM prizes WHERE tenant_id = $1 AND prize_id = ANY ($2::text[])
