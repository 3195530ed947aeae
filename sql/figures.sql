-- Plays counted by quarters of an hour, and figures of a campaign. See runtime/operations/reporting.

-- name: make_mark
-- A tenant begins uncounted.
INSERT INTO figure_marks (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: lock_mark
-- Holds the tenant's mark until the transaction ends. No row: another process counts now.
SELECT counted_until FROM figure_marks WHERE tenant_id = $1 FOR UPDATE SKIP LOCKED

-- name: age
-- How many seconds ago the tenant's plays were last counted. Null: never. No row: nobody has begun to.
SELECT CASE WHEN isfinite(counted_until) THEN extract(epoch FROM now() - counted_until)::float8 END
FROM figure_marks WHERE tenant_id = $1

-- name: count_plays
-- Counts the tenant's plays from its mark, $3, to before $2, and moves the mark there. The caller holds the mark's lock.
WITH fresh AS (
    SELECT game_id, date_bin('15 minutes', played_at, '2000-01-01Z') AS quarter, revision,
           coalesce(outcome #>> '{decided,metadata,item}', outcome #>> '{decided,path,1,1}', '') AS drawn,
           count(*) AS plays, count(*) FILTER (WHERE wins > 0) AS wins
    FROM plays
    WHERE tenant_id = $1 AND played_at < $2 AND played_at >= $3
    GROUP BY 1, 2, 3, 4
),
quarters AS (
    INSERT INTO game_quarters AS q (tenant_id, game_id, quarter, plays, wins)
    SELECT $1, game_id, quarter, sum(plays), sum(wins) FROM fresh GROUP BY game_id, quarter ORDER BY game_id, quarter
    ON CONFLICT (tenant_id, game_id, quarter) DO UPDATE SET plays = q.plays + excluded.plays, wins = q.wins + excluded.wins
    RETURNING 1
),
draws AS (
    INSERT INTO game_draws AS d (tenant_id, game_id, quarter, revision, drawn, draws)
    SELECT $1, game_id, quarter, revision, drawn, plays FROM fresh
    WHERE (SELECT count(*) FROM quarters) >= 0
    ORDER BY game_id, quarter, revision, drawn
    ON CONFLICT (tenant_id, game_id, quarter, revision, drawn) DO UPDATE SET draws = d.draws + excluded.draws
)
UPDATE figure_marks SET counted_until = $2 WHERE tenant_id = $1 AND counted_until < $2

-- name: count_starts
-- Adds that games $2 were started $4 times in the quarters that begin at $3 (unix seconds).
INSERT INTO game_starts AS s (tenant_id, game_id, quarter, starts)
SELECT $1, n.game_id, to_timestamp(n.quarter), n.starts
FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS n (game_id, quarter, starts)
ORDER BY n.game_id, n.quarter
ON CONFLICT (tenant_id, game_id, quarter) DO UPDATE SET starts = s.starts + excluded.starts

-- name: campaign
-- The campaign's zone, the moments that days $4 and $5 of it begin and end ('' and null: not bounded), and up to when
-- plays are counted. $3 the merchant whose staff asks ('' the tenant's own). No row: there is none that it may read.
SELECT c.timezone,
       coalesce(nullif($4, '')::date::timestamp AT TIME ZONE c.timezone, '-infinity') AS since,
       coalesce((nullif($5, '')::date + 1)::timestamp AT TIME ZONE c.timezone, 'infinity') AS until,
       (SELECT CASE WHEN isfinite(m.counted_until) THEN unix(m.counted_until) ELSE 0 END
        FROM figure_marks AS m WHERE m.tenant_id = $1) AS counted_until
FROM campaigns AS c
WHERE c.tenant_id = $1 AND c.campaign_id = $2
  AND ($3 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: games
-- Starts, plays and wins of the campaign's games from $3 on and before $4, of one of them where $5 names it.
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
-- The same by local hour: of zone $6.
SELECT (q.quarter AT TIME ZONE $6)::date AS day, extract(hour FROM q.quarter AT TIME ZONE $6)::int AS hour,
       sum(q.plays)::bigint AS plays, sum(q.wins)::bigint AS wins
FROM games AS g
JOIN game_quarters AS q ON q.tenant_id = $1 AND q.game_id = g.game_id AND q.quarter >= $3 AND q.quarter < $4
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($5 = '' OR g.game_id = $5)
GROUP BY 1, 2
ORDER BY 1, 2

-- name: day_players
-- Players of each of the campaign's days, from $3 to $4 ('' not bounded).
SELECT day, players FROM campaign_days
WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR day >= nullif($3, '')::date) AND ($4 = '' OR day <= nullif($4, '')::date)

-- name: players
-- Different players of these days, and how many of them were there on more than one: kept for all of the campaign's days,
-- and counted for some of them.
WITH kept AS (
    SELECT players, returned FROM campaign_marks AS m
    WHERE m.tenant_id = $1 AND m.campaign_id = $2 AND NOT EXISTS (
        SELECT FROM campaign_days AS d
        WHERE d.tenant_id = $1 AND d.campaign_id = $2
          AND (d.day < nullif($3, '')::date OR d.day > nullif($4, '')::date))
)
SELECT players, returned AS returning FROM kept
UNION ALL
SELECT count(*), count(*) FILTER (WHERE days > 1)
FROM (
    SELECT count(*) AS days FROM campaign_player_days
    WHERE tenant_id = $1 AND campaign_id = $2
      AND day >= coalesce(nullif($3, '')::date, '-infinity') AND day <= coalesce(nullif($4, '')::date, 'infinity')
      AND NOT EXISTS (SELECT FROM kept)
    GROUP BY player_id
) AS seen
HAVING NOT EXISTS (SELECT FROM kept)

-- name: game_players
-- Players of a game, and how many of them played it more than once.
SELECT count(*) AS players, count(*) FILTER (WHERE plays > 1) AS returning
FROM game_players WHERE tenant_id = $1 AND game_id = $2

-- name: prizes
-- What was won from $3 on and before $4, by prize, of a game where $5 names it: rewards that plays won, how far they
-- came, and what they cost, in the prize's currency: the value of points and turns is a count, and no money. The bounds
-- stand in a CASE, or they would be taken to leave next to nothing, and all that the campaign ever gave would be sorted by
-- prize.
SELECT w.*, coalesce(p.currency, '') AS currency
FROM (
    SELECT r.prize_id, max(r.name) AS name,
           count(*) FILTER (WHERE r.play_id <> '') AS rewards,
           count(*) FILTER (WHERE r.play_id <> '' AND (r.claimed_at IS NOT NULL OR r.status = 'fulfilled')) AS claimed,
           count(*) FILTER (WHERE r.play_id <> '' AND r.status = 'fulfilled') AS fulfilled,
           coalesce(sum(r.quantity) FILTER (WHERE r.status NOT IN ('revoked', 'expired', 'failed')), 0)::bigint AS units,
           coalesce(sum(r.quantity * r.value) FILTER (
               WHERE r.status NOT IN ('revoked', 'expired', 'failed') AND r.type NOT IN ('points', 'turns')
           ), 0)::float8 AS cost
    FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.campaign_id = $2
      AND CASE WHEN r.won_at >= $3 AND r.won_at < $4 THEN $5 = '' OR r.game_id = $5 ELSE false END
    GROUP BY r.prize_id
) AS w
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = w.prize_id
ORDER BY w.cost DESC, w.prize_id

-- name: draws
-- What was drawn from $3 on and before $4, by revision, with the revision's definition.
SELECT d.game_id, g.name, d.revision, d.drawn, sum(d.draws)::bigint AS draws,
       (SELECT jsonb_build_object('handler', r.definition -> 'reward_handler', 'config', r.definition -> 'handler_config')
        FROM game_revisions AS r
        WHERE r.tenant_id = $1 AND r.game_id = d.game_id AND r.revision = d.revision) AS declared
FROM games AS g
JOIN game_draws AS d ON d.tenant_id = $1 AND d.game_id = g.game_id AND d.quarter >= $3 AND d.quarter < $4
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND ($5 = '' OR g.game_id = $5)
GROUP BY d.game_id, g.name, d.revision, d.drawn
ORDER BY d.game_id, d.revision DESC, d.drawn

-- name: names
-- Names of prizes.
SELECT prize_id, name FROM prizes WHERE tenant_id = $1 AND prize_id = ANY ($2::text[])
