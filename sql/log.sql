-- The Merkle log of a tenant: append-only hashes of its rows. See runtime/operations/log/ and runtime/rules/log/.

-- name: create_tree
-- Creates the empty log of tenant $1.
INSERT INTO log_trees (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: grown
-- The tenants whose log needs a pass: rows since its watermark, no mark for half an hour, a pass that died, or no log yet.
-- A reward of a play comes with the play, and an adjustment with its audit entry. Begins 2 seconds early, and has OFFSET 0, as `unlogged`.
WITH audited AS MATERIALIZED (
    SELECT tenant_id, max(created_at) AS at, (array_agg(entry_id ORDER BY created_at DESC))[1] AS entry_id
    FROM audit_entries WHERE created_at >= now() - interval '31 minutes' GROUP BY tenant_id
)
SELECT n.tenant_id FROM tenants AS n
LEFT JOIN log_trees AS t USING (tenant_id)
LEFT JOIN audited AS a USING (tenant_id)
CROSS JOIN LATERAL (SELECT t.logged_until - interval '2 seconds' AS since) AS s
WHERE t.tenant_id IS NULL OR t.logged_until < now() - interval '30 minutes'
   OR t.size IS DISTINCT FROM (SELECT max(c.size) FROM log_checkpoints AS c WHERE c.tenant_id = n.tenant_id)
   OR (a.at >= s.since AND NOT EXISTS (
       SELECT FROM log_leaves AS l WHERE l.tenant_id = n.tenant_id AND l.kind = 'audit' AND l.row_id = a.entry_id OFFSET 0))
   OR EXISTS (
       SELECT FROM plays AS o WHERE o.tenant_id = n.tenant_id AND o.played_at >= s.since AND NOT EXISTS (
           SELECT FROM log_leaves AS l WHERE l.tenant_id = n.tenant_id AND l.kind = 'play' AND l.row_id = o.play_id OFFSET 0))
   OR EXISTS (
       SELECT FROM promised_terms AS o WHERE o.tenant_id = n.tenant_id AND o.created_at >= s.since AND NOT EXISTS (
           SELECT FROM log_leaves AS l WHERE l.tenant_id = n.tenant_id AND l.kind = 'terms' AND l.row_id = o.revision_hash OFFSET 0))
   OR EXISTS (
       SELECT FROM rewards AS o WHERE o.tenant_id = n.tenant_id AND o.play_id = '' AND o.won_at >= s.since AND NOT EXISTS (
           SELECT FROM log_leaves AS l WHERE l.tenant_id = n.tenant_id AND l.kind = 'reward' AND l.row_id = o.reward_id OFFSET 0))
   OR EXISTS (
       SELECT FROM draws AS o WHERE o.tenant_id = n.tenant_id AND o.drawn_at >= s.since AND NOT EXISTS (
           SELECT FROM log_leaves AS l WHERE l.tenant_id = n.tenant_id AND l.kind = 'draw' AND l.row_id = o.draw_id OFFSET 0))
ORDER BY n.tenant_id

-- name: lock_tree
-- Locks the log until the transaction ends. since: the watermark, at first the tenant's creation. checkpoint: the size of
-- the newest one. is_idle: the last mark is older than half an hour. No row: another process appends.
SELECT t.size, t.frontier, greatest(t.logged_until, n.created_at) AS since,
       coalesce((SELECT max(c.size) FROM log_checkpoints AS c WHERE c.tenant_id = $1), 0) AS checkpoint,
       coalesce((SELECT split_part(l.row_id, ' ', 1)::bigint FROM log_leaves AS l
                 WHERE l.tenant_id = $1 AND l.kind = 'mark' ORDER BY l.leaf_index DESC LIMIT 1), 0)
           < unix_micro(now() - interval '30 minutes') AS is_idle
FROM log_trees AS t JOIN tenants AS n USING (tenant_id) WHERE t.tenant_id = $1 FOR UPDATE OF t SKIP LOCKED

-- name: unlogged
-- The rows from the log's watermark to before $2 that have no leaf, at most $3 of each kind, the oldest first. The salt is
-- fresh. Begins 2 seconds early, for transactions that were just starting when the watermark was read, and before $2 if
-- the clock went back. OFFSET 0: a probe of the index for each row; the planner might read all leaves instead.
WITH mark AS MATERIALIZED (
    SELECT least(logged_until, $2::timestamptz) - interval '2 seconds' AS since FROM log_trees WHERE tenant_id = $1
),
found AS MATERIALIZED (
    (SELECT 'terms' AS kind, t.revision_hash AS row_id, t.created_at AS at, log_facts(t) AS facts, NULL::plays AS play, NULL AS actor, false AS sends
     FROM promised_terms AS t
     WHERE t.tenant_id = $1 AND t.created_at >= (SELECT since FROM mark) AND t.created_at < $2 AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'terms' AND l.row_id = t.revision_hash OFFSET 0)
     ORDER BY t.created_at, t.revision_hash LIMIT $3)
    UNION ALL
    (SELECT 'play', p.play_id, p.played_at, log_facts(p), p, NULL, has_sent(p)
     FROM plays AS p
     WHERE p.tenant_id = $1 AND p.played_at >= (SELECT since FROM mark) AND p.played_at < $2 AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'play' AND l.row_id = p.play_id OFFSET 0)
     ORDER BY p.played_at, p.play_id LIMIT $3)
    UNION ALL
    (SELECT 'reward', r.reward_id, r.won_at, log_facts(r), NULL, NULL, false
     FROM rewards AS r
     WHERE r.tenant_id = $1 AND r.won_at >= (SELECT since FROM mark) AND r.won_at < $2 AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'reward' AND l.row_id = r.reward_id OFFSET 0)
     ORDER BY r.won_at, r.reward_id LIMIT $3)
    UNION ALL
    (SELECT 'draw', d.draw_id, d.drawn_at, log_facts(d), NULL, NULL, false
     FROM draws AS d
     WHERE d.tenant_id = $1 AND d.drawn_at >= (SELECT since FROM mark) AND d.drawn_at < $2 AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'draw' AND l.row_id = d.draw_id OFFSET 0)
     ORDER BY d.drawn_at, d.draw_id LIMIT $3)
    UNION ALL
    (SELECT 'adjustment', e.entry_id, e.created_at, log_facts(e), NULL, NULL, false
     FROM ledger_entries AS e
     WHERE e.tenant_id = $1 AND e.created_at >= (SELECT since FROM mark) AND e.created_at < $2 AND e.reason = 'adjustment' AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'adjustment' AND l.row_id = e.entry_id OFFSET 0)
     ORDER BY e.created_at, e.entry_id LIMIT $3)
    UNION ALL
    (SELECT 'audit', a.entry_id, a.created_at, log_facts(a), NULL, a.actor, true
     FROM audit_entries AS a
     WHERE a.tenant_id = $1 AND a.created_at >= (SELECT since FROM mark) AND a.created_at < $2 AND NOT EXISTS (
         SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'audit' AND l.row_id = a.entry_id OFFSET 0)
     ORDER BY a.created_at, a.entry_id LIMIT $3)
),
salted AS MATERIALIZED (
    SELECT f.*, CASE WHEN f.sends THEN uuid_send(gen_random_uuid()) END AS salt FROM found AS f
),
sent AS (
    SELECT s.*, CASE WHEN s.kind = 'audit' THEN hash_actor(s.actor, s.salt) ELSE hash_sent(s.play, s.salt) END AS sent
    FROM salted AS s
)
SELECT s.kind, s.row_id, s.at, s.sent, s.salt, log_leaf_hash(log_entry(s.facts || CASE WHEN s.sent IS NULL THEN '{}'
    ELSE jsonb_build_object(CASE WHEN s.kind = 'audit' THEN 'actor' ELSE 'sent' END, encode(s.sent, 'hex')) END)) AS hash
FROM sent AS s ORDER BY s.at, s.kind, s.row_id

-- name: backdated
-- The rows $2 (kind and id), as `unlogged`.
WITH salted AS MATERIALIZED (
    SELECT split_part(k.id, ' ', 1) AS kind, split_part(k.id, ' ', 2) AS row_id, p AS play,
           CASE WHEN has_sent(p) OR a.actor IS NOT NULL THEN uuid_send(gen_random_uuid()) END AS salt, a.actor
    FROM unnest($2::text[]) AS k (id)
    LEFT JOIN plays AS p ON p.tenant_id = $1 AND starts_with(k.id, 'play ') AND p.play_id = substr(k.id, 6)
    LEFT JOIN audit_entries AS a ON a.tenant_id = $1 AND starts_with(k.id, 'audit ') AND a.entry_id = substr(k.id, 7)
)
SELECT s.kind, s.row_id, coalesce(hash_actor(s.actor, s.salt), hash_sent(s.play, s.salt)) AS sent, s.salt,
       log_leaf_hash(log_entry(ROW($1, 0, s.kind, s.row_id, '', NULL, s.salt)::log_leaves)) AS hash
FROM salted AS s
WHERE NOT EXISTS (
    SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = s.kind AND l.row_id = s.row_id)

-- name: append_leaves
-- Appends leaves: $2 indexes, $3 kinds, $4 rows, $5 hashes, $6 what was sent, $7 the salts.
INSERT INTO log_leaves (tenant_id, leaf_index, kind, row_id, hash, sent, salt)
SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[])

-- name: append_nodes
-- Appends the subtrees that the leaves complete: $2 levels, $3 numbers, $4 hashes.
INSERT INTO log_nodes (tenant_id, level, number, hash)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bytea[])

-- name: grow
-- Stores the size $2 and the frontier $3 of the tree, and that every row from before $4 is in it.
UPDATE log_trees SET size = $2, frontier = $3, logged_until = $4 WHERE tenant_id = $1

-- name: add_checkpoint
-- Stores the signed note $3 of the tree of size $2, and returns it for its event.
INSERT INTO log_checkpoints (tenant_id, size, note) VALUES ($1, $2, $3) RETURNING made_at AS at, size, note

-- name: status
-- The size of the log, its newest checkpoint, and its newest stamp. No row: there is no log.
SELECT t.size, coalesce(c.size, 0) AS checkpoint_size, unix(c.made_at) AS checkpoint_at, coalesce(c.note, '') AS note,
       coalesce(s.size, 0) AS stamp_size, unix(s.stamped_at) AS stamp_at
FROM log_trees AS t
LEFT JOIN LATERAL (
    SELECT size, made_at, note FROM log_checkpoints WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1
) AS c ON true
LEFT JOIN LATERAL (
    SELECT size, stamped_at FROM log_stamps WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1
) AS s ON true
WHERE t.tenant_id = $1

-- name: unstamped
-- The newest checkpoint, to be stamped. No row: it is stamped, or another one was within $2 seconds.
SELECT c.size, c.note FROM (
    SELECT size, note FROM log_checkpoints WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1
) AS c
LEFT JOIN LATERAL (
    SELECT size, made_at FROM log_stamps WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1
) AS s ON true
WHERE s.size IS NULL OR (s.size < c.size AND s.made_at <= now() - $2 * interval '1 second')

-- name: add_stamp
-- Stores the stamp $3, of the time $4, of the checkpoint of size $2. Nothing if it has one.
INSERT INTO log_stamps (tenant_id, size, stamp, stamped_at) VALUES ($1, $2, $3, to_timestamp($4))
ON CONFLICT (tenant_id, size) DO NOTHING

-- name: newest_stamp
-- The newest stamped checkpoint, with its stamp. No row: there is none.
SELECT c.note, s.stamp FROM log_stamps AS s JOIN log_checkpoints AS c USING (tenant_id, size)
WHERE s.tenant_id = $1 ORDER BY s.size DESC LIMIT 1

-- name: newest
-- The newest signed checkpoint. No row: there is none.
SELECT note FROM log_checkpoints WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1

-- name: tile
-- Hashes $3 to before $4 of level $2 (0, 8, 16 ...).
SELECT log_hashes($1, $2, $3, $4)

-- name: entries
-- The leaves from $2 to before $3 with their entries as the rows are now. entry NULL: the row is missing.
SELECT l.kind, l.row_id, log_entry(l) AS entry FROM log_leaves AS l
WHERE l.tenant_id = $1 AND l.leaf_index >= $2 AND l.leaf_index < $3 ORDER BY l.leaf_index

-- name: leaf_of
-- The place of row $3 of kind $2 in the log, with its entry. No row: it is not in the log.
SELECT leaf_index, log_entry(l) AS entry, encode(salt, 'hex') AS salt FROM log_leaves AS l
WHERE tenant_id = $1 AND kind = $2 AND row_id = $3
