-- Redemptions of codes and receipts, and the limits of wrong codes. See runtime/operations/packs. Lock order: the
-- player, the code, the payment, the redemption.

-- name: campaign
-- A campaign in which a player enters a code. $1 tenant, $2 campaign, $3 player, $4 idempotency key (null = none). No
-- row: unknown, or a draft. is_guest: null for a player without a row. request_hash: the key was used, and the columns after it are what was given.
SELECT c.status, unix(c.start_date) AS start_date, unix(c.end_date) AS end_date,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       EXISTS (
           SELECT FROM games AS g JOIN game_revisions AS v USING (tenant_id, game_id, revision)
           WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status IN ('active', 'paused')
             AND v.definition ->> 'access' = 'public'
       ) AS has_public_games,
       p.auth_method = 'guest' AS is_guest,
       EXISTS (
           SELECT FROM games AS g JOIN game_revisions AS v USING (tenant_id, game_id, revision)
           WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status <> 'draft'
             AND (v.definition ->> 'access' = 'public' OR v.definition -> 'rules' -> 'admits_guests' = 'true')
       ) AS admits_guests,
       CASE WHEN c.entry ->> 'mode' = 'before_play' THEN c.entry_needs END AS entry_needs,
       c.entry -> 'countries' AS entry_countries, e.given AS entry_given,
       k.sealed, p.merged_into,
       coalesce(c.merchant_id, '') AS merchant_id,
       r.request_hash, r.redemption_id, r.campaign_id, r.turns, r.currency, r.scope_key, r.amount, r.balance_after,
       extract(epoch FROM now() - r.redeemed_at)::float8 AS age
FROM campaigns AS c
LEFT JOIN pack_keys AS k ON k.tenant_id = $1 AND k.campaign_id = $2
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = $3
LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = $2 AND e.player_id = $3
LEFT JOIN redemptions AS r ON r.tenant_id = $1 AND r.player_id = $3 AND r.idempotency_key = $4
WHERE c.tenant_id = $1 AND c.campaign_id = $2 AND c.status <> 'draft';

-- name: take_code
-- Marks an unused code of a running campaign as used by redemption $4, and returns what it gives. A rival waits here.
-- $1 tenant, $2 campaign, $3 hash. No row: there is no such code, or it cannot be used (see `code`).
UPDATE pack_codes AS k SET redemption_id = $4
FROM packs AS p
JOIN campaigns AS c ON c.tenant_id = p.tenant_id AND c.campaign_id = p.campaign_id
WHERE k.tenant_id = $1 AND k.campaign_id = $2 AND k.code_hash = $3
  AND k.redemption_id IS NULL AND k.withdrawn_at IS NULL
  AND p.tenant_id = $1 AND p.pack_id = k.pack_id AND p.status = 'active' AND (p.until IS NULL OR p.until > now())
  AND c.status = 'active' AND (c.start_date IS NULL OR c.start_date <= now())
  AND (c.end_date IS NULL OR c.end_date > now())
RETURNING p.pack_id, p.turns, p.currency, p.scope_key, p.amount;

-- name: code
-- Why a code cannot be used. $1 tenant, $2 campaign, $3 hash, $4 player, $5 idempotency key or null. No row: there is no
-- such code. own: the player used it; own_key: with this key.
SELECT k.redemption_id IS NOT NULL AS used, coalesce(r.player_id = $4, false) AS own,
       coalesce(r.player_id = $4 AND r.idempotency_key = $5, false) AS own_key, p.status,
       k.withdrawn_at IS NOT NULL OR p.until <= now() AS ended
FROM pack_codes AS k
JOIN packs AS p ON p.tenant_id = $1 AND p.pack_id = k.pack_id
LEFT JOIN redemptions AS r ON r.tenant_id = $1 AND r.redemption_id = k.redemption_id
WHERE k.tenant_id = $1 AND k.campaign_id = $2 AND k.code_hash = $3;

-- name: record
-- $1 tenant, $2 redemption, $3 pack, $4 campaign, $5 player, $6 hash of the code or null, $7 receipt or null, $8 turns,
-- $9 currency, $10 scope_key, $11 amount, $12 balance afterwards, $13 idempotency key or null, $14 request hash. A unique
-- violation: the receipt is paid, or the key was used.
INSERT INTO redemptions (tenant_id, redemption_id, pack_id, campaign_id, player_id, code_hash, receipt_id, turns, currency,
                         scope_key, amount, balance_after, idempotency_key, request_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
RETURNING balance_after, unix(redeemed_at) AS redeemed_at;

-- name: receipt
-- A pack for a receipt, with the payment of the same receipt before. $1 tenant, $2 pack, $3 receipt, $4 player. No row:
-- no such pack, or it accepts no receipts. redemption_id null: the receipt is new.
SELECT p.status, p.campaign_id, unix(p.until) AS until, p.turns, p.currency, p.scope_key, p.amount,
       c.status AS campaign_status, coalesce(c.merchant_id, '') AS merchant_id, unix(c.start_date) AS start_date, unix(c.end_date) AS end_date,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       CASE WHEN c.entry ->> 'mode' = 'before_play' THEN c.entry_needs END AS entry_needs,
       c.entry -> 'countries' AS entry_countries, e.given AS entry_given,
       q.status AS player_status, q.merged_into, r.redemption_id, r.player_id AS paid_to, r.turns AS paid_turns,
       r.currency AS paid_currency, r.scope_key AS paid_scope_key, r.amount AS paid_amount, r.balance_after
FROM packs AS p
JOIN campaigns AS c ON c.tenant_id = p.tenant_id AND c.campaign_id = p.campaign_id
LEFT JOIN players AS q ON q.tenant_id = $1 AND q.player_id = $4
LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = p.campaign_id AND e.player_id = $4
LEFT JOIN redemptions AS r ON r.tenant_id = $1 AND r.pack_id = $2 AND r.receipt_id = $3
WHERE p.tenant_id = $1 AND p.pack_id = $2 AND p.signing ? 'secret';

-- name: lock_pack
-- Locks a pack against changes while a receipt of player $3 is paid, and returns what it gives, under the conditions of
-- `take_code`. $1 tenant, $2 pack. No row: it accepts no receipts of the player now; `receipt` tells why.
SELECT p.turns, p.currency, p.scope_key, p.amount
FROM packs AS p
JOIN campaigns AS c ON c.tenant_id = p.tenant_id AND c.campaign_id = p.campaign_id
WHERE p.tenant_id = $1 AND p.pack_id = $2 AND p.signing ? 'secret'
  AND p.status = 'active' AND (p.until IS NULL OR p.until > now())
  AND c.status = 'active' AND (c.start_date IS NULL OR c.start_date <= now())
  AND (c.end_date IS NULL OR c.end_date > now()) AND NOT is_suspended($1, $3)
FOR SHARE OF p;

-- name: lock_guesser
-- Whether no other lookup of the same guesser $2 runs: parallel ones would all pass before the first is counted. $1 tenant.
SELECT pg_try_advisory_xact_lock(hashtextextended('tombola guess ' || $1::text || ' ' || $2::text, 0));

-- name: waits
-- The wrong codes of guessers $2 now, and the seconds until each may guess again. $3 how many leak per second, each.
-- Missing row: none. $1 tenant.
SELECT g.guesser, greatest(0, extract(epoch FROM g.wait_until - now()))::float8 AS wait_seconds,
       greatest(0, g.level - n.leak * extract(epoch FROM now() - g.updated_at)::float8) AS level
FROM unnest($2::text[], $3::float8[]) AS n (guesser, leak)
JOIN code_guesses AS g ON g.tenant_id = $1 AND g.guesser = n.guesser;

-- name: count_wrong
-- Counts a wrong code of guesser $2. From the $4th on, each doubles the wait until the next guess: $5 seconds at first, at most
-- $6. $1 tenant, $3 how many leak per second.
INSERT INTO code_guesses AS g (tenant_id, guesser, level) VALUES ($1, $2, 1)
ON CONFLICT (tenant_id, guesser) DO UPDATE SET (level, wait_until, updated_at) = (
    SELECT o.level,
           CASE WHEN o.level > $4::float8 - 1
                THEN now() + make_interval(secs => least($6::float8, $5::float8 * 2 ^ greatest(0, least(o.level - $4::float8, 30)))) END,
           now()
    FROM (SELECT greatest(0, g.level - $3::float8 * extract(epoch FROM now() - g.updated_at)::float8) + 1 AS level) AS o
);

-- name: purge_code_guesses
-- Deletes counts without a wrong code for a day.
DELETE FROM code_guesses WHERE tenant_id = $1 AND guesser IN (
    SELECT guesser FROM code_guesses WHERE tenant_id = $1 AND updated_at < now() - interval '1 day'
    LIMIT $2 FOR UPDATE SKIP LOCKED
);
