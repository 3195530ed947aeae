-- The auditor's findings and the progress of its passes. See runtime/operations/conservation/.
-- Lock order: the mark, then violations by their keys.

-- name: record
-- Records what check $2 found in the subjects $3, as of $4, the time of the check. $5.. arrays with a position per finding:
-- new id, subject, row, scope, expected, found, deviation. An existing finding is updated if it is open, or if it is
-- closed, was always found since, and deviates as before. A finding no longer found gets gone_at and stays open; $13:
-- whether the check was complete, so that this is known. At most $12 findings of a check are open; others are found again
-- later. Returns the new ones, with the campaign and the merchant of their scopes.
WITH seen AS (
    SELECT * FROM unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
        AS s (violation_id, subject_id, row_id, scope_key, expected, found, deviation)
),
locked AS (
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
      AND v.violation_id IN (SELECT h.violation_id FROM locked AS h)
    RETURNING v.subject_id, v.row_id
),
vanished AS (
    UPDATE violations AS v SET gone_at = $4
    WHERE v.tenant_id = $1 AND v.gone_at IS NULL AND $13 AND v.last_seen_at < $4
      AND v.violation_id IN (SELECT h.violation_id FROM locked AS h)
      AND NOT EXISTS (SELECT FROM seen AS s WHERE s.subject_id = v.subject_id AND s.row_id = v.row_id)
),
opened AS (
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
    RETURNING *
)
SELECT v.violation_id AS id, v.subject_id, v.row_id, v.check_name AS "check", v.scope_key, v.expected, v.found,
       v.opened_at AS at, coalesce(c.campaign_id, '') AS campaign_id,
       coalesce(c.merchant_id, o.merchant_id, '') AS merchant_id
FROM opened AS v
LEFT JOIN campaigns AS c ON c.tenant_id = $1 AND c.campaign_id = v.scope_key
LEFT JOIN merchants AS o ON o.tenant_id = $1 AND o.merchant_id = v.scope_key
ORDER BY v.subject_id, v.row_id

-- name: still_violated
-- The checks in $2 that have a finding on the subjects $3 which is not known to be gone.
SELECT DISTINCT check_name FROM violations
WHERE tenant_id = $1 AND check_name = ANY($2::text[]) AND subject_id = ANY($3::text[]) AND gone_at IS NULL

-- name: tenants
-- All tenants, or tenant $1 only ('': all).
SELECT tenant_id FROM tenants WHERE $1 = '' OR tenant_id = $1 ORDER BY tenant_id

-- name: open_counts
-- The number of open findings by check, across all tenants.
SELECT check_name, count(*) AS open FROM violations WHERE closed_at IS NULL GROUP BY check_name

-- name: exceeding
-- The tenant's checks with $2 open findings, the most that are recorded, or with open findings other than $3.
SELECT check_name FROM violations WHERE tenant_id = $1 AND closed_at IS NULL
GROUP BY check_name HAVING count(*) >= $2 OR bool_or(violation_id <> ALL($3::text[]))

-- name: lease
-- Leases pass $2 of a tenant for $3 seconds and returns its position (after_key, seen_until) and the watermark
-- settled_at. After a correction of the clock, a lease or a time from the future does not count. No row: another process
-- has it, or the pass is resting.
INSERT INTO audit_marks AS a (tenant_id, way, leased_until) VALUES ($1, $2, now() + make_interval(secs => $3))
ON CONFLICT (tenant_id, way) DO UPDATE SET leased_until = excluded.leased_until
    WHERE a.leased_until <= now() OR a.leased_until > now() + interval '1 hour'
RETURNING after_key, least(seen_until, now()) AS seen_until, leased_until, settled_at() AS settled_at

-- name: advance
-- Records that pass $2 has reached key $3 and time $4, and rests or extends its lease by $5 seconds. No row: the lease
-- until $6 has expired and another process has the pass.
UPDATE audit_marks SET after_key = $3, seen_until = $4, leased_until = now() + make_interval(secs => $5)
WHERE tenant_id = $1 AND way = $2 AND leased_until = $6
RETURNING leased_until

-- name: list
-- Findings newest first, after $6. $2 'open', 'closed' or '', $3 the check and $4 the subject ('' = any), $5 the
-- staff's merchant ('': the tenant).
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
-- One finding. $3 the staff's merchant ('': the tenant), $4 whether to write. No row: not found or not permitted.
SELECT violation_id AS id, check_name AS "check", subject_id, row_id, scope_key, expected, found,
       CASE WHEN closed_at IS NULL THEN 'open' ELSE 'closed' END AS status, unix(first_seen_at) AS first_seen_at,
       unix(last_seen_at) AS last_seen_at, unix(gone_at) AS gone_at, unix(closed_at) AS closed_at, closed_by, reason
FROM violations
WHERE tenant_id = $1 AND violation_id = $2
  AND ($3 = '' OR scope_key = $3 OR scope_key IN (SELECT o FROM campaigns_of($1, $3, $4) AS o))

-- name: close
-- Closes a finding for reason $3, by $4. No row: already closed, or not found.
UPDATE violations SET closed_at = now(), reason = $3, closed_by = $4
WHERE tenant_id = $1 AND violation_id = $2 AND closed_at IS NULL
RETURNING violation_id
