"""What an edge answered: requests by route and status, their time, and refusals for a rate limit by policy.

A request costs three dictionary lookups and a binary search, since it is counted on the hottest path of the product.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from runtime.errors import Fault
from runtime.metrics import Counts, Distribution, Histogram

UNROUTED: Final = "unrouted"
"""The route of requests that were answered before they reached one: unknown paths, and rate limits by address."""

REQUESTS: Final = Counts(
    "tombola_http_requests", "Requests answered, by route and status.", ["edge", "method", "route", "status"]
)
LIMITED: Final = Counts("tombola_rate_limited", "Requests answered with 429, by policy.", ["edge", "policy"])
SECONDS: Final = Histogram(
    "tombola_http_request_seconds",
    "Time from a request's head to its response, by route.",
    ["edge", "method", "route"],
)


class _Series(NamedTuple):
    """The labels (edge, method, route) of one route, and its times."""

    labels: tuple[str, str, str]
    seconds: Distribution


def _series(*labels: str) -> _Series:
    edge, method, route = labels
    return _Series((edge, method, route), SECONDS.series(edge, method, route))


class Traffic:
    """Counts one edge's requests."""

    def __init__(self, edge: str) -> None:
        self._edge = edge
        self._unrouted = _series(edge, "", UNROUTED)
        self._routes: dict[web.AbstractRoute, _Series] = {}

    def count(self, request: web.Request, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        found = request._match_info
        series = self._unrouted if found is None else self._routes.get(found._route) or self._add(found)
        REQUESTS.add(*series.labels, str(status))
        series.seconds.observe(seconds)

    def limited(self, fault: Fault) -> None:
        """Counts a refusal for a rate limit."""
        LIMITED.add(self._edge, str(fault.facts.get("policy", "other")))

    def _add(self, found: UrlMappingMatchInfo) -> _Series:
        # aiohttp makes a new route for each request to an unknown path: as a key it would be a leak.
        if found.http_exception is not None or found.route.resource is None:
            return self._unrouted
        series = self._routes[found.route] = _series(self._edge, found.route.method, found.route.resource.canonical)
        return series
