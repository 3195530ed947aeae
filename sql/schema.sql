-- The tables of Tombola. migrations/ rebuild exactly this schema (a test compares the two).
--
-- Every primary key begins with tenant_id (the distribution column of a sharded cluster), and no row refers to
-- another tenant's. Closed sets are text with a CHECK, stored as lowercase tokens. Times are timestamptz, NULL where
-- the wire format says 0. Identifiers compare byte by byte.

CREATE DOMAIN ident AS text COLLATE "C";

-- The CHECKs of tables that a play writes, as domains. Postgres parses a table's own CHECKs again in every statement
-- that writes to it, which costs more than to evaluate them: 7 % of the instructions of a play committed alone.
CREATE DOMAIN nonnegative AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN nonnegative_int AS integer CHECK (VALUE >= 0);
CREATE DOMAIN positive_int AS integer CHECK (VALUE > 0);
CREATE DOMAIN nonzero AS bigint CHECK (VALUE <> 0);
CREATE DOMAIN ledger_reason AS text CHECK (VALUE IN
    ('play_reward', 'milestone_spend', 'quest_reward', 'adjustment', 'reversal', 'code'));
CREATE DOMAIN turn_reason AS text CHECK (VALUE IN
    ('quest', 'play', 'adjustment', 'merge', 'prize', 'reversal', 'code'));
CREATE DOMAIN reward_state AS text CHECK (VALUE IN
    ('won', 'claimed', 'fulfilling', 'fulfilled', 'expired', 'revoked', 'failed'));
CREATE DOMAIN task_state AS text CHECK (VALUE IN
    ('pending', 'delivering', 'awaiting', 'retry', 'delivered', 'dead', 'cancelled'));

-- A time as unix seconds, the wire format; 0 if NULL.
CREATE FUNCTION unix(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(floor(extract(epoch FROM at))::bigint, 0);

-- Unix seconds as a stored time; NULL if 0.
CREATE FUNCTION at_unix(seconds bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_timestamp(nullif(seconds, 0));

-- A time as ISO 8601 text in UTC, for exports; NULL if NULL.
CREATE FUNCTION iso(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');

-- The database's clock in microseconds, at this moment rather than at the start of the transaction.
CREATE FUNCTION microseconds() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- A watermark: no row with an earlier created_at can still appear. Rows carry now(), the start of their transaction,
-- but become visible when it commits, so a reader that follows rows by time continues from here.
-- A transaction older than 10 s that has written nothing (a backup) is ignored.
CREATE FUNCTION settled_at() RETURNS timestamptz LANGUAGE sql STABLE
    RETURN least(now(), (
        SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND (backend_xid IS NOT NULL OR xact_start > now() - interval '10 seconds')
    ));

-- Fails the whole statement that calls it: the guard of a batch (SQLSTATE TB001).
CREATE FUNCTION refuse(guard text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'guard %', guard USING ERRCODE = 'TB001';
END $$;

-- ---------------------------------------------------------------- tenancy

-- catalog_version increases with every change to the tenant's campaigns, games or prizes. A commit names the version
-- that it was decided with, so no decision from a stale configuration is committed. sender: of its mails (name, address,
-- reply_to, and the sealed URL of its mail server as secret); {}: the installation's.
CREATE TABLE tenants (
    tenant_id       text COLLATE "C" NOT NULL PRIMARY KEY,
    name            text        NOT NULL,
    status          text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    catalog_version bigint      NOT NULL DEFAULT 1,
    origins         text[]      NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now(),
    sender          jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX tenants_origins ON tenants USING gin (origins);

-- Host names of brands. A row: the operator allows the tenant to use the host. campaign_id: the campaign whose page it
-- shows; '' none. A host belongs to one tenant and to one campaign.
CREATE TABLE hosts (
    tenant_id   text COLLATE "C" NOT NULL,
    host        text COLLATE "C" NOT NULL,
    campaign_id ident NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, host)
);
CREATE UNIQUE INDEX hosts_host ON hosts (host);

CREATE TABLE merchants (
    tenant_id   text COLLATE "C" NOT NULL,
    merchant_id ident       NOT NULL,
    name        text        NOT NULL,
    status      text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, merchant_id)
);

-- The searchable text of an audit entry: actor, action, subject, its name before and after, and the reason.
CREATE FUNCTION audit_words(actor text, action text, subject_id text, before jsonb, after jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN actor || ' ' || action || ' ' || subject_id || ' ' || coalesce(before ->> 'name', '') || ' '
    || coalesce(after ->> 'name', '') || ' ' || coalesce(after ->> 'reason', '');

-- The player that an audit entry is about: its subject, or the owner of the reward, delivery or score. NULL: none.
CREATE FUNCTION audit_player(subject_type text, subject_id text, before jsonb, after jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN subject_type = 'player' THEN subject_id ELSE coalesce(after ->> 'player_id', before ->> 'player_id') END;

CREATE TABLE audit_entries (
    tenant_id    text COLLATE "C" NOT NULL,
    entry_id     ident       NOT NULL,
    actor        text        NOT NULL,
    action       text        NOT NULL,
    subject_type text        NOT NULL,
    subject_id   text        NOT NULL,
    before       jsonb,
    after        jsonb,
    trace_id     text        NOT NULL DEFAULT '',
    -- The merchant on whose behalf the change was made; '': the tenant itself.
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
-- Recent entries, for the auditor (sql/conservation.sql); ledgers, turns and tasks have the same index. Rows are stored
-- in time order, so a BRIN index costs almost nothing.
CREATE INDEX audit_entries_time ON audit_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- Append-only for every database user: the trigger refuses to change or delete a row.
CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- Revokes UPDATE and DELETE too: default privileges (ops/database/roles.sql) grant them on every new table.
-- Other roles can still read and insert.
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

-- redeem_until: deadline for redeeming what was earned, after the campaign's end; NULL: ends with the campaign.
-- budget: planned total cost of the prizes, for alerts only, never enforced; 0: none.
-- entry: the entry form (EntryForm of game.proto, enums as stored tokens); NULL: none. entry_needs: what a complete entry
-- has, a list of [name, [accepted tokens of entries.given]]; NULL: no form. entry_since: when entry_needs was last changed.
-- messages: the e-mails to players (CampaignMessages of game.proto, enums as stored tokens); NULL: none.
CREATE TABLE campaigns (
    tenant_id    text COLLATE "C" NOT NULL,
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
    entry           jsonb,
    entry_needs     jsonb,
    entry_since     timestamptz,
    frozen          boolean NOT NULL DEFAULT false,
    messages        jsonb,
    tracking        jsonb,
    PRIMARY KEY (tenant_id, campaign_id)
);
CREATE INDEX campaigns_origins ON campaigns USING gin (origins) WHERE origins <> '{}';
CREATE INDEX campaigns_with_budget ON campaigns (tenant_id, campaign_id) WHERE budget > 0;
CREATE INDEX campaigns_with_origins ON campaigns (tenant_id) WHERE origins <> '{}';

-- The host names that show a campaign's page.
CREATE FUNCTION hosts_of(tenant text, campaign text) RETURNS text[] LANGUAGE sql STABLE
RETURN ARRAY(SELECT h.host FROM hosts AS h WHERE h.tenant_id = tenant AND h.campaign_id = campaign ORDER BY h.host);

-- The effective status: an active or paused campaign past its end has ended, whatever is stored; a draft has not.
-- A single expression, so that Postgres inlines it.
CREATE FUNCTION campaign_status(status text, end_date timestamptz) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN status IN ('active', 'paused') AND end_date <= now() THEN 'ended' ELSE status END;

-- The same local time `days` days later in the zone.
CREATE FUNCTION days_later(at timestamptz, days integer, zone text) RETURNS timestamptz LANGUAGE sql STABLE RETURN
    (at AT TIME ZONE zone + make_interval(days => days)) AT TIME ZONE zone;

-- The campaigns that a merchant's staff may read or, if `writing`, write: the merchant's own. For reading also those of
-- no merchant (the tenant's) and '', the campaign id of objects without a campaign. merchant '' is the tenant's staff,
-- who may do everything. Every statement that staff can reach has this condition.
CREATE FUNCTION campaigns_of(tenant text, merchant text, writing boolean) RETURNS SETOF ident LANGUAGE sql STABLE AS $$
    SELECT campaign_id FROM campaigns
    WHERE tenant_id = tenant AND (merchant = '' OR merchant_id = merchant OR (merchant_id = '' AND NOT writing))
    UNION ALL SELECT '' WHERE merchant = '' OR NOT writing
$$;

-- The current state of a game; game_revisions has the definition that each play used.
CREATE TABLE games (
    tenant_id   text COLLATE "C" NOT NULL,
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
    tenant_id  text COLLATE "C" NOT NULL,
    game_id    ident       NOT NULL,
    revision   integer     NOT NULL,
    definition jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, game_id, revision)
);

-- Test-mode runs by staff, kept for a day: the outcome frequencies and the first plays of each run. A test play changes
-- nothing else.
CREATE TABLE test_runs (
    tenant_id   text COLLATE "C" NOT NULL,
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

-- The terms that starts have committed to (runtime/actors/game/terms.py): the exact bytes whose SHA-256 a start returns
-- as revision_hash. Written before a start returns the hash and never deleted: a player may verify years later.
CREATE TABLE promised_terms (
    tenant_id     text COLLATE "C" NOT NULL,
    revision_hash ident       NOT NULL,
    game_id       ident       NOT NULL,
    terms         bytea       NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, revision_hash),
    CHECK (revision_hash = encode(sha256(terms), 'hex'))
);
CREATE INDEX promised_terms_game ON promised_terms (tenant_id, game_id, created_at);
CREATE INDEX promised_terms_time ON promised_terms (tenant_id, created_at);
CREATE TRIGGER promised_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON promised_terms
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- Every release schedule that a prize ever had, by its commitment, so that it can be opened after a change or a deletion.
CREATE TABLE promised_releases (
    tenant_id  text COLLATE "C" NOT NULL,
    commitment ident       NOT NULL,
    prize_id   ident       NOT NULL,
    release    jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, commitment)
);

-- The first half of the revision_hash in a session's token; NULL: the token has none.
CREATE FUNCTION promised_by(session_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN length(split_part(session_id, '.', 3)) >= 32 THEN left(split_part(session_id, '.', 3), 32) END;

-- The player that a session names: what follows its third dot.
CREATE FUNCTION session_player(session_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substr(session_id, 4 + length(split_part(session_id, '.', 1)) + length(split_part(session_id, '.', 2))
                              + length(split_part(session_id, '.', 3)));

-- low_stock_at: alert threshold for the remaining stock; 0: no alert.
CREATE TABLE prizes (
    tenant_id          text COLLATE "C" NOT NULL,
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
    -- The release schedule (runtime/operations/prizes/release.py); NULL: none.
    release            jsonb,
    PRIMARY KEY (tenant_id, prize_id)
);
-- Finds the few watched prizes without reading the others.
CREATE INDEX prizes_watched ON prizes (tenant_id, prize_id) WHERE low_stock_at > 0;

-- total 0: unlimited. Separate from prizes, so that the most contended row of the service is narrow.
CREATE TABLE stock (
    tenant_id text COLLATE "C" NOT NULL,
    prize_id  ident  NOT NULL,
    total     nonnegative NOT NULL DEFAULT 0,
    remaining nonnegative NOT NULL DEFAULT 0,
    awarded   nonnegative NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, prize_id),
    CHECK (CASE WHEN total = 0 THEN remaining = 0 ELSE total = remaining + awarded END)
) WITH (fillfactor = 40);

-- The history of a prize's total: in seq order, each row starts at the total where the previous one ended.
CREATE TABLE stock_moves (
    tenant_id        text COLLATE "C" NOT NULL,
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

-- Awards of a prize per local day (max_per_day).
CREATE TABLE prize_days (
    tenant_id text COLLATE "C" NOT NULL,
    prize_id  ident  NOT NULL,
    day       date   NOT NULL,
    awarded   nonnegative NOT NULL,
    PRIMARY KEY (tenant_id, prize_id, day)
) WITH (fillfactor = 40);

-- Awards of a prize per player, in total (max_per_user).
CREATE TABLE prize_players (
    tenant_id text COLLATE "C" NOT NULL,
    prize_id  ident  NOT NULL,
    player_id ident  NOT NULL,
    awarded   nonnegative NOT NULL,
    PRIMARY KEY (tenant_id, prize_id, player_id)
) WITH (fillfactor = 80);

-- A voucher code, encrypted with key key_id; code_hash finds duplicates.
-- A code is free if it is not assigned, withdrawn or expired.
CREATE TABLE codes (
    tenant_id   text COLLATE "C" NOT NULL,
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
-- By expiry: a win takes the code that expires first and skips no expired ones on the way.
CREATE INDEX codes_free ON codes (tenant_id, prize_id, expires_at, code_id)
    WHERE reward_id IS NULL AND withdrawn_at IS NULL;

-- The free codes of each pool, maintained by the trigger below: those that expire after counted_at. None of them
-- expires before ends_at. A play reads only this row of the pool.
CREATE TABLE code_pools (
    tenant_id  text COLLATE "C" NOT NULL,
    prize_id   ident       NOT NULL,
    free       bigint      NOT NULL DEFAULT 0,
    counted_at timestamptz NOT NULL DEFAULT '-infinity',
    ends_at    timestamptz NOT NULL DEFAULT 'infinity',
    PRIMARY KEY (tenant_id, prize_id)
) WITH (fillfactor = 50);

-- The codes of a pool per expiry time. free: neither assigned nor withdrawn; they leave the pool at their expiry.
-- Written only under the row lock of the pool.
CREATE TABLE code_ends (
    tenant_id  text COLLATE "C" NOT NULL,
    prize_id   ident       NOT NULL,
    expires_at timestamptz NOT NULL,
    free       bigint      NOT NULL,
    assigned   bigint      NOT NULL,
    withdrawn  bigint      NOT NULL,
    PRIMARY KEY (tenant_id, prize_id, expires_at)
) WITH (fillfactor = 50);

-- The free codes of each pool now. No row: it never had any.
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

-- Applies what a statement changed in codes to the pools' counters, at the end of that statement.
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

-- The effective state of a code.
CREATE FUNCTION code_state(reward_id text, withdrawn_at timestamptz, expires_at timestamptz) RETURNS text
    LANGUAGE sql STABLE RETURN
    CASE WHEN reward_id IS NOT NULL THEN 'assigned'
         WHEN withdrawn_at IS NOT NULL THEN 'withdrawn'
         WHEN expires_at <= now() THEN 'expired'
         ELSE 'free' END;

-- ---------------------------------------------------------------- processes and keys

-- Live processes and the newest migration of each: a migration must not remove what a live process uses
-- (sql/migrate.py). tenant_id is '', since a process serves every tenant.
CREATE TABLE processes (
    tenant_id  text COLLATE "C" NOT NULL,
    process_id ident       NOT NULL,
    process    text        NOT NULL,
    migration  text        NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT now(),
    -- The newest change of the directory that the process has read; NULL: it does not read it.
    directory_at timestamptz,
    PRIMARY KEY (tenant_id, process_id)
);

-- The process that runs each background job, until its lease ends (runtime/stores/leases.py). tenant_id is '', as above.
CREATE TABLE job_leases (
    tenant_id    text COLLATE "C" NOT NULL,
    job          ident       NOT NULL,
    holder_id    ident       NOT NULL,
    leased_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, job)
);

-- The keys that each live process knows of a kind (SERVER_KEYS, CODE_KEYS), and the one that it signs or encrypts with:
-- one that all processes know (runtime/stores/keyring.py). tenant_id is '', as above.
CREATE TABLE key_holders (
    tenant_id text COLLATE "C" NOT NULL,
    kind      text        NOT NULL CHECK (kind IN ('server', 'code')),
    holder_id ident       NOT NULL,
    process   text        NOT NULL,
    known     text[]      NOT NULL,
    used      text        NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind, holder_id)
);

-- Retired keys of CODE_KEYS: no process may encrypt with them again. `tombola keys rotate` re-encrypts, or has
-- re-encrypted, everything that used them. tenant_id is '', as above.
CREATE TABLE retired_keys (
    tenant_id  text COLLATE "C" NOT NULL,
    key_id     text        NOT NULL,
    retired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id)
);

-- The directory: the database (a name in DATABASES) of each tenant that does not live at home, or no longer does; 'home'
-- is the database at DATABASE_URL. Only home has rows. Processes follow changed_at (runtime/stores/databases.py).
CREATE TABLE tenant_databases (
    tenant_id  text COLLATE "C" NOT NULL PRIMARY KEY,
    database   text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- A move (runtime/stores/moving.py). moving_to: where its rows are being copied. paused_until: when the
    -- pause expires; until it is NULL again, no process sends a statement for the tenant. moved_from: where its old rows
    -- still are.
    moving_to    text        NOT NULL DEFAULT '',
    paused_until timestamptz,
    moved_from   text        NOT NULL DEFAULT ''
);
CREATE INDEX tenant_databases_changed ON tenant_databases (changed_at);

-- The advisory lock of a key: shared for encrypting with it, exclusive for retiring it.
CREATE FUNCTION key_lock(key_id text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended('tombola key ' || key_id, 0);

-- Fails if the key is retired (SQLSTATE TB002). Retiring waits for the shared locks of earlier writers, so rotation
-- misses no row, not even from a process that was suspended meanwhile.
CREATE FUNCTION lock_key(key text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(key_lock(key));
    IF EXISTS (SELECT FROM retired_keys WHERE tenant_id = '' AND key_id = key) THEN
        RAISE EXCEPTION 'key % is retired', key USING ERRCODE = 'TB002';
    END IF;
END $$;

CREATE FUNCTION lock_keys_of_new_codes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_key(used.key_id) FROM (SELECT DISTINCT key_id FROM added) AS used;
    RETURN NULL;
END $$;
CREATE TRIGGER codes_sealed AFTER INSERT ON codes REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION lock_keys_of_new_codes();

CREATE FUNCTION lock_key_of_code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_key(new.key_id);
    RETURN new;
END $$;
CREATE TRIGGER codes_resealed BEFORE UPDATE OF key_id ON codes FOR EACH ROW EXECUTE FUNCTION lock_key_of_code();

-- The encrypted values in a receiver's config: its secrets and header values.
CREATE FUNCTION sealed_in(config jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT held FROM (
        SELECT config ->> name AS held FROM unnest(ARRAY['secret', 'previous_secret']) AS name
        UNION ALL
        SELECT value
        FROM jsonb_each_text(CASE WHEN jsonb_typeof(config -> 'headers') = 'object' THEN config -> 'headers' END)
    ) AS h
    WHERE starts_with(held, 'sealed:')
$$;

-- Checks the keys of the encrypted values that this write adds to a config (the column that the trigger names).
CREATE FUNCTION lock_keys_of_config() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    config jsonb := to_jsonb(new) -> tg_argv[0];
    before jsonb := CASE WHEN tg_op = 'UPDATE' THEN to_jsonb(old) -> tg_argv[0] END;
BEGIN
    PERFORM lock_key(split_part(s, ':', 2)) FROM (SELECT sealed_in(config) EXCEPT SELECT sealed_in(before)) AS added (s);
    RETURN new;
END $$;
CREATE TRIGGER tenants_sealed BEFORE INSERT OR UPDATE OF sender ON tenants
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('sender');
CREATE TRIGGER prizes_sealed BEFORE INSERT OR UPDATE OF channel_config ON prizes
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('channel_config');

-- ---------------------------------------------------------------- players

-- The auth_method of a player without a row yet: guest ids have a recognizable form (runtime/ids.py).
CREATE FUNCTION first_known_as(player_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN starts_with(player_id, 'guest_') AND length(player_id) = 32 THEN 'guest' ELSE 'external' END;

-- erased_at: when the personal data was removed; the remaining rows keep the id (sql/erasure.sql). unsubscribed: the kinds
-- of messages that the player does not want.
CREATE TABLE players (
    tenant_id    text COLLATE "C" NOT NULL,
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
    unsubscribed text[]      NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, player_id)
);
-- Recently changed players: rankings show names.
CREATE INDEX players_updated ON players (tenant_id, updated_at);
CREATE INDEX players_merged ON players (tenant_id, merged_into) WHERE merged_into IS NOT NULL;

-- Kinds of messages that staff ended for an e-mail address, under keyed hashes of its canonical form.
CREATE TABLE message_stops (
    tenant_id    text COLLATE "C" NOT NULL,
    address_hash bytea  NOT NULL,
    kinds        text[] NOT NULL,
    PRIMARY KEY (tenant_id, address_hash)
);

CREATE TABLE contacts (
    tenant_id  text COLLATE "C" NOT NULL,
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

-- A login code sent to a contact. code_hash: an HMAC with the edge's secret. strong: the code is too long to guess.
-- requester: a hash of the client that requested it.
CREATE TABLE login_challenges (
    tenant_id    text COLLATE "C" NOT NULL,
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

-- Wrong codes for a contact since the last correct one, per requester. Requester '' counts all clients that never
-- proved to own the contact. proved_at: when this requester did. contact_hash: with the edges' key, which Core lacks.
-- fingerprint: the contact's hash with Core's key, by which an erasure finds the row.
CREATE TABLE login_guesses (
    tenant_id    text COLLATE "C" NOT NULL,
    contact_hash ident       NOT NULL,
    requester    ident       NOT NULL,
    wrong        integer     NOT NULL DEFAULT 0 CHECK (wrong >= 0),
    wait_until   timestamptz,
    proved_at    timestamptz,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    fingerprint  bytea       NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, contact_hash, requester)
);
CREATE INDEX login_guesses_contact ON login_guesses (tenant_id, fingerprint);
CREATE INDEX login_guesses_updated ON login_guesses (tenant_id, updated_at);
-- For the purge: otherwise it would scan the rows that are kept for a year each time.
CREATE INDEX login_guesses_unmarked ON login_guesses (tenant_id, updated_at) WHERE wrong = 0 AND proved_at IS NULL;

-- GCRA rate limits of logins and of audit entries about staff sign-ins. full_at: when the bucket is full again.
-- tenant_id is '' for limits across all tenants.
CREATE TABLE login_rates (
    tenant_id text COLLATE "C" NOT NULL,
    rate_key  ident       NOT NULL,
    full_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, rate_key)
);
CREATE INDEX login_rates_full ON login_rates (tenant_id, full_at);

-- A login: a family of refresh tokens, of which only the current `generation` is valid. The tokens carry an HMAC with
-- a secret that the database lacks. expires_at: idle expiry; ends_at: absolute expiry. turned_by: the client that used
-- the previous generation at turned_at; it may use it again within a grace period; '': none. repeated: whether it did.
-- repeats: generations in a row whose token was used again.
CREATE TABLE logins (
    tenant_id   text COLLATE "C" NOT NULL,
    login_id    ident       NOT NULL,
    player_id   ident       NOT NULL,
    merchant_id ident       NOT NULL DEFAULT '',
    generation  integer     NOT NULL DEFAULT 0 CHECK (generation >= 0),
    turned_by   ident       NOT NULL DEFAULT '',
    turned_at   timestamptz,
    repeated    boolean     NOT NULL DEFAULT false,
    repeats     integer     NOT NULL DEFAULT 0 CHECK (repeats >= 0),
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    ends_at     timestamptz NOT NULL,
    ended_at    timestamptz,
    PRIMARY KEY (tenant_id, login_id)
);
CREATE INDEX logins_player ON logins (tenant_id, player_id) WHERE ended_at IS NULL;
CREATE INDEX logins_expiry ON logins (tenant_id, expires_at);

-- When players logged in or renewed a login, in quarter hours, from which the local days of every time zone can be
-- derived. Quests count these days; the logins themselves are purged after they expire.
CREATE TABLE login_quarters (
    tenant_id text COLLATE "C" NOT NULL,
    player_id ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, player_id, quarter)
);

-- Tokens revoked early. kind: 'login' (the tokens of a login), 'player' (a player's tokens that belong to no login),
-- 'sign_in' (of a staff sign-in), 'staff' (of a staff subject), 'token' (an API token). issued_until: only tokens issued
-- until then; NULL: all. After expires_at the tokens have expired and the row is purged.
CREATE TABLE revocations (
    tenant_id    text COLLATE "C" NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('login', 'player', 'sign_in', 'staff', 'token')),
    subject      ident       NOT NULL,
    issued_until timestamptz,
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind, subject)
);
-- The edges poll for new rows, across all tenants.
CREATE INDEX revocations_time ON revocations (revoked_at, tenant_id, kind, subject);
CREATE INDEX revocations_expiry ON revocations (tenant_id, expires_at);

-- API tokens as SHA-256. A plain hash suffices: 256 random bits cannot be guessed, the hash can be indexed, and the
-- table reveals no token. used_at: the hour of the last use.
CREATE TABLE api_tokens (
    tenant_id   text COLLATE "C" NOT NULL,
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

-- play_id is the session's nonce, so the primary key makes a session single-use.
-- idempotency_key and request_hash let a retry find this row even if Valkey has lost its data.
-- surplus_wins, surplus_points: how much of wins and points a merge left with the guest because it exceeds a player's
-- limits (sql/merging.sql). NULL: none.
CREATE TABLE plays (
    tenant_id       text COLLATE "C" NOT NULL,
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
-- Recent plays of a tenant, for all that follows them (counts, alerts, backfill, rankings, auditor). By time alone, each
-- tenant's reader would read every tenant's plays. Plays of a batch have one time, which the index stores once.
CREATE INDEX plays_time ON plays (tenant_id, played_at);

-- The archive of a campaign that is over: its plays are in a dossier, and their rows are deleted
-- (runtime/operations/campaigns/archiving.py). number: what the log's leaves of these plays name. file_sha256: the dossier.
-- plays, digest, first_leaf, last_leaf: the file's plays (runtime/rules/log/digest.py). entry_id: the archive's audit entry;
-- '': the file is still compared with the log. Done before next_leaf: `counted` plays were compared, with the digest
-- `compared`, or deleted. finished_at NULL: some are still to be deleted.
CREATE TABLE play_archives (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident       NOT NULL,
    number      integer     NOT NULL,
    file_sha256 ident       NOT NULL,
    plays       bigint      NOT NULL CHECK (plays > 0),
    digest      ident       NOT NULL,
    first_leaf  bigint      NOT NULL,
    last_leaf   bigint      NOT NULL,
    next_leaf   bigint      NOT NULL,
    counted     bigint      NOT NULL DEFAULT 0,
    compared    bytea       NOT NULL DEFAULT '',
    entry_id    ident       NOT NULL DEFAULT '',
    started_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, campaign_id)
);
CREATE UNIQUE INDEX play_archives_number ON play_archives (tenant_id, number);

-- The campaign's archive as staff see it (CampaignArchive of game.proto). NULL: its plays are in the database.
CREATE FUNCTION archive_of(tenant text, campaign text) RETURNS jsonb LANGUAGE sql STABLE RETURN (
    SELECT jsonb_build_object('file_sha256', a.file_sha256, 'plays', a.plays, 'deleted', a.counted,
                              'started_at', unix(a.started_at), 'finished_at', unix(a.finished_at))
    FROM play_archives AS a WHERE a.tenant_id = tenant AND a.campaign_id = campaign AND a.entry_id <> '');

-- Whether plays of the campaign were deleted after they were archived.
CREATE FUNCTION is_archived(tenant text, campaign text) RETURNS boolean LANGUAGE sql STABLE RETURN EXISTS (
    SELECT FROM play_archives AS a WHERE a.tenant_id = tenant AND a.campaign_id = campaign AND a.entry_id <> '');

-- The games of archived campaigns.
CREATE FUNCTION archived_games(tenant text) RETURNS text[] LANGUAGE sql STABLE RETURN ARRAY(
    SELECT g.game_id FROM play_archives AS a
    JOIN games AS g ON g.tenant_id = tenant AND g.campaign_id = a.campaign_id
    WHERE a.tenant_id = tenant AND a.entry_id <> '');

-- A player's plays of a game: in total, and on the local day of the last play. If the campaign's time zone has moved
-- west since, `day` may be in the future; its plays then count for the current day.
-- busy_until: unix milliseconds up to which plays have used the player's time (runtime/actors/game/eligibility.py).
CREATE TABLE game_players (
    tenant_id  text COLLATE "C" NOT NULL,
    game_id    ident   NOT NULL,
    player_id  ident   NOT NULL,
    plays      nonnegative NOT NULL,
    day        date    NOT NULL,
    day_plays  nonnegative NOT NULL,
    busy_until bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, game_id, player_id)
) WITH (fillfactor = 80);

-- ---------------------------------------------------------------- wallet and turns

-- seq: the highest seq of the balance's entries. A movement takes the next numbers under the row lock, from
-- greatest(seq, microseconds()): they increase within a balance even if the clock steps back, and order the entries of
-- a player's balances by time.
CREATE TABLE balances (
    tenant_id  text COLLATE "C" NOT NULL,
    scope_key  ident       NOT NULL,
    currency   ident       NOT NULL,
    player_id  ident       NOT NULL,
    balance    nonnegative NOT NULL,
    seq        bigint      NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, scope_key, currency)
) WITH (fillfactor = 80);

-- The entries of a balance always add up to it; in seq order, each starts where the previous one ended.
-- reward_id: the reward that the movement paid for or credited, which a revoke reverses. '': none.
CREATE TABLE ledger_entries (
    tenant_id     text COLLATE "C" NOT NULL,
    entry_id      ident       NOT NULL,
    seq           bigint      NOT NULL,
    scope_key     ident       NOT NULL,
    currency      ident       NOT NULL,
    player_id     ident       NOT NULL,
    amount        nonzero NOT NULL,
    balance_after nonnegative NOT NULL,
    reason        ledger_reason NOT NULL,
    reference_id  text        NOT NULL,
    reward_id     ident       NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, seq, entry_id)
);
CREATE INDEX ledger_entries_adjustment ON ledger_entries (tenant_id, entry_id) WHERE reason = 'adjustment';
CREATE INDEX ledger_entries_time ON ledger_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- Idempotency keys of staff requests, written in the same transaction as their effect; a retry returns `reply`.
-- merchant_id: on whose behalf ('': the tenant). subject: the token's subject ('': a caller of Core).
-- route: the operation and the id in its path. reply: the encoded protobuf message.
CREATE TABLE keyed_requests (
    tenant_id       text COLLATE "C" NOT NULL,
    merchant_id     ident       NOT NULL DEFAULT '',
    subject         ident       NOT NULL,
    route           ident       NOT NULL,
    idempotency_key ident       NOT NULL,
    request_hash    bytea       NOT NULL,
    reply           bytea       NOT NULL DEFAULT '',
    requested_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, merchant_id, subject, route, idempotency_key)
);

-- Staff requests that need a second person's approval. request: the encoded protobuf message. route: the operation and
-- the id in its path. requested_by: the token's subject, who cannot approve it. One idempotency key of a requester is
-- one approval. waiting -> done | rejected | withdrawn | failed. An operation of several transactions is 'approved' while
-- it runs and can be rejected half done. rests_on: SHA-256 of the state it depends on, checked then; empty: none.
CREATE TABLE approvals (
    tenant_id       text COLLATE "C" NOT NULL,
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
    requested_by    text        NOT NULL,
    requested_at    timestamptz NOT NULL DEFAULT now(),
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
CREATE UNIQUE INDEX approvals_key ON approvals (tenant_id, merchant_id, requested_by, route, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX approvals_waiting ON approvals (tenant_id, approval_id) WHERE status = 'waiting';

-- The effective status: a request expires if nobody decides in time, or if an approved one makes no progress for
-- 7 days. A single expression, so that Postgres inlines it.
CREATE FUNCTION approval_status(status text, expires_at timestamptz, decided_at timestamptz) RETURNS text
    LANGUAGE sql STABLE RETURN
    CASE WHEN status = 'waiting' AND expires_at <= now() THEN 'expired'
         WHEN status = 'approved' AND decided_at <= now() - interval '7 days' THEN 'expired'
         ELSE status END;

CREATE TABLE turn_balances (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident       NOT NULL,
    player_id   ident       NOT NULL,
    balance     nonnegative NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, campaign_id)
) WITH (fillfactor = 80);

CREATE TABLE turn_entries (
    tenant_id     text COLLATE "C" NOT NULL,
    entry_id      ident       NOT NULL,
    campaign_id   ident       NOT NULL,
    player_id     ident       NOT NULL,
    amount        nonzero NOT NULL,
    balance_after nonnegative NOT NULL,
    reason        turn_reason NOT NULL,
    reference_id  text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, entry_id)
);
CREATE INDEX turn_entries_time ON turn_entries USING brin (created_at) WITH (autosummarize = on, pages_per_range = 32);

-- ---------------------------------------------------------------- rewards and delivery

-- won -> claimed -> fulfilling -> fulfilled; also expired, revoked, failed. sql/claims.sql and the statements beside it
-- define the transitions. name, type and value are copied from the prize at the win.
-- A reward that is expired, failed, or revoked before its code was shown holds no stock and no code.
CREATE TABLE rewards (
    tenant_id    text COLLATE "C" NOT NULL,
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
    quantity     positive_int     NOT NULL,
    status       reward_state     NOT NULL DEFAULT 'won',
    claim_key    text,
    won_at       timestamptz      NOT NULL DEFAULT now(),
    claimed_at   timestamptz,
    fulfilled_at timestamptz,
    expires_at   timestamptz,
    PRIMARY KEY (tenant_id, reward_id)
) WITH (fillfactor = 80);
CREATE INDEX rewards_player ON rewards (tenant_id, player_id, reward_id);
-- For reports and audits. Counters in their place would save 1 % of a play's CPU in a batch of 24, and cost 4 % in one of
-- a single play. Without the status, a change of it keeps the entries' keys.
CREATE INDEX rewards_prize ON rewards (tenant_id, prize_id);
CREATE INDEX rewards_campaign ON rewards (tenant_id, campaign_id);
-- Rewards without a play, and claims, by time, for the backfill (sql/backfill.sql) and the log: a play writes to neither
-- index.
CREATE INDEX rewards_unplayed ON rewards (tenant_id, won_at) WHERE play_id = '';
CREATE INDEX rewards_claimed ON rewards (tenant_id, claimed_at) WHERE claimed_at IS NOT NULL;
-- The same for rewards fulfilled after the win.
CREATE INDEX rewards_fulfilled_later ON rewards (tenant_id, fulfilled_at) WHERE fulfilled_at > won_at;
CREATE INDEX rewards_expiry ON rewards (tenant_id, expires_at) WHERE status = 'won' AND expires_at IS NOT NULL;

-- The winner's answers to the claim form, with the labels shown at that time: a list of key, label and value.
-- Personal data: deleted when the player is erased.
CREATE TABLE claim_answers (
    tenant_id  text COLLATE "C" NOT NULL,
    reward_id  ident       NOT NULL,
    answers    jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, reward_id)
);

-- Validates claim answers (an object of non-empty texts) against a prize's claim_fields. Returns a list of [key,
-- problem], problem being required, unknown, option, long or lines. NULL: valid.
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

-- Answers in stored form: a list of key, label and value, in field order.
CREATE FUNCTION answers_as_list(fields jsonb, answers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN (
    SELECT coalesce(jsonb_agg(jsonb_build_object('key', f.field ->> 'key', 'label', f.field ->> 'label',
                                                 'value', answers ->> (f.field ->> 'key')) ORDER BY f.nth), '[]')
    FROM jsonb_array_elements(fields) WITH ORDINALITY AS f (field, nth)
    WHERE answers ? (f.field ->> 'key')
);

-- The reverse: an object of texts.
CREATE FUNCTION answers_as_object(answers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN (
    SELECT coalesce(jsonb_object_agg(a ->> 'key', a ->> 'value'), '{}') FROM jsonb_array_elements(answers) AS a
);

-- What a list of needs (campaigns.entry_needs) lacks in an entry with these tokens: names. NULL: complete, or nothing is
-- needed. given NULL: there is no entry.
CREATE FUNCTION entry_missing(needs jsonb, given text[]) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN needs IS NOT NULL THEN coalesce((
        SELECT jsonb_agg(n.need -> 0 ORDER BY n.nth)
        FROM jsonb_array_elements(needs) WITH ORDINALITY AS n (need, nth)
        WHERE given IS NULL OR NOT (n.need -> 1) ?| given
    ), CASE WHEN given IS NULL THEN '["entry"]'::jsonb END) END;

-- The first country among an entry's tokens that its form does not admit; '' if none is known and only some are admitted.
-- NULL: admitted. As barred_country of runtime/rules/entry.py.
CREATE FUNCTION barred_country(form jsonb, given text[]) RETURNS text LANGUAGE sql IMMUTABLE RETURN (
    SELECT min(n.country)
    FROM (
        SELECT substr(token, length('country:') + 1) FROM unnest(given) AS token WHERE starts_with(token, 'country:')
        UNION ALL
        SELECT '' WHERE NOT EXISTS (SELECT FROM unnest(given) AS token WHERE starts_with(token, 'country:'))
    ) AS n (country)
    WHERE form #> '{countries,deny}' ? n.country
       OR (form #> '{countries,allow}' <> '[]' AND NOT form #> '{countries,allow}' ? n.country)
);

-- The tokens of a form's consents: one for each language's text.
CREATE FUNCTION consent_tokens(form jsonb) RETURNS text[] LANGUAGE sql STABLE RETURN ARRAY(
    SELECT 'consent:' || (k ->> 'id') || ':' || encode(sha256(convert_to(t.value, 'UTF8')), 'hex')
    FROM jsonb_array_elements(form -> 'consents') AS k CROSS JOIN LATERAL jsonb_each_text(k -> 'text') AS t
);

-- Whether a consent is in force: an entry's tokens have it with a text that the form has now. tokens: consent_tokens.
CREATE FUNCTION consent_in_force(consent text, given text[], tokens text[]) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN
    EXISTS (SELECT FROM unnest(given) AS t (token)
            WHERE starts_with(t.token, 'consent:' || consent || ':') AND t.token = ANY (tokens));

-- The e-mail address or phone number in an entry's fields: that of the form's first such field with a value. NULL: none.
CREATE FUNCTION entry_contact(form jsonb, fields jsonb, kind text) RETURNS text LANGUAGE sql IMMUTABLE RETURN (
    SELECT fields ->> (f.field ->> 'key')
    FROM jsonb_array_elements(form -> 'fields') WITH ORDINALITY AS f (field, nth)
    WHERE f.field ->> 'kind' = kind AND jsonb_typeof(fields -> (f.field ->> 'key')) = 'string'
    ORDER BY f.nth LIMIT 1
);

-- A player's entry to a campaign. fields: values by key. given: tokens of its complete parts, which campaigns.entry_needs
-- lists: field:KEY:KIND, age:YEARS, consent:ID:SHA256, and country:CODE. revision: increases with every change; a play's
-- commit names the revision that it was decided with. age, age_on: the age that was proven and when; the date of birth is not
-- stored. country: by the trusted proxy's header. counted: toward the campaign's max_entries, since it was once complete.
-- late: no ticket in draws, since it was first completed after the campaign's end. source: where the player came from
-- (EntrySource of game.proto), from the first submission; {}: unknown. has_guests: a merged guest's entry ended in it.
CREATE TABLE entries (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident       NOT NULL,
    player_id   ident       NOT NULL,
    entry_id    ident       NOT NULL,
    revision    integer     NOT NULL DEFAULT 1,
    fields      jsonb       NOT NULL DEFAULT '{}',
    given       text[]      NOT NULL DEFAULT '{}',
    age         integer     NOT NULL DEFAULT 0,
    age_on      date,
    country     text        NOT NULL DEFAULT '',
    locale      text        NOT NULL DEFAULT '',
    counted     boolean     NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    source      jsonb       NOT NULL DEFAULT '{}',
    has_guests  boolean     NOT NULL DEFAULT false,
    late        boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, campaign_id, player_id)
);
CREATE UNIQUE INDEX entries_id ON entries (tenant_id, entry_id);
CREATE INDEX entries_player ON entries (tenant_id, player_id, campaign_id);
-- New entries with a source, for the counts of plays by source.
CREATE INDEX entries_sourced ON entries (tenant_id, created_at) WHERE source <> '{}';

-- An entry's source as in reports: the utm_source or the referrer, and the other parts, each of at most 100 characters.
CREATE FUNCTION source_parts(stored jsonb, OUT source text, OUT medium text, OUT utm_campaign text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(coalesce(stored ->> 'utm_source', stored ->> 'referrer', ''), 100),
           left(coalesce(stored ->> 'utm_medium', ''), 100), left(coalesce(stored ->> 'utm_campaign', ''), 100)
$$;

-- Receipts: each decision about a consent, with the text that was shown. revision: the entry's, of that decision;
-- negative: moved from a merged guest's entry, older than all others.
CREATE TABLE entry_consents (
    tenant_id   text COLLATE "C" NOT NULL,
    entry_id    ident       NOT NULL,
    consent_id  ident       NOT NULL,
    revision    integer     NOT NULL,
    given       boolean     NOT NULL,
    text_sha256 ident       NOT NULL,
    locale      text        NOT NULL DEFAULT '',
    actor       text        NOT NULL DEFAULT '',
    decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, entry_id, consent_id, revision)
);

-- The texts that players have consented to. Never deleted: a receipt names its text years later.
CREATE TABLE entry_texts (
    tenant_id   text COLLATE "C" NOT NULL,
    text_sha256 ident NOT NULL,
    text        text  NOT NULL,
    PRIMARY KEY (tenant_id, text_sha256),
    CHECK (text_sha256 = encode(sha256(convert_to(text, 'UTF8')), 'hex'))
);

-- The latest decision about each consent of an entry, as a list. given: whether its token is among the entry's (held) and
-- the form's (tokens); outdated: among the entry's only.
CREATE FUNCTION entry_decisions(tenant text, entry text, held text[], tokens text[]) RETURNS jsonb LANGUAGE sql STABLE RETURN (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'id', k.consent_id, 'given', k.is_held AND k.token = ANY (tokens),
        'outdated', k.is_held AND k.token <> ALL (tokens), 'text_sha256', k.text_sha256, 'locale', k.locale,
        'decided_at', unix(k.decided_at), 'text', coalesce(t.text, '')
    ) ORDER BY k.consent_id), '[]')
    FROM (
        SELECT DISTINCT ON (consent_id) o.*, t.token, o.given AND t.token = ANY (held) AS is_held
        FROM entry_consents AS o
        CROSS JOIN LATERAL (SELECT concat('consent:', o.consent_id, ':', o.text_sha256) AS token) AS t
        WHERE o.tenant_id = tenant AND o.entry_id = entry ORDER BY o.consent_id, o.revision DESC
    ) AS k
    LEFT JOIN entry_texts AS t ON t.tenant_id = tenant AND t.text_sha256 = k.text_sha256
);

-- Keyed hashes of the canonical contacts of a campaign with one entry per contact. A changed contact keeps its row, so
-- that it cannot be used for another entry.
CREATE TABLE entry_contacts (
    tenant_id    text COLLATE "C" NOT NULL,
    campaign_id  ident NOT NULL,
    contact_hash bytea NOT NULL,
    entry_id     ident NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id, contact_hash)
);
CREATE INDEX entry_contacts_entry ON entry_contacts (tenant_id, entry_id);

-- The number of entries of a campaign with max_entries; no row: not counted.
CREATE TABLE entry_counts (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident  NOT NULL,
    entries     bigint NOT NULL CHECK (entries >= 0),
    PRIMARY KEY (tenant_id, campaign_id)
);

-- Solved captchas, each of which counts once.
CREATE TABLE entry_captchas (
    tenant_id  text COLLATE "C" NOT NULL,
    digest     bytea       NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, digest)
);
CREATE INDEX entry_captchas_expiry ON entry_captchas (tenant_id, expires_at);

-- Idempotency keys of the entries submitted in the last 30 days, with the reply.
CREATE TABLE entry_keys (
    tenant_id       text COLLATE "C" NOT NULL,
    player_id       ident NOT NULL,
    campaign_id     ident NOT NULL,
    idempotency_key text  NOT NULL,
    request_hash    bytea NOT NULL,
    reply           json  NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, player_id, campaign_id, idempotency_key)
);
CREATE INDEX entry_keys_age ON entry_keys (tenant_id, created_at);

-- The outbox: one row per delivery, written in the transaction that made it due.
-- pending -> delivering (leased) -> delivered | awaiting | retry | dead; cancelled. sql/fulfillment.sql defines the
-- transitions. lease_until: when another worker may take over a delivery; when an awaited one times out (NULL: never).
CREATE TABLE tasks (
    tenant_id       text COLLATE "C" NOT NULL,
    task_id         ident       NOT NULL,
    reward_id       ident       NOT NULL,
    prize_id        ident       NOT NULL,
    campaign_id     ident       NOT NULL,
    player_id       ident       NOT NULL,
    channel         text        NOT NULL,
    status          task_state  NOT NULL,
    attempts        nonnegative_int NOT NULL DEFAULT 0,
    last_error      text        NOT NULL DEFAULT '',
    external_id     text        NOT NULL DEFAULT '',
    next_attempt_at timestamptz,
    lease_until     timestamptz,
    lease_owner     text        NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    -- The last finished attempt: its time (NULL: none), its duration, and the start of the receiver's response.
    tried_at        timestamptz,
    duration_ms     integer     NOT NULL DEFAULT 0,
    answer          text        NOT NULL DEFAULT '',
    -- Earlier attempts, as append_attempt() builds them.
    earlier         jsonb       NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, task_id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX tasks_reward ON tasks (tenant_id, reward_id);
-- By prize: lets workers skip any backlog of a receiver that hangs.
CREATE INDEX tasks_due ON tasks (tenant_id, prize_id, next_attempt_at) WHERE status IN ('pending', 'retry');
CREATE INDEX tasks_leased ON tasks (tenant_id, lease_until) WHERE status = 'delivering';
CREATE INDEX tasks_awaited ON tasks (tenant_id, lease_until) WHERE status = 'awaiting';
CREATE INDEX tasks_time ON tasks USING brin (updated_at) WITH (autosummarize = on, pages_per_range = 32);
-- For the backfill (sql/backfill.sql).
CREATE INDEX tasks_dead ON tasks (tenant_id, updated_at) WHERE status = 'dead';

-- Appends an attempt to a task's earlier ones and keeps the last 20: unix time of its end, duration, error ('' if it
-- succeeded), and the start of the receiver's response.
CREATE FUNCTION append_attempt(earlier jsonb, tried_at timestamptz, duration_ms integer, error text, answer text)
RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN jsonb_array_length(earlier) < 20 THEN earlier ELSE earlier - 0 END
    || jsonb_build_object('tried_at', unix(tried_at), 'duration_ms', duration_ms, 'error', error, 'answer', answer);

-- A signed callback's id, after its prize's id, belongs to one task, for ever; `uses` counts its deliveries.
CREATE TABLE callbacks (
    tenant_id   text COLLATE "C" NOT NULL,
    callback_id text        NOT NULL,
    task_id     ident       NOT NULL,
    uses        integer     NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, callback_id)
);

-- The effective status of a reward: one that was not claimed in time is expired even before the job records it. One with
-- a due delivery (`tasked`: it has a task) does not expire. A single expression, so that Postgres inlines it.
CREATE FUNCTION reward_status(status text, expires_at timestamptz, tasked boolean) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN status = 'won' AND expires_at <= now() AND NOT tasked THEN 'expired' ELSE status END;

-- What players see of a prize; empty values if NULL (the prize was deleted).
CREATE FUNCTION prize_content(prize prizes) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
    jsonb_build_object('description', coalesce(prize.description, ''), 'image_url', coalesce(prize.image_url, ''),
                       'terms', coalesce(prize.terms, ''), 'currency', coalesce(prize.currency, ''),
                       'claim_fields', coalesce(prize.claim_fields, '[]'));

-- ---------------------------------------------------------------- milestones

-- One grant of a milestone to a player, in either mode: the primary key makes it happen once.
-- reply: the response to a redeem, for its retries; NULL for a milestone granted inside a play.
CREATE TABLE milestone_grants (
    tenant_id       text COLLATE "C" NOT NULL,
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

-- condition: {kind, count, game_id} that the player must meet; null: the player reports completion. signing: encrypted
-- secrets of the systems that may report events (condition kind 'event'); {}: none.
CREATE TABLE quests (
    tenant_id   text COLLATE "C" NOT NULL,
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
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('signing');

-- Events about players that the tenant's own systems reported, each once per quest.
CREATE TABLE quest_events (
    tenant_id   text COLLATE "C" NOT NULL,
    quest_id    ident       NOT NULL,
    event_id    ident       NOT NULL,
    player_id   ident       NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, quest_id, event_id)
);
CREATE INDEX quest_events_player ON quest_events (tenant_id, player_id, quest_id, reported_at);

-- period: 'once', a local day '2026-11-21', an ISO week '2026-W47', or 'referral-3' for the third that a player was paid.
-- event_id: id of the completion event, which stays the same if the player is merged into another.
CREATE TABLE quest_completions (
    tenant_id       text COLLATE "C" NOT NULL,
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

-- The code in the links that a player shares for a campaign. A merged guest's code stays valid for its player.
CREATE TABLE referral_codes (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident NOT NULL,
    code        ident NOT NULL,
    player_id   ident NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id, code)
);
CREATE UNIQUE INDEX referral_codes_player ON referral_codes (tenant_id, player_id, campaign_id);

-- Players who came to a campaign by the code of an inviter. outcome: 'open' until it is decided, then 'paid' or why not:
-- the player is the inviter ('own'), had played before ('played'), or has a contact that was paid for ('contact'), or
-- the inviter has reached the quest's count ('limit').
CREATE TABLE referrals (
    tenant_id   text COLLATE "C" NOT NULL,
    player_id   ident       NOT NULL,
    campaign_id ident       NOT NULL,
    inviter_id  ident       NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    outcome     text        NOT NULL DEFAULT 'open' CHECK (outcome IN ('open', 'paid', 'own', 'played', 'contact', 'limit')),
    decided_at  timestamptz,
    PRIMARY KEY (tenant_id, player_id, campaign_id)
);
CREATE INDEX referrals_paid ON referrals (tenant_id, inviter_id) WHERE outcome = 'paid';
CREATE INDEX referrals_open ON referrals (tenant_id, accepted_at, player_id, campaign_id) WHERE outcome = 'open';

-- Keyed hashes of the canonical contacts that a campaign has paid a referral for. Kept after an erasure, so that a new
-- account of the same person is not paid for again.
CREATE TABLE referral_contacts (
    tenant_id    text COLLATE "C" NOT NULL,
    campaign_id  ident NOT NULL,
    contact_hash bytea NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id, contact_hash)
);

-- The quest for which a campaign takes referrals now: the oldest active one between its dates. NULL: none.
CREATE FUNCTION referral_quest(tenant text, campaign text) RETURNS ident LANGUAGE sql STABLE RETURN (
    SELECT min(q.quest_id) FROM quests AS q
    WHERE q.tenant_id = tenant AND q.campaign_id = campaign AND q.status = 'active'
      AND q.condition ->> 'kind' = 'referrals'
      AND coalesce(q.start_date, '-infinity') <= now() AND coalesce(q.end_date, 'infinity') > now()
);

-- Whether the game that a quest's condition names belongs to the campaign; true if it names none.
CREATE FUNCTION has_game_of_condition(tenant text, campaign text, condition jsonb) RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(condition ->> 'game_id', '') = '' OR EXISTS (
    SELECT FROM games AS g
    WHERE g.tenant_id = tenant AND g.game_id = condition ->> 'game_id' AND g.campaign_id = campaign);

-- A player's progress on a quest's condition since a time (NULL: ever): plays of the campaign's games or of one game,
-- prizes won by them, points credited for them, local days with a login, events reported for the quest, or referrals that
-- were paid. A merged guest's wins and points count without the surplus.
CREATE FUNCTION quest_progress(
    tenant text, player text, quest text, campaign text, condition jsonb, since timestamptz)
RETURNS bigint LANGUAGE sql STABLE RETURN CASE WHEN condition ->> 'kind' = 'event' THEN (
    SELECT count(*) FROM quest_events AS e
    WHERE e.tenant_id = tenant AND e.player_id = player AND e.quest_id = quest AND (since IS NULL OR e.reported_at >= since)
) WHEN condition ->> 'kind' = 'referrals' THEN (
    SELECT count(*) FROM quest_completions AS d WHERE d.tenant_id = tenant AND d.quest_id = quest AND d.player_id = player
) WHEN condition ->> 'kind' = 'logins' THEN (
    SELECT count(DISTINCT (q.quarter AT TIME ZONE c.timezone)::date)
    FROM campaigns AS c
    JOIN login_quarters AS q ON q.tenant_id = tenant AND q.player_id = player
    WHERE c.tenant_id = tenant AND c.campaign_id = campaign
      AND (since IS NULL OR q.quarter >= date_bin('15 minutes', since, 'epoch'))
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

-- ---------------------------------------------------------------- packs of codes

-- The secret that keys the hashes of a campaign's codes, encrypted with CODE_KEYS. A rotation re-encrypts it; the hashes
-- stay valid.
CREATE TABLE pack_keys (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident NOT NULL,
    sealed      jsonb NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id)
);
CREATE TRIGGER pack_keys_sealed BEFORE INSERT OR UPDATE OF sealed ON pack_keys
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('sealed');

-- A code or receipt gives either turns, or an amount of a currency. codes, withdrawn: counts of pack_codes. signing: the
-- secrets of its receipts. until NULL: until the campaign ends.
CREATE TABLE packs (
    tenant_id   text COLLATE "C" NOT NULL,
    pack_id     ident       NOT NULL,
    campaign_id ident       NOT NULL,
    name        text        NOT NULL,
    status      text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'archived')),
    turns       integer     NOT NULL CHECK (turns >= 0),
    currency    ident       NOT NULL DEFAULT '',
    scope_key   ident       NOT NULL DEFAULT '',
    amount      bigint      NOT NULL CHECK (amount >= 0),
    until       timestamptz,
    codes       integer     NOT NULL DEFAULT 0 CHECK (codes >= 0),
    withdrawn   integer     NOT NULL DEFAULT 0 CHECK (withdrawn >= 0),
    signing     jsonb       NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, pack_id),
    CHECK ((turns > 0) <> (amount > 0))
);
CREATE INDEX packs_campaign ON packs (tenant_id, campaign_id, pack_id);
CREATE TRIGGER packs_sealed BEFORE INSERT OR UPDATE OF signing ON packs
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('signing');

-- The codes of a campaign's packs, each once, as keyed hashes. redemption_id: the code is used.
CREATE TABLE pack_codes (
    tenant_id     text COLLATE "C" NOT NULL,
    campaign_id   ident NOT NULL,
    code_hash     bytea NOT NULL,
    pack_id       ident NOT NULL,
    redemption_id ident,
    withdrawn_at  timestamptz,
    PRIMARY KEY (tenant_id, campaign_id, code_hash),
    CHECK (redemption_id IS NULL OR withdrawn_at IS NULL)
) WITH (fillfactor = 90);

-- What a player got for a code or a receipt; turns and amount as in the pack at that time.
CREATE TABLE redemptions (
    tenant_id       text COLLATE "C" NOT NULL,
    redemption_id   ident       NOT NULL,
    pack_id         ident       NOT NULL,
    campaign_id     ident       NOT NULL,
    player_id       ident       NOT NULL,
    code_hash       bytea,
    receipt_id      ident,
    turns           integer     NOT NULL,
    currency        ident       NOT NULL,
    scope_key       ident       NOT NULL,
    amount          bigint      NOT NULL,
    balance_after   bigint      NOT NULL,
    idempotency_key text,
    request_hash    bytea,
    redeemed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, redemption_id),
    CHECK ((code_hash IS NULL) <> (receipt_id IS NULL))
);
CREATE INDEX redemptions_time ON redemptions (tenant_id, redeemed_at, redemption_id);
CREATE INDEX redemptions_player ON redemptions (tenant_id, player_id, redemption_id);
CREATE INDEX redemptions_pack ON redemptions (tenant_id, pack_id, redemption_id);
CREATE UNIQUE INDEX redemptions_receipt ON redemptions (tenant_id, pack_id, receipt_id) WHERE receipt_id IS NOT NULL;
CREATE UNIQUE INDEX redemptions_idempotency ON redemptions (tenant_id, player_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- Wrong codes of a player, of an address or network, or in a campaign. level: their number, less what has leaked until
-- updated_at (a leaky bucket). wait_until: no further guess before this time.
CREATE TABLE code_guesses (
    tenant_id  text COLLATE "C" NOT NULL,
    guesser    ident            NOT NULL,
    level      double precision NOT NULL,
    wait_until timestamptz,
    updated_at timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, guesser)
);
CREATE INDEX code_guesses_updated ON code_guesses (tenant_id, updated_at);

-- ---------------------------------------------------------------- leaderboards

CREATE TABLE leaderboards (
    tenant_id    text COLLATE "C" NOT NULL,
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
    tenant_id  text COLLATE "C" NOT NULL,
    entry_id   ident       NOT NULL,
    board_id   ident       NOT NULL,
    player_id  ident       NOT NULL,
    delta      bigint      NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, board_id, player_id, entry_id)
);

CREATE TABLE leaderboard_disqualifications (
    tenant_id       text COLLATE "C" NOT NULL,
    board_id        ident       NOT NULL,
    player_id       ident       NOT NULL,
    reason          text        NOT NULL,
    disqualified_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, board_id, player_id)
);

-- The final ranking, taken when a board is finalized, or the drawn ranks of a draw (board_id is the draw's, score the
-- holder's tickets). `reason` is PENDING until the commit that awards the rank's prize; then it is empty, or says why
-- there was no prize. Before a draw is confirmed it is DRAWN or ALTERNATE; REPLACED: an alternate has the prize.
CREATE TABLE leaderboard_standings (
    tenant_id    text COLLATE "C" NOT NULL,
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
CREATE INDEX leaderboard_standings_prize ON leaderboard_standings (tenant_id, prize_id) WHERE prize_id <> '';

-- ---------------------------------------------------------------- draws

-- A picture or font. asset_id has the SHA-256 of the body, so equal files are one asset. merchant_id: '' for the tenant.
-- object: the key in the object storage, instead of a body. position: microseconds, orders the list. No play reads this
-- table.
CREATE TABLE assets (
    tenant_id   text COLLATE "C" NOT NULL,
    asset_id    ident       NOT NULL,
    merchant_id ident       NOT NULL,
    name        text        NOT NULL,
    type        text        NOT NULL,
    body        bytea,
    object      text,
    size        integer     NOT NULL CHECK (size > 0),
    width       integer     NOT NULL,
    height      integer     NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    position    bigint      NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    PRIMARY KEY (tenant_id, asset_id),
    CHECK ((body IS NULL) <> (object IS NULL))
);
CREATE INDEX assets_listed ON assets (tenant_id, position, asset_id) INCLUDE (size);
-- The bodies are compressed already.
ALTER TABLE assets ALTER COLUMN body SET STORAGE EXTERNAL;

-- Objects in the object storage that are to be deleted after due_at: those of deleted assets, and of uploads until their
-- asset is stored. A key is used once, so no asset refers to an object of this table.
CREATE TABLE asset_removals (
    tenant_id text COLLATE "C" NOT NULL,
    object    text        NOT NULL,
    due_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, object)
);
CREATE INDEX asset_removals_due ON asset_removals (due_at, tenant_id);

-- A prize draw. randomness has its kind and terms, once drawn also the value; for a secret seed the id of the server key
-- that it is derived from. salt: of the holders' pseudonyms. result: [{ticket, holder}] by rank.
CREATE TABLE draws (
    tenant_id    text COLLATE "C" NOT NULL,
    draw_id      ident       NOT NULL,
    campaign_id  ident       NOT NULL,
    name         text        NOT NULL,
    status       text        NOT NULL DEFAULT 'open'
                 CHECK (status IN ('open', 'closed', 'drawn', 'confirmed', 'cancelled')),
    tickets      jsonb       NOT NULL,
    prizes       jsonb       NOT NULL,
    alternates   integer     NOT NULL DEFAULT 0 CHECK (alternates >= 0),
    closes_at    timestamptz,
    randomness   jsonb       NOT NULL,
    salt         bytea       NOT NULL,
    tickets_root text        NOT NULL DEFAULT '',
    ticket_count bigint      NOT NULL DEFAULT 0,
    holder_count integer     NOT NULL DEFAULT 0,
    result       jsonb       NOT NULL DEFAULT '[]',
    result_hash  text        NOT NULL DEFAULT '',
    closed_at    timestamptz,
    drawn_at     timestamptz,
    confirmed_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, draw_id)
);
CREATE INDEX draws_campaign ON draws (tenant_id, campaign_id, draw_id);

-- The imported ticket list of a draw. The tickets of a guest that became a player count as the player's.
CREATE TABLE draw_lists (
    tenant_id text COLLATE "C" NOT NULL,
    draw_id   ident  NOT NULL,
    player_id ident  NOT NULL,
    tickets   bigint NOT NULL CHECK (tickets > 0),
    set_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, draw_id, player_id)
);

-- The tickets of a closed draw: a holder's are first_ticket up to first_ticket + tickets - 1.
CREATE TABLE draw_tickets (
    tenant_id    text COLLATE "C" NOT NULL,
    draw_id      ident  NOT NULL,
    first_ticket bigint NOT NULL CHECK (first_ticket >= 0),
    tickets      bigint NOT NULL CHECK (tickets > 0),
    player_id    ident  NOT NULL,
    holder       text   NOT NULL,
    PRIMARY KEY (tenant_id, draw_id, first_ticket)
);
CREATE INDEX draw_tickets_player ON draw_tickets (tenant_id, player_id, draw_id);

-- A player's pseudonym in a draw: 128 bits of a salted hash, in hex.
CREATE FUNCTION pseudonym(salt bytea, player_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN left(encode(sha256(salt || convert_to(player_id, 'UTF8')), 'hex'), 32);

-- Whether a player, or the player that a guest became, is suspended.
CREATE FUNCTION is_suspended(tenant text, player text) RETURNS boolean LANGUAGE sql STABLE RETURN EXISTS (
    SELECT FROM players AS p
    JOIN players AS o ON o.tenant_id = tenant AND o.player_id = coalesce(p.merged_into, p.player_id)
    WHERE p.tenant_id = tenant AND p.player_id = player AND o.status = 'suspended'
);

-- Whether a player, or the player that a guest became, was erased and has not come back since. Rewards, their credits and
-- invited players are no sign of it: a draw may award one, and an earlier code may invite others.
CREATE FUNCTION is_erased(tenant text, player text) RETURNS boolean LANGUAGE sql STABLE RETURN EXISTS (
    SELECT FROM players AS p
    JOIN players AS o ON o.tenant_id = tenant AND o.player_id = coalesce(p.merged_into, p.player_id)
    WHERE p.tenant_id = tenant AND p.player_id = player AND o.erased_at IS NOT NULL AND o.updated_at <= o.erased_at
      AND NOT EXISTS (SELECT FROM contacts AS c WHERE c.tenant_id = tenant AND c.player_id = o.player_id)
      AND NOT EXISTS (
          SELECT FROM logins AS l WHERE l.tenant_id = tenant AND l.player_id = o.player_id AND l.ended_at IS NULL)
      AND NOT EXISTS (
          SELECT FROM entries AS e
          WHERE e.tenant_id = tenant AND e.player_id = o.player_id
            AND (e.fields <> '{}' OR e.given <> '{}' OR e.created_at > o.erased_at))
      AND NOT EXISTS (
          SELECT FROM rewards AS w JOIN claim_answers AS a ON a.tenant_id = tenant AND a.reward_id = w.reward_id
          WHERE w.tenant_id = tenant AND w.player_id = o.player_id)
      AND NOT EXISTS (
          SELECT FROM plays AS y
          WHERE y.tenant_id = tenant AND y.player_id = o.player_id AND y.played_at > o.erased_at)
      AND NOT EXISTS (
          SELECT FROM redemptions AS r
          WHERE r.tenant_id = tenant AND r.player_id = o.player_id AND r.redeemed_at > o.erased_at)
      AND NOT EXISTS (
          SELECT FROM quest_completions AS q
          WHERE q.tenant_id = tenant AND q.player_id = o.player_id AND q.completed_at > o.erased_at
            AND NOT starts_with(q.period, 'referral-')
            AND q.quest_id = ANY(ARRAY(SELECT k.quest_id FROM quests AS k WHERE k.tenant_id = tenant)))
      AND NOT EXISTS (
          SELECT FROM ledger_entries AS m
          WHERE m.tenant_id = tenant AND m.player_id = o.player_id AND m.created_at > o.erased_at
            AND (m.reason = 'milestone_spend' OR (m.reason = 'adjustment' AND m.amount > 0)))
      AND NOT EXISTS (
          SELECT FROM draw_lists AS i
          WHERE i.tenant_id = tenant AND i.player_id IN (player, o.player_id) AND i.set_at > o.erased_at
            AND i.draw_id = ANY(ARRAY(SELECT d.draw_id FROM draws AS d WHERE d.tenant_id = tenant)))
);

-- What has standings: the final ranking of a board, or the drawn ranks of a draw.
CREATE VIEW ranked AS
SELECT tenant_id, board_id, campaign_id, false AS is_draw FROM leaderboards
UNION ALL
SELECT tenant_id, draw_id, campaign_id, true FROM draws;

-- ---------------------------------------------------------------- analytics

-- Running counts of a campaign's plays up to a watermark; later plays are counted when read. players: distinct players
-- so far; returned: those who played on more than one day.
CREATE TABLE campaign_marks (
    tenant_id     text COLLATE "C" NOT NULL,
    campaign_id   ident       NOT NULL,
    counted_until timestamptz NOT NULL DEFAULT '-infinity',
    players       bigint      NOT NULL DEFAULT 0 CHECK (players >= 0),
    returned      bigint      NOT NULL DEFAULT 0 CHECK (returned >= 0),
    PRIMARY KEY (tenant_id, campaign_id)
);

-- Per local day of the campaign. players: distinct players of that day; wins: plays that won something.
CREATE TABLE campaign_days (
    tenant_id   text COLLATE "C" NOT NULL,
    campaign_id ident  NOT NULL,
    day         date   NOT NULL,
    plays       bigint NOT NULL,
    players     bigint NOT NULL,
    wins        bigint NOT NULL,
    PRIMARY KEY (tenant_id, campaign_id, day)
);

-- The players already counted for a day.
CREATE TABLE campaign_player_days (
    tenant_id   text COLLATE "C" NOT NULL,
    player_id   ident NOT NULL,
    campaign_id ident NOT NULL,
    day         date  NOT NULL,
    PRIMARY KEY (tenant_id, player_id, campaign_id, day)
);
CREATE INDEX campaign_player_days_day ON campaign_player_days (tenant_id, campaign_id, day, player_id);

-- A tenant's plays up to a watermark, in quarter hours, from which the days and hours of every time zone can be derived
-- (runtime/operations/reporting/counting.py). wins: plays that won something.
CREATE TABLE figure_marks (
    tenant_id     text COLLATE "C" NOT NULL PRIMARY KEY,
    counted_until timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE game_quarters (
    tenant_id text COLLATE "C" NOT NULL,
    game_id   ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    plays     bigint      NOT NULL,
    wins      bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter)
);

-- The part of game_quarters that is of players whose entry has a source (source_parts).
CREATE TABLE game_sources (
    tenant_id    text COLLATE "C" NOT NULL,
    game_id      ident       NOT NULL,
    quarter      timestamptz NOT NULL,
    source       ident       NOT NULL,
    medium       ident       NOT NULL,
    utm_campaign ident       NOT NULL,
    plays        bigint      NOT NULL,
    wins         bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter, source, medium, utm_campaign)
);

-- Game starts per quarter hour. A table of its own, so that counting starts never waits for counting plays.
CREATE TABLE game_starts (
    tenant_id text COLLATE "C" NOT NULL,
    game_id   ident       NOT NULL,
    quarter   timestamptz NOT NULL,
    starts    bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter)
);

-- Page views per hour (runtime/operations/reporting/views.py). game_id: '' for the campaign's own page. visitors: those
-- whose first view of the campaign on that day (UTC) is in this row; page_visitors: of this page.
CREATE TABLE campaign_views (
    tenant_id     text COLLATE "C" NOT NULL,
    view_id       ident       NOT NULL,
    campaign_id   ident       NOT NULL,
    hour          timestamptz NOT NULL,
    game_id       ident       NOT NULL,
    source        ident       NOT NULL,
    medium        ident       NOT NULL,
    utm_campaign  ident       NOT NULL,
    device        ident       NOT NULL,
    country       ident       NOT NULL,
    views         bigint      NOT NULL,
    visitors      bigint      NOT NULL,
    page_visitors bigint      NOT NULL,
    PRIMARY KEY (tenant_id, view_id)
);
CREATE UNIQUE INDEX campaign_views_key ON campaign_views
    (tenant_id, campaign_id, hour, game_id, source, medium, utm_campaign, device, country);

-- The sets of views that are in campaign_views, so that none is added twice.
CREATE TABLE view_folds (
    tenant_id text COLLATE "C" NOT NULL,
    fold_id   ident       NOT NULL,
    folded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, fold_id)
);

-- Draw results of a game's revision, before stock and caps apply. prize_group: of the score's tier; '': the game has none,
-- or the score no tier. drawn: a prize or a lucky item; '': a loss.
CREATE TABLE game_draws (
    tenant_id   text COLLATE "C" NOT NULL,
    game_id     ident       NOT NULL,
    quarter     timestamptz NOT NULL,
    revision    integer     NOT NULL,
    prize_group text        NOT NULL DEFAULT '',
    drawn       ident       NOT NULL,
    draws       bigint      NOT NULL,
    PRIMARY KEY (tenant_id, game_id, quarter, revision, prize_group, drawn)
);

-- The logarithm of the gamma function for x >= 0.5, to ten digits: Stirling's series at x + 10. PostgreSQL has its own
-- from version 18 on.
CREATE FUNCTION log_gamma(x double precision) RETURNS double precision LANGUAGE sql IMMUTABLE RETURN
    (x + 9.5) * ln(x + 10) - (x + 10) + 0.5 * ln(2 * pi()) + 1 / (12 * (x + 10)) - 1 / (360 * (x + 10) ^ 3)
    + 1 / (1260 * (x + 10) ^ 5) - (SELECT sum(ln(x + i)) FROM generate_series(0, 9) AS i);

-- log_ratio of runtime/operations/reporting/odds_test.py: how strongly the count speaks against the chance.
CREATE FUNCTION odds_log_ratio(count double precision, plays double precision, chance double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE RETURN (
    SELECT log_gamma(hits + count) + log_gamma(misses + plays - count) - log_gamma(hits + misses + plays)
           - log_gamma(hits) - log_gamma(misses) + log_gamma(hits + misses)
           - count * ln(chance) - (plays - count) * ln(1 - chance)
    FROM (SELECT greatest(0.5, 1000 * chance) AS hits, greatest(0.5, 1000 * (1 - chance)) AS misses) AS prior
);

-- ---------------------------------------------------------------- integrations

-- active_since: earlier events, from before it was created or while it was paused, are not delivered.
CREATE TABLE integrations (
    tenant_id      text COLLATE "C" NOT NULL,
    integration_id ident       NOT NULL,
    merchant_id    ident       NOT NULL DEFAULT '',
    campaign_id    ident       NOT NULL DEFAULT '',
    type           text        NOT NULL,
    events         text[]      NOT NULL,
    config         jsonb       NOT NULL DEFAULT '{}',
    status         text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused')),
    active_since     timestamptz NOT NULL DEFAULT now(),
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, integration_id)
);

CREATE TRIGGER integrations_sealed BEFORE INSERT OR UPDATE OF config ON integrations
    FOR EACH ROW EXECUTE FUNCTION lock_keys_of_config('config');

-- The delivery log: the state of each event at each integration, for operators and for retries. next_attempt_at: when a
-- retry is due. The event is stored for retries and for display; answer is the start of the receiver's response, with
-- secrets removed. tried_at: the last attempt.
CREATE TABLE integration_deliveries (
    tenant_id      text COLLATE "C" NOT NULL,
    delivery_id    ident       NOT NULL,
    integration_id ident       NOT NULL,
    event_id       text        NOT NULL,
    event_type     text        NOT NULL,
    status         text        NOT NULL CHECK (status IN ('delivered', 'stubbed', 'skipped', 'retry', 'dead')),
    attempts       integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    event          json,
    next_attempt_at timestamptz,
    http_status    integer     NOT NULL DEFAULT 0,
    error          text        NOT NULL DEFAULT '',
    answer         text        NOT NULL DEFAULT '',
    duration_ms    integer     NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    tried_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, integration_id, delivery_id),
    CHECK (status <> 'retry' OR (event IS NOT NULL AND next_attempt_at IS NOT NULL))
);
CREATE UNIQUE INDEX integration_deliveries_event ON integration_deliveries (tenant_id, integration_id, event_id);
-- The messages of a player (sql/messages.sql): each campaign's integration for them has such an id.
CREATE INDEX integration_deliveries_messages ON integration_deliveries
    (tenant_id, ((event #>> '{data,player_id}') COLLATE "C"), delivery_id) WHERE starts_with(integration_id, 'messages_');
CREATE INDEX integration_deliveries_skipped ON integration_deliveries (tenant_id, integration_id, delivery_id)
    WHERE status = 'skipped';
CREATE INDEX integration_deliveries_due ON integration_deliveries (tenant_id, integration_id, next_attempt_at)
    WHERE status = 'retry';

-- The watermark up to which a tenant's events are known to be published (runtime/streams/backfill.py).
CREATE TABLE event_marks (
    tenant_id        text COLLATE "C" NOT NULL PRIMARY KEY,
    backfilled_until timestamptz NOT NULL,
    leased_until     timestamptz NOT NULL
);

-- ---------------------------------------------------------------- limits

-- The remaining quantity of a prize: the lower of stock and free codes (NULL codes: none); NULL: unlimited.
CREATE FUNCTION remaining_of_prize(channel text, total bigint, remaining bigint, free bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE RETURN least(
    CASE WHEN total > 0 THEN remaining END, CASE WHEN channel = 'voucher_code' THEN coalesce(free, 0) END);

-- When a tenant's budgets and stock are next checked (runtime/operations/budget_alerts/thresholds.py). The row is the
-- lock of a check.
CREATE TABLE limit_marks (
    tenant_id text COLLATE "C" NOT NULL PRIMARY KEY,
    next_at   timestamptz NOT NULL
);

-- A campaign's budget use at the last check, and the highest threshold for which an event was emitted: 0, 80 or 100
-- percent.
CREATE TABLE budget_marks (
    tenant_id        text COLLATE "C" NOT NULL,
    campaign_id      ident            NOT NULL,
    amount           double precision NOT NULL,
    currency         text             NOT NULL,
    used             double precision NOT NULL,
    notified_percent integer          NOT NULL CHECK (notified_percent IN (0, 80, 100)),
    counted_at       timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, campaign_id)
);

-- Prizes whose low-stock event was emitted. No further event until the stock rises above the threshold.
CREATE TABLE low_prizes (
    tenant_id text COLLATE "C" NOT NULL,
    prize_id  ident       NOT NULL,
    since     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, prize_id)
);

-- Events that the backfill cannot rebuild from other rows (runtime/streams/backfill.py), stored whole.
CREATE TABLE notices (
    tenant_id   text COLLATE "C" NOT NULL,
    event_id    ident       NOT NULL,
    type        text        NOT NULL CHECK (type IN ('campaign.budget_reached', 'prizes.low_stock')),
    campaign_id ident       NOT NULL,
    data        jsonb       NOT NULL,
    noticed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, event_id)
);
CREATE INDEX notices_time ON notices (tenant_id, noticed_at);

-- ---------------------------------------------------------------- conservation

-- The auditor's progress on each pass over a tenant's rows: following changes ('changed': seen_until), or cycling
-- through all rows of a kind (after_key). leased_until: when another process may take over.
CREATE TABLE audit_marks (
    tenant_id    text COLLATE "C" NOT NULL,
    way          ident       NOT NULL,
    after_key    text        NOT NULL DEFAULT '',
    seen_until   timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, way)
);

-- Findings of the checks in conservation.sql, open until staff closes them with a reason.
-- subject_id: the checked object; row_id: the row in it. scope_key: its campaign or merchant; '': the tenant.
-- deviation: the difference; a closed finding that then deviates otherwise becomes a new one. opened_at: when it was
-- stored, after the snapshot of first_seen_at. gone_at: when a check no longer found it.
CREATE TABLE violations (
    tenant_id     text COLLATE "C" NOT NULL,
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
    opened_at     timestamptz NOT NULL DEFAULT now(),
    gone_at       timestamptz,
    closed_at     timestamptz,
    closed_by     text        NOT NULL DEFAULT '',
    reason        text        NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, violation_id)
);
CREATE UNIQUE INDEX violations_open ON violations (tenant_id, check_name, subject_id, row_id) WHERE closed_at IS NULL;
CREATE INDEX violations_subject ON violations (tenant_id, check_name, subject_id);
CREATE INDEX violations_time ON violations (tenant_id, opened_at, violation_id);

-- ---------------------------------------------------------------- log

-- The Merkle log of a tenant (runtime/rules/log/entries.py): its size, the hashes of the complete subtrees of its leaves
-- (the greatest first), and the time before which every row is in it. read_from: where the next pass begins to read.
-- newest: no row in it is later. The row is the lock of an append.
CREATE TABLE log_trees (
    tenant_id    text COLLATE "C" NOT NULL PRIMARY KEY,
    size         bigint      NOT NULL DEFAULT 0,
    frontier     bytea       NOT NULL DEFAULT '',
    logged_until timestamptz NOT NULL DEFAULT '-infinity',
    read_from    timestamptz NOT NULL DEFAULT '-infinity',
    newest       timestamptz NOT NULL DEFAULT '-infinity'
);

-- The leaves in order: the hash of an entry, and the row that the entry is about.
-- sent: the salted hash of what a player sent with a play, or of an audit entry's actor; NULL: nothing. salt: NULL after
-- an erasure or an archive. archive: the number of the archive that the play is in; NULL: the play was not archived.
CREATE TABLE log_leaves (
    tenant_id  text COLLATE "C" NOT NULL,
    leaf_index bigint NOT NULL,
    kind       ident  NOT NULL,
    row_id     ident  NOT NULL,
    hash       bytea  NOT NULL,
    sent       bytea,
    salt       bytea,
    archive    integer,
    PRIMARY KEY (tenant_id, leaf_index)
);
-- The row first: a comparison rarely needs the other columns, which are the same in nearly all entries.
CREATE UNIQUE INDEX log_leaves_row ON log_leaves (row_id, kind, tenant_id);
CREATE INDEX log_leaves_marks ON log_leaves (tenant_id, leaf_index) WHERE kind = 'mark';
-- An archive's leaves are amid those of all other campaigns.
CREATE INDEX log_leaves_archive ON log_leaves (tenant_id, archive) WHERE archive IS NOT NULL;

-- The hashes of the complete subtrees of 2^level leaves, for level 8, 16 and so on: those that tiles consist of.
CREATE TABLE log_nodes (
    tenant_id text COLLATE "C" NOT NULL,
    level     integer NOT NULL,
    number    bigint  NOT NULL,
    hash      bytea   NOT NULL,
    PRIMARY KEY (tenant_id, level, number)
);

-- Every signed checkpoint.
CREATE TABLE log_checkpoints (
    tenant_id text COLLATE "C" NOT NULL,
    size      bigint      NOT NULL,
    note      text        NOT NULL,
    made_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, size)
);

CREATE INDEX log_checkpoints_time ON log_checkpoints (tenant_id, made_at);

-- The stamps of checkpoints by a time-stamping authority: its response to the signed note, and the time in it.
CREATE TABLE log_stamps (
    tenant_id  text COLLATE "C" NOT NULL,
    size       bigint      NOT NULL,
    stamp      bytea       NOT NULL,
    stamped_at timestamptz NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, size)
);

CREATE TRIGGER log_leaves_append_only
    BEFORE UPDATE OF tenant_id, leaf_index, kind, row_id, hash, sent OR DELETE OR TRUNCATE ON log_leaves
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER log_nodes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_nodes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER log_checkpoints_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER log_stamps_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log_stamps
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- A time in microseconds since 1970. Exact until 2100: a double has the fraction of a microsecond. STABLE as date_part is:
-- statements do not inline an IMMUTABLE function with a STABLE body.
CREATE FUNCTION unix_micro(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    RETURN round(date_part('epoch', at) * 1000000)::bigint;

CREATE FUNCTION hex_sha256(of text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN encode(sha256(convert_to(of, 'UTF8')), 'hex');

-- Whether the player sent anything with the play.
CREATE FUNCTION has_sent(client_seed text, payload json) RETURNS boolean LANGUAGE sql STABLE
    RETURN client_seed <> '' OR payload::text <> '{}';

-- The salted hash of what the player sent with the play.
CREATE FUNCTION hash_sent(client_seed text, payload json, salt bytea) RETURNS bytea LANGUAGE sql STABLE RETURN
    sha256(salt || sha256(convert_to(client_seed, 'UTF8')) || sha256(convert_to(payload::text, 'UTF8')));

-- The salt of a row, from the secret of its batch, which is not stored.
CREATE FUNCTION log_salt(secret bytea, row_id text) RETURNS bytea LANGUAGE sql STABLE RETURN
    substr(sha256(secret || convert_to(row_id, 'UTF8')), 1, 16);

-- The salted hash of the actor of an audit entry.
CREATE FUNCTION hash_actor(actor text, salt bytea) RETURNS bytea LANGUAGE sql STABLE RETURN
    sha256(salt || convert_to(actor, 'UTF8'));

-- A person's id, name or contact as an audit entry's hash has it: without the salt, nobody can guess it.
CREATE FUNCTION mask_person(of text, salt bytea) RETURNS text LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN of = '' THEN '' ELSE 'person:' || encode(sha256(salt || convert_to(of, 'UTF8')), 'hex') END;
-- The same for each contact and player's id within a text. The pattern is that of runtime/commands/dossiers.py.
CREATE FUNCTION mask_contacts(of text, salt bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    pattern CONSTANT text := '[^\s@"''<>]+@[\w-]+(?:\.[\w-]+)+|\+\d{7,15}|\m(?:player|guest)_[0-9a-z]{26}\M';
BEGIN
    IF of !~ pattern THEN
        RETURN of;
    END IF;
    RETURN (
        SELECT string_agg(o.part || coalesce(mask_person(f.found[1], salt), ''), '' ORDER BY n)
        FROM regexp_split_to_table(of, pattern) WITH ORDINALITY AS o (part, n)
        LEFT JOIN regexp_matches(of, '(' || pattern || ')', 'g') WITH ORDINALITY AS f (found, n) USING (n));
END $$;
-- The same for each text of a JSON value, and for whole texts whose field is one of a person.
CREATE FUNCTION mask_persons(value jsonb, salt bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE jsonb_typeof(value)
        WHEN 'object' THEN (
            SELECT coalesce(jsonb_object_agg(f.name, CASE
                WHEN f.name IN ('player_id', 'display_name', 'contact', 'email', 'phone', 'avatar_url', 'actor')
                     AND jsonb_typeof(f.item) = 'string' THEN to_jsonb(mask_person(f.item #>> '{}', salt))
                ELSE mask_persons(f.item, salt) END), '{}')
            FROM jsonb_each(value) AS f (name, item))
        WHEN 'array' THEN (
            SELECT coalesce(jsonb_agg(mask_persons(f.item, salt) ORDER BY f.n), '[]')
            FROM jsonb_array_elements(value) WITH ORDINALITY AS f (item, n))
        WHEN 'string' THEN to_jsonb(mask_contacts(value #>> '{}', salt))
        ELSE value END;
END $$;
-- What an audit entry says, without its actor and with persons masked.
CREATE FUNCTION audited_row(a audit_entries, salt bytea) RETURNS text LANGUAGE sql STABLE RETURN jsonb_build_array(
    a.subject_type,
    CASE a.subject_type WHEN 'player' THEN mask_person(a.subject_id, salt) ELSE mask_contacts(a.subject_id, salt) END,
    mask_persons(a.before, salt), mask_persons(a.after, salt), a.trace_id, a.merchant_id)::text;

-- The entry of a row in the log: the facts that never change, as JSON with sorted names and without spaces
-- (runtime/rules/log/entries.py). One function per kind, without subqueries: statements inline it, which is most of what
-- the log saves. A play's is log_head, the hash of its terms and log_tail: a batch looks up each hash once.
CREATE FUNCTION log_text(t promised_terms) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"at":', unix_micro(t.created_at), ',"game_id":', to_json(t.game_id), ',"id":', to_json(t.revision_hash),
    ',"kind":"terms"}');
CREATE FUNCTION log_head(p plays) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"at":', unix_micro(p.played_at), ',"game_id":', to_json(p.game_id), ',"id":', to_json(p.play_id),
    ',"kind":"play","outcome":"', encode(sha256(convert_to(p.outcome::text, 'UTF8')), 'hex'), '","points":', p.points,
    ',"revision":', p.revision, ',"revision_hash":"');
CREATE FUNCTION log_tail(p plays, sent bytea) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '","score":', p.score, ',"seed":"', encode(p.seed, 'hex'), '","sent":"' || encode(sent, 'hex'),
    '","session":"', encode(sha256(convert_to(p.session_id, 'UTF8')), 'hex'), '","wins":', p.wins, '}');
CREATE FUNCTION log_text(p plays, revision_hash text, sent bytea) RETURNS text LANGUAGE sql STABLE RETURN concat(
    log_head(p), revision_hash, log_tail(p, sent));
CREATE FUNCTION log_text(r rewards) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"at":', unix_micro(r.won_at), ',"campaign_id":', to_json(r.campaign_id), ',"game_id":', to_json(r.game_id),
    ',"id":', to_json(r.reward_id), ',"kind":"reward","milestone_id":', to_json(r.milestone_id),
    ',"name":', to_json(r.name), ',"play_id":', to_json(r.play_id), ',"prize_id":', to_json(r.prize_id),
    ',"quantity":', r.quantity, ',"type":', to_json(r.type), ',"value":"', r.value, '"}');
CREATE FUNCTION log_text(d draws) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"at":', unix_micro(d.drawn_at), ',"campaign_id":', to_json(d.campaign_id), ',"id":', to_json(d.draw_id),
    ',"kind":"draw","result_hash":', to_json(d.result_hash), ',"ticket_count":', d.ticket_count,
    ',"tickets_root":', to_json(d.tickets_root),
    ',"value":', coalesce(to_json(d.randomness ->> 'value')::text, 'null'), '}');
CREATE FUNCTION log_text(l ledger_entries) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"amount":', l.amount, ',"at":', unix_micro(l.created_at), ',"currency":', to_json(l.currency),
    ',"id":', to_json(l.entry_id), ',"kind":"adjustment","reference_id":', to_json(l.reference_id),
    ',"scope_key":', to_json(l.scope_key), '}');
-- An archive's entry has its facts, so that a witness knows which rows may be missing.
CREATE FUNCTION log_text(a audit_entries, salt bytea) RETURNS text LANGUAGE sql STABLE RETURN concat(
    '{"action":', to_json(a.action), ',"actor":"', encode(hash_actor(a.actor, salt), 'hex'),
    '","at":', unix_micro(a.created_at), CASE WHEN a.action = 'campaign.archive' THEN concat(
        ',"campaign_id":', to_json(a.subject_id), ',"digest":', coalesce(a.after -> 'digest', 'null'),
        ',"file_sha256":', coalesce(a.after -> 'file_sha256', 'null')) END,
    ',"id":', to_json(a.entry_id), ',"kind":"audit"',
    CASE WHEN a.action = 'campaign.archive' THEN concat(',"plays":', coalesce(a.after -> 'plays', 'null')) END,
    ',"row":"', hex_sha256(audited_row(a, salt)), '"}');

-- The entry of a leaf as its row is now. NULL: the row is missing. An erased play keeps the `sent` of its leaf, since the
-- hashed input and the salt are deleted.
CREATE FUNCTION log_entry(leaf log_leaves) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    entry text;
BEGIN
    CASE leaf.kind
        WHEN 'play' THEN
            SELECT log_text(
                p,
                -- Its session has only half of the hash. Terms are stored before the start, so the fact never changes.
                coalesce((SELECT min(t.revision_hash) FROM promised_terms AS t
                          WHERE t.tenant_id = p.tenant_id AND t.game_id = p.game_id
                            AND t.revision_hash BETWEEN promised_by(p.session_id) AND promised_by(p.session_id) || 'g'), ''),
                CASE WHEN has_sent(p.client_seed, p.payload) OR leaf.salt IS NOT NULL
                     THEN hash_sent(p.client_seed, p.payload, coalesce(leaf.salt, '')) ELSE leaf.sent END)
            INTO entry FROM plays AS p WHERE p.tenant_id = leaf.tenant_id AND p.play_id = leaf.row_id;
        WHEN 'reward' THEN
            SELECT log_text(r) INTO entry FROM rewards AS r
            WHERE r.tenant_id = leaf.tenant_id AND r.reward_id = leaf.row_id;
        WHEN 'terms' THEN
            SELECT log_text(t) INTO entry FROM promised_terms AS t
            WHERE t.tenant_id = leaf.tenant_id AND t.revision_hash = leaf.row_id;
        WHEN 'draw' THEN
            SELECT log_text(d) INTO entry FROM draws AS d
            WHERE d.tenant_id = leaf.tenant_id AND d.draw_id = leaf.row_id;
        WHEN 'adjustment' THEN
            SELECT log_text(l) INTO entry FROM ledger_entries AS l
            WHERE l.tenant_id = leaf.tenant_id AND l.entry_id = leaf.row_id AND l.reason = 'adjustment';
        WHEN 'audit' THEN
            SELECT log_text(a, coalesce(leaf.salt, '')) INTO entry FROM audit_entries AS a
            WHERE a.tenant_id = leaf.tenant_id AND a.entry_id = leaf.row_id;
        ELSE entry := concat('{"id":', to_json(leaf.row_id), ',"kind":', to_json(leaf.kind), '}');
    END CASE;
    RETURN convert_to(entry, 'UTF8');
END $$;

-- Where a walk over rows of several kinds (keys of kind and id, the kinds in order) continues within a kind: after this id.
-- NULL: past the kind.
CREATE FUNCTION walk_after(key text, kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN starts_with(key, kind || ' ') THEN substr(key, length(kind) + 2)
         WHEN key COLLATE "C" < kind COLLATE "C" THEN '' END;

-- Whether the play's row was deleted because it is in an archive.
CREATE FUNCTION is_archived_play(tenant text, play text) RETURNS boolean LANGUAGE sql STABLE RETURN EXISTS (
    SELECT FROM log_leaves AS l
    WHERE l.tenant_id = tenant AND l.kind = 'play' AND l.row_id = play AND l.archive IS NOT NULL);

-- The digest of an archive's plays, from the hashes of its leaves: that of each group of 1,024 leaves is hashed into the
-- one before (runtime/rules/log/digest.py).
CREATE FUNCTION archive_digest(archive play_archives) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    digest bytea := '';
    hashed bytea;
BEGIN
    FOR hashed IN
        SELECT sha256(string_agg(l.hash, '' ORDER BY l.leaf_index)) FROM log_leaves AS l
        WHERE l.tenant_id = archive.tenant_id AND l.leaf_index BETWEEN archive.first_leaf AND archive.last_leaf
          AND l.archive = archive.number
        GROUP BY l.leaf_index >> 10 ORDER BY l.leaf_index >> 10
    LOOP
        digest := sha256(digest || hashed);
    END LOOP;
    RETURN encode(digest, 'hex');
END $$;

-- The hash of a leaf, and of the tree over consecutive hashes (RFC 6962).
CREATE FUNCTION log_leaf_hash(entry bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN sha256('\x00' || entry);
CREATE FUNCTION log_leaf_hash(entry text) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
    RETURN log_leaf_hash(convert_to(entry, 'UTF8'));
CREATE FUNCTION log_root(hashes bytea[]) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    WHILE cardinality(hashes) > 1 LOOP
        hashes := ARRAY(
            SELECT coalesce(sha256('\x01' || hashes[n] || hashes[n + 1]), hashes[n])
            FROM generate_series(1, cardinality(hashes), 2) AS n ORDER BY n);
    END LOOP;
    RETURN hashes[1];
END $$;

-- Hashes `first` to before `last` of a level (0, 8, 16 ...) of a tenant's tree.
CREATE FUNCTION log_hashes(tenant text, of_level integer, first bigint, last bigint) RETURNS bytea[] LANGUAGE sql STABLE AS $$
    SELECT CASE of_level
        WHEN 0 THEN ARRAY(SELECT hash FROM log_leaves
                          WHERE tenant_id = tenant AND leaf_index >= first AND leaf_index < last ORDER BY leaf_index)
        ELSE ARRAY(SELECT hash FROM log_nodes
                   WHERE tenant_id = tenant AND level = of_level AND number >= first AND number < last ORDER BY number)
    END
$$;

-- The root of the tree of this size, from the hashes of its rightmost tiles.
CREATE FUNCTION log_root(tenant text, size bigint) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    level integer := 0;
    root  bytea;
BEGIN
    WHILE size >> level > 0 LOOP
        root := log_root(array_remove(
            log_hashes(tenant, level, size >> level >> 8 << 8, size >> level) || root, NULL));
        level := level + 8;
    END LOOP;
    RETURN root;
END $$;

-- JSON with sorted names and without spaces.
CREATE FUNCTION sorted_json(value jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE jsonb_typeof(value)
        WHEN 'object' THEN (
            SELECT concat('{', string_agg(concat(to_json(f.name), ':', sorted_json(f.item)), ',' ORDER BY f.name COLLATE "C"), '}')
            FROM jsonb_each(value) AS f (name, item))
        WHEN 'array' THEN (
            SELECT concat('[', string_agg(sorted_json(f.item), ',' ORDER BY f.n), ']')
            FROM jsonb_array_elements(value) WITH ORDINALITY AS f (item, n))
        ELSE value::text END;
END $$;

-- The root over a draw's terms and tickets (runtime/rules/raffle/selection.py), in hex. In tiles of 1,024 leaves, so that
-- memory does not grow with the holders.
CREATE FUNCTION draw_root(d draws) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    hashes bytea[] := ARRAY[log_leaf_hash(sorted_json(jsonb_build_object(
        'id', d.draw_id, 'campaign_id', d.campaign_id, 'name', d.name, 'tickets', d.tickets, 'prizes', d.prizes,
        'alternates', d.alternates, 'randomness', (
            SELECT coalesce(jsonb_object_agg(f.name, f.item), '{}') FROM jsonb_each(d.randomness) AS f (name, item)
            WHERE f.name NOT IN ('value', 'key_id') AND f.item NOT IN ('""', '0', 'null', 'false')))))];
    more   bytea[];
    tiles  bytea[] := '{}';
    after  bigint := -1;
BEGIN
    WHILE after IS NOT NULL LOOP
        SELECT array_agg(log_leaf_hash(concat(t.holder, ' ', t.tickets)) ORDER BY t.first_ticket), max(t.first_ticket)
        INTO more, after
        FROM (
            SELECT k.first_ticket, k.tickets, k.holder FROM draw_tickets AS k
            WHERE k.tenant_id = d.tenant_id AND k.draw_id = d.draw_id AND k.first_ticket > after
            ORDER BY k.first_ticket LIMIT 1024 - cardinality(hashes)
        ) AS t;
        hashes := hashes || more;
        IF hashes <> '{}' THEN
            tiles := tiles || log_root(hashes);
            hashes := '{}';
        END IF;
    END LOOP;
    RETURN encode(log_root(tiles), 'hex');
END $$;

-- ---------------------------------------------------------------- one commit's changes

-- The parameters of commit.sql, an array of each. The code has a row type for each and compares the two at import.
-- The catalogue's version that a tenant's changes were decided with; 0: any.
CREATE TYPE catalog_seen AS (tenant_id text, catalog_version bigint);
CREATE TYPE new_play AS (
    tenant_id text, play_id text, game_id text, player_id text, session_id text, revision integer, seed bytea,
    client_seed text, payload json, outcome json, score bigint, wins integer, points bigint, idempotency_key text,
    request_hash bytea
);
-- plays to add for a player, game and day. day_ends: unix end of the day, after which the commit fails; 0: not checked.
-- cap, day_cap: maximum plays in total and on the day; 0: none. exact: the total must equal cap afterwards.
-- busy_until: up to when they use the player's time.
CREATE TYPE play_count AS (
    tenant_id text, game_id text, player_id text, day date, plays bigint, cap bigint, day_cap bigint, day_ends bigint,
    exact boolean, busy_until bigint
);
-- Turns that must be `before` and become `after`; before = 0: the row may be missing.
CREATE TYPE turn_move AS (tenant_id text, player_id text, campaign_id text, before bigint, after bigint);
-- A balance that must be `before` (NULL: no row yet) and becomes `after`.
CREATE TYPE balance_move AS (
    tenant_id text, player_id text, scope_key text, currency text, before bigint, after bigint
);
CREATE TYPE new_turn_entry AS (
    tenant_id text, entry_id text, player_id text, campaign_id text, amount bigint, balance_after bigint, reason text,
    reference_id text
);
CREATE TYPE new_ledger_entry AS (
    tenant_id text, entry_id text, player_id text, scope_key text, currency text, amount bigint, balance_after bigint,
    reason text, reference_id text, reward_id text
);
CREATE TYPE stock_take AS (tenant_id text, prize_id text, quantity bigint, held_back bigint);
CREATE TYPE prize_day_count AS (tenant_id text, prize_id text, day date, quantity bigint, cap bigint);
CREATE TYPE prize_player_count AS (tenant_id text, prize_id text, player_id text, quantity bigint, cap bigint);
CREATE TYPE new_reward AS (
    tenant_id text, reward_id text, player_id text, prize_id text, campaign_id text, game_id text, play_id text,
    milestone_id text, name text, type text, value double precision, quantity integer, status text, expires_after_days integer
);
-- nth: the reward takes the nth free code of its prize, counted from 1.
CREATE TYPE code_take AS (tenant_id text, reward_id text, prize_id text, nth bigint);
CREATE TYPE new_task AS (
    tenant_id text, task_id text, reward_id text, prize_id text, campaign_id text, player_id text, channel text,
    status text
);
CREATE TYPE new_grant AS (
    tenant_id text, game_id text, player_id text, milestone_id text, reward_id text, idempotency_key text,
    request_hash bytea, reply json
);
-- A player who must still be a guest, not merged into a player.
CREATE TYPE still_guest AS (tenant_id text, player_id text);
-- A game that had no plays when this was decided.
CREATE TYPE game_debut AS (tenant_id text, game_id text);
-- The revision of a player's entry that admitted a play.
CREATE TYPE held_entry AS (tenant_id text, player_id text, campaign_id text, revision integer);
-- Records the reward that a finalized board's rank was given.
CREATE TYPE standing_award AS (tenant_id text, board_id text, rank integer, reward_id text);
