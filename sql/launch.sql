-- The data of a campaign's launch check. See runtime/operations/campaigns/launch.py. Only the first statement checks
-- access: $3 is the staff's merchant ('': the tenant).

-- name: campaign
-- The campaign, and the number of its tenant's origins. No row: not found or not readable.
SELECT c.campaign_id, c.status, unix(c.start_date) AS start_date, unix(c.end_date) AS end_date, c.origins, c.budget,
       c.budget_currency, coalesce(b.used, 0) AS used,
       (SELECT cardinality(t.origins) FROM tenants AS t WHERE t.tenant_id = $1) AS origins_of_tenant, c.settings, c.entry,
       (SELECT t.sender FROM tenants AS t WHERE t.tenant_id = $1) AS sender
FROM campaigns AS c
LEFT JOIN budget_marks AS b
    ON b.tenant_id = $1 AND b.campaign_id = c.campaign_id AND b.currency = c.budget_currency
WHERE c.tenant_id = $1 AND c.campaign_id = $2
  AND ($3 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))

-- name: games
-- Its active games, the oldest first.
SELECT g.game_id, g.name, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND g.campaign_id = $2 AND g.status = 'active'
ORDER BY g.game_id

-- name: draws
-- Its open draws, the oldest first. without_games: its tickets need no game of the campaign.
SELECT d.draw_id, d.name, d.tickets, d.prizes, CASE
           WHEN d.tickets -> 'entries' = 'true' THEN c.entry IS NOT NULL
           WHEN d.tickets -> 'imported' = 'true' THEN true
           WHEN d.tickets ->> 'ranking' <> '' THEN EXISTS (
               SELECT FROM leaderboards AS l
               WHERE l.tenant_id = $1 AND l.board_id = d.tickets ->> 'ranking' AND l.campaign_id IS DISTINCT FROM $2
           )
           ELSE d.tickets ->> 'scope_key' <> $2 OR EXISTS (
               SELECT FROM packs AS p
               WHERE p.tenant_id = $1 AND p.campaign_id = $2 AND p.status = 'active'
                 AND coalesce(p.until, 'infinity') > now()
                 AND (p.currency, p.scope_key) = (d.tickets ->> 'currency', d.tickets ->> 'scope_key')
           )
       END AS without_games
FROM draws AS d JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = $2
WHERE d.tenant_id = $1 AND d.campaign_id = $2 AND d.status = 'open'
ORDER BY d.draw_id

-- name: boards
-- Rank prizes of its active boards.
SELECT prizes FROM leaderboards WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active'

-- name: prizes
-- The prizes $2 with their free codes. idle_codes: has free codes but another delivery channel.
SELECT p.prize_id, p.name, p.type, p.value, p.currency, p.channel, p.channel_config, p.image_url, p.low_stock_at,
       s.total, s.remaining, p.release -> 'terms' AS release,
       CASE WHEN p.channel = 'voucher_code' THEN coalesce(f.free, 0) END AS codes,
       p.channel <> 'voucher_code' AND coalesce(f.free, 0) > 0 AS idle_codes
FROM prizes AS p
JOIN stock AS s ON s.tenant_id = $1 AND s.prize_id = p.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = $1 AND f.prize_id = p.prize_id
WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[])
ORDER BY p.prize_id

-- name: givers
-- Its active quests, then its active packs, that give turns and have not ended, the oldest first. field: the one with the
-- turns.
SELECT 'quest' AS kind, quest_id AS id, name, 'turns' AS field FROM quests
WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active' AND turns > 0 AND coalesce(end_date, 'infinity') > now()
UNION ALL
SELECT 'pack', pack_id, name, 'gives.turns' FROM packs
WHERE tenant_id = $1 AND campaign_id = $2 AND status = 'active' AND turns > 0 AND coalesce(until, 'infinity') > now()
ORDER BY kind DESC, id

-- name: integrations
-- The active integrations that receive its events. service: of spreadsheets and the like, "" if none is set.
SELECT DISTINCT i.type, coalesce(i.config ->> 'service', '') AS service
FROM integrations AS i
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = $2
WHERE i.tenant_id = $1 AND i.status = 'active' AND i.campaign_id IN ('', $2) AND i.merchant_id IN ('', c.merchant_id)
ORDER BY i.type, service
