"""Receivers of events that are functions, and integrations that listen: for tests of the dispatcher and its log."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from runtime import trace
from runtime.actors.dispatcher import Dispatcher
from runtime.events import Event
from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import Delivered, DeliveryRequest, Outcome
from runtime.stores.database import Database
from tests.support.commits import TENANT
from tests.support.statements import insert

Said = Outcome | Exception | Callable[[DeliveryRequest], Awaitable[Outcome]]

LOG: Final = """
SELECT d.*, extract(epoch FROM next_attempt_at - now())::float8 AS wait FROM integration_deliveries AS d
ORDER BY integration_id, event_id
"""


class Receivers:
    """What a dispatcher sent to each integration, by event; and what each answers. All say that they have it."""

    def __init__(self, dispatcher: Dispatcher, database: Database) -> None:
        self.dispatcher = dispatcher
        self.database = database
        self.got: list[tuple[str, str]] = []
        self.requests: list[DeliveryRequest] = []
        self.traces: list[str] = []
        self.says: dict[str, Said] = {}

    async def __call__(self, _: Connector, request: DeliveryRequest) -> Outcome:
        name = str(request.config["url"])
        self.got.append((name, request.id))
        self.requests.append(request)
        self.traces.append(trace.current.get())
        said = self.says.get(name, Delivered(http_status=200, answer="fine"))
        if isinstance(said, Exception):
            raise said
        return await said(request) if callable(said) else said

    def of(self, name: str) -> list[str]:
        return [event for one, event in self.got if one == name]

    async def listens(self, name: str, *, merchant: str = "", campaign: str = "", ago: float = 60) -> None:
        heard = await self.database.fetchval("SELECT now() - make_interval(secs => $1)", ago)
        scope = {"tenant_id": TENANT, "merchant_id": merchant, "campaign_id": campaign}
        of = {"type": "plugin", "events": ["prize_won"], "config": {"url": name}, "active_since": heard}
        await insert(self.database, "integrations", **scope, integration_id=name, **of)

    def hold(self, then: Outcome) -> asyncio.Event:
        go = asyncio.Event()

        async def answer(_: DeliveryRequest) -> Outcome:
            await go.wait()
            return then

        self.says["one"] = answer
        return go

    async def listener(self) -> Any:
        return await self.database.fetchrow("SELECT *, 0.0 AS active_since FROM integrations")

    def event(self, name: str = "e1", *, ago: float = 0, **named: Any) -> Event:
        known: dict[str, Any] = {"type": "prize_won", "merchant_id": "shop", "campaign_id": "camp", "data": {}}
        at = int(self.database.clock.now() - ago)
        return Event(**{"id": name, "occurred_at": at, "tenant_id": TENANT, **known, **named})

    async def dispatch(self, *events: Event) -> None:
        await self.dispatcher.dispatch_all(events)
        await self.dispatcher.log.wait_until_written()

    async def log(self) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.database.fetch(LOG)]
