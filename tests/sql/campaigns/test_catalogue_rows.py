from typing import Any, Final

import asyncpg
import pytest

import sql
from tests.support.locks import held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import first_of_t as first
from tests.support.statements import undone

SCENE: Final = """
+ tenants tenant_id name: t T;
+ campaigns tenant_id=t campaign_id merchant_id name=C status: camp shop active | theirs other active |
    draft shop draft;
+ prizes tenant_id=t prize_id campaign_id name type=goods status channel: mug camp Mug active none |
    cup theirs Cup active none | old camp Old archived none | code camp V active voucher_code |
    coded camp V active voucher_code;
+ stock tenant_id=t prize_id total remaining awarded: mug 10 6 4 | cup 10 10 0 | old 0 0 0 | code 0 0 0 | coded 0 0 0;
+ stock_moves tenant_id=t prize_id seq actor=ann reason='' total_before=0 remaining_before=0 total_after=1
    remaining_after=1: coded 2 | cup 3 | coded 12 | coded 1;
+ codes tenant_id=t prize_id code_id key_id=k ciphertext code_hash reward_id: code c1 1 1 given | coded c2 2 2 -;
+ games tenant_id=t game_id campaign_id name=G type=spin status: g3 camp active | g2 theirs active | g1 camp active |
    paused camp paused | gone camp archived | hidden draft active;
INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
    SELECT tenant_id, game_id, 1, CASE WHEN game_id IN ('g1', 'g3', 'gone') THEN '{"names": "mug"}' ELSE '{}' END::jsonb
    FROM games;
+ quests tenant_id=t quest_id campaign_id name=Q type turns=3 status=active: visit camp daily | share camp daily |
    once theirs one_time;
+ quest_completions tenant_id=t quest_id player_id period turns balance_after event_id idempotency_key completed_at:
    visit ann d1 3 3 e1 key (now() - interval '1 day') |
    visit ann d0 3 3 e2 - (now() - interval '10 days') | visit bob d2 4 4 e3 key (now()) |
    once ann once 5 5 e4 key (now() - interval '1 year');
+ quest_events tenant_id=t quest_id event_id=e1 player_id=ann: share | visit;
+ merchants tenant_id=t merchant_id name status: shop S active | other O suspended | third O active;
+ players tenant_id=t player_id auth_method merged_into: ann external - | gus guest - | gil guest ann | bob external -;
+ contacts tenant_id=t contact_id player_id type value: x1 ann email a | x2 bob phone a | x3 bob email b;
+ leaderboards tenant_id=t board_id campaign_id=camp game_id name=B metric=score mode=sum prizes status:
    b3 g1 '[{"prize_id": "mug"}]' active | b2 g2 '[{"prize_id": "cup"}]' active |
    b1 g1 '[{"rank": 1, "prize_id": "mug"}]' active | b4 g1 '[{"prize_id": "mug"}]' archived | b5 g1 '[]' finalized;
+ draws tenant_id=t draw_id campaign_id=camp name=D tickets='{}' prizes='[{"prize_id": "mug"}]' randomness='{}' salt=s
    status: d3 drawn | d2 closed | d1 open | d4 cancelled | d5 confirmed;
+ leaderboard_standings tenant_id=t board_id rank=1 player_id=ann score=1 achieved_at=(now()) prize_id=mug reason:
    d5 PENDING | b5 PENDING | d4 SUSPENDED | b4 '';
"""


async def test_prize_is_available_by_its_own_free_codes(connection: asyncpg.Connection) -> None:
    shown = await ask(connection, "games.prizes_on_show", ["mug", "code", "coded", "old"])
    assert {row[0]: row[-1] for row in shown} == {"mug": True, "code": False, "coded": True}
    async with connection.transaction():  # In which now() is one moment.
        for code, available in (
            *(("withdrawn_at = now()", False), ("withdrawn_at = NULL, expires_at = now()", False)),
            ("expires_at = now() + interval '1 microsecond'", True),
        ):
            await connection.execute(f"UPDATE codes SET {code} WHERE code_id = 'c2'")
            (shown_of_it,) = await ask(connection, "games.prizes_on_show", ["coded"])
            assert shown_of_it[-1] == available, code


MOST: Final = 2**31 - 1
MOVED: Final[list[tuple[str, int | None, int, tuple[int, ...] | None]]] = [
    # The prize, its new total or a change of it: totals before and after, what remained and what remains.
    *(("cup", None, 2, (20, 22, 20, 22)), ("cup", None, -19, (20, 1, 20, 1))),
    ("cup", None, -20, None),  # Without a limit from now on: this is said by a total.
    *(("cup", None, -21, None), ("cup", None, MOST - 20, (20, MOST, 20, MOST)), ("cup", None, MOST - 19, None)),
    *(("cup", MOST + 1, 0, None), ("mug", None, -6, (10, 4, 6, 0)), ("mug", None, -7, None), ("old", None, 5, None)),
    ("old", 5, 0, (0, 5, 0, 2)),
]


async def test_stock_change_below_the_awarded_or_to_no_limit_is_refused(connection: asyncpg.Connection) -> None:
    await connection.execute("""UPDATE stock SET total = 20, remaining = 20 WHERE prize_id = 'cup';
                                UPDATE stock SET awarded = 3 WHERE prize_id = 'old'""")
    for prize, total, change, moved in MOVED:
        async with undone(connection):
            rows = await ask(connection, "prizes.set_total_stock", prize, total, change, "ann", "counted")
            seq = "4" if prize == "cup" else "1"
            found = [(row[0], row[4:8]) for row in rows]
            assert found == ([] if moved is None else [(seq, moved)]), (prize, total, change)


PLAYED: Final = "INSERT INTO game_players VALUES ('t', '{}', 'ann', 1, now(), 1)"
GRANTED: Final = (
    "INSERT INTO milestone_grants (tenant_id, game_id, player_id, milestone_id) VALUES ('t', '{}', 'ann', 'rung')"
)

HISTORY: Final[dict[str, tuple[str, str, str]]] = {
    # What gives a thing a history, by the statement that looks for it: nothing else's does.
    "a reward": (
        *("prizes.has_history", "cup"),
        "INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity)"
        " VALUES ('t', 'r', 'ann', '{}', 'camp', 'M', 'goods', 1, 1)",
    ),
    "stock that is out": (
        *("prizes.has_history", "cup"),
        "UPDATE stock SET awarded = 1, remaining = total - 1 WHERE prize_id = '{}' AND total > 0",
    ),
    "a player's count": ("prizes.has_history", "cup", "INSERT INTO prize_players VALUES ('t', '{}', 'ann', 0)"),
    "a code that is given": (
        *("prizes.has_history", "cup"),
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, reward_id)"
        " VALUES ('t', '{}', 'n', 'k', 'n', 'n', 'r')",
    ),
    "a rank's prize": ("prizes.has_history", "cup", "UPDATE leaderboard_standings SET prize_id = '{}'"),
    "a play of a revision": (
        *("prizes.has_history", "cup"),
        "UPDATE game_revisions SET definition = '\"{}\"' WHERE game_id = 'g2';" + PLAYED.format("g2"),
    ),
    "a board's count": (
        *("games.has_history", "g3"),
        "INSERT INTO leaderboards (tenant_id, board_id, game_id, name, metric, mode)"
        " VALUES ('t', 'n', '{}', 'B', 'score', 'sum')",
    ),
    "a play of the game": ("games.has_history", "g3", PLAYED),
    "a rung": ("games.has_history", "g3", GRANTED),
    "a play that anybody made": ("games.was_played", "g3", PLAYED),
    "a play that may have moved a wallet": ("games.has_moved", "g3", PLAYED),
    "a rung that may have moved a wallet": ("games.has_moved", "g3", GRANTED),
}


@pytest.mark.parametrize("what", HISTORY)
async def test_history_is_only_of_the_thing_itself(connection: asyncpg.Connection, what: str) -> None:
    name, thing, happens = HISTORY[what]
    assert await first(connection, name, thing) == [False]
    for other, has in (("other", False), (thing, True)):
        async with undone(connection):
            await connection.execute(happens.format(other))
            assert await first(connection, name, thing) == [has]


async def test_prize_is_in_use_by_boards_and_draws_that_will_award_it(connection: asyncpg.Connection) -> None:
    for prize, users in (("mug", "b1 b3 b5 d1 d2 d3 d5"), ("cup", "b2")):
        boards, draws = [await first(connection, f"prizes.{what}_that_name", prize) for what in ("boards", "draws")]
        assert " ".join(boards + draws) == users


async def test_prize_of_an_unplayed_revision_or_a_free_code_has_no_history(connection: asyncpg.Connection) -> None:
    assert await first(connection, "prizes.has_history", "coded") == [False]
    await connection.execute("UPDATE game_revisions SET definition = '\"cup\"' WHERE game_id = 'g2'")
    await connection.execute("INSERT INTO game_players VALUES ('t', 'g1', 'ann', 1, now(), 1)")
    assert await first(connection, "prizes.has_history", "cup") == [False]


async def everything(connection: asyncpg.Connection) -> dict[str, set[str]]:
    found, of_game = {}, ("games", "game_revisions", "quests", "quest_events", "players")
    for table in ("prizes", "stock", "stock_moves", "codes", *of_game):
        listed = await connection.fetch(f"SELECT (to_jsonb(r) - 'updated_at')::text FROM {table} AS r")
        found[table] = {row[0] for row in listed}
    return found


PRIZE: Final = ("New", "goods", 1.0, "camp", 0, 0, "on_win", "none", "{}", 0, "active", "", "", "", "", 0, "[]", None)

CHANGES: Final[list[tuple[str, tuple[Any, ...], str, int]]] = [
    # Which rows are others afterwards, or gone: only those of what is named.
    ("prizes.update", ("cup", *PRIZE), '"prize_id": "cup"', 1),
    *(("prizes.remove", ("coded",), '"prize_id": "coded"', 6), ("prizes.archive", ("cup",), '"prize_id": "cup"', 1)),
    ("games.revise", ("g1", 1, "New", "spin", "active", "{}"), '"game_id": "g1"', 1),
    ("games.revise", ("g1", 2, "New", "spin", "active", "{}"), "nothing", 0),
    *(("games.remove", ("g1",), '"game_id": "g1"', 2), ("games.archive", ("g1",), '"game_id": "g1"', 1)),
    (
        *("quests.update", ("visit", "theirs", "New", "", "daily", 1, "active", 0, 0, None, "", None)),
        *('"quest_id": "visit"', 1),
    ),
    ("quests.update", ("visit", "theirs", "New", "", "daily", 1, "active", 0, 0, None, "shop", None), "nothing", 0),
    (
        *("quests.update", ("visit", "camp", "New", "", "daily", 1, "active", 0, 0, None, "shop", None)),
        *('"quest_id": "visit"', 1),
    ),
    ("quests.update", ("visit", "none", "New", "", "daily", 1, "active", 0, 0, None, "", None), "nothing", 0),
    *(("quests.remove", ("share",), '"quest_id": "share"', 2), ("quests.remove", ("visit",), "nothing", 0)),
    ("quests.archive", ("visit",), '"quest_id": "visit"', 1),
    ("players.set_status", ("gus", "suspended"), '"player_id": "gus"', 1),
    ("players.set_status", ("gil", "suspended"), "nothing", 0),
]


@pytest.mark.parametrize(("name", "arguments", "of", "many"), CHANGES)
async def test_catalogue_change_writes_only_the_named_rows(
    connection: asyncpg.Connection, name: str, arguments: tuple[Any, ...], of: str, many: int
) -> None:
    before = await everything(connection)
    await ask(connection, name, *arguments)
    after = await everything(connection)
    changed = [row for table, its in before.items() for row in its - after[table]]
    assert len(changed) == many and all(of in row for row in changed)


async def test_quest_counts_games_of_its_campaign_and_keeps_secrets_for_events(connection: asyncpg.Connection) -> None:
    of = ("camp", "Q", "", "daily", 1, "active", 0, 0)
    for game, many in (("g1", 1), ("g2", 0)):
        counts = f'{{"kind": "plays", "game_id": "{game}"}}'
        assert len(await ask(connection, "quests.insert", f"of {game}", *of, counts, "", None)) == many, game
        assert len(await ask(connection, "quests.update", "visit", *of, counts, "", None)) == many, game
    for kind, secret, kept in (("event", "x", "x"), ("event", None, "x"), ("plays", None, None), ("plays", "x", None)):
        signing = None if secret is None else f'{{"secret": "{secret}"}}'
        await ask(connection, "quests.update", "visit", *of, f'{{"kind": "{kind}"}}', "", signing)
        query = "SELECT signing ->> 'secret' FROM quests WHERE quest_id = 'visit'"
        assert await connection.fetchval(query) == kept, (kind, secret)


async def test_quest_lock_holds_one_quest(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with connection.transaction(), pool.acquire() as rival:
        assert await first(connection, "quests.lock", "visit") == ["visit"]
        assert await held(rival, "quests", "quest_id") == {"visit"}


async def test_catalogue_lock_excludes_writers_alone(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with connection.transaction(), pool.acquire() as rival:
        assert await ask(connection, "tenancy.lock_catalog") == [("t",)]
        for lock, free in (("NO KEY UPDATE", []), ("SHARE", []), ("KEY SHARE", ["t"])):
            rows = await rival.fetch(f"SELECT tenant_id FROM tenants WHERE tenant_id = 't' FOR {lock} SKIP LOCKED")
            assert [row[0] for row in rows] == free, lock
    assert await connection.fetch(sql.load("tenancy")["lock_catalog"], "nobody") == []


async def test_player_met_or_signed_up_twice_exists_once(connection: asyncpg.Connection) -> None:
    assert [await first(connection, "players.create", "new") for _ in range(2)] == [["new"], []]
    for name in ("N", "M"):
        assert await first(connection, "players.update", "other", name, *[None] * 4) == ["other"]
    assert [
        await first(connection, "players.sign_up", f"p{n}", "email_otp", f"n{n}", "email", "n") for n in (1, 2)
    ] == [*(["p1"], [])]


async def test_contact_link_requires_an_unmerged_player(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async def link(player: str, contact: str, value: str) -> list[Any]:
        return await ask(connection, "players.link", player, contact, "email", value, "email_otp")

    assert await link("gil", "n1", "new") == []
    assert await link("gus", "n2", "a") == []
    async with connection.transaction(), pool.acquire() as rival:
        ((*_, was_guest),) = await link("gus", "n3", "new")
        assert was_guest is True
        assert await held(rival, "players", "player_id") == {"gus"}
    ((*_, was_guest),) = await link("ann", "n4", "newer")
    assert was_guest is False
    async with connection.transaction(), pool.acquire() as rival:
        # Held though nothing of it changes: a player in whose stead another would log in.
        await link("bob", "n5", "newest")
        assert await held(rival, "players", "player_id") == {"bob"}
    methods = await connection.fetch("SELECT player_id, auth_method FROM players")
    assert dict(methods) == {"ann": "external", "bob": "external", "gil": "guest", "gus": "email_otp"}
