-- The single commit statement, for plays, redeems and finalized boards. See runtime/actors/committer.py.

-- name: commit
-- Commits everything that a batch decided, or nothing.
-- Each part is conditional: a balance must be unchanged, stock must suffice, a cap must hold; a session, an idempotency
-- key and a milestone are used once. If a part matches fewer rows than it was given, refuse() names the part and fails
-- the whole statement (SQLSTATE TB001). A part that inserts a row that exists fails it as well, by a unique index
-- (sql/guards.py): ON CONFLICT would search every index for every row first, at 4 % of a play's CPU.
-- Lock order: arrays are sorted by key, and a `_locked` part locks rows in that order before they are updated. Otherwise
-- the plan could visit a small table in physical order. The guards at the end read their parts completely and so fix
-- the order of the parts, that of sql/locks.py. A part that no guard reads to its end would run last, in any order.
-- Every batch of a prize locks its stock and count of the day until it has committed. So `rewards` and `tasks` are
-- written before them, unlike in sql/locks.py: nothing else locks a new row. Only codes, grants and awards come later.
-- Only rows that meet the condition are locked, so a stale row is not waited for; Postgres checks the condition again
-- after a wait.
-- One statement may commit the changes of several tenants: each row names its tenant, and the arrays are sorted by
-- tenant, then by key.
-- $1 the tenants, with the catalogue version that each batch was decided with (0: any). $2 the longest wait for a row
-- lock in ms (0: no limit), so that a tenant whose rows are locked does not hold up the others. $3.. the changes.
-- The lines between `--[ part` and `--]` are removed if a batch has no changes for the part: a statement costs by the
-- number of its tables, and most plays touch few.
-- One row: the database's time, and the remaining stock of what was taken, by tenant.
WITH
--[ debuts
catalog_locked AS (
    -- Fewer rows than tenants: a catalogue has changed. FOR SHARE: a later change waits and then sees that the game was
    -- played; behind a change in progress this waits and then fails. An unlocked read, as elsewhere, could become
    -- stale before this statement ends.
    SELECT t.tenant_id FROM unnest($1::catalog_seen[]) AS n JOIN tenants AS t USING (tenant_id, catalog_version)
    WHERE t.tenant_id IN (SELECT d.tenant_id FROM unnest($18::game_debut[]) AS d)
    ORDER BY t.tenant_id
    FOR SHARE OF t
),
--]
--[ guests
guests_locked AS (
    -- Fewer rows than given: a guest was merged into a player. FOR SHARE: no merge before this commits.
    SELECT p.player_id
    FROM unnest($17::still_guest[]) AS n
    JOIN players AS p ON p.tenant_id = n.tenant_id AND p.player_id = n.player_id AND p.merged_into IS NULL
    ORDER BY p.tenant_id, p.player_id
    FOR SHARE OF p
),
--]
--[ entries
entries_held AS (
    -- Fewer rows than given: an entry was changed (a consent withdrawn). Not locked: a change that commits from here on
    -- comes after this one.
    SELECT e.player_id
    FROM unnest($19::held_entry[]) AS n
    JOIN entries AS e ON e.tenant_id = n.tenant_id AND e.campaign_id = n.campaign_id AND e.player_id = n.player_id
        AND e.revision = n.revision
),
--]
--[ play_counts
counted AS (
    INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays, busy_until)
    SELECT n.tenant_id, n.game_id, n.player_id, n.plays, n.day, n.plays, n.busy_until
    FROM unnest($4::play_count[]) AS n
    ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET
        plays = c.plays + excluded.plays,
        -- A future day (the time zone moved west) counts as today, as in `refresh`.
        day = excluded.day,
        day_plays = CASE WHEN c.day >= excluded.day THEN c.day_plays ELSE 0 END + excluded.plays,
        -- Decided from the stored value: plays that use time are committed as `exact`.
        busy_until = greatest(c.busy_until, excluded.busy_until)
    RETURNING c.tenant_id, c.game_id, c.player_id, c.plays, c.day_plays,
        extract(epoch FROM clock_timestamp()) AS counted_at
),
counts AS MATERIALIZED (
    -- Checked under the row lock. late: a play of yesterday committed after one of today would restart today's count.
    SELECT count(*) AS n, bool_or(n.day_ends > 0 AND c.counted_at >= n.day_ends) AS late,
           bool_or((n.cap > 0 AND c.plays > n.cap) OR (n.day_cap > 0 AND c.day_plays > n.day_cap)
               -- Fewer: an earlier play was rolled back. Another play will use this ordinal, of which the plan was shown.
               OR (n.exact AND c.plays < n.cap)) AS beyond
    FROM counted AS c JOIN unnest($4::play_count[]) AS n USING (tenant_id, game_id, player_id)
),
--]
--[ plays
played AS (
    -- A session or an idempotency key is used once: by plays_pkey and plays_idempotency.
    INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                       outcome, score, wins, points, idempotency_key, request_hash)
    SELECT n.tenant_id, n.play_id, n.game_id, n.player_id, n.session_id, n.revision, n.seed, n.client_seed, n.payload,
           n.outcome, n.score, n.wins, n.points, n.idempotency_key, n.request_hash
    FROM unnest($3::new_play[]) AS n
    RETURNING 1
),
--]
--[ turns
turns_locked AS MATERIALIZED (
    SELECT t.tenant_id, t.player_id, t.campaign_id, n.after
    FROM unnest($5::turn_move[]) AS n
    JOIN turn_balances AS t
      ON t.tenant_id = n.tenant_id AND t.player_id = n.player_id AND t.campaign_id = n.campaign_id
    WHERE t.balance = n.before
    ORDER BY t.tenant_id, t.player_id, t.campaign_id
    FOR NO KEY UPDATE OF t
),
turns_moved AS (
    UPDATE turn_balances AS t SET balance = n.after, updated_at = now()
    FROM turns_locked AS n
    WHERE t.tenant_id = n.tenant_id AND t.player_id = n.player_id AND t.campaign_id = n.campaign_id
    RETURNING 1
),
turns_created AS (
    -- The row may be missing if the balance was never above 0. An existing row conflicts and adds nothing here.
    INSERT INTO turn_balances (tenant_id, player_id, campaign_id, balance)
    SELECT n.tenant_id, n.player_id, n.campaign_id, n.after FROM unnest($5::turn_move[]) AS n
    WHERE n.before = 0
    ON CONFLICT DO NOTHING
    RETURNING 1
),
turns_recorded AS (
    INSERT INTO turn_entries (tenant_id, entry_id, player_id, campaign_id, amount, balance_after, reason, reference_id)
    SELECT n.* FROM unnest($6::new_turn_entry[]) AS n
    RETURNING 1
),
--]
--[ balances
balances_locked AS MATERIALIZED (
    SELECT b.tenant_id, b.player_id, b.scope_key, b.currency, n.after
    FROM unnest($7::balance_move[]) AS n
    JOIN balances AS b
      ON b.tenant_id = n.tenant_id AND b.player_id = n.player_id AND b.scope_key = n.scope_key
     AND b.currency = n.currency
    WHERE b.balance = n.before
    ORDER BY b.tenant_id, b.player_id, b.scope_key, b.currency
    FOR NO KEY UPDATE OF b
),
balances_moved AS (
    UPDATE balances AS b SET
        balance = n.after,
        seq = greatest(b.seq, microseconds()) + cardinality($8::new_ledger_entry[]),
        updated_at = now()
    FROM balances_locked AS n
    WHERE b.tenant_id = n.tenant_id AND b.player_id = n.player_id AND b.scope_key = n.scope_key
      AND b.currency = n.currency
    RETURNING b.tenant_id, b.player_id, b.scope_key, b.currency, b.seq
),
balances_created AS (
    -- The row may exist by now: by balances_pkey.
    INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance, seq)
    SELECT n.tenant_id, n.player_id, n.scope_key, n.currency, n.after,
           microseconds() + cardinality($8::new_ledger_entry[])
    FROM unnest($7::balance_move[]) AS n
    WHERE n.before IS NULL
    RETURNING tenant_id, player_id, scope_key, currency, seq
),
ledger_recorded AS (
    -- Every balance reserved a seq for each entry of the batch; an entry takes the one at its position.
    INSERT INTO ledger_entries (tenant_id, entry_id, seq, player_id, scope_key, currency, amount, balance_after,
                                reason, reference_id, reward_id)
    SELECT tenant_id, n.entry_id, b.seq - cardinality($8::new_ledger_entry[]) + n.nth, player_id, scope_key, currency,
           n.amount, n.balance_after, n.reason, n.reference_id, n.reward_id
    FROM unnest($8::new_ledger_entry[]) WITH ORDINALITY AS n (
        tenant_id, entry_id, player_id, scope_key, currency, amount, balance_after, reason, reference_id, reward_id, nth
    )
    JOIN (SELECT * FROM balances_moved UNION ALL SELECT * FROM balances_created) AS b
      USING (tenant_id, player_id, scope_key, currency)
    RETURNING 1
),
--]
--[ prize_players
player_counted AS (
    INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
    SELECT n.tenant_id, n.prize_id, n.player_id, n.quantity FROM unnest($11::prize_player_count[]) AS n
    ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded + excluded.awarded
    RETURNING c.tenant_id, c.prize_id, c.player_id, c.awarded
),
--]
--[ rewards
rewarded AS (
    INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, game_id, play_id, milestone_id, name,
                         type, value, quantity, status, fulfilled_at, expires_at)
    SELECT n.tenant_id, n.reward_id, n.player_id, n.prize_id, n.campaign_id, n.game_id, n.play_id, n.milestone_id,
           n.name, n.type, n.value, n.quantity, n.status,
           CASE WHEN n.status = 'fulfilled' THEN now() END,
           CASE WHEN n.expires_after_days > 0 THEN now() + make_interval(days => n.expires_after_days) END
    FROM unnest($12::new_reward[]) AS n
    RETURNING 1
),
--]
--[ tasks
tasked AS (
    INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status,
                       attempts, next_attempt_at)
    SELECT n.tenant_id, n.task_id, n.reward_id, n.prize_id, n.campaign_id, n.player_id, n.channel, n.status,
           CASE WHEN n.status = 'delivered' THEN 1 ELSE 0 END,
           CASE WHEN n.status = 'pending' THEN now() END
    FROM unnest($14::new_task[]) AS n
    RETURNING 1
),
--]
--[ stock
stock_locked AS MATERIALIZED (
    -- Fewer rows than given: sold out, or units are not released yet.
    SELECT s.tenant_id, s.prize_id, n.quantity
    FROM unnest($9::stock_take[]) AS n JOIN stock AS s ON s.tenant_id = n.tenant_id AND s.prize_id = n.prize_id
    WHERE s.total = 0 OR s.remaining - n.quantity >= n.held_back
    ORDER BY s.tenant_id, s.prize_id
    FOR NO KEY UPDATE OF s
),
taken AS (
    UPDATE stock AS s SET
        remaining = CASE WHEN s.total = 0 THEN 0 ELSE s.remaining - n.quantity END,
        awarded = s.awarded + n.quantity
    FROM stock_locked AS n
    WHERE s.tenant_id = n.tenant_id AND s.prize_id = n.prize_id
    RETURNING s.tenant_id, s.prize_id, s.total, s.remaining
),
--]
--[ prize_days
day_counted AS (
    INSERT INTO prize_days AS c (tenant_id, prize_id, day, awarded)
    SELECT n.tenant_id, n.prize_id, n.day, n.quantity FROM unnest($10::prize_day_count[]) AS n
    ON CONFLICT (tenant_id, prize_id, day) DO UPDATE SET awarded = c.awarded + excluded.awarded
    RETURNING c.tenant_id, c.prize_id, c.day, c.awarded
),
--]
--[ codes
code_picks AS (
    -- SKIP LOCKED: do not wait for concurrent picks. If too few codes remain, the guard fails.
    SELECT w.tenant_id, w.prize_id, f.code_id,
           row_number() OVER (PARTITION BY w.tenant_id, w.prize_id ORDER BY f.code_id) AS nth
    FROM (
        SELECT n.tenant_id, n.prize_id, count(*) AS wanted FROM unnest($13::code_take[]) AS n
        GROUP BY n.tenant_id, n.prize_id
    ) AS w
    CROSS JOIN LATERAL (
        SELECT c.code_id FROM codes AS c
        WHERE c.tenant_id = w.tenant_id AND c.prize_id = w.prize_id AND c.reward_id IS NULL
          AND c.withdrawn_at IS NULL AND c.expires_at > now()
        ORDER BY c.expires_at, c.code_id LIMIT w.wanted FOR UPDATE SKIP LOCKED
    ) AS f
),
codes_taken AS (
    UPDATE codes AS c SET reward_id = n.reward_id, assigned_at = now()
    FROM unnest($13::code_take[]) AS n JOIN code_picks AS p USING (tenant_id, prize_id, nth)
    WHERE c.tenant_id = p.tenant_id AND c.prize_id = p.prize_id AND c.code_id = p.code_id
    RETURNING 1
),
--]
--[ grants
granted AS (
    -- A milestone is granted once, and a redeem's idempotency key used once: by the table's two unique indexes.
    INSERT INTO milestone_grants (tenant_id, game_id, player_id, milestone_id, reward_id, idempotency_key, request_hash,
                                  reply)
    SELECT n.* FROM unnest($15::new_grant[]) AS n
    RETURNING 1
),
--]
--[ awards
standings_locked AS MATERIALIZED (
    -- Fewer rows than given: the rank's prize was already given or withheld.
    SELECT s.tenant_id, s.board_id, s.rank, n.reward_id
    FROM unnest($16::standing_award[]) AS n
    JOIN leaderboard_standings AS s ON s.tenant_id = n.tenant_id AND s.board_id = n.board_id AND s.rank = n.rank
    WHERE s.reason = 'PENDING'
    ORDER BY s.tenant_id, s.board_id, s.rank
    FOR NO KEY UPDATE OF s
),
awarded AS (
    UPDATE leaderboard_standings AS s SET reward_id = n.reward_id, reason = ''
    FROM standings_locked AS n
    WHERE s.tenant_id = n.tenant_id AND s.board_id = n.board_id AND s.rank = n.rank
    RETURNING 1
),
--]
moment AS (
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now
)
SELECT
    --[ stock
    (SELECT array_agg(tenant_id) FROM taken) AS stock_tenants,
    (SELECT array_agg(prize_id) FROM taken) AS prize_ids,
    (SELECT array_agg(CASE WHEN total = 0 THEN NULL ELSE remaining END) FROM taken) AS remaining,
    --]
    now
FROM moment
WHERE CASE
    -- First, before any row is locked. Local: it ends with this statement's transaction.
    WHEN $2::int > 0 AND set_config('lock_timeout', $2::text, true) = '' THEN false
    WHEN EXISTS (
        SELECT FROM unnest($1::catalog_seen[]) AS n LEFT JOIN tenants AS t USING (tenant_id, catalog_version)
        WHERE n.catalog_version <> 0 AND t.tenant_id IS NULL
    ) THEN refuse('catalog')
    --[ debuts
    WHEN (SELECT count(*) FROM catalog_locked)
        <> (SELECT count(DISTINCT d.tenant_id) FROM unnest($18::game_debut[]) AS d) THEN refuse('catalog')
    --]
    --[ guests
    WHEN (SELECT count(*) FROM guests_locked) <> cardinality($17::still_guest[]) THEN refuse('guest')
    --]
    --[ entries
    WHEN (SELECT count(*) FROM entries_held) <> cardinality($19::held_entry[]) THEN refuse('entry')
    --]
    --[ plays
    WHEN (SELECT count(*) FROM played) <> cardinality($3::new_play[]) THEN refuse('session')
    --]
    --[ play_counts
    WHEN (SELECT late OR n <> cardinality($4::play_count[]) FROM counts) THEN refuse('day')
    WHEN (SELECT beyond FROM counts) THEN refuse('plays')
    --]
    --[ turns
    WHEN (SELECT count(*) FROM turns_moved) + (SELECT count(*) FROM turns_created)
        <> cardinality($5::turn_move[])
        OR (SELECT count(*) FROM turns_recorded) <> cardinality($6::new_turn_entry[]) THEN refuse('turns')
    --]
    --[ balances
    WHEN (SELECT count(*) FROM balances_moved) + (SELECT count(*) FROM balances_created)
        <> cardinality($7::balance_move[])
        OR (SELECT count(*) FROM ledger_recorded) <> cardinality($8::new_ledger_entry[]) THEN refuse('balance')
    --]
    --[ prize_players
    WHEN (
        SELECT count(*) <> cardinality($11::prize_player_count[]) OR bool_or(n.cap > 0 AND c.awarded > n.cap)
        FROM player_counted AS c
        JOIN unnest($11::prize_player_count[]) AS n USING (tenant_id, prize_id, player_id)
    ) THEN refuse('prize_player')
    --]
    --[ rewards
    WHEN (SELECT count(*) FROM rewarded) <> cardinality($12::new_reward[]) THEN refuse('reward')
    --]
    --[ tasks
    WHEN (SELECT count(*) FROM tasked) <> cardinality($14::new_task[]) THEN refuse('reward')
    --]
    --[ stock
    WHEN (SELECT count(*) FROM taken) <> cardinality($9::stock_take[]) THEN refuse('stock')
    --]
    --[ prize_days
    WHEN (
        SELECT count(*) <> cardinality($10::prize_day_count[]) OR bool_or(n.cap > 0 AND c.awarded > n.cap)
        FROM day_counted AS c JOIN unnest($10::prize_day_count[]) AS n USING (tenant_id, prize_id, day)
    ) THEN refuse('prize_day')
    --]
    --[ codes
    WHEN (SELECT count(*) FROM codes_taken) <> cardinality($13::code_take[]) THEN refuse('codes')
    --]
    --[ grants
    WHEN (SELECT count(*) FROM granted) <> cardinality($15::new_grant[]) THEN refuse('grant')
    --]
    --[ awards
    WHEN (SELECT count(*) FROM awarded) <> cardinality($16::standing_award[]) THEN refuse('standing')
    --]
    ELSE true
END
