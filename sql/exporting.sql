-- A player's data export, one statement per kind. See runtime/operations/desk/export.py. $1 tenant, $2 player,
-- $3 after this key (NULL: from the first), $4 how many.

-- name: profile
-- The profile.
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
SELECT x.login_id AS key, to_jsonb(x) - '{tenant_id,player_id,turned_by,generation,repeated,repeats}'::text[] AS data
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
SELECT x.play_id AS key, to_jsonb(x) - '{tenant_id,player_id,request_hash,idempotency_key}'::text[] AS data
FROM plays AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.play_id > $3)
ORDER BY x.play_id LIMIT $4

-- name: reward
-- Rewards, without their codes.
SELECT x.reward_id AS key, to_jsonb(x) - '{tenant_id,player_id,claim_key}'::text[] AS data
FROM rewards AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.reward_id > $3)
ORDER BY x.reward_id LIMIT $4

-- name: answer
-- Answers to claim forms.
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
-- Granted milestones.
SELECT x.game_id || ' ' || x.milestone_id AS key,
       to_jsonb(x) - '{tenant_id,player_id,request_hash,idempotency_key}'::text[] AS data
FROM milestone_grants AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.game_id, x.milestone_id) > (split_part($3, ' ', 1), substr($3, strpos($3, ' ') + 1)))
ORDER BY x.game_id, x.milestone_id LIMIT $4

-- name: quest
-- Completed quests.
SELECT x.event_id AS key, to_jsonb(x) - '{tenant_id,player_id,request_hash,idempotency_key}'::text[] AS data
FROM quest_completions AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.event_id > $3)
  AND x.quest_id = ANY(ARRAY(SELECT q.quest_id FROM quests AS q WHERE q.tenant_id = $1))
ORDER BY x.event_id LIMIT $4

-- name: referral_code
-- Codes that the player shared.
SELECT x.campaign_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM referral_codes AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.campaign_id > $3)
ORDER BY x.campaign_id LIMIT $4

-- name: referral
-- Invitations that the player came by, without the other player.
SELECT x.campaign_id AS key, to_jsonb(x) - '{tenant_id,player_id,inviter_id}'::text[] AS data
FROM referrals AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.campaign_id > $3)
ORDER BY x.campaign_id LIMIT $4

-- name: quest_event
-- Quest events reported about the player.
SELECT x.quest_id || ' ' || x.event_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM quest_events AS x
WHERE x.tenant_id = $1 AND x.player_id = $2
  AND ($3::text IS NULL OR (x.quest_id, x.event_id) > (split_part($3, ' ', 1), substr($3, strpos($3, ' ') + 1)))
ORDER BY x.quest_id, x.event_id LIMIT $4

-- name: redemption
-- Redeemed codes and receipts, without the codes.
SELECT x.redemption_id AS key,
       to_jsonb(x) - '{tenant_id,player_id,code_hash,request_hash,idempotency_key}'::text[] AS data
FROM redemptions AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.redemption_id > $3)
ORDER BY x.redemption_id LIMIT $4

-- name: entry
-- Entries to campaigns, with the decisions about consents and the texts that were shown.
SELECT e.campaign_id::text AS key, jsonb_build_object(
    'campaign_id', e.campaign_id, 'fields', e.fields, 'old_enough', e.age, 'old_enough_on', e.age_on, 'country', e.country,
    'locale', e.locale, 'source', e.source, 'created_at', iso(e.created_at), 'updated_at', iso(e.updated_at), 'consents', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'id', k.consent_id, 'given', k.given, 'text_sha256', k.text_sha256, 'text', t.text, 'locale', k.locale,
            'decided_at', iso(k.decided_at)) ORDER BY k.consent_id, k.revision), '[]')
        FROM entry_consents AS k
        LEFT JOIN entry_texts AS t USING (tenant_id, text_sha256)
        WHERE k.tenant_id = $1 AND k.entry_id = e.entry_id
    )) AS data
FROM entries AS e
WHERE e.tenant_id = $1 AND e.player_id = $2 AND ($3::text IS NULL OR e.campaign_id > $3)
ORDER BY e.campaign_id LIMIT $4

-- name: standing
-- Ranks on finalized boards and in draws.
SELECT x.board_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_standings AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.board_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM ranked AS b WHERE b.tenant_id = $1))
ORDER BY x.board_id LIMIT $4

-- name: score
-- Score adjustments by staff.
SELECT x.entry_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_adjustments AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.entry_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM leaderboards AS b WHERE b.tenant_id = $1))
ORDER BY x.entry_id LIMIT $4

-- name: disqualification
-- Disqualifications from boards.
SELECT x.board_id AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM leaderboard_disqualifications AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.board_id > $3)
  AND x.board_id = ANY(ARRAY(SELECT b.board_id FROM leaderboards AS b WHERE b.tenant_id = $1))
ORDER BY x.board_id LIMIT $4

-- name: message
-- The log of messages to the player.
SELECT x.delivery_id AS key, to_jsonb(x) - '{tenant_id,next_attempt_at}'::text[] AS data
FROM integration_deliveries AS x
WHERE x.tenant_id = $1 AND starts_with(x.integration_id, 'messages_')
  AND (x.event #>> '{data,player_id}') COLLATE "C" = $2 AND ($3::text IS NULL OR x.delivery_id > $3)
ORDER BY x.delivery_id LIMIT $4

-- name: ticket
-- Tickets in closed draws.
SELECT x.draw_id::text AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM draw_tickets AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.draw_id > $3)
ORDER BY x.draw_id LIMIT $4

-- name: listed_tickets
-- Tickets in imported lists of draws.
SELECT x.draw_id::text AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM draw_lists AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.draw_id > $3)
  AND x.draw_id = ANY(ARRAY(SELECT d.draw_id FROM draws AS d WHERE d.tenant_id = $1))
ORDER BY x.draw_id LIMIT $4

-- name: game_count
-- Counts of plays by game.
SELECT x.game_id::text AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM game_players AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.game_id > $3)
  AND x.game_id = ANY(ARRAY(SELECT g.game_id FROM games AS g WHERE g.tenant_id = $1))
ORDER BY x.game_id LIMIT $4

-- name: prize_count
-- Counts of awards by prize.
SELECT x.prize_id::text AS key, to_jsonb(x) - '{tenant_id,player_id}'::text[] AS data
FROM prize_players AS x
WHERE x.tenant_id = $1 AND x.player_id = $2 AND ($3::text IS NULL OR x.prize_id > $3)
  AND x.prize_id = ANY(ARRAY(SELECT p.prize_id FROM prizes AS p WHERE p.tenant_id = $1))
ORDER BY x.prize_id LIMIT $4

-- name: audit
-- Audit entries about the player, without the staff member.
SELECT x.entry_id AS key, to_jsonb(x) - '{tenant_id,actor,trace_id}'::text[] AS data
FROM audit_entries AS x
WHERE x.tenant_id = $1 AND audit_player(x.subject_type, x.subject_id, x.before, x.after) = $2
  AND ($3::text IS NULL OR x.entry_id > $3)
ORDER BY x.entry_id LIMIT $4
