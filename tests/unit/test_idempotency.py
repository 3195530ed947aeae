"""The Idempotency-Key header, and what requests under one key have in common. What becomes of a key is in
test_admission_control.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.actors.idempotency import in_progress, keyed, request_hash
from runtime.errors import Fault
from runtime.http.admission.idempotency import idempotency_key


def test_an_idempotency_key_is_bounded() -> None:
    assert idempotency_key(make_mocked_request("POST", "/")) == ""
    assert idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": "abc"})) == "abc"
    for wrong in ("", "x" * 256, "é"):
        with pytest.raises(Fault, match="VALIDATION"):
            idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": wrong}))


def test_a_key_is_the_players_who_is_named_beside_the_request() -> None:
    request = m.PlayRequest(player_id="a guest", idempotency_key="k")
    assert keyed(request).player_id == "a guest"
    assert keyed(request, player_id="ann").player_id == "ann"
    assert keyed(m.PlayRequest(idempotency_key="k"), player_id="ann").player_id == "ann"
    assert keyed(m.PlayRequest(player_id="ann")) == ("", None, None)


EXACT = 2**53
"""From here on a float does not tell which whole number it was."""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (2.0, 2, True),
        ([{"n": -3.0}], [{"n": -3}], True),
        (2.5, 2, False),
        (float(EXACT - 1), EXACT - 1, True),
        (float(1 - EXACT), 1 - EXACT, True),
        (float(EXACT), EXACT, False),
        (float(-EXACT), -EXACT, False),
        ("2.0", "2", False),
    ],
)
def test_numbers_that_json_does_not_tell_apart_ask_the_same(one: Any, other: Any, same: bool) -> None:
    def asks(value: Any) -> bytes:
        return request_hash(m.PlayRequest(payload={"n": value}))

    assert (asks(one) == asks(other)) is same


def test_who_meets_its_own_request_is_told_to_come_again_in_a_second() -> None:
    assert in_progress().retry_after_seconds == 1
