"""A tenant with a crowd: its players, what they played and won of late, and what staff did meanwhile, made by SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import BenchStack

DAYS: Final = 30
"""Over which the plays lie."""

SHARE_WON: Final = 5
"""One play in so many wins."""

GAMES: Final = 4
TERMS: Final = '{"past":true}'
"""What those plays were promised."""

CODES: Final = 100_000
ENTRIES: Final = 200_000
"""Of the audit log, and as many events that an integration was told."""

ULID: Final = "||".join(
    f"substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + ((extract(epoch FROM at) * 1000)::bigint >> {bits} & 31)::int, 1)"
    for bits in range(45, -1, -5)
)
"""SQL of the first part of an id that is made at that time (runtime/ids.py): what happened of late is found by it."""

FEW: Final = 300
"""Further campaigns, prizes, quests and leaderboards each; few, beside players and plays."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a page can be asked for. Ids; player: one with many plays."""

    tenant_id: str
    campaign: str
    game: str
    prize: str
    code_prize: str
    board: str
    player: str


def fill(stack: BenchStack, fixture: Fixture, players: int, plays: int) -> Crowd:
    """Makes all of it, in a few statements."""
    prize = fixture.prize()
    codes = fixture.prize(fulfillment={"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}, stock=0)
    games = [fixture.spin(prize, 1 / SHARE_WON) for _ in range(GAMES)]
    fixture.api.post(f"/prizes/{codes}/codes", {"scope": fixture.scope, "codes": ["FIRST-ONE"]})
    names = {"tenant": fixture.tenant_id, "campaign": fixture.campaign_id, "prize": prize, "codes": codes}
    names |= {"players": str(players), "plays": str(plays), "games": "{" + ",".join(games) + "}"}
    for statement in _STATEMENTS:
        for name, value in names.items():
            statement = statement.replace(f"<{name}>", value)
        stack.sql(statement)
    return Crowd(fixture.tenant_id, fixture.campaign_id, games[0], prize, codes, "board_0000", "player_00000001")


_STATEMENTS: Final = (
    # player_00000001 plays a hundredth of all.
    f"""CREATE TEMPORARY TABLE past AS
        SELECT n, {ULID} || lpad(n::text, 16, '0') AS ulid,
               'player_' || lpad(CASE WHEN n % 100 = 0 THEN 1 ELSE abs(hashint8(n)::bigint) % <players> END::text, 8,
                                 '0') AS player_id,
               ('<games>'::text[])[1 + n % {GAMES}] AS game_id, n % {SHARE_WON} = 0 AS won, n % 1000 AS kind, at
        FROM generate_series(1::bigint, <plays>) AS n
        CROSS JOIN LATERAL (SELECT now() - (<plays> - n) * (interval '{DAYS} days' / <plays>) AS at) AS o;
        INSERT INTO promised_terms (tenant_id, revision_hash, game_id, terms)
        SELECT '<tenant>', encode(sha256('{TERMS}'::bytea), 'hex'), ('<games>'::text[])[1], '{TERMS}';
        INSERT INTO players (tenant_id, player_id, display_name, auth_method, created_at, updated_at)
        SELECT '<tenant>', player_id, 'Player ' || right(player_id, 8), 'email_otp', min(at), min(at)
        FROM past GROUP BY player_id;
        INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
        SELECT tenant_id, 'contact_' || right(player_id, 8), player_id, 'email', player_id || '@example.com'
        FROM players WHERE tenant_id = '<tenant>';
        INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                           outcome, score, wins, points, played_at)
        SELECT '<tenant>', 'play_' || ulid, game_id, player_id,
               'sess_' || ulid || repeat('0', 32) || '.1.' || left(encode(sha256('{TERMS}'::bytea), 'hex'), 32) || '.'
               || player_id, 1, sha256(n::text::bytea), '', '{{}}',
               json_build_object('decided', '{{"awards": [], "path": [], "metadata": {{}}}}'::json,
                   'rewards', CASE WHEN won THEN json_build_array(json_build_object('prize_id', '<prize>',
                       'reward_id', 'reward_' || ulid, 'quantity', 1, 'name', 'Coffee voucher', 'type', 'voucher',
                       'value', 5)) ELSE '[]'::json END, 'balances', '[]'::json, 'milestones_granted', '[]'::json),
               n % 500, CASE WHEN won THEN 1 ELSE 0 END, 0, at
        FROM past ORDER BY n;
        INSERT INTO game_players (tenant_id, game_id, player_id, plays, day, day_plays)
        SELECT '<tenant>', game_id, player_id, count(*), max(at)::date, 1 FROM past GROUP BY game_id, player_id;
        INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, game_id, play_id, name, type,
                             value, quantity, status, won_at, fulfilled_at)
        SELECT '<tenant>', 'reward_' || ulid, player_id, '<prize>', '<campaign>', game_id, 'play_' || ulid,
               'Coffee voucher', 'voucher', 5, 1, CASE WHEN kind = 0 THEN 'failed' ELSE 'fulfilled' END, at,
               CASE WHEN kind = 0 THEN NULL ELSE at END
        FROM past WHERE won ORDER BY n;
        INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, attempts,
                           last_error, created_at, updated_at)
        SELECT '<tenant>', 'task_' || ulid, 'reward_' || ulid, '<prize>', '<campaign>', player_id, 'webhook',
               CASE WHEN kind = 0 THEN 'dead' ELSE 'delivered' END, 1,
               CASE WHEN kind = 0 THEN 'answered 503' ELSE '' END, at, at
        FROM past WHERE won ORDER BY n;
        INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                    reason, reference_id, created_at)
        SELECT '<tenant>', 'entry_' || ulid, n, '<campaign>', 'points', player_id, 10,
               10 * row_number() OVER (PARTITION BY player_id ORDER BY n), 'play_reward', 'play_' || ulid, at
        FROM past WHERE kind % 5 = 1 ORDER BY n;
        INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance, seq)
        SELECT '<tenant>', '<campaign>', 'points', player_id, 10 * count(*), max(n)
        FROM past WHERE kind % 5 = 1 GROUP BY player_id;
        UPDATE stock AS s SET awarded = s.awarded + o.won, remaining = s.remaining - o.won
        FROM (SELECT count(*) AS won FROM past WHERE won) AS o
        WHERE s.tenant_id = '<tenant>' AND s.prize_id = '<prize>'""",
    f"""INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)
        SELECT '<tenant>', '<codes>', 'code_' || lpad(n::text, 26, '0'), key_id, ciphertext, sha256(n::text::bytea)
        FROM generate_series(1, {CODES}) AS n,
             (SELECT key_id, ciphertext FROM codes WHERE tenant_id = '<tenant>' LIMIT 1) AS one;
        INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after,
                                   created_at)
        SELECT '<tenant>', 'audit_' || lpad(n::text, 26, '0'), 'staff_' || n % 40,
               CASE WHEN n % 50 = 0 THEN 'campaign.update' ELSE 'player.grant_turns' END,
               CASE WHEN n % 50 = 0 THEN 'campaign' ELSE 'player' END,
               CASE WHEN n % 50 = 0 THEN '<campaign>' ELSE 'player_' || lpad((n % <players>)::text, 8, '0') END,
               '{{"balance": 1}}', '{{"balance": 2, "why": "sorry for the wait"}}',
               now() - ({ENTRIES} - n) * (interval '{DAYS} days' / {ENTRIES})
        FROM generate_series(1, {ENTRIES}) AS n""",
    f"""INSERT INTO campaigns (tenant_id, campaign_id, name, status, timezone)
        SELECT '<tenant>', 'campaign_' || lpad(n::text, 4, '0'), 'Campaign ' || n, 'ended', 'Europe/Berlin'
        FROM generate_series(1, {FEW}) AS n;
        INSERT INTO games (tenant_id, game_id, campaign_id, name, type, status)
        SELECT g.tenant_id, 'game_' || lpad(n::text, 4, '0'), 'campaign_' || lpad(n::text, 4, '0'), 'Game ' || n,
               g.type, 'paused'
        FROM generate_series(1, {FEW}) AS n, games AS g
        WHERE g.tenant_id = '<tenant>' AND g.game_id = ('<games>'::text[])[1];
        INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
        SELECT r.tenant_id, 'game_' || lpad(n::text, 4, '0'), 1, r.definition
        FROM generate_series(1, {FEW}) AS n, game_revisions AS r
        WHERE r.tenant_id = '<tenant>' AND r.game_id = ('<games>'::text[])[1];
        INSERT INTO prizes (tenant_id, prize_id, name, type, value)
        SELECT '<tenant>', 'prize_' || lpad(n::text, 4, '0'), 'Prize ' || n, 'goods', n
        FROM generate_series(1, {FEW}) AS n;
        INSERT INTO stock (tenant_id, prize_id, total, remaining)
        SELECT '<tenant>', 'prize_' || lpad(n::text, 4, '0'), 100, 100 FROM generate_series(1, {FEW}) AS n;
        INSERT INTO quests (tenant_id, quest_id, campaign_id, name, type, turns, status)
        SELECT '<tenant>', 'quest_' || lpad(n::text, 4, '0'), '<campaign>', 'Quest ' || n, 'daily', 1, 'active'
        FROM generate_series(1, {FEW}) AS n;
        INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode, start_date)
        SELECT '<tenant>', 'board_' || lpad(n::text, 4, '0'), '<campaign>', 'Board ' || n, 'score', 'sum',
               now() - interval '{DAYS} days'
        FROM generate_series(0, 9) AS n;
        INSERT INTO api_tokens (tenant_id, token_id, token_hash, name, roles, made_by, expires_at)
        SELECT '<tenant>', 'token_' || lpad(n::text, 4, '0'), sha256(n::text::bytea), 'Token ' || n, '{{designer}}',
               'staff_1', now() + interval '90 days'
        FROM generate_series(1, {FEW}) AS n;
        INSERT INTO merchants (tenant_id, merchant_id, name)
        SELECT '<tenant>', 'merchant_' || lpad(n::text, 4, '0'), 'Merchant ' || n FROM generate_series(1, {FEW}) AS n;
        INSERT INTO integrations (tenant_id, integration_id, type, events, config)
        VALUES ('<tenant>', 'integration_0001', 'spreadsheet', '{{prize_won}}', '{{}}');
        INSERT INTO integration_deliveries (tenant_id, delivery_id, integration_id, event_id, event_type, status,
                                            attempts)
        SELECT '<tenant>', 'delivery_' || lpad(n::text, 26, '0'), 'integration_0001', 'event_' || n, 'prize_won',
               'delivered', 1
        FROM generate_series(1, {ENTRIES}) AS n""",
    # Plays of the past come behind a mark that has moved meanwhile.
    "UPDATE figure_marks SET counted_until = '-infinity' WHERE tenant_id = '<tenant>'",
    "VACUUM ANALYZE",
    "CHECKPOINT",
)
