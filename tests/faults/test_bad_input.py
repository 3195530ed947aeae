"""What nobody should send: every answer is a refusal in the envelope, and nothing is changed by it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections import Counter
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from runtime.operations import API
from tests.support.milestones import block, rung
from tests.support.seed import SEED
from tests.support.stack import Stack
from tests.support.tables import contents
from tests.support.waiting import HANG_SECONDS
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, World

BODIES = int(os.environ.get("TOMBOLA_TEST_BODIES", "10000"))
"""How many bad bodies are sent; faults.md asks for 10,000."""

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, "", "\0", "a\0b", "x" * 3000,
    "\ud800", "é\u202e\U0001f300", [], {}, [[]], {"": None}, ["item_0"] * 5000, {"$ne": 1}, "'; DROP TABLE plays; --",
    "${jndi:ldap://127.0.0.1/x}", "../../etc/passwd", "%00", "{{7*7}}", "<script>", "NaN", "sess_" + "A" * 200,
)  # fmt: skip
INJECTIONS = [value for value in ODD_VALUES if isinstance(value, str) and value.isprintable() and value]


async def send(stack: Stack, url: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    """(HTTP status, envelope) of raw bytes posted as ann."""
    sent = {
        "Authorization": f"Bearer {stack.token('ann')}",
        "X-Tenant-Id": stack.tenant_id,
        "Content-Type": "application/json",
        **headers,
    }
    async with stack.http.post(url, data=body, headers=sent) as answer:
        return answer.status, await answer.json()


def mutations(dice: random.Random, good: dict[str, Any]) -> bytes:
    """A body that is wrong in some way, or at least odd."""
    body = json.loads(json.dumps(good))
    match dice.randrange(7):
        case 0:
            return dice.randbytes(dice.randrange(40))
        case 1:
            text = json.dumps(body).encode()
            return text[: dice.randrange(len(text))]
        case 2:
            flipped = bytearray(json.dumps(body).encode())
            flipped[dice.randrange(len(flipped))] = dice.randrange(256)
            return bytes(flipped)
        case 3:
            return json.dumps(dice.choice(ODD_VALUES)).encode()
        case 4:
            body[dice.choice([*body, "more", ""])] = dice.choice(ODD_VALUES)
        case 5:
            body["payload"] = {dice.choice(["score", "duration_ms", "caught_items", "x"]): dice.choice(ODD_VALUES)}
        case 6:
            body["payload"] = dice.choice(ODD_VALUES)
    return json.dumps(body).encode()


@pytest.mark.timeout(max(120, BODIES // 20))
@pytest.mark.fault("Bad JSON", size="10,000 mutated bodies", figure="no 5xx, the envelope")
async def test_bad_bodies_are_refused_in_the_envelope_and_change_nothing(world: World, module_stack: Stack) -> None:
    dice = random.Random(SEED)
    prize_id = await world.prize()
    drops = [{"type": "gold", "prize_id": prize_id, "frequency": 1, "max_catchable": 9}]
    tiers = {"tiers": [{"min": 0, "max": 9, "prize_group": "all"}], "prize_groups": {"all": []}}
    rungs = block(rung("mug", 2, prize_id), auto_grant=False)
    games = [
        await world.wheel(prize_id),
        await world.game(EGGS, tiers),
        await world.game(GIFTS, {"drops": drops, "total_items": 3, "interval_ms": 1}),
        await world.game(COLLECTION, COINS, milestones=rungs),
    ]
    seen: Counter[int] = Counter()
    sessions = {game_id: await world.session(game_id) for game_id in games}

    async def one(nth: int) -> None:
        game_id = games[nth % len(games)]
        if nth % 50 < len(games):  # Now and then one that is open: most bodies play none.
            sessions[game_id] = await world.session(game_id)
        good = {"session_id": sessions[game_id], "payload": {}}
        surface = dice.choice(("consumer", "core"))
        verb = dice.choice(("play", "play", "start", "redeem"))
        if surface == "core":
            good = {"scope": {"tenant_id": module_stack.tenant_id}, "player_id": "ann", **good}
        base = module_stack.process.core_url if surface == "core" else module_stack.process.consumer_url
        body = mutations(dice, good)
        status, envelope = await send(module_stack, f"{base}{API}/games/{game_id}/{verb}", body)
        seen[status] += 1
        assert status < 500, (SEED, surface, verb, body, envelope)
        assert envelope.keys() == {"code", "message", "trace_id", "data"}
        assert (status == 200) == (envelope["code"] == "OK")

    for begin in range(0, BODIES, 50):
        await asyncio.gather(*(one(nth) for nth in range(begin, min(BODIES, begin + 50))))
    assert seen[400] > BODIES / 3, seen


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"a":' * 50_000, 400),
        (b'{"session_id": "\\u0000", "payload": {}}', 403),
        (b'{"session_id": 9223372036854775808, "payload": {}}', 400),
        (b'{"session_id": "s", "payload": {"a": 1e999}}', 400),
        (b'{"session_id": "s", "session_id": "t", "payload": {}, "payload": {}}', 403),
        ('{"session_id": "s", "payload": {}}'.encode("utf-16"), 400),
        (b'\xff\xfe{"session_id"', 400),
        (b'{"session_id": "s", "payload"', 400),
        (b"", 403),
        (b"null", 400),
    ],
)
@pytest.mark.fault("Bad JSON", size="each kind named", figure="400 in the envelope")
async def test_broken_json_is_a_client_error(world: World, module_stack: Stack, body: bytes, status: int) -> None:
    url = f"{module_stack.process.consumer_url}{API}/games/{await world.wheel()}/play"
    got, envelope = await send(module_stack, url, body)
    assert got == status or (got == 400 and status == 403), envelope
    assert envelope["code"] in ("INVALID_ARGUMENT", "PERMISSION_DENIED")


async def test_odd_ids_and_keys_are_refused_or_unknown(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel()
    for value in ("%00", "..", "a" * 3000, "é", "\u202e", "'", "game_x%0d%0aX: 1"):
        url = f"{module_stack.process.consumer_url}{API}/games/{quote(value, safe='')}/start"
        status, envelope = await send(module_stack, url, b"{}")
        assert status in (400, 404), (value, envelope)
    url = f"{module_stack.process.consumer_url}{API}/games/{game_id}/start"
    for key in ("", " " * 300, "k" * 300, "é"):
        status, envelope = await send(module_stack, url, b"{}", **{"Idempotency-Key": key})
        assert (status, envelope["code"]) == (400, "INVALID_ARGUMENT"), key


async def test_stored_text_is_returned_unchanged(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    said = [text for text in INJECTIONS if len(text) <= 200]
    for text in said:
        assert (await world.round(game_id, client_seed=text)).http == 200
    plays = (await world.history(game_id, limit=100))["items"]
    assert Counter(play["client_seed"] for play in plays) == Counter(said)


async def test_players_with_odd_ids_play_normally_or_are_refused(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    played = 0
    for name in INJECTIONS:
        started = await module_stack.core("POST", f"/games/{game_id}/start", {"player_id": name})
        assert (started.http, started.code) in ((200, "OK"), (400, "INVALID_ARGUMENT")), name
        if started.http == 200:
            body = {"player_id": name, "session_id": started.data["session_id"], "payload": {}}
            assert (await module_stack.core("POST", f"/games/{game_id}/play", body)).http == 200, name
            again = await module_stack.core("POST", f"/games/{game_id}/start", {"player_id": name})
            assert again.reason == "CAP_USER"
            played += 1
    assert len(await world.plays()) == played


@pytest.mark.fault("Oversized, compressed bomb, 64 MiB RPC message", size="300 kB, and 10 GB announced", figure="413")
async def test_oversized_body_is_refused_before_it_is_read(world: World, module_stack: Stack) -> None:
    url = f"{module_stack.process.consumer_url}{API}/games/{await world.wheel()}/start"
    status, envelope = await send(module_stack, url, b"{" + b" " * 300_000)
    assert (status, envelope["data"]["reason"]) == (413, "BODY_TOO_LARGE")

    host, _, port = module_stack.process.consumer_url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {API}/games/x/start HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(HANG_SECONDS):
        line = await reader.readline()
    assert line.startswith(b"HTTP/1.1 4")
    writer.close()


@pytest.mark.fault("Oversized, compressed bomb, 64 MiB RPC message", size="50 MB in 50 kB", figure="400, 413 or 415")
async def test_compression_bomb_is_refused(world: World, module_stack: Stack) -> None:
    url = f"{module_stack.process.consumer_url}{API}/games/{await world.wheel()}/start"
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 256 * 1024
    try:
        status, envelope = await send(module_stack, url, bomb, **{"Content-Encoding": "gzip"})
    except aiohttp.ClientError:
        return  # the connection was closed in its face
    assert status in (400, 413, 415), envelope


async def test_refusals_write_nothing(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    session = await world.session(game_id)
    await world.play(game_id, session)
    before = await contents(world.database)
    for answer in (
        await world.play(game_id, session),
        await world.play(game_id, "sess_x"),
        await world.play(game_id, session, "bob"),
        await world.play(game_id, session, payload={"x": 1}),
        await world.start(game_id),
        await world.redeem(game_id, "none"),
        await world.play("game_none", session),
    ):
        assert 400 <= answer.http < 500
    assert await contents(world.database) == before
