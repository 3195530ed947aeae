-- Voucher code pools: adding, listing, changing and withdrawing codes. commit.sql, claims.sql and rewards.sql assign
-- them.

-- name: lock_pool
-- An advisory lock of a prize's pool until the transaction ends. With $3, no other import runs: this one looks for codes
-- that another adds under an older key, which the unique index does not find. A statement before `add`, whose snapshot
-- must be later than the lock. No row is locked, so wins and changes of the prize do not wait.
SELECT CASE WHEN $3 THEN pg_advisory_xact_lock(key) ELSE pg_advisory_xact_lock_shared(key) END
FROM hashtextextended('tombola codes ' || $1::text || ' ' || $2::text, 0) AS key

-- name: add
-- Adds codes to a prize's pool. $1 tenant, $2 prize; $3.. arrays with a position per code: id, key id, ciphertext,
-- fingerprint. $7: fingerprints under older keys, and $8: the code id that each belongs to. One row per duplicate; a
-- single row with a NULL code_id: no duplicates. $9 the staff's merchant ('': the tenant). $10 when each code expires
-- (unix seconds, 0: never). No row: no such prize, or not writable.
WITH owner AS (
    -- KEY SHARE: blocks deletion of the prize, not plays.
    SELECT prize_id FROM prizes WHERE tenant_id = $1 AND prize_id = $2
      AND ($9 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $9, true) AS o))
    FOR KEY SHARE
),
new_codes AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bytea[], $10::bigint[])
        AS g (code_id, key_id, ciphertext, code_hash, expires_at)
),
older AS (
    SELECT o.code_id
    FROM unnest($7::bytea[], $8::text[]) AS o (code_hash, code_id)
    JOIN codes AS c ON c.tenant_id = $1 AND c.prize_id = $2 AND c.code_hash = o.code_hash
),
added AS (
    INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, expires_at)
    SELECT $1, w.prize_id, g.code_id, g.key_id, g.ciphertext, g.code_hash, coalesce(at_unix(g.expires_at), 'infinity')
    FROM owner AS w, new_codes AS g
    WHERE NOT EXISTS (SELECT FROM older AS o WHERE o.code_id = g.code_id)
    ORDER BY g.code_hash
    ON CONFLICT (tenant_id, prize_id, code_hash) DO NOTHING
    RETURNING code_id
)
SELECT g.code_id
FROM owner LEFT JOIN (
    SELECT code_id FROM new_codes AS g WHERE NOT EXISTS (SELECT FROM added AS a WHERE a.code_id = g.code_id)
) AS g ON true

-- name: available
-- The number of free codes in the pool.
SELECT coalesce((SELECT free FROM free_codes WHERE tenant_id = $1 AND prize_id = $2), 0)

-- name: totals
-- The number of codes in the pool per state.
SELECT coalesce(sum(free) FILTER (WHERE expires_at > now()), 0)::bigint AS free,
       coalesce(sum(free) FILTER (WHERE expires_at <= now()), 0)::bigint AS expired,
       coalesce(sum(assigned), 0)::bigint AS assigned, coalesce(sum(withdrawn), 0)::bigint AS withdrawn
FROM code_ends WHERE tenant_id = $1 AND prize_id = $2

-- name: list
-- The pool's codes newest first, after $4, encrypted. $3 their state ('': any).
SELECT code_id AS id, key_id, ciphertext, code_state(reward_id, withdrawn_at, expires_at) AS state,
       coalesce(reward_id, '') AS reward_id, unix(created_at) AS created_at, unix(assigned_at) AS assigned_at,
       unix(withdrawn_at) AS withdrawn_at, unix(CASE WHEN isfinite(expires_at) THEN expires_at END) AS expires_at
FROM codes
WHERE tenant_id = $1 AND prize_id = $2
  AND ($3 = '' OR code_state(reward_id, withdrawn_at, expires_at) = $3)
  AND ($4::text IS NULL OR code_id < $4)
ORDER BY code_id DESC
LIMIT $5

-- name: list_free
-- At most $3 free codes, those that wins take last, so that a withdrawal seldom conflicts with a win.
SELECT code_id FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NULL AND withdrawn_at IS NULL AND expires_at > now()
ORDER BY expires_at DESC, code_id DESC LIMIT $3

-- name: lock
-- Locks, in key order, those of codes $3 that are neither assigned nor withdrawn. Waits for concurrent picks, which may
-- be rolled back.
SELECT code_id FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
ORDER BY code_id FOR NO KEY UPDATE

-- name: withdraw
-- Withdraws codes $3 for good, except those assigned or withdrawn. The caller has locked them. Not joined with `lock`:
-- for a pool that was just filled the planner has no statistics, and would compare each code with each locked one.
UPDATE codes SET withdrawn_at = now()
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
RETURNING code_id

-- name: with_other_expiry
-- At most $6 codes of the pool in state $3 (free, expired) that expire at $4 (unix seconds, 0: any) but not at $5 (0:
-- never): those that wins take last, so that a change seldom conflicts with a win.
-- Two index ranges, one on each side of $5, so that codes already changed are not read again.
SELECT code_id FROM (
    (SELECT expires_at, code_id FROM codes
     WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NULL AND withdrawn_at IS NULL
       AND expires_at > greatest(at_unix($5), CASE $3 WHEN 'free' THEN now() END) AND $5::bigint <> 0
       AND expires_at >= coalesce(at_unix($4), '-infinity') AND expires_at <= coalesce(at_unix($4), 'infinity')
       AND expires_at <= CASE $3 WHEN 'expired' THEN now() ELSE 'infinity' END
     ORDER BY expires_at DESC, code_id DESC LIMIT $6::integer)
    UNION ALL
    (SELECT expires_at, code_id FROM codes
     WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NULL AND withdrawn_at IS NULL
       AND expires_at < coalesce(at_unix($5), 'infinity')
       AND expires_at >= coalesce(at_unix($4), '-infinity') AND expires_at <= coalesce(at_unix($4), 'infinity')
       AND expires_at > CASE $3 WHEN 'free' THEN now() ELSE '-infinity' END
       AND expires_at <= CASE $3 WHEN 'expired' THEN now() ELSE 'infinity' END
     ORDER BY expires_at DESC, code_id DESC LIMIT $6::integer)
) AS c
ORDER BY expires_at DESC, code_id DESC LIMIT $6

-- name: set_expiry
-- Sets the expiry of codes $3 to $6 (unix seconds, 0: never), except where it is the same or the code is assigned or
-- withdrawn. Only of state $4 ('': free or expired) and with expiry $5 (0: any). The caller has locked them.
UPDATE codes SET expires_at = coalesce(at_unix($6), 'infinity')
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
  AND ($4 = '' OR code_state(reward_id, withdrawn_at, expires_at) = $4)
  AND ($5::bigint = 0 OR expires_at = at_unix($5)) AND expires_at <> coalesce(at_unix($6), 'infinity')
RETURNING code_id

-- name: states
-- The states of codes $3. A missing row: not in the pool.
SELECT code_id, code_state(reward_id, withdrawn_at, expires_at) AS state FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[])
