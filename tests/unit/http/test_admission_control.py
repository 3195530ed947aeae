import asyncio
from collections.abc import AsyncIterator

import pytest

from runtime.http.admission.control import Admission, AdmissionControl, Allowed
from runtime.http.admission.idempotency import InProgress, KeyedRequest, Mismatch, Replay
from runtime.http.admission.rates import Limited, Policy
from runtime.http.admission.session_cache import SessionCache
from runtime.operations.players.challenges import NETWORK_TIMES
from runtime.stores.ephemeral import Ephemeral
from tests.support.stack import PATIENT
from tests.support.waiting import HANG_SECONDS

PLAYER = Policy("player", per_second=0.01, burst=20)
IP = Policy("ip", per_second=0.01, burst=30)
BODY, OTHER_BODY = b"a hash of 16 by", b"another 16 bytes"


@pytest.fixture
async def store(valkey_url: str, valkey_flush: None) -> AsyncIterator[Ephemeral]:
    store = Ephemeral(valkey_url, timeout_seconds=PATIENT["redis_timeout_seconds"])
    await store.start()
    yield store
    await store.close()


@pytest.fixture
def control(store: Ephemeral) -> AdmissionControl:
    return AdmissionControl(store, player=PLAYER, ip=IP)


def count(admissions: list[Admission]) -> int:
    return sum(isinstance(admission, Allowed) for admission in admissions)


async def test_limited_player_is_told_when_to_come_back(control: AdmissionControl) -> None:
    admissions = await asyncio.gather(*[control.admit("t", player_id="p", ip="10.0.0.1") for _ in range(21)])
    assert [type(admission) for admission in admissions] == [Allowed] * 20 + [Limited]
    limited = admissions[-1]
    assert isinstance(limited, Limited)
    assert limited.policy == "player"
    assert 95 < limited.retry_after_seconds <= 100  # One request each 100 s.
    assert limited.headers["RateLimit-Policy"] == '"player";q=20;w=2000'
    assert limited.headers["RateLimit"].startswith('"player";r=0;t=')
    assert limited.fault().http == 429
    chained = [await control.admit("t", holder="guest", ip="10.0.0.2") for _ in range(21)]
    assert [type(admission) for admission in chained[19:]] == [Allowed, Limited], "plays by a session alone"


async def test_address_is_limited_over_all_its_players_and_tenants(control: AdmissionControl) -> None:
    taken = await asyncio.gather(*[control.admit(f"t{i % 2}", player_id=f"p{i}", ip="10.0.0.1") for i in range(40)])
    assert count(taken) == 30
    # The refusals charged no player, nor does a player of another tenant: each has a whole bucket elsewhere.
    for tenant_id, player_id in (("t1", "p39"), ("t1", "p0")):
        later = await control.admit(tenant_id, player_id=player_id, ip="10.0.0.2")
        assert isinstance(later, Allowed) and later.headers is not None
        assert later.headers["RateLimit"].startswith('"player";r=19;')


async def test_bucket_refills(store: Ephemeral) -> None:
    fast = AdmissionControl(store, player=Policy("player", per_second=50, burst=1), ip=IP)
    assert isinstance(await fast.admit("t", player_id="p", ip="10.0.0.1"), Allowed)
    async with asyncio.timeout(HANG_SECONDS):
        while not isinstance(await fast.admit("t", player_id="p", ip="10.0.0.1"), Allowed):
            pass


async def test_network_has_what_sixteen_addresses_have(control: AdmissionControl) -> None:

    async def admit(nth: int, network: str) -> Admission:
        return await control.admit("t", player_id=f"{network}{nth}", ip=f"{network}{nth:x}::", network=f"{network}:/48")

    most = NETWORK_TIMES * IP.burst
    walked = await asyncio.gather(*[admit(nth, "2001:db8:0:") for nth in range(most + 50)])
    assert count(walked) == most
    (limited, *_) = [admission for admission in walked if isinstance(admission, Limited)]
    assert (limited.policy, limited.headers["RateLimit-Policy"]) == ("ip-network", f'"ip-network";q={most};w=3000')
    assert 0 < limited.retry_after_seconds <= 100 / NETWORK_TIMES
    # One address of another network has its own, and no more than that of the network's.
    assert count(await asyncio.gather(*[admit(1, "2001:db8:1:") for _ in range(PLAYER.burst)])) == PLAYER.burst
    assert isinstance(await admit(2, "2001:db8:1:"), Allowed)


async def admit_key(control: AdmissionControl, key: str = "k", body: bytes = BODY, player: str = "p") -> Admission:
    return await control.admit("t", player_id=player, owner=player, keyed=KeyedRequest("POST /x", key, body))


async def test_key_of_fifty_requests_admits_one_until_it_is_refused(control: AdmissionControl) -> None:
    admissions = await asyncio.gather(*[admit_key(control) for _ in range(50)])
    assert count(admissions) == 1
    assert sum(isinstance(admission, InProgress) for admission in admissions) == 49
    winner = next(admission for admission in admissions if isinstance(admission, Allowed))
    assert isinstance(await admit_key(control, body=OTHER_BODY), Mismatch)
    control.settle(winner, None)  # It was refused.
    async with asyncio.timeout(HANG_SECONDS):
        while not isinstance(again := await admit_key(control), Allowed):
            assert isinstance(again, InProgress)
    control.settle(again, b'{"answer":1}')
    async with asyncio.timeout(HANG_SECONDS):  # Settled without waiting, perhaps over the other connection.
        while not isinstance(replay := await admit_key(control), Replay):
            assert isinstance(replay, InProgress)
    assert replay.answer == b'{"answer":1}'
    assert isinstance(await admit_key(control, body=OTHER_BODY), Mismatch)
    assert isinstance(await admit_key(control, key="other"), Allowed)
    assert isinstance(await admit_key(control, player="q"), Allowed)


async def test_crashed_request_blocks_its_key_only_for_the_reservation(store: Ephemeral) -> None:
    control = AdmissionControl(store, player=PLAYER, ip=IP, reservation_seconds=0.05)
    assert isinstance(await admit_key(control), Allowed)
    async with asyncio.timeout(HANG_SECONDS):
        while not isinstance(await admit_key(control), Allowed):
            pass


async def test_session_comes_with_the_admission(store: Ephemeral, control: AdmissionControl) -> None:
    SessionCache(store, seconds=60).store("t", "p", "sess_1", b"state")
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            admission = await control.admit("t", player_id="p", session_id="sess_1")
            assert isinstance(admission, Allowed)
            if admission.session == b"state":
                break
    unknown = await control.admit("t", player_id="p", session_id="sess_2")
    assert isinstance(unknown, Allowed)
    assert unknown.session is None


async def test_many_admissions_of_one_turn_are_few_round_trips(store: Ephemeral, control: AdmissionControl) -> None:
    before = store.commands
    await asyncio.gather(*[control.admit("t", player_id=f"p{i}", ip=f"10.0.1.{i}") for i in range(128)])
    assert store.commands - before <= 6  # Two full batches; the first may have had to load the script.
