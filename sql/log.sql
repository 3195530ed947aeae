-- The Merkle log of a tenant: append-only hashes of its rows. See runtime/operations/log/ and runtime/rules/log/.

-- name: create_tree
-- Creates the empty log of tenant $1.
INSERT INTO log_trees (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: grown
-- The tenants whose log needs a pass: rows since its watermark, no mark for half an hour, a pass that died, or no log yet.
-- A reward of a play comes with the play, and an adjustment with its audit entry. OFFSET 0 as in `append_rows`.
WITH audited AS MATERIALIZED (
    SELECT tenant_id, max(created_at) AS at, (array_agg(entry_id ORDER BY created_at DESC))[1] AS entry_id
    FROM audit_entries WHERE created_at >= now() - interval '31 minutes' GROUP BY tenant_id
)
SELECT n.tenant_id FROM tenants AS n
LEFT JOIN log_trees AS t USING (tenant_id)
LEFT JOIN audited AS a USING (tenant_id)
CROSS JOIN LATERAL (SELECT t.read_from AS since) AS s
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

-- name: probe_indexes
-- Until the transaction ends. A plan from when the log was short would read all leaves for each row of `append_rows`.
SET LOCAL enable_seqscan = off

-- name: append_rows
-- Appends the rows from where the last pass ended to before $2 that have no leaf, at most $3 of each kind, the oldest first,
-- as leaves from index $4 on. hashes: those of the leaves. full_from: a kind may have more rows from that time on. The
-- rewards of a play come with it: its outcome names them, so plays write no index of rewards by time. Only a row that is
-- not newer than all leaves may have one. Salts are hashes under a secret that only this statement has. OFFSET 0: a probe
-- of the index for each row, not a join with all leaves. The plays of a batch have few terms, so each is
-- looked up once: a lookup for each play was a sixth of the CPU.
WITH mark AS MATERIALIZED (
    SELECT least(read_from, $2::timestamptz - interval '2 seconds') AS since, newest,
           uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) AS secret
    FROM log_trees WHERE tenant_id = $1
),
played AS MATERIALIZED (
    SELECT p.play_id, p.played_at, p.game_id, promised_by(p.session_id) AS promised, p.outcome::text AS outcome, s.salt, h.sent,
           log_head(p) AS head, log_tail(p, h.sent) AS tail
    FROM plays AS p
    CROSS JOIN LATERAL (SELECT CASE WHEN has_sent(p.client_seed, p.payload) THEN log_salt((SELECT secret FROM mark), p.play_id) END AS salt OFFSET 0) AS s
    CROSS JOIN LATERAL (SELECT CASE WHEN s.salt IS NOT NULL THEN hash_sent(p.client_seed, p.payload, s.salt) END AS sent OFFSET 0) AS h
    WHERE p.tenant_id = $1 AND p.played_at >= (SELECT since FROM mark) AND p.played_at < $2 AND (
        p.played_at > (SELECT newest FROM mark) OR NOT EXISTS (
            SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'play' AND l.row_id = p.play_id OFFSET 0))
    ORDER BY p.played_at LIMIT $3
),
promises AS MATERIALIZED (
    SELECT k.game_id, k.promised, (
        SELECT min(t.revision_hash) FROM promised_terms AS t
        WHERE t.tenant_id = $1 AND t.game_id = k.game_id AND t.revision_hash BETWEEN k.promised AND k.promised || 'g'
    ) AS revision_hash
    FROM (SELECT DISTINCT game_id, promised FROM played) AS k
),
won AS MATERIALIZED (
    SELECT play_id, unnest((string_to_array(outcome, '"reward_id":"'))[2:]) AS rest FROM played
),
leaves AS MATERIALIZED (
    SELECT part, kind, row_id, at, sent, salt, hash, $4 + row_number() OVER () - 1 AS leaf_index
    FROM (
        (SELECT 'terms' AS part, 'terms' AS kind, t.revision_hash AS row_id, t.created_at AS at, NULL::bytea AS sent, NULL::bytea AS salt, log_leaf_hash(log_text(t)) AS hash
         FROM promised_terms AS t
         WHERE t.tenant_id = $1 AND t.created_at >= (SELECT since FROM mark) AND t.created_at < $2 AND (
             t.created_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'terms' AND l.row_id = t.revision_hash OFFSET 0))
         ORDER BY t.created_at LIMIT $3)
        UNION ALL
        SELECT 'play', 'play', p.play_id, p.played_at, p.sent, p.salt, log_leaf_hash(concat(p.head, o.revision_hash, p.tail))
        FROM played AS p LEFT JOIN promises AS o ON o.game_id = p.game_id AND o.promised = p.promised
        UNION ALL
        (SELECT 'won', 'reward', r.reward_id, r.won_at, NULL, NULL, log_leaf_hash(log_text(r))
         FROM won AS w JOIN rewards AS r ON r.tenant_id = $1 AND r.reward_id = left(w.rest, strpos(w.rest, '"') - 1)
         WHERE r.play_id = w.play_id AND (
             r.won_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'reward' AND l.row_id = r.reward_id OFFSET 0)))
        UNION ALL
        (SELECT 'reward', 'reward', r.reward_id, r.won_at, NULL, NULL, log_leaf_hash(log_text(r))
         FROM rewards AS r
         WHERE r.tenant_id = $1 AND r.won_at >= (SELECT since FROM mark) AND r.won_at < $2 AND r.play_id = '' AND (
             r.won_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'reward' AND l.row_id = r.reward_id OFFSET 0))
         ORDER BY r.won_at LIMIT $3)
        UNION ALL
        (SELECT 'draw', 'draw', d.draw_id, d.drawn_at, NULL, NULL, log_leaf_hash(log_text(d))
         FROM draws AS d
         WHERE d.tenant_id = $1 AND d.drawn_at >= (SELECT since FROM mark) AND d.drawn_at < $2 AND (
             d.drawn_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'draw' AND l.row_id = d.draw_id OFFSET 0))
         ORDER BY d.drawn_at LIMIT $3)
        UNION ALL
        (SELECT 'adjustment', 'adjustment', e.entry_id, e.created_at, NULL, NULL, log_leaf_hash(log_text(e))
         FROM ledger_entries AS e
         WHERE e.tenant_id = $1 AND e.created_at >= (SELECT since FROM mark) AND e.created_at < $2 AND e.reason = 'adjustment' AND (
             e.created_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'adjustment' AND l.row_id = e.entry_id OFFSET 0))
         ORDER BY e.created_at LIMIT $3)
        UNION ALL
        (SELECT 'audit', 'audit', a.entry_id, a.created_at, hash_actor(a.actor, s.salt), s.salt, log_leaf_hash(log_text(a, s.salt))
         FROM audit_entries AS a
         CROSS JOIN LATERAL (SELECT log_salt((SELECT secret FROM mark), a.entry_id) AS salt OFFSET 0) AS s
         WHERE a.tenant_id = $1 AND a.created_at >= (SELECT since FROM mark) AND a.created_at < $2 AND (
             a.created_at > (SELECT newest FROM mark) OR NOT EXISTS (
                 SELECT FROM log_leaves AS l WHERE l.tenant_id = $1 AND l.kind = 'audit' AND l.row_id = a.entry_id OFFSET 0))
         ORDER BY a.created_at LIMIT $3)
    ) AS found
),
appended AS (
    INSERT INTO log_leaves (tenant_id, leaf_index, kind, row_id, hash, sent, salt)
    SELECT $1, leaf_index, kind, row_id, hash, sent, salt FROM leaves
)
SELECT coalesce(string_agg(hash, '' ORDER BY leaf_index), '') AS hashes, max(at) AS newest, (
    SELECT min(k.at) FROM (SELECT max(at) AS at FROM leaves WHERE part <> 'won' GROUP BY part HAVING count(*) >= $3) AS k
) AS full_from
FROM leaves

-- name: backdated
-- The rows $2 (kind and id) that have no leaf, with their hashes.
WITH salted AS MATERIALIZED (
    SELECT split_part(k.id, ' ', 1) AS kind, split_part(k.id, ' ', 2) AS row_id, p.client_seed, p.payload,
           CASE WHEN has_sent(p.client_seed, p.payload) OR a.actor IS NOT NULL THEN uuid_send(gen_random_uuid()) END AS salt, a.actor
    FROM unnest($2::text[]) AS k (id)
    LEFT JOIN plays AS p ON p.tenant_id = $1 AND starts_with(k.id, 'play ') AND p.play_id = substr(k.id, 6)
    LEFT JOIN audit_entries AS a ON a.tenant_id = $1 AND starts_with(k.id, 'audit ') AND a.entry_id = substr(k.id, 7)
)
SELECT s.kind, s.row_id, log_leaf_hash(log_entry(ROW($1, 0, s.kind, s.row_id, '', NULL, s.salt, NULL)::log_leaves)) AS hash,
       coalesce(hash_actor(s.actor, s.salt), hash_sent(s.client_seed, s.payload, s.salt)) AS sent, s.salt
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
-- Stores the size $2 and the frontier $3 of the tree, and that every row from before $4 is in it. The next pass begins there,
-- or 2 seconds before $5, the time that no new row could precede: for transactions that were just starting. $6: the time of
-- the newest row that was appended.
UPDATE log_trees SET size = $2, frontier = $3, logged_until = $4, newest = greatest(newest, $6),
       read_from = least($4, $5::timestamptz - interval '2 seconds')
WHERE tenant_id = $1

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
-- The leaves from $2 to before $3 with their entries as the rows are now. entry NULL: the row is missing; archive: the
-- audit entry of the archive that has it.
SELECT l.kind, l.row_id, log_entry(l) AS entry, a.entry_id AS archive FROM log_leaves AS l
LEFT JOIN play_archives AS a ON a.tenant_id = $1 AND a.number = l.archive
WHERE l.tenant_id = $1 AND l.leaf_index >= $2 AND l.leaf_index < $3 ORDER BY l.leaf_index

-- name: leaf_of
-- The place of row $3 of kind $2 in the log, with its entry. No row: it is not in the log.
SELECT leaf_index, log_entry(l) AS entry, encode(salt, 'hex') AS salt FROM log_leaves AS l
WHERE tenant_id = $1 AND kind = $2 AND row_id = $3
