import asyncio
import json
import os
import random
from collections import Counter
from typing import Any

import pytest

from runtime.operations import API
from tests.support.resources import block, rung
from tests.support.scenario import FULL
from tests.support.seed import SEED
from tests.support.stack import Stack
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, World

BODIES = int(os.environ.get("TOMBOLA_TEST_BODIES", "10000" if FULL else "3000"))

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, "", "\0", "a\0b", "x" * 3000,
    "\ud800", "é\u202e\U0001f300", [], {}, [[]], {"": None}, ["item_0"] * 5000, {"$ne": 1}, "'; DROP TABLE plays; --",
    "${jndi:ldap://127.0.0.1/x}", "../../etc/passwd", "%00", "{{7*7}}", "<script>", "NaN", "sess_" + "A" * 200,
)  # fmt: skip


async def send(stack: Stack, url: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    """(HTTP status, envelope) of raw bytes posted as ann."""
    sent = {"Authorization": f"Bearer {stack.token('ann')}", "X-Tenant-Id": stack.tenant_id}
    sent |= {"Content-Type": "application/json", **headers}
    async with stack.http.post(url, data=body, headers=sent) as answer:
        return answer.status, await answer.json()


def mutations(dice: random.Random, good: dict[str, Any]) -> bytes:
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
@pytest.mark.fault("Bad JSON", size="10,000 mutated bodies", figure="no 5xx, the envelope", smaller="3,000 by day")
async def test_bad_bodies_are_refused_in_the_envelope(world: World, module_stack: Stack) -> None:
    dice = random.Random(SEED)
    prize_id = await world.prize()
    drops = [{"type": "gold", "prize_id": prize_id, "frequency": 1, "max_catchable": 9}]
    tiers = {"tiers": [{"min": 0, "max": 9, "prize_group": "all"}], "prize_groups": {"all": []}}
    rungs = block(rung("mug", 2, prize_id), auto_grant=False)
    games = [
        *(await world.wheel(prize_id), await world.game(EGGS, tiers)),
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
