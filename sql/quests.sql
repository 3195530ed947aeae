-- Quests, their completions, and the turns that they grant. See runtime/operations/quests/quest_admin.py.

-- name: insert
-- No row: the campaign is unknown or not writable, or lacks the condition's game. $1 tenant, $2 quest, $3 campaign, $4
-- name, $5 description, $6 type, $7 turns, $8 status, $9 start_date and $10 end_date in unix seconds, $11 condition or
-- null, $12 the staff's merchant ('': the tenant), $13 the encrypted secret that verifies its events.
INSERT INTO quests (tenant_id, quest_id, campaign_id, name, description, type, turns, status, start_date, end_date,
                    condition, signing)
SELECT tenant_id, $2, campaign_id, $4, $5, $6, $7, $8, at_unix($9), at_unix($10), $11, coalesce($13::jsonb, '{}')
FROM campaigns WHERE tenant_id = $1 AND campaign_id = $3 AND has_game_of_condition(tenant_id, campaign_id, $11)
  AND ($12 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $12, true) AS o))
RETURNING quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
          unix(end_date) AS end_date, condition, signing ? 'secret' AS secret_set, unix(created_at) AS created_at,
       unix(updated_at) AS updated_at;

-- name: get
-- $1 tenant, $2 quest, $3 the staff's merchant ('': the tenant), $4 whether to write.
-- No row: not found or not permitted.
SELECT quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, condition, signing ? 'secret' AS secret_set, unix(created_at) AS created_at,
       unix(updated_at) AS updated_at
FROM quests WHERE tenant_id = $1 AND quest_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o));

-- name: list
-- Newest first. $1 tenant, $2 campaign, $3 type, $4 status ('' = any but archived), $5 LIKE pattern of the name, $6 the
-- staff's merchant ('': the tenant), $7 the id of the last one shown (null at first), $8 how many.
SELECT quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, condition, signing ? 'secret' AS secret_set, unix(created_at) AS created_at,
       unix(updated_at) AS updated_at
FROM quests
WHERE tenant_id = $1 AND ($2::text = '' OR campaign_id = $2) AND ($3::text = '' OR type = $3)
  AND CASE WHEN $4::text = '' THEN status <> 'archived' ELSE status = $4 END
  AND name ILIKE $5 AND ($6 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $6, false) AS o))
  AND ($7::text IS NULL OR quest_id < $7)
ORDER BY quest_id DESC
LIMIT $8;

-- name: update
-- No row: the campaign is unknown or not writable, or lacks the condition's game. The caller has locked the tenant, so the
-- quest still exists. $1 tenant, $2 quest, then as in `insert`. Without a new secret the old one stays while events are
-- accepted.
UPDATE quests AS q SET
    campaign_id = c.campaign_id, name = $4, description = $5, type = $6, turns = $7, status = $8,
    start_date = at_unix($9), end_date = at_unix($10), condition = $11,
    signing = CASE WHEN $11::jsonb ->> 'kind' = 'event' THEN coalesce($13::jsonb, q.signing) ELSE '{}' END,
    updated_at = now()
FROM campaigns AS c
WHERE q.tenant_id = $1 AND q.quest_id = $2 AND c.tenant_id = $1 AND c.campaign_id = $3
  AND has_game_of_condition(c.tenant_id, c.campaign_id, $11)
  AND ($12 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $12, true) AS o))
RETURNING q.quest_id AS id, q.campaign_id, q.name, q.description, q.type, q.turns, q.status,
          unix(q.start_date) AS start_date, unix(q.end_date) AS end_date, q.condition, q.signing ? 'secret' AS secret_set,
          unix(q.created_at) AS created_at, unix(q.updated_at) AS updated_at;

-- name: lock
-- Blocks completions until the transaction ends: each locks the quest's row FOR KEY SHARE.
-- $1 tenant, $2 quest. No row: unknown.
SELECT quest_id FROM quests WHERE tenant_id = $1 AND quest_id = $2 FOR UPDATE;

-- name: has_completions
-- Whether a player has completed the quest. $1 tenant, $2 quest.
SELECT EXISTS (SELECT FROM quest_completions WHERE tenant_id = $1 AND quest_id = $2);

-- name: remove
-- Deletes a quest without completions, and its reported events. No row: it has completions.
WITH deleted AS (
    DELETE FROM quests AS q WHERE q.tenant_id = $1 AND q.quest_id = $2
      AND NOT EXISTS (SELECT FROM quest_completions AS c WHERE c.tenant_id = $1 AND c.quest_id = $2)
    RETURNING quest_id
),
events_deleted AS (
    DELETE FROM quest_events WHERE tenant_id = $1 AND quest_id IN (SELECT quest_id FROM deleted)
)
SELECT quest_id FROM deleted;

-- name: archive
-- Closes a quest for good; its completions stay. No row: no such quest.
UPDATE quests SET status = 'archived', updated_at = now() WHERE tenant_id = $1 AND quest_id = $2
RETURNING quest_id;

-- name: for_completion
-- A quest for a player: with the player's completions that may be in the current period, and the use of the
-- idempotency key. $1 tenant, $2 quest, $3 player, $4 key (null = none). No row: unknown quest.
SELECT q.campaign_id, q.type, q.status, q.turns, unix(q.start_date) AS start_date, unix(q.end_date) AS end_date,
       q.condition, c.status AS campaign_status, c.merchant_id, c.timezone,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       unix(c.start_date) AS campaign_start, unix(c.end_date) AS campaign_end,
       (SELECT array_agg(d.period) FROM quest_completions AS d
        WHERE d.tenant_id = $1 AND d.quest_id = $2 AND d.player_id = $3
          AND d.completed_at > now() - CASE WHEN q.type = 'one_time' THEN interval '100 years' ELSE interval '9 days' END
       ) AS periods,
       k.request_hash, k.turns AS replay_turns, k.balance_after AS replay_balance,
       (SELECT p.merged_into FROM players AS p WHERE p.tenant_id = $1 AND p.player_id = $3) AS merged_into
FROM quests AS q
JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
LEFT JOIN quest_completions AS k ON k.tenant_id = $1 AND k.quest_id = $2 AND k.player_id = $3 AND k.idempotency_key = $4
WHERE q.tenant_id = $1 AND q.quest_id = $2;

-- name: complete
-- Grants the quest's turns and records the completion. A unique violation fails the whole statement if the player has
-- completed the quest in this period, or has used the key.
-- No row: the quest, its campaign or the player has changed since it was checked, or the condition is not met. Progress
-- never decreases, so the condition still holds at the commit.
-- $1 tenant, $2 quest, $3 player, $4 period, $5 type, $6 turns, $7 campaign, $8 entry id, $9 key, $10 request hash,
-- $11 event id, $12 condition or null, $13 start of the condition's period in unix seconds (0: ever).
WITH guest AS MATERIALIZED (
    -- Locked, so that the guest is not merged meanwhile.
    SELECT merged_into FROM players WHERE tenant_id = $1 AND player_id = $3 AND auth_method = 'guest' FOR SHARE
),
quest AS (
    -- Locked, so that the quest is not deleted as unused meanwhile.
    SELECT q.campaign_id, q.turns FROM quests AS q
    JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
    WHERE q.tenant_id = $1 AND q.quest_id = $2 AND q.status = 'active' AND q.type = $5 AND q.turns = $6
      AND q.campaign_id = $7 AND c.status = 'active' AND q.condition IS NOT DISTINCT FROM $12::jsonb
      AND (q.condition IS NULL OR quest_progress($1, $3, $2, q.campaign_id, q.condition, at_unix($13))
           >= (q.condition ->> 'count')::bigint)
      AND NOT EXISTS (SELECT FROM guest WHERE merged_into IS NOT NULL)
    FOR KEY SHARE OF q
),
player AS (
    INSERT INTO players (tenant_id, player_id, auth_method) SELECT $1, $3::text, first_known_as($3::text) FROM quest
    ON CONFLICT DO NOTHING
),
balance AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance)
    SELECT $1, campaign_id, $3, turns FROM quest
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING balance
),
entry AS (
    INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
    SELECT $1, $8, quest.campaign_id, $3, quest.turns, balance.balance, 'quest', $2 FROM quest, balance
    WHERE quest.turns > 0
)
INSERT INTO quest_completions (tenant_id, quest_id, player_id, period, turns, balance_after, event_id, idempotency_key,
                               request_hash)
SELECT $1, $2, $3, $4, quest.turns, balance.balance, $11, $9, $10 FROM quest, balance
RETURNING turns, balance_after, event_id, extract(epoch FROM completed_at)::float8 AS completed_at;

-- name: turns
-- A player's turns by campaign. $1 tenant, $2 player, $3 campaign ('' = all), $4 the campaign of the last one
-- shown (null at first), $5 how many.
SELECT campaign_id, balance, unix(updated_at) AS updated_at
FROM turn_balances
WHERE tenant_id = $1 AND player_id = $2 AND ($3::text = '' OR campaign_id = $3)
  AND ($4::text IS NULL OR campaign_id > $4)
ORDER BY campaign_id
LIMIT $5;

-- name: completed
-- A player's recent completions of active quests. The caller picks those of the current period.
-- $1 tenant, $2 player, $3 campaigns.
SELECT q.campaign_id, q.quest_id, q.type, c.timezone, d.period, unix(d.completed_at) AS completed_at
FROM quests AS q
JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
JOIN quest_completions AS d ON d.tenant_id = q.tenant_id AND d.quest_id = q.quest_id AND d.player_id = $2
WHERE q.tenant_id = $1 AND q.campaign_id = ANY($3) AND q.status = 'active'
  AND d.completed_at > now() - CASE WHEN q.type = 'one_time' THEN interval '100 years' ELSE interval '9 days' END
ORDER BY q.quest_id, d.period;

-- name: progress
-- A player's progress on quest conditions. $1 tenant, $2 player, $3 quests, $4 the start of each one's period in unix
-- seconds (0: ever). A missing row: the quest has no condition.
SELECT q.quest_id, quest_progress($1, $2, q.quest_id, q.campaign_id, q.condition, at_unix(n.since)) AS have,
       (q.condition ->> 'count')::bigint AS need
FROM unnest($3::text[], $4::bigint[]) AS n (quest_id, since)
JOIN quests AS q ON q.tenant_id = $1 AND q.quest_id = n.quest_id
WHERE q.condition IS NOT NULL;

-- name: own
-- Active quests of public campaigns, newest first, each with the player's completions that may be in the current
-- period. $1 tenant, $2 campaign ('' = all), $3 player, $4 the id of the last one shown (null at first), $5 how many.
SELECT q.quest_id AS id, q.campaign_id, q.type, c.timezone, unix(q.start_date) AS start_date,
       unix(c.start_date) AS campaign_start,
       coalesce(q.condition ->> 'kind' = 'referrals', false) AS pays_referrals,
       (SELECT array_agg(d.period) FROM quest_completions AS d
        WHERE d.tenant_id = $1 AND d.quest_id = q.quest_id AND d.player_id = $3
          AND d.completed_at > now() - CASE WHEN q.type = 'one_time' THEN interval '100 years' ELSE interval '9 days' END
       ) AS periods
FROM quests AS q
JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
WHERE q.tenant_id = $1 AND ($2::text = '' OR q.campaign_id = $2) AND q.status = 'active' AND c.status <> 'draft'
  AND ($4::text IS NULL OR q.quest_id < $4)
ORDER BY q.quest_id DESC
LIMIT $5;
