-- What is exported, a part at a time in the order of its keys. See runtime/operations/reporting/exports.py.
--
-- Of each: $1 tenant, $2 the merchant whose staff asks ('' the tenant's own), $3 the campaign ('' all), $4 from when on
-- and $5 before when (unix seconds; 0: not bounded), $6 the key to go on after, $7 how many rows are looked at. So a
-- part costs the same however few of them are asked for; seen_until and seen say where it ended. One row without cells
-- where none of them is.

-- name: campaign
-- Whether staff of merchant $3 ('' the tenant's own) may read the campaign. No row: there is none that it may.
SELECT true FROM campaigns
WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: plays
-- Plays, by their ids.
WITH seen AS (
    SELECT play_id, played_at, game_id, player_id, revision, score, wins, points, client_seed, seed
    FROM plays WHERE tenant_id = $1 AND play_id > $6::text ORDER BY play_id LIMIT $7
)
SELECT (SELECT max(play_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT p.play_id AS id, iso(p.played_at) AS played_at, g.campaign_id, p.game_id, g.name AS game, p.player_id,
           p.revision, p.score, p.wins, p.points, p.client_seed, encode(p.seed, 'hex') AS seed
    FROM seen AS p
    JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
    WHERE ($2 = '' OR g.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR g.campaign_id = $3)
      AND ($4::bigint = 0 OR p.played_at >= at_unix($4)) AND ($5::bigint = 0 OR p.played_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: rewards
-- Rewards, by their ids. No staff's to see are codes: only whether there is one.
WITH seen AS (
    SELECT * FROM rewards WHERE tenant_id = $1 AND reward_id > $6::text ORDER BY reward_id LIMIT $7
)
SELECT (SELECT max(reward_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT r.reward_id AS id, iso(r.won_at) AS won_at, r.campaign_id, r.game_id, r.play_id, r.player_id, r.prize_id,
           r.name AS prize, r.type, r.value, r.quantity,
           standing(r.status, r.expires_at, EXISTS (
               SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)) AS status,
           iso(r.claimed_at) AS claimed_at, iso(r.fulfilled_at) AS fulfilled_at, iso(r.expires_at) AS expires_at,
           CASE WHEN EXISTS (SELECT FROM codes AS c WHERE c.tenant_id = $1 AND c.reward_id = r.reward_id)
                THEN '****' END AS code
    FROM seen AS r
    WHERE ($2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR r.campaign_id = $3)
      AND ($4::bigint = 0 OR r.won_at >= at_unix($4)) AND ($5::bigint = 0 OR r.won_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: winners
-- Who won what, and how to reach them, by the rewards' ids; what was revoked or has expired is nobody's. theirs: whether
-- it was won in a campaign that who asks may write; a merchant's staff is not told who the tenant's own winners are.
WITH seen AS (
    SELECT * FROM rewards WHERE tenant_id = $1 AND reward_id > $6::text ORDER BY reward_id LIMIT $7
)
SELECT (SELECT max(reward_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT r.reward_id AS id, iso(r.won_at) AS won_at, r.campaign_id, r.prize_id, r.name AS prize, r.quantity, s.status,
           r.player_id, p.display_name, p.locale,
           (SELECT min(c.value) FROM contacts AS c
            WHERE c.tenant_id = $1 AND c.player_id = r.player_id AND c.type = 'email') AS email,
           (SELECT min(c.value) FROM contacts AS c
            WHERE c.tenant_id = $1 AND c.player_id = r.player_id AND c.type = 'phone') AS phone,
           $2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, true) AS o) AS theirs
    FROM seen AS r
    CROSS JOIN LATERAL (
        SELECT standing(
            r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
        ) AS status
    ) AS s
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = r.player_id
    WHERE s.status NOT IN ('revoked', 'expired')
      AND ($2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR r.campaign_id = $3)
      AND ($4::bigint = 0 OR r.won_at >= at_unix($4)) AND ($5::bigint = 0 OR r.won_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: ledger
-- Movements of wallets, player by player, each player's in their order. $6 to $8: the player, seq and id to go on
-- after; $9 how many rows are looked at. The wallets of the tenant are every merchant's to read.
WITH seen AS (
    SELECT * FROM ledger_entries
    WHERE tenant_id = $1 AND (player_id, seq, entry_id) > ($6::text, $7::bigint, $8::text)
    ORDER BY player_id, seq, entry_id LIMIT $9
)
SELECT (SELECT concat_ws('/', seq, entry_id, player_id) FROM seen ORDER BY player_id DESC, seq DESC, entry_id DESC LIMIT 1)
           AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT concat_ws('/', l.seq, l.entry_id, l.player_id) AS position, iso(l.created_at) AS created_at,
           l.entry_id AS id, l.player_id, l.scope_key, l.currency, l.amount, l.balance_after, l.reason, l.reference_id,
           l.reward_id, l.seq
    FROM seen AS l
    WHERE ($2 = '' OR l.scope_key IN ($1, $2) OR l.scope_key IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR l.scope_key = $3)
      AND ($4::bigint = 0 OR l.created_at >= at_unix($4)) AND ($5::bigint = 0 OR l.created_at < at_unix($5))
) AS found ON true
ORDER BY found.player_id, found.seq, found.id

-- name: tasks
-- Deliveries, by their ids.
WITH seen AS (
    SELECT * FROM tasks WHERE tenant_id = $1 AND task_id > $6::text ORDER BY task_id LIMIT $7
)
SELECT (SELECT max(task_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT t.task_id AS id, iso(t.created_at) AS created_at, t.campaign_id, t.reward_id, t.prize_id, t.player_id,
           t.channel, t.status, t.attempts, t.last_error, t.external_id, iso(t.next_attempt_at) AS next_attempt_at,
           iso(t.updated_at) AS updated_at
    FROM seen AS t
    WHERE ($2 = '' OR t.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR t.campaign_id = $3)
      AND ($4::bigint = 0 OR t.created_at >= at_unix($4)) AND ($5::bigint = 0 OR t.created_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: audit
-- The audit log, by its entries' ids. A merchant's staff reads what was done in the merchant's name. Of a campaign:
-- what was done to it, and to what says that it is of it.
WITH seen AS (
    SELECT * FROM audit_entries WHERE tenant_id = $1 AND entry_id > $6::text ORDER BY entry_id LIMIT $7
)
SELECT (SELECT max(entry_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT a.entry_id AS id, iso(a.created_at) AS created_at, a.actor, a.merchant_id, a.action, a.subject_type,
           a.subject_id, a.before::text AS before, a.after::text AS after, a.trace_id
    FROM seen AS a
    WHERE ($2 = '' OR a.merchant_id = $2)
      AND ($3 = '' OR (a.subject_type = 'campaign' AND a.subject_id = $3)
           OR $3 IN (a.before ->> 'campaign_id', a.after ->> 'campaign_id'))
      AND ($4::bigint = 0 OR a.created_at >= at_unix($4)) AND ($5::bigint = 0 OR a.created_at < at_unix($5))
) AS found ON true
ORDER BY found.id
