"""Anybody may ask an edge whether it is ready: that costs the stores one question at a time, however many ask."""

from __future__ import annotations

import asyncio

from aiohttp.test_utils import make_mocked_request

from runtime.http.operational import mount_health
from runtime.http.serving import make_app


async def test_concurrent_readiness_probes_query_each_store_once() -> None:
    answering = asyncio.Event()
    asked: list[str] = []

    async def database() -> bool:
        asked.append("database")
        await answering.wait()
        return True

    async def redis() -> bool:
        asked.append("redis")
        return len(asked) > 2

    app = make_app()
    mount_health(app, {"database": database, "redis": redis})
    handler = next(route.handler for route in app.router.routes() if str(route.resource).endswith("/readyz>"))
    waiting = [asyncio.ensure_future(handler(make_mocked_request("GET", "/readyz"))) for _ in range(100)]
    while not asked:
        await asyncio.sleep(0)
    answering.set()
    answers = await asyncio.gather(*waiting)
    assert asked == ["database", "redis"]
    assert {answer.status for answer in answers} == {503}
    # Whoever comes after that asks anew.
    assert (await handler(make_mocked_request("GET", "/readyz"))).status == 200
    assert asked == ["database", "redis"] * 2
