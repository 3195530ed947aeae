-- Voucher codes: how pools are filled, shown, changed and emptied. Codes are assigned in commit.sql, claims.sql and
-- rewards.sql.

-- name: add
-- Adds codes to a prize's pool. $1 tenant, $2 prize; $3.. arrays of a place per code: id, key id,
-- ciphertext, fingerprint. $7: fingerprints under older keys, and $8: the code id that each belongs to.
-- A row for each that the pool has already. NULL as the only row's code_id: none.
-- $9 the merchant whose staff asks ('' the tenant's own). $10 when each code expires (unix seconds, 0: never).
-- No row: there is no prize that it may write.
WITH owner AS (
    -- Locked against its deletion, not against plays.
    SELECT prize_id FROM prizes WHERE tenant_id = $1 AND prize_id = $2
      AND ($9 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $9, true) AS o))
    FOR KEY SHARE
),
given AS (
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
    FROM owner AS w, given AS g
    WHERE NOT EXISTS (SELECT FROM older AS o WHERE o.code_id = g.code_id)
    ORDER BY g.code_hash
    ON CONFLICT (tenant_id, prize_id, code_hash) DO NOTHING
    RETURNING code_id
)
SELECT g.code_id
FROM owner LEFT JOIN (
    SELECT code_id FROM given AS g WHERE NOT EXISTS (SELECT FROM added AS a WHERE a.code_id = g.code_id)
) AS g ON true

-- name: available
-- How many codes of the pool are free.
SELECT coalesce((SELECT free FROM free_codes WHERE tenant_id = $1 AND prize_id = $2), 0)

-- name: totals
-- How many codes of the pool there are of each state.
SELECT coalesce(sum(free) FILTER (WHERE expires_at > now()), 0)::bigint AS free,
       coalesce(sum(free) FILTER (WHERE expires_at <= now()), 0)::bigint AS expired,
       coalesce(sum(assigned), 0)::bigint AS assigned, coalesce(sum(withdrawn), 0)::bigint AS withdrawn
FROM code_ends WHERE tenant_id = $1 AND prize_id = $2

-- name: list
-- The pool's codes newest first, after $4, sealed as they are. $3 their state ('': any).
SELECT code_id AS id, key_id, ciphertext, code_state(reward_id, withdrawn_at, expires_at) AS state,
       coalesce(reward_id, '') AS reward_id, unix(created_at) AS created_at, unix(assigned_at) AS assigned_at,
       unix(withdrawn_at) AS withdrawn_at, unix(CASE WHEN isfinite(expires_at) THEN expires_at END) AS expires_at
FROM codes
WHERE tenant_id = $1 AND prize_id = $2
  AND ($3 = '' OR code_state(reward_id, withdrawn_at, expires_at) = $3)
  AND ($4::text IS NULL OR code_id < $4)
ORDER BY code_id DESC
LIMIT $5

-- name: free
-- At most $3 free codes of the pool: those that winners come to last, so that these seldom meet who withdraws them.
SELECT code_id FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NULL AND withdrawn_at IS NULL AND expires_at > now()
ORDER BY expires_at DESC, code_id DESC LIMIT $3

-- name: hold
-- Those of codes $3 that nobody won and that are not withdrawn, locked in their order. A rival's pick is waited for: it
-- may be undone.
SELECT code_id FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
ORDER BY code_id FOR NO KEY UPDATE

-- name: withdraw
-- Takes codes $3 out of the pool for good, but for those that somebody won or that were withdrawn before. The caller
-- holds them. Beside `hold` and not joined with it: of a pool that was just filled the planner knows nothing, and would
-- compare each code of it with each that is held.
UPDATE codes SET withdrawn_at = now()
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
RETURNING code_id

-- name: ending_otherwise
-- At most $6 codes of the pool in state $3 (free, expired) that end at $4 (unix seconds, 0: whenever) and not at $5 (0:
-- never): those that winners come to last, so that these seldom meet who changes them.
-- As ranges of the index, on each side of $5: what was changed before is not read again.
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
-- Has codes $3 of the pool end at $6 (unix seconds, 0: never), but for those that do, that somebody won or that were
-- withdrawn. Of state $4 ('': free or expired) alone, and of those that end at $5 (0: whenever). The caller holds them.
UPDATE codes SET expires_at = coalesce(at_unix($6), 'infinity')
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[]) AND reward_id IS NULL AND withdrawn_at IS NULL
  AND ($4 = '' OR code_state(reward_id, withdrawn_at, expires_at) = $4)
  AND ($5::bigint = 0 OR expires_at = at_unix($5)) AND expires_at <> coalesce(at_unix($6), 'infinity')
RETURNING code_id

-- name: states
-- What codes $3 of the pool are now. A missing row: it has none such.
SELECT code_id, code_state(reward_id, withdrawn_at, expires_at) AS state FROM codes
WHERE tenant_id = $1 AND prize_id = $2 AND code_id = ANY($3::text[])
