"""Core's door: what a request must be before Core does what it says, since it asks nobody who they are.

A page that somebody with access to Core has open can have their browser ask it anything: with a body of a type
that needs no leave (the Fetch standard's CORS-safelisted types), or under a name of its own that it has pointed
at Core (DNS rebinding). So a request names Core by an address or one of its own names, and comes from no page of
another origin, which browsers say by themselves. And where SERVICE_TOKEN is set, it shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web

from runtime.errors import Fault, Status
from runtime.http.envelope import Handler
from runtime.service_token import check_bearer


@dataclass(frozen=True, slots=True)
class Door:
    """Who is let in. hosts: Core's names beside addresses and names without a dot. tokens: any of them opens."""

    hosts: Sequence[str] = ()
    tokens: Sequence[str] = ()

    def guard(self, handler: Handler) -> Handler:
        """`handler` for requests that may come in."""
        return Guarded(self, handler).serve


class Guarded:
    """A handler behind the door."""

    def __init__(self, door: Door, handler: Handler) -> None:
        self._door, self._handler = door, handler

    async def serve(self, request: web.Request) -> web.StreamResponse:
        check_host(request.headers.get("Host", ""), self._door.hosts)
        check_origin(request.headers)
        check_bearer(self._door.tokens, request.headers.get("Authorization", ""))
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
    """FORBIDDEN for a request of a page that Core did not serve: browsers name the page's origin themselves, and say
    whether it is another's also where they leave the origin out.
    """
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site", "none")
    foreign = origin is not None and origin.partition("://")[2] != headers.get("Host")
    if foreign or site not in ("none", "same-origin"):
        raise _forbidden("pages of other origins may not ask Core")


def _forbidden(message: str) -> Fault:
    return Fault(Status.PERMISSION_DENIED, "FORBIDDEN", message)
