"""What several acceptance tests begin with: a campaign, a prize, a game, made over the admin edge."""

import struct
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from runtime.operations.conservation.checks import Broken, StepResult, record_result
from runtime.operations.log import appending
from tests.support.waiting import until


class Asks(Protocol):
    """The part of `Stack` that is needed here."""

    async def admin(self, verb: str, path: str, body: Any = None, **query: Any) -> Any: ...


def font(**own: Any) -> bytes:
    """The header of a WOFF2 font, and the bytes that it announces."""
    header = {"flavor": b"OTTO", "length": 100, "tables": 9, "expanded": 5_000, "compressed": 52, **own}
    named = [header[name] for name in ("flavor", "length", "tables", "expanded", "compressed")]
    return struct.pack(">4s4sIHHII", b"wOF2", named[0], named[1], named[2], 0, *named[3:]).ljust(100, b"\0")


async def make_campaign(stack: Asks, **fields: Any) -> dict[str, Any]:
    body = {"name": "Autumn", "status": "CAMPAIGN_STATUS_ACTIVE", **fields}
    return dict((await stack.admin("POST", "/admin/campaigns", body)).data)


async def make_prize(stack: Asks, **fields: Any) -> str:
    answer = await stack.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", "value": 5, **fields})
    return str(answer.data["prize_id"])


def wheel(campaign_id: str, *prize_ids: str, **fields: Any) -> dict[str, Any]:
    """The body of an active spin wheel on which every prize is as likely as the next and no play loses."""
    prizes = [{"prize_id": prize_id, "probability": 1 / len(prize_ids)} for prize_id in prize_ids]
    body = {"name": "Wheel", "type": "spin_wheel", "campaign_id": campaign_id, "status": "GAME_STATUS_ACTIVE"}
    return body | {"reward_handler": "probability", "handler_config": {"prizes": prizes}} | fields


async def make_game(stack: Asks, campaign_id: str, *prize_ids: str, **fields: Any) -> dict[str, Any]:
    return dict((await stack.admin("POST", "/admin/games", wheel(campaign_id, *prize_ids, **fields))).data)


async def make_draw(stack: Asks, campaign_id: str, prize_id: str, *steps: str, **fields: Any) -> str:
    """A draw of one prize, on which these steps were taken."""
    draw = {"campaign_id": campaign_id, "name": "Car", "tickets": {"entries": True}, **fields}
    draw |= {"prizes": [{"prize_id": prize_id, "count": 1}], "randomness": {"kind": "INTERNAL"}}
    draw_id = str((await stack.admin("POST", "/admin/draws", draw)).data["id"])
    for step in steps:
        assert (await stack.admin("POST", f"/admin/draws/{draw_id}/{step}", {})).code == "OK"
    return draw_id


async def play_once(stack: Any, game_id: str, player: str = "player_a") -> dict[str, Any]:
    session = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).data["session_id"]
    made = await stack.consumer("POST", f"/games/{game_id}/play", {"session_id": session, "payload": {}}, player=player)
    return dict(made.data)


async def one_of_every_event(stack: Any) -> str:
    campaign_id = (await make_campaign(stack))["id"]
    claimed_later = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"}
    prize_id = await make_prize(stack, campaign_id=campaign_id, fulfillment=claimed_later)
    await play_once(stack, (await make_game(stack, campaign_id, prize_id))["id"])
    [reward] = (await stack.consumer("GET", "/rewards/me", player="player_a")).data["items"]
    assert (await stack.consumer("POST", f"/rewards/{reward['id']}/claim", {}, player="player_a")).http == 200
    quest = {"campaign_id": campaign_id, "name": "Visit", "type": "QUEST_TYPE_ONE_TIME", "turns": 1}
    quest |= {"status": "QUEST_STATUS_ACTIVE"}
    quest_id = (await stack.admin("POST", "/admin/quests", quest)).data["id"]
    assert (await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_a")).http == 200
    board = {"campaign_id": campaign_id, "name": "Top", "metric": "LEADERBOARD_METRIC_PLAYS"}
    board |= {"mode": "LEADERBOARD_MODE_SUM", "prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}]}
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 200
    pack = {"campaign_id": campaign_id, "name": "Caps", "gives": {"turns": 1}}
    pack_id = (await stack.admin("POST", "/admin/packs", pack)).data["id"]
    await stack.admin("POST", f"/admin/packs/{pack_id}/codes", {"codes": ["CAP-2222-3333"]})
    code = {"campaign_id": campaign_id, "code": "CAP-2222-3333"}
    assert (await stack.consumer("POST", "/codes/redeem", code, player="player_a")).http == 200
    await make_draw(stack, campaign_id, prize_id, "close", "draw", tickets={"ranking": board_id})
    await sign_log(stack)
    await make_violation(stack, campaign_id, prize_id)
    return str(campaign_id)


async def make_violation(stack: Any, campaign_id: str, prize_id: str) -> str:
    """A violation as the auditor opens it. Returns its id."""
    broken = Broken("prize_awarded", prize_id, "", campaign_id, "1", "2")
    result = StepResult("prize", [], await stack.database.fetchval("SELECT now()"), broken={broken.check: [broken]})
    [event] = await record_result(stack.database, stack.tenant_id, result)
    stack.engine.publisher.events([event])
    return str(msgspec.to_builtins(event.data)["violation_id"])


async def sign_log(stack: Any) -> None:
    """Signs a first checkpoint of the tenant's log."""
    engine = stack.engine
    without, engine.settings = engine.settings, replace(engine.settings, merkle_log="log.example")
    try:
        await until(lambda: appending.append(engine, stack.tenant_id))
    finally:
        engine.settings = without


def rung(id: str, threshold: int, prize_id: str, currency: str = "coin") -> dict[str, Any]:
    return {"id": id, "name": id.title(), "currency": currency, "threshold": threshold, "prize_id": prize_id}


def block(*rungs: dict[str, Any], auto_grant: bool = True, mode: str = "CUMULATIVE_UNLOCK") -> dict[str, Any]:
    return {"mode": f"MILESTONE_MODE_{mode}", "auto_grant": auto_grant, "rungs": list(rungs)}
