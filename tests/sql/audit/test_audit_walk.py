import asyncio
from typing import Final

import asyncpg

from runtime.operations.conservation.checks import CHECKS
from tests.sql.audit import test_conserved_player_rows as of_players
from tests.sql.audit import test_conserved_reward_rows as of_rewards
from tests.sql.audit import test_conserved_rows as of_things
from tests.sql.audit.test_conserved_log import LOG
from tests.support.bare_rows import BARE
from tests.support.statements import ask_of_t as ask
from tests.support.waiting import HANG_SECONDS

SCENE: Final = BARE


async def walked(connection: asyncpg.Connection, kind: str, after: str, most: int) -> list[str]:
    return [row[0] for row in await ask(connection, f"conservation.walk_{kind}", after, most)]


async def test_walk_returns_all_keys_in_order(connection: asyncpg.Connection) -> None:
    tables = {"play": "plays", "task": "tasks", "board": "leaderboards", "draw": "draws", "campaign": "campaigns"}
    for kind, table in tables.items():
        reward = ", reward_id" if kind == "task" else ""
        for key in "cadb":
            values = f"'{key}', '{key}'" if reward else f"'{key}'"
            await connection.execute(f"INSERT INTO {table} ({kind}_id{reward}) VALUES ({values})")
        assert await walked(connection, kind, "a", 2) == ["b", "c"], kind
        assert await walked(connection, kind, "", 9) == ["a", "b", "c", "d"], kind
    await connection.execute("""INSERT INTO game_players (game_id, player_id) VALUES
        ('g2', 'ann'), ('g1', 'cas'), ('g1', 'ann'), ('g1', 'bob');
        INSERT INTO campaign_days (campaign_id, day) VALUES ('c2', '2026-03-01'), ('c1', '2026-03-03'),
            ('c1', '2026-03-01'), ('c1', '2026-03-02');
        INSERT INTO draw_tickets (draw_id, first_ticket) VALUES ('d2', 0), ('d1', 10), ('d1', 9);
        INSERT INTO stock (prize_id) VALUES ('s'); INSERT INTO code_pools (prize_id) VALUES ('c');
        INSERT INTO prizes (prize_id) VALUES ('c'), ('p'); INSERT INTO rewards (prize_id) VALUES ('r')""")
    assert await walked(connection, "ticket", "", 9) == ["d1 9", "d1 10", "d2 0"]
    assert await walked(connection, "ticket", "d1 9", 1) == ["d1 10"]
    assert [await walked(connection, "prize", *of) for of in (("", 9), ("c", 2))] == [["c", "p", "r", "s"], ["p", "r"]]
    assert await walked(connection, "counter", "g1 ann", 2) == ["g1 bob", "g1 cas"]
    assert await walked(connection, "counter", "", 9) == ["g1 ann", "g1 bob", "g1 cas", "g2 ann"]
    assert await walked(connection, "day", "c1 2026-03-01", 2) == ["c1 2026-03-02", "c1 2026-03-03"]
    assert await walked(connection, "day", "", 9) == [
        *("c1 2026-03-01", "c1 2026-03-02", "c1 2026-03-03", "c2 2026-03-01")
    ]


OF_PLAYERS: Final = (
    *("players (player_id", "plays (player_id, play_id", "balances (player_id", "ledger_entries (player_id, reason"),
    *("turn_balances (player_id", "turn_entries (player_id, reason", "rewards (player_id, reward_id"),
    "milestone_grants (player_id",
)


async def test_walk_of_players_includes_every_player_with_a_row(connection: asyncpg.Connection) -> None:
    for nth, columns in enumerate(OF_PLAYERS):
        for of in "21":
            more = ", 'adjustment'" if "reason" in columns else f", '{of}'" if "," in columns else ""
            await connection.execute(f"INSERT INTO {columns}) VALUES ('p{nth}{of}'{more})")
    every = [f"p{nth}{of}" for nth in range(8) for of in "12"]
    async with asyncio.timeout(HANG_SECONDS):
        assert await walked(connection, "player", "", 99) == every
        assert await walked(connection, "player", "p12", 5) == every[4:9]


HAPPENED: Final = {
    "played": "plays (player_id, game_id, play_id, played_at) VALUES ('{0}', 'g', '{0}', {1})",
    "tasked": "tasks (player_id, task_id, reward_id, updated_at) VALUES ('{0}', '{0}', '{0}', {1})",
    "moved": "ledger_entries (player_id, reason, created_at) VALUES ('{0}', 'adjustment', {1})",
    "turned": "turn_entries (player_id, reason, created_at) VALUES ('{0}', 'quest', {1})",
    "won": "rewards (player_id, reward_id, won_at) VALUES ('{0}', '{0}', {1})",
    "claimed": "rewards (player_id, reward_id, claimed_at) VALUES ('{0}', '{0}', {1})",
    "judged": "audit_entries (entry_id, subject_type, subject_id, created_at) VALUES ('{0}', 'reward', '{0}', {1})",
    "renamed": "players (player_id, updated_at) VALUES ('{0}', {1})",
    "merged": "players (player_id, merged_into, updated_at) VALUES ('{0}', 'of{0}', {1})",
    # What is of no player that something happened to.
    "judged prize": "audit_entries (entry_id, subject_type, subject_id, created_at)"
    " VALUES ('x{0}', 'prize', 'old', {1})",
    "won in a play": "rewards (player_id, reward_id, play_id, won_at) VALUES ('{0}', '{0}', 'p', {1})",
}


async def test_changed_keys_are_of_a_half_open_interval(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO rewards (player_id, reward_id) VALUES ('old', 'old')")
    for what, values in HAPPENED.items():
        for at in (9, 10, 19, 20):
            if what == "judged":
                change = f"INSERT INTO rewards (player_id, reward_id) VALUES ('judged{at}', 'judged{at}')"
                await connection.execute(change)
            await connection.execute(f"INSERT INTO {values.format(f'{what}{at}', f'to_timestamp({at})')}")
    moments = await connection.fetchrow("SELECT to_timestamp(10), to_timestamp(20)")
    changed = {tuple(row) for row in await ask(connection, "conservation.changed", *moments)}
    players = {f"{what}{at}" for what in list(HAPPENED)[:9] for at in (10, 19)} | {"ofmerged10", "ofmerged19"}
    assert changed == {
        *(("player", player) for player in players),
        *(("play", f"played{at}") for at in (10, 19)),
        *(("counter", f"g played{at}") for at in (10, 19)),
        *(("task", f"tasked{at}") for at in (10, 19)),
    }


def test_every_check_has_rows_that_break_it_and_says_what_must_hold() -> None:
    tables = (of_things.PLAYS, of_things.PRIZES, of_things.BOARDS, of_players.WALLETS, of_rewards.REWARDS, LOG)
    assert sorted(name for table in (*tables, of_rewards.MERGED) for name in table) == sorted(CHECKS)
    for check in CHECKS.values():
        assert check.holds[0].isupper() and check.holds.endswith(".") and len(check.holds) > 20, check.name
