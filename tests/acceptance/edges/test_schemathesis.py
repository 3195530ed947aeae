"""schemathesis against the live stack: no 5xx, no answer outside the documents, and every invariant stands."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.seed import SEED
from tests.support.stack import Stack
from tests.support.world import COINS, COLLECTION, World, new_world

NIGHTLY = bool(os.environ.get("TOMBOLA_NIGHTLY"))

SECONDS = os.environ.get("SCHEMATHESIS_SECONDS", "15" if NIGHTLY else "6")

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "10" if NIGHTLY else "4")

CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "missing_required_header", "unsupported_method", "ignored_auth"),
    *("use_after_free", "tells_a_reason_that_is_documented", "refuses_what_breaks_the_schema"),
)
"""Not positive_data_acceptance: that a prize exists, or a name is free, is no schema's to say."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_answers_to_generated_requests_are_as_documented(stack: Stack, surface: str, tmp_path: Path) -> None:
    async with new_world(stack) as world:
        await fuzz(world, surface, tmp_path)


async def fuzz(world: World, surface: str, directory: Path) -> None:
    stack, player = world.stack, "player_ann"
    mug, apple = await world.prize(total=5), await world.prize(codes=["A-1", "A-2"])
    rungs = [{"name": "Two coins", "currency": "coin", "threshold": 2, "prize_id": mug}]
    milestones = {"mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK", "rungs": rungs}
    games = [await world.wheel(mug, apple, access="public"), await world.game(COLLECTION, COINS, milestones=milestones)]
    for game in games:
        await world.round(game, player)
    quest = {"campaign_id": world.campaign_id, "name": "Q", "type": "daily", "turns": 1, "status": "active"}
    board = {"campaign_id": world.campaign_id, "name": "B", "metric": "plays", "mode": "sum"}
    known = {
        "tenant_id": stack.tenant_id,
        "player_id": player,
        "ids": {
            "campaigns": [world.campaign_id],
            "games": games,
            "prizes": [mug, apple],
            "quests": [(await stack.admin("POST", "/admin/quests", quest)).data["id"]],
            "leaderboards": [(await stack.admin("POST", "/admin/leaderboards", board)).data["id"]],
            "rewards": [row["id"] for row in (await stack.admin("GET", "/admin/rewards")).data["items"]],
            "tasks": [row["id"] for row in (await stack.admin("GET", "/admin/fulfillment/tasks")).data["items"]],
            "plays": [row["id"] for row in (await world.history(games[0], player))["items"]],
        },
    }
    token = stack.token(player) if surface == "consumer" else stack.token("staff", ("admin", "platform"))
    base = getattr(stack.process, f"{surface}_url")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{base}/api/v1/openapi.json", "--url", base),
        *(() if surface == "core" else ("--header", f"Authorization: Bearer {token}")),
        *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", EXAMPLES),
        *("--max-time", SECONDS, "--seed", str(SEED), "--checks", ",".join(CHECKS)),
        # What goes on until somebody leaves has no answer that ends.
        *("--exclude-operation-id", "WatchLive"),
        # Says 503 where a store does not answer in time, as on a machine that stands still for a moment.
        *("--exclude-path", "/readyz"),
        *("--generation-database", "none", "--no-shrink", "--continue-on-failure", "--no-color", "--warnings", "off"),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks", "KNOWN": json.dumps(known)}
        | {"PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    print(output.decode())
    assert process.returncode == 0, "schemathesis found what its output tells"
