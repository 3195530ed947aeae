-- Queries on rewards, and their changes by admins and by expiry.
-- See runtime/operations/rewards/reward_queries.py and runtime/operations/rewards/reward_admin.py.

-- name: list
-- A player's rewards, newest first, after reward $8 (NULL: from the newest). Empty filters match all; $7 is one reward.
-- The encrypted code is included only if delivered and not revoked.
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, s.status, r.game_id,
       r.play_id, r.campaign_id, r.milestone_id, unix(r.won_at) AS won_at, unix(r.claimed_at) AS claimed_at,
       unix(r.fulfilled_at) AS fulfilled_at, unix(r.expires_at) AS expires_at, c.key_id, c.ciphertext,
       prize_content(p) AS prize
FROM rewards AS r
CROSS JOIN LATERAL (
    SELECT reward_status(
        r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
    ) AS status
) AS s
LEFT JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id AND r.status = 'fulfilled'
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
WHERE r.tenant_id = $1
  AND r.player_id = $2
  AND ($3 = '' OR s.status = $3)
  AND ($4 = '' OR r.campaign_id = $4)
  AND ($5 = '' OR r.prize_id = $5)
  AND ($6 = '' OR r.game_id = $6)
  AND ($7 = '' OR r.reward_id = $7)
  AND ($8::text IS NULL OR r.reward_id < $8)
ORDER BY r.reward_id DESC
LIMIT $9

-- name: search
-- All players' rewards, newest first, after reward $8 (NULL: from the newest). Empty filters match all.
-- $7 the staff's merchant ('': the tenant).
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, s.status, r.game_id,
       r.play_id, r.campaign_id, r.milestone_id, unix(r.won_at) AS won_at, unix(r.claimed_at) AS claimed_at,
       unix(r.fulfilled_at) AS fulfilled_at, unix(r.expires_at) AS expires_at,
       EXISTS (SELECT FROM claim_answers AS a WHERE a.tenant_id = $1 AND a.reward_id = r.reward_id) AS answered,
       coalesce(
           (SELECT t.channel FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id),
           (SELECT p.channel FROM prizes AS p WHERE p.tenant_id = $1 AND p.prize_id = r.prize_id),
           'none'
       ) AS channel
FROM (
    -- Each branch is ordered by its key, so that the scan stops with the page. The generic plan would otherwise read
    -- all rewards, filter and sort.
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $6 <> '' AND player_id = $6 AND ($8::text IS NULL OR reward_id < $8)
     ORDER BY reward_id DESC OFFSET 0)
    UNION ALL
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $6 = '' AND ($8::text IS NULL OR reward_id < $8)
     ORDER BY reward_id DESC OFFSET 0)
) AS r
CROSS JOIN LATERAL (
    SELECT reward_status(
        r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
    ) AS status
) AS s
WHERE ($2 = '' OR s.status = $2)
  AND ($3 = '' OR r.campaign_id = $3)
  AND ($4 = '' OR r.prize_id = $4)
  AND ($5 = '' OR r.game_id = $5)
  AND ($7 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $7, false) AS o))
ORDER BY r.reward_id DESC
LIMIT $9

-- name: get
-- Reward $2 as in `search`, with the winner's answers. $3 the staff's merchant ('': the tenant),
-- $4 whether to write. theirs: whether they may also write it. No row: not found or not permitted.
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity,
       reward_status(
           r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = $2)
       ) AS status,
       r.game_id, r.play_id, r.campaign_id, r.milestone_id, unix(r.won_at) AS won_at,
       unix(r.claimed_at) AS claimed_at, unix(r.fulfilled_at) AS fulfilled_at, unix(r.expires_at) AS expires_at,
       coalesce(
           (SELECT t.channel FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id),
           (SELECT p.channel FROM prizes AS p WHERE p.tenant_id = $1 AND p.prize_id = r.prize_id),
           'none'
       ) AS channel,
       a.answers IS NOT NULL AS answered, coalesce(a.answers, '[]') AS answers,
       $3 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o) AS theirs
FROM rewards AS r
LEFT JOIN claim_answers AS a ON a.tenant_id = $1 AND a.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.reward_id = $2
  AND ($3 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: as_claimed
-- Rewards ($2) as their claims returned them, whatever happened later: claimed, or fulfilled if the claim itself
-- delivered (both times are then equal). The response to a replayed claim, if `given` equals its answers. The claim
-- statement cannot read them: its snapshot may be older than the concurrent claim that it waited for.
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, r.game_id, r.play_id, r.campaign_id,
       r.milestone_id, unix(r.won_at) AS won_at, unix(r.claimed_at) AS claimed_at, unix(r.expires_at) AS expires_at,
       CASE WHEN r.fulfilled_at = r.claimed_at THEN 'fulfilled' ELSE 'claimed' END AS status,
       CASE WHEN r.fulfilled_at = r.claimed_at THEN unix(r.fulfilled_at) ELSE 0 END AS fulfilled_at,
       c.key_id, c.ciphertext, prize_content(p) AS prize, coalesce(answers_as_object(a.answers), '{}') AS given
FROM rewards AS r
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
LEFT JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id AND r.fulfilled_at = r.claimed_at
LEFT JOIN claim_answers AS a ON a.tenant_id = $1 AND a.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.reward_id = ANY($2::text[]) AND r.claimed_at IS NOT NULL

-- name: about
-- A reward's player, prize, type and campaign. No row: no such reward.
SELECT player_id, prize_id, type, campaign_id FROM rewards WHERE tenant_id = $1 AND reward_id = $2

-- name: lock_turns
-- Locks the turns of player $2 in campaign $3 before a revoke takes some. No row: the player never had turns.
SELECT balance FROM turn_balances WHERE tenant_id = $1 AND player_id = $2 AND campaign_id = $3 FOR NO KEY UPDATE

-- name: take_back_turns
-- Takes back from player $2 the turns that reward $3 gave, as entry $4. No row: too few turns remain.
WITH granted AS (
    SELECT r.campaign_id, trunc(r.value)::bigint * r.quantity AS amount FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.reward_id = $3 AND r.type = 'turns'
),
taken AS (
    UPDATE turn_balances AS t SET balance = t.balance - g.amount, updated_at = now()
    FROM granted AS g
    WHERE t.tenant_id = $1 AND t.player_id = $2 AND t.campaign_id = g.campaign_id AND t.balance >= g.amount
    RETURNING t.campaign_id, g.amount, t.balance
)
INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
SELECT $1, $4, campaign_id, $2, -amount, balance, 'reversal', $3 FROM taken
RETURNING balance_after

-- name: lock_balances
-- Locks the balances, in key order, that reward $3 moved, and returns the amounts. They belong to its player ($2) or to
-- the player that this guest was merged into.
SELECT b.player_id, b.scope_key, b.currency, e.amount
FROM (
    SELECT player_id, scope_key, currency, sum(amount)::bigint AS amount FROM ledger_entries
    WHERE tenant_id = $1 AND reward_id = $3
      AND player_id IN ($2, (SELECT p.merged_into FROM players AS p WHERE p.tenant_id = $1 AND p.player_id = $2))
    GROUP BY player_id, scope_key, currency HAVING sum(amount) <> 0
) AS e
JOIN balances AS b ON b.tenant_id = $1 AND b.player_id = e.player_id
    AND b.scope_key = e.scope_key AND b.currency = e.currency
ORDER BY b.player_id, b.scope_key, b.currency
FOR NO KEY UPDATE OF b

-- name: lock_stock
-- Locks the stock of prizes $2, in key order, before rewards return or take some.
SELECT prize_id FROM stock WHERE tenant_id = $1 AND prize_id = ANY($2::text[]) ORDER BY prize_id FOR NO KEY UPDATE

-- name: lock_codes
-- Locks the codes of rewards $2, which may be freed. No row: they have none.
SELECT code_id FROM codes WHERE tenant_id = $1 AND reward_id = ANY($2::text[])
ORDER BY prize_id, code_id FOR NO KEY UPDATE

-- name: lock
-- Locks the reward and returns its stored status. No row: no such reward.
SELECT status FROM rewards WHERE tenant_id = $1 AND reward_id = $2 FOR UPDATE

-- name: lock_task
-- Locks the reward's task. No row: no delivery is due yet.
SELECT task_id FROM tasks WHERE tenant_id = $1 AND reward_id = $2 FOR UPDATE

-- name: get_locked
-- A reward that the caller has locked. $3 the staff's merchant ('': the tenant), $4 whether to write.
-- No row: not found or not permitted.
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity,
       reward_status(
           r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = $2)
       ) AS status,
       r.game_id, r.play_id, r.campaign_id, r.milestone_id, unix(r.won_at) AS won_at,
       unix(r.claimed_at) AS claimed_at, unix(r.fulfilled_at) AS fulfilled_at, unix(r.expires_at) AS expires_at,
       coalesce((SELECT t.channel FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = $2), p.channel, 'none')
           AS channel,
       prize_content(p) AS prize
FROM rewards AS r
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = r.prize_id
WHERE r.tenant_id = $1 AND r.reward_id = $2
  AND ($3 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: return_stock
-- Returns the stock and the unseen codes of rewards $2. The caller has locked both and has moved each reward out of the
-- statuses that hold stock. An unlimited prize has only a count to reduce.
WITH restocked AS (
    -- At most what is awarded: a prize that was unlimited at the win may have counted less.
    UPDATE stock AS s SET
        awarded = s.awarded - least(n.quantity, s.awarded),
        remaining = CASE WHEN s.total = 0 THEN 0 ELSE s.remaining + least(n.quantity, s.awarded) END
    FROM (
        SELECT prize_id, sum(quantity)::bigint AS quantity FROM rewards
        WHERE tenant_id = $1 AND reward_id = ANY($2::text[]) GROUP BY prize_id
    ) AS n
    WHERE s.tenant_id = $1 AND s.prize_id = n.prize_id
)
UPDATE codes SET reward_id = NULL, assigned_at = NULL WHERE tenant_id = $1 AND reward_id = ANY($2::text[])

-- name: retake_stock
-- Takes stock again for reward $2, which returned it when its delivery failed. No row: sold out.
UPDATE stock AS s SET
    awarded = s.awarded + r.quantity,
    remaining = CASE WHEN s.total = 0 THEN 0 ELSE s.remaining - r.quantity END
FROM rewards AS r
WHERE r.tenant_id = $1 AND r.reward_id = $2 AND s.tenant_id = $1 AND s.prize_id = r.prize_id
  AND (s.total = 0 OR s.remaining >= r.quantity)
RETURNING s.prize_id

-- name: take_code
-- Assigns a free code of prize $2 to reward $3 in one of the statuses $4, unless it has one. A code that expired before
-- the delivery began is replaced. No row: the reward has another status, or it has no code and none is free.
WITH
own AS MATERIALIZED (
    SELECT key_id, ciphertext, expires_at FROM codes WHERE tenant_id = $1 AND reward_id = $3 FOR NO KEY UPDATE
),
reward AS MATERIALIZED (
    -- Locked after its code: otherwise a concurrent revoke would return its code before it gets this one.
    SELECT r.status
    FROM (SELECT count(*) AS n FROM own) AS o
    CROSS JOIN LATERAL (
        SELECT r.status FROM rewards AS r
        WHERE r.tenant_id = $1 AND r.reward_id = $3 AND r.status = ANY($4::text[]) AND o.n >= 0 FOR NO KEY UPDATE
    ) AS r
),
assigned AS (
    SELECT o.key_id, o.ciphertext FROM own AS o CROSS JOIN reward AS r
    WHERE o.expires_at > now() OR r.status NOT IN ('won', 'claimed')
),
picked AS (
    SELECT c.code_id FROM codes AS c
    WHERE c.tenant_id = $1 AND c.prize_id = $2 AND c.reward_id IS NULL AND c.withdrawn_at IS NULL AND c.expires_at > now()
      AND EXISTS (SELECT FROM reward) AND NOT EXISTS (SELECT FROM assigned)
    ORDER BY c.expires_at, c.code_id LIMIT 1 FOR UPDATE SKIP LOCKED
),
released AS (
    UPDATE codes SET reward_id = NULL, assigned_at = NULL
    WHERE tenant_id = $1 AND reward_id = $3 AND EXISTS (SELECT FROM picked)
    RETURNING code_id
),
taken AS (
    -- After the release: a reward has one code (codes_reward).
    UPDATE codes AS c SET reward_id = $3, assigned_at = now()
    FROM picked AS p WHERE c.tenant_id = $1 AND c.prize_id = $2 AND c.code_id = p.code_id
      AND (SELECT count(*) FROM released) >= 0
    RETURNING c.key_id, c.ciphertext
)
SELECT key_id, ciphertext FROM assigned UNION ALL SELECT key_id, ciphertext FROM taken

-- name: fulfill
-- Marks a reward as delivered by an admin, from one of the statuses $3, with its task (created as $4 over channel $5 if
-- missing). No row: it had another status.
WITH
moved AS (
    UPDATE rewards SET status = 'fulfilled', fulfilled_at = now()
    WHERE tenant_id = $1 AND reward_id = $2 AND status = ANY($3::text[])
    RETURNING reward_id, prize_id, campaign_id, player_id, unix(fulfilled_at) AS fulfilled_at
),
delivered AS (
    INSERT INTO tasks AS t (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, attempts)
    SELECT $1, $4, n.reward_id, n.prize_id, n.campaign_id, n.player_id, $5, 'delivered', 1 FROM moved AS n
    ON CONFLICT (tenant_id, reward_id) DO UPDATE SET
        status = 'delivered', attempts = greatest(t.attempts, 1), next_attempt_at = NULL, lease_until = NULL, lease_owner = '', updated_at = now()
)
SELECT fulfilled_at FROM moved

-- name: code
-- The code of reward $2 while it is delivered. No row: it has none.
SELECT c.key_id, c.ciphertext
FROM codes AS c
JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = $2
WHERE c.tenant_id = $1 AND c.reward_id = $2 AND r.status = 'fulfilled'

-- name: sealed
-- The encrypted code of reward $2, once delivered. $3 the staff's merchant ('': the tenant), $4 whether
-- to write. No row: not found or not permitted.
SELECT r.player_id, r.prize_id, r.name, c.key_id, c.ciphertext
FROM rewards AS r
LEFT JOIN codes AS c ON c.tenant_id = $1 AND c.reward_id = r.reward_id AND r.status = 'fulfilled'
WHERE r.tenant_id = $1 AND r.reward_id = $2
  AND ($3 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: contact
-- The verified contact of player $2 to send to, of one of the types $3: an e-mail address before a phone number, then
-- the newest. No row: the player has none.
SELECT type, value FROM contacts
WHERE tenant_id = $1 AND player_id = $2 AND verified AND type = ANY($3::text[])
ORDER BY type, created_at DESC, contact_id DESC LIMIT 1

-- name: revoke
-- Revokes a reward from one of the statuses $3, and cancels its task unless delivered. No row: it had another status.
WITH
moved AS (
    UPDATE rewards SET status = 'revoked'
    WHERE tenant_id = $1 AND reward_id = $2 AND status = ANY($3::text[])
    RETURNING reward_id
),
cancelled AS (
    UPDATE tasks AS t SET
        status = 'cancelled', next_attempt_at = NULL, lease_until = NULL, lease_owner = '', updated_at = now()
    FROM moved AS n
    WHERE t.tenant_id = $1 AND t.reward_id = n.reward_id AND t.status <> 'delivered'
)
SELECT reward_id FROM moved

-- name: tenants_with_expired
-- Tenants with rewards to expire.
SELECT t.tenant_id FROM tenants AS t
WHERE EXISTS (
    SELECT FROM rewards AS r
    WHERE r.tenant_id = t.tenant_id AND r.status = 'won' AND r.expires_at <= now()
      AND NOT EXISTS (SELECT FROM tasks AS k WHERE k.tenant_id = t.tenant_id AND k.reward_id = r.reward_id)
)
ORDER BY t.tenant_id

-- name: overdue
-- At most $2 of a tenant's overdue unclaimed rewards, with their prizes. No row: none.
SELECT r.reward_id, r.prize_id FROM rewards AS r
WHERE r.tenant_id = $1 AND r.status = 'won' AND r.expires_at <= now()
  AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
ORDER BY r.expires_at LIMIT $2

-- name: expire
-- Expires those of rewards $2 that are still overdue. SKIP LOCKED: a reward being claimed right now is left to that
-- claim, and checked again in the next run.
WITH late AS (
    SELECT r.reward_id FROM rewards AS r
    WHERE r.tenant_id = $1 AND r.reward_id = ANY($2::text[]) AND r.status = 'won' AND r.expires_at <= now()
      AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
    FOR UPDATE SKIP LOCKED
)
UPDATE rewards AS r SET status = 'expired' FROM late AS l
WHERE r.tenant_id = $1 AND r.reward_id = l.reward_id
RETURNING r.reward_id
