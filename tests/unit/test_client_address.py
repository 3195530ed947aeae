"""The address that the rates hold for, as it is read behind proxies."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from runtime.http.admission.client_address import client_ip


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
def test_the_clients_address(remote: str, forwarded: list[str], expected: str) -> None:
    assert client_ip(request(remote, *forwarded), PROXIES) == expected
