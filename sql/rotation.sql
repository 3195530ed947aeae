-- What is stored under CODE_KEYS, stored anew under the first of them: `tombola keys rotate`.
-- Each change names what it replaces: where an operator or another rotation was quicker, it changes nothing.
-- The keys themselves belong to no tenant: $1 is ''.

-- name: reinstate
-- Key $2 may seal again. No row: it always could.
DELETE FROM retired_keys WHERE tenant_id = $1 AND key_id = $2

-- name: behind
-- The processes that live (heard of within $3 seconds) and do not seal with key $2; `knows`: whether they could.
SELECT process, $2 = ANY (known) AS knows FROM key_holders
WHERE tenant_id = $1 AND kind = 'code' AND used <> $2 AND seen_at > now() - make_interval(secs => $3)
ORDER BY process

-- name: lock_keys
-- Waits for whoever seals with keys $1 to end, and has who comes wait for the end of this transaction.
SELECT pg_advisory_xact_lock(key_lock(k)) FROM (SELECT unnest($1::text[]) AS k ORDER BY k) AS keys

-- name: retire
-- Nothing is sealed with keys $2 from now on (schema.sql, hold_key). The caller holds their locks.
INSERT INTO retired_keys (tenant_id, key_id) SELECT $1, k FROM unnest($2::text[]) AS k ON CONFLICT DO NOTHING

-- name: tenants
-- Every tenant, or the one of $1 ('': every one), for a rotation that goes through them one by one.
SELECT tenant_id FROM tenants WHERE $1 = '' OR tenant_id = $1 ORDER BY tenant_id

-- name: codes
-- The next $5 codes of a tenant that are not under key $2, after prize $3 and code $4 ('': from the first).
SELECT prize_id, code_id, key_id, ciphertext FROM codes
WHERE tenant_id = $1 AND key_id <> $2 AND (prize_id, code_id) > ($3, $4)
ORDER BY prize_id, code_id LIMIT $5

-- name: reseal_codes
-- Codes under another key. $1 tenant, $2 that key; $3.. arrays of a place per code: prize, code, the old
-- ciphertext, the new one, the new fingerprint. Rows: those that were as they were read. They are locked in their order,
-- as whoever withdraws some or has them expire does.
WITH given AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[])
        AS g (prize_id, code_id, old, new, code_hash)
),
held AS MATERIALIZED (
    SELECT c.prize_id, c.code_id FROM codes AS c JOIN given AS g USING (prize_id, code_id)
    WHERE c.tenant_id = $1 ORDER BY c.prize_id, c.code_id FOR UPDATE OF c
)
UPDATE codes AS c SET key_id = $2, ciphertext = g.new, code_hash = g.code_hash
FROM given AS g JOIN held USING (prize_id, code_id)
WHERE c.tenant_id = $1 AND c.prize_id = g.prize_id AND c.code_id = g.code_id AND c.ciphertext = g.old

-- name: prizes
-- The next $3 prizes of a tenant whose receiver has secrets or headers, after prize $2 ('': from the first).
SELECT prize_id AS id, channel_config AS config FROM prizes
WHERE tenant_id = $1 AND prize_id > $2 AND channel_config ?| ARRAY['secret', 'previous_secret', 'headers']
ORDER BY prize_id LIMIT $3

-- name: reseal_prize
-- Another config of the prize's receiver, $4 for $3. No row: it was changed meanwhile.
UPDATE prizes SET channel_config = $4 WHERE tenant_id = $1 AND prize_id = $2 AND channel_config = $3

-- name: integrations
-- The next $3 integrations of a tenant that have secrets or headers, after integration $2 ('': from the first).
SELECT integration_id AS id, config FROM integrations
WHERE tenant_id = $1 AND integration_id > $2 AND config ?| ARRAY['secret', 'previous_secret', 'headers']
ORDER BY integration_id LIMIT $3

-- name: reseal_integration
-- Another config of the integration, $4 for $3. No row: it was changed meanwhile.
UPDATE integrations SET config = $4 WHERE tenant_id = $1 AND integration_id = $2 AND config = $3

-- name: quests
-- The next $3 quests of a tenant that have secrets, after quest $2 ('': from the first).
SELECT quest_id AS id, signing AS config FROM quests
WHERE tenant_id = $1 AND quest_id > $2 AND signing ?| ARRAY['secret', 'previous_secret']
ORDER BY quest_id LIMIT $3

-- name: reseal_quest
-- Other secrets of the quest, $4 for $3. No row: they were changed meanwhile.
UPDATE quests SET signing = $4 WHERE tenant_id = $1 AND quest_id = $2 AND signing = $3
