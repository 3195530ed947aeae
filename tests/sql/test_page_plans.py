"""Rows that a statement of a staff page reads under its generic plan (force_generic_plan): a page's, not a crowd's."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import asyncpg
import pytest

import sql
from runtime.actors.statement import statement as commit_of
from tests.support.bare_rows import BARE
from tests.support.statements import undone

PLAYERS, PLAYS, DAYS = 200, 3_000, 5

CROWD: Final = (
    BARE
    + f"""
INSERT INTO campaigns (campaign_id) VALUES ('camp');
INSERT INTO games (game_id, campaign_id) VALUES ('g1', 'camp'), ('g2', 'camp');
INSERT INTO prizes (prize_id, campaign_id) VALUES ('cup', 'camp'), ('mug', 'camp');
INSERT INTO stock (prize_id, total, remaining, awarded) VALUES ('cup', 0, 0, 0), ('mug', 0, 0, 0);
INSERT INTO players (player_id, display_name) SELECT 'p' || n, 'Name' FROM generate_series(1, {PLAYERS}) AS n;
INSERT INTO contacts (contact_id, player_id, value) SELECT 'c' || n, 'p' || n, 'p' || n
    FROM generate_series(1, {PLAYERS}) AS n;
-- The first player plays a third of all.
INSERT INTO plays (play_id, player_id, game_id)
    SELECT 'y' || lpad(n::text, 6, '0'), 'p' || CASE WHEN n % 3 = 0 THEN 1 ELSE 1 + n % {PLAYERS} END, 'g' || 1 + n % 2
    FROM generate_series(1, {PLAYS}) AS n;
INSERT INTO rewards (reward_id, player_id, prize_id, campaign_id, game_id, play_id, status)
    SELECT replace(play_id, 'y', 'r'), player_id, CASE game_id WHEN 'g1' THEN 'cup' ELSE 'mug' END, 'camp', game_id,
           play_id, 'fulfilled' FROM plays;
INSERT INTO tasks (task_id, reward_id, prize_id, campaign_id, player_id)
    SELECT replace(reward_id, 'r', 't'), reward_id, prize_id, campaign_id, player_id FROM rewards;
INSERT INTO codes (code_id, prize_id, code_hash) SELECT 'k' || n, 'cup', n::text::bytea
    FROM generate_series(1, {PLAYS}) AS n;
INSERT INTO campaign_marks (campaign_id, players, returned) VALUES ('camp', {PLAYERS}, {PLAYERS});
INSERT INTO campaign_player_days (campaign_id, player_id, day)
    SELECT 'camp', player_id, date '2026-01-01' + d FROM players, generate_series(1, {DAYS}) AS d;
INSERT INTO campaign_days (campaign_id, day) SELECT 'camp', date '2026-01-01' + d FROM generate_series(1, {DAYS}) AS d;
INSERT INTO ledger_entries (player_id, scope_key, currency, entry_id, seq, amount, balance_after, reason, reference_id)
    SELECT 'p' || 1 + n % 3, 'camp', 'star', 'e' || lpad(n::text, 6, '0'), n, 1, n, 'adjustment', ''
    FROM generate_series(1, {PLAYS}) AS n;
INSERT INTO integrations (integration_id, campaign_id, type) VALUES ('messages_camp', 'camp', 'email');
INSERT INTO integration_deliveries (integration_id, delivery_id, event_id, status, event)
    SELECT 'messages_camp', play_id, play_id, 'delivered', json_build_object('data', to_json(plays)) FROM plays;
INSERT INTO audit_entries (entry_id, subject_type) SELECT 'a' || n, CASE WHEN n > 5 THEN 'player' ELSE 'staff' END
    FROM generate_series(1, {PLAYS}) AS n;
"""
)

CODES: Final = 30_000

PAGE: Final = 10
EVER: Final = "'-infinity', 'infinity'"
OF_FIRST: Final = "'p1', '', '', NULL, 10"
UNFILTERED: Final = "'', '', '', '', 0, 0, '%', '', '~', NULL"
OF_ANYBODY: Final = "'', '', '', ''"
NARROWED: Final = "'', '', '', '', '', ''"

READ: Final[list[tuple[str, str, str, int]]] = [
    # A statement and what it is asked; of which table, and how many rows it may read at most.
    ("prizes.summary", "'', 'camp', '', '%', '', NULL, 10", "rewards", PLAYS),
    ("prizes.summary", "'', 'camp', '', '%', '', NULL, 10", "code_pools", 2),
    ("codes.totals", "'cup'", "code_ends", 1),
    ("codes.with_other_expiry", "'cup', 'free', 0, 1900000000, 10", "codes", 2 * PAGE),
    ("codes.with_other_expiry", "'cup', 'expired', 0, 1900000000, 10", "codes", 0),
    *(("desk.plays", OF_FIRST, "plays", PAGE), ("erasure.with_guests", "'p1'", "players", 2)),
    ("desk.counts", "'p1'", "plays", 100),
    ("desk.rewards", f"{NARROWED}, '{{p7}}', NULL, NULL, 0, 0, NULL, 10", "rewards", 2 * PLAYS // PLAYERS),
    ("desk.rewards", f"{NARROWED}, '{{nobody}}', NULL, NULL, 0, 0, NULL, 10", "rewards", 0),
    ("desk.rewards", f"{NARROWED}, NULL, '{{cup}}', '{{x}}', 0, 0, NULL, 10", "rewards", 0),
    ("desk.rewards", f"{NARROWED}, NULL, NULL, NULL, 1, 0, NULL, 10", "rewards", PAGE),
    ("fulfillment.search", f"{OF_ANYBODY}, '{{p7}}', 0, 0, '', '~', NULL, 10", "tasks", 2 * PLAYS // PLAYERS),
    ("fulfillment.search", f"{OF_ANYBODY}, '{{p7}}', 0, 0, '', '~', NULL, 10", "contacts", 2),
    ("fulfillment.search", f"{OF_ANYBODY}, '{{nobody}}', 0, 0, '', '~', NULL, 10", "tasks", 0),
    ("fulfillment.search", f"{OF_ANYBODY}, NULL, 1, 0, '', '~', NULL, 10", "tasks", PAGE),
    ("fulfillment.search", f"{OF_ANYBODY}, NULL, 1, 0, '', 't000200', NULL, 10", "tasks", PAGE),
    ("fulfillment.search", f"{OF_ANYBODY}, NULL, 1, 0, '', '~', 't000200', 10", "tasks", PAGE),
    ("wallet.ledger", "'p1', 'camp', 'star', NULL, NULL, 10", "ledger_entries", PAGE),
    ("wallet.ledger", "'p1', 'camp', 'star', 300, 'l000300', 10", "ledger_entries", PAGE),
    ("audit.list_of_type", f"'staff', {UNFILTERED}, 10", "audit_entries", 5),
    ("messages.of_player", "'p7', '', '', '', NULL, 10", "integration_deliveries", 2 * PLAYS // PLAYERS),
    ("integrations.prune_deliveries", "'messages_camp', 1, 9", "integration_deliveries", 0),
    ("figures.players", "'camp', '', ''", "campaign_player_days", 0),
    ("figures.players", "'camp', '2026-01-02', '2026-01-06'", "campaign_player_days", 0),
    ("figures.players", "'camp', '2026-01-05', ''", "campaign_player_days", 2 * PLAYERS),
]


@pytest.fixture
async def crowd(pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
    async with pool.acquire() as connection:
        await connection.execute(CROWD)
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("SET plan_cache_mode = force_generic_plan; SET jit = off")
        try:
            yield connection
        finally:
            await connection.execute("RESET ALL; DEALLOCATE ALL")


async def nodes(crowd: asyncpg.Connection, name: str, arguments: str) -> list[dict[str, Any]]:
    """Every node of the plan of `file.statement`, as it was carried out."""
    file, _, statement = name.partition(".")
    text = commit_of(frozenset({"codes"}))[0] if file == "commit" else sql.load(file)[statement]
    await crowd.execute(f"PREPARE looked_at AS {text}")
    tenant = "ARRAY[('t', 0)]::catalog_seen[]" if file == "commit" else "'t'"
    explained = await crowd.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE looked_at ({tenant}, {arguments})")
    await crowd.execute("DEALLOCATE looked_at")
    return list(_walk(json.loads(explained)[0]["Plan"]))


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _walk(below)


def rows_read(node: dict[str, Any]) -> int:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


async def test_page_reads_no_more_rows_than_it_is_about(crowd: asyncpg.Connection) -> None:
    faults = []
    for name, arguments, table, most in READ:
        # What an index tells by itself lies together, a hundred to a page: only of the plays it is not counted.
        alone = "Index Only Scan" if table == "plays" else ""
        scans = [node for node in await nodes(crowd, name, arguments) if node.get("Relation Name") == table]
        read = sum(rows_read(node) for node in scans if node["Node Type"] != alone)
        if not scans or read > most:
            faults.append(f"{name}({arguments}) reads {read} rows of {table} in {len(scans)} scans, at most {most}")
    assert faults == []


async def test_figures_of_a_campaigns_prizes_sort_one_row_of_each_prize(crowd: asyncpg.Connection) -> None:
    sorts = [it for it in await nodes(crowd, "figures.prizes", f"'camp', {EVER}, ''") if it["Node Type"] == "Sort"]
    assert sum(rows_read(node) for node in sorts) == 2, "a row of each prize"


POOL: Final = f"""
INSERT INTO prizes (prize_id, channel, type) SELECT 'v' || n, 'voucher_code', 'goods' FROM generate_series(1, 20) AS n;
INSERT INTO stock (prize_id, total, remaining, awarded) SELECT 'v' || n, 0, 0, 0 FROM generate_series(1, 20) AS n;
INSERT INTO rewards (reward_id, player_id, prize_id, campaign_id, status) VALUES ('won', 'p1', 'v1', 'camp', 'won');
INSERT INTO codes (code_id, prize_id, code_hash)
    SELECT 'v' || n, 'v' || CASE WHEN n % 10 > 0 THEN 1 ELSE 1 + n / 10 % 20 END, n::text::bytea
    FROM generate_series(1, {CODES}) AS n;
"""
"""Pools of which one holds nine of ten codes, and all of them are free."""

SKEWS: Final = {
    "as it is": "ANALYZE codes",
    "of a pool that was all won": "UPDATE codes SET reward_id = 'x' || code_id WHERE reward_id IS NULL; ANALYZE codes;"
    " UPDATE codes SET reward_id = NULL WHERE reward_id = 'x' || code_id",
    "of a pool that was withdrawn": "UPDATE codes SET withdrawn_at = now() WHERE reward_id IS NULL; ANALYZE codes;"
    " UPDATE codes SET withdrawn_at = NULL",
}

PRIZES: Final = "'{" + ", ".join(f"v{n}" for n in range(1, 21)) + "}'"
IN_PLAY: Final = {
    "play.refresh": f"'g1', ARRAY['p1'], {PRIZES}, '{{}}', 'camp', 'camp', '2026-01-01', false",
    "commit.commit": "0, ARRAY[('t', 'one', 'v1', 1), ('t', 'two', 'v1', 2), ('t', 'three', 'v7', 1)]::code_take[]",
    "claims.claim": "'{won}', '{p1}', '{NULL}', '{task}', '{voucher_code}', '{\"{}\"}'",
    "rewards.take_code": "'v1', 'won', '{won}'",
    "rewards.lock_codes": "ARRAY['won', 'r000001']",
    "rewards.return_stock": "ARRAY['won', 'r000001']",
    "rewards.list": "'p1', '', '', '', '', '', NULL, 10",
    "rewards.as_claimed": "ARRAY['won', 'r000001']",
    "games.prizes_on_show": PRIZES,
    "limits.low": PRIZES,
}


@pytest.mark.parametrize("skew", SKEWS)
async def test_play_reads_only_codes_it_takes_whatever_statistics_say(crowd: asyncpg.Connection, skew: str) -> None:
    """With five million free codes each start read half of them for each prize, and every tenant waited."""
    await crowd.execute(POOL)
    await crowd.execute(SKEWS[skew])
    read = {}
    for name, arguments in IN_PLAY.items():
        async with undone(crowd):
            scans = [node for node in await nodes(crowd, name, arguments) if node.get("Relation Name") == "codes"]
        read[name] = sum(map(rows_read, scans))
    assert {name: rows for name, rows in read.items() if rows > 30} == {}


async def test_log_looks_up_leaves_whatever_statistics_say(crowd: asyncpg.Connection) -> None:
    """By a plan from when the log was empty, an append read all leaves for each row: 15 x the CPU."""
    async with undone(crowd):
        await crowd.execute(sql.load("log")["create_tree"], "t")
        await crowd.execute(sql.load("log")["probe_indexes"])
        found = await nodes(crowd, "log.append_rows", "now(), 10, 0")
    scans = {node["Node Type"] for node in found if node.get("Relation Name") == "log_leaves"}
    assert scans - {"Index Scan", "Index Only Scan"} == {"ModifyTable"} != scans
