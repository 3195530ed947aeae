"""Untrusted objects at the edges of what a struct's types and bounds take, and what is said beyond them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Meta, field

from runtime.errors import Fault
from runtime.rules.reading import MAX_ENTRIES, Name, Part, read

Refusal = Callable[..., Fault]


class Bounded(Part, frozen=True):
    whole: int = 0
    least: Annotated[int, Meta(ge=2)] = 2
    between: Annotated[int, Meta(ge=2, le=4)] = 2
    above: Annotated[float, Meta(gt=2)] = 3
    above_to: Annotated[float, Meta(gt=2, le=4)] = 3
    by_name: dict[Name, int] = field(default_factory=dict)


class Unreadable(Part, frozen=True):
    flag: bool


@pytest.mark.parametrize(
    "raw",
    [
        {"whole": 2.0**53},
        {"whole": -(2.0**53)},
        {"whole": 2**63 - 1},
        {"least": 2},
        {"between": 4},
        {"above": 2.0000001},
        {"above_to": 4},
        {"by_name": {f"n{i}": i for i in range(MAX_ENTRIES)}},
    ],
)
def test_value_at_a_bound_is_accepted(raw: dict[str, Any]) -> None:
    (name,) = raw
    assert getattr(read(Bounded, raw, "x"), name) == raw[name]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"whole": 2.0**53 + 2}, "x.whole: must be a whole number"),
        ({"whole": 2**63}, "x.whole: must be a whole number"),
        ({"least": 1}, "x.least: must be a whole number of at least 2"),
        ({"between": 5}, "x.between: must be a whole number from 2 to 4"),
        ({"above": 2}, "x.above: must be a finite number above 2"),
        ({"above_to": 2}, "x.above_to: must be a finite number above 2, at most 4"),
        ({"above_to": 4.5}, "x.above_to: must be a finite number above 2, at most 4"),
        ({"by_name": {f"n{i}": i for i in range(MAX_ENTRIES + 1)}}, "x.by_name: must have at most 1000 entries"),
        ({"by_name": {"": 1}}, "x.by_name.: must not be empty"),
    ],
)
def test_value_beyond_a_bound_is_refused_with_its_bounds(raw: dict[str, Any], said: str, refusal: Refusal) -> None:
    rows = refusal(read, Bounded, raw, "x").facts["violations"]
    assert [f"{row['field']}: {row['description']}" for row in rows] == [said]


def test_part_of_an_unreadable_type_raises_type_error() -> None:
    with pytest.raises(TypeError, match="flag: a Part cannot hold a BoolType"):
        read(Unreadable, {"flag": True}, "x")
