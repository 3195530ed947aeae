"""Prize draws: the Merkle tree, the selection of tickets, and drand's signatures."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from runtime.rules.raffle import beacon
from runtime.rules.raffle.selection import Block, MerkleTree, Selection

# RFC 6962's test leaves, and the roots over the first n of them (from the certificate-transparency reference code).
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


@pytest.mark.parametrize("size", ROOTS)
def test_merkle_root_is_that_of_rfc_6962(size: int) -> None:
    tree = MerkleTree()
    for text in LEAVES[:size]:
        tree.add(bytes.fromhex(text))
    assert tree.root() == ROOTS[size]


def selected(value: str, tickets: list[int]) -> list[int]:
    """The holders in the order of their ranks, until every ticket has won."""
    selection, starts = (
        Selection("draw_1", "root", value, sum(tickets)),
        [sum(tickets[:i]) for i in range(len(tickets))],
    )
    order = []
    while selection.left:
        ticket = selection.pick()
        holder = max(i for i, start in enumerate(starts) if start <= ticket)
        assert ticket < starts[holder] + tickets[holder]
        selection.remove(Block(starts[holder], tickets[holder]))
        order.append(holder)
    return order


def test_selection_gives_each_holder_one_rank() -> None:
    assert all(sorted(selected(str(i), [1, 5, 2, 1])) == [0, 1, 2, 3] for i in range(200))


def test_selection_weighs_holders_by_tickets_left() -> None:
    """The first rank by all tickets; the second by the tickets that the first winner does not hold."""
    orders = [selected(str(i), [6, 3, 1]) for i in range(4_000)]
    first = Counter(order[0] for order in orders)
    assert [round(first[holder] / 4_000, 1) for holder in range(3)] == [0.6, 0.3, 0.1]
    second = Counter(order[1] for order in orders if order[0] == 0)
    assert 0.70 < second[1] / second.total() < 0.80


def test_selection_of_huge_numbers_stays_exact() -> None:
    assert sorted(selected("x", [2**62, 1, 2**62])) == [0, 1, 2]


def test_drand_signature_verifies_for_its_round_alone() -> None:
    signature = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
    assert hashlib.sha256(bytes.fromhex(signature)).hexdigest().startswith("fe290beca10872ef")
    assert beacon.verify(1_000, signature)
    assert not beacon.verify(1_001, signature)
    assert not any(beacon.verify(1_000, wrong) for wrong in ("", "zz", "00" * 48, signature[:-2], "c0" + "00" * 47))


@pytest.mark.parametrize(("at", "expected"), [(0, 1), (1, 2), (3, 2), (4, 3), (6, 3)])
def test_drand_round_is_the_first_from_its_time_on(at: int, expected: int) -> None:
    assert beacon.round_at(beacon.GENESIS + at) == expected
