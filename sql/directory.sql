-- The directory of tenants: runtime/stores/databases.py. Only home has rows.

-- name: changes
-- Places of tenants that changed after $1, and those of the $2 seconds before: a row is visible only after its commit.
-- paused: until the pause is ended. expired: it has lasted its time, and a process has to end it (`end_pause`).
SELECT tenant_id, database, changed_at, paused_until IS NOT NULL AS paused,
       coalesce(paused_until <= now(), false) AS expired
FROM tenant_databases
WHERE changed_at > $1::timestamptz - make_interval(secs => $2) ORDER BY changed_at;

-- name: place
-- Places tenant $1 in database $2.
INSERT INTO tenant_databases (tenant_id, database) VALUES ($1, $2)
ON CONFLICT (tenant_id) DO UPDATE SET database = excluded.database, changed_at = clock_timestamp();

-- name: lock_creation
-- Marks tenant $1 as being created until the transaction ends. False: another transaction is creating it.
SELECT pg_try_advisory_xact_lock(hashtextextended('tombola create ' || $1, 0));

-- name: counts
-- How many tenants live in each database of the directory.
SELECT database, count(*) AS tenants FROM tenant_databases GROUP BY database ORDER BY database;

-- name: acknowledge
-- Process $2 has read the directory's changes until $3.
UPDATE processes SET directory_at = $3 WHERE tenant_id = $1 AND process_id = $2;

-- name: behind
-- Live processes (seen within $2 seconds) that have not read the change at $3.
SELECT process FROM processes
WHERE tenant_id = $1 AND seen_at > now() - make_interval(secs => $2) AND coalesce(directory_at < $3, true);

-- name: is_read
-- Whether no process is behind, as above.
SELECT count(*) = 0 FROM processes
WHERE tenant_id = $1 AND seen_at > now() - make_interval(secs => $2) AND coalesce(directory_at < $3, true);

-- name: get
-- The place of a tenant. No row: home.
SELECT database, moving_to, moved_from FROM tenant_databases WHERE tenant_id = $1;

-- name: begin_move
-- Records that tenant $1 in database $2 is being moved to $3. No row: it does not live there, or is being moved.
INSERT INTO tenant_databases AS d (tenant_id, database, moving_to) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id) DO UPDATE SET moving_to = excluded.moving_to
    WHERE d.database = excluded.database AND d.moving_to IN ('', excluded.moving_to) AND d.moved_from = ''
RETURNING tenant_id;

-- name: pause
-- Pauses the tenant for $2 seconds. Returns the time of the change.
UPDATE tenant_databases SET paused_until = now() + make_interval(secs => $2), changed_at = clock_timestamp()
WHERE tenant_id = $1 AND moving_to <> '' RETURNING changed_at;

-- name: end_pause
-- Ends a pause that has lasted its time: the tenant stays in its database, and `switch` is refused. No row: switched.
UPDATE tenant_databases SET paused_until = NULL, changed_at = clock_timestamp()
WHERE tenant_id = $1 AND paused_until <= now();

-- name: switch
-- Ends the pause in the new database. No row: the pause has ended, or the move was given up.
UPDATE tenant_databases SET database = moving_to, moved_from = database, moving_to = '', paused_until = NULL,
    changed_at = clock_timestamp()
WHERE tenant_id = $1 AND moving_to <> '' AND paused_until IS NOT NULL RETURNING changed_at;

-- name: give_up
-- Ends a move before its switch: the tenant stays where it is. No row: nothing to give up.
UPDATE tenant_databases SET moving_to = '', paused_until = NULL, changed_at = clock_timestamp()
WHERE tenant_id = $1 AND moving_to <> '' RETURNING tenant_id;

-- name: finish
-- The old rows of the tenant are removed.
UPDATE tenant_databases SET moved_from = '' WHERE tenant_id = $1;
