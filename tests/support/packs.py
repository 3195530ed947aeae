import json
import time
from typing import Any

from runtime.operations import API
from runtime.outgoing.signing import sign
from tests.support.stack import Answer
from tests.support.world import World

TURNS = {"turns": 2}
TICKETS = {"currency": "ticket", "amount": 5}


def player_of(world: World) -> str:
    """A player without wrong codes in earlier tests."""
    return f"player-of-{world.campaign_id}"


async def make_pack(world: World, *codes: str, gives: dict[str, Any] | None = None, **fields: Any) -> str:
    body = {"campaign_id": world.campaign_id, "name": "Caps", "gives": gives or TURNS, **fields}
    answer = await world.stack.admin("POST", "/admin/packs", body)
    assert answer.code == "OK", answer
    pack_id = str(answer.data["id"])
    if codes:
        added = await world.stack.admin("POST", f"/admin/packs/{pack_id}/codes", {"codes": list(codes)})
        assert added.data["added"] == len(codes), added
    return pack_id


async def redeem(world: World, code: str, player: str | None = None, *, key: str = "", **more: Any) -> Answer:
    body = {"campaign_id": world.campaign_id, "code": code}
    sent = player_of(world) if player is None else player
    return await world.stack.consumer("POST", "/codes/redeem", body, player=sent, key=key, **more)


async def counts(world: World, pack_id: str) -> tuple[int, int, int]:
    """(free, used, withdrawn)"""
    pack = (await world.stack.admin("GET", f"/admin/packs/{pack_id}")).data
    return pack["free"], pack["used"], pack["withdrawn"]


async def report(world: World, pack_id: str, secret: str, receipt: str = "till-1", **who: str) -> Answer:
    """The answer to a receipt that is signed with the secret."""
    body = json.dumps({"receipt_id": receipt, **(who or {"player_id": player_of(world)})}).encode()
    url = f"{world.stack.process.admin_url}{API}/packs/{pack_id}/receipts"
    params = {"tenant_id": world.stack.tenant_id}
    sent = {**sign([secret], f"msg_{receipt}", int(time.time()), body), "Content-Type": "application/json"}
    async with world.stack.http.post(url, data=body, headers=sent, params=params) as response:
        return Answer(response.status, response.headers, await response.json())
