import dataclasses
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime import messages as m
from runtime.actors.idempotency import HASH_BYTES, WITHOUT_KEY, first_answer, keyed, request_hash
from runtime.errors import Fault
from runtime.http.admission.idempotency import idempotency_key
from runtime.wire.codec import decode

SCOPE, SESSION = m.Scope(tenant_id="tenant_a"), {"player_id": "ann", "session_id": "sess_1", "client_seed": "seed"}
PLAY = m.PlayRequest(scope=SCOPE, id="game_1", payload={"score": 5}, idempotency_key="k1", **SESSION)

KINDS = [m.PlayRequest, m.RedeemRequest, m.ClaimRewardRequest, m.CompleteQuestRequest, m.AdjustBalanceRequest]


def test_hash_of_a_request_is_of_its_kind_and_fields_without_tenant_player_and_key() -> None:
    for other in ({"scope": m.Scope(tenant_id="tenant_b")}, {"player_id": "bob"}, {"idempotency_key": "k2"}):
        assert request_hash(dataclasses.replace(PLAY, **other)) == request_hash(PLAY)
    changes: list[dict[str, Any]] = [{"id": "game_2"}, {"session_id": "sess_2"}, {"payload": {"score": 6}}]
    for change in [*changes, {"payload": None}, {"client_seed": ""}]:
        assert request_hash(dataclasses.replace(PLAY, **change)) != request_hash(PLAY)
    assert request_hash(dataclasses.replace(PLAY, payload=None)) == request_hash(dataclasses.replace(PLAY, payload={}))
    assert len({request_hash(kind(id="x") if hasattr(kind(), "id") else kind()) for kind in KINDS}) == len(KINDS)
    assert len(request_hash(PLAY)) == HASH_BYTES


def test_key_is_of_its_player_and_a_request_without_one_has_neither_key_nor_hash() -> None:
    request = keyed(PLAY)
    assert (request.player_id, request.key) == ("ann", "k1")
    assert keyed(PLAY, player_id="of the session").player_id == "of the session"
    assert all(keyed(kind(player_id="ann")) is WITHOUT_KEY for kind in KINDS)
    assert first_answer({"request_hash": b"h"}, WITHOUT_KEY, lambda row: row) is None


def test_row_answers_its_own_request_and_refuses_another() -> None:
    request = keyed(PLAY)
    assert first_answer(None, request, lambda row: row) is None
    assert first_answer({"request_hash": None}, request, lambda row: row) is None
    row = {"request_hash": request_hash(PLAY), "said": 7}
    assert first_answer(row, request, lambda row: row["said"]) == 7
    with pytest.raises(Fault) as refused:
        first_answer({"request_hash": b"other"}, request, lambda row: row)
    assert (refused.value.reason, refused.value.http_status) == ("IDEMPOTENCY_MISMATCH", 422)


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        (PLAY, "f7428f0a25411bfff7e8e2425bf2d988"),
        (m.RedeemRequest(id="game_1", milestone_id="rung_1"), "1c64882fe811fcf0c5906b3c1c018d7b"),
        (m.ClaimRewardRequest(id="reward_1"), "b8d12079abbb68b66cb72afcd16e994a"),
        (m.CompleteQuestRequest(id="quest_1"), "7a7806c4455691d06b548ee791df316e"),
        (
            m.AdjustBalanceRequest(scope_key="camp_1", currency="points", amount=5, reference_id="r"),
            "907b7bbecd62d28a84ef1fa51fcc6329",
        ),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_hash_of_a_request_stays_the_same_in_the_next_version(asked: Any, stored: str) -> None:
    """Renaming a message or field would turn a retry after an upgrade into another request."""
    assert request_hash(asked).hex() == stored


def test_idempotency_key_is_bounded() -> None:
    assert idempotency_key(make_mocked_request("POST", "/")) == ""
    assert idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": "abc"})) == "abc"
    for wrong in ("", "x" * 256, "é"):
        with pytest.raises(Fault, match="VALIDATION"):
            idempotency_key(make_mocked_request("POST", "/", headers={"Idempotency-Key": wrong}))


EXACT = 2**53
"""From here on a float does not tell which whole number it was."""


def test_numbers_that_json_does_not_distinguish_make_one_request() -> None:
    def asks(value: Any) -> bytes:
        return request_hash(m.PlayRequest(payload={"n": value}))

    equal: list[Any] = [(2.0, 2), ([{"n": -3.0}], [{"n": -3}])]
    equal += [(float(EXACT - 1), EXACT - 1), (float(1 - EXACT), 1 - EXACT)]
    others: list[Any] = [(2.5, 2), (float(EXACT), EXACT), (float(-EXACT), -EXACT), ("2.0", "2"), ("1", 1), (True, 1)]
    assert [(one, other) for one, other in others + equal if asks(one) == asks(other)] == equal


class TestAtTheEdge:
    @pytest.mark.parametrize(
        "body",
        [
            b'{"session_id":"s","payload":{"a":1,"b":{"c":[1,2],"d":"x"}}}',
            b'{ "payload": {"b": {"d": "x", "c": [1, 2]}, "a": 1}, "session_id": "s" }\n',
            b'{"payload":{"b":{"d":"\\u0078","c":[1.0,2]},"a":1e0},"session_id":"s","client_seed":""}',
        ],
    )
    def test_json_spelling_does_not_change_the_hash(self, body: bytes) -> None:
        said = m.PlayRequest(session_id="s", payload={"a": 1, "b": {"c": [1, 2], "d": "x"}})
        assert request_hash(decode(m.PlayRequest, body)) == request_hash(said)
