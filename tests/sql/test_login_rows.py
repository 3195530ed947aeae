from collections.abc import AsyncIterator
from itertools import product
from typing import Any, Final

import asyncpg
import pytest

from tests.support.bare_rows import scene
from tests.support.locks import IN_NO_ORDER, blocked, held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import rows, undone
from tests.support.waiting import HANG_SECONDS


@pytest.fixture
async def connection(pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
    async with pool.acquire() as connection:
        await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T')")
        await connection.execute(IN_NO_ORDER)
        # What should have been passed by is not waited for.
        await connection.execute(f"SET lock_timeout = '{HANG_SECONDS}s'")
        yield connection


async def one(connection: asyncpg.Connection, name: str, *arguments: Any) -> Any:
    rows = await ask(connection, name, *arguments)
    return rows[0][0] if rows else None


async def test_bucket_of_two_gives_two_and_a_third_once_refilled(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        found = [await one(connection, "challenges.take_token", "a", 10.0, 2) is None for _ in range(3)]
        assert found == [False, False, True]
        assert await ask(connection, "challenges.first_empty", ["b", "a"], [10.0, 10.0], [2, 2]) == [(2, 10.0)]
        await connection.execute("UPDATE login_rates SET full_at = now() + interval '10 s'")
        assert await ask(connection, "challenges.first_empty", ["a"], [10.0], [2]) == [], "it is refilled now"
        assert await one(connection, "challenges.take_token", "a", 10.0, 2) is not None


async def test_bucket_check_names_the_first_empty_one(connection: asyncpg.Connection) -> None:
    for key in ("b", "a"):
        await ask(connection, "challenges.take_token", key, 60.0, 1)
    assert [nth for nth, _ in await ask(connection, "challenges.first_empty", ["a", "b"], [60.0] * 2, [1, 1])] == [1]
    assert [
        nth for nth, _ in await ask(connection, "challenges.first_empty", ["x", "a", "b"], [60.0] * 3, [1] * 3)
    ] == [2]
    await ask(connection, "challenges.return_token", "a", 60.0)
    assert [nth for nth, _ in await ask(connection, "challenges.first_empty", ["a", "b"], [60.0] * 2, [1, 1])] == [2]


GUESSES: Final = scene("""
+ login_guesses tenant_id=t contact_hash requester wrong wait_until proved_at: h me 1 (now() + interval '100 s') - |
    h '' 2 (now() + interval '200 s') - | h other 3 - (now()) | g me 4 (now() + interval '400 s') (now()) | g '' 5 - -;
+ login_rates tenant_id=t rate_key full_at: mine (now() + interval '50 s') | aside (now() + interval '70 s');
+ logins tenant_id=t login_id player_id expires_at=(now()) ends_at=(now()): l1 ann | l2 bob;
+ contacts tenant_id=t contact_id player_id type value: c1 ann email x | c2 bob phone x | c3 cat email y;
""")


LOOKED: Final = [
    # Requester, login, the contact's kind and value, and the rate; what is found.
    ("me", "l1", "email", "x", "mine", (100, False, True, 50)),
    ("other", "l1", "email", "x", "aside", (0, True, True, 70)),
    ("me", "l2", "email", "x", "none", (100, False, False, 0)),  # Another's contact.
    ("me", "l1", "phone", "x", "mine", (100, False, False, 50)),
    ("me", "l1", "email", "y", "mine", (100, False, False, 50)),
    ("new", "none", "email", "x", "mine", (0, False, False, 50)),
]


async def test_refusals_of_a_code_are_those_of_the_contact_and_the_requester(connection: asyncpg.Connection) -> None:
    found = []
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute(GUESSES)
        for requester, login, kind, value, rate, _ in LOOKED:
            (row,) = await ask(connection, "challenges.read_refusals", "h", requester, rate, login, kind, value)
            found.append((requester, login, kind, value, rate, row[:4]))
    assert found == LOOKED


async def test_guesses_are_locked_in_order_and_all_counted(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute(GUESSES)
    async with connection.transaction(), pool.acquire() as rival:
        assert [row[0] for row in await ask(connection, "challenges.lock_guesses", "h", "me")] == [2, 1]
        assert await held(rival, "login_guesses", "contact_hash || '/' || requester") == {"h/", "h/me"}

    async def waits() -> list[tuple[Any, ...]]:
        seconds = "round(extract(epoch FROM wait_until - now()))::int"
        return await rows(connection, "login_guesses", f"contact_hash, requester, wrong, {seconds}")

    others = [("h", "", 2, 200), ("h", "other", 3, None)]
    async with connection.transaction():
        change = "DELETE FROM login_guesses; DELETE FROM logins; DELETE FROM contacts; DELETE FROM login_rates"
        await connection.execute(change)
        await connection.execute(GUESSES)
        of_another = [("g", "", 5, None), ("g", "me", 4, 400)]
        await ask(connection, "challenges.count_wrong", "h", "me", 0.0)
        assert sorted(await waits()) == sorted([*of_another, ("h", "me", 2, 100), *others])
        await ask(connection, "challenges.count_wrong", "h", "me", 30.0)
        assert sorted(await waits()) == sorted([*of_another, ("h", "me", 3, 30), *others])
        await ask(connection, "challenges.reset_counters", "h", "me")
        columns = "contact_hash, requester, wrong, wait_until IS NULL, proved_at IS NULL"
        assert await rows(connection, "login_guesses", columns) == [
            *(("g", "", 5, True, True), ("g", "me", 4, False, False), ("h", "", 0, True, True)),
            *(("h", "me", 0, True, False), ("h", "other", 3, True, False)),
        ]


async def test_guess_rows_are_made_once(connection: asyncpg.Connection) -> None:
    for fingerprint in (b"old", b"new"):
        await ask(connection, "challenges.create_counters", "h", "me", fingerprint)
    columns = "requester, wrong, fingerprint"
    assert await rows(connection, "login_guesses", columns) == [("", 0, b"new"), ("me", 0, b"new")]


async def test_challenge_is_issued_once_and_ended_alone(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    for name, made in (("a", True), ("b", True), ("a", False)):
        assert bool(await ask(connection, "challenges.issue", name, name, "h", "me", "code", False, 60.0)) == made
    async with connection.transaction(), pool.acquire() as rival:
        assert await one(connection, "challenges.lock_challenge", "b") == "b"
        assert await held(rival, "login_challenges", "challenge_id") == {"b"}
    await ask(connection, "challenges.count_try", "b")
    assert await rows(connection, "login_challenges", "challenge_id, tries") == [("a", 0), ("b", 1)]
    assert await ask(connection, "challenges.remove", "b") == [("b", "h", "me")]
    assert await rows(connection, "login_challenges", "challenge_id, tries") == [("a", 0)]


@pytest.fixture
async def logins(connection: asyncpg.Connection) -> asyncpg.Connection:
    """Two players' logins: of ann l3 and l1, of bob l2. The token of generation 2 was used once by `me`."""
    await connection.execute("INSERT INTO players (tenant_id, player_id) VALUES ('t', 'ann'), ('t', 'bob')")
    login_row = (
        "INSERT INTO logins (tenant_id, login_id, player_id, generation, turned_by, turned_at, repeats, expires_at,"
        " ends_at) VALUES ('t', $1, $2, 3, 'me', now(), 1, now() + interval '1 hour', now() + interval '2 hours')"
    )
    for login, player in (("l3", "ann"), ("l2", "bob"), ("l1", "ann")):
        await connection.execute(login_row, login, player)
    return connection


async def test_login_turns_or_ends_only_while_it_goes_on(logins: asyncpg.Connection) -> None:
    faults = []
    words = (("rotate", (3, "you", 60.0)), ("rotate_again", (2, "me", 10.0, 5)), ("end_reused", (1,)))
    moments: list[tuple[str, bool]] = [
        # What a login is, and whether it goes on then.
        *(("SELECT", True), ("UPDATE logins SET ended_at = now()", False)),
        ("UPDATE logins SET expires_at = now()", False),
        ("UPDATE logins SET expires_at = now() + interval '1 microsecond'", True),
    ]
    for (change, goes_on), (name, arguments) in product(moments, words):
        async with undone(logins):
            await logins.execute(change)
            before = await rows(logins, "logins AS l", "login_id, l::text")
            done = bool(await ask(logins, f"logins.{name}", "l1", *arguments))
            after = await rows(logins, "logins AS l", "login_id, l::text")
        changed = {was[0] for was, now in zip(before, after, strict=True) if was != now}
        if (done, changed) != (goes_on, {"l1"} if goes_on else set()):
            faults.append((name, change, done, changed))
    assert faults == []


REUSES: Final[list[tuple[str, tuple[Any, ...], str, bool]]] = [
    # Statement, its arguments and what the login is by then; whether the token is used once more.
    *(("rotate", (2, "you", 60.0), "", False), ("rotate_again", (3, "me", 10.0, 5), "", False)),
    *(("rotate_again", (2, "you", 10.0, 5), "", False), ("rotate_again", (2, "", 10.0, 5), "turned_by = ''", False)),
    ("rotate_again", (2, "me", 10.0, 5), "turned_at = now() - interval '10 s'", False),
    ("rotate_again", (2, "me", 10.0, 5), "turned_at = now() - interval '9.999999 s'", True),
    *(("rotate_again", (2, "me", 10.0, 2), "", True), ("rotate_again", (2, "me", 10.0, 1), "", False)),
    ("rotate_again", (2, "me", 10.0, 1), "repeated = true", True),
    ("end_reused", (3,), "", False),
]


async def test_token_is_reused_by_the_same_requester_soon_and_seldom(logins: asyncpg.Connection) -> None:
    found = []
    for name, arguments, change, _ in REUSES:
        async with undone(logins):
            await logins.execute(f"UPDATE logins SET {change or 'turned_at = now()'} WHERE login_id = 'l1'")
            done = bool(await ask(logins, f"logins.{name}", "l1", *arguments))
        found.append((name, arguments, change, done))
    assert found == REUSES


async def test_token_repeats_are_counted_until_a_turn_without_one(logins: asyncpg.Connection) -> None:
    async def repeats() -> int:
        return int(await logins.fetchval("SELECT repeats FROM logins WHERE login_id = 'l1'"))

    for _ in range(2):
        assert await ask(logins, "logins.rotate_again", "l1", 2, "me", 10.0, 5)
    await ask(logins, "logins.rotate", "l1", 3, "me", 60.0)
    assert await repeats() == 2
    await ask(logins, "logins.rotate", "l1", 4, "me", 60.0)
    assert await repeats() == 0


async def test_login_begins_once_for_an_existing_player(logins: asyncpg.Connection) -> None:
    begun = [
        await one(logins, "logins.begin", *login, "", 60.0, 90.0)
        for login in (("n", "ann"), ("n", "ann"), ("o", "ann"), ("m", "x"))
    ]
    assert begun == ["ann", None, "ann", None]
    assert await one(logins, "logins.begun", "n", "ann") == "ann"
    assert await one(logins, "logins.begun", "n", "bob") is None
    assert await one(logins, "logins.begun", "l1", "ann") is None, "that one went on"
    await logins.execute("UPDATE logins SET ended_at = now() WHERE login_id = 'n'")
    assert await one(logins, "logins.begun", "n", "ann") is None
    assert await one(logins, "logins.is_ended", "n") is True
    assert await one(logins, "logins.is_ended", "l1") is False


async def test_logins_are_ended_in_lock_order(logins: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("SELECT FROM logins WHERE login_id = 'l1' FOR UPDATE")
            ending = await blocked(onlooker, ask(logins, "logins.end", "ann", ""))
            assert await held(onlooker, "logins", "login_id") == {"l1"}
            await rival.execute("UPDATE logins SET ended_at = now() WHERE login_id = 'l1'")
        assert await ending == [("l3",)], "that one was over when the wait was"


async def test_revocation_of_all_tokens_outlasts_one_of_those_issued_so_far(connection: asyncpg.Connection) -> None:
    held_until = "SELECT unix(issued_until) - unix(now()) FROM revocations WHERE issued_until IS NOT NULL"
    cases = [(True, True, None), (True, False, None), (False, True, None), (False, False, 200)]
    found = []
    for before, after, _ in cases:
        async with undone(connection):
            now = await connection.fetchval("SELECT unix(now())")
            for whole, ahead in ((before, 200), (after, 100)):
                await ask(connection, "logins.revoke", "player", "ann", not whole, 60.0, now + ahead)
            found.append((before, after, await connection.fetchval(held_until)))
    assert found == cases


PURGES: Final[dict[str, tuple[str, str, str, str]]] = {
    # Its table, its key, what is in the row beside key and time, and how old is what goes.
    "challenges.purge_challenges": (
        *("login_challenges", "challenge_id", "contact, contact_hash, requester, code_hash, strong, expires_at"),
        "'', '', '', '', false, now() - interval '1 hour'",
    ),
    "challenges.purge_rates": ("login_rates", "rate_key", "full_at", "now()"),
    "challenges.purge_unmarked": (
        *("login_guesses", "requester", "contact_hash, updated_at", "'h', now() - interval '1 day'"),
    ),
    "challenges.purge_guesses": (
        *("login_guesses", "requester", "contact_hash, wrong, updated_at", "'h', 1, now() - interval '1 year'"),
    ),
    "logins.purge_logins": (
        *("logins", "login_id", "player_id, ends_at, expires_at", "'ann', now(), now() - interval '1 day'"),
    ),
    "logins.purge_revocations": ("revocations", "subject", "kind, expires_at", "'player', now()"),
    "tokens.purge_tokens": (
        *("api_tokens", "token_id", "token_hash, name, roles, made_by, expires_at"),
        "gen_random_uuid()::text::bytea, '', '{}', 'ann', now() - interval '90 days'",
    ),
    "test_runs.purge": (
        *("test_runs", "run_id", "game_id, revision, times, frequencies, plays, made_by, created_at"),
        "'g', 1, 1, '[]', '[]', 'ann', now() - interval '1 day'",
    ),
    "entries.purge_keys": (
        *("entry_keys", "idempotency_key", "player_id, campaign_id, request_hash, reply, created_at"),
        "'ann', 'camp', '', '{}', now() - interval '30 days'",
    ),
    "views.purge_folds": ("view_folds", "fold_id", "folded_at", "now() - interval '3 days'"),
    "limits.purge": (
        *("notices", "event_id", "type, campaign_id, data, noticed_at"),
        "'prizes.low_stock', 'c', '{}', now() - interval '30 days'",
    ),
}


async def test_purges_take_the_oldest_and_no_locked_rows(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival:
        found = {name: await purged(connection, rival, name) for name in PURGES}
    assert found == dict.fromkeys(PURGES, ({"first", "third", "young"}, {"young"}, {"young", "at_once"}))


async def purged(
    connection: asyncpg.Connection, rival: asyncpg.Connection, name: str
) -> tuple[set[str], set[str], set[str]]:
    """Left after a purge of one row beside a rival that holds the oldest, after a whole one, and at the very moment."""
    table, key, columns, values = PURGES[name]

    async def left() -> set[str]:
        return {row[0] for row in await rows(connection, table, f"{key}, tenant_id")}

    await connection.execute(f"""
        DELETE FROM {table};
        INSERT INTO {table} (tenant_id, {key}, {columns})
        SELECT 't', k, {values} - age * interval '1 s'
        FROM (VALUES ('third', 10), ('first', 30), ('second', 20), ('young', -60)) AS v (k, age)
    """)
    async with rival.transaction():
        await rival.execute(f"SELECT FROM {table} WHERE {key} = 'first' FOR UPDATE")
        await ask(connection, name, 1)
        beside = await left()
    await ask(connection, name, 9)
    alone = await left()
    async with connection.transaction():
        await connection.execute(f"INSERT INTO {table} (tenant_id, {key}, {columns}) SELECT 't', 'at_once', {values}")
        await ask(connection, name, 9)
        return beside, alone, await left()


@pytest.mark.parametrize("marked", ["wrong = 1", "proved_at = now()"])
async def test_requester_with_a_wrong_guess_or_a_proof_is_kept(connection: asyncpg.Connection, marked: str) -> None:
    await connection.execute(
        "INSERT INTO login_guesses (tenant_id, contact_hash, requester, updated_at)"
        " VALUES ('t', 'h', 'me', now() - interval '2 days')"
    )
    await connection.execute(f"UPDATE login_guesses SET {marked}")
    await ask(connection, "challenges.purge_unmarked", 9)
    assert await connection.fetchval("SELECT count(*) FROM login_guesses") == 1


KEYED: Final = ("shop", "staff", "route", "key")


@pytest.fixture
async def keyed(connection: asyncpg.Connection) -> asyncpg.Connection:
    """A request under a key, and others that each differ from it in one thing."""
    for nth in range(-1, 4):
        named = tuple(f"{name}'" if at == nth else name for at, name in enumerate(KEYED))
        assert await ask(connection, "idempotency.claim", *named, f"hash{nth}".encode())
    return connection


async def test_idempotency_key_belongs_to_one_request_of_one_person(keyed: asyncpg.Connection) -> None:
    assert await ask(keyed, "idempotency.claim", *KEYED, b"other") == []
    await ask(keyed, "idempotency.store_reply", *KEYED, b"reply")
    assert await ask(keyed, "idempotency.find", *KEYED) == [(b"hash-1", b"reply")]
    assert await keyed.fetchval("SELECT count(*) FROM keyed_requests WHERE reply = 'reply'") == 1


async def test_idempotency_key_is_retaken_once_after_its_lease(keyed: asyncpg.Connection) -> None:
    assert await ask(keyed, "idempotency.reclaim", *KEYED, 3600.0) == []
    await keyed.execute("UPDATE keyed_requests SET requested_at = requested_at - interval '2 hours'")
    assert await ask(keyed, "idempotency.reclaim", *KEYED, 3600.0) == [(True,)]
    assert await ask(keyed, "idempotency.reclaim", *KEYED, 3600.0) == []
    late = "SELECT count(*) FROM keyed_requests WHERE requested_at < now() - interval '1 hour'"
    assert await keyed.fetchval(late) == 4
