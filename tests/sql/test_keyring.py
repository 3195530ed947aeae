"""Keys over several processes: whatever one uses, all that live have."""

from __future__ import annotations

import asyncio

import pytest

from runtime.actors.game.sessions import issue, open_session
from runtime.errors import Fault, Status
from runtime.settings import Key
from runtime.stores.database import Database
from runtime.stores.keyring import LIVE_SECONDS, KeyMissing, Keyring

OLD, NEW, NEWER = Key("old", b"o" * 32), Key("new", b"n" * 32), Key("newer", b"r" * 32)


async def joined(database: Database, *keys: Key) -> Keyring:
    ring = Keyring(keys, keys)
    await ring.join(database)
    return ring


async def silenced(database: Database, ring: Keyring) -> None:
    """As if it had stood still for longer than it may."""
    await database.execute(
        "UPDATE key_holders SET seen_at = seen_at - make_interval(secs => $2) WHERE holder_id = $1",
        ring._holder_id,
        LIVE_SECONDS + 1,
    )


async def test_one_that_is_alone_uses_its_first(empty: Database) -> None:
    ring = await joined(empty, NEW, OLD)
    assert (ring.server, ring.code) == ((NEW, OLD), (NEW, OLD))


async def test_the_first_that_all_have_is_used_as_soon_as_all_have_it(empty: Database) -> None:
    old = await joined(empty, OLD)
    ahead = await joined(empty, NEWER, NEW, OLD)
    assert (ahead.server, ahead.code) == ((OLD, NEWER, NEW),) * 2
    await old.leave(empty)
    middle = await joined(empty, NEW, OLD)
    await ahead.announce(empty)
    assert (ahead.server[0], middle.server[0]) == (NEW, NEW)
    await middle.leave(empty)
    await ahead.announce(empty)
    assert ahead.server == (NEWER, NEW, OLD)


async def test_keys_of_one_kind_say_nothing_of_the_other(empty: Database) -> None:
    worker = Keyring((), (OLD,))
    await worker.join(empty)
    core = await joined(empty, NEW, OLD)
    assert (core.server[0], core.code[0], worker.server) == (NEW, OLD, ())


async def test_who_lacks_what_is_in_use_does_not_join_and_leaves_no_trace(empty: Database) -> None:
    await joined(empty, NEW, OLD)
    with pytest.raises(KeyMissing, match="SERVER_KEYS lacks 'new'"):
        await joined(empty, OLD)
    assert await empty.fetchval("SELECT count(DISTINCT holder_id) FROM key_holders") == 1


async def test_one_that_was_killed_holds_nobody_up_for_long(empty: Database) -> None:
    killed = await joined(empty, OLD)
    await silenced(empty, killed)
    assert (await joined(empty, NEW, OLD)).server[0] == NEW
    await joined(empty, NEW)


async def test_rivals_that_come_at_once_never_part(empty: Database) -> None:
    sets = [(NEW, OLD), (OLD,), (NEW,)] * 8
    came = await asyncio.gather(*(joined(empty, *keys) for keys in sets), return_exceptions=True)
    rings = [ring for ring in came if isinstance(ring, Keyring)]
    assert {type(other) for other in came if not isinstance(other, Keyring)} <= {KeyMissing}
    for _ in range(3):
        await asyncio.gather(*(ring.announce(empty) for ring in rings))
        rows = await empty.fetch("SELECT known, used FROM key_holders")
        assert all(one["used"] in other["known"] for one in rows for other in rows)
        assert {ring.server[0].id for ring in rings} == {row["used"] for row in rows}
    assert len({ring.server[0].id for ring in rings}) == 1


async def test_one_that_stood_still_says_to_try_again_and_uses_nothing_up(empty: Database) -> None:
    still = await joined(empty, OLD)
    await silenced(empty, still)
    ahead = await joined(empty, NEW, OLD)
    session = issue(ahead.server, "tenant", "game", "ann", 1_790_000_000.0, "0" * 64)
    await still.announce(empty)
    with pytest.raises(Fault) as caught:
        open_session(still.server, "tenant", "game", session.token, elsewhere=still.missing)
    assert (caught.value.status, caught.value.retry_after_seconds) == (Status.UNAVAILABLE, 1)
    # And the others come back to it, as long as it lives.
    await ahead.announce(empty)
    assert ahead.server[0] == OLD
    forged = session.token.replace(".new.", ".none.")
    with pytest.raises(Fault, match="SESSION_INVALID"):
        open_session(still.server, "tenant", "game", forged, elsewhere=still.missing)
