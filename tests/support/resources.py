"""What several acceptance tests begin with: a campaign, a prize, a game, made over the admin edge."""

from __future__ import annotations

from typing import Any, Protocol


class Asks(Protocol):
    """The part of `Stack` that is needed here."""

    async def admin(self, verb: str, path: str, body: Any = None, **query: Any) -> Any: ...


async def make_campaign(stack: Asks, **fields: Any) -> dict[str, Any]:
    """An active campaign; `fields` in place of its own."""
    body = {"name": "Autumn", "status": "CAMPAIGN_STATUS_ACTIVE", **fields}
    return dict((await stack.admin("POST", "/admin/campaigns", body)).data)


async def make_prize(stack: Asks, **fields: Any) -> str:
    """The id of an unlimited prize that is delivered at once."""
    answer = await stack.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", "value": 5, **fields})
    return str(answer.data["prize_id"])


def wheel(campaign_id: str, *prize_ids: str, **fields: Any) -> dict[str, Any]:
    """The body of an active spin wheel on which every prize is as likely as the next and no play loses."""
    return {
        "name": "Wheel",
        "type": "spin_wheel",
        "campaign_id": campaign_id,
        "reward_handler": "probability",
        "status": "GAME_STATUS_ACTIVE",
        "handler_config": {
            "prizes": [{"prize_id": prize_id, "probability": 1 / len(prize_ids)} for prize_id in prize_ids]
        },
        **fields,
    }


async def make_game(stack: Asks, campaign_id: str, *prize_ids: str, **fields: Any) -> dict[str, Any]:
    """A wheel as above."""
    return dict((await stack.admin("POST", "/admin/games", wheel(campaign_id, *prize_ids, **fields))).data)


async def play_once(stack: Any, game_id: str, player: str = "player_a") -> dict[str, Any]:
    """The result of one play."""
    session = (await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).data["session_id"]
    answer = await stack.consumer(
        "POST", f"/games/{game_id}/play", {"session_id": session, "payload": {}}, player=player
    )
    return dict(answer.data)
