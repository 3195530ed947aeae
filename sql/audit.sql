-- The audit log. See runtime/operations/audit.py.

-- name: note
-- Appends one entry.
INSERT INTO audit_entries
    (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after, trace_id, merchant_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: list
-- Entries newest first, after entry $6 (null: from the newest). Empty filters match all.
-- $5 the merchant whose staff asks ('' the tenant's own): it sees what was done in the merchant's name.
SELECT entry_id AS id, actor, action, subject_type, subject_id, before, after, trace_id, unix(created_at) AS created_at
FROM audit_entries
WHERE tenant_id = $1
  AND ($2 = '' OR subject_type = $2)
  AND ($3 = '' OR subject_id = $3)
  AND ($4 = '' OR actor = $4)
  AND ($5 = '' OR merchant_id = $5)
  AND ($6::text IS NULL OR entry_id < $6)
ORDER BY entry_id DESC
LIMIT $7
