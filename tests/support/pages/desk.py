from dataclasses import replace
from typing import Any, Final

import pytest

from tests.support import approvals
from tests.support.guests import log_in
from tests.support.pages.looks import EVIL
from tests.support.world import World

MANUAL: Final = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


async def undelivered(fair: World, contact: str = "paula.plain@example.com", name: str = "Paula Plain") -> Any:
    player = await log_in(fair.stack, contact=contact)
    assert (await fair.stack.consumer("PUT", "/players/me", {"display_name": name}, player=player)).code == "OK"
    url = {"url": "http://127.0.0.1:9/none"}
    webhook = {"channel": "webhook", "redemption_mode": "REDEMPTION_MODE_ON_WIN", "config": url}
    game = await fair.wheel(await fair.prize(name="Fair mug", fulfillment=webhook), name="Harvest wheel")
    reward = (await fair.round(game, player)).data["rewards"][0]["reward_id"]
    for statement in (
        "UPDATE tasks SET status = 'dead', attempts = 8, last_error = 'answered 503: closed' WHERE reward_id = $1",
        "UPDATE rewards SET status = 'failed' WHERE reward_id = $1",
        "UPDATE stock SET awarded = awarded - 1 WHERE prize_id = (SELECT prize_id FROM rewards WHERE reward_id = $1)",
    ):
        await fair.database.execute(statement, reward)
    return player, reward


async def furnish(fair: World) -> dict[str, str]:
    """One of everything, with a name that a page must take for text: {the first part of its path: its id}."""
    stack, name, own = fair.stack, EVIL[:90], {"campaign_id": fair.campaign_id}
    text: dict[str, Any] = {"name": name, **own}
    prize = await fair.prize(total=20, value=3, description=EVIL, terms=EVIL, **text)
    coupon = await fair.prize(codes=["AAAA-1111", "BBBB-2222"], **text)
    game = await fair.wheel(prize, coupon, name=name, ui={"theme": {"preset": "ocean"}})

    async def made(path: str, body: dict[str, Any]) -> str:
        return str((await stack.admin("POST", f"/admin/{path}", body)).data.get("id", ""))

    board = {"metric": "plays", "mode": "sum", "prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": prize}], **text}
    board_id = await made("leaderboards", board)
    raffle = {"tickets": {"entries": True}, "prizes": [{"prize_id": prize, "count": 1}]}
    raffle["randomness"] = {"kind": "INTERNAL"}
    draw_id = await made("draws", {**raffle, **text})
    await made("quests", {"description": EVIL, "turns": 1, "type": "one_time", **text})
    hook = {"type": "webhook", "events": ["prize_won"], "config": {"url": "https://shop.example/hooks"}}
    await made("integrations", hook)
    await made("merchants", {"name": name})
    await made("tokens", {"name": name, "roles": ["designer"]})
    await stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"name": name})
    for player in ("ann", "bea", "cleo"):
        await fair.round(game, player)
        assert (await stack.consumer("PUT", "/players/me", {"display_name": name}, player=player)).code == "OK"
    await undelivered(fair)
    await stack.database.execute("UPDATE tasks SET last_error = $1 WHERE tenant_id = $2", EVIL, stack.tenant_id)
    await fair.round(await fair.wheel(await fair.prize(name="Hamper", total=9, fulfillment=MANUAL)), "dora")
    broken = (
        "INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, row_id, expected, found, deviation,"
        " first_seen_at, last_seen_at) VALUES ($1, $2, 'player_ledger_sum', 'ann', $3, $4, $4, $4, now(), now())"
    )
    violation = (stack.tenant_id, f"violation_of_{fair.campaign_id}", fair.campaign_id, EVIL)
    await stack.database.execute(broken, *violation)
    ids = {"campaigns": fair.campaign_id, "games": game, "prizes": prize, "leaderboards": board_id, "players": "ann"}
    ids["draws"] = draw_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_turns_above=5))
        turns = {**own, "amount": 9, "reason": "sorry"}
        request = await approvals.as_(stack, "bob", "POST", "players/ann/turns", turns)
        ids["approvals"] = approvals.waiting(request)["id"]
    ids["codes"] = coupon
    return ids
