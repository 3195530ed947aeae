"""The draw is the published one (docs/explanation/fairness.md): vectors made with `openssl dgst -sha256 -mac HMAC`."""

from __future__ import annotations

import hashlib
import hmac
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import Fault
from runtime.rules.draw import (
    Words,
    check_client_seed,
    pick_by_sums,
    pick_certain,
    plan_key,
    running_sums,
    scaled,
    seed_hash,
    seed_of,
)

SEED = bytes.fromhex("9bf2b8a51cb77aecc5d4f12f51515cfc55e953253660c47ce81988abcf6375d3")


def test_seed_and_its_hash_are_the_published_ones() -> None:
    assert seed_of(b"server key", b"nonce") == SEED
    assert seed_hash(SEED) == "53712124025200beca9a9709ad4166dde44d377a469aab7cac0910b8adf49a76"
    assert plan_key(SEED).hex() == "b2460eeb2408bac6222298b0509b5b850e1d1717f04d1287b71bc346127fda8b"


@pytest.mark.parametrize(
    ("client_seed", "i", "digest_start"),
    [
        ("", 0, 0xEB529779F5DD29D0),
        ("", 1, 0xF452BEA16BE640E6),
        ("lucky", 0, 0x99CC77AA7933212C),
        ("glück", 12, 0x5B3F78BFFD643220),
    ],
)
def test_word_is_the_published_one(client_seed: str, i: int, digest_start: int) -> None:
    assert Words(SEED, client_seed).word(i) == float(Fraction(digest_start, 2**64))


@given(st.binary(max_size=64), st.text(max_size=40), st.integers(0, 10_000))
def test_word_equals_an_independent_computation(seed: bytes, client_seed: str, i: int) -> None:
    digest = hmac.new(seed, f"{client_seed}:{i}".encode(), hashlib.sha256).hexdigest()
    assert Words(seed, client_seed).word(i) == float(Fraction(int(digest[:16], 16), 2**64))


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1))
def test_pick_is_the_first_whose_running_sum_exceeds_the_word(weights: list[float], word: float) -> None:
    expected, running = None, 0.0
    for i, weight in enumerate(weights):
        running += weight
        if running > word:
            expected = i
            break
    assert pick_by_sums(running_sums(weights), word) == expected


def test_word_on_a_boundary_belongs_to_the_next_entry() -> None:
    assert [pick_by_sums(running_sums([0.25, 0.0, 0.5]), word) for word in (0.0, 0.25, 0.7499, 0.75)] == [0, 2, 2, None]


def test_running_sums_are_not_compensated() -> None:
    assert running_sums([0.1] * 10)[-1] == 0.9999999999999999


def test_word_that_rounds_to_one_picks_the_last_with_weight() -> None:
    assert pick_certain(running_sums(scaled([1.0, 2.0, 0.0])), 1.0) == 1


@pytest.mark.parametrize("client_seed", ["x" * 201, "a\0b", "\ud800"])
def test_client_seed_that_cannot_be_stored_is_refused(client_seed: str) -> None:
    with pytest.raises(Fault, match="client_seed"):
        check_client_seed(client_seed)
    check_client_seed("glück")
    check_client_seed("x" * 200)
