import asyncio
import time
from types import SimpleNamespace

import pytest

from runtime.stores import tenant_quota
from runtime.stores.tenant_quota import TenantQuotas


async def tried(quotas: TenantQuotas, tenant_id: str) -> bool | None:
    """What `enter` says; None where there is no place."""
    try:
        return await asyncio.wait_for(quotas.enter(tenant_id), 0.01)
    except TimeoutError:
        return None


async def test_tenant_never_holds_all_and_another_finds_what_is_left() -> None:
    quotas = TenantQuotas(8, quiet_seconds=60)
    assert [await tried(quotas, "a") for _ in range(7)] == [False] * 6 + [None]
    assert [await tried(quotas, "") for _ in range(9)] == [False] * 9, "work without a tenant has no quota"
    assert quotas.waits("a")
    assert not quotas.waits("b")
    assert await tried(quotas, "b") is False
    quotas.leave("a", False)
    assert await tried(quotas, "a") is False


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_small_pool_may_be_held_by_one_tenant(size: int) -> None:
    quotas = TenantQuotas(size, quiet_seconds=60)
    assert [await tried(quotas, "a") for _ in range(size)] == [False] * size


async def test_blocked_tenants_share_a_few_until_they_were_answered_and_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    # Not the module's own function: the event loop goes by it.
    monkeypatch.setattr(tenant_quota, "time", SimpleNamespace(monotonic=lambda: now))
    quotas = TenantQuotas(4, quiet_seconds=10)
    quotas.record_timeout("a")
    quotas.record_timeout("b")
    assert await tried(quotas, "a") is True
    assert await tried(quotas, "b") is None
    quotas.leave("a", True)
    quotas.record_answer("a")
    assert quotas.waits("a"), "one answer among many that are late says nothing"
    now += 11
    quotas.record_answer("a")
    assert not quotas.waits("a")
    assert quotas.waits("b"), "nothing of it was answered"
    quotas.record_timeout("a")
    assert await tried(quotas, "a") is True
    now += 9
    waiting = asyncio.ensure_future(tried(quotas, "a"))
    await asyncio.sleep(0)  # sleeps: it waits now
    quotas.record_answer("a")
    assert await waiting is None
    now += 2
    quotas.record_answer("a")
    assert not quotas.waits("a"), "it waited in vain, but was answered meanwhile"


async def test_tenant_that_waits_in_vain_stays_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = TenantQuotas(4, quiet_seconds=0.0)
    quotas.record_timeout("a")
    quotas.record_timeout("b")
    assert await tried(quotas, "a") is True
    now = time.monotonic() + 100
    monkeypatch.setattr(tenant_quota, "time", SimpleNamespace(monotonic=lambda: now))
    assert await tried(quotas, "b") is None
    quotas.record_answer("b")
    assert quotas.waits("b")


async def test_tenant_that_holds_nothing_is_forgotten() -> None:
    quotas = TenantQuotas(4, quiet_seconds=60)
    for tenant_id in map(str, range(100)):
        assert await tried(quotas, tenant_id) is False
        quotas.leave(tenant_id, False)
    for _ in range(3):
        await tried(quotas, "a")
    assert await tried(quotas, "a") is None
    for _ in range(3):
        quotas.leave("a", False)
    assert quotas._shares == {}
