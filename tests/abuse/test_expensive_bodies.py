import json
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

import pytest

from runtime import messages as m
from runtime.actors.idempotency import request_hash
from runtime.errors import Fault
from runtime.http.serving import BODY_BYTES_MAX
from runtime.operations.games import game_admin
from runtime.operations.games.definitions import definition_of, prizes_named
from runtime.operations.players import profiles
from runtime.outgoing.channels import leaked_secrets
from runtime.wire import codec
from runtime.wire.contacts import normalized
from runtime.wire.schema import check
from tests.support.stack import Stack

TIMES_MAX: Final = 50
TRIES: Final = 3


def filled(head: str, unit: str, tail: str) -> bytes:
    """A body of the limit's size at most: `unit` as often as it goes between `head` and `tail`."""
    return (head + unit * ((BODY_BYTES_MAX - len(head) - len(tail)) // len(unit)) + tail).encode()


def numbered(count: int, more: str = "") -> str:
    return "{" + ",".join(f'"k{nth}":{nth}' for nth in range(count)) + more + "}"


def in_payload(value: Any) -> bytes:
    return json.dumps({"payload": value}, separators=(",", ":")).encode()


def nested(value: Any, name: str, depth: int) -> Any:
    for _ in range(depth):
        value = {name: value}
    return value


PLAIN: Final = in_payload({"items": [{"id": f"item_{nth:06}", "x": 1.5, "as": "caught " * 9} for nth in range(2_400)]})

BODIES: Final[dict[str, bytes]] = {
    "many fields": numbered(9_900).encode(),
    "many fields, one of them twice": in_payload(0).replace(b"0", numbered(9_900, ',"k9899":1').encode()),
    "more fields than a body may hold": filled('{"payload":{"a":[', '{"":0},', "0]}}"),
    "every field twice": filled('{"payload":{', '"a":1,', '"a":1}}'),
    "long names above many values": in_payload(nested([0] * 30_000, "n" * 9_000, 20)),
    "long names above many wrong values": in_payload(nested(["\0"] * 10_000, "n" * 9_000, 18)),
    "deep lists": filled('{"payload":{"a":[', "[" * 60 + "]" * 60 + ",", "0]}}"),
    "a deep list of many": filled('{"payload":{"a":' + "[" * 60, "0,", "0" + "]" * 60 + "}}"),
    "too deep": filled('{"payload":{"a":[', "[" * 80 + "]" * 80 + ",", "0]}}"),
    "many empty objects": filled('{"payload":{"a":[', "{},", "0]}}"),
    "colons in texts": filled('{"payload":{"a":[', '":",', "0]}}"),
    "a number without end": filled('{"payload":{"a":', "1", "}}"),
    "long whole numbers": filled('{"payload":{"a":[', "1" * 4_000 + ",", "1]}}"),
    "long fractions": filled('{"payload":{"a":[', "1" * 400 + "." + "1" * 400 + "e-200,", "1]}}"),
    "a fraction without end": filled('{"payload":{"a":0.', "1", "}}"),
    "the largest doubles": filled('{"payload":{"a":[', "1.7976931348623157e308,", "1]}}"),
    "the smallest doubles": filled('{"payload":{"a":[', "2.2250738585072011e-308,", "1]}}"),
    "beyond doubles": filled('{"payload":{"a":[', "1e999,", "1]}}"),
    "halves of surrogate pairs": filled('{"payload":{"a":"', "\\ud800", '"}}'),
    "no numbers": filled('{"payload":{"a":[', "NaN,", "1]}}"),
    "wrong at its end": filled('{"payload":{"a":[', "0,", "0]}"),
    "wrong elements": filled('{"codes":[', "0,", "0]}"),
    "many messages": filled('{"game":{"milestones":{"rungs":[', "{},", "{}]}}}"),
    "many wrong messages": filled('{"game":{"milestones":{"rungs":[', '{"q":1},', "{}]}}}"),
    "many fields of a resource": b'{"game":' + numbered(9_900).encode() + b"}",
}
"""What a body is like -> the body."""


def seconds_of(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(TRIES):
        began = time.thread_time()
        with suppress(Fault):
            work()
        taken.append(time.thread_time() - began)
    return min(taken)


@pytest.fixture(scope="module")
def plain_seconds() -> float:
    assert len(PLAIN) > BODY_BYTES_MAX * 3 / 4
    codec.decode(m.PlayRequest, PLAIN)  # It is taken.
    return seconds_of(lambda: codec.decode(m.PlayRequest, PLAIN))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.fault("One expensive body", size="256 KiB of each kind", figure="under 50 times a plain one's")
def test_body_costs_at_most_fifty_plain_ones(name: str, plain_seconds: float) -> None:
    body = BODIES[name]
    assert len(body) <= BODY_BYTES_MAX
    kind = m.CreateGameRequest if b'"game"' in body else m.ImportCodesRequest if b'"codes"' in body else m.PlayRequest
    assert seconds_of(lambda: codec.decode(kind, body)) < TIMES_MAX * plain_seconds


def test_rpc_message_costs_at_most_fifty_plain_ones(plain_seconds: float) -> None:
    """An RPC message has the same bound, although it may be 16 times as large."""
    for payload in (nested([0] * 30_000, "n" * 9_000, 20), nested(["\0"] * 10_000, "n" * 9_000, 18)):
        message = m.PlayRequest(payload=payload)
        assert seconds_of(lambda message=message: check(message)) < TIMES_MAX * plain_seconds  # type: ignore[misc]
    message = m.ImportCodesRequest(codes=["\0"] * 100_000)
    assert seconds_of(lambda: check(message)) < TIMES_MAX * plain_seconds


@pytest.mark.parametrize("name", BODIES)
def test_play_body_hash_cost_is_bounded(name: str, plain_seconds: float) -> None:
    with suppress(Fault):
        request = codec.decode(m.PlayRequest, BODIES[name])
        assert seconds_of(lambda: request_hash(request)) < TIMES_MAX * plain_seconds


@pytest.mark.parametrize("below", [[0] * 30_000, [{"prize_id": "mug"}] * 1_500], ids=["nothing", "prizes"])
def test_unread_game_config_search_cost_is_bounded(below: Any, plain_seconds: float) -> None:
    """Naming each prize by its full path took a gigabyte for one body."""
    body = json.dumps({"game": {"handler_config": nested(below, "n" * 9_000, 20)}}, separators=(",", ":")).encode()
    assert len(body) <= BODY_BYTES_MAX
    game, named = codec.decode(m.CreateGameRequest, body).game, list[tuple[str, str]]()

    def search() -> None:
        named[:] = prizes_named(definition_of(game))

    assert seconds_of(lambda: game_admin.problems(game)) < TIMES_MAX * plain_seconds
    assert seconds_of(search) < TIMES_MAX * plain_seconds
    assert sum(len(path) for path, _ in named) < 2 * BODY_BYTES_MAX


NTH: Final = count()

MARKS: Final = "\u0315\u0300\u05ae\u0301"
"""Combining marks out of their order, which normalizing sorts one by one."""

TEXTS: Final[dict[str, Callable[[], Any]]] = {
    "an address to send a code to": lambda: normalized(m.ContactType.EMAIL, f"a{next(NTH)}{MARKS * 2_000}@example.com"),
    "a player's picture": lambda: profiles._changes(m.Player(avatar_url=f"http://a{next(NTH)}{MARKS * 2000}.com/"), []),
    "a receiver": lambda: list(leaked_secrets({"secret": "s"}, {"url": f"http://a{next(NTH)}{MARKS * 4_000}.com/"})),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_normalization_costs_no_more_than_a_body_of_its_size(name: str, plain_seconds: float) -> None:
    """Otherwise a 20 KB text from any guest blocks the event loop for a tenth of a second."""
    bytes_of_text = 2 * len(MARKS) * 2_000
    assert seconds_of(TEXTS[name]) < TIMES_MAX * plain_seconds * bytes_of_text / len(PLAIN)


async def test_unauthenticated_body_of_many_names_is_refused(stack: Stack) -> None:
    """Parsed before authentication, such a body blocked all players for 45 s."""
    url = f"{stack.process.consumer_url}/api/v1/games/game_none/play"
    body = in_payload(0).replace(b"0", numbered(9_900, ',"k9899":1').encode())
    async with stack.http.post(url, data=body, headers={"X-Tenant-Id": stack.tenant_id}) as answer:
        envelope = await answer.json()
    assert (answer.status, envelope["data"]["violations"][0]["field"]) == (400, "k9899")


@pytest.mark.parametrize("name", ["more fields than a body may hold", "many empty objects", "deep lists"])
def test_oversized_body_is_refused_with_its_limit(name: str) -> None:
    with pytest.raises(Fault, match="at most 10000 fields, objects and lists"):
        codec.decode(m.PlayRequest, BODIES[name])
