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

PAGE = (Path(__file__).parents[2] / "docs/how-to/back-up.md").read_text()
BACK_UP, RESTORE, _ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
SHOWN = "SELECT code_id FROM codes WHERE reward_id IS NOT NULL"


def test_previous_database_is_dumped_before_it_is_deleted_and_is_there_for_the_last_step() -> None:
    blocks = [text for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) if "pg_restore" in text]
    for block, deletion in zip(blocks, ("docker volume rm", "kubectl delete -k"), strict=True):
        assert block.index("> previous.dump") < block.index(deletion) < block.index("-d previous < previous.dump")


async def run(command: str, server: Postgres, url: str, directory: Path) -> None:
    path = f"{server.bin_dir}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DATABASE_URL": url, "PREVIOUS_URL": url}
    await asyncio.to_thread(subprocess.run, command, shell=True, check=True, cwd=directory, env=environment)


async def test_backup_of_a_running_stack_plays_on_from_an_empty_database(
    postgres: Postgres, database_url: str, empty_database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path
) -> None:
    async with new_stack(settings_of(database_url, valkey_url)) as stack, new_world(stack) as world:
        vouchers = {"channel": "voucher_code"}
        prize_id = await world.prize(total=10, codes=[f"CODE-{nth}" for nth in range(10)], fulfillment=vouchers)
        game_id = await world.wheel(prize_id)
        first = await world.round(game_id, "ann", key="key_1")
        opened = await world.session(game_id, "ann")
        await run(BACK_UP, postgres, database_url, tmp_path)
        await world.play(game_id, opened, "ann", key="key_2")
        moment = await world.database.fetchval("SELECT now()::text")  # The play's transaction began earlier.
        shown = await world.database.fetch(SHOWN)
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shown.sql").write_text(query.replace("2026-01-31 12:00:00+00", moment))
    for command in RESTORE.splitlines():
        url = database_url if "PREVIOUS_URL" in command else empty_database_url
        await run(command, postgres, url, tmp_path)
    assert await migrate(empty_database_url) == []
    async with new_stack(settings_of(empty_database_url, valkey_url)) as stack:
        after = World(stack, world.campaign_id)
        assert await after.plays() == [first.data["play_id"]]
        assert "Idempotency-Replayed" not in (await after.play(game_id, opened, "ann", key="key_2")).headers
        assert len({*shown, *await after.database.fetch(SHOWN)}) == 3, "each code was shown once"
        assert await after.stock(prize_id) == (8, 2)
        await after.check()
