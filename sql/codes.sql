-- Voucher codes: how pools are filled. Codes are assigned in commit.sql, claims.sql and fulfillment.sql.

-- name: add
-- Adds codes to a prize's pool. $1 tenant, $2 prize; $3.. arrays of a place per code: id, key id,
-- ciphertext, fingerprint. $7: fingerprints under older keys, and $8: the code id that each belongs to.
-- A row for each that the pool has already. NULL as the only row's code_id: none.
-- $9 the merchant whose staff asks ('' the tenant's own). No row: there is no prize that it may write.
WITH owner AS (
    -- Locked against its deletion, not against plays.
    SELECT prize_id FROM prizes WHERE tenant_id = $1 AND prize_id = $2
      AND ($9 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $9, true) AS o))
    FOR KEY SHARE
),
given AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bytea[]) AS g (code_id, key_id, ciphertext, code_hash)
),
older AS (
    SELECT o.code_id
    FROM unnest($7::bytea[], $8::text[]) AS o (code_hash, code_id)
    JOIN codes AS c ON c.tenant_id = $1 AND c.prize_id = $2 AND c.code_hash = o.code_hash
),
added AS (
    INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)
    SELECT $1, w.prize_id, g.code_id, g.key_id, g.ciphertext, g.code_hash
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
SELECT count(*) FROM codes WHERE tenant_id = $1 AND prize_id = $2 AND reward_id IS NULL
