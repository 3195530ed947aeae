"""What nobody should send: every answer is a refusal in the envelope, and nothing is changed by it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections import Counter
from typing import Any

import aiohttp
import pytest

from runtime.operations import API
from tests.support.milestones import block, rung
from tests.support.seed import SEED
from tests.support.stack import Stack
from tests.support.waiting import HANG_SECONDS
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, World

BODIES = int(os.environ.get("TOMBOLA_TEST_BODIES", "10000"))
"""How many bad bodies are sent; faults.md asks for 10,000."""

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, "", "\0", "a\0b", "x" * 3000,
    "\ud800", "é\u202e\U0001f300", [], {}, [[]], {"": None}, ["item_0"] * 5000, {"$ne": 1}, "'; DROP TABLE plays; --",
    "${jndi:ldap://127.0.0.1/x}", "../../etc/passwd", "%00", "{{7*7}}", "<script>", "NaN", "sess_" + "A" * 200,
)  # fmt: skip


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
