-- Exports, in batches by key. See runtime/operations/reporting/exports.py.
--
-- Each: $1 tenant, $2 the staff's merchant ('': the tenant), $3 the campaign ('' all), $4 from and $5 until (exclusive;
-- unix seconds, 0: unbounded), $6 the key to continue after, $7 how many rows to scan. The limit is on scanned rows, so
-- a batch costs the same however few match; seen_until and seen say where it ended. If nothing matches, there is one
-- row with empty cells.

-- name: campaign
-- Whether staff of merchant $3 ('': the tenant's) may read the campaign. No row: not found or not readable.
SELECT true FROM campaigns
WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: entry_form
-- The entry form of campaign $2. No row: unknown.
SELECT entry FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2

-- name: consent
-- Whether the entry form of campaign $2 ('': of any) asks for the consent $3, as [{"id": ...}]. No row: none does.
SELECT true FROM campaigns
WHERE tenant_id = $1 AND ($2 = '' OR campaign_id = $2) AND entry -> 'consents' @> $3::jsonb
LIMIT 1

-- name: claim_keys
-- The keys of the claim forms of campaign $2's prizes, and of the tenant's prizes without a campaign.
SELECT coalesce(array_agg(DISTINCT (f ->> 'key') COLLATE "C" ORDER BY (f ->> 'key') COLLATE "C"), '{}') AS keys
FROM prizes AS p CROSS JOIN jsonb_array_elements(p.claim_fields) AS f
WHERE p.tenant_id = $1 AND p.campaign_id IN ('', $2) AND p.claim_fields <> '[]'

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

-- name: play_receipts
-- Plays with all that decides them again, by their ids. Payload and outcome are the stored texts. erased: the player's
-- data, also client seed and payload, was erased. leaf_index and entry: in the tenant's log; NULL: not there yet.
WITH seen AS (
    SELECT * FROM plays WHERE tenant_id = $1 AND play_id > $6::text ORDER BY play_id LIMIT $7
)
SELECT (SELECT max(play_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT p.play_id AS id, unix(p.played_at) AS played_at, g.campaign_id, p.game_id, p.player_id, p.session_id,
           p.revision, coalesce(t.revision_hash::text, '') AS revision_hash, encode(p.seed, 'hex') AS seed, p.client_seed,
           p.payload::text AS payload, p.outcome::text AS outcome,
           p.client_seed = '' AND p.payload::text = '{}' AND EXISTS (
               SELECT FROM players AS o
               WHERE o.tenant_id = $1 AND o.player_id = p.player_id AND o.erased_at >= p.played_at) AS erased,
           l.leaf_index, CASE WHEN l.leaf_index IS NOT NULL THEN convert_from(log_entry(l), 'UTF8') END AS entry
    FROM seen AS p
    LEFT JOIN log_leaves AS l ON l.tenant_id = $1 AND l.kind = 'play' AND l.row_id = p.play_id
    JOIN games AS g ON g.tenant_id = $1 AND g.game_id = p.game_id
    LEFT JOIN promised_terms AS t ON t.tenant_id = $1 AND t.game_id = p.game_id
        AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'
    WHERE ($2 = '' OR g.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR g.campaign_id = $3)
      AND ($4::bigint = 0 OR p.played_at >= at_unix($4)) AND ($5::bigint = 0 OR p.played_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: rewards
-- Rewards, by id. Codes are masked: staff only sees whether there is one. leaf_index and entry as for play_receipts.
WITH seen AS (
    SELECT * FROM rewards WHERE tenant_id = $1 AND reward_id > $6::text ORDER BY reward_id LIMIT $7
)
SELECT (SELECT max(reward_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT r.reward_id AS id, iso(r.won_at) AS won_at, r.campaign_id, r.game_id, r.play_id, r.player_id, r.prize_id,
           r.name AS prize, r.type, r.value, r.quantity,
           reward_status(r.status, r.expires_at, EXISTS (
               SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)) AS status,
           iso(r.claimed_at) AS claimed_at, iso(r.fulfilled_at) AS fulfilled_at, iso(r.expires_at) AS expires_at,
           CASE WHEN EXISTS (SELECT FROM codes AS c WHERE c.tenant_id = $1 AND c.reward_id = r.reward_id)
                THEN '****' END AS code, r.milestone_id,
           l.leaf_index, CASE WHEN l.leaf_index IS NOT NULL THEN convert_from(log_entry(l), 'UTF8') END AS entry
    FROM seen AS r
    LEFT JOIN log_leaves AS l ON l.tenant_id = $1 AND l.kind = 'reward' AND l.row_id = r.reward_id
    WHERE ($2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR r.campaign_id = $3)
      AND ($4::bigint = 0 OR r.won_at >= at_unix($4)) AND ($5::bigint = 0 OR r.won_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: winners
-- Winners, by reward id, with their answers to the claim form and the contacts that they entered in the campaign, or else
-- log in with. Without revoked and expired rewards, and without those of players erased since. $8 as for participants.
-- theirs: whether the caller may write the campaign; a merchant's staff does not see the contacts of the tenant's own winners,
-- nor those that players log in with: it can enter any player of the tenant.
WITH seen AS (
    SELECT * FROM rewards WHERE tenant_id = $1 AND reward_id > $6::text ORDER BY reward_id LIMIT $7
),
forms AS MATERIALIZED (  -- Each form's texts are hashed once a batch.
    SELECT campaign_id, consent_tokens(entry) AS tokens FROM campaigns
    WHERE tenant_id = $1 AND campaign_id IN (SELECT campaign_id FROM seen) AND $8 <> ''
)
SELECT (SELECT max(reward_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT r.reward_id AS id, iso(r.won_at) AS won_at, r.campaign_id, r.prize_id, r.name AS prize, r.type, r.value,
           r.quantity, s.status, iso(r.claimed_at) AS claimed_at, iso(r.fulfilled_at) AS fulfilled_at,
           r.player_id, p.display_name, p.locale,
           coalesce(entry_contact(o.entry, e.fields, 'email'), (
               SELECT min(c.value) FROM contacts AS c
               WHERE c.tenant_id = $1 AND c.player_id = r.player_id AND c.type = 'email' AND $2 = '')) AS email,
           coalesce(entry_contact(o.entry, e.fields, 'phone'), (
               SELECT min(c.value) FROM contacts AS c
               WHERE c.tenant_id = $1 AND c.player_id = r.player_id AND c.type = 'phone' AND $2 = '')) AS phone,
           coalesce(answers_as_object(a.answers), '{}') AS answers,
           $2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, true) AS o) AS theirs
    FROM seen AS r
    CROSS JOIN LATERAL (
        SELECT reward_status(
            r.status, r.expires_at, EXISTS (SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)
        ) AS status
    ) AS s
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = r.player_id
    LEFT JOIN campaigns AS o ON o.tenant_id = $1 AND o.campaign_id = r.campaign_id
    LEFT JOIN forms AS n ON n.campaign_id = r.campaign_id
    LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = r.campaign_id AND e.player_id = r.player_id
    LEFT JOIN claim_answers AS a ON a.tenant_id = $1 AND a.reward_id = r.reward_id
    WHERE s.status NOT IN ('revoked', 'expired')
      AND (p.erased_at IS NULL OR r.won_at > p.erased_at)
      AND ($8 = '' OR consent_in_force($8, e.given, n.tokens))
      AND ($2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR r.campaign_id = $3)
      AND ($4::bigint = 0 OR r.won_at >= at_unix($4)) AND ($5::bigint = 0 OR r.won_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: ledger
-- Wallet movements by player, each player's in order. A merge of players between two batches moves entries, which are then
-- in both or in neither; an order by id would need another index on every movement. $6 to $8: the player, seq and id to continue after; $9 how many
-- rows to scan. All merchants may read the tenant's wallets. leaf_index and entry: of adjustments, as for play_receipts.
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
           l.reward_id, l.seq, n.leaf_index,
           CASE WHEN n.leaf_index IS NOT NULL THEN convert_from(log_entry(n), 'UTF8') END AS entry
    FROM seen AS l
    LEFT JOIN log_leaves AS n ON n.tenant_id = $1 AND n.kind = 'adjustment'
        AND n.row_id = CASE WHEN l.reason = 'adjustment' THEN l.entry_id END
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

-- name: redemptions
-- Redeemed codes and receipts, by their ids. The codes are not stored.
WITH seen AS (
    SELECT * FROM redemptions WHERE tenant_id = $1 AND redemption_id > $6::text ORDER BY redemption_id LIMIT $7
)
SELECT (SELECT max(redemption_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT r.redemption_id AS id, iso(r.redeemed_at) AS redeemed_at, r.campaign_id, r.pack_id, r.player_id, r.receipt_id,
           r.turns, r.currency, r.scope_key, r.amount, r.balance_after
    FROM seen AS r
    WHERE ($2 = '' OR r.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR r.campaign_id = $3)
      AND ($4::bigint = 0 OR r.redeemed_at >= at_unix($4)) AND ($5::bigint = 0 OR r.redeemed_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: views
-- Page views per hour, page, source, device and country, by their ids. visitors: as in campaign_views.
WITH seen AS (
    SELECT * FROM campaign_views WHERE tenant_id = $1 AND view_id > $6::text ORDER BY view_id LIMIT $7
)
SELECT (SELECT max(view_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT v.view_id AS id, iso(v.hour) AS hour, v.campaign_id, v.game_id, v.source AS traffic_source, v.medium,
           v.utm_campaign, v.device, v.country, v.views, v.visitors, v.page_visitors
    FROM seen AS v
    WHERE ($2 = '' OR v.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR v.campaign_id = $3)
      AND ($4::bigint = 0 OR v.hour >= at_unix($4)) AND ($5::bigint = 0 OR v.hour < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: audit
-- The audit log, by entry id. A campaign's entries are those on the campaign itself, on its objects, and those that name
-- it. A merchant's staff sees what was done on the merchant's behalf and, without the actor, what others did to the
-- merchant's campaign and to what decides its winners: otherwise the merchant's dossier would fail. line: what the log has the hash
-- of, with persons masked ('': not in the log yet); leaf_index and entry as for play_receipts.
WITH seen AS (
    SELECT * FROM audit_entries WHERE tenant_id = $1 AND entry_id > $6::text ORDER BY entry_id LIMIT $7
)
SELECT (SELECT max(entry_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT a.entry_id AS id, iso(a.created_at) AS created_at,
           CASE WHEN $2 IN ('', a.merchant_id) THEN a.actor ELSE '' END AS actor, a.merchant_id, a.action, a.subject_type,
           a.subject_id, a.before::text AS before, a.after::text AS after, a.trace_id,
           CASE WHEN l.salt IS NOT NULL THEN audited_row(a, l.salt) ELSE '' END AS line, l.leaf_index,
           CASE WHEN l.leaf_index IS NOT NULL THEN convert_from(log_entry(l), 'UTF8') END AS entry
    FROM seen AS s
    JOIN audit_entries AS a ON a.tenant_id = $1 AND a.entry_id = s.entry_id
    LEFT JOIN log_leaves AS l ON l.tenant_id = $1 AND l.kind = 'audit' AND l.row_id = a.entry_id
    WHERE ($2 = '' OR a.merchant_id = $2 OR ($3 IN (SELECT o FROM campaigns_of($1, $2, true) AS o) AND (
               a.subject_type IN ('campaign', 'game', 'prize', 'reward', 'draw', 'leaderboard')
               OR a.action = 'player.merge_surplus')))
      AND ($3 = ''
           OR (a.subject_type = 'prize' AND EXISTS (
               SELECT FROM rewards AS o WHERE o.tenant_id = $1 AND o.prize_id = a.subject_id AND o.campaign_id = $3))
           OR (a.action = 'player.merge_surplus' AND EXISTS (
               SELECT FROM jsonb_array_elements_text(a.after -> 'rewards') AS w (id)
               JOIN rewards AS o ON o.tenant_id = $1 AND o.reward_id = w.id WHERE o.campaign_id = $3))
           OR $3 IN (a.before ->> 'campaign_id', a.after ->> 'campaign_id') OR $3 = CASE a.subject_type
               WHEN 'campaign' THEN a.subject_id
               WHEN 'game' THEN (SELECT o.campaign_id FROM games AS o WHERE o.tenant_id = $1 AND o.game_id = a.subject_id)
               WHEN 'prize' THEN (SELECT o.campaign_id FROM prizes AS o WHERE o.tenant_id = $1 AND o.prize_id = a.subject_id)
               WHEN 'reward' THEN (
                   SELECT o.campaign_id FROM rewards AS o WHERE o.tenant_id = $1 AND o.reward_id = a.subject_id)
               WHEN 'draw' THEN (SELECT o.campaign_id FROM draws AS o WHERE o.tenant_id = $1 AND o.draw_id = a.subject_id)
               WHEN 'leaderboard' THEN (
                   SELECT o.campaign_id FROM leaderboards AS o WHERE o.tenant_id = $1 AND o.board_id = a.subject_id)
               WHEN 'quest' THEN (SELECT o.campaign_id FROM quests AS o WHERE o.tenant_id = $1 AND o.quest_id = a.subject_id)
               WHEN 'pack' THEN (SELECT o.campaign_id FROM packs AS o WHERE o.tenant_id = $1 AND o.pack_id = a.subject_id)
           END)
      AND ($4::bigint = 0 OR a.created_at >= at_unix($4)) AND ($5::bigint = 0 OR a.created_at < at_unix($5))
) AS found ON true
ORDER BY found.id

-- name: participants
-- Entries, by id, with what each lacks, the latest decision about each consent, and the player's plays and wins in the
-- campaign. Without those of players erased since. $8 only those whose consent of this id is in force ('': all). kinds: of
-- the form's fields, without choices whose value is not among the options. theirs: as for winners.
WITH seen AS (
    SELECT * FROM entries WHERE tenant_id = $1 AND entry_id > $6::text ORDER BY entry_id LIMIT $7
),
forms AS MATERIALIZED (  -- Each form's texts are hashed once a batch.
    SELECT campaign_id, consent_tokens(entry) AS tokens FROM campaigns
    WHERE tenant_id = $1 AND campaign_id IN (SELECT campaign_id FROM seen)
)
SELECT (SELECT max(entry_id) FROM seen) AS seen_until, (SELECT count(*) FROM seen) AS seen, found.*
FROM (SELECT) AS always
LEFT JOIN (
    SELECT e.entry_id AS id, iso(e.created_at) AS entered_at, e.campaign_id, e.player_id, e.locale, e.country,
           e.age AS old_enough, e.age_on::text AS old_enough_on,
           coalesce(entry_missing(c.entry_needs, e.given), '[]') AS missing, e.fields, d.consents, p.plays, p.wins,
           e.source,
           (SELECT jsonb_object_agg(f ->> 'key', f ->> 'kind') FROM jsonb_array_elements(c.entry -> 'fields') AS f
            WHERE f ->> 'kind' <> 'choice'
               OR f -> 'options' @> jsonb_build_array(jsonb_build_object('value', e.fields -> (f ->> 'key')))) AS kinds,
           $2 = '' OR e.campaign_id IN (SELECT o FROM campaigns_of($1, $2, true) AS o) AS theirs
    FROM seen AS e
    JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = e.campaign_id
    JOIN forms AS n ON n.campaign_id = e.campaign_id
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(k ->> 'id', jsonb_build_object(
            'given', k -> 'given', 'outdated', k -> 'outdated', 'decided_at', iso(at_unix((k -> 'decided_at')::bigint)),
            'text_sha256', k -> 'text_sha256', 'locale', k -> 'locale'
        )), '{}') AS consents
        FROM jsonb_array_elements(entry_decisions($1, e.entry_id, e.given, n.tokens)) AS k
    ) AS d
    CROSS JOIN LATERAL (
        -- Of archived plays, only the number is known.
        SELECT CASE WHEN is_archived($1, e.campaign_id) THEN (
                   SELECT coalesce(sum(k.plays), 0)::bigint FROM games AS g
                   JOIN game_players AS k ON k.tenant_id = $1 AND k.game_id = g.game_id AND k.player_id = e.player_id
                   WHERE g.tenant_id = $1 AND g.campaign_id = e.campaign_id
               ) ELSE count(*) END AS plays,
               CASE WHEN NOT is_archived($1, e.campaign_id)
                    THEN count(*) FILTER (WHERE o.wins > coalesce(o.surplus_wins, 0)) END AS wins
        FROM plays AS o JOIN games AS g ON g.tenant_id = $1 AND g.game_id = o.game_id
        WHERE o.tenant_id = $1 AND o.player_id = e.player_id AND g.campaign_id = e.campaign_id
    ) AS p
    LEFT JOIN players AS y ON y.tenant_id = $1 AND y.player_id = e.player_id
    WHERE (y.erased_at IS NULL OR e.fields <> '{}' OR e.given <> '{}')
      AND ($8 = '' OR consent_in_force($8, e.given, n.tokens))
      AND ($2 = '' OR e.campaign_id IN (SELECT o FROM campaigns_of($1, $2, false) AS o))
      AND ($3 = '' OR e.campaign_id = $3)
      AND ($4::bigint = 0 OR e.created_at >= at_unix($4)) AND ($5::bigint = 0 OR e.created_at < at_unix($5))
) AS found ON true
ORDER BY found.id
