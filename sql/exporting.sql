-- Everything that is held of a player, a statement a kind. See runtime/operations/desk/export.py. $1 tenant, $2 player,
-- $3 after this key (NULL: from the first), $4 how many.

-- name: profile
-- Who the player is.
SELECT x.player_id AS key, to_jsonb(x) - '{tenant_id}'::text[] AS data
FROM players AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.player_id > $3)
ORDER BY x.player_id LIMIT $4

-- name: contact
-- Contacts.
SELECT x.contact_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM contacts AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.contact_id > $3)
ORDER BY x.contact_id LIMIT $4

-- name: session
-- Logins.
SELECT x.login_id AS key, to_jsonb(x) - '{tenant_id,player_id,turned_by,generation,repeats}'::text[] AS data
FROM logins AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.login_id > $3)
ORDER BY x.login_id LIMIT $4

-- name: signed_in
-- When the player signed in or renewed a login, to a quarter of an hour.
SELECT to_char(x.quarter AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS key,
       to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM login_quarters AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR to_char(x.quarter AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') > $3)
ORDER BY x.quarter LIMIT $4

-- name: play
-- Plays.
SELECT x.play_id AS key, to_jsonb(x) - '{tenant_id,player_id,request_hash}'::text[] AS data
FROM plays AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.play_id > $3)
ORDER BY x.play_id LIMIT $4

-- name: reward
-- Rewards, without their codes.
SELECT x.reward_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM rewards AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.reward_id > $3)
ORDER BY x.reward_id LIMIT $4

-- name: answer
-- What claims of rewards were answered.
SELECT x.reward_id AS key, to_jsonb(x) - '{tenant_id}'::text[] AS data
FROM rewards AS r JOIN claim_answers AS x ON x.tenant_id = $1 AND x.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = $2 AND ($3::text IS NULL OR x.reward_id > $3)
ORDER BY x.reward_id LIMIT $4

-- name: delivery
-- Deliveries.
SELECT x.task_id AS key, to_jsonb(x) - '{tenant_id,player_id,lease_owner,lease_until}'::text[] AS data
FROM rewards AS r JOIN tasks AS x ON x.tenant_id = $1 AND x.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = $2 AND ($3::text IS NULL OR x.task_id > $3)
ORDER BY x.task_id LIMIT $4

-- name: balance
-- Balances.
SELECT x.scope_key || ' ' || x.currency AS key, to_jsonb(x) - '{tenant_id,player_id,seq}'::text[] AS data
FROM balances AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.scope_key, x.currency) > (split_part($3, ' ', 1), substr($3, strpos($3, ' ') + 1)))
ORDER BY x.scope_key, x.currency LIMIT $4

-- name: movement
-- Movements of balances.
SELECT lpad(x.seq::text, 20, '0') || x.entry_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM ledger_entries AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.seq, x.entry_id) > (left($3, 20)::bigint, substr($3, 21)))
ORDER BY x.seq, x.entry_id LIMIT $4

-- name: turns
-- Turns.
SELECT x.campaign_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM turn_balances AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.campaign_id > $3)
ORDER BY x.campaign_id LIMIT $4

-- name: turn_movement
-- Movements of turns.
SELECT x.entry_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM turn_entries AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.entry_id > $3)
ORDER BY x.entry_id LIMIT $4

-- name: rung
-- Rungs that were granted.
SELECT x.game_id || ' ' || x.milestone_id AS key, to_jsonb(x) - '{tenant_id,player_id,request_hash}'::text[] AS data
FROM milestone_grants AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.game_id, x.milestone_id) > (split_part($3, ' ', 1), split_part($3, ' ', 2)))
ORDER BY x.game_id, x.milestone_id LIMIT $4

-- name: quest
-- Quests that were completed.
SELECT x.event_id AS key, to_jsonb(x) - '{tenant_id,player_id,request_hash}'::text[] AS data
FROM quest_completions AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.event_id > $3)
  AND x.quest_id = ANY(ARRAY(SELECT q.quest_id FROM quests AS q WHERE q.tenant_id = $1))
ORDER BY x.event_id LIMIT $4

-- name: quest_event
-- Events of quests that were told of the player.
SELECT x.quest_id || ' ' || x.event_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM quest_events AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.quest_id, x.event_id) > (split_part($3, ' ', 1), substr($3, strpos($3, ' ') + 1)))
ORDER BY x.quest_id, x.event_id LIMIT $4

-- name: standing
-- Places on boards that are finalized.
SELECT x.board_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_standings AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.board_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM leaderboards AS b WHERE b.tenant_id = $1))
ORDER BY x.board_id LIMIT $4

-- name: score
-- Scores that staff adjusted.
SELECT x.entry_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_adjustments AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.entry_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM leaderboards AS b WHERE b.tenant_id = $1))
ORDER BY x.entry_id LIMIT $4

-- name: disqualification
-- Boards that staff took the player out of.
SELECT x.board_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_disqualifications AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.board_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM leaderboards AS b WHERE b.tenant_id = $1))
ORDER BY x.board_id LIMIT $4
