"""Core's REST: every operation of the table, 1:1 with its RPC.

The body is the RPC's message; on GET and DELETE its fields are query parameters (`scope.tenant_id`,
`player_id`, `limit` ...). Both accept any form of the proto3 JSON mapping. Core does not authenticate callers: keep it
on a private network. `runtime.http.core_guard` checks each request.
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from runtime.core import Caller
from runtime.errors import invalid
from runtime.http import codes
from runtime.http.admission.idempotency import idempotency_key, replay_headers
from runtime.http.core_guard import CoreGuard
from runtime.http.edge import body_of
from runtime.http.envelope import ok
from runtime.operations import API, OPERATIONS, Operation
from runtime.wire import codec, proto_json
from runtime.wire.schema import Found, fields_of, refused

PREFIXES: Final = (API, f"{API}/admin")
"""The edges' `/admin` is optional here: a path of either edge is a path of Core."""


def mount(app: web.Application, caller: Caller, core_guard: CoreGuard) -> None:
    """Adds every operation's routes, behind the guard."""
    for operation in OPERATIONS:
        streamed = codes.import_handler(operation, caller, codes.core_scope) if operation.streamed else None
        handler = core_guard.wrap(streamed or CoreRoute(operation, caller).serve)
        for prefix in PREFIXES:
            app.router.add_route(operation.verb, prefix + operation.path, handler)


class CoreRoute:
    """Serves one operation over Core's REST."""

    def __init__(self, operation: Operation, caller: Caller) -> None:
        self._operation, self._caller = operation, caller
        self._show = codec.view(operation.reply, "quoted")

    async def serve(self, request: web.Request) -> web.Response:
        message = await read_message(self._operation, request)
        reply = await self._caller.call(self._operation, message)
        return ok(self._show(reply), headers=replay_headers())


async def read_message(operation: Operation, request: web.Request) -> Any:
    """Reads the operation's message from the body or the query. Raises INVALID_ARGUMENT."""
    if operation.verb == "GET" or (operation.verb == "DELETE" and not request.can_read_body):
        query = proto_json.rewritten_query(operation.request, request.query)
        message: Any = codec.from_query(operation.request, query)
    else:
        message = codec.decode(operation.request, await body_of(request, operation), rewrite=proto_json.rewritten)
        if message.scope is None:
            found: Found = []
            message.scope = codec.scope_from_query(request.query, found)
            if found:
                raise refused(found)
    for name, value in request.match_info.items():
        fill(message, name, codec.path_text(name, value))
    key = idempotency_key(request)
    if key and "idempotency_key" in fields_of(operation.request):
        fill(message, "idempotency_key", key)
    return message


def fill(message: Any, name: str, value: str) -> None:
    """Sets a field from the path or a header. Raises INVALID_ARGUMENT if the body has a different value."""
    in_body = getattr(message, name)
    if in_body and in_body != value:
        raise invalid(name, f"must equal {value!r}, the value in the path or header")
    setattr(message, name, value)
