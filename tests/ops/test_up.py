"""ops/up as its user meets it: one command up, a ready file, the same again, and nothing left after."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import asyncpg
import psutil
import pytest

from ops.api import Api, answers
from ops.servers.base import wait_for
from tests.support.up import ROOT, STOP_SECONDS, up

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


def test_a_store_that_dies_ends_it_with_an_error_that_says_so(data_dir: Path) -> None:
    with up(data_dir, "--no-demo") as (process, ready):
        members = family(process)
        psutil.Process(ready["pids"]["postgres"]).kill()
        assert process.wait(STOP_SECONDS) == 1
        assert "ops/up: postgres ended with -9" in (data_dir.parent / "up.log").read_text()
    # Postgres's own processes end when they see that the first of them is gone.
    assert psutil.wait_procs(members, STOP_SECONDS)[1] == []
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
        assert {"core"} <= set(ready["metrics"]) <= set(pids)
        assert all(answers(url) for url in ready["metrics"].values())


def test_the_command_line_that_it_prints_reaches_it(data_dir: Path) -> None:
    with up(data_dir) as (_, ready):
        printed = re.search(r"Command line  (.*?)   \(", said(data_dir, "Command line"))
        assert printed is not None and "ops/tombola games list" in printed[1]
        assert stat.S_IMODE((data_dir / "ready.json").stat().st_mode) == 0o600
        listed = tombola(data_dir, "games", "list", "--json")
        assert {game["id"] for game in json.loads(listed)} == set(ready["demo"]["games"].values())
        token = tombola(data_dir, "token", "player", "player_ada").strip()
        game = ready["demo"]["games"]["scratch"]
        player = Api(ready["consumer_url"], token)
        assert player.get(f"/games/{game}/eligibility")["can_play"]
    assert not (data_dir / "ready.json").exists()


def said(data_dir: Path, last: str) -> str:
    """What it has printed, once this is among it: it says so after its ready file is there."""
    log = data_dir.parent / "up.log"
    wait_for(lambda: last in log.read_text(), STOP_SECONDS)
    return log.read_text()


def tombola(data_dir: Path, *arguments: str) -> str:
    """What ops/tombola says, in the environment that it is in already."""
    program = (
        "import os, sys; from ops import ready; os.environ.update(ready.found_environment());"
        "from runtime.cli import main; main()"
    )
    command = [sys.executable, "-c", program, *arguments]
    environ = {**os.environ, "TOMBOLA_DATA": str(data_dir), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_it_prints_first_is_a_page_of_games_that_anybody_may_play(data_dir: Path) -> None:
    with up(data_dir) as (_, ready):
        told = [line for line in said(data_dir, "Command line").splitlines() if "http://" in line]
        assert ready["play_url"] in told[0] and ready["dashboard_url"] in told[1]
        assert ready["dashboard_url"].startswith(f"{ready['admin_url']}/dashboard#link=")
        assert b"<title>Tombola</title>" in read(ready["dashboard_url"])
        games = re.findall(r'href="(/p/[^"]+)"', read(ready["play_url"]).decode())
        assert len(games) == 5
        for path in games:
            assert b"<tombola-game game=" in read(ready["consumer_url"] + path)
        digest = base64.b64encode(hashlib.sha384(read(ready["widget"]["src"])).digest()).decode()
        assert ready["widget"]["integrity"] == f"sha384-{digest}"
        start = f"{ready['consumer_url']}/api/v1/games/{ready['demo']['games']['spin_wheel']}/start"
        with urlopen(Request(start, b"{}", {"Content-Type": "application/json"})) as answer:
            assert json.load(answer)["data"]["guest_token"]


def read(url: str) -> bytes:
    with urlopen(url) as answer:
        return bytes(answer.read())


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
