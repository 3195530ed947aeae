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
    change = "UPDATE key_holders SET seen_at = seen_at - make_interval(secs => $2) WHERE holder_id = $1"
    await database.execute(change, ring._holder_id, LIVE_SECONDS + 1)


async def test_keyring_alone_uses_its_first_key(empty: Database) -> None:
    ring = await joined(empty, NEW, OLD)
    assert (ring.server, ring.code) == ((NEW, OLD), (NEW, OLD))


async def test_keyrings_use_the_first_key_that_all_hold(empty: Database) -> None:
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


async def test_keyring_agrees_on_each_kind_of_key_by_itself(empty: Database) -> None:
    worker = Keyring((), (OLD,))
    await worker.join(empty)
    core = await joined(empty, NEW, OLD)
    assert (core.server[0], core.code[0], worker.server) == (NEW, OLD, ())


async def test_keyring_without_the_key_in_use_is_refused_and_leaves_no_row(empty: Database) -> None:
    await joined(empty, NEW, OLD)
    with pytest.raises(KeyMissing, match="SERVER_KEYS lacks 'new'"):
        await joined(empty, OLD)
    assert await empty.fetchval("SELECT count(DISTINCT holder_id) FROM key_holders") == 1


async def test_keyring_of_a_killed_process_stops_counting(empty: Database) -> None:
    await silenced(empty, await joined(empty, OLD))
    assert (await joined(empty, NEW, OLD)).server[0] == NEW
    await joined(empty, NEW)


async def test_keyrings_that_join_at_once_agree(empty: Database) -> None:
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


async def test_keyring_that_stalled_answers_unavailable_and_is_waited_for(empty: Database) -> None:
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
