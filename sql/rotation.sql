-- Re-encrypts with the first key of CODE_KEYS: `tombola keys rotate`. Each update is a compare-and-set on the old
-- value: after a concurrent change or rotation it does nothing. Keys belong to no tenant: for them $1 is ''.

-- name: reinstate
-- Allows encryption with key $2 again. No row: it was not retired.
DELETE FROM retired_keys WHERE tenant_id = $1 AND key_id = $2

-- name: behind
-- Live processes (seen within $3 seconds) that do not encrypt with key $2; `knows`: whether they could.
SELECT process, $2 = ANY (known) AS knows FROM key_holders
WHERE tenant_id = $1 AND kind = 'code' AND used <> $2 AND seen_at > now() - make_interval(secs => $3)
ORDER BY process

-- name: lock_keys
-- Locks keys $1 exclusively, in order, until the transaction ends: waits for running encryptions and blocks new ones.
SELECT pg_advisory_xact_lock(key_lock(k)) FROM (SELECT unnest($1::text[]) AS k ORDER BY k) AS keys

-- name: retire
-- Retires keys $2: encryption with them fails from now on (schema.sql, lock_key). The caller has their locks.
INSERT INTO retired_keys (tenant_id, key_id) SELECT $1, k FROM unnest($2::text[]) AS k ON CONFLICT DO NOTHING

-- name: tenants
-- All tenants, or tenant $1 only ('': all), for a rotation per tenant.
SELECT tenant_id FROM tenants WHERE $1 = '' OR tenant_id = $1 ORDER BY tenant_id

-- name: codes
-- The next $5 codes of a tenant with another key than $2, after prize $3 and code $4 ('': from the first).
SELECT prize_id, code_id, key_id, ciphertext FROM codes
WHERE tenant_id = $1 AND key_id <> $2 AND (prize_id, code_id) > ($3, $4)
ORDER BY prize_id, code_id LIMIT $5

-- name: reseal_codes
-- Re-encrypts codes. $1 tenant, $2 the new key; $3.. arrays with a position per code: prize, code, old
-- ciphertext, new ciphertext, new fingerprint. Returns those that were unchanged, and whether each is a duplicate of
-- another code of its pool: it then gets another fingerprint. Locks them in key order, as a withdrawal or a change
-- of expiry does.
WITH new_codes AS (
    SELECT g.*, lag(code_id) OVER same IS NOT NULL OR EXISTS (
        SELECT FROM codes AS c
        WHERE c.tenant_id = $1 AND c.prize_id = g.prize_id AND c.code_hash = g.code_hash AND c.code_id <> g.code_id
    ) AS duplicate
    FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[])
        AS g (prize_id, code_id, old, new, code_hash)
    WINDOW same AS (PARTITION BY prize_id, code_hash ORDER BY code_id)
),
locked AS MATERIALIZED (
    SELECT c.prize_id, c.code_id FROM codes AS c JOIN new_codes AS g USING (prize_id, code_id)
    WHERE c.tenant_id = $1 ORDER BY c.prize_id, c.code_id FOR UPDATE OF c
)
UPDATE codes AS c SET key_id = $2, ciphertext = g.new, code_hash = CASE
    WHEN g.duplicate THEN substr(sha256(g.code_hash || convert_to(g.code_id, 'UTF8')), 1, 16) ELSE g.code_hash
END
FROM new_codes AS g JOIN locked USING (prize_id, code_id)
WHERE c.tenant_id = $1 AND c.prize_id = g.prize_id AND c.code_id = g.code_id AND c.ciphertext = g.old
RETURNING c.prize_id, c.code_id, g.duplicate

-- name: prizes
-- The next $3 prizes of a tenant with secrets or headers in their receiver's config, after prize $2 ('': from the first).
SELECT prize_id AS id, channel_config AS config FROM prizes
WHERE tenant_id = $1 AND prize_id > $2 AND channel_config ?| ARRAY['secret', 'previous_secret', 'headers']
ORDER BY prize_id LIMIT $3

-- name: reseal_prize
-- Replaces a prize's config $3 by $4. No row: it has changed meanwhile.
UPDATE prizes SET channel_config = $4 WHERE tenant_id = $1 AND prize_id = $2 AND channel_config = $3

-- name: integrations
-- The next $3 integrations of a tenant with secrets or headers, after integration $2 ('': from the first).
SELECT integration_id AS id, config FROM integrations
WHERE tenant_id = $1 AND integration_id > $2 AND config ?| ARRAY['secret', 'previous_secret', 'headers']
ORDER BY integration_id LIMIT $3

-- name: reseal_integration
-- Replaces an integration's config $3 by $4. No row: it has changed meanwhile.
UPDATE integrations SET config = $4 WHERE tenant_id = $1 AND integration_id = $2 AND config = $3

-- name: quests
-- The next $3 quests of a tenant with secrets, after quest $2 ('': from the first).
SELECT quest_id AS id, signing AS config FROM quests
WHERE tenant_id = $1 AND quest_id > $2 AND signing ?| ARRAY['secret', 'previous_secret']
ORDER BY quest_id LIMIT $3

-- name: reseal_quest
-- Replaces a quest's secrets $3 by $4. No row: they have changed meanwhile.
UPDATE quests SET signing = $4 WHERE tenant_id = $1 AND quest_id = $2 AND signing = $3

-- name: packs
-- The next $3 packs of a tenant with secrets, after pack $2 ('': from the first).
SELECT pack_id AS id, signing AS config FROM packs
WHERE tenant_id = $1 AND pack_id > $2 AND signing ?| ARRAY['secret', 'previous_secret']
ORDER BY pack_id LIMIT $3

-- name: reseal_pack
-- Replaces a pack's secrets $3 by $4. No row: they have changed meanwhile.
UPDATE packs SET signing = $4 WHERE tenant_id = $1 AND pack_id = $2 AND signing = $3

-- name: pack_keys
-- The next $3 keys of hashes of a tenant, after campaign $2 ('': from the first).
SELECT campaign_id AS id, sealed AS config FROM pack_keys
WHERE tenant_id = $1 AND campaign_id > $2
ORDER BY campaign_id LIMIT $3

-- name: reseal_pack_key
-- Replaces a campaign's key of hashes $3 by $4. No row: it has changed meanwhile.
UPDATE pack_keys SET sealed = $4 WHERE tenant_id = $1 AND campaign_id = $2 AND sealed = $3

-- name: senders
-- The tenant's sender of mails, if it has a mail server. $2: '', then the tenant; $3 as for the others.
SELECT tenant_id AS id, sender AS config FROM tenants WHERE tenant_id = $1 AND tenant_id > $2 AND sender ? 'secret'
ORDER BY tenant_id LIMIT $3

-- name: reseal_sender
-- Replaces a tenant's sender $3 by $4. No row: it has changed meanwhile.
UPDATE tenants SET sender = $4 WHERE tenant_id = $1 AND tenant_id = $2 AND sender = $3
