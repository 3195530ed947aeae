"""Rates that an edge process holds by itself, for every route: start and play have shared ones beside them.

They protect the process, so each process has its own, needs no store for them, and asks nobody. What they count is
an address's requests of one class of routes, the larger ones more than once, before anything is done for them, and
those of its network; a flood of one class leaves the others open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from operator import itemgetter
from typing import Final

from aiohttp import web

from runtime.http.admission.client_address import Client, note_client
from runtime.http.admission.rates import Limited, Policy
from runtime.http.bodies import ON_BODY
from runtime.http.envelope import extra_headers
from runtime.operations import API
from runtime.settings import Network

ADDRESSES_MAX: Final = 20_000
"""Buckets of one class that are remembered; beyond them the fullest quarter is forgotten."""

TIMES_PLAYS: Final = 4
"""How much more of each class an address may ask than it may start and play: pages read more than they play. For
start and play it is what keeps this from refusing what the shared rate admits: with bodies of less than so many
CHARGED_BYTES it admits more of them, however late they come to the store."""

CHARGED_BYTES: Final = 2 * 1024
"""A request is charged once more for each so many bytes of its body: decoding takes as long as a body is large."""


class RouteClass(Enum):
    """What a request is, as far as rates go. GAMEPLAY is start and play: what a player may is in control.py."""

    GAMEPLAY = "gameplay"
    READ = "read"
    WRITE = "write"
    LOGIN = "login"
    STAFF = "staff"
    CALLBACK = "callback"
    OTHER = "other"

    __hash__ = object.__hash__
    """By identity: an Enum's own is worked out in Python, for each request."""


_GAMES: Final = f"{API}/games/"
_STAFF: Final = f"{API}/admin"
_LOGIN: Final = (f"{API}/players/auth/", f"{API}/players/me/contacts")
_SIGN_IN: Final = (f"{API}/admin/auth/link", f"{API}/admin/auth/oidc")
_CALLBACK: Final = f"{API}/fulfillment/"


def route_class(method: str, path: str) -> RouteClass:
    """The class of every request there can be, on either edge, whether or not there is such a route."""
    if path.startswith(_GAMES):
        if path.endswith(("/start", "/play")):
            return RouteClass.GAMEPLAY
    elif not path.startswith(API):
        return RouteClass.OTHER  # Health, documents, and what anybody invents.
    elif path.startswith(_STAFF):
        return RouteClass.LOGIN if path.startswith(_SIGN_IN) else RouteClass.STAFF
    elif path.startswith(_LOGIN):
        return RouteClass.LOGIN
    elif path.startswith(_CALLBACK):
        return RouteClass.CALLBACK
    return RouteClass.READ if method in ("GET", "HEAD", "OPTIONS") else RouteClass.WRITE


class LocalRate:
    """GCRA in memory: a bucket for each key, of one policy."""

    def __init__(self, policy: Policy, *, keys_max: int = ADDRESSES_MAX) -> None:
        self._policy = policy
        self._interval_us, self._tolerance_us = policy.interval_us, policy.tolerance_us
        self._keys_max = keys_max
        self._tats: dict[str, int] = {}

    def take(self, key: str, times: int = 1) -> Limited | None:
        """Charges the key's bucket so many times, at most all that it holds; Limited, and nothing charged, where it
        holds less.
        """
        now = time.monotonic_ns() // 1000
        tat = self._tats.get(key, now)
        tat = (now if tat < now else tat) + (self._interval_us if times == 1 else self._cost_us(times))
        excess_us = tat - now - self._tolerance_us
        if excess_us > 0:
            headers = {"RateLimit-Policy": self._policy.header, "RateLimit": self._policy.empty(excess_us)}
            return Limited(self._policy.name, excess_us / 1_000_000, headers)
        self._tats[key] = tat
        if len(self._tats) > self._keys_max:
            self._forget(now)
        return None

    def give_back(self, key: str, times: int = 1) -> None:
        """Undoes a `take` of before."""
        if key in self._tats:
            self._tats[key] -= self._cost_us(times)

    def _cost_us(self, times: int) -> int:
        return min(self._interval_us * times, self._tolerance_us)

    def _forget(self, now: int) -> None:
        """Forgets the buckets that are full, as unknown ones are, and of the others those that are soonest full.

        Whoever comes from address after address to have its own forgotten would have to empty all of theirs.
        """
        emptiest = sorted(((key, tat) for key, tat in self._tats.items() if tat > now), key=itemgetter(1))
        self._tats = dict(emptiest[-(self._keys_max * 3 // 4) :])


class ClientRate:
    """A rate of each address, and of each network."""

    def __init__(self, policy: Policy) -> None:
        self._addresses = LocalRate(policy)
        self._networks = LocalRate(policy.of_network())

    def take(self, client: Client, times: int = 1) -> Limited | None:
        """Charges both, or, where either holds less, neither."""
        limited = self._addresses.take(client.address, times)
        if limited is None and client.network:
            limited = self._networks.take(client.network, times)
            if limited is not None:
                self._addresses.give_back(client.address, times)
        return limited

    def give_back(self, client: Client) -> None:
        """Undoes a `take` of before."""
        self._addresses.give_back(client.address)
        if client.network:
            self._networks.give_back(client.network)


Gate = Callable[[web.Request], None]
"""Raises the Fault of a request that is over its rate."""


def gate(ip: Policy, login: Policy, proxies: Iterable[Network]) -> Gate:
    """Holds an address to its rate of each class, given its policies of starts and plays, and of logins."""
    proxies = tuple(proxies)
    rates: dict[RouteClass, ClientRate] = {
        one: ClientRate(
            replace(ip, name=one.value, per_second=ip.per_second * TIMES_PLAYS, burst=ip.burst * TIMES_PLAYS)
        )
        for one in RouteClass
    }
    rates[RouteClass.LOGIN] = ClientRate(login)  # Each is a transaction, so an address has few.

    def admit(request: web.Request) -> None:
        client = note_client(request, proxies)
        one = route_class(request.method, request.path)
        length = request.content_length
        times = 1
        if one is RouteClass.STAFF:
            pass  # They show who they are before their bodies are read, and import whole files of codes.
        elif length is not None:
            times += min(length, request.client_max_size) // CHARGED_BYTES
        elif request.body_exists:
            # Charged as it comes: small plays that a proxy sends on in chunks are small plays.
            request[ON_BODY] = _charged_by_size(rates[one], request, client)
        charge(rates[one], request, client, times)

    return admit


def _charged_by_size(rate: ClientRate, request: web.Request, client: Client) -> Callable[[int], None]:
    charged = 0

    def on_body(size: int) -> None:
        nonlocal charged
        times = size // CHARGED_BYTES - charged
        if times:
            charged += times
            charge(rate, request, client, times)

    return on_body


def charge(rate: ClientRate, request: web.Request, client: Client, times: int = 1) -> None:
    """Charges who asks. Raises RATE_LIMITED, with the headers that go with it."""
    limited = rate.take(client, times)
    if limited is not None:
        extra_headers(request).update(limited.headers)
        raise limited.fault()
