"""The operational endpoints of a process: liveness, readiness and metrics.

They are at the root, without /api/v1. Readiness checks all stores concurrently with a time limit, so it responds within
a second if a store fails and within two if it hangs.
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

    Concurrent requests share one check: on an edge the endpoint is public, and must not flood the stores.
    """
    checking = SingleFlight()

    async def healthz(request: web.Request) -> web.Response:
        return ok({"status": "alive"})

    async def check_all() -> list[bool]:
        return await asyncio.gather(*(check() for check in checks.values()))

    async def readyz(request: web.Request) -> web.Response:
        passed = await checking.share("stores", check_all)
        failed = [name for name, healthy in zip(checks, passed, strict=True) if not healthy]
        if not failed:
            return ok({"status": "ready", "checks": list(checks)})
        fault = Fault(
            Status.UNAVAILABLE,
            "NOT_READY",
            f"no response from {', '.join(failed)}",
            retry_after_seconds=1,
            failed_checks=failed,
        )
        return refusal(fault, headers={"X-Failed-Check": ",".join(failed)})

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)


def mount_metrics(app: web.Application) -> None:
    """Adds /metrics in Prometheus's text format. Never on an edge: metrics are not public."""

    headers = {
        "Content-Type": CONTENT_TYPE_LATEST,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers=headers)

    app.router.add_get("/metrics", metrics)
