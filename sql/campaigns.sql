-- Campaigns. See runtime/operations/campaigns/campaign_admin.py.

-- name: insert
-- Creates a campaign.
INSERT INTO campaigns
    (tenant_id, campaign_id, name, merchant_id, status, start_date, end_date, redeem_until, timezone, settings, origins,
     budget, budget_currency, entry, entry_needs, frozen, messages, tracking, entry_since)
VALUES ($1, $2, $3, $4, $5, at_unix($6), at_unix($7), at_unix($8), $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
        clock_timestamp())
RETURNING campaign_id AS id, name, merchant_id, campaign_status(status, end_date) AS status,
          unix(start_date) AS start_date, unix(end_date) AS end_date, unix(redeem_until) AS redeem_until,
          timezone, settings, origins, hosts_of(tenant_id, campaign_id) AS hosts,
          budget, budget_currency, entry, frozen, messages, tracking, revision, archive_of(tenant_id, campaign_id) AS archive,
          unix(created_at) AS created_at, unix(updated_at) AS updated_at

-- name: get
-- One campaign. $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT campaign_id AS id, name, merchant_id, campaign_status(status, end_date) AS status,
       unix(start_date) AS start_date, unix(end_date) AS end_date, unix(redeem_until) AS redeem_until,
       timezone, settings, origins, hosts_of(tenant_id, campaign_id) AS hosts,
       budget, budget_currency, entry, frozen, messages, tracking, revision, archive_of(tenant_id, campaign_id) AS archive,
       unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM campaigns
WHERE tenant_id = $1 AND campaign_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: list
-- Campaigns newest first, after $5. $2 is a status or '', $3 a LIKE pattern of the name,
-- $4 the staff's merchant ('': the tenant).
SELECT campaign_id AS id, name, merchant_id, campaign_status(status, end_date) AS status,
       unix(start_date) AS start_date, unix(end_date) AS end_date, unix(redeem_until) AS redeem_until,
       timezone, settings, origins, hosts_of(tenant_id, campaign_id) AS hosts,
       budget, budget_currency, entry, frozen, messages, tracking, revision, archive_of(tenant_id, campaign_id) AS archive,
       unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM campaigns
WHERE tenant_id = $1 AND ($2 = '' OR campaign_status(status, end_date) = $2) AND name ILIKE $3
  AND ($5::text IS NULL OR campaign_id < $5)
  AND ($4 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
ORDER BY campaign_id DESC
LIMIT $6

-- name: update
-- Writes every field of a campaign as its next revision; the caller has locked the tenant. $19 the expected revision
-- (optimistic lock), 0 any. entry_since is the clock's time under that lock. Plays do not take it: one that is decided
-- under the old form may be dated later, until this commits.
-- No row: no such campaign, or another revision.
UPDATE campaigns SET
    name = $3, merchant_id = $4, status = $5, start_date = at_unix($6), end_date = at_unix($7),
    redeem_until = at_unix($8), timezone = $9, settings = $10, origins = $11, budget = $12,
    budget_currency = $13, entry = $14, entry_needs = $15, frozen = $16, messages = $17, tracking = $18,
    entry_since = CASE WHEN entry_needs IS DISTINCT FROM $15 OR entry ->> 'mode' IS DISTINCT FROM $14::jsonb ->> 'mode'
                       THEN clock_timestamp() ELSE entry_since END,
    revision = revision + 1, updated_at = now()
WHERE tenant_id = $1 AND campaign_id = $2 AND $19::integer IN (0, revision)
RETURNING campaign_id AS id, name, merchant_id, campaign_status(status, end_date) AS status,
          unix(start_date) AS start_date, unix(end_date) AS end_date, unix(redeem_until) AS redeem_until,
          timezone, settings, origins, hosts_of(tenant_id, campaign_id) AS hosts,
          budget, budget_currency, entry, frozen, messages, tracking, revision, archive_of(tenant_id, campaign_id) AS archive,
          unix(created_at) AS created_at, unix(updated_at) AS updated_at

-- name: stop_counting_entries
-- Deletes the campaign's count of entries, because its form has no limit any more. It is counted anew with the next limit.
DELETE FROM entry_counts WHERE tenant_id = $1 AND campaign_id = $2

-- name: live_boards
-- The campaign's boards that have a live ranking.
SELECT board_id FROM leaderboards WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active' ORDER BY board_id

-- name: knows_timezone
-- Whether Postgres, which counts local days, knows time zone $1.
SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)

-- name: merchants_wallet
-- Whether the campaign's games credit its merchant's wallet, whether any of those was played or granted a milestone, and
-- whether a pack or an open draw names the wallet of merchant $3 ('': none).
SELECT count(*) > 0 AS used, coalesce(bool_or(
    EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = g.game_id)
    OR EXISTS (SELECT FROM milestone_grants AS m WHERE m.tenant_id = $1 AND m.game_id = g.game_id)), false) AS moved,
    $3 <> '' AND (
        EXISTS (SELECT FROM packs AS p WHERE p.tenant_id = $1 AND p.campaign_id = $2
                AND p.scope_key = $3 AND p.status <> 'archived')
        OR EXISTS (SELECT FROM draws AS d WHERE d.tenant_id = $1 AND d.campaign_id = $2
                   AND d.tickets ->> 'scope_key' = $3 AND d.status = 'open')) AS named
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND r.definition ->> 'wallet_scope' = 'merchant'

-- name: active_quests
-- The campaign's active quests, newest first.
SELECT quest_id AS id, campaign_id, name, description, type, turns, status, unix(start_date) AS start_date,
       unix(end_date) AS end_date, condition, unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM quests
WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active'
ORDER BY quest_id DESC
LIMIT $3

-- name: games_to_copy
-- The campaign's games that are not archived, oldest first, each with its current definition.
SELECT g.game_id, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status <> 'archived'
ORDER BY g.game_id

-- name: prizes_to_copy
-- Ids of the prizes to copy with the campaign: its own, and those in $3 without a campaign. The latter belong to the
-- tenant: for a merchant's staff ($4; '': the tenant's) they are not copied, and the copy refers to the originals.
SELECT prize_id
FROM prizes
WHERE tenant_id = $1 AND status = 'active'
  AND (campaign_id = $2 OR ($4 = '' AND campaign_id = '' AND prize_id = ANY ($3::text[])))
ORDER BY prize_id

-- name: boards_to_copy
-- The campaign's boards that are not archived: those of the campaign itself, and of its games $3.
SELECT board_id, game_id, prizes
FROM leaderboards
WHERE tenant_id = $1 AND status <> 'archived'
  AND ((campaign_id = $2 AND game_id = '') OR game_id = ANY ($3::text[]))
ORDER BY board_id

-- name: quests_to_copy
-- The campaign's quests that are not archived.
SELECT quest_id, condition FROM quests WHERE tenant_id = $1 AND campaign_id = $2 AND status <> 'archived' ORDER BY quest_id

-- name: packs_to_copy
-- The campaign's packs that are not archived.
SELECT pack_id, scope_key FROM packs WHERE tenant_id = $1 AND campaign_id = $2 AND status <> 'archived' ORDER BY pack_id

-- name: copy_campaign
-- A copy of campaign $2, with the fields of $3 in place of its own, $4 days later in the time zone $5.
INSERT INTO campaigns
SELECT (jsonb_populate_record(c, $3 || jsonb_build_object(
    'start_date', days_later(c.start_date, $4, $5), 'end_date', days_later(c.end_date, $4, $5),
    'redeem_until', days_later(c.redeem_until, $4, $5), 'revision', 1, 'created_at', now(), 'updated_at', now(),
    'entry_since', clock_timestamp()))).*
FROM campaigns AS c
WHERE c.tenant_id = $1 AND c.campaign_id = $2

-- name: date
-- Gives copy $2 the start $3 and the end $4 (0: unchanged). Boards and quests with the same start or end follow.
-- redeem_until moves by as much local time as the end.
WITH was AS (
    SELECT start_date, end_date FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
),
boards AS (
    UPDATE leaderboards AS b SET
        start_date = CASE WHEN b.start_date = was.start_date THEN coalesce(at_unix($3), b.start_date)
                          ELSE b.start_date END,
        end_date = CASE WHEN b.end_date = was.end_date THEN coalesce(at_unix($4), b.end_date) ELSE b.end_date END
    FROM was WHERE b.tenant_id = $1 AND b.campaign_id = $2
),
quests AS (
    UPDATE quests AS q SET
        start_date = CASE WHEN q.start_date = was.start_date THEN coalesce(at_unix($3), q.start_date)
                          ELSE q.start_date END,
        end_date = CASE WHEN q.end_date = was.end_date THEN coalesce(at_unix($4), q.end_date) ELSE q.end_date END
    FROM was WHERE q.tenant_id = $1 AND q.campaign_id = $2
)
UPDATE campaigns SET
    start_date = coalesce(at_unix($3), start_date),
    end_date = coalesce(at_unix($4), end_date),
    redeem_until = CASE WHEN redeem_until IS NOT NULL THEN greatest(
        coalesce((redeem_until AT TIME ZONE timezone
                  + (at_unix($4) AT TIME ZONE timezone - end_date AT TIME ZONE timezone)) AT TIME ZONE timezone,
                 redeem_until),
        coalesce(at_unix($4), end_date), coalesce(at_unix($3), start_date)) END
WHERE tenant_id = $1 AND campaign_id = $2

-- name: misdated
-- Dated resources of campaign $2, with itself, that would end before they begin (inverted) or after $3, in unix seconds.
SELECT kind, name, end_date <= start_date AS inverted
FROM (
    SELECT 'quest' AS kind, name, start_date, end_date FROM quests WHERE tenant_id = $1 AND campaign_id = $2
    UNION ALL
    SELECT 'leaderboard', name, start_date, end_date FROM leaderboards WHERE tenant_id = $1 AND campaign_id = $2
    UNION ALL
    SELECT 'pack', name, NULL, until FROM packs WHERE tenant_id = $1 AND campaign_id = $2
    UNION ALL
    SELECT 'campaign', name, NULL, redeem_until FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2
) AS dated
WHERE end_date <= start_date OR greatest(start_date, end_date) > at_unix($3)
ORDER BY kind, name

-- name: copy_prize
-- A copy of prize $2 with the fields of $3.
INSERT INTO prizes
SELECT (jsonb_populate_record(p, $3 || jsonb_build_object('created_at', now(), 'updated_at', now()))).*
FROM prizes AS p
WHERE p.tenant_id = $1 AND p.prize_id = $2

-- name: copy_stock
-- Full stock for $3, a copy of prize $2. Returns the total.
INSERT INTO stock (tenant_id, prize_id, total, remaining, awarded)
SELECT tenant_id, $3, total, total, 0 FROM stock WHERE tenant_id = $1 AND prize_id = $2
RETURNING total

-- name: copy_game
-- A copy of game $2 with the fields of $3; its revisions start at 1.
INSERT INTO games
SELECT (jsonb_populate_record(g, $3 || jsonb_build_object('revision', 1, 'created_at', now(), 'updated_at', now()))).*
FROM games AS g
WHERE g.tenant_id = $1 AND g.game_id = $2

-- name: copy_quest
-- A copy of quest $2 with the fields of $3, $4 days later in the time zone $5.
INSERT INTO quests
SELECT (jsonb_populate_record(q, $3 || jsonb_build_object(
    'start_date', days_later(q.start_date, $4, $5), 'end_date', days_later(q.end_date, $4, $5),
    'created_at', now(), 'updated_at', now()))).*
FROM quests AS q
WHERE q.tenant_id = $1 AND q.quest_id = $2

-- name: copy_pack
-- A copy of pack $2 with the fields of $3, $4 days later in the time zone $5; without codes and secret.
INSERT INTO packs
SELECT (jsonb_populate_record(p, $3 || jsonb_build_object(
    'until', days_later(p.until, $4, $5), 'codes', 0, 'withdrawn', 0, 'signing', '{}'::jsonb,
    'created_at', now(), 'updated_at', now()))).*
FROM packs AS p
WHERE p.tenant_id = $1 AND p.pack_id = $2

-- name: copy_board
-- A copy of board $2 with the fields of $3, $4 days later in the time zone $5; active even if it was finalized.
INSERT INTO leaderboards
SELECT (jsonb_populate_record(b, $3 || jsonb_build_object(
    'start_date', days_later(b.start_date, $4, $5), 'end_date', days_later(b.end_date, $4, $5),
    'status', 'active', 'finalized_at', NULL, 'created_at', now(), 'updated_at', now()))).*
FROM leaderboards AS b
WHERE b.tenant_id = $1 AND b.board_id = $2

-- name: keep_boards_open
-- Clears the ends of campaign $2's boards that are past them: the job would finalize these boards at once.
UPDATE leaderboards SET end_date = NULL WHERE tenant_id = $1 AND campaign_id = $2 AND end_date <= now()

-- name: integrations_to_copy
-- The integrations limited to the campaign, except that of its messages.
SELECT integration_id, config FROM integrations WHERE tenant_id = $1 AND campaign_id = $2 AND type <> 'email'
ORDER BY integration_id

-- name: copy_integration
-- A copy of integration $2 with the fields of $3, paused until somebody has reviewed it.
INSERT INTO integrations
SELECT (jsonb_populate_record(i, $3 || jsonb_build_object('status', 'paused', 'created_at', now()))).*
FROM integrations AS i
WHERE i.tenant_id = $1 AND i.integration_id = $2
