import math
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import messages as m
from runtime.errors import Fault, invalid
from runtime.http.bodies import decode_json
from runtime.operations import OPERATIONS
from runtime.rpc.server import _register_descriptors
from runtime.wire import codec, proto_json
from runtime.wire.schema import INT32, INT64, OBJECT_DEPTH_MAX, TEXT_CHARACTERS_MAX, Field, Kind, check, fields_of
from tests.support.messages import filled

REQUESTS = sorted({operation.request for operation in OPERATIONS}, key=lambda one: one.__name__)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
LINE = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=30)
"""Texts that any field may hold: nothing in them that cannot be seen."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(*INT64) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def values(field: Field) -> st.SearchStrategy[Any]:
    match field.kind:
        case Kind.TEXT:
            one: st.SearchStrategy[Any] = LINE.map(lambda text: text[: field.most])
        case Kind.INT32:
            one = st.integers(*INT32)
        case Kind.INT64:
            one = st.integers(*INT64)
        case Kind.NUMBER:
            one = st.floats(allow_nan=False, allow_infinity=False)
        case Kind.FLAG:
            one = st.booleans()
        case Kind.ENUM:
            one = st.sampled_from(list(field.type))
        case Kind.OBJECT:
            one = st.none() | st.dictionaries(TEXT, JSON, max_size=3)
        case Kind.MAP:
            one = st.dictionaries(TEXT, st.integers(*INT32), max_size=3)
        case Kind.MESSAGE:
            one = messages(field.type) if field.repeated else st.none() | messages(field.type)
    return st.lists(one, max_size=2) if field.repeated else one


def messages(message: Any) -> st.SearchStrategy[Any]:
    return st.builds(message, **{name: values(field) for name, field in fields_of(message).items()})


def refused(call: Any, *args: Any) -> dict[str, str]:
    with pytest.raises(Fault) as caught:
        call(*args)
    assert caught.value.status.name == "INVALID_ARGUMENT"
    return {row["field"]: row["description"] for row in caught.value.facts["violations"]}


def is_read_as_shown(made: Any) -> bool:
    message = type(made)

    def read(int64_as: Any) -> Any:
        back = codec.decode(message, msgspec.json.encode(codec.view(message, int64_as)(made)))
        if "update_mask" in fields_of(message) and not made.update_mask:
            back.update_mask = []  # Made of the fields that the body holds; its own test is below.
        return codec.view(message, "number")(back)

    return all(read(int64_as) == codec.view(message, "number")(made) for int64_as in ("quoted", "number"))


def test_request_is_read_as_shown() -> None:
    assert [one for one in REQUESTS if not is_read_as_shown(one()) or not is_read_as_shown(filled(one))] == []


@settings(max_examples=60, deadline=None)
@given(made=st.sampled_from(REQUESTS).flatmap(messages))
def test_request_of_any_values_is_read_as_shown(made: Any) -> None:
    assert is_read_as_shown(made)


def test_request_is_read_in_every_form_of_proto3_json() -> None:
    """As protobuf's own library writes it: lowerCamelCase, enums by number."""
    _register_descriptors()
    wrong = []
    for one in REQUESTS:
        made = filled(one)
        described = descriptor_pool.Default().FindMessageTypeByName(f"game.v1.{one.__name__}")
        theirs = GetMessageClass(described).FromString(bytes(made))
        written = MessageToJson(theirs, use_integers_for_enums=True).encode()
        read = codec.decode(one, written, rewrite=proto_json.rewritten)
        wrong += [] if codec.view(one, "number")(read) == codec.view(one, "number")(made) else [(one, written)]
    assert wrong == []
    numbers = b'{"game": {"rules": {"maxPlaysPerDay": "3"}}, "updateMask": ["rules"]}'
    assert codec.decode(m.UpdateGameRequest, numbers, rewrite=proto_json.rewritten).game.rules.max_plays_per_day == 3
    prize = codec.decode(m.CreatePrizeRequest, b'{"prize": {"value": "1.5"}}', rewrite=proto_json.rewritten).prize
    assert prize.value == 1.5
    for body in (b'{"player_id": "a", "playerId": "b"}', b'{"player_id": 1}', b'{"playerid": "b"}'):
        assert refused(lambda body=body: codec.decode(m.StartRequest, body, rewrite=proto_json.rewritten))
    query = {"scope.tenantId": "t", "scope.merchant_id": "m", "scope.merchantId": "other"}
    query |= {"campaignId": "c", "status": "2", "playerID": "x"}
    wanted = {"scope.tenant_id": "t", "scope.merchant_id": "m", "campaign_id": "c"}
    wanted |= {"status": "GAME_STATUS_ACTIVE", "playerID": "x"}
    assert proto_json.rewritten_query(m.ListGamesRequest, query) == wanted


def test_reply_shows_all_of_its_fields() -> None:
    wrong = []
    for message in sorted({operation.reply for operation in OPERATIONS}, key=lambda one: one.__name__):
        for made in (message(), filled(message)):
            shown = codec.view(message, "quoted")(made)
            msgspec.json.encode(shown)
            wrong += [message] * (list(shown) != list(fields_of(message)))
    assert wrong == []


@settings(max_examples=100, deadline=None)
@given(body=st.binary(max_size=60) | JSON.map(msgspec.json.encode))
def test_body_of_any_bytes_is_read_or_refused(body: bytes) -> None:
    for message in (m.PlayRequest, m.CreateGameRequest, m.UpdatePrizeRequest):
        try:
            read = codec.decode(message, body)
        except Fault as fault:
            assert fault.status.name == "INVALID_ARGUMENT"
        else:
            assert isinstance(read, message)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (b'{"game": {"rules": {"max_plays_per_day": "3"}}}', "game.rules.max_plays_per_day", "whole number"),
        (b'{"game": {"rules": {"max_plays_per_day": 2147483648}}}', "game.rules.max_plays_per_day", "from 0 to"),
        (b'{"game": {"rules": {"requires_turn": 1}}}', "game.rules.requires_turn", "true or false"),
        (b'{"game": {"rules": []}}', "game.rules", "object"),
        (
            *(b'{"game": {"milestones": {"rungs": [{}, {"threshold": "x"}]}}}', "game.milestones.rungs[1].threshold"),
            "whole",
        ),
        (b'{"game": {"milestones": {"rungs": {}}}}', "game.milestones.rungs", "list"),
        (b'{"game": {"created_at": 9223372036854775808}}', "game.created_at", "must be a 64-bit integer"),
        (b'{"game": {"status": "ACTIVE"}}', "game.status", "GAME_STATUS_ACTIVE"),
        *((b'{"game": {"name": 3}}', "game.name", "string"), (b'{"game": {"name": "a\\u0000"}}', "game.name", "NUL")),
        (b'{"game": {"name": "' + b"x" * (TEXT_CHARACTERS_MAX + 1) + b'"}}', "game.name", "at most 200 characters"),
        (b'{"game": {"ui": {"a": [{"b": "\\u0000"}]}}}', "game.ui.a[0].b", "NUL"),
        (b'{"game": {"ui": {"a": 9223372036854775808}}}', "game.ui.a", "64-bit integer"),
        (b'{"game": {"ui": 3}}', "game.ui", "object"),
        (b'{"game": {"nmae": "x"}}', "game.nmae", "not a known field"),
        (b'{"game": {"name": "a", "name": "b"}}', "name", "must not be repeated"),
        *((b'{"game": {"ui": {"a": 1, "b": ":", "a": 2}}}', "a", "must not be repeated"), (b"[]", "", "JSON object")),
        *((b'{"game"', "", "not valid JSON"), (b'{"game": NaN}', "", "not valid JSON")),
        (b'{"game": {"handler_config": {"x": 1e400}}}', "game.handler_config.x", "finite"),
        (b'{"game": {"name": "\\ud800"}}', "game.name", "valid Unicode"),
        (b'{"\\ud800": 1, "game": {"name": "x"}}', "?", "is not a known field"),
        (b'{"\\ud800": 1, "\\ud800": 1}', "?", "is not a known field"),
        *((b'{"game": {"name": "\xff"}}', "", "UTF-8"), ('{"game": {}}'.encode("utf-16"), "", "")),
        *((b"[" * 9_000, "", "deep"), (b'{"game": {"ui": ' + b'{"a":' * 4_000, "", "deep")),
    ],
)
def test_wrong_body_is_refused_by_its_field(body: bytes, field: str, says: str) -> None:
    found = refused(codec.decode, m.CreateGameRequest, body)
    assert field in found
    assert says in found[field]


def test_wrong_and_closed_fields_are_named_at_once_up_to_twenty() -> None:
    found = refused(codec.decode, m.CreateGameRequest, b'{"game": {"name": 1, "type": 2}, "scope": {"tenant_id": 3}}')
    assert set(found) == {"game.name", "game.type", "scope.tenant_id"}
    body = msgspec.json.encode({"game": {f"field_{index}": 1 for index in range(5000)}})
    assert len(refused(codec.decode, m.CreateGameRequest, body)) == 20
    found = refused(codec.decode, m.PlayRequest, b'{"player_id": "p"}', frozenset({"player_id"}))
    assert found == {"player_id": "is not a known field"}


def test_object_may_be_as_deep_as_the_limit() -> None:
    def nested(depth: int) -> bytes:
        return b'{"game": {"ui": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}}"

    codec.decode(m.CreateGameRequest, nested(OBJECT_DEPTH_MAX))
    assert "nested" in "".join(refused(codec.decode, m.CreateGameRequest, nested(OBJECT_DEPTH_MAX + 1)).values())


@pytest.mark.parametrize("name", ["GAME_STATUS_ACTIVE", "active"])
def test_enum_is_read_by_its_name_and_its_stored_token(name: str) -> None:
    body = msgspec.json.encode({"game": {"status": name}})
    assert codec.decode(m.CreateGameRequest, body).game.status is m.GameStatus.ACTIVE


@pytest.mark.parametrize("text", [b"1767225600", b'"1767225600"', b"1767225600.0"])
def test_int64_may_be_quoted(text: bytes) -> None:
    body = b'{"campaign": {"start_date": ' + text + b"}}"
    assert codec.decode(m.CreateCampaignRequest, body).campaign.start_date == 1767225600


def test_update_sets_what_its_body_holds_except_null() -> None:
    made = codec.decode(m.UpdateGameRequest, b'{"game": {"name": null, "type": "x"}, "scope": null}')
    assert (made.game.name, made.scope, made.update_mask) == ("", None, ["type"])
    made = codec.decode(m.UpdateGameRequest, b'{"id": "game_1", "game": {"id": "game_1", "name": "", "rules": {}}}')
    assert made.update_mask == ["name", "rules"]
    request = codec.decode(m.UpdateGameRequest, b'{"game": {"name": "x"}, "update_mask": ["type"]}')
    assert request.update_mask == ["type"]


def test_resource_of_an_edge_is_known_by_its_alias() -> None:
    made, names = codec.decode_resource(m.Prize, b'{"prize_id": "prize_1", "name": "Mug"}', {"prize_id": "id"})
    with pytest.raises(Fault, match="must equal id"):
        codec.decode_resource(m.Prize, b'{"prize_id": "prize_2", "id": "prize_1"}', {"prize_id": "id"})
    assert (made.id, made.name, names) == ("prize_1", "Mug", ["name"])


class TestQuery:
    def test_fields_and_aliases(self) -> None:
        query = {"scope.tenant_id": "t", "campaign": "c", "limit": "5", "status": "active", "utm_source": "x"}
        made = codec.from_query(m.ListGamesRequest, query)
        assert (made.scope.tenant_id, made.campaign_id, made.limit) == ("t", "c", 5)
        assert made.status is m.GameStatus.ACTIVE

    @pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", "", "99999999999999999999"])
    def test_limit_outside_the_page_sizes_is_refused(self, limit: str) -> None:
        assert "limit" in refused(codec.from_query, m.ListGamesRequest, {"limit": limit})

    def test_wrong_value_is_named_as_it_was_sent(self) -> None:
        found = refused(codec.from_query, m.ListTasksRequest, {"status": "nope", "campaign": "a\0", "prize": "x"})
        assert set(found) == {"status", "campaign"}

    def test_closed_field_is_ignored(self) -> None:
        assert codec.from_query(m.ListBalancesRequest, {"player_id": "p"}, frozenset({"player_id"})).player_id == ""


class TestRpc:
    @settings(max_examples=20, deadline=None)
    @given(made=messages(m.CreateGameRequest))
    def test_rpc_message_that_json_allows_is_allowed(self, made: m.CreateGameRequest) -> None:
        check(made)

    @pytest.mark.parametrize(
        ("made", "field"),
        [
            (m.CreateGameRequest(game=m.Game(name="a\0")), "game.name"),
            (m.CreateGameRequest(game=m.Game(status=m.GameStatus(77))), "game.status"),
            (m.CreateGameRequest(game=m.Game(ui={"a": [math.nan]})), "game.ui.a[0]"),
            (
                m.CreateGameRequest(game=m.Game(milestones=m.Milestones(rungs=[m.Rung(id="\0")]))),
                "game.milestones.rungs[0].id",
            ),
            (m.CreatePrizeRequest(prize=m.Prize(value=math.inf)), "prize.value"),
            (m.ImportCodesRequest(codes=["a", "x" * (TEXT_CHARACTERS_MAX + 1)]), "codes[1]"),
        ],
    )
    def test_rpc_message_that_json_refuses_is_refused(self, made: Any, field: str) -> None:
        assert list(refused(check, made)) == [field]


def test_unknown_enum_value_is_shown_as_unspecified() -> None:
    assert codec.view(m.Game, "number")(m.Game(status=m.GameStatus(77)))["status"] == "GAME_STATUS_UNSPECIFIED"


class Named(msgspec.Struct):
    name: str


class Item(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    more: list[Named] = []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *((b"", ""), (b'{"names": ["a"', ""), (b'{"names": ["\xff"]}', ""), (b"[" * 100_000, "")),
        *((b'{"names":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "names[0]"), (b'{"names": ["a", 1]}', "names[1]")),
        *((b'{"names": ["a"], "x": 1}', "x"), (b"{}", "names"), (b'{"names": [], "more": [{}]}', "more[0].name")),
        (b"\xff\xfe{\x00}\x00", ""),
    ],
)
def test_wrong_body_is_an_invalid_argument(body: bytes, field: str) -> None:
    with pytest.raises(Fault) as caught:
        decode_json(msgspec.json.Decoder(Item), body)
    assert (caught.value.http, caught.value.reason) == (400, "VALIDATION")
    assert caught.value.facts["violations"][0]["field"] == field


def test_deep_json_of_any_shape_is_an_invalid_argument() -> None:
    with pytest.raises(Fault) as caught:
        decode_json(msgspec.json.Decoder(Any), b'{"a":' * 100_000)
    assert caught.value.data == invalid("", "the JSON is nested too deeply").data
