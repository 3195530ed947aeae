-- E-mails to players. See runtime/actors/mailing.py and runtime/operations/campaigns/messages.py.

-- name: listen
-- Makes the integration of campaign $2 for its messages receive events $3; none: pauses it. It exists from the first
-- message on, and keeps the log. It receives no events from before it was resumed.
INSERT INTO integrations AS i (tenant_id, integration_id, campaign_id, type, events)
SELECT $1::text, 'messages_' || $2::text, $2, 'email', $3::text[]
WHERE $3::text[] <> '{}' OR EXISTS (
    SELECT FROM integrations WHERE tenant_id = $1 AND integration_id = 'messages_' || $2::text)
ON CONFLICT (tenant_id, integration_id) DO UPDATE SET
    events = excluded.events,
    status = CASE WHEN excluded.events = '{}' THEN 'paused' ELSE 'active' END,
    active_since = CASE WHEN i.status = 'paused' THEN now() ELSE i.active_since END
    WHERE i.events <> excluded.events

-- name: facts
-- What a message to player $3 of campaign $2 says and where it goes: about reward $4 and draw $5 ('' = none). A merged
-- guest's messages go to its player. The address is the verified one of the login; without one, that of the entry.
-- No row: no such campaign.
SELECT c.name AS campaign, c.messages, c.timezone, w.id AS player_id, is_erased($1, w.id) AS is_erased,
       p.status = 'suspended' AS is_suspended,
       coalesce(nullif(p.display_name, ''), e.fields ->> 'first_name', e.fields ->> 'name', '') AS player_name,
       coalesce(nullif(e.locale, ''), p.locale, '') AS language,
       coalesce(v.value, entry_contact(c.entry, e.fields, 'email'), '') AS email, v.value IS NOT NULL AS is_verified,
       coalesce(p.unsubscribed, '{}') AS unsubscribed,
       r.reward_id, r.prize_id, r.name AS prize, r.game_id, unix(r.expires_at) AS expires_at,
       reward_status(r.status, r.expires_at, EXISTS (
           SELECT FROM tasks AS t WHERE t.tenant_id = $1 AND t.reward_id = r.reward_id)) AS status,
       r.fulfilled_at = r.won_at AS is_fulfilled_at_once, o.key_id, o.ciphertext, d.name AS draw, d.status AS draw_status,
       (SELECT t.sender FROM tenants AS t WHERE t.tenant_id = $1) AS sender, coalesce((hosts_of($1, $2))[1], '') AS host
FROM campaigns AS c
CROSS JOIN LATERAL (
    SELECT coalesce((SELECT g.merged_into FROM players AS g WHERE g.tenant_id = $1 AND g.player_id = $3), $3) AS id
) AS w
CROSS JOIN LATERAL (
    SELECT min(o.value) AS value FROM contacts AS o
    WHERE o.tenant_id = $1 AND o.player_id = w.id AND o.type = 'email' AND o.verified
) AS v
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = w.id
LEFT JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = $2 AND e.player_id = w.id
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = $4
LEFT JOIN codes AS o ON o.tenant_id = $1 AND o.reward_id = r.reward_id AND r.status = 'fulfilled'
LEFT JOIN draws AS d ON d.tenant_id = $1 AND d.draw_id = $5
WHERE c.tenant_id = $1 AND c.campaign_id = $2

-- name: of_player
-- Messages to player $2 and the guests merged into it, newest first, after $6 (NULL: from the newest), in campaign $3 and
-- about reward $4 ('' all). $5 the staff's merchant ('': the tenant).
SELECT d.delivery_id AS id, CASE d.event_type WHEN 'prize_won' THEN 'won' ELSE substr(d.event_type, 9) END AS kind,
       i.campaign_id, coalesce(d.event #>> '{data,reward_id}', '') AS reward_id,
       coalesce(d.event #>> '{data,draw_id}', '') AS draw_id, coalesce(r.name, w.name, '') AS subject, d.status, d.error,
       d.attempts, unix(d.tried_at) AS tried_at, unix(d.next_attempt_at) AS next_attempt_at, d.integration_id
FROM integration_deliveries AS d
JOIN integrations AS i ON i.tenant_id = $1 AND i.integration_id = d.integration_id
LEFT JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = d.event #>> '{data,reward_id}'
LEFT JOIN draws AS w ON w.tenant_id = $1 AND w.draw_id = d.event #>> '{data,draw_id}'
WHERE d.tenant_id = $1 AND starts_with(d.integration_id, 'messages_')
  AND (d.event #>> '{data,player_id}') COLLATE "C" = ANY (ARRAY(
      SELECT $2 UNION ALL SELECT g.player_id FROM players AS g WHERE g.tenant_id = $1 AND g.merged_into = $2))
  AND ($3 = '' OR i.campaign_id = $3) AND ($4 = '' OR d.event #>> '{data,reward_id}' = $4)
  AND ($5 = '' OR i.campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
  AND ($6::text IS NULL OR d.delivery_id < $6)
ORDER BY d.delivery_id DESC LIMIT $7

-- name: sample_prize
-- A prize of campaign $2, for samples. No row: it has none.
SELECT name FROM prizes WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active' ORDER BY prize_id LIMIT 1

-- name: unsubscribe
-- Ends messages of kind $3 to player $2, or to the player that the guest became.
INSERT INTO players AS p (tenant_id, player_id, auth_method, unsubscribed)
SELECT tenant_id, w.id, first_known_as(w.id), ARRAY[$3::text]
FROM tenants CROSS JOIN LATERAL (
    SELECT coalesce((SELECT g.merged_into FROM players AS g WHERE g.tenant_id = $1 AND g.player_id = $2), $2::text) AS id
) AS w
WHERE tenant_id = $1
ON CONFLICT (tenant_id, player_id) DO UPDATE SET unsubscribed = array_append(p.unsubscribed, $3)
    WHERE $3 <> ALL (p.unsubscribed)

-- name: stops
-- Whether staff ended messages of kind $3 to an address. $2: its hash with each key.
SELECT EXISTS (SELECT FROM message_stops WHERE tenant_id = $1 AND address_hash = ANY($2::bytea[]) AND $3 = ANY(kinds))

-- name: stop
-- Ends messages of kinds $3 to the address with hash $2.
INSERT INTO message_stops AS s (tenant_id, address_hash, kinds) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, address_hash) DO UPDATE SET
    kinds = ARRAY(SELECT DISTINCT k FROM unnest(s.kinds || excluded.kinds) AS k ORDER BY k)

-- name: resume
-- Resumes messages of kinds $3 to an address. $2: its hash with each key.
UPDATE message_stops SET kinds = ARRAY(SELECT k FROM unnest(kinds) AS k WHERE k <> ALL ($3::text[]))
WHERE tenant_id = $1 AND address_hash = ANY($2::bytea[]) AND kinds && $3::text[]

-- name: stopped
-- The kinds that staff ended for an address. $2: its hash with each key.
SELECT DISTINCT unnest(kinds) AS kind FROM message_stops
WHERE tenant_id = $1 AND address_hash = ANY($2::bytea[]) ORDER BY kind
