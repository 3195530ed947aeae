-- Requests that need a second person's approval. See runtime/operations/approvals.

-- name: insert
-- Stores a request for approval, for 7 days. No row: its idempotency key was stored before.
-- $1 tenant, $2 id, $3 merchant, $4 operation, $5 route, $6 the request, $7 its hash, $8 its key (null: none),
-- $9 the subject, $10 its state before, $11 after, $12 the requester, $13 digest of the state it rests on (empty: none).
INSERT INTO approvals (tenant_id, approval_id, merchant_id, operation, route, request, request_hash, idempotency_key,
                       subject_id, before, after, requested_by, rests_on)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT DO NOTHING
RETURNING approval_id

-- name: find
-- The request stored under an idempotency key.
SELECT approval_id, request_hash FROM approvals
WHERE tenant_id = $1 AND merchant_id = $2 AND requested_by = $3 AND route = $4 AND idempotency_key = $5

-- name: get
-- One approval. $3 the staff's merchant ('': the tenant).
SELECT approval_id AS id, operation, subject_id, before, after, merchant_id, requested_by, unix(requested_at) AS requested_at,
       unix(expires_at) AS expires_at, approval_status(status, expires_at, decided_at) AS status, decided_by,
       unix(decided_at) AS decided_at, reason, outcome
FROM approvals WHERE tenant_id = $1 AND approval_id = $2 AND ($3 = '' OR merchant_id = $3)

-- name: list
-- Approvals newest first, after $4. $2 status ('': all), $3 the staff's merchant ('': the tenant).
SELECT approval_id AS id, operation, subject_id, before, after, merchant_id, requested_by, unix(requested_at) AS requested_at,
       unix(expires_at) AS expires_at, approval_status(status, expires_at, decided_at) AS status, decided_by,
       unix(decided_at) AS decided_at, reason, outcome
FROM approvals
WHERE tenant_id = $1
  AND ($2 = '' OR (approval_status(status, expires_at, decided_at) = $2 AND ($2 <> 'waiting' OR status = 'waiting')))
  AND ($3 = '' OR merchant_id = $3)
  AND ($4::text IS NULL OR approval_id < $4)
ORDER BY approval_id DESC
LIMIT $5

-- name: request
-- The request as received.
SELECT request, idempotency_key, rests_on FROM approvals WHERE tenant_id = $1 AND approval_id = $2

-- name: decide
-- Decides a pending request once: status $3, by $4, for reason $5, with outcome $6. A partly done approved request can
-- still be rejected; its completed parts stay. No row: no longer pending.
UPDATE approvals SET status = $3, decided_by = $4, decided_at = now(), reason = $5, outcome = $6
WHERE tenant_id = $1 AND approval_id = $2
  AND (status = 'waiting' AND expires_at > now()
       OR $3 = 'rejected' AND approval_status(status, expires_at, decided_at) = 'approved')
RETURNING operation, requested_by, subject_id

-- name: is_unfinished
-- True while an approved operation of several transactions should continue.
SELECT approval_status(status, expires_at, decided_at) = 'approved'
FROM approvals WHERE tenant_id = $1 AND approval_id = $2

-- name: withdraw
-- Withdraws all pending requests of $2, by $3, for reason $4: of a dismissed person and of the API tokens that they
-- created, or of one token by its id. A token's requested_by is "name (id)". One row per request.
WITH pending AS (
    SELECT approval_id FROM approvals AS a
    WHERE tenant_id = $1 AND status = 'waiting' AND expires_at > now()
      AND (requested_by = $2 OR EXISTS (
          SELECT FROM api_tokens AS t
          WHERE t.tenant_id = $1 AND $2 IN (t.made_by, t.token_id)
            AND right(a.requested_by, length(t.token_id) + 3) = ' (' || t.token_id || ')'))
    ORDER BY approval_id
    FOR UPDATE
)
UPDATE approvals AS a SET status = 'withdrawn', decided_by = $3, decided_at = now(), reason = $4
FROM pending WHERE a.tenant_id = $1 AND a.approval_id = pending.approval_id
RETURNING a.approval_id, a.operation, a.requested_by, a.subject_id, a.merchant_id, a.reason

-- name: finish
-- Completes an approved operation of several transactions once, with outcome $3. No row: already done.
UPDATE approvals SET status = 'done', outcome = $3
WHERE tenant_id = $1 AND approval_id = $2 AND status = 'approved'
RETURNING operation, requested_by, subject_id

-- name: rewards
-- The rewards $2 of a bulk request that the caller may write. $3 the staff's merchant.
SELECT reward_id AS id, name, player_id, reward_status(status, expires_at, EXISTS (
           SELECT FROM tasks AS t WHERE t.tenant_id = rewards.tenant_id AND t.reward_id = rewards.reward_id)) AS status
FROM rewards
WHERE tenant_id = $1 AND reward_id = ANY ($2::text[])
  AND ($3 = '' OR campaign_id IN (SELECT o FROM campaigns_of($1, $3, true) AS o))
ORDER BY reward_id

-- name: prize_is_live
-- True if the definition of a game names prize $2, and the game was played, or is active in a campaign that is active or
-- was played; or if an active board of such a campaign awards the prize.
SELECT EXISTS (
    SELECT FROM games AS g
    JOIN game_revisions AS r USING (tenant_id, game_id, revision)
    JOIN campaigns AS c USING (tenant_id, campaign_id)
    WHERE g.tenant_id = $1 AND position($2 IN r.definition::text) > 0
      AND (EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = g.game_id)
           OR g.status = 'active' AND (c.status = 'active' OR EXISTS (
               SELECT FROM games AS o JOIN game_players AS p USING (tenant_id, game_id)
               WHERE o.tenant_id = $1 AND o.campaign_id = c.campaign_id)))
) OR EXISTS (
    SELECT FROM leaderboards AS l
    JOIN campaigns AS c USING (tenant_id, campaign_id)
    WHERE l.tenant_id = $1 AND l.status = 'active'
      AND l.prizes @> jsonb_build_array(jsonb_build_object('prize_id', $2::text))
      AND (c.status = 'active' OR EXISTS (
          SELECT FROM games AS g JOIN game_players AS p USING (tenant_id, game_id)
          WHERE g.tenant_id = $1 AND g.campaign_id = c.campaign_id))
)

-- name: game_is_live
-- Whether game $2 was ever played, its campaign $3 is active, and any game of that campaign was played.
SELECT c.status = 'active' AS campaign_active,
       EXISTS (SELECT FROM game_players AS p WHERE p.tenant_id = $1 AND p.game_id = $2) AS was_played,
       EXISTS (SELECT FROM games AS g JOIN game_players AS p USING (tenant_id, game_id)
               WHERE g.tenant_id = $1 AND g.campaign_id = $3) AS campaign_was_played
FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = $3

-- name: prizes
-- The values of a game's prizes $2, for the person who approves its odds.
SELECT prize_id AS id, name, type, value, currency FROM prizes
WHERE tenant_id = $1 AND prize_id = ANY ($2::text[])
ORDER BY prize_id

-- name: games_of_prize
-- Games of any status whose definition contains the id of prize $2.
SELECT g.game_id AS id, g.name, r.definition
FROM games AS g
JOIN game_revisions AS r USING (tenant_id, game_id, revision)
WHERE g.tenant_id = $1 AND position($2 IN r.definition::text) > 0
ORDER BY g.game_id
