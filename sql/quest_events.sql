-- Events from outside that quests count: who may tell them, and what was told. See runtime/operations/quests/events.py.

-- name: receiver
-- By which secrets events of a quest are believed. $1 tenant, $2 quest. No row: there is no quest that takes events.
SELECT signing FROM quests WHERE tenant_id = $1 AND quest_id = $2 AND condition ->> 'kind' = 'event';

-- name: lock
-- The secrets as they are, until the transaction ends. $1 tenant, $2 quest. No row: unknown.
SELECT signing FROM quests WHERE tenant_id = $1 AND quest_id = $2 FOR UPDATE;

-- name: rotate
-- Sets the secrets of a quest that takes events; the caller holds it, and has seen who may write it. $3 the secrets.
-- No row: it takes none.
UPDATE quests SET signing = $3 WHERE tenant_id = $1 AND quest_id = $2 AND condition ->> 'kind' = 'event'
RETURNING quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
          unix(end_date) AS end_date, condition, signing ? 'secret' AS secret_set, unix(created_at) AS created_at,
          unix(updated_at) AS updated_at;

-- name: for_event
-- A quest as who tells an event of it finds it, the player, and what was told as this event before.
-- $1 tenant, $2 quest, $3 player, $4 event. No row: there is no quest that takes events. No told_at: it was not told.
SELECT q.status, unix(q.start_date) AS start_date, unix(q.end_date) AS end_date,
       c.status AS campaign_status, unix(c.start_date) AS campaign_start, unix(c.end_date) AS campaign_end,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       p.status AS player_status, p.merged_into, e.player_id AS told_of, unix(e.told_at) AS told_at
FROM quests AS q
JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = $3
LEFT JOIN quest_events AS e ON e.tenant_id = $1 AND e.quest_id = $2 AND e.event_id = $4
WHERE q.tenant_id = $1 AND q.quest_id = $2 AND q.condition ->> 'kind' = 'event';

-- name: note
-- Counts an event for a player. $1 tenant, $2 quest, $3 player, $4 event.
-- No row: it was told before, or the quest, its campaign or the player is not what it was when it was looked at.
WITH player AS MATERIALIZED (
    -- Held, so that it becomes nobody else, and is not erased, in this very moment.
    SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = $3 AND merged_into IS NULL FOR SHARE
),
quest AS (
    -- Locked, so that it is not removed in this very moment.
    SELECT q.quest_id FROM quests AS q
    JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
    WHERE q.tenant_id = $1 AND q.quest_id = $2 AND q.status = 'active' AND q.condition ->> 'kind' = 'event'
      AND c.status = 'active' AND EXISTS (SELECT FROM player)
    FOR KEY SHARE OF q
)
INSERT INTO quest_events (tenant_id, quest_id, event_id, player_id)
SELECT $1, quest_id, $4, $3 FROM quest
ON CONFLICT DO NOTHING
RETURNING unix(told_at) AS told_at;
