-- Entries to campaigns. See runtime/operations/entries/. $1 tenant, $2 player, $3 campaign unless stated otherwise.

-- name: lock_player
-- Locks a player, so that its entries change one at a time and no merge moves them meanwhile. No row: unknown.
SELECT merged_into, status, auth_method = 'guest' AS is_guest FROM players WHERE tenant_id = $1 AND player_id = $2 FOR NO KEY UPDATE

-- name: lock_campaign
-- A campaign ($2) for an entry of player $3. FOR SHARE: its form, status and dates change only after this entry has
-- committed. No row: unknown. closed: why it takes no entries: ended, paused or announced; '' if it takes them.
-- admits_closed: takes one all the same: after the end, if a claim, or a redeem until redeem_until, requires it; else, if
-- the player needs it to claim a reward. admits_newcomers: has a public game, or is a raffle: no game at all, and a form
-- with one entry for each contact, which it requires. admits_guests: also by a game that is archived, since its rewards
-- may require an entry.
SELECT entry, entry_needs, status, timezone, a.closed, unix(start_date) AS opens_at,
       CASE WHEN end_date <= now() THEN unix(end_date) ELSE 0 END AS closed_at,
       CASE entry ->> 'mode'
           WHEN 'before_claim' THEN a.closed = 'ended' OR EXISTS (
               SELECT FROM rewards AS r
               WHERE r.tenant_id = $1 AND r.player_id = $3 AND r.campaign_id = $2 AND r.status = 'won'
           )
           WHEN 'before_play' THEN a.closed = 'ended' AND redeem_until > now()
       END AS admits_closed,
       (clock_timestamp() AT TIME ZONE timezone)::date AS today,
       a.is_raffle OR EXISTS (
           SELECT FROM games AS g JOIN game_revisions AS r USING (tenant_id, game_id, revision)
           WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status IN ('active', 'paused')
             AND r.definition ->> 'access' = 'public'
       ) AS admits_newcomers,
       a.is_raffle OR EXISTS (
           SELECT FROM games AS g JOIN game_revisions AS r USING (tenant_id, game_id, revision)
           WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status <> 'draft'
             AND (r.definition ->> 'access' = 'public' OR r.definition -> 'rules' -> 'admits_guests' = 'true')
       ) AS admits_guests,
       EXISTS (SELECT FROM merchants AS o WHERE o.tenant_id = $1 AND o.merchant_id = campaigns.merchant_id
               AND o.status = 'suspended') AS merchant_suspended
FROM campaigns
CROSS JOIN LATERAL (
    SELECT entry -> 'one_per_contact' = 'true'
        AND jsonb_path_exists(entry, '$.fields[*] ? (@.required == true && (@.kind == "email" || @.kind == "phone"))')
        AND NOT EXISTS (SELECT FROM games WHERE tenant_id = $1 AND campaign_id = $2) AS is_raffle,
        CASE WHEN campaign_status(status, end_date) = 'ended' THEN 'ended' WHEN status <> 'active' THEN 'paused'
             WHEN start_date > now() THEN 'announced' ELSE '' END AS closed
) AS a
WHERE tenant_id = $1 AND campaign_id = $2 FOR SHARE OF campaigns

-- name: form
-- A campaign's form ($2). No row: unknown, or a draft.
SELECT entry, entry_needs FROM campaigns WHERE tenant_id = $1 AND campaign_id = $2 AND status <> 'draft'

-- name: replay
-- The request stored under key $4, and its age in seconds. No row: the key is new.
SELECT request_hash, reply, extract(epoch FROM now() - created_at)::float8 AS age FROM entry_keys
WHERE tenant_id = $1 AND player_id = $2 AND campaign_id = $3 AND idempotency_key = $4

-- name: store_key
-- Stores key $4 with the hash $5 of its request and the reply $6.
INSERT INTO entry_keys (tenant_id, player_id, campaign_id, idempotency_key, request_hash, reply)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: purge_keys
-- Deletes keys older than 30 days, at most $2. A later retry is a new submission.
DELETE FROM entry_keys WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM entry_keys WHERE tenant_id = $1 AND created_at < now() - interval '30 days'
    ORDER BY created_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
))

-- name: lock
-- A player's entry, locked. No row: none.
SELECT * FROM entries WHERE tenant_id = $1 AND campaign_id = $3 AND player_id = $2 FOR UPDATE

-- name: begin_count
-- Counts the complete entries of campaign $2 once, at the first one with a limit. Concurrent ones wait for its row.
INSERT INTO entry_counts (tenant_id, campaign_id, entries)
SELECT $1::text, $2::text, (SELECT count(*) FROM entries WHERE tenant_id = $1 AND campaign_id = $2 AND counted)
WHERE NOT EXISTS (SELECT FROM entry_counts WHERE tenant_id = $1 AND campaign_id = $2)
ON CONFLICT DO NOTHING

-- name: count
-- Counts one more entry of campaign $2, unless it has $3 already. No row: the limit is reached.
UPDATE entry_counts SET entries = entries + 1
WHERE tenant_id = $1 AND campaign_id = $2 AND entries < $3::bigint
RETURNING entries

-- name: insert
-- Creates an entry $4. $5 fields, $6 tokens, $7 age and $8 when it was proven, $9 country, $10 locale, $11 whether it is
-- late, $12 whether it counts toward the limit, $13 source. No update changes the source.
INSERT INTO entries (
    tenant_id, campaign_id, player_id, entry_id, fields, given, age, age_on, country, locale, late, counted, source
)
VALUES ($1, $3, $2, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
RETURNING revision

-- name: update
-- Writes a locked entry's next revision. $4 fields, $5 tokens, $6 age and $7 when it was proven, $8 country, $9 locale,
-- $10 whether it is late, $11 whether it counts toward the limit.
UPDATE entries SET fields = $4, given = $5, age = $6, age_on = $7, country = $8, locale = $9, late = $10, counted = $11,
                   revision = revision + 1, updated_at = now()
WHERE tenant_id = $1 AND campaign_id = $3 AND player_id = $2
RETURNING revision

-- name: store_text
-- Stores a text $3 under its SHA-256 $2.
INSERT INTO entry_texts (tenant_id, text_sha256, text) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: receipt
-- Records a decision about consent $3 of entry $2 at revision $4: $5 given, of the text $6 in language $7, by $8.
INSERT INTO entry_consents (tenant_id, entry_id, consent_id, revision, given, text_sha256, locale, actor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: lock_contacts
-- Locks contacts $3 (their hashes under all keys) in campaign $2 until the transaction ends. While CODE_KEYS are rotated,
-- processes store different hashes of one contact; each knows both.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'tombola entry', $1::text, $2::text, k), 0))
FROM (SELECT unnest($3::bytea[]) AS k ORDER BY k) AS hashes

-- name: take_contacts
-- Takes contacts $3 (hashes) in campaign $2 for entry $4, in key order. Returns the new ones: contacts of another entry
-- are not taken. No row: none is new.
INSERT INTO entry_contacts (tenant_id, campaign_id, contact_hash, entry_id)
SELECT $1, $2, n.contact_hash, $4 FROM unnest($3::bytea[]) AS n (contact_hash) ORDER BY n.contact_hash
ON CONFLICT DO NOTHING
RETURNING contact_hash

-- name: contact_of_others
-- Whether another entry than $4 has one of the contacts $3 in campaign $2. A separate statement: it sees the entries that
-- `take_contacts` waited for.
SELECT EXISTS (
    SELECT FROM entry_contacts
    WHERE tenant_id = $1 AND campaign_id = $2 AND contact_hash = ANY($3::bytea[]) AND entry_id <> $4
)

-- name: earlier_contacts
-- How many contacts besides the current $3 entry $4 has taken in campaign $2.
SELECT count(*) FROM entry_contacts
WHERE tenant_id = $1 AND campaign_id = $2 AND entry_id = $4 AND contact_hash <> ALL($3::bytea[])

-- name: contacts_of_player
-- The contacts that a player logs in with.
SELECT type, value FROM contacts WHERE tenant_id = $1 AND player_id = $2

-- name: find
-- A player's entry with its latest decisions about consents. No row: none.
SELECT e.entry_id, e.campaign_id, e.fields, e.given, e.age, e.age_on, e.country, e.locale, e.source, c.entry_needs,
       unix(e.created_at) AS created_at, unix(e.updated_at) AS updated_at,
       entry_decisions($1, e.entry_id, e.given, consent_tokens(c.entry)) AS consents
FROM entries AS e JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE e.tenant_id = $1 AND e.player_id = $2 AND e.campaign_id = $3

-- name: list
-- A player's entries by campaign, after $5. $3 a campaign ('': all), $4 the staff's merchant ('': the tenant). theirs:
-- whether the staff may write the campaign; a merchant's staff does not see what the tenant's own entrants filled in.
SELECT e.entry_id, e.campaign_id, e.fields, e.given, e.age, e.age_on, e.country, e.locale, e.source, c.entry_needs,
       unix(e.created_at) AS created_at, unix(e.updated_at) AS updated_at,
       entry_decisions($1, e.entry_id, e.given, consent_tokens(c.entry)) AS consents,
       $4 = '' OR e.campaign_id IN (SELECT o FROM campaigns_of($1, $4, true) AS o) AS theirs
FROM entries AS e JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE e.tenant_id = $1 AND e.player_id = $2 AND ($3 = '' OR e.campaign_id = $3)
  AND ($4 = '' OR e.campaign_id IN (SELECT o FROM campaigns_of($1, $4, false) AS o))
  AND ($5::text IS NULL OR e.campaign_id > $5)
ORDER BY e.campaign_id
LIMIT $6

-- name: may_write
-- Whether staff of merchant $3 ('': the tenant's) may write campaign $2. No row: not found or not permitted.
SELECT true FROM campaigns
WHERE tenant_id = $1 AND campaign_id = $2 AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))

-- name: use_captcha
-- Uses the solved captcha $2, which is valid until $3 (unix seconds). $1 tenant. No row: it was used before.
INSERT INTO entry_captchas (tenant_id, digest, expires_at) VALUES ($1, $2, at_unix($3))
ON CONFLICT DO NOTHING
RETURNING true AS used

-- name: purge_captchas
-- Deletes at most $2 captchas that have expired, with a margin for clocks that differ. $1 tenant.
DELETE FROM entry_captchas WHERE tenant_id = $1 AND digest IN (
    SELECT digest FROM entry_captchas WHERE tenant_id = $1 AND expires_at < now() - interval '1 hour'
    LIMIT $2 FOR UPDATE SKIP LOCKED
)
