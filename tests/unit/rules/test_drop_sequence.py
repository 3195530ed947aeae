"""The drop plan is the published one, and nobody can move it."""

from __future__ import annotations

import hashlib
import hmac
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.rules import Drop, drop_sequence
from runtime.rules.handlers.collect_items import parse

SEED = bytes.fromhex("9bf2b8a51cb77aecc5d4f12f51515cfc55e953253660c47ce81988abcf6375d3")


def _config(frequencies: list[int], total_items: int, interval_ms: int = 250) -> dict[str, Any]:
    drops = [
        {"type": f"type_{i}", "prize_id": "prize_a", "frequency": frequency, "max_catchable": 1}
        for i, frequency in enumerate(frequencies)
    ]
    return {"drops": drops, "total_items": total_items, "interval_ms": interval_ms}


def test_plan_of_a_known_seed() -> None:
    # Words 0xb9b6.., 0x53fa.., 0xd06b.. over 2^64 are 0.73, 0.33, 0.81; the sums are 0.5, 0.75, 1.
    plan = drop_sequence.plan(parse(_config([2, 1, 1], 3)), SEED)
    assert plan == (Drop("item_0", "type_1", 0), Drop("item_1", "type_0", 250), Drop("item_2", "type_2", 500))


@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8).filter(any),
    st.integers(1, 60),
    st.integers(1, 5000),
)
def test_plan_equals_an_independent_computation(
    seed: bytes, frequencies: list[int], total_items: int, interval_ms: int
) -> None:
    plan = drop_sequence.plan(parse(_config(frequencies, total_items, interval_ms)), seed)
    key = hmac.new(seed, b"plan", hashlib.sha256).digest()
    assert len(plan) == total_items
    for j, drop in enumerate(plan):
        word = float(Fraction(int(hmac.new(key, f":{j}".encode(), hashlib.sha256).hexdigest()[:16], 16), 2**64))
        total = sum(frequencies)
        i = next(i for i in range(len(frequencies)) if sum(frequencies[: i + 1]) / total > word)
        assert drop == Drop(f"item_{j}", f"type_{i}", j * interval_ms)
