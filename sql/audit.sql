-- The audit log. See runtime/operations/audit.py.

-- name: note
-- Appends one entry.
INSERT INTO audit_entries
    (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after, trace_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: list
-- Entries newest first, after entry $5 (null: from the newest). Empty filters match all.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM audit_entries
WHERE tenant_id = $1
  AND ($2 = '' OR subject_type = $2)
  AND ($3 = '' OR subject_id = $3)
  AND ($4 = '' OR actor = $4)
  AND ($5::text IS NULL OR entry_id < $5)
ORDER BY entry_id DESC
LIMIT $6
