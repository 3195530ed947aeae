-- Players as staff sees them. See runtime/operations/desk/.

-- name: search
-- Players, newest first, after $6 (NULL: from the newest). '' matches all: $2 an exact id, $3 a LIKE pattern of the
-- name, $4 contacts in stored form, $5 a status.
SELECT p.player_id, p.display_name, p.avatar_url, p.locale, p.auth_method, p.status, p.merged_into,
       unix(p.erased_at) AS erased_at, unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object('id', c.contact_id, 'type', c.type, 'value', c.value,
                                               'verified', c.verified, 'created_at', unix(c.created_at))
                            ORDER BY c.contact_id)
           FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = p.player_id
       ), '[]') AS contacts
FROM players AS p
WHERE p.tenant_id = $1
  AND ($2 = '' OR p.player_id = $2 OR p.display_name ILIKE $3 OR p.player_id IN (
      SELECT c.player_id FROM contacts AS c
      WHERE c.tenant_id = $1 AND c.type IN ('phone', 'email') AND c.value = ANY($4::text[])
  ))
  AND ($5 = '' OR p.status = $5)
  AND ($6::text IS NULL OR p.player_id < $6)
ORDER BY p.player_id DESC
LIMIT $7

-- name: record
-- One player. No row: there is none.
SELECT p.player_id, p.display_name, p.avatar_url, p.locale, p.auth_method, p.status, p.merged_into,
       unix(p.erased_at) AS erased_at, unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object('id', c.contact_id, 'type', c.type, 'value', c.value,
                                               'verified', c.verified, 'created_at', unix(c.created_at))
                            ORDER BY c.contact_id)
           FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = $2
       ), '[]') AS contacts
FROM players AS p
WHERE p.tenant_id = $1 AND p.player_id = $2

-- name: counts
-- Counts of player $2, with archived plays, and the time of the last play in the database: that of the latest hundred sessions, since reading it from all of
-- ten thousand plays would touch as many pages.
SELECT (SELECT count(*) FROM plays AS p
        WHERE p.tenant_id = $1 AND p.player_id = $2 AND NOT p.game_id = ANY(archived_games($1)))
       + (SELECT coalesce(sum(c.plays), 0)::bigint FROM game_players AS c
          WHERE c.tenant_id = $1 AND c.game_id = ANY(archived_games($1)) AND c.player_id = $2) AS plays,
       (SELECT unix(max(p.played_at)) FROM plays AS p
        WHERE p.tenant_id = $1 AND p.play_id = ANY (ARRAY(
            SELECT o.play_id FROM plays AS o WHERE o.tenant_id = $1 AND o.player_id = $2
            ORDER BY o.play_id DESC LIMIT 100))) AS last_played_at,
       (SELECT count(*) FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = $2) AS rewards,
       (SELECT count(*) FROM logins AS l
        WHERE l.tenant_id = $1 AND l.player_id = $2 AND l.ended_at IS NULL AND l.expires_at > now()) AS sessions

-- name: is_known
-- Whether the player exists.
SELECT EXISTS (SELECT FROM players WHERE tenant_id = $1 AND player_id = $2)

-- name: plays
-- Plays of player $2, newest first, after $5, in campaign $3 ('' all). $4 the staff's merchant ('': the tenant). An
-- index-only subquery selects the page, so only its plays are read.
SELECT p.play_id, p.game_id, p.session_id, p.revision, p.seed, p.client_seed, p.outcome,
       unix(p.played_at) AS played_at, coalesce(t.revision_hash, '') AS revision_hash
FROM (
    SELECT o.play_id FROM plays AS o
    WHERE o.tenant_id = $1 AND o.player_id = $2 AND ($5::text IS NULL OR o.play_id < $5)
      AND (($3 = '' AND $4 = '') OR o.game_id IN (
          SELECT g.game_id FROM games AS g
          WHERE g.tenant_id = $1 AND ($3 = '' OR g.campaign_id = $3)
            AND ($4 = '' OR g.campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
      ))
    ORDER BY o.play_id DESC
    LIMIT $6
) AS n
JOIN plays AS p ON p.tenant_id = $1 AND p.play_id = n.play_id
LEFT JOIN promised_terms AS t ON t.tenant_id = $1 AND t.game_id = p.game_id
    AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'
ORDER BY p.play_id DESC

-- name: balances
-- Balances of player $2 by scope and currency, after $5 and $6 (NULL: from the first), of scope $3 ('' all). $4 the
-- staff's merchant ('': the tenant): it sees its own scopes and the tenant's.
SELECT scope_key, currency, balance, unix(updated_at) AS updated_at
FROM balances
WHERE tenant_id = $1 AND player_id = $2 AND ($3 = '' OR scope_key = $3)
  AND ($4 = '' OR scope_key IN ($1, $4) OR scope_key IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR (scope_key, currency) > ($5, $6::text))
ORDER BY scope_key, currency
LIMIT $7

-- name: ledger
-- Movements of player $2, newest first, after seq $5 and id $6 (NULL: from the newest); $3 and $4 as above.
SELECT entry_id, seq, currency, scope_key, amount, balance_after, reason, reference_id, unix(created_at) AS created_at
FROM ledger_entries
WHERE tenant_id = $1 AND player_id = $2 AND ($3 = '' OR scope_key = $3)
  AND ($4 = '' OR scope_key IN ($1, $4) OR scope_key IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND (seq, entry_id) < (coalesce($5::bigint, 9223372036854775807), coalesce($6::text, ''))
ORDER BY seq DESC, entry_id DESC
LIMIT $7

-- name: turns
-- Turns of player $2 by campaign, after $5 (NULL: from the first), in campaign $3 ('' all). $4 the staff's merchant
-- ('': the tenant).
SELECT campaign_id, balance, unix(updated_at) AS updated_at
FROM turn_balances
WHERE tenant_id = $1 AND player_id = $2 AND ($3 = '' OR campaign_id = $3)
  AND ($4 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR campaign_id > $5)
ORDER BY campaign_id
LIMIT $6

-- name: turn_entries
-- Movements of turns of player $2, the newest first, after $5 (NULL: from the newest); $3 and $4 as above.
-- By the time in the ids, which begin with turn_ or entry_.
SELECT entry_id AS id, campaign_id, amount, balance_after, reason, reference_id, unix(created_at) AS created_at
FROM turn_entries
WHERE tenant_id = $1 AND player_id = $2 AND ($3 = '' OR campaign_id = $3)
  AND ($4 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR split_part(entry_id, '_', 2) < split_part($5, '_', 2))
ORDER BY split_part(entry_id, '_', 2) DESC
LIMIT $6

-- name: completions
-- Quests that player $2 completed, newest first, after event $5 (NULL: from the newest); $3 and $4 as above.
SELECT c.event_id AS id, c.quest_id, q.campaign_id, q.name, c.period, c.turns, unix(c.completed_at) AS completed_at
FROM quests AS q
JOIN quest_completions AS c ON c.tenant_id = $1 AND c.quest_id = q.quest_id AND c.player_id = $2
WHERE q.tenant_id = $1 AND ($3 = '' OR q.campaign_id = $3)
  AND ($4 = '' OR q.campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR c.event_id < $5)
ORDER BY c.event_id DESC
LIMIT $6

-- name: sessions
-- Active logins of player $2, newest first, after time $3 and id $4 (NULL: from the newest).
SELECT login_id AS id, merchant_id, unix(created_at) AS created_at, unix(expires_at) AS expires_at,
       (extract(epoch FROM created_at) * 1000000)::bigint AS begun_us
FROM logins
WHERE tenant_id = $1 AND player_id = $2 AND ended_at IS NULL AND expires_at > now()
  AND ((extract(epoch FROM created_at) * 1000000)::bigint, login_id)
    < (coalesce($3::bigint, 9223372036854775807), coalesce($4::text, ''))
ORDER BY begun_us DESC, login_id DESC
LIMIT $5

-- name: grant_turns
-- Credits player $2 with $4 turns in campaign $3, as entry $5 with reference $6 and reason $7.
WITH credited AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance) VALUES ($1, $3, $2, $4::bigint)
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING balance
)
INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
SELECT $1, $5, $3, $2, $4, balance, $7, $6 FROM credited
RETURNING entry_id AS id, campaign_id, amount, balance_after, reason, reference_id, unix(created_at) AS created_at

-- name: has
-- What a merge would move from guest $2. No row: no such player.
SELECT p.auth_method, p.merged_into, p.status,
       EXISTS (SELECT FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = $2) AS has_contacts,
       (SELECT count(*) FROM plays AS y WHERE y.tenant_id = $1 AND y.player_id = $2) AS plays,
       (SELECT count(*) FROM rewards AS r WHERE r.tenant_id = $1 AND r.player_id = $2) AS rewards,
       (SELECT count(*) FROM balances AS b
        WHERE b.tenant_id = $1 AND b.player_id = $2 AND b.balance > 0) AS balances,
       (SELECT coalesce(sum(t.balance), 0)::bigint FROM turn_balances AS t
        WHERE t.tenant_id = $1 AND t.player_id = $2) AS turns
FROM players AS p
WHERE p.tenant_id = $1 AND p.player_id = $2

-- name: lock_player
-- Locks player $2 until the transaction ends. No row: no such player.
SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = $2 FOR NO KEY UPDATE

-- name: unlink
-- Removes contact $3 of player $2. No row: the player has no such contact.
DELETE FROM contacts WHERE tenant_id = $1 AND player_id = $2 AND contact_id = $3 RETURNING type

-- name: tasks
-- Deliveries of player $2's rewards, newest first, after $5 (NULL: from the newest), in campaign $3 ('' all). $4 the
-- staff's merchant ('': the tenant).
SELECT t.task_id, t.reward_id, t.prize_id, t.campaign_id, t.player_id, t.channel, t.status, t.attempts, t.last_error,
       unix(t.next_attempt_at) AS next_attempt_at, unix(t.created_at) AS created_at, unix(t.updated_at) AS updated_at,
       r.name AS prize_name
FROM rewards AS r
JOIN tasks AS t ON t.tenant_id = $1 AND t.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.player_id = $2 AND ($3 = '' OR t.campaign_id = $3)
  AND ($4 = '' OR t.campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR t.task_id < $5)
ORDER BY t.task_id DESC
LIMIT $6

-- name: rewards
-- As rewards.search, limited to rewards of the players with contacts $8 (NULL: any) or with one of the codes $9, $10
-- (prize and code hash; NULL: any), from time $11 until $12 (unix seconds, 0: unbounded), after $13. In a search by
-- contact or code a merchant's staff finds only rewards that it may write.
WITH winners AS MATERIALIZED (
    SELECT c.player_id FROM contacts AS c
    WHERE c.tenant_id = $1 AND c.type IN ('phone', 'email') AND c.value = ANY($8::text[])
),
coded AS MATERIALIZED (
    SELECT c.reward_id FROM codes AS c
    JOIN unnest($9::text[], $10::bytea[]) AS n (prize_id, code_hash)
      ON n.prize_id = c.prize_id AND n.code_hash = c.code_hash
    WHERE c.tenant_id = $1
)
SELECT r.reward_id, r.player_id, r.prize_id, r.name, r.type, r.value, r.quantity, s.status, r.game_id,
       r.play_id, r.campaign_id, r.milestone_id, unix(r.won_at) AS won_at, unix(r.claimed_at) AS claimed_at,
       unix(r.fulfilled_at) AS fulfilled_at, unix(r.expires_at) AS expires_at,
       EXISTS (SELECT FROM claim_answers AS a WHERE a.tenant_id = $1 AND a.reward_id = r.reward_id) AS answered,
       coalesce(
           (SELECT t.channel FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id),
           (SELECT p.channel FROM prizes AS p WHERE p.tenant_id = $1 AND p.prize_id = r.prize_id),
           'none'
       ) AS channel
FROM (
    -- One branch for the most selective key, each in key order, as in rewards.search.
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $9::text[] IS NOT NULL
       AND reward_id = ANY (ARRAY(SELECT o.reward_id FROM coded AS o)) ORDER BY reward_id DESC OFFSET 0)
    UNION ALL
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $9::text[] IS NULL AND $8::text[] IS NOT NULL
       AND player_id = ANY (ARRAY(SELECT w.player_id FROM winners AS w)) ORDER BY reward_id DESC OFFSET 0)
    UNION ALL
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $9::text[] IS NULL AND $8::text[] IS NULL AND $6 <> ''
       AND player_id = $6 AND ($13::text IS NULL OR reward_id < $13) ORDER BY reward_id DESC OFFSET 0)
    UNION ALL
    (SELECT * FROM rewards WHERE tenant_id = $1 AND $9::text[] IS NULL AND $8::text[] IS NULL AND $6 = ''
       AND ($13::text IS NULL OR reward_id < $13) ORDER BY reward_id DESC OFFSET 0)
) AS r
CROSS JOIN LATERAL (
    SELECT reward_status(
        r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
    ) AS status
) AS s
WHERE ($2 = '' OR s.status = $2)
  AND ($3 = '' OR r.campaign_id = $3)
  AND ($4 = '' OR r.prize_id = $4)
  AND ($5 = '' OR r.game_id = $5)
  AND ($6 = '' OR r.player_id = $6)
  AND ($7 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of(
      $1, $7, $8::text[] IS NOT NULL OR $9::text[] IS NOT NULL) AS o))
  AND ($8::text[] IS NULL OR r.player_id IN (SELECT w.player_id FROM winners AS w))
  AND ($11::bigint = 0 OR r.won_at >= at_unix($11))
  AND ($12::bigint = 0 OR r.won_at < at_unix($12))
  AND ($13::text IS NULL OR r.reward_id < $13)
ORDER BY r.reward_id DESC
LIMIT $14

-- name: coded_prizes
-- Prizes with codes.
SELECT p.prize_id FROM prizes AS p
WHERE p.tenant_id = $1 AND EXISTS (SELECT FROM codes AS c WHERE c.tenant_id = $1 AND c.prize_id = p.prize_id)

-- name: task_of
-- The delivery of reward $2. No row: it has none.
SELECT task_id FROM tasks WHERE tenant_id = $1 AND reward_id = $2

-- name: delivery_of_reward
-- The delivery of reward $2 with its attempts and the payload's fields, as in fulfillment.lease. No row: it has none.
SELECT t.task_id, t.reward_id, t.prize_id, t.campaign_id, t.player_id, t.channel, t.status, t.attempts, t.last_error,
       unix(t.next_attempt_at) AS next_attempt_at, unix(t.created_at) AS created_at, unix(t.updated_at) AS updated_at,
       unix(t.tried_at) AS tried_at, t.duration_ms, t.answer, t.earlier, r.name, r.type, r.value, r.quantity,
       r.game_id, r.play_id, r.milestone_id, unix(r.won_at) AS won_at, unix(r.claimed_at) AS claimed_at,
       coalesce(p.name, r.name) AS prize_name, coalesce(p.type, r.type) AS prize_type,
       coalesce(p.value, r.value) AS prize_value, coalesce(a.answers, '[]') AS answers,
       coalesce(p.channel_config ? 'secret', false) AS secret_set
FROM tasks AS t
JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = t.reward_id
LEFT JOIN prizes AS p ON p.tenant_id = $1 AND p.prize_id = t.prize_id
LEFT JOIN claim_answers AS a ON a.tenant_id = $1 AND a.reward_id = t.reward_id
WHERE t.tenant_id = $1 AND t.reward_id = $2
