-- What says who a player is goes; what was played, won and paid stays, under the id. See
-- runtime/operations/desk/erasure.py. $1 tenant, $2 players: the player, and the guests that became it.

-- name: all_of
-- Player $2, and the guests that became it.
SELECT player_id FROM players WHERE tenant_id = $1 AND (player_id = $2 OR merged_into = $2) ORDER BY player_id

-- name: hold
-- All of them, until the transaction ends.
SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = ANY($2::text[]) ORDER BY player_id FOR NO KEY UPDATE

-- name: names
-- Their names alone, before the rest: who is on a board that is finalized from now on is there without.
UPDATE players SET display_name = '' WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND display_name <> ''

-- name: profiles
-- Their names, pictures, languages and attributes. By the clock, not by the transaction's beginning: rankings follow
-- who changed of late.
UPDATE players SET display_name = '', avatar_url = '', locale = '', attributes = '{}', erased_at = c.at, updated_at = c.at
FROM (SELECT clock_timestamp() AS at) AS c WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: guesses
-- What is counted of guesses at their contacts, as far as a challenge says which these are.
DELETE FROM login_guesses WHERE tenant_id = $1 AND contact_hash IN (
    SELECT l.contact_hash FROM login_challenges AS l
    JOIN contacts AS c ON c.tenant_id = $1 AND c.type || ':' || c.value = l.contact AND c.player_id = ANY($2::text[])
    WHERE l.tenant_id = $1
)

-- name: challenges
-- Codes that were sent to their contacts.
DELETE FROM login_challenges WHERE tenant_id = $1 AND contact IN (
    SELECT c.type || ':' || c.value FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = ANY($2::text[])
)

-- name: contacts
-- Their contacts: whoever proves one later is another player.
DELETE FROM contacts WHERE tenant_id = $1 AND player_id = ANY($2::text[]) RETURNING contact_id

-- name: hold_logins
-- Their logins, until the transaction ends: they are locked before the revocations that ending them writes.
SELECT login_id FROM logins WHERE tenant_id = $1 AND player_id = ANY($2::text[]) ORDER BY login_id FOR UPDATE

-- name: logins
-- Their logins, which have ended.
DELETE FROM logins WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: login_quarters
-- When they signed in.
DELETE FROM login_quarters WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: boards
-- Waits for the boards that are being finalized: one of them may have read their names, and shows nobody yet where it
-- keeps them. The next one reads what is left.
SELECT board_id FROM leaderboards WHERE tenant_id = $1 AND status = 'active' ORDER BY board_id FOR SHARE

-- name: plays
-- What they sent with at most $3 of their plays: seeds and keys of their own words, and what a payload held.
WITH batch AS (
    SELECT play_id FROM plays
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
      AND (client_seed <> '' OR payload::text <> '{}' OR idempotency_key IS NOT NULL)
    ORDER BY play_id LIMIT $3 FOR UPDATE
)
UPDATE plays AS p SET client_seed = '', payload = '{}', idempotency_key = NULL, request_hash = NULL
FROM batch WHERE p.tenant_id = $1 AND p.play_id = batch.play_id

-- name: grants
-- Keys of their redeems.
UPDATE milestone_grants SET idempotency_key = NULL, request_hash = NULL
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND idempotency_key IS NOT NULL

-- name: completions
-- Keys of their quests.
UPDATE quest_completions SET idempotency_key = NULL, request_hash = NULL
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND idempotency_key IS NOT NULL
  AND quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1))

-- name: quest_events
-- What was told of them from outside.
DELETE FROM quest_events WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: standings
-- Their names on boards that are finalized.
UPDATE leaderboard_standings SET display_name = ''
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND display_name <> ''
  AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1))

-- name: rewards
-- Keys of their claims.
UPDATE rewards SET claim_key = NULL WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND claim_key IS NOT NULL

-- name: answers
-- What they answered when they claimed.
DELETE FROM claim_answers AS a USING rewards AS r
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND a.tenant_id = $1 AND a.reward_id = r.reward_id

-- name: tasks
-- What receivers said of deliveries to them.
UPDATE tasks AS t SET last_error = '', external_id = '', answer = '', earlier = '[]'
FROM rewards AS r
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND t.tenant_id = $1 AND t.reward_id = r.reward_id
  AND (t.last_error <> '' OR t.external_id <> '' OR t.answer <> '' OR t.earlier <> '[]')

-- name: events
-- Events of integrations' logs, told or to be told, that tell of them.
SELECT integration_id, delivery_id, event FROM integration_deliveries
WHERE tenant_id = $1 AND event IS NOT NULL
  AND EXISTS (SELECT FROM unnest($2::text[]) AS p (player_id) WHERE position(p.player_id IN event::text) > 0)
ORDER BY integration_id, delivery_id FOR UPDATE

-- name: set_event
-- Event $4 in place of what delivery $3 of integration $2 told, or would tell; what was answered is gone.
UPDATE integration_deliveries SET event = $4, answer = '' WHERE tenant_id = $1 AND integration_id = $2 AND delivery_id = $3

-- name: is_erased
-- Whether player $2 was erased since the time $3 (unix seconds).
SELECT erased_at >= at_unix($3) FROM players WHERE tenant_id = $1 AND player_id = $2

-- name: tenants
-- The tenants that a sweep goes through one by one.
SELECT tenant_id FROM tenants ORDER BY tenant_id

-- name: idle
-- Of the next $5 players after $2, or of player $6 alone, who has done nothing for so many days: guests for $3, others
-- for $4 (0: they are kept). Who was erased, and not changed since, is not idle any more.
WITH looked AS (
    SELECT player_id, erased_at, updated_at, merged_into,
           now() - make_interval(days => CASE WHEN auth_method = 'guest' THEN $3::integer ELSE $4::integer END) AS since,
           CASE WHEN auth_method = 'guest' THEN $3::integer ELSE $4::integer END > 0 AS ends
    FROM players
    WHERE tenant_id = $1 AND player_id > $2 AND ($6 = '' OR player_id = $6)
    ORDER BY player_id LIMIT $5
)
SELECT n.player_id,
       n.ends AND n.merged_into IS NULL AND n.updated_at < n.since
       AND (n.erased_at IS NULL OR n.updated_at > n.erased_at)
       AND NOT EXISTS (
           SELECT FROM plays AS p WHERE p.tenant_id = $1 AND p.player_id = n.player_id AND p.played_at >= n.since)
       AND NOT EXISTS (
           SELECT FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = n.player_id
             AND greatest(r.won_at, r.claimed_at) >= n.since)
       AND NOT EXISTS (
           SELECT FROM logins AS l WHERE l.tenant_id = $1 AND l.player_id = n.player_id AND l.ended_at IS NULL
             AND l.expires_at > now())
       AS idle
FROM looked AS n ORDER BY n.player_id
