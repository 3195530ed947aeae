"""What an identity may do: management's routes, and a player's."""

from __future__ import annotations

import pytest

from runtime.errors import Fault
from runtime.http.auth.identity import Identity, require_player, require_roles


def staff(*roles: str) -> Identity:
    return Identity("own", "", "", frozenset(roles), "staff_1", 0)


@pytest.mark.parametrize("role", ["admin", "designer", "reward_manager"])
def test_management_role_opens_management(role: str) -> None:
    assert require_roles(staff(role)).roles == {role}


def test_role_outside_management_does_not_open_it() -> None:
    for identity in (staff("platform"), staff("viewer"), Identity("t", "", "player_1", frozenset(), "player_1", 0)):
        with pytest.raises(Fault, match="ROLE_REQUIRED"):
            require_roles(identity)
    with pytest.raises(Fault, match="TOKEN_MISSING"):
        require_roles(None)


def test_player_route_needs_a_player() -> None:
    with pytest.raises(Fault, match="TOKEN_MISSING"):
        require_player(None)
    with pytest.raises(Fault, match="ROLE_REQUIRED"):
        require_player(staff("admin"))
