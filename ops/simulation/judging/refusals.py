"""Which refusals have a cause: what somebody did, or what went wrong, that may be answered so.

Every operation has the reasons that it may be refused for here; any other is a violation. Some of them a model judges
(caps, turns, stock, states, balances): those are `MODELLED`. Of the others it is looked for what gave cause to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ops.simulation.history import UNKNOWN, Attempt
from ops.simulation.judging.reading import LATE_SECONDS, SLACK_SECONDS, Reading
from ops.simulation.node import SETTINGS

Cause = Callable[[Reading, Attempt], bool]

AFTER_SECONDS: Final = 15.0
"""How long after a fault somebody may still go without an answer: as long as a request that it held up takes."""


PLANNED: Final = ("gift",)
"""Games whose sessions have a plan, which is of one play."""


def _modelled(reading: Reading, attempt: Attempt) -> bool:
    """The models say whether it was right."""
    return True


def _between(reading: Reading, attempt: Attempt, made: Iterable[Attempt], undoes: Callable[[Attempt], bool]) -> bool:
    """Whether a step may have done something before this was answered, and undone it not before it was asked."""
    steps: dict[int, list[Attempt]] = {}
    for one in made:
        if one.ok or one.outcome == UNKNOWN:
            steps.setdefault(one.step, []).append(one)
    for own in steps.values():
        did = [one.began for one in own if not undoes(one)]
        undone = [one.ended for one in own if undoes(one) and one.ok]
        if did and min(did) <= attempt.ended and min(undone, default=attempt.began) >= attempt.began - LATE_SECONDS:
            return True
    return False


def _suspended(reading: Reading, attempt: Attempt) -> bool:
    whose = reading.person(reading.player_of(attempt))
    made = [one for one in reading.of("SetPlayerStatus") if reading.person(one.request["id"]) == whose]
    return _between(reading, attempt, made, lambda one: bool(one.request["status"] == "active"))


def _paused(reading: Reading, attempt: Attempt) -> bool:
    made = [one for one in _changes(reading, attempt) if "status" in one.request["game"]]
    return _between(reading, attempt, made, lambda one: bool(one.request["game"]["status"] == "active"))


def _changes(reading: Reading, attempt: Attempt) -> list[Attempt]:
    """What staff did to the game that was asked about."""
    return [one for one in reading.of("UpdateGame") if one.request["id"] == attempt.request["id"]]


def _changed(reading: Reading, attempt: Attempt) -> bool:
    """Since the session began."""
    began = reading.begun(attempt.request["session_id"]) - LATE_SECONDS
    made = [one for one in _changes(reading, attempt) if "handler_config" in one.request["game"]]
    return any(one.began <= attempt.ended and one.ended >= began for one in made)


def _too_late(reading: Reading, attempt: Attempt) -> bool:
    """The session's time is over; or the play that it was to follow was not kept, which nobody was told of."""
    life = SETTINGS.session_ttl_seconds - SLACK_SECONDS - reading.steps_seconds
    if attempt.ended - reading.begun(attempt.request["session_id"]) >= life:
        return True
    return reading.game_of(attempt) in PLANNED and any(
        one.outcome == UNKNOWN and one.request["session_id"] not in reading.plays
        for one in _neighbours(reading, attempt)
    )


def _played(reading: Reading, attempt: Attempt) -> bool:
    """Its play is there; or another one is, of a session that promised the same place in the player's plays."""
    own = attempt.request["session_id"]
    return own in reading.plays or (
        reading.game_of(attempt) in PLANNED
        and any(one.request["session_id"] in reading.plays for one in _neighbours(reading, attempt))
    )


def _neighbours(reading: Reading, attempt: Attempt) -> list[Attempt]:
    """Who played the same game as the same person, in other sessions, before this was answered."""
    whose, session = reading.person(reading.player_of(attempt)), attempt.request["session_id"]
    return [
        one
        for one in reading.of("Play")
        if one.request["id"] == attempt.request["id"]
        and one.request["session_id"] != session
        and one.began <= attempt.ended
        and reading.person(reading.player_of(one)) == whose
    ]


def _became(reading: Reading, attempt: Attempt) -> bool:
    """The guest is a player by now."""
    own = {attempt.request.get("player_id", ""), reading.player_of(attempt)} & reading.became.keys()
    logins = [one for one in reading.of("ResolvePlayer") if one.request.get("guest_player_id") in own]
    return any(one.began <= attempt.ended for one in logins)


def _stranger(reading: Reading, attempt: Attempt) -> bool:
    """Nobody of that id had surely been there before; or whoever had is lost, as a restore means it."""
    if reading.world.restored_at:
        return True
    player_id = attempt.request.get("player_id") or attempt.request["id"]
    met = [one for one in reading.attempts if one.ok and one.request.get("player_id") == player_id]
    return all(one.ended > attempt.began for one in met if one.operation in ("Start", "Play", "CompleteQuest"))


def _lost(reading: Reading, attempt: Attempt) -> bool:
    """The database went on from an earlier time, in which it is not there."""
    there = {row.reward_id for row in reading.tables.rewards} | {row.task_id for row in reading.tables.tasks}
    return bool(reading.world.restored_at) and attempt.request["id"] not in there


def _finalized(reading: Reading, attempt: Attempt) -> bool:
    return any(one.began <= attempt.ended for one in reading.of("FinalizeLeaderboard"))


def _disqualified(reading: Reading, attempt: Attempt) -> bool:
    whose = reading.person(attempt.request["player_id"])
    made = [one for one in reading.of("DisqualifyPlayer") if reading.person(one.request["player_id"]) == whose]
    return any(one.began <= attempt.ended for one in made)


OF_PLAYERS: Final[Mapping[str, Cause]] = {
    "SUSPENDED": _suspended,
    "PLAYER_MERGED": _became,
}
OF_GAMES: Final[Mapping[str, Cause]] = {
    **OF_PLAYERS,
    "GAME_INACTIVE": _paused,
    **dict.fromkeys(("CAP_USER", "CAP_DAY", "NO_TURNS"), _modelled),
}

CAUSES: Final[Mapping[str, Mapping[str, Cause]]] = {
    "Start": OF_GAMES,
    "Play": {
        **OF_GAMES,
        "GAME_CHANGED": _changed,
        "SESSION_EXPIRED": _too_late,
        "SESSION_PLAYED": _played,
        "SESSION_INVALID": _became,
    },
    "GetEligibility": OF_GAMES,
    "ListMilestones": OF_PLAYERS,
    "ListBalances": OF_PLAYERS,
    "ListRankings": OF_PLAYERS,
    "ClaimReward": {
        **OF_PLAYERS,
        **dict.fromkeys(("ALREADY_CLAIMED", "ILLEGAL_TRANSITION", "UNKNOWN_REWARD", "OUT_OF_STOCK"), _modelled),
    },
    "Redeem": {
        **OF_PLAYERS,
        "GAME_INACTIVE": _paused,
        "UNKNOWN_PLAYER": _stranger,
        **dict.fromkeys(("THRESHOLD_NOT_REACHED", "ALREADY_GRANTED", "OUT_OF_STOCK"), _modelled),
    },
    "CompleteQuest": {**OF_PLAYERS, "ALREADY_COMPLETED": _modelled},
    "ResolvePlayer": {},
    "AdjustBalance": {"INSUFFICIENT_BALANCE": _modelled, "UNKNOWN_PLAYER": _stranger, "PLAYER_MERGED": _became},
    "AdjustScore": {
        "BOARD_FINALIZED": _finalized,
        "UNKNOWN_PLAYER": _stranger,
        "DISQUALIFIED": _disqualified,
        "PLAYER_MERGED": _became,
    },
    "DisqualifyPlayer": {"BOARD_FINALIZED": _finalized, "UNKNOWN_PLAYER": _stranger, "PLAYER_MERGED": _became},
    "SetPlayerStatus": {"UNKNOWN_PLAYER": _stranger, "PLAYER_MERGED": _became},
    "RevokeReward": {"ILLEGAL_TRANSITION": _modelled, "UNKNOWN_REWARD": _lost},
    "FulfillReward": {"ILLEGAL_TRANSITION": _modelled, "OUT_OF_STOCK": _modelled, "UNKNOWN_REWARD": _lost},
    "RetryTask": {"ILLEGAL_TRANSITION": _modelled, "OUT_OF_STOCK": _modelled, "UNKNOWN_TASK": _lost},
    "CompleteTask": {"ILLEGAL_TRANSITION": _modelled, "OUT_OF_STOCK": _modelled, "UNKNOWN_TASK": _lost},
    "UpdatePrize": {"STOCK_BELOW_AWARDED": _modelled},
}
"""Of each operation the reasons that there may be, with what gives cause to them; one that is not here has none."""


def uncalled(reading: Reading) -> Attempt | None:
    """The first attempt that was refused without a cause, or told of one that is not there."""
    for attempt in reading.held:
        reason = attempt.outcome if attempt.refused else ""
        if attempt.operation == "GetEligibility" and attempt.ok:
            reason = attempt.answer["reason"]
        if reason in ("", "UNREACHABLE"):
            continue
        cause = CAUSES.get(attempt.operation, {}).get(reason)
        if cause is None or not cause(reading, attempt):
            return attempt
    return None


def unanswered(reading: Reading) -> Attempt | None:
    """The first attempt that was not answered, or told to come again, while nothing was wrong, nor had been of late."""
    faults = {fault.number: fault for fault in reading.world.plan.faults}
    met = [(note.at, faults[note.fault]) for note in reading.world.history.notes if note.fault is not None]
    own = {fault.where for _, fault in met if fault.kind in OF_ONE}
    times = [(at, at + max(0.0, fault.seconds)) for at, fault in met if fault.kind not in OF_ONE]
    for attempt in reading.held:
        if attempt.outcome not in (UNKNOWN, "UNREACHABLE") or f"step-{attempt.step}" in own:
            continue
        if not any(began - AFTER_SECONDS <= attempt.began <= ended + AFTER_SECONDS for began, ended in times):
            return attempt
    return None


OF_ONE: Final = ("hang_up", "unheard")
"""Faults of one step, that nobody else notices."""
