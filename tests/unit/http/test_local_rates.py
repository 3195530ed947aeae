from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from runtime.http import admin, consumer
from runtime.http.admission.client_address import Client, client_of, peer_client, record_client
from runtime.http.admission.local_rates import ClientRate, LocalRate, RouteClass, route_class
from runtime.http.admission.rates import Policy
from runtime.operations import API
from runtime.operations.players.challenges import NETWORK_TIMES
from runtime.operations.row import RoutePolicy

SLOW = Policy("read", per_second=0.001, burst=5)


def test_bucket_is_emptied_by_its_burst_and_refused_beyond_it() -> None:
    rate = LocalRate(SLOW)
    taken = [rate.take("10.0.0.1") for _ in range(7)]
    assert [limited is None for limited in taken] == [True] * 5 + [False] * 2
    assert taken[-1] is not None and taken[-1].headers["RateLimit-Policy"] == '"read";q=5;w=5000'
    assert rate.take("10.0.0.2") is None


def test_flood_of_addresses_frees_nobody_who_is_limited() -> None:
    rate = LocalRate(SLOW, keys_max=100)
    while rate.take("10.0.0.1") is None:
        pass
    for nth in range(10_000):
        assert rate.take(f"10.1.{nth // 256}.{nth % 256}") is None
        assert rate.take("10.0.0.1") is not None
    assert len(rate._tats) <= 100


def test_network_has_what_sixteen_addresses_have() -> None:
    rate = ClientRate(SLOW)
    clients = [Client(f"2001:db8:0:{nth:x}::", "2001:db8::/48") for nth in range(NETWORK_TIMES * SLOW.burst + 20)]
    answers = [rate.take(client) for client in clients]
    assert [limited is None for limited in answers] == [True] * (NETWORK_TIMES * SLOW.burst) + [False] * 20
    assert answers[-1] is not None and answers[-1].policy == "read-network"
    # Neither its next address nor its first is charged for what was refused.
    assert rate._addresses.take(clients[NETWORK_TIMES * SLOW.burst].address, SLOW.burst) is None
    assert rate.take(Client("2001:db8:1:1::", "2001:db8:1::/48")) is None
    assert rate.take(Client("203.0.113.5", "")) is None


def test_address_cannot_use_its_network_up() -> None:
    rate = ClientRate(SLOW)
    greedy, modest = (Client(f"2001:db8:0:{nth}::", "2001:db8::/48") for nth in (1, 2))
    assert [rate.take(greedy) for _ in range(20 * NETWORK_TIMES)].count(None) == SLOW.burst
    assert rate.take(modest) is None


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        *(("POST", f"{API}/games/g/start", RouteClass.GAMEPLAY), ("POST", f"{API}/games/g/play", RouteClass.GAMEPLAY)),
        *(("POST", f"{API}/games/g/redeem", RouteClass.WRITE), ("GET", f"{API}/games/g/render", RouteClass.READ)),
        ("POST", f"{API}/campaigns/c/views", RouteClass.VIEW),
        ("POST", f"{API}/players/auth/start", RouteClass.LOGIN),
        ("OPTIONS", f"{API}/players/auth/start", RouteClass.READ),
        *(("POST", f"{API}/players/me/contacts", RouteClass.LOGIN), ("PUT", f"{API}/players/me", RouteClass.WRITE)),
        ("GET", f"{API}/admin/games", RouteClass.STAFF),
        *(("POST", f"{API}/fulfillment/tasks/t/callback", RouteClass.CALLBACK), ("GET", "/healthz", RouteClass.OTHER)),
        ("GET", "/docs", RouteClass.OTHER),
    ],
)
def test_request_has_a_route_class(method: str, path: str, expected: RouteClass) -> None:
    assert route_class(method, path) is expected


def test_gameplay_is_what_the_rows_rate_and_nothing_else() -> None:
    for operation, served in consumer.served():
        rated = route_class(operation.verb, API + operation.path.replace("{id}", "x")) is RouteClass.GAMEPLAY
        assert rated == (served.policy is RoutePolicy.RATED), operation.name
    for operation, _ in admin.served():
        path = admin.PREFIX + operation.path.replace("{id}", "x")
        assert route_class(operation.verb, path) is RouteClass.STAFF


def request(remote: str, *forwarded: str) -> web.Request:
    headers = [("X-Forwarded-For", value) for value in forwarded]
    return make_mocked_request("GET", "/", headers=CIMultiDict(headers)).clone(remote=remote)


PROXIES = (ip_network("10.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    ("remote", "forwarded", "expected"),
    [
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),  # No proxy of ours: its word counts for nothing.
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),  # Left of a stranger is the stranger's word.
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        *(("10.0.0.1", ["198.51.100.1:1234"], "198.51.100.1"), ("10.0.0.1", ["[2001:db8::1]:80"], "2001:db8::")),
        *(("10.0.0.1", ["garbage"], "10.0.0.1"), ("10.0.0.1", [], "10.0.0.1")),
        *(("2001:db8:0:1:2:3:4:5", [], "2001:db8:0:1::"), ("::ffff:203.0.113.5", [], "203.0.113.5")),
    ],
)
def test_clients_address(remote: str, forwarded: list[str], expected: str) -> None:
    assert client_of(request(remote, *forwarded), PROXIES).address == expected


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("2001:db8:0:1:2:3:4:5", ("2001:db8:0:1::", "2001:db8::/48")),
        ("2001:db8:0:ffff::1", ("2001:db8:0:ffff::", "2001:db8::/48")),
        *(("2001:db8:1:1::1", ("2001:db8:1:1::", "2001:db8:1::/48")), ("203.0.113.5", ("203.0.113.5", ""))),
        *(("::ffff:203.0.113.5", ("203.0.113.5", "")), ("", ("unknown", ""))),
    ],
)
def test_ipv6_counts_at_two_widths(remote: str, expected: tuple[str, str]) -> None:
    assert client_of(request(remote)) == peer_client(remote) == expected


def test_client_is_worked_out_once_and_a_trusted_proxy_is_none() -> None:
    assert peer_client("10.0.0.1", PROXIES) == ("", "")
    sent = request("10.0.0.1", "198.51.100.1")
    assert record_client(sent, PROXIES) is client_of(sent)  # Without proxies it would be 10.0.0.1's.
