"""However a body is wrong, it is an invalid argument. Bodies on their way are in test_serving.py."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from runtime.errors import Fault, invalid
from runtime.http.bodies import decode_json


class Named(msgspec.Struct):
    name: str


class Item(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    more: list[Named] = []


ITEM = msgspec.json.Decoder(Item)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b'{"names": ["a"', ""),
        (b'{"names": ["\xff"]}', ""),
        (b"[" * 100_000, ""),
        (b'{"names":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "names[0]"),
        (b'{"names": ["a", 1]}', "names[1]"),
        (b'{"names": ["a"], "x": 1}', "x"),
        (b"{}", "names"),
        (b'{"names": [], "more": [{}]}', "more[0].name"),
        (b"\xff\xfe{\x00}\x00", ""),
    ],
)
def test_wrong_body_is_an_invalid_argument(body: bytes, field: str) -> None:
    with pytest.raises(Fault) as caught:
        decode_json(ITEM, body)
    assert (caught.value.http, caught.value.reason) == (400, "VALIDATION")
    assert caught.value.facts["violations"][0]["field"] == field


def test_deep_json_of_any_shape_is_an_invalid_argument() -> None:
    with pytest.raises(Fault) as caught:
        decode_json(msgspec.json.Decoder(Any), b'{"a":' * 100_000)
    assert caught.value.data == invalid("", "the JSON is nested too deeply").data


def test_random_bytes_never_do_worse_than_an_invalid_argument() -> None:
    for _ in range(1_000):
        with pytest.raises(Fault, match="VALIDATION"):
            decode_json(ITEM, os.urandom(20))
