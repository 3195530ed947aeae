"""Core's door: what a request must be before Core does what it says, since it asks nobody who they are.

A page that somebody with access to Core has open can have their browser ask it anything: with a body of a type
that needs no leave (the Fetch standard's CORS-safelisted types), or under a name of its own that it has pointed
at Core (DNS rebinding). So a request names Core by an address or one of its own names, comes from no page of
another origin, and has a body of the types that are read here. And where SERVICE_TOKEN is set, it shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from runtime.errors import Fault, Status
from runtime.http.bodies import check_body
from runtime.http.envelope import Handler
from runtime.service_token import check_bearer

JSON: Final = ("application/json",)


@dataclass(frozen=True, slots=True)
class Door:
    """Who is let in. hosts: Core's names beside addresses and names without a dot. tokens: any of them opens."""

    hosts: Sequence[str] = ()
    tokens: Sequence[str] = ()

    def guard(self, handler: Handler, types: Sequence[str] = JSON) -> Handler:
        """`handler` for requests that may come in, with a body of one of these types (where it says its type)."""
        return Guarded(self, handler, types).serve


class Guarded:
    """A handler behind the door."""

    def __init__(self, door: Door, handler: Handler, types: Sequence[str]) -> None:
        self._door, self._handler, self._types = door, handler, types

    async def serve(self, request: web.Request) -> web.StreamResponse:
        check_host(request.headers.get("Host", ""), self._door.hosts)
        check_origin(request.headers)
        check_bearer(self._door.tokens, request.headers.get("Authorization", ""))
        kind = request.headers.get("Content-Type", "")
        if kind and kind.partition(";")[0].strip().lower() not in self._types:
            check_body(request, request.client_max_size)  # What is too large is told that first.
            raise Fault(
                Status.INVALID_ARGUMENT,
                "CONTENT_TYPE_UNSUPPORTED",
                f"send the body as {' or '.join(self._types)}, and say so in Content-Type",
                http_status=415,
            )
        return await self._handler(request)


def check_host(host: str, hosts: Sequence[str] = ()) -> None:
    """FORBIDDEN where a request's Host is what may be anybody's name for this process: a dotted one not in `hosts`."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").rstrip(".").lower()
    # Nobody outside can have a name without a dot, or an address, stand for us.
    if ("." not in name and ":" not in name) or name.endswith(".localhost") or name in hosts:
        return
    try:
        ip_address(name)
    except ValueError:
        raise _forbidden(f"{name[:100]!r} may be anybody's name for this: see the setting CORE_HOSTS") from None


def check_origin(headers: Mapping[str, str]) -> None:
    """FORBIDDEN for a request of a page that Core did not serve: browsers name the page's origin themselves."""
    origin = headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != headers.get("Host"):
        raise _forbidden("pages of other origins may not ask Core")


def _forbidden(message: str) -> Fault:
    return Fault(Status.PERMISSION_DENIED, "FORBIDDEN", message)
