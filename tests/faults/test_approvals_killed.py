"""A process killed while a second person approves: what was asked is done once, by whoever asks again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ops.servers.base import free_port
from runtime.operations import API
from runtime.settings import Key
from tests.support import invariants
from tests.support.login import bearer
from tests.support.processes import CoreProcess
from tests.support.resources import make_campaign
from tests.support.rivals import held, waits
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.waiting import HANG_SECONDS, until
from tests.support.world import World

HELD = {"dual_adjustment_above": 10, "dual_revocations_above": 1}
KEY = "33" * 32


class Office:
    """A stack that goes on, and a process beside it that does not."""

    def __init__(self, world: World, process: CoreProcess, admin_url: str) -> None:
        self.world = world
        self.process = process
        self.admin_url = admin_url

    @property
    def stack(self) -> Stack:
        return self.world.stack

    async def waiting(self, path: str, body: dict[str, Any]) -> str:
        """The id of the approval that this comes to."""
        answer = await self.stack.admin("POST", f"/admin/{path}", body, roles=(), headers=self.as_("ann"))
        assert answer.reason == "APPROVAL_NEEDED", answer.envelope
        return str(answer.envelope["data"]["approval"]["id"])

    def as_(self, who: str) -> dict[str, str]:
        return bearer(self.stack.token(who, ("reward_manager",)))

    async def approve(self, approval_id: str, who: str = "bob") -> Any:
        path = f"/admin/approvals/{approval_id}/approve"
        return await self.stack.admin("POST", path, {"reason": "seen"}, roles=(), headers=self.as_(who))

    async def killed_while(self, approval_id: str, statement: str) -> None:
        """Has the other process approve it, and kills it where this statement of its waits for a rival."""
        url = f"{self.admin_url}{API}/admin/approvals/{approval_id}/approve"
        async with aiohttp.ClientSession(headers=self.as_("bob")) as http:
            asked = asyncio.ensure_future(http.post(url, json={"reason": "seen"}))
            await until(lambda: waits(self.stack, statement))
            await self.process.end(signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await asked

    async def noted(self, approval_id: str) -> list[tuple[str, str]]:
        """(what was noted of it, of whom), the first first."""
        items = (await self.stack.admin("GET", "/admin/audit", subject_id=approval_id)).data["items"]
        return [(entry["action"], entry["actor"]) for entry in reversed(items)]


@pytest.fixture
async def office(database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path) -> AsyncIterator[Office]:
    keys = {name: (Key("1", bytes.fromhex(KEY)),) for name in ("server_keys", "code_keys")}
    settings = settings_of(database_url, valkey_url, role_matrix="strict", **HELD, **keys)
    admin_port = free_port()
    environment = {name.upper(): str(value) for name, value in HELD.items()} | {
        "SERVER_KEYS": f"1:{KEY}",
        "CODE_KEYS": f"1:{KEY}",
        "JWT_SECRET": settings.jwt_secret,
        "JWT_STAFF_SECRET": settings.jwt_staff_secret,
        "ADMIN_PORT": str(admin_port),
        "ROLE_MATRIX": "strict",
    }
    async with AsyncExitStack() as parts:
        stack = await parts.enter_async_context(new_stack(settings))
        process = CoreProcess(database_url, valkey_url, tmp_path / "core.log", **environment)
        await process.start()
        world = World(stack, (await make_campaign(stack))["id"])
        yield Office(world, process, f"http://127.0.0.1:{admin_port}")
        await process.end(signal.SIGKILL)
        await invariants.check(stack.database)


@pytest.mark.timeout(120)
async def test_approved_bulk_revocation_is_finished_once_after_a_crash(office: Office) -> None:
    stack, world = office.stack, office.world
    prize_id = await world.prize(type="turns", value=2)
    game_id = await world.wheel(prize_id)
    won = [(await world.round(game_id)).data["rewards"][0]["reward_id"] for _ in range(3)]
    approval_id = await office.waiting("rewards/bulk", {"act": "BULK_ACT_REVOKE", "ids": won, "reason": "a cheat"})
    # The first is revoked, and the second waits: there the process dies.
    async with held(stack, "SELECT FROM rewards WHERE reward_id = $1 FOR UPDATE", won[1]):
        await office.killed_while(approval_id, "rewards.hold")
        statuses = "SELECT status FROM rewards WHERE reward_id = ANY($1::text[]) ORDER BY array_position($1, reward_id)"
        told = [row["status"] for row in await stack.database.fetch(statuses, won)]
        assert told == ["revoked", "fulfilled", "fulfilled"]
    shown = (await stack.admin("GET", f"/admin/approvals/{approval_id}", roles=(), headers=office.as_("bob"))).data
    assert shown["status"] == "APPROVAL_STATUS_APPROVED"
    done = await asyncio.gather(*(office.approve(approval_id) for _ in range(8)))
    assert [answer.data["status"] for answer in done] == ["APPROVAL_STATUS_DONE"] * 8
    assert [row["status"] for row in await stack.database.fetch(statuses, won)] == ["revoked"] * 3
    entries = "SELECT reference_id FROM turn_entries WHERE reason = 'reversal' ORDER BY reference_id"
    assert [row["reference_id"] for row in await stack.database.fetch(entries)] == sorted(won)
    for reward_id in won:
        noted = (await stack.admin("GET", "/admin/audit", subject_id=reward_id)).data["items"]
        assert [(entry["action"], entry["actor"]) for entry in noted] == [("reward.revoke", "ann")]
    noted = [act for act, _ in await office.noted(approval_id)]
    assert [noted.count(f"approval.{verb}") for verb in ("approve", "finish")] == [1, 1], noted


@pytest.mark.timeout(120)
async def test_concurrent_approvals_are_carried_out_once(office: Office) -> None:
    stack, world = office.stack, office.world
    game_id = await world.wheel(await world.prize(type="turns", value=2))
    won = [(await world.round(game_id)).data["rewards"][0]["reward_id"] for _ in range(3)]
    approval_id = await office.waiting("rewards/bulk", {"act": "BULK_ACT_REVOKE", "ids": won, "reason": "a cheat"})
    # The first has approved it, and waits within; the others find it approved, or waiting still.
    async with held(stack, "SELECT FROM rewards WHERE reward_id = $1 FOR UPDATE", won[0]):
        asked = [asyncio.ensure_future(office.approve(approval_id)) for _ in range(8)]
        await until(lambda: waits(stack, "rewards.hold"))
    done = await asyncio.gather(*asked)
    assert [answer.data["status"] for answer in done] == ["APPROVAL_STATUS_DONE"] * 8
    entries = "SELECT reference_id FROM turn_entries WHERE reason = 'reversal' ORDER BY reference_id"
    assert [row["reference_id"] for row in await stack.database.fetch(entries)] == sorted(won)
    noted = [act for act, _ in await office.noted(approval_id)]
    assert [noted.count(f"approval.{verb}") for verb in ("approve", "finish")] == [1, 1], noted


@pytest.mark.timeout(120)
async def test_adjustment_interrupted_after_its_approval_is_done_once(office: Office) -> None:
    stack = office.stack
    assert (await stack.consumer("GET", "/players/me", player="cyn")).http == 200
    body = {"player_id": "cyn", "scope_key": stack.tenant_id, "currency": "points"}
    small = await stack.admin("POST", "/admin/wallet/adjustments", body | {"amount": 5, "reference_id": "a"})
    assert small.code == "OK"
    approval_id = await office.waiting("wallet/adjustments", body | {"amount": 100, "reference_id": "b"})
    async with held(stack, "SELECT FROM balances WHERE player_id = 'cyn' FOR UPDATE"):
        await office.killed_while(approval_id, "wallet.move")
    amounts = "SELECT amount FROM ledger_entries WHERE player_id = 'cyn' ORDER BY seq"
    await until(lambda: _nobody_else_writes(stack))
    assert [row["amount"] for row in await stack.database.fetch(amounts)] == [5], "it died uncommitted"
    told = await asyncio.gather(*(office.approve(approval_id) for _ in range(3)))
    assert {answer.data["status"] for answer in told} == {"APPROVAL_STATUS_DONE"}, told
    assert [row["amount"] for row in await stack.database.fetch(amounts)] == [5, 100]
    assert len(await office.noted(approval_id)) == 2, "asked and approved, each once"


async def _nobody_else_writes(stack: Stack) -> bool:
    """The dead process' connection is over: its transaction is undone."""
    query = (
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_xid IS NOT NULL)"
    )
    return bool(await stack.database.fetchval(query))


@pytest.mark.timeout(120)
async def test_stock_moves_of_two_processes_and_wins_form_one_chain(office: Office) -> None:
    stack, world = office.stack, office.world
    prize_id = await world.prize(total=40)
    game_id = await world.wheel(prize_id)
    path = f"/admin/prizes/{prize_id}/stock"
    designer = bearer(stack.token("dan", ("designer",)))
    changes = [3, -2, 5, -1, 4, -3, 2, 1]

    async def there(change: int) -> bool:
        async with aiohttp.ClientSession(headers=designer) as http, asyncio.timeout(HANG_SECONDS):
            async with http.post(f"{office.admin_url}{API}{path}", json={"change": change, "reason": "there"}) as told:
                return told.status == 200

    async def here(change: int) -> bool:
        body = {"change": change, "reason": "here"}
        return (await stack.admin("POST", path, body, roles=(), headers=designer)).code == "OK"

    async def win(nth: int) -> int:
        return len((await world.round(game_id, f"player_{nth}")).data["rewards"])

    moved, elsewhere, won = await asyncio.gather(
        asyncio.gather(*(here(change) for change in changes)),
        asyncio.gather(*(there(change) for change in changes)),
        asyncio.gather(*(win(nth) for nth in range(20))),
    )
    assert all(moved) and all(elsewhere), (moved, elsewhere)
    assert won == [1] * 20
    total = 40 + 2 * sum(changes)
    assert await world.stock(prize_id) == (total - 20, 20)
    rows = await stack.database.fetch("SELECT * FROM stock_moves WHERE prize_id = $1 ORDER BY seq", prize_id)
    assert len(rows) == 2 * len(changes)
    assert all(before["total_after"] == after["total_before"] for before, after in pairwise(rows))
    assert (rows[0]["total_before"], rows[-1]["total_after"]) == (40, total)
