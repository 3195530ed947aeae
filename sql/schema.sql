-- Tombola's tables: the readable truth. migrations/ rebuild exactly this (a test compares).
--
-- Every primary key leads with tenant_id (the distribution column where a cluster shards), and
-- nothing refers across tenants. Closed sets are text with a CHECK, stored as lowercase tokens.
-- Times are timestamptz, NULL where the wire says 0. Identifiers compare byte by byte.

CREATE DOMAIN ident AS text COLLATE "C";

-- Unix seconds of a time, 0 where unset: the wire's form.
CREATE FUNCTION unix(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(floor(extract(epoch FROM at))::bigint, 0);

-- A time of unix seconds, NULL where 0: the stored form.
CREATE FUNCTION at_unix(seconds bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_timestamp(nullif(seconds, 0));

-- A time as people's tables show it, in UTC; NULL where unset. For exports.
CREATE FUNCTION iso(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');

-- The database's time in microseconds, as it is at this moment and not at the transaction's beginning.
CREATE FUNCTION microseconds() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- A time before which nothing more will appear: whatever began earlier has ended. A transaction writes
-- now(), the time it began, and is seen when it ends, so who follows rows by their time goes on from here.
-- One that has written nothing for 10 s (a backup) holds nobody up.
CREATE FUNCTION settled_at() RETURNS timestamptz LANGUAGE sql STABLE
    RETURN least(now(), (
        SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND (backend_xid IS NOT NULL OR xact_start > now() - interval '10 seconds')
    ));

-- Undoes the whole statement that calls it: the guard of a batch (SQLSTATE TB001).
CREATE FUNCTION refuse(guard text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'guard %', guard USING ERRCODE = 'TB001';
END $$;

-- ---------------------------------------------------------------- tenancy

-- catalog_version rises with every change to the tenant's campaigns, games or prizes. A commit
-- names the version that it was decided by, so nothing is decided by a stale configuration.
CREATE TABLE tenants (
    tenant_id       ident       NOT NULL PRIMARY KEY,
    name            text        NOT NULL,
    status          text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    catalog_version bigint      NOT NULL DEFAULT 1,
    origins         text[]      NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tenants_origins ON tenants USING gin (origins);

CREATE TABLE merchants (
    tenant_id   ident       NOT NULL,
    merchant_id ident       NOT NULL,
    name        text        NOT NULL,
    status      text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, merchant_id)
);

-- What an entry of the audit log says in words: who did what to what, as it is called, and why.
CREATE FUNCTION audit_words(actor text, action text, subject_id text, before jsonb, after jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN actor || ' ' || action || ' ' || subject_id || ' ' || coalesce(before ->> 'name', '') || ' '
    || coalesce(after ->> 'name', '') || ' ' || coalesce(after ->> 'reason', '');

-- The player that an entry of the audit log is about: its subject, or whose reward, delivery or score was moved. NULL: none.
CREATE FUNCTION audit_player(subject_type text, subject_id text, before jsonb, after jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN subject_type = 'player' THEN subject_id ELSE coalesce(after ->> 'player_id', before ->> 'player_id') END;

CREATE TABLE audit_entries (
    tenant_id    ident       NOT NULL,
    entry_id     ident       NOT NULL,
    actor        text        NOT NULL,
    action       text        NOT NULL,
    subject_type text        NOT NULL,
    subject_id   text        NOT NULL,
    before       jsonb,
    after        jsonb,
    trace_id     text        NOT NULL DEFAULT '',
    -- In whose name it was done: '' the tenant's own.
    merchant_id  ident       NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, entry_id)
);
CREATE INDEX audit_entries_subject ON audit_entries (tenant_id, subject_type, subject_id, entry_id);
CREATE INDEX audit_entries_actor ON audit_entries (tenant_id, actor, entry_id);
CREATE INDEX audit_entries_player ON audit_entries
    (tenant_id, audit_player(subject_type, subject_id, before, after), entry_id)
    WHERE audit_player(subject_type, subject_id, before, after) IS NOT NULL;
CREATE INDEX audit_entries_type ON audit_entries (tenant_id, subject_type, entry_id);
-- What happened of late, for the auditor (sql/conservation.sql); likewise of ledgers, turns and tasks. Rows lie in the
-- order of time, so this costs next to nothing.
CREATE INDEX audit_entries_time ON audit_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- What was noted stays as it is, whoever is connected: the database itself refuses to change or remove a row.
CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- Nor has anybody but its owner the right to: whoever is given every table as it is made (ops/database/roles.sql)
-- keeps reading and adding.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT a.grantee::regrole::text FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.oid = 'audit_entries'::regclass AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON audit_entries FROM %s', grantee);
    END LOOP;
END $$;

-- ---------------------------------------------------------------- catalogue

-- redeem_until: what was earned is redeemed until then, though the campaign has ended; NULL: not beyond its end.
-- budget: what its prizes may cost in all, which informs and stops nothing; 0: none is said.
CREATE TABLE campaigns (
    tenant_id    ident       NOT NULL,
    campaign_id  ident       NOT NULL,
    merchant_id  ident       NOT NULL DEFAULT '',
    name         text        NOT NULL,
    status       text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'active', 'paused', 'ended')),
    start_date   timestamptz,
    end_date     timestamptz,
    redeem_until timestamptz,
    timezone     text        NOT NULL DEFAULT 'UTC',
    settings     jsonb       NOT NULL DEFAULT '{}',
    origins      text[]      NOT NULL DEFAULT '{}',
    revision     integer     NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    budget          double precision NOT NULL DEFAULT 0 CHECK (budget >= 0),
    budget_currency text             NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, campaign_id)
);
CREATE INDEX campaigns_origins ON campaigns USING gin (origins) WHERE origins <> '{}';
CREATE INDEX campaigns_with_budget ON campaigns (tenant_id, campaign_id) WHERE budget > 0;
CREATE INDEX campaigns_with_origins ON campaigns (tenant_id) WHERE origins <> '{}';

-- What a campaign is now: one that ran and is past its end has ended, whatever is stored; a draft's end is a plan.
-- One expression, so that it is inlined.
CREATE FUNCTION campaign_status(status text, end_date timestamptz) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN status IN ('active', 'paused') AND end_date <= now() THEN 'ended' ELSE status END;

-- The time so many days later, at the same local time of the zone.
CREATE FUNCTION days_later(at timestamptz, days integer, zone text) RETURNS timestamptz LANGUAGE sql STABLE RETURN
    (at AT TIME ZONE zone + make_interval(days => days)) AT TIME ZONE zone;

-- The campaigns that staff of a merchant may read, or with `writing` write: the merchant's own, and to read
-- those that name no merchant, which are the tenant's. Likewise '', the campaign of what is of none. Staff of
-- no merchant ('') is the tenant's and may all. Every statement that staff reaches has this as a condition.
CREATE FUNCTION campaigns_of(tenant text, merchant text, writing boolean) RETURNS SETOF ident LANGUAGE sql STABLE AS $$
    SELECT campaign_id FROM campaigns
    WHERE tenant_id = tenant AND (merchant = '' OR merchant_id = merchant OR (merchant_id = '' AND NOT writing))
    UNION ALL SELECT '' WHERE merchant = '' OR NOT writing
$$;

-- What a game is now; game_revisions has what it was at every play.
CREATE TABLE games (
    tenant_id   ident       NOT NULL,
    game_id     ident       NOT NULL,
    campaign_id ident       NOT NULL,
    name        text        NOT NULL,
    type        text        NOT NULL,
    status      text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'active', 'paused', 'archived')),
    revision    integer     NOT NULL DEFAULT 1 CHECK (revision > 0),
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, game_id)
);
CREATE INDEX games_campaign ON games (tenant_id, campaign_id, game_id);

-- definition: every configured field of the game (Game of game.proto, enums as stored tokens).
CREATE TABLE game_revisions (
    tenant_id  ident       NOT NULL,
    game_id    ident       NOT NULL,
    revision   integer     NOT NULL,
    definition jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, game_id, revision)
);

-- What staff played in test mode, for a day: of each run what its plays came to, and the first of them. Nothing refers to
-- it, and it to nothing but the game: a test play moves nothing else.
CREATE TABLE test_runs (
    tenant_id   ident       NOT NULL,
    run_id      ident       NOT NULL,
    game_id     ident       NOT NULL,
    revision    integer     NOT NULL,
    times       integer     NOT NULL CHECK (times > 0),
    frequencies jsonb       NOT NULL,
    plays       jsonb       NOT NULL,
    made_by     text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX test_runs_game ON test_runs (tenant_id, game_id, run_id);
CREATE INDEX test_runs_age ON test_runs (tenant_id, created_at);

-- What starts have promised to decide their plays by (runtime/actors/game/terms.py): the very bytes whose SHA-256 a
-- start answers as revision_hash. Written before a start names them, and never taken away: whoever has the hash may
-- ask for them in years.
CREATE TABLE promised_terms (
    tenant_id     ident       NOT NULL,
    revision_hash ident       NOT NULL,
    game_id       ident       NOT NULL,
    terms         bytea       NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, revision_hash),
    CHECK (revision_hash = encode(sha256(terms), 'hex'))
);
CREATE INDEX promised_terms_game ON promised_terms (tenant_id, game_id, created_at);
CREATE TRIGGER promised_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON promised_terms
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- The first half of the revision_hash that a session was promised by, as its token says; NULL: it says none.
CREATE FUNCTION promised_by(session_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(split_part(session_id, '.', 3) FROM '^[0-9a-f]{32}');

-- low_stock_at: it runs low where no more than this is left of it; 0: it is not watched.
CREATE TABLE prizes (
    tenant_id          ident            NOT NULL,
    prize_id           ident            NOT NULL,
    campaign_id        ident            NOT NULL DEFAULT '',
    name               text             NOT NULL,
    type               text             NOT NULL,
    value              double precision NOT NULL DEFAULT 0,
    max_per_user       integer          NOT NULL DEFAULT 0 CHECK (max_per_user >= 0),
    max_per_day        integer          NOT NULL DEFAULT 0 CHECK (max_per_day >= 0),
    redemption_mode    text             NOT NULL DEFAULT 'on_win'
                       CHECK (redemption_mode IN ('on_win', 'on_claim', 'manual')),
    channel            text             NOT NULL DEFAULT 'none',
    channel_config     jsonb            NOT NULL DEFAULT '{}',
    expires_after_days integer          NOT NULL DEFAULT 0 CHECK (expires_after_days >= 0),
    status             text             NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    created_at         timestamptz      NOT NULL DEFAULT now(),
    updated_at         timestamptz      NOT NULL DEFAULT now(),
    description        text             NOT NULL DEFAULT '',
    image_url          text             NOT NULL DEFAULT '',
    terms              text             NOT NULL DEFAULT '',
    currency           text             NOT NULL DEFAULT '',
    low_stock_at       bigint           NOT NULL DEFAULT 0 CHECK (low_stock_at >= 0),
    claim_fields       jsonb            NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, prize_id)
);
-- What is watched of a thousand prizes is read without the others.
CREATE INDEX prizes_watched ON prizes (tenant_id, prize_id) WHERE low_stock_at > 0;

-- total 0 = unlimited. Apart from prizes, so that the hottest row of the service is a narrow one.
CREATE TABLE stock (
    tenant_id ident  NOT NULL,
    prize_id  ident  NOT NULL,
    total     bigint NOT NULL DEFAULT 0 CHECK (total >= 0),
    remaining bigint NOT NULL DEFAULT 0 CHECK (remaining >= 0),
    awarded   bigint NOT NULL DEFAULT 0 CHECK (awarded >= 0),
    PRIMARY KEY (tenant_id, prize_id),
    CHECK (CASE WHEN total = 0 THEN remaining = 0 ELSE total = remaining + awarded END)
) WITH (fillfactor = 40);

-- How a prize's total came to be what it is: in the order of seq each begins with the total that the last one left.
CREATE TABLE stock_moves (
    tenant_id        ident       NOT NULL,
    prize_id         ident       NOT NULL,
    seq              bigint      NOT NULL,
    actor            text        NOT NULL,
    reason           text        NOT NULL,
    total_before     bigint      NOT NULL,
    remaining_before bigint      NOT NULL,
    total_after      bigint      NOT NULL,
    remaining_after  bigint      NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, prize_id, seq)
);

-- How many of a prize went out on a local day (max_per_day).
CREATE TABLE prize_days (
    tenant_id ident  NOT NULL,
    prize_id  ident  NOT NULL,
    day       date   NOT NULL,
    awarded   bigint NOT NULL CHECK (awarded >= 0),
    PRIMARY KEY (tenant_id, prize_id, day)
) WITH (fillfactor = 40);

-- How many of a prize a player has had, for ever (max_per_user).
CREATE TABLE prize_players (
    tenant_id ident  NOT NULL,
    prize_id  ident  NOT NULL,
    player_id ident  NOT NULL,
    awarded   bigint NOT NULL CHECK (awarded >= 0),
    PRIMARY KEY (tenant_id, prize_id, player_id)
) WITH (fillfactor = 80);

-- A voucher code at rest: encrypted with the key that key_id names; code_hash finds duplicates.
-- It is free, and may be given out, while it is nobody's, was not withdrawn and is not expired.
CREATE TABLE codes (
    tenant_id   ident       NOT NULL,
    prize_id    ident       NOT NULL,
    code_id     ident       NOT NULL,
    key_id      text        NOT NULL,
    ciphertext  bytea       NOT NULL,
    code_hash   bytea       NOT NULL,
    reward_id   ident,
    assigned_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL DEFAULT 'infinity',
    withdrawn_at timestamptz,
    PRIMARY KEY (tenant_id, prize_id, code_id),
    CHECK (reward_id IS NULL OR withdrawn_at IS NULL)
);
CREATE UNIQUE INDEX codes_once ON codes (tenant_id, prize_id, code_hash);
CREATE UNIQUE INDEX codes_reward ON codes (tenant_id, reward_id) WHERE reward_id IS NOT NULL;
-- By their end: who takes one takes what ends first, and passes by no expired one on the way to it.
CREATE INDEX codes_free ON codes (tenant_id, prize_id, expires_at, code_id)
    WHERE reward_id IS NULL AND withdrawn_at IS NULL;

-- How many codes of a pool are free, as the trigger below keeps it: those that end after counted_at, of which none ends
-- before ends_at. A play reads this row, and nothing of the pool.
CREATE TABLE code_pools (
    tenant_id  ident       NOT NULL,
    prize_id   ident       NOT NULL,
    free       bigint      NOT NULL DEFAULT 0,
    counted_at timestamptz NOT NULL DEFAULT '-infinity',
    ends_at    timestamptz NOT NULL DEFAULT 'infinity',
    PRIMARY KEY (tenant_id, prize_id)
) WITH (fillfactor = 50);

-- The codes of a pool by their end. free: nobody's and not withdrawn; they come off the pool when their end has come.
-- Written only under the lock of its pool's row.
CREATE TABLE code_ends (
    tenant_id  ident       NOT NULL,
    prize_id   ident       NOT NULL,
    expires_at timestamptz NOT NULL,
    free       bigint      NOT NULL,
    assigned   bigint      NOT NULL,
    withdrawn  bigint      NOT NULL,
    PRIMARY KEY (tenant_id, prize_id, expires_at)
) WITH (fillfactor = 50);

-- The free codes of each pool as of now. A missing row: it never had any.
CREATE VIEW free_codes AS
SELECT p.tenant_id, p.prize_id,
       p.free - CASE WHEN p.ends_at > now() THEN 0 ELSE (
           SELECT coalesce(sum(e.free), 0)::bigint FROM code_ends AS e
           WHERE e.tenant_id = p.tenant_id AND e.prize_id = p.prize_id
             AND e.expires_at > p.counted_at AND e.expires_at <= now()
       ) END AS free
FROM code_pools AS p;

CREATE TYPE code_move AS (
    tenant_id ident, prize_id ident, expires_at timestamptz, free bigint, assigned bigint, withdrawn bigint
);

-- Moves what is counted of the pools by what a statement has changed of their codes, at its end.
CREATE FUNCTION count_codes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moves code_move[];
    late  boolean;
BEGIN
    IF tg_op = 'INSERT' THEN
        moves := ARRAY(
            SELECT (tenant_id, prize_id, expires_at,
                    count(*) FILTER (WHERE reward_id IS NULL AND withdrawn_at IS NULL),
                    count(reward_id), count(withdrawn_at))::code_move
            FROM added GROUP BY tenant_id, prize_id, expires_at);
    ELSIF tg_op = 'DELETE' THEN
        moves := ARRAY(
            SELECT (tenant_id, prize_id, expires_at,
                    -count(*) FILTER (WHERE reward_id IS NULL AND withdrawn_at IS NULL),
                    -count(reward_id), -count(withdrawn_at))::code_move
            FROM gone GROUP BY tenant_id, prize_id, expires_at);
    ELSE
        moves := ARRAY(
            SELECT s::code_move FROM (
                SELECT tenant_id, prize_id, expires_at,
                       coalesce(sum(n) FILTER (WHERE reward_id IS NULL AND withdrawn_at IS NULL), 0)::bigint AS free,
                       coalesce(sum(n) FILTER (WHERE reward_id IS NOT NULL), 0)::bigint AS assigned,
                       coalesce(sum(n) FILTER (WHERE withdrawn_at IS NOT NULL), 0)::bigint AS withdrawn
                FROM (
                    SELECT -1 AS n, tenant_id, prize_id, expires_at, reward_id, withdrawn_at FROM gone
                    UNION ALL
                    SELECT 1, tenant_id, prize_id, expires_at, reward_id, withdrawn_at FROM added
                ) AS c
                GROUP BY tenant_id, prize_id, expires_at
            ) AS s
            -- None where their keys alone became others.
            WHERE free <> 0 OR assigned <> 0 OR withdrawn <> 0);
    END IF;
    IF moves = '{}' THEN
        RETURN NULL;
    END IF;
    IF tg_op = 'INSERT' THEN
        INSERT INTO code_pools (tenant_id, prize_id)
        SELECT DISTINCT m.tenant_id, m.prize_id FROM unnest(moves) AS m ORDER BY 1, 2
        ON CONFLICT DO NOTHING;
    END IF;
    -- In their order (sql/locks.py). No row: the prize is going, and its pool has gone.
    late := bool_or(ends_at <= now()) FROM (
        SELECT p.ends_at FROM code_pools AS p
        WHERE (p.tenant_id, p.prize_id) IN (SELECT m.tenant_id, m.prize_id FROM unnest(moves) AS m)
        ORDER BY p.tenant_id, p.prize_id FOR NO KEY UPDATE
    ) AS held;
    INSERT INTO code_ends AS e (tenant_id, prize_id, expires_at, free, assigned, withdrawn)
    SELECT m.*
    FROM unnest(moves) AS m JOIN code_pools AS p ON p.tenant_id = m.tenant_id AND p.prize_id = m.prize_id
    ORDER BY m.tenant_id, m.prize_id, m.expires_at
    ON CONFLICT (tenant_id, prize_id, expires_at) DO UPDATE SET
        free = e.free + excluded.free, assigned = e.assigned + excluded.assigned,
        withdrawn = e.withdrawn + excluded.withdrawn;
    -- A code that ended before its pool was counted last is not counted, wherever it goes.
    UPDATE code_pools AS p SET free = p.free + c.free, ends_at = least(p.ends_at, c.ends_at)
    FROM (
        SELECT m.tenant_id, m.prize_id, sum(m.free)::bigint AS free, min(m.expires_at) AS ends_at
        FROM unnest(moves) AS m JOIN code_pools AS o ON o.tenant_id = m.tenant_id AND o.prize_id = m.prize_id
        WHERE m.expires_at > o.counted_at GROUP BY m.tenant_id, m.prize_id
    ) AS c
    WHERE p.tenant_id = c.tenant_id AND p.prize_id = c.prize_id;
    IF late THEN
        UPDATE code_pools AS p SET
            free = f.free,
            counted_at = now(),
            ends_at = coalesce((
                SELECT min(e.expires_at) FROM code_ends AS e
                WHERE e.tenant_id = p.tenant_id AND e.prize_id = p.prize_id AND e.expires_at > now()
            ), 'infinity')
        FROM free_codes AS f
        WHERE p.ends_at <= now() AND f.tenant_id = p.tenant_id AND f.prize_id = p.prize_id
          AND (p.tenant_id, p.prize_id) IN (SELECT m.tenant_id, m.prize_id FROM unnest(moves) AS m);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER codes_added AFTER INSERT ON codes REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_codes();
CREATE TRIGGER codes_moved AFTER UPDATE ON codes REFERENCING OLD TABLE AS gone NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_codes();
CREATE TRIGGER codes_gone AFTER DELETE ON codes REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION count_codes();

-- What a code is now.
CREATE FUNCTION code_state(reward_id text, withdrawn_at timestamptz, expires_at timestamptz) RETURNS text
    LANGUAGE sql STABLE RETURN
    CASE WHEN reward_id IS NOT NULL THEN 'assigned'
         WHEN withdrawn_at IS NOT NULL THEN 'withdrawn'
         WHEN expires_at <= now() THEN 'expired'
         ELSE 'free' END;

-- ---------------------------------------------------------------- processes and keys

-- The processes that live, and the newest migration that each has: none takes away what one of them uses
-- (sql/migrate.py). tenant_id is '', since a process serves every tenant.
CREATE TABLE processes (
    tenant_id  ident       NOT NULL,
    process_id ident       NOT NULL,
    process    text        NOT NULL,
    migration  text        NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, process_id)
);

-- What each process that lives has of the keys of a kind (SERVER_KEYS, CODE_KEYS), and which one it signs or seals
-- with: one that all have (runtime/stores/keyring.py). tenant_id is '', as above.
CREATE TABLE key_holders (
    tenant_id ident       NOT NULL,
    kind      text        NOT NULL CHECK (kind IN ('server', 'code')),
    holder_id ident       NOT NULL,
    process   text        NOT NULL,
    known     text[]      NOT NULL,
    used      text        NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind, holder_id)
);

-- Keys of CODE_KEYS that nothing is sealed with any more, whatever process tries: `tombola keys rotate` is moving, or
-- has moved, all that was. tenant_id is '', as above.
CREATE TABLE retired_keys (
    tenant_id  ident       NOT NULL,
    key_id     text        NOT NULL,
    retired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id)
);

-- The advisory lock of a key: shared by who seals with it, had alone by who retires it.
CREATE FUNCTION key_lock(key_id text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended('tombola key ' || key_id, 0);

-- Undoes what was sealed with a retired key (SQLSTATE TB002). Who retires it waits for whoever came before, so no row
-- is left behind: not by a process that stood still meanwhile either.
CREATE FUNCTION hold_key(key text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(key_lock(key));
    IF EXISTS (SELECT FROM retired_keys WHERE tenant_id = '' AND key_id = key) THEN
        RAISE EXCEPTION 'key % is retired', key USING ERRCODE = 'TB002';
    END IF;
END $$;

CREATE FUNCTION hold_keys_of_new_codes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_key(used.key_id) FROM (SELECT DISTINCT key_id FROM added) AS used;
    RETURN NULL;
END $$;
CREATE TRIGGER codes_sealed AFTER INSERT ON codes REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION hold_keys_of_new_codes();

CREATE FUNCTION hold_key_of_code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_key(new.key_id);
    RETURN new;
END $$;
CREATE TRIGGER codes_resealed BEFORE UPDATE OF key_id ON codes FOR EACH ROW EXECUTE FUNCTION hold_key_of_code();

-- What is sealed in a receiver's config: its secrets, and what its headers carry.
CREATE FUNCTION sealed_in(config jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT held FROM (
        SELECT config ->> name AS held FROM unnest(ARRAY['secret', 'previous_secret']) AS name
        UNION ALL
        SELECT value
        FROM jsonb_each_text(CASE WHEN jsonb_typeof(config -> 'headers') = 'object' THEN config -> 'headers' END)
    ) AS h
    WHERE starts_with(held, 'sealed:')
$$;

-- Of what is sealed in a receiver's config (the column that the trigger names), that which was not there before.
CREATE FUNCTION hold_keys_of_config() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    config jsonb := to_jsonb(new) -> tg_argv[0];
    before jsonb := CASE WHEN tg_op = 'UPDATE' THEN to_jsonb(old) -> tg_argv[0] END;
BEGIN
    PERFORM hold_key(split_part(s, ':', 2)) FROM (SELECT sealed_in(config) EXCEPT SELECT sealed_in(before)) AS added (s);
    RETURN new;
END $$;
CREATE TRIGGER prizes_sealed BEFORE INSERT OR UPDATE OF channel_config ON prizes
    FOR EACH ROW EXECUTE FUNCTION hold_keys_of_config('channel_config');

-- ---------------------------------------------------------------- players

-- How a player is known who has no row yet: the ids that are made for guests say so (runtime/ids.py).
CREATE FUNCTION first_known_as(player_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN starts_with(player_id, 'guest_') AND length(player_id) = 32 THEN 'guest' ELSE 'external' END;

-- erased_at: when the personal data were removed; what is kept of the player is under the id (sql/erasure.sql).
CREATE TABLE players (
    tenant_id    ident       NOT NULL,
    player_id    ident       NOT NULL,
    display_name text        NOT NULL DEFAULT '',
    avatar_url   text        NOT NULL DEFAULT '',
    locale       text        NOT NULL DEFAULT '',
    attributes   jsonb       NOT NULL DEFAULT '{}',
    auth_method  text        NOT NULL DEFAULT 'external'
                 CHECK (auth_method IN ('phone_otp', 'email_otp', 'guest', 'external')),
    merged_into  ident,
    status       text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    erased_at    timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id)
);
-- Who changed of late: rankings show names.
CREATE INDEX players_updated ON players (tenant_id, updated_at);
CREATE INDEX players_merged ON players (tenant_id, merged_into) WHERE merged_into IS NOT NULL;

CREATE TABLE contacts (
    tenant_id  ident       NOT NULL,
    contact_id ident       NOT NULL,
    player_id  ident       NOT NULL,
    type       text        NOT NULL CHECK (type IN ('phone', 'email')),
    value      text        NOT NULL,
    verified   boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, contact_id)
);
CREATE UNIQUE INDEX contacts_once ON contacts (tenant_id, type, value);
CREATE INDEX contacts_player ON contacts (tenant_id, player_id);

-- A code sent to a contact. code_hash: the edge's HMAC, which only its secret can make. strong: the code is too
-- long to be guessed. requester: who asked for it, as a hash.
CREATE TABLE login_challenges (
    tenant_id    ident       NOT NULL,
    challenge_id ident       NOT NULL,
    contact      text        NOT NULL,
    contact_hash ident       NOT NULL,
    requester    ident       NOT NULL,
    code_hash    text        NOT NULL,
    strong       boolean     NOT NULL,
    tries        integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, challenge_id)
);
CREATE INDEX login_challenges_expiry ON login_challenges (tenant_id, expires_at);

-- Codes of a contact that were guessed wrong since the last right one, by who asked for them; requester '' has
-- those of all who never proved to be the contact's. proved_at: when this requester did.
CREATE TABLE login_guesses (
    tenant_id    ident       NOT NULL,
    contact_hash ident       NOT NULL,
    requester    ident       NOT NULL,
    wrong        integer     NOT NULL DEFAULT 0 CHECK (wrong >= 0),
    wait_until   timestamptz,
    proved_at    timestamptz,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, contact_hash, requester)
);
CREATE INDEX login_guesses_updated ON login_guesses (tenant_id, updated_at);
-- The purge would walk over those that are kept for a year, again and again, to find these.
CREATE INDEX login_guesses_unmarked ON login_guesses (tenant_id, updated_at) WHERE wrong = 0 AND proved_at IS NULL;

-- Rates of logins, and of what is noted of staff's, by GCRA: when the bucket will be full again. tenant_id is ''
-- where one holds over all tenants.
CREATE TABLE login_rates (
    tenant_id ident       NOT NULL,
    rate_key  ident       NOT NULL,
    full_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, rate_key)
);
CREATE INDEX login_rates_full ON login_rates (tenant_id, full_at);

-- A login: a family of refresh tokens, of which the one of `generation` counts. The tokens have an HMAC that
-- nothing here can make. expires_at: unless it is used; ends_at: however often it is. turned_by: who used the token
-- of the generation before, at turned_at, and may use it once more for a moment; '' for nobody. repeats: of how many
-- generations in a row the token was used once more.
CREATE TABLE logins (
    tenant_id   ident       NOT NULL,
    login_id    ident       NOT NULL,
    player_id   ident       NOT NULL,
    merchant_id ident       NOT NULL DEFAULT '',
    generation  integer     NOT NULL DEFAULT 0 CHECK (generation >= 0),
    turned_by   ident       NOT NULL DEFAULT '',
    turned_at   timestamptz,
    repeats     integer     NOT NULL DEFAULT 0 CHECK (repeats >= 0),
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    ends_at     timestamptz NOT NULL,
    ended_at    timestamptz,
    PRIMARY KEY (tenant_id, login_id)
);
CREATE INDEX logins_player ON logins (tenant_id, player_id) WHERE ended_at IS NULL;
CREATE INDEX logins_expiry ON logins (tenant_id, expires_at);

-- When players signed in, or renewed a login, by quarters of an hour: every zone's days are made of them. Quests count
-- these days; the logins themselves are forgotten once they have expired.
CREATE TABLE login_quarters (
    tenant_id ident       NOT NULL,
    player_id ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, player_id, quarter)
);

-- Tokens that end before their time: those of a login (kind 'login'), or those of a player that belong to none; of
-- staff those of a sign-in, or of a subject ('staff'), and an API token ('token'). issued_until: those issued until then; NULL: all. Nobody needs the row after kept_until: they have expired.
CREATE TABLE revocations (
    tenant_id    ident       NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('login', 'player', 'sign_in', 'staff', 'token')),
    subject      ident       NOT NULL,
    issued_until timestamptz,
    kept_until   timestamptz NOT NULL,
    revoked_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind, subject)
);
-- The edges read on from where they were, over all tenants.
CREATE INDEX revocations_time ON revocations (revoked_at, tenant_id, kind, subject);
CREATE INDEX revocations_expiry ON revocations (tenant_id, kept_until);

-- API tokens, as SHA-256: of 256 random bits a plain hash cannot be turned back, and is looked up by an index; who reads
-- this table has no token. used_at: the hour of its last use.
CREATE TABLE api_tokens (
    tenant_id   ident       NOT NULL,
    token_id    ident       NOT NULL,
    token_hash  bytea       NOT NULL,
    name        text        NOT NULL,
    roles       text[]      NOT NULL,
    merchant_id ident       NOT NULL DEFAULT '',
    made_by     text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz,
    revoked_at  timestamptz,
    PRIMARY KEY (tenant_id, token_id)
);
CREATE UNIQUE INDEX api_tokens_hash ON api_tokens (tenant_id, token_hash);

-- ---------------------------------------------------------------- plays

-- play_id is the session's nonce, so the primary key is what makes a session single-use.
-- idempotency_key and request_hash make a retry find this row even with the ephemeral store gone.
-- surplus_wins, surplus_points: how much of wins and points a merge left with the guest, as beyond what one player may
-- have (sql/merging.sql). Null: none.
CREATE TABLE plays (
    tenant_id       ident       NOT NULL,
    play_id         ident       NOT NULL,
    game_id         ident       NOT NULL,
    player_id       ident       NOT NULL,
    session_id      text        NOT NULL,
    revision        integer     NOT NULL,
    seed            bytea       NOT NULL,
    client_seed     text        NOT NULL,
    payload         json        NOT NULL,
    outcome         json        NOT NULL,
    score           bigint      NOT NULL,
    wins            integer     NOT NULL,
    points          bigint      NOT NULL,
    idempotency_key text,
    request_hash    bytea,
    played_at       timestamptz NOT NULL DEFAULT now(),
    surplus_wins    integer,
    surplus_points  bigint,
    PRIMARY KEY (tenant_id, play_id)
);
CREATE INDEX plays_player ON plays (tenant_id, player_id, game_id, play_id);
CREATE UNIQUE INDEX plays_idempotency ON plays (tenant_id, player_id, game_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- The plays of late, for whoever must catch up: rows lie in the order of time, so this costs next to nothing.
CREATE INDEX plays_time ON plays USING brin (played_at) WITH (autosummarize = on, pages_per_range = 32);

-- A player's plays of a game: for ever, and on the local day that the last one counted on. Where the campaign's
-- zone has moved west since, that day may be one that has not begun: its plays count on the day before.
-- busy_until: up to when plays have taken the player's time, in unix milliseconds (runtime/actors/game/eligibility.py).
CREATE TABLE game_players (
    tenant_id  ident   NOT NULL,
    game_id    ident   NOT NULL,
    player_id  ident   NOT NULL,
    plays      bigint  NOT NULL CHECK (plays >= 0),
    day        date    NOT NULL,
    day_plays  bigint  NOT NULL CHECK (day_plays >= 0),
    busy_until bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, game_id, player_id)
) WITH (fillfactor = 80);

-- ---------------------------------------------------------------- wallet and turns

-- seq: no entry of the balance is beyond it. Whoever moves the balance takes the next ones under the row's lock:
-- greatest(seq, microseconds()) and on, so that they rise within a balance whatever the clock does, and put the
-- entries of a player's several balances in the order of their time.
CREATE TABLE balances (
    tenant_id  ident       NOT NULL,
    scope_key  ident       NOT NULL,
    currency   ident       NOT NULL,
    player_id  ident       NOT NULL,
    balance    bigint      NOT NULL CHECK (balance >= 0),
    seq        bigint      NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, scope_key, currency)
) WITH (fillfactor = 80);

-- The sum of a balance's entries is the balance, always; in the order of seq each begins where the last one ended.
-- reward_id: of the reward that the movement paid for, or that it is; a revoke moves it back. Empty: of none.
CREATE TABLE ledger_entries (
    tenant_id     ident       NOT NULL,
    entry_id      ident       NOT NULL,
    seq           bigint      NOT NULL,
    scope_key     ident       NOT NULL,
    currency      ident       NOT NULL,
    player_id     ident       NOT NULL,
    amount        bigint      NOT NULL CHECK (amount <> 0),
    balance_after bigint      NOT NULL CHECK (balance_after >= 0),
    reason        text        NOT NULL
                  CHECK (reason IN ('play_reward', 'milestone_spend', 'quest_reward', 'adjustment', 'reversal')),
    reference_id  text        NOT NULL,
    reward_id     ident       NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, seq, entry_id)
);
CREATE INDEX ledger_entries_time ON ledger_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- What staff did under an idempotency key, written with what it did: asked again, it is answered by this row.
-- merchant_id: in whose name ('' the tenant's own). subject: who asked (the token's; empty: a caller of Core).
-- route: the operation, and its path's id.
-- reply: protobuf's bytes of the reply's message.
CREATE TABLE keyed_requests (
    tenant_id       ident       NOT NULL,
    merchant_id     ident       NOT NULL DEFAULT '',
    subject         ident       NOT NULL,
    route           ident       NOT NULL,
    idempotency_key ident       NOT NULL,
    request_hash    bytea       NOT NULL,
    reply           bytea       NOT NULL DEFAULT '',
    asked_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, merchant_id, subject, route, idempotency_key)
);

-- What staff asked for that waits for a second person. request: protobuf's bytes of the request's message. route: the
-- operation, and its path's id. asked_by: the subject of the token; nobody approves what is their own. One key of one
-- who asks is one approval. waiting -> done | rejected | withdrawn | failed; what is done in several transactions is
-- approved before it is done, or rejected half done. rests_on: SHA-256 of what must still be so then; empty: nothing.
CREATE TABLE approvals (
    tenant_id       ident       NOT NULL,
    approval_id     ident       NOT NULL,
    merchant_id     ident       NOT NULL DEFAULT '',
    operation       text        NOT NULL,
    route           ident       NOT NULL,
    request         bytea       NOT NULL,
    request_hash    bytea       NOT NULL,
    idempotency_key ident,
    subject_id      ident       NOT NULL,
    before          jsonb       NOT NULL,
    after           jsonb       NOT NULL,
    asked_by        text        NOT NULL,
    asked_at        timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL DEFAULT now() + interval '7 days',
    status          text        NOT NULL DEFAULT 'waiting'
                    CHECK (status IN ('waiting', 'approved', 'done', 'rejected', 'withdrawn', 'failed')),
    decided_by      text        NOT NULL DEFAULT '',
    decided_at      timestamptz,
    reason          text        NOT NULL DEFAULT '',
    outcome         jsonb       NOT NULL DEFAULT '{}',
    rests_on        bytea       NOT NULL,
    PRIMARY KEY (tenant_id, approval_id)
);
CREATE UNIQUE INDEX approvals_key ON approvals (tenant_id, merchant_id, asked_by, route, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX approvals_waiting ON approvals (tenant_id, approval_id) WHERE status = 'waiting';

-- What an approval is now: what nobody decided in time has expired, and what nobody has gone on with for 7 days since
-- it was approved. One expression, so that it is inlined.
CREATE FUNCTION approval_status(status text, expires_at timestamptz, decided_at timestamptz) RETURNS text
    LANGUAGE sql STABLE RETURN
    CASE WHEN status = 'waiting' AND expires_at <= now() THEN 'expired'
         WHEN status = 'approved' AND decided_at <= now() - interval '7 days' THEN 'expired'
         ELSE status END;

CREATE TABLE turn_balances (
    tenant_id   ident       NOT NULL,
    campaign_id ident       NOT NULL,
    player_id   ident       NOT NULL,
    balance     bigint      NOT NULL CHECK (balance >= 0),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, campaign_id)
) WITH (fillfactor = 80);

CREATE TABLE turn_entries (
    tenant_id     ident       NOT NULL,
    entry_id      ident       NOT NULL,
    campaign_id   ident       NOT NULL,
    player_id     ident       NOT NULL,
    amount        bigint      NOT NULL CHECK (amount <> 0),
    balance_after bigint      NOT NULL CHECK (balance_after >= 0),
    reason        text        NOT NULL CHECK (reason IN ('quest', 'play', 'adjustment', 'merge', 'prize', 'reversal')),
    reference_id  text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, entry_id)
);
CREATE INDEX turn_entries_time ON turn_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- ---------------------------------------------------------------- rewards and delivery

-- won -> claimed -> fulfilling -> fulfilled; also expired, revoked, failed. The legal moves are
-- written once, with the code that claims. name, type and value are the prize's at the win.
-- A reward that is expired or failed, or revoked before it was shown, holds no stock and no code.
CREATE TABLE rewards (
    tenant_id    ident            NOT NULL,
    reward_id    ident            NOT NULL,
    player_id    ident            NOT NULL,
    prize_id     ident            NOT NULL,
    campaign_id  ident            NOT NULL,
    game_id      ident            NOT NULL DEFAULT '',
    play_id      ident            NOT NULL DEFAULT '',
    milestone_id ident            NOT NULL DEFAULT '',
    name         text             NOT NULL,
    type         text             NOT NULL,
    value        double precision NOT NULL,
    quantity     integer          NOT NULL CHECK (quantity > 0),
    status       text             NOT NULL DEFAULT 'won' CHECK (status IN
                 ('won', 'claimed', 'fulfilling', 'fulfilled', 'expired', 'revoked', 'failed')),
    claim_key    text,
    won_at       timestamptz      NOT NULL DEFAULT now(),
    claimed_at   timestamptz,
    fulfilled_at timestamptz,
    expires_at   timestamptz,
    PRIMARY KEY (tenant_id, reward_id)
) WITH (fillfactor = 80);
CREATE INDEX rewards_player ON rewards (tenant_id, player_id, reward_id);
CREATE INDEX rewards_prize ON rewards (tenant_id, prize_id, status);
CREATE INDEX rewards_campaign ON rewards (tenant_id, campaign_id, status);
-- What no play won, and claims, by their times, for whoever must catch up (sql/gaps.sql): a play writes to neither.
CREATE INDEX rewards_unplayed ON rewards (tenant_id, won_at) WHERE play_id = '';
CREATE INDEX rewards_claimed ON rewards (tenant_id, claimed_at) WHERE claimed_at IS NOT NULL;
CREATE INDEX rewards_expiry ON rewards (tenant_id, expires_at) WHERE status = 'won' AND expires_at IS NOT NULL;

-- What winners answered when they claimed, each with the label that was read then: a list of key, label and value.
-- Personal: it goes with whoever is erased.
CREATE TABLE claim_answers (
    tenant_id  ident       NOT NULL,
    reward_id  ident       NOT NULL,
    answers    jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, reward_id)
);

-- What is wrong with answers (an object of texts, none of them empty) to a prize's claim_fields: a list of a key and
-- required, unknown, option, long or lines each. NULL: nothing.
CREATE FUNCTION claim_problems(fields jsonb, answers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN fields <> '[]' OR answers <> '{}' THEN (
        SELECT jsonb_agg(jsonb_build_array(p.key, p.problem) ORDER BY p.nth, p.key COLLATE "C")
        FROM (
            SELECT f.nth, f.field ->> 'key' AS key, CASE
                WHEN a.answer IS NULL THEN CASE WHEN (f.field -> 'required')::boolean THEN 'required' END
                WHEN f.field ->> 'kind' = 'choice' THEN CASE WHEN NOT f.field -> 'options' ? a.answer THEN 'option' END
                WHEN f.field ->> 'kind' <> 'text' THEN NULL
                WHEN length(a.answer) > 200 THEN 'long'
                WHEN a.answer ~ '[\n\r\t]' THEN 'lines'
            END AS problem
            FROM jsonb_array_elements(fields) WITH ORDINALITY AS f (field, nth)
            CROSS JOIN LATERAL (SELECT answers ->> (f.field ->> 'key') AS answer) AS a
            UNION ALL
            SELECT 1000, k.key, 'unknown'
            FROM jsonb_object_keys(answers) AS k (key)
            WHERE NOT fields @> jsonb_build_array(jsonb_build_object('key', k.key))
        ) AS p
        WHERE p.problem IS NOT NULL
    ) END;

-- Answers as they are kept: a list of key, label and value, in the order of the fields.
CREATE FUNCTION claim_answered(fields jsonb, answers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN (
    SELECT coalesce(jsonb_agg(jsonb_build_object('key', f.field ->> 'key', 'label', f.field ->> 'label',
                                                 'value', answers ->> (f.field ->> 'key')) ORDER BY f.nth), '[]')
    FROM jsonb_array_elements(fields) WITH ORDINALITY AS f (field, nth)
    WHERE answers ? (f.field ->> 'key')
);

-- And back: an object of texts.
CREATE FUNCTION claim_given(answers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN (
    SELECT coalesce(jsonb_object_agg(a ->> 'key', a ->> 'value'), '{}') FROM jsonb_array_elements(answers) AS a
);

-- The outbox: one row for each delivery that is due, written with what made it due.
-- pending -> delivering (leased) -> delivered | awaiting | retry | dead; cancelled. The legal moves
-- are in sql/fulfillment.sql. lease_until: when another worker may take what one is delivering; of what is
-- awaited, when that is given up (NULL: never).
CREATE TABLE tasks (
    tenant_id       ident       NOT NULL,
    task_id         ident       NOT NULL,
    reward_id       ident       NOT NULL,
    prize_id        ident       NOT NULL,
    campaign_id     ident       NOT NULL,
    player_id       ident       NOT NULL,
    channel         text        NOT NULL,
    status          text        NOT NULL CHECK (status IN
                    ('pending', 'delivering', 'awaiting', 'retry', 'delivered', 'dead', 'cancelled')),
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error      text        NOT NULL DEFAULT '',
    external_id     text        NOT NULL DEFAULT '',
    next_attempt_at timestamptz,
    lease_until     timestamptz,
    lease_owner     text        NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    -- The last attempt that ended: when (NULL: none has), how long it took, and how its receiver's answer began.
    tried_at        timestamptz,
    duration_ms     integer     NOT NULL DEFAULT 0,
    answer          text        NOT NULL DEFAULT '',
    -- Those before it, as and_earlier() keeps them.
    earlier         jsonb       NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, task_id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX tasks_reward ON tasks (tenant_id, reward_id);
-- By prize: what waits for a receiver that hangs is passed by, however much it is.
CREATE INDEX tasks_due ON tasks (tenant_id, prize_id, next_attempt_at) WHERE status IN ('pending', 'retry');
CREATE INDEX tasks_leased ON tasks (tenant_id, lease_until) WHERE status = 'delivering';
CREATE INDEX tasks_awaited ON tasks (tenant_id, lease_until) WHERE status = 'awaiting';
CREATE INDEX tasks_time ON tasks USING brin (updated_at) WITH (autosummarize = on, pages_per_range = 32);
-- For whoever must catch up (sql/gaps.sql).
CREATE INDEX tasks_dead ON tasks (tenant_id, updated_at) WHERE status = 'dead';

-- A task's earlier attempts with one more, the oldest first, at most 20: when each ended (unix seconds), how long it took,
-- why it failed ('' it did not), and how its receiver's answer began.
CREATE FUNCTION and_earlier(earlier jsonb, tried_at timestamptz, duration_ms integer, error text, answer text)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN jsonb_array_length(earlier) < 20 THEN earlier ELSE earlier - 0 END
    || jsonb_build_object('tried_at', unix(tried_at), 'duration_ms', duration_ms, 'error', error, 'answer', answer);

-- The id of a signed callback is of one task, for ever; `uses` counts how often it came.
CREATE TABLE callbacks (
    tenant_id   ident       NOT NULL,
    callback_id text        NOT NULL,
    task_id     ident       NOT NULL,
    uses        integer     NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, callback_id)
);

-- What a reward is now: one that was won and not claimed in time is expired, also before the job that
-- writes it down has come by. One whose delivery is due (it has a task) is on its way and does not expire.
-- One expression, so that it is inlined. tasked: whether the reward has a task.
CREATE FUNCTION standing(status text, expires_at timestamptz, tasked boolean) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN status = 'won' AND expires_at <= now() AND NOT tasked THEN 'expired' ELSE status END;

-- What players read of a prize; all of it empty for NULL, a prize that is gone.
CREATE FUNCTION prize_content(prize prizes) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
    jsonb_build_object('description', coalesce(prize.description, ''), 'image_url', coalesce(prize.image_url, ''),
                       'terms', coalesce(prize.terms, ''), 'currency', coalesce(prize.currency, ''),
                       'claim_fields', coalesce(prize.claim_fields, '[]'));

-- ---------------------------------------------------------------- milestones

-- One grant of a rung to a player, whatever the mode: the primary key is what makes it once.
-- reply: what a redeem was answered, for its retries; NULL for a rung granted inside a play.
CREATE TABLE milestone_grants (
    tenant_id       ident       NOT NULL,
    game_id         ident       NOT NULL,
    player_id       ident       NOT NULL,
    milestone_id    ident       NOT NULL,
    reward_id       ident       NOT NULL DEFAULT '',
    idempotency_key text,
    request_hash    bytea,
    reply           json,
    granted_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, game_id, milestone_id)
);
CREATE UNIQUE INDEX milestone_grants_idempotency ON milestone_grants (tenant_id, player_id, game_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- ---------------------------------------------------------------- quests

-- condition: {kind, count, game_id} of what a player must have done; null: the player says so. signing: the secrets,
-- sealed, of who may tell its events (condition of kind 'event'); {}: nobody may.
CREATE TABLE quests (
    tenant_id   ident       NOT NULL,
    quest_id    ident       NOT NULL,
    campaign_id ident       NOT NULL,
    name        text        NOT NULL,
    description text        NOT NULL DEFAULT '',
    type        text        NOT NULL CHECK (type IN ('one_time', 'daily', 'weekly')),
    turns       integer     NOT NULL CHECK (turns >= 0),
    status      text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'active', 'archived')),
    start_date  timestamptz,
    end_date    timestamptz,
    condition   jsonb,
    signing     jsonb       NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, quest_id)
);
CREATE INDEX quests_campaign ON quests (tenant_id, campaign_id, quest_id);

CREATE TRIGGER quests_sealed BEFORE INSERT OR UPDATE OF signing ON quests
    FOR EACH ROW EXECUTE FUNCTION hold_keys_of_config('signing');

-- What happened elsewhere, as the tenant's own systems told it of a player: each event of a quest once.
CREATE TABLE quest_events (
    tenant_id ident       NOT NULL,
    quest_id  ident       NOT NULL,
    event_id  ident       NOT NULL,
    player_id ident       NOT NULL,
    told_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, quest_id, event_id)
);
CREATE INDEX quest_events_player ON quest_events (tenant_id, player_id, quest_id, told_at);

-- Whether the campaign has the game that a quest's condition names, or it names none.
CREATE FUNCTION has_condition_s_game(tenant text, campaign text, condition jsonb) RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(condition ->> 'game_id', '') = '' OR EXISTS (
    SELECT FROM games AS g
    WHERE g.tenant_id = tenant AND g.game_id = condition ->> 'game_id' AND g.campaign_id = campaign);

-- How much of what a quest's condition counts a player has done since then (null: ever): plays of the campaign's games, or
-- of the one game; the prizes won by them; the points credited for them; the local days with a login; or the quest's
-- events that were told of the player. Of what a guest won, what became the player's.
CREATE FUNCTION quest_progress(
    tenant text, player text, quest text, campaign text, condition jsonb, since timestamptz)
RETURNS bigint LANGUAGE sql STABLE RETURN CASE WHEN condition ->> 'kind' = 'event' THEN (
    SELECT count(*) FROM quest_events AS e
    WHERE e.tenant_id = tenant AND e.player_id = player AND e.quest_id = quest AND (since IS NULL OR e.told_at >= since)
) WHEN condition ->> 'kind' = 'logins' THEN (
    SELECT count(DISTINCT (q.quarter AT TIME ZONE c.timezone)::date)
    FROM campaigns AS c
    JOIN login_quarters AS q ON q.tenant_id = tenant AND q.player_id = player
    WHERE c.tenant_id = tenant AND c.campaign_id = campaign AND (since IS NULL OR q.quarter >= since)
) ELSE (
    SELECT least(CASE condition ->> 'kind'
        WHEN 'plays' THEN count(*)
        WHEN 'wins' THEN coalesce(sum(p.wins - coalesce(p.surplus_wins, 0)), 0)
        ELSE coalesce(sum(p.points - coalesce(p.surplus_points, 0)), 0)
    END, 9223372036854775807)::bigint
    FROM plays AS p
    WHERE p.tenant_id = tenant AND p.player_id = player AND (since IS NULL OR p.played_at >= since)
      AND p.game_id = ANY(ARRAY(
        SELECT g.game_id FROM games AS g
        WHERE g.tenant_id = tenant AND g.campaign_id = campaign
          AND coalesce(condition ->> 'game_id', '') IN ('', g.game_id)))
) END;

-- period: 'once', a local day '2026-11-21', or an ISO week '2026-W47'. event_id: of the event that tells of it, also
-- where the player it was completed by is another since.
CREATE TABLE quest_completions (
    tenant_id       ident       NOT NULL,
    quest_id        ident       NOT NULL,
    player_id       ident       NOT NULL,
    period          text        NOT NULL,
    turns           integer     NOT NULL,
    balance_after   bigint      NOT NULL,
    event_id        ident       NOT NULL,
    idempotency_key text,
    request_hash    bytea,
    completed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, quest_id, player_id, period)
);
CREATE INDEX quest_completions_time ON quest_completions (tenant_id, completed_at);
CREATE UNIQUE INDEX quest_completions_idempotency ON quest_completions (tenant_id, player_id, quest_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- ---------------------------------------------------------------- leaderboards

CREATE TABLE leaderboards (
    tenant_id    ident       NOT NULL,
    board_id     ident       NOT NULL,
    campaign_id  ident       NOT NULL DEFAULT '',
    game_id      ident       NOT NULL DEFAULT '',
    name         text        NOT NULL,
    metric       text        NOT NULL CHECK (metric IN ('score', 'plays', 'wins', 'points')),
    mode         text        NOT NULL CHECK (mode IN ('sum', 'best', 'latest')),
    status       text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'finalized', 'archived')),
    start_date   timestamptz,
    end_date     timestamptz,
    prizes       jsonb       NOT NULL DEFAULT '[]',
    finalized_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, board_id)
);
CREATE INDEX leaderboards_campaign ON leaderboards (tenant_id, campaign_id, board_id);

CREATE TABLE leaderboard_adjustments (
    tenant_id  ident       NOT NULL,
    entry_id   ident       NOT NULL,
    board_id   ident       NOT NULL,
    player_id  ident       NOT NULL,
    delta      bigint      NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, board_id, player_id, entry_id)
);

CREATE TABLE leaderboard_disqualifications (
    tenant_id       ident       NOT NULL,
    board_id        ident       NOT NULL,
    player_id       ident       NOT NULL,
    reason          text        NOT NULL,
    disqualified_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, board_id, player_id)
);

-- The snapshot that finalize takes. A rank's prize is PENDING in `reason` until the commit that awards it;
-- after that `reason` says why it went without, or is empty.
CREATE TABLE leaderboard_standings (
    tenant_id    ident       NOT NULL,
    board_id     ident       NOT NULL,
    rank         integer     NOT NULL,
    player_id    ident       NOT NULL,
    display_name text        NOT NULL DEFAULT '',
    score        bigint      NOT NULL,
    achieved_at  timestamptz NOT NULL,
    prize_id     ident       NOT NULL DEFAULT '',
    reward_id    ident       NOT NULL DEFAULT '',
    reason       text        NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, board_id, rank)
);
CREATE UNIQUE INDEX leaderboard_standings_player ON leaderboard_standings (tenant_id, board_id, player_id);
CREATE INDEX leaderboard_standings_owed ON leaderboard_standings (tenant_id, board_id, rank) WHERE reason = 'PENDING';

-- ---------------------------------------------------------------- analytics

-- A campaign's plays, counted up to a moment: what came since is counted when asked for. players: all
-- different ones up to then; returned: those of them who were there on more than one day.
CREATE TABLE campaign_marks (
    tenant_id     ident       NOT NULL,
    campaign_id   ident       NOT NULL,
    counted_until timestamptz NOT NULL DEFAULT '-infinity',
    players       bigint      NOT NULL DEFAULT 0 CHECK (players >= 0),
    returned      bigint      NOT NULL DEFAULT 0 CHECK (returned >= 0),
    PRIMARY KEY (tenant_id, campaign_id)
);

-- Each local day of the campaign. players: different ones of that day; wins: plays that won something.
CREATE TABLE campaign_days (
    tenant_id   ident  NOT NULL,
    campaign_id ident  NOT NULL,
    day         date   NOT NULL,
    plays       bigint NOT NULL,
    players     bigint NOT NULL,
    wins        bigint NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id, day)
);

-- Who is counted on which day.
CREATE TABLE campaign_player_days (
    tenant_id   ident NOT NULL,
    player_id   ident NOT NULL,
    campaign_id ident NOT NULL,
    day         date  NOT NULL,
    PRIMARY KEY (tenant_id, player_id, campaign_id, day)
);
CREATE INDEX campaign_player_days_day ON campaign_player_days (tenant_id, campaign_id, day, player_id);

-- A tenant's plays, counted up to a moment, by the quarters of an hour that they were played in: every zone's days and
-- hours are made of them (runtime/operations/reporting/counting.py). wins: plays that won something.
CREATE TABLE figure_marks (
    tenant_id     ident       NOT NULL PRIMARY KEY,
    counted_until timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE game_quarters (
    tenant_id ident       NOT NULL,
    game_id   ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    plays     bigint      NOT NULL,
    wins      bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter)
);

-- How often games were started, in quarters of an hour. Apart, so that who adds to it waits for nobody who counts plays.
CREATE TABLE game_starts (
    tenant_id ident       NOT NULL,
    game_id   ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    starts    bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter)
);

-- What the draws of a game's revision came to, before stock and caps were asked. drawn: a prize, or a lucky item; '': a
-- loss.
CREATE TABLE game_draws (
    tenant_id ident       NOT NULL,
    game_id   ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    revision  integer     NOT NULL,
    drawn     ident       NOT NULL,
    draws     bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter, revision, drawn)
);

-- ---------------------------------------------------------------- integrations

-- heard_from: what happened before it was made, or while it was paused, is not told.
CREATE TABLE integrations (
    tenant_id      ident       NOT NULL,
    integration_id ident       NOT NULL,
    merchant_id    ident       NOT NULL DEFAULT '',
    campaign_id    ident       NOT NULL DEFAULT '',
    type           text        NOT NULL,
    events         text[]      NOT NULL,
    config         jsonb       NOT NULL DEFAULT '{}',
    status         text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused')),
    heard_from     timestamptz NOT NULL DEFAULT now(),
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, integration_id)
);

CREATE TRIGGER integrations_sealed BEFORE INSERT OR UPDATE OF config ON integrations
    FOR EACH ROW EXECUTE FUNCTION hold_keys_of_config('config');

-- What became of each event at each integration: for the operator to read, and for the next try.
-- One that is to be tried again is so from next_attempt_at on. The event is kept, to be told again and to be read;
-- answer is how the receiver's began, without what it was sent in confidence.
CREATE TABLE integration_deliveries (
    tenant_id      ident       NOT NULL,
    delivery_id    ident       NOT NULL,
    integration_id ident       NOT NULL,
    event_id       text        NOT NULL,
    event_type     text        NOT NULL,
    status         text        NOT NULL CHECK (status IN ('delivered', 'stubbed', 'retry', 'dead')),
    attempts       integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    event          json,
    next_attempt_at timestamptz,
    http_status    integer     NOT NULL DEFAULT 0,
    error          text        NOT NULL DEFAULT '',
    answer         text        NOT NULL DEFAULT '',
    duration_ms    integer     NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, integration_id, delivery_id),
    CHECK (status <> 'retry' OR (event IS NOT NULL AND next_attempt_at IS NOT NULL))
);
CREATE UNIQUE INDEX integration_deliveries_event ON integration_deliveries (tenant_id, integration_id, event_id);
CREATE INDEX integration_deliveries_due ON integration_deliveries (tenant_id, integration_id, next_attempt_at)
    WHERE status = 'retry';

-- Up to when the integrations of a tenant have been told of everything that happened (runtime/streams/backfill.py).
CREATE TABLE event_marks (
    tenant_id    ident       NOT NULL PRIMARY KEY,
    told_until   timestamptz NOT NULL,
    leased_until timestamptz NOT NULL
);

-- ---------------------------------------------------------------- limits

-- How much is left of a prize, of its stock and of its free codes (NULL: it never had any); NULL: it cannot run out.
CREATE FUNCTION left_of_prize(channel text, total bigint, remaining bigint, free bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE RETURN least(
    CASE WHEN total > 0 THEN remaining END, CASE WHEN channel = 'voucher_code' THEN coalesce(free, 0) END);

-- When a tenant's budgets and stock are looked at next (runtime/operations/budget_alerts/thresholds.py). Who looks holds the row.
CREATE TABLE limit_marks (
    tenant_id ident       NOT NULL PRIMARY KEY,
    next_at   timestamptz NOT NULL
);

-- What of a campaign's budget was used when it was counted last, and which share of that budget has been told of: 0, 80
-- or 100 percent.
CREATE TABLE budget_marks (
    tenant_id   ident            NOT NULL,
    campaign_id ident            NOT NULL,
    amount      double precision NOT NULL,
    currency    text             NOT NULL,
    used        double precision NOT NULL,
    told        integer          NOT NULL CHECK (told IN (0, 80, 100)),
    counted_at  timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, campaign_id)
);

-- Prizes that run low, since when, as has been told. What is here is told of no more until it has risen again.
CREATE TABLE low_prizes (
    tenant_id ident       NOT NULL,
    prize_id  ident       NOT NULL,
    since     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, prize_id)
);

-- What integrations are told of that no other row says (runtime/streams/backfill.py): the events themselves.
CREATE TABLE notices (
    tenant_id   ident       NOT NULL,
    event_id    ident       NOT NULL,
    type        text        NOT NULL CHECK (type IN ('campaign.budget_reached', 'prizes.low_stock')),
    campaign_id ident       NOT NULL,
    data        jsonb       NOT NULL,
    noticed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, event_id)
);
CREATE INDEX notices_time ON notices (tenant_id, noticed_at);

-- ---------------------------------------------------------------- conservation

-- How far the auditor is on each of its ways through a tenant's rows: along what happens ('changed': seen_until), and
-- around everything of a kind (after_key). leased_until: another process may go on then.
CREATE TABLE audit_marks (
    tenant_id    ident       NOT NULL,
    way          ident       NOT NULL,
    after_key    text        NOT NULL DEFAULT '',
    seen_until   timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, way)
);

-- What the auditor found that breaks a check of conservation.sql: kept until somebody closes it, saying why.
-- subject_id: the thing that was looked at; row_id: what of it. scope_key: the campaign or merchant that it is of, ''
-- the tenant. deviation: by how much, or how; a closed one is another where this is another. gone_at: since when it is
-- found no more.
CREATE TABLE violations (
    tenant_id     ident       NOT NULL,
    violation_id  ident       NOT NULL,
    check_name    ident       NOT NULL,
    subject_id    ident       NOT NULL,
    row_id        text        NOT NULL DEFAULT '',
    scope_key     ident       NOT NULL DEFAULT '',
    expected      text        NOT NULL,
    found         text        NOT NULL,
    deviation     text        NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    gone_at       timestamptz,
    closed_at     timestamptz,
    closed_by     text        NOT NULL DEFAULT '',
    reason        text        NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, violation_id)
);
CREATE UNIQUE INDEX violations_open ON violations (tenant_id, check_name, subject_id, row_id) WHERE closed_at IS NULL;
CREATE INDEX violations_subject ON violations (tenant_id, check_name, subject_id);

-- ---------------------------------------------------------------- one commit's changes

-- What commit.sql takes: an array of each. The code has a row type for each, and checks the two at import.
CREATE TYPE new_play AS (
    play_id text, game_id text, player_id text, session_id text, revision integer, seed bytea, client_seed text,
    payload json, outcome json, score bigint, wins integer, points bigint, idempotency_key text, request_hash bytea
);
-- plays more of a game by a player on a day, which is over at day_ends (unix seconds; 0: not held to). A cap of 0 is
-- none; day_cap holds for the plays of the day. exact: cap is how many plays it must then be, and no fewer.
-- busy_until: up to when they take the player's time.
CREATE TYPE play_count AS (
    game_id text, player_id text, day date, plays bigint, cap bigint, day_cap bigint, day_ends bigint, exact boolean,
    busy_until bigint
);
-- Turns that must be `before` and become `after`; 0 before: the row may be there or not.
CREATE TYPE turn_move AS (player_id text, campaign_id text, before bigint, after bigint);
-- A balance that must be `before` (NULL: not there yet) and becomes `after`.
CREATE TYPE balance_move AS (player_id text, scope_key text, currency text, before bigint, after bigint);
CREATE TYPE new_turn_entry AS (
    entry_id text, player_id text, campaign_id text, amount bigint, balance_after bigint, reason text, reference_id text
);
CREATE TYPE new_ledger_entry AS (
    entry_id text, player_id text, scope_key text, currency text, amount bigint, balance_after bigint, reason text,
    reference_id text, reward_id text
);
CREATE TYPE stock_take AS (prize_id text, quantity bigint);
CREATE TYPE prize_day_count AS (prize_id text, day date, quantity bigint, cap bigint);
CREATE TYPE prize_player_count AS (prize_id text, player_id text, quantity bigint, cap bigint);
CREATE TYPE new_reward AS (
    reward_id text, player_id text, prize_id text, campaign_id text, game_id text, play_id text, milestone_id text,
    name text, type text, value double precision, quantity integer, status text, expires_after_days integer
);
-- nth: the reward takes the nth free code of its prize, counted from 1.
CREATE TYPE code_take AS (reward_id text, prize_id text, nth bigint);
CREATE TYPE new_task AS (
    task_id text, reward_id text, prize_id text, campaign_id text, player_id text, channel text, status text
);
CREATE TYPE new_grant AS (
    game_id text, player_id text, milestone_id text, reward_id text, idempotency_key text, request_hash bytea,
    reply json
);
-- A player who must be a guest still, and not have become another player.
CREATE TYPE still_guest AS (player_id text);
-- A game that nobody was known to have played.
CREATE TYPE game_debut AS (game_id text);
-- The prize of a finalized board's rank is given, as this reward.
CREATE TYPE standing_award AS (board_id text, rank integer, reward_id text);
