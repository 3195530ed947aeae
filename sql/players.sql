-- Players and their contacts. See runtime/operations/players/profiles.py.

-- name: find
-- A player with contacts. $1 tenant, $2 player. No row: unknown.
SELECT p.player_id, p.display_name, p.avatar_url, p.locale, p.attributes, p.auth_method, p.status, p.unsubscribed,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object('id', c.contact_id, 'type', c.type, 'value', c.value,
                                               'verified', c.verified, 'created_at', unix(c.created_at))
                            ORDER BY c.contact_id)
           FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = $2
       ), '[]') AS contacts
FROM players AS p
WHERE p.tenant_id = $1 AND p.player_id = $2;

-- name: create
-- Creates a player on the first use of an external identity or guest id. $1 tenant, $2 player.
-- No row: the player exists, or the tenant does not.
INSERT INTO players (tenant_id, player_id, auth_method)
SELECT tenant_id, $2::text, first_known_as($2::text) FROM tenants WHERE tenant_id = $1
ON CONFLICT DO NOTHING
RETURNING player_id;

-- name: update
-- Sets the fields that are not null; creates the player if missing. No row: unknown tenant.
-- $1 tenant, $2 player, $3 display_name, $4 avatar_url, $5 locale, $6 attributes, $7 unsubscribed.
INSERT INTO players AS p (tenant_id, player_id, auth_method, display_name, avatar_url, locale, attributes, unsubscribed)
SELECT tenant_id, $2::text, first_known_as($2::text), coalesce($3::text, ''), coalesce($4::text, ''), coalesce($5::text, ''),
       coalesce($6::jsonb, '{}'), coalesce($7::text[], '{}')
FROM tenants WHERE tenant_id = $1
ON CONFLICT (tenant_id, player_id) DO UPDATE SET
    display_name = coalesce($3::text, p.display_name),
    avatar_url = coalesce($4::text, p.avatar_url),
    locale = coalesce($5::text, p.locale),
    attributes = coalesce($6::jsonb, p.attributes),
    unsubscribed = coalesce($7::text[], p.unsubscribed),
    updated_at = now()
RETURNING player_id;

-- name: set_status
-- Suspends or restores a player; the caller has locked the tenant. No row: unknown, or a guest that was merged, perhaps
-- while this waited for the row lock. An erased player does not come back by it, see is_erased.
UPDATE players SET status = $3, updated_at = CASE WHEN updated_at <= erased_at THEN updated_at ELSE now() END
WHERE tenant_id = $1 AND player_id = $2 AND merged_into IS NULL
RETURNING player_id;

-- name: owner
-- The player of a contact. $1 tenant, $2 type, $3 value. No row: unassigned.
SELECT player_id FROM contacts WHERE tenant_id = $1 AND type = $2 AND value = $3;

-- name: owner_known_to
-- As `owner`, for a signed call about pack or quest $4. If a merchant owns its campaign, only a player with an entry, a play
-- or a redeemed code or receipt in this merchant's campaigns: otherwise its staff could look up the owner of an address.
SELECT k.player_id FROM contacts AS k
WHERE k.tenant_id = $1 AND k.type = $2 AND k.value = $3 AND NOT EXISTS (
    SELECT FROM campaigns AS c
    WHERE c.tenant_id = $1 AND c.merchant_id <> '' AND c.campaign_id = coalesce(
        (SELECT s.campaign_id FROM packs AS s WHERE s.tenant_id = $1 AND s.pack_id = $4),
        (SELECT q.campaign_id FROM quests AS q WHERE q.tenant_id = $1 AND q.quest_id = $4))
      AND NOT EXISTS (
        SELECT FROM campaigns AS o
        WHERE o.tenant_id = $1 AND o.merchant_id = c.merchant_id AND (
            EXISTS (
                SELECT FROM entries AS e
                WHERE e.tenant_id = $1 AND e.campaign_id = o.campaign_id AND e.player_id = k.player_id)
            OR EXISTS (
                SELECT FROM games AS g
                JOIN game_players AS p ON p.tenant_id = $1 AND p.game_id = g.game_id AND p.player_id = k.player_id
                WHERE g.tenant_id = $1 AND g.campaign_id = o.campaign_id)
            OR EXISTS (
                SELECT FROM redemptions AS r
                WHERE r.tenant_id = $1 AND r.campaign_id = o.campaign_id AND r.player_id = k.player_id))));

-- name: sign_up
-- Creates a player with a contact. No row: the contact was assigned meanwhile, or the tenant is
-- unknown. $1 tenant, $2 player, $3 auth method, $4 contact id, $5 contact type, $6 value.
WITH contact AS (
    INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
    SELECT tenant_id, $4, $2, $5, $6 FROM tenants WHERE tenant_id = $1
    ON CONFLICT (tenant_id, type, value) DO NOTHING
    RETURNING player_id
)
INSERT INTO players (tenant_id, player_id, auth_method)
SELECT $1, player_id, $3 FROM contact
RETURNING player_id;

-- name: link
-- Links an unassigned contact to a player; was_guest: the player was a guest until now, and is registered with this login.
-- No row: the contact is assigned, or the player is a merged guest.
-- $1 tenant, $2 player, $3 contact id, $4 type, $5 value, $6 auth method.
WITH player AS (
    -- Locked, so that the guest is not merged meanwhile.
    SELECT player_id, auth_method FROM players
    WHERE tenant_id = $1 AND player_id = $2 AND merged_into IS NULL
    FOR NO KEY UPDATE
),
linked AS (
    INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
    SELECT $1, $3, player_id, $4, $5 FROM player
    ON CONFLICT (tenant_id, type, value) DO NOTHING
    RETURNING contact_id, player_id, type, value, verified, unix(created_at) AS created_at
),
logged_in AS (
    UPDATE players SET auth_method = $6, updated_at = now()
    WHERE tenant_id = $1 AND player_id = (SELECT p.player_id FROM player AS p, linked WHERE p.auth_method = 'guest')
)
SELECT linked.*, (SELECT auth_method = 'guest' FROM player) AS was_guest FROM linked;

-- name: contact
-- A contact by its value. $1 tenant, $2 type, $3 value. No row: unassigned.
SELECT contact_id, player_id, type, value, verified, unix(created_at) AS created_at
FROM contacts WHERE tenant_id = $1 AND type = $2 AND value = $3;

-- name: merged
-- The merged guests among players $2, with the players they were merged into. $1 tenant.
SELECT player_id, merged_into FROM players
WHERE tenant_id = $1 AND player_id = ANY($2::text[]) AND merged_into IS NOT NULL;
