-- Archives of the plays of campaigns that are over. See runtime/operations/campaigns/archiving.py. $1 tenant, $2 campaign.

-- name: obstacles
-- The kinds of items that are not settled, and how many. Settled: the campaign ended $3 days ago, its plays are in the log and counted,
-- and no reward, delivery, board or draw is open, nor a discrepancy. Draws: also of other campaigns that will take their
-- tickets from a board of this one, whose scores are computed from its plays. Releases: of its prizes, opened later than now.
-- An open referral may stay: it pays turns, which cannot be played after the end.
-- Staff may set an end in the past: so the end is not before the day of the last play, and the log and the counts must be
-- newer than the last update.
WITH about AS MATERIALIZED (
    SELECT campaign_status(c.status, c.end_date) AS status,
           greatest(CASE WHEN c.end_date <= now() THEN c.end_date ELSE c.updated_at END, (
               SELECT max(d.day)::timestamp AT TIME ZONE c.timezone FROM campaign_days AS d
               WHERE d.tenant_id = $1 AND d.campaign_id = $2)) AS ended_at, c.updated_at, c.redeem_until
    FROM campaigns AS c WHERE c.tenant_id = $1 AND c.campaign_id = $2
)
SELECT 'end' AS what, 1::bigint AS count FROM about
WHERE status <> 'ended' OR greatest(ended_at, redeem_until) > now() - make_interval(days => $3)
UNION ALL
SELECT 'log', 1 FROM about
WHERE NOT EXISTS (SELECT FROM log_trees AS t WHERE t.tenant_id = $1 AND t.logged_until > greatest(ended_at, updated_at))
UNION ALL
SELECT 'figures', 1 FROM about
WHERE NOT EXISTS (
    SELECT FROM campaign_marks AS m JOIN figure_marks AS f ON f.tenant_id = $1
    WHERE m.tenant_id = $1 AND m.campaign_id = $2 AND least(m.counted_until, f.counted_until) > greatest(ended_at, updated_at))
UNION ALL
SELECT CASE WHEN t.status IN ('pending', 'delivering', 'awaiting', 'retry') THEN 'deliveries' ELSE 'rewards' END, count(*)
FROM rewards AS r LEFT JOIN tasks AS t ON t.tenant_id = $1 AND t.reward_id = r.reward_id
WHERE r.tenant_id = $1 AND r.campaign_id = $2 AND r.status IN ('won', 'claimed', 'fulfilling')
  AND reward_status(r.status, r.expires_at, t.task_id IS NOT NULL) <> 'expired'
GROUP BY 1
UNION ALL
SELECT 'leaderboards', count(*) FROM leaderboards AS b
WHERE b.tenant_id = $1 AND b.campaign_id = $2 AND b.status = 'active' HAVING count(*) > 0
UNION ALL
SELECT 'draws', count(*) FROM draws AS d
WHERE d.tenant_id = $1 AND (
    (d.campaign_id = $2 AND d.status NOT IN ('confirmed', 'cancelled'))
    OR (d.status = 'open' AND EXISTS (
        SELECT FROM leaderboards AS b
        WHERE b.tenant_id = $1 AND b.board_id = d.tickets ->> 'ranking' AND b.campaign_id = $2)))
HAVING count(*) > 0
UNION ALL
SELECT 'releases', count(*) FROM prizes AS p
WHERE p.tenant_id = $1 AND p.campaign_id = $2 AND p.release IS NOT NULL AND unix(now()) < coalesce(
    (p.release -> 'terms' ->> 'ends_at')::bigint,
    (SELECT max((o.time ->> 0)::bigint) FROM jsonb_array_elements(p.release -> 'terms' -> 'times') AS o (time)))
HAVING count(*) > 0
UNION ALL
SELECT 'discrepancies', count(*) FROM violations AS v
WHERE v.tenant_id = $1 AND v.scope_key = $2 AND v.closed_at IS NULL AND v.gone_at IS NULL HAVING count(*) > 0

-- name: counted
-- How many plays the counters of the campaign's games have.
SELECT coalesce(sum(c.plays), 0)::bigint FROM games AS g
JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = g.game_id
WHERE g.tenant_id = $1 AND g.campaign_id = $2

-- name: lock_tenant
-- Locks the tenant, so that two archives do not take one number.
SELECT FROM tenants WHERE tenant_id = $1 FOR NO KEY UPDATE

-- name: lock_tenant_if_compared
-- Locks the tenant like a catalogue change, if all plays of the file are compared. No row: they are not, or the archive is
-- confirmed; steps that only compare or delete must not hinder catalogue changes.
SELECT 1 FROM tenants AS t WHERE t.tenant_id = $1 AND EXISTS (
    SELECT FROM play_archives AS a
    WHERE a.tenant_id = $1 AND a.campaign_id = $2 AND a.entry_id = '' AND a.next_leaf > a.last_leaf)
FOR NO KEY UPDATE OF t

-- name: begin
-- Begins to compare the file $3 with the log: $4 plays with digest $5 among leaves $6 to $7. Another file replaces one that
-- is being compared. No row: the campaign has an archive, or this file is being compared. The last leaf is in the log, since
-- leaves of later plays would be deleted without a comparison.
INSERT INTO play_archives AS a (tenant_id, campaign_id, number, file_sha256, plays, digest, first_leaf, last_leaf, next_leaf)
SELECT $1, $2, coalesce(max(o.number), 0) + 1, $3, $4, $5, $6,
       least($7::bigint, (SELECT t.size - 1 FROM log_trees AS t WHERE t.tenant_id = $1)), $6
FROM play_archives AS o WHERE o.tenant_id = $1
ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET
    file_sha256 = excluded.file_sha256, plays = excluded.plays, digest = excluded.digest, counted = 0, compared = '',
    first_leaf = excluded.first_leaf, last_leaf = excluded.last_leaf, next_leaf = excluded.next_leaf, started_at = now()
WHERE a.entry_id = '' AND (a.file_sha256, a.plays, a.digest, a.first_leaf, a.last_leaf)
    <> (excluded.file_sha256, excluded.plays, excluded.digest, excluded.first_leaf, excluded.last_leaf)
RETURNING 1

-- name: get
-- The campaign's archive. No row: none is begun.
SELECT file_sha256, plays, digest, entry_id, counted, finished_at, archive_of($1, $2) AS archive
FROM play_archives WHERE tenant_id = $1 AND campaign_id = $2

-- name: lock
-- Locks the archive for a step. is_logged: a signed checkpoint of the log has its audit entry.
SELECT number, plays, digest, encode(compared, 'hex') AS compared, file_sha256, entry_id, next_leaf, last_leaf, counted,
       finished_at, EXISTS (
           SELECT FROM log_leaves AS l
           WHERE l.tenant_id = $1 AND l.kind = 'audit' AND l.row_id = play_archives.entry_id
             AND l.leaf_index < (SELECT max(c.size) FROM log_checkpoints AS c WHERE c.tenant_id = $1)) AS is_logged
FROM play_archives WHERE tenant_id = $1 AND campaign_id = $2 FOR UPDATE

-- name: games
-- The campaign's games.
SELECT coalesce(array_agg(game_id ORDER BY game_id), '{}') FROM games WHERE tenant_id = $1 AND campaign_id = $2

-- name: compare
-- Adds the plays of games $3 among leaves $4 to before $5 to what was compared. OFFSET 0: a probe for each leaf.
WITH found AS (
    SELECT count(*) AS plays, sha256(string_agg(l.hash, '' ORDER BY l.leaf_index)) AS hash
    FROM log_leaves AS l
    CROSS JOIN LATERAL (
        SELECT FROM plays AS p WHERE p.tenant_id = $1 AND p.play_id = l.row_id AND p.game_id = ANY($3::text[]) OFFSET 0
    ) AS p
    WHERE l.tenant_id = $1 AND l.leaf_index >= $4 AND l.leaf_index < $5 AND l.kind = 'play'
)
UPDATE play_archives AS a SET next_leaf = $5, counted = a.counted + f.plays,
    compared = CASE WHEN f.plays > 0 THEN sha256(a.compared || f.hash) ELSE a.compared END
FROM found AS f WHERE a.tenant_id = $1 AND a.campaign_id = $2

-- name: confirm
-- From now on plays are deleted, under audit entry $3.
UPDATE play_archives SET entry_id = $3, next_leaf = first_leaf, counted = 0, started_at = now()
WHERE tenant_id = $1 AND campaign_id = $2

-- name: discard
-- Deletes an archive whose file differs from the log.
DELETE FROM play_archives WHERE tenant_id = $1 AND campaign_id = $2 AND entry_id = ''

-- name: delete
-- Deletes the plays of games $3 among leaves $4 to before $5. Their leaves name the archive $6 and lose their salts: an
-- erasure could not find them any more. Rows are locked in the order of sql/locks.py.
WITH found AS MATERIALIZED (
    SELECT l.leaf_index, p.play_id FROM log_leaves AS l
    CROSS JOIN LATERAL (
        SELECT o.play_id FROM plays AS o
        WHERE o.tenant_id = $1 AND o.play_id = l.row_id AND o.game_id = ANY($3::text[]) OFFSET 0
    ) AS p
    WHERE l.tenant_id = $1 AND l.leaf_index >= $4 AND l.leaf_index < $5 AND l.kind = 'play'
),
held AS MATERIALIZED (
    SELECT play_id FROM plays WHERE tenant_id = $1 AND play_id = ANY(ARRAY(SELECT play_id FROM found))
    ORDER BY play_id FOR UPDATE
),
leaves AS MATERIALIZED (
    SELECT leaf_index FROM log_leaves
    WHERE tenant_id = $1 AND leaf_index = ANY(ARRAY(
        SELECT f.leaf_index FROM found AS f JOIN held AS h ON h.play_id = f.play_id))
    ORDER BY leaf_index FOR NO KEY UPDATE
),
gone AS (
    DELETE FROM plays WHERE tenant_id = $1 AND play_id = ANY(ARRAY(SELECT play_id FROM held)) RETURNING 1
),
marked AS (
    UPDATE log_leaves SET archive = $6, salt = NULL
    WHERE tenant_id = $1 AND leaf_index = ANY(ARRAY(SELECT leaf_index FROM leaves)) RETURNING 1
)
UPDATE play_archives SET next_leaf = $5, counted = counted + (SELECT count(*) FROM gone),
    finished_at = CASE WHEN $5 > last_leaf THEN now() END
WHERE tenant_id = $1 AND campaign_id = $2 AND (SELECT count(*) FROM marked) >= 0

-- name: of_play
-- The archive that has play $2, for staff of merchant $3 ('': the tenant's), or for player $4 ('': staff) if the player
-- has a count of its campaign, also as a guest merged since: the play's own player is no longer known. No row: none.
SELECT a.campaign_id, a.file_sha256 FROM log_leaves AS l
JOIN play_archives AS a ON a.tenant_id = $1 AND a.number = l.archive
WHERE l.tenant_id = $1 AND l.kind = 'play' AND l.row_id = $2
  AND ($3 = '' OR a.campaign_id IN (SELECT o FROM campaigns_of($1, $3, false) AS o))
  AND ($4 = '' OR EXISTS (
      SELECT FROM games AS g JOIN game_players AS c ON c.tenant_id = $1 AND c.game_id = g.game_id
      WHERE g.tenant_id = $1 AND g.campaign_id = a.campaign_id AND c.player_id = ANY(ARRAY(
          SELECT $4::text UNION ALL
          SELECT p.player_id::text FROM players AS p WHERE p.tenant_id = $1 AND p.merged_into = $4))))
