import json
from typing import Any, Final

import asyncpg

from tests.support.bare_rows import bare, scene
from tests.support.statements import ask, ask_of_t, undone

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id name status=active budget budget_currency=EUR: spring shop Spring 100 |
    autumn other Autumn 100 | free shop Free 0;
+ prizes prize_id type currency campaign_id=spring: mug goods EUR | points points EUR | turns turns EUR |
    import goods USD;
""")

USES: Final = """
INSERT INTO rewards (reward_id, campaign_id, prize_id, quantity, value, status)
    VALUES (gen_random_uuid(), $1, 'mug', 1, $2, 'won')
"""
BUDGET: Final = "UPDATE campaigns SET budget = $2 WHERE campaign_id = $1"


async def budget_events(connection: asyncpg.Connection) -> list[tuple[str, int]]:
    return [(data["campaign_id"], data["percent"]) for data in await events_of(connection, "count_budgets")]


async def stock_events(connection: asyncpg.Connection) -> list[tuple[str, int]]:
    return [(data["prize_id"], data["remaining"]) for data in await events_of(connection, "watch_stock")]


async def events_of(connection: asyncpg.Connection, name: str) -> list[dict[str, Any]]:
    query = "SELECT data FROM notices WHERE event_id = $1"
    events = await ask_of_t(connection, f"limits.{name}")
    return [json.loads(await connection.fetchval(query, event)) for (event,) in events]


async def used(connection: asyncpg.Connection) -> list[tuple[Any, ...]]:
    return [tuple(it) for it in await connection.fetch("SELECT campaign_id, used, notified_percent FROM budget_marks")]


async def test_tenants_with_limits_or_marks_are_checked(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO campaigns (tenant_id, campaign_id, budget, name) VALUES ('none', 'c', 0, ''), ('c', 'c', 0.1, '');
        INSERT INTO prizes (tenant_id, prize_id, type, low_stock_at, name) VALUES
            ('none', 'p', 'goods', 0, ''), ('p', 'p', 'goods', 1, '');
        INSERT INTO budget_marks (tenant_id, notified_percent) VALUES ('b', 0);
        INSERT INTO low_prizes (tenant_id) VALUES ('l')""")
    assert {row[0] for row in await ask(connection, "limits.tenants")} == {"t", "c", "p", "b", "l"}


async def test_limit_check_within_the_interval_is_skipped(connection: asyncpg.Connection) -> None:
    looks = [bool(await ask_of_t(connection, "limits.lock_mark", seconds)) for seconds in (-1.0, 2e4, 60.0, 60.0)]
    assert looks == [True, True, True, False], "a time far ahead is from before a correction of the clock"


async def test_budget_events_fire_once_per_threshold(connection: asyncpg.Connection) -> None:
    for uses, of_spring in ((79, []), (1, [80]), (0, []), (19, []), (1, [100]), (5, [])):
        await connection.execute(USES, "spring", uses)
        assert await budget_events(connection) == [("spring", share) for share in of_spring], uses
    for budget, of_spring in ((1000, []), (105, [80, 100]), (106, []), (105, [100])):
        await connection.execute(BUDGET, "spring", budget)
        assert await budget_events(connection) == [("spring", share) for share in of_spring], budget
    await connection.execute(USES, "autumn", 200)
    await connection.execute("UPDATE campaigns SET budget_currency = 'USD' WHERE campaign_id = 'spring'")
    await connection.execute(USES.replace("mug", "import"), "spring", 105)
    await connection.execute(BUDGET, "autumn", 101)  # So that it does not lie before the other.
    assert await budget_events(connection) == [*(("autumn", 80), ("autumn", 100), ("spring", 80), ("spring", 100))]
    await connection.execute(BUDGET, "free", 1)
    for _ in range(10):
        await connection.execute(USES, "free", 0.1)
    await connection.execute("UPDATE rewards SET status = 'revoked', fulfilled_at = now() WHERE value = 0.1")
    assert await budget_events(connection) == [("free", 80), ("free", 100)], "delivered, and 1 in decimals"


async def test_budget_of_an_ended_campaign_is_counted_once_an_hour(connection: asyncpg.Connection) -> None:
    assert await budget_events(connection) == []
    await connection.execute(USES, "spring", 5)
    faults = []
    cases: list[tuple[str, str, bool]] = [
        # What a campaign is that has ended, what its mark is, and whether it is counted again.
        *(("", "", False), ("", "counted_at = now() - interval '1 hour'", True)),
        *(("", "counted_at = now() - interval '1 hour' + interval '1 microsecond'", False), ("", "amount = 99", True)),
        *(("", "currency = 'USD'", True), ("end_date = NULL", "", True)),
    ]
    for campaign, mark, counted in cases:
        async with undone(connection):
            await connection.execute(f"""
                UPDATE campaigns SET {campaign or "end_date = now()"} WHERE campaign_id = 'spring';
                UPDATE budget_marks SET {mark or "counted_at = now()"} WHERE campaign_id = 'spring'""")
            await budget_events(connection)
            if sorted(await used(connection)) != [("autumn", 0, 0), ("spring", 5 if counted else 0, 0)]:
                faults.append((campaign, mark))
    assert faults == []


async def test_budget_that_was_removed_has_no_mark(connection: asyncpg.Connection) -> None:
    await budget_events(connection)
    await connection.execute(BUDGET, "spring", 0)
    await budget_events(connection)
    assert await used(connection) == [("autumn", 0, 0)]


STOCK: Final = "UPDATE stock SET remaining = $2::bigint, awarded = total - $2::bigint WHERE prize_id = $1"
"""Of prize $1 so many are left as $2 says."""

WATCHED: Final = scene("""
+ prizes prize_id type low_stock_at status channel=none campaign_id: p3 goods 2 active spring |
    p1 goods 2 active autumn | p2 goods 3 active '' | unwatched goods 0 active '' | gone goods 3 archived '' |
    coins points 3 active '' | 'without end' goods 3 active '';
INSERT INTO stock (prize_id, total, remaining, awarded) SELECT prize_id, 9, 9, 0 FROM prizes;
UPDATE stock SET total = 0, remaining = 0 WHERE prize_id = 'without end';
""")


async def test_stock_events_fire_once_per_fall(connection: asyncpg.Connection) -> None:
    async def low() -> list[str]:
        return [row[0] for row in await connection.fetch("SELECT prize_id FROM low_prizes")]

    await connection.execute(WATCHED)
    for prize in ("unwatched", "gone", "coins"):
        await connection.execute(STOCK, prize, 0)
    for prize, left, now_low in (
        *(("p3", 3, []), ("p3", 2, [("p3", 2)]), ("p3", 2, []), ("p3", 1, []), ("p1", 1, [("p1", 1)])),
        *(("p3", 3, []), ("p2", 3, [("p2", 3)]), ("p3", 0, [("p3", 0)])),
    ):
        await connection.execute(STOCK, prize, left)
        assert await stock_events(connection) == now_low, (prize, left)
    assert sorted(await low()) == ["p1", "p2", "p3"]
    for prize in ("p1", "p2", "p3"):
        await connection.execute(STOCK, prize, 9)
    assert await stock_events(connection) == [] == await low()
    for prize, left in (("p3", 2), ("p1", 1)):
        await connection.execute(STOCK, prize, left)
    assert await stock_events(connection) == [("p1", 1), ("p3", 2)]
    assert await low() == ["p1", "p3"], "one after the other"
    every = ["p1", "p2", "unwatched", "gone", "coins", "without end"]
    assert {row[0] for row in await ask_of_t(connection, "limits.low", every)} == {"p1", "gone"}
