"""The load of ops/certify asks every operation that there is."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ops.certification import load
from ops.certification.catalogue import World
from ops.certification.errands import ELSEWHERE, JUDGED, LOADED, OWN, READS, REFUSED, TOURS, Errands, never_done
from ops.history.record import Asked, Attempt, History
from runtime.operations import BY_NAME


def test_every_operation_is_asked_by_the_load_or_said_to_be_asked_elsewhere() -> None:
    errands = {name for tour in (*TOURS, READS, OWN) for name in tour}
    assert (errands | LOADED | JUDGED | ELSEWHERE.keys()) == BY_NAME.keys()


def test_no_errand_is_what_players_and_staff_do_or_what_the_judge_reads() -> None:
    errands = {name for tour in (*TOURS, READS, OWN) for name in tour}
    assert not errands & JUDGED and errands & LOADED == {"UpdatePrize"}


def test_players_and_staff_do_what_no_errand_does() -> None:
    said = Path(load.__file__).read_text()
    assert [name for name in sorted(LOADED | JUDGED) if f'"{name}"' not in said] == []


def test_what_was_never_answered_as_done_is_told_by_name() -> None:
    history = History()
    for name in BY_NAME.keys() - ELSEWHERE.keys() - {"GetQuest"}:
        history.new(name, "somebody").attempts.append(Attempt("core-1", 1.0, 2.0, 200))
    history.new("GetQuest", "somebody").attempts.append(Attempt("core-1", 1.0, 2.0, 404, reason="UNKNOWN_QUEST"))
    assert never_done(history.asked) == ["GetQuest"]
    history.new("GetQuest", "somebody").attempts.append(Attempt("core-1", 3.0, 4.0, 200))
    assert never_done(history.asked) == []
    assert never_done([]) == sorted(BY_NAME.keys() - ELSEWHERE.keys())


def test_what_cannot_be_done_counts_where_it_was_asked() -> None:
    history = History()
    for name in REFUSED:
        history.new(name, "somebody").attempts.append(Attempt("core-1", 1.0, 2.0, 400, reason="ILLEGAL_TRANSITION"))
    assert not REFUSED.keys() & set(never_done(history.asked)) and REFUSED.keys() <= set(never_done([]))


class Answering:
    """A client whose every request is refused for one reason, in as many attempts as are told."""

    def __init__(self, history: History, attempts: int = 1) -> None:
        self.history, self.attempts = history, attempts

    async def ask(self, operation: str, who: str, verb: str, path: str, body: Any = None, **more: Any) -> Asked:
        asked = self.history.new(operation, who, facts={"refusals": more["refusals"]})
        lost = [Attempt("core-1", 1.0) for _ in range(self.attempts - 1)]
        asked.attempts += [*lost, Attempt("core-1", 2.0, 3.0, 409, reason="CHALLENGE_EXISTS")]
        return asked


async def test_a_challenge_that_exists_is_expected_at_first_alone_and_after_what_was_lost() -> None:
    history = History()
    client = Answering(history)
    about = {"tenant_id": "tenant", "receiver_url": "", "campaign": "campaign", "ids": defaultdict(str)}
    world = cast(World, SimpleNamespace(client=client, **about))
    errands = Errands(world, random.Random(1), "p")
    row = BY_NAME["IssueChallenge"]
    for attempts in (1, 1, 2, 1):
        client.attempts = attempts
        await errands._ask(row)
    expected = ["CHALLENGE_EXISTS" in asked.facts["refusals"] for asked in history.asked]
    assert expected == [True, False, True, False]
