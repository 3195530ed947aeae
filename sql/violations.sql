-- Violations that the auditor found, and where it is on its ways. See runtime/operations/conservation/.
-- Lock order: the mark, then violations by their keys.

-- name: note
-- Notes what check $2 found of the things $3, as of $4: when that was looked at. $5.. arrays of a place per violation:
-- a new id, thing, row, scope, expected, found, by how much. One that is there is the same one: it is open, or was
-- closed and is as it was then. One that is not found any more is gone, and stays until it is closed; $13: whether
-- all that there is was found, so that this is known. At most $12 of a check are open; what is beyond is found again.
-- Rows: the new ones.
WITH seen AS (
    SELECT * FROM unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
        AS s (violation_id, subject_id, row_id, scope_key, expected, found, deviation)
),
held AS (
    SELECT v.violation_id FROM violations AS v
    WHERE v.tenant_id = $1 AND v.check_name = $2 AND v.subject_id = ANY($3::text[])
    ORDER BY v.violation_id FOR UPDATE
),
known AS (
    UPDATE violations AS v SET
        last_seen_at = greatest(v.last_seen_at, $4), gone_at = NULL, expected = s.expected, found = s.found,
        deviation = s.deviation
    FROM seen AS s
    WHERE v.tenant_id = $1 AND v.subject_id = s.subject_id AND v.row_id = s.row_id
      AND (v.closed_at IS NULL OR (v.gone_at IS NULL AND v.deviation = s.deviation))
      AND v.violation_id IN (SELECT h.violation_id FROM held AS h)
    RETURNING v.subject_id, v.row_id
),
gone AS (
    UPDATE violations AS v SET gone_at = $4
    WHERE v.tenant_id = $1 AND v.gone_at IS NULL AND $13 AND v.last_seen_at < $4
      AND v.violation_id IN (SELECT h.violation_id FROM held AS h)
      AND NOT EXISTS (SELECT FROM seen AS s WHERE s.subject_id = v.subject_id AND s.row_id = v.row_id)
)
INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, row_id, scope_key, expected, found, deviation,
                        first_seen_at, last_seen_at)
SELECT $1, s.violation_id, $2, s.subject_id, s.row_id, s.scope_key, s.expected, s.found, s.deviation, $4, $4
FROM seen AS s
WHERE NOT EXISTS (SELECT FROM known AS k WHERE k.subject_id = s.subject_id AND k.row_id = s.row_id)
ORDER BY s.subject_id, s.row_id
LIMIT greatest(0, $12 - (
    SELECT count(*) FROM violations AS v WHERE v.tenant_id = $1 AND v.check_name = $2 AND v.closed_at IS NULL
))
ON CONFLICT (tenant_id, check_name, subject_id, row_id) WHERE closed_at IS NULL DO NOTHING
RETURNING violation_id, subject_id, row_id, expected, found

-- name: any_there
-- Those of the checks $2 of which a violation is noted of the things $3, and not known to be gone.
SELECT DISTINCT check_name FROM violations
WHERE tenant_id = $1 AND check_name = ANY($2::text[]) AND subject_id = ANY($3::text[]) AND gone_at IS NULL

-- name: tenants
-- Every tenant, or the one of $1 ('': every one), for whoever goes through them one by one.
SELECT tenant_id FROM tenants WHERE $1 = '' OR tenant_id = $1 ORDER BY tenant_id

-- name: open_counts
-- How many violations are open, by check, of every tenant.
SELECT check_name, count(*) AS open FROM violations WHERE closed_at IS NULL GROUP BY check_name

-- name: take
-- Holds way $2 of a tenant for $3 seconds, and says where it is: after which key, and up to when; and up to when all is
-- there to be seen. No row: somebody else is on it, or it rests.
INSERT INTO audit_marks AS a (tenant_id, way, leased_until) VALUES ($1, $2, now() + make_interval(secs => $3))
ON CONFLICT (tenant_id, way) DO UPDATE SET leased_until = excluded.leased_until WHERE a.leased_until <= now()
RETURNING after_key, seen_until, leased_until, settled_at() AS settled_at

-- name: keep
-- The way is done after key $3 and up to $4, and rests, or is held on, for $5 seconds. No row: the lease that was until
-- $6 is over, and somebody else is on it.
UPDATE audit_marks SET after_key = $3, seen_until = $4, leased_until = now() + make_interval(secs => $5)
WHERE tenant_id = $1 AND way = $2 AND leased_until = $6
RETURNING leased_until

-- name: list
-- Violations newest first, after $6. $2 'open', 'closed' or '', $3 the check and $4 the thing ('' = any), $5 the
-- merchant whose staff asks ('' the tenant's own).
SELECT violation_id AS id, check_name AS "check", subject_id, row_id, scope_key, expected, found,
       CASE WHEN closed_at IS NULL THEN 'open' ELSE 'closed' END AS status, unix(first_seen_at) AS first_seen_at,
       unix(last_seen_at) AS last_seen_at, unix(gone_at) AS gone_at, unix(closed_at) AS closed_at, closed_by, reason
FROM violations
WHERE tenant_id = $1 AND ($2 = '' OR (closed_at IS NULL) = ($2 = 'open')) AND ($3 = '' OR check_name = $3)
  AND ($4 = '' OR subject_id = $4)
  AND ($5 = '' OR scope_key = $5 OR scope_key IN (SELECT o FROM campaigns_of($1, $5, false) AS o))
  AND ($6::text IS NULL OR violation_id < $6)
ORDER BY violation_id DESC LIMIT $7

-- name: get
-- One violation. $3 the merchant whose staff asks ('' the tenant's own), $4 whether to write.
-- No row: there is none that may be.
SELECT violation_id AS id, check_name AS "check", subject_id, row_id, scope_key, expected, found,
       CASE WHEN closed_at IS NULL THEN 'open' ELSE 'closed' END AS status, unix(first_seen_at) AS first_seen_at,
       unix(last_seen_at) AS last_seen_at, unix(gone_at) AS gone_at, unix(closed_at) AS closed_at, closed_by, reason
FROM violations
WHERE tenant_id = $1 AND violation_id = $2
  AND ($3 = '' OR scope_key = $3 OR scope_key IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: close
-- Closes a violation for the reason $3, in the name of $4. No row: it is closed, or there is none.
UPDATE violations SET closed_at = now(), reason = $3, closed_by = $4
WHERE tenant_id = $1 AND violation_id = $2 AND closed_at IS NULL
RETURNING violation_id
