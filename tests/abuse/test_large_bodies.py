import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from runtime.http.admission.local_rates import CHARGED_BYTES, TIMES_PLAYS
from runtime.http.bodies import RESERVED_BYTES_MAX, SMALL_BYTES
from runtime.http.serving import BODY_BYTES_MAX
from tests.support.stack import Stack
from tests.support.world import World

BURST = 40
# Guests have a limit of their own (test_shopping.py), which is not what is tried here.
pytestmark = pytest.mark.settings(
    rate_limits=True, rate_ip_per_second=0.001, rate_ip_burst=BURST, rate_guest_burst=10**6
)

LARGE = b'{"payload": {' + b" " * 100_000 + b'"a": 1, "a": 2}}'

LARGE_MOST = BURST * TIMES_PLAYS // (1 + len(LARGE) // CHARGED_BYTES)


async def ask(stack: Stack, path: str, body: bytes | AsyncIterator[bytes], tenant: str = "") -> tuple[int, str, str]:
    url = f"{stack.process.consumer_url}/api/v1{path}"
    sent = {"X-Tenant-Id": tenant or stack.tenant_id, "Content-Type": "application/json"}
    async with stack.http.post(url, data=body, headers=sent) as answer:
        data = (await answer.json())["data"] if answer.status != 200 else {}
        return answer.status, data.get("reason", ""), data.get("policy", "")


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body[:1_000]
    yield body[1_000:]


@pytest.mark.parametrize("chunked", [False, True], ids=["of a said length", "in chunks"])
@pytest.mark.parametrize("path", ["/games/game_x/play", "/games/game_x/start"])
async def test_refused_large_bodies_are_charged_by_size(stack: Stack, path: str, chunked: bool) -> None:
    answers = [await ask(stack, path, in_pieces(LARGE) if chunked else LARGE) for _ in range(LARGE_MOST + 3)]
    assert [status for status, _, _ in answers[:LARGE_MOST]] == [400] * LARGE_MOST
    assert answers[-1] == (429, "RATE_LIMITED", "gameplay")


async def test_large_bodies_for_invented_tenants_are_charged_by_size(stack: Stack) -> None:
    answers = [await ask(stack, "/games/game_x/play", LARGE, f"tenant_{nth}") for nth in range(LARGE_MOST + 3)]
    assert answers[-1] == (429, "RATE_LIMITED", "gameplay")


async def test_bodies_of_four_charges_cost_no_play_that_the_shared_rate_admits(stack: Stack, own_world: World) -> None:
    game = await own_world.wheel(access="public")

    async def start(nth: int) -> tuple[int, str, str]:
        return await ask(stack, f"/games/{game}/start", b"{}" + b" " * (TIMES_PLAYS * CHARGED_BYTES - 3))

    assert Counter(await asyncio.gather(*map(start, range(BURST)))) == {(200, "", ""): BURST}
    assert (await start(0))[:2] == (429, "RATE_LIMITED")


@pytest.mark.settings(rate_ip_burst=1)
async def test_body_that_exceeds_the_whole_quota_takes_all_of_it(stack: Stack) -> None:
    """Otherwise it would be refused with a Retry-After for ever."""
    assert (await ask(stack, "/games/game_x/play", LARGE))[0] == 400
    assert (await ask(stack, "/games/game_x/play", b"{}"))[0] == 429


@pytest.mark.settings(rate_limits=False)
async def test_unfinished_bodies_reserve_no_memory(stack: Stack, own_world: World) -> None:
    """Neither chunks nor a Content-Length reserve memory; only received bytes count."""
    game = await own_world.wheel(access="public")
    host, port = stack.process.consumer_url.removeprefix("http://").split(":")
    head = f"POST /api/v1/games/{game}/start HTTP/1.1\r\nHost: x\r\nX-Tenant-Id: {stack.tenant_id}\r\n"
    begun = []
    for nth in range(2 * RESERVED_BYTES_MAX // BODY_BYTES_MAX):
        reader, writer = await asyncio.open_connection(host, int(port))
        said = f"Content-Length: {BODY_BYTES_MAX}" if nth % 2 else "Transfer-Encoding: chunked"
        writer.write(f"{head}{said}\r\n\r\n".encode() + (b"{" if nth % 2 else b"1\r\n{\r\n"))
        begun.append((reader, writer))
    server_sees_them = await ask(stack, f"/games/{game}/start", in_pieces(b"{}" + b" " * 3 * SMALL_BYTES))
    assert server_sees_them == (200, "", "")
    assert await ask(stack, f"/games/{game}/start", b"{}" + b" " * 3 * SMALL_BYTES) == (200, "", "")
    assert not any(reader.at_eof() for reader, _ in begun)  # They wait still.
    for _, writer in begun:
        writer.close()
