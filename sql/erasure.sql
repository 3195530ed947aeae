-- Erasure: personal data is deleted; plays, wins and payments stay under the id. See
-- runtime/operations/desk/erasure.py. $1 tenant, $2 players unless stated otherwise: the player and the guests merged
-- into it.

-- name: with_guests
-- Player $2, or the player that guest $2 was merged into; then the guests merged into it. No row: unknown.
SELECT p.player_id FROM players AS p, (
    SELECT coalesce(merged_into, player_id) AS player_id FROM players WHERE tenant_id = $1 AND player_id = $2) AS o
WHERE p.tenant_id = $1 AND (p.player_id = o.player_id OR p.merged_into = o.player_id)
ORDER BY p.player_id <> o.player_id, p.player_id

-- name: lock_players
-- Locks them, in key order, until the transaction ends.
SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = ANY($2::text[]) ORDER BY player_id FOR NO KEY UPDATE

-- name: names
-- Clears only the names, before the rest: a board finalized from now on stores none.
UPDATE players SET display_name = '' WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND display_name <> ''

-- name: profiles
-- Clears names, pictures, locales and attributes. Uses the clock instead of the transaction's start, because rankings
-- poll for recently changed players.
UPDATE players SET display_name = '', avatar_url = '', locale = '', attributes = '{}', erased_at = c.at, updated_at = c.at
FROM (SELECT clock_timestamp() AS at) AS c WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: contacts
-- Deletes their contacts, and returns them. A later login with one creates a new player.
DELETE FROM contacts WHERE tenant_id = $1 AND player_id = ANY($2::text[]) RETURNING type || ':' || value AS contact

-- name: challenges
-- Deletes login codes sent to contacts $2.
DELETE FROM login_challenges WHERE tenant_id = $1 AND contact = ANY($2::text[])

-- name: guesses
-- Deletes guess counters of contacts with fingerprints $2.
DELETE FROM login_guesses WHERE tenant_id = $1 AND fingerprint = ANY($2::bytea[])

-- name: lock_logins
-- Locks their logins: ending a login writes a revocation, which comes later in the lock order.
SELECT login_id FROM logins WHERE tenant_id = $1 AND player_id = ANY($2::text[]) ORDER BY login_id FOR UPDATE

-- name: logins
-- Deletes their ended logins.
DELETE FROM logins WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: login_quarters
-- Deletes their login times.
DELETE FROM login_quarters WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: boards
-- Waits for boards that are being finalized. Such a transaction may have read the names, and its standings are not
-- visible yet. Later ones read the cleared names.
SELECT board_id FROM leaderboards WHERE tenant_id = $1 AND status = 'active' ORDER BY board_id FOR SHARE

-- name: plays
-- Clears what they sent with at most $3 plays: client seeds, payloads and idempotency keys.
WITH batch AS (
    SELECT play_id FROM plays
    WHERE tenant_id = $1 AND player_id = ANY($2::text[])
      AND (client_seed <> '' OR payload::text <> '{}' OR idempotency_key IS NOT NULL)
    ORDER BY play_id LIMIT $3 FOR UPDATE
)
UPDATE plays AS p SET client_seed = '', payload = '{}', idempotency_key = NULL, request_hash = NULL
FROM batch WHERE p.tenant_id = $1 AND p.play_id = batch.play_id

-- name: grants
-- Clears the idempotency keys of their redeems.
UPDATE milestone_grants SET idempotency_key = NULL, request_hash = NULL
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND idempotency_key IS NOT NULL

-- name: completions
-- Clears the idempotency keys of their quest completions.
UPDATE quest_completions SET idempotency_key = NULL, request_hash = NULL
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND idempotency_key IS NOT NULL
  AND quest_id = ANY(ARRAY(SELECT quest_id FROM quests WHERE tenant_id = $1))

-- name: quest_events
-- Deletes events reported about them.
DELETE FROM quest_events WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: redemptions
-- Clears the idempotency keys of their redemptions. A receipt's id stays, so that it is not paid again.
UPDATE redemptions SET idempotency_key = NULL, request_hash = NULL
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND idempotency_key IS NOT NULL

-- name: code_guesses
-- Deletes the counts of their wrong codes.
DELETE FROM code_guesses WHERE tenant_id = $1
  AND guesser = ANY(ARRAY(SELECT 'player ' || p FROM unnest($2::text[]) AS p))

-- name: referral_codes
-- Deletes the codes that they shared.
DELETE FROM referral_codes WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: entries
-- Clears what they entered. The receipts of consents stay under the id, without anything personal.
UPDATE entries SET fields = '{}', given = '{}', age = 0, age_on = NULL, country = '', locale = '', source = '{}',
                   revision = revision + 1, updated_at = now()
WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: entry_contacts
-- Deletes the hashes of contacts that they entered with.
DELETE FROM entry_contacts AS k USING entries AS e
WHERE e.tenant_id = $1 AND e.player_id = ANY($2::text[]) AND k.tenant_id = $1 AND k.entry_id = e.entry_id

-- name: entry_keys
-- Deletes the idempotency keys of their entries.
DELETE FROM entry_keys WHERE tenant_id = $1 AND player_id = ANY($2::text[])

-- name: standings
-- Clears their names on finalized boards.
UPDATE leaderboard_standings SET display_name = ''
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND display_name <> ''
  AND board_id = ANY(ARRAY(SELECT board_id FROM leaderboards WHERE tenant_id = $1))

-- name: rewards
-- Clears the idempotency keys of their claims.
UPDATE rewards SET claim_key = NULL WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND claim_key IS NOT NULL

-- name: answers
-- Deletes their claim answers.
DELETE FROM claim_answers AS a USING rewards AS r
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND a.tenant_id = $1 AND a.reward_id = r.reward_id

-- name: tasks
-- Clears receivers' responses to their deliveries.
UPDATE tasks AS t SET last_error = '', external_id = '', answer = '', earlier = '[]'
FROM rewards AS r
WHERE r.tenant_id = $1 AND r.player_id = ANY($2::text[]) AND t.tenant_id = $1 AND t.reward_id = r.reward_id
  AND (t.last_error <> '' OR t.external_id <> '' OR t.answer <> '' OR t.earlier <> '[]')

-- name: events
-- Logged integration events, delivered or pending, that contain their ids. Locked in key order. Without messages, whose
-- log is not pruned: the statement `messages` finds those by an index.
SELECT integration_id, delivery_id, event FROM integration_deliveries
WHERE tenant_id = $1 AND event IS NOT NULL
  AND integration_id = ANY(ARRAY(
      SELECT i.integration_id FROM integrations AS i
      WHERE i.tenant_id = $1 AND NOT starts_with(i.integration_id, 'messages_')))
  AND EXISTS (SELECT FROM unnest($2::text[]) AS p (player_id) WHERE position(p.player_id IN event::text) > 0)
ORDER BY integration_id, delivery_id FOR UPDATE

-- name: messages
-- The log of messages to them, as `events`.
SELECT integration_id, delivery_id, event FROM integration_deliveries
WHERE tenant_id = $1 AND starts_with(integration_id, 'messages_')
  AND (event #>> '{data,player_id}') COLLATE "C" = ANY($2::text[])
ORDER BY integration_id, delivery_id FOR UPDATE

-- name: set_event
-- Replaces the event of delivery $3 of integration $2 by $4 and clears the response and the error.
UPDATE integration_deliveries SET event = $4, answer = '', error = ''
WHERE tenant_id = $1 AND integration_id = $2 AND delivery_id = $3

-- name: log
-- Locks the log: a running append may have read what they sent.
SELECT true FROM log_trees WHERE tenant_id = $1 FOR UPDATE

-- name: salts
-- Deletes at most $3 salts of the log's hashes of what they sent, of cleared plays. Without the salt, a hash does not
-- reveal its input; with it, the auditor would report the cleared play.
UPDATE log_leaves SET salt = NULL
WHERE tenant_id = $1 AND leaf_index = ANY(ARRAY(
    SELECT l.leaf_index FROM plays AS p
    JOIN log_leaves AS l ON l.tenant_id = $1 AND l.kind = 'play' AND l.row_id = p.play_id AND l.salt IS NOT NULL
    WHERE p.tenant_id = $1 AND p.player_id = ANY($2::text[]) AND NOT has_sent(p.client_seed, p.payload)
    ORDER BY l.leaf_index LIMIT $3))

-- name: is_erased
-- Whether player $2 was erased at or after time $3 (unix seconds).
SELECT erased_at >= at_unix($3) FROM players WHERE tenant_id = $1 AND player_id = $2

-- name: tenants
-- The tenants that the retention job visits.
SELECT tenant_id FROM tenants ORDER BY tenant_id

-- name: idle
-- Retention: which of the next $5 players after $2, or of player $6 only, have been idle: guests for $3 days, others for
-- $4 (0: never). Players are not idle while they have an entry to a campaign with a later end or an unconfirmed draw,
-- tickets or their currency in such a draw, a place on an active board with prizes or on any board whose scores are the
-- tickets of an open draw, or an undelivered reward: claimed, failed, or still to claim before a deadline. Tickets of guests
-- merged into them count. An erased player is idle only with data from after the erasure.
WITH candidates AS (
    SELECT player_id, erased_at, updated_at, merged_into,
           now() - make_interval(days => CASE WHEN auth_method = 'guest' THEN $3::integer ELSE $4::integer END) AS since,
           CASE WHEN auth_method = 'guest' THEN $3::integer ELSE $4::integer END > 0 AS ends
    FROM players
    WHERE tenant_id = $1 AND player_id > $2 AND ($6 = '' OR player_id = $6)
    ORDER BY player_id LIMIT $5
)
SELECT n.player_id,
       n.ends AND n.merged_into IS NULL AND n.updated_at < n.since
       AND (
           NOT is_erased($1, n.player_id)
           OR EXISTS (
               SELECT FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = n.player_id
                 AND greatest(r.won_at, r.claimed_at) > n.erased_at))
       AND NOT EXISTS (
           SELECT FROM plays AS p WHERE p.tenant_id = $1 AND p.player_id = n.player_id AND p.played_at >= n.since)
       -- The plays of archived campaigns; a local day may begin a day earlier.
       AND NOT EXISTS (
           SELECT FROM game_players AS c
           WHERE c.tenant_id = $1 AND c.game_id = ANY(archived_games($1)) AND c.player_id = n.player_id
             AND c.day >= n.since::date - 1)
       AND NOT EXISTS (
           SELECT FROM rewards AS r LEFT JOIN tasks AS t ON t.tenant_id = $1 AND t.reward_id = r.reward_id
           WHERE r.tenant_id = $1 AND r.player_id = n.player_id
             AND (greatest(r.won_at, r.claimed_at) >= n.since OR r.status IN ('claimed', 'fulfilling', 'failed')
                  OR (r.status = 'won' AND r.expires_at > now())
                  OR t.status IN ('pending', 'delivering', 'awaiting', 'retry')))
       AND NOT EXISTS (
           SELECT FROM logins AS l WHERE l.tenant_id = $1 AND l.player_id = n.player_id AND l.ended_at IS NULL
             AND l.expires_at > now())
       AND NOT EXISTS (
           SELECT FROM redemptions AS o
           WHERE o.tenant_id = $1 AND o.player_id = n.player_id AND o.redeemed_at >= n.since)
       AND NOT EXISTS (
           SELECT FROM quest_completions AS q
           WHERE q.tenant_id = $1 AND q.player_id = n.player_id AND q.completed_at >= n.since
             AND q.quest_id = ANY(ARRAY(SELECT o.quest_id FROM quests AS o WHERE o.tenant_id = $1)))
       AND NOT EXISTS (
           SELECT FROM entries AS e JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = e.campaign_id
           WHERE e.tenant_id = $1 AND e.player_id = n.player_id
             AND (e.updated_at >= n.since OR (c.status <> 'ended' AND c.end_date > now()) OR EXISTS (
                 SELECT FROM draws AS d
                 WHERE d.tenant_id = $1 AND d.campaign_id = e.campaign_id
                   AND d.status IN ('open', 'closed', 'drawn'))))
       AND NOT EXISTS (
           SELECT FROM draw_tickets AS k JOIN draws AS d ON d.tenant_id = $1 AND d.draw_id = k.draw_id
           WHERE k.tenant_id = $1 AND d.status IN ('closed', 'drawn') AND k.player_id = ANY(ARRAY(
               SELECT n.player_id
               UNION ALL SELECT g.player_id FROM players AS g WHERE g.tenant_id = $1 AND g.merged_into = n.player_id)))
       AND NOT EXISTS (
           SELECT FROM draws AS d JOIN draw_lists AS l ON l.tenant_id = $1 AND l.draw_id = d.draw_id
           WHERE d.tenant_id = $1 AND d.status = 'open' AND l.player_id = ANY(ARRAY(
               SELECT n.player_id
               UNION ALL SELECT g.player_id FROM players AS g WHERE g.tenant_id = $1 AND g.merged_into = n.player_id)))
       AND NOT EXISTS (
           SELECT FROM draws AS d
           JOIN balances AS b ON b.tenant_id = $1 AND b.player_id = n.player_id AND b.scope_key = d.tickets ->> 'scope_key'
               AND b.currency = d.tickets ->> 'currency' AND b.balance > 0
           WHERE d.tenant_id = $1 AND d.status = 'open')
       AND NOT EXISTS (
           SELECT FROM leaderboards AS b
           WHERE b.tenant_id = $1
             AND ((b.status = 'active' AND b.prizes <> '[]') OR EXISTS (
                 SELECT FROM draws AS d
                 WHERE d.tenant_id = $1 AND d.status = 'open' AND d.tickets ->> 'ranking' = b.board_id))
             AND (
               EXISTS (
                   SELECT FROM leaderboard_adjustments AS a
                   WHERE a.tenant_id = $1 AND a.board_id = b.board_id AND a.player_id = n.player_id)
               OR EXISTS (
                   SELECT FROM games AS g
                   JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = g.game_id AND c.player_id = n.player_id
                   WHERE g.tenant_id = $1
                     AND (g.game_id = b.game_id OR (b.game_id = '' AND g.campaign_id = b.campaign_id)))))
       AS idle
FROM candidates AS n ORDER BY n.player_id
