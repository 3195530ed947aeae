-- What a game's forecast starts from. See runtime/operations/games/forecasts.py.

-- name: prizes
-- The stock of prizes $2 (null: unlimited), their free codes, currency and release. A missing row: an unknown prize, which
-- no play can win.
SELECT p.prize_id, p.currency, p.release, CASE WHEN s.total > 0 THEN s.remaining END AS remaining, coalesce(f.free, 0) AS codes
FROM prizes AS p
JOIN stock AS s ON s.tenant_id = p.tenant_id AND s.prize_id = p.prize_id
LEFT JOIN free_codes AS f ON f.tenant_id = p.tenant_id AND f.prize_id = p.prize_id
WHERE p.tenant_id = $1 AND p.prize_id = ANY ($2::text[])

-- name: scores
-- The scores of game $2 among the tenant's newest $3 plays, with the number of plays of each.
SELECT o.score, count(*)::integer AS plays FROM (
    SELECT game_id, score FROM plays WHERE tenant_id = $1 ORDER BY played_at DESC LIMIT $3
) AS o
WHERE o.game_id = $2 GROUP BY o.score

-- name: caught
-- What plays of game $2 caught among the tenant's newest $3 plays: counted items by type, with the number of plays.
SELECT o.counted, count(*)::integer AS plays FROM (
    SELECT game_id, outcome #>> '{decided,metadata,counted_items}' AS counted FROM plays
    WHERE tenant_id = $1 ORDER BY played_at DESC LIMIT $3
) AS o
WHERE o.game_id = $2 AND o.counted IS NOT NULL GROUP BY o.counted

-- name: dates
-- When a campaign begins and ends (0: undated), and its time zone. Always one row, since the game refers to it.
SELECT unix(start_date) AS start_date, unix(end_date) AS end_date, timezone FROM campaigns
WHERE tenant_id = $1 AND campaign_id = $2
