"""Whose slow deliveries keep whose waiting."""

from __future__ import annotations

import pytest

from runtime.streams import receivers
from runtime.streams.receivers import Receivers


def row(prize_id: str, url: str = "", channel: str = "webhook") -> dict[str, object]:
    return {"prize_id": prize_id, "channel": channel, "channel_config": {"url": url} if url else {}}


async def test_prizes_of_one_host_share_a_receiver_over_all_tenants() -> None:
    known = Receivers()
    first = known.of("tenant_a", row("prize_1", "https://shop.example/a"))
    assert known.of("tenant_b", row("prize_2", "https://shop.example/b")) is first
    assert known.of("tenant_a", row("prize_3", "https://other.example/a")) is not first


async def test_channel_without_a_url_is_its_tenants_alone() -> None:
    known = Receivers()
    codes = known.of("tenant_a", row("prize_1", channel="voucher_code"))
    assert known.of("tenant_a", row("prize_2", channel="voucher_code")) is codes
    assert known.of("tenant_b", row("prize_1", channel="voucher_code")) is not codes
    assert known.of("tenant_a", row("prize_3", channel="plugin")) is not codes


async def test_prizes_and_receivers_without_tasks_are_forgotten_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "KNOWN_MAX", 10)
    known = Receivers()
    busy = known.of("tenant_a", row("busy", "https://shop.example"))
    busy.tasks = 1
    for nth in range(100):
        known.of("tenant_a", row(f"prize_{nth}", "https://shop.example"))
        known.of(f"tenant_{nth}", row("prize", f"https://{nth}.example"))
    assert sum(map(len, known._by_prize.values())) <= 11 and len(known._by_name) <= 11
    assert known.of("tenant_a", row("busy", "https://shop.example")) is busy
