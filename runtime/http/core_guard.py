"""Guards Core's REST against browsers and unauthorized callers, because Core does not authenticate its callers.

A web page can make a visitor's browser send requests to a Core that the visitor can reach: with a body of a
CORS-safelisted type (Fetch standard), or under the page's own name pointed at Core (DNS rebinding). So a request's Host
must be an IP address or one of Core's names, and its Origin and Sec-Fetch-Site, which browsers set, must not be
foreign. If SERVICE_TOKEN is set, the request must carry it.
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
class CoreGuard:
    """The rules. hosts: Core's names, in addition to addresses and names without a dot. tokens: any one is accepted."""

    hosts: Sequence[str] = ()
    tokens: Sequence[str] = ()

    def wrap(self, handler: Handler) -> Handler:
        """Wraps `handler` with the checks."""
        return Guarded(self, handler).serve


class Guarded:
    """A handler behind the guard."""

    def __init__(self, core_guard: CoreGuard, handler: Handler) -> None:
        self._core_guard, self._handler = core_guard, handler

    async def serve(self, request: web.Request) -> web.StreamResponse:
        check_host(request.headers.get("Host", ""), self._core_guard.hosts)
        check_origin(request.headers)
        check_bearer(self._core_guard.tokens, request.headers.get("Authorization", ""))
        return await self._handler(request)


def check_host(host: str, hosts: Sequence[str] = ()) -> None:
    """FORBIDDEN if the Host may be an attacker's name for this process: a dotted name that is not in `hosts`."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").rstrip(".").lower()
    # An attacker can point neither a name without a dot nor an IP address at this process.
    if ("." not in name and ":" not in name) or name.endswith(".localhost") or name in hosts:
        return
    try:
        ip_address(name)
    except ValueError:
        raise _forbidden(f"host {name[:100]!r} is not allowed: add it to the setting CORE_HOSTS") from None


def check_origin(headers: Mapping[str, str]) -> None:
    """FORBIDDEN for a request from a foreign page. Browsers set Origin themselves; where they omit it, Sec-Fetch-Site
    still says that the page is cross-site.
    """
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site", "none")
    foreign = origin is not None and origin.partition("://")[2] != headers.get("Host")
    if foreign or site not in ("none", "same-origin"):
        raise _forbidden("pages of other origins may not call Core")


def _forbidden(message: str) -> Fault:
    return Fault(Status.PERMISSION_DENIED, "FORBIDDEN", message)
