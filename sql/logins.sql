-- Logins and token revocations. See logins.py and revocations.py in runtime/operations/players/

-- name: revoke
-- Revokes the tokens of $3 (of kind $2: a login, a player's without a login, a staff sign-in, or a staff subject): all ($4
-- false), or those issued until now, or until $6 (unix seconds) if the edge's clock is ahead. $5: the longest remaining
-- lifetime in seconds. Earlier revocations stay.
INSERT INTO revocations AS r (tenant_id, kind, subject, issued_until, expires_at)
VALUES ($1, $2, $3, CASE WHEN $4::boolean THEN greatest(now(), at_unix($6)) END, now() + make_interval(secs => $5::float8))
ON CONFLICT (tenant_id, kind, subject) DO UPDATE SET
    issued_until = CASE
        WHEN r.issued_until IS NOT NULL AND excluded.issued_until IS NOT NULL
        THEN greatest(r.issued_until, excluded.issued_until)
    END,
    expires_at = greatest(r.expires_at, excluded.expires_at),
    revoked_at = now();

-- name: begin
-- A new login: $2 its id, $3 player, $4 merchant, $5 idle expiry in seconds, $6 absolute expiry.
-- No row: no such player, or the id exists.
WITH begun AS (
    INSERT INTO logins (tenant_id, login_id, player_id, merchant_id, expires_at, ends_at)
    SELECT tenant_id, $2, player_id, $4, now() + make_interval(secs => least($5::float8, $6::float8)),
           now() + make_interval(secs => $6::float8)
    FROM players WHERE tenant_id = $1 AND player_id = $3
    ON CONFLICT DO NOTHING
    RETURNING player_id, merchant_id, ends_at
),
login_time AS (
    INSERT INTO login_quarters (tenant_id, player_id, quarter)
    SELECT $1, player_id, date_bin('15 minutes', now(), 'epoch') FROM begun ON CONFLICT DO NOTHING
)
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM begun;

-- name: begun
-- The login that an earlier attempt of the same request created. No row: none, or it was refreshed or ended since.
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM logins
WHERE tenant_id = $1 AND login_id = $2 AND player_id = $3 AND generation = 0 AND ended_at IS NULL;

-- name: rotate
-- Rotates the refresh token: replaces generation $3, used by $4, by the next one, valid for $5 seconds. No row: another
-- generation is current, or the login has ended.
WITH turned AS (
    UPDATE logins SET
        generation = generation + 1,
        expires_at = least(now() + make_interval(secs => $5::float8), ends_at),
        repeats = CASE WHEN repeated THEN repeats ELSE 0 END,
        repeated = false,
        turned_by = $4,
        turned_at = now()
    WHERE tenant_id = $1 AND login_id = $2 AND generation = $3 AND ended_at IS NULL AND expires_at > now()
    RETURNING player_id, merchant_id, ends_at
),
login_time AS (
    INSERT INTO login_quarters (tenant_id, player_id, quarter)
    SELECT $1, player_id, date_bin('15 minutes', now(), 'epoch') FROM turned ON CONFLICT DO NOTHING
)
SELECT player_id, merchant_id, unix(ends_at) AS ends_at FROM turned;

-- name: rotate_again
-- The grace period: client $4, which first used generation $3 at most $5 seconds ago, may use it again while the next one
-- is unused; for at most $6 generations in a row. No row: another client, too late, or too many generations.
UPDATE logins SET repeats = repeats + CASE WHEN repeated THEN 0 ELSE 1 END, repeated = true
WHERE tenant_id = $1 AND login_id = $2 AND generation = $3 + 1 AND turned_by = $4 AND turned_by <> ''
  AND turned_at > now() - make_interval(secs => $5::float8) AND (repeated OR repeats < $6)
  AND ended_at IS NULL AND expires_at > now()
RETURNING player_id, merchant_id, unix(ends_at) AS ends_at;

-- name: end_reused
-- Ends the login because its generation $3 was used again. No row: already ended or expired.
UPDATE logins SET ended_at = now()
WHERE tenant_id = $1 AND login_id = $2 AND generation <> $3 AND ended_at IS NULL AND expires_at > now()
RETURNING login_id;

-- name: is_ended
-- True if the login was ended; false or no row if it expired.
SELECT ended_at IS NOT NULL FROM logins WHERE tenant_id = $1 AND login_id = $2;

-- name: end
-- Ends the player's login $3, or all if $3 is ''. Locks them in key order. Rows: those that were active.
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

-- name: settled
-- A watermark in microseconds, before which no revocation can still appear, and the current time.
SELECT (extract(epoch FROM settled_at()) * 1000000)::bigint AS settled_us, microseconds() AS now_us;

-- name: revocations
-- Revocations since $1 (microseconds) of all tenants, after the row with key $2, $3, $4; at most $5.
SELECT tenant_id, kind, subject, unix(issued_until) AS issued_until, unix(expires_at) AS expires_at,
       (extract(epoch FROM revoked_at) * 1000000)::bigint AS revoked_us
FROM revocations
WHERE (revoked_at, tenant_id, kind, subject) > (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2, $3, $4)
  AND expires_at > now()
ORDER BY revoked_at, tenant_id, kind, subject
LIMIT $5;

-- name: tenants
-- All tenants, and '' for limits across tenants, for the sweep.
SELECT tenant_id FROM tenants UNION ALL SELECT '';

-- name: purge_logins
-- Deletes logins a day after they expire, at most $2.
DELETE FROM logins WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM logins WHERE tenant_id = $1 AND expires_at < now() - interval '1 day'
    ORDER BY expires_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_revocations
-- Deletes revocations whose tokens have all expired, at most $2.
DELETE FROM revocations WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM revocations WHERE tenant_id = $1 AND expires_at < now()
    ORDER BY expires_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));
