-- Logins, and tokens that end before their time. See logins.py and revocations.py in runtime/operations/players/

-- name: revoke
-- Ends the tokens of $3 (of kind $2: a login, or a player's of no login; a sign-in of staff's, or a subject), all ($4
-- false) or those issued until now, or $6 (unix seconds) where an edge's clock is ahead; $5: how many seconds the last
-- of them may live. What was revoked before stays so.
INSERT INTO revocations AS r (tenant_id, kind, subject, issued_until, kept_until)
VALUES ($1, $2, $3, CASE WHEN $4::boolean THEN greatest(now(), at_unix($6)) END, now() + make_interval(secs => $5::float8))
ON CONFLICT (tenant_id, kind, subject) DO UPDATE SET
    issued_until = CASE
        WHEN r.issued_until IS NOT NULL AND excluded.issued_until IS NOT NULL
        THEN greatest(r.issued_until, excluded.issued_until)
    END,
    kept_until = greatest(r.kept_until, excluded.kept_until),
    revoked_at = now();

-- name: begin
-- A new login of the player: $2 its id, $3 player, $4 merchant, $5 seconds until it must be used, $6 until it
-- ends. No row: there is no such player, or a login of this id already.
WITH begun AS (
    INSERT INTO logins (tenant_id, login_id, player_id, merchant_id, expires_at, ends_at)
    SELECT tenant_id, $2, player_id, $4, now() + make_interval(secs => least($5::float8, $6::float8)),
           now() + make_interval(secs => $6::float8)
    FROM players WHERE tenant_id = $1 AND player_id = $3
    ON CONFLICT DO NOTHING
    RETURNING player_id, merchant_id, ends_at
),
noted AS (
    INSERT INTO login_quarters (tenant_id, player_id, quarter)
    SELECT $1, player_id, date_bin('15 minutes', now(), 'epoch') FROM begun ON CONFLICT DO NOTHING
)
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM begun;

-- name: begun
-- The same of a login that this very request began before. No row: it began none, or that one went on or is over.
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM logins
WHERE tenant_id = $1 AND login_id = $2 AND player_id = $3 AND generation = 0 AND ended_at IS NULL;

-- name: turn
-- Ends the refresh token of generation $3, used by $4, and makes the next one count, for $5 seconds. No row: another
-- one counts, or the login is over.
WITH turned AS (
    UPDATE logins SET
        generation = generation + 1,
        expires_at = least(now() + make_interval(secs => $5::float8), ends_at),
        repeats = CASE WHEN turned_by = '' THEN repeats ELSE 0 END,
        turned_by = $4,
        turned_at = now()
    WHERE tenant_id = $1 AND login_id = $2 AND generation = $3 AND ended_at IS NULL AND expires_at > now()
    RETURNING player_id, merchant_id, ends_at
),
noted AS (
    INSERT INTO login_quarters (tenant_id, player_id, quarter)
    SELECT $1, player_id, date_bin('15 minutes', now(), 'epoch') FROM turned ON CONFLICT DO NOTHING
)
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM turned;

-- name: turn_again
-- Lets $4, who used the token of generation $3 at most $5 seconds ago, use it once more, as long as the next one was
-- not used; of $6 generations in a row at most. No row: this is another, or later, or a third time, or too often.
UPDATE logins SET turned_by = '', repeats = repeats + 1
WHERE tenant_id = $1 AND login_id = $2 AND generation = $3 + 1 AND turned_by = $4 AND turned_by <> ''
  AND turned_at > now() - make_interval(secs => $5::float8) AND repeats < $6 AND ended_at IS NULL AND expires_at > now()
RETURNING player_id, merchant_id, unix(ends_at) AS ends_at;

-- name: end_reused
-- Ends the login whose token of generation $3 comes a second time. No row: it is over, or expired.
UPDATE logins SET ended_at = now()
WHERE tenant_id = $1 AND login_id = $2 AND generation <> $3 AND ended_at IS NULL AND expires_at > now()
RETURNING login_id;

-- name: is_ended
-- True where the login was ended; false or no row where it expired.
SELECT ended_at IS NOT NULL FROM logins WHERE tenant_id = $1 AND login_id = $2;

-- name: end
-- Ends the player's login $3, or each one where $3 is ''. Rows: those that went on until now.
WITH live AS (
    SELECT login_id FROM logins
    WHERE tenant_id = $1 AND player_id = $2 AND ended_at IS NULL AND ($3 = '' OR login_id = $3)
    ORDER BY login_id
    FOR UPDATE
),
ended AS (
    UPDATE logins AS l SET ended_at = now() FROM live WHERE l.tenant_id = $1 AND l.login_id = live.login_id
    RETURNING l.login_id
)
SELECT login_id FROM ended ORDER BY login_id;

-- name: is_player
-- Whether there is such a player, or a guest that has done something.
SELECT EXISTS (SELECT 1 FROM players WHERE tenant_id = $1 AND player_id = $2);

-- name: settled
-- The time, in microseconds, before which no revocation can appear any more; and what time it is.
SELECT (extract(epoch FROM settled_at()) * 1000000)::bigint AS settled_us, microseconds() AS now_us;

-- name: revocations
-- What was revoked from $1 (microseconds) on, of every tenant, after the row that $2, $3, $4 name; at most $5.
SELECT tenant_id, kind, subject, unix(issued_until) AS issued_until, unix(kept_until) AS kept_until,
       (extract(epoch FROM revoked_at) * 1000000)::bigint AS revoked_us
FROM revocations
WHERE (revoked_at, tenant_id, kind, subject) > (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2, $3, $4)
  AND kept_until > now()
ORDER BY revoked_at, tenant_id, kind, subject
LIMIT $5;

-- name: tenants
-- Every tenant, and '' for what holds over all of them: a sweep goes through them one by one.
SELECT tenant_id FROM tenants UNION ALL SELECT '';

-- name: purge_logins
-- Forgets logins a day after they expired, at most $2.
DELETE FROM logins WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM logins WHERE tenant_id = $1 AND expires_at < now() - interval '1 day'
    ORDER BY expires_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_revocations
-- Forgets revocations whose tokens have all expired, at most $2.
DELETE FROM revocations WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM revocations WHERE tenant_id = $1 AND kept_until < now()
    ORDER BY kept_until LIMIT $2::integer FOR UPDATE SKIP LOCKED
));
