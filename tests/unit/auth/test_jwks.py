import asyncio
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from runtime import ids
from runtime import messages as m
from runtime.errors import Fault
from runtime.http.auth import jwks
from runtime.http.auth.jwks import BYTES_MAX, FRESH_SECONDS, RETRY_SECONDS, JwksKeys
from runtime.http.auth.revocations import DAY_SECONDS, Revocations, player_key
from runtime.operations import Operation
from tests.support.tokens import Issuer, own_tokens, serving_issuer

EC: Final[dict[str, Any]] = json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))
RSA: Final[dict[str, Any]] = json.loads(
    RSAAlgorithm.to_jwk(rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key())
)


class Clock:
    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(jwks, "time", clock)
    return clock


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with serving_issuer({**EC, "kid": "one"}) as issuer:
        yield issuer


@pytest.fixture
async def keys(issuer: Issuer, clock: Clock) -> AsyncIterator[JwksKeys]:
    keys = JwksKeys(issuer.url)
    yield keys
    await keys.close()


async def settled(keys: JwksKeys) -> None:
    await keys._fetching.drain()


async def test_hour_old_document_is_refreshed_in_background(issuer: Issuer, keys: JwksKeys, clock: Clock) -> None:
    assert await keys.get("one", "ES256") is not None
    clock.seconds += FRESH_SECONDS - 1
    assert await keys.get("one", "ES256") is not None
    await settled(keys)
    assert issuer.asked == 1
    clock.seconds += 1
    issuer.begun.clear()
    issuer.may_answer.clear()
    assert await keys.get("one", "ES256") is not None
    issuer.document["keys"].append({**EC, "kid": "two"})
    waiting = asyncio.ensure_future(keys.get("two", "ES256"))
    await issuer.begun.wait()
    issuer.may_answer.set()
    assert await waiting is not None, "what needs the new document waits for the one that is on its way"
    await settled(keys)
    assert issuer.asked == 2
    assert await keys.get("one", "ES256") is not None
    await settled(keys)
    assert issuer.asked == 2, "it is fresh"


async def test_failing_issuer_is_asked_seldom_and_its_keys_hold(issuer: Issuer, keys: JwksKeys, clock: Clock) -> None:
    await keys.get("one", "ES256")
    clock.seconds += FRESH_SECONDS
    issuer.status = 500
    for after, fetches in ((0.0, 2), (RETRY_SECONDS - 1, 2), (1.0, 3)):
        clock.seconds += after
        assert await keys.get("one", "ES256") is not None
        await settled(keys)
        assert issuer.asked == fetches


async def test_unknown_key_asks_again_but_not_more_often(issuer: Issuer, keys: JwksKeys, clock: Clock) -> None:
    assert await keys.get("two", "ES256") is None
    issuer.document["keys"].append({**EC, "kid": "two"})
    clock.seconds += RETRY_SECONDS - 1
    assert await keys.get("two", "ES256") is None
    clock.seconds += 1
    assert await keys.get("two", "ES256") is not None
    assert issuer.asked == 2


async def test_token_without_a_key_id_gets_the_only_key_of_its_algorithm(issuer: Issuer, keys: JwksKeys) -> None:
    issuer.document["keys"] = [{**EC, "kid": "one"}, {**RSA, "kid": "two"}]
    both = [await keys.get(None, "ES256"), await keys.get(None, "RS256")]
    assert both == [await keys.get("one", "ES256"), await keys.get("two", "RS256")] and None not in both
    assert await keys.get(7, "ES256") is None, "which is no id"


async def test_token_without_a_key_id_gets_no_key_when_two_share_its_algorithm(issuer: Issuer, keys: JwksKeys) -> None:
    issuer.document["keys"] = [{**EC, "kid": "one"}, {**EC, "kid": "two"}]
    assert await keys.get(None, "ES256") is None


@pytest.mark.parametrize("said", [{"use": "enc"}, {"alg": "RS256"}, {"alg": "RS256", "use": "enc"}])
async def test_key_for_something_else_is_passed_over(issuer: Issuer, keys: JwksKeys, said: dict[str, str]) -> None:
    issuer.document["keys"] = [{**EC, "kid": "one", **said}]
    assert await keys.get("one", "ES256") is None
    assert await keys.get("one", "RS256") is None


@pytest.mark.parametrize(("status", "padding"), [(500, 0), (204, 0), (200, BYTES_MAX + 1)])
async def test_document_that_is_none_gives_no_key(issuer: Issuer, keys: JwksKeys, status: int, padding: int) -> None:
    issuer.status, issuer.padding = status, padding
    with pytest.raises(Fault) as caught:
        await keys.get("one", "ES256")
    assert (caught.value.reason, caught.value.retry_after_seconds) == ("STORE_UNAVAILABLE", 5)


async def test_document_may_be_as_long_as_it_may_be(issuer: Issuer, keys: JwksKeys) -> None:
    issuer.padding = BYTES_MAX
    assert await keys.get("one", "ES256") is not None


async def test_closing_waits_for_what_is_on_its_way(issuer: Issuer, clock: Clock) -> None:
    keys = JwksKeys(issuer.url)
    issuer.may_answer.clear()
    request = asyncio.ensure_future(keys.get("one", "ES256"))
    await issuer.begun.wait()
    closing = asyncio.ensure_future(keys.close())
    await asyncio.sleep(0.05)  # sleeps: so long it would have been closed twenty times.
    assert not closing.done()
    issuer.may_answer.set()
    await closing
    assert await request is not None


NOW = int(time.time())
MONTH_SECONDS = 30 * DAY_SECONDS


class Desk:
    """core.Caller: answers with what a test has revoked, and with its time."""

    def __init__(self, *rows: m.Revocation) -> None:
        self.rows = list(rows)
        self.now = NOW
        self.partial = False

    async def call(self, operation: Operation, request: Any) -> m.ListRevocationsReply:
        return m.ListRevocationsReply(revocations=self.rows, now_us=self.now * 1_000_000, partial=self.partial)


def revoked(player_id: str, *, until: int = 0, kept: int = NOW + MONTH_SECONDS) -> m.Revocation:
    return m.Revocation(
        tenant_id="tenant_a", kind=m.RevocationKind.PLAYER, subject=player_id, issued_until=until, expires_at=kept
    )


def is_revoked(known: Revocations, player_id: str, issued_at: float = NOW) -> bool:
    return known.revoked(player_key("tenant_a", player_id), issued_at)


async def test_tokens_are_refused_that_were_issued_until_then_or_all() -> None:
    known = Revocations(Desk(revoked("ann", until=NOW), revoked("guest")))
    await known.read()
    assert is_revoked(known, "ann", NOW) and not is_revoked(known, "ann", NOW + 1)
    assert is_revoked(known, "guest", NOW + MONTH_SECONDS)
    assert not is_revoked(known, "bob")


async def test_cached_token_is_refused_while_revocations_are_unknown() -> None:
    known = Revocations(desk := Desk())
    await known.read()
    tokens = own_tokens(revocations=known)
    token = tokens.mint("ann", tenant_id="t", seconds=60)
    assert (await tokens.verify(token)).subject == "ann"
    desk.partial = True
    for call in (known.read(), tokens.verify(token)):
        with pytest.raises(Fault, match="not known yet"):
            await call


async def test_guest_that_logged_out_takes_a_hundred_bytes() -> None:
    names = [ids.make("guest") for _ in range(20_000)]
    known = Revocations(Desk(*map(revoked, names)))
    tracemalloc.start()
    try:
        await known.read()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(names) < 130, held / len(names)
    assert all(is_revoked(known, name) for name in names)
    before = sum(map(len, known._forgotten_on.values()))
    await known.read()  # Those of the last seconds are read again each second.
    assert sum(map(len, known._forgotten_on.values())) == before


async def test_revocation_is_forgotten_when_it_is_over() -> None:
    desk = Desk(revoked("over", kept=NOW + 60), revoked("again", kept=NOW + 60), revoked("later"))
    known = Revocations(desk)
    await known.read()
    desk.rows = [revoked("again", until=NOW)]
    await known.read()
    assert all(is_revoked(known, name) for name in ("over", "again", "later"))
    desk.rows = []
    for days, left in ((2, {"again", "later"}), (32, set[str]())):
        desk.now = NOW + days * DAY_SECONDS
        await known.read()
        assert {name for name in ("over", "again", "later") if is_revoked(known, name)} == left
    assert known._ended == known._forgotten_on == {}
