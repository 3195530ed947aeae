"""A client made by an off-the-shelf generator (openapi-python-client) creates a game and plays it."""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
import pytest

from runtime.operations import API
from tests.support.stack import Stack

STORY = """
import json, os

from admin_client import AuthenticatedClient
from admin_client.api.campaign import create_campaign
from admin_client.api.game import create_game, get_game
from admin_client.api.prize import create_prize
from admin_client.api.reward import search_rewards
from admin_client import models as admin
from consumer_client import AuthenticatedClient as Player
from consumer_client.api.play import get_eligibility, play, start
from consumer_client.api.reward import list_rewards
from consumer_client import models as consumer

staff = AuthenticatedClient(base_url=os.environ["ADMIN_URL"], token=os.environ["ADMIN_TOKEN"])
ada = Player(base_url=os.environ["CONSUMER_URL"], token=os.environ["PLAYER_TOKEN"])

campaign = create_campaign.sync(
    client=staff,
    body=admin.CreateCampaignBody(name="Generated", status=admin.CampaignStatus.CAMPAIGN_STATUS_ACTIVE),
).data
prize = create_prize.sync(
    client=staff, body=admin.CreatePrizeBody(name="Mug", type_="goods", value=5.0, stock=admin.StockInput(total=3))
).data
config = admin.ProbabilityConfig.from_dict({"prizes": [{"prize_id": prize.prize_id, "probability": 1.0}]})
game = create_game.sync(
    client=staff,
    body=admin.CreateGameBody(
        name="Wheel", campaign_id=campaign.id, reward_handler="probability", handler_config=config,
        status=admin.GameStatus.GAME_STATUS_ACTIVE, rules=admin.GameRulesInput(max_plays_per_user=1),
    ),
).data
assert get_game.sync(client=staff, id=game.id).data == game

session = start.sync(client=ada, id=game.id, body=consumer.StartBody()).data
body = consumer.PlayBody(session_id=session.session_id, client_seed="clover")
played = play.sync(client=ada, id=game.id, body=body).data
again = play.sync(client=ada, id=game.id, body=body)
may = get_eligibility.sync(client=ada, id=game.id).data
[reward] = list_rewards.sync(client=ada).data.items
[found] = search_rewards.sync(client=staff, status=admin.RewardStatus.REWARD_STATUS_FULFILLED).data.items
unknown = get_game.sync(client=staff, id="game_none")
print(json.dumps({
    "won": [row.name for row in played.rewards], "again": again.data.reason, "can_play": may.can_play,
    "why": may.reason, "reward": reward.id == found.id, "whose": found.player_id, "unknown": unknown.data.reason,
}))
"""


@pytest.mark.nightly
async def test_generated_client_makes_a_game_and_plays_it(stack: Stack, tmp_path: Path) -> None:
    await asyncio.gather(*(generate(stack.http, stack, surface, tmp_path) for surface in ("admin", "consumer")))
    (tmp_path / "story.py").write_text(STORY)
    result = await run(
        *(sys.executable, "story.py"),
        cwd=tmp_path,
        ADMIN_URL=stack.process.admin_url,
        CONSUMER_URL=stack.process.consumer_url,
        ADMIN_TOKEN=stack.token("staff", ("admin",)),
        PLAYER_TOKEN=stack.token("player_ada"),
    )
    assert json.loads(result) == {
        "won": ["Mug"],
        "again": "SESSION_PLAYED",
        "can_play": False,
        "why": "CAP_USER",
        "reward": True,
        "whose": "player_ada",
        "unknown": "UNKNOWN_GAME",
    }


async def generate(http: aiohttp.ClientSession, stack: Stack, surface: str, directory: Path) -> None:
    """Makes the package `<surface>_client` from the surface's document, as it is served."""
    async with http.get(f"{getattr(stack.process, f'{surface}_url')}{API}/openapi.json") as answer:
        (directory / f"{surface}.json").write_bytes(await answer.read())
    # Without its hooks, which would look for other programs to format what it made.
    own = f"package_name_override: {surface}_client\npost_hooks: []\n"
    binary = ("text/csv", "text/plain", "application/x-ndjson", "image/png", "image/jpeg", "image/webp", "font/woff2")
    types = f"content_type_overrides: {{{', '.join(f'{name}: application/octet-stream' for name in binary)}}}\n"
    (directory / f"{surface}.yaml").write_text(own + types)
    result = await run(
        *(str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--meta", "none"),
        *("--path", f"{surface}.json", "--config", f"{surface}.yaml", "--output-path", f"{surface}_client"),
        *("--fail-on-warning",),
        cwd=directory,
    )
    assert "warning" not in result.lower(), result


async def run(*command: str, cwd: Path, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()
