-- The audit log. See runtime/operations/audit.py.

-- name: append
-- Appends one entry.
INSERT INTO audit_entries
    (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after, trace_id, merchant_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: list
-- Entries newest first, after entry $12 (null: from the newest). Empty filters match all: $2 subject type, $3 subject
-- id, $4 actor, $6 prefix of the action, $7 from and $8 until (unix seconds, 0: unbounded), $9 a LIKE pattern on the
-- entry's text, $10 and $11 the range of ids for those times. $5 the staff's merchant ('': the tenant): it sees what
-- was done on the merchant's behalf.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM (
    -- OFFSET 0 forces a scan in id order, here and below: the planner cannot estimate the filters.
    SELECT * FROM audit_entries
    WHERE tenant_id = $1 AND entry_id >= $10 AND entry_id < $11 AND entry_id < coalesce($12::text, '~')
    ORDER BY entry_id DESC OFFSET 0
) AS e
WHERE ($2 = '' OR subject_type = $2)
  AND ($3 = '' OR subject_id = $3)
  AND ($4 = '' OR actor = $4)
  AND ($5 = '' OR merchant_id = $5)
  AND starts_with(action, $6)
  AND ($7::bigint = 0 OR created_at >= at_unix($7))
  AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($9 = '%' OR audit_words(actor, action, subject_id, before, after) ILIKE $9)
ORDER BY entry_id DESC
LIMIT $13

-- name: list_of_subject
-- As `list`, of one subject.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM (
    SELECT * FROM audit_entries
    WHERE tenant_id = $1 AND subject_id = $3
      AND entry_id >= $10 AND entry_id < $11 AND entry_id < coalesce($12::text, '~')
    ORDER BY entry_id DESC OFFSET 0
) AS e
WHERE ($2 = '' OR subject_type = $2)
  AND ($4 = '' OR actor = $4)
  AND ($5 = '' OR merchant_id = $5)
  AND starts_with(action, $6)
  AND ($7::bigint = 0 OR created_at >= at_unix($7))
  AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($9 = '%' OR audit_words(actor, action, subject_id, before, after) ILIKE $9)
ORDER BY entry_id DESC
LIMIT $13

-- name: list_of_player
-- As `list`, for player $12 and the player's rewards, deliveries, scores and wallet; after entry $13.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM (
    SELECT * FROM audit_entries
    WHERE tenant_id = $1 AND audit_player(subject_type, subject_id, before, after) = $12
      AND entry_id >= $10 AND entry_id < $11 AND entry_id < coalesce($13::text, '~')
    ORDER BY entry_id DESC OFFSET 0
) AS e
WHERE ($2 = '' OR subject_type = $2)
  AND ($3 = '' OR subject_id = $3)
  AND ($4 = '' OR actor = $4)
  AND ($5 = '' OR merchant_id = $5)
  AND starts_with(action, $6)
  AND ($7::bigint = 0 OR created_at >= at_unix($7))
  AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($9 = '%' OR audit_words(actor, action, subject_id, before, after) ILIKE $9)
ORDER BY entry_id DESC
LIMIT $14

-- name: list_of_actor
-- As `list`, of one actor.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM (
    SELECT * FROM audit_entries
    WHERE tenant_id = $1 AND actor = $4
      AND entry_id >= $10 AND entry_id < $11 AND entry_id < coalesce($12::text, '~')
    ORDER BY entry_id DESC OFFSET 0
) AS e
WHERE ($2 = '' OR subject_type = $2)
  AND ($3 = '' OR subject_id = $3)
  AND ($5 = '' OR merchant_id = $5)
  AND starts_with(action, $6)
  AND ($7::bigint = 0 OR created_at >= at_unix($7))
  AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($9 = '%' OR audit_words(actor, action, subject_id, before, after) ILIKE $9)
ORDER BY entry_id DESC
LIMIT $13

-- name: list_of_type
-- As `list`, of one type of subject.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM (
    SELECT * FROM audit_entries
    WHERE tenant_id = $1 AND subject_type = $2
      AND entry_id >= $10 AND entry_id < $11 AND entry_id < coalesce($12::text, '~')
    ORDER BY entry_id DESC OFFSET 0
) AS e
WHERE ($3 = '' OR subject_id = $3)
  AND ($4 = '' OR actor = $4)
  AND ($5 = '' OR merchant_id = $5)
  AND starts_with(action, $6)
  AND ($7::bigint = 0 OR created_at >= at_unix($7))
  AND ($8::bigint = 0 OR created_at < at_unix($8))
  AND ($9 = '%' OR audit_words(actor, action, subject_id, before, after) ILIKE $9)
ORDER BY entry_id DESC
LIMIT $13
