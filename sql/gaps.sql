-- What happened, as rows: for integrations that the streams did not reach. See runtime/streams/backfill.py.
-- Each statement after `lease` gives what happened from $2 to $3, after the row (time, id) of $4 and $5, at most $6.

-- name: tenants
-- Tenants that have somebody to tell.
SELECT DISTINCT tenant_id FROM integrations WHERE status = 'active'

-- name: lease
-- Up to when a tenant's integrations have been told of everything, and up to when they can be now: nothing that
-- happened before that will still appear. $2 seconds that the streams get first, $3 the most seconds of one pass,
-- $4 seconds that the pass is this process's alone (until leased_until, which names it). No row: another process is
-- at it, or there is nobody to tell.
INSERT INTO event_marks AS e (tenant_id, told_until, leased_until)
SELECT i.tenant_id, min(i.heard_from), now() + make_interval(secs => $4)
FROM integrations AS i WHERE i.tenant_id = $1 AND i.status = 'active' GROUP BY i.tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET
    told_until = greatest(e.told_until, excluded.told_until), leased_until = excluded.leased_until
    WHERE e.leased_until <= now()
RETURNING told_until, leased_until,
    least(settled_at(), now() - make_interval(secs => $2), told_until + make_interval(secs => $3)) AS until

-- name: keep
-- Everything up to $2 has been told; the next pass may begin in $3 seconds. No row: the lease that was until $4 is
-- over, and another process is at it.
UPDATE event_marks SET told_until = greatest(told_until, $2), leased_until = now() + make_interval(secs => $3)
WHERE tenant_id = $1 AND leased_until = $4
RETURNING leased_until

-- name: plays
-- Plays, with what they won and the rungs that they crossed.
SELECT p.played_at AS at, p.play_id AS id, p.game_id, p.player_id, p.score, p.wins, p.points,
       p.outcome -> 'rewards' AS rewards, p.outcome -> 'milestones_granted' AS granted, g.campaign_id, c.merchant_id
FROM plays AS p
JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = g.campaign_id
WHERE p.tenant_id = $1 AND p.played_at BETWEEN $2 AND $3 AND (p.played_at, p.play_id) > ($4::timestamptz, $5::text)
ORDER BY p.played_at, p.play_id LIMIT $6

-- name: prizes
-- What prizes ($2) are called.
SELECT prize_id, name, type, value FROM prizes WHERE tenant_id = $1 AND prize_id = ANY($2::text[])

-- name: rewards
-- Rewards that no play won: redeemed ones, and those of a rank. A guest's rank stays the guest's where the player that it
-- has become has one of its own; the reward is the player's.
SELECT r.won_at AS at, r.reward_id AS id, r.player_id, r.prize_id, r.name, r.type, r.quantity, r.value, r.game_id,
       r.milestone_id, coalesce(s.board_id, '') AS leaderboard_id, coalesce(s.rank, 0) AS rank, r.campaign_id,
       coalesce(c.merchant_id, '') AS merchant_id
FROM rewards AS r
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id
LEFT JOIN LATERAL (
    SELECT s.board_id, s.rank
    FROM leaderboards AS b
    JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = b.board_id AND s.player_id IN (
        SELECT r.player_id UNION ALL
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = r.player_id)
    WHERE b.tenant_id = $1 AND b.campaign_id = r.campaign_id AND s.reward_id = r.reward_id LIMIT 1
) AS s ON true
WHERE r.tenant_id = $1 AND r.play_id = '' AND r.won_at BETWEEN $2 AND $3
  AND (r.won_at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY r.won_at, r.reward_id LIMIT $6

-- name: claims
-- Claims as they were answered, whatever became of the rewards later.
SELECT r.claimed_at AS at, r.reward_id AS id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, r.game_id,
       r.play_id, r.milestone_id, r.fulfilled_at = r.claimed_at AS fulfilled, r.campaign_id,
       coalesce(c.merchant_id, '') AS merchant_id
FROM rewards AS r
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id
WHERE r.tenant_id = $1 AND r.claimed_at BETWEEN $2 AND $3
  AND (r.claimed_at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY r.claimed_at, r.reward_id LIMIT $6

-- name: quests
-- Completions of quests.
SELECT q.completed_at AS at, q.event_id AS id, q.quest_id, q.player_id, q.period, q.turns, q.balance_after,
       d.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM quest_completions AS q
JOIN quests AS d ON d.tenant_id = $1 AND d.quest_id = q.quest_id
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
WHERE q.tenant_id = $1 AND q.completed_at BETWEEN $2 AND $3
  AND (q.completed_at, q.event_id) > ($4::timestamptz, $5::text)
ORDER BY q.completed_at, q.event_id LIMIT $6

-- name: boards
-- Boards that were finalized.
SELECT b.finalized_at AS at, b.board_id AS id FROM leaderboards AS b
WHERE b.tenant_id = $1 AND b.finalized_at BETWEEN $2 AND $3
  AND (b.finalized_at, b.board_id) > ($4::timestamptz, $5::text)
ORDER BY b.finalized_at, b.board_id LIMIT $6

-- name: failures
-- Deliveries that were given up, and are still.
SELECT t.updated_at AS at, t.task_id AS id, t.reward_id, t.player_id, t.prize_id, t.channel, t.attempts,
       t.last_error AS error, t.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM tasks AS t
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = t.campaign_id
WHERE t.tenant_id = $1 AND t.status = 'dead' AND t.updated_at BETWEEN $2 AND $3
  AND (t.updated_at, t.task_id) > ($4::timestamptz, $5::text)
ORDER BY t.updated_at, t.task_id LIMIT $6

-- name: notices
-- What was noticed of budgets and stock: each an event as it is.
SELECT n.noticed_at AS at, n.event_id AS id, n.type, n.data, n.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM notices AS n
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = n.campaign_id
WHERE n.tenant_id = $1 AND n.noticed_at BETWEEN $2 AND $3
  AND (n.noticed_at, n.event_id) > ($4::timestamptz, $5::text)
ORDER BY n.noticed_at, n.event_id LIMIT $6
