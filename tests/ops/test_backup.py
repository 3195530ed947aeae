"""The commands of docs/how-to/back-up.md: what was backed up plays on from another database."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

from ops.servers.postgres import Postgres
from sql.migrate import migrate
from tests.support.stack import new_stack, settings_of
from tests.support.world import World, new_world

ROOT = Path(__file__).parents[2]


def commands() -> dict[str, str]:
    page = (ROOT / "docs/how-to/back-up.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    return {line.split()[0]: line for line in lines}


async def run(command: str, server: Postgres, url: str, directory: Path) -> None:
    path = f"{server.bin_dir}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DATABASE_URL": url}
    await asyncio.to_thread(subprocess.run, command, shell=True, check=True, cwd=directory, env=environment)


async def test_backup_of_a_running_stack_plays_on_from_an_empty_database(
    postgres: Postgres, database_url: str, empty_database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path
) -> None:
    async with new_stack(settings_of(database_url, valkey_url)) as stack, new_world(stack) as world:
        prize_id = await world.prize(total=10, codes=[f"CODE-{nth}" for nth in range(10)])
        game_id = await world.wheel(prize_id)
        first = await world.round(game_id, "ann", key="key_1")
        opened = await world.session(game_id, "ann")
        await run(commands()["pg_dump"], postgres, database_url, tmp_path)
        await world.play(game_id, opened, "ann", key="key_2")
    await run(commands()["pg_restore"], postgres, empty_database_url, tmp_path)
    assert await migrate(empty_database_url) == []
    async with new_stack(settings_of(empty_database_url, valkey_url)) as stack:
        after = World(stack, world.campaign_id)
        assert await after.plays() == [first.data["play_id"]]
        again = await after.play(game_id, opened, "ann", key="key_2")
        assert "Idempotency-Replayed" not in again.headers
        assert await after.stock(prize_id) == (8, 2)
        await after.check()
