"""What an operator asks of a process: is it alive, is it ready, what has it counted (spec.md, "Operational endpoints").

At the root, without /api/v1. Readiness asks every store at once and each for a bounded time, so that the
answer comes within a second of a store's failure and within two of its freezing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from runtime.errors import Fault, Status
from runtime.http.envelope import ok, refusal
from runtime.stores.single_flight import SingleFlight

Check = Callable[[], Awaitable[bool]]


def mount_health(app: web.Application, checks: Mapping[str, Check]) -> None:
    """Adds /healthz and /readyz. `checks` by their name in X-Failed-Check: "database", "redis".

    Who asks while the stores are being asked shares their answer: on an edge anybody may, as often as they like.
    """
    asking = SingleFlight()

    async def healthz(request: web.Request) -> web.Response:
        return ok({"status": "alive"})

    async def ask_all() -> list[bool]:
        return await asyncio.gather(*(check() for check in checks.values()))

    async def readyz(request: web.Request) -> web.Response:
        passed = await asking.share("stores", ask_all)
        failed = [name for name, good in zip(checks, passed, strict=True) if not good]
        if not failed:
            return ok({"status": "ready", "checks": list(checks)})
        fault = Fault(
            Status.UNAVAILABLE,
            "NOT_READY",
            f"no answer from {', '.join(failed)}",
            retry_after_seconds=1,
            failed_checks=failed,
        )
        return refusal(fault, headers={"X-Failed-Check": ",".join(failed)})

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)


def mount_metrics(app: web.Application) -> None:
    """Adds /metrics in Prometheus's text format. Not on an edge: what it says is not the public's."""

    headers = {
        "Content-Type": CONTENT_TYPE_LATEST,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers=headers)

    app.router.add_get("/metrics", metrics)
