"""Core's REST: every operation of the table, 1:1 with its RPC (spec.md, "Surfaces").

The body is the RPC's message; on GET and DELETE its fields are query parameters (`scope.tenant_id`,
`player_id`, `limit` ...). Both may be in any form that proto3's JSON mapping allows. Core authenticates nobody: keep it
private. `runtime.http.core_guard` says what may come in.
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from runtime.core import Caller
from runtime.errors import invalid
from runtime.http import codes
from runtime.http.admission.idempotency import idempotency_key, replay_headers
from runtime.http.bodies import read_body
from runtime.http.core_guard import Door
from runtime.http.envelope import ok
from runtime.operations import API, OPERATIONS, Operation
from runtime.wire import codec, proto_json
from runtime.wire.schema import Found, fields_of, refused

PREFIXES: Final = (API, f"{API}/admin")
"""The edges' `/admin` is optional here: a path of either edge is a path of Core (contract.md, "Core paths")."""


def mount(app: web.Application, caller: Caller, door: Door) -> None:
    """Adds every operation's routes, behind the door."""
    for operation in OPERATIONS:
        streamed = codes.import_handler(operation, caller, codes.core_scope) if operation.streamed else None
        handler = door.guard(streamed or CoreRoute(operation, caller).serve)
        for prefix in PREFIXES:
            app.router.add_route(operation.verb, prefix + operation.path, handler)


class CoreRoute:
    """An operation as Core's REST answers it."""

    def __init__(self, operation: Operation, caller: Caller) -> None:
        self._operation, self._caller = operation, caller
        self._show = codec.view(operation.reply, "quoted")

    async def serve(self, request: web.Request) -> web.Response:
        message = await read_message(self._operation, request)
        reply = await self._caller.call(self._operation, message)
        return ok(self._show(reply), headers=replay_headers())


async def read_message(operation: Operation, request: web.Request) -> Any:
    """The operation's message, from the body or the query. Raises INVALID_ARGUMENT."""
    if operation.verb == "GET" or (operation.verb == "DELETE" and not request.can_read_body):
        query = proto_json.rewritten_query(operation.request, request.query)
        message: Any = codec.from_query(operation.request, query)
    else:
        message = codec.decode(operation.request, await read_body(request), rewrite=proto_json.rewritten)
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
    """Sets a field that the path or a header says. Raises INVALID_ARGUMENT where the body says another thing."""
    said = getattr(message, name)
    if said and said != value:
        raise invalid(name, f"differs from {value!r}, which the request names elsewhere")
    setattr(message, name, value)
