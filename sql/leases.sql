-- Leases of background jobs: runtime/stores/leases.py. They belong to no tenant: $1 is ''.

-- name: acquire
-- Takes or renews the leases of jobs $2 for process $3, for $4 seconds. Returns the jobs that it holds; another process
-- holds the others. A lease that ends later than any lease can is free: the clock was set back since.
INSERT INTO job_leases AS l (tenant_id, job, holder_id, leased_until)
SELECT $1, job, $3, now() + make_interval(secs => $4) FROM unnest($2::text[]) AS job ORDER BY job
ON CONFLICT (tenant_id, job) DO UPDATE SET holder_id = excluded.holder_id, leased_until = excluded.leased_until
    WHERE l.holder_id = excluded.holder_id
       OR l.leased_until NOT BETWEEN now() AND now() + 2 * make_interval(secs => $4)
RETURNING job

-- name: release
-- Releases every lease of process $2.
DELETE FROM job_leases WHERE tenant_id = $1 AND holder_id = $2
