-- Moving a tenant to another database: runtime/stores/moving.py. Publications, subscriptions and table names cannot be
-- parameters, so some statements return the statement to execute. $1: the name of the publication, the subscription and
-- the slot; tenant: the tenant's id; tables: the tables of tenants (sql/tables.py).

-- name: lock
-- One move of a tenant at a time: a lock of this session. False: another one runs.
SELECT pg_try_advisory_lock(hashtextextended('tombola move ' || $1, 0));

-- name: can_move
-- What the source needs.
SELECT current_setting('wal_level') AS wal_level,
       has_parameter_privilege(current_user, 'session_replication_role', 'SET') AS can_replace;

-- name: create_publication
-- Of the rows of tenant $2 in tables $3.
SELECT format('CREATE PUBLICATION %I FOR TABLE %s', $1::text,
              string_agg(format('%I WHERE (tenant_id = %L)', name, $2::text), ', '))
FROM unnest($3::text[]) AS name;

-- name: drop_publication
-- The statement to drop it, if there is one.
SELECT format('DROP PUBLICATION IF EXISTS %I', $1::text);

-- name: create_slot
-- Its start is the snapshot of the transaction of this replication connection.
SELECT format('CREATE_REPLICATION_SLOT %I LOGICAL pgoutput (SNAPSHOT ''use'')', $1::text);

-- name: columns
-- The columns of table $1.
SELECT attname AS name FROM pg_attribute
WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum;

-- name: read
-- The columns $2 of the rows of tenant $3 in table $1.
SELECT format('SELECT %s FROM %I WHERE tenant_id = %L', string_agg(quote_ident(name), ', ' ORDER BY n), $1::text, $3::text)
FROM unnest($2::text[]) WITH ORDINALITY AS c (name, n);

-- name: drop_slot
-- Ends its reader first. No row: there is no slot.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE slot_name = $1 AND (active_pid IS NULL OR pg_terminate_backend(active_pid, 5000));

-- name: create_subscription
-- $2: the source's URL.
SELECT format('CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION %I WITH (create_slot = false, slot_name = %L, copy_data = false)',
              $1::text, $2::text, $1::text, $1::text);

-- name: drop_subscription
-- Without its slot, which the source drops. No row: there is no subscription.
SELECT format('ALTER SUBSCRIPTION %1$I DISABLE; ALTER SUBSCRIPTION %1$I SET (slot_name = NONE); DROP SUBSCRIPTION %1$I',
              subname)
FROM pg_subscription WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: position
-- The source's position in bytes.
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint;

-- name: is_received
-- Whether the target has applied the changes until position $2.
SELECT coalesce(bool_or(replay_lsn - '0/0'::pg_lsn >= $2::bigint), false) FROM pg_stat_replication
WHERE application_name = $1;

-- name: mark
-- Writes the tenant's row unchanged, so that the target confirms a position after it.
UPDATE tenants SET name = name WHERE tenant_id = $1;

-- name: exists
-- Whether the tenant exists.
SELECT EXISTS (SELECT FROM tenants WHERE tenant_id = $1);

-- name: now
-- The source's time.
SELECT clock_timestamp();

-- name: is_quiet
-- Whether no transaction of the service from before $1 can still write. One without an id that is older than 2 s only
-- reads, unless it waits for its first row lock.
SELECT count(*) = 0 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'tombola'
  AND xact_start < $1::timestamptz AND (
      backend_xid IS NOT NULL OR wait_event_type = 'Lock' OR xact_start > now() - interval '2 seconds');

-- name: compare
-- The number of a tenant's rows in each table, and the sum of their hashes. Without converting rows to text, which takes
-- longer than the hash; json alone has no hash.
SELECT string_agg(format('SELECT %L AS name, count(*) AS rows, coalesce(sum(hash_record_extended(ROW(%s), 0)::numeric), 0)'
                         '::text AS hash FROM %I WHERE tenant_id = %L', name, columns, name, $1::text), ' UNION ALL ')
FROM unnest($2::text[]) AS name CROSS JOIN LATERAL (
    SELECT string_agg(quote_ident(attname) || CASE atttypid WHEN 'json'::regtype THEN '::text' ELSE '' END, ', '
                      ORDER BY attname) AS columns
    FROM pg_attribute WHERE attrelid = to_regclass(name) AND attnum > 0 AND NOT attisdropped
) AS c;

-- name: remove
-- Deletes up to $3 rows of tenant $2 from table $1, without its triggers.
SELECT format('DELETE FROM %I WHERE tenant_id = %L AND ctid = ANY (ARRAY('
              'SELECT ctid FROM %1$I WHERE tenant_id = %2$L LIMIT %s))', $1::text, $2::text, $3::bigint);
