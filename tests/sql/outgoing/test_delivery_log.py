"""The log of deliveries: which notes are kept, in parts, and what is counted as lost."""

from __future__ import annotations

import pytest

from runtime.actors import delivery_log
from runtime.actors.dispatcher import Dispatcher
from runtime.outgoing.providers import Failed
from runtime.stores.database import Database
from tests.support.commits import TENANT
from tests.support.dispatching import Receivers, event, listener, listens, log, told


async def test_notes_beyond_one_statement_are_all_kept(
    dispatcher: Dispatcher, database: Database, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "NOTES_MAX", 3)
    await listens(database, "one")
    await told(dispatcher, *(event(database, f"e{nth}") for nth in range(8)))
    assert len(await log(database)) == 8 and dispatcher.log.lost == 0


async def test_notes_beyond_the_memory_limit_are_counted_as_lost(
    dispatcher: Dispatcher, database: Database, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "NOTES_MAX", 1)
    await listens(database, "one")
    row = await listener(database)
    for nth in range(12):
        dispatcher.log.note(row, event(database, f"e{nth:02}"), "dead", 1, Failed("no"))
    await dispatcher.log.written()
    assert [one["event_id"] for one in await log(database)] == [f"e{nth:02}" for nth in range(10)]
    assert dispatcher.log.lost == 2


async def test_notes_of_one_tenant_that_fail_block_no_other(
    dispatcher: Dispatcher, database: Database, receivers: Receivers
) -> None:
    await listens(database, "one")
    row = await listener(database)
    await database.execute("ALTER TABLE integration_deliveries ADD CHECK (event_id <> 'bad')")
    await database.execute("UPDATE integrations SET tenant_id = 'b'")
    for tenant, name in (("a", "bad"), ("b", "good")):
        dispatcher.log.note(row, event(database, name, tenant_id=tenant), "dead", 1, Failed("no"))
    # Of an integration that is gone nothing is kept, nor is anything lost.
    await dispatcher.log.written()
    assert [(one["tenant_id"], one["event_id"]) for one in await log(database)] == [("b", "good")]
    assert dispatcher.log.lost == 0


async def test_notes_of_an_unknown_outcome_are_counted_and_others_kept(
    dispatcher: Dispatcher, database: Database, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await listens(database, "one")
    row = await listener(database)
    pruned: list[str] = []

    async def prune(tenant_id: str, part: list[delivery_log.Note]) -> None:
        pruned.append(tenant_id)
        raise RuntimeError("a bug")

    monkeypatch.setattr(dispatcher.log, "_prune", prune)
    for tenant, name in (("a", "e1"), ("a", "e2"), (TENANT, "e3")):
        dispatcher.log.note(row, event(database, name, tenant_id=tenant), "dead", 1, Failed("no"))
    await dispatcher.log.written()
    assert (pruned, dispatcher.log.lost) == (["a", TENANT], 3)
    assert [one["event_id"] for one in await log(database)] == ["e3"]


async def test_note_of_an_event_is_replaced_by_a_newer(
    dispatcher: Dispatcher, database: Database, receivers: Receivers
) -> None:
    await listens(database, "one")
    row = await listener(database)
    for attempts in (1, 2):
        dispatcher.log.note(row, event(database), "dead", attempts, Failed("no"))
    await dispatcher.log.written()
    assert [one["attempts"] for one in await log(database)] == [2]


async def test_log_is_pruned_at_every_hundredth_note(
    dispatcher: Dispatcher, database: Database, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "LOG_KEPT", 10)
    await listens(database, "one")
    for first, beyond, left in ((0, 99, 99), (99, 100, 11), (100, 199, 110), (199, 200, 11)):
        await told(dispatcher, *(event(database, f"e{nth:03}") for nth in range(first, beyond)))
        await database.execute("UPDATE integration_deliveries SET created_at = now() - interval '1 hour'")
        assert len(await log(database)) == left, beyond
