-- Prize draws: their tickets, frozen at the close, and their results, stored as standings.
-- See runtime/operations/draws. Lock order: tenant, draw, tickets, standings.

-- name: insert
-- $1 tenant, $2 draw, $3 campaign, $4 name, $5 tickets, $6 prizes, $7 alternates, $8 closes_at in unix seconds,
-- $9 randomness, $10 salt of the pseudonyms, $11 the staff's merchant ('': the tenant). No row: the campaign is unknown
-- or not writable.
INSERT INTO draws (tenant_id, draw_id, campaign_id, name, tickets, prizes, alternates, closes_at, randomness, salt)
SELECT c.tenant_id, $2::text, c.campaign_id, $4, $5, $6, $7, at_unix($8), $9, $10
FROM campaigns AS c
WHERE c.tenant_id = $1 AND c.campaign_id = $3
  AND ($11 = '' OR c.campaign_id IN (SELECT o FROM campaigns_of($1, $11, true) AS o))
RETURNING draw_id;

-- name: get
-- $1 tenant, $2 draw, $3 the staff's merchant ('': the tenant), $4 whether to write.
-- No row: not found or not permitted.
SELECT draw_id AS id, campaign_id, name, status, tickets, prizes, alternates, unix(closes_at) AS closes_at, randomness,
       tickets_root, ticket_count, holder_count, result_hash, unix(closed_at) AS closed_at, unix(drawn_at) AS drawn_at,
       unix(confirmed_at) AS confirmed_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM draws WHERE tenant_id = $1 AND draw_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o));

-- name: lock
-- As `get`, with the result, and locks the draw until the transaction ends.
SELECT draw_id AS id, campaign_id, name, status, tickets, prizes, alternates, unix(closes_at) AS closes_at, randomness,
       tickets_root, ticket_count, holder_count, result_hash, unix(closed_at) AS closed_at, unix(drawn_at) AS drawn_at,
       unix(confirmed_at) AS confirmed_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at, result
FROM draws WHERE tenant_id = $1 AND draw_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))
FOR UPDATE;

-- name: lock_now
-- As `lock`, without waiting: an error (55P03) if another transaction has locked the draw.
SELECT draw_id AS id, campaign_id, name, status, tickets, prizes, alternates, unix(closes_at) AS closes_at, randomness,
       tickets_root, ticket_count, holder_count, result_hash, unix(closed_at) AS closed_at, unix(drawn_at) AS drawn_at,
       unix(confirmed_at) AS confirmed_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at, result
FROM draws WHERE tenant_id = $1 AND draw_id = $2
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))
FOR UPDATE NOWAIT;

-- name: of_campaign
-- The draws of campaign $2, newest first, with those that were cancelled after their close. $1 tenant, $3 how many.
SELECT draw_id AS id, campaign_id, name, status, tickets, prizes, alternates, unix(closes_at) AS closes_at, randomness,
       tickets_root, ticket_count, holder_count, result_hash, unix(closed_at) AS closed_at, unix(drawn_at) AS drawn_at,
       unix(confirmed_at) AS confirmed_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM draws WHERE tenant_id = $1 AND campaign_id = $2 AND (status <> 'cancelled' OR closed_at IS NOT NULL)
ORDER BY draw_id DESC LIMIT $3;

-- name: prize_names
-- Names of prizes $2. $1 tenant.
SELECT prize_id, name FROM prizes WHERE tenant_id = $1 AND prize_id = ANY($2::text[]);

-- name: stock_left
-- The units left of prizes $2 that have limited stock. $1 tenant.
SELECT prize_id, remaining FROM stock WHERE tenant_id = $1 AND prize_id = ANY($2::text[]) AND total > 0;

-- name: is_available
-- Whether prize $2 has a unit, and a code if it gives codes. $1 tenant.
SELECT coalesce(remaining_of_prize(p.channel, s.total, s.remaining, f.free) > 0, true)
FROM prizes AS p
JOIN stock AS s USING (tenant_id, prize_id)
LEFT JOIN free_codes AS f USING (tenant_id, prize_id)
WHERE p.tenant_id = $1 AND p.prize_id = $2;

-- name: on_show
-- A public draw. $1 tenant, $2 draw. No row: unknown, or in a draft campaign.
SELECT d.draw_id FROM draws AS d JOIN campaigns AS c USING (tenant_id, campaign_id)
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND c.status <> 'draft';

-- name: list
-- Newest first. $1 tenant, $2 campaign, $3 status ('' = any), $4 LIKE pattern of the name, $5 the staff's merchant
-- ('': the tenant), $6 the id of the last one shown (null at first), $7 how many.
SELECT draw_id AS id, campaign_id, name, status, tickets, prizes, alternates, unix(closes_at) AS closes_at, randomness,
       tickets_root, ticket_count, holder_count, result_hash, unix(closed_at) AS closed_at, unix(drawn_at) AS drawn_at,
       unix(confirmed_at) AS confirmed_at, unix(created_at) AS created_at, unix(updated_at) AS updated_at
FROM draws
WHERE tenant_id = $1 AND ($2::text = '' OR campaign_id = $2) AND ($3::text = '' OR status = $3)
  AND name ILIKE $4 AND ($5 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
  AND ($6::text IS NULL OR draw_id < $6)
ORDER BY draw_id DESC
LIMIT $7;

-- name: update
-- Sets the terms of an open draw. $1 tenant, $2 draw, $3 name, $4 tickets, $5 prizes, $6 alternates, $7 closes_at,
-- $8 randomness. No row: not open.
UPDATE draws SET name = $3, tickets = $4, prizes = $5, alternates = $6, closes_at = at_unix($7), randomness = $8,
                 updated_at = now()
WHERE tenant_id = $1 AND draw_id = $2 AND status = 'open'
RETURNING draw_id;

-- name: cancel
-- $1 tenant, $2 draw. No row: confirmed or cancelled already.
UPDATE draws SET status = 'cancelled', updated_at = now()
WHERE tenant_id = $1 AND draw_id = $2 AND status IN ('open', 'closed', 'drawn')
RETURNING draw_id;

-- name: remove
-- Deletes a draw whose tickets were never frozen, with its ticket list. No row: it has a history.
WITH list AS (
    DELETE FROM draw_lists AS l USING draws AS d
    WHERE d.tenant_id = $1 AND d.draw_id = $2 AND d.closed_at IS NULL AND l.tenant_id = $1 AND l.draw_id = d.draw_id
)
DELETE FROM draws WHERE tenant_id = $1 AND draw_id = $2 AND closed_at IS NULL RETURNING draw_id;

-- name: freeze_balances
-- Freezes the balances of a currency as tickets, numbered in the order of the holders' pseudonyms. Suspended players
-- have none. $1 tenant, $2 draw, $3 scope, $4 currency.
INSERT INTO draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder)
SELECT $1, $2, sum(t.tickets) OVER (ORDER BY t.holder) - t.tickets, t.tickets, t.player_id, t.holder
FROM (
    SELECT b.player_id, b.balance AS tickets, pseudonym(d.salt, b.player_id) AS holder
    FROM draws AS d
    JOIN balances AS b ON b.tenant_id = $1 AND b.scope_key = $3 AND b.currency = $4 AND b.balance > 0
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = b.player_id
    WHERE d.tenant_id = $1 AND d.draw_id = $2 AND coalesce(p.status, 'active') = 'active'
) AS t;

-- name: freeze_scores
-- As `freeze_balances`, for players $3 with scores $4.
INSERT INTO draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder)
SELECT $1, $2, sum(t.tickets) OVER (ORDER BY t.holder) - t.tickets, t.tickets, t.player_id, t.holder
FROM (
    SELECT s.player_id, s.tickets, pseudonym(d.salt, s.player_id) AS holder
    FROM draws AS d
    CROSS JOIN unnest($3::text[], $4::bigint[]) AS s (player_id, tickets)
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = s.player_id
    WHERE d.tenant_id = $1 AND d.draw_id = $2 AND s.tickets > 0 AND coalesce(p.status, 'active') = 'active'
) AS t;

-- name: freeze_entries
-- As `freeze_balances`: a ticket for each entry of the draw's campaign that was complete in time and that its form
-- still accepts. $1 tenant, $2 draw.
INSERT INTO draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder)
SELECT $1, $2, row_number() OVER (ORDER BY t.holder) - 1, 1, t.player_id, t.holder
FROM (
    SELECT e.player_id, pseudonym(d.salt, e.player_id) AS holder
    FROM draws AS d
    JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
    JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = d.campaign_id
        AND NOT e.late AND entry_missing(c.entry_needs, e.given) IS NULL AND barred_country(c.entry, e.given) IS NULL
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = e.player_id
    WHERE d.tenant_id = $1 AND d.draw_id = $2 AND coalesce(p.status, 'active') = 'active'
) AS t;

-- name: unknown_players
-- Which of players $2 do not exist. $1 tenant.
SELECT g AS player_id FROM unnest($2::text[]) AS g
WHERE NOT EXISTS (SELECT FROM players AS p WHERE p.tenant_id = $1 AND p.player_id = g);

-- name: set_list
-- Sets the tickets $4 of players $3 in the list of draw $2, which the caller has locked; 0 removes a player. Creates the
-- players of external identities that are new. $1 tenant.
WITH given AS (SELECT * FROM unnest($3::text[], $4::bigint[]) AS g (player_id, tickets)),
met AS (
    INSERT INTO players (tenant_id, player_id, auth_method)
    SELECT $1, player_id, first_known_as(player_id) FROM given WHERE tickets > 0 ORDER BY player_id
    ON CONFLICT DO NOTHING
),
removed AS (
    DELETE FROM draw_lists AS l USING given AS g
    WHERE l.tenant_id = $1 AND l.draw_id = $2 AND l.player_id = g.player_id AND g.tickets = 0
)
INSERT INTO draw_lists (tenant_id, draw_id, player_id, tickets)
SELECT $1, $2, player_id, tickets FROM given WHERE tickets > 0 ORDER BY player_id
ON CONFLICT (tenant_id, draw_id, player_id) DO UPDATE SET tickets = excluded.tickets, set_at = now();

-- name: list_size
-- The players in the list of draw $2, and their tickets. $1 tenant.
SELECT count(*)::integer AS holder_count, least(coalesce(sum(tickets), 0), 9223372036854775807)::bigint AS ticket_count
FROM draw_lists WHERE tenant_id = $1 AND draw_id = $2;

-- name: freeze_list
-- As `freeze_balances`, for the draw's imported list. $1 tenant, $2 draw.
INSERT INTO draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder)
SELECT $1, $2, sum(t.tickets) OVER (ORDER BY t.holder) - t.tickets, t.tickets, t.player_id, t.holder
FROM (
    SELECT o.player_id, sum(o.tickets) AS tickets, pseudonym(d.salt, o.player_id) AS holder
    FROM draws AS d
    CROSS JOIN LATERAL (
        SELECT coalesce(p.merged_into, l.player_id) AS player_id, l.tickets
        FROM draw_lists AS l
        LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = l.player_id
        WHERE l.tenant_id = $1 AND l.draw_id = d.draw_id
    ) AS o
    LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = o.player_id
    WHERE d.tenant_id = $1 AND d.draw_id = $2 AND coalesce(p.status, 'active') = 'active'
    GROUP BY o.player_id, d.salt
) AS t;

-- name: tickets
-- The frozen tickets in order. $1 tenant, $2 draw, $3 the first ticket to show, $4 how many holders.
SELECT first_ticket, tickets, holder FROM draw_tickets
WHERE tenant_id = $1 AND draw_id = $2 AND first_ticket >= $3
ORDER BY first_ticket LIMIT $4;

-- name: every_ticket
-- All frozen tickets in order. $1 tenant, $2 draw.
SELECT tickets, holder FROM draw_tickets WHERE tenant_id = $1 AND draw_id = $2 ORDER BY first_ticket;

-- name: holder_of
-- Who holds ticket $3: always a row for a ticket of the draw.
SELECT first_ticket, tickets, holder, player_id FROM draw_tickets
WHERE tenant_id = $1 AND draw_id = $2 AND first_ticket <= $3
ORDER BY first_ticket DESC LIMIT 1;

-- name: close
-- Publishes the frozen tickets. $1 tenant, $2 draw, $3 their Merkle root, $4 tickets, $5 holders. No row: not open.
UPDATE draws SET status = 'closed', tickets_root = $3, ticket_count = $4, holder_count = $5,
                 closed_at = clock_timestamp(), updated_at = now()
WHERE tenant_id = $1 AND draw_id = $2 AND status = 'open'
RETURNING draw_id;

-- name: announced
-- The fields of a draw for its events. $1 tenant, $2 draw.
SELECT d.draw_id, d.name, d.tickets_root, d.ticket_count, d.holder_count, d.randomness ->> 'value' AS value, d.result_hash,
       d.campaign_id, coalesce(c.merchant_id, '') AS merchant_id, d.closed_at, d.drawn_at
FROM draws AS d
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
WHERE d.tenant_id = $1 AND d.draw_id = $2;

-- name: record_result
-- Stores the value, and the result that follows from it. $1 tenant, $2 draw, $3 value, $4 result, $5 its hash.
-- No row: not closed, or drawn already. The transaction may have begun before the value could be known. Verifiers refuse
-- a draw from before its close, so a clock that was set back does not count.
UPDATE draws SET status = 'drawn', randomness = randomness || jsonb_build_object('value', $3::text), result = $4,
                 result_hash = $5, drawn_at = greatest(clock_timestamp(), closed_at), updated_at = now()
WHERE tenant_id = $1 AND draw_id = $2 AND status = 'closed'
RETURNING draw_id;

-- name: insert_ranks
-- Stores the drawn ranks as standings, without names, so that an erasure need not wait for a draw. Rank i is position i
-- of the arrays: $3 players, $4 tickets, $5 prizes ('': an alternate). A guest that has logged in since the close keeps its
-- rank under the guest's id, as on boards; the player gets the prize.
INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, prize_id, reason)
SELECT $1, $2, n.rank, n.player_id, n.tickets, now(), n.prize_id,
       CASE WHEN n.prize_id = '' THEN 'ALTERNATE' ELSE 'DRAWN' END
FROM unnest($3::text[], $4::bigint[], $5::text[]) WITH ORDINALITY AS n (player_id, tickets, prize_id, rank);

-- name: confirm
-- $1 tenant, $2 draw. No row: not drawn, or confirmed already.
UPDATE draws SET status = 'confirmed', confirmed_at = now(), updated_at = now()
WHERE tenant_id = $1 AND draw_id = $2 AND status = 'drawn'
RETURNING draw_id;

-- name: owe
-- Makes the drawn ranks' prizes due, except those of players who are suspended or erased. $1 tenant, $2 draw.
UPDATE leaderboard_standings
SET reason = CASE WHEN is_suspended($1, player_id) THEN 'SUSPENDED'
                  WHEN is_erased($1, player_id) THEN 'ERASED' ELSE 'PENDING' END
WHERE tenant_id = $1 AND board_id = $2 AND reason = 'DRAWN';

-- name: replace
-- Takes rank $3's prize from its winner, whose reward, if any, has ended. It compares the stored status: the expiry job
-- must have returned the unit first. No row: no such winner.
UPDATE leaderboard_standings AS s SET reason = 'REPLACED'
WHERE s.tenant_id = $1 AND s.board_id = $2 AND s.rank = $3 AND s.prize_id <> '' AND s.reason <> 'REPLACED'
  AND s.reason <> 'PENDING' AND NOT EXISTS (
    SELECT FROM rewards AS r WHERE r.tenant_id = $1 AND r.reward_id = s.reward_id AND r.status NOT IN ('revoked', 'expired'))
RETURNING s.prize_id;

-- name: rank
-- Rank $3 of draw $2. $1 tenant. No row: there is none.
SELECT prize_id, reason, reward_id FROM leaderboard_standings WHERE tenant_id = $1 AND board_id = $2 AND rank = $3;

-- name: call_alternate
-- Gives prize $3 to the best alternate who is neither suspended nor erased; $4 its reason: DRAWN, or PENDING in a
-- confirmed draw. No row: none is left.
UPDATE leaderboard_standings AS s SET prize_id = $3, reason = $4
WHERE s.tenant_id = $1 AND s.board_id = $2 AND s.rank = (
    SELECT min(a.rank) FROM leaderboard_standings AS a
    WHERE a.tenant_id = $1 AND a.board_id = $2 AND a.reason = 'ALTERNATE' AND NOT is_suspended($1, a.player_id)
      AND NOT is_erased($1, a.player_id))
RETURNING s.rank, s.player_id;

-- name: award_terms
-- The fields of a draw for awarding its prizes. $1 tenant, $2 draw. No row: unknown.
SELECT d.campaign_id, c.merchant_id, c.timezone
FROM draws AS d JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
WHERE d.tenant_id = $1 AND d.draw_id = $2;

-- name: winners
-- The drawn ranks; the reason names a reward's end, too. $1 tenant, $2 draw, $3 the staff's merchant ('': the tenant),
-- which sees names only in draws that it may write, $4 the last rank shown (NULL: none), $5 how many.
SELECT s.rank, coalesce(r.entry ->> 'holder', '') AS holder, coalesce((r.entry ->> 'ticket')::bigint, 0) AS ticket,
       s.prize_id,
       CASE WHEN s.reason = '' AND w.status IN ('revoked', 'expired') THEN upper(w.status) ELSE s.reason END AS reason,
       s.player_id, coalesce(p.display_name, '') AS display_name, s.reward_id
FROM draws AS d
JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = d.draw_id
LEFT JOIN rewards AS w ON w.tenant_id = $1 AND w.reward_id = s.reward_id
LEFT JOIN players AS p ON p.tenant_id = $1 AND p.player_id = s.player_id
    AND ($3 = '' OR d.campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))
CROSS JOIN LATERAL (SELECT d.result -> (s.rank - 1) AS entry) AS r
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND ($4::integer IS NULL OR s.rank > $4)
ORDER BY s.rank LIMIT $5;

-- name: share
-- A player's tickets and best rank, with its prize unless the player does not get it. Those of guests that became the
-- player count too. $1 tenant, $2 draw, $3 player. No row: neither.
WITH own AS (
    SELECT $3::text AS player_id
    UNION ALL
    SELECT player_id::text FROM players WHERE tenant_id = $1 AND merged_into = $3
),
held AS (
    SELECT min(t.holder) AS holder, sum(t.tickets)::bigint AS tickets
    FROM own JOIN draw_tickets AS t ON t.tenant_id = $1 AND t.draw_id = $2 AND t.player_id = own.player_id
),
best AS (
    SELECT s.rank, CASE WHEN s.reason IN ('', 'PENDING', 'DRAWN') THEN s.prize_id ELSE '' END AS prize_id, s.reward_id
    FROM own JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = $2 AND s.player_id = own.player_id
    ORDER BY s.rank LIMIT 1
)
SELECT coalesce(h.holder, '') AS holder, coalesce(h.tickets, 0) AS tickets, coalesce(b.rank, 0) AS rank,
       coalesce(b.prize_id, '') AS prize_id, coalesce(b.reward_id, '') AS reward_id
FROM held AS h LEFT JOIN best AS b ON true
WHERE h.tickets IS NOT NULL OR b.rank IS NOT NULL;

-- name: open_share
-- A player's tickets until now in an open draw, unless by ranking. $1 tenant, $2 draw, $3 player. No row: none.
SELECT b.balance AS tickets
FROM draws AS d
JOIN balances AS b ON b.tenant_id = $1 AND b.player_id = $3 AND b.scope_key = d.tickets ->> 'scope_key'
    AND b.currency = d.tickets ->> 'currency' AND b.balance > 0
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND d.status = 'open'
UNION ALL
SELECT 1
FROM draws AS d
JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = d.campaign_id
JOIN entries AS e ON e.tenant_id = $1 AND e.campaign_id = d.campaign_id AND e.player_id = $3
    AND NOT e.late AND entry_missing(c.entry_needs, e.given) IS NULL AND barred_country(c.entry, e.given) IS NULL
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND d.status = 'open' AND (d.tickets ->> 'entries')::boolean
UNION ALL
SELECT l.tickets
FROM draws AS d
JOIN draw_lists AS l ON l.tenant_id = $1 AND l.draw_id = d.draw_id AND l.player_id = $3
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND d.status = 'open' AND (d.tickets ->> 'imported')::boolean;

-- name: evidence
-- The head and the end of the evidence file, and the draw's leaf in the log. $1 tenant, $2 draw. No row: unknown, or not
-- closed.
SELECT d.draw_id AS id, d.campaign_id, d.name, d.status, d.tickets, d.prizes, d.alternates, d.randomness,
       d.tickets_root, d.ticket_count, d.holder_count, d.result, d.result_hash, unix(d.closed_at) AS closed_at,
       unix(d.drawn_at) AS drawn_at, l.leaf_index,
       CASE WHEN l.leaf_index IS NOT NULL THEN convert_from(log_entry(l), 'UTF8') END AS entry
FROM draws AS d JOIN campaigns AS c USING (tenant_id, campaign_id)
LEFT JOIN log_leaves AS l ON l.tenant_id = $1 AND l.kind = 'draw' AND l.row_id = $2
WHERE d.tenant_id = $1 AND d.draw_id = $2 AND d.closed_at IS NOT NULL AND c.status <> 'draft';

-- name: due
-- Draws to close, once all earlier wallet movements are visible, and confirmed ones with prizes still to award.
-- $1 tenant.
SELECT draw_id, status FROM draws WHERE tenant_id = $1 AND status = 'open' AND closes_at <= settled_at()
UNION
SELECT d.draw_id, d.status FROM draws AS d
JOIN leaderboard_standings AS s ON s.tenant_id = $1 AND s.board_id = d.draw_id AND s.reason = 'PENDING'
WHERE d.tenant_id = $1
ORDER BY draw_id;

-- name: tenants_with_due
-- Tenants that may have draws in `due`.
SELECT tenant_id FROM draws WHERE status = 'open' AND closes_at <= now()
UNION
SELECT d.tenant_id FROM leaderboard_standings AS s
JOIN draws AS d ON d.tenant_id = s.tenant_id AND d.draw_id = s.board_id WHERE s.reason = 'PENDING'
ORDER BY tenant_id;
