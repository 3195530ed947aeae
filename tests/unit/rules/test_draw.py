"""The draw is the published one (docs/explanation/fairness.md): vectors made with `openssl dgst -sha256 -mac HMAC`."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import Fault
from runtime.rules import draw
from runtime.rules.raffle import beacon
from runtime.rules.raffle.selection import Block, Selection

SEED = bytes.fromhex("9bf2b8a51cb77aecc5d4f12f51515cfc55e953253660c47ce81988abcf6375d3")


def test_seed_and_its_hash_are_the_published_ones() -> None:
    assert draw.seed_of(b"server key", b"nonce") == SEED
    assert draw.seed_hash(SEED) == "53712124025200beca9a9709ad4166dde44d377a469aab7cac0910b8adf49a76"
    assert draw.plan_key(SEED).hex() == "b2460eeb2408bac6222298b0509b5b850e1d1717f04d1287b71bc346127fda8b"


@pytest.mark.parametrize(
    ("client_seed", "i", "digest_start"),
    [
        *(("", 0, 0xEB529779F5DD29D0), ("", 1, 0xF452BEA16BE640E6), ("lucky", 0, 0x99CC77AA7933212C)),
        ("glück", 12, 0x5B3F78BFFD643220),
    ],
)
def test_word_is_the_published_one(client_seed: str, i: int, digest_start: int) -> None:
    assert draw.Words(SEED, client_seed).word(i) == float(Fraction(digest_start, 2**64))


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1))
def test_pick_is_the_first_whose_running_sum_exceeds_the_word(weights: list[float], word: float) -> None:
    expected, running = None, 0.0
    for i, weight in enumerate(weights):
        running += weight
        if running > word:
            expected = i
            break
    assert draw.pick_by_sums(draw.running_sums(weights), word) == expected


def test_pick_on_a_boundary_is_the_next_entry_with_weight() -> None:
    assert [draw.pick_by_sums(draw.running_sums([0.25, 0.0, 0.5]), word) for word in (0.0, 0.25, 0.7499, 0.75)] == [
        *(0, 2, 2, None),
    ]
    assert draw.running_sums([0.1] * 10)[-1] == 0.9999999999999999
    assert draw.pick_certain(draw.running_sums(draw.scaled([1.0, 2.0, 0.0])), 1.0) == 1


@pytest.mark.parametrize("client_seed", ["x" * 201, "a\0b", "\ud800"])
def test_client_seed_that_cannot_be_stored_is_refused(client_seed: str) -> None:
    with pytest.raises(Fault, match="client_seed"):
        draw.check_client_seed(client_seed)
    draw.check_client_seed("glück")
    draw.check_client_seed("x" * 200)


def selected(value: str, tickets: list[int]) -> list[int]:
    """The holders in the order of their ranks, until every ticket has won."""
    selection = Selection("draw_1", "root", value, sum(tickets))
    starts = [sum(tickets[:i]) for i in range(len(tickets))]
    order = []
    while selection.left:
        ticket = selection.pick()
        holder = max(i for i, start in enumerate(starts) if start <= ticket)
        assert ticket < starts[holder] + tickets[holder]
        selection.remove(Block(starts[holder], tickets[holder]))
        order.append(holder)
    return order


def test_selection_gives_each_holder_one_rank_also_of_huge_numbers() -> None:
    assert all(sorted(selected(str(i), [1, 5, 2, 1])) == [0, 1, 2, 3] for i in range(200))
    assert sorted(selected("x", [2**62, 1, 2**62])) == [0, 1, 2]


def test_selection_weighs_holders_by_tickets_left() -> None:
    """The first rank by all tickets; the second by the tickets that the first winner does not hold."""
    orders = [selected(str(i), [6, 3, 1]) for i in range(4_000)]
    first = Counter(order[0] for order in orders)
    assert [round(first[holder] / 4_000, 1) for holder in range(3)] == [0.6, 0.3, 0.1]
    second = Counter(order[1] for order in orders if order[0] == 0)
    assert 0.70 < second[1] / second.total() < 0.80


def test_drand_signature_verifies_for_its_round_alone() -> None:
    signature = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
    assert [beacon.verify(round_number, signature) for round_number in (1_000, 1_001)] == [True, False]
    respelled = (f"{signature[:2]} {signature[2:]}", f"{signature}\n", signature.upper())
    wrong = ("", "zz" * 48, "00" * 48, signature[:-2], "c0" + "00" * 47, *respelled)
    assert not any(beacon.verify(1_000, one) for one in wrong), "each other spelling would be another draw"


@pytest.mark.parametrize(("at", "expected"), [(0, 1), (1, 2), (3, 2), (4, 3), (6, 3)])
def test_drand_round_is_the_first_from_its_time_on(at: int, expected: int) -> None:
    assert beacon.round_at(beacon.GENESIS + at) == expected
