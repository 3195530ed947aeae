"""Shares of a pool: what a tenant may hold, and what is remembered of it."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from runtime.stores import tenant_quota
from runtime.stores.tenant_quota import Shares


async def tried(held: Shares, tenant_id: str) -> bool | None:
    """What `enter` says; None where there is no place."""
    try:
        return await asyncio.wait_for(held.enter(tenant_id), 0.01)
    except TimeoutError:
        return None


async def test_tenant_never_holds_all_and_another_finds_what_is_left() -> None:
    held = Shares(8, quiet_seconds=60)
    assert [await tried(held, "a") for _ in range(7)] == [False] * 6 + [None]
    assert held.waits("a")
    assert not held.waits("b")
    assert await tried(held, "b") is False
    held.leave("a", False)
    assert await tried(held, "a") is False


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_small_pool_may_be_held_by_one_tenant(size: int) -> None:
    held = Shares(size, quiet_seconds=60)
    assert [await tried(held, "a") for _ in range(size)] == [False] * size


async def test_blocked_tenants_share_a_few_until_they_were_answered_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    # Not the module's own function: the event loop goes by it.
    monkeypatch.setattr(tenant_quota, "time", SimpleNamespace(monotonic=lambda: now))
    held = Shares(4, quiet_seconds=10)
    held.late("a")
    held.late("b")
    assert await tried(held, "a") is True
    assert await tried(held, "b") is None
    held.leave("a", True)
    held.answered("a")
    assert held.waits("a"), "one answer among many that are late says nothing"
    now += 11
    held.answered("a")
    assert not held.waits("a")
    assert held.waits("b"), "nothing of it was answered"


async def test_tenant_that_waits_in_vain_stays_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Shares(4, quiet_seconds=0.0)
    held.late("a")
    held.late("b")
    assert await tried(held, "a") is True
    now = time.monotonic() + 100
    monkeypatch.setattr(tenant_quota, "time", SimpleNamespace(monotonic=lambda: now))
    assert await tried(held, "b") is None
    held.answered("b")
    assert held.waits("b")


async def test_tenant_that_holds_nothing_is_forgotten() -> None:
    held = Shares(4, quiet_seconds=60)
    for tenant_id in map(str, range(100)):
        assert await tried(held, tenant_id) is False
        held.leave(tenant_id, False)
    for _ in range(3):
        await tried(held, "a")
    assert await tried(held, "a") is None
    for _ in range(3):
        held.leave("a", False)
    assert held._shares == {}
