-- Packs of codes: management, and their codes. See runtime/operations/packs. Lock order: tenant, codes, pack.

-- name: insert
-- $1 tenant, $2 pack, $3 campaign, $4 name, $5 status, $6 turns, $7 currency, $8 scope_key, $9 amount, $10 until in unix
-- seconds. The caller has checked that it may write the campaign.
INSERT INTO packs (tenant_id, pack_id, campaign_id, name, status, turns, currency, scope_key, amount, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, at_unix($10));

-- name: store_key
-- The campaign's key of hashes. $1 tenant, $2 campaign, $3 the encrypted secret. No effect: it has one.
INSERT INTO pack_keys (tenant_id, campaign_id, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: key
-- The encrypted key of a campaign's hashes. $1 tenant, $2 campaign. No row: it never had a pack.
SELECT sealed FROM pack_keys WHERE tenant_id = $1 AND campaign_id = $2;

-- name: get
-- $1 tenant, $2 pack, $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT p.pack_id AS id, p.campaign_id, p.name, p.status, p.turns, p.currency, p.scope_key, p.amount,
       unix(p.until) AS until, p.codes, p.codes - p.withdrawn - n.used AS free, n.used, p.withdrawn, n.receipts,
       p.signing ? 'secret' AS secret_set, unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM packs AS p
CROSS JOIN LATERAL (
    SELECT count(r.code_hash)::integer AS used, count(r.receipt_id)::integer AS receipts
    FROM redemptions AS r WHERE r.tenant_id = $1 AND r.pack_id = p.pack_id
) AS n
WHERE p.tenant_id = $1 AND p.pack_id = $2
  AND ($3 = '' OR p.campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o));

-- name: owner
-- As `get`, without the counts, which read every redemption.
SELECT pack_id AS id, campaign_id, name, status, turns, currency, scope_key, amount, unix(until) AS until
FROM packs WHERE tenant_id = $1 AND pack_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o));

-- name: any_active
-- Whether players of a campaign can enter codes. $1 tenant, $2 campaign.
SELECT EXISTS (SELECT FROM packs WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active');

-- name: list
-- Newest first. $1 tenant, $2 campaign, $3 status ('' = any but archived), $4 LIKE pattern of the name, $5 the staff's
-- merchant ('': the tenant), $6 the id of the last one shown (null at first), $7 how many.
SELECT p.pack_id AS id, p.campaign_id, p.name, p.status, p.turns, p.currency, p.scope_key, p.amount,
       unix(p.until) AS until, p.codes, p.codes - p.withdrawn - n.used AS free, n.used, p.withdrawn, n.receipts,
       p.signing ? 'secret' AS secret_set, unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at
FROM (
    SELECT * FROM packs
    WHERE tenant_id = $1 AND ($2::text = '' OR campaign_id = $2)
      AND CASE WHEN $3::text = '' THEN status <> 'archived' ELSE status = $3 END
      AND name ILIKE $4 AND ($5 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
      AND ($6::text IS NULL OR pack_id < $6)
    ORDER BY pack_id DESC
    LIMIT $7
) AS p
CROSS JOIN LATERAL (
    SELECT count(r.code_hash)::integer AS used, count(r.receipt_id)::integer AS receipts
    FROM redemptions AS r WHERE r.tenant_id = $1 AND r.pack_id = p.pack_id
) AS n
ORDER BY p.pack_id DESC;

-- name: update
-- $1 tenant, $2 pack, $3 name, $4 status, $5 turns, $6 currency, $7 scope_key, $8 amount, $9 until in unix seconds. The
-- caller has locked the tenant and read the pack.
UPDATE packs SET name = $3, status = $4, turns = $5, currency = $6, scope_key = $7, amount = $8, until = at_unix($9),
                 updated_at = now()
WHERE tenant_id = $1 AND pack_id = $2;

-- name: remove
-- Deletes a pack that never had codes or receipts. $1 tenant, $2 pack. No row: it has.
DELETE FROM packs AS p WHERE p.tenant_id = $1 AND p.pack_id = $2 AND p.codes = 0
  AND NOT EXISTS (SELECT FROM redemptions AS r WHERE r.tenant_id = $1 AND r.pack_id = $2)
RETURNING pack_id;

-- name: archive
-- Closes a pack for good; its codes stay. $1 tenant, $2 pack.
UPDATE packs SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND pack_id = $2;

-- name: add
-- Adds codes to a pack, and counts them. $1 tenant, $2 pack, $3 the staff's merchant ('': the tenant), $4 the hashes.
-- One row per code that the campaign has already; a single row with a NULL code_hash: none. No row: no such pack, not
-- writable, archived, or it credits the tenant's wallet for a merchant's staff.
WITH pack AS (
    SELECT campaign_id FROM packs WHERE tenant_id = $1 AND pack_id = $2 AND status <> 'archived'
      AND ($3 = '' OR (scope_key <> $1 AND campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o)))
),
added AS (
    INSERT INTO pack_codes (tenant_id, campaign_id, code_hash, pack_id)
    SELECT $1, p.campaign_id, g.code_hash, $2 FROM pack AS p, unnest($4::bytea[]) AS g (code_hash) ORDER BY g.code_hash
    ON CONFLICT (tenant_id, campaign_id, code_hash) DO NOTHING
    RETURNING code_hash
),
counted AS (
    UPDATE packs SET codes = codes + (SELECT count(*) FROM added)::integer
    WHERE tenant_id = $1 AND pack_id = $2 AND status <> 'archived' AND EXISTS (SELECT FROM pack)
    RETURNING pack_id
)
SELECT g.code_hash
FROM counted LEFT JOIN (
    SELECT code_hash FROM unnest($4::bytea[]) AS g (code_hash) WHERE code_hash NOT IN (SELECT code_hash FROM added)
) AS g ON true;

-- name: withdraw
-- Withdraws the unused codes with hashes $4 for good, and counts them. $1 tenant, $2 pack, $3 campaign.
WITH chosen AS (
    SELECT code_hash FROM pack_codes
    WHERE tenant_id = $1 AND campaign_id = $3 AND code_hash = ANY($4::bytea[]) AND pack_id = $2
      AND redemption_id IS NULL AND withdrawn_at IS NULL
    ORDER BY code_hash FOR NO KEY UPDATE
),
withdrawn AS (
    UPDATE pack_codes AS k SET withdrawn_at = now() FROM chosen AS c
    WHERE k.tenant_id = $1 AND k.campaign_id = $3 AND k.code_hash = c.code_hash
    RETURNING k.code_hash
)
UPDATE packs SET withdrawn = withdrawn + (SELECT count(*) FROM withdrawn)::integer
WHERE tenant_id = $1 AND pack_id = $2
RETURNING (SELECT count(*) FROM withdrawn)::integer AS withdrawn;

-- name: redemptions
-- A pack's redemptions, newest first. $1 tenant, $2 pack, $3 the id of the last one shown (null at first), $4 how many.
SELECT r.redemption_id AS id, r.pack_id, p.name AS pack_name, r.campaign_id, r.player_id,
       coalesce(r.receipt_id, '') AS receipt_id, r.turns, r.currency, r.scope_key, r.amount, r.balance_after,
       unix(r.redeemed_at) AS redeemed_at
FROM redemptions AS r JOIN packs AS p ON p.tenant_id = $1 AND p.pack_id = r.pack_id
WHERE r.tenant_id = $1 AND r.pack_id = $2 AND ($3::text IS NULL OR r.redemption_id < $3)
ORDER BY r.redemption_id DESC
LIMIT $4;

-- name: of_player
-- A player's redemptions, newest first. $1 tenant, $2 player, $3 campaign ('': all), $4 the staff's merchant ('': the
-- tenant), $5 the id of the last one shown (null at first), $6 how many.
SELECT r.redemption_id AS id, r.pack_id, p.name AS pack_name, r.campaign_id, r.player_id,
       coalesce(r.receipt_id, '') AS receipt_id, r.turns, r.currency, r.scope_key, r.amount, r.balance_after,
       unix(r.redeemed_at) AS redeemed_at
FROM redemptions AS r JOIN packs AS p ON p.tenant_id = $1 AND p.pack_id = r.pack_id
WHERE r.tenant_id = $1 AND r.player_id = $2 AND ($3 = '' OR r.campaign_id = $3)
  AND ($4 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR r.redemption_id < $5)
ORDER BY r.redemption_id DESC
LIMIT $6;

-- name: lock
-- Locks the pack and returns the secrets of its receipts. $1 tenant, $2 pack. No row: unknown.
SELECT signing FROM packs WHERE tenant_id = $1 AND pack_id = $2 FOR UPDATE;

-- name: rotate
-- Replaces the secrets of a pack's receipts by $3. $1 tenant, $2 pack. The caller has locked it and checked access.
UPDATE packs SET signing = $3, updated_at = now() WHERE tenant_id = $1 AND pack_id = $2;

-- name: receiver
-- The secrets that verify a pack's receipts. $1 tenant, $2 pack. No row: unknown.
SELECT signing FROM packs WHERE tenant_id = $1 AND pack_id = $2;
