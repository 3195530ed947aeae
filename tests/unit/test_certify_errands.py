"""The load of ops/certify asks every operation that there is."""

from __future__ import annotations

from pathlib import Path

from ops.certification import load
from ops.certification.errands import ELSEWHERE, JUDGED, READS, TOURS
from runtime.operations import BY_NAME

OF_PLAYERS_AND_STAFF = {
    *("Start", "Play", "ClaimReward", "Redeem", "CompleteQuest"),
    *("AdjustBalance", "UpdatePrize", "RevokeReward", "FulfillReward"),
}


def test_every_operation_is_asked_by_the_load_or_said_to_be_asked_elsewhere() -> None:
    errands = {name for tour in (*TOURS, READS) for name in tour}
    assert (errands | OF_PLAYERS_AND_STAFF | JUDGED | ELSEWHERE.keys()) == BY_NAME.keys()


def test_no_errand_is_what_players_and_staff_do_or_what_the_judge_reads() -> None:
    errands = {name for tour in (*TOURS, READS) for name in tour}
    assert not errands & JUDGED and errands & OF_PLAYERS_AND_STAFF == {"UpdatePrize"}


def test_players_and_staff_do_what_no_errand_does() -> None:
    said = Path(load.__file__).read_text()
    assert [name for name in sorted(OF_PLAYERS_AND_STAFF | JUDGED) if f'"{name}"' not in said] == []
