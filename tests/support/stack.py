"""A whole Tombola in the test's process, on real servers, and ways to ask it."""

import ipaddress
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp
import pytest

import sql
from runtime.actors import starts
from runtime.actors.engine import Engine
from runtime.app import Running, running
from runtime.operations import API
from runtime.operations.budget_alerts import thresholds
from runtime.operations.campaigns import analytics
from runtime.operations.log import appending
from runtime.operations.reporting import views
from runtime.settings import Key, Settings
from runtime.stores.database import Database

TENANT = "tenant_test"
OTHER_TENANT = "tenant_other"
BROWSER = {"User-Agent": "Mozilla/5.0"}
"""For page views: those by programs are not counted."""
ROLES = ("core", "rpc", "consumer", "admin")
KEYS = (Key("1", secrets.token_bytes(32)),)
"""Of sessions and codes, of every process of these tests: several may share a database."""

PATIENT: Final[Mapping[str, float]] = {
    "database_acquire_timeout_seconds": 30.0,
    "database_statement_timeout_seconds": 30.0,
    "answer_timeout_seconds": 60.0,
    "redis_timeout_seconds": 5.0,
}
"""How long the stores may take: longer than a busy machine needs, so that a test that is not about a store that is
away never meets one."""

AS_SHIPPED: Final[Mapping[str, float]] = {name: getattr(Settings(), name) for name in PATIENT}
"""The same as an operator has them: for a test of what becomes of requests while a store is away."""

TO_LOOPBACK: Final[Mapping[str, Any]] = {
    "outbound_allow_cidrs": (ipaddress.ip_network("127.0.0.0/8"),),
    "stream_shards": 1,
}
"""For a stack that delivers to a receiver of the test's (tests.support.receiver), by one stream."""


@dataclass(frozen=True)
class Answer:
    http: int
    headers: Any
    envelope: dict[str, Any]

    @property
    def data(self) -> Any:
        assert self.envelope["code"] == "OK", self.envelope
        return self.envelope["data"]

    @property
    def code(self) -> str:
        return str(self.envelope["code"])

    @property
    def reason(self) -> str:
        return str(self.envelope["data"].get("reason", ""))


@dataclass(frozen=True)
class Stack:
    """The running process and ways to ask it.

    core(), consumer() and admin() send `(verb, path under /api/v1, JSON body)`; Core's add the scope.
    merchant_id: whose staff asks the admin edge and Core; empty where it is the tenant's.
    """

    process: Running
    http: aiohttp.ClientSession
    tenant_id: str = TENANT
    merchant_id: str = ""

    @property
    def engine(self) -> Engine:
        return self.process.engine

    @property
    def database(self) -> Database:
        return self.engine.database.of(self.tenant_id)

    @property
    def database_url(self) -> str:
        settings = self.process.settings
        return dict(settings.databases).get(self.database.name, settings.database_url)

    async def core(
        self,
        verb: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        scope = {"tenant_id": self.tenant_id, **({"merchant_id": self.merchant_id} if self.merchant_id else {})}
        if verb in ("GET", "DELETE"):
            named = {f"scope.{name}": value for name, value in scope.items()}
            return await self._ask(self.process.core_url, verb, path, None, {**named, **query}, headers)
        return await self._ask(self.process.core_url, verb, path, {"scope": scope, **(body or {})}, query, headers)

    async def consumer(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        player: str = "",
        key: str = "",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        sent = {"X-Tenant-Id": self.tenant_id, **self._bearer(player, ()), **_keyed(key), **(headers or {})}
        return await self._ask(self.process.consumer_url, verb, path, body, query, sent)

    async def admin(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        roles: tuple[str, ...] = ("admin",),
        key: str = "",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Asks the admin edge, with a token of these roles; without roles, as nobody."""
        sent = {**self._bearer("staff_test" if roles else "", roles), **_keyed(key), **(headers or {})}
        return await self._ask(self.process.admin_url, verb, path, body, query, sent)

    async def upload(
        self, path: str, body: Any, kind: str = "", *, role: str = "admin", headers: Any = None, **query: Any
    ) -> Answer:
        """Posts a body of this media type to the admin edge; without a role, as nobody."""
        sent = {**self._bearer(role and "staff_test", (role,)), "Content-Type": kind or "application/octet-stream"}
        url, sent = self.process.admin_url + API + path, {**sent, **(headers or {})}
        async with self.http.post(url, data=body, params=query or None, headers=sent) as answer:
            return Answer(answer.status, answer.headers, await answer.json())

    def token(
        self, sub: str, roles: tuple[str, ...] = (), tenant_id: str = "", seconds: int = 600, ahead_seconds: float = 0
    ) -> str:
        """A token of a clock that is `ahead_seconds` ahead of the edges'."""
        from tests.support.clocks import SteadyTokens

        tokens = SteadyTokens.of(self.process.settings)
        tokens.ahead_seconds = ahead_seconds
        merchant_id = self.merchant_id if roles else ""
        return tokens.mint(
            sub, tenant_id=tenant_id or self.tenant_id, seconds=seconds, merchant_id=merchant_id, roles=roles
        )

    def _bearer(self, sub: str, roles: tuple[str, ...]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(sub, roles)}"} if sub else {}

    async def _ask(
        self, base: str, verb: str, path: str, body: Any, query: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Answer:
        url = base + API + path
        async with self.http.request(verb, url, json=body, params=query or None, headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.json())


def settings_of(database_url: str, redis_url: str, **own: Any) -> Settings:
    """Settings of a process of every role on free ports; `own` in place of them."""
    values: dict[str, Any] = {
        "database_url": database_url,
        "redis_url": redis_url,
        **dict.fromkeys(("server_keys", "code_keys"), KEYS),
        **{name: secrets.token_hex(32) for name in ("jwt_secret", "jwt_staff_secret")},
        **{f"{name}_port": 0 for name in ("core", "consumer", "admin", "rpc", "metrics")},
        "development": True,
        "rate_limits": False,
        "log_sample": 0.0,
        "drain_seconds": 10.0,
        "short_path": os.environ.get("SHORT_PATH") != "off",
        **PATIENT,
    }
    return Settings(**{**values, **own})


@asynccontextmanager
async def new_stack(settings: Settings, *, counting_seconds: float = 86400.0, place: int = 0) -> AsyncIterator[Stack]:
    """A running process of every role, with two tenants.

    place: the number of the database that they live in, 0 is home.
    counting_seconds: how often it counts plays in the background. Never in a test's time: tests compare what the
    tables hold, and count when they are about counting.
    """
    async with AsyncExitStack() as parts:
        with pytest.MonkeyPatch.context() as pace:
            pace.setattr(analytics, "EVERY_SECONDS", counting_seconds)
            pace.setattr(starts, "EVERY_SECONDS", counting_seconds)
            pace.setattr(views, "EVERY_SECONDS", counting_seconds)
            pace.setattr(appending, "EVERY_SECONDS", counting_seconds)
            pace.setattr(thresholds, "EVERY_SECONDS", 3600.0)  # Tests look themselves, and hear what is told then.
            process = await parts.enter_async_context(running(settings, ROLES))
        stack = Stack(process, await parts.enter_async_context(aiohttp.ClientSession()))
        database = process.engine.database.parts[place]
        yield await make_tenant(await make_tenant(stack, OTHER_TENANT, database), TENANT, database)


async def make_tenant(stack: Stack, tenant_id: str, place: Database | None = None) -> Stack:
    """The stack as a new tenant sees it, who lives in `place`; default: home."""
    home, *others = stack.engine.database.parts
    place = place or home
    change = "INSERT INTO tenants (tenant_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    await place.execute(change, tenant_id, tenant_id)
    if others:
        await home.execute(sql.load("directory")["place"], tenant_id, place.name)
        stack.engine.database.place(tenant_id, place.name)
    return replace(stack, tenant_id=tenant_id)


def _keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


def fields_of(answer: Answer) -> list[str]:
    assert answer.code == "INVALID_ARGUMENT", answer.envelope
    return [row["field"] for row in answer.envelope["data"]["violations"]]


def refused(answer: Answer) -> tuple[int, str, str]:
    """What a refusal says: (HTTP status, code, reason)."""
    return answer.http, answer.code, answer.reason
