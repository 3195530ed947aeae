"""Which integrations receive an event, how often and how many at once; and its log. Receivers are functions here."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import pytest
from prometheus_client import REGISTRY

from runtime.actors import delivery_log
from runtime.actors import dispatcher as dispatching
from runtime.actors.dispatcher import FAILURES_TO_OPEN, OLD_SECONDS, OPEN_SECONDS, PLACES, SAME_TIME_SECONDS, PastEvent
from runtime.outgoing.providers import ERROR_CHARACTERS_MAX, Delivered, DeliveryRequest, Failed, Outcome, Stubbed
from runtime.outgoing.schedule import SCHEDULE_SECONDS
from runtime.outgoing.vault import vault_of
from runtime.stores.database import StoreUnavailable
from tests.support.commits import TENANT
from tests.support.dispatching import Receivers, Said
from tests.support.locks import blocked
from tests.support.waiting import HANG_SECONDS, until

END_WAITING: Final = """
SELECT pid, pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND pid <> ALL($1::int[])"""


async def test_event_goes_to_integrations_of_its_type_merchant_and_campaign(receivers: Receivers) -> None:
    await receivers.listens("all")
    await receivers.listens("shops", merchant="shop")
    await receivers.listens("rivals", merchant="rival")
    await receivers.listens("camps", campaign="camp")
    await receivers.listens("others", campaign="other")
    await receivers.dispatch(receivers.event())
    assert sorted(receivers.got) == [("all", "e1"), ("camps", "e1"), ("shops", "e1")]
    await receivers.dispatch(receivers.event("e2", type="prize_claimed"))
    assert len(receivers.got) == 3
    await receivers.dispatch(receivers.event("e3", merchant_id="rival", campaign_id="other"))
    assert sorted(receivers.got[3:]) == [("all", "e3"), ("others", "e3"), ("rivals", "e3")]
    tasks = await receivers.dispatcher.dispatch(receivers.event("e4"), of_merchant="shop")
    assert [await task for task in tasks] == [True]
    assert receivers.got[6:] == [("shops", "e4")]


async def test_integration_gets_no_event_from_before_it_listened(receivers: Receivers) -> None:
    await receivers.listens("early", ago=SAME_TIME_SECONDS + 30)
    await receivers.listens("late", ago=0)
    await receivers.dispatch(receivers.event(ago=SAME_TIME_SECONDS + 3))
    assert receivers.got == [("early", "e1")]
    await receivers.dispatch(receivers.event("e2"))
    assert sorted(receivers.got[1:]) == [("early", "e2"), ("late", "e2")]


async def test_integrations_are_read_once_for_earlier_events(receivers: Receivers) -> None:
    since = time.monotonic()
    await receivers.dispatcher.dispatch(receivers.event(), since=since)
    await receivers.listens("new")
    await asyncio.gather(*await receivers.dispatcher.dispatch(receivers.event("e2"), since=since))
    assert receivers.got == [], "it came before that was read"
    await asyncio.gather(*await receivers.dispatcher.dispatch(receivers.event("e3")))
    assert receivers.of("new") == ["e3"]


async def test_event_is_sent_whole_and_logged(receivers: Receivers) -> None:
    await receivers.listens("one")
    await receivers.dispatch(receivers.event(data={"play_id": "p"}, trace_id="a" * 32))
    [request] = receivers.requests
    assert (request.id, request.tenant_id, request.secrets) == ("e1", TENANT, [])
    assert abs(request.unix_seconds - receivers.database.clock.now()) < HANG_SECONDS
    assert request.body["data"] == {"play_id": "p"} and request.body["trace_id"] == "a" * 32
    assert receivers.traces == ["a" * 32], "an attempt is in the trace of its event"
    [row] = await receivers.log()
    stored: dict[str, Any] = {"integration_id": "one", "event_id": "e1", "event_type": "prize_won", "attempts": 1}
    stored |= {"status": "delivered", "http_status": 200, "error": "", "answer": "fine", "wait": None}
    assert stored.items() <= row.items()
    assert row["event"] == request.body and row["delivery_id"].startswith("delivery_")
    assert 0 <= row["duration_ms"] < HANG_SECONDS * 1000


async def say(request: DeliveryRequest) -> Outcome:
    await asyncio.sleep(0.05)  # sleeps: so that it takes a time
    return Delivered()


SLOW: Final = say

ENDS: Final[dict[str, tuple[Said, int, tuple[Any, ...]]]] = {
    # What a receiver says after so many attempts: status, attempts, HTTP status, and how the error begins.
    "it is a stub": (Stubbed(), 0, ("stubbed", 1, 0, "")),
    "it fails": (Failed("no", 503), 0, ("retry", 1, 503, "no")),
    "it fails for good": (Failed("gone", 410, final=True), 0, ("dead", 1, 410, "gone")),
    "it fails once more": (Failed("no"), len(SCHEDULE_SECONDS) - 1, ("retry", len(SCHEDULE_SECONDS), 0, "no")),
    "it fails a last time": (Failed("no"), len(SCHEDULE_SECONDS), ("dead", len(SCHEDULE_SECONDS) + 1, 0, "no")),
    "it has a bug": (KeyError("secret words"), 0, ("retry", 1, 0, "the provider failed: KeyError")),
    "it says what cannot be kept": (Failed("a\0b\ud800" + "c" * 5000, answer="\0\udcff"), 0, ("retry", 1, 0, "ab?ccc")),
}


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("tombola_integration_deliveries_total", {"outcome": outcome}) or 0.0


@pytest.mark.parametrize("how", ENDS)
async def test_attempt_is_logged_with_its_outcome(receivers: Receivers, how: str) -> None:
    said, attempts, ended = ENDS[how]
    await receivers.listens("one")
    receivers.says["one"] = said
    row = await receivers.listener()
    outcome = "stubbed" if ended[0] == "stubbed" else "failed"
    before = counted(outcome)
    note = await receivers.dispatcher.try_once(receivers.event(), row, attempts, again=True)
    assert counted(outcome) == before + 1
    await receivers.dispatcher.log.wait_until_written()
    [entry] = await receivers.log()
    found = (entry["status"], entry["attempts"], entry["http_status"])
    assert found == ended[:3] == (note.status, note.attempts, note.http_status)
    assert entry["error"].startswith(ended[3]) and len(entry["error"]) <= ERROR_CHARACTERS_MAX
    assert (entry["wait"] is None) == (ended[0] != "retry")


async def test_single_attempt_is_not_retried_and_close_waits_for_it(receivers: Receivers) -> None:
    await receivers.listens("one")
    receivers.says["one"] = Failed("no")
    row = await receivers.listener()
    for nth in range(FAILURES_TO_OPEN + 1):
        assert (await receivers.dispatcher.try_once(receivers.event(f"e{nth}"), row)).status == "dead"
    # What staff try says nothing of how the receiver is: it is told as before.
    receivers.says["one"] = SLOW
    last = receivers.dispatcher.try_once(receivers.event("last"), row)
    await receivers.dispatcher.close()
    assert not receivers.dispatcher._tasks
    assert last.done() and (await last).status == "delivered" and (await last).duration_ms >= 40
    [entry] = [one for one in await receivers.log() if one["event_id"] == "last"]
    assert (entry["status"], entry["duration_ms"]) == ("delivered", (await last).duration_ms)


async def test_retry_after_is_kept(receivers: Receivers) -> None:
    await receivers.listens("one")
    receivers.says["one"] = Failed("no", 429, retry_after_seconds=1000)
    await receivers.dispatch(receivers.event())
    [entry] = await receivers.log()
    assert 1000 - HANG_SECONDS < entry["wait"] <= 1000


async def test_attempt_without_provider_or_readable_secret_fails(receivers: Receivers) -> None:
    await receivers.listens("one")
    await receivers.listens("two")
    await receivers.database.execute("UPDATE integrations SET type = 'none' WHERE integration_id = 'one'")
    bad = {"url": "two"}
    bad |= {"secret": vault_of(receivers.dispatcher._keyring.code).seal_secret("s" * 16, "of another")}
    await receivers.database.execute("UPDATE integrations SET config = $1 WHERE integration_id = 'two'", bad)
    await receivers.dispatch(receivers.event())
    one, two = await receivers.log()
    assert one["error"] == "no provider is registered for 'none'" and one["status"] == "retry"
    assert two["error"].startswith("the secret cannot be decrypted:") and two["status"] == "retry"
    assert receivers.got == []


async def test_late_event_goes_to_integrations_without_a_delivery_and_is_logged(receivers: Receivers) -> None:
    for name in ("one", "two"):
        await receivers.listens(name)
    await receivers.dispatch(receivers.event())
    await receivers.database.execute("DELETE FROM integration_deliveries WHERE integration_id = 'two'")
    for nth, events in enumerate((["one", "two", "two"], ["one", "two", "two"])):
        await receivers.dispatcher.dispatch_all([receivers.event(ago=OLD_SECONDS + 1)])
        assert sorted(name for name, _ in receivers.got) == events, nth
        assert [row["integration_id"] for row in await receivers.log()] == ["one", "two"]
    # One that is not late is told without a look.
    await receivers.dispatch(receivers.event(ago=OLD_SECONDS - 5))
    assert sorted(name for name, _ in receivers.got) == ["one", "one", "two", "two", "two"]


async def test_late_event_that_is_not_logged_fails(receivers: Receivers) -> None:
    await receivers.listens("one")
    await receivers.database.execute("ALTER TABLE integration_deliveries ADD CHECK (event_id <> 'e1')")
    assert await receivers.dispatcher.dispatch_all([receivers.event(ago=OLD_SECONDS + 1)]) == {"e1"}
    assert receivers.of("one") == ["e1"] and receivers.dispatcher.log.lost.total() == 1
    assert await receivers.dispatcher.dispatch_all([receivers.event("e2", ago=OLD_SECONDS + 1)]) == set()
    await receivers.dispatch(receivers.event())
    assert receivers.dispatcher.log.lost.total() == 2, "the event that is not late is not repeated: its row is found"


async def test_unreachable_tenant_delays_only_its_own_events(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await receivers.listens("one")
    route = receivers.database.route

    def routed(tenant_id: str) -> Any:
        if tenant_id == "moving":
            raise StoreUnavailable("it is being moved", sent=False)
        return route(tenant_id)

    monkeypatch.setattr(receivers.database, "route", routed)
    events = [receivers.event(), receivers.event("e2", tenant_id="moving"), receivers.event("e3")]
    assert await receivers.dispatcher.dispatch_all(events) == {"e2"}
    assert sorted(receivers.of("one")) == ["e1", "e3"]


async def test_missing_event_goes_to_integrations_that_listened_then(receivers: Receivers) -> None:
    for name, ago in (("early", 60), ("late", 10)):
        await receivers.listens(name, ago=ago)
    query = "SELECT extract(epoch FROM active_since)::float8 FROM integrations WHERE integration_id = 'late'"
    heard = await receivers.database.fetchval(query)
    await receivers.dispatcher.dispatch_missing(
        TENANT, [PastEvent(receivers.event(), heard - 0.001), PastEvent(receivers.event("e2"), heard)]
    )
    assert sorted(receivers.got) == [("early", "e1"), ("early", "e2"), ("late", "e2")]
    await receivers.dispatcher.log.wait_until_written()
    await receivers.dispatcher.dispatch_missing(
        TENANT, [PastEvent(receivers.event(), heard), PastEvent(receivers.event("e2"), heard)]
    )
    assert sorted(receivers.got[3:]) == [("late", "e1")]


async def test_missing_event_under_way_is_sent_once(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    await receivers.listens("one")
    go = receivers.hold(Delivered())
    tasks = await receivers.dispatcher.dispatch(receivers.event())
    await until(lambda: _came(receivers, 1))
    looked, missing_of = asyncio.Event(), receivers.dispatcher._missing

    async def looks(*asked: Any) -> Any:
        found = await missing_of(*asked)
        looked.set()
        return found

    monkeypatch.setattr(receivers.dispatcher, "_missing", looks)
    of_now = [PastEvent(receivers.event(), time.time())]
    missing = asyncio.ensure_future(receivers.dispatcher.dispatch_missing(TENANT, of_now))
    due = {"event_id": "e1", "event_type": "prize_won", "attempts": 1, "event": dict(receivers.requests[0].body)}
    receivers.dispatcher._try_again(TENANT, await receivers.listener(), due)
    assert await receivers.dispatcher.dispatch(receivers.event()) == tasks
    await looked.wait()
    await asyncio.sleep(0)
    assert not missing.done()
    go.set()
    await missing
    assert [await task for task in tasks] == [True] and receivers.got == [("one", "e1")]
    # Once that has ended, it may be told again.
    await receivers.dispatcher.log.wait_until_written()
    await receivers.database.execute("DELETE FROM integration_deliveries")
    await receivers.dispatcher.dispatch_missing(TENANT, of_now)
    assert receivers.got == [("one", "e1")] * 2


async def _came(receivers: Receivers, many: int) -> bool:
    return len(receivers.got) >= many


async def due(receivers: Receivers) -> None:
    await receivers.database.execute("UPDATE integration_deliveries SET next_attempt_at = now() WHERE status = 'retry'")


async def test_breaker_opens_after_failures_and_lets_one_attempt_through(receivers: Receivers) -> None:
    await receivers.listens("one")
    receivers.says["one"] = Failed("no")
    for nth in range(FAILURES_TO_OPEN):
        await receivers.dispatch(receivers.event(f"e{nth}"))
    assert len(receivers.got) == FAILURES_TO_OPEN
    before = counted("skipped")
    [skipped] = await receivers.dispatcher.dispatch(receivers.event("skipped"))
    assert await skipped is False and counted("skipped") == before + 1
    await receivers.dispatcher.log.wait_until_written()
    stored = {row["event_id"]: row for row in await receivers.log()}["skipped"]
    assert (stored["status"], stored["attempts"], stored["error"]) == ("retry", 0, dispatching.BREAKER_OPEN)
    await due(receivers)
    await receivers.dispatcher.retry_due()
    assert await _ended(receivers) == 0 and len(receivers.got) == FAILURES_TO_OPEN, "it is left alone"
    breaker = receivers.dispatcher._isolation(TENANT, "one").breaker
    assert time.monotonic() < breaker._open_until <= time.monotonic() + OPEN_SECONDS
    breaker._open_until = 0.0  # As it is when that time has come.
    await receivers.dispatcher.retry_due()
    assert await _ended(receivers) == 1 and len(receivers.got) == FAILURES_TO_OPEN + 1, "one tries it"
    await receivers.dispatcher.log.wait_until_written()
    receivers.says.clear()
    breaker._open_until = 0.0
    await due(receivers)
    for tried in (1, FAILURES_TO_OPEN):
        await receivers.dispatcher.retry_due()
        assert await _ended(receivers) == tried
    await receivers.dispatcher.log.wait_until_written()
    assert {row["status"] for row in await receivers.log()} == {"delivered"}
    # The first five, the one that tried it, and all six in the end.
    assert sum(row["attempts"] for row in await receivers.log()) == FAILURES_TO_OPEN + 1 + FAILURES_TO_OPEN + 1


async def _ended(receivers: Receivers) -> int:
    tasks = list(receivers.dispatcher._tasks)
    await asyncio.gather(*tasks)
    return len(tasks)


async def test_retries_are_limited_to_the_places(receivers: Receivers) -> None:
    await receivers.listens("one")
    receivers.says["one"] = Failed("no", final=False)
    await receivers.dispatch(*(receivers.event(f"e{nth:02}") for nth in range(PLACES + 4)))
    await receivers.database.execute("UPDATE integration_deliveries SET status = 'retry'")
    receivers.dispatcher._isolations.clear()
    receivers.got.clear()
    receivers.says.clear()
    await due(receivers)
    await receivers.dispatcher.retry_due()
    assert await _ended(receivers) == PLACES == len(receivers.got)
    await receivers.dispatcher.log.wait_until_written()
    await receivers.dispatcher.retry_due()
    assert await _ended(receivers) == 4


async def test_event_that_cannot_be_read_is_dead_with_the_reason(receivers: Receivers) -> None:
    await receivers.listens("one")
    receivers.says["one"] = Failed("no")
    await receivers.dispatch(receivers.event())
    await receivers.database.execute("UPDATE integration_deliveries SET event = '{\"id\": 7}'")
    await due(receivers)
    await receivers.dispatcher.retry_due()
    await receivers.dispatcher.log.wait_until_written()
    [entry] = await receivers.log()
    assert (entry["status"], entry["attempts"], entry["event"]) == ("dead", 1, {"id": 7})
    assert entry["error"].startswith("the stored event cannot be read: ") and receivers.got == [("one", "e1")]


async def test_retry_ends_if_unsubscribed_or_too_old(receivers: Receivers) -> None:
    for name in ("one", "two"):
        await receivers.listens(name, ago=4000)
        receivers.says[name] = Failed("no")
    await receivers.dispatch(receivers.event(), receivers.event("e2"))
    await receivers.database.execute("UPDATE integrations SET campaign_id = 'other'")
    await due(receivers)
    long_due = "UPDATE integration_deliveries SET created_at = $1, next_attempt_at = $1 WHERE event_id = 'e2'"
    await receivers.database.execute(long_due, datetime.now(UTC) - timedelta(days=2))
    for _ in range(FAILURES_TO_OPEN):
        receivers.dispatcher._isolation(TENANT, "one").breaker.record(True, 0)  # One attempt is admitted by now.
    await receivers.dispatcher.retry_due()
    await receivers.dispatcher.log.wait_until_written()
    statuses = {(row["integration_id"], row["event_id"]): row["status"] for row in await receivers.log()}
    assert [statuses.pop(("one", "e2")), {*statuses.values()}, len(receivers.got)] == ["dead", {"skipped"}, 4]


async def test_event_without_a_message_is_not_logged_and_its_retry_ends(receivers: Receivers) -> None:
    await receivers.listens("one")
    await receivers.database.execute("UPDATE integrations SET type = 'email'")
    receivers.dispatcher.log.record(await receivers.listener(), receivers.event("e2"), "retry", 0, Failed("no"))
    await receivers.dispatch(receivers.event())
    await due(receivers)
    await receivers.dispatcher.retry_due()
    await receivers.dispatcher.close()
    assert [(row["event_id"], row["status"]) for row in await receivers.log()] == [("e2", "skipped")]


async def test_close_waits_until_the_log_is_written(receivers: Receivers, rival: asyncpg.Connection) -> None:
    await receivers.listens("one")
    receivers.says["one"], row = SLOW, await receivers.listener()
    [task] = await receivers.dispatcher.dispatch(receivers.event())
    async with rival.transaction():
        await rival.execute("SELECT FROM integrations FOR UPDATE")
        closing = await blocked(receivers.database, receivers.dispatcher.close())
        receivers.dispatcher.log.record(row, receivers.event(tenant_id="another"), "dead", 1, Failed("no"))
        await receivers.dispatcher.log.wait_until_written("another")
        assert task.done() and not closing.done()
    await closing
    assert [row["status"] for row in await receivers.log()] == ["delivered"] and not receivers.dispatcher._tasks


@pytest.mark.parametrize("places", ["PLACES", "TENANT_PLACES"])
async def test_event_without_a_place_is_retried(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    for name, value in ((places, 1), ("QUEUE_MAX", 1), ("WAIT_SECONDS", 0.05)):
        monkeypatch.setattr(dispatching, name, value)
    await receivers.listens("one")
    go = receivers.hold(Delivered())
    tasks = [task for nth in range(3) for task in await receivers.dispatcher.dispatch(receivers.event(f"e{nth}"))]
    assert await tasks[1] is False and await tasks[2] is False
    go.set()
    assert await tasks[0] is True
    await receivers.dispatcher.log.wait_until_written()
    errors = {row["event_id"]: row["error"] for row in await receivers.log()}
    assert errors == {"e0": "", "e1": dispatching.TIMED_OUT, "e2": dispatching.QUEUE_FULL}
    session: Any = receivers.dispatcher._connector.session
    assert session.connector.limit_per_host == 0, "tenants with the same host take no place from each other"


async def test_event_behind_an_opened_breaker_is_skipped(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACES", "FAILURES_TO_OPEN"):
        monkeypatch.setattr(dispatching, name, 1)
    await receivers.listens("one")
    go = receivers.hold(Failed("no"))
    tasks = [task for nth in range(2) for task in await receivers.dispatcher.dispatch(receivers.event(f"e{nth}"))]
    go.set()
    assert await asyncio.gather(*tasks) == [True, False]
    await receivers.dispatcher.log.wait_until_written()
    errors = {row["event_id"]: row["error"] for row in await receivers.log()}
    assert errors == {"e0": "no", "e1": dispatching.BREAKER_OPEN}
    isolation = receivers.dispatcher._isolation(TENANT, "one")
    isolation.breaker = dispatching.CircuitBreaker(failures_to_open=1, open_seconds=1)
    assert await asyncio.gather(*await receivers.dispatcher.dispatch(receivers.event("e2"))) == [True], (
        "the one place is free"
    )


async def test_log_entries_beyond_one_statement_are_all_kept(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "ENTRIES_MAX", 3)
    await receivers.listens("one")
    await receivers.dispatch(*(receivers.event(f"e{nth}") for nth in range(8)))
    assert len(await receivers.log()) == 8 and not receivers.dispatcher.log.lost


async def test_delivery_log_retries_after_lost_connections(receivers: Receivers, rival: asyncpg.Connection) -> None:
    await receivers.listens("one")
    ended: list[int] = []
    async with rival.transaction():
        await rival.execute("LOCK TABLE integration_deliveries IN SHARE MODE")
        writing = await blocked(receivers.database, receivers.dispatch(receivers.event()))
        while len(ended) < 2 and not writing.done():
            ended += [row["pid"] for row in await receivers.database.fetch(END_WAITING, ended)]
    await writing
    assert [row["status"] for row in await receivers.log()] == ["delivered"] and not receivers.dispatcher.log.lost


async def test_log_entries_over_the_memory_limit_count_as_lost(
    receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "ENTRIES_MAX", 1)
    await receivers.listens("one")
    row = await receivers.listener()
    for nth in range(12):
        receivers.dispatcher.log.record(row, receivers.event(f"e{nth:02}"), "dead", 1, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert [one["event_id"] for one in await receivers.log()] == [f"e{nth:02}" for nth in range(10)]
    assert receivers.dispatcher.log.lost.total() == 2


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
    assert not receivers.dispatcher.log.lost


async def test_notes_of_an_unknown_outcome_are_counted(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    monkeypatch.setattr(delivery_log, "_row", lambda entry: 1 / 0)
    for tenant, name in (("a", "e1"), ("a", "e2"), (TENANT, "e3")):
        receivers.dispatcher.log.record(row, receivers.event(name, tenant_id=tenant), "dead", 1, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert receivers.dispatcher.log.lost == {"a": 2, TENANT: 1} and await receivers.log() == []


async def test_note_of_an_event_is_replaced_by_a_newer(receivers: Receivers) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    for attempts in (1, 2):
        receivers.dispatcher.log.record(row, receivers.event(), "dead", attempts, Failed("no"))
    await receivers.dispatcher.log.wait_until_written()
    assert [one["attempts"] for one in await receivers.log()] == [2]


async def test_entry_that_cannot_be_stored_drops_no_other(receivers: Receivers) -> None:
    await receivers.listens("one")
    row = await receivers.listener()
    for name, status in (("e1", 200), ("e2", 2**40), ("e3", 200)):
        receivers.dispatcher.log.record(row, receivers.event(name), "delivered", 1, Delivered(http_status=status))
    await receivers.dispatcher.log.wait_until_written()
    assert [one["event_id"] for one in await receivers.log()] == ["e1", "e3"]


async def test_log_is_pruned_at_every_hundredth_note(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_log, "LOG_KEPT", 10)
    await receivers.listens("one")
    for first, beyond, left in ((0, 99, 99), (99, 100, 11), (100, 199, 110), (199, 200, 11)):
        await receivers.dispatch(*(receivers.event(f"e{nth:03}") for nth in range(first, beyond)))
        await receivers.database.execute("UPDATE integration_deliveries SET created_at = now() - interval '1 hour'")
        assert len(await receivers.log()) == left, beyond
    await receivers.database.execute("ALTER TABLE event_marks RENAME TO away")
    await receivers.dispatch(*(receivers.event(f"e{nth}") for nth in range(200, 300)))
    assert len(await receivers.log()) == 111 and not receivers.dispatcher.log.lost, "a failed pruning loses nothing"
