-- The outbox: delivery tasks. The states of a task, and the statements that change them:
--
--   pending --lease--> delivering --record--> delivered   (final)
--      ^                  |   ^        |----> awaiting  --complete--> delivered | retry | dead
--      |                  |   |        |               --fail_overdue--> dead
--      |                  |   '-lease--|----> retry       (due again at next_attempt_at)
--      |                  |            '----> dead
--      |                  '-- lease of an expired lease: its worker has died
--      '-- rearm: from awaiting, retry, dead
--   cancelled: by a revoke (sql/rewards.sql), from every state but delivered
--
-- Lock order (sql/locks.py): a reward before its task, which belongs to it for good. The statement locks the reward, or
-- its caller where the comment says so. A lease uses SKIP LOCKED and waits for nothing. Where a delivery fails for good,
-- or succeeds after that, stock and codes change too: the caller locks them first.
--
-- `lease` and `record` look up rows by key whatever the statistics of a fast-growing table are: each id separately
-- (LATERAL), and with status conditions that no status index can serve (CASE, NOT IN). Through such an index a batch
-- would read all active tasks of its tenant once per task.

-- name: lock_due
-- Locks at most $2 of a tenant's due tasks, for `lease` in the same transaction: per prize the longest waiting, and of
-- prizes $3 at most $4 each. Skips tasks locked by other workers, so that workers share the backlog.
WITH RECURSIVE waiting (prize_id) AS (
    -- Prizes with waiting tasks: a skip scan with one probe of tasks_due each.
    (SELECT t.prize_id FROM tasks AS t WHERE t.tenant_id = $1 AND t.status IN ('pending', 'retry')
     ORDER BY t.prize_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.prize_id FROM tasks AS t
            WHERE t.tenant_id = $1 AND t.status IN ('pending', 'retry') AND t.prize_id > w.prize_id
            ORDER BY t.prize_id LIMIT 1)
    FROM waiting AS w WHERE w.prize_id IS NOT NULL
),
rooms AS (
    SELECT * FROM unnest($3::text[], $4::bigint[]) AS r (prize_id, places)
),
due AS (
    SELECT t.task_id
    FROM waiting AS w
    LEFT JOIN rooms AS r ON r.prize_id = w.prize_id
    CROSS JOIN LATERAL (
        SELECT t.task_id FROM tasks AS t
        WHERE t.tenant_id = $1 AND t.prize_id = w.prize_id AND t.status IN ('pending', 'retry')
          AND t.next_attempt_at <= now()
        ORDER BY t.next_attempt_at LIMIT least(r.places, $2) FOR UPDATE SKIP LOCKED
    ) AS t
),
abandoned AS (
    SELECT t.task_id FROM tasks AS t
    WHERE t.tenant_id = $1 AND t.status = 'delivering' AND t.lease_until <= now() AND t.attempts <= 5
      AND NOT EXISTS (SELECT FROM rooms AS r WHERE r.prize_id = t.prize_id AND r.places = 0)
    ORDER BY t.lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
),
suspected AS (
    -- Leased often, one of them may crash its workers. Together, all would be leased until they count as failed.
    SELECT t.task_id FROM tasks AS t
    WHERE t.tenant_id = $1 AND t.status = 'delivering' AND t.lease_until <= now() AND t.attempts > 5
      AND NOT EXISTS (SELECT FROM rooms AS r WHERE r.prize_id = t.prize_id AND r.places = 0)
    ORDER BY t.lease_until LIMIT 1 FOR UPDATE SKIP LOCKED
)
SELECT task_id FROM due UNION ALL SELECT task_id FROM abandoned UNION ALL SELECT task_id FROM suspected LIMIT $2

-- name: lease
-- Leases those of tasks $3 that are due, and returns them with their rewards and prizes.
-- No row: not due, leased by another worker, locked right now, or done.
-- is_erased: the claim form has required fields, no answers are stored, and the player was erased after the claim.
-- $1 tenant, $2 lease seconds, $4 lease owner. At most $6 of each of the prizes $5.
WITH picked AS MATERIALIZED (
    SELECT s.task_id
    FROM (
        SELECT n.task_id, t.prize_id, row_number() OVER (PARTITION BY t.prize_id ORDER BY n.nth) AS place
        FROM unnest($3::text[]) WITH ORDINALITY AS n (task_id, nth)
        CROSS JOIN LATERAL (
            SELECT t.prize_id FROM tasks AS t WHERE t.tenant_id = $1 AND t.task_id = n.task_id OFFSET 0
        ) AS t
    ) AS s
    LEFT JOIN unnest($5::text[], $6::bigint[]) AS r (prize_id, places) ON r.prize_id = s.prize_id
    WHERE r.places IS NULL OR s.place <= r.places
),
due AS (
    -- The prize's channel, not the task's: the prize may have changed since, and its config is of this channel.
    SELECT t.task_id, coalesce(p.channel, t.channel) AS channel, t.reward_id, r.status AS reward_status, r.name, r.type,
           r.value, r.quantity, r.game_id, r.play_id, r.milestone_id, r.won_at, r.claimed_at,
           coalesce(p.channel_config, '{}') AS channel_config, coalesce(p.name, r.name) AS prize_name,
           coalesce(p.type, r.type) AS prize_type, coalesce(p.value, r.value) AS prize_value, p.claim_fields
    FROM picked AS n
    -- SKIP LOCKED: another worker or an admin has the row. Nothing is waited for, so nothing can deadlock.
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.reward_id, t.prize_id, t.channel FROM tasks AS t
        WHERE t.tenant_id = $1 AND t.task_id = n.task_id
          AND CASE t.status
              WHEN 'pending' THEN t.next_attempt_at IS NULL OR t.next_attempt_at <= now()
              WHEN 'retry' THEN t.next_attempt_at IS NULL OR t.next_attempt_at <= now()
              WHEN 'delivering' THEN t.lease_until <= now()
              ELSE false END
        FOR UPDATE SKIP LOCKED
    ) AS t
    CROSS JOIN LATERAL (
        SELECT r.* FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.reward_id = t.reward_id AND r.status NOT IN ('fulfilled', 'expired', 'revoked')
        FOR UPDATE SKIP LOCKED
    ) AS r
    LEFT JOIN LATERAL (
        SELECT p.* FROM prizes AS p WHERE p.tenant_id = $1 AND p.prize_id = t.prize_id OFFSET 0
    ) AS p ON true
),
leased AS (
    UPDATE tasks AS t SET
        status = 'delivering',
        channel = d.channel,
        attempts = t.attempts + 1,
        lease_until = now() + make_interval(secs => $2),
        lease_owner = $4,
        updated_at = now()
    FROM due AS d
    WHERE t.tenant_id = $1 AND t.task_id = d.task_id
    RETURNING t.task_id, t.reward_id, t.prize_id, t.campaign_id, t.player_id, t.channel, t.attempts, t.created_at
),
begun AS (
    -- Manual deliveries have no attempt: the reward's status stays.
    UPDATE rewards AS r SET status = 'fulfilling'
    FROM due AS d
    WHERE r.tenant_id = $1 AND r.reward_id = d.reward_id
      AND d.channel <> 'manual' AND d.reward_status <> 'fulfilling'
)
SELECT l.task_id, l.reward_id, l.prize_id, l.campaign_id, l.player_id, l.channel, l.attempts,
       unix(l.created_at) AS created_at, d.name, d.type, d.value, d.quantity, d.game_id, d.play_id, d.milestone_id,
       unix(d.won_at) AS won_at, unix(d.claimed_at) AS claimed_at, d.channel_config, d.prize_name, d.prize_type,
       d.prize_value, coalesce(a.answers, '[]') AS answers,
       CASE WHEN a.answers IS NULL AND d.claim_fields @> '[{"required": true}]' THEN EXISTS (
           SELECT FROM players AS e WHERE e.tenant_id = $1 AND e.player_id = l.player_id AND e.erased_at >= d.claimed_at)
       ELSE false END AS is_erased
FROM leased AS l
JOIN due AS d USING (task_id)
LEFT JOIN LATERAL (
    SELECT a.answers FROM claim_answers AS a WHERE a.tenant_id = $1 AND a.reward_id = l.reward_id OFFSET 0
) AS a ON true

-- name: record
-- Records the results of attempts on their tasks and rewards. $2.. are arrays with a position per attempt: task, lease
-- owner, status ('put_back': no attempt was made), error, external id, seconds until the next attempt or callback timeout
-- (0: none), start of the receiver's response, duration in milliseconds.
-- The receiver's texts are not stored if the player was erased since the claim.
-- A missing row: the lease was taken over, or a callback or revoke came first; nothing is changed.
-- failed_reward_id: the reward of a delivery that failed for good; the caller returns its stock.
WITH results AS MATERIALIZED (
    SELECT g.*, t.reward_id
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[], $8::text[], $9::integer[])
        AS g (task_id, lease_owner, status, last_error, external_id, delay_seconds, answer, duration_ms)
    CROSS JOIN LATERAL (
        SELECT t.reward_id FROM tasks AS t WHERE t.tenant_id = $1 AND t.task_id = g.task_id OFFSET 0
    ) AS t
    ORDER BY t.reward_id
),
rewards_locked AS MATERIALIZED (
    SELECT r.reward_id, EXISTS (
        SELECT FROM players AS e WHERE e.tenant_id = $1 AND e.player_id = r.player_id AND e.erased_at >= r.since) AS is_erased
    FROM results AS g
    CROSS JOIN LATERAL (
        SELECT r.reward_id, r.player_id, coalesce(r.claimed_at, r.won_at) AS since FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.reward_id = g.reward_id FOR UPDATE
    ) AS r
),
locked AS (
    SELECT g.*
    FROM (SELECT count(*) AS n FROM rewards_locked) AS all_rewards
    CROSS JOIN (
        SELECT s.*, w.is_erased FROM results AS s LEFT JOIN rewards_locked AS w USING (reward_id) ORDER BY s.task_id
    ) AS g
    CROSS JOIN LATERAL (
        SELECT t.task_id FROM tasks AS t
        -- Only a task being delivered has an owner.
        WHERE t.tenant_id = $1 AND t.task_id = g.task_id AND t.lease_owner = g.lease_owner AND all_rewards.n >= 0
        FOR UPDATE
    ) AS t
),
recorded AS (
    UPDATE tasks AS t SET
        status = CASE h.status WHEN 'put_back' THEN 'retry' ELSE h.status END,
        attempts = t.attempts - CASE h.status WHEN 'put_back' THEN 1 ELSE 0 END,
        last_error = CASE
            WHEN h.status = 'put_back' THEN t.last_error
            WHEN h.is_erased AND h.last_error <> '' THEN 'the player was erased'
            ELSE h.last_error
        END,
        external_id = CASE WHEN h.external_id = '' OR h.is_erased THEN t.external_id ELSE h.external_id END,
        next_attempt_at = CASE WHEN h.status IN ('retry', 'put_back')
            THEN now() + make_interval(secs => h.delay_seconds) END,
        lease_until = CASE WHEN h.status = 'awaiting' AND h.delay_seconds > 0
            THEN now() + make_interval(secs => h.delay_seconds) END,
        lease_owner = '',
        updated_at = now(),
        tried_at = CASE h.status WHEN 'put_back' THEN t.tried_at ELSE now() END,
        duration_ms = CASE h.status WHEN 'put_back' THEN t.duration_ms ELSE h.duration_ms END,
        answer = CASE WHEN h.status = 'put_back' THEN t.answer WHEN h.is_erased THEN '' ELSE h.answer END,
        earlier = CASE WHEN h.status = 'put_back' OR t.tried_at IS NULL THEN t.earlier
            ELSE append_attempt(t.earlier, t.tried_at, t.duration_ms, t.last_error, t.answer) END
    FROM locked AS h
    WHERE t.tenant_id = $1 AND t.task_id = h.task_id
    RETURNING t.task_id, h.status, t.reward_id
),
moved AS (
    UPDATE rewards AS r SET
        status = CASE WHEN h.status = 'delivered' THEN 'fulfilled' ELSE 'failed' END,
        fulfilled_at = CASE WHEN h.status = 'delivered' THEN now() END
    FROM locked AS h
    WHERE r.tenant_id = $1 AND r.reward_id = h.reward_id AND h.status IN ('delivered', 'dead')
      AND r.status NOT IN ('fulfilled', 'expired', 'revoked', 'failed')
    RETURNING r.reward_id, r.status
)
SELECT n.task_id, n.status, m.reward_id AS failed_reward_id
FROM recorded AS n LEFT JOIN moved AS m ON m.reward_id = n.reward_id AND m.status = 'failed'

-- name: tenants_with_due
-- Tenants with a task to lease. Reads all tenants; the leases are per tenant.
WITH RECURSIVE waiting (tenant_id, prize_id) AS (
    -- As in `lock_due`, over all tenants: the backlog of one would delay the sweep of all.
    (SELECT t.tenant_id, t.prize_id FROM tasks AS t WHERE t.status IN ('pending', 'retry')
     ORDER BY t.tenant_id, t.prize_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.prize_id
    FROM waiting AS w
    CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.prize_id FROM tasks AS t
        WHERE t.status IN ('pending', 'retry') AND (t.tenant_id, t.prize_id) > (w.tenant_id, w.prize_id)
        ORDER BY t.tenant_id, t.prize_id LIMIT 1
    ) AS n
)
SELECT w.tenant_id
FROM waiting AS w
CROSS JOIN LATERAL (
    SELECT FROM tasks AS t
    WHERE t.tenant_id = w.tenant_id AND t.prize_id = w.prize_id AND t.status IN ('pending', 'retry')
      AND t.next_attempt_at <= now()
    ORDER BY t.next_attempt_at LIMIT 1
) AS t
UNION
SELECT tenant_id FROM tasks WHERE status = 'delivering' AND lease_until <= now()

-- name: due
-- How many tasks are due, at most 10,000. Reads all tenants, through the index of waiting tasks.
SELECT count(*) FROM (
    SELECT FROM tasks WHERE status IN ('pending', 'retry') AND next_attempt_at <= now() LIMIT 10000
) AS due

-- name: tenants_with_overdue
-- Tenants with a task for `fail_overdue`. Reads all tenants.
SELECT DISTINCT tenant_id FROM tasks WHERE status = 'awaiting' AND lease_until <= now()

-- name: overdue
-- At most $2 of a tenant's tasks with a callback overdue, with the rewards and prizes to lock. No row: none.
SELECT task_id, reward_id, prize_id FROM tasks
WHERE tenant_id = $1 AND status = 'awaiting' AND lease_until <= now()
ORDER BY lease_until LIMIT $2

-- name: fail_overdue
-- Fails those of tasks $2, of rewards $3, that are still overdue, with error $4. SKIP LOCKED: a row in use by a callback
-- or an admin is left to them, and checked again in the next run.
-- failed_reward_id: the reward that failed with its task; the caller has locked its stock and returns it.
WITH rewards_locked AS MATERIALIZED (
    SELECT r.reward_id FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.reward_id = ANY($3::text[]) ORDER BY r.reward_id FOR UPDATE SKIP LOCKED
),
locked AS MATERIALIZED (
    SELECT t.task_id, t.reward_id
    FROM (SELECT array_agg(reward_id) AS reward_ids FROM rewards_locked) AS h
    JOIN tasks AS t ON t.tenant_id = $1 AND t.task_id = ANY($2::text[]) AND t.reward_id = ANY(h.reward_ids)
        AND t.status = 'awaiting' AND t.lease_until <= now()
    ORDER BY t.task_id
    FOR UPDATE OF t SKIP LOCKED
),
recorded AS (
    UPDATE tasks AS t SET
        status = 'dead', last_error = $4, next_attempt_at = NULL, lease_until = NULL, updated_at = now()
    FROM locked AS h
    WHERE t.tenant_id = $1 AND t.task_id = h.task_id
    RETURNING t.task_id, t.reward_id, t.prize_id
),
moved AS (
    UPDATE rewards AS r SET status = 'failed'
    FROM recorded AS n
    WHERE r.tenant_id = $1 AND r.reward_id = n.reward_id AND r.status IN ('won', 'claimed', 'fulfilling')
    RETURNING r.reward_id
)
SELECT n.task_id, n.prize_id, m.reward_id AS failed_reward_id
FROM recorded AS n LEFT JOIN moved AS m ON m.reward_id = n.reward_id

-- name: dead
-- Those of tasks $2 that are dead, and since when, with their campaign's merchant.
SELECT t.updated_at AS at, t.task_id AS id, t.reward_id, t.player_id, t.prize_id, t.channel, t.attempts,
       t.last_error AS error, t.campaign_id, coalesce(c.merchant_id, '') AS merchant_id
FROM tasks AS t
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = t.campaign_id
WHERE t.tenant_id = $1 AND t.task_id = ANY($2::text[]) AND t.status = 'dead'

-- name: about
-- A task's reward, prize and last error. No row: no such task.
SELECT reward_id, prize_id, last_error FROM tasks WHERE tenant_id = $1 AND task_id = $2

-- name: complete
-- Applies a callback: $3 'delivered' or 'failed', $4 external id, $5 error, $6 the callback's id, $7 the seconds before
-- each next attempt, by attempts made; after the last the task is dead.
-- 'delivered' is accepted in every state but cancelled; 'failed' only while a result is expected. A callback id counts
-- once per prize, since receivers number theirs apart, for its first task; `misused`: it belongs to another task. A
-- callback during an attempt ends it, and the worker then records nothing. `outcome` is the task's new status; NULL:
-- unchanged. The caller has locked the reward.
-- The external id and the error are not stored if the player was erased since the claim. No row: no such task.
WITH locked AS (
    -- Before the callback's id: a wait for the task must not happen while holding the id, which others need.
    SELECT t.* FROM tasks AS t WHERE t.tenant_id = $1 AND t.task_id = $2 FOR UPDATE
),
callback AS (
    -- A concurrent callback with the same id waits here, holding only its own task, which nobody waits for.
    INSERT INTO callbacks AS c (tenant_id, callback_id, task_id)
    SELECT $1, h.prize_id || ' ' || $6, h.task_id FROM locked AS h WHERE $6 <> ''
    ON CONFLICT (tenant_id, callback_id) DO UPDATE SET uses = c.uses + 1
    RETURNING c.task_id, c.uses
),
decided AS (
    SELECT h.*,
        EXISTS (SELECT FROM callback AS n WHERE n.task_id <> h.task_id) AS misused,
        EXISTS (
            SELECT FROM rewards AS r JOIN players AS e ON e.tenant_id = $1 AND e.player_id = r.player_id
            WHERE r.tenant_id = $1 AND r.reward_id = h.reward_id AND e.erased_at >= coalesce(r.claimed_at, r.won_at)
        ) AS is_erased,
        CASE
            WHEN EXISTS (SELECT FROM callback AS n WHERE n.uses > 1) THEN NULL
            WHEN $3 = 'delivered' AND h.status NOT IN ('delivered', 'cancelled') THEN 'delivered'
            WHEN $3 = 'failed' AND h.status IN ('awaiting', 'delivering')
                THEN CASE WHEN h.attempts > cardinality($7::float8[]) THEN 'dead' ELSE 'retry' END
        END AS outcome
    FROM locked AS h
),
recorded AS (
    UPDATE tasks AS t SET
        status = d.outcome,
        external_id = CASE WHEN $4 = '' OR d.is_erased THEN t.external_id ELSE $4 END,
        last_error = CASE WHEN $3 = 'failed' AND NOT d.is_erased THEN $5 ELSE '' END,
        next_attempt_at = CASE WHEN d.outcome = 'retry'
            THEN now() + make_interval(secs => ($7::float8[])[greatest(d.attempts, 1)]) END,
        lease_until = NULL,
        lease_owner = '',
        updated_at = now(),
        tried_at = CASE d.status WHEN 'delivering' THEN now() ELSE t.tried_at END,
        duration_ms = CASE d.status WHEN 'delivering' THEN 0 ELSE t.duration_ms END,
        answer = CASE d.status WHEN 'delivering' THEN '' ELSE t.answer END,
        earlier = CASE WHEN d.status <> 'delivering' OR t.tried_at IS NULL THEN t.earlier
            ELSE append_attempt(t.earlier, t.tried_at, t.duration_ms, t.last_error, t.answer) END
    FROM decided AS d
    WHERE t.tenant_id = $1 AND t.task_id = d.task_id AND d.outcome IS NOT NULL
    RETURNING t.*
),
moved AS (
    UPDATE rewards AS r SET
        status = CASE WHEN n.status = 'delivered' THEN 'fulfilled' ELSE 'failed' END,
        fulfilled_at = CASE WHEN n.status = 'delivered' THEN now() END
    FROM recorded AS n
    WHERE r.tenant_id = $1 AND r.reward_id = n.reward_id AND n.status IN ('delivered', 'dead')
      AND r.status IN ('won', 'claimed', 'fulfilling', 'failed')
)
SELECT d.outcome, d.misused, coalesce(n.status, d.status) AS status, d.task_id, d.reward_id, d.prize_id, d.campaign_id,
       d.player_id, d.channel, d.attempts, coalesce(n.last_error, d.last_error) AS last_error,
       unix(CASE WHEN n.task_id IS NULL THEN d.next_attempt_at ELSE n.next_attempt_at END) AS next_attempt_at,
       unix(d.created_at) AS created_at, unix(coalesce(n.updated_at, d.updated_at)) AS updated_at,
       (SELECT r.name FROM rewards AS r WHERE r.tenant_id = $1 AND r.reward_id = d.reward_id) AS prize_name
FROM decided AS d LEFT JOIN recorded AS n ON n.task_id = d.task_id

-- name: rearm
-- Makes a task due now, with all attempts again: from awaiting, retry, dead, or an expired lease; a pending one stays
-- pending. `rearmed` says whether it applied. The caller has locked the reward.
-- $3 the staff's merchant ('': the tenant). No row: not found or not writable.
WITH locked AS (
    SELECT t.* FROM tasks AS t
    WHERE t.tenant_id = $1 AND t.task_id = $2
      AND ($3 = '' OR t.campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))
    FOR UPDATE
),
armed AS (
    UPDATE tasks AS t SET status = 'pending', attempts = 0, next_attempt_at = now(), lease_until = NULL,
        lease_owner = '', updated_at = now()
    FROM locked AS h
    WHERE t.tenant_id = $1 AND t.task_id = h.task_id
      AND (h.status IN ('awaiting', 'retry', 'dead', 'pending')
           OR (h.status = 'delivering' AND h.lease_until <= now()))
    RETURNING t.*
),
moved AS (
    UPDATE rewards AS r SET status = 'fulfilling'
    FROM armed AS a WHERE r.tenant_id = $1 AND r.reward_id = a.reward_id AND r.status = 'failed'
)
SELECT a.task_id IS NOT NULL AS rearmed, coalesce(a.status, h.status) AS status, h.task_id, h.reward_id, h.prize_id,
       h.campaign_id, h.player_id, h.channel, coalesce(a.attempts, h.attempts) AS attempts, h.last_error,
       unix(coalesce(a.next_attempt_at, h.next_attempt_at)) AS next_attempt_at,
       unix(h.created_at) AS created_at, unix(coalesce(a.updated_at, h.updated_at)) AS updated_at,
       (SELECT r.name FROM rewards AS r WHERE r.tenant_id = $1 AND r.reward_id = h.reward_id) AS prize_name
FROM locked AS h LEFT JOIN armed AS a ON a.task_id = h.task_id

-- name: seen
-- No row: no task that staff of merchant $3 ('': the tenant's) may read or, with $4, write.
SELECT task_id FROM tasks
WHERE tenant_id = $1 AND task_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Tasks, the newest first. $2 status, $3 campaign, $4 prize ('' = any),
-- $5 the staff's merchant ('': the tenant), $6 after this id (NULL: from the first).
SELECT task_id, reward_id, prize_id, campaign_id, player_id, channel, status, attempts, last_error,
       unix(next_attempt_at) AS next_attempt_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
       (SELECT r.name FROM rewards AS r WHERE r.tenant_id = $1 AND r.reward_id = tasks.reward_id) AS prize_name
FROM tasks
WHERE tenant_id = $1 AND ($2 = '' OR status = $2) AND ($3 = '' OR campaign_id = $3) AND ($4 = '' OR prize_id = $4)
  AND ($5 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
  AND ($6::text IS NULL OR task_id < $6)
ORDER BY task_id DESC LIMIT $7

-- name: search
-- As `list`, for the players with contacts $6 (NULL: any), created from $7 to before $8 (unix seconds, 0: unbounded), with
-- ids from $9 to before $10, after $11. In a search by contact a merchant's staff finds only tasks that it may write.
WITH winners AS MATERIALIZED (
    SELECT c.player_id FROM contacts AS c
    WHERE c.tenant_id = $1 AND c.type IN ('phone', 'email') AND c.value = ANY ($6::text[])
)
SELECT task_id, reward_id, prize_id, campaign_id, player_id, channel, status, attempts, last_error,
       unix(next_attempt_at) AS next_attempt_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at,
       (SELECT r.name FROM rewards AS r WHERE r.tenant_id = $1 AND r.reward_id = t.reward_id) AS prize_name
FROM (
    -- One branch for the most selective key.
    (SELECT t.* FROM rewards AS r
     CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tenant_id = $1 AND reward_id = r.reward_id OFFSET 0) AS t
     WHERE r.tenant_id = $1 AND r.player_id = ANY (ARRAY(SELECT w.player_id FROM winners AS w)))
    UNION ALL
    (SELECT * FROM tasks WHERE tenant_id = $1 AND $6::text[] IS NULL AND task_id >= $9
       AND task_id < least($10, $11::text) ORDER BY task_id DESC OFFSET 0)
) AS t
WHERE ($2 = '' OR status = $2) AND ($3 = '' OR campaign_id = $3) AND ($4 = '' OR prize_id = $4)
  AND ($5 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $5, $6::text[] IS NOT NULL) AS o))
  AND ($7::bigint = 0 OR created_at >= at_unix($7)) AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($11::text IS NULL OR task_id < $11)
ORDER BY task_id DESC LIMIT $12

-- name: receiver
-- The config with the secret for a task's callbacks. No row: no such task.
SELECT t.prize_id, p.channel_config
FROM tasks AS t JOIN prizes AS p ON p.tenant_id = t.tenant_id AND p.prize_id = t.prize_id
WHERE t.tenant_id = $1 AND t.task_id = $2
