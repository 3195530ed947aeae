"""Who holds a /48 has 65,536 addresses of a subscriber each: walking through them is no way around any limit.

Clients are told apart by X-Forwarded-For, as behind a proxy that is trusted.
"""

from __future__ import annotations

import ipaddress
from collections import Counter

import pytest

from runtime.operations.players.challenges import NETWORK_TIMES
from tests.support.login import verify
from tests.support.stack import Stack
from tests.support.world import World

BURST = 3
MOST = NETWORK_TIMES * BURST
WALK = 20
"""Addresses that are tried beyond what a network has."""

pytestmark = pytest.mark.settings(
    rate_limits=True,
    trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),),
    rate_guest_per_second=0.001,
    rate_guest_burst=BURST,
    rate_login_per_second=0.001,
    rate_login_burst=BURST,
)


def of(nth: int, network: str = "2001:db8:0") -> dict[str, str]:
    return {"X-Forwarded-For": f"{network}:{nth:x}::1"}


async def test_new_guests_of_a_network_are_bounded(own_world: World) -> None:
    """Otherwise a client could create guests from each of its addresses to choose a plan."""
    game_id = await own_world.wheel(access="public")
    answers = [await own_world.start(game_id, "", **of(nth)) for nth in range(MOST + WALK)]
    assert Counter(answer.http for answer in answers) == {200: MOST, 429: WALK}
    assert answers[-1].envelope["data"]["policy"] == "guest-network"
    assert (await own_world.start(game_id, "", **of(1, "2001:db8:1"))).http == 200
    assert (await own_world.start(game_id, "", **{"X-Forwarded-For": "203.0.113.5"})).http == 200


async def test_logins_of_a_network_are_bounded(stack: Stack) -> None:
    async def guess(nth: int, network: str = "2001:db8:0") -> str:
        return (await verify(stack, "chal_" + "0" * 32, "000000", headers=of(nth, network))).reason

    reasons = [await guess(nth) for nth in range(MOST + WALK)]
    assert Counter(reasons) == {"UNKNOWN_CHALLENGE": MOST, "RATE_LIMITED": WALK}
    assert await guess(1, "2001:db8:1") == "UNKNOWN_CHALLENGE"


@pytest.mark.settings(rate_guest_burst=10**6, rate_ip_per_second=0.001, rate_ip_burst=BURST)
async def test_starts_and_plays_of_a_network_are_bounded(own_world: World) -> None:
    """The limit holds over all edges, through the shared store."""
    game_id = await own_world.wheel()
    answers = [await own_world.start(game_id, f"player_{nth}", **of(nth)) for nth in range(MOST + WALK)]
    assert Counter(answer.http for answer in answers) == {200: MOST, 429: WALK}
    assert answers[-1].envelope["data"]["policy"] == "ip-network"
    assert (await own_world.start(game_id, "ann", **of(1, "2001:db8:1"))).http == 200
