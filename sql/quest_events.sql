-- Quest events reported by external systems, and their secrets. See runtime/operations/quests/events.py.

-- name: receiver
-- The secrets that verify a quest's events. $1 tenant, $2 quest. No row: no quest that accepts events.
SELECT signing FROM quests WHERE tenant_id = $1 AND quest_id = $2 AND condition ->> 'kind' = 'event';

-- name: lock
-- Locks the quest and returns its secrets. $1 tenant, $2 quest. No row: unknown.
SELECT signing FROM quests WHERE tenant_id = $1 AND quest_id = $2 FOR UPDATE;

-- name: rotate
-- Replaces the secrets of a quest that accepts events; the caller has locked it and checked access. $3 the secrets.
-- No row: it accepts none.
UPDATE quests SET signing = $3 WHERE tenant_id = $1 AND quest_id = $2 AND condition ->> 'kind' = 'event'
RETURNING quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
          unix(end_date) AS end_date, condition, signing ? 'secret' AS secret_set, unix(created_at) AS created_at,
          unix(updated_at) AS updated_at;

-- name: for_event
-- The quest, the player and any earlier event with this id.
-- $1 tenant, $2 quest, $3 player, $4 event. No row: no quest that accepts events. reported_at null: a new event.
SELECT q.status, unix(q.start_date) AS start_date, unix(q.end_date) AS end_date,
       c.status AS campaign_status, unix(c.start_date) AS campaign_start, unix(c.end_date) AS campaign_end,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       p.status AS player_status, p.merged_into, e.player_id AS reported_for, unix(e.reported_at) AS reported_at
FROM quests AS q
JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = $3
LEFT JOIN quest_events AS e ON e.tenant_id = $1 AND e.quest_id = $2 AND e.event_id = $4
WHERE q.tenant_id = $1 AND q.quest_id = $2 AND q.condition ->> 'kind' = 'event';

-- name: record
-- Counts an event for a player. $1 tenant, $2 quest, $3 player, $4 event.
-- No row: a duplicate, or the quest, its campaign or the player has changed since it was checked.
WITH player AS MATERIALIZED (
    -- Locked, so that the player is not merged or erased meanwhile.
    SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = $3 AND merged_into IS NULL FOR SHARE
),
quest AS (
    -- Locked, so that the quest is not deleted meanwhile.
    SELECT q.quest_id FROM quests AS q
    JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
    WHERE q.tenant_id = $1 AND q.quest_id = $2 AND q.status = 'active' AND q.condition ->> 'kind' = 'event'
      AND c.status = 'active' AND EXISTS (SELECT FROM player)
    FOR KEY SHARE OF q
)
INSERT INTO quest_events (tenant_id, quest_id, event_id, player_id)
SELECT $1, quest_id, $4, $3 FROM quest
ON CONFLICT DO NOTHING
RETURNING unix(reported_at) AS reported_at;
