-- A guest becomes the player it turns out to be: all in one transaction, in the order of sql/locks.py.
-- See runtime/operations/players/merging.py. $1 tenant, $2 guest, $3 player where nothing else is said.
--
-- Tables whose keys name something before the player are asked for each of these things, by the key: a tenant may have
-- millions of their rows, and a guest has a few.

-- name: hold_players
-- Both alone, until the transaction ends: what was decided for the guest has committed, or waits and is then refused.
SELECT player_id, auth_method, status, merged_into FROM players
WHERE tenant_id = $1 AND player_id IN ($2, $3) ORDER BY player_id FOR UPDATE;

-- name: has_contacts
-- A statement of its own: what was linked while the guest was waited for is seen.
SELECT EXISTS (SELECT FROM contacts WHERE tenant_id = $1 AND player_id = $2);

-- name: end_guest
-- The guest is the player from now on, and can become nobody else. By the clock, not by the transaction's beginning:
-- rankings follow who changed of late.
UPDATE players SET merged_into = $3::text, updated_at = clock_timestamp() WHERE tenant_id = $1 AND player_id = $2;

-- name: hold_counts
-- What both have played of each of the guest's games, $4. A player who has played none of one gets a row, for nobody
-- else to make: plays lock these rows by their key, those that they make too.
INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays)
SELECT $1::text, g.game_id, who.player_id, 0, g.day, 0
FROM game_players AS g CROSS JOIN unnest(ARRAY[$2::text, $3::text]) AS who (player_id)
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.game_id = ANY($4::text[])
ORDER BY g.game_id, who.player_id COLLATE "C"
ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET plays = c.plays;

-- name: hold_turns
-- Both players' turns.
SELECT 1 FROM turn_balances WHERE tenant_id = $1 AND player_id IN ($2, $3)
ORDER BY player_id, campaign_id FOR UPDATE;

-- name: hold_balances
-- Both players' balances.
SELECT 1 FROM balances WHERE tenant_id = $1 AND player_id IN ($2, $3)
ORDER BY player_id, scope_key, currency FOR UPDATE;

-- name: surplus_rewards
-- What of the guest's is beyond what one player may have: rewards of a prize with max_per_user that the two of them
-- have won more of, and those of rungs that both were granted. The guest's best are within: what is delivered, then
-- what is on its way, then the oldest. What the player has is never touched. play_id: of the play that won it ('':
-- a rung's, or a board's).
WITH ranked AS (
    SELECT r.reward_id, r.prize_id, r.quantity, r.type, r.status,
           CASE WHEN r.milestone_id = '' THEN r.play_id ELSE '' END AS play_id,
           p.max_per_user - coalesce(mine.awarded, 0) AS room,
           p.max_per_user > 0 AS capped,
           sum(r.quantity) OVER (
               PARTITION BY r.prize_id
               ORDER BY array_position(ARRAY['fulfilled', 'fulfilling', 'claimed', 'won', 'failed'], r.status) NULLS LAST,
                        r.reward_id
           ) AS upto
    FROM rewards AS r
    JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
    LEFT JOIN prize_players AS mine ON mine.tenant_id = $1 AND mine.prize_id = r.prize_id AND mine.player_id = $3
    WHERE r.tenant_id = $1 AND r.player_id = $2
)
SELECT reward_id, prize_id, quantity, type, status, play_id FROM ranked WHERE capped AND upto > room
UNION
SELECT r.reward_id, r.prize_id, r.quantity, r.type, r.status, ''
FROM milestone_grants AS g
JOIN milestone_grants AS o ON o.tenant_id = $1 AND o.player_id = $3
    AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = g.reward_id
WHERE g.tenant_id = $1 AND g.player_id = $2;

-- name: surplus_points
-- The same of the points that plays won, which left no rewards: of each play and prize the units beyond, what they were
-- won for, whatever the prize is now, and how many wins they are whole. Units of rewards count first.
WITH capped AS (
    SELECT g.prize_id, p.max_per_user - coalesce(mine.awarded, 0) - (
        SELECT coalesce(sum(r.quantity), 0) FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.player_id = $2 AND r.prize_id = g.prize_id
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
-- The rungs that guest and player were both granted.
SELECT g.game_id, g.milestone_id
FROM milestone_grants AS g
JOIN milestone_grants AS o ON o.tenant_id = $1 AND o.player_id = $3
    AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
WHERE g.tenant_id = $1 AND g.player_id = $2;

-- name: grants
-- The rungs that the guest was granted.
SELECT game_id, milestone_id FROM milestone_grants WHERE tenant_id = $1 AND player_id = $2;

-- name: movements
-- What rewards $3 moved in the balances of player $2: the price of a bought rung, the points of one that gave points.
SELECT reward_id, scope_key, currency, sum(amount)::bigint AS amount FROM ledger_entries
WHERE tenant_id = $1 AND player_id = $2 AND reward_id = ANY($3::text[])
GROUP BY reward_id, scope_key, currency HAVING sum(amount) <> 0
ORDER BY reward_id, scope_key, currency;

-- name: move_back
-- Takes $5 from the balance of player $2, scope $3 and currency $4, or what there is of it; notes it as entry $6
-- about $7, and as of reward $8 ('' none). How much it took. No row: there was nothing.
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
-- What became of rewards $2 until they were locked.
SELECT reward_id, status FROM rewards WHERE tenant_id = $1 AND reward_id = ANY($2::text[]) ORDER BY reward_id;

-- name: revoke_surplus
-- Ends surplus rewards $2 and cancels their tasks. They stay the guest's, for whom nobody claims any more.
WITH ended AS (
    UPDATE rewards SET status = 'revoked' WHERE tenant_id = $1 AND reward_id = ANY($2::text[]) RETURNING reward_id
)
UPDATE tasks AS t SET
    status = 'cancelled', next_attempt_at = NULL, lease_until = NULL, lease_owner = '', updated_at = now()
FROM ended AS n WHERE t.tenant_id = $1 AND t.reward_id = n.reward_id AND t.status <> 'delivered';

-- name: prize_counts
-- What both have had of each capped prize that the guest has had.
SELECT g.prize_id, g.awarded AS guests, coalesce(mine.awarded, 0) AS players
FROM prize_players AS g
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = g.prize_id AND p.max_per_user > 0
LEFT JOIN prize_players AS mine ON mine.tenant_id = $1 AND mine.prize_id = g.prize_id AND mine.player_id = $3
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
ORDER BY g.prize_id;

-- name: hold_prize_counts
-- What both had of each prize that the guest has had. A player who had none gets a row, for nobody else to make.
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
SELECT $1::text, g.prize_id, who.player_id, 0
FROM prize_players AS g CROSS JOIN unnest(ARRAY[$2::text, $3::text]) AS who (player_id)
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
ORDER BY g.prize_id, who.player_id COLLATE "C"
ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded;

-- name: hold_rewards
-- The guest's rewards.
SELECT 1 FROM rewards WHERE tenant_id = $1 AND player_id = $2 ORDER BY reward_id FOR UPDATE;

-- name: hold_tasks
-- The tasks of the guest's rewards.
SELECT 1 FROM tasks AS t
WHERE t.tenant_id = $1
  AND t.reward_id IN (SELECT r.reward_id FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = $2)
ORDER BY t.task_id FOR UPDATE;

-- name: move_play_counts
-- The counts of both together, of the games $4.
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
-- The turns that guest $2 has left, by campaign, and how many of them stay: those of quests that the player has
-- completed in the same period too. $3 the quests and $4 the periods of these.
SELECT t.campaign_id, t.balance, least(t.balance, coalesce(s.turns, 0)) AS kept
FROM turn_balances AS t
LEFT JOIN (
    SELECT q.campaign_id, sum(c.turns)::bigint AS turns
    FROM unnest($3::text[], $4::text[]) AS n (quest_id, period)
    JOIN quest_completions AS c ON c.tenant_id = $1 AND c.quest_id = n.quest_id AND c.player_id = $2
        AND c.period = n.period
    JOIN quests AS q ON q.tenant_id = $1 AND q.quest_id = n.quest_id
    GROUP BY q.campaign_id
) AS s ON s.campaign_id = t.campaign_id
WHERE t.tenant_id = $1 AND t.player_id = $2
ORDER BY t.campaign_id;

-- name: completed_by_both
-- The quests, with the period, that guest and player have both completed.
SELECT g.quest_id, g.period
FROM quest_completions AS g
JOIN quest_completions AS o ON o.tenant_id = $1 AND o.quest_id = g.quest_id AND o.player_id = $3 AND o.period = g.period
WHERE g.tenant_id = $1 AND g.player_id = $2
  AND g.quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1));

-- name: completions
-- The quests, with the period, that the guest has completed.
SELECT quest_id, period FROM quest_completions
WHERE tenant_id = $1 AND player_id = $2
  AND quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1));

-- name: give_turns
-- Gives the turns to the player and notes both sides.
-- $4 campaigns, $5 amounts, $6 entry ids of the guest's side, $7 of the player's, $8 what the guest keeps.
WITH moved AS (
    SELECT * FROM unnest($4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[])
        AS m (campaign_id, amount, left_id, right_id, kept)
    ORDER BY campaign_id
),
gone AS (
    DELETE FROM turn_balances AS t USING moved AS m
    WHERE t.tenant_id = $1 AND t.player_id = $2 AND t.campaign_id = m.campaign_id AND m.kept = 0
),
kept AS (
    UPDATE turn_balances AS t SET balance = m.kept, updated_at = now()
    FROM moved AS m
    WHERE t.tenant_id = $1 AND t.player_id = $2 AND t.campaign_id = m.campaign_id AND m.kept > 0
),
given AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance)
    SELECT $1, campaign_id, $3, amount FROM moved
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING campaign_id, balance
)
INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
SELECT $1, left_id, campaign_id, $2, -amount, kept, 'merge', $3 FROM moved
UNION ALL
SELECT $1, right_id, campaign_id, $3, amount, balance, 'merge', $2 FROM moved JOIN given USING (campaign_id);

-- name: move_balances
-- Adds the balances of $2 to those of $3, scope by scope.
WITH moved AS (
    DELETE FROM balances WHERE tenant_id = $1 AND player_id = $2
    RETURNING scope_key, currency, balance, seq
)
INSERT INTO balances AS b (tenant_id, scope_key, currency, player_id, balance, seq)
SELECT $1, scope_key, currency, $3, balance, seq FROM moved ORDER BY scope_key, currency
ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET
    balance = b.balance + excluded.balance, seq = greatest(b.seq, excluded.seq), updated_at = now();

-- name: move_ledger
-- Moves the entries behind their balances, so that both ledgers go on summing to these. Entries since the guest's first
-- say what both had together: told from what they have now, back over what came after, in one walk.
WITH held AS (
    SELECT player_id, seq, entry_id, scope_key, currency, amount FROM ledger_entries
    WHERE tenant_id = $1 AND player_id IN ($2, $3)
      AND seq >= (SELECT min(seq) FROM ledger_entries WHERE tenant_id = $1 AND player_id = $2)
    ORDER BY player_id, seq, entry_id FOR UPDATE
),
walked AS (
    SELECT player_id, seq, entry_id, scope_key, currency,
           amount - sum(amount) OVER (PARTITION BY scope_key, currency ORDER BY seq DESC, entry_id DESC) AS behind,
           min(seq) FILTER (WHERE player_id = $2) OVER (PARTITION BY scope_key, currency) AS first_seq
    FROM held
)
UPDATE ledger_entries AS e SET player_id = $3::text, balance_after = b.balance + w.behind
FROM walked AS w
JOIN balances AS b ON b.tenant_id = $1 AND b.player_id = $3 AND b.scope_key = w.scope_key AND b.currency = w.currency
WHERE e.tenant_id = $1 AND e.player_id = w.player_id AND e.seq = w.seq AND e.entry_id = w.entry_id
  AND w.seq >= w.first_seq;

-- name: move_prize_counts
-- Adds what $2 had of each prize to what $3 had: the caps go on from there. But for the surplus, whose prizes are $4
-- and units $5: that stays.
WITH surplus AS (
    SELECT s.prize_id, s.units FROM unnest($4::text[], $5::bigint[]) AS s (prize_id, units)
),
had AS (
    SELECT c.prize_id, c.awarded, least(c.awarded, coalesce(s.units, 0)) AS kept
    FROM prize_players AS c LEFT JOIN surplus AS s ON s.prize_id = c.prize_id
    WHERE c.tenant_id = $1 AND c.player_id = $2
      AND c.prize_id = ANY(ARRAY(SELECT prize_id FROM prizes WHERE tenant_id = $1))
),
kept AS (
    UPDATE prize_players AS c SET awarded = h.kept
    FROM had AS h WHERE c.tenant_id = $1 AND c.player_id = $2 AND c.prize_id = h.prize_id AND h.kept > 0
),
gone AS (
    DELETE FROM prize_players AS c USING had AS h
    WHERE c.tenant_id = $1 AND c.player_id = $2 AND c.prize_id = h.prize_id AND h.kept = 0
),
moved AS (
    SELECT prize_id, awarded - kept AS awarded FROM had WHERE awarded > kept
)
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
SELECT $1, prize_id, $3, awarded FROM moved ORDER BY prize_id
ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded + excluded.awarded;

-- name: move_plays
-- The games that the guest has played. A key that the player has used for a play of its own stays with that one.
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
SELECT DISTINCT game_id FROM moved;

-- name: note_surplus
-- Notes of plays $2 how many of their wins, $3, and of their points, $4, stay with the guest: so that nothing counts them
-- as the player's.
UPDATE plays AS p SET
    surplus_wins = least(p.wins, coalesce(p.surplus_wins, 0) + n.wins),
    surplus_points = least(p.points, coalesce(p.surplus_points, 0) + n.points)
FROM unnest($2::text[], $3::integer[], $4::bigint[]) AS n (play_id, wins, points)
WHERE p.tenant_id = $1 AND p.play_id = n.play_id;

-- name: move_rewards
-- With their deliveries; but for the surplus, $4.
WITH moved AS (
    UPDATE rewards AS r SET player_id = $3::text
    WHERE r.tenant_id = $1 AND r.player_id = $2 AND NOT r.reward_id = ANY($4::text[])
    RETURNING r.reward_id
)
UPDATE tasks AS t SET player_id = $3::text
FROM moved WHERE t.tenant_id = $1 AND t.reward_id = moved.reward_id;

-- name: move_grants
-- A rung that the player was granted too stays the guest's: a player has one grant of a rung.
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
-- A quest that the player completed in the same period too stays the guest's.
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
-- What was told of the guest counts for the player.
UPDATE quest_events SET player_id = $3::text WHERE tenant_id = $1 AND player_id = $2;

-- name: move_adjustments
-- Of scores on leaderboards.
UPDATE leaderboard_adjustments SET player_id = $3::text
WHERE tenant_id = $1 AND player_id = $2 AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1));

-- name: move_standings
-- Of boards that are finalized; where the player has a place of its own, both keep theirs.
UPDATE leaderboard_standings AS s SET player_id = $3::text
WHERE s.tenant_id = $1 AND s.player_id = $2
  AND s.board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1))
  AND NOT EXISTS (
    SELECT FROM leaderboard_standings AS o WHERE o.tenant_id = $1 AND o.board_id = s.board_id AND o.player_id = $3);

-- name: copy_disqualifications
-- Logging in does not clear a name.
INSERT INTO leaderboard_disqualifications (tenant_id, board_id, player_id, reason, disqualified_at)
SELECT $1::text, board_id, $3::text, reason, disqualified_at FROM leaderboard_disqualifications
WHERE tenant_id = $1 AND player_id = $2 AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1))
ON CONFLICT DO NOTHING;

-- name: hold_guest
-- Whom a guest has become; one that is still a guest stays it until the transaction ends. No row, and null: nobody.
SELECT merged_into FROM players WHERE tenant_id = $1 AND player_id = $2 AND auth_method = 'guest' FOR SHARE;
