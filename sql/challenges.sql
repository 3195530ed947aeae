-- Login challenges and the counts of wrong guesses. See runtime/operations/players/challenges.py.
-- Rows are locked in this order: a challenge, guesses by requester, rates by key (sql/locks.py).

-- name: charge
-- Takes one from the bucket $2: it refills one in $3 seconds and holds $4. No row: it is empty.
INSERT INTO login_rates AS r (tenant_id, rate_key, full_at)
VALUES ($1, $2, now() + make_interval(secs => $3::float8))
ON CONFLICT (tenant_id, rate_key) DO UPDATE SET
    full_at = greatest(r.full_at, now()) + make_interval(secs => $3::float8)
WHERE greatest(r.full_at, now()) <= now() + make_interval(secs => $3::float8 * ($4::integer - 1))
RETURNING full_at;

-- name: empty
-- The first of the buckets $2 that is empty ($3, $4 as for `charge`), and for how many seconds. No row: none is.
SELECT n.nth, extract(epoch FROM r.full_at - now())::float8 - n.seconds * (n.most - 1) AS wait_seconds
FROM unnest($2::text[], $3::float8[], $4::integer[]) WITH ORDINALITY AS n (rate_key, seconds, most, nth)
JOIN login_rates AS r ON r.tenant_id = $1 AND r.rate_key = n.rate_key
WHERE r.full_at > now() + make_interval(secs => n.seconds * (n.most - 1))
ORDER BY n.nth LIMIT 1;

-- name: look
-- What a code to the contact $2 that the requester $3 asks for may be refused by, without a lock: for how long the
-- requester waits, and the bucket $4, which holds one. proved: as in `lock_guesses`. known: whether $5 is a login,
-- over or not, of the player of this contact, of type $6 and value $7. No row: there is no such tenant.
SELECT coalesce(extract(epoch FROM g.wait_until - now())::float8, 0) AS wait_seconds,
       g.proved_at IS NOT NULL AS proved,
       EXISTS (
           SELECT FROM logins AS l JOIN contacts AS c ON c.tenant_id = $1 AND c.player_id = l.player_id
           WHERE l.tenant_id = $1 AND l.login_id = $5 AND c.type = $6 AND c.value = $7
       ) AS known,
       coalesce(extract(epoch FROM r.full_at - now())::float8, 0) AS resend_seconds
FROM tenants AS t
LEFT JOIN login_guesses AS g ON g.tenant_id = $1 AND g.contact_hash = $2 AND g.requester = $3
LEFT JOIN login_rates AS r ON r.tenant_id = $1 AND r.rate_key = $4
WHERE t.tenant_id = $1;

-- name: give_back
-- Puts one back into the bucket $2.
UPDATE login_rates SET full_at = full_at - make_interval(secs => $3::float8) WHERE tenant_id = $1 AND rate_key = $2;

-- name: meet
-- Makes the rows of guesses of the contact $2 by the requester $3 and by strangers, where they are not there yet,
-- and keeps them from being purged.
INSERT INTO login_guesses (tenant_id, contact_hash, requester)
SELECT tenant_id, $2, requester FROM tenants, unnest(ARRAY['', $3::text]) AS requester WHERE tenant_id = $1
ON CONFLICT (tenant_id, contact_hash, requester) DO UPDATE SET updated_at = now();

-- name: lock_guesses
-- Both rows, held until the transaction ends, strangers' first. No row: there is no such tenant.
SELECT wrong, coalesce(extract(epoch FROM wait_until - now())::float8, 0) AS wait_seconds, proved_at IS NOT NULL AS proved
FROM login_guesses
WHERE tenant_id = $1 AND contact_hash = $2 AND requester IN ('', $3::text)
ORDER BY requester
FOR UPDATE;

-- name: issue
-- A new challenge, good for $8 seconds. No row: there is one of this id.
INSERT INTO login_challenges (tenant_id, challenge_id, contact, contact_hash, requester, code_hash, strong, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8::float8))
ON CONFLICT DO NOTHING
RETURNING unix(expires_at) AS expires_at, unix(now()) AS issued_at;

-- name: lock_challenge
-- The challenge, held until the transaction ends. No row: there is none, or its code was used.
SELECT contact, contact_hash, requester, code_hash, strong, tries, expires_at <= now() AS expired
FROM login_challenges WHERE tenant_id = $1 AND challenge_id = $2
FOR UPDATE;

-- name: count_try
-- One more wrong code for the challenge.
UPDATE login_challenges SET tries = tries + 1 WHERE tenant_id = $1 AND challenge_id = $2;

-- name: count_wrong
-- One more wrong code for the contact $2 by $3, who waits $4 seconds now (0: as before).
UPDATE login_guesses SET
    wrong = wrong + 1,
    wait_until = CASE WHEN $4::float8 > 0 THEN now() + make_interval(secs => $4::float8) ELSE wait_until END,
    updated_at = now()
WHERE tenant_id = $1 AND contact_hash = $2 AND requester = $3;

-- name: prove
-- The requester $3 had the right code: its wrong ones are forgotten, and strangers' too.
UPDATE login_guesses SET
    wrong = 0,
    wait_until = NULL,
    proved_at = CASE WHEN requester = '' THEN NULL ELSE now() END,
    updated_at = now()
WHERE tenant_id = $1 AND contact_hash = $2 AND requester IN ('', $3::text);

-- name: remove
-- Ends the challenge. Its contact and requester; no row: it is over.
DELETE FROM login_challenges WHERE tenant_id = $1 AND challenge_id = $2 RETURNING contact, contact_hash, requester;

-- name: purge_challenges
-- Forgets challenges an hour after they expired: until then they are told from ones that never were. At most $2.
DELETE FROM login_challenges WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_challenges WHERE tenant_id = $1 AND expires_at < now() - interval '1 hour'
    ORDER BY expires_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_rates
-- Forgets buckets that are full, at most $2.
DELETE FROM login_rates WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_rates WHERE tenant_id = $1 AND full_at < now()
    ORDER BY full_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_unmarked
-- Forgets requesters of whom there is nothing to remember after a day, at most $2.
DELETE FROM login_guesses WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_guesses
    WHERE tenant_id = $1 AND updated_at < now() - interval '1 day' AND wrong = 0 AND proved_at IS NULL
    ORDER BY updated_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));

-- name: purge_guesses
-- Forgets the others after a year, at most $2.
DELETE FROM login_guesses WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM login_guesses WHERE tenant_id = $1 AND updated_at < now() - interval '1 year'
    ORDER BY updated_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
));
