"""Refusals and probes in a flood: bounded entries, and one query for each store."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime.http.login import staff
from runtime.http.operational import mount_health
from runtime.http.serving import make_app
from runtime.operations import audit
from tests.support.login import bearer
from tests.support.stack import Answer, Stack

PATHS = ("/admin/games", "/admin/prizes", "/admin/audit", "/admin/tenants", "/admin/me")


async def try_all(stack: Stack, *subjects: str, times: int = 1, roles: tuple[str, ...] = ()) -> None:
    requests = []
    for subject in subjects:
        token = bearer(stack.token(subject, roles))
        requests += [stack.admin("GET", path, roles=(), headers=token) for path in PATHS for _ in range(times)]
    answers: list[Answer] = await asyncio.gather(*requests)
    assert {answer.reason for answer in answers} == {"ROLE_REQUIRED"}


async def recorded(stack: Stack, actor: str = "%") -> int:
    count = "SELECT count(*) FROM audit_entries WHERE action = 'staff.refuse' AND actor LIKE $1"
    return int(await stack.database.fetchval(count, actor))


def counted(whether: str) -> float:
    return float(staff.REFUSALS.labels(whether)._value.get())


async def test_repeated_refusals_are_recorded_a_few_times_and_counted_each_time(stack: Stack) -> None:
    before = {whether: counted(whether) for whether in ("yes", "no")}
    await try_all(stack, "player_eve", times=20)
    few = await recorded(stack)
    assert len(PATHS) <= few < 20
    assert counted("yes") - before["yes"] == few
    assert counted("no") - before["no"] == 20 * len(PATHS) - few


async def test_player_refusals_do_not_fill_the_log_or_hide_staff_refusals(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "REFUSALS", audit.REFUSALS._replace(at_once=7, every_seconds=3600.0))
    await try_all(stack, *(f"player_{nth}" for nth in range(20)))
    assert await recorded(stack) == 7
    await try_all(stack, "mallory", roles=("viewer",))
    assert await recorded(stack, "mallory") == len(PATHS)


async def test_refusal_bound_holds_across_edges(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is kept in the database, because an edge's memory ends with its process."""
    monkeypatch.setattr(audit, "REFUSALS", audit.REFUSALS._replace(at_once=7, every_seconds=3600.0))
    body = {"route": "GET /admin/games", "reason": "ROLE_REQUIRED"}
    answers = await asyncio.gather(
        *(stack.core("POST", "/audit/refusals", {**body, "subject": f"player_{nth}"}) for nth in range(40))
    )
    assert sum(answer.data["recorded"] for answer in answers) == await recorded(stack) == 7


async def test_concurrent_readiness_probes_query_each_store_once() -> None:
    answering = asyncio.Event()
    requests: list[str] = []

    async def database() -> bool:
        requests.append("database")
        await answering.wait()
        return True

    async def redis() -> bool:
        requests.append("redis")
        return len(requests) > 2

    app = make_app()
    mount_health(app, {"database": database, "redis": redis})
    handler = next(route.handler for route in app.router.routes() if str(route.resource).endswith("/readyz>"))
    waiting = [asyncio.ensure_future(handler(make_mocked_request("GET", "/readyz"))) for _ in range(100)]
    while not requests:
        await asyncio.sleep(0)
    answering.set()
    answers = await asyncio.gather(*waiting)
    assert requests == ["database", "redis"]
    assert {answer.status for answer in answers} == {503}
    assert (await handler(make_mocked_request("GET", "/readyz"))).status == 200
    assert requests == ["database", "redis"] * 2
