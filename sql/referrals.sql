-- Referrals: players invite others by a code, and get turns for them. See runtime/operations/quests/referrals.py. $1 tenant, $2
-- campaign, $3 player unless stated otherwise.

-- name: code
-- The player's code in the campaign; $4 if it has none. No row: no quest pays for referrals now, the merchant is suspended,
-- or the code that another request has just stored is not visible yet.
WITH campaign AS (
    SELECT campaign_id, campaign_status(status, end_date) AS status FROM campaigns AS c
    WHERE tenant_id = $1 AND campaign_id = $2 AND status <> 'draft'
      AND NOT EXISTS (SELECT FROM merchants AS o
                      WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended')
),
made AS (
    INSERT INTO referral_codes (tenant_id, campaign_id, code, player_id)
    SELECT $1::text, c.campaign_id, $4, $3::text
    FROM campaign AS c
    WHERE c.status = 'active' AND referral_quest($1, $2) IS NOT NULL
      AND NOT EXISTS (SELECT FROM referral_codes WHERE tenant_id = $1 AND player_id = $3 AND campaign_id = $2)
    ON CONFLICT DO NOTHING
    RETURNING code, player_id
),
player AS (
    INSERT INTO players (tenant_id, player_id, auth_method) SELECT $1, player_id, first_known_as(player_id) FROM made
    ON CONFLICT DO NOTHING
)
SELECT code FROM made
UNION ALL
SELECT k.code FROM referral_codes AS k JOIN campaign AS c USING (campaign_id)
WHERE k.tenant_id = $1 AND k.player_id = $3 AND k.campaign_id = $2

-- name: for_code
-- What an invitation by code $4 depends on. inviter_id: the code's player, or the one that it became; null: no such code.
-- invited_by: who invited the player before. No row: no such campaign, or a draft.
SELECT campaign_status(c.status, c.end_date) AS status, referral_quest($1, $2) AS quest_id,
       EXISTS (SELECT FROM merchants AS o
               WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND o.status = 'suspended') AS merchant_suspended,
       (SELECT coalesce(p.merged_into, p.player_id)
        FROM referral_codes AS k JOIN players AS p ON p.tenant_id = $1 AND p.player_id = k.player_id
        WHERE k.tenant_id = $1 AND k.campaign_id = $2 AND k.code = $4) AS inviter_id,
       (SELECT coalesce(p.merged_into, p.player_id)
        FROM referrals AS r JOIN players AS p ON p.tenant_id = $1 AND p.player_id = r.inviter_id
        WHERE r.tenant_id = $1 AND r.player_id = $3 AND r.campaign_id = $2) AS invited_by,
       (SELECT merged_into FROM players WHERE tenant_id = $1 AND player_id = $3) AS merged_into,
       EXISTS (
           SELECT FROM plays AS p
           WHERE p.tenant_id = $1 AND p.player_id = $3 AND p.game_id = ANY(ARRAY(
               SELECT g.game_id FROM games AS g WHERE g.tenant_id = $1 AND g.campaign_id = $2))
       ) AS has_played
FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = $2 AND c.status <> 'draft'

-- name: accept
-- Records that player $4 invited the player. No row: someone did before, or the player was merged meanwhile.
WITH player AS MATERIALIZED (
    -- Locked, so that the player is not merged meanwhile.
    SELECT player_id FROM players WHERE tenant_id = $1 AND player_id = $3 AND merged_into IS NULL FOR SHARE
)
INSERT INTO referrals (tenant_id, player_id, campaign_id, inviter_id) SELECT $1, player_id, $2, $4 FROM player
ON CONFLICT DO NOTHING
RETURNING true AS accepted

-- name: tenants
-- Tenants with open referrals.
SELECT tenant_id FROM tenants AS t
WHERE EXISTS (
    SELECT FROM referrals AS r
    WHERE r.tenant_id = t.tenant_id AND r.outcome = 'open' AND r.accepted_at > now() - interval '30 days')

-- name: next_page
-- The last of the next $2 open referrals after the key $3 (time), $4 (player), $5 (campaign). No row: fewer are left.
SELECT accepted_at, player_id, campaign_id FROM referrals
WHERE tenant_id = $1 AND outcome = 'open' AND accepted_at > now() - interval '30 days'
  AND (accepted_at, player_id, campaign_id) > ($3, $4, $5)
ORDER BY accepted_at, player_id, campaign_id OFFSET $2::integer - 1 LIMIT 1

-- name: due
-- Open referrals of at most 30 days whose player has a verified contact and has played since, as the quest requires,
-- oldest first, at most $2: of those after the key $3, $4, $5, up to $6, $7, $8. The quest: the oldest active one with such a
-- play between its dates, even if it has ended since. The inviter must be registered. paid: how many the inviter was paid
-- for. played_before: before the invitation. contacts, inviter_contacts: as [[type, value]]; the inviter's with those of the
-- entry, which are not verified.
WITH page AS MATERIALIZED (
    SELECT player_id, campaign_id, inviter_id, accepted_at FROM referrals
    WHERE tenant_id = $1 AND outcome = 'open' AND accepted_at > now() - interval '30 days'
      AND (accepted_at, player_id, campaign_id) > ($3, $4, $5) AND (accepted_at, player_id, campaign_id) <= ($6, $7, $8)
)
SELECT DISTINCT ON (r.accepted_at, r.player_id, r.campaign_id)
       r.campaign_id, r.player_id, i.player_id AS inviter_id, q.quest_id, q.turns, c.merchant_id,
       (q.condition ->> 'count')::bigint AS count, f.played_before,
       (SELECT count(*) FROM quest_completions AS d
        WHERE d.tenant_id = $1 AND d.quest_id = q.quest_id AND d.player_id = i.player_id) AS paid,
       (SELECT jsonb_agg(jsonb_build_array(o.type, o.value)) FROM contacts AS o
        WHERE o.tenant_id = $1 AND o.player_id = r.player_id AND o.verified) AS contacts,
       (SELECT jsonb_agg(jsonb_build_array(o.type, o.value)) FROM (
            SELECT k.type, k.value FROM contacts AS k WHERE k.tenant_id = $1 AND k.player_id = i.player_id
            UNION ALL
            SELECT t.type, entry_contact(c.entry, e.fields, t.type)
            FROM entries AS e CROSS JOIN (VALUES ('email'), ('phone')) AS t (type)
            WHERE e.tenant_id = $1 AND e.campaign_id = r.campaign_id AND e.player_id = i.player_id
        ) AS o WHERE o.value <> '') AS inviter_contacts
FROM page AS r
JOIN players AS k ON k.tenant_id = $1 AND k.player_id = r.inviter_id
JOIN players AS i ON i.tenant_id = $1 AND i.player_id = coalesce(k.merged_into, k.player_id)
JOIN players AS p ON p.tenant_id = $1 AND p.player_id = r.player_id
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = r.campaign_id AND c.status = 'active'
JOIN quests AS q ON q.tenant_id = $1 AND q.campaign_id = r.campaign_id AND q.status = 'active'
    AND q.condition ->> 'kind' = 'referrals'
CROSS JOIN LATERAL (
    SELECT bool_or(s.played_at < r.accepted_at) AS played_before,
           bool_or(s.played_at >= greatest(r.accepted_at, q.start_date) AND s.played_at < coalesce(q.end_date, 'infinity')
                   AND coalesce(q.condition ->> 'game_id', '') IN ('', s.game_id)) AS counts
    FROM plays AS s
    WHERE s.tenant_id = $1 AND s.player_id = r.player_id AND s.game_id = ANY(ARRAY(
        SELECT g.game_id FROM games AS g WHERE g.tenant_id = $1 AND g.campaign_id = r.campaign_id))
) AS f
WHERE EXISTS (SELECT FROM contacts AS o WHERE o.tenant_id = $1 AND o.player_id = r.player_id AND o.verified)
  AND i.auth_method <> 'guest' AND i.status = 'active' AND p.auth_method <> 'guest' AND p.status = 'active' AND f.counts
ORDER BY r.accepted_at, r.player_id, r.campaign_id, q.quest_id LIMIT $2

-- name: decide
-- Ends an open referral without a payment, for reason $4.
UPDATE referrals SET outcome = $4, decided_at = now()
WHERE tenant_id = $1 AND campaign_id = $2 AND player_id = $3 AND outcome = 'open'

-- name: lock_contacts
-- Locks contacts $3 (their hashes under all keys) in campaign $2 until the transaction ends, before any row. While CODE_KEYS
-- are rotated, processes store different hashes of one contact; each knows both.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'tombola referral', $1::text, $2::text, k), 0))
FROM (SELECT unnest($3::bytea[]) AS k ORDER BY k) AS hashes

-- name: pay
-- Pays inviter $4 for an open referral: marks it, stores the contacts' hashes $8, grants the turns $6 of quest $5, and
-- records the completion as number $7 of the inviter, under entry id $10 and event id $11.
-- A unique violation fails the whole statement if another payment has the number (quest_completions) or one of the hashes
-- (referral_contacts) meanwhile. No row: one of $9 (the hashes of all keys) was paid for, or the referral, the quest or a
-- player has changed.
WITH people AS MATERIALIZED (
    -- Locked, so that neither is merged, suspended or erased meanwhile.
    SELECT player_id FROM players
    WHERE tenant_id = $1 AND player_id IN ($3, $4) AND merged_into IS NULL AND status = 'active' AND auth_method <> 'guest'
    ORDER BY player_id FOR SHARE
),
quest AS (
    SELECT q.campaign_id, q.turns FROM quests AS q
    JOIN campaigns AS c ON c.tenant_id = q.tenant_id AND c.campaign_id = q.campaign_id
    WHERE q.tenant_id = $1 AND q.quest_id = $5 AND q.campaign_id = $2 AND q.status = 'active' AND q.turns = $6
      AND q.condition ->> 'kind' = 'referrals' AND $7::bigint <= (q.condition ->> 'count')::bigint AND c.status = 'active'
      AND (SELECT count(*) FROM people) = 2
      AND NOT EXISTS (
          SELECT FROM referral_contacts WHERE tenant_id = $1 AND campaign_id = $2 AND contact_hash = ANY($9::bytea[]))
    FOR KEY SHARE OF q
),
referral AS (
    UPDATE referrals AS r SET outcome = 'paid', decided_at = now()
    FROM quest WHERE r.tenant_id = $1 AND r.campaign_id = $2 AND r.player_id = $3 AND r.outcome = 'open'
    RETURNING quest.turns
),
balance AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance) SELECT $1, $2, $4, turns FROM referral
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING balance
),
entry AS (
    INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
    SELECT $1, $10, $2, $4, referral.turns, balance.balance, 'quest', $5 FROM referral, balance WHERE referral.turns > 0
),
hashes AS (
    INSERT INTO referral_contacts (tenant_id, campaign_id, contact_hash)
    SELECT $1, $2, n.contact_hash FROM balance CROSS JOIN unnest($8::bytea[]) AS n (contact_hash) ORDER BY n.contact_hash
)
INSERT INTO quest_completions (tenant_id, quest_id, player_id, period, turns, balance_after, event_id)
SELECT $1, $5, $4, 'referral-' || $7::bigint, referral.turns, balance.balance, $11 FROM referral, balance
RETURNING period, turns, balance_after, event_id, extract(epoch FROM completed_at)::float8 AS completed_at

-- name: is_paid_contact
-- Whether the campaign has paid for one of the contacts $3 (hashes).
SELECT EXISTS (
    SELECT FROM referral_contacts WHERE tenant_id = $1 AND campaign_id = $2 AND contact_hash = ANY($3::bytea[])
)
