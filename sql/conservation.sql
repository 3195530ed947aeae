-- Conservation: invariants of the rows between transactions. See runtime/operations/conservation/.
--
-- A check is one statement that finds violations. It is named <kind>_<what> and checks the objects of that kind with keys
-- $2 of tenant $1. The first sentence of its description is the invariant. Columns: id (the key), row_id (the row
-- concerned, '': the object itself), scope_key (its campaign, merchant or tenant), expected, found.
-- Keys of two parts are separated by a space.
--
-- Settings that staff may change (a cap, a channel, a time zone) are compared only with rows from ten minutes after the
-- last change in the audit log: decisions in progress do not see a change. A campaign's time zone at an earlier time is
-- the `before` of the first later change.
--
-- `changed` selects recently changed objects; `walk_<kind>` selects the next objects of a full pass.

-- name: changed
-- The objects (kind, id) changed from $2 to before $3. It sees the writes of transactions that began in that interval, so
-- $3 must not be later than the watermark settled_at(). Changes without a timestamp (an expiry, a manual edit) are found
-- by the full pass.
WITH played AS MATERIALIZED (
    SELECT play_id, game_id, player_id FROM plays WHERE tenant_id = $1 AND played_at >= $2 AND played_at < $3
),
tasked AS MATERIALIZED (
    SELECT task_id, player_id FROM tasks WHERE tenant_id = $1 AND updated_at >= $2 AND updated_at < $3
)
SELECT 'play' AS kind, play_id::text AS id FROM played
UNION
SELECT 'counter', game_id || ' ' || player_id FROM played
UNION
SELECT 'task', task_id FROM tasked
UNION
SELECT 'player', o.player_id
FROM (
    SELECT player_id FROM played
    UNION
    SELECT player_id FROM tasked
    UNION
    SELECT player_id FROM ledger_entries WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3
    UNION
    SELECT player_id FROM turn_entries WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3
    UNION
    SELECT player_id FROM rewards WHERE tenant_id = $1 AND play_id = '' AND won_at >= $2 AND won_at < $3
    UNION
    SELECT player_id FROM rewards WHERE tenant_id = $1 AND claimed_at >= $2 AND claimed_at < $3
    UNION
    SELECT r.player_id
    FROM audit_entries AS e JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = e.subject_id
    WHERE e.tenant_id = $1 AND e.created_at >= $2 AND e.created_at < $3 AND e.subject_type = 'reward'
    UNION
    SELECT player_id FROM players WHERE tenant_id = $1 AND updated_at >= $2 AND updated_at < $3
    UNION
    SELECT merged_into FROM players
    WHERE tenant_id = $1 AND updated_at >= $2 AND updated_at < $3 AND merged_into IS NOT NULL
) AS o

-- name: walk_player
-- The next $3 players after $2: all ids with any row, known or not. A skip scan: one index probe per table and player.
WITH RECURSIVE walked (id) AS (
    SELECT $2::text COLLATE "C"
    UNION ALL
    SELECT least(
        (SELECT n.player_id FROM players AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM plays AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM balances AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM ledger_entries AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM turn_balances AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM turn_entries AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM rewards AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1),
        (SELECT n.player_id FROM milestone_grants AS n WHERE n.tenant_id = $1 AND n.player_id > w.id
         ORDER BY n.player_id LIMIT 1)
    )::text COLLATE "C"
    FROM walked AS w WHERE w.id IS NOT NULL
)
SELECT id FROM walked WHERE id > $2 LIMIT $3

-- name: walk_counter
-- The next $3 play counters (game and player) after $2.
SELECT game_id || ' ' || player_id AS id FROM game_players
WHERE tenant_id = $1 AND (game_id, player_id) > (split_part($2, ' ', 1), substr($2, strpos($2, ' ') + 1))
ORDER BY game_id, player_id LIMIT $3

-- name: walk_play
-- The next $3 plays after $2.
SELECT play_id AS id FROM plays WHERE tenant_id = $1 AND play_id > $2 ORDER BY play_id LIMIT $3

-- name: walk_task
-- The next $3 tasks after $2.
SELECT task_id AS id FROM tasks WHERE tenant_id = $1 AND task_id > $2 ORDER BY task_id LIMIT $3

-- name: walk_prize
-- The next $3 prizes after $2: all ids with any row, known or not, as in `walk_player`.
WITH RECURSIVE walked (id) AS (
    SELECT $2::text COLLATE "C"
    UNION ALL
    SELECT least(
        (SELECT n.prize_id FROM prizes AS n WHERE n.tenant_id = $1 AND n.prize_id > w.id ORDER BY n.prize_id LIMIT 1),
        (SELECT n.prize_id FROM stock AS n WHERE n.tenant_id = $1 AND n.prize_id > w.id ORDER BY n.prize_id LIMIT 1),
        (SELECT n.prize_id FROM code_pools AS n WHERE n.tenant_id = $1 AND n.prize_id > w.id ORDER BY n.prize_id LIMIT 1),
        (SELECT n.prize_id FROM rewards AS n WHERE n.tenant_id = $1 AND n.prize_id > w.id ORDER BY n.prize_id LIMIT 1)
    )::text COLLATE "C"
    FROM walked AS w WHERE w.id IS NOT NULL
)
SELECT id FROM walked WHERE id > $2 LIMIT $3

-- name: walk_board
-- The next $3 boards after $2.
SELECT board_id AS id FROM leaderboards WHERE tenant_id = $1 AND board_id > $2 ORDER BY board_id LIMIT $3

-- name: walk_draw
-- The next $3 draws after $2. Fewer after a million holders, because a check hashes all their tickets in one statement.
SELECT o.id FROM (
    SELECT d.draw_id AS id, sum(d.holder_count) OVER (ORDER BY d.draw_id) - d.holder_count AS before
    FROM (SELECT draw_id, holder_count FROM draws WHERE tenant_id = $1 AND draw_id > $2 ORDER BY draw_id LIMIT $3) AS d
) AS o
WHERE o.before < 1000000 ORDER BY o.id

-- name: walk_ticket
-- The next $3 holders' tickets (draw and first ticket) after $2.
SELECT draw_id || ' ' || first_ticket AS id FROM draw_tickets
WHERE tenant_id = $1
  AND (draw_id, first_ticket) > (split_part($2, ' ', 1), coalesce(nullif(split_part($2, ' ', 2), '')::bigint, -1))
ORDER BY draw_id, first_ticket LIMIT $3

-- name: walk_campaign
-- The next $3 campaigns after $2.
SELECT campaign_id AS id FROM campaigns WHERE tenant_id = $1 AND campaign_id > $2 ORDER BY campaign_id LIMIT $3

-- name: walk_day
-- The next $3 counted days of a campaign after $2.
SELECT campaign_id || ' ' || to_char(day, 'YYYY-MM-DD') AS id FROM campaign_days
WHERE tenant_id = $1
  AND (campaign_id, day) > (split_part($2, ' ', 1), coalesce(nullif(split_part($2, ' ', 2), '')::date, '-infinity'))
ORDER BY campaign_id, day LIMIT $3

-- name: walk_logged
-- The next $3 rows that a log has leaves of (kind and id) after $2. Nothing without a log. The kinds are read in
-- order, each only up to the rest of $3.
WITH adjustments AS MATERIALIZED (
    SELECT 'adjustment ' || entry_id AS id FROM ledger_entries
    WHERE tenant_id = $1 AND reason = 'adjustment' AND entry_id > walk_after($2, 'adjustment') ORDER BY entry_id
    LIMIT $3
),
audits AS MATERIALIZED (
    SELECT 'audit ' || entry_id AS id FROM audit_entries
    WHERE tenant_id = $1 AND entry_id > walk_after($2, 'audit') ORDER BY entry_id
    LIMIT greatest(0, $3 - (SELECT count(*) FROM adjustments))
),
drawn AS MATERIALIZED (
    SELECT 'draw ' || draw_id AS id FROM draws
    WHERE tenant_id = $1 AND drawn_at IS NOT NULL AND draw_id > walk_after($2, 'draw') ORDER BY draw_id
    LIMIT greatest(0, $3 - (SELECT count(*) FROM adjustments) - (SELECT count(*) FROM audits))
),
played AS MATERIALIZED (
    SELECT 'play ' || play_id AS id FROM plays
    WHERE tenant_id = $1 AND play_id > walk_after($2, 'play') ORDER BY play_id
    LIMIT greatest(0, $3 - (SELECT count(*) FROM adjustments) - (SELECT count(*) FROM audits) - (SELECT count(*) FROM drawn))
),
won AS MATERIALIZED (
    SELECT 'reward ' || reward_id AS id FROM rewards
    WHERE tenant_id = $1 AND reward_id > walk_after($2, 'reward') ORDER BY reward_id
    LIMIT greatest(0, $3 - (SELECT count(*) FROM adjustments) - (SELECT count(*) FROM audits) - (SELECT count(*) FROM drawn) - (SELECT count(*) FROM played))
),
promised AS MATERIALIZED (
    SELECT 'terms ' || revision_hash AS id FROM promised_terms
    WHERE tenant_id = $1 AND revision_hash > walk_after($2, 'terms') ORDER BY revision_hash
    LIMIT greatest(0, $3 - (SELECT count(*) FROM adjustments) - (SELECT count(*) FROM audits) - (SELECT count(*) FROM drawn) - (SELECT count(*) FROM played) - (SELECT count(*) FROM won))
)
SELECT n.id FROM (
    SELECT id FROM adjustments
    UNION ALL SELECT id FROM audits
    UNION ALL SELECT id FROM drawn
    UNION ALL SELECT id FROM played
    UNION ALL SELECT id FROM won
    UNION ALL SELECT id FROM promised
) AS n
WHERE EXISTS (SELECT FROM log_trees WHERE tenant_id = $1)
ORDER BY n.id COLLATE "C" LIMIT $3

-- name: walk_archive
-- The next $3 campaigns after $2 with an archive, or with an audit entry of one.
SELECT o.id FROM (
    SELECT campaign_id AS id FROM play_archives WHERE tenant_id = $1
    UNION
    SELECT subject_id FROM audit_entries WHERE tenant_id = $1 AND subject_type = 'campaign' AND action = 'campaign.archive'
) AS o
WHERE o.id > $2 ORDER BY o.id LIMIT $3

-- name: walk_leaf
-- The next $3 leaves of the log (by index, padded) after $2.
SELECT lpad(leaf_index::text, 19, '0') AS id FROM log_leaves
WHERE tenant_id = $1 AND leaf_index > coalesce(nullif($2, '')::bigint, -1) ORDER BY leaf_index LIMIT $3

-- name: walk_checkpoint
-- The next $3 checkpoints of the log (by size, padded) after $2.
SELECT lpad(size::text, 19, '0') AS id FROM log_checkpoints
WHERE tenant_id = $1 AND size > coalesce(nullif($2, '')::bigint, -1) ORDER BY size LIMIT $3

-- ---------------------------------------------------------------- a player's wallets

-- name: player_ledger_sum
-- The sum of a ledger is its balance.
SELECT m.player_id AS id, m.scope_key || ' ' || m.currency AS row_id, m.scope_key,
       coalesce(sum(m.amount) FILTER (WHERE NOT m.held), 0)::text AS expected,
       coalesce(sum(m.amount) FILTER (WHERE m.held), 0)::text AS found
FROM (
    SELECT player_id, scope_key, currency, balance AS amount, true AS held FROM balances
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
    UNION ALL
    SELECT player_id, scope_key, currency, amount, false FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
) AS m
GROUP BY m.player_id, m.scope_key, m.currency
HAVING sum(CASE WHEN m.held THEN m.amount ELSE -m.amount END) <> 0

-- name: player_ledger_chain
-- Each ledger entry starts at the balance where the previous one ended, the first at 0.
SELECT c.player_id AS id, c.entry_id AS row_id, c.scope_key, (c.before + c.amount)::text AS expected,
       c.balance_after::text AS found
FROM (
    SELECT player_id, entry_id, scope_key, amount, balance_after,
           lag(balance_after, 1, 0::bigint) OVER (
               PARTITION BY player_id, scope_key, currency ORDER BY seq, entry_id
           ) AS before
    FROM ledger_entries WHERE tenant_id = $1 AND player_id = ANY($2::text[])
) AS c
WHERE c.balance_after <> c.before + c.amount

-- name: player_ledger_seq
-- No entry of a ledger has a seq greater than its balance's.
SELECT b.player_id AS id, b.scope_key || ' ' || b.currency AS row_id, b.scope_key, 'at most ' || b.seq AS expected,
       max(e.seq)::text AS found
FROM balances AS b
JOIN ledger_entries AS e ON e.tenant_id = $1 AND e.player_id = b.player_id AND e.scope_key = b.scope_key
    AND e.currency = b.currency
WHERE b.tenant_id = $1 AND b.player_id = ANY($2::text[])
GROUP BY b.player_id, b.scope_key, b.currency, b.seq
HAVING max(e.seq) > b.seq

-- name: player_negative
-- No balance of a wallet or of turns is or ever was negative.
SELECT m.player_id AS id, m.row_id, m.scope_key, 'at least 0' AS expected, m.balance::text AS found
FROM (
    SELECT player_id, scope_key || ' ' || currency AS row_id, scope_key, balance FROM balances
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND balance < 0
    UNION ALL
    SELECT player_id, entry_id, scope_key, balance_after FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND balance_after < 0
    UNION ALL
    SELECT player_id, campaign_id, campaign_id, balance FROM turn_balances
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND balance < 0
    UNION ALL
    SELECT player_id, entry_id, campaign_id, balance_after FROM turn_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND balance_after < 0
) AS m

-- name: player_points
-- The points that a play won are in the ledger, and no others refer to it. Without archived plays.
SELECT m.player_id AS id, m.play_id AS row_id, coalesce(max(m.scope_key), '') AS scope_key,
       sum(m.won)::text AS expected, sum(m.credited)::text AS found
FROM (
    SELECT player_id, play_id, points AS won, 0::bigint AS credited, NULL::text AS scope_key FROM plays
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND points <> 0
    UNION ALL
    -- Without the points of a milestone, which are a reward of their own.
    SELECT player_id, reference_id, 0, amount, scope_key FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND reason = 'play_reward' AND currency = 'points'
      AND reward_id = ''
) AS m
GROUP BY m.player_id, m.play_id
HAVING sum(m.won) <> sum(m.credited) AND NOT is_archived_play($1, m.play_id)

-- name: player_items
-- The items that a play won are in the ledger, and no others refer to a play; quests give none. Without archived plays.
SELECT m.player_id AS id, m.play_id || ' ' || m.item AS row_id, coalesce(max(m.scope_key), '') AS scope_key,
       sum(m.listed)::text AS expected, sum(m.credited)::text AS found
FROM (
    SELECT p.player_id, p.play_id, o.reward ->> 'name' AS item, (o.reward ->> 'quantity')::bigint AS listed,
           0::bigint AS credited, NULL::text AS scope_key
    FROM plays AS p
    CROSS JOIN LATERAL json_array_elements(p.outcome -> 'rewards') AS o (reward)
    WHERE p.tenant_id = $1 AND p.player_id = ANY($2::text[]) AND p.wins > 0
      AND coalesce(o.reward ->> 'prize_id', '') = '' AND o.reward ->> 'name' <> 'points'
    UNION ALL
    SELECT player_id, reference_id, currency, 0, amount, scope_key FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
      AND (reason = 'play_reward' AND currency <> 'points' OR reason = 'quest_reward')
) AS m
GROUP BY m.player_id, m.play_id, m.item
HAVING sum(m.listed) <> sum(m.credited) AND NOT is_archived_play($1, m.play_id)

-- name: player_reversed
-- A reversal takes back what its reward moved: all of it if the reward is revoked, and only then. One without a reward
-- takes points of a guest that was merged into the player. A reward may cost as many points as it gives: 0 in all.
SELECT e.player_id AS id, e.reward_id AS row_id, e.scope_key,
       CASE WHEN r.reward_id IS NULL THEN 'its reward' WHEN r.status = 'revoked' THEN '0'
            ELSE 'some of ' || e.moved END AS expected,
       e.amount || ' ' || e.currency AS found
FROM (
    SELECT player_id, reward_id, scope_key, currency, sum(amount) AS amount,
           coalesce(sum(amount) FILTER (WHERE reason <> 'reversal'), 0) AS moved
    FROM ledger_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND reward_id <> ''
    GROUP BY player_id, reward_id, scope_key, currency
) AS e
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = e.reward_id
WHERE CASE WHEN r.reward_id IS NULL THEN true WHEN r.status = 'revoked' THEN e.amount <> 0
           ELSE e.amount NOT BETWEEN least(0, e.moved) AND greatest(0, e.moved) OR e.amount = 0 AND e.moved <> 0 END
UNION ALL
SELECT e.player_id, e.entry_id, e.scope_key, 'points taken back of a merged guest',
       e.amount || ' ' || e.currency || ' of ' || e.reference_id
FROM ledger_entries AS e
WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND e.reason = 'reversal' AND e.reward_id = '' AND (
    e.amount > 0 OR e.currency <> 'points' OR NOT EXISTS (
        SELECT FROM players AS g
        WHERE g.tenant_id = $1 AND g.player_id = e.reference_id AND g.merged_into = e.player_id)
)

-- name: player_credited
-- A reward of points was credited once, with its amount, and no other entry refers to it. A guest's reward may be of
-- points that now belong to the player it was merged into.
WITH credited AS (
    SELECT w.player_id, e.reward_id, sum(e.amount) AS points
    FROM (
        SELECT a.player_id, a.player_id AS owner_id FROM unnest($2::text[]) AS a (player_id)
        UNION ALL
        SELECT p.player_id, p.merged_into FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = ANY($2::text[])
    ) AS w
    JOIN ledger_entries AS e ON e.tenant_id = $1 AND e.player_id = w.owner_id AND e.reason = 'play_reward'
        AND e.currency = 'points' AND e.reward_id <> ''
    GROUP BY w.player_id, e.reward_id
)
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, r.points::text AS expected,
       coalesce(c.points, 0)::text AS found
FROM (
    SELECT o.player_id, o.reward_id, o.campaign_id, trunc(o.value)::bigint * o.quantity AS points
    FROM rewards AS o
    WHERE o.tenant_id = $1 AND o.player_id = ANY($2::text[]) AND o.type = 'points'
) AS r
LEFT JOIN credited AS c ON c.player_id = r.player_id AND c.reward_id = r.reward_id
WHERE coalesce(c.points, 0) <> r.points
UNION ALL
SELECT e.player_id, e.entry_id, e.scope_key, 'of a reward of points', 'of none'
FROM ledger_entries AS e
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = e.reward_id AND r.type = 'points'
WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND e.reason = 'play_reward' AND e.reward_id <> ''
  AND r.reward_id IS NULL

-- name: player_adjusted
-- The audit log has an entry, with the amount, for every manual adjustment of a wallet or of turns. The entry may name a
-- guest that was merged into the player since.
SELECT m.player_id AS id, m.entry_id AS row_id, m.scope_key, m.amount || ' in the audit log' AS expected,
       'nothing' AS found
FROM (
    SELECT player_id, entry_id, scope_key, amount, 'player.adjust_balance' AS action, 'entry_id' AS named
    FROM ledger_entries WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND reason = 'adjustment'
    UNION ALL
    SELECT player_id, entry_id, campaign_id, amount, 'player.grant_turns', 'id'
    FROM turn_entries WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND reason = 'adjustment'
) AS m
WHERE NOT EXISTS (
    SELECT FROM (
        SELECT m.player_id
        UNION ALL
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = m.player_id
    ) AS w
    JOIN audit_entries AS e ON e.tenant_id = $1 AND e.subject_type = 'player' AND e.subject_id = w.player_id
    WHERE e.action = m.action AND e.after ->> m.named = m.entry_id AND e.after ->> 'amount' = m.amount::text
)

-- ---------------------------------------------------------------- a player's turns

-- name: player_turn_sum
-- The sum of a player's turn entries is the balance of turns.
SELECT m.player_id AS id, m.campaign_id AS row_id, m.campaign_id AS scope_key,
       coalesce(sum(m.amount) FILTER (WHERE NOT m.held), 0)::text AS expected,
       coalesce(sum(m.amount) FILTER (WHERE m.held), 0)::text AS found
FROM (
    SELECT player_id, campaign_id, balance AS amount, true AS held FROM turn_balances
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
    UNION ALL
    SELECT player_id, campaign_id, amount, false FROM turn_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
) AS m
GROUP BY m.player_id, m.campaign_id
HAVING sum(CASE WHEN m.held THEN m.amount ELSE -m.amount END) <> 0

-- name: player_turn_chain
-- Each turn entry starts at a balance where another one ended, and one of them at 0. Entries of the same time have no
-- stored order, so starts and ends are counted per balance: they must be equal in number, except for the first 0.
SELECT n.player_id AS id, n.campaign_id AS row_id, n.campaign_id AS scope_key,
       'each balance begins as many entries as it ends' AS expected,
       string_agg(n.turns || ' (' || n.often || ')', ', ' ORDER BY n.turns) AS found
FROM (
    SELECT m.player_id, m.campaign_id, m.turns, sum(m.n) AS often
    FROM (
        SELECT player_id, campaign_id, balance_after - amount AS turns, 1 AS n FROM turn_entries
        WHERE tenant_id = $1 AND player_id = ANY($2::text[])
        UNION ALL
        SELECT player_id, campaign_id, balance_after, -1 FROM turn_entries
        WHERE tenant_id = $1 AND player_id = ANY($2::text[])
    ) AS m
    GROUP BY m.player_id, m.campaign_id, m.turns
    HAVING sum(m.n) <> 0
) AS n
GROUP BY n.player_id, n.campaign_id
HAVING bool_or(n.often > 0 AND n.turns <> 0) OR sum(n.often) FILTER (WHERE n.often > 0) > 1

-- name: player_turn_spent
-- A spent turn belongs to one play, which may be archived, and a play spends at most one.
SELECT e.player_id AS id, e.play_id AS row_id, e.campaign_id AS scope_key, 'one turn of one play' AS expected,
       CASE WHEN p.play_id IS NULL THEN 'no such play' ELSE -e.turns || ' turns' END AS found
FROM (
    SELECT player_id, campaign_id, reference_id AS play_id, sum(amount) AS turns FROM turn_entries
    WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND reason = 'play'
    GROUP BY player_id, campaign_id, reference_id
) AS e
LEFT JOIN plays AS p ON p.tenant_id = $1 AND p.play_id = e.play_id
WHERE (p.play_id IS NULL AND NOT is_archived_play($1, e.play_id)) OR e.turns <> -1

-- name: player_turn_needed
-- A play that requires a turn has spent one. The entry stays with the guest if the play was merged into a player.
WITH needing AS MATERIALIZED (
    SELECT r.game_id, r.revision
    FROM (
        SELECT DISTINCT p.game_id, p.revision FROM plays AS p
        WHERE p.tenant_id = $1 AND p.player_id = ANY($2::text[])
    ) AS d
    JOIN game_revisions AS r ON r.tenant_id = $1 AND r.game_id = d.game_id AND r.revision = d.revision
    WHERE (r.definition -> 'rules' ->> 'requires_turn')::boolean
),
spent AS MATERIALIZED (
    SELECT e.reference_id AS play_id
    FROM (
        SELECT a.player_id FROM unnest($2::text[]) AS a (player_id)
        UNION
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = ANY($2::text[])
    ) AS w
    JOIN turn_entries AS e ON e.tenant_id = $1 AND e.player_id = w.player_id AND e.reason = 'play'
    WHERE EXISTS (SELECT FROM needing)
)
SELECT p.player_id AS id, p.play_id AS row_id, coalesce(g.campaign_id, '') AS scope_key, 'a turn' AS expected,
       'none spent' AS found
FROM needing AS n
JOIN plays AS p ON p.tenant_id = $1 AND p.player_id = ANY($2::text[]) AND p.game_id = n.game_id
    AND p.revision = n.revision
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
WHERE NOT EXISTS (SELECT FROM spent AS s WHERE s.play_id = p.play_id)

-- name: player_quests
-- A player's completed quests have granted their turns, no other entries refer to quests, and each paid referral completed
-- one. Includes guests merged into the player, who keep their entries. Quests are those of campaigns in which the player
-- has turns.
WITH movers AS MATERIALIZED (
    SELECT a.player_id, a.player_id AS mover FROM unnest($2::text[]) AS a (player_id)
    WHERE NOT EXISTS (
        SELECT FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.merged_into IS NOT NULL)
    UNION ALL
    SELECT p.merged_into, p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = ANY($2::text[])
),
granted AS MATERIALIZED (
    SELECT w.player_id, e.reference_id AS quest_id, count(*) AS times, sum(e.amount) AS turns
    FROM movers AS w
    JOIN turn_entries AS e ON e.tenant_id = $1 AND e.player_id = w.mover AND e.reason = 'quest'
    GROUP BY w.player_id, e.reference_id
),
relevant AS MATERIALIZED (
    SELECT player_id, quest_id FROM granted
    UNION
    SELECT w.player_id, q.quest_id
    FROM movers AS w
    JOIN turn_balances AS b ON b.tenant_id = $1 AND b.player_id = w.mover
    JOIN quests AS q ON q.tenant_id = $1 AND q.campaign_id = b.campaign_id
),
completed AS (
    SELECT o.player_id, o.quest_id, count(c.quest_id) AS times, coalesce(sum(c.turns), 0) AS turns
    FROM relevant AS o
    JOIN movers AS w ON w.player_id = o.player_id
    LEFT JOIN quest_completions AS c ON c.tenant_id = $1 AND c.quest_id = o.quest_id AND c.player_id = w.mover
        AND c.turns > 0
    GROUP BY o.player_id, o.quest_id
)
SELECT c.player_id AS id, c.quest_id AS row_id, coalesce(q.campaign_id, '') AS scope_key,
       c.turns || ' turns, ' || c.times || ' times' AS expected,
       coalesce(g.turns, 0) || ' turns, ' || coalesce(g.times, 0) || ' times' AS found
FROM completed AS c
LEFT JOIN granted AS g ON g.player_id = c.player_id AND g.quest_id = c.quest_id
LEFT JOIN quests AS q ON q.tenant_id = $1 AND q.quest_id = c.quest_id
WHERE (c.times, c.turns) <> (coalesce(g.times, 0), coalesce(g.turns, 0))
UNION ALL
SELECT n.player_id, n.campaign_id, n.campaign_id, sum(n.paid) || ' referrals', sum(n.completed) || ' referrals'
FROM (
    SELECT w.player_id, r.campaign_id, 1 AS paid, 0 AS completed
    FROM movers AS w
    JOIN referrals AS r ON r.tenant_id = $1 AND r.inviter_id = w.mover AND r.outcome = 'paid'
    UNION ALL
    SELECT o.player_id, q.campaign_id, 0, 1
    FROM relevant AS o
    JOIN movers AS w ON w.player_id = o.player_id
    JOIN quest_completions AS c ON c.tenant_id = $1 AND c.quest_id = o.quest_id AND c.player_id = w.mover
        AND starts_with(c.period, 'referral-')
    JOIN quests AS q ON q.tenant_id = $1 AND q.quest_id = o.quest_id
) AS n
GROUP BY n.player_id, n.campaign_id
HAVING sum(n.paid) <> sum(n.completed)

-- name: player_codes
-- A redeemed code or receipt was paid by one entry of turns or of a wallet, with its amount, and no other entry refers to
-- it; its code is marked as used by it. Includes guests merged into the player, who keep their entries of turns.
WITH movers AS MATERIALIZED (
    SELECT a.player_id, a.player_id AS mover FROM unnest($2::text[]) AS a (player_id)
    WHERE NOT EXISTS (
        SELECT FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.merged_into IS NOT NULL)
    UNION ALL
    SELECT p.merged_into, p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = ANY($2::text[])
),
paid AS MATERIALIZED (
    SELECT o.player_id, o.redemption_id, count(*) AS times, min(o.what) AS what, sum(o.amount) AS amount
    FROM (
        SELECT w.player_id, e.reference_id AS redemption_id, 'turns ' || e.campaign_id AS what, e.amount
        FROM movers AS w
        JOIN turn_entries AS e ON e.tenant_id = $1 AND e.player_id = w.mover AND e.reason = 'code'
        UNION ALL
        SELECT w.player_id, e.reference_id, e.currency || ' ' || e.scope_key, e.amount
        FROM movers AS w
        JOIN ledger_entries AS e ON e.tenant_id = $1 AND e.player_id = w.mover AND e.reason = 'code'
    ) AS o
    GROUP BY o.player_id, o.redemption_id
),
redeemed AS MATERIALIZED (
    SELECT w.player_id, r.redemption_id, r.campaign_id, r.code_hash,
           CASE WHEN r.turns > 0 THEN 'turns ' || r.campaign_id ELSE r.currency || ' ' || r.scope_key END AS what,
           CASE WHEN r.turns > 0 THEN r.turns ELSE r.amount END AS amount
    FROM movers AS w JOIN redemptions AS r ON r.tenant_id = $1 AND r.player_id = w.mover
)
SELECT coalesce(r.player_id, p.player_id) AS id, coalesce(r.redemption_id, p.redemption_id) AS row_id,
       coalesce(r.campaign_id, '') AS scope_key,
       coalesce(r.amount || ' ' || r.what || ', once', 'nothing') AS expected,
       coalesce(p.amount || ' ' || p.what || ', times ' || p.times, 'nothing') AS found
FROM redeemed AS r
FULL JOIN paid AS p ON p.player_id = r.player_id AND p.redemption_id = r.redemption_id
WHERE (r.amount, r.what, 1) IS DISTINCT FROM (p.amount, p.what, p.times)
UNION ALL
SELECT r.player_id, r.redemption_id, r.campaign_id, 'a code that it uses', 'none'
FROM redeemed AS r
WHERE r.code_hash IS NOT NULL AND NOT EXISTS (
    SELECT FROM pack_codes AS k
    WHERE k.tenant_id = $1 AND k.campaign_id = r.campaign_id AND k.code_hash = r.code_hash
      AND k.redemption_id = r.redemption_id
)

-- name: player_turn_credited
-- A reward of turns was credited, and is taken back if it is revoked, and only then.
-- Entry and reward may be one with the guest and the other with the player it was merged into.
WITH movers AS (
    SELECT a.player_id, o.player_id AS mover
    FROM unnest($2::text[]) AS a (player_id)
    CROSS JOIN LATERAL (
        SELECT a.player_id
        UNION
        SELECT p.merged_into FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id
        UNION
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = a.player_id
    ) AS o
),
moved AS (
    SELECT w.player_id, e.campaign_id, e.reference_id,
           coalesce(sum(e.amount) FILTER (WHERE e.reason = 'prize'), 0) AS given,
           coalesce(-sum(e.amount) FILTER (WHERE e.reason = 'reversal'), 0) AS taken
    FROM movers AS w
    JOIN turn_entries AS e ON e.tenant_id = $1 AND e.player_id = w.mover AND e.reason IN ('prize', 'reversal')
    GROUP BY w.player_id, e.campaign_id, e.reference_id
)
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key,
       r.turns || ' given, ' || r.back || ' taken back' AS expected,
       coalesce(m.given, 0) || ' given, ' || coalesce(m.taken, 0) || ' taken back' AS found
FROM (
    SELECT o.player_id, o.reward_id, o.campaign_id, trunc(o.value)::bigint * o.quantity AS turns,
           CASE WHEN o.status = 'revoked' THEN trunc(o.value)::bigint * o.quantity ELSE 0 END AS back
    FROM rewards AS o
    WHERE o.tenant_id = $1 AND o.player_id = ANY($2::text[]) AND o.type = 'turns'
) AS r
LEFT JOIN moved AS m ON m.player_id = r.player_id AND m.campaign_id = r.campaign_id AND m.reference_id = r.reward_id
WHERE coalesce(m.given, 0) <> r.turns OR coalesce(m.taken, 0) <> r.back
UNION ALL
SELECT e.player_id, e.entry_id, e.campaign_id, 'of a reward of turns', 'of none'
FROM turn_entries AS e
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = e.reference_id AND r.type = 'turns'
WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND e.reason IN ('prize', 'reversal') AND r.reward_id IS NULL

-- ---------------------------------------------------------------- a player's rewards

-- name: player_due_task
-- A reward with a delivery due has a task. Judged by the prize's mode at the win or the claim: the `before` of the first
-- later change.
WITH edits AS MATERIALIZED (
    SELECT e.subject_id AS prize_id, e.created_at, e.before ->> 'redemption_mode' AS mode FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.action = 'prize.update'
      AND e.subject_id = ANY(ARRAY(
          SELECT DISTINCT o.prize_id FROM rewards AS o
          WHERE o.tenant_id = $1 AND o.player_id = ANY($2::text[]) AND o.status IN ('won', 'claimed')))
      AND (e.before ->> 'redemption_mode', e.before ->> 'channel') IS DISTINCT FROM (e.after ->> 'redemption_mode', e.after ->> 'channel')
)
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'a task' AS expected,
       'none, and ' || r.status AS found
FROM (
    SELECT o.*, coalesce(o.claimed_at, o.won_at) AS at FROM rewards AS o
    WHERE o.tenant_id = $1 AND o.player_id = ANY($2::text[]) AND o.type <> 'points'
      AND o.status IN ('won', 'claimed', 'fulfilling', 'fulfilled', 'failed')
) AS r
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
LEFT JOIN tasks AS t ON t.tenant_id = $1 AND t.reward_id = r.reward_id
WHERE t.task_id IS NULL AND (
    r.status IN ('fulfilling', 'fulfilled', 'failed')
    OR (r.status, coalesce((
        SELECT e.mode FROM edits AS e WHERE e.prize_id = r.prize_id AND e.created_at > r.at ORDER BY e.created_at LIMIT 1
    ), p.redemption_mode)) IN (('won', 'on_win'), ('claimed', 'on_claim'))
        AND NOT EXISTS (
            SELECT FROM edits AS e
            WHERE e.prize_id = r.prize_id AND e.created_at BETWEEN r.at - interval '10 minutes' AND r.at)
)

-- name: player_outcome
-- A play's reward is listed in the play's outcome, and belongs to its player. Without archived plays.
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'listed in ' || r.play_id AS expected,
       CASE WHEN p.play_id IS NULL THEN 'no such play'
            WHEN p.player_id NOT IN (r.player_id, coalesce(o.merged_into, r.player_id)) THEN 'a play of ' || p.player_id
            ELSE 'not listed' END AS found
FROM rewards AS r
LEFT JOIN plays AS p ON p.tenant_id = $1 AND p.play_id = r.play_id
LEFT JOIN players AS o ON o.tenant_id = $1 AND o.player_id = r.player_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.play_id <> '' AND (
    p.player_id NOT IN (r.player_id, coalesce(o.merged_into, r.player_id))
    OR NOT EXISTS (  -- Also true if there is no such play.
        SELECT FROM json_array_elements(
            p.outcome -> CASE WHEN r.milestone_id = '' THEN 'rewards' ELSE 'milestones_granted' END
        ) AS listed
        WHERE listed ->> 'reward_id' = r.reward_id
    )
) AND NOT (p.play_id IS NULL AND is_archived_play($1, r.play_id))

-- name: player_prize_counter
-- A player's counter of a prize is the number of units in the player's rewards. Plays that win points create no rewards,
-- so it may be greater for a prize that is or was one of points.
SELECT r.player_id AS id, r.prize_id AS row_id, p.campaign_id AS scope_key, r.units::text AS expected,
       coalesce(c.awarded, 0)::text AS found
FROM (
    SELECT player_id, prize_id, sum(quantity) AS units FROM rewards
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
    GROUP BY player_id, prize_id
) AS r
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
LEFT JOIN prize_players AS c ON c.tenant_id = $1 AND c.prize_id = r.prize_id AND c.player_id = r.player_id
WHERE coalesce(c.awarded, 0) < r.units OR (
    c.awarded > r.units AND p.type <> 'points' AND NOT EXISTS (
        SELECT FROM audit_entries AS e
        WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.subject_id = r.prize_id
          AND 'points' IN (e.before ->> 'type', e.after ->> 'type')
    )
)

-- name: player_prize_cap
-- A player has won no more of a prize than its cap per player. Counted since the cap was last changed.
SELECT c.player_id AS id, c.prize_id AS row_id, c.campaign_id AS scope_key, 'at most ' || c.max_per_user AS expected,
       s.units::text AS found
FROM (
    SELECT r.player_id, r.prize_id, p.campaign_id, p.max_per_user
    FROM rewards AS r
    JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id AND p.max_per_user > 0
    WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[])
    GROUP BY r.player_id, r.prize_id, p.campaign_id, p.max_per_user
    HAVING sum(r.quantity) > p.max_per_user
) AS c
CROSS JOIN LATERAL (
    SELECT sum(r.quantity) AS units FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.player_id = c.player_id AND r.prize_id = c.prize_id
      AND r.won_at > coalesce((
          SELECT max(e.created_at) + interval '10 minutes' FROM audit_entries AS e
          WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.subject_id = c.prize_id
            AND e.action = 'prize.update' AND e.before ->> 'max_per_user' IS DISTINCT FROM e.after ->> 'max_per_user'
      ), '-infinity')
) AS s
WHERE s.units > c.max_per_user

-- name: player_code_taken
-- A win of a voucher prize has reserved a code, even before it is shown. Judged by the prize's channel at the win: the
-- `before` of the first later change.
WITH edits AS MATERIALIZED (
    SELECT e.subject_id AS prize_id, e.created_at, e.before ->> 'channel' AS channel FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.action = 'prize.update'
      AND e.subject_id = ANY(ARRAY(
          SELECT DISTINCT o.prize_id FROM rewards AS o
          WHERE o.tenant_id = $1 AND o.player_id = ANY($2::text[]) AND o.status IN ('won', 'claimed')))
      AND e.before ->> 'channel' IS DISTINCT FROM e.after ->> 'channel'
)
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'a code' AS expected,
       'none, and ' || r.status AS found
FROM rewards AS r
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
LEFT JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.type <> 'points' AND r.status IN ('won', 'claimed')
  AND (r.play_id <> '' OR r.milestone_id <> '') AND c.code_id IS NULL
  AND coalesce((
      SELECT e.channel FROM edits AS e
      WHERE e.prize_id = r.prize_id AND e.created_at > r.won_at ORDER BY e.created_at LIMIT 1
  ), p.channel) = 'voucher_code'
  AND NOT EXISTS (
      SELECT FROM edits AS e
      WHERE e.prize_id = r.prize_id AND e.created_at BETWEEN r.won_at - interval '10 minutes' AND r.won_at
  )

-- name: player_code_returned
-- A reward that ended without its code being shown has returned the code.
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'no code' AS expected,
       c.code_id || ', and ' || r.status AS found
FROM rewards AS r
JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.status IN ('expired', 'revoked', 'failed')
  AND r.fulfilled_at IS NULL

-- name: player_code_delivered
-- A reward that was delivered as a code has one.
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'a code' AS expected,
       'none, and ' || r.status AS found
FROM rewards AS r
JOIN tasks AS t ON t.tenant_id = $1 AND t.reward_id = r.reward_id AND t.channel = 'voucher_code'
LEFT JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.fulfilled_at IS NOT NULL AND c.code_id IS NULL

-- name: player_revoked
-- The audit log has an entry for every revoked reward: by staff, or as a surplus of a merge.
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'an entry of the audit log' AS expected,
       'none' AS found
FROM rewards AS r
LEFT JOIN players AS o ON o.tenant_id = $1 AND o.player_id = r.player_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.status = 'revoked'
  AND NOT EXISTS (
      SELECT FROM audit_entries AS e
      WHERE e.tenant_id = $1 AND e.subject_type = 'reward' AND e.subject_id = r.reward_id
        AND e.action = 'reward.revoke'
  )
  AND NOT EXISTS (
      SELECT FROM audit_entries AS e
      WHERE e.tenant_id = $1 AND e.subject_type = 'player' AND e.subject_id = o.merged_into
        AND e.action = 'player.merge_surplus' AND e.after -> 'rewards' ? r.reward_id
  )

-- name: player_board_reward
-- A reward without a play or milestone belongs to a rank of a leaderboard or draw. The rank may be with a guest or with
-- the player it was merged into.
SELECT r.player_id AS id, r.reward_id AS row_id, r.campaign_id AS scope_key, 'a rank of a board or draw' AS expected,
       'none' AS found
FROM rewards AS r
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.play_id = '' AND r.milestone_id = '' AND NOT EXISTS (
    SELECT FROM ranked AS b
    CROSS JOIN LATERAL (
        SELECT r.player_id
        UNION ALL
        SELECT p.merged_into FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = r.player_id
        UNION ALL
        SELECT p.player_id FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = r.player_id
    ) AS w
    JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = b.board_id AND s.player_id = w.player_id
    WHERE b.tenant_id = $1 AND b.campaign_id = r.campaign_id AND s.reward_id = r.reward_id
)

-- ---------------------------------------------------------------- a player's rungs

-- name: player_rung_reward
-- A milestone's grant and its reward refer to each other, and are of a play or a redeem. So a player has a milestone at
-- most once; a surplus grant may stay with the guest.
SELECT g.player_id AS id, g.game_id || ' ' || g.milestone_id AS row_id, coalesce(o.campaign_id, '') AS scope_key,
       'reward ' || g.reward_id AS expected,
       CASE WHEN r.reward_id IS NULL THEN 'no such reward' ELSE 'of rung ' || r.milestone_id END AS found
FROM milestone_grants AS g
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = g.reward_id
LEFT JOIN games AS o ON o.tenant_id = $1 AND o.game_id = g.game_id
WHERE g.tenant_id = $1 AND g.player_id = ANY($2::text[]) AND g.reward_id <> ''
  AND (r.reward_id IS NULL OR r.milestone_id <> g.milestone_id OR r.game_id <> g.game_id)
UNION ALL
SELECT r.player_id, r.reward_id, r.campaign_id, 'a play or redeem that granted rung ' || r.milestone_id, 'none'
FROM rewards AS r
LEFT JOIN players AS o ON o.tenant_id = $1 AND o.player_id = r.player_id
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND r.milestone_id <> '' AND NOT EXISTS (
    SELECT FROM milestone_grants AS g
    WHERE g.tenant_id = $1 AND g.player_id IN (r.player_id, o.merged_into) AND g.game_id = r.game_id
      AND g.milestone_id = r.milestone_id AND g.reward_id = r.reward_id AND (g.reply IS NOT NULL OR r.play_id <> '')
)

-- name: player_rung_paid
-- A bought milestone is paid once, at the price in the redeem's reply. After a merge, a duplicate grant stays with the
-- guest, but its ledger entry is the player's. An unpaid redeem is reported only if every game revision that may have
-- decided it has the mode spend_exchange.
WITH paid AS MATERIALIZED (
    SELECT e.player_id, e.reward_id, min(e.scope_key) AS scope_key, min(e.currency) AS currency,
           min(e.reference_id) AS milestone_id, count(*) AS times, -sum(e.amount) AS price
    FROM (
        SELECT a.player_id FROM unnest($2::text[]) AS a (player_id)
        UNION
        SELECT p.merged_into FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = ANY($2::text[])
    ) AS w
    JOIN ledger_entries AS e ON e.tenant_id = $1 AND e.player_id = w.player_id AND e.reason = 'milestone_spend'
    GROUP BY e.player_id, e.reward_id
)
SELECT m.player_id AS id, m.reward_id AS row_id, m.scope_key,
       coalesce((g.reply -> 'milestone' ->> 'threshold') || ' ' || (g.reply -> 'milestone' ->> 'currency'),
                'a redeem of ' || m.milestone_id) AS expected,
       m.price || ' ' || m.currency || ' in ' || m.times AS found
FROM paid AS m
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = m.reward_id
LEFT JOIN milestone_grants AS g ON g.tenant_id = $1 AND g.player_id IN (m.player_id, r.player_id)
    AND g.game_id = r.game_id AND g.milestone_id = m.milestone_id AND g.reward_id = m.reward_id
WHERE m.player_id = ANY($2::text[]) AND (
    g.reply IS NULL OR m.times <> 1 OR m.price <> (g.reply -> 'milestone' ->> 'threshold')::bigint
    OR m.currency <> g.reply -> 'milestone' ->> 'currency'
)
UNION ALL
SELECT g.player_id, g.game_id || ' ' || g.milestone_id, coalesce(o.campaign_id, ''),
       (g.reply -> 'milestone' ->> 'threshold') || ' ' || (g.reply -> 'milestone' ->> 'currency'), 'not paid'
FROM milestone_grants AS g
LEFT JOIN games AS o ON o.tenant_id = $1 AND o.game_id = g.game_id
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = g.player_id
WHERE g.tenant_id = $1 AND g.player_id = ANY($2::text[]) AND g.reply IS NOT NULL AND NOT EXISTS (
    SELECT FROM paid AS m WHERE m.player_id IN (g.player_id, p.merged_into) AND m.reward_id = g.reward_id
) AND (
    SELECT bool_and(coalesce(v.definition -> 'milestones' ->> 'mode', '') = 'spend_exchange')
    FROM game_revisions AS v
    WHERE v.tenant_id = $1 AND v.game_id = g.game_id AND v.created_at <= g.granted_at + interval '10 minutes'
      AND NOT EXISTS (
          SELECT FROM game_revisions AS n
          WHERE n.tenant_id = $1 AND n.game_id = v.game_id AND n.revision > v.revision
            AND n.created_at < g.granted_at - interval '10 minutes')
)

-- ---------------------------------------------------------------- a guest that became a player

-- name: player_merged
-- A merged guest has nothing left except the surplus.
SELECT g.player_id AS id, o.what AS row_id, '' AS scope_key, '0' AS expected, o.n::text AS found
FROM players AS g
CROSS JOIN LATERAL (
    SELECT 'plays' AS what, count(*) AS n FROM plays AS p WHERE p.tenant_id = $1 AND p.player_id = g.player_id
    UNION ALL
    SELECT 'game_players', count(*) FROM game_players AS c
    WHERE c.tenant_id = $1 AND c.player_id = g.player_id AND c.plays > 0
      AND c.game_id = ANY(ARRAY(SELECT o.game_id FROM games AS o WHERE o.tenant_id = $1))
    UNION ALL
    SELECT 'balances', count(*) FROM balances AS b WHERE b.tenant_id = $1 AND b.player_id = g.player_id
    UNION ALL
    SELECT 'ledger_entries', count(*) FROM ledger_entries AS e WHERE e.tenant_id = $1 AND e.player_id = g.player_id
    UNION ALL
    SELECT 'contacts', count(*) FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = g.player_id
    UNION ALL
    SELECT 'rewards', count(*) FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.player_id = g.player_id AND r.status NOT IN ('fulfilled', 'revoked', 'expired')
    UNION ALL
    SELECT 'milestone_grants', count(*) FROM milestone_grants AS k
    WHERE k.tenant_id = $1 AND k.player_id = g.player_id AND NOT EXISTS (
        SELECT FROM milestone_grants AS h
        WHERE h.tenant_id = $1 AND h.player_id = g.merged_into AND h.game_id = k.game_id
          AND h.milestone_id = k.milestone_id)
    UNION ALL
    SELECT 'quest_completions', count(*) FROM quest_completions AS k
    WHERE k.tenant_id = $1 AND k.player_id = g.player_id
      AND k.quest_id = ANY(ARRAY(SELECT q.quest_id FROM quests AS q WHERE q.tenant_id = $1)) AND NOT EXISTS (
        SELECT FROM quest_completions AS h
        WHERE h.tenant_id = $1 AND h.quest_id = k.quest_id AND h.player_id = g.merged_into AND h.period = k.period)
    UNION ALL
    SELECT 'quest_events', count(*) FROM quest_events AS e WHERE e.tenant_id = $1 AND e.player_id = g.player_id
    UNION ALL
    SELECT 'redemptions', count(*) FROM redemptions AS r WHERE r.tenant_id = $1 AND r.player_id = g.player_id
    UNION ALL
    SELECT 'turn_balances', count(*) FROM turn_balances AS t
    WHERE t.tenant_id = $1 AND t.player_id = g.player_id AND t.balance > 0 AND NOT EXISTS (
        SELECT FROM quest_completions AS k
        WHERE k.tenant_id = $1 AND k.player_id = g.player_id
          AND k.quest_id = ANY(ARRAY(SELECT q.quest_id FROM quests AS q WHERE q.tenant_id = $1)))
      AND NOT EXISTS (
        SELECT FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.player_id = g.player_id AND r.type = 'turns' AND r.status = 'fulfilled')
    UNION ALL
    SELECT 'merged_into', 1
    WHERE NOT EXISTS (
        SELECT FROM players AS p
        WHERE p.tenant_id = $1 AND p.player_id = g.merged_into AND p.merged_into IS NULL)
) AS o
WHERE g.tenant_id = $1 AND g.player_id = ANY($2::text[]) AND g.merged_into IS NOT NULL AND o.n > 0

-- name: player_turns_merged
-- The turns that a merge took from a guest were credited to the player, and no others.
SELECT g.player_id AS id, g.campaign_id AS row_id, g.campaign_id AS scope_key, g.given::text AS expected,
       coalesce(sum(e.amount), 0)::text AS found
FROM (
    SELECT e.player_id, e.campaign_id, e.reference_id AS became, -sum(e.amount) AS given
    FROM turn_entries AS e
    WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND e.reason = 'merge' AND e.amount < 0
    GROUP BY e.player_id, e.campaign_id, e.reference_id
) AS g
LEFT JOIN turn_entries AS e ON e.tenant_id = $1 AND e.player_id = g.became AND e.campaign_id = g.campaign_id
    AND e.reason = 'merge' AND e.reference_id = g.player_id AND e.amount > 0
GROUP BY g.player_id, g.campaign_id, g.given
HAVING coalesce(sum(e.amount), 0) <> g.given
UNION ALL
SELECT e.player_id, e.entry_id, e.campaign_id, 'given by ' || e.reference_id, 'not'
FROM turn_entries AS e
WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND e.reason = 'merge' AND e.amount > 0 AND NOT EXISTS (
    SELECT FROM turn_entries AS o
    WHERE o.tenant_id = $1 AND o.player_id = e.reference_id AND o.campaign_id = e.campaign_id
      AND o.reason = 'merge' AND o.reference_id = e.player_id AND o.amount < 0
)

-- ---------------------------------------------------------------- plays

-- name: play_session
-- A play belongs to the session that it is named after, and to the session's player, or the player that this guest became.
-- A session's token begins with its nonce, which is also the play's id, and ends with the player.
SELECT p.play_id AS id, '' AS row_id, coalesce(g.campaign_id, '') AS scope_key,
       'sess_' || substr(p.play_id, 6) || ' of ' || p.player_id AS expected,
       substr(p.session_id, 1, 31) || ' of ' || session_player(p.session_id) AS found
FROM plays AS p
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[]) AND (
    substr(p.session_id, 6, 26) <> substr(p.play_id, 6) OR p.session_id !~ '^sess_'
    OR session_player(p.session_id) <> p.player_id AND p.player_id IS DISTINCT FROM (
        SELECT o.merged_into FROM players AS o WHERE o.tenant_id = $1 AND o.player_id = session_player(p.session_id) COLLATE "C")
)

-- name: play_terms
-- A play has the terms that its session was promised, of its own game.
SELECT p.play_id AS id, '' AS row_id, coalesce(g.campaign_id, '') AS scope_key,
       'terms ' || coalesce(promised_by(p.session_id), 'in its session') AS expected, 'none' AS found
FROM plays AS p
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[]) AND NOT EXISTS (
    SELECT FROM promised_terms AS t
    WHERE t.tenant_id = $1 AND t.game_id = p.game_id
      AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'
)

-- name: play_rewards
-- The rewards in a play's outcome exist with the same fields, and those of another player are recorded as surplus.
SELECT p.play_id AS id, w.reward_id AS row_id, coalesce(g.campaign_id, '') AS scope_key, w.expected, w.found
FROM plays AS p
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
CROSS JOIN LATERAL (
    SELECT '' AS reward_id, n.wins || ' wins, ' || n.points || ' points' AS expected,
           p.wins || ' wins, ' || p.points || ' points' AS found
    FROM (
        -- An item named points is stored like points.
        SELECT count(*) AS wins, coalesce(sum(
            CASE WHEN o.listed ->> 'type' = 'points' THEN trunc((o.listed ->> 'value')::numeric)
                 WHEN coalesce(o.listed ->> 'prize_id', '') = '' AND o.listed ->> 'name' = 'points' THEN 1 ELSE 0 END
            * (o.listed ->> 'quantity')::bigint
        ), 0) AS points
        FROM json_array_elements(p.outcome -> 'rewards') AS o (listed)
    ) AS n
    WHERE (p.wins, p.points) <> (n.wins, n.points)
    UNION ALL
    SELECT o.listed ->> 'reward_id', (o.listed ->> 'quantity') || ' of ' || (o.listed ->> 'prize_id')
               || coalesce(', ' || (o.listed ->> 'type') || ' of ' || (o.listed ->> 'value')::float8, ''),
           coalesce(r.quantity || ' of ' || r.prize_id || ', ' || r.type || ' of ' || r.value || ' by ' || r.play_id,
                    'no such reward')
    FROM json_array_elements(p.outcome -> 'rewards') AS o (listed)
    LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = o.listed ->> 'reward_id'
    WHERE coalesce(o.listed ->> 'reward_id', '') <> ''
      AND (r.play_id IS DISTINCT FROM p.play_id OR r.prize_id <> o.listed ->> 'prize_id'
           OR r.quantity <> (o.listed ->> 'quantity')::integer OR r.type <> o.listed ->> 'type'
           OR r.value <> (o.listed ->> 'value')::float8)
    UNION ALL
    SELECT o.listed ->> 'reward_id', '1 of ' || (o.listed ->> 'prize_id') || ' for rung ' || (o.listed ->> 'id'),
           coalesce(r.quantity || ' of ' || r.prize_id || ' for rung ' || r.milestone_id || ' by ' || r.play_id,
                    'no such reward')
    FROM json_array_elements(p.outcome -> 'milestones_granted') AS o (listed)
    LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = o.listed ->> 'reward_id'
    WHERE r.play_id IS DISTINCT FROM p.play_id OR r.prize_id <> o.listed ->> 'prize_id' OR r.quantity <> 1
       OR r.milestone_id <> o.listed ->> 'id'
    UNION ALL
    SELECT '', count(*) || ' of another', coalesce(p.surplus_wins, 0) || ' recorded'
    FROM json_array_elements(p.outcome -> 'rewards') AS o (listed)
    JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = o.listed ->> 'reward_id'
    WHERE r.player_id <> p.player_id
    HAVING count(*) > coalesce(p.surplus_wins, 0)
) AS w
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[])

-- name: play_entered
-- A play of a campaign that requires an entry is of a player with an entry, whose receipts name a current text of each
-- required consent, given before the play. Checks plays from ten minutes after the last change of the form.
SELECT p.play_id AS id, ''::text AS row_id, c.campaign_id AS scope_key, 'an entry' AS expected,
       CASE WHEN e.entry_id IS NULL THEN 'none' ELSE concat('no receipt of ', v.consent_id) END AS found
FROM plays AS p
JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = g.campaign_id
    AND c.entry ->> 'mode' = 'before_play' AND p.played_at >= c.entry_since + interval '10 minutes'
LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = c.campaign_id AND e.player_id = p.player_id
LEFT JOIN LATERAL (
    SELECT t.consent ->> 'id' AS consent_id
    FROM jsonb_array_elements(c.entry -> 'consents') AS t (consent)
    WHERE (t.consent -> 'required')::boolean AND NOT EXISTS (
        SELECT FROM entry_consents AS k
        WHERE k.tenant_id = $1 AND k.entry_id = e.entry_id AND k.consent_id = t.consent ->> 'id'
          AND k.given AND k.decided_at <= p.played_at
          AND k.text_sha256 IN (
              SELECT encode(sha256(convert_to(s.value, 'UTF8')), 'hex') FROM jsonb_each_text(t.consent -> 'text') AS s)
    )
    LIMIT 1
) AS v ON true
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[]) AND (e.entry_id IS NULL OR v.consent_id IS NOT NULL)

-- name: play_counted
-- A play belongs to an existing player and is counted.
SELECT p.play_id AS id, '' AS row_id, coalesce(g.campaign_id, '') AS scope_key, 'player and counter' AS expected,
       CASE WHEN o.player_id IS NULL THEN 'no player ' ELSE 'no counter of ' END || p.player_id AS found
FROM plays AS p
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
LEFT JOIN players AS o ON o.tenant_id = $1 AND o.player_id = p.player_id
LEFT JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = p.game_id AND c.player_id = p.player_id
WHERE p.tenant_id = $1 AND p.play_id = ANY($2::text[]) AND (o.player_id IS NULL OR coalesce(c.plays, 0) = 0)

-- ---------------------------------------------------------------- counters and caps of plays

-- name: counter_plays
-- A player's counter of a game is the number of the player's plays, unless they are archived.
SELECT a.k AS id, '' AS row_id, coalesce(g.campaign_id, '') AS scope_key, n.plays::text AS expected,
       coalesce(c.plays, 0)::text AS found
FROM (
    SELECT u.k, split_part(u.k, ' ', 1) AS game_id, substr(u.k, strpos(u.k, ' ') + 1) AS player_id
    FROM unnest($2::text[]) AS u (k)
) AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS plays FROM plays AS p
    WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.game_id = a.game_id
) AS n
LEFT JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = a.game_id AND c.player_id = a.player_id
LEFT JOIN games AS g ON g.tenant_id = $1 AND g.game_id = a.game_id
WHERE n.plays <> coalesce(c.plays, 0) AND NOT is_archived($1, g.campaign_id)

-- name: counter_day
-- A player's daily counter is the number of plays on that local day, unless they are archived. Ignores plays within seconds of midnight, which may
-- count for the day of their decision, and days around a change of the campaign's time zone.
WITH moves AS MATERIALIZED (
    SELECT e.subject_id AS campaign_id, e.created_at, e.before ->> 'timezone' AS zone FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'campaign' AND e.action = 'campaign.update'
      AND e.before ->> 'timezone' IS DISTINCT FROM e.after ->> 'timezone'
      AND e.subject_id = ANY(ARRAY(
          SELECT g.campaign_id FROM games AS g
          WHERE g.tenant_id = $1 AND g.game_id = ANY(ARRAY(SELECT split_part(u.k, ' ', 1) FROM unnest($2::text[]) AS u (k)))
      ))
)
SELECT a.k AS id, to_char(c.day, 'YYYY-MM-DD') AS row_id, z.campaign_id AS scope_key, n.plays::text AS expected,
       c.day_plays::text AS found
FROM (
    SELECT u.k, split_part(u.k, ' ', 1) AS game_id, substr(u.k, strpos(u.k, ' ') + 1) AS player_id
    FROM unnest($2::text[]) AS u (k)
) AS a
JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = a.game_id AND c.player_id = a.player_id
JOIN games AS g ON g.tenant_id = $1 AND g.game_id = a.game_id
JOIN campaigns AS z ON z.tenant_id = $1 AND z.campaign_id = g.campaign_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE l.at::date = c.day) AS plays,
           coalesce(bool_or(extract(epoch FROM l.at)::bigint % 86400 NOT BETWEEN 5 AND 86394), false) AS near_midnight
    FROM (
        SELECT p.played_at AT TIME ZONE coalesce((
            SELECT m.zone FROM moves AS m WHERE m.campaign_id = z.campaign_id AND m.created_at > p.played_at
            ORDER BY m.created_at LIMIT 1
        ), z.timezone) AS at
        FROM plays AS p
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.game_id = a.game_id
    ) AS l
    WHERE l.at BETWEEN c.day::timestamp - interval '5 seconds' AND c.day::timestamp + interval '86405 seconds'
) AS n
WHERE c.day_plays <> n.plays AND NOT n.near_midnight AND NOT is_archived($1, z.campaign_id) AND NOT EXISTS (
    SELECT FROM moves AS m
    WHERE m.campaign_id = z.campaign_id
      AND m.created_at BETWEEN c.day::timestamptz - interval '2 days' AND c.day::timestamptz + interval '3 days'
)

-- name: counter_cap
-- Nobody has played a game more often than its cap. Compares the plays of a revision with its cap, and the plays of all
-- capped revisions so far with their greatest cap: one of the caps admitted the last of them. The session names the
-- original player, even after a merge.
SELECT n.k AS id, n.revision || ' ' || n.who AS row_id, n.campaign_id AS scope_key,
       'at most ' || CASE WHEN n.plays > n.cap THEN n.cap ELSE n.most END AS expected,
       (CASE WHEN n.plays > n.cap THEN n.plays ELSE n.upto END)::text AS found
FROM (
    SELECT a.k, g.campaign_id, o.revision, o.who, o.plays, c.cap,
           sum(o.plays) OVER (PARTITION BY a.k, o.who ORDER BY o.revision) AS upto,
           max(c.cap) OVER (PARTITION BY a.k, o.who ORDER BY o.revision) AS most
    FROM (
        SELECT u.k, split_part(u.k, ' ', 1) AS game_id, substr(u.k, strpos(u.k, ' ') + 1) AS player_id
        FROM unnest($2::text[]) AS u (k)
    ) AS a
    JOIN games AS g ON g.tenant_id = $1 AND g.game_id = a.game_id
    CROSS JOIN LATERAL (
        SELECT p.revision, session_player(p.session_id) AS who, count(*) AS plays
        FROM plays AS p
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.game_id = a.game_id
        GROUP BY 1, 2
    ) AS o
    JOIN game_revisions AS r ON r.tenant_id = $1 AND r.game_id = a.game_id AND r.revision = o.revision
    CROSS JOIN LATERAL (SELECT (r.definition -> 'rules' ->> 'max_plays_per_user')::bigint AS cap) AS c
    WHERE c.cap > 0
) AS n
WHERE n.plays > n.cap OR n.upto > n.most

-- name: counter_day_cap
-- Nobody has played more free plays of a game on a day than allowed, or more plays if each requires a turn. By revision
-- and session as in `counter_cap`; ignores plays near midnight and days of a time zone change, as in `counter_day`.
WITH moves AS MATERIALIZED (
    SELECT e.subject_id AS campaign_id, e.created_at, e.before ->> 'timezone' AS zone FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'campaign' AND e.action = 'campaign.update'
      AND e.before ->> 'timezone' IS DISTINCT FROM e.after ->> 'timezone'
      AND e.subject_id = ANY(ARRAY(
          SELECT g.campaign_id FROM games AS g
          WHERE g.tenant_id = $1 AND g.game_id = ANY(ARRAY(SELECT split_part(u.k, ' ', 1) FROM unnest($2::text[]) AS u (k)))
      ))
)
SELECT a.k AS id, to_char(n.day, 'YYYY-MM-DD ') || n.revision || ' ' || n.who AS row_id, z.campaign_id AS scope_key,
       'at most ' || n.cap AS expected, (n.plays - s.turns)::text AS found
FROM (
    SELECT u.k, split_part(u.k, ' ', 1) AS game_id, substr(u.k, strpos(u.k, ' ') + 1) AS player_id
    FROM unnest($2::text[]) AS u (k)
) AS a
JOIN games AS g ON g.tenant_id = $1 AND g.game_id = a.game_id
JOIN campaigns AS z ON z.tenant_id = $1 AND z.campaign_id = g.campaign_id
CROSS JOIN LATERAL (
    SELECT l.day, l.revision, l.who, l.cap, l.needs_turn, count(*) AS plays, array_agg(l.play_id::text) AS play_ids
    FROM (
        SELECT p.play_id, p.revision, t.at::date AS day,
               session_player(p.session_id) AS who,
               (r.definition -> 'rules' ->> 'max_plays_per_day')::bigint AS cap,
               coalesce((r.definition -> 'rules' ->> 'requires_turn')::boolean, false) AS needs_turn
        FROM plays AS p
        JOIN game_revisions AS r ON r.tenant_id = $1 AND r.game_id = p.game_id AND r.revision = p.revision
        CROSS JOIN LATERAL (SELECT p.played_at AT TIME ZONE coalesce((
                SELECT m.zone FROM moves AS m WHERE m.campaign_id = z.campaign_id AND m.created_at > p.played_at
                ORDER BY m.created_at LIMIT 1
            ), z.timezone) AS at) AS t
        WHERE p.tenant_id = $1 AND p.player_id = a.player_id AND p.game_id = a.game_id
          AND extract(epoch FROM t.at)::bigint % 86400 BETWEEN 5 AND 86394
    ) AS l
    WHERE l.cap > 0
    GROUP BY l.day, l.revision, l.who, l.cap, l.needs_turn
    HAVING count(*) > l.cap
) AS n
CROSS JOIN LATERAL (
    SELECT CASE WHEN n.needs_turn THEN 0 ELSE count(*) END AS turns FROM turn_entries AS e
    WHERE e.tenant_id = $1 AND e.player_id IN (a.player_id, n.who) AND e.reason = 'play'
      AND e.reference_id = ANY(n.play_ids)
) AS s
WHERE n.plays - s.turns > n.cap AND NOT EXISTS (
    SELECT FROM moves AS m
    WHERE m.campaign_id = z.campaign_id
      AND m.created_at BETWEEN n.day::timestamptz - interval '2 days' AND n.day::timestamptz + interval '3 days'
)

-- ---------------------------------------------------------------- tasks

-- name: task_reward
-- A task has a reward with the same player, prize and delivery status.
SELECT t.task_id AS id, '' AS row_id, t.campaign_id AS scope_key,
       t.status || ', ' || t.prize_id || ' of ' || t.player_id AS expected,
       coalesce(r.status || ', ' || r.prize_id || ' of ' || r.player_id, 'no such reward') AS found
FROM tasks AS t
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = t.reward_id
WHERE t.tenant_id = $1 AND t.task_id = ANY($2::text[])
  AND (r.reward_id IS NULL OR (t.status = 'delivered') <> (r.fulfilled_at IS NOT NULL)
       OR t.prize_id <> r.prize_id OR t.player_id <> r.player_id)

-- ---------------------------------------------------------------- prizes

-- name: prize_known
-- Stock, codes and rewards are of a prize that exists.
SELECT a.prize_id AS id, '' AS row_id, '' AS scope_key, 'a prize' AS expected, 'none, but ' || h.held AS found
FROM unnest($2::text[]) AS a (prize_id)
CROSS JOIN LATERAL (
    SELECT string_agg(n.held, ', ') AS held FROM (
        SELECT 'stock' AS held FROM stock AS s WHERE s.tenant_id = $1 AND s.prize_id = a.prize_id
        UNION ALL
        SELECT 'codes' FROM code_pools AS k WHERE k.tenant_id = $1 AND k.prize_id = a.prize_id
        UNION ALL
        SELECT 'rewards' WHERE EXISTS (SELECT FROM rewards AS r WHERE r.tenant_id = $1 AND r.prize_id = a.prize_id)
    ) AS n
) AS h
WHERE h.held IS NOT NULL AND NOT EXISTS (SELECT FROM prizes AS p WHERE p.tenant_id = $1 AND p.prize_id = a.prize_id)

-- name: prize_stock
-- A prize's total is the sum of remaining and awarded. Every prize has a stock row.
SELECT s.prize_id AS id, '' AS row_id, coalesce(p.campaign_id, '') AS scope_key,
       CASE WHEN s.total = 0 THEN '0 left' ELSE s.total - s.awarded || ' left' END AS expected,
       s.remaining || ' left, ' || s.awarded || ' awarded' AS found
FROM stock AS s
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = s.prize_id
WHERE s.tenant_id = $1 AND s.prize_id = ANY($2::text[])
  AND (s.remaining < 0 OR s.awarded < 0 OR s.remaining <> CASE WHEN s.total = 0 THEN 0 ELSE s.total - s.awarded END)
UNION ALL
SELECT p.prize_id, '', p.campaign_id, 'a stock', 'none'
FROM prizes AS p
LEFT JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = p.prize_id
WHERE p.tenant_id = $1 AND p.prize_id = ANY($2::text[]) AND s.prize_id IS NULL

-- name: prize_moves
-- A prize's total is that of its latest stock move, and each move starts where the previous one ended, the first at the
-- total in the audit log: of its creation, or of the campaign's duplication.
SELECT n.prize_id AS id, n.seq::text AS row_id, coalesce(p.campaign_id, '') AS scope_key,
       n.total_after || ' in all' AS expected, n.came || ' in all' AS found
FROM (
    SELECT o.prize_id, o.seq, o.total_after,
           lead(o.total_before, 1, s.total) OVER (PARTITION BY o.prize_id ORDER BY o.seq) AS came
    FROM stock_moves AS o
    JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = o.prize_id
    WHERE o.tenant_id = $1 AND o.prize_id = ANY($2::text[])
) AS n
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = n.prize_id
WHERE n.came <> n.total_after
UNION ALL
SELECT s.prize_id, '1', p.campaign_id, a.total || ' in all', o.total || ' in all'
FROM stock AS s
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = s.prize_id
CROSS JOIN LATERAL (
    SELECT coalesce((
        SELECT m.total_before FROM stock_moves AS m WHERE m.tenant_id = $1 AND m.prize_id = s.prize_id ORDER BY m.seq LIMIT 1
    ), s.total) AS total
) AS o
CROSS JOIN LATERAL (
    SELECT e.after ->> 'total' AS total FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.subject_id = s.prize_id AND e.action = 'prize.create'
    UNION ALL
    SELECT e.after -> 'totals' ->> s.prize_id FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'campaign' AND e.subject_id = p.campaign_id
      AND e.action = 'campaign.duplicate'
) AS a
WHERE s.tenant_id = $1 AND s.prize_id = ANY($2::text[]) AND a.total <> o.total::text

-- name: prize_awarded
-- The awarded units of a prize are those that its rewards hold.
-- Expired, failed and revoked rewards have returned theirs, unless delivered; points take no stock.
SELECT s.prize_id AS id, '' AS row_id, coalesce(p.campaign_id, '') AS scope_key, h.held::text AS expected,
       s.awarded::text AS found
FROM stock AS s
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = s.prize_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(r.quantity), 0) AS held FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.prize_id = s.prize_id AND r.type <> 'points'
      AND (r.status NOT IN ('revoked', 'expired', 'failed') OR r.fulfilled_at IS NOT NULL)
) AS h
WHERE s.tenant_id = $1 AND s.prize_id = ANY($2::text[]) AND s.awarded <> h.held

-- name: prize_counters
-- A prize's daily counters and its counters per player have the same sum.
SELECT a.prize_id AS id, '' AS row_id, coalesce(p.campaign_id, '') AS scope_key,
       coalesce(n.players, 0) || ' by player' AS expected, coalesce(d.days, 0) || ' by day' AS found
FROM unnest($2::text[]) AS a (prize_id)
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = a.prize_id
CROSS JOIN LATERAL (
    SELECT sum(c.awarded) AS days FROM prize_days AS c WHERE c.tenant_id = $1 AND c.prize_id = a.prize_id
) AS d
CROSS JOIN LATERAL (
    SELECT sum(c.awarded) AS players FROM prize_players AS c WHERE c.tenant_id = $1 AND c.prize_id = a.prize_id
) AS n
WHERE coalesce(d.days, 0) <> coalesce(n.players, 0)

-- name: prize_winners
-- A player counted as a winner of a prize has a reward of it. Except for points, as in `player_prize_counter`, which checks
-- the amount.
SELECT c.prize_id AS id, c.player_id AS row_id, p.campaign_id AS scope_key, 'a reward' AS expected,
       c.awarded || ' without' AS found
FROM prize_players AS c
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = c.prize_id AND p.type <> 'points'
WHERE c.tenant_id = $1 AND c.prize_id = ANY($2::text[]) AND c.awarded > 0 AND NOT EXISTS (
    SELECT FROM rewards AS r WHERE r.tenant_id = $1 AND r.prize_id = c.prize_id AND r.player_id = c.player_id
) AND NOT EXISTS (
    SELECT FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.subject_id = c.prize_id
      AND 'points' IN (e.before ->> 'type', e.after ->> 'type')
)

-- name: prize_day_cap
-- No more of a prize was awarded on a day than its cap per day. For days since the cap was last changed.
SELECT d.prize_id AS id, to_char(d.day, 'YYYY-MM-DD') AS row_id, p.campaign_id AS scope_key,
       'at most ' || p.max_per_day AS expected, d.awarded::text AS found
FROM prize_days AS d
JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = d.prize_id
WHERE d.tenant_id = $1 AND d.prize_id = ANY($2::text[]) AND p.max_per_day > 0 AND d.awarded > p.max_per_day
  -- A local day begins up to 14 hours before UTC's.
  AND NOT EXISTS (
      SELECT FROM audit_entries AS e
      WHERE e.tenant_id = $1 AND e.subject_type = 'prize' AND e.subject_id = p.prize_id AND e.action = 'prize.update'
        AND e.before ->> 'max_per_day' IS DISTINCT FROM e.after ->> 'max_per_day'
        AND e.created_at >= (d.day::timestamp AT TIME ZONE 'UTC') - interval '14 hours 10 minutes'
  )

-- name: prize_codes
-- An assigned code belongs to an existing reward of the same prize. No fingerprint of a code, and no reward, occurs twice.
SELECT c.prize_id AS id, c.code_id AS row_id, coalesce(p.campaign_id, '') AS scope_key,
       'reward ' || c.reward_id || ' of ' || c.prize_id AS expected,
       coalesce('of ' || r.prize_id, 'no such reward') AS found
FROM codes AS c
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = c.prize_id
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = c.reward_id
WHERE c.tenant_id = $1 AND c.prize_id = ANY($2::text[]) AND c.reward_id IS NOT NULL
  AND (r.reward_id IS NULL OR r.prize_id <> c.prize_id)
UNION ALL
SELECT c.prize_id, min(c.code_id), coalesce(max(p.campaign_id), ''), 'given once', count(*) || ' times'
FROM codes AS c
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = c.prize_id
WHERE c.tenant_id = $1 AND c.prize_id = ANY($2::text[]) AND c.reward_id IS NOT NULL
GROUP BY GROUPING SETS ((c.prize_id, c.code_hash), (c.prize_id, c.reward_id))
HAVING count(*) > 1

-- name: prize_free_codes
-- The counters of a code pool match its codes: free, assigned and withdrawn per expiry, free in total, and the next expiry.
SELECT n.prize_id AS id, n.row_id, coalesce(p.campaign_id, '') AS scope_key, n.pool AS expected, n.counted AS found
FROM (
    SELECT coalesce(c.prize_id, e.prize_id) AS prize_id, coalesce(c.expires_at, e.expires_at)::text AS row_id,
           concat_ws(', ', coalesce(c.free, 0), coalesce(c.assigned, 0), coalesce(c.withdrawn, 0)) AS pool,
           concat_ws(', ', coalesce(e.free, 0), coalesce(e.assigned, 0), coalesce(e.withdrawn, 0)) AS counted
    FROM (
        SELECT prize_id, expires_at, count(*) FILTER (WHERE reward_id IS NULL AND withdrawn_at IS NULL) AS free,
               count(reward_id) AS assigned, count(withdrawn_at) AS withdrawn
        FROM codes WHERE tenant_id = $1 AND prize_id = ANY($2::text[]) GROUP BY prize_id, expires_at
    ) AS c
    FULL JOIN (
        SELECT * FROM code_ends WHERE tenant_id = $1 AND prize_id = ANY($2::text[])
    ) AS e ON e.prize_id = c.prize_id AND e.expires_at = c.expires_at
    UNION ALL
    SELECT k.prize_id, '', coalesce((
        SELECT sum(e.free) FROM code_ends AS e
        WHERE e.tenant_id = $1 AND e.prize_id = k.prize_id AND e.expires_at > k.counted_at
    ), 0)::text, k.free::text
    FROM code_pools AS k WHERE k.tenant_id = $1 AND k.prize_id = ANY($2::text[])
    UNION ALL
    -- It may be earlier, since the code that expires next may be won.
    SELECT k.prize_id, 'ends_at', least(k.ends_at, (
        SELECT min(e.expires_at) FROM code_ends AS e
        WHERE e.tenant_id = $1 AND e.prize_id = k.prize_id AND e.free > 0 AND e.expires_at > k.counted_at
    ))::text, k.ends_at::text
    FROM code_pools AS k WHERE k.tenant_id = $1 AND k.prize_id = ANY($2::text[])
) AS n
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = n.prize_id
WHERE n.pool <> n.counted

-- ---------------------------------------------------------------- leaderboards

-- name: board_ranks
-- A finalized board's ranks have no gaps, and no score is better than the one above it.
SELECT s.board_id AS id, s.rank::text AS row_id, coalesce(b.campaign_id, '') AS scope_key,
       'rank ' || s.nth || ', at most ' || coalesce(s.above::text, 'any') AS expected,
       'rank ' || s.rank || ', ' || s.score AS found
FROM (
    SELECT o.board_id, o.rank, o.score, o.achieved_at, row_number() OVER by_rank AS nth,
           lag(o.score) OVER by_rank AS above, lag(o.achieved_at) OVER by_rank AS above_at
    FROM leaderboard_standings AS o
    WHERE o.tenant_id = $1 AND o.board_id = ANY($2::text[])
    WINDOW by_rank AS (PARTITION BY o.board_id ORDER BY o.rank)
) AS s
LEFT JOIN leaderboards AS b ON b.tenant_id = $1 AND b.board_id = s.board_id
WHERE s.rank <> s.nth OR s.score > s.above OR (s.score = s.above AND s.achieved_at < s.above_at)

-- name: board_scores
-- A finalized board's scores are those of its players' plays and adjustments, unless these are archived. Ignores players with a play around the
-- moment of an early finalization, and players in a merge since. sql/leaderboards.sql defines a score.
SELECT s.board_id AS id, s.rank::text AS row_id, b.campaign_id AS scope_key,
       coalesce(v.value + a.delta, 0)::text AS expected, s.score::text AS found
FROM leaderboard_standings AS s
JOIN leaderboards AS b ON b.tenant_id = $1 AND b.board_id = s.board_id AND b.finalized_at IS NOT NULL
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(o.played_at > b.finalized_at - interval '5 seconds'), false) AS uncertain,
        coalesce(CASE b.mode
            WHEN 'sum' THEN sum(o.value)
            WHEN 'best' THEN max(o.value)
            ELSE (array_agg(o.value ORDER BY o.played_at DESC, o.play_id DESC))[1]
        END, 0) AS value
    FROM (
        SELECT p.play_id, p.played_at, CASE b.metric
            WHEN 'score' THEN p.score WHEN 'wins' THEN p.wins WHEN 'points' THEN p.points ELSE 1 END AS value
        FROM plays AS p
        WHERE p.tenant_id = $1 AND p.player_id = s.player_id AND p.played_at < b.finalized_at + interval '5 seconds'
          AND (b.end_date IS NULL OR p.played_at < b.end_date)
          AND (b.start_date IS NULL OR p.played_at >= b.start_date)
          AND p.game_id = ANY(ARRAY(
              SELECT g.game_id FROM games AS g
              WHERE g.tenant_id = $1
                AND CASE WHEN b.game_id <> '' THEN g.game_id = b.game_id ELSE g.campaign_id = b.campaign_id END
          ))
    ) AS o
) AS v
CROSS JOIN LATERAL (
    SELECT coalesce(sum(d.delta), 0) AS delta FROM leaderboard_adjustments AS d
    WHERE d.tenant_id = $1 AND d.board_id = s.board_id AND d.player_id = s.player_id
) AS a
WHERE s.tenant_id = $1 AND s.board_id = ANY($2::text[]) AND s.score <> v.value + a.delta AND NOT v.uncertain
  AND NOT is_archived($1, b.campaign_id)
  AND NOT EXISTS (
      SELECT FROM players AS o
      WHERE o.tenant_id = $1 AND o.player_id = s.player_id AND o.merged_into IS NOT NULL)
  AND NOT EXISTS (SELECT FROM players AS o WHERE o.tenant_id = $1 AND o.merged_into = s.player_id)

-- name: board_players
-- Everybody with a score on a finalized board has a rank, except disqualified players. Counts plays up to five seconds
-- before. A merged guest's disqualification may appear on a player who is ranked rightly.
SELECT b.board_id AS id, c.player_id AS row_id, b.campaign_id AS scope_key, 'a rank' AS expected, 'none' AS found
FROM leaderboards AS b
CROSS JOIN LATERAL (
    SELECT a.player_id FROM leaderboard_adjustments AS a WHERE a.tenant_id = $1 AND a.board_id = b.board_id
    UNION
    SELECT n.player_id
    FROM games AS g
    JOIN game_players AS n ON n.tenant_id = $1 AND n.game_id = g.game_id
    WHERE g.tenant_id = $1
      AND CASE WHEN b.game_id <> '' THEN g.game_id = b.game_id ELSE g.campaign_id = b.campaign_id END
      AND NOT EXISTS (
          SELECT FROM leaderboard_standings AS s
          WHERE s.tenant_id = $1 AND s.board_id = b.board_id AND s.player_id = n.player_id)
      AND EXISTS (
          SELECT FROM plays AS p
          WHERE p.tenant_id = $1 AND p.player_id = n.player_id AND p.game_id = g.game_id
            AND p.played_at < b.finalized_at - interval '5 seconds'
            AND (b.start_date IS NULL OR p.played_at >= b.start_date)
            AND (b.end_date IS NULL OR p.played_at < b.end_date))
) AS c
WHERE b.tenant_id = $1 AND b.board_id = ANY($2::text[]) AND b.finalized_at IS NOT NULL
  AND NOT EXISTS (
      SELECT FROM leaderboard_standings AS s
      WHERE s.tenant_id = $1 AND s.board_id = b.board_id AND s.player_id = c.player_id)
  AND NOT EXISTS (
      SELECT FROM leaderboard_disqualifications AS d
      WHERE d.tenant_id = $1 AND d.board_id = b.board_id AND d.player_id = c.player_id)
UNION ALL
SELECT s.board_id, s.player_id, coalesce(b.campaign_id, ''), 'no rank, disqualified', 'rank ' || s.rank
FROM leaderboard_standings AS s
JOIN leaderboard_disqualifications AS d ON d.tenant_id = $1 AND d.board_id = s.board_id AND d.player_id = s.player_id
LEFT JOIN leaderboards AS b ON b.tenant_id = $1 AND b.board_id = s.board_id
WHERE s.tenant_id = $1 AND s.board_id = ANY($2::text[])
  AND NOT EXISTS (SELECT FROM players AS o WHERE o.tenant_id = $1 AND o.merged_into = s.player_id)

-- name: board_awards
-- A rank with an awarded prize has its reward, and no other rank has one.
SELECT s.board_id AS id, s.rank::text AS row_id, coalesce(b.campaign_id, '') AS scope_key,
       CASE WHEN s.prize_id = '' OR s.reason <> '' THEN 'no reward' ELSE 'a reward of ' || s.prize_id END AS expected,
       CASE WHEN s.reward_id = '' THEN 'none' ELSE coalesce('one of ' || r.prize_id, 'no such reward') END AS found
FROM leaderboard_standings AS s
LEFT JOIN leaderboards AS b ON b.tenant_id = $1 AND b.board_id = s.board_id
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = s.reward_id
WHERE s.tenant_id = $1 AND s.board_id = ANY($2::text[])
  AND CASE WHEN s.prize_id = '' OR s.reason <> '' THEN s.reward_id <> ''
           ELSE r.prize_id IS DISTINCT FROM s.prize_id END

-- ---------------------------------------------------------------- draws

-- name: ticket_holder
-- The holder of tickets in a draw is the pseudonym of their player.
SELECT k.id, '' AS row_id, coalesce(d.campaign_id, '') AS scope_key, 'the player of ' || t.holder AS expected,
       t.player_id || coalesce(' of ' || pseudonym(d.salt, t.player_id), ', no such draw') AS found
FROM unnest($2::text[]) AS k (id)
JOIN draw_tickets AS t ON t.tenant_id = $1 AND t.draw_id = split_part(k.id, ' ', 1)
    AND t.first_ticket = split_part(k.id, ' ', 2)::bigint
LEFT JOIN draws AS d ON d.tenant_id = $1 AND d.draw_id = t.draw_id
WHERE pseudonym(d.salt, t.player_id) IS DISTINCT FROM t.holder

-- name: draw_hashes
-- The terms and tickets of a closed draw, and its result, have the hashes that the audit log has of them. The tickets of
-- more than a million holders are not hashed: `tombola draws verify` does.
SELECT d.draw_id AS id, h.name AS row_id, d.campaign_id AS scope_key, coalesce(h.audited, 'an audit entry') AS expected,
       coalesce(nullif(h.hashed, h.audited), h.stored) AS found
FROM draws AS d
CROSS JOIN LATERAL (
    SELECT 'tickets_root' AS name, e.after ->> 'tickets_root' AS audited, d.tickets_root AS stored,
           CASE WHEN (e.after ->> 'holder_count')::bigint > 1000000 THEN d.tickets_root ELSE draw_root(d) END AS hashed
    FROM (SELECT) AS o
    LEFT JOIN audit_entries AS e ON e.tenant_id = $1 AND e.subject_type = 'draw' AND e.subject_id = d.draw_id
        AND e.action = 'draw.close'
    WHERE d.closed_at IS NOT NULL
    UNION ALL
    SELECT 'result_hash', e.after ->> 'result_hash', d.result_hash, hex_sha256(coalesce((
        SELECT string_agg(concat(r.rank, ' ', r.entry ->> 'ticket', ' ', r.entry ->> 'holder', E'\n'), '' ORDER BY r.rank)
        FROM jsonb_array_elements(d.result) WITH ORDINALITY AS r (entry, rank)), ''))
    FROM (SELECT) AS o
    LEFT JOIN audit_entries AS e ON e.tenant_id = $1 AND e.subject_type = 'draw' AND e.subject_id = d.draw_id
        AND e.action = 'draw.draw'
    WHERE d.drawn_at IS NOT NULL
) AS h
WHERE d.tenant_id = $1 AND d.draw_id = ANY($2::text[]) AND (h.hashed, h.stored) IS DISTINCT FROM (h.audited, h.audited)

-- name: draw_ranks
-- A rank of a draw has the player of the drawn ticket, and the prize of the terms or of the rank that it replaces. The audit
-- log has an entry for every replacement. A rank may be with a guest or with the player it was merged into.
WITH replaced AS MATERIALIZED (
    SELECT e.subject_id AS draw_id, (e.after ->> 'rank')::bigint AS rank, (e.after ->> 'alternate')::bigint AS alternate
    FROM audit_entries AS e
    WHERE e.tenant_id = $1 AND e.subject_type = 'draw' AND e.subject_id = ANY($2::text[]) AND e.action = 'draw.replace'
),
drawn AS (
    SELECT d.draw_id, o.rank, t.player_id, t.tickets, coalesce(p.prize_id, '') AS prize_id
    FROM draws AS d
    CROSS JOIN LATERAL jsonb_array_elements(d.result) WITH ORDINALITY AS o (entry, rank)
    LEFT JOIN LATERAL (
        SELECT k.* FROM draw_tickets AS k
        WHERE k.tenant_id = $1 AND k.draw_id = d.draw_id AND k.first_ticket <= (o.entry ->> 'ticket')::bigint
        ORDER BY k.first_ticket DESC LIMIT 1
    ) AS t ON t.holder = o.entry ->> 'holder'
    LEFT JOIN LATERAL (
        SELECT c.prize ->> 'prize_id' AS prize_id, (c.prize ->> 'count')::bigint AS count,
               sum((c.prize ->> 'count')::bigint) OVER (ORDER BY c.n) AS upto
        FROM jsonb_array_elements(d.prizes) WITH ORDINALITY AS c (prize, n)
    ) AS p ON o.rank > p.upto - p.count AND o.rank <= p.upto
    WHERE d.tenant_id = $1 AND d.draw_id = ANY($2::text[])
),
ranks AS MATERIALIZED (
    SELECT o.draw_id, o.rank, o.player_id, o.tickets, coalesce(nullif(o.prize_id, ''), f.prize_id, '') AS prize_id,
           EXISTS (SELECT FROM replaced AS x WHERE x.draw_id = o.draw_id AND x.rank = o.rank) AS replaced
    FROM drawn AS o
    LEFT JOIN replaced AS c ON c.draw_id = o.draw_id AND c.alternate = o.rank
    LEFT JOIN leaderboard_standings AS f ON f.tenant_id = $1 AND f.board_id = o.draw_id AND f.rank = c.rank
),
standings AS (
    SELECT s.board_id AS draw_id, s.rank, s.player_id, s.score AS tickets, s.prize_id, s.reason = 'REPLACED' AS replaced
    FROM draws AS d JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = d.draw_id
    WHERE d.tenant_id = $1 AND d.draw_id = ANY($2::text[])
)
SELECT coalesce(r.draw_id, s.draw_id) AS id, coalesce(r.rank, s.rank)::text AS row_id, d.campaign_id AS scope_key,
       coalesce(nullif(concat_ws(' ', r.player_id, r.tickets, nullif(r.prize_id, ''),
                                 CASE WHEN r.replaced THEN 'replaced' END), ''), 'no rank') AS expected,
       coalesce(nullif(concat_ws(' ', s.player_id, s.tickets, nullif(s.prize_id, ''),
                                 CASE WHEN s.replaced THEN 'replaced' END), ''), 'no rank') AS found
FROM ranks AS r
FULL JOIN standings AS s ON s.draw_id = r.draw_id AND s.rank = r.rank
LEFT JOIN draws AS d ON d.tenant_id = $1 AND d.draw_id = coalesce(r.draw_id, s.draw_id)
LEFT JOIN players AS g ON g.tenant_id = $1 AND g.player_id = r.player_id
WHERE (r.tickets, r.prize_id, r.replaced) IS DISTINCT FROM (s.tickets, s.prize_id, s.replaced)
   OR s.player_id NOT IN (r.player_id, coalesce(g.merged_into, r.player_id))

-- name: draw_awards
-- A rank of a draw has the reward of its player once its prize is awarded, and none before. A replaced rank may have a
-- revoked or expired one. Rank and reward may be one with the guest and the other with the player it was merged into.
SELECT d.draw_id AS id, s.rank::text AS row_id, d.campaign_id AS scope_key,
       CASE WHEN s.reason = '' AND d.confirmed_at IS NOT NULL THEN concat('a reward of ', s.prize_id, ' for ', s.player_id)
            ELSE 'no reward' END AS expected,
       CASE WHEN s.reward_id = '' THEN 'none'
            ELSE coalesce('one of ' || r.prize_id || ' for ' || r.player_id, 'no such reward') END AS found
FROM draws AS d
JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = d.draw_id
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = s.reward_id
WHERE d.tenant_id = $1 AND d.draw_id = ANY($2::text[]) AND CASE
    WHEN s.reason = '' THEN d.confirmed_at IS NULL OR r.prize_id IS DISTINCT FROM s.prize_id
        OR r.player_id <> s.player_id AND NOT EXISTS (
            SELECT FROM players AS g
            WHERE g.tenant_id = $1 AND g.player_id IN (r.player_id, s.player_id)
              AND g.merged_into IN (r.player_id, s.player_id))
    ELSE s.reward_id <> '' AND (s.reason <> 'REPLACED' OR coalesce(r.status, '') NOT IN ('revoked', 'expired')) END

-- ---------------------------------------------------------------- campaigns' counts

-- name: day_counts
-- A campaign's day has the plays, players and wins of that local day, up to the watermark, unless they are archived.
SELECT a.k AS id, '' AS row_id, a.campaign_id AS scope_key,
       n.plays || ' plays, ' || n.players || ' players, ' || n.wins || ' wins' AS expected,
       d.plays || ' plays, ' || d.players || ' players, ' || d.wins || ' wins' AS found
FROM (
    SELECT u.k, split_part(u.k, ' ', 1) AS campaign_id, split_part(u.k, ' ', 2)::date AS day
    FROM unnest($2::text[]) AS u (k)
) AS a
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = a.campaign_id
JOIN campaign_marks AS m ON m.tenant_id = $1 AND m.campaign_id = a.campaign_id
JOIN campaign_days AS d ON d.tenant_id = $1 AND d.campaign_id = a.campaign_id AND d.day = a.day
CROSS JOIN LATERAL (
    SELECT count(*) AS plays, count(DISTINCT p.player_id) AS players, count(*) FILTER (WHERE p.wins > 0) AS wins
    FROM plays AS p
    -- Bounds for the index: a local day is at most an hour or two longer than 24.
    WHERE p.tenant_id = $1 AND p.played_at < m.counted_until AND (p.played_at AT TIME ZONE c.timezone)::date = a.day
      AND p.played_at >= (a.day::timestamp AT TIME ZONE c.timezone) - interval '3 hours'
      AND p.played_at < (a.day::timestamp AT TIME ZONE c.timezone) + interval '30 hours'
      AND p.game_id = ANY(ARRAY(
          SELECT g.game_id FROM games AS g WHERE g.tenant_id = $1 AND g.campaign_id = a.campaign_id))
) AS n
WHERE (n.plays, n.players, n.wins) IS DISTINCT FROM (d.plays, d.players, d.wins) AND NOT is_archived($1, a.campaign_id)

-- name: day_quarters
-- A game's quarter hours on a counted day have its plays and wins, up to the watermark, unless they are archived.
WITH days AS MATERIALIZED (
    SELECT o.k, o.campaign_id, m.counted_until,
           date_bin('15 minutes', o.day AT TIME ZONE c.timezone, '2000-01-01Z') AS since,
           date_bin('15 minutes', (o.day + interval '1 day') AT TIME ZONE c.timezone, '2000-01-01Z') AS until,
           ARRAY(SELECT g.game_id FROM games AS g WHERE g.tenant_id = $1 AND g.campaign_id = o.campaign_id) AS games
    FROM (
        SELECT u.k, split_part(u.k, ' ', 1) AS campaign_id, split_part(u.k, ' ', 2)::timestamp AS day
        FROM unnest($2::text[]) AS u (k)
    ) AS o
    JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = o.campaign_id
    JOIN figure_marks AS m ON m.tenant_id = $1
    WHERE NOT is_archived($1, o.campaign_id)
)
SELECT d.k AS id, n.game_id || ' ' || to_char(n.quarter AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') AS row_id,
       d.campaign_id AS scope_key, n.plays || ' plays, ' || n.wins || ' wins' AS expected,
       n.counted || ' plays, ' || n.won || ' wins' AS found
FROM days AS d
CROSS JOIN LATERAL (
    SELECT game_id, quarter, sum(o.plays) AS plays, sum(o.wins) AS wins, sum(o.counted) AS counted, sum(o.won) AS won
    FROM (
        SELECT p.game_id, date_bin('15 minutes', p.played_at, '2000-01-01Z') AS quarter,
               1 AS plays, (p.wins > 0)::int AS wins, 0 AS counted, 0 AS won
        FROM plays AS p
        WHERE p.tenant_id = $1 AND p.played_at >= d.since AND p.played_at < least(d.until, d.counted_until)
          AND p.game_id = ANY(d.games)
        UNION ALL
        SELECT q.game_id, q.quarter, 0, 0, q.plays, q.wins FROM game_quarters AS q
        WHERE q.tenant_id = $1 AND q.game_id = ANY(d.games) AND q.quarter >= d.since AND q.quarter < d.until
    ) AS o
    GROUP BY game_id, quarter
) AS n
WHERE (n.plays, n.wins) <> (n.counted, n.won)

-- name: campaign_players
-- A campaign's player counts match its days: distinct players, and those on more than one day.
SELECT m.campaign_id AS id, '' AS row_id, m.campaign_id AS scope_key,
       coalesce(n.players, 0) || ' players, ' || coalesce(n.returned, 0) || ' returned' AS expected,
       m.players || ' players, ' || m.returned || ' returned' AS found
FROM campaign_marks AS m
LEFT JOIN (
    SELECT s.campaign_id, count(*) AS players, count(*) FILTER (WHERE s.days > 1) AS returned
    FROM (
        SELECT d.campaign_id, count(*) AS days FROM campaign_player_days AS d
        WHERE d.tenant_id = $1 AND d.campaign_id = ANY($2::text[])
        GROUP BY d.campaign_id, d.player_id
    ) AS s
    GROUP BY s.campaign_id
) AS n ON n.campaign_id = m.campaign_id
WHERE m.tenant_id = $1 AND m.campaign_id = ANY($2::text[])
  AND (m.players, m.returned) <> (coalesce(n.players, 0), coalesce(n.returned, 0))

-- name: campaign_codes
-- Every used code of a campaign's packs belongs to a redemption.
SELECT k.campaign_id AS id, k.pack_id || ' ' || encode(k.code_hash, 'hex') AS row_id, k.campaign_id AS scope_key,
       'a redemption' AS expected, 'none' AS found
FROM pack_codes AS k
LEFT JOIN redemptions AS r ON r.tenant_id = $1 AND r.redemption_id = k.redemption_id AND r.code_hash = k.code_hash
WHERE k.tenant_id = $1 AND k.campaign_id = ANY($2::text[]) AND k.redemption_id IS NOT NULL AND r.redemption_id IS NULL

-- name: campaign_pack_counts
-- A pack counts its codes, and those withdrawn.
SELECT p.campaign_id AS id, p.pack_id AS row_id, p.campaign_id AS scope_key,
       count(k.code_hash) || ' codes, ' || count(k.withdrawn_at) || ' withdrawn' AS expected,
       p.codes || ' codes, ' || p.withdrawn || ' withdrawn' AS found
FROM packs AS p
LEFT JOIN pack_codes AS k ON k.tenant_id = $1 AND k.campaign_id = p.campaign_id AND k.pack_id = p.pack_id
WHERE p.tenant_id = $1 AND p.campaign_id = ANY($2::text[])
GROUP BY p.campaign_id, p.pack_id, p.codes, p.withdrawn
HAVING (count(k.code_hash), count(k.withdrawn_at)) <> (p.codes, p.withdrawn)

-- name: campaign_entries
-- A campaign's count of entries is the number of entries that count toward its limit.
SELECT n.campaign_id AS id, '' AS row_id, n.campaign_id AS scope_key, e.entries::text AS expected,
       n.entries::text AS found
FROM entry_counts AS n
CROSS JOIN LATERAL (
    SELECT count(*) AS entries FROM entries AS o
    WHERE o.tenant_id = $1 AND o.campaign_id = n.campaign_id AND o.counted
) AS e
WHERE n.tenant_id = $1 AND n.campaign_id = ANY($2::text[]) AND n.entries <> e.entries

-- name: campaign_odds
-- Each result of a game is drawn as often as declared; undeclared results have chance 0. A sequential test: its false
-- positive rate is 1 in 10,000 per game revision, however often it runs (runtime/operations/reporting/odds_test.py). Each
-- prize group is tested by the plays of its tiers.
WITH drawn AS (
    SELECT g.campaign_id, d.game_id, d.revision, d.prize_group, d.drawn::text AS result, sum(d.draws)::bigint AS draws
    FROM games AS g JOIN game_draws AS d ON d.tenant_id = $1 AND d.game_id = g.game_id
    WHERE g.tenant_id = $1 AND g.campaign_id = ANY($2::text[])
    GROUP BY g.campaign_id, d.game_id, d.revision, d.prize_group, d.drawn
),
whole AS (
    -- All groups share the probability of a false alarm, those without plays included.
    SELECT d.campaign_id, d.game_id, d.revision, k.prize_group, r.definition ->> 'reward_handler' AS handler,
           r.definition -> 'handler_config' AS config,
           coalesce((SELECT sum(o.draws) FROM drawn AS o WHERE o.game_id = d.game_id AND o.revision = d.revision
                                                           AND o.prize_group = k.prize_group), 0)::bigint AS plays
    FROM (SELECT DISTINCT campaign_id, game_id, revision FROM drawn) AS d
    JOIN game_revisions AS r ON r.tenant_id = $1 AND r.game_id = d.game_id AND r.revision = d.revision
    CROSS JOIN LATERAL (
        SELECT '' AS prize_group WHERE r.definition ->> 'reward_handler' IN ('probability', 'lucky_item')
        UNION ALL
        SELECT jsonb_object_keys(r.definition #> '{handler_config,prize_groups}')
        WHERE r.definition ->> 'reward_handler' = 'score_to_tier'
    ) AS k
),
declared AS (
    SELECT w.campaign_id, w.game_id, w.revision, w.prize_group, w.plays, c.result, sum(c.chance) AS chance,
           count(*) OVER (PARTITION BY w.game_id, w.revision) AS results
    FROM whole AS w
    CROSS JOIN LATERAL (
        SELECT CASE w.handler
            WHEN 'probability' THEN w.config -> 'prizes'
            WHEN 'score_to_tier' THEN w.config -> 'prize_groups' -> w.prize_group
        END AS prizes
    ) AS k
    CROSS JOIN LATERAL (
        SELECT p ->> 'prize_id' AS result, (p ->> 'probability')::float8 AS chance
        FROM jsonb_array_elements(k.prizes) AS p
        UNION ALL
        SELECT '', greatest(0, 1 - coalesce(sum((p ->> 'probability')::float8), 0))
        FROM jsonb_array_elements(k.prizes) AS p HAVING w.handler <> 'lucky_item'
        UNION ALL
        SELECT i ->> 'item', (i ->> 'weight')::float8 / sum((i ->> 'weight')::float8) OVER ()
        FROM jsonb_array_elements(w.config -> 'items') AS i WHERE w.handler = 'lucky_item'
        UNION ALL
        SELECT d.result, 0 FROM drawn AS d
        WHERE d.game_id = w.game_id AND d.revision = w.revision AND d.prize_group = w.prize_group
    ) AS c
    GROUP BY w.campaign_id, w.game_id, w.revision, w.prize_group, w.plays, c.result
)
SELECT o.campaign_id AS id,
       rtrim(concat_ws(' ', o.game_id, o.revision, nullif(o.prize_group, ''), o.result)) AS row_id,
       o.campaign_id AS scope_key,
       concat('about ', round((o.plays * o.chance)::numeric), ' of ', o.plays) AS expected,
       coalesce(d.draws, 0)::text AS found
FROM declared AS o
LEFT JOIN drawn AS d ON d.game_id = o.game_id AND d.revision = o.revision AND d.prize_group = o.prize_group
    AND d.result = o.result
WHERE CASE
    WHEN o.chance <= 0 THEN coalesce(d.draws, 0) > 0
    WHEN o.chance >= 1 THEN coalesce(d.draws, 0) < o.plays
    ELSE odds_log_ratio(coalesce(d.draws, 0), o.plays, o.chance) >= ln(o.results / 0.0001)
END

-- ---------------------------------------------------------------- the log

-- name: logged_leaf
-- Every row from before the log's watermark has its leaf. A missing one means that the row is back-dated. OFFSET 0: a probe
-- of the index for each row; the planner might read all leaves instead.
WITH missing AS MATERIALIZED (
    SELECT k.id, (convert_from(log_entry(ROW($1, 0, split_part(k.id, ' ', 1), split_part(k.id, ' ', 2), '', NULL, NULL, NULL)
                                         ::log_leaves), 'UTF8')::jsonb ->> 'at')::bigint AS at
    FROM unnest($2::text[]) AS k (id)
    WHERE NOT EXISTS (
        SELECT FROM log_leaves AS l
        WHERE l.tenant_id = $1 AND l.kind = split_part(k.id, ' ', 1) AND l.row_id = split_part(k.id, ' ', 2) OFFSET 0)
)
SELECT m.id, '' AS row_id, '' AS scope_key, 'a leaf' AS expected, iso(to_timestamp(m.at / 1000000)) AS found
FROM missing AS m JOIN log_trees AS t ON t.tenant_id = $1
WHERE to_timestamp(m.at / 1000000.0) < t.logged_until - interval '60 seconds'

-- name: logged_time
-- No row that the log waits for is dated in the future. Until that time it has no leaf, and can be changed unnoticed.
SELECT k.id, '' AS row_id, '' AS scope_key, 'not later than now' AS expected, iso(to_timestamp(r.at / 1000000)) AS found
FROM unnest($2::text[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT (convert_from(log_entry(ROW($1, 0, split_part(k.id, ' ', 1), split_part(k.id, ' ', 2), '', NULL, NULL, NULL)
                                   ::log_leaves), 'UTF8')::jsonb ->> 'at')::bigint AS at
) AS r
WHERE r.at > unix_micro(clock_timestamp() + interval '60 seconds') AND NOT EXISTS (
    SELECT FROM log_leaves AS l
    WHERE l.tenant_id = $1 AND l.kind = split_part(k.id, ' ', 1) AND l.row_id = split_part(k.id, ' ', 2))

-- name: leaf_row
-- Each leaf has a row with its hash, or belongs to a deleted play and names the archive that has the play.
SELECT lpad(l.leaf_index::text, 19, '0') AS id, l.kind || ' ' || l.row_id AS row_id, '' AS scope_key,
       encode(l.hash, 'hex') AS expected, coalesce(encode(h.hash, 'hex'), 'no such row') AS found
FROM log_leaves AS l CROSS JOIN LATERAL (SELECT log_leaf_hash(log_entry(l)) AS hash OFFSET 0) AS h
WHERE l.tenant_id = $1 AND l.leaf_index = ANY(CAST($2::text[] AS bigint[])) AND h.hash IS DISTINCT FROM l.hash
  AND NOT (l.kind = 'play' AND h.hash IS NULL AND EXISTS (
      SELECT FROM play_archives AS a
      WHERE a.tenant_id = $1 AND a.number = l.archive AND a.entry_id <> ''
        AND l.leaf_index BETWEEN a.first_leaf AND a.last_leaf))

-- name: archive_entry
-- An archive and its entry in the audit log have the same file, plays and digest, and its campaign is over.
SELECT k.id, coalesce(e.entry_id, '') AS row_id, k.id AS scope_key,
       CASE WHEN e.entry_id IS NULL THEN 'an audit entry'
            ELSE concat_ws(' ', e.after ->> 'plays', e.after ->> 'file_sha256', e.after ->> 'digest') END AS expected,
       CASE WHEN a.campaign_id IS NULL THEN 'no archive'
            ELSE concat_ws(' ', a.plays, a.file_sha256, a.digest,
                           CASE WHEN campaign_status(c.status, c.end_date) <> 'ended' THEN 'not over' END) END AS found
FROM unnest($2::text[]) AS k (id)
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = k.id
LEFT JOIN play_archives AS a ON a.tenant_id = $1 AND a.campaign_id = k.id
LEFT JOIN audit_entries AS e ON e.tenant_id = $1 AND e.subject_type = 'campaign' AND e.subject_id = k.id
    AND e.action = 'campaign.archive'
WHERE (a.entry_id <> '' OR e.entry_id IS NOT NULL) AND (
    campaign_status(c.status, c.end_date) <> 'ended' OR (a.entry_id, a.plays::text, a.file_sha256::text, a.digest::text)
    IS DISTINCT FROM (e.entry_id, e.after ->> 'plays', e.after ->> 'file_sha256', e.after ->> 'digest'))

-- name: archive_plays
-- An archive has as many leaves of plays as plays were deleted for it; once it has finished, those of its file.
SELECT a.campaign_id AS id, '' AS row_id, a.campaign_id AS scope_key,
       CASE WHEN a.finished_at IS NULL AND a.counted < a.plays THEN a.counted::text ELSE a.plays || ' ' || a.digest END AS expected,
       concat_ws(' ', n.plays, nullif(n.digest, '')) AS found
FROM play_archives AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS plays, CASE WHEN a.finished_at IS NOT NULL OR a.counted >= a.plays THEN archive_digest(a) END AS digest
    FROM log_leaves AS l
    WHERE l.tenant_id = $1 AND l.leaf_index BETWEEN a.first_leaf AND a.last_leaf AND l.archive = a.number
) AS n
WHERE a.tenant_id = $1 AND a.campaign_id = ANY($2::text[]) AND a.entry_id <> ''
  AND (n.plays <> a.counted OR (n.digest IS NOT NULL AND (n.plays, n.digest) <> (a.plays, a.digest)))

-- name: archive_counted
-- An archive has as many plays as its campaign's players have counted: all of its campaign's plays.
SELECT a.campaign_id AS id, '' AS row_id, a.campaign_id AS scope_key, n.plays::text AS expected, a.plays::text AS found
FROM play_archives AS a
CROSS JOIN LATERAL (
    SELECT coalesce(sum(c.plays), 0) AS plays FROM games AS g
    JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = g.game_id
    WHERE g.tenant_id = $1 AND g.campaign_id = a.campaign_id
) AS n
WHERE a.tenant_id = $1 AND a.campaign_id = ANY($2::text[]) AND a.entry_id <> '' AND n.plays <> a.plays

-- name: leaf_time
-- No leaf is of a row from more than a minute before the mark that precedes it. Otherwise the row is back-dated, or the
-- database's clock went back.
SELECT lpad(l.leaf_index::text, 19, '0') AS id, l.kind || ' ' || l.row_id AS row_id, '' AS scope_key,
       'from ' || iso(to_timestamp(m.at / 1000000)) AS expected, iso(to_timestamp(r.at / 1000000)) AS found
FROM log_leaves AS l
CROSS JOIN LATERAL (
    SELECT split_part(o.row_id, ' ', 1)::bigint AS at FROM log_leaves AS o
    WHERE o.tenant_id = $1 AND o.kind = 'mark' AND o.leaf_index < l.leaf_index ORDER BY o.leaf_index DESC LIMIT 1
) AS m
CROSS JOIN LATERAL (SELECT (convert_from(log_entry(l), 'UTF8')::jsonb ->> 'at')::bigint AS at) AS r
WHERE l.tenant_id = $1 AND l.leaf_index = ANY(CAST($2::text[] AS bigint[])) AND r.at < m.at - 60000000

-- name: leaf_gap
-- The indexes of the log's leaves have no gaps.
SELECT lpad(l.leaf_index::text, 19, '0') AS id, l.kind || ' ' || l.row_id AS row_id, '' AS scope_key,
       'leaf ' || l.leaf_index - 1 AS expected, 'none' AS found
FROM log_leaves AS l
WHERE l.tenant_id = $1 AND l.leaf_index = ANY(CAST($2::text[] AS bigint[])) AND l.leaf_index > 0 AND NOT EXISTS (
    SELECT FROM log_leaves AS o WHERE o.tenant_id = $1 AND o.leaf_index = l.leaf_index - 1)

-- name: leaf_node
-- Each stored hash of the log's tree is that of the 256 hashes below it.
SELECT lpad(l.leaf_index::text, 19, '0') AS id, 'level ' || v.level AS row_id, '' AS scope_key,
       encode(h.hash, 'hex') AS expected, coalesce(encode(o.hash, 'hex'), 'none') AS found
FROM log_leaves AS l
JOIN generate_series(8, 56, 8) AS v (level) ON (l.leaf_index + 1) % (1::bigint << v.level) = 0
LEFT JOIN log_nodes AS o ON o.tenant_id = $1 AND o.level = v.level AND o.number = l.leaf_index >> v.level
CROSS JOIN LATERAL (
    SELECT log_root(log_hashes($1, v.level - 8, l.leaf_index >> v.level << 8, (l.leaf_index >> v.level) + 1 << 8)) AS hash
) AS h
WHERE l.tenant_id = $1 AND l.leaf_index = ANY(CAST($2::text[] AS bigint[])) AND h.hash IS DISTINCT FROM o.hash

-- name: checkpoint_root
-- Each signed checkpoint has the root of its leaves.
SELECT lpad(c.size::text, 19, '0') AS id, '' AS row_id, '' AS scope_key,
       split_part(c.note, E'\n', 2) || ' ' || split_part(c.note, E'\n', 3) AS expected,
       c.size || ' ' || encode(h.root, 'base64') AS found
FROM log_checkpoints AS c CROSS JOIN LATERAL (SELECT log_root($1, c.size) AS root OFFSET 0) AS h
WHERE c.tenant_id = $1 AND c.size = ANY(CAST($2::text[] AS bigint[]))
  AND (split_part(c.note, E'\n', 2), split_part(c.note, E'\n', 3))
      IS DISTINCT FROM (c.size::text, encode(h.root, 'base64'))
