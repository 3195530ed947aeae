"""What support finds at the desk: a player whose prize was never delivered."""

from __future__ import annotations

from typing import Any, Final

from tests.support.guests import log_in
from tests.support.world import World

MANUAL: Final = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


async def undelivered(fair: World, contact: str = "paula.plain@example.com", name: str = "Paula Plain") -> Any:
    """(a player, the reward whose delivery failed)"""
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
