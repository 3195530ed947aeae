"""ops/up as its user meets it: one command up, a ready file, the same again, and nothing left after."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest

from ops.api import Api, answers
from ops.servers.base import wait_for
from tests.support.up import STOP_SECONDS, up

pytestmark = pytest.mark.timeout(400)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def test_a_second_start_finds_what_the_first_one_made(data_dir: Path) -> None:
    with up(data_dir) as (_, first):
        assert answers(f"{first['core_url']}/readyz")
        assert answers(f"{first['core_url']}/healthz")
        admin = Api(first["admin_url"], first["admin_token"])
        names = [item["name"] for item in admin.get("/admin/campaigns")["items"]]
        assert names == ["Autumn Fair"]
        assert set(first["demo"]["games"]) == {"spin_wheel", "scratch", "egg_catcher", "gift_catcher", "collection"}
    with up(data_dir) as (_, second):
        assert second["demo"] == first["demo"]
        assert (second["tenant_id"], second["merchant_id"]) == (first["tenant_id"], first["merchant_id"])
        admin = Api(second["admin_url"], second["admin_token"])
        assert [item["name"] for item in admin.get("/admin/campaigns")["items"]] == names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_cleanly(data_dir: Path, number: signal.Signals) -> None:
    with up(data_dir, "--no-demo") as (process, ready):
        assert "demo" not in ready
        members = family(process)
        assert {"postgres", "valkey-server"} <= {member.name() for member in members}
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0
    assert not any(member.is_running() for member in members)
    assert not (data_dir.parent / "ready.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_killed_up_leaves_nothing_running(data_dir: Path) -> None:
    with up(data_dir, "--no-demo") as (process, _):
        members = family(process)
        process.kill()
        process.wait()
        wait_for(lambda: not any(member.is_running() for member in members), STOP_SECONDS)
    with up(data_dir, "--no-demo") as (_, ready):
        assert answers(f"{ready['core_url']}/readyz")


def test_the_ready_file_says_where_each_process_is_watched(data_dir: Path) -> None:
    with up(data_dir, "--no-demo") as (process, ready):
        pids = ready["pids"]
        assert pids["up"] == process.pid
        assert {name: psutil.Process(pid).name() for name, pid in pids.items() if name in ("postgres", "valkey")} == {
            "postgres": "postgres",
            "valkey": "valkey-server",
        }
        assert "runtime" in psutil.Process(pids["core"]).cmdline()
        assert set(ready["metrics"]) <= set(pids)
        assert all(answers(url) for url in ready["metrics"].values())


def test_a_renamed_tenant_is_still_the_one_of_the_demo(data_dir: Path) -> None:
    with up(data_dir, "--no-demo", SERVICE_TOKEN="x" * 32) as (_, first):
        assert asyncpg_run(first["database_url"], "UPDATE tenants SET name = 'Ours now'") == "UPDATE 1"
    with up(data_dir, "--no-demo") as (_, second):
        assert (second["tenant_id"], second["merchant_id"]) == (first["tenant_id"], first["merchant_id"])


def asyncpg_run(url: str, statement: str) -> str:
    async def work() -> str:
        connection = await asyncpg.connect(url)
        try:
            return str(await connection.execute(statement))
        finally:
            await connection.close()

    return asyncio.run(work())


def test_keys_are_made_once_and_kept_private(data_dir: Path) -> None:
    with up(data_dir, "--no-demo"):
        before = (data_dir / "keys.json").read_text()
    with up(data_dir, "--no-demo"):
        assert (data_dir / "keys.json").read_text() == before
    private = ("keys.json", "demo.json", "postgres.log", "valkey.log", "postgres.password", "valkey.password")
    assert {stat.S_IMODE((data_dir / name).stat().st_mode) for name in private} == {0o600}
