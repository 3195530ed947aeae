-- Merges a guest into a player, in one transaction, in the order of sql/locks.py.
-- See runtime/operations/players/merging.py. $1 tenant, $2 guest, $3 player unless stated otherwise.
--
-- For tables whose keys have another column before the player, the conditions list its values (`= ANY(ARRAY(...))`), so
-- that the key is used: a tenant may have millions of such rows, and a guest has few.

-- name: lock_players
-- Locks both exclusively until the transaction ends: earlier commits for the guest are done, later ones are refused.
SELECT player_id, auth_method, status, merged_into FROM players
WHERE tenant_id = $1 AND player_id IN ($2, $3) ORDER BY player_id FOR UPDATE;

-- name: has_contacts
-- A separate statement: its snapshot includes contacts linked while the guest's lock was waited for.
SELECT EXISTS (SELECT FROM contacts WHERE tenant_id = $1 AND player_id = $2);

-- name: end_guest
-- Marks the guest as merged, for good. The player is unsubscribed from what the guest was. Uses the clock instead of the
-- transaction's start, because rankings poll for recently changed players.
WITH unwanted AS (
    INSERT INTO players AS p (tenant_id, player_id, auth_method, unsubscribed)
    SELECT $1, $3::text, first_known_as($3::text), g.unsubscribed FROM players AS g
    WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.unsubscribed <> '{}'
    ON CONFLICT (tenant_id, player_id) DO UPDATE SET
        unsubscribed = ARRAY(SELECT DISTINCT k FROM unnest(p.unsubscribed || excluded.unsubscribed) AS k ORDER BY k)
)
UPDATE players SET merged_into = $3::text, updated_at = clock_timestamp() WHERE tenant_id = $1 AND player_id = $2;

-- name: lock_forms
-- Locks the campaigns that both entered, so that no limit of entries is set or removed meanwhile.
SELECT FROM campaigns WHERE tenant_id = $1 AND campaign_id = ANY(ARRAY(
    SELECT g.campaign_id FROM entries AS g
    JOIN entries AS p ON p.tenant_id = $1 AND p.campaign_id = g.campaign_id AND p.player_id = $3 AND p.counted
    WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.counted))
ORDER BY campaign_id FOR SHARE;

-- name: move_referrals
-- Moves the guest's invitations, except those to campaigns that the player has an invitation to.
UPDATE referrals AS r SET player_id = $3::text WHERE r.tenant_id = $1 AND r.player_id = $2 AND NOT EXISTS (
    SELECT FROM referrals AS o WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.campaign_id = r.campaign_id);

-- name: lock_play_counts
-- Locks both players' play counts of those games $4 that the guest has played, by key. Creates missing rows of the player, so that no play
-- can insert one meanwhile; plays lock these rows in the same order.
INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays)
SELECT $1::text, g.game_id, who.player_id, 0, g.day, 0
FROM game_players AS g CROSS JOIN unnest(ARRAY[$2::text, $3::text]) AS who (player_id)
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.game_id = ANY($4::text[])
ORDER BY g.game_id, who.player_id COLLATE "C"
ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET plays = c.plays;

-- name: lock_turns
-- Locks both players' turns, in key order.
SELECT 1 FROM turn_balances WHERE tenant_id = $1 AND player_id IN ($2, $3)
ORDER BY player_id, campaign_id FOR UPDATE;

-- name: lock_balances
-- Locks both players' balances, in key order.
SELECT 1 FROM balances WHERE tenant_id = $1 AND player_id IN ($2, $3)
ORDER BY player_id, scope_key, currency FOR UPDATE;

-- name: limited_rewards
-- The guest's rewards of prizes with max_per_user and of milestones granted to both, the best first: delivered, then in
-- delivery, then the oldest. room: the units of its prize that the player may still have, 0 for a milestone of both. What
-- either was awarded counts as the cap if that has been lowered since. play_id: the play that won the reward ('': a
-- milestone's or a board's).
SELECT r.reward_id, r.prize_id, r.quantity, r.type, r.status,
       CASE WHEN r.milestone_id = '' THEN r.play_id ELSE '' END AS play_id,
       CASE WHEN g.reward_id IS NULL
            THEN greatest(p.max_per_user, own.awarded, mine.awarded) - coalesce(mine.awarded, 0) ELSE 0 END AS room
FROM rewards AS r
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
LEFT JOIN prize_players AS own ON own.tenant_id = $1 AND own.prize_id = r.prize_id AND own.player_id = $2
LEFT JOIN prize_players AS mine ON mine.tenant_id = $1 AND mine.prize_id = r.prize_id AND mine.player_id = $3
LEFT JOIN (
    milestone_grants AS g
    JOIN milestone_grants AS o ON o.tenant_id = $1 AND o.player_id = $3
        AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
) ON g.tenant_id = $1 AND g.player_id = $2 AND g.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = $2 AND (p.max_per_user > 0 OR g.reward_id IS NOT NULL)
ORDER BY array_position(ARRAY['fulfilled', 'fulfilling', 'claimed', 'won', 'failed'], r.status) NULLS LAST, r.reward_id;

-- name: surplus_points
-- The surplus of points won by plays, which create no rewards: per play and prize the units over the cap, their points
-- at the time of the play, and the number of complete wins. Units of rewards count first, except those of the surplus, $4.
WITH capped AS (
    SELECT g.prize_id, greatest(p.max_per_user, g.awarded, mine.awarded) - coalesce(mine.awarded, 0) - (
        SELECT coalesce(sum(r.quantity), 0) FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.player_id = $2 AND r.prize_id = g.prize_id
          AND NOT r.reward_id = ANY($4::text[])
    ) AS room
    FROM prize_players AS g
    JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = g.prize_id
    LEFT JOIN prize_players AS mine ON mine.tenant_id = $1 AND mine.prize_id = g.prize_id AND mine.player_id = $3
    WHERE g.tenant_id = $1 AND g.player_id = $2
      AND g.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
      AND p.max_per_user > 0 AND g.awarded + coalesce(mine.awarded, 0) > p.max_per_user
),
credited AS (
    SELECT DISTINCT ON (reference_id) reference_id, scope_key, currency FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = $2 AND currency = 'points' AND reason = 'play_reward'
    ORDER BY reference_id
),
won AS (
    SELECT p.play_id, w.prize_id, w.quantity, w.points, c.scope_key, c.currency,
           sum(w.quantity) OVER (PARTITION BY w.prize_id ORDER BY p.play_id, w.nth) AS upto
    FROM plays AS p
    CROSS JOIN LATERAL (
        SELECT o.won ->> 'prize_id' AS prize_id, (o.won ->> 'quantity')::bigint AS quantity,
               trunc((o.won ->> 'value')::numeric) AS points, o.nth
        FROM json_array_elements(p.outcome -> 'rewards') WITH ORDINALITY AS o (won, nth)
        WHERE o.won ->> 'type' = 'points'
    ) AS w
    JOIN credited AS c ON c.reference_id = p.play_id
    WHERE p.tenant_id = $1 AND p.player_id = $2
),
beyond AS (
    SELECT w.*, least(w.quantity, w.upto - greatest(0, c.room)) AS units
    FROM won AS w JOIN capped AS c ON c.prize_id = w.prize_id WHERE w.upto > greatest(0, c.room)
)
SELECT play_id, prize_id, scope_key, currency, sum(units)::bigint AS units, sum(units * points)::bigint AS points,
       count(*) FILTER (WHERE units = quantity) AS wins
FROM beyond GROUP BY play_id, prize_id, scope_key, currency ORDER BY prize_id, play_id;

-- name: granted_to_both
-- The milestones granted to both.
SELECT g.game_id, g.milestone_id
FROM milestone_grants AS g
JOIN milestone_grants AS o ON o.tenant_id = $1 AND o.player_id = $3
    AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
WHERE g.tenant_id = $1 AND g.player_id = $2;

-- name: grants
-- The milestones granted to the guest.
SELECT game_id, milestone_id FROM milestone_grants WHERE tenant_id = $1 AND player_id = $2;

-- name: movements
-- The balance movements of rewards $3 of player $2: the price of a bought milestone, or points as a prize.
SELECT reward_id, scope_key, currency, sum(amount)::bigint AS amount FROM ledger_entries
WHERE tenant_id = $1 AND player_id = $2 AND reward_id = ANY($3::text[])
GROUP BY reward_id, scope_key, currency HAVING sum(amount) <> 0
ORDER BY reward_id, scope_key, currency;

-- name: take_back
-- Takes $5, or as much as there is, from the balance of player $2, scope $3 and currency $4, as entry $6 with reference $7
-- and reward $8 ('': none). Returns how much. No row: the balance was 0.
WITH moved AS (
    UPDATE balances AS b SET
        balance = b.balance - least($5::bigint, b.balance), seq = greatest(b.seq + 1, microseconds()),
        updated_at = now()
    FROM (
        SELECT balance FROM balances WHERE tenant_id = $1 AND player_id = $2 AND scope_key = $3 AND currency = $4
    ) AS o
    WHERE b.tenant_id = $1 AND b.player_id = $2 AND b.scope_key = $3 AND b.currency = $4
      AND least($5::bigint, b.balance) > 0
    RETURNING b.balance, b.seq, b.balance - o.balance AS amount
)
INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after, reason,
                            reference_id, reward_id)
SELECT $1, $6, seq, $3, $4, $2, amount, balance, 'reversal', $7, $8 FROM moved
RETURNING -amount AS taken;

-- name: statuses
-- The statuses of rewards $2 once they are locked.
SELECT reward_id, status FROM rewards WHERE tenant_id = $1 AND reward_id = ANY($2::text[]) ORDER BY reward_id;

-- name: revoke_surplus
-- Revokes surplus rewards $2 and cancels their tasks. They stay with the guest, who can no longer claim.
WITH ended AS (
    UPDATE rewards SET status = 'revoked' WHERE tenant_id = $1 AND reward_id = ANY($2::text[]) RETURNING reward_id
)
UPDATE tasks AS t SET
    status = 'cancelled', next_attempt_at = NULL, lease_until = NULL, lease_owner = '', updated_at = now()
FROM ended AS n WHERE t.tenant_id = $1 AND t.reward_id = n.reward_id AND t.status <> 'delivered';

-- name: prize_counts
-- Both players' awards of each capped prize of the guest.
SELECT g.prize_id, g.awarded AS guests, coalesce(mine.awarded, 0) AS players
FROM prize_players AS g
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = g.prize_id AND p.max_per_user > 0
LEFT JOIN prize_players AS mine ON mine.tenant_id = $1 AND mine.prize_id = g.prize_id AND mine.player_id = $3
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
ORDER BY g.prize_id;

-- name: lock_prize_counts
-- Locks both players' award counts of the guest's prizes, in key order. Creates missing rows of the player.
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
SELECT $1::text, g.prize_id, who.player_id, 0
FROM prize_players AS g CROSS JOIN unnest(ARRAY[$2::text, $3::text]) AS who (player_id)
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
ORDER BY g.prize_id, who.player_id COLLATE "C"
ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded;

-- name: lock_rewards
-- Locks the guest's rewards, in key order.
SELECT 1 FROM rewards WHERE tenant_id = $1 AND player_id = $2 ORDER BY reward_id FOR UPDATE;

-- name: lock_tasks
-- Locks the tasks of the guest's rewards, in key order.
SELECT 1 FROM tasks AS t
WHERE t.tenant_id = $1
  AND t.reward_id IN (SELECT r.reward_id FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = $2)
ORDER BY t.task_id FOR UPDATE;

-- name: move_play_counts
-- Adds the guest's play counts to the player's, for games $4.
WITH moved AS (
    DELETE FROM game_players
    WHERE tenant_id = $1 AND player_id = $2 AND game_id = ANY($4::text[])
    RETURNING game_id, plays, day, day_plays, busy_until
)
INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays, busy_until)
SELECT $1, game_id, $3, plays, day, day_plays, busy_until FROM moved ORDER BY game_id
ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET
    plays = c.plays + excluded.plays,
    day = greatest(c.day, excluded.day),
    day_plays = CASE WHEN c.day >= excluded.day THEN c.day_plays ELSE 0 END
              + CASE WHEN excluded.day >= c.day THEN excluded.day_plays ELSE 0 END,
    busy_until = greatest(c.busy_until, excluded.busy_until);

-- name: turns
-- The guest's turns per campaign, and how many of them stay with the guest: those of quests that the player has completed
-- in the same period ($3 the quests and $4 the periods of these), and those of rewards $5.
SELECT t.campaign_id, t.balance, least(t.balance, coalesce(s.turns, 0)) AS kept
FROM turn_balances AS t
LEFT JOIN (
    SELECT o.campaign_id, sum(o.turns)::bigint AS turns
    FROM (
        SELECT q.campaign_id, c.turns
        FROM unnest($3::text[], $4::text[]) AS n (quest_id, period)
        JOIN quest_completions AS c ON c.tenant_id = $1 AND c.quest_id = n.quest_id AND c.player_id = $2
            AND c.period = n.period
        JOIN quests AS q ON q.tenant_id = $1 AND q.quest_id = n.quest_id
        UNION ALL
        SELECT campaign_id, trunc(value)::bigint * quantity FROM rewards
        WHERE tenant_id = $1 AND reward_id = ANY($5::text[])
    ) AS o
    GROUP BY o.campaign_id
) AS s ON s.campaign_id = t.campaign_id
WHERE t.tenant_id = $1 AND t.player_id = $2
ORDER BY t.campaign_id;

-- name: completed_by_both
-- The quests and periods completed by both.
SELECT g.quest_id, g.period
FROM quest_completions AS g
JOIN quest_completions AS o ON o.tenant_id = $1 AND o.quest_id = g.quest_id AND o.player_id = $3 AND o.period = g.period
WHERE g.tenant_id = $1 AND g.player_id = $2
  AND g.quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1));

-- name: completions
-- The quests and periods completed by the guest.
SELECT quest_id, period FROM quest_completions
WHERE tenant_id = $1 AND player_id = $2
  AND quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1));

-- name: move_turns
-- Moves turns to the player, with an entry on either side.
-- $4 campaigns, $5 amounts, $6 ids of the guest's entries, $7 of the player's, $8 what the guest keeps.
WITH moved AS (
    SELECT * FROM unnest($4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[])
        AS m (campaign_id, amount, left_id, right_id, kept)
    ORDER BY campaign_id
),
deleted AS (
    DELETE FROM turn_balances AS t USING moved AS m
    WHERE t.tenant_id = $1 AND t.player_id = $2 AND t.campaign_id = m.campaign_id AND m.kept = 0
),
reduced AS (
    UPDATE turn_balances AS t SET balance = m.kept, updated_at = now()
    FROM moved AS m
    WHERE t.tenant_id = $1 AND t.player_id = $2 AND t.campaign_id = m.campaign_id AND m.kept > 0
),
credited AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance)
    SELECT $1, campaign_id, $3, amount FROM moved
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING campaign_id, balance
)
INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
SELECT $1, left_id, campaign_id, $2, -amount, kept, 'merge', $3 FROM moved
UNION ALL
SELECT $1, right_id, campaign_id, $3, amount, balance, 'merge', $2 FROM moved JOIN credited USING (campaign_id);

-- name: move_balances
-- Adds the guest's balances to the player's.
WITH moved AS (
    DELETE FROM balances WHERE tenant_id = $1 AND player_id = $2
    RETURNING scope_key, currency, balance, seq
)
INSERT INTO balances AS b (tenant_id, scope_key, currency, player_id, balance, seq)
SELECT $1, scope_key, currency, $3, balance, seq FROM moved ORDER BY scope_key, currency
ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET
    balance = b.balance + excluded.balance, seq = greatest(b.seq, excluded.seq), updated_at = now();

-- name: move_ledger
-- Moves the guest's ledger entries and recomputes balance_after since the guest's first one, so that the ledger still adds
-- up: backwards from the merged balance, in one pass. Locks the entries in key order.
WITH locked AS (
    SELECT player_id, seq, entry_id, scope_key, currency, amount FROM ledger_entries
    WHERE tenant_id = $1 AND player_id IN ($2, $3)
      AND seq >= (SELECT min(seq) FROM ledger_entries WHERE tenant_id = $1 AND player_id = $2)
    ORDER BY player_id, seq, entry_id FOR UPDATE
),
walked AS (
    SELECT player_id, seq, entry_id, scope_key, currency,
           amount - sum(amount) OVER (PARTITION BY scope_key, currency ORDER BY seq DESC, entry_id DESC) AS behind,
           min(seq) FILTER (WHERE player_id = $2) OVER (PARTITION BY scope_key, currency) AS first_seq
    FROM locked
)
UPDATE ledger_entries AS e SET player_id = $3::text, balance_after = b.balance + w.behind
FROM walked AS w
JOIN balances AS b ON b.tenant_id = $1 AND b.player_id = $3 AND b.scope_key = w.scope_key AND b.currency = w.currency
WHERE e.tenant_id = $1 AND e.player_id = w.player_id AND e.seq = w.seq AND e.entry_id = w.entry_id
  AND w.seq >= w.first_seq;

-- name: move_prize_counts
-- Adds the guest's award counts to the player's, so that caps continue from the sum. The surplus ($4 prizes, $5 units) stays
-- with the guest.
WITH surplus AS (
    SELECT s.prize_id, s.units FROM unnest($4::text[], $5::bigint[]) AS s (prize_id, units)
),
had AS (
    SELECT c.prize_id, c.awarded, least(c.awarded, coalesce(s.units, 0)) AS kept
    FROM prize_players AS c LEFT JOIN surplus AS s ON s.prize_id = c.prize_id
    WHERE c.tenant_id = $1 AND c.player_id = $2
      AND c.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
),
reduced AS (
    UPDATE prize_players AS c SET awarded = h.kept
    FROM had AS h WHERE c.tenant_id = $1 AND c.player_id = $2 AND c.prize_id = h.prize_id AND h.kept > 0
),
deleted AS (
    DELETE FROM prize_players AS c USING had AS h
    WHERE c.tenant_id = $1 AND c.player_id = $2 AND c.prize_id = h.prize_id AND h.kept = 0
),
moved AS (
    SELECT prize_id, awarded - kept AS awarded FROM had WHERE awarded > kept
)
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
SELECT $1, prize_id, $3, awarded FROM moved ORDER BY prize_id
ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded + excluded.awarded;

-- name: lock_plays
-- Locks the guest's plays in the order of sql/locks.py: an update would lock them by game. An archive of the campaign or
-- an erasure locks them by id.
SELECT FROM plays WHERE tenant_id = $1 AND player_id = $2 ORDER BY play_id FOR UPDATE;

-- name: move_plays
-- Moves the plays. Returns their games, and those of archived campaigns: their plays are deleted, but remain counted. An
-- idempotency key that the player has used too is cleared.
WITH moved AS (
    UPDATE plays AS p SET
        player_id = $3::text,
        idempotency_key = CASE WHEN NOT EXISTS (
            SELECT FROM plays AS o
            WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.game_id = p.game_id
              AND o.idempotency_key = p.idempotency_key
        ) THEN p.idempotency_key END
    WHERE p.tenant_id = $1 AND p.player_id = $2
    RETURNING p.game_id
)
SELECT game_id FROM moved UNION SELECT unnest(archived_games($1));

-- name: record_surplus
-- Records on plays $2 how many of their wins ($3) and points ($4) stay with the guest, so that they do not count for the
-- player.
UPDATE plays AS p SET
    surplus_wins = least(p.wins, coalesce(p.surplus_wins, 0) + n.wins),
    surplus_points = least(p.points, coalesce(p.surplus_points, 0) + n.points)
FROM unnest($2::text[], $3::integer[], $4::bigint[]) AS n (play_id, wins, points)
WHERE p.tenant_id = $1 AND p.play_id = n.play_id;

-- name: move_rewards
-- Moves rewards and their tasks, except the surplus $4.
WITH moved AS (
    UPDATE rewards AS r SET player_id = $3::text
    WHERE r.tenant_id = $1 AND r.player_id = $2 AND NOT r.reward_id = ANY($4::text[])
    RETURNING r.reward_id
)
UPDATE tasks AS t SET player_id = $3::text
FROM moved WHERE t.tenant_id = $1 AND t.reward_id = moved.reward_id;

-- name: move_grants
-- Moves milestone grants. One that the player has too stays with the guest: a player has at most one.
UPDATE milestone_grants AS g SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM milestone_grants AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.game_id = g.game_id AND o.idempotency_key = g.idempotency_key
    ) THEN g.idempotency_key END
WHERE g.tenant_id = $1 AND g.player_id = $2 AND NOT EXISTS (
    SELECT FROM milestone_grants AS o
    WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
);

-- name: move_completions
-- Moves quest completions. One that the player has too in the same period stays with the guest.
UPDATE quest_completions AS q SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM quest_completions AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.quest_id = q.quest_id AND o.idempotency_key = q.idempotency_key
    ) THEN q.idempotency_key END
WHERE q.tenant_id = $1 AND q.player_id = $2
  AND q.quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1))
  AND NOT EXISTS (
    SELECT FROM quest_completions AS o
    WHERE o.tenant_id = $1 AND o.quest_id = q.quest_id AND o.player_id = $3 AND o.period = q.period
);

-- name: move_quest_events
-- Moves the quest events reported about the guest.
UPDATE quest_events SET player_id = $3::text WHERE tenant_id = $1 AND player_id = $2;

-- name: move_redemptions
-- Moves the guest's redemptions of codes and receipts. A key that the player has used too is dropped.
UPDATE redemptions AS r SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM redemptions AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.idempotency_key = r.idempotency_key
    ) THEN r.idempotency_key END
WHERE r.tenant_id = $1 AND r.player_id = $2;

-- name: lock_entry_counts
-- Locks the counts of campaigns with a limit that both entered, in key order. Creates missing ones: otherwise an entry that
-- begins the count meanwhile would count both entries.
INSERT INTO entry_counts AS n (tenant_id, campaign_id, entries)
SELECT $1::text, c.campaign_id, CASE WHEN o.campaign_id IS NULL THEN (
           SELECT count(*) FROM entries AS e WHERE e.tenant_id = $1 AND e.campaign_id = c.campaign_id AND e.counted
       ) ELSE 0 END
FROM campaigns AS c LEFT JOIN entry_counts AS o ON o.tenant_id = $1 AND o.campaign_id = c.campaign_id
WHERE c.tenant_id = $1 AND (c.entry ->> 'max_entries')::bigint > 0
  AND c.campaign_id IN (SELECT e.campaign_id FROM entries AS e WHERE e.tenant_id = $1 AND e.player_id = $2 AND e.counted)
  AND c.campaign_id IN (SELECT e.campaign_id FROM entries AS e WHERE e.tenant_id = $1 AND e.player_id = $3 AND e.counted)
ORDER BY c.campaign_id
ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET entries = n.entries;

-- name: end_entries
-- Deletes the guest's entries to campaigns that the player entered too: the player's own count. Their receipts, which
-- name the texts that the guest's plays were made under, and their contacts go to the player's entry.
WITH pairs AS (
    SELECT g.campaign_id, g.entry_id AS guests, p.entry_id AS players, g.counted, g.counted AND p.counted AS counted_twice,
           (g.late OR p.late) AND NOT (g.counted AND NOT g.late) AND NOT (p.counted AND NOT p.late) AS late
    FROM entries AS g
    JOIN entries AS p ON p.tenant_id = $1 AND p.campaign_id = g.campaign_id AND p.player_id = $3
    WHERE g.tenant_id = $1 AND g.player_id = $2
),
discounted AS (
    UPDATE entry_counts AS n SET entries = n.entries - 1
    FROM pairs WHERE n.tenant_id = $1 AND n.campaign_id = pairs.campaign_id AND pairs.counted_twice
    RETURNING 1
),
counted AS (
    UPDATE entries AS e SET counted = e.counted OR pairs.counted, late = pairs.late, has_guests = true
    FROM pairs WHERE e.tenant_id = $1 AND e.campaign_id = pairs.campaign_id AND e.player_id = $3
),
deleted AS (
    DELETE FROM entries AS e USING pairs
    WHERE e.tenant_id = $1 AND e.campaign_id = pairs.campaign_id AND e.player_id = $2
      AND (SELECT count(*) FROM discounted) >= 0
    RETURNING 1
),
receipts AS (
    -- Older than the player's own: numbered before the oldest.
    UPDATE entry_consents AS k SET entry_id = pairs.players, revision = k.revision - 1000000 + least(0, (
        SELECT min(o.revision) FROM entry_consents AS o WHERE o.tenant_id = $1 AND o.entry_id = pairs.players))
    FROM pairs WHERE k.tenant_id = $1 AND k.entry_id = pairs.guests AND (SELECT count(*) FROM deleted) >= 0
)
UPDATE entry_contacts AS k SET entry_id = pairs.players
FROM pairs WHERE k.tenant_id = $1 AND k.entry_id = pairs.guests;

-- name: move_entries
-- Moves the guest's other entries to the player.
UPDATE entries SET player_id = $3::text, revision = revision + 1 WHERE tenant_id = $1 AND player_id = $2;

-- name: move_adjustments
-- Moves score adjustments.
UPDATE leaderboard_adjustments SET player_id = $3::text
WHERE tenant_id = $1 AND player_id = $2 AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1));

-- name: lock_boards
-- Locks the tenant's active boards FOR SHARE. Without it, a board finalized during the merge would rank the guest, and the
-- player would lose the rank.
SELECT FROM leaderboards WHERE tenant_id = $1 AND status = 'active' ORDER BY board_id FOR SHARE;

-- name: move_standings
-- Moves ranks on finalized boards and in draws. If the player has a rank of its own, the guest keeps the other.
UPDATE leaderboard_standings AS s SET player_id = $3::text
WHERE s.tenant_id = $1 AND s.player_id = $2
  AND s.board_id = ANY(ARRAY(SELECT board_id FROM ranked WHERE tenant_id = $1))
  AND NOT EXISTS (
    SELECT FROM leaderboard_standings AS o WHERE o.tenant_id = $1 AND o.board_id = s.board_id AND o.player_id = $3);

-- name: copy_disqualifications
-- A login does not lift a disqualification.
INSERT INTO leaderboard_disqualifications (tenant_id, board_id, player_id, reason, disqualified_at)
SELECT $1::text, board_id, $3::text, reason, disqualified_at FROM leaderboard_disqualifications
WHERE tenant_id = $1 AND player_id = $2 AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1))
ON CONFLICT DO NOTHING;

-- name: lock_target
-- The player that a guest was merged into. FOR SHARE: one still a guest stays so until the transaction ends. No row, or
-- null: not merged.
SELECT merged_into FROM players WHERE tenant_id = $1 AND player_id = $2 AND auth_method = 'guest' FOR SHARE;
