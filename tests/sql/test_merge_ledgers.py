from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, NamedTuple

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

import sql
from runtime.stores.database import Database
from tests.support.bare_rows import scene
from tests.support.commits import TENANT, filled
from tests.support.invariants import CHAIN, LEDGERS, check_sums
from tests.support.locks import blocked, held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import rows, undone

BALANCES: Final = scene("""
+ balances tenant_id=t player_id scope_key currency balance seq: bob c1 coin 50 1 | gus c2 coin 60 3 |
    gus c1 leaf 70 9 | gus c1 coin 5 7 | ann c1 coin 8 6 | ann c1 acorn 2 5 | gus c3 coin 0 1;
+ ledger_entries tenant_id=t player_id scope_key currency amount balance_after reward_id entry_id seq reason=play_reward
    reference_id='': bob c1 coin 50 50 r1 g4 4 | gus c2 coin 60 60 r2 g1 3 | gus c1 leaf 60 60 r1 g2 8 |
    gus c1 leaf 10 70 '' g3 9 | gus c1 coin 6 6 r1 g4 4 | gus c1 coin -1 5 r1 g5 7 | gus c2 coin 1 61 r3 g6 3 |
    gus c2 coin -1 60 r3 g7 3 | ann c1 coin 9 9 '' a1 2 | ann c1 coin 1 10 '' a2 4 | ann c1 coin -2 8 r1 a3 6 |
    ann c1 acorn 1 1 '' a4 1 | ann c1 acorn 1 2 '' a5 5;
""")


async def test_movements_are_of_the_players_own_rewards(connection: asyncpg.Connection) -> None:
    await connection.execute(BALANCES)
    assert await ask(connection, "merging.movements", "gus", ["r2", "r1", "r3"]) == [
        *(("r1", "c1", "coin", 5), ("r1", "c1", "leaf", 60), ("r2", "c2", "coin", 60))
    ]
    assert await ask(connection, "merging.movements", "gus", ["r2"]) == [("r2", "c2", "coin", 60)]


async def test_reversal_takes_at_most_the_one_balance(connection: asyncpg.Connection) -> None:
    await connection.execute(BALANCES)
    before = await rows(connection, "balances", "player_id, scope_key, currency, balance")
    for entry, taken in (("t1", [(3,)]), ("t2", [(2,)]), ("t3", [])):
        assert await ask(connection, "merging.take_back", "gus", "c1", "coin", 3, entry, "about", "r1") == taken
    after = await rows(connection, "balances", "player_id, scope_key, currency, balance")
    assert set(before) - set(after) == {("gus", "c1", "coin", 5)}
    assert set(after) - set(before) == {("gus", "c1", "coin", 0)}
    query = "SELECT amount, balance_after FROM ledger_entries WHERE reason = 'reversal' ORDER BY entry_id"
    assert [tuple(row) for row in await connection.fetch(query)] == [(-3, 2), (-2, 0)]


async def test_balances_are_added_and_ledgers_rewritten_since_the_guests_first(connection: asyncpg.Connection) -> None:
    await connection.execute(BALANCES)
    await ask(connection, "merging.move_balances", "gus", "ann")
    assert await rows(connection, "balances", "player_id, scope_key, currency, balance, seq") == [
        *(("ann", "c1", "acorn", 2, 5), ("ann", "c1", "coin", 13, 7), ("ann", "c1", "leaf", 70, 9)),
        *(("ann", "c2", "coin", 60, 3), ("ann", "c3", "coin", 0, 1), ("bob", "c1", "coin", 50, 1)),
    ]
    made = "SELECT string_agg(scope_key || currency, ' ' ORDER BY ctid) FROM balances WHERE currency <> 'acorn'"
    assert await connection.fetchval(f"{made} AND player_id = 'ann' AND balance <> 13") == "c1leaf c2coin c3coin"
    await ask(connection, "merging.move_ledger", "gus", "ann")
    entries = await rows(connection, "ledger_entries", "player_id, scope_key || currency, seq, entry_id, balance_after")
    assert sorted(entries, key=lambda entry: entry[:4]) == [
        *(("ann", "c1acorn", 1, "a4", 1), ("ann", "c1acorn", 5, "a5", 2)),
        *(("ann", "c1coin", 2, "a1", 9), ("ann", "c1coin", 4, "a2", 10), ("ann", "c1coin", 4, "g4", 16)),
        *(("ann", "c1coin", 6, "a3", 14), ("ann", "c1coin", 7, "g5", 13)),
        *(("ann", "c1leaf", 8, "g2", 60), ("ann", "c1leaf", 9, "g3", 70)),
        *(("ann", "c2coin", 3, "g1", 60), ("ann", "c2coin", 3, "g6", 61), ("ann", "c2coin", 3, "g7", 60)),
        ("bob", "c1coin", 4, "g4", 50),
    ]


async def test_ledger_entries_before_the_guests_first_are_not_rewritten(connection: asyncpg.Connection) -> None:
    await connection.execute(BALANCES)
    await ask(connection, "merging.move_balances", "gus", "ann")
    await connection.execute("UPDATE ledger_entries SET reference_id = 'seen' WHERE entry_id IN ('a1', 'a4', 'a5')")
    written = "SELECT entry_id FROM ledger_entries WHERE xmin::text::bigint = $1 ORDER BY entry_id"
    async with connection.transaction():
        await ask(connection, "merging.move_ledger", "gus", "ann")
        ours = await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
        assert " ".join([row[0] for row in await connection.fetch(written, ours)]) == "a2 a3 g1 g2 g3 g4 g5 g6 g7"


QUESTS: Final = scene("""
+ quests tenant_id=t quest_id campaign_id name=Q type=daily turns: q1 c1 3 | q2 c1 2 | q3 c2 1 | q4 c3 9;
INSERT INTO quest_completions (tenant_id, quest_id, player_id, period, turns, balance_after, event_id, idempotency_key)
    SELECT 't', quest, player, period, turns, 0, quest || player || period, nullif(key, '')
    FROM (VALUES ('q1', 'gus', 'd1', 3, 'both'), ('q1', 'gus', 'd2', 3, 'guests'), ('q2', 'gus', 'd1', 2, 'elsewhere'),
                 ('q3', 'gus', 'd1', 1, ''), ('q3', 'gus', 'd3', 1, 'used'), ('q1', 'ann', 'd1', 3, 'anns'),
                 ('q3', 'ann', 'd2', 1, 'used'), ('q1', 'ann', 'd9', 3, 'elsewhere'),
                 ('q2', 'bob', 'd1', 2, 'elsewhere'),
                 ('q1', 'bob', 'd2', 30, 'guests'), ('q4', 'gus', 'd1', 9, ''), ('q1', 'bob', 'd1', 40, ''))
        AS v (quest, player, period, turns, key);
+ turn_balances tenant_id=t player_id campaign_id balance: bob c1 7 | bob c2 7 | gus c4 5 | gus c3 4 | gus c2 2 |
    gus c1 8 | ann c1 1;
+ rewards tenant_id=t reward_id player_id=gus prize_id=p campaign_id name=W type=turns value quantity: w1 c1 2.9 2 |
    w2 c4 1 1;
""")


async def test_turns_stay_with_the_guest_for_quests_of_both_and_rewards(connection: asyncpg.Connection) -> None:
    await connection.execute(QUESTS)
    assert await ask(connection, "merging.completed_by_both", "gus", "ann") == [("q1", "d1")]
    assert len(await ask(connection, "merging.completions", "gus")) == 6
    for quests, periods, rewards, left in (
        *((["q1"], ["d1"], ["w1"], (7, 0, 0, 0)), (["q1", "q3"], ["d1", "d3"], [], (3, 1, 0, 0))),
        (["q4"], ["d1"], ["w2"], (0, 0, 4, 1)),
    ):
        turns = await ask(connection, "merging.turns", "gus", quests, periods, rewards)
        assert turns == list(zip(("c1", "c2", "c3", "c4"), (8, 2, 4, 5), left, strict=True))


async def test_turns_given_to_the_player_leave_the_guest_its_share(connection: asyncpg.Connection) -> None:
    await connection.execute(QUESTS)
    campaigns, entries = ["c3", "c2", "c1"], (["l3", "l2", "l1"], ["r3", "r2", "r1"])
    await ask(connection, "merging.move_turns", "gus", "ann", campaigns, [4, 2, 5], *entries, [0, 0, 3])
    assert await rows(connection, "turn_balances", "player_id, campaign_id, balance") == [
        *(("ann", "c1", 6), ("ann", "c2", 2), ("ann", "c3", 4), ("bob", "c1", 7), ("bob", "c2", 7)),
        *(("gus", "c1", 3), ("gus", "c4", 5)),
    ]
    made = "SELECT string_agg(campaign_id, ' ' ORDER BY ctid) FROM turn_balances WHERE player_id = 'ann'"
    assert await connection.fetchval(f"{made} AND campaign_id <> 'c1'") == "c2 c3"
    assert await rows(connection, "turn_entries", "entry_id, player_id, amount, balance_after, reference_id") == [
        *(("l1", "gus", -5, 3, "ann"), ("l2", "gus", -2, 0, "ann"), ("l3", "gus", -4, 0, "ann")),
        *(("r1", "ann", 5, 6, "gus"), ("r2", "ann", 2, 2, "gus"), ("r3", "ann", 4, 4, "gus")),
    ]


async def test_completions_move_except_those_of_both(connection: asyncpg.Connection) -> None:
    await connection.execute(QUESTS)
    await ask(connection, "merging.move_completions", "gus", "ann")
    assert await rows(connection, "quest_completions", "player_id, quest_id, period, idempotency_key") == [
        *(("ann", "q1", "d1", "anns"), ("ann", "q1", "d2", "guests"), ("ann", "q1", "d9", "elsewhere")),
        *(("ann", "q2", "d1", "elsewhere"), ("ann", "q3", "d1", None), ("ann", "q3", "d2", "used")),
        *(("ann", "q3", "d3", None), ("ann", "q4", "d1", None), ("bob", "q1", "d1", None)),
        *(("bob", "q1", "d2", "guests"), ("bob", "q2", "d1", "elsewhere"), ("gus", "q1", "d1", "both")),
    ]


PLAYS: Final = scene("""
+ plays tenant_id=t play_id game_id player_id idempotency_key session_id revision=1 seed='' client_seed='' payload='{}'
    outcome='{}' score=0 wins=0 points=0: y1 g1 gus both y1 | y2 g1 gus guests y2 | y3 g2 gus both y3 |
    y4 g1 ann both y4 | y5 g1 bob guests y5 | y6 g2 ann anns y6;
INSERT INTO games SELECT 't', 'g' || n, 'c' || n, '', '' FROM generate_series(3, 4) AS n;
INSERT INTO play_archives SELECT 't', campaign_id, 1, '', 1, '', 0, 0, 1, 0, '', 'a' FROM games WHERE game_id = 'g3';
+ leaderboards tenant_id=t board_id name=B metric=score mode=sum: b1 | b2 | b3;
+ leaderboard_adjustments tenant_id=t entry_id board_id=b1 player_id delta=1 reason='': e1 gus | e2 bob;
+ leaderboard_standings tenant_id=t board_id rank player_id score=1 achieved_at=(now()): b1 1 gus | b2 1 gus |
    b2 2 ann | b1 2 bob | b3 1 bob;
+ leaderboard_disqualifications tenant_id=t board_id player_id reason: b1 gus cheats | b2 gus cheats | b2 ann before |
    b3 bob x;
""")


async def test_plays_move_and_name_each_game_once_also_if_archived(connection: asyncpg.Connection) -> None:
    await connection.execute(PLAYS)
    assert sorted(await ask(connection, "merging.move_plays", "gus", "ann")) == [("g1",), ("g2",), ("g3",)]
    assert await rows(connection, "plays", "play_id, player_id, idempotency_key") == [
        *(("y1", "ann", None), ("y2", "ann", "guests"), ("y3", "ann", "both")),
        *(("y4", "ann", "both"), ("y5", "bob", "guests"), ("y6", "ann", "anns")),
    ]


async def test_first_count_waits_for_a_merge(connection: asyncpg.Connection, rival: asyncpg.Connection) -> None:
    await connection.execute(
        scene("""+ campaigns tenant_id=t campaign_id name='' entry: c '{"max_entries": 9}' | free {} |
        b '{"max_entries": 9}' | d '{"max_entries": 9}' | of_gus '{"max_entries": 9}' | of_ann '{"max_entries": 9}' |
        late_gus '{"max_entries": 9}' | late_ann '{"max_entries": 9}';
    + entries tenant_id=t campaign_id player_id entry_id counted: c gus e1 true | c ann e2 true | c bob e3 true |
        c cas e4 false | free gus e5 true | free ann e6 true | b gus e7 true | b ann e8 true | d gus e9 true |
        d ann f1 true | of_gus gus f2 true | of_gus bob f3 true | of_ann ann f4 true | of_ann bob f5 true |
        late_gus gus f6 false | late_gus ann f7 true | late_ann gus f8 true | late_ann ann f9 false;
    + entry_counts tenant_id=t campaign_id entries: of_gus 2 | d 2;
    + entry_consents tenant_id=t entry_id consent_id=terms text_sha256='' given=true revision: e1 1 | e2 1 |
        e3 (-5);""")
    )
    async with connection.transaction():
        await ask(connection, "merging.lock_forms", "gus", "ann")
        assert await held(rival, "campaigns", "campaign_id") == {"b", "c", "d", "free"}
        await ask(connection, "merging.lock_entry_counts", "gus", "ann")
        made = "SELECT string_agg(campaign_id, ' ' ORDER BY ctid) FROM entry_counts WHERE campaign_id IN ('b', 'c')"
        assert await connection.fetchval(made) == "b c"
        await ask(connection, "merging.end_entries", "gus", "ann")
        counting = await blocked(connection, ask(rival, "entries.begin_count", "c"))
    await counting
    counted = "SELECT string_agg(campaign_id || entries, ' ' ORDER BY campaign_id) FROM entry_counts"
    assert await connection.fetchval(counted) == "b1 c2 d1 of_gus2"
    left = await rows(connection, "entries", "has_guests, counted, entry_id")
    assert " ".join(row[2] for row in left) == "e4 e3 f2 f3 f4 f5 e2 e6 e8 f1 f7 f9"
    assert [row[:2] for row in left] == [(False, False), *[(False, True)] * 5, *[(True, True)] * 6]
    assert await rows(connection, "entry_consents", "entry_id, revision") == [("e2", -999_999), ("e2", 1), ("e3", -5)]
    await ask(connection, "merging.move_entries", "gus", "ann")
    owned = "SELECT string_agg(entry_id, ' ' ORDER BY entry_id) FROM entries WHERE player_id = 'ann'"
    assert await connection.fetchval(owned) == "e2 e6 e8 f1 f2 f4 f7 f9"


async def test_invitations_and_redemptions_move_with_unused_keys(connection: asyncpg.Connection) -> None:
    await connection.execute(
        scene("""
    + referrals tenant_id=t player_id campaign_id inviter_id: gus c1 eve | gus c2 eve | ann c2 fay | bob c1 fay;
    + redemptions tenant_id=t redemption_id pack_id=p campaign_id=c1 turns=1 currency='' scope_key='' amount=0
        balance_after=0 player_id idempotency_key code_hash: x1 gus both 1 | x2 gus guests 2 | x3 ann both 3 |
        x4 bob guests 4;""")
    )
    for name in ("move_referrals", "move_redemptions"):
        await ask(connection, f"merging.{name}", "gus", "ann")
    assert await rows(connection, "referrals", "player_id, campaign_id, inviter_id") == [
        *(("ann", "c1", "eve"), ("ann", "c2", "fay"), ("bob", "c1", "fay"), ("gus", "c2", "eve"))
    ]
    assert await rows(connection, "redemptions", "redemption_id, player_id, idempotency_key") == [
        *(("x1", "ann", None), ("x2", "ann", "guests"), ("x3", "ann", "both"), ("x4", "bob", "guests"))
    ]


async def test_quest_events_of_the_guest_move_to_the_player(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO quest_events (tenant_id, quest_id, event_id, player_id) VALUES
        ('t', 'q1', 'e1', 'gus'), ('t', 'q1', 'e2', 'bob'), ('t', 'q2', 'e1', 'gus'), ('t', 'q2', 'e3', 'ann')""")
    await ask(connection, "merging.move_quest_events", "gus", "ann")
    assert await rows(connection, "quest_events", "quest_id, event_id, player_id") == [
        *(("q1", "e1", "ann"), ("q1", "e2", "bob"), ("q2", "e1", "ann"), ("q2", "e3", "ann"))
    ]


async def test_board_places_move_where_the_player_has_none(connection: asyncpg.Connection) -> None:
    await connection.execute(PLAYS)
    for name in ("move_adjustments", "move_standings", "copy_disqualifications"):
        await ask(connection, f"merging.{name}", "gus", "ann")
    assert await rows(connection, "leaderboard_adjustments", "entry_id, player_id") == [("e1", "ann"), ("e2", "bob")]
    assert await rows(connection, "leaderboard_standings", "board_id, rank, player_id") == [
        *(("b1", 1, "ann"), ("b1", 2, "bob"), ("b2", 1, "gus"), ("b2", 2, "ann"), ("b3", 1, "bob"))
    ]
    assert await rows(connection, "leaderboard_disqualifications", "board_id, player_id, reason") == [
        *(("b1", "ann", "cheats"), ("b1", "gus", "cheats"), ("b2", "ann", "before"), ("b2", "gus", "cheats")),
        ("b3", "bob", "x"),
    ]


MERGING = sql.load("merging")
WHO = (TENANT, "gus", "ann")
"""The guest and the player, who has five coins from before."""


class Entry(NamedTuple):
    """A movement at a moment. Two may be of one: then their ids say which was first."""

    player_id: str
    currency: str
    amount: int
    seq: int


@pytest_asyncio.fixture(scope="module")
async def shared(module_database_url: str) -> AsyncIterator[Database]:
    async with filled(module_database_url) as database:
        await database.execute(
            "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount,"
            " balance_after, reason, reference_id)"
            " VALUES ($1, 'entry', 0, 'camp', 'coin', 'ann', 5, 5, 'adjustment', '')",
            TENANT,
        )
        yield database


async def write(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    held = {("ann", "coin"): (5, 0)}
    rows = []
    for nth, entry in enumerate(entries):
        wallet = (entry.player_id, entry.currency)
        balance = held.get(wallet, (0, 0))[0] + entry.amount
        held[wallet] = (balance, entry.seq)
        rows.append((TENANT, f"entry_{nth:06}", entry.seq, entry.currency, entry.player_id, entry.amount, balance))
    await connection.executemany(
        "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,"
        " reason, reference_id) VALUES ($1, $2, $3, 'camp', $4, $5, $6, $7, 'adjustment', '')",
        rows,
    )
    await connection.executemany(
        "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance, seq)"
        " VALUES ($1, $2, 'camp', $3, $4, $5)"
        " ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET"
        " balance = excluded.balance, seq = excluded.seq",
        [(TENANT, *wallet, *now) for wallet, now in held.items()],
    )


@st.composite
def some_entries(draw: st.DrawFn) -> list[Entry]:
    """What guest and player have moved, by turns; some of it at one moment."""
    kinds = st.tuples(st.sampled_from(["gus", "ann"]), st.sampled_from(["coin", "leaf", "star"]), st.integers(1, 9))
    moments = draw(st.lists(st.tuples(kinds, st.booleans()), max_size=14))
    seq, entries = 1, []
    for (player, currency, amount), later in moments:
        seq += later
        entries.append(Entry(player, currency, amount, seq))
    return entries


@tried(max_examples=60)
@given(entries=some_entries())
async def test_merged_ledger_entries_hold_the_running_sum_of_both(shared: Database, entries: list[Entry]) -> None:
    async with shared.connection() as connection, undone(connection):
        await write(connection, entries)
        for step in ("lock_balances", "move_balances", "move_ledger"):
            await connection.execute(MERGING[step], *WHO)
        await check_sums(connection, LEDGERS, CHAIN)
        assert not await connection.fetch("SELECT FROM ledger_entries WHERE player_id = 'gus'")


LONG, SHORT, CURRENCIES = 3_000, 60, 20


@pytest.mark.parametrize("player_first", [True, False], ids=["before the guest's", "after the guest's"])
async def test_merged_ledger_is_read_once_whatever_the_guest_has(shared: Database, player_first: bool) -> None:
    own = [Entry("ann", "coin", 1, seq) for seq in range(1, LONG + 1)]
    start = LONG + 1 if player_first else -SHORT
    guests = [Entry("gus", f"item {nth % CURRENCIES}", 1, start + nth) for nth in range(SHORT)]
    async with shared.connection() as connection, undone(connection):
        await write(connection, own + guests if player_first else guests + own)
        await connection.execute("ANALYZE ledger_entries, balances")
        await connection.execute(MERGING["move_balances"], *WHO)
        plan = await connection.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + MERGING["move_ledger"], *WHO)
        # Reading it again for each currency would add 20 times, for each entry of the guest 60 times.
        assert rows_seen(plan[0]["Plan"]) < 15 * (LONG + SHORT), plan
        await check_sums(connection, LEDGERS, CHAIN)


def rows_seen(node: dict[str, Any]) -> float:
    removed = [node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter", "Index Recheck")]
    own = node["Actual Loops"] * (node["Actual Rows"] + sum(removed))
    return float(own + sum(rows_seen(child) for child in node.get("Plans", ())))
