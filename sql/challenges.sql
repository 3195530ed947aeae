-- Login challenges and the counts of wrong guesses. See runtime/operations/players/challenges.py.
-- Lock order: challenge, guess counters by requester, rate limits by key (sql/locks.py).

-- name: take_token
-- Takes a token from bucket $2, which refills one every $3 seconds and holds $4. No row: the bucket is empty.
INSERT INTO login_rates AS r (tenant_id, rate_key, full_at)
VALUES ($1, $2, now() + make_interval(secs => $3::float8))
ON CONFLICT (tenant_id, rate_key) DO UPDATE SET
    full_at = greatest(r.full_at, now()) + make_interval(secs => $3::float8)
WHERE greatest(r.full_at, now()) <= now() + make_interval(secs => $3::float8 * ($4::integer - 1))
RETURNING full_at;

-- name: first_empty
-- The first empty one of the buckets $2 ($3, $4 as for `take_token`), and the seconds until it refills. No row: none is
-- empty.
SELECT n.nth, extract(epoch FROM r.full_at - now())::float8 - n.seconds * (n.most - 1) AS wait_seconds
FROM unnest($2::text[], $3::float8[], $4::integer[]) WITH ORDINALITY AS n (rate_key, seconds, most, nth)
JOIN login_rates AS r ON r.tenant_id = $1 AND r.rate_key = n.rate_key
WHERE r.full_at > now() + make_interval(secs => n.seconds * (n.most - 1))
ORDER BY n.nth LIMIT 1;

-- name: read_refusals
-- The reasons to refuse a code for contact $2 to requester $3, read without a lock: the requester's remaining wait, and
-- that of the resend bucket $4, which holds one. proved: as in `lock_guesses`. known: whether $5 is a login, ended or not,
-- of the player with the contact of type $6 and value $7. No row: no such tenant.
SELECT coalesce(extract(epoch FROM g.wait_until - now())::float8, 0) AS wait_seconds,
       g.proved_at IS NOT NULL AS proved,
       EXISTS (
           SELECT FROM logins AS l JOIN contacts AS c ON c.tenant_id = $1 AND c.player_id = l.player_id
           WHERE l.tenant_id = $1 AND l.login_id = $5 AND c.type = $6 AND c.value = $7
       ) AS known,
       coalesce(extract(epoch FROM r.full_at - now())::float8, 0) AS resend_seconds, t.sender
FROM tenants AS t
LEFT JOIN login_guesses AS g ON g.tenant_id = $1 AND g.contact_hash = $2 AND g.requester = $3
LEFT JOIN login_rates AS r ON r.tenant_id = $1 AND r.rate_key = $4
WHERE t.tenant_id = $1;

-- name: return_token
-- Returns a token to bucket $2.
UPDATE login_rates SET full_at = full_at - make_interval(secs => $3::float8) WHERE tenant_id = $1 AND rate_key = $2;

-- name: create_counters
-- Creates the guess counters of contact $2 with fingerprint $4, for requester $3 and for strangers (''), if missing. Also
-- protects them from the purge.
INSERT INTO login_guesses (tenant_id, contact_hash, requester, fingerprint)
SELECT tenant_id, $2, requester, $4 FROM tenants, unnest(ARRAY['', $3::text]) AS requester WHERE tenant_id = $1
ON CONFLICT (tenant_id, contact_hash, requester) DO UPDATE SET updated_at = now(), fingerprint = excluded.fingerprint;

-- name: lock_guesses
-- Locks both counters until the transaction ends, strangers' first. No row: no such tenant.
SELECT wrong, coalesce(extract(epoch FROM wait_until - now())::float8, 0) AS wait_seconds, proved_at IS NOT NULL AS proved
FROM login_guesses
WHERE tenant_id = $1 AND contact_hash = $2 AND requester IN ('', $3::text)
ORDER BY requester
FOR UPDATE;

-- name: issue
-- A new challenge, valid for $8 seconds. No row: the id exists.
INSERT INTO login_challenges (tenant_id, challenge_id, contact, contact_hash, requester, code_hash, strong, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8::float8))
ON CONFLICT DO NOTHING
RETURNING unix(expires_at) AS expires_at, unix(now()) AS issued_at;

-- name: lock_challenge
-- Locks the challenge until the transaction ends. No row: unknown, or its code was used.
SELECT contact, contact_hash, requester, code_hash, strong, tries, expires_at <= now() AS expired
FROM login_challenges WHERE tenant_id = $1 AND challenge_id = $2
FOR UPDATE;

-- name: count_try
-- Counts a wrong code for the challenge.
UPDATE login_challenges SET tries = tries + 1 WHERE tenant_id = $1 AND challenge_id = $2;

-- name: count_wrong
-- Counts a wrong code for contact $2 by requester $3, who must wait $4 seconds (0: unchanged).
UPDATE login_guesses SET
    wrong = wrong + 1,
    wait_until = CASE WHEN $4::float8 > 0 THEN now() + make_interval(secs => $4::float8) ELSE wait_until END,
    updated_at = now()
WHERE tenant_id = $1 AND contact_hash = $2 AND requester = $3;

-- name: reset_counters
-- Requester $3 entered the correct code: resets its counter and the strangers'.
UPDATE login_guesses SET
    wrong = 0,
    wait_until = NULL,
    proved_at = CASE WHEN requester = '' THEN NULL ELSE now() END,
    updated_at = now()
WHERE tenant_id = $1 AND contact_hash = $2 AND requester IN ('', $3::text);

-- name: remove
-- Ends the challenge and returns its contact and requester. No row: already ended.
DELETE FROM login_challenges WHERE tenant_id = $1 AND challenge_id = $2 RETURNING contact, contact_hash, requester;

-- name: purge_challenges
-- Deletes challenges an hour after they expire, at most $2. Until then the reply is "expired", not "unknown".
DELETE FROM login_challenges WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_challenges WHERE tenant_id = $1 AND expires_at < now() - interval '1 hour'
    ORDER BY expires_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_rates
-- Deletes full buckets, at most $2.
DELETE FROM login_rates WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_rates WHERE tenant_id = $1 AND full_at < now()
    ORDER BY full_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_unmarked
-- Deletes counters without wrong guesses or proof after a day, at most $2.
DELETE FROM login_guesses WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_guesses
    WHERE tenant_id = $1 AND updated_at < now() - interval '1 day' AND wrong = 0 AND proved_at IS NULL
    ORDER BY updated_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_guesses
-- Deletes the other counters after a year, at most $2.
DELETE FROM login_guesses WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_guesses WHERE tenant_id = $1 AND updated_at < now() - interval '1 year'
    ORDER BY updated_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));
