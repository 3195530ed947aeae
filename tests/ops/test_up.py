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
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest

from ops import demo
from ops.api import Api, answers
from ops.devstack import ensure_demo
from ops.servers.base import wait_for
from tests.support.directories import server_directory
from tests.support.load import load
from tests.support.up import ROOT, STOP_SECONDS, up
from tests.support.world import WHEEL

pytestmark = pytest.mark.timeout(400)

READY_SECONDS = 15
DEMO_GAMES = {"spin_wheel", "scratch", "egg_catcher", "gift_catcher", "collection"}


@dataclass(frozen=True, slots=True)
class Running:
    process: subprocess.Popen[str]
    data_dir: Path
    ready: dict[str, Any]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with server_directory() as directory, up(directory / "data") as (process, ready):
        yield Running(process, directory / "data", ready)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def test_ready_file_names_each_process_with_its_metrics(running: Running) -> None:
    ready, pids = running.ready, running.ready["pids"]
    assert answers(f"{ready['core_url']}/readyz") and answers(f"{ready['core_url']}/healthz")
    assert pids["up"] == running.process.pid
    found = {name: psutil.Process(pids[name]).name() for name in ("postgres", "valkey")}
    assert found == {"postgres": "postgres", "valkey": "valkey-server"}
    assert "runtime" in psutil.Process(pids["core"]).cmdline()
    assert {"core"} <= set(ready["metrics"]) <= set(pids)
    assert all(answers(url) for url in ready["metrics"].values())


def listens(connection: Any, url: str) -> bool:
    """Whether it is a listening socket on the URL's port."""
    return connection.status == psutil.CONN_LISTEN and url.endswith(f":{connection.laddr.port}")


def test_demo_has_a_campaign_with_five_games(running: Running) -> None:
    assert campaigns(running.ready) == ["Autumn Fair"]
    assert set(running.ready["demo"]["games"]) == DEMO_GAMES


def campaigns(ready: dict[str, Any]) -> list[str]:
    admin = Api(ready["admin_url"], ready["admin_token"])
    return [item["name"] for item in admin.get("/admin/campaigns")["items"]]


def test_printed_command_line_reaches_the_service(running: Running) -> None:
    data_dir, ready = running.data_dir, running.ready
    printed = re.search(r"Command line  (.*?)   \(", log_with(data_dir, "Command line"))
    assert printed is not None and "ops/tombola games list" in printed[1]
    assert stat.S_IMODE((data_dir / "ready.json").stat().st_mode) == 0o600
    listed = tombola(data_dir, "games", "list", "--json")
    assert {game["id"] for game in json.loads(listed)} == set(ready["demo"]["games"].values())
    token = tombola(data_dir, "token", "player", "player_ada").strip()
    game = ready["demo"]["games"]["scratch"]
    assert Api(ready["consumer_url"], token).get(f"/games/{game}/eligibility")["can_play"]


def log_with(data_dir: Path, last: str) -> str:
    log = data_dir.parent / "up.log"
    wait_for(lambda: last in log.read_text(), STOP_SECONDS)
    return log.read_text()


def tombola(data_dir: Path, *arguments: str) -> str:
    program = (
        "import os, sys; from ops import ready; os.environ.update(ready.found_environment());"
        "from runtime.cli import main; main()"
    )
    command = [sys.executable, "-c", program, *arguments]
    environ = {**os.environ, "TOMBOLA_DATA": str(data_dir), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_printed_pages_are_served_and_guests_may_play(running: Running) -> None:
    ready = running.ready
    printed = [line for line in log_with(running.data_dir, "Command line").splitlines() if "http://" in line]
    assert ready["play_url"] in printed[0] and ready["dashboard_url"] in printed[1]
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_killed_up_leaves_no_process_and_the_next_start_finds_its_data(data_dir: Path) -> None:
    with up(data_dir, "--no-demo") as (process, first):
        members = family(process)
        keys = (data_dir / "keys.json").read_text()
        process.kill()
        process.wait()
        wait_for(lambda: not any(member.is_running() for member in members), STOP_SECONDS)
    with up(data_dir, "--no-demo", "--processes", "2") as (process, second):
        assert answers(f"{second['core_url']}/readyz")
        assert_two_processes_share_the_ports(second)
        assert "demo" not in second
        assert (second["tenant_id"], second["merchant_id"]) == (first["tenant_id"], first["merchant_id"])
        assert (data_dir / "keys.json").read_text() == keys
        assert_stops_cleanly(process, data_dir, signal.SIGTERM)


def assert_two_processes_share_the_ports(ready: dict[str, Any]) -> None:
    assert len(ready["metrics"]) == 2 and all(answers(url) for url in ready["metrics"].values())
    servers = psutil.Process(ready["pids"]["core"]).children()
    assert len(servers) == 2
    for port in (ready["consumer_url"], ready["admin_url"], ready["core_url"]):
        listening = {server.pid for server in servers for one in server.net_connections() if listens(one, port)}
        assert len(listening) == 2


def assert_stops_cleanly(process: subprocess.Popen[str], data_dir: Path, number: signal.Signals) -> None:
    """The signal ends each process and takes the ready files away; keys and logs stay private."""
    members = family(process)
    assert {"postgres", "valkey-server"} <= {member.name() for member in members}
    process.send_signal(number)
    assert process.wait(STOP_SECONDS) == 0
    assert not any(member.is_running() for member in members)
    assert not (data_dir.parent / "ready.json").exists() and not (data_dir / "ready.json").exists()
    private = ("keys.json", "demo.json", "postgres.log", "valkey.log", "postgres.password", "valkey.password")
    assert {stat.S_IMODE((data_dir / name).stat().st_mode) for name in private} == {0o600}


@pytest.mark.fault(
    "Embedded Valkey or Postgres of `ops/up` killed",
    size="each once, under plays",
    figure="restarted and named, ready within 15 s; no play refused without Valkey, 503 without Postgres",
)
async def test_killed_store_is_restarted_until_the_third_death_of_a_minute(running: Running) -> None:
    """The last test: it ends the stack of the others."""
    process, ready, folder = running.process, running.ready, running.data_dir.parent
    log, admin = folder / "up.log", Api(ready["admin_url"], ready["admin_token"])
    wheel = {**WHEEL, "name": "Wheel", "campaign_id": ready["demo"]["campaign_id"], "status": "active"}
    game = admin.post("/admin/games", {**wheel, "handler_config": {"prizes": []}})["id"]
    async with load(ready["core_url"], ready["tenant_id"], game, players=2) as running_load:
        for name, refusals in (("valkey", set[int]()), ("postgres", {503})):
            await running_load.plays(5)
            began = time.monotonic()
            psutil.Process(ready["pids"][name]).kill()
            line = f"{name} ended with -9: restarted\n"
            await asyncio.to_thread(wait_for, lambda line=line: line in log.read_text(), STOP_SECONDS)
            assert process.poll() is None
            await asyncio.to_thread(wait_for, lambda: answers(f"{ready['core_url']}/readyz"), STOP_SECONDS)
            assert time.monotonic() - began < READY_SECONDS
            await running_load.plays(5)
            assert {status for status, _ in running_load.refusals} == refusals, name
    pids = json.loads((folder / "ready.json").read_text())["pids"]
    members = family(process)
    assert pids["core"] == ready["pids"]["core"] and set(pids.values()) <= {member.pid for member in members}
    psutil.Process(pids["valkey"]).kill()
    assert process.wait(STOP_SECONDS) == 1
    assert "ops/up: stores ended 3 times within 60 s. valkey ended with -9;" in log.read_text()
    assert psutil.wait_procs(members, STOP_SECONDS)[1] == []
    assert not (folder / "ready.json").exists()


def test_demo_is_made_once_for_each_tenant_of_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter(({"campaign_id": "camp_1"}, {"campaign_id": "camp_2"}))
    monkeypatch.setattr(demo, "seed", lambda *_: next(seeds))
    edges = {"admin_url": "", "admin_token": ""}
    made = [ensure_demo(tmp_path, {**edges, "tenant_id": tenant})["campaign_id"] for tenant in ("t_1", "t_1", "t_2")]
    assert made == ["camp_1", "camp_1", "camp_2"]
