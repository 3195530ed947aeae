"""The log of deliveries: which notes are kept, in parts, and what is counted as lost."""

import pytest

from runtime.actors import delivery_log
from runtime.outgoing.providers import Failed
from tests.support.commits import TENANT
from tests.support.dispatching import Receivers


async def test_notes_beyond_one_statement_are_all_kept(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_log, "ENTRIES_MAX", 3)
    await receivers.listens("one")
    await receivers.dispatch(*(receivers.event(f"e{nth}") for nth in range(8)))
    assert len(await receivers.log()) == 8 and receivers.dispatcher.log.lost == 0


async def test_notes_beyond_the_memory_limit_are_counted_as_lost(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "ENTRIES_MAX", 1)
    await receivers.listens("one")
    row = await receivers.listener()
    for nth in range(12):
        receivers.dispatcher.log.record(row, receivers.event(f"e{nth:02}"), "dead", 1, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert [one["event_id"] for one in await receivers.log()] == [f"e{nth:02}" for nth in range(10)]
    assert receivers.dispatcher.log.lost == 2


async def test_notes_of_one_tenant_that_fail_block_no_other(receivers: Receivers) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    await receivers.database.execute("ALTER TABLE integration_deliveries ADD CHECK (event_id <> 'bad')")
    await receivers.database.execute("UPDATE integrations SET tenant_id = 'b'")
    for tenant, name in (("a", "bad"), ("b", "good")):
        receivers.dispatcher.log.record(row, receivers.event(name, tenant_id=tenant), "dead", 1, Failed("no"))
    # Of an integration that is gone nothing is kept, nor is anything lost.
    await receivers.dispatcher.log.wait_until_written()
    assert [(one["tenant_id"], one["event_id"]) for one in await receivers.log()] == [("b", "good")]
    assert receivers.dispatcher.log.lost == 0


async def test_notes_of_an_unknown_outcome_are_counted_and_others_kept(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    pruned: list[str] = []

    async def prune(tenant_id: str, part: list[delivery_log.LogEntry]) -> None:
        pruned.append(tenant_id)
        raise RuntimeError("a bug")

    monkeypatch.setattr(receivers.dispatcher.log, "_prune", prune)
    for tenant, name in (("a", "e1"), ("a", "e2"), (TENANT, "e3")):
        receivers.dispatcher.log.record(row, receivers.event(name, tenant_id=tenant), "dead", 1, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert (pruned, receivers.dispatcher.log.lost) == (["a", TENANT], 3)
    assert [one["event_id"] for one in await receivers.log()] == ["e3"]


async def test_note_of_an_event_is_replaced_by_a_newer(receivers: Receivers) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    for attempts in (1, 2):
        receivers.dispatcher.log.record(row, receivers.event(), "dead", attempts, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert [one["attempts"] for one in await receivers.log()] == [2]


async def test_log_is_pruned_at_every_hundredth_note(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_log, "LOG_KEPT", 10)
    await receivers.listens("one")
    for first, beyond, left in ((0, 99, 99), (99, 100, 11), (100, 199, 110), (199, 200, 11)):
        await receivers.dispatch(*(receivers.event(f"e{nth:03}") for nth in range(first, beyond)))
        await receivers.database.execute("UPDATE integration_deliveries SET created_at = now() - interval '1 hour'")
        assert len(await receivers.log()) == left, beyond
