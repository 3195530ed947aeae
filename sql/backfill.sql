-- The backfill: events rebuilt from rows, for integrations that the streams did not reach. See
-- runtime/streams/backfill.py. Each statement after `lease` returns rows from $2 to $3, after (time, id) $4 and $5, at
-- most $6.

-- name: tenants
-- Tenants with an active integration whose backfill no process has leased, for $1 seconds at a time.
SELECT DISTINCT tenant_id FROM integrations AS i
WHERE status = 'active'
  AND NOT EXISTS (SELECT FROM event_marks AS e WHERE e.tenant_id = i.tenant_id AND e.leased_until > now()
                  AND e.leased_until <= now() + make_interval(secs => 2 * $1::float8))

-- name: lease
-- Leases a tenant's backfill. Returns the stored watermark (backfilled_until) and the end of this pass (until), before
-- which no row can still appear. $2 head start of the streams in seconds, $3 the longest span of a pass, $4 seconds of the lease
-- (leased_until identifies it). has_messages: whether a campaign sends e-mails. A pass ends before a board that still
-- awards prizes, for an hour at most: its event has the awarded prizes. After a correction of the clock, a lease or
-- watermark from the future does not count. No row: another process has the lease, or no integration is active.
INSERT INTO event_marks AS e (tenant_id, backfilled_until, leased_until)
SELECT i.tenant_id, min(i.active_since), now() + make_interval(secs => $4)
FROM integrations AS i WHERE i.tenant_id = $1 AND i.status = 'active' GROUP BY i.tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET
    backfilled_until = least(greatest(e.backfilled_until, excluded.backfilled_until), now() - make_interval(secs => $2)),
    leased_until = excluded.leased_until
    WHERE e.leased_until <= now() OR e.leased_until > now() + make_interval(secs => 2 * $4)
RETURNING backfilled_until, leased_until,
    least(settled_at(), now() - make_interval(secs => $2), backfilled_until + make_interval(secs => $3), (
        SELECT min(b.finalized_at) - interval '1 microsecond' FROM leaderboards AS b
        WHERE b.tenant_id = $1 AND b.finalized_at > now() - interval '1 hour' AND EXISTS (
            SELECT FROM leaderboard_standings AS s
            WHERE s.tenant_id = $1 AND s.board_id = b.board_id AND s.reason = 'PENDING')
    )) AS until,
    EXISTS (SELECT FROM integrations WHERE tenant_id = $1 AND type = 'email' AND status = 'active') AS has_messages

-- name: advance
-- Advances the watermark to $2; the next pass may begin in $3 seconds. No row: the lease until $4 has expired and another
-- process has taken over.
UPDATE event_marks SET backfilled_until = greatest(backfilled_until, $2),
    leased_until = now() + make_interval(secs => $3)
WHERE tenant_id = $1 AND leased_until = $4
RETURNING leased_until

-- name: plays
-- Plays, with their prizes and granted milestones.
SELECT p.played_at AS at, p.play_id AS id, p.game_id, p.player_id, p.score, p.wins, p.points,
       p.outcome -> 'rewards' AS rewards, p.outcome -> 'milestones_granted' AS granted, g.campaign_id, c.merchant_id
FROM plays AS p
JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = g.campaign_id
WHERE p.tenant_id = $1 AND p.played_at BETWEEN $2 AND $3 AND (p.played_at, p.play_id) > ($4::timestamptz, $5::text)
ORDER BY p.played_at, p.play_id LIMIT $6

-- name: prizes
-- Names, types and values of prizes $2.
SELECT prize_id, name, type, value FROM prizes WHERE tenant_id = $1 AND prize_id = ANY($2::text[])

-- name: rewards
-- Rewards without a play: redeems and rank prizes. A merged guest's rank stays with the guest if the player has a rank of
-- its own, but the reward belongs to the player.
SELECT r.won_at AS at, r.reward_id AS id, r.player_id, r.prize_id, r.name, r.type, r.quantity, r.value, r.game_id,
       r.milestone_id, CASE WHEN s.is_draw THEN '' ELSE coalesce(s.board_id, '') END AS leaderboard_id,
       CASE WHEN s.is_draw THEN s.board_id ELSE '' END AS draw_id, coalesce(s.rank, 0) AS rank, r.campaign_id,
       coalesce(c.merchant_id, '') AS merchant_id
FROM rewards AS r
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id
LEFT JOIN LATERAL (
    SELECT s.board_id, s.rank, b.is_draw
    FROM ranked AS b
    JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = b.board_id AND s.player_id IN (
        SELECT r.player_id UNION ALL
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = r.player_id)
    WHERE b.tenant_id = $1 AND b.campaign_id = r.campaign_id AND s.reward_id = r.reward_id LIMIT 1
) AS s ON true
WHERE r.tenant_id = $1 AND r.play_id = '' AND r.won_at BETWEEN $2 AND $3
  AND (r.won_at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY r.won_at, r.reward_id LIMIT $6

-- name: claims
-- Claims with their original result: later changes of the rewards do not show.
SELECT r.claimed_at AS at, r.reward_id AS id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, r.game_id,
       r.play_id, r.milestone_id, r.fulfilled_at = r.claimed_at AS fulfilled, r.campaign_id,
       coalesce(c.merchant_id, '') AS merchant_id
FROM rewards AS r
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id
WHERE r.tenant_id = $1 AND r.claimed_at BETWEEN $2 AND $3
  AND (r.claimed_at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY r.claimed_at, r.reward_id LIMIT $6

-- name: quests
-- Quest completions.
SELECT q.completed_at AS at, q.event_id AS id, q.quest_id, q.player_id, q.period, q.turns, q.balance_after,
       d.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM quest_completions AS q
JOIN quests AS d ON d.tenant_id = $1 AND d.quest_id = q.quest_id
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
WHERE q.tenant_id = $1 AND q.completed_at BETWEEN $2 AND $3
  AND (q.completed_at, q.event_id) > ($4::timestamptz, $5::text)
ORDER BY q.completed_at, q.event_id LIMIT $6

-- name: boards
-- Finalized boards.
SELECT b.finalized_at AS at, b.board_id AS id FROM leaderboards AS b
WHERE b.tenant_id = $1 AND b.finalized_at BETWEEN $2 AND $3
  AND (b.finalized_at, b.board_id) > ($4::timestamptz, $5::text)
ORDER BY b.finalized_at, b.board_id LIMIT $6

-- name: redemptions
-- Redemptions of codes and receipts.
SELECT r.redeemed_at AS at, r.redemption_id AS id, r.redemption_id, r.pack_id, r.player_id, r.receipt_id, r.turns, r.currency,
       r.scope_key, r.amount, r.balance_after, r.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM redemptions AS r
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id
WHERE r.tenant_id = $1 AND r.redeemed_at BETWEEN $2 AND $3
  AND (r.redeemed_at, r.redemption_id) > ($4::timestamptz, $5::text)
ORDER BY r.redeemed_at, r.redemption_id LIMIT $6

-- name: draws
-- Draws that were closed or drawn: one row for each step.
SELECT s.at, d.draw_id AS id, s.step, d.draw_id, d.name, d.tickets_root, d.ticket_count, d.holder_count,
       d.randomness ->> 'value' AS value, d.result_hash, d.closed_at, d.drawn_at, d.campaign_id,
       coalesce(c.merchant_id, '') AS merchant_id
FROM draws AS d
CROSS JOIN LATERAL (VALUES ('closed', d.closed_at), ('drawn', d.drawn_at)) AS s (step, at)
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
WHERE d.tenant_id = $1 AND s.at BETWEEN $2 AND $3 AND (s.at, d.draw_id) > ($4::timestamptz, $5::text)
ORDER BY s.at, d.draw_id LIMIT $6

-- name: failures
-- Deliveries that failed for good (dead letters) and were not retried since.
SELECT t.updated_at AS at, t.task_id AS id, t.reward_id, t.player_id, t.prize_id, t.channel, t.attempts,
       t.last_error AS error, t.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM tasks AS t
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = t.campaign_id
WHERE t.tenant_id = $1 AND t.status = 'dead' AND t.updated_at BETWEEN $2 AND $3
  AND (t.updated_at, t.task_id) > ($4::timestamptz, $5::text)
ORDER BY t.updated_at, t.task_id LIMIT $6

-- name: notices
-- Stored budget and stock events.
SELECT n.noticed_at AS at, n.event_id AS id, n.type, n.data, n.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM notices AS n
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = n.campaign_id
WHERE n.tenant_id = $1 AND n.noticed_at BETWEEN $2 AND $3
  AND (n.noticed_at, n.event_id) > ($4::timestamptz, $5::text)
ORDER BY n.noticed_at, n.event_id LIMIT $6

-- name: violations
-- Violations that the audit found, with their latest values.
SELECT v.opened_at AS at, v.violation_id AS id, v.subject_id, v.row_id, v.check_name AS "check", v.scope_key, v.expected,
       v.found, coalesce(c.campaign_id, '') AS campaign_id, coalesce(c.merchant_id, o.merchant_id, '') AS merchant_id
FROM violations AS v
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = v.scope_key
LEFT JOIN merchants AS o ON o.tenant_id = $1 AND o.merchant_id = v.scope_key
WHERE v.tenant_id = $1 AND v.opened_at BETWEEN $2 AND $3
  AND (v.opened_at, v.violation_id) > ($4::timestamptz, $5::text)
ORDER BY v.opened_at, v.violation_id LIMIT $6

-- name: checkpoints
-- Signed checkpoints of the log.
SELECT made_at AS at, lpad(size::text, 19, '0') AS id, size, note FROM log_checkpoints
WHERE tenant_id = $1 AND made_at BETWEEN $2 AND $3
  AND (made_at, lpad(size::text, 19, '0')) > ($4::timestamptz, $5::text)
ORDER BY made_at, size LIMIT $6

-- name: codes
-- Codes delivered after the win, in campaigns with messages.
SELECT r.fulfilled_at AS at, r.reward_id AS id, r.player_id, r.reward_id, r.campaign_id, c.merchant_id
FROM rewards AS r
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id AND c.messages IS NOT NULL
JOIN codes AS o ON o.tenant_id = $1 AND o.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.fulfilled_at > r.won_at AND r.fulfilled_at BETWEEN $2 AND $3
  AND (r.fulfilled_at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY r.fulfilled_at, r.reward_id LIMIT $6

-- name: reminders
-- Unclaimed rewards whose reminder is due: the campaign's hours before they expire, and after the win. One with a task
-- waits for its delivery and does not expire.
SELECT w.at, r.reward_id AS id, r.player_id, r.reward_id, r.campaign_id, c.merchant_id
FROM campaigns AS c
CROSS JOIN LATERAL (
    SELECT make_interval(hours => (t ->> 'hours')::integer) AS before
    FROM jsonb_array_elements(c.messages -> 'templates') AS t WHERE t ->> 'kind' = 'reminder'
) AS t
JOIN rewards AS r ON r.tenant_id = $1 AND r.campaign_id = c.campaign_id AND r.status = 'won'
    AND r.expires_at BETWEEN $2::timestamptz + t.before AND $3::timestamptz + t.before
CROSS JOIN LATERAL (SELECT r.expires_at - t.before AS at) AS w
WHERE c.tenant_id = $1 AND c.messages IS NOT NULL AND r.won_at <= w.at
  AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
  AND (w.at, r.reward_id) > ($4::timestamptz, $5::text)
ORDER BY w.at, r.reward_id LIMIT $6

-- name: results
-- The holders of tickets of draws that were drawn and not cancelled since, in campaigns with messages, by draw and ticket:
-- id has both. A player and the guests merged into it have the same `holder`.
SELECT d.drawn_at AS at, d.draw_id || ' ' || t.first_ticket AS id, d.draw_id || '_' || h.player_id AS holder, h.player_id,
       d.draw_id, d.campaign_id, c.merchant_id
FROM draws AS d
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id AND c.messages IS NOT NULL
CROSS JOIN LATERAL (
    SELECT t.first_ticket, t.player_id FROM draw_tickets AS t
    WHERE t.tenant_id = $1 AND t.draw_id = d.draw_id
      AND t.first_ticket > CASE WHEN (d.drawn_at, d.draw_id) = ($4::timestamptz, split_part($5::text, ' ', 1))
          THEN nullif(split_part($5::text, ' ', 2), '')::bigint ELSE -1 END
    ORDER BY t.first_ticket LIMIT $6
) AS t
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = t.player_id
CROSS JOIN LATERAL (SELECT coalesce(p.merged_into, t.player_id) AS player_id) AS h
WHERE d.tenant_id = $1 AND d.status <> 'cancelled' AND d.drawn_at BETWEEN $2 AND $3
  AND (d.drawn_at, d.draw_id) >= ($4::timestamptz, split_part($5::text, ' ', 1))
ORDER BY d.drawn_at, d.draw_id, t.first_ticket LIMIT $6
