from typing import Final

import asyncpg
import pytest

AT_LEAST_NONE: Final = (
    *("prizes.max_per_user", "prizes.max_per_day", "prizes.expires_after_days"),
    *("stock.total", "stock.remaining", "stock.awarded", "prize_days.awarded", "prize_players.awarded"),
    *("login_challenges.tries", "login_guesses.wrong", "logins.generation", "logins.repeats"),
    *("game_players.plays", "game_players.day_plays", "balances.balance", "ledger_entries.balance_after"),
    *("turn_balances.balance", "turn_entries.balance_after", "tasks.attempts", "quests.turns"),
    *("campaign_marks.players", "campaign_marks.returned", "integration_deliveries.attempts", "prizes.low_stock_at"),
    *("campaigns.budget", "entry_counts.entries", "draws.alternates", "draw_tickets.first_ticket"),
    *("packs.turns", "packs.amount", "packs.codes", "packs.withdrawn"),
)
AT_LEAST_ONE: Final = (
    *("games.revision", "rewards.quantity", "test_runs.times", "draw_tickets.tickets", "draw_lists.tickets"),
    *("assets.size", "play_archives.plays"),
)
SOME: Final = ("ledger_entries.amount", "turn_entries.amount")
TOKENS: Final = {
    "tenants.status": "active suspended",
    "approvals.status": "waiting approved done rejected withdrawn failed",
    "merchants.status": "active suspended",
    "campaigns.status": "draft active paused ended",
    "games.status": "draft active paused archived",
    "prizes.redemption_mode": "on_win on_claim manual",
    "prizes.status": "active archived",
    "key_holders.kind": "server code",
    "players.auth_method": "phone_otp email_otp guest external",
    "players.status": "active suspended",
    "contacts.type": "phone email",
    "revocations.kind": "login player sign_in staff token",
    "referrals.outcome": "open paid own played contact limit",
    "ledger_entries.reason": "play_reward milestone_spend quest_reward adjustment reversal code",
    "turn_entries.reason": "quest play adjustment merge prize reversal code",
    "rewards.status": "won claimed fulfilling fulfilled expired revoked failed",
    "tasks.status": "pending delivering awaiting retry delivered dead cancelled",
    "quests.type": "one_time daily weekly",
    "quests.status": "draft active archived",
    "packs.status": "active paused archived",
    "leaderboards.metric": "score plays wins points",
    "leaderboards.mode": "sum best latest",
    "leaderboards.status": "active finalized archived",
    "draws.status": "open closed drawn confirmed cancelled",
    "integrations.status": "active paused",
    "integration_deliveries.status": "delivered stubbed retry dead",
    "notices.type": "campaign.budget_reached prizes.low_stock",
}

TAKEN: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(AT_LEAST_NONE, ("0", "1")),
    **dict.fromkeys(AT_LEAST_ONE, ("1", "2")),
    **dict.fromkeys(SOME, ("-1", "1")),
    **{name: tuple(f"'{token}'" for token in tokens.split()) for name, tokens in TOKENS.items()},
    "budget_marks.notified_percent": ("0", "80", "100"),
    "assets": (r"'\x01'::bytea AS body, NULL::text AS object", "NULL::bytea AS body, 'key' AS object"),
    "codes": (
        "NULL::text AS reward_id, now() AS withdrawn_at",
        "'reward' AS reward_id, NULL::timestamptz AS withdrawn_at",
    ),
    "pack_codes": (
        "NULL::text AS redemption_id, now() AS withdrawn_at",
        "'redemption' AS redemption_id, NULL::timestamptz AS withdrawn_at",
    ),
    "packs": ("1 AS turns, 0 AS amount", "0 AS turns, 1 AS amount"),
    "redemptions": (r"'\x01'::bytea AS code_hash, NULL AS receipt_id", "NULL::bytea AS code_hash, 't' AS receipt_id"),
    "stock": ("10 AS total, 4 AS remaining, 6 AS awarded", "0 AS total, 0 AS remaining, 6 AS awarded"),
    "promised_terms": (r"'\x01'::bytea AS terms, encode(sha256('\x01'), 'hex') AS revision_hash",),
    "entry_texts": ("'I accept.' AS text, encode(sha256('I accept.'), 'hex') AS text_sha256",),
    "integration_deliveries": (
        "'retry' AS status, '{}'::json AS event, now() AS next_attempt_at",
        "'dead' AS status, NULL::json AS event, NULL::timestamptz AS next_attempt_at",
        "'delivered' AS status, '{}'::json AS event, NULL::timestamptz AS next_attempt_at",
    ),
}
"""By column, or by table where a constraint is about several."""

REFUSED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(AT_LEAST_NONE, ("-1",)),
    **dict.fromkeys(AT_LEAST_ONE, ("0", "-1")),
    **dict.fromkeys(SOME, ("0",)),
    **dict.fromkeys(TOKENS, ("'other'", "''")),
    "budget_marks.notified_percent": ("-1", "79", "101"),
    "assets": (r"'\x01'::bytea AS body, 'key' AS object", "NULL::bytea AS body, NULL::text AS object"),
    "codes": ("'reward' AS reward_id, now() AS withdrawn_at",),
    "pack_codes": ("'redemption' AS redemption_id, now() AS withdrawn_at",),
    "packs": ("0 AS turns, 0 AS amount", "1 AS turns, 1 AS amount"),
    "redemptions": (r"'\x01'::bytea AS code_hash, 't' AS receipt_id", "NULL::bytea AS code_hash, NULL AS receipt_id"),
    "stock": (
        *("10 AS total, 4 AS remaining, 7 AS awarded", "10 AS total, 4 AS remaining, 5 AS awarded"),
        "0 AS total, 1 AS remaining, 0 AS awarded",
    ),
    "promised_terms": (r"'\x01'::bytea AS terms, encode(sha256('\x02'), 'hex') AS revision_hash",),
    "entry_texts": ("'I accept!' AS text, encode(sha256('I accept.'), 'hex') AS text_sha256",),
    "integration_deliveries": (
        "'retry' AS status, NULL::json AS event, now() AS next_attempt_at",
        "'retry' AS status, '{}'::json AS event, NULL::timestamptz AS next_attempt_at",
    ),
}

_CONSTRAINTS: Final = """
    SELECT c.relname || CASE WHEN cardinality(k.conkey) > 1 THEN '' ELSE '.' || a.attname END AS name,
           replace(pg_get_expr(k.conbin, k.conrelid), 'VALUE', a.attname) AS condition, a.attname::text AS column,
           format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL) AS type
    FROM pg_constraint AS k
    JOIN pg_attribute AS a ON (a.attrelid = k.conrelid AND a.attnum = k.conkey[1]) OR a.atttypid = k.contypid
    JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind = 'r' JOIN pg_type AS t ON t.oid = a.atttypid
    WHERE k.contype = 'c' AND k.connamespace = 'public'::regnamespace ORDER BY 1
"""


async def test_constraints_accept_and_refuse_their_examples(pool: asyncpg.Pool) -> None:
    rows = await pool.fetch(_CONSTRAINTS)
    assert sorted(row["name"] for row in rows) == sorted(TAKEN) == sorted(REFUSED)
    for row in rows:
        for accepted, values in ((True, TAKEN[row["name"]]), (False, REFUSED[row["name"]])):
            for value in values:
                named = value if " AS " in value else f"{value}::{row['type']} AS {row['column']}"
                found = await pool.fetchval(f"SELECT {row['condition']} FROM (SELECT {named}) AS given")
                assert found is accepted, (row["name"], value)


@pytest.mark.parametrize(
    ("index", "columns"),
    [
        ("plays_idempotency", "tenant_id, player_id, game_id, idempotency_key"),
        ("milestone_grants_idempotency", "tenant_id, player_id, game_id, idempotency_key"),
        ("quest_completions_idempotency", "tenant_id, player_id, quest_id, idempotency_key"),
        ("redemptions_idempotency", "tenant_id, player_id, idempotency_key"),
        *(("redemptions_receipt", "tenant_id, pack_id, receipt_id"), ("codes_once", "tenant_id, prize_id, code_hash")),
        *(("codes_reward", "tenant_id, reward_id"), ("contacts_once", "tenant_id, type, value")),
        ("tasks_reward", "tenant_id, reward_id"),
        ("leaderboard_standings_player", "tenant_id, board_id, player_id"),
        ("integration_deliveries_event", "tenant_id, integration_id, event_id"),
    ],
)
async def test_unique_index_exists_for_its_columns(pool: asyncpg.Pool, index: str, columns: str) -> None:
    found = await pool.fetchval("SELECT pg_get_indexdef($1::regclass)", index)
    assert found.startswith("CREATE UNIQUE INDEX ") and f"({columns})" in found
