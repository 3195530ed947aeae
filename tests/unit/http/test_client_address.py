"""The address that the rates hold for, as it is read behind proxies."""

from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from runtime.http.admission.client_address import client_of, peer_client, record_client


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
        ("10.0.0.1", ["198.51.100.1:1234"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8::1]:80"], "2001:db8::"),
        ("10.0.0.1", ["garbage"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("2001:db8:0:1:2:3:4:5", [], "2001:db8:0:1::"),
        ("::ffff:203.0.113.5", [], "203.0.113.5"),
    ],
)
def test_clients_address(remote: str, forwarded: list[str], expected: str) -> None:
    assert client_of(request(remote, *forwarded), PROXIES).address == expected


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("2001:db8:0:1:2:3:4:5", ("2001:db8:0:1::", "2001:db8::/48")),
        ("2001:db8:0:ffff::1", ("2001:db8:0:ffff::", "2001:db8::/48")),
        ("2001:db8:1:1::1", ("2001:db8:1:1::", "2001:db8:1::/48")),
        ("203.0.113.5", ("203.0.113.5", "")),
        ("::ffff:203.0.113.5", ("203.0.113.5", "")),
        ("", ("unknown", "")),
    ],
)
def test_ipv6_counts_at_two_widths(remote: str, expected: tuple[str, str]) -> None:
    assert client_of(request(remote)) == peer_client(remote) == expected


def test_trusted_proxy_s_connections_count_for_nobody() -> None:
    assert peer_client("10.0.0.1", PROXIES) == ("", "")


def test_client_is_worked_out_once_for_each_request() -> None:
    sent = request("10.0.0.1", "198.51.100.1")
    recorded = record_client(sent, PROXIES)
    assert client_of(sent) is recorded  # Without proxies it would be 10.0.0.1's.
