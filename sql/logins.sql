-- Logins, and tokens that end before their time. See runtime/operations/logins.py.

-- name: revoke
-- Ends the tokens of $3 (of kind $2: a login, or a player's of no login), all ($4 false) or those issued until
-- now; $5: how many seconds the last of them may live. What was revoked before stays so.
INSERT INTO revocations AS r (tenant_id, kind, subject, issued_until, kept_until)
VALUES ($1, $2, $3, CASE WHEN $4::boolean THEN now() END, now() + make_interval(secs => $5::float8))
ON CONFLICT (tenant_id, kind, subject) DO UPDATE SET
    issued_until = CASE WHEN r.issued_until IS NOT NULL THEN excluded.issued_until END,
    kept_until = greatest(r.kept_until, excluded.kept_until),
    revoked_at = now();

-- name: settled
-- The time, in microseconds, before which no revocation can appear any more.
SELECT (extract(epoch FROM settled_at()) * 1000000)::bigint;

-- name: revocations
-- What was revoked from $1 (microseconds) on, of every tenant, after the row that $2, $3, $4 name; at most $5.
SELECT tenant_id, kind, subject, unix(issued_until) AS issued_until, unix(kept_until) AS kept_until,
       (extract(epoch FROM revoked_at) * 1000000)::bigint AS revoked_us
FROM revocations
WHERE (revoked_at, tenant_id, kind, subject) > (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2, $3, $4)
  AND kept_until > now()
ORDER BY revoked_at, tenant_id, kind, subject
LIMIT $5;

-- name: purge_revocations
-- Forgets what nobody needs any more.
DELETE FROM revocations WHERE tenant_id = $1 AND kept_until < now();
