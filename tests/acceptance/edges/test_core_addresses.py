"""An edge finds every replica of Core behind a name, and follows them: seen through the system's own resolver."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.rpc.addresses import Address, Addresses
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[3]

ROLLOUT = """
import asyncio, uvloop
from pathlib import Path
from runtime import messages as m
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.rpc import addresses
from runtime.rpc.client import RpcCaller
from runtime.rpc.server import RpcServer

addresses.FOLLOW_SECONDS, addresses.AGAIN_SECONDS = 0.2, 0.05
GET, hosts = BY_NAME["GetCampaign"], Path("/etc/hosts")

class Desk:
    def __init__(self, name):
        self.name = name
    async def call(self, operation, request):
        return m.CampaignReply(campaign=m.Campaign(name=self.name))

def say(*found):
    hosts.write_text("127.0.0.1 localhost\\n" + "".join(f"{address} core.headless.example\\n" for address in found))

async def main():
    say()
    port, servers = 0, {}
    for name in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
        servers[name] = RpcServer(Desk(name))
        port = int((await servers[name].start(name, port)).rpartition(":")[2])
    caller = RpcCaller([f"core.headless.example:{port}"])

    async def answered():
        # More turns than there are replicas: reads go round.
        asked = [caller.call(GET, m.GetCampaignRequest(scope=m.Scope(tenant_id="t"), id="c")) for _ in range(12)]
        return {reply.campaign.name for reply in await asyncio.gather(*asked)}

    async def until(*expected):
        while await answered() != set(expected):
            await asyncio.sleep(0.02)
        print("answered by", *sorted(expected), flush=True)

    try:
        await answered()
    except Fault as fault:
        print(fault.reason, flush=True)
    say("127.0.0.1", "127.0.0.2")
    while True:
        try:
            await until("127.0.0.1", "127.0.0.2")
            break
        except Fault:
            await asyncio.sleep(0.02)
    say("127.0.0.2", "127.0.0.3")  # one replaced, as a rollout does
    await until("127.0.0.2", "127.0.0.3")
    await servers["127.0.0.1"].stop()
    say()  # the name server is away
    await asyncio.sleep(0.5)
    await until("127.0.0.2", "127.0.0.3")
    say("127.0.0.3")
    await until("127.0.0.3")
    await caller.close()

uvloop.run(main())
"""


def own_hosts_file(folder: Path) -> list[str] | None:
    """The beginning of a command that sees a hosts file of its own; None where the machine does not let us."""
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        command = [*unshare, "sh", "-ec", f'mount --bind "{hosts}" /etc/hosts; exec "$@"', "sh"]
        try:
            if subprocess.run([*command, "true"], capture_output=True, timeout=HANG_SECONDS).returncode == 0:
                return command
        except OSError:
            return None
    return None


def test_edge_asks_every_replica_and_follows_a_rollout(tmp_path: Path) -> None:
    before = own_hosts_file(tmp_path)
    if before is None:
        pytest.skip("this machine allows no mount namespace, which gives the resolver another hosts file")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*before, sys.executable, "-c", ROLLOUT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, env=environ, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "core_name_not_found" not in line] == [
        "CORE_UNAVAILABLE",
        "answered by 127.0.0.1 127.0.0.2",
        "answered by 127.0.0.2 127.0.0.3",
        "answered by 127.0.0.2 127.0.0.3",
        "answered by 127.0.0.3",
    ]


async def test_addresses_that_are_literal_are_not_looked_up() -> None:
    told: list[list[Address]] = []
    addresses = Addresses(["127.0.0.1:1", "[::1]:2", "127.0.0.1:1"], told.append, lookup=never)
    await addresses.first()
    assert told == [[("127.0.0.1", 1), ("::1", 2)]]
    addresses.close()


async def test_addresses_are_looked_up_again_once_after_many_doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.rpc.addresses.AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("runtime.rpc.addresses.FOLLOW_SECONDS", 86400.0)
    looked, again = 0, asyncio.Event()

    async def lookup(host: str, port: int) -> list[Address]:
        nonlocal looked
        looked += 1
        if looked == 2:
            again.set()
        return [(f"10.0.0.{looked}", port)]

    told: list[list[Address]] = []
    addresses = Addresses(["core:8083"], told.append, lookup=lookup)
    await asyncio.gather(addresses.first(), addresses.first())
    assert told == [[("10.0.0.1", 8083)]]
    for _ in range(100):
        addresses.doubt()
    async with asyncio.timeout(HANG_SECONDS):
        await again.wait()
    addresses.close()
    assert looked == 2


async def never(host: str, port: int) -> list[Address]:
    raise AssertionError("an address is no name")
