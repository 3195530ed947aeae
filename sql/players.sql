-- Players, their contacts, and a guest's move to the player it turns out to be. See runtime/operations/players.py.

-- name: find
-- A player with the contacts. $1 tenant, $2 player. No row: not known yet.
SELECT p.player_id, p.display_name, p.avatar_url, p.locale, p.attributes, p.auth_method, p.status,
       unix(p.created_at) AS created_at, unix(p.updated_at) AS updated_at,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object('id', c.contact_id, 'type', c.type, 'value', c.value,
                                               'verified', c.verified, 'created_at', unix(c.created_at))
                            ORDER BY c.contact_id)
           FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = $2
       ), '[]') AS contacts
FROM players AS p
WHERE p.tenant_id = $1 AND p.player_id = $2;

-- name: meet
-- Makes a player of an outside identity on its first use, or of a guest. $1 tenant, $2 player.
-- No row: the player is known, or the tenant is not.
INSERT INTO players (tenant_id, player_id, auth_method)
SELECT tenant_id, $2::text, first_known_as($2::text) FROM tenants WHERE tenant_id = $1
ON CONFLICT DO NOTHING
RETURNING player_id;

-- name: update
-- Sets what is not null; makes the player where it is not known yet. No row: the tenant is unknown.
-- $1 tenant, $2 player, $3 display_name, $4 avatar_url, $5 locale, $6 attributes.
INSERT INTO players AS p (tenant_id, player_id, auth_method, display_name, avatar_url, locale, attributes)
SELECT tenant_id, $2::text, first_known_as($2::text), coalesce($3::text, ''), coalesce($4::text, ''), coalesce($5::text, ''),
       coalesce($6::jsonb, '{}')
FROM tenants WHERE tenant_id = $1
ON CONFLICT (tenant_id, player_id) DO UPDATE SET
    display_name = coalesce($3::text, p.display_name),
    avatar_url = coalesce($4::text, p.avatar_url),
    locale = coalesce($5::text, p.locale),
    attributes = coalesce($6::jsonb, p.attributes),
    updated_at = now()
RETURNING player_id;

-- name: set_status
-- Suspends a player, or restores it; the caller holds the tenant's lock. No row: there is no such player.
UPDATE players SET status = $3, updated_at = now() WHERE tenant_id = $1 AND player_id = $2
RETURNING player_id;

-- name: owner
-- Whose a contact is. $1 tenant, $2 type, $3 value. No row: nobody's.
SELECT player_id FROM contacts WHERE tenant_id = $1 AND type = $2 AND value = $3;

-- name: sign_up
-- Makes a player together with the contact. No row: the contact became somebody's meanwhile, or the
-- tenant is unknown. $1 tenant, $2 player, $3 auth method, $4 contact id, $5 contact type, $6 value.
WITH contact AS (
    INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
    SELECT tenant_id, $4, $2, $5, $6 FROM tenants WHERE tenant_id = $1
    ON CONFLICT (tenant_id, type, value) DO NOTHING
    RETURNING player_id
)
INSERT INTO players (tenant_id, player_id, auth_method)
SELECT $1, player_id, $3 FROM contact
RETURNING player_id;

-- name: link
-- Gives a contact that is nobody's to a player. No row: it is somebody's, or the player is a guest that
-- became another player. $1 tenant, $2 player, $3 contact id, $4 type, $5 value.
INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
SELECT tenant_id, $3, player_id, $4, $5
FROM players WHERE tenant_id = $1 AND player_id = $2 AND merged_into IS NULL
ON CONFLICT (tenant_id, type, value) DO NOTHING
RETURNING contact_id, player_id, type, value, verified, unix(created_at) AS created_at;

-- name: contact
-- A contact by its value. $1 tenant, $2 type, $3 value. No row: nobody's.
SELECT contact_id, player_id, type, value, verified, unix(created_at) AS created_at
FROM contacts WHERE tenant_id = $1 AND type = $2 AND value = $3;

-- name: end_guest
-- The guest is the player from now on, and can become nobody else. Again for the same player: yes, for
-- what the guest won since. No row: not a guest, or one that became somebody else.
-- $1 tenant, $2 guest, $3 player.
UPDATE players AS g SET merged_into = $3, updated_at = now()
WHERE g.tenant_id = $1 AND g.player_id = $2 AND g.player_id <> $3::ident AND g.auth_method = 'guest'
  AND (g.merged_into IS NULL OR g.merged_into = $3)
  AND NOT EXISTS (SELECT FROM contacts AS c WHERE c.tenant_id = $1 AND c.player_id = $2)
RETURNING player_id;

-- name: move_play_counts
-- $1 tenant, $2 guest, $3 player, here and below. Rows are touched in the order of sql/commit.sql.
WITH moved AS (
    DELETE FROM game_players WHERE tenant_id = $1 AND player_id = $2
    RETURNING game_id, plays, day, day_plays
)
INSERT INTO game_players AS c (tenant_id, game_id, player_id, plays, day, day_plays)
SELECT $1, game_id, $3, plays, day, day_plays FROM moved ORDER BY game_id
ON CONFLICT (tenant_id, game_id, player_id) DO UPDATE SET
    plays = c.plays + excluded.plays,
    day = greatest(c.day, excluded.day),
    day_plays = CASE WHEN c.day >= excluded.day THEN c.day_plays ELSE 0 END
              + CASE WHEN excluded.day >= c.day THEN excluded.day_plays ELSE 0 END;

-- name: take_turns
-- Every turn that the guest has left. Rows: what was taken, for `give_turns`.
DELETE FROM turn_balances WHERE tenant_id = $1 AND player_id = $2
RETURNING campaign_id, balance;

-- name: give_turns
-- Gives the turns to the player and notes both sides.
-- $4 campaigns, $5 amounts, $6 entry ids of the guest's side, $7 of the player's.
WITH moved AS (
    SELECT * FROM unnest($4::text[], $5::bigint[], $6::text[], $7::text[]) AS m (campaign_id, amount, left_id, right_id)
    ORDER BY campaign_id
),
given AS (
    INSERT INTO turn_balances AS t (tenant_id, campaign_id, player_id, balance)
    SELECT $1, campaign_id, $3, amount FROM moved
    ON CONFLICT (tenant_id, player_id, campaign_id) DO UPDATE SET
        balance = t.balance + excluded.balance, updated_at = now()
    RETURNING campaign_id, balance
)
INSERT INTO turn_entries (tenant_id, entry_id, campaign_id, player_id, amount, balance_after, reason, reference_id)
SELECT $1, left_id, campaign_id, $2, -amount, 0, 'merge', $3 FROM moved
UNION ALL
SELECT $1, right_id, campaign_id, $3, amount, balance, 'merge', $2 FROM moved JOIN given USING (campaign_id);

-- name: move_balances
-- Adds the balances of $2 to those of $3, scope by scope.
WITH moved AS (
    DELETE FROM balances WHERE tenant_id = $1 AND player_id = $2
    RETURNING scope_key, currency, balance, seq
)
INSERT INTO balances AS b (tenant_id, scope_key, currency, player_id, balance, seq)
SELECT $1, scope_key, currency, $3, balance, seq FROM moved ORDER BY scope_key, currency
ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET
    balance = b.balance + excluded.balance, seq = greatest(b.seq, excluded.seq), updated_at = now();

-- name: move_ledger
-- Moves the entries, so that both ledgers go on summing to their balances. Where the player had a
-- ledger of the same scope and currency, entries since the guest's first say what both had together:
-- each adds what the other's newest entry before it says.
WITH first AS (
    SELECT DISTINCT ON (scope_key, currency) scope_key, currency, seq, entry_id
    FROM ledger_entries WHERE tenant_id = $1 AND player_id = $2
    ORDER BY scope_key, currency, seq, entry_id
)
UPDATE ledger_entries AS e SET
    player_id = $3::text,
    balance_after = e.balance_after + coalesce((
        SELECT o.balance_after FROM ledger_entries AS o
        WHERE o.tenant_id = $1 AND o.player_id = CASE WHEN e.player_id = $2 THEN $3::text ELSE $2::text END
          AND o.scope_key = e.scope_key AND o.currency = e.currency
          AND (o.seq, o.entry_id) < (e.seq, e.entry_id)
        ORDER BY o.seq DESC, o.entry_id DESC LIMIT 1
    ), 0)
FROM first AS f
WHERE e.tenant_id = $1 AND e.player_id IN ($2, $3)
  AND e.scope_key = f.scope_key AND e.currency = f.currency AND (e.seq, e.entry_id) >= (f.seq, f.entry_id);

-- name: move_prize_counts
-- Adds what $2 had of each prize to what $3 had: the caps go on from there.
WITH moved AS (
    DELETE FROM prize_players WHERE tenant_id = $1 AND player_id = $2
    RETURNING prize_id, awarded
)
INSERT INTO prize_players AS c (tenant_id, prize_id, player_id, awarded)
SELECT $1, prize_id, $3, awarded FROM moved ORDER BY prize_id
ON CONFLICT (tenant_id, prize_id, player_id) DO UPDATE SET awarded = c.awarded + excluded.awarded;

-- name: move_plays
-- A key that the player has used for a play of its own stays with that one.
UPDATE plays AS p SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM plays AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.idempotency_key = p.idempotency_key
    ) THEN p.idempotency_key END
WHERE p.tenant_id = $1 AND p.player_id = $2;

-- name: move_rewards
-- With their deliveries.
WITH moved AS (
    UPDATE rewards AS r SET
        player_id = $3::text,
        claim_key = CASE WHEN NOT EXISTS (
            SELECT FROM rewards AS o WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.claim_key = r.claim_key
        ) THEN r.claim_key END
    WHERE r.tenant_id = $1 AND r.player_id = $2
    RETURNING r.reward_id
)
UPDATE tasks AS t SET player_id = $3::text
FROM moved WHERE t.tenant_id = $1 AND t.reward_id = moved.reward_id;

-- name: move_grants
-- A rung that the player was granted too stays the guest's: a player has one grant of a rung.
UPDATE milestone_grants AS g SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM milestone_grants AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.idempotency_key = g.idempotency_key
    ) THEN g.idempotency_key END
WHERE g.tenant_id = $1 AND g.player_id = $2 AND NOT EXISTS (
    SELECT FROM milestone_grants AS o
    WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.game_id = g.game_id AND o.milestone_id = g.milestone_id
);

-- name: move_completions
-- A quest that the player completed in the same period too stays the guest's.
UPDATE quest_completions AS q SET
    player_id = $3::text,
    idempotency_key = CASE WHEN NOT EXISTS (
        SELECT FROM quest_completions AS o
        WHERE o.tenant_id = $1 AND o.player_id = $3 AND o.idempotency_key = q.idempotency_key
    ) THEN q.idempotency_key END
WHERE q.tenant_id = $1 AND q.player_id = $2 AND NOT EXISTS (
    SELECT FROM quest_completions AS o
    WHERE o.tenant_id = $1 AND o.quest_id = q.quest_id AND o.player_id = $3 AND o.period = q.period
);

-- name: move_adjustments
-- Of scores on leaderboards.
UPDATE leaderboard_adjustments SET player_id = $3::text WHERE tenant_id = $1 AND player_id = $2;

-- name: copy_disqualifications
-- Logging in does not clear a name.
INSERT INTO leaderboard_disqualifications (tenant_id, board_id, player_id, reason, disqualified_at)
SELECT $1::text, board_id, $3::text, reason, disqualified_at FROM leaderboard_disqualifications
WHERE tenant_id = $1 AND player_id = $2
ON CONFLICT DO NOTHING;
