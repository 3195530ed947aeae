-- Balances and their ledger. See runtime/operations/wallet.py.

-- name: balances
-- $1 tenant, $2 player, $3 scope_key ('' = all), $4 and $5 the scope and currency of the last one shown
-- (null at first), $6 how many.
SELECT scope_key, currency, balance, unix(updated_at) AS updated_at
FROM balances
WHERE tenant_id = $1 AND player_id = $2 AND ($3::text = '' OR scope_key = $3)
  AND ($4::text IS NULL OR (scope_key, currency) > ($4, $5::text))
ORDER BY scope_key, currency
LIMIT $6;

-- name: ledger
-- Newest first, in the order of the movements. $1 tenant, $2 player, $3 scope_key, $4 currency ('' = all),
-- $5 and $6 the seq and id of the last one shown (null at first), $7 how many.
SELECT entry_id, seq, currency, scope_key, amount, balance_after, reason, reference_id, unix(created_at) AS created_at
FROM ledger_entries
WHERE tenant_id = $1 AND player_id = $2
  -- No OR: with one, a generic plan could not start at the cursor.
  AND (seq, entry_id) < (coalesce($5::bigint, 9223372036854775807), coalesce($6::text, ''))
  AND ($3::text = '' OR scope_key = $3) AND ($4::text = '' OR currency = $4)
ORDER BY seq DESC, entry_id DESC
LIMIT $7;

-- name: move
-- Moves a balance and records the entry. No row: insufficient balance. $1 tenant, $2 player, $3 scope_key, $4 currency,
-- $5 amount, $6 entry id, $7 reason, $8 reference id, $9 the reward that the movement belongs to ('' = none).
WITH added AS (
    INSERT INTO balances AS b (tenant_id, scope_key, currency, player_id, balance, seq)
    SELECT $1, $3, $4, $2, $5::bigint, microseconds() WHERE $5 > 0
    ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET
        balance = b.balance + excluded.balance, seq = greatest(b.seq + 1, microseconds()), updated_at = now()
    RETURNING balance, seq
),
taken AS (
    UPDATE balances SET balance = balance + $5, seq = greatest(seq + 1, microseconds()), updated_at = now()
    WHERE tenant_id = $1 AND player_id = $2 AND scope_key = $3 AND currency = $4 AND $5 < 0 AND balance + $5 >= 0
    RETURNING balance, seq
),
entry AS (
    INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                reason, reference_id, reward_id)
    SELECT $1, $6, moved.seq, $3, $4, $2, $5, moved.balance, $7, $8, $9
    FROM (SELECT * FROM added UNION ALL SELECT * FROM taken) AS moved
    RETURNING *
)
SELECT entry_id, currency, scope_key, amount, balance_after, reason, reference_id, unix(created_at) AS created_at
FROM entry;

-- name: balance
-- $1 tenant, $2 player, $3 scope_key, $4 currency. No row: never had any.
SELECT balance FROM balances WHERE tenant_id = $1 AND player_id = $2 AND scope_key = $3 AND currency = $4;

-- name: target
-- Whether the player exists, and the wallet: a campaign's, a merchant's or the tenant's. `own`: whether staff of
-- merchant $4 ('': the tenant's) may move it; `scope`: whether they may see it. $1 tenant, $2 player, $3 scope_key.
SELECT EXISTS (SELECT FROM players WHERE tenant_id = $1 AND player_id = $2) AS player,
       $3::text = $1::text
       OR $3 IN (SELECT o FROM campaigns_of($1, $4, false) AS o WHERE o <> '')
       OR EXISTS (SELECT FROM merchants WHERE tenant_id = $1 AND merchant_id = $3 AND ($4 = '' OR merchant_id = $4)) AS scope,
       $4 = '' OR $3 = $4 OR $3 IN (SELECT o FROM campaigns_of($1, $4, true) AS o) AS own;
